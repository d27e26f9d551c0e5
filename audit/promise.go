package audit

import (
	"bytes"
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
	PromiseWithheld = "withheld" // it does not, though the log has entries made after publish-by
	PromiseOpen     = "open"     // it does not, and no entry is later than publish-by
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

// judgePromises looks for the entry of each promise. Later than publish-by means: some entry's time is, by the server's
// own clock. That a promise was kept in time, only cosigned checkpoints can show.
func (r *replay) judgePromises() {
	for _, p := range r.o.Promises {
		k := r.judgePromise(p)
		r.report.Promises = append(r.report.Promises, k)
		if k.State == PromiseWithheld || k.State == PromiseRefused {
			r.fault(Fault{Part: "promise " + p.Name, Index: NoIndex, What: k.State + ": " + k.What})
		}
	}
}

func (r *replay) judgePromise(given GivenPromise) Kept {
	refuse := func(format string, args ...any) Kept {
		return Kept{Name: given.Name, State: PromiseRefused, What: fmt.Sprintf(format, args...)}
	}
	env, err := given.envelope()
	if err != nil {
		return refuse("%v", err)
	}
	p, err := ledger.OpenPromise(env, r.keys)
	if err != nil {
		return refuse("%v", err)
	}
	if p.Origin != r.report.Origin {
		return refuse("made by the log %q", p.Origin)
	}
	k := Kept{Name: given.Name, Commitment: p.Commitment}
	f := r.wanted[p.Commitment]
	switch {
	case !f.there && r.latest > p.PublishBy:
		k.State, k.What = PromiseWithheld, fmt.Sprintf("publish-by was %s, the log has an entry of %s and not this one", p.PublishBy, r.latest)
	case !f.there:
		k.State, k.What = PromiseOpen, fmt.Sprintf("publish-by is %s, the log's latest entry is of %s", p.PublishBy, r.latest)
	case f.outside:
		k.State, k.What = PromiseKept, fmt.Sprintf("entry %d, by its leaf; it is outside the scope", f.index)
	case f.entry.Stream != p.Stream || f.entry.Sequence != p.Sequence || f.entry.Previous != p.Previous || f.entry.Time != p.Received:
		return refuse("entry %d has another stream, place or time than was promised", f.index)
	default:
		k.State, k.What = PromiseKept, fmt.Sprintf("entry %d", f.index)
	}
	return k
}
