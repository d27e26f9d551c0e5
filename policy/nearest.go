package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Refusal is a reason as people are shown it: in a sentence, and with the line of the policy that it comes from.
type Refusal struct {
	Reason
	Sentence string `json:"sentence"`
	Place    string `json:"place,omitzero"` // FILE:LINE; absent: no file has it
}

// Refusals puts the reasons of a verdict by the policy into words.
func (p *Policy) Refusals(v Verdict) []Refusal {
	list := make([]Refusal, 0, len(v.Reasons))
	for _, r := range v.Reasons {
		list = append(list, Refusal{r, r.Sentence(), p.Place(r.Rule)})
	}
	return list
}

// Candidate is a host as it was found last.
type Candidate struct {
	Host   string
	Claims claim.Set  // of its appraisal, and of the party behind it
	AsOf   canon.Time // at which it is decided
}

// Nearest is what stands near a host that a policy refuses.
type Nearest struct {
	Hosts   int    `json:"hosts"`   // other ones that were looked at
	Match   int    `json:"match"`   // of these, that the policy accepts
	Nearest []Near `json:"nearest"` // at most [MaxNearest]: such as match, or where none does, such as fail the fewest rules
}

// Near is one host near another.
type Near struct {
	Host    string       `json:"host"`
	Verdict Outcome      `json:"verdict"`
	Fails   []string     `json:"fails"`   // labels of the rules that it fails; none if it matches
	Differs []Difference `json:"differs"` // in claims that the policy reads, those that the refused host fails on first; at most [MaxDiffers]
	More    int          `json:"more"`    // differences that are left out
}

// Difference is a claim of which two hosts say different things, in the words of their appraisals; empty: nothing is said.
type Difference struct {
	Claim   string `json:"claim"`
	Subject string `json:"subject"`
	Refused string `json:"refused"` // of the host that is refused
	Near    string `json:"near"`    // of the one near it
}

// Nearest decides other hosts by the policy, and names those nearest to a host that it refuses. Hosts that match come
// first, and of them such as differ in the fewest claims that the policy reads; where none matches, such as fail the fewest
// rules. Equals stand in the order of their names, so that the order of the hosts changes nothing. It says nothing of price,
// or of whether a host is free.
func (p *Policy) Nearest(refused Candidate, others []Candidate) Nearest {
	n := Nearest{Nearest: []Near{}}
	fails := map[string]bool{}
	for _, r := range Decide(refused.Claims, p, refused.AsOf).Reasons {
		fails[r.Claim+"@"+r.Subject] = true
	}
	type ranked struct {
		Near
		differs int
	}
	var all []ranked
	for _, o := range others {
		if o.Host == refused.Host {
			continue
		}
		n.Hosts++
		v := Decide(o.Claims, p, o.AsOf)
		if v.Outcome == Accept {
			n.Match++
		}
		x := ranked{Near: Near{Host: o.Host, Verdict: v.Outcome, Fails: []string{}}}
		if v.Outcome != Accept && n.Match == 0 {
			for _, line := range p.Trace(o.Claims, o.AsOf) { // a verdict names what several rules fail on once
				if line.Outcome != Accept && !line.Open {
					x.Fails = append(x.Fails, line.Label)
				}
			}
			for _, r := range v.Reasons {
				if strings.HasPrefix(r.Rule, always) && !slices.Contains(x.Fails, r.Rule) {
					x.Fails = append(x.Fails, r.Rule)
				}
			}
		}
		x.Differs = p.differences(refused.Claims, o.Claims, fails)
		x.differs = len(x.Differs)
		if x.More = max(0, x.differs-MaxDiffers); x.More > 0 {
			x.Differs = x.Differs[:MaxDiffers:MaxDiffers]
		}
		all = append(all, x)
	}
	if n.Match > 0 {
		all = slices.DeleteFunc(all, func(x ranked) bool { return x.Verdict != Accept })
	}
	slices.SortFunc(all, func(x, y ranked) int {
		return cmp.Or(cmp.Compare(len(x.Fails), len(y.Fails)), cmp.Compare(x.differs, y.differs), strings.Compare(x.Host, y.Host))
	})
	for _, x := range all[:min(len(all), MaxNearest)] {
		n.Nearest = append(n.Nearest, x.Near)
	}
	return n
}

// differences lists the claims that the policy reads and of which two hosts say different things. Claims of one id and
// subject by several issuers are one word.
func (p *Policy) differences(refused, near claim.Set, first map[string]bool) (list []Difference) {
	type key struct{ subject, id string }
	said := map[key][2]string{}
	for side, set := range []claim.Set{refused, near} {
		for i := range set {
			c := &set[i]
			read, value := p.reads(c)
			if !read {
				continue
			}
			k := key{c.Subject, c.ID}
			both := said[k]
			if both[side] != "" {
				both[side] += "; "
			}
			both[side] += says(c, value)
			said[k] = both
		}
	}
	for k, both := range said {
		if both[0] != both[1] {
			list = append(list, Difference{k.id, k.subject, both[0], both[1]})
		}
	}
	if list == nil {
		return []Difference{}
	}
	rank := func(d Difference) int {
		if first[d.Claim+"@"+d.Subject] {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(x, y Difference) int {
		return cmp.Or(rank(x)-rank(y), strings.Compare(x.Subject, y.Subject), strings.Compare(x.Claim, y.Claim))
	})
	return list
}

// says is a claim in a word: its value where a rule compares it, or why it has none. A sentence is about one machine, so that
// of a reason only its code counts.
func says(c *claim.Claim, value bool) string {
	switch {
	case c.Status != claim.Affirmed:
		return c.Status.String() + " (" + c.Reason.Code() + ")"
	case value:
		return cmp.Or(c.Value, "nothing")
	}
	return c.Status.String()
}

// reads reports whether a rule or a line of the policy reads a claim, and whether a rule compares its value. How old a claim
// is differs between any two hosts, and is none of its value.
func (p *Policy) reads(c *claim.Claim) (read, value bool) {
	class := Class(claim.Class(c.Subject))
	for i := range p.program.rules {
		if r := &p.program.rules[i]; r.of.covers(class) && matches(r.claim, c.ID) {
			read, value = true, value || r.op == opIn || r.op == opMin || r.op == opFloors
		}
	}
	return read || slices.ContainsFunc(p.program.refuse, func(r refusal) bool { return matches(r.pattern, c.ID) }), value
}
