package collateral

import "time"

// Limits on what a vendor, a file or a caller may make this room do.
const (
	MaxRIM        = 256 << 10 // bytes of a manifest
	MaxOCSP       = 16 << 10  // bytes of an answer of an OCSP responder, and of a question to it
	MaxRIMAnswer  = 512 << 10 // bytes of the RIM service's JSON: a manifest in base64
	MaxNeeds      = 64        // items that one call collects: as many as one appraisal takes
	MaxSetItems   = 4096      // items of one exported set
	maxHeader     = 64 << 10  // bytes of the header of an answer: Intel sends issuer chains in it
	maxAtOnce     = 8         // requests under way for one call
	maxRemembered = 4096      // refusals and subjects that are remembered
	maxLooked     = 8         // items of one source that a look-up reads, the last that came first
	maxRedirects  = 3         // within one origin
)

// Periods.
const (
	RequestTimeout = 20 * time.Second // one request, connection and body included
	FetchTimeout   = 3 * time.Minute  // one item, with all waiting and all tries
	MaxAttempts    = 4                // tries of one item
	FirstBackoff   = time.Second      // doubled after each try that failed
	MaxDelay       = 10 * time.Minute // longest Retry-After that is believed
	lockEvery      = 20 * time.Millisecond
	NegativeLife   = 10 * time.Minute // for which a refusal is remembered
	OutageLife     = 30 * time.Second // for which a service that failed all tries is left alone

	// AMD lets one address have about one VCEK in ten seconds, and answers 429 beyond that.
	vcekEvery = 10 * time.Second
	vcekBurst = 1
	// What the other services bear, they do not say.
	otherEvery = time.Second
	otherBurst = 10
	// New requests of one subject, such as a node: chip ids are the evidence's word, so that a stranger can name as many
	// as he likes. A machine of eight GPUs and four switches asks for about thirty items at first, and each hour for those
	// of them that speak of revocation.
	subjectEvery = 2 * time.Minute
	subjectBurst = 64

	// After which a newer item is asked for, although the one at hand is valid. A certificate never changes.
	listFresh = 24 * time.Hour
	rimFresh  = 7 * 24 * time.Hour
	ocspFresh = time.Hour
)
