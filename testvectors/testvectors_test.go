package testvectors_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-network/assay/testvectors"
)

// TestRoundTrip: what is read is written again to the same bytes, but for the test roots, which are the caller's.
func TestRoundTrip(t *testing.T) {
	cases, err := testvectors.Load(os.DirFS("."))
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	dir := t.TempDir()
	if err := testvectors.Write(dir, nil, cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		name := "cases/" + c.Name + ".txt"
		was, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(dir + "/" + name)
		if err != nil || string(is) != string(was) {
			t.Errorf("%s: other bytes, %v", name, err)
		}
	}
	again, err := testvectors.Load(os.DirFS(dir))
	if err != nil || len(again) != len(cases) || !reflect.DeepEqual(again[0].Evidence, cases[0].Evidence) {
		t.Errorf("%d cases, %v", len(again), err)
	}
}

func TestRefusals(t *testing.T) {
	const sound = "case: a\nas-of: 2026-06-01T00:00:00Z\nroots: vendor\nexpect: sevsnp.chain unknown\nverdict: genuine reject\n\nAAAA\n"
	for _, row := range []struct{ name, text, want string }{
		{"sound", sound, ""},
		{"unknown key", strings.Replace(sound, "roots:", "roost:", 1), "line 3: unknown key"},
		{"no value", strings.Replace(sound, "roots: vendor", "roots", 1), "line 3: want KEY: VALUE"},
		{"other roots", strings.Replace(sound, "vendor", "mine", 1), `roots "mine"`},
		{"no time", strings.Replace(sound, "T00:00:00Z", "", 1), "line 2"},
		{"no status", strings.Replace(sound, " unknown", "", 1), "line 4: expect"},
		{"other status", strings.Replace(sound, "unknown", "maybe", 1), "line 4: claim status"},
		{"other outcome", strings.Replace(sound, "reject", "no", 1), "line 5: outcome"},
		{"missing file", strings.Replace(sound, "roots: vendor", "amd-crl: none.der", 1), "line 3"},
		{"no base64", strings.Replace(sound, "AAAA", "????", 1), "base64"},
		{"no evidence", strings.TrimSuffix(sound, "\n\nAAAA\n"), "no empty line"},
		{"another name", strings.Replace(sound, "case: a", "case: b", 1), "holds case b"},
	} {
		_, err := testvectors.Load(fstest.MapFS{"cases/a.txt": {Data: []byte(row.text)}})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}
