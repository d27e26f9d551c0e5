package server_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// inOwnMounts is set in the child of TestFullDisk, whose mounts are its own and end with it.
const inOwnMounts = "ASSAY_TEST_OWN_MOUNTS"

// TestFullDisk fills the disk of the database while entries are appended, and gives it room again: the append that found
// none says so, what was acknowledged before it is in the log, and what was refused is not.
func TestFullDisk(t *testing.T) {
	if os.Getenv(inOwnMounts) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v", "-test.timeout=2m")
		child.Env = append(os.Environ(), inOwnMounts+"=1")
		child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := child.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("a small disk is mounted, which only root may")
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	t.Run("sqlite", func(t *testing.T) {
		disk := newDisk(t, "4m")
		s := openStore(t, "sqlite:"+filepath.Join(disk.dir, "assay.db"))
		acknowledged := fill(t, s)
		disk.grow("64m")
		if n := len(publishedAll(t, s, acknowledged)); n != len(acknowledged)+1 {
			t.Errorf("%d entries, want the %d that were acknowledged, and one of afterwards", n, len(acknowledged))
		}
	})
	t.Run("postgres", func(t *testing.T) {
		disk := newDisk(t, "112m")
		t.Setenv("TMPDIR", disk.dir)
		pg := pgtest.NewServer(t)
		s := openStore(t, pg.URL())
		acknowledged := fill(t, s)
		// Without room for its log PostgreSQL stops, as after a crash.
		pg.Crash(t)
		disk.grow("512m")
		pg.Start(t)
		publishedAll(t, s, acknowledged)
	})
}

// fill appends until an append fails, and then once more.
func fill(t *testing.T, s *server.Store) (acknowledged []canon.Digest) {
	t.Helper()
	for i := 0; ; i++ {
		c, err := appendLarge(t, s, i)
		if err != nil {
			if !errors.Is(err, sqldb.ErrUnavailable) {
				t.Errorf("full: %v, want %v", err, sqldb.ErrUnavailable)
			}
			t.Logf("%d acknowledged, then: %v", len(acknowledged), err)
			break
		}
		acknowledged = append(acknowledged, c)
	}
	if len(acknowledged) == 0 {
		t.Error("there was no room at all")
	}
	return acknowledged
}

// appendLarge appends one entry with a body that does not compress.
func appendLarge(t *testing.T, s *server.Store, i int) (c canon.Digest, err error) {
	body := make([]byte, 32<<10)
	_, err = rand.Read(body)
	must(t, err)
	err = s.Tx(t.Context(), func(tx *server.Tx) error {
		c, _, err = tx.Append(t.Context(), server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(fmt.Sprint(i % 3)), Time: start, Body: tx.PutBlob(body)})
		return err
	})
	return c, err
}

// publishedAll appends once more, which works again, publishes, and reads the log as an auditor.
func publishedAll(t *testing.T, s *server.Store, acknowledged []canon.Digest) map[canon.Digest]int64 {
	t.Helper()
	if _, err := appendLarge(t, s, 0); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	for n := 1; n > 0; {
		var err error
		n, err = s.Integrate(t.Context(), 1000)
		must(t, err)
	}
	signer, _ := logKey(t)
	_, err := newest(t, s).Publish(t.Context(), signer, start, nil)
	must(t, err)
	inLog := checkLog(t, s)
	last := int64(-1)
	for _, c := range acknowledged {
		at, ok := inLog[c]
		if !ok || at <= last {
			t.Errorf("%s, acknowledged: in the log %v, entry %d after entry %d", c.Short(), ok, at, last)
		}
		last = at
	}
	return inLog
}

// disk is a small file system.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T, size string) disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "assay-disk-") // PostgreSQL runs as another user, to whom the folders of a test are closed
	must(t, err)
	d := disk{t, dir}
	must(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(t, syscall.Mount("tmpfs", d.dir, "tmpfs", 0, "mode=1777,size="+size))
	t.Cleanup(func() {
		for range 50 { // until the database has let go of it
			if err := syscall.Unmount(d.dir, 0); !errors.Is(err, syscall.EBUSY) {
				must(t, errors.Join(err, os.Remove(d.dir)))
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error("the disk is still in use")
	})
	return d
}

func (d disk) grow(size string) {
	d.t.Helper()
	must(d.t, syscall.Mount("tmpfs", d.dir, "tmpfs", syscall.MS_REMOUNT, "mode=1777,size="+size))
}
