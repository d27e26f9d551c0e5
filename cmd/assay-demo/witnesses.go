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
	"time"

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
func (d *demo) watch(ctx context.Context, now func() time.Time, name, vkey string) (w witness, err error) {
	data := filepath.Join(d.dir, "witness-"+name)
	if w.vkey, err = server.InitWitness(data, "witness.example/"+name, []string{vkey}, server.Deps{Random: rand.Reader}); err != nil {
		return w, err
	}
	s, err := server.NewWitness(ctx, data, "127.0.0.1:0", server.Deps{Now: now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
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

// firstStart starts a verifier for the first time, which makes the log's key, that witnesses must know, and the token of its
// operator.
func firstStart(ctx context.Context, settings server.Settings, now func() time.Time) (vkey, token string, err error) {
	s, err := server.New(ctx, settings, server.Deps{Now: now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", "", err
	}
	keys := s.Keyset()
	return keys.LogVKeys(keys.Made)[0], s.NewAdminToken(), s.Close()
}

// gather starts witnesses of a log, and returns them with the policy by which so many of them must cosign.
func (d *demo) gather(ctx context.Context, now func() time.Time, vkey string, quorum int, names ...string) (all []witness, text string, err error) {
	text = "log " + vkey + "\n"
	for _, name := range names {
		w, err := d.watch(ctx, now, name, vkey)
		if err != nil {
			return all, "", err
		}
		all = append(all, w)
		text += fmt.Sprintf("witness %s %s %s\n", name, w.vkey, w.url)
	}
	return all, text + fmt.Sprintf("group watchers %d %s\nquorum watchers\n", quorum, strings.Join(names, " ")), nil
}

// witnessing shows that an operator cannot take back what he published: a log that was begun anew with the same key finds no
// quorum among the witnesses of the old one.
func (d *demo) witnessing(ctx context.Context) (err error) {
	settings := server.Settings{Data: filepath.Join(d.dir, "witnessed"), Origin: "https://assay.example", LogName: "assay.example/log"}
	open := func() (*server.Server, error) {
		return server.New(ctx, settings, server.Deps{Now: d.now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	}
	vkey, _, err := firstStart(ctx, settings, d.now)
	if err != nil {
		return err
	}
	all, text, err := d.gather(ctx, d.now, vkey, 2, "one", "two", "three")
	for _, w := range all {
		defer func() { err = errors.Join(err, w.stop()) }()
	}
	if err != nil {
		return err
	}
	settings.Witnesses = filepath.Join(d.dir, "witnesses.txt")
	if err := os.WriteFile(settings.Witnesses, []byte(text), 0o644); err != nil {
		return err
	}
	policy, err := ledger.ParseWitnessPolicy([]byte(text))
	if err != nil {
		return err
	}
	s, err := open()
	if err != nil {
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
