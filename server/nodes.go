package server

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// newJoinToken makes a token that lets one node in.
func (s *Server) newJoinToken(ctx context.Context) (client.JoinToken, error) {
	secret, err := s.newSecret(useJoin)
	if err != nil {
		return client.JoinToken{}, err
	}
	now := s.time()
	expires := now + seconds(JoinTokenLife)
	if err := s.store.Tx(ctx, func(tx *Tx) error { return secret.insert(ctx, tx, "", now, expires) }); err != nil {
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
		id, who, err := checkSecret(ctx, tx.SQL, token.Secret, now)
		if errors.Is(err, errCredential) || errors.Is(err, errRevoked) || err == nil && who.use != useJoin {
			return refuse(codeToken, "it is not known, was used, or is too old")
		}
		if err != nil {
			return err
		}
		if err := insertNode(ctx, tx.SQL, node, now); err != nil {
			return err
		}
		// Of two nodes that come with one token at one time, the second finds it ended.
		done, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1, node = $2 WHERE id = $3 AND ended = 0`, int64(now), node, id)
		if err != nil {
			return fmt.Errorf("use up a token: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, refuse(codeToken, "it was used"))
		}
		if err := credential.insert(ctx, tx, node, now, 0); err != nil {
			return err
		}
		return logEnrolment(ctx, tx, ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisToken, Verifier: s.origin}, now)
	})
	if err != nil {
		return client.Joined{}, err
	}
	s.log.Info("node joined", "node", node)
	return client.Joined{Node: node, Credential: credential.text, Origin: s.origin, ResultKey: standing[named].SPKI}, nil
}

// revoke ends a node: its credential is no longer good, and its devices may be enrolled for others. What it submitted
// stays.
func (s *Server) revoke(ctx context.Context, node string) error {
	err := s.store.Tx(ctx, func(tx *Tx) error {
		now := s.time()
		var revoked int64
		err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked)
		if errors.Is(err, sql.ErrNoRows) {
			return refuse(codeNotFound, "no such node")
		}
		if err != nil || revoked != 0 {
			return err
		}
		if err := endNode(ctx, tx.SQL, node, now); err != nil {
			return err
		}
		if _, err := tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE node = $2 AND ended = 0`, int64(now), node); err != nil {
			return err
		}
		if err := addWork(ctx, tx.SQL, workRevoked, node, "", now); err != nil {
			return err
		}
		return logEnrolment(ctx, tx, ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisRevoked, Verifier: s.origin}, now)
	})
	if err == nil {
		s.log.Info("node revoked", "node", node)
	}
	return err
}

// nodes lists nodes in the order of their ids, from the one after a given id on.
func (s *Server) nodes(ctx context.Context, after string) (client.Nodes, error) {
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT id, joined, revoked FROM node WHERE id > $1 ORDER BY id LIMIT $2`, after, MaxPage)
	if err != nil {
		return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	defer rows.Close()
	list := client.Nodes{Nodes: []client.NodeRecord{}}
	for rows.Next() {
		var n client.NodeRecord
		var joined, revoked int64
		if err := rows.Scan(&n.Node, &joined, &revoked); err != nil {
			return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
		}
		n.Joined, n.Revoked = canon.Time(joined), canon.Time(revoked)
		list.Nodes = append(list.Nodes, n)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
	}
	for i := range list.Nodes {
		if err := s.describe(ctx, &list.Nodes[i]); err != nil {
			return client.Nodes{}, fmt.Errorf("list nodes: %w", err)
		}
	}
	if len(list.Nodes) == MaxPage {
		list.After = list.Nodes[MaxPage-1].Node
	}
	return list, nil
}

// describe adds a node's devices and its last verdict.
func (s *Server) describe(ctx context.Context, n *client.NodeRecord) error {
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
	err = s.store.db.Reader().QueryRowContext(ctx, `SELECT evidence, outcome, decided FROM submission WHERE node = $1 AND state = 'decided'
		ORDER BY received DESC, decided DESC LIMIT 1`, n.Node).Scan(&evidence, &outcome, &decided)
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
