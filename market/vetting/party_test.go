package vetting_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

func decide(t testing.TB, name string, claims claim.Set, c vetting.Certificate) policy.Verdict {
	t.Helper()
	p, ok := policy.Builtin(name)
	if !ok {
		t.Fatal(name)
	}
	return policy.Decide(slices.Concat(claims, c.PartyClaims()), p, now)
}

// With what counts of the party a policy gives a full verdict; what does not count it never takes for affirmed.
func TestFullVerdict(t *testing.T) {
	claims := sound(true)
	for _, c := range []struct {
		name    string
		change  func(f *life)
		observe func(o *vetting.Observed)
		outcome policy.Outcome
		code    string
	}{
		{"a sound provider", nil, nil, policy.Accept, ""},
		{"one tier lower", nil, func(o *vetting.Observed) { o.ContactHours = 4 }, policy.Reject, "party.value"},
		{"no quorum of witnesses", nil, func(o *vetting.Observed) { o.Quorum = false }, policy.Undecided, "party.collateral-missing"},
		{"suspended, since a vendor does not answer", nil, finding(vetting.FindingCollateral), policy.Undecided, "party.suspended"},
		{"the law is taken back everywhere", func(f *life) {
			for _, s := range []vetting.Subject{host, site, provider} {
				f.say(vetting.Claim{Issuer: map[bool]string{true: "lei.example", false: "tuv.example"}[s == provider], Subject: s, Attribute: "party.jurisdiction", Value: "DE", Issued: now - 2, Expires: now - 1})
			}
		}, nil, policy.Undecided, "party.lapsed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := certified(t, claim.TierAttestedFacility)
			if c.change != nil {
				c.change(f)
			}
			if c.observe == nil {
				c.observe = func(*vetting.Observed) {}
			}
			f.weigh(now, c.observe)
			v := decide(t, "regulated", claims, f.state)
			if v.Outcome != c.outcome || v.Scope != policy.ScopeFull {
				t.Errorf("%s, scope %s: %+v", v.Outcome, v.Scope, v.Reasons)
			}
			for _, r := range v.Reasons {
				if r.Code != c.code {
					t.Errorf("reason %+v, want code %s", r, c.code)
				}
			}
		})
	}
}

// A policy that trusts some issuers trusts no tier of others'.
func TestTierRestsOnItsIssuers(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	for list, want := range map[string]policy.Outcome{"[iso.example, lei.example, tuv.example]": policy.Accept, "[lei.example, tuv.example]": policy.Undecided, "[lei.example]": policy.Undecided} {
		p := demand(t, "p", "issuers: "+list+"\nrequire: [{claim: party.tier, of: party, is: attested-facility}]")
		if v := policy.Decide(slices.Concat(sound(false), f.state.PartyClaims()), p, now); v.Outcome != want {
			t.Errorf("%s: %s %+v", list, v.Outcome, v.Reasons)
		}
	}
}

// And of each axis: the site's level by one issuer, the audit report by another.
func TestTierRestsOnEachWord(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	f.register("two.example", "party.facility", vetting.Scope{}, 100*day)
	for _, s := range []vetting.Subject{site, host} {
		f.say(vetting.Claim{Issuer: "two.example", Subject: s, Attribute: "party.facility", Value: "audited"})
		f.say(vetting.Claim{Issuer: "tuv.example", Subject: s, Attribute: "party.facility", Value: "audited", Expires: now + 1, Issued: now - 1})
	}
	f.weigh(now + 2)
	for list, want := range map[string]policy.Outcome{"[iso.example, lei.example, two.example]": policy.Accept, "[iso.example, lei.example, tuv.example]": policy.Undecided, "[lei.example, two.example]": policy.Undecided} {
		p := demand(t, "p", "issuers: "+list+"\nrequire: [{claim: party.tier, of: party, is: attested-facility}]")
		if v := policy.Decide(slices.Concat(sound(false), f.state.PartyClaims()), p, now+2); v.Outcome != want {
			t.Errorf("%s: %s %+v", list, v.Outcome, v.Reasons)
		}
	}
}

// What the appraisal shows becomes the hardware axis; each fault is found for what it is.
func TestReadHardware(t *testing.T) {
	p := vetting.Defaults()
	p.Exploited = []string{"INTEL-SA-00001"}
	gpu, cpuOnly := sound(true), sound(false)
	change := func(set claim.Set, id string, do func(*claim.Claim)) claim.Set {
		set = slices.Clone(set)
		found := false
		for i := range set {
			if set[i].ID == id {
				do(&set[i])
				found = true
			}
		}
		if !found {
			t.Fatalf("no claim %s", id)
		}
		set.Settle()
		return set
	}
	unknown := func(code string) func(*claim.Claim) {
		return func(c *claim.Claim) { c.Status, c.Reason = claim.Unknown, claim.Because(code, "test") }
	}
	wrong := func(code string) func(*claim.Claim) {
		return func(c *claim.Claim) { c.Status, c.Reason = claim.Contradicted, claim.Because(code, "test") }
	}
	for _, c := range []struct {
		name  string
		set   claim.Set
		level string
		code  string
	}{
		{"a confidential GPU", gpu, vetting.HardwareGPU, ""},
		{"a confidential CPU", cpuOnly, vetting.HardwareCPU, ""},
		{"nothing", nil, vetting.HardwareNone, ""},
		{"an old TCB", change(cpuOnly, "sevsnp.tcb", func(c *claim.Claim) { c.Value = "bl=0 tee=0 snp=0 ucode=0" }), vetting.HardwareCPU, vetting.FindingTCB},
		{"no manifest of the VBIOS", change(gpu, "nvidia.vbios-rim", unknown(claim.CollateralMissing)), vetting.HardwareGPU, vetting.FindingRIM},
		{"a revocation list that is not there", change(cpuOnly, "sevsnp.revocation", unknown(claim.CollateralMissing)), vetting.HardwareCPU, vetting.FindingCollateral},
		{"a certificate on hold", change(gpu, "nvidia.revocation", wrong("certificate-hold")), vetting.HardwareGPU, vetting.FindingHold},
		{"a certificate revoked", change(cpuOnly, "sevsnp.revocation", wrong("revoked")), vetting.HardwareNone, vetting.FindingVendor},
		{"a forged chain", change(cpuOnly, "sevsnp.chain", wrong(claim.Mismatch)), vetting.HardwareNone, vetting.FindingChain},
		{"debug on", change(cpuOnly, "sevsnp.debug-off", wrong("enabled")), vetting.HardwareNone, vetting.FindingDebug},
		{"another guest", change(cpuOnly, "guest.measured", wrong(claim.NotListed)), vetting.HardwareCPU, vetting.FindingMismatch},
		{"a device of another host", change(cpuOnly, "set.device-unique", unknown(claim.Contested)), vetting.HardwareCPU, vetting.FindingContested},
		{"a GPU that is none, beside a confidential CPU", change(gpu, "nvidia.chain", wrong(claim.Mismatch)), vetting.HardwareCPU, vetting.FindingChain},
		{"a GPU that was revoked", change(gpu, "nvidia.revocation", wrong("revoked")), vetting.HardwareCPU, vetting.FindingVendor},
		{"a GPU that nobody calls confidential", change(gpu, "nvidia.devtools-off", wrong("enabled")), vetting.HardwareCPU, ""},
		{"no reference for the guest", change(cpuOnly, "guest.measured", unknown(claim.NoReference)), vetting.HardwareNone, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := vetting.ReadHardware(c.set, now, p)
			var codes []string
			for _, f := range h.Findings {
				codes = append(codes, f.Code)
				if strings.Count(f.About, "@") != 1+strings.Count(f.About, ", ") {
					t.Errorf("%s is about %q", f.Code, f.About)
				}
			}
			if h.Level != c.level || c.code != "" && !slices.Equal(codes, []string{c.code}) || c.code == "" && codes != nil && len(codes) > 0 {
				t.Errorf("%s %v, want %s %s", h.Level, codes, c.level, c.code)
			}
		})
	}
}

// What is renewed keeps hosts eligible; what a recovery day does to whom.
func TestPreviews(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	_, said := vouched(t)
	claims := sound(true)
	var hosts []vetting.Candidate
	for i := range 41 {
		c := f.state
		c.Place.Host = "host-1"
		if i > 0 { // other hosts at the site, of which nothing is said themselves
			c.Place.Host, c.Place.Devices, c.Assertions = "host-"+string(rune('A'+i)), []vetting.Device{{ID: cpu.ID, Model: "genoa"}}, nil
		}
		hosts = append(hosts, vetting.Candidate{Certificate: c, Claims: claims, Observed: observed(now)})
	}
	facility := func(s vetting.Standing) bool { return s.Tier == claim.TierAttestedFacility }
	audit := said[ten[4]]
	if kept := f.Keeps(audit, hosts, vetting.Defaults(), now, facility); len(kept) != 40 { // host-1 has a report of its own
		t.Errorf("the report keeps %d hosts eligible", len(kept))
	}
	if kept := f.Keeps(said[ten[9]], hosts, vetting.Defaults(), now, facility); len(kept) != 41 {
		t.Errorf("the entity keeps %d hosts eligible", len(kept))
	}
	if kept := f.Keeps(said[ten[6]], hosts, vetting.Defaults(), now, facility); kept != nil {
		t.Errorf("the domain keeps %v", kept)
	}
	lenient := demand(t, "lenient", "require: [{claim: party.tier, of: party, in: [attested, attested-facility]}]")
	never := demand(t, "never", "require: [{claim: party.jurisdiction, of: party, is: FR}]")
	strict, _ := policy.Builtin("regulated")
	date := now + 20*day
	for _, exploited := range []bool{false, true} {
		falls := vetting.Recover(vetting.Recovery{Date: date, Model: "genoa", Exploited: exploited}, hosts[:2], []*policy.Policy{strict, lenient, never}, vetting.Defaults(), now)
		over := date + 30*day
		if exploited {
			over = date + 7*day
		}
		if len(falls) != 2 {
			t.Fatalf("%+v", falls)
		}
		for _, x := range falls {
			if x.From != date || x.Falls != over || x.Tier != claim.TierAttestedFacility || x.Left != claim.TierIdentified ||
				!slices.Equal(x.Stops, []vetting.Stop{{Policy: "regulated", At: date}, {Policy: "lenient", At: over}}) {
				t.Errorf("%+v", x)
			}
		}
	}
	if falls := vetting.Recover(vetting.Recovery{Date: date, Model: "turin"}, hosts, nil, vetting.Defaults(), now); falls != nil {
		t.Errorf("another generation falls: %d", len(falls))
	}
}

// BenchmarkReassess weighs 10,000 certificates anew: the figure is that of all of them.
func BenchmarkReassess(b *testing.B) {
	l, _ := vouched(b)
	hosts := make([]vetting.Candidate, 10_000)
	for i := range hosts {
		p := place
		p.Host = "host-1"
		hosts[i] = vetting.Candidate{Certificate: vetting.Certificate{Place: p, Assertions: ten}, Observed: observed(now)}
	}
	for b.Loop() {
		for _, s := range l.Reassess(hosts, vetting.Defaults(), now) {
			if s.Tier != claim.TierAttestedFacility {
				b.Fatal(s.Tier)
			}
		}
	}
}

// BenchmarkCertify applies an assessment with ten attributes to a certificate.
func BenchmarkCertify(b *testing.B) {
	f := certified(b, claim.TierAttestedFacility)
	body, err := canon.Marshal(vetting.Act{Type: vetting.ActType, Certificate: "c-1", Act: vetting.ActAssess, Standing: f.standing(now + 1)})
	if err != nil {
		b.Fatal(err)
	}
	e := event("certificate/v1", "provider:p1", now+1, body)
	for b.Loop() {
		if _, err := f.Certify(f.state, e); err != nil {
			b.Fatal(err)
		}
	}
}

// A device that as many hosts contest as can be named is no news of one more.
func TestNoNewsOfOneTooMany(t *testing.T) {
	d := vetting.DeviceState{Device: cpu.ID, Status: vetting.Contested, Holder: vetting.Holder{Provider: "p1", Host: "host-1"}, Updated: now, Deadline: now + day}
	for range vetting.MaxChallenger {
		if !d.WorthLogging("host-x", false, now) {
			t.Errorf("with %d who contest it, one more is news", len(d.Challengers))
		}
		d.Challengers = append(d.Challengers, vetting.Holder{Provider: "p2", Host: "host-" + string(rune('a'+len(d.Challengers)))})
	}
	if d.WorthLogging("host-x", false, now) {
		t.Error("one too many is worth an event, which no state takes")
	}
}
