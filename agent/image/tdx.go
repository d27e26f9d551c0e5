package image

import (
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"unicode/utf16"
)

// Event is one measurement of a TDX guest's boot.
type Event struct {
	Register int      // 1 or 2: the RTMR that it extends
	What     string   // for people
	Rule     string   // who measures it, and where that is written
	Digest   [48]byte // SHA-384, what the register is extended with
}

// TDXBoot is a direct boot in a TDX guest: QEMU hands kernel, initrd and command line to OVMF, which starts the kernel as
// an EFI program.
type TDXBoot struct {
	Kernel  []byte
	Initrd  []byte
	Cmdline string // as given to QEMU
	// OVMF tells the kernel that there is an initrd by a word that it adds to the command line. Since edk2-stable202505
	// it stands before the line, in older ones behind it.
	InitrdFirst bool
}

// Events returns what a boot extends into RTMR1 and RTMR2, each in order. The order and the fixed events are those of the
// logs of real guests, which replay to the registers of their quotes.
//
// It is an expectation, not an observation. It does not hold where QEMU rewrites the kernel's header before the guest
// measures it (before QEMU 10 or with an OVMF before edk2-stable202505; the header then depends on the guest's memory),
// where a boot option before the kernel's was tried, or where the firmware measures more. MRTD and RTMR0 depend on
// firmware, VMM and devices, and are not computed.
func (b TDXBoot) Events() ([]Event, error) {
	h := sha512.New384()
	if err := Authenticode(h, b.Kernel); err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	const (
		firmware = "OVMF, EV_EFI_ACTION (TCG PC Client Platform Firmware Profile)"
		stub     = "kernel's EFI stub, EV_EVENT_TAG (Linux 6.10 or newer, drivers/firmware/efi/libstub/efi-stub-helper.c)"
	)
	line := b.Cmdline
	switch {
	case len(b.Initrd) == 0:
	case b.InitrdFirst:
		line = "initrd=initrd " + line
	default:
		line += " initrd=initrd"
	}
	var options []byte
	for _, unit := range append(utf16.Encode([]rune(line)), 0) {
		options = binary.LittleEndian.AppendUint16(options, unit)
	}
	text := func(s string) [48]byte { return sha512.Sum384([]byte(s)) }
	events := []Event{
		{1, "kernel", "OVMF, EV_EFI_BOOT_SERVICES_APPLICATION (same profile): Authenticode digest of the PE image", [48]byte(h.Sum(nil))},
		{1, "Calling EFI Application from Boot Option", firmware, text("Calling EFI Application from Boot Option")},
		{1, "separator", "OVMF, EV_SEPARATOR (same profile): four zero bytes", sha512.Sum384(make([]byte, 4))},
		{1, "Exit Boot Services Invocation", firmware, text("Exit Boot Services Invocation")},
		{1, "Exit Boot Services Returned with Success", firmware, text("Exit Boot Services Returned with Success")},
		{2, fmt.Sprintf("command line %q", line), stub + ", LOADED_IMAGE::LoadOptions: UTF-16LE with its NUL", sha512.Sum384(options)},
	}
	if len(b.Initrd) > 0 {
		events = append(events, Event{2, "initrd", stub + ", Linux initrd: the file", sha512.Sum384(b.Initrd)})
	}
	return events, nil
}

// Replay returns a register after its events, from zero: each extends it to SHA-384(old value || digest) (TDG.MR.RTMR.EXTEND).
func Replay(events []Event, register int) (value [48]byte) {
	for _, e := range events {
		if e.Register == register {
			value = sha512.Sum384(slices.Concat(value[:], e.Digest[:]))
		}
	}
	return value
}

// Offsets in a PE32+ image (Microsoft PE Format).
const (
	peOffset       = 0x3c // of the offset of the PE signature
	peSections     = 6    // from the signature on: number of sections
	peOptionalSize = 20   // size of the optional header
	peOptional     = 24   // the optional header; the next four are offsets in it
	peMagic        = 0x20b
	peHeadersSize  = 60
	peChecksum     = 64
	peDirectories  = 108 // number of data directories, which follow
	peCertificates = 144 // the fifth of them, the certificate table: offset, size
	sectionSize    = 40
)

// Authenticode writes into h what the Authenticode digest of a PE32+ image covers: everything but the checksum, the entry
// of the certificate table and that table itself, sections in the order of their bytes (Microsoft, Windows Authenticode
// Portable Executable Signature Format, "Calculating the PE Image Hash"). It refuses images whose digest differs between
// implementations: sections that overlap or leave gaps, and sizes that are no multiple of eight.
func Authenticode(h hash.Hash, image []byte) error {
	le := binary.LittleEndian
	refuse := func(why string) error { return fmt.Errorf("PE image of %d bytes: %s", len(image), why) }
	if len(image) < peOffset+4 || string(image[:2]) != "MZ" {
		return refuse("no DOS header: not a kernel with an EFI stub")
	}
	at := uint64(le.Uint32(image[peOffset:]))
	optional := at + peOptional
	if optional+peCertificates+8 > uint64(len(image)) || string(image[at:at+4]) != "PE\x00\x00" {
		return refuse("no PE header")
	}
	o := image[optional:]
	if le.Uint16(o) != peMagic || le.Uint32(o[peDirectories:]) < 5 || len(image)%8 != 0 {
		return refuse("want PE32+ with a certificate table entry, and a size that is a multiple of eight")
	}
	headers := uint64(le.Uint32(o[peHeadersSize:]))
	count := uint64(le.Uint16(image[at+peSections:]))
	table := optional + uint64(le.Uint16(image[at+peOptionalSize:]))
	certificates, certificatesSize := uint64(le.Uint32(o[peCertificates:])), uint64(le.Uint32(o[peCertificates+4:]))
	end := uint64(len(image)) // of what is covered
	if certificatesSize > 0 {
		if certificates+certificatesSize != end {
			return refuse("certificates are not its end")
		}
		end = certificates
	}
	if table+count*sectionSize > headers || optional+peCertificates+8 > headers || headers > end {
		return refuse("headers do not hold the section table")
	}
	type run struct{ from, to uint64 }
	var runs []run
	for i := range count {
		s := image[table+i*sectionSize:]
		size, from := uint64(le.Uint32(s[16:])), uint64(le.Uint32(s[20:]))
		if size > 0 {
			runs = append(runs, run{from, from + size})
		}
	}
	slices.SortFunc(runs, func(a, b run) int { return int(int64(a.from) - int64(b.from)) })
	h.Write(image[:optional+peChecksum])
	h.Write(image[optional+peChecksum+4 : optional+peCertificates])
	h.Write(image[optional+peCertificates+8 : headers])
	hashed := headers
	for _, r := range runs {
		if r.from != hashed || r.to > end {
			return refuse("sections overlap, leave gaps or run past its end")
		}
		h.Write(image[r.from:r.to])
		hashed = r.to
	}
	h.Write(image[hashed:end])
	return nil
}
