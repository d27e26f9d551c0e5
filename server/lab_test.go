package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// The world of the tests: one product line, one guest with one agent in it, one moment.
var (
	worldBegin = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	worldTCB   = sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}
	worldAgent = canon.Sum([]byte("the agent in the guest"))
	worldGuest = [48]byte(bytes.Repeat([]byte{0xa5}, 48))
)

const worldOrigin = "https://assay.test"

// clock is a clock that stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// sleep moves the clock instead of waiting.
func (c *clock) sleep(_ context.Context, d time.Duration) error {
	c.advance(d)
	return nil
}

// lab is a verifier, served over HTTP, and the world that it believes in.
type lab struct {
	t        *testing.T
	clock    *clock
	settings server.Settings
	amd      *mint.AMD
	log      *bytes.Buffer

	server *server.Server
	http   *httptest.Server
	admin  string
}

// writeWorld writes what a verifier of the tests is given, and returns settings that name it.
func writeWorld(t testing.TB, dir string) server.Settings {
	amd := mint.NewAMD(sevsnp.Milan)
	references, err := canon.Marshal(attest.References{
		Type: attest.ReferencesType, Name: "guests", Source: "made for a test",
		Values: []attest.Reference{{Format: sevsnp.Format, Guest: "guest", Measurement: worldGuest[:], Agent: worldAgent}},
	})
	must(t, err)
	files := map[string][]byte{"guests.json": references, "collateral/milan.crl": amd.CRL(worldBegin.AddDate(0, 0, -7), worldBegin.AddDate(0, 1, 0))}
	for _, f := range amd.Roots() {
		files["roots/"+f.Name] = f.Data
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, data, 0o600))
	}
	return server.Settings{
		Data: filepath.Join(dir, "data"), Origin: worldOrigin, Roots: filepath.Join(dir, "roots"),
		References: []string{filepath.Join(dir, "guests.json")}, Collateral: filepath.Join(dir, "collateral"),
	}
}

// newLab starts a verifier; change makes its settings other ones.
func newLab(t *testing.T, database string, change ...func(*server.Settings)) *lab {
	l := &lab{t: t, clock: &clock{now: worldBegin}, amd: mint.NewAMD(sevsnp.Milan), settings: writeWorld(t, t.TempDir()), log: &bytes.Buffer{}}
	l.settings.Database = database
	for _, f := range change {
		f(&l.settings)
	}
	l.start()
	return l
}

func (l *lab) start() {
	l.t.Helper()
	s, err := server.New(l.t.Context(), l.settings, server.Deps{Now: l.clock.Now, Random: rand.Reader, Log: slog.New(slog.NewTextHandler(&locked{w: l.log}, nil)), Sleep: l.clock.sleep})
	must(l.t, err)
	if token := s.NewAdminToken(); token != "" {
		l.admin = token
	}
	h := httptest.NewServer(s.Handler())
	l.server, l.http = s, h
	l.t.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			l.t.Error(err)
		}
	})
}

// restart ends the server between two requests and opens its database again.
func (l *lab) restart() {
	l.t.Helper()
	l.http.Close()
	must(l.t, l.server.Close())
	l.start()
}

// locked lets several goroutines write.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (l *lab) client(credential string) *client.Client {
	l.t.Helper()
	c, err := client.New(client.Config{URL: l.http.URL, Credential: credential})
	must(l.t, err)
	return c
}

// advance lets the server do what waits.
func (l *lab) advance() {
	l.t.Helper()
	must(l.t, l.server.Advance(l.t.Context()))
}

// rest lets time pass in which the server runs and nobody asks it anything.
func (l *lab) rest(d time.Duration) {
	l.t.Helper()
	l.clock.advance(ledger.HeadsWithin * time.Second)
	l.advance()
	l.clock.advance(d - ledger.HeadsWithin*time.Second)
}

// node is a machine that joined.
type node struct {
	lab        *lab
	id         string
	credential string
	session    *agent.Session
	device     agent.Device
	gpus       []agent.GPUs // none on most machines
}

// join lets a machine with a chip in; change makes its platform another one.
func (l *lab) join(chip string, change ...func(*mint.Platform)) *node {
	l.t.Helper()
	n, err := joinAt(l.t.Context(), l.http.URL, l.admin, machine(l.amd, chip, change...), l.clock.Now())
	must(l.t, err)
	n.lab = l
	return n
}

func machine(amd *mint.AMD, chip string, change ...func(*mint.Platform)) device.TSM {
	p := amd.Platform(amd.Chip(chip), worldTCB, worldGuest, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
	for _, f := range change {
		f(p)
	}
	return device.NewTSM(faketsm.New(p).Client())
}

func joinAt(ctx context.Context, url, admin string, dev agent.Device, now time.Time) (*node, error) {
	operator, err := client.New(client.Config{URL: url, Credential: admin})
	if err != nil {
		return nil, err
	}
	issued, err := operator.NewJoinToken(ctx)
	if err != nil {
		return nil, err
	}
	token, err := client.ParseToken(issued.Token)
	if err != nil {
		return nil, err
	}
	nobody, err := client.New(client.Config{URL: url})
	if err != nil {
		return nil, err
	}
	joined, err := nobody.Join(ctx, token)
	if err != nil {
		return nil, err
	}
	session, err := agent.NewSession(rand.Reader, "boot-1", now)
	if err != nil {
		return nil, err
	}
	return &node{id: joined.Node, credential: joined.Credential, session: session, device: dev}, nil
}

func (n *node) client() *client.Client { return n.lab.client(n.credential) }

func (n *node) challenge() client.Challenged {
	n.lab.t.Helper()
	ch, err := n.client().Challenge(n.lab.t.Context(), nil)
	must(n.lab.t, err)
	return ch
}

// bundle makes the evidence that answers a challenge.
func (n *node) bundle(ch client.Challenged) ([]byte, error) {
	b, err := agent.Collect([]agent.Device{n.device}, n.session.Keys(), ch.Challenge.Digest(), attest.Statement{
		Type: attest.StatementType, Agent: worldAgent, BootID: "boot-1", Checkpoint: ch.Checkpoint,
	}, n.gpus...)
	if err != nil {
		return nil, err
	}
	env, err := attest.SealBundle(b, n.session)
	if err != nil {
		return nil, err
	}
	return canon.Marshal(env)
}

func (n *node) evidence(ch client.Challenged) []byte {
	n.lab.t.Helper()
	data, err := n.bundle(ch)
	must(n.lab.t, err)
	return data
}

func (n *node) submit(data []byte) client.Submitted {
	n.lab.t.Helper()
	s, err := n.client().Submit(n.lab.t.Context(), data)
	must(n.lab.t, err)
	return s
}

// prove takes one round from challenge to verdict.
func (n *node) prove() (client.Decision, canon.Digest) {
	n.lab.t.Helper()
	s := n.submit(n.evidence(n.challenge()))
	n.lab.advance()
	return n.decision(s.Evidence), s.Evidence
}

func (n *node) decision(evidence canon.Digest) client.Decision {
	n.lab.t.Helper()
	r, err := n.client().Result(n.lab.t.Context(), evidence)
	must(n.lab.t, err)
	d, err := r.Decision(evidence, n.lab.server.Keyset())
	must(n.lab.t, err)
	return d
}

// entries counts the log's entries.
func (l *lab) entries() int {
	l.t.Helper()
	n := 0
	c := l.client(l.admin)
	for {
		page, err := c.Entries(l.t.Context(), int64(n))
		must(l.t, err)
		if len(page.Entries) == 0 {
			return n
		}
		n += len(page.Entries)
	}
}

// audited exports the log and recomputes all of it, as an auditor does who trusts its keys and holds these promises.
func (l *lab) audited(submitted ...client.Submitted) {
	l.t.Helper()
	l.advance()
	auditLog(l.t, l.server, submitted)
}

func auditLog(t *testing.T, s *server.Server, submitted []client.Submitted) {
	t.Helper()
	auditLogBy(t, s, s.Keyset(), submitted)
}

// auditLogBy is auditLog by the trust file of another moment.
func auditLogBy(t *testing.T, s *server.Server, keys ledger.Keyset, submitted []client.Submitted) {
	t.Helper()
	var o audit.Options
	for _, sub := range submitted {
		data, err := canon.Marshal(sub.Promise)
		must(t, err)
		o.Promises = append(o.Promises, audit.GivenPromise{Name: sub.Evidence.Short(), Data: data})
	}
	var file bytes.Buffer
	must(t, audit.Export(t.Context(), s.Source(), &file))
	report, err := audit.ReplayFile(t.Context(), bytes.NewReader(file.Bytes()), int64(file.Len()), &audit.Trust{Type: audit.TrustType, Keyset: keys}, o)
	must(t, err)
	if report.Outcome != audit.Equal {
		t.Errorf("audit: %s\n%s", report.Outcome, report.Text())
	}
}

// refused asserts a refusal and its code.
func refused(t *testing.T, err error, status int, code string) *client.Problem {
	t.Helper()
	p := client.AsProblem(err)
	if p == nil || p.Status != status || p.Code != code {
		t.Fatalf("got %v, want a refusal %d %s", err, status, code)
	}
	return p
}

// send sends one raw request.
func (l *lab) send(method, path, credential, contentType string, body []byte) (*http.Response, []byte) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.http.URL+path, bytes.NewReader(body))
	must(l.t, err)
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	must(l.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(l.t, err)
	return resp, data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
