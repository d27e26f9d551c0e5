package mint

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/sevsnp"
)

// GUIDs of the table at the end of an OVMF image (OvmfPkg/ResetVector/Ia16/ResetVectorVtf0.asm of edk2).
const (
	GUIDFirmwareTable = "96b582de-1fb2-45f7-baea-a366c55a082d"
	GUIDKernelHashes  = "7255371f-3a3b-4b04-927b-1da6efa8d454"
	GUIDResetBlock    = "00f771de-1a7e-4fcb-890e-68c77e2fb44e"
	GUIDSEVMetadata   = "dc886566-984a-4798-a75e-5585a7bf67cc"
	MetadataOffset    = 2048 // bytes from the end of a page of Firmware to its metadata
	firmwarePage      = 4096
)

// Firmware returns the last page of a firmware image with SEV metadata for the given sections; hashes is the address of
// the kernel hashes table. It boots nothing.
func Firmware(sections []sevsnp.Section, hashes uint32) []byte {
	le := binary.LittleEndian
	meta := le.AppendUint32([]byte("ASEV"), uint32(16+12*len(sections)))
	meta = le.AppendUint32(le.AppendUint32(meta, 1), uint32(len(sections)))
	for _, s := range sections {
		meta = le.AppendUint32(le.AppendUint32(le.AppendUint32(meta, s.Base), s.Size), s.Type)
	}
	return FirmwareTable(meta, FirmwareEntry(GUIDKernelHashes, hashes, 0x400),
		FirmwareEntry(GUIDResetBlock, 0x80b004), FirmwareEntry(GUIDSEVMetadata, MetadataOffset))
}

// DirectBootFirmware returns firmware that measures the kernel, initrd and command line that the hypervisor hands it.
func DirectBootFirmware() []byte {
	return Firmware([]sevsnp.Section{{Base: 0x800000, Size: 0x9000, Type: 1}, {Base: 0x80d000, Size: 0x1000, Type: 2}, {Base: 0x80e000, Size: 0x1000, Type: 3}, {Base: 0x810000, Size: 0x1000, Type: 0x10}}, 0x810c00)
}

// FirmwareTable returns a page that holds the metadata 2048 bytes before its end, and a table of GUIDs.
func FirmwareTable(metadata []byte, entries ...[]byte) []byte {
	page := make([]byte, firmwarePage)
	copy(page[firmwarePage-MetadataOffset:], metadata)
	list := slices.Concat(entries...)
	list = append(list, FirmwareEntry(GUIDFirmwareTable)...)
	binary.LittleEndian.PutUint16(list[len(list)-18:], uint16(len(list)))
	copy(page[firmwarePage-32-len(list):], list)
	return page
}

// FirmwareEntry returns one entry of the table: its words, its length, its GUID in mixed-endian order.
func FirmwareEntry(guid string, words ...uint32) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	b = le.AppendUint16(b, uint16(4*len(words)+18))
	g, err := hex.DecodeString(strings.ReplaceAll(guid, "-", ""))
	must(err)
	slices.Reverse(g[0:4])
	slices.Reverse(g[4:6])
	slices.Reverse(g[6:8])
	return append(b, g...)
}
