package mint_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/canon"
)

// TestNVIDIAIsDeterministic: a second maker makes the same bytes, and the digest of one of everything is what it was.
func TestNVIDIAIsDeterministic(t *testing.T) {
	const golden = "144b11b1ea382360dfa2cbe9e7916a8e795bb5b8e2357528c9a66b09f21a3f93"
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	all := func() (b []byte) {
		n := mint.NewNVIDIA()
		h := n.HGX("one")
		gb := n.Device("GB100", "one")
		for _, d := range []*mint.NVIDIADevice{h.GPUs[0], h.Switches[3], gb} {
			b = append(append(b, d.Answer([32]byte{1})...), d.PEM()...)
		}
		for _, item := range n.Collateral(at, h.GPUs[0], h.Switches[3], gb) {
			b = append(b, item.Data...)
		}
		b = append(b, n.CRL(n.Root, at, at.AddDate(0, 1, 0), mint.Revoked{Serial: gb.Chain[1].X509().SerialNumber, Reason: 6}).Data...)
		return b
	}
	one := all()
	if !bytes.Equal(one, all()) {
		t.Error("two makers make different bytes")
	}
	if got := canon.Sum(one).String(); got != golden {
		t.Errorf("digest of what is made: %s, want %s", got, golden)
	}
	for _, item := range mint.NewNVIDIA().Collateral(at, mint.NewNVIDIA().Device("GB100", "one")) {
		got, err := nvidia.ReadCollateral(item.Data)
		if err != nil || len(got) != 1 || got[0].Kind != item.Kind {
			t.Errorf("an item of kind %s is read as %v, %v", item.Kind, got, err)
		}
	}
}
