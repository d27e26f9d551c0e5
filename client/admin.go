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

// JoinToken is the answer to POST /v1/join-tokens (admin token): a token that lets one node in, once.
type JoinToken struct {
	Token   string     `json:"token"` // SECRET.FINGERPRINT, see [Token]
	Expires canon.Time `json:"expires"`
}

// NewJoinToken asks for a token that a new node joins with.
func (c *Client) NewJoinToken(ctx context.Context) (JoinToken, error) {
	var t JoinToken
	return t, c.post(ctx, "/v1/join-tokens", struct{}{}, &t)
}

// Nodes is the answer to GET /v1/nodes?after=ID (admin token).
type Nodes struct {
	Nodes []NodeRecord `json:"nodes"`
	After string       `json:"after,omitzero"` // where the next page begins; absent: this was the last
}

// NodeRecord is what a server knows of a node.
type NodeRecord struct {
	Node     string            `json:"node"`
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

// Revoke ends a node: its credential is no longer good, and its devices may be enrolled for others (admin token).
func (c *Client) Revoke(ctx context.Context, node string) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/nodes/"+url.PathEscape(node), "", nil, http.StatusNoContent, MaxAnswer)
	return err
}

// Entries is the answer to GET /v1/entries?from=INDEX (admin token): a run of entries in log order, empty at the end.
type Entries struct {
	Entries []LogEntry `json:"entries"`
}

// Entries returns entries of the log from an index on.
func (c *Client) Entries(ctx context.Context, from int64) (Entries, error) {
	var e Entries
	return e, c.get(ctx, "/v1/entries?from="+strconv.FormatInt(from, 10), &e)
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
