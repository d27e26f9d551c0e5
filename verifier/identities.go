package verifier

import (
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Identities returns the hardware identities that the evidence proves under the case's roots, each once. An appraiser
// looks them up in its registry, puts what it finds into the case's expectations, and then appraises. It says nothing of
// whether they are fresh, bound to the bundle, or somebody else's.
func Identities(o *Opened, c attest.Case) []attest.Identity {
	var set claim.Set
	r := run{o: o, c: &c, set: &set}
	r.judgeComponents()
	set.Settle()
	var proven []attest.Identity
	for _, f := range r.findings {
		vouch := set.Find(f.Signature, f.subject)
		if vouch == nil || vouch.Status != claim.Affirmed {
			continue
		}
		for _, id := range f.Identities {
			if !slices.ContainsFunc(proven, id.Equal) {
				proven = append(proven, id)
			}
		}
	}
	return proven
}

// Shown returns the devices that an appraisal lets be taken for the node's: those of evidence that answers the challenge
// and is bound to the node's keys. What was only copied from another machine shows nothing. proven are those of [Identities].
// Nobody holds a device for having shown it.
func Shown(proven []attest.Identity, claims claim.Set) (shown []ledger.Device) {
	aliases := map[string]canon.Hex{} // leaf of each PDI
	for _, c := range claims {
		if (strings.HasSuffix(c.ID, ".freshness") || strings.HasPrefix(c.ID, "binding.")) && c.Status != claim.Affirmed {
			return nil
		}
		if c.ID == "nvidia.identity" && c.Status == claim.Affirmed {
			var pdi string
			var leaf canon.Hex
			for _, word := range strings.Fields(c.Value) {
				name, value, _ := strings.Cut(word, ":")
				switch name {
				case "pdi":
					pdi = value
				case "leaf":
					if err := leaf.UnmarshalText([]byte(value)); err != nil {
						return nil
					}
				}
			}
			aliases[pdi] = leaf
		}
	}
	for _, id := range proven {
		d := ledger.Device{Kind: id.Kind, Value: id.Value}
		if strings.HasPrefix(id.Kind, "nvidia-") {
			d.Alias = aliases[id.Value.String()]
		}
		shown = append(shown, d)
	}
	slices.SortFunc(shown, ledger.Device.Compare)
	return slices.CompactFunc(shown, func(a, b ledger.Device) bool { return a.Compare(b) == 0 })
}
