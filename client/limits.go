package client

import "time"

// Limits on what a server may make its client do.
const (
	MaxAnswer  = 8 << 20          // bytes of one answer: a result with its appraisal
	MaxProblem = 64 << 10         // bytes of a problem document
	MaxEAR     = 64 << 10         // bytes of an attestation result, or of the set of its keys
	MaxDelay   = 10 * time.Minute // longest Retry-After that is believed
	Timeout    = 30 * time.Second // one request, connection and body included
)
