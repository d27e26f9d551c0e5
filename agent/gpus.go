package agent

import (
	"fmt"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// GPUs are the GPUs of one driver, with the switches between them. None of them seals.
type GPUs interface {
	// Take returns the evidence of all, each component of which answers the nonce, and the driver's settings.
	Take(nonce canon.Digest) (device.GPUEvidence, error)
	// SetReady opens confidential GPUs to work, or closes them. Others know no such state.
	SetReady(bool) error
}

func (a *Agent) gpus() []GPUs {
	if a.c.GPUs == nil {
		return nil
	}
	return []GPUs{a.c.GPUs}
}

// gate opens the GPUs to work, or closes them: they stay closed from the agent's start until a verdict accepts the
// machine, and from a reject on. Between undecided verdicts they stay as they are. A crash leaves them as they are, too;
// the next start closes them.
func (a *Agent) gate(ready bool) error {
	if a.c.GPUs == nil || a.gated && a.ready == ready {
		return nil
	}
	if err := a.c.GPUs.SetReady(ready); err != nil {
		return fmt.Errorf("ready state of the GPUs: %w", err)
	}
	a.gated, a.ready = true, ready
	return nil
}

// obey sets the gate by a verdict.
func (a *Agent) obey(outcome string) error {
	switch outcome {
	case client.Accept:
		return a.gate(true)
	case client.Reject:
		return a.gate(false)
	}
	return nil
}
