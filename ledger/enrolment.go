package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	BasisInventory  = "inventory"  // the operator said so: a host is to come, and nobody proved anything
	BasisRetired    = "retired"    // the operator took the host out of the inventory, for good: its name is not given again, its devices may be
	BasisShown      = "shown"      // the node's evidence, fresh and bound, showed other devices than before, whatever the verdict: it holds none by that
)

var bases = []string{BasisToken, BasisEvidence, BasisActivation, BasisRevoked, BasisInventory, BasisRetired, BasisShown}

// Enrolment records what a verifier believes of a node, and on what ground. The log that goes on after one that was closed
// has those that stand again, see [Carried].
type Enrolment struct {
	Type     string       `json:"type"`
	Node     string       `json:"node,omitzero"` // absent of an inventory; of what was retired it is optional: the node that it was
	Basis    string       `json:"basis"`
	EK       canon.Digest `json:"ek,omitzero"`       // of an activation: SHA-256 of the endorsement key's SubjectPublicKeyInfo (DER)
	AK       canon.Hex    `json:"ak,omitzero"`       // of an activation: name of the attestation key
	Devices  []Device     `json:"devices,omitzero"`  // of evidence, and of what was shown
	Evidence canon.Digest `json:"evidence,omitzero"` // of what was shown: body of the evidence
	Site     string       `json:"site,omitzero"`     // of a token that was one rack's: where that is
	Rack     string       `json:"rack,omitzero"`
	Host     *Host        `json:"host,omitzero"`   // of an inventory, and of what was retired: as it stood
	By       string       `json:"by,omitzero"`     // of what was retired: the principal who did it
	Reason   string       `json:"reason,omitzero"` // of what was retired, optional
	Tenant   string       `json:"tenant,omitzero"` // of a token: whose node it is, a provider's; absent: the verifier's own
	Verifier string       `json:"verifier"`        // who vouches
}

// CheckTenant says what is wrong with the name of a tenant, which is that of a provider or of a renter's firm.
func CheckTenant(name string) error {
	good := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	ends := name != "" && good(rune(name[0])) && good(rune(name[len(name)-1]))
	if !ends || len(name) > MaxTenant || strings.ContainsFunc(name, func(r rune) bool { return !good(r) && r != '-' && r != '.' }) {
		return fmt.Errorf("tenant %.80q: want at most %d of a-z, 0-9, '-' and '.', a letter or digit first and last", name, MaxTenant)
	}
	return nil
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
	Alias canon.Hex `json:"alias,omitzero"` // of what was shown: another name that the evidence bore, which the device may change
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
	case !slices.Contains(bases, e.Basis):
		return Enrolment{}, fmt.Errorf("enrolment: basis %.80q is not known to this build", e.Basis)
	case e.Node == "" && e.Basis != BasisInventory && e.Basis != BasisRetired || e.Verifier == "":
		return Enrolment{}, errors.New("enrolment: node and verifier are needed")
	case e.EK.IsZero() == (e.Basis == BasisActivation) || (len(e.AK) == 0) == (e.Basis == BasisActivation):
		return Enrolment{}, errors.New("enrolment: an activation has ek and ak, and nothing else has")
	case (len(e.Devices) == 0) == (e.Basis == BasisEvidence || e.Basis == BasisShown):
		return Enrolment{}, errors.New("enrolment: one by evidence, and what was shown, has devices, and no other has")
	case len(e.Devices) > MaxDevices:
		return Enrolment{}, fmt.Errorf("enrolment: %d devices, at most %d", len(e.Devices), MaxDevices)
	}
	if e.Tenant != "" {
		if e.Basis != BasisToken {
			return Enrolment{}, errors.New("enrolment: one by a token has a tenant, and no other has")
		}
		if err := CheckTenant(e.Tenant); err != nil {
			return Enrolment{}, fmt.Errorf("enrolment: %w", err)
		}
	}
	if err := e.checkPlaces(); err != nil {
		return Enrolment{}, err
	}
	for i, d := range e.Devices {
		if d.Kind == "" || len(d.Value) == 0 {
			return Enrolment{}, fmt.Errorf("enrolment: device %d: kind and value are needed", i)
		}
	}
	return e, nil
}
