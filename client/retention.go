package client

import (
	"context"
	"strconv"

	"github.com/assay-network/assay/internal/canon"
)

// Retention is the answer to GET /v1/retention?after=N: how long a server keeps things, and the acts of its logs on that.
type Retention struct {
	Classes []RetentionClass `json:"classes"`
	Acts    []RetentionAct   `json:"acts"` // holds and erasures, in the order of the logs
	After   int64            `json:"after,omitzero"`
}

// RetentionClass says how long a class is kept.
type RetentionClass struct {
	Class string `json:"class"`
	Days  int64  `json:"days,omitzero"` // absent: for ever
}

// RetentionAct is a hold or an erasure, and where it stands in a log.
type RetentionAct struct {
	Act     string         `json:"act"`               // hold or erase
	InForce bool           `json:"in_force,omitzero"` // of a hold: nobody has released it
	Log     string         `json:"log,omitzero"`
	Entry   int64          `json:"entry"`
	Time    canon.Time     `json:"time"`
	Hold    string         `json:"hold,omitzero"`
	Class   string         `json:"class,omitzero"`
	Nodes   []string       `json:"nodes"`
	Digests []canon.Digest `json:"digests"`
	Reason  string         `json:"reason"`
}

// Retention asks how long the server keeps things, and for the acts after the first so many.
func (c *Client) Retention(ctx context.Context, after int64) (Retention, error) {
	var r Retention
	return r, c.get(ctx, "/v1/retention?after="+strconv.FormatInt(after, 10), &r)
}
