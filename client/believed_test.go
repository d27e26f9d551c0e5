package client_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// tree is a log that a test grows.
type tree struct {
	edge  ledger.Edge
	tiles map[ledger.Tile][]byte
}

func grow(what byte, size int) *tree {
	l := &tree{tiles: map[ledger.Tile][]byte{}}
	for i := range size {
		var dirty []ledger.TileData
		l.edge, dirty = ledger.Append(l.edge, []canon.Digest{canon.Sum([]byte{what, byte(i)})})
		for _, d := range dirty {
			l.tiles[d.Tile] = d.Data
		}
	}
	return l
}

func (l *tree) Checkpoint(context.Context) ([]byte, error)         { return nil, fs.ErrNotExist }
func (l *tree) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }
func (l *tree) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	if data, ok := l.tiles[t]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (l *tree) note(t *testing.T) []byte {
	signer, err := ledger.LogSigner("log.example", ed25519.NewKeyFromSeed(make([]byte, 32)))
	must(t, err)
	n, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: "log.example", Tree: l.edge.Tree()}, signer)
	must(t, err)
	return n
}

// TestBelieved: a reader goes forward alone, and of a fork it keeps both notes, whatever comes later.
func TestBelieved(t *testing.T) {
	dir := t.TempDir()
	vkey, err := ledger.LogVKey("log.example", ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	must(t, err)
	b, f := client.OpenBelieved(dir), ledger.Follower{Logs: []string{vkey}}
	five, nine, twelve := grow(0, 5), grow(0, 9), grow(0, 12)
	forged, forgedMore := grow(1, 9), grow(1, 12)
	follow := func(l *tree) error {
		_, err := b.Follow(t.Context(), f, l, l.note(t), 0)
		return err
	}
	holds := func(name string, want []byte) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if want == nil && !errors.Is(err, fs.ErrNotExist) || !bytes.Equal(got, want) {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
	}
	if last, err := b.Last(); last != nil || err != nil {
		t.Errorf("before the first: %q %v", last, err)
	}
	must(t, follow(five))
	must(t, follow(nine))
	holds("checkpoint", nine.note(t))
	if err := follow(five); err == nil || errors.Is(err, ledger.ErrFork) {
		t.Errorf("an older one: %v, want an error that is no fork", err)
	}
	holds("checkpoint.refused", nil)
	if err := follow(forged); !errors.Is(err, ledger.ErrFork) {
		t.Errorf("another history: %v, want a fork", err)
	}
	pair := func(believed, refused *tree) {
		t.Helper()
		holds("checkpoint.believed", believed.note(t))
		holds("checkpoint.refused", refused.note(t))
	}
	pair(nine, forged)
	holds("checkpoint", nine.note(t))
	must(t, follow(twelve)) // the honest log goes on
	if err := follow(forgedMore); !errors.Is(err, ledger.ErrFork) {
		t.Errorf("the other history grown: %v, want a fork", err)
	}
	pair(nine, forged)
	holds("checkpoint", twelve.note(t))
	must(t, os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("x"), 0o600))
	if err := follow(twelve); err == nil || errors.Is(err, ledger.ErrFork) {
		t.Errorf("a state file that is no note: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
