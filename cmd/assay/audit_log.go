package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier/module"
)

// openLogFile opens an exported log: a plain file, or a folder.
func openLogFile(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil && strings.Contains(name, "://") {
		return nil, nil, withHint(fmt.Errorf("%s: want a file or folder, a log is read offline", name), "fetch it first: assay audit pull %s --out FOLDER", name)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: a log is read here and there, so it wants a plain file or a folder", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readTrust reads a trust file; no name is no trust.
func readTrust(name string) (*audit.Trust, error) {
	if name == "" {
		return nil, nil
	}
	data, err := files.Bounded(name, maxTrustFile)
	if err != nil {
		return nil, err
	}
	t, err := audit.ParseTrust(name, data)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// exported is an exported log, open.
type exported struct {
	ledger.Source
	file    *os.File
	engines *module.Runner // runs those that the log holds
}

func (e exported) Close() error {
	e.engines.Close()
	return e.file.Close()
}

// openLog opens an exported log. A file that is none is a fault that was found, and no failure of the command.
func (a *app) openLog(name string) (exported, error) {
	if err := refuseGODEBUG(a.getenv("GODEBUG")); err != nil {
		return exported{}, err
	}
	f, info, err := openLogFile(name)
	if err != nil {
		return exported{}, err
	}
	if info.IsDir() {
		return exported{audit.Directory(os.DirFS(name)), f, module.NewRunner(module.Limits{})}, nil
	}
	src, err := audit.Open(f, info.Size())
	if err != nil {
		return exported{}, errors.Join(a.fault(err), f.Close())
	}
	return exported{src, f, module.NewRunner(module.Limits{})}, nil
}

// fault tells a fault of a log and returns the exit code for it; another error stays.
func (a *app) fault(err error) error {
	var f *audit.Fault
	if !errors.As(err, &f) {
		return err
	}
	fmt.Fprintf(a.stderr, "assay: error: %s\n", audit.Printable(f.Error()))
	return outcome(exitReject)
}

// readLog opens an exported log and reads it through. The caller closes it.
func (a *app) readLog(ctx context.Context, name, trustFile string) (*audit.Reading, exported, error) {
	trust, err := readTrust(trustFile)
	if err != nil {
		return nil, exported{}, err
	}
	log, err := a.openLog(name)
	if err != nil {
		return nil, exported{}, err
	}
	g, err := audit.ReadLog(ctx, log.Source, trust, audit.Options{Progress: a.progress(), Engines: log.engines})
	if err != nil {
		return nil, exported{}, errors.Join(err, log.Close())
	}
	return g, log, nil
}

// conclude ends a command that read a log: with the words that go beside its data, and its exit code.
func (a *app) conclude(i audit.Report, o audit.Outcome) error {
	for _, f := range i.Faults {
		fmt.Fprintf(a.stderr, "assay: error: %s\n", audit.Printable(f.Error()))
	}
	if i.Trust == audit.Unanchored {
		a.say("hint: nobody vouches for this log's keys; make a trust file: assay audit trust init URL URL")
	}
	if code := o.ExitCode(); code != exitAccept {
		return outcome(code)
	}
	return nil
}
