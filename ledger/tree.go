package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"

	"github.com/assay-network/assay/internal/canon"
)

// Tree is one state of the log: how many leaves it has and the Merkle tree hash over them (RFC 6962 section 2.1).
type Tree struct {
	Size int64
	Root canon.Digest
}

// LeafHash returns the hash of a leaf in the tree.
func LeafHash(commitment canon.Digest) canon.Digest {
	var b [1 + leafSize]byte // 0x00, then the leaf
	b[1] = leafVersion
	copy(b[2:], commitment[:])
	return sha256.Sum256(b[:])
}

// hashChildren is the hash of an inner node.
func hashChildren(left, right []byte) []byte {
	sum := parent(left, right)
	return sum[:]
}

func parent(left, right []byte) canon.Digest {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right)
	return sha256.Sum256(b[:])
}

// subtree returns the root over a row of 2^k hashes.
func subtree(row []byte) []byte {
	if len(row) == sha256.Size {
		return row
	}
	up := make([]byte, 0, len(row)/2)
	for ; len(row) > 0; row = row[2*sha256.Size:] {
		sum := parent(row[:sha256.Size], row[sha256.Size:2*sha256.Size])
		up = append(up, sum[:]...)
	}
	return subtree(up)
}

// nodeTile returns the tile of a tree of the given size that holds an inner node, and the hashes of that tile's lowest
// row, from to to, that the node stands over.
func nodeTile(id compact.NodeID, size int64) (t Tile, from, to int) {
	level, up := int(id.Level)/tileHeight, id.Level%tileHeight
	first := int64(id.Index) << up
	from = int(first % TileWidth)
	return tileAt(level, first, size), from, from + 1<<up
}

// Edge is the right edge of a tree: its size and its incomplete tiles. The zero Edge is the empty tree. An Edge is never
// changed; [Append] returns another.
type Edge struct {
	size  int64
	rows  [maxTileLevel + 2][]byte // content of the incomplete tile of each level, entries first
	peaks [][]byte                 // roots of the largest complete subtrees, left to right
}

var compactTree = compact.RangeFactory{Hash: hashChildren}

// NewEdge builds the edge of a tree of the given size from the content of [EdgeTiles], in that order. It cannot know
// whether the content is that of the log: the caller compares [Edge.Tree] with the root it knows.
func NewEdge(size int64, tiles [][]byte) (Edge, error) {
	e := Edge{size: size}
	want := EdgeTiles(size)
	if size < 0 || len(tiles) != len(want) {
		return Edge{}, fmt.Errorf("edge of a tree of size %d: %d tiles, want %d", size, len(tiles), len(want))
	}
	for i, t := range want {
		if len(tiles[i]) != t.Bytes() {
			return Edge{}, fmt.Errorf("edge of a tree of size %d: %s has %d bytes, want %d", size, t.Path(), len(tiles[i]), t.Bytes())
		}
		e.rows[t.Level+1] = bytes.Clone(tiles[i])
	}
	for _, id := range compact.RangeNodes(0, uint64(size), nil) {
		t, from, to := nodeTile(id, size)
		e.peaks = append(e.peaks, subtree(e.rows[t.Level+1][from*sha256.Size:to*sha256.Size]))
	}
	return e, nil
}

// Tree returns the size and the root.
func (e Edge) Tree() Tree {
	if e.size == 0 {
		return Tree{0, sha256.Sum256(nil)}
	}
	root := e.peaks[len(e.peaks)-1]
	for i := len(e.peaks) - 2; i >= 0; i-- {
		root = hashChildren(e.peaks[i], root)
	}
	return Tree{e.size, canon.Digest(root)}
}

// Append is the whole log writer: it appends leaves and returns the new edge with every tile that changed, ordered by
// level and index. Each returned tile replaces the narrower one at its place; a complete tile never changes again.
func Append(e Edge, commitments []canon.Digest) (Edge, []TileData) {
	next := Edge{size: e.size + int64(len(commitments))}
	for i, row := range e.rows {
		next.rows[i] = slices.Clone(row)
	}
	edge, err := compactTree.NewRange(0, uint64(e.size), slices.Clone(e.peaks))
	if err != nil {
		panic("ledger: internal error: edge: " + err.Error())
	}
	var dirty []TileData
	touched := map[int]bool{}
	add := func(level int, n int64, data ...byte) {
		row := append(next.rows[level+1], data...)
		touched[level] = true
		if t := (Tile{level, n >> tileHeight, TileWidth}); len(row) == t.Bytes() {
			dirty = append(dirty, TileData{t, row})
			row, touched[level] = nil, false
		}
		next.rows[level+1] = row
	}
	for i, c := range commitments {
		leaf := Leaf(c)
		add(EntriesLevel, e.size+int64(i), append(binary.BigEndian.AppendUint16(nil, uint16(len(leaf))), leaf...)...)
		hash := LeafHash(c)
		err := edge.Append(hash[:], func(id compact.NodeID, hash []byte) {
			if id.Level%tileHeight == 0 {
				add(int(id.Level)/tileHeight, int64(id.Index), hash...)
			}
		})
		if err != nil {
			panic("ledger: internal error: append: " + err.Error())
		}
	}
	next.peaks = edge.Hashes()
	for _, t := range EdgeTiles(next.size) {
		if touched[t.Level] {
			dirty = append(dirty, TileData{t, slices.Clone(next.rows[t.Level+1])})
		}
	}
	slices.SortFunc(dirty, func(a, b TileData) int {
		if a.Level != b.Level {
			return a.Level - b.Level
		}
		return int(a.Index - b.Index)
	})
	return next, dirty
}
