package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/engine/enginetest"
)

// writeModule writes a module into the test's folder.
func writeModule(t *testing.T, code []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "engine.wasm")
	if err := os.WriteFile(name, code, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// described is a module that says what it is.
func described(t *testing.T, d engine.Description) []byte {
	t.Helper()
	b, err := canon.Marshal(engine.Response{Type: engine.ResponseType, Engine: &d})
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Says(enginetest.Frame(b))
}

func TestEngineCommand(t *testing.T) {
	code := described(t, engine.Description{Version: "v1\n\x1b[2J", Go: "go1.26.8", Rules: engine.Rules()})
	name := writeModule(t, code)
	stdout, stderr, exit := command(t, "engine", name)
	if exit != exitAccept || stderr != "" || !strings.HasPrefix(stdout, "module       "+canon.Sum(code).String()+"\nversion      \"v1\\n\\x1b[2J\"\ngo           \"go1.26.8\"\nrules        \"azure\" ") {
		t.Errorf("exit %d\n%s%s", exit, stdout, stderr)
	}
	stdout, _, exit = command(t, "engine", name, "-o", "json")
	if exit != exitAccept || !strings.Contains(stdout, `"module": "`+canon.Sum(code).String()+`"`) || !strings.Contains(stdout, `"room": "policy"`) {
		t.Errorf("exit %d\n%s", exit, stdout)
	}
	for _, row := range []struct {
		name, want string
		args       []string
	}{
		{"no file", "no such file", []string{"engine", "nowhere.wasm"}},
		{"no module", "engine.wasm: engine module: no WebAssembly that can be run here", []string{"engine", writeModule(t, []byte("text"))}},
		{"a module that opens files", "asks for files or the network: path_open", []string{"engine", writeModule(t, enginetest.Reads)}},
		{"output", `output "xml": want text or json`, []string{"engine", name, "-o", "xml"}},
	} {
		if stdout, stderr, exit := command(t, row.args...); exit != exitUsage || stdout != "" || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: exit %d\n%s%s", row.name, exit, stdout, stderr)
		}
	}
}

// TestTrustEngines: who makes a trust file vouches for modules that he has.
func TestTrustEngines(t *testing.T) {
	code := described(t, engine.Description{Version: "v1", Go: "go1.26.8", Rules: engine.Rules()})
	one, two := serveKeys(t, "honest", "none"), serveKeys(t, "honest", "none")
	stdout, stderr, exit := command(t, "audit", "trust", "init", one, two, "--engine", writeModule(t, code))
	if exit != exitAccept {
		t.Fatalf("exit %d\n%s", exit, stderr)
	}
	trust, err := audit.ParseTrust("trust.yaml", []byte(stdout))
	if err != nil || len(trust.Engines) != 1 || trust.Engines[0] != canon.Sum(code) {
		t.Errorf("%v\n%s", err, stdout)
	}
	if _, stderr, exit := command(t, "audit", "trust", "init", one, two, "--engine", "nowhere.wasm"); exit != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("exit %d\n%s", exit, stderr)
	}
}
