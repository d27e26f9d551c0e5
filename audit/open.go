package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/tar"
	"github.com/assay-network/assay/ledger"
)

// Names of the parts of an export; tiles are named by their [ledger.Tile.Path].
const (
	partCheckpoint = "checkpoint"
	partKeysets    = "keysets-before" // only where the log continues another: the keysets of the logs before
	partScope      = "scope"          // only where the export is of a part of the log
	blobPrefix     = "blob/"
)

// Archive is an open export: a [ledger.Source] that reads tiles and blobs when asked. It keeps where every eighth blob
// stands, 6 bytes a blob, and finds the others from there. Its methods may be called concurrently if the reader's ReadAt
// may.
type Archive struct {
	r      io.ReaderAt
	size   int64
	note   []byte
	before []byte // keysets of the logs before; nil: the log continues none
	scope  []byte // nil: the export is whole
	tiles  map[place]span
	blobs  int      // how many there are
	marked []marked // every blobsPerMark-th blob, ordered by digest

	kept      map[int64]span // checkpoints of before, by size
	keptSizes []int64        // ascending
}

const blobsPerMark = 8

type place struct {
	level int
	index int64
}

type span struct {
	at   int64
	size int
}

// marked is where the header of a blob stands.
type marked struct {
	digest canon.Digest
	at     int64
}

// Open reads the structure of an export of the given size in bytes. It refuses, with a [*Fault] that names the part, every
// file that [Export] would not have written for some log; whether the contents are true, [Replay] finds.
func Open(r io.ReaderAt, size int64) (*Archive, error) {
	a := &Archive{r: r, size: size, tiles: map[place]span{}, kept: map[int64]span{}}
	t := &exportReader{tar: tar.NewReader(r, size)}
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
	if err := a.readOptional(t, c.Size); err != nil {
		return nil, err
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
	var last canon.Digest
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
		if a.blobs > 0 && slices.Compare(last[:], digest[:]) >= 0 {
			return nil, &Fault{Part: p.Name, Index: NoIndex, What: "blobs are not ordered by digest, each once"}
		}
		if a.blobs%blobsPerMark == 0 {
			a.marked = append(a.marked, marked{digest, p.Header})
		}
		last, a.blobs = digest, a.blobs+1
	}
}

// readOptional reads what stands between the checkpoint and the tiles.
func (a *Archive) readOptional(t *exportReader, end int64) error {
	for _, part := range []struct {
		name string
		into *[]byte
	}{{partKeysets, &a.before}, {partScope, &a.scope}} {
		p, ok, err := t.next()
		if err != nil || !ok || p.Name != part.name {
			t.again = &answer{p, ok, err}
			continue
		}
		if *part.into, err = t.tar.Content(p); err != nil {
			return asFault(err)
		}
	}
	return a.readKept(t, end)
}

// readKept reads the checkpoints of before, whatever their number.
func (a *Archive) readKept(t *exportReader, end int64) error {
	for {
		p, ok, err := t.next()
		if err != nil || !ok || !strings.HasPrefix(p.Name, ledger.KeptPrefix) {
			t.again = &answer{p, ok, err}
			return nil
		}
		size, good := ledger.ParseKeptName(p.Name)
		fault := func(what string) error { return &Fault{Part: p.Name, Index: NoIndex, What: what} }
		switch n := len(a.keptSizes); {
		case !good || size > end:
			return fault("want " + ledger.KeptPrefix + "SIZE, of a size that the log had")
		case n > 0 && a.keptSizes[n-1] >= size:
			return fault("kept checkpoints are not ordered by size, each once")
		case p.Size > ledger.MaxCheckpoint:
			return fault(fmt.Sprintf("%d bytes, at most %d", p.Size, ledger.MaxCheckpoint))
		}
		data, err := t.tar.Content(p)
		if err != nil {
			return asFault(err)
		}
		switch c, err := ledger.ReadCheckpoint(data); {
		case err != nil:
			return fault(err.Error())
		case c.Size != size:
			return fault(fmt.Sprintf("a checkpoint of size %d", c.Size))
		case !ledger.HasCosignature(data):
			return fault("it bears no cosignature, and so no time")
		}
		a.kept[size], a.keptSizes = span{p.At, p.Size}, append(a.keptSizes, size)
	}
}

// exportReader goes through an export part by part; what is wrong with the file is a [*Fault].
type exportReader struct {
	tar   *tar.Reader
	again *answer // of next, that was read and not used
}

type answer struct {
	part tar.Part
	ok   bool
	err  error
}

// next returns the next part without its content, or false at the end of the file.
func (t *exportReader) next() (tar.Part, bool, error) {
	if a := t.again; a != nil {
		t.again = nil
		return a.part, a.ok, a.err
	}
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

// Keysets returns the document of the keysets of the logs before; see [ledger.Continuing].
func (a *Archive) Keysets(context.Context) ([]byte, error) {
	if a.before == nil {
		return nil, fmt.Errorf("%s: %w", partKeysets, fs.ErrNotExist)
	}
	return slices.Clone(a.before), nil
}

// Scope returns the scope of an export of a part of a log.
func (a *Archive) Scope(context.Context) ([]byte, error) {
	if a.scope == nil {
		return nil, fmt.Errorf("%s: %w", partScope, fs.ErrNotExist)
	}
	return slices.Clone(a.scope), nil
}

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
	data, _, err := a.blob(digest)
	return data, err
}

// blob is [Archive.Blob], and says which blob of the file it is.
func (a *Archive) blob(digest canon.Digest) (data []byte, number int, err error) {
	none := fmt.Errorf("%s: %w", blobName(digest), fs.ErrNotExist)
	i, ok := slices.BinarySearchFunc(a.marked, digest, func(m marked, d canon.Digest) int { return slices.Compare(m.digest[:], d[:]) })
	if !ok {
		i-- // from the one before it
	}
	if i < 0 {
		return nil, 0, none
	}
	number = i * blobsPerMark
	name := blobName(digest)
	for t := (&exportReader{tar: tar.NewReaderAt(a.r, a.size, a.marked[i].at)}); number < min(a.blobs, (i+1)*blobsPerMark); number++ {
		p, ok, err := t.next()
		switch {
		case err != nil:
			return nil, 0, err
		case !ok || p.Name > name:
			return nil, 0, none
		case p.Name == name:
			data, err := a.content(name, span{p.At, p.Size})
			return data, number, err
		}
	}
	return nil, 0, none
}

func (a *Archive) content(name string, s span) ([]byte, error) {
	b := make([]byte, s.size)
	if n, err := a.r.ReadAt(b, s.at); n < len(b) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// blobNames yields the names of all blobs in the file, in order.
func (a *Archive) blobNames() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if a.blobs == 0 {
			return
		}
		t := &exportReader{tar: tar.NewReaderAt(a.r, a.size, a.marked[0].at)}
		for range a.blobs {
			p, ok, err := t.next()
			if err == nil && !ok {
				err = errors.New("export: the file ends sooner than a moment ago")
			}
			if !yield(p.Name, err) || err != nil {
				return
			}
		}
	}
}

// noted is an archive that notes which of its blobs were read.
type noted struct {
	*Archive
	read []atomic.Uint64 // one bit a blob
}

func newNoted(a *Archive) *noted { return &noted{a, make([]atomic.Uint64, (a.blobs+63)/64)} }

func (n *noted) Blob(_ context.Context, digest canon.Digest) ([]byte, error) {
	data, number, err := n.blob(digest)
	if err == nil {
		n.read[number/64].Or(1 << (number % 64))
	}
	return data, err
}

func (n *noted) wasRead(number int) bool { return n.read[number/64].Load()&(1<<(number%64)) != 0 }

// Directory returns the source over an unpacked export, which is the same layout as a C2SP tlog-tiles mirror with its
// blobs beside it. Files that no entry names are not looked at.
func Directory(fsys fs.FS) ledger.Source { return directory{fsys} }

type directory struct{ fsys fs.FS }

func (d directory) Checkpoint(context.Context) ([]byte, error) {
	return d.read(partCheckpoint, ledger.MaxCheckpoint)
}

func (d directory) Keysets(context.Context) ([]byte, error) {
	return d.read(partKeysets, ledger.MaxKeysetsDocument)
}

func (d directory) Scope(context.Context) ([]byte, error) { return d.read(partScope, MaxBlob) }

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
