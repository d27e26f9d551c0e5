package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// said returns a claim of the party by an issuer.
func said(id, by, word string) claim.Claim {
	return claim.Claim{ID: id, Subject: claim.SubjectParty, Status: claim.Affirmed, Value: word, Issuer: by,
		Basis: []string{claim.IssuerGround + by}, From: now - 1000, Until: now + 1000}
}

// withParty returns the good claims of the evidence, and of the party these alone.
func withParty(claims ...claim.Claim) claim.Set { return append(without("party"), claims...) }

func TestPartyRulesStayOpen(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.signature, of: cpu}, {claim: party.tier, of: party, is: attested-facility}]")
	v := policy.Decide(without("party"), p, now)
	expect(t, v, policy.Accept)
	if v.Scope != policy.ScopeEvidence || !slices.Equal(v.Open, []string{"require[1] party.tier"}) {
		t.Errorf("scope %s, open %q", v.Scope, v.Open)
	}
	v = policy.Decide(goodSet(), p, now)
	expect(t, v, policy.Accept)
	if v.Scope != policy.ScopeFull || v.Open != nil {
		t.Errorf("scope %s, open %q", v.Scope, v.Open)
	}
	v = policy.Decide(without("party"), load(t, "require: [{claim: sevsnp.signature, of: cpu}]"), now)
	if v.Scope != policy.ScopeFull || v.Open != nil {
		t.Errorf("scope %s, open %q", v.Scope, v.Open)
	}
}

// Whose word about the party counts, and what becomes of the others'.
func TestIssuers(t *testing.T) {
	const rule = "require: [{claim: sevsnp.signature, of: cpu}, {claim: party.jurisdiction, of: party, in: [DE, FR]}]"
	anyone, named := load(t, rule), load(t, "issuers: [register.example, auditor.example]\n"+rule)
	mute := func(c claim.Claim, code string) claim.Claim {
		c.Status, c.Reason = claim.Unknown, claim.Because(code, "twin")
		return c
	}
	past := func(c claim.Claim) claim.Claim {
		c.Until = now - 1
		return c
	}
	against := func(c claim.Claim) claim.Claim {
		c.Status, c.Reason = claim.Contradicted, claim.Because(claim.Mismatch, "round-trip times say otherwise")
		return c
	}
	unnamed := said("party.jurisdiction", "gpu.example", "DE")
	unnamed.Basis = nil
	drawn := claim.Claim{ID: "party.tier", Subject: "party", Status: claim.Affirmed, Value: "attested", Issuer: claim.Verifier, Basis: []string{"party.jurisdiction"}}
	tier := load(t, "issuers: [register.example]\nrequire: [{claim: sevsnp.signature, of: cpu}, {claim: party.tier, of: party, is: attested}]")
	de := said("party.jurisdiction", "register.example", "DE")
	for _, c := range []struct {
		name    string
		p       *policy.Policy
		claims  []claim.Claim
		outcome policy.Outcome
		code    string // of the one reason
	}{
		{"an issuer's word", anyone, []claim.Claim{de}, policy.Accept, ""},
		{"a listed issuer's word", named, []claim.Claim{de}, policy.Accept, ""},
		{"another country", anyone, []claim.Claim{said("party.jurisdiction", "register.example", "US")}, policy.Reject, "party.value"},
		{"an issuer that is not listed", named, []claim.Claim{said("party.jurisdiction", "stranger.example", "DE")}, policy.Undecided, "party.other-issuer"},
		{"one that is not listed says otherwise", named, []claim.Claim{de, said("party.jurisdiction", "stranger.example", "US")}, policy.Accept, ""},
		{"two issuers differ", anyone, []claim.Claim{de, said("party.jurisdiction", "auditor.example", "US")}, policy.Reject, "party.value"},
		{"two issuers differ, both allowed", anyone, []claim.Claim{de, said("party.jurisdiction", "auditor.example", "FR")}, policy.Accept, ""},
		{"no issuer named", anyone, []claim.Claim{unnamed}, policy.Undecided, "party.self-asserted"},
		{"the provider's own word", anyone, []claim.Claim{mute(unnamed, claim.SelfAsserted)}, policy.Undecided, "party.self-asserted"},
		{"the provider's own word beside an issuer's", anyone, []claim.Claim{mute(unnamed, claim.SelfAsserted), de}, policy.Accept, ""},
		{"lapsed", anyone, []claim.Claim{past(de)}, policy.Undecided, "party.lapsed"},
		{"lapsed, by the register's word", anyone, []claim.Claim{mute(de, claim.Lapsed)}, policy.Undecided, "party.lapsed"},
		{"lapsed, and another's is not", anyone, []claim.Claim{past(de), said("party.jurisdiction", "auditor.example", "DE")}, policy.Accept, ""},
		{"contradicted by another", anyone, []claim.Claim{de, against(said("party.jurisdiction", "probe.example", ""))}, policy.Reject, "party.mismatch"},
		{"only the provider can give it", anyone, []claim.Claim{mute(de, claim.EvidenceMissing)}, policy.Reject, "party.evidence-missing"},
		{"nothing said of it", anyone, []claim.Claim{said("party.identity", "register.example", "contact")}, policy.Undecided, "party.not-appraised"},
		{"a tier that is drawn from a listed word", tier, []claim.Claim{de, drawn}, policy.Accept, ""},
		{"a tier that is drawn from another's word", tier, []claim.Claim{said("party.jurisdiction", "stranger.example", "DE"), drawn}, policy.Undecided, "party.other-issuer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := policy.Decide(withParty(c.claims...), c.p, now)
			var claims []string
			if c.code != "" {
				claims = []string{"party.jurisdiction"}
			}
			expect(t, v, c.outcome, claims...)
			if c.code != "" && (v.Reasons[0].Code != c.code || v.Reasons[0].Subject != "party") {
				t.Errorf("reason %+v, want code %s", v.Reasons[0], c.code)
			}
			if v.Scope != policy.ScopeFull {
				t.Errorf("scope %s", v.Scope)
			}
		})
	}
}

// The value twins of regulated: proven, and not good enough.
func TestRegulatedValues(t *testing.T) {
	p := builtin(t, "regulated")
	old := func(id string, age canon.Time) func(*claim.Claim) { return func(c *claim.Claim) { c.From = now - age } }
	for _, c := range []struct {
		id     string
		change func(*claim.Claim)
		code   string
	}{
		{"party.tier", value("attested"), "party.value"},
		{"party.identity", value("contact"), "party.value"},
		{"party.legal-entity", func(c *claim.Claim) { c.Basis = nil }, "party.self-asserted"},
		{"party.jurisdiction", func(c *claim.Claim) { c.Basis = nil }, "party.self-asserted"},
		{"sevsnp.freshness", old("sevsnp.freshness", 15*60+1), "freshness.age"},
		{"nvidia.freshness@gpu:0", old("nvidia.freshness", 15*60+1), "freshness.age"},
		{"sevsnp.tcb", value("bl=4 tee=0 snp=23 ucode=219"), "tcb.floor"},
		{"sevsnp.vmpl", value("1"), "vmpl.value"},
		{"sevsnp.platform-info", value("ecc"), "platform-info.least"},
		{"nvidia.cc-mode@gpu:0", value("off"), "cc-mode.value"},
	} {
		id, _, _ := strings.Cut(c.id, "@")
		v := policy.Decide(altered(t, sound("sevsnp", oneGPU), c.id, c.change), p, now)
		if v.Outcome == policy.Accept || len(v.Reasons) != 1 || v.Reasons[0].Claim != id || v.Reasons[0].Code != c.code {
			t.Errorf("%s: %s %+v, want code %s", c.id, v.Outcome, v.Reasons, c.code)
		}
	}
	for id, change := range map[string]func(*claim.Claim){
		"sevsnp.freshness":   old("", 15*60),
		"party.jurisdiction": value("US"),
		"party.legal-entity": value("LEI:529900T8BM49AURSDO55"),
	} {
		expect(t, policy.Decide(altered(t, sound("sevsnp", oneGPU), id, change), p, now), policy.Accept)
	}
}

// A policy of another release may ask for claims of the party that this build does not know: a log that has it can still be
// read, and such a rule is never met.
func TestLoggedPolicyWithUnknownPartyClaims(t *testing.T) {
	for _, rule := range []string{`{"claim":"facility.tier","is":"gold","of":"party"}`, `{"claim":"party.tier","is":"gold","of":"party"}`} {
		p, err := policy.ParseCanonical([]byte(`{"name":"test","require":[{"claim":"sevsnp.signature","of":"cpu"},` + rule + `],"type":"assay/policy/v1"}`))
		if err != nil {
			t.Fatal(err)
		}
		if v := policy.Decide(goodSet(), p, now); v.Outcome == policy.Accept {
			t.Errorf("%s: %s", rule, v.Outcome)
		}
		if v := policy.Decide(without("party"), p, now); v.Scope != policy.ScopeEvidence {
			t.Errorf("%s: scope %s", rule, v.Scope)
		}
	}
}
