package main

import (
	"slices"
	"testing"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/market/vetting"
)

// TestTiersAreTheVerifiers: the agent carries none of the verifier's rules, and its table of tiers says what they say. It
// does not see that a criterion is met by another amount at a higher tier, as of contacts.
func TestTiersAreTheVerifiers(t *testing.T) {
	var names []string
	for _, tier := range agent.Tiers() {
		names = append(names, tier.Name)
	}
	if !slices.Equal(names, claim.Tiers) {
		t.Errorf("tiers %q, the verifier has %q", names, claim.Tiers)
	}
	want := map[string][]string{
		claim.TierAnonymous:        {vetting.LacksStake},
		claim.TierIdentified:       {vetting.LacksIdentity, vetting.LacksContact, vetting.LacksHardware},
		claim.TierAttested:         {vetting.LacksHardware, vetting.LacksRecord},
		claim.TierAttestedFacility: {vetting.LacksFacility, vetting.LacksAudit, vetting.LacksWitness},
	}
	for _, tier := range agent.Tiers() {
		var asks []string
		for _, a := range tier.Asks {
			asks = append(asks, a.Criterion)
		}
		if !slices.Equal(asks, want[tier.Name]) {
			t.Errorf("%s asks %q, want %q", tier.Name, asks, want[tier.Name])
		}
	}
}
