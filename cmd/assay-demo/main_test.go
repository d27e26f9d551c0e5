package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A second run into the folder of the first is refused before anything is written, by a sentence that says what to do.
func TestKeepWantsAnEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	if err := empty(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log.tar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), &out, dir)
	if err == nil || !strings.Contains(err.Error(), dir+": the folder is not empty") || out.Len() > 0 {
		t.Errorf("%v, said %q", err, out.String())
	}
}
