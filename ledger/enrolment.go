package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// EnrolmentType is the type of the enrolment document.
const EnrolmentType = "assay/enrolment/v1"

// Bases of an enrolment, for each of which a verifier vouches.
const (
	BasisToken      = "token"      // a one-time token let the node in
	BasisEvidence   = "evidence"   // the node's first accepted evidence showed the devices: it is their holder
	BasisActivation = "activation" // a secret that only the TPM with the endorsement key could open, and only beside the attestation key, came back
	BasisRevoked    = "revoked"    // none is left: the node is out, and its devices are nobody's
)

// Enrolment records what a verifier believes of a node, and on what ground. The log that goes on after one that was closed
// has those that stand again, see [Carried].
type Enrolment struct {
	Type     string       `json:"type"`
	Node     string       `json:"node"`
	Basis    string       `json:"basis"`
	EK       canon.Digest `json:"ek,omitzero"`      // of an activation: SHA-256 of the endorsement key's SubjectPublicKeyInfo (DER)
	AK       canon.Hex    `json:"ak,omitzero"`      // of an activation: name of the attestation key
	Devices  []Device     `json:"devices,omitzero"` // of evidence
	Verifier string       `json:"verifier"`         // who vouches
}

// Carried reports whether the entry of an enrolment says that it was carried over from the log before, as the first entry
// of the log, of a keyset, lets it go on.
func Carried(e, first Entry) bool {
	return e.Kind == KindEnrolment && first.Kind == KindKeyset && len(e.Refs) == 1 && e.Refs[0] == first.Body
}

// Device is the identity of one device. This room does not know its kinds.
type Device struct {
	Kind  string    `json:"kind"`
	Value canon.Hex `json:"value"`
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
	case e.Basis != BasisToken && e.Basis != BasisEvidence && e.Basis != BasisActivation && e.Basis != BasisRevoked:
		return Enrolment{}, fmt.Errorf("enrolment: basis %.80q is not known to this build", e.Basis)
	case e.Node == "" || e.Verifier == "":
		return Enrolment{}, errors.New("enrolment: node and verifier are needed")
	case e.EK.IsZero() == (e.Basis == BasisActivation) || (len(e.AK) == 0) == (e.Basis == BasisActivation):
		return Enrolment{}, errors.New("enrolment: an activation has ek and ak, and nothing else has")
	case (len(e.Devices) == 0) == (e.Basis == BasisEvidence):
		return Enrolment{}, errors.New("enrolment: one by evidence has devices, and no other has")
	case len(e.Devices) > MaxDevices:
		return Enrolment{}, fmt.Errorf("enrolment: %d devices, at most %d", len(e.Devices), MaxDevices)
	}
	for i, d := range e.Devices {
		if d.Kind == "" || len(d.Value) == 0 {
			return Enrolment{}, fmt.Errorf("enrolment: device %d: kind and value are needed", i)
		}
	}
	return e, nil
}
