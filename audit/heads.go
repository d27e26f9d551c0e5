package audit

import (
	"context"
	"fmt"
	"maps"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// uncovered is the first entry that no heads entry covers yet.
type uncovered struct {
	is    bool
	index int64
	time  canon.Time
}

// expectHeads reports a heads entry that should have come before an entry and did not. One hour without is one fault. A
// heads entry that comes late and before anything else is none: nothing was made while it was missing, as where a server
// stood still.
func (r *replay) expectHeads(index int64, e ledger.Entry) {
	u := r.uncovered
	if u.is && e.Kind != ledger.KindHeads && e.Time > u.time+ledger.HeadsWithin+ledger.HeadsSlack {
		r.fault(Fault{Part: fmt.Sprintf("entry %d", index), Index: index, Kind: e.Kind, What: fmt.Sprintf(
			"made %s, and no heads entry covers entry %d of %s: one was due within %d s, and %d s of slack", e.Time, u.index, u.time, ledger.HeadsWithin, ledger.HeadsSlack)})
		u.is = false
	}
	switch {
	case e.Kind == ledger.KindHeads:
		u.is = false
	case !u.is:
		u = uncovered{true, index, e.Time}
	}
	r.uncovered = u
}

// learnHeads compares a heads entry with the streams as they stood before it.
func (r *replay) learnHeads(ctx context.Context, index int64, e ledger.Entry, body []byte) error {
	h, err := ledger.ParseHeads(body)
	if err != nil {
		return err
	}
	if h.Closes.Next != "" && r.closed == NoIndex {
		r.report.Closed, r.closed = h.Closes.Next, index
	}
	seed, err := r.blob(ctx, h.Seed)
	if err != nil {
		return err
	}
	if len(seed) != ledger.SeedSize {
		return wrong("heads: seed of %d bytes, want %d", len(seed), ledger.SeedSize)
	}
	before := maps.Clone(r.tails)
	before[e.Stream] = ledger.Tail{Next: e.Sequence, Last: e.Previous}
	switch want := ledger.NewHeadsTree(seed, before).Document(); {
	case h.Streams != want.Streams:
		return wrong("heads: commits to %d streams, %d stand before it", h.Streams, want.Streams)
	case h.Root != want.Root:
		return wrong("heads: commits to other ends of streams than stand before it")
	}
	return nil
}
