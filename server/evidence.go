package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
)

// submit is the door. It looks at bounds, subject, challenge and the session key's signature in this order, and the
// first failure answers alone and stores nothing; bounds of the request and the subject were looked at before the body was
// read. Whether the evidence is any good is not asked here.
//
// Then one transaction takes the submission: it burns the challenge, by being the only row that may name it, and appends
// the entry that the promise promises. The promise is stored with it, so that whoever lost the answer, or asks after a
// crash, gets the same one.
func (s *Server) submit(ctx context.Context, node string, data []byte) (client.Submitted, error) {
	evidence := canon.Sum(data)
	if known, err := s.promised(ctx, node, evidence); err != nil || known != nil {
		return client.Submitted{Evidence: evidence, Promise: deref(known)}, err
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return client.Submitted{}, refuse(codeMalformed, "%v", err)
	}
	bundle, signed, err := attest.OpenBundle(env)
	if err != nil {
		return client.Submitted{}, refuse(codeMalformed, "%v", err)
	}
	ch, err := findChallenge(ctx, s.store.db.Reader(), bundle.Challenge)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && ch.node != node:
		return client.Submitted{}, refuse(client.CodeChallengeExpired, "challenge %s was not issued to this node", bundle.Challenge)
	case err != nil:
		return client.Submitted{}, fmt.Errorf("look up a challenge: %w", err)
	case ch.used:
		return s.outrun(ctx, node, evidence)
	}
	now, ok := s.timeAfter(ch.issued)
	switch {
	case !ok:
		return client.Submitted{}, refuse(client.CodeChallengeExpired, "the challenge was issued at %s, by this server's clock it is %s: ask for another", ch.issued, now)
	case now >= ch.expires:
		return client.Submitted{}, refuse(client.CodeChallengeExpired, "the challenge expired at %s, it is %s", ch.expires, now)
	case !signed:
		return client.Submitted{}, refuse(codeBadSignature, "the session key that the bundle names did not sign it")
	}
	promise, err := s.take(ctx, node, ch, data, now)
	if errors.Is(err, sqldb.ErrExists) {
		return s.outrun(ctx, node, evidence)
	}
	if err != nil {
		return client.Submitted{}, err
	}
	select {
	case s.taken <- struct{}{}:
	default:
	}
	return client.Submitted{Evidence: evidence, Promise: promise}, nil
}

// outrun answers a submission that another request, here or at another server, was faster than: with the same bytes, or
// with other evidence for the challenge.
func (s *Server) outrun(ctx context.Context, node string, evidence canon.Digest) (client.Submitted, error) {
	known, err := s.promised(ctx, node, evidence)
	if err == nil && known == nil {
		err = errUsed
	}
	return client.Submitted{Evidence: evidence, Promise: deref(known)}, err
}

// take commits a submission, in the log of its challenge. A second one of the same bytes, or for the same challenge, is
// [sqldb.ErrExists].
func (s *Server) take(ctx context.Context, node string, ch issued, data []byte, now canon.Time) (ledger.Envelope, error) {
	var promise ledger.Envelope
	key, err := s.signer(ctx, ledger.UsePromise, now)
	if err != nil {
		return promise, err
	}
	err = s.store.Tx(ctx, func(tx *Tx) error {
		log, err := s.accepting(ctx, tx)
		if err != nil {
			return err
		}
		if ch.log != log.Number {
			return refuse(client.CodeChallengeExpired, "the challenge ended with its log: ask for another")
		}
		var revoked int64
		if err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked); err != nil {
			return fmt.Errorf("look up node %s: %w", node, err)
		}
		if revoked != 0 {
			return errRevoked
		}
		evidence := tx.PutBlob(data)
		commitment, entry, err := tx.Append(ctx, Draft{
			Kind: ledger.KindEvidence, Stream: ledger.NodeStream(node), Time: now, Body: evidence, Refs: []canon.Digest{ch.body},
		})
		if err != nil {
			return err
		}
		if promise, err = ledger.SealPromise(ledger.NewPromise(log.Origin, commitment, entry), key); err != nil {
			return err
		}
		text, err := canon.Marshal(promise)
		if err != nil {
			return err
		}
		return insertSubmission(ctx, tx.SQL, evidence, ch.id, node, now, text)
	})
	return promise, err
}

// promised returns the promise that a node's evidence got before, or nil.
func (s *Server) promised(ctx context.Context, node string, evidence canon.Digest) (*ledger.Envelope, error) {
	var text []byte
	err := s.store.db.Reader().QueryRowContext(ctx, `SELECT promise FROM submission WHERE evidence = $1 AND node = $2`, evidence[:], node).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up a promise: %w", err)
	}
	env, err := ledger.ParseEnvelope(text)
	if err != nil {
		return nil, fmt.Errorf("damaged database: promise of evidence %s: %w", evidence, err)
	}
	return &env, nil
}

func deref(e *ledger.Envelope) ledger.Envelope {
	if e == nil {
		return ledger.Envelope{}
	}
	return *e
}
