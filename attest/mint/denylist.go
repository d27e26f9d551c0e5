package mint

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// DenyList makes a deny list: the envelope's canonical bytes, signed by the key of [DenyListKey].
func DenyList(number int64, this, next canon.Time, entries ...attest.Denied) []byte {
	payload, err := canon.Marshal(attest.DenyList{Type: attest.DenyListType, Number: number, ThisUpdate: this, NextUpdate: next, Entries: entries})
	must(err)
	e, err := ledger.Seal(attest.DenyListType, payload, denyListKey())
	must(err)
	b, err := canon.Marshal(e)
	must(err)
	return b
}

// DenyListKey returns the SubjectPublicKeyInfo of the test key that signs deny lists, for [attest.Expect].
func DenyListKey() []byte { return spki(denyListKey().Public()) }

type edKey struct{ ed25519.PrivateKey }

func denyListKey() edKey {
	seed := sha256.Sum256([]byte("assay/mint/deny list key/v1"))
	return edKey{ed25519.NewKeyFromSeed(seed[:])}
}

// Sign signs the message itself, as Ed25519 does.
func (k edKey) Sign(message []byte) ([]byte, error) {
	return k.PrivateKey.Sign(nil, message, crypto.Hash(0))
}
