package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// CPU TEEs that a draft can ask for.
const (
	TEESEVSNP = "sev-snp"
	TEETDX    = "tdx"
)

// TEEs lists them.
var TEEs = []string{TEESEVSNP, TEETDX}

// Answers are what somebody says of a job whose policy is to be written.
type Answers struct {
	Name      string
	DataClass DataClass
	Countries []string // codes; empty: anywhere
	TEE       string   // of the CPU
	GPUs      int      // in confidential mode, at least; 0: none is asked for
	MaxAge    Age      // of the evidence
	Issuers   []string // who must vouch for the party; empty: any issuer that the verifier registered
}

// CheckName refuses what a policy of one's own cannot be named.
func CheckName(name string) error {
	switch {
	case len(name) > MaxName || !nameForm.MatchString(name):
		return fmt.Errorf("name %.80q: want up to %d lower-case letters, digits and single hyphens", name, MaxName)
	case slices.Contains(builtins, name):
		return fmt.Errorf("name %q is a built-in policy's, choose another", name)
	}
	return nil
}

// CheckTEE refuses what is no CPU TEE that a draft can ask for.
func CheckTEE(tee string) error {
	if !slices.Contains(TEEs, tee) {
		return fmt.Errorf("CPU TEE %.40q: want %s; a policy of your own cannot say 'if it is this, then': for both, write two", tee, list(TEEs, "or"))
	}
	return nil
}

// DefaultMaxAge is how old evidence may be for data of a class: what `regulated` asks where the class is regulated.
func (c DataClass) DefaultMaxAge() Age {
	if c.Holders()[0] == claim.TierAttestedFacility {
		return 15 * 60
	}
	return 24 * 3600
}

// draft is a policy under way: lines of YAML.
type draft struct{ strings.Builder }

func (d *draft) line(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// rule writes one rule. Its operator is written as it stands.
func (d *draft) rule(id string, of Class, operator string) {
	if strings.HasPrefix(id, "*") {
		id = strconv.Quote(id)
	}
	if operator != "" {
		operator = ", " + operator
	}
	d.line("  - {claim: %s, of: %s%s}", id, of, operator)
}

func (d *draft) rules(of Class, ids ...string) {
	for _, id := range ids {
		d.rule(id, of, "")
	}
}

// Draft writes a policy that says what the answers ask, with a comment to each part, as a person would edit it. It loads
// as it is.
func Draft(a Answers) ([]byte, error) {
	if err := CheckTEE(a.TEE); err != nil {
		return nil, err
	}
	switch {
	case a.MaxAge <= 0:
		return nil, errors.New("evidence age: want a length of time, such as 24h")
	case a.GPUs < 0 || a.GPUs > MaxGPUs:
		return nil, fmt.Errorf("%d GPUs: want 0 to %d", a.GPUs, MaxGPUs)
	}
	var d draft
	d.line("# What a machine must prove before data of class %s goes there.", a.DataClass)
	d.line("# assay policy lint checks this file, assay policy test runs the tests beside it, assay policy explain says it in sentences.")
	d.line("type: %s", Type)
	d.line("name: %s", a.Name)
	d.line("about: Data of class %s, on a confidential CPU (%s)%s.", a.DataClass, a.TEE, map[bool]string{true: " with confidential GPUs"}[a.GPUs > 0])
	d.line("data-class: %s", a.DataClass)
	party := a.party()
	if len(a.Issuers) > 0 {
		if party == "" {
			return nil, errors.New("issuers: nothing that this policy asks is anybody's to vouch for; name countries, or another data class")
		}
		d.line("# Whose word about the provider counts. Nobody else's does, the provider's own never.")
		d.line("issuers: [%s]", strings.Join(a.Issuers, ", "))
	}
	d.line("# Reference values of your guest images, once you have them: the digest that `assay policy references FILE` prints.")
	d.line("# Until then whatever the verifier lists counts.")
	d.line("# references: [SHA-256]")
	d.line("require:")
	d.cpu(a)
	if a.GPUs > 0 {
		d.gpus(a)
	}
	d.WriteString(party)
	d.line("# Must not be contradicted; unknown passes here.")
	d.line("refuse:")
	d.line("  - binding.*")
	d.line("  - set.*")
	if a.GPUs > 0 {
		d.line("  - nvidia.* # also of switches, which this policy does not ask for")
	}
	if party != "" {
		d.line("  - party.*")
	}
	text := []byte(d.String())
	if _, err := Load(a.Name+".yaml", text); err != nil {
		return nil, err
	}
	return text, nil
}

func (d *draft) cpu(a Answers) {
	fresh := "max-age: " + a.MaxAge.String()
	d.line("  # The evidence is whole, and made by genuine hardware of %s.", a.TEE)
	d.rule("*.structure", Node, "")
	d.rule("*.structure", CPU, "")
	room := "sevsnp"
	if a.TEE == TEETDX {
		room = "tdx"
		d.rules(CPU, "tdx.chain", "tdx.qe-report", "tdx.qe-signer", "tdx.signature")
	} else {
		d.rules(CPU, "sevsnp.chain", "sevsnp.signing-key", "sevsnp.signature", "sevsnp.cert-tcb", "sevsnp.cert-chip-id")
	}
	d.rule("set.device-unique", Set, "")
	d.line("  # It is of now, for this appraiser, by this agent.")
	d.rule(room+".revocation", CPU, "")
	d.rule(room+".freshness", CPU, fresh)
	d.rules(Node, "binding.seal", "binding.possession")
	d.line("  # The host is kept out, and the firmware is current.")
	if a.TEE == TEETDX {
		d.rules(CPU, "tdx.debug-off", "tdx.collateral", "tdx.qe-identity", "tdx.seam", "tdx.module-identity", "tdx.servicetd")
		d.rule("tdx.attributes", CPU, "min: sept-ve-disable")
		d.rule("tdx.tcb-status", CPU, "is: UpToDate")
	} else {
		d.rules(CPU, "sevsnp.debug-off", "sevsnp.migration-off", "sevsnp.reserved-bits")
		d.rule("sevsnp.vmpl", CPU, "is: 0")
		d.rule("sevsnp.platform-info", CPU, "min: alias-check")
		for _, id := range []string{"sevsnp.tcb", "sevsnp.committed-tcb", "sevsnp.launch-tcb"} {
			d.rule(id, CPU, "min: floors")
		}
	}
	d.line("  # The guest and the agent in it are known, by the CPU's own measurement.")
	d.rule("guest.measured", Node, "is: tee")
	d.rule("agent.measured", Node, "is: tee")
}

func (d *draft) gpus(a Answers) {
	fresh := "max-age: " + a.MaxAge.String()
	d.line("  # GPUs, %d at least, that keep their memory from the host, with firmware that NVIDIA lists.", a.GPUs)
	count := ""
	if a.GPUs > 1 {
		count = fmt.Sprintf("count: %d", a.GPUs)
	}
	d.rule("*.structure", GPU, count)
	d.rules(GPU, "nvidia.chain", "nvidia.signature", "nvidia.identity")
	d.rule("nvidia.freshness", GPU, fresh)
	d.rules(GPU, "nvidia.revocation", "nvidia.fwid", "nvidia.driver-rim", "nvidia.vbios-rim", "nvidia.measurements")
	d.rule("nvidia.cc-mode", GPU, `is: "on"`)
	d.rules(GPU, "nvidia.devtools-off")
	d.line("  # Together they are one machine, linked to nobody else.")
	d.rules(Set, "set.count", "set.same-nonce", "set.same-mode", "set.links")
}

// party writes the rules about whoever runs the machine; there are none where anybody may and anywhere.
func (a Answers) party() string {
	var d draft
	if holders := a.DataClass.Holders(); len(holders) < len(claim.Tiers) {
		d.line("  # Whoever may hold such data. Where the verifier knows nothing of the party, these rules are left open.")
		d.rule("party.tier", Party, "in: ["+strings.Join(holders, ", ")+"]")
		if holders[0] == claim.TierAttestedFacility {
			d.rule("party.witnessed", Party, "")
		}
	}
	if len(a.Countries) > 0 {
		d.line("  # Under the law of one of these countries, by an issuer's word.")
		var quoted []string
		for _, c := range a.Countries {
			quoted = append(quoted, strconv.Quote(c)) // NO is false to some readers of YAML
		}
		d.rule("party.jurisdiction", Party, "in: ["+strings.Join(quoted, ", ")+"]")
	}
	return d.String()
}

// YAML writes the tests as a person would edit them.
func (t *Tests) YAML() []byte {
	var d draft
	d.line("# Claims, and the verdict that the policy must give of them. Add hosts of your own.")
	d.line("type: %s", TestsType)
	d.line("as-of: %s", t.AsOf)
	d.line("hosts:")
	for _, h := range t.Hosts {
		d.line("  - name: %s", h.Name)
		d.line("    claims:")
		for _, s := range h.Claims {
			d.line("      - {%s}", s.yaml())
		}
	}
	d.line("tests:")
	for _, x := range t.Tests {
		d.line("  - name: %s", x.Name)
		d.line("    host: %s", x.Host)
		if x.Change != nil {
			d.line("    change:")
			for _, s := range x.Change {
				d.line("      - {%s}", s.yaml())
			}
		}
		d.line("    want: %s", x.Want)
		if x.Because != nil {
			d.line("    because: [%s]", strings.Join(x.Because, ", "))
		}
	}
	return []byte(d.String())
}

// yaml writes a claim on one line. Values are quoted: some would be numbers or truths.
func (s Stated) yaml() string {
	parts := []string{"id: " + s.ID, "subject: " + strconv.Quote(s.Subject)}
	if s.Status != 0 {
		parts = append(parts, "status: "+s.Status.String())
	}
	if s.Value != "" {
		parts = append(parts, "value: "+strconv.Quote(string(s.Value)))
	}
	if s.Age != 0 {
		parts = append(parts, "age: "+s.Age.String())
	}
	if s.Issuer != "" {
		parts = append(parts, "issuer: "+s.Issuer)
	}
	if !s.List.IsZero() {
		parts = append(parts, "list: "+s.List.String())
	}
	return strings.Join(parts, ", ")
}
