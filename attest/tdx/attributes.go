package tdx

import (
	"slices"
	"strings"
)

// TDAttributes is TDATTRIBUTES (TDX module 1.5 ABI specification, section 3.4.1).
type TDAttributes uint64

// Bits of TDATTRIBUTES. The lowest byte (TUD) holds what makes a TD untrusted: debugging, and bits that are reserved for
// the like.
const (
	AttributeTUD        TDAttributes = 0xff
	AttributeDebug      TDAttributes = 1 << 0
	AttributeICSSD      TDAttributes = 1 << 16
	AttributeLASS       TDAttributes = 1 << 27
	AttributeSEPTVEOff  TDAttributes = 1 << 28 // SEPT_VE_DISABLE
	AttributeMigratable TDAttributes = 1 << 29
	AttributePKS        TDAttributes = 1 << 30
	AttributeKL         TDAttributes = 1 << 31
	AttributeTPA        TDAttributes = 1 << 62
	AttributePerfmon    TDAttributes = 1 << 63
)

// words names the attributes that are on, beside those of the lowest byte, which tdx.debug-off speaks of. reserved are
// the bits that this build does not know.
func (a TDAttributes) words() (on []string, reserved TDAttributes) {
	reserved = a &^ AttributeTUD
	for _, w := range []struct {
		bit  TDAttributes
		word string
	}{
		{AttributeICSSD, "icssd"}, {AttributeKL, "kl"}, {AttributeLASS, "lass"}, {AttributeMigratable, "migratable"}, {AttributePerfmon, "perfmon"},
		{AttributePKS, "pks"}, {AttributeSEPTVEOff, "sept-ve-disable"}, {AttributeTPA, "tpa"},
	} {
		if a&w.bit != 0 {
			on = append(on, w.word)
		}
		reserved &^= w.bit
	}
	return on, reserved
}

// XFAM is the mask of extended features that the TD may use, with the bits of XCR0 and IA32_XSS.
type XFAM uint64

var xfamWords = [64]string{
	0: "x87", 1: "sse", 2: "avx", 5: "avx512-opmask", 6: "avx512-zmm-hi256", 7: "avx512-hi16-zmm", 8: "pt", 9: "pku",
	11: "cet-u", 12: "cet-s", 14: "uintr", 15: "lbr", 17: "amx-cfg", 18: "amx-data", 19: "apx",
}

// words names the features that are on, sorted; reserved are the bits that this build does not know.
func (x XFAM) words() (on []string, reserved XFAM) {
	for i, word := range xfamWords {
		switch bit := XFAM(1) << i; {
		case x&bit == 0:
		case word == "":
			reserved |= bit
		default:
			on = append(on, word)
		}
	}
	slices.Sort(on)
	return on, reserved
}

// set writes words as the value of a claim: sorted, parted by spaces.
func set(words []string) string { return strings.Join(words, " ") }
