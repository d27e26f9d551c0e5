package proofs

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/assay-network/assay/internal/canon"
)

// Leaf returns the hash of a block of rows of a product: entries row by row, 4 bytes each, little-endian, hashed as a leaf
// of RFC 6962 section 2.1. buf may be used again for the next block; nil is fine.
func Leaf(rows Matrix[int32], buf []byte) (canon.Digest, []byte) {
	buf = AppendEntries(append(buf[:0], rfc6962.RFC6962LeafHashPrefix), rows.Data)
	return canon.Sum(buf), buf
}

// AppendEntries appends entries as they are hashed and sent: 4 bytes each, little-endian.
func AppendEntries(dst []byte, entries []int32) []byte {
	for _, x := range entries {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(x))
	}
	return dst
}

// Entries reads what [AppendEntries] wrote. The length must be a multiple of 4.
func Entries(data []byte) []int32 {
	out := make([]int32, len(data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// Root returns the root of the tree over leaves (RFC 6962 section 2.1). There must be at least one.
func Root(leaves []canon.Digest) canon.Digest {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := split(len(leaves))
	left, right := Root(leaves[:k]), Root(leaves[k:])
	var both [1 + 2*len(left)]byte
	both[0] = rfc6962.RFC6962NodeHashPrefix
	copy(both[1:], left[:])
	copy(both[1+len(left):], right[:])
	return canon.Sum(both[:])
}

// Path returns the hashes that lead from a leaf to the root (RFC 6962 section 2.1.1).
func Path(leaves []canon.Digest, index int) []canon.Digest {
	if len(leaves) == 1 {
		return nil
	}
	if k := split(len(leaves)); index < k {
		return append(Path(leaves[:k], index), Root(leaves[k:]))
	} else {
		return append(Path(leaves[k:], index-k), Root(leaves[:k]))
	}
}

// split returns the largest power of two below n.
func split(n int) int { return 1 << (bits.Len(uint(n-1)) - 1) }

// Includes checks that a tree of so many leaves, with this root, has the leaf at an index.
func Includes(root canon.Digest, size, index int, leaf canon.Digest, path []canon.Digest) error {
	hashes := make([][]byte, len(path))
	for i := range path {
		hashes[i] = path[i][:]
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size), leaf[:], hashes, root[:]); err != nil {
		return fmt.Errorf("leaf %d is not in the tree that was committed", index)
	}
	return nil
}
