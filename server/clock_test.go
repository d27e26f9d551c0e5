package server_test

import (
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/server"
)

// TestClockGoesBack: nothing is logged before what it rests on. A clock that went back a little counts as not having moved,
// one that went back further refuses what was asked before, and says so to nobody but the operator and the node.
func TestClockGoesBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		back time.Duration
		fine bool
	}{
		{"by as much as is allowed", server.MaxBehind, true},
		{"by a second more", server.MaxBehind + time.Second, false},
	} {
		t.Run("challenged, then "+tc.name, func(t *testing.T) {
			l := newLab(t, "")
			l.clock.advance(2 * server.MaxBehind) // a clock of before the log began has no keys
			n := l.join("one")
			data := n.evidence(n.challenge())
			l.clock.advance(-tc.back)
			s, err := n.client().Submit(t.Context(), data)
			if !tc.fine {
				refused(t, err, 410, client.CodeChallengeExpired)
				if d, _ := n.prove(); d.Outcome != client.Accept {
					t.Errorf("with another challenge: %s", d.Outcome)
				}
				l.audited()
				return
			}
			must(t, err)
			l.audited(s)
		})
		t.Run("submitted, then "+tc.name, func(t *testing.T) {
			l := newLab(t, "")
			l.clock.advance(2 * server.MaxBehind) // a clock of before the log began has no keys
			n := l.join("one")
			s := n.submit(n.evidence(n.challenge()))
			l.clock.advance(-tc.back)
			l.advance()
			l.clock.advance(tc.back)
			l.advance()
			l.clock.advance(server.RetryAppraisal)
			if d := n.decision(s.Evidence); d.Outcome != client.Accept {
				t.Errorf("%s", d.Outcome)
			}
			l.audited(s)
		})
	}
}
