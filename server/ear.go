package server

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server/keyring"
	"github.com/assay-network/assay/verifier"
)

// earJWTType is the type of the token in its header; its media type is application/ and this (RFC 9782).
const earJWTType = "eat+jwt"

// earKept is what the store has of a verdict that an attestation result renders.
type earKept struct {
	appraisal verifier.Appraisal
	result    policy.Result
	signed    canon.Digest // of the envelope of result
	policy    *policy.Policy
	party     policy.PartyClaims // that the verdict was told
}

// ear returns an attestation result on decided evidence, signed for this moment. It is a statement about now: where a
// later verdict rejected the node, or the node was revoked, earlier evidence no longer speaks for it.
func (s *Server) ear(ctx context.Context, who caller, evidence canon.Digest) ([]byte, error) {
	if err := s.mayRender(ctx, who, evidence); err != nil {
		return nil, err
	}
	t, err := s.loadTaken(ctx, evidence)
	if err != nil {
		return nil, err
	}
	kept, err := s.loadKept(ctx, evidence)
	if err != nil {
		return nil, err
	}
	if err := s.mayStand(ctx, kept.signed); err != nil {
		return nil, err
	}
	o, err := verifier.Open(verifier.TypeBundle, t.data)
	if err != nil {
		return nil, err
	}
	promise, err := s.promiseVerdict(ctx, kept.signed)
	if err != nil {
		return nil, err
	}
	id, err := s.draw(16)
	if err != nil {
		return nil, err
	}
	e, err := verifier.NewEAR(kept.appraisal, verifier.EARFacts{
		Issuer: s.origin, Node: t.node, ID: base64.RawURLEncoding.EncodeToString(id), Build: s.build, Policy: kept.policy,
		Result: kept.result, Signed: kept.signed, Promise: promise, Challenge: t.challenge, Party: kept.party.Claims, Evidence: o, At: s.time(),
	})
	if err != nil {
		return nil, err
	}
	claims, err := e.Encode()
	if err != nil {
		return nil, err
	}
	return s.signEAR(ctx, claims)
}

// mayRender refuses what there is no result of for this caller, or none any more.
func (s *Server) mayRender(ctx context.Context, who caller, evidence canon.Digest) error {
	var state string
	var revoked int64
	var outdone bool
	own := who.ownEvidence(evidence)
	err := s.store.db.Reader().QueryRowContext(ctx, `SELECT state, node.revoked, EXISTS (SELECT 1 FROM submission AS later
			WHERE later.node = submission.node AND later.evidence <> submission.evidence AND later.outcome = 'reject' AND later.decided >= submission.decided)
		FROM submission JOIN node ON node.id = submission.node WHERE `+own.String(), own.args...).Scan(&state, &revoked, &outdone)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errNothing
	case err != nil:
		return fmt.Errorf("read a submission: %w", err)
	case revoked != 0:
		return refuse(codeOutdone, "the node was revoked at %s", canon.Time(revoked))
	case state != client.StateDecided:
		p := refuse(codeNotDecided, "it was received, and is appraised next")
		p.retry = appraiserPoll
		return p
	case outdone:
		return refuse(codeOutdone, "later evidence of the node was rejected: its session keys have ended")
	}
	return nil
}

// loadKept reads what was stored with a verdict.
func (s *Server) loadKept(ctx context.Context, evidence canon.Digest) (k earKept, err error) {
	var appraisal canon.Digest
	err = s.store.db.Reader().QueryRowContext(ctx, `SELECT appraisal, result FROM submission WHERE evidence = $1`, evidence[:]).Scan(&appraisal, &k.signed)
	if err != nil {
		return k, fmt.Errorf("read a verdict: %w", err)
	}
	text, err := s.store.Blob(ctx, appraisal)
	if err != nil {
		return k, err
	}
	if err := canon.Unmarshal(text, &k.appraisal); err != nil {
		return k, fmt.Errorf("damaged database: appraisal of %s: %w", evidence, err)
	}
	if text, err = s.store.Blob(ctx, k.signed); err != nil {
		return k, err
	}
	env, err := ledger.ParseEnvelope(text)
	if err != nil {
		return k, fmt.Errorf("damaged database: verdict on %s: %w", evidence, err)
	}
	if k.result, err = policy.ParseResult(env.Payload); err != nil {
		return k, fmt.Errorf("damaged database: verdict on %s: %w", evidence, err)
	}
	if !k.result.Party.IsZero() {
		if text, err = s.store.Blob(ctx, k.result.Party); err != nil {
			return k, err
		}
		if k.party, err = policy.ParsePartyClaims(text); err != nil {
			return k, fmt.Errorf("damaged database: claims of the party %s: %w", k.result.Party, err)
		}
	}
	if text, err = s.store.Blob(ctx, k.result.Policy); err != nil {
		return k, err
	}
	if k.policy, err = policy.ParseCanonical(text); err != nil {
		return k, fmt.Errorf("damaged database: policy %s: %w", k.result.Policy, err)
	}
	return k, nil
}

// promiseVerdict promises the entry of a verdict, as its place in the log says, by a key that stood at the entry's time.
// Where that has ended, the entry is older than any promise is good for, and there is none.
func (s *Server) promiseVerdict(ctx context.Context, signed canon.Digest) (*ledger.Envelope, error) {
	found, err := s.store.EntriesOf(ctx, signed, 1)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("damaged database: no entry of verdict %s", signed)
	}
	k, err := s.keysNow(ctx)
	if err != nil {
		return nil, err
	}
	log, err := s.store.numbered(ctx, found[0].Log)
	if err != nil {
		return nil, err
	}
	now, at := s.time(), found[0].Time
	for _, one := range k.history.Current().Standing(ledger.UsePromise, at) {
		key, err := s.ring.Find(ledger.UsePromise, one.SPKI)
		if errors.Is(err, keyring.ErrNotHeld) || one.Ended(now) {
			continue
		}
		if err != nil {
			return nil, err
		}
		env, err := ledger.SealPromise(ledger.NewPromise(log.Origin, found[0].Commitment, found[0].Entry), key)
		return &env, err
	}
	return nil, nil
}
