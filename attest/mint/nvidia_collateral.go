package mint

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
)

// Manifest is what a reference integrity manifest says, and for how long its signer signs.
type Manifest struct {
	nvidia.RIM
	NotBefore time.Time // of the signer's certificate; two years
	Signer    string    // common name of the signer; "": as NVIDIA's
}

// Measurements that NVIDIA's manifests have active.
var (
	driverActive   = []int{7, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}
	vbiosActive    = []int{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12}
	gbDriverActive = []int{40, 41, 45, 46, 47, 48, 49, 50, 52, 53, 54, 55, 56, 58, 59, 60, 63}
	gbVBIOSActive  = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20}
)

// Manifests returns the manifests of a device's firmware: driver and VBIOS, or a switch's BIOS.
func (d *NVIDIADevice) Manifests() []Manifest {
	manifest := func(version string, active []int) Manifest {
		m := Manifest{NotBefore: oldest}
		m.Product, m.Edition, m.Version = productOf(d.Chip), "GPU", version
		h := sha512.Sum384([]byte(m.Product + version))
		m.TagID = hex.EncodeToString(h[:])
		for i := range 64 {
			g := nvidia.Golden{Index: i, Active: slices.Contains(active, i), Alternatives: make([][nvidia.MeasurementSize]byte, 1)}
			if g.Active {
				g.Alternatives[0] = nvidiaMeasurement(d.Chip, i, 0)
			}
			m.Golden = append(m.Golden, g)
		}
		return m
	}
	switch d.Chip {
	case "GB100":
		return []Manifest{manifest(NVIDIADriver, gbDriverActive), manifest(gbVBIOS, gbVBIOSActive)}
	case "LS_10":
		var all []int
		for i := range 31 {
			all = append(all, i)
		}
		m := manifest(switchBIOS, all)
		m.Edition = "SWITCH"
		for _, i := range positional {
			for position := range 3 {
				m.Golden[i].Alternatives = append(m.Golden[i].Alternatives, nvidiaMeasurement(d.Chip, i, position+1))
			}
		}
		return []Manifest{m}
	}
	return []Manifest{manifest(NVIDIADriver, driverActive), manifest(gpuVBIOS, vbiosActive)}
}

// XML returns the manifest without its signature, in canonical form already: attributes in order, no element closed in its
// own tag, so that nothing here rests on a canonicalizer.
func (m Manifest) XML() string {
	const swid = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"
	var b strings.Builder
	fmt.Fprintf(&b, `<SoftwareIdentity xmlns="%s" xmlns:ns0="%s" xmlns:ns2="http://www.w3.org/2001/04/xmlenc#sha384" corpus="false" name="%s" patch="false" supplemental="false" tagId="%s" tagVersion="0" version="1.0">`+"\n", swid, swid, m.Product, m.TagID)
	b.WriteString(`    <ns0:Entity name="NVIDIA Corporation" role="softwareCreator tagCreator"></ns0:Entity>` + "\n")
	fmt.Fprintf(&b, `    <ns0:Meta xmlns:ns1="https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/" PayloadType="direct" colloquialVersion="%s" edition="%s" product="%s" revision="r1" ns1:BindingSpec="RIMIM" ns1:FirmwareManufacturerId="5703"></ns0:Meta>`+"\n", m.Version, m.Edition, m.Product)
	b.WriteString("    <ns0:Payload>\n")
	for _, g := range m.Golden {
		active := map[bool]string{true: "True", false: "False"}[g.Active]
		fmt.Fprintf(&b, `        <ns0:Resource active="%s" alternatives="%d" index="%d" name="Measurement_%d" size="48" type="Measurement"`, active, len(g.Alternatives), g.Index, g.Index)
		for i, v := range g.Alternatives {
			fmt.Fprintf(&b, ` ns2:Hash%d="%x"`, i, v)
		}
		b.WriteString("></ns0:Resource>\n")
	}
	b.WriteString("    </ns0:Payload>\n</SoftwareIdentity>")
	return b.String()
}

// ManifestChain returns the certificates that a manifest is signed with, the signer's first.
func (n *NVIDIA) ManifestChain(m Manifest) []Certificate {
	up := n.authorities["NVIDIA Reference Value L3 "+m.Product+" 001"]
	if m.Signer == "" {
		m.Signer = "HCC RIM L4 Signer"
	}
	h := sha512.Sum384([]byte(m.Product + m.NotBefore.String()))
	signer := nvTemplate{serial: new(big.Int).SetBytes(append([]byte{0x4b}, h[:19]...)), name: nvName("", m.Signer, "NVIDIA Corporation"), notBefore: m.NotBefore, notAfter: m.NotBefore.AddDate(2, 0, 0)}.
		issue(p384Key(n.keys, "manifest", m.Product, m.NotBefore.String()), &up)
	return []Certificate{signer, up, n.authorities["NVIDIA Reference Value "+m.Product+" CA"], n.RIMRoot}
}

// Sign returns a manifest signed as NVIDIA does.
func (n *NVIDIA) Sign(m Manifest) attest.Collateral {
	return n.SignXML(m.XML(), n.ManifestChain(m))
}

// SignXML signs a canonical document with the key of the chain's first certificate: the signature stands as the last
// element below the document's own.
func (n *NVIDIA) SignXML(doc string, chain []Certificate) attest.Collateral {
	const end = "</SoftwareIdentity>"
	digest := sha512.Sum384([]byte(doc))
	body := `<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2006/12/xml-c14n11"></ds:CanonicalizationMethod>` +
		`<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"></ds:SignatureMethod>` +
		`<ds:Reference URI=""><ds:Transforms><ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"></ds:Transform>` +
		`<ds:Transform Algorithm="http://www.w3.org/2006/12/xml-c14n11"></ds:Transform></ds:Transforms>` +
		`<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#sha384"></ds:DigestMethod>` +
		`<ds:DigestValue>` + base64.StdEncoding.EncodeToString(digest[:]) + `</ds:DigestValue></ds:Reference></ds:SignedInfo>`
	const swid = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"
	scope := fmt.Sprintf(`<ds:SignedInfo xmlns="%s" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" xmlns:ns0="%s" xmlns:ns2="http://www.w3.org/2001/04/xmlenc#sha384">`, swid, swid)
	signature := nvSignRaw(chain[0].key.(*ecdsa.PrivateKey), []byte(scope+body))
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(doc, end))
	b.WriteString(`<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:SignedInfo>` + body)
	b.WriteString(`<ds:SignatureValue>` + base64.StdEncoding.EncodeToString(signature[:]) + `</ds:SignatureValue><ds:KeyInfo><ds:X509Data>`)
	for _, c := range chain {
		b.WriteString(`<ds:X509Certificate>` + base64.StdEncoding.EncodeToString(c.DER) + `</ds:X509Certificate>`)
	}
	b.WriteString(`</ds:X509Data></ds:KeyInfo></ds:Signature>` + end)
	return attest.Collateral{Kind: attest.KindNVIDIARIM, Data: []byte(b.String())}
}

// OCSP is an answer about one certificate. The zero OCSP but for This says good, for a day.
type OCSP struct {
	This, Next time.Time     // Next zero: a day after This
	Revoked    bool          // else good
	Reason     int           // of the revocation; 6 is a hold
	Unknown    bool          // the responder knows no such certificate
	NoNext     bool          // without nextUpdate
	Responder  string        // "": certified by the issuer for OCSP; issuer: the issuer itself; plain: certified for nothing
	Until      time.Time     // end of the responder's certificate; zero: a year after This
	Hash       crypto.Hash   // that names the issuer; 0: SHA-384
	Key        *NVIDIADevice // signs in place of the responder; nil: nobody does
	By         *NVIDIA       // whose responder answers; nil: the hierarchy's own
	Named      *Certificate  // whose name the answer gives for the issuer's; nil: the issuer's
	Keyed      *Certificate  // whose key it gives for the issuer's; nil: the issuer's
	Times      int           // that the answer stands there; 0: once
	Padding    int           // bytes of an extension
}

// Answer returns the answer of an issuer's responder about a certificate of the hierarchy.
func (n *NVIDIA) Answer(c Certificate, o OCSP) attest.Collateral {
	x := c.X509()
	issuer := n.issuerOf(x)
	up := issuer.X509()
	if o.Next.IsZero() {
		o.Next = o.This.AddDate(0, 0, 1)
	}
	if o.Until.IsZero() {
		o.Until = o.This.AddDate(1, 0, 0)
	}
	if o.Hash == 0 {
		o.Hash = crypto.SHA384
	}
	if o.By == nil {
		o.By = n
	}
	if o.Named == nil {
		o.Named = &issuer
	}
	if o.Keyed == nil {
		o.Keyed = &issuer
	}
	above := o.By.issuerOf(x)
	responder := above
	if o.Responder != "issuer" {
		name := "NVIDIA OCSP Responder of " + up.Subject.CommonName
		responder = nvTemplate{serial: big.NewInt(0x0c5b), name: nvName("", name, "NVIDIA Corporation"), notBefore: nvidiaBorn, notAfter: o.Until, ocsp: o.Responder != "plain"}.
			issue(p384Key(o.By.keys, name), &above)
	}
	key := responder.key.(*ecdsa.PrivateKey)
	if o.Key != nil {
		key = o.Key.Chain[0].key.(*ecdsa.PrivateKey)
	}
	digest := func(data []byte) []byte {
		h := o.Hash.New()
		h.Write(data)
		return h.Sum(nil)
	}
	var info struct {
		Algorithm asn1.RawValue
		Key       asn1.BitString
	}
	_, err := asn1.Unmarshal(o.Keyed.X509().RawSubjectPublicKeyInfo, &info)
	must(err)
	tag := func(n int) cb.Tag { return cb.Tag(n).ContextSpecific() }
	generalized := func(b *cryptobyte.Builder, t time.Time) { b.AddASN1GeneralizedTime(t.UTC()) }
	hashID := map[crypto.Hash]asn1.ObjectIdentifier{crypto.SHA1: {1, 3, 14, 3, 2, 26}, crypto.SHA256: {2, 16, 840, 1, 101, 3, 4, 2, 1}, crypto.SHA384: {2, 16, 840, 1, 101, 3, 4, 2, 2}}[o.Hash]
	single := func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(hashID)
					b.AddASN1NULL()
				})
				b.AddASN1OctetString(digest(o.Named.X509().RawSubject))
				b.AddASN1OctetString(digest(info.Key.RightAlign()))
				b.AddASN1BigInt(x.SerialNumber)
			})
			switch {
			case o.Unknown:
				b.AddASN1(tag(2), func(b *cryptobyte.Builder) {})
			case o.Revoked:
				b.AddASN1(tag(1).Constructed(), func(b *cryptobyte.Builder) {
					generalized(b, o.This)
					b.AddASN1(tag(0).Constructed(), func(b *cryptobyte.Builder) { b.AddASN1Enum(int64(o.Reason)) })
				})
			default:
				b.AddASN1(tag(0), func(b *cryptobyte.Builder) {})
			}
			generalized(b, o.This)
			if !o.NoNext {
				b.AddASN1(tag(0).Constructed(), func(b *cryptobyte.Builder) { generalized(b, o.Next) })
			}
		})
	}
	data := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			id := keyID(key)
			b.AddASN1(tag(2).Constructed(), func(b *cryptobyte.Builder) { b.AddASN1OctetString(id) })
			generalized(b, o.This)
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				for range max(o.Times, 1) {
					single(b)
				}
			})
			if o.Padding > 0 {
				b.AddASN1(tag(1).Constructed(), func(b *cryptobyte.Builder) {
					b.AddBytes(derExtensions([]extension{{asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 5703, 999}, make([]byte, o.Padding)}}))
				})
			}
		})
	})
	basic := der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddBytes(data)
			b.AddBytes(ecAlgorithm(crypto.SHA384))
			b.AddASN1BitString(ecSign(key, crypto.SHA384, data))
			if o.Responder != "issuer" {
				b.AddASN1(tag(0).Constructed(), func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) { b.AddBytes(responder.DER) })
				})
			}
		})
	})
	return attest.Collateral{Kind: attest.KindNVIDIAOCSP, Data: der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1Enum(0)
			b.AddASN1(tag(0).Constructed(), func(b *cryptobyte.Builder) {
				b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
					b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 1, 1})
					b.AddASN1OctetString(basic)
				})
			})
		})
	})}
}

// CRL returns the revocation list of an authority.
func (n *NVIDIA) CRL(issuer Certificate, this, next time.Time, list ...Revoked) attest.Collateral {
	x := issuer.X509()
	body := tbsList{algorithm: ecAlgorithm(crypto.SHA384), issuer: x.RawSubject, this: this, next: next, revoked: list, reasons: true, extensions: []extension{
		{x509OID(20), der(func(b *cryptobyte.Builder) { b.AddASN1Int64(1) })},
		{x509OID(35), derKeyID(x.SubjectKeyId)},
	}}
	return attest.Collateral{Kind: attest.KindNVIDIACRL, Data: ecSigned(body.der(), issuer.key.(*ecdsa.PrivateKey), crypto.SHA384)}
}

// Collateral returns everything that judging devices takes, current at a time: their manifests, and an answer about each
// certificate of the devices and of the manifests but roots and the devices' own keys. Each item is there once.
func (n *NVIDIA) Collateral(at time.Time, devices ...*NVIDIADevice) (items []attest.Collateral) {
	add := func(item attest.Collateral) {
		if !slices.ContainsFunc(items, func(o attest.Collateral) bool { return bytes.Equal(o.Data, item.Data) }) {
			items = append(items, item)
		}
	}
	answers := func(chain []Certificate) {
		for _, c := range chain[:len(chain)-1] {
			add(n.Answer(c, OCSP{This: at}))
		}
	}
	for _, d := range devices {
		for _, m := range d.Manifests() {
			add(n.Sign(m))
			answers(n.ManifestChain(m))
		}
	}
	for _, d := range devices {
		answers(d.Chain[1:])
	}
	return items
}
