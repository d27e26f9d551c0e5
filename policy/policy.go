// Package policy turns claims into a verdict.
//
// A policy is a document with two lists. `require` names claims that must be affirmed, and what their values must be;
// `refuse` names claims that must not be contradicted, where unknown passes. There is no expression language: what the
// operators cannot say becomes a new claim. FORMAT.md describes the document.
//
// [Decide] is a pure function of claims, policy and time. What it guarantees:
//
//   - Unknown never counts as affirmed, and what is absent never passes: a missing component is a reject, a claim that
//     the appraisal says nothing of leaves the verdict undecided.
//   - A claim counts only inside its interval, and only while the claims that it rests on count.
//   - Every failing rule is a reason. A claim that is unknown only because another is not affirmed is no reason of its
//     own: the claim at the bottom is named, once.
//
// It does not check who made the claims, nor that they belong to one piece of evidence: that is the appraisal's.
//
// [Rules] numbers the meaning of all this. A change of meaning, of a built-in policy or of a floor in floors.yaml needs
// a new number, because a logged verdict is recomputed by the rules it was made with.
package policy

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
)

// Rules is the version of this room's rules.
const Rules = 4

// Type is the type of the policy document.
const Type = "assay/policy/v1"

// Document is a policy as people write it.
type Document struct {
	Type       string         `json:"type" about:"assay/policy/v1"`
	Name       string         `json:"name" about:"Name of the policy: lower-case letters, digits and hyphens. The digest is its identity."`
	About      string         `json:"about,omitzero" about:"What the policy is for, in one sentence."`
	DataClass  DataClass      `json:"data-class,omitzero" about:"What the job's data is: public, internal, personal, phi, card or financial. A policy that lets it go to a provider who may not hold such data is refused."`
	Issuers    []string       `json:"issuers,omitzero" about:"Issuers whose word about the party counts. When set, no other's does."`
	References []canon.Digest `json:"references,omitzero" about:"Digests of lists of reference values. When set, guest.measured and agent.measured count only if one of these lists affirmed them."`
	Floors     []Floor        `json:"floors,omitzero" about:"Floors of this policy, each in place of the embedded floor of its product line."`
	Require    []Rule         `json:"require" about:"Claims that must be affirmed and satisfy their operator."`
	Refuse     []string       `json:"refuse,omitzero" about:"Claim ids that must not be contradicted; unknown passes. The room or the rest of an id may be *."`
}

// Rule is one entry of require: every component of the class that the claim can speak of must have the claim affirmed,
// and its value must satisfy the one operator, if there is any.
type Rule struct {
	Claim     string  `json:"claim" about:"Claim id, ROOM.SUBJECT; ROOM may be *, then every format of the class is meant."`
	Of        Class   `json:"of" about:"What the claim speaks of: a component class, device (cpu, tpm, gpu and switch alike), node, set or party."`
	Is        Value   `json:"is,omitzero" about:"The value, exactly."`
	In        []Value `json:"in,omitzero" about:"The values, one of which it must be."`
	Min       Value   `json:"min,omitzero" about:"The least value: a number; a TCB such as 'bl=4 snp=24', compared part by part; 'floors', the floor of the component's product line; or words that must all be there."`
	MaxAge    Age     `json:"max-age,omitzero" about:"How long ago the claim's first instant may lie, such as 24h or 15m."`
	Count     int     `json:"count,omitzero" about:"How many components there must be at least; 1 if absent."`
	IfPresent bool    `json:"if-present,omitzero" about:"The component may be absent. Only built-in policies may say so."`
}

// Floor is the least TCB of one product line.
type Floor struct {
	Product string     `json:"product" about:"Product line, as the claim ROOM.product names it."`
	Min     Value      `json:"min" about:"The least TCB; parts that it does not name are not compared."`
	Source  string     `json:"source" about:"Who says so: an advisory."`
	Date    canon.Time `json:"date" about:"When the source said so."`
}

// AdviseKey has words for keys of other systems.
func (Document) AdviseKey(key string) string { return adviseTier(key) }

// AdviseKey has words for keys of other systems.
func (Rule) AdviseKey(key string) string { return adviseTier(key) }

// adviseTier: published drafts number tiers in opposite directions, so that a bare number means two things.
func adviseTier(key string) string {
	if strings.Contains(key, "tier") {
		return tierAdvice
	}
	return ""
}

const tierAdvice = "tiers have names, not numbers, and a tier is a claim of the party: write {claim: party.tier, of: party, in: [attested, attested-facility]}"

// Policy is a policy that can be met, ready to decide. It does not change. The zero Policy accepts nothing.
type Policy struct {
	document Document
	bytes    []byte // canonical
	digest   canon.Digest
	program  program
	file     string // that it was written in; empty: a log's
}

// Named names a policy in a verdict.
type Named struct {
	Name   string       `json:"name"`
	Digest canon.Digest `json:"digest"`
}

// Load reads a policy that somebody wrote, as YAML or JSON. Every fault comes with line and column, also rules that can
// never be met. The names of the built-in policies and `if-present` are theirs alone.
func Load(name string, data []byte) (*Policy, error) {
	p, _, err := load(name, data)
	return p, err
}

// DocumentType makes a policy a document that says of which type it is.
func (*Document) DocumentType() string { return Type }

// load is [Load], and says where everything stands.
func load(name string, data []byte) (*Policy, *doc.Positions, error) {
	var d Document
	at, err := doc.Decode(name, data, &d)
	if err != nil {
		return nil, nil, err
	}
	l := linter{at: at, document: d}
	l.written()
	p, err := l.policy()
	if err != nil {
		return nil, nil, err
	}
	p.locate(name, at)
	return p, at, nil
}

// locate keeps where the lines of the policy stand.
func (p *Policy) locate(name string, at *doc.Positions) {
	p.file = name
	for i := range p.program.rules {
		p.program.rules[i].line = at.At(fmt.Sprintf("/require/%d", i)).Line
	}
	for i := range p.program.refuse {
		p.program.refuse[i].line = at.At(fmt.Sprintf("/refuse/%d", i)).Line
	}
}

// Place says where the line of a policy with a label stands, as FILE:LINE, or nothing where no file has it: in a policy
// that a log keeps, and for what is always refused.
func (p *Policy) Place(label string) string {
	line := 0
	if i := slices.IndexFunc(p.program.rules, func(r rule) bool { return r.label == label }); i >= 0 {
		line = p.program.rules[i].line
	}
	if i := slices.IndexFunc(p.program.refuse, func(r refusal) bool { return r.label == label }); i >= 0 {
		line = p.program.refuse[i].line
	}
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.file, line)
}

// ParseCanonical reads the canonical bytes of a policy, as a log keeps them. What only a built-in may say passes here:
// a log also holds the built-in policies of other releases.
func ParseCanonical(data []byte) (*Policy, error) {
	var d Document
	if err := canon.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	at, err := doc.Decode("policy.json", data, new(Document))
	if err != nil {
		return nil, err
	}
	l := linter{at: at, document: d, logged: true}
	return l.policy()
}

//go:embed builtin/*.yaml floors.yaml
var embedded embed.FS

var builtins = []string{"regulated", "confidential-gpu", "confidential-cpu", "genuine"} // strictest first

// BuiltinSource returns the text of a policy that is part of this build, with its comments.
func BuiltinSource(name string) ([]byte, bool) {
	if !slices.Contains(builtins, name) {
		return nil, false
	}
	data, err := embedded.ReadFile("builtin/" + name + ".yaml")
	return data, err == nil
}

// Builtins returns the names of the built-in policies, strictest first.
func Builtins() []string { return slices.Clone(builtins) }

// Builtin returns a policy that is part of this build.
func Builtin(name string) (*Policy, bool) {
	if !slices.Contains(builtins, name) {
		return nil, false
	}
	var d Document
	at := mustDecode("builtin/"+name+".yaml", &d)
	l := linter{at: at, document: d}
	p, err := l.policy()
	if err != nil {
		panic("policy: internal error: " + err.Error())
	}
	p.locate(name+".yaml", at)
	return p, true
}

// mustDecode reads an embedded document.
func mustDecode(name string, v any) *doc.Positions {
	data, err := embedded.ReadFile(name)
	if err != nil {
		panic("policy: internal error: " + err.Error())
	}
	at, err := doc.Decode(name, data, v)
	if err != nil {
		panic("policy: internal error: " + err.Error())
	}
	return at
}

// Name returns the policy's name, which anybody may choose; the digest tells policies apart.
func (p *Policy) Name() string { return p.document.Name }

// About returns the policy's own description.
func (p *Policy) About() string { return p.document.About }

// Document returns what the policy says. The caller must not change it.
func (p *Policy) Document() Document { return p.document }

// Refuses reports whether the refuse list names the claim: contradicted it rejects, unknown it passes.
func (p *Policy) Refuses(id string) bool {
	return slices.ContainsFunc(p.program.refuse, func(r refusal) bool { return matches(r.pattern, id) })
}

// Canonical returns the canonical bytes.
func (p *Policy) Canonical() []byte { return bytes.Clone(p.bytes) }

// Digest is the identity of the policy: SHA-256 of its canonical bytes.
func (p *Policy) Digest() canon.Digest { return p.digest }
