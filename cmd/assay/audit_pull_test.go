package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// growLog appends reference lists to the log that [writeLog] made in a folder, and publishes. as names the keys.
func growLog(t *testing.T, dir, as string, n int) {
	t.Helper()
	store := openStore(t, dir)
	defer store.Close()
	progress, err := store.Progress(t.Context())
	must(t, err)
	must(t, store.Tx(t.Context(), func(tx *server.Tx) error {
		for i := range n {
			list, err := canon.Marshal(attest.References{Type: attest.ReferencesType, Name: fmt.Sprintf("list %d of %s", progress.Entries+int64(i), filepath.Base(filepath.Dir(dir)+filepath.Base(dir))), Source: "the test", Values: []attest.Reference{
				{Format: "sev-snp", Guest: "guest", Measurement: make([]byte, 48)},
			}})
			if err != nil {
				return err
			}
			if _, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindReference, Stream: ledger.StreamServer, Time: canon.At(minted), Body: tx.PutBlob(list), Refs: []canon.Digest{}}); err != nil {
				return err
			}
		}
		return nil
	}))
	publishLog(t, store, as)
}

// logServer shows the log in a folder as a server does, and below /mirror/ as a mirror does.
type logServer struct {
	*httptest.Server
	dir    atomic.Value // string
	token  string       // "": blobs are for anybody
	left   atomic.Int64 // requests before it fails; negative: it never does
	stores sync.Map     // of the folders that were shown
	asked  atomic.Int64 // files of the log
	keyset []byte
	mirror atomic.Pointer[[]byte] // keysets of the mirror; nil: it publishes none
}

func newLogServer(t *testing.T, dir, name string) *logServer {
	t.Helper()
	l := &logServer{}
	l.dir.Store(dir)
	l.left.Store(-1)
	var err error
	if l.keyset, err = json.Marshal(client.Keysets{Keysets: []ledger.Envelope{sealedKeyset(t, name)}}); err != nil {
		t.Fatal(err)
	}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(t, w, r) }))
	t.Cleanup(func() {
		l.Close()
		l.stores.Range(func(_, open any) bool {
			if store, err := open.(func() (*server.Store, error))(); err == nil {
				store.Close()
			}
			return true
		})
	})
	return l
}

func (l *logServer) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/keys":
		w.Write(l.keyset)
		return
	case "/v1/engines":
		io.WriteString(w, `{"engines":[]}`)
		return
	case "/mirror/keysets":
		if data := l.mirror.Load(); data != nil {
			w.Write(*data)
			return
		}
	case "/v1/whoami": // what login asks
		io.WriteString(w, `{"id":"00","principal":"token:00","grant":{"role":"admin"},"made":"2026-01-01T00:00:00Z"}`)
		return
	}
	l.asked.Add(1)
	if n := l.left.Load(); n >= 0 && l.left.Add(-1) < 0 {
		http.Error(w, "gone", http.StatusBadGateway)
		return
	}
	src, err := l.source(l.dir.Load().(string))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var data []byte
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/mirror"), "/log")
	switch {
	case path == "/checkpoint":
		data, err = src.Checkpoint(r.Context())
	case strings.HasPrefix(path, "/tile/"):
		var tile ledger.Tile
		if tile, err = ledger.ParseTilePath(path[1:]); err == nil {
			data, err = src.Tile(r.Context(), tile)
		}
	case strings.HasPrefix(path, "/v1/blobs/") || strings.HasPrefix(path, "/blob/"):
		if l.token != "" && r.Header.Get("Authorization") != "Bearer "+l.token {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		var digest canon.Digest
		if digest, err = canon.ParseDigest(path[strings.LastIndex(path, "/")+1:]); err == nil {
			data, err = src.Blob(r.Context(), digest)
		}
	default:
		err = os.ErrNotExist
	}
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Write(data)
}

// source opens the log in a folder, once.
func (l *logServer) source(dir string) (ledger.Source, error) {
	open := sync.OnceValues(func() (*server.Store, error) {
		return server.OpenStore(context.Background(), "sqlite:"+filepath.Join(dir, "assay.db"), neverRandom{})
	})
	kept, _ := l.stores.LoadOrStore(dir, open)
	store, err := kept.(func() (*server.Store, error))()
	if err != nil {
		return nil, err
	}
	return store.Source(), nil
}

func TestAuditPull(t *testing.T) {
	home := t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	fork := t.TempDir()
	writeLog(t, home, "honest")
	writeLog(t, fork, "honest")
	growLog(t, home, "honest", 300)
	growLog(t, fork, "honest", 1)
	l := newLogServer(t, home, "honest")
	config := at("context.json")
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		var out, words bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &words, now: func() time.Time { return minted }, getenv: func(name string) string { return map[string]string{"ASSAY_CONFIG": config}[name] }}
		got := a.run(t.Context(), args)
		if got != code || !strings.Contains(out.String(), stdout) || !strings.Contains(words.String(), stderr) {
			t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, out.String(), words.String())
		}
	}
	export := func(name string) []byte {
		t.Helper()
		run(0, "", "", "audit", "export", "--data", home, "--out", at(name))
		data, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := func(name string, want []byte) {
		t.Helper()
		if data, err := os.ReadFile(at(name)); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s is not what audit export writes (%v)", name, err)
		}
	}
	whole := export("whole.tar")
	run(0, "", "", "audit", "trust", "init", l.URL, serveKeys(t, "honest", "none"), "--out", at("trust.yaml"))

	// A pull that is cut off, and one that goes on.
	l.left.Store(100)
	if err := os.MkdirAll(at("others"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at("others"), "letter.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(2, "", "it is there, and holds other things than a pulled log: letter.txt", "audit", "pull", l.URL, "--out", at("others"))
	run(2, "", "502", "audit", "pull", l.URL, "--out", at("log"))
	if _, err := os.Stat(filepath.Join(at("log"), "checkpoint")); err == nil {
		t.Error("a pull that was cut off left a checkpoint")
	}
	l.left.Store(-1)
	l.asked.Store(0)
	run(0, "\nnew         302 entries", "", "audit", "pull", l.URL, "--out", at("log"))
	if n := l.asked.Load(); n > 302*2+10-90 {
		t.Errorf("%d files were asked for although some were there", n)
	}
	run(0, "equal", "", "audit", "replay", at("log"), "--trust", at("trust.yaml"))

	// The same as a file, from a server, a mirror and a folder.
	run(0, "", "", "audit", "pull", l.URL, "--trust", at("trust.yaml"), "--out", at("server.tar"))
	same("server.tar", whole)
	run(0, "", "", "audit", "pull", l.URL+"/mirror/", "--out", at("mirror.tar"))
	same("mirror.tar", whole)
	run(0, "", "", "audit", "pull", at("log"), "--out", at("folder.tar"))
	same("folder.tar", whole)
	if left, _ := filepath.Glob(at("*.pull")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	// What is new, and only that.
	growLog(t, home, "honest", 5)
	grown := export("grown.tar")
	for _, out := range []string{"log", "server.tar"} {
		l.asked.Store(0)
		run(0, "\nnew         5 entries, ", "", "audit", "pull", l.URL, "--out", at(out))
		if n := l.asked.Load(); n > 20 {
			t.Errorf("%s: %d files were asked for 5 new entries", out, n)
		}
	}
	same("server.tar", grown)
	run(0, "equal", "", "audit", "replay", at("log"), "--trust", at("trust.yaml"))
	run(0, "\nnew         0 entries, 0 tiles, 0 blobs\n", "", "audit", "pull", l.URL, "--out", at("log"))

	// Blobs that the caller may not read.
	l.token = "s3cret"
	run(3, "\nwithheld    307 openings", "", "audit", "pull", l.URL, "--out", at("part"), "--trust", at("trust.yaml"))
	run(1, "missing", "", "audit", "replay", at("part"), "--trust", at("trust.yaml"))
	run(2, "", "an export is whole or nothing", "audit", "pull", l.URL, "--out", at("part.tar"), "--trust", at("trust.yaml"))
	if err := os.WriteFile(config, []byte(`{"token":"s3cret","type":"assay/context/v1","url":"`+l.URL+`"}`+"\n"), 0o600); err != nil { // as earlier builds wrote it
		t.Fatal(err)
	}
	run(0, "\nnew         0 entries, 0 tiles, 614 blobs\n", "", "audit", "pull", l.URL, "--out", at("part"))
	run(0, "equal", "", "audit", "replay", at("part"), "--trust", at("trust.yaml"))
	if _, err := os.Stat(filepath.Join(at("part"), "withheld")); err == nil {
		t.Error("nothing is withheld, and the list of it is there")
	}

	// A log that does not continue the one that was pulled: smaller, then a fork.
	before, err := os.ReadFile(filepath.Join(at("log"), "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	l.dir.Store(fork)
	run(2, "", "a checkpoint of size 307 was seen before", "audit", "pull", l.URL, "--out", at("log"))
	growLog(t, fork, "honest", 400)
	run(1, "", "the log has two histories", "audit", "pull", l.URL, "--out", at("log"))
	believed, err1 := os.ReadFile(filepath.Join(at("log"), "fork-believed.note"))
	refused, err2 := os.ReadFile(filepath.Join(at("log"), "fork-refused.note"))
	after, err3 := os.ReadFile(filepath.Join(at("log"), "checkpoint"))
	if err1 != nil || err2 != nil || err3 != nil || !bytes.Equal(believed, before) || !bytes.Equal(after, before) || !bytes.HasPrefix(refused, []byte("log.example\n403\n")) {
		t.Errorf("%v %v %v\n%s\n%s\n%s", err1, err2, err3, believed, refused, after)
	}

	// Another log altogether.
	other := newLogServer(t, home, "forger")
	run(2, "", "checkpoint", "audit", "pull", other.URL, "--out", at("other"))
	run(2, "", "want a URL or a folder", "audit", "pull", at("nowhere"), "--out", at("other"))
	run(2, "", `required flag(s) "out"`, "audit", "pull", l.URL)
}

// TestAuditPullAfterRotation: a trust file of before a change of the log's key leads to the new one where a mirror
// publishes the keysets between, and else it is said that a newer one is needed.
func TestAuditPullAfterRotation(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	home := t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	writeLog(t, home, "honest")
	l := newLogServer(t, home, "honest")
	now := minted
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		var out, words bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &words, now: func() time.Time { return now }, getenv: func(name string) string { return map[string]string{"ASSAY_CONFIG": at("none.json")}[name] }}
		if got := a.run(t.Context(), args); got != code || !strings.Contains(out.String(), stdout) || !strings.Contains(words.String(), stderr) {
			t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, out.String(), words.String())
		}
	}
	run(0, "", "", "audit", "trust", "init", l.URL, serveKeys(t, "honest", "none"), "--out", at("trust.yaml"))
	run(0, "", "", "audit", "pull", l.URL+"/mirror/", "--out", at("earlier"))

	// The log changes its key, and the old one ends.
	now = now.Add(time.Hour)
	spki, err := x509.MarshalPKIXPublicKey(newTestKey("new log").Public())
	must(err)
	first := testKeyset(t, "honest")
	next, err := first.NextKeyset(canon.At(minted)+600, 0, ledger.Key{Use: ledger.UseLog, SPKI: spki})
	must(err)
	second, err := ledger.SealKeyset(next, newTestKey("honest log"), newTestKey("new log"))
	must(err)
	body, err := canon.Marshal(second)
	must(err)
	firstBody, err := canon.Marshal(sealedKeyset(t, "honest"))
	must(err)
	store, err := server.OpenStore(t.Context(), "sqlite:"+at("assay.db"), bytes.NewReader(make([]byte, 1<<10)))
	must(err)
	defer store.Close()
	must(store.Tx(t.Context(), func(tx *server.Tx) error {
		_, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindKeyset, Stream: ledger.StreamServer, Time: next.Made, Body: tx.PutBlob(body), Refs: []canon.Digest{canon.Sum(firstBody)}})
		return err
	}))
	_, err = store.Integrate(t.Context(), 100)
	must(err)
	signer, err := ledger.LogSigner("log.example", newTestKey("new log").PrivateKey)
	must(err)
	log, err := store.Newest(t.Context())
	must(err)
	_, err = log.Publish(t.Context(), signer, next.Made, nil)
	must(err)

	run(2, "", "does not publish its keysets", "audit", "pull", l.URL+"/mirror/", "--trust", at("trust.yaml"), "--out", at("log"))
	run(2, "", "hint: make a newer trust file", "audit", "pull", l.URL+"/mirror/", "--out", at("earlier"))
	publish := func(envelopes ...ledger.Envelope) {
		data, err := json.Marshal(client.Keysets{Keysets: envelopes})
		must(err)
		l.mirror.Store(&data)
	}
	publish(sealedKeyset(t, "forger"))
	run(2, "", "do not lead from, or to, those of this trust file", "audit", "pull", l.URL+"/mirror/", "--trust", at("trust.yaml"), "--out", at("log"))
	run(2, "", "do not lead from those of the log that was pulled here", "audit", "pull", l.URL+"/mirror/", "--out", at("earlier"))
	publish(sealedKeyset(t, "honest"), second)
	run(0, "size 3", "", "audit", "pull", l.URL+"/mirror/", "--trust", at("trust.yaml"), "--out", at("log"))
	run(0, "size 3", "", "audit", "pull", l.URL+"/mirror/", "--out", at("earlier"))
	run(0, "equal", "", "audit", "replay", at("log"), "--trust", at("trust.yaml"))

	// What was pulled is a mirror in its turn, for pulls and for a newer trust file.
	files := httptest.NewServer(http.StripPrefix("/", http.FileServer(http.Dir(home))))
	defer files.Close()
	run(0, "size 3", "", "audit", "pull", at("log"), "--trust", at("trust.yaml"), "--out", at("again"))
	run(0, "size 3", "", "audit", "pull", files.URL+"/log/", "--trust", at("trust.yaml"), "--out", at("third"))
	run(0, "", "", "audit", "trust", "init", files.URL+"/log/", l.URL+"/mirror/", "--keys-only", "--out", at("newer.yaml"))
	run(0, "equal", "", "audit", "replay", at("third"), "--trust", at("newer.yaml"))
	// A mirror that is behind the trust file.
	publish(sealedKeyset(t, "honest"))
	run(0, "size 3", "", "audit", "pull", l.URL+"/mirror/", "--trust", at("newer.yaml"), "--out", at("fourth"))
}
