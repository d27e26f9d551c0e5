package server_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashURL) != "" {
		os.Exit(crashChild())
	}
	os.Exit(pgtest.Main(m))
}

const (
	origin = "assay.example/log"
	start  = canon.Time(1780000000)
)

func newSource(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

// testKey is the log key of all tests.
var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func logKey(t testing.TB) (note.Signer, note.Verifier) {
	t.Helper()
	signer, err := ledger.LogSigner(origin, testKey)
	if err != nil {
		t.Fatal(err)
	}
	vkey, err := ledger.LogVKey(origin, testKey.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier
}

// onBoth runs a test on a new, empty database of either kind.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.URL(t)) })
}

func openStore(t testing.TB, url string) *server.Store {
	t.Helper()
	s, err := server.OpenStore(t.Context(), url, newSource(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// appendSome appends n pieces of evidence of one node in one transaction.
func appendSome(t testing.TB, s *server.Store, node string, n int) (commitments []canon.Digest) {
	t.Helper()
	err := s.Tx(t.Context(), func(tx *server.Tx) error {
		commitments = nil
		for i := range n {
			body := tx.PutBlob(fmt.Appendf(nil, "%s %d %d", node, n, i))
			c, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(node), Time: start, Body: body, Refs: []canon.Digest{body}})
			if err != nil {
				return err
			}
			commitments = append(commitments, c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return commitments
}

func integrate(t testing.TB, s *server.Store, max, want int) {
	t.Helper()
	if n, err := s.Integrate(t.Context(), max); err != nil || n != want {
		t.Fatalf("integrated %d, want %d (%v)", n, want, err)
	}
}

func publish(t testing.TB, s *server.Store, want bool) server.Published {
	t.Helper()
	signer, _ := logKey(t)
	if done, err := newest(t, s).Publish(t.Context(), signer, start, nil); err != nil || done != want {
		t.Fatalf("published %v, want %v (%v)", done, want, err)
	}
	p, err := newest(t, s).Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEmptyStore(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		integrate(t, s, 10, 0)
		signer, _ := logKey(t)
		if done, err := newest(t, s).Publish(t.Context(), signer, start, nil); done || err != nil {
			t.Errorf("published an empty tree (%v)", err)
		}
		if _, err := s.Source().Checkpoint(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("checkpoint: %v", err)
		}
		if _, err := s.Source().Tile(t.Context(), ledger.Tile{Level: 0, Index: 0, Width: 1}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("tile: %v", err)
		}
		if _, err := s.Blob(t.Context(), canon.Sum(nil)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("blob: %v", err)
		}
	})
}

// TestThreeSteps follows entries through append, integrate and publish, and what can be asked of them after each.
func TestThreeSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx, s := t.Context(), openStore(t, url)
		commitments := appendSome(t, s, "n1", 300)
		if p, err := s.Progress(ctx); err != nil || p != (server.Progress{Entries: 300}) {
			t.Errorf("after append: %+v (%v)", p, err)
		}
		record, err := s.Entry(ctx, commitments[299])
		if err != nil || record.Index != 299 || record.Sequence != 299 || record.Commitment != commitments[299] || record.Stream != "node:n1" {
			t.Errorf("record %+v (%v)", record, err)
		}
		if same, err := s.EntriesOf(ctx, record.Body, 10); err != nil || len(same) != 1 || same[0].Index != 299 {
			t.Errorf("entries of the body: %+v (%v)", same, err)
		}
		if _, _, err := newest(t, s).Prove(ctx, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("proof before a checkpoint: %v", err)
		}
		integrate(t, s, 200, 200)
		first := publish(t, s, true)
		publish(t, s, false)
		if _, _, err := newest(t, s).Prove(ctx, 200); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("proof of an entry behind the checkpoint: %v", err)
		}
		integrate(t, s, 200, 100)
		integrate(t, s, 200, 0)
		second := publish(t, s, true)
		if p, err := s.Progress(ctx); err != nil || p != (server.Progress{Entries: 300, Integrated: 300, Published: 300}) {
			t.Errorf("at the end: %+v (%v)", p, err)
		}
		for i, c := range commitments {
			proof, p, err := newest(t, s).Prove(ctx, int64(i))
			if err != nil {
				t.Fatal(err)
			}
			if err := proof.Verify(c, p.Tree); err != nil {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		consistency, err := ledger.ProveConsistency(ctx, s.Source(), first.Size, second.Size)
		if err != nil {
			t.Fatal(err)
		}
		if err := consistency.Verify(first.Tree, second.Tree); err != nil {
			t.Error(err)
		}
		checkLog(t, s)
	})
}

// checkLog reads the whole log as an auditor would: the checkpoint's signature, every tile, every opening, every stream.
// It returns the commitments and their places.
func checkLog(t testing.TB, s *server.Store) map[canon.Digest]int64 {
	t.Helper()
	ctx, src := t.Context(), s.Source()
	_, verifier := logKey(t)
	signed, err := src.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ledger.OpenCheckpoint(signed, verifier)
	if err != nil {
		t.Fatal(err)
	}
	seen, tails := map[canon.Digest]int64{}, map[string]ledger.Tail{}
	err = ledger.Walk(ctx, src, c.Tree, func(index int64, commitment canon.Digest) error {
		if at, twice := seen[commitment]; twice {
			return fmt.Errorf("leaf %d is leaf %d again", index, at)
		}
		seen[commitment] = index
		opening, err := src.Blob(ctx, commitment)
		if err != nil {
			return err
		}
		if canon.Sum(opening) != commitment {
			return fmt.Errorf("leaf %d: not its opening", index)
		}
		_, e, err := ledger.ParseOpening(opening)
		if err != nil {
			return err
		}
		tails[e.Stream], err = tails[e.Stream].Extend(e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestPeerReadsTheLog has Tessera's client read the store: checkpoint, leaves, inclusion and consistency.
func TestPeerReadsTheLog(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx, s := t.Context(), openStore(t, url)
		_, verifier := logKey(t)
		src := s.Source()
		tile := func(level int) func(context.Context, uint64, uint8) ([]byte, error) {
			return func(ctx context.Context, index uint64, p uint8) ([]byte, error) {
				return src.Tile(ctx, ledger.Tile{Level: level, Index: int64(index), Width: widthOf(p)})
			}
		}
		tiles := func(ctx context.Context, level, index uint64, p uint8) ([]byte, error) {
			return tile(int(level))(ctx, index, p)
		}
		commitments := appendSome(t, s, "n1", 700)
		integrate(t, s, 300, 300)
		publish(t, s, true)
		tracker, err := client.NewLogStateTracker(ctx, tiles, nil, verifier, origin, client.UnilateralConsensus(src.Checkpoint))
		if err != nil {
			t.Fatal(err)
		}
		integrate(t, s, 1000, 400)
		publish(t, s, true)
		if _, _, _, err := tracker.Update(ctx); err != nil {
			t.Fatal(err)
		}
		size := tracker.Latest().Size
		if size != 700 {
			t.Fatalf("size %d, want 700", size)
		}
		bundles := client.EntryBundles(ctx, 2, func(context.Context) (uint64, error) { return size, nil }, tile(ledger.EntriesLevel), 0, size)
		leaves := client.Entries(bundles, func(data []byte) ([][]byte, error) {
			var b api.EntryBundle
			err := b.UnmarshalText(data)
			return b.Entries, err
		})
		n := 0
		for leaf, err := range leaves {
			if err != nil {
				t.Fatal(err)
			}
			if want := ledger.Leaf(commitments[n]); !bytes.Equal(leaf.Entry, want) {
				t.Fatalf("leaf %d: %x, want %x", n, leaf.Entry, want)
			}
			n++
		}
		if n != 700 {
			t.Errorf("%d leaves, want 700", n)
		}
	})
}

// widthOf turns a peer's partial width into ours: its 0 is a complete tile.
func widthOf(p uint8) int {
	if p == 0 {
		return ledger.TileWidth
	}
	return int(p)
}

func TestTxIsAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		ctx, s := t.Context(), openStore(t, url)
		appendSome(t, s, "n1", 2)
		refused := errors.New("refused")
		var blob canon.Digest
		err := s.Tx(ctx, func(tx *server.Tx) error {
			blob = tx.PutBlob([]byte("gone"))
			if _, _, err := tx.Append(ctx, server.Draft{Kind: ledger.KindEvidence, Stream: "node:n1", Time: start, Body: blob}); err != nil {
				return err
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
		if _, err := s.Blob(ctx, blob); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("blob of a transaction that failed: %v", err)
		}
		appendSome(t, s, "n1", 3)
		integrate(t, s, 100, 5)
		publish(t, s, true)
		checkLog(t, s)
	})
}

func TestAppendRefuses(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	good := server.Draft{Kind: ledger.KindEvidence, Stream: "node:n1", Time: start, Body: canon.Sum(nil)}
	for _, c := range []struct {
		name   string
		change func(*server.Draft)
		want   string // "" for none
	}{
		{"as it is", func(*server.Draft) {}, ""},
		{"unknown kind", func(d *server.Draft) { d.Kind = "gossip/v1" }, `kind "gossip/v1" is not known`},
		{"another's stream", func(d *server.Draft) { d.Stream = ledger.StreamVerifier }, `evidence/v1 in stream "verifier"`},
		{"no body", func(d *server.Draft) { d.Body = canon.Digest{} }, "no body"},
		{"no time", func(d *server.Draft) { d.Time = 0 }, "no time"},
	} {
		d := good
		c.change(&d)
		err := s.Tx(t.Context(), func(tx *server.Tx) error {
			_, _, err := tx.Append(t.Context(), d)
			return err
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestManyWriters lets writers, integrators and publishers of two processes' worth of stores work at once.
func TestManyWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		const writers, rounds, each = 4, 5, 20
		stores := []*server.Store{openStore(t, url), openStore(t, url)}
		signer, _ := logKey(t)
		var wg sync.WaitGroup
		for w := range writers {
			s := stores[w%2]
			wg.Go(func() {
				for r := range rounds {
					err := s.Tx(t.Context(), func(tx *server.Tx) error {
						for i := range each {
							body := tx.PutBlob(fmt.Appendf(nil, "%d %d", r, i)) // the same for all writers
							stream := ledger.NodeStream(fmt.Sprint((w + i) % 3))
							if _, _, err := tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: stream, Time: start, Body: body}); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					if _, err := s.Integrate(t.Context(), 30); err != nil {
						t.Error(err)
					}
					if _, err := newest(t, s).Publish(t.Context(), signer, start, nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for s := stores[0]; ; {
			n, err := s.Integrate(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
		if _, err := newest(t, stores[1]).Publish(t.Context(), signer, start, nil); err != nil {
			t.Fatal(err)
		}
		if n := len(checkLog(t, stores[1])); n != writers*rounds*each {
			t.Errorf("%d leaves, want %d", n, writers*rounds*each)
		}
	})
}

// TestDamagedTile flips one bit of a stored tile: the next integration refuses to build on it, and a reader names it.
func TestDamagedTile(t *testing.T) {
	for _, level := range []int{ledger.EntriesLevel, 0} {
		t.Run(fmt.Sprint("level ", level), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "assay.db")
			s := openStore(t, "sqlite:"+path)
			appendSome(t, s, "n1", 10)
			integrate(t, s, 100, 10)
			publish(t, s, true)
			checkLog(t, s)
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var data []byte
			if err := db.QueryRow(`SELECT data FROM tile WHERE level = $1`, level).Scan(&data); err != nil {
				t.Fatal(err)
			}
			data[40] ^= 1
			if _, err := db.Exec(`UPDATE tile SET data = $1 WHERE level = $2`, data, level); err != nil {
				t.Fatal(err)
			}
			p, err := newest(t, s).Published(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = ledger.Walk(t.Context(), s.Source(), p.Tree, func(int64, canon.Digest) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "tile/0/000.p/10") {
				t.Errorf("walk: %v", err)
			}
			if level == 0 {
				appendSome(t, s, "n1", 1)
				if _, err := s.Integrate(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "damaged database") {
					t.Errorf("integrate: %v", err)
				}
			}
		})
	}
}

// BenchmarkLog appends and integrates batches of 1024 entries of about 300 bytes; beside it the bare primitive: hashing
// the same entries into a tree in memory.
func BenchmarkLog(b *testing.B) {
	const batch = 1024
	run := func(b *testing.B, url string) {
		ctx, s := b.Context(), openStore(b, url)
		b.ResetTimer()
		for n := range b.N {
			err := s.Tx(ctx, func(tx *server.Tx) error {
				for i := range batch {
					body := canon.Sum(fmt.Appendf(nil, "%d %d", n, i))
					if _, _, err := tx.Append(ctx, server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(fmt.Sprint(i % 8)), Time: start, Body: body}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			if n, err := s.Integrate(ctx, batch); n != batch || err != nil {
				b.Fatal(n, err)
			}
		}
		b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "leaves/s")
	}
	b.Run("sqlite", func(b *testing.B) { run(b, "sqlite:"+filepath.Join(b.TempDir(), "assay.db")) })
	b.Run("postgres", func(b *testing.B) { run(b, pgtest.URL(b)) })
	b.Run("memory", func(b *testing.B) {
		var edge ledger.Edge
		commitments := make([]canon.Digest, batch)
		entry := make([]byte, 300)
		for range b.N {
			for i := range commitments {
				commitments[i] = sha256.Sum256(entry)
			}
			edge, _ = ledger.Append(edge, commitments)
		}
		b.ReportMetric(float64(batch*b.N)/b.Elapsed().Seconds(), "leaves/s")
	})
}

// newest is the log of a store that takes entries.
func newest(t testing.TB, s *server.Store) server.Log {
	t.Helper()
	l, err := s.Newest(t.Context())
	must(t, err)
	return l
}
