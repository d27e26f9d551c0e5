package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// inventory lists the hosts of a tenant that a caller may know of, from the one after an asset on.
func (s *Server) inventory(ctx context.Context, who caller, tenant, after string) (client.Inventory, error) {
	list := client.Inventory{Hosts: []client.HostRecord{}, At: s.time()}
	f, err := s.fleetFor(ctx, who, tenant)
	if err != nil {
		return list, err
	}
	r := enrol.Reconcile(f)
	for _, node := range r.Waiting {
		if who.inScope(node) {
			list.Waiting++
		}
	}
	page := 0 // large: each one is reckoned from the whole inventory
	for _, h := range r.Hosts {
		if h.Host.Asset <= after || !who.inScope(h.Node) {
			continue
		}
		if !who.within(h.Decided) {
			h.Decided = 0
			if h.Node != "" {
				h.State = client.HostJoined
			}
		}
		if page += 4 + len(h.Host.Devices); page > maxHostsPage {
			list.After = list.Hosts[len(list.Hosts)-1].Host.Asset
			break
		}
		list.Hosts = append(list.Hosts, h)
	}
	return list, nil
}

// reconciliation compares the inventory of a tenant with what nodes show, as far as a caller may know of it.
func (s *Server) reconciliation(ctx context.Context, who caller, tenant string, after int) (client.Reconciliation, error) {
	f, err := s.fleetFor(ctx, who, tenant)
	if err != nil {
		return client.Reconciliation{}, err
	}
	r := enrol.Reconcile(f)
	outside := func(node string) bool { return !who.inScope(node) }
	r.Hosts = slices.DeleteFunc(r.Hosts, func(h client.HostRecord) bool { return outside(h.Node) })
	f.Nodes = slices.DeleteFunc(f.Nodes, func(n enrol.Node) bool { return outside(n.ID) })
	r.Waiting = slices.DeleteFunc(r.Waiting, outside)
	r.Findings = slices.DeleteFunc(r.Findings, func(f client.Finding) bool { // one that names a node outside is not told at all
		return outside(f.Node) || f.Other != "" && outside(f.Other)
	})
	page := client.Reconciliation{Hosts: len(r.Hosts), Nodes: len(f.Nodes), Waiting: len(r.Waiting), Findings: r.Findings[min(after, len(r.Findings)):]}
	if len(page.Findings) > MaxFindings {
		page.Findings, page.After = page.Findings[:MaxFindings], after+MaxFindings
	}
	if page.Findings == nil {
		page.Findings = []client.Finding{}
	}
	return page, nil
}

// fleetFor reads the fleet of a tenant for a caller, whose scope has to hold now: what stood at another time, the entries of
// the log say.
func (s *Server) fleetFor(ctx context.Context, who caller, tenant string) (enrol.Fleet, error) {
	if !who.within(s.time()) {
		return enrol.Fleet{}, refuse(codeNotFound, "this is how things stand now, which your scope has not: the log's entries say how they stood in its period")
	}
	return s.fleet(ctx, tenant)
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
	if f.Hosts, err = readHosts(ctx, tx, `tenant = $1`, tenant); err != nil {
		return f, err
	}
	if f.Nodes, err = readNodes(ctx, tx, `node.tenant = $1`, tenant); err != nil {
		return f, err
	}
	at := map[string]int{}
	for i, n := range f.Nodes {
		at[n.ID] = i
	}
	err = readShown(ctx, tx, `1 = 1`, nil, func(node string) *enrol.Node {
		if i, ok := at[node]; ok {
			return &f.Nodes[i]
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	f.Aliases, err = readAliases(ctx, tx, `1 = 1`)
	return f, err
}

// readHosts reads hosts of the inventory, in the order of their assets.
func readHosts(ctx context.Context, tx *sql.Tx, where string, args ...any) (hosts []ledger.Host, err error) {
	err = each(ctx, tx, `SELECT document FROM inventory WHERE `+where+` ORDER BY asset`, args, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		var h ledger.Host
		if err := canon.Unmarshal([]byte(text), &h); err != nil {
			return fmt.Errorf("damaged database: a host of the inventory: %w", err)
		}
		hosts = append(hosts, h)
		return nil
	})
	return hosts, err
}

// readNodes reads nodes that were not revoked, in the order of their ids, without their devices.
func readNodes(ctx context.Context, tx *sql.Tx, where string, args ...any) (nodes []enrol.Node, err error) {
	err = each(ctx, tx, `SELECT id, joined, COALESCE(site, ''), COALESCE(rack, ''), COALESCE(outcome, ''), COALESCE(decided, 0)
		FROM node LEFT JOIN placement ON placement.node = id
		LEFT JOIN submission ON evidence = (SELECT evidence FROM submission WHERE submission.node = id AND state = 'decided' ORDER BY received DESC, decided DESC LIMIT 1)
		WHERE `+where+` AND revoked = 0 ORDER BY id`, args, func(scan func(...any) error) error {
		var n enrol.Node
		err := scan(&n.ID, (*int64)(&n.Joined), &n.Site, &n.Rack, &n.Verdict, (*int64)(&n.Decided))
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// readShown reads what nodes have proven and what they hold. node returns the node of an id, or nil.
func readShown(ctx context.Context, tx *sql.Tx, where string, args []any, node func(id string) *enrol.Node) error {
	devices := func(query string, take func(*enrol.Node, ledger.Device)) error {
		return each(ctx, tx, query, args, func(scan func(...any) error) error {
			var id string
			var d ledger.Device
			if err := scan(&id, &d.Kind, (*[]byte)(&d.Value), (*[]byte)(&d.Alias)); err != nil {
				return err
			}
			if n := node(id); n != nil {
				take(n, d)
			}
			return nil
		})
	}
	return errors.Join(
		devices(`SELECT node, kind, value, alias FROM shown WHERE `+where+` ORDER BY node, kind, value`, func(n *enrol.Node, d ledger.Device) { n.Proven = append(n.Proven, d) }),
		devices(`SELECT DISTINCT node, '`+attest.IdentityTPMEK+`', ek, NULL FROM activation WHERE `+where+` ORDER BY node, ek`, func(n *enrol.Node, d ledger.Device) {
			if !slices.ContainsFunc(n.Proven, func(o ledger.Device) bool { return o.Compare(d) == 0 }) {
				n.Proven = append(n.Proven, d)
			}
		}),
		devices(`SELECT node, kind, value, NULL FROM device WHERE `+where+` ORDER BY node, kind, value`, func(n *enrol.Node, d ledger.Device) { n.Holds = append(n.Holds, d) }),
	)
}

// readAliases reads what devices were ever called, in the order of the names.
func readAliases(ctx context.Context, tx *sql.Tx, where string, args ...any) (aliases []ledger.Device, err error) {
	err = each(ctx, tx, `SELECT kind, value, alias FROM device_alias WHERE `+where+` ORDER BY alias`, args, func(scan func(...any) error) error {
		var d ledger.Device
		err := scan(&d.Kind, (*[]byte)(&d.Value), (*[]byte)(&d.Alias))
		aliases = append(aliases, d)
		return err
	})
	return aliases, err
}

// fleetPart is the part of a tenant's fleet on which rests what [enrol.Reconcile] says of some hosts or of some nodes: what
// it says of the others that are in it is for nobody.
type fleetPart struct {
	tx     *sql.Tx
	tenant string
	f      enrol.Fleet
	have   map[string]bool // "host ASSET", "node ID" and "alias BYTES" that were read, or are not there
}

// partOf reads the part of a fleet that concerns some hosts of it, and some nodes of which it knows the ids: the hosts that
// list what those nodes show, the nodes that show what the hosts list or the nodes show, and the hosts that these nodes are.
func partOf(ctx context.Context, tx *sql.Tx, tenant string, hosts []ledger.Host, nodes ...string) (enrol.Fleet, error) {
	p := fleetPart{tx: tx, tenant: tenant, have: map[string]bool{}}
	for _, h := range hosts {
		p.addHost(h)
	}
	for _, id := range nodes {
		if err := p.addNode(ctx, id); err != nil {
			return p.f, err
		}
	}
	asked := len(p.f.Nodes)
	for _, n := range p.f.Nodes {
		for _, d := range n.Proven {
			if err := p.hostsWith(ctx, d); err != nil {
				return p.f, err
			}
		}
	}
	for _, n := range slices.Clone(p.f.Nodes[:asked]) {
		for _, d := range n.Proven {
			if err := p.nodesWith(ctx, d); err != nil {
				return p.f, err
			}
		}
	}
	for _, h := range slices.Clone(p.f.Hosts) {
		for _, d := range h.Devices {
			if err := p.nodesThatAre(ctx, d); err != nil {
				return p.f, err
			}
		}
	}
	for _, n := range p.f.Nodes[asked:] {
		for _, d := range n.Proven {
			if err := p.hostsWith(ctx, d); err != nil {
				return p.f, err
			}
		}
	}
	slices.SortFunc(p.f.Hosts, func(a, b ledger.Host) int { return strings.Compare(a.Asset, b.Asset) })
	slices.SortFunc(p.f.Nodes, func(a, b enrol.Node) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.f.Aliases, func(a, b ledger.Device) int { return slices.Compare(a.Alias, b.Alias) })
	return p.f, nil
}

// first reports whether something is met for the first time.
func (p *fleetPart) first(what string) bool {
	defer func() { p.have[what] = true }()
	return !p.have[what]
}

func (p *fleetPart) addHost(h ledger.Host) {
	if p.first("host " + h.Asset) {
		p.f.Hosts = append(p.f.Hosts, h)
	}
}

func (p *fleetPart) addNode(ctx context.Context, id string) error {
	if !p.first("node " + id) {
		return nil
	}
	nodes, err := readNodes(ctx, p.tx, `node.tenant = $1 AND node.id = $2`, p.tenant, id)
	if err != nil || len(nodes) == 0 {
		return err
	}
	err = readShown(ctx, p.tx, `node = $1`, []any{id}, func(string) *enrol.Node { return &nodes[0] })
	p.f.Nodes = append(p.f.Nodes, nodes[0])
	return err
}

// addAliases adds names of devices, and returns those of a condition.
func (p *fleetPart) addAliases(ctx context.Context, where string, arg []byte) ([]ledger.Device, error) {
	aliases, err := readAliases(ctx, p.tx, where, arg)
	for _, a := range aliases {
		if p.first("alias " + string(a.Alias)) {
			p.f.Aliases = append(p.f.Aliases, a)
		}
	}
	return aliases, err
}

// hostsWith adds the hosts that list a device which a node shows: a GPU by its PDI, by its name of today or by any before.
func (p *fleetPart) hostsWith(ctx context.Context, d ledger.Device) error {
	listed := []ledger.Device{d}
	if enrol.IsGPU(d.Kind) {
		aliases, err := p.addAliases(ctx, `value = $1`, d.Value)
		if err != nil {
			return err
		}
		listed = []ledger.Device{{Kind: enrol.KindPDI, Value: d.Value}, {Kind: enrol.KindLeaf, Value: d.Alias}}
		for _, a := range aliases {
			listed = append(listed, ledger.Device{Kind: enrol.KindLeaf, Value: a.Alias})
		}
	}
	for _, l := range listed {
		hosts, err := readHosts(ctx, p.tx, `tenant = $1 AND asset IN (SELECT asset FROM inventory_device WHERE tenant = $1 AND kind = $2 AND value = $3)`, p.tenant, l.Kind, []byte(l.Value))
		if err != nil {
			return err
		}
		for _, h := range hosts {
			p.addHost(h)
		}
	}
	return nil
}

// nodesWith adds the nodes that show a device.
func (p *fleetPart) nodesWith(ctx context.Context, d ledger.Device) error {
	if err := p.addNodes(ctx, `SELECT node FROM shown WHERE kind = $1 AND value = $2`, d.Kind, []byte(d.Value)); err != nil || d.Kind != attest.IdentityTPMEK {
		return err
	}
	return p.addNodes(ctx, `SELECT node FROM activation WHERE ek = $1`, []byte(d.Value))
}

// nodesThatAre adds the nodes that show a device which a host lists.
func (p *fleetPart) nodesThatAre(ctx context.Context, listed ledger.Device) error {
	switch listed.Kind {
	case enrol.KindPDI:
		return p.addNodes(ctx, `SELECT node FROM shown WHERE value = $1`, []byte(listed.Value))
	case enrol.KindLeaf:
		aliases, err := p.addAliases(ctx, `alias = $1`, listed.Value)
		if err != nil {
			return err
		}
		for _, a := range aliases {
			if err := p.addNodes(ctx, `SELECT node FROM shown WHERE value = $1`, []byte(a.Value)); err != nil {
				return err
			}
		}
		return p.addNodes(ctx, `SELECT node FROM shown WHERE alias = $1`, []byte(listed.Value))
	}
	return p.nodesWith(ctx, listed)
}

func (p *fleetPart) addNodes(ctx context.Context, query string, args ...any) error {
	rows, err := p.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	ids, err := texts(rows)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := p.addNode(ctx, id); err != nil {
			return err
		}
	}
	return nil
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
func (s *Server) placeOf(ctx context.Context, node string) (p client.Place, err error) {
	none := client.Place{State: client.PlaceNone}
	var f enrol.Fleet
	err = s.store.db.Snapshot(ctx, func(tx *sql.Tx) error {
		var tenant string
		var any bool
		f = enrol.Fleet{}
		if err := tx.QueryRowContext(ctx, `SELECT tenant, EXISTS (SELECT 1 FROM inventory WHERE inventory.tenant = node.tenant) FROM node WHERE id = $1`, node).Scan(&tenant, &any); err != nil || !any {
			return err
		}
		f, err = partOf(ctx, tx, tenant, nil, node)
		return err
	})
	if err != nil {
		return none, fmt.Errorf("read what the inventory says of a node: %w", err)
	}
	if len(f.Nodes) == 0 { // there is no inventory
		return none, nil
	}
	return placeIn(f, node), nil
}

// placeIn says what a fleet's inventory says of a node of it.
func placeIn(f enrol.Fleet, node string) client.Place {
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
	return p
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

// putRetired takes a host out of the inventory, and keeps the document that says so. Its devices are nobody's in the inventory.
func putRetired(ctx context.Context, tx *sql.Tx, h ledger.Host, document []byte, at canon.Time) error {
	if err := dropHostDevices(ctx, tx, h); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM inventory WHERE tenant = $1 AND asset = $2`, h.Tenant, h.Asset); err != nil {
		return fmt.Errorf("retire asset %s: %w", h.Asset, err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO retired(tenant, asset, at, document) VALUES ($1, $2, $3, $4)`, h.Tenant, h.Asset, int64(at), string(document)); err != nil {
		return fmt.Errorf("retire asset %s: %w", h.Asset, err)
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
