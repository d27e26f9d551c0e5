package vetting_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
)

func TestImportProofOfCloud(t *testing.T) {
	chip := strings.Repeat("9c", 64)
	turin := "0102030405060708" + strings.Repeat("00", 56)
	ppid := strings.Repeat("1d", 16)
	entry := func(uid string, level int, when string) string {
		return fmt.Sprintf(`{"platform_uid":%q,"method":"video","level":%d,"timestamp":%q,"endorsements":["one.example","two.example"]}`, uid, level, when)
	}
	const recent, old = "2026-01-02T00:00:00Z", "2025-01-02T00:00:00Z"
	rows, err := vetting.ImportProofOfCloud("poc.json", []byte(`{"entries":[`+strings.Join([]string{
		entry("amd:snp:chipid:"+chip, 1, recent),
		entry("amd:snp:chipid:"+turin, 2, recent),
		entry("intel:tdx:ppid:"+ppid, 3, recent),
		entry("intel:tdx:ppid:"+ppid, 3, recent),                     // twice
		entry("intel:tdx:ppid:"+chip, 3, recent),                     // of the wrong size
		entry("amd:snp:chipid:"+strings.Repeat("00", 64), 1, recent), // masked
		entry("nvidia:gpu:pdi:00", 1, recent),
		entry("amd:snp:chipid:"+strings.Repeat("9d", 64), 4, recent),
		entry("amd:snp:chipid:"+strings.Repeat("9e", 64), 1, old),
		entry("amd:snp:chipid:"+strings.Repeat("9f", 64), 1, "yesterday"),
		entry("=HYPERLINK(1)", 1, recent),
	}, ",")+`]}`), "importer.example", now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"amd-chip-id:" + chip + " witnessed", "amd-chip-id:0102030405060708 bound", "intel-ppid:" + ppid + " bound",
		"stands in entry 3", "want 16 bytes", "masked", "want intel:tdx:ppid", "level 4", "counts for 365 days", "want RFC 3339", "want intel:tdx:ppid"}
	if len(rows) != len(want) {
		t.Fatalf("%d rows", len(rows))
	}
	l := newLab(t)
	l.at = now
	l.register("importer.example", "party.facility", vetting.Scope{}, 100*day)
	for i, r := range rows {
		got := r.Fault
		if got == "" {
			got = r.Claim.Subject.ID + " " + r.Claim.Value
			l.say(r.Claim)
		}
		if !strings.Contains(got, want[i]) || r.Number != i+1 {
			t.Errorf("row %d: %s, want %s", r.Number, got, want[i])
		}
	}
	p := vetting.Place{Provider: "p1", Host: "host-1", Devices: []vetting.Device{{ID: "amd-chip-id:" + chip}}}
	if s := l.Stand(p, nil, observed(now), vetting.Defaults(), now); s.Axes.Facility != claim.FacilityWitnessed {
		t.Errorf("facility %s", s.Axes.Facility)
	}
	p.Devices[0].ID = "amd-chip-id:aa"
	if s := l.Stand(p, nil, observed(now), vetting.Defaults(), now); s.Axes.Facility != claim.FacilityNone {
		t.Errorf("facility of another chip %s", s.Axes.Facility)
	}
	for name, data := range map[string]string{"token": "eyJhbGciOiJSUzI1NiJ9.e30.AAAA", "commitment": `{"vendor":"x","newCommitment":"00","signatures":[]}`} {
		if _, err := vetting.ImportProofOfCloud(name, []byte(data), "importer.example", now); !errors.Is(err, vetting.ErrUnverifiable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string]string{"none": `{"entries":[]}`, "another key": `{"entries":[{"platform":"x"}]}`, "no JSON": "{"} {
		if _, err := vetting.ImportProofOfCloud(name+".json", []byte(data), "importer.example", now); err == nil || errors.Is(err, vetting.ErrUnverifiable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImportOwnership(t *testing.T) {
	o := vetting.Ownership{Platform: canon.Hex(strings.Repeat("\x17", 16)), Owner: "P1.example", NotAfter: now + 5000*day, Evidence: canon.Sum(nil)}
	c, err := o.Claim("importer.example", "p1.example", now)
	if err != nil || c.Subject.ID != "intel-piid:"+strings.Repeat("17", 16) || c.Value != claim.FacilityBound || c.Expires != now+365*day {
		t.Errorf("%+v, %v", c, err)
	}
	for _, domain := range []string{"p2.example", ""} {
		if _, err := o.Claim("importer.example", domain, now); err == nil {
			t.Errorf("bound to %q", domain)
		}
	}
	o.NotAfter = now - 1
	if _, err := o.Claim("importer.example", "p1.example", now); err == nil {
		t.Error("a lapsed endorsement")
	}
}
