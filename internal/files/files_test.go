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

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a", "b")
	for range 2 { // the second time it is there
		if err := files.Folder(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{name, filepath.Dir(name)} {
		if info, err := os.Stat(n); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", n, info, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{file, filepath.Join(file, "below")} {
		if err := files.Folder(n); err == nil {
			t.Errorf("%s is no folder, and no error says so", n)
		}
	}
}
