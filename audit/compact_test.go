package audit

import (
	"context"
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// twoEntries is the source of a log of two entries whose bodies have digests that begin alike, as a forger can make them.
type twoEntries struct {
	tile  []byte
	blobs map[canon.Digest][]byte
}

func (s twoEntries) Checkpoint(context.Context) ([]byte, error)        { return nil, fs.ErrNotExist }
func (s twoEntries) Tile(context.Context, ledger.Tile) ([]byte, error) { return s.tile, nil }
func (s twoEntries) Blob(_ context.Context, d canon.Digest) ([]byte, error) {
	return s.blobs[d], nil
}

func newTwoEntries(t *testing.T) (r *replay, bodies [2]canon.Digest) {
	t.Helper()
	s := twoEntries{blobs: map[canon.Digest][]byte{}}
	for i := range bodies {
		bodies[i] = canon.Digest{1, 2, 3, 4, 5, 6, 7, 8, byte(i)}
		e := ledger.Entry{Type: ledger.EntryType, Kind: ledger.KindPolicy, Stream: ledger.StreamServer, Sequence: int64(i), Time: 1, Body: bodies[i], Refs: []canon.Digest{}}
		if i > 0 {
			e.Previous = canon.Sum([]byte("the first"))
		}
		data, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		opening := ledger.Opening([ledger.SaltSize]byte{byte(i)}, data)
		s.blobs[canon.Sum(opening)] = opening
		leaf := ledger.Leaf(canon.Sum(opening))
		s.tile = append(append(s.tile, 0, byte(len(leaf))), leaf...)
	}
	r = newReplay(s, nil, Options{})
	r.report.Size = 2
	r.again.sums = []canon.Digest{canon.Sum(s.tile)}
	for i, b := range bodies {
		r.bodies.add(tagOf(b), int64(i))
	}
	return r, bodies
}

// TestFindTellsApart: digests that begin alike are not taken for one another.
func TestFindTellsApart(t *testing.T) {
	r, bodies := newTwoEntries(t)
	for want, body := range bodies {
		if at, e, ok, err := r.find(t.Context(), ledger.KindPolicy, body); err != nil || !ok || at != int64(want) || e.Body != body {
			t.Errorf("body %d: entry %d, %v, %v", want, at, ok, err)
		}
		if _, _, ok, err := r.find(t.Context(), ledger.KindEvidence, body); ok || err != nil {
			t.Errorf("body %d is found as evidence (%v)", want, err)
		}
	}
	if _, _, ok, err := r.find(t.Context(), "", canon.Digest{1, 2, 3, 4, 5, 6, 7, 8, 99}); ok || err != nil {
		t.Errorf("a body of no entry is found (%v)", err)
	}
}

// TestReadAgain: what was checked when the tree was read is compared when it is read again.
func TestReadAgain(t *testing.T) {
	r, bodies := newTwoEntries(t)
	src := r.src.(twoEntries)
	src.tile = slices.Clone(src.tile)
	src.tile[len(src.tile)-1] ^= 1
	r.src = src
	if _, _, _, err := r.find(t.Context(), "", bodies[0]); err == nil || !strings.Contains(err.Error(), "the source has other bytes than a moment ago") {
		t.Errorf("a source that changes: %v", err)
	}
}

// TestPlaces finds what was added, in a table that grew many times, and what shares a slot or a tag with it.
func TestPlaces(t *testing.T) {
	var p places
	tag := func(i int64) uint64 {
		d := canon.Sum(binary.BigEndian.AppendUint64(nil, uint64(i/3))) // three of each
		return tagOf(d)
	}
	const n = 3000
	for i := range int64(n) {
		p.add(tag(i), i)
	}
	for i := int64(0); i < n; i += 3 {
		if got := slices.Sorted(p.of(tag(i))); !slices.Equal(got, []int64{i, i + 1, i + 2}) {
			t.Fatalf("tag of %d: %v", i, got)
		}
	}
	for range p.of(tag(n + 3)) {
		t.Error("a tag that was never added is found")
	}
	for range (&places{}).of(1) {
		t.Error("something is found in nothing")
	}
	seen := map[uint64]bool{}
	for i := range int64(n) {
		seen[tagOfIndex(i)] = true
	}
	if len(seen) != n {
		t.Error("two indexes have one tag")
	}
}
