package claim

import (
	"math"
	"slices"
)

// values lists, for claims whose value is one word of a short list, the words that an affirmed claim can have; for claims of
// kind Words, the words that can be among them.
var values = map[string][]string{
	"agent.measured":       measuredBy,
	"guest.measured":       measuredBy,
	"nvidia.cc-mode":       {"on", "off", "unsupported", "simulation"},
	"party.facility":       Facilities,
	"party.identity":       Identities,
	"party.tier":           Tiers,
	"sevsnp.platform-info": {"alias-check", "ciphertext-hiding", "ecc", "rapl-off", "smt", "tio", "tsme"},
	"sevsnp.product":       {"Milan", "Genoa", "Turin"},
	"tdx.attributes":       {"icssd", "kl", "lass", "migratable", "perfmon", "pks", "sept-ve-disable", "tpa"},
	"tdx.tcb-status": {
		"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded",
		"TDRelaunchAdvised", "TDRelaunchAdvisedConfigurationNeeded", "OutOfDate", "OutOfDateConfigurationNeeded",
	},
}

var measuredBy = []string{"tee", "paravisor", "host-vtpm", "tpm"}

// numbers are the least and the greatest value that an affirmed claim of kind Number can have.
var numbers = map[string][2]int64{
	"party.measured":          {0, math.MaxInt64},
	"party.record-completion": {0, 1000},
	"party.record-uptime":     {0, 1000},
	"sevsnp.vmpl":             {0, 3},
	"tdx.collateral":          {0, math.MaxInt64},
	"tdx.tcb-date":            {19700101, 99991231},
}

// sizes are the bytes of an affirmed claim of kind Hex, where there is one size only.
var sizes = map[string]int{
	"binding.challenge":  32,
	"nvidia.driver-rim":  32,
	"nvidia.vbios-rim":   32,
	"sevsnp.host-data":   32,
	"sevsnp.measurement": 48,
	"tdx.qe-signer":      32,
	"tdx.seam":           48,
}

// timed are the claims that can say since when: of the challenge that they answer, or of the signed dates that they rest on.
// Claims of the party all can.
var timed = []string{
	"azure.report-fresh", "binding.challenge",
	"nvidia.chain", "nvidia.driver-rim", "nvidia.freshness", "nvidia.measurements", "nvidia.revocation", "nvidia.vbios-rim",
	"sevsnp.chain", "sevsnp.freshness", "sevsnp.revocation",
	"tdx.chain", "tdx.collateral", "tdx.freshness", "tdx.revocation", "tdx.tcb-status",
	"tpm.ak-bound", "tpm.ek-chain", "tpm.freshness",
}

// ofGPUs are the claims of NVIDIA's devices that switches never have.
var ofGPUs = []string{"nvidia.cc-mode", "nvidia.devtools-off", "nvidia.driver-rim", "nvidia.fwid"}

// Numbers returns the least and the greatest value that a claim of kind Number can have when it is affirmed.
func Numbers(id string) (least, greatest int64) { return numbers[id][0], numbers[id][1] }

// Size returns how many bytes the value of a claim of kind Hex has, or 0 where that differs.
func Size(id string) int { return sizes[id] }

// Timed reports whether a claim can say since when it holds.
func Timed(id string) bool { return Room(id) == SubjectParty || slices.Contains(timed, id) }

// OfGPUs reports whether a claim of NVIDIA's devices speaks of GPUs alone.
func OfGPUs(id string) bool { return slices.Contains(ofGPUs, id) }

// Values returns the words that the claim can have for a value, or among its words, when it is affirmed, or nil where the
// list is open.
func Values(id string) []string { return slices.Clone(values[id]) }
