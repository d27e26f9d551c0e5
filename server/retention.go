package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Holds, releases and erasures are entries of the log ([ledger.Erasure]), and the log is all that the store knows of them:
// what may go is judged by the same rule that an auditor repeats. An erasure and the deletion that it speaks of commit
// together, so none is without the other. Bytes in a segment are gone when the segment was written anew, see
// [Store.Collect].

// ErasedError is the error for a blob that was erased. It is a kind of [fs.ErrNotExist].
type ErasedError struct {
	Digest canon.Digest
	Log    string // origin of the log whose entry says so
	Entry  int64  // its index
}

func (e *ErasedError) Error() string {
	return fmt.Sprintf("blob %s: erased by entry %d of %s", e.Digest, e.Entry, e.Log)
}

// Unwrap makes it one of those that are not there.
func (e *ErasedError) Unwrap() error { return fs.ErrNotExist }

func wasErased(err error) bool {
	var e *ErasedError
	return errors.As(err, &e)
}

// RefusedError says why an act was not allowed.
type RefusedError struct{ Refusals []ledger.Refusal }

func (e *RefusedError) Error() string {
	first := e.Refusals[0]
	text := "not allowed: " + first.Why
	if !first.Digest.IsZero() {
		text = fmt.Sprintf("not allowed: %s: %s", first.Digest, first.Why)
	}
	if more := len(e.Refusals) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// all is the limit of a query that has none.
const all = math.MaxInt32

// errMovedOn says that what an act was judged by is not all of the log any more.
var errMovedOn = errors.New("the log has moved on meanwhile: try again")

// Acts returns the holds, releases and erasures of all logs, in their order. The index of each is its place over all logs:
// what one log says is to be held or gone is so for those before it as well. A hold that a log begins with because it was
// in force in the one before is the same hold, and stands here once.
func (s *Store) Acts(ctx context.Context) ([]ledger.Act, error) {
	found, err := records(ctx, s.db.Reader(), `kind = 'erasure/v1' AND place >= $1`, all, int64(0))
	if err != nil {
		return nil, err
	}
	var acts []ledger.Act
	holds := map[string]canon.Digest{} // bodies of those in force, by name
	for _, r := range found {
		body, err := s.Blob(ctx, r.Body)
		if err != nil {
			return nil, err
		}
		e, err := ledger.ParseErasure(body)
		if err != nil {
			return nil, fmt.Errorf("damaged database: entry %d: %w", r.Index, err)
		}
		switch {
		case e.Act == ledger.ActHold && holds[e.Hold] == r.Body:
			continue
		case e.Act == ledger.ActHold:
			holds[e.Hold] = r.Body
		case e.Act == ledger.ActRelease:
			delete(holds, e.Hold)
		}
		acts = append(acts, ledger.Act{Index: r.Place, Time: r.Time, Erasure: e})
	}
	return acts, nil
}

// At returns the log that a place over all logs is in, and the index there.
func (s *Store) At(ctx context.Context, place int64) (Log, int64, error) {
	all, err := s.Logs(ctx)
	for _, l := range all {
		if place < l.end {
			return l, place - l.first, err
		}
	}
	return Log{}, 0, err
}

// Allowed judges an act as if it were the next entry of the open log, and returns the place that it would have. One that is
// not allowed: [*RefusedError]. For an erasure it reads every entry of the log.
func (s *Store) Allowed(ctx context.Context, e ledger.Erasure, now canon.Time) (next int64, err error) {
	if err := e.Validate(); err != nil {
		return 0, err
	}
	next, refusals, err := s.judge(ctx, e, now)
	if err == nil && len(refusals) > 0 {
		return 0, &RefusedError{refusals}
	}
	return next, err
}

// judge says why an act is not allowed, if it is the log's next entry, whose index it returns.
func (s *Store) judge(ctx context.Context, e ledger.Erasure, now canon.Time) (next int64, refusals []ledger.Refusal, err error) {
	progress, err := s.Progress(ctx)
	if err != nil {
		return 0, nil, err
	}
	next = progress.Entries
	acts, err := s.Acts(ctx)
	if err != nil {
		return 0, nil, err
	}
	if n := len(acts); n > 0 && acts[n-1].Index >= next {
		return 0, nil, errMovedOn
	}
	custody := ledger.NewCustody(append(acts, ledger.Act{Index: next, Time: now, Erasure: e}))
	custody.Back(next, ledger.Entry{Kind: ledger.KindErasure, Stream: ledger.StreamServer, Time: now})
	if e.Act == ledger.ActErase {
		if err := s.back(ctx, next, custody.Back); err != nil {
			return 0, nil, err
		}
	}
	refusals, _ = custody.Judge()
	return next, slices.DeleteFunc(refusals, func(r ledger.Refusal) bool { return r.Index != next }), nil
}

// Due returns bodies of a class that may be erased now, of the oldest entries first, as many as one erasure takes at most.
// None: there are no more. It reads every entry of the log.
func (s *Store) Due(ctx context.Context, class string, now canon.Time) ([]canon.Digest, error) {
	keep, erasable := ledger.Retention(class)
	if !erasable {
		return nil, fmt.Errorf("class %.80q is never erased", class)
	}
	acts, err := s.Acts(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[canon.Digest]bool{}
	for _, act := range acts {
		if act.Act == ledger.ActErase {
			for _, d := range act.Digests {
				seen[d] = true
			}
		}
	}
	for from, more := int64(0), true; more; {
		var old []canon.Digest
		for len(old) < ledger.MaxErased {
			page, err := s.Entries(ctx, from, integrateBatch)
			if err != nil {
				return nil, err
			}
			if more = len(page) > 0; !more {
				break
			}
			for _, r := range page {
				if from = r.Place + 1; ledger.ClassOf(r.Kind) == class && r.Time+canon.Time(keep) <= now && !seen[r.Body] {
					seen[r.Body] = true
					if old = append(old, r.Body); len(old) == ledger.MaxErased {
						break
					}
				}
			}
		}
		_, refusals, err := s.judge(ctx, ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActErase, Class: class, Digests: old}, now)
		if err != nil {
			return nil, err
		}
		old = slices.DeleteFunc(old, func(d canon.Digest) bool {
			return slices.ContainsFunc(refusals, func(r ledger.Refusal) bool { return r.Digest == d })
		})
		if len(old) > 0 {
			return old, nil
		}
	}
	return nil, nil
}

// back visits the entries before a place, from the last to the first.
func (s *Store) back(ctx context.Context, before int64, visit func(int64, ledger.Entry)) error {
	for before > 0 {
		from := max(0, before-integrateBatch)
		page, err := s.Entries(ctx, from, int(before-from))
		if err != nil {
			return err
		}
		if int64(len(page)) != before-from {
			return fmt.Errorf("damaged database: %d entries from %d on, want %d", len(page), from, before-from)
		}
		for _, r := range slices.Backward(page) {
			visit(r.Place, r.Entry)
		}
		before = from
	}
	return nil
}

// Act makes a hold, a release or an erasure, if it is allowed, and returns the place of its entry over all logs. With an
// erasure go the bodies that it names, and the parts of them that nothing else needs at a later collection. A body that is a
// part of a blob that stays does not go: [*RefusedError].
func (s *Store) Act(ctx context.Context, e ledger.Erasure, now canon.Time) (int64, error) {
	if _, err := s.AppendHeads(ctx, now); err != nil { // as a server does after it stood still
		return 0, err
	}
	next, err := s.Allowed(ctx, e, now)
	if err != nil {
		return 0, err
	}
	s.testingOnlyStep("judged")
	document, err := canon.Marshal(e)
	if err != nil {
		return 0, err
	}
	run := s.db.Tx
	if e.Act == ledger.ActErase {
		run = s.db.Erase
	}
	var place int64
	err = s.tx(ctx, run, func(tx *Tx) error {
		// The stream first, as every transaction does that appends, then the places of the log: nobody appends until the
		// end of this one.
		d := Draft{Kind: ledger.KindErasure, Stream: ledger.StreamServer, Time: now, Body: tx.PutBlob(document), Refs: []canon.Digest{}}
		if _, _, err := tx.Append(ctx, d); err != nil {
			return err
		}
		if place, err = tx.takePlaces(ctx, 0); err != nil {
			return err
		}
		if err := tx.unchanged(ctx, next, e); err != nil {
			return err
		}
		if e.Act != ledger.ActErase {
			return nil
		}
		for _, digest := range e.Digests {
			if err := tx.erase(ctx, digest, place, now); err != nil {
				return fmt.Errorf("erase %s: %w", digest, err)
			}
		}
		return tx.refuseNeeded(ctx, place, e.Digests)
	})
	return place, err
}

// refuseNeeded refuses an erasure after which a blob that stays could not be read: bundles name the parts that they are
// put together from, and whoever sends one may have put into it what is a body of its own.
func (tx *Tx) refuseNeeded(ctx context.Context, place int64, digests []canon.Digest) error {
	var refusals []ledger.Refusal
	for _, digest := range digests {
		wholes, err := queryDigests(ctx, tx.SQL, `SELECT whole FROM blob_part WHERE part = $1 ORDER BY whole LIMIT 1`, digest[:])
		if err != nil {
			return fmt.Errorf("look for what needs %s: %w", digest, err)
		}
		if len(wholes) > 0 {
			refusals = append(refusals, ledger.Refusal{Index: place, Digest: digest, Why: fmt.Sprintf("the blob %s, which stays, has it as a part", wholes[0])})
		}
	}
	if len(refusals) > 0 {
		return &RefusedError{refusals}
	}
	return nil
}

// unchanged checks that no entry from a place on bears upon an act that was judged by those before.
func (tx *Tx) unchanged(ctx context.Context, from int64, e ledger.Erasure) error {
	found, err := records(ctx, tx.SQL, `place >= $1`, all, from)
	if err != nil {
		return err
	}
	named := func(d canon.Digest) bool { return slices.Contains(e.Digests, d) }
	for _, r := range found {
		if r.Kind == ledger.KindErasure || named(r.Body) || slices.ContainsFunc(r.Refs, named) {
			return errMovedOn
		}
	}
	return nil
}

// erase deletes a body, by the word of the entry that will have a place.
func (tx *Tx) erase(ctx context.Context, digest canon.Digest, place int64, now canon.Time) error {
	// The row is held first, so that nobody puts it again meanwhile.
	if _, err := queryDigests(ctx, tx.SQL, `SELECT digest FROM blob WHERE digest = $1`+tx.store.db.ForUpdate(), digest[:]); err != nil {
		return err
	}
	if err := deleteBlob(ctx, tx.SQL, digest, now); err != nil {
		return err
	}
	return noteErased(ctx, tx.SQL, digest, place)
}

// noteErased records by which entry a blob was erased last.
func noteErased(ctx context.Context, tx *sql.Tx, digest canon.Digest, place int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO erased(digest, place) VALUES ($1, $2) ON CONFLICT (digest) DO UPDATE SET place = excluded.place`, digest[:], place)
	return err
}
