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
)

// The claim `time.bounds` says that the time T of an appraisal is not the operator's word alone. It is made here and
// nowhere else, because only a log that went on can show it: of the two checkpoints that bracket T, the second does not
// exist yet when the appraisal is made. The first is C, which the challenge names and the evidence covers: nobody could
// answer before it was cosigned. The second is the first one that covers the entry of the appraisal: the entry was made
// before that was cosigned. Times of cosignatures are those that one lying witness cannot move, see [ledger.Cosigned].
const (
	timeSlack = 60                         // s by which clocks of the server and of witnesses may differ
	maxWidth  = 300 + ledger.PublishWithin // s of the widest bracket: a challenge's life, and then the publishing of what answers it
)

// Reasons why the time of an appraisal is not bracketed. They are codes of claim time.bounds.
const (
	boundsNoWitnesses  = "no-witnesses"  // the trust file names none: time is the operator's word
	boundsNoCheckpoint = "no-checkpoint" // the challenge names no checkpoint
	boundsNoQuorum     = "no-quorum"     // a checkpoint of the bracket has no quorum of the trust file's witnesses
	boundsNotCovered   = "not-covered"   // no checkpoint with a quorum covers the entry, or the source keeps none
	boundsStall        = "stall"         // publishing stood still over the entry
)

// TimeBounds counts what claim time.bounds says of the appraisals.
type TimeBounds struct {
	Affirmed     int64       `json:"affirmed"`
	Contradicted int64       `json:"contradicted"`
	Unknown      []KindCount `json:"unknown"` // by reason
}

// witnessed is a checkpoint with a quorum of trusted witnesses.
type witnessed struct {
	size        int64
	from, until canon.Time // of the quorum: see [ledger.Cosigned]
}

// openWitnessed opens a checkpoint by the trusted keys and witnesses; nil: it is the log's and has no quorum.
func (r *replay) openWitnessed(data []byte) (*witnessed, error) {
	w, err := openNote(data, r.everyLogKey(), r.terms())
	var q *ledger.QuorumError
	if errors.As(err, &q) || err == nil && len(w.By) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := ledger.ReadCheckpoint(data)
	return &witnessed{c.Size, w.From, w.Until}, err
}

// view is a checkpoint that a challenge names, which is a view of the log that somebody was shown.
type view struct {
	index int64 // of the challenge
	tree  ledger.Tree
}

// learnView reads the checkpoint that a challenge names. That the log was so at that size, [replay.checkViews] finds out.
func (r *replay) learnView(ctx context.Context, index int64, digest canon.Digest) error {
	if digest.IsZero() || digest == r.viewed {
		return nil
	}
	data, err := r.blob(ctx, digest)
	if err != nil {
		return err
	}
	c, err := ledger.OpenCheckpoint(data, r.everyLogKey().standing...)
	switch {
	case err != nil:
		return wrong("names a checkpoint %s that is not this log's: %v", digest, err)
	case c.Size > index:
		return wrong("names a checkpoint of size %d, which its own entry would be part of", c.Size)
	}
	r.viewed = digest
	r.views.add(view{index, c.Tree})
	return nil
}

// checkViews compares the checkpoints that challenges name, and that the log's key signed, with the log as it was at their
// sizes. One that the log does not continue proves a split view: somebody was shown another history.
func (r *replay) checkViews(ctx context.Context, tree ledger.Tree) error {
	order := make([]int, 0, r.views.n)
	for i := range r.views.n {
		if r.views.at(i).tree.Size <= tree.Size {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.views.at(a).tree.Size, r.views.at(b).tree.Size) })
	sizes := make([]int64, len(order))
	for i, v := range order {
		sizes[i] = r.views.at(v).tree.Size
	}
	next := 0
	return ledger.Trees(ctx, r.src, tree, sizes, func(was ledger.Tree) {
		v := r.views.at(order[next])
		if next++; v.tree != was {
			r.fault(Fault{Part: fmt.Sprintf("entry %d", v.index), Index: v.index, Kind: ledger.KindChallenge, What: fmt.Sprintf(
				"split view: names a checkpoint of size %d with the root %s that the log's key signed, the log had the root %s", v.tree.Size, v.tree.Root, was.Root)})
		}
	})
}

// errNoQuorum says that a kept checkpoint has no quorum of the trusted witnesses.
var errNoQuorum = errors.New("no quorum")

// around returns the kept checkpoints on both sides of an index, as far as there are any. One without a quorum is
// errNoQuorum: it tells nothing, and what is kept beyond it tells too little.
func (r *replay) around(ctx context.Context, index int64) (before, after *witnessed, err error) {
	keeper, ok := r.src.(ledger.Keeper)
	if !ok || len(r.terms()) == 0 {
		return nil, nil, nil
	}
	lacks, has, err := keeper.Around(ctx, index)
	if err == nil {
		before, err = r.openKept(lacks)
	}
	if err == nil {
		after, err = r.openKept(has)
	}
	return before, after, err
}

// openKept opens a checkpoint that the source keeps.
func (r *replay) openKept(data []byte) (*witnessed, error) {
	if data == nil {
		return nil, nil
	}
	return r.kept.get(canon.Sum(data), func() (*witnessed, int, error) {
		w, err := r.openWitnessed(data)
		switch {
		case err == nil && w == nil:
			return nil, 0, errNoQuorum
		case err == nil:
			return w, len(data), nil
		}
		part := partCheckpoint
		if c, err := ledger.ReadCheckpoint(data); err == nil {
			part = ledger.KeptName(c.Size)
		}
		return nil, 0, &Fault{Part: part, Index: NoIndex, What: err.Error()}
	})
}

// bounds judges the time of an appraisal by the checkpoints around it.
func (j *job) bounds(ctx context.Context, a *appraisal, at canon.Time) error {
	code, what, err := j.judgeTime(ctx, a, at)
	if err != nil {
		return err
	}
	switch {
	case what != "":
		j.res.times[claim.Contradicted.String()]++
		return wrong("time.bounds: as of %s, %s", at, what)
	case code != "":
		j.res.untimed[code]++
	default:
		j.res.times[claim.Affirmed.String()]++
	}
	return nil
}

// judgeTime returns the reason why a time is not bracketed, or what contradicts it, or nothing: it is affirmed.
func (j *job) judgeTime(ctx context.Context, a *appraisal, at canon.Time) (code, contradiction string, err error) {
	if len(j.terms()) == 0 {
		return boundsNoWitnesses, "", nil
	}
	if j.ev.challenge == nil || j.ev.challenge.checkpoint.IsZero() {
		return boundsNoCheckpoint, "", nil
	}
	data, err := j.blob(ctx, j.ev.challenge.checkpoint)
	if err != nil {
		return "", "", err
	}
	first, err := j.openKept(data)
	var f *Fault
	switch {
	case errors.Is(err, errNoQuorum):
		return boundsNoQuorum, "", nil
	case errors.As(err, &f):
		return "", "", wrong("the challenge names a checkpoint: %s", f.What)
	case err != nil:
		return "", "", err
	}
	from := first.from
	if at < from-timeSlack {
		return "", fmt.Sprintf("the challenge names a checkpoint that was cosigned at %s", from), nil
	}
	before, after, err := j.around(ctx, a.index)
	switch {
	case errors.Is(err, errNoQuorum):
		return boundsNoQuorum, "", nil
	case err != nil:
		return "", "", err
	case before != nil && before.from > at+ledger.PublishWithin+timeSlack:
		// The log published, long after T, without the entry: it was made later than it says.
		return "", fmt.Sprintf("a checkpoint that was cosigned at %s lacks the entry", before.from), nil
	case after == nil:
		return boundsNotCovered, "", nil
	case at > after.until+timeSlack:
		return "", fmt.Sprintf("a checkpoint that was cosigned at %s covers the entry", after.until), nil
	case after.until-from <= maxWidth:
		return "", "", nil
	case before != nil && after.until-before.from > ledger.PublishWithin+timeSlack:
		return boundsStall, "", nil
	}
	return "", fmt.Sprintf("between checkpoints that were cosigned at %s and at %s: more than %d s apart", from, after.until, maxWidth), nil
}

// checkAge reports an appraisal that took evidence for younger than it can be: the age of evidence counts from the time at
// which the trusted witnesses cosigned the checkpoint that its challenge names, and not from the operator's clock alone.
func (j *job) checkAge(ctx context.Context, e attest.Expect, a *appraisal) error {
	if len(j.terms()) == 0 || e.Challenge.Checkpoint.IsZero() {
		return nil
	}
	data, err := j.blob(ctx, e.Challenge.Checkpoint)
	var first *witnessed
	if err == nil {
		first, err = j.openKept(data)
	}
	var f *Fault
	switch {
	case errors.Is(err, errNoQuorum), errors.As(err, &f): // told with the time of the appraisal
		return nil
	case err != nil:
		return err
	case e.Cosigned == 0:
		j.res.fault(placed(Fault{What: fmt.Sprintf("evidence age contradicted: counted from %s by the operator's clock alone, the challenge names a checkpoint that was cosigned at %s", e.Challenge.Issued, first.from)}, a.index, ledger.KindAppraisal))
	case e.Cosigned > first.from+timeSlack:
		j.res.fault(placed(Fault{What: fmt.Sprintf("evidence age contradicted: told that the checkpoint of the challenge was cosigned at %s, it was at %s", e.Cosigned, first.from)}, a.index, ledger.KindAppraisal))
	}
	return nil
}

// text is the line of the report on time.
func (t TimeBounds) text() string {
	if len(t.Unknown) == 1 && t.Unknown[0].Kind == boundsNoWitnesses && t.Affirmed+t.Contradicted == 0 {
		return "operator's word"
	}
	s := fmt.Sprintf("%d appraisals between cosignatures, %d contradicted", t.Affirmed, t.Contradicted)
	for _, u := range t.Unknown {
		s += fmt.Sprintf(", %d unknown: %s", u.Count, u.Kind)
	}
	return s
}
