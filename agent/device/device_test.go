package device_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/agent/device/faketsm/tsmfs"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/internal/canon"
)

// platform answers with bytes that show what it was asked: REPORT_DATA and VMPL stand where a real report has them
// (SEV-SNP firmware ABI: 050h and 030h).
type platform struct {
	size  int
	table []byte
	err   error
}

func (p platform) Report(reportData [64]byte, vmpl int) ([]byte, []byte, error) {
	out := make([]byte, p.size)
	if p.size > 0x90 {
		copy(out[0x50:], reportData[:])
		out[0x30] = byte(vmpl)
	}
	return out, p.table, p.err
}

// The makers of evidence fit behind the same interface.
var _ faketsm.Platform = (*mint.Platform)(nil)

var honest = platform{size: 1184, table: []byte("certificate table")}

// both runs a test over the file system and over the interface in memory: one provider, two ways to it.
func both(t *testing.T, p func() *faketsm.Provider, check func(*testing.T, *faketsm.Provider, device.TSM)) {
	t.Run("file system", func(t *testing.T) {
		p := p()
		check(t, p, device.OpenTSM(tsmfs.Mount(t, p)))
	})
	t.Run("memory", func(t *testing.T) {
		p := p()
		check(t, p, device.NewTSM(p.Client()))
	})
}

func data(b byte) (d [64]byte) {
	for i := range d {
		d[i] = b
	}
	return d
}

// take takes a report, or sees that it is refused as it should be, which is not ok. Either way no entry stays behind.
func take(t *testing.T, p *faketsm.Provider, tsm device.TSM, asked [64]byte, wantErr string) (c attest.Component, ok bool) {
	t.Helper()
	c, err := tsm.Take(asked[:])
	if left := p.Entries(); len(left) != 0 {
		t.Errorf("entries left behind: %v", left)
	}
	switch {
	case wantErr == "" && err != nil:
		t.Fatal(err)
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
		t.Fatalf("error %v, want %q", err, wantErr)
	}
	return c, err == nil
}

func TestTake(t *testing.T) {
	for _, tc := range []struct {
		name     string
		platform platform
		alter    func(*faketsm.Provider)
		wantVMPL byte
		noTable  bool
		wantErr  string
	}{
		{name: "report and table", platform: honest},
		{name: "no table", platform: platform{size: 1184}, noTable: true},
		{name: "paravisor", platform: honest, alter: func(p *faketsm.Provider) { p.Floor = 2 }, wantVMPL: 2},
		{name: "other provider", platform: honest, alter: func(p *faketsm.Provider) { p.Name = "arm_cca_guest" },
			wantErr: `provider "arm_cca_guest" is not known`},
		{name: "short report", platform: platform{size: 1183}, wantErr: "report of 1183 bytes, want 1184"},
		{name: "large table", platform: platform{size: 1184, table: make([]byte, attest.MaxCertTable+1)}, wantErr: "certificate table of 65537 bytes"},
		{name: "device fault", platform: platform{size: 1184, err: errors.New("no key")}, wantErr: "input/output error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := func() *faketsm.Provider {
				p := faketsm.New(tc.platform)
				if tc.alter != nil {
					tc.alter(p)
				}
				return p
			}
			both(t, made, func(t *testing.T, p *faketsm.Provider, tsm device.TSM) {
				want := data(0xa5)
				c, ok := take(t, p, tsm, want, tc.wantErr)
				if !ok {
					return
				}
				if c.Class != attest.ClassCPU || c.Label != "cpu0" || c.MediaType != "application/vnd.assay.sev-snp-report" {
					t.Errorf("component %s %s %s", c.Class, c.Label, c.MediaType)
				}
				out, _ := c.Part("report")
				if len(out) != 1184 || !bytes.Equal(out[0x50:0x90], want[:]) || out[0x30] != tc.wantVMPL {
					t.Errorf("report of %d bytes does not hold what was asked", len(out))
				}
				table, ok := c.Part("certificates")
				if ok == tc.noTable || !bytes.Equal(table, tc.platform.table) {
					t.Errorf("certificates %q, %v", table, ok)
				}
			})
		})
	}
}

// A report that raced is never returned: another writer's bytes would stand in it, or the kernel's are not ready.
func TestRace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		times   int // that somebody interferes
		race    func(p *faketsm.Provider, entry string) error
		wantErr string
	}{
		{name: "busy once", times: 1, race: func(*faketsm.Provider, string) error { return syscall.EBUSY }},
		{name: "busy always", times: 99, race: func(*faketsm.Provider, string) error { return syscall.EBUSY }, wantErr: "5 tries"},
		{name: "foreign write once", times: 1, race: func(p *faketsm.Provider, e string) error {
			return p.Write(e, "inblob", []byte("the thief's own report data"))
		}},
		{name: "foreign write always", times: 99, race: func(p *faketsm.Provider, e string) error {
			return p.Write(e, "inblob", []byte("the thief's own report data"))
		}, wantErr: "5 tries"},
		{name: "other error", times: 1, race: func(*faketsm.Provider, string) error { return syscall.ENOTTY }, wantErr: "inappropriate ioctl"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := func() *faketsm.Provider {
				p, n := faketsm.New(honest), 0
				p.Race = func(entry string) error {
					if n++; n > tc.times {
						return nil
					}
					return tc.race(p, entry)
				}
				return p
			}
			both(t, made, func(t *testing.T, p *faketsm.Provider, tsm device.TSM) {
				want := data(7)
				c, ok := take(t, p, tsm, want, tc.wantErr)
				if !ok {
					return
				}
				if out, _ := c.Part("report"); !bytes.Equal(out[0x50:0x90], want[:]) {
					t.Error("the report holds another writer's data")
				}
			})
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	both(t, func() *faketsm.Provider { return faketsm.New(honest) }, func(t *testing.T, p *faketsm.Provider, tsm device.TSM) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				want := data(byte(i))
				c, err := tsm.Take(want[:])
				if err != nil {
					t.Error(err)
				} else if out, _ := c.Part("report"); !bytes.Equal(out[0x50:0x90], want[:]) {
					t.Errorf("report %d holds another's data", i)
				}
			})
		}
		wg.Wait()
	})
}

func TestStatus(t *testing.T) {
	both(t, func() *faketsm.Provider { p := faketsm.New(honest); p.Floor = 1; return p },
		func(t *testing.T, p *faketsm.Provider, tsm device.TSM) {
			s, err := tsm.Status()
			if err != nil || s != (device.Status{Provider: "sev_guest", Floor: 1}) {
				t.Fatalf("%+v, %v", s, err)
			}
			if left := p.Entries(); len(left) != 0 {
				t.Errorf("entries left behind: %v", left)
			}
		})
	if _, err := device.OpenTSM(filepath.Join(t.TempDir(), "absent")).Status(); !strings.Contains(err.Error(), "no such file") {
		t.Errorf("absent interface: %v", err)
	}
}

// The file system of the tests keeps the laws of the kernel's, whatever program uses it.
func TestFileSystemLaws(t *testing.T) {
	p := faketsm.New(honest)
	entry := filepath.Join(tsmfs.Mount(t, p), "report", "mine")
	if err := os.Mkdir(entry, 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(a string) string { return filepath.Join(entry, a) }
	generation := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(at("generation")); err != nil || string(got) != want+"\n" {
			t.Errorf("generation %q, %v, want %s", got, err, want)
		}
	}
	if _, err := os.ReadFile(at("outblob")); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("outblob before inblob: %v, want EINVAL", err)
	}
	if _, err := os.ReadFile(at("inblob")); !errors.Is(err, syscall.EACCES) {
		t.Errorf("inblob read: %v, want EACCES", err)
	}
	if err := os.WriteFile(at("outblob"), []byte("x"), 0); !errors.Is(err, syscall.EACCES) {
		t.Errorf("outblob written: %v, want EACCES", err)
	}
	if err := os.WriteFile(at("inblob"), make([]byte, 65), 0); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("65 bytes: %v, want EFBIG", err)
	}
	if err := os.WriteFile(at("privlevel"), []byte("4"), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("privlevel 4: %v, want EINVAL", err)
	}
	generation("0")
	if err := os.WriteFile(at("inblob"), make([]byte, 64), 0); err != nil {
		t.Fatal(err)
	}
	generation("1")
	if out, err := os.ReadFile(at("outblob")); err != nil || len(out) != 1184 {
		t.Errorf("outblob: %d bytes, %v", len(out), err)
	}
	if err := os.Remove(entry); err != nil {
		t.Errorf("rmdir of an entry: %v", err)
	}
	if len(p.Entries()) != 0 {
		t.Errorf("entry is still there")
	}
}

func TestHost(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "boot_id")
	os.WriteFile(file, []byte("6f1e2c9a-0000-4000-8000-000000000001\n"), 0o600)
	if id, err := device.BootID(file); err != nil || id != "6f1e2c9a-0000-4000-8000-000000000001" {
		t.Errorf("boot id %q, %v", id, err)
	}
	os.WriteFile(file, []byte("\n"), 0o600)
	if _, err := device.BootID(file); err == nil {
		t.Error("an empty boot id was taken")
	}
	exe := make([]byte, 100_000)
	rand.Read(exe)
	file = filepath.Join(dir, "exe")
	os.WriteFile(file, exe, 0o700)
	if d, err := device.Executable(file); err != nil || d != canon.Digest(sha256.Sum256(exe)) {
		t.Errorf("executable %v, %v", d, err)
	}
	if _, err := device.Executable(device.DefaultExecutable); err != nil {
		t.Errorf("own executable: %v", err)
	}
}
