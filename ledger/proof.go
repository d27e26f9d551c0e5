package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/assay-network/assay/internal/canon"
)

// Inclusion proves that a leaf stands at an index of a tree (RFC 6962 section 2.1.1). It holds for that tree only, so it
// carries the size that it was made for.
type Inclusion struct {
	Index  int64          `json:"index"`
	Size   int64          `json:"size"` // of the tree that it was made for
	Hashes []canon.Digest `json:"hashes"`
}

// Consistency proves that one tree is a prefix of another (RFC 6962 section 2.1.2).
type Consistency struct {
	From   int64          `json:"from"` // size of the smaller tree
	To     int64          `json:"to"`   // size of the larger tree
	Hashes []canon.Digest `json:"hashes"`
}

// ProveInclusion makes the proof of a leaf from a source's tiles. The source may have grown past size. The proof is as
// true as the source; [Inclusion.Verify] tells.
func ProveInclusion(ctx context.Context, src Source, index, size int64) (Inclusion, error) {
	if index < 0 || index >= size {
		return Inclusion{}, fmt.Errorf("prove inclusion: index %d in a tree of size %d", index, size)
	}
	nodes, err := proof.Inclusion(uint64(index), uint64(size))
	if err != nil {
		return Inclusion{}, fmt.Errorf("prove inclusion: %w", err)
	}
	hashes, err := fetchNodes(ctx, src, nodes, size)
	return Inclusion{index, size, hashes}, err
}

// ProveConsistency makes the proof that the tree of size from is a prefix of the tree of size to.
func ProveConsistency(ctx context.Context, src Source, from, to int64) (Consistency, error) {
	if from < 0 || from > to {
		return Consistency{}, fmt.Errorf("prove consistency: from size %d to size %d", from, to)
	}
	nodes, err := proof.Consistency(uint64(from), uint64(to))
	if err != nil {
		return Consistency{}, fmt.Errorf("prove consistency: %w", err)
	}
	hashes, err := fetchNodes(ctx, src, nodes, to)
	return Consistency{from, to, hashes}, err
}

// fetchNodes reads the nodes of a proof out of the tiles of a tree, each tile once.
func fetchNodes(ctx context.Context, src Source, nodes proof.Nodes, size int64) ([]canon.Digest, error) {
	tiles := map[Tile][]byte{}
	raw := make([][]byte, 0, len(nodes.IDs))
	for _, id := range nodes.IDs {
		t, from, to := nodeTile(id, size)
		data, ok := tiles[t]
		if !ok {
			var err error
			if data, err = src.Tile(ctx, t); err != nil {
				return nil, fmt.Errorf("%s: %w", t.Path(), err)
			}
			if len(data) != t.Bytes() {
				return nil, fmt.Errorf("%s: %d bytes, want %d", t.Path(), len(data), t.Bytes())
			}
			tiles[t] = data
		}
		raw = append(raw, subtree(data[from*sha256.Size:to*sha256.Size]))
	}
	raw, err := nodes.Rehash(raw, hashChildren)
	if err != nil {
		panic("ledger: internal error: proof: " + err.Error())
	}
	out := make([]canon.Digest, len(raw))
	for i, h := range raw {
		out[i] = canon.Digest(h)
	}
	return out, nil
}

// Verify checks that the leaf of a commitment stands at p.Index of tree. Whether tree is the log's is for the caller:
// it comes from a checkpoint that was opened with the log's key.
func (p Inclusion) Verify(commitment canon.Digest, tree Tree) error {
	if p.Size != tree.Size {
		return fmt.Errorf("inclusion: the proof is for size %d, the checkpoint has size %d", p.Size, tree.Size)
	}
	if p.Index < 0 || p.Index >= p.Size {
		return fmt.Errorf("inclusion: index %d in a tree of size %d", p.Index, p.Size)
	}
	if len(p.Hashes) > MaxProofHashes {
		return fmt.Errorf("inclusion: %d hashes, at most %d", len(p.Hashes), MaxProofHashes)
	}
	leaf := LeafHash(commitment)
	err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(p.Index), uint64(p.Size), leaf[:], slicesOf(p.Hashes), tree.Root[:])
	return proofError("inclusion", err)
}

// Verify checks that the tree from is a prefix of the tree to.
func (p Consistency) Verify(from, to Tree) error {
	if p.From != from.Size || p.To != to.Size {
		return fmt.Errorf("consistency: the proof is for sizes %d to %d, the checkpoints have %d and %d", p.From, p.To, from.Size, to.Size)
	}
	if p.From < 0 || p.From > p.To {
		return fmt.Errorf("consistency: from size %d to size %d", p.From, p.To)
	}
	if len(p.Hashes) > MaxProofHashes {
		return fmt.Errorf("consistency: %d hashes, at most %d", len(p.Hashes), MaxProofHashes)
	}
	if from.Size == 0 && from.Root != sha256.Sum256(nil) {
		return errors.New("consistency: a root of size 0 that is not the empty tree's")
	}
	err := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(p.From), uint64(p.To), slicesOf(p.Hashes), from.Root[:], to.Root[:])
	return proofError("consistency", err)
}

// proofError keeps the two kinds of failure apart in our own words, so that no library text enters a result.
func proofError(what string, err error) error {
	var mismatch proof.RootMismatchError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch):
		return fmt.Errorf("%s: the proof leads to another root", what)
	}
	return fmt.Errorf("%s: the proof has another number of hashes than its sizes ask for", what)
}

func slicesOf(hashes []canon.Digest) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}
