package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// appraiseLoop decides what was taken until the context ends. It looks at once when this process took something, and
// from time to time for what another one did.
func (s *Server) appraiseLoop(ctx context.Context) {
	tick := time.NewTicker(appraiserPoll)
	defer tick.Stop()
	for {
		if err := s.appraiseDue(ctx); err != nil && ctx.Err() == nil {
			s.failed("appraising failed", err)
		}
		if err := s.vetDue(ctx); err != nil && ctx.Err() == nil {
			s.failed("vetting failed", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.taken:
		case <-tick.C:
		}
	}
}

// appraiseDue decides every submission that is due, where that is this process's turn.
func (s *Server) appraiseDue(ctx context.Context) error {
	return s.inTurn(ctx, RoleClock, s.appraiseAll)
}

// appraiseAll decides every submission that is due. One that cannot be stored is put off, and the others go on.
func (s *Server) appraiseAll(ctx context.Context) error {
	for {
		due, err := s.due(ctx)
		if err != nil || len(due) == 0 {
			return err
		}
		if err := s.headsFirst(ctx); err != nil { // what is given and fetched is logged
			return err
		}
		if err := s.enterLog(ctx); err != nil {
			return err
		}
		got, err := s.fetchFor(ctx, due)
		if err != nil {
			return err
		}
		for _, evidence := range due {
			if wait := got[evidence].wait; wait != 0 {
				if err := s.putOff(ctx, evidence, wait); err != nil {
					return err
				}
				continue
			}
			if err := s.headsFirst(ctx); err != nil {
				return err
			}
			err := s.decide(ctx, evidence, got[evidence])
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, ErrNotHeld), sqldb.Unavailable(err):
				return err
			case errors.Is(err, sqldb.ErrExists):
				// Another process enrolled one of its devices meanwhile. It is still due, and is judged with that known.
			case err != nil:
				s.alarm("appraisal put off", "evidence", evidence.String(), "error", err)
				if err := s.putOff(ctx, evidence, s.time()+seconds(RetryAppraisal)); err != nil {
					return err
				}
			}
		}
	}
}

func (s *Server) due(ctx context.Context) ([]canon.Digest, error) {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT evidence FROM submission WHERE due <= $1 ORDER BY due, evidence LIMIT $2`,
		int64(s.time()), appraiserBatch)
	if err != nil {
		return nil, fmt.Errorf("look for submissions: %w", err)
	}
	defer rows.Close()
	var out []canon.Digest
	for rows.Next() {
		var d canon.Digest
		if err := rows.Scan(&d); err != nil {
			return nil, fmt.Errorf("look for submissions: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

func (s *Server) putOff(ctx context.Context, evidence canon.Digest, due canon.Time) error {
	return s.store.Tx(ctx, func(tx *Tx) error {
		_, err := tx.SQL.ExecContext(ctx, `UPDATE submission SET due = $1 WHERE evidence = $2 AND state = 'received'`,
			int64(due), evidence[:])
		return err
	})
}

// takenEvidence is a submission that waits for its verdict.
type takenEvidence struct {
	digest    canon.Digest
	data      []byte
	node      string
	received  canon.Time
	challenge attest.Challenge
}

func (s *Server) loadTaken(ctx context.Context, evidence canon.Digest) (t takenEvidence, err error) {
	t.digest = evidence
	var body canon.Digest
	err = s.store.db.Reader().QueryRowContext(ctx, `SELECT submission.node, submission.received, challenge.body FROM submission JOIN challenge ON challenge.id = submission.challenge
		WHERE evidence = $1`, evidence[:]).Scan(&t.node, (*int64)(&t.received), &body)
	if err != nil {
		return t, fmt.Errorf("read a submission: %w", err)
	}
	if t.data, err = s.store.Blob(ctx, evidence); err != nil {
		return t, err
	}
	document, err := s.store.Blob(ctx, body)
	if err != nil {
		return t, err
	}
	return t, canon.Unmarshal(document, &t.challenge)
}

// judgement is what the rule rooms said of a submission, ready to be stored.
type judgement struct {
	expect    []byte
	appraisal []byte
	claims    claim.Set         // of the appraisal; nil: a rule room failed, and the verdict is what is said of that
	verdict   policy.Verdict    // made when it is stored, from the claims and what is known of the party then
	proven    []attest.Identity // devices whose identity the evidence proves
	enrol     []attest.Identity // what the node is enrolled with, where this is its first evidence and it is accepted
	clocks    []attest.TPMClock // that the evidence proves
	shown     []ledger.Device   // that the node has, as far as this evidence goes
}

// decide appraises one submission and commits the result, unless another process has done so.
func (s *Server) decide(ctx context.Context, evidence canon.Digest, got fetched) error {
	t, err := s.loadTaken(ctx, evidence)
	if err != nil {
		return err
	}
	begin := s.now()
	now, ok := s.timeAfter(t.received)
	if !ok {
		return fmt.Errorf("the evidence is of %s, by this server's clock it is %s", t.received, now)
	}
	j, err := s.judge(ctx, t, got, now)
	if err != nil {
		return err
	}
	took := s.now().Sub(begin)
	key, err := s.signer(ctx, ledger.UseResult, now)
	if err != nil {
		return err
	}
	done := false
	err = s.store.Tx(ctx, func(tx *Tx) error {
		done, err = s.conclude(ctx, tx, t, &j, key, now)
		return err
	})
	s.store.testingOnlyStep("decided")
	if err == nil && done {
		s.metrics.decided(j.verdict.Outcome.String(), took)
		s.log.Info("verdict", "verdict", j.verdict.Outcome.String(), "node", t.node, "evidence", evidence.Short(), "policy", j.verdict.Policy.Name)
	}
	return err
}

// judge runs the two pure functions over the submission and what this server knows itself. A rule room that fails is our
// fault and never the provider's: the verdict is then undecided, reason internal, and the evidence stays in the store for
// us to look at.
func (s *Server) judge(ctx context.Context, t takenEvidence, got fetched, now canon.Time) (j judgement, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.roomFailed(t.digest, fault)
			appraisal, verdict := failed(t.digest, now, s.given.policy)
			j = judgement{verdict: verdict}
			j.appraisal, err = appraisal.Canonical()
		}
	}()
	o, err := verifier.Open(verifier.TypeBundle, t.data)
	if err != nil {
		return j, err
	}
	c := s.newCase(now)
	for _, i := range got.items {
		c.Collateral = with(c.Collateral, i.Given())
	}
	if c.Collateral, err = s.withNewest(ctx, c.Collateral); err != nil {
		return j, err
	}
	c.Expect.Challenge = &t.challenge
	if c.Expect.Cosigned, err = s.cosigned(ctx, t.challenge.Checkpoint, now); err != nil {
		return j, err
	}
	enrolled, err := s.devices(ctx, `node = $1`, t.node)
	if err != nil {
		return j, err
	}
	for _, h := range enrolled {
		c.Expect.Enrolled = append(c.Expect.Enrolled, h.Identity)
	}
	if err := s.known(ctx, &c.Expect, t.node, t.received); err != nil {
		return j, err
	}
	shown := verifier.Identities(o, c)
	for _, id := range shown {
		holders, err := s.devices(ctx, `kind = $1 AND value = $2 AND node <> $3`, id.Kind, []byte(id.Value), t.node)
		if err != nil {
			return j, err
		}
		c.Expect.Registry = append(c.Expect.Registry, holders...)
	}
	if j.expect, err = canon.Marshal(c.Expect); err != nil {
		return j, err
	}
	appraisal := s.appraise(o, c)
	if j.appraisal, err = appraisal.Canonical(); err != nil {
		return j, err
	}
	j.claims, j.proven, j.clocks = appraisal.Claims, shown, verifier.Clocks(o, appraisal)
	j.shown = verifier.Shown(shown, appraisal.Claims)
	unique := appraisal.Claims.Find("set.device-unique", "set")
	if len(enrolled) == 0 && unique != nil && unique.Status == claim.Affirmed {
		j.enrol = shown
	}
	return j, nil
}

// newCase returns what every appraisal at a time is given.
func (s *Server) newCase(at canon.Time) attest.Case {
	return attest.Case{
		Expect:     attest.Expect{Type: attest.ExpectType, DenyListKeys: s.given.denyListKeys},
		References: s.given.references, Collateral: s.given.collateral, Roots: s.given.roots, At: at, Memory: s.memory,
	}
}

func (s *Server) roomFailed(evidence canon.Digest, fault any) {
	s.alarm("a rule room failed", "evidence", evidence.String(), "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
}

// failed returns what is said of evidence that this build failed on.
func failed(evidence canon.Digest, at canon.Time, by *policy.Policy) (verifier.Appraisal, policy.Verdict) {
	why := claim.Because(claim.Internal, "this build failed on the evidence, which is not to blame")
	a := verifier.Appraisal{
		Type: verifier.AppraisalType, Rules: []verifier.RoomRules{}, AsOf: at, Claims: claim.Set{}, Needs: []attest.Need{},
		Inputs: []verifier.Input{{Kind: verifier.InputEvidence, Digest: evidence}},
	}
	a.Claims.Unknown("bundle.structure", "node", why)
	v := policy.Verdict{
		Type: policy.VerdictType, Rules: policy.Rules, Outcome: policy.Undecided, Scope: policy.ScopeFull, AsOf: at,
		Policy: policy.Named{Name: by.Name(), Digest: by.Digest()},
		Reasons: []policy.Reason{{
			Claim: "bundle.structure", Subject: "node", Status: claim.Unknown, Observed: string(why),
			Fix: "nothing that a provider could do: the operator was alarmed and has the evidence", Who: claim.Relying,
		}},
	}
	return a, v
}

// conclude stores a judgement and its entries, and enrols devices. It reports whether it was the first to do so.
func (s *Server) conclude(ctx context.Context, tx *Tx, t takenEvidence, j *judgement, key ledger.Signer, now canon.Time) (bool, error) {
	appraisal := tx.PutBlob(j.appraisal)
	if j.expect != nil {
		tx.PutPart(appraisal, j.expect)
	}
	r := policy.Result{Type: policy.ResultType, Build: s.build, Evidence: t.digest, Appraisal: appraisal, Policy: s.given.policy.Digest()}
	var party []byte
	if j.claims != nil {
		var claims claim.Set
		var err error
		if claims, party, err = s.party(ctx, tx, t.node); err != nil {
			return false, err
		}
		if party != nil {
			r.Party = canon.Sum(party)
		}
		j.verdict = policy.Decide(slices.Concat(j.claims, claims), s.given.policy, now)
	}
	r.Verdict = j.verdict
	payload, err := canon.Marshal(r)
	if err != nil {
		return false, err
	}
	env, err := ledger.Seal(policy.ResultType, payload, key)
	if err != nil {
		return false, err
	}
	text, err := canon.Marshal(env)
	if err != nil {
		return false, err
	}
	result := tx.PutBlob(text)
	if party != nil {
		tx.PutPart(result, party)
	}
	if first, err := decideSubmission(ctx, tx.SQL, t.digest, appraisal, result, j.verdict.Outcome.String(), now); err != nil || !first {
		return false, err
	}
	if err := putClocks(ctx, tx.SQL, t.node, j.clocks, t.received); err != nil {
		return false, err
	}
	for _, d := range []Draft{
		{Kind: ledger.KindAppraisal, Body: appraisal, Refs: []canon.Digest{t.digest}},
		{Kind: ledger.KindVerdict, Body: result, Refs: []canon.Digest{appraisal, s.given.policy.Digest()}},
	} {
		d.Stream, d.Time = ledger.StreamVerifier, now
		if _, _, err := tx.Append(ctx, d); err != nil {
			return false, err
		}
	}
	if err := s.leaveDecided(ctx, tx, t, j.proven, now); err != nil {
		return false, err
	}
	if j.verdict.Outcome == policy.Accept {
		if err := s.enrol(ctx, tx, t, j.enrol, now); err != nil {
			return false, err
		}
	}
	return true, s.recordShown(ctx, tx, t, j.shown, now)
}

// leaveDecided leaves to the clock what a verdict means for certificates and devices.
func (s *Server) leaveDecided(ctx context.Context, tx *Tx, t takenEvidence, shown []attest.Identity, now canon.Time) error {
	arg, err := canon.Marshal(decidedWork{Evidence: t.digest, Devices: shown})
	if err != nil {
		return err
	}
	return addWork(ctx, tx.SQL, workDecided, t.node, string(arg), now)
}

// enrol makes a node the holder of devices. A node that was revoked meanwhile gets none; a device that was enrolled
// meanwhile for another node is [sqldb.ErrExists].
func (s *Server) enrol(ctx context.Context, tx *Tx, t takenEvidence, devices []attest.Identity, now canon.Time) error {
	if len(devices) == 0 {
		return nil
	}
	var revoked int64
	err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), t.node).Scan(&revoked)
	if errors.Is(err, sql.ErrNoRows) || err == nil && revoked != 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up node %s: %w", t.node, err)
	}
	e := ledger.Enrolment{Type: ledger.EnrolmentType, Node: t.node, Basis: ledger.BasisEvidence, Verifier: s.origin}
	for _, id := range devices {
		if err := insertDevice(ctx, tx.SQL, t.node, id, now); err != nil {
			return err
		}
		e.Devices = append(e.Devices, ledger.Device{Kind: id.Kind, Value: id.Value})
	}
	if err := errors.Join(putShown(ctx, tx.SQL, t.node, e.Devices), s.alarmShared(ctx, tx, t.node, e.Devices)); err != nil {
		return err
	}
	return logEnrolment(ctx, tx, e, now, t.digest)
}

// logEnrolment logs what a verifier says of a node, and the bodies that it rests on.
func logEnrolment(ctx context.Context, tx *Tx, e ledger.Enrolment, now canon.Time, refs ...canon.Digest) error {
	body, err := canon.Marshal(e)
	if err != nil {
		return err
	}
	if refs == nil {
		refs = []canon.Digest{}
	}
	_, _, err = tx.Append(ctx, Draft{Kind: ledger.KindEnrolment, Stream: ledger.StreamVerifier, Time: now, Body: tx.PutBlob(body), Refs: refs})
	return err
}
