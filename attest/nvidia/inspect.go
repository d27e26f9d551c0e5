package nvidia

import (
	"encoding/hex"
	"fmt"

	"github.com/assay-network/assay/attest"
)

// Fields lists the fields of a report with their places. Measurements are numbered as manifests do, from 0. Numbers
// are little-endian, the signature is not. Nothing is verified.
func Fields(raw []byte) ([]attest.Field, error) {
	u, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	r := u.Peek()
	var fields []attest.Field
	at := 0
	add := func(name string, n int) {
		if n > 0 {
			fields = append(fields, attest.Field{Name: name, Offset: at, Size: n, Hex: hex.EncodeToString(raw[at : at+n])})
		}
		at += n
	}
	add("REQUEST", 4)
	add("REQUESTER_NONCE", NonceSize)
	add("SLOT_ID", 1)
	add("RESPONSE", 4)
	add("NUMBER_OF_BLOCKS", 1)
	add("MEASUREMENT_RECORD_LENGTH", 3)
	for i := range r.Measurements {
		at += blockSize - MeasurementSize
		add(fmt.Sprintf("MEASUREMENT_%d", i), MeasurementSize)
	}
	add("RESPONDER_NONCE", NonceSize)
	add("OPAQUE_LENGTH", 2)
	for _, f := range r.Opaque {
		at += 4
		name := fieldSpecs[f.ID].name
		if name == "" {
			name = fmt.Sprintf("OPAQUE_FIELD_%d", f.ID)
		}
		add(name, len(f.Value))
	}
	add("SIGNATURE", signatureSize)
	add("trailing", len(raw)-at)
	return fields, nil
}
