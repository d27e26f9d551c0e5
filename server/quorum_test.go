package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// switched is a witness that can be reached or not, and whose clock may be another.
type switched struct {
	data    string
	vkey    string
	witness *server.Witness
	http    *httptest.Server
	down    atomic.Bool
	hangs   atomic.Bool
	ahead   atomic.Int64 // seconds
}

// witnessed is a lab whose log is watched by witnesses w0, w1, …
type witnessed struct {
	*lab
	who []*switched
}

// newWitnessed starts a verifier that needs k of n witnesses. The witnesses learn of its log when it has begun: until then
// nothing is published.
func newWitnessed(t *testing.T, database string, k, n int) *witnessed {
	t.Helper()
	return newWitnessedBy(t, database, k, n, func(*server.Settings) {})
}

// newWitnessedBy starts one with other settings.
func newWitnessedBy(t *testing.T, database string, k, n int, change func(*server.Settings)) *witnessed {
	t.Helper()
	w := &witnessed{}
	dir := t.TempDir()
	policy := ""
	names := ""
	for i := range n {
		s := &switched{data: filepath.Join(dir, fmt.Sprint("w", i))}
		vkey, err := server.InitWitness(s.data, fmt.Sprintf("witness.example/%d", i), nil, server.Deps{Random: rand.Reader})
		must(t, err)
		s.vkey = vkey
		hung := make(chan struct{})
		s.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case s.down.Load():
				http.Error(rw, "down", http.StatusBadGateway)
			case s.hangs.Load():
				select {
				case <-r.Context().Done():
				case <-hung:
				}
			default:
				http.StripPrefix("/sub", s.witness.Handler()).ServeHTTP(rw, r)
			}
		}))
		t.Cleanup(func() { close(hung); s.http.Close() })
		policy += fmt.Sprintf("witness w%d %s %s/sub/\n", i, vkey, s.http.URL)
		names += fmt.Sprintf(" w%d", i)
		w.who = append(w.who, s)
	}
	file := filepath.Join(dir, "policy")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "%sgroup g %d%s\nquorum g\n", policy, k, names), 0o600))
	for _, s := range w.who {
		s.down.Store(true)
	}
	w.lab = newLab(t, database, func(s *server.Settings) { s.Witnesses = file }, change)
	for i, s := range w.who {
		text := fmt.Sprintf("type: assay/witness/v1\nname: witness.example/%d\nlogs: [%q]\n", i, w.logKey())
		must(t, os.WriteFile(filepath.Join(s.data, "witness.yaml"), []byte(text), 0o600))
		s.witness = openWitness(t, s.data, func() time.Time { return w.clock.Now().Add(time.Duration(s.ahead.Load()) * time.Second) })
		s.down.Store(false)
	}
	return w
}

// only lets these witnesses be reached and no others.
func (w *witnessed) only(up ...int) {
	for i, s := range w.who {
		s.down.Store(true)
		for _, u := range up {
			if u == i {
				s.down.Store(false)
			}
		}
	}
}

// published opens the newest checkpoint as a reader does who knows the witnesses.
func (w *witnessed) published() (ledger.Cosigned, error) {
	w.t.Helper()
	data, err := w.client("").Mirror().Checkpoint(w.t.Context())
	if err != nil {
		return ledger.Cosigned{}, err
	}
	text, err := os.ReadFile(w.settings.Witnesses)
	must(w.t, err)
	p, err := ledger.ParseWitnessPolicy(text)
	must(w.t, err)
	return p.Open(data, []string{w.logKey()}, ledger.Period{Until: canon.At(w.clock.Now())})
}

func (w *witnessed) cosignedBy(want string, size int64) {
	w.t.Helper()
	c, err := w.published()
	by := []string{}
	for _, x := range c.By {
		by = append(by, x.Witness)
	}
	if err != nil || strings.Join(by, " ") != want || c.Size != size || c.Until > canon.At(w.clock.Now()) || c.From == 0 {
		w.t.Errorf("published: size %d by %q from %s until %s, %v; want size %d by %q", c.Size, by, c.From, c.Until, err, size, want)
	}
}

func (w *witnessed) health() client.Health {
	w.t.Helper()
	h, err := w.client("").Health(w.t.Context())
	must(w.t, err)
	return h
}

// append puts one entry into the log.
func (w *witnessed) append() { w.join("chip " + fmt.Sprint(w.entries())) }

func TestQuorum(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		w := newWitnessed(t, url, 2, 3)
		// No witness was there at the start: the server is, and has published nothing.
		if _, err := w.published(); client.AsProblem(err) == nil || client.AsProblem(err).Status != 404 {
			t.Errorf("published without a quorum: %v", err)
		}
		if h := w.health(); !strings.HasPrefix(h.Status, "stalled: too few witnesses cosign; 4 entries wait") || h.Waiting != 4 {
			t.Errorf("health without a quorum: %+v", h)
		}
		w.advance()
		w.cosignedBy("w0 w1 w2", 4)
		if h := w.health(); !sameJSON(t, h, client.Health{Status: "ok", Size: 4, Roles: server.Roles(), Turns: []string{"publish", "clock"}}) {
			t.Errorf("health: %+v", h)
		}
		// With one witness down publishing goes on.
		w.only(0, 2)
		w.append()
		w.advance()
		w.cosignedBy("w0 w2", 5)
		// A witness that hangs holds nothing up for longer than WitnessLinger.
		w.only(0, 1, 2)
		w.who[1].hangs.Store(true)
		w.append()
		began := time.Now()
		w.advance()
		w.cosignedBy("w0 w2", 6)
		if took := time.Since(began); took > server.WitnessTimeout/2 {
			t.Errorf("a witness that hangs held publishing up for %s", took)
		}
		w.who[1].hangs.Store(false)
		// With two down nothing is published, and nothing is lost.
		w.only(1)
		w.append()
		var missing *ledger.QuorumError
		err := w.server.Advance(t.Context())
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no quorum of witnesses: cosigned by w1\nwitness w0: it answered 502") {
			t.Errorf("publishing without a quorum: %v", err)
		}
		w.cosignedBy("w0 w2", 6)
		w.clock.advance(90 * time.Second)
		if h := w.health(); h.Status != "stalled: too few witnesses cosign; 1 entries wait to be published, the oldest for 90 s" || h.PublishedAge != 90 || h.WaitingAge != 90 {
			t.Errorf("health in a stall: %+v", h)
		}
		w.only(0, 1, 2)
		w.advance()
		w.cosignedBy("w0 w1 w2", 7)
		if h := w.health(); h.Status != "ok" {
			t.Errorf("health after the stall: %+v", h)
		}
		w.audited()
	})
}

// A log that is built anew with the same key is refused by the witnesses of the old one, and is not published.
func TestQuorumRefusesARebuiltLog(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	for range 8 {
		w.append()
	}
	w.advance()
	w.cosignedBy("w0 w1 w2", 12)
	w.http.Close()
	must(t, w.server.Close())
	for _, f := range []string{"assay.db", "assay.db-wal", "assay.db-shm"} {
		if err := os.Remove(filepath.Join(w.settings.Data, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	w.admin = ""
	w.start()
	refused := func(when, want string) {
		t.Helper()
		err := w.server.Advance(t.Context())
		var missing *ledger.QuorumError
		if !errors.As(err, &missing) || len(missing.By) != 0 || strings.Count(err.Error(), want) != 3 {
			t.Errorf("%s: %v, want %q of each witness", when, err, want)
		}
		if _, err := w.published(); client.AsProblem(err) == nil || client.AsProblem(err).Status != 404 {
			t.Errorf("%s: published: %v", when, err)
		}
	}
	refused("smaller", "it cosigned size 12, this log has size 4")
	for range 8 {
		w.append()
	}
	refused("of equal size", "it answered 409 to size 12 after 12 (it knows another history of this log): \"the witness cosigned another root of the same size\"")
	w.append()
	refused("larger", "it answered 422 to size 13 after 12 (it knows another history of this log): \"the proof does not lead")
}

// What is not a good cosignature of a witness of the policy does not count, and the reason is named.
func TestQuorumCountsGoodCosignaturesOnly(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	w.advance()
	stranger, _ := newWitness(t, "witness.example/0", w.clock.Now, w.logKey())
	honest := w.who[0].http.Config.Handler
	answers := func(f func(rw http.ResponseWriter, r *http.Request)) {
		w.who[0].http.Config.Handler = http.HandlerFunc(f)
	}
	w.only(0, 1)
	for name, c := range map[string]struct {
		answer func(rw http.ResponseWriter, r *http.Request)
		want   string
	}{
		"another key of that name": {http.StripPrefix("/sub", stranger.Handler()).ServeHTTP, "witness w0: the answer holds no cosignature of its key"},
		"not lines":                {func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte("thanks\n")) }, "witness w0: the answer is not signature lines"},
		"a flipped bit": {func(rw http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			honest.ServeHTTP(rec, r)
			rw.Write(bytes.Replace(rec.Body.Bytes(), []byte("\n"), nil, 1)[:rec.Body.Len()-9])
			rw.Write([]byte("AAAAAA==\n"))
		}, "witness w0: its cosignature does not verify"},
		"endless": {func(rw http.ResponseWriter, _ *http.Request) { rw.Write(bytes.Repeat([]byte("A"), 1<<20)) }, "witness w0: answer of 16385 bytes"},
		"the size it was asked from": {func(rw http.ResponseWriter, r *http.Request) {
			var old int64
			fmt.Fscanf(r.Body, "old %d\n", &old)
			rw.Header().Set("Content-Type", "text/x.tlog.size")
			rw.WriteHeader(http.StatusConflict)
			fmt.Fprintf(rw, "%d\n", old)
		}, "witness w0: it says that it cosigned size"},
		"another size each time": {func(rw http.ResponseWriter, r *http.Request) {
			var old int64
			fmt.Fscanf(r.Body, "old %d\n", &old)
			rw.Header().Set("Content-Type", "text/x.tlog.size")
			rw.WriteHeader(http.StatusConflict)
			fmt.Fprintf(rw, "%d\n", (old+1)%3)
		}, "witness w0: it says another size each time"},
		"a redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, w.who[2].http.URL, http.StatusTemporaryRedirect)
		}, "witness w0: it answered 307"},
	} {
		w.append()
		answers(c.answer)
		err := w.server.Advance(t.Context())
		var missing *ledger.QuorumError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	w.who[0].http.Config.Handler = honest
	w.advance()
	w.cosignedBy("w0 w1", int64(w.entries()))
}

// T13: a cosignature from the future, or from long ago, is not counted: one of the clocks is wrong.
func TestT13QuorumAndClocks(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	w.only(0, 1)
	slack := int64(ledger.ClockSlack)
	try := func(ahead int64, want string) {
		t.Helper()
		w.append()
		w.who[0].ahead.Store(ahead)
		err := w.server.Advance(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("witness %d s ahead: %v, want %q", ahead, err, want)
		}
	}
	try(-slack, "")
	try(-slack-1, "502") // the witness itself: its clock went back
	w.clock.advance(time.Hour)
	try(-slack-1, "w0 cosigned at 2026-02-01T12:58:59Z, which is not from 2026-02-01T12:59:00Z to 2026-02-01T13:01:00Z")
	try(slack, "")
	try(slack+1, "w0 cosigned at 2026-02-01T13:01:01Z, which is not from")
}

// TestSilentWitness: a witness that no longer cosigns is told of once, though the others are a quorum, and so is that it
// does again; a scrape says since when.
func TestSilentWitness(t *testing.T) {
	for name, fault := range map[string]func(w *switched, on bool){
		"down":        func(w *switched, on bool) { w.down.Store(on) },
		"wrong clock": func(w *switched, on bool) { w.ahead.Store(map[bool]int64{true: int64(ledger.ClockSlack) + 1}[on]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitnessed(t, "", 2, 3)
			w.advance()
			told := func(words string) int { return strings.Count(w.log.String(), words+"\" witness=w2") }
			fault(w.who[2], true)
			for range 5 {
				w.append()
				w.advance()
				w.clock.advance(server.WitnessSilence / 4)
			}
			if told("a witness does not cosign") != 0 {
				t.Errorf("told too early: %s", w.log)
			}
			for range 3 {
				w.append()
				w.advance()
				w.clock.advance(time.Second)
			}
			if told("a witness does not cosign") != 1 || !strings.Contains(w.log.String(), "for=1m15s") {
				t.Errorf("want it told once: %s", w.log)
			}
			if got := w.scrape().value("assay_witness_age_seconds", "witness=w2"); got != 78 {
				t.Errorf("age of w2: %v s, want 78", got)
			}
			if got := w.scrape().value("assay_witness_age_seconds", "witness=w0"); got != 1 {
				t.Errorf("age of w0: %v s, want 1", got)
			}
			w.clock.advance(time.Duration(ledger.ClockSlack) * time.Second)
			fault(w.who[2], false)
			for range 2 {
				w.append()
				w.advance()
			}
			if told("a witness cosigns again") != 1 {
				t.Errorf("want it told once that it cosigns again: %s", w.log)
			}
		})
	}
}

// A verdict that no cosigned checkpoint holds starts nothing; one that was published stands for StallGrace of a stall.
func TestStallGrace(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	w.advance()
	n := w.join("one")
	_, first := n.prove()
	if _, err := n.client().EAR(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.only(1)
	s := n.submit(n.evidence(n.challenge()))
	if err := w.server.Advance(t.Context()); err == nil {
		t.Fatal("published without a quorum")
	}
	_, err := n.client().EAR(t.Context(), s.Evidence)
	if p := refused(t, err, 409, "not-published"); p.RetryAfter == 0 {
		t.Error("not published: no word of when to ask again")
	}
	w.clock.advance(server.StallGrace)
	if _, err := n.client().EAR(t.Context(), first); err != nil {
		t.Errorf("at the end of the grace: %v", err)
	}
	w.clock.advance(time.Second)
	_, err = n.client().EAR(t.Context(), first)
	if p := refused(t, err, 503, "stalled"); p.RetryAfter == 0 {
		t.Error("stalled: no word of when to ask again")
	}
	w.only(0, 1)
	w.advance()
	for _, evidence := range []canon.Digest{first, s.Evidence} {
		if _, err := n.client().EAR(t.Context(), evidence); err != nil {
			t.Errorf("after the stall: %v", err)
		}
	}
}

// Witnesses may be named when the log is there already: what was published alone is published again, cosigned.
func TestWitnessesOfALogThatIsThere(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	policy := w.settings.Witnesses
	w.settings.Witnesses = ""
	w.restart()
	w.settings.Witnesses = policy
	if _, err := w.published(); err == nil {
		t.Error("published alone: a quorum")
	}
	w.restart()
	w.cosignedBy("w0 w1 w2", 4)
}

func TestWitnessSettings(t *testing.T) {
	l := newLab(t, "")
	key := l.server.Keyset()
	vkey := func(name string) string {
		v, err := server.InitWitness(filepath.Join(t.TempDir(), "w"), name, nil, server.Deps{Random: rand.Reader})
		must(t, err)
		return v
	}
	a := vkey("a.example")
	origin, logKey, err := ledger.ParseLogVKey(key.LogVKeys(key.Made)[0])
	must(t, err)
	own, err := ledger.WitnessVKey(origin, logKey)
	must(t, err)
	for name, c := range map[string]struct{ text, want string }{
		"good":                  {"witness a " + a + " https://a.example/w\nquorum a\n", ""},
		"no URL":                {"witness a " + a + "\nquorum a\n", "witness a: URL \"\": want http"},
		"no host":               {"witness a " + a + " https:///w\nquorum a\n", "witness a: URL"},
		"of another log":        {"log " + newHistory(t, "x", 1).vkey() + "\nwitness a " + a + " https://a.example\nquorum a\n", "not for the log with the key"},
		"the log's own":         {"witness a " + own + " https://a.example\nquorum a\n", "witness a has a key of the log's operator"},
		"nobody needed":         {"quorum none\n", "quorum none asks for no witness"},
		"half":                  {"witness a " + a + " https://a.example\nwitness b " + vkey("b") + " https://b.example\ngroup g 1 a b\nquorum g\n", "need not share a witness"},
		"the file is not there": {"", "no such file"},
	} {
		file := filepath.Join(t.TempDir(), "policy")
		if c.text != "" {
			must(t, os.WriteFile(file, []byte(c.text), 0o600))
		}
		s := l.settings
		s.Witnesses = file
		again, err := server.New(context.WithoutCancel(t.Context()), s, server.Deps{Now: l.clock.Now, Random: rand.Reader, Log: quiet()})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if again != nil {
			again.Close()
		}
	}
}

// logKey returns the verifier key of the log's newest key.
func (w *witnessed) logKey() string {
	return w.server.Keyset().LogVKeys(canon.At(w.clock.Now()))[0]
}

// TestWitnessPolicyAfterRotation: a policy names the log by a key; after a change of log keys it is still this log's, and
// its witnesses, who were told of the new key, go on.
func TestWitnessPolicyAfterRotation(t *testing.T) {
	w := newWitnessed(t, "", 2, 3)
	old := w.logKey()
	text, err := os.ReadFile(w.settings.Witnesses)
	must(t, err)
	must(t, os.WriteFile(w.settings.Witnesses, append([]byte("log "+old+"\n"), text...), 0o600))
	w.restart()
	w.join("one")
	w.advance()
	published, err := w.published()
	must(t, err)
	w.settings.Renew = []string{ledger.UseLog + ":now"}
	w.restart()
	w.settings.Renew = nil
	w.clock.advance(time.Minute)
	w.restart() // the old key has ended
	if w.logKey() == old {
		t.Fatal("the log key is the old one")
	}
	for i, s := range w.who {
		must(t, s.witness.Close())
		text := fmt.Sprintf("type: assay/witness/v1\nname: witness.example/%d\nlogs: [%q, %q]\n", i, old, w.logKey())
		must(t, os.WriteFile(filepath.Join(s.data, "witness.yaml"), []byte(text), 0o600))
		s.witness = openWitness(t, s.data, w.clock.Now)
	}
	w.join("two")
	w.advance()
	data, err := w.client("").Mirror().Checkpoint(t.Context())
	must(t, err)
	p, err := ledger.ParseWitnessPolicy(text)
	must(t, err)
	if c, err := p.Open(data, []string{w.logKey()}, ledger.Period{Until: canon.At(w.clock.Now())}); err != nil || c.Size <= published.Size {
		t.Errorf("size %d: %v", c.Size, err)
	}
	// A policy of another log is none of this one's.
	_, key, err := ledger.ParseLogVKey(old)
	must(t, err)
	stranger, err := ledger.LogVKey("other.test/log", key)
	must(t, err)
	must(t, os.WriteFile(w.settings.Witnesses, append([]byte("log "+stranger+"\n"), text...), 0o600))
	w.http.Close()
	must(t, w.server.Close())
	wantErr(t, w.opened(), "witness policy: not for the log with the key")
}
