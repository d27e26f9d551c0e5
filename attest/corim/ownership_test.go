package corim_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/corim"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/canon"
)

var (
	piid          = bytes.Repeat([]byte{0x17}, 16)
	classPlatform = tagged(111, []byte{0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x02, 0x06, 0x01})
	classOwner    = tagged(111, []byte{0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x02, 0x0c, 0x01})
)

// endorsement is what the draft's complete example has, part by part.
type endorsement struct {
	profile   any
	validity  m
	condition m // its measurement
	addition  m
	classes   [2]any
	tags      func(comid any) []any
	records   func(record any) []any
	chain     any
}

func (e endorsement) sign(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	half := func(class any, measurement m) []any {
		return []any{[]any{m{0: m{0: class}}, []any{measurement}}}
	}
	record := []any{half(e.classes[0], e.condition), half(e.classes[1], e.addition)}
	comid := tagged(506, encode(t, m{1: m{0: []byte("0123456789abcdef")}, 4: m{10: e.records(record)}}))
	payload := encode(t, tagged(501, m{0: []byte("0123456789abcdef"), 1: e.tags(comid), 3: e.profile, 4: e.validity}))
	protected := encode(t, m{1: -35, 3: "application/rim+cbor", 15: m{1: "csp.example"}})
	digest := sha512.Sum384(encode(t, []any{"Signature1", protected, []byte{}, payload}))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	unprotected := m{}
	if e.chain != nil {
		unprotected[33] = e.chain
	}
	return encode(t, tagged(18, []any{protected, unprotected, payload, append(r.FillBytes(make([]byte, 48)), s.FillBytes(make([]byte, 48))...)}))
}

func certificate(t *testing.T, name string, pub crypto.PublicKey, from, until canon.Time) []byte {
	t.Helper()
	parent, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from.Time(), NotAfter: until.Time()}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, NotAfter: time.Now()}, pub, parent)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestOwnership(t *testing.T) {
	key, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	other, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	leaf := certificate(t, "csp.example", key.Public(), at-1000, at+500)
	good := func() endorsement {
		return endorsement{
			profile: "tag:intel.com,2026:tee.poe#1.0", validity: m{0: instant(at - 100), 1: instant(at + 5000)},
			condition: m{0: "tee.poe.platform-binding", 1: m{-101: piid}}, addition: m{0: "tee.poe.ownership-claims", 1: m{-401: "csp.example"}},
			classes: [2]any{classPlatform, classOwner}, chain: []any{leaf, certificate(t, "root", other.Public(), at-9000, at+9000)},
			tags: func(c any) []any { return []any{c} }, records: func(r any) []any { return []any{r} },
		}
	}
	got, err := corim.OpenOwnership(good().sign(t, key), corim.Options{Key: key.Public(), At: at})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Platform, piid) || got.Owner != "csp.example" || got.Signer != "csp.example" || got.NotBefore != at-100 || got.NotAfter != at+500 {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		name   string
		change func(*endorsement)
		o      corim.Options
		want   string // nothing: it is read
	}{
		{"a higher minor version", func(e *endorsement) { e.profile = "tag:intel.com,2026:tee.poe#1.7" }, corim.Options{}, ""},
		{"no names of measurements", func(e *endorsement) { e.condition, e.addition = m{1: m{-101: piid}}, m{1: m{-401: "x.example"}} }, corim.Options{}, ""},
		{"an identity of 32 bytes", func(e *endorsement) { e.condition = m{1: m{-101: append(piid, piid...)}} }, corim.Options{}, ""},
		{"one certificate", func(e *endorsement) { e.chain = leaf }, corim.Options{}, ""},
		{"an owner of 1024 bytes", func(e *endorsement) { e.addition = m{1: m{-401: strings.Repeat("x", 1024)}} }, corim.Options{}, ""},
		{"another key", nil, corim.Options{Key: other.Public()}, "the signature is not by that key"},
		{"no key", nil, corim.Options{Key: crypto.PublicKey(nil), At: at + 1}, "no key was named"},
		{"another profile", func(e *endorsement) { e.profile = "tag:intel.com,2026:tee.poe#2.0" }, corim.Options{}, "the profile: want"},
		{"a profile by OID", func(e *endorsement) { e.profile = classOwner }, corim.Options{}, "the profile: want"},
		{"an identity of 15 bytes", func(e *endorsement) { e.condition = m{1: m{-101: piid[:15]}} }, corim.Options{}, "15 bytes, want 16 or 32"},
		{"an owner of 1025 bytes", func(e *endorsement) { e.addition = m{1: m{-401: strings.Repeat("x", 1025)}} }, corim.Options{}, "at most 1024 bytes"},
		{"no owner", func(e *endorsement) { e.addition = m{1: m{-401: ""}} }, corim.Options{}, "the owner's name: empty"},
		{"two values", func(e *endorsement) { e.addition = m{1: m{-401: "a", -402: "b"}} }, corim.Options{}, "2 values, want one"},
		{"authorised by a key", func(e *endorsement) { e.addition[2] = []any{1} }, corim.Options{}, "authorized-by"},
		{"of another class", func(e *endorsement) { e.classes[0] = classOwner }, corim.Options{}, "the class id of conditions"},
		{"two statements", func(e *endorsement) { e.records = func(r any) []any { return []any{r, r} } }, corim.Options{}, "2 parts, want 1"},
		{"two CoMIDs", func(e *endorsement) { e.tags = func(c any) []any { return []any{c, c} } }, corim.Options{}, "2 parts, want 1"},
		{"no beginning", func(e *endorsement) { delete(e.validity, 0) }, corim.Options{}, "no not-before"},
		{"lapsed", func(e *endorsement) { e.validity[1] = instant(at - 1) }, corim.Options{}, "ended at"},
		{"not yet", func(e *endorsement) { e.validity[0] = instant(at + 1) }, corim.Options{}, "begins at"},
		{"no chain", func(e *endorsement) { e.chain = nil }, corim.Options{}, "no x5chain"},
		{"another's certificate", func(e *endorsement) { e.chain = certificate(t, "x", other.Public(), at-9, at+9) }, corim.Options{}, "of another key"},
		{"a lapsed certificate", func(e *endorsement) { e.chain = certificate(t, "x", key.Public(), at-9, at-1) }, corim.Options{}, "certificate 0 of x5chain"},
		{"a lapsed certificate above it", func(e *endorsement) { e.chain = []any{leaf, certificate(t, "x", other.Public(), at-9, at-1)} }, corim.Options{}, "certificate 1 of x5chain"},
		{"no certificate", func(e *endorsement) { e.chain = []byte{1} }, corim.Options{}, "not one that can be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := good()
			if c.change != nil {
				c.change(&e)
			}
			o := c.o
			if o.At == 0 {
				o.At = at
				if o.Key == nil {
					o.Key = key.Public()
				}
			}
			_, err := corim.OpenOwnership(e.sign(t, key), o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := corim.OpenOwnership(unsigned(t, m{0: "x"}), corim.Options{Key: key.Public(), At: at}); err == nil || !strings.Contains(err.Error(), "is signed") {
		t.Error(err)
	}
}

// FuzzOpenOwnership holds that no bytes make more work than they are worth, and that a fault has a place.
func FuzzOpenOwnership(f *testing.F) {
	key, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	f.Add(unsigned(f, m{0: "x"}))
	f.Add(encode(f, tagged(18, []any{encode(f, m{1: -35}), m{33: []byte{1}}, []byte{1}, make([]byte, 96)})))
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			_, err := corim.OpenOwnership(data, corim.Options{At: at, Key: key.Public()})
			var fault *corim.Error
			if !errors.As(err, &fault) || fault.Offset < 0 || fault.Offset > len(data) {
				t.Fatalf("fault without a place: %v", err)
			}
		})
	})
}
