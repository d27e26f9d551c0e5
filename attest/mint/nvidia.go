package mint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

// NVIDIA is a test hierarchy of NVIDIA's: a device root with the authorities of each chip, and a root of manifests with
// those of each product.
type NVIDIA struct {
	Root, RIMRoot Certificate
	authorities   map[string]Certificate // below the roots, by common name
	keys          string                 // seed of every key
}

// NewNVIDIA returns the test hierarchy.
func NewNVIDIA() *NVIDIA { return newNVIDIA("nvidia") }

// NewNVIDIAImpostor returns a hierarchy with the same names, serial numbers and dates but other keys: what a stranger can
// make who calls his own root NVIDIA Device Identity CA.
func NewNVIDIAImpostor() *NVIDIA { return newNVIDIA("nvidia-impostor") }

var (
	nvidiaBorn  = time.Date(2022, 3, 1, 0, 0, 0, 0, time.UTC)
	nvidiaEnd   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	nvidiaChips = []string{"GH100", "GB100", "LS_10"}
)

// identityOf and provisionerOf name the authorities of a chip.
func identityOf(chip string) string {
	if chip == "LS_10" {
		chip = "GH100"
	}
	return "NVIDIA " + chip + " Identity"
}

func provisionerOf(chip string) string {
	return "NVIDIA " + chip + " Provisioner ICA " + map[string]string{"GH100": "1", "GB100": "00000", "LS_10": "1"}[chip]
}

func newNVIDIA(keys string) *NVIDIA {
	n := &NVIDIA{keys: keys, authorities: map[string]Certificate{}}
	ca := n.authority
	n.Root = ca("NVIDIA Device Identity CA", "NVIDIA", nvidiaEnd, nil)
	n.RIMRoot = ca("NVIDIA CoRIM signing Root CA", "NVIDIA", nvidiaBorn.AddDate(30, 0, 0), nil)
	for _, chip := range nvidiaChips {
		id := identityOf(chip)
		if _, ok := n.authorities[id]; !ok {
			n.authorities[id] = ca(id, "NVIDIA Corporation", nvidiaEnd, &n.Root)
		}
		up := n.authorities[id]
		n.authorities[provisionerOf(chip)] = ca(provisionerOf(chip), "NVIDIA Corporation", nvidiaEnd, &up)
		product := productOf(chip)
		top := ca("NVIDIA Reference Value "+product+" CA", "NVIDIA Corporation", nvidiaBorn.AddDate(11, 0, 0), &n.RIMRoot)
		n.authorities[top.X509().Subject.CommonName] = top
		n.authorities["NVIDIA Reference Value L3 "+product+" 001"] = ca("NVIDIA Reference Value L3 "+product+" 001", "NVIDIA Corporation", nvidiaBorn.AddDate(7, 0, 0), &top)
	}
	return n
}

// authority issues the certificate of an authority; issuer nil: a root's.
func (n *NVIDIA) authority(name, organization string, until time.Time, issuer *Certificate) Certificate {
	h := sha512.Sum384([]byte(name))
	t := nvTemplate{serial: new(big.Int).SetBytes(append([]byte{0x2d}, h[:15]...)), name: nvName("", name, organization), notBefore: nvidiaBorn, notAfter: until, ca: true}
	return t.issue(p384Key(n.keys, name), issuer)
}

func productOf(chip string) string { return strings.ReplaceAll(chip, "_", "") }

// Roots returns the root files, as the verifier's pinned set has them.
func (n *NVIDIA) Roots() []attest.RootFile {
	return []attest.RootFile{{Name: nvidia.DeviceRootFile, Data: n.Root.PEM()}, {Name: nvidia.RIMRootFile, Data: n.RIMRoot.PEM()}}
}

// NVIDIADevice is a GPU or a switch: what its reports say, and what certifies the key that signs them. Report may be changed
// before use, the rest by [NVIDIA.Certify].
type NVIDIADevice struct {
	Chip   string // GH100, GB100, LS_10
	PDI    [nvidia.PDISize]byte
	Report nvidia.Report // but for nonces and signature
	Chain  []Certificate // of its key, of itself, provisioner, identity, root
	FWID   [48]byte      // digest of the firmware that holds the key
}

// NVIDIAOptions change how a device is certified. The zero NVIDIAOptions certify it as NVIDIA does.
type NVIDIAOptions struct {
	Prefix      byte      // of the device's serial number; 0: as the chip has it
	Calls       string    // serial number in the subject of the device's certificate; "": the true one
	KeyCalls    string    // serial number in the subject of the key's certificate; "": the true one
	KeyName     string    // common name of the key's certificate; "": as the chip has it
	DeviceName  string    // common name of the device's certificate; "": as the chip has it
	Names       string    // device name in the key's certificate; "": NVIDIA:CHIP:48B02D…
	FWID        []byte    // that the key is certified for; nil: the device's own; empty: none
	Composite   []byte    // SubjectPublicKeyInfo in the composite device id; nil: the device's
	NotBefore   time.Time // of the key's certificate; zero: 2022-03-01
	NotAfter    time.Time // of the key's certificate; zero: 9999-12-31
	Provisioner string    // common name of the authority; "": the chip's
	Critical    bool      // an extension that nobody knows is critical
	OfAuthority bool      // the key's certificate is that of an authority
	BySHA256    bool      // the key's certificate is signed with SHA-256
	KeySerial   []byte    // serial number of the key's certificate; nil: 20 bytes
	Usage       byte      // key usage of the key's certificate (RFC 5280, section 4.2.1.3); 0: digitalSignature, or an authority's
	Identity    string    // common name of the authority above the provisioner; "": the chip's
	P256        bool      // the key is on P-256
	NameDER     []byte    // alternative name of the key's certificate; nil: of Names
	FWIDDER     []byte    // extension that names the firmware; nil: of FWID
}

// chipNames are the common names of a device's two certificates.
func chipNames(chip string) (key, device string) {
	engine := map[string]string{"LS_10": "FSP"}[chip]
	if engine == "" {
		engine = "GSP"
	}
	return chip + " A01 " + engine + " FMC LF", chip + " A01 " + engine + " BROM"
}

// Certify issues the certificates of a device.
func (n *NVIDIA) Certify(d *NVIDIADevice, o NVIDIAOptions) {
	keyName, deviceName := chipNames(d.Chip)
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	if o.Prefix == 0 {
		o.Prefix = map[string]byte{"LS_10": 0x50}[d.Chip]
	}
	if o.Prefix == 0 {
		o.Prefix = 0x41
	}
	serial := append([]byte{o.Prefix}, d.PDI[:]...)
	h := canon.Hash64("assay/mint/nvidia-device/v1", []byte(d.Chip), d.PDI[:])
	keySerial := o.KeySerial
	if keySerial == nil {
		keySerial = append([]byte{0x53}, h[:19]...)
	}
	def(&o.Calls, strings.ToUpper(hex.EncodeToString(serial)))
	def(&o.KeyCalls, strings.ToUpper(hex.EncodeToString(keySerial)))
	def(&o.KeyName, keyName)
	def(&o.DeviceName, deviceName)
	def(&o.Names, "NVIDIA:"+d.Chip+":48B02D"+strings.ToUpper(hex.EncodeToString(h[20:25])))
	def(&o.Provisioner, provisionerOf(d.Chip))
	if o.FWID == nil {
		o.FWID = d.FWID[:]
	}
	if o.NotBefore.IsZero() {
		o.NotBefore = nvidiaBorn
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = nvidiaEnd
	}
	provisioner := n.authorities[o.Provisioner]
	identity := n.authorities[identityOf(d.Chip)]
	if o.Identity != "" {
		identity = n.authorities[o.Identity]
		provisioner = n.authority(o.Provisioner, "NVIDIA Corporation", nvidiaEnd, &identity)
	}
	pdi := hex.EncodeToString(d.PDI[:])
	device := nvTemplate{serial: new(big.Int).SetBytes(serial), name: nvName(o.Calls, o.DeviceName, "NVIDIA Corporation"), notBefore: nvidiaBorn, notAfter: nvidiaEnd, ca: true}.
		issue(p384Key(n.keys, "device", d.Chip, pdi), &provisioner)
	if o.Composite == nil {
		o.Composite = device.X509().RawSubjectPublicKeyInfo
	}
	if o.NameDER == nil {
		o.NameDER = derDeviceName(o.Names)
	}
	extra := []extension{{x509OID(17), o.NameDER}}
	firmware := extension{asn1.ObjectIdentifier{2, 23, 133, 5, 4, 1}, o.FWIDDER}
	if d.Chip == "GB100" {
		firmware.id = asn1.ObjectIdentifier{2, 23, 133, 5, 4, 1, 1}
	}
	switch {
	case o.FWIDDER != nil || len(o.FWID) == 0:
	case d.Chip == "GB100":
		firmware.value = derTCBInfo(o.FWID)
	default:
		firmware.value = derCompositeDeviceID(o.Composite, o.FWID)
	}
	if firmware.value != nil {
		extra = append(extra, firmware)
	}
	private := p384Key(n.keys, "key", d.Chip, pdi)
	if o.P256 {
		private = p256Key(n.keys, "key", d.Chip, pdi)
	}
	key := nvTemplate{
		serial: new(big.Int).SetBytes(keySerial), name: nvName(o.KeyCalls, o.KeyName, "NVIDIA Corporation"), notBefore: o.NotBefore, notAfter: o.NotAfter,
		extra: extra, critical: o.Critical, ca: o.OfAuthority, sha256: o.BySHA256, usage: o.Usage,
	}.issue(private, &device)
	d.Chain = []Certificate{key, device, provisioner, identity, n.Root}
}

// PEM returns the device's certificates as its driver gives them.
func (d *NVIDIADevice) PEM() (text []byte) {
	for _, c := range d.Chain {
		text = append(text, c.PEM()...)
	}
	return text
}

// derDeviceName is a subject alternative name with the device name of DMTF (DSP0274).
func derDeviceName(name string) []byte {
	tag0 := cb.Tag(0).ContextSpecific().Constructed()
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(tag0, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 412, 274, 1})
				b.AddASN1(tag0, func(b *cryptobyte.Builder) {
					b.AddASN1(cb.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(name)) })
				})
			})
		})
	})
}

func addFWID(b *cryptobyte.Builder, digest []byte) {
	b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2})
		b.AddASN1OctetString(digest)
	})
}

func derCompositeDeviceID(spki, fwid []byte) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1Int64(1)
			b.AddBytes(spki)
			addFWID(b, fwid)
		})
	})
}

// derTCBInfo is DiceTcbInfo as Blackwell has it: two firmware ids, the second of zeros.
func derTCBInfo(fwid []byte) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			for tag, value := range [][]byte{[]byte("NVIDIA"), []byte("GB100 A01 GSP"), []byte("01"), {1}, {0}, {0}} {
				b.AddASN1(cb.Tag(tag).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(value) })
			}
			b.AddASN1(cb.Tag(6).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
				addFWID(b, fwid)
				addFWID(b, make([]byte, 48))
			})
			for tag, value := range [][]byte{{0, 0x80, 0, 0, 1}, {0xc0}, {0}} {
				b.AddASN1(cb.Tag(7+tag).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(value) })
			}
		})
	})
}

// nvTemplate is what a certificate of NVIDIA's says.
type nvTemplate struct {
	serial              *big.Int
	name                []byte // DER
	notBefore, notAfter time.Time
	ca, ocsp            bool // an authority; an OCSP responder
	critical            bool
	sha256              bool
	usage               byte // key usage; 0: as of the kind
	extra               []extension
}

// issue signs the certificate of key's public half with the issuer's key, or with key itself where issuer is nil.
func (t nvTemplate) issue(key *ecdsa.PrivateKey, issuer *Certificate) Certificate {
	id := keyID(key)
	issuerName, signer, issuerID := t.name, key, id
	if issuer != nil {
		x := issuer.X509()
		issuerName, signer, issuerID = x.RawSubject, issuer.key.(*ecdsa.PrivateKey), x.SubjectKeyId
	}
	extensions := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			usage := []byte{asn1.TagBitString, 2, 7, 0x80} // digitalSignature
			if t.ca {
				addExtension(b, x509OID(19), true, der(func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1Boolean(true) })
				}))
				usage = []byte{asn1.TagBitString, 2, 1, 0x06} // keyCertSign, cRLSign
			}
			if t.usage != 0 {
				usage = []byte{asn1.TagBitString, 2, byte(bits.TrailingZeros8(t.usage)), t.usage}
			}
			addExtension(b, x509OID(15), true, usage)
			if t.ocsp {
				addExtension(b, x509OID(37), true, der(func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
						b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 9})
					})
				}))
			}
			addExtension(b, x509OID(14), false, der(func(b *cryptobyte.Builder) { b.AddASN1OctetString(id) }))
			addExtension(b, x509OID(35), false, derKeyID(issuerID))
			for _, e := range t.extra {
				addExtension(b, e.id, false, e.value)
			}
			if t.critical {
				addExtension(b, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 5703, 999}, true, []byte{asn1.TagNull, 0})
			}
		})
	})
	hash := crypto.SHA384
	if t.sha256 {
		hash = crypto.SHA256
	}
	body := tbsCertificate{t.serial, ecAlgorithm(hash), issuerName, t.notBefore, t.notAfter, t.name, spki(&key.PublicKey), extensions}
	return Certificate{key: key, DER: ecSigned(body.der(), signer, hash)}
}

// nvSignRaw signs as reports and manifests have it: R and S, big-endian, 48 bytes each.
func nvSignRaw(key *ecdsa.PrivateKey, message []byte) (out [96]byte) {
	rawSignature(out[:], ecSign(key, crypto.SHA384, message))
	return out
}

// nvName returns a name of NVIDIA's; a device's begins with its serial number.
func nvName(serial, commonName, organization string) []byte {
	if serial != "" {
		return derName(attribute{5, cb.PrintableString, serial}, attribute{6, cb.PrintableString, "US"}, attribute{10, cb.UTF8String, organization}, attribute{3, cb.UTF8String, commonName})
	}
	return derName(attribute{3, cb.UTF8String, commonName}, attribute{10, cb.UTF8String, organization})
}

// issuerOf returns the authority above a certificate of the hierarchy.
func (n *NVIDIA) issuerOf(c *x509.Certificate) Certificate {
	for _, a := range append([]Certificate{n.Root, n.RIMRoot}, n.sorted()...) {
		if slices.Equal(a.X509().RawSubject, c.RawIssuer) {
			return a
		}
	}
	panic("mint: internal error: no authority above " + c.Subject.CommonName)
}

// sorted returns the authorities below the roots, by name.
func (n *NVIDIA) sorted() (all []Certificate) {
	var names []string
	for name := range n.authorities {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, n.authorities[name])
	}
	return all
}
