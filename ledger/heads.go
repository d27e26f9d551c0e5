package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// HeadsType is the type of the heads document.
const HeadsType = "assay/heads/v1"

// A heads entry follows the first entry that it covers within HeadsWithin. A reader allows HeadsSlack more: for clocks of
// several processes, and for one that begins again.
const (
	HeadsWithin = 3600 // s
	HeadsSlack  = 600  // s
)

// SeedSize is the size in bytes of the seed of a heads entry.
const SeedSize = 32

// Heads is the body of a heads entry: it commits to the ends of all streams as they stood before the entry, so that an
// entry that is missing later is a gap that everybody sees. The ends are the leaves of a tree like the log's, ordered by
// the stream's name. Each leaf is salted with a hash of its name and the seed: the owner of a stream is shown its own end
// and learns of the others only how many there are. The last entry of a log is one that closes it.
type Heads struct {
	Type    string       `json:"type"`
	Streams int64        `json:"streams"`
	Root    canon.Digest `json:"root"`
	Seed    canon.Digest `json:"seed"` // of the blob that holds the seed, which is for auditors
	Closes  Closes       `json:"closes,omitzero"`
}

// Closes is there if no entry of the log follows: another log goes on.
type Closes struct {
	Next string `json:"next"` // its origin
}

// ParseHeads reads the canonical bytes of a heads document.
func ParseHeads(data []byte) (Heads, error) {
	var h Heads
	if err := canon.Unmarshal(data, &h); err != nil {
		return Heads{}, fmt.Errorf("heads: %w", err)
	}
	switch {
	case h.Type != HeadsType:
		return Heads{}, fmt.Errorf("heads: type %.80q is not known to this build, want %q", h.Type, HeadsType)
	case h.Streams < 1 || h.Root.IsZero() || h.Seed.IsZero():
		return Heads{}, errors.New("heads: streams, root and seed are all needed")
	case len(h.Closes.Next) > MaxOrigin:
		return Heads{}, fmt.Errorf("heads: origin of the next log of %d bytes, at most %d", len(h.Closes.Next), MaxOrigin)
	}
	return h, nil
}

// Head is the end of one stream.
type Head struct {
	Stream string       `json:"stream"`
	Next   int64        `json:"next"` // sequence of the entry that is still to come
	Last   canon.Digest `json:"last"` // digest of the last entry's canonical bytes
}

// commitment hides an end from whoever does not have the salt.
func (h Head) commitment(salt canon.Digest) canon.Digest {
	return canon.Hash("assay/head/v1", salt[:], []byte(h.Stream), binary.BigEndian.AppendUint64(nil, uint64(h.Next)), h.Last[:])
}

func headSalt(seed []byte, stream string) canon.Digest {
	return canon.Hash("assay/head-salt/v1", seed, []byte(stream))
}

// HeadProof proves the end of one stream in a heads document.
type HeadProof struct {
	Head  Head         `json:"head"`
	Salt  canon.Digest `json:"salt"`
	Place Inclusion    `json:"place"` // in the tree of heads, not in the log
}

// Verify checks that the document commits to this end of the stream. Whether the document is the body of an entry of the
// log is for the caller.
func (p HeadProof) Verify(h Heads) error {
	if err := p.Place.Verify(p.Head.commitment(p.Salt), Tree{h.Streams, h.Root}); err != nil {
		return fmt.Errorf("head of stream %.80q: %w", p.Head.Stream, err)
	}
	return nil
}

// HeadsTree is the tree that a heads document commits to. It is not changed after it was made.
type HeadsTree struct {
	heads []Head // ordered by name
	seed  []byte
	tree  Tree
	tiles map[Tile][]byte // Width zero: the content says it
}

// NewHeadsTree makes the tree over the ends of streams. Streams without entries do not stand in it.
func NewHeadsTree(seed []byte, tails map[string]Tail) *HeadsTree {
	t := &HeadsTree{seed: seed, tiles: map[Tile][]byte{}}
	for name, tail := range tails {
		if tail.Next > 0 {
			t.heads = append(t.heads, Head{name, tail.Next, tail.Last})
		}
	}
	slices.SortFunc(t.heads, func(a, b Head) int { return strings.Compare(a.Stream, b.Stream) })
	commitments := make([]canon.Digest, len(t.heads))
	for i, h := range t.heads {
		commitments[i] = h.commitment(headSalt(seed, h.Stream))
	}
	edge, tiles := Append(Edge{}, commitments)
	t.tree = edge.Tree()
	for _, d := range tiles {
		t.tiles[Tile{Level: d.Level, Index: d.Index}] = d.Data
	}
	return t
}

// Document returns the document that commits to the tree and closes nothing.
func (t *HeadsTree) Document() Heads {
	return Heads{Type: HeadsType, Streams: t.tree.Size, Root: t.tree.Root, Seed: canon.Sum(t.seed)}
}

// Prove returns the proof of a stream's end, or false if the stream had no entry.
func (t *HeadsTree) Prove(stream string) (HeadProof, bool) {
	i, ok := slices.BinarySearchFunc(t.heads, stream, func(h Head, name string) int { return strings.Compare(h.Stream, name) })
	if !ok {
		return HeadProof{}, false
	}
	place, err := ProveInclusion(context.Background(), headsTiles{t}, int64(i), t.tree.Size)
	if err != nil {
		panic("ledger: internal error: heads: " + err.Error())
	}
	return HeadProof{t.heads[i], headSalt(t.seed, stream), place}, true
}

// headsTiles shows a tree in memory as a source of tiles.
type headsTiles struct{ t *HeadsTree }

func (s headsTiles) Checkpoint(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }

func (s headsTiles) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, fs.ErrNotExist }

func (s headsTiles) Tile(_ context.Context, t Tile) ([]byte, error) {
	data := s.t.tiles[Tile{Level: t.Level, Index: t.Index}]
	if len(data) < t.Bytes() {
		return nil, fs.ErrNotExist
	}
	return data[:t.Bytes()], nil
}
