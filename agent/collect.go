package agent

import (
	"errors"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Device takes the evidence of one device of this machine.
type Device interface {
	// Class is that of its component. One device of class cpu seals the bundle; without one, a device of class tpm does.
	Class() string
	// Take returns a component whose evidence covers the data: all that the seal covers, or the nonce of a device beside
	// it. The label of the component is the device's.
	Take(data []byte) (attest.Component, error)
}

// LabelStatement is the label of the statement's component.
const LabelStatement = "agent"

// Collect makes the bundle that answers a challenge N under the given keys: the agent's statement first, with what the driver
// says of its GPUs, then GPUs and switches, then the devices in their order, the seal last, since it covers all before it.
func Collect(devices []Device, keys attest.Keys, challenge canon.Digest, statement attest.Statement, gpus ...GPUs) (attest.Bundle, error) {
	seal := sealing(devices)
	if seal < 0 {
		return attest.Bundle{}, errors.New("no CPU TEE and no TPM: nothing can seal the evidence")
	}
	nonce := attest.DeviceNonce(challenge, keys.Digest())
	var beside []attest.Component
	for _, g := range gpus {
		e, err := g.Take(nonce)
		if err != nil {
			return attest.Bundle{}, err
		}
		if e.NVML != nil {
			statement.NVML = e.NVML
		}
		beside = append(beside, e.Components...)
	}
	said, err := canon.Marshal(statement)
	if err != nil {
		return attest.Bundle{}, err
	}
	b := attest.Bundle{Type: attest.BundleType, Keys: keys, Challenge: challenge, Components: []attest.Component{{
		Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: LabelStatement,
		Parts: []attest.Part{{Name: attest.PartStatement, Data: said}},
	}}}
	b.Components = append(b.Components, beside...)
	for i, d := range devices {
		if i == seal {
			continue
		}
		c, err := d.Take(nonce[:])
		if err != nil {
			return attest.Bundle{}, err
		}
		b.Components = append(b.Components, c)
	}
	sealed, err := devices[seal].Take(sealedData(devices[seal].Class(), challenge, keys.Digest(), b.Covered()))
	if err != nil {
		return attest.Bundle{}, err
	}
	b.Seal = sealed.Label
	b.Components = append(b.Components, sealed)
	return b, nil
}

// sealing returns the index of the device that seals, or -1.
func sealing(devices []Device) int {
	for _, class := range []string{attest.ClassCPU, attest.ClassTPM} {
		if i := slices.IndexFunc(devices, func(d Device) bool { return d.Class() == class }); i >= 0 {
			return i
		}
	}
	return -1
}

func sealedData(class string, challenge, keys, covered canon.Digest) []byte {
	if class == attest.ClassTPM {
		d := attest.QualifyingData(challenge, keys, covered)
		return d[:]
	}
	d := attest.ReportData(challenge, keys, covered)
	return d[:]
}
