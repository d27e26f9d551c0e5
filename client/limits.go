package client

import "time"

// Limits on what a server may make its client do.
const (
	MaxAnswer   = 8 << 20          // bytes of one answer: a result with its appraisal
	MaxBlob     = 16 << 20         // bytes of one blob: no part of an export is larger
	MaxProblem  = 64 << 10         // bytes of a problem document
	MaxEAR      = 64 << 10         // bytes of an attestation result, or of the set of its keys
	MaxDelay    = 10 * time.Minute // longest Retry-After that is believed
	Timeout     = 30 * time.Second // one request, connection and body included
	AtOnce      = 8                // files of a log that are pulled at a time
	MaxRefused  = 64               // blobs refused in a row, after which a pull asks for no more of them
	MaxWithheld = 1 << 12          // digests that a pull names as withheld; the rest is counted
)
