package main

import (
	"bytes"
	"testing"
)

// TestPlainProgress: where there is no terminal, long work tells of itself ten times a stage, short work not at all.
func TestPlainProgress(t *testing.T) {
	var words bytes.Buffer
	a := &app{stderr: &words}
	report := a.progress()
	for _, stage := range []string{"read", "recompute"} {
		for done := int64(0); done <= 20_000; done += 64 {
			report(stage, done, 20_000)
		}
		report(stage, 20_000, 20_000)
	}
	lines := bytes.Split(bytes.TrimSuffix(words.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != 20 || string(lines[0]) != "assay: read 2048 of 20000" || string(lines[19]) != "assay: recompute 20000 of 20000" || bytes.ContainsRune(words.Bytes(), '\r') {
		t.Errorf("%d lines:\n%s", len(lines), words.String())
	}
	words.Reset()
	report("read", 9_999, 9_999)
	if words.Len() > 0 {
		t.Errorf("short work: %s", words.String())
	}
	a.quiet = true
	if a.progress() != nil {
		t.Error("with --quiet there is progress")
	}
}
