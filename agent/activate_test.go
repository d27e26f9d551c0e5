package agent_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// fakeTPM shows what it was asked, and opens the credentials of the fake verifier.
type fakeTPM struct {
	epoch       string
	certificate []byte
	wrong       bool // it opens another secret
	broken      bool // it opens nothing
}

func (f *fakeTPM) Class() string          { return attest.ClassTPM }
func (f *fakeTPM) Epoch() (string, error) { return f.epoch, nil }

func (f *fakeTPM) Take(data []byte) (attest.Component, error) {
	return attest.Component{Class: attest.ClassTPM, MediaType: "test/tpm", Label: "tpm0", Parts: []attest.Part{{Name: "quote", Data: data}}}, nil
}

func (f *fakeTPM) Endorsement() (device.Endorsement, error) {
	return device.Endorsement{Certificate: f.certificate, EK: []byte("EK"), AK: []byte("AK")}, nil
}

func (f *fakeTPM) Activate(credential, _ []byte) ([]byte, error) {
	switch {
	case f.broken:
		return nil, errors.New("integrity")
	case f.wrong:
		return []byte("guess"), nil
	}
	return fakeserver.Open(credential), nil
}

func withTPM(t *testing.T) *world {
	w := start(t)
	w.tpm = &fakeTPM{epoch: "resets:1", certificate: []byte("certificate")}
	w.join()
	return w
}

func TestActivate(t *testing.T) {
	for _, tc := range []struct {
		name    string
		between func(*world) // two rounds that end well
		want    int          // activations after both
		newKeys bool
		says    string // in the agent's log
	}{
		{name: "once", between: func(*world) {}, want: 1, says: "activated the TPM's key"},
		{name: "again after a restart of the agent", between: func(w *world) { w.join() }, want: 2, newKeys: true},
		{name: "again after the TPM was reset", between: func(w *world) { w.tpm.epoch = "resets:2" }, want: 2, newKeys: true, says: "reason=reboot"},
		{name: "not after a reject", between: func(w *world) { w.server.Outcome = client.Reject; w.mustRound(); w.server.Outcome = client.Accept }, want: 1, newKeys: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := withTPM(t)
			w.mustRound()
			old := w.keys()
			tc.between(w)
			w.mustRound()
			if got := w.server.Activations; len(got) != tc.want || string(got[0].EKPublic) != "EK" || string(got[0].AKPublic) != "AK" {
				t.Errorf("%d activations, want %d: %q", len(got), tc.want, got)
			}
			if (w.keys() != old) != tc.newKeys {
				t.Errorf("new keys: %v, want %v", w.keys() != old, tc.newKeys)
			}
			if !strings.Contains(w.log.String(), tc.says) {
				t.Errorf("%q is not in the log:\n%s", tc.says, &w.log)
			}
		})
	}
}

// What the verifier refuses, it refuses in its verdict too: the round goes on and says so.
func TestActivationRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		alter func(*world)
		says  string
		want  string // error of the round; empty: none
	}{
		{name: "no certificate", alter: func(w *world) { w.tpm.certificate = nil }, says: "no endorsement certificate"},
		{name: "wrong secret", alter: func(w *world) { w.tpm.wrong = true }, says: "another secret"},
		{name: "the TPM does not open it", alter: func(w *world) { w.tpm.broken = true }, want: "activate the TPM's key: integrity"},
		{name: "the verifier is busy", alter: func(w *world) {
			w.server.Refuse = func(path string) *client.Problem {
				if path == "/v1/activations" {
					return &client.Problem{Status: 503, Code: "busy"}
				}
				return nil
			}
		}, want: "busy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := withTPM(t)
			tc.alter(w)
			err := w.round()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || len(w.server.Bundles) != 0 {
					t.Errorf("error %v after %d bundles, want %q", err, len(w.server.Bundles), tc.want)
				}
				return
			}
			must(t, err)
			if len(w.server.Activations) != 0 || len(w.server.Bundles) != 1 || !strings.Contains(w.log.String(), tc.says) {
				t.Errorf("%d activations, %d bundles, log:\n%s", len(w.server.Activations), len(w.server.Bundles), &w.log)
			}
			// It is asked again each time: who can mend it may have done so.
			w.tpm.certificate, w.tpm.wrong = []byte("certificate"), false
			w.mustRound()
			if len(w.server.Activations) != 1 {
				t.Errorf("%d activations after the fault was mended", len(w.server.Activations))
			}
		})
	}
}

func TestCollect(t *testing.T) {
	challenge := canon.Sum([]byte("N"))
	keys := attest.Keys{Sign: []byte("sign"), KEM: make([]byte, 32)}
	nonce := attest.DeviceNonce(challenge, keys.Digest())
	tsm, tpm := device.NewTSM(start(t).tsm.Client()), &fakeTPM{}
	for _, tc := range []struct {
		name    string
		devices []agent.Device
		labels  []string // after the statement
	}{
		{"CPU TEE", []agent.Device{tsm}, []string{"cpu0"}},
		{"TPM", []agent.Device{tpm}, []string{"tpm0"}},
		{"TPM beside a CPU TEE", []agent.Device{tsm, tpm}, []string{"tpm0", "cpu0"}},
		{"in another order", []agent.Device{tpm, tsm}, []string{"tpm0", "cpu0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := agent.Collect(tc.devices, keys, challenge, attest.Statement{Type: attest.StatementType})
			must(t, err)
			var labels []string
			for _, c := range b.Components[1:] {
				labels = append(labels, c.Label)
			}
			if !slices.Equal(labels, tc.labels) || b.Seal != labels[len(labels)-1] || b.Components[0].Label != agent.LabelStatement {
				t.Fatalf("components %q, seal %q, want %q", labels, b.Seal, tc.labels)
			}
			for _, c := range b.Components[1:] {
				quote, isTPM := c.Part("quote")
				report, _ := c.Part("report")
				qualifying := attest.QualifyingData(challenge, keys.Digest(), b.Covered())
				data := attest.ReportData(challenge, keys.Digest(), b.Covered())
				switch {
				case isTPM && c.Label == b.Seal && !bytes.Equal(quote, qualifying[:]),
					isTPM && c.Label != b.Seal && !bytes.Equal(quote, nonce[:]),
					!isTPM && !bytes.Equal(report[0x50:0x90], data[:]):
					t.Errorf("%s covers other data", c.Label)
				}
			}
		})
	}
	if _, err := agent.Collect(nil, keys, challenge, attest.Statement{Type: attest.StatementType}); err == nil || !strings.Contains(err.Error(), "nothing can seal") {
		t.Errorf("no device: %v", err)
	}
}
