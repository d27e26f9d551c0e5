package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/doc"
)

// Kinds of what [Lint] finds. They are stable.
const (
	LintDocument      = "document"      // it is no policy document: syntax, an unknown key, a value that is not of its form
	LintUnknown       = "unknown"       // a claim or a country that does not exist
	LintUnsatisfiable = "unsatisfiable" // a rule that no machine can meet
	LintContradictory = "contradictory" // rules that leave a claim no value
	LintTierNumber    = "tier-number"   // a bare number for a tier
	LintDataClass     = "data-class"    // data goes to a provider who may not hold it
	LintRepeated      = "repeated"      // a rule that stands there twice
	LintUncovered     = "uncovered"     // what a renter will take for granted, and nothing is decided about
	LintAnyIssuer     = "any-issuer"    // every registered issuer's word about the party counts
)

// LintKinds says of each kind, in a sentence, what it finds.
var LintKinds = []struct{ Kind, About string }{
	{LintDocument, "The file is no policy document: its syntax, a key or a value is not of the form."},
	{LintUnknown, "A claim or a country that does not exist, so that the rule could never match."},
	{LintUnsatisfiable, "A rule that no machine can meet."},
	{LintContradictory, "Rules over one claim that together leave it no value."},
	{LintTierNumber, "A bare number for a tier; published drafts number tiers in opposite directions."},
	{LintDataClass, "Data of this class would go to providers who may not hold it."},
	{LintRepeated, "A rule that stands there twice."},
	{LintUncovered, "Nothing is decided about something that a renter will take for granted."},
	{LintAnyIssuer, "The policy names no issuers, so that the word of every registered one counts."},
}

// Levels of what [Lint] finds.
const (
	LevelError   = "error"   // the policy is refused
	LevelWarning = "warning" // it loads, and probably does not say what was meant
	LevelNote    = "note"    // worth knowing
)

// Advice is one thing that [Lint] finds.
type Advice struct {
	Kind    string
	Level   string
	Message string
	doc.Position
}

// Lint finds what is wrong with a policy that somebody wrote, and what is missing that somebody may take for granted. Where
// there is an error, [Load] refuses the policy, and nothing else is looked for.
func Lint(name string, data []byte) []Advice {
	p, at, err := load(name, data)
	if err != nil {
		return faults(err)
	}
	advice := p.repeated(at)
	secret := p.document.DataClass != "" && p.document.DataClass != DataPublic
	for _, topic := range p.Uncovered() {
		level := LevelNote
		if secret && topic != topicGPUs { // a machine without any has none to judge
			level = LevelWarning
		}
		advice = append(advice, Advice{LintUncovered, level, "nothing is decided about " + topic, at.At("/require")})
	}
	if i := slices.IndexFunc(p.document.Require, func(r Rule) bool { return r.Of == Party }); i >= 0 && p.document.Issuers == nil {
		advice = append(advice, Advice{LintAnyIssuer, LevelNote, "whose word counts about the party is left to the verifier: list them under issuers", at.At(fmt.Sprintf("/require/%d", i))})
	}
	slices.SortStableFunc(advice, func(a, b Advice) int { return a.Line - b.Line })
	return advice
}

// faults are the errors of a policy that is refused.
func faults(err error) (advice []Advice) {
	var errs doc.Errors
	if !errors.As(err, &errs) {
		return []Advice{{LintDocument, LevelError, err.Error(), doc.Position{Line: 1, Column: 1}}}
	}
	for _, e := range errs {
		kind := e.Code
		switch {
		case strings.HasSuffix(e.Message, tierAdvice): // the decoder's, which knows no kinds
			kind = LintTierNumber
		case kind == "":
			kind = LintDocument
		}
		advice = append(advice, Advice{kind, LevelError, e.Message, e.Position})
	}
	return advice
}

// repeated finds rules that say what another says.
func (p *Policy) repeated(at *doc.Positions) (advice []Advice) {
	line := func(i int) doc.Position { return at.At(fmt.Sprintf("/require/%d", i)) }
	first := map[string]int{}
	for i := range p.program.rules {
		says := p.program.rules[i].sentence()
		if j, twice := first[says]; twice {
			advice = append(advice, Advice{LintRepeated, LevelWarning, fmt.Sprintf("it says what the rule at line %d says", line(j).Line), line(i)})
		} else {
			first[says] = i
		}
	}
	return advice
}
