package server

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/pack"
	"github.com/assay-network/assay/internal/sqldb"
)

// A blob is a row of one table, which says how its bytes are written and where: in the row itself, or in a segment of a
// blob folder (package pack). The row comes and goes with the transactions of everything else; bytes in a folder are on
// the disk before the transaction that names them commits, and go after the one that names them no longer. Without a
// folder, which is how a database begins, there is nothing beside the database.
//
// What is written is compressed, and a bundle is written as its manifest. Whoever asks for a blob gets the bytes that were
// put, checked against their digest.

// Codings: how the bytes of a blob are written. A number never changes its meaning.
const (
	codingPlain    = 0 // as they are
	codingZstd     = 1 // a zstd frame (RFC 8878)
	codingManifest = 2 // a zstd frame of a manifest, see splitBundle
)

const (
	minCompressed = 128                        // bytes below which compressing is not tried
	maxDecoded    = uint64(2 * pack.MaxRecord) // bytes that a frame may decompress to
	folderName    = "NAME"                     // file of a blob folder that holds its name
	movedAtOnce   = 256                        // blobs that one transaction moves, and
	movedBytes    = 16 << 20                   // bytes of them, after which no other is taken
	readTries     = 4                          // places that a blob is looked for when it is moved meanwhile
)

// codec compresses and decompresses. Its methods may be called concurrently.
type codec struct {
	w *zstd.Encoder
	r *zstd.Decoder
}

func newCodec() (codec, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return codec{}, err
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderLowmem(true))
	return codec{w, r}, err
}

func (c codec) close() error {
	c.r.Close()
	return c.w.Close()
}

// storedBlob is a blob as it is written.
type storedBlob struct {
	digest canon.Digest
	coding byte
	data   []byte
	place  pack.Place // zero: data is in the row
	part   bool
}

// edge says that a whole needs a part.
type edge struct{ part, whole canon.Digest }

// encode returns how a blob is written, and the parts that are written beside it. A part has none: whoever sends a bundle
// may have put another one into it.
func (c codec) encode(digest canon.Digest, data []byte, part bool) (b storedBlob, parts map[canon.Digest][]byte) {
	b = storedBlob{digest: digest, data: data, part: part}
	if !part {
		if manifest, parts, ok := splitBundle(data); ok {
			b.coding, b.data = codingManifest, c.w.EncodeAll(manifest, nil)
			return b, parts
		}
	}
	if len(data) >= minCompressed {
		if z := c.w.EncodeAll(data, nil); len(z) < len(data) {
			b.coding, b.data = codingZstd, z
		}
	}
	return b, nil
}

// flushBlobs writes the blobs of a transaction. Rows go in the order of their digests. A row that is there already is
// held until the transaction ends, so that it is not collected or erased while an entry comes to name it.
func (tx *Tx) flushBlobs(ctx context.Context) error {
	if len(tx.blobs) == 0 {
		return nil
	}
	var rows []storedBlob
	edges := slices.Clone(tx.edges)
	more := map[canon.Digest][]byte{}
	for digest, put := range tx.blobs {
		b, parts := tx.store.codec.encode(digest, put.data, put.part)
		rows = append(rows, b)
		for d, data := range parts {
			edges = append(edges, edge{d, digest})
			if _, ok := tx.blobs[d]; !ok {
				more[d] = data
			}
		}
	}
	for digest, data := range more {
		b, _ := tx.store.codec.encode(digest, data, true)
		rows = append(rows, b)
	}
	slices.SortFunc(rows, func(a, b storedBlob) int { return compareDigests(a.digest, b.digest) })
	slices.SortFunc(edges, func(a, b edge) int {
		if c := compareDigests(a.part, b.part); c != 0 {
			return c
		}
		return compareDigests(a.whole, b.whole)
	})
	if tx.store.folder != nil {
		if err := tx.packBlobs(ctx, rows); err != nil {
			return err
		}
	}
	err := insertRows(ctx, tx.SQL, `INSERT INTO blob(digest, coding, data, segment, place, length, part)`,
		` ON CONFLICT (digest) DO UPDATE SET unnamed = 0, part = excluded.part WHERE blob.unnamed <> 0 OR blob.part > excluded.part`,
		7, len(rows), func(i int, args []any) []any {
			b := &rows[i]
			return append(args, b.digest[:], int64(b.coding), b.data, b.place.Segment, b.place.At, b.place.Length, asInt(b.part))
		})
	if err != nil {
		return err
	}
	return insertRows(ctx, tx.SQL, `INSERT INTO blob_part(part, whole)`, ` ON CONFLICT (part, whole) DO NOTHING`, 2, len(edges), func(i int, args []any) []any {
		return append(args, edges[i].part[:], edges[i].whole[:])
	})
}

func compareDigests(a, b canon.Digest) int { return bytes.Compare(a[:], b[:]) }

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// packBlobs brings those of rows that are not there yet to the blob folder, and gives all of them their places. The rows
// that are there keep their own: what is written here of them is nothing.
func (tx *Tx) packBlobs(ctx context.Context, rows []storedBlob) error {
	known := map[canon.Digest]bool{}
	for chunk := range slices.Chunk(rows, maxRowsPerInsert) {
		args := make([]any, len(chunk))
		for i := range chunk {
			args[i] = chunk[i].digest[:]
		}
		found, err := queryDigests(ctx, tx.SQL, `SELECT digest FROM blob WHERE digest IN `+sqldb.Values(1, len(args))+` ORDER BY digest`+tx.store.db.ForUpdate(), args...)
		if err != nil {
			return err
		}
		for _, d := range found {
			known[d] = true
		}
	}
	var items []pack.Item
	var at []int
	for i := range rows {
		b := &rows[i]
		if !known[b.digest] {
			items, at = append(items, pack.Item{Digest: b.digest, Coding: b.coding, Data: b.data}), append(at, i)
		}
		b.data = []byte{}
	}
	places, err := tx.store.folder.Append(items)
	if err != nil {
		return err
	}
	tx.store.testingOnlyStep("packed")
	for n, p := range places {
		rows[at[n]].place = p
	}
	return nil
}

// queryDigests returns the digests that a query selects.
func queryDigests(ctx context.Context, q rowsQuerier, query string, args ...any) ([]canon.Digest, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []canon.Digest
	for rows.Next() {
		var d canon.Digest
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// Blob returns the bytes of a digest: a stored blob, or the opening of a commitment. Without: [fs.ErrNotExist]. Bytes that
// are not those of the digest are an error that says where they lie.
func (s *Store) Blob(ctx context.Context, digest canon.Digest) ([]byte, error) {
	var last pack.Place
	for range readTries {
		b, err := s.readBlob(ctx, digest, last)
		if !errors.Is(err, errMoved) {
			return b.data, err
		}
		last = b.place
	}
	return nil, fmt.Errorf("read blob %s: it is being moved all the time", digest)
}

// errMoved says that a segment went while a blob in it was read: its row says where the blob is now.
var errMoved = errors.New("the blob was moved meanwhile")

// readBlob reads a blob once. It must not lie where a reader before has found no segment.
func (s *Store) readBlob(ctx context.Context, digest canon.Digest, gone pack.Place) (b storedBlob, err error) {
	fail := func(err error) (storedBlob, error) { return b, fmt.Errorf("read blob %s: %w", digest, err) }
	b.digest = digest
	err = s.db.Reader().QueryRowContext(ctx, `SELECT coding, data, segment, place, length FROM blob WHERE digest = $1`, digest[:]).
		Scan(&b.coding, &b.data, &b.place.Segment, &b.place.At, &b.place.Length)
	if errors.Is(err, sql.ErrNoRows) {
		var r Record
		if r, err = s.Entry(ctx, digest); errors.Is(err, fs.ErrNotExist) {
			return b, s.absent(ctx, digest)
		}
		b.data = r.Opening
	}
	if err != nil {
		return fail(err)
	}
	if b.place != (pack.Place{}) {
		folder, err := s.blobFolder(ctx)
		if err != nil {
			return fail(err)
		}
		i, err := folder.Read(b.place, digest)
		switch {
		case errors.Is(err, fs.ErrNotExist) && b.place == gone:
			return fail(fmt.Errorf("damaged: %v", err)) // which is not the kind of absence that callers may take for none
		case errors.Is(err, fs.ErrNotExist):
			return b, errMoved
		case err != nil:
			return fail(err)
		}
		b.coding, b.data = i.Coding, i.Data
	}
	if b.data, err = s.decode(ctx, b); err != nil {
		return fail(err)
	}
	if got := canon.Sum(b.data); got != digest {
		return fail(fmt.Errorf("damaged: what is stored has the digest %s", got))
	}
	return b, nil
}

// absent says why there is no blob.
func (s *Store) absent(ctx context.Context, digest canon.Digest) error {
	e := &ErasedError{Digest: digest}
	var place int64
	err := s.db.Reader().QueryRowContext(ctx, `SELECT place FROM erased WHERE digest = $1`, digest[:]).Scan(&place)
	switch {
	case err == nil:
		l, index, err := s.At(ctx, place)
		if err != nil {
			return err
		}
		e.Log, e.Entry = l.Origin, index
		return e
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("blob %s: %w", digest, fs.ErrNotExist)
	}
	return fmt.Errorf("read blob %s: %w", digest, err)
}

// decode returns the bytes that a stored blob is of.
func (s *Store) decode(ctx context.Context, b storedBlob) ([]byte, error) {
	if b.coding == codingPlain {
		return b.data, nil
	}
	plain, err := s.codec.r.DecodeAll(b.data, nil)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	switch b.coding {
	case codingZstd:
		return plain, nil
	case codingManifest:
		return joinBundle(plain, func(d canon.Digest) ([]byte, error) {
			data, err := s.Blob(ctx, d)
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("damaged: %v", err)
			}
			return data, err
		})
	}
	return nil, fmt.Errorf("coding %d is not known to this build", b.coding)
}

// openFolder opens the blob folder that the database names, if it names one.
func (s *Store) openFolder(ctx context.Context) (*pack.Folder, error) {
	var path, name string
	err := s.db.Reader().QueryRowContext(ctx, `SELECT path, name FROM blob_folder`).Scan(&path, &name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the blob folder: %w", err)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.db.Dir(), path)
	}
	have, err := files.Bounded(filepath.Join(path, folderName), maxFolderName)
	if err != nil {
		return nil, fmt.Errorf("blob folder %s, which this database names: %w", path, err)
	}
	if got := strings.TrimSpace(string(have)); got != name {
		return nil, fmt.Errorf("blob folder %s is called %.80q, this database's is called %q", path, got, name)
	}
	return pack.Open(path, lockedReader{s}, s.adopt)
}

const maxFolderName = 256 // bytes of the file NAME

// blobFolder returns the folder that a blob lies in. A process that began before there was one opens it here.
func (s *Store) blobFolder(ctx context.Context) (*pack.Folder, error) {
	s.lateMu.Lock()
	defer s.lateMu.Unlock()
	if s.folder != nil {
		return s.folder, nil
	}
	if s.late == nil {
		folder, err := s.openFolder(ctx)
		if err != nil {
			return nil, err
		}
		if folder == nil {
			return nil, errors.New("damaged database: a blob lies in a folder, and none is named")
		}
		s.late = folder
	}
	return s.late, nil
}

// lockedReader is the store's source of randomness for others.
type lockedReader struct{ s *Store }

func (r lockedReader) Read(b []byte) (int, error) {
	r.s.randomMu.Lock()
	defer r.s.randomMu.Unlock()
	return r.s.random.Read(b)
}

// adopt says how far the database names a segment that another writer left. One that is to be rewritten is let lie.
func (s *Store) adopt(segment int64) (end int64, ok bool, err error) {
	var wipes int
	err = s.db.Reader().QueryRow(`SELECT COALESCE(MAX(place + length), 0), (SELECT COUNT(*) FROM blob_wipe WHERE segment = $1) FROM blob WHERE segment = $1`, segment).Scan(&end, &wipes)
	if err != nil {
		return 0, false, fmt.Errorf("look up segment %016x: %w", segment, err)
	}
	if end > 0 {
		end += pack.RecordOverhead
	}
	return end, wipes == 0, nil
}

// MoveBlobs makes dir the database's blob folder, which is made if need be, and moves every blob that lies in the database
// into it. A process that runs meanwhile reads from there at once, and writes there from its next start. Who dies on the
// way does it again: what was moved is moved. Every process that uses the database must see dir under this path; that of
// a SQLite database is kept relative to its own folder, where it can be.
func (s *Store) MoveBlobs(ctx context.Context, dir string, progress func(moved int64)) error {
	fail := func(err error) error { return fmt.Errorf("move blobs: %w", err) }
	if s.folder == nil {
		folder, err := s.openFolder(ctx) // another process may have named one since this store was opened
		if err == nil && folder == nil {
			if err = s.nameFolder(ctx, dir); err == nil {
				folder, err = s.openFolder(ctx)
			}
		}
		if err != nil {
			return fail(err)
		}
		s.folder = folder
	}
	if same, err := sameFolder(dir, s.folder.Dir()); err != nil || !same {
		return fail(errors.Join(err, fmt.Errorf("they lie in %s already", s.folder.Dir())))
	}
	moved, after := int64(0), []byte{}
	for {
		var n int
		var err error
		if n, after, err = s.moveSome(ctx, after); err != nil {
			return fail(err)
		}
		if n == 0 {
			return nil
		}
		moved += int64(n)
		progress(moved)
	}
}

func sameFolder(a, b string) (bool, error) {
	ai, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	bi, err := os.Stat(b)
	return err == nil && os.SameFile(ai, bi), err
}

// nameFolder makes a folder with a name of its own and writes both into the database.
func (s *Store) nameFolder(ctx context.Context, dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := files.Folder(path); err != nil {
		return err
	}
	var b [16]byte
	if _, err := io.ReadFull(lockedReader{s}, b[:]); err != nil {
		return err
	}
	name := hex.EncodeToString(b[:])
	err = files.Create(filepath.Join(path, folderName), []byte(name+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is a blob folder already: of another database, or left by a move that was ended; then remove it", path)
	}
	if err != nil {
		return err
	}
	kept := path
	if own := s.db.Dir(); own != "" {
		if rel, err := filepath.Rel(own, path); err == nil && filepath.IsLocal(rel) {
			kept = rel
		}
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO blob_folder(id, path, name) VALUES (1, $1, $2)`, kept, name)
		return err
	})
	if errors.Is(err, sqldb.ErrExists) {
		err = errors.Join(errors.New("another process has named a blob folder meanwhile"), os.Remove(filepath.Join(path, folderName)))
	}
	return err
}

// moveSome moves the blobs that come after a digest and returns the last one's.
func (s *Store) moveSome(ctx context.Context, after []byte) (n int, last []byte, err error) {
	last = after
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n = 0
		rows, err := tx.QueryContext(ctx, `SELECT digest, coding, data FROM blob WHERE segment = 0 AND digest > $1 ORDER BY digest LIMIT $2`+s.db.ForUpdate(), after, movedAtOnce)
		if err != nil {
			return err
		}
		defer rows.Close()
		var items []pack.Item
		for size := 0; size < movedBytes && rows.Next(); size += len(items[len(items)-1].Data) {
			var i pack.Item
			if err := rows.Scan(&i.Digest, &i.Coding, &i.Data); err != nil {
				return err
			}
			items = append(items, i)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(items) == 0 {
			return err
		}
		for i := range items {
			if items[i].Coding == codingPlain { // of a build that wrote nothing else
				b, _ := s.codec.encode(items[i].Digest, items[i].Data, false)
				if b.coding == codingZstd {
					items[i].Coding, items[i].Data = b.coding, b.data
				}
			}
		}
		if err := s.repoint(ctx, tx, items, 0); err != nil {
			return err
		}
		n, last = len(items), bytes.Clone(items[len(items)-1].Digest[:])
		return nil
	})
	return n, last, err
}

// repoint appends items to the folder and lets their rows point there, if they still point to the segment from.
func (s *Store) repoint(ctx context.Context, tx *sql.Tx, items []pack.Item, from int64) error {
	places, err := s.folder.Append(items)
	if err != nil {
		return err
	}
	for i, p := range places {
		_, err := tx.ExecContext(ctx, `UPDATE blob SET coding = $1, data = $2, segment = $3, place = $4, length = $5 WHERE digest = $6 AND segment = $7`,
			int64(items[i].Coding), []byte{}, p.Segment, p.At, p.Length, items[i].Digest[:], from)
		if err != nil {
			return err
		}
	}
	return nil
}
