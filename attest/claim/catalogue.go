package claim

import (
	"slices"
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
	Vendor   Party = "vendor"    // the maker of the device: nobody else can change what it issued
	Relying  Party = "appraiser" // whoever runs the verifier: an expectation, a reference value or what a vendor publishes is missing
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
	tpmLib = "TCG TPM 2.0 Library, rev. 1.59, "
	tpmPFP = "TCG PC Client Platform Firmware Profile, rev. 1.06, section 10"
	tpmEK  = "TCG EK Credential Profile, rev. 2.5, section 3"
	design = "Assay design, section "
	spdm   = "DMTF SPDM 1.1, DSP0274, section 10.11, and NVIDIA attestation-sdk, opaque data"
	rimXML = "TCG Reference Integrity Manifest Information Model, rev. 1.01, and ISO/IEC 19770-2:2015"
	ocsp   = "RFC 6960, and RFC 5280, section 5"

	vetting = design + "6"

	azureHCL = "Microsoft OpenHCL, openhcl/openhcl_attestation_protocol, igvm_attest"

	tdxQuote  = "Intel TDX DCAP Quoting Library API, rev. 0.9, appendix A.3"
	tdxModule = "Intel TDX Module 1.5 ABI Specification, 348551, "
	intelPCK  = "Intel SGX PCK Certificate and CRL Profile, rev. 1.5"
	intelPCS  = "Intel SGX and TDX Provisioning Certification Service API, version 4"
)

var (
	onReport    = []string{"sevsnp.signature"}
	onReportTCB = []string{"sevsnp.signature", "sevsnp.cert-tcb"}
	onTPMQuote  = []string{"tpm.quote"}
	onTPMPCRs   = []string{"tpm.pcr-digest"}
	onTDQuote   = []string{"tdx.signature"}
	onNVReport  = []string{"nvidia.signature"}
	onTDStatus  = []string{"tdx.tcb-status"}
)

// catalogue is ordered by id.
var catalogue = []Definition{
	{"agent.measured", Text, "the measured guest contains this agent and its settings; the value is the root of the measurement", design + "2.4", []string{"guest.measured"}, Provider, "boot the guest image that carries the released agent"},
	{"azure.report-fresh", Hex, "the user data that the paravisor put into the runtime data answers what this appraiser asked", design + "2.2", []string{"azure.runtime-data"}, Provider, "write the user data anew, then read the report"},
	{"azure.runtime-data", Words, "the paravisor had this runtime data signed by the hardware; the value is what its set-up of the machine says is on", azureHCL, []string{"azure.structure"}, Provider, "send the report as the virtual TPM's NV index holds it, with the hardware's evidence of the same boot"},
	{"azure.structure", Text, "the bytes are an HCL report with its runtime data; the value is the kind of hardware", azureHCL, nil, Provider, "send the report as the virtual TPM's NV index holds it"},
	{"binding.challenge", Hex, "the bundle answers the challenge that this appraiser issued", design + "2.2", nil, Provider, "answer the newest challenge, once"},
	{"binding.possession", Sentence, "the bundle is signed by the session key that the evidence covers", design + "2.2", []string{"binding.seal"}, Provider, "let the agent sign with the key it was started with"},
	{"binding.seal", Text, "the sealing component covers the challenge, the session keys and every other component", design + "2.2", nil, Provider, "collect all components in one run of the agent, the seal last"},
	{"bundle.structure", Sentence, "the file is evidence that can be read to its last byte", design + "2.1", nil, Provider, "send the evidence as the agent wrote it"},
	{"guest.measured", Text, "all code that ran before and beside the agent equals a reference value; the value is the root of the measurement", design + "2.4", nil, Provider, "boot a guest image that the appraiser lists, or have its reference values added"},
	{"nvidia.cc-mode", Text, "confidential computing is on, by the word of a measured agent and by measurements of production", design + "5", []string{"nvidia.measurements"}, Provider, "turn confidential computing on, reset the GPU, and let a measured agent say so"},
	{"nvidia.chain", Text, "the device's key chains, in the order presented, to a trusted NVIDIA root, all of one chip; the value is the chip", "NVIDIA attestation-sdk, device certificate chain", []string{"nvidia.structure"}, Provider, "send the certificate chain as the driver gives it"},
	{"nvidia.devtools-off", Sentence, "nobody can look into the GPU through its debugging mode, by the word of a measured agent and by measurements of production", design + "5", []string{"nvidia.measurements"}, Provider, "turn DevTools mode off, reset the GPU, and let a measured agent say so"},
	{"nvidia.driver-rim", Hex, "NVIDIA's manifest of this driver is at hand, signed and inside its dates; the value is its SHA-256 digest", rimXML, onNVReport, Relying, "fetch the driver's manifest from NVIDIA; where there is none, the provider runs a driver that has one"},
	{"nvidia.firmware", Words, "the device runs these versions on this board", spdm, onNVReport, Provider, "update driver and VBIOS"},
	{"nvidia.freshness", Hex, "the nonce answers what this appraiser asked", spdm, onNVReport, Provider, "collect a new report over the challenge"},
	{"nvidia.fwid", Hex, "the firmware that reports is the one that the key is certified for", "TCG DICE Attestation Architecture, FWID", onNVReport, Provider, "run a driver that reports its firmware id: 550 or newer"},
	{"nvidia.identity", Words, "certificates and report name one device; chip and PDI outlive its firmware", "NVIDIA attestation-sdk, device certificate chain", onNVReport, Provider, "send the certificate chain as the driver gives it"},
	{"nvidia.measurements", Words, "every active measurement is one that NVIDIA's manifests allow; the value counts them and lists those that differ", rimXML, []string{"nvidia.signature", "nvidia.vbios-rim"}, Provider, "run a driver and VBIOS as NVIDIA released them, DevTools mode off; ask NVIDIA where one index differs"},
	{"nvidia.mode", Text, "the device works in this mode: SPT alone, MPT with other GPUs, PPCIE with GPUs and switches; it says nothing of secrecy", spdm, onNVReport, Provider, "set the agreed multi-GPU mode"},
	{"nvidia.revocation", Words, "no certificate of the device or of its manifests is revoked and it is on no deny list; the value names what was consulted", ocsp, onNVReport, Relying, "fetch NVIDIA's OCSP answers"},
	{"nvidia.signature", Sentence, "the report's bytes are signed by the device's certified key", spdm, []string{"nvidia.chain"}, Provider, "send the report unchanged, with the certificates of its device"},
	{"nvidia.structure", Text, "the bytes are a measurement report of a GPU or switch; the value is the protocol", spdm, nil, Provider, "send the report as the driver gives it"},
	{"nvidia.vbios-rim", Hex, "NVIDIA's manifest of this VBIOS, of a switch of its BIOS, is at hand, signed and inside its dates; the value is its SHA-256 digest", rimXML, onNVReport, Relying, "fetch the VBIOS's manifest from NVIDIA; where there is none, the provider flashes a VBIOS that has one"},
	{"party.domain", Text, "the provider controls this domain", vetting, nil, Provider, "prove control of the domain to an issuer that the verifier registered"},
	{"party.facility", Text, "the machine stands where somebody looked: none, witnessed, bound or audited (F0 to F3)", vetting, nil, Provider, "have the site witnessed, bound or audited by a registered issuer, and renew it in time"},
	{"party.facility-audit", Hex, "this is the digest of the site's audit report", vetting, nil, Provider, "have the auditor issue the digest of a report that is in date"},
	{"party.identity", Text, "so much is known of who the provider is: none, contact or legal-entity (I0 to I2)", vetting, nil, Provider, "have a registered issuer check the identity, and renew it in time"},
	{"party.jurisdiction", Text, "the provider runs the machine under the law of this country (ISO 3166-1 alpha-2), by an issuer's word", vetting, nil, Provider, "have a registered issuer state the country"},
	{"party.legal-entity", Text, "this registered legal entity is the provider: LEI:... or the number of a register", vetting, nil, Provider, "have a registered issuer check the register's extract and the sanctions lists"},
	{"party.measured", Number, "the machine scored this in a benchmark that the server timed; it is measured, never attested", vetting, nil, Provider, "run the benchmark again"},
	{"party.record-completion", Number, "this share of the provider's jobs was completed, in permille", vetting, nil, Provider, "complete the jobs that were taken"},
	{"party.record-uptime", Number, "this share of the time the provider's machines answered, maintenance windows apart, in permille", vetting, nil, Provider, "keep the machines up, and log maintenance windows before they begin"},
	{"party.tier", Text, "the provider stands in this tier: anonymous, identified, attested or attested-facility", vetting, nil, Provider, "have what is lapsed or missing of the certificate renewed"},
	{"party.witnessed", Sentence, "a quorum of witnesses cosigned the log that this verdict goes into", design + "7.3", nil, Relying, "have witnesses cosign the log, or ask a verifier whose log has them"},
	{"set.count", Words, "so many GPUs and switches are here, each once", design + "2.3", nil, Provider, "send the evidence of every device"},
	{"set.device-unique", Sentence, "no device shows up twice, here or under another holder", design + "2.3", nil, Provider, "send each device's evidence once; settle a contested identity with its holder"},
	{"set.fleet-agreement", Sentence, "GPUs that are alike in chip, firmware and settings measure alike; all may be changed alike", design + "3", nil, Provider, "bring all GPUs to one driver and VBIOS as NVIDIA released them"},
	{"set.links", Text, "no link of a GPU leads to a device that is not here: it has none, encrypts them, or the wiring is closed", design + "5", nil, Provider, "send the evidence of every GPU, and of every switch behind them"},
	{"set.same-mode", Text, "all GPUs and switches work in this one mode", design + "2.3", nil, Provider, "set all devices to one multi-GPU mode"},
	{"set.same-nonce", Hex, "all GPUs and switches answer this one nonce", design + "2.2", nil, Provider, "collect all devices in one run"},
	{"set.topology", Words, "the GPUs and switches are wired to one another and to nobody else, by their reports and by their certificates", design + "2.3", nil, Provider, "send the evidence of every GPU and switch of the machine"},
	{"sevsnp.cert-chip-id", Text, "the signing certificate was issued for the chip (VCEK) or the cloud (VLEK) that the report names", snpKDS + ", section 3.1", []string{"sevsnp.chain", "sevsnp.signature"}, Provider, "send the VCEK of this chip; unset MASK_CHIP_ID"},
	{"sevsnp.cert-tcb", TCB, "the signing certificate was issued for the report's REPORTED_TCB", snpKDS + ", section 3.1", []string{"sevsnp.chain", "sevsnp.signature"}, Provider, "send the certificate for REPORTED_TCB"},
	{"sevsnp.chain", Text, "the signing certificate chains to a trusted AMD root of the report's product and is inside its dates", snpKDS + ", sections 2 and 3", []string{"sevsnp.structure"}, Provider, "send the certificate that AMD's key distribution service has for this chip at its REPORTED_TCB"},
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
	{"sevsnp.revocation", Words, "no certificate of the chain is revoked and the chip at its TCB is on no deny list; the value names what was consulted", snpKDS + ", section 4.3", []string{"sevsnp.chain"}, Relying, "fetch AMD's revocation list of the product line"},
	{"sevsnp.signature", Sentence, "the report's bytes are signed by the certified chip key", snpABI + ", table 139", []string{"sevsnp.chain", "sevsnp.signing-key"}, Provider, "send the report unchanged, with the certificate of its chip"},
	{"sevsnp.signing-key", Text, "the report is signed by the kind of key it names", snpABI + ", table 23, SIGNING_KEY", []string{"sevsnp.structure"}, Provider, "send the certificate that the report's SIGNING_KEY names; unset MASK_CHIP_KEY"},
	{"sevsnp.structure", Text, "the bytes are an attestation report of a known version; the value is the version", snpABI + ", table 23", nil, Provider, "send the 1184 bytes of the report as the firmware wrote them"},
	{"sevsnp.tcb", TCB, "the firmware is at least this TCB, since the signing key exists only there", snpABI + ", table 23, REPORTED_TCB", onReportTCB, Provider, "update the firmware"},
	{"sevsnp.vmpl", Number, "software at this privilege level asked for the report", snpABI + ", table 23, VMPL", onReport, Provider, "ask for the report at the expected privilege level"},
	{"statement.structure", Sentence, "the agent's statement can be read to its last byte", design + "2.1", nil, Provider, "send the evidence as the agent wrote it"},
	{"tdx.advisories", Words, "Intel's advisories against the TCB are these", intelPCS + ", advisoryIDs", onTDStatus, Provider, "update BIOS, microcode, TDX module and quoting enclave"},
	{"tdx.attributes", Words, "the TD has these attributes, and none that is reserved", tdxModule + "section 3.4.1, ATTRIBUTES", onTDQuote, Provider, "launch the TD with the attributes that the policy asks for"},
	{"tdx.chain", Text, "the PCK certificate chains to a trusted Intel root and is inside its dates; the value is its CA", intelPCK + ", section 2", []string{"tdx.structure"}, Provider, "send the quote with the PCK certificate chain that Intel issued for the platform"},
	{"tdx.collateral", Number, "TCB info and QE identity are signed by Intel, of one evaluation, for this platform and of now; the value is tcbEvaluationDataNumber", intelPCS + ", TCB info V3 and enclave identity V2", []string{"tdx.chain"}, Relying, "fetch TCB info, QE identity and the root's revocation list from Intel"},
	{"tdx.debug-off", Sentence, "the host cannot read the TD's memory through debug interfaces", tdxModule + "section 3.4.1, ATTRIBUTES.TUD", onTDQuote, Provider, "launch the TD with the lowest byte of ATTRIBUTES clear"},
	{"tdx.freshness", Hex, "REPORTDATA answers what this appraiser asked", tdxModule + "TDREPORT_STRUCT, REPORTDATA", onTDQuote, Provider, "collect a new quote over the challenge"},
	{"tdx.measurement", Words, "the TD was built with this MRTD and has extended its registers to these values", tdxModule + "TDINFO_STRUCT, MRTD and RTMR", onTDQuote, Provider, "boot the listed guest image"},
	{"tdx.module-identity", Text, "the TDX module is one that Intel lists; the value is its identity", intelPCS + ", tdxModule and tdxModuleIdentities", []string{"tdx.collateral", "tdx.signature"}, Provider, "load a TDX module of Intel's"},
	{"tdx.mr-config", Words, "the host bound these identities to the TD at launch", tdxModule + "TDINFO_STRUCT, MRCONFIGID, MROWNER and MROWNERCONFIG", onTDQuote, Provider, "launch the TD with the agreed identities"},
	{"tdx.qe-identity", Text, "the quoting enclave is the one that Intel describes; the value is its own TCB status", intelPCS + ", enclave identity V2", []string{"tdx.collateral", "tdx.qe-report"}, Provider, "install Intel's quoting enclave for TDX"},
	{"tdx.qe-report", Sentence, "the quoting enclave's report binds the attestation key and is signed by the certified platform key", tdxQuote + ", QE report certification data", []string{"tdx.chain"}, Provider, "send the quote unchanged"},
	{"tdx.qe-signer", Hex, "the quoting enclave is not in debug mode and is made by a signer that the root set names", design + "3", []string{"tdx.qe-report"}, Provider, "install Intel's quoting enclave for TDX"},
	{"tdx.revocation", Words, "no certificate of the chain is revoked and the platform is on no deny list; the value names what was consulted", intelPCK + ", section 3", []string{"tdx.chain"}, Relying, "fetch the revocation lists of the PCK CA and of the root from Intel"},
	{"tdx.seam", Hex, "the TDX module is signed by Intel and a production one; the value is MRSEAM", tdxModule + "TEE_TCB_INFO_STRUCT", onTDQuote, Provider, "load a production TDX module of Intel's"},
	{"tdx.servicetd", Text, "no service TD can move the TD to another host", tdxModule + "TDINFO_STRUCT, SERVTD_HASH", onTDQuote, Provider, "launch the TD without a service TD, and not migratable"},
	{"tdx.signature", Sentence, "the quote's bytes are signed by the attestation key of Intel's quoting enclave", tdxQuote + ", ECDSA 256-bit quote signature data", []string{"tdx.qe-report", "tdx.qe-signer"}, Provider, "send the quote unchanged"},
	{"tdx.structure", Text, "the bytes are a TDX quote of a known version; the value is the version", tdxQuote, nil, Provider, "send the quote as the platform gave it"},
	{"tdx.tcb-date", Number, "the TCB is as Intel had it on this date, as YYYYMMDD: the oldest of platform, TDX module and quoting enclave", intelPCS + ", tcbDate", onTDStatus, Provider, "update BIOS, microcode, TDX module and quoting enclave"},
	{"tdx.tcb-status", Text, "Intel gives this status to the TCB: platform, TDX module and quoting enclave together", intelPCS + ", tcbStatus", []string{"tdx.collateral", "tdx.signature"}, Provider, "update BIOS, microcode, TDX module and quoting enclave; relaunch the TD"},
	{"tdx.xfam", Words, "the TD may use these processor features, and none that is reserved", tdxModule + "section 3.4.2, XFAM", onTDQuote, Provider, "launch the TD with known features alone"},
	{"time.bounds", Sentence, "the time of appraisal lies between cosignatures of witnesses, made before the evidence and after the verdict: an auditor says so, who sees both", design + "7.4", nil, Relying, "let witnesses cosign the log's checkpoints, and publish in time"},
	{"tpm.ak-attributes", Sentence, "the attestation key lives in one TPM and signs nothing there but what the TPM itself says", tpmLib + "part 2, section 8.3", []string{"tpm.structure"}, Provider, "make the attestation key fixed, restricted, for signing alone, with a scheme of SHA-256 or stronger"},
	{"tpm.ak-bound", Text, "the attestation key is a certain TPM's; the value says how that was shown", tpmLib + "part 1, section 24", []string{"tpm.structure"}, Provider, "enrol the TPM: have its attestation key activated, or send its certificate"},
	{"tpm.clock", Words, "the TPM's clock and its counts of resets and restarts stand here, and none went back", tpmLib + "part 1, section 36", onTPMQuote, Provider, "send a new quote of the same TPM; enrol it again if it was exchanged"},
	{"tpm.ek-chain", Text, "the endorsement key's certificate chains to a trusted TPM maker and is inside its dates", tpmEK, []string{"tpm.structure"}, Provider, "send the endorsement certificate of the TPM with its issuers"},
	{"tpm.ek-encoding", Text, "the endorsement certificate is encoded so, and its signature is valid over the bytes as received; sloppy is what strict DER forbids", tpmEK, []string{"tpm.ek-chain"}, Vendor, "nothing: the maker issued it so"},
	{"tpm.event-log", Words, "the boot log replays to these quoted registers, and what it proves stands beside them", tpmPFP, onTPMPCRs, Provider, "send the whole boot log of this boot, unchanged"},
	{"tpm.firmware", Hex, "the TPM runs this firmware", tpmLib + "part 2, section 10.12.12", onTPMQuote, Provider, "update the TPM's firmware"},
	{"tpm.freshness", Hex, "the qualifying data answers what this appraiser asked", tpmLib + "part 3, section 18.4", onTPMQuote, Provider, "take a new quote over the challenge"},
	{"tpm.ima", Text, "the kernel's measurement list replays to PCR 10; clean says that the kernel vouches for every entry", "Linux kernel, Documentation/security/IMA-templates.rst", onTPMPCRs, Provider, "boot with an IMA policy, quote PCR 10 and send the list"},
	{"tpm.pcr-digest", Sentence, "the registers shown are those that the TPM held", tpmLib + "part 3, section 18.4", []string{"tpm.quote", "tpm.selection"}, Provider, "send the registers as they were when quoted"},
	{"tpm.quote", Sentence, "a TPM made these bytes, and they are a quote", tpmLib + "part 2, section 10.12", []string{"tpm.signature", "tpm.ak-attributes", "tpm.ak-bound"}, Provider, "send a quote by a restricted key of the TPM"},
	{"tpm.selection", Words, "exactly these registers are quoted and shown", tpmLib + "part 2, section 10.6", onTPMQuote, Provider, "show exactly the registers that were quoted, of a bank of SHA-256 or stronger"},
	{"tpm.signature", Text, "the quote's bytes are signed by the attestation key; the value is the scheme", tpmLib + "part 2, section 11.3", []string{"tpm.structure"}, Provider, "send the quote unchanged, with the key that signed it"},
	{"tpm.structure", Text, "the bytes are a quote, its signature, its registers and a key; the value is the kind of key", tpmLib + "part 2", nil, Provider, "send the quote's parts as the TPM wrote them"},
}

// byID is the catalogue by id.
var byID = func() map[string]*Definition {
	m := make(map[string]*Definition, len(catalogue))
	for i := range catalogue {
		m[catalogue[i].ID] = &catalogue[i]
	}
	return m
}()

// Lookup returns the definition of a claim id.
func Lookup(id string) (Definition, bool) {
	d, ok := byID[id]
	if !ok {
		return Definition{}, false
	}
	return *d, true
}

// Catalogue returns every definition, ordered by id.
func Catalogue() []Definition { return slices.Clone(catalogue) }
