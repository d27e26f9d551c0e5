package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// Source is where a reader finds a log: a database, an HTTP mirror, a directory, an export file. Nothing that it returns
// is to be believed before it is checked; a source that lies can be caught but not prevented.
//
// All methods may be called concurrently. An error that wraps [io/fs.ErrNotExist] says that the source works and does not
// have it; any other error says that the source could not tell. The caller may keep and must not change what it is given.
type Source interface {
	// Checkpoint returns the newest signed checkpoint. It never returns a smaller one than it returned before, and has
	// every tile and every leaf of the tree that it names before it names it. Without one: [io/fs.ErrNotExist].
	Checkpoint(ctx context.Context) ([]byte, error)
	// Tile returns exactly [Tile.Bytes] bytes. It has each tile that a checkpoint's tree has, also the narrower forms
	// that trees of smaller sizes had.
	Tile(ctx context.Context, t Tile) ([]byte, error)
	// Blob returns the bytes whose SHA-256 is the digest: bodies, what bodies name, and openings under their commitment.
	// A digest is no capability: who may ask for which blob is the source's rule, and what it withholds does not exist.
	Blob(ctx context.Context, digest canon.Digest) ([]byte, error)
}

// Walk reads every leaf of a tree in order and recomputes the tree from them: every entry bundle, every hash tile and the
// root. An error names the first part that differs. The leaves before it were visited, so what visit learns counts only
// if Walk returns nil. It opens no leaf.
func Walk(ctx context.Context, src Source, tree Tree, visit func(index int64, commitment canon.Digest) error) error {
	var edge Edge
	for first := int64(0); first < tree.Size; first += TileWidth {
		commitments, err := readBundle(ctx, src, first, tree.Size)
		if err != nil {
			return err
		}
		for i, c := range commitments {
			if err := visit(first+int64(i), c); err != nil {
				return err
			}
		}
		var dirty []TileData
		edge, dirty = Append(edge, commitments)
		for _, d := range dirty {
			if d.Level == EntriesLevel || (d.Width < TileWidth && edge.size < tree.Size) {
				continue
			}
			if err := compareTile(ctx, src, d); err != nil {
				return err
			}
		}
	}
	// An incomplete tile above the last bundle may have been finished before it.
	for _, t := range EdgeTiles(tree.Size) {
		if t.Level > 0 {
			if err := compareTile(ctx, src, TileData{t, edge.rows[t.Level+1]}); err != nil {
				return err
			}
		}
	}
	if got := edge.Tree(); got != tree {
		return fmt.Errorf("tree of size %d: the leaves hash to %s, the checkpoint says %s", tree.Size, got.Root.Short(), tree.Root.Short())
	}
	return nil
}

func compareTile(ctx context.Context, src Source, want TileData) error {
	got, err := src.Tile(ctx, want.Tile)
	if err != nil {
		return fmt.Errorf("%s: %w", want.Path(), err)
	}
	if !bytes.Equal(got, want.Data) {
		below := ""
		if want.Level == 0 {
			below = ", in " + Tile{EntriesLevel, want.Index, want.Width}.Path()
		}
		return fmt.Errorf("%s: not the hashes of the leaves below it%s", want.Path(), below)
	}
	return nil
}

// readBundle reads the entry bundle that begins with an index, as wide as a tree of the given size has it.
func readBundle(ctx context.Context, src Source, first, size int64) ([]canon.Digest, error) {
	t := tileAt(EntriesLevel, first, size)
	data, err := src.Tile(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Path(), err)
	}
	commitments, err := ParseEntryBundle(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Path(), err)
	}
	if len(commitments) != t.Width {
		return nil, fmt.Errorf("%s: %d leaves, want %d", t.Path(), len(commitments), t.Width)
	}
	return commitments, nil
}

// Keeper is a source that also has checkpoints of before, by which an auditor brackets when an entry was made.
type Keeper interface {
	Source
	// Around returns the largest kept checkpoint that does not cover an index of the log, and the smallest that does. nil:
	// it keeps none there.
	Around(ctx context.Context, index int64) (before, after []byte, err error)
}

// Continuing is a source of a log that may continue another.
type Continuing interface {
	Source
	// Keysets returns the document of the keysets of the logs before this one, see [ParseKeysets]. A log that continues
	// none: [io/fs.ErrNotExist].
	Keysets(ctx context.Context) ([]byte, error)
}
