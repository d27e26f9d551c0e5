package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// Explain says in plain sentences what the policy asks.
func (p *Policy) Explain() string {
	var b strings.Builder
	d := p.document
	fmt.Fprintf(&b, "Policy %s, digest %s\n", d.Name, p.digest)
	if d.About != "" {
		fmt.Fprintf(&b, "%s\n", d.About)
	}
	if d.DataClass != "" {
		fmt.Fprintf(&b, "For data of class %s.\n", d.DataClass)
	}
	b.WriteString("\nAccepted only if all of this is shown:\n")
	for i := range p.program.rules {
		b.WriteString("  - " + p.program.rules[i].sentence() + "\n")
		for _, c := range p.program.rules[i].checks {
			fmt.Fprintf(&b, "      %s: %s\n", c.def.ID, c.def.Meaning)
		}
	}
	if len(d.Refuse) > 0 {
		b.WriteString("\nRefused if any of this is contradicted (unknown passes):\n")
		for _, pattern := range d.Refuse {
			b.WriteString("  - " + pattern + "\n")
		}
	}
	if d.Issuers != nil {
		fmt.Fprintf(&b, "\nAbout the party only the word of these issuers counts:\n")
		for _, id := range d.Issuers {
			b.WriteString("  - " + id + "\n")
		}
	}
	if d.References != nil {
		b.WriteString("\nReference values count from these lists only:\n")
		for _, r := range d.References {
			b.WriteString("  - " + r.String() + "\n")
		}
	}
	if p.usesFloors() {
		b.WriteString("\nFloors, part by part; another product line is undecided:\n")
		for _, f := range p.program.floors {
			fmt.Fprintf(&b, "  - %s: %s\n", f.product, f.text)
		}
	}
	if u := p.Uncovered(); u != nil {
		fmt.Fprintf(&b, "\nNothing is decided about %s.\n", list(u, "or"))
	}
	b.WriteString("\nWhat cannot be read is always refused. A required component that is missing, or that the provider left out, is refused;\nwhat else is unknown leaves the verdict undecided.\n")
	return b.String()
}

// sentence says what a rule asks of whom.
func (r *rule) sentence() string {
	var who string
	switch {
	case r.of == Set && r.ifPresent:
		who = "The set, where there are GPUs or switches"
	case r.of == Party:
		who = "The party (left open by a verdict over evidence alone)"
	case r.of.single():
		who = "The " + string(r.of)
	case r.ifPresent:
		who = "Every " + string(r.of) + " that is there"
	default:
		who = fmt.Sprintf("Every %s, at least %d", r.of, r.count)
	}
	if r.op == opAffirmed {
		return fmt.Sprintf("%s: %s affirmed", who, r.claim)
	}
	return fmt.Sprintf("%s: %s affirmed, and %s", who, r.claim, r.required)
}

func (p *Policy) usesFloors() bool {
	for i := range p.program.rules {
		if p.program.rules[i].op == opFloors {
			return true
		}
	}
	return false
}

const (
	topicParty = "who runs the host and where" // which a verdict over evidence leaves open
	topicGPUs  = "GPUs"
)

// topics are what a renter will take for granted unless told otherwise, and the claims of which a policy must require one
// to say anything about it.
var topics = []struct {
	topic string
	by    []string // claim ids after the room; nil: any claim of the class
	of    Class
}{
	{topic: "secrecy", by: []string{"debug-off"}, of: CPU},
	{topic: "freshness", by: []string{"freshness"}, of: CPU},
	{topic: "revocation", by: []string{"revocation"}, of: CPU},
	{topic: "state", by: []string{"measured"}, of: Node},
	{topic: topicGPUs, by: []string{"cc-mode"}, of: GPU},
	{topic: topicParty, of: Party},
}

// Uncovered names what the policy decides nothing about, however it ends.
func (p *Policy) Uncovered() (open []string) {
	for _, t := range topics {
		covered := false
		for i := range p.program.rules {
			r := &p.program.rules[i]
			covered = covered || r.of == t.of && t.by == nil
			for _, by := range t.by {
				covered = covered || r.of.covers(t.of) && suffix(r.claim) == by
			}
		}
		if !covered {
			open = append(open, t.topic)
		}
	}
	return open
}

// NotDecided names what a verdict by the policy decides nothing about: what the policy leaves uncovered, and what the
// verdict left open.
func (p *Policy) NotDecided(v Verdict) []string {
	topics := p.Uncovered()
	if v.Open != nil && !slices.Contains(topics, topicParty) {
		topics = append(topics, topicParty)
	}
	return topics
}

// Line is one line of a policy: its label, as reasons name it, and what it asks.
type Line struct {
	Label string `json:"label"` // require[7] sevsnp.tcb
	Text  string `json:"text"`
}

// Lines returns the lines that read a claim of a subject, in their order: rules of require that speak of it, and lines of
// refuse that name it. A rule that reads a claim which rests on this one is not among them.
func (p *Policy) Lines(id, subject string) (require, refuse []Line) {
	class := Class(claim.Class(subject))
	for i := range p.program.rules {
		if r := &p.program.rules[i]; r.of.covers(class) && matches(r.claim, id) {
			require = append(require, Line{r.label, r.sentence()})
		}
	}
	for _, r := range p.program.refuse {
		if matches(r.pattern, id) {
			refuse = append(refuse, Line{r.label, r.pattern + " must not be contradicted"})
		}
	}
	return require, refuse
}
