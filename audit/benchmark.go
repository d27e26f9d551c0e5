package audit

import (
	"cmp"
	"context"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
)

// Benchmarks counts benchmarks.
type Benchmarks struct {
	Challenges int64 `json:"challenges"`
	Results    int64 `json:"results"`  // fewer than challenges: some were not over, or their log was closed before
	Replayed   int64 `json:"replayed"` // judged again, with whatever result
	Differ     int64 `json:"differ"`   // of those, came out otherwise
}

// benchmark is what a log says of one benchmark.
type benchmark struct {
	challenge capacity.Challenge
	draw      canon.Digest // of its record; zero: none yet
	result    canon.Digest // of its record; zero: none yet
	index     int64        // of the result's entry
}

// learnBenchmark checks a record against those before it: each follows the one that it names, once, and no time
// contradicts that of its entry.
func (r *replay) learnBenchmark(index int64, e ledger.Entry, body []byte) error {
	rec, err := capacity.ParseRecord(body)
	if err != nil {
		return err
	}
	count := &r.report.Benchmarks
	if *count == nil {
		*count = &Benchmarks{}
	}
	entry := int64(e.Time) * 1000
	switch {
	case rec.Challenge != nil:
		(*count).Challenges++
		if _, ok := r.benchmarks[e.Body]; ok {
			return wrong("the same challenge once more")
		}
		r.benchmarks[e.Body] = &benchmark{challenge: *rec.Challenge}
		if len(e.Refs) != 0 || entry > rec.Challenge.Starts {
			return wrong("a challenge that rests on something, or that started before it was logged")
		}
	case rec.Draw != nil:
		b := r.benchmarks[rec.Draw.Challenge]
		switch {
		case b == nil || !slices.Equal(e.Refs, []canon.Digest{rec.Draw.Challenge}):
			return wrong("a draw for no challenge of this log")
		case !b.draw.IsZero() || !b.result.IsZero():
			return wrong("a second draw, or one after the result")
		case rec.Draw.Received < b.challenge.Starts || rec.Draw.Received >= entry+1000:
			return wrong("received %s, the challenge started %s, the entry is of %s", canon.Time(rec.Draw.Received/1000), canon.Time(b.challenge.Starts/1000), e.Time)
		}
		b.draw = e.Body
	default:
		(*count).Results++
		b, on := r.benchmarks[rec.Result.Challenge], rec.Result.Challenge
		if !rec.Result.Draw.IsZero() {
			on = rec.Result.Draw
		}
		switch {
		case b == nil || rec.Result.Draw != b.draw || !slices.Equal(e.Refs, []canon.Digest{on}):
			return wrong("a result of no challenge of this log, or not of its draw")
		case !b.result.IsZero():
			return wrong("a second result, entry %d has one", b.index)
		}
		b.result, b.index = e.Body, index
		if r.foldsVetting() {
			r.noteMeasure(moment{index, e.Time}, b.challenge, *rec.Result, e.Body)
		}
	}
	return nil
}

// recomputeBenchmarks judges every benchmark that has a result again, from the records, the commitments and the opening.
// What the server's clock said is the operator's word: it is compared with the entries alone.
func (r *replay) recomputeBenchmarks(ctx context.Context) error {
	var ended []*benchmark
	for _, b := range r.benchmarks {
		if !b.result.IsZero() {
			ended = append(ended, b)
		}
	}
	slices.SortFunc(ended, func(a, b *benchmark) int { return cmp.Compare(a.index, b.index) })
	for _, b := range ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.record(r.judgeBenchmark(ctx, b), b.index, ledger.KindBenchmark); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) judgeBenchmark(ctx context.Context, b *benchmark) error {
	logged, err := r.benchmarkRecord(ctx, b.result)
	if err != nil {
		return err
	}
	if logged.Result.Rules != capacity.Rules {
		return wrong("not reproducible with this build: by rules %d of the benchmark, these are %d", logged.Result.Rules, capacity.Rules)
	}
	g := capacity.Given{Challenge: b.challenge}
	if !b.draw.IsZero() {
		d, err := r.benchmarkRecord(ctx, b.draw)
		if err != nil {
			return err
		}
		g.Draw = d.Draw
		if g.Roots, err = r.blob(ctx, d.Draw.Roots); err != nil {
			return err
		}
	}
	if !logged.Result.Opening.IsZero() {
		if g.Opening, err = r.blob(ctx, logged.Result.Opening); err != nil {
			return err
		}
	}
	again, ok := attempt(func() capacity.Result { return capacity.Judge(g) })
	if !ok {
		return wrong("this build fails on the benchmark")
	}
	r.report.Benchmarks.Replayed++
	if again != *logged.Result {
		r.report.Benchmarks.Differ++
		return wrong("differs: benchmark logged as %s %s with score %d, recomputed as %s %s with score %d",
			logged.Result.Outcome, logged.Result.Reason, logged.Result.Score, again.Outcome, again.Reason, again.Score)
	}
	return nil
}

func (r *replay) benchmarkRecord(ctx context.Context, digest canon.Digest) (capacity.Record, error) {
	body, err := r.blob(ctx, digest)
	if err != nil {
		return capacity.Record{}, err
	}
	rec, err := capacity.ParseRecord(body)
	if err != nil {
		return rec, wrong("%v", err)
	}
	return rec, nil
}

// benchmarkNames returns the blobs that a record names.
func benchmarkNames(body []byte) ([]canon.Digest, error) {
	rec, err := capacity.ParseRecord(body)
	switch {
	case err != nil:
		return nil, err
	case rec.Draw != nil:
		return []canon.Digest{rec.Draw.Roots}, nil
	case rec.Result != nil && !rec.Result.Opening.IsZero():
		return []canon.Digest{rec.Result.Opening}, nil
	}
	return nil, nil
}
