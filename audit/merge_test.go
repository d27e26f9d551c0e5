package audit_test

import (
	"bytes"
	"crypto"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// TestMerge: reports on ranges, put together, are the report on the whole, byte for byte, also where there are faults.
func TestMerge(t *testing.T) {
	s := busy(t, 3)
	s.changeVerdict = func(v *policy.Verdict) { v.Scope += "?" }
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.changeVerdict = nil
	s.ask("nobody")
	s.append(ledger.KindPolicy, ledger.StreamServer, s.putBytes([]byte("no policy"))) // which every range finds
	s.publish()
	export, trust, size := s.export(), s.trust(), s.edge.Tree().Size
	whole, err := replay(t, export, trust, audit.Options{}).Canonical()
	s.must(err)
	part := func(from, to int64) audit.PartialReport {
		t.Helper()
		r := replay(t, export, trust, audit.Options{Range: audit.Range{From: from, To: to}, Workers: 2})
		if text := r.Text(); !strings.Contains(text, fmt.Sprintf("\nrange       evidence of entries %d to before %d;", from, to)) {
			t.Errorf("it does not say that it is of a range:\n%s", text)
		}
		return audit.PartialReport{Name: fmt.Sprintf("%d:%d", from, to), Report: r}
	}
	a, b, c := part(0, 9), part(9, 30), part(30, size)
	if a.Report.Verdicts.Replayed != 1 || b.Report.Verdicts.Replayed != 5 || c.Report.Verdicts.Replayed != 4 || a.Report.Verdicts.Logged != 10 {
		t.Errorf("verdicts %+v, %+v, %+v", a.Report.Verdicts, b.Report.Verdicts, c.Report.Verdicts)
	}
	for _, order := range [][]audit.PartialReport{{a, b, c}, {c, a, b}} {
		merged, err := audit.Merge(order)
		s.must(err)
		if got, err := merged.Canonical(); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("merged (%v)\n%s\nwhole\n%s", err, got, whole)
		}
	}
	other := busy(t, 3)
	export2 := other.export()
	foreign := audit.PartialReport{Name: "foreign", Report: replay(t, export2, trust, audit.Options{Range: audit.Range{From: 9, To: 30}})}
	untrusting := audit.PartialReport{Name: "untrusting", Report: replay(t, export, nil, audit.Options{Range: audit.Range{From: 9, To: 30}})}
	otherRules := b
	otherRules.Report.Rules = append(otherRules.Report.Rules[:0:0], otherRules.Report.Rules...)
	otherRules.Report.Rules[0].Rules++
	full := audit.PartialReport{Name: "full", Report: replay(t, export, trust, audit.Options{})}
	many := b
	many.Report.FaultCount = 1000
	for _, row := range []struct {
		name  string
		parts []audit.PartialReport
		want  string
	}{
		{"the end is missing", []audit.PartialReport{a, b}, fmt.Sprintf("no report is of 30:%d", size)},
		{"the beginning and the middle are missing", []audit.PartialReport{part(5, 9), c}, "no report is of 0:5, 9:30"},
		{"ranges overlap", []audit.PartialReport{a, part(8, 30), c}, "8:30 is of 8:30, and entries before 9 are in another report"},
		{"a range twice", []audit.PartialReport{a, b, b, c}, "ranges overlap"},
		{"another tree", []audit.PartialReport{a, foreign, c}, "0:9 and foreign differ in the size of the tree"},
		{"other trust", []audit.PartialReport{a, untrusting, c}, "differ in the trust"},
		{"other rules", []audit.PartialReport{a, otherRules, c}, "differ in the rules"},
		{"of the whole", []audit.PartialReport{a, full, c}, "full is of the whole log"},
		{"more faults than it lists", []audit.PartialReport{a, many, c}, "of its 1000 faults"},
		{"one", []audit.PartialReport{a}, "want 2 to"},
	} {
		if _, err := audit.Merge(row.parts); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

// TestSealedReport: a report counts under the signature of a key that the reader names.
func TestSealedReport(t *testing.T) {
	s := busy(t, 1)
	r := replay(t, s.export(), s.trust(), audit.Options{})
	one, two := newKey("auditor one"), newKey("auditor two")
	sealed, err := audit.SealReport(r, one)
	s.must(err)
	got, by, err := audit.OpenReport(append(sealed, '\n'), []crypto.PublicKey{two.Public(), one.Public()})
	id, _ := ledger.KeyID(one.Public())
	if err != nil || by != id || got.Text() != r.Text() {
		t.Errorf("by %s: %v", by, err)
	}
	promise, err := ledger.Seal(ledger.PromiseType, []byte("{}"), one)
	s.must(err)
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"another key", sealed, "signed by none"},
		{"an altered report", bytes.Replace(sealed, []byte(`"payload":"eyJ`), []byte(`"payload":"eyK`), 1), ""},
		{"no envelope", []byte("{}"), "report: "},
		{"a promise", s.bytes(promise), "payload type"},
	} {
		keys := []crypto.PublicKey{one.Public()}
		if row.name == "another key" {
			keys = []crypto.PublicKey{two.Public()}
		}
		if _, _, err := audit.OpenReport(row.data, keys); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}
