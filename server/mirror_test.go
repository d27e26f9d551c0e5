package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"

	"github.com/assay-network/assay/audit"
	assay "github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func openMirror(t *testing.T, dir string) *server.Mirror {
	t.Helper()
	m, err := server.OpenMirror(dir)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func update(t *testing.T, m *server.Mirror, s *server.Store, want bool) {
	t.Helper()
	if done, err := m.Update(t.Context(), nil, s.Source()); err != nil || done != want {
		t.Fatalf("updated %v, want %v (%v)", done, want, err)
	}
}

// grow appends n entries and publishes them.
func grow(t *testing.T, s *server.Store, n int) []canon.Digest {
	t.Helper()
	c := appendSome(t, s, "n1", n)
	integrate(t, s, n, n)
	publish(t, s, true)
	return c
}

// readMirror reads the whole mirror with our own reader, and returns the tree that it shows.
func readMirror(t *testing.T, dir string) (tree ledger.Tree, leaves []canon.Digest) {
	t.Helper()
	_, key := logKey(t)
	src := audit.Directory(os.DirFS(dir))
	signed, err := src.Checkpoint(t.Context())
	must(t, err)
	c, err := ledger.OpenCheckpoint(signed, key)
	must(t, err)
	must(t, ledger.Walk(t.Context(), src, c.Tree, func(_ int64, commitment canon.Digest) error {
		leaves = append(leaves, commitment)
		return nil
	}))
	return c.Tree, leaves
}

// TestMirror has Tessera's client follow a mirror of files while the log grows, and looks at every file that is there.
func TestMirror(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "mirror")
	s, m := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db")), openMirror(t, filepath.Join(dir))
	update(t, m, s, false)
	_, key := logKey(t)
	files := client.FileFetcher{Root: dir}
	want := grow(t, s, 3)
	update(t, m, s, true)
	update(t, m, s, false)
	tracker, err := client.NewLogStateTracker(ctx, files.ReadTile, nil, key, origin, client.UnilateralConsensus(files.ReadCheckpoint))
	must(t, err)
	for _, n := range []int{1, 252, 1, 300, 0, 1000, 60_000} {
		if n > 0 {
			want = append(want, grow(t, s, n)...)
		}
		update(t, m, s, n > 0)
		// Update checks that what was seen before is a prefix.
		if _, _, _, err := tracker.Update(ctx); err != nil {
			t.Fatalf("size %d: %v", len(want), err)
		}
		if got := tracker.Latest().Size; got != uint64(len(want)) {
			t.Fatalf("size %d, want %d", got, len(want))
		}
		checkMirrorFiles(t, dir)
		if _, leaves := readMirror(t, dir); !sameJSON(t, leaves, want) {
			t.Fatalf("size %d: other leaves than were appended", len(want))
		}
	}
	size := uint64(len(want))
	n := 0
	bundles := client.EntryBundles(ctx, 2, func(context.Context) (uint64, error) { return size, nil }, files.ReadEntryBundle, 0, size)
	for leaf, err := range client.Entries(bundles, func(data []byte) ([][]byte, error) {
		var b api.EntryBundle
		err := b.UnmarshalText(data)
		return b.Entries, err
	}) {
		must(t, err)
		if !bytes.Equal(leaf.Entry, ledger.Leaf(want[n])) {
			t.Fatalf("leaf %d: %x, want that of %s", n, leaf.Entry, want[n])
		}
		n++
	}
	builder, err := client.NewProofBuilder(ctx, size, files.ReadTile)
	must(t, err)
	for _, index := range []uint64{0, 255, 256, 1555, size - 1} {
		theirs, err := builder.InclusionProof(ctx, index)
		must(t, err)
		ours, err := ledger.ProveInclusion(ctx, s.Source(), int64(index), int64(size))
		must(t, err)
		if len(theirs) != len(ours.Hashes) {
			t.Fatalf("proof of %d: %d hashes, ours has %d", index, len(theirs), len(ours.Hashes))
		}
		for i, h := range theirs {
			if !bytes.Equal(h, ours.Hashes[i][:]) {
				t.Errorf("proof of %d: hash %d differs", index, i)
			}
		}
	}
}

// checkMirrorFiles: each file is the checkpoint or a tile that the checkpoint's tree has or had, of its exact size; entry
// bundles hold leaves alone.
func checkMirrorFiles(t *testing.T, dir string) {
	t.Helper()
	tree, _ := readMirror(t, dir)
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "checkpoint" {
			return err
		}
		info, err := d.Info()
		must(t, err)
		tile, err := ledger.ParseTilePath(name)
		if err != nil || !tile.In(tree.Size) || info.Size() != int64(tile.Bytes()) || info.Mode().Perm() != 0o644 {
			t.Errorf("%s, %d bytes, %s: no file of the tree of size %d (%v)", name, info.Size(), info.Mode(), tree.Size, err)
		}
		if tile.Level == ledger.EntriesLevel {
			data, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			if _, err := ledger.ParseEntryBundle(data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	}))
}

// TestMirrorRefuses: a folder that shows what the log does not continue, or that somebody else writes, stays as it is.
func TestMirrorRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string) *server.Store // returns the log that is mirrored there next
		want   string
	}{
		{"the same log", nil, ""},
		{"a log that lost its end", func(t *testing.T, _ string) *server.Store {
			s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
			grow(t, s, 5)
			return s
		}, "it is smaller"},
		{"another log under the same key", func(t *testing.T, _ string) *server.Store {
			s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
			appendSome(t, s, "other", 1)
			grow2 := appendSome(t, s, "n1", 40)
			integrate(t, s, 100, 1+len(grow2))
			publish(t, s, true)
			return s
		}, "does not continue"},
		{"a log of another name", func(t *testing.T, dir string) *server.Store {
			path := filepath.Join(dir, "checkpoint")
			signed, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, bytes.Replace(signed, []byte(origin), []byte("other.example/log"), 1), 0o644))
			return nil
		}, "shows another log"},
		{"a tile that cannot be written", func(t *testing.T, dir string) *server.Store {
			must(t, os.MkdirAll(filepath.Join(dir, "tile", "0", "000", "in the way"), 0o755))
			return nil
		}, "tile"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s, m := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db")), openMirror(t, dir)
			grow(t, s, 20)
			update(t, m, s, true)
			next := s
			if tc.change != nil {
				if other := tc.change(t, dir); other != nil {
					next = other
				}
			}
			if next == s {
				grow(t, s, 300)
			}
			before, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			must(t, err)
			_, err = m.Update(t.Context(), nil, next.Source())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			after, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			must(t, err)
			if same := bytes.Equal(before, after); same != (tc.want != "") {
				t.Errorf("checkpoint unchanged: %v", same)
			}
			if _, err := server.OpenMirror(dir); err == nil || !strings.Contains(err.Error(), "another process writes it") {
				t.Errorf("opened twice: %v", err)
			}
		})
	}
}

// TestMirrorKill kills the process that writes a mirror at random moments, while a reader follows it: the reader never
// misses a tile, never sees the log shrink or fork, and the next process goes on.
func TestMirrorKill(t *testing.T) {
	kills := 5
	if os.Getenv("ASSAY_LONG") != "" {
		kills = 30
	}
	url, dir := "sqlite:"+filepath.Join(t.TempDir(), "assay.db"), t.TempDir()
	s := openStore(t, url) // so that the child has no migration to do
	grow(t, s, 1)
	m, err := server.OpenMirror(dir)
	must(t, err)
	update(t, m, s, true)
	must(t, m.Close())

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reader sync.WaitGroup
	looks := 0
	reader.Go(func() {
		var last ledger.Tree
		for ctx.Err() == nil && !t.Failed() {
			tree, _ := readMirror(t, dir)
			if tree.Size < last.Size {
				t.Errorf("size %d after %d", tree.Size, last.Size)
			}
			last = tree
			looks++
		}
	})
	random := rand.New(newSource(4))
	acknowledged := map[canon.Digest]bool{}
	for round := range kills {
		killAfter(t, url, round, 1+random.IntN(2000), time.Duration(random.IntN(20_000))*time.Microsecond, acknowledged, crashMirror+"="+dir)
		readMirror(t, dir)
	}
	stop()
	reader.Wait()
	m = openMirror(t, dir)
	for n := 1; n > 0; {
		n, err = s.Integrate(t.Context(), 1000)
		must(t, err)
	}
	grow(t, s, 1)
	update(t, m, s, true)
	checkMirrorFiles(t, dir)
	tree, leaves := readMirror(t, dir)
	t.Logf("%d kills, size %d, read %d times meanwhile", kills, tree.Size, looks)
	inMirror := map[canon.Digest]bool{}
	for _, c := range leaves {
		inMirror[c] = true
	}
	for c := range acknowledged {
		if !inMirror[c] {
			t.Errorf("%s was acknowledged and is not in the mirror", c.Short())
		}
	}
}

// TestServerMirrors: a server with the setting mirrors what it publishes.
func TestServerMirrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	l := newLab(t, "", func(s *server.Settings) { s.Mirror = dir })
	if d, _ := l.join("one").prove(); d.Outcome != "accept" {
		t.Fatal(d)
	}
	served, err := l.client("").Mirror().Checkpoint(t.Context())
	must(t, err)
	if shown, err := os.ReadFile(filepath.Join(dir, "checkpoint")); err != nil || !bytes.Equal(shown, served) {
		t.Errorf("the mirror shows %q, the server %q (%v)", shown, served, err)
	}
}

// TestServersMirror: servers of one database may be given one mirror. One of them writes it, and another one when that one
// has ended.
func TestServersMirror(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	l := newLab(t, pgtest.URL(t), func(s *server.Settings) { s.Mirror = dir })
	second, err := server.New(t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: newSource(8), Log: quiet()})
	must(t, err)
	defer second.Close()
	must(t, second.Advance(t.Context()))
	before, err := second.Source().Checkpoint(t.Context())
	must(t, err)
	l.join("one") // which the first does not publish any more
	l.http.Close()
	must(t, l.server.Close())
	must(t, second.Advance(t.Context()))
	served, err := second.Source().Checkpoint(t.Context())
	must(t, err)
	if shown, err := os.ReadFile(filepath.Join(dir, "checkpoint")); err != nil || !bytes.Equal(shown, served) || bytes.Equal(shown, before) {
		t.Errorf("the mirror shows %q, the server %q (%v)", shown, served, err)
	}
}

// TestMirrorSays: beside the tiles a mirror shows what a reader needs who has nothing else: the keysets, the engines, and
// the checkpoints that witnesses cosigned, so that a checkpoint which a challenge named is found again.
func TestMirrorSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mirror")
	w := newWitnessedBy(t, "", 2, 3, func(s *server.Settings) { s.Mirror = dir })
	web := httptest.NewServer(http.StripPrefix("/log/", http.FileServer(http.Dir(dir))))
	defer web.Close()
	files := func() assay.Files {
		t.Helper()
		f, err := assay.NewFiles(assay.Config{URL: web.URL + "/log/"})
		must(t, err)
		return f
	}
	old := w.server.Keyset()
	n := w.join("one")
	w.advance()
	asked, err := n.client().Challenge(t.Context(), nil)
	must(t, err)
	for i := range 3 {
		w.clock.advance(time.Minute)
		w.join(fmt.Sprint("more ", i))
		w.advance()
	}
	named, err := ledger.ReadCheckpoint([]byte(asked.Checkpoint))
	must(t, err)
	kept, err := files().Kept(t.Context(), named.Size)
	if err != nil || canon.Sum(kept) != asked.Challenge.Checkpoint {
		t.Errorf("the checkpoint of size %d that the challenge named: %v\n%s\nwant\n%s", named.Size, err, kept, asked.Checkpoint)
	}
	newest, err := files().Checkpoint(t.Context())
	must(t, err)
	end, err := ledger.ReadCheckpoint(newest)
	must(t, err)
	for index := range end.Size + 1 {
		before, after, err := files().Around(t.Context(), index)
		must(t, err)
		wantBefore, wantAfter, err := w.server.Source().(ledger.Keeper).Around(t.Context(), index)
		must(t, err)
		if !bytes.Equal(before, wantBefore) || !bytes.Equal(after, wantAfter) {
			t.Errorf("around %d:\n%s\n%s\nwant\n%s\n%s", index, before, after, wantBefore, wantAfter)
		}
	}
	if _, err := files().Kept(t.Context(), end.Size+1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that never was: %v", err)
	}

	// After a change of keys, who knows the old ones finds the new.
	w.settings.Renew = []string{ledger.UseLog}
	w.restart()
	w.advance()
	data, err := files().Said(t.Context(), assay.SaidKeysets)
	must(t, err)
	keys, err := assay.ReadKeysets(data)
	if err != nil || !keys.Has(old) || !keys.Has(w.server.Keyset()) || len(keys.Of(ledger.UseLog)) != 2 {
		t.Errorf("keysets of the mirror: %v, %d log keys", err, len(keys.Of(ledger.UseLog)))
	}
	if data, err = files().Said(t.Context(), assay.SaidEngines); err != nil || string(data) != `{"engines":[]}` {
		t.Errorf("engines of the mirror: %v %s", err, data)
	}
	// A folder of before kept checkpoints gets them all.
	must(t, os.RemoveAll(filepath.Join(dir, "checkpoints")))
	w.clock.advance(time.Minute)
	w.join("last")
	w.advance()
	if again, err := files().Kept(t.Context(), named.Size); err != nil || !bytes.Equal(again, kept) {
		t.Errorf("the checkpoint of size %d, kept later: %v", named.Size, err)
	}
}

// TestMirrorWithoutWitnesses: a checkpoint without cosignatures has no time, and is not kept.
func TestMirrorWithoutWitnesses(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, "", func(s *server.Settings) { s.Mirror = dir })
	l.join("one")
	l.advance()
	if left, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*")); err != nil || len(left) > 0 {
		t.Errorf("kept: %v %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "keysets")); err != nil {
		t.Error(err)
	}
}
