// Command assay-demo runs the main job on this machine, chapter by chapter: real hardware evidence is judged, a provider
// joins and is accepted, others are refused for named reasons, and an auditor recomputes all of it from an export.
//
// Providers here are programs whose hardware signs under public test roots; every verdict on them is announced as such.
// Real devices speak in the first chapter, and a real TPM in software (swtpm) in a later one, where it is installed.
// Nothing leaves this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// demo is what the chapters share.
type demo struct {
	out io.Writer
	dir string // files that the chapters leave for one another
	now func() time.Time
}

// chapter is one part of the story. It returns an error when something came out otherwise than it should.
type chapter struct {
	title string
	run   func(*demo, context.Context) error
}

var chapters = []chapter{
	{"Reports of real hardware", (*demo).realReports},
	{"Providers join, are accepted and refused", (*demo).providers},
	{"A machine with a TPM and no more", (*demo).bareMetal},
	{"A machine with eight GPUs and four switches", (*demo).confidentialGPUs},
	{"Witnesses hold a log to its word", (*demo).witnessing},
	{"Three providers of different tiers, and what each policy accepts", (*demo).tiers},
	{"The auditor recomputes everything", (*demo).audit},
}

func main() {
	keep := flag.String("keep", "", "`FOLDER` to leave the evidence and the export in (default: none are kept)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "assay-demo: error:", err)
		os.Exit(1)
	}
}

// demoBegin is when the demonstration takes place: minted certificates have dates, and the story must not age.
var demoBegin = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

func run(ctx context.Context, out io.Writer, keep string) (err error) {
	d := &demo{out: out, dir: keep}
	began := time.Now()
	d.now = func() time.Time { return demoBegin.Add(time.Since(began)) }
	if keep == "" {
		if d.dir, err = os.MkdirTemp("", "assay-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	} else if err := empty(keep); err != nil {
		return err
	}
	for i, c := range chapters {
		d.say("\n%d. %s\n", i+1, c.title)
		if err := c.run(d, ctx); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	return nil
}

// empty makes a folder, or finds it empty: a verifier of an earlier run would go on in it, and give no admin token any more.
func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("--keep %s: the folder is not empty, and an earlier run must not be mixed with this one; name another, or remove it", dir)
	}
	return err
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }
