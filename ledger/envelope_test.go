package ledger_test

import (
	"bytes"
	"crypto"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

const payloadType = "assay/test/v1"

func seal(t testing.TB, payload string, keys ...ledger.Signer) ledger.Envelope {
	t.Helper()
	e, err := ledger.Seal(payloadType, []byte(payload), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEnvelopeSignatures(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, other ledger.Signer
	}{
		{"Ed25519", edKey(1), edKey(2)},
		{"P-256", ecKey(1), ecKey(2)},
	} {
		e := seal(t, "payload", c.key)
		signed := func(what string, e ledger.Envelope, pub crypto.PublicKey, want bool) {
			t.Helper()
			if got := e.SignedBy(pub); got != want {
				t.Errorf("%s, %s: signed %v, want %v", c.name, what, got, want)
			}
		}
		signed("as sealed", e, c.key.Public(), true)
		signed("another key", e, c.other.Public(), false)
		signed("no key", e, nil, false)

		altered := e
		altered.Payload = []byte("payloae")
		signed("altered payload", altered, c.key.Public(), false)
		altered = e
		altered.PayloadType = "assay/test/v2"
		signed("altered type", altered, c.key.Public(), false)
		altered = e
		altered.Signatures = []ledger.Signature{{KeyID: e.Signatures[0].KeyID, Sig: bytes.Clone(e.Signatures[0].Sig)}}
		altered.Signatures[0].Sig[10] ^= 1
		signed("altered signature", altered, c.key.Public(), false)
		moved := seal(t, "payload", c.other)
		moved.Signatures[0].KeyID = e.Signatures[0].KeyID
		signed("another's signature under this key id", moved, c.key.Public(), false)

		again, err := ledger.ParseEnvelope(marshal(t, e))
		if err != nil {
			t.Fatal(err)
		}
		signed("parsed", again, c.key.Public(), true)
	}
}

func TestPAE(t *testing.T) {
	// The example of the DSSE protocol document.
	e := ledger.Envelope{PayloadType: "http://example.com/HelloWorld", Payload: []byte("hello world")}
	if got, want := string(e.PAE()), "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEnvelopeIdentity(t *testing.T) {
	one, two := seal(t, "payload", edKey(1)), seal(t, "payload", edKey(2), ecKey(1))
	if one.Identity() != two.Identity() {
		t.Error("the identity changes with the signatures")
	}
	if one.Identity() == seal(t, "payloae", edKey(1)).Identity() {
		t.Error("two payloads, one identity")
	}
	if bytes.Equal(marshal(t, one), marshal(t, two)) {
		t.Error("two sets of signatures, the same bytes")
	}
}

func TestParseEnvelope(t *testing.T) {
	// The payload encodes with + and /, so that the URL-safe alphabet differs.
	e := seal(t, "\xfb\xff\xfe", edKey(1), edKey(2), ecKey(1))
	good := string(marshal(t, e))
	reversed, twice, none, many := e, e, e, e
	reversed.Signatures = slices.Clone(e.Signatures)
	slices.Reverse(reversed.Signatures)
	twice.Signatures = []ledger.Signature{e.Signatures[0], e.Signatures[0]}
	none.Signatures = nil
	many.Signatures = make([]ledger.Signature, ledger.MaxSignatures+1)
	for i := range many.Signatures {
		many.Signatures[i].KeyID[0] = byte(i)
	}
	for _, c := range []struct{ name, data, want string }{
		{"good", good, ""},
		{"signatures out of order", string(marshal(t, reversed)), "not ordered by key id"},
		{"a key id twice", string(marshal(t, twice)), "not ordered by key id"},
		{"no signature", string(marshal(t, none)), "0 signatures"},
		{"nine signatures", string(marshal(t, many)), "9 signatures"},
		{"URL-safe base64", strings.Replace(good, `"+//+"`, `"-__-"`, 1), "parse canonical JSON"},
		{"base64 without padding", strings.Replace(good, `=="}`, `"}`, 1), "parse canonical JSON"},
		{"an extra member", strings.Replace(good, `{"payload"`, `{"extra":1,"payload"`, 1), "parse canonical JSON"},
		{"a member twice", strings.Replace(good, `{"payload"`, `{"payload":"","payload"`, 1), "parse canonical JSON"},
		{"a member in capitals", strings.Replace(good, `"payload":`, `"Payload":`, 1), "parse canonical JSON"},
		{"a space", strings.Replace(good, `{"payload"`, `{ "payload"`, 1), "not canonical"},
		{"members out of order", `{"signatures":` + good[strings.Index(good, `[`):len(good)-1] + `,` + strings.TrimSuffix(good[1:strings.Index(good, `,"signatures"`)], ",") + `}`, "not canonical"},
		{"a second document", good + good, "second document"},
		{"cut", good[:len(good)-1], "parse canonical JSON"},
		{"upper-case key id", strings.Replace(good, `"keyid":"`+e.Signatures[0].KeyID.String(), `"keyid":"`+strings.ToUpper(e.Signatures[0].KeyID.String()), 1), "lower-case"},
		{"an empty key id", strings.Replace(good, `"keyid":"`+e.Signatures[0].KeyID.String(), `"keyid":"`, 1), "0 characters, want 64"},
		{"no key id", strings.Replace(good, `"keyid":"`+e.Signatures[0].KeyID.String()+`",`, ``, 1), "not canonical"},
		{"too long", strings.Repeat(" ", ledger.MaxEnvelope+1), "at most"},
	} {
		if (c.data == good) != (c.want == "") {
			t.Errorf("%s: the case changes nothing", c.name)
		}
		_, err := ledger.ParseEnvelope([]byte(c.data))
		check(t, c.name, err, c.want)
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add(marshal(f, seal(f, "payload", edKey(1))))
	f.Add(marshal(f, seal(f, "\xfb\xff\xfe", edKey(1), ecKey(2))))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ledger.ParseEnvelope(data)
		if err != nil {
			return
		}
		if again, err := canon.Marshal(e); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q became %q (%v)", data, again, err)
		}
	})
}
