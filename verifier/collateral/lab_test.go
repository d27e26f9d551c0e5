package collateral_test

import (
	"context"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier/collateral"
	"github.com/assay-network/assay/verifier/collateral/fake"
)

var begin = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// lab is a fetcher, the vendors that it asks, and a clock that only sleeping moves.
type lab struct {
	t       *testing.T
	dir     string
	vendors *fake.Vendors
	store   *collateral.Store
	fetcher *collateral.Fetcher
	server  *httptest.Server

	mu    sync.Mutex
	now   time.Time
	slept time.Duration
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, dir: t.TempDir(), now: begin}
	l.vendors = fake.New(l.Now)
	l.server = httptest.NewServer(l.vendors)
	t.Cleanup(l.server.Close)
	l.restart()
	return l
}

// newPipedLab returns a lab whose services are reached through memory: in a bubble of testing/synctest a goroutine that
// waits for a socket holds time up.
func newPipedLab(t *testing.T) *lab {
	l := &lab{t: t, dir: t.TempDir(), now: begin}
	l.vendors = fake.New(l.Now)
	pipes := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.server = httptest.NewUnstartedServer(l.vendors)
	must(t, l.server.Listener.Close())
	l.server.Listener = pipes
	l.server.Start()
	t.Cleanup(l.server.Close)
	l.restart()
	l.fetcher.SetDial(pipes.dial)
	return l
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accepted <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address of this machine, for which no proxy is asked.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// restart forgets all but the store.
func (l *lab) restart() {
	l.t.Helper()
	var err error
	l.store, err = collateral.OpenStore(l.dir)
	must(l.t, err)
	l.fetcher = collateral.NewFetcher(collateral.Config{Store: l.store, Origins: fake.Origins(l.server.URL), Now: l.Now, Sleep: l.sleep})
}

func (l *lab) Now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *lab) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *lab) sleep(ctx context.Context, d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.slept = l.now.Add(d), l.slept+d
	return ctx.Err()
}

func (l *lab) get(need attest.Need) (collateral.Item, *collateral.Failure) {
	return l.fetcher.Get(l.t.Context(), "node-1", need)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vcek is the need of a chip's certificate.
func vcek(t testing.TB, line sevsnp.Line, name, tcb string) attest.Need {
	t.Helper()
	amd := mint.NewAMD(line)
	n, err := collateral.NeedVCEK(line, amd.Identity(amd.Chip(name)).Value, tcb)
	must(t, err)
	return n
}

func milanVCEK(t testing.TB) attest.Need {
	return vcek(t, sevsnp.Milan, "chip", "bl=4 tee=0 snp=24 ucode=219")
}

func crl(line sevsnp.Line) attest.Need {
	return attest.Need{Kind: attest.KindAMDCRL, Source: sevsnp.CRLSource(line, sevsnp.SigningVCEK)}
}

// wants names the same, whatever is at hand.
func wants(needs ...attest.Need) func([]attest.Collateral) []attest.Need {
	return func([]attest.Collateral) []attest.Need { return needs }
}

// wantGot fails unless there is an item.
func wantGot(t testing.TB, i collateral.Item, f *collateral.Failure) {
	t.Helper()
	if f != nil {
		t.Fatal(f)
	}
	if i.Record.Data != canon.Sum(i.Data) || len(i.Data) == 0 {
		t.Fatalf("an item of %d bytes under the digest %s", len(i.Data), i.Record.Data)
	}
}

func wantFailure(t testing.TB, f *collateral.Failure, code string) {
	t.Helper()
	if f == nil {
		t.Fatalf("an item came, want the failure %s", code)
	}
	if f.Code != code {
		t.Fatalf("%v, want %s", f, code)
	}
}
