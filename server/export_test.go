package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/verifier"
)

// TestingOnlyAppraise puts another function in the place of the rule rooms.
func (s *Server) TestingOnlyAppraise(f func(*verifier.Opened, attest.Case) verifier.Appraisal) {
	s.appraise = f
}

// TestingOnlyPublish publishes without looking first whose turn it is, as a process does between two looks.
func (s *Server) TestingOnlyPublish(ctx context.Context) error { return s.publish(ctx) }

// TestingOnlyStep has f told of each step after which a process may die.
func (s *Store) TestingOnlyStep(f func(string)) { s.testingOnlyStep = f }

// TestingOnlyStep has f told of each step after which the process may die.
func (s *Server) TestingOnlyStep(f func(string)) { s.store.TestingOnlyStep(f) }

// TestingOnlyForget deletes a blob's row as erasing and collecting do.
func (s *Store) TestingOnlyForget(t testing.TB, now canon.Time, digest canon.Digest) {
	t.Helper()
	if err := s.Tx(t.Context(), func(tx *Tx) error { return deleteBlob(t.Context(), tx.SQL, digest, now) }); err != nil {
		t.Fatal(err)
	}
}

// TestingOnlyFilter returns what the filter of a run says of digests when the run has those given.
func TestingOnlyFilter(digests []canon.Digest) (mayHave func(canon.Digest) bool) {
	f := make(runFilter, filterBytes)
	for _, d := range digests {
		f.add(d)
	}
	return f.mayHave
}

// Doors to how entries are found.
const RunEntries = runEntries

var (
	CommitmentsInRuns = byCommitment.inRuns
	BodiesInRuns      = byBody.inRuns
)

// Doors to how bundles are kept.
var (
	SplitBundle = splitBundle
	JoinBundle  = joinBundle
)

// TestingOnlyCertify gives n providers a certificate each, of the tier anonymous.
func (s *Server) TestingOnlyCertify(ctx context.Context, n int) error {
	const batch = 200
	for from := 0; from < n; from += batch {
		err := s.sit(ctx, func(v *sitting) error {
			for i := from; i < min(from+batch, n); i++ {
				provider, id := fmt.Sprintf("p%d", i), fmt.Sprintf("c-%d", i)
				place := vetting.Place{Provider: provider, Site: fmt.Sprintf("s%d", i)}
				if err := v.certificateEvent(ctx, provider, vetting.Facts{Type: vetting.FactsType, Provider: provider, Stake: true, ContactHours: 1}); err != nil {
					return err
				}
				for _, a := range []vetting.Act{
					{Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAnonymous},
					{Act: vetting.ActSubmit, By: "user:olga"},
					{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"},
				} {
					if err := v.act(ctx, provider, id, a); err != nil {
						return err
					}
				}
				c, err := v.certificate(ctx, id)
				if err != nil {
					return err
				}
				if err := v.weigh(ctx, c, vetting.Act{Act: vetting.ActPass, By: "user:rita"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestingOnlyVet makes the events that are due.
func (s *Server) TestingOnlyVet(ctx context.Context) error { return s.vetDue(ctx) }

// TestingOnlySetRules sets the operator's parameters from now on.
func (s *Server) TestingOnlySetRules(ctx context.Context, p vetting.Parameters) error {
	_, err := s.setRules(ctx, p)
	return err
}

// IssuerKeys asks an issuer for its keys.
func IssuerKeys(ctx context.Context, url string) error {
	_, err := newIssuers(time.Now).keys(ctx, url)
	return err
}
