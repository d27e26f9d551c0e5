package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// chipOfGPUs is the CPU of the machine with GPUs.
const chipOfGPUs = "chip-7"

// rig is a machine's GPUs and switches, and what their driver says.
type rig struct {
	hgx   *mint.HGX
	says  attest.NVML
	nonce canon.Digest // that it answers instead of the one it is asked; zero: none
}

func (r rig) Take(nonce canon.Digest) (device.GPUEvidence, error) {
	if r.nonce != (canon.Digest{}) {
		nonce = r.nonce
	}
	said := r.says
	return device.GPUEvidence{NVML: &said, Components: r.hgx.Components(nonce)}, nil
}

// SetReady has nothing to open: no work comes here.
func (rig) SetReady(bool) error { return nil }

// gpuHouse is what the machine with GPUs is judged by.
type gpuHouse struct {
	v         vendors
	own, away *mint.HGX // of the machine, and of another
	case_     attest.Case
}

// rented is one submission of the machine with GPUs, and what must come of it.
type rented struct {
	name, story string
	change      func(*gpuHouse, *rig)
	late        bool // the CPU's report is taken before the GPUs', and does not cover them
	outcome     policy.Outcome
	claim       string // that the reasons name; empty: there are none
	with        string // claim that falls with it; empty: none
}

var rentals = []rented{
	{"HGX", "a guest with 8 GPUs and 4 switches", nil, false, policy.Accept, "", ""},
	{"workshop", "the same, DevTools on: its host can look into the GPUs", func(_ *gpuHouse, r *rig) { r.says.DevToolsMode = 1 }, false, policy.Reject, "nvidia.devtools-off", ""},
	{"thief", "another machine's GPUs, asked by someone else", func(h *gpuHouse, r *rig) {
		r.hgx, r.nonce = h.away, canon.Sum([]byte("another challenge"))
		h.case_.Expect.Enrolled = nil
	}, false, policy.Reject, "nvidia.freshness", ""},
	{"relay", "another machine's GPUs answer this very nonce", func(h *gpuHouse, r *rig) { r.hgx = h.away }, false, policy.Reject, "set.device-unique", ""},
	{"annex", "GPU evidence that the CPU's report does not cover", nil, true, policy.Reject, "binding.seal", "sevsnp.freshness"},
	{"twice sold", "one of the GPUs is enrolled for another host", func(h *gpuHouse, _ *rig) {
		h.case_.Expect.Registry = []attest.Holder{{Identity: h.own.GPUs[5].Identity(), Node: "another host"}}
	}, false, policy.Reject, "set.device-unique", ""},
}

// confidentialGPUs judges a machine with GPUs offline, by the policy for such machines.
func (d *demo) confidentialGPUs(context.Context) error {
	v := vendors{amd: mint.NewAMD(sevsnp.Milan), nvidia: mint.NewNVIDIA()}
	own, away := v.nvidia.HGX("own"), v.nvidia.HGX("away")
	p, _ := policy.Builtin("confidential-gpu")
	d.say("   offline, policy %s", p.Name())
	d.say("   NOT VENDOR ROOTS: CPU, GPUs and switches sign under public test roots\n")
	roots, err := attest.NewRoots(slices.Concat(v.amd.Roots(), v.nvidia.Roots())...)
	if err != nil {
		return err
	}
	collateral := append(v.nvidia.Collateral(demoBegin, slices.Concat(own.GPUs, own.Switches, away.GPUs, away.Switches)...),
		attest.Collateral{Kind: attest.KindAMDCRL, Data: v.amd.CRL(demoBegin.AddDate(0, 0, -7), demoBegin.AddDate(0, 1, 0))})
	c := attest.Case{
		At: canon.At(demoBegin), Roots: roots, References: []attest.References{guests()}, Collateral: collateral, Memory: attest.NewMemory(),
	}
	for _, r := range rentals {
		if err := d.rent(r, &gpuHouse{v: v, own: own, away: away, case_: c}, p); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	d.say("\n   not shown by any of it: that these GPUs hang on this CPU, and not on one that asks for it (no TDISP)")
	return nil
}

// rent takes evidence, as the agent does, and judges it.
func (d *demo) rent(r rented, h *gpuHouse, p *policy.Policy) error {
	evidence, err := h.take(r)
	if err != nil {
		return err
	}
	o, err := verifier.Open(verifier.TypeBundle, evidence)
	if err != nil {
		return err
	}
	a := verifier.Appraise(o, h.case_)
	got := policy.Decide(a.Claims, p, a.AsOf)
	d.say("   %-12s %-57s %s", r.name, r.story, got.Outcome)
	if got.Outcome != r.outcome || (len(got.Reasons) == 0) != (r.claim == "") {
		return fmt.Errorf("%s for %d reasons, want %s: %+v", got.Outcome, len(got.Reasons), r.outcome, got.Reasons)
	}
	if r.claim == "" {
		return nil
	}
	var named []policy.Reason
	for _, why := range got.Reasons {
		switch why.Claim {
		case r.claim:
			named = append(named, why)
		case r.with:
		default:
			return fmt.Errorf("%s of %s is among the reasons: %s", why.Claim, why.Subject, why.Observed)
		}
	}
	if named == nil {
		return fmt.Errorf("%s is not among the reasons", r.claim)
	}
	more := ""
	if n := len(named); n > 1 {
		more = fmt.Sprintf(" and %d more", n-1)
	}
	d.say("   %-12s   %s of %s%s: %s", "", r.claim, named[0].Subject, more, shorten(named[0].Observed))
	return nil
}

func (h *gpuHouse) take(r rented) ([]byte, error) {
	session, err := agent.NewSession(rand.Reader, "boot of "+r.name, demoBegin)
	if err != nil {
		return nil, err
	}
	challenge := attest.Challenge{
		Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: []byte("the result key of the demonstration"), Node: "the machine",
		Nonce: make([]byte, attest.NonceSize), Issued: canon.At(demoBegin), Expires: canon.At(demoBegin) + 300,
	}
	if _, err := rand.Read(challenge.Nonce); err != nil {
		return nil, err
	}
	chip := h.v.amd.Chip(chipOfGPUs)
	h.case_.Expect = attest.Expect{Type: attest.ExpectType, Challenge: &challenge, Enrolled: []attest.Identity{{Kind: attest.IdentityAMDChip, Value: chip[:]}}}
	for _, d := range slices.Concat(h.own.GPUs, h.own.Switches) {
		h.case_.Expect.Enrolled = append(h.case_.Expect.Enrolled, d.Identity())
	}
	machine := rig{hgx: h.own, says: attest.NVML{Capable: 1, Environment: 2, CCFeature: 1, MultiGPUMode: 1}}
	if r.change != nil {
		r.change(h, &machine)
	}
	statement := attest.Statement{Type: attest.StatementType, Agent: canon.Sum(agentExecutable), BootID: "boot of " + r.name}
	gpus := []agent.GPUs{machine}
	if r.late {
		statement.NVML, gpus = &machine.says, nil
	}
	b, err := agent.Collect([]agent.Device{guest(chipOfGPUs)(h.v)}, session.Keys(), challenge.Digest(), statement, gpus...)
	if err != nil {
		return nil, err
	}
	if r.late {
		b.Components = append(b.Components, machine.hgx.Components(attest.DeviceNonce(challenge.Digest(), session.Keys().Digest()))...)
	}
	envelope, err := attest.SealBundle(b, session)
	if err != nil {
		return nil, err
	}
	return canon.Marshal(envelope)
}
