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

// Each provider gets its tier, and each built-in policy says of it what the chapter holds it against.
func TestTiers(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out}
	if err := d.tiers(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, line := range []string{"tier anonymous:", "tier attested:", "tier attested-facility:", "required: is attested-facility (party.value)"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
}
