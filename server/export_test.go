package server

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/verifier"
)

// TestingOnlyAppraise puts another function in the place of the rule rooms.
func (s *Server) TestingOnlyAppraise(f func(*verifier.Opened, attest.Case) verifier.Appraisal) {
	s.appraise = f
}
