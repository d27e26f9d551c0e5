package policy

import (
	"slices"
	"sort"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// vouched are the claims of a party that only somebody else can state. The others are what the verifier itself finds or
// counts, or draws from these.
var vouched = []string{"party.domain", "party.facility", "party.facility-audit", "party.identity", "party.jurisdiction", "party.legal-entity"}

// hasParty reports whether the set has a claim of the party.
func (d *decision) hasParty() bool {
	i := sort.Search(len(d.set), func(i int) bool { return d.set[i].Subject >= claim.SubjectParty })
	return i < len(d.set) && d.set[i].Subject == claim.SubjectParty
}

// parties makes the claims of the party ready to be judged. Of what several issuers say about one thing, a word that
// counts is not undone by one that says nothing: whatever is unknown or of another time goes where another's word counts.
// A contradiction stays.
func (d *decision) parties() {
	all := true // of them count: nothing is to be made of them
	for i := range d.set {
		if c := &d.set[i]; c.Subject == claim.SubjectParty {
			all = all && c.Status == claim.Affirmed && d.inside(c, false) && d.policy.program.vouches(c) == ""
		}
	}
	if all {
		return
	}
	set := make(claim.Set, 0, len(d.set))
	for i := 0; i < len(d.set); {
		if d.set[i].Subject != claim.SubjectParty {
			set = append(set, d.set[i])
			i++
			continue
		}
		from, counts := len(set), false
		for id := d.set[i].ID; i < len(d.set) && d.set[i].Subject == claim.SubjectParty && d.set[i].ID == id; i++ {
			c := d.set[i]
			if c.Status == claim.Affirmed {
				if why := d.policy.program.vouches(&c); why != "" {
					c.Status, c.Reason = claim.Unknown, why
				}
			}
			set = append(set, c)
			counts = counts || c.Status == claim.Affirmed && d.inside(&c, false)
		}
		if counts {
			said := slices.DeleteFunc(slices.Clone(set[from:]), func(c claim.Claim) bool {
				return c.Status == claim.Unknown || c.Status == claim.Affirmed && !d.inside(&c, false)
			})
			set = append(set[:from], said...)
		}
	}
	d.set = set
}

// vouches returns why an affirmed claim of a party does not count for who says so, or nothing.
func (p *program) vouches(c *claim.Claim) claim.Reason {
	named := 0
	for _, b := range c.Basis {
		if !strings.HasPrefix(b, claim.IssuerGround) {
			continue
		}
		if named++; p.issuers != nil && !slices.Contains(p.issuers, b) {
			return claim.Because(otherIssuer, "it is the word of %+.80q, who is none of the policy's issuers", strings.TrimPrefix(b, claim.IssuerGround))
		}
	}
	if named == 0 && slices.Contains(vouched, c.ID) {
		return claim.Because(claim.SelfAsserted, "it names no issuer that vouches for it")
	}
	return ""
}
