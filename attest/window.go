package attest

import (
	"crypto/x509"

	"github.com/assay-network/assay/internal/canon"
)

// Window is a span of validity, both ends inclusive (RFC 5280, section 4.1.2.5).
type Window struct {
	From, Until canon.Time
	First, Last string // whose dates bound it
}

// And returns the span in which both hold.
func (w Window) And(o Window) Window {
	if o.From > w.From {
		w.From, w.First = o.From, o.First
	}
	if o.Until < w.Until {
		w.Until, w.Last = o.Until, o.Last
	}
	return w
}

// CertificateWindow returns the dates of a certificate under its common name.
func CertificateWindow(c *x509.Certificate) Window {
	return Window{canon.At(c.NotBefore), canon.At(c.NotAfter), c.Subject.CommonName, c.Subject.CommonName}
}
