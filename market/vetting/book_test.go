package vetting_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// TestBook folds a log in which a certificate is given: each entry must be what the ones before it make of it.
func TestBook(t *testing.T) {
	l, _ := vouched(t)
	o := observed(now)
	entry := func(v any, refs ...canon.Digest) ledger.Event {
		t.Helper()
		b, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		e := event(ledger.KindCertificate, "provider:p1", now, b)
		e.Entry.Refs = append([]canon.Digest{}, refs...)
		return e
	}
	act := func(a vetting.Act, refs ...canon.Digest) ledger.Event {
		a.Type, a.Certificate = vetting.ActType, "c-1"
		return entry(a, refs...)
	}
	standing := l.Stand(place, ten, o, vetting.Defaults(), now)
	other := standing
	other.Tier = claim.TierAttested
	seen := entry(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: now, Observed: o})
	pass := vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: standing}
	notice := func(about string, due canon.Time) ledger.Event {
		return entry(vetting.Notice{Type: vetting.NoticeType, Notice: vetting.NoticeState, Certificate: "c-1", About: about, At: now, Due: due})
	}
	log := []ledger.Event{
		entry(vetting.Facts{Type: vetting.FactsType, Provider: "p1", Stake: true, ContactHours: 1}),
		act(vetting.Act{Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAttested, Assertions: ten}),
		act(vetting.Act{Act: vetting.ActSubmit, By: "user:olga"}),
		notice("draft submitted submitted", now+14*day),
		act(vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"}),
		notice("submitted in-review assigned", now+14*day),
		seen,
		act(pass, seen.Entry.Body),
		notice("in-review certified passed", 0),
	}
	forged := pass
	forged.Standing = other
	o2 := o
	o2.ContactHours = 4
	o3 := o
	o3.Contested = []string{cpu.ID}
	for _, tc := range []struct {
		name string
		at   int          // entry that is exchanged
		by   ledger.Event // zero: left out
		want string
	}{
		{name: "as it should be", at: -1},
		{"a notice left out", 3, ledger.Event{}, "entry 2 must be followed by certificate/v1"},
		{"another notice", 3, notice("draft submitted because", 0), "no event calls for it"},
		{"another standing than the claims give", 7, act(forged, seen.Entry.Body), "differs: standing logged with tier attested, recomputed attested-facility"},
		{"a standing on nothing", 7, act(pass), "does not rest on what was observed last"},
		{"an observation of another time", 6, entry(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: now - 1, Observed: o}), "observed 2026-"},
		{"another contact than was found out", 6, entry(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: now, Observed: o2}), "observed otherwise of the provider"},
		{"a device that nobody contests", 6, entry(vetting.Observation{Type: vetting.ObservationType, Certificate: "c-1", At: now, Observed: o3}), "as contested, the entries before say []"},
		{"facts in another's stream", 0, func() ledger.Event {
			e := entry(vetting.Facts{Type: vetting.FactsType, Provider: "p1"})
			e.Entry.Stream = "provider:p2"
			return e
		}(), "want \"provider:p1\""},
		{"a host's second certificate", 8, func() ledger.Event {
			return entry(vetting.Act{Type: vetting.ActType, Certificate: "c-2", Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.TierAttested})
		}(), "host host-1 has certificate c-1"},
		{"another type", 0, entry(vetting.Facts{Type: "assay/badge/v1"}), "is not known to this build"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := vetting.NewBook(results{}, vetting.Known{})
			b.Registry = l.Registry
			var errs []string
			for i, e := range log {
				if i == tc.at {
					if e = tc.by; e.Body == nil {
						continue
					}
				}
				if err := b.Add(int64(i), canon.Digest{1}, e); err != nil {
					errs = append(errs, err.Error())
				}
			}
			got := strings.Join(errs, "; ")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if c, _ := b.Certificate("c-1"); tc.want == "" && (c.Tier != claim.TierAttested || b.Owes()) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestPartyBefore: what a host's certificate says of the party holds from an entry on, until the next one.
func TestPartyBefore(t *testing.T) {
	b := vetting.NewBook(results{}, vetting.Known{})
	at := func(i int64, a vetting.Act) {
		t.Helper()
		a.Type, a.By = vetting.ActType, "user:olga"
		body, err := canon.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Add(i, canon.Digest{1}, event(ledger.KindCertificate, "provider:p1", now, body)); err != nil && b.Owes() {
			t.Fatal(err)
		}
	}
	at(5, vetting.Act{Act: vetting.ActDraft, Certificate: "c-1", Place: place, Tier: claim.TierAttested})
	at(9, vetting.Act{Act: vetting.ActEnd, Certificate: "c-1"})
	at(20, vetting.Act{Act: vetting.ActDraft, Certificate: "c-2", Place: place, Tier: claim.TierAttested})
	if _, ok := b.PartyBefore("host-1", 5); ok {
		t.Error("a certificate before it was drafted")
	}
	first, _ := b.PartyBefore("host-1", 6)
	ended, _ := b.PartyBefore("host-1", 20)
	second, ok := b.PartyBefore("host-1", 21)
	if !ok || first == ended || second == ended || second == first {
		t.Errorf("%s %s %s", first, ended, second)
	}
	if _, ok := b.PartyBefore("host-2", 30); ok {
		t.Error("another host's")
	}
}

func TestIssuersOfATime(t *testing.T) {
	l := newLab(t)
	l.at = now
	l.register("new.example", "party.facility", vetting.Scope{Countries: []string{"DE"}}, 10*day)
	names := func(at canon.Time) (out []string) {
		for _, i := range l.Issuers(at) {
			out = append(out, i.ID)
		}
		return out
	}
	if got := names(now); !slices.Equal(got, []string{"iso.example", "lei.example", "new.example", "tuv.example"}) {
		t.Error(got)
	}
	if got := names(now - 1); !slices.Equal(got, []string{"iso.example", "lei.example", "tuv.example"}) {
		t.Error(got)
	}
	if got := names(now + 10*day); !slices.Equal(got, []string{"iso.example", "lei.example", "tuv.example"}) {
		t.Error(got)
	}
	l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "lei.example"}, Since: now})
	if got := names(now); !slices.Equal(got, []string{"iso.example", "new.example", "tuv.example"}) {
		t.Error(got)
	}
}

// A registry of what concerns one place answers as the whole one does.
func TestPartOfARegistry(t *testing.T) {
	whole, _ := vouched(t)
	part, _ := vouched(t)
	for _, p := range []string{"p2", "p3"} {
		whole.say(vetting.Claim{Issuer: "lei.example", Subject: vetting.Subject{Kind: vetting.UnitProvider, ID: p}, Attribute: "party.identity", Value: "contact"})
	}
	a, _ := canon.Marshal(whole.stand(now))
	b, _ := canon.Marshal(part.stand(now))
	if string(a) != string(b) {
		t.Errorf("%s\n%s", a, b)
	}
}

// TestRandomDevices lives identities of devices through sightings in any order: there is one holder, whoever contests is another
// host, and time alone ends every life.
func TestRandomDevices(t *testing.T) {
	n := lives()
	var h vetting.History
	m := ledger.Machine[vetting.DeviceState](h.Hold)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		var step ledger.Step[vetting.DeviceState]
		var events []ledger.Event
		at := now
		apply := func(s vetting.Sighting) {
			s.Type, s.Device = vetting.SightingType, cpu.ID
			switch s.Event {
			case vetting.DeviceSeen:
				s.Evidence = canon.Sum(nil)
			case vetting.DeviceSettle:
				s.By, s.Evidence = "user:adam", canon.Sum(nil)
			case vetting.DeviceRelease:
				s.By = "user:olga"
			case vetting.DeviceDue:
				s.Host = ""
			}
			body, err := canon.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			e := event(ledger.KindCertificate, ledger.ProviderStream(s.Provider), at, body)
			next, err := m.Apply(step.State, e)
			if err != nil {
				return
			}
			before := step.State
			step, events = next, append(events, e)
			d := step.State
			if err := (vetting.CarriedItem{Device: &vetting.CarriedDevice{Last: canon.Digest{1}, State: d}}).Validate(); (err == nil) != (d.Status != vetting.Released) {
				t.Fatalf("seed %d: a log that goes on could not begin with this state, or with a released one: %v", seed, err)
			}
			switch {
			case d.Holder.Host == "" || d.ContestedBy(d.Holder.Host):
				t.Fatalf("seed %d: %+v", seed, d)
			case (d.Status == vetting.Contested) != (len(d.Challengers) > 0), step.Terminal() != (d.Status == vetting.Released):
				t.Fatalf("seed %d: %+v due %s", seed, d, step.Due)
			case s.Event == vetting.DeviceSeen && before.Status == vetting.Contested && before.Deadline > at && d.Holder != before.Holder:
				t.Fatalf("seed %d: a sighting took it from its holder: %+v, %+v", seed, before, d)
			}
		}
		for range 10 {
			at += canon.Time(r.IntN(40 * int(day)))
			p := fmt.Sprint("p", r.IntN(3))
			apply(vetting.Sighting{Event: []string{vetting.DeviceSeen, vetting.DeviceSeen, vetting.DeviceSettle, vetting.DeviceRelease, vetting.DeviceDue}[r.IntN(5)], Provider: p, Host: "host-" + p})
		}
		for i := 0; step.Status != "" && !step.Terminal(); i++ {
			if i == 5 {
				t.Fatalf("seed %d: %s goes on for ever", seed, step.Status)
			}
			at = max(at, step.Due)
			apply(vetting.Sighting{Event: vetting.DeviceDue, Provider: "p1"})
		}
		if again, err := m.Fold(vetting.DeviceState{}, events...); err != nil && len(events) > 0 || again.Status != step.Status || again.State.Holder != step.State.Holder {
			t.Fatalf("seed %d: folded anew %+v, %v", seed, again, err)
		}
	}
}

// Codes are one list, in one form: machines read them.
func TestCodesHaveOneForm(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, c := range vetting.Codes {
		if !form.MatchString(c.Code) || c.Means == "" {
			t.Errorf("code %+v", c)
		}
		if seen[c.Code] {
			t.Errorf("code %q twice", c.Code)
		}
		seen[c.Code] = true
	}
	if !slices.IsSortedFunc(vetting.Codes, func(a, b claim.Code) int { return strings.Compare(a.Code, b.Code) }) {
		t.Error("not in order")
	}
}

// TestGolden holds what this build makes of some lives to what it made of them before: another answer needs another number of
// rules, by which an auditor knows which build to ask.
func TestGolden(t *testing.T) {
	var lines []string
	note := func(name string, v any) {
		b, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s", canon.Sum(b), name))
	}
	lines = append(lines, fmt.Sprint("rules ", vetting.Rules))
	l, _ := vouched(t)
	note("standing", l.stand(now))
	note("standing-lapsed", l.stand(now+450*day))
	note("standing-measured", l.stand(now, func(o *vetting.Observed) {
		o.Hardware, o.Measured, o.MeasuredAt = vetting.Hardware{}, 812, now-day
	}))
	note("standing-silent", l.stand(now, answered(now-2*day)))
	note("standing-replaced", l.stand(now, func(o *vetting.Observed) { o.Shown = []string{cpu.ID, "nvidia-gh100:00bb"} }))
	l.say(vetting.Claim{Issuer: "lei.example", Subject: host, Attribute: "party.jurisdiction", Value: "FR"})
	note("standing-elsewhere", l.stand(now))
	note("parameters", vetting.Defaults())
	for _, code := range []string{vetting.FindingTCB, vetting.FindingHeartbeat, vetting.FindingMismatch, vetting.FindingDebug, vetting.FindingCollateral} {
		f := certified(t, claim.TierAttestedFacility)
		f.weigh(now+1, finding(code))
		note("certificate-"+code, f.state)
		note("claims-"+code, f.state.PartyClaims())
		if f.state.Live() {
			f.do(now+40*day, vetting.Act{Act: vetting.ActDue, Standing: f.standing(now+40*day, finding(code))})
			note("certificate-"+code+"-later", f.state)
		}
	}
	want, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lines, "\n") + "\n"; got != string(want) {
		t.Errorf("another answer than before; if it is meant, raise Rules and write testdata/golden.txt anew:\n%s", got)
	}
}
