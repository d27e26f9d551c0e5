// Package corim reads reference values out of Concise Reference Integrity Manifests (draft-ietf-rats-corim-10), in CBOR,
// signed or not, and makes lists of them as Assay's appraisals take.
//
// Only a part of the format is read: the reference triples of CoMID tags, and of these the digests that a claim compares.
// What else is there is refused where leaving it out would make a value count for more than its author meant, and named in
// [Manifest.Ignored] where not. Nothing is believed in silence. FORMAT.md says what is read of what.
//
// [OpenOwnership] reads another use of the format: who owns a platform.
//
// [Open] does not decide whose key may vouch for guests: its caller names the key. A manifest that is not signed is as
// good as where it came from.
package corim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Limits of a manifest.
const (
	MaxSize  = 1 << 20 // bytes
	MaxDepth = 16      // nested items
	MaxItems = 1 << 16 // of one array
	MaxKeys  = 64      // of one map
	MaxParts = 8       // that are looked at of an array of a fixed length
	MaxText  = 512     // bytes of one text
	MaxNotes = 256     // of what is not read that are kept
)

// Tags (draft-ietf-rats-corim-10, section 12.2).
const (
	tagSign1    = 18  // COSE_Sign1 (RFC 9052)
	tagOld      = 500 // around a manifest of an early draft
	tagUnsigned = 501
	tagOldSign  = 502
	tagCoSWID   = 505
	tagCoMID    = 506
	tagCoTL     = 508
	tagUUID     = 37
	tagOID      = 111
	tagBytes    = 560
	tagTime     = 1
	tagURI      = 32
)

// Options are what the caller of [Open] knows.
type Options struct {
	Key crypto.PublicKey // whose signature the manifest must bear; nil: it must bear none
	At  canon.Time       // that its times are compared with
	As  string           // format of environments that no profile names: tdx or tpm; empty: they are refused
}

// Manifest is what a manifest says of guests.
type Manifest struct {
	ID       string
	Entities []string // that it names as its makers, by their own word
	Values   []attest.Reference
	Ignored  []string // what it says beside that, and where
}

// Open reads a manifest, and verifies its signature over the received bytes before anything in it. A fault is an [*Error].
func Open(data []byte, o Options) (*Manifest, error) {
	if len(data) > MaxSize {
		return nil, item{at: MaxSize}.errorf("a manifest of %d bytes, at most %d", len(data), MaxSize)
	}
	if len(data) == 0 {
		return nil, item{}.errorf("empty")
	}
	root, err := parse(data, 0)
	if err != nil {
		return nil, err
	}
	tag, content, err := root.tag("a manifest")
	if err == nil && tag == tagOld {
		root = content
		tag, content, err = root.tag("a manifest")
	}
	if err != nil {
		return nil, err
	}
	r := &reader{o: o, m: &Manifest{Values: []attest.Reference{}, Ignored: []string{}}}
	switch {
	case tag == tagUnsigned && o.Key != nil:
		return nil, root.errorf("it is not signed, and a key was named")
	case tag == tagUnsigned:
	case tag == tagSign1 && o.Key == nil:
		return nil, root.fault(ErrNoKey, "it is signed, and no key was named that must have signed it")
	case tag == tagSign1:
		if content, err = r.signed(content); err != nil {
			return nil, err
		}
	case tag == tagOldSign:
		return nil, root.errorf("tag %d: a signed manifest of an early draft, which this build does not read", tag)
	default:
		return nil, root.errorf("tag %d: want %d (unsigned-corim-map) or %d (COSE_Sign1)", tag, tagUnsigned, tagSign1)
	}
	if err := r.manifest(content); err != nil {
		return nil, err
	}
	if len(r.m.Values) == 0 {
		return nil, content.errorf("no reference value in it that a claim reads%s", r.leftOut())
	}
	return r.m, nil
}

// reader reads one manifest.
type reader struct {
	o Options
	m *Manifest
}

func (r *reader) ignore(i item, format string, args ...any) {
	switch n := len(r.m.Ignored); {
	case n < MaxNotes:
		r.m.Ignored = append(r.m.Ignored, fmt.Sprintf("byte %d: ", i.at)+fmt.Sprintf(format, args...))
	case n == MaxNotes:
		r.m.Ignored = append(r.m.Ignored, fmt.Sprintf("byte %d: from here on more", i.at))
	}
}

func (r *reader) leftOut() string {
	if len(r.m.Ignored) == 0 {
		return ""
	}
	return ", only " + strings.Join(r.m.Ignored, "; ")
}

// rest names the keys of a map that were not read, but for those that say nothing about a guest.
func (r *reader) rest(f fields, what string, names map[int64]string, read ...int64) {
	for _, key := range f.order {
		if !slices.Contains(read, key) {
			name := names[key]
			if name == "" {
				name = "an extension"
			}
			r.ignore(f.known[key], "%s of %s (key %d)", name, what, key)
		}
	}
	for _, key := range f.others {
		r.ignore(key, "an extension of %s", what)
	}
}

// Header parameters and algorithms (RFC 9052 section 3.1, RFC 9053 section 2, RFC 9864; draft-ietf-rats-corim-10, section 4.2).
const (
	headerAlg, headerCrit, headerType, headerMeta, headerCWT = 1, 2, 3, 8, 15

	algES256, algESP256  = -7, -9
	algES384, algESP384  = -35, -51
	algEdDSA, algEd25519 = -8, -19
)

var contentTypes = []string{"application/rim+cbor", "application/corim-unsigned+cbor"} // the second in drafts before 08

// signed verifies a COSE_Sign1 (RFC 9052, section 4.2) and returns the manifest that it is over.
func (r *reader) signed(sign1 item) (item, error) {
	parts, err := sign1.parts("COSE_Sign1", 4)
	if err != nil {
		return item{}, err
	}
	protected, at, err := parts[0].bytes("the protected header")
	if err != nil {
		return item{}, err
	}
	if _, err := parts[1].fields("the unprotected header"); err != nil {
		return item{}, err
	}
	payload, payloadAt, err := parts[2].bytes("the payload")
	if err != nil {
		return item{}, err
	}
	signature, _, err := parts[3].bytes("the signature")
	if err != nil {
		return item{}, err
	}
	if len(protected) == 0 || len(payload) == 0 {
		return item{}, sign1.errorf("COSE_Sign1: no protected header, or no payload")
	}
	header, err := parse(protected, at)
	if err != nil {
		return item{}, err
	}
	h, err := header.fields("the protected header")
	if err != nil {
		return item{}, err
	}
	alg, err := h.get(headerAlg, "algorithm")
	if err != nil {
		return item{}, err
	}
	algorithm, err := alg.integer("the algorithm")
	if err != nil {
		return item{}, err
	}
	// The bytes received are signed, never an encoding of what was read (RFC 9052, section 4.4).
	message, err := cbor.Marshal([]any{"Signature1", protected, []byte{}, payload})
	if err != nil {
		return item{}, parts[2].errorf("%v", err)
	}
	if err := verify(r.o.Key, algorithm, message, signature); err != nil {
		return item{}, parts[3].errorf("%v", err)
	}
	if crit, ok := h.known[headerCrit]; ok {
		return item{}, crit.errorf("critical headers, none of which this build knows")
	}
	if typ, ok := h.known[headerType]; ok {
		name, err := typ.text("the content type")
		if err != nil {
			return item{}, err
		}
		if !slices.Contains(contentTypes, name) {
			return item{}, typ.errorf("content type %+.80q: want %q", name, contentTypes[0])
		}
	}
	if err := r.meta(h); err != nil {
		return item{}, err
	}
	inner, err := parse(payload, payloadAt)
	if err != nil {
		return item{}, err
	}
	tag, content, err := inner.tag("the payload")
	if err == nil && tag != tagUnsigned {
		err = inner.errorf("the payload: tag %d, want %d (unsigned-corim-map)", tag, tagUnsigned)
	}
	return content, err
}

// verify checks one signature of COSE.
func verify(key crypto.PublicKey, algorithm int64, message, signature []byte) error {
	switch k := key.(type) {
	case ed25519.PublicKey:
		if algorithm != algEdDSA && algorithm != algEd25519 {
			return fmt.Errorf("signed with algorithm %d, and the key is Ed25519", algorithm)
		}
		if ed25519.Verify(k, message, signature) {
			return nil
		}
	case *ecdsa.PublicKey:
		var digest []byte
		switch {
		case k.Curve == elliptic.P256() && (algorithm == algES256 || algorithm == algESP256):
			sum := sha256.Sum256(message)
			digest = sum[:]
		case k.Curve == elliptic.P384() && (algorithm == algES384 || algorithm == algESP384):
			sum := sha512.Sum384(message)
			digest = sum[:]
		default:
			return fmt.Errorf("signed with algorithm %d, which does not go with the key on %s", algorithm, k.Curve.Params().Name)
		}
		if n := k.Curve.Params().BitSize / 8; len(signature) == 2*n && ecdsa.Verify(k, digest, new(big.Int).SetBytes(signature[:n]), new(big.Int).SetBytes(signature[n:])) {
			return nil
		}
	default:
		return fmt.Errorf("a %T: want a key of Ed25519, P-256 or P-384", key)
	}
	return fmt.Errorf("the signature is not by that key over these bytes")
}

// meta reads corim-meta, or the claims in its place, for the time of the signature.
func (r *reader) meta(h fields) error {
	if raw, ok := h.known[headerMeta]; ok {
		text, at, err := raw.bytes("corim-meta")
		if err != nil {
			return err
		}
		if len(text) == 0 {
			return raw.errorf("corim-meta: empty")
		}
		inner, err := parse(text, at)
		if err != nil {
			return err
		}
		f, err := inner.fields("corim-meta")
		if err != nil {
			return err
		}
		if v, ok := f.known[1]; ok {
			if err := r.validity(v, "the signature"); err != nil {
				return err
			}
		}
	}
	if raw, ok := h.known[headerCWT]; ok { // RFC 9597: exp 4, nbf 5
		f, err := raw.fields("CWT claims")
		if err != nil {
			return err
		}
		return r.inside(f, 5, 4, "the signature", item.integer)
	}
	return nil
}

// validity compares a validity-map with the time.
func (r *reader) validity(i item, what string) error {
	f, err := i.fields("the validity of " + what)
	if err != nil {
		return err
	}
	if _, err := f.get(1, "not-after"); err != nil {
		return err
	}
	return r.inside(f, 0, 1, what, func(i item, what string) (int64, error) {
		tag, content, err := i.tag(what)
		if err != nil {
			return 0, err
		}
		if tag != tagTime {
			return 0, i.errorf("%s: tag %d, want %d (time)", what, tag, tagTime)
		}
		return content.integer(what)
	})
}

func (r *reader) inside(f fields, notBefore, notAfter int64, what string, read func(item, string) (int64, error)) error {
	for _, end := range []struct {
		key  int64
		word string
		out  func(t int64) bool
	}{{notBefore, "begins", func(t int64) bool { return int64(r.o.At) < t }}, {notAfter, "ended", func(t int64) bool { return int64(r.o.At) > t }}} {
		i, ok := f.known[end.key]
		if !ok {
			continue
		}
		t, err := read(i, "a time of "+what)
		if err != nil {
			return err
		}
		if end.out(t) {
			return i.errorf("the time of %s %s at %s; it is judged as of %s", what, end.word, canon.Time(t), r.o.At)
		}
	}
	return nil
}
