package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/pack"
)

// childDir names the folder, in the child of TestFullDisk.
const childDir = "ASSAY_TEST_PACK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(fullDiskChild(dir))
	}
	os.Exit(m.Run())
}

// index is a caller's: where each item lies.
type index map[canon.Digest]pack.Place

func (x index) adopt(segment int64) (end int64, ok bool, err error) {
	for _, p := range x {
		if p.Segment == segment {
			end = max(end, p.End())
		}
	}
	return end, true, nil
}

func open(t testing.TB, dir string, seed byte, x index) *pack.Folder {
	t.Helper()
	f, err := pack.Open(dir, rand.NewChaCha8([32]byte{seed}), x.adopt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func item(text string) pack.Item {
	return pack.Item{Digest: canon.Sum([]byte(text)), Coding: 7, Data: []byte(text)}
}

// put appends items and notes their places.
func put(t testing.TB, f *pack.Folder, x index, texts ...string) {
	t.Helper()
	var items []pack.Item
	for _, text := range texts {
		items = append(items, item(text))
	}
	places, err := f.Append(items)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range places {
		x[items[i].Digest] = p
	}
}

// checkAll reads everything that an index names.
func checkAll(t testing.TB, f *pack.Folder, x index, texts ...string) {
	t.Helper()
	for _, text := range texts {
		want := item(text)
		got, err := f.Read(x[want.Digest], want.Digest)
		if err != nil || got.Coding != want.Coding || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%.20q: %+v (%v)", text, got, err)
		}
	}
}

func segments(t testing.TB, f *pack.Folder) []pack.Segment {
	t.Helper()
	all, err := f.Segments()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func file(t testing.TB, f *pack.Folder, id int64) string {
	t.Helper()
	return filepath.Join(f.Dir(), fmt.Sprintf("%016x.pack", id))
}

func TestAppendAndRead(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "", "one", strings.Repeat("long ", 1000))
	put(t, f, x, "two")
	checkAll(t, f, x, "", "one", strings.Repeat("long ", 1000), "two")
	if places, err := f.Append(nil); places != nil || err != nil {
		t.Errorf("nothing appended: %v, %v", places, err)
	}
	if _, err := f.Append([]pack.Item{{Data: make([]byte, pack.MaxRecord+1)}}); err == nil || !strings.Contains(err.Error(), "at most 33554432") {
		t.Errorf("a record over the limit: %v", err)
	}
	// The next writer goes on in the same segment; a third, while it writes, in one of its own.
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	second, third := open(t, f.Dir(), 2, x), open(t, f.Dir(), 3, x)
	put(t, second, x, "three")
	put(t, third, x, "four")
	if n := len(segments(t, f)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
	if x[canon.Sum([]byte("three"))].Segment != x[canon.Sum([]byte("one"))].Segment {
		t.Error("the second writer did not go on in the first one's segment")
	}
	checkAll(t, f, x, "", "one", "two", "three", "four")
	n := 0
	for _, s := range segments(t, f) {
		if err := f.Check(s.ID, func(i pack.Item, p pack.Place) error {
			n++
			if x[i.Digest] != p {
				return fmt.Errorf("%s lies at %+v, want %+v", i.Digest, p, x[i.Digest])
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if n != 6 {
		t.Errorf("%d records, want 6", n)
	}
}

// TestTornTail cuts a segment at every byte of its last record: the next writer cuts what is left of it and goes on where
// it began, and what was whole stays.
func TestTornTail(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one", "two")
	whole, err := os.ReadFile(file(t, f, segments(t, f)[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	id := segments(t, f)[0].ID
	torn := x[canon.Sum([]byte("two"))]
	delete(x, canon.Sum([]byte("two")))
	for cut := torn.At; cut < torn.End(); cut++ {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file(t, f, id))), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		y := index{canon.Sum([]byte("one")): x[canon.Sum([]byte("one"))]}
		again := open(t, dir, 2, y)
		put(t, again, y, "three")
		if p := y[canon.Sum([]byte("three"))]; p.Segment != id || p.At != torn.At {
			t.Fatalf("cut at %d: the next record went to %+v, want to byte %d", cut, p, torn.At)
		}
		checkAll(t, again, y, "one", "three")
	}
}

// TestLostTail cuts a segment between two records that the index names: no other record goes where the second one was.
func TestLostTail(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one", "two")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	two := x[canon.Sum([]byte("two"))]
	if err := os.Truncate(file(t, f, two.Segment), two.At); err != nil {
		t.Fatal(err)
	}
	again := open(t, f.Dir(), 2, x)
	put(t, again, x, "three")
	if p := x[canon.Sum([]byte("three"))]; p.Segment == two.Segment {
		t.Errorf("it was written to %+v, where the index names a record that is lost", p)
	}
	checkAll(t, again, x, "one", "three")
	var d *pack.Damage
	if _, err := again.Read(two, canon.Sum([]byte("two"))); !errors.As(err, &d) || d.What != "the file ends" {
		t.Errorf("the lost record: %v", err)
	}
}

// TestSegmentBeingMade: a segment without a whole head is another writer's, which has yet to lock it, and is not touched.
func TestSegmentBeingMade(t *testing.T) {
	dir := t.TempDir()
	f, err := pack.Open(dir, rand.NewChaCha8([32]byte{1}), func(segment int64) (int64, bool, error) {
		t.Errorf("segment %d is locked", segment)
		return 0, false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(file(t, f, 5), make([]byte, 31), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, f, index{}, "one")
}

// TestBadPlace: a length that no record has is damage of the index, and nothing is made room for.
func TestBadPlace(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one")
	digest := canon.Sum([]byte("one"))
	for _, length := range []int64{-1, pack.MaxRecord + 1, 1<<63 - 1} {
		p := x[digest]
		p.Length = length
		var d *pack.Damage
		if _, err := f.Read(p, digest); !errors.As(err, &d) || !strings.Contains(d.What, "the index says") {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// TestWholeTailStays leaves a whole record that the index does not name: a transaction may yet commit that names it.
func TestWholeTailStays(t *testing.T) {
	x, late := index{}, index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one")
	put(t, f, late, "two")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, f.Dir(), 2, x)
	put(t, again, x, "three")
	checkAll(t, again, x, "one", "three")
	checkAll(t, again, late, "two")
}

// TestFlippedBit flips each bit of a record in turn: reading it names the segment and the record. Where the index names
// what is damaged, no writer cuts it.
func TestFlippedBit(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one", "two", "three")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	two := x[canon.Sum([]byte("two"))]
	name := file(t, f, two.Segment)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for bit := two.At * 8; bit < two.End()*8; bit++ {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.Read(two, canon.Sum([]byte("two")))
		var d *pack.Damage
		if !errors.As(err, &d) || d.Segment != name || d.At != two.At {
			t.Fatalf("bit %d: %v, want damage of %s at %d", bit, err, name, two.At)
		}
		checkAll(t, f, x, "one", "three")
		if err := f.Check(two.Segment, func(pack.Item, pack.Place) error { return nil }); !errors.As(err, &d) {
			t.Fatalf("bit %d: checked as whole: %v", bit, err)
		}
	}
	put(t, f, x, "four")
	if p := x[canon.Sum([]byte("four"))]; p.Segment == two.Segment {
		t.Error("a writer goes on in a damaged segment")
	}
	if now, err := os.ReadFile(name); err != nil || len(now) != len(whole) {
		t.Errorf("%d bytes, want the %d that were there (%v)", len(now), len(whole), err)
	}
	checkAll(t, f, x, "one", "three", "four")
}

func TestForeignSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"empty", nil},
		{"other bytes", []byte("this is no segment, but it is long enough to be one")},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := index{}
			f := open(t, t.TempDir(), 1, x)
			if err := os.WriteFile(file(t, f, 5), c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(f.Dir(), "notes.txt"), c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			put(t, f, x, "one")
			if x[canon.Sum([]byte("one"))].Segment == 5 {
				t.Error("it was written into")
			}
			if now, err := os.ReadFile(file(t, f, 5)); err != nil || !bytes.Equal(now, c.data) {
				t.Errorf("changed to %q (%v)", now, err)
			}
			if n := len(segments(t, f)); n != 2 {
				t.Errorf("%d segments, want 2", n)
			}
		})
	}
}

// TestFailedSync lets the disk refuse once: nothing of that append counts, and the next one is whole.
func TestFailedSync(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one")
	before := segments(t, f)[0].Size
	broken := errors.New("the disk is gone")
	f.TestingOnlySync(func(*os.File) error { return broken })
	if _, err := f.Append([]pack.Item{item("two")}); !errors.Is(err, broken) {
		t.Fatalf("append: %v", err)
	}
	if now := segments(t, f)[0].Size; now != before {
		t.Errorf("the segment takes %d bytes, want the %d of before: others need the room", now, before)
	}
	f.TestingOnlySync((*os.File).Sync)
	put(t, f, x, "three")
	checkAll(t, f, x, "one", "three")
	for _, s := range segments(t, f) {
		if err := f.Check(s.ID, func(pack.Item, pack.Place) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

// fullDiskChild appends to a disk that has no room for the second record, and then one that fits.
func fullDiskChild(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := pack.Open(dir, rand.NewChaCha8([32]byte{1}), index{}.adopt)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: 4096})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, text := range []string{"one", strings.Repeat("x", 8192), "three"} {
		places, err := f.Append([]pack.Item{item(text)})
		fmt.Println(len(places), err)
	}
	return 0
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 || lines[0] != "1 <nil>" || !strings.HasPrefix(lines[1], "0 append to a pack: write ") || !strings.Contains(lines[1], "file too large") || lines[2] != "1 <nil>" {
		t.Fatalf("said %q", lines)
	}
	f := open(t, dir, 2, index{})
	var kept []string
	for _, s := range segments(t, f) {
		if err := f.Check(s.ID, func(i pack.Item, _ pack.Place) error {
			kept = append(kept, string(i.Data))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(kept, []string{"one", "three"}) {
		t.Errorf("kept %.40q, want one and three, and nothing torn", kept)
	}
}

func TestSegmentsEnd(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	large := pack.Item{Digest: canon.Sum([]byte("large")), Data: make([]byte, pack.MaxRecord)}
	for range 2 {
		if _, err := f.Append([]pack.Item{large}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, f, x, "next")
	if n := len(segments(t, f)); n != 2 {
		t.Errorf("%d segments, want 2: one that is full and the next", n)
	}
	checkAll(t, f, x, "next")
}

// TestLocked: what somebody writes is not taken from him; what he let go is.
func TestLocked(t *testing.T) {
	x := index{}
	f := open(t, t.TempDir(), 1, x)
	put(t, f, x, "one")
	id := segments(t, f)[0].ID
	other := open(t, f.Dir(), 2, x)
	remove := func() error { return other.Remove(id) }
	if ok, err := other.Locked(id, remove); ok || err != nil {
		t.Errorf("a segment that is written: locked %v (%v)", ok, err)
	}
	if err := f.LetGo(id + 2); err != nil {
		t.Fatal(err)
	}
	if ok, err := other.Locked(id, remove); ok || err != nil {
		t.Errorf("after another one was let go: locked %v (%v)", ok, err)
	}
	if err := f.LetGo(id); err != nil {
		t.Fatal(err)
	}
	if ok, err := other.Locked(id, remove); !ok || err != nil {
		t.Errorf("after it was let go: locked %v (%v)", ok, err)
	}
	if _, err := f.Read(x[canon.Sum([]byte("one"))], canon.Sum([]byte("one"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read from a segment that is gone: %v", err)
	}
	if ok, err := other.Locked(id, remove); ok || err != nil {
		t.Errorf("a segment that is gone: locked %v (%v)", ok, err)
	}
	put(t, f, x, "two")
	checkAll(t, f, x, "two")
}

func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	x := index{}
	var all []string
	var wg sync.WaitGroup
	for w := range 4 {
		f := open(t, dir, byte(w), index{})
		for g := range 2 {
			wg.Go(func() {
				for n := range 20 {
					text := fmt.Sprint(w, g, n)
					places, err := f.Append([]pack.Item{item(text)})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					x[canon.Sum([]byte(text))] = places[0]
					all = append(all, text)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	f := open(t, dir, 9, index{})
	if n := len(segments(t, f)); n != 4 {
		t.Errorf("%d segments, want one for each writer", n)
	}
	checkAll(t, f, x, all...)
}

func TestOpenRefuses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{name, filepath.Join(t.TempDir(), "nowhere")} {
		if f, err := pack.Open(dir, nil, nil); err == nil {
			f.Close()
			t.Errorf("%s: opened", dir)
		}
	}
}
