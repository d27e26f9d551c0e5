package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// JoinTokenRequest is the body of POST /v1/join-tokens (operator or admin).
type JoinTokenRequest struct {
	Tenant string `json:"tenant,omitzero"` // whose the node will be; absent: the caller's own. An admin may name any
}

// JoinToken is the answer to it: a token that lets one node in, once.
type JoinToken struct {
	Token   string     `json:"token"` // SECRET.FINGERPRINT, see [Token]
	Expires canon.Time `json:"expires"`
}

// NewJoinToken asks for a token that a new node of a tenant joins with; no tenant is the caller's own.
func (c *Client) NewJoinToken(ctx context.Context, tenant string) (JoinToken, error) {
	var t JoinToken
	return t, c.post(ctx, "/v1/join-tokens", JoinTokenRequest{tenant}, &t)
}

// Nodes is the answer to GET /v1/nodes?after=ID (operator, auditor or admin): the nodes that the caller may know of.
type Nodes struct {
	Nodes []NodeRecord `json:"nodes"`
	After string       `json:"after,omitzero"` // where the next page begins; absent: this was the last
}

// NodeRecord is what a server knows of a node.
type NodeRecord struct {
	Node     string            `json:"node"`
	Tenant   string            `json:"tenant,omitzero"` // whose it is; absent: the verifier's own
	Joined   canon.Time        `json:"joined"`
	Revoked  canon.Time        `json:"revoked,omitzero"`
	Devices  []attest.Identity `json:"devices,omitzero"`  // enrolled with its first accepted evidence
	Evidence canon.Digest      `json:"evidence,omitzero"` // last that was decided
	Verdict  string            `json:"verdict,omitzero"`  // on it
	Decided  canon.Time        `json:"decided,omitzero"`
}

// Nodes lists the nodes whose ids come after the given one; empty is from the first on.
func (c *Client) Nodes(ctx context.Context, after string) (Nodes, error) {
	var n Nodes
	return n, c.get(ctx, "/v1/nodes?after="+url.QueryEscape(after), &n)
}

// Refusal asks why a node is refused as things stand, and which of the caller's nodes are nearest to it (operator or admin).
// The answer holds words of policies, which this room does not know.
func (c *Client) Refusal(ctx context.Context, node string, into any) error {
	return c.get(ctx, "/v1/nodes/"+url.PathEscape(node)+"/refusal", into)
}

// Revoke ends a node: its credential is no longer good, and its devices may be enrolled for others (operator or admin).
func (c *Client) Revoke(ctx context.Context, node string) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/nodes/"+url.PathEscape(node), "", nil, http.StatusNoContent, MaxAnswer)
	return err
}

// Entries is the answer to GET /v1/entries?from=INDEX (auditor or admin): the entries in log order that the caller may
// read, from an index on. An auditor's are those of its scope, and of no tenant.
type Entries struct {
	Entries []LogEntry `json:"entries"`
	Next    int64      `json:"next,omitzero"` // index from which the next page begins; absent: this was the last
}

// Entries returns entries of the first log from an index on.
func (c *Client) Entries(ctx context.Context, from int64) (Entries, error) {
	return c.entries(ctx, from, "")
}

// entries returns entries of a log; an empty name is the first.
func (c *Client) entries(ctx context.Context, from int64, log string) (Entries, error) {
	q := url.Values{"from": {strconv.FormatInt(from, 10)}}
	if log != "" {
		q.Set("log", log)
	}
	var e Entries
	return e, c.get(ctx, "/v1/entries?"+q.Encode(), &e)
}

// CloseLog is the body of POST /v1/logs (admin token).
type CloseLog struct {
	Next string `json:"next"` // origin of the log that goes on
}

// CloseLog has the newest log closed, and another go on, as soon as what was promised has its verdict. Saying it again
// changes nothing; [Client.Logs] shows when it is done.
func (c *Client) CloseLog(ctx context.Context, next string) error {
	body, err := json.Marshal(CloseLog{next})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPost, "/v1/logs", jsonType, body, http.StatusAccepted, MaxAnswer)
	return err
}

// KeepLog calls the closing of the newest log off (admin token). One that is closed stays so.
func (c *Client) KeepLog(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/logs/closing", "", nil, http.StatusNoContent, MaxAnswer)
	return err
}
