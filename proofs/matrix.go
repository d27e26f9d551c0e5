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

// Multiply returns A·B. The shapes must fit, and the inner dimension be at most [MaxInner].
func Multiply(a, b Matrix[int8]) (Matrix[int32], error) {
	if err := a.check("A"); err != nil {
		return Matrix[int32]{}, err
	}
	if err := checkFactor(b); err != nil {
		return Matrix[int32]{}, err
	}
	if a.Cols != b.Rows {
		return Matrix[int32]{}, fmt.Errorf("product of %d by %d and %d by %d", a.Rows, a.Cols, b.Rows, b.Cols)
	}
	c := NewMatrix[int32](a.Rows, b.Cols)
	var f Factor
	f.Pack(b)
	f.Times(a, c)
	return c, nil
}

func checkFactor(b Matrix[int8]) error {
	if err := b.check("B"); err != nil {
		return err
	}
	if b.Rows > MaxInner {
		return fmt.Errorf("product over an inner dimension of %d, at most %d", b.Rows, MaxInner)
	}
	return nil
}

// Factor is a right factor made ready for many products: two columns share a word, so that one multiplication of words
// does two of entries. That is exact: sums of entries stay within ±2^30, and a lane is 32 bits wide. The zero Factor is
// ready for Pack; after that its products may be computed by several goroutines at once.
type Factor struct {
	inner, cols int
	pairs       []int64 // for each pair of columns, inner words: left column + right column << 32
}

// Pack makes the factor ready for products with b, whose inner dimension must be at most [MaxInner].
func (f *Factor) Pack(b Matrix[int8]) {
	f.inner, f.cols = b.Rows, b.Cols
	n := (b.Cols + 1) / 2 * b.Rows
	if cap(f.pairs) < n {
		f.pairs = make([]int64, n)
	}
	f.pairs = f.pairs[:n]
	clear(f.pairs)
	for l := range b.Rows {
		for j, y := range b.Row(l) {
			f.pairs[j/2*b.Rows+l] += int64(y) << (32 * (j % 2))
		}
	}
}

// Times writes the product of a and the factor. The shapes must fit.
func (f *Factor) Times(a Matrix[int8], product Matrix[int32]) {
	row := make([]int64, f.inner)
	for i := range a.Rows {
		for l, x := range a.Row(i) {
			row[l] = int64(x)
		}
		out := product.Row(i)
		j := 0
		for ; j+8 <= f.cols; j += 8 {
			at := j / 2 * f.inner
			p0, p1 := f.pairs[at:at+f.inner], f.pairs[at+f.inner:at+2*f.inner]
			p2, p3 := f.pairs[at+2*f.inner:at+3*f.inner], f.pairs[at+3*f.inner:at+4*f.inner]
			p0, p1, p2, p3 = p0[:len(row)], p1[:len(row)], p2[:len(row)], p3[:len(row)]
			var s0, s1, s2, s3 int64
			for l, x := range row {
				s0 += x * p0[l]
				s1 += x * p1[l]
				s2 += x * p2[l]
				s3 += x * p3[l]
			}
			o := out[j : j+8]
			o[0], o[1] = lanes(s0)
			o[2], o[3] = lanes(s1)
			o[4], o[5] = lanes(s2)
			o[6], o[7] = lanes(s3)
		}
		for ; j < f.cols; j += 2 {
			at := j / 2 * f.inner
			var s int64
			for l, y := range f.pairs[at : at+f.inner] {
				s += row[l] * y
			}
			left, right := lanes(s)
			out[j] = left
			if j+1 < f.cols {
				out[j+1] = right
			}
		}
	}
}

// lanes parts a sum of two lanes. The left one borrows from the right one where it is negative.
func lanes(s int64) (left, right int32) {
	left = int32(s)
	return left, int32((s - int64(left)) >> 32)
}
