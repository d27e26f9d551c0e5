package audit_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// small returns the export of a log with one accepted host, and who to trust about it.
func small(t testing.TB) ([]byte, *audit.Trust) {
	s := newService(t, "honest")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	return s.export(), s.trust()
}

// region is a stretch of an export and the part that it belongs to.
type region struct {
	from, to int
	part     string
	field    string // header, content or padding
}

// regions cuts an export into its parts, as another reader of tar files sees them.
func regions(t testing.TB, export []byte) (out []region) {
	t.Helper()
	src := bytes.NewReader(export)
	r := tar.NewReader(src)
	for at := 0; ; {
		h, err := r.Next()
		if err == io.EOF {
			return append(out, region{at, len(export), "end of file", "padding"})
		}
		if err != nil {
			t.Fatal(err)
		}
		body := at + 512
		end := body + int(h.Size)
		next := (end + 511) / 512 * 512
		out = append(out, region{at, body, h.Name, "header"}, region{body, end, h.Name, "content"}, region{end, next, h.Name, "padding"})
		at = next
	}
}

// TestEveryFlip: a changed bit anywhere in an export is found, and the part that holds it is named. Every byte is changed
// under ASSAY_LONG, else some in every part and field.
func TestEveryFlip(t *testing.T) {
	export, trust := small(t)
	if r := replay(t, export, trust, audit.Options{}); r.Outcome != audit.Equal {
		t.Fatalf("unchanged:\n%s", r.Text())
	}
	const some = 12 // changes of each field of each part, all of them in the checkpoint
	memory := attest.NewMemory()
	var wg sync.WaitGroup
	work := make(chan func())
	for range 2 {
		wg.Go(func() {
			for f := range work {
				f()
			}
		})
	}
	count := 0
	for _, g := range regions(t, export) {
		stride := 1
		if os.Getenv("ASSAY_LONG") != "1" && g.part != "checkpoint" {
			stride = max(1, (g.to-g.from)/some)
		}
		for at := g.from + count%stride; at < g.to; at += stride {
			count++
			work <- func() {
				changed := bytes.Clone(export)
				changed[at] ^= 1 << (at % 8)
				r, err := audit.ReplayFile(t.Context(), bytes.NewReader(changed), int64(len(changed)), trust, audit.Options{Memory: memory})
				switch {
				case err != nil:
					t.Errorf("byte %d, %s of %s: %v", at, g.field, g.part, err)
				case r.Outcome != audit.Faulty:
					t.Errorf("byte %d, %s of %s: outcome %s", at, g.field, g.part, r.Outcome)
				case !names(r, g):
					t.Errorf("byte %d, %s of %s: the part is not named:\n%s", at, g.field, g.part, r.Text())
				}
			}
		}
	}
	close(work)
	wg.Wait()
	t.Logf("%d bytes of %d changed", count, len(export))
}

// names reports whether some fault names the part. A header is also named by its place: the name in it may be what was
// changed, and the zeros at the end of the file look like a header then.
func names(r audit.Report, g region) bool {
	for _, f := range r.Faults {
		text := f.Part + " " + f.What
		if strings.Contains(text, g.part) || g.field != "content" && strings.Contains(text, fmt.Sprintf("header at byte %d", g.from)) {
			return true
		}
	}
	return false
}

func TestTruncated(t *testing.T) {
	export, trust := small(t)
	var cuts []int
	for _, g := range regions(t, export) {
		cuts = append(cuts, g.from, (g.from+g.to)/2, g.to-1)
	}
	for _, n := range cuts {
		if r := replay(t, export[:max(n, 0)], trust, audit.Options{}); r.Outcome != audit.Faulty {
			t.Errorf("cut at byte %d: outcome %s", n, r.Outcome)
		}
	}
	for _, tail := range []string{"\x00", "x", strings.Repeat("\x00", 512), strings.Repeat("\x00", 1024)} {
		r := replay(t, append(bytes.Clone(export), tail...), trust, audit.Options{})
		wantFault(t, r, "end of file", "behind the last part")
	}
}

// TestStructure: parts in another order, twice, or that nothing names are refused, although each is a good part.
func TestStructure(t *testing.T) {
	export, trust := small(t)
	all := regions(t, export)
	raw := func(from, to int) []byte { return export[all[3*from].from:all[3*to].from] } // whole parts
	last := len(all) / 3
	firstBlob := 3
	if all[3*firstBlob].part[:5] != "blob/" {
		t.Fatalf("part %d is %s", firstBlob, all[3*firstBlob].part)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	end := raw(last, last)
	if len(end) != 0 {
		t.Fatal("regions are not threes")
	}
	end = export[all[len(all)-1].from:]
	for _, row := range []struct {
		name, part, what string
		file             []byte
	}{
		{"two blobs swapped", all[3*firstBlob].part, "not ordered", join(raw(0, firstBlob), raw(firstBlob+1, firstBlob+2), raw(firstBlob, firstBlob+1), raw(firstBlob+2, last), end)},
		{"a blob twice", all[3*firstBlob].part, "not ordered", join(raw(0, firstBlob+1), raw(firstBlob, last), end)},
		{"a tile missing", all[3].part, "missing", join(raw(0, 1), raw(2, last), end)},
		{"no checkpoint", "checkpoint", "missing", join(raw(1, last), end)},
		{"a blob missing", all[3*firstBlob].part, "missing", join(raw(0, firstBlob), raw(firstBlob+1, last), end)},
		{"nothing", "checkpoint", "", nil},
		{"only an end", "checkpoint", "missing", end},
	} {
		t.Run(row.name, func(t *testing.T) { wantFault(t, replay(t, row.file, trust, audit.Options{}), row.part, row.what) })
	}
	t.Run("a blob that nothing names", func(t *testing.T) {
		s := newService(t, "honest")
		s.serve(newHost("good", sevsnp.PolicySMT))
		extra := s.putBytes([]byte("stowaway"))
		s.publish()
		var b bytes.Buffer
		s.must(audit.Export(t.Context(), s, &b))
		if !bytes.Equal(b.Bytes(), export) {
			t.Error("a blob that nothing names is exported")
		}
		stowed := addPart(t, export, "blob/"+extra.String(), s.blobs[extra])
		wantFault(t, replay(t, stowed, trust, audit.Options{}), "blob/"+extra.String(), "nothing in the log names it")
	})
}

// addPart puts a part into an export where its name belongs, written by another writer of tar files.
func addPart(t *testing.T, export []byte, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(name string, data []byte) {
		h := tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := errors.Join(w.WriteHeader(&h), second(w.Write(data))); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range regions(t, export) {
		if g.field != "content" {
			continue
		}
		if strings.HasPrefix(g.part, "blob/") && name != "" && name < g.part {
			put(name, data)
			name = ""
		}
		put(g.part, export[g.from:g.to])
	}
	if name != "" {
		put(name, data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func second(_ int, err error) error { return err }

func TestExportIsDeterministic(t *testing.T) {
	one, _ := small(t)
	two, _ := small(t)
	if !bytes.Equal(one, two) {
		t.Error("two exports of equal logs differ")
	}
}

// TestDirectory: an unpacked export replays as the file does.
func TestDirectory(t *testing.T) {
	export, trust := small(t)
	fsys := fstest.MapFS{}
	for _, g := range regions(t, export) {
		if g.field == "content" {
			fsys[g.part] = &fstest.MapFile{Data: export[g.from:g.to]}
		}
	}
	fsys["README"] = &fstest.MapFile{Data: []byte("files beside the layout are not looked at")}
	want := replay(t, export, trust, audit.Options{})
	got, err := audit.Replay(t.Context(), audit.Directory(fsys), trust, audit.Options{})
	if err != nil || got.Text() != want.Text() {
		t.Errorf("%v\n%s\nwant\n%s", err, got.Text(), want.Text())
	}
	var again bytes.Buffer
	if err := audit.Export(t.Context(), audit.Directory(fsys), &again); err != nil || !bytes.Equal(again.Bytes(), export) {
		t.Errorf("an export of the directory differs from the one it was unpacked from: %v", err)
	}
	for name := range fsys {
		if strings.HasPrefix(name, "blob/") {
			delete(fsys, name)
			got, err := audit.Replay(t.Context(), audit.Directory(fsys), trust, audit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			wantFault(t, got, name, "missing")
			break
		}
	}
}

// TestExportRefuses: what cannot be replayed is not exported.
func TestExportRefuses(t *testing.T) {
	s := newService(t, "honest")
	if err := audit.Export(t.Context(), s, io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a checkpoint: %v", err)
	}
	s.publish()
	delete(s.blobs, s.commitments[1])
	if err := audit.Export(t.Context(), s, io.Discard); err == nil || !strings.Contains(err.Error(), "entry 1: opening: blob/"+s.commitments[1].String()+": missing") {
		t.Errorf("without an opening: %v", err)
	}
	var broken *os.PathError
	if err := audit.Export(t.Context(), brokenSource{s.log}, io.Discard); !errors.As(err, &broken) {
		t.Errorf("a source that fails: %v", err)
	}
}

type brokenSource struct{ *log }

func (brokenSource) Blob(context.Context, canon.Digest) ([]byte, error) {
	return nil, &os.PathError{Op: "read", Path: "disk", Err: errors.New("input/output error")}
}

func FuzzOpenExport(f *testing.F) {
	export := newLog(f, "honest").publish().export() // small, since inputs are minimised
	f.Add(export)
	f.Add(export[:1024])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := audit.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			var fault *audit.Fault
			if !errors.As(err, &fault) || fault.Part == "" || fault.What == "" {
				t.Fatalf("an error that names no part: %v", err)
			}
			return
		}
		var again bytes.Buffer
		if err := audit.Export(t.Context(), a, &again); err == nil && !bytes.Equal(again.Bytes(), data) {
			if r := replay(t, data, nil, audit.Options{}); r.Outcome != audit.Faulty {
				t.Fatal("a file that is not the export of its log passes")
			}
		}
	})
}

// FuzzBody puts any bytes where the body of an entry is due, in a log that is signed with all the right keys. Nothing
// panics, and no appraisal or verdict that somebody made up passes.
func FuzzBody(f *testing.F) {
	s := newService(f, "honest")
	h := newHost("good", sevsnp.PolicySMT)
	c := s.ask(h.node)
	evidence := h.answer(s.log, c.Digest())
	body := s.putBytes(evidence)
	before := newSnapshot(s)
	s.take(c, evidence)
	a := s.judge(c, body)
	s.decide(a, body)
	kinds := []struct {
		kind, stream string
		refs         []canon.Digest
	}{
		{ledger.KindPolicy, ledger.StreamServer, nil},
		{ledger.KindReference, ledger.StreamServer, nil},
		{ledger.KindCollateral, ledger.StreamServer, nil},
		{ledger.KindChallenge, ledger.StreamVerifier, nil},
		{ledger.KindEvidence, ledger.NodeStream(h.node), []canon.Digest{canon.Sum(s.bytes(c))}},
		{ledger.KindAppraisal, ledger.StreamVerifier, []canon.Digest{body}},
		{ledger.KindVerdict, ledger.StreamVerifier, []canon.Digest{canon.Sum(s.bytes(a)), s.policy.Digest()}},
	}
	for i, k := range kinds {
		for _, commitment := range s.commitments {
			if _, e, err := ledger.ParseOpening(s.blobs[commitment]); err == nil && e.Kind == k.kind {
				f.Add(uint8(i), s.blobs[e.Body])
			}
		}
	}
	trust := s.trust()
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		k := kinds[int(kind)%len(kinds)]
		l := before.restore(t)
		switch k.kind { // what must stand before it
		case ledger.KindAppraisal, ledger.KindVerdict:
			l.append(ledger.KindEvidence, ledger.NodeStream(h.node), body, canon.Sum(l.bytes(c)))
		}
		if k.kind == ledger.KindVerdict {
			l.append(ledger.KindAppraisal, ledger.StreamVerifier, l.put(a), body)
		}
		honest := bytes.Equal(s.blobs[canon.Sum(data)], data)
		l.append(k.kind, k.stream, l.putBytes(data), k.refs...)
		r, err := audit.Replay(t.Context(), l.publish(), trust, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if made := k.kind == ledger.KindAppraisal || k.kind == ledger.KindVerdict; made && !honest && r.Outcome != audit.Faulty {
			t.Fatalf("a made-up %s passes:\n%s", k.kind, r.Text())
		}
	})
}
