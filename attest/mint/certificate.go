package mint

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"
)

// Certificate is an X.509 certificate with its private key. The encoding is written here and not by crypto/x509, so that
// order, string types and parameters are AMD's, and bytes depend on nothing but the arguments.
type Certificate struct {
	DER []byte
	key crypto.Signer
}

// X509 returns the certificate parsed.
func (c Certificate) X509() *x509.Certificate {
	x, err := x509.ParseCertificate(c.DER)
	must(err)
	return x
}

// PEM returns the certificate in PEM form.
func (c Certificate) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.DER})
}

// template is what a certificate says.
type template struct {
	serial              *big.Int
	subject             string // common name; the rest of the name is AMD's
	notBefore, notAfter time.Time
	spki                []byte
	extensions          []byte // Extensions, DER
	trailer             bool   // write the trailer field of the signature's parameters, which is the default value
}

// issue signs the certificate of key's public half with the issuer's key, or with key itself where issuer is nil.
func (t template) issue(key crypto.Signer, issuer *Certificate) Certificate {
	name, signer := amdName(t.subject), key
	issuerName := name
	if issuer != nil {
		issuerName, signer = issuer.X509().RawSubject, issuer.key
	}
	body := tbsCertificate{t.serial, pssAlgorithm(t.trailer), issuerName, t.notBefore, t.notAfter, name, t.spki, t.extensions}
	return Certificate{key: key, DER: pssSigned(body.der(), signer, t.trailer)}
}

// CRL makes the revocation list of the line, signed by the ARK. A zero next leaves nextUpdate out, which AMD never does.
func (a *AMD) CRL(this, next time.Time, revoked ...*big.Int) []byte {
	ark := a.ARK.X509()
	list := tbsList{algorithm: pssAlgorithm(true), issuer: ark.RawSubject, this: this, next: next, extensions: []extension{
		{x509OID(35), derKeyID(ark.SubjectKeyId)},
		{x509OID(20), der(func(b *cryptobyte.Builder) { b.AddASN1Int64(this.Unix()) })}, // cRLNumber: grows with the date
	}}
	for _, serial := range revoked {
		list.revoked = append(list.revoked, Revoked{Serial: serial})
	}
	return pssSigned(list.der(), a.ARK.key, true)
}

// tbsCertificate is the part of a certificate that is signed (RFC 5280, section 4.1), of version 3.
type tbsCertificate struct {
	serial              *big.Int
	algorithm           []byte // AlgorithmIdentifier
	issuer              []byte // Name
	notBefore, notAfter time.Time
	subject             []byte // Name
	spki                []byte
	extensions          []byte // Extensions
}

func (t tbsCertificate) der() []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cb.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddASN1Int64(2) }) // v3
			b.AddASN1BigInt(t.serial)
			b.AddBytes(t.algorithm)
			b.AddBytes(t.issuer)
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				addTime(b, t.notBefore)
				addTime(b, t.notAfter)
			})
			b.AddBytes(t.subject)
			b.AddBytes(t.spki)
			b.AddASN1(cb.Tag(3).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddBytes(t.extensions) })
		})
	})
}

// Revoked is an entry of a revocation list. Reason 6 is a hold.
type Revoked struct {
	Serial *big.Int
	Reason int
}

// tbsList is the part of a revocation list that is signed (RFC 5280, section 5.1), of version 2.
type tbsList struct {
	algorithm  []byte    // AlgorithmIdentifier
	issuer     []byte    // Name
	this, next time.Time // a zero next leaves nextUpdate out
	revoked    []Revoked
	reasons    bool // each entry says its reason
	extensions []extension
}

func (t tbsList) der() []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1Int64(1) // v2
			b.AddBytes(t.algorithm)
			b.AddBytes(t.issuer)
			addTime(b, t.this)
			if !t.next.IsZero() {
				addTime(b, t.next)
			}
			if len(t.revoked) > 0 {
				b.AddASN1(cb.SEQUENCE, t.entries)
			}
			b.AddASN1(cb.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) { b.AddBytes(derExtensions(t.extensions)) })
		})
	})
}

func (t tbsList) entries(b *cryptobyte.Builder) {
	for _, r := range t.revoked {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1BigInt(r.Serial)
			addTime(b, t.this)
			if t.reasons {
				b.AddBytes(derExtensions([]extension{{x509OID(21), []byte{asn1.TagEnum, 1, byte(r.Reason)}}}))
			}
		})
	}
}

// signed returns SEQUENCE { tbs, algorithm, signature }.
func signed(tbs, algorithm []byte, sign func([]byte) []byte) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddBytes(tbs)
			b.AddBytes(algorithm)
			b.AddASN1BitString(sign(tbs))
		})
	})
}

// pssSigned signs with RSASSA-PSS, SHA-384 and a salt of 48 bytes.
func pssSigned(tbs []byte, key crypto.Signer, trailer bool) []byte {
	return signed(tbs, pssAlgorithm(trailer), func(tbs []byte) []byte {
		digest := sha512.Sum384(tbs)
		salt := sha512.Sum384(append([]byte("assay/mint/salt/v1\x00"), tbs...))
		sig, err := rsa.SignPSS(bytes.NewReader(salt[:]), key.(*rsa.PrivateKey), crypto.SHA384, digest[:], &rsa.PSSOptions{SaltLength: len(salt)})
		must(err)
		return sig
	})
}

// pssAlgorithm returns the AlgorithmIdentifier of RSASSA-PSS with SHA-384 (RFC 4055, section 3.1).
func pssAlgorithm(trailer bool) []byte {
	pss, mgf1 := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8}
	sha384 := func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2})
			b.AddASN1NULL()
		})
	}
	tagged := func(b *cryptobyte.Builder, tag uint8, f func(*cryptobyte.Builder)) {
		b.AddASN1(cb.Tag(tag).ContextSpecific().Constructed(), f)
	}
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(pss)
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				tagged(b, 0, sha384)
				tagged(b, 1, func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
						b.AddASN1ObjectIdentifier(mgf1)
						sha384(b)
					})
				})
				tagged(b, 2, func(b *cryptobyte.Builder) { b.AddASN1Int64(sha512.Size384) })
				if trailer {
					tagged(b, 3, func(b *cryptobyte.Builder) { b.AddASN1Int64(1) })
				}
			})
		})
	})
}

// extension is one that is not critical.
type extension struct {
	id    asn1.ObjectIdentifier
	value []byte
}

func amdOID(tail ...int) asn1.ObjectIdentifier {
	return append(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 3704, 1}, tail...)
}

func x509OID(n int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 29, n} }

func derExtensions(list []extension) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			for _, e := range list {
				addExtension(b, e.id, false, e.value)
			}
		})
	})
}

func addExtension(b *cryptobyte.Builder, id asn1.ObjectIdentifier, critical bool, value []byte) {
	b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		if critical {
			b.AddASN1Boolean(true)
		}
		b.AddASN1OctetString(value)
	})
}

// authorityExtensions returns the extensions of an ARK (issuer nil), or of an ASK or ASVK, in AMD's order.
func authorityExtensions(pub *rsa.PublicKey, issuer *Certificate, crl string) []byte {
	id := sha1.Sum(x509.MarshalPKCS1PublicKey(pub)) // RFC 5280, section 4.2.1.2, method 1; it secures nothing
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			keyID := der(func(b *cryptobyte.Builder) { b.AddASN1OctetString(id[:]) })
			if issuer == nil {
				addExtension(b, x509OID(15), true, []byte{asn1.TagBitString, 2, 1, 0x06}) // keyCertSign, cRLSign
				addExtension(b, x509OID(14), false, keyID)
				addExtension(b, x509OID(19), true, der(func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1Boolean(true) })
				}))
			} else {
				addExtension(b, x509OID(14), false, keyID)
				addExtension(b, x509OID(35), false, derKeyID(issuer.X509().SubjectKeyId))
				addExtension(b, x509OID(19), true, der(func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
						b.AddASN1Boolean(true)
						b.AddASN1Int64(0)
					})
				}))
				addExtension(b, x509OID(15), true, []byte{asn1.TagBitString, 2, 2, 0x04}) // keyCertSign
			}
			addExtension(b, x509OID(31), false, derDistributionPoint(crl))
		})
	})
}

// derKeyID is the value of authorityKeyIdentifier.
func derKeyID(id []byte) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cb.Tag(0).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(id) })
		})
	})
}

// derDistributionPoint is the value of cRLDistributionPoints with one URI.
func derDistributionPoint(url string) []byte {
	tag0 := cb.Tag(0).ContextSpecific().Constructed()
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(tag0, func(b *cryptobyte.Builder) {
					b.AddASN1(tag0, func(b *cryptobyte.Builder) {
						b.AddASN1(cb.Tag(6).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes([]byte(url)) })
					})
				})
			})
		})
	})
}

// attribute is one of a name, under 2.5.4.
type attribute struct {
	id   int
	tag  cb.Tag
	text string
}

// derName returns a name of attributes, each in a set of its own.
func derName(attributes ...attribute) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			for _, a := range attributes {
				b.AddASN1(cb.SET, func(b *cryptobyte.Builder) {
					b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
						b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{2, 5, 4, a.id})
						b.AddASN1(a.tag, func(b *cryptobyte.Builder) { b.AddBytes([]byte(a.text)) })
					})
				})
			}
		})
	})
}

// amdName returns AMD's name with a common name.
func amdName(commonName string) []byte {
	return derName(
		attribute{11, cb.UTF8String, "Engineering"}, attribute{6, cb.PrintableString, "US"}, attribute{7, cb.UTF8String, "Santa Clara"},
		attribute{8, cb.UTF8String, "CA"}, attribute{10, cb.UTF8String, "Advanced Micro Devices"}, attribute{3, cb.UTF8String, commonName})
}

// addTime writes UTCTime to 2049 and GeneralizedTime from then on (RFC 5280, section 4.1.2.5).
func addTime(b *cryptobyte.Builder, t time.Time) {
	if t = t.UTC(); t.Year() < 2050 {
		b.AddASN1UTCTime(t)
	} else {
		b.AddASN1GeneralizedTime(t)
	}
}

func derInteger(v uint8) []byte {
	return der(func(b *cryptobyte.Builder) { b.AddASN1Int64(int64(v)) })
}

func derIA5(s string) []byte {
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.Tag(asn1.TagIA5String), func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
	})
}

func spki(pub crypto.PublicKey) []byte {
	b, err := x509.MarshalPKIXPublicKey(pub)
	must(err)
	return b
}

func der(f func(*cryptobyte.Builder)) []byte {
	var b cryptobyte.Builder
	f(&b)
	out, err := b.Bytes()
	must(err)
	return out
}
