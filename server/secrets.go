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

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// Uses of a secret beside those of tokens, which are the roles of their bearers ([client.Roles]). The text of a secret is
// USE_ID_SECRET: the id is public and finds the row, the secret is 32 random bytes of which the row holds a hash. So a copy
// of the database lets nobody in, and the time that a look-up takes tells nothing of a secret.
const (
	useJoin = "join" // lets one new node in, once
	useNode = "node" // lets a node ask for challenges, submit, and read its own results
)

// maxSecret is the length of the longest text that can be a secret.
const maxSecret = 128

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

// owner is whose a secret is.
type owner struct {
	node      string // of a node's credential
	tenant    string
	principal string       // of a token
	scope     client.Scope // of a token
	madeBy    string       // principal
}

// insert stores a secret. expires is 0 for never.
func (r secretRow) insert(ctx context.Context, tx *Tx, of owner, created, expires canon.Time) error {
	scope := ""
	if !of.scope.IsZero() {
		data, err := canon.Marshal(of.scope)
		if err != nil {
			return err
		}
		scope = string(data)
	}
	_, err := tx.SQL.ExecContext(ctx, `INSERT INTO secret(id, uses, hash, node, tenant, principal, scope, made_by, created, expires, ended, used)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0)`,
		r.id, r.use, r.hash[:], sql.NullString{String: of.node, Valid: of.node != ""}, of.tenant, of.principal, scope, of.madeBy, int64(created), int64(expires))
	if err != nil {
		return fmt.Errorf("store a secret: %w", err)
	}
	return nil
}

// querier is a transaction or the readers' pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// secretColumns are what [scanToken] reads, in its order.
const secretColumns = `id, uses, tenant, principal, scope, made_by, created, expires, ended, used`

// scanToken reads a row of secretColumns, and more before it.
func scanToken(scan func(...any) error, before ...any) (client.TokenRecord, error) {
	var t client.TokenRecord
	var scope string
	var made, expires, ended, used int64
	err := scan(append(before, &t.ID, &t.Grant.Role, &t.Grant.Tenant, &t.Principal, &scope, &t.MadeBy, &made, &expires, &ended, &used)...)
	if err == nil && scope != "" {
		err = canon.Unmarshal([]byte(scope), &t.Grant.Scope)
	}
	t.Made, t.Expires, t.Ended, t.Used = canon.Time(made), canon.Time(expires), canon.Time(ended), canon.Time(used)
	return t, err
}

// checkSecret finds the secret of a text. What is wrong with one that is not good is a refusal with status 401.
func checkSecret(ctx context.Context, q querier, text string, now canon.Time) (caller, error) {
	use, rest, ok := strings.Cut(text, "_")
	id, half, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 || len(text) > maxSecret {
		return caller{}, errCredential
	}
	var stored []byte
	var node sql.NullString
	t, err := scanToken(q.QueryRowContext(ctx, `SELECT hash, node, `+secretColumns+` FROM secret WHERE id = $1 AND uses = $2`, id, use).Scan, &stored, &node)
	if errors.Is(err, sql.ErrNoRows) {
		return caller{}, errForeign
	}
	if err != nil {
		return caller{}, fmt.Errorf("look up a secret: %w", err)
	}
	hash := hashSecret(use, half)
	switch {
	case subtle.ConstantTimeCompare(hash[:], stored) != 1:
		return caller{}, errWrong
	case t.Ended != 0:
		return caller{}, errRevoked
	case t.Expires != 0 && now >= t.Expires:
		return caller{}, refuse(client.CodeExpired, "it expired at %s: log in again, or ask for another", t.Expires)
	}
	return caller{use: use, node: node.String, token: t}, nil
}

// beginAdmin makes the admin token of a first start, or another in place of all others.
func (s *Server) beginAdmin(ctx context.Context) error {
	renew, err := s.settings.renewals()
	if err != nil {
		return err
	}
	secret, err := s.newSecret(client.RoleAdmin)
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
		return secret.insert(ctx, tx, owner{principal: tokenPrincipal(secret.id)}, now, 0)
	})
	if made && err == nil {
		s.newAdmin = secret.text
	}
	return err
}
