package attest

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/big"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// CRL is what a certificate revocation list says of the serial numbers asked about, or why it is not used.
type CRL struct {
	Fault   string // empty: the issuer signed it
	Window  Window
	Revoked []string // of the serial numbers asked about, hex
	Held    []string // those of them that are only suspended (certificateHold, RFC 5280, section 5.3.1)
}

const certificateHold = 6 // reason code (RFC 5280, section 5.3.1)

// ReadCRL verifies a revocation list (DER) under its issuer's key and looks up serial numbers (hex) in it. A list without
// nextUpdate is refused: it would be valid for ever. It compares no dates with the time of appraisal, and does not look at
// the issuer's key usage: vendors' roots sign lists without asserting cRLSign in every issue.
func ReadCRL(der []byte, issuer *x509.Certificate, serials []string) CRL {
	if len(der) > MaxCRL {
		return CRL{Fault: fmt.Sprintf("%d bytes, at most %d", len(der), MaxCRL)}
	}
	list, err := x509.ParseRevocationList(der)
	switch {
	case err != nil:
		return CRL{Fault: "it does not parse"}
	case !bytes.Equal(list.RawIssuer, issuer.RawSubject):
		return CRL{Fault: "its issuer is " + Printable(list.Issuer.CommonName)}
	case list.NextUpdate.IsZero():
		return CRL{Fault: "it has no nextUpdate"}
	}
	if issuer.CheckSignature(list.SignatureAlgorithm, list.RawTBSRevocationList, list.Signature) != nil {
		return CRL{Fault: "it is not signed by " + issuer.Subject.CommonName}
	}
	out := CRL{Window: Window{canon.At(list.ThisUpdate), canon.At(list.NextUpdate), "thisUpdate", "nextUpdate"}}
	for _, serial := range serials {
		n, _ := new(big.Int).SetString(serial, 16)
		i := slices.IndexFunc(list.RevokedCertificateEntries, func(e x509.RevocationListEntry) bool { return e.SerialNumber.Cmp(n) == 0 })
		if i < 0 {
			continue
		}
		out.Revoked = append(out.Revoked, serial)
		if list.RevokedCertificateEntries[i].ReasonCode == certificateHold {
			out.Held = append(out.Held, serial)
		}
	}
	return out
}

// Printable makes a text from hostile bytes, such as a name in a certificate, fit for a sentence.
func Printable(s string) string {
	if len(s) > MaxName {
		s = s[:MaxName]
	}
	return fmt.Sprintf("%+q", s)
}
