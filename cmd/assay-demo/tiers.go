package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Issuers of the story, and what each may say.
const (
	registrar = "registrar.example"
	auditor   = "auditor.example"
)

var issuers = map[string]string{
	registrar: "party.identity party.jurisdiction party.legal-entity",
	auditor:   "party.facility party.facility-audit",
}

// demoDay is a day of the log's time.
const demoDay = canon.Time(24 * 60 * 60)

// applicant is a provider that asks for a tier, and what each policy must say of its host.
type applicant struct {
	id, story string
	tier      string // that it asks for, and gets
	chip      string // of a host with GPUs; empty: a host that has no evidence to hand in
	audited   bool   // an auditor has been in its building
	want      map[string]want
}

// want is an outcome and the code of the first reason for it.
type want struct {
	outcome policy.Outcome
	code    string
}

var applicants = []applicant{
	{"hobby", "a desktop with an RTX 4090, no TEE, no TPM: its owner's word and no evidence", claim.TierAnonymous, "", false, map[string]want{
		"genuine": {policy.Reject, "structure.evidence-missing"}, "confidential-cpu": {policy.Reject, "structure.evidence-missing"},
		"confidential-gpu": {policy.Reject, "structure.evidence-missing"}, "regulated": {policy.Reject, "structure.evidence-missing"},
	}},
	{"workshop", "a firm with confidential CPU and GPUs in a building that nobody has looked at", claim.TierAttested, "chip-8", false, map[string]want{
		"genuine": {policy.Accept, ""}, "confidential-cpu": {policy.Accept, ""},
		"confidential-gpu": {policy.Accept, ""}, "regulated": {policy.Reject, "party.value"},
	}},
	{"datacentre", "the same hardware of a firm whose building is audited", claim.TierAttestedFacility, "chip-9", true, map[string]want{
		"genuine": {policy.Accept, ""}, "confidential-cpu": {policy.Accept, ""},
		"confidential-gpu": {policy.Accept, ""}, "regulated": {policy.Accept, ""},
	}},
}

// tiers vets three providers and asks each built-in policy about each of them.
func (d *demo) tiers(context.Context) error {
	d.say("   offline; tiers by the claims of issuers that the operator registered, and by what it counted and saw itself")
	d.say("   NOT VENDOR ROOTS: CPUs, GPUs and switches sign under public test roots; firms, issuers and records are of this story\n")
	r, err := newVettingDesk()
	if err != nil {
		return err
	}
	for _, a := range applicants {
		claims, err := a.appraised()
		if err != nil {
			return fmt.Errorf("provider %s: %w", a.id, err)
		}
		c, err := r.certify(a, claims)
		if err != nil {
			return fmt.Errorf("provider %s: %w", a.id, err)
		}
		d.say("   %-12s %s", a.id, a.story)
		d.say("   %-12s tier %s: identity %s, hardware %s, facility %s", "", c.Tier, c.Standing.Axes.Identity, c.Standing.Axes.Hardware, c.Standing.Axes.Facility)
		if err := d.ask(a, slices.Concat(claims, c.PartyClaims())); err != nil {
			return fmt.Errorf("provider %s: %w", a.id, err)
		}
		d.say("")
	}
	d.say("   only regulated asks who runs a host and where; no tier stands in for evidence that a host cannot give")
	return nil
}

// ask says what each built-in policy decides, and the first reason that makes it so.
func (d *demo) ask(a applicant, claims claim.Set) error {
	for _, name := range slices.Backward(policy.Builtins()) { // the least demanding first
		p, _ := policy.Builtin(name)
		v := policy.Decide(claims, p, canon.At(demoBegin))
		got := want{outcome: v.Outcome}
		d.say("   %-12s %-18s %s", "", name, v.Outcome)
		if len(v.Reasons) > 0 {
			why := v.Reasons[slices.IndexFunc(v.Reasons, func(r policy.Reason) bool { return r.Decides() == v.Outcome })]
			got.code = why.Code
			d.say("   %-12s   %s of %s: %s; required: %s (%s)", "", why.Claim, why.Subject, shorten(why.Observed), why.Required, why.Code)
		}
		if got != a.want[name] {
			return fmt.Errorf("%s by %s: %v, want %v", v.Outcome, name, got, a.want[name])
		}
	}
	return nil
}

// appraised takes and judges the evidence of the applicant's host. Without a CPU TEE and a TPM there is nothing that could seal
// any, and so no claims.
func (a applicant) appraised() (claim.Set, error) {
	if a.chip == "" {
		return nil, nil
	}
	v := vendors{amd: mint.NewAMD(sevsnp.Milan), nvidia: mint.NewNVIDIA()}
	h := &gpuHouse{v: v, chip: a.chip, own: v.nvidia.HGX(a.id)}
	var err error
	if h.case_, err = v.gpuCase(h.own); err != nil {
		return nil, err
	}
	evidence, err := h.take(rented{name: a.id})
	if err != nil {
		return nil, err
	}
	o, err := verifier.Open(verifier.TypeBundle, evidence)
	if err != nil {
		return nil, err
	}
	return verifier.Appraise(o, h.case_).Claims, nil
}

// signingKey is a party's key.
type signingKey struct{ ed25519.PrivateKey }

func newSigningKey() (signingKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return signingKey{key}, err
}

func (k signingKey) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

// resultKey is the operator's key, the only one of its log.
type resultKey struct{ crypto.PublicKey }

func (k resultKey) SignerOf(e ledger.Envelope, use string, _ canon.Time) (ledger.Key, error) {
	if use != ledger.UseResult || !e.SignedBy(k.PublicKey) {
		return ledger.Key{}, errors.New("not signed by the operator's result key")
	}
	return ledger.Key{Use: use}, nil
}

// vettingDesk is the operator's registry with the keys of those that speak in it.
type vettingDesk struct {
	*vetting.Registry
	keys map[string]signingKey
}

// newVettingDesk returns a registry in which the issuers of the story are registered.
func newVettingDesk() (*vettingDesk, error) {
	operator, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	r := &vettingDesk{vetting.NewRegistry(resultKey{operator.Public()}), map[string]signingKey{vetting.Operator: operator}}
	for issuer, attributes := range issuers {
		key, err := newSigningKey()
		if err != nil {
			return nil, err
		}
		r.keys[issuer] = key
		value, err := vetting.KeyValue(key.Public())
		if err != nil {
			return nil, err
		}
		of := vetting.Subject{Kind: vetting.UnitIssuer, ID: issuer}
		for attribute, value := range map[string]string{vetting.AttributeKey: value, vetting.AttributeScope: attributes} {
			if err := r.say(vetting.Operator, of, attribute, value, 200*demoDay); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// say adds a claim that an issuer signed so long before the demonstration, and that holds for a year.
func (r *vettingDesk) say(issuer string, of vetting.Subject, attribute, value string, before canon.Time) error {
	at := canon.At(demoBegin) - before
	e, err := vetting.Claim{
		Type: vetting.ClaimType, Issuer: issuer, Subject: of, Attribute: attribute, Value: value, Issued: at, Expires: at + 365*demoDay,
	}.Seal(r.keys[issuer])
	if err != nil {
		return err
	}
	body, err := canon.Marshal(e)
	if err != nil {
		return err
	}
	return r.Add(entry(ledger.KindClaim, ledger.IssuerStream(issuer), at, body))
}

func entry(kind, stream string, at canon.Time, body []byte) ledger.Event {
	return ledger.Event{
		Entry: ledger.Entry{Type: ledger.EntryType, Kind: kind, Stream: stream, Time: at, Body: canon.Sum(body), Refs: []canon.Digest{}}, Body: body,
	}
}

// certify lets issuers speak of the applicant and leads its certificate from the draft to the decision.
func (r *vettingDesk) certify(a applicant, claims claim.Set) (c vetting.Certificate, err error) {
	place := vetting.Place{Provider: a.id, Site: a.id + "-site", Host: a.id + "-host"}
	provider, site := vetting.Subject{Kind: vetting.UnitProvider, ID: a.id}, vetting.Subject{Kind: vetting.UnitSite, ID: place.Site}
	said := []vetting.Assertion{}
	if a.audited {
		report := canon.Sum([]byte("the report of the audit"))
		said = append(said, vetting.Assertion{Subject: site, Attribute: "party.facility", Value: claim.FacilityAudited},
			vetting.Assertion{Subject: site, Attribute: "party.facility-audit", Value: report.String()})
	}
	if a.tier != claim.TierAnonymous {
		said = append(said, vetting.Assertion{Subject: provider, Attribute: "party.identity", Value: claim.IdentityLegalEntity},
			vetting.Assertion{Subject: provider, Attribute: "party.jurisdiction", Value: "DE"},
			vetting.Assertion{Subject: provider, Attribute: "party.legal-entity", Value: "DE-HRB-B:12345"})
	}
	for _, s := range said {
		issuer := registrar
		if s.Subject == site {
			issuer = auditor
		}
		if err := r.say(issuer, s.Subject, s.Attribute, s.Value, 100*demoDay); err != nil {
			return c, err
		}
	}
	var h vetting.History
	now := canon.At(demoBegin)
	rules := h.At(now)
	seen := vetting.Observed{
		Hardware: vetting.ReadHardware(claims, now, rules), Stake: true, ContactHours: 1, Witnesses: 3, Quorum: true,
		Record: vetting.Record{Days: 90, Uptime: 999, Leases: 50, Completion: 995},
	}
	if err := seen.Validate(); err != nil {
		return c, err
	}
	const by, reviewer = "user:operator", "user:reviewer"
	for _, act := range []vetting.Act{
		{Act: vetting.ActDraft, By: "user:" + a.id, Place: place, Tier: a.tier, Assertions: said},
		{Act: vetting.ActSubmit, By: "user:" + a.id},
		{Act: vetting.ActAssign, By: by, Reviewer: reviewer},
		{Act: vetting.ActPass, By: reviewer, Standing: r.Stand(place, said, seen, rules, now)},
	} {
		act.Type, act.Certificate = vetting.ActType, "certificate-"+a.id
		body, err := canon.Marshal(act)
		if err != nil {
			return c, err
		}
		step, err := ledger.Machine[vetting.Certificate](h.Certify).Apply(c, entry(ledger.KindCertificate, ledger.ProviderStream(a.id), now, body))
		if err != nil {
			return c, err
		}
		c = step.State
	}
	if c.Tier != a.tier || !c.Live() {
		return c, fmt.Errorf("certificate %s in tier %q, want %q; it lacks %v", c.Status, c.Tier, a.tier, c.Standing.Missing)
	}
	return c, nil
}
