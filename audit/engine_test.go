package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/engine/enginetest"
	"github.com/assay-network/assay/verifier/module"
)

const verifierOrigin = "https://verifier.example"

// enterEngine enters a module as an engine of some description, and has all later results name it.
func (s *service) enterEngine(code []byte, d engine.Description) canon.Digest {
	m := s.putBytes(code)
	s.append(ledger.KindEngine, ledger.StreamServer, s.put(d.Record(m, verifierOrigin)))
	s.changeResult = func(r *policy.Result) { r.Build.Engine = m }
	return m
}

// runBy has a release enter its module and judge from now on, as a server of that release would.
func (s *service) runBy(runner *module.Runner, release enginetest.Release) canon.Digest {
	code := enginetest.Build(s.t, release)
	m := s.putBytes(code)
	d, err := runner.Describe(s.t.Context(), m, s.Blob)
	s.must(err)
	s.enterEngine(code, d)
	var last canon.Digest
	s.changeAppraisal = func(a *verifier.Appraisal) {
		data, err := runner.Run(s.t.Context(), m, engine.Job{Appraise: &engine.Appraise{EvidenceType: verifier.TypeBundle, Inputs: a.Inputs, AsOf: a.AsOf}}, s.Blob)
		s.must(err)
		last = s.putBytes(data)
		*a, err = verifier.ParseAppraisal(data)
		s.must(err)
	}
	s.changeVerdict = func(v *policy.Verdict) {
		data, err := runner.Run(s.t.Context(), m, engine.Job{Decide: &engine.Decide{Appraisal: last, Policy: s.policy.Digest(), AsOf: v.AsOf}}, s.Blob)
		s.must(err)
		*v = policy.Verdict{}
		s.must(canon.Unmarshal(data, v))
	}
	return m
}

// runByThisBuild has this build judge again.
func (s *service) runByThisBuild() {
	s.changeAppraisal, s.changeVerdict, s.changeResult = nil, nil, nil
}

func (s *service) replayWith(trust *audit.Trust, o audit.Options) audit.Report {
	s.t.Helper()
	r, err := audit.Replay(s.t.Context(), s, trust, o)
	s.must(err)
	return r
}

// TestTwoEngines: a log that two releases decided in is replayed by both, to the byte; the one that is not this build's
// decides one case otherwise, and the report says which and what.
func TestTwoEngines(t *testing.T) {
	runner := module.NewRunner(module.Limits{})
	defer runner.Close()
	s := newService(t, "honest")
	hosts := func() (good, debug *host) {
		return newHost("good", sevsnp.PolicySMT), newHost("debug", sevsnp.PolicySMT|sevsnp.PolicyDebug)
	}
	good, debug := hosts()
	lenient := s.runBy(runner, enginetest.Lenient)
	for h, want := range map[*host]policy.Outcome{good: policy.Accept, debug: policy.Accept} {
		if v := s.serve(h); v.Outcome != want {
			t.Fatalf("lenient: %s %s %+v", h.node, v.Outcome, v.Reasons)
		}
	}
	s.runByThisBuild()
	today := s.enterEngine(enginetest.Returns, engine.Description{Version: "today", Go: "go1.26.8", Rules: engine.Rules()}) // this build needs none
	if v := s.serve(debug); v.Outcome != policy.Reject {
		t.Fatalf("today: %s", v.Outcome)
	}
	s.publish()
	trust := s.trust()
	trust.Engines = []canon.Digest{lenient}
	o := audit.Options{Workers: 2, Engines: runner}
	r := s.replayWith(trust, o)
	if r.Outcome != audit.Equal || r.Outcome.ExitCode() != 0 || r.First != nil {
		t.Errorf("%s", r.Text())
	}
	if want := (audit.Tally{Logged: 3, Replayed: 3}); r.Appraisals != want || r.Verdicts != want {
		t.Errorf("appraisals %+v, verdicts %+v", r.Appraisals, r.Verdicts)
	}
	// The verdict's own rules are this build's: it decides on the claims that the other engine made.
	want := []audit.SeenEngine{
		{Index: 5, Module: lenient, Version: "lenient", Go: "go1.26.8", Trusted: true, Appraisals: 2},
		{Index: r.Engines[1].Index, Module: today, Version: "today", Go: "go1.26.8"},
	}
	if !slices.Equal(r.Engines, want) {
		t.Errorf("engines %+v, want %+v", r.Engines, want)
	}
	if c := r.Today.Changed; r.Today.Same != 1 || r.Today.ChangedCount != 1 || c[0].Engine != lenient || c[0].Was != "accept" || c[0].Today != "reject" ||
		!strings.HasPrefix(c[0].Why, "sevsnp.debug-off of cpu:0: enabled: POLICY bit 19") {
		t.Errorf("today: %+v", r.Today)
	}
	text := r.Text()
	for _, line := range []string{
		"engine " + lenient.Short() + " decided accept, this build would decide reject: sevsnp.debug-off of cpu:0: enabled: ",
		"today       of 2 verdicts by other rules, this build would decide 1 otherwise\n",
		"engine      " + lenient.String() + " lenient by go1.26.8, entry 5: recomputed 2 appraisals and 0 verdicts; trusted\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q:\n%s", line, text)
		}
	}
	data, err := r.Canonical()
	s.must(err)
	s.must(canon.Unmarshal(data, new(audit.Report)))

	t.Run("as a file, by one worker", func(t *testing.T) {
		r := replay(t, s.export(), trust, audit.Options{Engines: runner})
		if again, err := r.Canonical(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%v\n%s\nwant\n%s", err, again, data)
		}
	})
	t.Run("in ranges, put together", func(t *testing.T) {
		var parts []audit.PartialReport
		for i, g := range []audit.Range{{From: 0, To: 9}, {From: 9, To: 12}, {From: 12, To: s.edge.Tree().Size}} {
			parts = append(parts, audit.PartialReport{Name: string(rune('a' + i)), Report: s.replayWith(trust, audit.Options{Engines: runner, Range: g})})
		}
		merged, err := audit.Merge(parts)
		s.must(err)
		if got, err := merged.Canonical(); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%v\n%s\nwant\n%s", err, got, data)
		}
		parts[0].Report = s.replayWith(s.trust(), audit.Options{Engines: runner, Range: audit.Range{From: 0, To: 9}})
		if _, err := audit.Merge(parts); err == nil || !strings.Contains(err.Error(), "differ in the engines") {
			t.Errorf("parts that vouch for other engines: %v", err)
		}
	})
	t.Run("within a scope", func(t *testing.T) {
		var b bytes.Buffer
		_, err := audit.ExportScope(t.Context(), s, audit.Criteria{Nodes: []string{"debug"}}, &b)
		s.must(err)
		r := replay(t, b.Bytes(), trust, audit.Options{Engines: runner})
		if r.Outcome != audit.Equal || len(r.Engines) != 2 || r.Engines[0].Appraisals != 1 || r.Today.ChangedCount != 1 {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("in a sample", func(t *testing.T) {
		for _, row := range []struct {
			trust *audit.Trust
			want  audit.Outcome
			word  string
		}{{trust, audit.Equal, "equal"}, {s.trust(), audit.NotAnchored, "equal, by an engine that the trust file does not name"}} {
			g, err := audit.ReadLog(t.Context(), s, row.trust, audit.Options{Engines: runner})
			s.must(err)
			sample, err := g.Sample(t.Context(), 1, 10, audit.ByNothing, true)
			s.must(err)
			if sample.Outcome != row.want || len(sample.Drawn) != 3 || sample.Drawn[0].Replayed != row.word || sample.Drawn[2].Replayed != "equal" {
				t.Errorf("%s, want %s\n%s", sample.Outcome, row.want, sample.Text())
			}
		}
	})
	t.Run("judged once more", func(t *testing.T) { // which of two accepts this build's rules alone would not give
		now := s.now
		r := s.replayWith(trust, audit.Options{Engines: runner, Now: &audit.Now{AsOf: now}})
		if n := r.Now; n.Standing != 1 || n.Tainted != 1 || n.Lapsed != 0 || n.Otherwise != 1 || r.ExitCode() != 1 {
			t.Fatalf("%s", r.Text())
		}
		i := slices.IndexFunc(r.Now.Changes, func(c audit.Change) bool { return c.State == audit.StateTainted })
		if c := r.Now.Changes[i]; c.Index != r.Today.Changed[0].Index || !c.Why[0].Rules || len(c.Why[0].By) != 0 || c.Since == 0 || c.Since >= now ||
			!strings.Contains(r.Text(), "by the rules of this build, which are not those that decided\n") {
			t.Errorf("%+v\n%s", c, r.Text())
		}
	})
	t.Run("challenged", func(t *testing.T) { // by this build's rules, which did not make them
		g, err := audit.ReadLog(t.Context(), s, trust, audit.Options{Engines: runner})
		s.must(err)
		r, err := g.Challenge(t.Context(), 1, 10)
		s.must(err)
		other := 0
		for _, trial := range r.Trials {
			if strings.HasPrefix(trial.What, "made by other rules than this build's") && trial.Result == audit.TrialNotApplicable {
				other++
			}
			if trial.Result == audit.TrialDiffers {
				t.Errorf("%+v", trial)
			}
		}
		if other != 2 {
			t.Errorf("%d verdicts by other rules\n%+v", other, r.Trials)
		}
	})
	t.Run("engines that nobody vouches for", func(t *testing.T) {
		r := s.replayWith(s.trust(), o)
		if r.Outcome != audit.NotAnchored || !strings.Contains(r.Text(), "equal, but undecided: 2 results by engines that the trust file does not name\n") {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("nothing to run them", func(t *testing.T) {
		r := s.replayWith(trust, audit.Options{})
		wantFault(t, r, "entry 8", "not reproducible with this build: made by the rules")
		if r.Appraisals.NotReproducible != 2 || !strings.Contains(r.Text(), "\nnot reproducible with this build: 2\n") || r.Today.ChangedCount != 1 {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("without the module", func(t *testing.T) {
		code := s.blobs[lenient]
		delete(s.blobs, lenient)
		defer func() { s.blobs[lenient] = code }()
		r := s.replayWith(trust, audit.Options{Engines: module.NewRunner(module.Limits{})})
		wantFault(t, r, "blob/"+lenient.String(), "missing")
		wantFault(t, r, "entry 8", "not reproducible with this build: made by the rules")
		if r.Appraisals.NotReproducible != 2 || r.Appraisals.Failed != 0 {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("bytes of another module", func(t *testing.T) {
		code := s.blobs[lenient]
		s.blobs[lenient] = s.blobs[today]
		defer func() { s.blobs[lenient] = code }()
		r := s.replayWith(trust, audit.Options{Engines: module.NewRunner(module.Limits{})})
		wantFault(t, r, "blob/"+lenient.String(), "its bytes have the digest "+today.String())
	})
	t.Run("an appraisal that its engine does not make", func(t *testing.T) {
		s := newService(t, "honest")
		s.runBy(runner, enginetest.Lenient)
		by := s.changeAppraisal
		s.changeAppraisal = func(a *verifier.Appraisal) {
			by(a)
			a.Claims = a.Claims[1:]
		}
		s.changeVerdict = nil
		s.serve(good)
		s.publish()
		r := s.replayWith(trust, o)
		wantFault(t, r, "entry 8", "engine "+lenient.Short()+": differs: logged")
		if r.First == nil || r.First.Index != 8 || r.Appraisals.Differ != 1 {
			t.Errorf("%s", r.Text())
		}
	})
}

// TestEngineDecides: a verdict by other policy rules is its engine's, on an appraisal that is this build's.
func TestEngineDecides(t *testing.T) {
	runner := module.NewRunner(module.Limits{})
	defer runner.Close()
	s := newService(t, "honest")
	strict := s.runBy(runner, enginetest.Strict)
	bare := newHost("bare", sevsnp.PolicySMT)
	bare.platform.Table = nil // its VCEK is for the verifier to fetch
	if v := s.serve(bare); v.Outcome != policy.Reject {
		t.Fatalf("strict: %s", v.Outcome)
	}
	s.publish()
	trust := s.trust()
	trust.Engines = []canon.Digest{strict}
	r := s.replayWith(trust, audit.Options{Engines: runner})
	if r.Outcome != audit.Equal || r.Engines[0].Appraisals != 0 || r.Engines[0].Verdicts != 1 || r.Today.ChangedCount != 1 || r.Today.Changed[0].Today != "undecided" {
		t.Errorf("%s", r.Text())
	}
	by := s.changeVerdict
	s.changeVerdict = func(v *policy.Verdict) {
		by(v)
		v.Outcome = policy.Accept
	}
	s.serve(bare)
	s.publish()
	wantFault(t, s.replayWith(trust, audit.Options{Engines: runner}), "entry 13", "engine "+strict.Short()+": differs: verdict logged accept, recomputed reject")
}

// TestFaultyEngines: an engine that is not what it is said to be, or does anything else than its job, is named.
func TestFaultyEngines(t *testing.T) {
	other := engine.Description{Version: "v", Go: "go1", Rules: engine.Rules()}
	for i := range other.Rules {
		if other.Rules[i].Room == "sevsnp" {
			other.Rules[i].Rules = 7001
		}
	}
	says := func(d engine.Description, result string) []byte {
		b, err := canon.Marshal(engine.Response{Type: engine.ResponseType, Engine: &d, Result: []byte(result)})
		if err != nil {
			t.Fatal(err)
		}
		return enginetest.Says(enginetest.Frame(b))
	}
	liar := other
	liar.Version = "another"
	for _, row := range []struct {
		name, part, what string
		make             func(*service)
	}{
		{"loops for ever", "entry 8", ", of entry 5: runs longer than 100ms", func(s *service) { s.enterEngine(enginetest.Loops, other) }},
		{"asks for files", "entry 8", ", of entry 5: asks for files or the network: path_open", func(s *service) { s.enterEngine(enginetest.Reads, other) }},
		{"says garbage", "entry 8", ", of entry 5: answers with what is no response", func(s *service) { s.enterEngine(enginetest.Says(enginetest.Frame([]byte("garbage"))), other) }},
		{"says too much", "entry 8", ", of entry 5: answers with a document of 4294967295 bytes", func(s *service) { s.enterEngine(enginetest.TooMuch, other) }},
		{"is no module", "entry 8", ", of entry 5: no WebAssembly", func(s *service) { s.enterEngine([]byte("no module"), other) }},
		{"says that it is another", "entry 8", `, of entry 5: its module says that it is version "another"`, func(s *service) { s.enterEngine(says(liar, "{}"), other) }},
		{"has no result", "entry 8", ", of entry 5: answers without a result", func(s *service) { s.enterEngine(says(other, ""), other) }},
		{"says what is no appraisal", "entry 8", ": differs: the engine answers with what is no appraisal", func(s *service) { s.enterEngine(says(other, "{}"), other) }},
		{"bears other rules than its result", "entry 8", "those of the engine that it names, of entry 5, are", func(s *service) {
			s.enterEngine(says(other, "{}"), engine.Description{Version: "v", Go: "go1", Rules: engine.Rules()})
		}},
		{"is named by nobody", "entry 7", "its result names no engine", func(*service) {}},
		{"has no entry", "entry 7", "which has no entry", func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Build.Engine = canon.Sum([]byte("none")) }
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			row.make(s)
			s.changeAppraisal = func(a *verifier.Appraisal) {
				a.Rules = slices.DeleteFunc(slices.Clone(other.Rules), func(r verifier.RoomRules) bool { return r.Room == "policy" })
			}
			s.serve(newHost("good", sevsnp.PolicySMT))
			s.publish()
			runner := module.NewRunner(module.Limits{Time: 100 * time.Millisecond})
			defer runner.Close()
			wantFault(t, s.replayWith(s.trust(), audit.Options{Engines: runner}), row.part, row.what)
		})
	}
	t.Run("is logged after it is named", func(t *testing.T) {
		s := newService(t, "honest")
		code := says(other, "{}")
		s.changeResult = func(r *policy.Result) { r.Build.Engine = canon.Sum(code) }
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.enterEngine(code, engine.Description{Version: "v", Go: "go1", Rules: engine.Rules()})
		s.publish()
		wantFault(t, s.replayWith(s.trust(), audit.Options{}), "entry 8", "was logged later, by entry 9")
	})
	t.Run("is described in two ways", func(t *testing.T) {
		s := newService(t, "honest")
		s.enterEngine(enginetest.Loops, other)
		s.enterEngine(enginetest.Loops, liar)
		s.publish()
		wantFault(t, s.replayWith(s.trust(), audit.Options{}), "entry 6", "says otherwise of the module")
	})
	t.Run("is described twice alike", func(t *testing.T) { // as by two verifiers of one log; nothing needs it, so nobody runs it
		s := newService(t, "honest")
		s.enterEngine(enginetest.Loops, other)
		s.append(ledger.KindEngine, ledger.StreamServer, s.put(other.Record(canon.Sum(enginetest.Loops), "https://another.example")))
		s.publish()
		if r := s.replayWith(s.trust(), audit.Options{}); r.Outcome != audit.Equal || len(r.Engines) != 1 {
			t.Errorf("%s", r.Text())
		}
	})
	t.Run("its entry cannot be read", func(t *testing.T) {
		s := newService(t, "honest")
		s.append(ledger.KindEngine, ledger.StreamServer, s.putBytes([]byte(`{"type":"assay/engine/v9"}`)))
		s.publish()
		wantFault(t, s.replayWith(s.trust(), audit.Options{}), "entry 5", "engine")
	})
}

// TestTrustedEngines: a trust file keeps the engines that somebody vouches for, so many and no more.
func TestTrustedEngines(t *testing.T) {
	trust := newLog(t, "honest").trust()
	for n := range audit.MaxEngines {
		trust.Engines = append(trust.Engines, canon.Sum([]byte{byte(n), byte(n >> 8)}))
	}
	again, err := audit.ParseTrust("trust.yaml", trust.Marshal())
	if err != nil || !slices.Equal(again.Engines, trust.Engines) {
		t.Errorf("%v: %d engines", err, len(again.Engines))
	}
	trust.Engines = append(trust.Engines, canon.Sum([]byte("one more")))
	if _, err := audit.ParseTrust("trust.yaml", trust.Marshal()); err == nil || !strings.Contains(err.Error(), "1025 engines, at most 1024") {
		t.Errorf("one more: %v", err)
	}
}
