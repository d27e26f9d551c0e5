package benchmark

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/proofs"
)

const (
	blocksAtOnce = 16  // blocks that a worker takes at a time
	reportEvery  = 100 // progress is told so often in a chain
)

// CPU is a driver: it reads orders, computes with all processors that it may use, and writes reports, until there are no
// more orders. An error was reported before it is returned.
func CPU(in io.Reader, out io.Writer) error {
	// Where memory runs out, the kernel shall end this process before one of the provider's. That is a courtesy, and where
	// it is not to be had there is nothing to do about it.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	c := cpu{out: out, workers: runtime.GOMAXPROCS(0)}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxLine)
	for lines.Scan() {
		var o Order
		err := canon.Unmarshal(lines.Bytes(), &o)
		if err == nil {
			err = c.obey(o)
		}
		if err != nil {
			return errors.Join(err, c.report(Report{Error: err.Error()}))
		}
	}
	return lines.Err()
}

// cpu is a chain on processors.
type cpu struct {
	out     io.Writer
	workers int

	shape  capacity.Shape
	slots  []int8 // all slots, one after another
	leaves []byte // of all blocks of all steps, one after another
	trace  *capacity.Trace
}

func (c *cpu) report(r Report) error {
	line, err := canon.Marshal(r)
	if err == nil {
		_, err = c.out.Write(append(line, '\n'))
	}
	return err
}

func (c *cpu) obey(o Order) error {
	switch {
	case o.Shape != nil && c.slots == nil:
		if err := c.take(*o.Shape); err != nil {
			return err
		}
		return c.report(Report{Ready: fmt.Sprintf("%d processors, %s", c.workers, runtime.GOARCH)})
	case o.Challenge != nil && c.slots != nil && o.Challenge.Shape == c.shape && c.trace == nil:
		roots, err := c.compute(*o.Challenge)
		if err != nil {
			return err
		}
		return c.report(Report{Roots: roots})
	case o.Draw != nil && c.trace != nil:
		opening, err := c.trace.Open(*o.Draw, c.workers, c.path)
		if err != nil {
			return err
		}
		return c.report(Report{Opening: &opening})
	}
	return errors.New("an order where another was due: shape, then challenge, then draw")
}

// take takes the memory of a chain, and touches it: that is not to be timed.
func (c *cpu) take(s capacity.Shape) error {
	if err := s.Validate(); err != nil {
		return err
	}
	slots, err := reserve(s.Memory())
	if err != nil {
		return fmt.Errorf("take %d bytes for slots: %w", s.Memory(), err)
	}
	size := int64(s.Steps) * int64(s.Blocks()) * int64(len(canon.Digest{}))
	leaves, err := reserve(size)
	if err != nil {
		return fmt.Errorf("take %d bytes for hashes: %w", size, err)
	}
	c.shape, c.slots, c.leaves = s, unsafe.Slice((*int8)(unsafe.Pointer(&slots[0])), len(slots)), leaves
	const page = 4096
	for i := 0; i < len(c.slots); i += page {
		c.slots[i] = 1
	}
	for i := 0; i < len(c.leaves); i += page {
		c.leaves[i] = 1
	}
	return nil
}

// compute computes the chain and returns the roots of its steps.
func (c *cpu) compute(ch capacity.Challenge) (roots []byte, err error) {
	chain := capacity.NewChain(ch)
	var root canon.Digest
	var f proofs.Factor
	k := proofs.NewMatrix[int8](c.shape.Cols, c.shape.Cols)
	last := -1
	for step := range c.shape.Steps {
		key := chain.Key(step, root)
		chain.Matrix(key, k)
		f.Pack(k)
		slot, reads := chain.Slot(step, key)
		c.step(func(block int, a []int8) {
			if last < 0 {
				chain.Start(block, a)
			} else {
				copy(a, c.block(last, block))
			}
			if reads {
				capacity.Add(a, a, c.block(slot, block))
			}
		}, &f, step, slot)
		last = slot
		root = proofs.Root(c.hashes(step))
		roots = append(roots, root[:]...)
		if done := step + 1; done < c.shape.Steps && done*reportEvery/c.shape.Steps != step*reportEvery/c.shape.Steps {
			if err := c.report(Report{Step: done}); err != nil {
				return nil, err
			}
		}
	}
	c.trace, err = capacity.NewTrace(chain, roots)
	return roots, err
}

// step computes one product, block by block, on all workers. A block is read before it is written, by the same worker, so
// a slot may be read and written in one step.
func (c *cpu) step(left func(block int, a []int8), f *proofs.Factor, step, slot int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() {
			a := proofs.NewMatrix[int8](capacity.BlockRows, c.shape.Cols)
			product := proofs.NewMatrix[int32](capacity.BlockRows, c.shape.Cols)
			var buf []byte
			for {
				from := int(next.Add(blocksAtOnce)) - blocksAtOnce
				if from >= c.shape.Blocks() {
					return
				}
				for block := from; block < min(from+blocksAtOnce, c.shape.Blocks()); block++ {
					left(block, a.Data)
					f.Times(a, product)
					var leaf canon.Digest
					leaf, buf = proofs.Leaf(product, buf)
					copy(c.leaf(step, block), leaf[:])
					capacity.Reduce(c.block(slot, block), product.Data)
				}
			}
		})
	}
	wg.Wait()
}

// block returns the rows of a block in a slot.
func (c *cpu) block(slot, block int) []int8 {
	size := capacity.BlockRows * c.shape.Cols
	at := slot*c.shape.Rows*c.shape.Cols + block*size
	return c.slots[at : at+size]
}

func (c *cpu) leaf(step, block int) []byte {
	at := (step*c.shape.Blocks() + block) * len(canon.Digest{})
	return c.leaves[at : at+len(canon.Digest{})]
}

// hashes returns the leaves of a step.
func (c *cpu) hashes(step int) []canon.Digest {
	out := make([]canon.Digest, c.shape.Blocks())
	for i := range out {
		copy(out[i][:], c.leaf(step, i))
	}
	return out
}

func (c *cpu) path(step, block int) []canon.Digest { return proofs.Path(c.hashes(step), block) }
