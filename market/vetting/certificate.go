package vetting

import (
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// States of a certificate. A rejected or revoked one can be appealed against for a time, and is then at its end; a lapsed one
// is at its end.
const (
	Draft     = "draft"
	Submitted = "submitted"
	InReview  = "in-review"
	Certified = "certified"
	Renewing  = "renewing"  // and certified
	Suspended = "suspended" // hidden from those who look for machines; the certificate stands
	Revoked   = "revoked"
	Lapsed    = "lapsed"
	Rejected  = "rejected"
)

// Terminal lists the states that have no deadline, or may have none.
var Terminal = []string{Lapsed, Rejected, Revoked}

// Why a certificate is in its state, beside the codes of findings and revocations.
const (
	ReasonDrafted     = "drafted"
	ReasonSubmitted   = "submitted"
	ReasonAssigned    = "assigned"
	ReasonPassed      = "passed"
	ReasonAbandoned   = "abandoned"    // a draft that nobody submitted
	ReasonNotReviewed = "not-reviewed" // nobody looked in time: no fault of the provider's
	ReasonAssessed    = "assessed"     // weighed, and nothing changed
	ReasonUpgraded    = "upgraded"     // weighed, and it carries more
	ReasonDowngraded  = "downgraded"   // weighed, and it carries less
	ReasonGraceOver   = "grace-over"   // a fault outlasted its clock
	ReasonCleared     = "cleared"      // what suspended it is gone
	ReasonEdited      = "edited"       // an attribute waits for an issuer
	ReasonRenewing    = "renewing"     // another term, or another tier, was asked for
	ReasonRenewed     = "renewed"      // and given
	ReasonExpired     = "expired"      // its term ended
	ReasonWindow      = "maintenance"  // announced
	ReasonNoticed     = "noticed"      // somebody was told of an end
	ReasonEnded       = "ended"        // by the provider
	ReasonAppealed    = "appealed"     // filed
	ReasonTriaged     = "triaged"      // somebody rules on it
	ReasonOverdue     = "triage-overdue"
	ReasonUpheld      = "appeal-upheld" // the decision stands
	ReasonOverturned  = "appeal-overturned"
	ReasonUnruled     = "appeal-unruled" // nobody ruled: the decision stands, since nobody was shown that it is wrong
	ReasonFinal       = "appeal-window-over"
	ReasonProposed    = "freeze-proposed"    // by one officer
	ReasonUnconfirmed = "freeze-unconfirmed" // no second one said so in time
)

// Clock is a fault that is known, and how long it may last.
type Clock struct {
	Code  string     `json:"code"`
	Since canon.Time `json:"since"`
	Due   canon.Time `json:"due"`
	Over  bool       `json:"over,omitzero"` // it lasted longer
}

// Spent is what is left of a grace whose fault is gone: who mends something for a day has no new grace the day after.
type Spent struct {
	Code  string     `json:"code"`
	Left  int64      `json:"left"`  // seconds that the fault may still last
	Until canon.Time `json:"until"` // first instant at which it is forgotten: it was gone for as long as the grace is
}

// Proposal is a freeze that one officer wants: a second one makes it so.
type Proposal struct {
	By       string       `json:"by"`
	Evidence canon.Digest `json:"evidence,omitzero"`
	At       canon.Time   `json:"at"`
	Until    canon.Time   `json:"until"` // first instant at which nobody can confirm it any more
}

// Appeal is a provider's against a decision.
type Appeal struct {
	By       string       `json:"by,omitzero"` // who filed it
	Filed    canon.Time   `json:"filed,omitzero"`
	Evidence canon.Digest `json:"evidence,omitzero"`
	Triaged  canon.Time   `json:"triaged,omitzero"` // or the time when that was overdue
	Reviewer string       `json:"reviewer,omitzero"`
}

// Certificate is the state of one certificate. Its bytes are canonical JSON.
type Certificate struct {
	ID         string      `json:"id"`
	Place      Place       `json:"place"`
	Asked      string      `json:"asked"`            // tier that was asked for last
	Granted    string      `json:"granted,omitzero"` // tier that a reviewer granted: it stands in none above, whatever counts
	Status     string      `json:"status"`
	Reason     string      `json:"reason"`
	Tier       string      `json:"tier,omitzero"` // in which it stands, clocks that are over counted
	Assertions []Assertion `json:"assertions,omitzero"`
	Standing   Standing    `json:"standing,omitzero"` // as weighed last
	Clocks     []Clock     `json:"clocks,omitzero"`   // ordered by code
	Spent      []Spent     `json:"spent,omitzero"`    // ordered by code
	Windows    []Window    `json:"windows,omitzero"`  // ordered by beginning
	Since      canon.Time  `json:"since"`             // of the status
	Updated    canon.Time  `json:"updated"`           // latest time of an event
	Expires    canon.Time  `json:"expires,omitzero"`  // first instant after the term
	Deadline   canon.Time  `json:"deadline,omitzero"` // of the status itself
	Noticed    canon.Time  `json:"noticed,omitzero"`  // up to which instant notices of ends are given
	Submitter  string      `json:"submitter,omitzero"`
	Reviewer   string      `json:"reviewer,omitzero"`
	Decided    string      `json:"decided,omitzero"` // who decided against it; verifier: nobody, a rule did
	Against    string      `json:"against,omitzero"` // the code for which it was decided so, whatever became of an appeal
	Was        string      `json:"was,omitzero"`     // status before that, or before it was suspended
	Tainted    canon.Time  `json:"tainted,omitzero"` // of a revocation: first instant that is tainted
	Appeal     Appeal      `json:"appeal,omitzero"`
	Overruled  []Finding   `json:"overruled,omitzero"` // that an appeal has overruled, until they are gone
	Watched    canon.Time  `json:"watched,omitzero"`   // since when it is weighed without a break; zero: since it was given
	Proposed   Proposal    `json:"proposed,omitzero"`  // a freeze that waits for a second officer
}

// Apart returns who decides by an act on the certificate at a time, and of whom that must be somebody else: who asked for what is
// reviewed, proposed what is confirmed, or decided what is appealed against. The life cycle compares names; that two names are
// two people is for whoever gives them out to know.
func (c Certificate) Apart(a Act, at canon.Time) (who string, others []string) {
	switch a.Act {
	case ActAssign:
		return a.Reviewer, []string{c.Submitter}
	case ActPass, ActFail:
		return a.By, []string{c.Submitter}
	case ActFreeze:
		if c.Proposed.By != "" && at < c.Proposed.Until {
			return a.By, []string{c.Proposed.By}
		}
	case ActTriage:
		return a.Reviewer, []string{c.Decided, c.Reviewer, c.Submitter, c.Appeal.By}
	case ActRule:
		return a.By, []string{c.Decided, c.Reviewer, c.Submitter, c.Appeal.By}
	}
	return "", nil
}

// Stood reports whether the certificate was given once, whatever became of it.
func (c Certificate) Stood() bool { return c.Granted != "" }

// Public returns what a renter is told of the certificate at a time: how it stands or stood, by whose word, and since when. Words
// that have lapsed since it was weighed are said to have. Whose chips and hosts these are and who asked, reviewed and appealed is
// left out.
func (c Certificate) Public(at canon.Time) Certificate {
	public := Certificate{
		ID: c.ID, Place: Place{Provider: c.Place.Provider, Site: c.Place.Site}, Asked: c.Asked, Granted: c.Granted, Status: c.Status, Reason: c.Reason, Tier: c.Tier,
		Standing: c.Standing, Clocks: c.Clocks, Windows: c.Windows, Since: c.Since, Updated: c.Updated, Expires: c.Expires, Deadline: c.Deadline, Against: c.Against, Tainted: c.Tainted,
	}
	public.Standing.Attributes = nil
	for _, a := range c.Standing.Attributes {
		if a.Subject.Kind == UnitHost || a.Subject.Kind == UnitDevice {
			a.Subject.ID = ""
		}
		a.Words = slices.Clone(a.Words)
		for i := range a.Words {
			if w := &a.Words[i]; w.Code == "" && w.Until <= at {
				w.Code = codeLapsed
			}
		}
		if len(a.Words) > 0 {
			a.conclude()
		}
		public.Standing.Attributes = append(public.Standing.Attributes, a)
	}
	public.Standing.Findings = nil
	for _, f := range c.Standing.Findings {
		if f.Code == FindingContested || f.Code == FindingUnitRevoked || f.Code == FindingRMA {
			f.About = ""
		}
		public.Standing.Findings = append(public.Standing.Findings, f)
	}
	return public
}

// Names reports whether a word of the certificate is the claim of a digest.
func (c Certificate) Names(claim canon.Digest) bool {
	return slices.ContainsFunc(c.Standing.Attributes, func(a Attribute) bool {
		return slices.ContainsFunc(a.Words, func(w Word) bool { return w.Digest == claim })
	})
}

// Canonical returns the bytes of the state.
func (c Certificate) Canonical() ([]byte, error) { return canon.Marshal(c) }

// ParseCertificate reads the bytes of a state.
func ParseCertificate(data []byte) (c Certificate, err error) {
	if err = canon.Unmarshal(data, &c); err != nil {
		err = fmt.Errorf("certificate: %w", err)
	}
	return c, err
}

// Live reports whether the certificate stands: certified, renewing or suspended.
func (c Certificate) Live() bool {
	return c.Status == Certified || c.Status == Renewing || c.Status == Suspended
}

// Eligible reports whether the machine may be given work at a time, as far as the certificate is concerned: it stands, is not
// suspended and not under maintenance. A policy decides the rest.
func (c Certificate) Eligible(at canon.Time) bool {
	return (c.Status == Certified || c.Status == Renewing) && c.Tier != "" && at < c.Expires && at < c.Standing.Until && !c.inWindow(at)
}

func (c Certificate) inWindow(at canon.Time) bool {
	return slices.ContainsFunc(c.Windows, func(w Window) bool { return w.covers(at) })
}

// PartyClaims returns what the certificate says of the party, for [policy.Decide] beside the claims of the appraisal. The tier
// is unknown while the certificate is suspended, and without one that stands.
func (c Certificate) PartyClaims() claim.Set {
	why := claim.Reason("")
	switch {
	case c.Status == Suspended:
		why = claim.Because(Suspended, "the certificate is suspended: %s", c.Reason)
	case !c.Live():
		why = claim.Because(claim.Lapsed, "no certificate of the provider stands: %s, %s", c.Status, c.Reason)
	}
	return c.Standing.partyClaims(c.Tier, why, c.Place.Provider, min(c.Expires, c.Standing.Until)-1)
}

// BadgeNone is what stands in the place of a badge where nothing was ever logged.
const BadgeNone = "no certificate in log"

// Badge returns what may be shown of a certificate at a time: the tier in which it stands, else its state. It is drawn of the
// state that the log folds to, never of a ticket.
func (c Certificate) Badge(at canon.Time) string {
	switch {
	case c.Status == "":
		return BadgeNone
	case (c.Status == Certified || c.Status == Renewing) && at < c.Expires:
		return c.Tier
	case c.Live() && at >= c.Expires:
		return Lapsed
	}
	return c.Status
}
