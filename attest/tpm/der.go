package tpm

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// certificate is an X.509 certificate as received. Makers of TPMs have issued many that are no strict DER; a reader that
// re-encodes them verifies other bytes than were signed.
type certificate struct {
	x509   *x509.Certificate // of the same meaning in strict DER
	raw    []byte            // as received
	tbs    []byte            // as received: what the issuer signed
	key    crypto.PublicKey  // nil: of a kind that this build does not know
	digest canon.Digest      // of the key, see KeyDigest
	sloppy bool
}

// parseCertificate reads one certificate. Where it is no strict DER it is understood from a strict rewriting, and its
// signature counts over the received bytes.
func parseCertificate(raw []byte) (c certificate, err error) {
	if len(raw) > attest.MaxCertificate {
		return c, fmt.Errorf("a certificate of %d bytes, at most %d", len(raw), attest.MaxCertificate)
	}
	c.raw = raw
	if c.x509, err = x509.ParseCertificate(raw); err == nil {
		c.tbs = c.x509.RawTBSCertificate
	} else {
		strict, changed := rewrite(raw)
		if !changed {
			return c, fmt.Errorf("it does not parse")
		}
		if c.x509, err = x509.ParseCertificate(strict); err != nil {
			return c, fmt.Errorf("it does not parse, nor does it in strict DER")
		}
		outer, _, err := element(raw)
		if err != nil {
			return c, fmt.Errorf("it does not parse")
		}
		_, rest, err := element(outer.content)
		if err != nil {
			return c, fmt.Errorf("it does not parse")
		}
		c.tbs, c.sloppy = outer.content[:len(outer.content)-len(rest)], true
	}
	if c.key, err = usable(publicKey(c.x509)); err != nil {
		c.key = nil
		return c, nil
	}
	c.digest = KeyDigest(c.key)
	return c, nil
}

// oidOAEP marks the RSA keys of some endorsement certificates, which crypto/x509 does not read (RFC 4055, section 4.1).
var oidOAEP = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 7}

func publicKey(c *x509.Certificate) crypto.PublicKey {
	if c.PublicKey != nil {
		return c.PublicKey
	}
	var info struct {
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue `asn1:"optional"`
		}
		Key asn1.BitString
	}
	if rest, err := asn1.Unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil || len(rest) > 0 || !info.Algorithm.ID.Equal(oidOAEP) || info.Key.BitLength%8 != 0 {
		return nil
	}
	key, err := x509.ParsePKCS1PublicKey(info.Key.Bytes)
	if err != nil {
		return nil
	}
	return key
}

// splitCertificates parts certificates that stand behind one another.
func splitCertificates(data []byte) (all [][]byte, err error) {
	for len(data) > 0 {
		if len(all) > maxIssuers {
			return nil, fmt.Errorf("more than a certificate and %d issuers", maxIssuers)
		}
		_, rest, err := element(data)
		if err != nil || data[0] != 0x30 {
			return nil, fmt.Errorf("certificate %d does not end where it does", len(all))
		}
		all, data = append(all, data[:len(data)-len(rest)]), rest
	}
	return all, nil
}

// tlv is one element of BER with a definite length.
type tlv struct {
	tag     byte
	content []byte
	strict  bool // its length is in the shortest form
}

func element(b []byte) (e tlv, rest []byte, err error) {
	bad := fmt.Errorf("an element that does not fit")
	if len(b) < 2 || b[0]&0x1f == 0x1f {
		return e, nil, bad
	}
	e.tag, e.strict = b[0], true
	n, head := uint64(b[1]), 2
	if b[1] >= 0x80 {
		size := int(b[1] & 0x7f)
		if size == 0 || size > 8 || len(b) < 2+size {
			return e, nil, bad
		}
		n, head = 0, 2+size
		for _, x := range b[2:head] {
			n = n<<8 | uint64(x)
		}
		e.strict = n >= 0x80 && b[2] != 0
	}
	if n > uint64(len(b)-head) {
		return e, nil, bad
	}
	return tlv{e.tag, b[head : head+int(n)], e.strict}, b[head+int(n):], nil
}

// rewrite returns an element in strict DER: shortest lengths, INTEGERs without needless bytes, TRUE as FF, and the same
// within the values of extensions. changed is false where there was nothing to do, or no way to do it.
func rewrite(b []byte) (strict []byte, changed bool) {
	r := rewriter{}
	strict, rest, ok := r.element(nil, b, 0, false)
	return strict, ok && len(rest) == 0 && r.changed
}

type rewriter struct{ changed bool }

func (r *rewriter) element(out, b []byte, depth int, inside bool) (strict, rest []byte, ok bool) {
	e, rest, err := element(b)
	if err != nil || depth > maxDepthDER {
		return out, nil, false
	}
	r.changed = r.changed || !e.strict
	content := e.content
	switch {
	case e.tag&0x20 != 0:
		content = make([]byte, 0, len(e.content))
		for in := e.content; len(in) > 0; {
			if content, in, ok = r.element(content, in, depth+1, inside); !ok {
				return out, nil, false
			}
		}
	case e.tag == 0x01 && len(content) == 1 && content[0] != 0 && content[0] != 0xff:
		content, r.changed = []byte{0xff}, true
	case e.tag == 0x02:
		for len(content) > 1 && (content[0] == 0 && content[1] < 0x80 || content[0] == 0xff && content[1] >= 0x80) {
			content, r.changed = content[1:], true
		}
	case e.tag == 0x04 && !inside:
		// The value of an extension is DER within an OCTET STRING. What is not, stays as it is.
		nested := rewriter{}
		if v, tail, ok := nested.element(nil, content, depth+1, true); ok && len(tail) == 0 && nested.changed {
			content, r.changed = v, true
		}
	}
	out = append(out, e.tag)
	switch n := len(content); {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 0x100:
		out = append(out, 0x81, byte(n))
	case n < 0x10000:
		out = append(out, 0x82, byte(n>>8), byte(n))
	default:
		return out, nil, false
	}
	return append(out, content...), rest, true
}

// issuedBy reports whether the issuer signed the certificate as received.
func (c certificate) issuedBy(issuer certificate) bool {
	return bytes.Equal(c.x509.RawIssuer, issuer.x509.RawSubject) &&
		issuer.x509.CheckSignature(c.x509.SignatureAlgorithm, c.tbs, c.x509.Signature) == nil
}
