//go:build !nvml

package device

import (
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// HasNVML is whether this build speaks to GPUs.
const HasNVML = false

type noNVML struct{}

// OpenNVML returns the library of NVIDIA's driver under a path. This build has none: see [ErrNoNVML].
func OpenNVML(string) GPULibrary { return noNVML{} }

func (noNVML) Open() error                                { return ErrNoNVML }
func (noNVML) Devices() ([]GPU, error)                    { return nil, ErrNoNVML }
func (noNVML) Report(int, canon.Digest) ([]byte, error)   { return nil, ErrNoNVML }
func (noNVML) Chain(int) ([]byte, error)                  { return nil, ErrNoNVML }
func (noNVML) ConfComputeSettings() (*attest.NVML, error) { return nil, ErrNoNVML }
func (noNVML) SetReady(bool) error                        { return ErrNoNVML }
