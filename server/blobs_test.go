package server_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/pack"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// onAll runs a test on a new store of either database, with its blobs in the table and in a folder.
func onAll(t *testing.T, test func(t *testing.T, url string)) {
	onBoth(t, func(t *testing.T, url string) {
		t.Run("table", func(t *testing.T) { test(t, url) })
	})
	onBoth(t, func(t *testing.T, url string) {
		t.Run("folder", func(t *testing.T) {
			inFolder(t, url)
			test(t, url)
		})
	})
}

// inFolder gives a database a blob folder and returns it.
func inFolder(t testing.TB, url string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s := openStore(t, url)
	must(t, s.MoveBlobs(t.Context(), dir, func(int64) {}))
	must(t, s.Close())
	return dir
}

func putBlobs(t testing.TB, s *server.Store, blobs ...[]byte) {
	t.Helper()
	must(t, s.Tx(t.Context(), func(tx *server.Tx) error {
		for _, b := range blobs {
			tx.PutBlob(b)
		}
		return nil
	}))
}

func wantBlobs(t testing.TB, s *server.Store, blobs ...[]byte) {
	t.Helper()
	for _, b := range blobs {
		if got, err := s.Blob(t.Context(), canon.Sum(b)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%.20q of %d bytes: %d bytes came back (%v)", b, len(b), len(got), err)
		}
	}
}

func holdings(t testing.TB, s *server.Store) server.Holdings {
	t.Helper()
	h, err := s.Holdings(t.Context())
	must(t, err)
	return h
}

// random returns bytes that cannot be compressed.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	newSource(seed).Read(b)
	return b
}

// bundleOf returns the envelope of a bundle whose one device says data and shows a chain.
func bundleOf(t testing.TB, data, chain []byte) []byte {
	t.Helper()
	return bundleWith(t, []attest.Component{{
		Class: attest.ClassGPU, MediaType: "application/vnd.assay.nvidia-gpu-report", Label: "gpu0", Parts: []attest.Part{{Name: "report", Data: data}, {Name: "chain", Data: chain}},
	}})
}

// bundleWith returns the envelope of a bundle with components beside the statement.
func bundleWith(t testing.TB, components []attest.Component) []byte {
	t.Helper()
	session, err := agent.NewSession(newSource(9), "boot", worldBegin)
	must(t, err)
	env, err := attest.SealBundle(attest.Bundle{
		Type: attest.BundleType, Keys: session.Keys(), Challenge: canon.Sum([]byte("N")), Seal: components[0].Label,
		Components: append([]attest.Component{
			{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: []byte("{}")}}},
		}, components...),
	}, session)
	must(t, err)
	text, err := canon.Marshal(env)
	must(t, err)
	return text
}

func TestBlobsComeBack(t *testing.T) {
	onAll(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		chain := random(3, 4000)
		text := bundleOf(t, []byte("report"), chain)
		env, err := ledger.ParseEnvelope(text)
		must(t, err)
		blobs := [][]byte{
			{}, []byte("short"), bytes.Repeat([]byte("long "), 5000), random(1, 5000), text, env.Payload,
			bundleOf(t, []byte("other report"), chain),
			bundleOf(t, []byte("short chain"), chain[:255]), // below the size that is worth a row
			bundleOf(t, []byte("another bundle as a chain"), bundleOf(t, nil, random(4, 900))),
			bytes.Replace(text, []byte(`"payload"`), []byte(` "payload"`), 1), // not canonical: not split
			append(bytes.Clone(text), '\n'),
		}
		putBlobs(t, s, blobs...)
		putBlobs(t, s, blobs[0], blobs[4])
		wantBlobs(t, s, blobs...)
		wantBlobs(t, s, chain)
		if h := holdings(t, s); h.Blobs != int64(len(blobs)+2) {
			t.Errorf("%d rows, want one for each blob, one for the chain that two share and one for that which is a bundle", h.Blobs)
		}
		if n, err := s.CheckBlobs(t.Context(), func(err error) { t.Error(err) }); err != nil || n != int64(len(blobs)+2) {
			t.Errorf("%d checked (%v)", n, err)
		}
		other := openStore(t, url) // another process reads them too
		wantBlobs(t, other, blobs...)
		if _, err := s.Blob(t.Context(), canon.Sum([]byte("never put"))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what was never put: %v", err)
		}
	})
}

// hgx is a machine's eight GPUs and four switches.
type hgx struct{ *mint.HGX }

func (h hgx) Take(nonce canon.Digest) (device.GPUEvidence, error) {
	return device.GPUEvidence{Components: h.Components(nonce)}, nil
}

func (hgx) SetReady(bool) error { return nil }

// TestWhatABundleCosts submits evidence of a machine of eight GPUs and four switches twice. The second bundle costs at
// most 40 KB; API and export give the bytes that were sent.
func TestWhatABundleCosts(t *testing.T) {
	nv := mint.NewNVIDIA()
	l := newLab(t, "", func(s *server.Settings) {
		for _, f := range nv.Roots() {
			must(t, os.WriteFile(filepath.Join(s.Roots, f.Name), f.Data, 0o600))
		}
	})
	store := openStore(t, "sqlite:"+filepath.Join(l.settings.Data, "assay.db"))
	n := l.join("one")
	n.gpus = []agent.GPUs{hgx{nv.HGX("host")}}
	var cost [2]int64
	for i := range cost {
		data := n.evidence(n.challenge())
		before := holdings(t, store).Stored
		s := n.submit(data)
		cost[i] = holdings(t, store).Stored - before
		l.advance()
		t.Logf("bundle %d: %d bytes sent, %d stored; %d with challenge, expectation, appraisal and result", i+1, len(data), cost[i], holdings(t, store).Stored-before)
		if _, got := l.send("GET", "/v1/blobs/"+s.Evidence.String(), l.admin, "", nil); !bytes.Equal(got, data) {
			t.Errorf("the API gives %d bytes, %d were sent", len(got), len(data))
		}
		var file bytes.Buffer
		must(t, audit.Export(t.Context(), l.server.Source(), &file))
		if !bytes.Contains(file.Bytes(), data) {
			t.Error("the export does not hold the bytes that were sent")
		}
	}
	const most = 40_000
	if cost[1] > most {
		t.Errorf("the second bundle costs %d bytes, at most %d", cost[1], most)
	}
	if cost[0] < cost[1]+12*1000 {
		t.Errorf("the first bundle costs %d bytes, the second %d: the chains were not shared", cost[0], cost[1])
	}
	l.audited()
}

// TestServerOnAFolder runs the whole way from challenge to audit with the blobs in a folder.
func TestServerOnAFolder(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		inFolder(t, url)
		l := newLab(t, url)
		n := l.join("one")
		d, evidence := n.prove()
		if d.Outcome != client.Accept {
			t.Errorf("%+v, want accept", d)
		}
		l.restart()
		if d := n.decision(evidence); d.Outcome != client.Accept {
			t.Errorf("after a restart: %+v, want accept", d)
		}
		l.audited()
	})
}

// TestMoveBlobs moves what is in the table while another process reads and writes.
func TestMoveBlobs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		early, s := openStore(t, url), openStore(t, url)
		var blobs [][]byte
		for i := range 600 {
			blobs = append(blobs, random(byte(i), 10+i))
		}
		blobs = append(blobs, bundleOf(t, []byte("report"), random(1, 1000)))
		putBlobs(t, early, blobs...)
		db, err := sqldb.Open(t.Context(), url)
		must(t, err)
		defer db.Close()
		// As a build before this one left them.
		plain := bundleOf(t, []byte("old report"), random(2, 1000))
		digest := canon.Sum(plain)
		must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO blob(digest, data) VALUES ($1, $2)`, digest[:], plain)
			return err
		}))
		blobs = append(blobs, plain)
		dir := filepath.Join(t.TempDir(), "a", "blobs")
		slow := openStore(t, url) // began before there was a folder, and moves after it
		var last int64
		must(t, s.MoveBlobs(t.Context(), dir, func(n int64) { last = n }))
		if last != int64(len(blobs)+1) {
			t.Errorf("%d moved, want %d", last, len(blobs)+1)
		}
		var left int64
		must(t, db.Reader().QueryRow(`SELECT COALESCE(SUM(LENGTH(data)), 0) FROM blob`).Scan(&left))
		if left != 0 {
			t.Errorf("%d bytes are left in the table", left)
		}
		wantBlobs(t, s, blobs...)
		wantBlobs(t, early, blobs...) // which began before there was a folder
		late := []byte("written by the process that began before")
		putBlobs(t, early, late)
		wantBlobs(t, s, late)
		must(t, s.MoveBlobs(t.Context(), dir, func(n int64) { last = n }))
		if last != 1 {
			t.Errorf("%d moved the second time, want 1", last)
		}
		wantBlobs(t, openStore(t, url), append(blobs, late)...)
		other := t.TempDir()
		for _, s := range []*server.Store{s, slow} {
			if err := s.MoveBlobs(t.Context(), other, func(int64) {}); err == nil || !strings.Contains(err.Error(), "they lie in "+dir) {
				t.Errorf("a second folder: %v", err)
			}
			must(t, s.MoveBlobs(t.Context(), dir, func(int64) { t.Error("it was moved already") }))
		}
		if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
			t.Errorf("in the second folder: %v (%v)", left, err)
		}
	})
}

// TestMoveLargeBlobs: what one transaction moves, and so holds in memory, is bounded in bytes as well.
func TestMoveLargeBlobs(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	for i := range 2 {
		putBlobs(t, s, random(byte(i), 16<<20))
	}
	var moved []int64
	must(t, s.MoveBlobs(t.Context(), filepath.Join(t.TempDir(), "blobs"), func(n int64) { moved = append(moved, n) }))
	if !slices.Equal(moved, []int64{1, 2}) {
		t.Errorf("moved in steps to %v, want one at a time", moved)
	}
}

// TestFolderOfAnother: a database opens its own blob folder and no other, and none that is not there.
func TestFolderOfAnother(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	dir := inFolder(t, url)
	s := openStore(t, url)
	must(t, s.Close())
	name, err := os.ReadFile(filepath.Join(dir, "NAME"))
	must(t, err)
	for _, c := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"another's", func() error { return os.WriteFile(filepath.Join(dir, "NAME"), []byte("another\n"), 0o600) }, "this database's is called"},
		{"not there", func() error { return os.Rename(dir, dir+"-moved") }, "no such file"},
		{"back again", func() error {
			return errors.Join(os.Rename(dir+"-moved", dir), os.WriteFile(filepath.Join(dir, "NAME"), name, 0o600))
		}, ""},
	} {
		must(t, c.change())
		s, err := server.OpenStore(t.Context(), url, newSource(1))
		if err == nil {
			s.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	fresh := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"))
	if err := fresh.MoveBlobs(t.Context(), dir, func(int64) {}); err == nil || !strings.Contains(err.Error(), "is a blob folder already") {
		t.Errorf("a folder that is another's: %v", err)
	}
}

// TestRelativeFolder: a SQLite database and the blob folder beside it may be moved together.
func TestRelativeFolder(t *testing.T) {
	top := t.TempDir()
	old, moved := filepath.Join(top, "old"), filepath.Join(top, "new")
	must(t, os.Mkdir(old, 0o700))
	s, err := server.OpenStore(t.Context(), "sqlite:"+filepath.Join(old, "assay.db"), newSource(1))
	must(t, err)
	must(t, s.MoveBlobs(t.Context(), filepath.Join(old, "blobs"), func(int64) {}))
	putBlobs(t, s, []byte("kept"))
	must(t, s.Close())
	must(t, os.Rename(old, moved))
	wantBlobs(t, openStore(t, "sqlite:"+filepath.Join(moved, "assay.db")), []byte("kept"))
}

// TestRebuildOnAFolder: a rebuilt database finds the blob folder that lay beside the old one.
func TestRebuildOnAFolder(t *testing.T) {
	dir := t.TempDir()
	from, to := "sqlite:"+filepath.Join(dir, "assay.db"), "sqlite:"+filepath.Join(t.TempDir(), "assay.db")
	s := openStore(t, from)
	must(t, s.MoveBlobs(t.Context(), filepath.Join(dir, "blobs"), func(int64) {}))
	putBlobs(t, s, []byte("kept"), []byte{})
	must(t, s.Close())
	_, err := server.Rebuild(t.Context(), from, to, newSource(1), nil)
	must(t, err)
	wantBlobs(t, openStore(t, to), []byte("kept"), []byte{})
}

// segmentFiles returns the segments of a folder.
func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	must(t, err)
	return names
}

// TestFlippedBitInSegment: what is damaged is named by digest, segment and byte; it is never taken for absent, and the
// blobs beside it are there.
func TestFlippedBitInSegment(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		dir := inFolder(t, url)
		s := openStore(t, url)
		good, bad := random(1, 500), random(2, 500)
		putBlobs(t, s, good)
		putBlobs(t, s, bad)
		name := segmentFiles(t, dir)[0]
		data, err := os.ReadFile(name)
		must(t, err)
		at := bytes.Index(data, bad)
		data[at+100] ^= 4
		must(t, os.WriteFile(name, data, 0o600))
		want := func(err error) {
			t.Helper()
			var d *pack.Damage
			if !errors.As(err, &d) || d.Segment != name || d.At != int64(at-pack.RecordOverhead) || !strings.Contains(err.Error(), canon.Sum(bad).String()) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v, want damage of %s in %s at byte %d", err, canon.Sum(bad), name, at-pack.RecordOverhead)
			}
		}
		_, err = s.Blob(t.Context(), canon.Sum(bad))
		want(err)
		wantBlobs(t, s, good)
		found := 0
		n, err := s.CheckBlobs(t.Context(), func(err error) { want(err); found++ })
		if err != nil || n != 2 || found != 1 {
			t.Errorf("%d checked, %d found (%v), want 1 of 2", n, found, err)
		}
		// A segment that is gone altogether is no blob that is absent, either.
		must(t, os.Remove(name))
		if _, err := s.Blob(t.Context(), canon.Sum(good)); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "damaged: open "+name) {
			t.Errorf("a segment that is gone: %v", err)
		}
	})
}

// TestDamagedRow: a bit of a row is found as well.
func TestDamagedRow(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "assay.db")
	s := openStore(t, url)
	blob := random(1, 100)
	putBlobs(t, s, blob)
	wantBlobs(t, s, blob)
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	bad := bytes.Clone(blob)
	bad[7] ^= 1
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(`UPDATE blob SET data = $1`, bad); return err }))
	if _, err := s.Blob(t.Context(), canon.Sum(blob)); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v, want damage", err)
	}
	// A digest that is none is an error as well, and no panic.
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(`UPDATE blob SET digest = $1`, blob[:5]); return err }))
	if _, err := s.CheckBlobs(t.Context(), func(error) {}); err == nil || !strings.Contains(err.Error(), "damaged database: a digest of 5 bytes, want 32") {
		t.Errorf("%v, want damage", err)
	}
}

// In the child of TestKillAtStep these name the database and the step after which it kills itself.
const (
	stepURL  = "ASSAY_TEST_STEP_URL"
	stepName = "ASSAY_TEST_STEP"
)

// TestStepChild is no test: it is the process that TestKillAtStep has kill itself.
func TestStepChild(t *testing.T) {
	url, step := os.Getenv(stepURL), os.Getenv(stepName)
	if url == "" {
		t.Skip("runs as a child of TestKillAtStep")
	}
	s, err := server.OpenStore(t.Context(), url, newSource(40))
	must(t, err)
	s.TestingOnlyStep(func(done string) {
		if done == step {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
	})
	switch step {
	case fullDisk:
		writeToFullDisk(t, s)
		return
	case "packed":
		putBlobs(t, s, stepBlobs(60)...)
	default:
		_, err = s.Collect(t.Context(), canon.At(time.Now().Add(2*server.SegmentRest)))
	}
	t.Fatalf("step %s was never done (%v)", step, err)
}

// stepBlobs returns blobs that a seed stands for.
func stepBlobs(seed byte) (blobs [][]byte) {
	for i := range 40 {
		blobs = append(blobs, append(random(seed, 500), byte(i)))
	}
	return blobs
}

// TestKillAtStep kills a process between writing to a segment and committing, and at both worst points of rewriting a
// segment. What was committed is there, what was not is not, and the next start goes on.
func TestKillAtStep(t *testing.T) {
	for _, step := range []string{"packed", "moved", "emptied"} {
		t.Run(step, func(t *testing.T) {
			onBoth(t, func(t *testing.T, url string) {
				dir := inFolder(t, url)
				s := openStore(t, url)
				kept, gone := stepBlobs(50), stepBlobs(51)
				putBlobs(t, s, kept[:10]...)
				putBlobs(t, s, gone...)
				dropRows(t, url, gone) // so that more than half of the segment is dead
				must(t, s.Close())
				child := exec.Command(os.Args[0], "-test.run=^TestStepChild$")
				child.Env = append(os.Environ(), stepURL+"="+url, stepName+"="+step)
				if out, err := child.CombinedOutput(); err == nil || child.ProcessState.ExitCode() != -1 {
					t.Fatalf("the child ended by itself: %v\n%s", err, out)
				}
				s = openStore(t, url)
				wantBlobs(t, s, kept[:10]...)
				if step == "packed" {
					for _, b := range stepBlobs(60) {
						if _, err := s.Blob(t.Context(), canon.Sum(b)); !errors.Is(err, fs.ErrNotExist) {
							t.Fatalf("a blob that was never committed: %v", err)
						}
					}
				}
				putBlobs(t, s, stepBlobs(60)...)
				putBlobs(t, s, kept...)
				wantBlobs(t, s, append(stepBlobs(60), kept...)...)
				must(t, s.Close())
				s = openStore(t, url)
				c, err := s.Collect(t.Context(), canon.At(time.Now().Add(2*server.SegmentRest)))
				must(t, err)
				if len(c.Damaged) > 0 {
					t.Errorf("damaged: %v", c.Damaged)
				}
				wantBlobs(t, s, append(stepBlobs(60), kept...)...)
				if n, err := s.CheckBlobs(t.Context(), func(err error) { t.Error(err) }); n != 80 || err != nil {
					t.Errorf("%d blobs, want 80 (%v)", n, err)
				}
				if h := holdings(t, s); 2*h.Dead > h.Size {
					t.Errorf("%d of %d bytes of the segments in %s are dead after a collection", h.Dead, h.Size, dir)
				}
			})
		})
	}
}

// dropRows takes blobs out of the database alone, as erasing does.
func dropRows(t testing.TB, url string, blobs [][]byte) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
		for _, b := range blobs {
			d := canon.Sum(b)
			if _, err := tx.Exec(`DELETE FROM blob WHERE digest = $1`, d[:]); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestTornSegment: what a crash tore is cut when the next process writes, and what was committed is there.
func TestTornSegment(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		dir := inFolder(t, url)
		s := openStore(t, url)
		kept := stepBlobs(1)
		putBlobs(t, s, kept...)
		must(t, s.Close())
		name := segmentFiles(t, dir)[0]
		whole, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(name, append(bytes.Clone(whole), whole[32:500]...), 0o600)) // a record without its end
		s = openStore(t, url)
		next := random(9, 300)
		putBlobs(t, s, next)
		wantBlobs(t, s, append(kept, next)...)
		now, err := os.ReadFile(name)
		must(t, err)
		if want := len(whole) + pack.RecordOverhead + len(next); len(now) != want || !bytes.Equal(now[:len(whole)], whole) {
			t.Errorf("%d bytes, want %d: the whole records and the next", len(now), want)
		}
	})
}

// fullDisk is the step of a child that has no room: TestFullDiskOfBlobs starts it.
const fullDisk = "full disk"

// writeToFullDisk puts one blob after another into files that may not grow beyond 4 MiB, and says which went well.
func writeToFullDisk(t *testing.T, s *server.Store) {
	signal.Ignore(syscall.SIGXFSZ)
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4 << 20, Max: 4 << 20}))
	for i, size := range fullDiskSizes {
		err := s.Tx(t.Context(), func(tx *server.Tx) error {
			tx.PutBlob(random(byte(i), size))
			return nil
		})
		fmt.Printf("put %v %v\n", err == nil, err)
	}
}

var fullDiskSizes = []int{1 << 20, 1 << 20, 1 << 20, 2 << 20, 1 << 10}

// TestFullDiskOfBlobs: what has no room is refused and nothing of it is there; what was there stays, and what has room
// goes on.
func TestFullDiskOfBlobs(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		inFolder(t, url)
		child := exec.Command(os.Args[0], "-test.run=^TestStepChild$")
		child.Env = append(os.Environ(), stepURL+"="+url, stepName+"="+fullDisk)
		out, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var said []string
		for line := range strings.Lines(string(out)) {
			if rest, ok := strings.CutPrefix(line, "put "); ok {
				said = append(said, strings.TrimSpace(rest))
			}
		}
		if len(said) != 5 || said[0] != "true <nil>" || said[2] != "true <nil>" || !strings.HasPrefix(said[3], "false ") || !strings.Contains(said[3], "store blobs: append to a pack: write") || said[4] != "true <nil>" {
			t.Fatalf("said %q", said)
		}
		s := openStore(t, url)
		for i, size := range fullDiskSizes {
			if i != 3 {
				wantBlobs(t, s, random(byte(i), size))
			} else if _, err := s.Blob(t.Context(), canon.Sum(random(byte(i), size))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a blob that had no room: %v", err)
			}
		}
		if h := holdings(t, s); h.Dead > 4096 {
			t.Errorf("%d bytes of the segments are dead: what had no room still takes it", h.Dead)
		}
	})
}

// TestCollectParts: parts go with the last bundle that needs them, after their time, and not before.
func TestCollectParts(t *testing.T) {
	onAll(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		chain, other := random(1, 900), random(2, 900)
		one, two := bundleOf(t, []byte("one"), chain), bundleOf(t, []byte("two"), chain)
		putBlobs(t, s, one, two, other)
		collect := func(at canon.Time, want int64) {
			t.Helper()
			c, err := s.Collect(t.Context(), at)
			must(t, err)
			if c.Blobs != want || len(c.Damaged) > 0 {
				t.Errorf("%+v, want %d blobs collected", c, want)
			}
		}
		day := canon.Time(server.GarbageAge / time.Second)
		collect(start+100*day, 0)
		s.TestingOnlyForget(t, start, canon.Sum(one))
		collect(start+100*day, 0) // the other bundle needs it
		wantBlobs(t, s, two, chain)
		markUnneeded(t, url, chain) // as one who erases may, while another transaction is about to need it
		collect(start+100*day, 0)
		wantBlobs(t, s, two, chain)
		s.TestingOnlyForget(t, start, canon.Sum(two))
		collect(start+day-1, 0) // not yet
		wantBlobs(t, s, chain)
		putBlobs(t, s, one) // it is needed again
		collect(start+100*day, 0)
		wantBlobs(t, s, one, chain)
		s.TestingOnlyForget(t, start+50*day, canon.Sum(one))
		collect(start+51*day-1, 0) // its time counts from the last bundle that needed it
		wantBlobs(t, s, chain)
		collect(start+51*day, 1)
		if _, err := s.Blob(t.Context(), canon.Sum(chain)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the chain: %v, want it gone", err)
		}
		wantBlobs(t, s, other)
		// What was put for its own sake stays when the bundle that has it as a part goes.
		putBlobs(t, s, one, chain)
		s.TestingOnlyForget(t, start, canon.Sum(one))
		collect(start+100*day, 0)
		wantBlobs(t, s, chain)
	})
}

// markUnneeded marks a part as one that nothing needs.
func markUnneeded(t testing.TB, url string, part []byte) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	defer db.Close()
	d := canon.Sum(part)
	must(t, db.Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE blob SET unnamed = 1 WHERE digest = $1`, d[:])
		return err
	}))
}

// TestCollectSegments: a segment goes when little in it counts, and nobody writes it, and it has rested.
func TestCollectSegments(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		dir := inFolder(t, url)
		s := openStore(t, url)
		kept, gone := stepBlobs(1), stepBlobs(2)
		putBlobs(t, s, kept...)
		putBlobs(t, s, gone...)
		rested := canon.At(time.Now().Add(2 * server.SegmentRest))
		first := segmentFiles(t, dir)[0]
		collect := func(what string, at canon.Time, want int64) {
			t.Helper()
			c, err := s.Collect(t.Context(), at)
			must(t, err)
			if c.Segments != want || len(c.Damaged) > 0 {
				t.Errorf("%s: %+v, want %d segments gone", what, c, want)
			}
			wantBlobs(t, s, kept...)
		}
		dropRows(t, url, gone)
		dropRows(t, url, kept[:2])
		kept = kept[2:]
		collect("while it is written", rested, 0)
		must(t, s.Close())
		s = openStore(t, url)
		collect("while it rests", canon.At(time.Now()), 0)
		putBlobs(t, s, kept[0]) // is there: nothing is written
		reader := openStore(t, url)
		wantBlobs(t, reader, kept...)
		collect("when it has rested", rested, 1)
		if _, err := os.Stat(first); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old segment: %v", err)
		}
		wantBlobs(t, reader, kept...)
		must(t, s.Close())
		s = openStore(t, url)
		dropRows(t, url, kept[:10])
		kept = kept[10:]
		collect("most of it counts", rested, 0)
		dropRows(t, url, kept)
		kept = nil
		collect("nothing of it counts", rested, 1)
		if left := segmentFiles(t, dir); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestCollectDamaged: a segment that cannot be read whole is kept and named, and nothing in it is lost that was there.
func TestCollectDamaged(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		dir := inFolder(t, url)
		s := openStore(t, url)
		kept, gone := stepBlobs(1)[:5], stepBlobs(2)
		putBlobs(t, s, kept...)
		putBlobs(t, s, gone...)
		must(t, s.Close())
		name := segmentFiles(t, dir)[0]
		data, err := os.ReadFile(name)
		must(t, err)
		data[bytes.Index(data, kept[3])+9] ^= 1
		must(t, os.WriteFile(name, data, 0o600))
		dropRows(t, url, gone)
		s = openStore(t, url)
		c, err := s.Collect(t.Context(), canon.At(time.Now().Add(2*server.SegmentRest)))
		must(t, err)
		if len(c.Damaged) != 1 || !strings.Contains(c.Damaged[0].Error(), name) || c.Segments != 0 {
			t.Errorf("%+v, want the segment named and kept", c)
		}
		wantBlobs(t, s, kept[0], kept[1], kept[2], kept[4])
	})
}

// TestCollectWhileWriting: what is put while others collect is there when the transaction has committed, be its parts just
// about to go.
func TestCollectWhileWriting(t *testing.T) {
	onAll(t, func(t *testing.T, url string) {
		const rounds = 40
		s, other := openStore(t, url), openStore(t, url)
		late := start + 10*canon.Time(server.GarbageAge/time.Second)
		chain := random(1, 900)
		var wg sync.WaitGroup
		done := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := other.Collect(t.Context(), late); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range rounds {
			bundle := bundleOf(t, fmt.Append(nil, i), chain)
			putBlobs(t, s, bundle)
			wantBlobs(t, s, bundle, chain)
			s.TestingOnlyForget(t, start, canon.Sum(bundle))
		}
		close(done)
		wg.Wait()
	})
}

// TestKillOnAFolder is TestKill with the blobs in a folder.
func TestKillOnAFolder(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		inFolder(t, url)
		killed(t, url)
	})
}

// TestHostileManifest: bytes that look like a bundle and are none come back as they were.
func TestHostileManifest(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "assay.db"))
	payload := base64.StdEncoding.EncodeToString([]byte(`{"type":"assay/bundle/v1"}`))
	var blobs [][]byte
	for _, text := range []string{
		`"payloadType":"assay/bundle/v1"`,
		fmt.Sprintf(`{"payload":%q,"payloadType":"assay/bundle/v1","signatures":[]}`, payload),
		fmt.Sprintf(`{"payload":%q,"payloadType":"assay/bundle/v1","signatures":[{"keyid":"%064x","sig":""}]}`, payload, 1),
	} {
		blobs = append(blobs, []byte(text))
	}
	putBlobs(t, s, blobs...)
	wantBlobs(t, s, blobs...)
}
