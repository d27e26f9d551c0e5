package device

import "time"

const (
	MaxTries     = 5       // takes of one report before a race is given up
	MaxAttribute = 1 << 20 // bytes read from one attribute
	MaxText      = 128     // bytes of a text attribute or of the boot id

	// MaxIMAInBundle bounds a list of files, in bytes, that travels in the bundle; of a longer one its digest does.
	MaxIMAInBundle = 1 << 20

	// GPUPatience bounds the wait for a GPU driver: five seconds for each call, as NVIDIA's own tool has it, and twelve GPUs.
	GPUPatience  = time.Minute
	gpuGrace     = time.Second // for a killed process to end
	maxGPUAnswer = 4 << 20     // bytes that one question to a driver brings
	maxGPUWords  = 4 << 10     // bytes of its complaint

	nvChunk = 512 // bytes of one read of the TPM's memory; some TPMs give no more
)
