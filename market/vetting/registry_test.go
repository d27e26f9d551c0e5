package vetting_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

func TestSoundProviderStandsHighest(t *testing.T) {
	l, _ := vouched(t)
	s := l.stand(now)
	if s.Tier != claim.TierAttestedFacility || len(s.Findings) != 0 || s.Missing != nil || s.DataClass != string(policy.DataFinancial) {
		t.Errorf("%+v", s)
	}
	for _, a := range s.Attributes {
		if a.Status != vetting.StatusValid {
			t.Errorf("%s of %s: %s", a.ID, a.Subject, a.Status)
		}
	}
	if s.Until != now-hour+day+1 { // of the evidence
		t.Errorf("until %s", s.Until)
	}
}

// Each criterion of a tier, and the twin that lacks it alone.
func TestTierCriteria(t *testing.T) {
	for _, c := range []struct {
		name, tier, lacks string
		change            func(*vetting.Observed)
	}{
		{"no stake", "", vetting.LacksStake, func(o *vetting.Observed) { o.Stake = false }},
		{"nothing but a stake", claim.TierAnonymous, vetting.LacksContact, func(o *vetting.Observed) { *o = vetting.Observed{Stake: true} }},
		{"a contact that answers in 25 h", claim.TierAnonymous, vetting.LacksContact, func(o *vetting.Observed) { o.ContactHours = 25 }},
		{"a contact that answers in 24 h", claim.TierIdentified, vetting.LacksContact, func(o *vetting.Observed) { o.ContactHours = 24 }},
		{"a contact that answers in 4 h", claim.TierAttested, vetting.LacksContact, func(o *vetting.Observed) { o.ContactHours = 4 }},
		{"a benchmark for evidence", claim.TierIdentified, vetting.LacksHardware, func(o *vetting.Observed) {
			o.Hardware, o.Measured, o.MeasuredAt = vetting.Hardware{}, 812, now-claim.MeasuredTerm+1
		}},
		{"a benchmark that has lapsed", claim.TierAnonymous, vetting.LacksHardware, func(o *vetting.Observed) {
			o.Hardware, o.Measured, o.MeasuredAt = vetting.Hardware{}, 812, now-claim.MeasuredTerm
		}},
		{"no hardware", claim.TierAnonymous, vetting.LacksHardware, func(o *vetting.Observed) { o.Hardware = vetting.Hardware{} }},
		{"a confidential CPU alone", claim.TierAttestedFacility, "", func(o *vetting.Observed) { o.Hardware.Level = vetting.HardwareCPU }},
		{"a record of 29 days", claim.TierIdentified, vetting.LacksRecord, func(o *vetting.Observed) { o.Record.Days = 29 }},
		{"979 permille of 10 leases", claim.TierIdentified, vetting.LacksRecord, func(o *vetting.Observed) { o.Record.Leases, o.Record.Completion = 10, 979 }},
		{"979 permille of 9 leases", claim.TierAttestedFacility, "", func(o *vetting.Observed) { o.Record.Leases, o.Record.Completion = 9, 979 }},
		{"one witness", claim.TierAttested, vetting.LacksWitness, func(o *vetting.Observed) { o.Witnesses = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := vouched(t)
			s := l.stand(now, c.change)
			if s.Tier != c.tier || (c.lacks == "") != (s.Missing == nil) || c.lacks != "" && s.Missing[0] != c.lacks {
				t.Errorf("tier %q lacks %v, want %q and %s", s.Tier, s.Missing, c.tier, c.lacks)
			}
		})
	}
}

// TestMeasuredUntil: what rests on a benchmark is weighed anew when the benchmark lapses, and not a day later.
func TestMeasuredUntil(t *testing.T) {
	l, _ := vouched(t)
	for left, want := range map[canon.Time]canon.Time{hour: now + hour, 20 * day: now + day} {
		s := l.stand(now, func(o *vetting.Observed) {
			o.Hardware, o.Measured, o.MeasuredAt = vetting.Hardware{}, 812, now-claim.MeasuredTerm+left
		})
		if s.Until != want || s.Axes.Hardware != vetting.HardwareMeasured {
			t.Errorf("with %d s left: %s until %s, want %s", left, s.Axes.Hardware, s.Until, want)
		}
	}
}

// What an issuer says counts for nothing, each time for one reason.
func TestWordsThatDoNotCount(t *testing.T) {
	entity := vetting.Claim{Issuer: "new.example", Subject: provider, Attribute: "party.jurisdiction", Value: "DE"}
	for _, c := range []struct {
		name, code string
		tell       func(l *lab)
		later      canon.Time
	}{
		{"all in order", "", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			l.say(entity)
		}, 0},
		{"an issuer whose key was never registered", "refused", func(l *lab) {
			if _, err := l.try(entity, keyOf("new.example")); err == nil || !strings.Contains(err.Error(), "no key that the operator has registered") {
				l.Error(err)
			}
		}, 0},
		{"another key", "refused", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			if _, err := l.try(entity, keyOf("another")); err == nil {
				l.Error("signed by a stranger")
			}
		}, 0},
		{"a key without a scope", vetting.CodeForeignScope, func(l *lab) {
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(entity)
		}, 0},
		{"another attribute's scope", vetting.CodeForeignScope, func(l *lab) {
			l.register("new.example", "party.domain", vetting.Scope{}, 500*day)
			l.say(entity)
		}, 0},
		{"another country's scope", vetting.CodeForeignScope, func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{Countries: []string{"FR", "NL"}}, 500*day)
			l.say(entity)
		}, 0},
		{"its own country's scope", "", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{Countries: []string{"DE", "NL"}}, 500*day)
			l.say(entity)
		}, 0},
		{"registered only afterwards", vetting.CodeForeignScope, func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(entity)
			l.at++
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.jurisdiction"})
		}, 10},
		{"an issuer whose scope was over, and its key was not", vetting.CodeIssuerLapsed, func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.at -= day
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.jurisdiction", Scope: vetting.Scope{}, Expires: now})
			l.at += day
			l.say(entity)
		}, 0},
		{"the same in its last second", "", func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.at -= day
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.jurisdiction", Scope: vetting.Scope{}, Expires: now + 1})
			l.at += day
			l.say(entity)
		}, 0},
		{"a scope that was over, of another attribute", vetting.CodeForeignScope, func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.at -= day
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.domain", Scope: vetting.Scope{}, Expires: now})
			l.at += day
			l.say(entity)
		}, 0},
		{"a scope that was over, of another country", vetting.CodeForeignScope, func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.at -= day
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.jurisdiction", Scope: vetting.Scope{Countries: []string{"FR"}}, Expires: now})
			l.at += day
			l.say(entity)
		}, 0},
		{"a scope that was over, and a last one of another attribute", vetting.CodeForeignScope, func(l *lab) {
			of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}
			l.at -= day
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("new.example").value(l)})
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.jurisdiction", Scope: vetting.Scope{}, Expires: now})
			l.at++
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: "party.domain", Expires: now})
			l.at--
			l.at += day
			l.say(entity)
		}, 0},
		{"an issuer whose term was over", vetting.CodeIssuerLapsed, func(l *lab) {
			l.at -= 100 * day
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 99*day)
			l.at += 100 * day
			l.say(entity)
		}, 0},
		{"said in the issuer's term, asked afterwards", "", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 5*day)
			l.say(entity)
		}, 10 * day},
		{"an issuer that was taken back with what it said", vetting.CodeIssuerGone, func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			l.say(entity)
			l.at += day
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}, Since: now})
		}, day},
		{"an issuer that was taken back for what it said later", "", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			l.say(entity)
			l.at += day
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitIssuer, ID: "new.example"}, Since: now + 1})
		}, day},
		{"the provider's own word", claim.SelfAsserted, func(l *lab) {
			l.register("p1", "party.jurisdiction", vetting.Scope{}, 500*day)
			c := entity
			c.Issuer = "p1"
			l.say(c)
		}, 0},
		{"taken back by its issuer", vetting.CodeRevoked, func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			d := l.say(entity)
			l.revoke(vetting.Revocation{Issuer: "new.example", Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: d.String()}, Reason: vetting.RevokedError})
		}, 0},
		{"its time is over", claim.Lapsed, func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			c := entity
			c.Issued, c.Expires = now-day, now
			l.say(c)
		}, 0},
		{"its last second", "", func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			c := entity
			c.Issued, c.Expires = now-day, now+1
			l.say(c)
		}, 0},
		{"of another site", vetting.CodeForeignScope, func(l *lab) {
			l.register("new.example", "party.jurisdiction", vetting.Scope{}, 500*day)
			c := entity
			c.Scope.Sites = []string{"par1"}
			l.say(c)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.at = now
			c.tell(l)
			s := l.Stand(place, nil, observed(now+c.later), vetting.Defaults(), now+c.later)
			if c.code == "refused" {
				if len(s.Attributes) != 0 {
					t.Errorf("%+v", s.Attributes)
				}
				return
			}
			if len(s.Attributes) != 1 || len(s.Attributes[0].Words) != 1 || s.Attributes[0].Words[0].Code != c.code {
				t.Fatalf("%+v, want code %q", s.Attributes, c.code)
			}
			// And never is it affirmed to a policy.
			cert := vetting.Certificate{Place: place, Status: vetting.Certified, Tier: s.Tier, Standing: s, Expires: now + 90*day}
			for _, x := range cert.PartyClaims() {
				if x.ID == "party.jurisdiction" && ((x.Status == claim.Affirmed) != (c.code == "") || x.Reason.Code() != c.code) {
					t.Errorf("claim %+v", x)
				}
			}
		})
	}
}

// An issuer's last word stands, and a shorter one does not bring back the one before it.
func TestLastWordStands(t *testing.T) {
	l, _ := vouched(t)
	l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "witnessed", Expires: now + day})
	if s := l.stand(now); s.Axes.Facility != "bound" { // of the host
		t.Errorf("facility %s", s.Axes.Facility)
	}
	if s := l.stand(now + 2*day); status(s, site, "party.facility") != claim.Lapsed {
		t.Errorf("facility of the site %s", status(s, site, "party.facility"))
	}
	if s := l.stand(now - 1); s.Axes.Facility != "audited" {
		t.Errorf("the past was edited: %s", s.Axes.Facility)
	}
}

func TestIssuersThatDiffer(t *testing.T) {
	audits := func(value string, at canon.Time) func(*lab) {
		return func(l *lab) {
			l.at = at
			l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: value, Expires: now + 700*day})
		}
	}
	for _, c := range []struct {
		name, other string
		at          canon.Time
		status      string
		value       string
	}{
		{"the same", "audited", now, vetting.StatusValid, "audited"},
		{"a level apart: the lower one", "bound", now, vetting.CodePending, "bound"},
		{"two levels apart: neither", "witnessed", now, vetting.CodeDiscrepancy, ""},
		{"after 89 days", "witnessed", now + 90*day - 1, vetting.CodeDiscrepancy, ""},
		{"after 90 days: the lower one", "witnessed", now + 90*day, vetting.CodePending, "witnessed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := vouched(t)
			l.register("two.example", "party.facility", vetting.Scope{}, 1000*day)
			audits(c.other, now)(l)
			for _, a := range l.stand(c.at).Attributes {
				if a.Subject == site && a.ID == "party.facility" && (a.Status != c.status || a.Value != c.value || len(a.Words) != 2) {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	t.Run("two laws", func(t *testing.T) {
		l, _ := vouched(t)
		l.register("two.example", "party.legal-entity", vetting.Scope{}, 1000*day)
		l.say(vetting.Claim{Issuer: "two.example", Subject: provider, Attribute: "party.legal-entity", Value: "DE-HRB-B:12345"})
		s := l.Stand(place, nil, observed(now), vetting.Defaults(), now)
		if status(s, provider, "party.legal-entity") != vetting.CodeConflict || s.Tier != claim.TierAnonymous {
			t.Errorf("%s, tier %s: two issuers name two entities", status(s, provider, "party.legal-entity"), s.Tier)
		}
	})
}

// Revocation by the smallest unit: what it takes with it, and that the past stays.
func TestRevocationBySmallestUnit(t *testing.T) {
	l, said := vouched(t)
	_ = l
	for _, c := range []struct {
		name    string
		unit    vetting.Subject
		revoked bool   // the place itself
		tier    string // without the finding
	}{
		{"a claim", vetting.Subject{Kind: vetting.UnitClaim, ID: said[ten[4]].String()}, false, claim.TierAttestedFacility},
		{"the claim of the entity", vetting.Subject{Kind: vetting.UnitClaim, ID: said[ten[9]].String()}, false, claim.TierAnonymous},
		{"a device", cpu, true, claim.TierAttestedFacility},
		{"the host", host, true, claim.TierAttested},
		{"the site", site, true, claim.TierAttestedFacility},
		{"the provider", provider, true, claim.TierAnonymous},
		{"an issuer", vetting.Subject{Kind: vetting.UnitIssuer, ID: "tuv.example"}, false, claim.TierAttested},
		{"a generation", genoa, true, claim.TierAttestedFacility},
		{"another device", vetting.Subject{Kind: vetting.UnitDevice, ID: "amd-chip-id:ff"}, false, claim.TierAttestedFacility},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := vouched(t)
			before, _ := canon.Marshal(l.stand(now - 1))
			l.revoke(vetting.Revocation{Unit: c.unit, Since: now - 101*day})
			s := l.stand(now)
			if has(s, vetting.FindingUnitRevoked) != c.revoked {
				t.Errorf("findings %+v", s.Findings)
			}
			if c.name != "the host" && c.name != "the site" && s.Tier != c.tier {
				t.Errorf("tier %s, want %s", s.Tier, c.tier)
			}
			if after, _ := canon.Marshal(l.stand(now - 1)); string(after) != string(before) && c.name == "another device" {
				t.Error("the past was edited")
			}
			if got := l.stand(now - 1).Tier; got != claim.TierAttestedFacility {
				t.Errorf("a second before it stood in tier %s", got)
			}
			if tainting := l.Tainting(place, now-day); (len(tainting) == 1) != (c.name != "another device") {
				t.Errorf("tainted by %+v", tainting)
			}
		})
	}
	for name, r := range map[string]vetting.Revocation{
		"by a stranger":                  {Issuer: "tuv.example", Unit: host},
		"another issuer's claim":         {Issuer: "tuv.example", Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: said[ten[9]].String()}},
		"of no claim":                    {Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: canon.Sum(nil).String()}},
		"before it is made":              {Unit: host, Effective: now - 1},
		"tainting what comes after that": {Unit: host, Since: now + 1},
		"for no reason that is known":    {Unit: host, Reason: "because"},
	} {
		l, _ := vouched(t)
		if l.tryRevoke(r) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A revocation that was written long ago and is logged now does not reach back before its entry.
func TestRevocationOfThePast(t *testing.T) {
	for effective, taken := range map[canon.Time]bool{now: true, now - 1: false} {
		l, _ := vouched(t)
		v := vetting.Revocation{Type: vetting.RevocationType, Issuer: vetting.Operator, Unit: host, Reason: vetting.RevokedForged, Made: now - 10, Effective: effective, Since: now - 10, Evidence: canon.Sum(nil)}
		env, err := v.Seal(keyOf(vetting.Operator))
		if err := l.Add(event(ledger.KindClaim, ledger.IssuerStream(vetting.Operator), now, body(t, env, err))); (err == nil) != taken {
			t.Errorf("effective %s: %v", effective, err)
		}
	}
}

// A notice about a generation lowers the data that it may hold, and revokes nobody; not where the site is audited.
func TestGenerationNotice(t *testing.T) {
	for _, audited := range []bool{true, false} {
		l, said := vouched(t)
		l.say(vetting.Claim{Issuer: vetting.Operator, Subject: genoa, Attribute: vetting.AttributeDataClass, Value: "internal", Expires: now + 30*day})
		want := policy.DataFinancial
		if !audited {
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: said[ten[3]].String()}})
			want = policy.DataInternal
		}
		s := l.stand(now)
		if s.DataClass != string(want) || s.Tier != claim.TierAttestedFacility || len(s.Findings) != 0 {
			t.Errorf("audited %v: %s data, tier %s, %+v", audited, s.DataClass, s.Tier, s.Findings)
		}
		if !s.Holds(policy.DataInternal) || s.Holds(policy.DataPersonal) == !audited || s.Holds("") {
			t.Errorf("audited %v: what it holds", audited)
		}
		if s := l.stand(now + 30*day); s.DataClass != string(policy.DataFinancial) {
			t.Errorf("after the notice: %s", s.DataClass)
		}
	}
}

func TestMalformedStatements(t *testing.T) {
	good := vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.domain", Value: "p1.example"}
	for name, spoil := range map[string]func(*vetting.Claim){
		"a host's domain":           func(c *vetting.Claim) { c.Subject = host },
		"no domain":                 func(c *vetting.Claim) { c.Value = "P1" },
		"the verifier's to find":    func(c *vetting.Claim) { c.Attribute, c.Value = "party.tier", "attested" },
		"the operator's to say":     func(c *vetting.Claim) { c.Attribute = vetting.AttributeScope },
		"an end before the start":   func(c *vetting.Claim) { c.Issued, c.Expires = now, now-1 },
		"a term of a decade":        func(c *vetting.Claim) { c.Expires = now + 3660*day },
		"issued in the future":      func(c *vetting.Claim) { c.Issued = now + day },
		"a country of its own":      func(c *vetting.Claim) { c.Scope.Countries = []string{"UK"} },
		"a scope out of order":      func(c *vetting.Claim) { c.Scope.Sites = []string{"b", "a"} },
		"supersedes nothing":        func(c *vetting.Claim) { c.Supersedes = canon.Sum(nil) },
		"an identity of its own":    func(c *vetting.Claim) { c.Attribute, c.Value = "party.identity", "I2" },
		"an entity that is no LEI":  func(c *vetting.Claim) { c.Attribute, c.Value = "party.legal-entity", "LEI:1" },
		"a name that is a formula":  func(c *vetting.Claim) { c.Subject.ID = "=HYPERLINK(1)" },
		"a number for a tier":       func(c *vetting.Claim) { c.Attribute, c.Value = "party.identity", "2" },
		"the operator as an issuer": func(c *vetting.Claim) { c.Issuer = vetting.Operator },
	} {
		l := newLab(t)
		l.at = now
		c := good
		spoil(&c)
		if _, err := l.try(c, keyOf(c.Issuer)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	l := newLab(t)
	l.at = now
	l.say(good)
	if _, err := l.try(good, keyOf(good.Issuer)); err == nil {
		t.Error("the same envelope was taken twice")
	}
	env, err := vetting.Claim{Type: vetting.ClaimType, Issuer: "lei.example", Subject: provider, Attribute: "party.domain", Value: "q.example", Issued: now, Expires: now + 1}.Seal(keyOf("lei.example"))
	if err := l.Add(event(ledger.KindClaim, ledger.IssuerStream("tuv.example"), now, body(t, env, err))); err == nil {
		t.Error("a claim in another issuer's stream was taken")
	}
}

// What is said by a key that the operator replaced or took back takes nothing back that its issuer said, and revokes nothing.
func TestOldKeyTakesNothingBack(t *testing.T) {
	of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "tuv.example"}
	for _, c := range []struct {
		name    string
		after   func(l *lab, key canon.Digest)
		revokes bool
	}{
		{"the key that stands", func(*lab, canon.Digest) {}, true},
		{"a key that was replaced", func(l *lab, _ canon.Digest) {
			l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("tuv.example anew").value(l)})
		}, false},
		{"a key that was revoked", func(l *lab, key canon.Digest) {
			l.revoke(vetting.Revocation{Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: key.String()}, Reason: vetting.RevokedKey})
		}, false},
		{"an issuer that was revoked", func(l *lab, _ canon.Digest) { l.revoke(vetting.Revocation{Unit: of, Reason: vetting.RevokedKey}) }, false},
		{"a term that is over", func(l *lab, _ canon.Digest) { l.at = now + 700*day }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			key := l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf("tuv.example").value(l), Expires: now + 601*day})
			l.at = now - 10*day
			good := l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "audited", Expires: now + 1000*day})
			l.at = now - 5*day
			c.after(l, key)
			speaks := c.name == "the key that stands"
			words := func() (n int, value string) {
				for _, a := range l.Stand(place, nil, observed(l.at), vetting.Defaults(), l.at).Attributes {
					return len(a.Words), a.Value
				}
				return 0, ""
			}
			for _, supersedes := range []canon.Digest{{}, good} {
				if _, err := l.try(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "none", Supersedes: supersedes}, keyOf("tuv.example")); err != nil {
					t.Fatal(err)
				}
				if n, value := words(); (value == "none") != speaks || !speaks && n < 2 {
					t.Errorf("counts %q of %d words", value, n)
				}
			}
			err := l.tryRevoke(vetting.Revocation{Issuer: "tuv.example", Unit: vetting.Subject{Kind: vetting.UnitClaim, ID: good.String()}, Reason: vetting.RevokedError})
			if (err == nil) != c.revokes || err != nil && !strings.Contains(err.Error(), "replaced or revoked") {
				t.Error(err)
			}
		})
	}
}

// An issuer that is registered anew may speak where it is registered now, and nowhere else.
func TestScopeIsNarrowed(t *testing.T) {
	l := newLab(t)
	l.at = now - day
	l.register("tuv.example", "party.facility", vetting.Scope{Sites: []string{"par1"}}, 500*day)
	l.at = now
	l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility", Value: "audited"})
	if s := l.Stand(place, nil, observed(now), vetting.Defaults(), now); status(s, site, "party.facility") != vetting.CodeForeignScope {
		t.Errorf("%+v", s.Attributes)
	}
	for _, i := range l.Issuers(now) {
		if i.ID == "tuv.example" && (len(i.Scope.Sites) != 1 || len(i.Attributes) != 1) {
			t.Errorf("%+v", i)
		}
	}
}

// One key is one issuer's: else one party would be two auditors.
func TestOneKeyIsOneIssuer(t *testing.T) {
	l := newLab(t)
	of := vetting.Subject{Kind: vetting.UnitIssuer, ID: "two.example"}
	for key, taken := range map[string]bool{"tuv.example": false, "two.example": true} {
		_, err := l.try(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf(key).value(l)}, keyOf(vetting.Operator))
		if (err == nil) != taken || err != nil && !strings.Contains(err.Error(), "the key is issuer tuv.example's") {
			t.Errorf("key of %s: %v", key, err)
		}
	}
}

// A word that does not count at a place voids no other there, and is nobody's lapsed audit.
func TestForeignWordsVoidNothing(t *testing.T) {
	for country, voids := range map[string]bool{"DE": true, "FR": false} {
		l, _ := vouched(t)
		l.register("two.example", "party.facility", vetting.Scope{Countries: []string{country}}, 1000*day)
		l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: "none", Scope: vetting.Scope{Countries: []string{country}}})
		s := l.stand(now)
		if (status(s, site, "party.facility") == vetting.CodeDiscrepancy) != voids {
			t.Errorf("an auditor for %s: %s", country, status(s, site, "party.facility"))
		}
	}
	for name, scope := range map[string]vetting.Scope{"here": {Countries: []string{"DE"}, Sites: []string{"fra1"}}, "another site's": {Sites: []string{"par1"}}, "another country's": {Countries: []string{"FR"}}} {
		l := newLab(t)
		l.at = now - 30*day
		l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.jurisdiction", Value: "DE"})
		l.say(vetting.Claim{Issuer: "tuv.example", Subject: site, Attribute: "party.facility-audit", Value: report, Scope: scope, Expires: now - day})
		if s := l.Stand(place, nil, observed(now), vetting.Defaults(), now); has(s, vetting.FindingAudit) != (name == "here") {
			t.Errorf("%s: %+v", name, s.Findings)
		}
	}
}

// Two auditors are apart from when both have said so: saying it again begins no other 90 days.
func TestDiscrepancyEnds(t *testing.T) {
	l, _ := vouched(t)
	l.register("two.example", "party.facility", vetting.Scope{}, 1000*day)
	for at := now; at < now+90*day; at += 30 * day {
		l.at = at
		l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: "witnessed"})
	}
	for at, want := range map[canon.Time]string{now + 90*day - 1: "", now + 90*day: "witnessed"} {
		for _, a := range l.stand(at).Attributes {
			if a.Subject == site && a.ID == "party.facility" && a.Value != want {
				t.Errorf("at %s %q, want %q", at, a.Value, want)
			}
		}
	}
	// Another value, or the same after a break, is another word.
	for _, again := range []vetting.Claim{{Value: "none"}, {Value: "witnessed", Expires: now + 100*day}} {
		again.Issuer, again.Subject, again.Attribute = "two.example", site, "party.facility"
		l.at = now + 95*day
		l.say(again)
		if again.Expires != 0 {
			l.at = now + 100*day
			again.Expires = 0
			l.say(again)
		}
		for _, a := range l.stand(l.at + 80*day).Attributes {
			if a.Subject == site && a.ID == "party.facility" && a.Value != "" {
				t.Errorf("%s: %q", again.Value, a.Value)
			}
		}
	}
}

// The highest tier rests on two auditors: who says all of a site is believed alone in none of it.
func TestTwoAuditors(t *testing.T) {
	for name, c := range map[string]struct {
		report, bound string // who says that a report is in date, and that the site is bound
		more          func(l *lab)
		asks          int64
		tier          string
	}{
		"two auditors":                  {"iso.example", "tuv.example", nil, 2, claim.TierAttestedFacility},
		"one says all":                  {"tuv.example", "tuv.example", nil, 2, claim.TierAttested},
		"one says all, and one will do": {"tuv.example", "tuv.example", nil, 1, claim.TierAttestedFacility},
		"another one saw it": {"tuv.example", "tuv.example", func(l *lab) {
			l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: "bound"})
		}, 2, claim.TierAttestedFacility},
		"another one saw less": {"tuv.example", "tuv.example", func(l *lab) {
			l.say(vetting.Claim{Issuer: "two.example", Subject: host, Attribute: "party.facility", Value: "witnessed"})
		}, 2, claim.TierAttested},
		"another one was of last year": {"tuv.example", "tuv.example", func(l *lab) {
			l.say(vetting.Claim{Issuer: "two.example", Subject: site, Attribute: "party.facility", Value: "bound", Issued: now - day, Expires: now})
		}, 2, claim.TierAttested},
		"a report in its grace": {"iso.example", "tuv.example", func(l *lab) {
			l.say(vetting.Claim{Issuer: "iso.example", Subject: site, Attribute: "party.facility-audit", Value: report, Issued: now - day, Expires: now})
		}, 2, claim.TierAttestedFacility},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.register("two.example", "party.facility", vetting.Scope{}, 1000*day)
			l.at = now - day
			l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.identity", Value: "legal-entity"})
			l.say(vetting.Claim{Issuer: "lei.example", Subject: provider, Attribute: "party.legal-entity", Value: legal})
			l.say(vetting.Claim{Issuer: c.bound, Subject: site, Attribute: "party.facility", Value: "audited"})
			l.say(vetting.Claim{Issuer: c.report, Subject: site, Attribute: "party.facility-audit", Value: report})
			if c.more != nil {
				c.more(l)
			}
			q := vetting.Defaults()
			q.Tiers[3].Auditors = c.asks
			if s := l.Stand(place, nil, observed(now), q, now); s.Tier != c.tier || s.Tier != claim.TierAttestedFacility && !slices.Equal(s.Missing, []string{vetting.LacksAudit}) {
				t.Errorf("tier %s, lacks %v", s.Tier, s.Missing)
			}
		})
	}
}
