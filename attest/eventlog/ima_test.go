package eventlog_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/vectors"
)

// entry returns the template data, the line and the binary record of an IMA entry.
func entry(template, path string, content string, signature []byte) (data []byte, line string, record []byte) {
	le := binary.LittleEndian
	digest := sha256.Sum256([]byte(content))
	named := append([]byte("sha256:\x00"), digest[:]...)
	data = le.AppendUint32(nil, uint32(len(named)))
	data = append(data, named...)
	data = le.AppendUint32(data, uint32(len(path)+1))
	data = append(append(data, path...), 0)
	line = fmt.Sprintf("%s sha256:%x %s", template, digest, path)
	if template == "ima-sig" {
		data = append(le.AppendUint32(data, uint32(len(signature))), signature...)
		line += fmt.Sprintf(" %x", signature)
	}
	sum := sha1.Sum(data)
	line = fmt.Sprintf("10 %x %s\n", sum, line)
	record = slices.Concat(le.AppendUint32(nil, 10), sum[:], le.AppendUint32(nil, uint32(len(template))), []byte(template), le.AppendUint32(nil, uint32(len(data))), data)
	return data, line, record
}

func TestIMAVectors(t *testing.T) {
	for _, alg := range []string{"sha1", "sha256", "sha384", "sha512", "sm3_256"} {
		l, err := eventlog.ParseIMA(vectors.Read(t, folder+"/keylime-ima-log-"+alg+".txt"))
		if err != nil || len(l.Files) != 2 || l.Files[0].Algorithm != alg || l.Files[1].Path != "/data" {
			t.Errorf("%s: %+v, %v", alg, l.Files, err)
		}
	}
	if _, err := eventlog.ParseIMA(vectors.Read(t, folder+"/keylime-ima-log-unknown.txt")); err == nil || !strings.Contains(err.Error(), `"unknown" is not known`) {
		t.Errorf("unknown algorithm: %v", err)
	}
}

// TestIMAReplay computes PCR 10 by hand: as text and in binary, whole and with lines that came after the quote.
func TestIMAReplay(t *testing.T) {
	var text string
	var binary []byte
	pcr := make([]byte, 32)
	var after [][]byte
	for _, e := range []struct {
		template, path string
		signature      []byte
	}{{"ima-ng", "boot_aggregate", nil}, {"ima-sig", "/usr/bin/a", []byte{3, 2, 1}}, {"ima-sig", "/usr/bin/b", nil}} {
		data, line, record := entry(e.template, e.path, e.path, e.signature)
		text, binary = text+line, append(binary, record...)
		pcr = extend(pcr, data)
		after = append(after, pcr)
	}
	for name, list := range map[string][]byte{"text": []byte(text), "binary": binary} {
		l, err := eventlog.ParseIMA(list)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, v := range after {
			if n, ok := l.ReplayTo(v); !ok || n != i+1 {
				t.Errorf("%s: value after entry %d found after %d, %v", name, i+1, n, ok)
			}
		}
		if _, ok := l.ReplayTo(extend(pcr, []byte("more"))); ok {
			t.Errorf("%s: a list replays to a register with one entry more", name)
		}
	}
	swapped := strings.SplitAfter(text, "\n")
	l, err := eventlog.ParseIMA([]byte(swapped[0] + swapped[2] + swapped[1]))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.ReplayTo(pcr); ok {
		t.Error("a list in another order replays")
	}
}

// imaViolation: the list shows zeros, the register was extended with FF.
func imaViolation(t *testing.T) {
	line := "10 " + strings.Repeat("0", 40) + " ima-ng sha256:" + strings.Repeat("0", 64) + " /var/log/x\n"
	l, err := eventlog.ParseIMA([]byte(line))
	if err != nil || len(l.Files) != 1 || !l.Files[0].Violation {
		t.Fatalf("%+v, %v", l.Files, err)
	}
	ff := sha256.Sum256(append(make([]byte, 32), bytes.Repeat([]byte{0xff}, 32)...))
	zeros := sha256.Sum256(make([]byte, 64))
	if _, ok := l.ReplayTo(ff[:]); !ok {
		t.Error("a violation does not replay with FF")
	}
	if _, ok := l.ReplayTo(zeros[:]); ok {
		t.Error("a violation replays with zeros")
	}
	_, sound, _ := entry("ima-ng", "/var/log/x", "", nil)
	if l, err := eventlog.ParseIMA([]byte(sound)); err != nil || l.Files[0].Violation {
		t.Errorf("twin: %+v, %v", l.Files, err)
	}
}

func TestIMARefuses(t *testing.T) {
	data, line, record := entry("ima-ng", "/a", "x", nil)
	_, signed, _ := entry("ima-sig", "/a", "x", []byte{1})
	replace := func(from, to string) []byte { return []byte(strings.Replace(line, from, to, 1)) }
	long := bytes.Clone(record)
	binary.LittleEndian.PutUint32(long[4+20+4+6:], 0xffffffff)
	for name, row := range map[string]struct {
		list []byte
		want string
	}{
		"empty":                {nil, "it is empty"},
		"too long":             {make([]byte, eventlog.MaxIMAList+1), "at most 33554432"},
		"line too long":        {[]byte(line[:len(line)-1] + strings.Repeat("a", 1<<16) + "\n"), "at most 65536"},
		"no template digest":   {[]byte("10  ima-ng sha256:" + strings.Repeat("0", 64) + " /a\n"), "template digest is not in hex"},
		"template digest":      {replace("10 ", "10 x"), "template digest is not in hex"},
		"digest not in hex":    {replace("sha256:", "sha256:x"), "its digest is not in hex"},
		"signature":            {[]byte(strings.Replace(signed, " 01\n", " 0x\n", 1)), "its signature is not in hex"},
		"record without NUL":   {bytes.Replace(record, []byte("/a\x00"), []byte("/ab"), 1), "its fields are not a digest and a path"},
		"record without name":  {bytes.Replace(record, []byte("sha256:\x00"), []byte("sha256::"), 1), "its fields are not a digest and a path"},
		"record, a field more": {slices.Concat(record[:34], []byte{byte(len(data) + 4)}, record[35:], []byte{0, 0, 0, 0}), "want ima-ng or ima-sig, whole"},
		"record, its template": {bytes.Replace(record, []byte("ima-ng"), []byte("ima-xx"), 1), `template "ima-xx"`},
		"another register":     {replace("10 ", "11 "), "want PCR 10"},
		"template":             {replace("ima-ng", "ima-buf"), `template "ima-buf"`},
		"digest's length":      {replace("sha256:", "sha384:"), "sha384 digest of 32 bytes, want 48"},
		"another path":         {replace(" /a", " /b"), "its template digest is not of its fields"},
		"words":                {replace(" /a", " /a /b"), `template "ima-ng" of 6 words`},
		"no path":              {replace(" /a", " "), "its path is empty"},
		"record cut":           {record[:len(record)-1], "want PCR 10"},
		"record of FFFFFFFF":   {long, "want PCR 10"},
		"record, then a line":  {append(bytes.Clone(record), line...), "want PCR 10"},
	} {
		if _, err := eventlog.ParseIMA(row.list); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", name, err, row.want)
		}
	}
}

func FuzzIMA(f *testing.F) {
	_, line, record := entry("ima-sig", "/a", "x", []byte{1})
	f.Add([]byte(line))
	f.Add(record)
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			if l, err := eventlog.ParseIMA(data); err == nil {
				l.ReplayTo(nil)
			}
		})
	})
}
