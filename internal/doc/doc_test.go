package doc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
)

// order is a document with one field of every kind that a document may hold.
type order struct {
	Name   string         `json:"name"`
	Fast   bool           `json:"fast,omitzero"`
	Count  int            `json:"count,omitzero"`
	Small  int8           `json:"small,omitzero"`
	Port   uint16         `json:"port,omitzero"`
	Blob   []byte         `json:"blob,omitzero"`
	Key    canon.Hex      `json:"key,omitzero"`
	Digest canon.Digest   `json:"digest,omitzero"`
	Time   canon.Time     `json:"time,omitzero"`
	Either either         `json:"either,omitzero"`
	Lines  []line         `json:"lines,omitzero"`
	Extra  *line          `json:"extra,omitzero"`
	Groups [][]string     `json:"groups,omitzero"`
	Ids    []canon.Digest `json:"ids,omitzero"`
}

type line struct {
	Item   string `json:"item"`
	MaxAge string `json:"max-age,omitzero"`
}

func (line) AdviseKey(key string) string {
	if key == "tier" {
		return "use names"
	}
	return ""
}

type either string

func (e *either) UnmarshalScalar(value string, isNumber bool) error {
	if value == "" {
		return errors.New("empty value")
	}
	*e = either(fmt.Sprintf("%s/%t", value, isNumber))
	return nil
}

const digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

const goodYAML = `# an order
name: "123"
fast: true
count: 1e6
small: -1.0
port: 65535
blob: AQI=
key: 00ff
digest: ` + digest + `
time: 2026-02-01T00:00:00Z
either: 7
lines:
  - item: bolts
    max-age: 24h
  - {item: 'nuts'}
extra:
  item: |
    two
    lines
groups: [[a, b], []]
ids: []
`

const goodJSON = `{"name":"123","fast":true,"count":1000000,"small":-1,"port":65535,"blob":"AQI=","key":"00ff","digest":"` + digest + `",
"time":"2026-02-01T00:00:00Z","either":7.0,"lines":[{"item":"bolts","max-age":"24h"},{"item":"nuts"}],"extra":{"item":"two\nlines\n"},
"groups":[["a","b"],[]],"ids":[]}`

func TestYAMLAndJSONSayTheSame(t *testing.T) {
	var a, b order
	if _, err := doc.Decode("order.yaml", []byte(goodYAML), &a); err != nil {
		t.Fatal(err)
	}
	if _, err := doc.Decode("-", []byte(goodJSON), &b); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", a.Lines) != fmt.Sprintf("%+v", b.Lines) || a.Either != "7/true" || a.Ids == nil {
		t.Errorf("got %+v and %+v", a, b)
	}
	x, err := canon.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := canon.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if string(x) != string(y) {
		t.Errorf("YAML gives\n%s\nJSON gives\n%s", x, y)
	}
}

func TestPositions(t *testing.T) {
	var o order
	p, err := doc.Decode("order.yaml", []byte(goodYAML), &o)
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]doc.Position{
		"":                    {2, 1},
		"/count":              {4, 8},
		"/lines/0/max-age":    {14, 14},
		"/lines/1/item":       {15, 12},
		"/lines/1/max-age":    {15, 5}, // not written: the line it would stand in
		"/lines/9":            {13, 3},
		"/groups/0/1":         {20, 14},
		"/nothing/like/that~": {2, 1},
	} {
		if got := p.At(pointer); got != want {
			t.Errorf("At(%q) = %v, want %v", pointer, got, want)
		}
	}
	if !p.Has("/lines/0/max-age") || p.Has("/lines/1/max-age") {
		t.Error("Has does not tell what was written")
	}
	if !p.IsNumber("/either") || p.IsNumber("/name") || p.IsNumber("/nothing") {
		t.Error("IsNumber does not tell how a value was written")
	}
	if got := p.Errorf("/count", "too many: %d", o.Count).Error(); got != "order.yaml:4:8: too many: 1000000" {
		t.Error(got)
	}
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", doc.MaxDepth) + strings.Repeat("]", doc.MaxDepth)
	many := "[" + strings.Repeat("1,", doc.MaxValues) + "1]"
	for _, c := range []struct {
		name, file, text, want string
	}{
		{"unknown key", "o.yaml", "name: a\nlines:\n- item: x\n  max-aeg: 1h\n", `o.yaml:4:3: unknown key "max-aeg", did you mean "max-age"?`},
		{"underscore for hyphen", "o.yaml", "lines: [{max_age: 1h}]", `o.yaml:1:10: unknown key "max_age", did you mean "max-age"?`},
		{"case variant", "o.json", `{"name":"a","Count":1}`, `o.json:1:13: unknown key "Count": it differs from "count" only in case`},
		{"far from every key", "o.json", `{"lines":[{"zzzzzzzzz":1}]}`, `o.json:1:12: unknown key "zzzzzzzzz", want one of item, max-age`},
		{"advice", "o.yaml", "lines:\n- tier: 2", `o.yaml:2:3: unknown key "tier": use names`},
		{"number for text", "o.yaml", "name: 12", `o.yaml:1:7: want text, got 12: quote it`},
		{"boolean for text", "o.yaml", "name: true", `o.yaml:1:7: want text, got true: quote it`},
		{"list for text", "o.yaml", "name: [a]", `o.yaml:1:7: want text, got a list`},
		{"text for boolean", "o.yaml", "fast: yes", `o.yaml:1:7: want true or false, got text "yes"`},
		{"text for number", "o.json", `{"count":"1"}`, `o.json:1:10: want a number, got text`},
		{"object for list", "o.yaml", "lines: {item: a}", `o.yaml:1:8: want a list, got an object`},
		{"text for object", "o.yaml", "extra: a", `o.yaml:1:8: want an object, got text`},
		{"document is a list", "o.yaml", "- a\n", `o.yaml:1:1: want an object, got a list`},
		{"fraction", "o.yaml", "count: 1.5", `o.yaml:1:8: 1.5: want an integer, but it has a fraction`},
		{"small fraction", "o.yaml", "count: 1e-1", `o.yaml:1:8: 1e-1: want an integer, but it has a fraction`},
		{"beyond 2^53", "o.json", `{"count":9007199254740992}`, `o.json:1:10: 9007199254740992: want an integer, but it is outside ±(2^53−1)`},
		{"huge exponent", "o.json", `{"count":1e999999999999999999999}`, `o.json:1:10: 1e999999999999999999999: want an integer, but its exponent is out of range`},
		{"int8 range", "o.json", `{"small":128}`, `o.json:1:10: 128: want an integer from -128 to 127`},
		{"uint16 range", "o.json", `{"port":65536}`, `o.json:1:9: 65536: want an integer from 0 to 65535`},
		{"negative", "o.json", `{"port":-1}`, `o.json:1:9: -1: want an integer that is not negative`},
		{"bad base64", "o.json", `{"blob":"AQJ="}`, `o.json:1:9: text "AQJ=" is not padded base64`},
		{"line break in base64", "o.json", `{"blob":"AQ\nI="}`, `o.json:1:9: text "AQ\nI=" is not padded base64`},
		{"upper-case hex", "o.json", `{"key":"FF"}`, `o.json:1:8: hex "FF": want pairs of lower-case hex digits`},
		{"local time", "o.yaml", "time: 2026-02-01T00:00:00+01:00", `o.yaml:1:7: time "2026-02-01T00:00:00+01:00": want RFC 3339`},
		{"short digest", "o.yaml", "ids:\n  - " + digest + "\n  - ab\n", `o.yaml:3:5: digest "ab": 2 characters, want 64`},
		{"scalar refused by its type", "o.yaml", `either: ""`, `o.yaml:1:9: empty value`},
		{"scalar with a fraction", "o.yaml", `either: 0.5`, `o.yaml:1:9: 0.5: want text or an integer, but it has a fraction`},
		{"scalar from a list", "o.yaml", `either: [a]`, `o.yaml:1:9: want text or a number, got a list`},
		{"null in JSON", "o.json", `{"extra":null}`, `o.json:1:10: null: leave the key out instead`},
		{"null in YAML", "o.yaml", "extra: ~", `o.yaml:1:8: null: leave the key out instead`},
		{"no value", "o.yaml", "name: a\nextra:\n", `o.yaml:2:7: null: leave the key out instead`},
		{"duplicate in JSON", "o.json", "{\"name\":\"a\",\n \"name\":\"b\"}", `o.json:2:2: duplicate key "name", first at 1:2`},
		{"duplicate in YAML", "o.yaml", "name: a\nextra: {item: a}\nname: a\n", `o.yaml:3:1: duplicate key "name", first at 1:1`},
		{"duplicate by escape", "o.json", `{"name":"a","n\u0061me":"b"}`, `o.json:1:13: duplicate key "name", first at 1:2`},
		{"second document in YAML", "o.yaml", "name: a\n---\nname: b\n", `o.yaml:2:1: a second document in one file`},
		{"second document in JSON", "o.json", "{}\n{}", `o.json:2:1: a second document in one file`},
		{"garbage after JSON", "o.json", `{} x`, `o.json:1:4: not JSON: `},
		{"alias", "o.yaml", "name: &n a\nextra: {item: *n}\n", `o.yaml:1:7: anchor &n: anchors are not read`},
		{"undefined alias", "o.yaml", "name: *n\n", `o.yaml:1:9: not YAML: unknown anchor 'n' referenced`},
		{"tag", "o.yaml", "name: !!str 1\n", `o.yaml:1:7: tag !!str: tags are not read`},
		{"merge key", "o.yaml", "extra:\n  <<: {item: a}\n", `o.yaml:2:3: merge key <<: write the keys out`},
		{"hex number", "o.yaml", "count: 0x18", `o.yaml:1:8: 0x18: write the number in decimal`},
		{"octal number", "o.yaml", "count: 014", `o.yaml:1:8: 014: write the number in decimal`},
		{"underscored number", "o.yaml", "count: 1_000", `o.yaml:1:8: 1_000: write the number in decimal`},
		{"not a number", "o.yaml", "count: .nan", `o.yaml:1:8: .nan: write the number in decimal`},
		{"NaN in JSON", "o.json", `{"count":NaN}`, `o.json:1:10: not JSON: `},
		{"capital True", "o.yaml", "fast: True", `o.yaml:1:7: True: write true or false, or quote the text`},
		{"number as key", "o.yaml", "1: a", `o.yaml:1:1: key 1 is a number, want text: quote it`},
		{"list as key", "o.yaml", "? [a]\n: b", `o.yaml:1:3: a key is text, not a list or an object`},
		{"lone surrogate", "o.json", `{"name":"\ud800"}`, `o.json:1:10: not JSON: `},
		{"not UTF-8", "o.yaml", "name: a\nextra: \xff", `o.yaml:2:8: text is not UTF-8`},
		{"truncated JSON", "o.json", "{\"name\":\n\"a\"", `o.json:2:4: not JSON: the document ends too early`},
		{"truncated YAML", "o.yaml", "name: \"a\nb", `o.yaml:2:1: not YAML: found unexpected end of stream`},
		{"broken YAML", "o.yaml", "name: a\nfast: true\n count: 3\n", `o.yaml:3:10: not YAML: mapping values are not allowed in this context`},
		{"tab in YAML", "o.yaml", "extra:\n\titem: a\n", `o.yaml:2:4: not YAML: found character that cannot start any token`},
		{"empty YAML", "o.yaml", "# nothing\n", `o.yaml:1:1: the document is empty`},
		{"empty JSON", "o.json", " ", `o.json:1:2: not JSON: the document ends too early`},
		{"too deep in JSON", "o.json", `{"x":` + deep + `}`, `o.json:1:37: deeper than 32 levels`},
		{"too deep in YAML", "o.yaml", "x: " + deep, `o.yaml:1:35: deeper than 32 levels`},
		{"too many values in JSON", "o.json", `{"x":` + many + `}`, `more than 65536 values`},
		{"too many values in YAML", "o.yaml", `x: ` + many, `more than 65536 values`},
		{"too large", "o.yaml", strings.Repeat("#", doc.MaxSize+1), `o.yaml:1:1: document of 1048577 bytes, at most 1048576`},
		{"column counts characters", "o.json", `{"name":"äöü","Fast":true}`, `o.json:1:15: unknown key "Fast"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o order
			_, err := doc.Decode(c.file, []byte(c.text), &o)
			if err == nil {
				t.Fatalf("accepted as %+v", o)
			}
			var errs doc.Errors
			if !errors.As(err, &errs) || len(errs) != 1 {
				t.Errorf("want one located error, got %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllFaultsAtOnceInOrder(t *testing.T) {
	var o order
	_, err := doc.Decode("o.yaml", []byte("nmae: a\ncount: x\nlines:\n- itme: y\n- item: 3\n"), &o)
	want := `o.yaml:1:1: unknown key "nmae", did you mean "name"?
o.yaml:2:8: want a number, got text
o.yaml:4:3: unknown key "itme", did you mean "item"?
o.yaml:5:9: want text, got 3: quote it`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Limits that are exactly met pass: the twins of the refusals above.
func TestLimitsAreInclusive(t *testing.T) {
	var o order
	if _, err := doc.Decode("o.yaml", []byte("name: a\n"+strings.Repeat("#", doc.MaxSize-8)), &o); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ name, text string }{
		{"o.json", `{"count":9007199254740991,"small":-128,"port":0}`},
		{"o.yaml", "count: -9007199254740991\nsmall: 127\nport: 65535"},
		{"o.yaml", "name: '1_000'\nextra: {item: 'null'}"},
	} {
		if _, err := doc.Decode(c.name, []byte(c.text), &o); err != nil {
			t.Error(err)
		}
	}
}

// Row G09 of the field's bugs: numbers and escapes are re-encoded differently by different readers.
func TestG09OneFormForOneValue(t *testing.T) {
	var forms []string
	for _, text := range []string{`{"name":"A","count":1000000}`, `{"name":"\u0041","count":1e6}`, `{"count":1000000.0,"name":"A"}`, "name: A\ncount: 1.0e+6\n"} {
		var o order
		if _, err := doc.Decode("-", []byte(text), &o); err != nil {
			t.Fatal(err)
		}
		b, err := canon.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, string(b))
	}
	for _, f := range forms {
		if f != forms[0] {
			t.Errorf("%s differs from %s", f, forms[0])
		}
	}
}

func TestNearest(t *testing.T) {
	ids := []string{"sevsnp.tcb", "sevsnp.vmpl", "sevsnp.chain"}
	for word, want := range map[string]string{"sevsnp.vpml": "sevsnp.vmpl", "sevsnp_tcb": "sevsnp.tcb", "x": "", "": ""} {
		if got := doc.Nearest(word, ids); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// FuzzDecode holds that a document is refused with a place inside it or means what its canonical bytes mean.
func FuzzDecode(f *testing.F) {
	f.Add("o.yaml", []byte(goodYAML))
	f.Add("o.json", []byte(goodJSON))
	f.Add("o.yaml", []byte("a: &x [1]\nb: *x\n<<: {c: d}\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		var o order
		_, err := doc.Decode(name, data, &o)
		if err != nil {
			var errs doc.Errors
			if !errors.As(err, &errs) || errs[0].Line < 1 || errs[0].Column < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		first, err := canon.Marshal(o)
		if err != nil {
			t.Skip(err) // a time or text that has no canonical form
		}
		var again order
		if _, err := doc.Decode("x.json", first, &again); err != nil {
			t.Fatalf("own canonical form refused: %v", err)
		}
	})
}
