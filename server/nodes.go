package server

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// newJoinToken makes a token that lets one node in. The node is of the caller's tenant; an admin may name one.
func (s *Server) newJoinToken(ctx context.Context, who caller, r client.JoinTokenRequest) (client.JoinToken, error) {
	tenant := who.token.Grant.Tenant
	if r.Tenant != "" && r.Tenant != tenant {
		if who.use != client.RoleAdmin {
			return client.JoinToken{}, errNothing
		}
		if err := ledger.CheckTenant(r.Tenant); err != nil {
			return client.JoinToken{}, refuse(codeMalformed, "%v", err)
		}
		tenant = r.Tenant
	}
	secret, err := s.newSecret(useJoin)
	if err != nil {
		return client.JoinToken{}, err
	}
	now := s.time()
	expires := now + seconds(JoinTokenLife)
	if err := s.store.Tx(ctx, func(tx *Tx) error {
		return secret.insert(ctx, tx, owner{tenant: tenant, madeBy: who.token.Principal}, now, expires)
	}); err != nil {
		return client.JoinToken{}, err
	}
	key, err := s.signer(ctx, ledger.UseResult, s.time())
	if err != nil {
		return client.JoinToken{}, err
	}
	t := client.Token{Secret: secret.text, Fingerprint: key.ID()}
	return client.JoinToken{Token: t.String(), Expires: expires}, nil
}

// join lets a node in: the token is used up, the node and its credential are there, or none of it. A caller who loses
// the answer needs another token.
func (s *Server) join(ctx context.Context, text string) (client.Joined, error) {
	token, err := client.ParseToken(text)
	if err != nil {
		return client.Joined{}, refuse(codeToken, "%v", err)
	}
	k, err := s.keysNow(ctx)
	if err != nil {
		return client.Joined{}, err
	}
	// The token names the result key of when it was issued, which stands beside a newer one for as long as the token is good.
	standing := k.history.Current().Standing(ledger.UseResult, s.time())
	named := slices.IndexFunc(standing, func(key ledger.Key) bool { return key.ID() == token.Fingerprint })
	if named < 0 {
		return client.Joined{}, refuse(codeToken, "the token is for the verifier with fingerprint %s, which is no key of this one now", token.Fingerprint.Short())
	}
	id, err := s.draw(8)
	if err != nil {
		return client.Joined{}, err
	}
	credential, err := s.newSecret(useNode)
	if err != nil {
		return client.Joined{}, err
	}
	node := "node-" + hex.EncodeToString(id)
	err = s.store.Tx(ctx, func(tx *Tx) error {
		now := s.time()
		who, err := checkSecret(ctx, tx.SQL, token.Secret, now)
		var no *problem
		switch {
		case errors.Is(err, errRevoked):
			return refuse(codeToken, "it was used up or revoked: ask for another")
		case errors.As(err, &no):
			return refuse(codeToken, "%s", no.detail)
		case err == nil && who.use != useJoin:
			return refuse(codeToken, "it is a credential of another kind: %s", who.use)
		}
		if err != nil {
			return err
		}
		tenant := who.token.Grant.Tenant
		if err := insertNode(ctx, tx.SQL, node, tenant, now); err != nil {
			return err
		}
		site, rack, last, err := spend(ctx, tx.SQL, who.token.ID)
		if err != nil {
			return err
		}
		if err := putPlacement(ctx, tx.SQL, node, site, rack); err != nil {
			return err
		}
		if last {
			// Of two nodes that come with one token at one time, the second finds it ended.
			done, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1, node = $2 WHERE id = $3 AND ended = 0`, int64(now), node, who.token.ID)
			if err != nil {
				return fmt.Errorf("use up a token: %w", err)
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 {
				return errors.Join(err, refuse(codeToken, "it was used"))
			}
		}
		if err := credential.insert(ctx, tx, owner{node: node, tenant: tenant}, now, 0); err != nil {
			return err
		}
		return logEnrolment(ctx, tx, ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisToken, Tenant: tenant, Site: site, Rack: rack, Verifier: s.origin}, now)
	})
	if err != nil {
		return client.Joined{}, err
	}
	s.log.Info("node joined", "node", node)
	return client.Joined{Node: node, Credential: credential.text, Origin: s.origin, ResultKey: standing[named].SPKI}, nil
}

// revoke ends a node: its credential is no longer good, and its devices may be enrolled for others. What it submitted
// stays.
func (s *Server) revoke(ctx context.Context, who caller, node string) error {
	var own filter
	own.and(`id = ?`, node)
	who.ownNodes(&own)
	err := s.store.Tx(ctx, func(tx *Tx) error {
		now := s.time()
		var revoked int64
		err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE `+own.String()+s.store.db.ForUpdate(), own.args...).Scan(&revoked)
		if errors.Is(err, sql.ErrNoRows) {
			return errNothing
		}
		if err != nil || revoked != 0 {
			return err
		}
		return s.revokeNow(ctx, tx, node, now)
	})
	if err == nil {
		s.log.Info("node revoked", "node", node, "by", who.token.Principal)
	}
	return err
}

// revokeNow ends a node whose row the transaction holds.
func (s *Server) revokeNow(ctx context.Context, tx *Tx, node string, now canon.Time) error {
	if err := endNode(ctx, tx.SQL, node, now); err != nil {
		return err
	}
	if _, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE node = $2 AND ended = 0`, int64(now), node); err != nil {
		return fmt.Errorf("revoke node %s: %w", node, err)
	}
	if err := addWork(ctx, tx.SQL, workRevoked, node, "", now); err != nil {
		return err
	}
	return logEnrolment(ctx, tx, ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisRevoked, Verifier: s.origin}, now)
}

// nodes lists a caller's nodes in the order of their ids, from the one after a given id on.
func (s *Server) nodes(ctx context.Context, who caller, after string) (client.Nodes, error) {
	var own filter
	own.and(`id > ?`, after)
	who.ownNodes(&own)
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT id, tenant, joined, revoked FROM node WHERE `+own.String()+` ORDER BY id LIMIT `+strconv.Itoa(MaxPage), own.args...)
	if err != nil {
		return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	defer rows.Close()
	list := client.Nodes{Nodes: []client.NodeRecord{}}
	for rows.Next() {
		var n client.NodeRecord
		var joined, revoked int64
		if err := rows.Scan(&n.Node, &n.Tenant, &joined, &revoked); err != nil {
			return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
		}
		n.Joined, n.Revoked = canon.Time(joined), canon.Time(revoked)
		list.Nodes = append(list.Nodes, n)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	for i := range list.Nodes {
		if err := s.describe(ctx, who, &list.Nodes[i]); err != nil {
			return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
		}
	}
	if len(list.Nodes) == MaxPage {
		list.After = list.Nodes[MaxPage-1].Node
	}
	return list, nil
}

// describe adds a node's devices and its last verdict, in the period that the caller reads.
func (s *Server) describe(ctx context.Context, who caller, n *client.NodeRecord) error {
	holders, err := s.devices(ctx, `node = $1`, n.Node)
	if err != nil {
		return err
	}
	for _, h := range holders {
		n.Devices = append(n.Devices, h.Identity)
	}
	var evidence []byte
	var outcome string
	var decided int64
	var last filter
	last.and(`node = ? AND state = 'decided'`, n.Node)
	who.ownTime(&last, `received`)
	err = s.store.db.Reader().QueryRowContext(ctx, `SELECT evidence, outcome, decided FROM submission WHERE `+last.String()+`
		ORDER BY received DESC, decided DESC LIMIT 1`, last.args...).Scan(&evidence, &outcome, &decided)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	copy(n.Evidence[:], evidence)
	n.Verdict, n.Decided = outcome, canon.Time(decided)
	return nil
}

// devices returns the enrolled devices that a condition holds for.
func (s *Server) devices(ctx context.Context, where string, args ...any) ([]attest.Holder, error) {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT kind, value, node FROM device WHERE `+where+` ORDER BY kind, value`, args...)
	if err != nil {
		return nil, fmt.Errorf("read devices: %w", err)
	}
	defer rows.Close()
	var out []attest.Holder
	for rows.Next() {
		var h attest.Holder
		if err := rows.Scan(&h.Identity.Kind, (*[]byte)(&h.Identity.Value), &h.Node); err != nil {
			return nil, fmt.Errorf("read devices: %w", err)
		}
		out = append(out, h)
	}
	return out, rows.Err()
}
