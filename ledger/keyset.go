package ledger

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
)

// KeysetType is the type of the keyset document and the payload type of its envelope.
const KeysetType = "assay/keyset/v1"

// Key uses. No key has two.
const (
	UseLog     = "log"     // signs checkpoints, and the keyset that follows
	UseResult  = "result"  // signs verdicts
	UsePromise = "promise" // signs promises
)

// Keyset names the keys of one log and its verifier that have not ended when it is made. A keyset found in a log is a
// hint: trust in it comes from outside, and holds for all keysets before and after it, see [KeyHistory].
type Keyset struct {
	Type     string       `json:"type"`
	Origin   string       `json:"origin"`            // of the log, the name in its checkpoints
	Made     canon.Time   `json:"made"`              // time of the entry
	Previous canon.Digest `json:"previous,omitzero"` // digest of the keyset before it; absent in the first
	Keys     []Key        `json:"keys"`              // of each use at least one that stands and has no end

	// Continues is there in entry 0 of a log that goes on where another was closed, and only there.
	Continues Final `json:"continues,omitzero"`
}

// Final is the end of a log that was closed: its last tree, the closing entry included.
type Final struct {
	Origin string       `json:"origin"`
	Size   int64        `json:"size"`
	Root   canon.Digest `json:"root"`
}

// Tree returns the log's last tree.
func (f Final) Tree() Tree { return Tree{f.Size, f.Root} }

func (f Final) validate(next Keyset) error {
	switch {
	case f == Final{}:
		return nil
	case f.Origin == "" || len(f.Origin) > MaxOrigin || f.Size < 1 || f.Root.IsZero():
		return errors.New("keyset: continues: origin, size and root of a log are all needed")
	case f.Origin == next.Origin:
		return fmt.Errorf("keyset: continues the log %q under the same name", f.Origin)
	case next.Previous.IsZero():
		return fmt.Errorf("keyset: continues the log %q, but no keyset of it", f.Origin)
	}
	return nil
}

// Key is one public key, what it may sign, and when. What it signed in its time stays signed.
type Key struct {
	Use   string     `json:"use"`
	SPKI  []byte     `json:"spki"`           // SubjectPublicKeyInfo (DER)
	From  canon.Time `json:"from"`           // first instant
	Until canon.Time `json:"until,omitzero"` // last instant; absent: none is fixed
}

// Stands reports whether the key may sign at a time. Both ends belong to its time.
func (k Key) Stands(at canon.Time) bool { return k.From <= at && !k.Ended(at) }

// Ended reports whether the key's time is over.
func (k Key) Ended(at canon.Time) bool { return k.Until != 0 && k.Until < at }

// ID returns the digest of the key that names it in envelopes.
func (k Key) ID() canon.Digest { return canon.Sum(k.SPKI) }

// time says in words when the key stands.
func (k Key) span() string {
	if k.Until == 0 {
		return fmt.Sprintf("stands from %s", k.From)
	}
	return fmt.Sprintf("stands from %s to %s", k.From, k.Until)
}

// Public returns the key itself. Any spelling of it but the DER that [x509.MarshalPKIXPublicKey] writes is refused, and
// any kind that this build does not verify with.
func (k Key) Public() (crypto.PublicKey, error) {
	pub, err := x509.ParsePKIXPublicKey(k.SPKI)
	if err != nil {
		return nil, fmt.Errorf("parse %s key: %w", k.Use, err)
	}
	if again, err := x509.MarshalPKIXPublicKey(pub); err != nil || !bytes.Equal(again, k.SPKI) {
		return nil, fmt.Errorf("parse %s key: not in canonical DER", k.Use)
	}
	if _, ok := pub.(ed25519.PublicKey); !ok && (k.Use == UseLog || !isP256(pub)) {
		want := "Ed25519 or P-256"
		if k.Use == UseLog {
			want = "Ed25519, as signed notes have it"
		}
		return nil, fmt.Errorf("parse %s key: a key of the wrong kind, want %s", k.Use, want)
	}
	return pub, nil
}

// ParseKeyset reads the canonical bytes of a keyset.
func ParseKeyset(data []byte) (Keyset, error) {
	var k Keyset
	if err := canon.Unmarshal(data, &k); err != nil {
		return Keyset{}, fmt.Errorf("keyset: %w", err)
	}
	return k, k.Validate()
}

// Validate checks a keyset alone: its keys parse, each has one use and a start of validity, none signs for two, and of
// each use one stands and has no end. Whether it continues the keyset before it is [KeyHistory.Add]'s question.
func (k Keyset) Validate() error {
	switch {
	case k.Type != KeysetType:
		return fmt.Errorf("keyset: type %.80q is not known to this build, want %q", k.Type, KeysetType)
	case k.Made <= 0:
		return errors.New("keyset: no time at which it was made")
	case len(k.Keys) > MaxKeys:
		return fmt.Errorf("keyset: %d keys, at most %d", len(k.Keys), MaxKeys)
	}
	if err := k.Continues.validate(k); err != nil {
		return err
	}
	seen, open := map[string]bool{}, map[string]bool{}
	for i, key := range k.Keys {
		switch {
		case key.Use != UseLog && key.Use != UseResult && key.Use != UsePromise:
			return fmt.Errorf("keyset: key %d: use %.80q is not known to this build", i, key.Use)
		case len(key.SPKI) > MaxKey:
			return fmt.Errorf("keyset: key %d: %d bytes, at most %d", i, len(key.SPKI), MaxKey)
		case seen[string(key.SPKI)]:
			return fmt.Errorf("keyset: key %d is listed twice: log, result and promise keys are never shared", i)
		case key.From <= 0:
			return fmt.Errorf("keyset: key %d: no start of validity", i)
		case key.Until != 0 && key.Until < key.From:
			return fmt.Errorf("keyset: key %d: ends %s, before it begins %s", i, key.Until, key.From)
		}
		if _, err := key.Public(); err != nil {
			return fmt.Errorf("keyset: key %d: %w", i, err)
		}
		if key.Use == UseLog {
			if _, err := key.LogVKey(k.Origin); err != nil {
				return fmt.Errorf("keyset: key %d: %w", i, err)
			}
		}
		seen[string(key.SPKI)] = true
		open[key.Use] = open[key.Use] || key.Until == 0 && key.From <= k.Made
	}
	if !open[UseLog] || !open[UseResult] || !open[UsePromise] {
		return errors.New("keyset: want a log key, a result key and a promise key that stand and have no end")
	}
	return nil
}

// ErrUnknownKey means that something is signed by, or made for, none of the keys at hand: another's key, or one that is
// newer than what the reader knows of the log's keys.
var ErrUnknownKey = errors.New("no such key of this log")

func notOurs(use string, spki []byte) error {
	return fmt.Errorf("the %s key %s: %w", use, canon.Sum(spki).Short(), ErrUnknownKey)
}

// check refuses the key for a use that it has not, and for a time at which it does not stand.
func (k Key) check(use string, at canon.Time) error {
	switch {
	case k.Use != use:
		return notOurs(use, k.SPKI)
	case !k.Stands(at):
		return fmt.Errorf("the %s key %s %s, not at %s", use, k.ID().Short(), k.span(), at)
	}
	return nil
}

// CheckKey checks that a key is one of the keyset's for that use, and stands at a time. An unknown one is [ErrUnknownKey].
func (k Keyset) CheckKey(spki []byte, use string, at canon.Time) error {
	i := slices.IndexFunc(k.Keys, same(Key{SPKI: spki}))
	if i < 0 {
		return notOurs(use, spki)
	}
	return k.Keys[i].check(use, at)
}

// SignerOf returns the key of one use that signed an envelope, alone and at a time at which it stands. A signature by none
// of the keyset's keys is [ErrUnknownKey].
func (k Keyset) SignerOf(e Envelope, use string, at canon.Time) (Key, error) {
	return signerOf(k.Of(use), e, use, at)
}

func signerOf(keys []Key, e Envelope, use string, at canon.Time) (Key, error) {
	if n := len(e.Signatures); n != 1 {
		return Key{}, fmt.Errorf("%d signatures, want that of the %s key alone", n, use)
	}
	for _, key := range keys {
		if signedBy(e, key) {
			return key, key.check(use, at)
		}
	}
	return Key{}, fmt.Errorf("not signed by a %s key, but by %s: %w", use, e.Signatures[0].KeyID.Short(), ErrUnknownKey)
}

// Digest returns the digest of the canonical bytes, which names a keyset.
func (k Keyset) Digest() (canon.Digest, error) {
	data, err := canon.Marshal(k)
	return canon.Sum(data), err
}

// Of returns the keys of one use.
func (k Keyset) Of(use string) []Key { return ofUse(k.Keys, use) }

func ofUse(keys []Key, use string) []Key {
	var out []Key
	for _, key := range keys {
		if key.Use == use {
			out = append(out, key)
		}
	}
	return out
}

// Standing returns the keys of one use that may sign at a time, the newest first.
func (k Keyset) Standing(use string, at canon.Time) []Key {
	out := slices.DeleteFunc(k.Of(use), func(key Key) bool { return !key.Stands(at) })
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b Key) int { return cmp.Compare(b.From, a.From) })
	return out
}

// LogVKeys returns the verifier keys of the checkpoints that are signed at a time, the newest first.
func (k Keyset) LogVKeys(at canon.Time) []string { return vkeys(k.Origin, k.Standing(UseLog, at)) }

// LogVerifiers returns the verifiers of a log's checkpoints, of those log keys that it lists.
func (k Keyset) LogVerifiers() []note.Verifier {
	var out []note.Verifier
	for _, vkey := range vkeys(k.Origin, k.Of(UseLog)) {
		if v, err := note.NewVerifier(vkey); err == nil { // Validate refuses one that does not parse
			out = append(out, v)
		}
	}
	return out
}

func vkeys(origin string, keys []Key) []string {
	var out []string
	for _, key := range keys {
		if vkey, err := key.LogVKey(origin); err == nil { // Validate refuses one that has none
			out = append(out, vkey)
		}
	}
	return out
}

// LogVKey returns the verifier key of a log key, in the text form of signed notes.
func (k Key) LogVKey(origin string) (string, error) {
	pub, err := k.Public()
	if err != nil {
		return "", err
	}
	ed, ok := pub.(ed25519.PublicKey)
	if !ok {
		return "", fmt.Errorf("the %s key %s signs no checkpoints", k.Use, k.ID().Short())
	}
	return LogVKey(origin, ed)
}

// NextKeyset returns the keyset that follows k: it drops what has ended, begins the added keys at once, and lets those
// whose place they take end after the overlap in seconds; with no overlap they end in the second that it is made.
func (k Keyset) NextKeyset(made, overlap canon.Time, added ...Key) (Keyset, error) {
	previous, err := k.Digest()
	if err != nil {
		return Keyset{}, err
	}
	next := Keyset{Type: KeysetType, Origin: k.Origin, Made: made, Previous: previous}
	for _, key := range k.Keys {
		replaced := slices.ContainsFunc(added, func(a Key) bool { return a.Use == key.Use })
		switch {
		case key.Ended(made):
			continue
		case replaced && (key.Until == 0 || key.Until > made+overlap):
			key.Until = made + overlap
		}
		next.Keys = append(next.Keys, key)
	}
	for _, key := range added {
		key.From, key.Until = made, 0
		next.Keys = append(next.Keys, key)
	}
	return next, next.Validate()
}

// NextLog returns the keyset that opens the log after the one of k: of the keys that have not ended, each as it was.
func (k Keyset) NextLog(made canon.Time, origin string, final Tree) (Keyset, error) {
	next, err := k.NextKeyset(made, 0)
	if err != nil {
		return Keyset{}, err
	}
	next.Origin, next.Continues = origin, Final{k.Origin, final.Size, final.Root}
	return next, next.Validate()
}

// SealKeyset signs a keyset: by a log key of the keyset before it, and by every key that it adds.
func SealKeyset(k Keyset, signers ...Signer) (Envelope, error) {
	if err := k.Validate(); err != nil {
		return Envelope{}, err
	}
	payload, err := canon.Marshal(k)
	if err != nil {
		return Envelope{}, err
	}
	return Seal(KeysetType, payload, signers...)
}
