package ledger_test

import (
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// TestProofs checks every proof of every tree up to a size, each with its twins: another leaf, index, hash, root.
func TestProofs(t *testing.T) {
	const sizes = 40
	ctx := t.Context()
	var m memory
	all := commitments(0, sizes)
	trees := []ledger.Tree{ledger.Edge{}.Tree()}
	for _, c := range all {
		trees = append(trees, m.append(c))
	}
	for size := int64(1); size <= sizes; size++ {
		tree := trees[size]
		for index := range size {
			p, err := ledger.ProveInclusion(ctx, &m, index, size)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "inclusion", p.Verify(all[index], tree), "")
			check(t, "another leaf", p.Verify(canon.Sum([]byte("other")), tree), "another root")
			other := tree
			other.Root[31] ^= 1
			check(t, "another root", p.Verify(all[index], other), "another root")
			if len(p.Hashes) > 0 {
				p.Hashes[0][0] ^= 1
				check(t, "another hash", p.Verify(all[index], tree), "another root")
				p.Hashes[0][0] ^= 1
				p.Index ^= 1
				if p.Index < size {
					check(t, "another index", p.Verify(all[index], tree), "another")
				}
			}
		}
		for from := int64(0); from <= size; from++ {
			p, err := ledger.ProveConsistency(ctx, &m, from, size)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "consistency", p.Verify(trees[from], tree), "")
			other := tree
			other.Root[31] ^= 1
			if from > 0 {
				check(t, "another root", p.Verify(trees[from], other), "another root")
			}
			if len(p.Hashes) > 0 {
				p.Hashes[0][0] ^= 1
				check(t, "another hash", p.Verify(trees[from], tree), "another root")
			}
		}
	}
	for _, c := range []struct{ index, size int64 }{{-1, 5}, {5, 5}, {0, 0}} {
		_, err := ledger.ProveInclusion(ctx, &m, c.index, c.size)
		check(t, "impossible index", err, "in a tree of size")
		check(t, "impossible index", ledger.Inclusion{Index: c.index, Size: c.size}.Verify(all[0], trees[c.size]), "in a tree of size")
	}
	_, err := ledger.ProveConsistency(ctx, &m, 6, 5)
	check(t, "from larger to smaller", err, "from size 6 to size 5")
	long := ledger.Inclusion{Size: 5, Hashes: make([]canon.Digest, ledger.MaxProofHashes+1)}
	check(t, "long proof", long.Verify(all[0], trees[5]), "at most 128")
}

// TestKnownBugs has the faults that other verifiers had, each with the case beside it that must pass.
func TestKnownBugs(t *testing.T) {
	ctx, peer := t.Context(), newPeerLog(t)
	t.Run("G01", func(t *testing.T) { // a proof for one size checked against another
		for _, size := range []int64{11, 12} {
			p, err := ledger.ProveInclusion(ctx, peer, 10, size)
			if err != nil {
				t.Fatal(err)
			}
			if want := int(size) - 9; len(p.Hashes) != want {
				t.Errorf("size %d: %d hashes, want %d", size, len(p.Hashes), want)
			}
		}
		m, trees := grown(12)
		p, err := ledger.ProveInclusion(ctx, m, 10, 11)
		if err != nil {
			t.Fatal(err)
		}
		leaf := commitments(10, 1)[0]
		check(t, "its own size", p.Verify(leaf, trees[11]), "")
		check(t, "the next size", p.Verify(leaf, trees[12]), "the proof is for size 11, the checkpoint has size 12")
		c, err := ledger.ProveConsistency(ctx, peer, 7, 11)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "another smaller size", c.Verify(peer.at(t, 8), peer.at(t, 11)), "the proof is for sizes 7 to 11, the checkpoints have 8 and 11")
	})
	t.Run("G02", func(t *testing.T) { // consistency asked for size = index instead of index+1
		const index = 7
		p, err := ledger.ProveConsistency(ctx, peer, index+1, 15)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "index+1", p.Verify(peer.at(t, 8), peer.at(t, 15)), "")
		check(t, "index", p.Verify(peer.at(t, 7), peer.at(t, 15)), "the proof is for sizes 8 to 15, the checkpoints have 7 and 15")
	})
	t.Run("G03", func(t *testing.T) { // the log grew between two calls
		p, err := ledger.ProveConsistency(ctx, peer, 7, 11)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Hashes) != 5 {
			t.Errorf("%d hashes, want 5", len(p.Hashes))
		}
		before, after := peer.at(t, 7), peer.at(t, 11)
		check(t, "each root in its place", p.Verify(before, after), "")
		mixed := before
		mixed.Root = after.Root
		check(t, "the new root at the old size", p.Verify(mixed, after), "another root")
	})
	t.Run("G04", func(t *testing.T) { // a tree of one leaf has an empty proof
		m, trees := grown(1)
		p, err := ledger.ProveInclusion(ctx, m, 0, 1)
		if err != nil || len(p.Hashes) != 0 {
			t.Fatalf("%d hashes, want none (%v)", len(p.Hashes), err)
		}
		leaf := commitments(0, 1)[0]
		check(t, "no hashes", p.Verify(leaf, trees[1]), "")
		p.Hashes = commitments(5, 1)
		check(t, "one junk hash", p.Verify(leaf, trees[1]), "another number of hashes")
		if _, err := ledger.ProveInclusion(ctx, peer, 0, 1); err != nil {
			t.Error(err)
		}
	})
}

// grown returns a log of a size with all the trees that it was.
func grown(size int) (*memory, []ledger.Tree) {
	m := &memory{}
	trees := []ledger.Tree{ledger.Edge{}.Tree()}
	for _, c := range commitments(0, size) {
		trees = append(trees, m.append(c))
	}
	return m, trees
}

func BenchmarkProof(b *testing.B) {
	const size = 100_000
	var m memory
	all := commitments(0, size)
	tree := m.append(all...)
	p, err := ledger.ProveInclusion(b.Context(), &m, size/3, size)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("prove", func(b *testing.B) {
		for b.Loop() {
			if _, err := ledger.ProveInclusion(b.Context(), &m, size/3, size); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if err := p.Verify(all[size/3], tree); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	const size = 100_000
	var m memory
	tree := m.append(commitments(0, size)...)
	for b.Loop() {
		if err := ledger.Walk(b.Context(), &m, tree, func(int64, canon.Digest) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "leaves/s")
}
