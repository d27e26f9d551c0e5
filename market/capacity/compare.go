package capacity

import (
	"cmp"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Thresholds of what a node did beside the others, in permille of what it did alone.
//
// Two processes on one machine get a half of it each, 500, three a third. SharedShare leaves 30 percent above the half for
// how processors share what they have: a core that runs two threads of one program does up to a quarter more than with one
// thread, and clocks rise when a machine was idle. Machines of their own measure within a few percent of themselves;
// SeparateShare leaves 20 percent for neighbours on a cloud host and warm rooms. Between the two nothing is said.
const (
	SharedShare   = 650
	SeparateShare = 800
)

// RoundsToShow is in how many rounds, with none that says otherwise between or after them, nodes must seem to be one
// machine before a finding says so: a neighbour's load may halve two machines at one instant, but hardly twice.
const RoundsToShow = 2

// Measure is a benchmark of one node that is over.
type Measure struct {
	Round  canon.Digest `json:"round"`
	Nodes  int          `json:"nodes"` // that were challenged at that instant
	Node   string       `json:"node"`
	Starts int64        `json:"starts_ms"`
	Result Result       `json:"result"`
}

// Finding says whether nodes that were challenged at one instant are machines of their own.
type Finding struct {
	Outcome string       `json:"outcome"` // separate, shared or inconclusive
	Nodes   []string     `json:"nodes"`   // of shared, those that seem to be one machine; of the others, all that were compared
	Round   canon.Digest `json:"round,omitzero"`
	Shares  []Share      `json:"shares"` // in that round
}

// Share is what a node did beside the others, in permille of what it did alone.
type Share struct {
	Node  string `json:"node"`
	Share int64  `json:"share,omitzero"` // absent: it was not measured alone, or not beside the others
}

// Outcomes of a finding.
const (
	Separate = "separate" // every node did beside the others what it does alone
	Shared   = "shared"   // in RoundsToShow rounds, at least two nodes did a fraction of it
)

// Compare looks at all that was measured of an owner's nodes, in any order. Only the newest RoundsToShow rounds of several
// nodes count, with what each node did alone before them, of the same memory; where these do not agree, the finding is
// inconclusive.
//
// Shared nodes are a suspicion with numbers, not a refusal: an auditor can recompute it, and the owner can ask for another
// round. Separate says no more than that the nodes did not share what limits the benchmark. An owner who is slow on purpose
// when a node is alone is found separate, and is credited with that ([Credit]).
func Compare(all []Measure) Finding {
	rounds := together(all)
	f := Finding{Outcome: Inconclusive, Nodes: []string{}, Shares: []Share{}}
	if len(rounds) == 0 {
		return f
	}
	last := rounds[len(rounds)-1]
	f.Round, f.Shares = last[0].Round, shares(all, last)
	for _, s := range f.Shares {
		f.Nodes = append(f.Nodes, s.Node)
	}
	if len(last) == last[0].Nodes && !slices.ContainsFunc(f.Shares, func(s Share) bool { return s.Share < SeparateShare }) {
		f.Outcome = Separate
		return f
	}
	if len(rounds) < RoundsToShow {
		return f
	}
	both := slow(f.Shares)
	for _, r := range rounds[len(rounds)-RoundsToShow:] {
		in := slow(shares(all, r))
		both = slices.DeleteFunc(both, func(n string) bool { return !slices.Contains(in, n) })
	}
	if len(both) >= 2 {
		f.Outcome, f.Nodes = Shared, both
	}
	return f
}

// together returns the rounds of several nodes, the oldest first, each ordered by node.
func together(all []Measure) (rounds [][]Measure) {
	by := map[canon.Digest]int{}
	for _, m := range all {
		if m.Nodes < 2 {
			continue
		}
		i, ok := by[m.Round]
		if !ok {
			i = len(rounds)
			by[m.Round], rounds = i, append(rounds, nil)
		}
		rounds[i] = append(rounds[i], m)
	}
	for _, r := range rounds {
		slices.SortFunc(r, func(a, b Measure) int { return cmp.Compare(a.Node, b.Node) })
	}
	slices.SortFunc(rounds, func(a, b []Measure) int {
		return cmp.Or(cmp.Compare(a[0].Starts, b[0].Starts), slices.Compare(a[0].Round[:], b[0].Round[:]))
	})
	return rounds
}

// shares compares each node of a round with the newest measure of it alone before that round, of a chain of the same size:
// what fits into a processor's caches is faster, and would make separate machines look like one.
func shares(all, round []Measure) []Share {
	out := []Share{}
	for _, m := range round {
		s := Share{Node: m.Node}
		var alone *Measure
		for i, a := range all {
			if a.Nodes == 1 && a.Node == m.Node && a.Starts < m.Starts && a.Result.Outcome == Measured && a.Result.Memory == m.Result.Memory && (alone == nil || a.Starts > alone.Starts) {
				alone = &all[i]
			}
		}
		if alone != nil && m.Result.Outcome == Measured {
			s.Share = m.Result.Score * 1000 / alone.Result.Score
		}
		out = append(out, s)
	}
	return out
}

// slow returns the nodes that did a fraction of what they do alone. One that did not answer is not among them: that may
// have many causes.
func slow(shares []Share) (nodes []string) {
	for _, s := range shares {
		if s.Share > 0 && s.Share <= SharedShare {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// Credit returns what a node is credited with at a time: the least that it did, within [claim.MeasuredTerm], beside all nodes that its
// owner had then, or alone where it was never challenged beside another. Two nodes that are one machine are so credited
// with one machine, whatever they did when they were alone. ok is false where nothing counts, and then there is no claim.
//
// Where the newest round of several nodes in that time did not measure the node, nothing counts: a machine whose memory is
// promised twice cannot answer twice at once, and is not credited with either. A chain that was over too soon to be timed is
// left out: it was computed and opened, and asked for too little. The order of all does not matter: of two that are as low it is
// the newer one.
func Credit(all []Measure, node string, at canon.Time) (m Measure, ok bool) {
	var beside, alone []Measure
	for _, x := range all {
		// By whole seconds, as claims have them: who weighs a measure again when its claim has lapsed finds it lapsed.
		if from := x.from(); x.Node != node || from > at || at-from >= claim.MeasuredTerm || x.Result.short() {
			continue
		}
		if x.Nodes > 1 {
			beside = append(beside, x)
		} else {
			alone = append(alone, x)
		}
	}
	counted := beside
	if len(beside) == 0 {
		counted = alone
	}
	newest := int64(0)
	for _, x := range counted {
		newest = max(newest, x.Starts)
	}
	for _, x := range counted {
		switch {
		case x.Result.Outcome == Measured:
			if !ok || cmp.Or(cmp.Compare(x.Result.Score, m.Result.Score), cmp.Compare(m.Starts, x.Starts)) < 0 {
				m, ok = x, true
			}
		case x.Starts == newest:
			return Measure{}, false
		}
	}
	return m, ok
}

// Claim returns the party claim of a credit, which is the one that the party's certificate has.
func (m Measure) Claim() claim.Claim { return claim.Measured(m.Result.Score, m.from()) }

// from returns the second in which the measure began.
func (m Measure) from() canon.Time { return canon.Time(m.Starts / 1000) }
