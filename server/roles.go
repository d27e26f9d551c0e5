package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Roles of a process. All processes of one database may answer requests; of those that publish, and of those that turn
// due rows into events, one at a time does.
const (
	RoleAPI     = "api"     // answers requests
	RolePublish = "publish" // integrates entries into the tree, signs it and publishes the checkpoint
	RoleClock   = "clock"   // does what is due: appraisals
)

// Roles returns all roles.
func Roles() []string { return []string{RoleAPI, RolePublish, RoleClock} }

// turns are the leases that this process has at the moment.
type turns struct {
	mu   sync.Mutex
	held map[string]Lease
}

func (t *turns) of(role string) (Lease, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.held[role]
	return l, ok
}

// roles returns the roles whose turn it is, in the order of [Roles].
func (t *turns) roles() []string {
	out := []string{}
	for _, role := range Roles() {
		if _, ok := t.of(role); ok {
			out = append(out, role)
		}
	}
	return out
}

func (t *turns) set(role string, l Lease, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]Lease{}
	}
	if held {
		t.held[role] = l
	} else {
		delete(t.held, role)
	}
}

func (s *Server) runs(role string) bool { return slices.Contains(s.settings.Roles, role) }

// leaseLife is how long a role stays with a process that no longer renews it: so many intervals of publishing, within
// bounds.
func (s *Server) leaseLife() time.Duration {
	return min(max(leaseIntervals*s.settings.Interval, minLease), MaxLease)
}

// takeTurns renews the leases of this process, and takes the roles that are free.
func (s *Server) takeTurns(ctx context.Context) error {
	var errs []error
	for _, role := range []string{RolePublish, RoleClock} {
		if !s.runs(role) {
			continue
		}
		_, had := s.turns.of(role)
		l, err := s.store.Acquire(ctx, role, s.leaseLife())
		switch {
		case err == nil:
			s.turns.set(role, l, true)
			if !had {
				s.log.Info("role taken", "role", role, "epoch", l.epoch)
			}
		case errors.Is(err, ErrNotHeld):
			s.turns.set(role, Lease{}, false)
			if had {
				s.log.Warn("role lost", "role", role)
			}
		default:
			errs = append(errs, err) // what was held may still be: the fence knows
		}
	}
	if len(errs) == 0 {
		s.noteBack(ctx)
	}
	return errors.Join(errs...)
}

// leaseLoop keeps the roles until the context ends.
func (s *Server) leaseLoop(ctx context.Context) {
	tick := time.NewTicker(s.leaseLife() / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.takeTurns(ctx); err != nil && ctx.Err() == nil {
			s.failed("roles cannot be renewed", err)
		}
	}
}

// inTurn runs f where this process has the role: what f writes commits only while it has. That another process has it, or
// takes it meanwhile, is no error.
func (s *Server) inTurn(ctx context.Context, role string, f func(context.Context) error) error {
	l, ok := s.turns.of(role)
	if !ok {
		return nil
	}
	err := f(Under(ctx, l))
	if errors.Is(err, ErrNotHeld) {
		if _, still := s.turns.of(role); still { // else it is told already
			s.turns.set(role, Lease{}, false)
			s.log.Warn("role lost", "role", role, "why", err)
		}
		return nil
	}
	return err
}

// endTurns gives the roles of this process up.
func (s *Server) endTurns(ctx context.Context) error {
	var errs []error
	for _, role := range Roles() {
		if l, ok := s.turns.of(role); ok {
			errs = append(errs, s.store.Release(ctx, l))
			s.turns.set(role, Lease{}, false)
		}
	}
	return errors.Join(errs...)
}
