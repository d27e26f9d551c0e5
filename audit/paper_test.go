package audit_test

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

var auditor = newKey("auditor")

func paperOptions(t testing.TB) audit.PaperOptions {
	id, err := ledger.KeyID(auditor.Public())
	if err != nil {
		t.Fatal(err)
	}
	return audit.PaperOptions{Title: "Working paper", Auditor: "A. Auditor", Dated: t0, Seed: 7, Size: 4, By: audit.ByOutcome, Challenge: 2, Key: id,
		Build: policy.Build{Digest: canon.Sum([]byte("tool")), Go: "go1.26.8", Platform: "linux/amd64"}}
}

// paper makes a paper and its files.
func paper(t testing.TB, src ledger.Source, trust *audit.Trust, o audit.Options) (audit.Paper, string, []audit.File) {
	t.Helper()
	p, page, err := audit.MakePaper(t.Context(), src, trust, o, paperOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	files, err := audit.SealPaper(p, page, auditor)
	if err != nil {
		t.Fatal(err)
	}
	return p, string(page), files
}

func TestPaper(t *testing.T) {
	s := busy(t, 3)
	p, page, files := paper(t, s, s.trust(), audit.Options{Workers: 2})
	if p.Outcome != audit.Equal || len(p.Exceptions) != 0 {
		t.Errorf("%s: %s %+v", p.Outcome, p.Conclusion, p.Exceptions)
	}
	for _, want := range []string{
		"Without exception", "A. Auditor", "2026-02-01T00:00:00Z", s.edge.Tree().Root.String(), s.policy.Digest().String(), "9 rows for 9 verdict entries, 0 of them faulty",
		"9 of 9 computed again, 0 differ, 0 not reproducible", "drawn by seed 7 and parted by outcome", "NOT VENDOR ROOTS: 9 appraisals", "What was not, and what nothing here shows",
		"evidence-signed-bit", "sevsnp.signature@cpu:0", "The keys of the log are those of the auditor", p.Key.String(), canon.Sum([]byte("tool")).String(), "printf &#39;assay/sample/v1",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "<script") || regexp.MustCompile(`\b(src|href|action)\s*=|url\(|@import`).MatchString(page) {
		t.Error("the page asks for something from elsewhere")
	}
	if !regexp.MustCompile(`(?s)@media print`).MatchString(page) {
		t.Error("no print style sheet")
	}
	_, _, again := paper(t, s, s.trust(), audit.Options{Workers: 1})
	for i := range files {
		if !bytes.Equal(files[i].Data, again[i].Data) {
			t.Errorf("%s: not the same bytes twice", files[i].Name)
		}
	}
	opened, err := audit.OpenPaper(files, ledger.Key{SPKI: auditor.spki()})
	if err != nil || opened.Conclusion != p.Conclusion {
		t.Errorf("open: %v", err)
	}
}

// TestPaperNeedsItsSignature: each part of a paper is what was signed, or is named.
func TestPaperNeedsItsSignature(t *testing.T) {
	s := accepted(t)
	_, _, files := paper(t, s, s.trust(), audit.Options{})
	for _, row := range []struct {
		name, part string
		key        key
		change     func([]audit.File)
	}{
		{"another key", audit.PaperEnvelope, newKey("stranger"), func([]audit.File) {}},
		{"another paper", audit.PaperJSON, auditor, func(f []audit.File) { f[0].Data = append(f[0].Data, ' ') }},
		{"another page", audit.PaperHTML, auditor, func(f []audit.File) {
			f[1].Data = bytes.Replace(f[1].Data, []byte("A. Auditor"), []byte("B. Auditor"), 1)
		}},
		{"no page", audit.PaperHTML, auditor, func(f []audit.File) { f[1].Data = nil }},
		{"another signature", audit.PaperEnvelope, auditor, func(f []audit.File) {
			env, err := ledger.ParseEnvelope(f[2].Data)
			s.must(err)
			env.Signatures[0].Sig[5] ^= 1
			f[2].Data = s.bytes(env)
		}},
		{"another type", audit.PaperEnvelope, auditor, func(f []audit.File) {
			env, err := ledger.Seal("assay/paper/v9", f[0].Data, auditor)
			s.must(err)
			f[2].Data = s.bytes(env)
		}},
		{"no envelope", audit.PaperEnvelope, auditor, func(f []audit.File) { f[2].Data = []byte("{}") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			changed := slices.Clone(files)
			for i := range changed {
				changed[i].Data = bytes.Clone(changed[i].Data)
			}
			row.change(changed)
			_, err := audit.OpenPaper(changed, ledger.Key{SPKI: row.key.spki()})
			var f *audit.Fault
			if !errors.As(err, &f) || f.Part != row.part {
				t.Errorf("got %v, want a fault of %s", err, row.part)
			}
		})
	}
}

// TestPaperOfAFaultyLog: whatever finds it, an exception stands in the list and turns the conclusion.
func TestPaperOfAFaultyLog(t *testing.T) {
	s := newService(t, "honest")
	h := newHost("<script>alert(1)</script>\x1b[2J", sevsnp.PolicySMT)
	s.serve(h)
	s.changeVerdict = func(v *policy.Verdict) { v.Outcome = policy.Undecided }
	s.serve(h)
	s.publish()
	p, page, _ := paper(t, s, s.trust(), audit.Options{})
	if p.Outcome != audit.Faulty || !strings.Contains(page, "With exceptions") || !strings.Contains(p.Conclusion, "exceptions found") {
		t.Errorf("%s: %s", p.Outcome, p.Conclusion)
	}
	for _, source := range []string{"replay", "sample", "challenge"} {
		if !slices.ContainsFunc(p.Exceptions, func(e audit.Exception) bool { return slices.Contains(e.By, source) }) {
			t.Errorf("no exception found by %s: %+v", source, p.Exceptions)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "\x1b") || !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("the log's text is not escaped")
	}
}

// TestPaperUnanchored: without a trust file nothing is shown.
func TestPaperUnanchored(t *testing.T) {
	s := accepted(t)
	p, page, _ := paper(t, s, nil, audit.Options{})
	if p.Outcome != audit.NotAnchored || !strings.Contains(p.Conclusion, "nobody vouches for these keys") || !strings.Contains(page, "Not anchored:") {
		t.Errorf("%s: %s", p.Outcome, p.Conclusion)
	}
}

// TestPaperOfAForger: a log under other keys than the trusted ones is not called the trusted one.
func TestPaperOfAForger(t *testing.T) {
	s := newService(t, "forger")
	s.serve(newHost("good", sevsnp.PolicySMT))
	s.publish()
	p, page, _ := paper(t, s, newService(t, "honest").trust(), audit.Options{})
	if p.Outcome != audit.Faulty || !strings.Contains(page, "Not shown to be the trusted log:") || strings.Contains(page, "The keys of the log are those") {
		t.Errorf("%s: %s", p.Outcome, p.Conclusion)
	}
	if _, page, _ := paper(t, s, s.trust(), audit.Options{}); strings.Contains(page, "Not shown to be the trusted log:") || !strings.Contains(page, "The keys of the log are those") {
		t.Error("the trusted log is not called so")
	}
}

// TestPaperByTheLogsOwnKey: nobody audits himself.
func TestPaperByTheLogsOwnKey(t *testing.T) {
	s := accepted(t)
	o := paperOptions(t)
	for _, use := range []string{"log", ledger.UseResult, ledger.UsePromise} {
		o.Key = canon.Sum(s.key(use).spki())
		if _, _, err := audit.MakePaper(t.Context(), s, s.trust(), audit.Options{}, o); err == nil || !strings.Contains(err.Error(), "an auditor signs with his own") {
			t.Errorf("%s key: %v", use, err)
		}
	}
	p, page, err := audit.MakePaper(t.Context(), s, s.trust(), audit.Options{}, paperOptions(t))
	s.must(err)
	if _, err := audit.SealPaper(p, page, newKey("stranger")); err == nil {
		t.Error("sealed by a key that the paper does not name")
	}
	o = paperOptions(t)
	for _, bad := range []func(*audit.PaperOptions){
		func(o *audit.PaperOptions) { o.Auditor = "" }, func(o *audit.PaperOptions) { o.Title = strings.Repeat("x", audit.MaxPaperWord+1) },
		func(o *audit.PaperOptions) { o.Size = 0 }, func(o *audit.PaperOptions) { o.Challenge = -1 },
	} {
		o := o
		bad(&o)
		if _, _, err := audit.MakePaper(t.Context(), s, s.trust(), audit.Options{}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestSurveyOfAScope: what a part of the log shows is never passed off as the whole.
func TestSurveyOfAScope(t *testing.T) {
	s := busy(t, 2)
	data := exportScope(t, s, audit.Criteria{Nodes: []string{"good"}})
	src, err := audit.Open(bytes.NewReader(data), int64(len(data)))
	s.must(err)
	g, err := audit.ReadLog(t.Context(), src, s.trust(), audit.Options{})
	s.must(err)
	rows, totals := population(t, g)
	if len(rows) != 2 || totals.Outcome != audit.Equal || totals.Scope == nil || totals.Verdicts != 2 {
		t.Errorf("%d rows, %+v", len(rows), totals)
	}
	sample, err := g.Sample(t.Context(), 1, 9, audit.ByNode, true)
	s.must(err)
	if sample.Outcome != audit.Equal || sample.Scope == nil || !strings.Contains(sample.Text(), "\nscope       node good: ") {
		t.Errorf("%s", sample.Text())
	}
	p, page, _ := paper(t, src, s.trust(), audit.Options{})
	if p.Outcome != audit.Equal || !strings.Contains(p.Conclusion, `within the scope "node good", and of no other entry of the log,`) || !strings.Contains(page, "node good: ") {
		t.Errorf("%s: %s %+v", p.Outcome, p.Conclusion, p.Exceptions)
	}
}
