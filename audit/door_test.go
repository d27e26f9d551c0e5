package audit

import (
	"context"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Shares and DrawNumbers let tests pin how a sample is drawn.
var Shares = shares

func DrawNumbers(seed int64, stratum string, n, take int64) (numbers []int64) {
	for _, d := range draw(seed, stratum, n, take) {
		numbers = append(numbers, d.Number)
	}
	return numbers
}

// ChallengeWith challenges other rules than this build's, so that a test can see lax ones found out.
func (g *Reading) ChallengeWith(ctx context.Context, seed, size int64,
	appraise func(*verifier.Opened, attest.Case) verifier.Appraisal, decide func(claim.Set, *policy.Policy, canon.Time) policy.Verdict,
) (ChallengeReport, error) {
	return g.challenge(ctx, seed, size, judge{appraise, decide})
}

// StandingOf, FieldNames and Fits let a test hold the places of claims against what the formats have.
func StandingOf(id string) (fields, parts, inputs []string) {
	s := standings[id]
	return s.fields, s.parts, s.inputs
}

func FieldNames(c attest.Component) (names []string) {
	for _, f := range fieldsOf(c) {
		names = append(names, f.Name)
	}
	return names
}

var Fits = fits
