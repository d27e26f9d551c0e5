package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-network/assay/internal/vectors"
)

// TestCodesPage holds docs/codes.md against the lists: it is the one place where all codes stand.
func TestCodesPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(vectors.Root(t), "docs", "codes.md"))
	if err != nil || string(page) != codesPage(codeLists()) {
		t.Errorf("docs/codes.md is not what the rooms list (%v): run `go run ./cmd/assay codes -o markdown > docs/codes.md`", err)
	}
}
