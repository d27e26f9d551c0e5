package vetting_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

func TestWayToACertificate(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	f.want(vetting.Certified, vetting.ReasonPassed, claim.TierAttestedFacility)
	if f.state.Expires != now+90*day || !f.state.Eligible(now) {
		t.Errorf("expires %s, eligible %v", f.state.Expires, f.state.Eligible(now))
	}
}

// Each state ends by itself when nobody does anything, and says why.
func TestStatesEndByThemselves(t *testing.T) {
	draft := vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten}
	for _, c := range []struct {
		name   string
		acts   []vetting.Act
		after  canon.Time
		status string
		reason string
	}{
		{"a draft", []vetting.Act{draft}, 30 * day, vetting.Lapsed, vetting.ReasonAbandoned},
		{"what nobody takes", []vetting.Act{draft, {Act: vetting.ActSubmit}}, 14 * day, vetting.Lapsed, vetting.ReasonNotReviewed},
		{"what nobody reviews", []vetting.Act{draft, {Act: vetting.ActSubmit}, {Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"}}, 14 * day, vetting.Lapsed, vetting.ReasonNotReviewed},
		{"what is rejected", []vetting.Act{draft, {Act: vetting.ActSubmit}, {Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"}, {Act: vetting.ActFail, By: "user:rita", Code: vetting.FailedRegister}}, 14 * day, vetting.Rejected, vetting.ReasonFinal},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newLife(t)
			for _, a := range c.acts {
				f.do(now, a)
			}
			if f.step.Due != now+c.after {
				t.Fatalf("%s is due at %s, want %s", f.step.Status, f.step.Due, now+c.after)
			}
			f.do(f.step.Due, vetting.Act{Act: vetting.ActDue})
			f.want(c.status, c.reason, "")
			if !f.step.Terminal() || !slices.Contains(vetting.Terminal, f.step.Status) {
				t.Errorf("%s is due at %s", f.step.Status, f.step.Due)
			}
		})
	}
}

func TestActsThatDoNotFit(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	strange := f.standing(now)
	strange.At = now + day
	strange.Until = now + 2*day
	for name, a := range map[string]vetting.Act{
		"a second draft":            {Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested},
		"a submission":              {Act: vetting.ActSubmit},
		"a review":                  {Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)},
		"an appeal":                 {Act: vetting.ActAppeal, Evidence: canon.Sum(nil)},
		"a standing of tomorrow":    {Act: vetting.ActAssess, Standing: strange},
		"another certificate":       {Act: vetting.ActRenew, Certificate: "c-2"},
		"an act of nobody's":        {Act: "abolish"},
		"one with too many members": {Act: vetting.ActRenew, Code: "x"},
		"a failure in prose":        {Act: vetting.ActFail, Code: "Not good"},
		"a failure of no list":      {Act: vetting.ActFail, Code: "not-good"},
		"a revocation for nothing":  {Act: vetting.ActRevoke, Code: "because", Evidence: canon.Sum(nil), Since: now},
		"one of another place":      {Act: vetting.ActEdit, Assertions: []vetting.Assertion{{Subject: vetting.Subject{Kind: vetting.UnitSite, ID: "par1"}, Attribute: "party.jurisdiction", Value: "FR"}}},
		"a window that has begun":   {Act: vetting.ActWindow, Window: vetting.Window{From: now, Until: now + 3600}, Reason: "firmware"},
		"a freeze of nobody's":      {Act: vetting.ActFreeze, Reviewer: "user:b"},
	} {
		before, _ := f.state.Canonical()
		if f.try(now+1, a) == nil {
			t.Errorf("%s: taken", name)
		}
		if after, _ := f.state.Canonical(); string(after) != string(before) {
			t.Errorf("%s: it changed the state", name)
		}
	}
	f.do(now+1, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 1, Until: now + 3600}, Reason: "firmware"})
	f.do(now+2, vetting.Act{Act: vetting.ActFreeze, By: "user:a"})
	f.do(now+2, vetting.Act{Act: vetting.ActFreeze, By: "user:b"})
	f.want(vetting.Suspended, vetting.FindingFrozen, claim.TierAttestedFacility)
	// Who asks cannot review.
	g := newLife(t)
	g.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested})
	g.do(now, vetting.Act{Act: vetting.ActSubmit})
	if g.try(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:olga"}) == nil {
		t.Error("olga reviews her own")
	}
	// What counts must carry what is asked for.
	g.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	if err := g.try(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: g.standing(now, func(o *vetting.Observed) { o.ContactHours = 24 })}); err == nil || !strings.Contains(err.Error(), "lacks [contact]") {
		t.Error(err)
	}
}

// A freeze is one officer's proposal and another's word, within a day.
func TestFreeze(t *testing.T) {
	freeze := func(by string) vetting.Act {
		return vetting.Act{Act: vetting.ActFreeze, By: by, Evidence: canon.Sum([]byte(by))}
	}
	f := certified(t, claim.TierAttested)
	f.do(now+1, freeze("user:a"))
	f.want(vetting.Certified, vetting.ReasonProposed, claim.TierAttested)
	if p := f.state.Proposed; p.By != "user:a" || p.Evidence != canon.Sum([]byte("user:a")) || p.Until != now+1+day || f.state.Public(now).Proposed.By != "" || !f.state.Eligible(now+2) {
		t.Errorf("%+v", p)
	}
	if err := f.try(now+2, freeze("user:a")); err == nil || !strings.Contains(err.Error(), "a second officer confirms") {
		t.Errorf("by one officer alone: %v", err)
	}
	// Its last second, and the one behind it.
	f.weigh(now + day - 1)
	late := *f
	f.do(now+day, freeze("user:b"))
	f.want(vetting.Suspended, vetting.FindingFrozen, claim.TierAttested)
	if f.state.Proposed.By != "" || f.try(now+day+1, freeze("user:c")) == nil {
		t.Errorf("frozen, and %+v", f.state.Proposed)
	}
	again := late
	again.do(now+1+day, freeze("user:b"))
	again.want(vetting.Certified, vetting.ReasonProposed, claim.TierAttested)
	if again.state.Proposed.By != "user:b" {
		t.Errorf("%+v", again.state.Proposed)
	}
	if due := late.step.Due; due > now+1+day {
		t.Errorf("nobody looks before %s", due)
	}
	late.do(now+1+day, vetting.Act{Act: vetting.ActDue})
	if late.state.Proposed.By != "" || late.state.Status != vetting.Certified || late.state.Reason != vetting.ReasonUnconfirmed {
		t.Errorf("%s (%s) %+v", late.state.Status, late.state.Reason, late.state.Proposed)
	}
	// What ends is frozen by nobody.
	ended := certified(t, claim.TierAttested)
	ended.do(now+1, freeze("user:a"))
	ended.do(now+2, vetting.Act{Act: vetting.ActEnd})
	if ended.try(now+3, freeze("user:b")) == nil || ended.state.Proposed.By != "" {
		t.Errorf("%+v", ended.state.Proposed)
	}
}

// Who decides by an act, and of whom that must be somebody else.
func TestApart(t *testing.T) {
	c := vetting.Certificate{Submitter: "olga", Reviewer: "rita", Decided: "dora", Proposed: vetting.Proposal{By: "otto", At: now, Until: now + 10}, Appeal: vetting.Appeal{By: "anna"}}
	before := []string{"dora", "rita", "olga", "anna"}
	for _, x := range []struct {
		act    string
		at     canon.Time
		who    string
		others []string
	}{
		{vetting.ActAssign, now, "named", []string{"olga"}}, {vetting.ActPass, now, "by", []string{"olga"}}, {vetting.ActFail, now, "by", []string{"olga"}},
		{vetting.ActFreeze, now + 9, "by", []string{"otto"}}, {vetting.ActFreeze, now + 10, "", nil},
		{vetting.ActTriage, now, "named", before}, {vetting.ActRule, now, "by", before}, {vetting.ActRevoke, now, "", nil},
	} {
		if who, others := c.Apart(vetting.Act{Act: x.act, By: "by", Reviewer: "named"}, x.at); who != x.who || !slices.Equal(others, x.others) {
			t.Errorf("%s: %q apart from %q", x.act, who, others)
		}
	}
}

// Clocks: how long each fault may last, what it does meanwhile, and what it costs then.
func TestGraceClocks(t *testing.T) {
	for _, c := range []struct {
		code      string
		grace     canon.Time
		meanwhile string
		then      string
		left      string
	}{
		{vetting.FindingTCB, 30 * day, vetting.Certified, vetting.Certified, claim.TierIdentified},
		{vetting.FindingExploited, 7 * day, vetting.Certified, vetting.Certified, claim.TierIdentified},
		{vetting.FindingRIM, 14 * day, vetting.Certified, vetting.Certified, claim.TierIdentified},
		{vetting.FindingRMA, 30 * day, vetting.Certified, vetting.Certified, claim.TierIdentified},
		{vetting.FindingHeartbeat, 14 * day, vetting.Suspended, vetting.Lapsed, ""},
		{vetting.FindingCollateral, 14 * day, vetting.Suspended, vetting.Certified, claim.TierIdentified},
		{vetting.FindingHold, 14 * day, vetting.Suspended, vetting.Certified, claim.TierIdentified},
		{vetting.FindingContested, 14 * day, vetting.Suspended, vetting.Lapsed, ""},
		{vetting.FindingMismatch, 14 * day, vetting.Suspended, vetting.Revoked, ""},
		{vetting.FindingLocation, 14 * day, vetting.Suspended, vetting.Revoked, ""},
		{vetting.FindingChain, 0, vetting.Revoked, vetting.Revoked, ""},
		{vetting.FindingVendor, 0, vetting.Revoked, vetting.Revoked, ""},
		{vetting.FindingDebug, 0, vetting.Revoked, vetting.Revoked, ""},
		{vetting.FindingDuplicate, 0, vetting.Revoked, vetting.Revoked, ""},
	} {
		t.Run(c.code, func(t *testing.T) {
			f := certified(t, claim.TierAttestedFacility)
			f.weigh(now+1, finding(c.code))
			if f.state.Status != c.meanwhile {
				t.Fatalf("meanwhile %s (%s), want %s", f.state.Status, f.state.Reason, c.meanwhile)
			}
			if c.grace == 0 {
				if f.state.Reason != c.code {
					t.Errorf("revoked for %s", f.state.Reason)
				}
				return
			}
			if f.state.Tier != claim.TierAttestedFacility {
				t.Errorf("meanwhile tier %s", f.state.Tier)
			}
			last := now + 1 + c.grace - 1
			for at := now + day; at < last; at += day {
				f.weigh(at, finding(c.code))
			}
			f.weigh(last, finding(c.code))
			if f.state.Status != c.meanwhile || f.state.Live() && f.state.Tier != claim.TierAttestedFacility {
				t.Errorf("in its last second %s (%s), tier %s", f.state.Status, f.state.Reason, f.state.Tier)
			}
			f.do(last+1, vetting.Act{Act: vetting.ActDue})
			if f.state.Status != c.then || f.state.Tier != c.left {
				t.Errorf("then %s (%s), tier %q, want %s, tier %q", f.state.Status, f.state.Reason, f.state.Tier, c.then, c.left)
			}
			if f.state.Live() { // and it is well again once it is mended
				f.weigh(last + 2)
				if f.state.Tier != claim.TierAttestedFacility || len(f.state.Clocks) != 0 {
					t.Errorf("mended: tier %s, %+v", f.state.Tier, f.state.Clocks)
				}
			}
		})
		t.Run(c.code+", mended in time", func(t *testing.T) {
			f := certified(t, claim.TierAttestedFacility)
			if c.grace == 0 {
				return
			}
			f.weigh(now+1, finding(c.code))
			f.weigh(now + 2)
			if f.state.Status != vetting.Certified || f.state.Tier != claim.TierAttestedFacility || len(f.state.Clocks) != 0 {
				t.Errorf("%s, tier %s, %+v", f.state.Status, f.state.Tier, f.state.Clocks)
			}
			// Back again, a fault that can be mended has what is left of its grace; what hides meanwhile has no use of it.
			left := c.grace
			if c.meanwhile == vetting.Certified {
				left--
			}
			f.weigh(now+day, finding(c.code))
			if f.state.Clocks[0].Due != now+day+left {
				t.Errorf("due %s", f.state.Clocks[0].Due)
			}
		})
	}
}

// That attacks are known gives no more time than there was.
func TestExploitedIsNoSecondGrace(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	f.weigh(now+1, finding(vetting.FindingTCB))
	for d := canon.Time(1); d < 29; d++ {
		f.weigh(now+d*day, finding(vetting.FindingTCB))
	}
	f.weigh(now+29*day, finding(vetting.FindingExploited))
	if c := f.state.Clocks; len(c) != 1 || c[0].Due != now+1+30*day {
		t.Errorf("%+v", c)
	}
	g := certified(t, claim.TierAttestedFacility)
	g.weigh(now+1, finding(vetting.FindingTCB))
	g.weigh(now+day, finding(vetting.FindingExploited))
	if c := g.state.Clocks; len(c) != 1 || c[0].Due != now+8*day || c[0].Since != now+1 {
		t.Errorf("%+v", c)
	}
}

// An audit report lapses: 30 days in the tier, then one below.
func TestAuditLapses(t *testing.T) {
	f := newLife(t)
	for _, s := range []vetting.Subject{site, host} {
		f.lab.say(vetting.Claim{Issuer: "iso.example", Subject: s, Attribute: "party.facility-audit", Value: report, Expires: now + 10*day})
	}
	f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttestedFacility, Assertions: ten})
	f.do(now, vetting.Act{Act: vetting.ActSubmit})
	f.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	f.do(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)})
	f.days(1, 40)
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttestedFacility)
	f.weigh(now + 40*day)
	f.want(vetting.Certified, vetting.ReasonGraceOver, claim.TierAttested)
	f.lab.at = now + 41*day
	f.lab.say(vetting.Claim{Issuer: "iso.example", Subject: site, Attribute: "party.facility-audit", Value: report})
	f.weigh(now + 41*day)
	f.want(vetting.Certified, vetting.ReasonUpgraded, claim.TierAttestedFacility)
}

// Inside a window that was announced before it began nothing is missed.
func TestMaintenanceWindow(t *testing.T) {
	for _, announced := range []bool{true, false} {
		f := certified(t, claim.TierAttestedFacility)
		if announced {
			f.do(now+1, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 10, Until: now + 3600}, Reason: "BIOS 2.8"})
		}
		f.weigh(now+20, finding(vetting.FindingHeartbeat))
		if (f.state.Status == vetting.Certified) != announced {
			t.Errorf("announced %v: %s", announced, f.state.Status)
		}
		if announced && f.state.Eligible(now+20) {
			t.Error("work is given to a machine under maintenance")
		}
		f.weigh(now+3600, finding(vetting.FindingHeartbeat))
		f.want(vetting.Suspended, vetting.FindingHeartbeat, claim.TierAttestedFacility)
	}
}

func TestUptime(t *testing.T) {
	of := vetting.Span{From: 1000, Until: 2000}
	for _, c := range []struct {
		name    string
		up      []vetting.Span
		windows []vetting.Window
		want    int64
	}{
		{"always", []vetting.Span{{From: 0, Until: 5000}}, nil, 1000},
		{"never", nil, nil, 0},
		{"half", []vetting.Span{{From: 1500, Until: 2500}}, nil, 500},
		{"a second less than 999 permille", []vetting.Span{{From: 1002, Until: 2000}}, nil, 998},
		{"away for maintenance", []vetting.Span{{From: 1000, Until: 1400}, {From: 1600, Until: 2000}}, []vetting.Window{{From: 1400, Until: 1600}}, 1000},
		{"away longer than announced", []vetting.Span{{From: 1000, Until: 1400}, {From: 1600, Until: 2000}}, []vetting.Window{{From: 1400, Until: 1500}}, 888},
		{"answers told twice", []vetting.Span{{From: 1000, Until: 1300}, {From: 1200, Until: 1500}}, nil, 500},
		{"up inside the window only", []vetting.Span{{From: 1400, Until: 1600}}, []vetting.Window{{From: 1300, Until: 1700}}, 0},
	} {
		if got, ok := vetting.Uptime(c.up, c.windows, of); got != c.want || !ok {
			t.Errorf("%s: %d, %v, want %d", c.name, got, ok, c.want)
		}
	}
	if _, ok := vetting.Uptime(nil, []vetting.Window{{From: 0, Until: 5000}}, of); ok {
		t.Error("a share of nothing")
	}
}

// Terms: what renews itself, what is told in time, and what ends.
func TestRenewal(t *testing.T) {
	t.Run("evidence renews attested, whatever else counts", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.want(vetting.Certified, vetting.ReasonPassed, claim.TierAttested)
		f.days(1, 91)
		f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttested)
		if f.state.Expires != now+180*day {
			t.Errorf("expires %s", f.state.Expires)
		}
		f.do(now+91*day, vetting.Act{Act: vetting.ActRenew, Tier: claim.TierAttestedFacility})
		f.do(now+91*day, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now + 91*day)})
		f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttestedFacility)
	})
	t.Run("a facility is renewed by a review, with notices of 30, 14 and 7 days", func(t *testing.T) {
		f := certified(t, claim.TierAttestedFacility)
		told := map[canon.Time]bool{}
		for d := 1; d <= 90; d++ {
			f.weigh(now + canon.Time(d)*day - 1)
			for _, n := range notices(t, f.step.Drafts) {
				if n.Notice == vetting.NoticeEnds && n.About == "certificate" {
					told[(f.state.Expires-n.At)/day] = true
				}
			}
		}
		if len(told) != 3 || !told[30] || !told[14] || !told[7] {
			t.Errorf("told %v days before", told)
		}
		g := *f
		g.events = slices.Clone(f.events)
		f.do(now+90*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now + 90*day)})
		f.want(vetting.Certified, vetting.ReasonExpired, claim.TierAttested) // the hardware still shows what it is
		if f.state.Expires != now+180*day {
			t.Errorf("expires %s", f.state.Expires)
		}
		g.do(now+90*day-1, vetting.Act{Act: vetting.ActRenew})
		g.want(vetting.Renewing, vetting.ReasonRenewing, claim.TierAttestedFacility)
		g.do(now+90*day-1, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: g.standing(now + 90*day - 1)})
		g.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttestedFacility)
		if g.state.Expires != now+180*day-1 {
			t.Errorf("expires %s", g.state.Expires)
		}
	})
	t.Run("what is suspended does not renew itself", func(t *testing.T) {
		for _, hidden := range []bool{true, false} {
			f := certified(t, claim.TierAttested)
			attested := func(o *vetting.Observed) { o.Witnesses = 1 }
			f.days(1, 89, attested)
			if hidden {
				f.weigh(now+89*day, attested, finding(vetting.FindingHold))
			} else {
				f.weigh(now+89*day, attested)
			}
			f.do(now+90*day-hour, vetting.Act{Act: vetting.ActAssess, Standing: f.standing(now+90*day-hour, attested, func(o *vetting.Observed) {
				if hidden {
					finding(vetting.FindingHold)(o)
				}
			})})
			f.do(now+90*day, vetting.Act{Act: vetting.ActDue})
			if f.state.Live() == hidden {
				t.Errorf("suspended %v: %s (%s)", hidden, f.state.Status, f.state.Reason)
			}
		}
	})
	t.Run("a review that comes late still grants", func(t *testing.T) {
		f := certified(t, claim.TierAttestedFacility)
		f.days(1, 89)
		f.do(now+89*day, vetting.Act{Act: vetting.ActRenew})
		f.do(now+90*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now + 90*day)})
		f.want(vetting.Renewing, vetting.ReasonExpired, claim.TierAttested)
		f.do(now+91*day, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now + 91*day)})
		f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttestedFacility)
	})
	t.Run("who is but identified is looked at again each year", func(t *testing.T) {
		f := certified(t, claim.TierIdentified)
		f.want(vetting.Certified, vetting.ReasonPassed, claim.TierIdentified)
		f.days(1, 365)
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierIdentified)
		f.do(now+365*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now + 365*day)})
		f.want(vetting.Lapsed, vetting.ReasonExpired, "")
	})
	t.Run("nobody weighs it", func(t *testing.T) {
		f := certified(t, claim.TierAttestedFacility)
		f.do(f.step.Due, vetting.Act{Act: vetting.ActDue})
		f.want(vetting.Suspended, vetting.FindingOverdue, claim.TierAttestedFacility)
		f.weigh(now + 3*day)
		f.want(vetting.Certified, vetting.ReasonCleared, claim.TierAttestedFacility)
	})
}

// notices reads the drafts that are notices.
func notices(t testing.TB, drafts []ledger.Draft) (out []vetting.Notice) {
	t.Helper()
	for _, d := range drafts {
		var n vetting.Notice
		if d.Kind != ledger.KindCertificate || d.Stream == ledger.ProviderStream("") {
			t.Errorf("draft %+v", d)
		}
		if err := canon.Unmarshal(d.Body, &n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestAppeal(t *testing.T) {
	revoked := func(t *testing.T) *life {
		f := certified(t, claim.TierAttestedFacility)
		f.weigh(now+1, finding(vetting.FindingDebug))
		f.want(vetting.Revoked, vetting.FindingDebug, "")
		return f
	}
	evidence := canon.Sum([]byte("a new report"))
	appeal := vetting.Act{Act: vetting.ActAppeal, Evidence: evidence}
	triage := vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:otto"}
	t.Run("nobody appeals", func(t *testing.T) {
		f := revoked(t)
		f.do(now+1+14*day, vetting.Act{Act: vetting.ActDue})
		f.want(vetting.Revoked, vetting.ReasonFinal, "")
		if !f.step.Terminal() || f.try(now+15*day, appeal) == nil {
			t.Error("an appeal after its time")
		}
	})
	t.Run("overturned", func(t *testing.T) {
		f := revoked(t)
		f.do(now+14*day, appeal)
		if f.step.Due != now+17*day {
			t.Errorf("to be triaged until %s", f.step.Due)
		}
		f.do(now+15*day, triage)
		if f.try(now+15*day, vetting.Act{Act: vetting.ActRule, By: "user:rita", Reason: "x"}) == nil {
			t.Error("ruled by another")
		}
		f.do(now+16*day, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "the bit was the BIOS's"})
		f.weigh(now+16*day, finding(vetting.FindingDebug))
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttestedFacility)
		f.weigh(now + 17*day - 1) // gone
		f.weigh(now+17*day, finding(vetting.FindingDebug))
		f.want(vetting.Revoked, vetting.FindingDebug, "")
	})
	t.Run("upheld, once and for all", func(t *testing.T) {
		f := revoked(t)
		f.do(now+2, appeal)
		f.do(now+3, triage)
		f.do(now+4, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "it was on", Upheld: true})
		f.want(vetting.Revoked, vetting.ReasonUpheld, "")
		if !f.step.Terminal() || f.try(now+5, appeal) == nil {
			t.Error("a second appeal")
		}
	})
	t.Run("nobody triages, and nobody rules", func(t *testing.T) {
		f := revoked(t)
		f.do(now+2, appeal)
		f.do(now+2+3*day, vetting.Act{Act: vetting.ActDue})
		f.want(vetting.Revoked, vetting.ReasonOverdue, "")
		if n := notices(t, f.step.Drafts); len(n) != 1 || n[0].Notice != vetting.NoticeTriage {
			t.Errorf("%+v", n)
		}
		f.do(now+2+8*day, vetting.Act{Act: vetting.ActDue})
		f.want(vetting.Revoked, vetting.ReasonUnruled, "")
		if n := notices(t, f.step.Drafts); !f.step.Terminal() || len(n) != 1 || n[0].Notice != vetting.NoticeUnruled {
			t.Errorf("%+v", n)
		}
	})
	t.Run("by who decided", func(t *testing.T) {
		f := certified(t, claim.TierAttestedFacility)
		f.do(now+1, vetting.Act{Act: vetting.ActRevoke, By: "user:otto", Code: vetting.RevokedForged, Evidence: evidence, Since: now})
		f.do(now+2, appeal)
		for _, who := range []string{"user:otto", "user:rita"} {
			if f.try(now+3, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: who}) == nil {
				t.Errorf("%s rules on his own decision", who)
			}
		}
		f.do(now+3, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:nora"})
		if f.state.Tainted != now {
			t.Errorf("tainted since %s", f.state.Tainted)
		}
	})
	t.Run("of a rejection", func(t *testing.T) {
		f := newLife(t)
		f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten})
		f.do(now, vetting.Act{Act: vetting.ActSubmit})
		f.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
		f.do(now, vetting.Act{Act: vetting.ActFail, By: "user:rita", Code: vetting.FailedUnreadable})
		f.do(now+1, appeal)
		f.do(now+2, triage)
		f.do(now+3, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "it is readable"})
		f.want(vetting.InReview, vetting.ReasonOverturned, "")
		f.do(now+4, vetting.Act{Act: vetting.ActPass, By: "user:otto", Standing: f.standing(now + 4)})
		f.want(vetting.Certified, vetting.ReasonPassed, claim.TierAttested)
	})
}

// Parameters hold from their effect on; what began under the old ones keeps its time.
func TestRulesOfThen(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	p := vetting.Defaults()
	p.Effective, p.Grace.RIM = now+5*day, int64(2*day)
	b, err := canon.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.History.Add(event(ledger.KindRules, ledger.StreamServer, now+6*day, b)); err == nil {
		t.Error("parameters of the past were taken")
	}
	if err := f.History.Add(event(ledger.KindRules, ledger.StreamServer, now, b)); err != nil {
		t.Fatal(err)
	}
	f.weigh(now+day, finding(vetting.FindingRIM))
	f.weigh(now+6*day-1, finding(vetting.FindingRIM))
	if c := f.state.Clocks[0]; c.Due != now+15*day {
		t.Errorf("due %s", c.Due)
	}
	f.weigh(now + 6*day)
	f.weigh(now+6*day+1, finding(vetting.FindingRIM))
	if c := f.state.Clocks[0]; c.Due != now+8*day+1 {
		t.Errorf("due %s", c.Due)
	}
	for name, spoil := range map[string]func(*vetting.Parameters){
		"no grace":             func(p *vetting.Parameters) { p.Grace.TCB = 0 },
		"no deadline":          func(p *vetting.Parameters) { p.Terms.Triage = 0 },
		"a tier by number":     func(p *vetting.Parameters) { p.Tiers[2].Tier = "2" },
		"tiers upside down":    func(p *vetting.Parameters) { slices.Reverse(p.Tiers) },
		"notices out of order": func(p *vetting.Parameters) { p.Notices = []int64{1, 2} },
	} {
		q := vetting.Defaults()
		spoil(&q)
		if q.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A clock that jumps: back it stands still, forward everything that was due happens in its order.
func TestClocksThatJump(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	f.weigh(now+day, finding(vetting.FindingTCB))
	f.do(now-300*day, vetting.Act{Act: vetting.ActRenew})
	if f.state.Updated != now+day || f.step.Due <= now-300*day {
		t.Errorf("updated %s, due %s", f.state.Updated, f.step.Due)
	}
	f.do(now+4000*day, vetting.Act{Act: vetting.ActDue})
	f.want(vetting.Lapsed, vetting.FindingOverdue, "")
}

func TestContestedIdentity(t *testing.T) {
	var h vetting.History
	state := vetting.DeviceState{}
	var step ledger.Step[vetting.DeviceState]
	evidence := canon.Sum([]byte("evidence"))
	do := func(at canon.Time, s vetting.Sighting) error {
		s.Type, s.Device = vetting.SightingType, cpu.ID
		b, err := canon.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		next, err := ledger.Machine[vetting.DeviceState](h.Hold).Apply(state, event(ledger.KindCertificate, ledger.ProviderStream(s.Provider), at, b))
		if err == nil {
			state, step = next.State, next
		}
		return err
	}
	seen := func(at canon.Time, provider, host string) {
		t.Helper()
		if err := do(at, vetting.Sighting{Event: vetting.DeviceSeen, Provider: provider, Host: host, Evidence: evidence}); err != nil {
			t.Fatal(err)
		}
	}
	seen(now, "p1", "host-1")
	seen(now+day, "p1", "host-1")
	if state.Status != vetting.Held || step.Due != now+91*day {
		t.Errorf("%+v due %s", state, step.Due)
	}
	seen(now+2*day, "p2", "thief")
	if state.Status != vetting.Contested || state.Holder.Host != "host-1" || !state.ContestedBy("thief") || state.ContestedBy("host-1") || step.Due != now+16*day {
		t.Errorf("%+v", state)
	}
	if n := notices(t, step.Drafts); len(n) != 2 || step.Drafts[0].Stream != "provider:p1" || step.Drafts[1].Stream != "provider:p2" || n[0].About != "holder host-1" || n[1].About != "newcomer thief" {
		t.Errorf("told %+v", n)
	}
	seen(now+3*day, "p2", "thief")
	if len(step.Drafts) != 0 {
		t.Error("told twice")
	}
	contested := state
	// Nobody settles it: it stays the holder's.
	if err := do(step.Due, vetting.Sighting{Event: vetting.DeviceDue, Provider: "p1"}); err != nil || state.Status != vetting.Held || state.Reason != vetting.ReasonUnproven || state.Holder.Host != "host-1" {
		t.Errorf("%+v %v", state, err)
	}
	// The operator settles it either way.
	for _, to := range []string{"host-1", "thief"} {
		state = contested
		if err := do(now+4*day, vetting.Sighting{Event: vetting.DeviceSettle, Provider: "p1", Host: to, By: "user:adam", Evidence: evidence}); err != nil || state.Status != vetting.Held || state.Holder.Host != to || state.Challengers != nil {
			t.Errorf("%+v %v", state, err)
		}
	}
	// Who contests it withdraws, and takes nothing with him.
	state = contested
	for _, stranger := range []vetting.Sighting{{Provider: "p2", Host: "other"}, {Provider: "p3", Host: "thief"}, {Provider: "p3", Host: "host-1"}} {
		stranger.Event, stranger.By = vetting.DeviceRelease, "user:t"
		if do(now+4*day, stranger) == nil {
			t.Errorf("released by %s of %s", stranger.Host, stranger.Provider)
		}
	}
	seen(now+4*day, "p2", "another")
	for _, host := range []string{"thief", "another"} {
		if err := do(now+4*day, vetting.Sighting{Event: vetting.DeviceRelease, Provider: "p2", Host: host, By: "user:t"}); err != nil || state.Holder.Host != "host-1" || state.ContestedBy(host) || (state.Status == vetting.Held) != (host == "another") {
			t.Errorf("%+v %v", state, err)
		}
	}
	if step.Due != now+94*day {
		t.Errorf("due %s", step.Due)
	}
	// The holder gives it up, and nobody else can.
	state = contested
	if err := do(now+4*day, vetting.Sighting{Event: vetting.DeviceRelease, Provider: "p1", Host: "host-1", By: "user:olga"}); err != nil || state.Holder.Host != "thief" {
		t.Errorf("%+v %v", state, err)
	}
	// Unseen for long it is nobody's.
	if err := do(step.Due, vetting.Sighting{Event: vetting.DeviceDue, Provider: "p2"}); err != nil || !step.Terminal() || state.Status != vetting.Released || do(step.Due+now, vetting.Sighting{Event: vetting.DeviceSeen, Provider: "p2", Host: "x", Evidence: evidence}) == nil {
		t.Errorf("%+v %v", state, err)
	}
	// A host that shows another's device is suspended; what is said of the device is the holder's.
	l, _ := vouched(t)
	l.say(vetting.Claim{Issuer: "tuv.example", Subject: cpu, Attribute: "party.facility", Value: "bound"})
	if s := l.stand(now); status(s, cpu, "party.facility") != vetting.StatusValid {
		t.Errorf("%+v", s.Attributes)
	}
	if s := l.stand(now, func(o *vetting.Observed) { o.Contested = []string{cpu.ID} }); status(s, cpu, "party.facility") != "none" || !has(s, vetting.FindingContested) {
		t.Errorf("%+v", s)
	}
}

// A grace is spent once, however often its fault comes and goes: by evidence of another kind, by another certificate, by a
// decision that an appeal undoes.
func TestGraceIsSpentOnce(t *testing.T) {
	fault := finding(vetting.FindingTCB)
	none := func(o *vetting.Observed) { o.Hardware, o.Measured, o.MeasuredAt = vetting.Hardware{}, 800, now }
	t.Run("a day of evidence that shows nothing", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.days(1, 29, fault)
		f.weigh(now+29*day, none) // nobody can see the fault in it
		f.want(vetting.Certified, vetting.ReasonDowngraded, claim.TierIdentified)
		f.weigh(now+29*day+hour, fault)
		over := now + 31*day + hour - 1 // it was found a second before the first day ended
		if c := f.state.Clocks; len(c) != 1 || c[0].Due != over || f.state.Tier != claim.TierAttested {
			t.Fatalf("tier %s, %+v", f.state.Tier, c)
		}
		f.weigh(over-day+1, fault)
		f.weigh(over-1, fault)
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		f.do(over, vetting.Act{Act: vetting.ActDue})
		f.want(vetting.Certified, vetting.ReasonGraceOver, claim.TierIdentified)
		// And what is over stays over.
		f.weigh(over+1, none)
		f.weigh(over+2, fault)
		if f.state.Tier != claim.TierIdentified {
			t.Errorf("tier %s: a new grace", f.state.Tier)
		}
	})
	t.Run("mended for as long as the grace is, it is forgotten", func(t *testing.T) {
		for _, well := range []canon.Time{30*day - 1, 30 * day} {
			f := certified(t, claim.TierAttested)
			f.weigh(now+1, fault)
			f.weigh(now + day + 1)
			f.days(2, int(well/day))
			f.weigh(now+day+1+well, fault)
			want := now + day + 1 + well + 30*day
			if well < 30*day {
				want -= day
			}
			if c := f.state.Clocks; len(c) != 1 || c[0].Due != want {
				t.Errorf("well for %d s: %+v, want due %s", well, c, want)
			}
		}
	})
	t.Run("attacks become known after it came back", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.days(1, 28, fault)
		f.weigh(now + 28*day)
		f.weigh(now+28*day+1, finding(vetting.FindingExploited))
		if c := f.state.Clocks; len(c) != 1 || c[0].Due != now+31*day {
			t.Errorf("%+v", c)
		}
	})
	t.Run("an appeal gives none back", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.days(1, 29, fault)
		f.weigh(now+29*day, fault, finding(vetting.FindingDebug))
		f.do(now+29*day, vetting.Act{Act: vetting.ActAppeal, Evidence: canon.Sum(nil)})
		f.do(now+29*day, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:otto"})
		f.do(now+29*day, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "x"})
		if c := f.state.Clocks; len(c) != 1 || c[0].Due != now+31*day-1 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("a first certificate has none", func(t *testing.T) {
		for _, c := range []struct {
			code, tier string
			given      bool
		}{
			{"", claim.TierAttested, true}, {vetting.FindingTCB, claim.TierAttested, false}, {vetting.FindingTCB, claim.TierIdentified, true},
			{vetting.FindingAudit, claim.TierAttestedFacility, false}, {vetting.FindingAudit, claim.TierAttested, true},
			{vetting.FindingHeartbeat, claim.TierIdentified, false}, {vetting.FindingCollateral, claim.TierIdentified, false}, {vetting.FindingLocation, claim.TierAnonymous, false},
			{vetting.FindingDebug, claim.TierIdentified, false},
		} {
			f := newLife(t)
			f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: c.tier, Assertions: ten})
			f.do(now, vetting.Act{Act: vetting.ActSubmit})
			f.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
			pass := vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)}
			if c.code != "" {
				pass.Standing = f.standing(now, finding(c.code))
			}
			if err := f.try(now, pass); (err == nil) != c.given || err != nil && !strings.Contains(err.Error(), c.code+" (") {
				t.Errorf("%s with %q: %v", c.tier, c.code, err)
			}
			if !c.given { // and it is, once it is mended
				f.do(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)})
			}
		}
	})
}

// Who asks for something reviews none of it, at no time.
func TestNobodyReviewsTheirOwn(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	f.weigh(now + 60*day)
	f.do(now+60*day, vetting.Act{Act: vetting.ActRenew, By: "user:rita"}) // the reviewer of last time
	pass := func(who string) error {
		return f.try(now+60*day, vetting.Act{Act: vetting.ActPass, By: who, Standing: f.standing(now + 60*day)})
	}
	if err := pass("user:rita"); err == nil || !strings.Contains(err.Error(), "user:rita asked for the certificate, and cannot review it") {
		t.Errorf("renewed by who asked for it: %v", err)
	}
	if f.try(now+60*day, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"}) == nil {
		t.Error("assigned to who asked for it")
	}
	f.do(now+60*day, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:nora"})
	f.want(vetting.Renewing, vetting.ReasonAssigned, claim.TierAttestedFacility)
	if err := pass("user:rita"); err == nil || !strings.Contains(err.Error(), "user:nora's to review") {
		t.Error(err)
	}
	if err := pass("user:nora"); err != nil {
		t.Error(err)
	}
	f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttestedFacility)
	// Nor does who appealed, or asked for the certificate, rule on the appeal.
	g := certified(t, claim.TierAttested)
	g.weigh(now+1, finding(vetting.FindingDebug))
	g.do(now+2, vetting.Act{Act: vetting.ActAppeal, By: "user:petra", Evidence: canon.Sum(nil)})
	for _, who := range []string{"user:petra", "user:olga", "user:rita"} {
		if g.try(now+3, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: who}) == nil {
			t.Errorf("%s rules on the appeal", who)
		}
	}
	g.do(now+3, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:nora"})
}

// What a renewal asks for beyond what was granted, what counts must carry.
func TestRenewalRaisesNoTierByItself(t *testing.T) {
	f := certified(t, claim.TierAttested)
	low := func(o *vetting.Observed) { o.Witnesses = 1 }
	f.weigh(now+day, low)
	f.do(now+day, vetting.Act{Act: vetting.ActRenew, Tier: claim.TierAttestedFacility})
	if err := f.try(now+day, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now+day, low)}); err == nil || !strings.Contains(err.Error(), "lacks [witnesses]") {
		t.Error(err)
	}
	f.do(now+day, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now + day)})
	f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttestedFacility)
	// Another term of the same tier is given although it falls short for now: it stands in what counts.
	f.do(now+day, vetting.Act{Act: vetting.ActRenew})
	f.do(now+day, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now+day, low)})
	f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttested)
}

// A renewal that nobody looks at ends, and the term that stands is not touched; what suspends it meanwhile ends no review.
func TestRenewalEndsByItself(t *testing.T) {
	f := certified(t, claim.TierAttested)
	f.do(now+1, vetting.Act{Act: vetting.ActRenew, Tier: claim.TierAttestedFacility})
	f.days(1, 14)
	f.want(vetting.Renewing, vetting.ReasonAssessed, claim.TierAttested)
	g := *f
	g.events = slices.Clone(f.events)
	f.weigh(now + 14*day + 1)
	f.want(vetting.Certified, vetting.ReasonNotReviewed, claim.TierAttested)
	if f.state.Expires != now+90*day || f.state.Deadline != 0 {
		t.Errorf("expires %s, due %s", f.state.Expires, f.state.Deadline)
	}
	g.weigh(now+14*day, finding(vetting.FindingHold))
	g.weigh(now + 20*day)
	g.want(vetting.Renewing, vetting.ReasonCleared, claim.TierAttested)
	if g.state.Deadline != now+34*day {
		t.Errorf("due %s", g.state.Deadline)
	}
}

// An appeal overrules what was decided, and no other fault: not one that was there beside it, and not one of the same kind on
// something else.
func TestAppealOverrulesOneDecision(t *testing.T) {
	overturn := func(f *life, at canon.Time) {
		t.Helper()
		f.do(at, vetting.Act{Act: vetting.ActAppeal, Evidence: canon.Sum(nil)})
		f.do(at, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:otto"})
		f.do(at, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "it was not"})
	}
	t.Run("another fault beside it", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.weigh(now+1, finding(vetting.FindingMismatch))
		f.do(now+2, vetting.Act{Act: vetting.ActRevoke, By: "user:adam", Code: vetting.RevokedFinding, Evidence: canon.Sum(nil), Since: now})
		if f.state.Against != vetting.RevokedFinding {
			t.Errorf("revoked for %q", f.state.Against)
		}
		overturn(f, now+3)
		f.want(vetting.Suspended, vetting.FindingMismatch, claim.TierAttested)
	})
	t.Run("another revoked unit", func(t *testing.T) {
		f := certified(t, claim.TierAttested)
		f.lab.at = now + 1
		f.lab.revoke(vetting.Revocation{Unit: cpu, Reason: vetting.RevokedError, Since: now - 5*day})
		f.weigh(now + 1)
		f.want(vetting.Revoked, vetting.FindingUnitRevoked, "")
		if f.state.Tainted != now-5*day {
			t.Errorf("tainted since %s", f.state.Tainted)
		}
		overturn(f, now+2)
		f.want(vetting.Certified, vetting.ReasonOverturned, claim.TierAttested)
		f.weigh(now + 3)
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		f.lab.at = now + 4
		f.lab.revoke(vetting.Revocation{Unit: provider})
		f.weigh(now + 4)
		f.want(vetting.Revoked, vetting.FindingUnitRevoked, "")
	})
	t.Run("another device", func(t *testing.T) {
		about := func(what string) func(*vetting.Observed) {
			return func(o *vetting.Observed) {
				o.Hardware.Findings = append(slices.Clip(o.Hardware.Findings), vetting.Finding{Code: vetting.FindingChain, About: what})
			}
		}
		f := certified(t, claim.TierAttested)
		f.weigh(now+1, about("nvidia.chain@gpu:0, nvidia.chain@gpu:1"))
		if f.state.Tainted != now+1 {
			t.Errorf("tainted since %s", f.state.Tainted)
		}
		overturn(f, now+2)
		f.weigh(now+3, about("nvidia.chain@gpu:1"))
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		f.weigh(now+4, about("nvidia.chain@gpu:1, nvidia.chain@gpu:2"))
		f.want(vetting.Revoked, vetting.FindingChain, "")
	})
}

// Maintenance is a part of the time. Windows that are over are remembered for as long as uptime is counted.
func TestMaintenanceIsBounded(t *testing.T) {
	f := certified(t, claim.TierAttested)
	window := func(from, until canon.Time) error {
		return f.try(f.state.Updated, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: from, Until: until}, Reason: "BIOS"})
	}
	if err := window(now+day, now+5*day); err != nil {
		t.Fatal(err)
	}
	for _, w := range [][2]canon.Time{{now + 5*day, now + 8*day + 1}, {now + 28*day - 1, now + 32*day}, {now - 25*day, now - 24*day}} {
		if window(w[0], w[1]) == nil {
			t.Errorf("a window from %s to %s beside it", w[0], w[1])
		}
	}
	for _, w := range [][2]canon.Time{{now + 2*day, now + 4*day}, {now + 5*day, now + 8*day}, {now + 31*day, now + 38*day}} {
		if err := window(w[0], w[1]); err != nil {
			t.Errorf("from %s to %s: %v", w[0], w[1], err)
		}
	}
	f.weigh(now + 20*day)
	if err := window(now+68*day, now+69*day); err != nil || len(f.state.Windows) != 5 {
		t.Errorf("%v: %+v", err, f.state.Windows)
	}
	f.weigh(now + 40*day) // 35 and more days after the first ones, 32 after the next
	if err := window(now+70*day, now+71*day); err != nil || len(f.state.Windows) != 3 {
		t.Errorf("%v: %+v", err, f.state.Windows)
	}
}

// A vendor's service that is away at the end of a term ends nothing, and two officers who stop a machine neither.
func TestTermsGoOnOverWhatIsNobodysFault(t *testing.T) {
	for code, goesOn := range map[string]bool{vetting.FindingCollateral: true, vetting.FindingHold: false, vetting.FindingHeartbeat: false} {
		for _, tier := range []string{claim.TierAttested, claim.TierAttestedFacility} {
			f := certified(t, tier)
			f.days(1, 89)
			f.weigh(now+89*day, finding(code))
			f.do(now+90*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now+90*day, finding(code))})
			if f.state.Live() != goesOn || goesOn && (f.state.Status != vetting.Suspended || f.state.Reason != code || f.state.Expires != now+180*day) {
				t.Errorf("%s, %s: %s (%s) until %s", tier, code, f.state.Status, f.state.Reason, f.state.Expires)
			}
			if goesOn {
				f.weigh(now + 91*day)
				f.want(vetting.Certified, vetting.ReasonCleared, claim.TierAttested)
			}
		}
	}
	f := certified(t, claim.TierAttested)
	f.days(1, 89)
	f.do(now+89*day, vetting.Act{Act: vetting.ActFreeze, By: "user:a"})
	f.do(now+89*day, vetting.Act{Act: vetting.ActFreeze, By: "user:b"})
	f.do(now+90*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now + 90*day)})
	f.want(vetting.Suspended, vetting.FindingFrozen, claim.TierAttested)
}
