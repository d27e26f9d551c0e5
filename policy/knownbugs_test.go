package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// Rows of known-bugs.md that a policy answers for: faults of other systems, which must not be ours.
func TestKnownBugs(t *testing.T) {
	only := func(t *testing.T, text string) policy.Advice {
		t.Helper()
		var errs []policy.Advice
		for _, a := range policy.Lint("p.yaml", []byte("type: assay/policy/v1\nname: test\n"+text)) {
			if a.Level == policy.LevelError {
				errs = append(errs, a)
			}
		}
		if len(errs) != 1 {
			t.Fatalf("%d errors: %+v", len(errs), errs)
		}
		return errs[0]
	}
	// A rule keyed with underscores never matched, and a good host was refused: the key is an error that names the right one.
	t.Run("L02", func(t *testing.T) {
		for text, want := range map[string]string{
			"require: [{claim: sevsnp.debug_off, of: cpu}]":                                                "nearest is sevsnp.debug-off",
			"require: [{claim: sevsnp.tcb, of: cpu}]\nrefuse: [az_snp.vtpm]":                               "unknown claim az_snp.vtpm",
			"require: [{claim: tpm.quotes, of: tpm}]":                                                      "nearest is tpm.quote",
			"require: [{claim: bundle.structure, of: node}, {claim: party.teir, of: party, is: attested}]": "nearest is party.tier",
		} {
			if a := only(t, text); a.Kind != policy.LintUnknown || !strings.Contains(a.Message, want) || a.Line < 3 {
				t.Errorf("%s: %+v, want %q", text, a, want)
			}
		}
	})
	// A bare number for a tier is an error that says the names.
	t.Run("L11", func(t *testing.T) {
		for _, text := range []string{"is: 2", `is: "2"`, "in: [attested, 3]", "min: 2"} {
			a := only(t, "require:\n- {claim: bundle.structure, of: node}\n- {claim: party.tier, of: party, "+text+"}")
			if a.Kind != policy.LintTierNumber || a.Line != 5 || !strings.Contains(a.Message, "use names: anonymous, identified, attested, attested-facility") {
				t.Errorf("%s: %+v", text, a)
			}
		}
		if a := only(t, "require: [{claim: bundle.structure, of: node}]\nmin_tier: 2"); a.Kind != policy.LintTierNumber || a.Line != 4 || !strings.Contains(a.Message, "tiers have names") {
			t.Errorf("min_tier: %+v", a)
		}
	})
	// No evidence, and evidence that does not verify, are two things with two codes.
	t.Run("U01", func(t *testing.T) {
		p := load(t, `require: [{claim: "*.structure", of: cpu}, {claim: sevsnp.signature, of: cpu}]`)
		none := policy.Decide(without("sevsnp", "set", "binding", "guest", "agent"), p, now)
		bad := policy.Decide(with(t, "sevsnp.signature", contradict), p, now)
		if none.Outcome != policy.Reject || none.Reasons[0].Code != "structure.evidence-missing" {
			t.Errorf("no evidence: %s %+v", none.Outcome, none.Reasons)
		}
		if bad.Outcome != policy.Reject || bad.Reasons[0].Code != "signature.mismatch" {
			t.Errorf("bad evidence: %s %+v", bad.Outcome, bad.Reasons)
		}
	})
	// A refusal is one sentence of what is missing, who can mend it and how; nothing nested.
	t.Run("U02", func(t *testing.T) {
		for _, name := range policy.Builtins() {
			v := policy.Decide(sound("tpm"), builtin(t, name), now)
			v.Reasons = append(v.Reasons, policy.Decide(nil, builtin(t, name), now).Reasons...)
			for _, r := range v.Reasons {
				if r.Fix == "" || r.Who == "" || strings.ContainsAny(r.Observed+r.Fix, "\n") || strings.Count(r.Observed, ": ") > 1 {
					t.Errorf("%s: %+v", name, r)
				}
			}
		}
	})
	// Whether a machine is confidential stands in its claims: what differs in nothing that they say gets the same answer.
	t.Run("U06", func(t *testing.T) {
		a, b := sound("sevsnp"), sound("sevsnp")
		for i := range b { // another machine: other values that no rule of the policy reads
			if slices.Contains([]string{"sevsnp.cert-chip-id", "sevsnp.host-data", "sevsnp.measurement"}, b[i].ID) {
				b[i].Value = "00"
			}
		}
		for _, name := range policy.Builtins() {
			x, errX := canon.Marshal(policy.Decide(a, builtin(t, name), now))
			y, errY := canon.Marshal(policy.Decide(b, builtin(t, name), now))
			if errX != nil || errY != nil || string(x) != string(y) {
				t.Errorf("%s: %s and %s", name, x, y)
			}
		}
		// And each of the claims that make it so is named when it is what fails.
		for _, id := range []string{"sevsnp.debug-off", "guest.measured"} {
			if v := policy.Decide(with(t, id, contradict), builtin(t, "confidential-cpu"), now); v.Outcome != policy.Reject || v.Reasons[0].Claim != id || v.Reasons[0].Status != claim.Contradicted {
				t.Errorf("%s: %+v", id, v)
			}
		}
	})
}

// Row 8 of what users ask: an unknown claim never satisfies a rule, in any policy, whatever it is unknown for.
func TestUnknownNeverSatisfies(t *testing.T) {
	for _, name := range policy.Builtins() {
		p := builtin(t, name)
		for _, of := range []string{"sevsnp.signature", "party.tier"} {
			for _, code := range []string{claim.NoExpectation, claim.Masked, claim.NotApplicable, claim.SelfAsserted, claim.Lapsed, claim.Contested} {
				v := policy.Decide(with(t, of, unknown(code)), p, now)
				if asked := claim.Room(of) != "party" || name == "regulated"; asked && v.Outcome == policy.Accept {
					t.Errorf("%s accepts %s unknown for %s", name, of, code)
				}
			}
		}
	}
}
