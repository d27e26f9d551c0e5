package server

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// A log is closed while the server runs, and another goes on. First its row says so: from then on nobody gets a challenge,
// evidence is turned away, and what was promised gets its verdict in the log that promised it. When nothing waits for one,
// a single transaction writes the last entry of the log, its last tree, the row of the next log and the entries that this
// begins with. Whoever dies before it commits leaves a log that is being closed, which the next process that publishes does
// again; after it, the next log is there. What the log's last checkpoint says is published before the first of the next.

// closing refuses what a log that is being closed does not take any more.
func closing(format string, args ...any) *problem {
	p := refuse(codeClosing, format, args...)
	p.retry = retryClosing
	return p
}

// accepting returns the open log, to which a transaction appends challenges and evidence. While it is being closed it takes
// none.
func (s *Server) accepting(ctx context.Context, tx *Tx) (Log, error) {
	number, err := tx.openLog(ctx)
	if err != nil {
		return Log{}, err
	}
	log, err := s.store.numbered(ctx, number)
	switch {
	case err != nil:
		return Log{}, err
	case log.Closed:
		return Log{}, errLogClosed
	case log.Next != "":
		return Log{}, closing("%s ends, and %s goes on in a moment", log.Origin, log.Next)
	}
	return log, nil
}

// beginClosing has the open log closed as soon as nothing in it waits for a verdict. Saying it again changes nothing.
func (s *Server) beginClosing(ctx context.Context, next string) error {
	k, err := s.keysNow(ctx)
	if err != nil {
		return err
	}
	current := k.history.Current()
	if current.Origin == next {
		return nil // it is closed, and this is the next one
	}
	if slices.Contains(k.history.Origins(), next) {
		return refuse(codeConflict, "the log %q was closed before", next)
	}
	trial, err := current.NextLog(max(s.time(), current.Made), next, ledger.Tree{Size: 1, Root: canon.Sum(nil)})
	if err != nil {
		return refuse(codeMalformed, "%v", err)
	}
	if s.witnesses != nil {
		if err := s.wouldCosign(ctx, trial); err != nil {
			return refuse(codeConflict, "nothing of %s would be published: %v", next, err)
		}
	}
	return s.store.setNext(ctx, sql.NullString{String: next, Valid: true})
}

// wouldCosign reports what is known to stand against a quorum for a log of these keys: the witness policy, and witnesses
// that say they do not watch it.
func (s *Server) wouldCosign(ctx context.Context, set ledger.Keyset) error {
	if err := s.given.witnesses.Covers(set.LogVKeys(s.time()), s.operatorKeys()...); err != nil {
		return err
	}
	signers, err := s.signersOf(set)
	if err != nil {
		return err
	}
	empty, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: set.Origin, Tree: ledger.Edge{}.Tree()}, signers...)
	if err != nil {
		return err
	}
	return s.witnesses.Know(ctx, empty)
}

// endClosing calls a closing off that has not come to its end.
func (s *Server) endClosing(ctx context.Context) error {
	return s.store.setNext(ctx, sql.NullString{})
}

// setNext says which log is to go on where the open one is closed; none: it stays open.
func (s *Store) setNext(ctx context.Context, next sql.NullString) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		var number int64
		var before sql.NullString
		if err := tx.QueryRowContext(ctx, `SELECT number, next FROM log ORDER BY number DESC LIMIT 1`+s.db.ForUpdate()).Scan(&number, &before); err != nil {
			return fmt.Errorf("read the open log: %w", err)
		}
		if before.Valid && next.Valid && before != next {
			return refuse(codeConflict, "%s is to go on already: call that off first", before.String)
		}
		// The row of the open log is one that no other follows: of two that come at once, one of them may have closed it.
		done, err := tx.ExecContext(ctx, `UPDATE log SET next = $1 WHERE number = $2 AND NOT EXISTS (SELECT 1 FROM log AS later WHERE later.number > $2)`, next, number)
		if err != nil {
			return fmt.Errorf("mark the open log: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, refuse(codeConflict, "the log was closed meanwhile"))
		}
		return nil
	})
}

// closeIfDue closes the open log where that is wanted, once every submission has its verdict: the transaction that this
// takes is whole, or nothing of it is there.
func (s *Server) closeIfDue(ctx context.Context) error {
	log, err := s.store.Newest(ctx)
	if err != nil || log.Next == "" {
		return err
	}
	if undecided, err := anyUndecided(ctx, s.store.db.Reader()); err != nil || undecided {
		return err
	}
	if err := s.integrateAll(ctx); err != nil { // so that little is left for the one transaction
		return err
	}
	var after keys
	closed := false
	err = s.store.Tx(ctx, func(tx *Tx) error {
		var err error
		after, closed, err = s.closeLog(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("close %s: %w", log.Origin, err)
	}
	if closed {
		s.store.testingOnlyStep("closed")
		s.keys.Store(&after)
		s.log.Info("log closed", "log", log.Origin, "next", after.history.Current().Origin, "size", after.history.Current().Continues.Size)
	}
	return nil
}

func anyUndecided(ctx context.Context, q querier) (any bool, err error) {
	if err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM submission WHERE due IS NOT NULL)`).Scan(&any); err != nil {
		err = fmt.Errorf("look for submissions: %w", err)
	}
	return any, err
}

// closeLog closes the open log and begins the next one, unless something stands against it now. It returns the keys that
// the next log begins with.
func (s *Server) closeLog(ctx context.Context, tx *Tx) (k keys, closed bool, err error) {
	if err := tx.stopOthers(ctx); err != nil {
		return k, false, err
	}
	var next sql.NullString
	if err := tx.SQL.QueryRowContext(ctx, `SELECT next FROM log WHERE number = $1`+s.store.db.ForUpdate(), tx.log).Scan(&next); err != nil {
		return k, false, fmt.Errorf("read the open log: %w", err)
	}
	if undecided, err := anyUndecided(ctx, tx.SQL); err != nil || undecided || !next.Valid {
		return k, false, err
	}
	if k, err = s.store.keysAfter(ctx, *s.keys.Load()); err != nil {
		return k, false, err
	}
	current := k.history.Current()
	now, ok := s.timeAfter(current.Made)
	if !ok {
		return k, false, fmt.Errorf("its keys are of %s, by this server's clock it is %s", current.Made, now)
	}
	by, err := s.logKey(current, now)
	if err != nil {
		return k, false, err
	}
	if err := tx.appendHeads(ctx, now, ledger.Closes{Next: next.String}); err != nil {
		return k, false, err
	}
	if err := tx.flush(ctx); err != nil {
		return k, false, err
	}
	s.store.testingOnlyStep("closing entry")
	var final ledger.Tree
	for n := integrateBatch; n == integrateBatch; {
		if n, final, err = s.store.integrate(ctx, tx.SQL, tx.log, integrateBatch); err != nil {
			return k, false, err
		}
	}
	s.store.testingOnlyStep("final tree")
	set, err := current.NextLog(now, next.String, final)
	if err != nil {
		return k, false, err
	}
	last := tx.log
	if err := tx.beginLog(ctx); err != nil {
		return k, false, err
	}
	if k, err = tx.appendKeyset(ctx, k, set, by); err != nil {
		return k, false, err
	}
	if err := tx.carry(ctx, last, k.last, now); err != nil {
		return k, false, fmt.Errorf("carry over what stands: %w", err)
	}
	s.store.testingOnlyStep("enrolments")
	if err := tx.carryVetting(ctx, current.Origin, k.last, now); err != nil {
		return k, false, fmt.Errorf("carry over what stands of providers: %w", err)
	}
	s.store.testingOnlyStep("opening entries")
	return k, true, nil
}

// beginLog has this transaction append to a new log from here on.
func (tx *Tx) beginLog(ctx context.Context) error {
	tx.log++
	if _, err := tx.SQL.ExecContext(ctx, `UPDATE arrival SET log = $1 WHERE id = 1`, tx.log); err != nil {
		return fmt.Errorf("begin a log: %w", err)
	}
	if err := insertLog(ctx, tx.SQL, tx.log, `(SELECT next FROM arrival)`); err != nil {
		return fmt.Errorf("begin a log: %w", err)
	}
	return nil
}

// insertLog stores an empty log. first is an expression for the place of its first entry.
func insertLog(ctx context.Context, tx *sql.Tx, number int64, first string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO log(number, first, size, root) VALUES ($1, `+first+`, 0, $2)`, number, ledger.Edge{}.Tree().Root.String())
	return err
}

// carry appends to a new log what stood at the end of the one before it, with the same bodies: what the server was given,
// the newest issues of collateral, the holds in force and the enrolments. So the new log can be audited alone. first is the
// body of its first entry.
func (tx *Tx) carry(ctx context.Context, before int64, first canon.Digest, now canon.Time) error {
	given, err := tx.givenIn(ctx, before)
	if err != nil {
		return err
	}
	enrolled, err := tx.enrolledIn(ctx, before)
	if err != nil {
		return err
	}
	for _, r := range append(given, enrolled...) {
		d := Draft{Kind: r.Kind, Stream: r.Stream, Time: now, Body: r.Body, Refs: []canon.Digest{}}
		if r.Kind == ledger.KindEnrolment {
			d.Refs = append(d.Refs, first) // says that it was carried, see [ledger.Carried]
		}
		if _, _, err := tx.Append(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// givenIn returns those entries of the server's stream of a log that say what still counts.
func (tx *Tx) givenIn(ctx context.Context, log int64) ([]Record, error) {
	counts, err := readGiven(ctx, tx)
	if err != nil {
		return nil, err
	}
	issues, err := queryDigests(ctx, tx.SQL, `SELECT digest FROM issue`)
	if err != nil {
		return nil, err
	}
	for _, d := range issues {
		counts[givenID(ledger.KindCollateral, d)] = true
	}
	found, err := records(ctx, tx.SQL, `entry.log = $1 AND stream = $2 AND kind <> $3`, all, log, ledger.StreamServer, ledger.KindHeads)
	if err != nil {
		return nil, err
	}
	newest := map[string]Record{} // by what it is of
	for _, r := range found {
		of := r.Body
		switch r.Kind {
		case ledger.KindPolicy, ledger.KindReference:
		case ledger.KindCollateral:
			err = tx.body(ctx, r, func(data []byte) (err error) {
				c, err := ledger.ParseCollateral(data)
				of = c.Data
				return err
			})
		case ledger.KindEngine:
			err = tx.body(ctx, r, func(data []byte) (err error) {
				e, err := ledger.ParseEngine(data)
				of = e.Module
				return err
			})
		case ledger.KindErasure:
			err = tx.body(ctx, r, func(data []byte) error {
				e, err := ledger.ParseErasure(data)
				switch e.Act {
				case ledger.ActHold:
					newest["hold "+e.Hold] = r
				case ledger.ActRelease:
					delete(newest, "hold "+e.Hold)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			continue
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if id := givenID(r.Kind, of); counts[id] {
			newest[id] = r
		}
	}
	return inOrder(slices.Collect(maps.Values(newest))), nil
}

// enrolledIn returns the entries of the enrolments that stand at the end of a log: each of a node that was not revoked
// after it, each body once.
func (tx *Tx) enrolledIn(ctx context.Context, log int64) ([]Record, error) {
	found, err := records(ctx, tx.SQL, `entry.log = $1 AND kind = 'enrolment/v1'`, all, log)
	if err != nil {
		return nil, err
	}
	standing := map[string]map[canon.Digest]Record{} // by node
	for _, r := range found {
		err := tx.body(ctx, r, func(data []byte) error {
			e, err := ledger.ParseEnrolment(data)
			switch {
			case e.Basis == ledger.BasisRevoked:
				delete(standing, e.Node)
			case standing[e.Node] == nil:
				standing[e.Node] = map[canon.Digest]Record{r.Body: r}
			default:
				standing[e.Node][r.Body] = r
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var out []Record
	for _, of := range standing {
		out = slices.AppendSeq(out, maps.Values(of))
	}
	return inOrder(out), nil
}

// body reads the body of an entry of before.
func (tx *Tx) body(ctx context.Context, r Record, parse func([]byte) error) error {
	data, err := tx.store.Blob(ctx, r.Body)
	if err == nil {
		err = parse(data)
	}
	if err != nil {
		return fmt.Errorf("entry %d, %s: %w", r.Index, r.Kind, err)
	}
	return nil
}

func inOrder(records []Record) []Record {
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Place, b.Place) })
	return records
}

// logKey returns the newest log key of a keyset that stands, which signs the keyset after it.
func (s *Server) logKey(set ledger.Keyset, now canon.Time) (ledger.Signer, error) {
	standing := set.Standing(ledger.UseLog, now)
	if len(standing) == 0 {
		return nil, fmt.Errorf("no log key stands at %s: does the clock jump?", now)
	}
	return s.ring.Find(ledger.UseLog, standing[0].SPKI)
}

// operatorKeys are all keys of the logs that a witness could have: none of them counts as one.
func (s *Server) operatorKeys() (out []ed25519.PublicKey) {
	for _, k := range s.keys.Load().history.Keys() {
		if public, err := k.Public(); err == nil {
			if ed, ok := public.(ed25519.PublicKey); ok {
				out = append(out, ed)
			}
		}
	}
	return out
}

// enterLog logs what this process was given where another process has begun the log that is open now: what it judges by is
// in the log before it judges. While a submission waits for its verdict, its log stays open.
func (s *Server) enterLog(ctx context.Context) error {
	log, err := s.store.Newest(ctx)
	if err != nil || log.Number == s.entered.Load() {
		return err
	}
	if err := s.logGiven(ctx); err != nil {
		return fmt.Errorf("log the settings: %w", err)
	}
	s.entered.Store(log.Number)
	return nil
}
