package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// result is what recomputing one piece of evidence, with all that rests on it, has shown.
type result struct {
	faults     []Fault
	differs    []Fault // those of faults that are differences
	appraisals Tally   // without Logged
	verdicts   Tally   // without Logged
	outcomes   counter
	roots      []canon.Digest // one for each appraisal that was recomputed
	answered   bool           // there is a verdict
	changes    []Change       // of verdicts that were judged once more
	times      counter        // what time.bounds says of appraisals, by status
	untimed    counter        // why it is unknown
	rows       []Row          // of the verdicts, where somebody asks

	engines map[canon.Digest]*uses // of the log, that recomputed something
	today   []Otherwise
	same    int64 // verdicts of other engines that this build would give as well
}

func newResult() *result { return &result{outcomes: counter{}, times: counter{}, untimed: counter{}} }

func (res *result) fault(f Fault) { res.faults = append(res.faults, f) }

func (res *result) differ(f Fault) {
	res.faults = append(res.faults, f)
	res.differs = append(res.differs, f)
}

// recompute judges every piece of evidence again, several at a time.
func (r *replay) recompute(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total := r.submissions.n
	sum := newSum()
	var mu sync.Mutex // guards next, done and Progress
	var next, done int
	for from := 0; from < total; from += maxAhead {
		results := make([]result, min(maxAhead, total-from))
		next = 0
		take := func() int {
			mu.Lock()
			defer mu.Unlock()
			next++
			return next - 1
		}
		finished := func() {
			mu.Lock()
			defer mu.Unlock()
			if done++; done%64 == 0 || done == total {
				r.o.Progress("recompute", int64(done), int64(total))
			}
		}
		var wg sync.WaitGroup
		for range min(r.o.Workers, len(results)) {
			wg.Go(func() {
				for i := take(); i < len(results) && ctx.Err() == nil; i = take() {
					ev, err := r.evidenceAt(ctx, from+i)
					if err == nil {
						results[i] = *newResult()
						j := job{replay: r, ev: ev, res: &results[i]}
						if r.o.Range.has(ev.index) {
							err = j.run(ctx)
						} else {
							results[i].answered = true // not asked
							err = j.present(ctx)
						}
					}
					if err == nil && r.rowsOf != nil {
						results[i].rows, err = r.rowsOf(ctx, ev)
					}
					if err != nil {
						cancel(err)
						return
					}
					finished()
				}
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, res := range results {
			r.add(sum, res)
		}
	}
	r.addUp(sum)
	return nil
}

// sum is what results come to, added up in the order of the log.
type sum struct {
	outcomes counter
	untimed  counter
	roots    map[canon.Digest]int64
	first    *Fault
	engines  map[canon.Digest]uses
}

func newSum() *sum {
	return &sum{outcomes: counter{}, untimed: counter{}, roots: map[canon.Digest]int64{}, engines: map[canon.Digest]uses{}}
}

func (r *replay) add(s *sum, res result) {
	for _, f := range res.faults {
		r.fault(f)
	}
	add(&r.report.Appraisals, res.appraisals)
	add(&r.report.Verdicts, res.verdicts)
	for _, row := range res.rows {
		r.seen(row)
	}
	for k, n := range res.outcomes {
		s.outcomes[k] += n
	}
	for _, d := range res.roots {
		s.roots[d]++
	}
	r.report.Time.Affirmed += res.times[claim.Affirmed.String()]
	r.report.Time.Contradicted += res.times[claim.Contradicted.String()]
	for k, n := range res.untimed {
		s.untimed[k] += n
	}
	for d, u := range res.engines {
		t := s.engines[d]
		s.engines[d] = uses{t.appraisals + u.appraisals, t.verdicts + u.verdicts}
	}
	r.report.Today.add(res.same, int64(len(res.today)), res.today)
	for i := range res.differs {
		if s.first == nil || res.differs[i].Index < s.first.Index {
			s.first = &res.differs[i]
		}
	}
	for _, c := range res.changes {
		r.report.Now.count(c)
	}
	if !res.answered {
		r.report.Unanswered++
	}
}

func (r *replay) addUp(s *sum) {
	r.report.Engines = r.seenEngines(s.engines)
	r.report.First = s.first
	r.report.Outcomes, r.report.Time.Unknown = s.outcomes.list(), s.untimed.list()
	for d, n := range s.roots {
		r.report.Roots = append(r.report.Roots, SeenRoots{d, isVendor(d), n})
	}
	slices.SortFunc(r.report.Roots, func(a, b SeenRoots) int { return slices.Compare(a.Digest[:], b.Digest[:]) })
}

func add(t *Tally, o Tally) {
	t.Replayed += o.Replayed
	t.Differ += o.Differ
	t.NotReproducible += o.NotReproducible
	t.Failed += o.Failed
}

// job recomputes one piece of evidence. One goroutine owns it.
type job struct {
	*replay
	ev  *evidence
	res *result

	today *verifier.Appraisal // what this build says where the appraisal at hand is by other rules; nil: it fails
}

// met records a fault met at an entry and passes on any other error.
func (j *job) met(err error, index int64, kind string) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	j.res.fault(placed(*f, index, kind))
	return nil
}

func (j *job) run(ctx context.Context) error {
	data, err := j.blob(ctx, j.ev.body)
	if err != nil {
		j.res.answered = slices.ContainsFunc(j.ev.appraisals, func(a *appraisal) bool { return len(a.verdicts) > 0 })
		if err := j.met(err, j.ev.index, ledger.KindEvidence); err != nil {
			return err
		}
		return j.present(ctx)
	}
	opened, err := verifier.Open(verifier.TypeBundle, data)
	if err != nil {
		panic("audit: internal error: " + err.Error())
	}
	if err := j.checkAnswer(opened, data); err != nil {
		j.res.fault(placed(*err, j.ev.index, ledger.KindEvidence))
	}
	decided := map[canon.Digest]int64{} // index of the verdict by each policy
	for _, a := range j.ev.appraisals {
		j.today = nil
		logged, err := j.appraise(ctx, opened, a)
		if err := j.met(err, a.index, ledger.KindAppraisal); err != nil {
			return err
		}
		for _, v := range a.verdicts {
			if earlier, ok := decided[v.policy]; ok {
				j.res.fault(placed(Fault{What: fmt.Sprintf("a second verdict on this evidence by the policy of the verdict of entry %d", earlier)}, v.index, ledger.KindVerdict))
			} else {
				decided[v.policy] = v.index
			}
			if err := j.met(j.decide(ctx, logged, a, v), v.index, ledger.KindVerdict); err != nil {
				return err
			}
			j.res.answered = true
		}
		if j.knowing != nil && logged != nil && len(logged.Rules) > 0 {
			if err := j.met(j.judgeNow(ctx, opened, a, logged), a.index, ledger.KindAppraisal); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAnswer repeats what was checked at the door: the bundle answers the challenge, and its session key signed it.
func (j *job) checkAnswer(opened *verifier.Opened, data []byte) *Fault {
	b, signed := opened.Bundle(), opened.SignedBySession()
	if b == nil { // the appraisal says why; the door only asked for a bundle
		env, err := ledger.ParseEnvelope(data)
		if err != nil {
			return &Fault{What: err.Error()}
		}
		parsed, bySession, err := attest.OpenBundle(env)
		if err != nil {
			return &Fault{What: err.Error()}
		}
		b, signed = &parsed, bySession
	}
	switch {
	case j.ev.challenge != nil && !j.ev.challenge.absent && b.Challenge != j.ev.challenge.digest:
		return &Fault{What: fmt.Sprintf("answers the challenge %s, its entry names %s", b.Challenge, j.ev.challenge.digest)}
	case !signed:
		return &Fault{What: "not signed by the session key that the bundle names"}
	}
	return nil
}

// appraise computes an appraisal again and returns the logged one, or nil if there is none to decide on.
func (j *job) appraise(ctx context.Context, opened *verifier.Opened, a *appraisal) (*verifier.Appraisal, error) {
	body, err := j.blob(ctx, a.body)
	if err != nil {
		return nil, err
	}
	logged, err := verifier.ParseAppraisal(body)
	if err != nil {
		return nil, wrong("%v", err)
	}
	if logged.AsOf < j.ev.time || logged.AsOf > a.time {
		j.res.fault(placed(Fault{What: fmt.Sprintf("as of %s, the evidence is of %s and the entry of %s", logged.AsOf, j.ev.time, a.time)}, a.index, ledger.KindAppraisal))
	}
	if err := j.met(j.bounds(ctx, a, logged.AsOf), a.index, ledger.KindAppraisal); err != nil {
		return nil, err
	}
	if len(logged.Rules) == 0 { // what a verifier logs where its own rules failed
		j.res.appraisals.NotReproducible++
		return nil, wrong("not reproducible with this build: made by no rules, the verifier failed on the evidence")
	}
	c, err := j.rebuild(ctx, logged, a)
	if err != nil {
		return &logged, err
	}
	j.checkNewest(logged, a)
	j.checkSightings(opened, c, a)
	j.checkHolders(opened, c, logged, a)
	if slices.Equal(logged.Rules, verifier.Rooms()) { // what other rules prove, this build does not say
		j.checkShown(opened, c, logged, a)
	}
	if err := j.checkAge(ctx, c.Expect, a); err != nil {
		return &logged, err
	}
	again, ok := attempt(func() verifier.Appraisal { return verifier.Appraise(opened, c) })
	if !slices.Equal(logged.Rules, verifier.Rooms()) {
		if ok {
			j.today = &again
		}
		j.res.roots = append(j.res.roots, c.Roots.Digest())
		return &logged, j.appraiseElsewhere(ctx, &logged, body, a)
	}
	if !ok {
		j.res.appraisals.Failed++
		return &logged, wrong("this build fails on the evidence")
	}
	j.today = &logged
	j.res.appraisals.Replayed++
	j.res.roots = append(j.res.roots, c.Roots.Digest())
	data, err := again.Canonical()
	if err != nil {
		return &logged, wrong("recomputed appraisal: %v", err)
	}
	if !bytes.Equal(data, body) {
		j.res.appraisals.Differ++
		j.res.differ(placed(Fault{What: appraisalDifference(logged, again)}, a.index, ledger.KindAppraisal))
	}
	return &logged, nil
}

// rebuild makes the case of an appraisal from the inputs that it names. It checks that they are those that it may have:
// the challenge that was issued, and references and collateral that stood in the log.
func (j *job) rebuild(ctx context.Context, a verifier.Appraisal, at *appraisal) (attest.Case, error) {
	c := attest.Case{At: a.AsOf, Memory: j.o.Memory}
	var seen struct{ evidence, expect, roots int }
	for _, in := range a.Inputs {
		var err error
		switch in.Kind {
		case verifier.InputEvidence:
			seen.evidence++
			if in.Digest != at.evidence {
				return c, wrong("judges the evidence %s, its entry names %s", in.Digest, at.evidence)
			}
		case verifier.InputExpect:
			seen.expect++
			c.Expect, err = j.expectation(ctx, in.Digest, at.index)
		case verifier.InputReferences:
			var l attest.References
			if l, err = j.references.get(in.Digest, func() (attest.References, int, error) {
				return read(ctx, j.replay, in, attest.ParseReferences)
			}); err == nil {
				err = j.standsBefore(logged{ledger.KindReference, in.Digest}, in, at.index)
			}
			c.References = append(c.References, l)
		case verifier.InputRoots:
			seen.roots++
			c.Roots, err = j.roots.get(in.Digest, func() (attest.Roots, int, error) { return read(ctx, j.replay, in, attest.ParseRoots) })
		default:
			var data []byte
			if data, err = j.collateral.get(in.Digest, func() ([]byte, int, error) {
				return read(ctx, j.replay, in, func(b []byte) ([]byte, error) { return b, nil })
			}); err == nil {
				err = j.standsBefore(logged{in.Kind, in.Digest}, in, at.index)
			}
			c.Collateral = append(c.Collateral, attest.Collateral{Kind: in.Kind, Data: data})
		}
		if err != nil {
			return c, err
		}
	}
	if seen.evidence != 1 || seen.expect != 1 || seen.roots != 1 {
		return c, wrong("names %d evidence, %d expectations and %d root sets among its inputs, want one each", seen.evidence, seen.expect, seen.roots)
	}
	return c, nil
}

// read returns an input of an appraisal, parsed, and its size.
func read[T any](ctx context.Context, r *replay, in verifier.Input, parse func([]byte) (T, error)) (v T, size int, err error) {
	data, err := r.blob(ctx, in.Digest)
	if err != nil {
		return v, 0, err
	}
	if v, err = parse(data); err != nil {
		return v, 0, wrong("input %s %s: %v", in.Kind, in.Digest, err)
	}
	return v, len(data), nil
}

// expectation reads what the verifier expected of the appraisal at an index. It must expect the very challenge that the
// evidence was asked with, and may know of no activation that the log did not record before.
func (j *job) expectation(ctx context.Context, digest canon.Digest, index int64) (attest.Expect, error) {
	e, _, err := read(ctx, j.replay, verifier.Input{Kind: verifier.InputExpect, Digest: digest}, attest.ParseExpect)
	if err != nil {
		return e, err
	}
	if e.Challenge == nil {
		return e, wrong("expects no challenge")
	}
	body, err := canon.Marshal(*e.Challenge)
	if err != nil || j.ev.challenge == nil || canon.Sum(body) != j.ev.challenge.body {
		return e, wrong("expects another challenge than the evidence was asked with")
	}
	for _, a := range e.Activations {
		enrolment, err := enrolmentOf(e.Challenge.Node, a)
		if err != nil {
			return e, wrong("activation: %v", err)
		}
		in := verifier.Input{Kind: "activation", Digest: enrolment}
		if err := j.standsBefore(logged{ledger.KindEnrolment, in.Digest}, in, index); err != nil {
			return e, err
		}
	}
	return e, nil
}

// enrolmentOf names the entry's body that must record an activation.
func enrolmentOf(node string, a attest.Activation) (canon.Digest, error) {
	body, err := canon.Marshal(ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisActivation, EK: a.EK, AK: a.AK, Verifier: a.Verifier})
	return canon.Sum(body), err
}

func (j *job) standsBefore(item logged, in verifier.Input, index int64) error {
	first, ok := j.items[item]
	switch {
	case !ok:
		return wrong("input %s %s has no entry of its own", in.Kind, in.Digest)
	case first > index:
		return wrong("input %s %s was logged later, by entry %d", in.Kind, in.Digest, first)
	}
	return nil
}

// openResult reads what a verdict says. It checks that a result key that stood at the time of the entry
// signed it, and that key alone, and that it names what
// its entry names. It does not recompute.
func (r *replay) openResult(ctx context.Context, a *appraisal, v verdict) (policy.Result, error) {
	body, err := r.blob(ctx, v.body)
	if err != nil {
		return policy.Result{}, err
	}
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return policy.Result{}, wrong("%v", err)
	}
	if env.PayloadType != policy.ResultType {
		return policy.Result{}, wrong("payload type %.80q is not known to this build, want %q", env.PayloadType, policy.ResultType)
	}
	if _, err := r.keys.SignerOf(env, ledger.UseResult, v.time); err != nil {
		return policy.Result{}, wrong("%v", err)
	}
	res, err := policy.ParseResult(env.Payload)
	if err != nil {
		return policy.Result{}, wrong("%v", err)
	}
	switch {
	case res.Evidence != a.evidence:
		return res, wrong("on the evidence %s, its appraisal is of %s", res.Evidence, a.evidence)
	case res.Appraisal != a.body:
		return res, wrong("names the appraisal %s, its entry names %s", res.Appraisal, a.body)
	case res.Policy != v.policy:
		return res, wrong("names the policy %s, its entry names %s", res.Policy, v.policy)
	}
	return res, nil
}

// timely checks that a verdict was made no earlier than the appraisal that it decides on, and no later than its entry.
// Without an appraisal, nil, there are no claims to decide on.
func timely(res policy.Result, logged *verifier.Appraisal, v verdict) error {
	switch {
	case logged == nil:
		return wrong("not replayed: its appraisal has no claims to decide on")
	case res.Verdict.AsOf < logged.AsOf || res.Verdict.AsOf > v.time:
		return wrong("as of %s, the appraisal is as of %s and the entry of %s", res.Verdict.AsOf, logged.AsOf, v.time)
	}
	return nil
}

// decide computes a verdict again, from the claims as they were logged.
func (j *job) decide(ctx context.Context, logged *verifier.Appraisal, a *appraisal, v verdict) error {
	r, err := j.openResult(ctx, a, v)
	if err == nil && logged == nil {
		_, err = j.blob(ctx, a.body)
	}
	if err == nil {
		err = timely(r, logged, v)
	}
	if err == nil && j.policies[v.policy] == nil {
		_, err = j.blob(ctx, v.policy)
	}
	if err != nil {
		return err
	}
	j.res.outcomes[r.Verdict.Outcome.String()]++
	if err := j.met(j.checkParty(r, v), v.index, ledger.KindVerdict); err != nil {
		return err
	}
	party, err := j.told(ctx, r)
	if err != nil {
		return err
	}
	engine, err := j.engineOf(r.Build.Engine, logged.Rules, r.Verdict.Rules, v.index)
	if err != nil {
		return err
	}
	if otherRules(*logged, r.Verdict) {
		j.decideToday(j.today, party, r, v)
	}
	if r.Verdict.Rules != policy.Rules {
		return j.decideElsewhere(ctx, engine, r, v)
	}
	again, ok := attempt(func() policy.Verdict {
		return policy.Decide(slices.Concat(logged.Claims, party), j.policies[v.policy], r.Verdict.AsOf)
	})
	if !ok {
		j.res.verdicts.Failed++
		return wrong("this build fails on the claims")
	}
	j.res.verdicts.Replayed++
	was, err1 := canon.Marshal(r.Verdict)
	is, err2 := canon.Marshal(again)
	if err := cmp.Or(err1, err2); err != nil {
		return wrong("verdict: %v", err)
	}
	if !bytes.Equal(was, is) {
		j.res.verdicts.Differ++
		j.res.differ(placed(Fault{What: verdictDifference(r.Verdict, again)}, v.index, ledger.KindVerdict))
	}
	return nil
}

// attempt runs a rule room. One that panics has failed on what it was given: a fault of the build, and no reason to lose
// the rest of the report.
func attempt[T any](rule func() T) (v T, ok bool) {
	defer func() { ok = recover() == nil }()
	return rule(), true
}

// appraisalDifference names the first thing in which a recomputed appraisal differs from the logged one.
func appraisalDifference(logged, again verifier.Appraisal) string {
	if !slices.Equal(logged.Inputs, again.Inputs) {
		return "differs: inputs are listed otherwise"
	}
	for i := range max(len(logged.Claims), len(again.Claims)) {
		if i >= len(logged.Claims) {
			return fmt.Sprintf("differs: logged without %s, recomputed %s", named(again.Claims[i]), again.Claims[i].Status)
		}
		if i >= len(again.Claims) {
			return fmt.Sprintf("differs: logged with %s, recomputed without", named(logged.Claims[i]))
		}
		l, a := logged.Claims[i], again.Claims[i]
		was, err1 := canon.Marshal(l)
		is, err2 := canon.Marshal(a)
		switch {
		case err1 != nil || err2 != nil || bytes.Equal(was, is):
		case named(l) != named(a):
			return fmt.Sprintf("differs: logged %s where %s was recomputed", named(l), named(a))
		case l.Status != a.Status:
			return fmt.Sprintf("differs: %s logged %s, recomputed %s", named(l), l.Status, a.Status)
		default:
			return fmt.Sprintf("differs: %s logged as %s, recomputed as %s", named(l), was, is)
		}
	}
	return "differs: needs are listed otherwise"
}

func named(c claim.Claim) string { return c.ID + "@" + c.Subject }

// verdictDifference names the first thing in which a recomputed verdict differs from the logged one.
func verdictDifference(logged, again policy.Verdict) string {
	switch {
	case logged.Outcome != again.Outcome:
		return fmt.Sprintf("differs: verdict logged %s, recomputed %s", logged.Outcome, again.Outcome)
	case logged.Policy != again.Policy:
		return fmt.Sprintf("differs: policy logged as %s, recomputed as %s", logged.Policy.Name, again.Policy.Name)
	case len(logged.Reasons) != len(again.Reasons):
		return fmt.Sprintf("differs: %d reasons logged, %d recomputed", len(logged.Reasons), len(again.Reasons))
	}
	for i, l := range logged.Reasons {
		if a := again.Reasons[i]; l != a {
			return fmt.Sprintf("differs: reason %s logged as %+v, recomputed as %+v", l.Rule, l, a)
		}
	}
	return fmt.Sprintf("differs: scope %s with %d rules open logged, %s with %d recomputed", logged.Scope, len(logged.Open), again.Scope, len(again.Open))
}

// cache keeps parsed inputs that many appraisals share. Whether something is in it changes no result.
type cache[V any] struct {
	limit int // bytes; zero: maxCachedBytes
	mu    sync.Mutex
	items map[canon.Digest]V
	bytes int
}

// get returns what is kept under a digest, or what load returns. Two goroutines may load the same.
func (c *cache[V]) get(digest canon.Digest, load func() (V, int, error)) (V, error) {
	c.mu.Lock()
	v, ok := c.items[digest]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	v, size, err := load()
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items == nil || c.bytes+size > cmp.Or(c.limit, maxCachedBytes) {
		c.items, c.bytes = map[canon.Digest]V{}, 0
	}
	c.items[digest], c.bytes = v, c.bytes+size
	return v, nil
}
