package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// Benchmark is the answer to GET /v1/benchmark: what the server has planned for the node that asks.
type Benchmark struct {
	Now       int64               `json:"now_ms"`             // the server's clock, Unix time in milliseconds
	Starts    int64               `json:"starts_ms,omitzero"` // absent: nothing is planned
	Expires   int64               `json:"expires_ms,omitzero"`
	Shape     *capacity.Shape     `json:"shape,omitzero"`     // to take the memory before it starts
	Challenge *capacity.Challenge `json:"challenge,omitzero"` // from Starts on
	Drawn     *capacity.Draw      `json:"draw,omitzero"`      // once the commitments were taken
}

// Benchmark asks what is planned for this node, and for the challenge once it has started (node credential).
func (c *Client) Benchmark(ctx context.Context) (Benchmark, error) {
	var b Benchmark
	return b, c.get(ctx, "/v1/benchmark", &b)
}

// BenchmarkRoots is the body of POST /v1/benchmark/roots.
type BenchmarkRoots struct {
	Challenge canon.Digest `json:"challenge"` // of its record
	Roots     []byte       `json:"roots"`     // of all steps
}

// CommitBenchmark hands in the roots of a chain, and gets what is drawn. The time until they are there is the measure. The
// same roots get the same draw, however often they are sent.
func (c *Client) CommitBenchmark(ctx context.Context, r BenchmarkRoots) (capacity.Draw, error) {
	var d capacity.Draw
	return d, c.post(ctx, "/v1/benchmark/roots", r, &d)
}

// OpenBenchmark hands in an opening, canonical bytes, and gets the result.
func (c *Client) OpenBenchmark(ctx context.Context, opening []byte) (capacity.Result, error) {
	var r capacity.Result
	data, err := c.do(ctx, http.MethodPost, "/v1/benchmark/opening", jsonType, opening, http.StatusCreated, MaxAnswer)
	if err != nil {
		return r, err
	}
	return r, decode(data, &r)
}

// PlanRequest is the body of POST /v1/benchmarks: challenges for nodes, all at one instant.
type PlanRequest struct {
	Nodes  []string `json:"nodes"`
	Memory int      `json:"memory_mib"`       // that each of them is said to have free
	In     int64    `json:"in_s,omitzero"`    // from now to the start; zero: the server's default, for which agents that run need not be told
	Every  int64    `json:"every_s,omitzero"` // plan another when this one is over, each after a random time of half to one and a half of this; zero: do not
}

// Planned is the answer to POST /v1/benchmarks.
type Planned struct {
	Round  canon.Digest `json:"round"`
	Starts int64        `json:"starts_ms"`
}

// PlanBenchmark challenges nodes at one instant that is near (admin token).
func (c *Client) PlanBenchmark(ctx context.Context, r PlanRequest) (Planned, error) {
	var p Planned
	return p, c.post(ctx, "/v1/benchmarks", r, &p)
}

// Measured is the answer to GET /v1/benchmarks?node=ID&node=ID: what benchmarks of these nodes came to. The nodes are taken
// for those of one owner.
type Measured struct {
	Measures []capacity.Measure `json:"measures"` // the newest first
	Finding  capacity.Finding   `json:"finding"`
	Claims   []NodeClaim        `json:"claims"` // of nodes that are credited with something
}

// NodeClaim is a claim about a node.
type NodeClaim struct {
	Node  string      `json:"node"`
	Claim claim.Claim `json:"claim"`
}

// Benchmarks asks what benchmarks of nodes came to (admin token).
func (c *Client) Benchmarks(ctx context.Context, nodes ...string) (Measured, error) {
	var m Measured
	return m, c.get(ctx, "/v1/benchmarks?"+url.Values{"node": nodes}.Encode(), &m)
}
