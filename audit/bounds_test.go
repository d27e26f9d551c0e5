package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// newWatchedService is a service whose checkpoints three witnesses cosign.
func newWatchedService(t testing.TB) *service {
	s := newServiceAt(t, "honest", t0-120) // so that its keys stand where its clock is late
	s.now = t0
	s.watch()
	s.publish()
	return s
}

// TestTimeBounds: the time of an appraisal lies between the checkpoint that its challenge names and the first that covers
// its entry, by the times of cosignatures; and each bound holds to the second.
func TestTimeBounds(t *testing.T) {
	const width = 300 + ledger.PublishWithin
	for _, row := range []struct {
		name string
		// what happens between the challenge and the checkpoint that covers the appraisal, and when, in seconds after C
		challenge, evidence, appraisal, covered canon.Time
		between                                 canon.Time // of a checkpoint that covers the evidence alone; 0: none
		change                                  func(*service)
		contradicted                            string
		unknown                                 string
	}{
		{name: "at once", covered: 1},
		{name: "as wide as may be", evidence: 200, appraisal: 300, covered: width, between: width - 100},
		{name: "a second wider", evidence: 200, appraisal: 300, covered: width + 1, between: width - 100, contradicted: "more than 360 s apart"},
		{name: "a second wider, over a stall", evidence: 200, appraisal: 300, covered: width + 1, unknown: "stall"},
		{name: "just no stall", evidence: 200, appraisal: 300, covered: width + 1, between: width + 1 - 120, contradicted: "more than 360 s apart"},
		{name: "just a stall", evidence: 200, appraisal: 300, covered: width + 1, between: width + 1 - 121, unknown: "stall"},
		{name: "clocks a minute apart before C", appraisal: 0, covered: 1, change: func(s *service) { s.now -= 60 }},
		{name: "before C", appraisal: 0, covered: 2, change: func(s *service) { s.now -= 61 }, contradicted: "names a checkpoint that was cosigned at"},
		{name: "clocks a minute apart behind the cover", evidence: 100, appraisal: 160, covered: 100},
		{name: "behind the cover", evidence: 100, appraisal: 161, covered: 100, contradicted: "cosigned at 2026-02-01T00:01:40Z covers the entry"},
		{name: "put in two minutes later", evidence: 1, appraisal: 2, covered: 130, between: 122, change: nil},
		{name: "put in later", evidence: 1, appraisal: 2, covered: 130, between: 123, contradicted: "cosigned at 2026-02-01T00:02:03Z lacks the entry"},
		{name: "not covered", appraisal: 3, covered: -1, unknown: "not-covered"},
		{name: "no checkpoint named", covered: 1, change: func(s *service) { s.changeChallenge = func(c *attest.Challenge) { c.Checkpoint = canon.Digest{} } }, unknown: "no-checkpoint"},
		{name: "a checkpoint that one witness cosigned", covered: 1, change: func(s *service) { s.witnesses = s.witnesses[:1]; s.publish() }, unknown: "no-quorum"},
		{name: "one witness an hour behind", covered: 1, change: func(s *service) { s.skew["w1"] = -3600; s.publish() }},
		{name: "one witness an hour ahead", covered: 1, change: func(s *service) { s.skew["w3"] = 3600; s.publish() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newWatchedService(t)
			h := newHost("good", sevsnp.PolicySMT)
			if row.change != nil {
				row.change(s)
			}
			begin := s.now
			s.now = begin + row.challenge
			c := s.ask(h.node)
			s.witnesses = []string{"w1", "w2", "w3"}
			s.now = begin + row.evidence
			body, _ := s.take(c, h.answer(s.log, c.Digest()))
			if row.between != 0 {
				s.now = t0 + row.between
				s.publish()
			}
			s.now = begin + row.appraisal
			s.decide(s.judge(c, body), body)
			if row.covered >= 0 {
				s.now = t0 + row.covered
				s.publish()
			}
			trust := s.trust()
			if row.covered < 0 { // the newest checkpoint is believed, and not one of those that the source kept
				s.publish()
				clear(s.notes)
			}
			r := replay(t, s.export(), trust, audit.Options{})
			want := audit.TimeBounds{Affirmed: 1, Unknown: []audit.KindCount{}}
			switch {
			case row.contradicted != "":
				want.Affirmed, want.Contradicted = 0, 1
				wantFault(t, r, fmt.Sprintf("entry %d", s.edge.Tree().Size-2), "time.bounds: as of ")
				wantFault(t, r, fmt.Sprintf("entry %d", s.edge.Tree().Size-2), row.contradicted)
			case row.unknown != "":
				want.Affirmed, want.Unknown = 0, []audit.KindCount{{Kind: row.unknown, Count: 1}}
			}
			if row.contradicted == "" && r.Outcome != audit.Equal {
				t.Errorf("%s", r.Text())
			}
			if fmt.Sprint(r.Time) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v\n%s", r.Time, want, r.Text())
			}
		})
	}
}

// TestTimeWithoutWitnesses: to who trusts no witness, time is the operator's word, whatever stands on the checkpoints; and
// the words say so.
func TestTimeWithoutWitnesses(t *testing.T) {
	s := newWatchedService(t)
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	trust := s.trust()
	r := replay(t, s.export(), trust, audit.Options{})
	if !strings.Contains(r.Text(), "\ntime        1 appraisals between cosignatures, 0 contradicted\n") {
		t.Errorf("%s", r.Text())
	}
	trust.Witnesses = nil
	r = replay(t, s.export(), trust, audit.Options{})
	if r.Outcome != audit.Equal || !strings.Contains(r.Text(), "\ntime        operator's word\n") || r.Time.Affirmed != 0 {
		t.Errorf("%s", r.Text())
	}
}

// TestSplitView: a challenge that names a checkpoint which is no state of this log is found, also where everything else
// fits; one that the log's key signed proves that somebody was shown another history.
func TestSplitView(t *testing.T) {
	forked := func(s *service) []byte {
		l := newSnapshot(s).restore(s.t)
		l.append(ledger.KindReference, ledger.StreamServer, l.put("another history"))
		l.publish()
		s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references)) // as long, with another last entry
		return l.note
	}
	for _, row := range []struct {
		name string
		note func(*service) []byte
		want string
	}{
		{"of this log", func(s *service) []byte { return s.note }, ""},
		{"of this log, of before", func(s *service) []byte { n := s.note; s.serve(newHost("good", sevsnp.PolicySMT)); return n }, ""},
		{"a fork", forked, "split view: names a checkpoint of size 6 with the root"},
		{"a fork that somebody else signed", func(s *service) []byte {
			note := forked(s)
			other := newLog(s.t, "forger")
			text, _, _ := bytes.Cut(note, []byte("\n\n"))
			c, err := ledger.ParseCheckpoint(string(text) + "\n")
			s.must(err)
			return other.sign(c.Tree)
		}, "that is not this log's: checkpoint of"},
		{"of the future", func(s *service) []byte {
			l := newSnapshot(s).restore(s.t)
			l.append(ledger.KindChallenge, ledger.StreamVerifier, canon.Sum(nil))
			return l.publish().note
		}, "names a checkpoint of size 6, which its own entry would be part of"},
		{"no checkpoint at all", func(*service) []byte { return []byte("note") }, "names a checkpoint " + canon.Sum([]byte("note")).String() + " that is not this log's"},
		{"a cosignature that does not verify", func(s *service) []byte {
			s.now++ // the line of another moment under the same name
			line := bytes.SplitAfter(s.sign(s.edge.Tree()), []byte("\n"))[5]
			old := bytes.SplitAfter(s.note, []byte("\n"))[5]
			forged := bytes.Clone(old)
			copy(forged[len(forged)-40:], line[len(line)-40:])
			return bytes.Replace(s.note, old, forged, 1)
		}, "the challenge names a checkpoint: checkpoint of size 5"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newWatchedService(t)
			note := row.note(s)
			s.changeChallenge = func(c *attest.Challenge) { c.Checkpoint = s.putBytes(note) }
			index := s.edge.Tree().Size
			s.serve(newHost("good", sevsnp.PolicySMT))
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			if strings.HasPrefix(row.want, "the challenge") {
				index += 2 // the appraisal's
			}
			wantFault(t, r, fmt.Sprintf("entry %d", index), row.want)
		})
	}
	t.Run("a checkpoint that the export lacks", func(t *testing.T) {
		s := newWatchedService(t)
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.publish()
		c := canon.Sum([]byte("nowhere"))
		s.changeChallenge = func(ch *attest.Challenge) { ch.Checkpoint = c }
		s.serve(newHost("good", sevsnp.PolicySMT))
		s.publish()
		r, err := audit.Replay(t.Context(), s, s.trust(), audit.Options{})
		s.must(err)
		wantFault(t, r, "blob/"+c.String(), "missing")
	})
}

// TestWitnessedPromises: with witnesses, a promise is held against the times of cosignatures and not those of entries; an
// entry that came late was withheld.
func TestWitnessedPromises(t *testing.T) {
	const by = ledger.PublishWithin
	for _, row := range []struct {
		name   string
		enters bool         // the entry stands in the log in the end
		before []canon.Time // of checkpoints without it, in seconds after it was received
		after  canon.Time   // of the first with it, and of the last of all
		state  string
		what   string
	}{
		{"in time", true, nil, 10, audit.PromiseKept, "in the checkpoint of size 9, cosigned at 2026-02-01T00:00:11Z"},
		{"to the second", true, []canon.Time{by}, by, audit.PromiseKept, "in the checkpoint of size 9, cosigned at 2026-02-01T00:01:01Z"},
		{"late after a stall", true, nil, 10 * by, audit.PromiseKept, "no cosigned checkpoint that is kept shows when it came"},
		{"late", true, []canon.Time{by + 1}, 10 * by, audit.PromiseWithheld, "the checkpoint of size 6, cosigned at 2026-02-01T00:01:02Z, lacks it; entry 6 came later"},
		{"never", false, nil, by + 1, audit.PromiseWithheld, "cosigned at 2026-02-01T00:01:02Z, lacks it"},
		{"not due", false, nil, by, audit.PromiseOpen, "the newest checkpoint was cosigned at 2026-02-01T00:01:01Z"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newWatchedService(t)
			h := newHost("good", sevsnp.PolicySMT)
			c := s.ask(h.node)
			whole := s
			if !row.enters {
				l := newSnapshot(s).restore(t)
				whole = &service{log: l, policy: s.policy, references: s.references, collateral: s.collateral, roots: s.roots}
			}
			received := s.now
			kept := newSnapshot(s)
			body, commitment := s.take(c, h.answer(s.log, c.Digest()))
			_, taken, err := ledger.ParseOpening(s.blobs[commitment])
			s.must(err)
			if taken.Time != received {
				t.Fatal("received at another time")
			}
			for _, at := range row.before {
				l := kept.restore(t)
				l.now = received + at
				l.publish()
				s.notes[l.edge.Tree().Size] = l.note
			}
			if row.enters {
				s.decide(s.judge(c, body), body)
				s.now = received + row.after
				// A checkpoint between evidence and appraisal would be kept too, if anything were bracketed by it.
				s.publish()
				s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references))
				s.publish()
			} else {
				whole.now = received + row.after
				whole.append(ledger.KindReference, ledger.StreamServer, whole.put(s.references))
				whole.publish()
			}
			env, err := ledger.SealPromise(ledger.NewPromise(origin, commitment, taken), s.key(ledger.UsePromise))
			s.must(err)
			r := replay(t, whole.export(), s.trust(), audit.Options{Promises: []audit.GivenPromise{{Name: "p.json", Data: s.bytes(env)}}})
			if len(r.Promises) != 1 || r.Promises[0].State != row.state || !strings.Contains(r.Promises[0].What, row.what) {
				t.Errorf("want %s: %s\n%s", row.state, row.what, r.Text())
			}
		})
	}
}

// TestKeptCheckpoints: an export carries the checkpoints that bracket appraisals, twice for each at most, in one order; and
// a folder of the same is read alike.
func TestKeptCheckpoints(t *testing.T) {
	s := newWatchedService(t)
	for range 5 {
		s.serve(newHost("good", sevsnp.PolicySMT))
		for range 3 { // what publishes and judges nothing is not carried
			s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references))
			s.publish()
		}
	}
	export, trust := s.export(), s.trust()
	r := replay(t, export, trust, audit.Options{})
	if r.Outcome != audit.Equal || r.Time.Affirmed != 5 {
		t.Fatalf("%s", r.Text())
	}
	var kept []string
	unpacked := fstest.MapFS{}
	for _, g := range regions(t, export) {
		if g.field == "content" {
			unpacked[g.part] = &fstest.MapFile{Data: export[g.from:g.to]}
			if strings.HasPrefix(g.part, "checkpoints/") {
				kept = append(kept, g.part)
			}
		}
	}
	if want := []string{"checkpoints/5", "checkpoints/10", "checkpoints/12", "checkpoints/17", "checkpoints/19", "checkpoints/24", "checkpoints/26", "checkpoints/31", "checkpoints/33", "checkpoints/38"}; fmt.Sprint(kept) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", kept, want)
	}
	again, err := audit.Replay(t.Context(), audit.Directory(unpacked), trust, audit.Options{})
	s.must(err)
	if a, b := s.bytes(r), s.bytes(again); !bytes.Equal(a, b) {
		t.Errorf("a folder of the same:\n%s", again.Text())
	}
	// The log's own signature alone bears no time, and is not carried.
	s.witnesses = nil
	for size := range s.notes {
		s.notes[size] = s.sign(s.edge.Tree())
	}
	plain := newService(t, "honest")
	plain.serve(newHost("good", sevsnp.PolicySMT))
	plain.notes = map[int64][]byte{}
	plain.publish()
	plain.notes[plain.edge.Tree().Size] = plain.note
	for _, g := range regions(t, plain.export()) {
		if strings.HasPrefix(g.part, "checkpoints/") {
			t.Errorf("%s: it bears no time", g.part)
		}
	}
}

// TestKeptFlips changes bytes of the kept checkpoints of a bare quorum, all of them under ASSAY_LONG: with any of them
// changed, the time that they bracket is no longer affirmed.
func TestKeptFlips(t *testing.T) {
	s := newService(t, "honest")
	s.watch()
	s.witnesses = s.witnesses[:2]
	s.publish()
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	export, trust := s.export(), s.trust()
	memory := attest.NewMemory()
	n, stride := 0, 11
	if os.Getenv("ASSAY_LONG") == "1" {
		stride = 1
	}
	for _, g := range regions(t, export) {
		if !strings.HasPrefix(g.part, "checkpoints/") {
			continue
		}
		for at := g.from; at < g.to; at += stride {
			changed := bytes.Clone(export)
			changed[at] ^= 1 << (at % 8)
			r, err := audit.ReplayFile(t.Context(), bytes.NewReader(changed), int64(len(changed)), trust, audit.Options{Memory: memory})
			s.must(err)
			if n++; r.Outcome == audit.Equal && r.Time.Affirmed == 1 {
				t.Errorf("byte %d, %s of %s: not found", at, g.field, g.part)
			}
		}
	}
	if n < 2*512/stride {
		t.Errorf("%d bytes were changed", n)
	}
}

// TestEvidenceAge: the age of evidence counts from the time at which witnesses cosigned the checkpoint that its challenge
// names. An operator who dates a challenge later makes no evidence younger by it, and one who does not count so is named.
func TestEvidenceAge(t *testing.T) {
	const later = 25 * 3600 // s, more than the policy allows
	for _, row := range []struct {
		name         string
		tell         func(told *canon.Time, c attest.Challenge)
		from         canon.Time // that age counts from, after C
		outcome      policy.Outcome
		contradicted string
	}{
		{"honest", func(*canon.Time, attest.Challenge) {}, 0, policy.Reject, ""},
		{"told a minute later", func(told *canon.Time, _ attest.Challenge) { *told += 60 }, 60, policy.Reject, ""},
		{"told later", func(told *canon.Time, _ attest.Challenge) { *told += 61 }, 61, policy.Reject,
			"evidence age contradicted: told that the checkpoint of the challenge was cosigned at 2026-02-01T00:01:01Z, it was at 2026-02-01T00:00:00Z"},
		{"told the operator's time", func(told *canon.Time, c attest.Challenge) { *told = c.Issued }, later, policy.Accept, "evidence age contradicted: told that the checkpoint"},
		{"told nothing", func(told *canon.Time, _ attest.Challenge) { *told = 0 }, later, policy.Accept,
			"evidence age contradicted: counted from 2026-02-02T01:00:00Z by the operator's clock alone, the challenge names a checkpoint that was cosigned at 2026-02-01T00:00:00Z"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newWatchedService(t)
			h := newHost("good", sevsnp.PolicySMT)
			s.now = t0 + later
			c := s.ask(h.node) // names the checkpoint of t0
			body, _ := s.take(c, h.answer(s.log, c.Digest()))
			s.changeExpect = func(e *attest.Expect) { row.tell(&e.Cosigned, c) }
			a := s.judge(c, body)
			v := s.decide(a, body)
			s.publish()
			for claim, subject := range map[string]string{"binding.challenge": "node", "sevsnp.freshness": "cpu:0"} {
				if got := a.Claims.Find(claim, subject).From; got != t0+row.from {
					t.Errorf("%s from %s, want %s", claim, got, t0+row.from)
				}
			}
			if v.Outcome != row.outcome {
				t.Errorf("%s %+v, want %s", v.Outcome, v.Reasons, row.outcome)
			}
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if got := strings.Contains(r.Text(), "evidence age contradicted"); got != (row.contradicted != "") || !strings.Contains(r.Text(), row.contradicted) {
				t.Errorf("%s\nwant %q", r.Text(), row.contradicted)
			}
			if r.Appraisals.Differ+r.Verdicts.Differ != 0 || r.Verdicts.Replayed != 1 {
				t.Errorf("%s", r.Text())
			}
		})
	}
}
