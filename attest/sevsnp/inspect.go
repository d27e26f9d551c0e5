package sevsnp

import "encoding/hex"

// Field is one field of a report for people to read.
type Field struct {
	Name   string `json:"name"`   // as the ABI specification spells it
	Offset int    `json:"offset"` // byte of the report
	Size   int    `json:"size"`   // bytes
	Hex    string `json:"hex"`    // as received, little-endian where it is a number
}

// Fields lists every field of a report with its place. The bytes are what was received; nothing is verified.
func Fields(raw []byte) ([]Field, error) {
	u, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	version := u.Peek().Version
	var fields []Field
	for _, f := range layout {
		name := f.name
		if f.since > version {
			name = "reserved"
		}
		fields = append(fields, Field{name, f.offset, f.size, hex.EncodeToString(raw[f.offset : f.offset+f.size])})
	}
	return fields, nil
}
