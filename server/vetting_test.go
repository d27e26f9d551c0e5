package server_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
)

const day = 24 * time.Hour

// issuerKey is an issuer's key, made of its name.
type issuerKey struct{ ed25519.PrivateKey }

func keyOfIssuer(name string) issuerKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return issuerKey{ed25519.NewKeyFromSeed(seed[:])}
}

func (k issuerKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}
func (k issuerKey) Public() crypto.PublicKey { return k.PrivateKey.Public() }

// vettingPolicy asks for a tier beside the evidence.
const vettingPolicy = `type: assay/policy/v1
name: vetted-cpu
require:
  - {claim: sevsnp.signature, of: cpu}
  - {claim: party.tier, of: party, is: attested}
refuse: ["*.revocation", set.*]
`

// longCRL lets AMD's revocation list of the tests be good for a year.
func longCRL(s *server.Settings) {
	crl := mint.NewAMD(sevsnp.Milan).CRL(worldBegin.AddDate(0, 0, -7), worldBegin.AddDate(1, 0, 0))
	if err := os.WriteFile(filepath.Join(s.Collateral, "milan.crl"), crl, 0o600); err != nil {
		panic(err)
	}
}

func withPolicy(t *testing.T, text string) func(*server.Settings) {
	path := filepath.Join(t.TempDir(), "vetted-cpu.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return func(s *server.Settings) { s.Policy = path }
}

func spkiOf(t *testing.T, issuer string) []byte {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(keyOfIssuer(issuer).Public())
	must(t, err)
	return spki
}

func (l *lab) registerIssuer(id string, attributes ...string) {
	l.t.Helper()
	must(l.t, l.client(l.admin).RegisterIssuer(l.t.Context(), client.IssuerRegistration{ID: id, Key: spkiOf(l.t, id), Attributes: attributes, Until: canon.At(l.clock.Now().Add(400 * day))}))
}

// TestIssuerRegisteredTwice: an operator whose answer was lost registers the issuer again, within the same second.
func TestIssuerRegisteredTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		l.registerIssuer("lei.example", "party.identity")
		l.registerIssuer("lei.example", "party.identity")
		l.say("lei.example", vetting.Subject{Kind: vetting.UnitProvider, ID: "p1"}, "party.identity", claim.IdentityContact, 300*day)
		l.audited()
	})
}

// say hands in a claim and returns its identity.
func (l *lab) say(issuer string, of vetting.Subject, attribute, value string, life time.Duration) canon.Digest {
	l.t.Helper()
	now := canon.At(l.clock.Now())
	c := vetting.Claim{Type: vetting.ClaimType, Issuer: issuer, Subject: of, Attribute: attribute, Value: value, Issued: now, Expires: now + canon.Time(life/time.Second)}
	env, err := c.Seal(keyOfIssuer(issuer))
	must(l.t, err)
	_, err = l.client(l.admin).SendClaim(l.t.Context(), env)
	must(l.t, err)
	return env.Identity()
}

func (l *lab) act(id string, a client.CertificateAct) vetting.Certificate {
	l.t.Helper()
	var c vetting.Certificate
	must(l.t, l.client(l.admin).ActOnCertificate(l.t.Context(), id, a, &c))
	return c
}

// asked lets somebody of the house ask for a certificate, and assigns it to somebody else, who is returned.
func (l *lab) asked(r client.CertificateRequest, c *vetting.Certificate) (reviewer client.NewToken) {
	l.t.Helper()
	olga, rita := l.token(client.Grant{Role: client.RoleAdmin}), l.token(client.Grant{Role: client.RoleAdmin})
	must(l.t, l.client(olga.Token).RequestCertificate(l.t.Context(), r, c))
	*c = l.act(c.ID, client.CertificateAct{Act: vetting.ActAssign, Reviewer: rita.Record.Principal})
	return rita
}

// pass passes a certificate by its reviewer's token.
func (l *lab) pass(reviewer client.NewToken, id string) (c vetting.Certificate) {
	l.t.Helper()
	must(l.t, l.client(reviewer.Token).ActOnCertificate(l.t.Context(), id, client.CertificateAct{Act: vetting.ActPass}, &c))
	return c
}

func (l *lab) certificate(id string) vetting.Certificate {
	l.t.Helper()
	var c vetting.Certificate
	must(l.t, l.client(l.admin).Certificate(l.t.Context(), id, &c))
	return c
}

const testEntity = "LEI:529900T8BM49AURSDO55"

// vouch lets an issuer say who a provider is.
func (l *lab) vouch(provider string, life time.Duration) {
	l.t.Helper()
	p := vetting.Subject{Kind: vetting.UnitProvider, ID: provider}
	l.say("lei.example", p, "party.identity", claim.IdentityLegalEntity, life)
	l.say("lei.example", p, "party.legal-entity", testEntity, life)
	l.say("lei.example", p, "party.jurisdiction", "DE", life)
}

// proveFor lets days pass in which a host proves itself daily.
func (l *lab) proveFor(n *node, days int) {
	l.t.Helper()
	for range days {
		l.rest(day)
		n.prove()
	}
}

// certify takes a host of a provider through to a certificate of the tier attested.
func (l *lab) certify(provider string, n *node) vetting.Certificate {
	l.t.Helper()
	var c vetting.Certificate
	must(l.t, l.client(l.admin).SetProvider(l.t.Context(), provider, client.ProviderFacts{Stake: true, ContactHours: 4}))
	rita := l.asked(client.CertificateRequest{Provider: provider, Host: n.id, Tier: claim.TierAttested}, &c)
	return l.pass(rita, c.ID)
}

func want(t *testing.T, c vetting.Certificate, status, tier string) {
	t.Helper()
	if c.Status != status || c.Tier != tier {
		t.Errorf("certificate is %s (%s) in tier %q, want %s in %q; standing lacks %v, findings %v", c.Status, c.Reason, c.Tier, status, tier, c.Standing.Missing, c.Standing.Findings)
	}
}

// TestCertificateLives: a certificate is given, lets verdicts speak of the party, and rests on evidence and claims; an auditor
// recomputes all of it, and a rebuilt database has the same.
func TestCertificateLives(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL, withPolicy(t, vettingPolicy))
		n := l.join("one")
		if d, evidence := n.prove(); d.Outcome != client.Accept || l.verdict(evidence).Scope != policy.ScopeEvidence {
			t.Errorf("without a certificate: %+v", d)
		}
		l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
		l.vouch("p1", 300*day)
		l.proveFor(n, 31)
		c := l.certify("p1", n)
		want(t, c, vetting.Certified, claim.TierAttested)
		if len(c.Place.Devices) != 1 || c.Place.Devices[0].Model != "milan" {
			t.Errorf("devices: %+v", c.Place.Devices)
		}
		d, evidence := n.prove()
		if v := l.verdict(evidence); d.Outcome != client.Accept || v.Scope != policy.ScopeFull {
			t.Errorf("with a certificate: %+v", v)
		}
		// Its evidence ages: it is suspended, and the next evidence clears that.
		l.rest(3 * day)
		l.advance()
		want(t, l.certificate(c.ID), vetting.Suspended, claim.TierAttested)
		if d, _ := n.prove(); d.Outcome != client.Undecided {
			t.Errorf("while suspended: %+v", d)
		}
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierAttested)
		l.audited()
		rebuiltAlike(t, url, "machine", "observed", "provider", "place_unit", "vetted", "notice")
	})
}

// measuredPolicy asks for a benchmark beside the evidence.
const measuredPolicy = `type: assay/policy/v1
name: measured-cpu
require:
  - {claim: sevsnp.signature, of: cpu}
  - {claim: party.measured, of: party, min: 100000}
refuse: ["*.revocation", set.*]
`

// TestMeasuredInVerdicts: a verdict is told what benchmarks credit its node with, from the result on until the measure lapses,
// and what is enough is the policy's to say.
func TestMeasuredInVerdicts(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL, withPolicy(t, measuredPolicy))
		n := l.join("one")
		measure := func(took time.Duration, spoil bool) {
			l.plan(n)
			r := n.compute()
			l.clock.advance(took)
			if spoil {
				r.roots[0]++
			}
			r.answer()
			l.advance()
		}
		told := func(when, outcome, scope, says string) {
			t.Helper()
			d, evidence := n.prove()
			if v := l.verdict(evidence); d.Outcome != outcome || v.Scope != scope || says != "" && !slices.ContainsFunc(v.Reasons, func(r policy.Reason) bool { return r.Code == says }) {
				t.Errorf("%s: %s over %s, %+v", when, v.Outcome, v.Scope, v.Reasons)
			}
		}
		measure(10*time.Second, false)
		told("without a certificate", client.Accept, policy.ScopeEvidence, "")
		l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
		l.vouch("p1", 300*day)
		must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
		var c vetting.Certificate
		rita := l.asked(client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierIdentified}, &c)
		c = l.pass(rita, c.ID)
		want(t, c, vetting.Certified, claim.TierIdentified)
		told("measured", client.Accept, policy.ScopeFull, "")
		if shown := l.measured(n).Claims; len(shown) != 1 || fmt.Sprint(shown[0].Claim) != fmt.Sprint(*c.Party().Claims.Find("party.measured", claim.SubjectParty)) {
			t.Errorf("operators see %+v, verdicts are told %+v", shown, c.Party().Claims)
		}
		l.rest(day)
		measure(21*time.Second, false)
		told("half as fast", client.Reject, policy.ScopeFull, "party.least")
		l.rest(day)
		measure(10*time.Second, true)
		told("and then wrong", client.Undecided, policy.ScopeFull, "party.not-appraised")
		l.rest(day)
		measure(5*time.Second, false) // what is wrong is not the last any more
		told("the least counts", client.Reject, policy.ScopeFull, "party.least")
		l.proveFor(n, 27)
		l.rest(time.Hour) // the slow one is older than thirty days only tomorrow
		l.advance()
		told("still", client.Reject, policy.ScopeFull, "party.least")
		l.rest(day)
		l.advance()
		told("the slow one has lapsed", client.Accept, policy.ScopeFull, "")
		l.rest(3 * day)
		told("all have lapsed", client.Undecided, policy.ScopeFull, "party.lapsed")
		l.audited()
		rebuiltAlike(t, url, "machine", "observed")
	})
}

// verdict returns the verdict on evidence, as it was signed.
func (l *lab) verdict(evidence canon.Digest) policy.Verdict {
	l.t.Helper()
	r, err := l.client(l.admin).Result(l.t.Context(), evidence)
	must(l.t, err)
	res, err := policy.ParseResult(r.Result.Payload)
	must(l.t, err)
	return res.Verdict
}

// providerPage is what the server says of a provider.
type providerPage struct {
	Provider     string                `json:"provider"`
	Stake        bool                  `json:"stake"`
	ContactHours int64                 `json:"contact_hours"`
	Certificates []vetting.Certificate `json:"certificates"`
	Devices      []vetting.DeviceState `json:"devices"`
	Notices      []vetting.Notice      `json:"notices"`
}

// TestSecondAgentWithOneDevice: the newcomer is contested, both providers are told, and the holder keeps its standing.
func TestSecondAgentWithOneDevice(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		n := l.join("one")
		n.prove()
		l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
		l.vouch("p1", 300*day)
		l.proveFor(n, 31)
		c := l.certify("p1", n)
		n.prove() // the device is known to be this host's
		second := l.join("one")
		if d, _ := second.prove(); d.Outcome != client.Reject {
			t.Errorf("the newcomer: %s", d.Outcome)
		}
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierAttested)
		var p providerPage
		must(t, l.client(l.admin).Provider(t.Context(), "p1", &p))
		if !slices.ContainsFunc(p.Notices, func(n vetting.Notice) bool { return n.Notice == vetting.NoticeContested }) {
			t.Errorf("the holder was not told: %+v", p.Notices)
		}
		if len(p.Devices) != 1 || p.Devices[0].Status != vetting.Contested || !p.Devices[0].ContestedBy(second.id) {
			t.Errorf("devices: %+v", p.Devices)
		}
		if !strings.Contains(l.log.String(), "a device is contested") {
			t.Error("nobody was alarmed")
		}
		// Revoked, the newcomer contests it no more.
		must(t, l.client(l.admin).Revoke(t.Context(), second.id))
		l.advance()
		must(t, l.client(l.admin).Provider(t.Context(), "p1", &p))
		if len(p.Devices) != 1 || p.Devices[0].Status != vetting.Held || p.Devices[0].Reason != vetting.ReasonSettled || p.Devices[0].Holder.Host != n.id {
			t.Errorf("devices when the newcomer is revoked: %+v", p.Devices)
		}
		l.audited()
	})
}

// TestSecondAgentWithOneEK: a second agent that drives the same TPM, a real one in software with an endorsement key of its
// maker, is contested even where the TPM opens its secret for it. Both nodes are named in an alarm, the holder's provider is
// told, and the holder keeps device, certificate and verdict.
func TestSecondAgentWithOneEK(t *testing.T) {
	m, dev := bareMetal(t)
	l := tpmLab(t, "", "genuine", m)
	holder := l.joinTPM(dev)
	holder.activate(dev)
	if d, _ := holder.prove(); d.Outcome != client.Accept {
		t.Fatalf("the holder: %+v", d)
	}
	must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
	var c vetting.Certificate
	rita := l.asked(client.CertificateRequest{Provider: "p1", Host: holder.id, Tier: claim.TierAnonymous}, &c)
	want(t, l.pass(rita, c.ID), vetting.Certified, claim.TierAnonymous)
	holder.prove() // the device is known to be this host's

	second := l.joinTPM(dev)
	second.activate(dev)
	d, evidence := second.prove()
	if d.Outcome != client.Reject || len(d.Reasons) != 1 || d.Reasons[0].Code != "device-unique.contested" || !strings.Contains(d.Reasons[0].Observed, holder.id) {
		t.Errorf("the newcomer: %+v", d)
	}
	if of := second.claims(evidence)("tpm.ak-bound", "tpm:0"); !strings.HasPrefix(of, "affirmed activation") {
		t.Errorf("the newcomer's key is not activated, and the test shows nothing: %s", of)
	}
	want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)
	var p providerPage
	must(t, l.client(l.admin).Provider(t.Context(), "p1", &p))
	if !slices.ContainsFunc(p.Notices, func(n vetting.Notice) bool { return n.Notice == vetting.NoticeContested }) {
		t.Errorf("the holder's provider was not told: %+v", p.Notices)
	}
	if len(p.Devices) != 1 || !strings.HasPrefix(p.Devices[0].Device, "tpm-ek:") || p.Devices[0].Status != vetting.Contested || p.Devices[0].Holder.Host != holder.id || !p.Devices[0].ContestedBy(second.id) {
		t.Errorf("devices: %+v", p.Devices)
	}
	alarms := slices.DeleteFunc(strings.Split(l.log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "alarm=true") })
	for _, words := range []string{"two nodes show one device", "a device is contested"} {
		if !slices.ContainsFunc(alarms, func(line string) bool {
			return strings.Contains(line, words) && strings.Contains(line, holder.id) && strings.Contains(line, second.id)
		}) {
			t.Errorf("no alarm %q that names both: %q", words, alarms)
		}
	}
	if d, _ := holder.prove(); d.Outcome != client.Accept {
		t.Errorf("the holder, after that: %+v", d)
	}
	want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)
	l.audited()
}

// TestCertificatesOutliveALog: certificates go on where a log was closed, in the next one; each log is replayed as whole.
func TestCertificatesOutliveALog(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL, withPolicy(t, vettingPolicy))
		n := l.join("one")
		n.prove()
		l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
		l.vouch("p1", 300*day)
		l.proveFor(n, 31)
		c := l.certify("p1", n)
		n.prove()
		l.closeLog("assay.test/2")
		l.proveFor(n, 2)
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierAttested)
		if _, err := l.client(l.admin).Badge(t.Context(), "p1", "json"); err != nil {
			t.Error(err)
		}
		l.closeLog("assay.test/3")
		l.proveFor(n, 1)
		l.audited()
		logs := replayed(t, l.store())
		for _, r := range logs[1:] {
			if r.Carried == nil || !r.Carried.Recomputed {
				t.Errorf("%s began with %+v", r.Origin, r.Carried)
			}
		}
		rebuiltAlike(t, url, "machine", "observed")
	})
}

// TestMeasuredHost: what benchmarks credit a host with without a TEE carries the tier identified, for as long as a measure
// counts, and never the hardware of an attested one.
func TestMeasuredHost(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		n := l.join("one")
		measure := func() {
			l.plan(n)
			r := n.compute()
			l.clock.advance(10 * time.Second)
			r.answer()
			l.advance()
		}
		l.registerIssuer("lei.example", "party.identity", "party.legal-entity", "party.jurisdiction")
		l.vouch("p1", 300*day)
		must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
		var c vetting.Certificate
		rita := l.asked(client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierIdentified}, &c)
		err := l.client(rita.Token).ActOnCertificate(t.Context(), c.ID, client.CertificateAct{Act: vetting.ActPass}, &c)
		if err == nil || !strings.Contains(err.Error(), "hardware") {
			t.Errorf("passed without a benchmark: %v", err)
		}
		measure()
		c = l.pass(rita, c.ID)
		want(t, c, vetting.Certified, claim.TierIdentified)
		said := c.Party()
		if m := said.Claims.Find("party.measured", claim.SubjectParty); m == nil || m.Status != claim.Affirmed || m.Value != fmt.Sprint(c.Standing.Measured) || c.Standing.Axes.Hardware != vetting.HardwareMeasured {
			t.Errorf("it says %+v with %+v", m, c.Standing.Axes)
		}
		l.closeLog("assay.test/2") // where it still counts
		l.rest(29 * day)
		l.advance()
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierIdentified)
		l.rest(day)
		l.advance()
		if c = l.certificate(c.ID); c.Tier != claim.TierAnonymous || c.Standing.Measured != 0 {
			t.Errorf("after thirty days: %s in tier %q, measured %d", c.Status, c.Tier, c.Standing.Measured)
		}
		measure()
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierIdentified)
		l.audited()
		replayed(t, l.store())
		rebuiltAlike(t, url, "machine", "observed")
	})
}

// TestFoundByTheEngine: a host that falls silent, one that shows another processor, and one that two issuers put into two
// countries are found by the log alone, and an auditor finds the same.
func TestFoundByTheEngine(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		n := l.join("one")
		n.prove()
		for _, issuer := range []string{"one.example", "two.example"} {
			l.registerIssuer(issuer, "party.jurisdiction")
		}
		must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true}))
		var c vetting.Certificate
		rita := l.asked(client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierAnonymous}, &c)
		want(t, l.pass(rita, c.ID), vetting.Certified, claim.TierAnonymous)
		found := func(code string) bool {
			return slices.ContainsFunc(l.certificate(c.ID).Standing.Findings, func(f vetting.Finding) bool { return f.Code == code })
		}
		l.proveFor(n, 2)
		if c := l.certificate(c.ID); c.Status != vetting.Certified || len(c.Standing.Findings) != 0 {
			t.Errorf("heard each day: %s (%s) %+v", c.Status, c.Reason, c.Standing.Findings)
		}
		for range 2 {
			l.rest(day)
			l.advance()
		}
		if c := l.certificate(c.ID); c.Status != vetting.Suspended || !found(vetting.FindingHeartbeat) {
			t.Errorf("silent: %s (%s) %+v", c.Status, c.Reason, c.Standing.Findings)
		}
		n.prove()
		want(t, l.certificate(c.ID), vetting.Certified, claim.TierAnonymous)

		same := n.device
		n.device = machine(l.amd, "two")
		n.prove()
		if !found(vetting.FindingRMA) || l.certificate(c.ID).Status != vetting.Certified {
			t.Errorf("another processor: %+v", l.certificate(c.ID).Standing.Findings)
		}
		n.device = same
		n.prove()
		if found(vetting.FindingRMA) {
			t.Errorf("the same again: %+v", l.certificate(c.ID).Standing.Findings)
		}

		host := vetting.Subject{Kind: vetting.UnitHost, ID: n.id}
		l.say("one.example", host, "party.jurisdiction", "DE", 300*day)
		l.advance()
		if found(vetting.FindingLocation) {
			t.Error("one issuer contradicts nobody")
		}
		l.say("two.example", host, "party.jurisdiction", "FR", 300*day)
		l.advance()
		if c := l.certificate(c.ID); c.Status != vetting.Suspended || c.Reason != vetting.FindingLocation {
			t.Errorf("in two countries: %s (%s) %+v", c.Status, c.Reason, c.Standing.Findings)
		}
		l.closeLog("assay.test/2") // where it all goes on
		l.rest(time.Hour)
		l.advance()
		n.prove()
		l.audited()
		replayed(t, l.store())
		rebuiltAlike(t, url, "machine", "observed")
	})
}

// TestMatch: a policy is tried on the hosts with a certificate that stands, whosever they are, and none is named.
func TestMatch(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url, longCRL)
		n, other := l.join("one"), l.join("two")
		n.prove()
		other.prove() // nobody certified it
		c := l.vet("p1", n)
		renter := l.client(l.token(client.Grant{Role: client.RoleRenter, Tenant: "bank"}).Token)
		const mine = "type: assay/policy/v1\nname: mine\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\n  - {claim: party.tier, of: party, is: %s}\n"
		ask := func(text string, relax ...string) (policy.Matching, string) {
			var answer jsontext.Value
			must(t, renter.Match(t.Context(), client.MatchQuestion{Policy: text, Relax: relax}, &answer))
			var m policy.Matching
			must(t, json.Unmarshal(answer, &m))
			return m, string(answer)
		}
		m, answer := ask(fmt.Sprintf(mine, claim.TierAnonymous))
		if m.Hosts != 1 || m.Match != 1 || len(m.Costs) != 0 || strings.Contains(answer, n.id) || strings.Contains(answer, "p1") {
			t.Errorf("%s", answer)
		}
		m, answer = ask(fmt.Sprintf(mine, claim.TierAttested), "party.tier")
		if m.Match != 0 || m.Rejected != 1 || len(m.Costs) != 1 || m.Costs[0].Claim != "party.tier" || m.Costs[0].Alone != 1 || len(m.Relaxed) != 1 || m.Relaxed[0].Match != 1 || strings.Contains(answer, n.id) {
			t.Errorf("%s", answer)
		}
		for _, q := range []client.MatchQuestion{{Policy: "none: such"}, {Policy: "regulated", Relax: []string{"such"}}, {Policy: "regulated", Relax: slices.Repeat([]string{"party.tier"}, server.MaxRelax+1)}} {
			refused(t, renter.Match(t.Context(), q, &m), 400, "malformed")
		}
		l.act(c.ID, client.CertificateAct{Act: vetting.ActEnd})
		if m, answer := ask("genuine"); m.Hosts != 0 {
			t.Errorf("when no certificate stands: %s", answer)
		}
	})
}

// TestRentersSee: a renter is told what a provider's certificates say that stand or stood, and why they are not what her policy
// asks of the party, and nothing of whose host it is.
func TestRentersSee(t *testing.T) {
	l := newLab(t, "", longCRL)
	n := l.join("one")
	n.prove()
	must(t, l.client(l.admin).SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
	renter := l.token(client.Grant{Role: client.RoleRenter, Tenant: "bank"}).Token
	var c vetting.Certificate
	rita := l.asked(client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierAnonymous}, &c)
	ask := func(credential, provider, text string) (int, string) {
		body, err := canon.Marshal(client.PartyQuestion{Policy: text})
		must(t, err)
		resp, answer := l.send("POST", "/v1/providers/"+provider+"/refusal", credential, "application/json", body)
		return resp.StatusCode, string(answer)
	}
	// What was never given goes on between the provider and the operator.
	for _, path := range []string{"/v1/providers/p1", "/v1/providers/p2"} {
		if resp, answer := l.send("GET", path, renter, "", nil); resp.StatusCode != 404 || strings.Contains(string(answer), c.ID) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, answer)
		}
	}
	if status, answer := ask(renter, "p1", "regulated"); status != 404 {
		t.Errorf("%d %s", status, answer)
	}
	l.pass(rita, c.ID)
	status, answer := ask(renter, "p1", "regulated")
	for _, word := range []string{`"code":"party.value"`, `"claim":"party.tier"`, `"observed":"anonymous"`, `"required":`, `"sentence":`, `"place":"regulated.yaml:`, `"who":"provider"`, `"fix":`, `"acceptable":false`, `"open":["require`} {
		if status != 200 || !strings.Contains(answer, word) {
			t.Errorf("%d, want %s: %s", status, word, answer)
		}
	}
	const mine = "type: assay/policy/v1\nname: mine\nrequire:\n  - {claim: sevsnp.signature, of: cpu}\n  - {claim: party.tier, of: party, is: %s}\n"
	if status, answer := ask(renter, "p1", fmt.Sprintf(mine, claim.TierAnonymous)); status != 200 || !strings.Contains(answer, `"acceptable":true`) || !strings.Contains(answer, `"reasons":[]`) {
		t.Errorf("the twin: %d %s", status, answer)
	}
	if status, answer := ask(renter, "p1", fmt.Sprintf(mine, claim.TierIdentified)); status != 200 || !strings.Contains(answer, `"place":"policy.yaml:5"`) {
		t.Errorf("her own line: %d %s", status, answer)
	}
	if status, answer := ask(renter, "p1", "none: such"); status != 400 || !strings.Contains(answer, "policy.yaml:1") {
		t.Errorf("no policy: %d %s", status, answer)
	}
	theirs := l.token(client.Grant{Role: client.RoleOperator, Tenant: "dc-b"}).Token
	if status, answer := ask(theirs, "p1", "regulated"); status != 404 {
		t.Errorf("another provider: %d %s", status, answer)
	}
	// It ended, and is shown for that.
	l.act(c.ID, client.CertificateAct{Act: vetting.ActEnd})
	resp, page := l.send("GET", "/v1/providers/p1", renter, "", nil)
	if resp.StatusCode != 200 || !strings.Contains(string(page), `"status":"lapsed"`) || strings.Contains(string(page), n.id) || strings.Contains(string(page), c.Place.Devices[0].ID) || strings.Contains(string(page), rita.Record.Principal) {
		t.Errorf("%d %s", resp.StatusCode, page)
	}
	if resp, list := l.send("GET", "/v1/providers", renter, "", nil); resp.StatusCode != 200 || !strings.Contains(string(list), `"certificates":0,"provider":"p1"`) && !strings.Contains(string(list), `{"provider":"p1","certificates":0}`) {
		t.Errorf("%d %s", resp.StatusCode, list)
	}
	if status, answer := ask(renter, "p1", fmt.Sprintf(mine, claim.TierAnonymous)); status != 200 || !strings.Contains(answer, `"code":"party.lapsed"`) || strings.Contains(answer, n.id) {
		t.Errorf("lapsed: %d %s", status, answer)
	}
}
