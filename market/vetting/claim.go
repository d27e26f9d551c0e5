package vetting

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// ClaimType is the type of the claim document and the payload type of its envelope.
const ClaimType = "assay/claim/v1"

// Attributes that are not claims of the catalogue: what only the operator says.
const (
	AttributeKey       = "issuer.key"       // the issuer's key: its SubjectPublicKeyInfo (DER) in base64
	AttributeScope     = "issuer.scope"     // the attributes of which the issuer may speak, ordered, parted by spaces; where, says the claim's scope
	AttributeDataClass = "model.data-class" // the most delicate data that such hardware may hold, where nobody audits the site
)

// Claim is what an issuer says of one subject.
type Claim struct {
	Type       string       `json:"type"`
	Issuer     string       `json:"issuer"`
	Subject    Subject      `json:"subject"`
	Attribute  string       `json:"attribute"`
	Value      string       `json:"value"`
	Scope      Scope        `json:"scope,omitzero"`      // where it holds; of issuer.scope: where the issuer may speak
	Issued     canon.Time   `json:"issued"`              // first instant, by the issuer's word
	Expires    canon.Time   `json:"expires"`             // first instant at which it holds no more
	Evidence   canon.Digest `json:"evidence,omitzero"`   // what the issuer looked at
	Supersedes canon.Digest `json:"supersedes,omitzero"` // identity of the envelope that this one replaces
}

// attribute says of what an attribute speaks, and which values it has.
type attribute struct {
	of       []Unit
	operator bool                      // only the operator says it
	levels   []string                  // values, least first, where they are in an order
	check    func(value string) string // what is wrong with a value, or nothing
}

var (
	domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	leiForm    = regexp.MustCompile(`^LEI:[0-9A-Z]{18}[0-9]{2}$`)                    // ISO 17442
	otherForm  = regexp.MustCompile(`^[A-Z]{2}(-[A-Z0-9]+)+:[A-Za-z0-9 ./-]{1,64}$`) // country, register, number: DE-HRB-B:12345
)

// attributes are what issuers may say. What the verifier itself finds, counts or draws is nobody's to claim.
var attributes = map[string]attribute{
	"party.identity":       {of: []Unit{UnitProvider}, levels: claim.Identities},
	"party.legal-entity":   {of: []Unit{UnitProvider}, check: checkLegalEntity},
	"party.domain":         {of: []Unit{UnitProvider}, check: form(domainForm, "a domain in lower case")},
	"party.jurisdiction":   {of: []Unit{UnitHost, UnitSite, UnitProvider}, check: checkCountry},
	"party.facility":       {of: []Unit{UnitDevice, UnitHost, UnitSite}, levels: claim.Facilities},
	"party.facility-audit": {of: []Unit{UnitHost, UnitSite}, check: checkDigest},
	AttributeKey:           {of: []Unit{UnitIssuer}, operator: true, check: checkKey},
	AttributeScope:         {of: []Unit{UnitIssuer}, operator: true, check: checkAttributes},
	AttributeDataClass:     {of: []Unit{UnitModel}, operator: true, check: checkDataClass},
}

// vouched are the attributes of a party, in order.
var vouched = []string{"party.domain", "party.facility", "party.facility-audit", "party.identity", "party.jurisdiction", "party.legal-entity"}

func form(f *regexp.Regexp, what string) func(string) string {
	return func(value string) string {
		if f.MatchString(value) {
			return ""
		}
		return "want " + what
	}
}

func checkLegalEntity(value string) string {
	if leiForm.MatchString(value) || otherForm.MatchString(value) {
		return ""
	}
	return "want LEI: and its 20 characters, or country, register and number such as DE-HRB-B:12345"
}

func checkCountry(value string) string {
	if value == "" {
		return "want a country"
	}
	if err := policy.CheckCountries([]string{value}); err != nil {
		return err.Error()
	}
	return ""
}

func checkDigest(value string) string {
	if b, err := hex.DecodeString(value); err != nil || len(b) != 32 || strings.ToLower(value) != value {
		return "want a SHA-256 digest in lower-case hex"
	}
	return ""
}

func checkDataClass(value string) string {
	if slices.Contains(policy.DataClasses, policy.DataClass(value)) {
		return ""
	}
	return "want a data class"
}

func checkAttributes(value string) string {
	words := strings.Split(value, " ")
	for i, w := range words {
		if !slices.Contains(vouched, w) {
			return fmt.Sprintf("%.80q is nothing that an issuer may say", w)
		}
		if i > 0 && words[i-1] >= w {
			return "want attributes in order, each once"
		}
	}
	return ""
}

func checkKey(value string) string {
	if _, err := publicKey(value); err != nil {
		return err.Error()
	}
	return ""
}

// KeyValue returns the value of an issuer.key claim.
func KeyValue(pub crypto.PublicKey) (string, error) {
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("issuer key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(spki), nil
}

// publicKey reads the value of an issuer.key claim: Ed25519 or P-256, as result keys are.
func publicKey(value string) (crypto.PublicKey, error) {
	spki, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || len(spki) > ledger.MaxKey {
		return nil, errors.New("want a SubjectPublicKeyInfo in base64")
	}
	return ledger.Key{Use: ledger.UseResult, SPKI: spki}.Public()
}

// Validate checks a claim alone. Whether anybody may say it is the registry's question.
func (c Claim) Validate() error {
	if err := checkStatement(c.Type, ClaimType, c.Issuer); err != nil {
		return err
	}
	if err := c.Subject.Validate(); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if err := checkValue(c.Subject.Kind, c.Attribute, c.Value); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	a := attributes[c.Attribute]
	switch {
	case a.operator && c.Issuer != Operator:
		return fmt.Errorf("claim: %s is the operator's to say", c.Attribute)
	case !a.operator && c.Issuer == Operator:
		return fmt.Errorf("claim: the operator registers issuers and is none: %s is theirs to say", c.Attribute)
	case a.operator && c.Subject.ID == Operator:
		return fmt.Errorf("claim: the operator's keys are the log's keyset")
	case c.Issued <= 0 || c.Expires <= c.Issued:
		return fmt.Errorf("claim: holds from %s to %s: want an end after the beginning", c.Issued, c.Expires)
	case int64(c.Expires-c.Issued) > MaxTerm:
		return fmt.Errorf("claim: a term of %d s, at most %d", c.Expires-c.Issued, MaxTerm)
	}
	return c.Scope.Validate()
}

// checkValue checks that an attribute can be said of a kind of subject, with that value.
func checkValue(kind Unit, id, value string) error {
	a, ok := attributes[id]
	switch {
	case !ok:
		return fmt.Errorf("attribute %.80q: nothing that an issuer may say", id)
	case !slices.Contains(a.of, kind):
		return fmt.Errorf("%s of a %s: want one of %v", id, kind, a.of)
	case len(value) > MaxValue:
		return fmt.Errorf("%s: a value of %d bytes, at most %d", id, len(value), MaxValue)
	case a.levels != nil && !slices.Contains(a.levels, value):
		return fmt.Errorf("%s %.80q: want one of %s", id, value, strings.Join(a.levels, ", "))
	}
	if a.check != nil {
		if wrong := a.check(value); wrong != "" {
			return fmt.Errorf("%s %.80q: %s", id, value, wrong)
		}
	}
	return nil
}

func checkStatement(got, want, issuer string) error {
	if got != want {
		return fmt.Errorf("type %.80q is not known to this build, want %q", got, want)
	}
	return Subject{UnitIssuer, issuer}.Validate()
}

// RevocationType is the type of the revocation document and the payload type of its envelope.
const RevocationType = "assay/revocation/v1"

// Why something is revoked.
const (
	RevokedKey       = "key-compromise"   // the key of the unit is in other hands
	RevokedVendor    = "vendor-revoked"   // its maker revoked it, for good
	RevokedForged    = "forged-evidence"  // evidence or a statement was made up
	RevokedDuplicate = "duplicate-device" // one identity was shown to be two machines
	RevokedError     = "error"            // it was never right; nobody is to blame
	RevokedEnded     = "ended"            // it was right and is over: sold, replaced, out of business
	RevokedPhysical  = "physical-attack"  // somebody opened it
	RevokedFinding   = "finding"          // a review found it wanting
)

// RevokedFor lists why a unit or a certificate may be taken back.
var RevokedFor = []string{RevokedDuplicate, RevokedEnded, RevokedError, RevokedFinding, RevokedForged, RevokedKey, RevokedPhysical, RevokedVendor}

// Revocation takes a unit back from an instant on. It never edits the past: what was decided before it took effect stays
// decided, and what was decided since Since is tainted, which whoever asks is told.
type Revocation struct {
	Type      string       `json:"type"`
	Issuer    string       `json:"issuer"` // of the claim, or the operator
	Unit      Subject      `json:"unit"`
	Reason    string       `json:"reason"`
	Made      canon.Time   `json:"made"`
	Effective canon.Time   `json:"effective"` // first instant at which it counts, not before the entry
	Since     canon.Time   `json:"since"`     // first instant that is tainted
	Evidence  canon.Digest `json:"evidence"`  // of what shows the reason
}

// Validate checks a revocation alone.
func (r Revocation) Validate() error {
	if err := checkStatement(r.Type, RevocationType, r.Issuer); err != nil {
		return err
	}
	if err := r.Unit.Validate(); err != nil {
		return fmt.Errorf("revocation: %w", err)
	}
	switch {
	case r.Unit.Kind != UnitClaim && r.Issuer != Operator:
		return fmt.Errorf("revocation: an issuer takes back its own claims; a %s is the operator's to revoke", r.Unit.Kind)
	case !slices.Contains(RevokedFor, r.Reason):
		return fmt.Errorf("revocation: reason %.80q: want one of %s", r.Reason, strings.Join(RevokedFor, ", "))
	case r.Made <= 0 || r.Effective < r.Made || r.Since <= 0 || r.Since > r.Effective:
		return fmt.Errorf("revocation: made %s, effective %s, tainted since %s: none takes effect before it is made, or taints what comes after that", r.Made, r.Effective, r.Since)
	case r.Evidence.IsZero():
		return errors.New("revocation: no digest of what shows the reason")
	}
	return nil
}

// Taints reports whether something that was decided at an instant rests on what was already wrong then. From the instant of
// effect on it does not count at all.
func (r Revocation) Taints(decided canon.Time) bool {
	return r.Since <= decided && decided < r.Effective
}

// Seal signs a claim with its issuer's key.
func (c Claim) Seal(key ledger.Signer) (ledger.Envelope, error) { return seal(ClaimType, c, key) }

// Seal signs a revocation with its issuer's key.
func (r Revocation) Seal(key ledger.Signer) (ledger.Envelope, error) {
	return seal(RevocationType, r, key)
}

func seal(payloadType string, v interface{ Validate() error }, key ledger.Signer) (ledger.Envelope, error) {
	if err := v.Validate(); err != nil {
		return ledger.Envelope{}, err
	}
	payload, err := canon.Marshal(v)
	if err != nil {
		return ledger.Envelope{}, err
	}
	return ledger.Seal(payloadType, payload, key)
}
