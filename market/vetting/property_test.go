package vetting_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// lives is how many lives are lived at random.
func lives() int {
	switch {
	case testing.Short():
		return 2_000
	case os.Getenv("ASSAY_LONG") != "":
		return 100_000
	}
	return 20_000
}

// shapes are the standings that random lives have, of a time.
var shapes = func() (out []vetting.Standing) {
	for _, s := range []struct {
		tier  string
		codes []string
	}{
		{claim.TierAttestedFacility, nil}, {claim.TierAttested, nil}, {claim.TierIdentified, nil}, {claim.TierAnonymous, nil},
		{"", []string{vetting.FindingNoTier}}, {claim.TierAttested, []string{vetting.FindingTCB}}, {claim.TierAttested, []string{vetting.FindingExploited}},
		{claim.TierAttestedFacility, []string{vetting.FindingAudit, vetting.FindingRIM}}, {claim.TierAttested, []string{vetting.FindingHeartbeat}},
		{claim.TierAttested, []string{vetting.FindingCollateral}}, {claim.TierAttested, []string{vetting.FindingMismatch}}, {claim.TierAttested, []string{vetting.FindingDebug}},
		{claim.TierAttested, []string{vetting.FindingContested, vetting.FindingHold, vetting.FindingTCB}},
	} {
		x := vetting.Standing{Tier: s.tier}
		for _, c := range s.codes {
			x.Findings = append(x.Findings, vetting.Finding{Code: c})
		}
		out = append(out, x)
	}
	return out
}()

// TestRandomLives lives certificates through events in any order, under a clock that jumps: no event makes a panic, no state
// is without a deadline unless it is the end of its life, a refused event changes nothing, the state survives its bytes, and
// whoever folds the events anew has the same state.
func TestRandomLives(t *testing.T) {
	n := lives()
	var h vetting.History
	m := ledger.Machine[vetting.Certificate](h.Certify)
	acts := []string{vetting.ActSubmit, vetting.ActAssign, vetting.ActPass, vetting.ActFail, vetting.ActAssess, vetting.ActAssess, vetting.ActAssess, vetting.ActEdit, vetting.ActRenew,
		vetting.ActWindow, vetting.ActFreeze, vetting.ActRevoke, vetting.ActAppeal, vetting.ActTriage, vetting.ActRule, vetting.ActDue, vetting.ActDue, vetting.ActEnd, vetting.ActDraft}
	reached := map[string]int{}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		var events []ledger.Event
		var step ledger.Step[vetting.Certificate]
		at := now
		apply := func(a vetting.Act) bool {
			a.Type, a.Certificate = vetting.ActType, "c-1"
			b, err := canon.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			e := event(ledger.KindCertificate, "provider:p1", at, b)
			next, err := m.Apply(step.State, e)
			if err != nil {
				return false
			}
			step, events = next, append(events, e)
			reached[step.Status+" "+step.Reason]++
			switch terminal := step.Status == vetting.Lapsed || step.Status == vetting.Rejected || step.Status == vetting.Revoked; {
			case step.Terminal() && !terminal:
				t.Fatalf("seed %d: %s (%s) has no deadline", seed, step.Status, step.Reason)
			case step.State.Status != step.Status || step.State.Reason != step.Reason:
				t.Fatalf("seed %d: %s (%s) and %s (%s)", seed, step.Status, step.Reason, step.State.Status, step.State.Reason)
			}
			if err := (vetting.CarriedItem{Certificate: &vetting.CarriedCertificate{Last: canon.Digest{1}, State: step.State}}).Validate(); err != nil {
				t.Fatalf("seed %d: a log that goes on could not begin with this state: %v", seed, err)
			}
			return true
		}
		apply(vetting.Act{Act: vetting.ActDraft, By: "user:olga", Place: place, Tier: claim.Tiers[r.IntN(4)], Assertions: ten})
		if r.IntN(2) == 0 { // half of the lives begin as they should
			apply(vetting.Act{Act: vetting.ActSubmit, By: "user:olga"})
			apply(vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
			s := shapes[0]
			s.At, s.Until = at, at+day
			apply(vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: s})
		}
		for range 12 {
			switch r.IntN(8) {
			case 0:
				if step.Due != 0 {
					at = step.Due // on the dot
				}
			case 1:
				at += canon.Time(r.IntN(120 * int(day)))
			case 2:
				at -= canon.Time(r.IntN(int(day)))
			default:
				at += canon.Time(r.IntN(int(day)))
			}
			a := vetting.Act{Act: acts[r.IntN(len(acts))], By: []string{"user:olga", "user:rita", "user:otto"}[r.IntN(3)]}
			if s := step.Status; (s == vetting.Revoked || s == vetting.Rejected) && r.IntN(3) > 0 {
				a.Act, a.By = []string{vetting.ActAppeal, vetting.ActTriage, vetting.ActRule}[r.IntN(3)], "user:otto"
				if a.Act == vetting.ActAppeal {
					a.By = "user:olga"
				}
			}
			standing := func() {
				a.Standing = shapes[r.IntN(len(shapes))]
				a.Standing.At = max(at, step.State.Updated)
				a.Standing.Until = a.Standing.At + 1 + canon.Time(r.IntN(2*int(day)))
			}
			switch a.Act {
			case vetting.ActDraft:
				a.Place, a.Tier = place, claim.TierAttested
			case vetting.ActAssign, vetting.ActTriage:
				a.Reviewer = []string{"user:rita", "user:otto"}[r.IntN(2)]
				if a.Act == vetting.ActTriage {
					a.Reviewer = "user:otto"
				}
			case vetting.ActPass, vetting.ActAssess:
				standing()
			case vetting.ActDue:
				a.By = ""
				if r.IntN(2) == 0 {
					standing()
				}
			case vetting.ActFail:
				a.Code = vetting.RevokedFinding
			case vetting.ActEdit:
				a.Assertions = ten[:1]
			case vetting.ActWindow:
				a.Window, a.Reason = vetting.Window{From: at + canon.Time(r.IntN(100)-50), Until: at + 1000}, "firmware"
			case vetting.ActRevoke:
				a.Code, a.Evidence, a.Since = vetting.RevokedForged, canon.Sum(nil), now
			case vetting.ActAppeal:
				a.Evidence = canon.Sum(nil)
			case vetting.ActRule:
				a.Reason, a.Upheld = "so it is", r.IntN(2) == 0
			}
			ended := step.Terminal()
			if apply(a) && ended {
				t.Fatalf("seed %d: %s moved what was at its end", seed, a.Act)
			}
		}
		// Time alone ends every life that nobody weighs, in a few steps.
		for i := 0; !step.Terminal(); i++ {
			if i == 50 {
				t.Fatalf("seed %d: %s (%s) goes on for ever", seed, step.Status, step.Reason)
			}
			at = max(at, step.Due)
			if !apply(vetting.Act{Act: vetting.ActDue}) {
				t.Fatalf("seed %d: what was due was refused in %s", seed, step.Status)
			}
		}
		again, err := m.Fold(vetting.Certificate{}, events...)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		one, err := step.State.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if two, _ := again.State.Canonical(); string(one) != string(two) || again.Due != step.Due || again.Reason != step.Reason {
			t.Fatalf("seed %d: folded anew\n%s\n%s", seed, two, one)
		}
		if back, err := vetting.ParseCertificate(one); err != nil || back.Status != step.Status {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, status := range []string{"lapsed assessment-overdue", "revoked debug-on", "revoked measurement-mismatch", "certified cleared", "certified grace-over", "suspended heartbeat-missed",
		"revoked appeal-unruled", "certified appeal-overturned", "revoked appeal-upheld", "suspended frozen", "certified freeze-proposed", "certified freeze-unconfirmed", "rejected appeal-window-over", "certified renewed"} {
		if reached[status] == 0 {
			t.Errorf("no life came to %s", status)
		}
	}
	t.Logf("%d kinds of states", len(reached))
}

// TestRecoveryComesAsSimulated lives certificates whose firmware was out of date and mended at random, asks what a recovery day
// would do, and then lets it come to a host that nobody updates: it falls when that was said, to the tier that was said.
func TestRecoveryComesAsSimulated(t *testing.T) {
	early, spent := 0, 0
	for seed := range 60 {
		r := rand.New(rand.NewPCG(uint64(seed), 8))
		f := certified(t, claim.TierAttested)
		at, wrong := now, ""
		for range 3 {
			wrong = []string{"", vetting.FindingTCB, vetting.FindingExploited}[r.IntN(3)]
			for range 1 + r.IntN(4) {
				at += day - 1
				f.weigh(at, faults(wrong)...)
			}
		}
		if f.state.Tier != claim.TierAttested {
			continue // it has fallen already
		}
		recovery := vetting.Recovery{Date: at + day*canon.Time(1+r.IntN(12)), Model: "genoa", Exploited: r.IntN(2) == 0}
		falls := vetting.Recover(recovery, []vetting.Candidate{{Certificate: f.state, Claims: sound(true)}}, nil, f.At(recovery.Date), at)
		if len(falls) != 1 {
			t.Fatalf("seed %d: %+v", seed, falls)
		}
		if falls[0].Falls <= recovery.Date {
			early++
		}
		if len(f.state.Spent) > 0 {
			spent++
		}
		for weighed := at + day - 1; f.state.Tier == claim.TierAttested; {
			if weighed <= recovery.Date && recovery.Date < weighed+day-1 {
				weighed = recovery.Date // on that day it shows its evidence at once
			}
			if f.step.Due < weighed {
				at = f.step.Due
				f.do(at, vetting.Act{Act: vetting.ActDue})
				continue
			}
			at = weighed
			shows := wrong
			if at >= recovery.Date && wrong != vetting.FindingExploited {
				shows = vetting.FindingTCB
				if recovery.Exploited {
					shows = vetting.FindingExploited
				}
			}
			f.weigh(at, faults(shows)...)
			weighed += day - 1
		}
		if at != falls[0].Falls || f.state.Tier != falls[0].Left {
			t.Errorf("seed %d: it fell at %s to %s, simulated %+v (%s before, %+v)", seed, at, f.state.Tier, falls[0], wrong, recovery)
		}
	}
	if early == 0 || spent == 0 {
		t.Errorf("%d of them fall before the day, %d have spent a grace: the test shows nothing of these", early, spent)
	}
}

func faults(code string) []func(*vetting.Observed) {
	if code == "" {
		return nil
	}
	return []func(*vetting.Observed){finding(code)}
}
