package capacity

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/proofs"
)

// MinElapsed is the shortest time that is a measure, in milliseconds: a round trip of 100 ms, and what a node needs to ask
// for its seed, stay below a few hundredths of it.
const MinElapsed = 5000

// Codes of reasons of results.
const (
	CodeNoAnswer  = "benchmark.no-answer"
	CodeLate      = "benchmark.late"
	CodeShort     = "benchmark.short"
	CodeNotOpened = "benchmark.not-opened"
	CodeForm      = "benchmark.form"
	CodeProduct   = "benchmark.product"
	CodeCommitted = "benchmark.committed"
)

// Codes are the codes of reasons of results.
var Codes = []claim.Code{
	{Code: CodeNoAnswer, Means: "no commitments came before the challenge expired"},
	{Code: CodeLate, Means: "the commitments came after the challenge expired"},
	{Code: CodeShort, Means: "it was over too soon to be a measure"},
	{Code: CodeNotOpened, Means: "what was drawn was not opened in time"},
	{Code: CodeForm, Means: "what was opened is not of the form, or not what was drawn"},
	{Code: CodeProduct, Means: "a product that was opened is wrong"},
	{Code: CodeCommitted, Means: "what was opened is not what was committed to"},
}

// Drawn is a block of rows of one step.
type Drawn struct {
	Block int
	Step  int
}

// Drawn returns what a draw wants to see: StepsPerBlock steps of each of SampleBlocks blocks, ordered, each once.
func (d Draw) Drawn(s Shape) []Drawn {
	const words = SampleBlocks * (1 + StepsPerBlock)
	stream := make([]byte, 8*words)
	proofs.Expand(canon.Hash("assay/benchmark-sample/v1", d.Seed[:]), 0, stream)
	next := func(n int) int {
		x := binary.BigEndian.Uint64(stream)
		stream = stream[8:]
		return int(x % uint64(n)) // n < 2^32: the first are likelier by less than 2^-32
	}
	var out []Drawn
	for range SampleBlocks {
		block := next(s.Blocks())
		for range StepsPerBlock {
			out = append(out, Drawn{block, next(s.Steps)})
		}
	}
	slices.SortFunc(out, func(a, b Drawn) int { return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Step, b.Step)) })
	return slices.Compact(out)
}

// Given is all that a verifier has of one benchmark.
type Given struct {
	Challenge Challenge
	Draw      *Draw  // nil: no commitments came in time to be drawn from
	Roots     []byte // the commitments
	Opening   []byte // nil: none came
}

// Judge says what a benchmark came to. It checks that what was opened was committed, follows from the challenge and the
// commitments, and is the product; that it came in time; and that there was enough to time.
//
// What is given belongs together, which the verifier sees to: the draw names the challenge and the roots. It does not check
// who computed it, where, or whether by itself; that the times are true, which are the word of whose clock it was; or that
// the draw is random and was made after the commitments.
func Judge(g Given) Result {
	c := Record{Type: RecordType, Challenge: &g.Challenge}
	r := Result{Rules: Rules, Outcome: Inconclusive}
	var err error
	if _, r.Challenge, err = c.Bytes(); err != nil {
		panic("capacity: internal error: a challenge that was not validated: " + err.Error())
	}
	unclear := func(code, format string, args ...any) Result {
		r.Reason = because(code, format, args...)
		return r
	}
	if g.Draw == nil {
		return unclear(CodeNoAnswer, "no commitments came before the challenge expired")
	}
	d := Record{Type: RecordType, Draw: g.Draw}
	if _, r.Draw, err = d.Bytes(); err != nil {
		panic("capacity: internal error: a draw that was not validated: " + err.Error())
	}
	if g.Draw.Challenge != r.Challenge || g.Draw.Roots != canon.Sum(g.Roots) || g.Draw.Received < g.Challenge.Starts {
		panic("capacity: internal error: a draw of another challenge, of other roots, or from before the start")
	}
	r.Elapsed = g.Draw.Received - g.Challenge.Starts
	switch {
	case g.Draw.Received > g.Challenge.Expires:
		return unclear(CodeLate, "the commitments came %d ms after the challenge expired", g.Draw.Received-g.Challenge.Expires)
	case g.Opening == nil:
		return unclear(CodeNotOpened, "what was drawn was not opened in time")
	}
	r.Opening = canon.Sum(g.Opening)
	if code, err := check(g, r.Draw); err != nil {
		r.Outcome = Wrong
		return unclear(code, "%v", err)
	}
	if r.Elapsed < MinElapsed {
		return unclear(CodeShort, "it took %d ms, and at least %d can be timed: ask for more memory", r.Elapsed, MinElapsed)
	}
	score := g.Challenge.Shape.Score(r.Elapsed)
	if score < 1 {
		return unclear(CodeShort, "%d multiply-adds in %d ms are too few to be a measure", g.Challenge.Shape.Work(), r.Elapsed)
	}
	r.Outcome, r.Score, r.Memory = Measured, score, g.Challenge.Shape.Memory()
	return r
}

func because(code, format string, args ...any) string {
	text := code + ": " + fmt.Sprintf(format, args...)
	return text[:min(len(text), MaxReason)]
}

// check checks an opening against the commitments.
func check(g Given, draw canon.Digest) (code string, err error) {
	t, err := NewTrace(NewChain(g.Challenge), g.Roots)
	if err != nil {
		return CodeForm, err
	}
	o, err := ParseOpening(g.Opening)
	if err != nil {
		return CodeForm, err
	}
	want := g.Draw.Drawn(t.Shape)
	if o.Draw != draw || len(o.Samples) != len(want) {
		return CodeForm, fmt.Errorf("%d samples of the draw %s, want %d of %s", len(o.Samples), o.Draw.Short(), len(want), draw.Short())
	}
	for i, at := range want {
		if code, err := t.check(at, o.Samples[i], g.Draw.Seed); err != nil {
			return code, fmt.Errorf("step %d, block %d: %w", at.Step, at.Block, err)
		}
	}
	return "", nil
}

// check checks one sample.
func (t *Trace) check(at Drawn, s Sample, seed canon.Digest) (code string, err error) {
	from := t.from[at.Step]
	if (s.Previous == nil) != (at.Step == 0) || (s.Slot == nil) != (from == noStep) {
		return CodeForm, errors.New("opened with what it does not rest on, or without what it does")
	}
	product, code, err := t.open(at.Step, at.Block, s.Product)
	if err != nil {
		return code, err
	}
	a := proofs.NewMatrix[int8](BlockRows, t.Cols)
	if at.Step == 0 {
		t.Start(at.Block, a.Data)
	} else {
		previous, code, err := t.open(at.Step-1, at.Block, *s.Previous)
		if err != nil {
			return code, err
		}
		Reduce(a.Data, previous.Data)
	}
	if from != noStep {
		wrote, code, err := t.open(from, at.Block, *s.Slot)
		if err != nil {
			return code, err
		}
		slot := make([]int8, len(a.Data))
		Reduce(slot, wrote.Data)
		Add(a.Data, a.Data, slot)
	}
	k := proofs.NewMatrix[int8](t.Cols, t.Cols)
	t.Matrix(t.keys[at.Step], k)
	f, err := proofs.NewCheck(k, canon.Hash("assay/benchmark-freivalds/v1", seed[:], number(at.Step)), proofs.RoundsInteractive)
	if err == nil {
		err = f.Rows(a, product)
	}
	return CodeProduct, err
}

// open checks that a block was committed, and reads it.
func (t *Trace) open(step, block int, b Block) (proofs.Matrix[int32], string, error) {
	m := proofs.Matrix[int32]{Rows: BlockRows, Cols: t.Cols}
	if len(b.Entries) != 4*BlockRows*t.Cols {
		return m, CodeForm, fmt.Errorf("block of %d bytes, want %d", len(b.Entries), 4*BlockRows*t.Cols)
	}
	m.Data = proofs.Entries(b.Entries)
	leaf, _ := proofs.Leaf(m, nil)
	if err := proofs.Includes(t.roots[step], t.Blocks(), block, leaf, b.Path); err != nil {
		return m, CodeCommitted, fmt.Errorf("root of step %d: %w", step, err)
	}
	return m, "", nil
}

// Open makes the opening of a draw from the roots alone: it computes the drawn blocks again, several at a time. path gives
// the hashes that lead from a block to the root of a step; several goroutines call it.
func (t *Trace) Open(d Draw, workers int, path func(step, block int) []canon.Digest) (Opening, error) {
	_, draw, err := Record{Type: RecordType, Draw: &d}.Bytes()
	if err != nil {
		return Opening{}, err
	}
	var blocks [][]Drawn
	for _, at := range d.Drawn(t.Shape) {
		if n := len(blocks); n > 0 && blocks[n-1][0].Block == at.Block {
			blocks[n-1] = append(blocks[n-1], at)
		} else {
			blocks = append(blocks, []Drawn{at})
		}
	}
	samples := make([][]Sample, len(blocks))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(workers, 1) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(blocks)); i = next.Add(1) - 1 {
				samples[i] = t.openBlock(blocks[i], path)
			}
		})
	}
	wg.Wait()
	return Opening{Type: OpeningType, Draw: draw, Samples: slices.Concat(samples...)}, nil
}

// openBlock opens steps of one block.
func (t *Trace) openBlock(drawn []Drawn, path func(step, block int) []canon.Digest) (out []Sample) {
	block := drawn[0].Block
	kept := map[int]*Block{}
	for _, at := range drawn {
		for _, step := range []int{at.Step, at.Step - 1, t.from[at.Step]} {
			if step != noStep {
				kept[step] = nil
			}
		}
	}
	t.Replay(block, func(step int, product proofs.Matrix[int32]) {
		if _, ok := kept[step]; ok {
			kept[step] = NewBlock(product, path(step, block))
		}
	})
	for _, at := range drawn {
		out = append(out, Sample{*kept[at.Step], kept[at.Step-1], kept[t.from[at.Step]]})
	}
	return out
}
