package policy

// Limits of a policy document.
const (
	MaxName       = 64   // bytes of a name
	MaxText       = 512  // bytes of a sentence or a value
	MaxRules      = 256  // rules under require
	MaxRefuse     = 256  // ids under refuse
	MaxValues     = 1024 // values of one `in`
	MaxCount      = 32   // components that the rules may demand, as many as a bundle holds
	MaxGPUs       = 30   // GPUs that a draft can ask for: its bundle also holds a CPU and the agent's statement
	MaxIssuers    = 64   // issuers whose word counts
	MaxReferences = 64   // lists of reference values
	MaxFloors     = 64   // product lines with a floor of the policy's own
	MaxTests      = 1024 // hosts, and tests, of one file of tests
	MaxNearest    = 5    // hosts that are named as nearest to one that is refused
	MaxDiffers    = 8    // claims in which one of them is said to differ
)

// FutureSlack is how far in the future an instant of a claim may lie before `max-age` fails: two clocks of one house
// may differ by this much.
const FutureSlack = 60 // seconds
