// Package relying checks EAT Attestation Results (EAR): for whoever is shown one and has to decide whether to hand a
// machine its work, its data or a key.
//
// An attestation result is a signed token in which a verifier says, for a quarter of an hour at most, what it thinks of a
// machine. Whoever relies on it decides three things beforehand and pins them: which verifier ([Expect.Issuer], whose
// keys [NewIssuer] fetches), which policies ([Expect.Policies]), and how good the status has to be ([Expect.Floor]). Two
// things tie the token to this moment and this peer:
//
//   - Nonce. Draw 32 random bytes, hand them to the machine, which has them built into its verifier's challenge, and
//     expect them in the token. So its evidence is newer than your bytes.
//   - Key. The token names the key that the machine's evidence covers. Expect it to be the one that the peer of your
//     session proved: the key of its TLS certificate, or the one that signed what you received.
//
// Without the nonce a token is as old as its evidence may be; without the key it is a token that anybody could have
// passed on. A token may be shown again until it expires: whoever must not serve it twice remembers [Result.ID] until
// [Result.Expires]. That memory, and what survives of it when several processes share the work, is the caller's.
//
// [Verify] needs no network and reads no clock. It checks the token alone: it does not recompute the verdict, nor look
// for it in the verifier's log. Who wants to know takes [Result.Evidence] and [Result.Promise] to an auditor.
//
// Format: JWS in compact form with the header members alg (ES256), kid and typ (eat+jwt) and no others, over the claims
// of draft-ietf-rats-ear that package verifier lists.
package relying

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Profile is the vocabulary that this package reads.
const Profile = "tag:github.com,2023:veraison/ear"

// Digest is a SHA-256 digest, in text 64 lower-case hex digits.
type Digest = canon.Digest

// ParseDigest reads the text of a digest, such as that of a policy in the output of `assay policy show`.
func ParseDigest(text string) (Digest, error) { return canon.ParseDigest(text) }

// Expect is what a relying party demands. The zero Expect accepts nothing.
type Expect struct {
	Issuer     string           // origin of the verifier: https://host[:port]
	Nonce      []byte           // that the evidence must answer: yours, or the digest of the verifier's challenge
	AnyNonce   bool             // the evidence may answer any nonce, so be as old as the policy allows
	Key        crypto.PublicKey // that the peer proved; nil: compare [Result.Key] yourself, or do not rely on who shows the token
	Floor      Tier             // least status: [Affirming], which zero means, or [Warning]
	Policies   []Digest         // one of which must have judged; empty: whatever policy the verifier was given
	OtherRoots bool             // the verifier may have judged under other roots than the hardware vendors'
}

// Result is what a token says whose every check has passed.
type Result struct {
	Issuer   string
	Node     string // id of the machine at that verifier
	ID       string // unique among the tokens of the issuer
	IssuedAt time.Time
	Expires  time.Time
	Status   Tier
	Submods  map[string]Submod // by subject: cpu:0, node, set
	Key      crypto.PublicKey  // Ed25519 key that the evidence covers; nil: it covers none
	Nonces   [][]byte          // that the evidence answers

	Policy      Digest     // that judged
	PolicyName  string     // which anybody may choose
	Verdict     string     // accept, reject or undecided, as logged
	AsOf        canon.Time // when it was given
	OpenRules   []string   // rules of the policy that no evidence decides
	VendorRoots bool
	Evidence    Digest
	Promise     *ledger.Envelope // the verifier's log will hold the verdict; not verified here
}

// Submod is what is said of one subject. Values of a vector: draft-ietf-rats-ar4si, section 2.3.
type Submod struct {
	Status Tier
	Vector map[string]int8
}

// Tier is a trustworthiness tier (draft-ietf-rats-ar4si, section 2.3.2).
type Tier int8

const (
	None            Tier = 0 // nothing is asserted
	Affirming       Tier = 2
	Warning         Tier = 32
	Contraindicated Tier = 96
)

var tierNames = map[Tier]string{None: "none", Affirming: "affirming", Warning: "warning", Contraindicated: "contraindicated"}

func (t Tier) String() string {
	if name, ok := tierNames[t]; ok {
		return name
	}
	return fmt.Sprintf("Tier(%d)", int8(t))
}

// UnmarshalText reads the tier in words.
func (t *Tier) UnmarshalText(text []byte) error {
	for tier, name := range tierNames {
		if string(text) == name {
			*t = tier
			return nil
		}
	}
	return fmt.Errorf("tier %.40q is not known to this build", text)
}

// ErrUnknownKey means that no key of the set has the token's key id: the set is old, or the token is another issuer's.
var ErrUnknownKey = errors.New("attestation result: signed with a key that is not in the set")

// header is the protected header of a token. A member that is not here is refused, "crit" among them (RFC 7515, section
// 4.1.11): this package understands no extension, and takes no key from a token.
type header struct {
	Alg string `json:"alg"`
	Kid string `json:"kid"`
	Typ string `json:"typ"`
}

// claims are those of the token that this package reads. Others are the issuer's to add.
type claims struct {
	Profile      string         `json:"eat_profile"`
	Issuer       string         `json:"iss"`
	Subject      string         `json:"sub"`
	ID           string         `json:"jti"`
	IssuedAt     int64          `json:"iat"`
	NotBefore    int64          `json:"nbf"`
	Expires      int64          `json:"exp"`
	Nonce        jsontext.Value `json:"eat_nonce"`
	Confirmation *struct {
		JWK jwk `json:"jwk"`
	} `json:"cnf"`
	Status  *Tier `json:"ear.status"`
	Submods map[string]struct {
		Status *Tier           `json:"ear.status"`
		Vector map[string]int8 `json:"ear.trustworthiness-vector"`
		Policy canon.Digest    `json:"ear.appraisal-policy-id"`
	} `json:"submods"`
	Evidence    canon.Digest     `json:"assay.evidence"`
	Verdict     string           `json:"assay.verdict"`
	AsOf        canon.Time       `json:"assay.verdict-as-of"`
	Policy      string           `json:"assay.policy"`
	Open        []string         `json:"assay.open-rules"`
	VendorRoots bool             `json:"assay.vendor-roots"`
	Promise     *ledger.Envelope `json:"assay.promise"`
}

// Verify checks a token against the issuer's keys and what the relying party expects, at a time. See the package comment
// for what it does not check. A token that is the issuer's and not good enough gives its result beside the error, for
// people to see what it lacks.
func Verify(token string, keys Keys, want Expect, now time.Time) (Result, error) {
	issuer, err := want.check()
	if err != nil {
		return Result{}, err
	}
	payload, err := keys.open(token)
	if err != nil {
		return Result{}, err
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return Result{}, fmt.Errorf("attestation result: claims: %w", err)
	}
	if err := c.check(issuer, now); err != nil {
		return Result{}, err
	}
	r, err := c.result()
	if err != nil {
		return Result{}, err
	}
	return r, r.satisfies(want)
}

// check refuses an Expect that would accept what nobody means, and returns the issuer in its one spelling.
func (e Expect) check() (string, error) {
	switch {
	case len(e.Nonce) == 0 && !e.AnyNonce:
		return "", errors.New("expectations: want a nonce, or AnyNonce in so many words")
	case len(e.Nonce) != 0 && e.AnyNonce:
		return "", errors.New("expectations: a nonce and AnyNonce exclude each other")
	case e.Floor != 0 && e.Floor != Affirming && e.Floor != Warning:
		return "", fmt.Errorf("expectations: floor %s, want affirming or warning", e.Floor)
	}
	issuer, err := client.Origin(e.Issuer)
	if err != nil {
		return "", fmt.Errorf("expectations: issuer: %w", err)
	}
	return issuer, nil
}

// check looks at what every token must say, whoever relies on it.
func (c claims) check(issuer string, now time.Time) error {
	at, slack := now.Unix(), int64(Slack/time.Second)
	switch {
	case c.Profile != Profile:
		return fmt.Errorf("attestation result: profile %.80q is not known to this build, want %q", c.Profile, Profile)
	case c.Issuer != issuer:
		return fmt.Errorf("attestation result: issued by %.80q, want %q", c.Issuer, issuer)
	case c.IssuedAt <= 0 || c.Expires <= c.IssuedAt || c.Expires-c.IssuedAt > int64(MaxLife/time.Second):
		return fmt.Errorf("attestation result: issued at %d to expire at %d, want at most %s later", c.IssuedAt, c.Expires, MaxLife)
	case at >= c.Expires:
		return fmt.Errorf("attestation result: expired at %s, it is %s", canon.Time(c.Expires), canon.At(now))
	case at+slack < c.IssuedAt, at+slack < c.NotBefore:
		return fmt.Errorf("attestation result: valid from %s, it is %s", canon.Time(max(c.IssuedAt, c.NotBefore)), canon.At(now))
	case c.Status == nil || len(c.Submods) == 0 || c.ID == "":
		return errors.New("attestation result: no status, no submods or no jti")
	}
	return nil
}

// result turns claims into a result.
func (c claims) result() (r Result, err error) {
	r = Result{
		Issuer: c.Issuer, Node: c.Subject, ID: c.ID, IssuedAt: time.Unix(c.IssuedAt, 0).UTC(), Expires: time.Unix(c.Expires, 0).UTC(),
		Status: *c.Status, Submods: map[string]Submod{}, PolicyName: c.Policy, Verdict: c.Verdict, AsOf: c.AsOf,
		OpenRules: c.Open, VendorRoots: c.VendorRoots, Evidence: c.Evidence, Promise: c.Promise,
	}
	for subject, m := range c.Submods {
		if m.Status == nil {
			return Result{}, fmt.Errorf("attestation result: no status of %.80q", subject)
		}
		if r.Policy.IsZero() {
			r.Policy = m.Policy
		}
		if m.Policy != r.Policy || m.Policy.IsZero() {
			return Result{}, errors.New("attestation result: want one policy of all submods")
		}
		r.Submods[subject] = Submod{*m.Status, m.Vector}
	}
	if r.Nonces, err = readNonces(c.Nonce); err != nil {
		return Result{}, err
	}
	if c.Confirmation != nil {
		if r.Key, err = c.Confirmation.JWK.ed25519(); err != nil {
			return Result{}, fmt.Errorf("attestation result: cnf: %w", err)
		}
	}
	return r, nil
}

// readNonces reads one nonce, which travels as text, or several in an array (RFC 9711, section 4.1).
func readNonces(v jsontext.Value) (nonces [][]byte, err error) {
	if v == nil {
		return nil, nil
	}
	texts := make([]string, 1)
	if v.Kind() == '[' {
		err = json.Unmarshal(v, &texts)
	} else {
		err = json.Unmarshal(v, &texts[0])
	}
	for i := 0; i < len(texts) && err == nil; i++ {
		var n []byte
		if n, err = base64.RawURLEncoding.Strict().DecodeString(texts[i]); err == nil && (len(n) < 8 || len(n) > 64) {
			err = fmt.Errorf("%d bytes, want 8 to 64", len(n))
		}
		nonces = append(nonces, n)
	}
	if err != nil {
		return nil, fmt.Errorf("attestation result: eat_nonce: %w", err)
	}
	return nonces, nil
}

// satisfies compares a result with what one relying party demands.
func (r Result) satisfies(want Expect) error {
	floor := want.Floor
	if floor == 0 {
		floor = Affirming
	}
	switch {
	case !want.AnyNonce && !slices.ContainsFunc(r.Nonces, func(n []byte) bool { return subtle.ConstantTimeCompare(n, want.Nonce) == 1 }):
		return errors.New("attestation result: it answers another nonce")
	case want.Key != nil && (r.Key == nil || !r.Key.(ed25519.PublicKey).Equal(want.Key)):
		return errors.New("attestation result: it is for another key than the peer's")
	case len(want.Policies) > 0 && !slices.Contains(want.Policies, r.Policy):
		return fmt.Errorf("attestation result: judged by policy %s (%.80q), which is none of those asked for", r.Policy, r.PolicyName)
	case !r.VendorRoots && !want.OtherRoots:
		return errors.New("attestation result: NOT VENDOR ROOTS: judged under roots of the verifier's own")
	case r.Status != Affirming && !(r.Status == Warning && floor == Warning):
		return fmt.Errorf("attestation result: status %s, want %s", r.Status, floor)
	}
	return nil
}

// open returns the payload of a token that one of the keys signed.
func (k Keys) open(token string) ([]byte, error) {
	if len(token) > client.MaxEAR {
		return nil, fmt.Errorf("attestation result: %d bytes, at most %d", len(token), client.MaxEAR)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("attestation result: want a JWS of three parts")
	}
	var raw [3][]byte
	for i, p := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.Strict().DecodeString(p); err != nil {
			return nil, fmt.Errorf("attestation result: part %d: %w", i+1, err)
		}
	}
	var h header
	if err := json.Unmarshal(raw[0], &h, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("attestation result: header: %w", err)
	}
	switch {
	case h.Alg != "ES256":
		return nil, fmt.Errorf("attestation result: algorithm %.40q, want ES256", h.Alg)
	case h.Typ != "eat+jwt":
		return nil, fmt.Errorf("attestation result: a token of type %.40q, want eat+jwt", h.Typ)
	}
	key := k.byID[h.Kid]
	if key == nil {
		return nil, fmt.Errorf("%w: %.80q", ErrUnknownKey, h.Kid)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if sig := raw[2]; len(sig) != 64 || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return nil, errors.New("attestation result: the signature is not good")
	}
	return raw[1], nil
}
