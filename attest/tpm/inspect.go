package tpm

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/assay-network/assay/attest"
)

// Field is one field of a quote for people to read.
type Field struct {
	Name  string `json:"name"` // as the specification spells it
	Value string `json:"value"`
}

// Fields lists what a component's quote says. Nothing is verified.
func Fields(comp attest.Component) ([]Field, error) {
	var a appraisal
	if err := a.read(comp); err != nil {
		return nil, err
	}
	q := a.quote
	fields := []Field{
		{"magic", fmt.Sprintf("0x%08x", q.Magic)}, {"type", fmt.Sprintf("0x%04x", q.Type)},
		{"qualifiedSigner", hex.EncodeToString(q.QualifiedSigner)}, {"extraData", hex.EncodeToString(q.ExtraData)},
		{"clock", strconv.FormatUint(q.Clock, 10)}, {"resetCount", strconv.FormatUint(uint64(q.ResetCount), 10)},
		{"restartCount", strconv.FormatUint(uint64(q.RestartCount), 10)}, {"safe", strconv.FormatBool(q.Safe)},
		{"firmwareVersion", fmt.Sprintf("%016x", q.FirmwareVersion)}, {"pcrDigest", hex.EncodeToString(q.PCRDigest)},
		{"AK", kindOf(a.ak.key)}, {"AK name", hex.EncodeToString(a.ak.name)}, {"AK SPKI digest", a.ak.digest().String()},
	}
	for _, p := range a.pcrs {
		fields = append(fields, Field{p.word(), hex.EncodeToString(p.Value)})
	}
	return fields, nil
}
