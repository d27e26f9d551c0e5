package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// SampleType is the type of the sample document.
const SampleType = "assay/sample/v1"

// Strata are what a population can be parted by.
var Strata = []string{ByOutcome, ByPolicy, ByNode, ByMonth}

// Ways to part a population.
const (
	ByNothing = ""        // one stratum, named "all"
	ByOutcome = "outcome" // of the verdict
	ByPolicy  = "policy"  // its digest
	ByNode    = "node"    // whose evidence it is
	ByMonth   = "month"   // of the entry's time, UTC
)

// unread names the stratum of verdicts that do not show what the population is parted by.
const unread = "unread"

// SampleMethod says in words how a sample is drawn, so that another can draw it again without this program.
const SampleMethod = `The population is every verdict entry of the log's tree, in log order. It is parted into strata; a verdict that does not show the part is in the stratum "unread", and without parting all are in the stratum "all". Strata are ordered by their bytes. ` +
	`Of a sample of size k from H strata of sizes N1..NH, every stratum gets one first if k >= H; the rest m goes by the weights w (N-1 then, else N; W is their sum): floor(m*w/W) each, then one more each to the largest remainders of m*w/W, of equal ones to the first, until m is given. ` +
	`Within a stratum of N verdicts numbered from 0, draw i = 0, 1, 2, ... is the first 8 bytes, big-endian, of SHA-256("assay/sample/v1" LF seed LF stratum LF i LF), with seed and i in decimal. A draw of 2^64 - (2^64 mod N) or more is left out; else it takes the verdict of number draw mod N, unless that was taken before. ` +
	`Draws go on until the stratum has its share. By hand: printf 'assay/sample/v1\n%s\n%s\n%s\n' SEED STRATUM I | sha256sum`

// Sample is a part of a population that was drawn by a seed.
type Sample struct {
	Type       string       `json:"type"`
	Outcome    Outcome      `json:"outcome"` // of the log's integrity, and where replayed of the sampled verdicts
	Trust      string       `json:"trust"`
	Origin     string       `json:"origin"`
	Size       int64        `json:"size"` // entries of the log
	Root       canon.Digest `json:"root,omitzero"`
	Scope      *Scoped      `json:"scope,omitzero"` // absent: the whole log. Else the population is what the scope shows
	Method     string       `json:"method"`
	Seed       int64        `json:"seed"`
	Wanted     int64        `json:"wanted"`
	By         string       `json:"by"`
	Population int64        `json:"population"`
	Strata     []Stratum    `json:"strata"`
	Drawn      []Drawn      `json:"drawn"` // in log order
	Faults     []Fault      `json:"faults"`
}

// Stratum is one part of the population and its share of the sample.
type Stratum struct {
	Name       string `json:"name"`
	Population int64  `json:"population"`
	Sample     int64  `json:"sample"`
}

// Drawn is one verdict of the sample.
type Drawn struct {
	Stratum  string `json:"stratum"`
	Number   int64  `json:"number"` // in its stratum, from 0
	Draw     int64  `json:"draw"`   // that took it
	Row      Row    `json:"row"`
	Replayed string `json:"replayed,omitzero"` // equal, by whom where nobody vouches for it, or what differs; absent: it was not replayed
}

// Words of [Drawn.Replayed].
const (
	replayedEqual     = "equal"
	replayedUnvouched = "equal, by an engine that the trust file does not name"
	notReplayed       = "not replayed: "
)

// Canonical returns the canonical bytes of the sample.
func (s Sample) Canonical() ([]byte, error) { return canon.Marshal(s) }

// stratum returns the part that a verdict belongs to.
func (r Row) stratum(by string) string {
	name := "all"
	switch by {
	case ByOutcome:
		name = r.Outcome
	case ByPolicy:
		name = present(r.Policy)
	case ByNode:
		name = r.Node
	case ByMonth:
		name = month(r.Time)
	}
	if name == "" {
		return unread
	}
	return name
}

// Sample draws size verdicts by a seed; of a smaller population, all. The same log, seed, size and parting give the same
// sample on every machine. With again, each drawn verdict and the appraisal that it follows from are recomputed.
func (g *Reading) Sample(ctx context.Context, seed, size int64, by string, again bool) (Sample, error) {
	p, err := newParting(seed, size, by)
	if err != nil {
		return Sample{}, err
	}
	for row, err := range g.Rows(ctx) {
		if err != nil {
			return Sample{}, err
		}
		p.add(row)
	}
	return g.draw(ctx, p, again)
}

// parting is a population on its way into strata, and what is to be drawn from it.
type parting struct {
	seed, size int64
	by         string
	members    map[string][]int64 // indices of each stratum
	population int64
}

func newParting(seed, size int64, by string) (*parting, error) {
	switch {
	case seed < 0 || seed > canon.MaxInt:
		return nil, fmt.Errorf("seed %d: want 0 to %d", seed, int64(canon.MaxInt))
	case size < 1 || size > MaxSample:
		return nil, fmt.Errorf("sample of %d: want 1 to %d", size, MaxSample)
	case by != ByNothing && !slices.Contains(Strata, by):
		return nil, fmt.Errorf("strata by %.40q: want one of %q", by, Strata)
	}
	return &parting{seed: seed, size: size, by: by, members: map[string][]int64{}}, nil
}

// add puts a row into its stratum. Rows may come in any order.
func (p *parting) add(row Row) {
	name := row.stratum(p.by)
	p.members[name] = append(p.members[name], row.Index)
	p.population++
}

// draw draws the sample of a population that was parted whole.
func (g *Reading) draw(ctx context.Context, p *parting, again bool) (Sample, error) {
	i := g.integrity
	s := Sample{
		Type: SampleType, Outcome: i.Outcome, Trust: i.Trust, Origin: i.Origin, Size: i.Size, Root: i.Root, Scope: i.Scope, Method: SampleMethod,
		Seed: p.seed, Wanted: p.size, By: p.by, Population: p.population, Strata: []Stratum{}, Drawn: []Drawn{}, Faults: i.Faults,
	}
	names := slices.Sorted(maps.Keys(p.members))
	sizes := make([]int64, len(names))
	for i, name := range names {
		slices.Sort(p.members[name]) // log order
		sizes[i] = int64(len(p.members[name]))
	}
	for i, share := range shares(min(p.size, p.population), sizes) {
		s.Strata = append(s.Strata, Stratum{names[i], sizes[i], share})
		for _, d := range draw(p.seed, names[i], sizes[i], share) {
			d.Row.Index = p.members[names[i]][d.Number]
			s.Drawn = append(s.Drawn, d)
		}
	}
	slices.SortFunc(s.Drawn, func(a, b Drawn) int { return cmp.Compare(a.Row.Index, b.Row.Index) })
	for i := range s.Drawn {
		if err := g.examine(ctx, &s.Drawn[i], again); err != nil {
			return Sample{}, err
		}
		switch d := s.Drawn[i]; {
		case d.Row.Fault != "" || d.Replayed != "" && d.Replayed != replayedEqual && d.Replayed != replayedUnvouched:
			s.Outcome = Faulty
		case d.Replayed == replayedUnvouched && s.Outcome == Equal:
			s.Outcome = NotAnchored
		}
	}
	return s, nil
}

// shares parts a sample among strata; SampleMethod has the rule. It returns at most the size of each stratum.
func shares(sample int64, sizes []int64) []int64 {
	out, weights, total := make([]int64, len(sizes)), slices.Clone(sizes), uint64(0)
	if sample >= int64(len(sizes)) {
		for i := range sizes {
			out[i], weights[i] = 1, sizes[i]-1
		}
		sample -= int64(len(sizes))
	}
	for _, w := range weights {
		total += uint64(w)
	}
	if total == 0 {
		return out
	}
	left, rests, order := sample, make([]uint64, len(sizes)), make([]int, len(sizes))
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(sample), uint64(w))
		whole, rest := bits.Div64(hi, lo, total)
		out[i] += int64(whole)
		left -= int64(whole)
		rests[i], order[i] = rest, i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case rests[a] > rests[b]:
			return -1
		case rests[a] < rests[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}

// draw takes some of the n verdicts of a stratum, each with its number and the draw that took it.
func draw(seed int64, stratum string, n, take int64) []Drawn {
	taken := map[int64]bool{}
	var out []Drawn
	over := -uint64(n) % uint64(n) // 2^64 mod n
	for i := int64(0); int64(len(out)) < take; i++ {
		x := counterDraw("assay/sample/v1", seed, stratum, i)
		if over > 0 && x >= -over {
			continue
		}
		number := int64(x % uint64(n))
		if taken[number] {
			continue
		}
		taken[number] = true
		out = append(out, Drawn{Stratum: stratum, Number: number, Draw: i})
	}
	return out
}

// counterDraw returns draw i of a seed and a name.
func counterDraw(tag string, seed int64, name string, i int64) uint64 {
	sum := sha256.Sum256([]byte(tag + "\n" + strconv.FormatInt(seed, 10) + "\n" + name + "\n" + strconv.FormatInt(i, 10) + "\n"))
	return binary.BigEndian.Uint64(sum[:])
}

// examine reads the row of a drawn verdict, and recomputes it where again is set.
func (g *Reading) examine(ctx context.Context, d *Drawn, again bool) error {
	row, o, err := g.row(ctx, d.Row.Index)
	if err != nil {
		return err
	}
	d.Row = row
	if !again {
		return nil
	}
	if o == nil {
		d.Replayed = notReplayed + row.Fault
		return nil
	}
	res, err := g.replayOne(ctx, o)
	if err != nil {
		return err
	}
	d.Replayed = replayedEqual
	for engine := range res.engines {
		if !g.vouched(engine) {
			d.Replayed = replayedUnvouched
		}
	}
	if len(res.faults) > 0 {
		f := res.faults[0]
		d.Replayed = f.Error()
	}
	return nil
}

// replayOne recomputes one verdict and the appraisal that it follows from, and nothing else of its evidence.
func (g *Reading) replayOne(ctx context.Context, o *opened) (result, error) {
	ev, a := *o.ev, *o.appraisal
	a.verdicts = []verdict{o.verdict}
	ev.appraisals = []*appraisal{&a}
	res := *newResult()
	j := job{replay: g.replay, ev: &ev, res: &res}
	err := j.run(ctx)
	var f *Fault
	if errors.As(err, &f) {
		res.fault(placed(*f, o.verdict.index, ledger.KindVerdict))
		err = nil
	}
	return res, err
}

// Text renders the sample for people.
func (s Sample) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sample      %s of %d, seed %d", counted(int64(len(s.Drawn)), "verdict"), s.Population, s.Seed)
	if s.By != ByNothing {
		fmt.Fprintf(&b, ", by %s", s.By)
	}
	fmt.Fprintf(&b, "\nlog         %s, size %d, root %s, %s\n", Printable(s.Origin), s.Size, s.Root, s.Trust)
	if s.Scope != nil {
		fmt.Fprintf(&b, "scope       %s: whether other verdicts of the log match, its owner alone can say\n", Printable(s.Scope.Criteria.String()))
	}
	for _, t := range s.Strata {
		fmt.Fprintf(&b, "stratum     %s: %d of %d\n", Printable(t.Name), t.Sample, t.Population)
	}
	for _, d := range s.Drawn {
		r := d.Row
		fmt.Fprintf(&b, "%-11d %s  %s  %s by %s  [%s, draw %d]", r.Index, r.Time, Printable(cmp.Or(r.Node, "?")), cmp.Or(r.Outcome, "?"), Printable(cmp.Or(r.PolicyName, "?")), Printable(d.Stratum), d.Draw)
		switch {
		case d.Replayed != "":
			fmt.Fprintf(&b, "  %s", Printable(d.Replayed))
		case r.Fault != "":
			fmt.Fprintf(&b, "  %s", Printable(r.Fault))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "method      %s\n", s.Method)
	return b.String()
}
