package vetting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Certify is the life cycle of a certificate: a [ledger.Machine] over entries of kind certificate/v1. Each event is judged by the
// parameters of its own time. What had been due before an event happens first, in its order, so that it does not matter how
// late the clock's events come; a clock that goes back is taken to stand still.
func (h *History) Certify(c Certificate, e ledger.Event) (ledger.Step[Certificate], error) {
	var step ledger.Step[Certificate]
	if e.Entry.Kind != ledger.KindCertificate {
		return step, fmt.Errorf("certificate: %s is no event of one", e.Entry.Kind)
	}
	a, err := ParseAct(e.Body)
	if err != nil {
		return step, err
	}
	r := &run{Certificate: c.clone(), h: h, act: a, now: max(e.Entry.Time, c.Updated)}
	if err := r.fits(e.Entry); err != nil {
		return step, err
	}
	if a.Standing.At != 0 {
		if since := c.Standing.Until; c.Live() && int64(r.now-since) > WatchSlack {
			r.away(since)
		}
		r.Standing = a.Standing
	}
	if c.Status != "" {
		r.pass()
	}
	if err := r.do(); err != nil {
		if errors.Is(err, errNotNow) {
			err = fmt.Errorf("%w: it is %s (%s)", errNotNow, r.Status, r.Reason)
		}
		return step, fmt.Errorf("certificate %s: %s: %w", a.Certificate, a.Act, err)
	}
	r.weigh(r.now)
	r.Updated = r.now
	r.tell(c)
	_, due := r.next()
	if due != 0 && due <= e.Entry.Time {
		due = e.Entry.Time + 1
	}
	return ledger.Step[Certificate]{State: r.Certificate, Status: r.Status, Due: due, Reason: r.Reason, Drafts: r.drafts}, nil
}

func (c Certificate) clone() Certificate {
	c.Assertions, c.Clocks, c.Windows, c.Overruled = slices.Clone(c.Assertions), slices.Clone(c.Clocks), slices.Clone(c.Windows), slices.Clone(c.Overruled)
	c.Spent = slices.Clone(c.Spent)
	return c
}

// run is one event of one certificate.
type run struct {
	Certificate
	h      *History
	act    Act
	now    canon.Time
	drafts []ledger.Draft

	happened bool // something was due
}

func (r *run) fits(e ledger.Entry) error {
	provider := r.Place.Provider
	if r.Status == "" {
		if r.act.Act != ActDraft {
			return fmt.Errorf("certificate %s: %s of what nobody has drafted", r.act.Certificate, r.act.Act)
		}
		provider = r.act.Place.Provider
	} else if r.act.Certificate != r.ID {
		return fmt.Errorf("certificate %s: an event of %.80q", r.ID, r.act.Certificate)
	}
	if want := ledger.ProviderStream(provider); e.Stream != want {
		return fmt.Errorf("certificate %s: an event in stream %.80q, want %q", r.act.Certificate, e.Stream, want)
	}
	if s := r.act.Standing.At; s != 0 && (s > r.now || s < r.Standing.At) {
		return fmt.Errorf("certificate %s: a standing of %s in an event of %s, after one of %s", r.act.Certificate, s, r.now, r.Standing.At)
	}
	return nil
}

// what may be due.
type due uint8

const (
	dueNothing due = iota
	dueDeadline
	dueExpiry
	dueAssessment
	dueNotice
	dueClock
	dueProposal
	dueWindow
)

// next returns what is due next, and when; nothing, if the certificate is at its end.
func (r *run) next() (what due, at canon.Time) {
	consider := func(w due, t canon.Time) {
		if t != 0 && (at == 0 || t < at) {
			what, at = w, t
		}
	}
	consider(dueDeadline, r.Deadline)
	if !r.Live() {
		return what, at
	}
	consider(dueExpiry, r.Expires)
	for _, c := range r.Clocks {
		if !c.Over && !r.stands(c) {
			consider(dueClock, c.Due)
		}
	}
	if r.rested(r.Updated) != nil {
		consider(dueWindow, r.windowEnd(r.Updated))
	}
	if r.clock(FindingOverdue) < 0 {
		consider(dueAssessment, r.Standing.Until)
	}
	consider(dueNotice, r.nextNotice())
	consider(dueProposal, r.Proposed.Until)
	return what, at
}

// pass lets everything happen that was due until now, each at its own time.
func (r *run) pass() {
	for {
		what, at := r.next()
		if what == dueNothing || at > r.now {
			return
		}
		r.happened = true
		q := r.h.At(at)
		switch what {
		case dueDeadline:
			r.deadline(at, q)
		case dueExpiry:
			r.expire(at, q)
		case dueAssessment:
			r.start(Finding{Code: FindingOverdue, Since: at}, at, q)
			r.effect(at)
		case dueNotice:
			r.notice(at)
		case dueClock:
			r.strike(at)
		case dueWindow:
			missed := r.rested(at - 1)
			r.Updated = at
			if !r.inWindow(at) {
				for _, f := range missed {
					r.start(f, at, q)
				}
				r.effect(at)
			}
		case dueProposal:
			r.Proposed, r.Reason = Proposal{}, ReasonUnconfirmed
			r.effect(at)
		}
	}
}

// enter changes the state.
func (r *run) enter(status, reason string, at canon.Time, deadline canon.Time) {
	if r.Status != status {
		r.Since = at
	}
	r.Status, r.Reason, r.Deadline = status, reason, deadline
}

// deadline is what happens when a state's own time is over.
func (r *run) deadline(at canon.Time, q Parameters) {
	switch {
	case r.Status == Draft:
		r.enter(Lapsed, ReasonAbandoned, at, 0)
	case r.Status == Submitted || r.Status == InReview:
		r.enter(Lapsed, ReasonNotReviewed, at, 0)
	case r.Status == Renewing: // the term that stands is not touched by what nobody looked at
		r.enter(Certified, ReasonNotReviewed, at, 0)
	case r.Appeal.Filed == 0:
		r.enter(r.Status, ReasonFinal, at, 0)
	case r.Appeal.Triaged == 0:
		r.Appeal.Triaged = at
		r.drafts = append(r.drafts, Notice{Notice: NoticeTriage, Certificate: r.ID, About: r.Decided, At: at}.draft(r.Place.Provider))
		r.enter(r.Status, ReasonOverdue, at, at+canon.Time(q.Terms.Ruling))
	default:
		r.drafts = append(r.drafts, Notice{Notice: NoticeUnruled, Certificate: r.ID, About: r.Decided, At: at}.draft(r.Place.Provider))
		r.enter(r.Status, ReasonUnruled, at, 0)
	}
}

// renewsItself reports whether a tier's term begins anew as long as what counts carries it: whoever is known by evidence is
// weighed all the time, and whoever is not known has nothing to be weighed.
func renewsItself(tier string) bool {
	return tier == claim.TierAnonymous || tier == claim.TierAttested
}

// expire is the end of a term. Where nobody looked at the site again, what the hardware shows of itself goes on. So it does
// while a vendor's service is away, or two officers have stopped it.
func (r *run) expire(at canon.Time, q Parameters) {
	blamed := slices.ContainsFunc(r.Clocks, func(c Clock) bool {
		e := effects[c.Code]
		return e.suspends && !c.Over && !e.blameless
	})
	goesOn := !blamed && r.Tier != "" && at < r.Standing.Until
	switch {
	case goesOn && renewsItself(r.Granted):
		r.term(at, q)
		r.enter(r.Status, ReasonRenewed, at, r.Deadline)
	case goesOn && r.Granted == claim.TierAttestedFacility:
		r.Granted = claim.TierAttested // and what is asked for can still be granted
		r.term(at, q)
		r.effect(at)
		r.enter(r.Status, ReasonExpired, at, r.Deadline)
	default:
		r.end(Lapsed, ReasonExpired, at, 0)
	}
}

func (r *run) term(at canon.Time, q Parameters) {
	r.Expires = at + canon.Time(q.threshold(r.Granted).Term)
}

// lower returns the lower of two tiers; none is below all.
func lower(a, b string) string {
	if slices.Index(claim.Tiers, a) < slices.Index(claim.Tiers, b) {
		return a
	}
	return b
}

// end ends a certificate that stood, or might have.
func (r *run) end(status, reason string, at, deadline canon.Time) {
	r.Was = r.Status
	for _, c := range r.Clocks {
		r.spend(c, at)
	}
	r.Clocks, r.Tier, r.Expires, r.Proposed = nil, "", 0, Proposal{}
	r.enter(status, reason, at, deadline)
}

// against decides against the certificate: it can be appealed.
func (r *run) against(status, code, by string, at canon.Time, q Parameters) {
	r.end(status, code, at, at+canon.Time(q.Terms.Appeal))
	r.Decided, r.Against, r.Appeal = by, code, Appeal{}
}

func (r *run) clock(code string) int {
	return slices.IndexFunc(r.Clocks, func(c Clock) bool { return c.Code == code })
}

// spend remembers what is left of a grace when its clock stops.
func (r *run) spend(c Clock, at canon.Time) {
	if !effects[c.Code].mends() {
		return
	}
	left := Spent{Code: c.Code, Left: max(0, int64(c.Due-at)), Until: at + canon.Time(r.h.At(at).Graceful(c.Code))}
	i, found := slices.BinarySearchFunc(r.Spent, c.Code, func(s Spent, code string) int { return cmp.Compare(s.Code, code) })
	if found {
		r.Spent[i] = left
	} else {
		r.Spent = slices.Insert(r.Spent, i, left)
	}
}

// left lowers the end of a grace to what is left of it. Where attacks are known the fault is that of firmware out of date, graver.
func (r *run) left(code string, at, due canon.Time) canon.Time {
	r.Spent = slices.DeleteFunc(r.Spent, func(s Spent) bool { return s.Until <= at })
	for _, s := range r.Spent {
		if s.Code == code || code == FindingExploited && s.Code == FindingTCB {
			due = min(due, at+canon.Time(s.Left))
		}
	}
	return due
}

// start starts the clock of a finding, if it does not run.
func (r *run) start(f Finding, at canon.Time, q Parameters) {
	if r.clock(f.Code) >= 0 {
		return
	}
	c := r.newClock(f, at, q)
	c.Over = c.Due <= at
	r.Clocks = append(r.Clocks, c)
	slices.SortFunc(r.Clocks, func(a, b Clock) int { return cmp.Compare(a.Code, b.Code) })
	r.drafts = append(r.drafts, Notice{Notice: NoticeClock, Certificate: r.ID, About: c.Code, At: at, Due: c.Due}.draft(r.Place.Provider))
}

// newClock returns the clock of a finding that is made at an instant.
func (r *run) newClock(f Finding, at canon.Time, q Parameters) Clock {
	since := f.Since
	if since == 0 {
		since = at
	}
	if effects[f.Code].atRest { // neither maintenance nor a break counts
		since = max(since, r.Watched)
		if f.Code == FindingHeartbeat && r.Watched != 0 {
			since = max(since, r.listened(at))
		}
		since = min(r.windowEnd(since), at)
	}
	c := Clock{Code: f.Code, Since: since, Due: since + canon.Time(q.Graceful(f.Code))}
	if i := r.clock(FindingTCB); f.Code == FindingExploited && i >= 0 { // the same fault, graver: there is less time from now on, and never more
		c.Since, c.Due = r.Clocks[i].Since, min(r.Clocks[i].Due, c.Due)
	}
	c.Due = r.left(f.Code, at, c.Due)
	return c
}

// graceEnd returns when the grace of a finding ends that is made at an instant: that of its clock, where one runs.
func (r *run) graceEnd(f Finding, at canon.Time, q Parameters) canon.Time {
	if i := r.clock(f.Code); i >= 0 {
		return r.Clocks[i].Due
	}
	return r.newClock(f, at, q).Due
}

// stands reports whether a clock stands still: that a host is silent is not held against it while nobody listens.
func (r *run) stands(c Clock) bool {
	return effects[c.Code].atRest && r.clock(FindingOverdue) >= 0
}

// rested returns the faults that were found, and are not counted, since it is a time of maintenance.
func (r *run) rested(at canon.Time) (out []Finding) {
	if !r.inWindow(at) {
		return nil
	}
	for _, f := range r.Standing.Findings {
		if effects[f.Code].atRest && r.clock(f.Code) < 0 && !r.overruled(f) && !r.unheard(f, at) {
			out = append(out, f)
		}
	}
	return out
}

// windowEnd returns the end of the maintenance of a time, however many windows it is of.
func (r *run) windowEnd(at canon.Time) canon.Time {
	for _, w := range r.Windows {
		if w.covers(at) {
			at = w.Until
		}
	}
	return at
}

// unheard reports whether a host had no time to be heard, since somebody listens again.
func (r *run) unheard(f Finding, at canon.Time) bool {
	return f.Code == FindingHeartbeat && r.Watched != 0 && at <= r.listened(at)
}

// listened returns until when a host need not have been heard since the last break.
func (r *run) listened(at canon.Time) canon.Time {
	return r.Watched + canon.Time(r.h.At(at).EvidenceAge)
}

func (r *run) overruled(f Finding) bool { return slices.ContainsFunc(r.Overruled, f.within) }

// away takes note that nobody weighed the certificate from an instant on: a log that stood still cannot tell whether a host was
// silent. The clocks of what is silent stood meanwhile.
func (r *run) away(since canon.Time) {
	r.Watched = r.now
	for i := range r.Clocks {
		if c := &r.Clocks[i]; effects[c.Code].atRest && c.Due > since {
			c.Due += r.now - since
		}
	}
}

// strike is the end of a clock.
func (r *run) strike(at canon.Time) {
	for i := range r.Clocks {
		if c := &r.Clocks[i]; c.Due <= at && !r.stands(*c) {
			c.Over = true
		}
	}
	r.effect(at)
}

// weigh draws the consequences of what was weighed last.
func (r *run) weigh(at canon.Time) {
	if !r.Live() {
		return
	}
	q := r.h.At(at)
	fresh := r.act.Standing.At != 0
	found := func(code string) bool {
		return slices.ContainsFunc(r.Standing.Findings, func(f Finding) bool { return f.Code == code })
	}
	r.Overruled = slices.DeleteFunc(r.Overruled, func(f Finding) bool { return !found(f.Code) })
	for _, f := range r.Standing.Findings {
		e := effects[f.Code]
		if r.overruled(f) || e.atRest && r.inWindow(at) || r.unheard(f, at) {
			continue
		}
		if e.grace == nil {
			r.against(Revoked, f.Code, claim.Verifier, at, q)
			r.Tainted = cmp.Or(f.Since, at)
			return
		}
		r.start(f, at, q)
	}
	r.Clocks = slices.DeleteFunc(r.Clocks, func(c Clock) bool {
		if c.Code == FindingOverdue {
			return fresh && at < r.Standing.Until
		}
		stops := effects[c.Code].automatic && !slices.ContainsFunc(r.Standing.Findings, func(f Finding) bool { return f.Code == c.Code && !r.overruled(f) })
		if stops {
			r.spend(c, at)
		}
		return stops
	})
	r.strike(at)
}

// effect makes state and tier those of the clocks.
func (r *run) effect(at canon.Time) {
	if !r.Live() {
		return
	}
	q := r.h.At(at)
	tier, capped, hidden := lower(r.Standing.Tier, r.Granted), false, ""
	for i := 0; i < len(r.Clocks); i++ {
		c, e := r.Clocks[i], effects[r.Clocks[i].Code]
		switch {
		case !c.Over && e.suspends && hidden == "":
			hidden = c.Code
		case c.Over && e.then == Revoked:
			r.against(Revoked, c.Code, claim.Verifier, at, q)
			r.Tainted = c.Since
			return
		case c.Over && e.then == Lapsed:
			r.end(Lapsed, c.Code, at, 0)
			return
		case c.Over && e.then == Certified:
			r.Clocks = slices.Delete(r.Clocks, i, i+1)
			i--
		case c.Over && lower(tier, e.cap) != tier:
			tier, capped = e.cap, true
		}
	}
	before := r.Tier
	r.Tier = tier
	switch {
	case hidden != "":
		if r.Status != Suspended {
			r.Was = r.Status
		}
		r.enter(Suspended, hidden, at, 0)
	case r.Status == Suspended:
		deadline := canon.Time(0)
		if r.Was == Renewing { // whoever reviews has not seen it meanwhile
			deadline = at + canon.Time(q.Terms.InReview)
		}
		r.enter(r.Was, ReasonCleared, at, deadline)
		r.Was = ""
	case before == "" || tier == before:
	case slices.Index(claim.Tiers, tier) > slices.Index(claim.Tiers, before):
		r.Reason = ReasonUpgraded
	case capped:
		r.Reason = ReasonGraceOver
	default:
		r.Reason = ReasonDowngraded
	}
}

// ends returns what of the certificate ends: itself, unless it renews itself, and the words that count in it.
func (r *run) ends() (out []Notice) {
	if !renewsItself(r.Granted) {
		out = append(out, Notice{Notice: NoticeEnds, Certificate: r.ID, About: "certificate", Due: r.Expires})
	}
	for _, a := range r.Standing.Attributes {
		for _, w := range a.Words {
			if w.Code == "" {
				out = append(out, Notice{Notice: NoticeEnds, Certificate: r.ID, About: a.Subject.String() + " " + a.ID + " " + w.Issuer, Due: w.Until})
			}
		}
	}
	return out
}

// nextNotice returns the next instant at which somebody is told of an end.
func (r *run) nextNotice() (at canon.Time) {
	for _, n := range r.ends() {
		for _, before := range r.h.At(r.Updated).Notices {
			if t := n.Due - canon.Time(before); t > r.Noticed && (at == 0 || t < at) {
				at = t
			}
		}
	}
	return at
}

// notice tells of the ends that come near at an instant.
func (r *run) notice(at canon.Time) {
	for _, n := range r.ends() {
		for _, before := range r.h.At(r.Updated).Notices {
			if n.Due-canon.Time(before) == at {
				n.At = at
				r.drafts = append(r.drafts, n.draft(r.Place.Provider))
			}
		}
	}
	r.Noticed, r.Reason = at, ReasonNoticed
}

// tell drafts notices of what became of the certificate.
func (r *run) tell(before Certificate) {
	if before.Status == "" {
		return
	}
	if r.Status != before.Status {
		r.drafts = append(r.drafts, Notice{Notice: NoticeState, Certificate: r.ID, About: before.Status + " " + r.Status + " " + r.Reason, At: r.now, Due: r.Deadline}.draft(r.Place.Provider))
	}
	if r.Tier != before.Tier && r.Live() && before.Live() {
		r.drafts = append(r.drafts, Notice{Notice: NoticeTier, Certificate: r.ID, About: before.Tier + " " + r.Tier, At: r.now}.draft(r.Place.Provider))
	}
}

var errNotNow = errors.New("not in this state")

// do does what the event says.
func (r *run) do() error {
	q := r.h.At(r.now)
	a := r.act
	switch a.Act {
	case ActDraft:
		return r.draft(q)
	case ActDue:
		if r.terminal() && !r.happened {
			return errNotNow
		}
		r.assessed()
		return nil
	case ActAssess:
		if !r.Live() {
			return errNotNow
		}
		r.assessed()
		return nil
	case ActSubmit:
		return r.move(Draft, Submitted, ReasonSubmitted, q.Terms.Submitted, func() error {
			r.Submitter = a.By
			return nil
		})
	case ActAssign:
		if r.Status != Submitted && r.Status != InReview && r.Status != Renewing {
			return errNotNow
		}
		if err := r.independent(a.Reviewer); err != nil {
			return err
		}
		r.Reviewer = a.Reviewer
		if r.Status == Submitted {
			r.enter(InReview, ReasonAssigned, r.now, r.now+canon.Time(q.Terms.InReview))
		}
		r.Reason = ReasonAssigned
		return nil
	case ActPass:
		return r.passed(q)
	case ActFail:
		if r.Status != InReview && r.Status != Renewing {
			return errNotNow
		}
		if a.By != r.Reviewer {
			return fmt.Errorf("it is %s's to review", r.Reviewer)
		}
		if r.Status == Renewing { // the term that stands is not touched by what is asked beyond it
			r.enter(Certified, a.Code, r.now, 0)
			return nil
		}
		r.against(Rejected, a.Code, a.By, r.now, q)
		return nil
	case ActEdit:
		return r.edit()
	case ActRenew:
		if r.Status != Certified {
			return errNotNow
		}
		if a.Tier != "" {
			if err := checkTier(a.Tier); err != nil {
				return err
			}
			r.Asked = a.Tier
		}
		r.enter(Renewing, ReasonRenewing, r.now, r.now+canon.Time(q.Terms.InReview))
		r.Submitter = a.By
		return nil
	case ActWindow:
		return r.window()
	case ActFreeze:
		return r.freeze(q)
	case ActRevoke:
		if !r.Live() {
			return errNotNow
		}
		if a.Since > r.now {
			return fmt.Errorf("tainted since %s, which has not come", a.Since)
		}
		r.against(Revoked, a.Code, a.By, r.now, q)
		r.Tainted = a.Since
		return nil
	case ActAppeal, ActTriage, ActRule:
		return r.appeal(q)
	case ActEnd:
		if r.terminal() || r.Status == Revoked || r.Status == Rejected {
			return errNotNow
		}
		r.end(Lapsed, ReasonEnded, r.now, 0)
		return nil
	}
	return errNotNow
}

// assessed names the reason of an event that brings a standing, where nothing was due by itself.
func (r *run) assessed() {
	if r.act.Standing.At != 0 && r.Live() && !r.happened {
		r.Reason = ReasonAssessed
	}
}

// terminal reports whether nothing moves the certificate any more.
func (r *run) terminal() bool {
	what, _ := r.next()
	return what == dueNothing
}

func (r *run) move(from, to, reason string, term int64, change func() error) error {
	if r.Status != from {
		return errNotNow
	}
	if err := change(); err != nil {
		return err
	}
	r.enter(to, reason, r.now, r.now+canon.Time(term))
	return nil
}

func (r *run) draft(q Parameters) error {
	a := r.act
	if r.Status != "" {
		return errNotNow
	}
	if err := checkTier(a.Tier); err != nil {
		return err
	}
	chain := a.Place.chain()
	for _, x := range a.Assertions {
		if !slices.Contains(chain, x.Subject) {
			return fmt.Errorf("%s is no part of the place", x.Subject)
		}
	}
	r.Certificate = Certificate{ID: a.Certificate, Place: a.Place, Asked: a.Tier, Assertions: a.Assertions, Since: r.now}
	r.enter(Draft, ReasonDrafted, r.now, r.now+canon.Time(q.Terms.Draft))
	return nil
}

func checkTier(tier string) error {
	if !slices.Contains(claim.Tiers, tier) {
		return fmt.Errorf("tier %.80q: tiers have names: %s", tier, strings.Join(claim.Tiers, ", "))
	}
	return nil
}

// passed gives a certificate, or another term of it. The reviewer looks; what it carries is weighed.
func (r *run) passed(q Parameters) error {
	if r.Status != InReview && r.Status != Renewing {
		return errNotNow
	}
	if r.Reviewer != r.act.By {
		return fmt.Errorf("it is %s's to review", r.Reviewer)
	}
	if err := r.independent(r.act.By); err != nil {
		return err
	}
	s := r.Standing
	if s.Tier == "" {
		return fmt.Errorf("nothing counts that carries a tier: it lacks %v", s.Missing)
	}
	if lower(r.Asked, r.Granted) != r.Asked && lower(s.Tier, r.Asked) != r.Asked {
		return fmt.Errorf("what counts carries %s, and %s is asked for: it lacks %v", s.Tier, r.Asked, s.Missing)
	}
	// Grace is for who stands: else another certificate would begin each grace anew.
	for _, f := range s.Findings {
		if e := effects[f.Code]; r.Status == InReview && (e.suspends || lower(e.cap, r.Asked) != r.Asked) {
			return fmt.Errorf("%s (%s): a first certificate of tier %s is given when that is mended", f.Code, Means(f.Code), r.Asked)
		}
	}
	reason := ReasonPassed
	if r.Status == Renewing {
		reason = ReasonRenewed
	}
	r.Granted, r.Tier = r.Asked, lower(s.Tier, r.Asked)
	r.term(r.now, q)
	r.Noticed = r.now
	r.enter(Certified, reason, r.now, 0)
	return nil
}

// independent reports that somebody asked for what is to be reviewed.
func (r *run) independent(reviewer string) error {
	if reviewer == r.Submitter {
		return fmt.Errorf("%s asked for the certificate, and cannot review it", reviewer)
	}
	return nil
}

// freeze stops the certificate where two officers say so: what the first one says is a proposal.
func (r *run) freeze(q Parameters) error {
	switch {
	case !r.Live():
		return errNotNow
	case r.clock(FindingFrozen) >= 0:
		return errors.New("it is frozen")
	case r.Proposed.By == "":
		r.Proposed = Proposal{r.act.By, r.act.Evidence, r.now, r.now + canon.Time(FreezeTerm)}
		r.Reason = ReasonProposed
		return nil
	case r.Proposed.By == r.act.By:
		return fmt.Errorf("%s proposed to freeze it: a second officer confirms that until %s", r.act.By, r.Proposed.Until)
	}
	r.Proposed = Proposal{}
	r.start(Finding{Code: FindingFrozen}, r.now, q)
	return nil
}

// edit changes what the provider says of attributes. Each that changes waits for an issuer; the others stay as they are.
func (r *run) edit() error {
	if !r.Live() && r.Status != Draft && r.Status != Submitted && r.Status != InReview {
		return errNotNow
	}
	chain := r.Place.chain()
	for _, x := range r.act.Assertions {
		if !slices.Contains(chain, x.Subject) {
			return fmt.Errorf("%s is no part of the place", x.Subject)
		}
		i, found := slices.BinarySearchFunc(r.Assertions, x, Assertion.compare)
		if found {
			r.Assertions[i] = x
		} else {
			r.Assertions = slices.Insert(r.Assertions, i, x)
		}
	}
	if len(r.Assertions) > MaxAssertions {
		return fmt.Errorf("%d assertions, at most %d", len(r.Assertions), MaxAssertions)
	}
	r.Reason = ReasonEdited
	return nil
}

// window announces maintenance: before it begins, since a window behind a failure would hide the failure.
func (r *run) window() error {
	w := r.act.Window
	if !r.Live() {
		return errNotNow
	}
	if w.From < r.now {
		return fmt.Errorf("a window from %s, announced at %s: it must be announced before it begins", w.From, r.now)
	}
	r.Windows = slices.DeleteFunc(r.Windows, func(o Window) bool { return o.Until+canon.Time(UptimeSpan) <= r.now })
	if len(r.Windows) == MaxWindows {
		return fmt.Errorf("more than %d windows are announced, or are of the last %d days", MaxWindows, UptimeSpan/day)
	}
	i, _ := slices.BinarySearchFunc(r.Windows, w, func(a, b Window) int { return cmp.Compare(a.From, b.From) })
	r.Windows = slices.Insert(r.Windows, i, w)
	if overlong(r.Windows) {
		return fmt.Errorf("more than %d days of maintenance in %d days", MaxWindow/day, UptimeSpan/day)
	}
	r.Reason = ReasonWindow
	return nil
}

// appeal is the way of an appeal: filed within its time with new evidence, somebody else is named, and rules.
func (r *run) appeal(q Parameters) error {
	a := r.act
	if r.Status != Revoked && r.Status != Rejected || r.Deadline == 0 {
		return errNotNow
	}
	switch {
	case a.Act == ActAppeal && r.Appeal.Filed == 0:
		r.Appeal = Appeal{By: a.By, Filed: r.now, Evidence: a.Evidence}
		r.enter(r.Status, ReasonAppealed, r.now, r.now+canon.Time(q.Terms.Triage))
	case a.Act == ActTriage && r.Appeal.Filed != 0 && r.Appeal.Reviewer == "":
		switch a.Reviewer {
		case r.Decided, r.Reviewer:
			return fmt.Errorf("%s has decided on it before: an appeal is another's to rule on", a.Reviewer)
		case r.Submitter, r.Appeal.By:
			return fmt.Errorf("%s asked for it: an appeal is another's to rule on", a.Reviewer)
		}
		r.Appeal.Reviewer = a.Reviewer
		if r.Appeal.Triaged == 0 {
			r.Appeal.Triaged = r.now
			r.Deadline = r.now + canon.Time(q.Terms.Ruling)
		}
		r.Reason = ReasonTriaged
	case a.Act == ActRule && r.Appeal.Reviewer != "":
		if a.By != r.Appeal.Reviewer {
			return fmt.Errorf("the appeal is %s's to rule on", r.Appeal.Reviewer)
		}
		if a.Upheld {
			r.enter(r.Status, ReasonUpheld, r.now, 0)
			return nil
		}
		return r.overturn(q)
	default:
		return errNotNow
	}
	return nil
}

// overturn takes a decision back. What it was made for is overruled until it is gone, and nothing else that was found; a certificate that stood has a new term of the
// tier that counts now, one that was never given is reviewed anew.
func (r *run) overturn(q Parameters) error {
	if r.Status == Rejected {
		r.Reviewer = r.Appeal.Reviewer
		r.Appeal, r.Decided, r.Against, r.Was = Appeal{}, "", "", ""
		r.enter(InReview, ReasonOverturned, r.now, r.now+canon.Time(q.Terms.InReview))
		return nil
	}
	for _, f := range r.Standing.Findings {
		if f.Code == r.Against {
			r.Overruled = append(r.Overruled, f)
		}
	}
	r.Tier = lower(r.Standing.Tier, r.Granted)
	r.term(r.now, q)
	r.Noticed = r.now
	r.Appeal, r.Decided, r.Against, r.Was, r.Tainted = Appeal{}, "", "", "", 0
	r.enter(Certified, ReasonOverturned, r.now, 0)
	return nil
}
