package ledger_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// TestAppend grows trees in steps of many sizes and compares root, tiles and edge with the reference tree of
// transparency-dev and with a tree that was made at once.
func TestAppend(t *testing.T) {
	const size = 70_000 // past 256*256, so that a tile of level 1 is completed
	all := commitments(0, size)
	reference := testonly.New(rfc6962.DefaultHasher)
	for _, c := range all {
		reference.AppendData(ledger.Leaf(c))
	}
	var once memory
	once.append(all...)
	for _, step := range []int{1, 7, 255, 256, 257, 4096, 33_000} {
		var grown memory
		for n := 0; n < size && n/step < 300; n += step {
			end := min(n+step, size)
			tree := grown.append(all[n:end]...)
			if want := reference.HashAt(uint64(end)); string(tree.Root[:]) != string(want) || tree.Size != int64(end) {
				t.Fatalf("steps of %d: size %d, root %s, want %d, %x", step, tree.Size, tree.Root, end, want)
			}
			var tiles [][]byte
			for _, tile := range ledger.EdgeTiles(tree.Size) {
				data, err := grown.Tile(t.Context(), tile)
				if err != nil {
					t.Fatal(err)
				}
				tiles = append(tiles, data)
			}
			edge, err := ledger.NewEdge(tree.Size, tiles)
			if err != nil || edge.Tree() != tree {
				t.Fatalf("steps of %d: the edge of size %d has root %s, want %s (%v)", step, tree.Size, edge.Tree().Root, tree.Root, err)
			}
			grown.edge = edge // go on from the tiles alone, as a store does
		}
		for at, data := range grown.tiles {
			if want := once.tiles[at]; string(want[:len(data)]) != string(data) {
				t.Errorf("steps of %d: tile %v differs from the tree made at once", step, at)
			}
		}
	}
}

func TestNewEdgeRefuses(t *testing.T) {
	var m memory
	m.append(commitments(0, 300)...)
	var good [][]byte
	for _, tile := range ledger.EdgeTiles(300) {
		data, err := m.Tile(t.Context(), tile)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, data)
	}
	for _, c := range []struct {
		name  string
		size  int64
		tiles [][]byte
		want  string
	}{
		{"good", 300, good, ""},
		{"empty", 0, nil, ""},
		{"a tile too few", 300, good[1:], "2 tiles, want 3"},
		{"another size", 301, good, "has 1540 bytes, want 1575"},
		{"negative", -1, nil, "size -1"},
	} {
		_, err := ledger.NewEdge(c.size, c.tiles)
		check(t, c.name, err, c.want)
	}
}

func TestTilePath(t *testing.T) {
	for _, c := range []struct {
		tile ledger.Tile
		path string
	}{
		{ledger.Tile{Level: 0, Index: 0, Width: 256}, "tile/0/000"},
		{ledger.Tile{Level: 0, Index: 999, Width: 1}, "tile/0/999.p/1"},
		{ledger.Tile{Level: 1, Index: 1234067, Width: 256}, "tile/1/x001/x234/067"},
		{ledger.Tile{Level: 7, Index: 1000, Width: 255}, "tile/7/x001/000.p/255"},
		{ledger.Tile{Level: ledger.EntriesLevel, Index: 67, Width: 8}, "tile/entries/067.p/8"},
	} {
		if got := c.tile.Path(); got != c.path {
			t.Errorf("%+v: %s, want %s", c.tile, got, c.path)
		}
		peer := layout.EntriesPath(uint64(c.tile.Index), uint8(c.tile.Width))
		if c.tile.Level >= 0 {
			peer = layout.TilePath(uint64(c.tile.Level), uint64(c.tile.Index), uint8(c.tile.Width))
		}
		if peer != c.path {
			t.Errorf("%+v: tessera says %s, we %s", c.tile, peer, c.path)
		}
		if got, err := ledger.ParseTilePath(c.path); err != nil || got != c.tile {
			t.Errorf("%s: %+v, want %+v (%v)", c.path, got, c.tile, err)
		}
	}
	for _, path := range []string{
		"", "tile", "tile/0", "tile/0/", "tile/0/0", "tile/0/0000", "tile/00/000", "tile/8/000", "tile/-1/000", "tile/0/000.p/0",
		"tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/", "tile/0/x000/001", "tile/0/001/002", "tile/0/x001/x002", "/tile/0/000",
		"tile/0/000/", "tile/entries/../000", "tile/0/-01", "tile/0/" + strings.Repeat("x999/", 9) + "999",
	} {
		if got, err := ledger.ParseTilePath(path); err == nil {
			t.Errorf("%s: parsed as %+v", path, got)
		}
	}
}

func TestTileIn(t *testing.T) {
	for _, c := range []struct {
		tile ledger.Tile
		size int64
		want bool
	}{
		{ledger.Tile{Level: 0, Index: 0, Width: 1}, 0, false},
		{ledger.Tile{Level: 0, Index: 0, Width: 1}, 1, true},
		{ledger.Tile{Level: 0, Index: 0, Width: 256}, 255, false},
		{ledger.Tile{Level: ledger.EntriesLevel, Index: 1, Width: 44}, 300, true},
		{ledger.Tile{Level: ledger.EntriesLevel, Index: 1, Width: 45}, 300, false},
		{ledger.Tile{Level: 1, Index: 0, Width: 1}, 300, true},
		{ledger.Tile{Level: 1, Index: 0, Width: 2}, 300, false},
		{ledger.Tile{Level: 0, Index: canon.MaxInt, Width: 256}, 300, false},
		{ledger.Tile{Level: 0, Index: 0, Width: 0}, 300, false},
	} {
		if got := c.tile.In(c.size); got != c.want {
			t.Errorf("%s in a tree of size %d: %v, want %v", c.tile.Path(), c.size, got, c.want)
		}
	}
}

// TestWalk reads a tree, and then the same tree with one bit flipped in each tile: every flip is found and named.
func TestWalk(t *testing.T) {
	const size = 256*256 + 300
	var m memory
	all := commitments(0, size)
	tree := m.append(all...)
	n := 0
	walk := func(tree ledger.Tree) error {
		n = 0
		return ledger.Walk(t.Context(), &m, tree, func(index int64, c canon.Digest) error {
			if int64(n) != index || c != all[n] {
				return fmt.Errorf("leaf %d is not that of %d", index, n)
			}
			n++
			return nil
		})
	}
	if err := walk(tree); err != nil || n != size {
		t.Fatalf("%d leaves, want %d (%v)", n, size, err)
	}
	earlier := (&memory{}).append(all[:5000]...)
	if err := walk(earlier); err != nil || n != 5000 {
		t.Errorf("an earlier tree: %d leaves, want 5000 (%v)", n, err)
	}
	for _, at := range []ledger.Tile{
		{Level: ledger.EntriesLevel, Index: 0, Width: 256}, {Level: ledger.EntriesLevel, Index: 257, Width: 44},
		{Level: 0, Index: 0, Width: 256}, {Level: 0, Index: 257, Width: 44},
		{Level: 1, Index: 0, Width: 256}, {Level: 1, Index: 1, Width: 1}, {Level: 2, Index: 0, Width: 1},
	} {
		data := m.tiles[[2]int64{int64(at.Level), at.Index}]
		data[len(data)-1] ^= 1
		want := at
		if at.Level == ledger.EntriesLevel { // an altered leaf shows where its hash is kept
			want.Level = 0
		}
		err := ledger.Walk(t.Context(), &m, tree, func(int64, canon.Digest) error { return nil })
		check(t, at.Path(), err, want.Path()+": not the hashes")
		data[len(data)-1] ^= 1
	}
	tree.Root[0] ^= 1
	check(t, "another root", walk(tree), "the checkpoint says")
	tree.Size++
	check(t, "a leaf that is not there", walk(tree), "tile/entries/257.p/45")
}

// TestScan reads the end of a tree from every kind of place, and refuses leaves that are not the tree's: those that it read
// and those that it did not.
func TestScan(t *testing.T) {
	const size = 256*256 + 300
	var m memory
	all := commitments(0, size)
	tree := m.append(all...)
	scan := func(from int64) error {
		n := from
		err := ledger.Scan(t.Context(), &m, from, tree, func(index int64, c canon.Digest) {
			if index != n || c != all[n] {
				t.Errorf("from %d: leaf %d where %d was due", from, index, n)
			}
			n++
		})
		if err == nil && n != tree.Size {
			t.Errorf("from %d: ended at %d", from, n)
		}
		return err
	}
	for _, from := range []int64{0, 1, 255, 256, 257, 256 * 256, 256*256 + 256, size - 1, size} {
		check(t, fmt.Sprint("from ", from), scan(from), "")
	}
	check(t, "from behind the end", scan(size+1), "from index")
	for _, row := range []struct {
		from int64
		tile ledger.Tile
	}{
		{size - 10, ledger.Tile{Level: ledger.EntriesLevel, Index: 257, Width: 44}},
		{256 * 256, ledger.Tile{Level: 2, Index: 0, Width: 1}},
		{300, ledger.Tile{Level: 1, Index: 0, Width: 1}},
	} {
		data := m.tiles[[2]int64{int64(row.tile.Level), row.tile.Index}]
		data[row.tile.Bytes()-1] ^= 1
		check(t, row.tile.Path(), ledger.Scan(t.Context(), &m, row.from, tree, func(int64, canon.Digest) {}), "do not lead to its root")
		data[row.tile.Bytes()-1] ^= 1
	}
	tree.Root[0] ^= 1
	check(t, "another root", ledger.Scan(t.Context(), &m, size, tree, func(int64, canon.Digest) {}), "do not lead to its root")
}

// TestTrees: the trees that a log was, from its leaves alone.
func TestTrees(t *testing.T) {
	m, trees := grown(600)
	all := trees[len(trees)-1]
	var sizes []int64
	for size := range int64(601) {
		sizes = append(sizes, size)
	}
	for _, want := range [][]int64{sizes, {0}, {600}, {255, 256, 256, 257}, nil} {
		var got []ledger.Tree
		if err := ledger.Trees(t.Context(), m, all, want, func(tree ledger.Tree) { got = append(got, tree) }); err != nil || len(got) != len(want) {
			t.Fatalf("%d of %d trees, %v", len(got), len(want), err)
		}
		for i, size := range want {
			if got[i] != trees[size] {
				t.Errorf("tree of size %d: %v, want %v", size, got[i], trees[size])
			}
		}
	}
	check(t, "larger than the log", ledger.Trees(t.Context(), m, all, []int64{5, 601}, func(ledger.Tree) {}), "of size 601 in a tree of size 600")
}

// TestPeerReadsTiles has Tessera's client make the proofs from our tiles: they are the same hashes as ours.
func TestPeerReadsTiles(t *testing.T) {
	ctx := t.Context()
	var m memory
	all := commitments(0, 1000)
	smaller := m.append(all[:600]...)
	larger := m.append(all[600:]...)
	fetch := func(ctx context.Context, level, index uint64, p uint8) ([]byte, error) {
		width := int(p)
		if p == 0 {
			width = ledger.TileWidth
		}
		return m.Tile(ctx, ledger.Tile{Level: int(level), Index: int64(index), Width: width})
	}
	for _, tree := range []ledger.Tree{smaller, larger} {
		peer, err := client.NewProofBuilder(ctx, uint64(tree.Size), fetch)
		if err != nil {
			t.Fatal(err)
		}
		for index := int64(0); index < tree.Size; index += 37 {
			ours, err := ledger.ProveInclusion(ctx, &m, index, tree.Size)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := peer.InclusionProof(ctx, uint64(index))
			if err != nil {
				t.Fatal(err)
			}
			if len(theirs) != len(ours.Hashes) {
				t.Fatalf("index %d: %d hashes, tessera has %d", index, len(ours.Hashes), len(theirs))
			}
			for i := range theirs {
				if string(theirs[i]) != string(ours.Hashes[i][:]) {
					t.Fatalf("index %d: hash %d differs from tessera's", index, i)
				}
			}
			check(t, "inclusion", ours.Verify(all[index], tree), "")
		}
	}
}

// peerLog reads the small log that Tessera's module carries for its own tests.
type peerLog struct{ dir string }

func newPeerLog(t *testing.T) peerLog {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/transparency-dev/tessera").Output()
	if err != nil {
		t.Fatal(err)
	}
	return peerLog{filepath.Join(strings.TrimSpace(string(out)), "testdata", "log")}
}

func (l peerLog) Checkpoint(context.Context) ([]byte, error) {
	return os.ReadFile(filepath.Join(l.dir, "checkpoint"))
}

func (l peerLog) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	return os.ReadFile(filepath.Join(l.dir, filepath.FromSlash(t.Path())))
}

func (l peerLog) Blob(context.Context, canon.Digest) ([]byte, error) { return nil, os.ErrNotExist }

// at opens the log's checkpoint of a size.
func (l peerLog) at(t *testing.T, size int) ledger.Tree {
	t.Helper()
	key, err := note.NewVerifier("example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(l.dir, fmt.Sprint("checkpoint.", size)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ledger.OpenCheckpoint(data, key)
	if err != nil {
		t.Fatal(err)
	}
	return c.Tree
}
