package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// remembered returns what the node remembers of its stream.
func (w *world) remembered() agent.Stream {
	w.t.Helper()
	s, err := agent.OpenStore(w.dir).Stream(fakeserver.Node)
	must(w.t, err)
	return s
}

// wantFault checks that the one fault of the log says something, is said aloud, counted and proven, and survives a restart.
func (w *world) wantFault(what string, checkpoint, promise bool) {
	w.t.Helper()
	w.join()
	s := w.remembered()
	if what == "" {
		if len(s.Faults) != 0 || strings.Contains(w.log.String(), "the log is at fault") {
			w.t.Errorf("faults %+v, want none", s.Faults)
		}
		return
	}
	if len(s.Faults) != 1 || !strings.Contains(s.Faults[0].What, what) {
		w.t.Fatalf("faults %+v, want one: %q", s.Faults, what)
	}
	if f := s.Faults[0]; (f.Promise != nil) != promise || (f.Checkpoint != "") != checkpoint || f.At == 0 {
		w.t.Errorf("fault %+v: want a promise with it: %v, a checkpoint: %v", f, promise, checkpoint)
	}
	if !strings.Contains(w.log.String(), `level=ERROR msg="the log is at fault" what=`) {
		w.t.Errorf("the fault is not said:\n%s", w.log.String())
	}
}

// TestPromiseIsChecked: each promise is looked for in the log when its time has come, and no sooner. One whose entry the
// log lacks is a fault that is proven by the promise and the checkpoint; the rounds go on.
func TestPromiseIsChecked(t *testing.T) {
	for _, row := range []struct {
		name  string
		lose  bool
		after time.Duration
		held  int // promises that wait still, that of the last round included
		kept  int64
		fault string
	}{
		{"kept", false, 2*time.Minute + time.Second, 1, 1, ""},
		{"not due", true, time.Minute, 2, 0, ""},
		{"withheld", true, 2*time.Minute + time.Second, 1, 0, "withheld: entry 0 of this node's stream was to be published by 2026-02-01T00:01:00Z, and the newest checkpoint, of size"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t)
			w.server.Lose = row.lose
			w.mustRound()
			w.server.Lose = false
			begin := w.server.Bundles
			w.advance(row.after - w.clock().Sub(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)))
			w.mustRound()
			if len(w.server.Bundles) != len(begin)+1 {
				t.Error("the round did not go on")
			}
			if s := w.remembered(); len(s.Held) != row.held || s.Kept != row.kept {
				t.Errorf("%+v: want %d held, %d kept", s, row.held, row.kept)
			}
			if faults := w.metrics()["assay_agent_log_faults_total"]; (faults == 1) != (row.fault != "") {
				t.Errorf("metrics count %v faults", faults)
			}
			w.wantFault(row.fault, true, true)
		})
	}
}

// TestPlaceIsChecked: a promise continues the one before it.
func TestPlaceIsChecked(t *testing.T) {
	for _, row := range []struct {
		name   string
		before func(*world, *agent.Stream) // change of what is remembered after one round
		lost   bool                        // the answer to a submission between is lost
		fault  string
	}{
		{"the next one", func(*world, *agent.Stream) {}, false, ""},
		{"the same place twice", func(_ *world, s *agent.Stream) { s.Next = 2 }, false, "promised place 1 of this node's stream, after place 1 was promised"},
		{"behind another entry", func(_ *world, s *agent.Stream) { s.Last[0] ^= 1 }, false, "its last entry was"},
		{"entries of somebody else", func(w *world, _ *agent.Stream) { w.foreign() }, false, "1 entries between are not this agent's, 0 of its own had no answer"},
		{"an own entry whose promise was lost", func(*world, *agent.Stream) {}, true, ""},
		{"of another node, before it joined anew", func(_ *world, s *agent.Stream) { s.Node, s.Next = "node-0", 9 }, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t)
			w.mustRound()
			s := w.remembered()
			if s.Next != 1 || s.Last.IsZero() || s.Sent != 0 {
				t.Errorf("after one round %+v", s)
			}
			s.Asked = canon.At(w.clock()) // heads are another test's
			row.before(w, &s)
			must(t, agent.OpenStore(w.dir).SaveStream(s))
			if row.lost { // the server took it; the agent gave up waiting, and ended
				w.server.Alter = func(v any) {
					if sub, ok := v.(*client.Submitted); ok {
						sub.Promise.Signatures[0].Sig[0] ^= 1
					}
				}
				if err := w.round(); err == nil {
					t.Fatal("a promise that nobody signed was taken")
				}
				w.server.Alter = nil
				w.join()
			}
			w.mustRound()
			w.wantFault(row.fault, false, true)
		})
	}
}

// foreign takes evidence in the node's name, as whoever stole its credential would hand it in.
func (w *world) foreign() {
	w.t.Helper()
	other := &world{t: w.t, now: w.now, boot: "boot-2", dir: w.t.TempDir(), tsm: w.tsm, server: w.server}
	node, err := agent.OpenStore(w.dir).Node()
	must(w.t, err)
	must(w.t, agent.OpenStore(other.dir).SaveNode(node))
	other.join()
	other.mustRound()
}

// TestHeadIsChecked: once an hour the agent asks for the head of its stream, which has to cover what it was promised, never
// goes back, and ends with the entry that the agent knows.
func TestHeadIsChecked(t *testing.T) {
	stream, another := ledger.NodeStream(fakeserver.Node), canon.Sum([]byte("another"))
	for _, row := range []struct {
		name  string
		tail  func(lasts []canon.Digest) ledger.Tail // at the last of four rounds: three entries stand, of which a head of two was seen
		after time.Duration                          // since the third round
		fault string
	}{
		{"covered", nil, 2 * time.Hour, ""},
		{"one short", func(l []canon.Digest) ledger.Tail { return ledger.Tail{Next: 2, Last: l[1]} }, 2 * time.Hour, "no head covers entry 2 of this node's stream and what follows, received 2026-02-01T04:00:"},
		{"one short, and nothing due", func(l []canon.Digest) ledger.Tail { return ledger.Tail{Next: 2, Last: l[1]} }, 71 * time.Minute, ""},
		{"not there", func([]canon.Digest) ledger.Tail { return ledger.Tail{} }, 2 * time.Hour, "no head covers entry 2"},
		{"back", func(l []canon.Digest) ledger.Tail { return ledger.Tail{Next: 1, Last: l[0]} }, 71 * time.Minute, "goes back: 1 entries, a head of 2 was seen"},
		{"another entry", func([]canon.Digest) ledger.Tail { return ledger.Tail{Next: 3, Last: another} }, 2 * time.Hour, "of 3 entries, ends with " + another.String()},
		{"another entry than in the head before", func([]canon.Digest) ledger.Tail { return ledger.Tail{Next: 2, Last: another} }, 71 * time.Minute, "of 2 entries, ends with " + another.String()},
		{"more than was sent", func([]canon.Digest) ledger.Tail { return ledger.Tail{Next: 4, Last: another} }, 2 * time.Hour, "has 4 entries, this agent knows of 3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t)
			var lasts []canon.Digest
			for range 3 {
				w.mustRound()
				lasts = append(lasts, w.remembered().Last)
				w.advance(2 * time.Hour)
			}
			if s := w.remembered(); s.Next != 3 || s.Covered != 2 || s.Head != lasts[1] || s.Uncovered == 0 {
				t.Fatalf("%+v", s)
			}
			w.advance(row.after - 2*time.Hour)
			if row.tail != nil {
				w.server.Heads = func(m map[string]ledger.Tail) { m[stream] = row.tail(lasts) }
			}
			w.mustRound()
			w.wantFault(row.fault, row.name != "not there", false)
		})
	}
}

// TestLogOutOfReach: who cannot look at the log says so, accuses nobody, and looks again.
func TestLogOutOfReach(t *testing.T) {
	w := start(t)
	w.mustRound()
	w.advance(2 * time.Hour)
	w.server.Refuse = func(path string) *client.Problem {
		if path == "/log/checkpoint" || strings.HasPrefix(path, "/v1/heads/") {
			return &client.Problem{Status: 503}
		}
		return nil
	}
	w.mustRound()
	if s := w.remembered(); len(s.Held) != 2 || s.Asked != 0 || !strings.Contains(w.log.String(), "the log was not checked") {
		t.Errorf("%+v\n%s", s, w.log.String())
	}
	w.server.Refuse = nil
	w.mustRound()
	if s := w.remembered(); s.Kept != 1 || s.Asked == 0 {
		t.Errorf("%+v, want the first promise kept and a head seen", s)
	}
	w.wantFault("", false, false)
	must(t, os.WriteFile(filepath.Join(w.dir, "stream.json"), []byte("{}"), 0o600))
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "stream.json") {
		t.Errorf("a damaged state: %v, want an error that names the file", err)
	}
}
