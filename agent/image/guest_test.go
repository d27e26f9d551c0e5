package image_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/image"
)

const (
	machineX86 = 62
	machineARM = 183
	typeLoad   = 1
	typeInterp = 3
)

// program returns a small ELF executable with one segment.
func program(machine uint16, segment uint32) []byte {
	b := elfHeader(machine, 2)
	le := binary.LittleEndian
	le.PutUint64(b[32:], 64) // program headers
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	header := make([]byte, 56)
	le.PutUint32(header, segment)
	return append(b, header...)
}

// object returns a small ELF object with one section of the given name: a kernel module, where it is .modinfo.
func object(section, contents string) []byte {
	names := "\x00" + section + "\x00.shstrtab\x00"
	b := elfHeader(machineX86, 1)
	le := binary.LittleEndian
	le.PutUint64(b[40:], uint64(64+len(contents)+len(names))) // section headers
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], 3)
	le.PutUint16(b[62:], 2)
	b = append(append(b, contents...), names...)
	header := func(name int, kind uint32, offset, size int) {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(name))
		le.PutUint32(h[4:], kind)
		le.PutUint64(h[24:], uint64(offset))
		le.PutUint64(h[32:], uint64(size))
		b = append(b, h...)
	}
	header(0, 0, 0, 0)
	header(1, 1, 64, len(contents))
	header(2+len(section), 3, 64+len(contents), len(names))
	return b
}

func elfHeader(machine, kind uint16) []byte {
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(b[16:], kind)
	binary.LittleEndian.PutUint16(b[18:], machine)
	binary.LittleEndian.PutUint32(b[20:], 1)
	return b
}

func TestGuest(t *testing.T) {
	g := image.Guest{
		Agent: program(machineX86, typeLoad), Pins: []byte("{}"), Roots: []byte("certificates"),
		Modules: []image.Module{{Name: "tsm", Data: []byte("1")}, {Name: "sev_guest", Data: []byte("2")}},
	}
	archive, err := g.Initrd()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, line := range read(t, archive) {
		f := strings.SplitN(line, " ", 5)
		files = append(files, f[1]+" "+f[3])
	}
	want := []string{
		"40755 dev", "40755 etc", "40755 etc/assay", "100644 etc/assay/modules", "100644 etc/assay/pins.json",
		"40755 etc/ssl", "40755 etc/ssl/certs", "100644 etc/ssl/certs/ca-certificates.crt", "100755 init",
		"40755 lib", "40755 lib/modules", "100644 lib/modules/sev_guest.ko", "100644 lib/modules/tsm.ko",
		"40755 proc", "40755 run", "40755 sys",
	}
	if !slices.Equal(files, want) { // one program, and no other way in
		t.Errorf("got\n%s", strings.Join(files, "\n"))
	}
	if !bytes.Contains(archive, []byte("lib/modules/tsm.ko\nlib/modules/sev_guest.ko\n")) {
		t.Error("the list has another order than the modules were given in")
	}
	for _, c := range []struct {
		name  string
		agent []byte
		want  string
	}{
		{"dynamic", program(machineX86, typeInterp), "dynamically linked"},
		{"other processor", program(machineARM, typeLoad), "want x86-64"},
		{"script", []byte("#!/bin/sh\n"), "not an ELF"},
		{"empty", nil, "not an ELF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := (image.Guest{Agent: c.agent}).Initrd(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestModules(t *testing.T) {
	tree := map[string][]byte{
		"tsm":       object(".modinfo", "license=GPL\x00depends=configfs\x00"),
		"configfs":  object(".modinfo", "depends=\x00"),
		"sev_guest": object(".modinfo", "depends=tsm,virt-words\x00"),
		"alone":     object(".modinfo", "license=GPL\x00"),
		"ring_a":    object(".modinfo", "depends=ring_b\x00"),
		"ring_b":    object(".modinfo", "depends=ring_a\x00"),
		"lacking":   object(".modinfo", "depends=nowhere\x00"),
		"foreign":   object(".text", "x"),
		"packed":    []byte("\xfd7zXZ"),
	}
	find := func(name string) ([]byte, bool, error) { data, ok := tree[name]; return data, ok, nil }
	for _, c := range []struct {
		name   string
		wanted []string
		want   string // names in order, or what the error holds
		fails  bool
	}{
		{"needs come first", []string{"sev-guest"}, "configfs tsm sev_guest", false},
		{"once each", []string{"tsm", "sev_guest", "configfs"}, "configfs tsm sev_guest", false},
		{"built in is left out", []string{"virt_words", "alone"}, "alone", false},
		{"nothing", nil, "", false},
		{"in a ring", []string{"ring_a"}, "ring_a depends on itself", true},
		{"not there", []string{"nowhere"}, "nowhere is neither built into", true},
		{"need not there", []string{"lacking"}, "module lacking: nowhere is neither", true},
		{"no module", []string{"foreign"}, "no .modinfo", true},
		{"compressed", []string{"packed"}, "must not be compressed", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := image.Modules(c.wanted, []byte("kernel/lib/virt-words.ko\n"), find)
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			var names []string
			for _, m := range got {
				names = append(names, m.Name)
			}
			if err != nil || strings.Join(names, " ") != c.want {
				t.Errorf("%q, %v", names, err)
			}
		})
	}
}

// kernel returns the kernel that scripts/guest-kernel fetched, or skips the test.
func kernel(t *testing.T) []byte {
	t.Helper()
	dir := os.Getenv("ASSAY_GUEST_KERNEL")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip("no cache folder, and so no guest kernel")
		}
		dir = filepath.Join(cache, "assay", "guest-kernel")
	}
	data, err := os.ReadFile(filepath.Join(dir, "vmlinuz"))
	if err != nil {
		t.Skipf("no guest kernel in %s: scripts/guest-kernel fetches one", dir)
	}
	return data
}
