package main

import (
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
)

// TestChainOfLogs: an operator closes a log while the server runs, and what a renter and an auditor then see: they go on,
// and each log can be pulled, exported and replayed alone and with the others.
func TestChainOfLogs(t *testing.T) {
	home := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{home}, names...)...) }
	o := operator{t: t, config: at("context.json")}
	run := func(code int, want string, args ...string) {
		t.Helper()
		stdout, stderr, got := o.run("", args...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%q: exit %d, want %d and %q\n%s%s", args, got, code, want, stdout, stderr)
		}
	}
	s := o.serve("admin token", "--data", at("data"), "--log-name", "assay.test/one", "--interval", "1s", "--mirror", at("mirror"))
	url, vkey := s.facts["url"], s.facts["log"]
	if _, stderr, code := o.run(s.facts["admin token"]+"\n", "login", url); code != exitAccept {
		t.Fatal(stderr)
	}
	admin, err := client.New(client.Config{URL: url, Credential: s.facts["admin token"]})
	must(t, err)
	wait := func(what string, is func([]client.LogInfo) bool) {
		t.Helper()
		for range 600 {
			logs, err := admin.Logs(t.Context())
			must(t, err)
			if is(logs) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("%s: not within half a minute", what)
	}
	wait("the first checkpoint", func(l []client.LogInfo) bool { return l[0].Size > 0 })
	there, err := neturl.Parse(url)
	must(t, err)
	second := httptest.NewServer(httputil.NewSingleHostReverseProxy(there)) // which somebody else runs
	defer second.Close()
	run(exitAccept, "", "audit", "trust", "init", url, second.URL, "--out", at("trust.yaml"))
	token, _, _ := o.run("", "nodes", "token")
	joining, err := client.ParseToken(strings.TrimSpace(token))
	must(t, err)
	_, err = admin.Join(t.Context(), joining)
	must(t, err)
	byKey := []string{"log", "check", url, "--log-key", vkey, "--state", at("renter")}
	byTrust := []string{"log", "check", url, "--trust", at("trust.yaml"), "--state", at("reader")}
	run(exitAccept, "log          assay.test/one\ncheckpoint", byKey...)
	run(exitAccept, "log          assay.test/one\ncheckpoint", byTrust...)
	run(exitAccept, "pulled      assay.test/one", "audit", "pull", url, "--trust", at("trust.yaml"), "--out", at("kept"))

	must(t, admin.CloseLog(t.Context(), "assay.test/two"))
	wait("the second log", func(l []client.LogInfo) bool { return len(l) == 2 && l[1].Size > 0 })
	run(exitAccept, "log          assay.test/two\ncontinues    assay.test/one\ncheckpoint", byKey...)
	run(exitAccept, "log          assay.test/two\ncontinues    assay.test/one\ncheckpoint", byTrust...)

	// Pulls: of all, of the newest, of one by its name, and of the one that was pulled before.
	trust := []string{"--trust", at("trust.yaml")}
	run(exitAccept, "pulled      assay.test/two", append([]string{"audit", "pull", url, "--log", "all", "--out", at("all")}, trust...)...)
	run(exitAccept, "pulled      assay.test/two", append([]string{"audit", "pull", url, "--out", at("newest.tar")}, trust...)...)
	run(exitAccept, "pulled      assay.test/one", append([]string{"audit", "pull", url, "--log", "assay.test/one", "--out", at("first.tar")}, trust...)...)
	run(exitAccept, "hint: the log assay.test/one was closed, and assay.test/two goes on", append([]string{"audit", "pull", url, "--out", at("kept")}, trust...)...)
	run(exitUsage, `log "assay.test/three": the source has ["assay.test/one" "assay.test/two"]`, append([]string{"audit", "pull", url, "--log", "assay.test/three", "--out", at("none")}, trust...)...)
	run(exitUsage, `last checkpoint that was believed: of the log "assay.test/one"`, "audit", "pull", url, "--log", "assay.test/two", "--out", at("kept"))
	run(exitUsage, "wants a folder", "audit", "pull", url, "--log", "all", "--out", at("all.tar"))
	run(exitAccept, "pulled      assay.test/two", append([]string{"audit", "pull", at("all"), "--log", "all", "--out", at("again")}, trust...)...)
	// A mirror has no blobs; its keysets lead from the first log's to the newest's.
	wait("the mirror", func([]client.LogInfo) bool { _, err := os.Stat(at("mirror", "2", "checkpoint")); return err == nil })
	run(exitUndecided, "pulled      assay.test/two", append([]string{"audit", "pull", at("mirror"), "--log", "all", "--out", at("mirrored")}, trust...)...)
	run(exitAccept, "", "audit", "trust", "init", url, second.URL, "--out", at("newer.yaml"))
	run(exitUndecided, "pulled      assay.test/two", "audit", "pull", at("mirror"), "--log", "all", "--out", at("mirrored"), "--trust", at("newer.yaml"))
	run(exitAccept, "log          assay.test/two\ncontinues    assay.test/one", append([]string{"log", "check", at("mirror"), "--state", at("local")}, trust...)...)

	// Replays: of each alone, of both.
	run(exitAccept, "closed      the log assay.test/two goes on", append([]string{"audit", "replay", at("all"), "--state", at("state")}, trust...)...)
	run(exitAccept, "continues   the log assay.test/one", append([]string{"audit", "replay", at("all", "2")}, trust...)...)
	run(exitAccept, "chain       2 logs, equal", append([]string{"audit", "replay", at("newest.tar"), at("first.tar")}, trust...)...)
	run(exitAccept, "trust       anchored", "audit", "replay", at("newest.tar"), "--state", at("state")) // which ended with the first log
	run(exitAccept, "chain       2 logs, equal", append([]string{"audit", "replay", at("again"), at("again", "2"), "--state", at("both")}, trust...)...)
	run(exitUsage, "--key and --range are of a replay of one log", "audit", "replay", at("all"), at("all", "2"), "--range", "0:3")
	run(exitUndecided, `"type": "assay/chain-replay/v1"`, "audit", "replay", at("all"), at("all", "2"), "-o", "json")

	// Exports of the database give the same files.
	run(exitAccept, "", "audit", "export", "--data", at("data"), "--log", "assay.test/one", "--out", at("one.tar"))
	run(exitUsage, `there are ["assay.test/one" "assay.test/two"]`, "audit", "export", "--data", at("data"), "--log", "assay.test/three", "--out", at("three.tar"))
	one, err := os.ReadFile(at("one.tar"))
	must(t, err)
	if first, err := os.ReadFile(at("first.tar")); err != nil || string(first) != string(one) {
		t.Errorf("what was pulled of the first log differs from its export: %v", err)
	}
	// Who believed another history of the first log is shown both.
	note, err := os.ReadFile(at("renter", "checkpoint"))
	must(t, err)
	if !strings.HasPrefix(string(note), "assay.test/two\n") {
		t.Errorf("the renter believes %q", note)
	}
	if code := s.stop(); code != exitAccept {
		t.Errorf("serve ended with %d", code)
	}
}

// TestClosedLogIsWhole: a log that was closed is taken as the keyset of the next one says that it ended, and not before.
func TestClosedLogIsWhole(t *testing.T) {
	s := fakeserver.Start(t, func() time.Time { return minted })
	c, err := client.New(client.Config{URL: s.URL})
	must(t, err)
	note, err := c.Mirror().Checkpoint(t.Context())
	must(t, err)
	early, err := ledger.ReadCheckpoint(note)
	must(t, err)
	s.Close("second.test/log")
	if note, err = c.Mirror().Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	final, err := ledger.ReadCheckpoint(note)
	must(t, err)
	chain, err := (&app{getenv: func(string) string { return "" }}).pullChain(t.Context(), s.URL)
	must(t, err)
	if err := chain.ended(final); err != nil {
		t.Errorf("at its end: %v", err)
	}
	if err := chain.ended(early); err == nil || !strings.Contains(err.Error(), `the log "assay.test/log" is here with size 1`) {
		t.Errorf("before its end: %v", err)
	}
	newest, err := chain.logs[1].src.Checkpoint(t.Context())
	must(t, err)
	open, err := ledger.ReadCheckpoint(newest)
	must(t, err)
	if err := chain.ended(open); err != nil {
		t.Errorf("one that goes on: %v", err)
	}
}
