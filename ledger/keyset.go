package ledger

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// KeysetType is the type of the keyset document, the body of the log's entry 0.
const KeysetType = "assay/keyset/v1"

// Key uses.
const (
	UseResult  = "result"  // signs verdicts
	UsePromise = "promise" // signs promises
)

// Keyset names the keys of one log and its verifier. A keyset found in a log is a hint: trust in it comes from outside.
type Keyset struct {
	Type string `json:"type"`
	Log  string `json:"log"`  // verifier key of the checkpoints: origin+hash+key
	Keys []Key  `json:"keys"` // at least one of each use
}

// Key is one public key and what it may sign.
type Key struct {
	Use  string `json:"use"`
	SPKI []byte `json:"spki"` // SubjectPublicKeyInfo (DER)
}

// ParseKeyset reads the canonical bytes of a keyset.
func ParseKeyset(data []byte) (Keyset, error) {
	var k Keyset
	if err := canon.Unmarshal(data, &k); err != nil {
		return Keyset{}, fmt.Errorf("keyset: %w", err)
	}
	return k, k.Validate()
}

// Validate checks the keys: they parse, each has one use, and none signs for two.
func (k Keyset) Validate() error {
	if k.Type != KeysetType {
		return fmt.Errorf("keyset: type %.80q is not known to this build, want %q", k.Type, KeysetType)
	}
	_, logKey, err := ParseLogVKey(k.Log)
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	if len(k.Keys) > MaxKeys {
		return fmt.Errorf("keyset: %d keys, at most %d", len(k.Keys), MaxKeys)
	}
	spki, err := x509.MarshalPKIXPublicKey(logKey)
	if err != nil {
		return fmt.Errorf("keyset: log key: %w", err)
	}
	seen, uses := map[string]bool{string(spki): true}, map[string]bool{}
	for i, key := range k.Keys {
		switch {
		case key.Use != UseResult && key.Use != UsePromise:
			return fmt.Errorf("keyset: key %d: use %.80q is not known to this build", i, key.Use)
		case len(key.SPKI) > MaxKey:
			return fmt.Errorf("keyset: key %d: %d bytes, at most %d", i, len(key.SPKI), MaxKey)
		case seen[string(key.SPKI)]:
			return fmt.Errorf("keyset: key %d is listed twice: log, result and promise keys are never shared", i)
		}
		if _, err := key.Public(); err != nil {
			return fmt.Errorf("keyset: key %d: %w", i, err)
		}
		seen[string(key.SPKI)], uses[key.Use] = true, true
	}
	if !uses[UseResult] || !uses[UsePromise] {
		return errors.New("keyset: want a result key and a promise key")
	}
	return nil
}

// Of returns the keys of one use.
func (k Keyset) Of(use string) []Key {
	var out []Key
	for _, key := range k.Keys {
		if key.Use == use {
			out = append(out, key)
		}
	}
	return out
}

// Public returns the key itself. Any spelling of it but the DER that [x509.MarshalPKIXPublicKey] writes is refused.
func (k Key) Public() (crypto.PublicKey, error) {
	pub, err := x509.ParsePKIXPublicKey(k.SPKI)
	if err != nil {
		return nil, fmt.Errorf("parse %s key: %w", k.Use, err)
	}
	if again, err := x509.MarshalPKIXPublicKey(pub); err != nil || !bytes.Equal(again, k.SPKI) {
		return nil, fmt.Errorf("parse %s key: not in canonical DER", k.Use)
	}
	return pub, nil
}
