package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/policy"
)

func candidate(name string, claims claim.Set) policy.Candidate {
	return policy.Candidate{Host: name, Claims: claims, AsOf: now}
}

// Whoever is refused learns how many hosts match, which are nearest, and in what they differ.
func TestNearest(t *testing.T) {
	p := load(t, "require:\n- {claim: sevsnp.signature, of: cpu}\n- {claim: sevsnp.tcb, of: cpu, min: 'bl=4 snp=24 ucode=219'}\n- {claim: sevsnp.debug-off, of: cpu}\nrefuse: [set.*]")
	of := func(tcb string, changes ...string) claim.Set {
		s := altered(t, sound("sevsnp"), "sevsnp.tcb", value(tcb))
		for _, id := range changes {
			s = altered(t, s, id, contradict)
		}
		return s
	}
	old := candidate("old", of("bl=4 tee=0 snp=8 ucode=219"))
	good, better := of("bl=4 tee=0 snp=24 ucode=219"), of("bl=4 tee=0 snp=25 ucode=219", "sevsnp.migration-off")

	n := p.Nearest(old, []policy.Candidate{candidate("z", good), candidate("b", better), old, candidate("a", good), candidate("debug", of("bl=4 tee=0 snp=24 ucode=219", "sevsnp.debug-off"))})
	var names []string
	for _, x := range n.Nearest {
		names = append(names, x.Host)
		want := []policy.Difference{{Claim: "sevsnp.tcb", Subject: "cpu:0", Refused: "bl=4 tee=0 snp=8 ucode=219", Near: "bl=4 tee=0 snp=24 ucode=219"}}
		if x.Host == "b" {
			want[0].Near = "bl=4 tee=0 snp=25 ucode=219" // what no rule reads is no difference
		}
		if x.Verdict != policy.Accept || len(x.Fails) != 0 || !reflect.DeepEqual(x.Differs, want) {
			t.Errorf("%+v", x)
		}
	}
	if n.Hosts != 4 || n.Match != 3 || !slices.Equal(names, []string{"a", "b", "z"}) {
		t.Errorf("%d of %d match, nearest %q", n.Match, n.Hosts, names)
	}

	// None matches: those that fail the fewest rules, with the rules.
	n = p.Nearest(old, []policy.Candidate{candidate("two", of("bl=4 tee=0 snp=8 ucode=219", "sevsnp.debug-off")), candidate("one", of("bl=4 tee=0 snp=24 ucode=219", "sevsnp.debug-off")), candidate("three", nil)})
	if n.Match != 0 || n.Hosts != 3 || n.Nearest[0].Host != "one" || n.Nearest[1].Host != "two" || n.Nearest[2].Host != "three" {
		t.Errorf("%+v", n)
	}
	if got := n.Nearest[0]; !slices.Equal(got.Fails, []string{"require[2] sevsnp.debug-off"}) || got.Verdict != policy.Reject || got.Differs[0].Claim != "sevsnp.tcb" || got.Differs[1].Near != "contradicted (mismatch)" {
		t.Errorf("%+v", got)
	}
	// No other host: said, and nothing is made up.
	if n = p.Nearest(old, []policy.Candidate{old}); n.Hosts != 0 || n.Match != 0 || n.Nearest == nil || len(n.Nearest) != 0 {
		t.Errorf("%+v", n)
	}
}

// The answer is bounded and the same in whatever order hosts come.
func TestNearestIsBoundedAndDeterministic(t *testing.T) {
	p := builtin(t, "confidential-cpu")
	bad := sound("sevsnp")
	for i := range bad {
		if strings.HasPrefix(bad[i].ID, "sevsnp.") {
			contradict(&bad[i])
		}
	}
	var others []policy.Candidate
	for i := range 100 {
		others = append(others, candidate(fmt.Sprintf("host-%02d", i), sound("sevsnp")))
	}
	n := p.Nearest(candidate("bad", bad), others)
	slices.Reverse(others)
	if again := p.Nearest(candidate("bad", bad), others); !reflect.DeepEqual(n, again) {
		t.Errorf("%+v\n%+v", n, again)
	}
	if n.Match != 100 || len(n.Nearest) != policy.MaxNearest || n.Nearest[0].Host != "host-00" {
		t.Errorf("%d match, %d named", n.Match, len(n.Nearest))
	}
	for _, x := range n.Nearest {
		if len(x.Differs) != policy.MaxDiffers || x.More == 0 {
			t.Errorf("%d differences, %d more", len(x.Differs), x.More)
		}
	}
}

// A refusal has all that a person needs: code, sentence, observed, required, the policy's line, who can mend it and how.
func TestRefusalIsWhole(t *testing.T) {
	p := load(t, "require:\n- {claim: sevsnp.tcb, of: cpu, min: floors}\n- {claim: sevsnp.debug-off, of: cpu}\nrefuse: [set.*]")
	set := altered(t, with(t, "sevsnp.tcb", value("bl=0 tee=0 snp=0 ucode=0")), "sevsnp.debug-off", contradict)
	want := []string{"tcb.floor policy.yaml:4 sevsnp.tcb of cpu:0: it is below the floor of its product line", "debug-off.mismatch policy.yaml:5 sevsnp.debug-off of cpu:0: two values that must be equal are not"}
	for i, r := range p.Refusals(policy.Decide(set, p, now)) {
		if got := r.Code + " " + r.Place + " " + r.Sentence; got != want[i] || r.Observed == "" || r.Required == "" || r.Fix == "" || r.Who == "" {
			t.Errorf("%s\n%+v", got, r)
		}
	}
}
