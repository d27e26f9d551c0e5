package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// DiffType is the type of the document that [Diff] makes.
const DiffType = "assay/verdict-diff/v1"

// What two verdicts can differ in, in the order of [Difference.Differs]. Two verdicts that differ in none of it are equal.
const (
	DiffersEvidence   = "evidence"
	DiffersExpect     = "expectation" // what the appraiser knew: the challenge, the registry
	DiffersReferences = "reference values"
	DiffersCollateral = "collateral"
	DiffersRoots      = "roots"
	DiffersPolicy     = "policy"
	DiffersEngine     = "engine" // rules of a room
	DiffersTime       = "time"   // of the appraisal, or of the verdict
)

var differences = []string{DiffersEvidence, DiffersExpect, DiffersReferences, DiffersCollateral, DiffersRoots, DiffersPolicy, DiffersEngine, DiffersTime}

// Difference says in what two verdicts differ: in their inputs first, in what follows from them then.
type Difference struct {
	Type    string          `json:"type"`
	A       Side            `json:"a"`
	B       Side            `json:"b"`
	Differs []string        `json:"differs"` // the inputs that differ
	Line    string          `json:"line"`    // the answer in one line
	Inputs  []InputChange   `json:"inputs"`
	Policy  []LineChange    `json:"policy"`
	Engine  []RulesChange   `json:"engine"`
	Claims  []ClaimChange   `json:"claims"`
	OnlyA   []policy.Reason `json:"reasons_only_a"`
	OnlyB   []policy.Reason `json:"reasons_only_b"`
}

// Side is one of the two verdicts.
type Side struct {
	Origin    string       `json:"origin"` // of its log
	Index     int64        `json:"index"`
	Verdict   canon.Digest `json:"verdict"`
	Node      string       `json:"node"`
	Outcome   string       `json:"outcome"`
	Policy    policy.Named `json:"policy"`
	Appraised canon.Time   `json:"appraised"`
	Decided   canon.Time   `json:"decided"`
	Build     canon.Digest `json:"build"` // the signer's word; another build with the same rules is no difference
}

// InputChange lists the inputs of one kind that only one of two appraisals had.
type InputChange struct {
	Kind  string         `json:"kind"`
	OnlyA []canon.Digest `json:"only_a"`
	OnlyB []canon.Digest `json:"only_b"`
}

// LineChange is a line that only one of two policies has.
type LineChange struct {
	Side string `json:"side"` // a or b
	Text string `json:"text"`
}

// RulesChange is a room that judged by other rules. Zero: it did not judge.
type RulesChange struct {
	Room string `json:"room"`
	A    int    `json:"a"`
	B    int    `json:"b"`
}

// ClaimChange is a claim of which two appraisals say different things. An absent side made no such claim.
type ClaimChange struct {
	ID      string       `json:"id"`
	Subject string       `json:"subject"`
	A       *claim.Claim `json:"a,omitzero"`
	B       *claim.Claim `json:"b,omitzero"`
}

// Canonical returns the canonical bytes of the document.
func (d Difference) Canonical() ([]byte, error) { return canon.Marshal(d) }

// Diff compares the verdict of entry b of a log with that of entry a of this one; the other log may be this. It compares
// what was logged and recomputes nothing.
func (g *Reading) Diff(ctx context.Context, a int64, other *Reading, b int64) (Difference, error) {
	x, rowA, err := g.verdictAt(ctx, a)
	if err != nil {
		return Difference{}, err
	}
	y, rowB, err := other.verdictAt(ctx, b)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{
		Type: DiffType, A: g.side(x, rowA), B: other.side(y, rowB), Differs: []string{},
		Inputs: inputChanges(x.logged.Inputs, y.logged.Inputs), Claims: claimChanges(x.logged.Claims, y.logged.Claims),
		Policy: lineChanges(g.policies[x.policy].Document(), other.policies[y.policy].Document()), Engine: rulesChanges(rowA.Rules, rowB.Rules),
		OnlyA: reasonsBeside(x.result.Verdict.Reasons, y.result.Verdict.Reasons), OnlyB: reasonsBeside(y.result.Verdict.Reasons, x.result.Verdict.Reasons),
	}
	differs := map[string]bool{
		DiffersPolicy: x.policy != y.policy, DiffersEngine: len(d.Engine) > 0,
		DiffersTime: x.logged.AsOf != y.logged.AsOf || x.result.Verdict.AsOf != y.result.Verdict.AsOf,
	}
	for _, in := range d.Inputs {
		differs[inputWord(in.Kind)] = true
	}
	var same []string
	for _, word := range differences {
		if differs[word] {
			d.Differs = append(d.Differs, word)
		} else {
			same = append(same, word)
		}
	}
	outcomes := "both " + d.A.Outcome
	if d.A.Outcome != d.B.Outcome {
		outcomes = d.A.Outcome + " and " + d.B.Outcome
	}
	switch {
	case d.Equal():
		d.Line = outcomes + ": all inputs are the same"
	case len(d.Differs) == 0:
		d.Line = outcomes + ": all inputs are the same, and yet the verdicts are not"
	case len(same) == 0:
		d.Line = outcomes + ": " + and(d.Differs) + " differ"
	default:
		d.Line = outcomes + ": " + and(d.Differs) + agree(len(d.Differs), " differs", " differ") + "; " + and(same) + agree(len(same), " is", " are") + " the same"
	}
	return d, nil
}

// Equal reports whether the inputs are the same and what follows from them too, as it must.
func (d Difference) Equal() bool {
	return len(d.Differs)+len(d.Claims)+len(d.OnlyA)+len(d.OnlyB) == 0 && d.A.Outcome == d.B.Outcome
}

func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// and joins words for a sentence.
func and(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

func (g *Reading) side(o *opened, row Row) Side {
	v := o.result.Verdict
	return Side{g.integrity.Origin, row.Index, row.Verdict, row.Node, row.Outcome, v.Policy, o.logged.AsOf, v.AsOf, o.result.Build.Digest}
}

// inputWord says what a kind of input is called here.
func inputWord(kind string) string {
	switch kind {
	case verifier.InputEvidence:
		return DiffersEvidence
	case verifier.InputExpect:
		return DiffersExpect
	case verifier.InputReferences:
		return DiffersReferences
	case verifier.InputRoots:
		return DiffersRoots
	}
	return DiffersCollateral
}

func inputChanges(a, b []verifier.Input) []InputChange {
	out := []InputChange{}
	at := map[string]int{}
	change := func(kind string) *InputChange {
		i, ok := at[kind]
		if !ok {
			i = len(out)
			at[kind] = i
			out = append(out, InputChange{kind, []canon.Digest{}, []canon.Digest{}})
		}
		return &out[i]
	}
	for _, in := range a {
		if !slices.Contains(b, in) {
			c := change(in.Kind)
			c.OnlyA = append(c.OnlyA, in.Digest)
		}
	}
	for _, in := range b {
		if !slices.Contains(a, in) {
			c := change(in.Kind)
			c.OnlyB = append(c.OnlyB, in.Digest)
		}
	}
	slices.SortFunc(out, func(x, y InputChange) int { return strings.Compare(x.Kind, y.Kind) })
	return out
}

func rulesChanges(a, b []verifier.RoomRules) []RulesChange {
	out := []RulesChange{}
	of := func(rules []verifier.RoomRules, room string) int {
		i := slices.IndexFunc(rules, func(r verifier.RoomRules) bool { return r.Room == room })
		if i < 0 {
			return 0
		}
		return rules[i].Rules
	}
	for _, r := range slices.Concat(a, b) {
		x := RulesChange{r.Room, of(a, r.Room), of(b, r.Room)}
		if x.A != x.B && !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// lineChanges lists what one policy says and the other does not, member by member, as the policies write it.
func lineChanges(a, b policy.Document) []LineChange {
	out := []LineChange{}
	x, y := documentLines(a), documentLines(b)
	for _, l := range x {
		if !slices.Contains(y, l) {
			out = append(out, LineChange{"a", l})
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			out = append(out, LineChange{"b", l})
		}
	}
	return out
}

func documentLines(d policy.Document) (lines []string) {
	add := func(member string, v any) {
		data, err := canon.Marshal(v)
		if err != nil { // it was parsed from canonical bytes
			panic("audit: internal error: " + err.Error())
		}
		lines = append(lines, member+" "+string(data))
	}
	lines = append(lines, "name "+d.Name)
	if d.About != "" {
		lines = append(lines, "about "+d.About)
	}
	for _, r := range d.References {
		lines = append(lines, "references "+r.String())
	}
	for _, f := range d.Floors {
		add("floors", f)
	}
	for _, r := range d.Require {
		add("require", r)
	}
	for _, r := range d.Refuse {
		lines = append(lines, "refuse "+r)
	}
	return lines
}

func claimChanges(a, b claim.Set) []ClaimChange {
	out := []ClaimChange{}
	for _, name := range changesOf(a, b) {
		c := ClaimChange{ID: name.ID, Subject: name.Subject}
		c.A, c.B = a.Find(name.ID, name.Subject), b.Find(name.ID, name.Subject)
		out = append(out, c)
	}
	return out
}

// changesOf returns the claims of which two sets say different things, in the order of claim sets, each once.
func changesOf(a, b claim.Set) (out []claim.Claim) {
	for len(a) > 0 || len(b) > 0 {
		order := -1
		switch {
		case len(a) == 0:
			order = 1
		case len(b) > 0:
			order = strings.Compare(a[0].Subject+"\x00"+a[0].ID+"\x00"+a[0].Issuer, b[0].Subject+"\x00"+b[0].ID+"\x00"+b[0].Issuer)
		}
		switch {
		case order < 0:
			out, a = append(out, a[0]), a[1:]
		case order > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			if !sameCanonical(a[0], b[0]) {
				out = append(out, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}

func reasonsBeside(a, b []policy.Reason) []policy.Reason {
	out := []policy.Reason{}
	for _, r := range a {
		if !slices.Contains(b, r) {
			out = append(out, r)
		}
	}
	return out
}

// Text renders the comparison for people, the answer first.
func (d Difference) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", d.Line)
	for _, s := range []struct {
		name string
		Side
	}{{"a", d.A}, {"b", d.B}} {
		fmt.Fprintf(&b, "%s  entry %d of %s: %s by %s (%s), node %s, appraised %s, decided %s\n", s.name, s.Index, Printable(s.Origin), s.Outcome,
			Printable(s.Policy.Name), s.Policy.Digest.Short(), Printable(s.Node), s.Appraised, s.Decided)
	}
	for _, in := range d.Inputs {
		for _, x := range in.OnlyA {
			fmt.Fprintf(&b, "input  only a: %s %s\n", Printable(in.Kind), x)
		}
		for _, x := range in.OnlyB {
			fmt.Fprintf(&b, "input  only b: %s %s\n", Printable(in.Kind), x)
		}
	}
	for _, l := range d.Policy {
		fmt.Fprintf(&b, "policy only %s: %s\n", l.Side, Printable(l.Text))
	}
	for _, r := range d.Engine {
		fmt.Fprintf(&b, "engine %s: rules %d in a, %d in b\n", Printable(r.Room), r.A, r.B)
	}
	if d.A.Build != d.B.Build {
		fmt.Fprintf(&b, "build  %s in a, %s in b (the signers' word)\n", d.A.Build.Short(), d.B.Build.Short())
	}
	for _, c := range d.Claims {
		fmt.Fprintf(&b, "claim  %s of %s\n         a: %s\n         b: %s\n", Printable(c.ID), Printable(c.Subject), saying(c.A), saying(c.B))
	}
	for _, r := range d.OnlyA {
		fmt.Fprintf(&b, "reason only a: %s: %s of %s is %s\n", Printable(r.Rule), Printable(r.Claim), Printable(r.Subject), Printable(r.Observed))
	}
	for _, r := range d.OnlyB {
		fmt.Fprintf(&b, "reason only b: %s: %s of %s is %s\n", Printable(r.Rule), Printable(r.Claim), Printable(r.Subject), Printable(r.Observed))
	}
	return b.String()
}

// saying puts a claim in one line.
func saying(c *claim.Claim) string {
	if c == nil {
		return "not claimed"
	}
	s := c.Status.String()
	if c.Value != "" {
		s += " " + c.Value
	}
	if c.From != 0 || c.Until != 0 {
		s += ", " + instant(c.From) + " to " + instant(c.Until)
	}
	if c.Reason != "" {
		s += ", " + string(c.Reason)
	}
	return Printable(s)
}
