package agent

import "time"

// Periods and limits of the loop.
const (
	MaxKeyLife      = 24 * time.Hour   // session keys are never used longer
	DefaultInterval = 10 * time.Minute // between two rounds
	MinInterval     = time.Minute
	MaxInterval     = 12 * time.Hour // so that keys are renewed well before they end
	MinBackOff      = time.Second    // after the first failure; doubles with each
	MaxBackOff      = 5 * time.Minute
	MinPoll         = time.Second // first wait for a result; doubles with each
	MaxPoll         = 30 * time.Second
	Patience        = 10 * time.Minute // for a result
	MaxChallenges   = 3                // challenges of one round: one may expire while evidence is made
	MaxState        = 1 << 20          // bytes of a state file
	MaxHeld         = 64               // promises that wait to be seen kept
	MaxLogFaults    = 16               // faults of the log that are kept with their proof
)
