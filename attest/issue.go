package attest

import (
	"crypto/x509"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Issue says of what an item of collateral speaks, and which of its subject's issues it is, by its own words: nothing
// vouches for them. Items without an order, such as certificates, are no issues.
type Issue struct {
	Subject string
	Number  int64      // by which its publisher counts; 0 where it does not
	At      canon.Time // when it was issued
}

// Newer reports whether an issue comes after another of the same subject.
func (i Issue) Newer(o Issue) bool {
	return i.Number > o.Number || i.Number == o.Number && i.At > o.At
}

func (i Issue) String() string {
	if i.Number == 0 {
		return fmt.Sprintf("%s of %s", i.Subject, i.At)
	}
	return fmt.Sprintf("%s, number %d of %s", i.Subject, i.Number, i.At)
}

// IssueOfCRL reads which issue a revocation list (DER) is. Its subject is the issuer. Lists are ordered by thisUpdate and
// not by their number (RFC 5280, section 5.2.3): not all vendors' lists have one.
func IssueOfCRL(der []byte) (Issue, bool) {
	if len(der) > MaxCRL {
		return Issue{}, false
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return Issue{}, false
	}
	return Issue{
		Subject: fmt.Sprintf("revocation list of %s (%s)", Printable(list.Issuer.CommonName), canon.Sum(list.RawIssuer).Short()),
		At:      canon.At(list.ThisUpdate),
	}, true
}

// IssueOfDenyList reads which issue a deny list is. Its subject is the key that signed it.
func IssueOfDenyList(data []byte) (Issue, bool) {
	env, err := ledger.ParseEnvelope(data)
	if err != nil || env.PayloadType != DenyListType || len(env.Signatures) != 1 {
		return Issue{}, false
	}
	var l DenyList
	if err := canon.Unmarshal(env.Payload, &l); err != nil {
		return Issue{}, false
	}
	return Issue{"deny list of " + env.Signatures[0].KeyID.Short(), l.Number, l.ThisUpdate}, true
}
