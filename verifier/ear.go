package verifier

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// EARProfile names the claims vocabulary of an [EAR]: the one that deployed verifiers write and libraries read.
const EARProfile = "tag:github.com,2023:veraison/ear"

// EARDeveloper is who made the verifier.
const EARDeveloper = "https://github.com/assay-network/assay"

// MaxEARLife is the longest time in seconds from issue to expiry of an attestation result.
const MaxEARLife = 15 * 60

// EAR is the claims set of an EAT Attestation Result (draft-ietf-rats-ear): an appraisal and its verdict in the words
// that relying parties share. It is a rendering and decides nothing; [EAR.Encode] gives the bytes that a server signs.
//
// It says less than the documents that it names by digest, and it says nothing that they do not: what is proven of the
// session key and of the challenge stands here, what is not proven is absent.
type EAR struct {
	Profile      string            `json:"eat_profile"`
	Issuer       string            `json:"iss"` // origin of the verifier
	Subject      string            `json:"sub"` // id of the node
	ID           string            `json:"jti"` // unique, so that a relying party can refuse a second use
	IssuedAt     int64             `json:"iat"` // seconds since 1970, as all instants of a JWT
	NotBefore    int64             `json:"nbf"` // the same
	Expires      int64             `json:"exp"` // at most MaxEARLife later
	Nonce        Nonces            `json:"eat_nonce,omitzero"`
	Confirmation *Confirmation     `json:"cnf,omitzero"` // absent: the evidence does not cover the session key
	Verifier     VerifierID        `json:"ear.verifier-id"`
	Status       Tier              `json:"ear.status"`
	Submods      map[string]Submod `json:"submods"` // by subject: cpu:0, node, set

	Evidence    canon.Digest     `json:"assay.evidence"`            // as received
	Appraisal   canon.Digest     `json:"assay.appraisal"`           // of its canonical bytes
	Result      canon.Digest     `json:"assay.result"`              // of the signed verdict, the body of the entry that Promise promises
	Verdict     policy.Outcome   `json:"assay.verdict"`             // as logged
	AsOf        canon.Time       `json:"assay.verdict-as-of"`       // when it was given
	Policy      string           `json:"assay.policy"`              // its name; the digest is the ear.appraisal-policy-id
	Open        []string         `json:"assay.open-rules,omitzero"` // rules of the policy that no evidence decides
	VendorRoots bool             `json:"assay.vendor-roots"`        // judged under the vendors' pinned roots
	Promise     *ledger.Envelope `json:"assay.promise,omitzero"`    // that the log holds the verdict
}

// Submod is what is said of one subject.
type Submod struct {
	Status Tier            `json:"ear.status"`
	Vector map[string]int8 `json:"ear.trustworthiness-vector,omitempty"` // AR4SI values; absent is 0, no claim made; the format has no empty vector
	Policy canon.Digest    `json:"ear.appraisal-policy-id"`
}

// VerifierID names the program that appraised.
type VerifierID struct {
	Developer string `json:"developer"`
	Build     string `json:"build"`
}

// Confirmation names the key that whoever shows the result has to prove (RFC 7800).
type Confirmation struct {
	JWK JWK `json:"jwk"`
}

// JWK is an Ed25519 public key (RFC 8037).
type JWK struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"` // base64url
}

// Nonces are the bytes that evidence answers. One travels as text, several as an array (RFC 9711, section 4.1).
type Nonces [][]byte

// MarshalJSON writes base64url without padding.
func (n Nonces) MarshalJSON() ([]byte, error) {
	texts := make([]string, len(n))
	for i, b := range n {
		texts[i] = base64.RawURLEncoding.EncodeToString(b)
	}
	if len(texts) == 1 {
		return json.Marshal(texts[0])
	}
	return json.Marshal(texts)
}

// Tier is a trustworthiness tier (draft-ietf-rats-ar4si, section 2.3.2). Its number is the tier's least value.
type Tier int8

const (
	TierNone            Tier = 0 // nothing is asserted
	TierAffirming       Tier = 2
	TierWarning         Tier = 32
	TierContraindicated Tier = 96
)

func (t Tier) String() string {
	switch t {
	case TierNone:
		return "none"
	case TierAffirming:
		return "affirming"
	case TierWarning:
		return "warning"
	case TierContraindicated:
		return "contraindicated"
	}
	return fmt.Sprintf("Tier(%d)", int8(t))
}

// MarshalText writes the tier in words.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// tierOf returns the tier of a value of a trustworthiness vector.
func tierOf(v int8) Tier {
	switch {
	case v >= -1 && v <= 1:
		return TierNone
	case v >= 2 && v < 32 || v >= -32 && v < 0:
		return TierAffirming
	case v >= 32 && v < 96 || v >= -96 && v < 0:
		return TierWarning
	}
	return TierContraindicated
}

// Elements of a trustworthiness vector. file-system, storage-opaque and sourced-data are never asserted: no claim of the
// catalogue speaks of them.
const (
	instanceIdentity = "instance-identity"
	configuration    = "configuration"
	executables      = "executables"
	hardware         = "hardware"
	runtimeOpaque    = "runtime-opaque"
)

// assertion is one line of the table that turns claims into a trustworthiness vector. An element of a subject has the
// worst value that a claim speaks against it with; else, if all its claims that are there are affirmed, the weakest
// value that they affirm; else none. A claim whose interval has ended is not affirmed; one that does not apply says nothing.
type assertion struct {
	element string
	claim   string // id; * is any room
	good    int8   // what it asserts affirmed; 0: nothing alone
	bad     int8   // what it asserts contradicted
	is      string // the one value that good stands for; empty: any
	other   int8   // what another value asserts
}

// vectorTable is ordered by element. Values: draft-ietf-rats-ar4si, section 2.3.4.
//
//	hardware           2 genuine and supported  32 genuine, vulnerabilities are known  96 not to be trusted  97 not
//	                   recognized  99 cryptographic validation failed  1 cannot be parsed  -1 the verifier failed
//	instance-identity  2 recognized, not known to be compromised  96 not trustworthy  97 not recognized  99 as above
//	configuration      3 exposes no known vulnerabilities  96 exposes unacceptable ones
//	executables        3 approved ones alone were loaded at boot  33 some are not recognized  99 as above
//	runtime-opaque     2 encrypted in a trusted execution environment  96 visible to the host
var vectorTable = []assertion{
	{configuration, "*.attributes", 3, 96, "", 0},
	{configuration, "*.debug-off", 3, 96, "", 0},
	{configuration, "*.migration-off", 3, 96, "", 0},
	{configuration, "*.reserved-bits", 3, 96, "", 0},
	{configuration, "*.servicetd", 3, 96, "", 0},
	{configuration, "nvidia.cc-mode", 3, 96, "", 0},
	{configuration, "nvidia.devtools-off", 3, 96, "", 0},
	{configuration, "set.links", 3, 96, "", 0},
	{configuration, "set.same-mode", 3, 96, "", 0},
	{executables, "agent.measured", 3, 33, "", 0},
	{executables, "guest.measured", 3, 33, "", 0},
	{executables, "nvidia.fwid", 0, 99, "", 0},
	{executables, "nvidia.measurements", 3, 33, "", 0},
	{executables, "set.fleet-agreement", 0, 33, "", 0},
	{executables, "tpm.event-log", 0, 33, "", 0},
	{executables, "tpm.ima", 0, 33, "", 0},
	{hardware, "*.chain", 2, 97, "", 0},
	{hardware, "*.cert-tcb", 2, 99, "", 0},
	{hardware, "*.qe-identity", 2, 96, "", 0},
	{hardware, "*.qe-report", 2, 99, "", 0},
	{hardware, "*.qe-signer", 2, 97, "", 0},
	{hardware, "*.revocation", 2, 96, "", 0},
	{hardware, "*.signature", 2, 99, "", 0},
	{hardware, "*.signing-key", 2, 97, "", 0},
	{hardware, "*.structure", 0, 1, "", 0},
	{hardware, "azure.runtime-data", 2, 99, "", 0},
	{hardware, "set.topology", 2, 97, "", 0},
	{hardware, "tdx.module-identity", 2, 96, "", 0},
	{hardware, "tdx.seam", 2, 96, "", 0},
	{hardware, "tdx.tcb-status", 2, 96, "UpToDate", 32},
	{hardware, "tpm.ak-attributes", 2, 97, "", 0},
	{hardware, "tpm.pcr-digest", 2, 99, "", 0},
	{hardware, "tpm.quote", 2, 99, "", 0},
	{instanceIdentity, "*.cert-chip-id", 2, 97, "", 0},
	{instanceIdentity, "*.freshness", 0, 99, "", 0},
	{instanceIdentity, "*.revocation", 0, 96, "", 0},
	{instanceIdentity, "azure.report-fresh", 0, 99, "", 0},
	{instanceIdentity, "binding.challenge", 0, 99, "", 0},
	{instanceIdentity, "binding.possession", 0, 99, "", 0},
	{instanceIdentity, "binding.seal", 0, 99, "", 0},
	{instanceIdentity, "nvidia.identity", 2, 97, "", 0},
	{instanceIdentity, "set.device-unique", 2, 96, "", 0},
	{instanceIdentity, "set.same-nonce", 0, 99, "", 0},
	{instanceIdentity, "tpm.ak-bound", 2, 97, "", 0},
	{instanceIdentity, "tpm.ek-chain", 0, 97, "", 0},
	{runtimeOpaque, "nvidia.cc-mode", 2, 96, "", 0},
	{runtimeOpaque, "nvidia.devtools-off", 2, 96, "", 0},
	{runtimeOpaque, "sevsnp.debug-off", 2, 96, "", 0},
	{runtimeOpaque, "tdx.debug-off", 2, 96, "", 0},
}

func (a assertion) matches(id string) bool {
	rest, any := strings.CutPrefix(a.claim, "*")
	return id == a.claim || any && strings.TrimPrefix(id, claim.Room(id)) == rest
}

// vector returns the trustworthiness vector of one subject's claims at a time.
func vector(claims claim.Set, at canon.Time) map[string]int8 {
	v := map[string]int8{}
	for i := 0; i < len(vectorTable); {
		var good, bad int8
		open, failed := false, false
		element := vectorTable[i].element
		for ; i < len(vectorTable) && vectorTable[i].element == element; i++ {
			line := vectorTable[i]
			for _, c := range claims {
				if !line.matches(c.ID) || c.Reason.Code() == claim.NotApplicable {
					continue
				}
				switch said := line.good; {
				case c.Status == claim.Contradicted:
					bad = max(bad, line.bad)
				case c.Status != claim.Affirmed || c.Until != 0 && at > c.Until:
					open, failed = true, failed || c.Reason.Code() == claim.Internal
				case line.is != "" && c.Value != line.is:
					bad = max(bad, line.other)
				default:
					good = max(good, said)
				}
			}
		}
		switch {
		case bad != 0:
			v[element] = bad
		case failed:
			v[element] = -1
		case !open && good != 0:
			v[element] = good
		}
	}
	return v
}

// EARFacts is what stands in an attestation result beside the appraisal. All of it is the server's own knowledge.
type EARFacts struct {
	Issuer    string
	Node      string
	ID        string // unique among the results of the issuer
	Build     policy.Build
	Policy    *policy.Policy
	Result    policy.Result // as signed and logged
	Signed    canon.Digest  // of the signed envelope of Result
	Promise   *ledger.Envelope
	Challenge attest.Challenge // that the evidence answers
	Party     claim.Set        // what the verdict was told of the party, beside the appraisal
	Evidence  *Opened
	At        canon.Time // the server's clock
}

// NewEAR renders an appraisal and its verdict at a time. The status of the whole is
//
//	accept     affirming; warning if the policy is `genuine`, leaves rules open, or refuses a claim that is unknown here
//	undecided  none
//	reject     contraindicated
//
// where the verdict is the worse of the logged one and what the same policy says of the same claims now: evidence ages.
// No status is better than the vector below it, so an accept by a policy that does not ask is no cover for, say, an open
// debug interface. A component of a class that the policy does not name is not judged: it is contraindicated or none, and has
// no part in the status of the whole, as a GPU has none in what a policy says of the CPU beside it. The result expires after [MaxEARLife], or sooner where the verdict would change.
//
// It does not check that the verdict is signed or logged, nor whether something later speaks against the node: its
// caller, who keeps both, does.
func NewEAR(a Appraisal, f EARFacts) (EAR, error) {
	switch {
	case f.Evidence.Digest() != f.Result.Evidence || !slices.Contains(a.Inputs, Input{InputEvidence, f.Result.Evidence}):
		return EAR{}, errors.New("attestation result: evidence, appraisal and verdict are not of each other")
	case f.Policy.Digest() != f.Result.Policy:
		return EAR{}, errors.New("attestation result: the verdict is by another policy")
	case f.At < f.Result.Verdict.AsOf:
		return EAR{}, fmt.Errorf("attestation result: of %s, before its verdict of %s", f.At, f.Result.Verdict.AsOf)
	}
	all := slices.Concat(a.Claims, f.Party)
	now := policy.Decide(all, f.Policy, f.At)
	outcome := worse(f.Result.Verdict.Outcome, now.Outcome)
	e := EAR{
		Profile: EARProfile, Issuer: f.Issuer, Subject: f.Node, ID: f.ID, IssuedAt: int64(f.At), NotBefore: int64(f.At),
		Verifier: VerifierID{EARDeveloper, f.Build.Digest.String() + " " + f.Build.Go + " " + f.Build.Platform},
		Submods:  map[string]Submod{}, Evidence: f.Result.Evidence, Appraisal: f.Result.Appraisal, Result: f.Signed,
		Verdict: f.Result.Verdict.Outcome, AsOf: f.Result.Verdict.AsOf, Policy: f.Result.Verdict.Policy.Name, Open: now.Open,
		VendorRoots: slices.Contains(a.Inputs, Input{InputRoots, VendorRoots().Digest()}), Promise: f.Promise,
	}
	e.Expires = int64(f.At + lifeOf(all, f.Policy, f.At, now.Outcome))
	e.Status = statusOf(outcome, all, f.Policy, now.Open)
	named := map[string]bool{} // subjects that a reason speaks against
	for _, r := range append(slices.Clone(f.Result.Verdict.Reasons), now.Reasons...) {
		named[r.Subject] = named[r.Subject] || r.Status != claim.Unknown || claim.Reason(r.Observed).Code() == claim.EvidenceMissing
	}
	verdict := e.Status
	for subject, claims := range bySubject(a.Claims) {
		s := Submod{Vector: vector(claims, f.At), Policy: f.Result.Policy}
		s.Status = submodStatus(verdict, s.Vector, named[subject])
		if !judged(f.Policy, subject) {
			if s.Status != TierContraindicated {
				s.Status = TierNone
			}
		} else if s.Status == TierContraindicated || s.Status == TierWarning && e.Status == TierAffirming {
			e.Status = s.Status
		}
		e.Submods[subject] = s
	}
	e.bind(a.Claims, f)
	return e, nil
}

// judged reports whether a policy says anything of a subject's class. Claims about the node, its set of devices and the agent's
// statement are always read.
func judged(p *policy.Policy, subject string) bool {
	class := policy.Class(claim.Class(subject))
	switch class {
	case policy.CPU, policy.TPM, policy.GPU, policy.Switch:
		return slices.ContainsFunc(p.Document().Require, func(r policy.Rule) bool { return r.Of == class || r.Of == policy.Device })
	}
	return true
}

// worse returns the outcome that promises less.
func worse(a, b policy.Outcome) policy.Outcome {
	for _, o := range []policy.Outcome{policy.Reject, policy.Undecided} {
		if a == o || b == o {
			return o
		}
	}
	return policy.Accept
}

// lifeOf returns for how many seconds the outcome is known to stand, at most [MaxEARLife].
func lifeOf(claims claim.Set, p *policy.Policy, at canon.Time, outcome policy.Outcome) canon.Time {
	life := canon.Time(MaxEARLife)
	for life > 0 && policy.Decide(claims, p, at+life).Outcome != outcome {
		life /= 2
	}
	return life
}

func statusOf(outcome policy.Outcome, claims claim.Set, p *policy.Policy, open []string) Tier {
	switch {
	case outcome == policy.Reject:
		return TierContraindicated
	case outcome == policy.Undecided:
		return TierNone
	case p.Name() == "genuine", len(open) > 0,
		slices.ContainsFunc(claims, func(c claim.Claim) bool {
			return c.Status == claim.Unknown && c.Reason.Code() != claim.NotApplicable && p.Refuses(c.ID)
		}):
		return TierWarning
	}
	return TierAffirming
}

// submodStatus returns the status of one subject: never better than the whole verdict or the subject's own vector.
func submodStatus(verdict Tier, vector map[string]int8, named bool) Tier {
	worst := TierNone
	for _, v := range vector {
		worst = max(worst, tierOf(v))
	}
	switch {
	case worst == TierContraindicated, verdict == TierContraindicated && named:
		return TierContraindicated
	case verdict == TierContraindicated, verdict == TierNone:
		return TierNone // the fault is another subject's, and nothing is affirmed under it
	}
	return max(verdict, worst)
}

func bySubject(claims claim.Set) map[string]claim.Set {
	m := map[string]claim.Set{}
	for _, c := range claims {
		m[c.Subject] = append(m[c.Subject], c)
	}
	return m
}

// bind adds what the evidence is proven to cover: the challenge, with the renter's part of it, and the session key.
func (e *EAR) bind(claims claim.Set, f EARFacts) {
	affirmed := func(id string) bool {
		c := claims.Find(id, subjectNode)
		return c != nil && c.Status == claim.Affirmed
	}
	bundle := f.Evidence.bundle
	if !affirmed("binding.seal") || bundle == nil {
		return
	}
	if n := f.Challenge.Digest(); affirmed("binding.challenge") && bundle.Challenge == n {
		e.Nonce = Nonces{n[:]}
		if len(f.Challenge.Renter) > 0 {
			e.Nonce = append(e.Nonce, f.Challenge.Renter)
		}
	}
	if key, err := bundle.Keys.Verification(); err == nil && affirmed("binding.possession") {
		if key, ok := key.(ed25519.PublicKey); ok {
			e.Confirmation = &Confirmation{JWK{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(key)}}
		}
	}
}

// Encode returns the JSON of the claims set, members of maps in order.
func (e EAR) Encode() ([]byte, error) { return json.Marshal(e, json.Deterministic(true)) }
