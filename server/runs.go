package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
)

// Entries are found by their digests, which are random, in indexes that begin with the run of the entry: its place divided
// by runEntries. So an entry is added to the pages of the newest run, which are in memory, however long the log is. A look-up
// must know the run, therefore. For every complete run there is a filter, which says of most digests that the run does not
// have them; a look-up goes to the runs whose filters cannot say so, and to those that have no filter yet. A filter that is
// missing costs time and hides nothing.

const (
	runEntries  = 1 << 16 // stands in the indexes of migration 0009
	runsAtOnce  = 256     // that one query looks at
	maxFilters  = 4096    // that a process keeps, 1 GiB; runs behind them are always looked at
	filterLine  = 64      // bytes that one digest has its bits in
	filterLines = 1 << 12 // of a filter: with both digests of each entry, 32 digests a line
	filterBytes = filterLine * filterLines
)

// runFilter is a Bloom filter in lines of 64 bytes. A digest is its own hash: the first 12 bits choose the line, and the
// low 6 bits of each of the eight bytes from the third on a bit in each eighth of it. Of 1100 digests that a run does not
// have, the filter takes one for its own.
type runFilter []byte

func filterBits(d canon.Digest) (line int, bits [8]byte) {
	return (int(d[0])<<8 | int(d[1])) >> 4 * filterLine, [8]byte(d[2:10])
}

func (f runFilter) add(d canon.Digest) {
	line, bits := filterBits(d)
	for i, b := range bits {
		f[line+i*8+int(b>>3&7)] |= 1 << (b & 7)
	}
}

// mayHave reports whether a digest may be one of the run. False is certain.
func (f runFilter) mayHave(d canon.Digest) bool {
	line, bits := filterBits(d)
	for i, b := range bits {
		if f[line+i*8+int(b>>3&7)]&(1<<(b&7)) == 0 {
			return false
		}
	}
	return true
}

// runs is what a store knows of the runs of its log. It only grows, as the log does.
type runs struct {
	mu      sync.Mutex
	known   int         // runs that were seen, the newest incomplete
	filters []runFilter // of the first runs
}

// state returns the number of runs that the log is known to have, and the filters of the first of them.
func (r *runs) state() (known int, filters []runFilter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known, r.filters
}

// digestColumn is a column of the table entry that has an index by run and digest.
type digestColumn string

const (
	byCommitment digestColumn = "commitment"
	byBody       digestColumn = "body"
)

// reader is a transaction or the readers' pool.
type reader interface {
	querier
	rowsQuerier
}

// recordsOf returns the first entries of the log, up to a limit, that have a digest. It is the one way to find an entry by a
// digest. Entries that were there when it began are found, whoever appended them.
func (s *Store) recordsOf(ctx context.Context, q reader, column digestColumn, digest canon.Digest, limit int) (out []Record, err error) {
	for from := 0; ; {
		end, filters, err := s.filters(ctx, q)
		if err != nil {
			return nil, err
		}
		var in []any
		for run := from; run < end; run++ {
			if run >= len(filters) || filters[run].mayHave(digest) {
				in = append(in, int64(run))
			}
		}
		for chunk := range slices.Chunk(in, runsAtOnce) {
			found, err := recordsInRuns(ctx, q, column, digest, chunk, limit-len(out))
			if err != nil {
				return nil, err
			}
			if out = append(out, found...); len(out) == limit {
				return out, nil
			}
		}
		grown, err := s.seeRuns(ctx, q)
		if err != nil || grown == end {
			return out, err
		}
		from = end
	}
}

// recordsInRuns returns the entries with a digest in some runs.
func recordsInRuns(ctx context.Context, q rowsQuerier, column digestColumn, digest canon.Digest, in []any, limit int) ([]Record, error) {
	return records(ctx, q, column.inRuns(len(in)), limit, append(slices.Clone(in), digest[:8], digest[:])...)
}

// inRuns returns the condition for entries of n runs; its words are those of the indexes. Its arguments are the runs, the
// first 8 bytes of the digest, and the digest.
func (c digestColumn) inRuns(n int) string {
	return fmt.Sprintf(`place / %d IN %s AND substr(%s, 1, 8) = $%d AND %s = $%d`, runEntries, sqldb.Values(1, n), c, n+1, c, n+2)
}

// seeRuns looks how many runs the log has.
func (s *Store) seeRuns(ctx context.Context, q querier) (int, error) {
	var newest int64
	if err := q.QueryRowContext(ctx, `SELECT COALESCE(MAX(place), -1) FROM entry`).Scan(&newest); err != nil {
		return 0, fmt.Errorf("look for the newest entry: %w", err)
	}
	s.runs.mu.Lock()
	defer s.runs.mu.Unlock()
	s.runs.known = max(s.runs.known, int((newest+runEntries)/runEntries))
	return s.runs.known, nil
}

// filters returns the number of runs that the log is known to have, and the filters of the first of them, as many as there
// are.
func (s *Store) filters(ctx context.Context, q rowsQuerier) (known int, filters []runFilter, err error) {
	known, filters = s.runs.state()
	if len(filters) >= min(known-1, maxFilters) {
		return known, filters, nil
	}
	more, err := readFilters(ctx, q, len(filters))
	if err != nil {
		return 0, nil, fmt.Errorf("read filters of runs: %w", err)
	}
	s.runs.mu.Lock()
	defer s.runs.mu.Unlock()
	if len(s.runs.filters) == len(filters) { // else another look-up was faster
		s.runs.filters = append(s.runs.filters, more...)
	}
	return known, s.runs.filters, nil
}

// readFilters returns the filters of the runs from one on, up to the first that has none.
func readFilters(ctx context.Context, q rowsQuerier, from int) (out []runFilter, err error) {
	rows, err := q.QueryContext(ctx, `SELECT run, data FROM run_filter WHERE run >= $1 AND run < $2 ORDER BY run`, from, maxFilters)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var run int64
		var data []byte
		if err := rows.Scan(&run, &data); err != nil {
			return nil, err
		}
		if len(data) != filterBytes {
			return nil, fmt.Errorf("damaged database: the filter of run %d has %d bytes, want %d", run, len(data), filterBytes)
		}
		if run != int64(from+len(out)) {
			break
		}
		out = append(out, data)
	}
	return out, rows.Err()
}

// FilterRuns makes the filters of complete runs that have none. Whoever else makes them makes the same.
func (s *Store) FilterRuns(ctx context.Context) error {
	for {
		var run, newest int64
		err := s.db.Reader().QueryRowContext(ctx, `SELECT (SELECT COALESCE(MAX(run), -1) + 1 FROM run_filter), (SELECT COALESCE(MAX(place), -1) FROM entry)`).Scan(&run, &newest)
		if err != nil {
			return fmt.Errorf("look for runs without a filter: %w", err)
		}
		if newest < (run+1)*runEntries-1 {
			return nil
		}
		filter, err := s.makeFilter(ctx, run)
		if err != nil {
			return fmt.Errorf("make the filter of run %d: %w", run, err)
		}
		if err := s.sqlTx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO run_filter(run, data) VALUES ($1, $2) ON CONFLICT (run) DO NOTHING`, run, []byte(filter))
			return err
		}); err != nil {
			return fmt.Errorf("store the filter of run %d: %w", run, err)
		}
	}
}

// makeFilter makes the filter of a complete run from its entries.
func (s *Store) makeFilter(ctx context.Context, run int64) (runFilter, error) {
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT commitment, body FROM entry WHERE place >= $1 AND place < $2`, run*runEntries, (run+1)*runEntries)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	f, n := make(runFilter, filterBytes), 0
	var commitment, body sql.RawBytes
	for ; rows.Next(); n++ {
		if err := rows.Scan(&commitment, &body); err != nil {
			return nil, err
		}
		if len(commitment) != len(canon.Digest{}) || len(body) != len(canon.Digest{}) {
			return nil, errors.New("damaged database: a digest has another length")
		}
		f.add(canon.Digest(commitment))
		f.add(canon.Digest(body))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if n != runEntries {
		return nil, fmt.Errorf("damaged database: it has %d entries, want %d", n, runEntries)
	}
	return f, nil
}
