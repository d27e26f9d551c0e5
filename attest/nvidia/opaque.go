package nvidia

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// FieldID says what an opaque field holds.
type FieldID uint16

// Opaque fields that this build reads. Others are kept and passed over.
const (
	FieldDriver        FieldID = 3  // driver version, text
	FieldGPUInfo       FieldID = 4  // GPU; on early switch firmware what FieldSwitchGPUs is
	FieldVBIOS         FieldID = 6  // GPU: eight bytes; switch: text
	FieldNVDEC0        FieldID = 11 // AAh enabled, 55h disabled
	FieldCounts        FieldID = 12 // changes of each measurement
	FieldCPRInfo       FieldID = 13
	FieldBoardID       FieldID = 14
	FieldChipSKU       FieldID = 15 // text
	FieldChipSKUMod    FieldID = 16
	FieldProject       FieldID = 17 // text
	FieldProjectSKU    FieldID = 18 // text
	FieldProjectSKUMod FieldID = 19
	FieldFWID          FieldID = 20 // SHA-384 of the firmware that holds the signing key
	FieldProtectedPCIe FieldID = 21 // AAh on, 55h off
	FieldPDI           FieldID = 22 // switch: its own PDI; GPU: PDI of the switch behind each NVLink, each reversed
	FieldDisabledPorts FieldID = 23
	FieldPosition      FieldID = 24
	FieldLock          FieldID = 25 // 1 locked
	FieldSwitchGPUs    FieldID = 26 // PDIs of eight GPUs, and which port leads to which
	FieldSystemEnable  FieldID = 33
	FieldOpaqueVersion FieldID = 34
	FieldChip          FieldID = 35 // text
	FieldFeature       FieldID = 36 // 0 SPT, 1 MPT, 2 PPCIE; says so where the opaque version is 1 or more
)

// OpaqueField is one field of the opaque data.
type OpaqueField struct {
	ID    FieldID
	Value []byte
}

// fieldSpec is what is known of a field: its name as NVIDIA spells it, the sizes that it may have on a GPU and on a switch
// (none: not known there), and whether it is text.
type fieldSpec struct {
	name        string
	gpu, nvlink []int
	text        bool
}

var fieldSpecs = map[FieldID]fieldSpec{
	FieldDriver:        {"DRIVER_VERSION", nil, nil, true},
	FieldGPUInfo:       {"GPU_INFO", []int{8}, []int{128}, false},
	FieldVBIOS:         {"VBIOS_VERSION", []int{8}, []int{14}, false},
	FieldNVDEC0:        {"NVDEC0_STATUS", []int{1}, nil, false},
	FieldCounts:        {"MSRSCNT", []int{256}, []int{104, 108}, false},
	FieldCPRInfo:       {"CPRINFO", []int{4}, nil, false},
	FieldBoardID:       {"BOARD_ID", []int{4}, nil, false},
	FieldChipSKU:       {"CHIP_SKU", []int{4, 9}, nil, true},
	FieldChipSKUMod:    {"CHIP_SKU_MOD", []int{2, 5}, nil, false},
	FieldProject:       {"PROJECT", []int{5}, nil, true},
	FieldProjectSKU:    {"PROJECT_SKU", []int{5}, nil, true},
	FieldProjectSKUMod: {"PROJECT_SKU_MOD", []int{2}, nil, false},
	FieldFWID:          {"FWID", []int{48}, nil, false},
	FieldProtectedPCIe: {"PROTECTED_PCIE_STATUS", []int{1}, nil, false},
	FieldPDI:           {"DEVICE_PDI", []int{links * PDISize}, []int{PDISize}, false},
	FieldDisabledPorts: {"DISABLED_PORTS", nil, []int{2}, false},
	FieldPosition:      {"SWITCH_POSITION_ID", nil, []int{2}, false},
	FieldLock:          {"SWITCH_LOCK_STATUS", nil, []int{2}, false},
	FieldSwitchGPUs:    {"SWITCH_GPU_PDIS", nil, []int{128}, false},
	FieldSystemEnable:  {"SYSTEM_ENABLE_STATUS", []int{2}, nil, false},
	FieldOpaqueVersion: {"OPAQUE_DATA_VERSION", []int{2}, nil, false},
	FieldChip:          {"CHIP_INFO", nil, nil, true},
	FieldFeature:       {"FEATURE_FLAG", []int{2}, nil, false},
}

// sizes returns the sizes that a field may have on a kind of device, or nil where any will do.
func (s fieldSpec) sizes(k Kind) []int {
	if k == Switch {
		return s.nvlink
	}
	return s.gpu
}

// parseOpaque reads the fields to the last byte. No field stands there twice, one that is known has its size, and text is
// text: it goes into names of manifests.
func parseOpaque(data []byte, k Kind) (fields []OpaqueField, err error) {
	for len(data) > 0 {
		if len(data) < 4 {
			return nil, fmt.Errorf("opaque data: %d bytes left, want a type and a length", len(data))
		}
		f := OpaqueField{ID: FieldID(binary.LittleEndian.Uint16(data))}
		n := int(binary.LittleEndian.Uint16(data[2:]))
		if data = data[4:]; len(data) < n {
			return nil, fmt.Errorf("opaque field %d of %d bytes, %d left", f.ID, n, len(data))
		}
		f.Value, data = data[:n:n], data[n:]
		spec := fieldSpecs[f.ID]
		sizes := spec.sizes(k)
		switch {
		case slices.ContainsFunc(fields, func(g OpaqueField) bool { return g.ID == f.ID }):
			return nil, fmt.Errorf("opaque field %d twice", f.ID)
		case len(fields) == maxFields:
			return nil, fmt.Errorf("more than %d opaque fields", maxFields)
		case sizes != nil && !slices.Contains(sizes, n):
			return nil, fmt.Errorf("opaque field %s of %d bytes, want %s", spec.name, n, oneOf(sizes))
		case k == GPU && spec.text && !isText(cut(f.Value)):
			return nil, fmt.Errorf("opaque field %s is not 1 to %d letters, digits and points", spec.name, maxText)
		case k == Switch && f.ID == FieldVBIOS && !isText(string(f.Value)):
			return nil, fmt.Errorf("opaque field %s is not letters, digits and points", spec.name)
		}
		fields = append(fields, f)
	}
	has := func(id FieldID) bool {
		return slices.ContainsFunc(fields, func(f OpaqueField) bool { return f.ID == id })
	}
	switch {
	case !has(FieldVBIOS):
		return nil, fmt.Errorf("no opaque field %s", fieldSpecs[FieldVBIOS].name)
	case k == GPU && !has(FieldDriver):
		return nil, fmt.Errorf("no opaque field %s", fieldSpecs[FieldDriver].name)
	case k == Switch && !has(FieldPDI):
		return nil, fmt.Errorf("no opaque field %s", fieldSpecs[FieldPDI].name)
	}
	return fields, nil
}

func oneOf(sizes []int) string {
	var words []string
	for _, n := range sizes {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, " or ")
}

// cut returns text up to its first NUL.
func cut(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func isText(s string) bool {
	return s != "" && len(s) <= maxText && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.") == ""
}

// Field returns the value of an opaque field.
func (r *Report) Field(id FieldID) ([]byte, bool) {
	i := slices.IndexFunc(r.Opaque, func(f OpaqueField) bool { return f.ID == id })
	if i < 0 {
		return nil, false
	}
	return r.Opaque[i].Value, true
}

// text returns a field that is text, or "".
func (r *Report) text(id FieldID) string {
	v, _ := r.Field(id)
	return cut(v)
}

// Driver returns the driver's version; a switch has none.
func (r *Report) Driver() string {
	if r.Kind == Switch {
		return ""
	}
	return r.text(FieldDriver)
}

// VBIOS returns the version of VBIOS, or of a switch's BIOS, such as 96.00.9F.00.01.
func (r *Report) VBIOS() string {
	v, _ := r.Field(FieldVBIOS)
	if r.Kind == Switch {
		return string(v)
	}
	return fmt.Sprintf("%02X.%02X.%02X.%02X.%02X", v[3], v[2], v[1], v[0], v[4])
}

// Modes of a device: alone, several GPUs with encrypted NVLinks, or several GPUs and switches with protected PCIe.
const (
	ModeSPT   = "SPT"
	ModeMPT   = "MPT"
	ModePPCIE = "PPCIE"
)

const on, off = 0xaa, 0x55

// mode returns the mode that the report names, or what is odd about it: disagree where two fields contradict each other.
func (r *Report) mode(early bool) (mode, odd string, disagree bool) {
	if r.Kind == Switch {
		switch lock, ok := r.Field(FieldLock); {
		case !ok:
			return "", "the report has no lock status", false
		case binary.LittleEndian.Uint16(lock) == 1:
			return ModePPCIE, "", false
		default:
			return "", fmt.Sprintf("the lock status is %x, which is not locked", lock), false
		}
	}
	var flag, protected string
	if v, ok := r.Field(FieldProtectedPCIe); ok {
		switch v[0] {
		case on:
			protected = ModePPCIE
		case off:
			protected = ModeSPT
		default:
			return "", fmt.Sprintf("the protected PCIe status is %02xh, which this build does not know", v[0]), false
		}
	}
	version, _ := r.Field(FieldOpaqueVersion)
	if v, ok := r.Field(FieldFeature); ok && version != nil && binary.LittleEndian.Uint16(version) >= 1 {
		modes := []string{ModeSPT, ModeMPT, ModePPCIE}
		n := binary.LittleEndian.Uint16(v)
		if int(n) >= len(modes) {
			return "", fmt.Sprintf("the feature flag is %d, which this build does not know", n), false
		}
		flag = modes[n]
	}
	switch {
	case flag != "" && protected != "" && (flag == ModePPCIE) != (protected == ModePPCIE):
		return "", fmt.Sprintf("the feature flag says %s, the protected PCIe status %s", flag, protected), true
	case flag != "":
		return flag, "", false
	case protected != "":
		return protected, "", false
	case early:
		return ModeSPT, "", false
	}
	return "", "the report of this firmware does not say", false
}

// NVDEC0 says whether the first video decoder is on, which changes what is measured: on, off or "".
func (r *Report) nvdec0() string {
	if v, ok := r.Field(FieldNVDEC0); ok && r.Kind == GPU {
		return map[byte]string{on: "on", off: "off"}[v[0]]
	}
	return ""
}

// switchPDIs returns the PDIs of the switches behind a GPU's links, each once, ascending; links that are off left out.
func (r *Report) switchPDIs() (pdis [][PDISize]byte) {
	v, _ := r.Field(FieldPDI)
	if r.Kind == Switch {
		return nil
	}
	for ; len(v) >= PDISize; v = v[PDISize:] {
		pdi := [PDISize]byte(v)
		slices.Reverse(pdi[:])
		if pdi != [PDISize]byte{} {
			pdis = append(pdis, pdi)
		}
	}
	return pdis
}

// gpuPDIs returns the PDIs of the GPUs that a switch names.
func (r *Report) gpuPDIs() (pdis [][PDISize]byte) {
	if r.Kind != Switch {
		return nil
	}
	v, ok := r.Field(FieldSwitchGPUs)
	if !ok {
		if v, ok = r.Field(FieldGPUInfo); !ok {
			return nil
		}
	}
	for i := range switchGPUs {
		pdis = append(pdis, [PDISize]byte(v[i*PDISize:]))
	}
	return pdis
}
