package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// witness is a witness that runs.
type witness struct {
	vkey string
	url  string
	stop func() error
}

// watch starts a witness of a log.
func (d *demo) watch(ctx context.Context, name, vkey string) (w witness, err error) {
	data := filepath.Join(d.dir, "witness-"+name)
	if w.vkey, err = server.InitWitness(data, "witness.example/"+name, []string{vkey}, server.Deps{Random: rand.Reader}); err != nil {
		return w, err
	}
	s, err := server.NewWitness(ctx, data, "127.0.0.1:0", server.Deps{Now: d.now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return w, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	w.url = "http://" + s.Addr().String() + "/"
	stopped := false
	w.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		stop()
		return errors.Join(<-ended, s.Close())
	}
	return w, nil
}

// witnessing shows that an operator cannot take back what he published: a log that was begun anew with the same key finds no
// quorum among the witnesses of the old one.
func (d *demo) witnessing(ctx context.Context) (err error) {
	settings := server.Settings{Data: filepath.Join(d.dir, "witnessed"), Origin: "https://assay.example", LogName: "assay.example/log"}
	open := func() (*server.Server, error) {
		return server.New(ctx, settings, server.Deps{Now: d.now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	}
	s, err := open() // the first start makes the log's key, which the witnesses must know
	if err != nil {
		return err
	}
	keys := s.Keyset()
	vkey := keys.LogVKeys(keys.Made)[0]
	if err := s.Close(); err != nil {
		return err
	}
	text, names := "log "+vkey+"\n", ""
	var all []witness
	for _, name := range []string{"one", "two", "three"} {
		w, err := d.watch(ctx, name, vkey)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.stop()) }()
		all = append(all, w)
		text += fmt.Sprintf("witness %s %s %s\n", name, w.vkey, w.url)
		names += " " + name
	}
	text += "group two-of-three 2" + names + "\nquorum two-of-three\n"
	settings.Witnesses = filepath.Join(d.dir, "witnesses.txt")
	if err := os.WriteFile(settings.Witnesses, []byte(text), 0o644); err != nil {
		return err
	}
	policy, err := ledger.ParseWitnessPolicy([]byte(text))
	if err != nil {
		return err
	}
	if s, err = open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	show := func(when string) error {
		if err := s.Advance(ctx); err != nil {
			return err
		}
		note, err := s.Source().Checkpoint(ctx)
		if err != nil {
			return err
		}
		seen, err := policy.Open(note, []string{vkey}, ledger.Period{Until: canon.At(d.now())})
		if err != nil {
			return err
		}
		var by []string
		for _, c := range seen.By {
			by = append(by, c.Witness)
		}
		d.say("   %s: size %d is published, cosigned by %s", when, seen.Size, strings.Join(by, ", "))
		return nil
	}
	if err := show("Three witnesses, of which two must cosign"); err != nil {
		return err
	}
	if err := errors.Join(all[2].stop(), s.Close()); err != nil {
		return err
	}
	settings.Policy = "genuine" // every policy that judges has an entry
	if s, err = open(); err != nil {
		return err
	}
	if err := show("One of them is down, and the log grows"); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	for _, name := range []string{"assay.db", "assay.db-wal", "assay.db-shm"} {
		if err := os.Remove(filepath.Join(settings.Data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if s, err = open(); err != nil {
		return err
	}
	var missing *ledger.QuorumError
	refused := s.Advance(ctx)
	if !errors.As(refused, &missing) {
		return fmt.Errorf("a log that was begun anew was published (%v)", refused)
	}
	if _, err := s.Source().Checkpoint(ctx); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a log that was begun anew shows a checkpoint (%v)", err)
	}
	d.say("   The operator deletes the log and begins it anew with the same key. Nothing is published:")
	for line := range strings.Lines(refused.Error()) {
		d.say("     %s", strings.TrimSuffix(line, "\n"))
	}
	return nil
}
