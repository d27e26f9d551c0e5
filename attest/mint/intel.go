package mint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
)

// Intel is a test hierarchy of Intel's: a root, which signs the PCK CAs, the TCB signing certificate and a revocation list
// of them; the PCK CAs sign certificates and lists of their own.
type Intel struct {
	Root, PlatformCA, ProcessorCA, TCBSigner Certificate
	keys                                     string // seed of every key below the root's
}

// NewIntel returns the test hierarchy.
func NewIntel() *Intel { return newIntel("one") }

// NewIntelImpostor returns a hierarchy with the same names, serial numbers and dates but other keys: what a stranger can
// make who calls his own root Intel SGX Root CA.
func NewIntelImpostor() *Intel { return newIntel("impostor") }

func newIntel(keys string) *Intel {
	i := &Intel{keys: keys}
	i.Root = i.NewCA("Intel SGX Root CA", 0x2265, nil)
	i.PlatformCA = i.NewCA("Intel SGX PCK Platform CA", 0x956f, &i.Root)
	i.ProcessorCA = i.NewCA("Intel SGX PCK Processor CA", 0xd0e8, &i.Root)
	i.TCBSigner = i.NewTCBSigner(0x7e38, &i.Root, time.Date(2025, 5, 6, 9, 25, 0, 0, time.UTC))
	return i
}

// NewCA makes a CA of any name: a root where issuer is nil, else one that issues certificates of platforms.
func (i *Intel) NewCA(name string, serial int64, issuer *Certificate) Certificate {
	born := time.Date(2018, 5, 21, 10, 45, 10, 0, time.UTC)
	t := ecTemplate{serial: big.NewInt(serial), name: intelName(name), notBefore: born, notAfter: born.AddDate(15, 0, 0), ca: true, crl: intelRootCRL}
	if issuer == nil {
		t.pathLength, t.notAfter = 1, born.AddDate(31, 0, 0)
	}
	return t.issue(p256Key(i.keys, name), issuer)
}

// NewTCBSigner issues a TCB signing certificate, with its own key for each serial number, for seven years from a date.
func (i *Intel) NewTCBSigner(serial int64, issuer *Certificate, from time.Time) Certificate {
	const name = "Intel SGX TCB Signing"
	return ecTemplate{serial: big.NewInt(serial), name: intelName(name), notBefore: from, notAfter: from.AddDate(7, 0, 0), crl: intelRootCRL}.
		issue(p256Key(i.keys, name, big.NewInt(serial).Text(16)), issuer)
}

const intelRootCRL = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"

// QEMRSigner is MRSIGNER of the minted quoting enclave; it is not Intel's.
var QEMRSigner = sha256.Sum256([]byte("assay/mint/quoting-enclave-signer/v1"))

// Roots returns the root files, as the verifier's pinned set has them: the root, and the signer of the quoting enclave.
func (i *Intel) Roots() []attest.RootFile {
	return []attest.RootFile{
		{Name: tdx.RootFile, Data: i.Root.PEM()},
		{Name: tdx.QESignerFile, Data: fmt.Appendf(nil, "%x 2\n", QEMRSigner)},
	}
}

// IntelPlatform is what a PCK certificate says of a platform.
type IntelPlatform struct {
	FMSPC  [6]byte
	PCEID  [2]byte
	PPID   [16]byte
	PIID   [16]byte // zero: the certificate has none, as those of the Processor CA
	SVNs   tdx.SVN  // SGX TCB components
	PCESVN uint16
}

// IntelPlatform returns an imagined platform of several packages, at the TCB that [Intel.SoundTCBInfo] calls up to date.
func (i *Intel) IntelPlatform(name string) IntelPlatform {
	h := canon.Hash64("assay/mint/intel-platform/v1", []byte(name))
	return IntelPlatform{
		FMSPC: [6]byte{0x00, 0x80, 0x6f, 0x05, 0x00, 0x00}, PPID: [16]byte(h[:16]), PIID: [16]byte(h[16:32]),
		SVNs: tdx.SVN{3, 3, 2, 2, 4, 1, 0, 5}, PCESVN: 13,
	}
}

// PCKOptions change how a PCK certificate is made. The zero PCKOptions make it as Intel does.
type PCKOptions struct {
	NotBefore time.Time    // zero: 2026-01-01
	NotAfter  time.Time    // zero: seven years after NotBefore
	Issuer    *Certificate // nil: the Platform CA
	Extension []byte       // the SGX extension (DER); nil: as p says
	Critical  bool         // the SGX extension is critical, so that who does not know it must refuse
}

// PCK certifies a platform. Its serial number follows from the platform.
func (i *Intel) PCK(p IntelPlatform, o PCKOptions) Certificate {
	if o.NotBefore.IsZero() {
		o.NotBefore = oldest
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = o.NotBefore.AddDate(7, 0, 0)
	}
	if o.Issuer == nil {
		o.Issuer = &i.PlatformCA
	}
	if o.Extension == nil {
		o.Extension = p.Extension()
	}
	ca := "platform"
	if strings.Contains(o.Issuer.X509().Subject.CommonName, "Processor") {
		ca = "processor"
	}
	id := fmt.Sprintf("%x", sha256.Sum256(o.Extension))
	serial, _ := new(big.Int).SetString(id[:38], 16)
	return ecTemplate{
		serial: serial, name: intelName("Intel SGX PCK Certificate"), notBefore: o.NotBefore, notAfter: o.NotAfter,
		crl: "https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?ca=" + ca + "&encoding=der", extra: []extension{{sgxOID(), o.Extension}}, critical: o.Critical,
	}.issue(p256Key(i.keys, "pck", id), o.Issuer)
}

func sgxOID(tail ...int) asn1.ObjectIdentifier {
	return append(asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}, tail...)
}

// Extension returns the SGX extension of the platform's PCK certificate, in Intel's order (PCK Certificate and CRL
// Profile, section 3.2.1).
func (p IntelPlatform) Extension() []byte {
	return der(func(b *cryptobyte.Builder) {
		pair := func(b *cryptobyte.Builder, value func(*cryptobyte.Builder), arcs ...int) {
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(sgxOID(arcs...))
				value(b)
			})
		}
		octets := func(v []byte) func(*cryptobyte.Builder) {
			return func(b *cryptobyte.Builder) { b.AddASN1OctetString(v) }
		}
		number := func(v int64) func(*cryptobyte.Builder) {
			return func(b *cryptobyte.Builder) { b.AddASN1Int64(v) }
		}
		yes := func(b *cryptobyte.Builder) { b.AddASN1Boolean(true) }
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			pair(b, octets(p.PPID[:]), 1)
			pair(b, func(b *cryptobyte.Builder) {
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					for n, v := range p.SVNs {
						pair(b, number(int64(v)), 2, n+1)
					}
					pair(b, number(int64(p.PCESVN)), 2, 17)
					pair(b, octets(p.SVNs[:]), 2, 18)
				})
			}, 2)
			pair(b, octets(p.PCEID[:]), 3)
			pair(b, octets(p.FMSPC[:]), 4)
			pair(b, func(b *cryptobyte.Builder) { b.AddASN1Enum(1) }, 5)
			if p.PIID != [16]byte{} {
				pair(b, octets(p.PIID[:]), 6)
				pair(b, func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
						for arc := 1; arc <= 3; arc++ { // dynamic platform, cached keys, SMT
							pair(b, yes, 7, arc)
						}
					})
				}, 7)
			}
		})
	})
}

// PCKCRL makes the revocation list of a PCK CA, RootCRL that of the root. A zero next leaves nextUpdate out, which Intel
// never does.
func (i *Intel) PCKCRL(ca Certificate, this, next time.Time, revoked ...*big.Int) []byte {
	return ecCRL(ca, this, next, revoked)
}

func (i *Intel) RootCRL(this, next time.Time, revoked ...*big.Int) []byte {
	return ecCRL(i.Root, this, next, revoked)
}

// ecTemplate is what a certificate with a P-256 key says.
type ecTemplate struct {
	serial              *big.Int
	name                []byte // DER
	notBefore, notAfter time.Time
	ca                  bool
	pathLength          int64 // of a CA
	crl                 string
	extra               []extension
	critical            bool // extra is
}

// issue signs the certificate of key's public half with the issuer's key, or with key itself where issuer is nil.
func (t ecTemplate) issue(key *ecdsa.PrivateKey, issuer *Certificate) Certificate {
	id := keyID(key)
	issuerName, signer, issuerID := t.name, key, id
	if issuer != nil {
		issuerName, signer, issuerID = issuer.X509().RawSubject, issuer.key.(*ecdsa.PrivateKey), issuer.X509().SubjectKeyId
	}
	usage := []byte{asn1.TagBitString, 2, 6, 0xc0} // digitalSignature, nonRepudiation
	basic := func(b *cryptobyte.Builder) {}
	if t.ca {
		usage = []byte{asn1.TagBitString, 2, 1, 0x06} // keyCertSign, cRLSign
		basic = func(b *cryptobyte.Builder) { b.AddASN1Boolean(true); b.AddASN1Int64(t.pathLength) }
	}
	extensions := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			addExtension(b, x509OID(35), false, derKeyID(issuerID))
			addExtension(b, x509OID(31), false, derDistributionPoint(t.crl))
			addExtension(b, x509OID(14), false, der(func(b *cryptobyte.Builder) { b.AddASN1OctetString(id) }))
			addExtension(b, x509OID(15), true, usage)
			addExtension(b, x509OID(19), true, der(func(b *cryptobyte.Builder) { b.AddASN1(cb.SEQUENCE, basic) }))
			for _, e := range t.extra {
				addExtension(b, e.id, t.critical, e.value)
			}
		})
	})
	body := tbsCertificate{t.serial, ecAlgorithm(crypto.SHA256), issuerName, t.notBefore, t.notAfter, t.name, spki(&key.PublicKey), extensions}
	return Certificate{key: key, DER: ecSigned(body.der(), signer, crypto.SHA256)}
}

func ecCRL(issuer Certificate, this, next time.Time, revoked []*big.Int) []byte {
	x := issuer.X509()
	list := tbsList{algorithm: ecAlgorithm(crypto.SHA256), issuer: x.RawSubject, this: this, next: next, reasons: true, extensions: []extension{
		{x509OID(20), der(func(b *cryptobyte.Builder) { b.AddASN1Int64(1) })},
		{x509OID(35), derKeyID(x.SubjectKeyId)},
	}}
	for _, serial := range revoked {
		list.revoked = append(list.revoked, Revoked{serial, 1})
	}
	return ecSigned(list.der(), issuer.key.(*ecdsa.PrivateKey), crypto.SHA256)
}

// signRaw signs as quotes and TCB info have it: R and S, big-endian, 32 bytes each.
func signRaw(key *ecdsa.PrivateKey, message []byte) (out [64]byte) {
	rawSignature(out[:], ecSign(key, crypto.SHA256, message))
	return out
}

// keyID is the subject key identifier: method 1 of RFC 5280, section 4.2.1.2, with SHA-256 for SHA-1; it secures nothing.
func keyID(key *ecdsa.PrivateKey) []byte {
	point, err := key.PublicKey.Bytes()
	must(err)
	id := sha256.Sum256(point)
	return slices.Clone(id[:20])
}

// intelName returns Intel's name with a common name.
func intelName(commonName string) []byte {
	return derName(
		attribute{3, cb.UTF8String, commonName}, attribute{10, cb.UTF8String, "Intel Corporation"}, attribute{7, cb.UTF8String, "Santa Clara"},
		attribute{8, cb.UTF8String, "CA"}, attribute{6, cb.PrintableString, "US"})
}
