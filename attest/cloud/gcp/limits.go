package gcp

// Limits of our own: the format has none.
const (
	maxQuotes    = 5  // one for each bank
	maxRegisters = 32 // of a bank
	maxIssuers   = 3  // certificates behind the attestation key's
)
