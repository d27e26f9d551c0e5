package server

import (
	"context"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
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
