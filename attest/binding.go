package attest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// Keys are the session keys of an agent, made in its memory at start and never written down. Evidence covers them.
type Keys struct {
	Sign []byte `json:"sign"` // SubjectPublicKeyInfo (DER) of the Ed25519 key that signs bundles and receipts
	KEM  []byte `json:"kem"`  // X25519 public key, 32 bytes, for key release only
}

// Digest returns K, which evidence binds.
func (k Keys) Digest() canon.Digest { return canon.Hash("assay/keys/v1", k.Sign, k.KEM) }

// Verification returns the key that signs bundles.
func (k Keys) Verification() (crypto.PublicKey, error) {
	pub, err := x509.ParsePKIXPublicKey(k.Sign)
	if err != nil {
		return nil, fmt.Errorf("session sign key: %w", err)
	}
	return pub, nil
}

// Challenge is what a verifier asks of one subject, once. Evidence that covers its digest was made after the verifier
// drew its nonce and not before the checkpoint.
type Challenge struct {
	Type       string       `json:"type"`                // assay/challenge/v1
	Origin     string       `json:"origin"`              // of the verifier: https://host[:port]
	ResultKey  []byte       `json:"result_key"`          // SubjectPublicKeyInfo (DER) of the key that signs its results
	Checkpoint canon.Digest `json:"checkpoint,omitzero"` // SHA-256 of the checkpoint note with its cosignatures
	Node       string       `json:"node"`                // id of the subject
	Nonce      canon.Hex    `json:"nonce"`               // 32 random bytes of the verifier
	Renter     canon.Hex    `json:"renter,omitzero"`     // 32 random bytes of the renter, or absent
	Issued     canon.Time   `json:"issued"`
	Expires    canon.Time   `json:"expires"`
}

// ChallengeType is the type of the challenge document.
const ChallengeType = "assay/challenge/v1"

// Audience returns A: whom the evidence is for.
func Audience(origin string, resultKey []byte) canon.Digest {
	return canon.Hash("assay/audience/v1", []byte(origin), resultKey)
}

// Digest returns N, the challenge as evidence answers it.
func (c Challenge) Digest() canon.Digest {
	a := Audience(c.Origin, c.ResultKey)
	return canon.Hash("assay/challenge/v1", a[:], c.Checkpoint[:], []byte(c.Node), c.Nonce, c.Renter)
}

// DeviceNonce returns D, the nonce of every component that does not seal.
func DeviceNonce(challenge, keys canon.Digest) canon.Digest {
	return canon.Hash("assay/device/v1", challenge[:], keys[:])
}

// Digest returns P: the component as the seal covers it, over received bytes.
func (c Component) Digest() canon.Digest {
	xs := [][]byte{[]byte(c.MediaType), []byte(c.Class), []byte(c.Label)}
	for _, p := range c.Parts {
		sum := sha256.Sum256(p.Data)
		xs = append(xs, sum[:])
	}
	return canon.Hash("assay/component/v1", xs...)
}

// Covered returns E: all components but the seal, in bundle order.
func (b Bundle) Covered() canon.Digest {
	var xs [][]byte
	for _, c := range b.Components {
		if c.Label == b.Seal {
			continue
		}
		p := c.Digest()
		xs = append(xs, bytes.Clone(p[:]))
	}
	return canon.Hash("assay/components/v1", xs...)
}

// ReportData returns the REPORT_DATA of a sealing CPU TEE.
func ReportData(challenge, keys, covered canon.Digest) [ReportDataSize]byte {
	return canon.Hash64("assay/report-data/v1", challenge[:], keys[:], covered[:])
}

// QualifyingData returns the qualifying data of a sealing TPM, where there is no CPU TEE.
func QualifyingData(challenge, keys, covered canon.Digest) canon.Digest {
	return canon.Hash("assay/qualifying-data/v1", challenge[:], keys[:], covered[:])
}

// AzureUserData returns the user data of an Azure HCL report.
func AzureUserData(challenge, keys canon.Digest) [ReportDataSize]byte {
	return canon.Hash64("assay/azure-user-data/v1", challenge[:], keys[:])
}
