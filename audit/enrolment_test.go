package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// TestActivations: what a verifier knew of activated keys must stand in the log before it, for this node.
func TestActivations(t *testing.T) {
	activation := attest.Activation{EK: canon.Sum([]byte("EK")), AK: slices.Repeat([]byte{0xab}, 34), Verifier: "https://verifier.example"}
	enrolment := ledger.Enrolment{
		Type: ledger.EnrolmentType, Node: "good", Basis: ledger.BasisActivation, EK: activation.EK, AK: activation.AK, Verifier: activation.Verifier,
	}
	for _, tc := range []struct {
		name   string
		before func(*ledger.Enrolment)
		none   bool
		want   string
	}{
		{name: "recorded", before: func(*ledger.Enrolment) {}},
		{name: "not recorded", none: true, want: "has no entry of its own"},
		{name: "of another node", before: func(e *ledger.Enrolment) { e.Node = "other" }, want: "has no entry of its own"},
		{name: "of another TPM", before: func(e *ledger.Enrolment) { e.EK[0] ^= 1 }, want: "has no entry of its own"},
		{name: "by another verifier", before: func(e *ledger.Enrolment) { e.Verifier += "/" }, want: "has no entry of its own"},
		{name: "on no ground", before: func(e *ledger.Enrolment) { e.Basis = "hope" }, want: "basis"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			if !tc.none {
				e := enrolment
				tc.before(&e)
				s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(e))
			}
			s.changeExpect = func(e *attest.Expect) { e.Activations = []attest.Activation{activation} }
			s.serve(newHost("good", 0))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if tc.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			if r.Outcome != audit.Faulty || !strings.Contains(r.Text(), tc.want) {
				t.Errorf("%s, want %q", r.Text(), tc.want)
			}
		})
	}
}
