package vetting_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

const (
	day  = canon.Time(24 * 3600)
	hour = canon.Time(3600)
	now  = canon.Time(1770000000) // 2026-02-02T02:40:00Z
)

// key is a party's signing key, made of its name.
type key struct{ ed25519.PrivateKey }

func keyOf(name string) key {
	seed := sha256.Sum256([]byte("test key of " + name))
	return key{ed25519.NewKeyFromSeed(seed[:])}
}

func (k key) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, message), nil }

func (k key) value(t testing.TB) string {
	t.Helper()
	v, err := vetting.KeyValue(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// results are the result keys of a log: the operator's one.
type results struct{}

func (r results) SignerOf(e ledger.Envelope, use string, at canon.Time) (ledger.Key, error) {
	if use != ledger.UseResult || !e.SignedBy(keyOf(vetting.Operator).Public()) {
		return ledger.Key{}, fmt.Errorf("signed by no result key")
	}
	return ledger.Key{Use: use}, nil
}

// lab is a registry that is being filled, and its clock.
type lab struct {
	testing.TB
	*vetting.Registry
	at canon.Time
}

func newLab(t testing.TB) *lab {
	l := &lab{t, vetting.NewRegistry(results{}), now - 400*day}
	l.register("tuv.example", "party.facility party.facility-audit party.jurisdiction", vetting.Scope{}, 1000*day)
	l.register("iso.example", "party.facility-audit", vetting.Scope{}, 1000*day)
	l.register("lei.example", "party.domain party.identity party.jurisdiction party.legal-entity", vetting.Scope{}, 1000*day)
	return l
}

// body returns an envelope's bytes.
func body(t testing.TB, env ledger.Envelope, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func event(kind, stream string, at canon.Time, body []byte) ledger.Event {
	return ledger.Event{Entry: ledger.Entry{Type: ledger.EntryType, Kind: kind, Stream: stream, Time: at, Body: canon.Sum(body), Refs: []canon.Digest{}}, Body: body}
}

// try adds a claim, signed by a key, and returns its identity.
func (l *lab) try(c vetting.Claim, by key) (canon.Digest, error) {
	l.Helper()
	c.Type = vetting.ClaimType
	if c.Issued == 0 {
		c.Issued = l.at
	}
	if c.Expires == 0 {
		c.Expires = c.Issued + 500*day
	}
	env, err := c.Seal(by)
	if err != nil {
		return canon.Digest{}, err
	}
	return env.Identity(), l.Add(event(ledger.KindClaim, ledger.IssuerStream(c.Issuer), l.at, body(l, env, nil)))
}

func (l *lab) say(c vetting.Claim) canon.Digest {
	l.Helper()
	d, err := l.try(c, keyOf(c.Issuer))
	if err != nil {
		l.Fatal(err)
	}
	return d
}

func (l *lab) register(issuer, attributes string, scope vetting.Scope, term canon.Time) {
	l.Helper()
	of := vetting.Subject{Kind: vetting.UnitIssuer, ID: issuer}
	l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeKey, Value: keyOf(issuer).value(l), Expires: l.at + term})
	l.say(vetting.Claim{Issuer: vetting.Operator, Subject: of, Attribute: vetting.AttributeScope, Value: attributes, Scope: scope, Expires: l.at + term})
}

func (l *lab) revoke(r vetting.Revocation) {
	l.Helper()
	if err := l.tryRevoke(r); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) tryRevoke(r vetting.Revocation) error {
	l.Helper()
	r.Type, r.Made = vetting.RevocationType, l.at
	if r.Effective == 0 {
		r.Effective = l.at
	}
	if r.Since == 0 {
		r.Since = r.Effective
	}
	if r.Issuer == "" {
		r.Issuer = vetting.Operator
	}
	if r.Reason == "" {
		r.Reason = vetting.RevokedForged
	}
	r.Evidence = canon.Sum([]byte("why"))
	env, err := r.Seal(keyOf(r.Issuer))
	if err != nil {
		return err
	}
	return l.Add(event(ledger.KindClaim, ledger.IssuerStream(r.Issuer), l.at, body(l, env, nil)))
}

var (
	provider = vetting.Subject{Kind: vetting.UnitProvider, ID: "p1"}
	site     = vetting.Subject{Kind: vetting.UnitSite, ID: "fra1"}
	host     = vetting.Subject{Kind: vetting.UnitHost, ID: "host-1"}
	cpu      = vetting.Subject{Kind: vetting.UnitDevice, ID: "amd-chip-id:9c41"}
	genoa    = vetting.Subject{Kind: vetting.UnitModel, ID: "genoa"}

	place = vetting.Place{Provider: "p1", Site: "fra1", Host: "host-1", Devices: []vetting.Device{{ID: cpu.ID, Model: "genoa"}, {ID: "nvidia-gh100:00aa", Model: "gh100"}}}
)

const (
	legal  = "LEI:529900T8BM49AURSDO55"
	report = "3a7bd3e2360a3d29eea436fcfb7e44c735d117c42d1c1835420b6b9942dd4f1b"
)

// ten are what a provider says of itself, in order, and what issuers then say.
var ten = []vetting.Assertion{
	{Subject: host, Attribute: "party.facility", Value: "bound"},
	{Subject: host, Attribute: "party.facility-audit", Value: report},
	{Subject: host, Attribute: "party.jurisdiction", Value: "DE"},
	{Subject: site, Attribute: "party.facility", Value: "audited"},
	{Subject: site, Attribute: "party.facility-audit", Value: report},
	{Subject: site, Attribute: "party.jurisdiction", Value: "DE"},
	{Subject: provider, Attribute: "party.domain", Value: "p1.example"},
	{Subject: provider, Attribute: "party.identity", Value: "legal-entity"},
	{Subject: provider, Attribute: "party.jurisdiction", Value: "DE"},
	{Subject: provider, Attribute: "party.legal-entity", Value: legal},
}

// vouched returns a lab in which issuers say all ten, and their claims by attribute of subject.
func vouched(t testing.TB) (*lab, map[vetting.Assertion]canon.Digest) {
	l := newLab(t)
	l.at = now - 100*day
	said := map[vetting.Assertion]canon.Digest{}
	for _, a := range ten {
		issuer := "lei.example"
		if a.Subject.Kind != vetting.UnitProvider {
			issuer = "tuv.example"
		}
		if a.Attribute == "party.facility-audit" {
			issuer = "iso.example"
		}
		said[a] = l.say(vetting.Claim{Issuer: issuer, Subject: a.Subject, Attribute: a.Attribute, Value: a.Value})
	}
	l.at = now
	return l, said
}

// observed is what a sound host shows at a time.
func observed(at canon.Time) vetting.Observed {
	return vetting.Observed{
		Hardware: vetting.Hardware{Level: vetting.HardwareGPU, At: at - hour}, Stake: true, ContactHours: 1, Witnesses: 3, Quorum: true,
		Record: vetting.Record{Days: 90, Uptime: 999, Leases: 50, Completion: 995},
	}
}

func (l *lab) stand(at canon.Time, change ...func(*vetting.Observed)) vetting.Standing {
	l.Helper()
	o := observed(at)
	for _, c := range change {
		c(&o)
	}
	if err := o.Validate(); err != nil {
		l.Fatal(err)
	}
	s := l.Stand(place, ten, o, vetting.Defaults(), at)
	if err := s.Validate(); err != nil {
		l.Fatalf("%v: %+v", err, s)
	}
	return s
}

// status returns the status of an attribute.
func status(s vetting.Standing, of vetting.Subject, id string) string {
	for _, a := range s.Attributes {
		if a.Subject == of && a.ID == id {
			return a.Status
		}
	}
	return "none"
}

func has(s vetting.Standing, code string) bool {
	return slices.ContainsFunc(s.Findings, func(f vetting.Finding) bool { return f.Code == code })
}

// values are those of an appraisal of a sound SEV-SNP guest with one GPU; a claim that is not here is a sentence.
var values = map[string]string{
	"agent.measured": "tee", "guest.measured": "tee", "binding.seal": "sev-snp", "nvidia.cc-mode": "on", "nvidia.structure": "spdm-1.1", "nvidia.mode": "SPT",
	"set.links": "none", "set.same-mode": "SPT", "set.count": "gpu:1", "sevsnp.chain": "VCEK", "sevsnp.signing-key": "VCEK", "sevsnp.structure": "v5", "sevsnp.vmpl": "0",
	"sevsnp.platform-info": "alias-check ecc", "sevsnp.product": "Milan", "sevsnp.tcb": tcb, "sevsnp.committed-tcb": tcb, "sevsnp.launch-tcb": tcb, "sevsnp.cert-tcb": tcb,
}

const tcb = "bl=4 tee=0 snp=24 ucode=219"

// sound returns the claims of an appraisal that confidential-cpu accepts, and with a GPU confidential-gpu and, of the evidence,
// regulated.
func sound(gpu bool) claim.Set {
	var set claim.Set
	for _, d := range claim.Catalogue() {
		subject := map[string]string{"sevsnp": "cpu:0", "nvidia": "gpu:0", "statement": "statement:0", "set": "set", "bundle": "node", "binding": "node", "guest": "node", "agent": "node"}[claim.Room(d.ID)]
		if subject == "" || !gpu && (subject == "gpu:0" || subject == "set" && d.ID != "set.device-unique") || d.ID == "set.topology" || d.ID == "set.fleet-agreement" {
			continue
		}
		set.Add(claim.Claim{ID: d.ID, Subject: subject, Status: claim.Affirmed, Value: values[d.ID], From: now - 60})
	}
	set.Settle()
	return set
}

// demand returns a policy that asks something of the party, beside the evidence.
func demand(t testing.TB, name, rest string) *policy.Policy {
	t.Helper()
	p, err := policy.Load(name+".yaml", []byte("type: assay/policy/v1\nname: "+name+"\n"+strings.Replace(rest, "require: [", "require: [{claim: sevsnp.signature, of: cpu}, ", 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// life is a certificate that is being folded.
type life struct {
	testing.TB
	*lab
	vetting.History
	state  vetting.Certificate
	step   ledger.Step[vetting.Certificate]
	events []ledger.Event
}

func newLife(t testing.TB) *life {
	l, _ := vouched(t)
	return &life{TB: t, lab: l}
}

func (f *life) try(at canon.Time, a vetting.Act) error {
	f.TB.Helper()
	a.Type = vetting.ActType
	if a.Certificate == "" {
		a.Certificate = "c-1"
	}
	switch a.Act {
	case vetting.ActAssess, vetting.ActDue:
	default:
		if a.By == "" {
			a.By = "user:olga"
		}
	}
	b, err := canon.Marshal(a)
	if err != nil {
		f.TB.Fatal(err)
	}
	e := event(ledger.KindCertificate, ledger.ProviderStream("p1"), at, b)
	step, err := ledger.Machine[vetting.Certificate](f.Certify).Apply(f.state, e)
	if err != nil {
		return err
	}
	f.events, f.state, f.step = append(f.events, e), step.State, step
	return nil
}

func (f *life) do(at canon.Time, a vetting.Act) {
	f.TB.Helper()
	if err := f.try(at, a); err != nil {
		f.TB.Fatalf("%s: %v", a.Act, err)
	}
}

// weigh assesses the certificate at a time.
func (f *life) weigh(at canon.Time, change ...func(*vetting.Observed)) {
	f.TB.Helper()
	f.do(at, vetting.Act{Act: vetting.ActAssess, Standing: f.standing(at, change...)})
}

func (f *life) standing(at canon.Time, change ...func(*vetting.Observed)) vetting.Standing {
	o := observed(at)
	for _, c := range change {
		c(&o)
	}
	return f.Stand(place, f.state.Assertions, o, f.At(at), at)
}

// certified returns a certificate that was given now.
func certified(t testing.TB, tier string) *life {
	t.Helper()
	f := newLife(t)
	f.do(now-2*day, vetting.Act{Act: vetting.ActDraft, Place: place, Tier: tier, Assertions: ten})
	f.do(now-2*day, vetting.Act{Act: vetting.ActSubmit})
	f.do(now-day, vetting.Act{Act: vetting.ActAssign, By: "user:adam", Reviewer: "user:rita"})
	f.do(now, vetting.Act{Act: vetting.ActPass, By: "user:rita", Standing: f.standing(now)})
	return f
}

func (f *life) want(status, reason, tier string) {
	f.TB.Helper()
	if f.step.Status != status || f.step.Reason != reason || f.state.Tier != tier {
		f.TB.Errorf("%s (%s), tier %q: want %s (%s), tier %q", f.step.Status, f.step.Reason, f.state.Tier, status, reason, tier)
	}
}

func finding(code string) func(*vetting.Observed) {
	return func(o *vetting.Observed) {
		o.Hardware.Findings = append(slices.Clip(o.Hardware.Findings), vetting.Finding{Code: code})
	}
}

// days weighs the certificate each day from one to another.
func (f *life) days(from, to int, change ...func(*vetting.Observed)) {
	f.TB.Helper()
	for d := from; d <= to && f.state.Live(); d++ {
		f.weigh(now+canon.Time(d)*day-1, change...)
	}
}
