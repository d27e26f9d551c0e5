package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
)

// DataClass says what the data of a job is. The zero DataClass says nothing.
type DataClass string

// Data classes.
const (
	DataPublic    DataClass = "public"    // anybody may see it, or it was made up
	DataInternal  DataClass = "internal"  // a firm's own
	DataPersonal  DataClass = "personal"  // of people (GDPR)
	DataPHI       DataClass = "phi"       // of people's health (HIPAA)
	DataCard      DataClass = "card"      // of payment cards (PCI DSS)
	DataFinancial DataClass = "financial" // critical to a financial firm (DORA)
)

// DataClasses lists the classes, the most harmless first.
var DataClasses = []DataClass{DataPublic, DataInternal, DataPersonal, DataPHI, DataCard, DataFinancial}

// holders says for each class in which tier a provider must stand, at least, to hold such data (Assay design, section 6).
var holders = map[DataClass]string{
	DataPublic: claim.TierAnonymous, DataInternal: claim.TierIdentified, DataPersonal: claim.TierAttested,
	DataPHI: claim.TierAttestedFacility, DataCard: claim.TierAttestedFacility, DataFinancial: claim.TierAttestedFacility,
}

// UnmarshalText reads the name of a class.
func (c *DataClass) UnmarshalText(text []byte) error {
	if !slices.Contains(DataClasses, DataClass(text)) {
		return fmt.Errorf("data class %.40q: want %s", text, list(DataClasses, "or"))
	}
	*c = DataClass(text)
	return nil
}

// MarshalText writes the name.
func (c DataClass) MarshalText() ([]byte, error) { return []byte(c), nil }

// Holders returns the tiers of which a provider may hold data of the class, least first.
func (c DataClass) Holders() []string {
	return slices.Clone(claim.Tiers[max(0, slices.Index(claim.Tiers, holders[c])):])
}

// dataClass refuses a policy that lets data go to a provider who may not hold it. Whoever holds personal data must be known
// by name, address and contact at all times (EDPB Opinion 22/2024), which no anonymous provider is.
func (l *linter) dataClass() {
	class := l.document.DataClass
	if class == "" || class == DataPublic {
		return
	}
	left, at := claim.Tiers, "/data-class"
	for i, r := range l.document.Require {
		os := operands("", r)
		if !matches(r.Claim, "party.tier") || r.Of != Party || len(os) == 0 {
			continue
		}
		at = fmt.Sprintf("/require/%d", i)
		left = slices.DeleteFunc(slices.Clone(left), func(tier string) bool {
			return !slices.ContainsFunc(os, func(o operand) bool { return string(o.value) == tier })
		})
	}
	may := class.Holders()
	for _, tier := range left {
		if !slices.Contains(may, tier) {
			l.faultOf(LintDataClass, at, "%s data on %s providers: such data wants the tier %s: {claim: party.tier, of: party, in: [%s]}",
				class, tier, list(may, "or"), strings.Join(may, ", "))
			return
		}
	}
}

// CheckIssuer refuses what is no issuer's id.
func CheckIssuer(id string) error {
	if len(id) > MaxName || !issuerForm.MatchString(id) {
		return fmt.Errorf("issuer %.80q: want up to %d lower-case letters, digits, dots and hyphens", id, MaxName)
	}
	return nil
}

// issuers checks and compiles the list of issuers.
func (l *linter) issuers() (grounds []string) {
	ids := l.document.Issuers
	if ids == nil || !l.size("/issuers", len(ids), MaxIssuers) {
		return nil
	}
	for i, id := range ids {
		at := fmt.Sprintf("/issuers/%d", i)
		switch err := CheckIssuer(id); {
		case err != nil:
			l.fault(at, "%v", err)
		case slices.Contains(ids[:i], id):
			l.fault(at, "issuer %s is named twice", id)
		}
		grounds = append(grounds, claim.IssuerGround+id)
	}
	if !slices.ContainsFunc(l.document.Require, func(r Rule) bool { return r.Of == Party }) {
		l.fault("/issuers", "issuers: no rule speaks of the party, so that nothing reads them")
	}
	return grounds
}
