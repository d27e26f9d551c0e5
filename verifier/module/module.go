// Package module runs engines of other builds: WASI modules that speak package engine's interface, each in a sandbox of
// its own, compiled to machine code in memory and forgotten at the end.
//
// A module gets nothing but requests: no files, network, arguments or environment; its clock says the same instants and
// its randomness the same bytes in every instance. So its answers depend on its own bytes and its requests alone. It is a
// stranger's program all the same. Its memory, the time and the size of an answer, and what it may import are bounded, and
// whatever it does instead of answering is an [*engine.Fault], never a panic of this process. Two things are not bounded but by the
// module's size: the time and the memory of compiling it.
//
// Whether a module tells the truth nothing here can show: it is as good as who vouches for its digest.
package module

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/engine"
)

// Limits on a module.
const (
	MaxModule = 16 << 20         // bytes of the module
	MaxMemory = 1 << 30          // bytes of memory of one instance
	MaxTime   = 60 * time.Second // for one job, the start of the instance included

	maxReady = 4 // compiled modules that are kept at hand, each some ten times its size
	maxSaid  = 4 << 10
)

const pageSize = 64 << 10 // of WebAssembly

// Limits may be smaller than the constants. Zero means the constant.
type Limits struct {
	Memory int64         // bytes
	Time   time.Duration // one job
	Kept   int           // bytes of shared inputs that one instance is told to keep; zero means engine.MaxKept
}

func fault(format string, args ...any) error {
	return &engine.Fault{What: fmt.Sprintf(format, args...)}
}

// Runner runs modules. Its methods may be called concurrently; each call has an instance to itself.
type Runner struct {
	limits Limits

	mu    sync.Mutex
	ready map[canon.Digest]*list.Element // of *compiled
	order *list.List                     // most recently used first
}

// NewRunner returns a runner that has compiled nothing yet.
func NewRunner(l Limits) *Runner {
	if l.Memory <= 0 || l.Memory > MaxMemory {
		l.Memory = MaxMemory
	}
	if l.Time <= 0 || l.Time > MaxTime {
		l.Time = MaxTime
	}
	if l.Kept <= 0 || l.Kept > engine.MaxKept {
		l.Kept = engine.MaxKept
	}
	return &Runner{limits: l, ready: map[canon.Digest]*list.Element{}, order: list.New()}
}

// Close ends all instances. No call may be under way.
func (r *Runner) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Front(); e != nil; e = e.Next() {
		e.Value.(*compiled).close()
	}
	r.ready, r.order = map[canon.Digest]*list.Element{}, list.New()
}

// Describe asks a module what it is.
func (r *Runner) Describe(ctx context.Context, module canon.Digest, blobs engine.Blobs) (engine.Description, error) {
	response, err := r.ask(ctx, module, blobs, func(*instance) (engine.Request, error) { return engine.Request{Describe: true}, nil })
	switch {
	case err != nil:
		return engine.Description{}, err
	case response.Engine == nil:
		return engine.Description{}, fault("answers without saying what it is")
	}
	return *response.Engine, nil
}

// Run has a module do a job and returns the canonical bytes of the appraisal or verdict. The module and all inputs come
// from blobs. The error is an [*engine.Fault] where the module is to blame, one of blobs, or the context's.
func (r *Runner) Run(ctx context.Context, module canon.Digest, j engine.Job, blobs engine.Blobs) ([]byte, error) {
	response, err := r.ask(ctx, module, blobs, func(i *instance) (engine.Request, error) { return i.request(ctx, j, blobs) })
	switch {
	case err != nil:
		return nil, err
	case len(response.Result) == 0:
		return nil, fault("answers without a result")
	}
	return response.Result, nil
}

// ask has one instance answer one request. An instance that did not answer is not asked again.
func (r *Runner) ask(ctx context.Context, module canon.Digest, blobs engine.Blobs, make func(*instance) (engine.Request, error)) (q engine.Response, err error) {
	m, err := r.module(ctx, module, blobs)
	if err != nil {
		return q, err
	}
	defer r.release(m)
	i := m.take()
	request, err := make(i)
	if err == errKeptEnough {
		i.end()
		i = m.start()
		request, err = make(i)
	}
	if err != nil {
		i.end()
		return q, err
	}
	request.Type = engine.RequestType
	data, err := canon.Marshal(request)
	if err != nil {
		panic("module: internal error: " + err.Error())
	}
	answer, err := i.do(ctx, data)
	if err != nil {
		i.end()
		return q, err
	}
	switch err := canon.Unmarshal(answer, &q); {
	case err != nil || q.Type != engine.ResponseType:
		i.end()
		return q, fault("answers with what is no response")
	case q.Fault != "": // what it was told to keep, it may not have kept
		i.end()
		return q, fault("answers: %.200q", q.Fault)
	}
	m.put(i)
	return q, nil
}

var errKeptEnough = errors.New("the instance keeps enough")

// request makes the request of a job: with every input that the instance does not keep yet. What many jobs share is kept.
func (i *instance) request(ctx context.Context, j engine.Job, blobs engine.Blobs) (q engine.Request, err error) {
	q = engine.Request{Appraise: j.Appraise, Decide: j.Decide}
	give := func(d canon.Digest, shared bool) error {
		if i.kept[d] {
			return nil
		}
		b, err := blobs(ctx, d)
		switch {
		case err != nil:
			return err
		case shared && i.size+len(b) > i.limits.Kept && i.jobs > 0:
			return errKeptEnough
		case !shared || i.size+len(b) > i.limits.Kept:
			q.Blobs = append(q.Blobs, b)
			return nil
		}
		q.Keep, i.kept[d], i.size = append(q.Keep, b), true, i.size+len(b)
		return nil
	}
	if j.Appraise != nil {
		for _, in := range j.Appraise.Inputs {
			if err := give(in.Digest, in.Kind != verifier.InputEvidence && in.Kind != verifier.InputExpect); err != nil {
				return q, err
			}
		}
	}
	if j.Decide != nil {
		if err := give(j.Decide.Appraisal, false); err != nil {
			return q, err
		}
		if err := give(j.Decide.Policy, true); err != nil {
			return q, err
		}
		if !j.Decide.Party.IsZero() {
			if err := give(j.Decide.Party, false); err != nil {
				return q, err
			}
		}
	}
	return q, nil
}

// compiled is a module that was made ready, with the instances of it that wait for a job.
type compiled struct {
	digest  canon.Digest
	users   int // calls under way; guarded by Runner.mu
	once    sync.Once
	err     error
	limits  Limits
	runtime wazero.Runtime
	code    wazero.CompiledModule

	mu   sync.Mutex
	idle []*instance
}

// module returns a module, compiled, with its user counted.
func (r *Runner) module(ctx context.Context, digest canon.Digest, blobs engine.Blobs) (*compiled, error) {
	r.mu.Lock()
	e, ok := r.ready[digest]
	if !ok {
		e = r.order.PushFront(&compiled{digest: digest, limits: r.limits})
		r.ready[digest] = e
	}
	r.order.MoveToFront(e)
	m := e.Value.(*compiled)
	m.users++
	r.mu.Unlock()
	m.once.Do(func() { m.err = m.compile(ctx, blobs) })
	if m.err == nil {
		return m, nil
	}
	var f *engine.Fault
	if !errors.As(m.err, &f) { // it was not the module: another call may have more luck
		r.mu.Lock()
		if r.ready[digest] == e {
			delete(r.ready, digest)
			r.order.Remove(e)
		}
		r.mu.Unlock()
	}
	r.release(m)
	return nil, m.err
}

// release counts a user out, and ends modules that nobody used for the longest time.
func (r *Runner) release(m *compiled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.users--
	for e := r.order.Back(); e != nil && r.order.Len() > maxReady; {
		before := e.Prev()
		if old := e.Value.(*compiled); old.users == 0 {
			old.close()
			delete(r.ready, old.digest)
			r.order.Remove(e)
		}
		e = before
	}
}

func (m *compiled) compile(ctx context.Context, blobs engine.Blobs) error {
	data, err := blobs(ctx, m.digest)
	if err != nil {
		return err
	}
	if canon.Sum(data) != m.digest {
		return fault("its bytes have the digest %s, not %s", canon.Sum(data), m.digest)
	}
	if len(data) > MaxModule {
		return fault("%d bytes, at most %d", len(data), MaxModule)
	}
	// The code outlives the call that was the first to need it.
	ctx = context.WithoutCancel(ctx)
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(m.limits.Memory / pageSize)).WithCloseOnContextDone(true)
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := giveWASI(ctx, m.runtime); err != nil {
		panic("module: internal error: " + err.Error())
	}
	if m.code, err = m.runtime.CompileModule(ctx, data); err != nil {
		return fault("no WebAssembly that can be run here, within %d MiB of memory", m.limits.Memory>>20)
	}
	for _, f := range m.code.ImportedFunctions() {
		if from, name, _ := f.Import(); from != wasi_snapshot_preview1.ModuleName {
			return fault("imports %.80q of %.80q: want nothing but %s", name, from, wasi_snapshot_preview1.ModuleName)
		}
	}
	if m.code.ExportedFunctions()[start] == nil {
		return fault("has no function %s", start)
	}
	return nil
}

const start = "_start" // what runs a WASI command

// allowed are the functions of WASI that a program without files and network has a use for. Calling another is a fault.
var allowed = map[string]bool{
	"args_get": true, "args_sizes_get": true, "environ_get": true, "environ_sizes_get": true, // there are none
	"clock_res_get": true, "clock_time_get": true, "random_get": true, "poll_oneoff": true, "sched_yield": true, "proc_exit": true,
	"fd_close": true, "fd_fdstat_get": true, "fd_fdstat_set_flags": true, "fd_filestat_get": true, "fd_read": true, "fd_write": true,
	"fd_prestat_get": true, "fd_prestat_dir_name": true, // there is no folder
}

// giveWASI gives modules the functions of WASI, those for files and the network as ones that end the instance.
func giveWASI(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	all, err := b.Compile(ctx)
	if err != nil {
		return err
	}
	for name, def := range all.ExportedFunctions() {
		if allowed[name] {
			continue
		}
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, _ []uint64) {
			if i, ok := ctx.Value(instanceKey{}).(*instance); ok {
				i.blame(fault("asks for files or the network: %s", name))
			}
			_ = m.CloseWithExitCode(ctx, 1)
			panic(sys.NewExitError(1)) // ends the instance, and is caught by whoever called it
		}), def.ParamTypes(), def.ResultTypes()).Export(name)
	}
	if err := all.Close(ctx); err != nil {
		return err
	}
	_, err = b.Instantiate(ctx)
	return err
}

// take returns an instance that waits, or a new one.
func (m *compiled) take() *instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.idle); n > 0 {
		i := m.idle[n-1]
		m.idle = m.idle[:n-1]
		return i
	}
	return m.start()
}

func (m *compiled) put(i *instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, i)
}

func (m *compiled) close() {
	for _, i := range m.idle {
		i.end()
	}
	if m.runtime != nil {
		_ = m.runtime.Close(context.Background()) // frees memory, and what fails then nobody can use
	}
}
