package claim

import (
	"strconv"

	"github.com/assay-network/assay/internal/canon"
)

// SubjectParty is the subject of claims about whoever runs the machine. There is exactly one.
const SubjectParty = "party"

// IssuerGround begins the entry of a basis that names whose word a claim of a party is.
const IssuerGround = "issuer:"

// Tiers of a provider, least first (Assay design, section 6). A tier has a name and never a number: published drafts number tiers in opposite
// directions.
const (
	TierAnonymous        = "anonymous"         // a key, a stake, a benchmark
	TierIdentified       = "identified"        // a known legal entity
	TierAttested         = "attested"          // and hardware that proves what it runs
	TierAttestedFacility = "attested-facility" // and an audited or bound site
)

// Values of party.identity, least first: I0 to I2.
const (
	IdentityNone        = "none"
	IdentityContact     = "contact"      // contact and domain verified
	IdentityLegalEntity = "legal-entity" // registered entity, sanctions checked
)

// Values of party.facility, least first: F0 to F3.
const (
	FacilityNone      = "none"
	FacilityWitnessed = "witnessed" // remote witness and pledge
	FacilityBound     = "bound"     // platform ownership, vTPM, heartbeat
	FacilityAudited   = "audited"   // on site, and continuously
)

// Tiers, Identities and Facilities list the values of those claims, least first.
var (
	Tiers      = []string{TierAnonymous, TierIdentified, TierAttested, TierAttestedFacility}
	Identities = []string{IdentityNone, IdentityContact, IdentityLegalEntity}
	Facilities = []string{FacilityNone, FacilityWitnessed, FacilityBound, FacilityAudited}
)

// MeasuredTerm is how long a benchmark counts, in seconds (users' study, section 3, tier anonymous: 30 days rolling).
const MeasuredTerm = canon.Time(30 * 24 * 60 * 60)

// Measured returns party.measured of a benchmark that began at a time. It is the verifier's own word, for it timed it. It
// rests on no evidence, and nothing that is attested may rest on it.
func Measured(score int64, from canon.Time) Claim {
	return Claim{ID: "party.measured", Subject: SubjectParty, Status: Affirmed, Value: strconv.FormatInt(score, 10), Issuer: Verifier, Basis: []string{},
		From: from, Until: from + MeasuredTerm - 1}
}
