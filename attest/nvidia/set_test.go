package nvidia_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
)

// machine is a minted machine with its collateral, one item of it for all devices.
type machine struct {
	lab
	nv    *mint.NVIDIA
	hgx   *mint.HGX
	items []attest.Collateral
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	made := soundMachine()
	m := &made
	m.lab = newLab(t, now.Format(time.RFC3339), m.nv.Roots()...)
	m.nonce, m.case_.Memory = nonce[:], remembered()
	return m
}

// soundMachine is made once: twins work on copies of its devices.
var soundMachine = sync.OnceValue(func() machine {
	nv := hierarchy()
	m := machine{nv: nv, hgx: nv.HGX("one")}
	m.items = nv.Collateral(now.Add(-time.Hour), slices.Concat(m.hgx.GPUs, m.hgx.Switches)...)
	return m
})

var remembered = sync.OnceValue(attest.NewMemory)

func TestMachine(t *testing.T) {
	m := newMachine(t)
	if len(m.items) > attest.MaxCollateral {
		t.Errorf("%d items of collateral, at most %d are taken", len(m.items), attest.MaxCollateral)
	}
	set := m.judge(m.hgx.Components(nonce), m.items...)
	for _, c := range set {
		if c.Status != affirmed && c.ID != "nvidia.fwid" {
			t.Errorf("%s of %s is %s (%s)", c.ID, c.Subject, c.Status, c.Reason)
		}
	}
	want(t, set, "set.topology", "set", affirmed, "gpu:8 switch:4")
	want(t, set, "set.count", "set", affirmed, "gpu:8 switch:4")
	want(t, set, "set.same-mode", "set", affirmed, "PPCIE")
	want(t, set, "set.same-nonce", "set", affirmed)
	want(t, set, "set.fleet-agreement", "set", affirmed)

	// That all GPUs measure alike is no word of NVIDIA's: without its manifests it satisfies nothing else.
	set, members := m.find(m.hgx.Components(nonce))
	for _, c := range nvidia.ConfidentialClaims(gpu0, "statement:0", set, &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1, MultiGPUMode: 1}) {
		set.Add(c)
	}
	set.Affirm("guest.measured", "node", "tee")
	set.Affirm("agent.measured", "node", "tee")
	set.Affirm("statement.structure", "statement:0", "")
	set.Settle()
	want(t, set, "set.fleet-agreement", "set", affirmed)
	for _, member := range members {
		want(t, set, "nvidia.measurements", member.Subject, unknown, "rests-on")
	}
	for _, id := range []string{"nvidia.cc-mode", "nvidia.devtools-off"} {
		want(t, set, id, gpu0, unknown, "rests-on nvidia.measurements")
	}
}

// TestMachineTwins: what is wrong with a machine is said by the claim that is about it.
func TestMachineTwins(t *testing.T) {
	other := hierarchy().HGX("two")
	for _, row := range []struct {
		name   string
		id     string
		status claim.Status
		words  string
		change func(m *machine, cs []attest.Component) []attest.Component
	}{
		{"switches of another machine", "set.topology", contradicted, "switches behind the GPUs and switches here: no evidence of", func(_ *machine, cs []attest.Component) []attest.Component {
			return append(cs[:8], other.Components(nonce)[8:]...)
		}},
		{"one switch of another machine", "set.topology", contradicted, "do not link the same GPUs", func(_ *machine, cs []attest.Component) []attest.Component {
			return append(cs[:11], other.Components(nonce)[11])
		}},
		{"GPUs of another machine", "set.topology", contradicted, "not-closed", func(_ *machine, cs []attest.Component) []attest.Component {
			return append(other.Components(nonce)[:8], cs[8:]...)
		}},
		{"one GPU of another machine", "set.topology", contradicted, "not behind the same switches", func(_ *machine, cs []attest.Component) []attest.Component {
			return slices.Concat(cs[:7], other.Components(nonce)[7:8], cs[8:])
		}},
		{"one GPU dropped", "set.topology", contradicted, "GPUs that the switches link and GPUs here: no evidence of", func(_ *machine, cs []attest.Component) []attest.Component { return slices.Delete(cs, 0, 1) }},
		{"one switch dropped", "set.topology", contradicted, "no evidence of", func(_ *machine, cs []attest.Component) []attest.Component { return cs[:11] }},
		{"one GPU doubled", "set.topology", contradicted, "gpu:0 and gpu:1 are one device", func(_ *machine, cs []attest.Component) []attest.Component { cs[1] = cs[0]; return cs }},
		{"one GPU doubled, counted", "set.count", unknown, "rests-on set.device-unique", func(_ *machine, cs []attest.Component) []attest.Component { cs[1] = cs[0]; return cs }},
		{"one switch doubled", "set.topology", contradicted, "are one device", func(_ *machine, cs []attest.Component) []attest.Component { cs[9] = cs[8]; return cs }},
		{"one more GPU", "set.topology", contradicted, "nobody names", func(m *machine, cs []attest.Component) []attest.Component {
			g := m.hgx.GPUs[0].Clone()
			g.PDI[0] ^= 1
			m.nv.Certify(g, mint.NVIDIAOptions{})
			return slices.Insert(cs, 8, g.Component("gpu8", nonce))
		}},
		{"switch under the certificates of another", "set.topology", contradicted, "gives PDI", func(m *machine, cs []attest.Component) []attest.Component {
			s := m.hgx.Switches[0].Clone()
			s.Chain = other.Switches[0].Chain
			return slices.Replace(cs, 8, 9, s.Component("switch0", nonce))
		}},
		{"one GPU lists another switch", "set.topology", contradicted, "not behind the same switches", func(m *machine, cs []attest.Component) []attest.Component {
			g := m.hgx.GPUs[3].Clone()
			v, _ := g.Report.Field(nvidia.FieldPDI)
			v = slices.Clone(v)
			v[0] ^= 1
			g.Set(nvidia.FieldPDI, v)
			cs[3] = g.Component("gpu3", nonce)
			return cs
		}},
		{"a switch lists one GPU twice", "set.topology", contradicted, "do not link the same GPUs", func(m *machine, cs []attest.Component) []attest.Component {
			s := m.hgx.Switches[1].Clone()
			v, _ := s.Report.Field(nvidia.FieldSwitchGPUs)
			v = slices.Clone(v)
			copy(v[:8], v[8:16])
			s.Set(nvidia.FieldSwitchGPUs, v)
			cs[9] = s.Component("switch1", nonce)
			return cs
		}},
		{"one GPU dropped, and every switch lists another twice", "set.topology", contradicted, "names a GPU twice", func(m *machine, cs []attest.Component) []attest.Component {
			for i, sw := range m.hgx.Switches {
				s := sw.Clone()
				v, _ := s.Report.Field(nvidia.FieldSwitchGPUs)
				v = slices.Clone(v)
				copy(v[8:16], v[:8])
				s.Set(nvidia.FieldSwitchGPUs, v)
				cs[8+i] = s.Component("switch", nonce)
			}
			return slices.Delete(cs, 1, 2)
		}},
		{"no switches", "set.topology", unknown, "evidence-missing: the GPUs are behind 4 switches", func(_ *machine, cs []attest.Component) []attest.Component { return cs[:8] }},
		{"no GPUs", "set.topology", unknown, "evidence-missing", func(_ *machine, cs []attest.Component) []attest.Component { return cs[8:] }},
		{"one GPU alone", "set.topology", contradicted, "1 of 8", func(m *machine, cs []attest.Component) []attest.Component {
			cs = cs[:8]
			for i := range 7 {
				cs[i] = m.single(i)
			}
			return append(cs, m.hgx.Components(nonce)[8:]...)
		}},
		{"one signature broken", "set.topology", unknown, "rests-on nvidia.signature@gpu:2", func(_ *machine, cs []attest.Component) []attest.Component {
			raw := slices.Clone(cs[2].Parts[0].Data)
			raw[60] ^= 1
			cs[2].Parts = slices.Clone(cs[2].Parts)
			cs[2].Parts[0].Data = raw
			return cs
		}},
		{"one report unreadable", "set.count", unknown, "rests-on nvidia.structure@gpu:2", func(_ *machine, cs []attest.Component) []attest.Component {
			cs[2].Parts = slices.Clone(cs[2].Parts)
			cs[2].Parts[0].Data = cs[2].Parts[0].Data[:99]
			return cs
		}},
		{"nonces mixed", "set.same-nonce", contradicted, "gpu:5 answers 09", func(m *machine, cs []attest.Component) []attest.Component {
			cs[5] = m.hgx.GPUs[5].Component("gpu5", [32]byte{9})
			return cs
		}},
		{"modes mixed", "set.same-mode", contradicted, "gpu:4 in SPT", func(m *machine, cs []attest.Component) []attest.Component {
			cs[4] = m.single(4)
			return cs
		}},
		{"switch not locked", "set.same-mode", unknown, "rests-on nvidia.mode@switch:0", func(m *machine, cs []attest.Component) []attest.Component {
			s := m.hgx.Switches[0].Clone()
			s.Set(nvidia.FieldLock, []byte{0, 0})
			cs[8] = s.Component("switch0", nonce)
			return cs
		}},
		{"one GPU measures otherwise", "set.fleet-agreement", contradicted, "gpu:0 and gpu:6 are alike", func(m *machine, cs []attest.Component) []attest.Component {
			g := m.hgx.GPUs[6].Clone()
			g.Report.Measurements[50][0] ^= 1
			cs[6] = g.Component("gpu6", nonce)
			return cs
		}},
		{"nothing to compare with", "set.fleet-agreement", unknown, "no two GPUs here are alike", func(_ *machine, cs []attest.Component) []attest.Component { return cs[:1] }},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMachine(t)
			set := m.judge(row.change(m, m.hgx.Components(nonce)), m.items...)
			want(t, set, row.id, "set", row.status, row.words)
			if t.Failed() {
				for _, c := range set {
					if c.Subject == "set" {
						t.Logf("%s %s %s %s", c.ID, c.Status, c.Value, c.Reason)
					}
				}
			}
		})
	}
}

// single is a GPU of the machine switched to work alone.
func (m *machine) single(i int) attest.Component {
	g := m.hgx.GPUs[i].Clone()
	g.Set(nvidia.FieldProtectedPCIe, []byte{0x55})
	g.Set(nvidia.FieldFeature, []byte{0, 0})
	return g.Component("gpu", nonce)
}

func TestNoDevicesNoClaims(t *testing.T) {
	if got := nvidia.SetClaims(nil); got != nil {
		t.Errorf("claims of nothing: %v", got)
	}
}

// TestConfidential composes measurements and statement; agent.measured and the statement's own claim stand in as the verifier
// makes them.
func TestConfidential(t *testing.T) {
	sound := attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}
	with := func(change func(*attest.NVML)) *attest.NVML { n := sound; change(&n); return &n }
	for _, row := range []struct {
		name      string
		said      *attest.NVML
		agent     claim.Status // of agent.measured
		differs   bool         // measurements
		noRIM     bool
		mode, dev claim.Status
		value     string // of nvidia.cc-mode
		words     string // of its reason
	}{
		{"sound", &sound, affirmed, false, false, affirmed, affirmed, "on", ""},
		{"agent not measured", &sound, unknown, false, false, unknown, unknown, "on", "rests-on agent.measured"},
		{"no statement", nil, affirmed, false, false, unknown, unknown, "", "evidence-missing"},
		{"no manifest", &sound, affirmed, false, true, unknown, unknown, "on", "rests-on nvidia.measurements"},
		{"measurements differ", &sound, affirmed, true, false, contradicted, contradicted, "on", "not those of production"},
		{"L08: DevTools on", with(func(n *attest.NVML) { n.DevToolsMode = 1 }), affirmed, false, false, affirmed, contradicted, "on", ""},
		{"DevTools on, agent not measured", with(func(n *attest.NVML) { n.DevToolsMode = 1 }), unknown, false, false, unknown, contradicted, "on", ""},
		{"L12: DevTools out of the table", with(func(n *attest.NVML) { n.DevToolsMode = 2 }), affirmed, false, false, affirmed, unknown, "on", ""},
		{"L13: unsupported", with(func(n *attest.NVML) { n.Capable, n.CCFeature = 0, 0 }), affirmed, false, false, contradicted, affirmed, "unsupported", "not capable"},
		{"L13: off", with(func(n *attest.NVML) { n.CCFeature = 0 }), affirmed, false, false, contradicted, affirmed, "off", "is off"},
		{"L12: feature out of the table", with(func(n *attest.NVML) { n.CCFeature = 2 }), affirmed, false, false, unknown, affirmed, "", "unknown-value"},
		{"L12: capability out of the table", with(func(n *attest.NVML) { n.Capable = 7 }), affirmed, false, false, unknown, affirmed, "", "unknown-value"},
		{"simulation", with(func(n *attest.NVML) { n.Environment = 1 }), affirmed, false, false, contradicted, affirmed, "simulation", "want 2 (production)"},
		{"environment unavailable", with(func(n *attest.NVML) { n.Environment = 0 }), affirmed, false, false, contradicted, affirmed, "off", "want 2 (production)"},
		{"L12: environment out of the table", with(func(n *attest.NVML) { n.Environment = 3 }), affirmed, false, false, unknown, affirmed, "", "unknown-value"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMinted(t, "GH100")
			if row.differs {
				m.device.Report.Measurements[9][0] ^= 1
			}
			if row.noRIM {
				m.items = nil
			}
			var set claim.Set
			nvidia.Appraise(m.device.Component("gpu0", nonce), gpu0, m.caseOf(m.items), m.asked(), &set)
			set.Affirm("guest.measured", "node", "tee")
			set.Add(claim.Claim{ID: "agent.measured", Subject: "node", Status: row.agent, Reason: "test: row"})
			set.Affirm("statement.structure", "statement:0", "")
			for _, c := range nvidia.ConfidentialClaims(gpu0, "statement:0", set, row.said) {
				set.Add(c)
			}
			set.Settle()
			want(t, set, "nvidia.cc-mode", gpu0, row.mode, row.words)
			if got := set.Find("nvidia.cc-mode", gpu0).Value; got != row.value {
				t.Errorf("nvidia.cc-mode has value %q, want %q", got, row.value)
			}
			want(t, set, "nvidia.devtools-off", gpu0, row.dev)
		})
	}
}
