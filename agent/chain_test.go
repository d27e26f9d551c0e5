package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// believed returns the name of the log whose checkpoint the node believes.
func (w *world) believed() string {
	w.t.Helper()
	note, err := os.ReadFile(filepath.Join(w.dir, "checkpoint"))
	must(w.t, err)
	c, err := ledger.ReadCheckpoint(note)
	must(w.t, err)
	return c.Origin
}

// TestAgentGoesOnInTheNextLog: logs are closed, one or two at once, and the node goes on without a new enrolment. What it
// was promised in a log it finds there, and its streams begin anew.
func TestAgentGoesOnInTheNextLog(t *testing.T) {
	for _, row := range []struct {
		name  string
		close []string
		lose  bool // the entry of the first round
		heads func(map[string]ledger.Tail)
		kept  int64
		fault string
	}{
		{name: "one", close: []string{"second.test/log"}, kept: 3},
		{name: "two", close: []string{"second.test/log", "third.test/log"}, kept: 3},
		{name: "a promise that the closed log did not keep", close: []string{"second.test/log"}, lose: true, kept: 2, fault: "withheld: entry 0 of this node's stream"},
		{name: "a closing head that lacks an entry", close: []string{"second.test/log"}, kept: 3, fault: `the log "assay.test/log" was closed, and no head of it covers entry 0`,
			heads: func(tails map[string]ledger.Tail) { tails["node:node-1"] = ledger.Tail{Next: 0} }},
		{name: "a closing head that has another entry", close: []string{"second.test/log"}, kept: 3, fault: "ends with",
			heads: func(tails map[string]ledger.Tail) {
				tails["node:node-1"] = ledger.Tail{Next: 1, Last: tails["server"].Last}
			}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := start(t)
			w.server.Lose = row.lose
			w.mustRound()
			w.server.Lose = false
			w.server.Heads = row.heads
			for _, next := range row.close {
				w.server.Close(next)
			}
			w.server.Heads = nil
			w.advance(time.Minute)
			w.mustRound()
			newest := row.close[len(row.close)-1]
			if got := w.believed(); got != newest {
				t.Errorf("believes the log %q, want %q", got, newest)
			}
			w.join() // a restart
			w.advance(2 * time.Minute)
			w.mustRound()
			w.advance(3 * time.Hour)
			w.mustRound()
			s := w.remembered()
			if s.Kept != row.kept || len(s.Held) != 1 || s.Next != 3 || s.Origin != newest || len(w.server.Bundles) != 4 {
				t.Errorf("%+v, want %d kept, in the log %q", s, row.kept, newest)
			}
			w.wantFault(row.fault, row.lose || strings.Contains(row.fault, "ends with"), row.lose)
			if node, err := agent.OpenStore(w.dir).Node(); err != nil || node.Keyset.Origin != newest {
				t.Errorf("pinned %q, %v", node.Keyset.Origin, err)
			}
		})
	}
}

// TestWitnessPolicyOfTheNextLog: a node whose operator's witness policy names logs goes on in none that it does not name,
// and stays what it was until it does.
func TestWitnessPolicyOfTheNextLog(t *testing.T) {
	k, witness := newWitnessKey(t)
	for _, knows := range []bool{false, true} {
		w := startWith(t, func(w *world) {
			w.server.Cosign = func(c ledger.Checkpoint) string {
				line, err := ledger.Cosign(c, witnessName, k, canon.At(w.clock()))
				must(t, err)
				return line
			}
			c, err := client.New(client.Config{URL: w.server.URL})
			must(t, err)
			keys, err := c.Keys(t.Context())
			must(t, err)
			for _, origin := range []string{"assay.test/log", "second.test/log"}[:map[bool]int{false: 1, true: 2}[knows]] {
				vkey, err := keys.Current().Of(ledger.UseLog)[0].LogVKey(origin)
				must(t, err)
				w.witnesses += "log " + vkey + "\n"
			}
			w.witnesses += "witness w " + witness + "\nquorum w\n"
		})
		w.mustRound()
		w.server.Close("second.test/log")
		err := w.round()
		if knows != (err == nil) || err != nil && !strings.Contains(err.Error(), "witness policy: not for the log with the key second.test/log+") {
			t.Errorf("knows the next log: %v: %v", knows, err)
		}
		w.join() // a restart
		if node, err := agent.OpenStore(w.dir).Node(); err != nil || (node.Keyset.Origin == "second.test/log") != knows {
			t.Errorf("pinned %q, %v", node.Keyset.Origin, err)
		}
	}
}

// TestOlderCheckpointOfAClosedLog: an older checkpoint of a log that was closed is no reason to accuse it.
func TestOlderCheckpointOfAClosedLog(t *testing.T) {
	w := start(t)
	c, err := client.New(client.Config{URL: w.server.URL})
	must(t, err)
	early, err := c.Mirror().Checkpoint(t.Context())
	must(t, err)
	w.mustRound()
	w.server.Close("second.test/log")
	w.mustRound()
	w.server.Change(func() { w.server.Show = map[string]string{"/log/checkpoint": string(early)} })
	w.advance(3 * time.Minute)
	w.mustRound()
	if s := w.remembered(); len(s.Held) != 2 || s.Kept != 1 || !strings.Contains(w.log.String(), "its checkpoint is of size 1, and it ended with size") {
		t.Errorf("%+v\n%s", s, w.log.String())
	}
	w.server.Change(func() { w.server.Show = nil })
	w.mustRound()
	if s := w.remembered(); s.Kept != 2 {
		t.Errorf("%+v", s)
	}
	w.wantFault("", false, false)
}

// TestAgentRefusesAnotherLog: without keysets that lead there from what it pinned, another log is another log.
func TestAgentRefusesAnotherLog(t *testing.T) {
	w := start(t)
	w.mustRound()
	w.server.Close("second.test/log")
	honest := w.server.Alter
	w.server.Change(func() {
		w.server.Alter = func(answer any) {
			if k, ok := answer.(*client.Keysets); ok {
				k.Keysets = k.Keysets[:1]
			}
		}
	})
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "the server's keys are those that this node pinned") {
		t.Errorf("%v", err)
	}
	if got := w.believed(); got != "assay.test/log" || len(w.server.Bundles) != 1 {
		t.Errorf("believes %q, sent %d bundles", got, len(w.server.Bundles))
	}
	w.server.Change(func() { w.server.Alter = honest })
	w.mustRound()
}
