package tpm

// Sizes that the specification fixes, and limits of our own where it has none.
const (
	maxQuote      = 1 << 10 // bytes of a TPMS_ATTEST
	maxSignature  = 1 << 10 // bytes of a TPMT_SIGNATURE
	maxPublic     = 2 << 10 // bytes of a public key
	MaxSelections = 5       // PCR selections of a quote, each of another bank
	maxSelect     = 4       // bytes of a selection's bitmap
	maxPCR        = 8*maxSelect - 1
	maxJSON       = 64 << 10 // bytes of a quote in JSON
	maxIssuers    = 3        // certificates behind a leaf in one part
	maxDepth      = 4        // certificates between a leaf and its root
	maxChecks     = 6        // signatures that one chain may cost
	maxRSABits    = 4096
	minRSABits    = 2048
	maxURL        = 256 // bytes of a source that a certificate names
	maxDepthDER   = 16  // nesting of a certificate
)
