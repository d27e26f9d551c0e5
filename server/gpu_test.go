package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
)

// rig is the GPUs and switches of a machine, and what their driver says. It seals nothing.
type rig struct {
	says   attest.NVML
	answer func(nonce canon.Digest) []attest.Component
	after  bool // its evidence comes when the seal has been taken
}

func (r *rig) Take(nonce canon.Digest) (device.GPUEvidence, error) {
	says := r.says
	if r.after {
		return device.GPUEvidence{NVML: &says}, nil
	}
	return device.GPUEvidence{NVML: &says, Components: r.answer(nonce)}, nil
}

// SetReady has nothing to open: no work comes here.
func (*rig) SetReady(bool) error { return nil }

// gpuLab starts a verifier for machines with GPUs, of which it has the collateral of some.
func gpuLab(t *testing.T, machines ...*mint.HGX) *lab {
	nv := mint.NewNVIDIA()
	var devices []*mint.NVIDIADevice
	for _, m := range machines {
		devices = slices.Concat(devices, m.GPUs, m.Switches)
	}
	return newLab(t, "", func(s *server.Settings) {
		s.Policy = "confidential-gpu"
		for _, f := range nv.Roots() {
			must(t, os.WriteFile(filepath.Join(s.Roots, f.Name), f.Data, 0o600))
		}
		for i, c := range nv.Collateral(worldBegin, devices...) {
			must(t, os.WriteFile(filepath.Join(s.Collateral, fmt.Sprint("nvidia-", i)), c.Data, 0o600))
		}
	})
}

func soundRig(hgx *mint.HGX) *rig {
	return &rig{
		says:   attest.NVML{Capable: 1, Environment: 2, CCFeature: 1, MultiGPUMode: 1},
		answer: func(nonce canon.Digest) []attest.Component { return hgx.Components(nonce) },
	}
}

// bundle makes the evidence of a node with the rig.
func (r *rig) bundle(n *node, ch client.Challenged) []byte {
	n.lab.t.Helper()
	n.gpus = []agent.GPUs{r}
	if !r.after {
		return n.evidence(ch)
	}
	says := r.says
	b, err := agent.Collect([]agent.Device{n.device}, n.session.Keys(), ch.Challenge.Digest(), attest.Statement{
		Type: attest.StatementType, Agent: worldAgent, BootID: "boot-1", Checkpoint: ch.Checkpoint, NVML: &says,
	})
	must(n.lab.t, err)
	b.Components = append(b.Components, r.answer(attest.DeviceNonce(ch.Challenge.Digest(), n.session.Keys().Digest()))...)
	env, err := attest.SealBundle(b, n.session)
	must(n.lab.t, err)
	data, err := canon.Marshal(env)
	must(n.lab.t, err)
	return data
}

func reasonsOf(d client.Decision) (reasons []string) {
	for _, r := range d.Reasons {
		reasons = append(reasons, r.Claim+" "+r.Subject)
	}
	slices.Sort(reasons)
	return reasons
}

// TestGPUAttacks sends a server what a machine of eight GPUs and four switches is not: each is refused for its reason, by
// the server that knows the machine and, where the evidence itself shows it, by one that does not. Before and after them
// the sound machine is accepted.
func TestGPUAttacks(t *testing.T) {
	nv := mint.NewNVIDIA()
	own, away, third := nv.HGX("own"), nv.HGX("away"), nv.HGX("third")
	l := gpuLab(t, own, away, third)
	one, two := l.join("one"), l.join("two")
	var submitted []client.Submitted
	sent := func(n *node, data []byte) client.Decision {
		t.Helper()
		s := n.submit(data)
		submitted = append(submitted, s)
		l.advance()
		return n.decision(s.Evidence)
	}
	sound := func(n *node, hgx *mint.HGX) {
		t.Helper()
		if d := sent(n, soundRig(hgx).bundle(n, n.challenge())); d.Outcome != client.Accept {
			t.Fatalf("the sound machine: %s for %v", d.Outcome, reasonsOf(d))
		}
	}
	sound(one, own) // and is enrolled

	answers := func(change func(nonce canon.Digest) []attest.Component) func(*rig) {
		return func(r *rig) { r.answer = change }
	}
	shows := func(change func(own, away, third []attest.Component) []attest.Component) func(*rig) {
		return answers(func(nonce canon.Digest) []attest.Component {
			return change(own.Components(nonce), away.Components(nonce), third.Components(nonce))
		})
	}
	part := func(i int, name string, change func([]byte) []byte) func(*rig) {
		return shows(func(own, _, _ []attest.Component) []attest.Component {
			own[i].Parts = slices.Clone(own[i].Parts)
			for j := range own[i].Parts {
				if own[i].Parts[j].Name == name {
					own[i].Parts[j].Data = change(slices.Clone(own[i].Parts[j].Data))
				}
			}
			return own
		})
	}
	report := func(i int, change func([]byte) []byte) func(*rig) { return part(i, nvidia.PartReport, change) }
	chain := func(i int, change func(d *mint.NVIDIADevice)) func(*rig) {
		return part(i, nvidia.PartChain, func([]byte) []byte {
			d := own.GPUs[i].Clone()
			change(d)
			return d.PEM()
		})
	}
	each := func(ids ...string) (reasons []string) {
		for _, id := range ids {
			for i := range 8 {
				reasons = append(reasons, fmt.Sprint(id, " gpu:", i))
			}
			for i := range 4 {
				reasons = append(reasons, fmt.Sprint(id, " switch:", i))
			}
		}
		return reasons
	}
	elsewhere := canon.Sum([]byte("another challenge"))
	for _, a := range []struct {
		name    string
		from    *node
		change  func(*rig) // nil: the GPUs answer the challenge itself, which is not for them
		reasons []string   // all that the verdict gives
		alone   bool       // the evidence condemns itself: an appraiser who knows no machine rejects it as well
	}{
		{"DevTools on", one, func(r *rig) { r.says.DevToolsMode = 1 }, each("nvidia.devtools-off")[:8], true},
		{"confidential computing off", one, func(r *rig) { r.says.CCFeature = 0 }, each("nvidia.cc-mode")[:8], true},
		{"one bit of a GPU's measurements", one, report(2, func(b []byte) []byte { b[60] ^= 1; return b }),
			[]string{"nvidia.cc-mode gpu:2", "nvidia.devtools-off gpu:2", "nvidia.measurements gpu:2", "nvidia.signature gpu:2", "set.fleet-agreement set"}, true},
		{"one bit of a switch's signature", one, report(9, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), []string{"nvidia.signature switch:1"}, true},
		{"one byte behind a report", one, report(2, func(b []byte) []byte { return append(b, 1) }), []string{"nvidia.structure gpu:2"}, true},
		{"a report cut short", one, report(2, func(b []byte) []byte { return b[:len(b)-1] }), []string{"nvidia.structure gpu:2"}, true},
		{"SPDM 1.2", one, report(2, func(b []byte) []byte { b[0] = 0x12; return b }), []string{"nvidia.structure gpu:2"}, true},
		{"a chain reversed", one, chain(2, func(d *mint.NVIDIADevice) { slices.Reverse(d.Chain) }), []string{"nvidia.chain gpu:2"}, true},
		{"an authority replaced", one, chain(2, func(d *mint.NVIDIADevice) { d.Chain[3] = mint.NewNVIDIAImpostor().HGX("own").GPUs[2].Chain[3] }), []string{"nvidia.chain gpu:2"}, true},
		{"a stranger's hierarchy", one, answers(func(nonce canon.Digest) []attest.Component {
			return mint.NewNVIDIAImpostor().HGX("own").Components(nonce)
		}),
			each("nvidia.chain"), true},
		{"the certificates of another GPU", one, chain(2, func(d *mint.NVIDIADevice) { d.Chain = own.GPUs[3].Chain }),
			[]string{"nvidia.signature gpu:2", "set.device-unique set", "set.topology set"}, true},
		{"one GPU dropped", one, shows(func(own, _, _ []attest.Component) []attest.Component { return own[1:] }), []string{"set.topology set"}, true},
		{"one switch dropped", one, shows(func(own, _, _ []attest.Component) []attest.Component { return own[:11] }), []string{"set.topology set"}, true},
		{"no switches", one, shows(func(own, _, _ []attest.Component) []attest.Component { return own[:8] }), []string{"set.topology set"}, true},
		{"one GPU doubled", one, shows(func(own, _, _ []attest.Component) []attest.Component {
			label := own[1].Label
			own[1] = own[0]
			own[1].Label = label
			return own
		}), []string{"set.device-unique set", "set.topology set"}, true},
		{"switches swapped", two, shows(func(_, away, third []attest.Component) []attest.Component { return append(away[:8], third[8:]...) }), []string{"set.topology set"}, true},
		{"hosts mixed", two, shows(func(_, away, third []attest.Component) []attest.Component { away[4] = third[4]; return away }), []string{"set.topology set"}, true},
		{"nonces mixed", one, answers(func(nonce canon.Digest) []attest.Component {
			return append(own.Components(nonce)[:11], own.Switches[3].Component("switch3", elsewhere))
		}), []string{"nvidia.freshness switch:3", "set.same-nonce set"}, true},
		{"evidence taken for another challenge", one, answers(func(canon.Digest) []attest.Component { return own.Components(elsewhere) }), each("nvidia.freshness"), true},
		{"the challenge itself for a nonce", one, nil, each("nvidia.freshness"), true},
		{"evidence outside the seal", one, func(r *rig) { r.after = true }, []string{"binding.seal node", "sevsnp.freshness cpu:0"}, true},
		{"another machine's GPUs answer for an enrolled one", one, shows(func(_, away, _ []attest.Component) []attest.Component { return away }), []string{"set.device-unique set"}, false},
		{"GPUs that are enrolled for another host", two, shows(func(own, _, _ []attest.Component) []attest.Component { return own }), []string{"set.device-unique set"}, false},
	} {
		t.Run(a.name, func(t *testing.T) {
			ch := a.from.challenge()
			r := soundRig(own)
			r.answer = func(canon.Digest) []attest.Component { return own.Components(ch.Challenge.Digest()) }
			if a.change != nil {
				r = soundRig(own)
				a.change(r)
			}
			data := r.bundle(a.from, ch)
			d := sent(a.from, data)
			if got := reasonsOf(d); d.Outcome != client.Reject || !slices.Equal(got, a.reasons) {
				t.Errorf("%s for %q, want reject for %q", d.Outcome, got, a.reasons)
			}
			_, body := l.send("POST", "/v1/verify?policy=confidential-gpu&nonce="+ch.Challenge.Digest().String(), "", "application/octet-stream", data)
			if strings.Contains(string(body), `"verdict":"reject"`) != a.alone {
				t.Errorf("by itself: %.300s", body)
			}
		})
	}
	sound(one, own)
	sound(two, away)
	l.audited(submitted...)
}
