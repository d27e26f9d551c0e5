package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func tailsOf(n int) map[string]ledger.Tail {
	tails := map[string]ledger.Tail{"empty": {}}
	for i := range n {
		tails[fmt.Sprintf("node:%d", i)] = ledger.Tail{Next: int64(i + 1), Last: canon.Sum(fmt.Append(nil, i))}
	}
	return tails
}

// TestHeads: the end of each stream is proven for what it is, in trees of every shape around a tile's width.
func TestHeads(t *testing.T) {
	seed := slices.Repeat([]byte{7}, ledger.SeedSize)
	for _, n := range []int{1, 2, 3, 255, 256, 257, 600} {
		tree := ledger.NewHeadsTree(seed, tailsOf(n))
		doc := tree.Document()
		data, err := canon.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ledger.ParseHeads(data); err != nil || again != doc || doc.Streams != int64(n) || doc.Seed != canon.Sum(seed) {
			t.Fatalf("%d streams: %+v, %v", n, again, err)
		}
		if _, ok := tree.Prove("empty"); ok {
			t.Error("a stream without entries has an end")
		}
		for i := 0; i < n; i += max(1, n/7) {
			p, ok := tree.Prove(fmt.Sprintf("node:%d", i))
			if !ok || p.Head.Next != int64(i+1) || p.Verify(doc) != nil {
				t.Fatalf("%d streams: %d: %+v, %v", n, i, p, p.Verify(doc))
			}
		}
	}
}

// TestHeadsTwins changes one thing at a time.
func TestHeadsTwins(t *testing.T) {
	seed := slices.Repeat([]byte{7}, ledger.SeedSize)
	tree := ledger.NewHeadsTree(seed, tailsOf(5))
	for _, row := range []struct {
		name   string
		change func(*ledger.HeadProof, *ledger.Heads)
		want   string
	}{
		{"none", func(*ledger.HeadProof, *ledger.Heads) {}, ""},
		{"an earlier end", func(p *ledger.HeadProof, _ *ledger.Heads) { p.Head.Next-- }, "another root"},
		{"another last entry", func(p *ledger.HeadProof, _ *ledger.Heads) { p.Head.Last[0] ^= 1 }, "another root"},
		{"another stream", func(p *ledger.HeadProof, _ *ledger.Heads) { p.Head.Stream = "node:4" }, "another root"},
		{"another salt", func(p *ledger.HeadProof, _ *ledger.Heads) { p.Salt[0] ^= 1 }, "another root"},
		{"another place", func(p *ledger.HeadProof, _ *ledger.Heads) { p.Place.Index ^= 1 }, "another root"},
		{"another document", func(_ *ledger.HeadProof, h *ledger.Heads) { h.Root[0] ^= 1 }, "another root"},
		{"fewer streams", func(_ *ledger.HeadProof, h *ledger.Heads) { h.Streams-- }, "the proof is for size 5"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, _ := tree.Prove("node:3")
			doc := tree.Document()
			row.change(&p, &doc)
			err := p.Verify(doc)
			if row.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
	// The seed of another hour gives other leaves: who saw one proof cannot follow the others by it.
	other := ledger.NewHeadsTree(slices.Repeat([]byte{8}, ledger.SeedSize), tailsOf(5))
	if other.Document().Root == tree.Document().Root {
		t.Error("heads do not depend on the seed")
	}
	closing := tree.Document()
	closing.Closes.Next = "next/log"
	data, err := canon.Marshal(closing)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ledger.ParseHeads(data); err != nil || again != closing {
		t.Errorf("of a closing entry: %+v, %v", again, err)
	}
	closing.Closes.Next = strings.Repeat("a", ledger.MaxOrigin+1)
	if data, err = canon.Marshal(closing); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.ParseHeads(data); err == nil || !strings.Contains(err.Error(), "256 bytes, at most 255") {
		t.Errorf("of a long name: %v", err)
	}
	empty := strings.Replace(string(data), closing.Closes.Next, "", 1)
	if _, err := ledger.ParseHeads([]byte(empty)); err == nil {
		t.Errorf("%s was read", empty)
	}
	for _, text := range []string{`{}`, `{"root":"` + strings.Repeat("0", 64) + `","seed":"` + strings.Repeat("1", 64) + `","streams":1,"type":"assay/heads/v1"}`,
		`{"root":"` + strings.Repeat("1", 64) + `","seed":"` + strings.Repeat("1", 64) + `","streams":0,"type":"assay/heads/v1"}`,
		`{"root":"` + strings.Repeat("1", 64) + `","seed":"` + strings.Repeat("1", 64) + `","streams":1,"type":"assay/heads/v2"}`} {
		if _, err := ledger.ParseHeads([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestHeadsTreeIsFixed: the root of known streams, computed elsewhere from FORMAT.md.
func TestHeadsTreeIsFixed(t *testing.T) {
	doc := ledger.NewHeadsTree(slices.Repeat([]byte{7}, ledger.SeedSize), tailsOf(3)).Document()
	if got := doc.Root.String(); got != "817a98bd37beca2fda09d3dcabb2d2c8ccff7f49b625c701af4e20bf9a812e10" {
		t.Errorf("root %s", got)
	}
}
