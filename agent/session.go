package agent

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"github.com/assay-network/assay/attest"
)

// Session is a pair of session keys: made in memory, never written down, bound by evidence. It is a ledger.Signer.
type Session struct {
	sign ed25519.PrivateKey
	kem  *ecdh.PrivateKey
	keys attest.Keys
	boot string    // boot id under which the keys were made
	born time.Time // they end MaxKeyLife later
}

// NewSession draws new keys.
func NewSession(random io.Reader, boot string, now time.Time) (*Session, error) {
	var seed [ed25519.SeedSize]byte
	var scalar [32]byte
	for _, b := range [][]byte{seed[:], scalar[:]} {
		if _, err := io.ReadFull(random, b); err != nil {
			return nil, fmt.Errorf("session keys: %w", err)
		}
	}
	s := &Session{sign: ed25519.NewKeyFromSeed(seed[:]), boot: boot, born: now}
	kem, err := ecdh.X25519().NewPrivateKey(scalar[:])
	if err != nil {
		return nil, fmt.Errorf("session keys: %w", err)
	}
	s.kem = kem
	spki, err := x509.MarshalPKIXPublicKey(s.sign.Public())
	if err != nil {
		return nil, fmt.Errorf("session keys: %w", err)
	}
	s.keys = attest.Keys{Sign: spki, KEM: kem.PublicKey().Bytes()}
	return s, nil
}

// Keys returns the public keys.
func (s *Session) Keys() attest.Keys { return s.keys }

// Public returns the key that signs bundles and receipts.
func (s *Session) Public() crypto.PublicKey { return s.sign.Public() }

// Sign signs a message with that key.
func (s *Session) Sign(message []byte) ([]byte, error) { return ed25519.Sign(s.sign, message), nil }
