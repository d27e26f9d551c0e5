package verifier_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

// rendering is a case judged by a policy, ready to be rendered.
type rendering struct {
	appraisal verifier.Appraisal
	facts     verifier.EARFacts
}

// rendered judges a case, after change has altered what the appraiser has, by a policy.
func rendered(t *testing.T, c testvectors.Case, p *policy.Policy, change ...func(*attest.Case)) rendering {
	t.Helper()
	o, k, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	k.Memory = seen()
	for _, f := range change {
		f(&k)
	}
	a := verifier.Appraise(o, k)
	data, err := a.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	f := verifier.EARFacts{
		Issuer: "https://assay.test", Node: "node-1", ID: "id-1", Policy: p, Evidence: o, At: k.At,
		Result: policy.Result{Type: policy.ResultType, Evidence: o.Digest(), Appraisal: canon.Sum(data), Policy: p.Digest(), Verdict: policy.Decide(a.Claims, p, k.At)},
	}
	if k.Expect.Challenge != nil {
		f.Challenge = *k.Expect.Challenge
	}
	return rendering{a, f}
}

func (r rendering) ear(t *testing.T) verifier.EAR {
	t.Helper()
	e, err := verifier.NewEAR(r.appraisal, r.facts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func builtin(t *testing.T, name string) *policy.Policy {
	t.Helper()
	p, ok := policy.Builtin(name)
	if !ok {
		t.Fatalf("no policy %s", name)
	}
	return p
}

func TestEARAccept(t *testing.T) {
	all, _ := minted(t)
	r := rendered(t, all["bundle-milan-v3"], builtin(t, "confidential-cpu"))
	data, err := r.ear(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Profile  string `json:"eat_profile"`
		Iss, Sub string
		Iat, Exp int64
		Nonces   []string `json:"eat_nonce"`
		Cnf      struct{ Jwk struct{ Kty, Crv, X string } }
		Verifier struct{ Developer, Build string } `json:"ear.verifier-id"`
		Status   string                            `json:"ear.status"`
		Submods  map[string]struct {
			Status string         `json:"ear.status"`
			Vector map[string]int `json:"ear.trustworthiness-vector"`
			Policy string         `json:"ear.appraisal-policy-id"`
		}
		Evidence    string `json:"assay.evidence"`
		Verdict     string `json:"assay.verdict"`
		VendorRoots bool   `json:"assay.vendor-roots"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	n := r.facts.Challenge.Digest()
	key, err := r.facts.Evidence.Bundle().Keys.Verification()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Profile != verifier.EARProfile, got.Iss != "https://assay.test", got.Sub != "node-1", got.Verifier.Developer == "", got.Verifier.Build == "":
		t.Errorf("who: %s", data)
	case got.Iat != int64(r.facts.At), got.Exp != got.Iat+verifier.MaxEARLife:
		t.Errorf("when: iat %d, exp %d, at %d", got.Iat, got.Exp, r.facts.At)
	case !slices.Equal(got.Nonces, []string{base64.RawURLEncoding.EncodeToString(n[:]), base64.RawURLEncoding.EncodeToString(r.facts.Challenge.Renter)}):
		t.Errorf("eat_nonce %q, want the challenge and the renter's part of it", got.Nonces)
	case got.Cnf.Jwk.Kty != "OKP", got.Cnf.Jwk.Crv != "Ed25519", got.Cnf.Jwk.X != base64.RawURLEncoding.EncodeToString(key.(ed25519.PublicKey)):
		t.Errorf("cnf %+v, want the session key", got.Cnf)
	case got.Status != "affirming", got.Verdict != "accept", got.VendorRoots, got.Evidence != r.facts.Evidence.Digest().String():
		t.Errorf("what: %s", data)
	}
	want := map[string]map[string]int{
		"cpu:0":       {"configuration": 3, "hardware": 2, "instance-identity": 2, "runtime-opaque": 2},
		"node":        {"executables": 3},
		"set":         {"instance-identity": 2},
		"statement:0": nil, // left out: the format has no empty vector
	}
	for subject, m := range got.Submods {
		if m.Status != "affirming" || m.Policy != r.facts.Policy.Digest().String() || !reflect.DeepEqual(m.Vector, want[subject]) {
			t.Errorf("%s: %+v, want affirming %v", subject, m, want[subject])
		}
	}
	if len(got.Submods) != len(want) {
		t.Errorf("submods %v, want %v", got.Submods, want)
	}
}

// TestEARNonce: a nonce stands in a result only where the evidence answers the challenge that it is of.
func TestEARNonce(t *testing.T) {
	all, _ := minted(t)
	r := rendered(t, all["bundle-milan-v3"], builtin(t, "confidential-cpu"))
	r.facts.Challenge.Renter = slices.Repeat(canon.Hex{7}, attest.NonceSize)
	if e := r.ear(t); e.Nonce != nil {
		t.Errorf("nonce %x of a challenge that the evidence does not answer", e.Nonce)
	}
	if text, err := json.Marshal(verifier.Nonces{{1, 2, 3, 4, 5, 6, 7, 8}}); err != nil || string(text) != `"AQIDBAUGBwg"` {
		t.Errorf("one nonce: %s, %v, want text alone", text, err)
	}
}

// TestEARCases renders every case under each policy: the result never says more than the verdict or the claims do.
func TestEARCases(t *testing.T) {
	all, names := minted(t)
	for _, name := range names {
		for _, by := range policy.Builtins() {
			r := rendered(t, all[name], builtin(t, by))
			e := r.ear(t)
			want := map[policy.Outcome][]verifier.Tier{
				policy.Accept:    {verifier.TierAffirming},
				policy.Undecided: {verifier.TierNone},
				policy.Reject:    {verifier.TierContraindicated},
			}[e.Verdict]
			if by == "genuine" && e.Verdict == policy.Accept {
				want = []verifier.Tier{verifier.TierWarning, verifier.TierContraindicated}
			}
			if by == "confidential-cpu" && e.Verdict == policy.Accept && slices.ContainsFunc(r.appraisal.Claims, func(c claim.Claim) bool {
				return c.Subject == "set" && c.Status == claim.Unknown && c.Reason.Code() != claim.NotApplicable
			}) {
				want = []verifier.Tier{verifier.TierWarning} // it refuses set.*, of which one is not known
			}
			if by == "regulated" && e.Verdict == policy.Accept {
				want = []verifier.Tier{verifier.TierWarning} // it leaves the party open
			}
			if by == "genuine" && e.Verdict == policy.Undecided {
				want = append(want, verifier.TierContraindicated)
			}
			if !slices.Contains(want, e.Status) {
				t.Errorf("%s by %s: %s is %s, want %s; %+v", name, by, e.Verdict, e.Status, want, e.Submods)
			}
			for subject, m := range e.Submods {
				for element, v := range m.Vector {
					if v >= 96 && m.Status != verifier.TierContraindicated || v >= 32 && m.Status == verifier.TierAffirming {
						t.Errorf("%s by %s: %s is %s with %s %d", name, by, subject, m.Status, element, v)
					}
				}
				if by == "confidential-cpu" && (strings.HasPrefix(subject, "gpu:") || strings.HasPrefix(subject, "switch:")) {
					if m.Status != verifier.TierContraindicated && m.Status != verifier.TierNone {
						t.Errorf("%s by %s: %s is %s, which nobody judged", name, by, subject, m.Status)
					}
					continue
				}
				if m.Status == verifier.TierContraindicated && e.Status != verifier.TierContraindicated || m.Status == verifier.TierAffirming && e.Status != verifier.TierAffirming {
					t.Errorf("%s by %s: %s is %s, the whole is %s", name, by, subject, m.Status, e.Status)
				}
			}
			holds := func(ids ...string) bool {
				return !slices.ContainsFunc(ids, func(id string) bool {
					c := r.appraisal.Claims.Find(id, "node")
					return c == nil || c.Status != claim.Affirmed
				})
			}
			if (e.Nonce != nil) != holds("binding.seal", "binding.challenge") || (e.Confirmation != nil) != holds("binding.seal", "binding.possession") {
				t.Errorf("%s: nonce %x, cnf %+v: not as proven", name, e.Nonce, e.Confirmation)
			}
		}
	}
}

// TestEARVector: one row for each line of the table that minted evidence can reach, each a twin of a case whose vector
// has the element affirmed.
func TestEARVector(t *testing.T) {
	all, _ := minted(t)
	for _, tc := range []struct {
		name, subject, element string
		want                   int8
	}{
		{"debug", "cpu:0", "runtime-opaque", 96},
		{"debug", "cpu:0", "configuration", 96},
		{"migration", "cpu:0", "configuration", 96},
		{"reserved-policy", "cpu:0", "configuration", 96},
		{"signature", "cpu:0", "hardware", 99},
		{"chain-impostor", "cpu:0", "hardware", 97},
		{"certificate-tcb", "cpu:0", "hardware", 99},
		{"revoked-ask", "cpu:0", "hardware", 96},
		{"report-short", "cpu:0", "hardware", 1},
		{"crl-missing", "cpu:0", "hardware", 0},
		{"certificate-chip", "cpu:0", "instance-identity", 97},
		{"contested", "set", "instance-identity", 96},
		{"possession", "node", "instance-identity", 99},
		{"seal-other-keys", "node", "instance-identity", 99},
		{"guest-other", "node", "executables", 33},
		{"guest-unlisted", "node", "executables", 0},
		{"gpu-devtools-on", "gpu:0", "configuration", 96},
		{"gpu-cc-off", "gpu:0", "runtime-opaque", 96},
		{"gpu-unsaid", "gpu:0", "runtime-opaque", 0},
		{"gpu-fwid-other", "gpu:0", "executables", 99},
		{"gpu-measurement-other", "gpu:0", "executables", 33},
		{"gpu-identity-other", "gpu:0", "instance-identity", 97},
		{"gpu-nonce-other", "gpu:0", "instance-identity", 99},
		{"gpu-two-measure-otherwise", "set", "executables", 33},
		{"gpu-two-modes", "set", "configuration", 96},
		{"gpu-two-nonces", "set", "instance-identity", 99},
		{"gpu-hgx-dropped", "set", "hardware", 97},
		{"bundle-gpu-hgx", "set", "hardware", 2},
		{"bundle-gpu-hgx", "switch:3", "executables", 3},
		{"bundle-gpu-hgx", "gpu:7", "runtime-opaque", 2},
	} {
		e := rendered(t, all[tc.name], builtin(t, "confidential-cpu")).ear(t)
		if got := e.Submods[tc.subject].Vector[tc.element]; got != tc.want {
			t.Errorf("%s: %s of %s is %d, want %d", tc.name, tc.element, tc.subject, got, tc.want)
		}
	}
}

// TestEARSpeaksOfEveryClaim: a claim of the catalogue that is contradicted shows in the vector, or stands in this list of
// claims whose value is for a policy to judge. A new format decides for each of its claims.
func TestEARSpeaksOfEveryClaim(t *testing.T) {
	forPolicies := []string{
		"nvidia.driver-rim", "nvidia.firmware", "nvidia.mode", "nvidia.vbios-rim", "set.count",
		"party.domain", "party.facility", "party.facility-audit", "party.identity", "party.jurisdiction", "party.legal-entity", "party.measured",
		"party.record-completion", "party.record-uptime", "party.tier", "party.witnessed",
		"sevsnp.committed-tcb", "sevsnp.host-data", "sevsnp.id-block", "sevsnp.launch-tcb", "sevsnp.measurement", "sevsnp.mitigations",
		"sevsnp.platform-info", "sevsnp.product", "sevsnp.tcb", "sevsnp.vmpl",
		"tdx.advisories", "tdx.collateral", "tdx.measurement", "tdx.mr-config", "tdx.tcb-date", "tdx.xfam", "time.bounds",
		"tpm.clock", "tpm.ek-encoding", "tpm.firmware", "tpm.selection",
	}
	all, _ := minted(t)
	r := rendered(t, all["bundle-milan-v3"], builtin(t, "confidential-cpu"))
	for _, def := range claim.Catalogue() {
		r.appraisal.Claims = claim.Set{{ID: def.ID, Subject: "x:0", Status: claim.Contradicted, Reason: "mismatch: for a test"}}
		v := r.ear(t).Submods["x:0"].Vector
		if listed := slices.Contains(forPolicies, def.ID); listed == (len(v) > 0) {
			t.Errorf("%s: vector %v, in the list: %v", def.ID, v, listed)
		}
	}
}

// TestEARWarning: an accept is a warning where a claim that the policy refuses is unknown.
func TestEARWarning(t *testing.T) {
	all, _ := minted(t)
	for _, tc := range []struct {
		name, refuse string
		want         verifier.Tier
	}{
		{"refused and known", "binding.*", verifier.TierAffirming},
		{"refused and unknown", "guest.measured", verifier.TierWarning},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: mine\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\nrefuse: ['"+tc.refuse+"']\n"))
			if err != nil {
				t.Fatal(err)
			}
			e := rendered(t, all["bundle-milan-v3"], p, func(k *attest.Case) { k.References = nil }).ear(t)
			if e.Verdict != policy.Accept || e.Status != tc.want {
				t.Errorf("%s is %s, want accept, %s", e.Verdict, e.Status, tc.want)
			}
		})
	}
}

// TestEARAges: evidence that has grown too old affirms nothing, and a result ends before it does.
func TestEARAges(t *testing.T) {
	all, _ := minted(t)
	r := rendered(t, all["bundle-milan-v3"], builtin(t, "confidential-cpu"))
	issued := r.facts.Challenge.Issued
	for _, tc := range []struct {
		name string
		at   canon.Time
		want verifier.Tier
		last canon.Time // that it may reach
	}{
		{"young", issued + 3600, verifier.TierAffirming, issued + 3600 + verifier.MaxEARLife},
		{"ending", issued + 24*3600 - 60, verifier.TierAffirming, issued + 24*3600},
		{"old", issued + 24*3600 + 1, verifier.TierContraindicated, issued + 24*3600 + 1 + verifier.MaxEARLife},
	} {
		r.facts.At = tc.at
		e := r.ear(t)
		if e.Status != tc.want || e.Expires <= e.IssuedAt || e.Expires > int64(tc.last) {
			t.Errorf("%s: %s until %s, want %s until %s at the latest", tc.name, e.Status, canon.Time(e.Expires), tc.want, tc.last)
		}
	}
}

// TestEARRefuses: parts that are not of each other are no result.
func TestEARRefuses(t *testing.T) {
	all, _ := minted(t)
	good := rendered(t, all["bundle-milan-v3"], builtin(t, "confidential-cpu"))
	other := rendered(t, all["bundle-turin-v5"], builtin(t, "genuine"))
	for _, tc := range []struct {
		name   string
		change func(*rendering)
		want   string
	}{
		{"other appraisal", func(r *rendering) { r.appraisal = other.appraisal }, "not of each other"},
		{"other evidence", func(r *rendering) { r.facts.Evidence = other.facts.Evidence }, "not of each other"},
		{"other policy", func(r *rendering) { r.facts.Policy = other.facts.Policy }, "another policy"},
		{"before the verdict", func(r *rendering) { r.facts.At-- }, "before its verdict"},
	} {
		r := good
		tc.change(&r)
		if _, err := verifier.NewEAR(r.appraisal, r.facts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
