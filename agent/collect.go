package agent

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Device takes the evidence that seals a bundle.
type Device interface {
	// Seal returns the component whose evidence covers the given data. The label of the component is the device's.
	Seal(reportData [attest.ReportDataSize]byte) (attest.Component, error)
}

// LabelStatement is the label of the statement's component.
const LabelStatement = "agent"

// Collect makes the bundle that answers a challenge N under the given keys: the agent's statement first, the seal last,
// since it covers all before it.
func Collect(d Device, keys attest.Keys, challenge canon.Digest, statement attest.Statement) (attest.Bundle, error) {
	said, err := canon.Marshal(statement)
	if err != nil {
		return attest.Bundle{}, err
	}
	b := attest.Bundle{Type: attest.BundleType, Keys: keys, Challenge: challenge, Components: []attest.Component{{
		Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: LabelStatement,
		Parts: []attest.Part{{Name: attest.PartStatement, Data: said}},
	}}}
	seal, err := d.Seal(attest.ReportData(challenge, keys.Digest(), b.Covered()))
	if err != nil {
		return attest.Bundle{}, err
	}
	b.Seal = seal.Label
	b.Components = append(b.Components, seal)
	return b, nil
}
