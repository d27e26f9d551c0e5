package verifier

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/tpm"
)

// Clocks returns what the quotes of the evidence prove of the clocks of TPMs, by the claims of its appraisal. An appraiser
// keeps them, and puts them into the expectations of later evidence of the same node.
func Clocks(o *Opened, a Appraisal) (clocks []attest.TPMClock) {
	for _, c := range o.components {
		if c.Class != attest.ClassTPM {
			continue
		}
		if said := a.Claims.Find("tpm.clock", c.subject); said == nil || said.Status != claim.Affirmed {
			continue
		}
		if clock, ok := tpm.Clock(c.Component); ok {
			clocks = append(clocks, clock)
		}
	}
	return clocks
}
