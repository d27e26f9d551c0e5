package main

import (
	"context"
	"fmt"

	"github.com/google/go-sev-guest/verify/testdata"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// realReportTime lies within the validity of the real report's certificate (2022-09-24 to 2029-09-24).
const realReportTime = "2024-01-01T00:00:00Z"

// realReport judges a report that a real EPYC Milan signed for a guest whose policy allows debugging: genuine hardware,
// and nothing to trust with a secret.
func (d *demo) realReport(context.Context) error {
	at, err := canon.ParseTime(realReportTime)
	if err != nil {
		return err
	}
	o, err := verifier.Open(verifier.TypeSEVSNP, testdata.AttestationBytes)
	if err != nil {
		return err
	}
	a := verifier.Appraise(o, attest.Case{
		At: at, Roots: verifier.VendorRoots(),
		Collateral: []attest.Collateral{{Kind: attest.KindAMDCertificate, Data: testdata.VcekBytes}},
	})
	d.say("   An AMD EPYC (Milan) signed this report; the certificate is AMD's, the root is pinned. As of %s:", at)
	for _, row := range []struct {
		policy string
		want   policy.Outcome
	}{{"genuine", policy.Accept}, {"confidential-cpu", policy.Reject}} {
		p, _ := policy.Builtin(row.policy)
		v := policy.Decide(a.Claims, p, at)
		if v.Outcome != row.want {
			return fmt.Errorf("the real report: %s by %s, want %s", v.Outcome, row.policy, row.want)
		}
		d.say("   %-18s %s", row.policy, v.Outcome)
	}
	debug := a.Claims.Find("sevsnp.debug-off", "cpu:0")
	if debug == nil || debug.Status != claim.Contradicted {
		return fmt.Errorf("the real report allows debugging, and that was not seen")
	}
	d.say("   because            %s", debug.Reason)
	return nil
}
