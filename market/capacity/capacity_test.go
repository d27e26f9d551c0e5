package capacity_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/proofs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digest(b byte) (d canon.Digest) {
	for i := range d {
		d[i] = b
	}
	return d
}

const begin = 1_770_000_000_000 // ms

var small = capacity.Shape{Cols: 16, Rows: 64, Slots: 3, Steps: 9}

func newChallenge(s capacity.Shape) capacity.Challenge {
	return capacity.Challenge{Round: digest(1), Nodes: 1, Node: "node", Seed: digest(1), Shape: s, Starts: begin, Expires: begin + 60_000}
}

// host computes a chain as FORMAT.md has it, number by number, with nothing of the room that is tested but the shape.
type host struct {
	roots    []byte
	products [][]int32 // C of each step
	leaves   [][]canon.Digest
}

func hash(tag string, xs ...[]byte) []byte {
	var b []byte
	for _, x := range append([][]byte{[]byte(tag)}, xs...) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(x))), x...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

func stream(key []byte, n int) []int8 {
	var out []int8
	for i := uint64(0); len(out) < n; i++ {
		for _, x := range sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(key), i)) {
			out = append(out, int8(x))
		}
	}
	return out[:n]
}

// cheat changes what a step computes before it is committed.
func compute(c capacity.Challenge, cheat func(step int, product []int32)) host {
	s := c.Shape
	var h host
	base := hash("assay/benchmark-chain/v1", c.Seed[:], []byte(c.Node))
	x := stream(hash("assay/benchmark-start/v1", base), s.Rows*s.Cols)
	slots := make([][]int8, s.Slots)
	root := make([]byte, 32)
	for t := range s.Steps {
		key := hash("assay/benchmark-step/v1", base, binary.BigEndian.AppendUint64(nil, uint64(t)), root)
		k := stream(hash("assay/benchmark-matrix/v1", key), s.Cols*s.Cols)
		at, a := t, slices.Clone(x)
		if t >= s.Slots {
			at = int(binary.BigEndian.Uint64(key) % uint64(s.Slots))
			for i, y := range slots[at] {
				a[i] += y
			}
		}
		product := make([]int32, len(a))
		for i := range s.Rows {
			for j := range s.Cols {
				for l := range s.Cols {
					product[i*s.Cols+j] += int32(a[i*s.Cols+l]) * int32(k[l*s.Cols+j])
				}
			}
		}
		if cheat != nil {
			cheat(t, product)
		}
		x = make([]int8, len(product))
		for i, y := range product {
			x[i] = int8(uint32(y) >> 8 & 0xff)
		}
		slots[at] = x
		var leaves []canon.Digest
		for i := 0; i < len(product); i += 16 * s.Cols {
			b := []byte{0}
			for _, y := range product[i : i+16*s.Cols] {
				b = binary.LittleEndian.AppendUint32(b, uint32(y))
			}
			leaves = append(leaves, sha256.Sum256(b))
		}
		r := proofs.Root(leaves)
		root = r[:]
		h.roots, h.products, h.leaves = append(h.roots, root...), append(h.products, product), append(h.leaves, leaves)
	}
	return h
}

func (h host) trace(t testing.TB, c capacity.Challenge) *capacity.Trace {
	tr, err := capacity.NewTrace(capacity.NewChain(c), h.roots)
	must(t, err)
	return tr
}

// open makes an opening of what the host computed, right or wrong.
func (h host) open(t testing.TB, c capacity.Challenge, d capacity.Draw) capacity.Opening {
	o, err := h.trace(t, c).Open(d, 2, func(step, block int) []canon.Digest { return proofs.Path(h.leaves[step], block) })
	must(t, err)
	return o
}

func record(t testing.TB, r capacity.Record) canon.Digest {
	r.Type = capacity.RecordType
	_, d, err := r.Bytes()
	must(t, err)
	return d
}

func newDraw(t testing.TB, c capacity.Challenge, roots []byte, elapsed int64) capacity.Draw {
	return capacity.Draw{Challenge: record(t, capacity.Record{Challenge: &c}), Roots: canon.Sum(roots), Received: c.Starts + elapsed, Seed: digest(7), Expires: c.Starts + elapsed + 60_000}
}

func marshal(t testing.TB, v any) []byte {
	data, err := canon.Marshal(v)
	must(t, err)
	return data
}

func TestFormatSaysWhatIsComputed(t *testing.T) {
	text, err := os.ReadFile("FORMAT.md")
	must(t, err)
	if roots := canon.Sum(compute(newChallenge(small), nil).roots); !strings.Contains(string(text), roots.String()) {
		t.Errorf("FORMAT.md does not name %s", roots)
	}
}

// TestReplay: a block that is computed again from the roots alone is what the host had, at every step.
func TestReplay(t *testing.T) {
	for _, s := range []capacity.Shape{small, {Cols: 32, Rows: 16, Slots: 1, Steps: 5}, {Cols: 16, Rows: 80, Slots: 4, Steps: 30}} {
		c := newChallenge(s)
		h := compute(c, nil)
		for block := range s.Blocks() {
			h.trace(t, c).Replay(block, func(step int, product proofs.Matrix[int32]) {
				if size := 16 * s.Cols; !slices.Equal(product.Data, h.products[step][block*size:(block+1)*size]) {
					t.Errorf("step %d, block %d differs", step, block)
				}
			})
		}
	}
}

// TestStatesStayRandom: a state that falls to few values would make the chain cheap.
func TestStatesStayRandom(t *testing.T) {
	s := capacity.Shape{Cols: 64, Rows: 16, Slots: 8, Steps: 400}
	h := compute(newChallenge(s), nil)
	for _, step := range []int{0, 7, 8, 399} {
		var seen [256]int
		for _, x := range h.products[step] {
			seen[uint8(x>>8)]++
		}
		if n := slices.Max(seen[:]); n > 24 { // 1024 entries, 4 of each value on average
			t.Errorf("step %d: one value %d times", step, n)
		}
	}
}

// TestJudge has one honest answer, and twins that differ in one thing each.
func TestJudge(t *testing.T) {
	c := newChallenge(small)
	h := compute(c, nil)
	d := newDraw(t, c, h.roots, 10_000)
	o := h.open(t, c, d)
	honest := capacity.Given{Challenge: c, Draw: &d, Roots: h.roots, Opening: marshal(t, o)}
	if r := capacity.Judge(honest); r.Outcome != capacity.Measured || r.Elapsed != 10_000 || r.Memory != 3*64*16 || r.Score != 9*64*16*16/10_000 {
		t.Fatalf("the honest answer: %+v", r)
	}
	twins := map[string]struct {
		change func(g *capacity.Given, d *capacity.Draw, o *capacity.Opening)
		code   string
	}{
		"no draw": {func(g *capacity.Given, _ *capacity.Draw, _ *capacity.Opening) { g.Draw = nil }, capacity.CodeNoAnswer},
		"late": {func(g *capacity.Given, d *capacity.Draw, _ *capacity.Opening) {
			d.Received = c.Expires + 1
			d.Expires = d.Received + 1
		}, capacity.CodeLate},
		"not opened": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { o.Type = "" }, capacity.CodeNotOpened},
		"short": {func(g *capacity.Given, d *capacity.Draw, o *capacity.Opening) {
			d.Received = c.Starts + capacity.MinElapsed - 1
			redraw(t, d, o)
		}, capacity.CodeShort},
		"roots cut": {func(g *capacity.Given, d *capacity.Draw, o *capacity.Opening) {
			g.Roots = g.Roots[32:]
			d.Roots = canon.Sum(g.Roots)
			redraw(t, d, o)
		}, capacity.CodeForm},
		"another draw":      {func(_ *capacity.Given, d *capacity.Draw, _ *capacity.Opening) { d.Seed = digest(8) }, capacity.CodeForm},
		"says another draw": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { o.Draw = digest(9) }, capacity.CodeForm},
		"sample missing":    {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { o.Samples = o.Samples[1:] }, capacity.CodeForm},
		"cut block": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) {
			o.Samples[0].Product.Entries = o.Samples[0].Product.Entries[4:]
		}, capacity.CodeForm},
		"no previous": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) {
			i := slices.IndexFunc(o.Samples, func(s capacity.Sample) bool { return s.Previous != nil })
			o.Samples[i].Previous = nil
		}, capacity.CodeForm},
		"no slot": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) {
			i := slices.IndexFunc(o.Samples, func(s capacity.Sample) bool { return s.Slot != nil })
			o.Samples[i].Slot = nil
		}, capacity.CodeForm},
		"product": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { flip(&o.Samples[3].Product) }, capacity.CodeCommitted},
		"previous": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) {
			flip(o.Samples[len(o.Samples)-1].Previous)
		}, capacity.CodeCommitted},
		"slot": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { flip(o.Samples[len(o.Samples)-1].Slot) }, capacity.CodeCommitted},
		"path": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) { o.Samples[0].Product.Path[0][0]++ }, capacity.CodeCommitted},
		"block moved": {func(_ *capacity.Given, _ *capacity.Draw, o *capacity.Opening) {
			last := &o.Samples[len(o.Samples)-1]
			last.Product = o.Samples[0].Product
		}, capacity.CodeCommitted},
		// What was computed for another challenge, earlier or of another node, and committed to again.
		"an earlier product": {func(g *capacity.Given, d *capacity.Draw, o *capacity.Opening) {
			g.Challenge.Seed = digest(9)
			d.Challenge = record(t, capacity.Record{Challenge: &g.Challenge})
			redraw(t, d, o)
		}, ""},
		"another node's commitments": {func(g *capacity.Given, d *capacity.Draw, o *capacity.Opening) {
			g.Challenge.Node = "other"
			d.Challenge = record(t, capacity.Record{Challenge: &g.Challenge})
			redraw(t, d, o)
		}, ""},
	}
	sums := map[string]canon.Digest{}
	for name, twin := range twins {
		t.Run(name, func(t *testing.T) {
			g, d := honest, d
			g.Draw = &d
			o, err := capacity.ParseOpening(honest.Opening)
			must(t, err)
			twin.change(&g, &d, &o)
			if g.Opening = marshal(t, o); o.Type == "" {
				g.Opening = nil
			}
			r := capacity.Judge(g)
			if r.Outcome == capacity.Measured || !strings.HasPrefix(r.Reason, twin.code+": ") && twin.code != "" {
				t.Errorf("%+v, want %s", r, twin.code)
			}
			if twin.code == "" && r.Outcome != capacity.Wrong {
				t.Errorf("%+v, want wrong", r)
			}
			sums[name] = record(t, capacity.Record{Result: &r})
		})
	}
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		all = append(all, sum[:]...)
	}
	if got := canon.Sum(all); got.String() != golden {
		t.Errorf("results of these cases have the digest %s: where the rules changed, raise Rules", got)
	}
}

// golden is the digest of the results of all twins, in the order of their names, by rules 2.
const golden = "d3ef718b60b195fe11d8e17ab0fb8c0657493668e881e1b2649f7be3f4e44bf4"

func flip(b *capacity.Block) { b.Entries[5]++ }

// TestGivenBelongsTogether: a draw that is not of what is given with it is a fault of whoever gives it, and no node's.
func TestGivenBelongsTogether(t *testing.T) {
	c := newChallenge(small)
	h := compute(c, nil)
	for name, change := range map[string]func(g *capacity.Given, d *capacity.Draw){
		"roots": func(g *capacity.Given, _ *capacity.Draw) {
			g.Roots = slices.Concat(g.Roots[32:], g.Roots[:32])
		},
		"challenge":        func(_ *capacity.Given, d *capacity.Draw) { d.Challenge = digest(9) },
		"before the start": func(_ *capacity.Given, d *capacity.Draw) { d.Received = c.Starts - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDraw(t, c, h.roots, 10_000)
			g := capacity.Given{Challenge: c, Draw: &d, Roots: h.roots}
			if r := capacity.Judge(g); !strings.HasPrefix(r.Reason, capacity.CodeNotOpened) {
				t.Fatalf("%+v", r)
			}
			change(&g, &d)
			defer func() {
				if recover() == nil {
					t.Error("it was judged")
				}
			}()
			capacity.Judge(g)
		})
	}
}

func redraw(t testing.TB, d *capacity.Draw, o *capacity.Opening) {
	o.Draw = record(t, capacity.Record{Draw: d})
}

// TestCheats: who commits to what is not the product is found out, though all that he opens is what he committed.
func TestCheats(t *testing.T) {
	s := capacity.Shape{Cols: 16, Rows: 16 * 16, Slots: 4, Steps: 16}
	for name, cheat := range map[string]func(step int, product []int32){
		"a quarter of the rows": func(_ int, product []int32) { clear(product[len(product)/4*3:]) },
		"half of the steps": func(step int, product []int32) {
			if step >= s.Steps/2 {
				clear(product)
			}
		},
		"the low byte, which no later step sees": func(_ int, product []int32) {
			for i := range product {
				product[i] &^= 0xff
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChallenge(s)
			h := compute(c, cheat)
			d := newDraw(t, c, h.roots, 10_000)
			o := h.open(t, c, d)
			// Open computes the truth; the cheat shows what it committed.
			tr := h.trace(t, c)
			for i, at := range d.Drawn(s) {
				show := func(step int) *capacity.Block {
					size := 16 * s.Cols
					m := proofs.Matrix[int32]{Rows: 16, Cols: s.Cols, Data: h.products[step][at.Block*size : (at.Block+1)*size]}
					return capacity.NewBlock(m, proofs.Path(h.leaves[step], at.Block))
				}
				o.Samples[i].Product = *show(at.Step)
				if o.Samples[i].Previous != nil {
					o.Samples[i].Previous = show(at.Step - 1)
				}
				if o.Samples[i].Slot != nil {
					o.Samples[i].Slot = show(capacity.From(tr, at.Step))
				}
			}
			r := capacity.Judge(capacity.Given{Challenge: c, Draw: &d, Roots: h.roots, Opening: marshal(t, o)})
			if r.Outcome != capacity.Wrong || !strings.HasPrefix(r.Reason, capacity.CodeProduct) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestDrawn(t *testing.T) {
	s, err := capacity.ShapeFor(64)
	must(t, err)
	blocks, steps := map[int]bool{}, map[int]bool{}
	for i := range 50 {
		d := capacity.Draw{Seed: digest(byte(i + 1))}
		drawn := d.Drawn(s)
		if len(drawn) > capacity.SampleBlocks*capacity.StepsPerBlock || len(drawn) < 50 {
			t.Errorf("%d drawn", len(drawn))
		}
		for _, at := range drawn {
			blocks[at.Block], steps[at.Step] = true, true
		}
	}
	if len(blocks) < s.Blocks()/2 || len(steps) != s.Steps {
		t.Errorf("%d of %d blocks and %d of %d steps were ever drawn", len(blocks), s.Blocks(), len(steps), s.Steps)
	}
}

func TestShapeFor(t *testing.T) {
	for _, mib := range []int{capacity.MinMemoryMiB, 17, 100, 1024, 1500, 16 << 10, capacity.MaxMemoryMiB} {
		s, err := capacity.ShapeFor(mib)
		must(t, err)
		must(t, s.Validate())
		if got := s.Memory(); got > int64(mib)<<20 || got < int64(mib)<<20*99/100 {
			t.Errorf("%d MiB: %d bytes", mib, got)
		}
	}
	for _, mib := range []int{0, -1, capacity.MinMemoryMiB - 1, capacity.MaxMemoryMiB + 1} {
		if _, err := capacity.ShapeFor(mib); err == nil {
			t.Errorf("%d MiB has a shape", mib)
		}
	}
	for name, s := range map[string]capacity.Shape{
		"columns": {Cols: 48, Rows: 16, Slots: 1, Steps: 2}, "few columns": {Cols: 8, Rows: 16, Slots: 1, Steps: 2}, "many columns": {Cols: 512, Rows: 16, Slots: 1, Steps: 2},
		"rows": {Cols: 16, Rows: 17, Slots: 1, Steps: 2}, "no rows": {Cols: 16, Slots: 1, Steps: 2}, "negative": {Cols: 16, Rows: -16, Slots: 1, Steps: 2},
		"slots": {Cols: 16, Rows: 16, Steps: 2}, "steps": {Cols: 16, Rows: 16, Slots: 2, Steps: 3}, "many steps": {Cols: 16, Rows: 16, Slots: 2, Steps: capacity.MaxSteps + 1},
		"memory": {Cols: 256, Rows: capacity.MaxRows, Slots: capacity.MaxSlots, Steps: capacity.MaxSteps},
	} {
		if s.Validate() == nil {
			t.Errorf("%s: %+v is valid", name, s)
		}
	}
	if s := (capacity.Shape{Cols: 64, Rows: 1 << 14, Slots: 1024, Steps: 4096}); s.Score(100_000) != 4096*(1<<14)*64*64/100_000 {
		t.Errorf("score %d", s.Score(100_000))
	}
}

func FuzzRecord(f *testing.F) {
	c := newChallenge(small)
	f.Add(marshal(f, capacity.Record{Type: capacity.RecordType, Challenge: &c}))
	d := newDraw(f, c, []byte("roots"), 10_000)
	f.Add(marshal(f, capacity.Record{Type: capacity.RecordType, Draw: &d}))
	r := capacity.Judge(capacity.Given{Challenge: c})
	f.Add(marshal(f, capacity.Record{Type: capacity.RecordType, Result: &r}))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := capacity.ParseRecord(data)
		if err != nil {
			return
		}
		again, _, err := r.Bytes()
		must(t, err)
		if string(again) != string(data) {
			t.Errorf("%s becomes %s", data, again)
		}
	})
}

// FuzzJudge: whatever is opened, there is a result that a log takes, and nothing but the honest opening is measured.
func FuzzJudge(f *testing.F) {
	c := newChallenge(small)
	h := compute(c, nil)
	d := newDraw(f, c, h.roots, 10_000)
	honest := marshal(f, h.open(f, c, d))
	f.Add(honest, h.roots)
	f.Add([]byte(`{"draw":"","samples":[],"type":"assay/benchmark-opening/v1"}`), []byte{})
	f.Fuzz(func(t *testing.T, opening, roots []byte) {
		d, given := d, opening
		if d.Roots = canon.Sum(roots); string(roots) != string(h.roots) {
			if o, err := capacity.ParseOpening(opening); err == nil { // of that draw
				redraw(t, &d, &o)
				given = marshal(t, o)
			}
		}
		r := capacity.Judge(capacity.Given{Challenge: c, Draw: &d, Roots: roots, Opening: given})
		must(t, capacity.Record{Type: capacity.RecordType, Result: &r}.Validate())
		if r.Outcome != capacity.Wrong && (string(roots) != string(h.roots) || string(opening) != string(honest)) {
			t.Errorf("%+v", r)
		}
	})
}

// BenchmarkJudge shows what a verifier pays beside what the host did.
func BenchmarkJudge(b *testing.B) {
	s := capacity.Shape{Cols: 64, Rows: 1024, Slots: 8, Steps: 32}
	c := newChallenge(s)
	h := compute(c, nil)
	d := newDraw(b, c, h.roots, 10_000)
	g := capacity.Given{Challenge: c, Draw: &d, Roots: h.roots, Opening: marshal(b, h.open(b, c, d))}
	b.Run(fmt.Sprintf("judge/%d bytes", len(g.Opening)), func(b *testing.B) {
		for b.Loop() {
			if r := capacity.Judge(g); r.Outcome == capacity.Wrong {
				b.Fatal(r)
			}
		}
	})
}
