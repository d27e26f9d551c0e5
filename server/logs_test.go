package server_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
)

// closeLog has the newest log closed, and another one go on.
func (l *lab) closeLog(next string) {
	l.t.Helper()
	must(l.t, l.client(l.admin).CloseLog(l.t.Context(), next))
	l.advance()
	logs, err := l.client("").Logs(l.t.Context())
	must(l.t, err)
	if got := logs[len(logs)-1]; got.Origin != next || got.Closed || got.Next != "" {
		l.t.Fatalf("the newest log is %+v, want %q", got, next)
	}
}

// store opens the database of a lab beside its server.
func (l *lab) store() *server.Store {
	l.t.Helper()
	url := l.settings.Database
	if url == "" {
		url = "sqlite:" + filepath.Join(l.settings.Data, "assay.db")
	}
	s, err := server.OpenStore(l.t.Context(), url, newSource(7))
	must(l.t, err)
	l.t.Cleanup(func() { s.Close() })
	return s
}

// all returns every entry of a log.
func all(t *testing.T, l server.Log) (out []server.Record) {
	t.Helper()
	for {
		page, err := l.Entries(t.Context(), int64(len(out)), server.MaxPage)
		must(t, err)
		if len(page) == 0 {
			return out
		}
		out = append(out, page...)
	}
}

func kinds(entries []server.Record) map[string]int {
	n := map[string]int{}
	for _, e := range entries {
		n[e.Kind]++
	}
	return n
}

// checkChain holds what the logs of a store say of each other against what they are: the last entry of a closed log, its
// last checkpoint, the first entry of the next one.
func checkChain(t *testing.T, s *server.Store) []server.Log {
	t.Helper()
	logs, err := s.Logs(t.Context())
	must(t, err)
	place := int64(0)
	for i, l := range logs {
		entries := all(t, l)
		if len(entries) == 0 {
			t.Fatalf("log %d is empty", l.Number)
		}
		for n, e := range entries {
			if e.Log != l.Number || e.Index != int64(n) || e.Place != place {
				t.Errorf("%s: entry %d of log %d at place %d, want %d of %d at %d", l.Origin, e.Index, e.Log, e.Place, n, l.Number, place)
			}
			place++
			closes := ledger.Closes{}
			if e.Kind == ledger.KindHeads {
				body, err := s.Blob(t.Context(), e.Body)
				must(t, err)
				h, err := ledger.ParseHeads(body)
				must(t, err)
				closes = h.Closes
			}
			if want := l.Closed && n == len(entries)-1; want != (closes != ledger.Closes{}) || want && closes.Next != l.Next {
				t.Errorf("%s: entry %d of %d closes %+v, next is %q", l.Origin, n, len(entries), closes, l.Next)
			}
		}
		p, err := l.Published(t.Context())
		must(t, err)
		if l.Closed && p.Size != int64(len(entries)) {
			t.Errorf("%s: last checkpoint of size %d, it has %d entries", l.Origin, p.Size, len(entries))
		}
		var leaves []canon.Digest
		must(t, ledger.Walk(t.Context(), l.Source(), p.Tree, func(_ int64, c canon.Digest) error { leaves = append(leaves, c); return nil }))
		for n, c := range leaves {
			if entries[n].Commitment != c {
				t.Errorf("%s: leaf %d is %s, the entry is %s", l.Origin, n, c, entries[n].Commitment)
			}
		}
		body, err := s.Blob(t.Context(), entries[0].Body)
		must(t, err)
		env, err := ledger.ParseEnvelope(body)
		must(t, err)
		k, err := ledger.ParseKeyset(env.Payload)
		must(t, err)
		want := ledger.Final{}
		if i > 0 {
			before, err := logs[i-1].Published(t.Context())
			must(t, err)
			want = ledger.Final{Origin: logs[i-1].Origin, Size: before.Size, Root: before.Root}
		}
		if k.Origin != l.Origin || k.Continues != want {
			t.Errorf("log %d, %q, begins with a keyset of %q that continues %+v, want %+v", l.Number, l.Origin, k.Origin, k.Continues, want)
		}
		if i > 0 && logs[i-1].Next != l.Origin {
			t.Errorf("%s is followed by %s", logs[i-1].Origin, l.Origin)
		}
	}
	h, err := s.Keys(t.Context())
	must(t, err)
	if got := h.Origins(); len(got) != len(logs) {
		t.Errorf("keysets of %q, %d logs", got, len(logs))
	}
	return logs
}

// TestChainOfLogs: a log is closed twice while machines prove themselves. They go on without a new enrolment, what was
// promised before has its verdict in the log that promised it, and each log says how it hangs together with its neighbours.
func TestChainOfLogs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		mirror := filepath.Join(t.TempDir(), "mirror")
		l := newLab(t, url, func(s *server.Settings) { s.Mirror = mirror })
		one, gone := l.join("one"), l.join("gone")
		one.prove()
		gone.prove()
		must(t, l.client(l.admin).Revoke(t.Context(), gone.id))
		l.advance()

		promised := one.submit(one.evidence(one.challenge()))
		open := one.evidence(one.challenge())
		must(t, l.client(l.admin).CloseLog(t.Context(), "assay.test/2"))
		must(t, l.client(l.admin).CloseLog(t.Context(), "assay.test/2"))
		refused(t, l.client(l.admin).CloseLog(t.Context(), "assay.test/3"), http.StatusConflict, "conflict")
		_, err := one.client().Challenge(t.Context(), nil)
		refused(t, err, http.StatusServiceUnavailable, "closing")
		_, err = one.client().Submit(t.Context(), open)
		refused(t, err, http.StatusServiceUnavailable, "closing")
		if s := one.submit(one.mustPromised(promised)); !sameJSON(t, s, promised) {
			t.Errorf("what was promised is promised otherwise: %+v", s)
		}
		l.advance() // the verdict, and then the end of the log
		_, err = one.client().Submit(t.Context(), open)
		refused(t, err, http.StatusGone, client.CodeChallengeExpired)
		if d := one.decision(promised.Evidence); d.Outcome != client.Accept {
			t.Errorf("promised before the end: %+v", d)
		}
		second := l.join("two")
		for _, n := range []*node{one, second} {
			if d, _ := n.prove(); d.Outcome != client.Accept {
				t.Errorf("%s in the second log: %+v", n.id, d)
			}
		}
		l.closeLog("assay.test/3")
		for _, n := range []*node{one, second} {
			if d, _ := n.prove(); d.Outcome != client.Accept {
				t.Errorf("%s in the third log: %+v", n.id, d)
			}
		}
		refused(t, l.client(l.admin).CloseLog(t.Context(), "assay.test/2"), http.StatusConflict, "conflict")
		refused(t, l.client(l.admin).CloseLog(t.Context(), "no name"), http.StatusBadRequest, "malformed")
		l.restart()
		if d, _ := second.prove(); d.Outcome != client.Accept {
			t.Errorf("after a new start: %+v", d)
		}

		s := l.store()
		logs := checkChain(t, s)
		if len(logs) != 3 {
			t.Fatalf("%d logs, want 3", len(logs))
		}
		// Evidence and its verdict stand in one log, promised by the name of that one.
		verdicts := map[canon.Digest]int64{}
		for _, l := range logs {
			evidence := map[canon.Digest]bool{}
			for _, e := range all(t, l) {
				switch e.Kind {
				case ledger.KindEvidence:
					evidence[e.Body] = true
				case ledger.KindAppraisal:
					if !evidence[e.Refs[0]] {
						t.Errorf("%s: an appraisal of evidence of another log", l.Origin)
					}
					verdicts[e.Refs[0]] = l.Number
				}
			}
		}
		if verdicts[promised.Evidence] != 1 {
			t.Errorf("the verdict on what was promised stands in log %d", verdicts[promised.Evidence])
		}
		// What a later log begins with: each thing of the one before that still counts, once.
		for i, want := range []map[string]int{1: {ledger.KindEnrolment: 2}, 2: {ledger.KindEnrolment: 4}} {
			if want == nil {
				continue
			}
			entries := all(t, logs[i])
			end := slices.IndexFunc(entries, func(e server.Record) bool {
				return e.Stream != ledger.StreamServer && !ledger.Carried(e.Entry, entries[0].Entry)
			})
			got := kinds(entries[:end])
			for kind, n := range map[string]int{ledger.KindKeyset: 1, ledger.KindPolicy: 1, ledger.KindReference: 1, ledger.KindCollateral: 1, ledger.KindEnrolment: want[ledger.KindEnrolment]} {
				if got[kind] != n {
					t.Errorf("%s begins with %v, want %d of %s", logs[i].Origin, got, n, kind)
				}
			}
		}
		// Files of all logs, from the server and from the mirror.
		list, err := l.client("").Logs(t.Context())
		must(t, err)
		for i, info := range list {
			p, err := logs[i].Published(t.Context())
			must(t, err)
			if want := (client.LogInfo{Origin: logs[i].Origin, Path: []string{"/log/", "/log/2/", "/log/3/"}[i], Size: p.Size, Closed: i < 2, Next: logs[i].Next}); info != want {
				t.Errorf("listed %+v, want %+v", info, want)
			}
			if _, note := l.send("GET", info.Path+"checkpoint", "", "", nil); !bytes.Equal(note, p.Note) {
				t.Errorf("%s: %s", info.Path, note)
			}
			shown, err := os.ReadFile(filepath.Join(mirror, strings.TrimPrefix(info.Path, "/log/"), "checkpoint"))
			must(t, err)
			if !bytes.Equal(shown, p.Note) {
				t.Errorf("the mirror shows %s", shown)
			}
			tile := ledger.Tile{Level: ledger.EntriesLevel, Width: int(p.Size % ledger.TileWidth)}
			want, err := logs[i].Source().Tile(t.Context(), tile)
			must(t, err)
			if _, got := l.send("GET", info.Path+tile.Path(), "", "", nil); !bytes.Equal(got, want) {
				t.Errorf("%s%s: other bytes", info.Path, tile.Path())
			}
		}
		for _, path := range []string{"/log/1/checkpoint", "/log/4/checkpoint", "/log/02/checkpoint", "/log/2/keysets-before", "/log/2", "/log/x/checkpoint", "/log/-2/checkpoint"} {
			if resp, _ := l.send("GET", path, "", "", nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
		history, err := s.Keys(t.Context())
		must(t, err)
		for _, n := range []int{2, 3} {
			keysets, err := os.ReadFile(filepath.Join(mirror, fmt.Sprint(n), "keysets-before"))
			must(t, err)
			if want, err := ledger.KeysetsBefore(history, logs[n-1].Origin); err != nil || !bytes.Equal(keysets, want) {
				t.Errorf("the mirror's keysets before log %d: %s (%v)", n, keysets, err)
			}
		}
		// The end of a stream in a closed log is proven by the entry that closes it.
		head, err := one.client().StreamHead(t.Context(), ledger.NodeStream(one.id), logs[0].Origin)
		must(t, err)
		final, err := logs[0].Published(t.Context())
		must(t, err)
		if tail, _, err := head.Open(ledger.NodeStream(one.id), final.Tree); err != nil || tail.Next != 2 || head.Heads.Closes.Next != "assay.test/2" {
			t.Errorf("%+v, %+v, %v", tail, head.Heads, err)
		}
		replayed(t, s, promised)
		rebuiltAlike(t, l.database())
	})
}

// replayed has an auditor replay each log of a store alone, by a trust file of any moment up to its own, and all of them as a
// chain, by one of any.
func replayed(t *testing.T, s *server.Store, submitted ...client.Submitted) (together []audit.Report) {
	t.Helper()
	var o audit.Options
	for _, sub := range submitted {
		data, err := canon.Marshal(sub.Promise)
		must(t, err)
		o.Promises = append(o.Promises, audit.GivenPromise{Name: sub.Evidence.Short(), Data: data})
	}
	logs, err := s.Logs(t.Context())
	must(t, err)
	h, err := s.Keys(t.Context())
	must(t, err)
	for n, origin := range h.Origins() {
		set, _ := h.Newest(origin)
		trust := &audit.Trust{Type: audit.TrustType, Keyset: set}
		var all []audit.ChainLog
		for i, l := range logs {
			all = append(all, audit.ChainLog{Source: l.Source()})
			if n > i {
				continue // such a log knows no later keys
			}
			var file bytes.Buffer
			must(t, audit.Export(t.Context(), l.Source(), &file))
			report, err := audit.ReplayFile(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), trust, audit.Options{})
			must(t, err)
			if report.Outcome != audit.Equal {
				t.Errorf("audit of %s by the keys of %s: %s\n%s", l.Origin, origin, report.Outcome, report.Text())
			}
		}
		report, err := audit.ReplayChain(t.Context(), all, trust, o)
		must(t, err)
		if report.Outcome != audit.Equal {
			t.Errorf("audit of the chain by the keys of %s: %s\n%s", origin, report.Outcome, report.Text())
		}
		together = report.Logs
	}
	return together
}

func (l *lab) database() string {
	if l.settings.Database != "" {
		return l.settings.Database
	}
	return "sqlite:" + filepath.Join(l.settings.Data, "assay.db")
}

// mustPromised returns the bytes that were promised.
func (n *node) mustPromised(s client.Submitted) []byte {
	n.lab.t.Helper()
	data, err := n.lab.server.Source().Blob(n.lab.t.Context(), s.Evidence)
	must(n.lab.t, err)
	return data
}

// TestClosingCalledOff: until it is done, a closing can be called off, and the log goes on as if nothing had been.
func TestClosingCalledOff(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	before := l.entries()
	must(t, l.client(l.admin).CloseLog(t.Context(), "assay.test/2"))
	must(t, l.client(l.admin).KeepLog(t.Context()))
	must(t, l.client(l.admin).KeepLog(t.Context()))
	l.advance()
	if got := l.entries(); got != before {
		t.Errorf("%d entries, want %d", got, before)
	}
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("%+v", d)
	}
	refused(t, l.client(n.credential).CloseLog(t.Context(), "assay.test/2"), http.StatusForbidden, "forbidden")
	refused(t, l.client(n.credential).KeepLog(t.Context()), http.StatusForbidden, "forbidden")
	l.closeLog("assay.test/2")
	must(t, l.client(l.admin).KeepLog(t.Context()))
	checkChain(t, l.store())
}

// TestClosedMeanwhile: a transaction that began in a log which is closed before it has its places runs again in the next
// one, whole.
func TestClosedMeanwhile(t *testing.T) {
	l := newLab(t, pgtest.URL(t))
	n := l.join("one")
	n.prove()
	s := l.store()
	runs := 0
	must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
		runs++
		d := server.Draft{Kind: ledger.KindEvidence, Stream: "node:late", Time: canon.At(l.clock.Now()), Body: tx.PutBlob([]byte("late")), Refs: []canon.Digest{}}
		_, _, err := tx.Append(t.Context(), d)
		if runs == 1 {
			l.closeLog("assay.test/2")
		}
		return err
	}))
	l.advance()
	entries := all(t, newest(t, s))
	last := entries[len(entries)-1]
	if runs != 2 || last.Stream != "node:late" || last.Sequence != 0 {
		t.Errorf("%d runs, the last entry of the new log is %+v", runs, last)
	}
	checkChain(t, s)
}

// closeAt has the newest log closed at a running server, and waits until another goes on.
func closeAt(t *testing.T, url, admin, next string) {
	t.Helper()
	c, err := client.New(client.Config{URL: url, Credential: admin})
	must(t, err)
	must(t, c.CloseLog(t.Context(), next))
	waitForLog(t, url, next)
}

// waitForLog waits until a server shows a log that is open and published.
func waitForLog(t *testing.T, url, origin string) {
	t.Helper()
	c, err := client.New(client.Config{URL: url})
	must(t, err)
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		logs, err := c.Logs(t.Context())
		if err == nil && logs[len(logs)-1].Origin == origin && logs[len(logs)-1].Size > 0 {
			return
		}
	}
	t.Fatalf("no log %q at %s", origin, url)
}

// TestKillClosing kills the server after each step of closing a log. What is there then is a log that is open, or the next
// one, whole; the server that comes after it goes on to the same end.
func TestKillClosing(t *testing.T) {
	for step, closed := range map[string]bool{"closing entry": false, "final tree": false, "enrolments": false, "opening entries": false, "closed": true, "last checkpoint": true} {
		t.Run(step, func(t *testing.T) {
			onBoth(t, func(t *testing.T, url string) {
				world := t.TempDir()
				writeWorld(t, world)
				began := time.Now().UnixNano()
				c := startChild(t, world, url, began, childDies+"="+step)
				admin, err := os.ReadFile(filepath.Join(world, "admin"))
				must(t, err)
				n, err := joinAt(t.Context(), c.url, string(admin), machine(mint.NewAMD(sevsnp.Milan), "chip"), childClock(began)())
				must(t, err)
				first := pledgeOne(t.Context(), c, n)
				operator, err := client.New(client.Config{URL: c.url, Credential: string(admin)})
				must(t, err)
				must(t, operator.RegisterIssuer(t.Context(), client.IssuerRegistration{ID: "lei.example", Key: spkiOf(t, "lei.example"), Attributes: []string{"party.identity"}, Until: canon.At(worldBegin.Add(400 * day))}))
				var cert vetting.Certificate
				must(t, operator.RequestCertificate(t.Context(), client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierIdentified}, &cert))
				must(t, operator.CloseLog(t.Context(), "assay.test/2"))
				if err := c.cmd.Wait(); err == nil || c.cmd.ProcessState.Exited() {
					t.Fatalf("the child ended by itself: %v\n%s", err, &c.said)
				}
				store, err := server.OpenStore(t.Context(), url, newSource(9))
				must(t, err)
				defer store.Close()
				logs, err := store.Logs(t.Context())
				must(t, err)
				if logs[0].Closed != closed || logs[0].Next != "assay.test/2" || len(all(t, logs[len(logs)-1])) == 0 {
					t.Errorf("after %q: %+v", step, logs)
				}
				if entries := kinds(all(t, logs[0])); !closed && entries[ledger.KindHeads] != 0 {
					t.Errorf("a log that is open has %v", entries)
				}
				c = startChild(t, world, url, began)
				waitForLog(t, c.url, "assay.test/2")
				operator, err = client.New(client.Config{URL: c.url, Credential: string(admin)})
				must(t, err)
				must(t, operator.ActOnCertificate(t.Context(), cert.ID, client.CertificateAct{Act: vetting.ActAssign, Reviewer: "user:rita"}, &cert))
				second := pledgeOne(t.Context(), c, n)
				if first == nil || first.got == nil || second == nil || second.got == nil {
					t.Fatalf("not promised: %+v, %+v", first, second)
				}
				must(t, c.cmd.Process.Signal(syscall.SIGTERM))
				must(t, c.cmd.Wait())
				checkPledges(t, world, url, began, []*pledge{first, second})
				replayed(t, store)
			})
		})
	}
}

// TestCloseWitnessed: a log whose next one its witnesses do not know, or their policy does not name, is not closed. Of one
// that is closed in a stall, the end is published before the beginning of the next.
func TestCloseWitnessed(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	n := w.join("one")
	w.advance()
	n.prove()
	w.advance()
	know := func(origins ...string) {
		_, key, err := ledger.ParseLogVKey(w.logKey())
		must(t, err)
		for i, s := range w.who {
			logs := []string{w.logKey()}
			for _, o := range origins {
				vkey, err := ledger.LogVKey(o, key)
				must(t, err)
				logs = append(logs, vkey)
			}
			text, err := json.Marshal(logs)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(s.data, "witness.yaml"), fmt.Appendf(nil, "type: assay/witness/v1\nname: witness.example/%d\nlogs: %s\n", i, text), 0o600))
			must(t, s.witness.Close())
			s.witness = openWitness(t, s.data, w.clock.Now)
		}
	}
	err := w.client(w.admin).CloseLog(t.Context(), "assay.test/2")
	if p := refused(t, err, http.StatusConflict, "conflict"); !strings.Contains(p.Detail, "nothing of assay.test/2 would be published: witness w0: it answered 404 (it does not watch this log)") {
		t.Errorf("the witnesses do not know it: %v", p)
	}
	know("assay.test/2", "assay.test/3")
	c := w.vet("p1", n)
	if !c.Standing.Witnessed {
		t.Errorf("a quorum cosigned: %+v", c.Standing)
	}
	w.only()
	must(t, w.client(w.admin).CloseLog(t.Context(), "assay.test/2"))
	if err := w.server.Advance(t.Context()); err == nil {
		t.Error("published without a quorum")
	}
	s := w.store()
	logs, err := s.Logs(t.Context())
	must(t, err)
	if len(logs) != 2 {
		t.Fatalf("%d logs, want 2", len(logs))
	}
	if _, err := logs[1].Published(t.Context()); err == nil {
		t.Error("the next log is published before the end of the one before it")
	}
	if c = w.act(c.ID, client.CertificateAct{Act: vetting.ActAssess}); !c.Standing.Witnessed {
		t.Error("what the witnesses cosigned last is of the log before, and counts no more")
	}
	_, err = n.client().Challenge(t.Context(), nil)
	refused(t, err, http.StatusServiceUnavailable, "closing")
	if h := w.health(); !strings.HasPrefix(h.Status, "stalled: too few witnesses cosign; ") {
		t.Errorf("health: %+v", h)
	}
	w.only(0, 1)
	w.advance()
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("in the next log: %+v", d)
	}
	w.restart()
	w.closeLog("assay.test/3")
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("in the third log: %+v", d)
	}
	checkChain(t, s)
	replayed(t, s)
}

// TestCarriedOver: a later log has the holds in force and the newest issues, collateral that was fetched for the one before
// stands there again before it is used, and what another process was given is there before it judges.
func TestCarriedOver(t *testing.T) {
	nv := mint.NewNVIDIA()
	l, vendors := fetching(t, func(s *server.Settings) {
		for _, f := range nv.Roots() {
			must(t, os.WriteFile(filepath.Join(s.Roots, f.Name), f.Data, 0o600))
		}
	})
	gpu := nv.Device("GH100", "one")
	vendors.AddDevice(gpu)
	n := l.join("one")
	n.gpus = []agent.GPUs{oneGPU{gpu}}
	n.prove()
	s := l.store()
	fetched := kinds(all(t, newest(t, s)))[ledger.KindCollateral]
	hold := func(act, name string) {
		e := ledger.Erasure{Type: ledger.ErasureType, Act: act, Hold: name, Nodes: []string{n.id}, Digests: []canon.Digest{}, Reason: "a court asked"}
		if act == ledger.ActRelease {
			e.Nodes = []string{}
		}
		_, err := s.Act(t.Context(), e, canon.At(l.clock.Now()))
		must(t, err)
	}
	hold(ledger.ActHold, "over")
	hold(ledger.ActHold, "stays")
	hold(ledger.ActRelease, "over")
	l.closeLog("assay.test/2")
	entries := all(t, newest(t, s))
	if got := kinds(entries); got[ledger.KindErasure] != 1 || got[ledger.KindCollateral] == 0 || got[ledger.KindCollateral] >= fetched {
		t.Errorf("the second log begins with %v, the first has %d items", got, fetched)
	}
	acts, err := s.Acts(t.Context())
	must(t, err)
	if len(acts) != 3 || len(ledger.InForce(acts)) != 1 {
		t.Errorf("%d acts, in force %v", len(acts), ledger.InForce(acts))
	}
	before := len(vendors.Requests("/"))
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("in the second log: %+v", d)
	}
	if got := vendors.Requests("/"); len(got) != before {
		t.Errorf("asked again: %q", got[before:])
	}
	if got := kinds(all(t, newest(t, s)))[ledger.KindCollateral]; got != fetched {
		t.Errorf("judged by %d items, the log has %d", fetched, got)
	}
	hold(ledger.ActRelease, "stays")
	l.closeLog("assay.test/3")
	if got := kinds(all(t, newest(t, s))); got[ledger.KindErasure] != 0 {
		t.Errorf("the third log begins with %v", got)
	}
	replayed(t, s)
}

// TestOtherSettings: of two processes with other policies, one closes the log, and the other judges in the next one.
func TestOtherSettings(t *testing.T) {
	l := newLab(t, pgtest.URL(t))
	l.join("one").prove()
	other := *l
	other.settings.Policy = "genuine"
	other.settings.Roles = []string{server.RoleAPI, server.RoleClock}
	other.start()
	l.settings.Roles = []string{server.RoleAPI, server.RolePublish}
	l.restart() // what it is given is what the last start was given
	l.closeLog("assay.test/2")
	n := other.join("two")
	sent := n.submit(n.evidence(n.challenge()))
	other.advance()
	l.advance()
	if d := n.decision(sent.Evidence); d.Policy != "genuine" {
		t.Fatalf("decided by %q", d.Policy)
	}
	s := l.store()
	checkChain(t, s)
	replayed(t, s, sent)
}

// TestRenewedOverLogs: keys are renewed in a log that goes on after another, before the end of that one is published.
func TestRenewedOverLogs(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	l.settings.Renew = []string{"log", "result", "promise"}
	l.restart()
	n.prove()
	l.closeLog("assay.test/2")
	n.prove()
	l.restart()
	n.prove()
	l.clock.advance(ledger.HeadsWithin * time.Second)
	l.advance()
	l.closeLog("assay.test/3")
	l.settings.Renew, l.settings.LogName = nil, "assay.test/log"
	l.restart()
	n.prove()
	l.settings.LogName = "other"
	wantErr(t, l.opened(), `log name "other", the log is called "assay.test/3"`)
	s := l.store()
	checkChain(t, s)
	replayed(t, s)
}

// BenchmarkClose closes a log with 10,000 enrolments and 10,000 certificates that stand, all of which the next one takes over.
func BenchmarkClose(b *testing.B) {
	for kind, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(b.TempDir(), "assay.db"), "postgres": pgtest.URL(b)} {
		b.Run(kind, func(b *testing.B) {
			settings := writeWorld(b, b.TempDir())
			settings.Database = url
			c := &clock{now: worldBegin}
			s, err := server.New(b.Context(), settings, server.Deps{Now: c.Now, Random: rand.Reader, Log: quiet()})
			must(b, err)
			defer s.Close()
			h := httptest.NewServer(s.Handler())
			defer h.Close()
			store, err := server.OpenStore(b.Context(), url, rand.Reader)
			must(b, err)
			defer store.Close()
			must(b, store.Tx(b.Context(), func(tx *server.Tx) error {
				for i := range 10_000 {
					body, err := canon.Marshal(ledger.Enrolment{Type: ledger.EnrolmentType, Node: fmt.Sprint("node-", i), Basis: ledger.BasisToken, Verifier: worldOrigin})
					if err != nil {
						return err
					}
					d := server.Draft{Kind: ledger.KindEnrolment, Stream: ledger.StreamVerifier, Time: canon.At(c.Now()), Body: tx.PutBlob(body), Refs: []canon.Digest{}}
					if _, _, err := tx.Append(b.Context(), d); err != nil {
						return err
					}
				}
				return nil
			}))
			must(b, s.TestingOnlyCertify(b.Context(), 10_000))
			must(b, s.Advance(b.Context()))
			operator, err := client.New(client.Config{URL: h.URL, Credential: s.NewAdminToken()})
			must(b, err)
			n := 1
			for b.Loop() {
				n++
				must(b, operator.CloseLog(b.Context(), fmt.Sprintf("assay.test/%d", n)))
				must(b, s.Advance(b.Context()))
			}
			logs, err := operator.Logs(b.Context())
			if err != nil || len(logs) != n || logs[n-1].Size < 10_000 {
				b.Errorf("%d logs, want %d: %+v, %v", len(logs), n, logs, err)
			}
		})
	}
}
