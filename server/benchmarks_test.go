package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/benchmark"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/server"
)

const envDriver = "ASSAY_TEST_DRIVER"

// driverChild is the program of these tests, started as a driver.
func driverChild() int {
	if err := benchmark.CPU(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// plan challenges nodes at one instant, and lets the time pass until it starts.
func (l *lab) plan(nodes ...*node) {
	l.t.Helper()
	r := client.PlanRequest{Memory: capacity.MinMemoryMiB}
	for _, n := range nodes {
		r.Nodes = append(r.Nodes, n.id)
	}
	p, err := l.client(l.admin).PlanBenchmark(l.t.Context(), r)
	must(l.t, err)
	l.clock.advance(time.Duration(p.Starts-l.clock.Now().UnixMilli()) * time.Millisecond)
}

// running is a chain that a node has computed and not handed in.
type running struct {
	n         *node
	driver    *benchmark.Driver
	challenge canon.Digest
	roots     []byte
}

func (n *node) compute() *running {
	t := n.lab.t
	t.Helper()
	b, err := n.client().Benchmark(t.Context())
	must(t, err)
	if b.Challenge == nil {
		t.Fatalf("no challenge: %+v", b)
	}
	d, err := benchmark.Start(t.Context(), []string{os.Args[0]}, *b.Shape)
	must(t, err)
	t.Cleanup(d.Close)
	r := &running{n: n, driver: d}
	r.roots, err = d.Compute(*b.Challenge, nil)
	must(t, err)
	_, r.challenge, err = capacity.Record{Type: capacity.RecordType, Challenge: b.Challenge}.Bytes()
	must(t, err)
	return r
}

func (r *running) commit() (capacity.Draw, error) {
	return r.n.client().CommitBenchmark(r.n.lab.t.Context(), client.BenchmarkRoots{Challenge: r.challenge, Roots: r.roots})
}

func (r *running) open(d capacity.Draw) []byte {
	r.n.lab.t.Helper()
	data, err := r.driver.Open(d)
	must(r.n.lab.t, err)
	return data
}

// answer commits and opens, now.
func (r *running) answer() capacity.Result {
	t := r.n.lab.t
	t.Helper()
	d, err := r.commit()
	must(t, err)
	res, err := r.n.client().OpenBenchmark(t.Context(), r.open(d))
	must(t, err)
	return res
}

func (l *lab) measured(nodes ...*node) client.Measured {
	l.t.Helper()
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.id)
	}
	m, err := l.client(l.admin).Benchmarks(l.t.Context(), ids...)
	must(l.t, err)
	return m
}

// TestBenchmark: two nodes that are one machine are measured alone and at one instant, by the server's clock; a round of
// the whole story is audited, and rebuilt.
func TestBenchmark(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		a, b := l.join("one"), l.join("two")
		for _, n := range []*node{a, b} {
			l.plan(n)
			r := n.compute()
			l.clock.advance(10 * time.Second)
			if res := r.answer(); res.Outcome != capacity.Measured || res.Elapsed != 10_000 || res.Memory != capacity.MinMemoryMiB<<20 {
				t.Errorf("%+v", res)
			}
			l.clock.advance(time.Minute)
		}
		if m := l.measured(a, b); len(m.Claims) != 2 || m.Finding.Outcome != capacity.Inconclusive || m.Claims[0].Claim.ID != "party.measured" {
			t.Errorf("alone: %+v", m)
		}
		for range capacity.RoundsToShow {
			l.plan(a, b)
			ra, rb := a.compute(), b.compute()
			l.clock.advance(21 * time.Second) // each has half of the machine
			ra.answer()
			rb.answer()
			l.clock.advance(time.Hour)
		}
		m := l.measured(a, b)
		if m.Finding.Outcome != capacity.Shared || len(m.Finding.Nodes) != 2 || len(m.Measures) != 6 {
			t.Errorf("one machine twice: %+v", m)
		}
		for _, c := range m.Claims {
			if want := fmt.Sprint(capacity.Shape{Cols: 64, Rows: 1 << 14, Slots: 4, Steps: 16}.Score(21_000)); c.Claim.Value != want {
				t.Errorf("%s is credited with %s, want %s", c.Node, c.Claim.Value, want)
			}
		}
		// The second gets a machine of its own: one round shows it.
		l.plan(a, b)
		ra, rb := a.compute(), b.compute()
		l.clock.advance(10 * time.Second)
		ra.answer()
		l.clock.advance(2 * time.Second) // 833 permille
		rb.answer()
		if m := l.measured(a, b); m.Finding.Outcome != capacity.Separate || !slices.Contains(m.Finding.Shares, capacity.Share{Node: b.id, Share: 833}) {
			t.Errorf("two machines: %+v", m.Finding)
		}
		l.audited()
		rebuiltAlike(t, url, "benchmark")
	})
}

// TestBenchmarkLoop: the agent's loop answers by itself what is planned, with the driver of this build.
func TestBenchmarkLoop(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	l := newLab(t, "")
	n := l.join("one")
	loop := benchmark.Loop{Server: n.client(), Node: n.id, Driver: []string{os.Args[0]}, Logger: slog.New(slog.DiscardHandler),
		After: func(d time.Duration) <-chan time.Time {
			l.clock.advance(d)
			c := make(chan time.Time)
			close(c)
			return c
		},
		Progress: func(step, steps int) {
			if step == steps/2 {
				l.clock.advance(7 * time.Second)
			}
		}}
	if r, err := loop.Once(t.Context()); r != nil || err != nil {
		t.Errorf("nothing is planned: %+v, %v", r, err)
	}
	_, err := l.client(l.admin).PlanBenchmark(t.Context(), client.PlanRequest{Nodes: []string{n.id}, Memory: capacity.MinMemoryMiB})
	must(t, err)
	if b, err := n.client().Benchmark(t.Context()); err != nil || b.Challenge != nil || b.Shape == nil {
		t.Errorf("before the start: %+v, %v", b, err)
	}
	r, err := loop.Once(t.Context())
	must(t, err)
	if r.Outcome != capacity.Measured || r.Elapsed != 7000 {
		t.Errorf("%+v", r)
	}
	l.audited()
}

// TestBenchmarkUnclear: who does not answer, or late, or not to the end, is not refused anything: the log says that nothing
// is known.
func TestBenchmarkUnclear(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	l := newLab(t, "")
	n := l.join("one")
	for code, act := range map[string]func(){
		capacity.CodeNoAnswer: func() { l.clock.advance(4 * time.Minute) },
		capacity.CodeLate: func() {
			r := n.compute()
			l.clock.advance(2*time.Minute + time.Second)
			r.answer()
		},
		capacity.CodeNotOpened: func() {
			r := n.compute()
			l.clock.advance(10 * time.Second)
			_, err := r.commit()
			must(t, err)
			l.clock.advance(3 * time.Minute)
		},
		capacity.CodeShort: func() {
			r := n.compute()
			l.clock.advance(time.Second)
			r.answer()
		},
	} {
		l.plan(n)
		act()
		l.advance()
		m := l.measured(n)
		if got := m.Measures[0].Result; got.Outcome != capacity.Inconclusive || !strings.HasPrefix(got.Reason, code) || len(m.Claims) != 0 {
			t.Errorf("%s: %+v", code, m)
		}
	}
	if _, err := n.client().Challenge(t.Context(), nil); err != nil {
		t.Errorf("the node is refused: %v", err)
	}
	l.audited()
}

// TestBenchmarkWrong: what is not the chain is found out, logged as wrong, and makes no claim.
func TestBenchmarkWrong(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	l := newLab(t, "")
	n := l.join("one")
	l.plan(n)
	r := n.compute()
	l.clock.advance(10 * time.Second)
	copy(r.roots, bytes.Repeat([]byte{1}, len(r.roots)))
	if res := r.answer(); res.Outcome != capacity.Wrong || !strings.HasPrefix(res.Reason, capacity.CodeCommitted) {
		t.Errorf("%+v", res)
	}
	l.plan(n)
	r = n.compute()
	l.clock.advance(10 * time.Second)
	_, err := r.commit()
	must(t, err)
	res, err := n.client().OpenBenchmark(t.Context(), []byte("{}"))
	must(t, err)
	if res.Outcome != capacity.Wrong || !strings.HasPrefix(res.Reason, capacity.CodeForm) {
		t.Errorf("%+v", res)
	}
	if m := l.measured(n); len(m.Claims) != 0 {
		t.Errorf("%+v", m)
	}
	l.audited()
}

// TestBenchmarkDoor: what is asked out of turn is refused and loses nothing; what is sent twice is taken once.
func TestBenchmarkDoor(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	l := newLab(t, "")
	n, other := l.join("one"), l.join("two")
	ctx, admin := t.Context(), l.client(l.admin)
	plan := func(r client.PlanRequest) error { _, err := admin.PlanBenchmark(ctx, r); return err }
	ok := client.PlanRequest{Nodes: []string{n.id}, Memory: capacity.MinMemoryMiB}
	for name, r := range map[string]client.PlanRequest{
		"no node": {Memory: ok.Memory}, "twice": {Nodes: []string{n.id, n.id}, Memory: ok.Memory}, "little memory": {Nodes: ok.Nodes, Memory: capacity.MinMemoryMiB - 1},
		"at once": {Nodes: ok.Nodes, Memory: ok.Memory, In: 4}, "much later": {Nodes: ok.Nodes, Memory: ok.Memory, In: 601},
		"often": {Nodes: ok.Nodes, Memory: ok.Memory, Every: 60},
	} {
		t.Run(name, func(t *testing.T) { refused(t, plan(r), 400, "malformed") })
	}
	refused(t, plan(client.PlanRequest{Nodes: []string{n.id, "node-none"}, Memory: ok.Memory}), 404, "not-found")
	soon, err := admin.PlanBenchmark(ctx, client.PlanRequest{Nodes: []string{n.id}, Memory: ok.Memory, In: 5})
	must(t, err)
	if wait := soon.Starts - l.clock.Now().UnixMilli(); wait != 5000 {
		t.Errorf("it starts in %d ms", wait)
	}
	l.clock.advance(10 * time.Minute)
	l.advance() // nobody answered
	_, err = n.client().PlanBenchmark(ctx, ok)
	refused(t, err, 403, "forbidden")
	_, err = admin.Benchmark(ctx)
	refused(t, err, 403, "forbidden")
	_, err = n.client().CommitBenchmark(ctx, client.BenchmarkRoots{})
	refused(t, err, 410, client.CodeChallengeExpired)
	before := l.entries()
	l.plan(n)
	refused(t, plan(ok), 429, "too-many")
	r := n.compute()
	l.clock.advance(10 * time.Second)
	_, err = n.client().OpenBenchmark(ctx, []byte("{}"))
	refused(t, err, 400, "malformed") // before the commitments
	r.n = other
	_, err = r.commit()
	refused(t, err, 410, client.CodeChallengeExpired)
	r.n = n
	_, err = n.client().CommitBenchmark(ctx, client.BenchmarkRoots{Challenge: r.challenge, Roots: r.roots[:32]})
	refused(t, err, 400, "malformed")
	_, err = n.client().CommitBenchmark(ctx, client.BenchmarkRoots{Challenge: canon.Sum(nil), Roots: r.roots})
	refused(t, err, 410, client.CodeChallengeExpired)
	d, err := r.commit()
	must(t, err)
	l.clock.advance(5 * time.Second)
	again, err := r.commit()
	must(t, err)
	if again != d {
		t.Errorf("the same commitments got %+v and %+v", d, again)
	}
	if b, err := n.client().Benchmark(ctx); err != nil || b.Drawn == nil || *b.Drawn != d {
		t.Errorf("%+v, %v", b, err)
	}
	slices.Reverse(r.roots)
	_, err = r.commit()
	refused(t, err, 409, client.CodeChallengeUsed)
	opening := r.open(d)
	for range 2 {
		res, err := n.client().OpenBenchmark(ctx, opening)
		must(t, err)
		if res.Outcome != capacity.Measured || res.Elapsed != 10_000 {
			t.Errorf("%+v", res)
		}
	}
	_, err = n.client().OpenBenchmark(ctx, []byte("{}"))
	refused(t, err, 410, client.CodeChallengeExpired)
	if got := l.entries() - before; got != 3 {
		t.Errorf("%d entries, want challenge, draw and result", got)
	}
	l.audited()
}

// TestBenchmarkRepeats: a plan is repeated at instants that chance takes, for all its nodes or for one alone.
func TestBenchmarkRepeats(t *testing.T) {
	l := newLab(t, "")
	a, b := l.join("one"), l.join("two")
	_, err := l.client(l.admin).PlanBenchmark(t.Context(), client.PlanRequest{Nodes: []string{a.id, b.id}, Memory: capacity.MinMemoryMiB, Every: server.MinRepeat})
	must(t, err)
	for range 24 * 6 { // a day, unanswered
		l.clock.advance(10 * time.Minute)
		l.advance()
	}
	kinds, apart := map[int]int{}, map[int64]bool{}
	m := l.measured(a, b)
	for i, x := range m.Measures {
		kinds[x.Nodes]++
		if i > 0 && m.Measures[i-1].Starts != x.Starts {
			apart[m.Measures[i-1].Starts-x.Starts] = true
		}
	}
	if kinds[1] == 0 || kinds[2] < 2 || len(apart) < 3 {
		t.Errorf("alone and together %v, apart %v", kinds, apart)
	}
	must(t, l.client(l.admin).Revoke(t.Context(), b.id))
	l.clock.advance(3 * time.Hour)
	l.advance()
	l.audited()
}

// TestBenchmarkAudit: a server that says something else than what was opened is found out by recomputing alone.
func TestBenchmarkAudit(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	l := newLab(t, "")
	n := l.join("one")
	l.plan(n)
	r := n.compute()
	l.clock.advance(10 * time.Second)
	r.answer()
	l.advance()
	var file bytes.Buffer
	must(t, audit.Export(t.Context(), l.server.Source(), &file))
	report, err := audit.ReplayFile(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), &audit.Trust{Type: audit.TrustType, Keyset: l.server.Keyset()}, audit.Options{})
	must(t, err)
	if b := report.Benchmarks; b == nil || *b != (audit.Benchmarks{Challenges: 1, Results: 1, Replayed: 1}) {
		t.Errorf("%+v", b)
	}
	if !strings.Contains(report.Text(), "1 challenges, 1 results, 1 recomputed, 0 differ") {
		t.Error(report.Text())
	}
	if l.kindOf(ledger.KindBenchmark) != 3 {
		t.Errorf("%d entries", l.kindOf(ledger.KindBenchmark))
	}
}
