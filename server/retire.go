package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// retire takes a host out of the caller's inventory, for good. The node that it is, is revoked with it; tokens of its rack let
// in no more than are still to come then. What others rely on has to end before: a certificate that stands or is asked for, and
// a quarrel over which of two nodes the host is, in which the other one would inherit.
func (s *Server) retire(ctx context.Context, who caller, r client.RetireRequest) (client.Retired, error) {
	tenant := who.token.Grant.Tenant
	if len(r.Reason) > ledger.MaxReason {
		return client.Retired{}, refuse(codeMalformed, "a reason of %d bytes, at most %d", len(r.Reason), ledger.MaxReason)
	}
	var done client.Retired
	err := s.store.Tx(ctx, func(tx *Tx) error {
		if err := holdServer(ctx, tx.SQL); err != nil { // nobody imports meanwhile
			return err
		}
		now := s.time()
		host, err := hostOf(ctx, tx.SQL, tenant, r.Asset)
		if err != nil {
			return err
		}
		if host == nil {
			if at, err := retiredAt(ctx, tx.SQL, tenant, r.Asset); err != nil || at != 0 {
				return errors.Join(err, refuse(codeNothingToDo, "it was retired at %s", at))
			}
			return refuse(codeNotFound, "no such asset in the inventory")
		}
		node, err := onlyNode(ctx, tx.SQL, *host)
		if err != nil {
			return err
		}
		done = client.Retired{Host: *host, Node: node, At: now, By: who.token.Principal, Reason: r.Reason}
		if node != "" {
			if err := s.retireNode(ctx, tx, node, now); err != nil {
				return err
			}
		}
		e := ledger.Enrolment{Type: ledger.EnrolmentType, Node: node, Basis: ledger.BasisRetired, Host: host, By: done.By, Reason: r.Reason, Verifier: s.origin}
		document, err := canon.Marshal(e)
		if err != nil {
			return err
		}
		if err := putRetired(ctx, tx.SQL, *host, document, now); err != nil {
			return err
		}
		if err := logEnrolment(ctx, tx, e, now); err != nil {
			return err
		}
		return narrowRackTokens(ctx, tx.SQL, *host, now)
	})
	if err != nil {
		return client.Retired{}, err
	}
	s.log.Info("host retired", "asset", r.Asset, "node", done.Node, "by", done.By)
	return done, nil
}

// onlyNode returns the node that a host is, or nothing; a refusal where it is several.
func onlyNode(ctx context.Context, tx *sql.Tx, host ledger.Host) (string, error) {
	f, err := partOf(ctx, tx, host.Tenant, []ledger.Host{host})
	if err != nil {
		return "", err
	}
	r := enrol.Reconcile(f)
	var are []string
	for _, n := range f.Nodes {
		if i, ok := r.ByNode[n.ID]; ok && f.Hosts[i].Asset == host.Asset {
			are = append(are, n.ID)
		}
	}
	if len(are) == 0 {
		return "", nil
	}
	for _, finding := range r.Findings {
		if finding.Kind == client.FindingDuplicate && (slices.Contains(are, finding.Node) || slices.Contains(are, finding.Other)) {
			return "", refuse(codeConflict, "%s: revoke the wrong one first (assay nodes revoke)", finding.Problem)
		}
	}
	return are[0], nil
}

// retireNode revokes a node whose host is retired, unless a certificate of it stands or is asked for.
func (s *Server) retireNode(ctx context.Context, tx *Tx, node string, now canon.Time) error {
	var revoked int64 // holds the row: nobody asks for a certificate meanwhile
	if err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), node).Scan(&revoked); err != nil {
		return fmt.Errorf("look up node %s: %w", node, err)
	}
	c, certified, err := s.certificateOf(ctx, tx.SQL, "", node)
	if err != nil {
		return err
	}
	if certified && !slices.Contains([]string{vetting.Lapsed, vetting.Revoked, vetting.Rejected}, c.Status) {
		return refuse(codeConflict, "its node %s has certificate %s, which is %s: end it first (assay certify end %s)", node, c.ID, c.Status, c.ID)
	}
	return s.revokeNow(ctx, tx, node, now)
}

// narrowRackTokens has the tokens of a host's rack let in no more nodes than are still to come there.
func narrowRackTokens(ctx context.Context, tx *sql.Tx, host ledger.Host, now canon.Time) error {
	missing, _, err := missingIn(ctx, tx, host.Tenant, host.Site, host.Rack)
	if err != nil {
		return err
	}
	const of = ` id IN (SELECT id FROM rack_token WHERE site = $1 AND rack = $2) AND tenant = $3 AND ended = 0`
	if missing == 0 {
		_, err = tx.ExecContext(ctx, `UPDATE secret SET ended = $4 WHERE`+of, host.Site, host.Rack, host.Tenant, int64(now))
	} else {
		_, err = tx.ExecContext(ctx, `UPDATE rack_token SET uses = used + $4 WHERE uses > used + $4 AND id IN (SELECT id FROM secret WHERE`+of+`)`, host.Site, host.Rack, host.Tenant, missing)
	}
	if err != nil {
		return fmt.Errorf("narrow the tokens of a rack: %w", err)
	}
	return nil
}

// retiredAt returns when an asset was retired, or 0.
func retiredAt(ctx context.Context, q querier, tenant, asset string) (at canon.Time, err error) {
	err = q.QueryRowContext(ctx, `SELECT at FROM retired WHERE tenant = $1 AND asset = $2`, tenant, asset).Scan((*int64)(&at))
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up what was retired: %w", err)
	}
	return at, nil
}

// retirements lists what left a tenant's inventory in the period of a caller's scope, from the one after an asset on.
func (s *Server) retirements(ctx context.Context, who caller, tenant, after string) (client.Retirements, error) {
	list := client.Retirements{Retired: []client.Retired{}}
	var own filter
	own.and(`tenant = ? AND asset > ?`, tenant, after)
	who.ownTime(&own, `at`)
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT at, document FROM retired WHERE `+own.String()+` ORDER BY asset LIMIT `+strconv.Itoa(MaxPage), own.args...)
	if err != nil {
		return list, fmt.Errorf("list what was retired: %w", err)
	}
	defer rows.Close()
	read, last := 0, ""
	for ; rows.Next(); read++ {
		var at canon.Time
		var text string
		if err := rows.Scan((*int64)(&at), &text); err != nil {
			return list, fmt.Errorf("list what was retired: %w", err)
		}
		e, err := ledger.ParseEnrolment([]byte(text))
		if err != nil {
			return list, fmt.Errorf("damaged database: what was retired: %w", err)
		}
		if last = e.Host.Asset; who.inScope(e.Node) {
			list.Retired = append(list.Retired, client.Retired{Host: *e.Host, Node: e.Node, At: at, By: e.By, Reason: e.Reason})
		}
	}
	if read == MaxPage {
		list.After = last
	}
	return list, rows.Err()
}
