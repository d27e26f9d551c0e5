package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// Kinds of machines. The table machine has a row for each life cycle that began, with its state and the time at which
// something happens to it by itself; states that have no such time are listed in machine_end.
const (
	machineCertificate = "certificate"
	machineDevice      = "device"
)

// statements is a transaction, as far as state needs one.
type statements interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// prepared is a transaction that parses each of its few statements once, however often it is made. They end with it.
type prepared struct {
	*sql.Tx
	made map[string]*sql.Stmt
}

func (p prepared) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if made, ok := p.made[query]; ok {
		return made, nil
	}
	made, err := p.PrepareContext(ctx, query)
	if err == nil {
		p.made[query] = made
	}
	return made, err
}

func (p prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	made, err := p.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return made.ExecContext(ctx, args...)
}

func (p prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	made, err := p.statement(ctx, query)
	if err != nil {
		return p.Tx.QueryRowContext(ctx, query, args...) // it fails again, and says why
	}
	return made.QueryRowContext(ctx, args...)
}

// foldVetting does in the tables of state what follows from an entry of vetting, and returns what the life cycle has to say
// about it. The server calls it in the transaction that appends the entry, [Rebuild] where it meets the entry. Claims and
// parameters have no tables: whoever needs them reads the log.
func foldVetting(ctx context.Context, tx statements, lock string, h *vetting.History, commitment canon.Digest, e ledger.Event) ([]ledger.Draft, error) {
	if e.Entry.Kind != ledger.KindCertificate {
		return nil, nil
	}
	body, err := vetting.ParseBody(e.Entry, e.Body)
	if err != nil {
		return nil, err
	}
	switch {
	case body.Act != nil:
		if body.Act.Act == vetting.ActDraft {
			if err := putPlace(ctx, tx, body.Act.Certificate, body.Act.Place); err != nil {
				return nil, err
			}
		}
		return apply(ctx, tx, lock, machine[vetting.Certificate]{
			kind: machineCertificate, id: body.Act.Certificate, rule: h.Certify,
			of: func(c vetting.Certificate) (string, string) { return c.Place.Provider, c.Place.Host },
		}, commitment, e)
	case body.Sighting != nil:
		return apply(ctx, tx, lock, machine[vetting.DeviceState]{
			kind: machineDevice, id: body.Sighting.Device, rule: h.Hold,
			of:   func(d vetting.DeviceState) (string, string) { return d.Holder.Provider, d.Holder.Host },
			anew: func(d vetting.DeviceState) bool { return d.Status == vetting.Released },
		}, commitment, e)
	case body.Facts != nil:
		_, err = tx.ExecContext(ctx, `INSERT INTO provider(id, stake, contact_hours) VALUES ($1, $2, $3)
			ON CONFLICT (id) DO UPDATE SET stake = excluded.stake, contact_hours = excluded.contact_hours`,
			body.Facts.Provider, oneIf(body.Facts.Stake), body.Facts.ContactHours)
	case body.Observation != nil:
		_, err = tx.ExecContext(ctx, `INSERT INTO observed(certificate, body) VALUES ($1, $2)
			ON CONFLICT (certificate) DO UPDATE SET body = excluded.body`, body.Observation.Certificate, string(e.Body))
	case body.Notice != nil:
		_, err = tx.ExecContext(ctx, `INSERT INTO notice(entry, tenant, at, body) VALUES ($1, $2, $3, $4)`,
			commitment[:], providerOf(e.Entry), int64(e.Entry.Time), string(e.Body))
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", e.Entry.Kind, err)
	}
	return nil, nil
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// providerOf returns the provider in whose stream an entry stands.
func providerOf(e ledger.Entry) string { return e.Stream[len(ledger.ProviderStream("")):] }

// putPlace keeps which units a new certificate is about.
func putPlace(ctx context.Context, tx statements, certificate string, p vetting.Place) error {
	for _, u := range p.Units() {
		if _, err := tx.ExecContext(ctx, `INSERT INTO place_unit(kind, id, certificate) VALUES ($1, $2, $3)`, u.Kind.String(), u.ID, certificate); err != nil {
			return fmt.Errorf("store a place: %w", err)
		}
	}
	if p.Host == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO vetted(host, certificate) VALUES ($1, $2) ON CONFLICT (host) DO UPDATE SET certificate = excluded.certificate`, p.Host, certificate)
	if err != nil {
		return fmt.Errorf("store a place: %w", err)
	}
	return nil
}

// machine is how one life cycle is applied and stored.
type machine[S any] struct {
	kind, id string
	rule     ledger.Machine[S]
	of       func(S) (tenant, host string)
	anew     func(S) bool // of an ended one whether it may begin anew; nil: none may
}

// apply applies an event to the state of a machine and saves it.
func apply[S any](ctx context.Context, tx statements, lock string, m machine[S], commitment canon.Digest, e ledger.Event) ([]ledger.Draft, error) {
	state, err := loadMachine[S](ctx, tx, lock, m.kind, m.id)
	if err != nil && !errors.Is(err, errNoMachine) {
		return nil, err
	}
	if m.anew != nil && m.anew(state) {
		state = *new(S)
	}
	step, err := m.rule.Apply(state, e)
	if err != nil {
		return nil, &eventError{err}
	}
	data, err := canon.Marshal(step.State)
	if err != nil {
		return nil, err
	}
	due, ended := sql.NullInt64{Int64: int64(step.Due), Valid: !step.Terminal()}, sql.NullString{String: step.Status, Valid: step.Terminal()}
	tenant, host := m.of(step.State)
	_, err = tx.ExecContext(ctx, `INSERT INTO machine(kind, id, state, status, due, ended, tenant, host, entry) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (kind, id) DO UPDATE SET state = excluded.state, status = excluded.status, due = excluded.due, ended = excluded.ended,
			tenant = excluded.tenant, host = excluded.host, entry = excluded.entry, wait = 0`,
		m.kind, m.id, string(data), step.Status, due, ended, tenant, host, commitment[:])
	if err != nil {
		return nil, fmt.Errorf("store %s %s: %w", m.kind, m.id, err)
	}
	return step.Drafts, nil
}

// eventError says that an event does not fit the state that it would happen to.
type eventError struct{ error }

func (e *eventError) Unwrap() error { return e.error }

var errNoMachine = errors.New("no such machine")

// loadMachine returns the state of a machine. One that never began is [errNoMachine]. lock is what the database has for
// holding the row to the end of the transaction.
func loadMachine[S any](ctx context.Context, q querier, lock, kind, id string) (state S, err error) {
	var data string
	err = q.QueryRowContext(ctx, `SELECT state FROM machine WHERE kind = $1 AND id = $2`+lock, kind, id).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return state, errNoMachine
	}
	if err == nil {
		err = canon.Unmarshal([]byte(data), &state)
	}
	if err != nil {
		return state, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	return state, nil
}

// machines returns the states that a condition selects, ordered by id.
func machines[S any](ctx context.Context, q rowsQuerier, where string, args ...any) (out []S, err error) {
	rows, err := q.QueryContext(ctx, `SELECT state FROM machine WHERE `+where+` ORDER BY id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read machines: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var data string
		var state S
		if err := rows.Scan(&data); err != nil {
			return nil, fmt.Errorf("read machines: %w", err)
		}
		if err := canon.Unmarshal([]byte(data), &state); err != nil {
			return nil, fmt.Errorf("read machines: damaged database: %w", err)
		}
		out = append(out, state)
	}
	return out, rows.Err()
}

// room is what a process remembers of the log for the room of vetting: what issuers said, and the operator's parameters. It
// is owned by whoever has the lock of the room in the database, and is a cache: without it, it is read anew.
type room struct {
	registry *vetting.Registry
	history  *vetting.History
	next     int64                 // place of the first entry that is not in it
	own      map[canon.Digest]bool // commitments from there on that are in it already
	dirty    bool                  // it has what is not committed
}

// liveKeys are the result keys of the log, as this process sees them now.
type liveKeys struct{ s *Server }

func (l liveKeys) SignerOf(e ledger.Envelope, use string, at canon.Time) (ledger.Key, error) {
	return l.s.keys.Load().history.SignerOf(e, use, at)
}

// sitting is one transaction of the room of vetting. No two are at one time, in whatever processes, so that each event is
// judged by all entries before it, and no other.
type sitting struct {
	*room
	s   *Server
	tx  *Tx
	sql prepared // tx.SQL
	now canon.Time

	happened bool     // something was logged
	after    []func() // to be done when it is committed
}

// afterwards has something told that is not undone where the transaction fails, or runs again.
func (v *sitting) afterwards(tell func()) { v.after = append(v.after, tell) }

// errClock says that this server's clock is behind what happened already by more than clocks may be.
var errClock = errors.New("the clock is wrong")

// clockProblem is what a caller is told of [errClock].
type clockProblem struct{ *problem }

func (clockProblem) Is(target error) bool { return target == errClock }
func (c clockProblem) Unwrap() error      { return c.problem }

// sit runs f as a transaction of the room. f may run several times.
func (s *Server) sit(ctx context.Context, f func(*sitting) error) error {
	s.roomMu.Lock()
	defer s.roomMu.Unlock()
	var after []func()
	err := s.store.Tx(ctx, func(tx *Tx) error {
		if s.room.dirty || s.room.registry == nil {
			s.room = room{registry: vetting.NewRegistry(liveKeys{s}), history: &vetting.History{}, own: map[canon.Digest]bool{}}
		}
		var last canon.Time
		if err := tx.SQL.QueryRowContext(ctx, `SELECT at FROM room WHERE name = 'vetting'`+s.store.db.ForUpdate()).Scan((*int64)(&last)); err != nil {
			return fmt.Errorf("take the room: %w", err)
		}
		now, ok := s.timeAfter(last)
		if !ok {
			return clockProblem{&problem{code: codeBusy, detail: fmt.Sprintf("the last event is of %s, by this server's clock it is %s: one of the two is wrong", last, now), retry: MaxBehind}}
		}
		if _, err := s.keysNow(ctx); err != nil { // now that nobody else says anything by a newer one
			return err
		}
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		v := &sitting{room: &s.room, s: s, tx: tx, sql: prepared{tx.SQL, map[string]*sql.Stmt{}}, now: now}
		err := f(v)
		after = v.after
		if err != nil || !v.happened {
			return err
		}
		if _, err := tx.SQL.ExecContext(ctx, `UPDATE room SET at = $1 WHERE name = 'vetting'`, int64(now)); err != nil {
			return fmt.Errorf("leave the room: %w", err)
		}
		return nil
	})
	if err == nil {
		s.room.dirty = false
		for _, tell := range after {
			tell()
		}
	}
	return err
}

// catchUp reads what others have logged meanwhile.
func (s *Server) catchUp(ctx context.Context) error {
	for {
		found, err := records(ctx, s.store.db.Reader(), `kind IN ('claim/v1', 'rules/v1') AND place >= $1`, integrateBatch, s.room.next)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, r := range found {
			if !s.room.own[r.Commitment] {
				body, err := s.store.Blob(ctx, r.Body)
				if err != nil {
					return err
				}
				if err := s.room.learn(ledger.Event{Entry: r.Entry, Body: body}); err != nil {
					return fmt.Errorf("damaged database: entry %d: %w", r.Index, err)
				}
			}
			delete(s.room.own, r.Commitment)
			s.room.next = r.Place + 1
		}
	}
}

func (r *room) learn(e ledger.Event) error {
	if e.Entry.Kind == ledger.KindRules {
		return r.history.Add(e)
	}
	return r.registry.Add(e)
}

// happen logs an event and does what follows from it, until nothing follows: all of it commits, or none. The entries that
// follow stand directly behind the event.
func (v *sitting) happen(ctx context.Context, d ledger.Draft) error {
	for queue := []ledger.Draft{d}; len(queue) > 0; {
		next := queue[0]
		queue = queue[1:]
		if next.Refs == nil {
			next.Refs = []canon.Digest{}
		}
		commitment, entry, err := v.tx.Append(ctx, Draft{Kind: next.Kind, Stream: next.Stream, Time: v.now, Body: v.tx.PutBlob(next.Body), Refs: next.Refs})
		if err != nil {
			return err
		}
		v.happened = true
		e := ledger.Event{Entry: entry, Body: next.Body}
		if entry.Kind == ledger.KindClaim || entry.Kind == ledger.KindRules {
			if err := v.learn(e); err != nil {
				return &eventError{err} // which changes nothing
			}
			v.dirty, v.own[commitment] = true, true
		}
		v.s.store.testingOnlyStep("event")
		drafts, err := foldVetting(ctx, v.sql, v.s.store.db.ForUpdate(), v.history, commitment, e)
		if err != nil {
			return err
		}
		queue = append(queue, drafts...)
	}
	return nil
}

// certificateEvent logs a document in the stream of a provider.
func (v *sitting) certificateEvent(ctx context.Context, provider string, document any, refs ...canon.Digest) error {
	body, err := canon.Marshal(document)
	if err != nil {
		return err
	}
	return v.happen(ctx, ledger.Draft{Kind: ledger.KindCertificate, Stream: ledger.ProviderStream(provider), Body: body, Refs: refs})
}
