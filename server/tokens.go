package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// tokenPrincipal names who acts by a token that is nobody's in particular.
func tokenPrincipal(id string) string { return "token:" + id }

// createToken makes a token that somebody is to have.
func (s *Server) createToken(ctx context.Context, who caller, r client.TokenRequest) (client.NewToken, error) {
	now := s.time()
	if err := r.Grant.Check(); err != nil {
		return client.NewToken{}, refuse(codeMalformed, "%v", err)
	}
	if r.Expires <= now || r.Expires > now+seconds(MaxTokenLife) {
		return client.NewToken{}, refuse(codeMalformed, "expires %s: want an instant after now, %s, and at most %d days later", r.Expires, now, MaxTokenLife/(24*time.Hour))
	}
	var t client.NewToken
	err := s.store.Tx(ctx, func(tx *Tx) (err error) {
		t, err = s.insertToken(ctx, tx, r.Grant, "", who.token.Principal, now, r.Expires)
		return err
	})
	if err == nil {
		s.log.Info("token made", "token", t.Record.ID, "role", r.Grant.Role, "tenant", r.Grant.Tenant, "by", who.token.Principal)
	}
	return t, err
}

// insertToken makes a token. An empty principal is the token itself.
func (s *Server) insertToken(ctx context.Context, tx *Tx, g client.Grant, principal, madeBy string, now, expires canon.Time) (client.NewToken, error) {
	var standing int
	err := tx.SQL.QueryRowContext(ctx, `SELECT COUNT(*) FROM secret WHERE tenant = $1 AND principal <> '' AND ended = 0 AND (expires = 0 OR expires > $2)`, g.Tenant, int64(now)).Scan(&standing)
	if err != nil {
		return client.NewToken{}, fmt.Errorf("count tokens: %w", err)
	}
	if standing >= MaxTokens {
		return client.NewToken{}, refuse(codeTooMany, "%d tokens of this tenant are good, at most %d: revoke some, or wait until some expire", standing, MaxTokens)
	}
	secret, err := s.newSecret(g.Role)
	if err != nil {
		return client.NewToken{}, err
	}
	if principal == "" {
		principal = tokenPrincipal(secret.id)
	}
	record := client.TokenRecord{ID: secret.id, Principal: principal, Grant: g, Made: now, MadeBy: madeBy, Expires: expires}
	return client.NewToken{Token: secret.text, Record: record},
		secret.insert(ctx, tx, owner{tenant: g.Tenant, principal: principal, scope: g.Scope, madeBy: madeBy}, now, expires)
}

// tokens lists tokens in the order of their ids, from the one after a given id on.
func (s *Server) tokens(ctx context.Context, after string) (client.Tokens, error) {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT `+secretColumns+` FROM secret WHERE principal <> '' AND id > $1 ORDER BY id LIMIT $2`, after, MaxPage)
	if err != nil {
		return client.Tokens{}, fmt.Errorf("list tokens: %w", err)
	}
	defer rows.Close()
	list := client.Tokens{Tokens: []client.TokenRecord{}}
	for rows.Next() {
		t, err := scanToken(rows.Scan)
		if err != nil {
			return client.Tokens{}, fmt.Errorf("list tokens: %w", err)
		}
		list.Tokens = append(list.Tokens, t)
	}
	if len(list.Tokens) == MaxPage {
		list.After = list.Tokens[MaxPage-1].ID
	}
	return list, rows.Err()
}

// revokeToken ends a token. One that was ended stays so. The last token of an admin is not ended, so that nobody locks all
// admins out; that of a person who logged in is, who can log in again.
func (s *Server) revokeToken(ctx context.Context, who caller, id string) error {
	err := s.store.Tx(ctx, func(tx *Tx) error {
		if err := holdServer(ctx, tx.SQL); err != nil { // of two admins that end each other's token, one does
			return err
		}
		now := int64(s.time())
		var ended int64
		var use, principal string
		err := tx.SQL.QueryRowContext(ctx, `SELECT uses, principal, ended FROM secret WHERE id = $1 AND principal <> ''`, id).Scan(&use, &principal, &ended)
		if errors.Is(err, sql.ErrNoRows) {
			return refuse(codeNotFound, "no such token: want the id that `assay token list` shows, not the token")
		}
		if err != nil || ended != 0 {
			return err
		}
		if use == client.RoleAdmin && !strings.HasPrefix(principal, personPrefix) {
			var others int
			err := tx.SQL.QueryRowContext(ctx, `SELECT COUNT(*) FROM secret WHERE uses = $1 AND id <> $2 AND ended = 0 AND (expires = 0 OR expires > $3)`, use, id, now).Scan(&others)
			if err != nil {
				return fmt.Errorf("count admin tokens: %w", err)
			}
			if others == 0 {
				return refuse(codeConflict, "it is the last token of an admin: make another before (assay token create --role admin), or have the server make one (assay serve --renew admin-token)")
			}
		}
		_, err = tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE id = $2`, now, id)
		return err
	})
	if err == nil {
		s.log.Info("token revoked", "token", id, "by", who.token.Principal)
	}
	return err
}

// noteUse writes down that a token was used, at most once a minute. That it cannot be written is no reason to refuse.
func (s *Server) noteUse(ctx context.Context, t client.TokenRecord) {
	now := s.time()
	if now < t.Used+seconds(UsedInterval) {
		return
	}
	err := s.store.Tx(ctx, func(tx *Tx) error {
		_, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET used = $1 WHERE id = $2 AND used < $1`, int64(now), t.ID)
		return err
	})
	if err != nil {
		s.log.Warn("the use of a token is not written down", "token", t.ID, "error", err)
	}
}
