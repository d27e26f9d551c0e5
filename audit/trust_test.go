package audit_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestTrustFile(t *testing.T) {
	l := newLog(t, "honest")
	want := l.trust()
	text := string(want.Marshal())
	got, err := audit.ParseTrust("trust.yaml", []byte(text))
	if err != nil || !reflect.DeepEqual(got, *want) {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, row := range []struct{ name, old, new, want string }{
		{"unknown type", "assay/trust/v1", "assay/trust/v2", `trust.yaml:1:7: type "assay/trust/v2" is not known`},
		{"unknown key", "  keys:", "  kees:", `trust.yaml:6:3: unknown key "kees"`},
		{"no log", `origin: "` + origin, `origin: "`, "trust.yaml:3:3: keyset: key 0: log key"},
		{"no promise key", "use: promise", "use: result", "want a log key, a result key and a promise key"},
		{"no start of validity", "      from: \"2026-02-01T00:00:00Z\"\n    - use: result", "    - use: result", "key 0: no start of validity"},
		{"spki not base64", "spki: MC", "spki: !!", "trust.yaml:8:"},
		{"spki cut", "spki: MCow", "spki: ", "parse log key"},
		{"a second document", "type:", "---\na: b\n---\ntype:", "second document"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := audit.ParseTrust("trust.yaml", []byte(strings.Replace(text, row.old, row.new, 1))); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestTrustFrom(t *testing.T) {
	honest, forger := newLog(t, "honest").keyset(), newLog(t, "forger").keyset()
	partly := honest
	partly.Keys = []ledger.Key{honest.Keys[0], honest.Keys[1], forger.Keys[2]}
	bad := honest
	bad.Keys = honest.Keys[:1]
	later := honest
	later.Previous[0]++
	one, two := canon.Sum([]byte("one")), canon.Sum([]byte("two"))
	for _, row := range []struct {
		name string
		told []audit.Told
		want string // empty: they agree
	}{
		{"the same engines", []audit.Told{{By: "a", Keyset: honest, Engines: []canon.Digest{one, two}}, {By: "b", Keyset: honest, Engines: []canon.Digest{two, one, two}}}, ""},
		{"an engine that the second lacks", []audit.Told{{By: "a", Keyset: honest, Engines: []canon.Digest{one, two}}, {By: "b", Keyset: honest, Engines: []canon.Digest{one}}}, "sources differ: a names the engine " + two.String() + ", b does not"},
		{"an engine that the first lacks", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: honest, Engines: []canon.Digest{one}}}, "sources differ: b names the engine " + one.String() + ", a does not"},
		{"two agree", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: honest}}, ""},
		{"one alone", []audit.Told{{By: "a", Keyset: honest}}, "at least two sources"},
		{"one twice", []audit.Told{{By: "a", Keyset: honest}, {By: "a", Keyset: honest}}, "a is named twice"},
		{"another log key", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: forger}}, "a has the log key"},
		{"another promise key", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: partly}}, "a has the promise key"},
		{"the third differs", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: honest}, {By: "c", Keyset: partly}}, "c lacks it or gives it another time"},
		{"the same keys after another keyset", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: later}}, "a has the keyset made"},
		{"no keyset", []audit.Told{{By: "a", Keyset: honest}, {By: "b", Keyset: bad}}, "b: keyset"},
	} {
		t.Run(row.name, func(t *testing.T) {
			trust, err := audit.TrustFrom(row.told...)
			switch {
			case row.want == "":
				if n := len(row.told[0].Engines); len(trust.Engines) != n || !slices.IsSortedFunc(trust.Engines, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) }) {
					t.Errorf("engines %v, want %d in order", trust.Engines, n)
				}
				if err != nil || trust.Keyset.Origin != honest.Origin || len(trust.Keyset.Keys) != 3 {
					t.Errorf("%v %+v", err, trust)
				}
			case err == nil || !strings.Contains(err.Error(), row.want):
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}
