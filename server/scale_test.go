package server_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// TestTenMillion loads ten million entries into a log in bulk, and then appends and looks up as in an empty one. It holds
// what is found against what was loaded, and prints the figures beside those of the empty log: they are nobody's gate.
// ASSAY_ENTRIES has it load another number.
func TestTenMillion(t *testing.T) {
	entries := int64(10_000_000)
	if text := os.Getenv("ASSAY_ENTRIES"); text != "" {
		var err error
		entries, err = strconv.ParseInt(text, 10, 64)
		must(t, err)
	} else if os.Getenv("ASSAY_LONG") == "" {
		t.Skip("takes minutes and 10 GB: set ASSAY_LONG")
	}
	onBoth(t, func(t *testing.T, url string) {
		must(t, openStore(t, url).Close()) // makes the tables
		began := time.Now()
		kept := bulkLoad(t, url, entries)
		empty, full := openStore(t, newDatabase(t, url)), openStore(t, url)
		t.Logf("%d entries loaded in %s", entries, time.Since(began).Round(time.Second))
		got := measure(t, empty, full, kept)
		t.Logf("append and integrate: %.0f leaves/s empty, %.0f with %d entries: %.2f of it", got[0].leaves, got[1].leaves, entries, got[1].leaves/got[0].leaves)
		t.Logf("look up by commitment: %.0f/s empty, %.0f with %d entries: %.2f of it", got[0].lookups, got[1].lookups, entries, got[1].lookups/got[0].lookups)
		publish(t, full, true)
		for _, k := range kept[:100] {
			proof, p, err := newest(t, full).Prove(t.Context(), k.place)
			must(t, err)
			must(t, proof.Verify(k.commitment, p.Tree))
		}
	})
}

// newDatabase returns another database of the kind of a URL.
func newDatabase(t *testing.T, like string) string {
	if strings.HasPrefix(like, "sqlite:") {
		return "sqlite:" + filepath.Join(t.TempDir(), "empty.db")
	}
	return pgtest.URL(t)
}

// loaded is an entry that is known to be in the log.
type loaded struct {
	place      int64
	commitment canon.Digest
}

type figures struct{ leaves, lookups float64 } // a second

// measure appends and integrates batches of 1024 entries in two logs, and looks entries up: those that the one was given
// here, those that the other was loaded with. The two take turns, so that whatever else the machine does slows both.
func measure(t *testing.T, empty, full *server.Store, loadedBefore []loaded) [2]figures {
	t.Helper()
	const batches, batch, rounds, lookups = 80, 1024, 50, 400
	stores, known := [2]*server.Store{empty, full}, [2][]loaded{nil, loadedBefore}
	var appending, looking [2]time.Duration
	for n := -8; n < batches; n++ { // the first few fill caches
		for which, s := range stores {
			began := time.Now()
			own := appendBatch(t, s, n, batch)
			if n >= 0 {
				appending[which] += time.Since(began)
			}
			if which == 0 {
				known[0] = append(known[0], own...)
			}
		}
	}
	must(t, empty.FilterRuns(t.Context()))
	must(t, full.FilterRuns(t.Context()))
	find := func(s *server.Store, k loaded) {
		r, err := s.Entry(t.Context(), k.commitment)
		if err != nil || r.Index != k.place {
			t.Fatalf("entry %s is at %d, want %d (%v)", k.commitment.Short(), r.Index, k.place, err)
		}
	}
	random := rand.New(newSource(6))
	for which, s := range stores { // what is read for the first time may come from a disk
		random.Shuffle(len(known[which]), func(i, j int) { known[which][i], known[which][j] = known[which][j], known[which][i] })
		known[which] = known[which][:min(2000, len(known[which]))]
		for _, k := range known[which] {
			find(s, k)
		}
	}
	for range rounds {
		for which, s := range stores {
			began := time.Now()
			for range lookups {
				find(s, known[which][random.IntN(len(known[which]))])
			}
			looking[which] += time.Since(began)
		}
	}
	var f [2]figures
	for which := range f {
		f[which] = figures{batches * batch / appending[which].Seconds(), rounds * lookups / looking[which].Seconds()}
	}
	return f
}

// appendBatch appends and integrates entries in the streams of eight nodes.
func appendBatch(t *testing.T, s *server.Store, n, size int) (own []loaded) {
	t.Helper()
	begin, err := s.Progress(t.Context())
	must(t, err)
	must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
		own = nil
		for i := range size {
			body := canon.Sum(fmt.Appendf(nil, "%d %d", n, i))
			c, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(fmt.Sprint("m", i%8)), Time: start, Body: body, Refs: []canon.Digest{body}})
			if err != nil {
				return err
			}
			own = append(own, loaded{begin.Entries + int64(i), c})
		}
		return nil
	}))
	integrate(t, s, size, size)
	return own
}

// bulkLoad fills an empty log with entries of a thousand nodes, as though they had been appended and integrated, and
// returns some of them.
func bulkLoad(t *testing.T, url string, entries int64) (kept []loaded) {
	t.Helper()
	const streams, chunk = 1000, 1 << 16
	var tails [streams]ledger.Tail
	var edge ledger.Edge
	incomplete := map[int]ledger.TileData{} // the newest of each level
	insert, finish := loader(t, url)
	for from := int64(0); from < entries; from += chunk {
		n := min(chunk, entries-from)
		rows, commitments := make([][]any, n), make([]canon.Digest, n)
		for i := range rows {
			place := from + int64(i)
			tail := &tails[place%streams]
			stream := fmt.Sprint(ledger.NodeStream("load"), place%streams)
			var seed [8]byte
			binary.BigEndian.PutUint64(seed[:], uint64(place))
			body, salt := sha256.Sum256(seed[:]), sha256.Sum256(append(seed[:], 1))
			previous := ""
			if tail.Next > 0 {
				previous = `"previous":"` + tail.Last.String() + `",`
			}
			data := []byte(`{"body":"` + canon.Digest(body).String() + `","kind":"evidence/v1",` + previous + `"refs":["` + canon.Digest(body).String() +
				`"],"sequence":` + strconv.FormatInt(tail.Next, 10) + `,"stream":"` + stream + `","time":"2026-05-28T20:26:40Z","type":"assay/entry/v1"}`)
			opening := ledger.Opening(salt, data)
			if place < 2*streams {
				if _, _, err := ledger.ParseOpening(opening); err != nil {
					t.Fatalf("entry %d: %v: %s", place, err, data)
				}
			}
			commitments[i] = canon.Sum(opening)
			rows[i] = []any{place, commitments[i][:], opening, ledger.KindEvidence, stream, tail.Next, body[:]}
			if place%(1+entries/2000) == 0 {
				kept = append(kept, loaded{place, commitments[i]})
			}
			*tail = ledger.Tail{Next: tail.Next + 1, Last: canon.Sum(data)}
		}
		insert("entry", []string{"place", "commitment", "opening", "kind", "stream", "sequence", "body"}, rows)
		var dirty []ledger.TileData
		edge, dirty = ledger.Append(edge, commitments)
		tiles := [][]any{}
		for _, d := range dirty {
			if d.Width < ledger.TileWidth {
				incomplete[d.Level] = d
				continue
			}
			tiles = append(tiles, []any{int64(1), int64(d.Level), d.Index, d.Data})
		}
		insert("tile", []string{"log", "level", "place", "data"}, tiles)
	}
	var tiles, last [][]any
	for _, at := range ledger.EdgeTiles(entries) {
		tiles = append(tiles, []any{int64(1), int64(at.Level), at.Index, incomplete[at.Level].Data})
	}
	insert("tile", []string{"log", "level", "place", "data"}, tiles)
	for i := range tails {
		if tails[i].Next > 0 {
			last = append(last, []any{int64(1), fmt.Sprint(ledger.NodeStream("load"), i), tails[i].Next, tails[i].Last[:]})
		}
	}
	insert("stream", []string{"log", "name", "next", "last"}, last)
	finish()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE arrival SET next = $1`, entries)
		_, err2 := tx.Exec(`UPDATE log SET size = $1, root = $2`, entries, edge.Tree().Root.String())
		return errors.Join(err, err2)
	}))
	return kept
}

// loader returns what inserts rows in bulk, and what is called once all are there.
func loader(t *testing.T, url string) (insert func(table string, columns []string, rows [][]any), finish func()) {
	t.Helper()
	ctx := context.Background()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_pragma=cache_size(-3000000)&_pragma=locking_mode(EXCLUSIVE)")
		must(t, err)
		db.SetMaxOpenConns(1)
		tx, err := db.Begin()
		must(t, err)
		statements := map[string]*sql.Stmt{}
		insert = func(table string, columns []string, rows [][]any) {
			for len(rows) > 0 {
				n := min(len(rows), 16)
				text := fmt.Sprintf("INSERT INTO %s(%s) VALUES %s", table, strings.Join(columns, ","), sqldb.Values(n, len(columns)))
				if statements[text] == nil {
					statements[text], err = tx.Prepare(text)
					must(t, err)
				}
				var args []any
				for _, r := range rows[:n] {
					args = append(args, r...)
				}
				_, err := statements[text].Exec(args...)
				must(t, err)
				rows = rows[n:]
			}
		}
		return insert, func() { must(t, errors.Join(tx.Commit(), db.Close())) }
	}
	c, err := pgx.Connect(ctx, url)
	must(t, err)
	exec := func(text string) {
		_, err := c.Exec(ctx, text)
		must(t, err)
	}
	exec(`SET maintenance_work_mem = '512MB'; SET synchronous_commit = off`)
	exec(`ALTER TABLE entry DROP CONSTRAINT entry_place`)
	rows, err := c.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'entry'`)
	must(t, err)
	type index struct{ name, text string }
	indexes, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (i index, err error) { return i, r.Scan(&i.name, &i.text) })
	must(t, err)
	for _, i := range indexes {
		exec(`DROP INDEX ` + i.name)
	}
	insert = func(table string, columns []string, rows [][]any) {
		_, err := c.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		must(t, err)
	}
	return insert, func() {
		exec(`ALTER TABLE entry ADD CONSTRAINT entry_place PRIMARY KEY (place)`)
		for _, i := range indexes {
			exec(i.text)
		}
		exec(`VACUUM (FREEZE, ANALYZE) entry`)
		exec(`CHECKPOINT`)
		must(t, c.Close(ctx))
	}
}
