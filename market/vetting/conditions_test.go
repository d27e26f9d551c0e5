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

// spoilt holds that a value is sound, and each change to it alone is refused.
func spoilt[T interface{ Validate() error }](t *testing.T, name string, sound func() T, changes ...func(*T)) {
	t.Helper()
	if err := sound().Validate(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, change := range changes {
		v := sound()
		change(&v)
		if v.Validate() == nil {
			t.Errorf("%s, change %d: taken", name, i)
		}
	}
}

// What a document cannot say, each time for one reason.
func TestWhatDocumentsCannotSay(t *testing.T) {
	long := strings.Repeat("x", vetting.MaxID+1)
	acts := func(a vetting.Act) func() vetting.Act {
		return func() vetting.Act {
			a := a
			a.Type, a.Certificate = vetting.ActType, "c-1"
			if a.Act != vetting.ActDue {
				a.By = "user:olga"
			}
			return a
		}
	}
	type act = vetting.Act
	spoilt(t, "due", acts(act{Act: vetting.ActDue}), func(a *act) { a.Type = "assay/act/v1" }, func(a *act) { a.Act = "undo" }, func(a *act) { a.Certificate = long }, func(a *act) { a.Certificate = "-" }, func(a *act) { a.Upheld = true })
	spoilt(t, "renew", acts(act{Act: vetting.ActRenew}), func(a *act) { a.By = strings.Repeat("x", vetting.MaxPrincipal+1) }, func(a *act) { a.By = "" })
	spoilt(t, "assign", acts(act{Act: vetting.ActAssign, Reviewer: "user:rita"}), func(a *act) { a.Reviewer = strings.Repeat("x", vetting.MaxPrincipal+1) }, func(a *act) { a.Reviewer = "" })
	spoilt(t, "rule", acts(act{Act: vetting.ActRule, Reason: "so", Upheld: true}), func(a *act) { a.Reason = strings.Repeat("x", vetting.MaxValue+1) })
	spoilt(t, "fail", acts(act{Act: vetting.ActFail, Code: vetting.FailedRegister}), func(a *act) { a.Code = "ugly" })
	spoilt(t, "freeze", acts(act{Act: vetting.ActFreeze, Evidence: canon.Sum(nil)}), func(a *act) { a.By = "" }, func(a *act) { a.Reviewer = "user:b" })
	spoilt(t, "window", acts(act{Act: vetting.ActWindow, Window: vetting.Window{From: 10, Until: 20}, Reason: "BIOS"}), func(a *act) { a.Window.From = -1 }, func(a *act) { a.Window.Until = 10 },
		func(a *act) { a.Window.Until = 11 + canon.Time(vetting.MaxWindow) })
	spoilt(t, "draft", acts(act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten}), func(a *act) { a.Place.Provider = "" }, func(a *act) { a.Assertions = slices.Repeat(ten[:1], 2) },
		func(a *act) { a.Assertions = slices.Repeat(ten, 7) })
	spoilt(t, "assess", acts(act{Act: vetting.ActAssess, Standing: vetting.Standing{At: now, Until: now + 1}}), func(a *act) { a.Standing.Until = now })

	spoilt(t, "assertion", func() vetting.Assertion { return ten[6] }, func(a *vetting.Assertion) { a.Value = "no domain" }, func(a *vetting.Assertion) { a.Attribute = "party.tier" }, func(a *vetting.Assertion) { a.Subject.ID = "" })

	type standing = vetting.Standing
	spoilt(t, "standing", func() standing {
		return standing{At: now, Until: now + 1, Findings: []vetting.Finding{{Code: vetting.FindingContested}, {Code: vetting.FindingTCB}}}
	}, func(s *standing) { s.At = 0 }, func(s *standing) { s.Until = now }, func(s *standing) { s.Tier = "4" }, func(s *standing) { slices.Reverse(s.Findings) },
		func(s *standing) { s.Findings[1] = s.Findings[0] }, func(s *standing) { s.Findings[1].Code = vetting.FindingFrozen })
	type shown = vetting.Observed
	spoilt(t, "observed", func() shown { return observed(now) }, func(o *shown) { o.Hardware.Findings = []vetting.Finding{{Code: "bad"}} }, func(o *shown) { o.Hardware.Findings = []vetting.Finding{{Code: vetting.FindingFrozen}} },
		func(o *shown) { o.Answered = -1 }, func(o *shown) { o.Shown = []string{"gpu"} }, func(o *shown) { o.Shown = []string{cpu.ID, cpu.ID} }, func(o *shown) { o.Shown = make([]string, vetting.MaxDevices+1) },
		func(o *shown) { o.Measured, o.MeasuredAt = -1, 0 }, func(o *shown) { o.Measured = 1 }, func(o *shown) { o.MeasuredAt = 1 }, func(o *shown) { o.Hardware.Level = "gold" },
		func(o *shown) { o.Hardware.Level = vetting.HardwareMeasured })
	type observation = vetting.Observation
	spoilt(t, "observation", func() observation {
		return observation{Type: vetting.ObservationType, At: now, Observed: observed(now)}
	}, func(o *observation) { o.Type = "" }, func(o *observation) { o.At = 0 })
	type facts = vetting.Facts
	spoilt(t, "facts", func() facts { return facts{Type: vetting.FactsType, Provider: "p1", ContactHours: 1} }, func(f *facts) { f.Type = "" }, func(f *facts) { f.ContactHours = -1 },
		func(f *facts) { f.ContactHours = vetting.MaxParameter }, func(f *facts) { f.Provider = "P 1" })
	spoilt(t, "place", func() vetting.Place {
		p := place
		p.Devices = slices.Clone(p.Devices)
		return p
	}, func(p *vetting.Place) { p.Provider = "" }, func(p *vetting.Place) { p.Host = "" }, func(p *vetting.Place) { slices.Reverse(p.Devices) }, func(p *vetting.Place) { p.Devices[1] = p.Devices[0] },
		func(p *vetting.Place) { p.Devices[0].Model = "Genoa" }, func(p *vetting.Place) { p.Site = long })
	type revocation = vetting.Revocation
	spoilt(t, "revocation", func() revocation {
		return revocation{Type: vetting.RevocationType, Issuer: vetting.Operator, Unit: cpu, Reason: vetting.RevokedForged, Made: now, Effective: now, Since: now, Evidence: canon.Sum(nil)}
	}, func(r *revocation) { r.Type = vetting.ClaimType }, func(r *revocation) { r.Made = 0 }, func(r *revocation) { r.Effective = now - 1; r.Since = now - 1 }, func(r *revocation) { r.Since = 0 },
		func(r *revocation) { r.Since = now + 1 }, func(r *revocation) { r.Evidence = canon.Digest{} }, func(r *revocation) { r.Issuer = "tuv.example" }, func(r *revocation) { r.Reason = "because" })
	type said = vetting.Claim
	spoilt(t, "claim", func() said {
		return said{Type: vetting.ClaimType, Issuer: "tuv.example", Subject: site, Attribute: "party.facility-audit", Value: report, Issued: now, Expires: now + 1}
	}, func(c *said) { c.Type = vetting.RevocationType }, func(c *said) { c.Value = report[:62] }, func(c *said) { c.Value = strings.ToUpper(report) }, func(c *said) { c.Value = "z" + report[1:] },
		func(c *said) { c.Issued = 0 }, func(c *said) { c.Expires = now }, func(c *said) { c.Expires = now + 1 + canon.Time(vetting.MaxTerm) }, func(c *said) { c.Issuer = vetting.Operator },
		func(c *said) { c.Scope.Sites = []string{"b", "a"} })
	of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "tuv.example"}
	spoilt(t, "scope", func() said {
		return said{Type: vetting.ClaimType, Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.domain party.facility", Issued: now, Expires: now + 1}
	}, func(c *said) { c.Value = "party.facility party.domain" }, func(c *said) { c.Value = "party.tier" }, func(c *said) { c.Value = "" }, func(c *said) { c.Issuer = "tuv.example" },
		func(c *said) { c.Subject.ID = vetting.Operator })
	type parameters = vetting.Parameters
	spoilt(t, "parameters", func() parameters {
		p := vetting.Defaults()
		p.Exploited = []string{"A", "B"}
		return p
	}, func(p *parameters) { p.Type = "" }, func(p *parameters) { p.Discrepancy = vetting.MaxParameter + 1 }, func(p *parameters) { p.Tiers = p.Tiers[:3] }, func(p *parameters) { p.Notices = make([]int64, vetting.MaxNotices+1) },
		func(p *parameters) { p.Notices = []int64{0} }, func(p *parameters) { p.Notices = []int64{vetting.MaxParameter + 1} }, func(p *parameters) { p.Notices = []int64{7, 7} }, func(p *parameters) { p.Exploited = []string{""} },
		func(p *parameters) { p.Exploited = []string{"B", "A"} }, func(p *parameters) { p.Exploited = []string{long} }, func(p *parameters) { p.Tiers[1].Term = 0 }, func(p *parameters) { p.Tiers[1].Term = vetting.MaxParameter + 1 },
		func(p *parameters) { p.Tiers[2].MinCompletion = 1001 }, func(p *parameters) { p.Tiers[2].MinCompletion = -1 }, func(p *parameters) { p.Tiers[2].MinUptime = 1001 }, func(p *parameters) { p.Tiers[2].MinUptime = -1 },
		func(p *parameters) { p.Tiers[2].RecordDays = -1 }, func(p *parameters) { p.Tiers[2].MinLeases = -1 }, func(p *parameters) { p.Tiers[2].ContactHours = -1 }, func(p *parameters) { p.Tiers[3].Witnesses = -1 }, func(p *parameters) { p.Tiers[3].Auditors = -1 },
		func(p *parameters) { p.Tiers[3].Auditors = 0 }, func(p *parameters) { p.Tiers[2].Auditors = 1 })
}

// When a machine may be given work, what its badge shows, and until when it speaks for itself.
func TestEligible(t *testing.T) {
	sound := vetting.Certificate{ID: "c-1", Place: place, Status: vetting.Certified, Tier: claim.TierAttested, Expires: now + 10, Standing: vetting.Standing{At: now, Until: now + 5}}
	for name, c := range map[string]struct {
		change   func(*vetting.Certificate)
		at       canon.Time
		eligible bool
		badge    string
	}{
		"sound":                {func(*vetting.Certificate) {}, now, true, claim.TierAttested},
		"while it is renewed":  {func(c *vetting.Certificate) { c.Status = vetting.Renewing }, now, true, claim.TierAttested},
		"suspended":            {func(c *vetting.Certificate) { c.Status = vetting.Suspended }, now, false, vetting.Suspended},
		"revoked":              {func(c *vetting.Certificate) { c.Status = vetting.Revoked }, now, false, vetting.Revoked},
		"no tier":              {func(c *vetting.Certificate) { c.Tier = "" }, now, false, ""},
		"its last second":      {func(c *vetting.Certificate) { c.Standing.Until = now + 20 }, now + 9, true, claim.TierAttested},
		"its term is over":     {func(c *vetting.Certificate) { c.Standing.Until = now + 20 }, now + 10, false, vetting.Lapsed},
		"weighed a second ago": {func(*vetting.Certificate) {}, now + 4, true, claim.TierAttested},
		"nobody weighs it":     {func(*vetting.Certificate) {}, now + 5, false, claim.TierAttested},
		"in a window":          {func(c *vetting.Certificate) { c.Windows = []vetting.Window{{From: now, Until: now + 2}} }, now, false, claim.TierAttested},
		"behind a window":      {func(c *vetting.Certificate) { c.Windows = []vetting.Window{{From: now, Until: now + 2}} }, now + 2, true, claim.TierAttested},
		"before a window":      {func(c *vetting.Certificate) { c.Windows = []vetting.Window{{From: now + 1, Until: now + 2}} }, now, true, claim.TierAttested},
	} {
		x := sound
		c.change(&x)
		if x.Eligible(c.at) != c.eligible || x.Badge(c.at) != c.badge {
			t.Errorf("%s: eligible %v, badge %q", name, x.Eligible(c.at), x.Badge(c.at))
		}
	}
	for _, end := range []struct{ expires, until, want canon.Time }{{now + 10, now + 5, now + 4}, {now + 3, now + 5, now + 2}} {
		x := sound
		x.Expires, x.Standing.Until = end.expires, end.until
		if c := x.PartyClaims().Find("party.tier", claim.SubjectParty); c == nil || c.Until != end.want {
			t.Errorf("the tier holds until %+v, want %s", c, end.want)
		}
	}
}

// An event in another's stream or of another kind happens to nobody, and a certificate goes on from where it is.
func TestEventsOfOthers(t *testing.T) {
	f := certified(t, claim.TierAttested)
	body, err := canon.Marshal(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActEnd, By: "user:olga"})
	if err != nil {
		t.Fatal(err)
	}
	sighting, err := canon.Marshal(vetting.Sighting{Type: vetting.SightingType, Device: cpu.ID, Event: vetting.DeviceSeen, Provider: "p1", Host: "host-1", Evidence: canon.Sum(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for stream, taken := range map[string]bool{"provider:p1": true, "provider:p2": false, "server": false} {
		if _, err := f.Certify(f.state, event(ledger.KindCertificate, stream, now+1, body)); (err == nil) != taken {
			t.Errorf("an act in stream %s: %v", stream, err)
		}
		if _, err := f.Hold(vetting.DeviceState{}, event(ledger.KindCertificate, stream, now+1, sighting)); (err == nil) != taken {
			t.Errorf("a sighting in stream %s: %v", stream, err)
		}
	}
	for _, kind := range []string{ledger.KindClaim, ledger.KindRules} {
		if _, err := f.Certify(f.state, event(kind, "provider:p1", now+1, body)); err == nil {
			t.Errorf("an act in an entry of kind %s", kind)
		}
		if _, err := f.Hold(vetting.DeviceState{}, event(kind, "provider:p1", now+1, sighting)); err == nil {
			t.Errorf("a sighting in an entry of kind %s", kind)
		}
	}
	if g := newLife(t); g.try(now, vetting.Act{Act: vetting.ActSubmit}) == nil {
		t.Error("submitted before it was drafted")
	}
	f.weigh(now + day)
	if old := f.standing(now); f.try(now+day+1, vetting.Act{Act: vetting.ActAssess, Standing: old}) == nil {
		t.Error("an older standing came back")
	}
}

// Acts that do not fit a state that others of the kind would fit.
func TestActsOutOfTurn(t *testing.T) {
	review := func() *life {
		f := newLife(t)
		f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten})
		f.do(now, vetting.Act{Act: vetting.ActSubmit})
		f.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
		return f
	}
	fail := vetting.Act{Act: vetting.ActFail, By: "user:rita", Code: vetting.FailedRegister}
	f := review()
	if stranger := fail; f.try(now, vetting.Act{Act: vetting.ActFail, By: "user:otto", Code: stranger.Code}) == nil {
		t.Error("failed by who does not review it")
	}
	f.do(now, fail)
	f.want(vetting.Rejected, vetting.FailedRegister, "")
	if f.try(now, vetting.Act{Act: vetting.ActEnd}) == nil {
		t.Error("ended while it can be appealed: a rejection would be undone")
	}
	// A renewal that fails touches no term.
	g := certified(t, claim.TierAttested)
	g.do(now+1, vetting.Act{Act: vetting.ActRenew})
	g.do(now+2, fail)
	g.want(vetting.Certified, vetting.FailedRegister, claim.TierAttested)
	if g.state.Expires != now+90*day || g.state.Deadline != 0 {
		t.Errorf("until %s, due %s", g.state.Expires, g.state.Deadline)
	}
	// What is wrong since tomorrow is not known today.
	for since, taken := range map[canon.Time]bool{now + 3: true, now + 4: false} {
		x := *g
		if err := x.try(now+3, vetting.Act{Act: vetting.ActRevoke, Code: vetting.RevokedForged, Evidence: canon.Sum(nil), Since: since}); (err == nil) != taken {
			t.Errorf("tainted since %s: %v", since, err)
		}
	}
	revoked := certified(t, claim.TierAttested)
	revoked.weigh(now+1, finding(vetting.FindingDebug))
	if revoked.try(now+2, vetting.Act{Act: vetting.ActEnd}) == nil {
		t.Error("ended what was revoked")
	}
	triage := vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:otto"}
	if revoked.try(now+2, triage) == nil || revoked.try(now+2, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "x"}) == nil {
		t.Error("an appeal that nobody filed")
	}
	appeal := vetting.Act{Act: vetting.ActAppeal, Evidence: canon.Sum(nil)}
	revoked.do(now+2, appeal)
	if revoked.try(now+3, appeal) == nil || revoked.try(now+3, vetting.Act{Act: vetting.ActRule, By: "user:otto", Reason: "x"}) == nil {
		t.Error("filed twice, or ruled before anybody was named")
	}
	// Named late: no more time to rule than there was.
	revoked.do(now+2+3*day, vetting.Act{Act: vetting.ActDue})
	revoked.do(now+2+4*day, triage)
	if revoked.state.Deadline != now+2+8*day || revoked.try(now+2+4*day, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:nora"}) == nil {
		t.Errorf("due %s, or another one named", revoked.state.Deadline)
	}
	// A place has the parts that it has.
	h := newLife(t)
	strange := []vetting.Assertion{{Subject: vetting.Subject{Kind: vetting.UnitSite, ID: "par1"}, Attribute: "party.jurisdiction", Value: "FR"}}
	if h.try(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: strange}) == nil {
		t.Error("an assertion about another site")
	}
	// And words about itself can be changed until it is certified, and then.
	for _, x := range []*life{review(), certified(t, claim.TierAttested)} {
		x.do(now+1, vetting.Act{Act: vetting.ActEdit, Assertions: ten[:1]})
	}
	if f.try(now+1, vetting.Act{Act: vetting.ActEdit, Assertions: ten[:1]}) == nil {
		t.Error("a rejected one is edited")
	}
}

// Until: the first instant at which time alone changes what counts, whatever it is that changes.
func TestStandingHoldsUntil(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(l *lab)
		want canon.Time
	}{
		"its evidence": {func(*lab) {}, now + 23*hour + 1},
		"a word ends": {func(l *lab) {
			l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "audited", Expires: now + 100})
		}, now + 100},
		"a word begins": {func(l *lab) {
			l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "audited", Issued: now + 50})
		}, now + 50},
		"a revocation of a unit": {func(l *lab) { l.revoke(vetting.Revocation{Unit: cpu, Effective: now + 70, Since: now}) }, now + 70},
		"of an issuer": {func(l *lab) {
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "tuv.example"}, Effective: now + 80, Since: now})
		}, now + 80},
		"a notice ends": {func(l *lab) {
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: genoa, Attribute: vetting.AttributeDataClass, Value: "internal", Expires: now + 90})
		}, now + 90},
		"of another generation": {func(l *lab) {
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: vetting.Subject{Kind: vetting.UnitModel, ID: "turin"}, Attribute: vetting.AttributeDataClass, Value: "internal", Expires: now + 90})
		}, now + 23*hour + 1},
	} {
		l, _ := vouched(t)
		c.tell(l)
		s := l.stand(now)
		if s.Until != c.want {
			t.Errorf("%s: until %s, want %s", name, s.Until, c.want)
		}
	}
	l, _ := vouched(t)
	for age, stale := range map[canon.Time]bool{day: false, day + 1: true} { // as old as it may be, and a second older
		if has(l.stand(now, func(o *vetting.Observed) { o.Hardware.At = now - age }), vetting.FindingStale) != stale {
			t.Errorf("evidence of %d s: stale is not %v", age, stale)
		}
	}
	// What was tainted since when.
	r := vetting.Revocation{Since: now, Effective: now + 10}
	for at, tainted := range map[canon.Time]bool{now - 1: false, now: true, now + 9: true, now + 10: false} {
		if r.Taints(at) != tainted {
			t.Errorf("decided %s: tainted is not %v", at, tainted)
		}
	}
}

// What somebody reads who asks for what cannot be now.
func TestRefusalsSayWhereItStands(t *testing.T) {
	f := newLife(t)
	f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested})
	if err := f.try(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)}); err == nil || !strings.HasSuffix(err.Error(), "pass: not in this state: it is draft (drafted)") {
		t.Error(err)
	}
	for id, want := range map[vetting.Subject]string{
		{Kind: vetting.UnitProvider, ID: "P_1"}: "lower-case letters, digits, dots and hyphens", {Kind: vetting.UnitHost, ID: "a b"}: "letters, digits, dots, hyphens and underscores",
		{Kind: vetting.UnitDevice, ID: "9c41"}: "amd-chip-id:9c41",
	} {
		if err := id.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// The least that turns one finding into another, or into none.
func TestFindingsOfReasons(t *testing.T) {
	q := vetting.Defaults()
	q.Exploited = []string{"CVE-2025-0001"}
	with := func(gpu bool, id string, do func(*claim.Claim)) []string {
		set := slices.Clone(sound(gpu))
		for i := range set {
			if set[i].ID == id {
				do(&set[i])
			}
		}
		set.Settle()
		var codes []string
		for _, f := range vetting.ReadHardware(set, now, q).Findings {
			codes = append(codes, f.Code)
		}
		return codes
	}
	is := func(status claim.Status, code string) func(*claim.Claim) {
		return func(c *claim.Claim) { c.Status, c.Reason = status, claim.Because(code, "test") }
	}
	for _, c := range []struct {
		name string
		gpu  bool
		id   string
		do   func(*claim.Claim)
		want []string
	}{
		{"a list that was refused", false, "sevsnp.revocation", is(claim.Unknown, claim.CollateralRefused), []string{vetting.FindingCollateral}},
		{"a manifest of the driver", true, "nvidia.driver-rim", is(claim.Unknown, claim.CollateralMissing), []string{vetting.FindingRIM}},
		{"a manifest that was refused", true, "nvidia.driver-rim", is(claim.Unknown, claim.CollateralRefused), []string{vetting.FindingCollateral}},
		{"a signature that is none", false, "sevsnp.signature", is(claim.Contradicted, claim.Mismatch), []string{vetting.FindingChain}},
		{"a signature that nobody could check", false, "sevsnp.signature", is(claim.Unknown, claim.CollateralMissing), []string{vetting.FindingCollateral}},
		{"one device twice", false, "set.device-unique", is(claim.Contradicted, "duplicate"), []string{vetting.FindingDuplicate}},
		{"a device that the node was not enrolled with", false, "set.device-unique", is(claim.Contradicted, claim.NotListed), []string{vetting.FindingRMA}},
		{"measurements that nobody knows", true, "nvidia.measurements", is(claim.Contradicted, claim.Mismatch), []string{vetting.FindingMismatch}},
		{"debug of which nothing is known", false, "sevsnp.debug-off", is(claim.Unknown, claim.NoReference), nil},
	} {
		if got := with(c.gpu, c.id, c.do); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A window hides that nobody answers, and nothing else.
func TestWindowHidesNoFault(t *testing.T) {
	for code, hidden := range map[string]bool{vetting.FindingHeartbeat: true, vetting.FindingTCB: false, vetting.FindingDebug: false, vetting.FindingMismatch: false} {
		f := certified(t, claim.TierAttested)
		f.do(now+1, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 10, Until: now + 3600}, Reason: "BIOS 2.8"})
		f.weigh(now+20, finding(code))
		if sound := f.state.Status == vetting.Certified && len(f.state.Clocks) == 0; sound != hidden {
			t.Errorf("%s: %s, %+v", code, f.state.Status, f.state.Clocks)
		}
	}
}

// What the registry must say for a tier, beside what is observed.
func TestTierCriteriaOfWords(t *testing.T) {
	for name, c := range map[string]struct {
		identity, facility string
		uptime             int64
		tier, lacks        string
	}{
		"all of it":               {"legal-entity", "bound", 990, claim.TierAttestedFacility, ""},
		"a contact, and no more":  {"contact", "bound", 990, claim.TierAnonymous, vetting.LacksIdentity},
		"a site that was seen":    {"legal-entity", "witnessed", 990, claim.TierAttested, vetting.LacksFacility},
		"an uptime of 989":        {"legal-entity", "bound", 989, claim.TierIdentified, vetting.LacksRecord},
		"a site nobody speaks of": {"legal-entity", "none", 990, claim.TierAttested, vetting.LacksFacility},
	} {
		l := newLab(t)
		l.register("two.example", "party.facility-audit", vetting.Scope{}, 1000*day)
		l.at = now - day
		l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.identity", Value: c.identity})
		l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.legal-entity", Value: legal})
		l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: c.facility})
		for _, issuer := range []string{"iso.example", "two.example"} {
			l.say(vetting.Claim{Issuer: issuer, Subject: site, Attribute: "party.facility-audit", Value: report})
		}
		q := vetting.Defaults()
		q.Tiers[2].MinUptime = 990
		o := observed(now)
		o.Record.Uptime = c.uptime
		if s := l.Stand(place, nil, o, q, now); s.Tier != c.tier || c.lacks != "" && s.Missing[0] != c.lacks {
			t.Errorf("%s: tier %q lacks %v", name, s.Tier, s.Missing)
		}
	}
}

// The earliest of several revocations says since when all is tainted, in whatever order they came; and auditors are apart from
// the later of their words, whoever's that is.
func TestEarliestAndLatest(t *testing.T) {
	for _, units := range [][]vetting.Subject{{cpu, provider}, {provider, cpu}} {
		l, _ := vouched(t)
		l.revoke(vetting.Revocation{Unit: units[0], Since: now - 5})
		l.revoke(vetting.Revocation{Unit: units[1], Since: now - 9})
		for _, f := range l.stand(now).Findings {
			if f.Code == vetting.FindingUnitRevoked && (f.Since != now-9 || strings.Count(f.About, ", ") != 1) {
				t.Errorf("%+v", f)
			}
		}
	}
	for _, high := range []bool{false, true} {
		l := newLab(t)
		l.register("two.example", "party.facility", vetting.Scope{}, 1000*day)
		values := []string{"audited", "none"}
		if high {
			slices.Reverse(values)
		}
		l.at = now - 80*day
		l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: values[0]})
		l.at = now
		l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: values[1]})
		for at, want := range map[canon.Time]string{now + 90*day - 1: vetting.CodeDiscrepancy, now + 90*day: vetting.StatusValid} {
			if s := l.Stand(place, nil, observed(at), vetting.Defaults(), at); status(s, site, "party.facility") != want {
				t.Errorf("high last %v, at %s: %s", high, at, status(s, site, "party.facility"))
			}
		}
	}
}

// What ends by itself, what goes on, and who is told.
func TestWhatEndsAndWhoIsTold(t *testing.T) {
	f := certified(t, claim.TierAttested)
	f.do(now+1, vetting.Act{Act: vetting.ActFreeze, By: "user:a"})
	f.do(now+1, vetting.Act{Act: vetting.ActFreeze, By: "user:b"})
	f.days(1, 14)
	f.want(vetting.Suspended, vetting.FindingFrozen, claim.TierAttested)
	f.weigh(now + 14*day + 1)
	f.want(vetting.Certified, vetting.ReasonCleared, claim.TierAttested)
	if len(f.state.Clocks) != 0 {
		t.Errorf("%+v", f.state.Clocks)
	}
	// A tier that falls is told.
	f.weigh(now+15*day, func(o *vetting.Observed) { o.ContactHours = 24 })
	if n := notices(t, f.step.Drafts); len(n) != 1 || n[0].Notice != vetting.NoticeTier || n[0].About != "attested identified" {
		t.Errorf("%+v", n)
	}
	f.weigh(now+16*day-1, func(o *vetting.Observed) { o.ContactHours = 24 })
	if n := notices(t, f.step.Drafts); len(n) != 0 {
		t.Errorf("told again: %+v", n)
	}
	// Who is but anonymous goes on.
	g := certified(t, claim.TierAnonymous)
	g.days(1, 31)
	g.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAnonymous)
	// What nobody weighs is not weighed by another event.
	h := certified(t, claim.TierAttested)
	h.do(now+2*day, vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: now + 3*day, Until: now + 4*day}, Reason: "BIOS"})
	h.want(vetting.Suspended, vetting.FindingOverdue, claim.TierAttested)
	// More than there is room for.
	full := newLife(t)
	var many []vetting.Assertion
	for i := range vetting.MaxAssertions {
		many = append(many, vetting.Assertion{Subject: vetting.Subject{Kind: vetting.UnitDevice, ID: "amd-chip-id:" + strings.Repeat("0", 2) + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16])}, Attribute: "party.facility", Value: "bound"})
	}
	big := vetting.Place{Provider: "p1", Host: "host-1"}
	for _, a := range many {
		big.Devices = append(big.Devices, vetting.Device{ID: a.Subject.ID})
	}
	full.do(now, vetting.Act{Act: vetting.ActDraft, Place: big, Tier: claim.TierAttested, Assertions: many})
	if err := full.try(now, vetting.Act{Act: vetting.ActEdit, Assertions: ten[:1]}); err == nil || !strings.Contains(err.Error(), "65 assertions, at most 64") {
		t.Error(err)
	}
	full.do(now, vetting.Act{Act: vetting.ActEdit, Assertions: many[:1]})
}
