package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// history is what reading the log in order teaches: what stands where, and what rests on what. It is complete, and then
// only read, before anything is recomputed.
type history struct {
	kinds      counter
	tails      map[string]ledger.Tail
	bodies     map[canon.Digest]int64 // first index of each body
	policies   map[canon.Digest]*policy.Policy
	items      map[logged]int64 // first index of each reference list, item of collateral and enrolment
	challenges map[canon.Digest]*challenge
	nonces     map[canon.Digest]int64 // index of each N
	evidence   map[canon.Digest]*evidence
	appraisals map[canon.Digest]*appraisal
	jobs       []*evidence // in log order
	uncovered  uncovered

	wanted map[canon.Digest]*found // commitments of promises
	acts   []ledger.Act            // holds, releases and erasures
}

// logged names an input of an appraisal that has an entry of its own.
type logged struct {
	kind   string
	digest canon.Digest
}

type challenge struct {
	absent   bool // its body is not there: of the rest, only index, answered and by are known
	index    int64
	digest   canon.Digest // N
	node     string
	issued   canon.Time
	expires  canon.Time
	answered bool
	by       int64 // index of the evidence, if answered
}

type evidence struct {
	index      int64
	body       canon.Digest
	time       canon.Time
	challenge  *challenge
	asked      canon.Digest // body of the challenge
	appraisals []*appraisal
}

type appraisal struct {
	index    int64
	body     canon.Digest
	time     canon.Time
	evidence canon.Digest // body
	verdicts []verdict
}

type verdict struct {
	index  int64
	body   canon.Digest
	time   canon.Time
	policy canon.Digest // body
}

func newHistory(promises []GivenPromise) history {
	h := history{
		kinds: counter{}, tails: map[string]ledger.Tail{}, bodies: map[canon.Digest]int64{}, policies: map[canon.Digest]*policy.Policy{},
		items: map[logged]int64{}, challenges: map[canon.Digest]*challenge{}, nonces: map[canon.Digest]int64{},
		evidence: map[canon.Digest]*evidence{}, appraisals: map[canon.Digest]*appraisal{}, wanted: map[canon.Digest]*found{},
	}
	for _, p := range promises {
		if c, ok := p.commitment(); ok {
			h.wanted[c] = &found{}
		}
	}
	return h
}

// read goes through the whole log. It reports whether the tree is that of the checkpoint: if not, nothing that was read is
// worth recomputing.
func (r *replay) read(ctx context.Context, tree ledger.Tree) (bool, error) {
	src := &attentive{Source: r.src}
	err := ledger.Walk(ctx, src, tree, func(index int64, commitment canon.Digest) error {
		if index%ledger.TileWidth == 0 {
			r.o.Progress("read", index, tree.Size)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return r.visit(ctx, index, commitment)
	})
	r.o.Progress("read", tree.Size, tree.Size)
	var own *Fault
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case src.failed || errors.As(err, &own):
		return false, err
	}
	part, what, ok := strings.Cut(err.Error(), ": ")
	if !ok || !strings.HasPrefix(part, "tile/") {
		part, what = partCheckpoint, err.Error()
	}
	r.fault(Fault{Part: part, Index: NoIndex, What: what})
	return false, nil
}

// attentive notes whether a source failed to tell, as opposed to not having something.
type attentive struct {
	ledger.Source
	failed bool // owned by the goroutine that walks
}

func (a *attentive) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	data, err := a.Source.Tile(ctx, t)
	a.failed = a.failed || err != nil && !isNotExist(err)
	return data, err
}

// visit reads one entry. Only a source that could not tell is an error.
func (r *replay) visit(ctx context.Context, index int64, commitment canon.Digest) error {
	part := fmt.Sprintf("entry %d", index)
	opening, err := r.blob(ctx, commitment)
	var f *Fault
	if errors.As(err, &f) {
		f.What += fmt.Sprintf("; it opens leaf %d, in %s", index, bundleOf(index, r.report.Size).Path())
	}
	if err != nil {
		return r.record(err, index, "")
	}
	_, e, err := ledger.ParseOpening(opening)
	if err != nil {
		r.fault(Fault{Part: part, Index: index, What: err.Error()})
		if data, err := canon.Marshal(e); err == nil {
			r.tails[e.Stream] = ledger.Tail{Next: e.Sequence + 1, Last: canon.Sum(data)}
		}
		return nil
	}
	fault := func(format string, args ...any) {
		r.fault(Fault{Part: part, Index: index, Kind: e.Kind, What: fmt.Sprintf(format, args...)})
	}
	r.kinds[e.Kind]++
	r.latest = max(r.latest, e.Time)
	r.expectHeads(index, e)
	tail, err := r.tails[e.Stream].Extend(e)
	if err != nil {
		fault("%v", err)
		data, err := e.Canonical()
		if err != nil {
			panic("audit: internal error: " + err.Error())
		}
		tail = ledger.Tail{Next: e.Sequence + 1, Last: canon.Sum(data)} // one gap is one fault
	}
	r.tails[e.Stream] = tail
	if w, ok := r.wanted[commitment]; ok {
		*w = found{true, index, e}
	}
	if (index == 0) != (e.Kind == ledger.KindKeyset) {
		fault("the keyset is entry 0 and stands nowhere else")
	}
	for _, ref := range e.Refs {
		if _, ok := r.bodies[ref]; !ok {
			fault("rests on %s, which is the body of no earlier entry", ref)
		}
	}
	if _, ok := r.bodies[e.Body]; !ok {
		r.bodies[e.Body] = index
	}
	return r.record(r.learn(ctx, index, e), index, e.Kind)
}

// bundleOf returns the entry bundle that holds a leaf.
func bundleOf(index, size int64) ledger.Tile {
	first := index - index%ledger.TileWidth
	return ledger.Tile{Level: ledger.EntriesLevel, Index: first / ledger.TileWidth, Width: int(min(ledger.TileWidth, size-first))}
}

// record turns a fault that a check found into one of the report, and passes on any other error.
func (r *replay) record(err error, index int64, kind string) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	r.fault(placed(*f, index, kind))
	return nil
}

// placed says at which entry a fault was met.
func placed(f Fault, index int64, kind string) Fault {
	if f.Part == "" {
		f.Part = fmt.Sprintf("entry %d", index)
	}
	f.Index, f.Kind = index, kind
	return f
}

// wrong returns a fault of the entry at hand.
func wrong(format string, args ...any) error { return &Fault{What: fmt.Sprintf(format, args...)} }

// learn checks what an entry says against what stands before it. The bodies of evidence, appraisals and verdicts are left
// for later.
func (r *replay) learn(ctx context.Context, index int64, e ledger.Entry) error {
	switch e.Kind {
	case ledger.KindEvidence:
		return r.learnEvidence(index, e)
	case ledger.KindAppraisal:
		r.report.Appraisals.Logged++
		return r.learnAppraisal(index, e)
	case ledger.KindVerdict:
		r.report.Verdicts.Logged++
		return r.learnVerdict(index, e)
	}
	body, err := r.blob(ctx, e.Body)
	if err != nil {
		if isAbsent(err) {
			r.learnAbsent(index, e)
		}
		return err
	}
	switch e.Kind {
	case ledger.KindErasure:
		var act ledger.Erasure
		if act, err = ledger.ParseErasure(body); err == nil {
			r.acts = append(r.acts, ledger.Act{Index: index, Time: e.Time, Erasure: act})
		}
	case ledger.KindKeyset:
		_, err = ledger.ParseKeyset(body)
	case ledger.KindPolicy:
		var p *policy.Policy
		if p, err = policy.ParseCanonical(body); err == nil {
			r.policies[e.Body] = p
		}
	case ledger.KindReference:
		if _, err = parseReferences(body); err == nil {
			r.first(logged{ledger.KindReference, e.Body}, index)
		}
	case ledger.KindCollateral:
		var c ledger.Collateral
		if c, err = ledger.ParseCollateral(body); err == nil {
			r.first(logged{c.Kind, c.Data}, index)
			if _, err := r.blob(ctx, c.Data); err != nil {
				return err
			}
		}
	case ledger.KindEnrolment:
		if _, err = ledger.ParseEnrolment(body); err == nil {
			r.first(logged{ledger.KindEnrolment, e.Body}, index)
		}
	case ledger.KindChallenge:
		err = r.learnChallenge(index, e, body)
	case ledger.KindHeads:
		err = r.learnHeads(ctx, e, body)
	default:
		panic("audit: internal error: no rule for " + e.Kind)
	}
	var f *Fault
	if err != nil && !errors.As(err, &f) {
		return wrong("%v", err)
	}
	return err
}

func (r *replay) first(item logged, index int64) {
	if _, ok := r.items[item]; !ok {
		r.items[item] = index
	}
}

func parseReferences(body []byte) (attest.References, error) {
	var l attest.References
	if err := canon.Unmarshal(body, &l); err != nil {
		return l, fmt.Errorf("references: %w", err)
	}
	return l, l.Check()
}

func (r *replay) learnChallenge(index int64, e ledger.Entry, body []byte) error {
	var c attest.Challenge
	if err := canon.Unmarshal(body, &c); err != nil {
		return wrong("challenge: %v", err)
	}
	if err := (attest.Expect{Type: attest.ExpectType, Challenge: &c}).Check(); err != nil {
		return wrong("%v", err)
	}
	n := c.Digest()
	if earlier, ok := r.nonces[n]; ok {
		return wrong("the challenge %s was issued by entry %d already", n, earlier)
	}
	r.nonces[n] = index
	r.challenges[e.Body] = &challenge{index: index, digest: n, node: c.Node, issued: c.Issued, expires: c.Expires}
	ours := func(k ledger.Key) bool { return k.Use == ledger.UseResult && slices.Equal(k.SPKI, c.ResultKey) }
	switch {
	case !slices.ContainsFunc(r.keys.Keys, ours):
		return wrong("made for the result key %s, which is not one of this log's", fingerprint(c.ResultKey))
	case c.Issued > e.Time || c.Expires < c.Issued:
		return wrong("issued %s, expires %s, logged %s", c.Issued, c.Expires, e.Time)
	}
	return nil
}

func (r *replay) learnEvidence(index int64, e ledger.Entry) error {
	ev := &evidence{index: index, body: e.Body, time: e.Time}
	if _, ok := r.evidence[e.Body]; !ok {
		r.evidence[e.Body] = ev
		r.jobs = append(r.jobs, ev)
	}
	if len(e.Refs) != 1 || r.challenges[e.Refs[0]] == nil {
		return wrong("refs do not name the one challenge that it answers")
	}
	c := r.challenges[e.Refs[0]]
	ev.challenge, ev.asked = c, e.Refs[0]
	if c.answered {
		return wrong("answers the challenge of entry %d, which entry %d answered already", c.index, c.by)
	}
	c.answered, c.by = true, index
	switch {
	case c.absent:
	case e.Stream != ledger.NodeStream(c.node):
		return wrong("in stream %q, the challenge was made for node %q", e.Stream, c.node)
	case e.Time < c.issued || e.Time > c.expires:
		return wrong("received %s, the challenge stood from %s to %s", e.Time, c.issued, c.expires)
	}
	return nil
}

func (r *replay) learnAppraisal(index int64, e ledger.Entry) error {
	if len(e.Refs) != 1 || r.evidence[e.Refs[0]] == nil {
		return wrong("refs do not name the one piece of evidence that it judges")
	}
	if a := r.appraisals[e.Body]; a != nil {
		return wrong("the same appraisal as entry %d", a.index)
	}
	ev := r.evidence[e.Refs[0]]
	a := &appraisal{index: index, body: e.Body, time: e.Time, evidence: ev.body}
	r.appraisals[e.Body] = a
	ev.appraisals = append(ev.appraisals, a)
	return nil
}

func (r *replay) learnVerdict(index int64, e ledger.Entry) error {
	if len(e.Refs) != 2 || r.appraisals[e.Refs[0]] == nil || !r.knowsPolicy(e.Refs[1]) {
		return wrong("refs do not name the appraisal and the policy that it follows from")
	}
	a := r.appraisals[e.Refs[0]]
	a.verdicts = append(a.verdicts, verdict{index, e.Body, e.Time, e.Refs[1]})
	return nil
}
