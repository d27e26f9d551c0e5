package server_test

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// dump returns the rows of every table but those of leases, in an order that does not depend on the database.
func dump(t *testing.T, url string) map[string][]string {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	tables, err := db.Tables(t.Context())
	must(t, err)
	all := map[string][]string{}
	for _, table := range tables {
		if table == "lease" {
			continue
		}
		rows, err := db.Reader().Query(`SELECT * FROM ` + table)
		must(t, err)
		columns, err := rows.Columns()
		must(t, err)
		all[table] = []string{}
		for rows.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			must(t, rows.Scan(into...))
			for i, v := range row {
				if b, ok := v.([]byte); ok {
					row[i] = fmt.Sprintf("%x", b)
				}
			}
			all[table] = append(all[table], fmt.Sprint(row...))
		}
		must(t, rows.Err())
		must(t, rows.Close())
		slices.Sort(all[table])
	}
	return all
}

// databases returns a new database of each kind, by its name.
func databases(t *testing.T) map[string]string {
	return map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "rebuilt.db"), "postgres": pgtest.URL(t)}
}

// eventful has a verifier live through all that leaves something in a table. It returns the promises that it gave.
func eventful(t *testing.T, l *lab) (submitted []client.Submitted) {
	t.Helper()
	prove := func(n *node) {
		t.Helper()
		s := n.submit(n.evidence(n.challenge()))
		submitted = append(submitted, s)
		l.advance()
		n.decision(s.Evidence)
	}
	one, two := l.join("one"), l.join("two")
	prove(one)
	l.rest(2 * time.Hour) // past hourly entries
	prove(two)
	prove(one)
	contested := l.join("one")
	prove(contested)
	must(t, l.client(l.admin).Revoke(t.Context(), one.id))
	prove(contested) // holds the device now
	two.challenge()  // is not answered
	l.advance()
	submitted = append(submitted, two.submit(two.evidence(two.challenge()))) // is not decided
	return submitted
}

// TestRebuild: every table of state follows from the log. A database of either kind that is rebuilt into either kind is
// the same, row by row, and a server goes on with it where the other stood.
func TestRebuild(t *testing.T) {
	onBoth(t, func(t *testing.T, from string) {
		l := newLab(t, from)
		submitted := eventful(t, l)
		rebuiltAlike(t, from, "node", "device", "challenge", "submission", "heads", "stream_head", "tile", "checkpoint", "secret", "given", "ear_key", "issue")
		// The old server ends, the new one has its place.
		settings := l.settings
		l.http.Close()
		must(t, l.server.Close())
		for _, to := range databases(t) {
			_, err := server.Rebuild(t.Context(), from, to, rand.Reader, nil)
			must(t, err)
			next := &lab{t: t, clock: l.clock, amd: l.amd, log: &bytes.Buffer{}, settings: settings, admin: l.admin}
			next.settings.Database = to
			next.start()
			next.audited(submitted...)
			if d, _ := next.join("three").prove(); d.Outcome != client.Accept {
				t.Errorf("on the rebuilt database: %s", d.Outcome)
			}
			next.audited(submitted...)
		}
	})
}

// rebuiltAlike rebuilds a database into one of each kind, and compares all tables. Those named must have rows.
func rebuiltAlike(t *testing.T, from string, filled ...string) {
	t.Helper()
	store, err := server.OpenStore(t.Context(), from, rand.Reader)
	must(t, err)
	for n := 1; n > 0; { // what waits is in the tree, as it will be in the rebuilt one
		n, err = store.Integrate(t.Context(), 1000)
		must(t, err)
	}
	must(t, store.Close())
	want := dump(t, from)
	for _, table := range filled {
		if len(want[table]) == 0 {
			t.Errorf("nothing of %s is put to the test", table)
		}
	}
	for kind, to := range databases(t) {
		t.Run("into "+kind, func(t *testing.T) {
			var told, of int64
			done, err := server.Rebuild(t.Context(), from, to, rand.Reader, func(_ string, done, total int64) { told, of = done, total })
			must(t, err)
			if told != done.Entries || of != done.Entries {
				t.Errorf("progress ended with %d of %d, want %d of %d", told, of, done.Entries, done.Entries)
			}
			got := dump(t, to)
			for table, rows := range want {
				if !slices.Equal(got[table], rows) {
					t.Errorf("%s: %d rows, want %d\n%s\nwant\n%s", table, len(got[table]), len(rows), strings.Join(got[table], "\n"), strings.Join(rows, "\n"))
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d tables, want %d", len(got), len(want))
			}
			if !slices.Contains(done.Carried, "blob") || slices.Contains(done.Carried, "submission") {
				t.Errorf("carried over: %q", done.Carried)
			}
		})
	}
}

// TestRebuildTPM: keys that were activated, and clocks, follow from the log as well.
func TestRebuildTPM(t *testing.T) {
	m, dev := bareMetal(t)
	from := "sqlite:" + filepath.Join(t.TempDir(), "assay.db")
	l := tpmLab(t, from, "genuine", m)
	n := l.joinTPM(dev)
	n.activate(dev)
	l.clock.advance(time.Minute)
	n.activate(dev)
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Fatal(d)
	}
	rebuiltAlike(t, from, "activation", "tpm_clock")
}

// TestRebuildRefuses: what the entries do not bear out is not rebuilt, and the new database stays empty.
func TestRebuildRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change string // of the old database
		want   string
	}{
		{"as it is", ``, ""},
		{"an entry is missing", `DELETE FROM entry WHERE place = 3`, "entry 3 is missing"},
		{"the last published entry is missing", `DELETE FROM entry WHERE place >= (SELECT MAX(size) - 1 FROM checkpoint)`, "it is smaller"},
		{"the salt of an entry is another", `UPDATE entry SET opening = $1 WHERE place = 0`, "do not make the tree of the newest checkpoint"},
		{"an entry is said to follow another", `UPDATE entry SET opening = (SELECT opening FROM entry WHERE place = 1) WHERE place = 2`, "stream server: entry 1 where 2 was due"},
		{"a promise is of another entry", `UPDATE submission SET promise = (SELECT promise FROM submission ORDER BY evidence LIMIT 1)`, "its promise is of another entry"},
		{"a promise is missing", `DELETE FROM submission WHERE evidence = (SELECT evidence FROM submission ORDER BY evidence LIMIT 1)`, "look up its promise"},
		{"the body of an entry is missing", `DELETE FROM blob WHERE digest = (SELECT body FROM entry WHERE kind = '` + ledger.KindChallenge + `' ORDER BY place LIMIT 1)`, ledger.KindChallenge + ": blob"},
		{"a checkpoint of another tree", `UPDATE checkpoint SET note = $2`, "another root"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, to := "sqlite:"+filepath.Join(t.TempDir(), "assay.db"), "sqlite:"+filepath.Join(t.TempDir(), "rebuilt.db")
			l := newLab(t, from)
			n := l.join("one")
			n.prove()
			n.prove()
			l.http.Close()
			must(t, l.server.Close())
			db, err := sqldb.Open(t.Context(), from)
			must(t, err)
			must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
				if tc.change == "" {
					return nil
				}
				var args []any
				if strings.Contains(tc.change, "$1") {
					var opening []byte
					must(t, tx.QueryRow(`SELECT opening FROM entry WHERE place = 0`).Scan(&opening))
					_, e, err := ledger.ParseOpening(opening)
					must(t, err)
					data, err := e.Canonical()
					must(t, err)
					args = append(args, ledger.Opening([ledger.SaltSize]byte{1}, data))
				}
				if strings.Contains(tc.change, "$2") {
					var size int64
					must(t, tx.QueryRow(`SELECT MAX(size) FROM checkpoint`).Scan(&size))
					signer, _ := logKey(t)
					signed, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: origin, Tree: ledger.Tree{Size: size, Root: canon.Sum(nil)}}, signer)
					must(t, err)
					args = []any{nil, string(signed)}
				}
				_, err := tx.Exec(tc.change, args...)
				return err
			}))
			must(t, db.Close())
			_, err = server.Rebuild(t.Context(), from, to, rand.Reader, nil)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			filled := dump(t, to)
			if n := len(filled["entry"]) + len(filled["node"]) + len(filled["blob"]); (n == 0) != (tc.want != "") {
				t.Errorf("%d rows in the new database", n)
			}
			if tc.want == "" {
				if _, err := server.Rebuild(t.Context(), from, to, rand.Reader, nil); err == nil || !strings.Contains(err.Error(), "want an empty one") {
					t.Errorf("into a database that has a log: %v", err)
				}
			}
		})
	}
}
