// Package claim is the currency of the house: what an appraisal finds, and what a policy reads.
//
// A [Claim] says one thing about one subject, in one of three statuses. Affirmed means proven, contradicted means proven
// otherwise, and unknown means that nobody could tell; unknown never counts as affirmed. A claim carries no opinion:
// what is required stands in a policy, and the outcome in a verdict.
//
// The [Catalogue] holds for each claim id its meaning, the kind of its value, the specification that defines it, the
// claims it rests on, and who can mend it. [Set.Settle] enforces what "rests on" means.
package claim

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// Status of a claim. The zero Status is invalid.
type Status uint8

const (
	Affirmed     Status = iota + 1 // the sentence holds, or the value is proven
	Contradicted                   // the evidence shows the opposite
	Unknown                        // not shown either way; the reason says what is missing
)

var statusNames = canon.Names{Affirmed: "affirmed", Contradicted: "contradicted", Unknown: "unknown"}

func (s Status) String() string { return statusNames.String("Status", uint8(s)) }

// MarshalText writes the status in words.
func (s Status) MarshalText() ([]byte, error) { return statusNames.Marshal("claim status", uint8(s)) }

// UnmarshalText reads the status in words.
func (s *Status) UnmarshalText(text []byte) error {
	v, err := statusNames.Parse("claim status", text)
	*s = Status(v)
	return err
}

// Reason says why a claim has its status: a stable code, then after ": " one sentence for people. Codes are
// lower-case words joined by hyphens.
type Reason string

// Reasons that every room uses. A room has codes of its own where none of these says it; all of them are in [Codes].
const (
	EvidenceMissing   = "evidence-missing"   // only the provider can supply what is absent
	CollateralMissing = "collateral-missing" // a vendor publishes what is absent
	CollateralRefused = "collateral-refused" // what was supplied cannot be used: not signed, lapsed, not yet valid
	Internal          = "internal"           // the appraiser failed: never the provider's fault
	Malformed         = "malformed"          // the bytes are not of the format
	Mismatch          = "mismatch"           // two values that must be equal are not
	NoExpectation     = "no-expectation"     // the appraiser was told nothing to compare with
	NoReference       = "no-reference"       // no reference value speaks of it
	NotApplicable     = "not-applicable"     // nothing here that it could speak of
	NotListed         = "not-listed"         // reference values exist, and this is none of them
	RestsOn           = "rests-on"           // a claim below it is not affirmed
	Masked            = "masked"             // the platform was told to hide it
	Contested         = "contested"          // another live holder claims the same identity
	SelfAsserted      = "self-asserted"      // nobody but the provider itself says so
	Lapsed            = "lapsed"             // it held once, and its time is over
)

// Because returns the Reason of a code, one of [Codes], and a sentence.
func Because(code, format string, args ...any) Reason {
	return Reason(code + ": " + fmt.Sprintf(format, args...))
}

// Code returns the stable code.
func (r Reason) Code() string {
	code, _, _ := strings.Cut(string(r), ":")
	code, _, _ = strings.Cut(code, " ")
	return code
}

// Status returns the status of a claim with this reason: without one it is affirmed, else contradicted or unknown.
func (r Reason) Status(contradicted bool) Status {
	switch {
	case r == "":
		return Affirmed
	case contradicted:
		return Contradicted
	}
	return Unknown
}

// Verifier is the issuer of every claim that an appraisal makes.
const Verifier = "verifier"

// A Claim is one finding about one subject.
type Claim struct {
	ID      string     `json:"id"`      // room.subject, from the catalogue
	Subject string     `json:"subject"` // a component such as cpu:0, or set, node, party:NAME
	Status  Status     `json:"status"`
	Value   string     `json:"value,omitzero"`  // of the kind that the catalogue names
	Reason  Reason     `json:"reason,omitzero"` // always there unless affirmed
	Issuer  string     `json:"issuer"`
	Basis   []string   `json:"basis"`          // claims it rests on, as ID or ID@SUBJECT, and other grounds: see [Base]
	From    canon.Time `json:"from,omitzero"`  // first instant it speaks of
	Until   canon.Time `json:"until,omitzero"` // last instant it speaks of, inclusive
}

// Class returns the component class of a subject: "cpu" of "cpu:0".
func Class(subject string) string {
	class, _, _ := strings.Cut(subject, ":")
	return class
}

// Room returns the room of a claim id: "sevsnp" of "sevsnp.tcb".
func Room(id string) string {
	room, _, _ := strings.Cut(id, ".")
	return room
}

// Set is a set of claims, at most one for an id, subject and issuer, ordered by subject, id and issuer.
type Set []Claim

func compare(a, b *Claim) int {
	return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Issuer, b.Issuer))
}

// Find returns the first claim of that id and subject, or nil.
func (s Set) Find(id, subject string) *Claim {
	i, found := sort.Find(len(s), func(i int) int {
		return cmp.Or(cmp.Compare(subject, s[i].Subject), cmp.Compare(id, s[i].ID))
	})
	if !found {
		return nil
	}
	return &s[i]
}

// Add puts c into the set. Its basis gains what the catalogue says that its id rests on. It panics on an id that the
// catalogue lacks and on a second claim for one id, subject and issuer: both are faults of the room that made it.
func (s *Set) Add(c Claim) {
	def, ok := Lookup(c.ID)
	if !ok {
		panic("claim: internal error: no catalogue entry for " + c.ID)
	}
	if c.Status != Affirmed && c.Reason == "" {
		panic("claim: internal error: no reason for " + c.Status.String() + " " + c.ID)
	}
	if c.Issuer == "" {
		c.Issuer = Verifier
	}
	c.Basis = append(slices.Clip(def.Rests), c.Basis...) // a copy where there is something to add
	if c.Basis == nil {
		c.Basis = []string{}
	}
	at, found := sort.Find(len(*s), func(i int) int { return compare(&c, &(*s)[i]) })
	if found {
		panic("claim: internal error: second " + c.ID + " of " + c.Subject)
	}
	*s = slices.Insert(*s, at, c)
}

// Merge puts the claims of another set into s as they are. It panics on a second claim for one id, subject and issuer.
func (s *Set) Merge(part Set) {
	all := make(Set, 0, len(*s)+len(part)+8) // room for what is found of the whole
	rest := *s
	for len(rest) > 0 && len(part) > 0 {
		switch order := compare(&rest[0], &part[0]); {
		case order < 0:
			all, rest = append(all, rest[0]), rest[1:]
		case order > 0:
			all, part = append(all, part[0]), part[1:]
		default:
			panic("claim: internal error: second " + part[0].ID + " of " + part[0].Subject)
		}
	}
	*s = append(append(all, rest...), part...)
}

// Affirm adds an affirmed claim; value is empty for a sentence.
func (s *Set) Affirm(id, subject, value string) {
	s.Add(Claim{ID: id, Subject: subject, Status: Affirmed, Value: value})
}

// Contradict adds a contradicted claim.
func (s *Set) Contradict(id, subject, value string, why Reason) {
	s.Add(Claim{ID: id, Subject: subject, Status: Contradicted, Value: value, Reason: why})
}

// Unknown adds an unknown claim.
func (s *Set) Unknown(id, subject string, why Reason) {
	s.Add(Claim{ID: id, Subject: subject, Status: Unknown, Reason: why})
}

// Settle turns every affirmed claim with a base that is not affirmed into unknown, reason "rests-on ID", until nothing
// changes. A contradicted claim stays: unverified bytes may contradict, they never affirm. The value stays as well,
// for people to see; no policy reads the value of a claim that is not affirmed.
func (s Set) Settle() {
	for changed := true; changed; {
		changed = false
		for i := range s {
			if s[i].Status != Affirmed {
				continue
			}
			if base := s.unaffirmedBase(s[i]); base != "" {
				s[i].Status, s[i].Reason, changed = Unknown, Reason(RestsOn+" "+base), true
			}
		}
	}
}

// unaffirmedBase returns the first claim in c's basis that the set does not affirm, or "".
func (s Set) unaffirmedBase(c Claim) string {
	for _, b := range c.Basis {
		id, subject, ok := Base(b, c.Subject)
		if !ok {
			continue
		}
		if base := s.Find(id, subject); base == nil || base.Status != Affirmed {
			return b
		}
	}
	return ""
}

// Base reads an entry of the basis of a claim about subject: the claim that it rests on. It reports false for a ground of
// another kind: a word, or KIND:VALUE, such as references:DIGEST or issuer:ID, whatever dots the value has.
func Base(entry, subject string) (id, of string, ok bool) {
	id, of, named := strings.Cut(entry, "@")
	if !named {
		of = subject
	}
	return id, of, strings.Contains(id, ".") && !strings.Contains(id, ":")
}
