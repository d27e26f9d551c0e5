package sevsnp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// VMM is the virtual machine monitor that starts a guest. Each fills the registers that a vCPU starts with in its own way.
type VMM string

// The VMMs whose first register values are known.
const (
	QEMU VMM = "qemu"
	EC2  VMM = "ec2" // Amazon's
)

// resetVector is where the first vCPU starts.
const resetVector = 0xfffffff0

// vmsa returns the save area of a vCPU that starts at eip (AMD64 Architecture Programmer's Manual volume 2, table B-4):
// the state of a processor after reset, with what the VMM adds. signature goes to RDX, as after a real reset.
func vmsa(eip, signature uint32, features uint64, vmm VMM) []byte {
	page := make([]byte, pageSize)
	segment := func(offset int, selector, attributes uint16, limit uint32, base uint64) {
		le.PutUint16(page[offset:], selector)
		le.PutUint16(page[offset+2:], attributes)
		le.PutUint32(page[offset+4:], limit)
		le.PutUint64(page[offset+8:], base)
	}
	cs, ss, tr := uint16(0x9b), uint16(0x93), uint16(0x8b)
	rdx, mxcsr, fcw := uint64(signature), uint32(0x1f80), uint16(0x37f)
	if vmm == EC2 {
		ss, tr, rdx, mxcsr, fcw = 0x92, 0x83, 0, 0, 0
		if eip == resetVector {
			cs = 0x9a
		}
	}
	segment(0x00, 0, 0x93, 0xffff, 0) // ES
	segment(0x10, 0xf000, cs, 0xffff, uint64(eip&0xffff0000))
	segment(0x20, 0, ss, 0xffff, 0)
	segment(0x30, 0, 0x93, 0xffff, 0) // DS
	segment(0x40, 0, 0x93, 0xffff, 0) // FS
	segment(0x50, 0, 0x93, 0xffff, 0) // GS
	segment(0x60, 0, 0, 0xffff, 0)    // GDTR
	segment(0x70, 0, 0x82, 0xffff, 0) // LDTR
	segment(0x80, 0, 0, 0xffff, 0)    // IDTR
	segment(0x90, 0, tr, 0xffff, 0)
	le.PutUint64(page[0x0d0:], 0x1000)             // EFER: SVME, set by KVM for every encrypted guest
	le.PutUint64(page[0x148:], 0x40)               // CR4: MCE
	le.PutUint64(page[0x158:], 0x10)               // CR0: ET
	le.PutUint64(page[0x160:], 0x400)              // DR7
	le.PutUint64(page[0x168:], 0xffff0ff0)         // DR6
	le.PutUint64(page[0x170:], 0x2)                // RFLAGS
	le.PutUint64(page[0x178:], uint64(eip&0xffff)) // RIP
	le.PutUint64(page[0x268:], 0x0007040600070406) // G_PAT
	le.PutUint64(page[0x310:], rdx)                // RDX
	le.PutUint64(page[0x3b0:], features)           // SEV_FEATURES
	le.PutUint64(page[0x3e8:], 1)                  // XCR0: x87
	le.PutUint32(page[0x408:], mxcsr)
	le.PutUint16(page[0x410:], fcw)
	return page
}

// vcpuModel is a CPU model that QEMU can show to a guest.
type vcpuModel struct {
	name                    string
	versions                int // -v1 to -vN, all with one signature
	family, model, stepping uint32
}

// vcpuModels lists the AMD EPYC models of QEMU 10.1 (target/i386/cpu.c, builtin_x86_defs).
func vcpuModels() []vcpuModel {
	return []vcpuModel{
		{"EPYC", 5, 23, 1, 2},
		{"EPYC-IBPB", 0, 23, 1, 2}, // another name of EPYC-v2
		{"EPYC-Rome", 5, 23, 49, 0},
		{"EPYC-Milan", 3, 25, 1, 1},
		{"EPYC-Genoa", 2, 25, 17, 0},
		{"EPYC-Turin", 1, 26, 0, 0},
	}
}

// VCPUTypes returns the known vCPU types, as QEMU's -cpu names them.
func VCPUTypes() (names []string) {
	for _, m := range vcpuModels() {
		names = append(names, m.name)
		for v := range m.versions {
			names = append(names, m.name+"-v"+strconv.Itoa(v+1))
		}
	}
	return names
}

// VCPUSignature returns CPUID Fn0000_0001_EAX of a vCPU type (AMD CPUID Specification, publication 25481).
func VCPUSignature(vcpuType string) (uint32, error) {
	if !slices.Contains(VCPUTypes(), vcpuType) {
		return 0, fmt.Errorf("vCPU type %.40q is not known to this build, want one of %s", vcpuType, strings.Join(VCPUTypes(), " "))
	}
	name := vcpuType
	if i := strings.LastIndex(name, "-v"); i >= 0 {
		name = name[:i]
	}
	models := vcpuModels()
	m := models[slices.IndexFunc(models, func(m vcpuModel) bool { return m.name == name })]
	return (m.family-0xf)<<20 | m.model>>4<<16 | 0xf<<8 | m.model&0xf<<4 | m.stepping, nil
}
