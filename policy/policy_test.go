package policy_test

import (
	"slices"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

const (
	now    = canon.Time(1770000000)
	issued = now - 60
)

var list = canon.Sum([]byte("the list of reference values that affirmed the guest"))

// values are the values of the good claims; a claim that is not here is a sentence.
var values = map[string]string{
	"agent.measured": "tee", "guest.measured": "tee",
	"binding.challenge": "aa", "binding.seal": "sev-snp",
	"sevsnp.cert-chip-id": "chip", "sevsnp.cert-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.chain": "VCEK",
	"sevsnp.committed-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.freshness": "aa", "sevsnp.host-data": "00", "sevsnp.id-block": "absent",
	"sevsnp.launch-tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.measurement": "cc", "sevsnp.mitigations": "",
	"sevsnp.platform-info": "alias-check ecc", "sevsnp.product": "Milan", "sevsnp.revocation": "crl", "sevsnp.signing-key": "VCEK",
	"sevsnp.structure": "v5", "sevsnp.tcb": "bl=4 tee=0 snp=24 ucode=219", "sevsnp.vmpl": "0",
}

// goodSet returns every claim of the catalogue, affirmed, as an appraisal of a sound SEV-SNP bundle gives them.
func goodSet() claim.Set {
	var s claim.Set
	for _, def := range claim.Catalogue() {
		c := claim.Claim{ID: def.ID, Subject: "node", Status: claim.Affirmed, Value: values[def.ID]}
		switch claim.Room(def.ID) {
		case "sevsnp":
			c.Subject = "cpu:0"
		case "statement":
			c.Subject = "statement:0"
		case "set":
			c.Subject, c.Basis = "set", []string{"sevsnp.signature@cpu:0"}
		}
		switch def.ID {
		case "sevsnp.freshness":
			c.From, c.Basis = issued, []string{"binding.challenge@node"}
		case "binding.challenge":
			c.From = issued
		case "binding.seal":
			c.Basis = []string{"sevsnp.signature@cpu:0"}
		case "guest.measured":
			c.Basis = []string{"sevsnp.measurement@cpu:0", "references:" + list.String()}
		case "agent.measured":
			c.Basis = []string{"references:" + list.String()}
		case "sevsnp.chain":
			c.From, c.Until = now-1000, now+1000
		}
		s.Add(c)
	}
	return s
}

// with returns the good claims with one changed, settled as an appraisal settles them.
func with(t testing.TB, id string, change func(*claim.Claim)) claim.Set {
	t.Helper()
	s := goodSet()
	for i := range s {
		if s[i].ID == id {
			change(&s[i])
			s.Settle()
			return s
		}
	}
	t.Fatalf("no claim %s", id)
	return nil
}

// without returns the good claims of all rooms but some.
func without(rooms ...string) claim.Set {
	return slices.DeleteFunc(goodSet(), func(c claim.Claim) bool { return slices.Contains(rooms, claim.Room(c.ID)) })
}

func contradict(c *claim.Claim) {
	c.Status, c.Reason = claim.Contradicted, claim.Because(claim.Mismatch, "twin")
}
func unknown(code string) func(*claim.Claim) {
	return func(c *claim.Claim) { c.Status, c.Value, c.Reason = claim.Unknown, "", claim.Because(code, "twin") }
}
func value(v string) func(*claim.Claim) { return func(c *claim.Claim) { c.Value = v } }

func builtin(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, ok := policy.Builtin(name)
	if !ok {
		t.Fatalf("no built-in policy %s", name)
	}
	return p
}

func load(t testing.TB, yaml string) *policy.Policy {
	t.Helper()
	p, err := policy.Load("policy.yaml", []byte("type: assay/policy/v1\nname: test\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// edited returns a policy with its document changed, by the way that a log's policies come.
func edited(t testing.TB, p *policy.Policy, edit func(*policy.Document)) *policy.Policy {
	t.Helper()
	d := p.Document()
	d.Require, d.Refuse = slices.Clone(d.Require), slices.Clone(d.Refuse)
	edit(&d)
	b, err := canon.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	q, err := policy.ParseCanonical(b)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// expect asserts the outcome, and the claims that the reasons name.
func expect(t testing.TB, v policy.Verdict, outcome policy.Outcome, claims ...string) {
	t.Helper()
	var got []string
	for _, r := range v.Reasons {
		got = append(got, r.Claim)
		if r.Rule == "" || r.Subject == "" || r.Required == "" || r.Observed == "" || r.Fix == "" || r.Who == "" {
			t.Errorf("reason with a gap: %+v", r)
		}
	}
	if v.Outcome != outcome || !slices.Equal(got, claims) {
		t.Errorf("got %s for %q, want %s for %q\n%+v", v.Outcome, got, outcome, claims, v.Reasons)
	}
	if _, err := canon.Marshal(v); err != nil {
		t.Errorf("verdict: %v", err)
	}
}
