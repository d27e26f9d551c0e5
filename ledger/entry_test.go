package ledger_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func goodEntry() ledger.Entry {
	return ledger.Entry{
		Type: ledger.EntryType, Kind: ledger.KindEvidence, Stream: ledger.NodeStream("n1"), Sequence: 3,
		Previous: canon.Sum([]byte("previous")), Time: start, Body: canon.Sum([]byte("body")), Refs: []canon.Digest{canon.Sum([]byte("challenge"))},
	}
}

func TestEntryValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ledger.Entry)
		want   string
	}{
		{"good", func(*ledger.Entry) {}, ""},
		{"first of its stream", func(e *ledger.Entry) { e.Sequence, e.Previous = 0, canon.Digest{} }, ""},
		{"of the server", func(e *ledger.Entry) { e.Kind, e.Stream = ledger.KindPolicy, ledger.StreamServer }, ""},
		{"no refs", func(e *ledger.Entry) { e.Refs = nil }, ""},
		{"unknown type", func(e *ledger.Entry) { e.Type = "assay/entry/v2" }, `type "assay/entry/v2" is not known`},
		{"unknown kind", func(e *ledger.Entry) { e.Kind = "evidence/v2" }, `kind "evidence/v2" is not known`},
		{"node in the verifier's stream", func(e *ledger.Entry) { e.Stream = ledger.StreamVerifier }, `in stream "verifier"`},
		{"verdict in a node's stream", func(e *ledger.Entry) { e.Kind = ledger.KindVerdict }, `verdict/v1 in stream "node:n1"`},
		{"node without a name", func(e *ledger.Entry) { e.Stream = "node:" }, `in stream "node:"`},
		{"long stream", func(e *ledger.Entry) { e.Stream = ledger.NodeStream(strings.Repeat("x", ledger.MaxStream)) }, "at most 80"},
		{"negative sequence", func(e *ledger.Entry) { e.Sequence = -1 }, "sequence -1"},
		{"first with a previous", func(e *ledger.Entry) { e.Sequence = 0 }, "name the previous one"},
		{"later without a previous", func(e *ledger.Entry) { e.Previous = canon.Digest{} }, "name the previous one"},
		{"no time", func(e *ledger.Entry) { e.Time = 0 }, "no time"},
		{"no body", func(e *ledger.Entry) { e.Body = canon.Digest{} }, "no body"},
		{"empty ref", func(e *ledger.Entry) { e.Refs = append(e.Refs, canon.Digest{}) }, "ref 1 is empty"},
		{"many refs", func(e *ledger.Entry) { e.Refs = make([]canon.Digest, ledger.MaxRefs+1) }, "65 refs"},
	} {
		e := goodEntry()
		c.change(&e)
		check(t, c.name, e.Validate(), c.want)
		data, err := e.Canonical()
		check(t, c.name+", canonical", err, c.want)
		if err == nil {
			if again, err := ledger.ParseEntry(data); err != nil {
				t.Errorf("%s: parse: %v", c.name, err)
			} else if b, _ := again.Canonical(); !bytes.Equal(b, data) {
				t.Errorf("%s: %s, want %s", c.name, b, data)
			}
		}
	}
}

func TestStreamChain(t *testing.T) {
	chain := func(n int) (entries []ledger.Entry) {
		var tail ledger.Tail
		for range n {
			e := goodEntry()
			e.Sequence, e.Previous = tail.Next, tail.Last
			next, err := tail.Extend(e)
			if err != nil {
				t.Fatal(err)
			}
			tail, entries = next, append(entries, e)
		}
		return entries
	}
	for _, c := range []struct {
		name   string
		change func([]ledger.Entry) []ledger.Entry
		want   string
	}{
		{"whole", func(e []ledger.Entry) []ledger.Entry { return e }, ""},
		{"first missing", func(e []ledger.Entry) []ledger.Entry { return e[1:] }, "entry 1 where 0 was due"},
		{"one missing", func(e []ledger.Entry) []ledger.Entry { return append(e[:2:2], e[3:]...) }, "entry 3 where 2 was due"},
		{"one twice", func(e []ledger.Entry) []ledger.Entry { return append(e[:2:2], e[1:]...) }, "entry 1 where 2 was due"},
		{"one altered", func(e []ledger.Entry) []ledger.Entry { e[1].Time++; return e }, "entry 2 follows"},
	} {
		var tail ledger.Tail
		var err error
		for _, e := range c.change(chain(4)) {
			if tail, err = tail.Extend(e); err != nil {
				break
			}
		}
		check(t, c.name, err, c.want)
	}
}

func TestOpening(t *testing.T) {
	salt := [ledger.SaltSize]byte{1, 2, 3}
	entry, err := goodEntry().Canonical()
	if err != nil {
		t.Fatal(err)
	}
	good := ledger.Opening(salt, entry)
	if want := "\x00\x00\x00\x0dassay/leaf/v1" + string(salt[:]) + string(entry); string(good) != want {
		t.Errorf("opening %q, want %q", good, want)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"good", good, ""},
		{"empty", nil, "does not begin with the tag"},
		{"another tag", bytes.Replace(good, []byte("leaf/v1"), []byte("leaf/v2"), 1), "does not begin with the tag"},
		{"cut in the salt", good[:30], "want a salt of 32"},
		{"cut in the entry", good[:len(good)-1], "entry"},
		{"one byte more", append(bytes.Clone(good), ' '), "not canonical"},
		{"too long", append(bytes.Clone(good), make([]byte, ledger.MaxOpening)...), "at most 16384"},
	} {
		s, e, err := ledger.ParseOpening(c.data)
		check(t, c.name, err, c.want)
		if err == nil && (s != salt || e.Body != goodEntry().Body) {
			t.Errorf("%s: salt %x, entry %+v", c.name, s, e)
		}
	}
	other := ledger.Opening([ledger.SaltSize]byte{9}, entry)
	if canon.Sum(other) == canon.Sum(good) {
		t.Error("two salts, one commitment")
	}
}

func TestEntryBundle(t *testing.T) {
	leaf := append([]byte{0, 33}, ledger.Leaf(canon.Sum(nil))...)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"one leaf", leaf, ""},
		{"full", bytes.Repeat(leaf, 256), ""},
		{"one leaf too many", bytes.Repeat(leaf, 257), "more than 256"},
		{"cut", leaf[:20], "leaf 0 of 33 bytes, 18 left"},
		{"cut in the length", append(bytes.Clone(leaf), 0), "1 bytes too many"},
		{"another version", bytes.Replace(leaf, []byte{33, 1}, []byte{33, 2}, 1), "version 2"},
		{"another length", append([]byte{0, 32}, leaf[2:34]...), "32 bytes, want 33"},
	} {
		got, err := ledger.ParseEntryBundle(c.data)
		check(t, c.name, err, c.want)
		if err == nil && (len(got) != len(c.data)/35 || got[0] != canon.Sum(nil)) {
			t.Errorf("%s: %d commitments, first %s", c.name, len(got), got[0])
		}
	}
}

func FuzzEntry(f *testing.F) {
	data, err := goodEntry().Canonical()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ledger.ParseEntry(data)
		if err != nil {
			return
		}
		if again, err := e.Canonical(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q became %q (%v)", data, again, err)
		}
	})
}

func FuzzOpening(f *testing.F) {
	data, err := goodEntry().Canonical()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ledger.Opening([ledger.SaltSize]byte{1}, data))
	f.Fuzz(func(t *testing.T, data []byte) {
		salt, e, err := ledger.ParseOpening(data)
		if err != nil {
			return
		}
		entry, err := e.Canonical()
		if again := ledger.Opening(salt, entry); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q became %q (%v)", data, again, err)
		}
	})
}
