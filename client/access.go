package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Roles of those who call with a token. What each may do stands in the description of the interface (/openapi.json), at
// every operation.
const (
	RoleRenter   = "renter"   // a firm that relies on verdicts
	RoleOperator = "operator" // a provider: lets its own nodes in, sees them, revokes them
	RoleAuditor  = "auditor"  // reads, within a scope
	RoleAdmin    = "admin"    // runs the verifier
)

// Roles returns all roles, that of least power first.
func Roles() []string { return []string{RoleRenter, RoleOperator, RoleAuditor, RoleAdmin} }

// MaxScopeNodes is the number of nodes that one scope may name.
const MaxScopeNodes = 256

// Scope narrows what an auditor reads. The zero Scope narrows nothing.
type Scope struct {
	Nodes []string   `json:"nodes,omitzero"` // ids; none: all of the tenant
	From  canon.Time `json:"from,omitzero"`  // first instant of acts that are read; zero: from the first on
	Until canon.Time `json:"until,omitzero"` // first instant of acts that are not read any more; zero: without an end
}

// IsZero reports whether the scope narrows nothing.
func (s Scope) IsZero() bool { return len(s.Nodes) == 0 && s.From == 0 && s.Until == 0 }

// Grant is what a token allows. A tenant is a provider or a renter's firm; without one, a token is of the verifier's own
// house, and sees all tenants.
type Grant struct {
	Role   string `json:"role"`
	Tenant string `json:"tenant,omitzero"`
	Scope  Scope  `json:"scope,omitzero"` // of an auditor
}

// Check says what is wrong with a grant.
func (g Grant) Check() error {
	switch {
	case !slices.Contains(Roles(), g.Role):
		return fmt.Errorf("role %.40q: want one of %s", g.Role, strings.Join(Roles(), ", "))
	case g.Role == RoleAdmin && g.Tenant != "":
		return errors.New("an admin is of no tenant: it runs the verifier for all of them")
	case g.Tenant == "" && (g.Role == RoleRenter || g.Role == RoleOperator):
		return fmt.Errorf("role %s: want a tenant, the firm that it is of", g.Role)
	case !g.Scope.IsZero() && g.Role != RoleAuditor:
		return fmt.Errorf("role %s: a scope is for auditors", g.Role)
	case len(g.Scope.Nodes) > MaxScopeNodes:
		return fmt.Errorf("scope: %d nodes, at most %d", len(g.Scope.Nodes), MaxScopeNodes)
	case g.Scope.Until != 0 && g.Scope.Until <= g.Scope.From:
		return fmt.Errorf("scope: until %s is not after from %s", g.Scope.Until, g.Scope.From)
	}
	for i, node := range g.Scope.Nodes {
		if node == "" || len(node) > attest.MaxName || slices.Contains(g.Scope.Nodes[:i], node) {
			return fmt.Errorf("scope: node %.80q: want the id of a node, once", node)
		}
	}
	if g.Tenant == "" {
		return nil
	}
	return ledger.CheckTenant(g.Tenant)
}

// TokenRequest is the body of POST /v1/tokens (admin).
type TokenRequest struct {
	Grant   Grant      `json:"grant"`
	Expires canon.Time `json:"expires"`
}

// TokenRecord is what a server knows of a token: all but the token.
type TokenRecord struct {
	ID        string     `json:"id"`
	Principal string     `json:"principal"` // who acts by it: user:ISSUER/NAME, or token:ID
	Grant     Grant      `json:"grant"`
	Made      canon.Time `json:"made"`
	MadeBy    string     `json:"made_by,omitzero"` // principal; absent: the server's first start
	Expires   canon.Time `json:"expires,omitzero"` // absent: never
	Used      canon.Time `json:"used,omitzero"`    // last; absent: not yet. A use within a minute of this one is not written down
	Ended     canon.Time `json:"ended,omitzero"`   // revoked
}

// NewToken is the answer to POST /v1/tokens and to POST /v1/logins.
type NewToken struct {
	Token  string      `json:"token"` // shown this once
	Record TokenRecord `json:"record"`
}

// Tokens is the answer to GET /v1/tokens?after=ID (admin).
type Tokens struct {
	Tokens []TokenRecord `json:"tokens"`
	After  string        `json:"after,omitzero"` // where the next page begins; absent: this was the last
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, r TokenRequest) (NewToken, error) {
	var t NewToken
	return t, c.post(ctx, "/v1/tokens", r, &t)
}

// Tokens lists the tokens whose ids come after the given one; empty is from the first on.
func (c *Client) Tokens(ctx context.Context, after string) (Tokens, error) {
	var t Tokens
	return t, c.get(ctx, "/v1/tokens?after="+url.QueryEscape(after), &t)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), "", nil, http.StatusNoContent, MaxAnswer)
	return err
}

// Whoami asks what the server knows of the token that the client has.
func (c *Client) Whoami(ctx context.Context) (TokenRecord, error) {
	var t TokenRecord
	return t, c.get(ctx, "/v1/whoami", &t)
}

// Logout ends the token that the client has.
func (c *Client) Logout(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/whoami", "", nil, http.StatusNoContent, MaxAnswer)
	return err
}
