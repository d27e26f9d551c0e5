package mint

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

// Firmware of minted devices. Nobody released it.
const (
	NVIDIADriver = "599.10.01"
	gpuVBIOS     = "96.00.F0.00.01"
	gbVBIOS      = "97.00.F0.00.01"
	switchBIOS   = "96.10.F0.00.01"
)

// Device returns a sound device of a chip whose PDI follows from a name, certified: a Hopper GPU alone (SPT), a Blackwell GPU
// with others (MPT), or a switch.
func (n *NVIDIA) Device(chip, name string) *NVIDIADevice {
	d := n.bare(chip, name)
	n.Certify(d, NVIDIAOptions{})
	return d
}

func (n *NVIDIA) bare(chip, name string) *NVIDIADevice {
	h := canon.Hash64("assay/mint/nvidia-pdi/v1", []byte(chip), []byte(name))
	d := &NVIDIADevice{Chip: chip, PDI: [nvidia.PDISize]byte(h[:])}
	fwid := canon.Hash64("assay/mint/nvidia-fwid/v1", []byte(chip))
	d.FWID = [48]byte(fwid[:])
	switch chip {
	case "GH100":
		d.gpu(gpuVBIOS, "G520", "0200", "885")
		d.Set(nvidia.FieldProtectedPCIe, []byte{0x55})
		d.Set(nvidia.FieldPDI, make([]byte, 144))
		d.Set(nvidia.FieldOpaqueVersion, []byte{1, 0})
		d.Set(nvidia.FieldFeature, []byte{0, 0})
	case "GB100":
		d.gpu(gbVBIOS, "G525", "0220", "886")
		d.Set(nvidia.FieldSystemEnable, []byte{7, 7})
		d.Set(nvidia.FieldChip, []byte("GB100\x00"))
		d.Set(nvidia.FieldOpaqueVersion, []byte{1, 0})
		d.Set(nvidia.FieldFeature, []byte{1, 0})
	case "LS_10":
		d.Report.Kind = nvidia.Switch
		d.Set(nvidia.FieldVBIOS, []byte(switchBIOS))
		d.Set(nvidia.FieldPDI, bytes.Clone(d.PDI[:]))
		d.Set(nvidia.FieldCounts, make([]byte, 104))
		d.Set(nvidia.FieldSwitchGPUs, append(make([]byte, 64), bytes.Repeat([]byte{0xff}, 64)...))
		d.Set(nvidia.FieldDisabledPorts, []byte{0xec, 0})
		d.Set(nvidia.FieldPosition, []byte{0, 0})
		d.Set(nvidia.FieldLock, []byte{1, 0})
		d.Report.Measurements = make([][nvidia.MeasurementSize]byte, 31)
	default:
		panic("mint: internal error: chip " + chip)
	}
	d.measure()
	return d
}

// gpu sets the fields that every GPU has, in the order of the firmware. The first video decoder is on.
func (d *NVIDIADevice) gpu(vbios, project, sku, chipSKU string) {
	d.Report.Kind = nvidia.GPU
	var v [5]byte
	_, err := fmt.Sscanf(vbios, "%02X.%02X.%02X.%02X.%02X", &v[0], &v[1], &v[2], &v[3], &v[4])
	must(err)
	d.Set(nvidia.FieldVBIOS, []byte{v[3], v[2], v[1], v[0], v[4], 0, 0, 0})
	d.Set(nvidia.FieldBoardID, []byte{0xb1, 3, 0, 0})
	d.Set(nvidia.FieldChipSKU, append([]byte(chipSKU), 0))
	d.Set(nvidia.FieldChipSKUMod, []byte{'0', 0})
	d.Set(nvidia.FieldProject, append([]byte(project), 0))
	d.Set(nvidia.FieldProjectSKU, append([]byte(sku), 0))
	d.Set(nvidia.FieldProjectSKUMod, []byte{0, 0})
	d.Set(nvidia.FieldDriver, append([]byte(NVIDIADriver), 0))
	d.Set(nvidia.FieldGPUInfo, []byte{map[string]byte{"GH100": 0x80, "GB100": 0xa0}[d.Chip], 1, 0, 0, 0, 0, 0, 0})
	d.Set(nvidia.FieldCounts, make([]byte, 256))
	d.Set(nvidia.FieldCPRInfo, []byte{0, 0xc0, 1, 0})
	d.Set(nvidia.FieldNVDEC0, []byte{0xaa})
	d.Set(nvidia.FieldFWID, bytes.Clone(d.FWID[:]))
	d.Report.Measurements = make([][nvidia.MeasurementSize]byte, 64)
}

// measure fills in what the device's firmware measures: values that follow from chip and index, and on switches from
// the position.
func (d *NVIDIADevice) measure() {
	for i := range d.Report.Measurements {
		d.Report.Measurements[i] = nvidiaMeasurement(d.Chip, i, d.position())
	}
}

func (d *NVIDIADevice) position() int {
	v, _ := d.Report.Field(nvidia.FieldPosition)
	if v == nil {
		return 0
	}
	return int(v[0])
}

// positional are the measurements of a switch that differ by its position.
var positional = []int{10, 11, 14, 18, 19, 20, 21, 22, 23, 24, 25}

func nvidiaMeasurement(chip string, index, position int) (v [nvidia.MeasurementSize]byte) {
	if index == 0 {
		return v
	}
	if !slices.Contains(positional, index) || chip != "LS_10" {
		position = 0
	}
	h := canon.Hash64("assay/mint/nvidia-measurement/v1", []byte(chip), []byte{byte(index), byte(position)})
	return [nvidia.MeasurementSize]byte(h[:])
}

// Set writes an opaque field, in place of one that is there.
func (d *NVIDIADevice) Set(id nvidia.FieldID, value []byte) {
	f := nvidia.OpaqueField{ID: id, Value: value}
	if i := slices.IndexFunc(d.Report.Opaque, func(o nvidia.OpaqueField) bool { return o.ID == id }); i >= 0 {
		d.Report.Opaque[i] = f
		return
	}
	d.Report.Opaque = append(d.Report.Opaque, f)
}

// Unset takes an opaque field away.
func (d *NVIDIADevice) Unset(id nvidia.FieldID) {
	d.Report.Opaque = slices.DeleteFunc(d.Report.Opaque, func(o nvidia.OpaqueField) bool { return o.ID == id })
}

// Clone returns a copy that may be changed on its own.
func (d *NVIDIADevice) Clone() *NVIDIADevice {
	c := *d
	c.Report.Opaque = slices.Clone(d.Report.Opaque)
	c.Report.Measurements = slices.Clone(d.Report.Measurements)
	c.Chain = slices.Clone(d.Chain)
	return &c
}

// Answer returns the report that answers a nonce, signed.
func (d *NVIDIADevice) Answer(nonce [nvidia.NonceSize]byte) []byte {
	r := d.Report
	r.Nonce = nonce
	r.ResponderNonce = canon.Hash("assay/mint/nvidia-responder/v1", d.PDI[:], nonce[:])
	raw := r.Encode()
	signature := nvSignRaw(d.Chain[0].key.(*ecdsa.PrivateKey), raw[:len(raw)-len(r.Signature)])
	copy(raw[len(raw)-len(signature):], signature[:])
	return raw
}

// Component returns the device's evidence under a label.
func (d *NVIDIADevice) Component(label string, nonce [nvidia.NonceSize]byte) attest.Component {
	c := nvidia.ReadFiles(d.Answer(nonce), d.PEM())
	c.Label = label
	return c
}

// Identity returns the identity of the device, as enrolments and deny lists name it.
func (d *NVIDIADevice) Identity() attest.Identity {
	return attest.Identity{Kind: "nvidia-" + strings.ToLower(productOf(d.Chip)), Value: bytes.Clone(d.PDI[:])}
}

// HGX is a machine of eight Hopper GPUs behind four switches, in mode PPCIE.
type HGX struct {
	GPUs     []*NVIDIADevice
	Switches []*NVIDIADevice
}

// HGX returns a machine whose devices follow from a name, wired as NVIDIA does: 18 links of each GPU go to the four switches,
// 5, 5, 4 and 4.
func (n *NVIDIA) HGX(name string) *HGX {
	h := &HGX{}
	for i := range 8 {
		d := n.bare("GH100", fmt.Sprintf("%s gpu %d", name, i))
		d.Set(nvidia.FieldProtectedPCIe, []byte{0xaa})
		d.Set(nvidia.FieldFeature, []byte{2, 0})
		h.GPUs = append(h.GPUs, d)
	}
	for i := range 4 {
		d := n.bare("LS_10", fmt.Sprintf("%s switch %d", name, i))
		d.Set(nvidia.FieldPosition, binary.LittleEndian.AppendUint16(nil, uint16(i)))
		d.measure()
		h.Switches = append(h.Switches, d)
	}
	h.Wire()
	for _, d := range slices.Concat(h.GPUs, h.Switches) {
		n.Certify(d, NVIDIAOptions{})
	}
	return h
}

// Wire writes the PDIs of the machine's devices into one another's reports.
func (h *HGX) Wire() {
	var linked, mapped []byte
	for link := range 18 {
		pdi := h.Switches[link%4].PDI
		slices.Reverse(pdi[:])
		linked = append(linked, pdi[:]...)
	}
	for _, g := range h.GPUs {
		mapped = append(mapped, g.PDI[:]...)
		g.Set(nvidia.FieldPDI, bytes.Clone(linked))
	}
	for port := range 64 {
		mapped = append(mapped, byte(port%8))
	}
	for _, s := range h.Switches {
		s.Set(nvidia.FieldSwitchGPUs, bytes.Clone(mapped))
	}
}

// Components returns the machine's evidence, GPUs first, all for one nonce.
func (h *HGX) Components(nonce [nvidia.NonceSize]byte) (all []attest.Component) {
	for i, g := range h.GPUs {
		all = append(all, g.Component(fmt.Sprintf("gpu%d", i), nonce))
	}
	for i, s := range h.Switches {
		all = append(all, s.Component(fmt.Sprintf("switch%d", i), nonce))
	}
	return all
}
