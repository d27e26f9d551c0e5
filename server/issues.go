package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier"
)

// Auditors ask that no newer issue of an item stood in the log when an older one was used. What this process was given, or
// keeps of what it fetched, may be older than what another process or an earlier start has logged.

// noteIssue notes an item that is logged in this transaction, or was before. One of the future is not noted: it is no newest
// issue yet, and comes again when it is.
func (tx *Tx) noteIssue(ctx context.Context, item attest.Collateral, now canon.Time) error {
	i, ok := verifier.IssueOf(item)
	if !ok || i.At > now {
		return nil
	}
	digest := item.Digest()
	_, err := tx.SQL.ExecContext(ctx, `INSERT INTO issue(kind, subject, number, issued, digest) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, subject) DO UPDATE SET number = excluded.number, issued = excluded.issued, digest = excluded.digest
		WHERE excluded.number > issue.number OR excluded.number = issue.number AND excluded.issued > issue.issued`,
		item.Kind, i.Subject, i.Number, int64(i.At), digest[:])
	if err != nil {
		return fmt.Errorf("note an issue of %s: %w", i.Subject, err)
	}
	return nil
}

// withNewest returns collateral with what the log has that is newer than some of it.
func (s *Server) withNewest(ctx context.Context, given []attest.Collateral) ([]attest.Collateral, error) {
	type known struct {
		attest.Issue
		ok bool
	}
	all := given
	for _, item := range given {
		digest := item.Digest()
		i := attest.Remember(s.memory, canon.Hash("server/issue/v1", []byte(item.Kind), digest[:]), func() known {
			i, ok := verifier.IssueOf(item)
			return known{i, ok}
		})
		if !i.ok {
			continue
		}
		var newest canon.Digest
		err := s.store.db.Reader().QueryRowContext(ctx, `SELECT digest FROM issue WHERE kind = $1 AND subject = $2
			AND (number > $3 OR number = $3 AND issued > $4)`, item.Kind, i.Subject, i.Number, int64(i.At)).Scan(&newest)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for a newer issue of %s: %w", i.Subject, err)
		}
		if slices.ContainsFunc(all, func(c attest.Collateral) bool { return c.Digest() == newest }) {
			continue
		}
		data, err := s.store.Blob(ctx, newest)
		if err != nil {
			return nil, err
		}
		all = with(all, attest.Collateral{Kind: item.Kind, Data: data})
	}
	return all, nil
}
