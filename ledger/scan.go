package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// Scan reads the leaves of a tree from an index on, in order, without those before them, and checks that they are the
// tree's: together with the hashes that a source gives for what lies before, they must lead to its root, which no other
// leaves do. As with [Walk], what visit learns counts only if Scan returns nil. It opens no leaf.
func Scan(ctx context.Context, src Source, from int64, tree Tree, visit func(index int64, commitment canon.Digest)) error {
	if from < 0 || from > tree.Size {
		return fmt.Errorf("scan: from index %d in a tree of size %d", from, tree.Size)
	}
	first := from - from%TileWidth
	var before [][]byte
	for _, t := range EdgeTiles(first) {
		data, err := src.Tile(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path(), err)
		}
		before = append(before, data)
	}
	edge, err := NewEdge(first, before)
	if err != nil {
		return err
	}
	for ; first < tree.Size; first += TileWidth {
		commitments, err := readBundle(ctx, src, first, tree.Size)
		if err != nil {
			return err
		}
		for i, c := range commitments {
			if index := first + int64(i); index >= from {
				visit(index, c)
			}
		}
		edge, _ = Append(edge, commitments)
	}
	if got := edge.Tree(); got != tree {
		return fmt.Errorf("tree of size %d: the leaves from %d on do not lead to its root", tree.Size, from)
	}
	return nil
}

// Find looks for commitments among the leaves of a tree from an index on, as [Scan] reads them, and returns the indices of
// those that are there.
func Find(ctx context.Context, src Source, from int64, tree Tree, wanted []canon.Digest) (map[canon.Digest]int64, error) {
	found, open := map[canon.Digest]int64{}, map[canon.Digest]bool{}
	for _, c := range wanted {
		open[c] = true
	}
	err := Scan(ctx, src, from, tree, func(index int64, c canon.Digest) {
		if open[c] {
			found[c] = index
		}
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Trees reads the leaves of a tree and calls visit with the trees that it was at the given sizes, which are ascending. That
// the leaves are the tree's is for the caller to know: it has read them with [Walk].
func Trees(ctx context.Context, src Source, tree Tree, sizes []int64, visit func(Tree)) error {
	edge := compactTree.NewEmptyRange(0)
	for _, size := range sizes {
		if size == 0 {
			visit(Edge{}.Tree())
		}
	}
	next, _ := slices.BinarySearch(sizes, 1)
	for first := int64(0); next < len(sizes) && first < tree.Size; first += TileWidth {
		commitments, err := readBundle(ctx, src, first, tree.Size)
		if err != nil {
			return err
		}
		for i, c := range commitments {
			hash := LeafHash(c)
			if err := edge.Append(hash[:], nil); err != nil {
				panic("ledger: internal error: trees: " + err.Error())
			}
			for size := first + int64(i) + 1; next < len(sizes) && sizes[next] == size; next++ {
				root, err := edge.GetRootHash(nil)
				if err != nil {
					panic("ledger: internal error: trees: " + err.Error())
				}
				visit(Tree{size, canon.Digest(root)})
			}
		}
	}
	if next < len(sizes) {
		return fmt.Errorf("trees: of size %d in a tree of size %d", sizes[next], tree.Size)
	}
	return nil
}
