// Package azure reads and judges what confidential virtual machines on Azure show of themselves.
//
// There a paravisor, firmware of the cloud that is measured at launch, runs inside the CPU TEE and below the guest, and
// gives the guest a virtual TPM. The hardware's report is therefore the paravisor's: its REPORT_DATA is the SHA-256 digest
// of the runtime data, a JSON text that names the attestation key of the virtual TPM (HCLAkPub), the machine's set-up and
// 64 bytes that the guest had written (user data). What runs in the guest, only quotes of the virtual TPM say. The guest
// reads report and runtime data together, as the HCL report, from an NV index of that TPM (0x01400001):
//
//	header      32 bytes   "HCLA", version 1 or 2, size of all up to the padding, request type 2, status 0, reserved
//	hardware  1184 bytes   SEV-SNP report, or a TDREPORT of 1024 bytes and zeros
//	request     20 bytes   size of request and runtime data, version 1, report type 2 (SEV-SNP) or 4 (TDX), hash type 1
//	                       (SHA-256), size of the runtime data; all little-endian
//	runtime data, then zeros up to the size of the NV index
//
// [Appraise] makes the claims of one HCL report, and through packages sevsnp and tdx those of the hardware's report in it:
// on TDX of the quote beside it, since the MAC of a TDREPORT says nothing to another machine. [TieOf] names the key that
// the report vouches for, so that package tpm judges the quote. The virtual TPM shows no public area here: that its key
// signs nothing but what that TPM says is the paravisor's word, and counts as far as the paravisor is known.
//
// It checks that the runtime data is that of the report, over the bytes as received, that the paravisor and not the guest
// asked for the report (VMPL 0), and the user data. It does not check what the paravisor's measurement stands for
// (reference values are compared by the verifier), what the machine's set-up should be (the value of azure.runtime-data
// says it), the key_ops of the key, which early paravisors wrote as "encrypt", or the endorsement key beside it.
package azure

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 1

// Names of the formats, of their components, and of the parts of these.
const (
	FormatSNP = "azure-snp"
	FormatTDX = "azure-tdx"
	MediaType = "application/vnd.assay.azure-hcl-report"

	PartReport = "hcl-report" // as the NV index holds it
	PartVCEK   = "vcek"       // the chip's certificate (DER); optional, SEV-SNP alone
	PartQuote  = "quote"      // TDX quote over the report's REPORTDATA; TDX alone
)
