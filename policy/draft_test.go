package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/policy"
)

// Every policy that the questions can lead to loads, is linted without an error or a warning, passes the tests that are
// written beside it, and these refuse once for every rule.
func TestDraft(t *testing.T) {
	for _, class := range policy.DataClasses {
		for _, tee := range policy.TEEs {
			for _, gpus := range []int{0, 1, 8} {
				for _, countries := range [][]string{nil, {"DE", "NO"}} {
					for _, issuers := range [][]string{nil, {"register.example", "auditor.example"}} {
						a := policy.Answers{Name: "mine", DataClass: class, Countries: countries, TEE: tee, GPUs: gpus, MaxAge: class.DefaultMaxAge(), Issuers: issuers}
						t.Run(fmt.Sprint(class, tee, gpus, len(countries), len(issuers)), func(t *testing.T) { testDraft(t, a) })
					}
				}
			}
		}
	}
}

func testDraft(t *testing.T, a policy.Answers) {
	text, err := policy.Draft(a)
	if class := a.DataClass; class == policy.DataPublic && a.Countries == nil && a.Issuers != nil {
		if err == nil || !strings.Contains(err.Error(), "issuers: nothing that this policy asks is anybody's to vouch for") {
			t.Errorf("issuers that nothing reads: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, advice := range policy.Lint("mine.yaml", text) {
		if advice.Level != policy.LevelNote {
			t.Errorf("lint: %+v", advice)
		}
	}
	p, err := policy.Load("mine.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := policy.ParseTests("mine.tests.yaml", p.Example(now).YAML())
	if err != nil {
		t.Fatal(err)
	}
	refusals := map[string]bool{}
	for i, r := range tests.Run(p) {
		if !r.Pass {
			t.Errorf("%s: %s", r.Name, r.Because)
		}
		if r.Want == policy.Reject {
			refusals[tests.Tests[i].Because[0]] = true
		}
	}
	for _, r := range p.Document().Require {
		id := strings.NewReplacer("*.structure", "").Replace(r.Claim)
		if id != "" && !refusals[id] {
			t.Errorf("no test refuses for %s", r.Claim)
		}
	}
	// A policy that lets everything pass fails the tests: they are tests.
	loose := load(t, "require: [{claim: bundle.structure, of: node}]")
	failed := 0
	for _, r := range tests.Run(loose) {
		if !r.Pass {
			failed++
		}
	}
	if failed < len(p.Document().Require)/2 {
		t.Errorf("a policy that asks nothing fails %d of %d tests", failed, len(tests.Tests))
	}
}

// A bundle has place for so many GPUs beside its CPU and the agent's statement.
func TestDraftIsBounded(t *testing.T) {
	a := policy.Answers{Name: "mine", DataClass: policy.DataPublic, TEE: policy.TEETDX, GPUs: policy.MaxGPUs, MaxAge: 60}
	if _, err := policy.Draft(a); err != nil {
		t.Error(err)
	}
	a.GPUs++
	if _, err := policy.Draft(a); err == nil || err.Error() != "31 GPUs: want 0 to 30" {
		t.Errorf("one GPU more: %v", err)
	}
}

// Whose word counts is asked where the policy does not say.
func TestLintAsksForIssuers(t *testing.T) {
	const text = "type: assay/policy/v1\nname: test\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party}]\n"
	asked := func(text string) bool {
		return slices.ContainsFunc(policy.Lint("p.yaml", []byte(text)), func(a policy.Advice) bool { return a.Kind == policy.LintAnyIssuer })
	}
	if !asked(text) || asked(text+"issuers: [a.example]\n") {
		t.Error("want a note where issuers are not listed, and none where they are")
	}
}

// The example of any policy of one's own passes, whatever its operators.
func TestExampleOfAnyPolicy(t *testing.T) {
	for _, rules := range []string{
		"require: [{claim: sevsnp.tcb, of: cpu, min: bl=1 snp=2}, {claim: sevsnp.vmpl, of: cpu, min: 1}, {claim: sevsnp.platform-info, of: cpu, min: ecc alias-check}]",
		"require: [{claim: sevsnp.tcb, of: cpu, min: snp=0, count: 2}, {claim: sevsnp.vmpl, of: cpu, in: [0, 1, 2]}, {claim: sevsnp.host-data, of: cpu, is: \"" + hostData + "\"}]",
		"references: [" + digestText + "]\nrequire: [{claim: guest.measured, of: node}, {claim: \"*.freshness\", of: device, max-age: 30s}]",
		"require: [{claim: \"*.debug-off\", of: cpu}, {claim: tpm.quote, of: tpm}, {claim: set.count, of: set}]\nrefuse: [\"*.revocation\", set.*]",
		"require: [{claim: tdx.collateral, of: cpu, min: 18}, {claim: party.record-uptime, of: party, min: 990}]",
	} {
		p := load(t, rules)
		tests, err := policy.ParseTests("t.yaml", p.Example(now).YAML())
		if err != nil {
			t.Fatalf("%s: %v\n%s", rules, err, p.Example(now).YAML())
		}
		for _, r := range tests.Run(p) {
			if !r.Pass {
				t.Errorf("%s: %s: %s", rules, r.Name, r.Because)
			}
		}
	}
}

// FuzzParseTests holds that a file of tests is refused with a place or runs, by any policy.
func FuzzParseTests(f *testing.F) {
	p, _ := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: test\nrequire: [{claim: sevsnp.tcb, of: cpu, min: floors}, {claim: party.tier, of: party, is: attested}]"))
	f.Add("t.yaml", p.Example(now).YAML())
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		tests, err := policy.ParseTests(name, data)
		if err != nil {
			var errs doc.Errors
			if !errors.As(err, &errs) || errs[0].Line < 1 || errs[0].Column < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		if got := tests.Run(p); len(got) != len(tests.Tests) {
			t.Fatalf("%d results of %d tests", len(got), len(tests.Tests))
		}
	})
}

// A trace judges each line alone, and agrees with the decision.
func TestTrace(t *testing.T) {
	p := load(t, `require:
  - {claim: sevsnp.signature, of: cpu}
  - {claim: sevsnp.vmpl, of: cpu, is: 1}
  - {claim: sevsnp.tcb, of: cpu, min: floors}
  - {claim: party.tier, of: party, is: attested}
refuse: [binding.*]`)
	s := append(without("party", "binding"), claim.Claim{ID: "binding.seal", Subject: "node", Status: claim.Contradicted, Reason: "mismatch: twin", Issuer: claim.Verifier, Basis: []string{}})
	var got []string
	for _, j := range p.Trace(s, now) {
		state := j.Outcome.String()
		if j.Open {
			state = "open"
		}
		got = append(got, j.Place+" "+j.Label+" "+state)
	}
	want := []string{
		"policy.yaml:4 require[0] sevsnp.signature accept", "policy.yaml:5 require[1] sevsnp.vmpl reject", "policy.yaml:6 require[2] sevsnp.tcb accept",
		"policy.yaml:7 require[3] party.tier open", "policy.yaml:8 refuse[0] binding.* reject",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for word, lines := range map[string]int{"require[1]": 1, "sevsnp.vmpl": 1, "vmpl": 1, "tcb": 1, "refuse[0]": 1, "binding.*": 1, "tbc": 0} {
		looser, n := p.Relax(word)
		if n != lines || len(looser.Trace(s, now)) != len(want)-lines {
			t.Errorf("relax %s: %d lines", word, n)
		}
	}
}
