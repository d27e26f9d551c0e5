// Package server is the process: it hands out challenges, takes evidence, lets the rule rooms judge it, and publishes
// all of it in a transparency log. It decides nothing itself; a file here may load, apply, save and answer.
//
// One file for each noun: settings, keys, secrets, nodes, challenges, evidence (the door), appraiser, results, attestation
// results (ear) and their keys, heads of streams, logs and their closing, metrics. Private keys are in package keyring. The
// store keeps all state in one database, and whatever belongs together commits together:
//
//   - A promise is given only when the evidence, the end of its challenge and its entry are committed.
//   - A verdict, the appraisal under it, their entries and the state of the submission commit as one, once.
//
// So there is no recovery: a process that is killed at any point leaves submissions that are promised and not decided,
// and whoever runs next takes them up. Several processes may share one PostgreSQL database and one set of keys.
//
// The interface is /v1, described by /openapi.json; package client says its shapes. Time is the server's clock in whole
// seconds; no request sets it.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server/keyring"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/collateral"
)

// Deps is what a server takes from the world.
type Deps struct {
	Now    func() time.Time
	Random io.Reader // keys, secrets, nonces, salts; may be read by one goroutine at a time
	Log    *slog.Logger
	Sleep  func(context.Context, time.Duration) error // between requests to vendors; nil: by the machine's clock
	Getenv func(string) string                        // where passphrases of keys may be, see package keyring; nil: nowhere
}

// Server is one process of a verifier. Its methods may be called concurrently.
type Server struct {
	settings Settings
	given    given
	now      func() time.Time
	random   io.Reader
	log      *slog.Logger

	listener net.Listener // nil: the caller serves the handler
	scrapes  net.Listener // nil: nobody asks for metrics, or the caller serves them
	origin   string
	store    *Store
	ring     *keyring.Ring        // private keys
	keys     atomic.Pointer[keys] // of the log, as this process saw them last
	entered  atomic.Int64         // number of the log that has what this process was given
	lacking  sync.Map             // ids of keys that this process lacks and has raised an alarm for
	build    policy.Build
	memory   *attest.Memory
	handler  http.Handler
	metrics  *metrics
	engine   *engineModule // nil: results name none
	logged   loggedEngines
	fetcher  *collateral.Fetcher // nil: nothing is fetched
	heads    headsCache
	headsAt  atomic.Int64 // when this process last saw that no heads entry is overdue

	witnesses *Witnesses  // nil: nobody is asked to cosign
	stall     atomic.Bool // the last try to publish found no quorum
	away      atomic.Bool // the database was not available, which was told

	roomMu sync.Mutex // guards room
	room   room

	turns    turns
	mirror   *Mirror       // nil: none, or another process writes it
	newAdmin string        // admin token that this start made, or empty
	taken    chan struct{} // holds one signal that evidence was taken
	looks    chan struct{} // holds one signal for each anonymous appraisal under way
	logins   chan struct{} // holds one signal for each ID token that is being judged
	issuers  *issuers      // of ID tokens

	appraise func(*verifier.Opened, attest.Case) verifier.Appraisal // verifier.Appraise, but in tests of its failure
}

// New opens the data folder, makes what a first start makes (keys, the log's first entries, the admin token), and logs
// what the settings changed. It publishes the log where that is its role, so that the first challenge can name a
// checkpoint. Close ends it.
func New(ctx context.Context, settings Settings, deps Deps) (_ *Server, err error) {
	if err := settings.complete(); err != nil {
		return nil, err
	}
	s := &Server{settings: settings, now: deps.Now, random: &oneAtATime{r: deps.Random}, log: deps.Log, memory: attest.NewMemory(),
		taken: make(chan struct{}, 1), looks: make(chan struct{}, MaxVerifyAtOnce), logins: make(chan struct{}, MaxLoginsAtOnce), issuers: newIssuers(deps.Now),
		appraise: verifier.Appraise}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.given, err = settings.read(); err != nil {
		return nil, err
	}
	if s.build, err = ThisBuild(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(settings.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if settings.Listen != "" {
		if s.listener, err = net.Listen("tcp", settings.Listen); err != nil {
			return nil, err
		}
	}
	if settings.MetricsListen != "" {
		if s.scrapes, err = net.Listen("tcp", settings.MetricsListen); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	s.metrics = newMetrics(s)
	if s.origin, err = settings.origin(s.listener); err != nil {
		return nil, err
	}
	if s.store, err = OpenStore(ctx, settings.Database, s.random); err != nil {
		return nil, err
	}
	if err := s.openFetcher(deps.Sleep); err != nil {
		return nil, err
	}
	if err := s.openEngine(ctx); err != nil {
		return nil, err
	}
	if err := s.openRing(deps.Getenv); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if err := s.openWitnesses(); err != nil {
		return nil, err
	}
	if err := s.openMirror(); errors.Is(err, errMirrorHeld) {
		s.log.Info("the mirror is another process's; this one takes it over when that one ends", "mirror", settings.Mirror)
	} else if err != nil {
		return nil, err
	}
	s.handler = s.routes()
	if err := s.takeTurns(ctx); err != nil {
		return nil, err
	}
	if err := s.publish(ctx); err != nil && !lacksQuorum(err) {
		return nil, err
	}
	return s, s.updateMirror(ctx)
}

// Handler returns the HTTP interface.
func (s *Server) Handler() http.Handler { return s.handler }

// Origin returns the origin that agents use and evidence names.
func (s *Server) Origin() string { return s.origin }

// Addr returns the address that is listened on, or nil.
func (s *Server) Addr() net.Addr { return addr(s.listener) }

// MetricsAddr returns the address that metrics are served on, or nil.
func (s *Server) MetricsAddr() net.Addr { return addr(s.scrapes) }

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// NewAdminToken returns the admin token that this start made, or nothing. It is kept nowhere: who loses it makes
// another with [Settings.Renew].
func (s *Server) NewAdminToken() string { return s.newAdmin }

// Witnesses returns the names of those who are asked to cosign, as the policy has them.
func (s *Server) Witnesses() []string {
	if s.witnesses == nil {
		return nil
	}
	var names []string
	for _, w := range s.witnesses.policy.Witnesses() {
		names = append(names, w.Name)
	}
	return names
}

// VendorRoots reports whether evidence is judged under the vendors' pinned roots.
func (s *Server) VendorRoots() bool { return s.given.roots.Digest() == verifier.VendorRoots().Digest() }

// Policy names the policy that judges.
func (s *Server) Policy() policy.Named {
	return policy.Named{Name: s.given.policy.Name(), Digest: s.given.policy.Digest()}
}

// PolicyFrom says in words whose the policy is: built in, not signed, or signed by a key.
func (s *Server) PolicyFrom() string { return s.given.policyFrom }

// Source returns the newest log with all blobs: for an operator on this machine, not for callers. See [Store.Source].
func (s *Server) Source() ledger.Source { return s.store.Source() }

// Close closes the listener and the database.
func (s *Server) Close() error {
	err := closeListeners(s.listener, s.scrapes)
	if s.witnesses != nil {
		s.witnesses.Close()
	}
	if s.mirror != nil {
		err = errors.Join(err, s.mirror.Close())
	}
	if s.store != nil {
		last, stop := context.WithTimeout(context.Background(), StopTimeout)
		defer stop()
		err = errors.Join(err, s.endTurns(last), s.store.Close())
	}
	if s.ring != nil {
		err = errors.Join(err, s.ring.Close())
	}
	return err
}

func closeListeners(listeners ...net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run does what the roles of this process are until the context ends: it listens, appraises, publishes. Then it lets open
// requests end, publishes once more and returns nil. Another error means that the server cannot go on.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	loops.Go(func() { s.leaseLoop(ctx) })
	if s.runs(RoleClock) {
		loops.Go(func() { s.appraiseLoop(ctx) })
		loops.Go(func() { s.everyInterval(ctx, "benchmarks failed", s.benchmarksDue) })
	}
	if s.runs(RolePublish) {
		loops.Go(func() { s.everyInterval(ctx, "publishing failed", s.publish) })
		loops.Go(func() { s.everyInterval(ctx, "filtering runs of entries failed", s.filterRuns) })
	}
	if s.settings.Mirror != "" {
		loops.Go(func() { s.everyInterval(ctx, "mirroring failed", s.updateMirror) })
	}
	loops.Go(func() { s.collectLoop(ctx) })
	var scrapeErr error
	loops.Go(func() {
		defer cancel()
		scrapes := http.NewServeMux()
		scrapes.Handle("GET /metrics", s.Metrics())
		scrapeErr = serveHTTP(ctx, s.log, s.scrapes, scrapes, nil)
	})
	err := serveHTTP(ctx, s.log, s.listener, s.handler, s.given.tls)
	cancel()
	loops.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer stop()
	lastErr := s.publish(last)
	if lacksQuorum(lastErr) {
		lastErr = nil // the next start publishes
	}
	return errors.Join(err, scrapeErr, lastErr, s.updateMirror(last))
}

// serveHTTP answers requests until the context ends; by TLS where there is a certificate. Without a listener it waits.
func serveHTTP(ctx context.Context, log *slog.Logger, listener net.Listener, handler http.Handler, certificates []tls.Certificate) error {
	if listener == nil {
		<-ctx.Done()
		return nil
	}
	h := &http.Server{
		Handler: handler, ReadHeaderTimeout: HeaderTimeout, ReadTimeout: RequestTimeout, WriteTimeout: 2 * RequestTimeout,
		IdleTimeout: IdleTimeout, MaxHeaderBytes: MaxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificates},
	}
	ended := make(chan error, 1)
	go func() {
		if len(certificates) > 0 {
			ended <- h.ServeTLS(listener, "", "")
			return
		}
		ended <- h.Serve(listener)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer stop()
	if err := h.Shutdown(last); err != nil {
		log.Warn("requests were cut off", "error", err)
		return h.Close()
	}
	return nil
}

// Advance does once what Run does all the time: takes the roles that are free, appraises what is due, makes the events that are due and publishes. It is
// for callers that serve the handler themselves and want to know when it is done.
func (s *Server) Advance(ctx context.Context) error {
	return errors.Join(s.takeTurns(ctx), s.appraiseDue(ctx), s.benchmarksDue(ctx), s.vetDue(ctx), s.publish(ctx), s.filterRuns(ctx), s.updateMirror(ctx))
}

// everyInterval does one thing until the context ends. A failure is an alarm and not an end: promises wait.
func (s *Server) everyInterval(ctx context.Context, failed string, do func(context.Context) error) {
	tick := time.NewTicker(s.settings.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := do(ctx); err != nil && !lacksQuorum(err) && ctx.Err() == nil {
			s.failed(failed, err)
		}
	}
}

// openMirror opens the mirror, where there is one and this process has not opened it.
func (s *Server) openMirror() (err error) {
	if s.settings.Mirror != "" && s.mirror == nil {
		s.mirror, err = OpenMirror(s.settings.Mirror)
	}
	return err
}

// updateMirror writes what is published to the mirror, where there is one and no other process does.
func (s *Server) updateMirror(ctx context.Context) error {
	if err := s.openMirror(); errors.Is(err, errMirrorHeld) {
		return nil
	} else if err != nil {
		return err
	}
	if s.mirror == nil {
		return nil
	}
	keysets, err := s.keysets(ctx)
	if err != nil {
		return err
	}
	engines, err := s.engines(ctx)
	if err != nil {
		return err
	}
	said := map[string][]byte{}
	for name, answer := range map[string]any{client.SaidKeysets: keysets, client.SaidEngines: engines} {
		if said[name], err = canon.Marshal(answer); err != nil {
			return err
		}
	}
	logs, err := s.store.Sources(ctx)
	if err != nil {
		return err
	}
	_, err = s.mirror.Update(ctx, said, logs...)
	return err
}

// filterRuns keeps look-ups by digest fast. One of several processes does it.
func (s *Server) filterRuns(ctx context.Context) error {
	return s.inTurn(ctx, RolePublish, s.store.FilterRuns)
}

// publish closes the open log if that is due, brings all entries that wait into the tree, and signs it, where that is this
// process's turn.
func (s *Server) publish(ctx context.Context) error {
	if _, ours := s.turns.of(RolePublish); !ours {
		s.stall.Store(false) // is for the one to tell whose turn it is
	}
	return s.inTurn(ctx, RolePublish, func(ctx context.Context) error {
		if _, err := s.store.AppendHeads(ctx, s.time()); err != nil {
			return err
		}
		if err := s.closeIfDue(ctx); err != nil {
			return err
		}
		if err := s.integrateAll(ctx); err != nil {
			return err
		}
		err := s.publishLogs(ctx)
		s.noteStall(err)
		return err
	})
}

// integrateAll brings all entries that wait into the tree.
func (s *Server) integrateAll(ctx context.Context) error {
	for {
		if n, err := s.store.Integrate(ctx, integrateBatch); err != nil || n < integrateBatch {
			return err
		}
	}
}

// publishLogs publishes each log, the oldest first: nothing of a log is published before the end of the one before it.
func (s *Server) publishLogs(ctx context.Context) error {
	logs, err := s.store.Logs(ctx)
	if err != nil {
		return err
	}
	for _, log := range logs {
		if log.Closed {
			whole, err := log.isPublished(ctx)
			if err != nil {
				return err
			}
			if whole {
				continue
			}
		}
		signers, err := s.noteSigners(ctx, log)
		if err != nil {
			return err
		}
		if _, err := log.Publish(ctx, signers[0], s.time(), s.witnesses, signers[1:]...); err != nil {
			return err
		}
		if log.Closed {
			s.store.testingOnlyStep("last checkpoint")
		}
	}
	return nil
}

// alarm tells of a fault of ours that somebody has to look at.
func (s *Server) alarm(what string, args ...any) {
	s.metrics.alarms.Inc()
	s.log.Error(what, append([]any{"alarm", true}, args...)...)
}

// failed is alarm for what may have failed because the database is not available. That is an alarm once, whatever fails
// of it, until it is available again.
func (s *Server) failed(what string, err error, args ...any) {
	args = append(args, "error", err)
	switch {
	case !sqldb.Unavailable(err):
		s.alarm(what, args...)
	case s.away.CompareAndSwap(false, true):
		s.alarm("the database is not available", args...)
	default:
		s.log.Debug("the database is still not available", args...)
	}
}

// noteBack tells that the database is available again.
func (s *Server) noteBack(ctx context.Context) {
	if !s.away.Load() {
		return
	}
	if _, err := s.store.Progress(ctx); err == nil && s.away.CompareAndSwap(true, false) {
		s.log.Info("the database is available again")
	}
}

// time returns the server's clock in whole seconds.
func (s *Server) time() canon.Time { return canon.At(s.now()) }

// timeAfter returns the server's clock for what rests on something of a logged time, which it may not precede: another
// process's clock may be ahead of ours by a little, and then what the log says counts. Where it is further ahead, one of
// the two is wrong, and timeAfter returns false.
func (s *Server) timeAfter(logged canon.Time) (canon.Time, bool) {
	now := s.time()
	if logged-now > seconds(MaxBehind) {
		s.alarm("a clock is wrong", "now", now, "logged", logged)
		return now, false
	}
	return max(now, logged), true
}

// draw returns n random bytes.
func (s *Server) draw(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.random, b); err != nil {
		return nil, fmt.Errorf("draw randomness: %w", err)
	}
	return b, nil
}

// oneAtATime lets several goroutines read a source of randomness.
type oneAtATime struct {
	mu sync.Mutex
	r  io.Reader
}

func (o *oneAtATime) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.r.Read(b)
}

// ThisBuild names the running executable.
func ThisBuild() (policy.Build, error) {
	path, err := os.Executable()
	if err != nil {
		return policy.Build{}, fmt.Errorf("name this build: %w", err)
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return policy.Build{}, fmt.Errorf("name this build: %w", err)
	}
	defer f.Close()
	digest, err := digestOf(f)
	if err != nil {
		return policy.Build{}, fmt.Errorf("name this build: %w", err)
	}
	return policy.Build{Digest: digest, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}, nil
}
