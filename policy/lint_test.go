package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// small is a claim whose every state can be tried, and values that rules over it may name, of which some are no claim's.
type small struct {
	id, subject string
	values      []string // that it can have when it is affirmed
	named       []string // that rules name
	min         []string
	ages        []string
}

var smalls = []small{
	{"sevsnp.vmpl", "cpu:0", []string{"0", "1", "2", "3"}, []string{"-1", "0", "1", "2", "3", "4"}, []string{"-5", "0", "1", "3", "4"}, nil},
	{"sevsnp.product", "cpu:0", []string{"Milan", "Genoa", "Turin"}, []string{"Milan", "Genoa", "Turin", "milan"}, nil, nil},
	{"sevsnp.platform-info", "cpu:0", []string{"", "ecc", "tsme", "ecc tsme"}, nil, []string{"ecc", "ecc tsme", "eec"}, nil},
	{"sevsnp.debug-off", "cpu:0", []string{""}, nil, nil, []string{"1h"}},
	{"sevsnp.freshness", "cpu:0", []string{"aa"}, nil, nil, []string{"1h", "2h"}},
	{"guest.measured", "node", []string{"tee", "paravisor", "host-vtpm", "tpm"}, []string{"tee", "paravisor", "host-vtpm", "tpm", "tea"}, nil, nil},
	{"party.tier", "party", claim.Tiers, claim.Tiers, nil, nil},
	{"party.record-uptime", "party", []string{"0", "999", "1000"}, []string{"0", "999", "1000", "1001"}, []string{"999", "1000", "1001"}, nil},
}

// rule writes a random rule over the claim.
func (s small) rule(r *rand.Rand) string {
	var operators []string
	if n := len(s.named); n > 0 {
		in := slices.Clone(s.named)
		r.Shuffle(n, func(i, j int) { in[i], in[j] = in[j], in[i] })
		is := in[0]
		in = slices.DeleteFunc(in, func(v string) bool { return !slices.Contains(s.values, v) }) // of several each must be one that there is
		operators = append(operators, ", in: ["+strings.Join(in[:1+r.IntN(min(len(in), 3))], ", ")+"]", ", is: "+is)
	}
	for _, m := range s.min {
		operators = append(operators, ", min: "+m)
	}
	for _, a := range s.ages {
		operators = append(operators, ", max-age: "+a)
	}
	operators = append(operators, "")
	return fmt.Sprintf("  - {claim: %s, of: %s%s}\n", s.id, claim.Class(s.subject), operators[r.IntN(len(operators))])
}

// states lists everything that can be claimed of it: nothing, unknown, contradicted, and each value; what can say since when
// does, of now and of long ago.
func (s small) states() (all []claim.Set) {
	c := claim.Claim{ID: s.id, Subject: s.subject, Issuer: claim.Verifier, Basis: []string{}}
	one := func(status claim.Status, value string, from canon.Time) {
		c.Status, c.Value, c.From, c.Reason = status, value, from, ""
		if status != claim.Affirmed {
			c.Reason = claim.Because(claim.Mismatch, "by the test")
		}
		all = append(all, claim.Set{c})
	}
	all = append(all, nil)
	one(claim.Unknown, "", 0)
	one(claim.Contradicted, "", 0)
	for _, v := range s.values {
		one(claim.Affirmed, v, 0)
		if s.id == "sevsnp.freshness" {
			one(claim.Affirmed, v, now)
			one(claim.Affirmed, v, now-5400)
		}
	}
	return all
}

// accepted reports whether a policy accepts any set of claims that takes one of each list, all rules decided.
func accepted(p *policy.Policy, set claim.Set, lists [][]claim.Set) bool {
	if len(lists) == 0 {
		v := policy.Decide(set, p, now)
		return v.Outcome == policy.Accept && v.Open == nil
	}
	return slices.ContainsFunc(lists[0], func(s claim.Set) bool { return accepted(p, append(slices.Clone(set), s...), lists[1:]) })
}

// Lint refuses a policy as one that no machine meets exactly if none does: of small random policies every set of claims that
// an appraisal can make is tried. Beyond that it refuses a value that no claim has where it stands among others, a slip that
// costs hosts: [TestLoadRefusals] has those.
func TestLintRefusesWhatNoMachineMeets(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	met, unmet := 0, 0
	for range 1500 {
		chosen := slices.Clone(smalls)
		r.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:1+r.IntN(2)]
		text := "type: assay/policy/v1\nname: test\nrequire:\n  - {claim: sevsnp.structure, of: cpu}\n"
		for range 1 + r.IntN(4) {
			text += chosen[r.IntN(len(chosen))].rule(r)
		}
		if r.IntN(2) == 0 {
			text += "refuse: [" + chosen[0].id + "]\n"
		}
		lists := [][]claim.Set{{{{ID: "sevsnp.structure", Subject: "cpu:0", Status: claim.Affirmed, Issuer: claim.Verifier, Basis: []string{}}}}}
		for _, s := range chosen {
			lists = append(lists, s.states())
		}
		agrees(t, text, func(p *policy.Policy) bool { return accepted(p, nil, lists) }, &met, &unmet)
	}
	if met < 200 || unmet < 200 {
		t.Errorf("%d policies that a machine meets and %d that none does: too few of a kind", met, unmet)
	}
}

// Nor do two kinds of CPU TEE stand in one machine whose seal holds.
func TestLintRefusesTwoSeals(t *testing.T) {
	affirmed := func(subject string, ids ...string) (s claim.Set) {
		for _, id := range ids {
			s = append(s, claim.Claim{ID: id, Subject: subject, Status: claim.Affirmed, Issuer: claim.Verifier, Basis: []string{}})
		}
		return s
	}
	cpus := map[string][]string{
		"sevsnp": {"sevsnp.structure", "sevsnp.chain", "sevsnp.tcb"}, "tdx": {"tdx.structure", "tdx.chain", "tdx.seam"},
		"azure": {"azure.structure", "azure.report-fresh", "sevsnp.structure", "sevsnp.chain", "sevsnp.tcb"}, "azure-tdx": {"azure.structure", "azure.report-fresh", "tdx.structure", "tdx.chain", "tdx.seam"},
	}
	var machines []claim.Set
	for _, kinds := range [][]string{{}, {"sevsnp"}, {"tdx"}, {"azure"}, {"azure-tdx"}, {"sevsnp", "tdx"}, {"tdx", "azure"}, {"sevsnp", "sevsnp"}, {"tdx", "tdx"}, {"tdx", "tdx", "azure"}} {
		set := affirmed("node", "binding.seal")
		if len(kinds) > 1 { // verifier: second-seal
			set[0].Status, set[0].Reason = claim.Contradicted, "second-seal: by the test"
		}
		for i, k := range kinds {
			set = append(set, affirmed(fmt.Sprintf("cpu:%d", i), cpus[k]...)...)
		}
		machines = append(machines, append(set, affirmed("tpm:0", "tpm.structure", "tpm.quote")...))
	}
	rules := []string{"sevsnp.tcb, of: cpu", "sevsnp.chain, of: device", "tdx.seam, of: cpu", "azure.report-fresh, of: cpu", `"*.chain", of: cpu`, `"*.chain", of: cpu, count: 2`, "tdx.seam, of: device, count: 2", "tpm.quote, of: tpm"}
	r := rand.New(rand.NewPCG(6, 2))
	met, unmet := 0, 0
	for range 500 {
		text := "type: assay/policy/v1\nname: test\nrequire:\n"
		for range 1 + r.IntN(4) {
			text += "  - {claim: " + rules[r.IntN(len(rules))] + "}\n"
		}
		text += []string{"  - {claim: binding.seal, of: node}\n", "refuse: [binding.seal]\n", "refuse: [binding.*]\n", "refuse: [set.*]\n"}[r.IntN(4)]
		agrees(t, text, func(p *policy.Policy) bool {
			return slices.ContainsFunc(machines, func(m claim.Set) bool { return policy.Decide(m, p, now).Outcome == policy.Accept })
		}, &met, &unmet)
	}
	if met < 100 || unmet < 100 {
		t.Errorf("%d policies that a machine meets and %d that none does: too few of a kind", met, unmet)
	}
}

// agrees compares what lint says of a policy with whether some machine meets it.
func agrees(t *testing.T, text string, meets func(*policy.Policy) bool, met, unmet *int) {
	t.Helper()
	p, ok := policy.Unlinted([]byte(text))
	if !ok {
		t.Fatalf("not a policy but for lint:\n%s", text)
	}
	said := ""
	for _, a := range policy.Lint("p.yaml", []byte(text)) {
		if a.Level != policy.LevelError {
			continue
		}
		if a.Kind != policy.LintUnsatisfiable && a.Kind != policy.LintContradictory {
			t.Errorf("a fault of kind %s: %s\n%s", a.Kind, a.Message, text)
		}
		said = a.Message
	}
	can := meets(p)
	if can {
		*met++
	} else {
		*unmet++
	}
	if can == (said != "") {
		t.Errorf("some machine meets it: %v; lint says %q:\n%s", can, said, text)
	}
}

// BenchmarkLint lints policies with every list at its limit: as many rules as one may have, and with them as many values as one
// document may hold.
func BenchmarkLint(b *testing.B) {
	for _, c := range []struct {
		name string
		long int // rules whose list of values is at its limit
	}{{"rules", 1}, {"values", 56}} {
		b.Run(c.name, func(b *testing.B) {
			text := largest(c.long)
			for _, a := range policy.Lint("p.yaml", text) {
				if a.Level == policy.LevelError {
					b.Fatalf("%d: %s", a.Line, a.Message)
				}
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				policy.Lint("p.yaml", text)
			}
		})
	}
}

// BenchmarkLintOfFaults lints as many rules of claims that do not exist, for each of which the nearest is looked for.
func BenchmarkLintOfFaults(b *testing.B) {
	text := []byte("type: assay/policy/v1\nname: test\nrequire:\n" + strings.Repeat("  - {claim: sevsnp.debugoff-of-the-host, of: cpu}\n", policy.MaxRules))
	for b.Loop() {
		policy.Lint("p.yaml", text)
	}
}

func largest(long int) []byte {
	var t strings.Builder
	t.WriteString("type: assay/policy/v1\nname: test\nissuers:\n")
	for i := range policy.MaxIssuers {
		fmt.Fprintf(&t, "  - issuer-%d.example\n", i)
	}
	t.WriteString("references:\n")
	for i := range policy.MaxReferences {
		fmt.Fprintf(&t, "  - %s\n", canon.Sum([]byte{byte(i)}))
	}
	t.WriteString("require:\n  - {claim: guest.measured, of: node}\n  - {claim: party.legal-entity, of: party}\n")
	values := make([]string, policy.MaxValues)
	for i := range policy.MaxRules - 2 {
		for j := range values {
			values[j] = fmt.Sprint(j)
		}
		if i >= long {
			values = values[:1]
		}
		fmt.Fprintf(&t, "  - {claim: tdx.collateral, of: cpu, in: [%s]}\n", strings.Join(values, ","))
	}
	t.WriteString("refuse:\n")
	n := 0
	for _, def := range claim.Catalogue() {
		if n++; n <= policy.MaxRefuse {
			fmt.Fprintf(&t, "  - %s\n", def.ID)
		}
	}
	return []byte(t.String())
}
