package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier"
)

// TestNewestIssueIsUsed: a server that is given an older list than the log has judges by the log's too, so that nobody can
// say that it looked away.
func TestNewestIssueIsUsed(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		n := l.join("one")
		crl := filepath.Join(l.settings.Collateral, "milan.crl")
		old, err := os.ReadFile(crl)
		must(t, err)
		newer := l.amd.CRL(worldBegin.AddDate(0, 0, -1), worldBegin.AddDate(0, 1, 0))
		for i, given := range [][]byte{old, newer, old, l.amd.CRL(worldBegin.Add(48*time.Hour), worldBegin.AddDate(0, 1, 0)), old} {
			must(t, os.WriteFile(crl, given, 0o600))
			l.restart()
			l.clock.advance(2 * time.Minute)
			d, evidence := n.prove()
			ofTheFuture := i == 3
			if (d.Outcome == client.Accept) == ofTheFuture {
				t.Fatalf("start %d: %+v", i, d)
			}
			r, err := n.client().Result(t.Context(), evidence)
			must(t, err)
			var a verifier.Appraisal
			must(t, canon.Unmarshal(r.Appraisal, &a))
			used := map[canon.Digest]bool{}
			for _, in := range a.Inputs {
				if in.Kind == attest.KindAMDCRL {
					used[in.Digest] = true
				}
			}
			if i >= 1 && !ofTheFuture && !used[canon.Sum(newer)] {
				t.Errorf("start %d: judged by %v, which lacks the newest list of the log", i, used)
			}
			if !used[canon.Sum(given)] {
				t.Errorf("start %d: judged without what it was given", i)
			}
		}
		l.audited()
	})
}
