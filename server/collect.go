package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/pack"
	"github.com/assay-network/assay/ledger"
)

// Collected says what a collection did.
type Collected struct {
	Blobs    int64   // parts that nothing needed any more
	Moved    int64   // blobs that were written anew because of what lay beside them
	Segments int64   // taken away
	Freed    int64   // bytes of those segments
	Damaged  []error // segments that hold what cannot be read: they are kept as they are, [pack.Damage] names them
}

// Collect takes away what nothing needs. Its rules:
//
//   - A blob that was put for its own sake stays until it is erased. A part goes when the last blob that needs it has
//     been gone for GarbageAge, and it is not on hold.
//   - A segment goes when the database names nothing in it; its bytes are of transactions that failed, or of blobs that
//     went. One of which more than half is such, or that holds a byte of what was erased, is written anew first.
//   - No segment goes that somebody writes, or that was written within SegmentRest: a transaction that is still open may
//     come to name what is in it.
//
// Several processes may collect at once, and whoever dies on the way leaves nothing but more to collect.
func (s *Store) Collect(ctx context.Context, now canon.Time) (Collected, error) {
	var c Collected
	if err := s.collectParts(ctx, now, &c); err != nil {
		return c, fmt.Errorf("collect parts: %w", err)
	}
	if s.folder != nil {
		if err := s.collectSegments(ctx, now, &c); err != nil {
			return c, fmt.Errorf("collect segments: %w", err)
		}
	}
	return c, nil
}

func (s *Store) collectParts(ctx context.Context, now canon.Time, c *Collected) error {
	due := int64(now - seconds(GarbageAge))
	var any int
	if err := s.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM blob WHERE unnamed <> 0 AND unnamed <= $1`, due).Scan(&any); err != nil {
		return err
	}
	if any == 0 {
		return nil
	}
	for after := []byte{}; after != nil; {
		acts, err := s.Acts(ctx)
		if err != nil {
			return err
		}
		s.testingOnlyStep("held")
		last, gone, err := s.collectSome(ctx, due, after, acts, now)
		if errors.Is(err, errMovedOn) {
			continue
		}
		if err != nil {
			return err
		}
		after, c.Blobs = last, c.Blobs+gone
	}
	return nil
}

// collectSome deletes those parts behind a digest that are due, not needed and not on hold, a batch at most. It returns the
// last digest that it looked at, nil at the end. acts are all of the log; if there are more by now: errMovedOn.
func (s *Store) collectSome(ctx context.Context, due int64, after []byte, acts []ledger.Act, now canon.Time) (last []byte, gone int64, err error) {
	held := map[canon.Digest]bool{}
	for _, h := range ledger.InForce(acts) {
		for _, d := range h.Digests {
			held[d] = true
		}
	}
	err = s.db.Erase(ctx, func(tx *sql.Tx) error {
		gone, last = 0, nil
		// The stream first, as whoever makes a hold takes it: none comes until the end of this.
		if err := holdServer(ctx, tx); err != nil {
			return err
		}
		found, err := queryDigests(ctx, tx, `SELECT digest FROM blob WHERE unnamed <> 0 AND unnamed <= $1 AND digest > $2 ORDER BY digest LIMIT $3`+s.db.ForUpdate(),
			due, after, collectBatch)
		if err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM entry WHERE kind = 'erasure/v1'`).Scan(&n); err != nil {
			return err
		}
		if n != len(acts) {
			return errMovedOn
		}
		// Each row is held now. Whoever came to need it before has committed, and the next statement sees that.
		for _, d := range found {
			last = bytes.Clone(d[:])
			needed, err := isNeeded(ctx, tx, d)
			if err != nil {
				return err
			}
			if needed || held[d] {
				continue
			}
			if err := deleteBlob(ctx, tx, d, now); err != nil {
				return err
			}
			gone++
		}
		return nil
	})
	return last, gone, err
}

// isNeeded reports whether a part has a whole.
func isNeeded(ctx context.Context, tx *sql.Tx, part canon.Digest) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM blob_part WHERE part = $1`, part[:]).Scan(&n)
	return n > 0, err
}

// deleteBlob deletes a blob's row, and marks those parts of it that nothing else needs. Whatever is deleted was erased, or
// was a part of what was: its bytes are to go, too.
func deleteBlob(ctx context.Context, tx *sql.Tx, digest canon.Digest, now canon.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO blob_wipe(segment) SELECT segment FROM blob WHERE digest = $1 AND segment <> 0 ON CONFLICT (segment) DO NOTHING`, digest[:])
	if err != nil {
		return err
	}
	parts, err := queryDigests(ctx, tx, `SELECT part FROM blob_part WHERE whole = $1 ORDER BY part`, digest[:])
	if err != nil {
		return err
	}
	for _, q := range []string{`DELETE FROM blob_part WHERE whole = $1`, `DELETE FROM blob WHERE digest = $1`} {
		if _, err := tx.ExecContext(ctx, q, digest[:]); err != nil {
			return err
		}
	}
	for _, p := range parts {
		_, err := tx.ExecContext(ctx, `UPDATE blob SET unnamed = $1 WHERE digest = $2 AND part = 1
			AND NOT EXISTS (SELECT 1 FROM blob_part WHERE blob_part.part = blob.digest)`, int64(now), p[:])
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) collectSegments(ctx context.Context, now canon.Time, c *Collected) error {
	live, err := s.liveBytes(ctx)
	if err != nil {
		return err
	}
	wipe, err := s.wipes(ctx)
	if err != nil {
		return err
	}
	all, err := s.folder.Segments()
	if err != nil {
		return err
	}
	there := map[int64]bool{}
	for _, seg := range all {
		there[seg.ID] = true
		if wipe[seg.ID] {
			if err := s.folder.LetGo(seg.ID); err != nil {
				return err
			}
		}
		if canon.At(seg.Written) > now-seconds(SegmentRest) || !wipe[seg.ID] && 2*live[seg.ID] >= seg.Size {
			continue
		}
		ok, err := s.folder.Locked(seg.ID, func() error { return s.emptySegment(ctx, seg.ID, c) })
		var damage *pack.Damage
		switch {
		case errors.As(err, &damage):
			c.Damaged = append(c.Damaged, err)
		case err != nil:
			return err
		case ok:
			c.Segments++
			c.Freed += seg.Size
			delete(there, seg.ID)
		}
	}
	for id := range wipe {
		if there[id] {
			continue
		}
		if err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM blob_wipe WHERE segment = $1`, id)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// liveBytes returns how many bytes of each segment the database names.
func (s *Store) liveBytes(ctx context.Context) (map[int64]int64, error) {
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT segment, CAST(SUM(length) AS BIGINT), COUNT(*) FROM blob WHERE segment <> 0 GROUP BY segment`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	live := map[int64]int64{}
	for rows.Next() {
		var id, size, n int64
		if err := rows.Scan(&id, &size, &n); err != nil {
			return nil, err
		}
		live[id] = size + n*pack.RecordOverhead
	}
	return live, rows.Err()
}

func (s *Store) wipes(ctx context.Context) (map[int64]bool, error) {
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT segment FROM blob_wipe`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	wipe := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		wipe[id] = true
	}
	return wipe, rows.Err()
}

// emptySegment writes what the database names in a locked segment elsewhere and takes the segment away. Dying after some
// were moved leaves the others where they are; dying before the file is removed leaves one that nothing names.
func (s *Store) emptySegment(ctx context.Context, segment int64, c *Collected) error {
	for {
		n := 0
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			n = 0
			rows, err := tx.QueryContext(ctx, `SELECT digest, place, length FROM blob WHERE segment = $1 ORDER BY digest LIMIT $2`+s.db.ForUpdate(), segment, movedAtOnce)
			if err != nil {
				return err
			}
			defer rows.Close()
			var items []pack.Item
			for rows.Next() {
				p := pack.Place{Segment: segment}
				var d canon.Digest
				if err := rows.Scan(&d, &p.At, &p.Length); err != nil {
					return err
				}
				i, err := s.folder.Read(p, d)
				if err != nil {
					return err
				}
				items = append(items, i)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(items) == 0 {
				return err
			}
			n = len(items)
			return s.repoint(ctx, tx, items, segment)
		})
		if err != nil {
			return err
		}
		if n == 0 {
			s.testingOnlyStep("emptied")
			return s.folder.Remove(segment)
		}
		c.Moved += int64(n)
		s.testingOnlyStep("moved")
	}
}

// collectLoop collects now and then until the context ends.
func (s *Server) collectLoop(ctx context.Context) {
	tick := time.NewTicker(CollectInterval)
	defer tick.Stop()
	for {
		c, err := s.store.Collect(ctx, s.time())
		if err = errors.Join(append(c.Damaged, err)...); err != nil && ctx.Err() == nil {
			s.alarm("collecting blobs failed", "error", err)
		}
		if c.Blobs+c.Segments > 0 {
			s.log.Info("blobs collected", "blobs", c.Blobs, "segments", c.Segments, "bytes", c.Freed)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Holdings says what a store holds.
type Holdings struct {
	Folder   string // of blobs; empty: they lie in the database
	Blobs    int64
	Stored   int64 // bytes of them as they are written
	Segments int64
	Size     int64 // bytes of the segments
	Dead     int64 // of those, bytes that nothing names
	Unneeded int64 // parts that go at a coming collection
}

// Holdings counts the store's blobs.
func (s *Store) Holdings(ctx context.Context) (Holdings, error) {
	var h Holdings
	err := s.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*), CAST(COALESCE(SUM(length + LENGTH(data)), 0) AS BIGINT),
		CAST(COALESCE(SUM(CASE WHEN unnamed <> 0 THEN 1 ELSE 0 END), 0) AS BIGINT) FROM blob`).Scan(&h.Blobs, &h.Stored, &h.Unneeded)
	if err != nil || s.folder == nil {
		return h, err
	}
	h.Folder = s.folder.Dir()
	all, err := s.folder.Segments()
	if err != nil {
		return h, err
	}
	live, err := s.liveBytes(ctx)
	for _, seg := range all {
		h.Segments++
		h.Size += seg.Size
		h.Dead += seg.Size - live[seg.ID]
	}
	return h, err
}

// CheckBlobs reads every blob and reports each that is not the bytes of its digest.
func (s *Store) CheckBlobs(ctx context.Context, bad func(error)) (checked int64, err error) {
	for after := []byte{}; ; {
		found, err := queryDigests(ctx, s.db.Reader(), `SELECT digest FROM blob WHERE digest > $1 ORDER BY digest LIMIT $2`, after, collectBatch)
		if err != nil || len(found) == 0 {
			return checked, err
		}
		for _, d := range found {
			after = append([]byte{}, d[:]...)
			if _, err := s.Blob(ctx, d); err != nil {
				if ctx.Err() != nil {
					return checked, ctx.Err()
				}
				if errors.Is(err, fs.ErrNotExist) {
					continue // collected or erased meanwhile
				}
				bad(err)
			}
			checked++
		}
	}
}
