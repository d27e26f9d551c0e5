package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/policy"
)

const whole = `# what our pilot asks
type: assay/policy/v1
name: pilot
about: A pilot.
references: [` + digestText + `]
floors:
  - {product: Turin, min: "fmc=1 snp=3", source: our own test, date: 2026-01-01T00:00:00Z}
require:
  - {claim: sevsnp.tcb, of: cpu, min: floors, count: 2}
  - {claim: sevsnp.vmpl, of: cpu, in: [0, 1]}
  - {claim: sevsnp.vmpl, of: cpu, min: 1}
  - {claim: "*.freshness", of: cpu, max-age: 1h30m}
  - {claim: sevsnp.host-data, of: cpu, is: "` + hostDataText + `"}
  - {claim: guest.measured, of: node, is: tee}
  - {claim: sevsnp.platform-info, of: device, min: alias-check ecc}
  - {claim: party.legal-entity, of: party, is: "LEI:529900T8BM49AURSDO55"}
refuse: ["*.revocation", set.*, sevsnp.id-block]
`

const hostDataText = "0000000000000000000000000000000000000000000000000000000000000000"

const digestText = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

func TestLoadCanonicalAndDigest(t *testing.T) {
	p, err := policy.Load("pilot.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	b := p.Canonical()
	if p.Digest() != canon.Sum(b) || p.Name() != "pilot" || p.About() != "A pilot." {
		t.Errorf("policy %s %s", p.Name(), p.Digest())
	}
	for _, words := range []string{`"in":["0","1"]`, `"max-age":"90m"`, `"count":2`, `"is":"` + hostDataText + `"`, `"type":"assay/policy/v1"`} {
		if !strings.Contains(string(b), words) {
			t.Errorf("canonical bytes lack %s: %s", words, b)
		}
	}
	q, err := policy.ParseCanonical(b)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := policy.Load("pilot.json", b)
	if err != nil {
		t.Fatal(err)
	}
	if q.Digest() != p.Digest() || fromJSON.Digest() != p.Digest() || q.Explain() != p.Explain() {
		t.Error("the canonical bytes are another policy")
	}
	if _, err := policy.ParseCanonical([]byte(whole)); err == nil {
		t.Error("YAML passes for canonical bytes")
	}
	if _, err := policy.ParseCanonical(append(b, ' ')); err == nil {
		t.Error("bytes that are not canonical pass")
	}
}

func TestBuiltinsRoundTrip(t *testing.T) {
	for _, name := range policy.Builtins() {
		p := builtin(t, name)
		q, err := policy.ParseCanonical(p.Canonical())
		if err != nil || q.Digest() != p.Digest() {
			t.Errorf("%s: %v", name, err)
		}
		_, err = policy.Load("copy.json", p.Canonical())
		if err == nil || !strings.Contains(err.Error(), `is a built-in policy's, choose another`) ||
			!strings.Contains(err.Error(), "if-present: only a built-in policy may let a component be absent") {
			t.Errorf("%s loaded as somebody's own: %v", name, err)
		}
	}
}

// Every fault comes with line and column. The head is two lines long.
func TestLoadRefusals(t *testing.T) {
	const head = "type: assay/policy/v1\nname: test\n"
	rule := func(r string) string { return head + "require:\n  - {" + r + "}\n" }
	const good = "require: [{claim: sevsnp.tcb, of: cpu, min: floors}]\n"
	for _, c := range []struct{ name, text, want string }{
		{"L02 unknown claim", rule("claim: az_snp.tcb, of: cpu"), "p.yaml:4:13: unknown claim az_snp.tcb of cpu, nearest is sevsnp.tcb"},
		{"L02 underscore for hyphen", rule("claim: sevsnp.debug_off, of: cpu"), "p.yaml:4:13: unknown claim sevsnp.debug_off of cpu, nearest is sevsnp.debug-off"},
		{"L02 case", rule("claim: sevsnp.TCB, of: cpu"), "p.yaml:4:13: unknown claim sevsnp.TCB of cpu, nearest is sevsnp."},
		{"L02 unknown wildcard", rule(`claim: "*.debugoff", of: cpu`), "p.yaml:4:13: unknown claim *.debugoff of cpu, nearest is *.debug-off"},
		{"L02 refused claim", head + good + "refuse: [\"*.freshnes\"]", "p.yaml:4:10: unknown claim *.freshnes, nearest is *.freshness"},
		{"unknown claim with nothing near", rule("claim: zzzzzzzzzzzzzzzzzzzzz, of: cpu"), "p.yaml:4:13: unknown claim zzzzzzzzzzzzzzzzzzzzz of cpu\n"},
		{"whole room under require", rule("claim: binding.*, of: node"), "p.yaml:4:13: unknown claim binding.* of node"},
		{"everything under refuse", head + good + "refuse: [\"*.*\"]", "p.yaml:4:10: unknown claim *.*"},
		{"refused twice", head + good + "refuse: [set.*, set.*]", "p.yaml:4:17: set.* is refused twice"},
		{"L03 no require", head, "p.yaml:1:1: require: missing; a policy that requires nothing accepts nothing"},
		{"L05 empty require", head + "require: []", "p.yaml:3:10: require: the list is empty"},
		{"L05 empty in", rule("claim: sevsnp.product, of: cpu, in: []"), "p.yaml:4:42: in: the list is empty"},
		{"L11 tier key", head + good + "min_tier: 2", `p.yaml:4:1: unknown key "min_tier": tiers have names, not numbers`},
		{"L11 tier key of a rule", rule("claim: sevsnp.tcb, of: cpu, tier: 2"), `p.yaml:4:34: unknown key "tier": tiers have names`},
		{"unknown key", head + good + "requires: []", `p.yaml:4:1: unknown key "requires", did you mean "require"?`},
		{"rule without claim", rule("of: cpu"), "p.yaml:4:5: claim: missing"},
		{"rule without class", rule("claim: sevsnp.tcb"), "p.yaml:4:5: of: missing: sevsnp claims speak of cpu"},
		{"unknown class", rule("claim: sevsnp.tcb, of: cpus"), `p.yaml:4:29: class "cpus": want cpu, tpm, gpu, switch, statement, device, node, set or party`},
		{"class of another room", rule("claim: sevsnp.tcb, of: gpu"), "p.yaml:4:29: sevsnp.tcb of gpu can never be met: sevsnp claims speak of cpu"},
		{"claim of no format of the class", rule(`claim: "*.tcb", of: switch`), "p.yaml:4:13: unknown claim *.tcb of switch"},
		{"is for a TCB", rule("claim: sevsnp.tcb, of: cpu, is: snp=24"), "p.yaml:4:13: sevsnp.tcb has a value of kind tcb, which is and in do not compare; min does"},
		{"in for words", rule("claim: sevsnp.platform-info, of: cpu, in: [ecc]"), "p.yaml:4:13: sevsnp.platform-info has a value of kind words, which is and in do not compare; min does"},
		{"is for a sentence", rule("claim: sevsnp.debug-off, of: cpu, is: true"), `p.yaml:4:44: want text or a number, got true or false`},
		{"is for a sentence, quoted", rule(`claim: sevsnp.debug-off, of: cpu, is: "true"`), "p.yaml:4:13: sevsnp.debug-off has a value of kind sentence, which is and in do not compare"},
		{"min for text", rule("claim: sevsnp.product, of: cpu, min: Milan"), "p.yaml:4:43: sevsnp.product has a value of kind text, which min does not compare; is and in do"},
		{"floors for a number", rule("claim: sevsnp.vmpl, of: cpu, min: floors"), "p.yaml:4:40: sevsnp.vmpl has a value of kind number; floors are for TCBs"},
		{"word for a number", rule("claim: sevsnp.vmpl, of: cpu, is: zero"), `p.yaml:4:39: sevsnp.vmpl is a number, got "zero"`},
		{"hex for a number", rule("claim: sevsnp.vmpl, of: cpu, is: 0x0"), `p.yaml:4:39: 0x0: write the number in decimal`},
		{"leading zero", rule(`claim: sevsnp.vmpl, of: cpu, is: "00"`), `p.yaml:4:39: sevsnp.vmpl is a number, got "00"`},
		{"number for hex", rule("claim: sevsnp.host-data, of: cpu, is: 10"), "p.yaml:4:44: sevsnp.host-data is hex, got the number 10: quote it"},
		{"upper-case hex", rule("claim: sevsnp.host-data, of: cpu, in: [" + digestText + ", FF]"), `p.yaml:4:111: sevsnp.host-data is bytes in lower-case hex, got "FF"`},
		{"TCB as integer", rule("claim: sevsnp.tcb, of: cpu, min: 24"), `p.yaml:4:39: TCB "24": want parts of fmc, bl, tee, snp, ucode in this order`},
		{"TCB part over 255", rule("claim: sevsnp.tcb, of: cpu, min: snp=256"), `p.yaml:4:39: TCB "snp=256"`},
		{"TCB parts out of order", rule("claim: sevsnp.tcb, of: cpu, min: snp=1 bl=1"), `p.yaml:4:39: TCB "snp=1 bl=1"`},
		{"TCB part twice", rule("claim: sevsnp.tcb, of: cpu, min: snp=1 snp=1"), `p.yaml:4:39: TCB "snp=1 snp=1"`},
		{"words apart", rule(`claim: sevsnp.platform-info, of: cpu, min: "ecc  tsme"`), `p.yaml:4:49: sevsnp.platform-info is words parted by single spaces`},
		{"negative age", rule("claim: sevsnp.freshness, of: cpu, max-age: -1h"), `p.yaml:4:49: age "-1h": want a duration of whole seconds`},
		{"no age", rule("claim: sevsnp.freshness, of: cpu, max-age: 0s"), `p.yaml:4:49: age "0s"`},
		{"days", rule("claim: sevsnp.freshness, of: cpu, max-age: 1d"), `p.yaml:4:49: age "1d"`},
		{"age as number", rule("claim: sevsnp.freshness, of: cpu, max-age: 60"), `p.yaml:4:49: want text, got 60: quote it`},
		{"empty value", rule(`claim: sevsnp.product, of: cpu, is: ""`), `p.yaml:4:42: empty value`},
		{"two operators", rule("claim: sevsnp.vmpl, of: cpu, is: 0, min: 0"), "p.yaml:4:47: is and min in one rule: write two rules"},
		{"value twice", rule("claim: sevsnp.vmpl, of: cpu, in: [0, 0]"), `p.yaml:4:43: value "0" is named twice`},
		{"count 0", rule("claim: sevsnp.vmpl, of: cpu, count: 0"), "p.yaml:4:42: count 0: want 1 to 32"},
		{"count over a bundle", rule("claim: sevsnp.vmpl, of: cpu, count: 33"), "p.yaml:4:42: count 33: want 1 to 32"},
		{"count of the node", rule("claim: guest.measured, of: node, count: 2"), "p.yaml:4:46: count: there is exactly one node"},
		{"if-present", rule("claim: sevsnp.vmpl, of: cpu, if-present: true"), "p.yaml:4:47: if-present: only a built-in policy"},
		{"is against is", head + "require:\n- {claim: sevsnp.product, of: cpu, is: Milan}\n- {claim: sevsnp.product, of: cpu, is: Genoa}", "p.yaml:5:3: no value of sevsnp.product satisfies this rule and the one at line 4"},
		{"is against in", head + "require:\n- {claim: sevsnp.product, of: cpu, in: [Milan, Turin]}\n- {claim: \"*.product\", of: device, is: Genoa}", "p.yaml:5:3: no value of sevsnp.product"},
		{"is against min", head + "require:\n- {claim: sevsnp.vmpl, of: cpu, is: 0}\n- {claim: sevsnp.vmpl, of: cpu, min: 1}", "p.yaml:5:3: no value of sevsnp.vmpl"},
		{"min against is", head + "require:\n- {claim: sevsnp.vmpl, of: cpu, min: 1}\n- {claim: sevsnp.vmpl, of: cpu, is: 0}", "p.yaml:5:3: no value of sevsnp.vmpl"},
		{"parties alone", rule("claim: party.legal-entity, of: party"), "p.yaml:4:3: every rule is over parties: nothing is asked of the evidence"},
		{"party for evidence", head + "require: [{claim: sevsnp.tcb, of: cpu}, {claim: sevsnp.tcb, of: party}]", "p.yaml:3:65: sevsnp.tcb of party can never be met: sevsnp claims speak of cpu"},
		{"party wildcard", head + "require: [{claim: sevsnp.tcb, of: cpu}, {claim: \"*.name\", of: party}]", "p.yaml:3:49: unknown claim *.name of party"},
		{"country that is none", head + "require: [{claim: sevsnp.tcb, of: cpu}, {claim: party.jurisdiction, of: party, in: [DE, UK]}]", `p.yaml:3:89: party.jurisdiction is a country of ISO 3166-1 (alpha-2), got "UK": the United Kingdom is GB`},
		{"union of countries", head + "require: [{claim: sevsnp.tcb, of: cpu}, {claim: party.jurisdiction, of: party, in: [EEA]}]", `"EEA": name its members: AT, BE, BG, CY, CZ, DE, DK, EE, ES, FI, FR, GR, HR, HU, IE, IS, IT, LI, `},
		{"word that a claim never has", rule("claim: guest.measured, of: node, in: [tee, paravisr]"), `p.yaml:4:49: guest.measured is never "paravisr", nearest is paravisor: want one of tee, paravisor, host-vtpm, tpm`},
		{"issuers that nothing reads", head + good + "issuers: [a.example]", "p.yaml:4:10: issuers: no rule speaks of the party"},
		{"issuer twice", head + "issuers: [a.example, a.example]\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party}]", "p.yaml:3:22: issuer a.example is named twice"},
		{"issuer with a space", head + "issuers: [A example]\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party}]", `p.yaml:3:11: issuer "A example": want up to 64 lower-case letters, digits, dots and hyphens`},
		{"no issuer", head + "issuers: []\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party}]", "p.yaml:3:10: issuers: the list is empty"},
		{"unknown data class", head + good + "data-class: secret", `p.yaml:4:13: data class "secret": want public, internal, personal, phi, card or financial`},
		{"personal data on anonymous providers", head + good + "data-class: personal", "p.yaml:4:13: personal data on anonymous providers: such data wants the tier attested or attested-facility"},
		{"internal data on anonymous providers", head + "data-class: internal\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party}]", "p.yaml:3:13: internal data on anonymous providers"},
		{"card data on attested providers", head + "data-class: card\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: party.tier, of: party, in: [attested, attested-facility]}]", "p.yaml:4:41: card data on attested providers: such data wants the tier attested-facility"},
		{"references that nothing reads", head + good + "references: [" + digestText + "]", "p.yaml:4:13: references: no rule requires guest.measured or agent.measured"},
		{"list twice", head + "references: [" + digestText + ", " + digestText + "]\nrequire: [{claim: guest.measured, of: node}]", "p.yaml:3:80: list ba7816bf is named twice"},
		{"floors that nothing reads", head + "floors: [{product: Milan, min: snp=1, source: s, date: 2026-01-01T00:00:00Z}]\nrequire: [{claim: sevsnp.tcb, of: cpu}]", "p.yaml:3:9: floors: no rule says `min: floors`"},
		{"floor twice", head + good + "floors:\n- {product: Milan, min: snp=1, source: s, date: 2026-01-01T00:00:00Z}\n- {product: Milan, min: snp=2, source: s, date: 2026-01-01T00:00:00Z}", `p.yaml:6:3: a second floor of "Milan"`},
		{"floor without source", head + good + "floors: [{product: Milan, min: snp=1}]", "p.yaml:4:10: a floor needs a product, min, the source that says so and its date"},
		{"floor that is no TCB", head + good + "floors: [{product: Milan, min: 24, source: s, date: 2026-01-01T00:00:00Z}]", `p.yaml:4:32: TCB "24"`},
		{"floor of no product line", head + good + "floors: [{product: milan, min: snp=1, source: s, date: 2026-01-01T00:00:00Z}]", `p.yaml:4:20: product line "milan" is none that a claim names, so that nothing reads its floor, nearest is Milan: want Milan, Genoa or Turin`},
		{"floor of a part that the product line lacks", head + good + "floors: [{product: Genoa, min: fmc=1 snp=1, source: s, date: 2026-01-01T00:00:00Z}]", `p.yaml:4:32: a TCB of Genoa has no fmc, so that none reaches this floor`},
		{"number that there is not", rule("claim: sevsnp.vmpl, of: cpu, in: [3, 4]"), "p.yaml:4:43: sevsnp.vmpl is never 4: it is from 0 to 3"},
		{"negative number", rule("claim: sevsnp.vmpl, of: cpu, is: -1"), "p.yaml:4:39: sevsnp.vmpl is never -1: it is from 0 to 3"},
		{"more than all", head + "require: [{claim: sevsnp.tcb, of: cpu}, {claim: party.record-uptime, of: party, min: 1001}]", "p.yaml:3:86: party.record-uptime is never 1001 or more: it is from 0 to 1000"},
		{"bytes of another size", rule("claim: sevsnp.measurement, of: cpu, is: " + digestText), "p.yaml:4:46: sevsnp.measurement has 48 bytes, got 32"},
		{"word that there is not", rule("claim: sevsnp.platform-info, of: cpu, min: ecc alias-chek"), `p.yaml:4:49: sevsnp.platform-info never has the word "alias-chek", nearest is alias-check: want words of alias-check, ciphertext-hiding`},
		{"age of what has none", rule("claim: sevsnp.debug-off, of: cpu, max-age: 1h"), "p.yaml:4:49: sevsnp.debug-off never says since when, so that no age of it is known; the age of the evidence is that of sevsnp.freshness or tdx.freshness"},
		{"age of the node", rule("claim: binding.seal, of: node, max-age: 1h"), "p.yaml:4:46: binding.seal never says since when, so that no age of it is known; the age of the evidence is that of binding.challenge"},
		{"what switches lack", rule("claim: nvidia.fwid, of: switch"), "p.yaml:4:30: nvidia.fwid of switch can never be met: it speaks of GPUs alone"},
		{"two statements", rule("claim: statement.structure, of: statement, count: 2"), "p.yaml:4:56: count: there is exactly one statement"},
		{"more than a bundle holds", head + "require: [{claim: nvidia.chain, of: gpu, count: 20}, {claim: nvidia.chain, of: switch, count: 13}]", "p.yaml:3:10: the rules want 33 components, and a bundle holds at most 32"},
		{"two CPU TEEs under a seal", head + "require:\n- {claim: binding.seal, of: node}\n- {claim: sevsnp.tcb, of: cpu, min: floors}\n- {claim: tdx.seam, of: device}", "p.yaml:6:3: this rule wants a CPU of tdx and the one at line 5 one of sevsnp, and where binding.seal counts one host has one: write two policies"},
		{"two CPU TEEs under a seal that is refused", head + "require:\n- {claim: tdx.seam, of: cpu}\n- {claim: sevsnp.tcb, of: cpu}\nrefuse: [binding.*]", "p.yaml:5:3: this rule wants a CPU of sevsnp and the one at line 4 one of tdx"},
		{"two CPUs under a seal", head + "require:\n- {claim: \"*.chain\", of: cpu, count: 2}\n- {claim: binding.seal, of: node}", "p.yaml:4:3: 2 CPU TEEs can never be met where binding.seal counts: one host has one"},
		{"type of another version", "type: assay/policy/v2\nname: test\n" + good, `p.yaml:1:7: type "assay/policy/v2" is not known to this build, want "assay/policy/v1"`},
		{"no type", "name: test\n" + good, `p.yaml:1:1: type "" is not known to this build`},
		{"name with a space", "type: assay/policy/v1\nname: my policy\n" + good, `p.yaml:2:7: name "my policy": want up to 64 lower-case letters`},
		{"a built-in's name", "type: assay/policy/v1\nname: genuine\n" + good, `p.yaml:2:7: name "genuine" is a built-in policy's, choose another`},
		{"long description", head + "about: " + strings.Repeat("a", policy.MaxText+1) + "\n" + good, "p.yaml:3:8: about: 513 bytes, at most 512"},
		{"too many rules", head + "require:\n" + strings.Repeat("- {claim: sevsnp.tcb, of: cpu}\n", policy.MaxRules+1), "p.yaml:4:1: require: 257 entries, at most 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Load("p.yaml", []byte(c.text))
			var errs doc.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("got %v, want located errors", err)
			}
			if len(errs) != 1 || !strings.Contains(err.Error()+"\n", c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
		})
	}
}

// Row L03: a policy without the output that it must have crashes the service. Here it is refused, and every other
// policy still loads and decides.
func TestL03PolicyWithoutRules(t *testing.T) {
	for _, text := range []string{"", "{}", "type: assay/policy/v1", "type: assay/policy/v1\nname: test\nrequire: {}", "require"} {
		if p, err := policy.Load("p.yaml", []byte(text)); err == nil || p != nil {
			t.Errorf("%q loaded", text)
		}
	}
	expect(t, policy.Decide(goodSet(), load(t, "require: [{claim: sevsnp.tcb, of: cpu}]"), now), policy.Accept)
}

// Row L11: a bare number for a tier means opposite things in two drafts.
func TestL11TiersHaveNames(t *testing.T) {
	text := func(is string) []byte {
		return []byte("type: assay/policy/v1\nname: test\nrequire:\n- {claim: sevsnp.tcb, of: cpu}\n- {claim: party.tier, of: party, " + is + "}\n")
	}
	for _, is := range []string{"is: 2", `is: "2"`, "in: [attested, 3]", "min: 2"} {
		_, err := policy.Load("p.yaml", text(is))
		if err == nil || !strings.Contains(err.Error(), "a bare number means opposite things to different people; use names: anonymous, identified, attested, attested-facility") {
			t.Errorf("%s: %v", is, err)
		}
	}
	if _, err := policy.Load("p.yaml", text("is: attested-facility")); err != nil {
		t.Error(err)
	}
}

func TestAllFaultsOfAPolicyAtOnce(t *testing.T) {
	_, err := policy.Load("p.yaml", []byte("type: assay/policy/v1\nname: T\nrequire:\n- {claim: sevsnp.tbc, of: cpu}\n- {claim: sevsnp.tcb, of: gpu}\n"))
	want := `p.yaml:2:7: name "T": want up to 64 lower-case letters, digits and single hyphens
p.yaml:4:11: unknown claim sevsnp.tbc of cpu, nearest is sevsnp.tcb
p.yaml:5:27: sevsnp.tcb of gpu can never be met: sevsnp claims speak of cpu`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// The schema knows every key of the document, and no other.
func TestSchema(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Items struct {
				Properties map[string]struct{ Description string }
				Required   []string
			}
			Description string
		}
		Required             []string
		AdditionalProperties bool
	}
	if err := json.Unmarshal(policy.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"type", "name", "about", "references", "floors", "require", "refuse"} {
		if _, ok := s.Properties[key]; !ok {
			t.Errorf("no property %s", key)
		}
	}
	for _, key := range []string{"claim", "of", "is", "in", "min", "max-age", "count", "if-present"} {
		if s.Properties["require"].Items.Properties[key].Description == "" {
			t.Errorf("rules have no described property %s", key)
		}
	}
	if strings.Join(s.Required, " ") != "type name require" || strings.Join(s.Properties["require"].Items.Required, " ") != "claim of" || s.AdditionalProperties {
		t.Errorf("schema %+v", s)
	}
	if !bytes.Equal(policy.Schema(), policy.Schema()) {
		t.Error("the schema differs from call to call")
	}
}

// The example of FORMAT.md is a policy.
func TestFormatExample(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	if _, err := policy.Load("FORMAT.md", []byte(example)); err != nil {
		t.Error(err)
	}
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, _ = strings.Cut(rest, "```")
	tests, err := policy.ParseTests("FORMAT.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	p := load(t, "references: ["+digestText+"]\nrequire:\n- {claim: \"*.freshness\", of: cpu, max-age: 24h}\n- {claim: guest.measured, of: node, is: tee}\n- {claim: party.tier, of: party, is: attested}")
	for _, r := range tests.Run(p) {
		if !r.Pass {
			t.Errorf("%s: %s", r.Name, r.Because)
		}
	}
}

// FuzzLoad holds that a policy is refused with a place or has one canonical form, which explains and decides the same.
func FuzzLoad(f *testing.F) {
	f.Add("p.yaml", []byte(whole))
	for _, name := range policy.Builtins() {
		p, _ := policy.Builtin(name)
		f.Add("p.json", bytes.Replace(p.Canonical(), []byte(name), []byte("mine"), 1))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		p, err := policy.Load(name, data)
		if err != nil {
			var errs doc.Errors
			if !errors.As(err, &errs) || errs[0].Line < 1 || errs[0].Column < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		q, err := policy.ParseCanonical(p.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(q.Canonical(), p.Canonical()) || q.Explain() != p.Explain() {
			t.Fatal("canon(parse(canon(x))) differs from canon(x)")
		}
		if a, b := policy.Decide(goodSet(), p, now), policy.Decide(goodSet(), q, now); a.Outcome != b.Outcome {
			t.Fatalf("%s and %s", a.Outcome, b.Outcome)
		}
		if policy.Decide(nil, p, now).Outcome == policy.Accept {
			t.Fatal("accepts no evidence at all")
		}
	})
}

// What stands nearest to a policy that no machine can meet loads: lint refuses no more than it can show. A log's policy loads
// whatever it asks, for it was logged by a build that let it pass.
func TestWhatAMachineCanMeetLoads(t *testing.T) {
	const head = "type: assay/policy/v1\nname: test\n"
	for _, rules := range []string{
		"require: [{claim: sevsnp.tcb, of: cpu, min: floors}]\nfloors: [{product: Turin, min: fmc=1, source: s, date: 2026-01-01T00:00:00Z}]",
		"require: [{claim: sevsnp.vmpl, of: cpu, is: 3}, {claim: party.record-uptime, of: party, min: 1000}]",
		"require: [{claim: tdx.attributes, of: cpu, min: sept-ve-disable}, {claim: tdx.xfam, of: cpu, min: some-new-feature}]",
		"require: [{claim: sevsnp.freshness, of: cpu, max-age: 1h}, {claim: party.tier, of: party, max-age: 1h}, {claim: binding.challenge, of: node, max-age: 1h}]",
		"require: [{claim: sevsnp.freshness, of: cpu, is: aa}, {claim: nvidia.fwid, of: gpu, in: [aa, bbcc]}]", // of no one size
		"require: [{claim: nvidia.fwid, of: device}, {claim: nvidia.chain, of: switch}, {claim: statement.structure, of: statement, count: 1}]",
		"require: [{claim: nvidia.chain, of: gpu, count: 20}, {claim: nvidia.chain, of: switch, count: 12}]",
		"require: [{claim: sevsnp.tcb, of: cpu}, {claim: tdx.seam, of: cpu}, {claim: \"*.chain\", of: cpu, count: 2}]", // no seal counts
		"require: [{claim: sevsnp.tcb, of: cpu}, {claim: azure.report-fresh, of: cpu}, {claim: \"*.chain\", of: cpu}, {claim: binding.seal, of: node}]",
		"require: [{claim: tdx.seam, of: cpu}, {claim: \"*.freshness\", of: device, count: 2}, {claim: binding.seal, of: node}]",
		"data-class: personal\nrequire: [{claim: sevsnp.tcb, of: cpu}, {claim: \"*.tier\", of: party, in: [attested]}]",
	} {
		if _, err := policy.Load("p.yaml", []byte(head+rules)); err != nil {
			t.Errorf("%s: %v", rules, err)
		}
	}
	for _, document := range []string{
		`{"claim":"sevsnp.vmpl","is":"4","of":"cpu"}`, `{"claim":"sevsnp.debug-off","max-age":"1h","of":"cpu"}`, `{"claim":"sevsnp.host-data","is":"00","of":"cpu"}`,
		`{"claim":"sevsnp.platform-info","min":"alias-chek","of":"cpu"}`, `{"claim":"nvidia.fwid","of":"switch"}`, `{"claim":"sevsnp.vmpl","min":"4","of":"cpu"}`,
		`{"claim":"sevsnp.tcb","of":"cpu"},{"claim":"tdx.seam","of":"cpu"},{"claim":"binding.seal","of":"node"}`, `{"claim":"statement.structure","count":2,"of":"statement"}`,
	} {
		if _, err := policy.ParseCanonical([]byte(`{"name":"test","require":[` + document + `],"type":"assay/policy/v1"}`)); err != nil {
			t.Errorf("logged: %s: %v", document, err)
		}
	}
}
