package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// ErrNotHeld is returned to a process that has lost a role to another one, or never had it.
var ErrNotHeld = errors.New("another process has the role")

// Lease is a role that this process has, until it lapses and another one takes it. It is worth nothing by itself: a write
// of the role is made with a context of [Store.Under], and then commits only if nobody has taken the role meanwhile.
//
// Nothing that is written depends on a clock, therefore. Clocks say only when a role may be taken from a process that
// seems dead, and there the database's is the one that counts.
type Lease struct {
	role  string
	epoch int64
}

// starts counts the stores that this process opened.
var starts atomic.Int64

// holderName names one start of one process. The random part tells apart machines that have the same name.
func (s *Store) holderName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this process: %w", err)
	}
	salt, err := s.salt()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%d/%d/%x", host, os.Getpid(), starts.Add(1), salt[:8]), nil
}

// Acquire takes a role, or renews the lease that this store has of it, for life from now on. It is another's while that
// one renews it: [ErrNotHeld]. An expiry that nobody could have written says that the database's clock went back; the
// role is free then, too.
//
// A SQLite file is one process's: who opens it takes all roles over from whoever had it open before.
func (s *Store) Acquire(ctx context.Context, role string, life time.Duration) (Lease, error) {
	l := Lease{role: role}
	holder, err := s.holder()
	if err != nil {
		return Lease{}, err
	}
	now, over := s.db.Now(), int64(0)
	if _, before := s.had.Load(role); !before && !s.db.Shared() {
		over = 1
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `UPDATE lease SET holder = $2, epoch = epoch + CASE WHEN holder = $2 THEN 0 ELSE 1 END, expires = `+now+` + $3
			WHERE name = $1 AND (holder = $2 OR expires <= `+now+` OR expires > `+now+` + $4 OR $5 = 1) RETURNING epoch`,
			role, holder, life.Milliseconds(), MaxLease.Milliseconds(), over).Scan(&l.epoch)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Lease{}, fmt.Errorf("role %s: %w", role, ErrNotHeld)
	case err != nil:
		return Lease{}, fmt.Errorf("take role %s: %w", role, err)
	}
	s.had.Store(role, true)
	return l, nil
}

// Release gives a role up, so that another process need not wait for it. A lease that was lost is nothing to give up.
func (s *Store) Release(ctx context.Context, l Lease) error {
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE lease SET expires = 0 WHERE name = $1 AND epoch = $2`, l.role, l.epoch)
		return err
	})
	if err != nil {
		return fmt.Errorf("release role %s: %w", l.role, err)
	}
	return nil
}

type leaseKey struct{}

// Under returns a context for the writes of a role: every transaction of a store that is made with it fails with
// [ErrNotHeld], and changes nothing, once another process has taken the role.
func Under(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// sqlTx runs f in one transaction, under the lease that the context carries, if any.
func (s *Store) sqlTx(ctx context.Context, f func(*sql.Tx) error) error {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	if !ok {
		return s.db.Tx(ctx, f)
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The row is held to the end of the transaction: whoever takes the role waits for it, and finds it done.
		var epoch int64
		if err := tx.QueryRowContext(ctx, `SELECT epoch FROM lease WHERE name = $1`+s.db.ForUpdate(), l.role).Scan(&epoch); err != nil {
			return fmt.Errorf("look up role %s: %w", l.role, err)
		}
		if epoch != l.epoch {
			return fmt.Errorf("role %s, epoch %d, is at epoch %d: %w", l.role, l.epoch, epoch, ErrNotHeld)
		}
		return f(tx)
	})
}
