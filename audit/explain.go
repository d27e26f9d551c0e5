package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// ExplanationType is the type of the document that [Reading.Explain] makes.
const ExplanationType = "assay/explanation/v1"

// Explanation is one verdict, check by check.
type Explanation struct {
	Type      string               `json:"type"`
	Origin    string               `json:"origin"`
	Trust     string               `json:"trust"`
	Index     int64                `json:"index"`
	Verdict   canon.Digest         `json:"verdict"`
	Node      string               `json:"node"`
	Outcome   string               `json:"outcome"`
	Policy    policy.Named         `json:"policy"`
	Appraised canon.Time           `json:"appraised"`
	Decided   canon.Time           `json:"decided"`
	Key       canon.Digest         `json:"key"` // that signed
	Rules     []verifier.RoomRules `json:"rules"`
	Roots     canon.Digest         `json:"roots"`  // root set that it was made under
	Vendor    bool                 `json:"vendor"` // which is the one that this build pins
	Inputs    []verifier.Input     `json:"inputs"`
	Checks    []Check              `json:"checks"`  // one for each claim
	Missing   []policy.Reason      `json:"missing"` // reasons about what the evidence lacks
	Open      []string             `json:"open"`    // lines that the verdict left open
}

// Check is one claim: what it says, where that stands, and what the policy made of it.
type Check struct {
	Claim    string           `json:"claim"`
	Subject  string           `json:"subject"`
	Sentence string           `json:"sentence"`
	Status   claim.Status     `json:"status"`
	Observed string           `json:"observed"` // the value, or why there is none
	Spec     string           `json:"spec"`     // document, revision, section
	From     canon.Time       `json:"from,omitzero"`
	Until    canon.Time       `json:"until,omitzero"`
	Rests    []string         `json:"rests"`   // on these claims
	Places   []Place          `json:"places"`  // where the value stands in the evidence
	Inputs   []verifier.Input `json:"inputs"`  // that were consulted beside the evidence
	Require  []policy.Line    `json:"require"` // lines of the policy that ask for it
	Refuse   []policy.Line    `json:"refuse"`  // lines that refuse it contradicted
	Reasons  []policy.Reason  `json:"reasons"` // that the verdict gives for it; none: every line that reads it is met, or names another claim
}

// Canonical returns the canonical bytes of the explanation.
func (x Explanation) Canonical() ([]byte, error) { return canon.Marshal(x) }

// Explain says of one verdict what was checked, by which specification, where in the evidence the value stands, and which
// line of the policy read it. It tells what was logged; whether that follows from its inputs, [Replay] finds.
func (g *Reading) Explain(ctx context.Context, index int64) (Explanation, error) {
	o, row, err := g.verdictAt(ctx, index)
	if err != nil {
		return Explanation{}, err
	}
	v := o.result.Verdict
	x := Explanation{
		Type: ExplanationType, Origin: g.integrity.Origin, Trust: g.integrity.Trust, Index: index, Verdict: row.Verdict, Node: row.Node, Outcome: row.Outcome,
		Policy: v.Policy, Appraised: o.logged.AsOf, Decided: v.AsOf, Key: row.Key, Rules: row.Rules, Inputs: o.logged.Inputs,
		Checks: []Check{}, Missing: []policy.Reason{}, Open: append([]string{}, v.Open...),
	}
	data, err := g.blob(ctx, o.appraisal.evidence)
	if err != nil {
		return Explanation{}, err
	}
	evidence, err := verifier.Open(verifier.TypeBundle, data)
	if err != nil {
		return Explanation{}, err
	}
	components := map[string]attest.Component{}
	subjects := evidence.Subjects()
	for i, c := range evidence.Components() {
		components[subjects[i]] = c
	}
	for _, in := range x.Inputs {
		if in.Kind == verifier.InputRoots {
			x.Roots, x.Vendor = in.Digest, isVendor(in.Digest)
		}
	}
	for _, c := range o.logged.Claims {
		x.Checks = append(x.Checks, g.check(o, c, components))
	}
	for _, r := range v.Reasons {
		if !slices.ContainsFunc(x.Checks, func(c Check) bool { return slices.Contains(c.Reasons, r) }) {
			x.Missing = append(x.Missing, r)
		}
	}
	return x, nil
}

// check explains one claim.
func (g *Reading) check(o *opened, c claim.Claim, components map[string]attest.Component) Check {
	def, ok := claim.Lookup(c.ID)
	if !ok { // of another build's catalogue
		def = claim.Definition{ID: c.ID, Meaning: "this build's catalogue does not know the claim", Spec: "unknown to this build"}
	}
	x := Check{
		Claim: c.ID, Subject: c.Subject, Status: c.Status, Observed: observed(c), Spec: def.Spec, From: c.From, Until: c.Until,
		Rests: append([]string{}, c.Basis...), Places: []Place{}, Inputs: []verifier.Input{}, Reasons: []policy.Reason{},
	}
	x.Sentence = sentence(c, def)
	p := standings[c.ID]
	if component, ok := components[c.Subject]; ok {
		x.Places = append(x.Places, p.places(component)...)
	}
	for _, in := range o.logged.Inputs {
		ground := in.Kind == verifier.InputReferences && slices.Contains(c.Basis, listedGround+in.Digest.String())
		if slices.Contains(p.inputs, in.Kind) || ground || c.Subject == "node" && strings.HasPrefix(c.ID, "binding.") && in.Kind == verifier.InputExpect {
			x.Inputs = append(x.Inputs, in)
		}
	}
	x.Require, x.Refuse = g.policies[o.policy].Lines(c.ID, c.Subject)
	x.Require, x.Refuse = append([]policy.Line{}, x.Require...), append([]policy.Line{}, x.Refuse...)
	for _, r := range o.result.Verdict.Reasons {
		if r.Claim == c.ID && r.Subject == c.Subject {
			x.Reasons = append(x.Reasons, r)
		}
	}
	return x
}

func observed(c claim.Claim) string {
	switch {
	case c.Value != "" && c.Reason != "":
		return c.Value + "; " + string(c.Reason)
	case c.Reason != "":
		return string(c.Reason)
	case c.Value != "":
		return c.Value
	}
	return "it holds"
}

// sentence says what was found, in words.
func sentence(c claim.Claim, def claim.Definition) string {
	switch c.Status {
	case claim.Affirmed:
		return "It is shown that " + def.Meaning + "."
	case claim.Contradicted:
		return "The evidence shows the opposite of: " + def.Meaning + "."
	}
	return "It is not shown, either way, that " + def.Meaning + "."
}

// Text renders the explanation for people.
func (x Explanation) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s"+format+"\n", append([]any{name}, args...)...)
	}
	if !x.Vendor {
		fmt.Fprintf(&b, "NOT VENDOR ROOTS (root set %s)\n", x.Roots)
	}
	line("verdict", "%s by %s (sha256 %s)", strings.ToUpper(x.Outcome), Printable(x.Policy.Name), x.Policy.Digest)
	because := func(r policy.Reason) {
		line("because", "%s of %s: required %s, observed %s", Printable(r.Claim), Printable(r.Subject), Printable(r.Required), Printable(r.Observed))
	}
	for _, c := range x.Checks {
		for _, r := range c.Reasons {
			because(r)
		}
	}
	for _, r := range x.Missing {
		because(r)
	}
	line("entry", "%d of %s, %s", x.Index, Printable(x.Origin), x.Trust)
	line("result", "sha256 %s, signed by key %s", x.Verdict, x.Key)
	line("node", "%s", Printable(x.Node))
	line("times", "appraised %s, decided %s", x.Appraised, x.Decided)
	for _, in := range x.Inputs {
		line("input", "%s sha256 %s", Printable(in.Kind), in.Digest)
	}
	for _, r := range x.Rules {
		line("engine", "%s rules %d", Printable(r.Room), r.Rules)
	}
	for _, c := range x.Checks {
		fmt.Fprintf(&b, "\n%s of %s: %s\n  %s\n", Printable(c.Claim), Printable(c.Subject), c.Status, c.Sentence)
		part := func(name, format string, args ...any) {
			fmt.Fprintf(&b, "    %-10s"+format+"\n", append([]any{name}, args...)...)
		}
		part("by", "%s", c.Spec)
		for _, p := range c.Places {
			switch {
			case p.Field == "":
				part("at", "part %s, %d bytes, sha256 %s", Printable(p.Part), p.Size, p.Digest)
			case p.Size > MaxShown:
				part("at", "%s at 0x%03x of part %s, %d bytes: %s...", Printable(p.Field), p.Offset, Printable(p.Part), p.Size, p.Hex)
			default:
				part("at", "%s at 0x%03x of part %s, %d bytes: %s", Printable(p.Field), p.Offset, Printable(p.Part), p.Size, p.Hex)
			}
		}
		if len(c.Places) > 0 && c.Places[0].Field != "" {
			part("part", "%s sha256 %s", Printable(c.Places[0].Part), c.Places[0].Digest)
		}
		for _, in := range c.Inputs {
			part("with", "%s sha256 %s", Printable(in.Kind), in.Digest)
		}
		if len(c.Rests) > 0 {
			part("rests on", "%s", Printable(strings.Join(c.Rests, ", ")))
		}
		part("observed", "%s", Printable(c.Observed))
		if c.From != 0 || c.Until != 0 {
			part("speaks of", "%s to %s", instant(c.From), instant(c.Until))
		}
		for _, l := range c.Require {
			part("required", "%s: %s", Printable(l.Label), Printable(l.Text))
		}
		for _, l := range c.Refuse {
			part("required", "%s: %s", Printable(l.Label), Printable(l.Text))
		}
		for _, r := range c.Reasons {
			part("fails", "%s: required %s, observed %s", Printable(r.Rule), Printable(r.Required), Printable(r.Observed))
		}
		if len(c.Require)+len(c.Refuse) == 0 {
			part("required", "nothing: the policy does not read it")
		}
	}
	for _, r := range x.Missing {
		fmt.Fprintf(&b, "\n%s: %s of %s\n    required  %s\n    observed  %s\n", Printable(r.Rule), Printable(r.Claim), Printable(r.Subject), Printable(r.Required), Printable(r.Observed))
	}
	for _, o := range x.Open {
		fmt.Fprintf(&b, "\n%s: left open by a verdict over evidence\n", Printable(o))
	}
	return b.String()
}
