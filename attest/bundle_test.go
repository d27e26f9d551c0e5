package attest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

type session struct{ ed25519.PrivateKey }

func (s session) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(s.PrivateKey, message), nil
}

func newSession(t testing.TB, name byte) (session, []byte) {
	t.Helper()
	s := session{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{name}, ed25519.SeedSize))}
	der, err := x509.MarshalPKIXPublicKey(s.Public())
	if err != nil {
		t.Fatal(err)
	}
	return s, der
}

func soundBundle(t testing.TB) (attest.Bundle, session) {
	s, spki := newSession(t, 1)
	return attest.Bundle{
		Type: attest.BundleType, Keys: attest.Keys{Sign: spki, KEM: make([]byte, 32)}, Challenge: canon.Digest{1}, Seal: "cpu0",
		Components: []attest.Component{
			{Class: attest.ClassCPU, MediaType: "a/b", Label: "cpu0", Parts: []attest.Part{{Name: "report", Data: []byte("x")}}},
			{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement, Data: []byte("y")}}},
		},
	}, s
}

func TestBundleRoundTrip(t *testing.T) {
	b, s := soundBundle(t)
	env, err := attest.SealBundle(b, s)
	if err != nil {
		t.Fatal(err)
	}
	got, signed, err := attest.OpenBundle(env)
	if err != nil || !signed || got.Covered() != b.Covered() || got.Keys.Digest() != b.Keys.Digest() {
		t.Errorf("%+v, signed %v, %v", got, signed, err)
	}
	other, _ := newSession(t, 2)
	forged, err := ledger.Seal(attest.BundleType, env.Payload, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, signed, err := attest.OpenBundle(forged); err != nil || signed {
		t.Errorf("signed by a stranger: signed %v, %v", signed, err)
	}
	two, err := ledger.Seal(attest.BundleType, env.Payload, s, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := attest.OpenBundle(two); err == nil {
		t.Error("two signatures are taken")
	}
	retyped, err := ledger.Seal("assay/result/v1", env.Payload, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := attest.OpenBundle(retyped); err == nil || !strings.Contains(err.Error(), "assay/result/v1") {
		t.Errorf("payload type of another document: %v", err)
	}
}

func TestBundleShape(t *testing.T) {
	more := func(b *attest.Bundle, n int) {
		for i := range n {
			b.Components = append(b.Components, attest.Component{Class: attest.ClassGPU, MediaType: "a/b", Label: fmt.Sprint("gpu", i), Parts: []attest.Part{{Name: "x"}}})
		}
	}
	for _, row := range []struct {
		name   string
		change func(*attest.Bundle)
		want   string // "": accepted
	}{
		{"sound", func(*attest.Bundle) {}, ""},
		{"32 components", func(b *attest.Bundle) { more(b, attest.MaxComponents-2) }, ""},
		{"33 components", func(b *attest.Bundle) { more(b, attest.MaxComponents-1) }, "33 components"},
		{"type of tomorrow", func(b *attest.Bundle) { b.Type = "assay/bundle/v2" }, "assay/bundle/v2"},
		{"short kem key", func(b *attest.Bundle) { b.Keys.KEM = b.Keys.KEM[1:] }, "31 bytes"},
		{"unknown class", func(b *attest.Bundle) { b.Components[0].Class = "fpga" }, `"fpga"`},
		{"no label", func(b *attest.Bundle) { b.Components[0].Label, b.Seal = "", "" }, "label"},
		{"long label", func(b *attest.Bundle) { b.Components[1].Label = strings.Repeat("a", attest.MaxName+1) }, "label"},
		{"longest label", func(b *attest.Bundle) { b.Components[1].Label = strings.Repeat("a", attest.MaxName) }, ""},
		{"long media type", func(b *attest.Bundle) { b.Components[0].MediaType = strings.Repeat("a", attest.MaxName+1) }, "media type"},
		{"label twice", func(b *attest.Bundle) { b.Components[1].Label = "cpu0" }, `second label "cpu0"`},
		{"no parts", func(b *attest.Bundle) { b.Components[0].Parts = nil }, "0 parts"},
		{"17 parts", func(b *attest.Bundle) { b.Components[0].Parts = make([]attest.Part, attest.MaxParts+1) }, "17 parts"},
		{"no statement", func(b *attest.Bundle) { b.Components = b.Components[:1] }, "0 statements"},
		{"two statements", func(b *attest.Bundle) {
			again := b.Components[1]
			again.Label = "agent2"
			b.Components = append(b.Components, again)
		}, "2 statements"},
		{"seal missing", func(b *attest.Bundle) { b.Seal = "" }, "seal"},
		{"seal of another name", func(b *attest.Bundle) { b.Seal = "gpu9" }, `"gpu9"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, s := soundBundle(t)
			row.change(&b)
			payload, err := canon.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			_, parsed := attest.ParseBundle(payload)
			_, sealed := attest.SealBundle(b, s)
			for _, err := range []error{parsed, sealed} {
				if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("%v, want %q", err, row.want)
				}
			}
		})
	}
}

func TestBundleBytes(t *testing.T) {
	b, _ := soundBundle(t)
	payload, err := canon.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attest.ParseBundle(payload); err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) []byte { return bytes.Replace(payload, []byte(old), []byte(new), 1) }
	for name, bad := range map[string][]byte{
		"empty":           nil,
		"a space":         append(bytes.Clone(payload), ' '),
		"second document": append(bytes.Clone(payload), payload...),
		"cut":             payload[:len(payload)-1],
		"duplicate key":   append([]byte(`{"seal":"cpu0",`), payload[1:]...),
		"case variant":    replace(`"seal"`, `"Seal"`),
		"null":            replace(`"seal":"cpu0"`, `"seal":null`),
		"number":          replace(`"seal":"cpu0"`, `"seal":0`),
		"escaped":         replace(`"seal":"cpu0"`, `"seal":"\u0063pu0"`),
		"oversize":        bytes.Repeat([]byte{' '}, attest.MaxBundle+1),
	} {
		if _, err := attest.ParseBundle(bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestStatement(t *testing.T) {
	good, err := canon.Marshal(attest.Statement{Type: attest.StatementType, Agent: canon.Digest{1}, BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := attest.ParseStatement(good); err != nil || s.Agent != (canon.Digest{1}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(string(good), "statement/v1", "statement/v2", 1)} {
		if _, err := attest.ParseStatement([]byte(bad)); err == nil {
			t.Errorf("%q: taken", bad)
		}
	}
}

func TestExpectCheck(t *testing.T) {
	_, spki := newSession(t, 1)
	challenge := attest.Challenge{Type: attest.ChallengeType, Nonce: make([]byte, attest.NonceSize)}
	short := challenge
	short.Nonce = short.Nonce[1:]
	other := challenge
	other.Type = "assay/challenge/v9"
	for _, row := range []struct {
		name string
		e    attest.Expect
		ok   bool
	}{
		{"nothing", attest.Expect{}, true},
		{"challenge", attest.Expect{Challenge: &challenge}, true},
		{"nonce", attest.Expect{Nonce: make([]byte, 32)}, true},
		{"report data", attest.Expect{ReportData: make([]byte, 64)}, true},
		{"deny list key", attest.Expect{DenyListKeys: [][]byte{spki}}, true},
		{"other type", attest.Expect{Type: "assay/expect/v9"}, false},
		{"other challenge type", attest.Expect{Challenge: &other}, false},
		{"short challenge nonce", attest.Expect{Challenge: &short}, false},
		{"challenge and nonce", attest.Expect{Challenge: &challenge, Nonce: make([]byte, 32)}, false},
		{"challenge and report data", attest.Expect{Challenge: &challenge, ReportData: make([]byte, 64)}, false},
		{"nonce and report data", attest.Expect{Nonce: make([]byte, 32), ReportData: make([]byte, 64)}, false},
		{"short nonce", attest.Expect{Nonce: make([]byte, 31)}, false},
		{"padded report data", attest.Expect{ReportData: make([]byte, 65)}, false},
		{"key that is none", attest.Expect{DenyListKeys: [][]byte{{1, 2}}}, false},
		{"registry too long", attest.Expect{Registry: make([]attest.Holder, attest.MaxHolders+1)}, false},
	} {
		if row.e.Type == "" {
			row.e.Type = attest.ExpectType
		}
		if err := row.e.Check(); (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func TestReferencesCheck(t *testing.T) {
	digest := make([]byte, 48)
	one := func(v attest.Reference) attest.References {
		return attest.References{Type: attest.ReferencesType, Values: []attest.Reference{v}}
	}
	tdx := func(registers ...attest.Register) attest.References {
		return one(attest.Reference{Format: "tdx", Registers: registers})
	}
	for _, row := range []struct {
		name string
		r    attest.References
		want string // the error; empty: none
	}{
		{"measurement", one(attest.Reference{Format: "sev-snp", Measurement: digest}), ""},
		{"registers", tdx(attest.Register{Index: 0, Value: digest}, attest.Register{Index: 3, Value: digest}), ""},
		{"digests", one(attest.Reference{Format: "tpm", Digests: []canon.Hex{{1}}}), ""},
		{"none", attest.References{Type: attest.ReferencesType}, "0 values"},
		{"too many", attest.References{Type: attest.ReferencesType, Values: make([]attest.Reference, attest.MaxReferences+1)}, "want 1 to"},
		{"other type", attest.References{Type: "x", Values: one(attest.Reference{Format: "sev-snp", Measurement: digest}).Values}, `type "x" is not known`},
		{"no measurement", one(attest.Reference{Format: "sev-snp"}), "want a format, and a measurement"},
		{"no format", one(attest.Reference{Measurement: digest}), "want a format"},
		{"misspelled format", one(attest.Reference{Format: "TDX", Measurement: digest}), `value 0: format "TDX" is not known to this build`},
		{"short measurement", one(attest.Reference{Format: "tdx", Measurement: digest[:32]}), "measurement of 32 bytes, want 48"},
		{"register 4", tdx(attest.Register{Index: 4, Value: digest}), "register 4, want 0 to 3"},
		{"register -1", tdx(attest.Register{Index: -1, Value: digest}), "register -1, want 0 to 3"},
		{"register twice", tdx(attest.Register{Index: 1, Value: digest}, attest.Register{Index: 1, Value: digest}), "register 1 twice"},
		{"short register", tdx(attest.Register{Index: 1, Value: digest[:32]}), "register 1: value of 32 bytes, want 48"},
	} {
		if err := row.r.Check(); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestRoots(t *testing.T) {
	a, b := attest.RootFile{Name: "a.pem", Data: []byte("a")}, attest.RootFile{Name: "b.pem", Data: []byte("b")}
	first, err := attest.NewRoots(a, b)
	if err != nil {
		t.Fatal(err)
	}
	second, err := attest.NewRoots(b, a)
	if err != nil || first.Digest() != second.Digest() {
		t.Errorf("the order of files counts: %v", err)
	}
	again, err := attest.ParseRoots(first.Marshal())
	if err != nil || again.Digest() != first.Digest() || canon.Sum(first.Marshal()) != first.Digest() {
		t.Errorf("%v", err)
	}
	if data, ok := again.File("b.pem"); !ok || string(data) != "b" {
		t.Errorf("%q %v", data, ok)
	}
	if _, ok := again.File("c.pem"); ok {
		t.Error("a file that is not there")
	}
	renamed, err := attest.NewRoots(attest.RootFile{Name: "c.pem", Data: a.Data}, b)
	if err != nil || renamed.Digest() == first.Digest() {
		t.Errorf("a name does not count: %v", err)
	}
	for name, files := range map[string][]attest.RootFile{
		"none":     nil,
		"a twice":  {a, a},
		"large":    {{Name: "a", Data: make([]byte, attest.MaxRootFile+1)}},
		"too many": make([]attest.RootFile, attest.MaxRootFiles+1),
	} {
		if _, err := attest.NewRoots(files...); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestMemoryKeepsNothing: a result may be nothing at all, such as the error of what went well.
func TestMemoryKeepsNothing(t *testing.T) {
	m, computed := attest.NewMemory(), 0
	for range 3 {
		err := attest.Remember(m, canon.Sum(nil), func() error { computed++; return nil })
		if err != nil {
			t.Error(err)
		}
	}
	if computed != 1 {
		t.Errorf("computed %d times", computed)
	}
}

// TestMemoryForgets: a memory is bounded, and the oldest result goes first.
func TestMemoryForgets(t *testing.T) {
	m := attest.NewMemory()
	computed := 0
	ask := func(n int) int {
		return attest.Remember(m, canon.Hash("test", []byte(fmt.Sprint(n))), func() int { computed++; return 7 * n })
	}
	for n := range attest.MaxRemembered {
		ask(n)
	}
	if ask(0) != 0 || computed != attest.MaxRemembered {
		t.Fatalf("%d computed: what was just asked is forgotten", computed)
	}
	ask(attest.MaxRemembered) // one too many: 1 goes, for 0 was asked since
	if ask(0); computed != attest.MaxRemembered+1 {
		t.Error("0 was forgotten although it was asked last")
	}
	if got := ask(1); got != 7 || computed != attest.MaxRemembered+2 {
		t.Errorf("1: %d, %d computed: want it computed anew", got, computed)
	}
	var none *attest.Memory
	if got := attest.Remember(none, canon.Digest{}, func() int { return 3 }); got != 3 {
		t.Errorf("without a memory: %d", got)
	}
}

func TestUnverified(t *testing.T) {
	u := attest.NewUnverified("value", []byte("message"), []byte("signature"))
	accept := func(m, s []byte) bool { return string(m) == "message" && string(s) == "signature" }
	if v, ok := u.Verify(accept); !ok || v != "value" {
		t.Errorf("%q %v", v, ok)
	}
	if v, ok := u.Verify(func(_, _ []byte) bool { return false }); ok || v != "" {
		t.Errorf("refused, and yet %q %v", v, ok)
	}
}
