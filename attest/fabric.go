package attest

import "github.com/assay-network/assay/internal/canon"

// Fabric is what a GPU or a switch says of itself and of the devices that it is linked with.
type Fabric struct {
	Nonce    canon.Hex    // that its report answers
	Mode     string       // SPT, MPT, PPCIE; empty: it does not say
	ModeID   string       // id of the claim that affirms Mode
	PDI      canon.Hex    // of its certificate; nil: the chain is not proven
	Own      canon.Hex    // PDI that its report gives as its own; switches alone do
	Links    []canon.Hex  // of a GPU: PDI of the switch behind each NVLink that is on
	GPUs     []canon.Hex  // of a switch: PDIs of the GPUs that it links
	State    string       // chip, firmware and settings: where they are equal, measurements are
	Measured canon.Digest // of all measurements
}

// NVML is what the GPU driver says of the machine's confidential computing (NVIDIA Management Library,
// nvmlSystemConfComputeSettings_t and nvmlConfComputeSystemCaps_t). No device signs it; it counts as the word of a measured
// agent that asked a measured driver. Numbers stand as the library gives them, so that one which nobody knows yet is not
// taken for another.
type NVML struct {
	Capable      int64 `json:"gpus_capable"`   // gpusCaps: 0 not capable, 1 capable
	Environment  int64 `json:"environment"`    // 0 unavailable, 1 simulation, 2 production
	CCFeature    int64 `json:"cc_feature"`     // 0 off, 1 on
	DevToolsMode int64 `json:"dev_tools_mode"` // 0 off, 1 on
	MultiGPUMode int64 `json:"multi_gpu_mode"` // 0 none, 1 protected PCIe, 2 NVLink encryption
}
