package sevsnp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// GUIDs of the firmware's tables. OVMF keeps a list of (data, length, GUID) entries that ends 32 bytes before the end of
// the image (EDK II, OvmfPkg/ResetVector/Ia16/ResetVectorVtf0.asm), so that a VMM finds what it must know of the guest.
const (
	ovmfTableGUID    = "96b582de-1fb2-45f7-baea-a366c55a082d" // the list's own entry: its length
	ovmfResetGUID    = "00f771de-1a7e-4fcb-890e-68c77e2fb44e" // SEV-ES reset block: where application processors start
	ovmfHashesGUID   = "7255371f-3a3b-4b04-927b-1da6efa8d454" // where the VMM puts the kernel hashes table
	ovmfMetadataGUID = "dc886566-984a-4798-a75e-5585a7bf67cc" // offset of the SEV metadata, from the end of the image
)

// Section types of the SEV metadata (EDK II, OvmfPkg/ResetVector/X64/OvmfSevMetadata.asm; 4: coconut-svsm's OVMF).
const (
	sectionMemory       = 1    // memory that the guest uses before it can accept any
	sectionSecrets      = 2    // SNP_SECRETS page, filled by the AMD secure processor
	sectionCPUID        = 3    // CPUID page, checked by the AMD secure processor
	sectionSVSMCAA      = 4    // calling area of a secure VM service module
	sectionKernelHashes = 0x10 // page of the kernel hashes table
)

const (
	guidEntry      = 2 + 16 // bytes of an entry's length and GUID
	ovmfTail       = 32     // bytes after the list: the reset vector
	metadataHeader = 16     // bytes: signature, length, version, number of sections
	metadataItem   = 12     // bytes: address, size, type
)

// OVMF is what a firmware image says of itself: how a VMM must lay out the guest before it starts.
type OVMF struct {
	Sections   []Section // in the order in which they are measured
	ResetEIP   uint32    // where application processors start; zero: not said
	HashesBase uint32    // guest physical address of the kernel hashes table; zero: the firmware checks no kernel
}

// Section is memory of the guest that the VMM prepares and the launch digest covers.
type Section struct {
	Base uint32 // guest physical address
	Size uint32 // bytes, a multiple of the page size
	Type uint32
}

// ParseOVMF reads the tables at the end of a firmware image. It takes a whole image, or its last pages where only the
// tables are wanted. It says nothing of the rest of the image.
func ParseOVMF(image []byte) (OVMF, error) {
	o, err := parseOVMF(image)
	if err != nil {
		return OVMF{}, fmt.Errorf("parse OVMF: %w", err)
	}
	return o, nil
}

func parseOVMF(image []byte) (OVMF, error) {
	if n := len(image); n == 0 || n > MaxOVMF || n%pageSize != 0 {
		return OVMF{}, fmt.Errorf("size %d, want whole pages of %d bytes, at most %d", n, pageSize, MaxOVMF)
	}
	list := image[:len(image)-ovmfTail]
	data, guid, size, err := lastEntry(list)
	if err != nil || guid != guidBytes(ovmfTableGUID) {
		return OVMF{}, errors.New("no table of GUIDs before the reset vector")
	}
	list = data[:size-guidEntry]

	var o OVMF
	var metadata []byte
	seen := map[[16]byte]bool{}
	for len(list) > 0 {
		data, guid, size, err := lastEntry(list)
		if err != nil {
			return OVMF{}, err
		}
		if seen[guid] {
			return OVMF{}, fmt.Errorf("second entry %x in the table of GUIDs", guid)
		}
		seen[guid] = true
		switch guid {
		case guidBytes(ovmfResetGUID):
			o.ResetEIP, err = firstWord("reset block", data)
		case guidBytes(ovmfHashesGUID):
			o.HashesBase, err = firstWord("kernel hashes block", data)
		case guidBytes(ovmfMetadataGUID):
			var offset uint32
			if offset, err = firstWord("SEV metadata offset", data); err == nil {
				if offset < metadataHeader || int64(offset) > int64(len(image)) {
					return OVMF{}, fmt.Errorf("SEV metadata %d bytes before the end of an image of %d", offset, len(image))
				}
				metadata = image[len(image)-int(offset):]
			}
		}
		if err != nil {
			return OVMF{}, err
		}
		list = list[:len(list)-size]
	}
	if metadata == nil {
		return OVMF{}, errors.New("no SEV metadata: this firmware starts no SEV-SNP guest")
	}
	o.Sections, err = parseSections(metadata)
	return o, err
}

// lastEntry returns the entry that a list ends with, and its size with length and GUID.
func lastEntry(list []byte) (data []byte, guid [16]byte, size int, err error) {
	if len(list) < guidEntry {
		return nil, guid, 0, fmt.Errorf("table of GUIDs: %d bytes left over", len(list))
	}
	copy(guid[:], list[len(list)-16:])
	size = int(le.Uint16(list[len(list)-guidEntry:]))
	if size < guidEntry || size > len(list) {
		return nil, guid, 0, fmt.Errorf("table of GUIDs: entry of %d bytes, want %d to %d", size, guidEntry, len(list))
	}
	return list[len(list)-size : len(list)-guidEntry], guid, size, nil
}

func firstWord(what string, data []byte) (uint32, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("%s: %d bytes, want at least 4", what, len(data))
	}
	return le.Uint32(data), nil
}

func parseSections(b []byte) ([]Section, error) {
	size, version, count := le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])
	switch {
	case !bytes.HasPrefix(b, []byte("ASEV")):
		return nil, fmt.Errorf("SEV metadata: signature %q, want %q", b[:4], "ASEV")
	case version != 1:
		return nil, fmt.Errorf("SEV metadata: version %d is not known to this build, want 1", version)
	case count == 0 || count > MaxSections:
		return nil, fmt.Errorf("SEV metadata: %d sections, want 1 to %d", count, MaxSections)
	case int64(size) > int64(len(b)) || size < metadataHeader+metadataItem*count:
		return nil, fmt.Errorf("SEV metadata: %d bytes for %d sections, %d bytes to the end of the image", size, count, len(b))
	}
	sections := make([]Section, count)
	total := uint64(0)
	for i := range sections {
		item := b[metadataHeader+metadataItem*i:]
		s := Section{Base: le.Uint32(item), Size: le.Uint32(item[4:]), Type: le.Uint32(item[8:])}
		onePage := true
		switch s.Type {
		case sectionMemory, sectionSVSMCAA:
			onePage = false
		case sectionSecrets, sectionCPUID, sectionKernelHashes:
		default:
			return nil, fmt.Errorf("SEV metadata: section %d: type %d is not known to this build", i, s.Type)
		}
		total += uint64(s.Size)
		switch {
		case s.Base%pageSize != 0 || s.Size%pageSize != 0 || s.Size == 0:
			return nil, fmt.Errorf("SEV metadata: section %d: %#x bytes at %#x are no whole pages", i, s.Size, s.Base)
		case onePage && s.Size != pageSize:
			return nil, fmt.Errorf("SEV metadata: section %d: size %#x, want one page for type %d", i, s.Size, s.Type)
		case uint64(s.Base)+uint64(s.Size) > fourGiB:
			return nil, fmt.Errorf("SEV metadata: section %d: %#x bytes at %#x end above 4 GiB", i, s.Size, s.Base)
		case total > MaxSectionBytes:
			return nil, fmt.Errorf("SEV metadata: sections of %d bytes and more, at most %d", total, MaxSectionBytes)
		}
		sections[i] = s
	}
	return sections, nil
}

// guidBytes returns the bytes of a GUID in memory: its first three groups are little-endian (UEFI 2.10, appendix A).
func guidBytes(text string) (g [16]byte) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(g) {
		panic("sevsnp: internal error: GUID " + text)
	}
	copy(g[:], b)
	g[0], g[1], g[2], g[3] = g[3], g[2], g[1], g[0]
	g[4], g[5] = g[5], g[4]
	g[6], g[7] = g[7], g[6]
	return g
}
