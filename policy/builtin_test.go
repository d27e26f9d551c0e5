package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/policy"
)

func TestBuiltinsAcceptSoundEvidence(t *testing.T) {
	for _, name := range policy.Builtins() {
		t.Run(name, func(t *testing.T) {
			v := policy.Decide(goodSet(), builtin(t, name), now)
			expect(t, v, policy.Accept)
			if v.Scope != policy.ScopeFull || v.Policy.Name != name || v.Policy.Digest.IsZero() || v.AsOf != now || v.Rules != policy.Rules {
				t.Errorf("verdict %+v", v)
			}
		})
	}
	if _, ok := policy.Builtin("strictest"); ok {
		t.Error("a policy that is not there was found")
	}
}

// required returns the claims of the good set that a rule asks for.
func required(r policy.Rule) (ids []string) {
	for _, c := range goodSet() {
		class := claim.Class(c.Subject)
		if match(r.Claim, c.ID) && (string(r.Of) == class || r.Of == policy.Device && class == "cpu") {
			ids = append(ids, c.ID)
		}
	}
	return ids
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
		for _, r := range p.Document().Require {
			ids := required(r)
			if len(ids) == 0 {
				t.Errorf("%s: %s of %s has no claim in the sound evidence", name, r.Claim, r.Of)
			}
			for _, id := range ids {
				t.Run(name+"/"+id, func(t *testing.T) {
					expect(t, policy.Decide(with(t, id, contradict), p, now), policy.Reject, id)
					expect(t, policy.Decide(with(t, id, unknown(claim.EvidenceMissing)), p, now), policy.Reject, id)
					expect(t, policy.Decide(with(t, id, unknown(claim.CollateralMissing)), p, now), policy.Undecided, id)
					expect(t, policy.Decide(with(t, id, unknown(claim.Internal)), p, now), policy.Undecided, id)
				})
			}
		}
		for _, pattern := range p.Document().Refuse {
			for _, c := range goodSet() {
				if match(pattern, c.ID) {
					t.Run(name+"/refuse/"+c.ID, func(t *testing.T) {
						expect(t, policy.Decide(with(t, c.ID, contradict), p, now), policy.Reject, c.ID)
					})
				}
			}
		}
	}
}

// What is unknown passes under refuse, and what neither list names is not read.
func TestGenuineReadsNothingElse(t *testing.T) {
	p := builtin(t, "genuine")
	for _, c := range []struct {
		id     string
		change func(*claim.Claim)
	}{
		{"sevsnp.freshness", unknown(claim.NoExpectation)},
		{"sevsnp.revocation", unknown(claim.CollateralMissing)},
		{"binding.seal", unknown(claim.NoExpectation)},
		{"sevsnp.debug-off", contradict},
		{"sevsnp.vmpl", contradict},
		{"guest.measured", contradict},
		{"sevsnp.tcb", value("bl=0 tee=0 snp=0 ucode=0")},
	} {
		expect(t, policy.Decide(with(t, c.id, c.change), p, now), policy.Accept)
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
	t.Run("twins", func(t *testing.T) {
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
		p := builtin(t, name)
		keep := func(id string, except int) *policy.Policy {
			return edited(t, p, func(d *policy.Document) {
				var kept []policy.Rule
				for i, r := range d.Require {
					above := slices.ContainsFunc(required(r), func(other string) bool { return restsOn(other, id) })
					if i != except && !above && !(except >= 0 && slices.Contains(required(r), id)) {
						kept = append(kept, r)
					}
				}
				d.Require = kept
			})
		}
		for i, r := range p.Document().Require {
			for _, id := range required(r) {
				if i == 0 && id == "bundle.structure" && len(keep(id, i).Document().Require) == 0 {
					continue
				}
				t.Run(name+"/"+id, func(t *testing.T) {
					twin := with(t, id, unknown(claim.CollateralMissing))
					expect(t, policy.Decide(twin, keep(id, -1), now), policy.Undecided, id)
					expect(t, policy.Decide(twin, keep(id, i), now), policy.Accept)
				})
			}
		}
		for _, pattern := range p.Document().Refuse {
			for _, c := range goodSet() {
				if !match(pattern, c.ID) {
					continue
				}
				t.Run(name+"/refuse/"+c.ID, func(t *testing.T) {
					bare := func(refuse bool) *policy.Policy {
						return edited(t, keep(c.ID, len(p.Document().Require)), func(d *policy.Document) {
							d.Refuse = []string{"set.device-unique"}
							if refuse {
								d.Refuse = []string{pattern}
							} else if pattern == "set.*" {
								d.Refuse = []string{"binding.seal"}
							}
						})
					}
					twin := with(t, c.ID, contradict)
					expect(t, policy.Decide(twin, bare(true), now), policy.Reject, c.ID)
					expect(t, policy.Decide(twin, bare(false), now), policy.Accept)
				})
			}
		}
	}
}

// restsOn reports whether a claim of the good set rests on another, however far down.
func restsOn(id, on string) bool {
	s := goodSet()
	i := slices.IndexFunc(s, func(c claim.Claim) bool { return c.ID == id })
	for _, b := range s[i].Basis {
		b, _, _ = strings.Cut(b, "@")
		if b == on || strings.Contains(b, ".") && restsOn(b, on) {
			return true
		}
	}
	return false
}

// A built-in that names a class must judge every format of it: else a component of a format that nobody thought of would
// pass with nothing but its structure read.
func TestBuiltinsNameEveryFormatOfAClass(t *testing.T) {
	for _, name := range policy.Builtins() {
		p := builtin(t, name)
		for _, def := range claim.Catalogue() {
			room := claim.Room(def.ID)
			if !strings.HasSuffix(def.ID, ".structure") || room == "bundle" || room == "statement" {
				continue
			}
			for _, rest := range []string{"chain", "signature"} {
				if _, ok := claim.Lookup(room + "." + rest); !ok {
					continue
				}
				if !slices.ContainsFunc(p.Document().Require, func(r policy.Rule) bool { return match(r.Claim, room+"."+rest) }) {
					t.Errorf("%s has no rule for %s.%s", name, room, rest)
				}
			}
			if !slices.ContainsFunc(p.Document().Require, func(r policy.Rule) bool {
				return match(r.Claim, room+".chain") || match(r.Claim, room+".signature") || match(r.Claim, room+".quote")
			}) {
				t.Errorf("%s names a class of format %s and has no rule about its signature", name, room)
			}
		}
	}
}

// Every room of the catalogue belongs to a class: a claim that no rule can name would be a claim that nobody can require.
func TestEveryClaimCanBeRequired(t *testing.T) {
	for _, c := range goodSet() {
		load(t, "require: [{claim: "+c.ID+", of: "+claim.Class(c.Subject)+"}]")
	}
}

func TestExplainAndUncovered(t *testing.T) {
	for name, want := range map[string][]string{
		"genuine":          {"secrecy", "freshness", "revocation", "state", "GPUs", "who runs the host and where"},
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
		for _, words := range []string{p.Digest().String(), "Nothing is decided about "} {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q", name, words)
			}
		}
	}
	for _, words := range []string{
		"Every cpu, at least 1: sevsnp.vmpl affirmed, and is 0\n",
		"Every cpu, at least 1: sevsnp.platform-info affirmed, and includes alias-check\n",
		"The node: guest.measured affirmed, and is tee or paravisor\n",
		"  - Milan: snp=24\n",
	} {
		if !strings.Contains(builtin(t, "confidential-cpu").Explain(), words) {
			t.Errorf("confidential-cpu does not say %q", words)
		}
	}
}
