package nvidia

import (
	"bytes"
	"crypto/elliptic"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Kind of a device. The zero Kind is invalid.
type Kind uint8

const (
	GPU Kind = iota + 1
	Switch
)

var kindNames = canon.Names{GPU: "gpu", Switch: "switch"}

func (k Kind) String() string { return kindNames.String("Kind", uint8(k)) }

// blocks returns the number of measurements that a device of the kind reports.
func (k Kind) blocks() int {
	if k == Switch {
		return blocksSwitch
	}
	return blocksGPU
}

// Report is a decoded measurement report. [Report.Encode] gives the bytes that it was decoded from.
type Report struct {
	Kind           Kind
	Nonce          [NonceSize]byte         // the requester's
	Measurements   [][MeasurementSize]byte // by index of a manifest, which counts from 0; blocks count from 1
	ResponderNonce [NonceSize]byte         // the device's
	Opaque         []OpaqueField           // in the order received
	Signature      [signatureSize]byte     // R and S
}

// ErrSPDM12 is a report of SPDM 1.2, whose signature covers more than request and response.
var ErrSPDM12 = errors.New("SPDM 1.2 report, not supported: want SPDM 1.1")

// Parse decodes a report and its signature, which covers all bytes before it. One zero byte behind the signature is passed
// over: some collectors copy a terminator; nothing else may stand there.
func Parse(raw []byte) (attest.Unverified[Report], error) {
	var none attest.Unverified[Report]
	if len(raw) > MaxReport {
		return none, fmt.Errorf("parse NVIDIA report: %d bytes, at most %d", len(raw), MaxReport)
	}
	r, size, err := parse(raw)
	if err != nil {
		return none, fmt.Errorf("parse NVIDIA report: %w", err)
	}
	if tail := raw[size:]; len(tail) > 1 || len(tail) == 1 && tail[0] != 0 {
		return none, fmt.Errorf("parse NVIDIA report: %d bytes behind the signature, want none, or one zero", len(tail))
	}
	return attest.NewUnverified(r, raw[:size-signatureSize], raw[size-signatureSize:size]), nil
}

// parse decodes a report at the beginning of raw and returns its size.
func parse(raw []byte) (r Report, size int, err error) {
	if len(raw) > 0 && raw[0] == 0x12 || len(raw) > 1 && raw[0] == 0x10 && raw[1] == 0x84 { // with VCA in front: GET_VERSION
		return r, 0, ErrSPDM12
	}
	if len(raw) < blocksAt {
		return r, 0, fmt.Errorf("%d bytes, want at least %d", len(raw), blocksAt)
	}
	for _, f := range []struct {
		name string
		at   int
		want byte
	}{
		{"request version", 0, 0x11}, {"request code", 1, 0xe0}, {"request Param1", 2, 0x01}, {"request Param2", 3, 0xff}, {"slot", 36, 0x00},
		{"response version", 37, 0x11}, {"response code", 38, 0x60}, {"response Param1", 39, 0x00}, {"response Param2", 40, 0x00},
	} {
		if raw[f.at] != f.want {
			return r, 0, fmt.Errorf("%s is %02xh, want %02xh", f.name, raw[f.at], f.want)
		}
	}
	switch blocks := raw[41]; blocks {
	case blocksGPU:
		r.Kind = GPU
	case blocksSwitch:
		r.Kind = Switch
	default:
		return r, 0, fmt.Errorf("%d measurement blocks, want %d (GPU) or %d (switch)", blocks, blocksGPU, blocksSwitch)
	}
	record, want := int(raw[42])|int(raw[43])<<8|int(raw[44])<<16, r.Kind.blocks()*blockSize
	opaqueAt := blocksAt + want + NonceSize + 2
	switch {
	case record != want:
		return r, 0, fmt.Errorf("measurement record of %d bytes, want %d", record, want)
	case len(raw) < opaqueAt:
		return r, 0, fmt.Errorf("%d bytes end before the opaque data", len(raw))
	}
	copy(r.Nonce[:], raw[4:])
	r.Measurements = make([][MeasurementSize]byte, r.Kind.blocks())
	for i := range r.Measurements {
		b := raw[blocksAt+i*blockSize:]
		if head := [7]byte(b); head != blockHead(i) {
			return r, 0, fmt.Errorf("block %d begins with %x, want %x", i+1, head, blockHead(i))
		}
		copy(r.Measurements[i][:], b[7:])
	}
	copy(r.ResponderNonce[:], raw[blocksAt+want:])
	opaque := int(binary.LittleEndian.Uint16(raw[opaqueAt-2:]))
	size = opaqueAt + opaque + signatureSize
	if len(raw) < size {
		return r, 0, fmt.Errorf("%d bytes, want %d with %d of opaque data and the signature", len(raw), size, opaque)
	}
	if r.Opaque, err = parseOpaque(raw[opaqueAt:opaqueAt+opaque], r.Kind); err != nil {
		return r, 0, err
	}
	copy(r.Signature[:], raw[size-signatureSize:])
	for i, name := range []string{"R", "S"} {
		if n := new(big.Int).SetBytes(r.Signature[48*i : 48*i+48]); n.Sign() <= 0 || n.Cmp(p384Order) >= 0 {
			return r, 0, fmt.Errorf("%s of the signature is not in the range of P-384", name)
		}
	}
	return r, size, nil
}

// p384Order is the order n of the P-384 base point (SP 800-186, section 3.2.1.4).
var p384Order = elliptic.P384().Params().N

// blockHead is what stands before the value of measurement i: index from 1, DMTF measurement, sizes, digest of mutable
// firmware.
func blockHead(i int) [7]byte {
	return [7]byte{byte(i + 1), 1, 3 + MeasurementSize, 0, 1, MeasurementSize, 0}
}

// Encode writes the report as the device does.
func (r Report) Encode() []byte {
	var opaque []byte
	for _, f := range r.Opaque {
		opaque = binary.LittleEndian.AppendUint16(opaque, uint16(f.ID))
		opaque = binary.LittleEndian.AppendUint16(opaque, uint16(len(f.Value)))
		opaque = append(opaque, f.Value...)
	}
	record := len(r.Measurements) * blockSize
	var b bytes.Buffer
	b.Write([]byte{0x11, 0xe0, 0x01, 0xff})
	b.Write(r.Nonce[:])
	b.Write([]byte{0x00, 0x11, 0x60, 0x00, 0x00, byte(len(r.Measurements)), byte(record), byte(record >> 8), byte(record >> 16)})
	for i, m := range r.Measurements {
		head := blockHead(i)
		b.Write(head[:])
		b.Write(m[:])
	}
	b.Write(r.ResponderNonce[:])
	b.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(opaque))))
	b.Write(opaque)
	b.Write(r.Signature[:])
	return b.Bytes()
}

// fromHex returns the bytes of a report in hex digits, or data itself where it is none.
func fromHex(data []byte) []byte {
	text := bytes.TrimSpace(data)
	if len(text) < 2 || len(text)%2 != 0 || strings.ToLower(string(text[:min(len(text), 4)])) != "11e0" && string(text[:2]) != "12" && string(text[:2]) != "10" {
		return data
	}
	raw := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(raw, text); err != nil {
		return data
	}
	return raw
}
