package verifier_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
)

// What the catalogue says of the values of claims is what appraisals make: a lint that leans on it refuses nothing that a
// machine can meet. Of what it lists, whatever the minted evidence has was seen.
func TestValuesAreAsTheCatalogueSays(t *testing.T) {
	all, names := minted(t)
	timed := map[string]bool{}
	for _, name := range names {
		for _, c := range judge(t, all[name]).Appraisal.Claims {
			if c.Status != claim.Affirmed {
				continue
			}
			def, _ := claim.Lookup(c.ID)
			words := claim.Values(c.ID)
			switch def.Kind {
			case claim.Text:
				if words != nil && !slices.Contains(words, c.Value) {
					t.Errorf("%s: %s is %q, the catalogue knows %q", name, c.ID, c.Value, words)
				}
			case claim.Words:
				for w := range strings.SplitSeq(c.Value, " ") {
					if words != nil && c.Value != "" && !slices.Contains(words, w) {
						t.Errorf("%s: %s has the word %q, the catalogue knows %q", name, c.ID, w, words)
					}
				}
			case claim.Number:
				least, greatest := claim.Numbers(c.ID)
				if n, err := strconv.ParseInt(c.Value, 10, 64); err != nil || n < least || n > greatest {
					t.Errorf("%s: %s is %s, the catalogue says %d to %d", name, c.ID, c.Value, least, greatest)
				}
			case claim.Hex:
				if size := claim.Size(c.ID); size != 0 && len(c.Value) != 2*size {
					t.Errorf("%s: %s is %s, the catalogue says %d bytes", name, c.ID, c.Value, size)
				}
			}
			if c.From != 0 {
				timed[c.ID] = true
				if !claim.Timed(c.ID) {
					t.Errorf("%s: %s says since when, the catalogue says that it cannot", name, c.ID)
				}
			}
			if claim.OfGPUs(c.ID) && claim.Class(c.Subject) == "switch" {
				t.Errorf("%s: %s of %s, the catalogue says of GPUs alone", name, c.ID, c.Subject)
			}
		}
	}
	for _, def := range claim.Catalogue() {
		// The cases of Azure are judged with expected user data, which has no time; the claim takes it as the others do.
		if claim.Timed(def.ID) && !timed[def.ID] && claim.Room(def.ID) != claim.SubjectParty && def.ID != "azure.report-fresh" {
			t.Errorf("%s can say since when by the catalogue, and in no case it does", def.ID)
		}
	}
}
