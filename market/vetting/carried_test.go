package vetting_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// TestCarriedStates: a state that no life makes is refused by who has it alone: what it says of the party would else be taken
// until the next event.
func TestCarriedStates(t *testing.T) {
	f := certified(t, claim.TierAttested)
	for _, tc := range []struct {
		name   string
		change func(*vetting.CarriedCertificate)
		want   string
	}{
		{"as it stands", func(*vetting.CarriedCertificate) {}, ""},
		{"no last event", func(c *vetting.CarriedCertificate) { c.Last = canon.Digest{} }, "no last event"},
		{"no such state", func(c *vetting.CarriedCertificate) { c.State.Status = "gold" }, `in the state "gold"`},
		{"a tier above what was granted", func(c *vetting.CarriedCertificate) { c.State.Tier = claim.TierAttestedFacility }, "in tier attested-facility"},
		{"a tier above what counts", func(c *vetting.CarriedCertificate) { c.State.Standing.Tier = claim.TierAnonymous }, "in tier attested"},
		{"a tier without a certificate that stands", func(c *vetting.CarriedCertificate) { c.State.Status, c.State.Expires = vetting.Revoked, 0 }, "revoked in tier"},
		{"a standing of no tier that there is", func(c *vetting.CarriedCertificate) { c.State.Tier, c.State.Standing.Tier = "", "gold" }, `tier "gold"`},
		{"never weighed", func(c *vetting.CarriedCertificate) { c.State.Tier, c.State.Standing = "", vetting.Standing{} }, "never weighed"},
		{"an appeal of what stands", func(c *vetting.CarriedCertificate) {
			c.State.Appeal = vetting.Appeal{By: "user:olga", Filed: now, Evidence: canon.Digest{1}}
		}, "with an appeal"},
		{"clocks out of order", func(c *vetting.CarriedCertificate) {
			c.State.Clocks = []vetting.Clock{{Code: vetting.FindingTCB, Since: now, Due: now + 1}, {Code: vetting.FindingTCB, Since: now, Due: now + 1}}
		}, "clock"},
		{"a grace spent twice", func(c *vetting.CarriedCertificate) {
			c.State.Spent = []vetting.Spent{{Code: vetting.FindingTCB, Until: now}, {Code: vetting.FindingTCB, Until: now}}
		}, "left of the grace"},
		{"a window that ends before it begins", func(c *vetting.CarriedCertificate) { c.State.Windows = []vetting.Window{{From: now, Until: now - 1}} }, "window from"},
		{"overruled, and no finding", func(c *vetting.CarriedCertificate) { c.State.Overruled = []vetting.Finding{{Code: "luck"}} }, `overruled "luck"`},
	} {
		c := vetting.CarriedCertificate{Last: canon.Digest{1}, State: f.state}
		tc.change(&c)
		err := vetting.CarriedItem{Certificate: &c}.Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestCarriedDevice: the same for a device's.
func TestCarriedDevice(t *testing.T) {
	for contested, want := range []bool{false, true} { // held, by as many challengers
		d := vetting.CarriedDevice{Last: canon.Digest{1}, State: vetting.DeviceState{Device: cpu.ID, Status: vetting.Contested, Reason: vetting.ReasonContested, Updated: now, Deadline: now + 1,
			Holder: vetting.Holder{Provider: "p1", Host: "a"}, Challengers: []vetting.Holder{{Provider: "p2", Host: "b"}}[:contested]}}
		if err := (vetting.CarriedItem{Device: &d}).Validate(); (err == nil) != want {
			t.Errorf("contested by %d: %v", contested, err)
		}
	}
}

// TestCarriedOrder: items come in their order, each once, and no host has two certificates.
func TestCarriedOrder(t *testing.T) {
	facts := func(provider string) vetting.CarriedItem {
		return vetting.CarriedItem{Facts: &vetting.Facts{Type: vetting.FactsType, Provider: provider}}
	}
	certificate := func(id, host string) vetting.CarriedItem {
		return vetting.CarriedItem{Certificate: &vetting.CarriedCertificate{Last: canon.Digest{1}, State: vetting.Certificate{ID: id, Place: vetting.Place{Provider: "p1", Host: host}}}}
	}
	for _, tc := range []struct {
		name  string
		items []vetting.CarriedItem
		want  string
	}{
		{"in order", []vetting.CarriedItem{facts("p1"), facts("p2"), certificate("c-1", "a"), certificate("c-2", "b"), certificate("c-3", ""), certificate("c-4", "")}, ""},
		{"twice", []vetting.CarriedItem{facts("p1"), facts("p1")}, "facts about p1 is behind facts about p1"},
		{"backwards", []vetting.CarriedItem{facts("p2"), facts("p1")}, "facts about p1 is behind facts about p2"},
		{"kinds backwards", []vetting.CarriedItem{certificate("c-1", "a"), facts("p1")}, "facts about p1 is behind certificate c-1"},
		{"two of one host", []vetting.CarriedItem{certificate("c-1", "a"), certificate("c-2", "a")}, "certificates c-1 and c-2 of host a"},
	} {
		b := vetting.NewBook(results{}, vetting.Known{})
		var words []string
		for n, i := range tc.items {
			if err := b.Resume(int64(n), i, nil); err != nil {
				words = append(words, err.Error())
			}
		}
		if got := strings.Join(words, "; "); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if tc.want == "" {
			parts, err := vetting.Parts("log.example/one", b.Leave())
			if err != nil || len(parts) != 1 {
				t.Errorf("%d parts of what the book leaves: %v", len(parts), err)
			}
		}
	}
	// More than one part holds is several; more than can be read again is refused.
	long := func(n int) vetting.CarriedItem {
		return vetting.CarriedItem{Appraised: &vetting.Appraised{Node: strings.Repeat("n", n), Appraisal: canon.Digest{1}}}
	}
	parts, err := vetting.Parts("log.example/one", []vetting.CarriedItem{long(100 << 10), long(101 << 10)})
	if err != nil || len(parts) != 2 {
		t.Errorf("%d parts: %v", len(parts), err)
	}
	for n, p := range parts {
		if c, err := vetting.ParseCarried(p); err != nil || c.Part != int64(n) || c.Last != (n == 1) {
			t.Errorf("part %d: %d, last %v: %v", n, c.Part, c.Last, err)
		}
	}
	if _, err := vetting.Parts("log.example/one", []vetting.CarriedItem{long(vetting.MaxCarried)}); err == nil || !strings.Contains(err.Error(), "at most 4194304") {
		t.Errorf("a part too long to be read: %v", err)
	}
	if _, err := vetting.ParseCarried([]byte(`{"log":"log.example/one","part":0,"type":"` + vetting.CarriedType + `"}`)); err == nil {
		t.Error("a part of nothing")
	}
}

// TestLeave: of what has ended, the last certificate of a host is carried over, which says something of the party; no other one,
// and no device that was released.
func TestLeave(t *testing.T) {
	b := vetting.NewBook(results{}, vetting.Known{})
	add := func(v any) {
		t.Helper()
		body, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Add(1, canon.Digest{1}, event(ledger.KindCertificate, "provider:p1", now, body)) // that notices are missing is not the matter
	}
	for _, c := range []struct{ id, host string }{{"c-1", "a"}, {"c-2", "a"}, {"c-3", ""}} {
		add(vetting.Act{Type: vetting.ActType, Certificate: c.id, Act: vetting.ActDraft, By: "user:olga", Place: vetting.Place{Provider: "p1", Host: c.host}, Tier: claim.TierAttested})
		add(vetting.Act{Type: vetting.ActType, Certificate: c.id, Act: vetting.ActEnd, By: "user:olga"})
	}
	for _, d := range []string{"amd-chip-id:01", "amd-chip-id:02"} {
		add(vetting.Sighting{Type: vetting.SightingType, Device: d, Event: vetting.DeviceSeen, Provider: "p1", Host: "a", Evidence: canon.Digest{1}})
	}
	add(vetting.Sighting{Type: vetting.SightingType, Device: "amd-chip-id:02", Event: vetting.DeviceRelease, Provider: "p1", Host: "a", By: "user:olga"})
	var names []string
	for _, i := range b.Leave() {
		names = append(names, i.Name())
	}
	if got := strings.Join(names, ", "); got != "device amd-chip-id:01, certificate c-2" {
		t.Errorf("leaves %s", got)
	}
}
