package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// ChallengeType is the type of the report of a challenge.
const ChallengeType = "assay/challenge-report/v1"

// ChallengeMethod says what a challenge of the verifier is.
const ChallengeMethod = `Verdicts are drawn as a sample by outcome. Of each, one input at a time is altered in memory and the appraisal and the verdict are computed again by this build; everything else stays. Where to alter is drawn: draw 0 of SHA-256("assay/challenge/v1" LF seed LF INDEX/ALTERATION/WHAT LF 0 LF), its first 8 bytes, big-endian, modulo the number of places. ` +
	`An alteration is refused where the claims fall that must fall, and where a policy that asks for one of them, or for a claim that rests on one, no longer accepts. It is allowed where nothing had to fall: bytes that nobody signs, claims that were not affirmed before, an item that another one replaces. ` +
	`It is accepted, and the challenge failed, where a claim that must fall stays affirmed, where changed collateral affirms what neither the logged item nor its absence affirms, where the verdict is accept although the policy asks for what fell, or where altered bytes pass for the logged ones.`

// Results of a trial.
const (
	TrialEqual         = "equal"          // of the control: the unaltered inputs give the logged bytes
	TrialRefused       = "refused"        // what must fall fell
	TrialAllowed       = "allowed"        // nothing had to fall: the result is right, whether it changed or not
	TrialAccepted      = "accepted"       // the altered input passes where it must not
	TrialDiffers       = "differs"        // of the control: this build does not give the logged bytes, so that a trial shows nothing
	TrialNotApplicable = "not-applicable" // the verdict has nothing to alter so
)

// ChallengeReport is what a challenge of the verifier found. It depends on the log, the seed and the size alone.
type ChallengeReport struct {
	Type    string       `json:"type"`
	Outcome Outcome      `json:"outcome"`
	Trust   string       `json:"trust"`
	Origin  string       `json:"origin"`
	Size    int64        `json:"size"`
	Root    canon.Digest `json:"root,omitzero"`
	Method  string       `json:"method"`
	Seed    int64        `json:"seed"`
	Wanted  int64        `json:"wanted"`
	Results []KindCount  `json:"results"`
	Trials  []Trial      `json:"trials"`
	Faults  []Fault      `json:"faults"`
}

// Trial is one alteration of one verdict's inputs.
type Trial struct {
	Index      int64        `json:"index"` // of the verdict's entry
	Alteration string       `json:"alteration"`
	Input      canon.Digest `json:"input,omitzero"` // what was altered, as logged
	Where      string       `json:"where,omitzero"`
	Falls      []string     `json:"falls"` // claims that must not stay affirmed
	Before     string       `json:"before"`
	After      string       `json:"after,omitzero"`
	Result     string       `json:"result"`
	What       string       `json:"what"`
}

// Canonical returns the canonical bytes of the report.
func (r ChallengeReport) Canonical() ([]byte, error) { return canon.Marshal(r) }

// judge is the rules that are challenged.
type judge struct {
	appraise func(*verifier.Opened, attest.Case) verifier.Appraisal
	decide   func(claim.Set, *policy.Policy, canon.Time) policy.Verdict
}

// thisBuild is the rules of this build.
var thisBuild = judge{verifier.Appraise, policy.Decide}

// Challenge alters one input at a time of verdicts that the seed draws, and reports what the rules of this build make of
// each. It does not challenge the signature of the log itself, which reading checked, nor what the alterations do not
// touch: an altered rule of another build goes unseen where this build has it right.
func (g *Reading) Challenge(ctx context.Context, seed, size int64) (ChallengeReport, error) {
	return g.challenge(ctx, seed, size, thisBuild)
}

func (g *Reading) challenge(ctx context.Context, seed, size int64, by judge) (ChallengeReport, error) {
	s, err := g.Sample(ctx, seed, size, ByOutcome, false)
	if err != nil {
		return ChallengeReport{}, err
	}
	return g.challengeSample(ctx, s, by)
}

// challengeSample challenges verdicts that were drawn.
func (g *Reading) challengeSample(ctx context.Context, s Sample, by judge) (ChallengeReport, error) {
	r := ChallengeReport{
		Type: ChallengeType, Outcome: s.Outcome, Trust: s.Trust, Origin: s.Origin, Size: s.Size, Root: s.Root, Method: ChallengeMethod,
		Seed: s.Seed, Wanted: s.Wanted, Trials: []Trial{}, Faults: s.Faults,
	}
	for i, d := range s.Drawn {
		g.o.Progress("challenge", int64(i), int64(len(s.Drawn)))
		trials, err := g.challengeOne(ctx, s.Seed, d.Row, by)
		if err != nil {
			return ChallengeReport{}, err
		}
		r.Trials = append(r.Trials, trials...)
	}
	g.o.Progress("challenge", int64(len(s.Drawn)), int64(len(s.Drawn)))
	results := counter{}
	for _, t := range r.Trials {
		results[t.Result]++
	}
	r.Results = results.list()
	switch {
	case results[TrialAccepted]+results[TrialDiffers] > 0:
		r.Outcome = Faulty
	case results[TrialRefused] == 0 && r.Outcome == Equal: // nothing was challenged
		r.Outcome = NotAnchored
	}
	return r, nil
}

// trying is one verdict under challenge.
type trying struct {
	*Reading
	judge
	ctx    context.Context
	seed   int64
	row    Row
	o      *opened
	data   []byte // evidence as received
	c      attest.Case
	policy *policy.Policy
	trials []Trial
}

func (g *Reading) challengeOne(ctx context.Context, seed int64, row Row, by judge) ([]Trial, error) {
	t := &trying{Reading: g, judge: by, ctx: ctx, seed: seed, row: row}
	o, _, err := g.verdictAt(ctx, row.Index)
	var f *Fault
	switch {
	case errors.As(err, &f):
		t.add(Trial{Alteration: "control", Result: TrialNotApplicable, What: f.What})
		return t.trials, nil
	case err != nil:
		return nil, err
	}
	if otherRules(o.logged, o.result.Verdict) {
		t.add(Trial{Alteration: "control", Result: TrialNotApplicable, What: "made by other rules than this build's, which altered inputs would be judged by"})
		return t.trials, nil
	}
	t.o, t.policy = o, g.policies[o.policy]
	if t.data, err = g.blob(ctx, o.appraisal.evidence); err != nil {
		return nil, err
	}
	j := job{replay: g.replay, ev: o.ev, res: newResult()}
	t.c, err = j.rebuild(ctx, o.logged, o.appraisal)
	switch {
	case errors.As(err, &f):
		t.add(Trial{Alteration: "control", Result: TrialNotApplicable, What: f.What})
		return t.trials, nil
	case err != nil:
		return nil, err
	}
	if err := t.control(); err != nil {
		return nil, err
	}
	for _, alter := range []func(*trying) error{
		(*trying).alterSigned, (*trying).alterUnsigned, (*trying).alterCovered, (*trying).alterSession, (*trying).alterStored,
		(*trying).dropCollateral, (*trying).changeCollateral, (*trying).changeReference, (*trying).changeRule,
		(*trying).changeTime, (*trying).changeExpectation, (*trying).changeSignature,
	} {
		if err := alter(t); err != nil {
			return nil, err
		}
	}
	return t.trials, nil
}

func (t *trying) add(trial Trial) {
	trial.Index, trial.Before = t.row.Index, t.row.Outcome
	if trial.Falls == nil {
		trial.Falls = []string{}
	}
	t.trials = append(t.trials, trial)
}

// none says that a verdict has nothing to alter so.
func (t *trying) none(alteration, why string) error {
	t.add(Trial{Alteration: alteration, Result: TrialNotApplicable, What: why})
	return nil
}

// pick draws one of n places.
func (t *trying) pick(alteration, what string, n int) int {
	return int(counterDraw("assay/challenge/v1", t.seed, fmt.Sprintf("%d/%s/%s", t.row.Index, alteration, what), 0) % uint64(n))
}

// flip returns data with one drawn bit altered between two offsets, and says which.
func (t *trying) flip(alteration, what string, data []byte, from, to int) ([]byte, string) {
	bit := t.pick(alteration, what, 8*(to-from))
	data = bytes.Clone(data)
	data[from+bit/8] ^= 1 << (bit % 8)
	return data, fmt.Sprintf("byte 0x%x, bit %d", from+bit/8, bit%8)
}

// altered is what altered inputs lead to.
type altered struct {
	appraisal verifier.Appraisal
	verdict   policy.Verdict
	failed    bool // a rule room panicked
}

// run computes appraisal and verdict of altered inputs.
func (t *trying) run(evidence []byte, c attest.Case, p *policy.Policy, at canon.Time) (altered, error) {
	opened, err := verifier.Open(verifier.TypeBundle, evidence)
	if err != nil {
		return altered{}, err
	}
	var a altered
	var ok bool
	if a.appraisal, ok = attempt(func() verifier.Appraisal { return t.appraise(opened, c) }); ok {
		a.verdict, ok = attempt(func() policy.Verdict { return t.decide(slices.Concat(a.appraisal.Claims, t.o.party), p, at) })
	}
	a.failed = !ok
	return a, nil
}

// control computes the verdict of the unaltered inputs: without it, an alteration that is refused shows nothing.
func (t *trying) control() error {
	a, err := t.run(t.data, t.c, t.policy, t.o.result.Verdict.AsOf)
	if err != nil {
		return err
	}
	trial := Trial{Alteration: "control", After: a.verdict.Outcome.String(), Result: TrialEqual, What: "the unaltered inputs give the logged appraisal and verdict"}
	switch appraisal, err := a.appraisal.Canonical(); {
	case a.failed:
		trial.Result, trial.After, trial.What = TrialDiffers, "", "this build fails on the unaltered inputs"
	case err != nil || canon.Sum(appraisal) != t.o.appraisal.body:
		trial.Result, trial.What = TrialDiffers, "the unaltered inputs do not give the logged appraisal: "+appraisalDifference(t.o.logged, a.appraisal)
	case !sameCanonical(a.verdict, t.o.result.Verdict):
		trial.Result, trial.What = TrialDiffers, "the unaltered inputs do not give the logged verdict: "+verdictDifference(t.o.result.Verdict, a.verdict)
	}
	t.add(trial)
	return nil
}

func sameCanonical(a, b any) bool {
	x, err1 := canon.Marshal(a)
	y, err2 := canon.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// judgeAltered adds the trial of inputs that were altered and computed again. falls lists claims, as ID@SUBJECT, that may
// not stay affirmed.
func (t *trying) judgeAltered(trial Trial, falls []string, a altered, err error) error {
	if err != nil {
		return err
	}
	before, after := t.o.logged.Claims, a.appraisal.Claims
	trial.Falls, trial.After = falls, a.verdict.Outcome.String()
	changed := changes(before, after)
	var stay, fell []string
	for _, f := range falls {
		switch {
		case affirmed(after, f):
			stay = append(stay, f)
		case affirmed(before, f):
			fell = append(fell, f)
		}
	}
	asks := t.asks(before, falls)
	for _, f := range falls { // refused claims need not be affirmed, but may not be contradicted
		id, subject, _ := strings.Cut(f, "@")
		if c := after.Find(id, subject); c != nil && c.Status == claim.Contradicted && t.policy.Refuses(id) {
			asks = append(asks, id+" not contradicted")
		}
	}
	switch {
	case a.failed: // an error of ours; it accepts nothing
		trial.Result, trial.After, trial.What = TrialRefused, "", "this build fails on the altered input, which accepts nothing"
	case len(stay) > 0:
		trial.Result, trial.What = TrialAccepted, "still affirmed: "+strings.Join(stay, ", ")
	case len(asks) > 0 && a.verdict.Outcome == policy.Accept:
		trial.Result, trial.What = TrialAccepted, "still accept, though the policy asks for "+strings.Join(asks, ", ")
	case len(fell) > 0:
		trial.Result, trial.What = TrialRefused, "no longer affirmed: "+strings.Join(fell, ", ")
		if trial.After == t.row.Outcome {
			trial.What += fmt.Sprintf("; the verdict is rightly %s still: %s", trial.After, t.why(asks))
		}
	case len(changed) > 0:
		trial.Result, trial.What = TrialAllowed, "nothing had to fall; changed: "+strings.Join(changed, ", ")
	case len(falls) > 0:
		trial.Result, trial.What = TrialAllowed, "nothing was affirmed that could fall, and nothing changed"
	default:
		trial.Result, trial.What = TrialAllowed, "nothing had to fall, and nothing changed"
	}
	t.add(trial)
	return nil
}

// why says why a verdict stays though claims fell.
func (t *trying) why(asks []string) string {
	if len(asks) == 0 {
		return "the policy does not ask for them"
	}
	return "it was no accept"
}

// affirmed reports whether a set affirms a claim, given as ID@SUBJECT.
func affirmed(s claim.Set, name string) bool {
	id, subject, _ := strings.Cut(name, "@")
	c := s.Find(id, subject)
	return c != nil && c.Status == claim.Affirmed
}

// changes names the claims of which two sets say different things.
func changes(before, after claim.Set) (names []string) {
	for _, c := range changesOf(before, after) {
		names = append(names, named(c))
	}
	return names
}

// asks names the rules of the policy that ask for one of some claims, or for a claim that rests on one.
func (t *trying) asks(claims claim.Set, falls []string) (labels []string) {
	for _, c := range claims {
		require, _ := t.policy.Lines(c.ID, c.Subject)
		if len(require) == 0 || !reaches(claims, c, falls, map[string]bool{}) {
			continue
		}
		for _, line := range require {
			if !slices.Contains(labels, line.Label) {
				labels = append(labels, line.Label)
			}
		}
	}
	return labels
}

// reaches reports whether a claim is, or rests on, one of some names.
func reaches(claims claim.Set, c claim.Claim, names []string, seen map[string]bool) bool {
	if slices.Contains(names, named(c)) {
		return true
	}
	if seen[named(c)] {
		return false
	}
	seen[named(c)] = true
	for _, b := range c.Basis {
		id, subject, _ := claim.Base(b, c.Subject)
		if base := claims.Find(id, subject); base != nil && reaches(claims, *base, names, seen) {
			return true
		}
	}
	return false
}

// Text renders the report for people.
func (r ChallengeReport) Text() string {
	var b strings.Builder
	switch {
	case r.Outcome == Equal:
		b.WriteString("challenge   passed: nothing altered is accepted where it must not be\n")
	case r.Outcome == Faulty:
		b.WriteString("challenge   FAILED\n")
	default:
		b.WriteString("challenge   undecided\n")
	}
	fmt.Fprintf(&b, "log         %s, size %d, root %s, %s\nseed        %d\n", Printable(r.Origin), r.Size, r.Root, r.Trust, r.Seed)
	for _, k := range r.Results {
		fmt.Fprintf(&b, "trials      %d %s\n", k.Count, k.Kind)
	}
	at := int64(NoIndex)
	for _, t := range r.Trials {
		if t.Index != at {
			at = t.Index
			fmt.Fprintf(&b, "\nverdict of entry %d (%s)\n", t.Index, cmp.Or(t.Before, "?"))
		}
		fmt.Fprintf(&b, "  %-15s %-22s %s\n", t.Result, t.Alteration, Printable(t.What))
		if t.Where != "" {
			fmt.Fprintf(&b, "  %-15s %-22s %s\n", "", "", Printable(t.Where))
		}
	}
	fmt.Fprintf(&b, "\nmethod      %s\n", r.Method)
	return b.String()
}
