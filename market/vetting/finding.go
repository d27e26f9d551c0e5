package vetting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// What can be wrong with a place, beside claims that do not count.
const (
	FindingTCB         = "tcb-out-of-date"        // the vendor has a newer level of firmware
	FindingExploited   = "tcb-exploited"          // and attacks on this one are known
	FindingRIM         = "rim-missing"            // the vendor has published no manifest of the firmware that runs
	FindingAudit       = "facility-audit-lapsed"  // the audit report of the site is out of date
	FindingRMA         = "device-replaced"        // a device went back to its maker, another one came
	FindingHeartbeat   = "heartbeat-missed"       // the host does not answer
	FindingStale       = "evidence-stale"         // its last evidence is too old
	FindingCollateral  = "collateral-unreachable" // a vendor's service does not answer: nobody's fault here
	FindingHold        = "certificate-hold"       // a certificate is suspended by its maker
	FindingOverdue     = "assessment-overdue"     // time has changed what counts, and nobody has looked
	FindingNoTier      = "no-tier"                // nothing is left on which a tier could stand
	FindingContested   = "contested"              // it shows an identity that another host holds
	FindingMismatch    = "measurement-mismatch"   // what was measured is not what is listed, and nobody knows why
	FindingLocation    = "location-contradicted"  // it cannot be where it is said to be
	FindingFrozen      = "frozen"                 // two officers stopped it
	FindingChain       = "chain-failed"           // its evidence is not of a genuine device
	FindingVendor      = "vendor-revoked"         // a maker revoked a certificate, for good
	FindingDebug       = "debug-on"               // memory can be read through debug interfaces
	FindingDuplicate   = "duplicate-device"       // one identity twice in one bundle
	FindingUnitRevoked = "unit-revoked"           // the operator revoked a unit that the place is or is part of
)

// effect says what a finding does.
type effect struct {
	grace     func(g Grace) int64 // how long it may last; nil: not at all
	suspends  bool                // while it lasts, the certificate is hidden
	atRest    bool                // of a host that is silent: not counted inside a maintenance window, nor while nobody weighed
	cap       string              // when its grace is over: the highest tier that is left
	then      string              // or the state in which the certificate ends
	automatic bool                // found anew by each assessment, and gone when one does not find it
	blameless bool                // nobody holds it against the provider: a term goes on over it
}

// mends reports whether the fault is one to mend while it costs nothing yet: of such a grace what is left is remembered.
func (e effect) mends() bool { return e.grace != nil && e.cap != "" && !e.suspends }

// effects are the downgrade triggers (users' study, section 3). (a) at once: revoked; (b) a grace clock, and then the tier that is left;
// (c) suspended, which clears itself; (d) suspended until somebody has looked.
var effects = map[string]effect{
	FindingTCB:         {grace: func(g Grace) int64 { return g.TCB }, cap: claim.TierIdentified, automatic: true},
	FindingExploited:   {grace: func(g Grace) int64 { return g.Exploited }, cap: claim.TierIdentified, automatic: true},
	FindingRIM:         {grace: func(g Grace) int64 { return g.RIM }, cap: claim.TierIdentified, automatic: true},
	FindingAudit:       {grace: func(g Grace) int64 { return g.Audit }, cap: claim.TierAttested, automatic: true},
	FindingRMA:         {grace: func(g Grace) int64 { return g.RMA }, cap: claim.TierIdentified, automatic: true},
	FindingHeartbeat:   {grace: suspension, suspends: true, atRest: true, then: Lapsed, automatic: true},
	FindingStale:       {grace: suspension, suspends: true, atRest: true, cap: claim.TierIdentified, automatic: true},
	FindingCollateral:  {grace: suspension, suspends: true, cap: claim.TierIdentified, automatic: true, blameless: true},
	FindingHold:        {grace: suspension, suspends: true, cap: claim.TierIdentified, automatic: true},
	FindingOverdue:     {grace: suspension, suspends: true, then: Lapsed},
	FindingNoTier:      {grace: suspension, suspends: true, then: Lapsed, automatic: true},
	FindingContested:   {grace: review, suspends: true, then: Lapsed, automatic: true},
	FindingMismatch:    {grace: review, suspends: true, then: Revoked, automatic: true},
	FindingLocation:    {grace: review, suspends: true, then: Revoked, automatic: true},
	FindingFrozen:      {grace: review, suspends: true, then: Certified, blameless: true},
	FindingChain:       {then: Revoked, automatic: true},
	FindingVendor:      {then: Revoked, automatic: true},
	FindingDebug:       {then: Revoked, automatic: true},
	FindingDuplicate:   {then: Revoked, automatic: true},
	FindingUnitRevoked: {then: Revoked, automatic: true},
}

func suspension(g Grace) int64 { return g.Suspension }
func review(g Grace) int64     { return g.Review }

// Finding is one thing that is wrong.
type Finding struct {
	Code  string     `json:"code"`
	Since canon.Time `json:"since,omitzero"` // when it began, where that is known: its clock runs from then
	About string     `json:"about,omitzero"` // what it was found on: all of it, parted by commas
}

const parted = ", "

// within reports whether all that a finding was found on is among what another one was found on.
func (f Finding) within(o Finding) bool {
	if f.Code != o.Code {
		return false
	}
	of := strings.Split(o.About, parted)
	return !slices.ContainsFunc(strings.Split(f.About, parted), func(x string) bool { return !slices.Contains(of, x) })
}

// Graceful reports how long a fault of this code may last before it costs something; zero: not at all.
func (p Parameters) Graceful(code string) int64 {
	if e := effects[code]; e.grace != nil {
		return e.grace(p.Grace)
	}
	return 0
}

// Levels of the hardware axis, least first: H0 to H3.
const (
	HardwareNone     = "self-reported"
	HardwareMeasured = "measured" // a benchmark; never attested
	HardwareCPU      = "cpu"      // a confidential CPU
	HardwareGPU      = "gpu"      // a confidential CPU, and confidential GPUs
)

// HardwareLevels lists the levels.
var HardwareLevels = []string{HardwareNone, HardwareMeasured, HardwareCPU, HardwareGPU}

// Hardware is what the last appraisal of a host showed.
type Hardware struct {
	Level    string       `json:"level"`
	At       canon.Time   `json:"at,omitzero"`       // of the evidence
	Evidence canon.Digest `json:"evidence,omitzero"` // body of the appraisal
	Findings []Finding    `json:"findings,omitzero"` // faults that a grace clock lets pass for a time, and those that none does
}

// ReadHardware reads the claims of an appraisal of a time: the level is that of the strictest confidential policy that accepts
// them, or would, were it not for faults that have a grace clock or clear themselves. It trusts that the claims are those of
// an appraisal that somebody checked.
func ReadHardware(claims claim.Set, at canon.Time, p Parameters) Hardware {
	h := Hardware{Level: HardwareNone, At: at}
	var graver []Finding // that the stricter policy has: a device that is no device is no less so where the others would do
	for _, of := range []struct{ policy, level string }{{"confidential-gpu", HardwareGPU}, {"confidential-cpu", HardwareCPU}} {
		built, ok := policy.Builtin(of.policy)
		if !ok {
			panic("vetting: internal error: no policy " + of.policy)
		}
		v := policy.Decide(claims, built, at)
		findings, graceful := read(v.Reasons, claims, p)
		if v.Outcome == policy.Accept || graceful {
			h.Level, h.Findings = of.level, together(findings, graver)
			return h
		}
		// Of devices that the weaker policy does not ask for nobody claims that their debug interfaces are off.
		for _, f := range findings {
			if effects[f.Code].then != "" && f.Code != FindingDebug {
				graver = append(graver, f)
			}
		}
		h.Findings = together(findings, graver) // of the weaker policy, if neither accepts
	}
	// Where the host is not confidential at all, only what ends a certificate is of interest: the rest is why it has no level.
	h.Findings = slices.DeleteFunc(h.Findings, func(f Finding) bool { return effects[f.Code].grace != nil })
	return h
}

// together adds findings to others that have none of the same code, in order.
func together(findings, more []Finding) []Finding {
	for _, f := range more {
		if !slices.ContainsFunc(findings, func(o Finding) bool { return o.Code == f.Code }) {
			findings = append(findings, f)
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Code, b.Code) })
	return findings
}

// read turns the reasons of a verdict into findings, and reports whether that leaves no reason.
func read(reasons []policy.Reason, claims claim.Set, p Parameters) (findings []Finding, graceful bool) {
	graceful = true
	for _, r := range reasons {
		code := findingOf(r, claims, p)
		if code == "" || effects[code].grace == nil {
			graceful = false
		}
		if code == "" {
			continue
		}
		about := r.Claim + "@" + r.Subject
		if i := slices.IndexFunc(findings, func(f Finding) bool { return f.Code == code }); i >= 0 {
			findings[i].About += parted + about
		} else {
			findings = append(findings, Finding{Code: code, About: about})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Code, b.Code) })
	return findings, graceful
}

// findingOf returns the finding that a reason is, or nothing.
func findingOf(r policy.Reason, claims claim.Set, p Parameters) string {
	_, why, _ := strings.Cut(r.Code, ".")
	_, what, _ := strings.Cut(r.Claim, ".")
	contradicted := r.Status == claim.Contradicted
	switch {
	case why == "floor" && slices.Contains([]string{"tcb", "committed-tcb", "launch-tcb"}, what), r.Claim == "tdx.tcb-status" && why == "value":
		if a := claims.Find("tdx.advisories", r.Subject); a != nil && slices.ContainsFunc(strings.Fields(a.Value), func(w string) bool { return slices.Contains(p.Exploited, w) }) {
			return FindingExploited
		}
		return FindingTCB
	case why == "certificate-hold":
		return FindingHold
	case r.Claim == "tdx.tcb-status" && contradicted && why != "revoked": // older than any level that Intel names
		return FindingTCB
	case what == "revocation" && contradicted, r.Claim == "tdx.tcb-status" && contradicted:
		return FindingVendor
	case (what == "chain" || what == "signature") && contradicted:
		return FindingChain
	case (what == "debug-off" || what == "devtools-off") && contradicted:
		return FindingDebug
	case r.Claim == "set.device-unique" && why == claim.Contested:
		return FindingContested
	case r.Claim == "set.device-unique" && why == claim.NotListed: // it is shown once, by a node that was enrolled with others
		return FindingRMA
	case r.Claim == "set.device-unique" && contradicted:
		return FindingDuplicate
	case strings.HasSuffix(what, "measurements") && contradicted, what == "measured" && contradicted:
		return FindingMismatch
	case (what == "driver-rim" || what == "vbios-rim") && why == claim.CollateralMissing:
		return FindingRIM
	case !contradicted && (why == claim.CollateralMissing || why == claim.CollateralRefused):
		return FindingCollateral
	}
	return ""
}

// Record is what the operator counted of a provider's work. It counts; it never judges.
type Record struct {
	Days       int64 `json:"days,omitzero"`       // since the first heartbeat
	Uptime     int64 `json:"uptime,omitzero"`     // permille, maintenance windows apart, see [Uptime]
	Leases     int64 `json:"leases,omitzero"`     // that ended
	Completion int64 `json:"completion,omitzero"` // permille of them that were completed
}

// Observed is what the verifier and the operator know of a place themselves.
type Observed struct {
	Hardware     Hardware   `json:"hardware,omitzero"`
	Measured     int64      `json:"measured,omitzero"`    // score that benchmarks credit the host with, see market/capacity
	MeasuredAt   canon.Time `json:"measured_at,omitzero"` // start of the one that it rests on
	Stake        bool       `json:"stake,omitzero"`       // the provider's key has one
	Record       Record     `json:"record,omitzero"`
	ContactHours int64      `json:"contact_hours,omitzero"` // within which the incident contact answered; zero: there is none
	Witnesses    int64      `json:"witnesses,omitzero"`     // that cosigned the log's newest checkpoint
	Quorum       bool       `json:"quorum,omitzero"`        // and they are a quorum
	Contested    []string   `json:"contested,omitzero"`     // devices of the place that another host holds, ordered
	Answered     canon.Time `json:"answered,omitzero"`      // of the host's last evidence, by its entry; zero: it never sent any
	Shown        []string   `json:"shown,omitzero"`         // devices that the host showed last, ordered; absent: none, or those of the place
}

// Others returns, of the devices that a host showed last, ordered, what an observation names: nothing where they are those of
// the place.
func (p Place) Others(shown []string) []string {
	if slices.EqualFunc(p.Devices, shown, func(d Device, id string) bool { return d.ID == id }) {
		return nil
	}
	return shown
}

// class is what a device is good for in a host: one of a class can stand in for another one.
func class(device string) string {
	kind, _, _ := strings.Cut(device, ":")
	maker, _, _ := strings.Cut(kind, "-")
	if maker == "amd" || maker == "intel" {
		return "cpu"
	}
	return maker
}

// replaced finds devices that a host shows in place of others of their class: one that is gone, and another one that the place
// does not name. What is gone alone may be a device that failed once, and what came alone takes nothing from the others.
func (p Place) replaced(shown []string) (f Finding, found bool) {
	var about []string
	for _, id := range shown {
		if slices.ContainsFunc(p.Devices, func(d Device) bool { return d.ID == id }) {
			continue
		}
		for _, d := range p.Devices {
			if class(d.ID) == class(id) && !slices.Contains(shown, d.ID) {
				about = append(about, id)
				break
			}
		}
	}
	return Finding{Code: FindingRMA, About: strings.Join(about, parted)}, about != nil
}

// Validate checks what was observed alone.
func (o Observed) Validate() error {
	for _, f := range o.Hardware.Findings {
		if e, known := effects[f.Code]; !known || !e.automatic {
			return fmt.Errorf("observed: finding %.80q is not known to this build", f.Code)
		}
	}
	if o.Measured < 0 || (o.Measured > 0) != (o.MeasuredAt > 0) {
		return fmt.Errorf("observed: a score of %d, measured at %s", o.Measured, o.MeasuredAt)
	}
	if o.Answered < 0 || len(o.Shown) > MaxDevices {
		return fmt.Errorf("observed: an answer at %s, %d devices", o.Answered, len(o.Shown))
	}
	for i, id := range o.Shown {
		if err := (Subject{UnitDevice, id}).Validate(); err != nil || i > 0 && o.Shown[i-1] >= id {
			return fmt.Errorf("observed: device %.80q, or it is not in order, each once", id)
		}
	}
	if l := o.Hardware.Level; l != "" && !slices.Contains(HardwareLevels, l) || l == HardwareMeasured {
		return fmt.Errorf("observed: hardware %.80q: no appraisal shows that", l)
	}
	return nil
}
