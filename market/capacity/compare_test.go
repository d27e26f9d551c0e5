package capacity_test

import (
	"slices"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// world is machines with a clock that is only told: each does so many multiply-adds a millisecond, shared evenly among the
// nodes that are on it, and has so much memory.
type world struct {
	t       *testing.T
	now     int64
	round   byte
	speed   map[string]int64  // of machines
	memory  map[string]int64  // of machines, bytes
	on      map[string]string // machine of each node
	pretend map[string]int64  // permille of what it can that a node does when it is alone
	all     []capacity.Measure
}

var shape = capacity.Shape{Cols: 64, Rows: 1 << 14, Slots: 64, Steps: 256}

func newWorld(t *testing.T) *world {
	return &world{t: t, now: begin, speed: map[string]int64{}, memory: map[string]int64{}, on: map[string]string{}, pretend: map[string]int64{}}
}

func (w *world) machine(name string, speed int64, slots int64, nodes ...string) {
	w.speed[name], w.memory[name] = speed, slots*shape.SlotBytes()
	for _, n := range nodes {
		w.on[n] = name
	}
}

// challenge challenges nodes at one instant; noise is what else their machines do, in permille.
func (w *world) challenge(noise map[string]int64, nodes ...string) {
	w.round++
	w.now += 3600_000
	beside := map[string]int64{}
	for _, n := range nodes {
		beside[w.on[n]]++
	}
	for _, n := range nodes {
		c := capacity.Challenge{Round: digest(w.round), Nodes: len(nodes), Node: n, Seed: digest(w.round), Shape: shape, Starts: w.now, Expires: w.now + 600_000}
		r := capacity.Result{Challenge: record(w.t, capacity.Record{Challenge: &c}), Rules: capacity.Rules, Outcome: capacity.Inconclusive, Reason: capacity.CodeNoAnswer + ": no memory"}
		if m := w.on[n]; beside[m]*shape.Memory() <= w.memory[m] {
			speed := w.speed[m] / beside[m] * (1000 - noise[m]) / 1000
			if slow := w.pretend[n]; slow > 0 && len(nodes) == 1 {
				speed = speed * slow / 1000
			}
			elapsed := (shape.Work() + speed - 1) / speed
			r.Outcome, r.Reason, r.Draw, r.Opening = capacity.Measured, "", digest(1), digest(2)
			r.Elapsed, r.Score, r.Memory = elapsed, shape.Score(elapsed), shape.Memory()
		}
		must(w.t, capacity.Record{Type: capacity.RecordType, Result: &r}.Validate())
		w.all = append(w.all, capacity.Measure{Round: c.Round, Nodes: c.Nodes, Node: n, Starts: c.Starts, Result: r})
	}
	slices.Reverse(w.all) // in any order
}

func (w *world) alone(nodes ...string) {
	for _, n := range nodes {
		w.challenge(nil, n)
	}
}

func (w *world) finds(outcome string, nodes ...string) {
	w.t.Helper()
	if f := capacity.Compare(w.all); f.Outcome != outcome || !slices.Equal(f.Nodes, nodes) {
		w.t.Errorf("%+v, want %s %v", f, outcome, nodes)
	}
}

// credit returns the sum of what nodes are credited with.
func (w *world) credit(nodes ...string) (score, memory int64) {
	for _, n := range nodes {
		if m, ok := capacity.Credit(w.all, n, canon.Time(w.now/1000+600)); ok {
			score, memory = score+m.Result.Score, memory+m.Result.Memory
		}
	}
	return score, memory
}

func TestTwoMachinesAreSeparate(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 64, "a")
	w.machine("m2", 2_500_000, 64, "b")
	w.alone("a", "b")
	w.finds(capacity.Inconclusive)
	w.challenge(map[string]int64{"m1": 100, "m2": 50}, "a", "b")
	w.finds(capacity.Separate, "a", "b")
}

// TestOneMachineTwice: two nodes on one machine do half of what each does alone. One such round is not enough to say so.
func TestOneMachineTwice(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 1000, "a", "b")
	w.machine("m2", 3_000_000, 64, "c")
	w.alone("a", "b", "c")
	w.challenge(nil, "a", "b", "c")
	w.finds(capacity.Inconclusive, "a", "b", "c")
	w.challenge(nil, "a", "b", "c")
	w.finds(capacity.Shared, "a", "b")
	// They are credited with one machine together, though each claimed one.
	score, _ := w.credit("a", "b")
	if one := int64(3_000_000); score > one || score < one*99/100 {
		t.Errorf("credited with %d, the machine does %d", score, one)
	}
	w.machine("m3", 3_000_000, 1000, "b") // it gets a machine of its own
	w.challenge(nil, "a", "b", "c")
	w.finds(capacity.Separate, "a", "b", "c")
}

// TestMemoryPromisedTwice: each node fills its memory when it is alone; both at once do not fit.
func TestMemoryPromisedTwice(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 100, "a", "b")
	w.alone("a", "b")
	if _, memory := w.credit("a", "b"); memory != 2*shape.Memory() {
		t.Errorf("alone: %d bytes", memory)
	}
	w.challenge(nil, "a", "b")
	w.finds(capacity.Inconclusive, "a", "b")
	if score, memory := w.credit("a", "b"); score != 0 || memory != 0 {
		t.Errorf("credited with %d and %d bytes of a machine whose memory was promised twice", score, memory)
	}
	w.machine("m1", 3_000_000, 128, "a", "b") // the twin: memory for both
	w.challenge(nil, "a", "b")
	if _, memory := w.credit("a", "b"); memory != 2*shape.Memory() {
		t.Errorf("with memory for both: %d bytes", memory)
	}
}

// TestTheLeastCounts: of what a node did beside others the least counts, and nothing where it did not answer last.
func TestTheLeastCounts(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 128, "a")
	w.machine("m2", 3_000_000, 128, "b")
	credited := func(want int64) {
		t.Helper()
		if score, _ := w.credit("a"); score > want || score < want*99/100 {
			t.Errorf("credited with %d, want %d", score, want)
		}
	}
	w.challenge(nil, "a", "b")
	credited(3_000_000)
	w.challenge(map[string]int64{"m1": 100}, "a", "b")
	credited(2_700_000)
	w.challenge(nil, "a", "b")
	credited(2_700_000)
	w.challenge(map[string]int64{"m1": 500}, "a") // what it does alone no longer matters
	credited(2_700_000)
	w.machine("m1", 3_000_000, 1, "a")
	w.challenge(nil, "a", "b")
	credited(0)
}

// TestRoundThatIsNotOver: while one of a round is not measured, the others are not separate from it.
func TestRoundThatIsNotOver(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"a", "b", "c"} {
		w.machine("m"+n, 3_000_000, 128, n)
		w.alone(n)
	}
	w.challenge(nil, "a", "b", "c")
	w.finds(capacity.Separate, "a", "b", "c")
	w.all = slices.DeleteFunc(w.all, func(m capacity.Measure) bool { return m.Node == "c" && m.Nodes == 3 })
	w.finds(capacity.Inconclusive, "a", "b")
}

// TestSlowOnPurpose: who is slow when alone, so that nothing halves, is credited with what he showed.
func TestSlowOnPurpose(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 1000, "a", "b")
	w.pretend["a"], w.pretend["b"] = 500, 500
	w.alone("a", "b")
	w.challenge(nil, "a", "b")
	w.challenge(nil, "a", "b")
	w.finds(capacity.Separate, "a", "b")
	if score, _ := w.credit("a", "b"); score > 3_000_000 {
		t.Errorf("credited with %d, the machine does 3000000", score)
	}
}

func TestUnclearIsInconclusive(t *testing.T) {
	for name, happen := range map[string]func(w *world){
		"one is slow": func(w *world) {
			w.challenge(map[string]int64{"m1": 500}, "a", "b")
			w.challenge(map[string]int64{"m1": 500}, "a", "b")
		},
		"both are slower, but not by half": func(w *world) {
			w.challenge(map[string]int64{"m1": 300, "m2": 300}, "a", "b")
			w.challenge(map[string]int64{"m1": 300, "m2": 300}, "a", "b")
		},
		"both are halved once": func(w *world) { w.challenge(map[string]int64{"m1": 500, "m2": 500}, "a", "b") },
		"halved, and then one is": func(w *world) {
			w.challenge(map[string]int64{"m1": 500, "m2": 500}, "a", "b")
			w.challenge(map[string]int64{"m1": 500}, "a", "b")
		},
		"one is, and then both": func(w *world) {
			w.challenge(map[string]int64{"m1": 500}, "a", "b")
			w.challenge(map[string]int64{"m1": 500, "m2": 500}, "a", "b")
		},
		"one does not answer": func(w *world) { w.machine("m2", 2_500_000, 1, "b"); w.challenge(nil, "a", "b") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.machine("m1", 3_000_000, 64, "a")
			w.machine("m2", 2_500_000, 64, "b")
			w.alone("a", "b")
			happen(w)
			w.finds(capacity.Inconclusive, "a", "b")
		})
	}
	w := newWorld(t)
	w.finds(capacity.Inconclusive)
	w.machine("m1", 3_000_000, 1000, "a", "b")
	w.challenge(nil, "a", "b") // never alone: there is nothing to compare with
	w.challenge(nil, "a", "b")
	w.finds(capacity.Inconclusive, "a", "b")
}

// TestThresholds: what just reaches a threshold counts, and one permille less does not.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		share int64
		want  string
	}{{capacity.SeparateShare, capacity.Separate}, {capacity.SeparateShare - 1, capacity.Inconclusive}, {capacity.SharedShare + 1, capacity.Inconclusive}, {capacity.SharedShare, capacity.Shared}} {
		var all []capacity.Measure
		add := func(round byte, nodes int, node string, score int64) {
			all = append(all, capacity.Measure{Round: digest(round), Nodes: nodes, Node: node, Starts: begin + int64(round), Result: capacity.Result{Outcome: capacity.Measured, Score: score}})
		}
		add(1, 1, "a", 1000)
		add(2, 1, "b", 1000)
		for round := byte(3); round < 5; round++ {
			add(round, 2, "a", c.share)
			add(round, 2, "b", c.share)
		}
		if f := capacity.Compare(all); f.Outcome != c.want {
			t.Errorf("%d permille: %s, want %s", c.share, f.Outcome, c.want)
		}
	}
}

func TestCredit(t *testing.T) {
	w := newWorld(t)
	w.machine("m1", 3_000_000, 64, "a")
	if _, ok := capacity.Credit(w.all, "a", canon.Time(w.now/1000)); ok {
		t.Error("credited with nothing")
	}
	w.alone("a")
	at := canon.Time(w.now / 1000)
	m, ok := capacity.Credit(w.all, "a", at)
	if c := m.Claim(); !ok || c.ID != "party.measured" || c.Value != "2999802" || c.Issuer != claim.Verifier || c.From != at || c.Until != at+claim.MeasuredTerm-1 {
		t.Errorf("%v: %+v", ok, c)
	}
	if _, ok := capacity.Credit(w.all, "a", at+claim.MeasuredTerm-1); !ok {
		t.Error("lapsed a second early")
	}
	if _, ok := capacity.Credit(w.all, "a", at+claim.MeasuredTerm); ok {
		t.Error("it does not lapse")
	}
	if _, ok := capacity.Credit(w.all, "a", at-1); ok {
		t.Error("credited before it was measured")
	}
}

// TestTakingTurns: two nodes on one machine that compute one after the other are never found separate, and are credited with
// one and a half machines at most.
func TestTakingTurns(t *testing.T) {
	var all []capacity.Measure
	add := measured(&all)
	add(1, 1, "a", 1000, 1)
	add(2, 1, "b", 1000, 1)
	for round := byte(3); round < 9; round++ {
		first, second := "a", "b"
		if round%2 == 0 && round > 6 {
			first, second = second, first
		}
		add(round, 2, first, 1000, 1)
		add(round, 2, second, 500, 1)
		if f := capacity.Compare(all); f.Outcome == capacity.Separate {
			t.Errorf("round %d: %+v", round, f)
		}
	}
	sum := int64(0)
	for _, n := range []string{"a", "b"} {
		if m, ok := capacity.Credit(all, n, begin/1000+60); ok {
			sum += m.Result.Score
		}
	}
	if sum > 1500 {
		t.Errorf("credited with %d, the machine does 1000", sum)
	}
}

// measured returns what adds measures, with a score and a memory.
func measured(all *[]capacity.Measure) func(round byte, nodes int, node string, score, memory int64) {
	return func(round byte, nodes int, node string, score, memory int64) {
		*all = append(*all, capacity.Measure{Round: digest(round), Nodes: nodes, Node: node, Starts: begin + int64(round)*1000,
			Result: capacity.Result{Outcome: capacity.Measured, Score: score, Memory: memory}})
	}
}

// TestLikeWithLike: what a node does alone is held against what it does of the same size beside others. Small chains fit into
// caches, and are faster on the most honest machine.
func TestLikeWithLike(t *testing.T) {
	for want, memory := range map[string]int64{capacity.Inconclusive: 4 << 20, capacity.Shared: 1 << 30} {
		var all []capacity.Measure
		add := measured(&all)
		add(1, 1, "a", 1000, memory)
		add(2, 1, "b", 1000, memory)
		for round := byte(3); round < 5; round++ {
			add(round, 2, "a", 600, 1<<30)
			add(round, 2, "b", 600, 1<<30)
		}
		if f := capacity.Compare(all); f.Outcome != want {
			t.Errorf("alone with %d bytes: %+v, want %s", memory, f, want)
		}
	}
}

// TestAloneBefore: what a node does alone after a round says nothing of the round.
func TestAloneBefore(t *testing.T) {
	var all []capacity.Measure
	add := measured(&all)
	for round, n := range []string{"a", "b"} {
		add(byte(round+1), 1, n, 1000, 1)
		add(5, 2, n, 900, 1)
		add(byte(round+6), 1, n, 3000, 1) // it got a better machine
	}
	if f := capacity.Compare(all); f.Outcome != capacity.Separate {
		t.Errorf("%+v", f)
	}
}

// TestCreditLeavesOutShort: a chain that was opened and over too soon takes nothing from a node; one that was not opened does.
func TestCreditLeavesOutShort(t *testing.T) {
	for code, want := range map[string]bool{capacity.CodeShort: true, capacity.CodeNotOpened: false, capacity.CodeNoAnswer: false, capacity.CodeLate: false, capacity.CodeProduct: false} {
		var all []capacity.Measure
		measured(&all)(1, 1, "a", 1000, 1)
		all = append(all, capacity.Measure{Round: digest(2), Nodes: 1, Node: "a", Starts: begin + 2000, Result: capacity.Result{Outcome: capacity.Inconclusive, Reason: code + ": words"}})
		if _, ok := capacity.Credit(all, "a", begin/1000+60); ok != want {
			t.Errorf("after %s: credited %v, want %v", code, ok, want)
		}
	}
}

// TestCreditLapsesBySeconds: a measure lapses in the very second in which its claim does, and another one counts from then on,
// so that who weighs it anew then is not told of the one that lapsed.
func TestCreditLapsesBySeconds(t *testing.T) {
	var all []capacity.Measure
	add := measured(&all)
	add(1, 1, "a", 700, 1)
	all[0].Starts += 999
	add(100, 1, "a", 900, 1)
	old, ok := capacity.Credit(all, "a", begin/1000+200)
	if !ok || old.Result.Score != 700 {
		t.Fatalf("%+v", old)
	}
	if m, ok := capacity.Credit(all, "a", old.Claim().Until); !ok || m.Result.Score != 700 {
		t.Errorf("in its last second: %+v", m)
	}
	if m, ok := capacity.Credit(all, "a", old.Claim().Until+1); !ok || m.Result.Score != 900 {
		t.Errorf("a second later: %+v", m)
	}
}

// TestCreditInAnyOrder: a server has the newest measure first, an auditor the oldest, and one who begins with what was carried
// over has them by their start: all credit the same.
func TestCreditInAnyOrder(t *testing.T) {
	for _, tc := range []struct {
		name   string
		second string // outcome of the second of the two that began last
		want   byte   // round that is credited; 0: none
	}{
		{"two are as low as each other: the newer one", capacity.Measured, 2},
		{"one of the newest measured nothing", capacity.Inconclusive, 0},
	} {
		var all []capacity.Measure
		add := measured(&all)
		add(1, 1, "a", 700, 1)
		add(2, 1, "a", 700, 1)
		add(3, 1, "a", 900, 1)
		add(3, 1, "a", 800, 1)
		all[3].Result.Outcome = tc.second
		for range 2 {
			if m, ok := capacity.Credit(all, "a", begin/1000+200); ok != (tc.want != 0) || ok && m.Round != digest(tc.want) {
				t.Errorf("%s: credited %v, %+v", tc.name, ok, m)
			}
			slices.Reverse(all)
		}
	}
}
