package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// GivenPromise is a promise that a submitter holds: the canonical bytes of its envelope.
type GivenPromise struct {
	Name string // of the file, for the report
	Data []byte
}

// Kept says what became of a promise.
type Kept struct {
	Name       string       `json:"name"`
	State      string       `json:"state"`
	Commitment canon.Digest `json:"commitment,omitzero"`
	What       string       `json:"what"`
}

// States of a promise.
const (
	PromiseKept     = "kept"     // the entry stands in the log as promised
	PromiseWithheld = "withheld" // it does not, or did not when publish-by had passed
	PromiseOpen     = "open"     // it does not, and nothing shows that publish-by has passed
	PromiseRefused  = "refused"  // no promise of this log
)

// found is an entry that a promise asks for.
type found struct {
	there   bool
	outside bool // of the scope: its leaf is there, and no more is known of it
	index   int64
	entry   ledger.Entry
}

func (p GivenPromise) envelope() (ledger.Envelope, error) {
	return ledger.ParseEnvelope(bytes.TrimSuffix(p.Data, []byte("\n")))
}

// commitment returns what the promise is about, before anything is verified: it only says what to look for.
func (p GivenPromise) commitment() (canon.Digest, bool) {
	env, err := p.envelope()
	if err != nil {
		return canon.Digest{}, false
	}
	var doc ledger.Promise
	if err := canon.Unmarshal(env.Payload, &doc); err != nil {
		return canon.Digest{}, false
	}
	return doc.Commitment, true
}

// judgePromises looks for the entry of each promise.
func (r *replay) judgePromises(ctx context.Context) error {
	for _, p := range r.o.Promises {
		k, err := r.judgePromise(ctx, p)
		var f *Fault
		if errors.As(err, &f) {
			r.fault(*f)
		} else if err != nil {
			return err
		}
		r.report.Promises = append(r.report.Promises, k)
		if k.State == PromiseWithheld || k.State == PromiseRefused {
			r.fault(Fault{Part: "promise " + p.Name, Index: NoIndex, What: k.State + ": " + k.What})
		}
	}
	return nil
}

// judgePromise says what became of a promise. Where the auditor believes witnesses, an entry is withheld if a checkpoint
// that a quorum cosigned after publish-by lacks it, also where a later one has it. Otherwise all that is known of time are
// the times of entries, the operator's word: then it is withheld if the log has an entry made after publish-by and not it,
// and that it came late cannot be seen.
func (r *replay) judgePromise(ctx context.Context, given GivenPromise) (Kept, error) {
	k := Kept{Name: given.Name}
	is := func(state, format string, args ...any) (Kept, error) {
		k.State, k.What = state, fmt.Sprintf(format, args...)
		return k, nil
	}
	env, err := given.envelope()
	if err != nil {
		return is(PromiseRefused, "%v", err)
	}
	p, err := ledger.OpenPromise(env, r.keys)
	if err != nil {
		return is(PromiseRefused, "%v", err)
	}
	if p.Origin != r.report.Origin {
		return is(PromiseRefused, "made by the log %q", p.Origin)
	}
	k.Commitment = p.Commitment
	f := r.wanted[p.Commitment]
	if f.there && f.outside {
		return is(PromiseKept, "entry %d, by its leaf; it is outside the scope", f.index)
	}
	if f.there && (f.entry.Stream != p.Stream || f.entry.Sequence != p.Sequence || f.entry.Previous != p.Previous || f.entry.Time != p.Received) {
		return is(PromiseRefused, "entry %d has another stream, place or time than was promised", f.index)
	}
	if len(r.terms()) > 0 {
		return r.judgeWitnessed(ctx, p, f, is)
	}
	switch {
	case f.there:
		return is(PromiseKept, "entry %d; that it came in time is the operator's word", f.index)
	case r.latest > p.PublishBy:
		return is(PromiseWithheld, "publish-by was %s, the log has an entry of %s and not this one", p.PublishBy, r.latest)
	}
	return is(PromiseOpen, "publish-by is %s, the log's latest entry is of %s", p.PublishBy, r.latest)
}

// judgeWitnessed judges a promise by cosigned checkpoints.
func (r *replay) judgeWitnessed(ctx context.Context, p ledger.Promise, f *found, is func(state, format string, args ...any) (Kept, error)) (Kept, error) {
	var lacks, has *witnessed
	if w := r.report.Witnesses; len(w.By) > 0 {
		lacks = &witnessed{r.report.Size, w.From, w.Until}
	}
	if f.there {
		var err error
		if lacks, has, err = r.around(ctx, f.index); err != nil && !errors.Is(err, errNoQuorum) {
			k, _ := is(PromiseOpen, "the checkpoints around entry %d cannot be read", f.index)
			return k, err
		}
	}
	switch {
	case lacks != nil && lacks.from > p.PublishBy && f.there:
		return is(PromiseWithheld, "publish-by was %s, the checkpoint of size %d, cosigned at %s, lacks it; entry %d came later", p.PublishBy, lacks.size, lacks.from, f.index)
	case lacks != nil && lacks.from > p.PublishBy:
		return is(PromiseWithheld, "publish-by was %s, the checkpoint of size %d, cosigned at %s, lacks it", p.PublishBy, lacks.size, lacks.from)
	case f.there && has != nil && has.until <= p.PublishBy:
		return is(PromiseKept, "entry %d, in the checkpoint of size %d, cosigned at %s", f.index, has.size, has.until)
	case f.there:
		return is(PromiseKept, "entry %d; no cosigned checkpoint that is kept shows when it came", f.index)
	case lacks != nil:
		return is(PromiseOpen, "publish-by is %s, the newest checkpoint was cosigned at %s", p.PublishBy, lacks.from)
	}
	return is(PromiseOpen, "publish-by is %s, and the newest checkpoint has no quorum of witnesses", p.PublishBy)
}
