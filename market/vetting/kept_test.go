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

// Rules that only one clock, one word or one state tells apart: each with the case that passes and its twin.

func due(f *life, code string) canon.Time {
	f.TB.Helper()
	for _, c := range f.state.Clocks {
		if c.Code == code {
			return c.Due
		}
	}
	f.TB.Fatalf("no clock of %s runs: %+v", code, f.state.Clocks)
	return 0
}

// A term that renews itself does so while a grace runs; whoever is hidden for a fault of its own has none.
func TestTermEndsInAGrace(t *testing.T) {
	for code, want := range map[string]string{vetting.FindingTCB: vetting.Certified, vetting.FindingHeartbeat: vetting.Lapsed} {
		f := certified(t, claim.TierAttested)
		f.days(1, 89)
		f.weigh(now+90*day-1, finding(code))
		f.do(now+90*day, vetting.Act{Act: vetting.ActDue})
		if f.state.Status != want {
			t.Errorf("%s: %s (%s), want %s", code, f.state.Status, f.state.Reason, want)
		}
	}
}

// What is left of a grace is that fault's alone: another fault has all of its own, save that firmware out of date which is
// found to be attacked is the same fault.
func TestGraceIsSpentByItsFaultAlone(t *testing.T) {
	for _, c := range []struct {
		spent, then string
		days        int
		left        canon.Time // 0: what of the grace was not spent
	}{
		{vetting.FindingTCB, vetting.FindingRIM, 25, 14 * day},
		{vetting.FindingRIM, vetting.FindingExploited, 10, 7 * day},
		{vetting.FindingTCB, vetting.FindingTCB, 25, 0},
		{vetting.FindingTCB, vetting.FindingExploited, 25, 0},
	} {
		f := certified(t, claim.TierAttestedFacility)
		f.days(1, c.days, finding(c.spent))
		ends := due(f, c.spent)
		mended := now + canon.Time(c.days)*day
		f.weigh(mended)
		f.weigh(mended+hour, finding(c.then))
		want := mended + hour + c.left
		if c.left == 0 {
			want = ends + hour // it did not run for an hour
		}
		if got := due(f, c.then); got != want {
			t.Errorf("%s after %d days of %s: until %s, want %s", c.then, c.days, c.spent, got, want)
		}
	}
}

// A clock that is over ends no other.
func TestOneClockIsOver(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	both := []func(*vetting.Observed){finding(vetting.FindingRIM), finding(vetting.FindingTCB)}
	f.days(1, 15, both...)
	f.weigh(now+15*day, both...)
	f.want(vetting.Certified, vetting.ReasonAssessed, claim.TierIdentified)
	for _, c := range f.state.Clocks {
		if c.Over != (c.Code == vetting.FindingRIM) {
			t.Errorf("%+v", c)
		}
	}
}

// Two faults that hide at once hide: what the second one would come to, it comes to at its own end.
func TestTwoFaultsHide(t *testing.T) {
	for _, code := range []string{vetting.FindingMismatch, vetting.FindingHeartbeat, vetting.FindingHold} {
		f := certified(t, claim.TierAttestedFacility)
		f.weigh(now+1, finding(vetting.FindingCollateral), finding(code))
		if f.state.Status != vetting.Suspended || len(f.state.Clocks) != 2 || f.state.Tier != claim.TierAttestedFacility {
			t.Errorf("%s: %s (%s), tier %q, clocks %+v", code, f.state.Status, f.state.Reason, f.state.Tier, f.state.Clocks)
		}
	}
}

// Grace is for who stands: a renewal is given while a clock runs, a first certificate is not.
func TestPassedInAGrace(t *testing.T) {
	f := certified(t, claim.TierAttested)
	f.weigh(now+1, finding(vetting.FindingTCB))
	if f.try(now+2, vetting.Act{Act: vetting.ActRenew, Tier: "2"}) == nil {
		t.Error("a tier by number was asked for")
	}
	f.do(now+2, vetting.Act{Act: vetting.ActRenew, Tier: claim.TierAttested})
	f.do(now+3, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	f.do(now+4, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now+4, finding(vetting.FindingTCB))})
	f.want(vetting.Certified, vetting.ReasonRenewed, claim.TierAttested)

	g := newLife(t)
	g.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten[:9]})
	g.do(now, vetting.Act{Act: vetting.ActSubmit})
	g.do(now, vetting.Act{Act: vetting.ActEdit, Assertions: ten[9:]}) // who waits for a reviewer can still put it right
	g.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	if err := g.try(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: g.standing(now, finding(vetting.FindingTCB))}); err == nil || !strings.Contains(err.Error(), vetting.FindingTCB) {
		t.Error(err)
	}
	g.do(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: g.standing(now)})
	g.do(now+1, vetting.Act{Act: vetting.ActEnd})
	if g.try(now+2, vetting.Act{Act: vetting.ActEdit, Assertions: ten[:1]}) == nil {
		t.Error("what has ended was edited")
	}
}

// What an appeal has overruled stays overruled as long as it is the same; anything else that is found counts.
func TestOverruledUntilItIsAnother(t *testing.T) {
	for code, want := range map[string]string{vetting.FindingDebug: vetting.Certified, vetting.FindingChain: vetting.Revoked} {
		f := certified(t, claim.TierAttestedFacility)
		f.weigh(now+1, finding(vetting.FindingDebug))
		f.want(vetting.Revoked, vetting.FindingDebug, "")
		f.do(now+2, vetting.Act{Act: vetting.ActAppeal, Evidence: canon.Sum(nil)})
		f.do(now+3, vetting.Act{Act: vetting.ActTriage, By: "user:adam", Reviewer: "user:ruth"})
		f.do(now+4, vetting.Act{Act: vetting.ActRule, By: "user:ruth", Reason: "it is a false alarm"})
		f.want(vetting.Certified, vetting.ReasonOverturned, claim.TierAttestedFacility)
		f.weigh(now+5, finding(code))
		if f.state.Status != want {
			t.Errorf("%s: %s (%s), want %s", code, f.state.Status, f.state.Reason, want)
		}
	}
}

// A certificate remembers so many windows and no more.
func TestWindowsAreBounded(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	next := func(n int) vetting.Act {
		at := now + hour*canon.Time(n)
		return vetting.Act{Act: vetting.ActWindow, Window: vetting.Window{From: at, Until: at + 60}, Reason: "firmware"}
	}
	for n := 1; n <= vetting.MaxWindows; n++ {
		f.do(now, next(n))
	}
	if err := f.try(now, next(vetting.MaxWindows+1)); err == nil || !strings.Contains(err.Error(), "windows are announced") {
		t.Error(err)
	}
}

// Of words whose end comes near those that count are told of, once each.
func TestEndsOfWordsThatCount(t *testing.T) {
	ends := func(revoked bool) (about []string) {
		f := newLife(t)
		f.lab.register("zz.example", "party.domain", vetting.Scope{}, 1000*day)
		said := f.lab.say(vetting.Claim{Issuer: "zz.example", Subject: provider, Attribute: "party.domain", Value: "p1.example", Expires: now + 40*day})
		if revoked {
			f.lab.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: said.String()}})
		}
		f.do(now-1, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten})
		f.do(now-1, vetting.Act{Act: vetting.ActSubmit})
		f.do(now-1, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
		f.do(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)})
		for d := canon.Time(1); d <= 11; d++ {
			f.weigh(now + d*day)
			for _, draft := range f.step.Drafts {
				var n vetting.Notice
				if err := canon.Unmarshal(draft.Body, &n); err == nil && n.Notice == vetting.NoticeEnds {
					about = append(about, n.About)
				}
			}
		}
		return about
	}
	if got := ends(false); !slices.Equal(got, []string{"provider:p1 party.domain zz.example"}) {
		t.Errorf("told of %q", got)
	}
	if got := ends(true); len(got) != 0 {
		t.Errorf("of a word that was taken back: told of %q", got)
	}
}

// attribute returns the attribute of a standing.
func attribute(t *testing.T, s vetting.Standing, of vetting.Subject, id string) vetting.Attribute {
	t.Helper()
	for _, a := range s.Attributes {
		if a.Subject == of && a.ID == id {
			return a
		}
	}
	t.Fatalf("no %s of %s", id, of)
	return vetting.Attribute{}
}

// Where no word counts the status names what the provider, or two auditors, can mend, whatever else is wrong with another word.
func TestStatusNamesWhatCanBeMended(t *testing.T) {
	foreign := func(l *lab, of vetting.Subject, attribute, value string) { // an issuer that sorts last and may not speak of it
		l.register("zz.example", "party.legal-entity", vetting.Scope{}, 1000*day)
		l.say(vetting.Claim{Issuer: "zz.example", Subject: of, Attribute: attribute, Value: value})
	}
	l, _ := vouched(t)
	foreign(l, provider, "party.domain", "p1.example")
	moved := slices.Clone(ten)
	moved[6].Value = "q1.example"
	s := l.Stand(place, moved, observed(now), vetting.Defaults(), now)
	if got := status(s, provider, "party.domain"); got != vetting.CodePending {
		t.Errorf("domain: %s", got)
	}
	l, _ = vouched(t)
	foreign(l, site, "party.facility", "audited")
	l.register("b.example", "party.facility", vetting.Scope{}, 1000*day)
	l.say(vetting.Claim{Issuer: "b.example", Subject: site, Attribute: "party.facility", Value: "none"})
	if got := status(l.stand(now), site, "party.facility"); got != vetting.CodeDiscrepancy {
		t.Errorf("facility: %s", got)
	}
	l, _ = vouched(t)
	l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "lei.example"}, Since: now - 200*day})
	if got := status(l.stand(now), provider, "party.domain"); got != vetting.CodeIssuerGone {
		t.Errorf("neither: %s", got)
	}
}

// Of neighbouring levels the lower one counts, in whichever order issuers stand; of what has no level, issuers agree or are in
// conflict.
func TestSeveralIssuers(t *testing.T) {
	for _, other := range []string{"a.example", "z.example"} {
		for value, want := range map[string]string{"bound": "bound", "audited": "audited"} {
			l, _ := vouched(t)
			l.register(other, "party.domain party.facility", vetting.Scope{}, 1000*day)
			l.say(vetting.Claim{Issuer: other, Subject: site, Attribute: "party.facility", Value: value})
			l.say(vetting.Claim{Issuer: other, Subject: provider, Attribute: "party.domain", Value: "p1.example"})
			s := l.Stand(place, nil, observed(now), vetting.Defaults(), now)
			if a := attribute(t, s, site, "party.facility"); a.Value != want || a.Status != vetting.StatusValid {
				t.Errorf("%s says %s: %s (%s)", other, value, a.Value, a.Status)
			}
			if a := attribute(t, s, provider, "party.domain"); a.Value != "p1.example" || a.Status != vetting.StatusValid {
				t.Errorf("two say one domain: %s (%s)", a.Value, a.Status)
			}
			l.say(vetting.Claim{Issuer: other, Subject: provider, Attribute: "party.domain", Value: "other.example"})
			if a := attribute(t, l.Stand(place, nil, observed(now), vetting.Defaults(), now), provider, "party.domain"); a.Value != "" || a.Status != vetting.CodeConflict {
				t.Errorf("two domains: %s (%s)", a.Value, a.Status)
			}
		}
	}
	// When two who were apart have been so for their time, all who say the lower level count, and who says more does not.
	l, _ := vouched(t)
	for _, one := range []string{"b.example", "c.example"} {
		l.register(one, "party.facility", vetting.Scope{}, 1000*day)
		l.say(vetting.Claim{Issuer: one, Subject: site, Attribute: "party.facility", Value: "witnessed"})
	}
	for at, want := range map[canon.Time][]string{now + 90*day - 1: {vetting.CodeDiscrepancy, vetting.CodeDiscrepancy, vetting.CodeDiscrepancy}, now + 90*day: {"", "", vetting.CodeDiscrepancy}} {
		var codes []string
		for _, w := range attribute(t, l.stand(at), site, "party.facility").Words {
			codes = append(codes, w.Code)
		}
		if !slices.Equal(codes, want) {
			t.Errorf("at %s: %q, want %q", at, codes, want)
		}
	}
}

// What policies read of one issuer's words about several parts: what counts before what does not, the highest level, and of
// what has no level the smallest part.
func TestPartyClaimsOfSeveralParts(t *testing.T) {
	for _, c := range []struct {
		name    string
		revoked vetting.Assertion
		id      string
		want    string
	}{
		{"both count", vetting.Assertion{}, "party.facility", "audited"},
		{"the site's word is gone", ten[3], "party.facility", "bound"},
		{"the host's word is gone", ten[0], "party.facility", "audited"},
		{"the host's law", vetting.Assertion{}, "party.jurisdiction", "DE"},
	} {
		l, said := vouched(t)
		if d, ok := said[c.revoked]; ok {
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: d.String()}})
		}
		// The provider's own seat is elsewhere: what holds there is not in conflict with what holds for the host.
		l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.jurisdiction", Value: "FR"})
		s := l.Stand(place, nil, observed(now), vetting.Defaults(), now)
		set := vetting.Certificate{Status: vetting.Certified, Tier: claim.TierAttested, Expires: now + day, Place: place, Standing: s}.PartyClaims()
		var got []string
		for _, x := range set {
			if x.ID == c.id && x.Status == claim.Affirmed {
				got = append(got, x.Issuer+" "+x.Value)
			}
		}
		if !slices.Equal(got, []string{"tuv.example " + c.want}) {
			t.Errorf("%s: %q, want %s", c.name, got, c.want)
		}
	}
	// Without a record nothing is said of it, and without a stake there is no tier.
	l, _ := vouched(t)
	for _, stake := range []bool{true, false} {
		s := l.stand(now, func(o *vetting.Observed) { o.Record, o.Stake = vetting.Record{}, stake })
		set := vetting.Certificate{Status: vetting.Certified, Tier: s.Tier, Expires: now + day, Place: place, Standing: s}.PartyClaims()
		if set.Find("party.record-uptime", claim.SubjectParty) != nil || set.Find("party.record-completion", claim.SubjectParty) != nil {
			t.Error("a record of no days, or of no leases, is told")
		}
		if tier := set.Find("party.tier", claim.SubjectParty); has(s, vetting.FindingNoTier) == stake || (tier.Status == claim.Affirmed) != stake {
			t.Errorf("stake %v: %+v, findings %+v", stake, tier, s.Findings)
		}
	}
}

// Why an issuer's word does not count when its term is over: it could have said that, or it never could.
func TestTermOfAnIssuer(t *testing.T) {
	for _, c := range []struct {
		name, attribute, value, may string
		scope                       vetting.Scope
		after                       canon.Time
		want                        string
	}{
		{"in its term", "party.domain", "p1.example", "party.domain", vetting.Scope{}, 9 * day, ""},
		{"after its term", "party.domain", "p1.example", "party.domain", vetting.Scope{}, 11 * day, vetting.CodeIssuerLapsed},
		{"after its term, of what it never might", "party.domain", "p1.example", "party.jurisdiction", vetting.Scope{}, 11 * day, vetting.CodeForeignScope},
		{"after its term, of where it never might", "party.jurisdiction", "DE", "party.jurisdiction", vetting.Scope{Countries: []string{"FR"}}, 11 * day, vetting.CodeForeignScope},
		{"after its term, of where it might", "party.jurisdiction", "DE", "party.jurisdiction", vetting.Scope{Countries: []string{"DE"}}, 11 * day, vetting.CodeIssuerLapsed},
	} {
		l, _ := vouched(t)
		of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "zz.example"}
		l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("zz.example").value(l)})
		l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: c.may, Scope: c.scope, Expires: now + 10*day})
		l.at = now + c.after
		l.say(vetting.Claim{Issuer: "zz.example", Subject: provider, Attribute: c.attribute, Value: c.value})
		code := "none"
		for _, w := range attribute(t, l.stand(l.at), provider, c.attribute).Words {
			if w.Issuer == "zz.example" {
				code = w.Code
			}
		}
		if code != c.want {
			t.Errorf("%s: %q, want %q", c.name, code, c.want)
		}
	}
	// An issuer for some sites speaks of those.
	for _, where := range []string{"fra1", "par1"} {
		l, _ := vouched(t)
		l.register("zz.example", "party.facility", vetting.Scope{Sites: []string{where}}, 1000*day)
		l.say(vetting.Claim{Issuer: "zz.example", Subject: site, Attribute: "party.facility", Value: "audited"})
		words := attribute(t, l.stand(now), site, "party.facility").Words
		if counts := words[len(words)-1].Code == ""; counts != (where == "fra1") {
			t.Errorf("an issuer for %s: %+v", where, words)
		}
	}
}

// A claim that names the one it replaces replaces it, also where it holds elsewhere; one that names none replaces those of its
// own scope.
func TestSupersedesAnotherScope(t *testing.T) {
	for _, names := range []bool{true, false} {
		l, said := vouched(t)
		next := vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.domain", Value: "q1.example", Scope: vetting.Scope{Countries: []string{"DE"}}}
		if names {
			next.Supersedes = said[ten[6]]
		}
		l.say(next)
		words := attribute(t, l.stand(now), provider, "party.domain").Words
		if (len(words) == 1) != names {
			t.Errorf("names the one before %v: %+v", names, words)
		}
		if _, err := l.Find(said[ten[6]]); err != nil {
			t.Error(err)
		}
	}
	l, _ := vouched(t)
	if _, err := l.Find(canon.Sum([]byte("nothing"))); err == nil {
		t.Error("a claim that nobody made was found")
	}
}

// A device that nobody showed for its time is nobody's: whoever shows it then begins anew, and its holder of before goes on.
func TestDeviceUnseenForItsTime(t *testing.T) {
	var h vetting.History
	see := func(d vetting.DeviceState, at canon.Time, provider, host string) vetting.DeviceState {
		t.Helper()
		body, err := canon.Marshal(vetting.Sighting{Type: vetting.SightingType, Device: cpu.ID, Event: vetting.DeviceSeen, Provider: provider, Host: host, Evidence: canon.Sum(nil)})
		if err != nil {
			t.Fatal(err)
		}
		step, err := h.Hold(d, event(ledger.KindCertificate, ledger.ProviderStream(provider), at, body))
		if err != nil {
			t.Fatal(err)
		}
		return step.State
	}
	first := see(vetting.DeviceState{}, now, "p1", "host-1")
	if d := see(first, first.Deadline-1, "p2", "host-2"); d.Status != vetting.Contested || d.Holder.Host != "host-1" {
		t.Errorf("within its time: %+v", d)
	} else {
		mine, theirs := d.Of("p1"), d.Of("p2")
		if mine.Holder.Host != "host-1" || mine.Challengers[0].Host != "" || theirs.Holder.Host != "" || theirs.Challengers[0].Host != "host-2" {
			t.Errorf("p1 is told %+v, p2 %+v", mine, theirs)
		}
	}
	if d := see(first, first.Deadline, "p2", "host-2"); d.Status != vetting.Held || d.Holder.Host != "host-2" || d.Holder.Since != first.Deadline {
		t.Errorf("after its time, another host: %+v", d)
	}
	if d := see(first, first.Deadline, "p1", "host-1"); d.Status != vetting.Held || d.Holder.Since != now {
		t.Errorf("after its time, its own host: %+v", d)
	}
}
