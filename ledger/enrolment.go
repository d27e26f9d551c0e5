package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// EnrolmentType is the type of the enrolment document.
const EnrolmentType = "assay/enrolment/v1"

// BasisActivation is the basis of an enrolment that a verifier vouches for: it sent a secret that only the TPM with the
// endorsement key could open, and only beside the attestation key, and got it back.
const BasisActivation = "activation"

// Enrolment records that a key of a node's device is believed, and on what ground.
type Enrolment struct {
	Type     string       `json:"type"`
	Node     string       `json:"node"`
	Basis    string       `json:"basis"`
	EK       canon.Digest `json:"ek"`       // SHA-256 of the endorsement key's SubjectPublicKeyInfo (DER)
	AK       canon.Hex    `json:"ak"`       // name of the attestation key
	Verifier string       `json:"verifier"` // who vouches
}

// ParseEnrolment reads the canonical bytes of an enrolment.
func ParseEnrolment(data []byte) (Enrolment, error) {
	var e Enrolment
	if err := canon.Unmarshal(data, &e); err != nil {
		return Enrolment{}, fmt.Errorf("enrolment: %w", err)
	}
	switch {
	case e.Type != EnrolmentType:
		return Enrolment{}, fmt.Errorf("enrolment: type %.80q is not known to this build, want %q", e.Type, EnrolmentType)
	case e.Basis != BasisActivation:
		return Enrolment{}, fmt.Errorf("enrolment: basis %.80q is not known to this build, want %q", e.Basis, BasisActivation)
	case e.Node == "" || e.EK.IsZero() || len(e.AK) == 0 || e.Verifier == "":
		return Enrolment{}, errors.New("enrolment: node, ek, ak and verifier are all needed")
	}
	return e, nil
}
