package canon_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/internal/canon"
)

// record has one field of every kind that a canonical document may hold.
type record struct {
	Type   string       `json:"type"`
	Text   string       `json:"text"`
	Count  int64        `json:"count"`
	Small  uint8        `json:"small,omitzero"`
	Yes    bool         `json:"yes"`
	Blob   []byte       `json:"blob"`
	Hex    canon.Hex    `json:"hex,omitzero"`
	Digest canon.Digest `json:"digest,omitzero"`
	Time   canon.Time   `json:"time,omitzero"`
	Words  []string     `json:"words"`
	Inner  *inner       `json:"inner,omitzero"`
}

type inner struct {
	Zebra string `json:"zebra"`
	Apple string `json:"apple"`
}

func TestMarshal(t *testing.T) {
	r := record{
		Type: "assay/test/v1", Text: "ä\u20ac</>\n\x01", Count: -canon.MaxInt, Yes: true, Blob: []byte{1, 2}, Hex: canon.Hex{0, 0xff},
		Digest: canon.Sum(nil), Time: 1770000000, Words: []string{"b", "a"}, Inner: &inner{"z", "a"},
	}
	got, err := canon.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"blob":"AQI=","count":-9007199254740991,"digest":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
		`"hex":"00ff","inner":{"apple":"a","zebra":"z"},"text":"ä€</>\n\u0001","time":"2026-02-02T02:40:00Z","type":"assay/test/v1",` +
		`"words":["b","a"],"yes":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var again record
	if err := canon.Unmarshal(got, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, r) {
		t.Errorf("got %+v, want %+v", again, r)
	}
	empty, err := canon.Marshal(record{})
	if err != nil {
		t.Fatal(err)
	}
	if string(empty) != `{"blob":"","count":0,"text":"","type":"","words":[],"yes":false}` {
		t.Errorf("the zero record is %s", empty)
	}
}

func TestTypesWithoutCanonicalForm(t *testing.T) {
	for name, v := range map[string]any{
		"map":                      map[string]string{},
		"map in a struct":          struct{ M map[string]int }{},
		"float":                    struct{ F float64 }{},
		"interface":                struct{ A any }{},
		"pointer without omitzero": struct{ P *inner }{},
		"null in a list":           []*inner{nil},
		"null":                     (*inner)(nil),
		"another option": struct {
			A string `json:"a,omitempty"`
		}{},
		"two members of a name": struct {
			inner
			Other string `json:"apple"`
		}{},
		"JSON of its own":        struct{ V jsontext.Value }{jsontext.Value("1")},
		"channel in a slice":     []struct{ C chan int }{},
		"nil":                    nil,
		"text that is not UTF-8": inner{Zebra: "\xff"},
		"time after 9999":        record{Time: 1 << 40},
	} {
		if b, err := canon.Marshal(v); err == nil {
			t.Errorf("%s: marshalled as %s", name, b)
		}
	}
}

// base is the canonical document of which every refusal below is a twin.
const base = `{"blob":"","count":7,"text":"a","type":"t","words":[],"yes":true}`

func TestMarshalDepth(t *testing.T) {
	type tree struct {
		Under []tree `json:"under"`
	}
	grown := func(levels int) tree { // each is an object and an array
		x := tree{}
		for range levels - 1 {
			x = tree{[]tree{x}}
		}
		return x
	}
	if _, err := canon.Marshal(grown(canon.MaxDepth / 2)); err != nil {
		t.Error(err)
	}
	if _, err := canon.Marshal(grown(canon.MaxDepth/2 + 1)); err == nil || !strings.Contains(err.Error(), "deeper than 32 levels") {
		t.Errorf("got %v", err)
	}
}

func TestUnmarshalRefusals(t *testing.T) {
	if err := canon.Unmarshal([]byte(base), new(record)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"space", `:7`, `: 7`, "not canonical"},
		{"order", `"count":7,"text":"a"`, `"text":"a","count":7`, "not canonical"},
		{"escape", `"a"`, `"\u0061"`, "not canonical"},
		{"zero written out", `"yes":true`, `"yes":true,"small":0`, "not canonical"},
		{"missing member", `"count":7,`, ``, "not canonical"},
		{"unknown member", `"yes":true`, `"yes":true,"zoo":1`, "zoo"},
		{"case variant", `"text"`, `"Text"`, "Text"},
		{"duplicate", `"count":7`, `"count":7,"count":7`, "duplicate"},
		{"null", `"words":[]`, `"words":null`, "null"},
		{"other type", `:7`, `:"7"`, "count"},
		{"beyond 2^53", `:7`, `:9007199254740992`, "no integer within"},
		{"below -2^53", `:7`, `:-9007199254740992`, "no integer within"},
		{"fraction", `:7`, `:7.5`, "no integer within"},
		{"exponent", `:7`, `:7e0`, "no integer within"},
		{"second document", `true}`, `true}{}`, "second document"},
		{"rubbish after it", `true}`, `true} x`, "invalid"},
		{"truncated", `true}`, `true`, "EOF"},
		{"too deep", `[]`, strings.Repeat("[", canon.MaxDepth) + strings.Repeat("]", canon.MaxDepth), "deeper than 32 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := canon.Unmarshal([]byte(strings.Replace(base, c.old, c.new, 1)), new(record))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, canon.ErrNotCanonical) != (c.want == "not canonical") {
				t.Errorf("%v is told apart wrongly", err)
			}
		})
	}
	if err := canon.Unmarshal(nil, new(record)); err == nil {
		t.Error("nothing at all was read")
	}
}

// Row G06 of the field's bugs: integers beyond 2^53 become doubles, so that different records share a signature.
func TestG06IntegersBeyondDoubles(t *testing.T) {
	type amount struct {
		Micros int64 `json:"micros"`
	}
	type text struct {
		Micros string `json:"micros"`
	}
	for _, n := range []int64{1757000000123456789, 1757000000123456895, canon.MaxInt + 1, -canon.MaxInt - 1} {
		if b, err := canon.Marshal(amount{n}); err == nil {
			t.Errorf("%d is written as %s", n, b)
		}
	}
	a, _ := canon.Marshal(text{"1757000000123456789"})
	b, _ := canon.Marshal(text{"1757000000123456895"})
	if a == nil || b == nil || canon.Sum(a) == canon.Sum(b) {
		t.Errorf("%s and %s are one record", a, b)
	}
	a, _ = canon.Marshal(amount{canon.MaxInt})
	b, _ = canon.Marshal(amount{canon.MaxInt - 1})
	if a == nil || b == nil || canon.Sum(a) == canon.Sum(b) {
		t.Errorf("%s and %s are one record", a, b)
	}
}

// Row G07: the keys 9007199254740992 and 9007199254740993 of a map collapse to one.
func TestG07MapKeys(t *testing.T) {
	if b, err := canon.Marshal(map[int64]string{9007199254740992: "a", 9007199254740993: "b"}); err == nil {
		t.Errorf("a map is written as %s", b)
	}
	type keys struct {
		A string `json:"9007199254740992"`
		B string `json:"9007199254740993"`
	}
	both := []byte(`{"9007199254740992":"a","9007199254740993":"b"}`)
	var k keys
	if err := canon.Unmarshal(both, &k); err != nil || k.A != "a" || k.B != "b" {
		t.Errorf("got %+v, %v", k, err)
	}
	if err := canon.Unmarshal([]byte(`{9007199254740992:"a",9007199254740993:"b"}`), &k); err == nil {
		t.Error("numbers pass for keys")
	}
	var one struct {
		A string `json:"9007199254740992"`
	}
	if err := canon.Unmarshal(both, &one); err == nil {
		t.Error("a key was dropped")
	}
}

// Row G08: bodies that differ in 9007199254740993 and ..992 have one hash once they went through a float.
func TestG08TwoBodiesTwoHashes(t *testing.T) {
	for _, n := range []string{"9007199254740992", "9007199254740993"} {
		if err := canon.Unmarshal([]byte(strings.Replace(base, ":7", ":"+n, 1)), new(record)); err == nil {
			t.Errorf("%s was read", n)
		}
	}
	var digests []canon.Digest
	for _, n := range []string{"9007199254740990", "9007199254740991"} {
		var r record
		if err := canon.Unmarshal([]byte(strings.Replace(base, ":7", ":"+n, 1)), &r); err != nil {
			t.Fatal(err)
		}
		b, err := canon.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, canon.Sum(b))
	}
	if digests[0] == digests[1] {
		t.Error("two bodies, one hash")
	}
}

// Row G09: number and escape forms are re-encoded differently. In canonical bytes there is one form, so that every other
// is refused; package doc reads the other forms of what people write.
func TestG09OneForm(t *testing.T) {
	for _, c := range []struct{ name, old, new string }{
		{"1e6", ":7", ":1e6"},
		{"1.0", ":7", ":1.0"},
		{"minus zero", ":7", ":-0"},
		{"NaN", ":7", ":NaN"},
		{"Infinity", ":7", ":Infinity"},
		{"duplicate keys", `"text":"a"`, `"text":"a","text":"b"`},
		{"duplicate by escape", `"text":"a"`, `"text":"a","te\u0078t":"b"`},
		{"lone surrogate", `"a"`, `"\ud800"`},
		{"escaped slash", `"a"`, `"\/"`},
		{"upper-case escape", `"a"`, `"\u000A"`},
	} {
		if err := canon.Unmarshal([]byte(strings.Replace(base, c.old, c.new, 1)), new(record)); err == nil {
			t.Errorf("%s was read", c.name)
		}
	}
	for _, twin := range []string{":1000000", ":0", ":-1"} {
		if err := canon.Unmarshal([]byte(strings.Replace(base, ":7", twin, 1)), new(record)); err != nil {
			t.Errorf("%s: %v", twin, err)
		}
	}
	for _, twin := range []string{`"/"`, `"\n"`, `"😀"`, `"\u001f"`} {
		if err := canon.Unmarshal([]byte(strings.Replace(base, `"a"`, twin, 1)), new(record)); err != nil {
			t.Errorf("%s: %v", twin, err)
		}
	}
}

// RFC 8785 section 3.2.3 orders members by UTF-16 code units, which is not the order of the bytes.
func TestMembersInUTF16Order(t *testing.T) {
	v := struct {
		A int `json:"\u20ac"`
		B int `json:"\r"`
		C int `json:"\ufb33"`
		D int `json:"1"`
		E int `json:"\U0001f600"`
		F int `json:"\u0080"`
		G int `json:"\u00f6"`
	}{1, 2, 3, 4, 5, 6, 7}
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	euro, face, dalet := bytes.Index(b, []byte("€")), bytes.Index(b, []byte("😀")), bytes.Index(b, []byte("\ufb33"))
	if !(euro < face && face < dalet) {
		t.Errorf("order of %s", b)
	}
}

func TestTextForms(t *testing.T) {
	for _, bad := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("A", 64), strings.Repeat("g", 64)} {
		if d, err := canon.ParseDigest(bad); err == nil {
			t.Errorf("digest %q was read as %s", bad, d)
		}
	}
	for _, bad := range []string{
		"", "2026-02-02", "2026-02-02T02:40:00", "2026-02-02T02:40:00+00:00", "2026-02-02T02:40:00.0Z", "2026-02-02t02:40:00z",
		"2026-02-30T00:00:00Z", "1969-12-31T23:59:59Z", "2026-02-02T24:00:00Z", "2026-02-02T02:40:60Z", "2026-2-2T02:40:00Z",
	} {
		if at, err := canon.ParseTime(bad); err == nil {
			t.Errorf("time %q was read as %s", bad, at)
		}
	}
	for _, bad := range []string{"0", "FF", "0x00", "zz", "00 "} {
		if h := new(canon.Hex); h.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("hex %q was read as %s", bad, h)
		}
	}
	d := canon.Sum([]byte("abc"))
	if again, err := canon.ParseDigest(d.String()); err != nil || again != d || d.IsZero() || d.Short() != "ba7816bf" || !(canon.Digest{}).IsZero() {
		t.Errorf("digest %s, %v", again, err)
	}
	at := canon.At(time.Unix(1770000000, 999))
	if again, err := canon.ParseTime("2026-02-02T02:40:00Z"); err != nil || again != at {
		t.Errorf("time %s, %v", again, err)
	}
}

// The hash of a list of parts is the hash of no other list: moving a byte over a border, or a part, changes it.
func TestHashSeparatesItsParts(t *testing.T) {
	sums := map[canon.Digest]string{}
	for name, d := range map[string]canon.Digest{
		"t a b":  canon.Hash("t", []byte("a"), []byte("b")),
		"t ab":   canon.Hash("t", []byte("ab")),
		"t ab -": canon.Hash("t", []byte("ab"), nil),
		"t - ab": canon.Hash("t", nil, []byte("ab")),
		"ta b":   canon.Hash("ta", []byte("b")),
		"tab":    canon.Hash("tab"),
	} {
		if other, twice := sums[d]; twice {
			t.Errorf("%s and %s have one hash", name, other)
		}
		sums[d] = name
	}
	want := canon.Sum([]byte("\x00\x00\x00\x01t\x00\x00\x00\x02ab"))
	if got := canon.Hash("t", []byte("ab")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// peer is how a library writes x: the oracle of [canon.Marshal].
func peer(t *testing.T, x any) []byte {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return v
}

// onPointer has its text form on the pointer alone.
type onPointer struct{ n int }

func (p *onPointer) MarshalText() ([]byte, error) { return []byte{byte('a' + p.n)}, nil }

// Every form that a document may take is written as a library writes it.
func TestMarshalAgainstPeer(t *testing.T) {
	type nested struct {
		B []inner `json:"b"`
		A [2]bool `json:"a"`
	}
	type tree struct {
		Name  string  `json:"name"`
		Under []*tree `json:"under,omitzero"`
	}
	for _, x := range []any{
		record{}, &record{Text: "x"}, []record{{}, {Words: []string{}}}, []record(nil),
		nested{B: []inner{{"z", "a"}}, A: [2]bool{true, false}},
		tree{"root", []*tree{{"leaf", nil}, {"twig", []*tree{}}}},
		struct {
			inner
			Own    string
			Hidden int `json:"-"`
			unseen int
		}{inner{"z", "a"}, "o", 1, 2},
		struct {
			Array [3]byte        `json:"array"`
			List  [][]byte       `json:"list"`
			Sums  []canon.Digest `json:"sums"`
			Point onPointer      `json:"point"`
			Far   *onPointer     `json:"far,omitzero"`
		}{[3]byte{1, 2, 3}, [][]byte{nil, {255}}, []canon.Digest{{}, canon.Sum(nil)}, onPointer{1}, &onPointer{2}},
		struct {
			A int8   `json:"a"`
			B int64  `json:"b"`
			C uint64 `json:"c"`
			D string `json:"d"`
		}{-128, -canon.MaxInt, canon.MaxInt, "\u2028\u2029\x7f\"\\/\b\f\n\r\t\x00\x1f😀"},
	} {
		got, err := canon.Marshal(x)
		if err != nil {
			t.Errorf("%T: %v", x, err)
			continue
		}
		if want := peer(t, x); !bytes.Equal(got, want) {
			t.Errorf("%T\ngot  %s\nwant %s", x, got, want)
		}
	}
}

// BenchmarkMarshal writes a document beside a library that writes JSON and puts it in order.
func BenchmarkMarshal(b *testing.B) {
	x := []record{{Text: "a text", Blob: make([]byte, 64), Digest: canon.Sum(nil), Time: 1770000000, Words: []string{"b", "a"}, Inner: &inner{"z", "a"}}}
	b.Run("canon", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := canon.Marshal(x); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			raw, err := json.Marshal(x)
			if err != nil {
				b.Fatal(err)
			}
			v := jsontext.Value(raw)
			if err := v.Canonicalize(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzRoundTrip holds the law: canon(parse(canon(x))) == canon(x). A library writes the same bytes.
func FuzzRoundTrip(f *testing.F) {
	f.Add("t", "ä\n", int64(7), true, []byte{1}, int64(1770000000), "w")
	f.Fuzz(func(t *testing.T, typ, text string, count int64, yes bool, blob []byte, at int64, word string) {
		x := record{
			Type: typ, Text: text, Count: count, Small: uint8(count), Yes: yes, Blob: blob, Hex: blob, Time: canon.Time(at), Words: []string{word, text},
			Digest: canon.Sum(blob), Inner: &inner{word, typ},
		}
		first, err := canon.Marshal(x)
		if err != nil {
			return // not UTF-8, or a number or time without canonical form
		}
		var y record
		if err := canon.Unmarshal(first, &y); err != nil {
			t.Fatalf("own bytes refused: %v\n%s", err, first)
		}
		second, err := canon.Marshal(y)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
		if want := peer(t, x); !bytes.Equal(first, want) {
			t.Fatalf("a library writes\n%s\nnot\n%s", want, first)
		}
	})
}

// FuzzUnmarshal holds that whatever is read is in its one form.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte(`{"blob":"AQI=","count":-1,"hex":"00","inner":{"apple":"","zebra":""},"text":"","type":"","words":["\n"],"yes":false}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var x record
		if canon.Unmarshal(data, &x) != nil {
			return
		}
		again, err := canon.Marshal(x)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("read %q, which is written %q (%v)", data, again, err)
		}
	})
}

// TestScan: what a database has for a digest is one, or none.
func TestScan(t *testing.T) {
	sum := canon.Sum([]byte("x"))
	for _, c := range []struct {
		name string
		v    any
		want canon.Digest
		ok   bool
	}{
		{"a digest", sum[:], sum, true},
		{"NULL", nil, canon.Digest{}, true},
		{"too short", sum[:31], canon.Digest{}, false},
		{"too long", append(sum[:], 0), canon.Digest{}, false},
		{"text", sum.String(), canon.Digest{}, false},
	} {
		d := canon.Digest{1}
		err := d.Scan(c.v)
		if (err == nil) != c.ok || c.ok && d != c.want {
			t.Errorf("%s: %s (%v)", c.name, d, err)
		}
	}
}
