package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/engine"
)

// What bears the rules of this build is recomputed by this build. Anything else is recomputed by the engine that its
// result names: the module that the log holds, which must answer to the byte as well. What this build would decide today
// is said beside it. An engine is the operator's: one that says whatever he likes reproduces whatever he likes. So who
// trusts a log names its engines, and results by others do not pass.

// Engines runs the modules of a log. Package module has the one that runs them in a sandbox.
type Engines interface {
	Describe(ctx context.Context, module canon.Digest, blobs engine.Blobs) (engine.Description, error)
	Run(ctx context.Context, module canon.Digest, j engine.Job, blobs engine.Blobs) ([]byte, error)
}

// loggedEngine is a module that the log holds.
type loggedEngine struct {
	index int64 // of its first entry
	doc   ledger.Engine

	missing bool // its module, whole and unchanged

	once sync.Once // the module is asked what it is when the first result needs it
	what string    // what is wrong with it, or empty
	err  error     // why that could not be told
}

func (e *loggedEngine) name() string { return "engine " + e.doc.Module.Short() }

// learnEngine reads the entry of an engine. Its module must be there; whether it is what the entry says is asked when a
// result needs it.
func (r *replay) learnEngine(ctx context.Context, index int64, body []byte) error {
	e, err := ledger.ParseEngine(body)
	if err != nil {
		return wrong("%v", err)
	}
	earlier, ok := r.engines[e.Module]
	if !ok {
		_, err := r.blob(ctx, e.Module)
		r.engines[e.Module] = &loggedEngine{index: index, doc: e, missing: err != nil}
		return err
	}
	if !same(engine.Recorded(earlier.doc), engine.Recorded(e)) {
		return wrong("says otherwise of the module %s than entry %d", e.Module, earlier.index)
	}
	return nil
}

// engineOf returns the engine that a result names: one that was logged before, with the rules that the result and its
// appraisal bear. It returns nil where the result names none.
func (j *job) engineOf(named canon.Digest, rules []verifier.RoomRules, verdict int, index int64) (*loggedEngine, error) {
	if named.IsZero() {
		return nil, nil
	}
	e, ok := j.engines[named]
	switch {
	case !ok:
		return nil, wrong("names the engine %s, which has no entry", named)
	case e.index > index:
		return nil, wrong("names the engine %s, which was logged later, by entry %d", named, e.index)
	case !engine.Recorded(e.doc).ByRules(rules, verdict):
		return nil, wrong("made by the rules %v and policy rules %d; those of the engine that it names, of entry %d, are %v", rules, verdict, e.index, e.doc.Rules)
	}
	return e, nil
}

// engineOfAppraisal finds the engine of an appraisal, which names none itself: the verdicts on it do. What else is wrong
// with these is found when they are recomputed.
func (j *job) engineOfAppraisal(ctx context.Context, logged *verifier.Appraisal, a *appraisal) (*loggedEngine, error) {
	for _, v := range a.verdicts {
		body, err := j.blob(ctx, v.body)
		if err != nil {
			return nil, err
		}
		env, err := ledger.ParseEnvelope(body)
		if err != nil {
			continue
		}
		if r, err := policy.ParseResult(env.Payload); err == nil {
			return j.engineOf(r.Build.Engine, logged.Rules, r.Verdict.Rules, v.index)
		}
	}
	return nil, nil
}

// elsewhere has an engine of the log do a job. A nil engine cannot: the fault then says why, in the words that made names.
func (j *job) elsewhere(ctx context.Context, e *loggedEngine, t *Tally, made string, job engine.Job) ([]byte, error) {
	missing := ""
	switch {
	case e == nil:
		missing = "its result names no engine"
	case e.missing:
		missing = "the module of " + e.name() + " is not there"
	case j.o.Engines == nil:
		missing = "nothing is given that could run " + e.name()
	}
	if missing != "" {
		t.NotReproducible++
		return nil, wrong("not reproducible with this build: %s, and %s", made, missing)
	}
	e.once.Do(func() { e.what, e.err = j.describe(ctx, e) })
	if e.err != nil {
		return nil, e.err
	}
	if e.what != "" {
		t.Failed++
		return nil, wrong("%s, of entry %d: %s", e.name(), e.index, e.what)
	}
	data, err := j.o.Engines.Run(ctx, e.doc.Module, job, j.blob)
	var f *engine.Fault
	if errors.As(err, &f) {
		t.Failed++
		return nil, wrong("%s, of entry %d: %s", e.name(), e.index, f.What)
	}
	if err == nil {
		t.Replayed++
	}
	return data, err
}

// describe asks a module what it is and compares it with its entry.
func (j *job) describe(ctx context.Context, e *loggedEngine) (what string, err error) {
	d, err := j.o.Engines.Describe(ctx, e.doc.Module, j.blob)
	var f *engine.Fault
	switch {
	case errors.As(err, &f):
		return f.What, nil
	case err != nil:
		return "", err
	}
	if !same(d, engine.Recorded(e.doc)) {
		return fmt.Sprintf("its module says that it is version %.80q by %.80q with the rules %v", d.Version, d.Go, d.Rules), nil
	}
	return "", nil
}

func same(a, b engine.Description) bool {
	return a.Version == b.Version && a.Go == b.Go && slices.Equal(a.Rules, b.Rules)
}

// appraiseElsewhere has an appraisal by other rules recomputed by its own engine.
func (j *job) appraiseElsewhere(ctx context.Context, logged *verifier.Appraisal, body []byte, a *appraisal) error {
	e, err := j.engineOfAppraisal(ctx, logged, a)
	if err != nil {
		return err
	}
	made := fmt.Sprintf("made by the rules %v, this build has %v", logged.Rules, verifier.Rooms())
	data, err := j.elsewhere(ctx, e, &j.res.appraisals, made, engine.Job{
		Appraise: &engine.Appraise{EvidenceType: verifier.TypeBundle, Inputs: logged.Inputs, AsOf: logged.AsOf},
	})
	if err != nil {
		return err
	}
	j.res.used(e).appraisals++
	if bytes.Equal(data, body) {
		return nil
	}
	j.res.appraisals.Differ++
	again, err := verifier.ParseAppraisal(data)
	what := "differs: the engine answers with what is no appraisal"
	if err == nil {
		what = appraisalDifference(*logged, again)
	}
	j.res.differ(placed(Fault{What: e.name() + ": " + what}, a.index, ledger.KindAppraisal))
	return nil
}

// decideElsewhere has a verdict by other rules recomputed by its own engine, e.
func (j *job) decideElsewhere(ctx context.Context, e *loggedEngine, r policy.Result, v verdict) error {
	made := fmt.Sprintf("made by policy rules %d, this build has %d", r.Verdict.Rules, policy.Rules)
	data, err := j.elsewhere(ctx, e, &j.res.verdicts, made, engine.Job{
		Decide: &engine.Decide{Appraisal: r.Appraisal, Policy: v.policy, Party: r.Party, AsOf: r.Verdict.AsOf},
	})
	if err != nil {
		return err
	}
	j.res.used(e).verdicts++
	was, err := canon.Marshal(r.Verdict)
	if err != nil {
		return wrong("verdict: %v", err)
	}
	if bytes.Equal(data, was) {
		return nil
	}
	j.res.verdicts.Differ++
	var again policy.Verdict
	what := "differs: the engine answers with what is no verdict"
	if canon.Unmarshal(data, &again) == nil {
		what = verdictDifference(r.Verdict, again)
	}
	j.res.differ(placed(Fault{What: e.name() + ": " + what}, v.index, ledger.KindVerdict))
	return nil
}

// otherRules reports whether an appraisal, or a verdict on it, is by other rules than this build's.
func otherRules(a verifier.Appraisal, v policy.Verdict) bool {
	return v.Rules != policy.Rules || !slices.Equal(a.Rules, verifier.Rooms())
}

// decideToday says what this build would decide where another engine did: on what this build says of the evidence, and what
// was known of the party then.
func (j *job) decideToday(a *verifier.Appraisal, party claim.Set, r policy.Result, v verdict) {
	t := Otherwise{Index: v.index, Engine: r.Build.Engine, Was: r.Verdict.Outcome.String()}
	if a == nil {
		t.Why = "this build fails on the evidence"
		j.res.today = append(j.res.today, t)
		return
	}
	again, ok := attempt(func() policy.Verdict {
		return policy.Decide(slices.Concat(a.Claims, party), j.policies[v.policy], r.Verdict.AsOf)
	})
	switch {
	case !ok:
		t.Why = "this build fails on the claims"
	case again.Outcome == r.Verdict.Outcome:
		j.res.same++
		return
	default:
		t.Today, t.Why = again.Outcome.String(), firstOf(again.Reasons, r.Verdict.Reasons)
	}
	j.res.today = append(j.res.today, t)
}

// firstOf names the first reason of one verdict that another lacks, or else the first that it had and this one lacks.
func firstOf(now, then []policy.Reason) string {
	for _, side := range []struct {
		word      string
		has, want []policy.Reason
	}{{"", then, now}, {"no more: ", now, then}} {
		for _, r := range side.want {
			if !slices.Contains(side.has, r) {
				return fmt.Sprintf("%s%s of %s: %s", side.word, r.Claim, r.Subject, r.Observed)
			}
		}
	}
	return ""
}

// uses counts what an engine recomputed.
type uses struct{ appraisals, verdicts int64 }

func (res *result) used(e *loggedEngine) *uses {
	if res.engines == nil {
		res.engines = map[canon.Digest]*uses{}
	}
	u, ok := res.engines[e.doc.Module]
	if !ok {
		u = &uses{}
		res.engines[e.doc.Module] = u
	}
	return u
}

// seenEngines lists the engines of the log in its order, with what they did.
func (r *replay) seenEngines(did map[canon.Digest]uses) []SeenEngine {
	seen := []SeenEngine{}
	for d, e := range r.engines {
		seen = append(seen, SeenEngine{
			Index: e.index, Module: d, Version: e.doc.Version, Go: e.doc.Go, Trusted: r.vouched(d),
			Appraisals: did[d].appraisals, Verdicts: did[d].verdicts,
		})
	}
	slices.SortFunc(seen, func(a, b SeenEngine) int { return cmp.Compare(a.Index, b.Index) })
	return seen
}

// vouched reports whether the trust file names an engine.
func (r *replay) vouched(module canon.Digest) bool {
	return r.trust != nil && slices.Contains(r.trust.Engines, module)
}

// add counts more verdicts, and keeps those changed that come first in the log.
func (t *Today) add(same, changed int64, some []Otherwise) {
	t.Same, t.ChangedCount = t.Same+same, t.ChangedCount+changed
	if len(some) == 0 {
		return
	}
	t.Changed = append(t.Changed, some...)
	slices.SortStableFunc(t.Changed, func(a, b Otherwise) int { return cmp.Compare(a.Index, b.Index) })
	t.Changed = t.Changed[:min(len(t.Changed), MaxFaults)]
}

// mergeEngines adds up what engines of one log did in several ranges of it.
func mergeEngines(sum, more []SeenEngine) []SeenEngine {
	sum = slices.Clone(sum)
	for i, e := range more {
		sum[i].Appraisals += e.Appraisals
		sum[i].Verdicts += e.Verdicts
	}
	return sum
}

// unused returns the engines of a log without what they did.
func unused(engines []SeenEngine) []SeenEngine {
	engines = slices.Clone(engines)
	for i := range engines {
		engines[i].Appraisals, engines[i].Verdicts = 0, 0
	}
	return engines
}

// unvouched counts results that rest on engines that the trust file does not name.
func (r Report) unvouched() (n int64) {
	for _, e := range r.Engines {
		if !e.Trusted {
			n += e.Appraisals + e.Verdicts
		}
	}
	return n
}

// chooseEngine adds the entry of the engine that a verdict names. One that cannot be read names none.
func (r *replay) chooseEngine(ctx context.Context, v verdict, chosen map[int64]bool) error {
	body, err := r.blob(ctx, v.body)
	if r.wasErased(v.body) && err != nil {
		return nil // an erased result names no engine any more
	}
	if err != nil {
		return err
	}
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return nil
	}
	if res, err := policy.ParseResult(env.Payload); err == nil {
		if e, ok := r.engines[res.Build.Engine]; ok {
			chosen[e.index] = true
		}
	}
	return nil
}
