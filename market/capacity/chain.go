package capacity

import (
	"encoding/binary"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/proofs"
)

// Chain is what follows from a challenge before anything is computed. FORMAT.md says the same in formulas.
type Chain struct {
	Shape
	base canon.Digest
}

// NewChain returns the chain of a challenge. A seed is good for one node: what another node computed of it is of no use.
func NewChain(c Challenge) Chain {
	return Chain{c.Shape, canon.Hash("assay/benchmark-chain/v1", c.Seed[:], []byte(c.Node))}
}

// Key returns what a step depends on. previous is the root of the step before; zero for step 0.
func (c Chain) Key(step int, previous canon.Digest) canon.Digest {
	return canon.Hash("assay/benchmark-step/v1", c.base[:], number(step), previous[:])
}

func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// Matrix writes the matrix of a step, Cols by Cols.
func (c Chain) Matrix(key canon.Digest, dst proofs.Matrix[int8]) {
	expand(canon.Hash("assay/benchmark-matrix/v1", key[:]), 0, dst.Data)
}

// Start writes a block of the state before step 0.
func (c Chain) Start(block int, dst []int8) {
	expand(canon.Hash("assay/benchmark-start/v1", c.base[:]), uint64(block)*uint64(BlockRows*c.Cols)/32, dst)
}

func expand(key canon.Digest, block uint64, dst []int8) {
	var buf [32]byte
	for ; len(dst) > 0; dst = dst[len(buf):] {
		proofs.Expand(key, block, buf[:])
		for i, x := range buf {
			dst[i] = int8(x)
		}
		block++
	}
}

// Slot returns the slot that a step writes, and whether it reads it before: the first steps fill the slots in order, the
// others take one that their key names.
func (c Chain) Slot(step int, key canon.Digest) (slot int, reads bool) {
	if step < c.Slots {
		return step, false
	}
	return int(binary.BigEndian.Uint64(key[:8]) % uint64(c.Slots)), true
}

// Add adds a slot to a state, entry by entry, modulo 256.
func Add(dst, state, slot []int8) {
	for i, x := range state {
		dst[i] = x + slot[i]
	}
}

// Reduce makes the next state of a product: of each entry bits 8 to 15, which are those of many sums. It is what keeps a
// chain of products from being one product.
func Reduce(dst []int8, product []int32) {
	for i, x := range product {
		dst[i] = int8(x >> 8)
	}
}

// Trace is a chain with the roots of all its steps.
type Trace struct {
	Chain
	roots []canon.Digest
	keys  []canon.Digest
	from  []int // step that wrote what this one reads, or noStep
}

const noStep = -1

// NewTrace reads the commitments of a host: the roots of all steps, 32 bytes each.
func NewTrace(c Chain, commitments []byte) (*Trace, error) {
	if len(commitments) != c.Steps*len(canon.Digest{}) {
		return nil, fmt.Errorf("benchmark: %d bytes of roots, want %d for each of %d steps", len(commitments), len(canon.Digest{}), c.Steps)
	}
	t := &Trace{Chain: c}
	writer := make([]int, c.Slots)
	var previous canon.Digest
	for step := range c.Steps {
		key := c.Key(step, previous)
		slot, reads := c.Slot(step, key)
		from := noStep
		if reads {
			from = writer[slot]
		}
		writer[slot] = step
		copy(previous[:], commitments[step*len(previous):])
		t.roots, t.keys, t.from = append(t.roots, previous), append(t.keys, key), append(t.from, from)
	}
	return t, nil
}

// Replay computes one block of all steps, as it follows from the roots, and shows visit the product of each; the matrix
// that visit gets is used again. It is how a host opens what it no longer holds: rows of a state depend on no other rows
// but by the roots.
func (t *Trace) Replay(block int, visit func(step int, product proofs.Matrix[int32])) {
	size := BlockRows * t.Cols
	states := make([]int8, t.Slots*size)
	state := func(slot int) []int8 { return states[slot*size : (slot+1)*size] }
	last := make([]int8, size)
	t.Start(block, last)
	a, product := proofs.NewMatrix[int8](BlockRows, t.Cols), proofs.NewMatrix[int32](BlockRows, t.Cols)
	k := proofs.NewMatrix[int8](t.Cols, t.Cols)
	var f proofs.Factor
	for step := range t.Steps {
		slot, reads := t.Slot(step, t.keys[step])
		copy(a.Data, last)
		if reads {
			Add(a.Data, last, state(slot))
		}
		t.Matrix(t.keys[step], k)
		f.Pack(k)
		f.Times(a, product)
		visit(step, product)
		last = state(slot)
		Reduce(last, product.Data)
	}
}
