package attest

import (
	"crypto/x509"
	"strings"

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

// CertificateWindow returns the dates of a certificate under its common name. It keeps a copy of the name's beginning: what
// is remembered of a hostile certificate stays small.
func CertificateWindow(c *x509.Certificate) Window {
	name := strings.Clone(c.Subject.CommonName[:min(len(c.Subject.CommonName), MaxName)])
	return Window{canon.At(c.NotBefore), canon.At(c.NotAfter), name, name}
}
