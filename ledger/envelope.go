package ledger

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/assay-network/assay/internal/canon"
)

// Envelope is a DSSE envelope (Dead Simple Signing Envelope, protocol and JSON format v1.0.2): a payload, its type, and
// signatures over both. Its canonical JSON is the only form that is kept; its identity is the digest of [Envelope.PAE],
// which signatures do not change.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"` // ordered by key id
}

// Signature is one signature of an envelope.
type Signature struct {
	KeyID canon.Digest `json:"keyid"` // SHA-256 of the key's SubjectPublicKeyInfo
	Sig   []byte       `json:"sig"`
}

// Signer signs the bytes that it is given with one key.
type Signer interface {
	Public() crypto.PublicKey
	Sign(message []byte) ([]byte, error)
}

// KeyID returns the id of a public key: the SHA-256 digest of its SubjectPublicKeyInfo.
func KeyID(pub crypto.PublicKey) (canon.Digest, error) {
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return canon.Digest{}, fmt.Errorf("key id: %w", err)
	}
	return canon.Sum(spki), nil
}

// Seal returns the envelope of a payload, signed by each signer.
func Seal(payloadType string, payload []byte, signers ...Signer) (Envelope, error) {
	e := Envelope{PayloadType: payloadType, Payload: payload}
	pae := e.PAE()
	for _, s := range signers {
		id, err := KeyID(s.Public())
		if err != nil {
			return Envelope{}, err
		}
		sig, err := s.Sign(pae)
		if err != nil {
			return Envelope{}, fmt.Errorf("sign %s: %w", payloadType, err)
		}
		e.Signatures = append(e.Signatures, Signature{id, sig})
	}
	slices.SortFunc(e.Signatures, func(a, b Signature) int { return slices.Compare(a.KeyID[:], b.KeyID[:]) })
	return e, nil
}

// ParseEnvelope reads the canonical JSON of an envelope. It checks no signature.
func ParseEnvelope(data []byte) (Envelope, error) {
	var e Envelope
	if len(data) > MaxEnvelope {
		return e, fmt.Errorf("envelope: %d bytes, at most %d", len(data), MaxEnvelope)
	}
	if err := canon.Unmarshal(data, &e); err != nil {
		return Envelope{}, fmt.Errorf("envelope: %w", err)
	}
	if n := len(e.Signatures); n == 0 || n > MaxSignatures {
		return Envelope{}, fmt.Errorf("envelope: %d signatures, want 1 to %d", n, MaxSignatures)
	}
	for i := 1; i < len(e.Signatures); i++ {
		if slices.Compare(e.Signatures[i-1].KeyID[:], e.Signatures[i].KeyID[:]) >= 0 {
			return Envelope{}, errors.New("envelope: signatures are not ordered by key id, each key once")
		}
	}
	return e, nil
}

// PAE returns the pre-authentication encoding, the bytes that are signed (DSSE protocol, section "Signature Definition").
func (e Envelope) PAE() []byte {
	b := append([]byte("DSSEv1 "), strconv.Itoa(len(e.PayloadType))...)
	b = append(append(b, ' '), e.PayloadType...)
	b = append(append(b, ' '), strconv.Itoa(len(e.Payload))...)
	return append(append(b, ' '), e.Payload...)
}

// Identity returns the digest that names the envelope whatever its signatures.
func (e Envelope) Identity() canon.Digest { return canon.Sum(e.PAE()) }

// SignedBy reports whether the envelope carries a valid signature of pub. It says nothing of other signatures, of the
// payload's meaning, or of whether pub is to be trusted.
func (e Envelope) SignedBy(pub crypto.PublicKey) bool {
	id, err := KeyID(pub)
	if err != nil {
		return false
	}
	i := slices.IndexFunc(e.Signatures, func(s Signature) bool { return s.KeyID == id })
	return i >= 0 && verify(pub, e.PAE(), e.Signatures[i].Sig)
}

// verify checks one signature: Ed25519 over the message, ECDSA (ASN.1 form) over its SHA-256.
func verify(pub crypto.PublicKey, message, sig []byte) bool {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, sig)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(k, sum[:], sig)
	}
	return false
}

func isP256(pub crypto.PublicKey) bool {
	k, ok := pub.(*ecdsa.PublicKey)
	return ok && k.Curve == elliptic.P256()
}
