package image_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/image"
)

func files() []image.File {
	return []image.File{
		{Path: "init", Executable: true, Data: []byte("an agent of some length")},
		{Path: "etc/assay/server", Data: []byte("https://verifier.example\n")},
		{Path: "etc/assay-empty"},
		{Path: "proc/"}, {Path: "sys/"}, {Path: "dev/"},
	}
}

// TestSameBytes: the archive depends on the files alone, not on their order, and not on when or where it is written.
func TestSameBytes(t *testing.T) {
	first, err := image.Initrd(files())
	if err != nil {
		t.Fatal(err)
	}
	turned := files()
	slices.Reverse(turned)
	second, err := image.Initrd(turned)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two runs differ, %v", err)
	}
	const want = "a786d4dceec82bfcd183bbf8cc747601d2ddb350ae4775a16c2eb9f172937fd6"
	if got := fmt.Sprintf("%x", sha256.Sum256(first)); got != want {
		t.Errorf("digest %s, was %s", got, want)
	}
	changed := files()
	changed[0].Data[0] ^= 1
	third, err := image.Initrd(changed)
	if err != nil || bytes.Equal(first, third) {
		t.Errorf("a changed byte changes nothing, %v", err)
	}
}

func TestReadBack(t *testing.T) {
	archive, err := image.Initrd(files())
	if err != nil {
		t.Fatal(err)
	}
	if len(archive)%512 != 0 {
		t.Errorf("%d bytes, want whole blocks", len(archive))
	}
	want := []string{
		`1 40755 2 dev ""`, `2 40755 2 etc ""`, `3 40755 2 etc/assay ""`, `4 100644 1 etc/assay-empty ""`,
		`5 100644 1 etc/assay/server "https://verifier.example\n"`, `6 100755 1 init "an agent of some length"`,
		`7 40755 2 proc ""`, `8 40755 2 sys ""`,
	}
	if got := read(t, archive); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// read lists a newc archive: inode, mode, links, name and data of each entry. Owners, times and devices must be zero.
func read(t *testing.T, archive []byte) (list []string) {
	t.Helper()
	at := 0
	take := func(n int) []byte {
		if at+n > len(archive) {
			t.Fatalf("archive ends at %d", len(archive))
		}
		at += n
		return archive[at-n : at]
	}
	align := func() { take((4 - at%4) % 4) }
	for {
		if magic := take(6); string(magic) != "070701" {
			t.Fatalf("magic %q at %d", magic, at-6)
		}
		var f [13]uint64
		for i := range f {
			v, err := strconv.ParseUint(string(take(8)), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			f[i] = v
		}
		name := strings.TrimSuffix(string(take(int(f[11]))), "\x00")
		align()
		data := take(int(f[6]))
		align()
		if f[2]|f[3]|f[5]|f[7]|f[8]|f[9]|f[10]|f[12] != 0 {
			t.Errorf("%s: header %v", name, f)
		}
		if name == "TRAILER!!!" {
			if len(bytes.Trim(archive[at:], "\x00")) != 0 {
				t.Error("bytes behind the trailer")
			}
			return list
		}
		list = append(list, fmt.Sprintf("%d %o %d %s %q", f[0], f[1], f[4], name, data))
	}
}

// TestOtherReader lists the archive with cpio, where there is one.
func TestOtherReader(t *testing.T) {
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio on this machine")
	}
	archive, err := image.Initrd(files())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(cpio, "--list", "--quiet")
	cmd.Stdin = bytes.NewReader(archive)
	out, err := cmd.CombinedOutput()
	if want := "dev\netc\netc/assay\netc/assay-empty\netc/assay/server\ninit\nproc\nsys\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRefused(t *testing.T) {
	program := image.File{Path: "init", Executable: true}
	many := []image.File{program}
	for i := range image.MaxFiles {
		many = append(many, image.File{Path: strconv.Itoa(i)})
	}
	if _, err := image.Initrd([]image.File{program}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		files []image.File
		want  string
	}{
		{"nothing", nil, "no executable init"},
		{"init not executable", []image.File{{Path: "init"}}, "no executable init"},
		{"init is a directory", []image.File{{Path: "init/"}}, "no executable init"},
		{"leading slash", []image.File{program, {Path: "/etc/x"}}, `"/etc/x" is no path`},
		{"parent", []image.File{program, {Path: "../x"}}, `"../x" is no path`},
		{"empty path", []image.File{program, {}}, `"" is no path`},
		{"root", []image.File{program, {Path: "/"}}, `"/" is no path`},
		{"NUL", []image.File{program, {Path: "a\x00b"}}, "is no path"},
		{"trailer", []image.File{program, {Path: "TRAILER!!!"}}, "is no path"},
		{"long path", []image.File{program, {Path: strings.Repeat("a", image.MaxPath+1)}}, "is no path"},
		{"twice", []image.File{program, program}, `"init" stands there twice`},
		{"file and directory", []image.File{program, {Path: "a"}, {Path: "a/"}}, `"a" stands there twice`},
		{"file in a file", []image.File{program, {Path: "init/x"}}, `"init" is a file`},
		{"file in a file, other order", []image.File{{Path: "init/x"}, program}, `"init" stands there twice`},
		{"directory with bytes", []image.File{program, {Path: "a/", Data: []byte{1}}}, "no bytes of its own"},
		{"too many", many, "more than 4096 files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if b, err := image.Initrd(c.files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d bytes, error %v, want %q", len(b), err, c.want)
			}
		})
	}
}
