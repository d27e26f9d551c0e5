package client_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// folder reads what a pull wrote.
type folder string

func (f folder) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), filepath.FromSlash(name)))
}
func (f folder) Checkpoint(context.Context) ([]byte, error) { return f.read("checkpoint") }
func (f folder) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	return f.read(t.Path())
}
func (f folder) Blob(_ context.Context, d canon.Digest) ([]byte, error) {
	return f.read("blob/" + d.String())
}

// logSource is a log of appraisals in memory that keeps the checkpoints of all its sizes.
type logSource struct {
	t      *testing.T
	edge   ledger.Edge
	tiles  map[[2]int64][]byte
	blobs  map[canon.Digest][]byte
	notes  [][]byte // by size
	broken error    // of every blob
	tail   ledger.Tail
}

func signers(t *testing.T) (log, witness note.Signer) {
	t.Helper()
	for i, into := range []*note.Signer{&log, &witness} {
		seed := sha256.Sum256(fmt.Append(nil, i))
		s, err := ledger.LogSigner([]string{"log.example", "witness.example"}[i], ed25519.NewKeyFromSeed(seed[:]))
		if err != nil {
			t.Fatal(err)
		}
		*into = s
	}
	return log, witness
}

func logVKey(t *testing.T) string {
	t.Helper()
	seed := sha256.Sum256(fmt.Append(nil, 0))
	vkey, err := ledger.LogVKey("log.example", ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return vkey
}

func (s *logSource) put(data []byte) canon.Digest {
	s.blobs[canon.Sum(data)] = data
	return canon.Sum(data)
}

// grow appends entries, and cosigns a checkpoint after each.
func (s *logSource) grow(n int) {
	s.t.Helper()
	if s.blobs == nil {
		s.tiles, s.blobs, s.notes = map[[2]int64][]byte{}, map[canon.Digest][]byte{}, [][]byte{nil}
	}
	log, witness := signers(s.t)
	for range n {
		e := ledger.Entry{Type: ledger.EntryType, Kind: ledger.KindAppraisal, Stream: ledger.StreamVerifier, Sequence: s.tail.Next, Previous: s.tail.Last,
			Time: 1780000000, Body: s.put(fmt.Append(nil, "body ", s.tail.Next)), Refs: []canon.Digest{}}
		data, err := e.Canonical()
		if err != nil {
			s.t.Fatal(err)
		}
		s.tail = ledger.Tail{Next: e.Sequence + 1, Last: canon.Sum(data)}
		var dirty []ledger.TileData
		s.edge, dirty = ledger.Append(s.edge, []canon.Digest{s.put(ledger.Opening([ledger.SaltSize]byte{}, data))})
		for _, d := range dirty {
			s.tiles[[2]int64{int64(d.Level), d.Index}] = d.Data
		}
		text := ledger.Checkpoint{Origin: "log.example", Tree: s.edge.Tree()}.Text()
		signed, err := note.Sign(&note.Note{Text: text}, log, witness)
		if err != nil {
			s.t.Fatal(err)
		}
		s.notes = append(s.notes, signed)
	}
}

func (s *logSource) Checkpoint(context.Context) ([]byte, error) { return s.notes[len(s.notes)-1], nil }

func (s *logSource) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	data := s.tiles[[2]int64{int64(t.Level), t.Index}]
	if len(data) < t.Bytes() {
		return nil, fs.ErrNotExist
	}
	return data[:t.Bytes()], nil
}

func (s *logSource) Blob(_ context.Context, d canon.Digest) ([]byte, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	if data, ok := s.blobs[d]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (s *logSource) Around(_ context.Context, index int64) (before, after []byte, err error) {
	return s.notes[index], s.notes[index+1], nil
}

func TestPull(t *testing.T) {
	src := &logSource{t: t}
	src.grow(300)
	p := newPull(t, src)
	dir := p.Dir
	got, err := p.Run(t.Context())
	if err != nil || got.Blobs != 600 || got.Refused != 0 || got.Checkpoint.Tree != src.edge.Tree() {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, size := range []string{"1", "150", "300"} {
		if _, err := os.Stat(filepath.Join(dir, "checkpoints", size)); err != nil {
			t.Errorf("the cosigned checkpoint of size %s: %v", size, err)
		}
	}
	// A blob, a tile and a key that are not the log's.
	src.grow(1)
	digest := canon.Sum([]byte("body 300"))
	src.blobs[digest] = []byte("another body")
	_, err = p.Run(t.Context())
	want(t, "another blob", err, "the source has other bytes")
	src.blobs[digest] = []byte("body 300")
	src.broken = errors.New("connection reset")
	_, err = p.Run(t.Context())
	want(t, "a source that fails", err, "connection reset")
	src.broken = nil
	src.tiles[[2]int64{0, 1}][5] ^= 1
	_, err = p.Run(t.Context())
	want(t, "another tile", err, "that the log goes on from size 300 cannot be told: tile/0/001.p/45: not the hashes")
	if _, err := os.Stat(filepath.Join(dir, "fork-believed.note")); err == nil {
		t.Error("a wrong tile is taken for a fork")
	}
	src.tiles[[2]int64{0, 1}][5] ^= 1
	stranger := p
	vkey, err := ledger.LogVKey("log.example", ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	stranger.Logs = []string{vkey}
	_, err = stranger.Run(t.Context())
	want(t, "another key", err, "no verifiable signatures")
	note, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil || !strings.HasPrefix(string(note), "log.example\n300\n") {
		t.Errorf("after pulls that failed the folder has the checkpoint %q (%v)", note, err)
	}
	if got, err = p.Run(t.Context()); err != nil || got.From != 300 || got.Blobs != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// newPull returns a pull of a log into a new folder.
func newPull(t *testing.T, src ledger.Source) client.Pull {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	return client.Pull{From: src, Dir: dir, Have: folder(dir), Logs: []string{logVKey(t)},
		Names: func(context.Context, ledger.Source, ledger.Entry) ([]canon.Digest, error) { return nil, nil }}
}

// TestPullBehind: a folder that is behind what was believed gets all that it lacks, and has to be of the same history.
func TestPullBehind(t *testing.T) {
	src := &logSource{t: t}
	src.grow(3)
	p := newPull(t, src)
	if _, err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	src.grow(3)
	p.Last = src.notes[6]
	src.grow(1)
	got, err := p.Run(t.Context())
	if err != nil || got.From != 6 || got.Blobs != 8 {
		t.Errorf("of 7 entries the folder had 3: %+v, %v", got, err)
	}
	other := &logSource{t: t}
	other.grow(1)
	other.tail.Next++ // another second entry
	other.grow(8)
	p.From, p.Last = other, other.notes[1]
	_, err = p.Run(t.Context())
	want(t, "a folder of another history", err, "two histories")
}

// TestPullWrongTile: a tile that is not the tree's is fetched again by the next pull, from whoever has the right one.
func TestPullWrongTile(t *testing.T) {
	src := &logSource{t: t}
	src.grow(300)
	p := newPull(t, src)
	src.tiles[[2]int64{-1, 1}][5] ^= 1
	_, err := p.Run(t.Context())
	want(t, "another tile", err, "tile/0/001.p/44: not the hashes")
	src.tiles[[2]int64{-1, 1}][5] ^= 1
	if got, err := p.Run(t.Context()); err != nil || got.Checkpoint.Size != 300 {
		t.Errorf("the right tile: %+v, %v", got, err)
	}
}

func want(t *testing.T, name string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: error %v, want %q", name, err, text)
	}
}
