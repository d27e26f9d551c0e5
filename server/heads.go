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

// headsDue returns the time at which a heads entry of a log is due: [ledger.HeadsWithin] after the first entry that none
// covers. Zero: every entry is covered.
func headsDue(ctx context.Context, q querier, log int64) (canon.Time, error) {
	var opening []byte
	err := q.QueryRowContext(ctx, `SELECT opening FROM entry WHERE place > COALESCE((SELECT place FROM heads WHERE heads.log = $1),
		(SELECT first - 1 FROM log WHERE number = $1)) AND log = $1 ORDER BY place LIMIT 1`, log).Scan(&opening)
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

// headsFirst appends the heads entry that came due while this process or its clock stood still, before anything else is
// logged: what is made behind an overdue one is a gap to an auditor. It looks once in HeadsCheck.
func (s *Server) headsFirst(ctx context.Context) error {
	now := s.time()
	if at := canon.Time(s.headsAt.Load()); at <= now && now < at+seconds(HeadsCheck) {
		return nil
	}
	if _, err := s.store.AppendHeads(ctx, now); err != nil {
		return err
	}
	s.headsAt.Store(int64(now))
	return nil
}

// AppendHeads appends a heads entry to the open log where one is due at a time. It reports whether it did.
func (s *Store) AppendHeads(ctx context.Context, now canon.Time) (bool, error) {
	var open int64
	if err := s.db.Reader().QueryRowContext(ctx, `SELECT log FROM arrival WHERE id = 1`).Scan(&open); err != nil {
		return false, fmt.Errorf("append heads: %w", err)
	}
	if due, err := headsDue(ctx, s.db.Reader(), open); err != nil || due == 0 || due > now {
		return false, err
	}
	made := false
	err := s.Tx(ctx, func(tx *Tx) error {
		made = false
		if err := tx.stopOthers(ctx); err != nil {
			return err
		}
		if due, err := headsDue(ctx, tx.SQL, tx.log); err != nil || due == 0 || due > now { // another process was faster
			return err
		}
		made = true
		return tx.appendHeads(ctx, now, ledger.Closes{})
	})
	if err != nil {
		return false, fmt.Errorf("append heads: %w", err)
	}
	return made, nil
}

// stopOthers takes what all transactions that append take last, the next place: then whatever has a place is committed and
// seen, and nothing gets one before this transaction has ended. The stream of the server comes before even that, as in
// every transaction that appends to it.
func (tx *Tx) stopOthers(ctx context.Context) error {
	if err := holdServer(ctx, tx.SQL); err != nil {
		return err
	}
	_, err := tx.takePlaces(ctx, 0)
	return err
}

// appendHeads appends a heads entry, which commits to the streams as they stand before it in the log: the transaction has
// stopped all others.
func (tx *Tx) appendHeads(ctx context.Context, now canon.Time, closes ledger.Closes) error {
	place, err := tx.takePlaces(ctx, 0)
	if err != nil {
		return err
	}
	seed, err := tx.store.salt()
	if err != nil {
		return err
	}
	for _, q := range []string{`DELETE FROM stream_head WHERE log = $1`, `INSERT INTO stream_head(log, name, next, last) SELECT log, name, next, last FROM stream WHERE log = $1 AND next > 0`} {
		if _, err := tx.SQL.ExecContext(ctx, q, tx.log); err != nil {
			return err
		}
	}
	rows, err := tx.SQL.QueryContext(ctx, `SELECT name, next, last FROM stream_head WHERE log = $1`, tx.log)
	tails, err := readTails(rows, err)
	if err != nil {
		return err
	}
	heads := ledger.NewHeadsTree(seed[:], tails).Document()
	heads.Closes = closes
	body, err := canon.Marshal(heads)
	if err != nil {
		return err
	}
	tx.PutBlob(seed[:])
	commitment, _, err := tx.Append(ctx, Draft{Kind: ledger.KindHeads, Stream: ledger.StreamServer, Time: now, Body: tx.PutBlob(body), Refs: []canon.Digest{}})
	if err != nil {
		return err
	}
	_, err = tx.SQL.ExecContext(ctx, `INSERT INTO heads(log, place, commitment, seed) VALUES ($1, $2, $3, $4)
		ON CONFLICT (log) DO UPDATE SET place = excluded.place, commitment = excluded.commitment, seed = excluded.seed`, tx.log, place, commitment[:], seed[:])
	return err
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

// headsTree returns the commitment and the tree of a log's newest heads entry. Before the first: [fs.ErrNotExist].
func (s *Server) headsTree(ctx context.Context, log int64) (canon.Digest, *ledger.HeadsTree, error) {
	s.heads.mu.Lock()
	defer s.heads.mu.Unlock()
	var newest []byte
	err := s.store.db.Reader().QueryRowContext(ctx, `SELECT commitment FROM heads WHERE log = $1`, log).Scan(&newest)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return canon.Digest{}, nil, fmt.Errorf("no heads entry yet: %w", fs.ErrNotExist)
	case err != nil:
		return canon.Digest{}, nil, fmt.Errorf("read the newest heads entry: %w", err)
	case s.heads.tree != nil && bytes.Equal(newest, s.heads.commitment[:]):
		return s.heads.commitment, s.heads.tree, nil
	}
	// One statement reads both tables as they are in one instant.
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT heads.commitment, heads.seed, stream_head.name, stream_head.next, stream_head.last
		FROM heads JOIN stream_head ON stream_head.log = heads.log WHERE heads.log = $1`, log)
	var commitment canon.Digest
	var seed []byte
	tails, err := readTails(rows, err, &commitment, &seed)
	if err != nil {
		return canon.Digest{}, nil, err
	}
	s.heads.commitment, s.heads.tree = commitment, ledger.NewHeadsTree(seed, tails)
	return s.heads.commitment, s.heads.tree, nil
}

// streamHead proves the end of a stream of a log to its owner, or to the operator.
func (s *Server) streamHead(ctx context.Context, who caller, stream, origin string) (client.StreamHead, error) {
	if who.use == useNode && stream != ledger.NodeStream(who.node) {
		return client.StreamHead{}, refuse(codeNotFound, "no such stream")
	}
	log, err := s.logOf(ctx, origin)
	if err != nil {
		return client.StreamHead{}, err
	}
	commitment, tree, err := s.headsTree(ctx, log.Number)
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
	place, published, err := log.Prove(ctx, record.Index)
	if errors.Is(err, fs.ErrNotExist) {
		return client.StreamHead{}, refuse(codeNotFound, "the newest heads entry is not published yet")
	}
	if err != nil {
		return client.StreamHead{}, err
	}
	entries, err := s.open(ctx, []Record{record})
	if err != nil {
		return client.StreamHead{}, err
	}
	heads, err := s.store.Blob(ctx, record.Body)
	if err != nil {
		return client.StreamHead{}, err
	}
	document, err := ledger.ParseHeads(heads)
	if err != nil {
		return client.StreamHead{}, fmt.Errorf("damaged database: %w", err)
	}
	return client.StreamHead{Proof: proof, Heads: document, Entry: entries[0], Place: place, Checkpoint: string(published.Note)}, nil
}
