package ledger

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// TileWidth is the number of hashes or leaves of a complete tile (C2SP tlog-tiles: tiles of height 8).
const (
	TileWidth  = 1 << tileHeight
	tileHeight = 8
)

// EntriesLevel is the level of the tiles that bundle leaves instead of hashes.
const EntriesLevel = -1

// maxTileLevel is the highest level that tlog-tiles has room for.
const maxTileLevel = 63 / tileHeight

// Tile is the address of one tile: of level l hold the hashes of the tree's level 8*l, tile n those from 256*n on.
type Tile struct {
	Level int   // EntriesLevel, or 0 to 7
	Index int64 // from the left
	Width int   // hashes or leaves in it, 1 to TileWidth
}

// Valid reports whether there can be such a tile.
func (t Tile) Valid() bool {
	return t.Level >= EntriesLevel && t.Level <= maxTileLevel && t.Index >= 0 && t.Index <= canon.MaxInt && t.Width >= 1 && t.Width <= TileWidth
}

// In reports whether a tree of the given size has the tile's content.
func (t Tile) In(size int64) bool {
	return t.Valid() && t.Index <= rowLength(t.Level, size)>>tileHeight && t.Index<<tileHeight+int64(t.Width) <= rowLength(t.Level, size)
}

// Bytes returns the size of the tile's content. A tile of fewer hashes is a prefix of the wider ones at its place.
func (t Tile) Bytes() int {
	if t.Level == EntriesLevel {
		return t.Width * (2 + leafSize)
	}
	return t.Width * len(canon.Digest{})
}

// Path returns the address in the words of tlog-tiles: tile/0/x001/067, tile/entries/000.p/7.
func (t Tile) Path() string {
	level := strconv.Itoa(t.Level)
	if t.Level == EntriesLevel {
		level = "entries"
	}
	index := fmt.Sprintf("%03d", t.Index%1000)
	for n := t.Index / 1000; n > 0; n /= 1000 {
		index = fmt.Sprintf("x%03d/%s", n%1000, index)
	}
	if t.Width < TileWidth {
		index += ".p/" + strconv.Itoa(t.Width)
	}
	return "tile/" + level + "/" + index
}

// ParseTilePath reads an address, spelt as [Tile.Path] spells it and no other way.
func ParseTilePath(path string) (Tile, error) {
	fail := fmt.Errorf("tile path %.80q: want tile/LEVEL/INDEX or tile/entries/INDEX, as tlog-tiles has it", path)
	rest, ok := strings.CutPrefix(path, "tile/")
	level, rest, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || len(path) > 80 {
		return Tile{}, fail
	}
	t := Tile{Level: EntriesLevel, Width: TileWidth}
	var err error
	if level != "entries" {
		if t.Level, err = strconv.Atoi(level); err != nil {
			return Tile{}, fail
		}
	}
	rest, width, partial := strings.Cut(rest, ".p/")
	if partial {
		if t.Width, err = strconv.Atoi(width); err != nil {
			return Tile{}, fail
		}
	}
	digits := strings.ReplaceAll(strings.ReplaceAll(rest, "/", ""), "x", "")
	if t.Index, err = strconv.ParseInt(digits, 10, 64); err != nil || !t.Valid() || t.Path() != path {
		return Tile{}, fail
	}
	return t, nil
}

// TileData is a tile and its content.
type TileData struct {
	Tile
	Data []byte
}

// rowLength returns how many hashes (or leaves) a tree of the given size has in all tiles of a level.
func rowLength(level int, size int64) int64 {
	if level <= 0 {
		return size
	}
	return size >> (tileHeight * level)
}

// tileAt returns the tile that holds hash (or leaf) n of a level, as wide as a tree of the given size has it.
func tileAt(level int, n, size int64) Tile {
	index := n >> tileHeight
	return Tile{level, index, int(min(TileWidth, rowLength(level, size)-index<<tileHeight))}
}

// Tiles yields the tiles that a tree has at one size and did not have, or not as wide, at a smaller one: entry bundles, then
// hash tiles level by level, from the left.
func Tiles(from, to int64) iter.Seq[Tile] {
	return func(yield func(Tile) bool) {
		for level := EntriesLevel; level <= maxTileLevel; level++ {
			row := rowLength(level, to)
			for n := rowLength(level, from); n < row; n = (n>>tileHeight + 1) << tileHeight {
				if !yield(tileAt(level, n, to)) {
					return
				}
			}
		}
	}
}

// EdgeTiles returns the incomplete tiles of a tree of the given size: all that an append reads.
func EdgeTiles(size int64) []Tile {
	var out []Tile
	for level := EntriesLevel; level <= maxTileLevel; level++ {
		if n := rowLength(level, size); n%TileWidth != 0 {
			out = append(out, tileAt(level, n, size))
		}
	}
	return out
}
