package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Integrate appends up to max entries that wait, in the order of their places, to the tree of the open log: one
// transaction writes the tiles and moves the head. It returns how many there were; of several processes that integrate at
// once, one works and the others then find less. In a log that is closed, none waits.
func (s *Store) Integrate(ctx context.Context, max int) (int, error) {
	var n int
	err := s.sqlTx(ctx, func(tx *sql.Tx) error {
		var log int64
		if err := tx.QueryRowContext(ctx, `SELECT log FROM arrival WHERE id = 1`).Scan(&log); err != nil {
			return err
		}
		var err error
		n, _, err = s.integrate(ctx, tx, log, max)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("integrate: %w", err)
	}
	return n, nil
}

// integrate appends waiting entries to the tree of a log and returns how many there were, and the tree.
func (s *Store) integrate(ctx context.Context, tx *sql.Tx, log int64, max int) (int, ledger.Tree, error) {
	head, err := readHead(tx.QueryRowContext(ctx, `SELECT size, root, first FROM log WHERE number = $1`+s.db.ForUpdate(), log))
	if err != nil {
		return 0, ledger.Tree{}, err
	}
	commitments, err := waiting(ctx, tx, log, head.first+head.Size, max)
	if err != nil || len(commitments) == 0 {
		return 0, head.Tree, err
	}
	edge, err := readEdge(ctx, tx, log, head.Tree)
	if err != nil {
		return 0, ledger.Tree{}, err
	}
	edge, dirty := ledger.Append(edge, commitments)
	if err := storeTiles(ctx, tx, log, dirty); err != nil {
		return 0, ledger.Tree{}, err
	}
	tree := edge.Tree()
	if _, err := tx.ExecContext(ctx, `UPDATE log SET size = $1, root = $2 WHERE number = $3`, tree.Size, tree.Root.String(), log); err != nil {
		return 0, ledger.Tree{}, fmt.Errorf("move the head: %w", err)
	}
	return len(commitments), tree, nil
}

func storeTiles(ctx context.Context, tx *sql.Tx, log int64, dirty []ledger.TileData) error {
	err := insertRows(ctx, tx, `INSERT INTO tile(log, level, place, data)`, ` ON CONFLICT (log, level, place) DO UPDATE SET data = excluded.data`, 4, len(dirty), func(i int, args []any) []any {
		return append(args, log, dirty[i].Level, dirty[i].Index, dirty[i].Data)
	})
	if err != nil {
		return fmt.Errorf("store tiles: %w", err)
	}
	return nil
}

// head is the tree that the tiles of a log hold.
type head struct {
	ledger.Tree
	first int64 // place of the log's first entry
}

func readHead(row *sql.Row) (head, error) {
	var h head
	var root string
	err := row.Scan(&h.Size, &root, &h.first)
	if err == nil {
		h.Root, err = canon.ParseDigest(root)
	}
	if err != nil {
		return head{}, fmt.Errorf("read the head: %w", err)
	}
	return h, nil
}

// waiting returns the commitments of the entries of a log from a place on.
func waiting(ctx context.Context, tx *sql.Tx, log, from int64, max int) ([]canon.Digest, error) {
	rows, err := tx.QueryContext(ctx, `SELECT place, commitment FROM entry WHERE place >= $1 AND log = $2 ORDER BY place LIMIT $3`, from, log, max)
	if err != nil {
		return nil, fmt.Errorf("read waiting entries: %w", err)
	}
	defer rows.Close()
	var out []canon.Digest
	for rows.Next() {
		var place int64
		var commitment []byte
		if err := rows.Scan(&place, &commitment); err != nil {
			return nil, fmt.Errorf("read waiting entries: %w", err)
		}
		if place != from+int64(len(out)) || len(commitment) != len(canon.Digest{}) {
			return nil, fmt.Errorf("read waiting entries: damaged database: entry at place %d, want %d", place, from+int64(len(out)))
		}
		out = append(out, canon.Digest(commitment))
	}
	return out, rows.Err()
}

// readEdge reads the incomplete tiles and checks them against the head, so that a damaged tile never enters a new root.
func readEdge(ctx context.Context, tx *sql.Tx, log int64, head ledger.Tree) (ledger.Edge, error) {
	var tiles [][]byte
	for _, t := range ledger.EdgeTiles(head.Size) {
		var data []byte
		if err := tx.QueryRowContext(ctx, `SELECT data FROM tile WHERE log = $1 AND level = $2 AND place = $3`, log, t.Level, t.Index).Scan(&data); err != nil {
			return ledger.Edge{}, fmt.Errorf("read %s: %w", t.Path(), err)
		}
		tiles = append(tiles, data)
	}
	edge, err := ledger.NewEdge(head.Size, tiles)
	if err != nil {
		return ledger.Edge{}, fmt.Errorf("damaged database: %w", err)
	}
	if edge.Tree() != head {
		return ledger.Edge{}, fmt.Errorf("damaged database: the tiles of size %d do not hash to the head's root", head.Size)
	}
	return edge, nil
}

// Publish signs the tree of a log as it is, has it cosigned, and stores the checkpoint; without a quorum of witnesses it stores
// nothing (nil witnesses: none are asked for). It reports whether there was something new: a tree that grew, a checkpoint
// that was published before there were witnesses, or one that is CheckpointLife old: challenges name the newest, and
// auditors count a machine's time from when it was cosigned. A checkpoint that another process stored meanwhile wins if it
// is larger, and a key never signs a tree that does not continue the last one published. While one key takes over from
// another, the other signs beside it. Signing and asking happen outside the transaction: who dies between the two has
// published nothing, and asks again.
func (l Log) Publish(ctx context.Context, key note.Signer, now canon.Time, witnesses *Witnesses, beside ...note.Signer) (bool, error) {
	fail := func(err error) (bool, error) { return false, fmt.Errorf("publish: %w", err) }
	s := l.store
	last, noneYet := l.Published(ctx) // before the tree: what others publish meanwhile must not be newer than the tree
	if noneYet != nil && !errors.Is(noneYet, fs.ErrNotExist) {
		return fail(noneYet)
	}
	head, err := readHead(s.db.Reader().QueryRowContext(ctx, `SELECT size, root, first FROM log WHERE number = $1`, l.Number))
	tree := head.Tree
	switch {
	case err != nil:
		return fail(err)
	case noneYet != nil:
		if tree.Size == 0 {
			return false, nil
		}
	case tree.Size == last.Size && (witnesses == nil || now < last.Time+seconds(CheckpointLife) && witnesses.Has(last.Note)):
		return false, nil
	default:
		proof, err := ledger.ProveConsistency(ctx, l.Source(), last.Size, tree.Size)
		if err == nil {
			err = proof.Verify(last.Tree, tree)
		}
		if err != nil {
			return fail(fmt.Errorf("the tree does not continue the last checkpoint: %w", err))
		}
	}
	c := ledger.Checkpoint{Origin: key.Name(), Tree: tree}
	signed, err := ledger.SignCheckpoint(c, append([]note.Signer{key}, beside...)...)
	if err != nil {
		return fail(err)
	}
	if witnesses != nil {
		if signed, err = witnesses.Cosign(ctx, l.Source(), c, signed); err != nil {
			return fail(err)
		}
	}
	query := `INSERT INTO checkpoint(size, note, time, log) VALUES ($1, $2, $3, $4) ON CONFLICT (log, size) DO UPDATE SET note = excluded.note, time = excluded.time`
	if witnesses != nil && tree.Size == last.Size && witnesses.Has(last.Note) { // the first note stays: it says by when the tree stood
		query = `UPDATE checkpoint SET renewed = $2, renewed_time = $3 WHERE log = $4 AND size = $1`
	}
	stored := false
	err = s.sqlTx(ctx, func(tx *sql.Tx) error {
		stored = false
		if _, err := readHead(tx.QueryRowContext(ctx, `SELECT size, root, first FROM log WHERE number = $1`+s.db.ForUpdate(), l.Number)); err != nil {
			return err
		}
		var newest int64
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(size), 0) FROM checkpoint WHERE log = $1`, l.Number).Scan(&newest); err != nil {
			return fmt.Errorf("read the newest checkpoint: %w", err)
		}
		if newest > tree.Size || newest == tree.Size && newest != last.Size {
			return nil
		}
		if _, err := tx.ExecContext(ctx, query, tree.Size, string(signed), int64(now), l.Number); err != nil {
			return fmt.Errorf("store the checkpoint: %w", err)
		}
		stored = true
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return stored, nil
}

// Published is the newest checkpoint of a log.
type Published struct {
	ledger.Tree
	Note []byte
	Time canon.Time // of signing
}

// Published returns the newest checkpoint. Before the first: [fs.ErrNotExist]. Its signature is not checked: the store
// made it.
func (l Log) Published(ctx context.Context) (Published, error) {
	var text string
	var at int64
	err := l.store.db.Reader().QueryRowContext(ctx, `SELECT COALESCE(renewed, note), COALESCE(renewed_time, time) FROM checkpoint
		WHERE log = $1 ORDER BY size DESC LIMIT 1`, l.Number).Scan(&text, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return Published{}, fmt.Errorf("no checkpoint yet: %w", fs.ErrNotExist)
	}
	if err != nil {
		return Published{}, fmt.Errorf("read the newest checkpoint: %w", err)
	}
	c, err := ledger.ReadCheckpoint([]byte(text))
	if err != nil {
		return Published{}, fmt.Errorf("damaged database: %w", err)
	}
	return Published{c.Tree, []byte(text), canon.Time(at)}, nil
}

// Progress says how far the logs of a store are with what they were given: all of them together. One is in the tree, and
// published, behind the other.
type Progress struct {
	Entries    int64 // given a place
	Integrated int64 // in a tree
	Published  int64 // covered by a checkpoint
}

// Progress returns the three sizes, read in one instant.
func (s *Store) Progress(ctx context.Context) (Progress, error) {
	var p Progress
	err := s.db.Reader().QueryRowContext(ctx, `SELECT next, (SELECT CAST(SUM(size) AS BIGINT) FROM log),
		(SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM (SELECT MAX(size) AS size FROM checkpoint GROUP BY log) AS newest)
		FROM arrival WHERE id = 1`).Scan(&p.Entries, &p.Integrated, &p.Published)
	if err != nil {
		return Progress{}, fmt.Errorf("read the log's progress: %w", err)
	}
	return p, nil
}
