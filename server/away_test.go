package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
)

// TestDatabaseAway: while the database is away, whoever asks learns that and when to come again, at every operation and
// whether it reads or writes, and the operator learns it once; when it is back, the same requests are answered.
func TestDatabaseAway(t *testing.T) {
	pg := pgtest.NewServer(t)
	l := newLab(t, pg.URL())
	n := l.join("one")
	sent := n.evidence(n.challenge())
	promised := n.submit(sent)
	data := n.evidence(n.challenge())
	requests := []struct {
		method, path, contentType string
		body                      []byte
		want                      int
	}{
		{http.MethodGet, "/v1/checkpoints?around=0", "", nil, http.StatusOK},
		{http.MethodGet, "/log/tile/0/000.p/1", "", nil, http.StatusOK},
		{http.MethodGet, "/v1/results/" + strings.Repeat("0", 64), "", nil, http.StatusNotFound},
		{http.MethodGet, "/v1/results/xyz", "", nil, http.StatusBadRequest}, // once its caller is known
		{http.MethodGet, "/v1/health", "", nil, http.StatusOK},
		{http.MethodGet, "/log/checkpoint", "", nil, http.StatusOK},
		{http.MethodGet, "/v1/keys", "", nil, http.StatusOK},
		{http.MethodPost, "/v1/evidence", "application/vnd.dsse.envelope.v1+json", data, http.StatusAccepted},
		{http.MethodPost, "/v1/challenges", "application/json", []byte("{}"), http.StatusCreated},
	}
	pg.Crash(t)
	for range 5 { // also those connections that were open when it went
		for _, r := range requests {
			resp, body := l.send(r.method, r.path, n.credential, r.contentType, r.body)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s while it is away: %d %q, want 503 and Retry-After", r.method, r.path, resp.StatusCode, body)
			}
		}
	}
	if err := l.server.Advance(t.Context()); !sqldb.Unavailable(err) {
		t.Errorf("the server's own work while it is away: %v", err)
	}
	told := func(words string, want int) {
		t.Helper()
		if got := strings.Count(l.log.String(), words); got != want {
			t.Errorf("%q is told %d times, want %d\n%s", words, got, want, l.log)
		}
	}
	told("alarm=true", 1)
	pg.Start(t)
	l.advance()
	told(`msg="the database is available again"`, 1)
	if again := n.submit(sent); !sameJSON(t, again, promised) {
		t.Errorf("promise %s, want that of before: %s", again.Promise.Payload, promised.Promise.Payload)
	}
	for _, r := range requests {
		if resp, body := l.send(r.method, r.path, n.credential, r.contentType, r.body); resp.StatusCode != r.want {
			t.Errorf("%s %s when it is back: %d %q, want %d", r.method, r.path, resp.StatusCode, body, r.want)
		}
	}
}
