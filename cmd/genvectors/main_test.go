package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/vectors"
)

// maxTree is how large the vectors may be, in bytes: a clone brings all of them.
const maxTree = 9 << 19

// TestSameBytes: what stands in testvectors/ is what this program writes, to the byte, and nothing else stands there
// but what people write.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	if err := generate(dir); err != nil {
		t.Fatal(err)
	}
	fresh, kept := tree(t, dir), tree(t, filepath.Join(vectors.Root(t), "testvectors"))
	total := 0
	for name, data := range fresh {
		if total += len(data); !bytes.Equal(data, kept[name]) {
			t.Errorf("testvectors/%s differs from what genvectors writes: run go run ./cmd/genvectors testvectors", name)
		}
	}
	for name := range kept {
		if _, ok := fresh[name]; !ok && !strings.HasSuffix(name, ".go") && !slices.Contains([]string{"README.md", "golden.txt"}, name) {
			t.Errorf("testvectors/%s: nothing writes it", name)
		}
	}
	if total > maxTree {
		t.Errorf("%d bytes in all, at most %d", total, maxTree)
	}
}

func tree(t *testing.T, dir string) map[string][]byte {
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
