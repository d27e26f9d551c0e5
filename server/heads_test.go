package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// headOf asks for a node's stream head and opens it under the log's key.
func (n *node) headOf() (ledger.Head, ledger.Entry, client.StreamHead) {
	n.lab.t.Helper()
	stream := ledger.NodeStream(n.id)
	h, err := n.client().StreamHead(n.lab.t.Context(), stream, "")
	must(n.lab.t, err)
	c, err := ledger.OpenCheckpoint([]byte(h.Checkpoint), n.lab.server.Keyset().LogVerifiers()...)
	must(n.lab.t, err)
	head, e, err := h.Open(stream, c.Tree)
	must(n.lab.t, err)
	return head, e, h
}

// TestHeadsHourly: an hour after the first entry the server commits to all streams, and each node is shown the end of its
// own, with proofs, and of no other.
func TestHeadsHourly(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		one, two, late := l.join("one"), l.join("two"), l.join("three")
		one.prove()
		one.prove()
		two.prove()
		_, err := one.client().StreamHead(t.Context(), ledger.NodeStream(one.id), "")
		refused(t, err, 404, "not-found")
		l.clock.advance(ledger.HeadsWithin*time.Second - time.Second)
		before := l.entries()
		l.advance()
		if got := l.entries(); got != before {
			t.Errorf("%d entries a second before heads are due, want %d", got, before)
		}
		l.clock.advance(time.Second)
		l.advance()
		l.advance()
		if got := l.entries(); got != before+1 {
			t.Errorf("%d entries when heads are due, want %d: one, once", got, before+1)
		}
		head, e, shown := one.headOf()
		records, err := l.client(l.admin).Entries(t.Context(), 0)
		must(t, err)
		var last ledger.Entry
		for _, r := range records.Entries {
			if _, e, err := ledger.ParseOpening(r.Opening); err == nil && e.Stream == head.Stream {
				last = e
			}
		}
		data, err := last.Canonical()
		must(t, err)
		if head.Next != 2 || head.Last != canon.Sum(data) || e.Time != canon.At(l.clock.Now()) {
			t.Errorf("head %+v by an entry of %s, want 2 and %s", head, e.Time, canon.Sum(data))
		}
		if head, _, _ := two.headOf(); head.Next != 1 {
			t.Errorf("head of the other node %+v, want 1", head)
		}
		if shown.Heads.Streams != 4 {
			t.Errorf("%d streams, want server, verifier and two nodes", shown.Heads.Streams)
		}
		_, err = one.client().StreamHead(t.Context(), ledger.NodeStream(two.id), "")
		refused(t, err, 404, "not-found")
		_, err = one.client().StreamHead(t.Context(), ledger.StreamServer, "")
		refused(t, err, 404, "not-found")
		if h, err := l.client(l.admin).StreamHead(t.Context(), ledger.StreamVerifier, ""); err != nil || h.Proof.Head.Next == 0 {
			t.Errorf("the operator asks for the verifier's: %+v, %v", h, err)
		}
		if _, err := l.client("").StreamHead(t.Context(), ledger.NodeStream(one.id), ""); client.AsProblem(err) == nil || client.AsProblem(err).Status != 401 {
			t.Errorf("a stranger: %v, want 401", err)
		}
		_, err = late.client().StreamHead(t.Context(), ledger.NodeStream(late.id), "")
		refused(t, err, 404, "not-found")
		// Nothing but the heads entry came since: none is due, however long it takes.
		l.clock.advance(48 * time.Hour)
		l.advance()
		if got := l.entries(); got != before+1 {
			t.Errorf("%d entries after two days of silence, want %d", got, before+1)
		}
		one.prove()
		l.clock.advance(ledger.HeadsWithin * time.Second)
		l.restart() // a start publishes too
		if head, _, _ := one.headOf(); head.Next != 3 {
			t.Errorf("head after a restart %+v, want 3", head)
		}
		l.audited()
	})
}

// TestHeadTwins: an answer in which one thing is another is refused by who asked.
func TestHeadTwins(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	l.clock.advance(ledger.HeadsWithin * time.Second)
	l.advance()
	stream := ledger.NodeStream(n.id)
	_, _, good := n.headOf()
	other, err := l.client(l.admin).StreamHead(t.Context(), ledger.StreamVerifier, "")
	must(t, err)
	c, err := ledger.ReadCheckpoint([]byte(good.Checkpoint))
	must(t, err)
	records, err := l.client(l.admin).Entries(t.Context(), 0)
	must(t, err)
	for _, row := range []struct {
		name   string
		change func(*client.StreamHead, *ledger.Tree)
		want   string
	}{
		{"none", func(*client.StreamHead, *ledger.Tree) {}, ""},
		{"another entry", func(h *client.StreamHead, _ *ledger.Tree) { h.Entry = records.Entries[0] }, "came with an entry keyset/v1"},
		{"another document", func(h *client.StreamHead, _ *ledger.Tree) { h.Heads.Root[0] ^= 1 }, "another heads document than its entry names"},
		{"another stream", func(h *client.StreamHead, _ *ledger.Tree) { h.Proof = other.Proof }, "is that of the stream"},
		{"an end of before", func(h *client.StreamHead, _ *ledger.Tree) { h.Proof.Head.Next = 0 }, "another root"},
		{"another log", func(_ *client.StreamHead, tree *ledger.Tree) { tree.Root[0] ^= 1 }, "another root"},
		{"another place", func(h *client.StreamHead, _ *ledger.Tree) { h.Place.Index-- }, "proof of another entry"},
		{"no entry", func(h *client.StreamHead, _ *ledger.Tree) { h.Entry.Opening = nil }, "opening"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h, tree := good, c.Tree
			row.change(&h, &tree)
			_, _, err := h.Open(stream, tree)
			if row.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

// TestHeadsAmongWriters: heads are made while others append, and each commits to just the entries before it.
func TestHeadsAmongWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
			_, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindKeyset, Stream: ledger.StreamServer, Time: start, Body: canon.Sum(nil), Refs: []canon.Digest{}})
			return err
		}))
		const writers, each = 4, 20
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					err := s.Tx(t.Context(), func(tx *server.Tx) error {
						d := server.Draft{Kind: ledger.KindReference, Stream: ledger.StreamServer, Time: start, Body: canon.Sum(fmt.Append(nil, w, i)), Refs: []canon.Digest{}}
						if i%3 > 0 {
							d.Kind, d.Stream = ledger.KindEvidence, ledger.NodeStream(fmt.Sprint("n", (w+i)%5))
						}
						_, _, err := tx.Append(t.Context(), d)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		made := 0
		for i := range canon.Time(20) {
			ok, err := s.AppendHeads(t.Context(), start+(i+1)*ledger.HeadsWithin)
			must(t, err)
			if ok {
				made++
			}
		}
		all.Wait()
		records, err := s.Entries(t.Context(), 0, 1000)
		must(t, err)
		tails := map[string]ledger.Tail{}
		for _, r := range records {
			if r.Kind == ledger.KindHeads {
				made--
				body, err := s.Blob(t.Context(), r.Body)
				must(t, err)
				doc, err := ledger.ParseHeads(body)
				must(t, err)
				seed, err := s.Blob(t.Context(), doc.Seed)
				must(t, err)
				if want := ledger.NewHeadsTree(seed, tails).Document(); doc != want {
					t.Errorf("entry %d: %+v, want %+v", r.Index, doc, want)
				}
			}
			if tails[r.Stream], err = tails[r.Stream].Extend(r.Entry); err != nil {
				t.Error(err)
			}
		}
		if made != 0 {
			t.Errorf("%d heads entries more were said to be made than stand in the log", made)
		}
	})
}

// TestHeadsAfterARest: a server that stood still, or whose clock jumped, logs the heads entry that came due before anything
// else, whoever comes first: an auditor finds no gap. TestHeadsDue of package audit has what he says where there is one.
func TestHeadsAfterARest(t *testing.T) {
	const rest = 2 * ledger.HeadsWithin * time.Second
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		l.audited(n.submit(n.evidence(n.challenge())))
		for name, rested := range map[string]func(){
			"stopped and started": func() { l.clock.advance(rest); l.restart(); l.join("two") },
			"clock jumps":         func() { l.clock.advance(rest); n.challenge() },
			"a year":              func() { l.clock.advance(365 * 24 * time.Hour); l.join("three") },
		} {
			before := l.kindOf(ledger.KindHeads)
			rested()
			if got := l.kindOf(ledger.KindHeads); got != before+1 {
				t.Errorf("%s: %d heads entries, want one", name, got-before)
			}
		}
		l.audited()
		sent := n.evidence(n.challenge())
		l.clock.advance(2 * server.HeadsCheck) // nothing is due
		before := l.kindOf(ledger.KindHeads)
		l.audited(n.submit(sent))
		if got := l.kindOf(ledger.KindHeads); got != before {
			t.Errorf("%d heads entries that were not due", got-before)
		}
	})
}
