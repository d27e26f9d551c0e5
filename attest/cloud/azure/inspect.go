package azure

import (
	"encoding/hex"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
)

// Fields lists the fields of an HCL report with their places, those of a SEV-SNP report in it by their own names. The
// bytes are what was received; nothing is verified.
func Fields(raw []byte) ([]attest.Field, error) {
	r, err := ParseReport(raw)
	if err != nil {
		return nil, err
	}
	if _, err := ParseRuntime(r.Runtime); err != nil {
		return nil, err
	}
	var fields []attest.Field
	at := 0
	add := func(name string, size int) {
		if size > 0 {
			fields = append(fields, attest.Field{Name: name, Offset: at, Size: size, Hex: hex.EncodeToString(raw[at : at+size])})
		}
		at += size
	}
	add("signature", 4)
	add("version", 4)
	add("report_size", 4)
	add("request_type", 4)
	add("status", 4)
	add("reserved", 12)
	if r.Kind == KindSNP {
		inner, err := sevsnp.Fields(r.Hardware)
		if err != nil {
			return nil, err
		}
		for _, f := range inner {
			f.Offset += at
			fields = append(fields, f)
		}
		at += hardwareSize
	} else {
		add("TDREPORT", tdReportSize)
		add("padding", hardwareSize-tdReportSize)
	}
	add("data_size", 4)
	add("data_version", 4)
	add("report_type", 4)
	add("hash_type", 4)
	add("variable_data_size", 4)
	add("variable_data", len(r.Runtime))
	add("trailing", r.Padding)
	return fields, nil
}
