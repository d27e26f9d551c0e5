package main

import (
	"context"
	"fmt"

	sevsamples "github.com/google/go-sev-guest/verify/testdata"
	tdxsamples "github.com/google/go-tdx-guest/testing/testdata"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// sample is evidence of a real device: genuine hardware, and nothing to trust with a secret.
type sample struct {
	story        string
	typ          string
	evidence     []byte
	collateral   []attest.Collateral
	at           string // within the validity of its certificates
	confidential policy.Outcome
	claim        string // that decides it
}

var samples = []sample{
	{"a report of an AMD EPYC (Milan)", verifier.TypeSEVSNP, sevsamples.AttestationBytes,
		[]attest.Collateral{{Kind: attest.KindAMDCertificate, Data: sevsamples.VcekBytes}}, "2024-01-01T00:00:00Z",
		policy.Reject, "sevsnp.debug-off"},
	{"a quote of an Intel Xeon (TDX 1.0)", verifier.TypeTDX, tdxsamples.RawQuote, tdxLists, "2023-07-01T00:00:00Z",
		policy.Reject, "tdx.attributes"},
	{"a quote of a newer Xeon (TDX 1.5)", verifier.TypeTDX, tdxsamples.RawQuoteV5, nil, "2026-06-01T00:00:00Z",
		policy.Undecided, "tdx.collateral"},
}

// tdxLists are Intel's revocation lists of the day of the first quote.
var tdxLists = []attest.Collateral{
	{Kind: attest.KindIntelPCKCRL, Data: tdxsamples.PckCrlBody}, {Kind: attest.KindIntelRootCRL, Data: tdxsamples.RootCrlBody},
}

// realReports judges evidence that real devices signed, each as of its own time. The vendors' roots are pinned.
func (d *demo) realReports(context.Context) error {
	for i, s := range samples {
		if i > 0 {
			d.say("")
		}
		if err := d.realReport(s); err != nil {
			return fmt.Errorf("%s: %w", s.story, err)
		}
	}
	return nil
}

func (d *demo) realReport(s sample) error {
	at, err := canon.ParseTime(s.at)
	if err != nil {
		return err
	}
	o, err := verifier.Open(s.typ, s.evidence)
	if err != nil {
		return err
	}
	a := verifier.Appraise(o, attest.Case{At: at, Roots: verifier.VendorRoots(), Collateral: s.collateral})
	d.say("   %s, as of %s", s.story, at)
	var last policy.Verdict
	for _, row := range []struct {
		policy string
		want   policy.Outcome
	}{{"genuine", policy.Accept}, {"confidential-cpu", s.confidential}} {
		p, _ := policy.Builtin(row.policy)
		last = policy.Decide(a.Claims, p, at)
		if last.Outcome != row.want {
			return fmt.Errorf("%s by %s, want %s", last.Outcome, row.policy, row.want)
		}
		d.say("   %-18s %s", row.policy, last.Outcome)
	}
	for _, why := range last.Reasons {
		if why.Claim == s.claim {
			d.say("   because            %s: %s", why.Claim, shorten(why.Observed))
			d.say("   required           %s", why.Required)
			return nil
		}
	}
	return fmt.Errorf("%s is not among the reasons", s.claim)
}
