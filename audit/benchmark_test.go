package audit_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/proofs"
)

// oneBlock computes a chain whose states are one block of rows: the root of each step is its leaf.
func oneBlock(c capacity.Challenge) (roots []byte) {
	chain := capacity.NewChain(c)
	a := proofs.NewMatrix[int8](capacity.BlockRows, c.Shape.Cols)
	product := proofs.NewMatrix[int32](capacity.BlockRows, c.Shape.Cols)
	k := proofs.NewMatrix[int8](c.Shape.Cols, c.Shape.Cols)
	slots, last := make([][]int8, c.Shape.Slots), make([]int8, len(a.Data))
	chain.Start(0, last)
	var root canon.Digest
	var f proofs.Factor
	for step := range c.Shape.Steps {
		key := chain.Key(step, root)
		chain.Matrix(key, k)
		slot, reads := chain.Slot(step, key)
		copy(a.Data, last)
		if reads {
			capacity.Add(a.Data, last, slots[slot])
		}
		f.Pack(k)
		f.Times(a, product)
		root, _ = proofs.Leaf(product, nil)
		roots = append(roots, root[:]...)
		last = make([]int8, len(a.Data))
		capacity.Reduce(last, product.Data)
		slots[slot] = last
	}
	return roots
}

// benchmarked is a benchmark as it enters a log, for a test to change on the way.
type benchmarked struct {
	challenge capacity.Challenge
	draw      capacity.Draw
	result    capacity.Result
	log       *log
	did       canon.Digest // body of the challenge
	drew      canon.Digest // body of the draw
}

// benchmark returns a benchmark of a node that starts in 5 s, measured in 6 s.
func (s *service) benchmark(node string) *benchmarked {
	starts := int64(s.now)*1000 + 5000
	b := &benchmarked{log: s.log}
	b.challenge = capacity.Challenge{Round: canon.Sum([]byte("round")), Nodes: 1, Node: node, Seed: canon.Sum([]byte("seed")),
		Shape: capacity.Shape{Cols: 16, Rows: capacity.BlockRows, Slots: 4, Steps: 32}, Starts: starts, Expires: starts + 120_000}
	roots := oneBlock(b.challenge)
	_, challenge, err := capacity.Record{Type: capacity.RecordType, Challenge: &b.challenge}.Bytes()
	s.must(err)
	b.draw = capacity.Draw{Challenge: challenge, Roots: s.putBytes(roots), Received: starts + 6000, Seed: canon.Sum([]byte("draw")), Expires: starts + 60_000}
	trace, err := capacity.NewTrace(capacity.NewChain(b.challenge), roots)
	s.must(err)
	opening, err := trace.Open(b.draw, 1, func(int, int) []canon.Digest { return nil })
	s.must(err)
	data := s.bytes(opening)
	s.putBytes(data)
	b.result = capacity.Judge(capacity.Given{Challenge: b.challenge, Draw: &b.draw, Roots: roots, Opening: data})
	if b.result.Outcome != capacity.Measured {
		s.t.Fatalf("%+v", b.result)
	}
	return b
}

func (b *benchmarked) append(r capacity.Record, refs ...canon.Digest) canon.Digest {
	r.Type = capacity.RecordType
	body := b.log.put(r)
	b.log.append(ledger.KindBenchmark, ledger.StreamVerifier, body, refs...)
	return body
}

func (b *benchmarked) challenged() { b.did = b.append(capacity.Record{Challenge: &b.challenge}) }
func (b *benchmarked) ended()      { b.append(capacity.Record{Result: &b.result}, b.drew) }

// drawn logs the draw 11 s after the challenge, when the commitments are there.
func (b *benchmarked) drawn() {
	b.log.now = max(b.log.now, canon.Time(b.challenge.Starts/1000+6))
	b.drew = b.append(capacity.Record{Draw: &b.draw}, b.did)
}

// TestBenchmarks: what a server says of a benchmark follows from what the node sent, and from nothing else.
func TestBenchmarks(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(b *benchmarked)
		want string // of the fault; empty: none
	}{
		{"as it was", func(b *benchmarked) { b.challenged(); b.drawn(); b.ended() }, ""},
		{"not over", func(b *benchmarked) { b.challenged(); b.drawn() }, ""},
		{"a better score", func(b *benchmarked) { b.result.Score++; b.challenged(); b.drawn(); b.ended() }, "differs: benchmark logged as measured"},
		{"a shorter time", func(b *benchmarked) { b.result.Elapsed--; b.challenged(); b.drawn(); b.ended() }, "differs: benchmark logged as measured"},
		{"called wrong", func(b *benchmarked) {
			b.result.Outcome, b.result.Reason, b.result.Score, b.result.Memory = capacity.Wrong, capacity.CodeProduct+": no", 0, 0
			b.challenged()
			b.drawn()
			b.ended()
		}, "differs: benchmark logged as wrong"},
		{"no answer, though there was one", func(b *benchmarked) {
			b.result = capacity.Judge(capacity.Given{Challenge: b.challenge})
			b.challenged()
			b.drawn()
			b.append(capacity.Record{Result: &b.result}, b.did)
		}, "not of its draw"},
		{"other rules", func(b *benchmarked) { b.result.Rules++; b.challenged(); b.drawn(); b.ended() }, "not reproducible with this build"},
		{"drawn twice", func(b *benchmarked) { b.challenged(); b.drawn(); b.draw.Seed[0]++; b.drawn(); b.draw.Seed[0]-- }, "a second draw"},
		{"ended twice", func(b *benchmarked) { b.challenged(); b.drawn(); b.ended(); b.ended() }, "a second result"},
		{"drawn without a challenge", func(b *benchmarked) { b.did = b.log.keysetBody; b.drawn() }, "a draw for no challenge"},
		{"the same challenge twice", func(b *benchmarked) { b.challenged(); b.challenged() }, "the same challenge once more"},
		{"logged after it started", func(b *benchmarked) { b.challenge.Starts -= 6000; b.challenged() }, "started before it was logged"},
		{"received in the future", func(b *benchmarked) {
			b.draw.Received += 3600_000
			b.draw.Expires += 3600_000
			b.challenged()
			b.drawn()
		}, "received"},
		{"received before the start", func(b *benchmarked) { b.draw.Received = b.challenge.Starts - 1; b.challenged(); b.drawn() }, "received"},
		{"commitments missing", func(b *benchmarked) { b.challenged(); b.drawn(); b.ended(); delete(b.log.blobs, b.draw.Roots) }, "missing"},
		{"opening missing", func(b *benchmarked) { b.challenged(); b.drawn(); b.ended(); delete(b.log.blobs, b.result.Opening) }, "missing"},
		{"malformed", func(b *benchmarked) { b.append(capacity.Record{}) }, "want one of challenge, draw and result"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, "one")
			tc.do(s.benchmark("good"))
			s.publish()
			r, err := audit.Replay(t.Context(), s.log, s.trust(), audit.Options{})
			s.must(err)
			if tc.want == "" {
				if r.Outcome != audit.Equal {
					t.Error(r.Text())
				}
				return
			}
			if r.Outcome != audit.Faulty || !strings.Contains(r.Text(), tc.want) {
				t.Errorf("%s, want %q", r.Text(), tc.want)
			}
		})
	}
}
