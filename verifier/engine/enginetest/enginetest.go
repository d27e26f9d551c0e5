// Package enginetest builds engine modules for tests: that of this tree, those of releases that never were, and hostile
// ones, assembled by hand.
package enginetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/assay-network/assay/internal/vectors"
)

// Release is an engine that a test builds: this tree, with some of its text replaced.
type Release struct {
	Version string
	Changes []Change
}

// Change replaces a text that stands once in a file.
type Change struct{ File, From, To string }

// Releases. Each differs from this tree in one rule and in that room's number.
var (
	Today = Release{Version: "today"}

	// Lenient takes a guest that its host can read for one that it cannot.
	Lenient = Release{"lenient", []Change{
		{"attest/sevsnp/sevsnp.go", "const Rules = ", "const Rules = 7000 + "},
		{"attest/sevsnp/appraise.go", `a.off("sevsnp.debug-off", r.Policy&PolicyDebug == 0,`, `a.off("sevsnp.debug-off", true,`},
	}}

	// Strict refuses what is not known.
	Strict = Release{"strict", []Change{
		{"policy/policy.go", "const Rules = ", "const Rules = 7000 + "},
		{"policy/reason.go", "given, outcome := map[string]bool{}, Undecided", "given, outcome := map[string]bool{}, Reject"},
	}}
)

var (
	mu    sync.Mutex
	built = map[string][]byte{} // by version
)

// Build returns the module of a release. The test is skipped where there is no go command, or under -short.
func Build(t testing.TB, r Release) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("builds an engine for wasip1")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	mu.Lock()
	defer mu.Unlock()
	if b, ok := built[r.Version]; ok {
		return b
	}
	b, err := build(vectors.Root(t), t.TempDir(), r)
	if err != nil {
		t.Fatal(err)
	}
	built[r.Version] = b
	return b
}

// build compiles a tree below root as scripts/engine does, with the changes laid over it.
func build(root, work string, r Release) ([]byte, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for i, c := range r.Changes {
		path := filepath.Join(root, c.File)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if strings.Count(string(text), c.From) != 1 {
			return nil, fmt.Errorf("%s does not hold %q once", c.File, c.From)
		}
		changed := filepath.Join(work, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), c.From, c.To, 1)), 0o600); err != nil {
			return nil, err
		}
		overlay.Replace[path] = changed
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	list, out := filepath.Join(work, "overlay.json"), filepath.Join(work, "engine.wasm")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "engine"), out, "-overlay", list)
	cmd.Env = append(os.Environ(), "VERSION="+r.Version)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return os.ReadFile(out)
}
