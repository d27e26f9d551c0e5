package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/files"
)

func TestBounded(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := files.Bounded(name, 5); err != nil || string(data) != "12345" {
		t.Errorf("5 bytes of 5: %q, %v", data, err)
	}
	if data, err := files.Bounded(name, 4); err == nil || err.Error() != name+": more than 4 bytes" || data != nil {
		t.Errorf("5 bytes of 4: %q, %v", data, err)
	}
	if data, err := files.Prefix(name, 4); err != nil || string(data) != "1234" {
		t.Errorf("the first 4 bytes: %q, %v", data, err)
	}
	if _, err := files.Bounded(filepath.Join(dir, "absent"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := files.Bounded(dir, 5); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder: %v", err)
	}
}
