package server

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// What follows from an entry of the log, in the tables that are a cache of it. The server calls these in the transaction
// that appends the entry, [Rebuild] where it meets the entry; there is no other way into these tables.

// insertNode lets a node in.
func insertNode(ctx context.Context, tx *sql.Tx, node, tenant string, at canon.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO node(id, tenant, joined, revoked) VALUES ($1, $2, $3, 0)`, node, tenant, int64(at)); err != nil {
		return fmt.Errorf("store a node: %w", err)
	}
	return nil
}

// endNode revokes a node. Its devices are nobody's then.
func endNode(ctx context.Context, tx *sql.Tx, node string, at canon.Time) error {
	if _, err := tx.ExecContext(ctx, `UPDATE node SET revoked = $1 WHERE id = $2`, int64(at), node); err != nil {
		return fmt.Errorf("revoke node %s: %w", node, err)
	}
	for _, table := range []string{"device", "shown"} {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE node = $1`, node); err != nil {
			return fmt.Errorf("revoke node %s: %w", node, err)
		}
	}
	return nil
}

// insertDevice makes a node the holder of a device. One that has a holder is [sqldb.ErrExists].
func insertDevice(ctx context.Context, tx *sql.Tx, node string, id attest.Identity, at canon.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO device(kind, value, node, enrolled) VALUES ($1, $2, $3, $4)`, id.Kind, []byte(id.Value), node, int64(at)); err != nil {
		return fmt.Errorf("enrol %s for %s: %w", id, node, err)
	}
	return nil
}

// putActivation records that an attestation key of a node was activated, for the first time or again.
func putActivation(ctx context.Context, tx *sql.Tx, node string, ak []byte, ek canon.Digest, at canon.Time) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO activation(node, ak, ek, activated) VALUES ($1, $2, $3, $4)
		ON CONFLICT (node, ak) DO UPDATE SET ek = excluded.ek, activated = excluded.activated`, node, ak, ek[:], int64(at))
	if err != nil {
		return fmt.Errorf("store an activation: %w", err)
	}
	return nil
}

// insertChallenge stores a challenge that was issued in a log. body names its document.
func insertChallenge(ctx context.Context, tx *sql.Tx, log int64, c attest.Challenge, body canon.Digest) error {
	n := c.Digest()
	_, err := tx.ExecContext(ctx, `INSERT INTO challenge(id, node, body, expires, log) VALUES ($1, $2, $3, $4, $5)`, n[:], c.Node, body[:], int64(c.Expires), log)
	if err != nil {
		return fmt.Errorf("store a challenge: %w", err)
	}
	return nil
}

// insertSubmission stores evidence that was promised, to be appraised at once. A second one of the same bytes, or for the
// same challenge, is [sqldb.ErrExists].
func insertSubmission(ctx context.Context, tx *sql.Tx, evidence canon.Digest, challenge []byte, node string, received canon.Time, promise []byte) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO submission(evidence, challenge, node, received, promise, state, due)
		VALUES ($1, $2, $3, $4, $5, 'received', $4)`, evidence[:], challenge, node, int64(received), promise)
	if err != nil {
		return fmt.Errorf("store a submission: %w", err)
	}
	return nil
}

// decideSubmission stores what was decided of evidence. It reports whether it was the first to do so.
func decideSubmission(ctx context.Context, tx *sql.Tx, evidence, appraisal, result canon.Digest, outcome string, at canon.Time) (bool, error) {
	done, err := tx.ExecContext(ctx, `UPDATE submission SET state = 'decided', due = NULL, appraisal = $1, result = $2, outcome = $3, decided = $4
		WHERE evidence = $5 AND state = 'received'`, appraisal[:], result[:], outcome, int64(at), evidence[:])
	if err != nil {
		return false, fmt.Errorf("store a verdict: %w", err)
	}
	n, err := done.RowsAffected()
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO appraised(node, appraisal) SELECT node, appraisal FROM submission WHERE evidence = $1
		ON CONFLICT (node) DO UPDATE SET appraisal = excluded.appraisal`, evidence[:])
	if err != nil {
		return false, fmt.Errorf("store a verdict: %w", err)
	}
	return true, nil
}

// putClocks keeps what judged quotes said of the clocks of a node's TPM.
func putClocks(ctx context.Context, tx *sql.Tx, node string, clocks []attest.TPMClock, received canon.Time) error {
	for _, c := range clocks {
		_, err := tx.ExecContext(ctx, `INSERT INTO tpm_clock(node, ak, resets, restarts, clock, received) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (node, ak) DO UPDATE SET resets = excluded.resets, restarts = excluded.restarts, clock = excluded.clock, received = excluded.received
			WHERE excluded.received >= tpm_clock.received`,
			node, []byte(c.AK), c.ResetCount, c.RestartCount, c.Clock, int64(received))
		if err != nil {
			return fmt.Errorf("store a clock: %w", err)
		}
	}
	return nil
}
