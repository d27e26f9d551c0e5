package corim_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/corim"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/canon"
)

const at = canon.Time(1770000000)

// m is a map of a manifest, by integer keys.
type m = map[int64]any

func tagged(number uint64, content any) cbor.Tag { return cbor.Tag{Number: number, Content: content} }

func encode(t testing.TB, v any) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := mode.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	digest48 = bytes.Repeat([]byte{0xab}, 48)
	byChip   = tagged(37, []byte{0xd0, 0x5e, 0x6d, 0x1b, 0x9f, 0x46, 0x4a, 0xe2, 0xa6, 0x10, 0xce, 0x3e, 0x6e, 0xe7, 0xe1, 0x53})
	byCSP    = tagged(111, []byte{0x2b, 6, 1, 4, 1, 0x9c, 0x78, 2, 2})
)

func digests(alg any, value []byte) []any { return []any{[]any{alg, value}} }

// guest is a reference triple: an environment of a class and one measurement.
func guest(class any, mval m) []any {
	return []any{m{0: m{0: class, 1: "Example", 2: "guest 7"}}, []any{m{0: 0, 1: mval}}}
}

// comid is a CoMID with these triples, by their kind.
func comid(t testing.TB, triples m) cbor.Tag {
	return tagged(506, encode(t, m{1: m{0: "tag"}, 4: triples}))
}

// manifest is an unsigned manifest around tags.
func manifest(tags ...any) m {
	return m{0: "example", 1: tags, 5: []any{m{0: "Example GmbH", 2: []int{1}}}}
}

func snp(t testing.TB) m {
	return manifest(comid(t, m{0: []any{guest(byChip, m{2: digests(7, digest48)})}}))
}

func unsigned(t testing.TB, v any) []byte { return encode(t, tagged(501, v)) }

func sign(t testing.TB, key crypto.Signer, alg int, header m, payload []byte) []byte {
	t.Helper()
	header[1] = alg
	protected := encode(t, header)
	message := encode(t, []any{"Signature1", protected, []byte{}, payload})
	var signature []byte
	switch k := key.(type) {
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, message)
	case *ecdsa.PrivateKey:
		sum := sha256.Sum256(message)
		digest, n := sum[:], 32
		if k.Curve == elliptic.P384() {
			sum := sha512.Sum384(message)
			digest, n = sum[:], 48
		}
		r, s, err := ecdsa.Sign(rand.Reader, k, digest)
		if err != nil {
			t.Fatal(err)
		}
		signature = append(r.FillBytes(make([]byte, n)), s.FillBytes(make([]byte, n))...)
	}
	return encode(t, tagged(18, []any{protected, m{}, payload, signature}))
}

func header() m { return m{3: "application/rim+cbor"} }

// time is the time tag of a validity-map.
func instant(t canon.Time) cbor.Tag { return tagged(1, int64(t)) }

func TestUnsigned(t *testing.T) {
	rtmr := func(b byte) []byte { return bytes.Repeat([]byte{b}, 48) }
	for _, c := range []struct {
		name string
		data []byte
		as   string
		want attest.Reference
	}{
		{"SEV-SNP by chip", unsigned(t, snp(t)), "", attest.Reference{Format: "sev-snp", Measurement: digest48}},
		{"SEV-SNP by cloud, hash by name", unsigned(t, manifest(comid(t, m{0: []any{guest(byCSP, m{2: digests("sha-384", digest48)})}}))), "", attest.Reference{Format: "sev-snp", Measurement: digest48}},
		{"around it the tag of an early draft", encode(t, tagged(500, tagged(501, snp(t)))), "", attest.Reference{Format: "sev-snp", Measurement: digest48}},
		{"TDX, told so", unsigned(t, manifest(comid(t, m{0: []any{guest("TD", m{2: digests(7, digest48), 14: m{1: digests(7, rtmr(1)), 0: digests(7, rtmr(0))}})}}))), "tdx",
			attest.Reference{Format: "tdx", Measurement: digest48, Registers: []attest.Register{{Index: 0, Value: rtmr(0)}, {Index: 1, Value: rtmr(1)}}}},
		{"TPM, told so", unsigned(t, manifest(comid(t, m{0: []any{guest("boot", m{2: []any{[]any{1, bytes.Repeat([]byte{1}, 32)}, []any{7, digest48}}})}}))), "tpm",
			attest.Reference{Format: "tpm", Digests: []canon.Hex{bytes.Repeat([]byte{1}, 32), digest48}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := corim.Open(c.data, corim.Options{At: at, As: c.as})
			if err != nil {
				t.Fatal(err)
			}
			c.want.Guest = "Example guest 7 of example"
			if len(got.Values) != 1 || fmt.Sprint(got.Values[0]) != fmt.Sprint(c.want) || got.ID != "example" || len(got.Ignored) != 0 {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			list, err := got.References("mine", "not signed")
			if err != nil || list.Source != "CoRIM example, not signed; names Example GmbH" {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func TestSigned(t *testing.T) {
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	payload := unsigned(t, snp(t))
	meta := func(from, until canon.Time) m {
		h := header()
		h[8] = encode(t, m{0: m{0: "Example"}, 1: m{0: instant(from), 1: instant(until)}})
		return h
	}
	claims := func(from, until canon.Time) m {
		h := header()
		h[15] = m{1: "Example", 4: int64(until), 5: int64(from)}
		return h
	}
	for _, c := range []struct {
		name string
		key  crypto.Signer
		alg  int
		with m
		by   crypto.PublicKey
		want string // part of the refusal; empty: none
	}{
		{"Ed25519", ed, -8, header(), ed.Public(), ""},
		{"Ed25519, fully specified", ed, -19, meta(at-10, at), ed.Public(), ""},
		{"P-256", p256, -7, claims(at, at+10), p256.Public(), ""},
		{"P-256, fully specified", p256, -9, m{}, p256.Public(), ""},
		{"P-384", p384, -35, header(), p384.Public(), ""},
		{"P-384, fully specified", p384, -51, header(), p384.Public(), ""},
		{"another key", ed, -8, header(), p256.Public(), "algorithm -8, which does not go with the key on P-256"},
		{"another key of that kind", p256, -7, header(), func() crypto.PublicKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k.Public() }(), "not by that key"},
		{"P-256 under the algorithm of P-384", p256, -35, header(), p256.Public(), "algorithm -35"},
		{"P-384 under the algorithm of P-256", p384, -7, header(), p384.Public(), "algorithm -7, which does not go with the key on P-384"},
		{"none", ed, 0, header(), ed.Public(), "algorithm 0, and the key is Ed25519"},
		{"no key named", ed, -8, header(), nil, "no key was named"},
		{"critical header", ed, -8, m{2: []int{99}, 3: "application/rim+cbor"}, ed.Public(), "critical headers"},
		{"another content", ed, -8, m{3: "text/plain"}, ed.Public(), `content type "text/plain"`},
		{"not yet", ed, -8, meta(at+1, at+10), ed.Public(), "the time of the signature begins at"},
		{"no longer", ed, -8, meta(at-10, at-1), ed.Public(), "the time of the signature ended at"},
		{"no longer, by its claims", ed, -8, claims(at-10, at-1), ed.Public(), "the time of the signature ended at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := sign(t, c.key, c.alg, c.with, payload)
			got, err := corim.Open(data, corim.Options{Key: c.by, At: at})
			check(t, err, c.want)
			if err == nil && len(got.Values) != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
	for want, payload := range map[string][]byte{"the payload: tag 99, want 501": encode(t, tagged(99, snp(t))), "the payload: want a tag, got a map": encode(t, snp(t))} {
		_, err := corim.Open(sign(t, ed, -8, header(), payload), corim.Options{Key: ed.Public(), At: at})
		check(t, err, want)
	}
	data := sign(t, ed, -8, header(), payload)
	for i := range data { // whatever byte changes, it is not believed
		data[i] ^= 1
		if _, err := corim.Open(data, corim.Options{Key: ed.Public(), At: at}); err == nil {
			t.Errorf("byte %d changed: believed", i)
		}
		data[i] ^= 1
	}
	if _, err := corim.Open(payload, corim.Options{Key: ed.Public(), At: at}); err == nil || !strings.Contains(err.Error(), "not signed, and a key was named") {
		t.Errorf("unsigned under a key: %v", err)
	}
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var fault *corim.Error
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// What is there beside reference values is named, or refused where leaving it out would widen what a value stands for.
func TestWhatIsNotRead(t *testing.T) {
	good := []any{guest(byChip, m{2: digests(7, digest48)})}
	one := func(triples m) []byte { return unsigned(t, manifest(comid(t, triples))) }
	env := func(e m) []byte {
		return one(m{0: []any{[]any{e, []any{m{1: m{2: digests(7, digest48)}}}}}})
	}
	with := func(key int64, v any) []byte {
		f := snp(t)
		f[key] = v
		return unsigned(t, f)
	}
	for _, c := range []struct {
		name    string
		data    []byte
		ignored string // part of what is named
		refused string
	}{
		{"endorsed values", one(m{0: good, 1: []any{1}}), "endorsed-triples of the triples (key 1)", ""},
		{"conditional endorsements", one(m{0: good, 10: []any{1}}), "conditional-endorsement-triples", ""},
		{"an extension of the triples", one(m{0: good, -7: 1}), "an extension of the triples (key -7)", ""},
		{"a CoSWID", unsigned(t, manifest(tagged(505, []byte{0xa0}), comid(t, m{0: good}))), "a CoSWID tag", ""},
		{"a CoTL", unsigned(t, manifest(tagged(508, []byte{0xa0}), comid(t, m{0: good}))), "a CoTL tag", ""},
		{"dependent manifests", with(2, []any{m{0: "https://example.test"}}), "dependent-rims of the manifest", ""},
		{"linked tags", unsigned(t, manifest(tagged(506, encode(t, m{1: m{0: "tag"}, 3: []any{1}, 4: m{0: good}})))), "linked-tags of a CoMID", ""},
		{"a security version beside", one(m{0: []any{guest(byChip, m{1: 3, 2: digests(7, digest48)})}}), "svn of mval (key 1)", ""},
		{"another field of the report", one(m{0: []any{[]any{m{0: m{0: byChip}}, []any{m{0: 0, 1: m{2: digests(7, digest48)}}, m{0: 7, 1: m{1: 3}}}}}}), "measurement 7, which no claim compares", ""},
		{"another hash beside", one(m{0: []any{guest(byChip, m{2: []any{[]any{1, make([]byte, 32)}, []any{7, digest48}}})}}), "a digest of algorithm 1", ""},
		{"a layer", one(m{0: []any{[]any{m{0: m{0: byChip, 3: 1}}, []any{m{1: m{2: digests(7, digest48)}}}}}}), "layer of a class", ""},
		{"whose word", one(m{0: []any{[]any{m{0: m{0: byChip}}, []any{m{1: m{2: digests(7, digest48)}, 2: []any{1}}}}}}), "authorized-by of a measurement", ""},
		{"a key of text", unsigned(t, map[any]any{0: "example", 1: []any{comid(t, m{0: good})}, "note": "x"}), "an extension of the manifest", ""},
		{"an extension of the environment", env(m{0: m{0: byChip}, -1: 1}), "an extension of an environment (key -1)", ""},
		{"an unknown hash beside", one(m{0: []any{guest(byChip, m{2: []any{[]any{99, []byte{1}}, []any{7, digest48}}})}}), "a digest of algorithm 99", ""},
		{"one chip alone", env(m{0: m{0: byChip}, 1: tagged(560, make([]byte, 64))}), "", "values for one instance alone"},
		{"one group alone", env(m{0: m{0: byChip}, 2: tagged(560, make([]byte, 16))}), "", "values for one group of instances alone"},
		{"a class that no profile names", env(m{0: m{0: "TD", 1: "Intel"}}), "", `class "TD" Intel : no profile that this build knows names it`},
		{"nothing that a claim reads", one(m{0: []any{guest(byChip, m{1: 3})}}), "", "no reference value in it that a claim reads, only byte "},
		{"no reference triples", one(m{1: []any{1}}), "", "only byte "},
		{"two measurements of one guest", one(m{0: []any{[]any{m{0: m{0: byChip}}, []any{m{1: m{2: digests(7, digest48)}}, m{1: m{2: digests(7, digest48)}}}}}}), "", "a second measurement of one environment"},
		{"not yet", with(4, m{0: instant(at + 1), 1: instant(at + 2)}), "", "the time of the manifest begins at"},
		{"no longer", with(4, m{1: instant(at - 1)}), "", "the time of the manifest ended at"},
		{"of now", with(4, m{0: instant(at), 1: instant(at)}), "", ""},
		{"no end", with(4, m{0: instant(at)}), "", "no not-after (key 1)"},
		{"a time that is text", with(4, m{1: "2026-01-01"}), "", "a time of the manifest: want a tag, got text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := corim.Open(c.data, corim.Options{At: at})
			check(t, err, c.refused)
			if err != nil {
				return
			}
			if len(got.Values) != 1 || (c.ignored == "") != (len(got.Ignored) == 0) || !strings.Contains(strings.Join(got.Ignored, "\n"), c.ignored) {
				t.Errorf("values %d, ignored %q, want %q", len(got.Values), got.Ignored, c.ignored)
			}
		})
	}
}

// Of a TD the measurement and the registers stand together: one that cannot be read is refused, for without it the others would
// count for more machines than their author meant.
func TestRegisters(t *testing.T) {
	td := func(mval m) []byte { return unsigned(t, manifest(comid(t, m{0: []any{guest("TD", mval)}}))) }
	rtmr := func(b byte) []any { return digests(7, bytes.Repeat([]byte{b}, 48)) }
	other := digests(1, make([]byte, 32))
	for _, c := range []struct {
		name    string
		data    []byte
		as      string
		refused string
	}{
		{"all four", td(m{2: digests(7, digest48), 14: m{0: rtmr(0), 1: rtmr(1), 2: rtmr(2), 3: rtmr(3)}}), "tdx", ""},
		{"another hash beside", td(m{14: m{3: append(rtmr(3), other...)}}), "tdx", ""},
		{"a register of another hash alone", td(m{2: digests(7, digest48), 14: m{3: other}}), "tdx", "no SHA-384 digest of register 3"},
		{"a measurement of another hash alone", td(m{2: other, 14: m{0: rtmr(0)}}), "tdx", "no SHA-384 digest of the measurement"},
		{"a fifth register", td(m{14: m{4: rtmr(4)}}), "tdx", "register 4: want 0 to 3"},
		{"a register before the first", td(m{14: m{-1: rtmr(4)}}), "tdx", "register -1: want 0 to 3"},
		{"a register by name", encode(t, tagged(501, manifest(comid(t, m{0: []any{guest("TD", m{14: map[any]any{0: rtmr(0), "pcr1": rtmr(1)}})}})))), "tdx", "a register by name"},
		{"a name of what a TPM measured", unsigned(t, manifest(comid(t, m{0: []any{[]any{m{0: m{0: "boot"}}, []any{m{0: "grub", 1: m{2: digests(7, digest48)}}}}}}))), "tpm", ""},
		{"the same of a TD", unsigned(t, manifest(comid(t, m{0: []any{[]any{m{0: m{0: "boot"}}, []any{m{0: "grub", 1: m{2: digests(7, digest48)}}}}}}))), "tdx", "mkey: want a number, got text"},
		{"registers of a TPM", td(m{2: digests(7, digest48), 14: m{4: rtmr(4)}}), "tpm", ""}, // named, and not read
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := corim.Open(c.data, corim.Options{At: at, As: c.as})
			check(t, err, c.refused)
			if err == nil && len(got.Values) != 1 {
				t.Errorf("%+v", got)
			}
			if err == nil && c.name == "all four" {
				for i, r := range got.Values[0].Registers {
					if r.Index != i || r.Value[0] != byte(i) {
						t.Errorf("register %d: %+v", i, r)
					}
				}
			}
		})
	}
}

// Malformed manifests are refused with the byte where they go wrong.
func TestMalformed(t *testing.T) {
	one := func(triple any) []byte { return unsigned(t, manifest(comid(t, m{0: []any{triple}}))) }
	good := guest(byChip, m{2: digests(7, digest48)})
	sound := unsigned(t, snp(t))
	nested := []byte{0xd9, 1, 0xf5}
	for range 40 {
		nested = append(nested, 0x81)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "corim: byte 0: empty"},
		{"text", []byte("type: assay/references/v1"), "behind the end"},
		{"no tag", encode(t, snp(t)), "corim: byte 0: a manifest: want a tag, got a map"},
		{"another tag", encode(t, tagged(1398229316, snp(t))), "byte 0: tag 1398229316: want 501"},
		{"a signed one of an early draft", encode(t, tagged(500, tagged(502, []any{1}))), "byte 3: tag 502: a signed manifest of an early draft"},
		{"cut off", sound[:len(sound)-1], "byte 153: not CBOR: unexpected EOF"},
		{"a byte behind", append(bytes.Clone(sound), 0), fmt.Sprintf("byte %d: 1 bytes behind the end", len(sound))},
		{"an array for the map", unsigned(t, []any{1}), "byte 3: a manifest: want a map, got an array"},
		{"no id", unsigned(t, m{1: []any{1}}), "byte 3: no id (key 0)"},
		{"an id that is a number", unsigned(t, m{0: 7, 1: []any{1}}), "byte 5: the id: want text or bytes"},
		{"makers that are no list", unsigned(t, m{0: "x", 1: []any{comid(t, m{0: []any{good}})}, 5: 1}), "entities: want an array"},
		{"a maker without a name", unsigned(t, m{0: "x", 1: []any{comid(t, m{0: []any{good}})}, 5: []any{m{2: []int{1}}}}), "no name (key 0)"},
		{"a tag of the manifest that is none", unsigned(t, manifest(7)), "a tag of the manifest: want a tag"},
		{"a vendor that is a number", one([]any{m{0: m{0: byChip, 1: 7}}, []any{m{1: m{2: digests(7, digest48)}}}}), "vendor: want text"},
		{"no tags", unsigned(t, m{0: "x"}), "byte 3: no tags (key 1)"},
		{"no tag in tags", unsigned(t, m{0: "x", 1: []any{}}), "the tags: empty"},
		{"a CoMID that is no bytes", unsigned(t, manifest(tagged(506, 7))), "a CoMID: want bytes, got a number"},
		{"an empty CoMID", unsigned(t, manifest(tagged(506, []byte{}))), "a CoMID: empty"},
		{"an unknown tag of the manifest", unsigned(t, manifest(tagged(507, []byte{0}))), "tag 507 of the manifest"},
		{"no triples", unsigned(t, manifest(tagged(506, encode(t, m{1: m{0: "x"}})))), "no triples (key 4)"},
		{"a triple of one", one([]any{m{0: m{0: byChip}}}), "a reference triple: 1 parts, want 2"},
		{"a triple of three", one([]any{m{0: m{0: byChip}}, []any{m{1: m{}}}, 1}), "a reference triple: 3 parts, want 2"},
		{"no class", one([]any{m{}, []any{m{1: m{}}}}), "no class (key 0)"},
		{"no measurement", one([]any{m{0: m{0: byChip}}, []any{}}), "measurements: empty"},
		{"no mval", one([]any{m{0: m{0: byChip}}, []any{m{0: 0}}}), "no mval (key 1)"},
		{"a digest of the wrong size", one(guest(byChip, m{2: digests(7, digest48[:47])})), "a digest of algorithm 7: 47 bytes, want 48"},
		{"a digest of three parts", one(guest(byChip, m{2: []any{[]any{7, digest48, 1}}})), "a digest: 3 parts, want 2"},
		{"a digest that is text", one(guest(byChip, m{2: []any{[]any{7, "ab"}}})), "the value of a digest: want bytes, got text"},
		{"a hash that nobody knows", one(guest(byChip, m{2: digests("md5", make([]byte, 16))})), `hash algorithm "md5" is not known`},
		{"two digests of one kind", one(guest(byChip, m{2: []any{[]any{7, digest48}, []any{7, make([]byte, 48)}}})), "a second SHA-384 digest"},
		{"a key twice", []byte{0xd9, 1, 0xf5, 0xa2, 0, 0x61, 'x', 0, 0x61, 'y'}, "byte 7: a manifest: key 0 twice"},
		{"a key twice, in two spellings", []byte{0xd9, 1, 0xf5, 0xa2, 0, 0x61, 'x', 0x18, 0, 0x61, 'y'}, "byte 7: a number in more bytes than it needs"},
		{"indefinite length", []byte{0xd9, 1, 0xf5, 0xbf, 0, 0x61, 'x', 0xff}, "byte 3: not CBOR"},
		{"text that is not UTF-8", []byte{0xd9, 1, 0xf5, 0xa1, 0, 0x61, 0xff}, "byte "},
		{"deeper than any manifest", append(nested, 0), "byte 18: not CBOR: cbor: exceeded max nested level"},
		{"more items than bytes", []byte{0xd9, 1, 0xf5, 0x9a, 0xff, 0xff, 0xff, 0xff}, "byte 8: not CBOR"},
		{"a COSE_Sign1 of three", encode(t, tagged(18, []any{1, 2, 3})), "corim: byte 0: it is signed, and no key was named"},
		{"larger than any manifest", make([]byte, corim.MaxSize+1), "a manifest of 1048577 bytes, at most 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := corim.Open(c.data, corim.Options{At: at})
			if got != nil {
				t.Errorf("read as %+v", got)
			}
			check(t, err, c.want)
		})
	}
	if _, err := corim.Open(one(good), corim.Options{At: at}); err != nil {
		t.Error(err)
	}
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	for _, parts := range [][]any{{1, 2, 3}, {[]byte{0xa0}, m{}, nil, []byte{1}}, {[]byte{}, m{}, []byte{1}, []byte{1}}, {[]byte{0xa0}, m{}, []byte{1}, []byte{1}}, {[]byte{1}, m{}, []byte{1}, []byte{1}}} {
		_, err := corim.Open(encode(t, tagged(18, parts)), corim.Options{At: at, Key: ed.Public()})
		check(t, err, "byte ")
	}
}

// FuzzOpen holds that a manifest is refused with a byte inside it or gives a list that can be meant, within the law of
// allocation.
func FuzzOpen(f *testing.F) {
	f.Add(unsigned(f, snp(f)))
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	f.Add(sign(f, ed, -8, header(), unsigned(f, snp(f))))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range []corim.Options{{At: at}, {At: at, Key: ed.Public()}, {At: at, As: "tdx"}, {At: at, As: "tpm"}} {
			alloc.Within(t, len(data), func() {
				got, err := corim.Open(data, o)
				var fault *corim.Error
				switch {
				case err == nil:
					if _, err := got.References("x", "y"); err != nil {
						t.Fatal(err)
					}
				case !errors.As(err, &fault) || fault.Offset < 0 || fault.Offset > len(data):
					t.Fatalf("fault without a place: %v", err)
				}
			})
		}
	})
}
