package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// TestChainReaders: who reads from outside goes from one log to the next. An auditor replays each log alone, and all of
// them together; a renter's last checkpoint of the first log leads to one of the third; a pull brings each log.
func TestChainReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		one, gone := l.join("one"), l.join("gone")
		one.prove()
		gone.prove()
		must(t, l.client(l.admin).Revoke(t.Context(), gone.id))
		l.advance()
		keys, err := l.client("").Keys(t.Context())
		must(t, err)
		first := keys.Current()
		trust, err := audit.TrustFrom(audit.Told{By: "one", Keyset: first}, audit.Told{By: "two", Keyset: first})
		must(t, err)
		believed := client.OpenBelieved(t.TempDir())
		follow := func(origin string) error {
			keys, err := l.client("").Keys(t.Context())
			must(t, err)
			k, _ := keys.Newest(origin)
			log, err := l.client("").Log(t.Context(), origin)
			must(t, err)
			note, err := log.Checkpoint(t.Context())
			must(t, err)
			f := ledger.Follower{Logs: k.LogVKeys(canon.At(l.clock.Now())), Chain: l.client("").Chain}
			_, err = believed.Follow(t.Context(), f, log, note, 0)
			return err
		}
		must(t, follow(first.Origin))
		promised := one.submit(one.evidence(one.challenge()))
		for _, next := range []string{"assay.test/2", "assay.test/3"} {
			must(t, l.client(l.admin).CloseLog(t.Context(), next))
			l.advance()
			l.advance()
			if d, _ := one.prove(); d.Outcome != client.Accept {
				t.Fatalf("in the log %s: %+v", next, d)
			}
		}
		must(t, follow("assay.test/3"))
		if err := follow(first.Origin); err == nil || !strings.Contains(err.Error(), `comes before "assay.test/3"`) {
			t.Errorf("back to the first log: %v", err)
		}

		promise, err := canon.Marshal(promised.Promise)
		must(t, err)
		given := audit.Options{Promises: []audit.GivenPromise{{Name: "promise.json", Data: promise}}}
		logs, err := l.store().Logs(t.Context())
		must(t, err)
		var chain []audit.ChainLog
		for i, log := range logs {
			var file bytes.Buffer
			must(t, audit.Export(t.Context(), log.Source(), &file))
			r, err := audit.ReplayFile(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), &trust, audit.Options{})
			must(t, err)
			if r.Outcome != audit.Equal || r.Verdicts.Logged == 0 || (r.Continues.Origin != "") != (i > 0) || (r.Closed != "") != (i < 2) {
				t.Errorf("%s alone:\n%s", log.Origin, r.Text())
			}
			a, err := audit.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
			must(t, err)
			chain = append(chain, audit.ChainLog{Source: a})

			mirror, err := l.client(l.admin).Log(t.Context(), log.Origin)
			must(t, err)
			dir := filepath.Join(t.TempDir(), "log")
			k, _ := func() (ledger.Keyset, bool) { h, _ := l.client("").Keys(t.Context()); return h.Newest(log.Origin) }()
			p := client.Pull{From: mirror, Dir: dir, Have: audit.Directory(os.DirFS(dir)), Logs: k.LogVKeys(k.Made), Names: audit.Names}
			pulled, err := p.Run(t.Context())
			must(t, err)
			var again bytes.Buffer
			must(t, audit.Export(t.Context(), p.Have, &again))
			if pulled.Refused != 0 || !bytes.Equal(again.Bytes(), file.Bytes()) {
				t.Errorf("%s: what was pulled gives another export: %+v", log.Origin, pulled)
			}
		}
		r, err := audit.ReplayChain(t.Context(), chain, &trust, given)
		must(t, err)
		if r.Outcome != audit.Equal || len(r.Logs[0].Promises) != 1 || r.Logs[0].Promises[0].State != audit.PromiseKept {
			t.Errorf("together:\n%s", r.Text())
		}
		if r, err := audit.ReplayChain(t.Context(), []audit.ChainLog{chain[0], chain[2]}, &trust, audit.Options{}); err != nil || r.FaultCount != 1 {
			t.Errorf("without the middle one: %v\n%s", err, r.Text())
		}
	})
}
