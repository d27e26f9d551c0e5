package tdx

// Sizes fixed by the format, and limits of our own where it has none.
const (
	MaxQuote       = 16 << 10 // bytes of a quote with what stands behind it
	headerSize     = 48
	descriptorSize = 6   // body type and size, version 5
	bodySize10     = 584 // TD report body of TDX 1.0
	bodySize15     = 648 // TD report body of TDX 1.5
	signatureSize  = 64  // R and S of P-256, big-endian
	keySize        = 64  // X and Y of P-256, big-endian
	reportSize     = 384 // SGX enclave report body
	certHeaderSize = 6   // certification data: type and size

	MaxBody       = 256 << 10 // bytes of Intel's TCB info or QE identity
	MaxChain      = 16 << 10  // bytes of an issuer chain
	maxChainCerts = 3         // leaf, CA, root
	maxRootCerts  = 16        // Intel roots of one root set
	maxQESigners  = 16        // signers of quoting enclaves of one root set
	maxLevels     = 64        // TCB levels of one list
	maxModules    = 32        // TDX module identities
	maxAdvisories = 256       // advisories of one TCB level
	maxSigners    = 4         // certificates that may have signed an item which came without its own: its signature checks
	components    = 16        // SVNs of a TCB
)
