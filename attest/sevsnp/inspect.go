package sevsnp

import (
	"encoding/hex"

	"github.com/assay-network/assay/attest"
)

// Fields lists every field of a report with its place, numbers in little-endian order. Nothing is verified.
func Fields(raw []byte) ([]attest.Field, error) {
	u, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	version := u.Peek().Version
	var fields []attest.Field
	for _, f := range layout {
		name := f.name
		if f.since > version {
			name = "reserved"
		}
		fields = append(fields, attest.Field{Name: name, Offset: f.offset, Size: f.size, Hex: hex.EncodeToString(raw[f.offset : f.offset+f.size])})
	}
	return fields, nil
}
