package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// accepted is a log with one accepted verdict.
func accepted(t testing.TB) *service {
	s := newService(t, "honest")
	if v := s.serve(newHost("good", sevsnp.PolicySMT)); v.Outcome != policy.Accept {
		t.Fatalf("%s %+v", v.Outcome, v.Reasons)
	}
	s.publish()
	return s
}

// result returns the trial of one alteration.
func trial(t testing.TB, r audit.ChallengeReport, alteration string) audit.Trial {
	t.Helper()
	i := slices.IndexFunc(r.Trials, func(x audit.Trial) bool { return x.Alteration == alteration })
	if i < 0 {
		t.Fatalf("no trial of %s\n%s", alteration, r.Text())
	}
	return r.Trials[i]
}

// alterations are all that a challenge does to one verdict.
var alterations = []string{
	"control", "evidence-signed-bit", "evidence-unsigned-bit", "evidence-covered-bit", "session-signature-bit", "stored-bit", "collateral-dropped", "collateral-bit",
	"reference-value", "policy-rule", "time-just-before", "time-just-after", "time-long-before", "time-long-after", "expected-challenge", "verdict-signature-bit", "verdict-outcome",
}

// TestChallengePasses: of an accepted verdict, every alteration but that of an unread GUID is refused, and nothing passes
// where it must not, whatever the seed.
func TestChallengePasses(t *testing.T) {
	s := accepted(t)
	g := reading(t, s.log)
	var first audit.ChallengeReport
	for seed := range int64(20) {
		r, err := g.Challenge(t.Context(), seed, 1)
		s.must(err)
		if seed == 0 {
			first = r
		}
		if r.Outcome != audit.Equal {
			t.Errorf("seed %d\n%s", seed, r.Text())
		}
		var names []string
		for _, x := range r.Trials {
			names = append(names, x.Alteration)
			want := audit.TrialRefused
			if x.Alteration == "control" {
				want = audit.TrialEqual
			}
			if x.Result != want {
				t.Errorf("seed %d, %s: %s, want %s: %s", seed, x.Alteration, x.Result, want, x.What)
			}
			if x.Result == audit.TrialRefused && x.After == "accept" && x.Alteration != "stored-bit" {
				t.Errorf("seed %d, %s: refused and accept", seed, x.Alteration)
			}
		}
		if !slices.Equal(names, alterations) {
			t.Errorf("seed %d: alterations %q", seed, names)
		}
	}
	again, err := reading(t, s.log).Challenge(t.Context(), 0, 1)
	s.must(err)
	if !bytes.Equal(s.bytes(first), s.bytes(again)) {
		t.Error("one seed gives two reports")
	}
	other, err := g.Challenge(t.Context(), 1, 1)
	s.must(err)
	if trial(t, other, "evidence-signed-bit").Where == trial(t, first, "evidence-signed-bit").Where {
		t.Error("two seeds alter the same bit")
	}
}

// TestChallengeAllows: what no policy asks for may change and the verdict rightly stays.
func TestChallengeAllows(t *testing.T) {
	s := newService(t, "honest")
	p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: signed\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\n"))
	s.must(err)
	s.policy = p
	s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(p.Canonical()))
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	r, err := reading(t, s.log).Challenge(t.Context(), 3, 1)
	s.must(err)
	if r.Outcome != audit.Equal {
		t.Errorf("%s", r.Text())
	}
	for _, name := range []string{"session-signature-bit", "evidence-unsigned-bit", "expected-challenge"} {
		if x := trial(t, r, name); x.Result != audit.TrialRefused || x.After != "accept" || !strings.Contains(x.What, "the policy does not ask for them") {
			t.Errorf("%+v", x)
		}
	}
	if x := trial(t, r, "evidence-signed-bit"); x.After == "accept" {
		t.Errorf("%+v", x)
	}
	if x := trial(t, r, "time-just-after"); x.Result != audit.TrialRefused { // the chain lapses
		t.Errorf("%+v", x)
	}
}

// TestChallengeOfRefusedVerdicts: verdicts that accept nothing are challenged as well, and nothing is asked of them that
// they never affirmed.
func TestChallengeOfRefusedVerdicts(t *testing.T) {
	s := busy(t, 1)
	for seed := range int64(5) {
		r, err := reading(t, s.log).Challenge(t.Context(), seed, 9)
		s.must(err)
		if r.Outcome != audit.Equal || len(r.Trials) < 3*12 {
			t.Errorf("%s", r.Text())
		}
	}
}

// TestChallengeFindsLaxRules: rules that let one alteration through are found, and by that alteration. Each row is the
// twin of a row of TestChallengePasses.
func TestChallengeFindsLaxRules(t *testing.T) {
	s := accepted(t)
	g := reading(t, s.log)
	honest := verifier.Appraise
	// keeps affirms a claim whatever the inputs say.
	keeps := func(id, subject string) func(*verifier.Opened, attest.Case) verifier.Appraisal {
		return func(o *verifier.Opened, c attest.Case) verifier.Appraisal {
			a := honest(o, c)
			if x := a.Claims.Find(id, subject); x != nil {
				x.Status, x.Reason = claim.Affirmed, ""
			}
			return a
		}
	}
	acceptAll := func(c claim.Set, p *policy.Policy, at canon.Time) policy.Verdict {
		v := policy.Decide(c, p, at)
		v.Outcome, v.Reasons = policy.Accept, []policy.Reason{}
		return v
	}
	for _, row := range []struct {
		name, alteration string
		appraise         func(*verifier.Opened, attest.Case) verifier.Appraisal
		decide           func(claim.Set, *policy.Policy, canon.Time) policy.Verdict
	}{
		{"signature not checked", "evidence-signed-bit", keeps("sevsnp.signature", "cpu:0"), nil},
		{"session signature not checked", "session-signature-bit", keeps("binding.possession", "node"), nil},
		{"session signature not checked", "evidence-unsigned-bit", keeps("binding.possession", "node"), nil},
		{"seal not compared", "evidence-covered-bit", keeps("binding.seal", "node"), nil},
		{"challenge not compared", "expected-challenge", keeps("sevsnp.freshness", "cpu:0"), nil},
		{"revocation not needed", "collateral-dropped", keeps("sevsnp.revocation", "cpu:0"), nil},
		{"list's signature not checked", "collateral-bit", keeps("sevsnp.revocation", "cpu:0"), nil},
		{"guest known without a value", "reference-value", keeps("guest.measured", "node"), nil},
		{"signed evidence does not count", "evidence-signed-bit", nil, acceptAll},
		{"rules do not count", "policy-rule", nil, acceptAll},
		{"spans do not count", "time-just-before", nil, acceptAll},
		{"spans do not count", "time-just-after", nil, acceptAll},
		{"spans do not count", "time-long-before", nil, acceptAll},
		{"spans do not count", "time-long-after", nil, acceptAll},
	} {
		t.Run(row.name+"/"+row.alteration, func(t *testing.T) {
			appraise, decide := row.appraise, row.decide
			if appraise == nil {
				appraise = honest
			}
			if decide == nil {
				decide = policy.Decide
			}
			var r audit.ChallengeReport
			for seed := range int64(10) { // some draws alter what is refused for another reason, such as a version
				var err error
				r, err = g.ChallengeWith(t.Context(), seed, 1, appraise, decide)
				s.must(err)
				if trial(t, r, row.alteration).Result == audit.TrialAccepted {
					break
				}
			}
			if x := trial(t, r, row.alteration); r.Outcome != audit.Faulty || r.Outcome.ExitCode() != 1 || x.Result != audit.TrialAccepted {
				t.Errorf("%s %+v", r.Outcome, x)
			}
			if x := trial(t, r, "control"); x.Result != audit.TrialEqual {
				t.Errorf("%+v", x)
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		r, err := g.ChallengeWith(t.Context(), 1, 1, func(o *verifier.Opened, c attest.Case) verifier.Appraisal { panic("broken") }, policy.Decide)
		s.must(err)
		if x := trial(t, r, "control"); r.Outcome != audit.Faulty || x.Result != audit.TrialDiffers {
			t.Errorf("%s %+v", r.Outcome, x)
		}
	})
}

// TestChallengeFindsCollateralThatSaysMore: where another list is at hand, an altered one may be left out, and may not say
// anything that neither it nor its absence said.
func TestChallengeFindsCollateralThatSaysMore(t *testing.T) {
	s := newService(t, "honest")
	this := t0.Time().AddDate(0, 0, -2)
	second := attest.Collateral{Kind: attest.KindAMDCRL, Data: amd().CRL(this, this.AddDate(0, 2, 0))}
	s.collateral = append(s.collateral, second)
	s.append(ledger.KindCollateral, ledger.StreamServer, s.put(ledger.Collateral{
		Type: ledger.CollateralType, Kind: second.Kind, Data: s.putBytes(second.Data), Source: "https://example.test/", Fetched: s.now}))
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	g := reading(t, s.log)
	lax := func(o *verifier.Opened, c attest.Case) verifier.Appraisal {
		a := verifier.Appraise(o, c)
		known := func(i attest.Collateral) bool {
			return slices.ContainsFunc(s.collateral, func(l attest.Collateral) bool { return l.Digest() == i.Digest() })
		}
		if slices.ContainsFunc(c.Collateral, func(i attest.Collateral) bool { return i.Kind == attest.KindAMDCRL && !known(i) }) {
			a.Claims.Find("sevsnp.revocation", "cpu:0").Until++
		}
		return a
	}
	found := false
	for seed := range int64(10) {
		honest, err := g.Challenge(t.Context(), seed, 1)
		s.must(err)
		if honest.Outcome != audit.Equal {
			t.Errorf("%s", honest.Text())
		}
		r, err := g.ChallengeWith(t.Context(), seed, 1, lax, policy.Decide)
		s.must(err)
		if x := trial(t, r, "collateral-bit"); strings.HasPrefix(x.Where, attest.KindAMDCRL) {
			found = true
			if x.Result != audit.TrialAccepted || !strings.Contains(x.What, "which neither the logged one nor its absence does") {
				t.Errorf("%+v", x)
			}
		}
	}
	if !found {
		t.Error("no seed altered a list")
	}
}

// TestChallengeOfNothing: a log without verdicts challenges nobody, which is no pass.
func TestChallengeOfNothing(t *testing.T) {
	s := newService(t, "honest")
	s.publish()
	r, err := reading(t, s.log).Challenge(t.Context(), 1, 3)
	s.must(err)
	if r.Outcome != audit.NotAnchored || r.Outcome.ExitCode() != 3 {
		t.Errorf("%s", r.Text())
	}
}
