package eventlog_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	pb "github.com/google/go-eventlog/proto/state"
	"github.com/google/go-eventlog/register"
	"github.com/google/go-eventlog/tcg"

	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/internal/alloc"
	"github.com/assay-network/assay/internal/vectors"
)

const folder = "cpu/eventlog"

// walked says of each log of the vectors what must come of it, beside the registers of its .pcrs.json.
var walked = map[string]struct {
	kind   eventlog.Kind
	err    string
	legacy bool
	faults string
	facts  []string // NAME VALUE of the strongest bank, in order, of those named
}{
	"cos-113-intel-tdx-dupe-separator-unpadded.bin": {kind: eventlog.RTMRs, faults: "event 15: duplicate separator", facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"crypto_agile_eventlog":                         {kind: eventlog.PCRs, facts: []string{"secure-boot unset"}},
	"dstack-ccel.bin":                               {kind: eventlog.RTMRs, facts: []string{"secure-boot unset"}},
	"dstack-tpm_eventlog.bin":                       {kind: eventlog.PCRs, facts: []string{"secure-boot off"}},
	"ebs_event_missing_eventlog":                    {kind: eventlog.PCRs, legacy: true, facts: []string{"secure-boot off"}},
	"goeventlog-arch-linux-workstation.bin":         {kind: eventlog.PCRs, facts: []string{"secure-boot unset"}},
	"goeventlog-cos-101-amd-sev.bin":                {kind: eventlog.PCRs, facts: []string{"secure-boot on", "sbat sbat,1,2021030218"}},
	"goeventlog-cos-121-amd-sev.bin":                {kind: eventlog.PCRs, facts: []string{"secure-boot on", "sbat sbat,1,2021030218"}},
	"goeventlog-cos-85-amd-sev.bin":                 {kind: eventlog.PCRs, facts: []string{"secure-boot on"}},
	"goeventlog-cos-93-amd-sev.bin":                 {kind: eventlog.PCRs, facts: []string{"secure-boot on"}},
	"goeventlog-debian-10.bin":                      {kind: eventlog.PCRs, legacy: true, facts: []string{"secure-boot on"}},
	"goeventlog-gdc-host.bin":                       {kind: eventlog.PCRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"goeventlog-glinux-alex.bin":                    {kind: eventlog.PCRs, facts: []string{"secure-boot off"}},
	"goeventlog-rhel8-uefi.bin":                     {kind: eventlog.PCRs, facts: []string{"secure-boot on"}},
	"goeventlog-ubuntu-1804-amd-sev.bin":            {kind: eventlog.PCRs, facts: []string{"secure-boot off"}},
	"goeventlog-ubuntu-2104-no-dbx.bin":             {kind: eventlog.PCRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"goeventlog-ubuntu-2104-no-secure-boot.bin":     {kind: eventlog.PCRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"goeventlog-ubuntu-2404-amd-sevsnp.bin":         {kind: eventlog.PCRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"gtg-cos113-ccel_data.dat":                      {kind: eventlog.RTMRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"host-gmes.bin":                                 {kind: eventlog.PCRs},
	"keylime-binary_bios_measurements":              {kind: eventlog.PCRs, facts: []string{"secure-boot off", "sbat sbat,1,2021030218"}},
	"keylime-binary_bios_measurements-bogus":        {kind: eventlog.PCRs, err: "register 1969712994"},
	"keylime-binary_bios_measurements-secureboot":   {kind: eventlog.PCRs, facts: []string{"secure-boot on", `sbat sbat,1,2023012900\nshim,2\ngrub,3\ngrub.debian,4`}},
	"option_rom_eventlog":                           {kind: eventlog.PCRs, legacy: true, facts: []string{"secure-boot on"}},
	"short_no_action_eventlog":                      {kind: eventlog.PCRs, legacy: true},
}

// TestEveryLog walks the real logs: each replays to the registers that were read with it, or is refused.
func TestEveryLog(t *testing.T) {
	files, err := os.ReadDir(filepath.Join(vectors.Dir(t), folder))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if strings.Contains(f.Name(), "ima-log") || strings.HasSuffix(f.Name(), ".json") || strings.Contains(f.Name(), "table") {
			continue // IMA lists, expected registers, ACPI tables: not logs, or read below
		}
		seen++
		t.Run(f.Name(), func(t *testing.T) {
			want, ok := walked[f.Name()]
			if !ok {
				t.Fatal("this log is new: say what must come of it")
			}
			l, err := eventlog.Parse(vectors.Read(t, folder+"/"+f.Name()), want.kind)
			if want.err != "" {
				if err == nil || !strings.Contains(err.Error(), want.err) {
					t.Errorf("error %v, want %q", err, want.err)
				}
				return
			}
			if err != nil || l.Legacy != want.legacy {
				t.Fatalf("legacy %v, error %v", l.Legacy, err)
			}
			for bank, pcrs := range registersOf(t, f.Name()) {
				r, err := l.Replay(bank)
				if err != nil {
					t.Fatal(err)
				}
				for index, value := range pcrs {
					if got := r.Register(index); !bytes.Equal(got.Value, value) {
						t.Errorf("%s PCR %d replays to %x, was %x", bank, index, got.Value, value)
					}
				}
			}
			reading := l.Facts(l.Banks[len(l.Banks)-1])
			if got := strings.Join(reading.Faults, "\n"); got != want.faults {
				t.Errorf("faults %q, want %q", got, want.faults)
			}
			var got []string
			for _, f := range reading.Facts {
				if f.Name == eventlog.SecureBoot || f.Name == eventlog.SBAT {
					got = append(got, f.Name+" "+f.Value)
				}
			}
			if !slices.Equal(got, want.facts) {
				t.Errorf("facts %q, want %q", got, want.facts)
			}
		})
	}
	if seen != len(walked) {
		t.Errorf("%d logs, the table has %d", seen, len(walked))
	}
}

// registersOf reads the registers that were read with a log.
func registersOf(t *testing.T, name string) map[eventlog.Algorithm]map[int][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors.Dir(t), folder, name+".pcrs.json"))
	if err != nil {
		return nil
	}
	var file map[string]map[int]string
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := map[eventlog.Algorithm]map[int][]byte{}
	for _, a := range []eventlog.Algorithm{eventlog.SHA1, eventlog.SHA256, eventlog.SHA384} {
		for index, value := range file[strings.ToUpper(a.String())] {
			if all[a] == nil {
				all[a] = map[int][]byte{}
			}
			all[a][index], err = hex.DecodeString(value)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestCCEL: a real CCEL replays to the RTMRs of the quote that was taken with it (offset 376 of a v4 quote), and one
// flipped byte of a digest does not.
func TestCCEL(t *testing.T) {
	quote, log := vectors.Read(t, "cpu/tdx/gtg-cos-113-tdx-quote.dat"), vectors.Read(t, folder+"/gtg-cos113-ccel_data.dat")
	differs := func(log []byte) (n int) {
		l, err := eventlog.Parse(log, eventlog.RTMRs)
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Replay(eventlog.SHA384)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if !bytes.Equal(r.Register(i+1).Value, quote[376+48*i:][:48]) {
				n++
			}
		}
		return n
	}
	if n := differs(log); n != 0 {
		t.Errorf("%d RTMRs differ", n)
	}
	l, _ := eventlog.Parse(log, eventlog.RTMRs)
	flipped := bytes.Clone(log)
	flipped[l.Events[2].Offset+4+4+4+2] ^= 1
	if n := differs(flipped); n != 1 {
		t.Errorf("with a flipped digest %d RTMRs differ, want 1", n)
	}
	if _, err := eventlog.Parse(log, eventlog.PCRs); err == nil {
		t.Error("the padding of a CCEL is accepted in the log of a TPM")
	}
	if _, err := eventlog.Parse(append(bytes.TrimRight(log, "\xff"), 0xff, 0xff, 0xfe), eventlog.RTMRs); err == nil {
		t.Error("padding that is not FF is accepted")
	}
}

// TestOracle holds parser and replay against another implementation, on every log that it replays.
func TestOracle(t *testing.T) {
	for name, want := range walked {
		if want.err != "" || want.kind != eventlog.PCRs {
			continue
		}
		data := vectors.Read(t, folder+"/"+name)
		theirs, err := tcg.ParseEventLog(data, tcg.ParseOpts{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		l, err := eventlog.Parse(data, eventlog.PCRs)
		if err != nil {
			t.Fatal(err)
		}
		for bank, pcrs := range registersOf(t, name) {
			alg := map[eventlog.Algorithm]pb.HashAlgo{eventlog.SHA1: pb.HashAlgo_SHA1, eventlog.SHA256: pb.HashAlgo_SHA256}[bank]
			b := register.PCRBank{TCGHashAlgo: alg}
			for i, v := range pcrs {
				b.PCRs = append(b.PCRs, register.PCR{Index: i, Digest: v, DigestAlg: bank.Hash()})
			}
			hash, err := b.CryptoHash()
			if err != nil {
				t.Fatal(err)
			}
			events := theirs.Events(register.HashAlg(alg))
			for i, e := range events {
				if i >= len(l.Events) || int(e.Index) != l.Events[i].Register || uint32(e.Type) != uint32(l.Events[i].Type) || !bytes.Equal(e.Digest, l.Events[i].Digest(bank)) || !bytes.Equal(e.Data, l.Events[i].Data) {
					t.Errorf("%s: event %d differs", name, i)
					break
				}
			}
			if _, err := tcg.ParseAndReplay(data, b.MRs(), tcg.ParseOpts{}); err != nil {
				t.Errorf("%s: %s (%v): %v", name, bank, hash, err)
			}
		}
	}
}

// builder writes logs by hand, from the text of the specification.
type builder struct {
	data   []byte
	legacy bool
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

func agile(algorithms ...uint16) *builder {
	b := &builder{}
	id := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 0, 2)
	id = append(id, le32(uint32(len(algorithms)))...)
	for _, a := range algorithms {
		id = binary.LittleEndian.AppendUint16(id, a)
		id = binary.LittleEndian.AppendUint16(id, map[uint16]uint16{4: 20, 11: 32, 12: 48}[a])
	}
	b.data = slices.Concat(le32(0), le32(3), make([]byte, 20), le32(uint32(len(id)+1)), id, []byte{0})
	return b
}

// add appends an event with the digest of measured; nil: of its data.
func (b *builder) add(register, typ uint32, data, measured []byte) *builder {
	if measured == nil {
		measured = data
	}
	b.data = slices.Concat(b.data, le32(register), le32(typ))
	if b.legacy {
		sum := sha1.Sum(measured)
		b.data = append(b.data, sum[:]...)
	} else {
		sum := sha256.Sum256(measured)
		b.data = slices.Concat(b.data, le32(1), []byte{11, 0}, sum[:])
	}
	b.data = slices.Concat(b.data, le32(uint32(len(data))), data)
	return b
}

func (b *builder) separator(register uint32) *builder {
	return b.add(register, 4, make([]byte, 4), nil)
}

func variable(name string, data []byte) []byte {
	b := make([]byte, 16)
	text := utf16.Encode([]rune(name))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	for _, c := range text {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return append(b, data...)
}

func facts(t *testing.T, b *builder) eventlog.Reading {
	t.Helper()
	l, err := eventlog.Parse(b.data, eventlog.PCRs)
	if err != nil {
		t.Fatal(err)
	}
	return l.Facts(eventlog.SHA256)
}

func say(r eventlog.Reading) string {
	var all []string
	for _, f := range r.Facts {
		all = append(all, f.Name+" "+f.Value)
	}
	return strings.Join(all, ", ")
}

func pcr(t *testing.T, data []byte, bank eventlog.Algorithm, index int) []byte {
	t.Helper()
	l, err := eventlog.Parse(data, eventlog.PCRs)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Replay(bank)
	if err != nil {
		t.Fatal(err)
	}
	return r.Register(index).Value
}

func extend(start []byte, measured ...[]byte) []byte {
	for _, m := range measured {
		d := sha256.Sum256(m)
		next := sha256.Sum256(append(bytes.Clone(start), d[:]...))
		start = next[:]
	}
	return start
}

// TestKnownBugs holds the rows of public bug reports that are about logs, each with its twin.
func TestKnownBugs(t *testing.T) {
	refused := func(t *testing.T, data []byte, want string) {
		t.Helper()
		var err error
		allocated := alloc.Within(t, len(data), func() { _, err = eventlog.Parse(data, eventlog.PCRs) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if allocated > uint64(16*len(data)+1<<16) {
			t.Errorf("%d bytes allocated for %d", allocated, len(data))
		}
	}
	zero, text := make([]byte, 32), []byte("x")

	t.Run("C07 IMA violation", imaViolation)
	t.Run("P10 event size BDBFEF47", func(t *testing.T) {
		b := agile(11).add(0, 1, text, nil)
		cut := len(b.data) - 5
		for _, size := range []uint32{0xBDBFEF47, 0x80000000, 0xffffffff} {
			refused(t, append(b.data[:cut:cut], le32(size)...), fmt.Sprintf("%d bytes of data, 0 are left", size))
			legacy := slices.Concat(le32(0), le32(1), make([]byte, 20), le32(size), make([]byte, 90))
			refused(t, legacy, fmt.Sprintf("%d bytes of data, 90 are left", size))
		}
		if _, err := eventlog.Parse(agile(11).add(0, 1, text, nil).data, eventlog.PCRs); err != nil {
			t.Errorf("twin: %v", err)
		}
	})
	t.Run("P11 algorithm counts and sizes of FFFFFFFF", func(t *testing.T) {
		at := 4 + 4 + 20 + 4 + 16 + 8
		b := bytes.Clone(agile(11).data)
		copy(b[at:], le32(0xffffffff))
		refused(t, b, "4294967295 algorithms")
		b = agile(11).add(0, 1, text, nil).data
		copy(b[len(b)-1-4-32-2-4:], le32(0xffffffff))
		refused(t, b, "4294967295 digests, the log declares 1 banks")
		b = agile(11).data
		b[at+4+2] = 33
		refused(t, b, "digests of 33 bytes")
		b = agile(11).data
		b[len(b)-1] = 1
		refused(t, b, "vendor information")
		// The one 64-bit size: it is in a variable, which is read for facts and never allocated.
		v := variable("SecureBoot", []byte{1})
		copy(v[16:], bytes.Repeat([]byte{0xff}, 16))
		if r := facts(t, agile(11).add(7, 0x80000001, v, nil).separator(7)); say(r) != "" || len(r.Notes) != 1 {
			t.Errorf("a variable of FFFFFFFFFFFFFFFF characters shows %q, %q", say(r), r.Notes)
		}
	})
	t.Run("P13 legacy log", func(t *testing.T) {
		b := (&builder{legacy: true}).add(0, 8, text, nil).separator(0)
		l, err := eventlog.Parse(b.data, eventlog.PCRs)
		if err != nil || !l.Legacy || len(l.Events) != 2 {
			t.Fatalf("%d events, legacy %v, %v", len(l.Events), l.Legacy, err)
		}
		if _, err := l.Replay(eventlog.SHA1); err != nil {
			t.Error(err)
		}
		if _, err := l.Replay(eventlog.SHA256); err == nil || !strings.Contains(err.Error(), "legacy format, which has SHA-1 digests alone") {
			t.Errorf("SHA-256 of a legacy log: %v", err)
		}
	})
	t.Run("P15 StartupLocality", func(t *testing.T) {
		l, err := eventlog.Parse(vectors.Read(t, folder+"/short_no_action_eventlog"), eventlog.PCRs)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := l.Replay(eventlog.SHA1); err != nil || r.Locality != 3 || hex.EncodeToString(r.Register(0).Value) != strings.Repeat("00", 19)+"03" {
			t.Errorf("locality %d, PCR 0 %x, %v", r.Locality, r.Register(0).Value, err)
		}
		locality := append([]byte("StartupLocality\x00"), 3)
		start := append(make([]byte, 31), 3)
		if got := pcr(t, agile(11).add(0, 3, locality, nil).add(0, 1, text, nil).data, eventlog.SHA256, 0); !bytes.Equal(got, extend(start, text)) {
			t.Errorf("PCR 0 is %x", got)
		}
		if got := pcr(t, agile(11).add(0, 1, text, nil).data, eventlog.SHA256, 0); !bytes.Equal(got, extend(zero, text)) {
			t.Errorf("twin without the event: PCR 0 is %x", got)
		}
		late, err := eventlog.Parse(agile(11).add(0, 1, text, nil).add(0, 3, locality, nil).data, eventlog.PCRs)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := late.Replay(eventlog.SHA256); err == nil {
			t.Error("StartupLocality after an extend is taken")
		}
	})
	t.Run("P16 SbatLevel", func(t *testing.T) {
		v := variable("SbatLevel", []byte("sbat,1,2021030218\n"))
		if got := say(facts(t, agile(11).separator(7).add(7, 0x800000E0, v, nil))); got != "sbat sbat,1,2021030218" {
			t.Errorf("facts %q", got)
		}
		cert := append(make([]byte, 16), 0x30, 0x82, 0, 1, 9)
		if got := say(facts(t, agile(11).separator(7).add(7, 0x800000E0, variable("db", cert), nil))); got != fmt.Sprintf("authority %x", sha256.Sum256(cert[16:])) {
			t.Errorf("twin: facts %q", got)
		}
	})
	t.Run("P17 unmeasured last byte", func(t *testing.T) {
		v := variable("db", []byte("key"))
		r := facts(t, agile(11).separator(7).add(7, 0x800000E0, append(bytes.Clone(v), 0xaa), v))
		if len(r.Facts) != 1 || r.Facts[0].Quirk == "" || r.Facts[0].Value != fmt.Sprintf("%x", sha256.Sum256([]byte("key"))) {
			t.Errorf("facts %+v", r.Facts)
		}
		if r := facts(t, agile(11).separator(7).add(7, 0x800000E0, append(bytes.Clone(v), 0xaa, 0xbb), v)); len(r.Facts) != 0 {
			t.Errorf("two bytes more: facts %+v", r.Facts)
		}
		if r := facts(t, agile(11).separator(7).add(7, 0x800000E0, v, nil)); len(r.Facts) != 1 || r.Facts[0].Quirk != "" {
			t.Errorf("twin: facts %+v", r.Facts)
		}
	})
	t.Run("P18 unknown tag", func(t *testing.T) {
		tagged := append([]byte{0x2A, 0x58, 0xBC, 0xF5, 11, 0, 0, 0}, "loader.conf"...)
		b := agile(11).add(12, 6, tagged, []byte("content")).add(12, 13, text, nil)
		l, err := eventlog.Parse(b.data, eventlog.PCRs)
		if err != nil || len(l.Events) != 2 || !bytes.Equal(l.Events[0].Data, tagged) {
			t.Fatalf("%d events, %v", len(l.Events), err)
		}
		if got := pcr(t, b.data, eventlog.SHA256, 12); !bytes.Equal(got, extend(zero, []byte("content"), text)) {
			t.Errorf("PCR 12 is %x", got)
		}
	})
	t.Run("P19 boot attempts", func(t *testing.T) {
		calling, returning := []byte("Calling EFI Application from Boot Option"), []byte("Returning from EFI Application from Boot Option")
		again := agile(11).add(4, 0x80000007, calling, nil).add(4, 0x80000007, returning, nil).add(4, 0x80000007, calling, nil).separator(4)
		if r := facts(t, again); len(r.Faults) != 0 {
			t.Errorf("second boot attempt: %q", r.Faults)
		}
		if got := pcr(t, again.data, eventlog.SHA256, 4); !bytes.Equal(got, extend(zero, calling, returning, calling, make([]byte, 4))) {
			t.Errorf("PCR 4 is %x", got)
		}
		if r := facts(t, agile(11).separator(4)); len(r.Faults) != 0 {
			t.Errorf("separator alone: %q", r.Faults)
		}
		if r := facts(t, agile(11).separator(4).separator(4)); len(r.Faults) != 1 {
			t.Errorf("twin with two separators: %q", r.Faults)
		}
	})
	t.Run("P20 certificate in PK cut by a byte", func(t *testing.T) {
		on := variable("SecureBoot", []byte{1})
		pk := variable("PK", []byte{0x30, 0x82, 0x04, 0x00, 1, 2, 3})
		r := facts(t, agile(11).add(7, 0x80000001, on, nil).add(7, 0x80000001, pk, nil).separator(7))
		if want := fmt.Sprintf("secure-boot on, pk %x", sha256.Sum256(pk[36:])); say(r) != want || len(r.Faults) != 0 {
			t.Errorf("facts %q, want %q; faults %q", say(r), want, r.Faults)
		}
	})
	t.Run("G10 two writers", func(t *testing.T) {
		a, b := []byte("A"), []byte("B")
		logged := agile(11).add(9, 13, a, nil).add(9, 13, b, nil).data
		if got := pcr(t, logged, eventlog.SHA256, 9); bytes.Equal(got, extend(zero, b, a)) || !bytes.Equal(got, extend(zero, a, b)) {
			t.Errorf("the log was reordered to fit: %x", got)
		}
	})
}

// TestReplayRules holds each rule of replay against the value computed by hand.
func TestReplayRules(t *testing.T) {
	zero, ff, x := make([]byte, 32), bytes.Repeat([]byte{0xff}, 32), []byte("x")
	for _, row := range []struct {
		name     string
		log      *builder
		register int
		want     []byte
	}{
		{"extended once", agile(11).add(4, 1, x, nil), 4, extend(zero, x)},
		{"EV_NO_ACTION is never extended", agile(11).add(4, 3, x, nil), 4, zero},
		{"PCR absent from the log", agile(11).add(4, 1, x, nil), 5, zero},
		{"PCR 17 absent from the log", agile(11).add(4, 1, x, nil), 17, ff},
		{"PCR 22 absent from the log", agile(11), 22, ff},
		{"PCR 23 absent from the log", agile(11), 23, zero},
		{"PCR 18 extended", agile(11).add(18, 1, x, nil), 18, extend(ff, x)},
		{"H-CRTM", agile(11).add(0, 0x80000010, []byte("HCRTM"), nil), 0, extend(append(make([]byte, 31), 4), []byte("HCRTM"))},
		{"H-CRTM after another event", agile(11).add(0, 1, x, nil).add(0, 0x80000010, x, nil), 0, extend(zero, x, x)},
		{"EV_NO_ACTION for no register", agile(11).add(0xffffffff, 3, x, nil).add(4, 1, x, nil), 4, extend(zero, x)},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := pcr(t, row.log.data, eventlog.SHA256, row.register); !bytes.Equal(got, row.want) {
				t.Errorf("PCR %d is %x, want %x", row.register, got, row.want)
			}
		})
	}
	l, err := eventlog.Parse(agile(4, 11).add(4, 1, x, nil).data, eventlog.PCRs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(eventlog.SHA1); err == nil || !strings.Contains(err.Error(), "event 0 has no sha1 digest") {
		t.Errorf("a bank that an event leaves out: %v", err)
	}
	if _, err := l.Replay(eventlog.SM3); err == nil {
		t.Error("SM3 was replayed")
	}
	if r := l.Facts(eventlog.SM3); len(r.Facts)+len(r.Faults)+len(r.Notes) != 0 {
		t.Errorf("SM3 shows %+v", r)
	}
	if r, err := l.Replay(eventlog.SHA256); err != nil || !bytes.Equal(r.Register(99).Value, make([]byte, 32)) || !bytes.Equal(r.Register(-1).Value, make([]byte, 32)) {
		t.Errorf("registers that no TPM has: %v", err)
	}
}

// TestFacts: a fact is told where its data hashes to its digest and it stands where the firmware writes it.
func TestFacts(t *testing.T) {
	on, off := variable("SecureBoot", []byte{1}), variable("SecureBoot", []byte{0})
	const config, authority, ipl = 0x80000001, 0x800000E0, 13
	exit := []byte("Exit Boot Services Returned with Success")
	utf := func(s string) (b []byte) {
		for _, c := range utf16.Encode([]rune(s + "\x00")) {
			b = binary.LittleEndian.AppendUint16(b, c)
		}
		return b
	}
	for _, row := range []struct {
		name   string
		log    *builder
		facts  string
		faults string
	}{
		{"on", agile(11).add(7, config, on, nil).separator(7), "secure-boot on", ""},
		{"off", agile(11).add(7, config, off, nil).separator(7), "secure-boot off", ""},
		{"data that was not measured", agile(11).add(7, config, on, off).separator(7), "", ""},
		{"in another register", agile(11).add(6, config, on, nil).separator(7).separator(6), "", ""},
		{"after the separator", agile(11).separator(7).add(7, config, on, nil), "", ""},
		{"no separator", agile(11).add(7, config, on, nil), "", ""},
		// Both words were extended, the second by whoever ran later: the true border has another type now.
		{"border renamed", agile(11).add(7, 6, off, nil).add(7, 6, make([]byte, 4), nil).add(7, config, on, nil).separator(7), "", "event 3: duplicate separator"},
		{"two values", agile(11).add(7, config, off, nil).add(7, config, on, nil).separator(7), "", "SecureBoot is measured with two values"},
		{"variable that nobody asks for", agile(11).add(7, config, variable("BootOrder", []byte{1}), nil).separator(7), "", ""},
		{"variable of 5 bytes", agile(11).add(7, config, []byte("short"), nil).separator(7), "", ""},
		{"variable with bytes behind it", agile(11).add(7, config, append(bytes.Clone(on), 0), nil).separator(7), "", ""},
		{"SecureBoot of 2", agile(11).add(7, config, variable("SecureBoot", []byte{2}), nil).separator(7), "", ""},
		{"authority in another register", agile(11).separator(6).add(6, authority, variable("db", []byte("k")), nil), "", ""},
		{"authority of 5 bytes", agile(11).separator(7).add(7, authority, []byte("short"), nil), "", ""},
		{"authority of no bytes", agile(11).separator(7).add(7, authority, []byte{}, []byte("x")), "", ""},
		{"authority that is a list of the machine's owner", agile(11).separator(7).add(7, authority, variable("MokListRT", []byte("k")), nil), "", ""},
		{"failed firmware", agile(11).add(7, 4, []byte{1, 0, 0, 0}, nil), "", "event 0: the separator says that the firmware failed"},
		{"after the hand-over", agile(11).separator(7).add(5, 0x80000007, exit, nil).add(7, authority, variable("db", []byte("k")), nil), "", "event 2: PCR 7 is extended after the firmware handed over"},
		{"hand-over only said", agile(11).separator(7).add(5, 0x80000007, exit, []byte("x")).add(7, authority, variable("db", []byte("k")), nil), fmt.Sprintf("authority %x", sha256.Sum256([]byte("k"))), ""},
		{"PCR 8 after the hand-over", agile(11).add(5, 0x80000007, exit, nil).add(8, ipl, []byte("kernel_cmdline: a b"), []byte("a b")), "command-line a b", ""},
		{"GRUB, with a NUL", agile(11).add(8, ipl, []byte("kernel_cmdline: a b\x00"), []byte("a b")), "command-line a b", ""},
		{"GRUB, another line measured", agile(11).add(8, ipl, []byte("kernel_cmdline: a b"), []byte("a c")), "", ""},
		{"GRUB in another register", agile(11).add(9, ipl, []byte("kernel_cmdline: a b"), []byte("a b")), "", ""},
		{"unified kernel image", agile(11).add(11, ipl, utf(".linux"), []byte(".linux\x00")).add(11, ipl, utf(".linux"), []byte("code")), fmt.Sprintf("uki-section .linux %x", sha256.Sum256([]byte("code"))), ""},
		{"section name not measured", agile(11).add(11, ipl, utf(".linux"), []byte(".initrd\x00")).add(11, ipl, utf(".linux"), []byte("code")), "", ""},
		{"kernel image in another register", agile(11).add(9, ipl, utf(".linux"), []byte(".linux\x00")).add(9, ipl, utf(".linux"), []byte("code")), "", ""},
		{"name of no bytes", agile(11).add(12, ipl, []byte{}, []byte("x")).add(12, ipl, utf("quiet"), nil), "command-line quiet", ""},
		{"name of an odd length", agile(11).add(12, ipl, utf("quiet")[1:], nil), "", ""},
		{"name without its NUL", agile(11).add(12, ipl, bytes.TrimSuffix(utf("quiet"), []byte{0, 0}), nil), "", ""},
		{"name with a NUL in it", agile(11).add(12, ipl, utf("quiet\x00loud"), nil), "", ""},
		{"name beyond every limit", agile(11).add(12, ipl, utf(strings.Repeat("q", 40_000)), nil), "", ""},
		{"long command line", agile(11).add(12, ipl, utf(strings.Repeat("q", 5000)), nil), "command-line " + strings.Repeat("q", 4096), ""},
		{"systemd command line", agile(11).add(12, ipl, utf("quiet"), nil), "command-line quiet", ""},
		{"systemd command line not measured", agile(11).add(12, ipl, utf("quiet"), utf("loud")), "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := facts(t, row.log)
			if got := say(r); got != row.facts {
				t.Errorf("facts %q, want %q", got, row.facts)
			}
			if got := strings.Join(r.Faults, "; "); got != row.faults {
				t.Errorf("faults %q, want %q", got, row.faults)
			}
		})
	}
}

// TestRTMRFacts: a TDX guest's loaders write to RTMR2 alone, and its boot policy is in RTMR0.
func TestRTMRFacts(t *testing.T) {
	on := variable("SecureBoot", []byte{1})
	line := []byte("kernel_cmdline: quiet")
	for name, row := range map[string]struct {
		log   *builder
		facts string
	}{
		"sound":                   {agile(11).add(1, 0x80000001, on, nil).separator(1).add(3, 13, line, []byte("quiet")), "secure-boot on, command-line quiet"},
		"command line in RTMR1":   {agile(11).add(2, 13, line, []byte("quiet")), ""},
		"boot policy in RTMR1":    {agile(11).add(2, 0x80000001, on, nil).separator(2), ""},
		"boot policy left open":   {agile(11).add(1, 0x80000001, on, nil), ""},
		"command line not hashed": {agile(11).add(3, 13, line, []byte("loud")), ""},
	} {
		l, err := eventlog.Parse(row.log.data, eventlog.RTMRs)
		if err != nil {
			t.Fatal(err)
		}
		if got := say(l.Facts(eventlog.SHA256)); got != row.facts {
			t.Errorf("%s: facts %q, want %q", name, got, row.facts)
		}
	}
}

// TestStartupLocality: the event holds one byte from 0 to 4; with any other it says nothing, and the log does not replay.
func TestStartupLocality(t *testing.T) {
	for locality, good := range map[string]bool{"": false, "\x00": true, "\x03": true, "\x04": true, "\x05": false, "\x03\x00": false} {
		l, err := eventlog.Parse(agile(11).add(0, 3, []byte("StartupLocality\x00"+locality), nil).data, eventlog.PCRs)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := l.Replay(eventlog.SHA256); (err == nil) != good || good && r.Locality != int(locality[0]) {
			t.Errorf("locality %q: %d, %v", locality, r.Locality, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	whole := agile(4, 11).data
	event := slices.Concat(le32(0), le32(1), le32(2), []byte{11, 0}, make([]byte, 32), []byte{4, 0}, make([]byte, 20), le32(1), []byte{9})
	if _, err := eventlog.Parse(slices.Concat(whole, event), eventlog.PCRs); err != nil {
		t.Fatalf("the log that the rows change: %v", err)
	}
	change := func(at int, b ...byte) []byte {
		e := bytes.Clone(event)
		copy(e[at:], b)
		return slices.Concat(whole, e)
	}
	for name, row := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                 {nil, "it is empty"},
		"too long":              {make([]byte, eventlog.MaxLog+1), "at most 1048576"},
		"too many events":       {append(bytes.Clone(whole), bytes.Repeat(slices.Concat(le32(0), le32(1), le32(0), le32(0)), eventlog.MaxEvents+1)...), "more than 16384 events"},
		"register 24":           {change(0, 24), "register 24, at most 23"},
		"bank twice":            {change(46, 11, 0), "two sha256 digests"},
		"bank not declared":     {change(12, 12, 0), "a digest of sha384"},
		"algorithm not known":   {change(12, 99, 0), "a digest of algorithm-0063"},
		"more digests":          {change(8, 3), "3 digests"},
		"cut in its head":       {slices.Concat(whole, event[:7]), "cut off in its head"},
		"cut in its digests":    {slices.Concat(whole, event[:60]), "cut off in its digests"},
		"cut in its data":       {slices.Concat(whole, event[:len(event)-1]), "1 bytes of data, 0 are left"},
		"Spec ID cut":           {whole[:40], "bytes of data"},
		"Spec ID without banks": {agile().data, "0 algorithms"},
		"Spec ID bank twice":    {agile(11, 11).data, "sha256 twice"},
		"Spec ID unknown bank":  {agile(99).data, "algorithm 0x0063"},
		"trailing byte":         {slices.Concat(whole, event, []byte{0}), "cut off in its head"},
	} {
		if _, err := eventlog.Parse(row.data, eventlog.PCRs); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", name, err, row.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(slices.Concat(le32(0), le32(3), make([]byte, 20), le32(0xBDBFEF47)))
	f.Add(agile(4, 11).add(0, 1, []byte("x"), nil).data)
	f.Add(agile(11).add(7, 0x80000001, variable("SecureBoot", []byte{1}), nil).separator(7).data)
	f.Add((&builder{legacy: true}).add(0, 8, []byte("x"), nil).data)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []eventlog.Kind{eventlog.PCRs, eventlog.RTMRs} {
			alloc.Within(t, len(data), func() {
				l, err := eventlog.Parse(data, kind)
				if err != nil {
					return
				}
				for _, a := range l.Banks {
					if _, err := l.Replay(a); err == nil {
						l.Facts(a)
					}
				}
			})
		}
	})
}

// BenchmarkReplay reads, replays and interprets a log of 116 events, beside the hashing of its bytes.
func BenchmarkReplay(b *testing.B) {
	data := vectors.Read(b, folder+"/goeventlog-ubuntu-2404-amd-sevsnp.bin")
	b.Run("log", func(b *testing.B) {
		for b.Loop() {
			l, err := eventlog.Parse(data, eventlog.PCRs)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := l.Replay(eventlog.SHA256); err != nil {
				b.Fatal(err)
			}
			l.Facts(eventlog.SHA256)
		}
	})
	b.Run("sha256 of its bytes", func(b *testing.B) {
		for b.Loop() {
			sha256.Sum256(data)
		}
	})
}
