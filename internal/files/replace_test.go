package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-network/assay/internal/files"
)

// TestReplace: the file is the new one, its owner's alone, with nothing beside it; what cannot be written leaves the old.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state")
	for _, text := range []string{"one", "two"} {
		if err := files.Replace(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err != nil || statErr != nil || string(data) != text || info.Mode().Perm() != 0o600 {
			t.Errorf("%q %v %v", data, info, err)
		}
	}
	if err := files.Replace(filepath.Join(dir, "no", "state"), nil); err == nil {
		t.Error("a file in a folder that is not there was written")
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := files.Replace(filepath.Join(dir, "folder"), []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("beside the file: %v %v", left, err)
	}
}

// TestCreate: a file that is there stays, and whoever would make it is told so.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	if err := files.Create(name, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := files.Create(name, []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	data, err := os.ReadFile(name)
	info, statErr := os.Stat(name)
	if err != nil || statErr != nil || string(data) != "one" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", data, info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("beside the file: %v %v", left, err)
	}
}
