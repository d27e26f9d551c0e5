package policy_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// Row L01 of the field's bugs: a rule about an attestation passes when that attestation is absent.
func TestL01ClassAbsent(t *testing.T) {
	for _, name := range policy.Builtins() {
		noCPU := without("sevsnp")
		if name == "confidential-gpu" { // else a GPU is missing as well
			noCPU = slices.DeleteFunc(sound("sevsnp", oneGPU), func(c claim.Claim) bool { return claim.Room(c.ID) == "sevsnp" })
		}
		v := policy.Decide(noCPU, builtin(t, name), now)
		if v.Outcome != policy.Reject {
			t.Errorf("%s: %s without a CPU", name, v.Outcome)
		}
		missing := 0
		for _, r := range v.Reasons {
			if strings.HasPrefix(r.Observed, claim.EvidenceMissing+": 0 in the evidence") {
				missing++
			}
		}
		if missing != 1 {
			t.Errorf("%s: want one reason for the missing component: %+v", name, v.Reasons)
		}
		if v := policy.Decide(nil, builtin(t, name), now); v.Outcome != policy.Reject {
			t.Errorf("%s: %s for no claims at all", name, v.Outcome)
		}
	}
	for _, rule := range []string{"sevsnp.tcb", `"*.structure"`, `"*.tcb"`} {
		p := load(t, "require: [{claim: "+rule+", of: cpu}]")
		v := policy.Decide(without("sevsnp"), p, now)
		expect(t, v, policy.Reject, strings.Trim(rule, `"`))
		if r := v.Reasons[0]; r.Subject != "cpu" || r.Status != claim.Unknown || r.Who != claim.Provider {
			t.Errorf("reason %+v", r)
		}
		expect(t, policy.Decide(goodSet(), p, now), policy.Accept)
	}
	t.Run("claim absent from a component", func(t *testing.T) {
		p := load(t, "require: [{claim: sevsnp.debug-off, of: cpu}]")
		s := slices.DeleteFunc(goodSet(), func(c claim.Claim) bool { return c.ID == "sevsnp.debug-off" })
		v := policy.Decide(s, p, now)
		expect(t, v, policy.Undecided, "sevsnp.debug-off")
		if v.Reasons[0].Observed != "not-appraised: the appraisal says nothing of it" || v.Reasons[0].Who != claim.Relying {
			t.Errorf("reason %+v", v.Reasons[0])
		}
	})
	t.Run("claim absent from the node", func(t *testing.T) {
		p := load(t, "require: [{claim: guest.measured, of: node}, {claim: sevsnp.tcb, of: cpu}]")
		expect(t, policy.Decide(without("guest"), p, now), policy.Undecided, "guest.measured")
	})
}

// A component of another format does not stand in for the one that a rule speaks of, and no policy judges it unseen.
func TestOtherFormat(t *testing.T) {
	for _, c := range []struct{ rule, format, foreign string }{
		{"{claim: sevsnp.tcb, of: cpu, min: floors}", "sevsnp", "tdx"},
		{"{claim: sevsnp.vmpl, of: cpu, is: 0}", "sevsnp", "tdx"},
		{"{claim: tdx.seam, of: cpu}", "tdx", "sevsnp"},
		{"{claim: tdx.tcb-status, of: cpu, is: UpToDate}", "tdx", "sevsnp"},
	} {
		id := strings.TrimSuffix(strings.Fields(c.rule)[1], ",")
		p := load(t, "require: ["+c.rule+"]")
		v := policy.Decide(sound(c.foreign), p, now)
		expect(t, v, policy.Reject, id)
		if v.Reasons[0].Required != "at least 1 of class cpu that "+id+" speaks of" {
			t.Errorf("required %q", v.Reasons[0].Required)
		}
		expect(t, policy.Decide(sound(c.format), p, now), policy.Accept)
		both := append(sound(c.foreign), slices.DeleteFunc(sound(c.format), func(cl claim.Claim) bool { return claim.Room(cl.ID) != c.format })...)
		expect(t, policy.Decide(both, p, now), policy.Accept)
		expect(t, policy.Decide(both, load(t, "require: ["+c.rule+`, {claim: "*.structure", of: cpu}]`), now), policy.Accept)
	}
	p := load(t, `require: [{claim: "*.structure", of: cpu}]`)
	v := policy.Decide(claim.Set{other("cpu:0")}, p, now)
	expect(t, v, policy.Undecided, "cca.structure")
	if v.Reasons[0].Observed != "internal: this build knows no format cca" {
		t.Errorf("observed %q", v.Reasons[0].Observed)
	}
	expect(t, policy.Decide(sound("tdx"), p, now), policy.Accept)
	expect(t, policy.Decide(sound("tpm"), p, now), policy.Reject, "*.structure")
}

// A status of Intel's other than UpToDate is a matter of the policy: who lists it accepts it.
func TestListedTCBStatus(t *testing.T) {
	p := load(t, "require: [{claim: tdx.tcb-status, of: cpu, in: [UpToDate, SWHardeningNeeded]}]")
	for status, outcome := range map[string]policy.Outcome{"UpToDate": policy.Accept, "SWHardeningNeeded": policy.Accept, "OutOfDate": policy.Reject, "ConfigurationAndSWHardeningNeeded": policy.Reject} {
		v := policy.Decide(altered(t, sound("tdx"), "tdx.tcb-status", value(status)), p, now)
		if v.Outcome != outcome {
			t.Errorf("%s: %s for %+v", status, v.Outcome, v.Reasons)
		}
	}
	expect(t, policy.Decide(altered(t, sound("tdx"), "tdx.tcb-status", contradict), p, now), policy.Reject, "tdx.tcb-status") // Revoked, or no level
	dated := load(t, "require: [{claim: tdx.tcb-date, of: cpu, min: 20240313}]")
	expect(t, policy.Decide(sound("tdx"), dated, now), policy.Accept)
	expect(t, policy.Decide(altered(t, sound("tdx"), "tdx.tcb-date", value("20240312")), dated, now), policy.Reject, "tdx.tcb-date")
}

func TestCount(t *testing.T) {
	two := goodSet()
	for _, c := range goodSet() {
		if c.Subject == "cpu:0" {
			c.Subject = "cpu:1"
			if c.ID == "sevsnp.vmpl" {
				c.Value = "1"
			}
			two = append(two, c)
		}
	}
	p := load(t, "require: [{claim: sevsnp.signature, of: cpu, count: 2}]")
	expect(t, policy.Decide(two, p, now), policy.Accept)
	expect(t, policy.Decide(goodSet(), p, now), policy.Reject, "sevsnp.signature")
	v := policy.Decide(two, load(t, "require: [{claim: sevsnp.vmpl, of: cpu, is: 0}]"), now)
	expect(t, v, policy.Reject, "sevsnp.vmpl")
	if v.Reasons[0].Subject != "cpu:1" {
		t.Errorf("the one of two that fails is %s", v.Reasons[0].Subject)
	}
}

// Row L04: the measurement matches and the signature is good, and the guest is debuggable or not at VMPL 0.
func TestL04DebugAndVMPL(t *testing.T) {
	p := builtin(t, "confidential-cpu")
	expect(t, policy.Decide(with(t, "sevsnp.debug-off", contradict), p, now), policy.Reject, "sevsnp.debug-off")
	expect(t, policy.Decide(with(t, "sevsnp.vmpl", value("1")), p, now), policy.Reject, "sevsnp.vmpl")
	expect(t, policy.Decide(goodSet(), p, now), policy.Accept)
	allows := load(t, "require: [{claim: sevsnp.measurement, of: cpu, is: "+measurement+"}, {claim: sevsnp.vmpl, of: cpu, in: [0, 1]}]")
	expect(t, policy.Decide(with(t, "sevsnp.vmpl", value("1")), allows, now), policy.Accept)
	expect(t, policy.Decide(with(t, "sevsnp.debug-off", contradict), allows, now), policy.Accept)
}

// Row L05: an empty list of allowed values allows all.
func TestL05EmptyList(t *testing.T) {
	for _, text := range []string{
		"require: []", "require: [{claim: sevsnp.host-data, of: cpu, in: []}]",
		"require: [{claim: sevsnp.tcb, of: cpu}]\nrefuse: []", "require: [{claim: guest.measured, of: node}]\nreferences: []",
		"require: [{claim: sevsnp.tcb, of: cpu, min: floors}]\nfloors: []",
	} {
		_, err := policy.Load("policy.yaml", []byte("type: assay/policy/v1\nname: test\n"+text))
		if err == nil || !strings.Contains(err.Error(), "the list is empty") {
			t.Errorf("%s: %v", text, err)
		}
	}
	p := load(t, `require: [{claim: sevsnp.host-data, of: cpu, in: ["`+hostData+`"]}]`)
	expect(t, policy.Decide(goodSet(), p, now), policy.Accept)
	expect(t, policy.Decide(with(t, "sevsnp.host-data", value("01")), p, now), policy.Reject, "sevsnp.host-data")
}

// Row L06: a verifier for one product meets another and speaks of roots.
func TestL06OtherProduct(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.signature, of: cpu}, {claim: sevsnp.product, of: cpu, is: Milan}]")
	v := policy.Decide(with(t, "sevsnp.product", value("Genoa")), p, now)
	expect(t, v, policy.Reject, "sevsnp.product")
	if r := v.Reasons[0]; r.Observed != "Genoa" || r.Required != "is Milan" || r.Rule != "require[1] sevsnp.product" {
		t.Errorf("reason %+v", r)
	}
	expect(t, policy.Decide(goodSet(), p, now), policy.Accept)
}

// Row L07: the TCB of a report is only compared with its own certificate.
func TestL07OldTCBBelowFloor(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.cert-tcb, of: cpu}, {claim: sevsnp.tcb, of: cpu, min: floors}]")
	old := with(t, "sevsnp.tcb", value("bl=4 tee=0 snp=23 ucode=219"))
	for i := range old {
		if old[i].ID == "sevsnp.cert-tcb" {
			old[i].Value = "bl=4 tee=0 snp=23 ucode=219" // the certificate matches
		}
	}
	v := policy.Decide(old, p, now)
	expect(t, v, policy.Reject, "sevsnp.tcb")
	if r := v.Reasons[0]; r.Required != "at least snp=24, the floor of Milan" || r.Observed != "bl=4 tee=0 snp=23 ucode=219" {
		t.Errorf("reason %+v", r)
	}
	expect(t, policy.Decide(goodSet(), p, now), policy.Accept)

	product := func(line, tcb string) claim.Set {
		s := with(t, "sevsnp.tcb", value(tcb))
		s.Find("sevsnp.product", "cpu:0").Value = line
		return s
	}
	t.Run("the component's own line", func(t *testing.T) {
		expect(t, policy.Decide(product("Genoa", "bl=4 tee=0 snp=23 ucode=219"), p, now), policy.Accept)
		expect(t, policy.Decide(product("Genoa", "bl=4 tee=0 snp=22 ucode=219"), p, now), policy.Reject, "sevsnp.tcb")
	})
	t.Run("a line without floor", func(t *testing.T) {
		v := policy.Decide(product("Turin", "fmc=0 bl=4 tee=0 snp=99 ucode=219"), p, now)
		expect(t, v, policy.Undecided, "sevsnp.tcb")
		if r := v.Reasons[0]; r.Observed != "no-reference: no floor is known for product line Turin" || r.Who != claim.Relying {
			t.Errorf("reason %+v", r)
		}
	})
	t.Run("a floor of the policy's own", func(t *testing.T) {
		own := load(t, `floors:
- {product: Turin, min: fmc=1 snp=3, source: our own test, date: 2026-01-01T00:00:00Z}
- {product: Milan, min: snp=25, source: our own test, date: 2026-01-01T00:00:00Z}
require: [{claim: sevsnp.tcb, of: cpu, min: floors}]`)
		expect(t, policy.Decide(product("Turin", "fmc=1 bl=0 tee=0 snp=3 ucode=0"), own, now), policy.Accept)
		expect(t, policy.Decide(product("Turin", "fmc=0 bl=9 tee=9 snp=9 ucode=9"), own, now), policy.Reject, "sevsnp.tcb")
		expect(t, policy.Decide(goodSet(), own, now), policy.Reject, "sevsnp.tcb")
		expect(t, policy.Decide(product("Genoa", "bl=4 tee=0 snp=23 ucode=219"), own, now), policy.Accept)
	})
	t.Run("product unknown", func(t *testing.T) {
		expect(t, policy.Decide(with(t, "sevsnp.product", unknown(claim.Internal)), p, now), policy.Undecided, "sevsnp.product")
		expect(t, policy.Decide(with(t, "sevsnp.product", contradict), p, now), policy.Reject, "sevsnp.product")
	})
}

// Row L09: no reference values are configured, and the verdict warns, or affirms all the same.
func TestL09NoReference(t *testing.T) {
	noLists := with(t, "guest.measured", unknown(claim.NoReference))
	v := policy.Decide(noLists, builtin(t, "confidential-cpu"), now)
	expect(t, v, policy.Undecided, "guest.measured")
	if v.Reasons[0].Who != claim.Relying {
		t.Errorf("who is to mend it: %s", v.Reasons[0].Who)
	}

	require := "require: [{claim: guest.measured, of: node}, {claim: agent.measured, of: node}]\nreferences: "
	other := canon.Sum([]byte("another list"))
	expect(t, policy.Decide(goodSet(), load(t, require+"["+list.String()+"]"), now), policy.Accept)
	expect(t, policy.Decide(goodSet(), load(t, require+"["+other.String()+", "+list.String()+"]"), now), policy.Accept)
	v = policy.Decide(goodSet(), load(t, require+"["+other.String()+"]"), now)
	expect(t, v, policy.Undecided, "guest.measured", "agent.measured")
	if r := v.Reasons[0]; r.Observed != "no-reference: none of the policy's lists of reference values affirmed it" || r.Status != claim.Unknown {
		t.Errorf("reason %+v", r)
	}
}

// What mends an unknown claim is in the appraiser's hand where it lacks something to compare with, and in nobody else's;
// where no expectation and no list of guests would help, the reason says what does.
func TestFixOfUnknown(t *testing.T) {
	for _, c := range []struct {
		format, id string
		code       string
		who        claim.Party
		fix        string
	}{
		{"tpm", "tpm.ak-bound", claim.NoExpectation, claim.Provider, "attestation key activated"},
		{"tpm", "tpm.ak-attributes", claim.NoExpectation, claim.Relying, "appraise with the challenge"},
		{"tdx", "tdx.qe-signer", claim.NoReference, claim.Relying, "add to the root set"},
		{"tdx", "tdx.qe-report", claim.NoReference, claim.Relying, "give the appraiser reference values"},
		{"tdx", "tdx.qe-signer", claim.Internal, claim.Relying, "appraise again"},
		{"sevsnp", "guest.measured", claim.NoReference, claim.Relying, "reference values of the guest image"},
		{"sevsnp", "guest.measured", claim.EvidenceMissing, claim.Provider, "evidence that measures the guest"},
		{"sevsnp", "binding.seal", claim.NoExpectation, claim.Provider, "what the agent collected"},
		{"sevsnp", "binding.possession", claim.NoExpectation, claim.Provider, "what the agent collected"},
		{"sevsnp", "sevsnp.chain", claim.CollateralMissing, claim.Relying, "fetch anew"},
		{"sevsnp", "sevsnp.chain", "untrusted", claim.Provider, "the certificate that AMD's key distribution service has"},
		{"sevsnp", "sevsnp.chain", "not-yet-valid", claim.Relying, "at a time when the certificate is valid"},
		{"sevsnp", "sevsnp.revocation", claim.CollateralMissing, claim.Relying, "AMD's revocation list"},
		{"sevsnp", "sevsnp.revocation", claim.CollateralRefused, claim.Relying, "AMD's revocation list"},
		{"sevsnp", "sevsnp.revocation", "revoked", claim.Provider, "ask the vendor why"},
		{"sevsnp", "sevsnp.revocation", "certificate-hold", claim.Vendor, "take the suspension back"},
		{"tdx", "tdx.collateral", claim.CollateralMissing, claim.Relying, "fetch TCB info"},
		{"tdx", "tdx.tcb-status", "revoked", claim.Provider, "update BIOS"},
	} {
		of := cmp.Or(map[string]string{"tpm": "tpm", "guest": "node", "binding": "node"}[claim.Room(c.id)], "cpu")
		p := load(t, "require: [{claim: "+c.id+", of: "+of+"}]")
		v := policy.Decide(altered(t, sound(c.format), c.id, unknown(c.code)), p, now)
		if len(v.Reasons) != 1 || v.Reasons[0].Claim != c.id || v.Reasons[0].Who != c.who || !strings.Contains(v.Reasons[0].Fix, c.fix) {
			t.Errorf("%s %s: %+v, want %s to %q", c.id, c.code, v.Reasons, c.who, c.fix)
		}
	}
}

// A value of another kind is not mended by showing the same thing again.
func TestFixOfAnotherValue(t *testing.T) {
	for _, c := range []struct{ id, of, fix string }{
		{"guest.measured", "node", "let what the policy asks for measure the guest"},
		{"party.jurisdiction", "party", "under the law of a country that the policy names"},
	} {
		require := map[string]string{"guest.measured": "is: paravisor", "party.jurisdiction": "in: [NL]"}[c.id]
		v := policy.Decide(goodSet(), load(t, "require: [{claim: sevsnp.signature, of: cpu}, {claim: "+c.id+", of: "+c.of+", "+require+"}]"), now)
		if len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0].Fix, c.fix) {
			t.Errorf("%s: %+v, want the fix %q", c.id, v.Reasons, c.fix)
		}
	}
}

// Row C08: a TCB is compared as one integer, so that a high part hides a low one.
func TestC08PartByPart(t *testing.T) {
	for _, c := range []struct {
		floor, tcb string
		outcome    policy.Outcome
	}{
		{"bl=4 snp=24 ucode=210", "bl=4 tee=0 snp=24 ucode=210", policy.Accept},
		{"bl=4 snp=24 ucode=210", "bl=4 tee=0 snp=23 ucode=255", policy.Reject}, // the greater integer, the lower firmware
		{"bl=4 snp=24 ucode=210", "bl=3 tee=9 snp=25 ucode=255", policy.Reject},
		{"bl=4 snp=24 ucode=210", "bl=9 tee=9 snp=99 ucode=209", policy.Reject},
		{"snp=24", "bl=0 tee=0 snp=24 ucode=0", policy.Accept},
		{"fmc=1 snp=3", "fmc=1 bl=0 tee=0 snp=3 ucode=0", policy.Accept},
		{"fmc=1 snp=3", "fmc=0 bl=0 tee=0 snp=3 ucode=0", policy.Reject},
		{"fmc=0 snp=3", "bl=0 tee=0 snp=3 ucode=0", policy.Reject}, // a part that the report lacks is not zero
	} {
		t.Run(c.floor+" against "+c.tcb, func(t *testing.T) {
			p := load(t, "require: [{claim: sevsnp.tcb, of: cpu, min: "+c.floor+"}]")
			v := policy.Decide(with(t, "sevsnp.tcb", value(c.tcb)), p, now)
			if v.Outcome != c.outcome {
				t.Errorf("%s", v.Outcome)
			}
		})
	}
	p := load(t, "require: [{claim: sevsnp.tcb, of: cpu, min: snp=24}]")
	expect(t, policy.Decide(with(t, "sevsnp.tcb", value("snp=0x99")), p, now), policy.Undecided, "sevsnp.tcb")
}

// Row T04: bounds are part of the interval.
func TestT04BoundsAreInclusive(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.revocation, of: cpu}]")
	between := func(from, until canon.Time) claim.Set {
		return with(t, "sevsnp.revocation", func(c *claim.Claim) { c.From, c.Until = from, until })
	}
	for _, s := range []claim.Set{between(now, 0), between(0, now), between(now, now), between(0, 0)} {
		expect(t, policy.Decide(s, p, now), policy.Accept)
	}
	for _, s := range []claim.Set{between(now+1, 0), between(0, now-1), between(now-9, now-1)} {
		v := policy.Decide(s, p, now)
		expect(t, v, policy.Undecided, "sevsnp.revocation")
		if !strings.HasPrefix(v.Reasons[0].Observed, "lapsed: it speaks of ") {
			t.Errorf("observed %q", v.Reasons[0].Observed)
		}
	}
}

// A claim lapses with what it rests on: the certificate is at the bottom of every field of the report.
func TestLapseOfABase(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.tcb, of: cpu}, {claim: sevsnp.vmpl, of: cpu}]")
	expect(t, policy.Decide(goodSet(), p, now+1000), policy.Accept)
	v := policy.Decide(goodSet(), p, now+1001)
	expect(t, v, policy.Undecided, "sevsnp.chain")
	if r := v.Reasons[0]; r.Rule != "require[0] sevsnp.tcb" || r.Observed != "lapsed: it speaks of 2026-02-02T02:23:20Z to 2026-02-02T02:56:40Z, not of 2026-02-02T02:56:41Z" {
		t.Errorf("reason %+v", r)
	}
}

func TestMaxAge(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.freshness, of: cpu, max-age: 15m}]")
	since := func(from canon.Time) claim.Set {
		return with(t, "sevsnp.freshness", func(c *claim.Claim) { c.From = from })
	}
	expect(t, policy.Decide(since(now-900), p, now), policy.Accept)
	expect(t, policy.Decide(since(now-901), p, now), policy.Reject, "sevsnp.freshness")
	v := policy.Decide(since(0), p, now)
	expect(t, v, policy.Undecided, "sevsnp.freshness")
	if v.Reasons[0].Observed != "no-time: it does not say since when" {
		t.Errorf("observed %q", v.Reasons[0].Observed)
	}
}

func TestRefuse(t *testing.T) {
	p := load(t, `require: [{claim: sevsnp.signature, of: cpu}]
refuse: ["*.freshness", binding.*, sevsnp.id-block]`)
	expect(t, policy.Decide(goodSet(), p, now), policy.Accept)
	for _, id := range []string{"sevsnp.freshness", "binding.seal", "binding.challenge", "sevsnp.id-block"} {
		expect(t, policy.Decide(with(t, id, contradict), p, now), policy.Reject, id)
		expect(t, policy.Decide(with(t, id, unknown(claim.EvidenceMissing)), p, now), policy.Accept)
	}
	expect(t, policy.Decide(with(t, "sevsnp.host-data", contradict), p, now), policy.Accept)
}

// What cannot be read is refused by every policy, for that reason alone, although nothing else of it is known.
func TestStructureContradicted(t *testing.T) {
	narrow := load(t, "require: [{claim: sevsnp.vmpl, of: cpu}]")
	t.Run("statement", func(t *testing.T) {
		v := policy.Decide(with(t, "statement.structure", contradict), narrow, now)
		expect(t, v, policy.Reject, "statement.structure")
		if v.Reasons[0].Rule != "always *.structure" || v.Reasons[0].Required != "not contradicted" {
			t.Errorf("reason %+v", v.Reasons[0])
		}
	})
	unreadable := func(s claim.Set, id, subject string) claim.Set {
		s = slices.DeleteFunc(s, func(c claim.Claim) bool { return c.ID == id })
		s.Contradict(id, subject, "", claim.Because(claim.Malformed, "size 1183, want 1184"))
		s.Settle()
		return s
	}
	report := unreadable(without("sevsnp"), "sevsnp.structure", "cpu:0")
	bundle := unreadable(nil, "bundle.structure", "node")
	for _, p := range []*policy.Policy{narrow, builtin(t, "genuine"), builtin(t, "confidential-cpu")} {
		t.Run(p.Name(), func(t *testing.T) {
			expect(t, policy.Decide(report, p, now), policy.Reject, "sevsnp.structure")
			expect(t, policy.Decide(bundle, p, now), policy.Reject, "bundle.structure")
		})
	}
}

// A claim that is unknown because of another is no reason of its own; the one at the bottom is named, once.
func TestConsequences(t *testing.T) {
	narrow := load(t, "require: [{claim: sevsnp.tcb, of: cpu}, {claim: sevsnp.vmpl, of: cpu}, {claim: guest.measured, of: node}]")
	for _, c := range []struct {
		name, id string
		change   func(*claim.Claim)
		outcome  policy.Outcome
	}{
		{"forged", "sevsnp.signature", contradict, policy.Reject},
		{"no certificate", "sevsnp.chain", unknown(claim.CollateralMissing), policy.Undecided},
		{"no VLEK", "sevsnp.chain", unknown(claim.EvidenceMissing), policy.Reject},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := with(t, c.id, c.change)
			v := policy.Decide(s, narrow, now)
			expect(t, v, c.outcome, c.id)
			if v.Reasons[0].Rule != "require[0] sevsnp.tcb" {
				t.Errorf("rule %s", v.Reasons[0].Rule)
			}
			expect(t, policy.Decide(s, builtin(t, "confidential-cpu"), now), c.outcome, c.id)
		})
	}
	t.Run("by its reason alone", func(t *testing.T) { // a room may say what a claim rests on without the catalogue's help
		s := with(t, "sevsnp.chain", unknown(claim.CollateralMissing))
		key := s.Find("sevsnp.signing-key", "cpu:0")
		key.Status, key.Reason = claim.Unknown, claim.RestsOn+" sevsnp.chain"
		expect(t, policy.Decide(s, load(t, "require: [{claim: sevsnp.signing-key, of: cpu}]"), now), policy.Undecided, "sevsnp.chain")
	})
	t.Run("two at the bottom", func(t *testing.T) {
		s := with(t, "sevsnp.signing-key", contradict)
		chain := s.Find("sevsnp.chain", "cpu:0")
		unknown(claim.CollateralMissing)(chain)
		s.Settle()
		expect(t, policy.Decide(s, narrow, now), policy.Reject, "sevsnp.chain", "sevsnp.signing-key")
	})
	t.Run("a set that nobody settled", func(t *testing.T) {
		s := goodSet()
		contradict(s.Find("sevsnp.chain", "cpu:0"))
		expect(t, policy.Decide(s, narrow, now), policy.Reject, "sevsnp.chain")
	})
	t.Run("a ring", func(t *testing.T) {
		s := goodSet()
		s.Find("sevsnp.chain", "cpu:0").Basis = []string{"sevsnp.tcb"}
		v := policy.Decide(s, narrow, now)
		if v.Outcome != policy.Undecided || len(v.Reasons) == 0 {
			t.Errorf("%s for %+v", v.Outcome, v.Reasons)
		}
	})
}

// Several issuers may speak of one thing; each must satisfy the rule, whatever the order of the set.
func TestEveryIssuerMustSatisfy(t *testing.T) {
	p := load(t, "require: [{claim: sevsnp.vmpl, of: cpu, is: 0}]")
	s := goodSet()
	s.Add(claim.Claim{ID: "sevsnp.vmpl", Subject: "cpu:0", Status: claim.Affirmed, Value: "2", Issuer: "another"})
	expect(t, policy.Decide(s, p, now), policy.Reject, "sevsnp.vmpl")
	slices.Reverse(s)
	expect(t, policy.Decide(s, p, now), policy.Reject, "sevsnp.vmpl")
	for _, name := range policy.Builtins() {
		reversed := hosts(name)[0].set()
		slices.Reverse(reversed)
		expect(t, policy.Decide(reversed, builtin(t, name), now), policy.Accept)
	}
}

func TestZeroPolicyAndZeroStatus(t *testing.T) {
	if v := policy.Decide(goodSet(), new(policy.Policy), now); v.Outcome != policy.Undecided {
		t.Errorf("the zero policy says %s", v.Outcome)
	}
	s := with(t, "sevsnp.vmpl", func(c *claim.Claim) { c.Status = 0 })
	expect(t, policy.Decide(s, builtin(t, "confidential-cpu"), now), policy.Undecided, "sevsnp.vmpl")
}

func TestOutcome(t *testing.T) {
	for o, code := range map[policy.Outcome]int{policy.Accept: 0, policy.Reject: 1, policy.Undecided: 3, 0: 3} {
		if o.ExitCode() != code {
			t.Errorf("%s exits with %d", o, o.ExitCode())
		}
		text, err := o.MarshalText()
		var again policy.Outcome
		if o != 0 && (err != nil || again.UnmarshalText(text) != nil || again != o) || o == 0 && err == nil {
			t.Errorf("%s: text %q, %v", o, text, err)
		}
	}
	var o policy.Outcome
	if o.UnmarshalText(nil) == nil || o.UnmarshalText([]byte("Accept")) == nil {
		t.Error("a word that is no outcome was read")
	}
}

// A verdict has one form: written, read and written again.
func TestVerdictRoundTrip(t *testing.T) {
	for _, s := range []claim.Set{goodSet(), with(t, "sevsnp.debug-off", contradict), nil} {
		v := policy.Decide(s, builtin(t, "confidential-cpu"), now)
		b, err := canon.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var again policy.Verdict
		if err := canon.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", v) {
			t.Errorf("got %+v, want %+v", again, v)
		}
	}
}

// FuzzDecide holds that altering the claims of a sound set never makes a verdict panic, never leaves a reject or an
// undecided without a reason, and that only a set whose required claims are all affirmed is accepted.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(0), []byte{3, 2, 0}, int64(now))
	f.Add(uint8(1), []byte{1, 1, 9, 20, 3, 1}, int64(now+2000))
	f.Add(uint8(3), []byte{60, 1, 9, 20, 3, 1}, int64(now))
	p, _ := policy.Builtin("confidential-cpu")
	f.Fuzz(func(t *testing.T, of uint8, edits []byte, at int64) {
		machines := hosts("confidential-cpu")
		s := machines[int(of)%len(machines)].set()
		for ; len(edits) >= 3; edits = edits[3:] {
			c := &s[int(edits[0])%len(s)]
			switch edits[1] % 6 {
			case 0, 1, 2, 3:
				c.Status, c.Reason = claim.Status(edits[1]%6), claim.RestsOn+" "+claim.Reason(s[int(edits[2])%len(s)].ID)
			case 4:
				c.Until = canon.Time(at) + canon.Time(edits[2]) - 128
			case 5:
				c.Basis = append(c.Basis, s[int(edits[2])%len(s)].ID+"@"+s[int(edits[2])%len(s)].Subject)
			}
		}
		v := policy.Decide(s, p, canon.Time(at))
		if (v.Outcome == policy.Accept) != (len(v.Reasons) == 0) {
			t.Fatalf("%s with reasons %+v", v.Outcome, v.Reasons)
		}
		if v.Outcome != policy.Accept {
			return
		}
		for _, r := range p.Document().Require {
			for _, id := range required(s, r) {
				for _, c := range s {
					if c.ID == id && (c.Status != claim.Affirmed || c.Until != 0 && c.Until < canon.Time(at)) {
						t.Fatalf("accepted with %+v", c)
					}
				}
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	s, p := goodSet(), builtin(b, "confidential-cpu")
	for b.Loop() {
		if policy.Decide(s, p, now).Outcome != policy.Accept {
			b.Fatal("not accepted")
		}
	}
	b.ReportMetric(float64(len(s)), "claims")
}
