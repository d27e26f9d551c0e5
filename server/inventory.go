package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Limits on an inventory.
const (
	MaxImport    = 1 << 20 // bytes of one request that imports hosts: what the loader of documents reads
	MaxPerImport = 256     // hosts of it
	MaxInventory = 50_000  // hosts of one tenant
	MaxFindings  = 2048    // of one answer
	maxHostsPage = 16384   // of one answer: 4 for each host and 1 for each device of it, of 256 bytes at most
)

// Lives of tokens for racks.
const (
	DefaultRackTokenLife = 7 * 24 * time.Hour
	MaxRackTokenLife     = 30 * 24 * time.Hour
	minRackTokenLife     = time.Minute
)

// Inputs of operations on the inventory.
type (
	importInput struct {
		Body client.ImportRequest
	}
	inventoryInput struct {
		Tenant string `query:"tenant" doc:"whose, for an admin and an auditor of the house; absent: the caller's own"`
		After  string `query:"after" doc:"an asset: the page begins after it"`
	}
	reconciliationInput struct {
		Tenant string `query:"tenant" doc:"whose, for an admin and an auditor of the house; absent: the caller's own"`
		After  int    `query:"after" minimum:"0" doc:"number of findings that were read"`
	}
	rackTokenInput struct {
		Body client.RackTokenRequest
	}
	rackTokensInput struct {
		Tenant string `query:"tenant" doc:"whose, for an admin and an auditor of the house; absent: the caller's own"`
		After  string `query:"after" doc:"id of a token: the page begins after it"`
		All    bool   `query:"all" doc:"also those that let nobody in any more"`
	}
	retireInput struct {
		Body client.RetireRequest
	}
)

func (s *Server) inventoryOperations(api huma.API) {
	register(s, api, operation(http.MethodPost, "/v1/inventory", "importHosts", "Hand in hosts that are to come", http.StatusCreated, MaxImport, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *importInput) (*answer[client.Imported], error) {
			return answered(s.importHosts(ctx, tenantOf(ctx), in.Body.Hosts))
		})
	register(s, api, operation(http.MethodGet, "/v1/inventory", "inventory", "List the hosts of the inventory and what became of each", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *inventoryInput) (*answer[client.Inventory], error) {
			tenant, err := callerOf(ctx).tenantFor(in.Tenant)
			if err != nil {
				return nil, err
			}
			return answered(s.inventory(ctx, callerOf(ctx), tenant, in.After))
		})
	register(s, api, operation(http.MethodGet, "/v1/reconciliation", "reconciliation", "Compare the inventory with what nodes show", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *reconciliationInput) (*answer[client.Reconciliation], error) {
			tenant, err := callerOf(ctx).tenantFor(in.Tenant)
			if err != nil {
				return nil, err
			}
			return answered(s.reconciliation(ctx, callerOf(ctx), tenant, in.After))
		})
	register(s, api, operation(http.MethodPost, "/v1/rack-tokens", "rackToken", "Make a token that lets the hosts of one rack in", http.StatusCreated, MaxJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *rackTokenInput) (*answer[client.RackToken], error) {
			return answered(s.newRackToken(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/rack-tokens", "rackTokens", "List the tokens of racks, without their texts", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *rackTokensInput) (*answer[client.RackTokens], error) {
			tenant, err := callerOf(ctx).tenantFor(in.Tenant)
			if err != nil {
				return nil, err
			}
			return answered(s.rackTokens(ctx, callerOf(ctx), tenant, in.After, in.All))
		})
	register(s, api, operation(http.MethodPost, "/v1/retirements", "retire", "Take a host out of the inventory, for good, and revoke the node that it is", http.StatusCreated, MaxJSON, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *retireInput) (*answer[client.Retired], error) {
			return answered(s.retire(ctx, callerOf(ctx), in.Body))
		})
	register(s, api, operation(http.MethodGet, "/v1/retirements", "retirements", "List the hosts that were taken out of the inventory", http.StatusOK, 0, schemeOperator, schemeAuditor, schemeAdmin),
		func(ctx context.Context, in *inventoryInput) (*answer[client.Retirements], error) {
			tenant, err := callerOf(ctx).tenantFor(in.Tenant)
			if err != nil {
				return nil, err
			}
			return answered(s.retirements(ctx, callerOf(ctx), tenant, in.After))
		})
	register(s, api, operation(http.MethodDelete, "/v1/rack-tokens/{token}", "revokeRackToken", "Revoke the token of a rack", http.StatusNoContent, 0, schemeOperator, schemeAdmin),
		func(ctx context.Context, in *tokenInput) (*empty, error) {
			return &empty{}, s.revokeRackToken(ctx, callerOf(ctx), in.ID)
		})
	register(s, api, operation(http.MethodGet, "/v1/place", "place", "Ask what the inventory says of the node that asks", http.StatusOK, 0, schemeNode),
		func(ctx context.Context, _ *empty) (*answer[client.Place], error) {
			return answered(s.placeOf(ctx, callerOf(ctx).node))
		})
}

// tenantOf returns whose inventory a caller means: its own. That of an admin is the verifier's own house's.
func tenantOf(ctx context.Context) string { return callerOf(ctx).token.Grant.Tenant }

// importHosts takes what an operator says of its hosts. What is not as it was before becomes another revision, with an
// entry of its own; all else is left alone, so that the same file handed in twice changes nothing. A refused host stops no
// other.
func (s *Server) importHosts(ctx context.Context, tenant string, hosts []ledger.Host) (client.Imported, error) {
	if len(hosts) > MaxPerImport {
		return client.Imported{}, refuse(codeTooLarge, "%d hosts, at most %d in one request", len(hosts), MaxPerImport)
	}
	var done client.Imported
	err := s.store.Tx(ctx, func(tx *Tx) error {
		done = client.Imported{Hosts: make([]client.HostImported, len(hosts))}
		if err := holdServer(ctx, tx.SQL); err != nil { // two that import at once would count the same revision
			return err
		}
		var have int
		if err := tx.SQL.QueryRowContext(ctx, `SELECT COUNT(*) FROM inventory WHERE tenant = $1`, tenant).Scan(&have); err != nil {
			return fmt.Errorf("count the inventory: %w", err)
		}
		now := s.time()
		changed := make([]*ledger.Host, len(hosts))
		for i, h := range hosts {
			h.Tenant, h.Revision = tenant, 1
			done.Hosts[i] = client.HostImported{Asset: h.Asset, State: client.HostAdded}
			if err := h.Validate(); err != nil {
				refuseHost(&done.Hosts[i], "", codeMalformed, err.Error(), "use the newest `assay enrol import`")
				continue
			}
			old, err := hostOf(ctx, tx.SQL, tenant, h.Asset)
			if err != nil {
				return err
			}
			gone, err := retiredAt(ctx, tx.SQL, tenant, h.Asset)
			if err != nil {
				return err
			}
			if gone != 0 {
				refuseHost(&done.Hosts[i], "asset", enrol.CodeRetired, fmt.Sprintf("asset %s was retired at %s", h.Asset, gone), "take the row out of the file; a machine that comes back gets an asset name of its own")
				continue
			}
			if old == nil {
				have++
			}
			switch {
			case slices.ContainsFunc(hosts[:i], func(o ledger.Host) bool { return o.Asset == h.Asset }):
				refuseHost(&done.Hosts[i], "asset", enrol.CodeDuplicate, "the request has the asset twice", "hand each host in once")
				continue
			case old != nil && old.Same(h):
				done.Hosts[i].State = client.HostUnchanged
				continue
			case old != nil:
				h.Revision, done.Hosts[i].State = old.Revision+1, client.HostChanged
			case have > MaxInventory:
				have--
				refuseHost(&done.Hosts[i], "", codeTooLarge, fmt.Sprintf("the inventory has %d hosts, and no more fit", MaxInventory), "ask the verifier's operator")
				continue
			}
			changed[i] = &h
		}
		return s.takeHosts(ctx, tx, changed, done.Hosts, now)
	})
	if err == nil {
		counts := map[string]int{}
		for _, h := range done.Hosts {
			counts[h.State]++
		}
		s.log.Info("hosts imported", "added", counts[client.HostAdded], "changed", counts[client.HostChanged], "unchanged", counts[client.HostUnchanged], "refused", counts[client.HostRefused])
	}
	return done, err
}

// takeHosts stores those hosts that are not nil, and refuses whose device another host has when all of them are as they say:
// so a device may go from one host to another within one request, and two may swap.
func (s *Server) takeHosts(ctx context.Context, tx *Tx, hosts []*ledger.Host, done []client.HostImported, now canon.Time) error {
	type id struct{ kind, value string }
	for again := true; again; {
		again = false
		ours, claimed := map[string]bool{}, map[id]string{}
		for _, h := range hosts {
			if h != nil {
				ours[h.Asset] = true
			}
		}
		for i, h := range hosts {
			if h == nil {
				continue
			}
			for _, d := range h.Devices {
				holder := claimed[id{d.Kind, string(d.Value)}]
				if holder == "" {
					err := tx.SQL.QueryRowContext(ctx, `SELECT asset FROM inventory_device WHERE tenant = $1 AND kind = $2 AND value = $3`, h.Tenant, d.Kind, []byte(d.Value)).Scan(&holder)
					if err != nil && !errors.Is(err, sql.ErrNoRows) {
						return fmt.Errorf("look up a device of the inventory: %w", err)
					}
					if holder == h.Asset || ours[holder] {
						holder = "" // says anew what it has
					}
				}
				if holder != "" {
					refuseHost(&done[i], enrol.ColumnOf(d.Kind), enrol.CodeTaken, fmt.Sprintf("%s %s is that of asset %s in the inventory", d.Kind, d.Value, holder), "find out which machine has it, and take it from the other row")
					hosts[i], again = nil, true // what it would have given up, it keeps
					break
				}
				claimed[id{d.Kind, string(d.Value)}] = h.Asset
			}
		}
	}
	for _, h := range hosts {
		if h != nil {
			if err := dropHostDevices(ctx, tx.SQL, *h); err != nil {
				return err
			}
		}
	}
	for _, h := range hosts {
		if h == nil {
			continue
		}
		if err := putHost(ctx, tx.SQL, *h); err != nil {
			return err
		}
		if err := logEnrolment(ctx, tx, ledger.Enrolment{Type: ledger.EnrolmentType, Basis: ledger.BasisInventory, Host: h, Verifier: s.origin}, now); err != nil {
			return err
		}
	}
	return nil
}

func refuseHost(h *client.HostImported, column, code, problem, fix string) {
	h.State, h.Column, h.Code, h.Problem, h.Fix = client.HostRefused, column, code, problem, fix
}

// hostOf returns a host of the inventory, or nil.
func hostOf(ctx context.Context, q querier, tenant, asset string) (*ledger.Host, error) {
	var text string
	err := q.QueryRowContext(ctx, `SELECT document FROM inventory WHERE tenant = $1 AND asset = $2`, tenant, asset).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	var h ledger.Host
	if err := canon.Unmarshal([]byte(text), &h); err != nil {
		return nil, fmt.Errorf("damaged database: host %s of the inventory: %w", asset, err)
	}
	return &h, nil
}

// newRackToken makes a token that lets the hosts of a rack in that are to come: as many nodes as the inventory has hosts
// there of which no node is.
func (s *Server) newRackToken(ctx context.Context, who caller, r client.RackTokenRequest) (client.RackToken, error) {
	tenant := who.token.Grant.Tenant
	life := time.Duration(r.Life) * time.Second
	switch {
	case r.Life == 0:
		life = DefaultRackTokenLife
	case r.Life < 0 || r.Life > int64(MaxRackTokenLife/time.Second) || life < minRackTokenLife:
		return client.RackToken{}, refuse(codeMalformed, "a life of %s, want %s to %s", inWords(r.Life), minRackTokenLife, MaxRackTokenLife)
	}
	hosts, uses := 0, int64(0)
	err := s.store.db.Snapshot(ctx, func(tx *sql.Tx) error {
		missing, all, err := missingIn(ctx, tx, tenant, r.Site, r.Rack)
		hosts, uses = all, int64(missing)
		return err
	})
	if err != nil {
		return client.RackToken{}, fmt.Errorf("read the inventory of a rack: %w", err)
	}
	switch {
	case hosts == 0:
		return client.RackToken{}, refuse(codeNotFound, "the inventory has no host in site %.80q, rack %.80q", r.Site, r.Rack)
	case uses == 0:
		return client.RackToken{}, refuse(codeNothingToDo, "all %d hosts of site %s, rack %s are there", hosts, r.Site, r.Rack)
	}
	secret, err := s.newSecret(useJoin)
	if err != nil {
		return client.RackToken{}, err
	}
	now := s.time()
	expires := now + seconds(life)
	err = s.store.Tx(ctx, func(tx *Tx) error {
		if err := secret.insert(ctx, tx, owner{tenant: tenant, madeBy: who.token.Principal}, now, expires); err != nil {
			return err
		}
		_, err := tx.SQL.ExecContext(ctx, `INSERT INTO rack_token(id, site, rack, uses, used) VALUES ($1, $2, $3, $4, 0)`, secret.id, r.Site, r.Rack, uses)
		return err
	})
	if err != nil {
		return client.RackToken{}, fmt.Errorf("store the token of a rack: %w", err)
	}
	key, err := s.signer(ctx, ledger.UseResult, s.time())
	if err != nil {
		return client.RackToken{}, err
	}
	text := client.Token{Secret: secret.text, Fingerprint: key.ID()}.String()
	return client.RackToken{ID: secret.id, Site: r.Site, Rack: r.Rack, Token: text, Uses: uses, Made: now, MadeBy: who.token.Principal, Expires: expires}, nil
}

// missingIn counts the hosts of a rack, and those of them of which no node is.
func missingIn(ctx context.Context, tx *sql.Tx, tenant, site, rack string) (missing, all int, err error) {
	records, err := hostsIn(ctx, tx, tenant, site, rack)
	for _, h := range records {
		if h.State == client.HostMissing {
			missing++
		}
	}
	return missing, len(records), err
}

// hostsIn returns the hosts of a rack and what became of each.
func hostsIn(ctx context.Context, tx *sql.Tx, tenant, site, rack string) ([]client.HostRecord, error) {
	hosts, err := readHosts(ctx, tx, `tenant = $1 AND site = $2 AND rack = $3`, tenant, site, rack)
	if err != nil {
		return nil, err
	}
	f, err := partOf(ctx, tx, tenant, hosts)
	if err != nil {
		return nil, err
	}
	var out []client.HostRecord
	for _, h := range enrol.Reconcile(f).Hosts {
		if h.Host.Site == site && h.Host.Rack == rack {
			out = append(out, h)
		}
	}
	return out, nil
}

// rackTokens lists the tokens of a tenant's racks that still let a node in, or all of them. They are of no node, so that who
// reads some nodes alone reads none.
func (s *Server) rackTokens(ctx context.Context, who caller, tenant, after string, all bool) (client.RackTokens, error) {
	list := client.RackTokens{Tokens: []client.RackToken{}}
	if !who.inScope("") {
		return list, nil
	}
	var own filter
	own.and(`secret.tenant = ? AND rack_token.id > ?`, tenant, after)
	who.ownTime(&own, `created`)
	if !all {
		own.and(`ended = 0 AND expires > ?`, int64(s.time()))
	}
	rows, err := s.store.db.Reader().QueryContext(ctx, `SELECT rack_token.id, site, rack, rack_token.uses, rack_token.used, created, made_by, expires, ended
		FROM rack_token JOIN secret ON secret.id = rack_token.id WHERE `+own.String()+` ORDER BY rack_token.id LIMIT `+strconv.Itoa(MaxPage), own.args...)
	if err != nil {
		return list, fmt.Errorf("list the tokens of racks: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var t client.RackToken
		if err := rows.Scan(&t.ID, &t.Site, &t.Rack, &t.Uses, &t.Used, (*int64)(&t.Made), &t.MadeBy, (*int64)(&t.Expires), (*int64)(&t.Ended)); err != nil {
			return list, fmt.Errorf("list the tokens of racks: %w", err)
		}
		list.Tokens = append(list.Tokens, t)
	}
	if len(list.Tokens) == MaxPage {
		list.After = list.Tokens[MaxPage-1].ID
	}
	return list, rows.Err()
}

// revokeRackToken ends the token of one of the caller's racks. Nodes that it let in stay: each is revoked by itself.
func (s *Server) revokeRackToken(ctx context.Context, who caller, id string) error {
	err := s.store.Tx(ctx, func(tx *Tx) error {
		var ended int64
		err := tx.SQL.QueryRowContext(ctx, `SELECT ended FROM secret WHERE id = $1 AND tenant = $2 AND id IN (SELECT id FROM rack_token)`+s.store.db.ForUpdate(), id, who.token.Grant.Tenant).Scan(&ended)
		if errors.Is(err, sql.ErrNoRows) {
			return errNothing
		}
		if err != nil || ended != 0 {
			return err
		}
		_, err = tx.SQL.ExecContext(ctx, `UPDATE secret SET ended = $1 WHERE id = $2`, int64(s.time()), id)
		return err
	})
	if err == nil {
		s.log.Info("token of a rack revoked", "token", id, "by", who.token.Principal)
	}
	return err
}

// spend uses a join token up by one node. ended reports whether it was the last that the token lets in. The token of a rack
// says where the node is.
func spend(ctx context.Context, tx *sql.Tx, id string) (site, rack string, ended bool, err error) {
	var uses, used int64
	err = tx.QueryRowContext(ctx, `SELECT site, rack, uses FROM rack_token WHERE id = $1`, id).Scan(&site, &rack, &uses)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", true, nil // lets one node in
	}
	if err == nil {
		err = tx.QueryRowContext(ctx, `UPDATE rack_token SET used = used + 1 WHERE id = $1 AND used < uses RETURNING used`, id).Scan(&used)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", false, refuse(codeToken, "it let in all nodes that it is for")
	}
	if err != nil {
		return "", "", false, fmt.Errorf("use up a token: %w", err)
	}
	return site, rack, used == uses, nil
}
