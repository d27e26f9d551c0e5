package module_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/engine/enginetest"
	"github.com/assay-network/assay/verifier/module"
)

// shelf holds blobs by digest.
type shelf struct {
	mu    sync.Mutex
	blobs map[canon.Digest][]byte
}

func newShelf() *shelf { return &shelf{blobs: map[canon.Digest][]byte{}} }

func (s *shelf) put(b []byte) canon.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[canon.Sum(b)] = b
	return canon.Sum(b)
}

var errNoBlob = errors.New("no such blob")

func (s *shelf) get(_ context.Context, d canon.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.blobs[d]; ok {
		return b, nil
	}
	return nil, errNoBlob
}

// asked is a case as a job, and what this build says of it.
type asked struct {
	name     string
	job      engine.Job
	want     []byte
	policies []string
	asOf     canon.Time
}

// ask makes a job of a case.
func ask(t testing.TB, s *shelf, c testvectors.Case) asked {
	t.Helper()
	_, k, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.Judge(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := j.Appraisal.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	s.put(c.Evidence)
	s.put(k.Roots.Marshal())
	for _, i := range c.Items {
		s.put(i.Data)
	}
	a := asked{name: c.Name, job: engine.Job{Appraise: &engine.Appraise{EvidenceType: c.Type, Inputs: j.Appraisal.Inputs, AsOf: c.AsOf}}, want: want, asOf: c.AsOf}
	for _, v := range c.Verdicts {
		a.policies = append(a.policies, v.Policy)
	}
	return a
}

func minted(t testing.TB) []testvectors.Case {
	t.Helper()
	all, err := testvectors.Load(os.DirFS(filepath.Join(vectors.Root(t), "testvectors")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// compare has a module do the job of a case, and decide by its policies.
func compare(t *testing.T, r *module.Runner, m canon.Digest, s *shelf, a asked) {
	got, err := r.Run(t.Context(), m, a.job, s.get)
	if err != nil || !bytes.Equal(got, a.want) {
		t.Errorf("%s: %v\n%s\nwant\n%s", a.name, err, got, a.want)
		return
	}
	appraisal, err := verifier.ParseAppraisal(got)
	if err != nil {
		t.Error(err)
		return
	}
	s.put(got)
	for _, name := range a.policies {
		p, _ := policy.Builtin(name)
		want, err := canon.Marshal(policy.Decide(appraisal.Claims, p, a.asOf))
		if err != nil {
			t.Error(err)
			return
		}
		got, err := r.Run(t.Context(), m, engine.Job{Decide: &engine.Decide{Appraisal: canon.Sum(a.want), Policy: s.put(p.Canonical()), AsOf: a.asOf}}, s.get)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s by %s: %v\n%s\nwant\n%s", a.name, name, err, got, want)
		}
	}
}

// TestSameAsNative: the module of this tree says of the cases, asked by several at a time, what this build says, to the
// byte: of all under ASSAY_LONG, else of one in five.
func TestSameAsNative(t *testing.T) {
	s := newShelf()
	m := s.put(enginetest.Build(t, enginetest.Today))
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	d, err := r.Describe(t.Context(), m, s.get)
	if want := (engine.Description{Version: "today", Go: "go1.26.8", Rules: engine.Rules()}); err != nil || d.Version != want.Version || d.Go != want.Go || !d.ByRules(verifier.Rooms(), policy.Rules) {
		t.Errorf("%v: %+v, want %+v", err, d, want)
	}
	all := minted(t)
	if os.Getenv("ASSAY_LONG") != "1" { // the runner of package verifier judges all of them
		for n := 0; n < len(all)/5; n++ {
			all[n] = all[5*n]
		}
		all = all[:len(all)/5]
	}
	work := make(chan testvectors.Case)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for c := range work {
				compare(t, r, m, s, ask(t, s, c))
			}
		})
	}
	for _, c := range all {
		work <- c
	}
	close(work)
	wg.Wait()
	t.Logf("%d cases", len(all))
}

// TestKeptIsBounded: an instance that keeps enough is replaced by a new one, and nobody sees it.
func TestKeptIsBounded(t *testing.T) {
	s := newShelf()
	m := s.put(enginetest.Build(t, enginetest.Today))
	for _, kept := range []int{1, 24 << 10} { // nothing, some
		r := module.NewRunner(module.Limits{Kept: kept})
		for n, c := range minted(t) {
			if n%40 == 0 {
				compare(t, r, m, s, ask(t, s, c))
			}
		}
		r.Close()
	}
}

// TestOtherReleases: a release decides by its own rules, and names them.
func TestOtherReleases(t *testing.T) {
	s := newShelf()
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	find := func(name string) asked {
		for _, c := range minted(t) {
			if c.Name == name {
				return ask(t, s, c)
			}
		}
		t.Fatalf("no case %s", name)
		return asked{}
	}
	debug := find("debug")
	lenient := s.put(enginetest.Build(t, enginetest.Lenient))
	d, err := r.Describe(t.Context(), lenient, s.get)
	if err != nil || d.Version != "lenient" || d.ByRules(verifier.Rooms(), policy.Rules) {
		t.Errorf("%v: %+v", err, d)
	}
	got, err := r.Run(t.Context(), lenient, debug.job, s.get)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err1 := verifier.ParseAppraisal(got)
	ours, err2 := verifier.ParseAppraisal(debug.want)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	status := func(a verifier.Appraisal) string { return a.Claims.Find("sevsnp.debug-off", "cpu:0").Status.String() }
	if status(theirs) != "affirmed" || status(ours) != "contradicted" || !d.ByRules(theirs.Rules, policy.Rules) {
		t.Errorf("theirs %s by %v, ours %s", status(theirs), theirs.Rules, status(ours))
	}
}

// TestHostile: whatever a module does instead of its job is a fault with a name.
func TestHostile(t *testing.T) {
	text, tooLong := []byte("anything at all"), "runs longer than 100ms"
	response := func(r engine.Response) []byte {
		b, err := canon.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return enginetest.Says(enginetest.Frame(b))
	}
	for _, row := range []struct {
		name   string
		module []byte
		what   string // of the fault; empty: it describes itself
	}{
		{"an engine, by its own word", response(engine.Response{Type: engine.ResponseType, Engine: &engine.Description{Version: "v", Go: "go", Rules: []verifier.RoomRules{}}}), ""},
		{"a response of another type", response(engine.Response{Type: "assay/engine-response/v9", Engine: &engine.Description{Version: "v", Go: "go", Rules: []verifier.RoomRules{}}}), "answers with what is no response"},
		{"a response without what was asked", response(engine.Response{Type: engine.ResponseType, Result: []byte("{}")}), "answers without saying what it is"},
		{"a response with a fault", response(engine.Response{Type: engine.ResponseType, Fault: "no\x1b[2J"}), `answers: "no\x1b[2J"`},
		{"no module", text, "no WebAssembly that can be run here"},
		{"no bytes", nil, "no WebAssembly that can be run here"},
		{"a module without a program", enginetest.Nothing, "has no function _start"},
		{"a stranger's import", enginetest.Dials, `imports "dial" of "env"`},
		{"loops for ever", enginetest.Loops, tooLong},
		{"breaks off", enginetest.Traps, "breaks off"},
		{"returns at once", enginetest.Returns, "ends without an answer"},
		{"exits", enginetest.Exits, "ends with exit code 3"},
		{"opens a file", enginetest.Reads, "asks for files or the network: path_open"},
		{"listens", enginetest.Listens, "asks for files or the network: sock_accept"},
		{"takes all memory", enginetest.Grows, "breaks off"},
		{"says what is no response", enginetest.Says(enginetest.Frame(text)), "answers with what is no response"},
		{"says half a response", enginetest.Says(enginetest.Frame(text)[:9]), tooLong},
		{"answers unasked", enginetest.Blurts(enginetest.Frame(text)), "answers before it has read what it is asked"},
		{"announces too much", enginetest.TooMuch, "answers with a document of 4294967295 bytes, at most 25165824"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newShelf()
			m := s.put(row.module)
			limits := module.Limits{Memory: 64 << 20}
			if row.what == tooLong {
				limits.Time = 100 * time.Millisecond
			}
			r := module.NewRunner(limits)
			defer r.Close()
			_, err := r.Describe(t.Context(), m, s.get)
			if row.what == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var f *engine.Fault
			if !errors.As(err, &f) || !strings.HasPrefix(f.What, row.what) {
				t.Errorf("got %v, want %s", err, row.what)
			}
		})
	}
}

// TestLimits: a module that needs more memory than it gets, or is too large, is not run.
func TestLimits(t *testing.T) {
	b, err := canon.Marshal(engine.Response{Type: engine.ResponseType, Engine: &engine.Description{Version: "v", Go: "go", Rules: []verifier.RoomRules{}}})
	if err != nil {
		t.Fatal(err)
	}
	small, large := enginetest.Says(enginetest.Frame(b)), make([]byte, module.MaxModule+1)
	for _, row := range []struct {
		module []byte
		memory int64
		what   string
	}{
		{small, 8 << 20, ""},
		{small, 4 << 20, "no WebAssembly that can be run here, within 4 MiB of memory"},
		{large, 0, "16777217 bytes, at most 16777216"},
		{large[:module.MaxModule], 0, "no WebAssembly that can be run here, within 1024 MiB of memory"},
	} {
		s := newShelf()
		r := module.NewRunner(module.Limits{Memory: row.memory})
		_, err := r.Describe(t.Context(), s.put(row.module), s.get)
		r.Close()
		if row.what == "" && err != nil || row.what != "" && (err == nil || err.Error() != "engine module: "+row.what) {
			t.Errorf("got %v, want %s", err, row.what)
		}
	}
}

// TestNotItsDigest: the bytes of another module are not run, and a source that fails is no fault of the module.
func TestNotItsDigest(t *testing.T) {
	s := newShelf()
	m := s.put(enginetest.Returns)
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	if _, err := r.Describe(t.Context(), canon.Sum([]byte("elsewhere")), s.get); !errors.Is(err, errNoBlob) {
		t.Errorf("a missing module: %v", err)
	}
	s.blobs[m] = enginetest.Exits
	var f *engine.Fault
	if _, err := r.Describe(t.Context(), m, s.get); !errors.As(err, &f) || !strings.Contains(f.What, "its bytes have the digest "+canon.Sum(enginetest.Exits).String()) {
		t.Errorf("another module: %v", err)
	}
}

// TestManyModules: a runner forgets modules that were not used for the longest time, and makes them ready again.
func TestManyModules(t *testing.T) {
	s := newShelf()
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	var all []canon.Digest
	for n := range 9 {
		b, err := canon.Marshal(engine.Response{Type: engine.ResponseType, Engine: &engine.Description{Version: string(rune('a' + n)), Go: "go", Rules: []verifier.RoomRules{}}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.put(enginetest.Says(enginetest.Frame(b))))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 3 * len(all) {
				d, err := r.Describe(t.Context(), all[n%len(all)], s.get)
				if err != nil || d.Version != string(rune('a'+n%len(all))) {
					t.Errorf("%d: %v %v", n, d, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCancelled(t *testing.T) {
	s := newShelf()
	m := s.put(enginetest.Loops)
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Describe(ctx, m, s.get); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkAppraise judges evidence whose chains and collateral are known already, in this build and in the module.
func BenchmarkAppraise(b *testing.B) {
	s := newShelf()
	m := s.put(enginetest.Build(b, enginetest.Today))
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	for _, c := range minted(b) {
		switch c.Name {
		case "bundle-genoa-v5", "bundle-tdx-v5", "bundle-tpm", "bundle-gpu-two":
		default:
			continue
		}
		a := ask(b, s, c)
		b.Run(c.Name+"/native", func(b *testing.B) {
			o, k, err := c.Open()
			if err != nil {
				b.Fatal(err)
			}
			k.Memory = attest.NewMemory()
			verifier.Appraise(o, k)
			for b.Loop() {
				if o, err = verifier.Open(c.Type, c.Evidence); err != nil {
					b.Fatal(err)
				}
				if _, err := verifier.Appraise(o, k).Canonical(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.Name+"/module", func(b *testing.B) {
			if _, err := r.Run(b.Context(), m, a.job, s.get); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := r.Run(b.Context(), m, a.job, s.get); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
