package proofs_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/proofs"
)

func random(r *rand.Rand, rows, cols int) proofs.Matrix[int8] {
	m := proofs.NewMatrix[int8](rows, cols)
	for i := range m.Data {
		m.Data[i] = int8(r.Uint32())
	}
	return m
}

func filled[E int8 | int32](rows, cols int, with E) proofs.Matrix[E] {
	m := proofs.NewMatrix[E](rows, cols)
	for i := range m.Data {
		m.Data[i] = with
	}
	return m
}

func product(t testing.TB, a, b proofs.Matrix[int8]) proofs.Matrix[int32] {
	t.Helper()
	c, err := proofs.Multiply(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var seed = canon.Sum([]byte("drawn after the commitment"))

func TestFreivalds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][3]int{{1, 1, 1}, {3, 5, 2}, {64, 64, 64}, {200, 16, 7}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			a, b := random(r, shape[0], shape[1]), random(r, shape[1], shape[2])
			c := product(t, a, b)
			if err := proofs.Freivalds(a, b, c, seed, proofs.RoundsInteractive); err != nil {
				t.Errorf("the product: %v", err)
			}
			// Every entry, off by one in any bit, is found.
			for i := range c.Data {
				c.Data[i] ^= 1 << (i % 32)
				if err := proofs.Freivalds(a, b, c, seed, 1); !errors.Is(err, proofs.ErrProduct) {
					t.Fatalf("entry %d changed: %v", i, err)
				}
				c.Data[i] ^= 1 << (i % 32)
			}
		})
	}
}

// naive is the product by its definition.
func naive(a, b proofs.Matrix[int8]) proofs.Matrix[int32] {
	c := proofs.NewMatrix[int32](a.Rows, b.Cols)
	for i := range a.Rows {
		for j := range b.Cols {
			for l := range a.Cols {
				c.Row(i)[j] += int32(a.Row(i)[l]) * int32(b.Row(l)[j])
			}
		}
	}
	return c
}

func TestMultiply(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for rows := 1; rows < 4; rows++ {
		for inner := 1; inner < 20; inner++ {
			for cols := 1; cols < 20; cols++ {
				a, b := random(r, rows, inner), random(r, inner, cols)
				if rows == 1 { // lanes that borrow
					a, b = filled(rows, inner, int8(math.MinInt8)), filled(inner, cols, int8(cols%3-1))
				}
				if got, want := product(t, a, b), naive(a, b); !slices.Equal(got.Data, want.Data) {
					t.Fatalf("%d by %d by %d: %v, want %v", rows, inner, cols, got.Data, want.Data)
				}
			}
		}
	}
}

// TestExtremes: entries as large as they may be, over the largest inner dimension, are exact. A sum that was rounded or
// saturated would not pass.
func TestExtremes(t *testing.T) {
	for _, x := range []int8{math.MinInt8, math.MaxInt8} {
		a, b := filled(1, proofs.MaxInner, int8(math.MinInt8)), filled(proofs.MaxInner, 1, x)
		c := product(t, a, b)
		if want := int64(proofs.MaxInner) * math.MinInt8 * int64(x); int64(c.Data[0]) != want {
			t.Fatalf("%d, want %d", c.Data[0], want)
		}
		if err := proofs.Freivalds(a, b, c, seed, 1); err != nil {
			t.Error(err)
		}
		for _, wrong := range []int32{math.MinInt32, math.MaxInt32, -c.Data[0], 0} {
			c.Data[0] = wrong
			if err := proofs.Freivalds(a, b, c, seed, 1); !errors.Is(err, proofs.ErrProduct) {
				t.Errorf("%d passes", wrong)
			}
		}
	}
}

// TestBound counts instead of believing: of all vectors of a small challenge space, no more than one in each line
// satisfies a wrong product, as the proof of the bound says.
func TestBound(t *testing.T) {
	const space = 1 << 6
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		d := [2]int64{int64(int32(r.Uint32())), int64(int32(r.Uint32()))} // a row of C − A·B
		if r.IntN(4) == 0 {
			d[0] = int64(math.MinInt32) - 1<<30 // as far off as it can be: the lowest bits are all zero
		}
		if d[0] == 0 {
			continue
		}
		accepted := 0
		for x := range uint64(space) {
			for y := range uint64(space) {
				if (uint64(d[0])*(x<<25) + uint64(d[1])*(y<<25)) == 0 { // spread over [0, 2^31)
					accepted++
				}
			}
		}
		if accepted > space {
			t.Errorf("%d of %d vectors accept %v, at most one in %d may", accepted, space*space, d, space)
		}
	}
}

func TestVector(t *testing.T) {
	v := proofs.Vector(seed, 0, 10_000)
	var high int
	for _, x := range v {
		if x >= 1<<31 {
			t.Fatalf("%d is not below 2^31", x)
		}
		if x >= 1<<30 {
			high++
		}
	}
	if high < 4700 || high > 5300 {
		t.Errorf("%d of 10000 in the upper half", high)
	}
	if w := proofs.Vector(seed, 1, 3); w[0] == v[0] && w[1] == v[1] {
		t.Error("two rounds have one vector")
	}
	if a, b := proofs.Seed(seed), proofs.Seed(seed, seed); a == b || a == seed {
		t.Error("seeds of other commitments are the same")
	}
}

func TestShapes(t *testing.T) {
	a, b := filled(2, 3, int8(1)), filled(3, 4, int8(1))
	c := product(t, a, b)
	for name, err := range map[string]error{
		"inner":    proofs.Freivalds(a, filled(2, 4, int8(1)), c, seed, 1),
		"rows":     proofs.Freivalds(a, b, filled(3, 4, int32(3)), seed, 1),
		"columns":  proofs.Freivalds(a, b, filled(2, 3, int32(3)), seed, 1),
		"entries":  proofs.Freivalds(a, proofs.Matrix[int8]{Rows: 3, Cols: 4, Data: b.Data[:11]}, c, seed, 1),
		"empty":    proofs.Freivalds(a, proofs.Matrix[int8]{}, c, seed, 1),
		"negative": proofs.Freivalds(a, proofs.Matrix[int8]{Rows: -3, Cols: -4, Data: b.Data}, c, seed, 1),
		"rounds":   proofs.Freivalds(a, b, c, seed, 0),
		"many":     proofs.Freivalds(a, b, c, seed, proofs.MaxRounds+1),
	} {
		if err == nil || errors.Is(err, proofs.ErrProduct) {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := filled(proofs.MaxInner+1, 1, int8(1))
	if _, err := proofs.NewCheck(large, seed, 1); err == nil {
		t.Error("a check over too large an inner dimension")
	}
	if _, err := proofs.Multiply(filled(1, proofs.MaxInner+1, int8(1)), large); err == nil {
		t.Error("a product over too large an inner dimension")
	}
	if _, err := proofs.Multiply(a, a); err == nil {
		t.Error("a product of shapes that do not fit")
	}
}

// TestOpening: rows of a committed product are opened and checked, and nothing else of it is sent.
func TestOpening(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, blocks := range []int{1, 2, 3, 7, 8, 13} {
		a, b := random(r, 4*blocks, 16), random(r, 16, 8)
		c := product(t, a, b)
		leaves := make([]canon.Digest, blocks)
		var buf []byte
		for i := range leaves {
			leaves[i], buf = proofs.Leaf(c.RowRange(4*i, 4*i+4), buf)
		}
		root := proofs.Root(leaves)
		check, err := proofs.NewCheck(b, proofs.Seed(root), proofs.RoundsFiatShamir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range leaves {
			path := proofs.Path(leaves, i)
			opened := proofs.Matrix[int32]{Rows: 4, Cols: 8, Data: proofs.Entries(proofs.AppendEntries(nil, c.RowRange(4*i, 4*i+4).Data))}
			leaf, _ := proofs.Leaf(opened, nil)
			if err := proofs.Includes(root, blocks, i, leaf, path); err != nil {
				t.Error(err)
			}
			if err := check.Rows(a.RowRange(4*i, 4*i+4), opened); err != nil {
				t.Error(err)
			}
			opened.Data[i%32]++
			other, _ := proofs.Leaf(opened, nil)
			if proofs.Includes(root, blocks, i, other, path) == nil {
				t.Error("a row that was not committed is in the tree")
			}
			if err := check.Rows(a.RowRange(4*i, 4*i+4), opened); !errors.Is(err, proofs.ErrProduct) {
				t.Errorf("a wrong row: %v", err)
			}
			if blocks > 1 && proofs.Includes(root, blocks, (i+1)%blocks, leaf, path) == nil {
				t.Error("a leaf is at two places")
			}
		}
		if proofs.Includes(root, blocks, blocks, leaves[0], nil) == nil || proofs.Includes(root, 0, 0, leaves[0], nil) == nil || proofs.Includes(root, blocks, -1, leaves[0], nil) == nil || proofs.Includes(root, -1, 0, leaves[0], nil) == nil {
			t.Error("a leaf outside the tree")
		}
	}
}

// FuzzFreivalds: the check agrees with the product computed anew, whatever the entries.
func FuzzFreivalds(f *testing.F) {
	f.Add(uint8(2), uint8(3), []byte{1, 2, 3, 4, 5, 6, 255, 128}, uint16(1), uint32(7))
	f.Fuzz(func(t *testing.T, rows, inner uint8, data []byte, at uint16, change uint32) {
		n, k := int(rows%8)+1, int(inner%16)+1
		a, b := proofs.NewMatrix[int8](n, k), proofs.NewMatrix[int8](k, n)
		for i := range data {
			if i < n*k {
				a.Data[i] = int8(data[i])
			} else if i < 2*n*k {
				b.Data[i-n*k] = int8(data[i])
			}
		}
		c := naive(a, b)
		if !slices.Equal(c.Data, product(t, a, b).Data) {
			t.Fatal("Multiply is not the product")
		}
		c.Data[int(at)%len(c.Data)] += int32(change)
		if err := proofs.Freivalds(a, b, c, canon.Sum(data), 1); (err == nil) != (change == 0) {
			t.Errorf("changed by %d: %v", int32(change), err)
		}
	})
}

// BenchmarkFactor is the product of a block of rows and a small matrix, as a benchmark of hosts has it.
func BenchmarkFactor(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	x, c := random(r, 16, 64), proofs.NewMatrix[int32](16, 64)
	var f proofs.Factor
	f.Pack(random(r, 64, 64))
	for b.Loop() {
		f.Times(x, c)
	}
	b.ReportMetric(float64(b.N)*16*64*64/b.Elapsed().Seconds()/1e6, "Mmadd/s")
}

// BenchmarkProduct shows the check beside the product that it saves.
func BenchmarkProduct(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{128, 512, 1024} {
		x, y := random(r, n, n), random(r, n, n)
		c := product(b, x, y)
		b.Run(fmt.Sprintf("naive/%d", n), func(b *testing.B) {
			for b.Loop() {
				naive(x, y)
			}
		})
		b.Run(fmt.Sprintf("multiply/%d", n), func(b *testing.B) {
			for b.Loop() {
				product(b, x, y)
			}
		})
		b.Run(fmt.Sprintf("freivalds/%d", n), func(b *testing.B) {
			for b.Loop() {
				if err := proofs.Freivalds(x, y, c, seed, proofs.RoundsInteractive); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
