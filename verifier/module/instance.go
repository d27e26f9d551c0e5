package module

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier/engine"
)

// instance is a module that runs. One goroutine at a time owns it.
type instance struct {
	limits Limits
	stdin  *inbox
	stdout *io.PipeReader
	stop   context.CancelFunc
	done   chan struct{} // closed when it runs no more
	said   bounded

	kept map[canon.Digest]bool // blobs that it was told to keep
	size int                   // of them, in bytes
	jobs int

	mu  sync.Mutex
	why error // the first reason why it runs no more
}

type instanceKey struct{} // of the instance, in the context of its host functions

// start runs the module in a goroutine of its own.
func (m *compiled) start() *instance {
	stdoutR, stdoutW := io.Pipe()
	i := &instance{limits: m.limits, stdin: newInbox(), stdout: stdoutR, done: make(chan struct{}), kept: map[canon.Digest]bool{}}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), instanceKey{}, i))
	i.stop = stop
	config := wazero.NewModuleConfig().WithName("").WithStdin(i.stdin).WithStdout(stdoutW).WithStderr(&i.said).WithRandSource(sameBytes{}).
		WithWalltime(func() (int64, int32) { return 0, 0 }, sys.ClockResolution(time.Microsecond))
	go func() {
		defer close(i.done)
		instance, err := m.runtime.InstantiateModule(ctx, m.code, config)
		i.blame(ended(err))
		if instance != nil {
			_ = instance.Close(ctx)
		}
		stdoutW.Close()
	}()
	return i
}

// ended says how a module came to its end.
func ended(err error) error {
	var exit *sys.ExitError
	switch {
	case err == nil:
		return fault("ends without an answer")
	case errors.As(err, &exit) && exit.ExitCode() == 0:
		return fault("ends without an answer")
	case errors.As(err, &exit):
		return fault("ends with exit code %d", exit.ExitCode())
	}
	return fault("breaks off")
}

// sameBytes is the randomness of every instance: a program seeds its hash tables with it.
type sameBytes struct{}

func (sameBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}

// inbox is what an instance reads. Who writes never waits, so that an instance that does not read holds up nobody.
type inbox struct {
	mu     sync.Mutex
	more   *sync.Cond
	data   []byte
	closed bool
}

func newInbox() *inbox {
	b := &inbox{}
	b.more = sync.NewCond(&b.mu)
	return b
}

// put lays a request in, behind its length.
func (b *inbox) put(request []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var frame bytes.Buffer
	_ = engine.WriteFrame(&frame, request) // a buffer takes all
	b.data = frame.Bytes()
	b.more.Broadcast()
}

func (b *inbox) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 && !b.closed {
		b.more.Wait()
	}
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *inbox) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.data) == 0
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data, b.closed = nil, true
	b.more.Broadcast()
}

// bounded keeps the first bytes that are written to it. The module's goroutine writes; it is read when that has ended.
type bounded struct{ text strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	b.text.Write(p[:min(len(p), maxSaid-b.text.Len())])
	return len(p), nil
}

// blame records why the instance runs no more. Whatever comes later follows from the first.
func (i *instance) blame(why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.why == nil {
		i.why = why
	}
}

// halt ends the instance for a reason.
func (i *instance) halt(why error) {
	i.blame(why)
	i.stop()
	i.stdin.close()
	i.stdout.Close()
}

// end ends the instance and waits until nothing of it runs.
func (i *instance) end() {
	i.halt(fault("was ended"))
	<-i.done
}

// do sends a request and returns the answer.
func (i *instance) do(ctx context.Context, request []byte) ([]byte, error) {
	if len(request) > engine.MaxRequest {
		return nil, fault("its job takes a request of %d bytes, at most %d", len(request), engine.MaxRequest)
	}
	i.jobs++
	clock := time.AfterFunc(i.limits.Time, func() { i.halt(fault("runs longer than %s", i.limits.Time)) })
	unwatch := context.AfterFunc(ctx, func() { i.halt(ctx.Err()) })
	i.stdin.put(request)
	answer, err := engine.ReadFrame(i.stdout, engine.MaxResponse)
	if inTime, watched := clock.Stop(), unwatch(); err == nil && inTime && watched {
		if i.stdin.empty() {
			return answer, nil
		}
		i.blame(fault("answers before it has read what it is asked"))
	}
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF && err != io.ErrClosedPipe {
		i.blame(fault("answers with %v", err))
	}
	i.end()
	i.mu.Lock()
	defer i.mu.Unlock()
	var f *engine.Fault
	if errors.As(i.why, &f) {
		return nil, &engine.Fault{What: f.What, Said: i.said.text.String()}
	}
	return nil, i.why
}
