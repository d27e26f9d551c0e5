package audit

import "github.com/assay-network/assay/internal/tar"

// Limits on what is read.
const (
	MaxBlob     = tar.MaxPart // bytes of one blob: larger than an envelope, a bundle or a revocation list may be
	MaxFaults   = 100         // faults that a report lists; the rest is counted
	MaxWorkers  = 64          // goroutines that recompute
	MaxEngines  = 1024        // engines that a trust file names
	MaxPromises = 1024        // promises given to one replay

	maxCachedBytes = 64 << 20 // bytes of shared inputs that a replay keeps at hand
	maxCached      = 1024     // parsed shared inputs of each kind that a replay keeps at hand
)
