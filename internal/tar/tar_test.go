package tar_test

import (
	stdtar "archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/tar"
)

func written(t *testing.T, parts map[string]string, order ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, name := range order {
		if err := tar.Write(&b, name, []byte(parts[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := tar.End(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var parts = map[string]string{"index.json": "{}", "item/a": strings.Repeat("x", 512), "item/b": ""}

func read(data []byte) (map[string]string, error) {
	r := tar.NewReader(bytes.NewReader(data), int64(len(data)))
	got := map[string]string{}
	for {
		p, ok, err := r.Next()
		if err != nil || !ok {
			return got, err
		}
		content, err := r.Content(p)
		if err != nil {
			return got, err
		}
		got[p.Name] = string(content)
	}
}

func TestReadsWhatItWrote(t *testing.T) {
	data := written(t, parts, "index.json", "item/a", "item/b")
	got, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(parts) {
		t.Errorf("%d parts, want %d", len(got), len(parts))
	}
	for name, want := range parts {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// TestStandardLibraryReadsIt: any tar program reads the file.
func TestStandardLibraryReadsIt(t *testing.T) {
	r := stdtar.NewReader(bytes.NewReader(written(t, parts, "index.json", "item/a", "item/b")))
	for range parts {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil || string(content) != parts[h.Name] || h.Mode != 0o644 {
			t.Errorf("%s: %q, mode %o, %v", h.Name, content, h.Mode, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the last part: %v, want EOF", err)
	}
}

func TestRefusesWhatItWouldNotWrite(t *testing.T) {
	good := written(t, parts, "index.json", "item/a", "item/b")
	for _, row := range []struct {
		name  string
		alter func([]byte) []byte
		where string
	}{
		{"a byte of the padding", func(b []byte) []byte { b[512+2] = 1; return b }, "index.json"},
		{"another mode", func(b []byte) []byte { b[106] = '5'; return b }, "header at byte 0"},
		{"a size in words", func(b []byte) []byte { b[124] = 'x'; return b }, "header at byte 0"},
		{"a part of a terabyte", func(b []byte) []byte { copy(b[124:], "77777777777"); return b }, "header at byte 0"},
		{"no name", func(b []byte) []byte { b[0] = 0; return b }, "header at byte 0"},
		{"cut off", func(b []byte) []byte { return b[:1600] }, "item/a"},
		{"no end", func(b []byte) []byte { return b[:len(b)-1024] }, "header at byte 2560"},
		{"bytes behind the end", func(b []byte) []byte { return append(b, 0) }, "end of file"},
		{"an end that is not zero", func(b []byte) []byte { b[len(b)-1] = 1; return b }, "end of file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := read(row.alter(bytes.Clone(good)))
			var f *tar.Fault
			if !errors.As(err, &f) || f.Where != row.where {
				t.Errorf("%v, want a fault at %s", err, row.where)
			}
		})
	}
}
