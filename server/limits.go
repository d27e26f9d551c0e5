package server

import "time"

// Limits on what callers may ask and what the server takes on.
const (
	MaxJSON         = 64 << 10  // bytes of a JSON request
	MaxVettingJSON  = 256 << 10 // bytes of a request about certificates, claims and parameters
	MaxPolicies     = 16        // of one simulation
	MaxAccess       = 1 << 20   // bytes of the document that says who may log in
	MaxHeader       = 16 << 10  // bytes of a request's header
	MaxPage         = 256       // rows of one answer
	MaxCandidates   = 1024      // nodes that a policy is tried on, or that the nearest to a refused one are looked for among
	MaxRelax        = 8         // rules that a policy is tried without
	MaxScan         = 4096      // entries that one answer is looked for among
	MaxTokens       = 1000      // good tokens of one tenant
	MaxLoginsAtOnce = 4         // ID tokens that are judged at one time
	MaxIssuerAnswer = 1 << 20   // bytes of one answer of an issuer
	MaxVerifyAtOnce = 4         // anonymous appraisals at one time
	MaxFetchAtOnce  = 8         // submissions that collateral is fetched for at one time
	MaxActivations  = 16        // activated keys of one node that an appraisal is told of, and clocks
)

// Periods.
const (
	ChallengeLife   = 5 * time.Minute        // from issue to the last instant of submission
	ActivationLife  = 5 * time.Minute        // from the offer of a secret to the last instant of its return
	JoinTokenLife   = 24 * time.Hour         // from issue to the last instant of joining
	MaxTokenLife    = 366 * 24 * time.Hour   // from issue to the last instant of a token that an admin makes
	MaxIDTokenAge   = 10 * time.Minute       // from the issue of an ID token to the login
	IssuerTimeout   = 10 * time.Second       // one request to an issuer
	IssuerPause     = 10 * time.Second       // for which an answer of an issuer stands
	DiscoveryLife   = time.Hour              // for which an issuer's discovery document stands
	UsedInterval    = time.Minute            // for which a use of a token stands for those after it
	DefaultInterval = time.Second            // between two checkpoints, if there is something new
	MaxInterval     = 30 * time.Second       // so that a promise of 60 seconds is kept even where one checkpoint fails
	RequestTimeout  = 30 * time.Second       // one request, its body included
	HeaderTimeout   = 10 * time.Second       // its header
	IdleTimeout     = 2 * time.Minute        // a connection without requests
	ScrapeTimeout   = 5 * time.Second        // what metrics ask of the database
	StopTimeout     = 10 * time.Second       // from the order to stop to the end of open requests
	FetchAtOnce     = 10 * time.Second       // one round of fetching, in which no other submission is judged
	CollateralWait  = 2 * time.Minute        // for which a submission waits for collateral that a vendor may yet give
	RetryAppraisal  = 10 * time.Second       // after an appraisal that could not be stored
	RetryEvent      = time.Minute            // after an event of a machine that could not be made
	WitnessTimeout  = 5 * time.Second        // one round of asking witnesses
	WitnessLinger   = 200 * time.Millisecond // for those that have not answered when there is a quorum
	WitnessSilence  = time.Minute            // after which a witness that does not cosign is told of: longer than CheckpointLife
	CheckpointLife  = 30 * time.Second       // after which witnesses cosign a checkpoint once more, though nothing is new
	StallGrace      = 15 * time.Minute       // for which published verdicts stand while nothing can be published
	MaxLease        = 15 * time.Second       // for which a role stays with a process that no longer renews it, and others wait
	minLease        = time.Second            // and at least
	MaxBehind       = time.Minute            // that a clock may be behind what the log says already, which then counts
	HeadsCheck      = time.Minute            // for which a process takes it that no heads entry is overdue
	retryDatabase   = 2 * time.Second        // wish of a server whose database is away
	retryClosing    = 2 * time.Second        // wish of a server whose log is being closed
	EARSlack        = 5 * time.Minute        // for which a retired key is published after its last result has expired
	GarbageAge      = 24 * time.Hour         // for which a part that nothing needs any more is kept
	SegmentRest     = 10 * time.Minute       // for which a segment of blobs was not written before it may go: longer than a transaction
	CollectInterval = time.Hour              // between two collections of a running server
	appraiserPoll   = time.Second            // how late the appraiser sees what another process took
)

const (
	leaseIntervals   = 10   // of publishing that a process may miss before its roles are taken over
	appraiserBatch   = 64   // submissions that one look at the table finds
	vettingBatch     = 256  // events of one transaction of the clock
	collectBatch     = 256  // blobs that one look at the table finds
	integrateBatch   = 4096 // entries of one transaction of the publisher
	witnessTries     = 3    // of one witness in a round, each from the size that it named
	activationSecret = 32   // bytes; a TPM opens no more than a digest has
)
