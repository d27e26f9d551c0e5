// Package vectors finds the real evidence that tests are held against. It is data of other projects and vendors, kept
// beside the checkout and never inside it.
package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Dir returns the folder of manifest.json: $ASSAY_VECTORS, else ../shared/vectors beside the module's root. The test is
// skipped where there is none, so that a plain clone still passes.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ASSAY_VECTORS")
	if dir == "" {
		dir = filepath.Join(Root(t), "..", "shared", "vectors")
	}
	if _, err := os.Stat(filepath.Join(dir, "manifest.json")); err != nil {
		t.Skip("no real vectors: set ASSAY_VECTORS to the folder of manifest.json")
	}
	return dir
}

// Read returns a file of the vectors by its path below [Dir].
func Read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Dir(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Names is one file name or several, as the manifest has them.
type Names []string

// UnmarshalJSON reads a string or an array of strings.
func (n *Names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*n = Names{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// Cases returns the cases of the manifest that are of a kind with this beginning.
func Cases[T any](t testing.TB, kind string) (cases []T) {
	t.Helper()
	var m struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(Read(t, "manifest.json"), &m); err != nil {
		t.Fatal(err)
	}
	for _, raw := range m.Cases {
		var head struct{ Kind string }
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(head.Kind, kind) {
			continue
		}
		var c T
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// Items reads files that a room has a reader for, such as collateral. Each must hold something.
func Items[T any](t testing.TB, read func([]byte) ([]T, error), names ...string) (items []T) {
	t.Helper()
	for _, name := range names {
		got, err := read(Read(t, name))
		if err != nil || got == nil {
			t.Fatalf("%s: %d items, %v", name, len(got), err)
		}
		items = append(items, got...)
	}
	return items
}

// Root returns the module's root folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}
