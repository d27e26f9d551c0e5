package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// result says what became of evidence. Evidence of another node is not there.
func (s *Server) result(ctx context.Context, who caller, evidence canon.Digest) (client.Result, error) {
	var node, state string
	var appraisal, verdict canon.Digest
	err := s.store.db.Reader().QueryRowContext(ctx, `SELECT node, state, appraisal, result FROM submission WHERE evidence = $1`, evidence[:]).Scan(&node, &state, &appraisal, &verdict)
	if errors.Is(err, sql.ErrNoRows) || err == nil && who.use == useNode && who.node != node {
		return client.Result{}, refuse(codeNotFound, "no such evidence")
	}
	if err != nil {
		return client.Result{}, fmt.Errorf("read a submission: %w", err)
	}
	r := client.Result{State: state}
	bodies := []canon.Digest{evidence}
	if state == client.StateDecided {
		bodies = append(bodies, appraisal, verdict)
		if r.Appraisal, err = s.store.Blob(ctx, bodies[1]); err != nil {
			return client.Result{}, err
		}
		text, err := s.store.Blob(ctx, bodies[2])
		if err != nil {
			return client.Result{}, err
		}
		env, err := ledger.ParseEnvelope(text)
		if err != nil {
			return client.Result{}, fmt.Errorf("damaged database: %w", err)
		}
		r.Result = &env
	}
	for _, body := range bodies {
		found, err := s.store.EntriesOf(ctx, body, 1)
		if err != nil {
			return client.Result{}, err
		}
		entries, err := s.open(ctx, found)
		if err != nil {
			return client.Result{}, err
		}
		r.Entries = append(r.Entries, entries...)
	}
	return r, nil
}

// open returns entries as callers see them.
func (s *Server) open(ctx context.Context, records []Record) ([]client.LogEntry, error) {
	out := []client.LogEntry{}
	for _, r := range records {
		log, err := s.store.numbered(ctx, r.Log)
		if err != nil {
			return nil, err
		}
		out = append(out, client.LogEntry{Log: log.Origin, Index: r.Index, Kind: r.Kind, Opening: r.Opening})
	}
	return out, nil
}

// health says how far publishing is behind. An old checkpoint is no fault while nothing waits for a newer one.
func (s *Server) health(ctx context.Context) (client.Health, error) {
	b, err := s.backlog(ctx)
	if err != nil {
		return client.Health{}, err
	}
	h := client.Health{Status: "ok", Size: b.progress.Entries, Waiting: b.progress.Entries - b.progress.Published, WaitingAge: int64(b.waited),
		Roles: s.settings.Roles, Turns: s.turns.roles()}
	log, err := s.store.Newest(ctx)
	if err != nil {
		return client.Health{}, err
	}
	switch published, err := log.Published(ctx); {
	case err == nil:
		h.PublishedAge = max(0, int64(s.time()-published.Time))
	case errors.Is(err, fs.ErrNotExist):
		h.PublishedAge = h.WaitingAge
	default:
		return client.Health{}, err
	}
	switch {
	case s.stall.Load():
		h.Status = fmt.Sprintf("stalled: too few witnesses cosign; %d entries wait to be published, the oldest for %d s", h.Waiting, h.WaitingAge)
	case b.late():
		h.Status = fmt.Sprintf("%d entries wait to be published, the oldest for %d s", h.Waiting, h.WaitingAge)
	}
	return h, nil
}

// look is what a stranger may say of evidence that he shows.
type look struct {
	typ        string
	policy     string
	nonce      string
	reportData string
}

// looked is the answer to an anonymous appraisal.
type looked struct {
	Appraisal verifier.Appraisal `json:"appraisal"`
	Verdict   policy.Verdict     `json:"verdict"`
}

// verify judges evidence that a stranger shows, with the server's roots, collateral and reference values, and what the
// stranger says he expects. It stores nothing and fetches nothing.
func (s *Server) verify(l look, data []byte) (answer looked, err error) {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	default:
		p := refuse(codeBusy, "%d appraisals are under way", MaxVerifyAtOnce)
		p.retry = time.Second
		return looked{}, p
	}
	by := s.given.policy
	if l.policy != "" {
		named, ok := policy.Builtin(l.policy)
		if !ok {
			return looked{}, refuse(codeMalformed, "policy %.80q is not built in: want one of %q", l.policy, policy.Builtins())
		}
		by = named
	}
	c := s.newCase(s.time())
	defer func() {
		if fault := recover(); fault != nil {
			s.roomFailed(canon.Sum(data), fault)
			answer.Appraisal, answer.Verdict = failed(canon.Sum(data), c.At, by)
		}
	}()
	e := &c.Expect
	for _, hex := range []struct {
		name, text string
		into       *canon.Hex
	}{{"nonce", l.nonce, &e.Nonce}, {"report_data", l.reportData, &e.ReportData}} {
		if hex.text == "" {
			continue
		}
		if err := hex.into.UnmarshalText([]byte(hex.text)); err != nil {
			return looked{}, refuse(codeMalformed, "%s: %v", hex.name, err)
		}
	}
	if err := e.Check(); err != nil {
		return looked{}, refuse(codeMalformed, "%v", err)
	}
	o, err := verifier.Open(l.typ, data)
	if err != nil {
		return looked{}, refuse(codeMalformed, "%v", err)
	}
	answer.Appraisal = s.appraise(o, c)
	answer.Verdict = policy.Decide(answer.Appraisal.Claims, by, c.At)
	return answer, nil
}
