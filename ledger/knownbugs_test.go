package ledger_test

import (
	"strings"
	"testing"

	"github.com/transparency-dev/tessera/api/layout"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// small is a log in the shape of the one that Tessera carries for its tests: the trees of sizes 1 to 12.
type small struct {
	memory
	leaves []canon.Digest
	trees  []ledger.Tree // by size
}

func newSmall() *small {
	s := &small{leaves: commitments(0, 12)}
	s.trees = []ledger.Tree{s.append()}
	for _, c := range s.leaves {
		s.trees = append(s.trees, s.append(c))
	}
	return s
}

func (s *small) include(t *testing.T, index, size int64) ledger.Inclusion {
	t.Helper()
	p, err := ledger.ProveInclusion(t.Context(), s, index, size)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *small) consist(t *testing.T, from, to int64) ledger.Consistency {
	t.Helper()
	p, err := ledger.ProveConsistency(t.Context(), s, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestG01ProofOfAnotherSize: a proof that was made for one tree is held against the checkpoint of another. The error names
// both sizes.
func TestG01ProofOfAnotherSize(t *testing.T) {
	s := newSmall()
	at11, at12 := s.include(t, 10, 11), s.include(t, 10, 12)
	if len(at11.Hashes) != 2 || len(at12.Hashes) != 3 {
		t.Fatalf("%d and %d hashes, want 2 and 3", len(at11.Hashes), len(at12.Hashes))
	}
	check(t, "size 11 at 11", at11.Verify(s.leaves[10], s.trees[11]), "")
	check(t, "size 12 at 12", at12.Verify(s.leaves[10], s.trees[12]), "")
	check(t, "size 11 at 12", at11.Verify(s.leaves[10], s.trees[12]), "the proof is for size 11, the checkpoint has size 12")
	check(t, "size 12 at 11", at12.Verify(s.leaves[10], s.trees[11]), "the proof is for size 12, the checkpoint has size 11")
	at11.Size = 12 // a forger's word for its size does not help the hashes
	check(t, "size 11, said to be of 12", at11.Verify(s.leaves[10], s.trees[12]), "another number of hashes")
}

// TestG02SizeIsNotIndex: the tree that ends with leaf 7 has size 8.
func TestG02SizeIsNotIndex(t *testing.T) {
	s := newSmall()
	with7 := s.trees[8]
	check(t, "leaf 7 in size 8", s.include(t, 7, 8).Verify(s.leaves[7], with7), "")
	check(t, "8 to 12", s.consist(t, 8, 12).Verify(with7, s.trees[12]), "")
	check(t, "7 to 12, for the tree that ends with leaf 7", s.consist(t, 7, 12).Verify(with7, s.trees[12]), "the proof is for sizes 7 to 12, the checkpoints have 8 and 12")
	if _, err := ledger.ProveInclusion(t.Context(), s, 7, 7); err == nil {
		t.Error("a proof of leaf 7 in the tree of size 7 was made")
	}
}

// TestG03LogGrewBetweenCalls: each root counts for its own size.
func TestG03LogGrewBetweenCalls(t *testing.T) {
	s := newSmall()
	p := s.consist(t, 7, 11)
	if len(p.Hashes) != 5 {
		t.Fatalf("%d hashes from 7 to 11, want 5", len(p.Hashes))
	}
	check(t, "root 7 and root 11", p.Verify(s.trees[7], s.trees[11]), "")
	check(t, "root 11 in the place of root 7", p.Verify(ledger.Tree{Size: 7, Root: s.trees[11].Root}, s.trees[11]), "another root")
	check(t, "root 7 in the place of root 11", p.Verify(s.trees[7], ledger.Tree{Size: 11, Root: s.trees[7].Root}), "another root")
	check(t, "roots exchanged", p.Verify(s.trees[11], s.trees[7]), "the proof is for sizes 7 to 11, the checkpoints have 11 and 7")
	check(t, "leaf 3 by the old proof under the new root", s.include(t, 3, 7).Verify(s.leaves[3], s.trees[11]), "the proof is for size 7")
}

// TestG04OneLeaf: in a tree of one leaf the proof is empty, and must be.
func TestG04OneLeaf(t *testing.T) {
	s := newSmall()
	p := s.include(t, 0, 1)
	if len(p.Hashes) != 0 {
		t.Fatalf("%d hashes, want none", len(p.Hashes))
	}
	check(t, "no hash", p.Verify(s.leaves[0], s.trees[1]), "")
	p.Hashes = commitments(99, 1)
	check(t, "a hash too many", p.Verify(s.leaves[0], s.trees[1]), "another number of hashes")
	p.Hashes = nil
	check(t, "another leaf", p.Verify(s.leaves[1], s.trees[1]), "another root")
	check(t, "the empty tree goes on", s.consist(t, 0, 1).Verify(s.trees[0], s.trees[1]), "")
	if want := layout.TilePath(0, 0, 1); want != (ledger.Tile{Width: 1}).Path() {
		t.Errorf("its tile is %s, want %s", ledger.Tile{Width: 1}.Path(), want)
	}
}

// TestG11CheckpointOfAnother: a checkpoint counts under the log's key alone, with origin, size and root where they belong.
func TestG11CheckpointOfAnother(t *testing.T) {
	s := newSmall()
	signer, verifier := logKey(t, origin, 1)
	other, _ := logKey(t, origin, 2)
	sign := func(text string, by ...note.Signer) []byte {
		t.Helper()
		data, err := note.Sign(&note.Note{Text: text}, by...)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	text := ledger.Checkpoint{Origin: origin, Tree: s.trees[11]}.Text()
	lines := strings.SplitAfter(text, "\n")
	good := sign(text, signer)
	hint := string(good)
	at := strings.LastIndex(hint, " ") + 1
	flipped := "B"
	if hint[at] == 'B' {
		flipped = "C"
	}
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"good", good, ""},
		{"another key's hint", []byte(hint[:at] + flipped + hint[at+1:]), "no verifiable signatures"},
		{"another key of that name", sign(text, other), "no verifiable signatures"},
		{"no origin", sign(lines[1]+lines[2], signer), "checkpoint"},
		{"another origin", sign("elsewhere.example/log\n"+lines[1]+lines[2], signer), `checkpoint of "elsewhere.example/log" signed with the key of`},
		{"no size", sign(lines[0]+lines[2], signer), "checkpoint"},
		{"no root", sign(lines[0]+lines[1], signer), "checkpoint"},
		{"a negative size", sign(lines[0]+"-1\n"+lines[2], signer), "checkpoint"},
	} {
		_, err := ledger.OpenCheckpoint(row.data, verifier)
		check(t, row.name, err, row.want)
	}
	// A root that the log's key signed and that is not the leaves': the proof says so.
	wrong := s.trees[11]
	wrong.Root = s.trees[12].Root
	opened, err := ledger.OpenCheckpoint(sign(ledger.Checkpoint{Origin: origin, Tree: wrong}.Text(), signer), verifier)
	check(t, "a wrong root, signed", err, "")
	check(t, "leaf 10 under a wrong root", s.include(t, 10, 11).Verify(s.leaves[10], opened.Tree), "another root")
	check(t, "leaf 10 under the right one", s.include(t, 10, 11).Verify(s.leaves[10], s.trees[11]), "")
	negative := s.include(t, 10, 11)
	negative.Index = -1
	check(t, "a negative index", negative.Verify(s.leaves[10], s.trees[11]), "index -1")
}

// TestG14EntryOfAnother: a proof of an entry shows that entry, and no other that somebody holds beside it.
func TestG14EntryOfAnother(t *testing.T) {
	var openings [][]byte
	var m memory
	for i, body := range []string{"one", "two"} {
		e := ledger.Entry{Type: ledger.EntryType, Kind: ledger.KindPolicy, Stream: ledger.StreamServer, Sequence: int64(i), Time: start, Body: canon.Sum([]byte(body)), Refs: []canon.Digest{}}
		if i > 0 {
			e.Previous = canon.Sum(openings[0])
		}
		data, err := e.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		opening := ledger.Opening([ledger.SaltSize]byte{byte(i)}, data)
		openings = append(openings, opening)
	}
	tree := m.append(canon.Sum(openings[0]), canon.Sum(openings[1]))
	p, err := ledger.ProveInclusion(t.Context(), &m, 0, tree.Size)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "its own opening", p.Verify(canon.Sum(openings[0]), tree), "")
	check(t, "the opening of another entry", p.Verify(canon.Sum(openings[1]), tree), "another root")
	_, e, err := ledger.ParseOpening(openings[0])
	if err != nil || e.Body != canon.Sum([]byte("one")) {
		t.Fatalf("the entry that is proved names the body %s, %v", e.Body, err)
	}
	resalted := ledger.Opening([ledger.SaltSize]byte{9}, openings[0][len(openings[0])-len(mustCanonical(t, e)):])
	check(t, "the same entry under another salt", p.Verify(canon.Sum(resalted), tree), "another root")
}

func mustCanonical(t *testing.T, e ledger.Entry) []byte {
	t.Helper()
	data, err := e.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
