package mint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/asn1"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// TPMMaker is a maker of TPMs: a root and the authority below it that certifies endorsement and attestation keys.
type TPMMaker struct{ Root, CA Certificate }

// NewTPMMaker returns the test maker.
func NewTPMMaker() *TPMMaker { return newTPMMaker("root") }

// NewTPMImpostor returns a maker with the same names and another root key: what a stranger can make.
func NewTPMImpostor() *TPMMaker { return newTPMMaker("impostor") }

func newTPMMaker(rootKey string) *TPMMaker {
	m := &TPMMaker{}
	root, ca := rsaKey("tpm-"+rootKey), rsaKey("tpm-ca")
	born := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	t := tpmTemplate{subject: tpmName("Mint TPM Root CA"), notBefore: born, notAfter: born.AddDate(35, 0, 0), serial: big.NewInt(1)}
	t.extensions = []tpmExtension{{x509OID(19), true, derCA(-1)}, {x509OID(15), true, []byte{asn1.TagBitString, 2, 1, 0x06}}}
	m.Root = t.issue(root, nil)
	t.subject, t.serial = tpmName("Mint TPM Manufacturing CA 001"), big.NewInt(2)
	t.extensions[0].value = derCA(0)
	m.CA = t.issue(ca, &m.Root)
	return m
}

// Roots returns the root file of the maker: root and authority.
func (m *TPMMaker) Roots() []attest.RootFile {
	return []attest.RootFile{{Name: "tpm-mint.pem", Data: append(m.Root.PEM(), m.CA.PEM()...)}}
}

// TPM is a TPM in a machine that boots, seen by who asks it for quotes. Its fields may be changed between quotes.
type TPM struct {
	Maker  *TPMMaker
	Name   string
	Public tpm.Public // of the attestation key
	Fields tpm.Attest // clock, counters and firmware of the next quotes; the rest is filled in
	Log    EventLog
	IMA    string // measurement list, as text
	ek, ak crypto.Signer
	pcrs   map[eventlog.Algorithm][][]byte
}

// TPM returns an imagined TPM with keys on P-256, just started: registers as a start leaves them, an empty log.
func (m *TPMMaker) TPM(name string) *TPM {
	ak := ecKey(elliptic.P256(), "tpm key", "AK", name)
	t := &TPM{Maker: m, Name: name, ek: ecKey(elliptic.P256(), "tpm key", "EK", name), ak: ak}
	t.Public = tpm.Public{Type: tpm.AlgECC, Scheme: tpm.AlgECDSA, Curve: tpm.CurveP256, KDF: tpm.AlgNull}
	point, err := ak.PublicKey.Bytes()
	must(err)
	t.Public.X, t.Public.Y = point[1:33], point[33:]
	t.start()
	return t
}

// RSATPM returns a TPM with RSA keys of 2048 bits. There is one such pair of keys, whatever the name.
func (m *TPMMaker) RSATPM(name string, scheme uint16) *TPM {
	ak := rsaKey("tpm-ak")
	t := &TPM{Maker: m, Name: name, ek: rsaKey("tpm-ek"), ak: ak}
	t.Public = tpm.Public{Type: tpm.AlgRSA, Scheme: scheme, Bits: 2048, N: ak.N.Bytes()}
	t.start()
	return t
}

func (t *TPM) start() {
	t.Public.NameAlg, t.Public.SchemeHash, t.Public.Symmetric = eventlog.SHA256, eventlog.SHA256, tpm.AlgNull
	t.Public.Attributes = tpm.FixedTPM | tpm.FixedParent | tpm.SensitiveDataOrigin | tpm.UserWithAuth | tpm.Restricted | tpm.Sign
	t.Fields = tpm.Attest{Magic: tpm.Magic, Type: tpm.TypeQuote, Clock: 90_000, ResetCount: 7, RestartCount: 0, Safe: true, FirmwareVersion: 0x0007_0055_0011_2233}
	t.pcrs = map[eventlog.Algorithm][][]byte{}
	for _, a := range []eventlog.Algorithm{eventlog.SHA1, eventlog.SHA256, eventlog.SHA384} {
		for i := range 24 {
			v := make([]byte, a.Size())
			for j := range v {
				if i >= 17 && i <= 22 {
					v[j] = 0xff
				}
			}
			t.pcrs[a] = append(t.pcrs[a], v)
		}
	}
	t.Log = NewEventLog(eventlog.SHA1, eventlog.SHA256, eventlog.SHA384)
}

// AK returns the public area of the attestation key.
func (t *TPM) AK() []byte { return t.Public.Encode() }

// EKDigest names the TPM, as activation records and identities do.
func (t *TPM) EKDigest() canon.Digest { return tpm.KeyDigest(t.ek.Public()) }

// Identity returns the identity of the TPM, as enrolments and deny lists name it.
func (t *TPM) Identity() attest.Identity {
	d := t.EKDigest()
	return attest.Identity{Kind: attest.IdentityTPMEK, Value: d[:]}
}

// Activation returns the record of an activation of the attestation key by this TPM.
func (t *TPM) Activation() attest.Activation {
	return attest.Activation{EK: t.EKDigest(), AK: tpm.Name(t.AK()), Verifier: "mint"}
}

// Extend extends a register of every bank with the digest of what is measured.
func (t *TPM) Extend(register int, measured []byte) {
	for a, values := range t.pcrs {
		values[register] = sum(a, append(slices.Clone(values[register]), sum(a, measured)...))
	}
}

// ExtendDigest extends a register of the SHA-256 bank with a digest.
func (t *TPM) ExtendDigest(register int, digest []byte) {
	values := t.pcrs[eventlog.SHA256]
	values[register] = sum(eventlog.SHA256, append(slices.Clone(values[register]), digest...))
}

// Measure extends a register with data and logs it as an event of a type; measured is what is extended where it is not
// data.
func (t *TPM) Measure(register int, typ eventlog.Type, data, measured []byte) {
	if measured == nil {
		measured = data
	}
	t.Extend(register, measured)
	t.Log.Add(register, typ, data, measured)
}

// MeasureFile logs a file to the kernel's measurement list and extends PCR 10.
func (t *TPM) MeasureFile(path string, content []byte) {
	digest := sha256.Sum256(content)
	var template littleEndian
	template.sized(append([]byte("sha256:\x00"), digest[:]...))
	template.sized(append([]byte(path), 0))
	t.IMA += fmt.Sprintf("10 %x ima-ng sha256:%x %s\n", sha1.Sum(template), digest, path)
	t.Extend(eventlog.IMARegister, template)
}

// Violate logs a violation: zeros in the list, FF in the register.
func (t *TPM) Violate(path string) {
	t.IMA += fmt.Sprintf("10 %040x ima-ng sha256:%064x %s\n", 0, 0, path)
	for a, values := range t.pcrs {
		ff := make([]byte, a.Size())
		for i := range ff {
			ff[i] = 0xff
		}
		values[eventlog.IMARegister] = sum(a, append(slices.Clone(values[eventlog.IMARegister]), ff...))
	}
}

type littleEndian []byte

func (b *littleEndian) sized(x []byte) {
	n := len(x)
	*b = append(append(*b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24)), x...)
}

func sum(a eventlog.Algorithm, b []byte) []byte {
	h := a.Hash().New()
	h.Write(b)
	return h.Sum(nil)
}

// PCRs returns registers of a bank as they are now.
func (t *TPM) PCRs(bank eventlog.Algorithm, registers ...int) (pcrs []tpm.PCR) {
	for _, i := range registers {
		pcrs = append(pcrs, tpm.PCR{Bank: bank, Index: i, Value: slices.Clone(t.pcrs[bank][i])})
	}
	return pcrs
}

// Quote returns the structure that the TPM would sign over registers: the caller may change it before [TPM.Sign].
func (t *TPM) Quote(qualifying []byte, pcrs []tpm.PCR) tpm.Attest {
	q := t.Fields
	name := tpm.Name(t.AK())
	q.QualifiedSigner, q.ExtraData = name, qualifying
	banks := map[eventlog.Algorithm][]int{}
	for _, p := range pcrs {
		banks[p.Bank] = append(banks[p.Bank], p.Index)
	}
	for _, bank := range slices.Sorted(maps.Keys(banks)) {
		slices.Sort(banks[bank])
		q.Selections = append(q.Selections, tpm.Selection{Bank: bank, PCRs: banks[bank]})
	}
	sorted, err := tpm.ParsePCRs(tpm.EncodePCRs(pcrs))
	must(err)
	q.PCRDigest, _ = tpm.DigestOf(q.Selections, sorted, t.Public.SchemeHash)
	return q
}

// Sign signs bytes with the attestation key as the TPM does, whatever they are, and returns the TPMT_SIGNATURE.
func (t *TPM) Sign(message []byte) []byte {
	s := tpm.Signature{Scheme: t.Public.Scheme, Hash: t.Public.SchemeHash}
	digest := sum(s.Hash, message)
	var opts crypto.SignerOpts = s.Hash.Hash()
	switch {
	case s.Scheme == tpm.AlgECDSA:
		der, err := t.ak.Sign(nil, digest, opts) // no randomness: the nonce of RFC 6979
		must(err)
		var v struct{ R, S *big.Int }
		_, err = asn1.Unmarshal(der, &v)
		must(err)
		s.R, s.S = v.R.FillBytes(make([]byte, 32)), v.S.FillBytes(make([]byte, 32))
		return s.Encode()
	case s.Scheme == tpm.AlgRSAPSS:
		opts = &rsa.PSSOptions{SaltLength: s.Hash.Size(), Hash: s.Hash.Hash()}
	}
	salt := sum(s.Hash, append([]byte("assay/mint/salt/v1\x00"), message...))
	var err error
	s.RSA, err = t.ak.Sign(strings.NewReader(string(salt)), digest, opts)
	must(err)
	return s.Encode()
}

// Component returns a quote over registers as evidence, with the boot log and the measurement list.
func (t *TPM) Component(qualifying []byte, pcrs []tpm.PCR) attest.Component {
	quote := t.Quote(qualifying, pcrs).Encode()
	c := attest.Component{Class: attest.ClassTPM, MediaType: tpm.MediaType, Label: "tpm0", Parts: []attest.Part{
		{Name: tpm.PartQuote, Data: quote}, {Name: tpm.PartSignature, Data: t.Sign(quote)},
		{Name: tpm.PartPCRs, Data: tpm.EncodePCRs(pcrs)}, {Name: tpm.PartAK, Data: t.AK()},
		{Name: tpm.PartEKCertificate, Data: t.EKCertificate(TPMOptions{}).DER},
		{Name: tpm.PartEventLog, Data: t.Log.Bytes()},
	}}
	if t.IMA != "" {
		c.Parts = append(c.Parts, attest.Part{Name: tpm.PartIMA, Data: []byte(t.IMA)})
	}
	return c
}

// Boot measures what a sound machine with secure boot measures on its way to a kernel with a command line, and two files
// that the kernel then runs.
func (t *TPM) Boot(commandLine string) {
	t.Log.Startup(3)
	for _, values := range t.pcrs {
		values[0][len(values[0])-1] = 3
	}
	t.Measure(0, 0x8, []byte("mint firmware 1\x00"), nil)
	t.Measure(7, eventlog.VariableConfig, Variable("SecureBoot", []byte{1}), nil)
	for _, name := range []string{"PK", "KEK", "db", "dbx"} {
		t.Measure(7, eventlog.VariableConfig, Variable(name, []byte("mint "+name)), nil)
	}
	for i := range 8 {
		t.Measure(i, eventlog.Separator, make([]byte, 4), nil)
	}
	t.Measure(7, eventlog.VariableAuthority, Variable("db", []byte("mint db")), nil)
	t.Measure(4, eventlog.BootApplication, []byte("device path"), []byte("boot loader"))
	t.Measure(8, eventlog.IPL, []byte("kernel_cmdline: "+commandLine+"\x00"), []byte(commandLine))
	t.Measure(9, eventlog.IPL, []byte("/vmlinuz\x00"), []byte("kernel"))
	t.Measure(5, eventlog.EFIAction, []byte("Exit Boot Services Invocation"), nil)
	t.Measure(5, eventlog.EFIAction, []byte("Exit Boot Services Returned with Success"), nil)
	t.MeasureFile("boot_aggregate", []byte("aggregate"))
	t.MeasureFile("/usr/bin/assay-agent", []byte("agent"))
}

// TPMOptions change how a certificate of a TPM's key is made. The zero TPMOptions make it as makers do.
type TPMOptions struct {
	NotBefore time.Time             // zero: 2026-01-01
	NotAfter  time.Time             // zero: 9999-12-31
	Usage     asn1.ObjectIdentifier // extended key usage; nil: that of the key's kind
	NoUsage   bool                  // no extended key usage
	NoName    bool                  // no alternative name
	CA        bool                  // it may sign certificates
	Issuer    *Certificate          // nil: the maker's authority
	IssuerURL string                // where the issuer is published
	Sloppy    bool                  // a length in an extension is longer than it must be
	Extra     asn1.ObjectIdentifier // a critical extension
}

// EKCertificate certifies the endorsement key: an empty subject, and the TPM's make as a critical alternative name.
func (t *TPM) EKCertificate(o TPMOptions) Certificate {
	usage := []byte{asn1.TagBitString, 2, 5, 0x20} // keyEncipherment
	if _, ok := t.ek.(*ecdsa.PrivateKey); ok {
		usage = []byte{asn1.TagBitString, 2, 3, 0x08} // keyAgreement
	}
	return t.certificate(t.ek, o, asn1.ObjectIdentifier{2, 23, 133, 8, 1}, usage)
}

// AKCertificate certifies the attestation key.
func (t *TPM) AKCertificate(o TPMOptions) Certificate {
	return t.certificate(t.ak, o, asn1.ObjectIdentifier{2, 23, 133, 8, 3}, []byte{asn1.TagBitString, 2, 7, 0x80})
}

func (t *TPM) certificate(key crypto.Signer, o TPMOptions, usage asn1.ObjectIdentifier, keyUsage []byte) Certificate {
	if o.NotBefore.IsZero() {
		o.NotBefore = oldest
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	if o.Issuer == nil {
		o.Issuer = &t.Maker.CA
	}
	if o.Usage != nil {
		usage = o.Usage
	}
	h := canon.Hash("assay/mint/tpm serial/v1", []byte(t.Name), spki(key.Public()))
	c := tpmTemplate{subject: der(func(b *cryptobyte.Builder) { b.AddASN1(cb.SEQUENCE, func(*cryptobyte.Builder) {}) }),
		notBefore: o.NotBefore, notAfter: o.NotAfter, serial: new(big.Int).SetBytes(h[:8]), sloppy: o.Sloppy}
	if !o.NoUsage {
		c.extensions = append(c.extensions, tpmExtension{x509OID(37), false, der(func(b *cryptobyte.Builder) {
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(usage) })
		})})
	}
	if !o.NoName {
		c.extensions = append(c.extensions, tpmExtension{x509OID(17), true, derTPMName("id:4D494E54", "mint", "id:00010002")})
	}
	if o.CA {
		c.extensions = append(c.extensions, tpmExtension{x509OID(19), true, derCA(0)})
		keyUsage = []byte{asn1.TagBitString, 2, 2, 0x04}
	}
	c.extensions = append(c.extensions, tpmExtension{x509OID(15), true, keyUsage})
	if o.IssuerURL != "" {
		c.extensions = append(c.extensions, tpmExtension{asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}, false, der(func(b *cryptobyte.Builder) {
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 2})
					b.AddASN1(cb.Tag(6).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes([]byte(o.IssuerURL)) })
				})
			})
		})})
	}
	if o.Extra != nil {
		c.extensions = append(c.extensions, tpmExtension{o.Extra, true, []byte{5, 0}})
	}
	return c.issue(key, o.Issuer)
}

type tpmExtension struct {
	id       asn1.ObjectIdentifier
	critical bool
	value    []byte
}

// tpmTemplate is what a certificate of a TPM maker says. Signatures are RSASSA-PKCS1 with SHA-256, as makers' are.
type tpmTemplate struct {
	serial              *big.Int
	subject             []byte // Name, DER
	notBefore, notAfter time.Time
	extensions          []tpmExtension
	sloppy              bool
}

func (t tpmTemplate) issue(key crypto.Signer, issuer *Certificate) Certificate {
	issuerName, signer := t.subject, key
	if issuer != nil {
		issuerName, signer = issuer.X509().RawSubject, issuer.key
	}
	algorithm := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11})
			b.AddASN1NULL()
		})
	})
	extensions := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			for i, e := range t.extensions {
				if i > 0 || !t.sloppy {
					addExtension(b, e.id, e.critical, e.value)
					continue
				}
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(e.id)
					b.AddBytes(append([]byte{asn1.TagOctetString, 0x81, byte(len(e.value))}, e.value...)) // 81: not the shortest form
				})
			}
		})
	})
	body := tbsCertificate{t.serial, algorithm, issuerName, t.notBefore, t.notAfter, t.subject, spki(key.Public()), extensions}
	return Certificate{key: key, DER: signed(body.der(), algorithm, func(tbs []byte) []byte {
		digest := sha256.Sum256(tbs)
		sig, err := rsa.SignPKCS1v15(nil, signer.(*rsa.PrivateKey), crypto.SHA256, digest[:])
		must(err)
		return sig
	})}
}

// derCA is the value of basicConstraints of an authority; a negative path length is left out.
func derCA(pathLength int64) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1Boolean(true)
			if pathLength >= 0 {
				b.AddASN1Int64(pathLength)
			}
		})
	})
}

// derTPMName is the value of a TPM's alternative name: a directory name of three attributes.
func derTPMName(manufacturer, model, version string) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cb.Tag(4).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					for i, text := range []string{manufacturer, model, version} {
						addAttribute(b, asn1.ObjectIdentifier{2, 23, 133, 2, i + 1}, text)
					}
				})
			})
		})
	})
}

func addAttribute(b *cryptobyte.Builder, id asn1.ObjectIdentifier, text string) {
	b.AddASN1(cb.SET, func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(id)
			b.AddASN1(cb.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(text)) })
		})
	})
}

func tpmName(commonName string) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			addAttribute(b, asn1.ObjectIdentifier{2, 5, 4, 3}, commonName)
		})
	})
}
