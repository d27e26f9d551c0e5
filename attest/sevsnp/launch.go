package sevsnp

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"strings"
)

// Limits on what a launch digest is computed from.
const (
	MaxOVMF         = 16 << 20  // bytes of a firmware image
	MaxSections     = 64        // sections of the SEV metadata
	MaxSectionBytes = 64 << 20  // bytes of all sections
	MaxVCPUs        = 4096      // vCPUs of a guest
	MaxKernel       = 256 << 20 // bytes of a kernel
	MaxInitrd       = 1 << 30   // bytes of an initrd
	MaxCmdline      = 64 << 10  // bytes of a kernel command line
)

const (
	pageSize       = 4096
	fourGiB        = 1 << 32
	pageInfoSize   = 0x70
	vmsaAddress    = 0xfffffffff000 // where the firmware measures a VMSA, whatever its address (56860, SNP_LAUNCH_UPDATE)
	featureSNP     = 1              // SEV_FEATURES bit 0, SNPActive
	hashesSize     = 168            // bytes of the kernel hashes table
	hashesPadded   = 176            // the same, padded to 16 bytes
	hashesItemSize = 50             // bytes of an item: GUID, length, SHA-256 digest
)

// Page types of SNP_LAUNCH_UPDATE (AMD 56860 revision 1.57, table "Encodings for the PAGE_TYPE Field").
const (
	pageNormal  = 1
	pageVMSA    = 2
	pageZero    = 3
	pageSecrets = 5
	pageCPUID   = 6
)

// GUIDs of the kernel hashes table (QEMU, target/i386/sev.c; EDK II, OvmfPkg/AmdSev/BlobVerifierLibSevHashes).
const (
	hashesGUID  = "9438d606-4f22-4cc9-b479-a793d411fd21"
	cmdlineGUID = "97d02dd8-bd20-4c94-aa78-e7714d36ab2a"
	initrdGUID  = "44baf731-3a2f-4bd7-9af1-41e29169781d"
	kernelGUID  = "4de79437-abd2-427f-b835-d5b172d2045b"
)

// Launch is a guest as its VMM starts it: everything that MEASUREMENT depends on.
type Launch struct {
	OVMF     []byte    // the firmware image; its last pages are enough where OVMFHash is given
	OVMFHash *[48]byte // the digest after the firmware's pages ([OVMFDigest]); nil: computed from OVMF
	VCPUs    int
	VCPUType string // a name of [VCPUTypes]; may be empty under EC2, which shows no signature
	Features uint64 // SEV_FEATURES as the host sets it: 0x1, or 0x21 where its kernel uses DebugSwap
	VMM      VMM
	Boot     *DirectBoot // nil: the firmware finds the kernel itself, and the digest says nothing of it
}

// DirectBoot is a kernel that the VMM hands to the firmware, with hashes that the launch digest covers. The firmware
// starts nothing else (QEMU: -kernel with kernel-hashes=on).
type DirectBoot struct {
	Kernel  []byte // the file as given to the VMM
	Initrd  []byte // empty: none
	Cmdline string // exact: neither QEMU nor this package trims it. The hash covers it with its terminating NUL
}

// LaunchDigest returns MEASUREMENT of a guest: the launch digest that the AMD secure processor extends with each page
// that the VMM adds (AMD 56860, SNP_LAUNCH_UPDATE, structure PAGE_INFO). It fails where the digest is not certain, such
// as for a firmware section or a vCPU type that this build does not know.
//
// The ID block, the policy, HOST_DATA and the host's settings are not part of MEASUREMENT. What the guest loads later is
// covered only as far as the measured code checks it.
func LaunchDigest(l Launch) ([48]byte, error) {
	d, err := launchDigest(l)
	if err != nil {
		return [48]byte{}, fmt.Errorf("launch digest: %w", err)
	}
	return d, nil
}

func launchDigest(l Launch) ([48]byte, error) {
	var none [48]byte
	switch {
	case l.VMM != QEMU && l.VMM != EC2:
		return none, fmt.Errorf("VMM %.40q is not known to this build, want %q or %q", string(l.VMM), string(QEMU), string(EC2))
	case l.VCPUs < 1 || l.VCPUs > MaxVCPUs:
		return none, fmt.Errorf("%d vCPUs, want 1 to %d", l.VCPUs, MaxVCPUs)
	case l.Features&featureSNP == 0:
		return none, fmt.Errorf("guest features %#x lack bit 0 (SNPActive)", l.Features)
	}
	var signature uint32
	if l.VMM != EC2 || l.VCPUType != "" {
		var err error
		if signature, err = VCPUSignature(l.VCPUType); err != nil {
			return none, err
		}
	}
	o, err := ParseOVMF(l.OVMF)
	if err != nil {
		return none, err
	}
	if l.VCPUs > 1 && o.ResetEIP == 0 {
		return none, errors.New("the firmware does not say where further vCPUs start")
	}
	hashes, err := hashesPage(l.Boot, o)
	if err != nil {
		return none, err
	}

	var d digest
	if l.OVMFHash != nil {
		d = *l.OVMFHash
	} else {
		d.image(l.OVMF)
	}
	var cpuid []Section
	for _, s := range o.Sections {
		switch {
		case s.Type == sectionSecrets:
			d.extend(pageSecrets, uint64(s.Base), [48]byte{})
		case s.Type == sectionCPUID && l.VMM == EC2:
			cpuid = append(cpuid, s) // EC2 adds CPUID pages after all others
		case s.Type == sectionCPUID:
			d.extend(pageCPUID, uint64(s.Base), [48]byte{})
		case s.Type == sectionKernelHashes && hashes != nil:
			d.extend(pageNormal, uint64(s.Base), sha512.Sum384(hashes))
		default:
			for offset := uint64(0); offset < uint64(s.Size); offset += pageSize {
				d.extend(pageZero, uint64(s.Base)+offset, [48]byte{})
			}
		}
	}
	for _, s := range cpuid {
		d.extend(pageCPUID, uint64(s.Base), [48]byte{})
	}
	d.extend(pageVMSA, vmsaAddress, sha512.Sum384(vmsa(resetVector, signature, l.Features, l.VMM)))
	further := sha512.Sum384(vmsa(o.ResetEIP, signature, l.Features, l.VMM))
	for range l.VCPUs - 1 {
		d.extend(pageVMSA, vmsaAddress, further)
	}
	return d, nil
}

// OVMFDigest returns the launch digest after the pages of a firmware image and before all others. It stands for the
// image in [Launch], so that whoever keeps it needs to keep only the image's last pages.
func OVMFDigest(image []byte) ([48]byte, error) {
	if _, err := ParseOVMF(image); err != nil {
		return [48]byte{}, err
	}
	var d digest
	d.image(image)
	return d, nil
}

// digest is a launch digest on its way.
type digest [48]byte

// extend adds one page (AMD 56860, structure PAGE_INFO). contents is the page's SHA-384 digest, or zero for the page
// types whose contents the secure processor does not measure. Every page is the guest's at VMPL 0 only.
func (d *digest) extend(pageType byte, address uint64, contents [48]byte) {
	info := make([]byte, 0, pageInfoSize)
	info = append(info, d[:]...)
	info = append(info, contents[:]...)
	info = le.AppendUint16(info, pageInfoSize)
	info = append(info, pageType, 0, 0, 0, 0, 0) // IMI_PAGE, permissions of VMPL 3, 2 and 1, reserved
	info = le.AppendUint64(info, address)
	*d = sha512.Sum384(info)
}

// image adds a firmware image, which ends at 4 GiB.
func (d *digest) image(image []byte) {
	base := fourGiB - uint64(len(image))
	for offset := 0; offset < len(image); offset += pageSize {
		d.extend(pageNormal, base+uint64(offset), sha512.Sum384(image[offset:offset+pageSize]))
	}
}

// ErrNoKernelHashes means that a firmware does not measure what it boots directly.
var ErrNoKernelHashes = errors.New("a kernel is given, and the firmware has no place for its hash: it would start any kernel")

// hashesPage returns the page of the kernel hashes table, nil without a kernel.
func hashesPage(boot *DirectBoot, o OVMF) ([]byte, error) {
	if boot == nil {
		return nil, nil
	}
	offset := int(o.HashesBase % pageSize)
	sections := 0
	for _, s := range o.Sections {
		if s.Type == sectionKernelHashes {
			sections++
		}
	}
	switch {
	case sections != 1 || o.HashesBase == 0:
		return nil, ErrNoKernelHashes
	case offset+hashesPadded > pageSize:
		return nil, fmt.Errorf("kernel hashes table at %#x crosses the end of its page", o.HashesBase)
	case len(boot.Kernel) > MaxKernel:
		return nil, fmt.Errorf("kernel of %d bytes, at most %d", len(boot.Kernel), MaxKernel)
	case len(boot.Initrd) > MaxInitrd:
		return nil, fmt.Errorf("initrd of %d bytes, at most %d", len(boot.Initrd), MaxInitrd)
	case len(boot.Cmdline) > MaxCmdline:
		return nil, fmt.Errorf("command line of %d bytes, at most %d", len(boot.Cmdline), MaxCmdline)
	case strings.Contains(boot.Cmdline, "\x00"):
		return nil, errors.New("command line holds a NUL")
	}
	page := make([]byte, pageSize)
	table := page[offset:offset]
	item := func(guid string, size uint16) {
		g := guidBytes(guid)
		table = le.AppendUint16(append(table, g[:]...), size)
	}
	item(hashesGUID, hashesSize)
	for _, h := range []struct {
		guid string
		sum  [32]byte
	}{
		{cmdlineGUID, sha256.Sum256([]byte(boot.Cmdline + "\x00"))},
		{initrdGUID, sha256.Sum256(boot.Initrd)},
		{kernelGUID, sha256.Sum256(boot.Kernel)},
	} {
		item(h.guid, hashesItemSize)
		table = append(table, h.sum[:]...)
	}
	return page, nil
}
