package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Source returns the log that is the newest one when it is asked first, and stays with that. See [Log.Source].
func (s *Store) Source() ledger.Source { return &source{store: s} }

// Source returns the log with all blobs and openings: who may have which is for the one who hands them out to decide.
func (l Log) Source() ledger.Source { return &source{store: l.store, log: &l} }

type source struct {
	store *Store
	mu    sync.Mutex
	log   *Log // nil: it was not asked yet
}

var (
	_ ledger.Keeper     = (*source)(nil)
	_ ledger.Continuing = (*source)(nil)
)

func (src *source) of(ctx context.Context) (Log, error) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.log == nil {
		l, err := src.store.Newest(ctx)
		if err != nil {
			return Log{}, err
		}
		src.log = &l
	}
	return *src.log, nil
}

func (src *source) Checkpoint(ctx context.Context) ([]byte, error) {
	l, err := src.of(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.Published(ctx)
	return p.Note, err
}

// Around returns kept checkpoints; see [ledger.Keeper].
func (src *source) Around(ctx context.Context, index int64) (before, after []byte, err error) {
	l, err := src.of(ctx)
	if err != nil {
		return nil, nil, err
	}
	one := func(query string) ([]byte, error) {
		var text string
		err := src.store.db.Reader().QueryRowContext(ctx, query, l.Number, index).Scan(&text)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the checkpoints around entry %d: %w", index, err)
		}
		return []byte(text), nil
	}
	if before, err = one(`SELECT note FROM checkpoint WHERE log = $1 AND size <= $2 ORDER BY size DESC LIMIT 1`); err == nil {
		after, err = one(`SELECT note FROM checkpoint WHERE log = $1 AND size > $2 ORDER BY size LIMIT 1`)
	}
	return before, after, err
}

// Keysets returns the document of the keysets of the logs before; see [ledger.Continuing].
func (src *source) Keysets(ctx context.Context) ([]byte, error) {
	l, err := src.of(ctx)
	if err != nil {
		return nil, err
	}
	history, err := src.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	data, err := ledger.KeysetsBefore(history, l.Origin)
	if err == nil && data == nil {
		err = fmt.Errorf("keysets before %s: %w", l.Origin, fs.ErrNotExist)
	}
	return data, err
}

func (src *source) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	l, err := src.of(ctx)
	if err != nil {
		return nil, err
	}
	return readTile(ctx, src.store.db.Reader(), l.Number, t)
}

func readTile(ctx context.Context, q querier, log int64, t ledger.Tile) ([]byte, error) {
	var data []byte
	err := q.QueryRowContext(ctx, `SELECT data FROM tile WHERE log = $1 AND level = $2 AND place = $3`, log, t.Level, t.Index).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (!t.Valid() || len(data) < t.Bytes()) {
		return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Path(), err)
	}
	return data[:t.Bytes():t.Bytes()], nil
}

func (src *source) Blob(ctx context.Context, digest canon.Digest) ([]byte, error) {
	return src.store.Blob(ctx, digest)
}

// Record is an entry of a log with its place.
type Record struct {
	Log        int64 // number of it
	Place      int64 // over all logs
	Index      int64 // of the leaf
	Commitment canon.Digest
	Opening    []byte // its SHA-256 is the commitment
	ledger.Entry
}

// Entry returns the entry of a commitment. Without: [fs.ErrNotExist].
func (s *Store) Entry(ctx context.Context, commitment canon.Digest) (Record, error) {
	found, err := s.recordsOf(ctx, s.db.Reader(), byCommitment, commitment, 1)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("entry %s: %w", commitment, fs.ErrNotExist)
	}
	if err != nil {
		return Record{}, err
	}
	return found[0], nil
}

// EntriesOf returns the entries that have a body, the oldest first.
func (s *Store) EntriesOf(ctx context.Context, body canon.Digest, limit int) ([]Record, error) {
	return s.recordsOf(ctx, s.db.Reader(), byBody, body, limit)
}

// Entries returns the entries of all logs from a place on, the waiting ones included.
func (s *Store) Entries(ctx context.Context, from int64, limit int) ([]Record, error) {
	return records(ctx, s.db.Reader(), `place >= $1`, limit, from)
}

// Entries returns the entries from an index on, in the order of the log, the waiting ones included.
func (l Log) Entries(ctx context.Context, from int64, limit int) ([]Record, error) {
	return records(ctx, l.store.db.Reader(), `place >= $1 AND place < $2`, limit, l.first+from, l.end)
}

// rowsQuerier is a transaction or the readers' pool.
type rowsQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// records returns the first entries of those that a condition selects.
func records(ctx context.Context, q rowsQuerier, where string, limit int, args ...any) ([]Record, error) {
	// A cross join, which SQLite does from left to right: the condition finds the entries, and each has its log.
	query := `SELECT place, opening, number, place - first FROM entry CROSS JOIN log WHERE number = entry.log AND (` + where + `) ORDER BY place LIMIT $` + strconv.Itoa(len(args)+1)
	rows, err := q.QueryContext(ctx, query, append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	defer rows.Close()
	var out []Record
	for rows.Next() {
		var r Record
		if err := rows.Scan(&r.Place, &r.Opening, &r.Log, &r.Index); err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		r.Commitment = canon.Sum(r.Opening)
		if _, r.Entry, err = ledger.ParseOpening(r.Opening); err != nil {
			return nil, fmt.Errorf("damaged database: entry at place %d: %w", r.Place, err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Prove returns the proof that the leaf at an index is in the newest checkpoint, and that checkpoint: the two are made for
// each other. An entry that no checkpoint covers yet: [fs.ErrNotExist].
func (l Log) Prove(ctx context.Context, index int64) (ledger.Inclusion, Published, error) {
	p, err := l.Published(ctx)
	if err != nil {
		return ledger.Inclusion{}, Published{}, err
	}
	if index >= p.Size {
		return ledger.Inclusion{}, Published{}, fmt.Errorf("entry %d in the checkpoint of size %d: %w", index, p.Size, fs.ErrNotExist)
	}
	proof, err := ledger.ProveInclusion(ctx, l.Source(), index, p.Size)
	return proof, p, err
}
