package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var (
	first  = &fstest.MapFile{Data: []byte(`CREATE TABLE account(name TEXT COLLATE "C" PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0), raw BYTEA);`)}
	second = &fstest.MapFile{Data: []byte(`CREATE TABLE note(id BIGINT PRIMARY KEY); INSERT INTO note VALUES (1);`)}
)

// onBoth runs a test on a new database of either kind.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "odd ?%name.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.URL(t)) })
}

func open(t *testing.T, url string, files fstest.MapFS) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	return db
}

func exec(ctx context.Context, query string, args ...any) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}
}

func TestMigrate(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		open(t, url, fstest.MapFS{"0001_account.sql": first})
		db := open(t, url, fstest.MapFS{"0001_account.sql": first, "0002_note.sql": second})
		open(t, url, fstest.MapFS{"0001_account.sql": first, "0002_note.sql": second}) // nothing to do
		var notes int
		if err := db.Reader().QueryRow(`SELECT count(*) FROM note`).Scan(&notes); err != nil || notes != 1 {
			t.Errorf("%d notes, want 1 (%v)", notes, err)
		}

		old, err := sqldb.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Close()
		err = old.Migrate(t.Context(), fstest.MapFS{"0001_account.sql": first})
		if err == nil || !strings.Contains(err.Error(), "the database has version 2, this build knows versions up to 1") {
			t.Errorf("older build: %v", err)
		}
	})
}

func TestMigrateFailsWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		db, err := sqldb.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		broken := fstest.MapFS{"0001_account.sql": first, "0002_note.sql": {Data: []byte(`CREATE TABLE note(id BIGINT PRIMARY KEY); INSERT INTO nowhere VALUES (1);`)}}
		if err := db.Migrate(t.Context(), broken); err == nil {
			t.Fatal("a broken migration passed")
		}
		if err := db.Migrate(t.Context(), fstest.MapFS{"0001_account.sql": first, "0002_note.sql": second}); err != nil {
			t.Fatalf("after the repair: %v", err)
		}
	})
}

func TestTx(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx := t.Context()
		db := open(t, url, fstest.MapFS{"0001_account.sql": first})
		insert := `INSERT INTO account(name, balance) VALUES ($1, $2)`
		steps := []struct {
			name string
			f    func(*sql.Tx) error
			want error
		}{
			{"new key", exec(ctx, insert, "a", 1), nil},
			{"taken key", exec(ctx, insert, "a", 1), sqldb.ErrExists},
			{"check holds", exec(ctx, `UPDATE account SET balance = balance - $1`, 1), nil},
			{"check fails", exec(ctx, `UPDATE account SET balance = balance - $1`, 1), sqldb.ErrCheck},
			{"own error rolls back", func(tx *sql.Tx) error {
				if err := exec(ctx, insert, "b", 1)(tx); err != nil {
					return err
				}
				return fs.ErrInvalid
			}, fs.ErrInvalid},
		}
		for _, s := range steps {
			if err := db.Tx(ctx, s.f); !errors.Is(err, s.want) {
				t.Errorf("%s: %v, want %v", s.name, err, s.want)
			}
		}
		var names string
		if err := db.Reader().QueryRow(`SELECT max(name) FROM account`).Scan(&names); err != nil || names != "a" {
			t.Errorf("left: %q, want only a (%v)", names, err)
		}
	})
}

func TestOrderIsThatOfBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		db := open(t, url, fstest.MapFS{"0001_account.sql": first})
		for _, name := range []string{"ä", "b", "B", "_", "a"} {
			if err := db.Tx(t.Context(), exec(t.Context(), `INSERT INTO account(name, balance) VALUES ($1, 0)`, name)); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := db.Reader().Query(`SELECT name FROM account ORDER BY name`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		if want := "[B _ a b ä]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestRetry makes two transactions lock two rows in opposite order: on PostgreSQL one of them is ended as a deadlock and
// runs again; on SQLite they wait for each other from the start.
func TestRetry(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx := t.Context()
		db := open(t, url, fstest.MapFS{"0001_account.sql": first})
		if err := db.Tx(ctx, exec(ctx, `INSERT INTO account(name, balance) VALUES ('a', 0), ('b', 0)`)); err != nil {
			t.Fatal(err)
		}
		const rounds = 5
		var wg sync.WaitGroup
		for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
			wg.Go(func() {
				for range rounds {
					err := db.Tx(ctx, func(tx *sql.Tx) error {
						for _, name := range order {
							if err := exec(ctx, `UPDATE account SET balance = balance + 1 WHERE name = $1`, name)(tx); err != nil {
								return fmt.Errorf("add to %s: %w", name, err)
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var sum int64
		if err := db.Reader().QueryRow(`SELECT CAST(sum(balance) AS BIGINT) FROM account`).Scan(&sum); err != nil || sum != 4*rounds {
			t.Errorf("sum %d, want %d (%v)", sum, 4*rounds, err)
		}
	})
}

// TestReadWithinTransactions: as many transactions as can be open at one time each read what is stored outside them.
func TestReadWithinTransactions(t *testing.T) {
	db := open(t, pgtest.URL(t), fstest.MapFS{"0002_note.sql": second})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // of a deadlock
	defer cancel()
	const n = 16
	var open, ended sync.WaitGroup
	open.Add(n)
	for range n {
		ended.Go(func() {
			if err := db.Tx(ctx, func(*sql.Tx) error {
				open.Done()
				open.Wait()
				var notes int
				return db.Reader().QueryRowContext(ctx, `SELECT count(*) FROM note`).Scan(&notes)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "sqlite:", "mysql://u:secret@h/d", "/a/path", "sqlite:/no/such/folder/x.db"} {
		db, err := sqldb.Open(t.Context(), url)
		if err == nil {
			db.Close()
			t.Errorf("%q: opened", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", url, err)
		}
	}
}

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	open(t, "sqlite:"+path, fstest.MapFS{"0001_account.sql": first})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600 (%v)", info.Mode(), err)
	}
}

func TestValues(t *testing.T) {
	if got, want := sqldb.Values(2, 3), "($1,$2,$3),($4,$5,$6)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestUnavailable: a database that goes away in mid-transaction, or has no room left, says so, keeps nothing of the
// transaction, and works again once it is back.
func TestUnavailable(t *testing.T) {
	insert := `INSERT INTO account(name, balance, raw) VALUES ($1, 1, $2)`
	check := func(t *testing.T, db *sqldb.DB, failed error, repair func()) {
		t.Helper()
		if !errors.Is(failed, sqldb.ErrUnavailable) {
			t.Errorf("%v, want %v", failed, sqldb.ErrUnavailable)
		}
		repair()
		if err := db.Tx(t.Context(), exec(t.Context(), insert, "after", nil)); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.Reader().QueryRow(`SELECT count(*) FROM account`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows, want the one of afterwards (%v)", n, err)
		}
	}
	t.Run("postgres crashes", func(t *testing.T) {
		s := pgtest.NewServer(t)
		db := open(t, s.URL(), fstest.MapFS{"0001_account.sql": first})
		failed := db.Tx(t.Context(), func(tx *sql.Tx) error {
			if err := exec(t.Context(), insert, "before", nil)(tx); err != nil {
				t.Fatal(err)
			}
			s.Crash(t)
			return exec(t.Context(), insert, "while", nil)(tx)
		})
		if err := db.Tx(t.Context(), exec(t.Context(), insert, "down", nil)); !errors.Is(err, sqldb.ErrUnavailable) {
			t.Errorf("while it is down: %v, want %v", err, sqldb.ErrUnavailable)
		}
		for range 20 { // as many connections as there may be: some are open that the crash ended, then none is
			// Outside a transaction. That its socket is not there is none of the query's answers.
			var n int
			err := db.Reader().QueryRow(`SELECT count(*) FROM account`).Scan(&n)
			if !sqldb.Unavailable(err) || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
				t.Errorf("a query while it is down: %q, want one line that it is not available", err)
			}
		}
		if _, err := sqldb.Open(t.Context(), s.URL()); !errors.Is(err, sqldb.ErrUnavailable) || strings.Count(err.Error(), "failed to connect") != 1 {
			t.Errorf("opened while it is down: %v", err)
		}
		check(t, db, failed, func() { s.Start(t) })
	})
	t.Run("sqlite is full", func(t *testing.T) {
		db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "full.db"), fstest.MapFS{"0001_account.sql": first})
		limit := func(pages int) {
			t.Helper()
			if err := db.Tx(t.Context(), exec(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages))); err != nil {
				t.Fatal(err)
			}
		}
		limit(1) // as many as there are
		failed := db.Tx(t.Context(), exec(t.Context(), insert, "before", make([]byte, 1<<20)))
		check(t, db, failed, func() { limit(1 << 20) })
	})
	t.Run("a fault of the query is none of the database", func(t *testing.T) {
		onBoth(t, func(t *testing.T, url string) {
			db := open(t, url, fstest.MapFS{"0001_account.sql": first})
			if err := db.Tx(t.Context(), exec(t.Context(), `INSERT INTO nowhere VALUES (1)`)); err == nil || sqldb.Unavailable(err) {
				t.Errorf("%v, want another error than %v", err, sqldb.ErrUnavailable)
			}
			_, missing := os.Open(filepath.Join(t.TempDir(), "nothing"))
			if err := db.Tx(t.Context(), func(*sql.Tx) error { return missing }); !errors.Is(err, fs.ErrNotExist) || sqldb.Unavailable(err) {
				t.Errorf("%v, want %v alone", err, missing)
			}
		})
	})
}

// TestNow: the database's clock is that of this machine, in ms, and runs on within a transaction.
func TestNow(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		db := open(t, url, fstest.MapFS{"0001_account.sql": first})
		var before, after int64
		began := time.Now()
		if err := db.Tx(t.Context(), func(tx *sql.Tx) error {
			if err := tx.QueryRow(`SELECT ` + db.Now()).Scan(&before); err != nil {
				return err
			}
			for after = before; after == before; {
				if err := tx.QueryRow(`SELECT ` + db.Now()).Scan(&after); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if before < began.UnixMilli()-1 || after > time.Now().UnixMilli()+1 {
			t.Errorf("clock %d to %d, this machine's %d to %d", before, after, began.UnixMilli(), time.Now().UnixMilli())
		}
	})
}
