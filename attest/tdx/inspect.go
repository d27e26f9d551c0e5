package tdx

import (
	"encoding/hex"

	"github.com/assay-network/assay/attest"
)

// Fields lists the fields of header, TD report and signature data with their places, numbers in little-endian order, and
// what stands behind the quote. Nothing is verified.
func Fields(raw []byte) ([]attest.Field, error) {
	u, size, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	q := u.Peek()
	var fields []attest.Field
	add := func(name string, offset, n int) {
		fields = append(fields, attest.Field{Name: name, Offset: offset, Size: n, Hex: hex.EncodeToString(raw[offset : offset+n])})
	}
	table := func(layout []field, base, length int) {
		for _, f := range layout {
			if f.offset < length {
				add(f.name, base+f.offset, f.size)
			}
		}
	}
	table(headerLayout, 0, headerSize)
	body := headerSize
	if q.Version == 5 {
		add("BODY_TYPE", body, 2)
		add("BODY_SIZE", body+2, 4)
		body += descriptorSize
	}
	table(bodyLayout, body, q.BodyType.size())
	at := body + q.BodyType.size()
	for _, part := range []struct {
		name string
		size int
	}{
		{"SIGNATURE_DATA_SIZE", 4}, {"SIGNATURE", signatureSize}, {"ATTESTATION_KEY", keySize},
		{"CERTIFICATION_TYPE", 2}, {"CERTIFICATION_SIZE", 4}, {"QE_REPORT", reportSize}, {"QE_REPORT_SIGNATURE", signatureSize},
		{"QE_AUTH_SIZE", 2}, {"QE_AUTH", len(q.QEAuth)}, {"QE_CERTIFICATION_TYPE", 2}, {"QE_CERTIFICATION_SIZE", 4}, {"PCK_CHAIN", len(q.Chain)},
		{"trailing", len(raw) - size},
	} {
		if part.size > 0 {
			add(part.name, at, part.size)
		}
		at += part.size
	}
	return fields, nil
}
