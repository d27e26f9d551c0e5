package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ImportRequest is the body of POST /v1/inventory: hosts that an operator says are to come. Revisions are the server's to
// count and are left at 1.
type ImportRequest struct {
	Hosts []ledger.Host `json:"hosts"`
}

// States of a host that was handed in.
const (
	HostAdded     = "added"
	HostChanged   = "changed"
	HostUnchanged = "unchanged" // the inventory has the same already
	HostRefused   = "refused"   // the inventory is as it was before
)

// Imported is the answer to POST /v1/inventory: what became of each host, in the order of the request.
type Imported struct {
	Hosts []HostImported `json:"hosts"`
}

// HostImported is what became of one host.
type HostImported struct {
	Asset   string `json:"asset"`
	State   string `json:"state"`
	Column  string `json:"column,omitzero"` // of a refused one: where the fault is
	Code    string `json:"code,omitzero"`
	Problem string `json:"problem,omitzero"`
	Fix     string `json:"fix,omitzero"`
}

// ImportHosts hands in hosts. One that is refused stops no other.
func (c *Client) ImportHosts(ctx context.Context, hosts []ledger.Host) (Imported, error) {
	var i Imported
	return i, c.post(ctx, "/v1/inventory", ImportRequest{hosts}, &i)
}

// States of a host of the inventory. One that is decided has the last verdict on its node for a state.
const (
	HostMissing = "missing" // no node shows one of its identities
	HostJoined  = "joined"  // a node does, and there is no verdict on it yet
)

// HostRecord is a host of the inventory and what became of it.
type HostRecord struct {
	Host    ledger.Host `json:"inventory"`
	State   string      `json:"state"`
	Node    string      `json:"node,omitzero"`
	Joined  canon.Time  `json:"joined,omitzero"`  // when the node did
	Decided canon.Time  `json:"decided,omitzero"` // when the last verdict on the node was given
}

// Inventory is the answer to GET /v1/inventory?after=ASSET&tenant=TENANT.
type Inventory struct {
	At      canon.Time   `json:"at"`      // by the server's clock
	Waiting int          `json:"waiting"` // nodes that joined and have not shown yet what they are
	Hosts   []HostRecord `json:"hosts"`
	After   string       `json:"after,omitzero"` // where the next page begins; absent: this was the last
}

// Inventory lists the hosts whose assets come after the given one; empty is from the first on. Whose inventory it is, an admin
// and an auditor of the verifier's own house may say; empty is the caller's own, here and in the following.
func (c *Client) Inventory(ctx context.Context, tenant, after string) (Inventory, error) {
	var i Inventory
	return i, c.get(ctx, "/v1/inventory?"+pageOf(tenant, after), &i)
}

// pageOf spells whose page is asked for.
func pageOf(tenant, after string) string {
	q := url.Values{"after": {after}}
	if tenant != "" {
		q.Set("tenant", tenant)
	}
	return q.Encode()
}

// RetireRequest is the body of POST /v1/retirements.
type RetireRequest struct {
	Asset  string `json:"asset"`
	Reason string `json:"reason,omitzero"` // that the log keeps
}

// Retired is a host that left the inventory.
type Retired struct {
	Host   ledger.Host `json:"inventory"`     // as it stood
	Node   string      `json:"node,omitzero"` // that it was, and that was revoked with it; absent: none was
	At     canon.Time  `json:"at"`
	By     string      `json:"by"` // principal
	Reason string      `json:"reason,omitzero"`
}

// Retire takes a host out of the inventory, for good. The node that it is, is revoked with it.
func (c *Client) Retire(ctx context.Context, r RetireRequest) (Retired, error) {
	var done Retired
	return done, c.post(ctx, "/v1/retirements", r, &done)
}

// Retirements is the answer to GET /v1/retirements?after=ASSET&tenant=TENANT.
type Retirements struct {
	Retired []Retired `json:"retired"`
	After   string    `json:"after,omitzero"`
}

// Retirements lists the hosts that left the inventory, by asset.
func (c *Client) Retirements(ctx context.Context, tenant, after string) (Retirements, error) {
	var r Retirements
	return r, c.get(ctx, "/v1/retirements?"+pageOf(tenant, after), &r)
}

// Kinds of findings: how the inventory and what nodes show differ.
const (
	FindingMissing    = "missing"    // in the inventory, and no node shows it
	FindingUnexpected = "unexpected" // a node shows it, and the inventory does not have it
	FindingMoved      = "moved"      // elsewhere than the inventory says
	FindingDuplicate  = "duplicate"  // on two nodes at once
)

// Finding is one difference between the inventory and what nodes show. Without a device it is about the whole host.
type Finding struct {
	Kind    string        `json:"kind"`
	Asset   string        `json:"asset,omitzero"` // absent: the inventory has none
	Site    string        `json:"site,omitzero"`  // where the inventory has the host
	Rack    string        `json:"rack,omitzero"`
	Node    string        `json:"node,omitzero"`  // that shows it; absent: none does
	Other   string        `json:"other,omitzero"` // of a duplicate: the node that holds it and keeps its standing
	Device  ledger.Device `json:"device,omitzero"`
	Problem string        `json:"problem"` // for people
	Fix     string        `json:"fix"`     // for people
}

// Reconciliation is the answer to GET /v1/reconciliation?after=N&tenant=TENANT.
type Reconciliation struct {
	Hosts    int       `json:"hosts"`   // of the inventory
	Nodes    int       `json:"nodes"`   // that joined and were not revoked
	Waiting  int       `json:"waiting"` // of those, that have not shown yet what they are
	Findings []Finding `json:"findings"`
	After    int       `json:"after,omitzero"` // where the next page begins; absent: this was the last
}

// Reconciliation compares the inventory with what nodes show. All pages of one comparison follow one another only while
// nothing changes.
func (c *Client) Reconciliation(ctx context.Context, tenant string, after int) (Reconciliation, error) {
	var r Reconciliation
	return r, c.get(ctx, "/v1/reconciliation?"+pageOf(tenant, strconv.Itoa(after)), &r)
}

// RackTokenRequest is the body of POST /v1/rack-tokens.
type RackTokenRequest struct {
	Site string `json:"site"`
	Rack string `json:"rack"`
	Life int64  `json:"life_seconds,omitzero"` // absent: the server's default
}

// RackToken is a token that lets the hosts of one rack in. The answer to POST /v1/rack-tokens has its text, and no other
// answer has.
type RackToken struct {
	ID      string     `json:"id"`
	Site    string     `json:"site"`
	Rack    string     `json:"rack"`
	Token   string     `json:"token,omitzero"` // SECRET.FINGERPRINT, see [Token]
	Uses    int64      `json:"uses"`           // nodes that it lets in: the hosts of the rack that were to come when it was made
	Used    int64      `json:"used"`
	Made    canon.Time `json:"made"`
	MadeBy  string     `json:"made_by"` // principal
	Expires canon.Time `json:"expires"`
	Ended   canon.Time `json:"ended,omitzero"` // used up or revoked
}

// NewRackToken asks for a token for the hosts of a rack that are to come.
func (c *Client) NewRackToken(ctx context.Context, r RackTokenRequest) (RackToken, error) {
	var t RackToken
	return t, c.post(ctx, "/v1/rack-tokens", r, &t)
}

// RackTokens is the answer to GET /v1/rack-tokens?after=ID&all=true&tenant=TENANT.
type RackTokens struct {
	Tokens []RackToken `json:"tokens"`
	After  string      `json:"after,omitzero"`
}

// RackTokens lists the tokens of racks that are still good, or all, without their texts.
func (c *Client) RackTokens(ctx context.Context, tenant, after string, all bool) (RackTokens, error) {
	var t RackTokens
	return t, c.get(ctx, "/v1/rack-tokens?"+pageOf(tenant, after)+"&all="+strconv.FormatBool(all), &t)
}

// RevokeRackToken ends the token of a rack. Nodes that it let in stay.
func (c *Client) RevokeRackToken(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/rack-tokens/"+url.PathEscape(id), "", nil, http.StatusNoContent, MaxAnswer)
	return err
}

// States of a node's place.
const (
	PlaceNone    = "none"    // there is no inventory, or the node has not shown yet what it is
	PlaceMatched = "matched" // the inventory has it, here
)

// Place is the answer to GET /v1/place (node credential): what the inventory says of the node that asks.
type Place struct {
	State    string    `json:"state"` // none, matched, or the kind of the worst finding
	Asset    string    `json:"asset,omitzero"`
	Site     string    `json:"site,omitzero"`
	Rack     string    `json:"rack,omitzero"`
	Findings []Finding `json:"findings,omitzero"` // about this node
}

// Place asks what the inventory says of the node.
func (c *Client) Place(ctx context.Context) (Place, error) {
	var p Place
	return p, c.get(ctx, "/v1/place", &p)
}
