package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// HeadsDue returns the time at which a heads entry is due: [ledger.HeadsWithin] after the first entry that none covers.
// Zero: every entry is covered.
func (s *Store) HeadsDue(ctx context.Context) (canon.Time, error) {
	return headsDue(ctx, s.db.Reader())
}

func headsDue(ctx context.Context, q querier) (canon.Time, error) {
	var opening []byte
	err := q.QueryRowContext(ctx, `SELECT opening FROM entry WHERE place > COALESCE((SELECT place FROM heads), -1) ORDER BY place LIMIT 1`).Scan(&opening)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for the first entry that no heads entry covers: %w", err)
	}
	_, e, err := ledger.ParseOpening(opening)
	if err != nil {
		return 0, fmt.Errorf("damaged database: %w", err)
	}
	return e.Time + ledger.HeadsWithin, nil
}

// AppendHeads appends a heads entry where one is due at a time. It reports whether it did.
//
// The entry must commit to the streams as they stand before it in the log. So the transaction first takes what all others
// take last, the next place: then whatever has a place is committed and seen, and nothing gets one before the heads entry
// has its own. The stream of the server comes before even that, as in every transaction that appends to it.
func (s *Store) AppendHeads(ctx context.Context, now canon.Time) (bool, error) {
	if due, err := s.HeadsDue(ctx); err != nil || due == 0 || due > now {
		return false, err
	}
	made := false
	err := s.Tx(ctx, func(tx *Tx) error {
		made = false
		if err := holdServer(ctx, tx.SQL); err != nil {
			return err
		}
		var place int64
		if err := tx.SQL.QueryRowContext(ctx, `UPDATE arrival SET next = next WHERE id = 1 RETURNING next`).Scan(&place); err != nil {
			return err
		}
		if due, err := headsDue(ctx, tx.SQL); err != nil || due == 0 || due > now { // another process was faster
			return err
		}
		seed, err := s.salt()
		if err != nil {
			return err
		}
		for _, q := range []string{`DELETE FROM stream_head`, `INSERT INTO stream_head(name, next, last) SELECT name, next, last FROM stream WHERE next > 0`} {
			if _, err := tx.SQL.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		tails, err := readTails(tx.SQL.QueryContext(ctx, `SELECT name, next, last FROM stream_head`))
		if err != nil {
			return err
		}
		body, err := canon.Marshal(ledger.NewHeadsTree(seed[:], tails).Document())
		if err != nil {
			return err
		}
		tx.PutBlob(seed[:])
		commitment, _, err := tx.Append(ctx, Draft{Kind: ledger.KindHeads, Stream: ledger.StreamServer, Time: now, Body: tx.PutBlob(body), Refs: []canon.Digest{}})
		if err != nil {
			return err
		}
		made = true
		_, err = tx.SQL.ExecContext(ctx, `INSERT INTO heads(id, place, commitment, seed) VALUES (1, $1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET place = excluded.place, commitment = excluded.commitment, seed = excluded.seed`, place, commitment[:], seed[:])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("append heads: %w", err)
	}
	return made, nil
}

// readTails reads rows of name, next and last, behind columns that are alike in all of them.
func readTails(rows *sql.Rows, err error, alike ...any) (map[string]ledger.Tail, error) {
	if err != nil {
		return nil, fmt.Errorf("read the ends of streams: %w", err)
	}
	defer rows.Close()
	tails := map[string]ledger.Tail{}
	for rows.Next() {
		var name string
		var t ledger.Tail
		if err := rows.Scan(append(slices.Clone(alike), &name, &t.Next, &t.Last)...); err != nil {
			return nil, fmt.Errorf("read the ends of streams: %w", err)
		}
		tails[name] = t
	}
	return tails, rows.Err()
}

// headsCache keeps the tree of the newest heads entry, which every proof of that hour is made of.
type headsCache struct {
	mu         sync.Mutex
	commitment canon.Digest
	tree       *ledger.HeadsTree
}

// headsTree returns the newest heads entry's commitment and tree. Before the first: [fs.ErrNotExist].
func (s *Server) headsTree(ctx context.Context) (canon.Digest, *ledger.HeadsTree, error) {
	s.heads.mu.Lock()
	defer s.heads.mu.Unlock()
	var newest []byte
	err := s.store.db.Reader().QueryRowContext(ctx, `SELECT commitment FROM heads WHERE id = 1`).Scan(&newest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return canon.Digest{}, nil, fmt.Errorf("no heads entry yet: %w", fs.ErrNotExist)
	case err != nil:
		return canon.Digest{}, nil, fmt.Errorf("read the newest heads entry: %w", err)
	case s.heads.tree != nil && bytes.Equal(newest, s.heads.commitment[:]):
		return s.heads.commitment, s.heads.tree, nil
	}
	// One statement reads both tables as they are in one instant.
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT heads.commitment, heads.seed, stream_head.name, stream_head.next, stream_head.last FROM heads, stream_head`)
	var commitment canon.Digest
	var seed []byte
	tails, err := readTails(rows, err, &commitment, &seed)
	if err != nil {
		return canon.Digest{}, nil, err
	}
	s.heads.commitment, s.heads.tree = commitment, ledger.NewHeadsTree(seed, tails)
	return s.heads.commitment, s.heads.tree, nil
}

// streamHead proves the end of a stream to its owner, or to the operator.
func (s *Server) streamHead(ctx context.Context, who caller, stream string) (client.StreamHead, error) {
	if who.use == useNode && stream != ledger.NodeStream(who.node) {
		return client.StreamHead{}, refuse(codeNotFound, "no such stream")
	}
	commitment, tree, err := s.headsTree(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return client.StreamHead{}, refuse(codeNotFound, "no heads entry yet: the first comes %d s after the log's first entry", ledger.HeadsWithin)
	}
	if err != nil {
		return client.StreamHead{}, err
	}
	proof, ok := tree.Prove(stream)
	if !ok {
		return client.StreamHead{}, refuse(codeNotFound, "the newest heads entry knows no entry of this stream")
	}
	record, err := s.store.Entry(ctx, commitment)
	if err != nil {
		return client.StreamHead{}, err
	}
	place, published, err := s.store.Prove(ctx, record.Index)
	if errors.Is(err, fs.ErrNotExist) {
		return client.StreamHead{}, refuse(codeNotFound, "the newest heads entry is not published yet")
	}
	if err != nil {
		return client.StreamHead{}, err
	}
	return client.StreamHead{Proof: proof, Heads: tree.Document(), Entry: opened([]Record{record})[0], Place: place, Checkpoint: string(published.Note)}, nil
}
