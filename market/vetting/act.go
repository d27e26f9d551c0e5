package vetting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ActType is the type of an event of a certificate.
const ActType = "assay/certificate/v1"

// What can happen to a certificate.
const (
	ActDraft  = "draft"  // begun, for a place and a tier
	ActSubmit = "submit" // the provider asks for it
	ActAssign = "assign" // a reviewer takes it
	ActPass   = "pass"   // the reviewer is satisfied
	ActFail   = "fail"   // the reviewer is not
	ActAssess = "assess" // what counts was weighed anew
	ActEdit   = "edit"   // the provider says something else of one attribute
	ActRenew  = "renew"  // the provider asks for another term
	ActWindow = "window" // maintenance is announced
	ActFreeze = "freeze" // an officer proposes to stop it, and a second one does
	ActRevoke = "revoke" // the operator revokes it
	ActAppeal = "appeal" // the provider disagrees, with new evidence
	ActTriage = "triage" // somebody is named who rules
	ActRule   = "rule"   // and does
	ActEnd    = "end"    // the provider ends it
	ActDue    = "due"    // time passed
)

// Act is one event of a certificate. Of the members behind By an act has those that its name wants.
type Act struct {
	Type        string       `json:"type"`
	Certificate string       `json:"certificate"`
	Act         string       `json:"act"`
	By          string       `json:"by,omitzero"`         // user:NAME or token:ID; of due and assess: nobody
	Place       Place        `json:"place,omitzero"`      // draft
	Tier        string       `json:"tier,omitzero"`       // draft, renew: that is asked for
	Assertions  []Assertion  `json:"assertions,omitzero"` // draft: all; edit: those that change. Ordered
	Reviewer    string       `json:"reviewer,omitzero"`   // assign, triage: who is named
	Code        string       `json:"code,omitzero"`       // fail, revoke: why
	Evidence    canon.Digest `json:"evidence,omitzero"`   // revoke, freeze, appeal: of what shows it
	Since       canon.Time   `json:"since,omitzero"`      // revoke: first instant that is tainted
	Upheld      bool         `json:"upheld,omitzero"`     // rule: the decision stands
	Reason      string       `json:"reason,omitzero"`     // rule, window: in a sentence
	Window      Window       `json:"window,omitzero"`     // window
	Standing    Standing     `json:"standing,omitzero"`   // assess, pass; of one that is live also edit and due: what counts at the time of the entry
}

// Window is a time of maintenance. It is announced before it begins; uptime is not counted inside it.
type Window struct {
	From  canon.Time `json:"from"`
	Until canon.Time `json:"until"` // first instant after it
}

func (w Window) covers(at canon.Time) bool { return w.From <= at && at < w.Until }

// ParseAct reads the canonical bytes of an event.
func ParseAct(data []byte) (Act, error) {
	var a Act
	if len(data) > MaxBody {
		return a, fmt.Errorf("certificate: %d bytes, at most %d", len(data), MaxBody)
	}
	if err := canon.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("certificate: %w", err)
	}
	return a, a.Validate()
}

// members of an act, for [Act.Validate].
const (
	hasPlace = 1 << iota
	hasTier
	hasAssertions
	hasReviewer
	hasCode
	hasEvidence
	hasSince
	hasReason
	hasWindow
	hasStanding
	hasBy
)

// Why a reviewer is not satisfied, beside what a place or a unit can be found to be.
const (
	FailedRegister   = "no-register-entry"   // no register knows the legal entity
	FailedUnreadable = "register-unreadable" // what was handed in cannot be read
)

// FailedFor lists why a reviewer may fail a certificate.
var FailedFor = []string{FailedRegister, FailedUnreadable, FindingLocation, FindingMismatch, RevokedFinding, RevokedForged}

var wants = map[string]struct{ must, may int }{
	ActDraft:  {hasBy | hasPlace | hasTier, hasAssertions},
	ActSubmit: {hasBy, 0},
	ActAssign: {hasBy | hasReviewer, 0},
	ActPass:   {hasBy | hasStanding, 0},
	ActFail:   {hasBy | hasCode, hasReason},
	ActAssess: {hasStanding, hasBy},
	ActEdit:   {hasBy | hasAssertions, hasStanding},
	ActRenew:  {hasBy, hasTier},
	ActWindow: {hasBy | hasWindow | hasReason, 0},
	ActFreeze: {hasBy, hasEvidence},
	ActRevoke: {hasBy | hasCode | hasEvidence | hasSince, 0},
	ActAppeal: {hasBy | hasEvidence, hasReason},
	ActTriage: {hasBy | hasReviewer, 0},
	ActRule:   {hasBy | hasReason, hasEvidence},
	ActEnd:    {hasBy, hasReason},
	ActDue:    {0, hasStanding},
}

// Validate checks an act alone: it has the members that its name wants, and no other.
func (a Act) Validate() error {
	want, known := wants[a.Act]
	if !known || a.Type != ActType {
		return fmt.Errorf("certificate: act %.80q of type %.80q is not known to this build, want type %q", a.Act, a.Type, ActType)
	}
	if len(a.Certificate) > MaxID || !hostForm.MatchString(a.Certificate) {
		return fmt.Errorf("certificate: id %.80q: want up to %d letters, digits, dots, hyphens", a.Certificate, MaxID)
	}
	has := 0
	for _, m := range []struct {
		there bool
		bit   int
	}{
		{a.Place.Provider != "" || a.Place.Site != "" || a.Place.Host != "" || a.Place.Devices != nil, hasPlace}, {a.Tier != "", hasTier},
		{a.Assertions != nil, hasAssertions}, {a.Reviewer != "", hasReviewer}, {a.Code != "", hasCode},
		{!a.Evidence.IsZero(), hasEvidence}, {a.Since != 0, hasSince}, {a.Reason != "", hasReason}, {a.Window != Window{}, hasWindow},
		{a.Standing.At != 0, hasStanding}, {a.By != "", hasBy},
	} {
		if m.there {
			has |= m.bit
		}
	}
	if has&want.must != want.must || has&^(want.must|want.may) != 0 || a.Upheld && a.Act != ActRule {
		return fmt.Errorf("certificate: act %s: it lacks members, or has some that it cannot have", a.Act)
	}
	if len(a.By) > MaxPrincipal || len(a.Reviewer) > MaxPrincipal || len(a.Code) > MaxID || len(a.Reason) > MaxValue {
		return fmt.Errorf("certificate: act %s: a principal of more than %d bytes, a code of more than %d, or a reason of more than %d", a.Act, MaxPrincipal, MaxID, MaxValue)
	}
	if has&hasPlace != 0 {
		if err := a.Place.Validate(); err != nil {
			return err
		}
	}
	if len(a.Assertions) > MaxAssertions {
		return fmt.Errorf("certificate: %d assertions, at most %d", len(a.Assertions), MaxAssertions)
	}
	for i, x := range a.Assertions {
		if err := x.Validate(); err != nil {
			return fmt.Errorf("certificate: assertion %d: %w", i, err)
		}
		if i > 0 && a.Assertions[i-1].compare(x) >= 0 {
			return fmt.Errorf("certificate: assertion %d is not in order, each once", i)
		}
	}
	switch a.Act {
	case ActFail:
		if !slices.Contains(FailedFor, a.Code) {
			return fmt.Errorf("certificate: code %.80q: want one of %s", a.Code, strings.Join(FailedFor, ", "))
		}
	case ActRevoke:
		if !slices.Contains(RevokedFor, a.Code) {
			return fmt.Errorf("certificate: reason %.80q: want one of %s", a.Code, strings.Join(RevokedFor, ", "))
		}
	case ActWindow:
		if a.Window.From <= 0 || a.Window.Until <= a.Window.From || int64(a.Window.Until-a.Window.From) > MaxWindow {
			return fmt.Errorf("certificate: a window from %s to %s: want an end after its beginning, and at most %d days", a.Window.From, a.Window.Until, MaxWindow/day)
		}
	}
	if has&hasStanding != 0 {
		return a.Standing.Validate()
	}
	return nil
}

// NoticeType is the type of what somebody is told: it changes no state.
const NoticeType = "assay/notice/v1"

// What somebody is told.
const (
	NoticeEnds       = "ends"               // a certificate or a claim in it ends soon
	NoticeState      = "state"              // a certificate is in another state
	NoticeTier       = "tier"               // or in another tier
	NoticeClock      = "clock"              // a fault was found, and until when it may last
	NoticeTriage     = "triage-overdue"     // nobody was named in time who rules on an appeal
	NoticeUnruled    = "appeal-unruled"     // nobody ruled in time
	NoticeContested  = "device-contested"   // a second host shows the identity of a device
	NoticeDeviceMove = "device-transferred" // it is another host's by now
)

// Notice is what a provider is told.
type Notice struct {
	Type        string     `json:"type"`
	Notice      string     `json:"notice"`
	Certificate string     `json:"certificate,omitzero"`
	Device      string     `json:"device,omitzero"`
	About       string     `json:"about"`        // what it is about: a code, a claim, a host
	At          canon.Time `json:"at"`           // of what it is about
	Due         canon.Time `json:"due,omitzero"` // until when something can be done
}

func (n Notice) draft(provider string) ledger.Draft {
	n.Type = NoticeType
	body, err := canon.Marshal(n)
	if err != nil {
		panic("vetting: internal error: " + err.Error())
	}
	return ledger.Draft{Kind: ledger.KindCertificate, Stream: ledger.ProviderStream(provider), Body: body, Refs: []canon.Digest{}}
}
