package claim

import "slices"

// values lists, for claims whose value is one word of a short list, the words that an affirmed claim can have.
var values = map[string][]string{
	"agent.measured": measuredBy,
	"guest.measured": measuredBy,
	"nvidia.cc-mode": {"on", "off", "unsupported", "simulation"},
	"party.facility": Facilities,
	"party.identity": Identities,
	"party.tier":     Tiers,
	"sevsnp.product": {"Milan", "Genoa", "Turin"},
	"tdx.tcb-status": {
		"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded",
		"TDRelaunchAdvised", "TDRelaunchAdvisedConfigurationNeeded", "OutOfDate", "OutOfDateConfigurationNeeded",
	},
}

var measuredBy = []string{"tee", "paravisor", "host-vtpm", "tpm"}

// Values returns the words that the claim can have for a value when it is affirmed, or nil where the list is open.
func Values(id string) []string { return slices.Clone(values[id]) }
