package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// history is what reading the log in order teaches: what stands where, and what rests on what. It is complete, and then
// only read, before anything is recomputed.
//
// Of each entry it keeps where it stands and what it belongs to, about 50 bytes, and reads the rest again when it is due.
type history struct {
	kinds       counter
	tails       map[string]ledger.Tail
	bodies      places // first entry of each kind with a body
	policies    map[canon.Digest]*policy.Policy
	items       map[logged]int64 // first index of each reference list, item of collateral and enrolment
	nonces      places           // challenges by their N
	answers     places           // evidence by the index of the challenge that it answers
	submissions rows[submission] // in log order, as the next two
	appraisals  rows[appraisalRow]
	verdicts    rows[verdictRow]
	again       *reader
	uncovered   uncovered
	issues      issues
	holders     holders
	views       rows[view]   // in log order; one that the challenge before named as well is left out
	viewed      canon.Digest // C of the last

	engines map[canon.Digest]*loggedEngine // by module

	vetted

	benchmarks map[canon.Digest]*benchmark // by the challenge's record

	wanted map[canon.Digest]*found // commitments of promises
}

// logged names an input of an appraisal that has an entry of its own.
type logged struct {
	kind   string
	digest canon.Digest
}

type challenge struct {
	absent     bool // its body is not there: of the rest only index and body are known
	index      int64
	body       canon.Digest
	digest     canon.Digest // N
	node       string
	checkpoint canon.Digest // C
	issued     canon.Time
	expires    canon.Time
}

type evidence struct {
	index      int64
	body       canon.Digest
	time       canon.Time
	challenge  *challenge // nil: none that stands
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
		kinds: counter{}, tails: map[string]ledger.Tail{}, policies: map[canon.Digest]*policy.Policy{},
		items: map[logged]int64{}, again: &reader{}, issues: newIssues(), holders: newHolders(), wanted: map[canon.Digest]*found{},
		engines: map[canon.Digest]*loggedEngine{}, benchmarks: map[canon.Digest]*benchmark{},
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
	src := &attentive{Source: r.src, again: r.again}
	var untold error // of a source that could not tell of an entry
	err := ledger.Walk(ctx, src, tree, func(index int64, commitment canon.Digest) error {
		if index%ledger.TileWidth == 0 {
			r.o.Progress("read", index, tree.Size)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		untold = r.visit(ctx, index, commitment)
		return untold
	})
	r.o.Progress("read", tree.Size, tree.Size)
	switch {
	case err == nil:
		return true, r.record(r.checkResumed(), tree.Size-1, ledger.KindCarried)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case src.failed || untold != nil:
		return false, err
	}
	part, what, ok := strings.Cut(err.Error(), ": ")
	if !ok || !strings.HasPrefix(part, "tile/") {
		part, what = partCheckpoint, err.Error()
	}
	r.fault(Fault{Part: part, Index: NoIndex, What: what})
	return false, nil
}

// attentive notes whether a source failed to tell, as opposed to not having something, and what entry bundles it gave.
type attentive struct {
	ledger.Source
	failed bool // owned by the goroutine that walks
	again  *reader
}

func (a *attentive) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	data, err := a.Source.Tile(ctx, t)
	a.failed = a.failed || err != nil && !isNotExist(err)
	if err == nil && t.Level == ledger.EntriesLevel && t.Index == int64(len(a.again.sums)) {
		a.again.sums = append(a.again.sums, canon.Sum(data))
	}
	return data, err
}

// visit reads one entry. Only a source that could not tell is an error.
func (r *replay) visit(ctx context.Context, index int64, commitment canon.Digest) error {
	if r.outside(index, commitment) {
		return nil
	}
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
	if r.each != nil {
		r.each(index, e)
	}
	r.latest = max(r.latest, e.Time)
	if r.scope == nil {
		r.expectHeads(index, e)
	}
	tail, err := r.extend(r.tails[e.Stream], e)
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
		*w = found{there: true, index: index, entry: e}
	}
	switch {
	case index == 0:
		r.opens = e
		if e.Kind != ledger.KindKeyset {
			fault("entry 0 is not a keyset")
		}
	case r.closed != NoIndex:
		fault("an entry after the one that closes the log, entry %d", r.closed)
	}
	if r.asked == NoIndex && e.Kind == ledger.KindChallenge {
		r.asked = index
	}
	r.links.visit(e)
	for _, ref := range e.Refs {
		if index == 0 && len(r.before) > 0 {
			break // it names a keyset of the log before, see learnKeyset
		}
		_, _, ok, err := r.find(ctx, "", ref)
		if err := r.record(err, index, e.Kind); err != nil {
			return err
		}
		// In a scope the evidence by which a device was enrolled may be of somebody else.
		if !ok && (r.scope == nil || e.Kind != ledger.KindEnrolment) {
			fault("rests on %s, which is the body of no earlier entry", ref)
		}
	}
	if r.book.Owes() && !isVetting(e.Kind) {
		fault("%v", r.book.Missed())
	}
	if e.Kind != ledger.KindCarried {
		if err := r.record(r.checkResumed(), index, e.Kind); err != nil {
			return err
		}
	}
	r.again.keep(index, e)
	_, _, ok, err := r.find(ctx, e.Kind, e.Body)
	if err := r.record(err, index, e.Kind); err != nil {
		return err
	}
	if !ok {
		r.bodies.add(tagOf(e.Body), index)
	}
	return r.record(r.learn(ctx, index, commitment, e), index, e.Kind)
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
func (r *replay) learn(ctx context.Context, index int64, commitment canon.Digest, e ledger.Entry) error {
	switch e.Kind {
	case ledger.KindEvidence:
		return r.learnEvidence(ctx, index, e)
	case ledger.KindAppraisal:
		r.report.Appraisals.Logged++
		return r.learnAppraisal(ctx, index, e)
	case ledger.KindVerdict:
		r.report.Verdicts.Logged++
		return r.learnVerdict(ctx, index, e)
	}
	body, err := r.blob(ctx, e.Body)
	if err != nil {
		if _, ok := r.policies[e.Body]; e.Kind == ledger.KindPolicy && !ok {
			r.policies[e.Body] = nil // so that one blob that is missing is one fault, or none if it was erased
		}
		return err
	}
	switch e.Kind {
	case ledger.KindErasure:
		var act ledger.Erasure
		if act, err = ledger.ParseErasure(body); err == nil {
			r.links.hold(act, e.Body, r.asked == NoIndex)
		}
	case ledger.KindKeyset:
		err = r.learnKeyset(ctx, index, e, body)
	case ledger.KindPolicy:
		var p *policy.Policy
		if p, err = policy.ParseCanonical(body); err == nil {
			r.policies[e.Body] = p
		}
	case ledger.KindReference:
		if _, err = attest.ParseReferences(body); err == nil {
			r.first(logged{ledger.KindReference, e.Body}, index)
		}
	case ledger.KindCollateral:
		var c ledger.Collateral
		if c, err = ledger.ParseCollateral(body); err == nil {
			r.first(logged{c.Kind, c.Data}, index)
			data, err := r.blob(ctx, c.Data)
			if err != nil {
				return err
			}
			r.knowing.logged(c, data, e.Time)
			r.issues.learn(index, e.Time, c.Kind, c.Data, data)
		}
	case ledger.KindEnrolment:
		var n ledger.Enrolment
		if n, err = ledger.ParseEnrolment(body); err == nil {
			r.first(logged{ledger.KindEnrolment, e.Body}, index)
			r.links.enrolment(n, e, r.carried(e))
			r.noteShown(moment{index, e.Time}, n)
			if r.carried(e) {
				r.carries("enrolment")
			}
			err = cmp.Or(r.holders.learn(moment{index, e.Time}, n), r.checkCarried(e), r.learnShown(ctx, index, e, n))
		}
	case ledger.KindEngine:
		err = r.learnEngine(ctx, index, body)
	case ledger.KindChallenge:
		err = r.learnChallenge(ctx, index, e, body)
	case ledger.KindBenchmark:
		err = r.learnBenchmark(index, e, body)
	case ledger.KindHeads:
		err = r.learnHeads(ctx, index, e, body)
	case ledger.KindClaim, ledger.KindCertificate, ledger.KindRules:
		err = r.learnVetting(index, commitment, e, body)
	case ledger.KindCarried:
		err = r.learnCarried(ctx, index, e, body)
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

func (r *replay) learnChallenge(ctx context.Context, index int64, e ledger.Entry, body []byte) error {
	c, err := parseChallenge(body)
	if err != nil {
		return wrong("%v", err)
	}
	n := c.Digest()
	earlier, ok, err := r.issued(ctx, n)
	if err != nil {
		return err
	}
	if ok {
		return wrong("the challenge %s was issued by entry %d already", n, earlier)
	}
	r.nonces.add(tagOf(n), index)
	r.links.nonce(n)
	if err := r.keys.CheckKey(c.ResultKey, ledger.UseResult, c.Issued); err != nil {
		return wrong("made for %v", err)
	}
	if c.Issued > e.Time || c.Expires < c.Issued {
		return wrong("issued %s, expires %s, logged %s", c.Issued, c.Expires, e.Time)
	}
	return r.learnView(ctx, index, c.Checkpoint)
}

func (r *replay) learnEvidence(ctx context.Context, index int64, e ledger.Entry) error {
	if err := r.record(r.checkScope(index, e), index, e.Kind); err != nil {
		return err
	}
	r.noteAnswer(strings.TrimPrefix(e.Stream, ledger.NodeStream("")), moment{index, e.Time})
	s := submission{index: index, challenge: NoIndex, node: r.node(strings.TrimPrefix(e.Stream, ledger.NodeStream(""))), first: noRow, last: noRow}
	known, err := r.submissionOf(ctx, e.Body)
	if err != nil {
		return err
	}
	var c *challenge
	if len(e.Refs) == 1 {
		if c, err = r.challengeOf(ctx, e.Refs[0]); err != nil {
			return err
		}
	}
	if c != nil {
		s.challenge = c.index
	}
	if known == noRow {
		r.submissions.add(s)
	}
	if c == nil {
		return wrong("refs do not name the one challenge that it answers")
	}
	for by := range r.answers.of(tagOfIndex(c.index)) { // an index has a tag of its own
		return wrong("answers the challenge of entry %d, which entry %d answered already", c.index, by)
	}
	r.answers.add(tagOfIndex(c.index), index)
	switch {
	case c.absent:
	case e.Stream != ledger.NodeStream(c.node):
		return wrong("in stream %q, the challenge was made for node %q", e.Stream, c.node)
	case e.Time < c.issued || e.Time > c.expires:
		return wrong("received %s, the challenge stood from %s to %s", e.Time, c.issued, c.expires)
	}
	return nil
}

func (r *replay) learnAppraisal(ctx context.Context, index int64, e ledger.Entry) error {
	row := noRow
	if len(e.Refs) == 1 {
		var err error
		if row, err = r.submissionOf(ctx, e.Refs[0]); err != nil {
			return err
		}
	}
	if row == noRow {
		return wrong("refs do not name the one piece of evidence that it judges")
	}
	earlier, err := r.appraisalOf(ctx, e.Body)
	if err != nil {
		return err
	}
	if earlier != noRow {
		return wrong("the same appraisal as entry %d", r.appraisals.at(earlier).index)
	}
	s, this := r.submissions.at(row), int32(r.appraisals.n)
	r.appraisals.add(appraisalRow{index: index, submission: int32(row), next: noRow, first: noRow, last: noRow})
	if s.first == noRow {
		s.first = this
	} else {
		r.appraisals.at(int(s.last)).next = this
	}
	s.last = this
	r.noteAppraisal(s.node, moment{index, e.Time}, e.Body)
	return nil
}

func (r *replay) learnVerdict(ctx context.Context, index int64, e ledger.Entry) error {
	row := noRow
	if len(e.Refs) == 2 && r.knowsPolicy(e.Refs[1]) {
		var err error
		if row, err = r.appraisalOf(ctx, e.Refs[0]); err != nil {
			return err
		}
	}
	if row == noRow {
		return wrong("refs do not name the appraisal and the policy that it follows from")
	}
	a, this := r.appraisals.at(row), int32(r.verdicts.n)
	r.verdicts.add(verdictRow{index, noRow})
	if a.first == noRow {
		a.first = this
	} else {
		r.verdicts.at(int(a.last)).next = this
	}
	a.last = this
	return nil
}
