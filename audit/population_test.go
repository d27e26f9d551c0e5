package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// reading reads a log through with the honest log's trust.
func reading(t testing.TB, l *log) *audit.Reading {
	t.Helper()
	g, err := audit.ReadLog(t.Context(), l, l.trust(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// population returns the rows of a log and their totals.
func population(t testing.TB, g *audit.Reading) (rows []audit.Row, totals audit.Totals) {
	t.Helper()
	sums := g.Tally()
	for row, err := range g.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		sums.Add(row)
		rows = append(rows, row)
	}
	return rows, sums.Totals()
}

func TestPopulation(t *testing.T) {
	s := busy(t, 2)
	rows, totals := population(t, reading(t, s.log))
	r := replay(t, s.export(), s.trust(), audit.Options{})
	if totals.Outcome != audit.Equal || totals.Rows != r.Verdicts.Logged || totals.Verdicts != totals.Rows || !slices.Equal(totals.Outcomes, r.Outcomes) || totals.Faulty != 0 {
		t.Errorf("totals %+v\nreplay\n%s", totals, r.Text())
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows", len(rows))
	}
	id, err := ledger.KeyID(s.key(ledger.UseResult).Public())
	s.must(err)
	reasons := map[string][]string{"accept": {}, "reject": {"sevsnp.debug-off@cpu:0 enabled"}, "undecided": {"sevsnp.chain@cpu:0 collateral-missing"}}
	nodes := map[string]string{"accept": "good", "reject": "debug", "undecided": "bare"}
	for _, row := range rows {
		if row.Node != nodes[row.Outcome] || row.Policy != s.policy.Digest() || row.PolicyName != "confidential-cpu" || row.Key != id || row.Fault != "" {
			t.Errorf("%+v", row)
		}
		if len(row.Rules) != 9 || row.Rules[8] != (verifier.RoomRules{Room: "policy", Rules: policy.Rules}) {
			t.Errorf("rules %+v", row.Rules)
		}
		for _, want := range reasons[row.Outcome] {
			if !slices.Contains(row.Reasons, want) {
				t.Errorf("%s: reasons %q, want %q", row.Outcome, row.Reasons, want)
			}
		}
		if _, ok := s.blobs[row.Evidence]; !ok || row.Evidence.IsZero() {
			t.Errorf("evidence %s is no blob", row.Evidence)
		}
		if got := row.Record(); len(got) != len(audit.PopulationColumns) {
			t.Errorf("%d columns, %d names", len(got), len(audit.PopulationColumns))
		}
	}
}

// TestPopulationKeepsFaultyVerdicts: whatever is wrong with a verdict, its entry has a row, and the outcomes are those that
// a replay counts.
func TestPopulationKeepsFaultyVerdicts(t *testing.T) {
	good := func() *host { return newHost("good", sevsnp.PolicySMT) }
	for _, row := range []struct {
		name    string
		fault   string // of the row; "": none
		outcome string // of the row
		tamper  func(*service)
	}{
		{"none", "", "accept", func(s *service) { s.serve(good()) }},
		{"signed by another key", "not signed by a result key", "", func(s *service) {
			c := s.ask("good")
			body, _ := s.take(c, good().answer(s.log, c.Digest()))
			a := s.judge(c, body)
			r := policy.Result{Type: policy.ResultType, Evidence: body, Appraisal: canon.Sum(s.bytes(a)), Policy: s.policy.Digest(), Verdict: policy.Decide(a.Claims, s.policy, s.now)}
			env, err := ledger.Seal(policy.ResultType, s.bytes(r), newKey("other"))
			s.must(err)
			s.append(ledger.KindVerdict, ledger.StreamVerifier, s.put(env), r.Appraisal, r.Policy)
		}},
		{"on other evidence", "on the evidence", "", func(s *service) {
			s.changeResult = func(r *policy.Result) { r.Evidence[0] ^= 1 }
			s.serve(good())
		}},
		{"of a time before its appraisal", "the appraisal is as of", "", func(s *service) {
			s.changeVerdict = func(v *policy.Verdict) { v.AsOf -= 1000 }
			s.serve(good())
		}},
		{"resting on nothing", "refs do not name", "", func(s *service) {
			s.append(ledger.KindVerdict, ledger.StreamVerifier, s.put(s.keyset()))
		}},
		{"of an appraisal without rules", "made by no rules", "", func(s *service) {
			s.changeAppraisal = func(a *verifier.Appraisal) { a.Rules = []verifier.RoomRules{} }
			s.serve(good())
		}},
		{"out of its stream's order", "stream verifier", "accept", func(s *service) {
			c := s.ask("good")
			body, _ := s.take(c, good().answer(s.log, c.Digest()))
			a := s.judge(c, body)
			tail := s.streams[ledger.StreamVerifier]
			s.streams[ledger.StreamVerifier] = ledger.Tail{Next: tail.Next + 1, Last: tail.Last}
			s.decide(a, body)
		}},
		{"whose evidence is gone", "missing", "", func(s *service) {
			s.serve(good())
			for d, b := range s.blobs {
				if bytes.Contains(b, []byte(`"payloadType":"assay/bundle/v1"`)) {
					delete(s.blobs, d)
				}
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			row.tamper(s)
			s.publish()
			rows, totals := population(t, reading(t, s.log))
			r, err := audit.Replay(t.Context(), s, s.trust(), audit.Options{})
			s.must(err)
			if len(rows) != 1 || totals.Rows != r.Verdicts.Logged || !slices.Equal(totals.Outcomes, r.Outcomes) {
				t.Fatalf("rows %+v\noutcomes %v, replay %v", rows, totals.Outcomes, r.Outcomes)
			}
			if got := rows[0]; got.Outcome != row.outcome || !strings.Contains(got.Fault, row.fault) || (row.fault == "") != (got.Fault == "") {
				t.Errorf("%+v", got)
			}
			if (totals.Outcome == audit.Equal) != (row.fault == "") {
				t.Errorf("outcome %s", totals.Outcome)
			}
		})
	}
}

// TestPopulationOfAnotherTree: leaves that are not the checkpoint's give no rows at all.
func TestPopulationOfAnotherTree(t *testing.T) {
	s := busy(t, 1)
	other := newSnapshot(s).restore(t)
	for tile, data := range other.tiles {
		if tile.Level == ledger.EntriesLevel {
			data[len(data)-1] ^= 1
		}
	}
	rows, totals := population(t, reading(t, other))
	if len(rows) != 0 || totals.Outcome != audit.Faulty || len(totals.Faults) == 0 {
		t.Errorf("%d rows, %+v", len(rows), totals)
	}
}

// TestPopulationEscapes: a stranger's text moves no cursor.
func TestPopulationEscapes(t *testing.T) {
	s := newService(t, "honest")
	s.serve(newHost("=1+1\x1b[2J", sevsnp.PolicySMT))
	s.publish()
	rows, _ := population(t, reading(t, s.log))
	if got := rows[0].Record()[2]; got != "=1+1?[2J" {
		t.Errorf("node %q", got)
	}
}

func TestSample(t *testing.T) {
	s := busy(t, 10) // ten of each outcome
	g := reading(t, s.log)
	sample := func(seed, size int64, by string) audit.Sample {
		t.Helper()
		x, err := g.Sample(t.Context(), seed, size, by, false)
		s.must(err)
		return x
	}
	a := sample(7, 8, audit.ByOutcome)
	if b := sample(7, 8, audit.ByOutcome); !bytes.Equal(s.bytes(a), s.bytes(b)) {
		t.Error("one seed gives two samples")
	}
	if b := sample(8, 8, audit.ByOutcome); slices.EqualFunc(a.Drawn, b.Drawn, func(x, y audit.Drawn) bool { return x.Row.Index == y.Row.Index }) {
		t.Error("two seeds give one sample")
	}
	if want := []audit.Stratum{{"accept", 10, 3}, {"reject", 10, 3}, {"undecided", 10, 2}}; !slices.Equal(a.Strata, want) {
		t.Errorf("strata %+v, want %+v", a.Strata, want)
	}
	if len(a.Drawn) != 8 || a.Population != 30 || a.Outcome != audit.Equal {
		t.Errorf("%d of %d, %s", len(a.Drawn), a.Population, a.Outcome)
	}
	// Drawn again by the words of SampleMethod alone.
	rows, _ := population(t, g)
	for _, d := range a.Drawn {
		var members []int64
		for _, r := range rows {
			if r.Outcome == d.Stratum {
				members = append(members, r.Index)
			}
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "assay/sample/v1\n7\n%s\n%d\n", d.Stratum, d.Draw))
		if n := binary.BigEndian.Uint64(sum[:]) % uint64(len(members)); int64(n) != d.Number || members[n] != d.Row.Index || d.Row.Outcome != d.Stratum {
			t.Errorf("draw %d of %s is number %d, the sample says %+v", d.Draw, d.Stratum, n, d)
		}
	}
	all := sample(1, 1000, audit.ByNothing)
	if len(all.Drawn) != 30 || len(all.Strata) != 1 || all.Strata[0].Name != "all" {
		t.Errorf("%d drawn of a population of 30, strata %+v", len(all.Drawn), all.Strata)
	}
	for by, want := range map[string][]string{audit.ByNode: {"bare", "debug", "good"}, audit.ByMonth: {"2026-02"}, audit.ByPolicy: {s.policy.Digest().String()}} {
		var names []string
		for _, st := range sample(1, 5, by).Strata {
			names = append(names, st.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("by %s: strata %q, want %q", by, names, want)
		}
	}
	if one := sample(3, 2, audit.ByOutcome); len(one.Drawn) != 2 { // fewer than strata
		t.Errorf("%d drawn, want 2: %+v", len(one.Drawn), one.Strata)
	}
	for _, bad := range []struct {
		seed, size int64
		by         string
	}{{-1, 1, ""}, {canon.MaxInt + 1, 1, ""}, {1, 0, ""}, {1, audit.MaxSample + 1, ""}, {1, 1, "colour"}} {
		if _, err := g.Sample(t.Context(), bad.seed, bad.size, bad.by, false); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestShares: what SampleMethod says of the share of each stratum.
func TestShares(t *testing.T) {
	for _, row := range []struct {
		sample      int64
		sizes, want []int64
	}{
		{0, nil, []int64{}},
		{3, []int64{1, 1, 1}, []int64{1, 1, 1}},
		{10, []int64{100, 1, 1}, []int64{8, 1, 1}},
		{10, []int64{50, 50}, []int64{5, 5}},
		{11, []int64{50, 50}, []int64{6, 5}}, // the first of equal remainders
		{2, []int64{1, 10, 100}, []int64{0, 0, 2}},
		{4, []int64{1, 1, 1_000_000}, []int64{1, 1, 2}},
		{100_000, []int64{1 << 52, 1 << 52}, []int64{50_000, 50_000}}, // products beyond 64 bits
	} {
		if got := audit.Shares(row.sample, row.sizes); !slices.Equal(got, row.want) {
			t.Errorf("shares of %d among %d: %d, want %d", row.sample, row.sizes, got, row.want)
		}
	}
}

// TestDrawsGolden pins draws, so that a sample of today is drawn again in ten years.
func TestDrawsGolden(t *testing.T) {
	got := audit.DrawNumbers(20260201, "accept", 1000, 6)
	if want := []int64{853, 298, 73, 914, 184, 404}; !slices.Equal(got, want) {
		t.Errorf("draws %d, want %d", got, want)
	}
	if all := audit.DrawNumbers(1, "", 50, 50); len(all) != 50 || len(maps.Collect(indexed(all))) != 50 {
		t.Errorf("%d of 50 drawn", len(all))
	}
}

func indexed(numbers []int64) func(func(int64, bool) bool) {
	return func(yield func(int64, bool) bool) {
		for _, n := range numbers {
			if !yield(n, true) {
				return
			}
		}
	}
}

// TestSampleReplays: a drawn verdict that does not follow is found, its neighbours are not blamed.
func TestSampleReplays(t *testing.T) {
	s := newService(t, "honest")
	h := newHost("good", sevsnp.PolicySMT)
	s.serve(h)
	s.changeVerdict = func(v *policy.Verdict) { v.Outcome = policy.Undecided }
	s.serve(h)
	s.publish()
	g := reading(t, s.log)
	without, err := g.Sample(t.Context(), 1, 9, audit.ByNothing, false)
	s.must(err)
	if without.Outcome != audit.Equal || without.Drawn[1].Replayed != "" {
		t.Errorf("without replay: %s, %+v", without.Outcome, without.Drawn[1])
	}
	with, err := g.Sample(t.Context(), 1, 9, audit.ByNothing, true)
	s.must(err)
	if with.Outcome != audit.Faulty || with.Drawn[0].Replayed != "equal" || !strings.Contains(with.Drawn[1].Replayed, "differs: verdict logged undecided, recomputed accept") {
		t.Errorf("%s", with.Text())
	}
}
