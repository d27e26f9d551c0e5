// Package sevsnp reads and judges AMD SEV-SNP attestation reports.
//
// A report is 1184 bytes that the platform's security processor fills and signs on a guest's request (AMD SEV-SNP
// Firmware ABI Specification, document 56860, table 23). The signing key is certified by AMD for one chip at one TCB
// (VCEK) or for one cloud at one TCB (VLEK); its certificate chains over an intermediate (ASK or ASVK) to the root of the
// product line (ARK), which this package pins as PEM files.
//
// [Parse] decodes, [Appraise] makes claims. Appraise checks the chain, the dates, revocation, the signature over the
// received bytes and every field that a policy may ask about. It does not check who asked for the report beyond comparing
// REPORT_DATA with what the caller expects, nor what MEASUREMENT stands for: reference values are compared by the
// verifier. No report can show that memory was not probed physically, or where the machine stands.
//
// Versions 2 to 5 are read, on Milan, Genoa (with Bergamo and Siena) and Turin (with Turin Dense).
package sevsnp

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 1

// Names of the format: of its components, their parts, and its reference values.
const (
	Format           = "sev-snp"
	MediaType        = "application/vnd.assay.sev-snp-report"
	PartReport       = "report"       // 1184 bytes as the firmware wrote them
	PartCertificates = "certificates" // the host's certificate table, optional
)
