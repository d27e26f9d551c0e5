package policy

import (
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Judged is one line of a policy with what a decision makes of it alone.
type Judged struct {
	Line
	Claim   string      // of the line: an id or a pattern
	Place   string      // FILE:LINE; empty: no file has it
	Outcome Outcome     // of this line alone
	Open    bool        // it speaks of the party, of which there is no claim; the outcome is then undecided
	Reasons []Reason    // why it is not met, each claim at the bottom once
	Claims  []ShortWord // that the line read, with what they say
}

// ShortWord is what a claim says, in short.
type ShortWord struct {
	ID, Subject string
	Status      claim.Status
	Value       string
	Reason      claim.Reason
}

// Trace judges every line of the policy alone: the rules of require, then the lines of refuse. [Decide] over the same
// claims accepts if every line that is not open is met, rejects if one of them does, and names each reason once.
func (p *Policy) Trace(claims claim.Set, at canon.Time) (lines []Judged) {
	d := newDecision(claims, p, at)
	judge := func(label, id, text string, look func()) {
		d.findings = nil
		look()
		j := Judged{Line: Line{label, text}, Claim: id, Place: p.Place(label)}
		j.Outcome, j.Reasons = d.conclude(nil)
		lines = append(lines, j)
	}
	for i := range p.program.rules {
		r := &p.program.rules[i]
		if r.of == Party && !d.hasParty() {
			lines = append(lines, Judged{Line: Line{r.label, r.sentence()}, Claim: r.claim, Place: p.Place(r.label), Outcome: Undecided, Open: true})
			continue
		}
		judge(r.label, r.claim, r.sentence(), func() { d.require(r) })
		last := &lines[len(lines)-1]
		for _, c := range d.set {
			if r.of.covers(Class(claim.Class(c.Subject))) && slices.ContainsFunc(r.checks, func(ch check) bool { return ch.def.ID == c.ID }) {
				last.Claims = append(last.Claims, ShortWord{c.ID, c.Subject, c.Status, c.Value, c.Reason})
			}
		}
	}
	for _, f := range p.program.refuse {
		judge(f.label, f.pattern, f.pattern+" must not be contradicted", func() { d.refused(f) })
	}
	return lines
}

// Relax returns the policy without the rules and lines that a word names, for asking what they cost: a label such as
// require[7], a claim id, or what a claim is about (tcb of sevsnp.tcb). It says how many lines it left out.
func (p *Policy) Relax(word string) (*Policy, int) {
	names := func(label, id string) bool {
		short, _, _ := strings.Cut(label, " ")
		return word == short || word == id || word == suffix(id)
	}
	relaxed := *p
	relaxed.program.rules = slices.DeleteFunc(slices.Clone(p.program.rules), func(r rule) bool { return names(r.label, r.claim) })
	relaxed.program.refuse = slices.DeleteFunc(slices.Clone(p.program.refuse), func(r refusal) bool { return names(r.label, r.pattern) })
	left := len(p.program.rules) - len(relaxed.program.rules) + len(p.program.refuse) - len(relaxed.program.refuse)
	return &relaxed, left
}
