package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/assay-network/assay/audit"
)

// audit replays the export of the chapter before: by a trust file, without one, and with one bit flipped.
func (d *demo) audit(ctx context.Context) error {
	export, err := os.ReadFile(filepath.Join(d.dir, fileExport))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(d.dir, fileTrust))
	if err != nil {
		return err
	}
	trust, err := audit.ParseTrust(fileTrust, text)
	if err != nil {
		return err
	}
	options := audit.Options{Workers: runtime.NumCPU()}
	replay := func(data []byte, t *audit.Trust) (audit.Report, error) {
		return audit.ReplayFile(ctx, bytes.NewReader(data), int64(len(data)), t, options)
	}
	r, err := replay(export, nil)
	if err != nil {
		return err
	}
	if r.Outcome != audit.NotAnchored {
		return fmt.Errorf("replay without trust: %s, want %s", r.Outcome, audit.NotAnchored)
	}
	d.say("   %d bytes of export, no network. Without a trust file: trust: %s, exit code %d", len(export), r.Trust, r.Outcome.ExitCode())
	altered := bytes.Clone(export)
	altered[bytes.Index(altered, []byte("assay/appraisal/v1"))] ^= 1 // in an appraisal; anywhere else is found as well
	if r, err = replay(altered, &trust); err != nil {
		return err
	}
	if r.Outcome != audit.Faulty || len(r.Faults) == 0 {
		return errors.New("replay of an altered export found nothing")
	}
	d.say("   One bit flipped: %s, exit code %d", r.Faults[0].Error(), r.Outcome.ExitCode())
	if r, err = replay(export, &trust); err != nil {
		return err
	}
	if r.Outcome != audit.Equal {
		return fmt.Errorf("replay: %s\n%s", r.Outcome, r.Text())
	}
	note, err := archiveNote(ctx, export)
	if err != nil {
		return err
	}
	d.say("   As it was exported, by the trust file:\n")
	d.say("%s", strings.TrimRight(note, "\n"))
	lines := strings.Split(strings.TrimSpace(r.Text()), "\n")
	d.say("\n%s", lines[len(lines)-1])
	return nil
}

// archiveNote returns the checkpoint of an export.
func archiveNote(ctx context.Context, export []byte) (string, error) {
	a, err := audit.Open(bytes.NewReader(export), int64(len(export)))
	if err != nil {
		return "", err
	}
	note, err := a.Checkpoint(ctx)
	return string(note), err
}
