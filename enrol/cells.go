package enrol

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/ledger"
)

// Sizes of identities in bytes.
const (
	chipSize      = 64
	turinChipSize = 8 // significant bytes of CHIP_ID on Turin; the others are zeros
	ppidSize      = 16
	ekSize        = 32
	leafSize      = 20
	pdiSize       = 8
)

// record is one row before its cells are read.
type record struct {
	asset, site, rack, host, board string
	ek, chip, ppid                 string
	gpus                           []string
}

// read reads the cells of a row. What is wrong is all reported; the host is then not to be used.
func (r record) read() (h ledger.Host, faults []Fault) {
	fault := func(column, code, value, fix, format string, args ...any) {
		faults = append(faults, Fault{Column: column, Code: code, Value: cut(value), Problem: fmt.Sprintf(format, args...), Fix: fix})
	}
	h = ledger.Host{Asset: r.asset, Site: r.site, Rack: r.rack, Name: r.host, Board: r.board, Revision: 1}
	names := "use letters, digits, '.', '_' and '-' alone, a letter or digit first"
	for _, c := range []struct {
		column, value, fix string
		required           bool
		check              func(string) error
	}{
		{columnAsset, r.asset, names, true, nameCheck(ledger.MaxAsset)},
		{columnSite, r.site, "write the site in lower case, with a-z, 0-9, '.' and '-' alone", true, ledger.CheckSite},
		{columnRack, r.rack, names, true, nameCheck(ledger.MaxAsset)},
		{columnHost, r.host, names, false, nameCheck(ledger.MaxHostName)},
		{columnBoard, r.board, "write the serial number as the board's label has it", false, ledger.CheckBoard},
	} {
		switch {
		case c.value == "" && c.required:
			fault(c.column, CodeRequired, "", "fill it in", "%s is empty", c.column)
		case c.value == "":
		default:
			if err := c.check(c.value); err != nil {
				fault(c.column, CodeName, c.value, c.fix, "%s %v", c.column, err)
			}
		}
	}
	add := func(kind string, value []byte) {
		h.Devices = append(h.Devices, ledger.Device{Kind: kind, Value: value})
	}
	if r.ek != "" {
		value, err := readEK(r.ek)
		if err != nil {
			fault(columnEK, CodeEK, r.ek, "tpm2_getekcertificate, or tpm2_nvread 0x01c00002, writes the certificate; of a key alone: openssl pkey -pubin -outform DER | sha256sum", "%v", err)
		} else {
			add(attest.IdentityTPMEK, value)
		}
	}
	chips, ppids := ids(r.chip, chipSize), ids(r.ppid, ppidSize)
	for _, c := range []struct {
		column string
		ids    []string
	}{{columnChip, chips}, {columnPPID, ppids}} {
		if n := len(c.ids); n > MaxSockets {
			fault(c.column, CodeTooLong, fmt.Sprint(n), "list the processors of this machine alone", "%d processors, at most %d", n, MaxSockets)
			return h, faults // and not one for each of them
		}
	}
	for _, text := range chips {
		switch value, err := readHex(text, chipSize, turinChipSize); {
		case err != nil:
			fault(columnChip, CodeChipID, text, "take CHIP_ID from a report of this machine: snpguest report, then snpguest display report", "CHIP_ID %v", err)
		case allZero(value):
			fault(columnChip, CodeMasked, text, "unset MASK_CHIP_ID in the firmware's settings, and read CHIP_ID again", "CHIP_ID is hidden: it is all zeros, as that of every chip with MASK_CHIP_ID")
		default:
			if allZero(value[turinChipSize:]) {
				value = value[:turinChipSize]
			}
			add(attest.IdentityAMDChip, value)
		}
	}
	for _, text := range ppids {
		switch value, err := readHex(text, ppidSize); {
		case err != nil:
			fault(columnPPID, CodePPID, text, "take the PPID from the PCK certificate of this machine", "PPID %v", err)
		case allZero(value):
			fault(columnPPID, CodePPID, text, "take the PPID from the PCK certificate of this machine", "PPID is all zeros")
		default:
			add(attest.IdentityIntelPPID, value)
		}
	}
	if r.ek == "" && len(chips) == 0 && len(ppids) == 0 {
		fault("", CodeNoIdentity, "", "fill in one of ek, chip_id and ppid", "the row has no ek, chip_id or ppid: nothing that the machine could be known by")
	}
	if len(r.gpus) > MaxGPUs {
		fault(columnGPUs, CodeTooLong, fmt.Sprint(len(r.gpus)), "list the GPUs and switches of this machine alone", "%d GPUs, at most %d", len(r.gpus), MaxGPUs)
		r.gpus = nil
	}
	for _, text := range r.gpus {
		d, err := readGPU(text)
		if err != nil {
			fault(columnGPUs, CodeGPU, text, "nvattest prints it as ueid; nvidia-smi conf-compute --get-devices-certificates shows it as the serial number of the first certificate", "GPU %.80q: %v", text, err)
			continue
		}
		h.Devices = append(h.Devices, d)
	}
	slices.SortFunc(h.Devices, ledger.Device.Compare)
	for i := 1; i < len(h.Devices); i++ {
		if h.Devices[i].Compare(h.Devices[i-1]) == 0 {
			fault(ColumnOf(h.Devices[i].Kind), CodeDuplicate, h.Devices[i].Value.String(), "name each device once", "%s %s stands twice in the row", h.Devices[i].Kind, h.Devices[i].Value)
		}
	}
	return h, faults
}

// words splits a list.
func words(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(" \t\r\n,;|", r) })
}

// ids splits a list of identities of a size in bytes. Tools print one as pairs of digits over several lines (snpguest display
// report, openssl), which belong together then.
func ids(cell string, size int) []string {
	list := words(cell)
	if len(list) < 2 || slices.ContainsFunc(list, func(w string) bool { return len(w) != 2 }) {
		return list
	}
	all := strings.Join(list, "")
	list = nil
	for ; len(all) > 2*size; all = all[2*size:] {
		list = append(list, all[:2*size])
	}
	return append(list, all)
}

// rounded says so of what a spreadsheet made of an identity that it took for a number.
func rounded(text string) string {
	digits, power, ok := strings.Cut(strings.ToUpper(text), "E+")
	if !ok || strings.Trim(digits, "0123456789.") != "" || strings.Trim(power, "0123456789") != "" {
		return ""
	}
	return ": a spreadsheet took it for a number and rounded it; have the column as text, and fill it in again"
}

func nameCheck(limit int) func(string) error {
	return func(name string) error { return ledger.CheckName(name, limit) }
}

func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }

// readHex reads bytes in hex, of one of the given sizes. Colons and spaces between digits, and 0x before them, are what tools
// print.
func readHex(text string, sizes ...int) ([]byte, error) {
	digits := strings.TrimPrefix(strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(text)), "0x")
	value, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not hex%s", text, rounded(text))
	}
	if !slices.Contains(sizes, len(value)) {
		want := fmt.Sprint(2 * sizes[0])
		for _, s := range sizes[1:] {
			want += fmt.Sprint(" or ", 2*s)
		}
		return nil, fmt.Errorf("has %d hex digits, want %s", len(digits), want)
	}
	return value, nil
}

// readEK reads an endorsement certificate, or the digest of its key.
func readEK(text string) ([]byte, error) {
	if value, err := readHex(text, ekSize); err == nil {
		if allZero(value) {
			return nil, fmt.Errorf("the digest of the endorsement key is all zeros")
		}
		return value, nil
	}
	data := []byte(strings.ReplaceAll(text, `\n`, "\n")) // as JSON and shells write a PEM block in one line
	if !strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, fmt.Errorf("%.40q is neither a certificate (PEM, or base64 of DER) nor 64 hex digits%s", text, rounded(text))
		}
	}
	d, err := tpm.EndorsementKey(data)
	return d[:], err
}

// readGPU reads the serial number of the certificate of an NVIDIA device's key, decimal (NVIDIA's ueid) or hex, or a PDI in
// hex. A serial of 40 digits that happen to be decimal is hex: as a decimal number it would have 49, or few less.
func readGPU(text string) (ledger.Device, error) {
	digits, marked := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(text, ":", "")), "0x")
	if strings.HasPrefix(digits, "gpu-") {
		return ledger.Device{}, fmt.Errorf("a UUID is the driver's word, and stands in no evidence")
	}
	hexadecimal := marked || len(digits) == 2*leafSize || len(digits) == 2*pdiSize
	if !hexadecimal && digits != "" && strings.Trim(digits, "0123456789") == "" {
		n, _ := new(big.Int).SetString(digits, 10)
		if n.BitLen() > 8*leafSize || n.BitLen() <= 8*pdiSize {
			return ledger.Device{}, fmt.Errorf("a decimal number that is no serial of %d bytes", leafSize)
		}
		return ledger.Device{Kind: KindLeaf, Value: n.FillBytes(make([]byte, leafSize))}, nil
	}
	value, err := readHex(digits, leafSize, pdiSize)
	switch {
	case err != nil:
		return ledger.Device{}, fmt.Errorf("neither a decimal serial nor 40 hex digits (serial) or 16 (PDI)%s", rounded(text))
	case allZero(value):
		return ledger.Device{}, fmt.Errorf("it is all zeros")
	case len(value) == pdiSize:
		return ledger.Device{Kind: KindPDI, Value: value}, nil
	}
	return ledger.Device{Kind: KindLeaf, Value: value}, nil
}
