package sevsnp

import (
	"fmt"
	"strconv"
	"strings"
)

// Line is a product line: the chips that share one AMD root key, one key distribution path and one TCB layout.
type Line string

// Product lines. Bergamo and Siena (family 19h, models A0h to AFh) are certified under Genoa, Turin Dense under Turin.
const (
	Milan Line = "Milan"
	Genoa Line = "Genoa"
	Turin Line = "Turin"
)

// Lines returns the product lines that this build knows.
func Lines() []Line { return []Line{Milan, Genoa, Turin} }

// LineOf returns the product line of a CPU by its CPUID family and model, or "" where this build knows none (57230,
// section 1.3; AMD processor programming references).
func LineOf(family, model uint8) Line {
	switch {
	case family == 0x19 && model <= 0x0F:
		return Milan
	case family == 0x19 && (model >= 0x10 && model <= 0x1F || model >= 0xA0 && model <= 0xAF):
		return Genoa
	case family == 0x1A && model <= 0x1F:
		return Turin
	}
	return ""
}

// TCBVersion is a TCB_VERSION as it stands in a report (tables 3 and 4). Its layout depends on the product line; compare
// it part by part, never as one number.
type TCBVersion uint64

// TCB is a TCB_VERSION in parts: security version numbers of the firmware's components.
type TCB struct {
	FMC        uint8 // Turin only
	Bootloader uint8
	TEE        uint8
	SNP        uint8
	Microcode  uint8
}

// Parts reads the version in the layout of a product line.
func (v TCBVersion) Parts(line Line) TCB {
	b := func(i int) uint8 { return uint8(v >> (8 * i)) }
	if line == Turin {
		return TCB{FMC: b(0), Bootloader: b(1), TEE: b(2), SNP: b(3), Microcode: b(7)}
	}
	return TCB{Bootloader: b(0), TEE: b(1), SNP: b(6), Microcode: b(7)}
}

// Encode writes the version in the layout of a product line.
func (t TCB) Encode(line Line) TCBVersion {
	at := func(x uint8, i int) TCBVersion { return TCBVersion(x) << (8 * i) }
	if line == Turin {
		return at(t.FMC, 0) | at(t.Bootloader, 1) | at(t.TEE, 2) | at(t.SNP, 3) | at(t.Microcode, 7)
	}
	return at(t.Bootloader, 0) | at(t.TEE, 1) | at(t.SNP, 6) | at(t.Microcode, 7)
}

// Text returns the value that claims carry, such as "bl=4 tee=0 snp=24 ucode=219", on Turin with "fmc=0" in front.
func (t TCB) Text(line Line) string {
	var b strings.Builder
	part := func(name string, v uint8) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(strconv.Itoa(int(v)))
	}
	if line == Turin {
		part("fmc", t.FMC)
	}
	part("bl", t.Bootloader)
	part("tee", t.TEE)
	part("snp", t.SNP)
	part("ucode", t.Microcode)
	return b.String()
}

// atLeast reports whether every part of t is at least that of floor.
func (t TCB) atLeast(floor TCB) bool {
	return t.FMC >= floor.FMC && t.Bootloader >= floor.Bootloader && t.TEE >= floor.TEE && t.SNP >= floor.SNP && t.Microcode >= floor.Microcode
}

// VCEKSource is where AMD publishes the VCEK of a chip at a TCB (57230, section 4.1). chip is the significant part of
// CHIP_ID. Every part of the TCB is in it, on Turin with FMC: two TCBs never share a source.
func VCEKSource(line Line, chip []byte, t TCB) string {
	q := fmt.Sprintf("blSPL=%02d&teeSPL=%02d&snpSPL=%02d&ucodeSPL=%02d", t.Bootloader, t.TEE, t.SNP, t.Microcode)
	if line == Turin {
		q = fmt.Sprintf("fmcSPL=%02d&", t.FMC) + q
	}
	return fmt.Sprintf("https://kdsintf.amd.com/vcek/v1/%s/%x?%s", line, chip, q)
}

// CRLSource is where AMD publishes the revocation list of a product line (57230, section 4.3).
func CRLSource(line Line, key SigningKey) string {
	return fmt.Sprintf("https://kdsintf.amd.com/%s/v1/%s/crl", key, line)
}
