package benchmark_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-network/assay/agent/benchmark"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// What the test's own program does where it is started as a driver.
const (
	envDriver = "ASSAY_TEST_DRIVER" // cpu, or what a bad driver does
	envMemory = "ASSAY_TEST_MEMORY" // MiB of address space that it may have
)

func TestMain(m *testing.M) {
	what, ok := os.LookupEnv(envDriver)
	if !ok {
		os.Exit(m.Run())
	}
	if err := drive(what); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func drive(what string) error {
	if mib, err := strconv.Atoi(os.Getenv(envMemory)); err == nil {
		limit := uint64(mib) << 20
		if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	switch what {
	case "garbage":
		fmt.Println("hello")
	case "silent":
	case "words":
		return fmt.Errorf("no device of this kind")
	case "endless":
		for {
			fmt.Print(strings.Repeat("a", 1<<20))
		}
	case "killed":
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	case "few":
		fmt.Println(`{"ready":"few"}`)
		fmt.Println(`{"roots":"AAAA"}`)
	case "wrong order":
		fmt.Println(`{"roots":"AAAA"}`)
	case "two":
		fmt.Println(`{"ready":"two","step":1}`)
		time.Sleep(time.Hour) // until it is ended
	case "hangs":
		fmt.Println(`{"ready":"hangs"}`)
		time.Sleep(time.Hour) // until it is ended
	default:
		return benchmark.CPU(os.Stdin, os.Stdout)
	}
	return nil
}

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

func newChallenge(s capacity.Shape) capacity.Challenge {
	return capacity.Challenge{Round: digest(1), Nodes: 1, Node: "node", Seed: digest(1), Shape: s, Starts: begin, Expires: begin + 600_000}
}

// start starts this program as a driver, on the given processors; none: on all.
func start(t *testing.T, s capacity.Shape, processors ...int) *benchmark.Driver {
	t.Helper()
	command := []string{os.Args[0]}
	if len(processors) > 0 {
		command = append([]string{"taskset", "--cpu-list", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(processors)), ","), "[]")}, command...)
	}
	d, err := benchmark.Start(t.Context(), command, s)
	must(t, err)
	t.Cleanup(d.Close)
	return d
}

// TestCPU: the driver of this build computes what FORMAT.md says, and opens what is drawn of it.
func TestCPU(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	text, err := os.ReadFile(filepath.Join("..", "..", "market", "capacity", "FORMAT.md"))
	must(t, err)
	c := newChallenge(capacity.Shape{Cols: 16, Rows: 64, Slots: 3, Steps: 9})
	d := start(t, c.Shape)
	other := newChallenge(capacity.Shape{Cols: 16, Rows: 32, Slots: 3, Steps: 9})
	if _, err := d.Compute(other, nil); err == nil || !strings.Contains(err.Error(), "announced was") {
		t.Errorf("another shape than was announced: %v", err)
	}
	roots, err := d.Compute(c, nil)
	must(t, err)
	if sum := canon.Sum(roots); !strings.Contains(string(text), sum.String()) {
		t.Errorf("FORMAT.md does not name %s", sum)
	}
	for _, s := range []capacity.Shape{{Cols: 16, Rows: 16, Slots: 1, Steps: 2}, {Cols: 64, Rows: 4096, Slots: 16, Steps: 64}, {Cols: 128, Rows: 16 * 37, Slots: 5, Steps: 301}} {
		c := newChallenge(s)
		d := start(t, s)
		last := 0
		roots, err := d.Compute(c, func(step int) {
			if step <= last || step >= s.Steps {
				t.Errorf("step %d after %d", step, last)
			}
			last = step
		})
		must(t, err)
		_, challenge, err := capacity.Record{Type: capacity.RecordType, Challenge: &c}.Bytes()
		must(t, err)
		draw := capacity.Draw{Challenge: challenge, Roots: canon.Sum(roots), Received: begin + 10_000, Seed: digest(3), Expires: begin + 20_000}
		opening, err := d.Open(draw)
		must(t, err)
		r := capacity.Judge(capacity.Given{Challenge: c, Draw: &draw, Roots: roots, Opening: opening})
		if want := s.Score(10_000) > 0; r.Outcome == capacity.Wrong || (r.Outcome == capacity.Measured) != want {
			t.Errorf("%+v: %+v", s, r)
		}
		if _, err := d.Compute(c, nil); err == nil || !strings.Contains(err.Error(), "an order where another was due") {
			t.Errorf("a second challenge: %v", err)
		}
	}
}

// TestBadDrivers: what a driver does wrong is said in words, and ends it.
func TestBadDrivers(t *testing.T) {
	s := capacity.Shape{Cols: 16, Rows: 64, Slots: 3, Steps: 9}
	for what, want := range map[string]string{
		"garbage": "parse canonical JSON", "silent": "it ended", "words": "exit status 1: no device of this kind", "endless": "token too long",
		"killed": "the kernel ends it where memory runs out", "wrong order": "it did not say that it is ready", "two": "a report of 2 members", "few": "3 bytes of roots, want 288",
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv(envDriver, what)
			d, err := benchmark.Start(t.Context(), []string{os.Args[0]}, s)
			if err == nil {
				defer d.Close()
				_, err = d.Compute(newChallenge(s), nil)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	t.Run("hangs", func(t *testing.T) {
		t.Setenv(envDriver, "hangs")
		ctx, cancel := context.WithCancel(t.Context())
		d, err := benchmark.Start(ctx, []string{os.Args[0]}, s)
		must(t, err)
		defer d.Close()
		cancel()
		if _, err := d.Compute(newChallenge(s), nil); err == nil {
			t.Error("it does not end with its context")
		}
	})
	if _, err := benchmark.Start(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, s); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no such driver: %v", err)
	}
	if _, err := benchmark.Start(t.Context(), nil, s); err == nil {
		t.Error("no command")
	}
	if _, err := benchmark.Start(t.Context(), []string{os.Args[0]}, capacity.Shape{}); err == nil {
		t.Error("no shape")
	}
}

// TestTooLittleMemory: a process that may not have the memory says so before anything is timed; with enough, it is ready.
func TestTooLittleMemory(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	s, err := capacity.ShapeFor(2048)
	must(t, err)
	t.Setenv(envMemory, "3072") // half of which a Go program reserves for itself
	if d, err := benchmark.Start(t.Context(), []string{os.Args[0]}, s); err == nil {
		d.Close()
		t.Error("2 GiB where there is less")
	} else if !strings.Contains(err.Error(), "take 2147483648 bytes for slots: cannot allocate memory") {
		t.Error(err)
	}
	s, err = capacity.ShapeFor(64)
	must(t, err)
	start(t, s)
}

// TestOneCPUSet has real processes measured alone and at one instant, by the clock of this machine: two that share a
// processor get half of it each, two on processors of their own do not. A machine that others use as well may leave that
// unclear, and then it must be called unclear; what it may never be called is the opposite.
func TestOneCPUSet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs two processors")
	}
	t.Setenv(envDriver, "cpu")
	t.Setenv("GOMAXPROCS", "1")
	s := capacity.Shape{Cols: 64, Rows: 4096, Slots: 16, Steps: 64}
	for name, at := range map[string]struct {
		a, b  int // processors
		never string
	}{
		"one processor":  {0, 0, capacity.Separate},
		"two processors": {0, 1, capacity.Shared},
	} {
		t.Run(name, func(t *testing.T) {
			on := map[string]int{"a": at.a, "b": at.b}
			var all []capacity.Measure
			var f capacity.Finding
			round := byte(0)
			// measure runs a driver for each node, and starts their chains at one instant.
			measure := func(nodes ...string) {
				round++
				drivers := map[string]*benchmark.Driver{}
				for _, n := range nodes {
					drivers[n] = start(t, s, on[n])
				}
				var mu sync.Mutex
				var wg sync.WaitGroup
				from := time.Now()
				for n, d := range drivers {
					wg.Go(func() {
						c := newChallenge(s)
						c.Node = n
						_, err := d.Compute(c, nil)
						elapsed := time.Since(from).Milliseconds()
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							t.Error(err)
							return
						}
						all = append(all, capacity.Measure{Round: digest(round), Nodes: len(nodes), Node: n, Starts: begin + int64(round),
							Result: capacity.Result{Outcome: capacity.Measured, Elapsed: elapsed, Score: s.Score(elapsed), Memory: s.Memory()}})
					})
				}
				wg.Wait()
				for _, d := range drivers {
					d.Close()
				}
			}
			for range 3 {
				measure("a")
				measure("b")
				measure("a", "b")
				measure("a", "b")
				measure("a") // once more: is the machine as it was?
				measure("b")
				f = capacity.Compare(all)
				for _, m := range all {
					t.Logf("round %d of %d nodes: %s %d ms", m.Round[0], m.Nodes, m.Node, m.Result.Elapsed)
				}
				t.Logf("%+v", f)
				if f.Outcome != capacity.Inconclusive {
					break
				}
			}
			if f.Outcome == at.never && steady(all) {
				t.Errorf("%+v", f)
			}
			if f.Outcome == capacity.Inconclusive || f.Outcome == at.never {
				t.Skip("the machine is used by others: unclear, as it should be called then")
			}
		})
	}
}

// steady reports whether each node did alone, before and after the newest rounds of both, nearly the same.
func steady(all []capacity.Measure) bool {
	last := map[string][]int64{}
	for _, m := range all {
		if m.Nodes == 1 {
			last[m.Node] = append(last[m.Node], m.Result.Score)
		}
	}
	for _, scores := range last {
		before, after := scores[len(scores)-2], scores[len(scores)-1]
		if max(before, after)*9 > min(before, after)*10 {
			return false
		}
	}
	return true
}
