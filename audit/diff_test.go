package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// TestDiff: each thing in which two verdicts can differ is named, and it alone.
func TestDiff(t *testing.T) {
	loose := func(s *service) *policy.Policy {
		p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: loose\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\n"))
		s.must(err)
		s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(p.Canonical()))
		return p
	}
	for _, row := range []struct {
		name   string
		want   []string
		line   string // the beginning of it
		second func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal)
	}{
		{"policy", []string{audit.DiffersPolicy}, "both accept: policy differs; evidence, expectation, reference values, collateral, roots, engine and time are the same", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.policy = loose(s)
			s.decide(a, body)
		}},
		{"time of the verdict", []string{audit.DiffersTime}, "both accept: time differs", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.decide(a, body)
		}},
		{"time that lapses a claim", []string{audit.DiffersTime}, "accept and reject: time differs", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now += 60 * day
			s.decide(s.judge(c, body), body)
		}},
		{"collateral", []string{audit.DiffersCollateral, audit.DiffersTime}, "accept and undecided: collateral and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.collateral = s.collateral[:1]
			s.decide(s.judge(c, body), body)
		}},
		{"reference values", []string{audit.DiffersReferences, audit.DiffersTime}, "accept and reject: reference values and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.references.Values = slices.Clone(s.references.Values)
			s.references.Values[0].Measurement = bytes.Repeat([]byte{9}, 48)
			s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references))
			s.decide(s.judge(c, body), body)
		}},
		{"expectation", []string{audit.DiffersExpect, audit.DiffersTime}, "accept and reject: expectation and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.changeExpect = func(e *attest.Expect) {
				e.Enrolled = []attest.Identity{{Kind: attest.IdentityAMDChip, Value: bytes.Repeat([]byte{1}, 64)}}
			}
			s.decide(s.judge(c, body), body)
		}},
		{"roots", []string{audit.DiffersRoots, audit.DiffersTime}, "accept and reject: roots and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.roots = verifier.VendorRoots()
			s.decide(s.judge(c, body), body)
		}},
		{"engine", []string{audit.DiffersEngine, audit.DiffersTime}, "both accept: engine and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.changeAppraisal = func(a *verifier.Appraisal) {
				a.Rules = slices.Clone(a.Rules)
				a.Rules[4].Rules++
			}
			s.decide(s.judge(c, body), body)
		}},
		{"evidence", []string{audit.DiffersEvidence, audit.DiffersExpect, audit.DiffersTime}, "both accept: evidence, expectation and time differ", func(s *service, c attest.Challenge, body canon.Digest, a verifier.Appraisal) {
			s.now++
			s.serve(newHost("good", sevsnp.PolicySMT))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			c := s.ask("good")
			body, _ := s.take(c, newHost("good", sevsnp.PolicySMT).answer(s.log, c.Digest()))
			a := s.judge(c, body)
			s.decide(a, body)
			row.second(s, c, body, a)
			s.publish()
			g := reading(t, s.log)
			rows, _ := population(t, g)
			d, err := g.Diff(t.Context(), rows[0].Index, g, rows[1].Index)
			s.must(err)
			if !slices.Equal(d.Differs, row.want) || !strings.HasPrefix(d.Line, row.line) || d.Equal() || !strings.HasPrefix(d.Text(), d.Line+"\n") {
				t.Errorf("differs %q, want %q\n%s", d.Differs, row.want, d.Text())
			}
			same, err := g.Diff(t.Context(), rows[0].Index, g, rows[0].Index)
			s.must(err)
			if !same.Equal() || len(same.Claims)+len(same.Inputs) != 0 || same.Line != "both accept: all inputs are the same" {
				t.Errorf("a verdict differs from itself: %s", same.Text())
			}
		})
	}
}

// TestDiffClaims: a lapsed list shows in the claim that rested on it, and in the reason.
func TestDiffClaims(t *testing.T) {
	s := newService(t, "honest")
	c := s.ask("good")
	body, _ := s.take(c, newHost("good", sevsnp.PolicySMT).answer(s.log, c.Digest()))
	s.decide(s.judge(c, body), body)
	s.now += 60 * day
	s.decide(s.judge(c, body), body)
	s.publish()
	g := reading(t, s.log)
	rows, _ := population(t, g)
	d, err := g.Diff(t.Context(), rows[0].Index, g, rows[1].Index)
	s.must(err)
	if !slices.ContainsFunc(d.Claims, func(c audit.ClaimChange) bool { return c.ID == "sevsnp.revocation" && c.A.Status != c.B.Status }) {
		t.Errorf("%s", d.Text())
	}
	if len(d.OnlyA) != 0 || !slices.ContainsFunc(d.OnlyB, func(r policy.Reason) bool { return r.Claim == "sevsnp.revocation" }) {
		t.Errorf("%s", d.Text())
	}
	if !strings.Contains(d.Text(), "claim  sevsnp.revocation of cpu:0\n         a: affirmed amd-crl") {
		t.Errorf("%s", d.Text())
	}
}

// TestDiffOfTwoLogs: the same evidence judged by two services.
func TestDiffOfTwoLogs(t *testing.T) {
	one := accepted(t)
	two := newSnapshot(one).restore(t)
	two.append(ledger.KindPolicy, ledger.StreamServer, two.putBytes([]byte("no policy")))
	two.publish()
	a, b := reading(t, one.log), reading(t, two)
	rows, _ := population(t, a)
	d, err := a.Diff(t.Context(), rows[0].Index, b, rows[0].Index)
	one.must(err)
	if !d.Equal() {
		t.Errorf("%s", d.Text())
	}
}

func TestFind(t *testing.T) {
	s := accepted(t)
	g := reading(t, s.log)
	rows, _ := population(t, g)
	env, err := ledger.ParseEnvelope(s.blobs[rows[0].Verdict])
	s.must(err)
	for _, word := range []string{"8", rows[0].Verdict.String(), env.Identity().String()} {
		if index, err := g.Find(t.Context(), word); err != nil || index != rows[0].Index {
			t.Errorf("%s: %d %v", word, index, err)
		}
	}
	for word, want := range map[string]string{"7": "no verdict of this log, which has 1 verdict", "-1": "no verdict", "x": "want the index", rows[0].Evidence.String(): "not in the log"} {
		if _, err := g.Find(t.Context(), word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
}
