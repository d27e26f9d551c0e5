package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
)

// gpus are the GPUs and switches of a machine, and what its agent says of them. Devices are shared by scenes: a twin replaces
// one with a changed clone. The zero gpus are none.
type gpus struct {
	devices []*mint.NVIDIADevice
	said    *attest.NVML
	change  func([]attest.Component) []attest.Component // changes the components before the seal is taken
	other   map[int][nvidia.NonceSize]byte              // nonce of a device that does not answer the challenge
	late    bool                                        // they came after the seal was taken
}

// confidential is what NVML says of GPUs that keep their memory from the host.
var confidential = attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}

// answered is when NVIDIA's responders answered; they speak for a day.
var answered = asOf.Add(-time.Hour)

// components returns the evidence of the devices that is there before the seal is taken.
func (g gpus) components(b attest.Bundle) []attest.Component {
	if g.late {
		return nil
	}
	return g.evidence(b)
}

func (g gpus) evidence(b attest.Bundle) (all []attest.Component) {
	count := map[string]int{}
	for i, d := range g.devices {
		nonce, ok := g.other[i]
		if !ok {
			nonce = attest.DeviceNonce(b.Challenge, b.Keys.Digest())
		}
		c := d.Component("", nonce)
		c.Label = fmt.Sprint(c.Class, count[c.Class])
		count[c.Class]++
		all = append(all, c)
	}
	if g.change != nil {
		all = g.change(all)
	}
	return all
}

// changeGPU exchanges one device for a changed clone.
func (s *scene) changeGPU(i int, change func(*mint.NVIDIADevice)) {
	devices := append([]*mint.NVIDIADevice(nil), s.gpus.devices...)
	devices[i] = devices[i].Clone()
	change(devices[i])
	s.gpus.devices = devices
}

// withGPUs returns the base machine with devices, current manifests and answers.
func (s *shelf) withGPUs(nv *mint.NVIDIA, said attest.NVML, devices ...*mint.NVIDIADevice) scene {
	return s.scene(sevsnp.Genoa, 5).withGPUs(nv, said, devices...)
}

// withGPUs returns the bundle of a machine that has devices beside its CPU.
func (s scene) withGPUs(nv *mint.NVIDIA, said attest.NVML, devices ...*mint.NVIDIADevice) scene {
	s.gpus = gpus{devices: devices, said: &said}
	s = s.bundle()
	for _, c := range nv.Collateral(answered, devices...) {
		s.collateral = append(s.collateral, nvidiaItem(c))
	}
	return s
}

// nvidiaItem names an item by its bytes: there are many, and none bears a name.
func nvidiaItem(c attest.Collateral) testvectors.Item {
	extension := ".der"
	if c.Kind == attest.KindNVIDIARIM {
		extension = ".xml"
	}
	return testvectors.Item{Key: c.Kind, Name: c.Kind + "-" + canon.Sum(c.Data).String()[:8] + extension, Data: c.Data}
}

// exchange replaces an item that NVIDIA signed by another, or takes it away where there is none.
func (s *scene) exchange(was attest.Collateral, is ...attest.Collateral) {
	var items []testvectors.Item
	found := false
	for _, i := range s.collateral {
		if !bytes.Equal(i.Data, was.Data) {
			items = append(items, i)
			continue
		}
		found = true
		for _, c := range is {
			items = append(items, nvidiaItem(c))
		}
	}
	if !found {
		panic("genvectors: internal error: no such item")
	}
	s.collateral = items
}

// addGPU adds a case that confidential-gpu judges as well.
func (s *shelf) addGPU(name, about, twinOf string, sc scene, gpu policy.Outcome, a answers) {
	s.add(name, about, twinOf, sc, a)
	c := &s.all[len(s.all)-1]
	c.Verdicts = append(c.Verdicts, testvectors.Outcome{Policy: "confidential-gpu", Outcome: gpu})
}
