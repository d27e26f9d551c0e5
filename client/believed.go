package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// Names of the files of [Believed].
const (
	fileBelieved    = "checkpoint"          // last note that was believed
	fileForkBefore  = "checkpoint.believed" // of a fork: the note that was believed then
	fileForkRefused = "checkpoint.refused"  // of a fork: the note that contradicts it
)

// Believed is the folder in which one reader of one log keeps the last checkpoint that it believed, and the two notes of
// a fork if it ever sees one: those are the proof, to be shown to others. Every file is replaced whole or not at all and is
// durable when a method returns. One process at a time uses a folder.
type Believed struct{ dir string }

// OpenBelieved returns what is kept in a folder. It touches nothing yet.
func OpenBelieved(dir string) Believed { return Believed{dir} }

// Last returns the last note that was believed, empty if there is none.
func (b Believed) Last() ([]byte, error) {
	data, err := files.Bounded(filepath.Join(b.dir, fileBelieved), ledger.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("last checkpoint: %w", err)
	}
	return data, nil
}

// Follow is [ledger.Follower.Follow] from the last note that was believed. A note that passes becomes the last one. Of a
// *[ledger.Fork] both notes are kept; the first fork stays, whatever comes after it.
func (b Believed) Follow(ctx context.Context, f ledger.Follower, src ledger.Source, next []byte, until canon.Time) (ledger.Cosigned, error) {
	last, err := b.Last()
	if err != nil {
		return ledger.Cosigned{}, err
	}
	c, err := f.Follow(ctx, src, last, next, until)
	var fork *ledger.Fork
	switch {
	case errors.As(err, &fork):
		return ledger.Cosigned{}, errors.Join(err, b.keep(fork))
	case err != nil:
		return ledger.Cosigned{}, err
	case string(next) == string(last):
		return c, nil
	}
	if err := files.Replace(filepath.Join(b.dir, fileBelieved), next); err != nil {
		return ledger.Cosigned{}, fmt.Errorf("last checkpoint: %w", err)
	}
	return c, nil
}

// keep writes the refused note last: where it is, both are.
func (b Believed) keep(fork *ledger.Fork) error {
	if _, err := os.Stat(filepath.Join(b.dir, fileForkRefused)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := files.Replace(filepath.Join(b.dir, fileForkBefore), fork.Believed)
	if err == nil {
		err = files.Replace(filepath.Join(b.dir, fileForkRefused), fork.Refused)
	}
	if err != nil {
		return fmt.Errorf("keep both notes: %w", err)
	}
	return nil
}
