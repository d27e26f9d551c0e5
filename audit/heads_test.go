package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// TestHeadsCommit: a heads entry commits to the streams as they stand before it, and to nothing else. Heads that lack the
// evidence of a node, or hold what a stream does not, are found.
func TestHeadsCommit(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(map[string]ledger.Tail)
		want   string
	}{
		{"as they stand", nil, ""},
		{"a stream left out", func(m map[string]ledger.Tail) { delete(m, "node:good") }, "commits to 3 streams, 4 stand before it"},
		{"a stream that is not", func(m map[string]ledger.Tail) { m["node:ghost"] = ledger.Tail{Next: 1} }, "commits to 5 streams"},
		{"an entry of evidence left out", func(m map[string]ledger.Tail) { m["node:good"] = ledger.Tail{Next: 1, Last: m["node:bad"].Last} }, "other ends of streams"},
		{"an entry too many", func(m map[string]ledger.Tail) { m["node:good"] = ledger.Tail{Next: 3, Last: m["node:good"].Last} }, "other ends of streams"},
		{"another last entry", func(m map[string]ledger.Tail) {
			m["verifier"] = ledger.Tail{Next: m["verifier"].Next, Last: canon.Sum(nil)}
		}, "other ends of streams"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			for _, h := range []*host{newHost("good", sevsnp.PolicySMT), newHost("bad", sevsnp.PolicySMT|sevsnp.PolicyDebug), newHost("good", sevsnp.PolicySMT)} {
				s.serve(h)
			}
			s.heads(row.change)
			index := s.edge.Tree().Size - 1
			s.serve(newHost("good", sevsnp.PolicySMT))
			s.heads(nil)
			s.publish()
			r := replay(t, s.export(), s.trust(), audit.Options{})
			if row.want == "" {
				if r.Outcome != audit.Equal {
					t.Errorf("%s", r.Text())
				}
				return
			}
			wantFault(t, r, fmt.Sprintf("entry %d", index), row.want)
			if r.FaultCount != 1 {
				t.Errorf("more than the one fault:\n%s", r.Text())
			}
		})
	}
	t.Run("seed of another length", func(t *testing.T) {
		s := newService(t, "honest")
		doc := ledger.NewHeadsTree([]byte("short"), s.streams).Document()
		s.putBytes([]byte("short"))
		s.append(ledger.KindHeads, ledger.StreamServer, s.put(doc))
		wantFault(t, replay(t, s.publish().export(), s.trust(), audit.Options{}), "entry 5", "seed of 5 bytes")
	})
}

// TestHeadsDue: while entries come, a heads entry comes within an hour and ten minutes, to the second; while none come,
// none is due.
func TestHeadsDue(t *testing.T) {
	const due = ledger.HeadsWithin + ledger.HeadsSlack
	entry := func(s *service) { s.append(ledger.KindReference, ledger.StreamServer, s.put(s.references)) }
	for _, row := range []struct {
		name   string
		fill   func(*service)
		faults int64
	}{
		{"to the second", func(s *service) { s.now = t0 + due; entry(s) }, 0},
		{"a second late", func(s *service) { s.now = t0 + due + 1; entry(s) }, 1},
		{"three hours without", func(s *service) {
			for range 3 {
				s.now += due + 1
				entry(s)
			}
		}, 3},
		{"late heads, and nothing meanwhile", func(s *service) { s.now = t0 + due + 1; s.heads(nil); entry(s) }, 0},
		{"late heads, and an entry meanwhile", func(s *service) { s.now = t0 + due + 1; entry(s); s.heads(nil) }, 1},
		{"heads in time, then a year of silence", func(s *service) {
			s.now = t0 + due
			s.heads(nil)
			s.now += 365 * day
			entry(s)
		}, 0},
		{"heads that cover heads alone are not due", func(s *service) {
			s.heads(nil)
			s.now += day
			s.heads(nil)
			s.now += day
			entry(s)
		}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, "honest")
			s.noHeads = true
			row.fill(s)
			r := replay(t, s.publish().export(), s.trust(), audit.Options{})
			missing := int64(0)
			for _, f := range r.Faults {
				if strings.Contains(f.What, "no heads entry covers entry") {
					missing++
				}
			}
			if missing != row.faults || r.FaultCount > row.faults {
				t.Errorf("%d faults, want %d:\n%s", r.FaultCount, row.faults, r.Text())
			}
		})
	}
}
