package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// exampleAge is how old the evidence of an example is, in seconds.
const exampleAge = 60

// Example returns tests that the policy passes: a host that it accepts, and for each rule one that it refuses for that rule
// alone. They say what the policy asks in other words, and not whether it is what was meant: whoever owns the policy adds
// tests of his own hosts.
func (p *Policy) Example(at canon.Time) *Tests {
	t := &Tests{Type: TestsType, AsOf: at, Hosts: []Host{{Name: "sound", Claims: p.sound()}}, Tests: []Test{{Name: "a sound host", Host: "sound", Want: Accept}}}
	twin := func(name string, want Outcome, because string, change ...Stated) {
		t.Tests = append(t.Tests, Test{Name: name, Host: "sound", Change: change, Want: want, Because: []string{because}})
	}
	for i := range p.program.rules {
		r := &p.program.rules[i]
		ch := *p.program.pick(r)
		subject := subjectOf(r, &ch, r.count-1)
		base := t.stated(ch.def.ID, subject)
		if value, bad := p.program.tooLittle(r, &ch); bad {
			base.Value = Value(value)
			if r.op == opMaxAge {
				base.Value, base.Age = t.stated(ch.def.ID, subject).Value, r.maxAge+60
			}
			twin(fmt.Sprintf("%s of %s is not enough", ch.def.ID, subject), Reject, ch.def.ID, base)
			continue
		}
		base.Status, base.Value, base.Age = claim.Contradicted, "", 0
		twin(fmt.Sprintf("%s of %s does not hold", ch.def.ID, subject), Reject, ch.def.ID, base)
	}
	for _, f := range p.program.refuse {
		i := slices.IndexFunc(t.Hosts[0].Claims, func(s Stated) bool { return matches(f.pattern, s.ID) })
		if i < 0 {
			continue // the host says nothing of it
		}
		c := t.Hosts[0].Claims[i]
		c.Status, c.Value, c.Age = claim.Contradicted, "", 0
		if name := fmt.Sprintf("%s of %s does not hold", c.ID, c.Subject); !slices.ContainsFunc(t.Tests, func(x Test) bool { return x.Name == name }) {
			twin(name, Reject, c.ID, c)
		}
	}
	return t
}

// pick returns the format that an example takes where a rule means several: one that another rule names, else the last, a
// CPU's own.
func (p *program) pick(r *rule) *check {
	for i := range r.checks {
		if slices.ContainsFunc(p.rules, func(o rule) bool { return len(o.checks) == 1 && o.of == r.of && o.checks[0].room == r.checks[i].room }) {
			return &r.checks[i]
		}
	}
	return &r.checks[len(r.checks)-1]
}

// stated returns the claim of the example's host.
func (t *Tests) stated(id, subject string) Stated {
	i := slices.IndexFunc(t.Hosts[0].Claims, func(s Stated) bool { return s.ID == id && s.Subject == subject })
	return t.Hosts[0].Claims[i]
}

// subjectOf names the n-th subject that a rule speaks of. Of devices the example has those of one format.
func subjectOf(r *rule, ch *check, n int) string {
	switch {
	case r.of.single():
		return string(r.of)
	case r.of == Device:
		return fmt.Sprintf("%s:%d", classesOf(ch.room)[0], n)
	}
	return fmt.Sprintf("%s:%d", r.of, n)
}

// sound returns claims that satisfy every rule.
func (p *Policy) sound() (claims []Stated) {
	number := map[Class]int{} // components by class
	for i := range p.program.rules {
		r := &p.program.rules[i]
		number[r.of] = max(number[r.of], r.count)
	}
	add := func(s Stated) {
		i := slices.IndexFunc(claims, func(o Stated) bool { return o.ID == s.ID && o.Subject == s.Subject })
		if i < 0 {
			claims = append(claims, s)
			return
		}
		if s.Value != "" { // of several rules over one claim, one names its value
			claims[i].Value = s.Value
		}
		claims[i].Age = cmp.Or(claims[i].Age, s.Age)
	}
	for i := range p.program.rules {
		r := &p.program.rules[i]
		ch := p.program.pick(r)
		for n := range max(1, number[r.of]) {
			s := Stated{ID: ch.def.ID, Subject: subjectOf(r, ch, n), Value: Value(p.program.enough(r, ch))}
			if !r.of.single() {
				add(Stated{ID: ch.room + "." + structure, Subject: s.Subject})
			}
			if r.op == opMaxAge {
				s.Age = min(exampleAge, r.maxAge)
			}
			if r.op == opFloors {
				add(Stated{ID: ch.product, Subject: s.Subject, Value: Value(p.program.floors[0].product)})
			}
			if slices.Contains(vouched, s.ID) {
				s.Issuer = "issuer.example"
				if p.document.Issuers != nil {
					s.Issuer = p.document.Issuers[0]
				}
			}
			if p.document.References != nil && slices.Contains(measuredClaims, s.ID) {
				s.List = p.document.References[0]
			}
			add(s)
		}
	}
	return claims
}

// enough returns a value that satisfies a rule; of a claim whose value the rule does not read, none.
func (p *program) enough(r *rule, ch *check) string {
	switch r.op {
	case opIn:
		return string(r.values[0])
	case opMin:
		switch ch.def.Kind {
		case claim.Number:
			return strconv.FormatInt(ch.number, 10)
		case claim.TCB:
			return ch.tcb.String()
		}
		return strings.Join(slices.Sorted(slices.Values(ch.words)), " ")
	case opFloors:
		return p.floors[0].min.String()
	}
	return ""
}

// tooLittle returns a value that is proven and does not satisfy a rule, if there is one.
func (p *program) tooLittle(r *rule, ch *check) (value string, found bool) {
	switch r.op {
	case opIn:
		candidates := claim.Values(ch.def.ID)
		switch {
		case ch.def.ID == "party.jurisdiction":
			candidates = countries
		case ch.def.Kind == claim.Number:
			candidates = []string{"0", "1", "2", "3", "99"}
		case ch.def.Kind == claim.Hex:
			candidates = []string{"00", "01", "02"}
		case candidates == nil:
			candidates = []string{"other", "another", "neither"}
		}
		for _, v := range candidates {
			if !slices.Contains(r.values, Value(v)) {
				return v, true
			}
		}
	case opMin:
		switch ch.def.Kind {
		case claim.Number:
			return strconv.FormatInt(ch.number-1, 10), ch.number > 0
		case claim.TCB:
			return ch.tcb.less()
		}
		return strings.Join(ch.words[1:], " "), len(ch.words) > 1 // without any word there is no value to state
	case opFloors:
		return p.floors[0].min.less()
	case opMaxAge:
		return "", true
	}
	return "", false
}

// String writes the text form, every part that is named.
func (t tcb) String() string {
	var parts []string
	for i, n := range t {
		if n >= 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", tcbParts[i], n))
		}
	}
	return strings.Join(parts, " ")
}

// less returns a TCB with one part lower, if one can be.
func (t tcb) less() (string, bool) {
	for i, n := range t {
		if n > 0 {
			t[i] = n - 1
			return t.String(), true
		}
	}
	return "", false
}
