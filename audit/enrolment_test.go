package audit_test

import (
	"bytes"
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

// TestHolders: what a verifier knew of who holds which device must be what the enrolments before it say, neither more nor
// less.
func TestHolders(t *testing.T) {
	own, other := amd().Identity(amd().Chip("good")), amd().Identity(amd().Chip("another"))
	enrol := func(s *service, node string, ids ...attest.Identity) {
		e := ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisEvidence, Verifier: "https://verifier.example"}
		for _, id := range ids {
			e.Devices = append(e.Devices, ledger.Device{Kind: id.Kind, Value: id.Value})
		}
		s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(e))
	}
	revoke := func(s *service, node string) {
		s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisRevoked, Verifier: "https://verifier.example"}))
	}
	for _, tc := range []struct {
		name     string
		before   func(*service)
		after    func(*service)
		enrolled []attest.Identity
		registry []attest.Holder
		want     string // empty: it passes
	}{
		{name: "nothing is enrolled"},
		{name: "enrolled", before: func(s *service) { enrol(s, "good", own); s.now += 100 }, enrolled: []attest.Identity{own}},
		{name: "told of what no entry enrols", enrolled: []attest.Identity{own}, want: `told that ` + own.String() + ` is of the node "good", which no earlier entry enrols`},
		{name: "told of another device than the one enrolled", before: func(s *service) { enrol(s, "good", own) }, enrolled: []attest.Identity{own, other},
			want: `told that ` + other.String() + ` is of the node "good", which no earlier entry enrols`},
		{name: "enrolled for another node", before: func(s *service) { enrol(s, "far", own) }, enrolled: []attest.Identity{own}, want: `of the node "good", which no earlier entry enrols`},
		{name: "enrolled later", after: func(s *service) { enrol(s, "good", own) }, enrolled: []attest.Identity{own}, want: `of the node "good", which no earlier entry enrols`},
		{name: "revoked", before: func(s *service) { enrol(s, "good", own); revoke(s, "good"); s.now += 100 }, enrolled: []attest.Identity{own}, want: `of the node "good", which entry 6 revoked`},
		{name: "revoked a moment before", before: func(s *service) { enrol(s, "good", own); s.now += 100; revoke(s, "good") }, enrolled: []attest.Identity{own}},
		{name: "revoked afterwards", before: func(s *service) { enrol(s, "good", own); s.now += 100 }, after: func(s *service) { revoke(s, "good") }, enrolled: []attest.Identity{own}},
		{name: "not told of its own device", before: func(s *service) { enrol(s, "good", own); s.now += 100 },
			want: `not told that ` + own.String() + ` is of the node "good", which entry 5 enrols`},
		{name: "not told of what was enrolled a moment before", before: func(s *service) { enrol(s, "good", own) }},
		{name: "not told of a device that it lost", before: func(s *service) { enrol(s, "good", own); s.now += 100; revoke(s, "good") }},
		{name: "held by another", before: func(s *service) { enrol(s, "far", own); s.now += 100 }, registry: []attest.Holder{{Identity: own, Node: "far"}}},
		{name: "not told of the other", before: func(s *service) { enrol(s, "far", own); s.now += 100 },
			want: `not told that ` + own.String() + ` is of the node "far", which entry 5 enrols`},
		{name: "not told of the other that was revoked", before: func(s *service) { enrol(s, "far", own); s.now += 100; revoke(s, "far") }},
		{name: "told of the other that was revoked", before: func(s *service) { enrol(s, "far", own); revoke(s, "far"); s.now += 100 },
			registry: []attest.Holder{{Identity: own, Node: "far"}}, want: `of the node "far", which entry 6 revoked`},
		{name: "told of another that no entry enrols", registry: []attest.Holder{{Identity: own, Node: "far"}}, want: `of the node "far", which no earlier entry enrols`},
		{name: "moved to another node", before: func(s *service) { enrol(s, "far", own); revoke(s, "far"); enrol(s, "good", own); s.now += 100 }, enrolled: []attest.Identity{own}},
		{name: "two holders", before: func(s *service) { enrol(s, "far", own); enrol(s, "good", own); s.now += 100 }, registry: []attest.Holder{{Identity: own, Node: "far"}},
			want: `enrols ` + own.String() + ` for the node "good", which the node "far" holds since entry 5`},
		{name: "enrolled after it was revoked", before: func(s *service) { enrol(s, "good", own); revoke(s, "good"); enrol(s, "good", other) },
			want: `for the node "good", which entry 6 revoked`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			if tc.before != nil {
				tc.before(s)
			}
			s.changeExpect = func(e *attest.Expect) { e.Enrolled, e.Registry = tc.enrolled, tc.registry }
			s.serve(newHost("good", 0))
			if tc.after != nil {
				tc.after(s)
			}
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

// TestHoldersInScope: a part of a log holds the enrolments that its appraisals were told of, and how they ended.
func TestHoldersInScope(t *testing.T) {
	s := newService(t, "one")
	s.serve(newHost("far", 0))
	chip := func(name string) attest.Identity { return amd().Identity(amd().Chip(name)) }
	enrolment := func(node string, basis string, refs ...canon.Digest) {
		e := ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: basis, Verifier: "https://verifier.example"}
		if basis == ledger.BasisEvidence {
			e.Devices = []ledger.Device{{Kind: chip(node).Kind, Value: chip(node).Value}}
		}
		s.append(ledger.KindEnrolment, ledger.StreamVerifier, s.put(e), refs...)
		s.now += 100
	}
	enrolment("far", ledger.BasisEvidence, s.entryOf(s.commitments[6]).Body)
	s.changeExpect = func(e *attest.Expect) { e.Registry = []attest.Holder{{Identity: chip("far"), Node: "far"}} }
	h := newHost("good", 0)
	h.platform = newHost("far", 0).platform
	s.serve(h)
	enrolment("far", ledger.BasisRevoked)
	s.changeExpect = nil
	s.serve(h)
	s.publish()
	for _, scope := range []audit.Criteria{{}, {Nodes: []string{"good"}}, {Nodes: []string{"far"}}} {
		var file bytes.Buffer
		if _, err := audit.ExportScope(t.Context(), s, scope, &file); err != nil {
			t.Fatal(err)
		}
		if r := replay(t, file.Bytes(), s.trust(), audit.Options{}); r.Outcome != audit.Equal {
			t.Errorf("%s: %s", scope, r.Text())
		}
	}
}
