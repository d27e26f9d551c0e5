package verifier_test

import (
	"path"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
)

// realCases returns the SEV-SNP reports of the manifest with the right answers it holds.
func realCases(t testing.TB) (cases []testvectors.Case) {
	t.Helper()
	type manifestCase struct {
		ID, Policy, Verdict string
		AsOf                canon.Time     `json:"as_of"`
		Files               map[string]any // a name; in other kinds also several
		Claims              map[string]claim.Status
	}
	for _, m := range vectors.Cases[manifestCase](t, "sev-snp") {
		c := testvectors.Case{Name: m.ID, AsOf: m.AsOf, Roots: testvectors.RootsVendor, Evidence: vectors.Read(t, m.Files["evidence"].(string))}
		for _, key := range []string{"cert", "certtable"} {
			name, ok := m.Files[key].(string)
			if !ok {
				continue
			}
			certs, err := sevsnp.ReadCertificates(vectors.Read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, der := range certs {
				c.Items = append(c.Items, testvectors.Item{Key: testvectors.KeyCertificate, Name: path.Base(name) + string(rune('a'+i)), Data: der})
			}
		}
		for id, status := range m.Claims {
			c.Expected = append(c.Expected, testvectors.Expected{ID: id, Status: status})
		}
		var o policy.Outcome
		if err := o.UnmarshalText([]byte(m.Verdict)); err != nil {
			t.Fatal(err)
		}
		c.Verdicts = []testvectors.Outcome{{Policy: m.Policy, Outcome: o}}
		cases = append(cases, c)
	}
	return cases
}

// TestRealReports judges every real report of the manifest.
func TestRealReports(t *testing.T) {
	cases := realCases(t)
	if len(cases) < 9 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			j := judge(t, c)
			for _, e := range c.Expected {
				if found := find(j.Appraisal.Claims, e); len(found) != 1 || found[0].Status != e.Status {
					t.Errorf("%s: %+v, want %s", e.ID, found, e.Status)
				}
			}
			if got := j.Verdicts[0]; got.Outcome != c.Verdicts[0].Outcome {
				t.Errorf("%s, want %s: %+v", got.Outcome, c.Verdicts[0].Outcome, got.Reasons)
			}
			if c.Evidence[0] != '0' { // the table behind the report, and the report in hex, say the same
				again := c
				again.Evidence = []byte(canon.Hex(c.Evidence).String())
				if a, b := judge(t, again), j; len(a.Appraisal.Claims) != len(b.Appraisal.Claims) || a.Verdicts[0].Outcome != b.Verdicts[0].Outcome {
					t.Error("the report in hex is judged otherwise")
				}
			}
		})
	}
}
