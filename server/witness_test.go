package server_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// history is a log that signs whatever it is told to.
type history struct {
	t     *testing.T
	key   ed25519.PrivateKey
	edge  ledger.Edge
	tiles map[ledger.Tile][]byte
	trees []ledger.Tree // by size
}

const historyOrigin = "log.example/a"

func newHistory(t *testing.T, what string, size int) *history {
	h := &history{t: t, key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), tiles: map[ledger.Tile][]byte{}, trees: []ledger.Tree{{Root: canon.Sum(nil)}}}
	for i := range size {
		var dirty []ledger.TileData
		h.edge, dirty = ledger.Append(h.edge, []canon.Digest{canon.Sum(fmt.Appendf(nil, "%s %d", what, i))})
		for _, d := range dirty {
			h.tiles[d.Tile] = d.Data
		}
		h.trees = append(h.trees, h.edge.Tree())
	}
	return h
}

func (h *history) Checkpoint(context.Context) ([]byte, error)         { return nil, fs.ErrNotExist }
func (h *history) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }
func (h *history) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	if data, ok := h.tiles[t]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (h *history) vkey() string {
	vkey, err := ledger.LogVKey(historyOrigin, h.key.Public().(ed25519.PublicKey))
	must(h.t, err)
	return vkey
}

// note returns the signed checkpoint of a tree.
func (h *history) note(origin string, tree ledger.Tree) []byte {
	signer, err := ledger.LogSigner(origin, h.key)
	must(h.t, err)
	signed, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: origin, Tree: tree}, signer)
	must(h.t, err)
	return signed
}

func (h *history) request(from, to int) ledger.AddCheckpoint {
	p, err := ledger.ProveConsistency(h.t.Context(), h, int64(from), int64(to))
	must(h.t, err)
	return ledger.AddCheckpoint{Old: int64(from), Proof: p.Hashes, Note: h.note(historyOrigin, h.trees[to])}
}

// newWitness makes a witness in a folder of its own.
func newWitness(t *testing.T, name string, now func() time.Time, logs ...string) (*server.Witness, string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "witness")
	_, err := server.InitWitness(data, name, logs, server.Deps{Random: rand.Reader})
	must(t, err)
	return openWitness(t, data, now), data
}

func openWitness(t *testing.T, data string, now func() time.Time) *server.Witness {
	t.Helper()
	w, err := server.NewWitness(t.Context(), data, "", server.Deps{Now: now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

type reply struct {
	status int
	kind   string
	body   string
}

func ask(t testing.TB, h http.Handler, body []byte) reply {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/add-checkpoint", bytes.NewReader(body)))
	return reply{rec.Code, rec.Header().Get("Content-Type"), rec.Body.String()}
}

// A witness answers each kind of request with the status that the protocol gives it, and compares with what it has
// stored, whatever the request says.
func TestG12WitnessAnswers(t *testing.T) {
	at := worldBegin
	now := func() time.Time { return at }
	h, forged := newHistory(t, "honest", 12), newHistory(t, "forged", 12)
	stranger := newHistory(t, "honest", 12)
	stranger.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32))
	w, data := newWitness(t, "witness.example/w1", now, h.vkey())
	policy, err := ledger.ParseWitnessPolicy([]byte("log " + h.vkey() + "\nwitness w " + w.VKey() + "\nquorum w\n"))
	must(t, err)
	cosigned := func(name string, req ledger.AddCheckpoint, size int) {
		t.Helper()
		got := ask(t, w.Handler(), req.Marshal())
		line, when, err := policy.Witnesses()[0].Answer(ledger.Checkpoint{Origin: historyOrigin, Tree: h.trees[size]}, []byte(got.body))
		if got.status != http.StatusOK || err != nil || line != got.body || when != canon.At(at) {
			t.Errorf("%s: %+v, %v, want a cosignature of %s", name, got, err, canon.At(at))
		}
	}
	refused := func(name string, body []byte, status int, kind, text string) {
		t.Helper()
		if got := ask(t, w.Handler(), body); got.status != status || got.kind != kind || !strings.Contains(got.body, text) {
			t.Errorf("%s: %+v, want %d %q %q", name, got, status, kind, text)
		}
	}
	const size, plain = "text/x.tlog.size", "text/plain; charset=utf-8"
	alter := func(req ledger.AddCheckpoint, f func(*ledger.AddCheckpoint)) []byte { f(&req); return req.Marshal() }
	first := h.request(0, 5)

	refused("unknown origin", alter(first, func(r *ledger.AddCheckpoint) { r.Note = h.note("log.example/b", h.trees[5]) }), 404, plain, "not known to this witness")
	refused("bad signature", stranger.request(0, 5).Marshal(), 403, plain, "not signed by a known key")
	refused("proof from size 0", alter(first, func(r *ledger.AddCheckpoint) { r.Proof = []canon.Digest{{1}} }), 422, plain, "does not lead")
	refused("the first of another size", h.request(3, 5).Marshal(), 409, size, "0\n")
	refused("an empty log with another root", alter(first, func(r *ledger.AddCheckpoint) { r.Note = h.note(historyOrigin, ledger.Tree{Root: canon.Digest{1}}) }), 422, plain, "does not lead")
	cosigned("the first", first, 5)
	cosigned("the same again", h.request(5, 5), 5)
	refused("old size 0 again", first.Marshal(), 409, size, "5\n")
	refused("same size, other root", forged.request(5, 5).Marshal(), 409, plain, "another root of the same size")
	refused("old size above the checkpoint's", alter(h.request(5, 5), func(r *ledger.AddCheckpoint) { r.Note = h.note(historyOrigin, h.trees[3]) }), 400, plain, "old size is greater")
	refused("size shrinks", alter(h.request(3, 3), func(*ledger.AddCheckpoint) {}), 409, size, "5\n")
	refused("a fork with its own good proof", forged.request(5, 9).Marshal(), 422, plain, "does not lead")
	refused("a fork that says an old size of its own", forged.request(3, 9).Marshal(), 409, size, "5\n")
	refused("a proof for other sizes", alter(h.request(5, 9), func(r *ledger.AddCheckpoint) { r.Proof = h.request(4, 9).Proof }), 422, plain, "does not lead")
	refused("a proof that is short", alter(h.request(5, 9), func(r *ledger.AddCheckpoint) { r.Proof = r.Proof[1:] }), 422, plain, "does not lead")
	w.Close()
	w = openWitness(t, data, now) // what was cosigned is on the disk
	refused("a fork after a restart", forged.request(5, 9).Marshal(), 422, plain, "does not lead")
	cosigned("the next", h.request(5, 9), 9)
	at = at.Add(-time.Second)
	if got := ask(t, w.Handler(), h.request(9, 9).Marshal()); got.status != http.StatusInternalServerError {
		t.Errorf("with a clock that went back: %+v, want 500", got)
	}
	at = at.Add(time.Second)
	cosigned("when the clock is right again", h.request(9, 12), 12)

	good := string(h.request(12, 12).Marshal())
	for name, body := range map[string]string{
		"nothing":               "",
		"no old line":           strings.TrimPrefix(good, "old 12\n"),
		"old size with a zero":  strings.Replace(good, "old 12", "old 012", 1),
		"a negative old size":   strings.Replace(good, "old 12", "old -12", 1),
		"a proof line short":    strings.Replace(good, "old 12\n", "old 12\nAAAA\n", 1),
		"url-safe base64":       strings.Replace(good, "old 12\n", "old 12\n"+strings.Repeat("_", 43)+"=\n", 1),
		"too many proof lines":  strings.Replace(good, "old 12\n", "old 12\n"+strings.Repeat(strings.Repeat("A", 43)+"=\n", 64), 1),
		"no empty line":         strings.Replace(good, "\n\n", "\n", 1),
		"no checkpoint":         "old 12\n\n",
		"an extension line":     strings.Replace(good, "\n\n— ", "\nextension\n\n— ", 1),
		"over the limit":        good + strings.Repeat("— a AAAAAAAA\n", ledger.MaxAddCheckpoint/14),
		"a carriage return":     strings.ReplaceAll(good, "\n", "\r\n"),
		"an old size past 2^53": strings.Replace(good, "old 12", "old 9007199254740993", 1),
	} {
		refused(name, []byte(body), 400, plain, "")
	}
	cosigned("the good one", h.request(12, 12), 12)
}

// Of requests that each continue what was cosigned and contradict each other, one is cosigned.
func TestWitnessOneOfManyAtOnceWins(t *testing.T) {
	h := newHistory(t, "honest", 40)
	w, data := newWitness(t, "witness.example/w1", func() time.Time { return worldBegin }, h.vkey())
	second := openWitness(t, data, func() time.Time { return worldBegin }) // another process on the same folder
	if got := ask(t, w.Handler(), h.request(0, 20).Marshal()); got.status != http.StatusOK {
		t.Fatal(got)
	}
	var bodies [][]byte
	for i := 21; i <= 40; i++ {
		bodies = append(bodies, h.request(20, i).Marshal())
	}
	got := make([]reply, len(bodies))
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() {
			by := w
			if i%2 == 1 {
				by = second
			}
			got[i] = ask(t, by.Handler(), body)
		})
	}
	all.Wait()
	won := 0
	size := ""
	for i, r := range got {
		if r.status == http.StatusOK {
			won++
			size = strconv.Itoa(21+i) + "\n"
		}
	}
	if won != 1 {
		t.Fatalf("%d requests from one size were cosigned, want 1: %+v", won, got)
	}
	for _, r := range got {
		if r.status != http.StatusOK && (r.status != http.StatusConflict || r.body != size) {
			t.Errorf("%+v, want 409 with %q", r, size)
		}
	}
}

func TestInitWitness(t *testing.T) {
	data := t.TempDir()
	h := newHistory(t, "honest", 1)
	init := func(dir, name string, logs ...string) error {
		_, err := server.InitWitness(filepath.Join(data, dir), name, logs, server.Deps{Random: rand.Reader})
		return err
	}
	must(t, init("a", "witness.example/w1", h.vkey()))
	text, err := os.ReadFile(filepath.Join(data, "a", "witness.yaml"))
	must(t, err)
	info, err := os.Stat(filepath.Join(data, "a", "keys", "witness.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v %v, want mode 600", info, err)
	}
	open := func(change func(string) string) error {
		must(t, os.WriteFile(filepath.Join(data, "a", "witness.yaml"), []byte(change(string(text))), 0o600))
		w, err := server.NewWitness(t.Context(), filepath.Join(data, "a"), "", server.Deps{Now: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err == nil {
			err = w.Close()
		}
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"twice":             {init("a", "witness.example/w1"), "is there already"},
		"a name of spaces":  {init("b", "a b"), "want 1 to 255 bytes without spaces"},
		"a log of nobody":   {init("b", "w", "log"), "want origin+hash+key"},
		"as it was made":    {open(func(s string) string { return s }), ""},
		"another type":      {open(func(s string) string { return strings.Replace(s, "/v1", "/v2", 1) }), "is not known to this build"},
		"an unknown member": {open(func(s string) string { return s + "more: 1\n" }), "more"},
		"a log's bad key":   {open(func(s string) string { return strings.Replace(s, "log.example", "logs.example", 1) }), "witness.yaml:"},
		"no folder": {func() error {
			_, err := server.NewWitness(t.Context(), filepath.Join(data, "c"), "", server.Deps{})
			return err
		}(), "no such file"},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}
