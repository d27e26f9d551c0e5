package policy

import (
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// finding is a rule that is not met: for a reason of its own, or as a consequence of what stands at the bottom of it.
type finding struct {
	rule   *rule
	reason Reason  // all but the rule
	key    string  // findings with one key are one reason, whichever rule asked; "" is never shared
	causes []cause // of a consequence; the reason is then empty
}

// cause is a claim that does not count for what it says itself.
type cause struct {
	id, subject string
	status      claim.Status // contradicted or unknown
	why         claim.Reason
}

// itself returns what a claim says against counting, its bases apart.
func (d *decision) itself(c *claim.Claim) cause {
	switch {
	case c.Status == claim.Contradicted || c.Status == claim.Unknown:
		return cause{c.ID, c.Subject, c.Status, c.Reason}
	case c.Status == claim.Affirmed && !d.inside(c, false):
		return cause{c.ID, c.Subject, claim.Unknown, claim.Because(claim.Lapsed, "it speaks of %s, not of %s", interval(c), d.at)}
	}
	return cause{c.ID, c.Subject, claim.Unknown, claim.Because(claim.Internal, "its status and what it rests on do not fit")}
}

func interval(c *claim.Claim) string {
	switch {
	case c.From == 0:
		return "times until " + c.Until.String()
	case c.Until == 0:
		return "times from " + c.From.String()
	}
	return c.From.String() + " to " + c.Until.String()
}

// bearing says whether a claim counts at the time of the verdict.
type bearing uint8

const (
	notAsked bearing = iota
	asking           // being found out: a claim that rests on itself does not count
	does
	doesNot
)

// counts reports whether a claim is affirmed at the time of the verdict, and everything it rests on.
func (d *decision) counts(i int) bool {
	if d.bearings[i] == notAsked {
		d.bearings[i] = asking
		c := &d.set[i]
		if c.Status == claim.Affirmed && d.inside(c, false) && d.based(c) {
			d.bearings[i] = does
		} else {
			d.bearings[i] = doesNot
		}
	}
	return d.bearings[i] == does
}

// inside reports whether the verdict's time lies in the claim's interval, both ends included. An age is compared by its
// operator, which forgives a little future.
func (d *decision) inside(c *claim.Claim, byAge bool) bool {
	return (c.From <= d.at || byAge) && (c.Until == 0 || d.at <= c.Until)
}

// based reports whether every claim that c rests on counts.
func (d *decision) based(c *claim.Claim) bool {
	for _, b := range c.Basis {
		id, subject, ok := claim.Base(b, c.Subject)
		if !ok {
			continue
		}
		from, to := d.find(id, subject)
		if from == to {
			return false
		}
		for i := from; i < to; i++ {
			if !d.counts(i) {
				return false
			}
		}
	}
	return true
}

// bottom returns the claims at the bottom of a claim that does not count: follows what it rests on, and what its reason
// names, down to claims that do not count for what they say themselves. It returns at least one.
func (d *decision) bottom(i int) []cause {
	if causes := d.descend(i, map[int]bool{}, nil); causes != nil {
		return causes
	}
	return []cause{d.itself(&d.set[i])} // it rests on itself
}

func (d *decision) descend(i int, seen map[int]bool, causes []cause) []cause {
	if seen[i] {
		return causes
	}
	seen[i] = true
	c := &d.set[i]
	bases := slices.Clone(c.Basis)
	if c.Status == claim.Unknown {
		id, rests := strings.CutPrefix(string(c.Reason), claim.RestsOn+" ")
		if !rests {
			return append(causes, d.itself(c))
		}
		bases = append(bases, id)
	} else if c.Status != claim.Affirmed || !d.inside(c, false) {
		return append(causes, d.itself(c))
	}
	deeper := false
	for _, b := range bases {
		id, subject, ok := claim.Base(b, c.Subject)
		if !ok {
			continue
		}
		from, to := d.find(id, subject)
		if from == to {
			causes, deeper = append(causes, d.absent(id, subject)...), true
		}
		for j := from; j < to; j++ {
			if !d.counts(j) {
				causes, deeper = d.descend(j, seen, causes), true
			}
		}
	}
	if !deeper {
		return append(causes, d.itself(c))
	}
	return causes
}

// absent returns why the set has no claim of that id and subject: because the component or the whole evidence could not
// be read, or else because the appraisal says nothing of it.
func (d *decision) absent(id, subject string) []cause {
	for _, at := range []struct{ subject, id string }{{subject, claim.Room(id) + "." + structure}, {string(Node), "bundle." + structure}} {
		if causes := d.unread(at.subject, at.id); causes != nil {
			return causes
		}
	}
	if subject == claim.SubjectParty {
		return []cause{{id, subject, claim.Unknown, claim.Because(notAppraised, "no issuer has said anything of it")}}
	}
	return []cause{{id, subject, claim.Unknown, claim.Because(notAppraised, "the appraisal says nothing of it")}}
}

// unread returns what a structure claim says if it is there and does not count.
func (d *decision) unread(subject, id string) (causes []cause) {
	from, to := d.find(id, subject)
	for i := from; i < to; i++ {
		if !d.counts(i) {
			causes = append(causes, d.itself(&d.set[i]))
		}
	}
	return causes
}

// code names a reason: what a claim is about, or party, and why it is not enough.
func code(id, why string) string {
	if claim.Room(id) == claim.SubjectParty {
		return claim.SubjectParty + "." + why
	}
	return suffix(id) + "." + why
}

// Codes of the rooms of formats, for which something else mends a claim than the catalogue says.
const (
	certificateHold = "certificate-hold"
	notInVersion    = "not-in-version"
	notYetValid     = "not-yet-valid"
	revoked         = "revoked"
)

// fixInternal mends what no provider can.
const fixInternal = "appraise again with a build that can judge it; the evidence is not to blame"

// reason puts a cause in words. The catalogue says who mends a claim, and how; where the code says that it is another, or
// takes something else, that stands here.
func (c cause) reason(required string) Reason {
	def, _ := claim.Lookup(c.id)
	r := Reason{
		Code: code(c.id, c.why.Code()), Claim: c.id, Subject: c.subject, Status: c.status, Required: required, Observed: string(c.why), Fix: def.Fix, Who: def.Who,
	}
	if claim.Room(c.id) == claim.SubjectParty { // certificates and issuers have codes of their own, and the catalogue knows them
		if c.why.Code() == claim.Internal {
			r.Fix, r.Who = fixInternal, claim.Relying
		}
		return r
	}
	measured := slices.Contains(measuredClaims, c.id)
	switch c.why.Code() {
	case claim.Internal, notAppraised:
		r.Fix, r.Who = fixInternal, claim.Relying
	case claim.NoReference:
		r.Fix, r.Who = "give the appraiser reference values that speak of it", claim.Relying
		switch {
		case c.id == "tdx.qe-signer": // which are no list of guests
			r.Fix = "add to the root set the file that names the quoting enclaves that count"
		case measured:
			r.Fix = "add reference values of the guest image, measured or from whoever built it"
		}
	case claim.NoExpectation:
		switch c.id {
		case "tpm.ak-bound": // no nonce binds a key to a TPM: the catalogue says what does
		case "binding.seal", "binding.possession": // only a bundle has them
			r.Fix, r.Who = "send what the agent collected: a vendor's file alone is bound to no session", claim.Provider
		default:
			r.Fix, r.Who = "appraise with the challenge, nonce or report data that was asked for", claim.Relying
		}
	case claim.CollateralMissing, claim.CollateralRefused:
		if def.Who != claim.Relying { // else the catalogue says what to fetch
			r.Fix, r.Who = "fetch anew what the vendor publishes of it, or have it sent with the evidence", claim.Relying
		}
	case claim.EvidenceMissing:
		if measured {
			r.Fix = "send evidence that measures the guest: the report of its CPU's TEE, on a paravisor the quote of the virtual TPM, with the boot logs"
		}
	case notYetValid:
		r.Fix, r.Who = "judge it at a time when the certificate is valid; if that is now, set the clock right", claim.Relying
	case notInVersion:
		r.Fix, r.Who = "update the firmware and what reads its report to a version that says it", claim.Provider
	case revoked:
		switch suffix(c.id) {
		case "tcb-status", "driver-rim", "vbios-rim": // other firmware, or another manifest, as the catalogue says
			return r
		}
		r.Fix, r.Who = "ask the vendor why; show other hardware, or firmware with a certificate that stands", claim.Provider
	case certificateHold:
		r.Fix, r.Who = "take the suspension back, or revoke: the provider asks why", claim.Vendor
	}
	return r
}

// conclude draws the outcome from the findings and gives each reason once. A consequence adds only what is at the bottom
// of it and no other rule has named.
func (d *decision) conclude(reasons []Reason) (Outcome, []Reason) {
	if len(d.findings) == 0 {
		return Accept, reasons
	}
	named := map[string]bool{} // keys that have a reason of their own, or were given
	for _, f := range d.findings {
		if f.key != "" {
			named[f.key] = true
		}
	}
	given, outcome := map[string]bool{}, Undecided
	give := func(rule *rule, key string, r Reason) {
		if r.Decides() == Reject {
			outcome = Reject
		}
		if !given[key] || key == "" {
			r.Rule = rule.label
			reasons = append(reasons, r)
		}
		given[key] = true
	}
	for _, f := range d.findings {
		if f.causes == nil {
			give(f.rule, f.key, f.reason)
		}
		for _, c := range f.causes {
			if key := c.id + "@" + c.subject; !named[key] {
				give(f.rule, key, c.reason("affirmed"))
			}
		}
	}
	return outcome, reasons
}

// Decides returns what a reason alone makes of a verdict.
func (r Reason) Decides() Outcome {
	if r.Status == claim.Unknown && claim.Reason(r.Observed).Code() != claim.EvidenceMissing {
		return Undecided
	}
	return Reject // contradicted, a value that fails, or what only the provider can give
}
