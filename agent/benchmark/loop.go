package benchmark

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// Poll is how often an agent asks whether a benchmark is planned. Servers plan further ahead.
const Poll = 20 * time.Second

const (
	retryAfter = 2 * time.Second // between tries to hand in what is done
	maxTries   = 10
	maxAhead   = 10 * time.Minute // longest wait for a start that is believed
	maxTime    = 24 * time.Hour   // longest time for a chain that is
)

// Loop answers what a verifier plans.
type Loop struct {
	Server   *client.Client // with the node's credential
	Node     string         // its id
	Driver   []string       // command
	After    func(time.Duration) <-chan time.Time
	Logger   *slog.Logger
	Progress func(step, steps int) // nil: nobody is told
}

// Run answers benchmarks until the context ends. A failure is told and is no end: the server has its own word for it.
func (l Loop) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := l.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case client.AsProblem(err) != nil && client.AsProblem(err).Status == http.StatusNotFound:
			l.Logger.Debug("benchmark", "error", err) // a verifier that has none
		case err != nil:
			l.Logger.Warn("benchmark", "error", err)
		case r != nil:
			l.Logger.Info("benchmark", "outcome", r.Outcome, "reason", r.Reason, "elapsed_ms", r.Elapsed, "score", r.Score)
		}
		l.pause(ctx, Poll)
	}
}

func (l Loop) pause(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-l.After(wait):
	}
}

// Once answers the benchmark that is planned, if one is, and returns its result; nil: none is. It takes the memory before
// the start, and asks for the challenge when it is time.
func (l Loop) Once(ctx context.Context) (*capacity.Result, error) {
	plan, err := l.Server.Benchmark(ctx)
	if err != nil || plan.Starts == 0 || plan.Drawn != nil { // what was drawn of a driver that is gone cannot be opened
		return nil, err
	}
	if plan.Shape == nil {
		return nil, errors.New("benchmark: planned without a shape")
	}
	// A driver that never answers is ended, at the latest when nobody would take its answer any more.
	ctx, cancel := context.WithTimeout(ctx, maxAhead+time.Duration(min(plan.Expires-plan.Now, int64(maxTime/time.Millisecond)))*time.Millisecond)
	defer cancel()
	d, err := Start(ctx, l.Driver, *plan.Shape)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	// To take the memory took time: what is left until the start is asked anew.
	if plan, err = l.Server.Benchmark(ctx); err != nil {
		return nil, err
	}
	for plan.Challenge == nil {
		if plan.Starts == 0 {
			return nil, nil // it is no longer planned
		}
		wait := time.Duration(min(max(plan.Starts-plan.Now, 0), int64(maxAhead/time.Millisecond))) * time.Millisecond
		l.pause(ctx, wait)
		if plan, err = l.Server.Benchmark(ctx); err != nil {
			return nil, err
		}
	}
	c := *plan.Challenge
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Node != l.Node {
		return nil, fmt.Errorf("benchmark: for node %.80q, this is node %q", c.Node, l.Node)
	}
	roots, err := d.Compute(c, func(step int) {
		if l.Progress != nil {
			l.Progress(step, c.Shape.Steps)
		}
	})
	if err != nil {
		return nil, err
	}
	_, challenge, err := capacity.Record{Type: capacity.RecordType, Challenge: &c}.Bytes()
	if err != nil {
		return nil, err
	}
	draw, err := again(ctx, l, func() (capacity.Draw, error) {
		return l.Server.CommitBenchmark(ctx, client.BenchmarkRoots{Challenge: challenge, Roots: roots})
	})
	if err != nil {
		return nil, err
	}
	if draw.Challenge != challenge || draw.Roots != canon.Sum(roots) {
		return nil, errors.New("benchmark: the server drew from other commitments")
	}
	opening, err := d.Open(draw)
	if err != nil {
		return nil, err
	}
	r, err := again(ctx, l, func() (capacity.Result, error) { return l.Server.OpenBenchmark(ctx, opening) })
	return &r, err
}

// again hands something in until the server has answered: a lost answer is found again.
func again[T any](ctx context.Context, l Loop, hand func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := hand()
		p := client.AsProblem(err)
		if err == nil || p != nil && !p.Temporary() || try == maxTries || ctx.Err() != nil {
			return v, err
		}
		l.pause(ctx, retryAfter)
	}
}
