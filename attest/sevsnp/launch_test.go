package sevsnp_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/vectors"
)

const (
	amdSev  = "cpu/measure/virtee-ovmf_AmdSev_suffix.bin"
	ovmfX64 = "cpu/measure/virtee-ovmf_OvmfX64_suffix.bin"
)

// TestLaunchDigestKnownAnswers holds the digest against the known answers of virtee/sev, which are source text of tests.
func TestLaunchDigestKnownAnswers(t *testing.T) {
	var rows []struct {
		Name, Vcpus, Ovmf, Kernel, Initrd, Append, Vmm string
		VcpuType                                       string `json:"vcpu_type"`
		Features                                       string `json:"guest_features"`
		OvmfHash                                       string `json:"ovmf_hash"`
		Expected                                       *string
	}
	if err := json.Unmarshal(vectors.Read(t, "cpu/measure/virtee-snp-launch-digests.json"), &rows); err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			file := amdSev
			if strings.Contains(r.Ovmf, "OvmfX64") {
				file = ovmfX64
			}
			if r.VcpuType != "CpuType::EpycV4" {
				t.Fatalf("vCPU type %s", r.VcpuType)
			}
			l := sevsnp.Launch{OVMF: vectors.Read(t, file), VCPUType: "EPYC-v4", VMM: sevsnp.QEMU}
			if strings.Contains(r.Vmm, "EC2") {
				l.VMM = sevsnp.EC2
			}
			fmt.Sscan(r.Vcpus, &l.VCPUs)
			fmt.Sscanf(r.Features, "GuestFeatures(0x%x)", &l.Features)
			if r.Kernel != "None" { // /dev/null stands for kernel and initrd
				l.Boot = &sevsnp.DirectBoot{}
				if parts := strings.Split(r.Append, `"`); len(parts) == 3 {
					l.Boot.Cmdline = parts[1]
				}
			}
			switch {
			case strings.Contains(r.OvmfHash, "ovmf_hash"):
				h, err := sevsnp.OVMFDigest(l.OVMF)
				if err != nil {
					t.Fatal(err)
				}
				l.OVMFHash = &h
			case r.OvmfHash != "None":
				l.OVMFHash = (*[48]byte)(unhex(t, r.OvmfHash))
			}
			got, err := sevsnp.LaunchDigest(l)
			if r.Expected == nil {
				if err == nil {
					t.Errorf("a kernel without a place for its hash gives digest %x", got)
				}
				return
			}
			answers++
			if err != nil || hex.EncodeToString(got[:]) != *r.Expected {
				t.Errorf("got %x, %v, want %s", got, err, *r.Expected)
			}
		})
	}
	if answers != 14 {
		t.Errorf("%d known answers, want 14", answers)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLaunchDigestInputs changes one input at a time: each changes the digest, or is refused for its own reason.
func TestLaunchDigestInputs(t *testing.T) {
	image := mint.Firmware(goodSections(), 0x810c00)
	good := func() sevsnp.Launch {
		return sevsnp.Launch{OVMF: image, VCPUs: 2, VCPUType: "EPYC-Milan", Features: 1, VMM: sevsnp.QEMU,
			Boot: &sevsnp.DirectBoot{Kernel: []byte("kernel"), Initrd: []byte("initrd"), Cmdline: "console=ttyS0"}}
	}
	base, err := sevsnp.LaunchDigest(good())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[48]byte]string{base: "base"}
	for _, c := range []struct {
		name   string
		change func(*sevsnp.Launch)
		want   string // part of the error; empty: another digest
	}{
		{"firmware byte", func(l *sevsnp.Launch) { l.OVMF = bytes.Clone(image); l.OVMF[0] ^= 1 }, ""},
		{"vCPU count", func(l *sevsnp.Launch) { l.VCPUs = 3 }, ""},
		{"vCPU type", func(l *sevsnp.Launch) { l.VCPUType = "EPYC-Genoa" }, ""},
		{"features", func(l *sevsnp.Launch) { l.Features = 0x21 }, ""},
		{"VMM", func(l *sevsnp.Launch) { l.VMM = sevsnp.EC2 }, ""},
		{"kernel", func(l *sevsnp.Launch) { l.Boot.Kernel = []byte("kernem") }, ""},
		{"initrd", func(l *sevsnp.Launch) { l.Boot.Initrd = []byte("initre") }, ""},
		{"command line", func(l *sevsnp.Launch) { l.Boot.Cmdline = "console=ttyS1" }, ""},
		{"command line is not trimmed", func(l *sevsnp.Launch) { l.Boot.Cmdline = "console=ttyS0 " }, ""},
		{"no kernel", func(l *sevsnp.Launch) { l.Boot = nil }, ""},
		{"unknown VMM", func(l *sevsnp.Launch) { l.VMM = "bhyve" }, `VMM "bhyve" is not known`},
		{"unknown vCPU type", func(l *sevsnp.Launch) { l.VCPUType = "EPYC-Venice" }, `vCPU type "EPYC-Venice" is not known`},
		{"unknown vCPU version", func(l *sevsnp.Launch) { l.VCPUType = "EPYC-Milan-v9" }, "is not known"},
		{"no vCPU type", func(l *sevsnp.Launch) { l.VCPUType = "" }, "is not known"},
		{"no vCPU", func(l *sevsnp.Launch) { l.VCPUs = 0 }, "0 vCPUs"},
		{"too many vCPUs", func(l *sevsnp.Launch) { l.VCPUs = sevsnp.MaxVCPUs + 1 }, "4097 vCPUs"},
		{"features without SNP", func(l *sevsnp.Launch) { l.Features = 0x20 }, "SNPActive"},
		{"NUL in command line", func(l *sevsnp.Launch) { l.Boot.Cmdline = "a\x00b" }, "NUL"},
		{"long command line", func(l *sevsnp.Launch) { l.Boot.Cmdline = strings.Repeat("a", sevsnp.MaxCmdline+1) }, "command line of"},
		{"large kernel", func(l *sevsnp.Launch) { l.Boot.Kernel = make([]byte, sevsnp.MaxKernel+1) }, "kernel of"},
		{"firmware without hashes section", func(l *sevsnp.Launch) {
			l.OVMF = mint.Firmware(goodSections()[:3], 0x810c00)
		}, "no place for its hash"},
		{"firmware without hashes table", func(l *sevsnp.Launch) { l.OVMF = mint.Firmware(goodSections(), 0) }, "no place for its hash"},
		{"hashes table crosses its page", func(l *sevsnp.Launch) { l.OVMF = mint.Firmware(goodSections(), 0x810f80) }, "crosses"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := good()
			c.change(&l)
			got, err := sevsnp.LaunchDigest(l)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[got]; ok {
				t.Errorf("same digest as %s", other)
			}
			seen[got] = c.name
		})
	}
}

// TestLaunchDigestSVSM: the calling area of a service module is measured as zero pages, like all memory given early.
func TestLaunchDigestSVSM(t *testing.T) {
	digest := func(typ uint32) [48]byte {
		d, err := sevsnp.LaunchDigest(sevsnp.Launch{VCPUs: 1, VCPUType: "EPYC", Features: 1, VMM: sevsnp.QEMU,
			OVMFHash: new([48]byte), // the images differ in the type; only what follows them is compared
			OVMF:     mint.Firmware([]sevsnp.Section{{0x800000, 0x1000, typ}}, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if digest(1) != digest(4) {
		t.Error("section type 4 is not measured as memory")
	}
	if digest(1) == digest(2) {
		t.Error("section type 2 is measured as memory")
	}
}

func TestVCPUSignature(t *testing.T) {
	for name, want := range map[string]uint32{ // EAX as the chips show it
		"EPYC": 0x00800f12, "EPYC-v4": 0x00800f12, "EPYC-IBPB": 0x00800f12, "EPYC-Rome-v2": 0x00830f10,
		"EPYC-Milan": 0x00a00f11, "EPYC-Milan-v2": 0x00a00f11, "EPYC-Genoa-v1": 0x00a10f10, "EPYC-Turin": 0x00b00f00,
	} {
		if got, err := sevsnp.VCPUSignature(name); err != nil || got != want {
			t.Errorf("%s: %#08x, %v, want %#08x", name, got, err, want)
		}
	}
	for _, name := range []string{"", "epyc", "EPYC-v0", "EPYC-v6", "EPYC-IBPB-v1", "EPYC-", "host", "max"} {
		if got, err := sevsnp.VCPUSignature(name); err == nil {
			t.Errorf("%q gives %#x", name, got)
		}
	}
	for _, name := range sevsnp.VCPUTypes() {
		if _, err := sevsnp.VCPUSignature(name); err != nil {
			t.Error(err)
		}
	}
}

func goodSections() []sevsnp.Section {
	return []sevsnp.Section{{0x800000, 0x9000, 1}, {0x80d000, 0x1000, 2}, {0x80e000, 0x1000, 3}, {0x810000, 0x1000, 0x10}}
}

func TestParseOVMF(t *testing.T) {
	for _, file := range []string{amdSev, ovmfX64} {
		o, err := sevsnp.ParseOVMF(vectors.Read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if o.ResetEIP != 0x80b004 || len(o.Sections) < 5 || (o.HashesBase == 0x810c00) != (file == amdSev) {
			t.Errorf("%s: %+v", file, o)
		}
	}
}

func TestParseOVMFFaults(t *testing.T) {
	good := mint.Firmware(goodSections(), 0x810c00)
	if _, err := sevsnp.ParseOVMF(good); err != nil {
		t.Fatal(err)
	}
	const metadata = 4096 - mint.MetadataOffset
	put32 := func(offset int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[offset:], v) }
	}
	sections := func(s ...sevsnp.Section) []byte { return mint.Firmware(s, 0) }
	for _, c := range []struct {
		name   string
		image  []byte
		change func([]byte)
		want   string
	}{
		{"empty", []byte{}, nil, "size 0"},
		{"truncated in a page", good[:4095], nil, "size 4095"},
		{"too large", make([]byte, sevsnp.MaxOVMF+4096), nil, "size 16781312"},
		{"no table", make([]byte, 4096), nil, "no table of GUIDs"},
		{"table longer than the image", good, func(b []byte) { binary.LittleEndian.PutUint16(b[4096-50:], 0xffff) }, "no table of GUIDs"},
		{"table shorter than its own entry", good, func(b []byte) { binary.LittleEndian.PutUint16(b[4096-50:], 17) }, "no table of GUIDs"},
		{"table of half an entry", good, func(b []byte) { binary.LittleEndian.PutUint16(b[4096-50:], 18+17) }, "left over"},
		{"entry shorter than its GUID", good, func(b []byte) { binary.LittleEndian.PutUint16(b[4096-50-18:], 17) }, "entry of 17 bytes"},
		{"entry longer than the table", good, func(b []byte) { binary.LittleEndian.PutUint16(b[4096-50-18:], 500) }, "entry of 500 bytes"},
		{"entry twice", mint.FirmwareTable(nil, mint.FirmwareEntry("00f771de-1a7e-4fcb-890e-68c77e2fb44e", 1), mint.FirmwareEntry("00f771de-1a7e-4fcb-890e-68c77e2fb44e", 2)), nil, "second entry"},
		{"entry without its word", mint.FirmwareTable(nil, mint.FirmwareEntry("00f771de-1a7e-4fcb-890e-68c77e2fb44e")), nil, "reset block: 0 bytes"},
		{"no metadata", mint.FirmwareTable(nil, mint.FirmwareEntry("00f771de-1a7e-4fcb-890e-68c77e2fb44e", 1)), nil, "no SEV metadata"},
		{"metadata before the image", mint.FirmwareTable(nil, mint.FirmwareEntry("dc886566-984a-4798-a75e-5585a7bf67cc", 4097)), nil, "SEV metadata 4097 bytes"},
		{"metadata far before the image", mint.FirmwareTable(nil, mint.FirmwareEntry("dc886566-984a-4798-a75e-5585a7bf67cc", 0xffffffff)), nil, "SEV metadata 4294967295 bytes"},
		{"metadata in the reset vector", mint.FirmwareTable(nil, mint.FirmwareEntry("dc886566-984a-4798-a75e-5585a7bf67cc", 15)), nil, "SEV metadata 15 bytes"},
		{"metadata signature", good, func(b []byte) { b[metadata] = 'X' }, `signature "XSEV"`},
		{"metadata version", good, put32(metadata+8, 2), "version 2 is not known"},
		{"no section", good, put32(metadata+12, 0), "0 sections"},
		{"too many sections", good, put32(metadata+12, sevsnp.MaxSections+1), "65 sections"},
		{"more sections than bytes", good, put32(metadata+12, 5), "for 5 sections"},
		{"metadata longer than the image", good, put32(metadata+4, 2049), "2049 bytes"},
		{"unknown section", sections(sevsnp.Section{0x800000, 0x1000, 9}), nil, "type 9 is not known"},
		{"section of no page", sections(sevsnp.Section{0x800000, 0, 1}), nil, "no whole pages"},
		{"section of half a page", sections(sevsnp.Section{0x800000, 0x1800, 1}), nil, "no whole pages"},
		{"section off a page", sections(sevsnp.Section{0x800800, 0x1000, 1}), nil, "no whole pages"},
		{"secrets of two pages", sections(sevsnp.Section{0x800000, 0x2000, 2}), nil, "want one page for type 2"},
		{"CPUID of two pages", sections(sevsnp.Section{0x800000, 0x2000, 3}), nil, "want one page for type 3"},
		{"section above 4 GiB", sections(sevsnp.Section{0xfffff000, 0x2000, 1}), nil, "end above 4 GiB"},
		{"section of 3 GiB", sections(sevsnp.Section{0, 0xc0000000, 1}), nil, "at most 67108864"},
		{"sections of 80 MiB together", sections(sevsnp.Section{0, 40 << 20, 1}, sevsnp.Section{40 << 20, 40 << 20, 1}), nil, "at most 67108864"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image := bytes.Clone(c.image)
			if c.change != nil {
				c.change(image)
			}
			o, err := sevsnp.ParseOVMF(image)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, error %v, want %q", o, err, c.want)
			}
		})
	}
}

func FuzzParseOVMF(f *testing.F) {
	f.Add(mint.Firmware(goodSections(), 0x810c00))
	f.Add(mint.FirmwareTable(nil, mint.FirmwareEntry("dc886566-984a-4798-a75e-5585a7bf67cc", 0xffffffff)))
	f.Fuzz(func(t *testing.T, tail []byte) {
		// Tables stand at the end of whole pages; what the fuzzer finds is put there.
		image := make([]byte, (len(tail)+4095)/4096*4096)
		copy(image[len(image)-len(tail):], tail)
		o, err := sevsnp.ParseOVMF(image)
		if err != nil {
			return
		}
		total := 0
		for _, s := range o.Sections {
			total += int(s.Size)
		}
		if len(o.Sections) > sevsnp.MaxSections || total > sevsnp.MaxSectionBytes {
			t.Errorf("%d sections of %d bytes", len(o.Sections), total)
		}
		// What parses is all that the digest needs: it fails for no reason of the firmware's but these two.
		_, err = sevsnp.LaunchDigest(sevsnp.Launch{OVMF: image, OVMFHash: new([48]byte), VCPUs: 2, VCPUType: "EPYC", Features: 1, VMM: sevsnp.QEMU})
		if err != nil && o.ResetEIP != 0 {
			t.Error(err)
		}
	})
}

// BenchmarkLaunchDigest is a guest of 8 vCPUs on 4 MiB of firmware, with a kernel. The bare work is hashing the firmware.
func BenchmarkLaunchDigest(b *testing.B) {
	image := append(make([]byte, 4<<20-4096), mint.Firmware(goodSections(), 0x810c00)...)
	l := sevsnp.Launch{OVMF: image, VCPUs: 8, VCPUType: "EPYC-Milan", Features: 1, VMM: sevsnp.QEMU, Boot: &sevsnp.DirectBoot{}}
	b.Run("digest", func(b *testing.B) {
		for b.Loop() {
			if _, err := sevsnp.LaunchDigest(l); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare SHA-384", func(b *testing.B) {
		for b.Loop() {
			sha512.Sum384(image)
		}
	})
}
