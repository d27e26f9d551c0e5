package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
)

// TestAuditState: a replay goes on from what an earlier one believed. A log that does not is refused, and both notes are
// kept; its twin that does is not.
func TestAuditState(t *testing.T) {
	home, fork := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		out, words, got := command(t, args...)
		if got != code || !strings.Contains(out, stdout) || !strings.Contains(words, stderr) {
			t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, out, words)
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
	export := func(dir, name string) { run(0, "", "", "audit", "export", "--data", dir, "--out", at(name)) }
	writeLog(t, home, "honest")
	writeLog(t, fork, "honest")
	export(home, "one.tar")
	growLog(t, home, "honest", 3)
	export(home, "two.tar")
	growLog(t, fork, "honest", 4)
	export(fork, "fork.tar")
	run(0, "", "", "audit", "trust", "init", serveKeys(t, "honest", "none"), serveKeys(t, "honest", "none"), "--out", at("trust.yaml"))
	run(0, "", "", "audit", "trust", "init", serveKeys(t, "forger", "none"), serveKeys(t, "forger", "none"), "--out", at("forger.yaml"))

	run(2, "", "no trust file to begin with", "audit", "replay", at("one.tar"), "--state", at("state"))
	run(1, "", "", "audit", "replay", at("one.tar"), "--state", at("state"), "--trust", at("forger.yaml"))
	if _, err := os.Stat(at("state")); err == nil {
		t.Error("a faulty replay left a state")
	}
	run(0, "trust       anchored", "", "audit", "replay", at("one.tar"), "--state", at("state"), "--trust", at("trust.yaml"))
	s, err := audit.ParseState(read("state"))
	if err != nil || !strings.HasPrefix(s.Checkpoint, "log.example\n2\n") {
		t.Fatalf("%+v, %v", s, err)
	}
	run(0, "trust       anchored", "", "audit", "replay", at("two.tar"), "--state", at("state"))
	if s, err = audit.ParseState(read("state")); err != nil || !strings.HasPrefix(s.Checkpoint, "log.example\n5\n") {
		t.Fatalf("%+v, %v", s, err)
	}
	believed := read("state")
	run(2, "", "a checkpoint of size 5 was seen before", "audit", "replay", at("one.tar"), "--state", at("state"))
	run(1, "equal", "the log has two histories", "audit", "replay", at("fork.tar"), "--state", at("state"))
	if !bytes.Equal(read("state"), believed) {
		t.Error("a fork changed what is believed")
	}
	if string(read("state.believed.note")) != s.Checkpoint || !bytes.HasPrefix(read("state.refused.note"), []byte("log.example\n6\n")) {
		t.Errorf("notes:\n%s\n%s", read("state.believed.note"), read("state.refused.note"))
	}
	run(0, "equal", "", "audit", "replay", at("fork.tar"), "--trust", at("trust.yaml")) // which alone has no fault
	run(2, "", "says another thing than the state", "audit", "replay", at("two.tar"), "--state", at("state"), "--trust", at("forger.yaml"))

	// The trust of the earlier run, as a file.
	run(0, "", "", "audit", "trust", "init", "--state", at("state"), "--out", at("again.yaml"))
	run(0, "trust       anchored", "", "audit", "replay", at("two.tar"), "--trust", at("again.yaml"))
	run(2, "", "want URLs, or --state alone", "audit", "trust", "init", "https://one.example", "--state", at("state"))
	if err := os.WriteFile(at("bad"), []byte(strings.Replace(string(believed), "audit-state/v1", "audit-state/v9", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(2, "", "is not known to this build", "audit", "trust", "init", "--state", at("bad"))
}
