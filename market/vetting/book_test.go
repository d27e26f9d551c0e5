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

// A book folds all entries; notices are owed until they stand in the log.
func TestBook(t *testing.T) {
	b := vetting.NewBook(results{})
	f := certified(t, claim.TierAttestedFacility)
	f.weigh(now+1, finding(vetting.FindingTCB))
	owed := 0
	for _, e := range f.events {
		a, err := b.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		owed += len(a.Drafts)
		if a.Certificate != "c-1" || a.Status == "" {
			t.Errorf("%+v", a)
		}
		if b.Owed() != owed {
			t.Errorf("owed %d, want %d", b.Owed(), owed)
		}
		for _, d := range a.Drafts {
			n := event(d.Kind, d.Stream, e.Entry.Time, d.Body)
			if n.Entry.Stream = "provider:p2"; true {
				if _, err := b.Apply(n); err == nil {
					t.Error("a notice to another was taken")
				}
			}
			n.Entry.Stream = d.Stream
			if _, err := b.Apply(n); err != nil {
				t.Error(err)
			}
			if _, err := b.Apply(n); err == nil {
				t.Error("a notice was taken twice")
			}
			owed--
		}
	}
	one, _ := b.Certificates["c-1"].Canonical()
	two, _ := f.state.Canonical()
	if string(one) != string(two) || owed != 0 {
		t.Error("the book has another state")
	}
	sighting := func(event2 string, host string) ledger.Event {
		s := vetting.Sighting{Type: vetting.SightingType, Device: cpu.ID, Event: event2, Provider: "p1", Host: host}
		if event2 == vetting.DeviceSeen {
			s.Evidence = canon.Sum(nil)
		} else {
			s.By = "user:olga"
		}
		body, err := canon.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return event(ledger.KindCertificate, "provider:p1", now, body)
	}
	for i, e := range []ledger.Event{sighting(vetting.DeviceSeen, "host-1"), sighting(vetting.DeviceRelease, "host-1"), sighting(vetting.DeviceSeen, "host-2")} {
		if a, err := b.Apply(e); err != nil || a.Device != cpu.ID {
			t.Errorf("event %d: %+v %v", i, a, err)
		}
	}
	if b.Devices[cpu.ID].Holder.Host != "host-2" {
		t.Errorf("%+v", b.Devices[cpu.ID])
	}
	for name, e := range map[string]ledger.Event{
		"another kind": event(ledger.KindVerdict, ledger.StreamVerifier, now, nil),
		"no document":  event(ledger.KindCertificate, "provider:p1", now, []byte("{")),
		"another type": event(ledger.KindCertificate, "provider:p1", now, []byte(`{"type":"assay/badge/v1"}`)),
		"no envelope":  event(ledger.KindClaim, "issuer:x", now, []byte("{}")),
		"no rules":     event(ledger.KindRules, ledger.StreamServer, now, []byte("{}")),
	} {
		if _, err := b.Apply(e); err == nil {
			t.Errorf("%s: taken", name)
		}
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
	if got := names(now); !slices.Equal(got, []string{"lei.example", "new.example", "tuv.example"}) {
		t.Error(got)
	}
	if got := names(now - 1); !slices.Equal(got, []string{"lei.example", "tuv.example"}) {
		t.Error(got)
	}
	if got := names(now + 10*day); !slices.Equal(got, []string{"lei.example", "tuv.example"}) {
		t.Error(got)
	}
	l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "lei.example"}, Since: now})
	if got := names(now); !slices.Equal(got, []string{"new.example", "tuv.example"}) {
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
	for _, code := range vetting.Codes() {
		if !form.MatchString(code) {
			t.Errorf("code %q", code)
		}
		if seen[code] {
			t.Errorf("code %q twice", code)
		}
		seen[code] = true
	}
	if !slices.IsSorted(vetting.Codes()) {
		t.Error("not in order")
	}
	// And whatever a random life comes to is among them.
	for _, code := range []string{vetting.ReasonPassed, vetting.FindingTCB, vetting.RevokedForged, vetting.CodeForeignScope, vetting.ReasonUnproven, claim.Lapsed, vetting.Suspended} {
		if !seen[code] {
			t.Errorf("%s is not in the list", code)
		}
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
