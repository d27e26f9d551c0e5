// Package vectors finds the real evidence that tests are held against. It is data of other projects and vendors, kept
// beside the checkout and never inside it.
package vectors

import (
	"os"
	"path/filepath"
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
