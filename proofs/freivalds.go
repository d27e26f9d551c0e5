package proofs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// ErrProduct says that C is not A·B. It is certain: a right product always passes.
var ErrProduct = errors.New("not the product")

// Seed returns the seed that follows from commitments to all that is checked (Fiat and Shamir). It needs
// [RoundsFiatShamir] rounds.
func Seed(commitments ...canon.Digest) canon.Digest {
	xs := make([][]byte, len(commitments))
	for i := range commitments {
		xs[i] = commitments[i][:]
	}
	return canon.Hash("assay/freivalds-seed/v1", xs...)
}

// Vector returns the vector of a round, its entries drawn evenly from [0, 2^31).
func Vector(seed canon.Digest, round, n int) []uint64 {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(round))
	key := canon.Hash("assay/freivalds-vector/v1", seed[:], number[:])
	words := make([]byte, (4*n+sha256.Size-1)/sha256.Size*sha256.Size)
	Expand(key, 0, words)
	r := make([]uint64, n)
	for i := range r {
		r[i] = uint64(binary.BigEndian.Uint32(words[4*i:]) >> 1)
	}
	return r
}

// Expand fills dst with the stream of a key from a block on: block i is SHA-256(key || i, 8 bytes big-endian). The length
// of dst must be a multiple of 32.
func Expand(key canon.Digest, block uint64, dst []byte) {
	var in [sha256.Size + 8]byte
	copy(in[:], key[:])
	for ; len(dst) > 0; dst = dst[sha256.Size:] {
		binary.BigEndian.PutUint64(in[sha256.Size:], block)
		sum := sha256.Sum256(in[:])
		copy(dst, sum[:])
		block++
	}
}

// Check is Freivalds' check against one B: what needs B and r alone is computed once, for however many rows of A and C.
type Check struct {
	inner, cols int
	vectors     []vectors
}

type vectors struct {
	r  []uint64
	br []uint64 // B·r
}

// NewCheck draws the vectors of a number of rounds and multiplies B with them. A, B and C must have been fixed before the
// seed was.
func NewCheck(b Matrix[int8], seed canon.Digest, rounds int) (*Check, error) {
	if err := checkFactor(b); err != nil {
		return nil, err
	}
	if rounds < 1 || rounds > MaxRounds {
		return nil, fmt.Errorf("%d rounds, want 1 to %d", rounds, MaxRounds)
	}
	c := &Check{inner: b.Rows, cols: b.Cols}
	for round := range rounds {
		v := vectors{r: Vector(seed, round, b.Cols), br: make([]uint64, b.Rows)}
		for i := range v.br {
			v.br[i] = dot(b.Row(i), v.r)
		}
		c.vectors = append(c.vectors, v)
	}
	return c, nil
}

// Rows checks that rows of C are those of A, times B. A wrong one passes with the probability of the error bound;
// otherwise the error is [ErrProduct] and names the first row that is not. It says nothing of rows that it was not given,
// nor of whether these are those that were committed.
func (c *Check) Rows(a Matrix[int8], product Matrix[int32]) error {
	if err := a.check("A"); err != nil {
		return err
	}
	if err := product.check("C"); err != nil {
		return err
	}
	if a.Rows != product.Rows || a.Cols != c.inner || product.Cols != c.cols {
		return fmt.Errorf("product of %d by %d and %d by %d is not %d by %d", a.Rows, a.Cols, c.inner, c.cols, product.Rows, product.Cols)
	}
	for i := range a.Rows {
		for _, v := range c.vectors {
			if dot(a.Row(i), v.br) != dot(product.Row(i), v.r) {
				return fmt.Errorf("row %d: %w", i, ErrProduct)
			}
		}
	}
	return nil
}

// Freivalds checks that C = A·B. See [Check.Rows].
func Freivalds(a, b Matrix[int8], product Matrix[int32], seed canon.Digest, rounds int) error {
	c, err := NewCheck(b, seed, rounds)
	if err != nil {
		return err
	}
	return c.Rows(a, product)
}

// dot is the product of a row and a vector, modulo 2^64. A negative entry is its residue.
func dot[E int8 | int32](row []E, v []uint64) (sum uint64) {
	for i, x := range row {
		sum += uint64(int64(x)) * v[i]
	}
	return sum
}
