// Package capacity is the benchmark of hosts without a TEE: it measures what a machine computes and holds, and attests
// nothing (DESIGN 6, hardware axis H1).
//
// A verifier names a seed and a shape. The host computes a chain of integer matrix products: each step multiplies the
// state with a matrix that follows from the commitment to the step before, so that no step can begin before the one before
// it has ended, and adds a slot of memory that nobody can name earlier, so that all slots have to be at hand. It commits to
// every step, and the time until the verifier has the commitments is the measure. Then the verifier draws steps and rows;
// the host opens them, and Freivalds' check (package proofs) tells whether they are the products.
//
// All nodes of one owner are challenged at the same instant, each with a seed of its own: two nodes that are one machine
// then have half of it each. [Compare] says what that shows. What counts as measured is what a node did beside the others,
// so a machine gains nothing by being slow on purpose when it is asked alone. Nodes that take turns, each with the whole
// machine until its chain is done, do gain something: n of them are credited with 1 + 1/2 + ... + 1/n machines together at
// most, and are never found separate.
//
// The room is pure: clocks and randomness are arguments. What runs the chain fast is package agent/benchmark, or another
// program that speaks the interface of drivers (FORMAT.md). What the benchmark cannot show stands in LIMITATIONS.md.
package capacity

import (
	"fmt"
	"math/bits"
)

// Rules is the version of the rules of this room: who changes what a check or a comparison says raises it.
const Rules = 2

// Limits on shapes and documents.
const (
	MinCols   = 16      // columns of a state: the inner dimension of every product
	MaxCols   = 256     // so that an opening stays below MaxOpening
	BlockRows = 16      // rows that are committed, and opened, together
	MaxRows   = 1 << 24 // of a state
	MaxSlots  = 1 << 13 // states that are held at a time
	MaxSteps  = 1 << 15 // products of a chain: 1 MiB of commitments
	MaxNodes  = 256     // nodes that are challenged at one instant
	MaxNode   = 80      // bytes of the id of a node

	MaxDocument = 16 << 10 // bytes of a challenge, draw or result
	MaxOpening  = 8 << 20  // bytes of an opening
	MaxReason   = 256      // bytes of a reason
)

// What is drawn of a chain. Who left out a share e of the rows is found out with a probability of 1 − (1−e)^SampleBlocks,
// a share of the steps with 1 − (1−e)^(SampleBlocks·StepsPerBlock): for a tenth, 0.966 and 0.9988; for a quarter, above
// 0.9998. That is sharper than the clock: a tenth of the work is within what [SeparateShare] allows.
const (
	SampleBlocks  = 32
	StepsPerBlock = 2
)

// How shapes follow from the memory that is claimed.
const (
	slotMiB     = 1    // of a slot, as long as there are not too many slots
	shapeSlots  = 1024 // at most: beyond, slots grow, so that a GPU gets large products and commitments stay small
	shapePasses = 4    // steps for each slot: one fills it, three more read and overwrite slots
	cpuCols     = 64   // 64 multiply-adds for each byte that is read: the processor is busy, and memory is too
)

// Limits on the memory that one challenge asks for.
const (
	MinMemoryMiB = 4
	MaxMemoryMiB = 256 << 10
)

// Shape is the size of a chain.
type Shape struct {
	Cols  int `json:"cols"`  // a power of two
	Rows  int `json:"rows"`  // of a state; a multiple of BlockRows
	Slots int `json:"slots"` // states that are held
	Steps int `json:"steps"` // products; at least two for each slot
}

// ShapeFor returns the shape that fills so much memory.
func ShapeFor(memoryMiB int) (Shape, error) {
	if memoryMiB < MinMemoryMiB || memoryMiB > MaxMemoryMiB {
		return Shape{}, fmt.Errorf("benchmark: memory of %d MiB, want %d to %d", memoryMiB, MinMemoryMiB, MaxMemoryMiB)
	}
	slots := min(memoryMiB/slotMiB, shapeSlots)
	rows := int(int64(memoryMiB) << 20 / int64(slots*cpuCols) / BlockRows * BlockRows) // an int may have 32 bits
	return Shape{Cols: cpuCols, Rows: rows, Slots: slots, Steps: shapePasses * slots}, nil
}

// Validate checks that the shape is within the limits.
func (s Shape) Validate() error {
	switch {
	case s.Cols < MinCols || s.Cols > MaxCols || bits.OnesCount(uint(s.Cols)) != 1:
		return fmt.Errorf("benchmark: %d columns, want a power of two from %d to %d", s.Cols, MinCols, MaxCols)
	case s.Rows < BlockRows || s.Rows > MaxRows || s.Rows%BlockRows != 0:
		return fmt.Errorf("benchmark: %d rows, want a multiple of %d up to %d", s.Rows, BlockRows, MaxRows)
	case s.Slots < 1 || s.Slots > MaxSlots:
		return fmt.Errorf("benchmark: %d slots, want 1 to %d", s.Slots, MaxSlots)
	case s.Steps < 2*s.Slots || s.Steps > MaxSteps:
		return fmt.Errorf("benchmark: %d steps, want two for each of %d slots, and at most %d", s.Steps, s.Slots, MaxSteps)
	case s.Memory() > MaxMemoryMiB<<20:
		return fmt.Errorf("benchmark: memory of %d bytes, at most %d MiB", s.Memory(), MaxMemoryMiB)
	}
	return nil
}

// Blocks returns how many blocks of rows a state has.
func (s Shape) Blocks() int { return s.Rows / BlockRows }

// SlotBytes returns the size of one state.
func (s Shape) SlotBytes() int64 { return int64(s.Rows) * int64(s.Cols) }

// Memory returns the bytes that the slots fill.
func (s Shape) Memory() int64 { return int64(s.Slots) * s.SlotBytes() }

// Work returns the multiply-adds of the chain: at most 2^24·2^16·2^15 = 2^55.
func (s Shape) Work() int64 { return int64(s.Steps) * int64(s.Rows) * int64(s.Cols) * int64(s.Cols) }

// Score returns the measure of a chain that took so long: thousands of multiply-adds a second.
func (s Shape) Score(elapsedMS int64) int64 { return s.Work() / elapsedMS }
