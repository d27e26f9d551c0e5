package main

import (
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/policy"
)

// Accepted cases that twins of GPUs and switches differ from.
const (
	gpuName    = "bundle-gpu-hopper"
	twoGPUName = "bundle-gpu-two"
	hgxName    = "bundle-gpu-hgx"
)

// soundGPU are the claims of a GPU that keeps its memory from the host.
var soundGPU = []string{
	"nvidia.structure affirmed spdm-1.1", "nvidia.chain affirmed", "nvidia.signature affirmed", "nvidia.identity affirmed", "nvidia.freshness affirmed",
	"nvidia.revocation affirmed", "nvidia.vbios-rim affirmed", "nvidia.measurements affirmed", "nvidia.cc-mode affirmed on", "nvidia.devtools-off affirmed",
	"set.device-unique affirmed", "set.count affirmed", "set.same-nonce affirmed", "set.same-mode affirmed", "set.links affirmed", "binding.seal affirmed sev-snp",
}

func (s *shelf) hopper() (*mint.NVIDIA, scene) {
	nv := mint.NewNVIDIA()
	return nv, s.withGPUs(nv, confidential, nv.Device("GH100", "one"))
}

func (s *shelf) twoGPUs() (*mint.NVIDIA, scene) {
	nv := mint.NewNVIDIA()
	return nv, s.withGPUs(nv, confidential, nv.Device("GH100", "one"), nv.Device("GH100", "two"))
}

// nvidiaCases are sound machines with GPUs.
func (s *shelf) nvidiaCases() {
	_, hopper := s.hopper()
	s.addGPU(gpuName, "A Hopper GPU behind a CPU that keeps a measured agent.", "", hopper, accept, answers{accept, accept, soundGPU})
	nv := mint.NewNVIDIA()
	s.addGPU("bundle-gpu-blackwell", "A Blackwell GPU that encrypts its links.", "", s.withGPUs(nv, confidential, nv.Device("GB100", "one")), accept,
		answers{accept, accept, append(slices.Clone(soundGPU), "set.links affirmed encrypted")})
	behindTDX := slices.Clone(soundGPU)
	behindTDX[len(behindTDX)-1] = "binding.seal affirmed tdx"
	s.addGPU("bundle-gpu-tdx", "A Hopper GPU beside a trust domain.", "", tdScene(5).withGPUs(nv, confidential, nv.Device("GH100", "one")), accept, answers{accept, accept, behindTDX})
	_, two := s.twoGPUs()
	s.addGPU(twoGPUName, "Two GPUs that work alone.", "", two, accept, answers{accept, accept, append(slices.Clone(soundGPU), "set.fleet-agreement affirmed")})
}

// gpuTwin adds a copy of the machine with a Hopper GPU with one change.
func (s *shelf) gpuTwin(name, about string, change func(*mint.NVIDIA, *scene), genuine, cpu, gpu policy.Outcome, claims ...string) {
	nv, sc := s.hopper()
	change(nv, &sc)
	s.addGPU(name, about, gpuName, sc, gpu, answers{genuine, cpu, claims})
}

func (s *shelf) twoGPUTwin(name, about string, change func(*mint.NVIDIA, *scene), genuine, cpu, gpu policy.Outcome, claims ...string) {
	nv, sc := s.twoGPUs()
	change(nv, &sc)
	s.addGPU(name, about, twoGPUName, sc, gpu, answers{genuine, cpu, claims})
}

func (s *shelf) nvidiaTwins() {
	says := func(change func(*attest.NVML)) func(*mint.NVIDIA, *scene) {
		return func(_ *mint.NVIDIA, sc *scene) {
			n := confidential
			change(&n)
			sc.statement = statement(agentName, &n)
		}
	}
	s.gpuTwin("gpu-devtools-on", "The host can look into the GPU (L08).", says(func(n *attest.NVML) { n.DevToolsMode = 1 }), accept, accept, reject,
		"nvidia.devtools-off contradicted not-confidential")
	s.gpuTwin("gpu-cc-off", "Confidential computing is off (L13).", says(func(n *attest.NVML) { n.CCFeature = 0 }), accept, accept, reject,
		"nvidia.cc-mode contradicted not-confidential")
	s.gpuTwin("gpu-cc-unknown", "The driver gives a number that nobody knows (L12).", says(func(n *attest.NVML) { n.CCFeature = 2 }), accept, accept, undecided,
		"nvidia.cc-mode unknown unknown-value")
	s.gpuTwin("gpu-unsaid", "The agent says nothing of GPUs (L10).", func(_ *mint.NVIDIA, sc *scene) { sc.statement = statement(agentName, nil) }, accept, accept, reject,
		"nvidia.cc-mode unknown evidence-missing", "nvidia.devtools-off unknown evidence-missing")
	s.gpuTwin("gpu-agent-other", "Another agent than the measured one says that the GPU is confidential.", func(_ *mint.NVIDIA, sc *scene) {
		sc.statement = statement("assay-agent 0.9", &confidential)
	}, accept, reject, reject, "agent.measured contradicted mismatch")

	s.gpuTwin("gpu-driver-rim-missing", "The manifest of the driver is not at hand.", func(nv *mint.NVIDIA, sc *scene) {
		sc.exchange(nv.Sign(sc.gpus.devices[0].Manifests()[0]))
	}, accept, accept, undecided, "nvidia.driver-rim unknown collateral-missing")
	s.gpuTwin("gpu-vbios-rim-missing", "The manifest of the VBIOS is not at hand.", func(nv *mint.NVIDIA, sc *scene) {
		sc.exchange(nv.Sign(sc.gpus.devices[0].Manifests()[1]))
	}, accept, accept, undecided, "nvidia.vbios-rim unknown collateral-missing")
	s.gpuTwin("gpu-driver-rim-lapsed", "The certificate that signed the driver's manifest has lapsed.", func(nv *mint.NVIDIA, sc *scene) {
		m := sc.gpus.devices[0].Manifests()[0]
		was := nv.Sign(m)
		m.NotBefore = asOf.AddDate(-2, 0, -1)
		sc.exchange(was, nv.Sign(m))
	}, accept, accept, undecided, "nvidia.driver-rim unknown")
	s.gpuTwin("gpu-measurement-other", "One measurement is not what the manifests allow.", func(_ *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { d.Report.Measurements[9][0] ^= 1 })
	}, accept, accept, reject, "nvidia.measurements contradicted mismatch", "nvidia.cc-mode contradicted mismatch", "nvidia.devtools-off contradicted mismatch")

	s.gpuTwin("gpu-nonce-other", "The report answers another nonce: it may be of another host.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.other = map[int][nvidia.NonceSize]byte{0: {9}}
	}, reject, accept, reject, "nvidia.freshness contradicted mismatch", "set.same-nonce affirmed")
	s.gpuTwin("gpu-outside-seal", "The GPU's evidence came after REPORT_DATA was taken.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.late = true
		late := sc.gpus
		sc.sealed = func(b *attest.Bundle) { b.Components = append(b.Components, late.evidence(*b)...) }
	}, reject, reject, reject, "binding.seal contradicted mismatch", "sevsnp.freshness contradicted mismatch")

	s.gpuTwin("gpu-fwid-other", "The key is certified for other firmware than the one that reports.", func(nv *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { nv.Certify(d, mint.NVIDIAOptions{FWID: bytesOf("firmware", 48)}) })
	}, reject, accept, reject, "nvidia.fwid contradicted mismatch")
	s.gpuTwin("gpu-chain-impostor", "A stranger's hierarchy with the same names.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.devices = []*mint.NVIDIADevice{mint.NewNVIDIAImpostor().Device("GH100", "one")}
	}, reject, reject, reject, "nvidia.chain contradicted untrusted")
	s.gpuTwin("gpu-chain-early", "The key's certificate is not valid yet.", func(nv *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { nv.Certify(d, mint.NVIDIAOptions{NotBefore: asOf.AddDate(0, 0, 1)}) })
	}, reject, reject, reject, "nvidia.chain contradicted not-yet-valid")
	s.gpuTwin("gpu-identity-other", "The device's certificate calls itself another device.", func(nv *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { nv.Certify(d, mint.NVIDIAOptions{Calls: "410000000000000000"}) })
	}, accept, accept, reject, "nvidia.identity contradicted mismatch")
	s.gpuTwin("gpu-signature", "One bit of the report's signature is another.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.change = func(cs []attest.Component) []attest.Component {
			report := cs[0].Parts[0].Data
			cs[0].Parts[0].Data = flip(len(report) - 1)(report)
			return cs
		}
	}, reject, reject, reject, "nvidia.signature contradicted bad-signature")
	s.gpuTwin("gpu-report-cut", "The report ends early.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.change = func(cs []attest.Component) []attest.Component {
			cs[0].Parts[0].Data = cs[0].Parts[0].Data[:99]
			return cs
		}
	}, reject, reject, reject, "nvidia.structure contradicted malformed", "nvidia.cc-mode unknown rests-on", "nvidia.devtools-off unknown rests-on")
	s.gpuTwin("gpu-driver-other", "Another driver than the manifest is of.", func(_ *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldDriver, []byte("599.10.02\x00")) })
	}, accept, accept, undecided, "nvidia.firmware affirmed", "nvidia.driver-rim unknown collateral-missing")
	s.gpuTwin("gpu-mode-odd", "Two fields of the report disagree on the mode.", func(_ *mint.NVIDIA, sc *scene) {
		sc.changeGPU(0, func(d *mint.NVIDIADevice) { d.Set(nvidia.FieldFeature, []byte{2, 0}) })
	}, accept, accept, reject, "nvidia.mode contradicted mismatch")

	s.gpuTwin("gpu-fabric-unseen", "The GPU works behind switches that nobody shows.", func(nv *mint.NVIDIA, sc *scene) {
		behind := nv.HGX("one").GPUs[0]
		sc.changeGPU(0, func(d *mint.NVIDIADevice) {
			for _, id := range []nvidia.FieldID{nvidia.FieldPDI, nvidia.FieldProtectedPCIe, nvidia.FieldFeature} {
				v, _ := behind.Report.Field(id)
				d.Set(id, v)
			}
		})
	}, accept, accept, reject, "set.topology unknown evidence-missing", "set.links unknown rests-on", "nvidia.mode affirmed PPCIE", "set.same-mode affirmed PPCIE")

	answer := func(o mint.OCSP) func(*mint.NVIDIA, *scene) {
		return func(nv *mint.NVIDIA, sc *scene) {
			device := sc.gpus.devices[0].Chain[1]
			if o.This.IsZero() {
				o.This = answered
			}
			sc.exchange(nv.Answer(device, mint.OCSP{This: answered}), nv.Answer(device, o))
		}
	}
	s.gpuTwin("gpu-revoked", "NVIDIA revoked the GPU.", answer(mint.OCSP{Revoked: true, Reason: 1}), reject, accept, reject, "nvidia.revocation contradicted revoked")
	s.gpuTwin("gpu-hold", "NVIDIA suspended the GPU (V09).", answer(mint.OCSP{Revoked: true, Reason: 6}), reject, accept, reject, "nvidia.revocation contradicted certificate-hold")
	s.gpuTwin("gpu-ocsp-stale", "The answer about the GPU has lapsed.", answer(mint.OCSP{This: answered.AddDate(0, 0, -2)}), accept, accept, undecided,
		"nvidia.revocation unknown collateral-refused")
	s.gpuTwin("gpu-contested", "The registry knows the GPU under another node: the same PDI on two hosts.", func(_ *mint.NVIDIA, sc *scene) {
		for i, h := range sc.expect.Registry {
			if h.Identity.Equal(sc.gpus.devices[0].Identity()) {
				sc.expect.Registry = slices.Clone(sc.expect.Registry)
				sc.expect.Registry[i].Node = "node-9"
			}
		}
	}, reject, reject, reject, "set.device-unique contradicted contested")
	s.gpuTwin("gpu-not-enrolled", "The node was enrolled with another GPU.", func(nv *mint.NVIDIA, sc *scene) {
		sc.expect.Enrolled = slices.Clone(sc.expect.Enrolled)
		sc.expect.Enrolled[len(sc.expect.Enrolled)-1] = nv.Device("GH100", "two").Identity()
	}, reject, reject, reject, "set.device-unique contradicted not-listed")

	s.twoGPUTwin("gpu-two-doubled", "One GPU shows up twice.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.devices = []*mint.NVIDIADevice{sc.gpus.devices[0], sc.gpus.devices[0]}
	}, reject, reject, reject, "set.count unknown rests-on", "set.device-unique contradicted duplicate", "set.topology contradicted not-closed", "nvidia.identity@gpu:1 affirmed")
	s.twoGPUTwin("gpu-two-measure-otherwise", "Two GPUs that are alike measure differently.", func(_ *mint.NVIDIA, sc *scene) {
		sc.changeGPU(1, func(d *mint.NVIDIADevice) { d.Report.Measurements[50][0] ^= 1 })
	}, reject, reject, reject, "set.fleet-agreement contradicted mismatch")
	s.twoGPUTwin("gpu-two-modes", "One GPU works with others, the other alone.", func(_ *mint.NVIDIA, sc *scene) {
		sc.changeGPU(1, func(d *mint.NVIDIADevice) {
			d.Unset(nvidia.FieldProtectedPCIe)
			d.Set(nvidia.FieldFeature, []byte{1, 0})
		})
	}, reject, reject, reject, "set.same-mode contradicted mismatch", "nvidia.mode@gpu:1 affirmed MPT", "set.links affirmed encrypted", "set.fleet-agreement unknown not-applicable")
	s.twoGPUTwin("gpu-two-nonces", "One GPU answers another nonce.", func(_ *mint.NVIDIA, sc *scene) {
		sc.gpus.other = map[int][nvidia.NonceSize]byte{1: {9}}
	}, reject, reject, reject, "set.same-nonce contradicted mismatch", "nvidia.freshness@gpu:1 contradicted mismatch")
}

// hgxCases are a machine of eight GPUs and four switches in protected PCIe, and its twins.
func (s *shelf) hgxCases() {
	nv := mint.NewNVIDIA()
	one := nv.HGX("one")
	said := confidential
	said.MultiGPUMode = 1
	base := func() scene { return s.withGPUs(nv, said, slices.Concat(one.GPUs, one.Switches)...) }
	s.addGPU(hgxName, "Eight GPUs and four switches that are wired to one another and to nobody else.", "", base(), accept, answers{accept, accept,
		append(slices.Clone(soundGPU[:8]), "set.topology affirmed gpu:8 switch:4", "set.links affirmed closed", "set.same-mode affirmed PPCIE", "set.count affirmed gpu:8 switch:4",
			"set.fleet-agreement affirmed")})
	twin := func(name, about string, change func(*scene), genuine, cpu, gpu policy.Outcome, claims ...string) {
		sc := base()
		change(&sc)
		s.addGPU(name, about, hgxName, sc, gpu, answers{genuine, cpu, claims})
	}
	twin("gpu-hgx-switches-other", "The switches are those of another machine.", func(sc *scene) {
		other := nv.HGX("two")
		enrolled := s.withGPUs(nv, said, slices.Concat(one.GPUs, other.Switches)...)
		sc.gpus, sc.expect, sc.collateral = enrolled.gpus, enrolled.expect, enrolled.collateral
	}, reject, reject, reject, "set.topology contradicted not-closed", "nvidia.identity affirmed")
	twin("gpu-hgx-dropped", "One GPU is missing.", func(sc *scene) { sc.gpus.devices = slices.Concat(one.GPUs[:7], one.Switches) }, reject, reject, reject,
		"set.topology contradicted not-closed", "set.count affirmed gpu:7 switch:4")
	twin("gpu-hgx-doubled", "One GPU shows up twice, in the place of another.", func(sc *scene) {
		sc.gpus.devices = slices.Concat(one.GPUs[:7], one.GPUs[:1], one.Switches)
	}, reject, reject, reject, "set.device-unique contradicted duplicate", "set.topology contradicted not-closed", "nvidia.identity@gpu:7 affirmed")
	twin("gpu-hgx-nonces", "One switch answers another nonce.", func(sc *scene) {
		sc.gpus.other = map[int][nvidia.NonceSize]byte{11: {9}}
	}, reject, reject, reject, "set.same-nonce contradicted mismatch", "nvidia.freshness@switch:3 contradicted mismatch")
}
