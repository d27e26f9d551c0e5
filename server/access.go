package server

import (
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// caller is who a request comes from.
type caller struct {
	use   string // useNode, or the role of a token
	node  string // of useNode
	token client.TokenRecord
}

// filter is the condition of a query, with its arguments. The zero filter holds for all rows.
type filter struct {
	conditions []string
	args       []any
}

// and adds a condition, in which a question mark stands for each argument.
func (f *filter) and(condition string, args ...any) {
	for _, arg := range args {
		f.args = append(f.args, arg)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(f.args)), 1)
	}
	f.conditions = append(f.conditions, condition)
}

// among adds the condition that a column has one of some values.
func (f *filter) among(column string, values []string) {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	f.and(column+` IN (?`+strings.Repeat(`, ?`, len(values)-1)+`)`, args...)
}

// String returns the condition as it stands behind WHERE.
func (f *filter) String() string {
	if len(f.conditions) == 0 {
		return "1 = 1"
	}
	return strings.Join(f.conditions, " AND ")
}

// ownNodes restricts a query to the rows of table node that a caller may know of. Every query for a caller that reads
// what is of a node goes through here; what is of no kind that is named sees nothing.
func (c caller) ownNodes(f *filter) {
	grant := c.token.Grant
	switch {
	case c.use == client.RoleAdmin:
	case c.use == useNode:
		f.and(`node.id = ?`, c.node)
	case c.use == client.RoleOperator && grant.Tenant != "":
		f.and(`node.tenant = ?`, grant.Tenant)
	case c.use == client.RoleAuditor:
		if grant.Tenant != "" {
			f.and(`node.tenant = ?`, grant.Tenant)
		}
		if nodes := grant.Scope.Nodes; len(nodes) > 0 {
			f.among(`node.id`, nodes)
		}
	default:
		f.and(`1 = 0`)
	}
}

// inScope reports whether the nodes of a caller's scope, if it names some, include a node. Of no node at all is what is not
// of those in the scope either.
func (c caller) inScope(node string) bool {
	nodes := c.token.Grant.Scope.Nodes
	return len(nodes) == 0 || slices.Contains(nodes, node)
}

// tenantFor returns whose inventory a caller means: that of the tenant which it names, if it may know of that one, else its
// own. An admin's own is the verifier's own house's.
func (c caller) tenantFor(named string) (string, error) {
	own := c.token.Grant.Tenant
	switch {
	case named == "" || named == own:
		return own, nil
	case c.use != client.RoleAdmin && (c.use != client.RoleAuditor || own != ""):
		return "", errNothing
	}
	if err := ledger.CheckTenant(named); err != nil {
		return "", refuse(codeMalformed, "%v", err)
	}
	return named, nil
}

// ownMachines restricts a query to the rows of table machine, certificates and devices, that a caller may know of: those of
// its provider.
func (c caller) ownMachines(f *filter) {
	grant := c.token.Grant
	switch {
	case c.use == client.RoleAdmin:
	case c.use == client.RoleOperator || c.use == client.RoleAuditor:
		if grant.Tenant != "" {
			f.and(`machine.tenant = ?`, grant.Tenant)
		}
		if nodes := grant.Scope.Nodes; len(nodes) > 0 {
			f.among(`machine.host`, nodes)
		}
	default:
		f.and(`1 = 0`)
	}
}

// mayKnow reports whether a caller may know all that is known of a provider.
func (c caller) mayKnow(provider string) bool {
	switch c.use {
	case client.RoleAdmin:
		return true
	case client.RoleOperator, client.RoleAuditor:
		return (c.token.Grant.Tenant == "" || c.token.Grant.Tenant == provider) && len(c.token.Grant.Scope.Nodes) == 0
	}
	return false
}

// device returns what a caller may know of a device: an operator knows no hosts of others.
func (c caller) device(d vetting.DeviceState) vetting.DeviceState {
	if tenant := c.token.Grant.Tenant; tenant != "" {
		return d.Of(tenant)
	}
	return d
}

// ownTime restricts a query to the rows whose instant is in the period of a caller's scope.
func (c caller) ownTime(f *filter, column string) {
	if from := c.token.Grant.Scope.From; from != 0 {
		f.and(column+` >= ?`, int64(from))
	}
	if until := c.token.Grant.Scope.Until; until != 0 {
		f.and(column+` < ?`, int64(until))
	}
}

// ownEvidence is the condition on submission and its node under which a caller may know of evidence.
func (c caller) ownEvidence(evidence canon.Digest) *filter {
	f := &filter{}
	f.and(`evidence = ?`, evidence[:])
	c.ownNodes(f)
	c.ownTime(f, `received`)
	return f
}

// within reports whether an instant is in the period of a caller's scope.
func (c caller) within(t canon.Time) bool {
	scope := c.token.Grant.Scope
	return t >= scope.From && (scope.Until == 0 || t < scope.Until)
}

// ofTheHouse reports whether a caller may read what is of no tenant in particular.
func (c caller) ofTheHouse() bool {
	return c.use == client.RoleAdmin || c.use == client.RoleAuditor && c.token.Grant.Tenant == "" && len(c.token.Grant.Scope.Nodes) == 0
}

// isToken reports whether a caller shows a token, and is no node.
func (c caller) isToken() bool { return slices.Contains(client.Roles(), c.use) }
