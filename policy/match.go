package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// Matching is how many hosts a policy accepts, and what keeps the others out.
type Matching struct {
	Hosts     int       `json:"hosts"`
	Match     int       `json:"match"`
	Rejected  int       `json:"rejected"`
	Undecided int       `json:"undecided"`
	Open      []string  `json:"open"`  // rules that nothing known of the hosts decides
	Costs     []Cost    `json:"costs"` // the greatest first
	Relaxed   []Relaxed `json:"relaxed"`
}

// Cost is what one line of a policy costs.
type Cost struct {
	Rule  string `json:"rule"`
	Place string `json:"place,omitzero"` // FILE:LINE; absent: no file has it
	Claim string `json:"claim"`          // that the line names
	Hosts int    `json:"hosts"`          // that do not match because of it
	Alone int    `json:"alone"`          // of these, that would match without it
}

// Relaxed is what a policy without some lines would do.
type Relaxed struct {
	Without string `json:"without"`
	Lines   int    `json:"lines"`
	Match   int    `json:"match"`
}

// Refused is a host that does not match.
type Refused struct {
	Host    string   `json:"host"`
	Verdict Outcome  `json:"verdict"`
	Codes   []string `json:"codes"` // of the reasons
}

// NoRuleError says that a policy has no rule of a name.
type NoRuleError struct{ Name string }

func (e *NoRuleError) Error() string {
	return fmt.Sprintf("%.80q: no rule of the policy has that name", e.Name)
}

// Match decides every host, counts what each line costs, and what the policy would do without the lines of some words
// ([Policy.Relax]), each by itself.
func (p *Policy) Match(hosts []Candidate, relax []string) (m Matching, no []Refused, err error) {
	m = Matching{Hosts: len(hosts), Open: []string{}, Costs: []Cost{}, Relaxed: []Relaxed{}}
	no = []Refused{}
	without := map[string]*Policy{} // by rule, the policy without it
	for _, h := range hosts {
		v := Decide(h.Claims, p, h.AsOf)
		if v.Open != nil {
			m.Open = v.Open
		}
		switch v.Outcome {
		case Accept:
			m.Match++
			continue
		case Reject:
			m.Rejected++
		default:
			m.Undecided++
		}
		not := Refused{Host: h.Host, Verdict: v.Outcome}
		var rules []string
		for _, why := range v.Reasons {
			not.Codes = append(not.Codes, cmp.Or(why.Code, claim.Reason(why.Observed).Code()))
			if !slices.Contains(rules, why.Rule) {
				rules = append(rules, why.Rule)
			}
		}
		for _, rule := range rules {
			i := slices.IndexFunc(m.Costs, func(c Cost) bool { return c.Rule == rule })
			label, id, _ := strings.Cut(rule, " ")
			if i < 0 {
				m.Costs, i = append(m.Costs, Cost{Rule: rule, Place: p.Place(rule), Claim: id}), len(m.Costs)
			}
			m.Costs[i].Hosts++
			if len(rules) == 1 { // who fails another one too does not match without this one
				if without[rule] == nil {
					without[rule], _ = p.Relax(label)
				}
				if Decide(h.Claims, without[rule], h.AsOf).Outcome == Accept {
					m.Costs[i].Alone++
				}
			}
		}
		no = append(no, not)
	}
	// Equals stand as in the policy, so that the order of the hosts changes nothing: a label ends in its number.
	slices.SortFunc(m.Costs, func(x, y Cost) int {
		a, _, _ := strings.Cut(x.Rule, " ")
		b, _, _ := strings.Cut(y.Rule, " ")
		return cmp.Or(y.Hosts-x.Hosts, y.Alone-x.Alone, len(a)-len(b), strings.Compare(x.Rule, y.Rule))
	})
	for _, word := range relax {
		looser, lines := p.Relax(word)
		if lines == 0 {
			return m, no, &NoRuleError{word}
		}
		x := Relaxed{Without: word, Lines: lines}
		for _, h := range hosts {
			if Decide(h.Claims, looser, h.AsOf).Outcome == Accept {
				x.Match++
			}
		}
		m.Relaxed = append(m.Relaxed, x)
	}
	return m, no, nil
}
