package vetting_test

import (
	"slices"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
)

func findings(s vetting.Standing) (codes []string) {
	for _, f := range s.Findings {
		codes = append(codes, f.Code)
	}
	return codes
}

func about(t testing.TB, s vetting.Standing, code string) string {
	t.Helper()
	i := slices.IndexFunc(s.Findings, func(f vetting.Finding) bool { return f.Code == code })
	if i < 0 {
		t.Fatalf("%v, want %s", s.Findings, code)
	}
	return s.Findings[i].About
}

// What a renter is told of a certificate is struck out where it has lapsed since.
func TestPublicLapses(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	end := now + 400*day
	for at, status := range map[canon.Time]string{end - 1: vetting.StatusValid, end: claim.Lapsed} {
		for _, a := range f.state.Public(at).Standing.Attributes {
			if a.Status != status || (a.Value == "") != (status == claim.Lapsed) || a.Words[0].Code == "" != (status == vetting.StatusValid) || a.Subject == host {
				t.Errorf("at %s: %+v", at, a)
			}
		}
	}
	if f.state.Standing.Attributes[0].Words[0].Code != "" || !f.state.Stood() || newLife(t).state.Stood() {
		t.Error("what is shown changed what stands")
	}
}

func answered(at canon.Time) func(*vetting.Observed) {
	return func(o *vetting.Observed) { o.Answered = at }
}

// A host that is not heard for a day is missed, is hidden meanwhile, and after two weeks its certificate lapses.
func TestHeartbeat(t *testing.T) {
	l, _ := vouched(t)
	for _, x := range []struct {
		last, at canon.Time
		missed   bool
		until    canon.Time
	}{{now, now + day, false, now + day + 1}, {now, now + day + 1, true, now + 2*day + 1}, {0, now, false, now + day}} {
		s := l.stand(x.at, answered(x.last), func(o *vetting.Observed) { o.Hardware.At = x.at })
		if slices.Contains(findings(s), vetting.FindingHeartbeat) != x.missed || s.Until != x.until {
			t.Errorf("heard at %s, at %s: %+v until %s", x.last, x.at, s.Findings, s.Until)
		}
	}
	f := certified(t, claim.TierAttested)
	f.weigh(now+day, answered(now))
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
	f.weigh(now+day+1, answered(now))
	f.want(vetting.Suspended, vetting.FindingHeartbeat, claim.TierAttested)
	if c := f.state.Clocks[0]; c.Since != now+day || c.Due != now+15*day || f.state.Eligible(now+day+2) {
		t.Errorf("%+v", f.state.Clocks)
	}
	back := *f
	back.weigh(now+day+2, answered(now+day+2))
	back.want(vetting.Certified, vetting.ReasonCleared, claim.TierAttested)
	f.days(2, 15, answered(now))
	f.do(now+15*day, vetting.Act{Act: vetting.ActDue})
	f.want(vetting.Lapsed, vetting.FindingHeartbeat, "")
}

// Inside a window nobody is missed; who is still silent at its end is, from then on.
func TestHeartbeatInWindow(t *testing.T) {
	for _, code := range []string{vetting.FindingHeartbeat, vetting.FindingStale} {
		silent := func(o *vetting.Observed) {
			if o.Answered = now; code == vetting.FindingStale {
				o.Answered, o.Hardware.At = 0, now
			}
		}
		f := certified(t, claim.TierAttested)
		f.do(now+1, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 12*hour, Until: now + 2*day}, Reason: "firmware"})
		f.do(now+1, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 2*day, Until: now + 3*day}, Reason: "and more"})
		f.weigh(now+day+1, silent)
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		f.weigh(now+2*day, silent)
		f.weigh(now+2*day+2*hour, silent)
		f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		if f.step.Due != now+3*day {
			t.Errorf("%s: due %s, want the end of the maintenance", code, f.step.Due)
		}
		heard := *f
		heard.weigh(now + 3*day - 1)
		heard.weigh(now+3*day, answered(now+3*day-1))
		heard.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
		f.do(now+3*day+10, vetting.Act{Act: vetting.ActDue}) // the clock is late
		f.want(vetting.Suspended, code, claim.TierAttested)
		if c := f.state.Clocks[0]; c.Since != now+3*day || c.Due != now+17*day {
			t.Errorf("%s: %+v", code, f.state.Clocks)
		}
		// The twin: without a window.
		g := certified(t, claim.TierAttested)
		g.weigh(now+day+1, silent)
		g.want(vetting.Suspended, code, claim.TierAttested)
	}
}

// A log that stood still cannot tell whether a host was silent.
func TestNobodyListened(t *testing.T) {
	// The server was away for nine days: the host has a day to be heard.
	f := certified(t, claim.TierAttested)
	if f.state.Standing.Until != now-hour+day+1 {
		t.Fatalf("weighed until %s", f.state.Standing.Until)
	}
	f.weigh(now+10*day, answered(now))
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
	if f.state.Watched != now+10*day {
		t.Errorf("watched since %s", f.state.Watched)
	}
	f.weigh(now+11*day-hour, answered(now))
	f.weigh(now+11*day, answered(now))
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
	f.weigh(now+11*day+1, answered(now))
	f.want(vetting.Suspended, vetting.FindingHeartbeat, claim.TierAttested)
	if c := f.state.Clocks[0]; c.Since != now+11*day || c.Due != now+25*day {
		t.Errorf("%+v", f.state.Clocks)
	}
	// The twin: an hour late is no break.
	for late, missed := range map[canon.Time]bool{hour: true, hour + 1: false} {
		g := certified(t, claim.TierAttested)
		g.weigh(g.state.Standing.Until+late, answered(now-2*day))
		if (g.state.Status == vetting.Suspended) != missed || (g.state.Watched == 0) != missed {
			t.Errorf("%d s late: %s (%s), watched since %s", late, g.state.Status, g.state.Reason, g.state.Watched)
		}
	}
	// The clock of a host that was silent before stands while nobody listens.
	for _, away := range []bool{true, false} {
		g := certified(t, claim.TierAttested)
		g.weigh(now+day+1, answered(now))
		from := g.state.Standing.Until
		if !away {
			g.days(2, 12, answered(now))
		}
		g.weigh(now+12*day, answered(now))
		g.want(vetting.Suspended, vetting.FindingHeartbeat, claim.TierAttested)
		want := now + 15*day
		if away {
			want += now + 12*day - from
		}
		if c := g.state.Clocks[0]; c.Since != now+day || c.Due != want {
			t.Errorf("away %v: %+v, want until %s", away, g.state.Clocks, want)
		}
		g.days(13, 15, answered(now))
		g.do(now+15*day, vetting.Act{Act: vetting.ActDue})
		if g.state.Live() != away {
			t.Errorf("away %v: %s (%s)", away, g.state.Status, g.state.Reason)
		}
	}
	// Its end is not due in the break.
	h := certified(t, claim.TierAttested)
	h.weigh(now+day+1, answered(now))
	h.days(2, 14, answered(now))
	h.weigh(now+15*day+12*hour, answered(now))
	h.want(vetting.Suspended, vetting.FindingHeartbeat, claim.TierAttested)
}

// A host that shows another device in place of one that its certificate names.
func TestReplaced(t *testing.T) {
	l, _ := vouched(t)
	const gpu, other, ek = "nvidia-gh100:00aa", "nvidia-gh100:00bb", "tpm-ek:5f70"
	for _, x := range []struct {
		name  string
		shown []string
		about string
	}{
		{"the devices of the place", []string{cpu.ID, gpu}, ""},
		{"none", nil, ""},
		{"another GPU", []string{cpu.ID, other}, other},
		{"a GPU that failed once", []string{cpu.ID}, ""},
		{"a GPU more", []string{cpu.ID, gpu, other}, ""},
		{"another processor", []string{"amd-chip-id:77", gpu}, "amd-chip-id:77"},
		{"a processor of another maker", []string{"intel-ppid:77", gpu}, "intel-ppid:77"},
		{"a TPM more", []string{cpu.ID, gpu, ek}, ""},
		{"a TPM, and the processor failed once", []string{gpu, ek}, ""},
		{"another host altogether", []string{"amd-chip-id:77", other, ek}, "amd-chip-id:77, " + other},
	} {
		s := l.stand(now, func(o *vetting.Observed) { o.Shown = place.Others(x.shown) })
		if x.about == "" {
			if slices.Contains(findings(s), vetting.FindingRMA) {
				t.Errorf("%s: %+v", x.name, s.Findings)
			}
		} else if got := about(t, s, vetting.FindingRMA); got != x.about {
			t.Errorf("%s: about %q", x.name, got)
		}
		c := vetting.Certificate{Standing: s}
		for _, f := range c.Public(now).Standing.Findings {
			if f.Code == vetting.FindingRMA && f.About != "" {
				t.Errorf("%s: renters are told of %q", x.name, f.About)
			}
		}
	}
	tpm := place
	tpm.Devices = []vetting.Device{{ID: ek}}
	o := observed(now)
	o.Shown = []string{"tpm-ek:77"}
	if got := about(t, l.Stand(tpm, nil, o, vetting.Defaults(), now), vetting.FindingRMA); got != "tpm-ek:77" {
		t.Errorf("another TPM: about %q", got)
	}
	if place.Others([]string{cpu.ID, gpu}) != nil || place.Others([]string{cpu.ID}) == nil {
		t.Error("what an observation names")
	}
	swapped := func(o *vetting.Observed) { o.Shown = []string{cpu.ID, other} }
	f := certified(t, claim.TierAttested)
	f.weigh(now+1, swapped)
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierAttested)
	f.days(1, 31, swapped)
	f.want(vetting.Certified, vetting.ReasonGraceOver, claim.TierIdentified)
	g := newLife(t)
	g.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten})
	g.do(now, vetting.Act{Act: vetting.ActSubmit})
	g.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	if g.try(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: g.standing(now, swapped)}) == nil {
		t.Error("certified with a device that the place does not name")
	}
}

// Two issuers put one host into two countries.
func TestElsewhere(t *testing.T) {
	say := func(issuer string, of vetting.Subject, country string) func(*lab) {
		return func(l *lab) {
			l.say(vetting.Claim{Issuer: issuer, Subject: of, Attribute: "party.jurisdiction", Value: country})
		}
	}
	const both = "DE by tuv.example, FR by lei.example"
	for _, x := range []struct {
		name  string
		do    func(*lab)
		about string
	}{
		{"they agree", say("lei.example", host, "DE"), ""},
		{"of the host", say("lei.example", host, "FR"), both},
		{"of the site", say("lei.example", site, "FR"), both},
		{"of the law of the provider", say("lei.example", provider, "FR"), ""},
		{"one issuer of host and site", say("tuv.example", site, "FR"), ""},
		{"by one that is none", func(l *lab) {
			l.register("new.example", "party.domain", vetting.Scope{}, 1000*day)
			say("new.example", host, "FR")(l)
		}, ""},
		{"what has lapsed", func(l *lab) {
			l.say(vetting.Claim{Issuer: "lei.example", Subject: host, Attribute: "party.jurisdiction", Value: "FR", Issued: now - 10, Expires: now})
		}, ""},
		{"what was taken back", func(l *lab) {
			d := l.say(vetting.Claim{Issuer: "lei.example", Subject: host, Attribute: "party.jurisdiction", Value: "FR"})
			l.revoke(vetting.Revocation{Issuer: "lei.example", Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: d.String()}, Reason: vetting.RevokedError, Made: now, Effective: now, Since: now, Evidence: canon.Sum(nil)})
		}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			l, _ := vouched(t)
			x.do(l)
			for _, said := range []string{"DE", "FR"} { // whatever the provider says of itself
				asserted := slices.Clone(ten)
				asserted[2].Value = said
				s := l.Stand(place, asserted, observed(now), vetting.Defaults(), now)
				if x.about == "" && slices.Contains(findings(s), vetting.FindingLocation) {
					t.Errorf("%+v", s.Findings)
				} else if x.about != "" && about(t, s, vetting.FindingLocation) != x.about {
					t.Errorf("about %q", about(t, s, vetting.FindingLocation))
				}
			}
		})
	}
	f := certified(t, claim.TierAttested)
	say("lei.example", host, "FR")(f.lab)
	f.weigh(now + 1)
	f.want(vetting.Suspended, vetting.FindingLocation, claim.TierAttested)
	f.days(1, 14)
	f.do(now+1+14*day, vetting.Act{Act: vetting.ActDue})
	f.want(vetting.Revoked, vetting.FindingLocation, "")
}

// soundTD returns the claims of an appraisal of a TDX quote that confidential-cpu accepts, as the room of TDX words them.
func soundTD() claim.Set {
	values := map[string]string{
		"tdx.structure": "v4", "tdx.chain": "platform", "tdx.collateral": "17", "tdx.attributes": "sept-ve-disable", "tdx.tcb-status": "UpToDate", "tdx.qe-identity": "UpToDate",
		"tdx.module-identity": "TDX_03", "tdx.servicetd": "none", "binding.seal": "tdx", "guest.measured": "tee", "agent.measured": "tee",
	}
	var set claim.Set
	for _, d := range claim.Catalogue() {
		subject := map[string]string{"tdx": "cpu:0", "statement": "statement:0", "bundle": "node", "binding": "node", "guest": "node", "agent": "node"}[claim.Room(d.ID)]
		if d.ID == "set.device-unique" {
			subject = "set"
		}
		if subject == "" || d.ID == "tdx.advisories" {
			continue
		}
		set.Add(claim.Claim{ID: d.ID, Subject: subject, Status: claim.Affirmed, Value: values[d.ID], From: now - 60})
	}
	set.Settle()
	return set
}

// What an appraisal of a TDX quote shows: each fault is found for what it is, and costs what it costs.
func TestReadHardwareOfTDX(t *testing.T) {
	p := vetting.Defaults()
	p.Exploited = []string{"INTEL-SA-00001"}
	value := func(id, to string) func(*claim.Set) {
		return func(set *claim.Set) {
			for i := range *set {
				if (*set)[i].ID == id {
					(*set)[i].Value = to
				}
			}
		}
	}
	status := func(id string, s claim.Status, code string) func(*claim.Set) {
		return func(set *claim.Set) {
			for i := range *set {
				if (*set)[i].ID == id {
					(*set)[i].Status, (*set)[i].Reason, (*set)[i].Value = s, claim.Because(code, "test"), ""
				}
			}
		}
	}
	advised := func(list string) func(*claim.Set) {
		return func(set *claim.Set) {
			value("tdx.tcb-status", "OutOfDate")(set)
			set.Add(claim.Claim{ID: "tdx.advisories", Subject: "cpu:0", Status: claim.Affirmed, Value: list})
		}
	}
	for _, x := range []struct {
		name   string
		change func(*claim.Set)
		level  string
		codes  []string
	}{
		{"sound", func(*claim.Set) {}, vetting.HardwareCPU, nil},
		{"a TCB out of date", value("tdx.tcb-status", "OutOfDate"), vetting.HardwareCPU, []string{vetting.FindingTCB}},
		{"a TCB that wants other settings", value("tdx.tcb-status", "SWHardeningNeeded"), vetting.HardwareCPU, []string{vetting.FindingTCB}},
		{"out of date, and advised against", advised("INTEL-SA-00002 INTEL-SA-00003"), vetting.HardwareCPU, []string{vetting.FindingTCB}},
		{"out of date, and attacked", advised("INTEL-SA-00001 INTEL-SA-00002"), vetting.HardwareCPU, []string{vetting.FindingExploited}},
		{"a TCB that was revoked", status("tdx.tcb-status", claim.Contradicted, "revoked"), vetting.HardwareNone, []string{vetting.FindingVendor}},
		{"a TCB below every level", status("tdx.tcb-status", claim.Contradicted, "below-levels"), vetting.HardwareCPU, []string{vetting.FindingTCB}},
		{"a TCB of which nothing was fetched", status("tdx.tcb-status", claim.Unknown, claim.CollateralMissing), vetting.HardwareCPU, []string{vetting.FindingCollateral}},
		{"a PCK that was revoked", status("tdx.revocation", claim.Contradicted, "revoked"), vetting.HardwareNone, []string{vetting.FindingVendor}},
		{"debug on", status("tdx.debug-off", claim.Contradicted, "enabled"), vetting.HardwareNone, []string{vetting.FindingDebug}},
		{"a chain of another root", status("tdx.chain", claim.Contradicted, claim.Mismatch), vetting.HardwareNone, []string{vetting.FindingChain}},
		{"a signature that is none", status("tdx.signature", claim.Contradicted, claim.Mismatch), vetting.HardwareNone, []string{vetting.FindingChain}},
		{"another guest", status("guest.measured", claim.Contradicted, claim.NotListed), vetting.HardwareCPU, []string{vetting.FindingMismatch}},
		{"attributes that are not asked for", value("tdx.attributes", "pks"), vetting.HardwareNone, nil},
		{"a quoting enclave of which nothing is known", status("tdx.qe-signer", claim.Unknown, claim.NoReference), vetting.HardwareNone, nil},
	} {
		set := soundTD()
		x.change(&set)
		set.Settle()
		h := vetting.ReadHardware(set, now, p)
		var codes []string
		for _, f := range h.Findings {
			codes = append(codes, f.Code)
		}
		if h.Level != x.level || !slices.Equal(codes, x.codes) {
			t.Errorf("%s: %s %v, want %s %v", x.name, h.Level, h.Findings, x.level, x.codes)
		}
	}
}

// What a certificate says of an attribute: each issuer once, with the highest level or the word about the smallest part, and what
// counts before what does not.
func TestWhatEachIssuerSays(t *testing.T) {
	word := func(issuer, value, code string) vetting.Word {
		return vetting.Word{Issuer: issuer, Value: value, Code: code, From: now, Until: now + 10}
	}
	type attribute = vetting.Attribute
	for _, x := range []struct {
		name string
		id   string
		said []attribute
		want []string
	}{
		{"one word", "party.domain", []attribute{{Subject: provider, Words: []vetting.Word{word("a", "x", "")}}}, []string{"a affirmed x"}},
		{"the higher level of two parts", "party.facility", []attribute{{Subject: host, Words: []vetting.Word{word("a", "bound", "")}}, {Subject: site, Words: []vetting.Word{word("a", "audited", "")}}}, []string{"a affirmed audited"}},
		{"a higher level that does not count", "party.facility", []attribute{{Subject: host, Words: []vetting.Word{word("a", "bound", "")}}, {Subject: site, Words: []vetting.Word{word("a", "audited", "lapsed")}}}, []string{"a affirmed bound"}},
		{"what counts behind what does not", "party.facility", []attribute{{Subject: host, Words: []vetting.Word{word("a", "audited", "lapsed")}}, {Subject: site, Words: []vetting.Word{word("a", "bound", "")}}}, []string{"a affirmed bound"}},
		{"the smallest part", "party.jurisdiction", []attribute{{Subject: host, Words: []vetting.Word{word("a", "DE", "")}}, {Subject: provider, Words: []vetting.Word{word("a", "FR", "")}}}, []string{"a affirmed DE"}},
		{"another issuer of a larger part", "party.jurisdiction", []attribute{{Subject: host, Words: []vetting.Word{word("a", "DE", "")}}, {Subject: provider, Words: []vetting.Word{word("b", "FR", "")}}}, []string{"a affirmed DE"}},
		{"of which the word on the smallest does not count", "party.jurisdiction", []attribute{{Subject: host, Words: []vetting.Word{word("a", "DE", "lapsed")}}, {Subject: provider, Words: []vetting.Word{word("b", "FR", "")}}}, []string{"a unknown DE", "b affirmed FR"}},
		{"two issuers of one part", "party.jurisdiction", []attribute{{Subject: host, Words: []vetting.Word{word("a", "DE", ""), word("b", "FR", "")}}}, []string{"a affirmed DE", "b affirmed FR"}},
		{"the provider's own", "party.domain", []attribute{{Subject: provider, Asserted: "x"}}, []string{"p1 unknown x"}},
		{"the provider's own, which it signed too", "party.domain", []attribute{{Subject: provider, Asserted: "x", Words: []vetting.Word{word("p1", "x", "self-asserted")}}}, []string{"p1 unknown x"}},
		{"another attribute", "party.identity", []attribute{{Subject: provider, Words: []vetting.Word{word("a", "contact", "")}}}, nil},
	} {
		c := vetting.Certificate{Place: place, Status: vetting.Certified, Tier: claim.TierAnonymous, Expires: now + 10, Standing: vetting.Standing{At: now, Until: now + 10}}
		for _, a := range x.said {
			a.ID = x.id
			c.Standing.Attributes = append(c.Standing.Attributes, a)
		}
		id := x.id
		if x.want == nil {
			id = "party.domain"
		}
		var got []string
		for _, k := range c.PartyClaims() {
			if k.ID == id {
				got = append(got, k.Issuer+" "+k.Status.String()+" "+k.Value)
				if k.Status == claim.Affirmed && (k.From != now || k.Until != now+9) {
					t.Errorf("%s: from %s until %s", x.name, k.From, k.Until)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
