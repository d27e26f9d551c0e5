package vetting

import (
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ParametersType is the type of the operator's parameters.
const ParametersType = "assay/rules/v1"

// Parameters are what the operator may set. All spans are seconds.
type Parameters struct {
	Type        string       `json:"type"`
	Effective   canon.Time   `json:"effective"`          // first instant, not before the entry
	Previous    canon.Digest `json:"previous,omitzero"`  // body of the parameters before these
	Grace       Grace        `json:"grace"`              // how long a fault may last
	Terms       Terms        `json:"terms"`              // how long a state may last
	Notices     []int64      `json:"notices"`            // how long before an end somebody is told, longest first
	EvidenceAge int64        `json:"evidence_age"`       // how old the hardware's evidence may be
	Tiers       []Threshold  `json:"tiers"`              // one for each tier, least first
	Exploited   []string     `json:"exploited,omitzero"` // advisories against which attacks are known, ordered
	Discrepancy int64        `json:"discrepancy"`        // how long two auditors that are apart void each other
}

// Grace says how long a fault may last before it costs the tier, or the certificate.
type Grace struct {
	TCB        int64 `json:"tcb"`        // firmware out of date
	Exploited  int64 `json:"exploited"`  // the same, and attacks are known
	RIM        int64 `json:"rim"`        // the vendor has published no manifest of the firmware
	Audit      int64 `json:"audit"`      // ISO 27001 or SOC 2 report lapsed
	RMA        int64 `json:"rma"`        // a device was replaced
	Suspension int64 `json:"suspension"` // hidden, and clears itself
	Review     int64 `json:"review"`     // hidden, and somebody has to look
}

// Terms say how long a state may last.
type Terms struct {
	Draft     int64 `json:"draft"`
	Submitted int64 `json:"submitted"`
	InReview  int64 `json:"in_review"`
	Appeal    int64 `json:"appeal"` // to file one
	Triage    int64 `json:"triage"` // to say who rules on it
	Ruling    int64 `json:"ruling"`
	Device    int64 `json:"device"` // that an identity is held without being seen
}

// Threshold is what a tier asks beside its claims, and how long a certificate of it lasts.
type Threshold struct {
	Tier          string `json:"tier"`
	Term          int64  `json:"term"`
	RecordDays    int64  `json:"record_days"`       // since the first job or heartbeat
	MinLeases     int64  `json:"min_leases"`        // below which completion is not judged
	MinCompletion int64  `json:"min_completion"`    // permille
	MinUptime     int64  `json:"min_uptime"`        // permille
	ContactHours  int64  `json:"contact_hours"`     // within which the incident contact answers
	Witnesses     int64  `json:"witnesses"`         // that cosign the log
	Auditors      int64  `json:"auditors,omitzero"` // of attested-facility: different issuers whose word about the site counts
}

// Defaults are the parameters of a log that has none. Spans and thresholds are those of the users' study, section 3: its table
// of tiers, its list of downgrade triggers, section 6 (two auditors), and the numbers of Akash AEP-86 that it proposes to begin with (record of 30 days,
// 98 % over 10 leases, contact within 24, 4 and 1 h, 90 days of a discrepancy). Suspension: market study, section 7.2; notices of
// 30, 14 and 7 days: users' study, O11; ruling: market study, section 7.3c.
func Defaults() Parameters {
	return Parameters{
		Type:        ParametersType,
		Grace:       Grace{TCB: 30 * day, Exploited: 7 * day, RIM: 14 * day, Audit: 30 * day, RMA: 30 * day, Suspension: 14 * day, Review: 14 * day},
		Terms:       Terms{Draft: 30 * day, Submitted: 14 * day, InReview: 14 * day, Appeal: 14 * day, Triage: 72 * hour, Ruling: 5 * day, Device: 90 * day},
		Notices:     []int64{30 * day, 14 * day, 7 * day},
		EvidenceAge: 24 * hour,
		Discrepancy: 90 * day,
		Tiers: []Threshold{
			{Tier: claim.TierAnonymous, Term: 30 * day},
			{Tier: claim.TierIdentified, Term: 365 * day, ContactHours: 24},
			{Tier: claim.TierAttested, Term: 90 * day, RecordDays: 30, MinLeases: 10, MinCompletion: 980, ContactHours: 4},
			{Tier: claim.TierAttestedFacility, Term: 90 * day, RecordDays: 30, MinLeases: 10, MinCompletion: 980, ContactHours: 1, Witnesses: 2, Auditors: 2},
		},
	}
}

// Validate checks parameters alone.
func (p Parameters) Validate() error {
	if p.Type != ParametersType {
		return fmt.Errorf("rules: type %.80q is not known to this build, want %q", p.Type, ParametersType)
	}
	for _, span := range []int64{
		p.Grace.TCB, p.Grace.Exploited, p.Grace.RIM, p.Grace.Audit, p.Grace.RMA, p.Grace.Suspension, p.Grace.Review,
		p.Terms.Draft, p.Terms.Submitted, p.Terms.InReview, p.Terms.Appeal, p.Terms.Triage, p.Terms.Ruling, p.Terms.Device, p.EvidenceAge, p.Discrepancy,
	} {
		if span <= 0 || span > MaxParameter {
			return fmt.Errorf("rules: a span of %d s, want 1 to %d: no state is without a deadline", span, int64(MaxParameter))
		}
	}
	if len(p.Notices) > MaxNotices || len(p.Exploited) > MaxAdvisories || len(p.Tiers) != len(claim.Tiers) {
		return fmt.Errorf("rules: %d notices, %d advisories, %d tiers: want at most %d, at most %d, and %d", len(p.Notices), len(p.Exploited), len(p.Tiers), MaxNotices, MaxAdvisories, len(claim.Tiers))
	}
	for i, n := range p.Notices {
		if n <= 0 || n > MaxParameter || i > 0 && p.Notices[i-1] <= n {
			return fmt.Errorf("rules: notices are not in order, the longest first")
		}
	}
	for i, a := range p.Exploited {
		if a == "" || len(a) > MaxID || i > 0 && p.Exploited[i-1] >= a {
			return fmt.Errorf("rules: advisory %.80q is not in order, each once", a)
		}
	}
	for i, t := range p.Tiers {
		if t.Tier != claim.Tiers[i] {
			return fmt.Errorf("rules: tier %.80q where %s is due", t.Tier, claim.Tiers[i])
		}
		if t.Term <= 0 || t.Term > MaxParameter || t.MinCompletion < 0 || t.MinCompletion > 1000 || t.MinUptime < 0 || t.MinUptime > 1000 ||
			t.RecordDays < 0 || t.MinLeases < 0 || t.ContactHours < 0 || t.Witnesses < 0 || t.Auditors < 0 {
			return fmt.Errorf("rules: tier %s: a number out of range", t.Tier)
		}
		if (t.Auditors > 0) != (t.Tier == claim.TierAttestedFacility) { // left out, it would ask for nobody
			return fmt.Errorf("rules: tier %s: auditors %d: want 1 or more of %s, and none of another tier", t.Tier, t.Auditors, claim.TierAttestedFacility)
		}
	}
	return nil
}

// ParseParameters reads the canonical bytes of parameters.
func ParseParameters(data []byte) (Parameters, error) {
	var p Parameters
	if len(data) > MaxBody {
		return p, fmt.Errorf("rules: %d bytes, at most %d", len(data), MaxBody)
	}
	if err := canon.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("rules: %w", err)
	}
	return p, p.Validate()
}

// History is the operator's parameters in the order of the log. The zero History has the defaults. It is filled before it is
// asked; asking changes nothing.
type History struct{ all []Parameters }

// Add takes an entry of kind rules/v1. Parameters that would change what was decided already are refused.
func (h *History) Add(e ledger.Event) error {
	if e.Entry.Kind != ledger.KindRules {
		return fmt.Errorf("rules: %s is none", e.Entry.Kind)
	}
	p, err := ParseParameters(e.Body)
	if err != nil {
		return err
	}
	if p.Effective < e.Entry.Time {
		return fmt.Errorf("rules: effective %s, before the entry of %s", p.Effective, e.Entry.Time)
	}
	h.all = append(h.all, p)
	return nil
}

// At returns the parameters of a time: of those in effect, the ones that took effect last.
func (h *History) At(at canon.Time) Parameters {
	best := -1
	for i, p := range h.all {
		if p.Effective <= at && (best < 0 || p.Effective >= h.all[best].Effective) {
			best = i
		}
	}
	if best < 0 {
		return Defaults()
	}
	return h.all[best]
}

// threshold returns what a tier asks.
func (p Parameters) threshold(tier string) Threshold {
	return p.Tiers[slices.Index(claim.Tiers, tier)]
}
