package vetting_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

// Row U03 of the field's bugs (akash-network/community#1447): an audit ticket was closed, and nothing was signed. Here a
// reviewer who is satisfied gives nothing: only what counts in the registry carries a tier, and what does not stand says so.
func TestU03TicketClosedNothingSigned(t *testing.T) {
	f := newLife(t)
	f.lab = newLab(t) // nobody has signed anything
	f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested, Assertions: ten})
	f.do(now, vetting.Act{Act: vetting.ActSubmit})
	f.do(now, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	err := f.try(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)})
	if err == nil || !strings.Contains(err.Error(), "what counts carries anonymous, and attested is asked for: it lacks [identity]") {
		t.Error(err)
	}
	for _, c := range f.state.PartyClaims() {
		if c.ID == "party.tier" && (c.Status != claim.Unknown || c.Reason.Code() != claim.Lapsed) {
			t.Errorf("%+v", c)
		}
	}
	if f.state.Live() || f.state.Eligible(now) || f.state.Badge(now) != vetting.InReview || (vetting.Certificate{}).Badge(now) != vetting.BadgeNone {
		t.Error("a ticket is taken for a certificate")
	}
	// The twin, whose claims are signed.
	if c := certified(t, claim.TierAttestedFacility).state; c.Badge(now) != claim.TierAttestedFacility || c.Badge(now+90*day) != vetting.Lapsed {
		t.Errorf("badge %s, in 90 days %s", c.Badge(now), c.Badge(now+90*day))
	}
}

// Row U04 (akash-network/community#1429, #1431), and acceptance check 3 of the users' study: whoever edits one attribute of ten
// has nine that stay valid and one that waits.
func TestU04EditOneOfTen(t *testing.T) { editOneOfTen(t) }

// Acceptance check 3: operator: an attribute's edit re-opens one claim only.
func TestAcceptance3AttributeEditReopensOneClaim(t *testing.T) { editOneOfTen(t) }

func editOneOfTen(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	for i, a := range ten {
		t.Run(a.Attribute+" of "+a.Subject.String(), func(t *testing.T) {
			f := certified(t, claim.TierAttestedFacility)
			a.Value = map[string]string{"party.facility": "audited", "party.facility-audit": strings.Repeat("ab", 32), "party.jurisdiction": "FR", "party.domain": "q.example", "party.identity": "contact",
				"party.legal-entity": "DE-HRB-B:12345"}[a.Attribute]
			wantPending := 1
			if ten[i].Attribute == "party.identity" || ten[i].Subject == site && ten[i].Attribute == "party.facility" {
				wantPending = 0 // who says less of himself than is shown waits for nobody
			}
			changed := slices.Clone(ten)
			changed[i] = a
			f.do(now, vetting.Act{Act: vetting.ActEdit, Assertions: []vetting.Assertion{a}, Standing: f.Stand(place, changed, observed(now), vetting.Defaults(), now)})
			valid, pending := 0, 0
			for _, x := range f.state.Standing.Attributes {
				switch x.Status {
				case vetting.StatusValid:
					valid++
				case vetting.CodePending:
					pending++
				}
			}
			if valid != 10-wantPending || pending != wantPending || !f.state.Live() {
				t.Errorf("%d valid, %d pending, %s", valid, pending, f.state.Status)
			}
			// The issuer says so, and it is whole again.
			issuer := "tuv.example"
			if a.Subject == provider {
				issuer = "lei.example"
			}
			f.say(vetting.Claim{Issuer: issuer, Subject: a.Subject, Attribute: a.Attribute, Value: a.Value})
			f.weigh(now)
			for _, x := range f.state.Standing.Attributes {
				if x.Status != vetting.StatusValid {
					t.Errorf("%s of %s: %s", x.ID, x.Subject, x.Status)
				}
			}
		})
	}
	if f.state.Status != vetting.Certified {
		t.Error(f.state.Status)
	}
}

// Row L11 (Akash AEP-86): tier 2 means opposite things in two drafts. Here a tier has a name, in every document.
func TestL11TierByNumber(t *testing.T) {
	f := newLife(t)
	for _, tier := range []string{"2", "0", "T2", "Attested", "level-2", ""} {
		if f.try(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: tier}) == nil {
			t.Errorf("tier %q was taken", tier)
		}
		s := f.lab.stand(now)
		s.Tier = tier
		if tier != "" && s.Validate() == nil {
			t.Errorf("a standing in tier %q", tier)
		}
		p := vetting.Defaults()
		p.Tiers[2].Tier = tier
		if p.Validate() == nil {
			t.Errorf("parameters of tier %q", tier)
		}
	}
	f.do(now, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: claim.TierAttested})
}

// Acceptance check 8: an unknown claim never satisfies a rule. Every rule over the party that the claims satisfy is broken when
// what it rests on does not count, whatever the reason.
func TestAcceptance8UnknownNeverSatisfies(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	good := slices.Concat(sound(false), f.state.PartyClaims())
	for _, c := range f.state.PartyClaims() {
		if c.Status != claim.Affirmed {
			continue
		}
		p := demand(t, "p", fmt.Sprintf("require: [{claim: %s, of: party}]", c.ID))
		if v := policy.Decide(good, p, now); v.Outcome != policy.Accept {
			t.Errorf("%s: %s %+v", c.ID, v.Outcome, v.Reasons)
		}
		for _, code := range []string{claim.SelfAsserted, claim.Lapsed, vetting.CodeRevoked, vetting.CodeNotYet, vetting.CodeUnregistered, vetting.CodeIssuerLapsed, vetting.CodeIssuerGone,
			vetting.CodeForeignScope, vetting.CodeDiscrepancy, vetting.CodePending} {
			set := slices.Clone(good)
			for i := range set {
				if set[i].ID == c.ID {
					set[i].Status, set[i].Reason = claim.Unknown, claim.Because(code, "test")
				}
			}
			if v := policy.Decide(set, p, now); v.Outcome == policy.Accept || len(v.Reasons) == 0 || v.Reasons[0].Code != "party."+code {
				t.Errorf("%s unknown (%s): %s %+v", c.ID, code, v.Outcome, v.Reasons)
			}
		}
	}
}

// Acceptance check 9: a vendor's outage is undecided, and costs nobody anything: the certificate is hidden while it lasts,
// nothing is revoked, no notice speaks of a fault of the provider's, and when the vendor is back all is as it was.
func TestAcceptance9VendorOutageCostsNothing(t *testing.T) {
	f := certified(t, claim.TierAttestedFacility)
	claims := sound(true)
	if v := decide(t, "regulated", claims, f.state); v.Outcome != policy.Accept {
		t.Fatalf("%s %+v", v.Outcome, v.Reasons)
	}
	out := slices.Clone(claims)
	for i := range out {
		if out[i].ID == "sevsnp.revocation" {
			out[i].Status, out[i].Reason = claim.Unknown, claim.Because(claim.CollateralMissing, "no revocation list")
		}
	}
	h := vetting.ReadHardware(out, now, vetting.Defaults())
	f.weigh(now+1, func(o *vetting.Observed) { o.Hardware = h })
	f.want(vetting.Suspended, vetting.FindingCollateral, claim.TierAttestedFacility)
	v := decide(t, "regulated", out, f.state)
	if v.Outcome != policy.Undecided || v.Outcome.ExitCode() != 3 {
		t.Errorf("%s %+v", v.Outcome, v.Reasons)
	}
	f.weigh(now + 2)
	f.want(vetting.Certified, vetting.ReasonCleared, claim.TierAttestedFacility)
	if f.state.Expires != now+90*day || f.state.Tainted != 0 || f.state.Decided != "" {
		t.Errorf("%+v", f.state)
	}
	if _, err := canon.Marshal(f.state); err != nil {
		t.Error(err)
	}
}
