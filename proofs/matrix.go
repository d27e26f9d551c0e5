package proofs

import "fmt"

// Matrix is a matrix of integers, row by row: int8 for what is multiplied, int32 for a product.
type Matrix[E int8 | int32] struct {
	Rows, Cols int
	Data       []E // Rows·Cols entries
}

// NewMatrix returns a matrix of zeros.
func NewMatrix[E int8 | int32](rows, cols int) Matrix[E] {
	return Matrix[E]{rows, cols, make([]E, rows*cols)}
}

// Row returns a row; it is part of the matrix.
func (m Matrix[E]) Row(i int) []E { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// RowRange returns the rows from one to before another; they are part of the matrix.
func (m Matrix[E]) RowRange(from, to int) Matrix[E] {
	return Matrix[E]{to - from, m.Cols, m.Data[from*m.Cols : to*m.Cols]}
}

func (m Matrix[E]) check(name string) error {
	if m.Rows < 1 || m.Cols < 1 || m.Rows > len(m.Data) || len(m.Data)/m.Rows != m.Cols || len(m.Data)%m.Rows != 0 {
		return fmt.Errorf("matrix %s: %d by %d with %d entries", name, m.Rows, m.Cols, len(m.Data))
	}
	return nil
}

// Multiply returns A·B, entry by entry. The shapes must fit, and the inner dimension be at most [MaxInner].
func Multiply(a, b Matrix[int8]) (Matrix[int32], error) {
	if err := fit(a, b); err != nil {
		return Matrix[int32]{}, err
	}
	c := NewMatrix[int32](a.Rows, b.Cols)
	for i := range a.Rows {
		out := c.Row(i)
		for l, x := range a.Row(i) {
			for j, y := range b.Row(l) {
				out[j] += int32(x) * int32(y)
			}
		}
	}
	return c, nil
}

func fit(a, b Matrix[int8]) error {
	if err := a.check("A"); err != nil {
		return err
	}
	if err := b.check("B"); err != nil {
		return err
	}
	if a.Cols != b.Rows {
		return fmt.Errorf("product of %d by %d and %d by %d", a.Rows, a.Cols, b.Rows, b.Cols)
	}
	if b.Rows > MaxInner {
		return fmt.Errorf("product over an inner dimension of %d, at most %d", b.Rows, MaxInner)
	}
	return nil
}
