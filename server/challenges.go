package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// challenge issues a challenge to a node: not older than the newest checkpoint, which goes with it, and logged before
// anybody can answer it.
func (s *Server) challenge(ctx context.Context, node string, renter canon.Hex) (client.Challenged, error) {
	if len(renter) != 0 && len(renter) != attest.NonceSize {
		return client.Challenged{}, refuse(codeMalformed, "renter: %d bytes, want %d", len(renter), attest.NonceSize)
	}
	nonce, err := s.draw(attest.NonceSize)
	if err != nil {
		return client.Challenged{}, err
	}
	now := s.time()
	result, err := s.signer(ctx, ledger.UseResult, now)
	if err != nil {
		return client.Challenged{}, err
	}
	ch := attest.Challenge{
		Type: attest.ChallengeType, Origin: s.origin, ResultKey: result.SPKI(), Node: node, Nonce: nonce, Renter: renter,
		Issued: now, Expires: now + seconds(ChallengeLife),
	}
	var checkpoint []byte
	err = s.store.Tx(ctx, func(tx *Tx) error {
		log, err := s.accepting(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.admit(ctx, tx, node, now); err != nil {
			return err
		}
		published, err := log.Published(ctx)
		switch {
		case errors.Is(err, fs.ErrNotExist) && log.Number > 1:
			return closing("%s has no checkpoint yet", log.Origin)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if checkpoint = published.Note; checkpoint != nil {
			ch.Checkpoint = canon.Sum(checkpoint)
			tx.PutBlob(checkpoint) // for auditors, who ask whether the log ever was what it says
		}
		body, err := canon.Marshal(ch)
		if err != nil {
			return err
		}
		digest := tx.PutBlob(body)
		if err := insertChallenge(ctx, tx.SQL, log.Number, ch, digest); err != nil {
			return err
		}
		_, _, err = tx.Append(ctx, Draft{Kind: ledger.KindChallenge, Stream: ledger.StreamVerifier, Time: now, Body: digest, Refs: []canon.Digest{}})
		return err
	})
	if err != nil {
		return client.Challenged{}, err
	}
	return client.Challenged{Challenge: ch, Checkpoint: string(checkpoint)}, nil
}

// admit refuses a node that has too many challenges open. The node's row is held, so that two requests at one time do
// not both see room for one.
func (s *Server) admit(ctx context.Context, tx *Tx, node string, now canon.Time) error {
	var revoked int64
	if err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked); err != nil {
		return fmt.Errorf("look up node %s: %w", node, err)
	}
	if revoked != 0 {
		return errRevoked
	}
	var open int
	var first sql.NullInt64
	err := tx.SQL.QueryRowContext(ctx, `SELECT COUNT(*), MIN(expires) FROM challenge WHERE node = $1 AND expires > $2 AND log = $3
		AND NOT EXISTS (SELECT 1 FROM submission WHERE submission.challenge = challenge.id)`, node, int64(now), tx.log).Scan(&open, &first)
	if err != nil {
		return fmt.Errorf("count open challenges: %w", err)
	}
	if open >= attest.MaxOpenChallenges {
		p := refuse(codeTooMany, "%d challenges are open, at most %d: answer one, or wait until one expires", open, attest.MaxOpenChallenges)
		p.retry = time.Duration(first.Int64-int64(now)) * time.Second
		return p
	}
	return nil
}

// issued is a challenge that was issued.
type issued struct {
	id      []byte
	log     int64 // number of the log that it ends with
	node    string
	body    canon.Digest // of the document
	issued  canon.Time
	expires canon.Time
	used    bool
}

func findChallenge(ctx context.Context, q querier, n canon.Digest) (issued, error) {
	c := issued{id: n[:]}
	var expires int64
	err := q.QueryRowContext(ctx, `SELECT log, node, body, expires, EXISTS (SELECT 1 FROM submission WHERE submission.challenge = challenge.id)
		FROM challenge WHERE id = $1`, n[:]).Scan(&c.log, &c.node, &c.body, &expires, &c.used)
	c.expires = canon.Time(expires)
	c.issued = c.expires - seconds(ChallengeLife)
	return c, err
}

// seconds returns a period in whole seconds.
func seconds(d time.Duration) canon.Time { return canon.Time(d / time.Second) }
