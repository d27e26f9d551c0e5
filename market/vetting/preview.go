package vetting

import (
	"regexp"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// Candidate is a host as it is weighed: its certificate, the claims of its last appraisal, and what was observed.
type Candidate struct {
	Certificate Certificate
	Claims      claim.Set
	Observed    Observed
}

// Reassess weighs many hosts at a time, in their order.
func (r *Registry) Reassess(hosts []Candidate, q Parameters, at canon.Time) []Standing {
	out := make([]Standing, len(hosts))
	for i, h := range hosts {
		out[i] = r.Stand(h.Certificate.Place, h.Certificate.Assertions, h.Observed, q, at)
	}
	return out
}

// Keeps returns the hosts that the renewal of a claim keeps eligible: those of which eligible holds now, and would not hold
// without the claim. Grace clocks are left out: they are what remains to act in.
func (r *Registry) Keeps(digest canon.Digest, hosts []Candidate, q Parameters, at canon.Time, eligible func(Standing) bool) (ids []string) {
	without := r.Without(digest)
	for _, h := range hosts {
		c := h.Certificate
		if eligible(r.Stand(c.Place, c.Assertions, h.Observed, q, at)) && !eligible(without.Stand(c.Place, c.Assertions, h.Observed, q, at)) {
			ids = append(ids, c.Place.Host)
		}
	}
	return ids
}

// Recovery is a day on which a vendor raises the level of firmware that counts as current.
type Recovery struct {
	Date      canon.Time
	Model     string // generation of hardware, as devices name it
	Exploited bool   // attacks on the old level are known
}

// Stop is a policy that stops matching a host, and when.
type Stop struct {
	Policy string     `json:"policy"`
	At     canon.Time `json:"at"`
}

// Fall is what becomes of a host that nobody updates: its clock starts when the level is raised, and when it is over the tier
// falls.
type Fall struct {
	Host     string     `json:"host"`
	Provider string     `json:"provider"`
	From     canon.Time `json:"from"`
	Falls    canon.Time `json:"falls"`
	Tier     string     `json:"tier"`
	Left     string     `json:"left,omitzero"` // the tier that is left
	Stops    []Stop     `json:"stops,omitzero"`
}

// Recover simulates a recovery day: which hosts fall when, and which policies then match them no more, by the parameters of
// that day. Every host with a device of that model counts as one that nobody updates: what the vendor will call current is not
// known before that day. A clock that runs already for such a fault runs on, and of a grace that was spent in part the rest is
// left. All else is taken to stay as it is now, the age of evidence too.
func Recover(day Recovery, hosts []Candidate, policies []*policy.Policy, q Parameters, now canon.Time) (falls []Fall) {
	code := FindingTCB
	if day.Exploited {
		code = FindingExploited
	}
	for _, h := range hosts {
		c := h.Certificate
		if !c.Live() || !slices.ContainsFunc(c.Place.Devices, func(d Device) bool { return d.Model == day.Model }) {
			continue
		}
		f := Fall{Host: c.Place.Host, Provider: c.Place.Provider, From: day.Date, Tier: c.Tier, Left: c.Tier}
		r, code := run{Certificate: c.clone()}, code
		if r.clock(FindingExploited) >= 0 { // which a higher level does not make less grave
			code = FindingExploited
		}
		f.Falls = r.graceEnd(Finding{Code: code}, day.Date, q)
		if limit := effects[code].cap; slices.Index(claim.Tiers, f.Tier) > slices.Index(claim.Tiers, limit) {
			f.Left = limit
		}
		old := outdated(h.Claims)
		fallen := c
		fallen.Tier = f.Left
		for _, p := range policies {
			accepts := func(claims claim.Set, party Certificate) bool {
				return policy.Decide(slices.Concat(claims, party.PartyClaims()), p, now).Outcome == policy.Accept
			}
			if !accepts(h.Claims, c) {
				continue
			}
			switch {
			case !accepts(old, c):
				f.Stops = append(f.Stops, Stop{p.Document().Name, f.From})
			case !accepts(old, fallen):
				f.Stops = append(f.Stops, Stop{p.Document().Name, f.Falls})
			}
		}
		falls = append(falls, f)
	}
	slices.SortStableFunc(falls, func(a, b Fall) int { return strings.Compare(a.Provider+" "+a.Host, b.Provider+" "+b.Host) })
	return falls
}

var digits = regexp.MustCompile(`[0-9]+`)

// outdated returns the claims as an appraisal would make them once the vendor has raised the level: a TCB status that says
// so, and TCBs below any floor.
func outdated(claims claim.Set) claim.Set {
	out := slices.Clone(claims)
	for i := range out {
		switch out[i].ID {
		case "tdx.tcb-status":
			out[i].Value = "OutOfDate"
		case "sevsnp.tcb", "sevsnp.committed-tcb", "sevsnp.launch-tcb":
			out[i].Value = digits.ReplaceAllString(out[i].Value, "0")
		}
	}
	return out
}
