package server_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/sqldb/pgtest"
)

// TestDatabaseGoesAway: while the database is away every request that needs it is told so, and to come again; what was
// promised before is kept, and the server goes on by itself once the database is back. The twin: a request
// that is wrong is not laid to the database.
func TestDatabaseGoesAway(t *testing.T) {
	pg := pgtest.NewServer(t)
	l := newLab(t, pg.URL())
	n := l.join("one")
	sent := n.evidence(n.challenge())
	first := n.submit(sent)
	waiting := n.evidence(n.challenge())

	pg.Crash(t)
	for _, path := range []string{"GET /v1/health", "GET /v1/keys", "GET /v1/checkpoints?around=0", "GET /log/checkpoint", "GET /log/tile/0/000",
		"GET /v1/results/" + strings.Repeat("0", 64), "POST /v1/challenges", "GET /v1/nodes"} {
		method, path, _ := strings.Cut(path, " ")
		credential := n.credential
		if path == "/v1/nodes" {
			credential = l.admin
		}
		resp, body := l.send(method, path, credential, "", nil)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "the database is not available") {
			t.Errorf("%s %s: %d, Retry-After %q, %s", method, path, resp.StatusCode, resp.Header.Get("Retry-After"), body)
		}
	}
	_, err := n.client().Submit(t.Context(), waiting)
	if p := refused(t, err, 503, "busy"); p.RetryAfter == 0 {
		t.Error("no word on when to come again")
	}
	if err := l.server.Advance(t.Context()); err == nil {
		t.Error("the server went on without a database")
	}

	pg.Start(t)
	again := n.submit(sent)
	if !sameJSON(t, again, first) {
		t.Errorf("promise %s, want that of before: %s", again.Promise.Payload, first.Promise.Payload)
	}
	l.audited(first, n.submit(waiting))

	resp, body := l.send("GET", "/v1/results/xyz", n.credential, "", nil)
	if resp.StatusCode != 400 || strings.Contains(string(body), "database") {
		t.Errorf("a request that is wrong: %d %s", resp.StatusCode, body)
	}
}
