package device_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
)

// trustDomain is a TDX guest behind the kernel's interface: its driver answers with a quote, and with nothing beside it.
type trustDomain struct{ *mint.TD }

func (d trustDomain) Report(reportData [64]byte, _ int) ([]byte, []byte, error) {
	return d.Quote(reportData), nil, nil
}

func TestTakeTDX(t *testing.T) {
	intel := mint.NewIntel()
	made := func() *faketsm.Provider {
		p := faketsm.New(trustDomain{intel.TD(intel.IntelPlatform("one"), mint.SoundQuote15())})
		p.Name = device.ProviderTDX
		return p
	}
	both(t, made, func(t *testing.T, _ *faketsm.Provider, tsm device.TSM) {
		want := data(9)
		c, err := tsm.Take(want[:])
		if err != nil {
			t.Fatal(err)
		}
		raw, ok := c.Part(tdx.PartQuote)
		parsed, _, err := tdx.Parse(raw)
		if !ok || err != nil || parsed.Peek().ReportData != want || c.Class != attest.ClassCPU || c.Label != "cpu0" || c.MediaType != tdx.MediaType || len(c.Parts) != 1 {
			t.Errorf("component %s %s %s of %d parts: %v", c.Class, c.Label, c.MediaType, len(c.Parts), err)
		}
	})
	large := faketsm.New(platform{size: tdx.MaxQuote + 1})
	large.Name = device.ProviderTDX
	want := data(9)
	if _, err := device.NewTSM(large.Client()).Take(want[:]); err == nil || !strings.Contains(err.Error(), "at most 16384") {
		t.Errorf("large quote: %v", err)
	}
	if _, err := device.NewTSM(large.Client()).Take(want[:63]); err == nil || !strings.Contains(err.Error(), "REPORT_DATA of 63 bytes") {
		t.Errorf("short data: %v", err)
	}
}
