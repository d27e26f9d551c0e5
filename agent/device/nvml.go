//go:build nvml

package device

import (
	"bytes"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// HasNVML is whether this build speaks to GPUs.
const HasNVML = true

// nvmlSymbols are those that older drivers lack. A call of a symbol that is not there ends the process without a word.
var nvmlSymbols = []string{
	"nvmlSystemGetConfComputeCapabilities", "nvmlSystemGetConfComputeSettings", "nvmlSystemSetConfComputeGpusReadyState",
	"nvmlDeviceGetConfComputeGpuCertificate", "nvmlDeviceGetConfComputeGpuAttestationReport",
}

// driverNVML is the library of NVIDIA's driver (nvml.h).
type driverNVML struct {
	lib   nvml.Interface
	knows bool // of confidential computing
}

// OpenNVML returns the library of NVIDIA's driver under a path; "": where the linker finds it. It loads nothing yet.
func OpenNVML(path string) GPULibrary {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	}
	return &driverNVML{lib: nvml.New(options...)}
}

func nvmlFault(what string, r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %s", what, r)
}

func (d *driverNVML) Open() error {
	r := d.lib.Init()
	if r == nvml.ERROR_LIBRARY_NOT_FOUND {
		return fmt.Errorf("libnvidia-ml.so.1 is not there: no driver is installed") // r has no words while nothing is loaded
	}
	if r != nvml.SUCCESS {
		return nvmlFault("open the driver", r)
	}
	d.knows = true
	for _, name := range nvmlSymbols {
		d.knows = d.knows && d.lib.Extensions().LookupSymbol(name) == nil
	}
	return nil
}

func (d *driverNVML) Devices() (all []GPU, err error) {
	driver, r := d.lib.SystemGetDriverVersion()
	if r != nvml.SUCCESS {
		return nil, nvmlFault("driver version", r)
	}
	n, r := d.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, nvmlFault("count GPUs", r)
	}
	for i := range n {
		h, err := d.device(i)
		if err != nil {
			return nil, err
		}
		g := GPU{Driver: driver}
		if g.Name, r = h.GetName(); r != nvml.SUCCESS {
			return nil, nvmlFault(fmt.Sprintf("name of GPU %d", i), r)
		}
		if g.UUID, r = h.GetUUID(); r != nvml.SUCCESS {
			return nil, nvmlFault(fmt.Sprintf("UUID of GPU %d", i), r)
		}
		all = append(all, g)
	}
	return all, nil
}

func (d *driverNVML) device(index int) (nvml.Device, error) {
	h, r := d.lib.DeviceGetHandleByIndex(index)
	return h, nvmlFault(fmt.Sprintf("open GPU %d", index), r)
}

func (d *driverNVML) Report(index int, nonce canon.Digest) ([]byte, error) {
	h, err := d.device(index)
	if err != nil {
		return nil, err
	}
	report := nvml.ConfComputeGpuAttestationReport{Nonce: nonce}
	if r := h.GetConfComputeGpuAttestationReport(&report); r != nvml.SUCCESS {
		return nil, nvmlFault("attestation report", r)
	}
	n := min(int(report.AttestationReportSize), len(report.AttestationReport))
	return bytes.Clone(report.AttestationReport[:n]), nil
}

// Chain cuts the zeros that some drivers count as part of the text.
func (d *driverNVML) Chain(index int) ([]byte, error) {
	h, err := d.device(index)
	if err != nil {
		return nil, err
	}
	c, r := h.GetConfComputeGpuCertificate()
	if r != nvml.SUCCESS {
		return nil, nvmlFault("certificates", r)
	}
	n := min(int(c.AttestationCertChainSize), len(c.AttestationCertChain))
	return bytes.TrimRight(bytes.Clone(c.AttestationCertChain[:n]), "\x00"), nil
}

func (d *driverNVML) ConfComputeSettings() (*attest.NVML, error) {
	if !d.knows {
		return nil, nil
	}
	caps, r := d.lib.SystemGetConfComputeCapabilities()
	if r == nvml.ERROR_NOT_SUPPORTED {
		return nil, nil
	}
	if r != nvml.SUCCESS {
		return nil, nvmlFault("confidential computing capabilities", r)
	}
	s, r := d.lib.SystemGetConfComputeSettings()
	if r == nvml.ERROR_NOT_SUPPORTED {
		return nil, nil
	}
	return &attest.NVML{
		Capable: int64(caps.GpusCaps), Environment: int64(s.Environment), CCFeature: int64(s.CcFeature),
		DevToolsMode: int64(s.DevToolsMode), MultiGPUMode: int64(s.MultiGpuMode),
	}, nvmlFault("confidential computing settings", r)
}

func (d *driverNVML) SetReady(ready bool) error {
	var state uint32
	if ready {
		state = 1
	}
	return nvmlFault("ready state of the GPUs", d.lib.SystemSetConfComputeGpusReadyState(state))
}
