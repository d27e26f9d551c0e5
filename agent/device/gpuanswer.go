package device

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// ErrNoNVML is the answer to every question in a build without the library's binding, which takes cgo.
var ErrNoNVML = errors.New("this build speaks to no GPU: it was built without the tag nvml")

// GPULibrary is what a GPU driver's library is asked. Open comes first. Any call may hang as long as the driver does, and a
// library that does not fit may end the process: see [GPUs].
type GPULibrary interface {
	Open() error
	Devices() ([]GPU, error)
	// Report returns the attestation report of a GPU that answers the nonce.
	Report(index int, nonce canon.Digest) ([]byte, error)
	// Chain returns the certificates of a GPU's key, in PEM.
	Chain(index int) ([]byte, error)
	// ConfComputeSettings returns nil where the driver knows of none.
	ConfComputeSettings() (*attest.NVML, error)
	SetReady(ready bool) error
}

// GPU is what the driver calls a GPU. Nothing here is evidence.
type GPU struct {
	Name   string `json:"name"`
	UUID   string `json:"uuid"`
	Driver string `json:"driver"` // version
}

// Questions to [AnswerGPU], as arguments of its process.
const (
	questionList    = "list"
	questionCollect = "collect" // NONCE
	questionReady   = "ready"   // true or false
)

// gpuAnswer goes from the process that asks the driver to the agent. It is no format: both are one program.
type gpuAnswer struct {
	Settings *attest.NVML `json:"settings,omitzero"`
	GPUs     []gpuParts   `json:"gpus,omitzero"`
}

type gpuParts struct {
	GPU
	Report []byte `json:"report,omitzero"`
	Chain  []byte `json:"chain,omitzero"`
}

// reports says whether the GPUs give reports: the driver refuses them otherwise, and takes a refusal for a fault.
func (a gpuAnswer) reports() bool {
	return a.Settings != nil && (a.Settings.CCFeature != 0 || a.Settings.MultiGPUMode != 0)
}

// AnswerGPU is the life of the process that [GPUs] starts: it puts one question to the library, and writes the answer.
func AnswerGPU(library GPULibrary, question []string, out io.Writer) error {
	if err := library.Open(); err != nil {
		return err
	}
	var a gpuAnswer
	var err error
	if a.Settings, err = library.ConfComputeSettings(); err != nil {
		return err
	}
	switch {
	case len(question) == 1 && question[0] == questionList:
		err = list(library, &a)
	case len(question) == 2 && question[0] == questionCollect:
		nonce, bad := canon.ParseDigest(question[1])
		if bad != nil {
			return fmt.Errorf("nonce: %w", bad)
		}
		if err = list(library, &a); err == nil && a.reports() {
			err = collect(library, nonce, &a)
		}
	case len(question) == 2 && question[0] == questionReady:
		if a.reports() {
			err = library.SetReady(question[1] == "true")
		}
	default:
		return errors.New("this command is for the agent alone")
	}
	if err != nil {
		return err
	}
	return json.MarshalWrite(out, a)
}

func list(library GPULibrary, a *gpuAnswer) error {
	devices, err := library.Devices()
	if len(devices) > attest.MaxComponents {
		return fmt.Errorf("%d GPUs, at most %d", len(devices), attest.MaxComponents)
	}
	for _, d := range devices {
		a.GPUs = append(a.GPUs, gpuParts{GPU: d})
	}
	return err
}

// collect ends at the first failure: each costs confidential work.
func collect(library GPULibrary, nonce canon.Digest, a *gpuAnswer) error {
	for i := range a.GPUs {
		d := &a.GPUs[i]
		var err error
		if d.Chain, err = library.Chain(i); err != nil {
			return fmt.Errorf("certificates of GPU %d: %w", i, err)
		}
		if d.Report, err = library.Report(i, nonce); err != nil {
			return fmt.Errorf("report of GPU %d: %w", i, err)
		}
	}
	return nil
}
