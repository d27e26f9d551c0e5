package verifier

import (
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
)

// Identities returns the hardware identities that the evidence proves under the case's roots, each once. An appraiser
// looks them up in its registry, puts what it finds into the case's expectations, and then appraises. It says nothing of
// whether they are fresh, bound to the bundle, or somebody else's.
func Identities(o *Opened, c attest.Case) []attest.Identity {
	var set claim.Set
	r := run{o: o, c: &c, set: &set}
	r.judgeComponents()
	set.Settle()
	var proven []attest.Identity
	for _, f := range r.findings {
		vouch := set.Find(f.Signature, f.subject)
		if vouch == nil || vouch.Status != claim.Affirmed {
			continue
		}
		for _, id := range f.Identities {
			if !slices.ContainsFunc(proven, id.Equal) {
				proven = append(proven, id)
			}
		}
	}
	return proven
}
