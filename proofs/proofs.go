// Package proofs holds what convinces somebody who does not do the work again.
//
// Freivalds' check tells whether C = A·B for less than the product costs: it multiplies both sides by a vector r that
// whoever made C could not know, and compares A·(B·r) with C·r. Matrices are of integers, and nothing is rounded. Merkle
// trees over rows let the check open a sample of a matrix that was committed whole.
//
// # Error bound
//
// Entries of A and B are 8 bits wide, those of C 32, the inner dimension is at most [MaxInner], and the entries of r are
// drawn evenly from [0, 2^31). All sums are taken in the ring of integers modulo 2^64, the arithmetic of uint64, in which
// nothing overflows: it wraps, and that is the ring's own sum. If C is not A·B, some entry d of their difference is not 0,
// and |d| < 2^32, since entries of A·B are at most 2^14·MaxInner = 2^30 and those of C at most 2^31. Fix all entries of r
// but the one that meets d. Were two values x and y of that one to satisfy the check, d·(x−y) would be 0 modulo 2^64, yet
// 0 < |d|·|x−y| < 2^32·2^31 < 2^64. So at most one of 2^31 values satisfies it: a round accepts a wrong product with
// probability at most 2^-31, and k rounds with vectors of their own at most 2^-31k.
//
//	rounds   seed drawn by the verifier, after the commitment    seed of Fiat and Shamir, 2^40 commitments tried
//	1        2^-31                                               none
//	2        2^-62   (RoundsInteractive)                         2^-22
//	4        2^-124                                              2^-84   (RoundsFiatShamir)
//
// # What it does not show
//
// The bound holds only if A, B and C were fixed before the seed: the caller sees to that. A seed by [Seed] is fixed by the
// commitments alone, and who commits can try many; where only samples are opened, trying is cheap and finds a sample
// without the fault, so a sample is to be drawn by the verifier. A check of some rows says nothing of the others.
package proofs

// Limits.
const (
	MaxInner  = 1 << 16 // inner dimension of a product: its entries stay below 2^31
	MaxRounds = 8       // of one check: 2^-248
)

// Rounds of a check, see the error bound.
const (
	RoundsInteractive = 2 // where the verifier draws the seed after the commitment
	RoundsFiatShamir  = 4 // where the seed follows from the commitment
)
