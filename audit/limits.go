package audit

import "github.com/assay-network/assay/internal/tar"

// Limits on what is read.
const (
	MaxBlob       = tar.MaxPart // bytes of one blob: larger than an envelope, a bundle or a revocation list may be
	MaxFaults     = 100         // faults that a report lists; the rest is counted
	MaxWorkers    = 64          // goroutines that recompute
	MaxEngines    = 1024        // engines that a trust file names
	MaxPromises   = 1024        // promises given to one replay
	MaxSample     = 100_000     // verdicts of one sample
	MaxPaper      = 64 << 20    // bytes of one file of a working paper
	MaxChanges    = 1000        // verdicts of one state that would be others now, and that a report lists; the rest is counted
	MaxScopeNodes = 1024        // nodes that one scope names
	MaxPartial    = 256         // partial reports that are merged into one

	maxCachedBytes = 64 << 20 // bytes of shared inputs that a replay keeps at hand
	maxLately      = 8 << 20  // bytes of blobs that were read and may be asked for again soon
	maxFaultsKept  = 1 << 14  // faults that are kept to choose from
	maxNeedRounds  = 4        // times that what is wanted is looked for again, once some of it is at hand
	maxRecent      = 4096     // entries that a replay keeps at hand
	maxBundles     = 64       // entry bundles that a replay keeps at hand
	maxAhead       = 1024     // submissions that are recomputed before their results are added up
	maxCached      = 1024     // parsed shared inputs of each kind that a replay keeps at hand
)
