package server_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// auditedBy replays the log as an auditor does who trusts its witnesses, and holds these promises.
func (w *witnessed) auditedBy(submitted ...client.Submitted) audit.Report {
	w.t.Helper()
	text, err := os.ReadFile(w.settings.Witnesses)
	must(w.t, err)
	keys := w.server.Keyset()
	trust := audit.Trust{Type: audit.TrustType, Keyset: keys, Witnesses: []ledger.WitnessTerm{{From: canon.At(worldBegin) - 1, Policy: string(text)}}}
	var o audit.Options
	for _, sub := range submitted {
		data, err := canon.Marshal(sub.Promise)
		must(w.t, err)
		o.Promises = append(o.Promises, audit.GivenPromise{Name: sub.Evidence.Short(), Data: data})
	}
	var file bytes.Buffer
	must(w.t, audit.Export(w.t.Context(), w.server.Source(), &file))
	report, err := audit.ReplayFile(w.t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), &trust, o)
	must(w.t, err)
	return report
}

// TestTimeIsBracketed: what a server does by its clock lies between the cosignatures of others, also after hours in which
// nothing was new, and when both challenge and appraiser take their time. What is judged in a stall is not known to.
func TestTimeIsBracketed(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		w := newWitnessed(t, url, 2, 3)
		w.advance()
		n := w.join("one")
		n.lab = w.lab
		var promised []client.Submitted
		prove := func(answer, judge time.Duration) {
			t.Helper()
			w.advance() // the publisher runs all the time
			ch := n.challenge()
			w.clock.advance(answer)
			promised = append(promised, n.submit(n.evidence(ch)))
			w.clock.advance(judge)
			w.advance()
		}
		prove(0, 0)
		w.clock.advance(40 * time.Minute)
		prove(2*time.Second, time.Second)
		w.clock.advance(server.CheckpointLife - time.Second)
		prove(server.ChallengeLife-time.Second, time.Second)
		r := w.auditedBy(promised...)
		if r.Outcome != audit.Equal || r.Time.Affirmed != 3 || len(r.Time.Unknown) != 0 {
			t.Errorf("%s", r.Text())
		}
		for _, p := range r.Promises {
			if p.State != audit.PromiseKept || !bytes.Contains([]byte(p.What), []byte("cosigned at")) {
				t.Errorf("promise %+v, want kept by the time of cosignatures", p)
			}
		}
		var here, there bytes.Buffer
		must(t, audit.Export(t.Context(), w.server.Source(), &here))
		must(t, audit.Export(t.Context(), w.client(w.admin).Mirror(), &there))
		if !bytes.Equal(here.Bytes(), there.Bytes()) {
			t.Errorf("exported from afar: %d bytes, here %d", there.Len(), here.Len())
		}
		w.only(0)
		ch := n.challenge()
		n.submit(n.evidence(ch))
		w.server.Advance(t.Context()) // no quorum
		w.clock.advance(10 * time.Minute)
		w.only(0, 1)
		w.advance()
		r = w.auditedBy()
		if want := []audit.KindCount{{Kind: "stall", Count: 1}}; r.Outcome != audit.Equal || r.Time.Affirmed != 3 || len(r.Time.Unknown) != 1 || r.Time.Unknown[0] != want[0] {
			t.Errorf("after a stall: %s", r.Text())
		}
	})
}

// TestEvidenceAgeByWitnesses: a server whose clock runs ahead of its witnesses' dates its challenges later, and takes no
// evidence for younger than the newest checkpoint that they cosigned.
func TestEvidenceAgeByWitnesses(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	w.advance()
	n := w.join("one")
	n.lab = w.lab
	w.advance()
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Fatalf("%+v", d)
	}
	cosigned, err := w.published()
	must(t, err)
	const ahead = 25 * time.Hour // more than the policy allows
	w.clock.advance(ahead)
	for _, s := range w.who {
		s.ahead.Store(-int64(ahead / time.Second))
	}
	ch := n.challenge()
	if issued := ch.Challenge.Issued; issued-cosigned.From < canon.Time(ahead/time.Second) {
		t.Fatalf("issued at %s, cosigned at %s", issued, cosigned.From)
	}
	sub := n.submit(n.evidence(ch))
	w.server.Advance(t.Context()) // no quorum: the clocks are too far apart
	d := n.decision(sub.Evidence)
	if d.Outcome != client.Reject {
		t.Errorf("%+v, want a reject", d)
	}
	if !slices.ContainsFunc(d.Reasons, func(r client.Reason) bool {
		return r.Claim == "sevsnp.freshness" && strings.Contains(r.Observed, "old, from "+cosigned.From.String())
	}) {
		t.Errorf("%+v, want that the evidence is old, from %s", d.Reasons, cosigned.From)
	}
}
