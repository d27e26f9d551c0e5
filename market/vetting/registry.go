package vetting

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Registry is what issuers have said, and taken back, in the order of the log. It is filled by [Registry.Add] and asked at a
// time; asking changes nothing. A registry that holds but what is said of some subjects, of all issuers and of all models
// answers for these subjects as the whole one does.
type Registry struct {
	operator ledger.Signers
	said     map[Subject][]*statement // of a subject, in the order of the log
	by       map[canon.Digest]*statement
	revoked  map[Subject][]Revocation
	without  canon.Digest // a claim that a preview leaves out
}

// statement is a claim, and what became of it.
type statement struct {
	Claim
	digest     canon.Digest // identity of the envelope
	at         canon.Time   // of the entry: when it was made, by a clock that is not the issuer's
	since      canon.Time   // of the entry from which on the issuer has said the same without a break
	key        canon.Digest // id of the key that signed it
	superseded canon.Time   // when the same issuer said it anew; zero: it is the last word

	// Of what registers an issuer, read once.
	public   crypto.PublicKey // of issuer.key
	publicID canon.Digest
	may      []string // of issuer.scope
}

// read reads the value of what registers an issuer.
func (s *statement) read() (err error) {
	switch s.Attribute {
	case AttributeKey:
		if s.public, err = publicKey(s.Value); err == nil {
			s.publicID, err = ledger.KeyID(s.public)
		}
	case AttributeScope:
		s.may = strings.Split(s.Value, " ")
	}
	return err
}

// NewRegistry returns an empty registry. The operator's keys are the result keys of the log.
func NewRegistry(operator ledger.Signers) *Registry {
	return &Registry{operator: operator, said: map[Subject][]*statement{}, by: map[canon.Digest]*statement{}, revoked: map[Subject][]Revocation{}}
}

// Add takes an entry of kind claim/v1: a claim or a revocation, in the stream of its issuer. It verifies the signature, over
// the received bytes: the operator's by a result key that stood at the time of the entry, an issuer's by a key that the operator
// has ever registered for it. Whether the claim counts is asked later: that a term had ended is a reason to be shown, not a
// fault of the log. But what is said without the right to say it takes nothing back: a key that the operator has replaced or
// revoked is in other hands, perhaps. An entry that is refused changes nothing.
func (r *Registry) Add(e ledger.Event) error {
	if e.Entry.Kind != ledger.KindClaim {
		return fmt.Errorf("registry: %s is no claim", e.Entry.Kind)
	}
	env, err := ledger.ParseEnvelope(e.Body)
	if err != nil {
		return err
	}
	switch env.PayloadType {
	case ClaimType:
		var c Claim
		if err := canon.Unmarshal(env.Payload, &c); err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if err := c.Validate(); err != nil {
			return err
		}
		key, err := r.signed(env, c.Issuer, e.Entry)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		return r.claim(&statement{Claim: c, digest: env.Identity(), at: e.Entry.Time, since: e.Entry.Time, key: key})
	case RevocationType:
		var v Revocation
		if err := canon.Unmarshal(env.Payload, &v); err != nil {
			return fmt.Errorf("revocation: %w", err)
		}
		if err := v.Validate(); err != nil {
			return err
		}
		key, err := r.signed(env, v.Issuer, e.Entry)
		if err != nil {
			return fmt.Errorf("revocation: %w", err)
		}
		return r.revoke(v, key, e.Entry.Time)
	}
	return fmt.Errorf("registry: payload type %.80q is not known to this build", env.PayloadType)
}

// signed returns the id of the key that signed an issuer's statement.
func (r *Registry) signed(env ledger.Envelope, issuer string, e ledger.Entry) (canon.Digest, error) {
	if want := ledger.IssuerStream(issuer); e.Stream != want {
		return canon.Digest{}, fmt.Errorf("a statement of %s in stream %.80q, want %q", issuer, e.Stream, want)
	}
	if issuer == Operator {
		key, err := r.operator.SignerOf(env, ledger.UseResult, e.Time)
		return key.ID(), err
	}
	if len(env.Signatures) != 1 {
		return canon.Digest{}, fmt.Errorf("%d signatures, want the issuer's alone", len(env.Signatures))
	}
	for _, s := range r.said[Subject{UnitIssuer, issuer}] {
		if s.Attribute != AttributeKey {
			continue
		}
		if s.publicID == env.Signatures[0].KeyID && env.SignedBy(s.public) {
			return s.publicID, nil
		}
	}
	return canon.Digest{}, fmt.Errorf("it is signed by no key that the operator has registered for %s", issuer)
}

// claim adds a claim that is signed.
func (r *Registry) claim(s *statement) error {
	if s.Issued > s.at+ledger.ClockSlack {
		return fmt.Errorf("claim: issued %s, and the entry is of %s", s.Issued, s.at)
	}
	if err := s.read(); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if r.by[s.digest] != nil {
		return fmt.Errorf("claim %s: said already", s.digest.Short())
	}
	if s.Attribute == AttributeKey {
		if err := r.otherHas(s); err != nil {
			return err
		}
	}
	before := func(o *statement) bool {
		return o.Issuer == s.Issuer && o.Subject == s.Subject && o.Attribute == s.Attribute
	}
	if !s.Supersedes.IsZero() {
		old := r.by[s.Supersedes]
		if old == nil || !before(old) {
			return fmt.Errorf("claim: supersedes %s, which is no claim of that issuer, subject and attribute", s.Supersedes.Short())
		}
	}
	// An issuer's last word stands, whether it names the one before or not: else a word of long ago would come back when a
	// shorter one lapses. Where an issuer may speak is one word, and not one for each place: else it could never be narrowed.
	if s.Issuer == Operator || r.spoke(s) == "" {
		for _, o := range r.said[s.Subject] {
			if before(o) && o.superseded == 0 && (o.digest == s.Supersedes || o.Scope.equal(s.Scope) || s.Attribute == AttributeScope) {
				if o.Value == s.Value && s.at < o.Expires {
					s.since = min(s.since, o.since)
				}
				o.superseded = s.at
			}
		}
	}
	r.said[s.Subject] = append(r.said[s.Subject], s)
	r.by[s.digest] = s
	return nil
}

// otherHas reports that a key is another issuer's: two that are one would agree with each other.
func (r *Registry) otherHas(s *statement) error {
	for subject, said := range r.said {
		if subject.Kind != UnitIssuer || subject == s.Subject {
			continue
		}
		for _, o := range said {
			if o.Attribute == AttributeKey && o.publicID == s.publicID {
				return fmt.Errorf("claim: the key is issuer %s's: each issuer has its own", subject.ID)
			}
		}
	}
	return nil
}

// gone reports whether a key of an issuer was replaced or taken back at a time, or its issuer was. A term that is over takes
// nothing back that was said in it, and its issuer may still do so itself.
func (r *Registry) gone(issuer string, key canon.Digest, at canon.Time) bool {
	of := Subject{UnitIssuer, issuer}
	if _, revoked := r.Revoked(of, at); revoked {
		return true
	}
	return !slices.ContainsFunc(r.said[of], func(o *statement) bool {
		return o.Attribute == AttributeKey && o.publicID == key && o.superseded == 0 && !r.takenBack(o, at)
	})
}

func (r *Registry) revoke(v Revocation, key canon.Digest, at canon.Time) error {
	if v.Effective < at {
		return fmt.Errorf("revocation: effective %s, before the entry of %s: the past is tainted, never edited", v.Effective, at)
	}
	if v.Unit.Kind == UnitClaim {
		digest, _ := canon.ParseDigest(v.Unit.ID)
		c := r.by[digest]
		if c == nil {
			return fmt.Errorf("revocation: no claim %s", digest.Short())
		}
		if v.Issuer != Operator && v.Issuer != c.Issuer {
			return fmt.Errorf("revocation: claim %s is %s's to take back, or the operator's", digest.Short(), c.Issuer)
		}
		if v.Issuer != Operator && r.gone(v.Issuer, key, at) {
			return fmt.Errorf("revocation: it is signed by a key of %s that the operator has replaced or revoked", v.Issuer)
		}
	}
	r.revoked[v.Unit] = append(r.revoked[v.Unit], v)
	return nil
}

// Revoked returns the first revocation of a unit that is in effect at a time, or false.
func (r *Registry) Revoked(unit Subject, at canon.Time) (Revocation, bool) {
	for _, v := range r.revoked[unit] {
		if v.Effective <= at {
			return v, true
		}
	}
	return Revocation{}, false
}

// Tainting returns the revocations that taint what was decided about a place at an instant, as far as the registry knows by
// now: those of its units and of claims about them.
func (r *Registry) Tainting(p Place, decided canon.Time) (out []Revocation) {
	units := p.within()
	for _, s := range p.chain() {
		for _, c := range r.said[s] {
			if c.at <= decided {
				units = append(units, Subject{UnitClaim, c.digest.String()}, Subject{UnitIssuer, c.Issuer})
			}
		}
	}
	slices.SortFunc(units, Subject.Compare)
	for _, u := range slices.Compact(units) {
		for _, v := range r.revoked[u] {
			if v.Taints(decided) {
				out = append(out, v)
			}
		}
	}
	return out
}

// Why a word does not count, beside the codes of the claims.
const (
	CodeRevoked      = "revoked"             // the claim or its subject was taken back
	CodeNotYet       = "not-yet"             // its time has not begun
	CodeUnregistered = "issuer-unregistered" // nobody registered the issuer when it spoke
	CodeIssuerLapsed = "issuer-lapsed"       // the issuer's term was over when it spoke
	CodeIssuerGone   = "issuer-revoked"      // the issuer was taken back, with what it said since then
	CodeForeignScope = "foreign-scope"       // the issuer may speak, but not of that, or not there; or the claim is of another place
	CodeDiscrepancy  = "discrepancy"         // two auditors are more than a level apart: neither counts
	CodePending      = "pending"             // the provider says something else by now, of which no issuer has spoken
	CodeConflict     = "conflict"            // two issuers say different things
)

// stood reports whether a claim stood at an instant: it had been said, and was not superseded, lapsed or revoked.
func (r *Registry) stood(s *statement, at canon.Time) bool {
	return s.at <= at && (s.superseded == 0 || at < s.superseded) && s.Issued <= at && at < s.Expires && s.digest != r.without && !r.takenBack(s, at)
}

func (r *Registry) takenBack(s *statement, at canon.Time) bool {
	_, revoked := r.Revoked(Subject{UnitClaim, s.digest.String()}, at)
	return revoked
}

// spoke returns why an issuer had no right to say a claim when it did, or nothing.
func (r *Registry) spoke(s *statement) string {
	var key, ended, scoped bool
	for _, o := range r.said[Subject{UnitIssuer, s.Issuer}] {
		switch {
		case o.at > s.at:
		case o.Attribute == AttributeKey:
			if o.publicID != s.key {
				continue
			}
			if r.stood(o, s.at) {
				key = true
			} else {
				ended = true
			}
		case o.Attribute == AttributeScope && r.stood(o, s.at):
			scoped = scoped || slices.Contains(o.may, s.Attribute) && o.Scope.covers(s)
		}
	}
	if _, revoked := r.Revoked(Subject{UnitIssuer, s.Issuer}, s.at); revoked {
		return CodeIssuerGone
	}
	switch {
	case !key && ended:
		return CodeIssuerLapsed
	case !key:
		return CodeUnregistered
	case !scoped:
		if r.hadScope(s) {
			return CodeIssuerLapsed
		}
		return CodeForeignScope
	}
	return ""
}

// hadScope reports whether the issuer's last scope covered the claim, and its term was over.
func (r *Registry) hadScope(s *statement) bool {
	var last *statement
	for _, o := range r.said[Subject{UnitIssuer, s.Issuer}] {
		if o.Attribute == AttributeScope && o.at <= s.at {
			last = o
		}
	}
	return last != nil && last.Expires <= s.at && slices.Contains(last.may, s.Attribute) && last.Scope.covers(s)
}

// covers reports whether an issuer that may speak within s may say c: where s has a list, the claim must stay inside it, by its
// value, its subject or its own scope. A claim that does not say where it holds is outside every list.
func (s Scope) covers(c *statement) bool {
	countries, sites := c.Scope.Countries, c.Scope.Sites
	if c.Attribute == "party.jurisdiction" {
		countries = []string{c.Value}
	}
	if c.Subject.Kind == UnitSite {
		sites = []string{c.Subject.ID}
	}
	return inside(countries, s.Countries) && inside(sites, s.Sites)
}

func inside(list, allowed []string) bool {
	return len(allowed) == 0 || len(list) > 0 && !slices.ContainsFunc(list, func(x string) bool { return !slices.Contains(allowed, x) })
}

// weigh returns why a claim about a unit of a place does not count at a time, or nothing. It reports false for a claim that
// has not been said by then, or has been said anew. law is the country whose law counts there.
func (r *Registry) weigh(s *statement, p Place, law string, at canon.Time) (code string, said bool) {
	if s.at > at || s.superseded != 0 && s.superseded <= at || s.digest == r.without {
		return "", false
	}
	if s.Issuer == p.Provider {
		return codeSelfAsserted, true
	}
	if r.takenBack(s, at) {
		return CodeRevoked, true
	}
	if why := r.spoke(s); why != "" {
		return why, true
	}
	if v, revoked := r.Revoked(Subject{UnitIssuer, s.Issuer}, at); revoked && v.Since <= s.at {
		return CodeIssuerGone, true
	}
	if _, revoked := r.Revoked(s.Subject, at); revoked {
		return CodeRevoked, true
	}
	switch {
	case len(s.Scope.Sites) > 0 && !slices.Contains(s.Scope.Sites, p.Site), len(s.Scope.Countries) > 0 && s.Attribute != "party.jurisdiction" && !slices.Contains(s.Scope.Countries, law):
		return CodeForeignScope, true
	case at < s.Issued:
		return CodeNotYet, true
	case at >= s.Expires:
		return codeLapsed, true
	}
	return "", true
}

// An Issuer is one party that may speak, as the registry knows it at a time.
type Issuer struct {
	ID         string     `json:"id"`
	Attributes []string   `json:"attributes"`
	Scope      Scope      `json:"scope,omitzero"`
	Until      canon.Time `json:"until"` // first instant at which it may speak no more
}

// Issuers returns who may speak at a time, ordered by id.
func (r *Registry) Issuers(at canon.Time) (out []Issuer) {
	for subject, said := range r.said {
		if subject.Kind != UnitIssuer {
			continue
		}
		if _, revoked := r.Revoked(subject, at); revoked {
			continue
		}
		var key, scope *statement
		for _, s := range said {
			switch {
			case s.Attribute == AttributeKey && r.stood(s, at):
				key = s
			case s.Attribute == AttributeScope && r.stood(s, at):
				scope = s
			}
		}
		if key != nil && scope != nil {
			out = append(out, Issuer{subject.ID, slices.Clone(scope.may), scope.Scope, min(key.Expires, scope.Expires)})
		}
	}
	slices.SortFunc(out, func(a, b Issuer) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Find returns a claim by the identity of its envelope.
func (r *Registry) Find(digest canon.Digest) (Claim, error) {
	if s := r.by[digest]; s != nil {
		return s.Claim, nil
	}
	return Claim{}, errors.New("registry: no such claim")
}

// Without returns a view of the registry in which one claim was never said: what would be if it were not renewed.
func (r *Registry) Without(digest canon.Digest) *Registry {
	view := *r
	view.without = digest
	return &view
}
