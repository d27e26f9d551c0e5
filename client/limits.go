package client

import "time"

// Limits on what a server may make its client do.
const (
	MaxAnswer  = 8 << 20          // bytes of one answer: a result with its appraisal
	MaxProblem = 64 << 10         // bytes of a problem document
	MaxDelay   = 10 * time.Minute // longest Retry-After that is believed
	Timeout    = 30 * time.Second // one request, connection and body included
)
