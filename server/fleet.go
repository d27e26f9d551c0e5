package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// inventory lists the hosts of a tenant, from the one after an asset on.
func (s *Server) inventory(ctx context.Context, tenant, after string) (client.Inventory, error) {
	list := client.Inventory{Hosts: []client.HostRecord{}}
	f, err := s.fleet(ctx, tenant)
	if err != nil {
		return list, err
	}
	page := 0 // large: each one is reckoned from the whole inventory
	for _, h := range enrol.Reconcile(f).Hosts {
		if h.Host.Asset <= after {
			continue
		}
		if page += 4 + len(h.Host.Devices); page > maxHostsPage {
			list.After = list.Hosts[len(list.Hosts)-1].Host.Asset
			break
		}
		list.Hosts = append(list.Hosts, h)
	}
	return list, nil
}

// reconciliation compares the inventory of a tenant with what nodes show.
func (s *Server) reconciliation(ctx context.Context, tenant string, after int) (client.Reconciliation, error) {
	f, err := s.fleet(ctx, tenant)
	if err != nil {
		return client.Reconciliation{}, err
	}
	r := enrol.Reconcile(f)
	page := client.Reconciliation{Hosts: len(f.Hosts), Nodes: len(f.Nodes), Waiting: len(r.Waiting), Findings: r.Findings[min(after, len(r.Findings)):]}
	if len(page.Findings) > MaxFindings {
		page.Findings, page.After = page.Findings[:MaxFindings], after+MaxFindings
	}
	if page.Findings == nil {
		page.Findings = []client.Finding{}
	}
	return page, nil
}

// fleet reads the inventory and the nodes of a tenant, as of one instant.
func (s *Server) fleet(ctx context.Context, tenant string) (f enrol.Fleet, err error) {
	err = s.store.db.Snapshot(ctx, func(tx *sql.Tx) error {
		f, err = readFleet(ctx, tx, tenant)
		return err
	})
	if err != nil {
		return enrol.Fleet{}, fmt.Errorf("read the inventory and what nodes show: %w", err)
	}
	return f, nil
}

func readFleet(ctx context.Context, tx *sql.Tx, tenant string) (f enrol.Fleet, err error) {
	err = each(ctx, tx, `SELECT document FROM inventory WHERE tenant = $1 ORDER BY asset`, []any{tenant}, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		var h ledger.Host
		if err := canon.Unmarshal([]byte(text), &h); err != nil {
			return fmt.Errorf("damaged database: a host of the inventory: %w", err)
		}
		f.Hosts = append(f.Hosts, h)
		return nil
	})
	if err != nil {
		return f, err
	}
	at := map[string]int{}
	err = each(ctx, tx, `SELECT id, joined, COALESCE(site, ''), COALESCE(rack, ''), COALESCE(outcome, ''), COALESCE(decided, 0)
		FROM node LEFT JOIN placement ON placement.node = id
		LEFT JOIN submission ON evidence = (SELECT evidence FROM submission WHERE submission.node = id AND state = 'decided' ORDER BY received DESC, decided DESC LIMIT 1)
		WHERE node.tenant = $1 AND revoked = 0 ORDER BY id`, []any{tenant}, func(scan func(...any) error) error {
		var n enrol.Node
		if err := scan(&n.ID, (*int64)(&n.Joined), &n.Site, &n.Rack, &n.Verdict, (*int64)(&n.Decided)); err != nil {
			return err
		}
		at[n.ID] = len(f.Nodes)
		f.Nodes = append(f.Nodes, n)
		return nil
	})
	if err != nil {
		return f, err
	}
	devices := func(query string, take func(*enrol.Node, ledger.Device)) error {
		return each(ctx, tx, query, nil, func(scan func(...any) error) error {
			var node string
			var d ledger.Device
			if err := scan(&node, &d.Kind, (*[]byte)(&d.Value), (*[]byte)(&d.Alias)); err != nil {
				return err
			}
			if i, ok := at[node]; ok {
				take(&f.Nodes[i], d)
			}
			return nil
		})
	}
	err = errors.Join(
		devices(`SELECT node, kind, value, alias FROM shown ORDER BY node, kind, value`, func(n *enrol.Node, d ledger.Device) { n.Proven = append(n.Proven, d) }),
		devices(`SELECT DISTINCT node, '`+attest.IdentityTPMEK+`', ek, NULL FROM activation ORDER BY node, ek`, func(n *enrol.Node, d ledger.Device) {
			if !slices.ContainsFunc(n.Proven, func(o ledger.Device) bool { return o.Compare(d) == 0 }) {
				n.Proven = append(n.Proven, d)
			}
		}),
		devices(`SELECT node, kind, value, NULL FROM device ORDER BY node, kind, value`, func(n *enrol.Node, d ledger.Device) { n.Holds = append(n.Holds, d) }),
		each(ctx, tx, `SELECT kind, value, alias FROM device_alias ORDER BY alias`, nil, func(scan func(...any) error) error {
			var d ledger.Device
			if err := scan(&d.Kind, (*[]byte)(&d.Value), (*[]byte)(&d.Alias)); err != nil {
				return err
			}
			f.Aliases = append(f.Aliases, d)
			return nil
		}),
	)
	return f, err
}

// each runs a query and a function for every row of it.
func each(ctx context.Context, tx *sql.Tx, query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// placeOf says what the inventory says of a node.
func (s *Server) placeOf(ctx context.Context, node string) (client.Place, error) {
	var tenant string
	if err := s.store.db.Reader().QueryRowContext(ctx, `SELECT tenant FROM node WHERE id = $1`, node).Scan(&tenant); err != nil {
		return client.Place{}, fmt.Errorf("read whose a node is: %w", err)
	}
	f, err := s.fleet(ctx, tenant)
	if err != nil || len(f.Hosts) == 0 {
		return client.Place{State: client.PlaceNone}, err
	}
	r := enrol.Reconcile(f)
	p := client.Place{State: client.PlaceMatched}
	if slices.Contains(r.Waiting, node) {
		p.State = client.PlaceNone
	}
	if i, ok := r.ByNode[node]; ok {
		p.Asset, p.Site, p.Rack = f.Hosts[i].Asset, f.Hosts[i].Site, f.Hosts[i].Rack
	}
	for _, finding := range r.Findings {
		switch {
		case finding.Node == node:
			if p.State == client.PlaceMatched || finding.Kind == client.FindingDuplicate || finding.Device.Kind == "" {
				p.State = finding.Kind
			}
		case finding.Other == node: // it keeps its standing, and is told
		default:
			continue
		}
		p.Findings = append(p.Findings, finding)
	}
	return p, nil
}

// recordShown keeps and logs what a node's evidence showed, where it is not what the node showed before.
func (s *Server) recordShown(ctx context.Context, tx *Tx, t takenEvidence, shown []ledger.Device, now canon.Time) error {
	if len(shown) == 0 || len(shown) > ledger.MaxDevices {
		return nil
	}
	var before []ledger.Device
	err := each(ctx, tx.SQL, `SELECT kind, value, alias FROM shown WHERE node = $1 ORDER BY kind, value`, []any{t.node}, func(scan func(...any) error) error {
		var d ledger.Device
		err := scan(&d.Kind, (*[]byte)(&d.Value), (*[]byte)(&d.Alias))
		before = append(before, d)
		return err
	})
	if err != nil {
		return fmt.Errorf("read what a node showed: %w", err)
	}
	slices.SortFunc(before, ledger.Device.Compare)
	if slices.EqualFunc(before, shown, func(a, b ledger.Device) bool { return a.Compare(b) == 0 && slices.Equal(a.Alias, b.Alias) }) {
		return nil
	}
	var revoked int64
	if err := tx.SQL.QueryRowContext(ctx, `SELECT revoked FROM node WHERE id = $1`+s.store.db.ForUpdate(), t.node).Scan(&revoked); err != nil || revoked != 0 {
		return err
	}
	if err := putShown(ctx, tx.SQL, t.node, shown); err != nil {
		return err
	}
	if err := s.alarmShared(ctx, tx, t.node, shown); err != nil {
		return err
	}
	return logEnrolment(ctx, tx, ledger.Enrolment{
		Type: ledger.EnrolmentType, Node: t.node, Basis: ledger.BasisShown, Devices: shown, Evidence: t.digest, Verifier: s.origin,
	}, now, t.digest)
}

// alarmShared tells of devices that another node shows too: one of the two has it.
func (s *Server) alarmShared(ctx context.Context, tx *Tx, node string, shown []ledger.Device) error {
	for _, d := range shown {
		err := each(ctx, tx.SQL, `SELECT node FROM shown WHERE kind = $1 AND value = $2 AND node <> $3 ORDER BY node`, []any{d.Kind, []byte(d.Value), node}, func(scan func(...any) error) error {
			var other string
			err := scan(&other)
			s.alarm("two nodes show one device", "device", d.Kind+" "+d.Value.String(), "node", node, "other", other)
			return err
		})
		if err != nil {
			return fmt.Errorf("look for who else shows a device: %w", err)
		}
	}
	return nil
}

// What follows from an entry of the log, in the tables that are a cache of it, see state.go.

// dropHostDevices lets a host of the inventory have no devices, before it gets those of another revision.
func dropHostDevices(ctx context.Context, tx *sql.Tx, h ledger.Host) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM inventory_device WHERE tenant = $1 AND asset = $2`, h.Tenant, h.Asset); err != nil {
		return fmt.Errorf("store a host of the inventory: %w", err)
	}
	return nil
}

// putHost stores a revision of a host, which has no devices before.
func putHost(ctx context.Context, tx *sql.Tx, h ledger.Host) error {
	document, err := canon.Marshal(h)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO inventory(tenant, asset, site, rack, document) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, asset) DO UPDATE SET site = excluded.site, rack = excluded.rack, document = excluded.document`, h.Tenant, h.Asset, h.Site, h.Rack, string(document))
	if err != nil {
		return fmt.Errorf("store a host of the inventory: %w", err)
	}
	// A device that another host gave up in the same request, of which the entry may come later.
	err = insertRows(ctx, tx, `INSERT INTO inventory_device(tenant, kind, value, asset)`, ` ON CONFLICT (tenant, kind, value) DO UPDATE SET asset = excluded.asset`, 4, len(h.Devices), func(i int, args []any) []any {
		return append(args, h.Tenant, h.Devices[i].Kind, []byte(h.Devices[i].Value), h.Asset)
	})
	if err != nil {
		return fmt.Errorf("store a host of the inventory: %w", err)
	}
	return nil
}

// putPlacement keeps which rack's token let a node in; none: another token did.
func putPlacement(ctx context.Context, tx *sql.Tx, node, site, rack string) error {
	if rack == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO placement(node, site, rack) VALUES ($1, $2, $3)`, node, site, rack); err != nil {
		return fmt.Errorf("store where a node is: %w", err)
	}
	return nil
}

// putShown keeps what a node showed last, and what those devices were called.
func putShown(ctx context.Context, tx *sql.Tx, node string, shown []ledger.Device) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM shown WHERE node = $1`, node); err != nil {
		return fmt.Errorf("store what a node showed: %w", err)
	}
	for _, d := range shown {
		if _, err := tx.ExecContext(ctx, `INSERT INTO shown(node, kind, value, alias) VALUES ($1, $2, $3, $4)`, node, d.Kind, []byte(d.Value), []byte(d.Alias)); err != nil {
			return fmt.Errorf("store what a node showed: %w", err)
		}
		if len(d.Alias) == 0 {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO device_alias(alias, kind, value) VALUES ($1, $2, $3)
			ON CONFLICT (alias) DO UPDATE SET kind = excluded.kind, value = excluded.value`, []byte(d.Alias), d.Kind, []byte(d.Value))
		if err != nil {
			return fmt.Errorf("store what a device is called: %w", err)
		}
	}
	return nil
}
