package verifier

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/internal/canon"
)

// sealed returns what the bundle's seal must hold to answer a challenge with the bundle's keys and components: REPORT_DATA
// of a CPU TEE, and the qualifying data of a TPM where there is none.
func sealed(b *attest.Bundle, challenge canon.Digest) []byte {
	keys, covered := b.Keys.Digest(), b.Covered()
	for _, c := range b.Components {
		if c.Label == b.Seal && c.Class == attest.ClassTPM {
			d := attest.QualifyingData(challenge, keys, covered)
			return d[:]
		}
	}
	d := attest.ReportData(challenge, keys, covered)
	return d[:]
}

// expected returns N as the appraiser knows it: from the challenge that it issued, or as a bare nonce. from is the time that
// the evidence's age counts from: the appraiser's own, when it issued the challenge, or that at which witnesses cosigned the
// checkpoint in it, if that is earlier. So an appraiser whose clock is wrong takes no evidence for younger than it can be.
func expected(e attest.Expect) (n []byte, from canon.Time, ok bool) {
	switch {
	case e.Challenge != nil:
		d, from := e.Challenge.Digest(), e.Challenge.Issued
		if e.Cosigned != 0 {
			from = min(from, e.Cosigned)
		}
		return d[:], from, true
	case e.Nonce != nil:
		return e.Nonce, 0, true
	}
	return nil, 0, false
}

// asked works out what a component must hold to be fresh: the seal its binding, every other component of a bundle the
// device nonce, a vendor's raw file what the appraiser asked for.
func (r *run) asked(c component) attest.Asked {
	e, b := r.c.Expect, r.o.bundle
	var raw canon.Hex
	switch {
	case c.Class == attest.ClassCPU:
		raw = e.ReportData
	case c.Class == attest.ClassTPM:
		raw = e.QualifyingData
	case b == nil:
		raw = e.Nonce // a GPU's or switch's own
	}
	if rec := r.o.recording; rec != nil && raw == nil && e.QualifyingData != nil {
		raw = rec.ReportData(e.QualifyingData) // its CPU answers the nonce that its TPM answers
	}
	if onAzure(c) && raw == nil && e.QualifyingData != nil {
		raw = azure.UserData(e.QualifyingData)
	}
	if raw != nil {
		return attest.Asked{ReportData: raw, Value: hex.EncodeToString(raw), Why: fmt.Sprintf("it does not hold the expected %x", []byte(raw))}
	}
	n, from, ok := expected(e)
	if b == nil || !ok || c.Class == attest.ClassCPU && c.Label != b.Seal && !onAzure(c) { // a second CPU TEE is binding.seal's matter
		return attest.Asked{}
	}
	asked := attest.Asked{Value: hex.EncodeToString(n), Basis: []string{"binding.challenge@" + subjectNode}, From: from,
		Why: fmt.Sprintf("it does not cover the challenge %x with these keys and components", n)}
	var challenge canon.Digest
	copy(challenge[:], n) // of another length it equals no bundle's: binding.challenge says so
	switch {
	case onAzure(c): // the quote of its virtual TPM, taken later, covers the report itself
		d := attest.AzureUserData(challenge, b.Keys.Digest())
		asked.ReportData, asked.Why = d[:], fmt.Sprintf("its user data does not cover the challenge %x with these keys", n)
		return asked
	case c.Label == b.Seal:
		asked.ReportData = sealed(b, challenge)
		return asked
	}
	d := attest.DeviceNonce(challenge, b.Keys.Digest())
	asked.ReportData = d[:]
	return asked
}

// onAzure reports whether a component is the report of a paravisor, whose hardware signs what the paravisor says, and not
// what the guest does. There the virtual TPM seals.
func onAzure(c component) bool { return c.MediaType == azure.MediaType }

// judgeChallenge compares the challenge that the bundle answers with the one that was issued, whole.
func (r *run) judgeChallenge() {
	b := r.o.bundle
	if b == nil {
		for _, id := range []string{"binding.seal", "binding.possession", "binding.challenge"} {
			r.set.Unknown(id, subjectNode, claim.Because(claim.NoExpectation, "a vendor's raw file names no session key and no challenge"))
		}
		return
	}
	n, from, ok := expected(r.c.Expect)
	switch {
	case !ok:
		r.set.Unknown("binding.challenge", subjectNode, claim.Because(claim.NoExpectation, "the appraiser was not told which challenge it issued"))
	case bytes.Equal(n, b.Challenge[:]):
		r.set.Add(claim.Claim{ID: "binding.challenge", Subject: subjectNode, Status: claim.Affirmed, Value: hex.EncodeToString(n), From: from})
	default:
		r.set.Contradict("binding.challenge", subjectNode, b.Challenge.String(), claim.Because(claim.Mismatch, "the bundle answers challenge %s, the appraiser issued %x", b.Challenge, n))
	}
}

// judgeSeal compares the sealing component with what the bundle says it covers, and the bundle's signature with the key
// that is covered. One host has one seal: its CPU TEE, or a TPM where there is none. The one exception is the virtual TPM
// above one report on Azure: its quote seals, and the seal holds where that report is one that names the quote's key.
func (r *run) judgeSeal() {
	b := r.o.bundle
	if b == nil {
		return
	}
	r.judgePossession()
	var seal *finding
	for i := range r.findings {
		if r.findings[i].Label == b.Seal {
			seal = &r.findings[i]
		}
	}
	var paravisor []string
	for _, f := range r.findings {
		if onAzure(f.component) && f.Label != b.Seal && seal != nil && seal.Class == attest.ClassTPM && paravisor == nil {
			paravisor = []string{"azure.runtime-data@" + f.subject}
			continue
		}
		if f.Class == attest.ClassCPU && f.Label != b.Seal {
			what := "is a second CPU TEE"
			if seal == nil || seal.Class != attest.ClassCPU {
				what = "is a CPU TEE and does not seal"
			}
			r.set.Contradict("binding.seal", subjectNode, "", claim.Because("second-seal", "component %+q %s: one host has one seal", f.Label, what))
			return
		}
	}
	switch {
	case seal == nil:
		r.set.Contradict("binding.seal", subjectNode, "", claim.Because(claim.Mismatch, "the seal %+q is the agent's own statement", b.Seal))
	case onAzure(seal.component):
		r.set.Contradict("binding.seal", subjectNode, seal.Format, claim.Because(claim.Mismatch, "an HCL report cannot seal: its hardware signs what the paravisor says; the quote of the virtual TPM seals"))
	case seal.ReportData == nil:
		r.set.Unknown("binding.seal", subjectNode, claim.Reason(claim.RestsOn+" "+r.unshown(*seal)))
	case seal.Class != attest.ClassCPU && seal.Class != attest.ClassTPM:
		r.set.Contradict("binding.seal", subjectNode, seal.Format, claim.Because(claim.Mismatch, "a component of class %s cannot seal", seal.Class))
	case bytes.Equal(seal.ReportData, sealed(b, b.Challenge)):
		r.set.Add(claim.Claim{ID: "binding.seal", Subject: subjectNode, Status: claim.Affirmed, Value: seal.Format, Basis: append([]string{seal.Signature + "@" + seal.subject}, paravisor...)})
	default:
		r.set.Contradict("binding.seal", subjectNode, seal.Format, claim.Because(claim.Mismatch, "the seal does not cover this challenge, these keys and these components"))
	}
}

func (r *run) judgePossession() {
	if r.o.signed {
		r.set.Affirm("binding.possession", subjectNode, "")
		return
	}
	r.set.Contradict("binding.possession", subjectNode, "", claim.Because("bad-signature", "the session key that the bundle names did not sign it"))
}
