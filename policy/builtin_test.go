package policy_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/policy"
)

// host is a kind of machine that sends sound evidence, by the formats in its bundle, the seal's first.
type host struct {
	name    string
	formats []string
}

func (h host) set() claim.Set { return sound(h.formats...) }

// hosts returns the machines whose sound evidence a built-in policy accepts. To confidential-cpu GPUs are neither here nor
// there (L10).
func hosts(name string) []host {
	gpus := []host{{"SEV-SNP with a GPU", []string{"sevsnp", oneGPU}}, {"SEV-SNP with 8 GPUs and 4 switches", []string{"sevsnp", hgx}},
		{"TDX with a GPU", []string{"tdx", oneGPU}}, {"TDX with TPM and a GPU", []string{"tdx", "tpm", oneGPU}},
		{"SEV-SNP on Azure with a GPU", []string{"tpm", "azure", "sevsnp", oneGPU}}}
	if name == "confidential-gpu" {
		return gpus
	}
	all := append(gpus, withoutGPUs...)
	if name == "genuine" {
		return append(all, host{"TPM", []string{"tpm"}}, host{"TPM with a GPU", []string{"tpm", oneGPU}})
	}
	return all
}

// withoutGPUs are confidential machines that have none, or show none.
var withoutGPUs = []host{{"SEV-SNP", []string{"sevsnp"}}, {"TDX", []string{"tdx"}}, {"SEV-SNP with TPM", []string{"sevsnp", "tpm"}}, {"TDX with TPM", []string{"tdx", "tpm"}},
	{"SEV-SNP on Azure", []string{"tpm", "azure", "sevsnp"}}, {"TDX on Azure", []string{"tpm", "azure", "tdx"}}}

func TestBuiltinsAcceptSoundEvidence(t *testing.T) {
	for _, name := range policy.Builtins() {
		for _, h := range hosts(name) {
			t.Run(name+"/"+h.name, func(t *testing.T) {
				v := policy.Decide(h.set(), builtin(t, name), now)
				expect(t, v, policy.Accept)
				if v.Scope != policy.ScopeFull || v.Policy.Name != name || v.Policy.Digest.IsZero() || v.AsOf != now || v.Rules != policy.Rules {
					t.Errorf("verdict %+v", v)
				}
			})
		}
	}
	if _, ok := policy.Builtin("strictest"); ok {
		t.Error("a policy that is not there was found")
	}
}

// A TPM without a CPU TEE keeps nothing secret from who runs the host: the CPU is missing, and what measured the guest is
// a TPM, which root on the host can lend.
func TestConfidentialCPUWantsACPU(t *testing.T) {
	v := policy.Decide(sound("tpm"), builtin(t, "confidential-cpu"), now)
	expect(t, v, policy.Reject, "*.structure", "guest.measured", "agent.measured")
	if r := v.Reasons[0]; r.Subject != "cpu" || r.Observed != "evidence-missing: 0 in the evidence" {
		t.Errorf("reason %+v", r)
	}
	for _, r := range v.Reasons[1:] {
		if r.Observed != "tpm" || r.Required != "is tee or paravisor" {
			t.Errorf("reason %+v", r)
		}
	}
}

// Without a GPU a confidential machine is refused by confidential-gpu, for that alone.
func TestConfidentialGPUWantsAGPU(t *testing.T) {
	for _, h := range withoutGPUs {
		v := policy.Decide(h.set(), builtin(t, "confidential-gpu"), now)
		expect(t, v, policy.Reject, "*.structure")
		if r := v.Reasons[0]; r.Subject != "gpu" || r.Observed != "evidence-missing: 0 in the evidence" {
			t.Errorf("%s: reason %+v", h.name, r)
		}
	}
}

// L10: a machine whose agent is silent on its GPUs, or says that they keep no secret, is confidential without them, and not
// with them.
func TestConfidentialCPUIgnoresGPUs(t *testing.T) {
	for _, id := range []string{"nvidia.cc-mode@gpu:0", "nvidia.devtools-off@gpu:0"} {
		for status, change := range map[string]func(*claim.Claim){"silent": unknown(claim.EvidenceMissing), "off": contradict} {
			s := altered(t, sound("sevsnp", oneGPU), id, change)
			if v := policy.Decide(s, builtin(t, "confidential-cpu"), now); v.Outcome != policy.Accept {
				t.Errorf("%s %s: %s %+v", id, status, v.Outcome, v.Reasons)
			}
			bare, _, _ := strings.Cut(id, "@")
			expect(t, policy.Decide(s, builtin(t, "confidential-gpu"), now), policy.Reject, bare)
		}
	}
}

// Every GPU and every switch is judged, not only the first.
func TestConfidentialGPUJudgesEachDevice(t *testing.T) {
	p := builtin(t, "confidential-gpu")
	for _, c := range []struct {
		name, id string
		change   func(*claim.Claim)
		observed string
	}{
		{"a GPU not confidential", "nvidia.cc-mode@gpu:7", value("off"), "off"},
		{"a GPU in simulation", "nvidia.cc-mode@gpu:3", value("simulation"), "simulation"},
		{"a GPU's old report", "nvidia.freshness@gpu:5", func(c *claim.Claim) { c.From = now - 25*3600 }, "25h old, from 2026-02-01T01:40:00Z"},
		{"a switch's old report", "nvidia.freshness@switch:3", func(c *claim.Claim) { c.From = now - 25*3600 }, "25h old, from 2026-02-01T01:40:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, subject, _ := strings.Cut(c.id, "@")
			v := policy.Decide(altered(t, sound("sevsnp", hgx), c.id, c.change), p, now)
			expect(t, v, policy.Reject, id)
			if r := v.Reasons[0]; r.Observed != c.observed || r.Subject != subject {
				t.Errorf("%+v, want %q of %s", r, c.observed, subject)
			}
		})
	}
}

// Where there are GPUs, an appraisal that says nothing of them together is not accepted.
func TestConfidentialGPUWantsTheSet(t *testing.T) {
	for _, id := range []string{"set.count", "set.same-nonce", "set.same-mode", "set.links"} {
		s := slices.DeleteFunc(sound("sevsnp", oneGPU), func(c claim.Claim) bool { return c.ID == id })
		expect(t, policy.Decide(s, builtin(t, "confidential-gpu"), now), policy.Undecided, id)
	}
}

// required returns the claims of a set that a rule asks for, as ID@SUBJECT.
func required(s claim.Set, r policy.Rule) (names []string) {
	for _, c := range s {
		class := claim.Class(c.Subject)
		if match(r.Claim, c.ID) && (string(r.Of) == class || r.Of == policy.Device && slices.Contains([]string{"cpu", "tpm", "gpu", "switch"}, class)) {
			names = append(names, name(c))
		}
	}
	return names
}

func match(pattern, id string) bool {
	room, what, _ := strings.Cut(pattern, ".")
	r, w, _ := strings.Cut(id, ".")
	return (room == "*" || room == r) && (what == "*" || what == w)
}

// Every claim that a built-in requires has a twin of the sound evidence that differs in that claim, and is refused or
// undecided for that claim alone.
func TestBuiltinTwins(t *testing.T) {
	for _, name := range policy.Builtins() {
		p := builtin(t, name)
		spoken := map[int]bool{} // rules that speak of some host
		for _, h := range hosts(name) {
			good := h.set()
			twin := func(of string, change func(*claim.Claim)) policy.Verdict {
				return policy.Decide(altered(t, slices.Clone(good), of, change), p, now)
			}
			for i, r := range p.Document().Require {
				for _, of := range required(good, r) {
					spoken[i] = true
					t.Run(name+"/"+h.name+"/"+of, func(t *testing.T) {
						id, _, _ := strings.Cut(of, "@")
						expect(t, twin(of, contradict), policy.Reject, id)
						expect(t, twin(of, unknown(claim.EvidenceMissing)), policy.Reject, id)
						expect(t, twin(of, unknown(claim.CollateralMissing)), policy.Undecided, id)
						expect(t, twin(of, unknown(claim.Internal)), policy.Undecided, id)
					})
				}
			}
			for _, pattern := range p.Document().Refuse {
				for _, c := range good {
					if match(pattern, c.ID) {
						t.Run(name+"/"+h.name+"/refuse/"+c.ID, func(t *testing.T) {
							expect(t, twin(c.ID+"@"+c.Subject, contradict), policy.Reject, c.ID)
						})
					}
				}
			}
		}
		for i, r := range p.Document().Require {
			if !spoken[i] {
				t.Errorf("%s: %s of %s has no claim in any sound evidence", name, r.Claim, r.Of)
			}
		}
	}
}

// What is unknown passes under refuse, and what neither list names is not read.
func TestGenuineReadsNothingElse(t *testing.T) {
	p := builtin(t, "genuine")
	for _, c := range []struct {
		format, id string
		change     func(*claim.Claim)
	}{
		{"sevsnp", "sevsnp.freshness", unknown(claim.NoExpectation)},
		{"sevsnp", "sevsnp.revocation", unknown(claim.CollateralMissing)},
		{"sevsnp", "binding.seal", unknown(claim.NoExpectation)},
		{"sevsnp", "sevsnp.debug-off", contradict},
		{"sevsnp", "sevsnp.vmpl", contradict},
		{"sevsnp", "guest.measured", contradict},
		{"sevsnp", "sevsnp.tcb", value("bl=0 tee=0 snp=0 ucode=0")},
		{"tdx", "tdx.freshness", unknown(claim.NoExpectation)},
		{"tdx", "tdx.collateral", unknown(claim.CollateralMissing)},
		{"tdx", "tdx.tcb-status", value("OutOfDate")},
		{"tdx", "tdx.debug-off", contradict},
		{"tdx", "tdx.attributes", value("")},
		{"tdx", "tdx.servicetd", contradict},
		{"tpm", "tpm.freshness", unknown(claim.NoExpectation)},
		{"tpm", "tpm.ek-chain", unknown(claim.EvidenceMissing)},
		{"tpm", "tpm.event-log", contradict},
		{"tpm", "tpm.ima", unknown(claim.EvidenceMissing)},
		{"tpm", "tpm.clock", contradict},
	} {
		expect(t, policy.Decide(altered(t, sound(c.format), c.id, c.change), p, now), policy.Accept)
	}
}

// The value twins of confidential-cpu: proven, and not good enough.
func TestConfidentialCPUValues(t *testing.T) {
	p := builtin(t, "confidential-cpu")
	for _, c := range []struct {
		name, id string
		change   func(*claim.Claim)
		observed string
	}{
		{"VMPL 2", "sevsnp.vmpl", value("2"), "2"},
		{"old TCB", "sevsnp.tcb", value("bl=4 tee=0 snp=23 ucode=219"), "bl=4 tee=0 snp=23 ucode=219"},
		{"old committed TCB", "sevsnp.committed-tcb", value("bl=4 tee=0 snp=23 ucode=219"), "bl=4 tee=0 snp=23 ucode=219"},
		{"old launch TCB", "sevsnp.launch-tcb", value("bl=4 tee=0 snp=23 ucode=219"), "bl=4 tee=0 snp=23 ucode=219"},
		{"no alias check", "sevsnp.platform-info", value("ecc"), "ecc"},
		{"guest measured by the host", "guest.measured", value("host-vtpm"), "host-vtpm"},
		{"agent measured by the host", "agent.measured", value("host-vtpm"), "host-vtpm"},
		{"25 hours old", "sevsnp.freshness", func(c *claim.Claim) { c.From = now - 25*3600 }, "25h old, from 2026-02-01T01:40:00Z"},
		{"from the future", "sevsnp.freshness", func(c *claim.Claim) { c.From = now + policy.FutureSlack + 1 }, "from 2026-02-02T02:41:01Z, in the future"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := policy.Decide(with(t, c.id, c.change), p, now)
			expect(t, v, policy.Reject, c.id)
			if r := v.Reasons[0]; r.Observed != c.observed || r.Status != claim.Affirmed {
				t.Errorf("observed %q (%s), want %q", r.Observed, r.Status, c.observed)
			}
		})
	}
	for _, c := range []struct{ name, id, value string }{
		{"TCB out of date", "tdx.tcb-status", "OutOfDate"},
		{"software has to harden itself", "tdx.tcb-status", "SWHardeningNeeded"},
		{"configuration needed", "tdx.tcb-status", "ConfigurationNeeded"},
		{"relaunch advised", "tdx.tcb-status", "TDRelaunchAdvised"},
		{"no SEPT_VE_DISABLE", "tdx.attributes", "pks"},
		{"no attributes", "tdx.attributes", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := policy.Decide(altered(t, sound("tdx"), c.id, value(c.value)), p, now)
			expect(t, v, policy.Reject, c.id)
			if r := v.Reasons[0]; r.Observed != cmp.Or(c.value, "nothing") || r.Status != claim.Affirmed {
				t.Errorf("observed %q (%s), want %q", r.Observed, r.Status, c.value)
			}
		})
	}
	t.Run("twins", func(t *testing.T) {
		expect(t, policy.Decide(altered(t, sound("tdx"), "tdx.attributes", value("pks sept-ve-disable")), p, now), policy.Accept)
		for id, change := range map[string]func(*claim.Claim){
			"sevsnp.tcb":           value("bl=0 tee=0 snp=24 ucode=0"),
			"sevsnp.platform-info": value("alias-check"),
			"guest.measured":       value("paravisor"),
			"sevsnp.freshness":     func(c *claim.Claim) { c.From = now - 24*3600 },
		} {
			expect(t, policy.Decide(with(t, id, change), p, now), policy.Accept)
		}
		expect(t, policy.Decide(with(t, "sevsnp.freshness", func(c *claim.Claim) { c.From = now + policy.FutureSlack }), p, now), policy.Accept)
	})
}

// Each rule is needed: a twin that fails passes once the rule is gone. Rules over claims that rest on the twin's claim
// would fail as well, and are gone from both sides.
func TestEachBuiltinRuleIsNeeded(t *testing.T) {
	for _, name := range policy.Builtins() {
		for _, h := range hosts(name) {
			t.Run(name+"/"+h.name, func(t *testing.T) { eachRuleIsNeeded(t, builtin(t, name), h) })
		}
	}
}

func eachRuleIsNeeded(t *testing.T, p *policy.Policy, h host) {
	good := h.set()
	keep := func(of string, except int) *policy.Policy {
		return edited(t, p, func(d *policy.Document) {
			var kept []policy.Rule
			for i, r := range d.Require {
				above := slices.ContainsFunc(required(good, r), func(other string) bool { return restsOn(good, other, of) })
				if i != except && !above && !(except >= 0 && slices.Contains(required(good, r), of)) {
					kept = append(kept, r)
				}
			}
			d.Require = kept
		})
	}
	for i, r := range p.Document().Require {
		seen := map[string]bool{}
		for _, of := range required(good, r) {
			id, subject, _ := strings.Cut(of, "@")
			if seen[id+claim.Class(subject)] { // the first of a class stands for all: TestBuiltinTwins walks each
				continue
			}
			seen[id+claim.Class(subject)] = true
			t.Run(of, func(t *testing.T) {
				twin := altered(t, slices.Clone(good), of, unknown(claim.CollateralMissing))
				expect(t, policy.Decide(twin, keep(of, -1), now), policy.Undecided, id)
				expect(t, policy.Decide(twin, keep(of, i), now), policy.Accept)
			})
		}
	}
	for _, pattern := range p.Document().Refuse {
		for _, c := range good {
			if !match(pattern, c.ID) {
				continue
			}
			t.Run("refuse/"+c.ID, func(t *testing.T) {
				bare := func(refuse bool) *policy.Policy {
					return edited(t, keep(name(c), len(p.Document().Require)), func(d *policy.Document) {
						d.Refuse = []string{"set.device-unique"}
						if refuse {
							d.Refuse = []string{pattern}
						} else if pattern == "set.*" {
							d.Refuse = []string{"binding.seal"}
						}
					})
				}
				twin := altered(t, slices.Clone(good), name(c), contradict)
				expect(t, policy.Decide(twin, bare(true), now), policy.Reject, c.ID)
				expect(t, policy.Decide(twin, bare(false), now), policy.Accept)
			})
		}
	}
}

// restsOn reports whether a claim of a set rests on another, however far down. Both go by ID@SUBJECT.
func restsOn(s claim.Set, of, on string) bool {
	i := slices.IndexFunc(s, func(c claim.Claim) bool { return name(c) == of })
	for _, b := range s[i].Basis {
		id, subject, ok := claim.Base(b, s[i].Subject)
		if !ok {
			continue
		}
		b = id + "@" + subject
		if b == on || restsOn(s, b, on) {
			return true
		}
	}
	return false
}

// A built-in that names a class must judge every format of it: else a component of a format that nobody thought of would
// pass with nothing but its structure read.
func TestBuiltinsNameEveryFormatOfAClass(t *testing.T) {
	classes := map[string][]policy.Class{"azure": {policy.CPU}, "nvidia": {policy.GPU, policy.Switch}, "sevsnp": {policy.CPU}, "tdx": {policy.CPU}, "tpm": {policy.TPM}}
	for _, builtinName := range policy.Builtins() {
		require := builtin(t, builtinName).Document().Require
		for _, def := range claim.Catalogue() {
			room := claim.Room(def.ID)
			if !strings.HasSuffix(def.ID, ".structure") || room == "bundle" || room == "statement" {
				continue
			}
			if classes[room] == nil {
				t.Errorf("of which class is format %s?", room)
			}
			for _, class := range classes[room] {
				asked := func(subject string) bool {
					return slices.ContainsFunc(require, func(r policy.Rule) bool {
						return match(r.Claim, room+"."+subject) && (r.Of == class || r.Of == policy.Device)
					})
				}
				if !asked("structure") { // it does not name the class
					continue
				}
				for _, rest := range []string{"chain", "signature", "quote", "runtime-data"} {
					if _, ok := claim.Lookup(room + "." + rest); ok && !asked(rest) {
						t.Errorf("%s has no rule for %s.%s of %s", builtinName, room, rest, class)
					}
				}
				if !asked("chain") && !asked("signature") && !asked("quote") && !asked("runtime-data") {
					t.Errorf("%s names %s and has no rule about a signature of format %s", builtinName, class, room)
				}
			}
		}
	}
}

// Evidence whose only CPU is of a format that this build has no claims of is never accepted, by whatever built-in: nothing
// but its structure was read.
func TestBuiltinsAcceptNoUnknownFormat(t *testing.T) {
	for _, name := range policy.Builtins() {
		for _, h := range hosts(name) {
			beside := append(h.set(), other("cpu:1"))
			expect(t, policy.Decide(beside, builtin(t, name), now), policy.Undecided, "cca.structure")
			judged := name != "confidential-cpu" && (name != "regulated" || devices(h.formats) != nil) // else the set is not appraised either
			if judged {
				for _, subject := range []string{"gpu:9", "switch:9"} {
					expect(t, policy.Decide(append(h.set(), other(subject)), builtin(t, name), now), policy.Undecided, "cca.structure")
				}
			}
		}
		alone := slices.DeleteFunc(goodSet(), func(c claim.Claim) bool { return claim.Room(c.ID) == "sevsnp" })
		for i := range alone {
			alone[i].Basis = nil // only the component differs
		}
		if v := policy.Decide(append(alone, other("cpu:0")), builtin(t, name), now); v.Outcome == policy.Accept {
			t.Errorf("%s accepts a CPU of an unknown format", name)
		}
	}
}

// other returns the one claim that an appraisal by another build made of a component of a format that this one lacks.
func other(subject string) claim.Claim {
	return claim.Claim{ID: "cca.structure", Subject: subject, Status: claim.Affirmed, Issuer: claim.Verifier, Basis: []string{}}
}

// Every room of the catalogue belongs to a class: a claim that no rule can name would be a claim that nobody can require.
func TestEveryClaimCanBeRequired(t *testing.T) {
	for _, c := range slices.Concat(sound("sevsnp", "tpm", hgx), sound("tpm", "azure", "tdx")) {
		load(t, "require: [{claim: bundle.structure, of: node}, {claim: "+c.ID+", of: "+claim.Class(c.Subject)+"}]")
	}
}

func TestExplainAndUncovered(t *testing.T) {
	for name, want := range map[string][]string{
		"genuine":          {"secrecy", "freshness", "revocation", "state", "GPUs", "who runs the host and where"},
		"regulated":        nil,
		"confidential-gpu": {"who runs the host and where"},
		"confidential-cpu": {"GPUs", "who runs the host and where"},
	} {
		p := builtin(t, name)
		if got := p.Uncovered(); !slices.Equal(got, want) {
			t.Errorf("%s leaves %q uncovered, want %q", name, got, want)
		}
		text := p.Explain()
		for _, r := range p.Document().Require {
			if !strings.Contains(text, r.Claim+" affirmed") {
				t.Errorf("%s does not explain %s", name, r.Claim)
			}
		}
		if !strings.Contains(text, p.Digest().String()) || strings.Contains(text, "Nothing is decided about ") != (want != nil) {
			t.Errorf("%s does not say its digest and what it leaves open", name)
		}
	}
	if p := builtin(t, "regulated"); !slices.Equal(p.NotDecided(policy.Decide(without("party"), p, now)), []string{"who runs the host and where"}) || p.NotDecided(policy.Decide(goodSet(), p, now)) != nil {
		t.Error("a verdict over evidence alone does not say that it leaves the party open")
	}
	for _, words := range []string{
		"Every cpu, at least 1: *.structure affirmed\n",
		"Every cpu that is there: sevsnp.vmpl affirmed, and is 0\n",
		"Every cpu that is there: sevsnp.platform-info affirmed, and includes alias-check\n",
		"Every cpu that is there: tdx.tcb-status affirmed, and is UpToDate\n",
		"Every tpm that is there: *.freshness affirmed, and not older than 24h\n",
		"The node: guest.measured affirmed, and is tee or paravisor\n",
		"  - Milan: snp=24\n",
	} {
		if !strings.Contains(builtin(t, "confidential-cpu").Explain(), words) {
			t.Errorf("confidential-cpu does not say %q", words)
		}
	}
	for _, words := range []string{
		"Every gpu, at least 1: *.structure affirmed\n",
		"Every gpu, at least 1: nvidia.cc-mode affirmed, and is on\n",
		"Every gpu, at least 1: nvidia.freshness affirmed, and not older than 24h\n",
		"Every switch that is there: nvidia.measurements affirmed\n",
		"The set, where there are GPUs or switches: set.links affirmed\n",
	} {
		if !strings.Contains(builtin(t, "confidential-gpu").Explain(), words) {
			t.Errorf("confidential-gpu does not say %q", words)
		}
	}
}
