package main

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
)

// testKey signs with an Ed25519 key that follows from a name.
type testKey struct{ ed25519.PrivateKey }

func newTestKey(name string) testKey {
	seed := sha256.Sum256([]byte(name))
	return testKey{ed25519.NewKeyFromSeed(seed[:])}
}

func (k testKey) Sign(message []byte) ([]byte, error) {
	return k.PrivateKey.Sign(nil, message, crypto.Hash(0))
}

// keysetOf returns the keyset of a name.
func keysetOf(name string) (ledger.Keyset, error) {
	k := ledger.Keyset{Type: ledger.KeysetType, Origin: "log.example", Made: canon.At(minted)}
	for _, use := range []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise} {
		spki, err := x509.MarshalPKIXPublicKey(newTestKey(name + " " + use).Public())
		if err != nil {
			return k, err
		}
		k.Keys = append(k.Keys, ledger.Key{Use: use, SPKI: spki, From: k.Made})
	}
	return k, nil
}

// sealKeyset returns the envelope of a keyset, signed by the keys of a name.
func sealKeyset(k ledger.Keyset, name string) (ledger.Envelope, error) {
	return ledger.SealKeyset(k, newTestKey(name+" log"), newTestKey(name+" result"), newTestKey(name+" promise"))
}

func testKeyset(t *testing.T, name string) ledger.Keyset {
	t.Helper()
	k, err := keysetOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sealedKeyset(t *testing.T, name string) ledger.Envelope {
	t.Helper()
	env, err := sealKeyset(testKeyset(t, name), name)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// serveKeys serves a keyset and engines as a server does, and below /mirror/ as a mirror does, and returns its URL. No
// engines at all: it does not say which there are.
func serveKeys(t *testing.T, name string, engines ...string) string {
	t.Helper()
	said := map[string]any{client.SaidKeysets: client.Keysets{Keysets: []ledger.Envelope{sealedKeyset(t, name)}}}
	if len(engines) > 0 {
		var list client.Engines
		for _, e := range engines {
			if e != "none" {
				list.Engines = append(list.Engines, client.Engine{Module: canon.Sum([]byte(e)), Version: e, Go: "go1.26.8"})
			}
		}
		said[client.SaidEngines] = list
	}
	answers := map[string][]byte{}
	for name, v := range said {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		answers["/mirror/"+name] = data
		answers[map[string]string{client.SaidKeysets: "/v1/keys", client.SaidEngines: "/v1/engines"}[name]] = data
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// openStore opens the database of a server's data folder. The caller closes it.
func openStore(t *testing.T, dir string) *server.Store {
	t.Helper()
	store, err := server.OpenStore(t.Context(), "sqlite:"+filepath.Join(dir, "assay.db"), bytes.NewReader(make([]byte, 1<<20)))
	must(t, err)
	return store
}

// publishLog publishes all that a store has. as names the keys.
func publishLog(t *testing.T, store *server.Store, as string) {
	t.Helper()
	_, err := store.Integrate(t.Context(), 10_000)
	must(t, err)
	signer, err := ledger.LogSigner("log.example", newTestKey(as+" log").PrivateKey)
	must(t, err)
	log, err := store.Newest(t.Context())
	must(t, err)
	_, err = log.Publish(t.Context(), signer, canon.At(minted), nil)
	must(t, err)
}

// writeLog makes the database of a log in a server's data folder: a keyset and a policy. It returns a promise that was
// kept, signed.
func writeLog(t *testing.T, dir, name string) ledger.Envelope {
	t.Helper()
	store := openStore(t, dir)
	defer store.Close()
	keyset, err := canon.Marshal(sealedKeyset(t, name))
	must(t, err)
	rules, _ := policy.Builtin("genuine")
	var promise ledger.Promise
	must(t, store.Tx(t.Context(), func(tx *server.Tx) error {
		for _, d := range []server.Draft{
			{Kind: ledger.KindKeyset, Body: tx.PutBlob(keyset)}, {Kind: ledger.KindPolicy, Body: tx.PutBlob(rules.Canonical())},
		} {
			d.Stream, d.Time, d.Refs = ledger.StreamServer, canon.At(minted), []canon.Digest{}
			commitment, e, err := tx.Append(t.Context(), d)
			if err != nil {
				return err
			}
			promise = ledger.NewPromise("log.example", commitment, e)
		}
		return nil
	}))
	publishLog(t, store, name)
	env, err := ledger.SealPromise(promise, newTestKey(name+" "+ledger.UsePromise))
	must(t, err)
	return env
}

func TestAudit(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	promise, err := canon.Marshal(writeLog(t, dir, "honest"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(at(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("promise.json", promise)
	write("nothing.json", []byte("{}"))
	one, two, forger := serveKeys(t, "honest", "none"), serveKeys(t, "honest", "none"), serveKeys(t, "forger", "none")
	old, new, silent := serveKeys(t, "honest", "1.0"), serveKeys(t, "honest", "1.0", "1.1"), serveKeys(t, "honest")
	write("engine.wasm", []byte("own"))

	// In order: later rows use what earlier ones wrote.
	rows := []struct {
		name   string
		args   []string
		code   int
		stdout string // at the end of it
		stderr string // somewhere in it
	}{
		{"export", []string{"audit", "export", "--data", dir, "--out", at("log.tar")}, 0, "", ""},
		{"export by URL", []string{"audit", "export", "--database", "sqlite:" + at("assay.db"), "--out", at("same.tar")}, 0, "", ""},
		{"export of nothing", []string{"audit", "export", "--data", at("nowhere")}, 2, "", "no such file"},
		{"export of two", []string{"audit", "export", "--data", dir, "--database", "sqlite:x"}, 2, "", "want one of --data"},
		{"trust", []string{"audit", "trust", "init", one, two, "--out", at("trust.yaml")}, 0, "", ""},
		{"trust of one source", []string{"audit", "trust", "init", one}, 2, "", "want at least two URLs"},
		{"trust of one source twice", []string{"audit", "trust", "init", one, one + "/"}, 2, "", "is named twice"},
		{"trust of sources that differ", []string{"audit", "trust", "init", one, forger}, 2, "", "sources differ: " + one + " has the log key"},
		{"trust of engines", []string{"audit", "trust", "init", old, serveKeys(t, "honest", "1.0") + "/mirror/"}, 0,
			"engines:\n  - \"" + canon.Sum([]byte("1.0")).String() + "\"\n", ""},
		{"and of one's own", []string{"audit", "trust", "init", old, old + "/mirror/", "--engine", at("engine.wasm"), "--keys-only"}, 0,
			"engines:\n  - \"" + canon.Sum([]byte("own")).String() + "\"\n", ""},
		{"trust of engines that differ", []string{"audit", "trust", "init", old, new + "/mirror"}, 2, "", "sources differ: " + new + "/mirror/ names the engine " + canon.Sum([]byte("1.1")).String() + ", " + old + " does not"},
		{"trust of a source that says no engines", []string{"audit", "trust", "init", old, silent + "/mirror/"}, 2, "", silent + "/mirror/: it does not say which engines the log has"},
		{"trust of keys alone", []string{"audit", "trust", "init", old, silent + "/mirror/", "--keys-only", "--out", at("keys.yaml")}, 0, "", ""},
		{"trust of no mirror", []string{"audit", "trust", "init", old, silent + "/nowhere/", "--keys-only"}, 2, "", silent + "/nowhere/: "},
		{"trust in a forger", []string{"audit", "trust", "init", forger, serveKeys(t, "forger", "none"), "--out", at("forger.yaml")}, 0, "", ""},
		{"replay", []string{"audit", "replay", at("log.tar"), "--trust", at("trust.yaml")}, 0, "\nreplayed 0 of 0, 0 differ\n", ""},
		{"replay without trust", []string{"audit", "replay", at("log.tar")}, 3, "\nreplayed 0 of 0, 0 differ\n", "hint: to know whose log this is"},
		{"replay with a forger's trust", []string{"audit", "replay", at("log.tar"), "--trust", at("forger.yaml")}, 1, "\nreplayed 0 of 0, 0 differ\n", ""},
		{"replay with a promise", []string{"audit", "replay", at("log.tar"), "--trust", at("trust.yaml"), "--promise", at("promise.json")}, 0, "\nreplayed 0 of 0, 0 differ\n", ""},
		{"replay with what is no promise", []string{"audit", "replay", at("log.tar"), "--trust", at("trust.yaml"), "--promise", at("nothing.json")}, 1, "", ""},
		{"replay as JSON", []string{"audit", "replay", at("log.tar"), "-o", "json"}, 3, "}\n", ""},
		{"replay as a table", []string{"audit", "replay", at("log.tar"), "-o", "csv"}, 2, "", "want text or json"},
		{"replay of nothing", []string{"audit", "replay", at("nowhere")}, 2, "", "no such file"},
		{"replay of an empty folder", []string{"audit", "replay", t.TempDir(), "--trust", at("trust.yaml")}, 1, "", ""},
		{"replay of another file", []string{"audit", "replay", at("trust.yaml")}, 1, "", ""},
		{"replay with another file as trust", []string{"audit", "replay", at("log.tar"), "--trust", at("promise.json")}, 2, "", "unknown key"},
		{"replay with no workers", []string{"audit", "replay", at("log.tar"), "--workers", "0"}, 2, "", "want 1 to"},
	}
	for _, row := range rows {
		stdout, stderr, code := command(t, row.args...)
		if code != row.code || !strings.HasSuffix(stdout, row.stdout) || !strings.Contains(stderr, row.stderr) || strings.Contains(stderr, "\r") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", row.name, code, row.code, stdout, stderr)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(read("log.tar"), read("same.tar")) {
		t.Error("two exports of one log differ")
	}
	if stdout, _, _ := command(t, "audit", "export", "--data", dir); stdout != string(read("log.tar")) {
		t.Error("the export on stdout differs from the file")
	}
	if !strings.HasPrefix(string(read("trust.yaml")), "# What these sources told alike:\n#   "+one+"\n#   "+two+"\ntype: "+audit.TrustType) {
		t.Errorf("trust file:\n%s", read("trust.yaml"))
	}
	if left, _ := filepath.Glob(at(".*")); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// TestAuditRefusesGODEBUG: settings that change what signatures Go accepts would change a replay.
func TestAuditRefusesGODEBUG(t *testing.T) {
	for _, args := range [][]string{
		{"replay", "log.tar"}, {"population", "log.tar"}, {"sample", "log.tar", "--seed", "1", "--size", "1"}, {"challenge", "log.tar", "--seed", "1"},
		{"diff", "log.tar", "1", "2"}, {"explain", "log.tar", "1"},
	} {
		var words bytes.Buffer
		a := &app{stdout: io.Discard, stderr: &words, getenv: func(string) string { return "x509negativeserial=1" }}
		if code := a.run(t.Context(), append([]string{"audit"}, args...)); code != 2 || !strings.Contains(words.String(), "GODEBUG") {
			t.Errorf("%s: exit code %d: %s", args[0], code, words.String())
		}
	}
}
