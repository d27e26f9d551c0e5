package nvidia

import (
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// IssueOfOCSP reads which issue an OCSP answer on one certificate is. Its subject is the certificate, by its issuer's key and
// its serial number. It verifies nothing. Manifests (RIMs) bear no date, and are no issues.
func IssueOfOCSP(der []byte) (attest.Issue, bool) {
	o := readOCSP(der)
	if o.fault != "" || len(o.singles) != 1 || o.singles[0].CertID.Serial == nil {
		return attest.Issue{}, false
	}
	s := o.singles[0]
	return attest.Issue{Subject: fmt.Sprintf("OCSP answer on certificate %x of %x", s.CertID.Serial, s.CertID.IssuerKey), At: canon.At(s.ThisUpdate)}, true
}
