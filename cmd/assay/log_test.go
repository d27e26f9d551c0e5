package main

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

type noteKey struct{ ed25519.PrivateKey }

func (k noteKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

// TestLogCheck: what a renter sees of a log that goes on, lacks its witnesses, and forks.
func TestLogCheck(t *testing.T) {
	key := func(b byte) noteKey { seed := [32]byte{b}; return noteKey{ed25519.NewKeyFromSeed(seed[:])} }
	vkey, err := ledger.LogVKey("log.example", key(1).Public().(ed25519.PublicKey))
	must(t, err)
	witness, err := ledger.WitnessVKey("witness.example", key(2).Public().(ed25519.PublicKey))
	must(t, err)
	signer, err := ledger.LogSigner("log.example", key(1).PrivateKey)
	must(t, err)
	var shown []byte
	tiles := map[string][]byte{}
	grow := func(what byte, size int) ledger.Checkpoint {
		var edge ledger.Edge
		for i := range size {
			var dirty []ledger.TileData
			edge, dirty = ledger.Append(edge, []canon.Digest{canon.Sum([]byte{what, byte(i)})})
			for _, d := range dirty {
				tiles["/log/"+d.Path()] = d.Data
			}
		}
		return ledger.Checkpoint{Origin: "log.example", Tree: edge.Tree()}
	}
	show := func(c ledger.Checkpoint, ahead ...canon.Time) {
		shown, err = ledger.SignCheckpoint(c, signer)
		must(t, err)
		for _, a := range ahead {
			line, err := ledger.Cosign(c, "witness.example", key(2), canon.At(minted)+a)
			must(t, err)
			shown = append(shown, line...)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := tiles[r.URL.Path]
		if r.URL.Path == "/log/checkpoint" {
			data, ok = shown, shown != nil
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
	}))
	defer server.Close()
	dir := t.TempDir()
	policy, state := filepath.Join(dir, "policy"), filepath.Join(dir, "state")
	must(t, os.WriteFile(policy, []byte("witness w "+witness+"\nquorum w\n"), 0o600))
	check := func(name string, wantCode int, want string, more ...string) {
		t.Helper()
		stdout, stderr, code := command(t, append([]string{"log", "check", server.URL, "--log-key", vkey, "--state", state}, more...)...)
		if code != wantCode || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit %d, want %d and %q\n%s%s", name, code, wantCode, want, stdout, stderr)
		}
	}
	check("nothing published", exitUsage, "404")
	show(grow(0, 5), 0)
	check("the first", exitAccept, "log          log.example\ncheckpoint   size 5, root "+grow(0, 5).Root.String()+"\n", "--witnesses", policy)
	check("with whom and when", exitAccept, fmt.Sprintf("witness      w at %s\ncosigned     from %s until %s\n", canon.At(minted), canon.At(minted), canon.At(minted)), "--witnesses", policy)
	show(grow(0, 9))
	check("without its witness", exitUndecided, "undecided    checkpoint of size 9 of \"log.example\": no quorum of witnesses: cosigned by none of the policy", "--witnesses", policy)
	show(grow(0, 9), ledger.ClockSlack+1)
	check("witnessed in the future", exitUndecided, "w cosigned at", "--witnesses", policy)
	show(grow(0, 9), ledger.ClockSlack)
	check("witnessed", exitAccept, "size 9", "--witnesses", policy)
	good := shown
	show(grow(0, 5), 0)
	check("older", exitUsage, "of size 5, a checkpoint of size 9 was seen before", "--witnesses", policy)
	forged := grow(1, 9)
	show(forged, 0)
	check("equal size, another root", exitReject, "fork         the log has two histories: two checkpoints of size 9 have different roots\nnotes        "+state, "--witnesses", policy)
	for name, want := range map[string][]byte{"checkpoint": good, "checkpoint.believed": good, "checkpoint.refused": shown} {
		if data, err := os.ReadFile(filepath.Join(state, name)); err != nil || string(data) != string(want) {
			t.Errorf("%s: %q %v, want %q", name, data, err, want)
		}
	}
	show(grow(1, 12), 0)
	check("another history, larger", exitReject, "checkpoint of size 12 does not continue that of size 9")
	show(grow(0, 12))
	check("the honest log goes on, no witnesses asked", exitAccept, "size 12")
	check("no key", exitUsage, "hint: `assay serve` prints the key of its log", "--log-key", "")
}
