package audit_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// busy fills a log with accepted, refused and undecided hosts.
func busy(t testing.TB, rounds int) *service {
	s := newService(t, "honest")
	good, bad := newHost("good", sevsnp.PolicySMT), newHost("debug", sevsnp.PolicySMT|sevsnp.PolicyDebug)
	bare := newHost("bare", sevsnp.PolicySMT)
	bare.platform.Table = nil // its VCEK is for the verifier to fetch
	for range rounds {
		for h, want := range map[*host]policy.Outcome{good: policy.Accept, bad: policy.Reject, bare: policy.Undecided} {
			if v := s.serve(h); v.Outcome != want {
				t.Fatalf("%s: %s %+v, want %s", h.node, v.Outcome, v.Reasons, want)
			}
		}
	}
	s.publish()
	return s
}

func TestReplayEqual(t *testing.T) {
	s := busy(t, 1)
	r := replay(t, s.export(), s.trust(), audit.Options{})
	if r.Outcome != audit.Equal || r.Outcome.ExitCode() != 0 || r.Trust != audit.Anchored || len(r.Faults) != 0 || r.First != nil {
		t.Errorf("%s", r.Text())
	}
	if want := (audit.Tally{Logged: 3, Replayed: 3}); r.Appraisals != want || r.Verdicts != want {
		t.Errorf("appraisals %+v, verdicts %+v", r.Appraisals, r.Verdicts)
	}
	if want := []audit.KindCount{{Kind: "accept", Count: 1}, {Kind: "reject", Count: 1}, {Kind: "undecided", Count: 1}}; !slices.Equal(r.Outcomes, want) {
		t.Errorf("outcomes %v", r.Outcomes)
	}
	text := r.Text()
	if !strings.HasPrefix(text, "NOT VENDOR ROOTS: 3 appraisals under root set "+s.roots.Digest().String()+"\n") {
		t.Errorf("test roots are not announced first:\n%s", text)
	}
	if !strings.HasSuffix(text, "\nreplayed 6 of 6, 0 differ\n") {
		t.Errorf("last line:\n%s", text)
	}
	data, err := r.Canonical()
	var again audit.Report
	if err == nil {
		err = canon.Unmarshal(data, &again)
	}
	if err != nil {
		t.Errorf("the report is no canonical document: %v", err)
	}
	if r.Root != s.edge.Tree().Root || r.Size != s.edge.Tree().Size || r.Origin != origin {
		t.Errorf("log %s %d %s", r.Origin, r.Size, r.Root)
	}
	for _, k := range s.keyset().Keys {
		vkey, _ := k.LogVKey(origin)
		if k.Use != ledger.UseLog {
			vkey = ""
		}
		if !slices.Contains(r.Keys, audit.SeenKey{Use: k.Use, Fingerprint: canon.Sum(k.SPKI), From: k.From, VKey: vkey}) {
			t.Errorf("the %s key is not named", k.Use)
		}
	}
}

// TestReplayUnanchored: without trust all is recomputed, and the result does not pass.
func TestReplayUnanchored(t *testing.T) {
	export, trust := small(t)
	r := replay(t, export, nil, audit.Options{})
	if r.Outcome != audit.NotAnchored || r.Outcome.ExitCode() != 3 || !strings.Contains(r.Text(), "\ntrust       not anchored\n") || !strings.HasSuffix(r.Text(), "replayed 2 of 2, 0 differ\n") {
		t.Errorf("%s", r.Text())
	}
	if len(r.Keys) != 3 {
		t.Errorf("fingerprints: %v", r.Keys)
	}
	if r := replay(t, export, trust, audit.Options{}); r.Outcome != audit.Equal {
		t.Errorf("with trust: %s", r.Text())
	}
}

// TestForger: a whole log under a forger's own keys agrees with itself, and not with the honest trust file.
func TestForger(t *testing.T) {
	_, trust := small(t)
	s := newService(t, "forger")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	export := s.export()
	if r := replay(t, export, nil, audit.Options{}); r.Outcome != audit.NotAnchored {
		t.Errorf("held against itself: %s", r.Text())
	}
	r := replay(t, export, trust, audit.Options{})
	wantFault(t, r, "entry 0", "not the trusted keys")
	wantFault(t, r, "checkpoint", "")
	if r.Trust != audit.Refused || !strings.Contains(r.Text(), "\ntrust       not shown to be the trusted log\n") {
		t.Errorf("a forger's log is called %s", r.Trust)
	}
	if r := replay(t, export, s.trust(), audit.Options{}); r.Outcome != audit.Equal {
		t.Errorf("with the forger's own trust file: %s", r.Text())
	}
}

// TestReportIsDeterministic: the report is the same whatever the number of workers, also with faults.
func TestReportIsDeterministic(t *testing.T) {
	s := busy(t, 8)
	s.changeVerdict = func(v *policy.Verdict) { v.Scope = policy.ScopeFull + "?" }
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	export, trust := s.export(), s.trust()
	want, err := replay(t, export, trust, audit.Options{}).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 2, 3, 16, 1000} {
		var stages []string
		r := replay(t, export, trust, audit.Options{Workers: workers, Memory: attest.NewMemory(), Progress: func(stage string, done, total int64) {
			if done == total {
				stages = append(stages, stage)
			}
		}})
		if got, err := r.Canonical(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d workers: %v\n%s\nwant\n%s", workers, err, got, want)
		}
		if !slices.Equal(stages, []string{"read", "recompute"}) {
			t.Errorf("%d workers: finished stages %q", workers, stages)
		}
	}
}

// TestTampered changes one thing in a log that is signed with all the right keys.
func TestTampered(t *testing.T) {
	good := func() *host { return newHost("good", sevsnp.PolicySMT) }
	debug := func() *host { return newHost("debug", sevsnp.PolicySMT|sevsnp.PolicyDebug) }
	// Entries of one round: 0 keyset, 1 policy, 2 references, 3 and 4 collateral, 5 challenge, 6 evidence, 7 appraisal, 8 verdict.
	for _, row := range []struct {
		name   string
		part   string
		what   string
		first  bool // it is a difference, and named as the first
		tamper func(*service)
	}{
		{"verdict changed and signed again", "entry 8", "verdict logged accept, recomputed reject", true, func(s *service) {
			s.changeVerdict = func(v *policy.Verdict) { v.Outcome, v.Reasons = policy.Accept, []policy.Reason{} }
			s.serve(debug())
		}},
		{"a reason left out", "entry 8", "reasons logged", true, func(s *service) {
			s.changeVerdict = func(v *policy.Verdict) { v.Reasons = v.Reasons[1:] }
			h := debug()
			h.platform.Fields.PlatformInfo = 0
			s.serve(h)
		}},
		{"appraisal changed", "entry 7", "sevsnp.debug-off@cpu:0 logged affirmed, recomputed contradicted", true, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) {
				c := a.Claims.Find("sevsnp.debug-off", "cpu:0")
				c.Status, c.Reason = claim.Affirmed, ""
			}
			s.serve(debug())
		}},
		{"a claim left out", "entry 7", "was recomputed", true, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.Claims = a.Claims[1:] }
			s.serve(good())
		}},
		{"appraisal by other rules", "entry 7", "not reproducible with this build", false, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.Rules[0].Rules++ }
			s.serve(good())
		}},
		{"appraisal by a verifier that failed", "entry 7", "made by no rules", false, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.Rules, a.Inputs = []verifier.RoomRules{}, a.Inputs[:1] }
			s.serve(good())
		}},
		{"verdict by other rules", "entry 8", "not reproducible with this build", false, func(s *service) {
			s.changeVerdict = func(v *policy.Verdict) { v.Rules++ }
			s.serve(good())
		}},
		{"appraised as of a time before the evidence", "entry 7", "as of", false, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.AsOf -= day }
			s.serve(good())
		}},
		{"decided as of a time before the appraisal", "entry 8", "as of", false, func(s *service) {
			s.changeVerdict = func(v *policy.Verdict) { v.AsOf -= day }
			s.serve(good())
		}},
		{"result names other evidence", "entry 8", "on the evidence", false, func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Evidence[0] ^= 1 }
			s.serve(good())
		}},
		{"result names another appraisal", "entry 8", "names the appraisal", false, func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Appraisal[0] ^= 1 }
			s.serve(good())
		}},
		{"result names another policy", "entry 8", "names the policy", false, func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Policy[0] ^= 1 }
			s.serve(good())
		}},
		{"result of an unknown type", "entry 8", "assay/result/v9", false, func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Type = "assay/result/v9" }
			s.serve(good())
		}},
		{"appraisal of an unknown type", "entry 7", "assay/appraisal/v9", false, func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.Type = "assay/appraisal/v9" }
			s.serve(good())
		}},
		{"judged against another challenge", "entry 7", "expects another challenge", false, func(s *service) {
			s.changeExpect = func(e *attest.Expect) { e.Challenge.Issued-- }
			s.serve(good())
		}},
		{"judged against no challenge", "entry 7", "expects no challenge", false, func(s *service) {
			s.changeExpect = func(e *attest.Expect) { e.Challenge = nil }
			s.serve(good())
		}},
		{"a challenge answered twice", "entry 7", "which entry 6 answered already", false, func(s *service) {
			h := good()
			c := s.ask(h.node)
			s.take(c, h.answer(s.log, c.Digest()))
			h.platform.Fields.GuestSVN++ // a second report on the same challenge
			s.take(c, h.answer(s.log, c.Digest()))
		}},
		{"a challenge issued twice", "entry 6", "issued by entry 5 already", false, func(s *service) {
			c := s.ask("good")
			s.append(ledger.KindChallenge, ledger.StreamVerifier, canon.Sum(s.bytes(c)))
		}},
		{"an answer to another challenge", "entry 7", "answers the challenge", false, func(s *service) {
			h := good()
			c, other := s.ask(h.node), s.ask(h.node)
			s.take(c, h.answer(s.log, other.Digest()))
		}},
		{"an answer after the challenge expired", "entry 6", "the challenge stood from", false, func(s *service) {
			h := good()
			c := s.ask(h.node)
			s.now = c.Expires + 1
			s.take(c, h.answer(s.log, c.Digest()))
		}},
		{"an answer by another node", "entry 6", `the challenge was made for node "good"`, false, func(s *service) {
			h := good()
			c := s.ask(h.node)
			data := h.answer(s.log, c.Digest())
			s.append(ledger.KindEvidence, ledger.NodeStream("other"), s.putBytes(data), canon.Sum(s.bytes(c)))
		}},
		{"a bundle signed with another session key", "entry 6", "not signed by the session key", false, func(s *service) {
			h := good()
			c := s.ask(h.node)
			env, err := ledger.ParseEnvelope(h.answer(s.log, c.Digest()))
			s.must(err)
			env.Signatures[0].Sig[0] ^= 1
			s.take(c, s.bytes(env))
		}},
		{"a second verdict on one evidence and policy", "entry 9", "a second verdict on this evidence by the policy of the verdict of entry 8", false, func(s *service) {
			h := good()
			c := s.ask(h.node)
			body, _ := s.take(c, h.answer(s.log, c.Digest()))
			a := s.judge(c, body)
			s.decide(a, body)
			s.now++
			s.decide(a, body)
		}},
		{"references that were never logged", "entry 7", "has no entry of its own", false, func(s *service) {
			s.references.Name = "others"
			s.put(s.references)
			s.serve(good())
		}},
		{"references logged after they were used", "entry 7", "was logged later, by entry 9", false, func(s *service) {
			s.references.Name = "others"
			s.serve(good())
			s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references))
		}},
		{"collateral that was never logged", "entry 7", "has no entry of its own", false, func(s *service) {
			this := t0.Time().AddDate(0, 0, -1)
			s.collateral = []attest.Collateral{{Kind: attest.KindAMDCRL, Data: amd().CRL(this, this.AddDate(0, 2, 0))}}
			s.putBytes(s.collateral[0].Data)
			s.serve(good())
		}},
		{"a policy logged after it was used", "entry 8", "body of no earlier entry", false, func(s *service) {
			p, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: late\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\n"))
			s.must(err)
			s.policy = p
			s.serve(good())
			s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes(p.Canonical()))
		}},
		{"a stream with a gap", "entry 6", "stream verifier: entry 2 where 1 was due", false, func(s *service) {
			s.ask("good")
			tail := s.streams[ledger.StreamVerifier]
			s.streams[ledger.StreamVerifier] = ledger.Tail{Next: tail.Next + 1, Last: tail.Last}
			s.ask("good")
		}},
		{"a stream that forgets its past", "entry 6", "the stream ends with", false, func(s *service) {
			s.ask("good")
			s.streams[ledger.StreamVerifier] = ledger.Tail{Next: 1, Last: canon.Sum([]byte("elsewhere"))}
			s.ask("good")
		}},
		{"an entry of an unknown kind", "entry 5", `kind "lease/v1" is not known to this build`, false, func(s *service) {
			tail := s.streams[ledger.StreamVerifier]
			s.appendEntry(ledger.Entry{Type: ledger.EntryType, Kind: "lease/v1", Stream: ledger.StreamVerifier, Sequence: tail.Next, Previous: tail.Last,
				Time: s.now, Body: s.putBytes([]byte("{}")), Refs: []canon.Digest{}})
		}},
		{"an entry of an unknown version", "entry 5", `type "assay/entry/v2" is not known to this build`, false, func(s *service) {
			tail := s.streams[ledger.StreamServer]
			s.appendEntry(ledger.Entry{Type: "assay/entry/v2", Kind: ledger.KindPolicy, Stream: ledger.StreamServer, Sequence: tail.Next, Previous: tail.Last,
				Time: s.now, Body: s.policy.Digest(), Refs: []canon.Digest{}})
		}},
		{"a challenge under another key", "entry 5", "no such key of this log", false, func(s *service) {
			c := attest.Challenge{Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: newKey("other").spki(), Node: "good",
				Nonce: make([]byte, 32), Issued: s.now, Expires: s.now + 300}
			s.append(ledger.KindChallenge, ledger.StreamVerifier, s.put(c))
		}},
		{"a body that is no policy", "entry 5", "policy", false, func(s *service) {
			s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes([]byte(`{"type":"assay/policy/v9"}`)))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			row.tamper(s)
			s.publish()
			r, err := audit.Replay(t.Context(), s, s.trust(), audit.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			wantFault(t, r, row.part, row.what)
			// What rests on a faulty entry may be faulty for that reason; nothing else is.
			for _, f := range r.Faults {
				if f.Part != row.part && !strings.Contains(f.What, "its appraisal has no claims") {
					t.Errorf("a fault beside the one that was made\n%s", r.Text())
				}
			}
			if row.first != (r.First != nil) || row.first && (r.First.Part != row.part || !strings.HasSuffix(r.Text(), ", 1 differ\n")) {
				t.Errorf("first difference: %+v\n%s", r.First, r.Text())
			}
		})
	}
}

// TestMissing: each blob is needed. Without any one of them the part is named.
func TestMissing(t *testing.T) {
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	for d, data := range s.blobs {
		delete(s.blobs, d)
		r, err := audit.Replay(t.Context(), s, s.trust(), audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wantFault(t, r, "blob/"+d.String(), "missing")
		s.blobs[d] = append(bytes.Clone(data), 0)
		if r, err = audit.Replay(t.Context(), s, s.trust(), audit.Options{}); err != nil {
			t.Fatal(err)
		}
		wantFault(t, r, "blob/"+d.String(), "its bytes have the digest")
		s.blobs[d] = data
	}
}

// TestSourceFails: a source that cannot tell is an error and no fault of the log.
func TestSourceFails(t *testing.T) {
	s := busy(t, 1)
	if _, err := audit.Replay(t.Context(), brokenSource{s.log}, s.trust(), audit.Options{}); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("got %v", err)
	}
	late := &failsLater{log: s.log, after: 20}
	if _, err := audit.Replay(t.Context(), late, s.trust(), audit.Options{}); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("in the middle of the log: got %v", err)
	}
}

// failsLater is a source whose disk fails after some blobs.
type failsLater struct {
	*log
	after int
}

func (f *failsLater) Blob(ctx context.Context, d canon.Digest) ([]byte, error) {
	if f.after--; f.after < 0 {
		return brokenSource{}.Blob(ctx, d)
	}
	return f.log.Blob(ctx, d)
}

// TestKnownBugs, rows of the list of other systems' faults.
func TestKnownBugs(t *testing.T) {
	// T01: a verdict that was good stays good when collateral lapses, and replay does not depend on today.
	t.Run("T01", func(t *testing.T) {
		s := newService(t, "honest")
		h := newHost("good", sevsnp.PolicySMT)
		c := s.ask(h.node)
		body, _ := s.take(c, h.answer(s.log, c.Digest()))
		a := s.judge(c, body)
		if got := a.Claims.Find("sevsnp.revocation", "cpu:0").Status; got != claim.Affirmed {
			t.Fatalf("as of t0: revocation %s", got)
		}
		if v := s.decide(a, body); v.Outcome != policy.Accept {
			t.Fatalf("as of t0: %s %+v", v.Outcome, v.Reasons)
		}
		s.publish()
		before := replay(t, s.export(), s.trust(), audit.Options{})
		s.now += 60 * day
		c2 := s.ask(h.node)
		body2, _ := s.take(c2, h.answer(s.log, c2.Digest()))
		late := s.judge(c2, body2)
		got := late.Claims.Find("sevsnp.revocation", "cpu:0")
		if got.Status != claim.Unknown || !strings.HasPrefix(string(got.Reason), claim.CollateralRefused) {
			t.Errorf("60 days later, with the same list: %s %s", got.Status, got.Reason)
		}
		if v := s.decide(late, body2); v.Outcome != policy.Undecided {
			t.Errorf("60 days later: %s %+v", v.Outcome, v.Reasons)
		}
		s.publish()
		after := replay(t, s.export(), s.trust(), audit.Options{})
		if before.Outcome != audit.Equal || after.Outcome != audit.Equal || after.Appraisals.Replayed != 2 {
			t.Errorf("before\n%safter\n%s", before.Text(), after.Text())
		}
	})
}
