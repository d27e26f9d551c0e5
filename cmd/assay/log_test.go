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

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
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

// TestLogCheckPromises: what became of promises, by the clock of who asks or by cosignatures.
func TestLogCheckPromises(t *testing.T) {
	keys := testKeyset(t, "promises")
	keys.Made -= 24 * 3600 // promises are older than the checkpoint
	for i := range keys.Keys {
		keys.Keys[i].From = keys.Made
	}
	signer, err := ledger.LogSigner("log.example", newTestKey("promises log").PrivateKey)
	must(t, err)
	witness := newTestKey("promises witness")
	wkey, err := ledger.WitnessVKey("witness.example", witness.Public().(ed25519.PublicKey))
	must(t, err)
	dir := t.TempDir()
	mirror, policy, trust := filepath.Join(dir, "mirror"), filepath.Join(dir, "policy"), filepath.Join(dir, "trust.yaml")
	must(t, os.WriteFile(policy, []byte("witness w "+wkey+"\nquorum w\n"), 0o600))
	must(t, os.WriteFile(trust, audit.Trust{Type: audit.TrustType, Keyset: keys}.Marshal(), 0o600))
	entry := ledger.Entry{Type: ledger.EntryType, Kind: ledger.KindEvidence, Stream: "node:n", Time: canon.At(minted), Body: canon.Sum(nil), Refs: []canon.Digest{}}
	promise := func(name string, of byte, use string, age canon.Time, change func(*ledger.Promise)) string {
		e := entry
		e.Time -= age
		p := ledger.NewPromise("log.example", canon.Sum([]byte{of}), e)
		if change != nil {
			change(&p)
		}
		env, err := ledger.SealPromise(p, newTestKey("promises "+use))
		must(t, err)
		data, err := canon.Marshal(env)
		must(t, err)
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, append(data, '\n'), 0o600))
		return name
	}
	var edge ledger.Edge
	put := func(name string, data []byte) {
		path := filepath.Join(mirror, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, data, 0o600))
	}
	for i := range 7 {
		var dirty []ledger.TileData
		edge, dirty = ledger.Append(edge, []canon.Digest{canon.Sum([]byte{byte(i)})})
		for _, d := range dirty {
			put(d.Path(), d.Data)
		}
	}
	show := func(cosigned canon.Time) {
		c := ledger.Checkpoint{Origin: "log.example", Tree: edge.Tree()}
		note, err := ledger.SignCheckpoint(c, signer)
		must(t, err)
		line, err := ledger.Cosign(c, "witness.example", witness, cosigned)
		must(t, err)
		put("checkpoint", append(note, line...))
	}
	server := httptest.NewServer(http.StripPrefix("/log/", http.FileServer(http.Dir(mirror))))
	defer server.Close()
	const minute = ledger.PublishWithin
	there, lost, due := promise("there", 5, ledger.UsePromise, 9*minute, nil), promise("lost", 99, ledger.UsePromise, 2*minute+1, nil), promise("due", 99, ledger.UsePromise, 2*minute, nil)
	foreign, forged := promise("foreign", 5, ledger.UsePromise, 0, func(p *ledger.Promise) { p.Origin = "log.other" }), promise("forged", 5, ledger.UseResult, 0, nil)
	for _, row := range []struct {
		name     string
		at       string
		cosigned canon.Time // when a witness did, before now; asked for if it is not 0
		promises []string
		code     int
		want     string
	}{
		{"kept", server.URL, 0, []string{there}, exitAccept, "promise      kept: " + there + ": entry 5\n"},
		{"kept, in a folder", mirror, 0, []string{there}, exitAccept, "kept: " + there},
		{"withheld, by this clock", server.URL, 0, []string{there, lost}, exitReject, "promise      withheld: " + lost + ": publish-by was "},
		{"not due, by this clock", server.URL, 0, []string{due, there}, exitUndecided, "promise      open: " + due + ": publish-by is "},
		{"a folder has no clock", mirror, 0, []string{lost}, exitUndecided, "nobody says how old this mirror is"},
		{"withheld, by cosignature", mirror, minute, []string{lost}, exitReject, "cosigned at "},
		{"not due, by cosignature", mirror, minute, []string{due}, exitUndecided, "the checkpoint was cosigned at "},
		{"of another log", server.URL, 0, []string{foreign, there}, exitReject, "refused: " + foreign + ": made by the log \"log.other\""},
		{"not by the promise key", server.URL, 0, []string{forged}, exitReject, "refused: " + forged + ": promise: not signed by a promise key"},
		{"a worse one before one that is not due", server.URL, 0, []string{lost, due}, exitReject, "open: " + due},
		{"no promise at all", server.URL, 0, []string{policy}, exitReject, "refused: " + policy + ": envelope"},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := []string{"log", "check", row.at, "--trust", trust, "--state", t.TempDir()}
			show(canon.At(minted) - row.cosigned)
			if row.cosigned != 0 {
				args = append(args, "--witnesses", policy)
			}
			for _, p := range row.promises {
				args = append(args, "--promise", p)
			}
			stdout, stderr, code := command(t, args...)
			if code != row.code || !strings.Contains(stdout, row.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", code, row.code, row.want, stdout, stderr)
			}
		})
	}
	if _, stderr, code := command(t, "log", "check", server.URL, "--log-key", keys.LogVKeys(keys.Made)[0], "--promise", there); code != exitUsage || !strings.Contains(stderr, "keys of a trust file") {
		t.Errorf("promises without keys: %d %s", code, stderr)
	}
	// A tile that was altered is no reason to accuse the log.
	put("tile/entries/000.p/7", make([]byte, 7*35))
	if stdout, stderr, code := command(t, "log", "check", server.URL, "--trust", trust, "--state", t.TempDir(), "--promise", lost); code != exitUsage || strings.Contains(stdout, "withheld") {
		t.Errorf("an altered tile: %d %s%s", code, stdout, stderr)
	}
}

// TestLogBegunAnew: who holds a trust file and the last checkpoint sees that the operator deleted the log and began it anew
// with the same log key, though the server's keysets are others now.
func TestLogBegunAnew(t *testing.T) {
	dir := t.TempDir()
	o := operator{t: t, config: filepath.Join(dir, "context.json")}
	trust, state := filepath.Join(dir, "trust.yaml"), filepath.Join(dir, "state")
	check := func(url string) (string, string, int) {
		return o.run("", "log", "check", url, "--trust", trust, "--state", state)
	}
	first := o.serve("admin token", "--data", filepath.Join(dir, "first"), "--log-name", "log.example")
	c, err := client.New(client.Config{URL: first.facts["url"]})
	must(t, err)
	history, err := c.Keys(t.Context())
	must(t, err)
	must(t, os.WriteFile(trust, audit.Trust{Type: audit.TrustType, Keyset: history.Current()}.Marshal(), 0o600))
	if stdout, stderr, code := check(first.facts["url"]); code != exitAccept {
		t.Errorf("as it was: exit %d\n%s%s", code, stdout, stderr)
	}
	first.stop()

	kept, err := filepath.Glob(filepath.Join(dir, "first", "keys", "log-*.pem"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("log keys %q, %v", kept, err)
	}
	data, err := os.ReadFile(kept[0])
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "second", "keys"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "second", "keys", filepath.Base(kept[0])), data, 0o600))
	second := o.serve("admin token", "--data", filepath.Join(dir, "second"), "--log-name", "log.example")
	defer second.stop()
	stdout, stderr, code := check(second.facts["url"])
	if code != exitReject || !strings.Contains(stdout, "fork         the log has two histories") {
		t.Errorf("begun anew: exit %d, want %d and a fork\n%s%s", code, exitReject, stdout, stderr)
	}
	must(t, os.RemoveAll(state))
	if stdout, stderr, code := check(second.facts["url"]); code != exitUsage || !strings.Contains(stderr, "the server's keys do not lead from, or to, those of this trust file") {
		t.Errorf("begun anew, no checkpoint seen before: exit %d, want %d and that the keys are others\n%s%s", code, exitUsage, stdout, stderr)
	}
}
