package policy

import (
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// VerdictType is the type of the verdict document.
const VerdictType = "assay/verdict/v1"

// Outcome of a decision. The zero Outcome is invalid.
type Outcome uint8

const (
	Accept    Outcome = iota + 1 // every rule is met
	Reject                       // a rule is broken, or the provider left out what a rule needs
	Undecided                    // nothing speaks against it, and not everything that a rule needs is known
)

var outcomeNames = canon.Names{Accept: "accept", Reject: "reject", Undecided: "undecided"}

func (o Outcome) String() string { return outcomeNames.String("Outcome", uint8(o)) }

// MarshalText writes the outcome in words.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeNames.Marshal("outcome", uint8(o)) }

// UnmarshalText reads the outcome in words.
func (o *Outcome) UnmarshalText(text []byte) error {
	v, err := outcomeNames.Parse("outcome", text)
	*o = Outcome(v)
	return err
}

// ExitCode returns the exit status of a command that ends with this outcome.
func (o Outcome) ExitCode() int {
	switch o {
	case Accept:
		return 0
	case Reject:
		return 1
	}
	return 3
}

// Scopes of a verdict.
const (
	ScopeEvidence = "evidence" // rules over the party are left open
	ScopeFull     = "full"     // every rule of the policy was decided
)

// Verdict is what a policy says of a set of claims at a time.
type Verdict struct {
	Type    string     `json:"type"`
	Rules   int        `json:"rules"` // version of this room's rules
	Outcome Outcome    `json:"verdict"`
	Policy  Named      `json:"policy"`
	Scope   string     `json:"scope"`
	AsOf    canon.Time `json:"as_of"`
	Reasons []Reason   `json:"reasons"`       // in the order of the rules; none with an accept
	Open    []string   `json:"open,omitzero"` // rules that were left open
}

// Reason is one rule that is not met. Its code is what the claim is about, or party, and why it is not enough: value, least,
// floor or age of a value that is proven, else the code of the claim's own reason.
type Reason struct {
	Code     string       `json:"code,omitzero"` // stable, for machines: tcb.floor; absent before rules 3
	Rule     string       `json:"rule"`          // list, position and claim: require[7] sevsnp.tcb
	Claim    string       `json:"claim"`         // what it failed on: the rule's claim, or the one at the bottom of it
	Subject  string       `json:"subject"`       // cpu:0; a class where a component is missing
	Status   claim.Status `json:"status"`        // of that claim
	Required string       `json:"required"`      // what the rule asks
	Observed string       `json:"observed"`      // the value, or why there is none
	Fix      string       `json:"fix"`           // what can be done
	Who      claim.Party  `json:"who"`           // by whom
}
