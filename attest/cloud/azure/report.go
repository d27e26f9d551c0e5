package azure

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// Kind is the kind of hardware that made the report inside an HCL report.
type Kind uint32

// Kinds of the format.
const (
	KindSNP Kind = 2
	KindTDX Kind = 4
)

// Format names the kind as evidence types and reference values do.
func (k Kind) Format() string {
	if k == KindTDX {
		return FormatTDX
	}
	return FormatSNP
}

// Report is an HCL report, taken apart.
type Report struct {
	Version  uint32 // of the header: 1 or 2
	Kind     Kind
	Hardware []byte // SEV-SNP report or TDREPORT
	Runtime  []byte // the runtime data, as received
	Padding  int    // zero bytes behind it
}

// Values of the header and of the request that every HCL report has.
const (
	magic          = "HCLA"
	requestType    = 2
	requestVersion = 1
	hashSHA256     = 1
)

// ParseReport reads an HCL report to its last byte. It verifies nothing.
func ParseReport(raw []byte) (Report, error) {
	fail := func(format string, args ...any) (Report, error) {
		return Report{}, fmt.Errorf("parse HCL report: "+format, args...)
	}
	if len(raw) < runtimeStart || len(raw) > maxReport {
		return fail("%d bytes, want %d to %d", len(raw), runtimeStart, maxReport)
	}
	header, hardware, request := raw[:headerSize], raw[headerSize:headerSize+hardwareSize], raw[headerSize+hardwareSize:runtimeStart]
	r := Report{Version: le.Uint32(header[4:]), Kind: Kind(le.Uint32(request[8:])), Hardware: hardware}
	size, runtime := uint64(le.Uint32(request)), uint64(le.Uint32(request[16:]))
	switch {
	case string(header[:4]) != magic:
		return fail("it begins with %x, want %q", header[:4], magic)
	case r.Version != 1 && r.Version != 2:
		return fail("version %d is not known to this build", r.Version)
	case le.Uint32(header[12:]) != requestType:
		return fail("request type %d, want %d", le.Uint32(header[12:]), requestType)
	case le.Uint32(header[16:]) != 0:
		return fail("status %d, want 0", le.Uint32(header[16:]))
	case !allZero(header[20:]):
		return fail("the header's reserved bytes are not zero")
	case le.Uint32(request[4:]) != requestVersion:
		return fail("request version %d is not known to this build", le.Uint32(request[4:]))
	case r.Kind != KindSNP && r.Kind != KindTDX:
		return fail("report type %d is not known to this build", uint32(r.Kind))
	case le.Uint32(request[12:]) != hashSHA256:
		return fail("hash type %d, want %d (SHA-256)", le.Uint32(request[12:]), hashSHA256)
	case runtime > uint64(len(raw)-runtimeStart):
		return fail("runtime data of %d bytes, and %d are there", runtime, len(raw)-runtimeStart)
	case size != requestSize+runtime:
		return fail("request and runtime data of %d bytes, want %d", size, requestSize+runtime)
	case uint64(le.Uint32(header[8:])) != runtimeStart+runtime:
		return fail("it says that it has %d bytes, want %d", le.Uint32(header[8:]), runtimeStart+runtime)
	}
	if r.Kind == KindTDX {
		if r.Hardware = hardware[:tdReportSize]; !allZero(hardware[tdReportSize:]) {
			return fail("the bytes behind the TDREPORT are not zero")
		}
	}
	padding := raw[runtimeStart+runtime:]
	if !allZero(padding) {
		return fail("the bytes behind the runtime data are not zero")
	}
	r.Runtime, r.Padding = raw[runtimeStart:runtimeStart+runtime], len(padding)
	return r, nil
}

// Encode writes the report as a paravisor does.
func (r Report) Encode() []byte {
	b := make([]byte, runtimeStart, runtimeStart+len(r.Runtime)+r.Padding)
	copy(b, magic)
	copy(b[headerSize:], r.Hardware)
	request := b[headerSize+hardwareSize:]
	for _, f := range []struct {
		at    []byte
		value uint32
	}{
		{b[4:], r.Version}, {b[8:], uint32(runtimeStart + len(r.Runtime))}, {b[12:], requestType},
		{request, uint32(requestSize + len(r.Runtime))}, {request[4:], requestVersion}, {request[8:], uint32(r.Kind)},
		{request[12:], hashSHA256}, {request[16:], uint32(len(r.Runtime))},
	} {
		le.PutUint32(f.at, f.value)
	}
	return append(append(b, r.Runtime...), make([]byte, r.Padding)...)
}

// reportData returns REPORT_DATA of the hardware's report, unverified.
func (r Report) reportData() []byte {
	at := reportData
	if r.Kind == KindTDX {
		at = tdReportData
	}
	return r.Hardware[at : at+userDataSize]
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
