package server_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// setExpiry stands for the database's clock that moved: the expiry of a role is at a distance from its now.
func setExpiry(t *testing.T, url, role string, fromNow time.Duration) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE lease SET expires = `+db.Now()+` + $1 WHERE name = $2`, fromNow.Milliseconds(), role)
		return err
	}))
}

// TestLease follows a role from one process to another.
func TestLease(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx := t.Context()
		a, b := openStore(t, url), openStore(t, url)
		take := func(s *server.Store, want error) server.Lease {
			t.Helper()
			l, err := s.Acquire(ctx, server.RolePublish, server.MaxLease)
			if !errors.Is(err, want) {
				t.Fatalf("acquire: %v, want %v", err, want)
			}
			return l
		}
		first := take(a, nil)
		if again := take(a, nil); again != first {
			t.Errorf("renewed as %+v, was %+v: the same epoch goes on", again, first)
		}
		if _, err := b.Acquire(ctx, server.RoleClock, server.MaxLease); err != nil {
			t.Errorf("another role: %v", err)
		}
		if strings.HasPrefix(url, "sqlite:") {
			take(b, nil) // a SQLite file is its last opener's
			take(a, server.ErrNotHeld)
			must(t, b.Release(ctx, take(b, nil)))
			first = take(a, nil)
		}
		take(b, server.ErrNotHeld)
		must(t, a.Release(ctx, first))
		second := take(b, nil)
		must(t, a.Release(ctx, first)) // is not a's to release any more
		take(a, server.ErrNotHeld)

		setExpiry(t, url, server.RolePublish, 0) // b let it lapse
		third := take(a, nil)
		setExpiry(t, url, server.RolePublish, server.MaxLease/2)
		take(b, server.ErrNotHeld)
		setExpiry(t, url, server.RolePublish, time.Hour) // the database's clock went back by an hour
		fourth := take(b, nil)
		if second == third || third == fourth || second == fourth {
			t.Errorf("leases %+v, %+v, %+v: each taking over has an epoch of its own", second, third, fourth)
		}
	})
}

// TestFence: what a role writes is refused once another process has taken the role, even where the first has it again.
func TestFence(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		a, b := openStore(t, url), openStore(t, url)
		signer, _ := logKey(t)
		acquire := func(s *server.Store) server.Lease {
			t.Helper()
			setExpiry(t, url, server.RolePublish, 0)
			l, err := s.Acquire(t.Context(), server.RolePublish, server.MaxLease)
			must(t, err)
			return l
		}
		writes := map[string]func(context.Context, *server.Store) error{
			"append": func(ctx context.Context, s *server.Store) error {
				return s.Tx(ctx, func(tx *server.Tx) error {
					_, _, err := tx.Append(ctx, server.Draft{Kind: ledger.KindEvidence, Stream: "node:n1", Time: start, Body: tx.PutBlob([]byte("body"))})
					return err
				})
			},
			"integrate": func(ctx context.Context, s *server.Store) error { _, err := s.Integrate(ctx, 1); return err },
			"publish": func(ctx context.Context, s *server.Store) error {
				_, err := newest(t, s).Publish(ctx, signer, start, nil)
				return err
			},
		}
		acquire(b) // so that no later taking over is the first of a SQLite file
		for _, name := range []string{"append", "integrate", "publish"} {
			stale := server.Under(t.Context(), acquire(a))
			appendSome(t, a, "n1", 2)
			if name == "publish" {
				integrate(t, a, 100, 6) // with what the other two left
			}
			before, err := a.Progress(t.Context())
			must(t, err)
			acquire(b)
			for _, when := range []string{"another has the role", "it has the role again"} {
				if err := writes[name](stale, a); !errors.Is(err, server.ErrNotHeld) {
					t.Errorf("%s while %s: %v, want %v", name, when, err, server.ErrNotHeld)
				}
				if p, err := a.Progress(t.Context()); err != nil || p != before {
					t.Errorf("%s while %s: changed %+v to %+v (%v)", name, when, before, p, err)
				}
				acquire(a)
			}
			if err := writes[name](server.Under(t.Context(), acquire(a)), a); err != nil {
				t.Errorf("%s under a lease that stands: %v", name, err)
			}
		}
	})
}

// TestTurns: of two servers on one database one publishes and judges; the other answers, and takes over when the first
// is gone.
func TestTurns(t *testing.T) {
	l := newLab(t, pgtest.URL(t))
	second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(3), Log: quiet()})
	must(t, err)
	defer second.Close()
	n := l.join("one")
	sub := n.submit(n.evidence(n.challenge()))
	must(t, second.Advance(t.Context()))
	if r, err := n.client().Result(t.Context(), sub.Evidence); err != nil || r.State != "received" {
		t.Errorf("out of turn: state %s (%v), want received", r.State, err)
	}
	must(t, l.server.Close())
	must(t, second.Advance(t.Context()))
	l.restart()
	if d := n.decision(sub.Evidence); d.Outcome != "accept" {
		t.Errorf("after taking over: %s", d.Outcome)
	}
	h, err := l.client("").Health(t.Context())
	must(t, err)
	if len(h.Turns) != 0 || len(h.Roles) != 3 {
		t.Errorf("health of the one that is not its turn: %+v", h)
	}
}

// TestRoleLost: a process that finds its role taken while it works says so once.
func TestRoleLost(t *testing.T) {
	url := pgtest.URL(t)
	l := newLab(t, url)
	second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(3), Log: quiet()})
	must(t, err)
	defer second.Close()
	setExpiry(t, url, server.RolePublish, -time.Second)
	must(t, second.Advance(t.Context()))
	for range 3 {
		must(t, l.server.TestingOnlyPublish(t.Context()))
	}
	l.advance()
	if told := strings.Count(l.log.String(), `msg="role lost" role=publish`); told != 1 {
		t.Errorf("told %d times: %s", told, l.log)
	}
}

// TestRoles: a process does what it was started for and nothing else, and says so.
func TestRoles(t *testing.T) {
	url := pgtest.URL(t)
	api := newLab(t, url, func(s *server.Settings) { s.Roles = []string{server.RoleAPI} })
	n := api.join("one")
	sub := n.submit(n.evidence(n.challenge()))
	api.advance()
	state := func() string {
		t.Helper()
		r, err := n.client().Result(t.Context(), sub.Evidence)
		must(t, err)
		return r.State
	}
	if got := state(); got != "received" {
		t.Errorf("a process of role api decided: %s", got)
	}
	if h, err := api.client("").Health(t.Context()); err != nil || h.Waiting == 0 || len(h.Turns) != 0 {
		t.Errorf("health before anybody published: %+v (%v)", h, err)
	}
	for _, role := range []string{server.RolePublish, server.RoleClock} { // in this order: what publishes does not judge
		settings := api.settings
		settings.Roles = []string{role}
		s, err := server.New(t.Context(), settings, server.Deps{Now: api.clock.Now, Random: newSource(4), Log: quiet()})
		must(t, err)
		must(t, s.Advance(t.Context()))
		other := lab{t: t, server: s, http: httptest.NewServer(s.Handler())}
		t.Cleanup(other.http.Close)
		h, err := other.client("").Health(t.Context())
		if err != nil || !sameJSON(t, h.Roles, settings.Roles) || !sameJSON(t, h.Turns, settings.Roles) {
			t.Errorf("health of role %s: %+v (%v)", role, h, err)
		}
		if resp, _ := other.send("GET", "/log/checkpoint", "", "", nil); resp.StatusCode != 404 {
			t.Errorf("role %s answers requests: %d", role, resp.StatusCode)
		}
		if p, err := api.client("").Health(t.Context()); err != nil || (p.Waiting == 0) != (role == server.RolePublish) {
			t.Errorf("after role %s: %+v (%v)", role, p, err)
		}
		if decided := state() == "decided"; decided != (role == server.RoleClock) {
			t.Errorf("after role %s: decided %v", role, decided)
		}
		must(t, s.Close())
	}
}
