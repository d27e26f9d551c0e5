package server

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"strings"
	"sync"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/pack"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// maxRowsPerInsert bounds the rows of one INSERT statement: SQLite searches a list for every placeholder that it parses,
// so that long statements cost the square of their length.
const maxRowsPerInsert = 16

// Store keeps the log, its blobs and all other state of a server in one database, so that what the server did, the
// entries that say so and the deadlines that follow commit together or not at all. The bytes of blobs may lie in a folder
// beside it (blobs.go). Its methods may be called
// concurrently, and several processes may use one PostgreSQL database.
//
// An entry takes three steps, each one transaction, and no step has a recovery: whatever is there after a crash is what
// the step before left whole, and the step is simply done again.
//
//  1. [Store.Tx] with [Tx.Append]: the entry has its place in its stream and in the log. It may be promised.
//  2. [Store.Integrate]: the tree holds it.
//  3. [Log.Publish]: a signed checkpoint covers it.
//
// It holds a chain of logs, of which the newest takes entries; see [Log].
type Store struct {
	db     *sqldb.DB
	holder func() (string, error) // names this start of this process in leases
	had    sync.Map               // roles that it took since it was opened

	origins  sync.Map // of its logs, by number
	codec    codec
	folder   *pack.Folder // that blobs are written to; nil: they are written into the database
	randomMu sync.Mutex
	random   io.Reader // salts of leaves, names of segments

	testingOnlyStep func(string) // told when a step is done after which a process may die

	runs runs

	lateMu sync.Mutex
	late   *pack.Folder // that another process has begun to write to since this store was opened; nil: not seen yet
}

// OpenStore opens a database (see [sqldb.Open]) and brings it to this build's version. random is the source of salts.
func OpenStore(ctx context.Context, url string, random io.Reader) (*Store, error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic("server: internal error: embedded migrations: " + err.Error())
	}
	if err := db.Migrate(ctx, files); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{db: db, random: random, testingOnlyStep: func(string) {}}
	s.holder = sync.OnceValues(s.holderName)
	if s.codec, err = newCodec(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if s.folder, err = s.openFolder(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the database and the blob folder.
func (s *Store) Close() error {
	errs := []error{s.db.Close(), s.codec.close()}
	for _, f := range []*pack.Folder{s.folder, s.late} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *Store) salt() (salt [ledger.SaltSize]byte, err error) {
	s.randomMu.Lock()
	defer s.randomMu.Unlock()
	if _, err = io.ReadFull(s.random, salt[:]); err != nil {
		return salt, fmt.Errorf("draw a salt: %w", err)
	}
	return salt, nil
}

// Tx is one transaction of a store. One goroutine owns it, and it ends with the function that it was given to.
type Tx struct {
	// SQL is for the tables of other state. Blobs and entries of this transaction are written at its end, so a query does
	// not see them yet; those of earlier transactions it does.
	SQL *sql.Tx

	store   *Store
	log     int64 // number of the log that it appends to; 0: it has not asked yet
	blobs   map[canon.Digest]putBlob
	edges   []edge
	tails   map[string]ledger.Tail // of the streams that this transaction holds
	entries []pending
}

// putBlob is a blob that a transaction puts.
type putBlob struct {
	data []byte
	part bool // nothing needs it but what names it as a part
}

type pending struct {
	commitment canon.Digest
	opening    []byte
	entry      ledger.Entry
}

// Tx runs f in one transaction and commits, or rolls back if f returns an error. f may run several times, see
// [sqldb.DB.Tx]; it does so where the log that it appends to was closed meanwhile, and then appends to the next one. Under
// the lease of a context (see [Under]) it commits only if the lease still stands.
func (s *Store) Tx(ctx context.Context, f func(*Tx) error) error { return s.tx(ctx, s.sqlTx, f) }

// tx runs f in a transaction of a kind that the database has.
func (s *Store) tx(ctx context.Context, run func(context.Context, func(*sql.Tx) error) error, f func(*Tx) error) error {
	for {
		err := run(ctx, func(sqlTx *sql.Tx) error {
			tx := &Tx{SQL: sqlTx, store: s}
			tx.reset()
			if err := f(tx); err != nil {
				return err
			}
			return tx.flush(ctx)
		})
		if !errors.Is(err, errLogClosed) {
			return err
		}
	}
}

// reset lets go of all that was collected.
func (tx *Tx) reset() {
	tx.blobs, tx.edges, tx.tails, tx.entries = map[canon.Digest]putBlob{}, nil, map[string]ledger.Tail{}, nil
}

// errLogClosed means that the log to which a transaction appends was closed before it had its places: it runs again.
var errLogClosed = errors.New("the log was closed meanwhile")

// openLog returns the number of the log that this transaction appends to. If that one is closed before the transaction has
// its places, all of it runs again.
func (tx *Tx) openLog(ctx context.Context) (int64, error) {
	if tx.log == 0 {
		if err := tx.SQL.QueryRowContext(ctx, `SELECT log FROM arrival WHERE id = 1`).Scan(&tx.log); err != nil {
			return 0, fmt.Errorf("look up the open log: %w", err)
		}
	}
	return tx.log, nil
}

// takePlaces takes the next n places in the log and returns the place behind them. From here to the commit, transactions of
// all processes queue; whatever has a place before is committed.
func (tx *Tx) takePlaces(ctx context.Context, n int) (end int64, err error) {
	log, err := tx.openLog(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.SQL.QueryRowContext(ctx, `UPDATE arrival SET next = next + $1 WHERE id = 1 AND log = $2 RETURNING next`, n, log).Scan(&end)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errLogClosed
	}
	if err != nil {
		return 0, fmt.Errorf("take places in the log: %w", err)
	}
	return end, nil
}

// Draft is what the caller says of an entry. The rest is the log's to say.
type Draft struct {
	Kind   string
	Stream string
	Time   canon.Time
	Body   canon.Digest // of a blob that is stored, or put in the same transaction
	Refs   []canon.Digest
}

// PutBlob stores bytes under their digest. Bytes that are there already are kept once. The caller must not change data
// before the transaction ends.
func (tx *Tx) PutBlob(data []byte) canon.Digest {
	digest := canon.Sum(data)
	tx.blobs[digest] = putBlob{data: data}
	return digest
}

// PutPart stores bytes that a blob of this transaction needs, and nobody else: they go when the last such blob goes. Bytes
// that were put for their own sake, before or after, stay.
func (tx *Tx) PutPart(whole canon.Digest, data []byte) canon.Digest {
	digest := canon.Sum(data)
	if _, ok := tx.blobs[digest]; !ok {
		tx.blobs[digest] = putBlob{data: data, part: true}
	}
	tx.edges = append(tx.edges, edge{digest, whole})
	return digest
}

// Append gives an entry its place in its stream and salts its leaf. The stream's row is held until the transaction ends,
// so a stream never has a gap and never forks.
func (tx *Tx) Append(ctx context.Context, d Draft) (canon.Digest, ledger.Entry, error) {
	tail, err := tx.hold(ctx, d.Stream)
	if err != nil {
		return canon.Digest{}, ledger.Entry{}, err
	}
	e := ledger.Entry{
		Type: ledger.EntryType, Kind: d.Kind, Stream: d.Stream, Sequence: tail.Next, Previous: tail.Last,
		Time: d.Time, Body: d.Body, Refs: d.Refs,
	}
	data, err := e.Canonical()
	if err != nil {
		return canon.Digest{}, ledger.Entry{}, err
	}
	salt, err := tx.store.salt()
	if err != nil {
		return canon.Digest{}, ledger.Entry{}, err
	}
	opening := ledger.Opening(salt, data)
	commitment := canon.Sum(opening)
	tx.tails[d.Stream] = ledger.Tail{Next: tail.Next + 1, Last: canon.Sum(data)}
	tx.entries = append(tx.entries, pending{commitment, opening, e})
	return commitment, e, nil
}

// hold takes the row of a stream and returns the stream's end, with what this transaction appended.
func (tx *Tx) hold(ctx context.Context, stream string) (ledger.Tail, error) {
	tail, held := tx.tails[stream]
	if held {
		return tail, nil
	}
	log, err := tx.openLog(ctx)
	if err != nil {
		return tail, err
	}
	err = tx.SQL.QueryRowContext(ctx, `INSERT INTO stream(log, name, next, last) VALUES ($1, $2, 0, $3)
		ON CONFLICT (log, name) DO UPDATE SET next = stream.next RETURNING next, last`, log, stream, tail.Last[:]).Scan(&tail.Next, &tail.Last)
	if err != nil {
		return tail, fmt.Errorf("append to stream %s: %w", stream, err)
	}
	tx.tails[stream] = tail
	return tail, nil
}

// holdServer takes the rows of the server's own stream, which are there since the first entry of each log, until the
// transaction ends: of several processes that change what it stands for, one after another does.
func holdServer(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `UPDATE stream SET next = next WHERE name = $1`, ledger.StreamServer); err != nil {
		return fmt.Errorf("hold the server's stream: %w", err)
	}
	return nil
}

// flush writes what the transaction collected, and lets go of it. Rows go in an order that all transactions share, to keep
// deadlocks rare, and the places in the log come last: from there to the commit, transactions of all processes queue.
func (tx *Tx) flush(ctx context.Context) error {
	if err := tx.flushBlobs(ctx); err != nil {
		return fmt.Errorf("store blobs: %w", err)
	}
	if len(tx.entries) > 0 {
		if err := tx.flushEntries(ctx); err != nil {
			return err
		}
	}
	tx.reset()
	return nil
}

func (tx *Tx) flushEntries(ctx context.Context) error {
	for name, tail := range tx.tails {
		if _, err := tx.SQL.ExecContext(ctx, `UPDATE stream SET next = $1, last = $2 WHERE log = $3 AND name = $4`, tail.Next, tail.Last[:], tx.log, name); err != nil {
			return fmt.Errorf("extend stream %s: %w", name, err)
		}
	}
	n := len(tx.entries)
	end, err := tx.takePlaces(ctx, n)
	if err != nil {
		return err
	}
	err = insertRows(ctx, tx.SQL, `INSERT INTO entry(place, commitment, opening, kind, log, stream, sequence, body)`, ``, 8, n, func(i int, args []any) []any {
		p := &tx.entries[i]
		return append(args, end-int64(n-i), p.commitment[:], p.opening, p.entry.Kind, tx.log, p.entry.Stream, p.entry.Sequence, p.entry.Body[:])
	})
	if err != nil {
		return fmt.Errorf("store entries: %w", err)
	}
	return nil
}

// insertRows inserts n rows in few statements. The rows of a statement are a power of two, so that there are few different
// statements and the database has each one prepared.
func insertRows(ctx context.Context, tx *sql.Tx, into, onConflict string, columns, n int, row func(i int, args []any) []any) error {
	for i := 0; i < n; {
		rows := min(maxRowsPerInsert, 1<<(bits.Len(uint(n-i))-1))
		args := make([]any, 0, rows*columns)
		for range rows {
			args = row(i, args)
			i++
		}
		var query strings.Builder
		query.WriteString(into)
		query.WriteString(" VALUES ")
		query.WriteString(sqldb.Values(rows, columns))
		query.WriteString(onConflict)
		if _, err := tx.ExecContext(ctx, query.String(), args...); err != nil {
			return err
		}
	}
	return nil
}
