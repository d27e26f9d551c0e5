package nvidia

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	_ "crypto/sha1" // some answers name their issuer by it; it secures nothing there
	_ "crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// responder is NVIDIA's OCSP service. Requests go there by GET (RFC 6960, appendix A.1), so that an address says all.
const responder = "https://ocsp.ndis.nvidia.com/"

// Structures of RFC 6960, section 4. Names stand as in the RFC.
type (
	ocspResponse struct {
		Status   asn1.Enumerated
		Response struct {
			ResponseType asn1.ObjectIdentifier
			Response     []byte
		} `asn1:"explicit,tag:0,optional"`
	}
	basicResponse struct {
		Data         responseData
		Algorithm    pkix.AlgorithmIdentifier
		Signature    asn1.BitString
		Certificates []asn1.RawValue `asn1:"explicit,tag:0,optional"`
	}
	responseData struct {
		Raw        asn1.RawContent
		Version    int `asn1:"optional,default:0,explicit,tag:0"`
		Responder  asn1.RawValue
		ProducedAt time.Time `asn1:"generalized"`
		Responses  []singleResponse
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	singleResponse struct {
		CertID     certID
		Good       asn1.Flag        `asn1:"tag:0,optional"`
		Revoked    revokedInfo      `asn1:"tag:1,optional"`
		Unknown    asn1.Flag        `asn1:"tag:2,optional"`
		ThisUpdate time.Time        `asn1:"generalized"`
		NextUpdate time.Time        `asn1:"generalized,explicit,tag:0,optional"`
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	revokedInfo struct {
		Time   time.Time       `asn1:"generalized"`
		Reason asn1.Enumerated `asn1:"explicit,tag:0,optional"`
	}
	certID struct {
		Hash       pkix.AlgorithmIdentifier
		IssuerName []byte
		IssuerKey  []byte
		Serial     *big.Int
	}
)

var (
	oidBasicResponse = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 1, 1}
	oidECDSASHA384   = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}
)

// hashes by which a responder may name an issuer.
var hashes = []struct {
	id   asn1.ObjectIdentifier
	hash crypto.Hash
}{
	{asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}, crypto.SHA1},
	{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}, crypto.SHA256},
	{oidSHA384, crypto.SHA384},
}

const certificateHold = 6 // CRLReason (RFC 5280, section 5.3.1)

// ocsp is an OCSP answer that was read and not verified.
type ocsp struct {
	fault     string // empty: it was read
	data      []byte // that the signature covers
	signature []byte
	delegate  []byte // certificate of the responder (DER); nil: the issuer itself answers
	singles   []singleResponse
}

// readOCSP reads an OCSP response (DER).
func readOCSP(der []byte) (o ocsp) {
	var outer ocspResponse
	var basic basicResponse
	if len(der) > MaxOCSP {
		return ocsp{fault: "it is too long"}
	}
	if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 {
		return ocsp{fault: "it does not parse"}
	}
	if outer.Status != 0 || !outer.Response.ResponseType.Equal(oidBasicResponse) {
		return ocsp{fault: "the responder gave no answer"}
	}
	rest, err := asn1.Unmarshal(outer.Response.Response, &basic)
	switch {
	case err != nil || len(rest) > 0:
		return ocsp{fault: "it does not parse"}
	case !basic.Algorithm.Algorithm.Equal(oidECDSASHA384):
		return ocsp{fault: "it is not signed with ECDSA and SHA-384"}
	case len(basic.Data.Responses) > maxAnswers:
		return ocsp{fault: "it speaks of too many certificates"}
	}
	o = ocsp{data: basic.Data.Raw, signature: basic.Signature.RightAlign(), singles: basic.Data.Responses}
	if len(basic.Certificates) > 0 {
		o.delegate = basic.Certificates[0].FullBytes
	}
	return o
}

// about returns what the response says of a certificate of an issuer, or nil.
func (o ocsp) about(c, issuer *x509.Certificate) *singleResponse {
	for i := range o.singles {
		s := &o.singles[i]
		if s.CertID.Serial == nil || s.CertID.Serial.Cmp(c.SerialNumber) != 0 {
			continue
		}
		for _, h := range hashes {
			if s.CertID.Hash.Algorithm.Equal(h.id) && bytes.Equal(s.CertID.IssuerName, sum(h.hash, issuer.RawSubject)) && bytes.Equal(s.CertID.IssuerKey, sum(h.hash, keyBits(issuer))) {
				return s
			}
		}
	}
	return nil
}

func sum(h crypto.Hash, data []byte) []byte {
	w := h.New()
	w.Write(data)
	return w.Sum(nil)
}

// keyBits returns the public key of a certificate as RFC 6960 hashes it: the bits alone.
func keyBits(c *x509.Certificate) []byte {
	var info struct {
		Algorithm asn1.RawValue
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil {
		panic("nvidia: internal error: a certificate's key parses once and not twice")
	}
	return info.Key.RightAlign()
}

// signedOCSP says whether an issuer, or a responder that it certified for this purpose, signed an answer, and when that
// responder may answer.
type signedOCSP struct {
	fault  string
	window attest.Window // of the responder's certificate
}

func (o ocsp) verify(issuer *x509.Certificate) (s signedOCSP) {
	signer := issuer
	s.window = attest.CertificateWindow(issuer)
	if o.delegate != nil && !bytes.Equal(o.delegate, issuer.Raw) {
		c, err := x509.ParseCertificate(o.delegate)
		switch {
		case err != nil:
			return signedOCSP{fault: "the responder's certificate does not parse"}
		case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning):
			return signedOCSP{fault: "the responder's certificate is not for OCSP"}
		case !bytes.Equal(c.RawIssuer, issuer.RawSubject) || c.CheckSignatureFrom(issuer) != nil:
			return signedOCSP{fault: "the responder's certificate is not signed by the issuer"}
		}
		signer, s.window = c, attest.CertificateWindow(c)
	}
	key, ok := signer.PublicKey.(*ecdsa.PublicKey)
	digest := sha512.Sum384(o.data)
	if !ok || key.Curve != elliptic.P384() || !ecdsa.VerifyASN1(key, digest[:], o.signature) {
		return signedOCSP{fault: "it is not signed by the issuer or its responder"}
	}
	return s
}

// OCSPURL is where NVIDIA's responder says whether a certificate is revoked. The request has no nonce: the answer's own
// dates say how old it is.
func OCSPURL(c, issuer *x509.Certificate) string {
	type request struct {
		TBS struct {
			List []struct{ ID certID }
		}
	}
	var r request
	r.TBS.List = []struct{ ID certID }{{certID{pkix.AlgorithmIdentifier{Algorithm: oidSHA384, Parameters: asn1.NullRawValue}, sum(crypto.SHA384, issuer.RawSubject), sum(crypto.SHA384, keyBits(issuer)), c.SerialNumber}}}
	der, err := asn1.Marshal(r)
	if err != nil {
		panic("nvidia: internal error: " + err.Error())
	}
	return responder + url.QueryEscape(base64.StdEncoding.EncodeToString(der))
}

// spoken is when an answer may be used: within its own dates, and while its responder may answer.
func (s *singleResponse) spoken(responder attest.Window) attest.Window {
	return attest.Window{From: canon.At(s.ThisUpdate), Until: canon.At(s.NextUpdate), First: "thisUpdate", Last: "nextUpdate"}.And(responder)
}
