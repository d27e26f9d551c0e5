package sevsnp_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-sev-guest/abi"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/vectors"
)

// anyReport returns 1184 random bytes that are a report of a version: all that [sevsnp.Parse] checks is in place.
func anyReport(r *rand.Rand, version uint32) []byte {
	raw := make([]byte, sevsnp.ReportSize)
	for i := range 0x330 {
		raw[i] = byte(r.Uint32())
	}
	binary.LittleEndian.PutUint32(raw, version)
	binary.LittleEndian.PutUint32(raw[0x34:], 1)
	raw[0x188] |= 1
	return raw
}

// reserved lists the bytes that ABI 56860 rev. 1.58 table 23 reserves in a version, written here a second time.
func reserved(version uint32) (at [][2]int) {
	at = [][2]int{{0x4C, 0x50}, {0x18B, 0x1A0}, {0x1EB, 0x1EC}, {0x1EF, 0x1F0}, {0x208, 0x2A0}}
	if version < 3 {
		at = append(at, [2]int{0x188, 0x18B})
	}
	if version < 5 {
		at = append(at, [2]int{0x1F8, 0x208})
	}
	return at
}

func checkRoundTrip(t *testing.T, raw []byte) {
	t.Helper()
	u, err := sevsnp.Parse(raw)
	if err != nil {
		return
	}
	want := bytes.Clone(raw)
	for _, r := range reserved(u.Peek().Version) {
		clear(want[r[0]:r[1]])
	}
	if got := u.Peek().Encode(); !bytes.Equal(got, want) {
		t.Errorf("a version %d report does not survive: %x", u.Peek().Version, got)
	}
	fields, err := sevsnp.Fields(raw)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, f := range fields {
		if f.Offset != at {
			t.Errorf("%s at 0x%x, want 0x%x: a gap", f.Name, f.Offset, at)
		}
		at += f.Size
	}
	if at != sevsnp.ReportSize {
		t.Errorf("fields end at 0x%x", at)
	}
}

func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for version := range uint32(8) {
		f.Add(anyReport(r, version))
	}
	f.Add([]byte{})
	f.Add(make([]byte, sevsnp.ReportSize+1))
	f.Fuzz(checkRoundTrip)
}

func TestParseRefusals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	set := func(offset int, b ...byte) func([]byte) []byte {
		return func(raw []byte) []byte { copy(raw[offset:], b); return raw }
	}
	for _, row := range []struct {
		name   string
		change func([]byte) []byte
		want   string
	}{
		{"sound", func(b []byte) []byte { return b }, ""},
		{"empty", func([]byte) []byte { return nil }, "size 0, want 1184"},
		{"one byte short", func(b []byte) []byte { return b[1:] }, "size 1183"},
		{"one byte long", func(b []byte) []byte { return append(b, 0) }, "size 1185"},
		{"version 0", set(0, 0), "VERSION 0 is not known to this build, which reads 2 to 5"},
		{"version 1", set(0, 1), "VERSION 1 is not known"},
		{"version 6", set(0, 6), "VERSION 6 is not known"},
		{"version 2 in the wrong byte order", set(0, 0, 0, 0, 2), "VERSION 33554432"},
		{"algorithm 0", set(0x34, 0), "offset 0x034: SIGNATURE_ALGO 0"},
		{"byte behind the signature", set(0x330, 1), "offset 0x330"},
		{"last byte", set(0x49F, 1), "offset 0x49f"},
		{"no CPUID", set(0x188, 0, 0, 0), "offset 0x188"},
	} {
		_, err := sevsnp.Parse(row.change(anyReport(r, 3)))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	if _, err := sevsnp.Parse(set(0x188, 0, 0, 0)(anyReport(r, 2))); err != nil {
		t.Errorf("version 2 has no CPUID: %v", err)
	}
}

// TestParseOwnsItsBytes: what is signed cannot change under the caller's hands.
func TestParseOwnsItsBytes(t *testing.T) {
	raw := anyReport(rand.New(rand.NewPCG(5, 6)), 3)
	was := bytes.Clone(raw)
	u, err := sevsnp.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if _, ok := u.Verify(func(message, signature []byte) bool {
		return bytes.Equal(message, was[:0x2A0]) && bytes.Equal(signature, was[0x2A0:])
	}); !ok {
		t.Error("the message changed with the caller's bytes")
	}
}

// TestParseAgainstOracle compares every field of random reports with go-sev-guest's reading.
func TestParseAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 400 {
		version := 2 + r.Uint32N(4)
		raw := anyReport(r, version)
		for _, at := range reserved(version) { // the oracle refuses these, we claim reserved-bits
			clear(raw[at[0]:at[1]])
		}
		binary.LittleEndian.PutUint64(raw[0x08:], (r.Uint64()&(1<<26-1))|1<<17)
		binary.LittleEndian.PutUint64(raw[0x40:], r.Uint64()&0x3F)
		binary.LittleEndian.PutUint32(raw[0x48:], []uint32{0, 1, 4, 5, 0x1E}[r.IntN(5)])
		their, err := abi.ReportToProto(raw)
		if err != nil {
			t.Fatalf("oracle: %v", err)
		}
		u, err := sevsnp.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		our := u.Peek()
		for name, pair := range map[string][2]uint64{
			"VERSION": {uint64(our.Version), uint64(their.Version)}, "GUEST_SVN": {uint64(our.GuestSVN), uint64(their.GuestSvn)},
			"POLICY": {uint64(our.Policy), their.Policy}, "VMPL": {uint64(our.VMPL), uint64(their.Vmpl)},
			"CURRENT_TCB": {uint64(our.CurrentTCB), their.CurrentTcb}, "PLATFORM_INFO": {uint64(our.PlatformInfo), their.PlatformInfo},
			"SIGNING_KEY": {uint64(our.KeyInfo), uint64(their.SignerInfo)}, "REPORTED_TCB": {uint64(our.ReportedTCB), their.ReportedTcb},
			"COMMITTED_TCB": {uint64(our.CommittedTCB), their.CommittedTcb}, "LAUNCH_TCB": {uint64(our.LaunchTCB), their.LaunchTcb},
			"CURRENT_BUILD": {uint64(our.Current.Build), uint64(their.CurrentBuild)}, "CURRENT_MINOR": {uint64(our.Current.Minor), uint64(their.CurrentMinor)},
			"CURRENT_MAJOR": {uint64(our.Current.Major), uint64(their.CurrentMajor)}, "COMMITTED_BUILD": {uint64(our.Committed.Build), uint64(their.CommittedBuild)},
			"COMMITTED_MINOR": {uint64(our.Committed.Minor), uint64(their.CommittedMinor)}, "COMMITTED_MAJOR": {uint64(our.Committed.Major), uint64(their.CommittedMajor)},
			"LAUNCH_MIT_VECTOR": {our.LaunchMit, their.LaunchMitVector}, "CURRENT_MIT_VECTOR": {our.CurrentMit, their.CurrentMitVector},
		} {
			if pair[0] != pair[1] {
				t.Errorf("version %d: %s: %x, oracle %x", version, name, pair[0], pair[1])
			}
		}
		for name, pair := range map[string][2][]byte{
			"FAMILY_ID": {our.FamilyID[:], their.FamilyId}, "IMAGE_ID": {our.ImageID[:], their.ImageId}, "REPORT_DATA": {our.ReportData[:], their.ReportData},
			"MEASUREMENT": {our.Measurement[:], their.Measurement}, "HOST_DATA": {our.HostData[:], their.HostData}, "ID_KEY_DIGEST": {our.IDKeyDigest[:], their.IdKeyDigest},
			"AUTHOR_KEY_DIGEST": {our.AuthorKeyDigest[:], their.AuthorKeyDigest}, "REPORT_ID": {our.ReportID[:], their.ReportId},
			"REPORT_ID_MA": {our.ReportIDMA[:], their.ReportIdMa}, "CHIP_ID": {our.ChipID[:], their.ChipId},
		} {
			if !bytes.Equal(pair[0], pair[1]) {
				t.Errorf("version %d: %s: %x, oracle %x", version, name, pair[0], pair[1])
			}
		}
	}
}

func TestLineOf(t *testing.T) {
	for family := range 256 {
		for model := range 256 {
			want := sevsnp.Line("")
			switch {
			case family == 0x19 && model < 0x10:
				want = sevsnp.Milan
			case family == 0x19 && (model>>4 == 0x1 || model>>4 == 0xA):
				want = sevsnp.Genoa
			case family == 0x1A && model < 0x20:
				want = sevsnp.Turin
			}
			if got := sevsnp.LineOf(uint8(family), uint8(model)); got != want {
				t.Errorf("family %02Xh model %02Xh: %q, want %q", family, model, got, want)
			}
		}
	}
}

func TestTCBParts(t *testing.T) {
	const v = sevsnp.TCBVersion(0xD518_0000_0000_0704)
	if got := v.Parts(sevsnp.Milan); got != (sevsnp.TCB{Bootloader: 4, TEE: 7, SNP: 0x18, Microcode: 0xD5}) {
		t.Errorf("Milan: %+v", got)
	}
	const turin = sevsnp.TCBVersion(0x4B00_0000_0403_0201)
	if got := turin.Parts(sevsnp.Turin); got != (sevsnp.TCB{FMC: 1, Bootloader: 2, TEE: 3, SNP: 4, Microcode: 0x4B}) {
		t.Errorf("Turin: %+v", got)
	}
	if v.Parts(sevsnp.Milan).Text(sevsnp.Milan) != "bl=4 tee=7 snp=24 ucode=213" || turin.Parts(sevsnp.Turin).Text(sevsnp.Turin) != "fmc=1 bl=2 tee=3 snp=4 ucode=75" {
		t.Error(v.Parts(sevsnp.Milan).Text(sevsnp.Milan), turin.Parts(sevsnp.Turin).Text(sevsnp.Turin))
	}
	r := rand.New(rand.NewPCG(9, 9))
	for range 1000 {
		for _, line := range sevsnp.Lines() {
			x := sevsnp.TCBVersion(r.Uint64())
			again := x.Parts(line).Encode(line)
			if again.Parts(line) != x.Parts(line) || again&^x != 0 {
				t.Fatalf("%s: %016x reads as %+v", line, uint64(x), x.Parts(line))
			}
		}
	}
}

func realTable(t testing.TB) []byte {
	a := mint.NewAMD(sevsnp.Milan)
	return a.VCEKTable(a.VCEK(a.Chip("one"), sevsnp.TCB{}, mint.Options{}))
}

// tableOf writes entries whose offsets and lengths are anybody's.
func tableOf(size int, entries ...[2]uint32) []byte {
	table := make([]byte, max(size, 24*(len(entries)+1)))
	for i, e := range entries {
		table[24*i] = 0xAA
		binary.LittleEndian.PutUint32(table[24*i+16:], e[0])
		binary.LittleEndian.PutUint32(table[24*i+20:], e[1])
	}
	return table
}

func TestParseTable(t *testing.T) {
	many := func(n int) (e [][2]uint32) {
		for range n {
			e = append(e, [2]uint32{1000, 1})
		}
		return e
	}
	for _, row := range []struct {
		name  string
		table []byte
		certs int
		want  string
	}{
		{"VCEK, ASK, ARK", realTable(t), 3, ""},
		{"empty", make([]byte, 24), 0, ""},
		{"no bytes", nil, 0, "no ending entry"},
		{"cut entry", make([]byte, 23), 0, "no ending entry"},
		{"no ending entry", tableOf(0, [2]uint32{24, 1})[:47], 0, "no ending entry"},
		{"sum wraps 32 bits", tableOf(100, [2]uint32{0xFFFFFFFF, 2}), 0, "outside the table"},
		{"offset outside", tableOf(100, [2]uint32{100, 1}), 0, "outside the table"},
		{"end outside", tableOf(100, [2]uint32{99, 2}), 0, "outside the table"},
		{"last byte", tableOf(100, [2]uint32{99, 1}), 1, ""},
		{"certificate over its own entry", tableOf(100, [2]uint32{0, 24}), 0, "outside the table"},
		{"length zero", tableOf(100, [2]uint32{50, 0}), 0, "certificate of 0 bytes"},
		{"length huge", tableOf(100, [2]uint32{50, 0xFFFFFFFF}), 0, "certificate of 4294967295 bytes"},
		{"overlap", tableOf(100, [2]uint32{80, 10}, [2]uint32{85, 10}), 2, ""},
		{"16 certificates", tableOf(2000, many(16)...), 16, ""},
		{"17 certificates", tableOf(2000, many(17)...), 0, "more than 16"},
		{"64 KiB", tableOf(64<<10, [2]uint32{100, 1}), 1, ""},
		{"64 KiB and a byte", tableOf(64<<10+1, [2]uint32{100, 1}), 0, "at most"},
	} {
		certs, err := sevsnp.ParseTable(row.table)
		if row.want == "" && (err != nil || len(certs) != row.certs) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %d certificates, %v; want %d, %q", row.name, len(certs), err, row.certs, row.want)
		}
	}
}

func TestReadCertificates(t *testing.T) {
	a := mint.NewAMD(sevsnp.Milan)
	vcek := a.VCEK(a.Chip("one"), sevsnp.TCB{}, mint.Options{})
	for name, row := range map[string]struct {
		data []byte
		n    int
	}{
		"DER": {vcek.DER, 1}, "PEM": {append(vcek.PEM(), a.ASK.PEM()...), 2}, "table": {a.VCEKTable(vcek), 3},
		"empty table": {make([]byte, 24), 0}, "nothing": {nil, 0}, "text": {[]byte("hello"), 0}, "large": {make([]byte, 64<<10+1), 0},
		"PEM among other bytes": {append([]byte{4, 0, 2, 0, '\n'}, vcek.PEM()...), 0}, "PEM behind words": {append([]byte("the VCEK\n"), vcek.PEM()...), 1},
		"a digit": {[]byte("02000000"), 0}, "DER and more": {append(bytes.Clone(vcek.DER), 0), 0}, "DER cut": {vcek.DER[:len(vcek.DER)-1], 0},
		"a private key": {[]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), 0},
	} {
		certs, err := sevsnp.ReadCertificates(row.data)
		if (err == nil) != (row.n > 0) || len(certs) != row.n {
			t.Errorf("%s: %d certificates, %v, want %d", name, len(certs), err, row.n)
		}
		if row.n > 0 && !bytes.Equal(certs[0], vcek.DER) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

// TestOracleOverflow holds the table that makes go-sev-guest v0.15.0 panic (its bounds check wraps 32 bits).
func TestOracleOverflow(t *testing.T) {
	file := vectors.Read(t, "cpu/selfmade/snp/BAD-crash-certtable-overflow.bin")
	table := file
	if len(file) > sevsnp.ReportSize && binary.LittleEndian.Uint32(file) < 16 {
		table = file[sevsnp.ReportSize:]
	}
	if certs, err := sevsnp.ParseTable(table); err == nil {
		t.Errorf("%d certificates", len(certs))
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(realTable(f))
	f.Add(tableOf(100, [2]uint32{0xFFFFFFFF, 2}))
	f.Fuzz(func(t *testing.T, table []byte) {
		certs, err := sevsnp.ParseTable(table)
		if err != nil && certs != nil {
			t.Error("certificates with an error")
		}
		for _, c := range certs {
			if len(c) == 0 || !bytes.Contains(table, c) {
				t.Error("a certificate that is no part of the table")
			}
		}
	})
}

func FuzzReadCertificates(f *testing.F) {
	a := mint.NewAMD(sevsnp.Milan)
	f.Add(realTable(f))
	f.Add(a.ASK.PEM())
	f.Add(a.ASK.DER)
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, err := sevsnp.ReadCertificates(data)
		total := 0
		for _, c := range certs {
			total += len(c)
		}
		if err == nil && len(certs) == 0 || total > 16*len(data) {
			t.Errorf("%d certificates of %d bytes, %v", len(certs), total, err)
		}
	})
}

// TestRealFieldsAreEncodedAgain: real reports survive decoding and encoding to the byte.
func TestRealFieldsAreEncodedAgain(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(vectors.Dir(t), "cpu", "*", "snp", "*report.bin"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(vectors.Dir(t), "cpu", "snp", "*report.bin"))
	if err != nil || len(names)+len(more) < 5 {
		t.Fatalf("%d reports, %v", len(names)+len(more), err)
	}
	for _, name := range append(names, more...) {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		u, err := sevsnp.Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
			continue
		}
		if !bytes.Equal(u.Peek().Encode(), raw) {
			t.Errorf("%s: other bytes", filepath.Base(name))
		}
	}
}
