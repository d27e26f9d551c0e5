package claim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

func TestCatalogueIsWhole(t *testing.T) {
	all := claim.Catalogue()
	if !slices.IsSortedFunc(all, func(a, b claim.Definition) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("catalogue is not ordered by id, so that Lookup would miss entries")
	}
	for _, d := range all {
		if got, ok := claim.Lookup(d.ID); !ok || got.ID != d.ID {
			t.Errorf("Lookup(%q) = %q, %v", d.ID, got.ID, ok)
		}
		if d.Kind == 0 || d.Meaning == "" || d.Spec == "" || d.Who == "" || d.Fix == "" {
			t.Errorf("%s: an empty column", d.ID)
		}
		for _, r := range d.Rests {
			if _, ok := claim.Lookup(r); !ok {
				t.Errorf("%s rests on %s, which the catalogue lacks", d.ID, r)
			}
		}
	}
	if _, ok := claim.Lookup("sevsnp.nothing"); ok {
		t.Error("Lookup found an id that is not there")
	}
}

func TestSettle(t *testing.T) {
	for _, row := range []struct {
		name  string
		chain claim.Status // of sevsnp.chain, on which sevsnp.signature rests, and on that sevsnp.tcb
		want  claim.Status
		why   string
	}{
		{"all affirmed", claim.Affirmed, claim.Affirmed, ""},
		{"base unknown", claim.Unknown, claim.Unknown, "rests-on"},
		{"base contradicted", claim.Contradicted, claim.Unknown, "rests-on"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s claim.Set
			s.Affirm("sevsnp.structure", "cpu:0", "v3")
			s.Affirm("sevsnp.signing-key", "cpu:0", "vcek")
			s.Affirm("sevsnp.cert-tcb", "cpu:0", "")
			s.Add(claim.Claim{ID: "sevsnp.chain", Subject: "cpu:0", Status: row.chain, Reason: "test: row"})
			s.Affirm("sevsnp.signature", "cpu:0", "")
			s.Affirm("sevsnp.tcb", "cpu:0", "bl=1 tee=0 snp=1 ucode=1")
			s.Contradict("sevsnp.debug-off", "cpu:0", "", "enabled: test")
			s.Settle()
			tcb := s.Find("sevsnp.tcb", "cpu:0")
			if tcb.Status != row.want || tcb.Reason.Code() != row.why {
				t.Errorf("sevsnp.tcb is %s (%s), want %s (%s)", tcb.Status, tcb.Reason, row.want, row.why)
			}
			if got := s.Find("sevsnp.debug-off", "cpu:0").Status; got != claim.Contradicted {
				t.Errorf("a contradicted claim became %s: settling must leave it", got)
			}
		})
	}
}

func TestSettleAcrossSubjects(t *testing.T) {
	for _, signed := range []claim.Status{claim.Affirmed, claim.Contradicted} {
		var s claim.Set
		s.Affirm("sevsnp.structure", "cpu:0", "v3")
		s.Affirm("sevsnp.chain", "cpu:0", "")
		s.Affirm("sevsnp.signing-key", "cpu:0", "vcek")
		s.Add(claim.Claim{ID: "sevsnp.signature", Subject: "cpu:0", Status: signed, Reason: "test: row"})
		s.Add(claim.Claim{ID: "binding.seal", Subject: "node", Status: claim.Affirmed, Basis: []string{"sevsnp.signature@cpu:0", "references:00"}})
		s.Settle()
		if got := s.Find("binding.seal", "node").Status; (got == claim.Affirmed) != (signed == claim.Affirmed) {
			t.Errorf("signature %s, seal %s", signed, got)
		}
	}
}

func TestStatusWords(t *testing.T) {
	for _, s := range []claim.Status{claim.Affirmed, claim.Contradicted, claim.Unknown} {
		text, err := s.MarshalText()
		var back claim.Status
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v does not survive its text form %q", s, text)
		}
	}
	var s claim.Status
	for _, bad := range []string{"", "Affirmed", "true", "accept"} {
		if s.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("status %q was read", bad)
		}
	}
	if _, err := canon.Marshal(claim.Claim{ID: "sevsnp.tcb"}); err == nil {
		t.Error("a claim without a status was written")
	}
}

func TestStatusOfReason(t *testing.T) {
	why := claim.Because(claim.Mismatch, "one is not the other")
	for _, row := range []struct {
		why          claim.Reason
		contradicted bool
		want         claim.Status
	}{{"", false, claim.Affirmed}, {"", true, claim.Affirmed}, {why, false, claim.Unknown}, {why, true, claim.Contradicted}} {
		if got := row.why.Status(row.contradicted); got != row.want {
			t.Errorf("%q, %v: %s, want %s", row.why, row.contradicted, got, row.want)
		}
	}
}

// TestMerge: merging a set gives what adding its claims gives, and refuses a second claim as adding does.
func TestMerge(t *testing.T) {
	var part, whole, both claim.Set
	for _, id := range []string{"sevsnp.structure", "sevsnp.chain", "sevsnp.signature"} {
		part.Affirm(id, "cpu:0", "")
		both.Affirm(id, "cpu:0", "")
	}
	for _, s := range []*claim.Set{&whole, &both} {
		s.Affirm("bundle.structure", "node", "")
		s.Affirm("sevsnp.structure", "cpu:1", "")
	}
	whole.Merge(part)
	a, err := canon.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := canon.Marshal(both); err != nil || string(a) != string(b) {
		t.Errorf("merged %s, added %s (%v)", a, b, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second claim was merged")
		}
	}()
	whole.Merge(part)
}
