package audit_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestPromises(t *testing.T) {
	s := newService(t, "honest")
	h := newHost("good", sevsnp.PolicySMT)
	c := s.ask(h.node)
	body, commitment := s.take(c, h.answer(s.log, c.Digest()))
	s.decide(s.judge(c, body), body)
	s.publish()
	_, taken, err := ledger.ParseOpening(s.blobs[commitment])
	s.must(err)
	kept := ledger.NewPromise(origin, commitment, taken)

	lost := kept
	lost.Commitment = canon.Sum([]byte("nowhere"))
	moved := kept
	moved.Sequence, moved.Previous = 1, canon.Sum([]byte("another past"))
	foreign := kept
	foreign.Origin = "log.example/two"
	const minute = ledger.PublishWithin

	for _, row := range []struct {
		name    string
		promise ledger.Promise
		use     string     // of the key that signs it
		later   canon.Time // how long after the evidence the log's last entry was made
		state   string
		what    string
		exit    int
	}{
		{"kept", kept, ledger.UsePromise, 10 * minute, audit.PromiseKept, "entry 6", 0},
		{"withheld", lost, ledger.UsePromise, minute + 1, audit.PromiseWithheld, "publish-by was", 1},
		{"not due, to the second", lost, ledger.UsePromise, minute, audit.PromiseOpen, "publish-by is", 3},
		{"another place in its stream", moved, ledger.UsePromise, minute, audit.PromiseRefused, "another stream, place or time", 1},
		{"of another log", foreign, ledger.UsePromise, minute, audit.PromiseRefused, `made by the log "log.example/two"`, 1},
		{"signed with the result key", kept, ledger.UseResult, minute, audit.PromiseRefused, "not signed by a promise key", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			env, err := ledger.SealPromise(row.promise, s.key(row.use))
			s.must(err)
			log := grown(s, taken.Time+row.later)
			r := replay(t, log.export(), s.trust(), audit.Options{Promises: []audit.GivenPromise{{Name: "p.json", Data: append(s.bytes(env), '\n')}}})
			if len(r.Promises) != 1 || r.Promises[0].State != row.state || !strings.Contains(r.Promises[0].What, row.what) || r.Outcome.ExitCode() != row.exit {
				t.Errorf("%s", r.Text())
			}
			if row.exit == 1 {
				wantFault(t, r, "promise p.json", row.state)
			}
		})
	}
	t.Run("no promise at all", func(t *testing.T) {
		r := replay(t, s.export(), s.trust(), audit.Options{Promises: []audit.GivenPromise{{Name: "p.json", Data: []byte("{}")}}})
		wantFault(t, r, "promise p.json", "refused: envelope")
	})
}

// grown returns a copy of a log with one more entry, made at a time.
func grown(s *service, at canon.Time) *log {
	l := newSnapshot(s).restore(s.t)
	l.now = at
	l.append(ledger.KindReference, ledger.StreamServer, l.put(s.references))
	return l.publish()
}
