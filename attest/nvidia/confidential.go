package nvidia

import (
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
)

// Numbers of NVML (nvml.h).
const (
	nvmlProduction = 2
	nvmlOn         = 1
	nvmlOff        = 0
)

// Values of nvidia.cc-mode.
const (
	CCOn          = "on"
	CCOff         = "off"
	CCUnsupported = "unsupported" // the GPUs are not capable of it
	CCSimulated   = "simulation"
)

// ConfidentialClaims makes nvidia.cc-mode and nvidia.devtools-off of one GPU. Neither can be read from a report: no field
// says whether confidential computing is on, and a debugging mode shows in the signed bytes only as measurements that differ
// from those of production. So both take two sources. The measurements must be affirmed against NVIDIA's production
// manifests, and the agent's statement must say production, on, and DevTools off. The statement counts where
// agent.measured is affirmed, which it rests on; set holds the claims of the GPU's report. Either source alone contradicts.
//
// said is the statement's NVML part; nil: there is none. statement is the subject of the statement's component.
func ConfidentialClaims(subject, statement string, set claim.Set, said *attest.NVML) []claim.Claim {
	c := confidential{subject: subject, basis: []string{"agent.measured@node", "statement.structure@" + statement}, measurements: set.Find("nvidia.measurements", subject)}
	if said == nil {
		why := claim.Because(claim.EvidenceMissing, "no agent says what the GPU driver's settings are")
		return []claim.Claim{c.make("nvidia.cc-mode", "", why, false), c.make("nvidia.devtools-off", "", why, false)}
	}
	mode, why, otherwise := ccMode(*said)
	dev, devOtherwise := devTools(*said)
	return []claim.Claim{c.make("nvidia.cc-mode", mode, why, otherwise), c.make("nvidia.devtools-off", "", dev, devOtherwise)}
}

type confidential struct {
	subject      string
	basis        []string
	measurements *claim.Claim // nil: the report was not read
}

// make composes the two sources. otherwise says that why is the statement's word to the contrary.
func (c confidential) make(id, value string, why claim.Reason, otherwise bool) claim.Claim {
	cl := claim.Claim{ID: id, Subject: c.subject, Status: claim.Affirmed, Value: value, Reason: why, Basis: c.basis}
	switch {
	case otherwise:
		cl.Status = claim.Contradicted
	case c.measurements != nil && c.measurements.Status == claim.Contradicted:
		cl.Status, cl.Reason = claim.Contradicted, claim.Because(claim.Mismatch, "the measurements are not those of production: %s", c.measurements.Reason)
	case why != "":
		cl.Status = claim.Unknown
	}
	return cl
}

// ccMode reads the settings. A number that is not known is not taken for on or off.
func ccMode(n attest.NVML) (value string, why claim.Reason, otherwise bool) {
	unknown := func(name string, v int64) claim.Reason {
		return claim.Because(unknownValue, "the driver says %s %d, which this build does not know", name, v)
	}
	switch {
	case n.Capable == 0:
		return CCUnsupported, claim.Because(notConfidential, "the driver says that the GPUs are not capable of confidential computing"), true
	case n.Capable != 1:
		return "", unknown("capability", n.Capable), false
	case n.CCFeature == nvmlOff:
		return CCOff, claim.Because(notConfidential, "the driver says that confidential computing is off"), true
	case n.CCFeature != nvmlOn:
		return "", unknown("feature", n.CCFeature), false
	case n.Environment == 0 || n.Environment == 1:
		words := []string{CCOff, CCSimulated}
		return words[n.Environment], claim.Because(notConfidential, "the driver says that the environment is %d, want %d (production)", n.Environment, nvmlProduction), true
	case n.Environment != nvmlProduction:
		return "", unknown("environment", n.Environment), false
	}
	return CCOn, "", false
}

func devTools(n attest.NVML) (why claim.Reason, otherwise bool) {
	switch n.DevToolsMode {
	case nvmlOff:
		return "", false
	case nvmlOn:
		return claim.Because(notConfidential, "the driver says that DevTools mode is on: the host can look into the GPU"), true
	}
	return claim.Reason(fmt.Sprintf("%s: the driver says DevTools mode %d, which this build does not know", unknownValue, n.DevToolsMode)), false
}
