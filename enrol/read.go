package enrol

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/ledger"
)

// Read reads an inventory: JSON where the name ends in .json or the text begins with a brace, else CSV. The error is of the
// whole file, of which nothing can then be used: not UTF-8, too large, no header, a column or member that nobody knows.
// Everything else is a fault of one row, and the other rows are good. Of rows that have the same asset or device the first
// counts.
func Read(name string, data []byte) ([]Row, []Fault, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case len(data) > MaxFile:
		return nil, nil, fmt.Errorf("%s: %d bytes, at most %d", name, len(data), MaxFile)
	case !utf8.Valid(data):
		return nil, nil, fmt.Errorf("%s: the text is not UTF-8: save it as CSV UTF-8", name)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, nil, fmt.Errorf("%s: the file is empty: `assay enrol init` writes a template", name)
	}
	r := reader{name: name, assets: map[string]int{}, devices: map[string]int{}}
	var err error
	if strings.HasSuffix(name, ".json") || bytes.TrimSpace(data)[0] == '{' {
		err = r.readJSON(data)
	} else {
		err = r.readCSV(data)
	}
	return r.rows, r.faults, err
}

type reader struct {
	name    string
	rows    []Row
	faults  []Fault
	assets  map[string]int // the rows that have them
	devices map[string]int
	count   int
}

// take takes a row, or its faults.
func (r *reader) take(row int, rec record, faults ...Fault) error {
	if r.count++; r.count > MaxRows {
		return fmt.Errorf("%s: more than %d hosts: divide the file", r.name, MaxRows)
	}
	var h ledger.Host
	if len(faults) == 0 {
		h, faults = rec.read()
	}
	if before, ok := r.assets[rec.asset]; ok && len(faults) == 0 {
		faults = append(faults, Fault{Column: columnAsset, Code: CodeDuplicate, Value: cut(rec.asset), Problem: fmt.Sprintf("asset %.80q stands in row %d already", rec.asset, before), Fix: "give each machine one row"})
	}
	if len(faults) == 0 {
		for _, d := range h.Devices {
			if before, ok := r.devices[d.Kind+d.Value.String()]; ok {
				faults = append(faults, Fault{Column: ColumnOf(d.Kind), Code: CodeDuplicate, Value: d.Value.String(),
					Problem: fmt.Sprintf("%s %s is that of row %d already", d.Kind, d.Value, before), Fix: "find out which machine has it, and take it from the other row"})
			}
		}
	}
	if len(faults) > 0 {
		for i := range faults {
			faults[i].Row, faults[i].Asset = row, rec.asset
		}
		r.faults = append(r.faults, faults...)
		return nil
	}
	r.assets[h.Asset] = row
	for _, d := range h.Devices {
		r.devices[d.Kind+d.Value.String()] = row
	}
	r.rows = append(r.rows, Row{row, h})
	return nil
}

// separator returns what separates the cells of a header.
func separator(header string) rune {
	best := ','
	for _, c := range ";\t" {
		if strings.Count(header, string(c)) > strings.Count(header, string(best)) {
			best = c
		}
	}
	return best
}

func (r *reader) readCSV(data []byte) error {
	header := ""
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			header = line
			break
		}
	}
	rows := csv.NewReader(bytes.NewReader(data))
	rows.Comma, rows.Comment, rows.FieldsPerRecord, rows.ReuseRecord = separator(header), '#', -1, true
	var names []string
	for len(names) == 0 { // spreadsheets write rows of empty cells, and empty cells behind the last
		cells, err := rows.Read()
		switch {
		case err == io.EOF:
			return fmt.Errorf("%s: there is no header: the first row names the columns", r.name)
		case err != nil:
			return fmt.Errorf("%s: header: %w", r.name, err)
		}
		names = trimmed(slices.Clone(cells))
	}
	if err := r.checkHeader(names); err != nil {
		return err
	}
	for {
		cells, err := rows.Read()
		var wrong *csv.ParseError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &wrong):
			what := fmt.Sprintf("the quotes of the row do not close (line %d, byte %d)", wrong.Line, wrong.Column)
			if wrong.Line > wrong.StartLine {
				what += fmt.Sprintf("; lines %d to %d were read as this one row", wrong.StartLine, wrong.Line)
			}
			if err := r.take(wrong.StartLine, record{}, Fault{Code: CodeCells, Problem: what, Fix: `put quotes around a whole cell, and write a quote within it twice ("")`}); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", r.name, err)
		}
		line, _ := rows.FieldPos(0)
		if len(trimmed(cells)) == 0 {
			continue // an empty row of a spreadsheet
		}
		var rec record
		var faults []Fault
		for i, name := range names {
			if i < len(cells) {
				cell := strings.TrimSpace(cells[i])
				if len(cell) > MaxCell {
					faults = append(faults, Fault{Column: name, Code: CodeTooLong, Value: cut(cell), Problem: fmt.Sprintf("%s of %d bytes, at most %d", name, len(cell), MaxCell), Fix: "look for a quote that does not close"})
				}
				rec.set(name, cell)
			}
		}
		if n := len(trimmed(cells)); len(cells) < len(names) || n > len(names) {
			faults = append(faults, Fault{Code: CodeCells, Problem: fmt.Sprintf("the row has %d cells, the header %d", len(cells), len(names)), Fix: "give the row a cell for each column, an empty one where there is nothing"})
		}
		if err := r.take(line, rec, faults...); err != nil {
			return err
		}
	}
}

func (r *reader) checkHeader(names []string) error {
	for i, name := range names {
		names[i] = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !known(names[i]):
			return fmt.Errorf("%s: column %.80q is not known%s; there are %s", r.name, name, nearest(names[i]), strings.Join(columnNames(), ", "))
		case slices.Contains(names[:i], names[i]):
			return fmt.Errorf("%s: column %q stands twice", r.name, names[i])
		}
	}
	for _, c := range Columns {
		if c.Required && !slices.Contains(names, c.Name) {
			return fmt.Errorf("%s: column %q is missing", r.name, c.Name)
		}
	}
	return nil
}

// trimmed leaves out the empty cells behind the last that is not.
func trimmed(cells []string) []string {
	for len(cells) > 0 && strings.TrimSpace(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}

// nearest says which column a word most likely meant.
func nearest(word string) string {
	if near := doc.Nearest(word, columnNames()); word != "" && near != "" {
		return fmt.Sprintf(", the nearest is %q", near)
	}
	return ""
}

func known(name string) bool { return slices.Contains(columnNames(), name) }

func columnNames() (names []string) {
	for _, c := range Columns {
		names = append(names, c.Name)
	}
	return names
}

// ColumnOf returns the column that a kind of device stands in.
func ColumnOf(kind string) string {
	switch kind {
	case KindLeaf, KindPDI:
		return columnGPUs
	case attest.IdentityTPMEK:
		return columnEK
	case attest.IdentityAMDChip:
		return columnChip
	}
	return columnPPID
}

func (rec *record) set(column, cell string) {
	switch column {
	case columnAsset:
		rec.asset = cell
	case columnSite:
		rec.site = cell
	case columnRack:
		rec.rack = cell
	case columnHost:
		rec.host = cell
	case columnBoard:
		rec.board = cell
	case columnEK:
		rec.ek = cell
	case columnChip:
		rec.chip = cell
	case columnPPID:
		rec.ppid = cell
	case columnGPUs:
		rec.gpus = ids(cell, leafSize)
	}
}

// file is an inventory in JSON.
type file struct {
	Type  string            `json:"type"`
	About map[string]string `json:"about,omitzero"` // what the members mean; nobody reads it
	Hosts []jsontext.Value  `json:"hosts"`
}

// fileHost is a host in JSON.
type fileHost struct {
	Asset string   `json:"asset"`
	Site  string   `json:"site"`
	Rack  string   `json:"rack"`
	Host  string   `json:"host,omitzero"`
	Board string   `json:"board,omitzero"`
	EK    string   `json:"ek,omitzero"`
	Chip  string   `json:"chip_id,omitzero"`
	PPID  string   `json:"ppid,omitzero"`
	GPUs  []string `json:"gpus,omitzero"`
}

func (r *reader) readJSON(data []byte) error {
	var f file
	if err := json.Unmarshal(data, &f, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", r.name, positioned(data, err))
	}
	if f.Type != FileType {
		return fmt.Errorf("%s: type %.80q is not known to this build, want %q", r.name, f.Type, FileType)
	}
	for i, value := range f.Hosts {
		var h fileHost
		var faults []Fault
		if err := json.Unmarshal(value, &h, json.RejectUnknownMembers(true)); err != nil {
			member, what := "", err.Error()
			var wrong *json.SemanticError
			if errors.As(err, &wrong) {
				member = strings.Split(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/")[0]
				what = fmt.Sprintf("%.80q is not a member of a host%s", member, nearest(member))
				if known(member) {
					what = fmt.Sprintf("%s is a JSON %s, want text%s", member, wrong.JSONKind, map[bool]string{true: " in a list"}[member == columnGPUs])
				}
			}
			faults = []Fault{{Column: member, Code: CodeMember, Problem: what, Fix: "members are " + strings.Join(columnNames(), ", ") + "; all are text, gpus a list of text"}}
		}
		rec := record{h.Asset, h.Site, h.Rack, h.Host, h.Board, h.EK, h.Chip, h.PPID, h.GPUs}
		if len(value) > MaxCell*4 {
			faults = append(faults, Fault{Code: CodeTooLong, Problem: fmt.Sprintf("a host of %d bytes, at most %d", len(value), MaxCell*4), Fix: "give certificates without their issuers"})
		}
		if err := r.take(i+1, rec, faults...); err != nil {
			return err
		}
	}
	return nil
}

// positioned says where in a file a JSON error is.
func positioned(data []byte, err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	before := data[:min(int64(len(data)), syntax.ByteOffset)]
	return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
}
