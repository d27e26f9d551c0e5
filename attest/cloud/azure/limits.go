package azure

// Sizes fixed by the format, and limits of our own where it has none.
const (
	headerSize   = 32
	hardwareSize = 1184 // bytes of an SEV-SNP report
	tdReportSize = 1024 // bytes of a TDREPORT in its place
	requestSize  = 20
	runtimeStart = headerSize + hardwareSize + requestSize
	reportData   = 0x50    // byte of an SEV-SNP report where REPORT_DATA begins
	tdReportData = 128     // byte of a TDREPORT where REPORTDATA begins
	keyBits      = 2048    // of the attestation key
	userDataSize = 64      // bytes
	maxReport    = 8 << 10 // bytes of an HCL report with its padding
	maxKeys      = 8       // keys of one runtime data
	maxOps       = 8       // uses of one key
	maxJSON      = 128 << 10
	maxQuote     = 1 << 10 // bytes of a TPM's quote, and of its signature
	maxPCRs      = 24      // registers beside a quote
	maxPCR       = 64      // bytes of a register
)
