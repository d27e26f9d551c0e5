package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDBRebuild: a server goes on with its log where that was rebuilt, under the same mirror, for the same people.
func TestDBRebuild(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json")}
	dir := t.TempDir()
	data, mirror, rebuilt := filepath.Join(dir, "data"), filepath.Join(dir, "mirror"), "sqlite:"+filepath.Join(dir, "new.db")
	checkpoint := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(mirror, "checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const origin = "http://127.0.0.1:8080"
	first := o.serve("admin token", "--data", data, "--origin", origin, "--mirror", mirror)
	const warning = "a server is running on the old database (clock, publish)"
	if _, stderr, code := o.run("", "db", "rebuild", "--from", "sqlite:"+filepath.Join(data, "assay.db"), "--to", "sqlite:"+filepath.Join(dir, "copy.db")); code != exitAccept || !strings.Contains(stderr, warning) {
		t.Errorf("while the server runs: exit %d, %q, want it said", code, stderr)
	}
	if code := first.stop(); code != exitAccept {
		t.Fatalf("serve ended with %d", code)
	}
	shown := checkpoint()
	stdout, stderr, code := o.run("", "db", "rebuild", "--from", "sqlite:"+filepath.Join(data, "assay.db"), "--to", rebuilt)
	if code != exitAccept || !strings.HasPrefix(stdout, "logs         1\nentries      ") || !strings.Contains(stdout, " secret") || strings.Contains(stderr, warning) {
		t.Fatalf("rebuild: exit %d, %q, %q", code, stdout, stderr)
	}
	second := o.serve("log", "--data", data, "--origin", origin, "--mirror", mirror, "--database", rebuilt)
	if second.facts["log"] != first.facts["log"] || second.facts["admin token"] != "" {
		t.Errorf("after rebuilding: %q, want the log of %q and no new admin token", second.lines, first.lines)
	}
	if code := second.stop(); code != exitAccept {
		t.Errorf("the second server ended with %d", code)
	}
	if got := checkpoint(); got != shown {
		t.Errorf("the mirror shows %q, it was %q and nothing came since", got, shown)
	}
	if _, stderr, code := o.run("", "db", "rebuild", "--from", "sqlite:"+filepath.Join(data, "assay.db"), "--to", rebuilt); code != exitUsage || !strings.Contains(stderr, "want an empty one") {
		t.Errorf("into a database with a log: exit %d, %q", code, stderr)
	}
}
