package server_test

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// TestAccepted takes one machine from its token to a verdict that an auditor recomputes.
func TestAccepted(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		ch := n.challenge()
		if ch.Checkpoint == "" || canon.Sum([]byte(ch.Checkpoint)) != ch.Challenge.Checkpoint || ch.Challenge.Node != n.id || ch.Challenge.Origin != worldOrigin {
			t.Errorf("challenge %+v: not for node %s by the checkpoint that came with it", ch, n.id)
		}
		data := n.evidence(ch)
		s := n.submit(data)
		p, err := ledger.OpenPromise(s.Promise, l.server.Keyset())
		must(t, err)
		if p.Stream != ledger.NodeStream(n.id) || p.Sequence != 0 || p.Received != canon.At(worldBegin) {
			t.Errorf("promise %+v: not the first of %s", p, n.id)
		}
		r, err := n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		if r.State != client.StateReceived || r.Result != nil || len(r.Entries) != 1 || canon.Sum(r.Entries[0].Opening) != p.Commitment {
			t.Errorf("before the appraisal: %+v, want received and the promised entry", r)
		}
		l.advance()
		if d := n.decision(s.Evidence); d.Outcome != client.Accept || d.Policy != "confidential-cpu" {
			t.Fatalf("verdict %+v, want accept", d)
		}
		r, err = n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		var a verifier.Appraisal
		must(t, canon.Unmarshal(r.Appraisal, &a))
		kinds := []string{}
		for _, e := range r.Entries {
			kinds = append(kinds, e.Kind)
		}
		if want := []string{ledger.KindEvidence, ledger.KindAppraisal, ledger.KindVerdict}; !slices.Equal(kinds, want) {
			t.Errorf("entries %q, want %q", kinds, want)
		}
		list, err := l.client(l.admin).Nodes(t.Context(), "")
		must(t, err)
		if len(list.Nodes) != 1 || list.Nodes[0].Verdict != client.Accept || len(list.Nodes[0].Devices) != 1 || list.Nodes[0].Evidence != s.Evidence {
			t.Errorf("nodes %+v, want the one with its device and verdict", list)
		}
		l.clock.advance(time.Minute)
		again, _ := n.prove()
		if again.Outcome != client.Accept {
			t.Errorf("second round: %+v, want accept", again)
		}
		l.audited(s)
	})
}

// TestTwoNodesOneChip: the enrolled holder keeps its standing, the newcomer is contested.
func TestTwoNodesOneChip(t *testing.T) {
	l := newLab(t, "")
	first, second := l.join("one"), l.join("one")
	if d, _ := first.prove(); d.Outcome != client.Accept {
		t.Fatalf("first: %+v, want accept", d)
	}
	d, _ := second.prove()
	if d.Outcome != client.Reject || len(d.Reasons) != 1 || d.Reasons[0].Claim != "set.device-unique" || !strings.HasPrefix(d.Reasons[0].Observed, "contested") {
		t.Errorf("second: %+v, want reject, set.device-unique contested alone", d)
	}
	if d, _ := first.prove(); d.Outcome != client.Accept {
		t.Errorf("first again: %+v, want accept", d)
	}
	// A node is enrolled with its first accepted evidence: another chip later is another machine.
	first.device = machine(l.amd, "another")
	if d, _ := first.prove(); d.Outcome != client.Reject || d.Reasons[0].Claim != "set.device-unique" {
		t.Errorf("first with another chip: %+v, want reject for set.device-unique", d)
	}
	l.audited()
}

func TestRejected(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one", func(p *mint.Platform) { p.Fields.Policy |= sevsnp.PolicyDebug })
	d, _ := n.prove()
	if d.Outcome != client.Reject || len(d.Reasons) != 1 || d.Reasons[0].Claim != "sevsnp.debug-off" {
		t.Errorf("verdict %+v, want reject for sevsnp.debug-off alone", d)
	}
	list, err := l.client(l.admin).Nodes(t.Context(), "")
	must(t, err)
	if len(list.Nodes[0].Devices) != 0 {
		t.Errorf("enrolled %v with rejected evidence", list.Nodes[0].Devices)
	}
	l.audited()
}

// TestRestart ends the server between submission and appraisal: who starts next decides, once.
func TestRestart(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	data := n.evidence(n.challenge())
	s := n.submit(data)
	before := l.entries()
	l.restart()
	if got := n.submit(data); !sameJSON(t, got, s) {
		t.Errorf("after a restart: %+v, want the same promise", got)
	}
	if l.server.NewAdminToken() != "" {
		t.Error("a second start made another admin token")
	}
	l.advance()
	l.restart()
	l.advance()
	if d := n.decision(s.Evidence); d.Outcome != client.Accept {
		t.Errorf("verdict %+v, want accept", d)
	}
	if got := l.entries(); got != before+3 {
		t.Errorf("%d entries, want %d: nothing is logged twice", got, before+3)
	}
	l.audited(s)
}

// TestFailure lets the rule rooms fail: the verdict is undecided, the fault is ours, and the next one is not affected.
func TestFailure(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	s := n.submit(n.evidence(n.challenge()))
	l.server.TestingOnlyAppraise(func(*verifier.Opened, attest.Case) verifier.Appraisal { panic("broken rule") })
	l.advance()
	d := n.decision(s.Evidence)
	if d.Outcome != client.Undecided || len(d.Reasons) != 1 || !strings.HasPrefix(d.Reasons[0].Observed, "internal") {
		t.Errorf("verdict %+v, want undecided for internal alone", d)
	}
	if text := l.log.String(); !strings.Contains(text, "alarm=true") || !strings.Contains(text, "broken rule") || !strings.Contains(text, s.Evidence.String()) {
		t.Errorf("log %q: want an alarm that names fault and evidence", text)
	}
	resp, body := l.send("GET", "/v1/blobs/"+s.Evidence.String(), l.admin, "", nil)
	if resp.StatusCode != 200 || canon.Sum(body) != s.Evidence {
		t.Errorf("the input is not kept: %d", resp.StatusCode)
	}
	resp, body = l.send("POST", "/v1/verify", "", "application/octet-stream", []byte("{}"))
	if resp.StatusCode != 200 || !strings.Contains(string(body), `"verdict":"undecided"`) {
		t.Errorf("verify: %d %s, want undecided", resp.StatusCode, body)
	}
	l.server.TestingOnlyAppraise(verifier.Appraise)
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("next verdict %+v, want accept", d)
	}
}

// TestPutOff damages the store: what cannot be appraised waits and raises an alarm, and holds nobody else up.
func TestPutOff(t *testing.T) {
	l := newLab(t, "")
	n, other := l.join("one"), l.join("two")
	s := n.submit(n.evidence(n.challenge()))
	db, err := sqldb.Open(t.Context(), "sqlite:"+filepath.Join(l.settings.Data, "assay.db"))
	must(t, err)
	defer db.Close()
	blob := func(query string, args ...any) {
		must(t, db.Tx(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(query, args...); return err }))
	}
	data, err := l.server.Source().Blob(t.Context(), s.Evidence)
	must(t, err)
	blob(`DELETE FROM blob WHERE digest = $1`, s.Evidence[:])
	if d, _ := other.prove(); d.Outcome != client.Accept {
		t.Errorf("another node: %+v, want accept", d)
	}
	if text := l.log.String(); !strings.Contains(text, "appraisal put off") || !strings.Contains(text, s.Evidence.String()) {
		t.Errorf("log %q: want an alarm", text)
	}
	blob(`INSERT INTO blob(digest, data) VALUES ($1, $2)`, s.Evidence[:], data)
	state := func() string {
		l.advance()
		r, err := n.client().Result(t.Context(), s.Evidence)
		must(t, err)
		return r.State
	}
	if got := state(); got != client.StateReceived {
		t.Errorf("before its time: %s", got)
	}
	l.clock.advance(server.RetryAppraisal)
	if got := state(); got != client.StateDecided {
		t.Errorf("after the damage: %s, want decided", got)
	}
	l.audited(s)
}

// TestTwoProcesses lets two servers work on one database: each submission is decided once.
func TestTwoProcesses(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(9), Log: quiet()})
		must(t, err)
		defer second.Close()
		var submitted []client.Submitted
		for _, chip := range []string{"one", "two", "three", "one"} {
			n := l.join(chip)
			submitted = append(submitted, n.submit(n.evidence(n.challenge())))
		}
		var all sync.WaitGroup
		for _, s := range []*server.Server{l.server, second} {
			all.Go(func() {
				if err := s.Advance(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		list, err := l.client(l.admin).Nodes(t.Context(), "")
		must(t, err)
		outcomes := map[string]int{}
		for _, n := range list.Nodes {
			outcomes[n.Verdict]++
		}
		if outcomes[client.Accept] != 3 || outcomes[client.Reject] != 1 {
			t.Errorf("verdicts %v, want 3 accepts and the second holder of a chip rejected", outcomes)
		}
		l.audited(submitted...)
	})
}

// sameJSON reports whether two answers read the same.
func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := canon.Marshal(a)
	must(t, err)
	y, err := canon.Marshal(b)
	must(t, err)
	return bytes.Equal(x, y)
}
