package audit_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/tar"
	"github.com/assay-network/assay/ledger"
)

func exportScope(t testing.TB, s *service, c audit.Criteria) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := audit.ExportScope(t.Context(), s, c, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// kinds counts entries of a report.
func kinds(r audit.Report, kind string) int64 {
	for _, k := range r.Entries {
		if k.Kind == kind {
			return k.Count
		}
	}
	return 0
}

// TestScope: an export of a part holds what matches and what that rests on, all of the tree, and no other node's words.
func TestScope(t *testing.T) {
	s := busy(t, 3)
	whole := s.export()
	middle := s.edge.Tree().Size / 2
	for _, row := range []struct {
		name     string
		criteria audit.Criteria
		evidence int64
		words    string
	}{
		{"node", audit.Criteria{Nodes: []string{"good"}}, 3, "node good"},
		{"two nodes", audit.Criteria{Nodes: []string{"good", "bare"}}, 6, "node good, bare"},
		{"verdict", audit.Criteria{Verdict: "reject"}, 3, "verdict reject"},
		{"node and verdict", audit.Criteria{Nodes: []string{"good"}, Verdict: "reject"}, 0, "node good, verdict reject"},
		{"from an index", audit.Criteria{FromIndex: middle}, 5, "entries 20 on"},
		{"to an index", audit.Criteria{ToIndex: middle}, 4, "entries 0 to before 20"},
		{"from a time", audit.Criteria{FromTime: t0 + 14}, 4, "from 2026-02-01T00:00:14Z"},
		{"to a time", audit.Criteria{ToTime: t0 + 13}, 5, "to 2026-02-01T00:00:13Z"},
		{"all", audit.Criteria{}, 9, "all evidence"},
	} {
		t.Run(row.name, func(t *testing.T) {
			export := exportScope(t, s, row.criteria)
			r := replay(t, export, s.trust(), audit.Options{Workers: 2})
			if got := kinds(r, ledger.KindEvidence); got != row.evidence || r.Outcome != audit.Equal || r.Verdicts.Replayed != got || r.Verdicts.Logged != got {
				t.Fatalf("%d of %d submissions\n%s", got, row.evidence, r.Text())
			}
			if r.Scope == nil || r.Scope.Entries >= r.Size && row.evidence < 9 || r.Root != s.edge.Tree().Root {
				t.Errorf("scope %+v of %d entries", r.Scope, r.Size)
			}
			text := r.Text()
			if !strings.Contains(text, "replay      equal within a scope: ") || !strings.Contains(text, "\nscope       "+strings.TrimSuffix(row.words, " on")) {
				t.Errorf("it does not say that it is a scope, and of what:\n%s", text)
			}
			if len(export) >= len(whole)+2048 {
				t.Errorf("%d bytes, the whole log has %d", len(export), len(whole))
			}
		})
	}
	if r := replay(t, exportScope(t, s, audit.Criteria{Nodes: []string{"good"}}), nil, audit.Options{}); r.Outcome != audit.NotAnchored {
		t.Errorf("without trust: %s", r.Text())
	}
	if bytes.Contains(exportScope(t, s, audit.Criteria{Nodes: []string{"good"}}), []byte(`"node:debug"`)) {
		t.Error("the scope of one node shows another")
	}
	for _, c := range []audit.Criteria{{Verdict: "maybe"}, {FromIndex: 5, ToIndex: 5}, {FromIndex: -1}, {FromTime: 9, ToTime: 8}, {Nodes: make([]string, audit.MaxScopeNodes+1)}} {
		if _, err := audit.ExportScope(t.Context(), s, c, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "export: scope: ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestScopeTampered: what somebody changes in a scoped export is found, and the part is named.
func TestScopeTampered(t *testing.T) {
	s := busy(t, 3)
	export := exportScope(t, s, audit.Criteria{Nodes: []string{"good"}})
	for _, g := range regions(t, export) {
		if g.field == "padding" {
			continue
		}
		for _, at := range []int{g.from, (g.from + g.to) / 2, g.to - 1} {
			changed := bytes.Clone(export)
			changed[at] ^= 1
			if r := replay(t, changed, s.trust(), audit.Options{}); r.Outcome != audit.Faulty || !names(r, g) {
				t.Errorf("byte %d, %s of %s:\n%s", at, g.field, g.part, r.Text())
			}
		}
	}
	// A digit of a bound, which nothing else in the file contradicts.
	bounded := exportScope(t, s, audit.Criteria{FromTime: t0 + 5})
	changed := bytes.Replace(bounded, []byte((t0 + 5).String()), []byte((t0 + 4).String()), 1)
	if bytes.Equal(changed, bounded) {
		t.Fatal("the bound is not in the file")
	}
	wantFault(t, replay(t, changed, s.trust(), audit.Options{}), "scope", "it does not have the digest that it says")

	// A scope that was written anew, with a digest that holds.
	var text []byte
	for _, g := range regions(t, export) {
		if g.part == "scope" && g.field == "content" {
			text = export[g.from:g.to]
		}
	}
	rewritten := func(change func(*audit.Scope)) []byte {
		t.Helper()
		scope, err := audit.ParseScope(text)
		s.must(err)
		change(&scope)
		scope.Check = canon.Digest{}
		scope.Check = canon.Hash(audit.ScopeType, s.bytes(scope))
		out := s.bytes(scope)
		return replacePart(t, export, "scope", out)
	}
	for _, row := range []struct {
		name, part, what string
		change           func(*audit.Scope)
	}{
		{"said to be of another node", "", "in the scope, which is: node bare", func(sc *audit.Scope) { sc.Criteria.Nodes = []string{"bare"} }},
		{"an entry too many", "", "missing", func(sc *audit.Scope) { sc.Entries[len(sc.Entries)-1].Last++ }},
		{"entries past the end", "scope", "the log has size", func(sc *audit.Scope) { sc.Entries[len(sc.Entries)-1].Last += 1000 }},
		{"without the keys", "scope", "without entry 0", func(sc *audit.Scope) { sc.Entries[0].First = 1 }},
		{"out of order", "scope", "not listed in order", func(sc *audit.Scope) { slices.Reverse(sc.Entries) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := replay(t, rewritten(row.change), s.trust(), audit.Options{})
			if r.Outcome != audit.Faulty || !slices.ContainsFunc(r.Faults, func(f audit.Fault) bool {
				return (row.part == "" || f.Part == row.part) && strings.Contains(f.What, row.what)
			}) {
				t.Errorf("want %q of %s\n%s", row.what, row.part, r.Text())
			}
		})
	}
	if r := replay(t, rewritten(func(*audit.Scope) {}), s.trust(), audit.Options{}); r.Outcome != audit.Equal {
		t.Errorf("written anew as it was:\n%s", r.Text())
	}
	// One submission of the node left out, with all that belongs to it: the node's stream shows the gap.
	without := rewritten(func(sc *audit.Scope) {
		var kept []audit.Span
		for _, span := range sc.Entries {
			for i := span.First; i <= span.Last; i++ {
				if i < 17 || i >= 29 { // the second round
					kept = append(kept, audit.Span{First: i, Last: i})
				}
			}
		}
		sc.Entries = joined(kept)
	})
	wantSays(t, replay(t, without, s.trust(), audit.Options{}), "the scope lacks entries 1 to 1, which match it")
}

// joined makes one run of runs that touch.
func joined(spans []audit.Span) (out []audit.Span) {
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].Last == s.First-1 {
			out[n-1].Last = s.Last
		} else {
			out = append(out, s)
		}
	}
	return out
}

func wantSays(t *testing.T, r audit.Report, what string) {
	t.Helper()
	if r.Outcome != audit.Faulty || !slices.ContainsFunc(r.Faults, func(f audit.Fault) bool { return strings.Contains(f.What, what) }) {
		t.Errorf("no fault says %q\n%s", what, r.Text())
	}
}

// replacePart writes an export anew with other content for one part.
func replacePart(t *testing.T, export []byte, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, g := range regions(t, export) {
		if g.field != "content" {
			continue
		}
		data := export[g.from:g.to]
		if g.part == name {
			data = content
		}
		if err := tar.Write(&b, g.part, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tar.End(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
