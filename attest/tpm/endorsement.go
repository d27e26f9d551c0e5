package tpm

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Endorsed names an endorsement key, before a verifier sends it a secret. The certificates (DER, the key's first, then
// issuers) must be for this very key (TPMT_PUBLIC) and lead to a root of the case at its time; collateral may fill in
// issuers. It does not consult deny lists, which speak when evidence is judged, and does not look at the attributes that
// the public area names: makers certify as endorsement keys only those that open nothing but credentials.
func Endorsed(certificates, public []byte, c *attest.Case) (canon.Digest, error) {
	certs, err := splitCertificates(certificates)
	if err != nil {
		return canon.Digest{}, fmt.Errorf("endorsement certificate: %w", err)
	}
	if len(certs) == 0 {
		return canon.Digest{}, errors.New("no endorsement certificate")
	}
	key, err := publicArea(PartEK, public)
	if err != nil {
		return canon.Digest{}, err
	}
	ch := prove(certs, ekLeaf, c)
	if why, _ := ch.reason(ekLeaf.word, c.At); why != "" {
		return canon.Digest{}, errors.New(string(why))
	}
	if ch.leaf.digest != key.digest() {
		return canon.Digest{}, errors.New("the endorsement certificate is for another key")
	}
	return ch.leaf.digest, nil
}

// KeyName returns the name of an attestation key (TPMT_PUBLIC) of a kind that this build verifies with.
func KeyName(public []byte) ([]byte, error) {
	key, err := publicArea(PartAK, public)
	return key.name, err
}

// publicArea reads a key that must come with its public area.
func publicArea(part string, data []byte) (anyKey, error) {
	key, err := parseKey(part, data)
	if err == nil && key.public == nil {
		err = fmt.Errorf("part %q: want a TPMT_PUBLIC", part)
	}
	return key, err
}

// Clock returns what a quote says of the TPM's clock, unverified: see the claim tpm.clock. ok is false where the key is
// shown without its public area, which names it.
func Clock(comp attest.Component) (clock attest.TPMClock, ok bool) {
	raw, _ := comp.Part(PartQuote)
	public, _ := comp.Part(PartAK)
	q, err := ParseAttest(raw)
	if err != nil || q.Clock > canon.MaxInt {
		return clock, false
	}
	name, err := KeyName(public)
	return attest.TPMClock{AK: name, ResetCount: int64(q.ResetCount), RestartCount: int64(q.RestartCount), Clock: int64(q.Clock)}, err == nil
}

// EndorsementKey names the key that an endorsement certificate (DER, PEM, or several of either, the key's first) is for, as
// activations do. It reads the certificate as an inventory has it and verifies nothing: neither its signature nor its dates.
// A certificate that is sloppy DER, as some makers', names its key as well.
func EndorsementKey(certificate []byte) (canon.Digest, error) {
	certs, err := splitCertificates(fromPEM(certificate))
	if err != nil {
		return canon.Digest{}, fmt.Errorf("endorsement certificate: %w", err)
	}
	if len(certs) == 0 {
		return canon.Digest{}, errors.New("no endorsement certificate")
	}
	c, err := parseCertificate(certs[0])
	if err != nil {
		return canon.Digest{}, fmt.Errorf("endorsement certificate: %w", err)
	}
	if err := checkEK(c); err != nil {
		return canon.Digest{}, fmt.Errorf("endorsement certificate: %w", err)
	}
	return c.digest, nil
}
