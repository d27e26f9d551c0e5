package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// KeyHistory is the keysets of a chain of logs, from the first to one of them, and so every key that these logs have had.
// Most chains are of one log; where one was closed, the next one's first keyset continues it, see [Keyset]. Each is signed by a log key of the one before it, which alone names successors: a stolen result or promise key cannot. Each
// names the digest of the one before it, so that who believes one of them believes those before it as well; and those
// after it, as long as the log keys were kept.
//
// The zero KeyHistory is empty. Only Add changes one.
type KeyHistory struct {
	keysets []Keyset
	sealed  []Envelope // of the keysets
	digests []canon.Digest
	keys    []Key          // each once, in the order of their coming, with the end that the newest keyset gave it
	at      map[string]int // place in keys by SPKI
}

// ReadKeys reads the envelopes of all keysets of a chain, the first one first.
func ReadKeys(envelopes []Envelope) (KeyHistory, error) {
	var h KeyHistory
	if len(envelopes) == 0 {
		return h, errors.New("keys: no keyset")
	}
	for i, e := range envelopes {
		if err := h.Add(e); err != nil {
			return KeyHistory{}, fmt.Errorf("keys: keyset %d: %w", i, err)
		}
	}
	return h, nil
}

// Add reads the keyset that follows. It checks that it continues the one before it, that a log key which stood when it
// was made signed it, that each key which it adds signed it too, so that nobody lists another's key as his, and that no
// key comes a second time. Another log it accepts only of a keyset that continues the present one. It cannot tell whether
// the log has the keyset, nor whether the log before it ended with the tree that is named; and in the first one nobody
// vouches for the keys but they themselves.
func (h *KeyHistory) Add(e Envelope) error {
	if e.PayloadType != KeysetType {
		return fmt.Errorf("keyset: payload type %.80q is not known to this build, want %q", e.PayloadType, KeysetType)
	}
	next, err := ParseKeyset(e.Payload)
	if err != nil {
		return err
	}
	if len(h.keysets) == MaxKeysets {
		return fmt.Errorf("keyset: one more than the %d of a chain of logs", MaxKeysets)
	}
	var before Keyset
	if n := len(h.keysets); n > 0 {
		before = h.keysets[n-1]
		if next.Origin != before.Origin && slices.Contains(h.Origins(), next.Origin) {
			return fmt.Errorf("keyset: of the log %q, which was closed before", next.Origin)
		}
		if err := follows(before, h.digests[n-1], next); err != nil {
			return err
		}
	} else if !next.Previous.IsZero() {
		return fmt.Errorf("keyset: follows %s, which is not here", next.Previous.Short())
	}
	var added []Key
	for _, key := range next.Keys {
		if slices.ContainsFunc(before.Keys, same(key)) {
			continue
		}
		if _, ok := h.at[string(key.SPKI)]; ok {
			return fmt.Errorf("keyset: %s key %s had its time before: a key never comes back, nor with another use", key.Use, key.ID().Short())
		}
		if len(h.keysets) > 0 && key.From < next.Made {
			return fmt.Errorf("keyset: new %s key %s begins %s, before the keyset was made %s", key.Use, key.ID().Short(), key.From, next.Made)
		}
		added = append(added, key)
	}
	if err := signedFor(e, before, next.Made, added); err != nil {
		return err
	}
	h.keysets = append(slices.Clip(h.keysets), next)
	h.sealed = append(slices.Clip(h.sealed), e)
	h.digests = append(slices.Clip(h.digests), canon.Sum(e.Payload))
	h.keys, h.at = slices.Clone(h.keys), maps.Clone(h.at)
	if h.at == nil {
		h.at = map[string]int{}
	}
	for _, key := range next.Keys {
		if i, ok := h.at[string(key.SPKI)]; ok {
			h.keys[i] = key
			continue
		}
		h.at[string(key.SPKI)] = len(h.keys)
		h.keys = append(h.keys, key)
	}
	return nil
}

func same(key Key) func(Key) bool {
	return func(o Key) bool { return string(o.SPKI) == string(key.SPKI) }
}

// follows checks that a keyset keeps what the one before it said.
func follows(before Keyset, digest canon.Digest, next Keyset) error {
	switch {
	case next.Continues == Final{} && next.Origin != before.Origin:
		return fmt.Errorf("keyset: of the log %.80q, the one before it of %q", next.Origin, before.Origin)
	case next.Continues != Final{} && next.Continues.Origin != before.Origin:
		return fmt.Errorf("keyset: continues the log %.80q, the one before it is of %q", next.Continues.Origin, before.Origin)
	case next.Previous != digest:
		return fmt.Errorf("keyset: follows %s, the one before it is %s", next.Previous.Short(), digest.Short())
	case next.Made < before.Made:
		return fmt.Errorf("keyset: made %s, the one before it %s", next.Made, before.Made)
	}
	for _, was := range before.Keys {
		i := slices.IndexFunc(next.Keys, same(was))
		if was.Ended(next.Made) {
			if i >= 0 {
				return fmt.Errorf("keyset: lists the %s key %s, which ended %s", was.Use, was.ID().Short(), was.Until)
			}
			continue
		}
		if i < 0 {
			return fmt.Errorf("keyset: lacks the %s key %s, which has not ended: say when it does", was.Use, was.ID().Short())
		}
		is := next.Keys[i]
		switch {
		case is.Use != was.Use || is.From != was.From:
			return fmt.Errorf("keyset: gives the %s key %s another use or start", was.Use, was.ID().Short())
		case is.Until == was.Until:
		case is.Until < next.Made, was.Until != 0 && is.Until > was.Until:
			return fmt.Errorf("keyset: moves the end of the %s key %s to before now, or puts it off", was.Use, was.ID().Short())
		}
	}
	return nil
}

// signedFor checks who signed a keyset: a log key of the one before it that stood, every added key, and nobody else.
func signedFor(e Envelope, before Keyset, made canon.Time, added []Key) error {
	valid, vouched := 0, len(before.Keys) == 0
	for _, key := range before.Standing(UseLog, made) {
		if signedBy(e, key) {
			valid, vouched = valid+1, true
		}
	}
	if !vouched {
		return errors.New("keyset: no log key of the keyset before it signed it")
	}
	for _, key := range added {
		if !signedBy(e, key) {
			return fmt.Errorf("keyset: the new %s key %s did not sign it", key.Use, key.ID().Short())
		}
		valid++
	}
	if valid != len(e.Signatures) {
		return fmt.Errorf("keyset: %d signatures, of which %d are asked for", len(e.Signatures), valid)
	}
	return nil
}

func signedBy(e Envelope, key Key) bool {
	pub, err := key.Public()
	return err == nil && e.SignedBy(pub)
}

// Current returns the newest keyset, the zero one where there is none.
func (h KeyHistory) Current() Keyset {
	if len(h.keysets) == 0 {
		return Keyset{}
	}
	return h.keysets[len(h.keysets)-1]
}

// Envelopes returns the envelopes of all keysets, the first one first.
func (h KeyHistory) Envelopes() []Envelope { return slices.Clone(h.sealed) }

// Origins returns the names of the logs, the first one first.
func (h KeyHistory) Origins() []string {
	var out []string
	for _, k := range h.keysets {
		if len(out) == 0 || out[len(out)-1] != k.Origin {
			out = append(out, k.Origin)
		}
	}
	return out
}

// Newest returns the newest keyset of one of the logs.
func (h KeyHistory) Newest(origin string) (Keyset, bool) {
	for _, k := range slices.Backward(h.keysets) {
		if k.Origin == origin {
			return k, true
		}
	}
	return Keyset{}, false
}

// In returns every key that one of the logs has had, in the order of their coming.
func (h KeyHistory) In(origin string) []Key {
	return slices.DeleteFunc(h.Keys(), func(key Key) bool {
		return !slices.ContainsFunc(h.keysets, func(k Keyset) bool { return k.Origin == origin && slices.ContainsFunc(k.Keys, same(key)) })
	})
}

// LogVKeys returns the verifier keys of all checkpoints that a log ever had.
func (h KeyHistory) LogVKeys(origin string) []string {
	return vkeys(origin, ofUse(h.In(origin), UseLog))
}

// After returns the keyset that opens the log after one of the logs, and its envelope. That it is there says that the log
// was closed, and with which tree.
func (h KeyHistory) After(origin string) (Keyset, Envelope, bool) {
	for i, k := range h.keysets {
		if k.Continues.Origin == origin && origin != "" {
			return k, h.sealed[i], true
		}
	}
	return Keyset{}, Envelope{}, false
}

// Keys returns every key that the log has had, in the order of their coming, each with its end as it was fixed last.
func (h KeyHistory) Keys() []Key { return slices.Clone(h.keys) }

// Of returns the keys of one use.
func (h KeyHistory) Of(use string) []Key { return ofUse(h.keys, use) }

// Has reports whether a keyset is one of the history.
func (h KeyHistory) Has(k Keyset) bool {
	d, err := k.Digest()
	return err == nil && h.HasDigest(d)
}

// HasDigest reports whether the keyset with a digest is one of the history.
func (h KeyHistory) HasDigest(d canon.Digest) bool { return slices.Contains(h.digests, d) }

// Find returns a key of the history by its SubjectPublicKeyInfo.
func (h KeyHistory) Find(spki []byte) (Key, bool) {
	i, ok := h.at[string(spki)]
	if !ok {
		return Key{}, false
	}
	return h.keys[i], true
}

// CheckKey checks that a key is one of the log's for that use, and stood at a time.
func (h KeyHistory) CheckKey(spki []byte, use string, at canon.Time) error {
	key, ok := h.Find(spki)
	if !ok {
		return notOurs(use, spki)
	}
	return key.check(use, at)
}

// SignerOf returns the key of one use that signed an envelope, alone and at a time at which it stood. A signature by none of
// the log's keys is [ErrUnknownKey].
func (h KeyHistory) SignerOf(e Envelope, use string, at canon.Time) (Key, error) {
	return signerOf(h.Of(use), e, use, at)
}
