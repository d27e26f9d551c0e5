package audit

import (
	"cmp"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Claims of the whole bundle that alterations bring down.
const (
	possession   = "binding.possession@node"
	seal         = "binding.seal@node"
	asked        = "binding.challenge@node"
	guestClaim   = "guest.measured@node"
	listedGround = "references:" // in a basis, before the digest of the list that affirmed it
)

// bundle opens the evidence as its envelope and the bundle in it.
func (t *trying) bundle() (ledger.Envelope, attest.Bundle, *verifier.Opened, error) {
	env, err := ledger.ParseEnvelope(t.data)
	if err != nil {
		return env, attest.Bundle{}, nil, err
	}
	b, _, err := attest.OpenBundle(env)
	if err != nil {
		return env, b, nil, err
	}
	o, err := verifier.Open(verifier.TypeBundle, t.data)
	if err == nil {
		err = o.Fault()
	}
	return env, b, o, err
}

// withPart returns the evidence with the bytes of one part exchanged. The signature of the session key stays as it was.
func (t *trying) withPart(env ledger.Envelope, b attest.Bundle, component int, part string, data []byte) ([]byte, error) {
	b.Components = slices.Clone(b.Components)
	c := &b.Components[component]
	c.Parts = slices.Clone(c.Parts)
	for i := range c.Parts {
		if c.Parts[i].Name == part {
			c.Parts[i].Data = data
		}
	}
	payload, err := canon.Marshal(b)
	if err != nil {
		return nil, err
	}
	env.Payload = payload
	return canon.Marshal(env)
}

// signedBytes says which bytes of a component the device itself signs, and which claim vouches for them.
func signedBytes(c attest.Component) (part string, from, to int, vouch string, ok bool) {
	until := func(part string, fields func([]byte) ([]attest.Field, error), from int, end, vouch string) (string, int, int, string, bool) {
		data, _ := c.Part(part)
		list, err := fields(data)
		i := slices.IndexFunc(list, func(f attest.Field) bool { return f.Name == end })
		if err != nil || i < 0 {
			return "", 0, 0, "", false
		}
		return part, from, list[i].Offset, vouch, true
	}
	switch c.MediaType {
	case sevsnp.MediaType:
		return until(sevsnp.PartReport, sevsnp.Fields, 0, "SIGNATURE.R", "sevsnp.signature")
	case azure.MediaType: // the report of SEV-SNP in it
		if part, from, to, vouch, ok = until(azure.PartReport, azure.Fields, 0, "SIGNATURE.R", "sevsnp.signature"); ok {
			from = to - sevsnp.SignedSize
		}
		return part, from, to, vouch, ok
	case tdx.MediaType:
		return until(tdx.PartQuote, tdx.Fields, 0, "SIGNATURE_DATA_SIZE", "tdx.signature")
	case tpm.MediaType:
		data, found := c.Part(tpm.PartQuote)
		return tpm.PartQuote, 0, len(data), "tpm.signature", found && len(data) > 0
	case nvidia.MediaTypeGPU, nvidia.MediaTypeSwitch:
		return until(nvidia.PartReport, nvidia.Fields, 0, "SIGNATURE", "nvidia.signature")
	}
	return "", 0, 0, "", false
}

// alterSigned alters a bit of what a device signs: its signature must not hold.
func (t *trying) alterSigned() error {
	const name = "evidence-signed-bit"
	env, b, o, err := t.bundle()
	if err != nil {
		return t.none(name, "the evidence is no bundle that can be read")
	}
	var devices []int
	for i, c := range b.Components {
		if _, _, _, _, ok := signedBytes(c); ok {
			devices = append(devices, i)
		}
	}
	if devices == nil {
		return t.none(name, "no component whose signed bytes this build can tell")
	}
	i := devices[t.pick(name, "component", len(devices))]
	part, from, to, vouch, _ := signedBytes(b.Components[i])
	data, _ := b.Components[i].Part(part)
	data, where := t.flip(name, "bit", data, from, to)
	evidence, err := t.withPart(env, b, i, part, data)
	if err != nil {
		return err
	}
	subject := o.Subjects()[i]
	a, err := t.run(evidence, t.c, t.policy, t.o.result.Verdict.AsOf)
	return t.judgeAltered(Trial{Alteration: name, Input: t.o.appraisal.evidence, Where: subject + " " + part + ": " + where}, []string{vouch + "@" + subject, possession}, a, err)
}

// alterUnsigned alters a bit that no device signs and this build does not look at: a GUID in the certificate table of
// SEV-SNP. The session key signs the bundle, and nothing else has to fall.
func (t *trying) alterUnsigned() error {
	const name = "evidence-unsigned-bit"
	env, b, o, err := t.bundle()
	if err != nil {
		return t.none(name, "the evidence is no bundle that can be read")
	}
	for i, c := range b.Components {
		table, ok := c.Part(sevsnp.PartCertificates)
		if certs, err := sevsnp.ParseTable(table); !ok || c.MediaType != sevsnp.MediaType || err != nil || len(certs) == 0 {
			continue
		}
		data, where := t.flip(name, "bit", table, 0, sevsnp.GUIDSize)
		evidence, err := t.withPart(env, b, i, sevsnp.PartCertificates, data)
		if err != nil {
			return err
		}
		a, err := t.run(evidence, t.c, t.policy, t.o.result.Verdict.AsOf)
		return t.judgeAltered(Trial{Alteration: name, Input: t.o.appraisal.evidence, Where: o.Subjects()[i] + " " + sevsnp.PartCertificates + ": " + where + ", of a GUID"}, []string{possession}, a, err)
	}
	return t.none(name, "no component with bytes that are neither signed by a device nor read")
}

// alterCovered alters a bit of a component that the seal covers.
func (t *trying) alterCovered() error {
	const name = "evidence-covered-bit"
	env, b, o, err := t.bundle()
	if err != nil {
		return t.none(name, "the evidence is no bundle that can be read")
	}
	var covered []int
	for i, c := range b.Components {
		if c.Label != b.Seal && len(c.Parts[0].Data) > 0 {
			covered = append(covered, i)
		}
	}
	if covered == nil {
		return t.none(name, "no component beside the seal")
	}
	i := covered[t.pick(name, "component", len(covered))]
	part := b.Components[i].Parts[0]
	data, where := t.flip(name, "bit", part.Data, 0, len(part.Data))
	evidence, err := t.withPart(env, b, i, part.Name, data)
	if err != nil {
		return err
	}
	a, err := t.run(evidence, t.c, t.policy, t.o.result.Verdict.AsOf)
	return t.judgeAltered(Trial{Alteration: name, Input: t.o.appraisal.evidence, Where: o.Subjects()[i] + " " + part.Name + ": " + where}, []string{seal, possession}, a, err)
}

// alterSession alters a bit of the session key's signature.
func (t *trying) alterSession() error {
	const name = "session-signature-bit"
	env, _, _, err := t.bundle()
	if err != nil {
		return t.none(name, "the evidence is no bundle that can be read")
	}
	sig, where := t.flip(name, "bit", env.Signatures[0].Sig, 0, len(env.Signatures[0].Sig))
	env.Signatures = []ledger.Signature{{KeyID: env.Signatures[0].KeyID, Sig: sig}}
	evidence, err := canon.Marshal(env)
	if err != nil {
		return err
	}
	a, err := t.run(evidence, t.c, t.policy, t.o.result.Verdict.AsOf)
	return t.judgeAltered(Trial{Alteration: name, Input: t.o.appraisal.evidence, Where: where}, []string{possession}, a, err)
}

// alterStored puts altered evidence under the logged digest: reading it must fail.
func (t *trying) alterStored() error {
	data, where := t.flip("stored-bit", "bit", t.data, 0, len(t.data))
	trial := Trial{Alteration: "stored-bit", Input: t.o.appraisal.evidence, Where: where, Result: TrialRefused, What: "the bytes have another digest than the log names"}
	_, err := readBlob(t.ctx, exchanged{t.src, t.o.appraisal.evidence, data}, t.o.appraisal.evidence)
	if f := new(Fault); !errors.As(err, &f) {
		if err != nil {
			return err
		}
		trial.Result, trial.What = TrialAccepted, "altered bytes pass under the logged digest"
	}
	t.add(trial)
	return nil
}

// exchanged is a source that lies about one blob.
type exchanged struct {
	ledger.Source
	digest canon.Digest
	data   []byte
}

func (e exchanged) Blob(ctx context.Context, d canon.Digest) ([]byte, error) {
	if d == e.digest {
		return e.data, nil
	}
	return e.Source.Blob(ctx, d)
}

// kinds returns the kinds of collateral at hand, each once, in order.
func (t *trying) kinds() (kinds []string) {
	for _, c := range t.c.Collateral {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// restOn names the claims that cannot be affirmed without an item of a kind of collateral. It leaves out what the evidence
// may bring itself, and what another kind may say as well.
func (t *trying) restOn(kind string) (falls []string) {
	var ids []string
	switch kind {
	case attest.KindAMDCertificate:
		if !t.carries(sevsnp.PartCertificates) && !t.carries(azure.PartVCEK) {
			ids = []string{"sevsnp.chain"}
		}
	case attest.KindAMDCRL:
		ids = []string{"sevsnp.revocation"}
	case attest.KindDenyList:
		if len(t.c.Expect.DenyListKeys) > 0 {
			ids = []string{"nvidia.revocation", "sevsnp.revocation", "tdx.revocation"}
		}
	case attest.KindIMAList:
		if !t.carries(tpm.PartIMA) {
			ids = []string{"tpm.ima"}
		}
	case attest.KindIntelTCBInfo:
		ids = []string{"tdx.collateral", "tdx.tcb-status"}
	case attest.KindIntelQEIdentity:
		ids = []string{"tdx.collateral", "tdx.qe-identity"}
	case attest.KindIntelPCKCRL, attest.KindIntelRootCRL:
		ids = []string{"tdx.revocation"}
	case attest.KindNVIDIARIM:
		ids = []string{"nvidia.driver-rim", "nvidia.vbios-rim"}
	case attest.KindNVIDIAOCSP:
		if !slices.Contains(t.kinds(), attest.KindNVIDIACRL) {
			ids = []string{"nvidia.revocation"}
		}
	}
	for _, c := range t.o.logged.Claims {
		if slices.Contains(ids, c.ID) {
			falls = append(falls, named(c))
		}
	}
	return falls
}

// carries reports whether a component of the evidence has a part.
func (t *trying) carries(part string) bool {
	_, b, _, err := t.bundle()
	return err != nil || slices.ContainsFunc(b.Components, func(c attest.Component) bool { _, ok := c.Part(part); return ok })
}

// dropCollateral takes away every item of a drawn kind: what rests on that kind must fall. That a verdict is better
// without an item is no fault: what speaks against a device does so as long as it is at hand.
func (t *trying) dropCollateral() error {
	const name = "collateral-dropped"
	kinds := t.kinds()
	if kinds == nil {
		return t.none(name, "the verdict used no collateral")
	}
	kind := kinds[t.pick(name, "kind", len(kinds))]
	c := t.c
	c.Collateral = slices.DeleteFunc(slices.Clone(c.Collateral), func(i attest.Collateral) bool { return i.Kind == kind })
	a, err := t.run(t.data, c, t.policy, t.o.result.Verdict.AsOf)
	return t.judgeAltered(Trial{Alteration: name, Where: fmt.Sprintf("all of %s, %s", kind, counted(int64(len(t.c.Collateral)-len(c.Collateral)), "item"))}, t.restOn(kind), a, err)
}

// wholeSigned are the kinds of collateral whose every bit a signature covers or a digest names, so that no altered one can
// be used. An altered one of another kind must not say anything else than before.
var wholeSigned = []string{
	attest.KindAMDCertificate, attest.KindAMDCRL, attest.KindDenyList, attest.KindIMAList, attest.KindIntelPCKCRL, attest.KindIntelRootCRL,
}

// changeCollateral alters a bit of a drawn item. It may take away what the item affirmed, never add or change anything.
func (t *trying) changeCollateral() error {
	const name = "collateral-bit"
	if len(t.c.Collateral) == 0 {
		return t.none(name, "the verdict used no collateral")
	}
	at := t.pick(name, "item", len(t.c.Collateral))
	item := t.c.Collateral[at]
	if len(item.Data) == 0 {
		return t.none(name, "the drawn item is empty")
	}
	data, where := t.flip(name, "bit", item.Data, 0, len(item.Data))
	trial := Trial{Alteration: name, Input: item.Digest(), Where: item.Kind + ": " + where}
	changed, dropped := t.c, t.c
	changed.Collateral, dropped.Collateral = slices.Clone(t.c.Collateral), slices.Delete(slices.Clone(t.c.Collateral), at, at+1)
	changed.Collateral[at].Data = data
	a, err := t.run(t.data, changed, t.policy, t.o.result.Verdict.AsOf)
	if err != nil {
		return err
	}
	without, err := t.run(t.data, dropped, t.policy, t.o.result.Verdict.AsOf)
	if err != nil {
		return err
	}
	was, is := item.Digest().String(), canon.Sum(data).String()
	for _, c := range a.appraisal.Claims {
		c.Value = strings.ReplaceAll(c.Value, is, was) // some values are the digest of the item as it came
		if c.Status == claim.Affirmed && !says(t.o.logged.Claims, c) && !says(without.appraisal.Claims, c) {
			trial.After, trial.Result = a.verdict.Outcome.String(), TrialAccepted
			trial.What = fmt.Sprintf("the altered item affirms %s as %q, which neither the logged one nor its absence does", named(c), c.Value)
			t.add(trial)
			return nil
		}
	}
	var falls []string
	sole := !slices.ContainsFunc(dropped.Collateral, func(i attest.Collateral) bool { return i.Kind == item.Kind })
	if sole && slices.Contains(wholeSigned, item.Kind) {
		falls = t.restOn(item.Kind)
	}
	return t.judgeAltered(trial, falls, a, nil)
}

// says reports whether a set affirms a claim with the same value and interval.
func says(s claim.Set, c claim.Claim) bool {
	o := s.Find(c.ID, c.Subject)
	return o != nil && o.Status == claim.Affirmed && o.Value == c.Value && o.From == c.From && o.Until == c.Until
}

// changeReference exchanges every value of the list that affirmed the guest: that list must not affirm it any more.
func (t *trying) changeReference() error {
	const name = "reference-value"
	guest := t.o.logged.Claims.Find("guest.measured", "node")
	if guest == nil || guest.Status != claim.Affirmed {
		return t.none(name, "no list of reference values affirmed the guest")
	}
	for i, l := range t.c.References {
		digest, err := l.Digest()
		if err != nil || !slices.Contains(guest.Basis, listedGround+digest.String()) {
			continue
		}
		c := t.c
		c.References = slices.Clone(c.References)
		c.References[i] = t.otherValues(l)
		changed, err := c.References[i].Digest()
		if err != nil {
			return err
		}
		a, err := t.run(t.data, c, t.policy, t.o.result.Verdict.AsOf)
		trial := Trial{Alteration: name, Input: digest, Where: "every value of the list exchanged for one drawn by the seed"}
		if g := a.appraisal.Claims.Find("guest.measured", "node"); err == nil && g != nil && g.Status == claim.Affirmed && slices.Contains(g.Basis, listedGround+changed.String()) {
			trial.Result, trial.After, trial.What = TrialAccepted, a.verdict.Outcome.String(), "the altered list affirms the guest"
			t.add(trial)
			return nil
		}
		var falls []string
		if len(t.c.References) == 1 {
			falls = []string{guestClaim}
		}
		return t.judgeAltered(trial, falls, a, err)
	}
	return t.none(name, "the list that affirmed the guest is not among the inputs")
}

// otherValues returns a list with every measurement, register and digest exchanged.
func (t *trying) otherValues(l attest.References) attest.References {
	n := 0
	other := func(old []byte) canon.Hex {
		if len(old) == 0 {
			return nil
		}
		n++
		sum := sha512.Sum512([]byte("assay/challenge/v1\n" + strconv.FormatInt(t.seed, 10) + "\nreference\n" + strconv.Itoa(n) + "\n"))
		return slices.Repeat(sum[:], len(old)/len(sum)+1)[:len(old)]
	}
	l.Values = slices.Clone(l.Values)
	for i := range l.Values {
		v := &l.Values[i]
		v.Measurement = other(v.Measurement)
		v.Registers, v.Digests = slices.Clone(v.Registers), slices.Clone(v.Digests)
		for k := range v.Registers {
			v.Registers[k].Value = other(v.Registers[k].Value)
		}
		for k := range v.Digests {
			v.Digests[k] = other(v.Digests[k])
		}
	}
	return l
}

// changeRule adds to the policy a rule that an affirmed claim has another value than it has: that policy must not accept.
func (t *trying) changeRule() error {
	const name = "policy-rule"
	var with []claim.Claim
	for _, c := range t.o.logged.Claims {
		def, ok := claim.Lookup(c.ID)
		if ok && c.Status == claim.Affirmed && c.Value != "" && (def.Kind == claim.Hex || def.Kind == claim.Number) {
			with = append(with, c)
		}
	}
	for len(with) > 0 {
		i := t.pick(name, "claim", len(with))
		c := with[i]
		d := t.policy.Document()
		d.Require = append(slices.Clone(d.Require), policy.Rule{Claim: c.ID, Of: policy.Class(claim.Class(c.Subject)), Is: policy.Value(otherValue(c.Value))})
		data, err := canon.Marshal(d)
		if err != nil {
			return err
		}
		p, err := policy.ParseCanonical(data)
		if err != nil { // the policy already says which value it must have
			with = slices.Delete(with, i, i+1)
			continue
		}
		trial := Trial{Alteration: name, Input: t.policy.Digest(), Where: fmt.Sprintf("%s of %s must be %s, and is %s", c.ID, claim.Class(c.Subject), otherValue(c.Value), c.Value)}
		a, err := t.run(t.data, t.c, p, t.o.result.Verdict.AsOf)
		if err == nil && !a.failed && a.verdict.Outcome == policy.Accept {
			trial.Result, trial.After, trial.What = TrialAccepted, a.verdict.Outcome.String(), "a policy that asks for another value accepts"
		} else if err == nil {
			trial.Result, trial.After, trial.What = TrialRefused, a.verdict.Outcome.String(), "the altered policy does not accept"
		}
		t.add(trial)
		return err
	}
	return t.none(name, "no affirmed claim with a value that a rule could ask otherwise")
}

// otherValue changes the last digit of a number or of hex.
func otherValue(v string) string {
	last := byte('0')
	if v[len(v)-1] == '0' {
		last = '1'
	}
	return v[:len(v)-1] + string(last)
}

// Instants long before and long after any claim of hardware.
const (
	longBefore canon.Time = 24 * 3600
	longAfter  canon.Time = 253339228800 // 9998-01-01T00:00:00Z
)

// changeTime judges at other times: a policy that asks for a claim which does not speak of that time must not accept.
func (t *trying) changeTime() error {
	var bounded []claim.Claim // that the policy asks for, or that those rest on, and that speak of a span
	for _, c := range t.o.logged.Claims {
		if c.Status == claim.Affirmed && (c.From != 0 || c.Until != 0) && len(t.asks(t.o.logged.Claims, []string{named(c)})) > 0 {
			bounded = append(bounded, c)
		}
	}
	if bounded == nil {
		return t.none("time", "the policy asks for no claim that speaks of a span of time")
	}
	first := slices.MaxFunc(bounded, func(a, b claim.Claim) int { return cmp.Compare(a.From, b.From) })
	last := slices.MinFunc(bounded, func(a, b claim.Claim) int { return cmp.Compare(until(a), until(b)) })
	kinds := map[string]int{}
	for _, c := range t.c.Collateral {
		kinds[c.Kind]++
	}
	sole := true // no second item could speak of another span
	for _, n := range kinds {
		sole = sole && n == 1
	}
	for _, x := range []struct {
		name string
		at   canon.Time
		of   claim.Claim
		must bool // nothing else that was logged can speak of this time
	}{
		{"time-just-before", first.From - policy.FutureSlack - 1, first, sole}, {"time-just-after", last.Until + 1, last, sole},
		{"time-long-before", longBefore, first, true}, {"time-long-after", longAfter, last, true},
	} {
		before := strings.HasSuffix(x.name, "before")
		if before && x.of.From <= x.at || !before && (x.of.Until == 0 || x.of.Until >= x.at) || x.at <= 0 {
			if err := t.none(x.name, "no claim that the policy asks for ends there"); err != nil {
				return err
			}
			continue
		}
		c := t.c
		c.At = x.at
		trial := Trial{Alteration: x.name, Where: fmt.Sprintf("judged at %s; %s speaks of %s to %s", x.at, named(x.of), instant(x.of.From), instant(x.of.Until))}
		a, err := t.run(t.data, c, t.policy, x.at)
		switch {
		case err != nil:
			return err
		case a.failed || a.verdict.Outcome != policy.Accept:
			trial.Result, trial.What = TrialRefused, "nothing is accepted at a time that a required claim does not speak of"
		case x.must:
			trial.Result, trial.What = TrialAccepted, "accepted at a time that a required claim does not speak of"
		default:
			trial.Result, trial.What = TrialAllowed, "other collateral at hand speaks of that time"
		}
		if !a.failed {
			trial.After = a.verdict.Outcome.String()
		}
		t.add(trial)
	}
	return nil
}

// until returns the last instant of a claim, or none that is ever reached.
func until(c claim.Claim) canon.Time {
	if c.Until == 0 {
		return 1 << 40
	}
	return c.Until
}

func instant(t canon.Time) string {
	if t == 0 {
		return "no bound"
	}
	return t.String()
}

// changeExpectation alters a bit of the challenge that was issued: nothing may be fresh against it.
func (t *trying) changeExpectation() error {
	const name = "expected-challenge"
	if t.c.Expect.Challenge == nil {
		return t.none(name, "no challenge was expected")
	}
	issued := *t.c.Expect.Challenge
	nonce, where := t.flip(name, "bit", issued.Nonce, 0, len(issued.Nonce))
	issued.Nonce = nonce
	c := t.c
	c.Expect.Challenge = &issued
	falls := []string{asked}
	for _, x := range t.o.logged.Claims {
		if slices.Contains(x.Basis, asked) {
			falls = append(falls, named(x))
		}
	}
	a, err := t.run(t.data, c, t.policy, t.o.result.Verdict.AsOf)
	return t.judgeAltered(Trial{Alteration: name, Where: "nonce: " + where}, falls, a, err)
}

// changeSignature alters the signed verdict: first a bit of the signature, then what is signed.
func (t *trying) changeSignature() error {
	body, err := t.blob(t.ctx, t.o.verdict.body)
	if err != nil {
		return err
	}
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return err
	}
	sig, where := t.flip("verdict-signature-bit", "bit", env.Signatures[0].Sig, 0, len(env.Signatures[0].Sig))
	changed := t.o.result
	changed.Verdict.Outcome = policy.Accept
	if t.o.result.Verdict.Outcome == policy.Accept {
		changed.Verdict.Outcome = policy.Reject
	}
	payload, err := canon.Marshal(changed)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		name, where string
		env         ledger.Envelope
	}{
		{"verdict-signature-bit", where, ledger.Envelope{PayloadType: env.PayloadType, Payload: env.Payload, Signatures: []ledger.Signature{{KeyID: env.Signatures[0].KeyID, Sig: sig}}}},
		{"verdict-outcome", "the signed outcome exchanged for " + changed.Verdict.Outcome.String(), ledger.Envelope{PayloadType: env.PayloadType, Payload: payload, Signatures: env.Signatures}},
	} {
		trial := Trial{Alteration: x.name, Input: t.o.verdict.body, Where: x.where, Result: TrialRefused, What: "no result key of the log signed it"}
		if _, err := t.keys.SignerOf(x.env, ledger.UseResult, t.o.verdict.time); err == nil {
			trial.Result, trial.What = TrialAccepted, "it passes as signed by a result key of the log"
		}
		t.add(trial)
	}
	return nil
}
