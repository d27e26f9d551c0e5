package server_test

import (
	"bytes"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// Rows of known-bugs.md: faults that other logs had, and that this one must not have.

// kindOf counts the entries of a kind.
func (l *lab) kindOf(kind string) (n int) {
	l.t.Helper()
	c := l.client(l.admin)
	for from := int64(0); ; {
		page, err := c.Entries(l.t.Context(), from)
		must(l.t, err)
		if len(page.Entries) == 0 {
			return n
		}
		for _, e := range page.Entries {
			if e.Kind == kind {
				n++
			}
		}
		from += int64(len(page.Entries))
	}
}

// TestG05TwoFrontEnds submits the same bytes to two servers of one log at once, several times: one entry, one promise,
// one verdict. The twin: two submissions are two entries.
func TestG05TwoFrontEnds(t *testing.T) {
	l := newLab(t, pgtest.URL(t))
	second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(5), Log: quiet()})
	must(t, err)
	defer second.Close()
	other := httptest.NewServer(second.Handler())
	defer other.Close()
	n := l.join("one")
	data := n.evidence(n.challenge())
	got := make([]client.Submitted, 8)
	var wg sync.WaitGroup
	for i := range got {
		url := []string{l.http.URL, other.URL}[i%2]
		wg.Go(func() {
			c, err := client.New(client.Config{URL: url, Credential: n.credential})
			if err != nil {
				t.Error(err)
				return
			}
			if got[i], err = c.Submit(t.Context(), data); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range got {
		if !sameJSON(t, s, got[0]) {
			t.Errorf("promise %s, want the one promise %s", s.Promise.Payload, got[0].Promise.Payload)
		}
	}
	l.audited(got...)
	for kind, want := range map[string]int{ledger.KindEvidence: 1, ledger.KindAppraisal: 1, ledger.KindVerdict: 1} {
		if have := l.kindOf(kind); have != want {
			t.Errorf("%d entries %s, want %d", have, kind, want)
		}
	}
	again := n.submit(n.evidence(n.challenge()))
	l.audited(append(got, again)...)
	if have := l.kindOf(ledger.KindEvidence); have != 2 {
		t.Errorf("%d entries of two submissions", have)
	}
}

// TestG13ReceiptOfAResubmission: who submits evidence again, later and elsewhere, gets the promise of the stored entry, to
// the byte. The twin: with another signature on it, or of another key, it is not the stored entry, and gets no promise.
func TestG13ReceiptOfAResubmission(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		ch := n.challenge()
		data := n.evidence(ch)
		first := n.submit(data)
		l.advance()
		l.clock.advance(time.Hour) // the challenge has long expired
		l.restart()
		again := n.submit(data)
		if !sameJSON(t, again, first) {
			t.Errorf("submitted again: %+v, want the promise of the first time", again)
		}
		// What it promises is what the log has under its commitment, member by member.
		p, err := ledger.OpenPromise(again.Promise, l.server.Keyset())
		must(t, err)
		opening, err := l.server.Source().Blob(t.Context(), p.Commitment)
		must(t, err)
		_, e, err := ledger.ParseOpening(opening)
		must(t, err)
		want, err := canon.Marshal(ledger.NewPromise(p.Origin, canon.Sum(opening), e))
		must(t, err)
		if !bytes.Equal(again.Promise.Payload, want) || e.Body != canon.Sum(data) || e.Kind != ledger.KindEvidence {
			t.Errorf("promise %s, the stored entry makes %s", again.Promise.Payload, want)
		}
		l.audited(first, again)

		env, err := ledger.ParseEnvelope(data)
		must(t, err)
		stranger := l.join("two")
		both, err := ledger.Seal(env.PayloadType, env.Payload, n.session, stranger.session)
		must(t, err)
		other, err := canon.Marshal(both)
		must(t, err)
		_, err = n.client().Submit(t.Context(), other)
		refused(t, err, 400, "malformed")
		n.session = stranger.session // the same machine with another key
		_, err = n.client().Submit(t.Context(), n.evidence(ch))
		refused(t, err, 409, client.CodeChallengeUsed)
		if have := l.kindOf(ledger.KindEvidence); have != 1 {
			t.Errorf("%d entries of evidence, want 1", have)
		}
	})
}
