package server_test

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// TestLookUpInRuns: every entry is found by both of its digests, and what is not there is not found: while no run has a
// filter, when all complete ones have, by a store that has just been opened, and by one that has seen less of the log.
func TestLookUpInRuns(t *testing.T) {
	const entries = 2*server.RunEntries + 500
	onBoth(t, func(t *testing.T, url string) {
		empty := openStore(t, url)
		if _, err := empty.Entry(t.Context(), canon.Digest{1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("in an empty log: %v, want %v", err, fs.ErrNotExist)
		}
		must(t, empty.Close())
		kept := bulkLoad(t, url, entries-1000) // the second run is not complete
		before := openStore(t, url)
		check := func(name string, s *server.Store) {
			t.Helper()
			for i, k := range kept {
				if i%40 > 0 && i < len(kept)-10 {
					continue
				}
				r, err := s.Entry(t.Context(), k.commitment)
				if err != nil || r.Index != k.place || canon.Sum(r.Opening) != k.commitment {
					t.Fatalf("%s: commitment of entry %d: entry %d (%v)", name, k.place, r.Index, err)
				}
				same, err := s.EntriesOf(t.Context(), r.Body, 2)
				if err != nil || len(same) != 1 || same[0].Index != k.place {
					t.Fatalf("%s: body of entry %d: %d entries (%v)", name, k.place, len(same), err)
				}
				if opening, err := s.Blob(t.Context(), k.commitment); err != nil || canon.Sum(opening) != k.commitment {
					t.Fatalf("%s: opening of entry %d: %v", name, k.place, err)
				}
				for _, other := range []canon.Digest{flipped(k.commitment, 0), flipped(k.commitment, 9), flipped(r.Body, 31)} {
					if _, err := s.Entry(t.Context(), other); !errors.Is(err, fs.ErrNotExist) {
						t.Fatalf("%s: a digest that no entry has: %v, want %v", name, err, fs.ErrNotExist)
					}
				}
				if r, err := s.EntriesOf(t.Context(), k.commitment, 1); err != nil || len(r) > 0 {
					t.Fatalf("%s: a commitment is no body: %d entries (%v)", name, len(r), err)
				}
			}
		}
		filters := func(want int) {
			t.Helper()
			if got := len(dump(t, url)["run_filter"]); got != want {
				t.Errorf("%d filters, want %d", got, want)
			}
		}
		check("no filter, opened before", before)
		check("no filter", openStore(t, url))
		other := openStore(t, url)
		must(t, other.FilterRuns(t.Context()))
		filters(1)
		check("one filter, opened before", before)

		// Another process completes the second run and begins a third. A body comes again in each.
		again := must1(before.Entry(t.Context(), kept[0].commitment))(t).Body
		must(t, other.Tx(t.Context(), func(tx *server.Tx) error {
			for i := range 1000 {
				body := canon.Sum(fmt.Appendf(nil, "more %d", i))
				if i == 300 || i == 900 {
					body = again
				}
				if _, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream("more"), Time: start, Body: body, Refs: []canon.Digest{body}}); err != nil {
					return err
				}
			}
			return nil
		}))
		newest := must1(other.Entries(t.Context(), entries-1, 1))(t)[0]
		if r, err := before.Entry(t.Context(), newest.Commitment); err != nil || r.Index != newest.Index {
			t.Errorf("in a run that the store has not seen: entry %d, want %d (%v)", r.Index, newest.Index, err)
		}
		kept = kept[1:]
		for _, r := range must1(other.Entries(t.Context(), entries-1000, 1000))(t) {
			if r.Body != again {
				kept = append(kept, loaded{r.Index, r.Commitment})
			}
		}
		check("one filter of two, opened before", before)
		must(t, other.FilterRuns(t.Context()))
		must(t, before.FilterRuns(t.Context())) // finds nothing to do
		filters(2)
		check("all filters, opened before", before)
		check("all filters", openStore(t, url))
		for limit, want := range map[int][]int64{1: {0}, 2: {0, entries - 700}, 9: {0, entries - 700, entries - 100}} {
			var got []int64
			for _, r := range must1(before.EntriesOf(t.Context(), again, limit))(t) {
				got = append(got, r.Index)
			}
			if !slices.Equal(got, want) {
				t.Errorf("a body that came three times, up to %d: entries %d, want %d", limit, got, want)
			}
		}
		checkPlan(t, url)
		t.Run("damaged filter", func(t *testing.T) {
			execSQL(t, url, `UPDATE run_filter SET data = $1 WHERE run = 1`, []byte{0xff})
			if _, err := openStore(t, url).Entry(t.Context(), kept[0].commitment); err == nil || !strings.Contains(err.Error(), "damaged database: the filter of run 1") {
				t.Errorf("%v, want an error that names the filter", err)
			}
		})
		t.Run("filters are made anew", func(t *testing.T) {
			want := dump(t, url)["run_filter"][0]
			execSQL(t, url, `DELETE FROM run_filter WHERE run >= $1`, 0)
			must(t, before.FilterRuns(t.Context()))
			filters(2)
			if got := dump(t, url)["run_filter"][0]; got != want {
				t.Error("the filter of run 0 is another")
			}
		})
		t.Run("an entry is missing", func(t *testing.T) {
			execSQL(t, url, `DELETE FROM run_filter WHERE run >= $1`, 0)
			execSQL(t, url, `DELETE FROM entry WHERE place = $1`, 77)
			if err := before.FilterRuns(t.Context()); err == nil || !strings.Contains(err.Error(), "run 0: damaged database: it has 65535 entries") {
				t.Errorf("%v, want an error that counts entries", err)
			}
			filters(0)
		})
	})
}

// checkPlan checks that look-ups go by the indexes.
func checkPlan(t *testing.T, url string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	explain, cond := `EXPLAIN `, `Index Cond: (((place / 65536) = ANY (`
	if strings.HasPrefix(url, "sqlite:") {
		explain, cond = `EXPLAIN QUERY PLAN `, `(<expr>=? AND <expr>=?)`
	}
	for index, where := range map[string]string{"entry_commitment_in_run": server.CommitmentsInRuns(2), "entry_body_in_run": server.BodiesInRuns(2)} {
		rows, err := db.Reader().Query(explain+`SELECT place, opening FROM entry WHERE `+where+` ORDER BY place LIMIT 1`, 0, 1, make([]byte, 8), make([]byte, 32))
		must(t, err)
		columns, err := rows.Columns()
		must(t, err)
		var plan strings.Builder
		for rows.Next() {
			row := make([]any, len(columns))
			for i := range row {
				row[i] = new(string)
			}
			must(t, rows.Scan(row...))
			fmt.Fprintln(&plan, *row[len(row)-1].(*string))
		}
		must(t, rows.Err())
		if !strings.Contains(plan.String(), index) || !strings.Contains(plan.String(), cond) {
			t.Errorf("the plan does not use %s with %s:\n%s", index, cond, plan.String())
		}
	}
}

func flipped(d canon.Digest, at int) canon.Digest {
	d[at] ^= 1
	return d
}

func must1[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func execSQL(t *testing.T, url, query string, args ...any) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}))
}

// TestRunFilter: a filter has all that it was given, and of others as few as is said of it.
func TestRunFilter(t *testing.T) {
	digest := func(n int) canon.Digest { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	var in []canon.Digest
	for n := range 2 * server.RunEntries {
		in = append(in, digest(n))
	}
	mayHave := server.TestingOnlyFilter(in)
	for n, d := range in {
		if !mayHave(d) {
			t.Fatalf("digest %d is not in the filter", n)
		}
	}
	const others = 1_000_000
	taken := 0
	for n := range others {
		if mayHave(digest(len(in) + n)) {
			taken++
		}
	}
	t.Logf("of %d other digests it takes %d for its own", others, taken)
	if taken > others/1000 {
		t.Errorf("of %d other digests it takes %d for its own, want at most 1 in 1000", others, taken)
	}
}

// TestMigrateEntries: a database of before there were runs, and several logs, has the same rows afterwards as one that
// always had them.
func TestMigrateEntries(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		eventful(t, l)
		want := dump(t, url)
		if len(want["entry"]) < 10 || len(want["heads"]) != 1 {
			t.Fatalf("%d entries, %d heads: too little to tell", len(want["entry"]), len(want["heads"]))
		}
		old := newDatabase(t, url)
		copyInto(t, url, old, "0008")
		s, err := server.OpenStore(t.Context(), old, rand.Reader)
		must(t, err)
		defer s.Close()
		got := dump(t, old)
		for table, rows := range want {
			if !slices.Equal(got[table], rows) {
				t.Errorf("%s: %d rows, want %d\n%s\nwant\n%s", table, len(got[table]), len(rows), strings.Join(got[table], "\n"), strings.Join(rows, "\n"))
			}
		}
		for _, r := range must1(s.Entries(t.Context(), 0, 1000))(t) {
			if found, err := s.Entry(t.Context(), r.Commitment); err != nil || found.Index != r.Index {
				t.Errorf("entry %d: %v", r.Index, err)
			}
		}
		checkChain(t, s)
	})
}

// copyInto copies a database into a new one of the version of a migration.
func copyInto(t *testing.T, from, to, last string) {
	t.Helper()
	files := fstest.MapFS{}
	for _, e := range must1(os.ReadDir("migrations"))(t) {
		if e.Name()[:4] <= last {
			files[e.Name()] = &fstest.MapFile{Data: must1(os.ReadFile("migrations/" + e.Name()))(t)}
		}
	}
	src, dst := must1(sqldb.Open(t.Context(), from))(t), must1(sqldb.Open(t.Context(), to))(t)
	defer src.Close()
	defer dst.Close()
	must(t, dst.Migrate(t.Context(), files))
	for _, table := range must1(dst.Tables(t.Context()))(t) {
		none, err := dst.Reader().Query(`SELECT * FROM ` + table + ` WHERE 1 = 0`)
		must(t, err)
		columns := must1(none.Columns())(t)
		must(t, none.Close())
		query := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + table
		switch table {
		case "head":
			query = `SELECT 1, size, root FROM log`
		case "heads":
			query = `SELECT 1, ` + strings.Join(columns[1:], ", ") + ` FROM heads`
		}
		rows, err := src.Reader().Query(query)
		must(t, err)
		must(t, dst.Tx(t.Context(), func(tx *sql.Tx) error {
			if _, err := tx.Exec(`DELETE FROM ` + table); err != nil { // what a migration put in
				return err
			}
			for rows.Next() {
				row, into := make([]any, len(columns)), make([]any, len(columns))
				for i := range row {
					into[i] = &row[i]
				}
				if err := rows.Scan(into...); err != nil {
					return err
				}
				if _, err := tx.Exec(`INSERT INTO `+table+`(`+strings.Join(columns, ", ")+`) VALUES `+sqldb.Values(1, len(columns)), row...); err != nil {
					return err
				}
			}
			return rows.Err()
		}))
		must(t, rows.Close())
	}
}
