package agent_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// fakeGPUs shows what it was asked.
type fakeGPUs struct {
	nvml   *attest.NVML
	labels []string
	states []bool // ready states, in their order
	lost   bool   // it takes nothing
	stuck  bool   // its state cannot be set
}

func (f *fakeGPUs) Take(nonce canon.Digest) (e device.GPUEvidence, err error) {
	if f.lost {
		return e, errors.New("GPU is lost")
	}
	e.NVML = f.nvml
	for _, l := range f.labels {
		e.Components = append(e.Components, attest.Component{
			Class: attest.ClassGPU, MediaType: "test/gpu", Label: l, Parts: []attest.Part{{Name: "report", Data: nonce[:]}},
		})
	}
	return e, nil
}

func (f *fakeGPUs) SetReady(ready bool) error {
	if f.stuck {
		return errors.New("not permitted")
	}
	f.states = append(f.states, ready)
	return nil
}

func TestCollectGPUs(t *testing.T) {
	challenge := canon.Sum([]byte("N"))
	keys := attest.Keys{Sign: []byte("sign"), KEM: make([]byte, 32)}
	nonce := attest.DeviceNonce(challenge, keys.Digest())
	cpu := device.NewTSM(start(t).tsm.Client())
	gpus := &fakeGPUs{nvml: &attest.NVML{Capable: 1, Environment: 2, CCFeature: 1}, labels: []string{"gpu0", "gpu1"}}
	b, err := agent.Collect([]agent.Device{cpu}, keys, challenge, attest.Statement{Type: attest.StatementType}, gpus)
	must(t, err)
	var labels []string
	for _, c := range b.Components {
		labels = append(labels, c.Label)
		if report, _ := c.Part("report"); c.Class == attest.ClassGPU && !bytes.Equal(report, nonce[:]) {
			t.Errorf("%s answers %x, want the nonce of a device", c.Label, report)
		}
	}
	if !slices.Equal(labels, []string{agent.LabelStatement, "gpu0", "gpu1", "cpu0"}) || b.Seal != "cpu0" {
		t.Errorf("components %q, seal %s", labels, b.Seal)
	}
	var said attest.Statement
	data, _ := b.Components[0].Part(attest.PartStatement)
	must(t, canon.Unmarshal(data, &said))
	if said.NVML == nil || *said.NVML != *gpus.nvml {
		t.Errorf("the statement says %+v of the driver", said.NVML)
	}
	report, _ := b.Components[3].Part("report")
	if want := attest.ReportData(challenge, keys.Digest(), b.Covered()); !bytes.Equal(report[0x50:0x90], want[:]) {
		t.Error("the seal does not cover the GPUs and what is said of them")
	}
	if _, err := agent.Collect(nil, keys, challenge, attest.Statement{Type: attest.StatementType}, gpus); err == nil || !strings.Contains(err.Error(), "nothing can seal") {
		t.Errorf("GPUs alone: %v", err)
	}
	gpus.lost = true
	if _, err := agent.Collect([]agent.Device{cpu}, keys, challenge, attest.Statement{Type: attest.StatementType}, gpus); err == nil || err.Error() != "GPU is lost" {
		t.Errorf("a lost GPU: %v", err)
	}
}

// TestPitfall02GPUsWaitForTheVerdict: confidential GPUs take no work before a verdict accepts the machine, and are opened when
// it does.
func TestPitfall02GPUsWaitForTheVerdict(t *testing.T) {
	for _, tc := range []struct {
		name     string
		verdicts []string
		want     []bool
	}{
		{"accepted", []string{client.Accept, client.Accept}, []bool{false, true}},
		{"rejected", []string{client.Reject}, []bool{false}},
		{"undecided", []string{client.Undecided}, []bool{false}},
		{"rejected later, then accepted", []string{client.Accept, client.Reject, client.Accept}, []bool{false, true, false, true}},
		{"undecided later", []string{client.Accept, client.Undecided}, []bool{false, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			w.gpus = &fakeGPUs{}
			w.join()
			for _, v := range tc.verdicts {
				w.server.Outcome = v
				w.mustRound()
			}
			if !slices.Equal(w.gpus.states, tc.want) {
				t.Errorf("ready states %v, want %v", w.gpus.states, tc.want)
			}
		})
	}
	w := start(t)
	w.gpus = &fakeGPUs{stuck: true}
	w.join()
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "ready state of the GPUs: not permitted") || len(w.server.Bundles) != 0 {
		t.Errorf("%v", err)
	}
}
