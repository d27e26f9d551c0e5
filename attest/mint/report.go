package mint

import (
	"crypto"
	"crypto/sha512"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/sevsnp"
)

// GUIDs of the certificate table (GHCB specification 56421, table "Certificate GUIDs").
const (
	GUIDVCEK = "63da758d-e664-4564-adc5-f4b93be8accd"
	GUIDVLEK = "a8074bc2-a25a-483e-aae6-39c045a0b8a1"
	GUIDASK  = "4ab7b379-bbac-4fe4-a02f-05aef327c782"
	GUIDARK  = "c0b406a4-a803-4952-9743-3fb6014cd0ae"
)

// Where the signature of a report stands (AMD 56860, tables 23 and 139).
const (
	signedSize = 0x2a0 // bytes that it covers
	scalarSize = 72    // bytes of R and of S, little-endian
)

// Fields returns the fields of a sound report of a chip at a TCB: version 3, a production guest at VMPL 0 on up-to-date
// firmware. The caller changes what it wants and fills in MEASUREMENT and REPORT_DATA.
func (a *AMD) Fields(chip ChipID, tcb sevsnp.TCB) sevsnp.Report {
	v := tcb.Encode(a.Line)
	r := sevsnp.Report{
		Version:       3,
		Policy:        sevsnp.PolicyReservedOne | sevsnp.PolicySMT,
		SignatureAlgo: 1,
		CurrentTCB:    v, ReportedTCB: v, CommittedTCB: v, LaunchTCB: v,
		PlatformInfo: sevsnp.PlatformSMT | sevsnp.PlatformECC | sevsnp.PlatformAliasCheck,
		ChipID:       chip,
		Current:      sevsnp.FirmwareVersion{Major: 1, Minor: 55, Build: 39},
		Committed:    sevsnp.FirmwareVersion{Major: 1, Minor: 55, Build: 39},
	}
	switch a.Line {
	case sevsnp.Milan:
		r.Family, r.Model, r.Stepping = 0x19, 0x01, 1
	case sevsnp.Genoa:
		r.Family, r.Model, r.Stepping = 0x19, 0x11, 1
	case sevsnp.Turin:
		r.Family, r.Model, r.Stepping = 0x1a, 0x02, 1
	}
	for i := range r.ReportIDMA {
		r.ReportIDMA[i] = 0xff // no migration agent
	}
	return r
}

// Report encodes and signs a report with the key of a VCEK or VLEK. SIGNING_KEY is a field like any other: it says what
// r says, whoever signs.
func Report(r sevsnp.Report, signer Certificate) []byte { return SignReport(r.Encode(), signer) }

// SignReport signs the bytes of a report, over whatever stands in them, and returns them with their signature.
func SignReport(raw []byte, signer Certificate) []byte {
	if len(raw) != sevsnp.ReportSize {
		panic(fmt.Sprintf("mint: internal error: report of %d bytes", len(raw)))
	}
	raw = slices.Clone(raw)
	digest := sha512.Sum384(raw[:signedSize])
	sig, err := signer.key.Sign(nil, digest[:], crypto.SHA384) // no randomness: the nonce of RFC 6979
	must(err)
	var v struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(sig, &v)
	must(err)
	for i, n := range []*big.Int{v.R, v.S} {
		at := raw[signedSize+i*scalarSize:][:scalarSize]
		n.FillBytes(at)
		slices.Reverse(at)
	}
	return raw
}

// TableEntry is one certificate of a host's certificate table.
type TableEntry struct {
	GUID string
	DER  []byte
}

// CertTable returns the table that a host hands out with an extended report: entries of GUID, offset and length, an entry
// of zeros, then the certificates in the same order.
func CertTable(entries ...TableEntry) []byte {
	const entrySize = 24
	var certs [][]byte
	for _, e := range entries {
		certs = append(certs, e.DER)
	}
	table := sevsnp.EncodeTable(certs)
	for i, e := range entries {
		copy(table[i*entrySize:], guid(e.GUID))
	}
	return table
}

// VCEKTable returns the table of a host that was given its VCEK: VCEK, ASK, ARK.
func (a *AMD) VCEKTable(vcek Certificate) []byte {
	return CertTable(TableEntry{GUIDVCEK, vcek.DER}, TableEntry{GUIDASK, a.ASK.DER}, TableEntry{GUIDARK, a.ARK.DER})
}

// VLEKTable returns the table of a host in a cloud with a VLEK: that certificate alone, since no GUID names an ASVK.
func VLEKTable(vlek Certificate) []byte { return CertTable(TableEntry{GUIDVLEK, vlek.DER}) }

// guid returns the bytes of a GUID in the order of its text: hosts write this table so, and not as UEFI writes GUIDs.
func guid(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	must(err)
	return b
}
