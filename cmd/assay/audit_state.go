package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier/collateral"
)

// readState reads the state of an earlier run; the zero state: there is none. A trust file beside it must say the same.
func readState(name string, trust *audit.Trust) (audit.State, error) {
	if name == "" {
		return audit.State{}, nil
	}
	data, err := files.Bounded(name, maxTrustFile)
	if errors.Is(err, fs.ErrNotExist) {
		if trust == nil {
			return audit.State{}, withHint(fmt.Errorf("%s: no such file, and no trust file to begin with", name), "the first replay wants --trust FILE beside --state")
		}
		return audit.State{}, nil
	}
	if err != nil {
		return audit.State{}, err
	}
	s, err := audit.ParseState(data)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if trust != nil && string(trust.Marshal()) != string(s.Trust.Marshal()) {
		return s, withHint(fmt.Errorf("%s: the trust file says another thing than the state of the earlier run", name), "leave out one of --trust and --state")
	}
	return s, nil
}

// keepState follows a log that was replayed and found equal, and writes down what is believed now. logs are that one and
// others of its chain that were replayed with it.
func (a *app) keepState(ctx context.Context, name string, s audit.State, trust audit.Trust, found audit.Report, logs []string) (err error) {
	at := map[string]ledger.Source{}
	for _, log := range logs {
		src, openErr := a.openLog(log)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		origin, readErr := originOf(ctx, src.Source)
		if readErr != nil {
			return readErr
		}
		at[origin] = src.Source
	}
	before := func(_ context.Context, origin string) (ledger.Source, error) {
		if src, ok := at[origin]; ok {
			return src, nil
		}
		return nil, withHint(errors.New("the state is of a time before its end"), "replay it together with the log that goes on: assay audit replay FILE FILE --state STATE")
	}
	next, err := audit.Continue(ctx, s, trust, found, at[found.Origin], before)
	var fork *ledger.Fork
	if errors.As(err, &fork) {
		write := func(name string, data []byte) error {
			return a.writeOut(name, func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			})
		}
		if err := errors.Join(write(name+".believed.note", fork.Believed), write(name+".refused.note", fork.Refused)); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "assay: error: %v\n", fork)
		a.say("hint: both notes are kept as %s.*.note; show them to others who follow this log", name)
		return outcome(exitReject)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	data, err := next.Marshal()
	if err != nil {
		return err
	}
	return a.writeOut(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// auditTrustOfState writes the trust file of an earlier run.
func (a *app) auditTrustOfState(name, out string) error {
	data, err := files.Bounded(name, maxTrustFile)
	if err != nil {
		return err
	}
	s, err := audit.ParseState(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return a.writeOut(out, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "# What an earlier replay believed: %s\n%s", name, s.Trust.Marshal())
		return err
	})
}

// parseNow reads what time, and what collateral, everything is to be judged by once more; nil: it is not.
func (a *app) parseNow(asOf, known string) (*audit.Now, error) {
	if asOf == "" && known == "" {
		return nil, nil
	}
	instant := func(text string) (canon.Time, error) {
		if text == "now" {
			return canon.At(a.now()), nil
		}
		return canon.ParseTime(text)
	}
	var n audit.Now
	var err error
	if asOf != "" {
		if n.AsOf, err = instant(asOf); err != nil {
			return nil, fmt.Errorf("--as-of %q: want an instant such as 2026-02-01T00:00:00Z, or now", asOf)
		}
	}
	switch {
	case known == "":
		n.Known = n.AsOf
		return &n, nil
	default:
		if n.Known, err = instant(known); err == nil {
			if asOf == "" {
				n.AsOf = n.Known
			}
			return &n, nil
		}
	}
	if asOf == "" {
		return nil, errors.New("want --as-of TIME with collateral from elsewhere")
	}
	n.Known = n.AsOf
	items, err := a.knownItems(known)
	if err != nil {
		return nil, fmt.Errorf("--known %s: want an instant, or a store or a set of collateral: %w", known, err)
	}
	for _, i := range items {
		n.Items = append(n.Items, audit.KnownItem{Record: i.Record, Data: i.Data})
	}
	return &n, nil
}

// knownItems reads a store of collateral, or a set that was exported from one.
func (a *app) knownItems(name string) ([]collateral.Item, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return collateral.ReadSet(f, info.Size())
	}
	store, err := a.existingCache(name)
	if err != nil {
		return nil, err
	}
	return store.List()
}
