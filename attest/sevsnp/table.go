package sevsnp

import (
	"bytes"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
)

// GUIDSize and entrySize are of the certificate table that a host hands out with an extended report (GHCB specification
// 56421, section 4.1.8.1: a GUID, an offset and a length, ended by an entry of zeros).
const (
	GUIDSize  = 16
	entrySize = GUIDSize + 8
)

// ParseTable reads a certificate table and returns the certificates (DER) in its order. GUIDs are not looked at: what a
// certificate is, it says itself. Offsets and lengths are the host's word and are bounded before use.
func ParseTable(table []byte) (certs [][]byte, err error) {
	if len(table) > attest.MaxCertTable {
		return nil, fmt.Errorf("certificate table: %d bytes, at most %d", len(table), attest.MaxCertTable)
	}
	for at := 0; ; at += entrySize {
		if at+entrySize > len(table) {
			return nil, fmt.Errorf("certificate table: offset 0x%x: no ending entry of zeros", at)
		}
		entry := table[at : at+entrySize]
		offset, length := uint64(le.Uint32(entry[GUIDSize:])), uint64(le.Uint32(entry[GUIDSize+4:]))
		if [entrySize]byte(entry) == [entrySize]byte{} {
			return certs, nil
		}
		switch {
		case len(certs) == attest.MaxCertificates:
			return nil, fmt.Errorf("certificate table: offset 0x%x: more than %d certificates", at, attest.MaxCertificates)
		case length == 0 || length > attest.MaxCertificate:
			return nil, fmt.Errorf("certificate table: offset 0x%x: certificate of %d bytes, want 1 to %d", at, length, attest.MaxCertificate)
		case offset < uint64(at+entrySize) || offset+length > uint64(len(table)):
			return nil, fmt.Errorf("certificate table: offset 0x%x: certificate at 0x%x to 0x%x lies outside the table's 0x%x bytes", at, offset, offset+length, len(table))
		}
		certs = append(certs, table[offset:offset+length])
	}
}

// EncodeTable writes a certificate table: the entries, an entry of zeros, the certificates in the same order. Its GUIDs
// are zero; this package looks at none.
func EncodeTable(certs [][]byte) []byte {
	at := entrySize * (len(certs) + 1)
	table := make([]byte, at)
	for i, c := range certs {
		entry := table[i*entrySize:]
		le.PutUint32(entry[GUIDSize:], uint32(at))
		le.PutUint32(entry[GUIDSize+4:], uint32(len(c)))
		table, at = append(table, c...), at+len(c)
	}
	return table
}

// ReadCertificates reads a file of certificates in any of the forms that hosts and AMD hand out: a certificate table,
// PEM, or one DER certificate.
func ReadCertificates(data []byte) ([][]byte, error) {
	if len(data) > attest.MaxCertTable {
		return nil, fmt.Errorf("certificates: %d bytes, at most %d", len(data), attest.MaxCertTable)
	}
	var der asn1.RawValue
	if rest, err := asn1.Unmarshal(data, &der); err == nil && len(rest) == 0 && der.Tag == asn1.TagSequence && der.Class == asn1.ClassUniversal {
		return [][]byte{data}, nil
	}
	var certs [][]byte
	rest := data
	if bytes.IndexByte(data, 0) >= 0 {
		rest = nil // no text: a table, or something that merely holds PEM, as a TDX quote does
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			certs = append(certs, block.Bytes)
		}
	}
	if certs != nil {
		return certs, nil
	}
	certs, err := ParseTable(data)
	if err == nil && len(certs) == 0 {
		err = errors.New("certificates: an empty table")
	}
	return certs, err
}
