package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/module"
)

// Where the operator gives the rules of this build as a WASI module, the log keeps it and every result names it, so that
// a later build can ask the very engine that decided. This server decides by its own code, and the module says the same:
// it must be of the same rules and the same version of Go, and it is tried once at every start.

// engineModule is the module of this build's rules.
type engineModule struct {
	digest canon.Digest
	data   []byte
	about  engine.Description
}

// openEngine reads the module that the settings name, and refuses one of another build. Without one, results name none.
func (s *Server) openEngine(ctx context.Context) error {
	if s.settings.Engine == "" {
		return nil
	}
	data, err := files.Bounded(s.settings.Engine, module.MaxModule)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	s.log.Info("compiling and trying the engine module, which takes a while", "file", s.settings.Engine)
	m := engineModule{digest: canon.Sum(data), data: data}
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	blobs := map[canon.Digest][]byte{m.digest: data}
	get := func(_ context.Context, d canon.Digest) ([]byte, error) {
		if b, ok := blobs[d]; ok {
			return b, nil
		}
		return nil, fmt.Errorf("no blob %s", d)
	}
	if m.about, err = r.Describe(ctx, m.digest, get); err != nil {
		return fmt.Errorf("engine: %s: %w", s.settings.Engine, err)
	}
	if !m.about.ByRules(verifier.Rooms(), policy.Rules) {
		return fmt.Errorf("engine: %s is of another build: its rules are %v, those of this server %v", s.settings.Engine, m.about.Rules, engine.Rules())
	}
	if m.about.Go != runtime.Version() {
		return fmt.Errorf("engine: %s is compiled by %s, this server by %s", s.settings.Engine, m.about.Go, runtime.Version())
	}
	record := m.about.Record(m.digest, s.origin)
	if err := record.Validate(); err != nil {
		return fmt.Errorf("engine: %s: %w", s.settings.Engine, err)
	}
	if err := s.tryEngine(ctx, r, m.digest, blobs, get); err != nil {
		return fmt.Errorf("engine: %s: %w", s.settings.Engine, err)
	}
	s.engine = &m
	s.build.Engine = m.digest
	return nil
}

// tryEngine has the module judge what is no evidence, by the settings of this server, and compares it with what this build
// says.
func (s *Server) tryEngine(ctx context.Context, r *module.Runner, digest canon.Digest, blobs map[canon.Digest][]byte, get engine.Blobs) error {
	put := func(b []byte) canon.Digest {
		d := canon.Sum(b)
		blobs[d] = b
		return d
	}
	evidence, now := []byte("{}"), s.time()
	o, err := verifier.Open(verifier.TypeBundle, evidence)
	if err != nil {
		return err
	}
	appraisal := verifier.Appraise(o, attest.Case{Roots: s.given.roots, At: now})
	want, err := appraisal.Canonical()
	if err != nil {
		return err
	}
	verdict, err := canon.Marshal(policy.Decide(appraisal.Claims, s.given.policy, now))
	if err != nil {
		return err
	}
	put(evidence)
	put(s.given.roots.Marshal())
	got, err := r.Run(ctx, digest, engine.Job{Appraise: &engine.Appraise{EvidenceType: verifier.TypeBundle, Inputs: appraisal.Inputs, AsOf: now}}, get)
	if err != nil {
		return err
	}
	decided, err := r.Run(ctx, digest, engine.Job{Decide: &engine.Decide{Appraisal: put(want), Policy: put(s.given.policy.Canonical()), AsOf: now}}, get)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) || !bytes.Equal(decided, verdict) {
		return errors.New("judges otherwise than this server")
	}
	return nil
}

// engines returns the engines that the log has entries of, in its order.
func (s *Server) engines(ctx context.Context) (client.Engines, error) {
	s.logged.mu.Lock()
	defer s.logged.mu.Unlock()
	err := s.store.enginesAfter(ctx, &s.logged)
	return client.Engines{Engines: append([]client.Engine{}, s.logged.engines...)}, err
}

// loggedEngines is what the log said of its engines up to one place of the server's stream.
type loggedEngines struct {
	mu      sync.Mutex
	engines []client.Engine
	next    int64 // sequence from which on the server's stream was not looked at
}

// enginesAfter reads on.
func (s *Store) enginesAfter(ctx context.Context, known *loggedEngines) error {
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT sequence, body FROM entry WHERE stream = $1 AND sequence >= $2 AND kind = $3 ORDER BY sequence`,
		ledger.StreamServer, known.next, ledger.KindEngine)
	if err != nil {
		return fmt.Errorf("read engines: %w", err)
	}
	defer rows.Close()
	type place struct {
		sequence int64
		body     canon.Digest
	}
	var found []place
	for rows.Next() {
		var p place
		var body []byte
		if err := rows.Scan(&p.sequence, &body); err != nil {
			return fmt.Errorf("read engines: %w", err)
		}
		p.body = canon.Digest(body)
		found = append(found, p)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("read engines: %w", err)
	}
	for _, p := range found {
		data, err := s.Blob(ctx, p.body)
		if err != nil {
			return err
		}
		e, err := ledger.ParseEngine(data)
		if err != nil {
			return fmt.Errorf("damaged database: engine %s: %w", p.body, err)
		}
		known.engines, known.next = append(known.engines, client.Engine{Module: e.Module, Version: e.Version, Go: e.Go}), p.sequence+1
	}
	return nil
}
