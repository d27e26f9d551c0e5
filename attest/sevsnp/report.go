package sevsnp

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/assay-network/assay/attest"
)

// Report is a decoded attestation report, fields as in table 23 of the ABI specification. The zero value of a field that
// the report's version does not have is zero.
type Report struct {
	Version         uint32
	GuestSVN        uint32
	Policy          Policy
	FamilyID        [16]byte
	ImageID         [16]byte
	VMPL            uint32 // HostVMPL: the host asked, not the guest
	SignatureAlgo   uint32
	CurrentTCB      TCBVersion
	PlatformInfo    PlatformInfo
	KeyInfo         KeyInfo
	ReportData      [64]byte
	Measurement     [48]byte
	HostData        [32]byte
	IDKeyDigest     [48]byte
	AuthorKeyDigest [48]byte
	ReportID        [32]byte
	ReportIDMA      [32]byte
	ReportedTCB     TCBVersion
	Family          uint8 // CPUID_FAM_ID, version 3 on
	Model           uint8 // CPUID_MOD_ID, version 3 on
	Stepping        uint8 // CPUID_STEP, version 3 on
	ChipID          [64]byte
	CommittedTCB    TCBVersion
	Current         FirmwareVersion
	Committed       FirmwareVersion
	LaunchTCB       TCBVersion
	LaunchMit       uint64   // LAUNCH_MIT_VECTOR, version 5 on
	CurrentMit      uint64   // CURRENT_MIT_VECTOR, version 5 on
	R, S            [72]byte // SIGNATURE, little-endian; not covered by itself
}

// HostVMPL is the VMPL of a report that the host asked for.
const HostVMPL = 0xFFFFFFFF

// sigECDSAP384 is the only SIGNATURE_ALGO: ECDSA P-384 with SHA-384 (table 138).
const sigECDSAP384 = 1

// FirmwareVersion is the version of the SNP firmware.
type FirmwareVersion struct{ Build, Minor, Major uint8 }

func (v FirmwareVersion) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Build) }

// Policy is the guest policy (table 9).
type Policy uint64

// Bits of the guest policy.
const (
	PolicySMT          Policy = 1 << 16
	PolicyReservedOne  Policy = 1 << 17 // must be one
	PolicyMigrateMA    Policy = 1 << 18
	PolicyDebug        Policy = 1 << 19
	PolicySingleSocket Policy = 1 << 20
	PolicyCXLAllow     Policy = 1 << 21
	PolicyMemAES256XTS Policy = 1 << 22
	PolicyRAPLDis      Policy = 1 << 23
	PolicyCipherHiding Policy = 1 << 24
	PolicyPageSwapOff  Policy = 1 << 25
	policyKnown        Policy = 1<<26 - 1
)

// PlatformInfo is PLATFORM_INFO (table 24).
type PlatformInfo uint64

// Bits of PLATFORM_INFO.
const (
	PlatformSMT          PlatformInfo = 1 << 0
	PlatformTSME         PlatformInfo = 1 << 1
	PlatformECC          PlatformInfo = 1 << 2
	PlatformRAPLDis      PlatformInfo = 1 << 3
	PlatformCipherHiding PlatformInfo = 1 << 4
	PlatformAliasCheck   PlatformInfo = 1 << 5
	PlatformTIO          PlatformInfo = 1 << 7
	platformKnown                     = PlatformSMT | PlatformTSME | PlatformECC | PlatformRAPLDis | PlatformCipherHiding | PlatformAliasCheck | PlatformTIO
)

// KeyInfo is the word at offset 48h: AUTHOR_KEY_EN, MASK_CHIP_KEY and SIGNING_KEY.
type KeyInfo uint32

// Fields of KeyInfo.
const (
	AuthorKeyEn  KeyInfo = 1 << 0
	MaskChipKey  KeyInfo = 1 << 1
	keyInfoKnown KeyInfo = 1<<5 - 1
)

// SigningKey is the kind of key that signed a report.
type SigningKey uint8

// Values of SIGNING_KEY (bits 4:2).
const (
	SigningVCEK SigningKey = 0
	SigningVLEK SigningKey = 1
	SigningNone SigningKey = 7
)

func (k SigningKey) String() string {
	switch k {
	case SigningVCEK:
		return "vcek"
	case SigningVLEK:
		return "vlek"
	case SigningNone:
		return "none"
	}
	return fmt.Sprintf("SigningKey(%d)", uint8(k))
}

// SigningKey returns the kind of key that the report names.
func (i KeyInfo) SigningKey() SigningKey { return SigningKey(i >> 2 & 7) }

// WithSigningKey returns i with SIGNING_KEY set to k.
func (i KeyInfo) WithSigningKey(k SigningKey) KeyInfo { return i&^(7<<2) | KeyInfo(k)<<2 }

// field ties a name of table 23 to its place. The table is written once and read three ways: parse, encode, inspect.
type field struct {
	name   string
	offset int
	size   int
	since  uint32 // first version that has it; before, the bytes are reserved
	at     func(*Report) any
}

// layout covers the 1184 bytes without a gap. Fields with a nil at are reserved and must be zero.
var layout = []field{
	{"VERSION", 0x000, 4, 2, func(r *Report) any { return &r.Version }},
	{"GUEST_SVN", 0x004, 4, 2, func(r *Report) any { return &r.GuestSVN }},
	{"POLICY", 0x008, 8, 2, func(r *Report) any { return (*uint64)(&r.Policy) }},
	{"FAMILY_ID", 0x010, 16, 2, func(r *Report) any { return r.FamilyID[:] }},
	{"IMAGE_ID", 0x020, 16, 2, func(r *Report) any { return r.ImageID[:] }},
	{"VMPL", 0x030, 4, 2, func(r *Report) any { return &r.VMPL }},
	{"SIGNATURE_ALGO", 0x034, 4, 2, func(r *Report) any { return &r.SignatureAlgo }},
	{"CURRENT_TCB", 0x038, 8, 2, func(r *Report) any { return (*uint64)(&r.CurrentTCB) }},
	{"PLATFORM_INFO", 0x040, 8, 2, func(r *Report) any { return (*uint64)(&r.PlatformInfo) }},
	{"SIGNING_KEY|MASK_CHIP_KEY|AUTHOR_KEY_EN", 0x048, 4, 2, func(r *Report) any { return (*uint32)(&r.KeyInfo) }},
	{"reserved", 0x04C, 4, 2, nil},
	{"REPORT_DATA", 0x050, 64, 2, func(r *Report) any { return r.ReportData[:] }},
	{"MEASUREMENT", 0x090, 48, 2, func(r *Report) any { return r.Measurement[:] }},
	{"HOST_DATA", 0x0C0, 32, 2, func(r *Report) any { return r.HostData[:] }},
	{"ID_KEY_DIGEST", 0x0E0, 48, 2, func(r *Report) any { return r.IDKeyDigest[:] }},
	{"AUTHOR_KEY_DIGEST", 0x110, 48, 2, func(r *Report) any { return r.AuthorKeyDigest[:] }},
	{"REPORT_ID", 0x140, 32, 2, func(r *Report) any { return r.ReportID[:] }},
	{"REPORT_ID_MA", 0x160, 32, 2, func(r *Report) any { return r.ReportIDMA[:] }},
	{"REPORTED_TCB", 0x180, 8, 2, func(r *Report) any { return (*uint64)(&r.ReportedTCB) }},
	{"CPUID_FAM_ID", 0x188, 1, 3, func(r *Report) any { return &r.Family }},
	{"CPUID_MOD_ID", 0x189, 1, 3, func(r *Report) any { return &r.Model }},
	{"CPUID_STEP", 0x18A, 1, 3, func(r *Report) any { return &r.Stepping }},
	{"reserved", 0x18B, 21, 2, nil},
	{"CHIP_ID", 0x1A0, 64, 2, func(r *Report) any { return r.ChipID[:] }},
	{"COMMITTED_TCB", 0x1E0, 8, 2, func(r *Report) any { return (*uint64)(&r.CommittedTCB) }},
	{"CURRENT_BUILD", 0x1E8, 1, 2, func(r *Report) any { return &r.Current.Build }},
	{"CURRENT_MINOR", 0x1E9, 1, 2, func(r *Report) any { return &r.Current.Minor }},
	{"CURRENT_MAJOR", 0x1EA, 1, 2, func(r *Report) any { return &r.Current.Major }},
	{"reserved", 0x1EB, 1, 2, nil},
	{"COMMITTED_BUILD", 0x1EC, 1, 2, func(r *Report) any { return &r.Committed.Build }},
	{"COMMITTED_MINOR", 0x1ED, 1, 2, func(r *Report) any { return &r.Committed.Minor }},
	{"COMMITTED_MAJOR", 0x1EE, 1, 2, func(r *Report) any { return &r.Committed.Major }},
	{"reserved", 0x1EF, 1, 2, nil},
	{"LAUNCH_TCB", 0x1F0, 8, 2, func(r *Report) any { return (*uint64)(&r.LaunchTCB) }},
	{"LAUNCH_MIT_VECTOR", 0x1F8, 8, 5, func(r *Report) any { return &r.LaunchMit }},
	{"CURRENT_MIT_VECTOR", 0x200, 8, 5, func(r *Report) any { return &r.CurrentMit }},
	{"reserved", 0x208, 152, 2, nil},
	{"SIGNATURE.R", 0x2A0, 72, 2, func(r *Report) any { return r.R[:] }},
	{"SIGNATURE.S", 0x2E8, 72, 2, func(r *Report) any { return r.S[:] }},
	{"SIGNATURE.reserved", 0x330, 368, 2, nil},
}

var le = binary.LittleEndian

// Parse decodes a report. It checks size, version and signature algorithm, and that the bytes behind the signature are
// zero, since nothing covers them; it verifies nothing. Reserved fields of the signed part are left to the claim
// sevsnp.reserved-bits: newer firmware may use them.
func Parse(raw []byte) (attest.Unverified[Report], error) {
	var none attest.Unverified[Report]
	if len(raw) != ReportSize {
		return none, fmt.Errorf("parse SNP report: size %d, want %d", len(raw), ReportSize)
	}
	if v := le.Uint32(raw); v < minVersion || v > maxVersion {
		return none, fmt.Errorf("parse SNP report: offset 0x000: VERSION %d is not known to this build, which reads %d to %d", v, minVersion, maxVersion)
	}
	raw = bytes.Clone(raw)
	var r Report
	r.Version = le.Uint32(raw)
	for _, f := range layout {
		if f.at == nil || f.since > r.Version {
			continue
		}
		if _, err := binary.Decode(raw[f.offset:f.offset+f.size], le, f.at(&r)); err != nil {
			return none, fmt.Errorf("parse SNP report: %s: %w", f.name, err)
		}
	}
	if r.SignatureAlgo != sigECDSAP384 {
		return none, fmt.Errorf("parse SNP report: offset 0x034: SIGNATURE_ALGO %d, want %d (ECDSA P-384 with SHA-384)", r.SignatureAlgo, sigECDSAP384)
	}
	for i, b := range raw[SignedSize+2*scalarSize:] {
		if b != 0 {
			return none, fmt.Errorf("parse SNP report: offset 0x%03x: byte behind the signature is 0x%02x, want 0", SignedSize+2*scalarSize+i, b)
		}
	}
	if r.Version >= 3 && r.Family == 0 && r.Model == 0 && r.Stepping == 0 {
		return none, fmt.Errorf("parse SNP report: offset 0x188: version %d with no CPUID family, model and stepping", r.Version)
	}
	return attest.NewUnverified(r, raw[:SignedSize], raw[SignedSize:]), nil
}

// Encode writes the report as the firmware does. What [Parse] read is written back byte for byte where no reserved bit
// was set.
func (r Report) Encode() []byte {
	raw := make([]byte, ReportSize)
	for _, f := range layout {
		if f.at == nil || f.since > r.Version {
			continue
		}
		if _, err := binary.Encode(raw[f.offset:f.offset+f.size], le, f.at(&r)); err != nil {
			panic("sevsnp: internal error: " + f.name + ": " + err.Error())
		}
	}
	return raw
}

// reservedBits names every bit set in the signed part that the report's version and product line reserve.
func reservedBits(signed []byte, r Report, line Line) (faults []string) {
	for _, f := range layout {
		if f.offset >= SignedSize || f.at != nil && f.since <= r.Version {
			continue
		}
		for i, b := range signed[f.offset : f.offset+f.size] {
			if b != 0 {
				faults = append(faults, fmt.Sprintf("offset 0x%03x is 0x%02x", f.offset+i, b))
			}
		}
	}
	if r.Policy&PolicyReservedOne == 0 {
		faults = append(faults, "POLICY bit 17 is 0")
	}
	if x := r.Policy &^ policyKnown; x != 0 {
		faults = append(faults, fmt.Sprintf("POLICY has 0x%x", uint64(x)))
	}
	if x := r.PlatformInfo &^ platformKnown; x != 0 {
		faults = append(faults, fmt.Sprintf("PLATFORM_INFO has 0x%x", uint64(x)))
	}
	if x := r.KeyInfo &^ keyInfoKnown; x != 0 {
		faults = append(faults, fmt.Sprintf("offset 0x048 has 0x%x", uint32(x)))
	}
	for _, t := range []struct {
		name string
		v    TCBVersion
	}{{"CURRENT_TCB", r.CurrentTCB}, {"REPORTED_TCB", r.ReportedTCB}, {"COMMITTED_TCB", r.CommittedTCB}, {"LAUNCH_TCB", r.LaunchTCB}} {
		if t.v.Parts(line).Encode(line) != t.v {
			faults = append(faults, fmt.Sprintf("%s has reserved bytes in 0x%016x", t.name, uint64(t.v)))
		}
	}
	return faults
}
