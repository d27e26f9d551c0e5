package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Now asks a replay to judge everything once more: as of another time, with what was known by then. It changes nothing of
// what the replay says of the log.
type Now struct {
	AsOf  canon.Time
	Known canon.Time  // collateral that was logged later does not count; zero: all of the log does
	Items []KnownItem // collateral from elsewhere, which counts whenever it was fetched
}

// KnownItem is an item of collateral and its record.
type KnownItem struct {
	Record ledger.Collateral
	Data   []byte
}

// Rejudged is what judging once more has shown.
type Rejudged struct {
	AsOf      canon.Time     `json:"as_of"`
	Known     canon.Time     `json:"known,omitzero"`
	Items     []canon.Digest `json:"items"`    // of the collateral from elsewhere, ordered
	Verdicts  int64          `json:"verdicts"` // that were judged once more
	Standing  int64          `json:"standing"` // accepts that are accepts now
	Lapsed    int64          `json:"lapsed"`   // accepts that no longer hold, and time alone did it
	Tainted   int64          `json:"tainted"`  // accepts that something speaks against which was not known then
	Cleared   int64          `json:"cleared"`  // accepts now, that were none
	Otherwise int64          `json:"otherwise"`
	Changes   []Change       `json:"changes"` // of each state the first MaxChanges, in log order
}

// States of a verdict that was judged once more.
const (
	StateStanding  = "standing"
	StateLapsed    = "lapsed"
	StateTainted   = "tainted"
	StateCleared   = "cleared"
	StateOtherwise = "otherwise" // reject where it was undecided, or the reverse; or no accept, as before
)

// Change is a verdict that would be another now.
type Change struct {
	Index    int64        `json:"index"` // of its entry
	Node     string       `json:"node,omitzero"`
	Evidence canon.Digest `json:"evidence"`
	Policy   string       `json:"policy"` // its name
	State    string       `json:"state"`
	Then     string       `json:"then"`
	Now      string       `json:"now"`
	Since    canon.Time   `json:"since,omitzero"` // with what is known now, it would have been another from this instant on; absent: no rule says when
	Why      []Flip       `json:"why"`            // rules that are no longer met
}

// Flip is a rule of the policy that was met then and is not now.
type Flip struct {
	Rule     string     `json:"rule"`
	Claim    string     `json:"claim"`
	Subject  string     `json:"subject"`
	Observed string     `json:"observed"`
	By       []By       `json:"by"`             // collateral that was not known then and does it; none: time alone
	Rules    bool       `json:"rules,omitzero"` // the rules of this build do it, which are not those that decided: already then, with what was known
	Since    canon.Time `json:"since"`
}

// By is an item of collateral that decides.
type By struct {
	Kind   string       `json:"kind"`
	Digest canon.Digest `json:"sha256"`
	Source string       `json:"source"`
	Known  canon.Time   `json:"known"` // when it was fetched
}

// knowing is the collateral that counts when judging once more: the newest of each subject, where it comes in issues, else
// of each source.
type knowing struct {
	at     Now
	newest map[published]latest
	is     map[logged]published // what each item is an issue of
	from   map[published]latest // the newest of each source, for what was wanted and not there
	given  map[canon.Digest][]byte
}

// published names what a vendor publishes anew from time to time: by its subject, or by where.
type published struct{ kind, subject, source string }

// latest is an item that counts.
type latest struct {
	By
	issue attest.Issue // zero: it does not come in issues
}

func (l latest) newer(o latest) bool {
	if l.issue != (attest.Issue{}) && o.issue != (attest.Issue{}) {
		return l.issue.Newer(o.issue)
	}
	return l.Known > o.Known || l.Known == o.Known && slices.Compare(l.Digest[:], o.Digest[:]) > 0
}

func newKnowing(n Now) *knowing {
	k := &knowing{at: n, newest: map[published]latest{}, is: map[logged]published{}, from: map[published]latest{}, given: map[canon.Digest][]byte{}}
	for _, item := range n.Items {
		k.given[item.Record.Data] = item.Data
		k.learn(item.Record, item.Data, true)
	}
	return k
}

// learn takes an item into account; one that does not count is only remembered for what it is.
func (k *knowing) learn(c ledger.Collateral, data []byte, counts bool) {
	l := latest{By: By{c.Kind, c.Data, c.Source, c.Fetched}}
	at := published{kind: c.Kind, source: c.Source}
	if i, ok := verifier.IssueOf(attest.Collateral{Kind: c.Kind, Data: data}); ok {
		l.issue, at = i, published{kind: c.Kind, subject: i.Subject}
	}
	k.is[logged{c.Kind, c.Data}] = at
	if !counts {
		return
	}
	for _, m := range []struct {
		of map[published]latest
		at published
	}{{k.newest, at}, {k.from, published{kind: c.Kind, source: c.Source}}} {
		if was, ok := m.of[m.at]; !ok || l.newer(was) {
			m.of[m.at] = l
		}
	}
}

// logged takes an item of the log into account.
func (k *knowing) logged(c ledger.Collateral, data []byte, at canon.Time) {
	if k != nil {
		k.learn(c, data, k.at.Known == 0 || at <= k.at.Known)
	}
}

// known returns an item that is known.
func (j *job) known(ctx context.Context, b By) (attest.Collateral, error) {
	if data, ok := j.knowing.given[b.Digest]; ok {
		return attest.Collateral{Kind: b.Kind, Data: data}, nil
	}
	data, err := j.collateral.get(b.Digest, func() ([]byte, int, error) {
		data, err := j.blob(ctx, b.Digest)
		return data, len(data), err
	})
	return attest.Collateral{Kind: b.Kind, Data: data}, err
}

// swap is an item of collateral that another takes the place of, or that is added.
type swap struct {
	at   int // in the case's collateral; -1: added
	by   By
	item attest.Collateral
}

// swaps returns what is known now instead of an appraisal's collateral.
func (j *job) swaps(ctx context.Context, was verifier.Appraisal) (out []swap, err error) {
	place := 0
	for _, in := range was.Inputs {
		switch in.Kind {
		case verifier.InputEvidence, verifier.InputExpect, verifier.InputReferences, verifier.InputRoots:
			continue
		}
		of, ok := j.knowing.is[logged{in.Kind, in.Digest}]
		if l, newer := j.knowing.newest[of]; ok && newer && l.Digest != in.Digest {
			item, err := j.known(ctx, l.By)
			if err != nil {
				return nil, err
			}
			out = append(out, swap{place, l.By, item})
		}
		place++
	}
	return out, nil
}

func swapped(c attest.Case, at canon.Time, swaps ...swap) attest.Case {
	c.At, c.Collateral = at, slices.Clone(c.Collateral)
	for _, s := range swaps {
		if s.at >= 0 {
			c.Collateral[s.at] = s.item
		} else {
			c.Collateral = append(c.Collateral, s.item)
		}
	}
	return c
}

// judging judges one piece of evidence at any time, with any swaps of its collateral.
type judging func(at canon.Time, swaps ...swap) (verifier.Appraisal, bool)

// with returns a judging that says of the party what is known beside the evidence.
func (judge judging) with(party claim.Set) judging {
	return func(at canon.Time, swaps ...swap) (verifier.Appraisal, bool) {
		a, ok := judge(at, swaps...)
		a.Claims = slices.Concat(a.Claims, party)
		return a, ok
	}
}

// judgeNow judges an appraisal and its verdicts once more.
func (j *job) judgeNow(ctx context.Context, opened *verifier.Opened, a *appraisal, was *verifier.Appraisal) error {
	c, err := j.rebuild(ctx, *was, a)
	if err != nil {
		return nil // a fault of its own, told by the replay
	}
	swaps, err := j.swaps(ctx, *was)
	if err != nil {
		return err
	}
	at := j.knowing.at.AsOf
	var judge judging = func(at canon.Time, swaps ...swap) (verifier.Appraisal, bool) {
		return attempt(func() verifier.Appraisal { return verifier.Appraise(opened, swapped(c, at, swaps...)) })
	}
	is, ok := judge(at, swaps...)
	for range maxNeedRounds { // what is wanted shows as the rest comes to hand
		more, err := j.supply(ctx, is.Needs, swaps)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			break
		}
		swaps = append(swaps, more...)
		is, ok = judge(at, swaps...)
	}
	if !ok {
		return wrong("judged as of %s: this build fails on the evidence", at)
	}
	for _, v := range a.verdicts {
		p := j.policies[v.policy]
		if p == nil {
			continue // told by the replay
		}
		r, err := j.openResult(ctx, a, v)
		var f *Fault
		switch {
		case errors.As(err, &f):
			continue // told by the replay
		case err != nil:
			return err
		}
		party, err := j.told(ctx, r)
		if err != nil {
			continue // told by the replay
		}
		then, now := r.Verdict, policy.Decide(slices.Concat(is.Claims, party), p, at)
		change := Change{Index: v.index, Evidence: a.evidence, Policy: p.Name(), Then: then.Outcome.String(), Now: now.Outcome.String(), Why: []Flip{}}
		if j.ev.challenge != nil {
			change.Node = j.ev.challenge.node
		}
		for _, reason := range now.Reasons {
			if !hasReason(then, reason) {
				change.Why = append(change.Why, flipOf(reason, p, judge.with(party), otherRules(*was, then), then.AsOf, at, swaps))
			}
		}
		change.conclude(then.Outcome, now.Outcome)
		j.res.changes = append(j.res.changes, change)
	}
	return nil
}

// supply returns what is known of what an appraisal wanted, and is not among the swaps.
func (j *job) supply(ctx context.Context, needs []attest.Need, swaps []swap) (more []swap, err error) {
	for _, n := range needs {
		l, known := j.knowing.from[published{kind: n.Kind, source: n.Source}]
		have := func(s swap) bool { return s.by == l.By }
		if !known || n.Source == "" || slices.ContainsFunc(swaps, have) || slices.ContainsFunc(more, have) {
			continue
		}
		item, err := j.known(ctx, l.By)
		if err != nil {
			return nil, err
		}
		more = append(more, swap{-1, l.By, item})
	}
	return more, nil
}

// flipOf says why a rule that was met at one time is not met at another: for the rules of this build, which are not those
// that decided, for time alone, or for some of the swaps.
func flipOf(reason policy.Reason, p *policy.Policy, judge judging, otherRules bool, then, at canon.Time, swaps []swap) Flip {
	fails := func(at canon.Time, swaps ...swap) bool {
		again, ok := judge(at, swaps...)
		return ok && hasReason(policy.Decide(again.Claims, p, at), reason)
	}
	flip := Flip{Rule: reason.Rule, Claim: reason.Claim, Subject: reason.Subject, Observed: reason.Observed, By: []By{}}
	switch {
	case otherRules && fails(then):
		flip.Rules, flip.Since = true, then
	case fails(at): // also with what was known then
		flip.Since = since(then, at, func(t canon.Time) bool { return fails(t) })
	default:
		for _, s := range swaps {
			if fails(at, s) {
				flip.By = append(flip.By, s.by)
			}
		}
		if len(flip.By) == 0 { // only together
			for _, s := range swaps {
				flip.By = append(flip.By, s.by)
			}
		}
		flip.Since = since(then, at, func(t canon.Time) bool { return fails(t, swaps...) })
	}
	return flip
}

// hasReason reports whether a verdict fails on a rule for the same claim.
func hasReason(v policy.Verdict, r policy.Reason) bool {
	return slices.ContainsFunc(v.Reasons, func(o policy.Reason) bool {
		return o.Rule == r.Rule && o.Claim == r.Claim && o.Subject == r.Subject && o.Status == r.Status
	})
}

// since finds the instant from which something holds up to the end, where it does; it looks for one change.
func since(from, end canon.Time, holds func(canon.Time) bool) canon.Time {
	if from >= end || holds(from) {
		return min(from, end)
	}
	for from+1 < end {
		if mid := from + (end-from)/2; holds(mid) {
			end = mid
		} else {
			from = mid
		}
	}
	return end
}

// conclude names the state of a verdict, and since when it is in it.
func (c *Change) conclude(then, now policy.Outcome) {
	switch {
	case then == policy.Accept && now == policy.Accept:
		c.State = StateStanding
	case now == policy.Accept:
		c.State = StateCleared
	case then != policy.Accept:
		c.State = StateOtherwise
	default:
		c.State = StateLapsed
		for _, f := range c.Why {
			if len(f.By) > 0 || f.Rules {
				c.State = StateTainted
			}
		}
	}
	for _, f := range c.Why {
		if c.State == StateTainted && len(f.By) == 0 && !f.Rules {
			continue
		}
		if c.Since == 0 || f.Since < c.Since {
			c.Since = f.Since
		}
	}
}

// count adds a verdict that was judged once more.
func (r *Rejudged) count(c Change) {
	r.Verdicts++
	// Of three states all are changes, so that as many are listed as are counted, up to the limit.
	others := int64(len(r.Changes)) - min(r.Lapsed, MaxChanges) - min(r.Tainted, MaxChanges) - min(r.Cleared, MaxChanges)
	state := &others
	switch c.State {
	case StateStanding:
		r.Standing++
	case StateLapsed:
		state = &r.Lapsed
	case StateTainted:
		state = &r.Tainted
	case StateCleared:
		state = &r.Cleared
	default:
		r.Otherwise++
	}
	if *state++; (c.Then != c.Now || len(c.Why) > 0) && *state <= MaxChanges {
		r.Changes = append(r.Changes, c)
	}
}

// merge adds what judging later evidence once more has shown.
func (r *Rejudged) merge(o Rejudged) {
	r.Verdicts += o.Verdicts
	r.Standing += o.Standing
	r.Lapsed += o.Lapsed
	r.Tainted += o.Tainted
	r.Cleared += o.Cleared
	r.Otherwise += o.Otherwise
	listed := map[string]int{}
	r.Changes = slices.DeleteFunc(append(r.Changes, o.Changes...), func(c Change) bool {
		listed[c.State]++
		return listed[c.State] > MaxChanges
	})
}

// text renders what judging once more has shown.
func (r Rejudged) text(line func(name, format string, args ...any)) {
	known := "with all collateral of the log"
	if r.Known != 0 {
		known = fmt.Sprintf("with the collateral of the log known at %s", r.Known)
	}
	if n := int64(len(r.Items)); n > 0 {
		known += fmt.Sprintf(" and %s from elsewhere", counted(n, "item"))
	}
	line("now", "as of %s, %s, by the rules of this build", r.AsOf, known)
	line("now", "of %d verdicts: %d accepts stand, %d lapsed, %d tainted, %d cleared, %d otherwise", r.Verdicts, r.Standing, r.Lapsed, r.Tainted, r.Cleared, r.Otherwise)
	ordered := slices.Clone(r.Changes)
	rank := map[string]int{StateTainted: -1} // what somebody has to act on comes first
	slices.SortStableFunc(ordered, func(a, b Change) int { return cmp.Compare(rank[a.State], rank[b.State]) })
	listed := map[string]int64{}
	for _, c := range ordered {
		listed[c.State]++
		words := fmt.Sprintf("then %s, now %s", c.Then, c.Now)
		if c.Then == c.Now {
			words = fmt.Sprintf("%s, and now for other reasons too", c.Then)
		}
		if c.Since != 0 {
			words += fmt.Sprintf(", since %s", c.Since)
		}
		line(c.State, "entry %d, %s by %s: %s", c.Index, Printable(c.Node), Printable(c.Policy), words)
		for _, f := range c.Why {
			line("", "%s: %s@%s: %s; since %s", f.Rule, f.Claim, f.Subject, Printable(f.Observed), f.Since)
			if f.Rules {
				line("", "  by the rules of this build, which are not those that decided")
			}
			for _, b := range f.By {
				line("", "  by %s %s of %s, known %s", b.Kind, b.Digest.Short(), Printable(b.Source), b.Known)
			}
		}
	}
	for _, s := range []struct {
		state string
		count int64
	}{{StateTainted, r.Tainted}, {StateLapsed, r.Lapsed}, {StateCleared, r.Cleared}} {
		if n := s.count - listed[s.state]; n > 0 {
			line(s.state, "and %d more, which are not listed", n)
		}
	}
	if listed[StateOtherwise] == MaxChanges {
		line(StateOtherwise, "those of later entries are not listed")
	}
}

// ExitCode returns the exit status of a command that ends with this report. Where everything was judged once more, an
// accept that is tainted is 1, one that has lapsed 3.
func (r Report) ExitCode() int {
	if r.Outcome == Equal && r.Now != nil {
		switch {
		case r.Now.Tainted > 0:
			return Faulty.ExitCode()
		case r.Now.Lapsed > 0:
			return NotAnchored.ExitCode()
		}
	}
	return r.Outcome.ExitCode()
}
