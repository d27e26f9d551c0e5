package claim

import (
	"slices"
	"strings"
)

// Kind is the kind of value that a claim carries, which fixes how a policy may compare it.
type Kind uint8

const (
	Sentence Kind = iota + 1 // no value: it holds or it does not
	Text                     // one word of a closed list
	Hex                      // lower-case hex bytes
	Number                   // a decimal integer
	TCB                      // security version numbers, part by part: "bl=4 tee=0 snp=24 ucode=219"
	Words                    // words in a set, sorted, parted by spaces
)

var kindNames = [...]string{Sentence: "sentence", Text: "text", Hex: "hex", Number: "number", TCB: "tcb", Words: "words"}

func (k Kind) String() string { return kindNames[k] }

// Party is who can mend a claim that is not affirmed.
type Party string

const (
	Provider Party = "provider"  // the operator of the machine
	Vendor   Party = "vendor"    // the maker of the device publishes what is missing
	Relying  Party = "appraiser" // whoever runs the verifier: an expectation or a reference value is missing
)

// Definition is the catalogue's entry for one claim id.
type Definition struct {
	ID      string
	Kind    Kind
	Meaning string   // the sentence that "affirmed" asserts
	Spec    string   // document, revision, section
	Rests   []string // claims of the same subject without which it cannot be affirmed
	Who     Party
	Fix     string // what that party can do
}

const (
	snpABI = "AMD SEV-SNP Firmware ABI Specification, 56860 rev. 1.58"
	snpKDS = "AMD VCEK Certificate and KDS Interface Specification, 57230 rev. 1.00"
	design = "Assay design, section "
)

var (
	onReport    = []string{"sevsnp.signature"}
	onReportTCB = []string{"sevsnp.signature", "sevsnp.cert-tcb"}
)

// catalogue is ordered by id.
var catalogue = []Definition{
	{"agent.measured", Text, "the measured guest contains this agent and its settings; the value is the root of the measurement", design + "2.4", []string{"guest.measured"}, Provider, "boot the guest image that carries the released agent"},
	{"binding.challenge", Hex, "the bundle answers the challenge that this appraiser issued", design + "2.2", nil, Provider, "answer the newest challenge, once"},
	{"binding.possession", Sentence, "the bundle is signed by the session key that the evidence covers", design + "2.2", []string{"binding.seal"}, Provider, "let the agent sign with the key it was started with"},
	{"binding.seal", Text, "the sealing component covers the challenge, the session keys and every other component", design + "2.2", nil, Provider, "collect all components in one run of the agent, the seal last"},
	{"bundle.structure", Sentence, "the file is evidence that can be read to its last byte", design + "2.1", nil, Provider, "send the evidence as the agent wrote it"},
	{"guest.measured", Text, "all code that ran before and beside the agent equals a reference value; the value is the root of the measurement", design + "2.4", nil, Provider, "boot a guest image that the appraiser lists, or have its reference values added"},
	{"set.device-unique", Sentence, "no device shows up twice, here or under another holder", design + "2.3", nil, Provider, "send each device's evidence once; settle a contested identity with its holder"},
	{"sevsnp.cert-chip-id", Text, "the signing certificate was issued for the chip (VCEK) or the cloud (VLEK) that the report names", snpKDS + ", section 3.1", []string{"sevsnp.chain", "sevsnp.signature"}, Provider, "send the VCEK of this chip; unset MASK_CHIP_ID"},
	{"sevsnp.cert-tcb", TCB, "the signing certificate was issued for the report's REPORTED_TCB", snpKDS + ", section 3.1", []string{"sevsnp.chain", "sevsnp.signature"}, Provider, "send the certificate for REPORTED_TCB"},
	{"sevsnp.chain", Text, "the signing certificate chains to a trusted AMD root of the report's product and is inside its dates", snpKDS + ", sections 2 and 3", []string{"sevsnp.structure"}, Vendor, "fetch the certificate from AMD's key distribution service"},
	{"sevsnp.committed-tcb", TCB, "the platform cannot be rolled back below this TCB", snpABI + ", table 23, COMMITTED_TCB", onReportTCB, Provider, "update the firmware and commit it (SNP_COMMIT)"},
	{"sevsnp.debug-off", Sentence, "the host cannot read guest memory through the debug interface", snpABI + ", table 9, POLICY.DEBUG", onReport, Provider, "launch the guest with POLICY bit 19 clear"},
	{"sevsnp.freshness", Hex, "REPORT_DATA answers what this appraiser asked", snpABI + ", table 23, REPORT_DATA", onReport, Provider, "collect a new report over the challenge"},
	{"sevsnp.host-data", Hex, "the host bound this HOST_DATA to the guest at launch", snpABI + ", table 23, HOST_DATA", onReport, Provider, "launch the guest with the agreed HOST_DATA"},
	{"sevsnp.id-block", Words, "the launch was bound to an identity block; the value names its keys", snpABI + ", table 23, ID_KEY_DIGEST", onReport, Provider, "launch the guest with a signed identity block"},
	{"sevsnp.launch-tcb", TCB, "the guest was launched at this TCB", snpABI + ", table 23, LAUNCH_TCB", onReportTCB, Provider, "restart the guest after a firmware update"},
	{"sevsnp.measurement", Hex, "the guest was launched with this MEASUREMENT", snpABI + ", table 23, MEASUREMENT", onReport, Provider, "boot the listed guest image"},
	{"sevsnp.migration-off", Sentence, "no migration agent can move the guest", snpABI + ", table 9, POLICY.MIGRATE_MA", onReport, Provider, "launch the guest with POLICY bit 18 clear"},
	{"sevsnp.mitigations", Words, "these vulnerability mitigations were on at launch and are on now", snpABI + ", table 23, LAUNCH_MIT_VECTOR and CURRENT_MIT_VECTOR", onReport, Provider, "update the firmware"},
	{"sevsnp.platform-info", Words, "the platform has these features on", snpABI + ", table 24, PLATFORM_INFO", onReport, Provider, "change the platform's set-up: complete the memory alias check"},
	{"sevsnp.product", Text, "the chip is of this product line", snpABI + ", table 23, CPUID_FAM_ID and CPUID_MOD_ID", []string{"sevsnp.chain"}, Provider, "send the certificate chain of the chip's product"},
	{"sevsnp.reserved-bits", Sentence, "every field that the report's version reserves is zero", snpABI + ", table 23", onReport, Provider, "update the firmware; report the bits to the appraiser"},
	{"sevsnp.revocation", Words, "no certificate of the chain is revoked and the chip at its TCB is on no deny list; the value names what was consulted", snpKDS + ", section 4.3", []string{"sevsnp.chain"}, Vendor, "fetch AMD's revocation list of the product line"},
	{"sevsnp.signature", Sentence, "the report's bytes are signed by the certified chip key", snpABI + ", table 139", []string{"sevsnp.chain", "sevsnp.signing-key"}, Provider, "send the report unchanged, with the certificate of its chip"},
	{"sevsnp.signing-key", Text, "the report is signed by the kind of key it names", snpABI + ", table 23, SIGNING_KEY", []string{"sevsnp.structure"}, Provider, "send the certificate that the report's SIGNING_KEY names; unset MASK_CHIP_KEY"},
	{"sevsnp.structure", Text, "the bytes are an attestation report of a known version; the value is the version", snpABI + ", table 23", nil, Provider, "send the 1184 bytes of the report as the firmware wrote them"},
	{"sevsnp.tcb", TCB, "the firmware is at least this TCB, since the signing key exists only there", snpABI + ", table 23, REPORTED_TCB", onReportTCB, Provider, "update the firmware"},
	{"sevsnp.vmpl", Number, "software at this privilege level asked for the report", snpABI + ", table 23, VMPL", onReport, Provider, "ask for the report at the expected privilege level"},
	{"statement.structure", Sentence, "the agent's statement can be read to its last byte", design + "2.1", nil, Provider, "send the evidence as the agent wrote it"},
}

// Lookup returns the definition of a claim id.
func Lookup(id string) (Definition, bool) {
	i, ok := slices.BinarySearchFunc(catalogue, id, func(d Definition, id string) int { return strings.Compare(d.ID, id) })
	if !ok {
		return Definition{}, false
	}
	return catalogue[i], true
}

// Catalogue returns every definition, ordered by id.
func Catalogue() []Definition { return slices.Clone(catalogue) }
