package server

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// Uses of a secret. The text of a secret is USE_ID_SECRET: the id is public and finds the row, the secret is 32 random
// bytes of which the row holds a hash. So a copy of the database lets nobody in, and the time that a look-up takes tells
// nothing of a secret.
const (
	useJoin  = "join"  // lets one new node in, once
	useNode  = "node"  // lets a node ask for challenges, submit, and read its own results
	useAdmin = "admin" // everything
)

// caller is who a request comes from.
type caller struct {
	use  string
	node string // of useNode
	id   string // public half of the secret
}

// secretRow is a new secret.
type secretRow struct {
	id   string
	use  string
	hash canon.Digest
	text string // given out once, and kept nowhere
}

func (s *Server) newSecret(use string) (secretRow, error) {
	b, err := s.draw(8 + 32)
	if err != nil {
		return secretRow{}, err
	}
	r := secretRow{id: hex.EncodeToString(b[:8]), use: use}
	half := base64.RawURLEncoding.EncodeToString(b[8:])
	r.text = use + "_" + r.id + "_" + half
	r.hash = hashSecret(use, half)
	return r, nil
}

func hashSecret(use, half string) canon.Digest {
	return canon.Hash("assay/secret/v1", []byte(use), []byte(half))
}

// insert stores a secret. node is empty unless it is a node's credential; expires is 0 for never.
func (r secretRow) insert(ctx context.Context, tx *Tx, node string, created, expires canon.Time) error {
	_, err := tx.SQL.ExecContext(ctx, `INSERT INTO secret(id, uses, hash, node, created, expires, ended) VALUES ($1, $2, $3, $4, $5, $6, 0)`,
		r.id, r.use, r.hash[:], sql.NullString{String: node, Valid: node != ""}, int64(created), int64(expires))
	if err != nil {
		return fmt.Errorf("store a secret: %w", err)
	}
	return nil
}

// querier is a transaction or the readers' pool.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// checkSecret finds the secret of a text. A secret that is not known, or of another use than it says: errCredential; one
// that is used up, revoked or too old: errRevoked.
func checkSecret(ctx context.Context, q querier, text string, now canon.Time) (id string, c caller, err error) {
	use, rest, ok := strings.Cut(text, "_")
	id, half, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 || len(text) > 128 {
		return "", caller{}, errCredential
	}
	var stored []byte
	var node sql.NullString
	var expires, ended int64
	c.use = use
	err = q.QueryRowContext(ctx, `SELECT hash, node, expires, ended FROM secret WHERE id = $1 AND uses = $2`, id, use).Scan(&stored, &node, &expires, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		return "", caller{}, errCredential
	}
	if err != nil {
		return "", caller{}, fmt.Errorf("look up a secret: %w", err)
	}
	hash := hashSecret(use, half)
	if subtle.ConstantTimeCompare(hash[:], stored) != 1 {
		return "", caller{}, errCredential
	}
	if ended != 0 || expires != 0 && int64(now) >= expires {
		return "", caller{}, errRevoked
	}
	c.node = node.String
	return id, c, nil
}

// beginAdmin makes the admin token of a first start, or another in place of all others.
func (s *Server) beginAdmin(ctx context.Context) error {
	renew, err := s.settings.renewals()
	if err != nil {
		return err
	}
	secret, err := s.newSecret(useAdmin)
	if err != nil {
		return err
	}
	made := false
	err = s.store.Tx(ctx, func(tx *Tx) error {
		made = false
		if err := holdServer(ctx, tx.SQL); err != nil { // of several processes that start at once, one makes a token
			return err
		}
		var n int
		if err := tx.SQL.QueryRowContext(ctx, `SELECT COUNT(*) FROM secret WHERE uses = 'admin'`).Scan(&n); err != nil {
			return fmt.Errorf("count admin tokens: %w", err)
		}
		if n > 0 && !renew.admin {
			return nil
		}
		now := s.time()
		if _, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE uses = 'admin' AND ended = 0`, int64(now)); err != nil {
			return fmt.Errorf("end admin tokens: %w", err)
		}
		made = true
		return secret.insert(ctx, tx, "", now, 0)
	})
	if made && err == nil {
		s.newAdmin = secret.text
	}
	return err
}
