package enrol_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/enrol"
)

const (
	chip = "9c410000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000d2e2f2"
	ek   = "9f2c41d7a0b3e5f6081726354453627180a1b2c3d4e5f60718293a4b5c6d7e8f"
)

// faults renders faults as ROW COLUMN CODE.
func faults(all []enrol.Fault) (out []string) {
	for _, f := range all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %s %s", f.Row, f.Column, f.Code)))
	}
	return out
}

func TestReadCells(t *testing.T) {
	maker := mint.NewTPMMaker()
	certificate := maker.TPM("one").EKCertificate(mint.TPMOptions{})
	key := tpm.KeyDigest(certificate.X509().PublicKey)
	turin := chip[:16] + strings.Repeat("0", 112)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.DER}))
	for _, tc := range []struct {
		name, column, cell string
		want               string // kinds and values of the devices, or the code of the fault
	}{
		{"digest of an endorsement key", "ek", ek, "tpm-ek " + ek},
		{"digest in upper case with colons", "ek", strings.ToUpper(ek[:2] + ":" + ek[2:]), "tpm-ek " + ek},
		{"certificate in base64", "ek", base64.StdEncoding.EncodeToString(certificate.DER), "tpm-ek " + key.String()},
		{"certificate as PEM", "ek", text, "tpm-ek " + key.String()},
		{"certificate as PEM in one line", "ek", strings.ReplaceAll(text, "\n", `\n`), "tpm-ek " + key.String()},
		{"certificate cut off", "ek", base64.StdEncoding.EncodeToString(certificate.DER[:200]), enrol.CodeEK},
		{"certificate of an authority", "ek", base64.StdEncoding.EncodeToString(maker.CA.DER), enrol.CodeEK},
		{"no certificate", "ek", "none", enrol.CodeEK},
		{"digest cut off", "ek", ek[:62], enrol.CodeEK},
		{"digest of zeros", "ek", strings.Repeat("0", 64), enrol.CodeEK},
		{"CHIP_ID", "chip_id", chip, "amd-chip-id " + chip},
		{"CHIP_ID with 0x", "chip_id", "0x" + strings.ToUpper(chip), "amd-chip-id " + chip},
		{"CHIP_ID of Turin in full", "chip_id", turin, "amd-chip-id " + chip[:16]},
		{"CHIP_ID of Turin", "chip_id", chip[:16], "amd-chip-id " + chip[:16]},
		{"CHIP_ID of two processors", "chip_id", chip[:16] + " 0102030405060708", "amd-chip-id 0102030405060708"},
		{"CHIP_ID of one processor twice", "chip_id", chip[:16] + " " + turin, enrol.CodeDuplicate},
		{"more processors than there are", "chip_id", strings.Repeat(chip[:16]+" ", enrol.MaxSockets+1), enrol.CodeTooLong},
		{"CHIP_ID cut off", "chip_id", chip[:126], enrol.CodeChipID},
		{"CHIP_ID in decimal words", "chip_id", "forty-two", enrol.CodeChipID},
		{"CHIP_ID masked", "chip_id", strings.Repeat("0", 128), enrol.CodeMasked},
		{"PPID", "ppid", "00112233445566778899aabbccddeeff", "intel-ppid 00112233445566778899aabbccddeeff"},
		{"PPID cut off", "ppid", "0011", enrol.CodePPID},
		{"PPID of zeros", "ppid", strings.Repeat("0", 32), enrol.CodePPID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data, err := json.Marshal(map[string]any{"type": enrol.FileType, "hosts": []any{map[string]any{"asset": "A", "site": "fra1", "rack": "B07", tc.column: tc.cell}}})
			must(t, err)
			rows, bad, err := enrol.Read("x.json", data)
			must(t, err)
			got := ""
			switch {
			case len(bad) > 0:
				got = bad[0].Code
				if len(bad) > 1 || bad[0].Column != tc.column || bad[0].Row != 1 || bad[0].Problem == "" || bad[0].Fix == "" || bad[0].Asset != "A" {
					t.Errorf("%+v", bad[0])
				}
			case len(rows) == 1:
				got = rows[0].Host.Devices[0].Kind + " " + rows[0].Host.Devices[0].Value.String()
			}
			if got != tc.want {
				t.Errorf("%q, want %q; %v", got, tc.want, bad)
			}
		})
	}
}

// TestKnownBugs has rows of the reference by name.
func TestKnownBugs(t *testing.T) {
	t.Run("P22", func(t *testing.T) { // one GPU, decimal in claims and hex in its certificate
		want := "78eda840d933e2b315dd40e21b0d64fd4227e044"
		for _, text := range []string{"690378826041732399492309725212231526036925833284", "78EDA840D933E2B315DD40E21B0D64FD4227E044", "0x" + want, "78:ed:a8:40:d9:33:e2:b3:15:dd:40:e2:1b:0d:64:fd:42:27:e0:44"} {
			rows, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,ek,gpus\nA,fra1,B07,"+ek+","+text+"\n"))
			must(t, err)
			if len(bad) > 0 || rows[0].Host.Devices[0].Kind != enrol.KindLeaf || rows[0].Host.Devices[0].Value.String() != want {
				t.Errorf("%s: %v %+v", text, bad, rows)
			}
		}
		// Both ways of writing it are one device: a row with both has it twice.
		_, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,ek,gpus\nA,fra1,B07,"+ek+",690378826041732399492309725212231526036925833284 "+want+"\n"))
		must(t, err)
		if got := faults(bad); !slices.Equal(got, []string{"2 gpus " + enrol.CodeDuplicate}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("U07", func(t *testing.T) { // text of strangers never becomes a formula: names have no such characters
		for _, name := range []string{`=HYPERLINK("http://x","y")`, "-1+1", "@a", "\ta=1"} {
			data, err := json.Marshal(map[string]any{"type": enrol.FileType, "hosts": []any{map[string]any{"asset": "A", "site": "fra1", "rack": "B07", "ek": ek, "host": name}}})
			must(t, err)
			rows, bad, err := enrol.Read("x.json", data)
			must(t, err)
			if got := faults(bad); !slices.Equal(got, []string{"1 host " + enrol.CodeName}) || len(rows) > 0 || !strings.Contains(bad[0].Problem, "letter or digit first") {
				t.Errorf("%q: %q", name, got)
			}
		}
	})
}

// TestReadPairs: snpguest display report and openssl print an identity as pairs of digits over lines.
func TestReadPairs(t *testing.T) {
	pairs := func(digits string, between string, perLine int) string {
		var b strings.Builder
		for i := 0; i < len(digits); i += 2 {
			if b.WriteString(digits[i : i+2]); i/2%perLine == perLine-1 {
				b.WriteString("\n")
			} else {
				b.WriteString(between)
			}
		}
		return b.String()
	}
	turin := "1f2e3d4c5b6a7988" + strings.Repeat("0", 112)
	ppid := strings.Repeat("5a", 16)
	leaf := "78eda840d933e2b315dd40e21b0d64fd4227e044"
	for _, tc := range []struct{ column, cell, want string }{
		{"chip_id", pairs(chip, " ", 16), "amd-chip-id " + chip},
		{"chip_id", pairs(turin, " ", 16), "amd-chip-id " + turin[:16]},
		{"chip_id", pairs(chip, " ", 16) + pairs(turin, " ", 16), "amd-chip-id " + turin[:16] + ", amd-chip-id " + chip},
		{"chip_id", pairs(chip[:126], " ", 16), enrol.CodeChipID},
		{"chip_id", "9c", enrol.CodeChipID},
		{"ppid", pairs(ppid, " ", 8), "intel-ppid " + ppid},
		{"gpus", pairs(leaf, ":", 99), "nvidia-leaf " + leaf},
		{"gpus", pairs(leaf, " ", 99), "nvidia-leaf " + leaf},
	} {
		rows, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,ek,"+tc.column+"\nA,fra1,B07,"+ek+",\""+tc.cell+"\"\n"))
		must(t, err)
		var got []string
		for _, f := range bad {
			got = append(got, f.Code)
		}
		for _, r := range rows {
			for _, d := range r.Host.Devices {
				if d.Kind != attest.IdentityTPMEK {
					got = append(got, d.Kind+" "+d.Value.String())
				}
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%q: %q, want %q", tc.cell, got, tc.want)
		}
	}
}

// TestReadRounded: a spreadsheet that took an identity for a number has thrown its last digits away, and says so.
func TestReadRounded(t *testing.T) {
	for column, text := range map[string]string{"ek": "9.2E+63", "chip_id": "1.23456789012345E+15", "ppid": "1E+31", "gpus": "6.90378826041732E+47"} {
		_, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,"+column+"\nA,fra1,B07,"+text+"\n"))
		must(t, err)
		if !slices.ContainsFunc(bad, func(f enrol.Fault) bool {
			return f.Column == column && strings.Contains(f.Problem, "have the column as text")
		}) {
			t.Errorf("%s %s: %v", column, text, bad)
		}
	}
}

// TestFaultWords: what a fault says beyond its code.
func TestFaultWords(t *testing.T) {
	for _, tc := range []struct{ column, cell, problem, value string }{
		{"gpus", "GPU-1f2e3d4c-aaaa-bbbb-cccc-0123456789ab", "a UUID is the driver's word", ""},
		{"gpus", "78EDA84E+", "neither a decimal serial nor 40 hex digits (serial) or 16 (PDI)", ""},
		{"chip_id", strings.Repeat("9c", 40), "has 80 hex digits, want 128 or 16", strings.Repeat("9c", 40)},
		{"chip_id", strings.Repeat("9c", 41), "has 82 hex digits, want 128 or 16", strings.Repeat("9c", 40) + "…"},
	} {
		_, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,ek,"+tc.column+"\nA,fra1,B07,"+ek+","+tc.cell+"\n"))
		must(t, err)
		if len(bad) != 1 || !strings.Contains(bad[0].Problem, tc.problem) || tc.value != "" && bad[0].Value != tc.value || strings.Contains(bad[0].Problem, "spreadsheet") {
			t.Errorf("%s: %+v", tc.cell, bad)
		}
	}
}

func TestReadGPUs(t *testing.T) {
	for text, want := range map[string]string{
		"0X" + strings.Repeat("12345678", 5):                                "nvidia-leaf " + strings.Repeat("12345678", 5),
		"0X123456789012345678901234567890":                                  enrol.CodeGPU, // hex, though its digits are decimal
		"48b02d0102030405":                                                  "nvidia-pdi 48b02d0102030405",
		"690378826041732399492309725212231526036925833284 48b02d0102030405": "nvidia-leaf 78eda840d933e2b315dd40e21b0d64fd4227e044, nvidia-pdi 48b02d0102030405",
		"48b02d0102030405;48b02d0102030406|48b02d0102030407":                "nvidia-pdi 48b02d0102030405, nvidia-pdi 48b02d0102030406, nvidia-pdi 48b02d0102030407",
		"":                            "",
		"7":                           enrol.CodeGPU,
		"9" + strings.Repeat("0", 60): enrol.CodeGPU,
		"GPU-1f2e3d4c-aaaa-bbbb-cccc-0123456789ab": enrol.CodeGPU,
		"78EDA840":              enrol.CodeGPU,
		strings.Repeat("0", 40): enrol.CodeGPU,
		strings.Repeat("48b02d0102030405 ", enrol.MaxGPUs+1): enrol.CodeTooLong,
	} {
		rows, bad, err := enrol.Read("x.csv", []byte("asset,site,rack,ek,gpus\nA,fra1,B07,"+ek+",\""+text+"\"\n"))
		must(t, err)
		got := ""
		if len(bad) > 0 {
			got = bad[0].Code
		} else {
			var list []string
			for _, d := range rows[0].Host.Devices {
				if d.Kind != attest.IdentityTPMEK {
					list = append(list, d.Kind+" "+d.Value.String())
				}
			}
			got = strings.Join(list, ", ")
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	row := func(asset string, n byte) string {
		return asset + ",fra1,B07," + strings.Repeat(hex.EncodeToString([]byte{n}), 32) + "\n"
	}
	const head = "asset,site,rack,ek\n"
	for _, tc := range []struct {
		name, file, text string
		rows             int
		faults           []string
		err              string
	}{
		{"two", "x.csv", head + row("A", 1) + row("B", 2), 2, nil, ""},
		{"byte order mark, comments, line ends of DOS, empty rows", "x.csv", "\ufeff# about\r\n" + strings.ReplaceAll(head+row("A", 1)+",,,\n\n"+row("B", 2), "\n", "\r\n"), 2, nil, ""},
		{"semicolons", "x.csv", strings.ReplaceAll(head+row("A", 1), ",", ";"), 1, nil, ""},
		{"tabs", "x.csv", strings.ReplaceAll(head+row("A", 1), ",", "\t"), 1, nil, ""},
		{"columns in another order and case", "x.csv", "EK, Rack,asset ,site\n" + ek + ",B07,A,fra1\n", 1, nil, ""},
		{"header alone", "x.csv", head, 0, nil, ""},
		{"the template", "x.csv", string(enrol.TemplateCSV()), 0, nil, ""},
		{"the template in JSON", "x.json", string(enrol.TemplateJSON()), 0, nil, ""},
		{"a row with a cell too few", "x.csv", head + "A,fra1,B07\n" + row("B", 2), 1, []string{"2  " + enrol.CodeCells}, ""},
		{"a row with a cell too many", "x.csv", head + "A,fra1,B07," + ek + ",x\n" + row("B", 2), 1, []string{"2  " + enrol.CodeCells}, ""},
		{"a quote in a cell", "x.csv", head + "A\",fra1,B07," + ek + "\n" + row("B", 2), 1, []string{"2  " + enrol.CodeCells}, ""},
		{"a quote that does not close takes what it swallowed", "x.csv", head + "\"A,fra1,B07," + ek + "\n" + row("B", 2) + "C,\"x\",B07,\n" + row("D", 4), 1, []string{"2  " + enrol.CodeCells}, ""},
		{"a quote that never closes", "x.csv", head + row("A", 1) + "\"B,fra1,B07," + ek + "\n" + row("C", 3), 1, []string{"3  " + enrol.CodeCells}, ""},
		{"names left out", "x.csv", head + ",,," + ek + "\n" + row("B", 2), 1, []string{"2 asset " + enrol.CodeRequired, "2 site " + enrol.CodeRequired, "2 rack " + enrol.CodeRequired}, ""},
		{"a site in upper case", "x.csv", head + "A,FRA1,B07," + ek + "\n", 0, []string{"2 site " + enrol.CodeName}, ""},
		{"no identity", "x.csv", head + "A,fra1,B07,\n" + row("B", 2), 1, []string{"2  " + enrol.CodeNoIdentity}, ""},
		{"two faults of one row", "x.csv", head + "A b,fra1,B07,x\n" + row("B", 2), 1, []string{"2 asset " + enrol.CodeName, "2 ek " + enrol.CodeEK}, ""},
		{"an asset twice", "x.csv", head + row("A", 1) + row("A", 2), 1, []string{"3 asset " + enrol.CodeDuplicate}, ""},
		{"a device twice", "x.csv", head + row("A", 1) + row("B", 1) + row("C", 3), 2, []string{"3 ek " + enrol.CodeDuplicate}, ""},
		{"a cell that is too long", "x.csv", head + "A,fra1,B07," + strings.Repeat("A", enrol.MaxCell+1) + "\n" + row("B", 2), 1, []string{"2 ek " + enrol.CodeTooLong}, ""},
		{"certificate over several lines", "x.csv", head + "A,fra1,B07,\"" + ek[:32] + "\n" + ek[32:] + "\"\n" + row("B", 1), 1, []string{"2 ek " + enrol.CodeEK}, ""},
		{"a column that nobody knows", "x.csv", "asset,site,rack,serial_number\n" + row("A", 1), 0, nil, `x.csv: column "serial_number" is not known; there are asset, site`},
		{"a column that is mistyped", "x.csv", "asset,site,rack,Chip ID\n" + row("A", 1), 0, nil, `column "Chip ID" is not known, the nearest is "chip_id"; there are`},
		{"empty columns behind the last", "x.csv", strings.ReplaceAll(head+row("A", 1), "\n", ",,\n") + row("B", 2), 2, nil, ""},
		{"an empty column before the last", "x.csv", "asset,site,rack,,ek\n", 0, nil, `column "" is not known; there are`},
		{"something in a column without a name", "x.csv", "asset,site,rack,ek,,\nA,fra1,B07," + ek + ",,x\n" + row("B", 2), 1, []string{"2  " + enrol.CodeCells}, ""},
		{"separators for an identity", "x.csv", "asset,site,rack,chip_id\nA,fra1,B07,;\n", 0, []string{"2  " + enrol.CodeNoIdentity}, ""},
		{"a column twice", "x.csv", "asset,site,rack,ek,EK\n", 0, nil, `column "ek" stands twice`},
		{"no column of racks", "x.csv", "asset,site,ek\n", 0, nil, `column "rack" is missing`},
		{"empty rows alone", "x.csv", ",,\n , \n", 0, nil, "there is no header"},
		{"comments alone", "x.csv", "# a\n# b\n", 0, nil, "there is no header"},
		{"nothing", "x.csv", " \n", 0, nil, "the file is empty"},
		{"another encoding", "x.csv", head + "A\xe4,fra1,B07,x\n", 0, nil, "not UTF-8"},
		{"a broken header", "x.csv", "asset,\"si\"te,rack\n", 0, nil, "header: "},
		{"JSON cut off", "x.json", "{\n\"type\": \"assay/inventory/v1\",\n\"hosts\": [{", 0, nil, "x.json: line 3: "},
		{"JSON of another type", "x.json", `{"type":"assay/policy/v1","hosts":[]}`, 0, nil, `type "assay/policy/v1" is not known`},
		{"JSON with a member that nobody knows", "x.json", `{"type":"assay/inventory/v1","host":[]}`, 0, nil, `host`},
		{"a host with a member that nobody knows", "x.json", `{"type":"assay/inventory/v1","hosts":[{"asset":"A","ekcert":"x"},{"asset":"B","site":"fra1","rack":"B07","ek":"` + ek + `"}]}`, 1, []string{"1 ekcert " + enrol.CodeMember}, ""},
		{"a serial that is a number", "x.json", `{"type":"assay/inventory/v1","hosts":[{"asset":"A","gpus":[690378826041732399492309725212231526036925833284]},{"asset":"B","site":"fra1","rack":"B07","ek":"` + ek + `"}]}`, 1, []string{"1 gpus " + enrol.CodeMember}, ""},
		{"a list for a host's text", "x.json", `{"type":"assay/inventory/v1","hosts":[{"asset":"A","site":["fra1"]}]}`, 0, []string{"1 site " + enrol.CodeMember}, ""},
		{"a host of too many bytes", "x.json", `{"type":"assay/inventory/v1","hosts":[{"asset":"A","site":"fra1","rack":"B07","ek":"` + ek + `"` + strings.Repeat(" ", 4*enrol.MaxCell) + `}]}`, 0, []string{"1  " + enrol.CodeTooLong}, ""},
		{"JSON by its name", "x.json", `[]`, 0, nil, "x.json: "},
		{"JSON by its first byte", "inventory", ` {"type":"assay/policy/v1","hosts":[]}`, 0, nil, `type "assay/policy/v1" is not known`},
		{"empty lines before the header", "x.csv", "\n \n;;;\n\n" + strings.ReplaceAll(head+row("A", 1), ",", ";"), 1, nil, ""},
		{"an asset twice, and wrong the second time", "x.csv", head + row("A", 1) + "A,fra1,B07,x\n", 1, []string{"3 ek " + enrol.CodeEK}, ""},
		{"a host that is text", "x.json", `{"type":"assay/inventory/v1","hosts":["A"]}`, 0, []string{"1  " + enrol.CodeMember}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, bad, err := enrol.Read(tc.file, []byte(tc.text))
			if got := faults(bad); len(rows) != tc.rows || !slices.EqualFunc(got, tc.faults, func(a, b string) bool { return a == b }) {
				t.Errorf("%d rows, faults %q, want %d, %q", len(rows), got, tc.rows, tc.faults)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			for _, f := range bad {
				if f.Problem == "" || f.Fix == "" || !slices.Contains(codes(), f.Code) {
					t.Errorf("a fault must say what is wrong and how to mend it, under a code of the list: %+v", f)
				}
			}
		})
	}
	for text, want := range map[string]string{
		head + "\"A,fra1,B07,x\n" + row("B", 1):                                         "row 2: the quotes of the row do not close (line 3, byte 77); lines 2 to 3 were read as this one row",
		head + "A\",fra1,B07,x\n":                                                       "row 2: the quotes of the row do not close (line 2, byte 2)",
		head + "A,FRA1,B07," + ek + "\n":                                                "row 2, site: site \"FRA1\": want",
		`{"type":"assay/inventory/v1","hosts":[{"asset":"A","gpus":[7]}]}`:              "row 1, gpus: gpus is a JSON number, want text in a list",
		`{"type":"assay/inventory/v1","hosts":[{"asset":"A","site":7}]}`:                "row 1, site: site is a JSON number, want text",
		`{"type":"assay/inventory/v1","hosts":[{"asset":"A","chipid":"x"}]}`:            `row 1, chipid: "chipid" is not a member of a host, the nearest is "chip_id"`,
		`{"type":"assay/inventory/v1","hosts":[{"asset":"A","serial_of_the_box":"x"}]}`: `"serial_of_the_box" is not a member of a host`,
	} {
		_, bad, err := enrol.Read("x", []byte(text))
		must(t, err)
		if len(bad) != 1 || !strings.Contains(bad[0].Error(), want) || strings.Contains(bad[0].Error(), "lines") != strings.Contains(want, "lines") {
			t.Errorf("%q: want %q", bad, want)
		}
	}
	if got := (enrol.Fault{Problem: "of the file"}).Error(); got != "of the file" {
		t.Errorf("%q", got)
	}
	many := head + strings.Repeat("A,fra1,B07,\n", enrol.MaxRows+1)
	if _, _, err := enrol.Read("x.csv", []byte(many)); err == nil || !strings.Contains(err.Error(), "divide the file") {
		t.Errorf("one row too many: %v", err)
	}
	if _, _, err := enrol.Read("x.csv", make([]byte, enrol.MaxFile+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a file that is too large: %v", err)
	}
}

func codes() (all []string) {
	for _, c := range enrol.Codes {
		all = append(all, c.Code)
	}
	return all
}

// TestCodes holds the list of codes against the source: a code never changes, and each is in the list.
func TestCodes(t *testing.T) {
	want := []string{
		"inventory.cells", "inventory.too-long", "inventory.member", "inventory.required", "inventory.name", "inventory.no-identity", "inventory.ek",
		"inventory.chip-id", "inventory.chip-masked", "inventory.ppid", "inventory.gpu", "inventory.duplicate", "inventory.taken", "inventory.retired",
	}
	if !slices.Equal(codes(), want) {
		t.Errorf("%q", codes())
	}
	source, err := os.ReadFile("enrol.go")
	must(t, err)
	if got := regexp.MustCompile(`"inventory\.[a-z-]+"`).FindAllString(string(source), -1); len(got) != len(want) {
		t.Errorf("%d codes in the source, %d in the list", len(got), len(want))
	}
}

func FuzzRead(f *testing.F) {
	f.Add("x.csv", enrol.TemplateCSV())
	f.Add("x.json", enrol.TemplateJSON())
	f.Add("x.csv", []byte("asset;site;rack;ek\nA;fra1;B07;"+ek+"\n\"B;\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		rows, _, _ := enrol.Read(name, data)
		for _, r := range rows {
			if err := r.Host.Validate(); err != nil {
				t.Errorf("a good row is no good host: %v", err)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
