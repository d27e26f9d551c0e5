package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/tar"
	"github.com/assay-network/assay/ledger"
)

// Names of the parts of an export; tiles are named by their [ledger.Tile.Path].
const (
	partCheckpoint = "checkpoint"
	blobPrefix     = "blob/"
)

// Archive is an open export: a [ledger.Source] that reads tiles and blobs when asked. It keeps an index in memory, 48
// bytes a blob. Its methods may be called concurrently if the reader's ReadAt may.
type Archive struct {
	r     io.ReaderAt
	note  []byte
	tiles map[place]span
	blobs []namedSpan // ordered by digest
}

type place struct {
	level int
	index int64
}

type span struct {
	at   int64
	size int
}

type namedSpan struct {
	digest canon.Digest
	span
}

// Open reads the structure of an export of the given size in bytes. It refuses, with a [*Fault] that names the part, every
// file that [Export] would not have written for some log; whether the contents are true, [Replay] finds.
func Open(r io.ReaderAt, size int64) (*Archive, error) {
	a := &Archive{r: r, tiles: map[place]span{}}
	t := &exportReader{tar.NewReader(r, size)}
	first, err := t.want(partCheckpoint)
	if err != nil {
		return nil, err
	}
	if first.Size > ledger.MaxCheckpoint {
		return nil, &Fault{Part: partCheckpoint, Index: NoIndex, What: fmt.Sprintf("%d bytes, at most %d", first.Size, ledger.MaxCheckpoint)}
	}
	if a.note, err = t.tar.Content(first); err != nil {
		return nil, asFault(err)
	}
	c, err := ledger.ReadCheckpoint(a.note)
	if err != nil {
		return nil, &Fault{Part: partCheckpoint, Index: NoIndex, What: err.Error()}
	}
	for tile := range ledger.Tiles(0, c.Size) {
		p, err := t.want(tile.Path())
		var f *Fault
		if errors.As(err, &f) {
			f.What += fmt.Sprintf(" (by the checkpoint, the log has size %d)", c.Size)
		}
		if err != nil {
			return nil, err
		}
		if p.Size != tile.Bytes() {
			return nil, &Fault{Part: p.Name, Index: NoIndex, What: fmt.Sprintf("%d bytes, want %d", p.Size, tile.Bytes())}
		}
		a.tiles[place{tile.Level, tile.Index}] = span{p.At, p.Size}
	}
	for {
		p, ok, err := t.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return a, nil
		}
		digest, err := parseBlobName(p.Name)
		if err != nil {
			return nil, &Fault{Part: p.Name, Index: NoIndex, What: err.Error()}
		}
		if n := len(a.blobs); n > 0 && slices.Compare(a.blobs[n-1].digest[:], digest[:]) >= 0 {
			return nil, &Fault{Part: p.Name, Index: NoIndex, What: "blobs are not ordered by digest, each once"}
		}
		a.blobs = append(a.blobs, namedSpan{digest, span{p.At, p.Size}})
	}
}

// exportReader goes through an export part by part; what is wrong with the file is a [*Fault].
type exportReader struct{ tar *tar.Reader }

// next returns the next part without its content, or false at the end of the file.
func (t *exportReader) next() (tar.Part, bool, error) {
	p, ok, err := t.tar.Next()
	return p, ok, asFault(err)
}

func asFault(err error) error {
	var f *tar.Fault
	if errors.As(err, &f) {
		return &Fault{Part: f.Where, Index: NoIndex, What: f.What}
	}
	return err
}

// want returns the next part, which must have the given name.
func (t *exportReader) want(name string) (tar.Part, error) {
	at := t.tar.Offset()
	p, ok, err := t.next()
	if err != nil {
		var f *Fault
		if errors.As(err, &f) && f.Part != name {
			return p, &Fault{Part: name, Index: NoIndex, What: f.Part + ": " + f.What}
		}
		return p, err
	}
	switch {
	case !ok:
		return p, &Fault{Part: name, Index: NoIndex, What: fmt.Sprintf("missing: the file ends at byte %d", at)}
	case p.Name != name:
		return p, &Fault{Part: name, Index: NoIndex, What: fmt.Sprintf("missing: %.100q stands in its place", p.Name)}
	}
	return p, nil
}

func parseBlobName(name string) (canon.Digest, error) {
	hex, ok := strings.CutPrefix(name, blobPrefix)
	if !ok {
		return canon.Digest{}, fmt.Errorf("want %sDIGEST", blobPrefix)
	}
	return canon.ParseDigest(hex)
}

func blobName(d canon.Digest) string { return blobPrefix + d.String() }

// Checkpoint returns the signed checkpoint.
func (a *Archive) Checkpoint(context.Context) ([]byte, error) { return slices.Clone(a.note), nil }

// Tile returns a tile, also in its narrower forms.
func (a *Archive) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	s, ok := a.tiles[place{t.Level, t.Index}]
	if !t.Valid() || !ok || s.size < t.Bytes() {
		return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
	}
	return a.content(t.Path(), span{s.at, t.Bytes()})
}

// Blob returns the bytes that the file has under a digest. Whether they are those, the caller checks.
func (a *Archive) Blob(_ context.Context, digest canon.Digest) ([]byte, error) {
	i, ok := slices.BinarySearchFunc(a.blobs, digest, func(b namedSpan, d canon.Digest) int { return slices.Compare(b.digest[:], d[:]) })
	if !ok {
		return nil, fmt.Errorf("%s: %w", blobName(digest), fs.ErrNotExist)
	}
	return a.content(blobName(digest), a.blobs[i].span)
}

func (a *Archive) content(name string, s span) ([]byte, error) {
	b := make([]byte, s.size)
	if n, err := a.r.ReadAt(b, s.at); n < len(b) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// Blobs returns the digests of all blobs in the file, in order.
func (a *Archive) Blobs() []canon.Digest {
	out := make([]canon.Digest, len(a.blobs))
	for i, b := range a.blobs {
		out[i] = b.digest
	}
	return out
}

// Directory returns the source over an unpacked export, which is the same layout as a C2SP tlog-tiles mirror with its
// blobs beside it. Files that no entry names are not looked at.
func Directory(fsys fs.FS) ledger.Source { return directory{fsys} }

type directory struct{ fsys fs.FS }

func (d directory) Checkpoint(context.Context) ([]byte, error) {
	return d.read(partCheckpoint, ledger.MaxCheckpoint)
}

// Tile reads a tile. A mirror may hold a wider form of it instead.
func (d directory) Tile(_ context.Context, t ledger.Tile) ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
	}
	for wider := t; wider.Width <= ledger.TileWidth; wider.Width++ {
		data, err := d.read(wider.Path(), int64(wider.Bytes()))
		switch {
		case isNotExist(err):
			continue
		case err != nil:
			return nil, err
		case len(data) != wider.Bytes():
			return nil, fmt.Errorf("%s: %d bytes, want %d: %w", wider.Path(), len(data), wider.Bytes(), fs.ErrNotExist)
		}
		return data[:t.Bytes()], nil
	}
	return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
}

func (d directory) Blob(_ context.Context, digest canon.Digest) ([]byte, error) {
	return d.read(blobName(digest), MaxBlob)
}

// read reads one file, and one byte past the limit to tell that there is more.
func (d directory) read(name string, limit int64) ([]byte, error) {
	f, err := d.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
