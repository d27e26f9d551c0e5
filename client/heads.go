package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// StreamHead is the answer to GET /v1/heads/{stream}?log=ORIGIN (credential of the stream's node, or admin token; without
// log: of the newest one): the end of the stream, as the newest published heads entry of the log has it, with all proofs.
type StreamHead struct {
	Proof      ledger.HeadProof `json:"proof"` // of the end, in the heads document
	Heads      ledger.Heads     `json:"heads"` // body of the entry
	Entry      LogEntry         `json:"entry"`
	Place      ledger.Inclusion `json:"place"` // of the entry, in the log
	Checkpoint string           `json:"checkpoint"`
}

// StreamHead asks for the end of a stream in one of the logs; an empty name is the newest. It checks no proof: see
// [StreamHead.Open].
func (c *Client) StreamHead(ctx context.Context, stream, log string) (StreamHead, error) {
	var h StreamHead
	path := "/v1/heads/" + url.PathEscape(stream)
	if log != "" {
		path += "?" + url.Values{"log": {log}}.Encode()
	}
	return h, c.get(ctx, path, &h)
}

// Open checks the proofs for a stream against the tree of the checkpoint, and returns the stream's end and the heads entry.
// That the checkpoint is the log's, and continues an earlier one, is for the caller.
func (h StreamHead) Open(stream string, tree ledger.Tree) (ledger.Head, ledger.Entry, error) {
	fail := func(err error) (ledger.Head, ledger.Entry, error) {
		return ledger.Head{}, ledger.Entry{}, fmt.Errorf("head of stream %.80q: %w", stream, err)
	}
	_, e, err := ledger.ParseOpening(h.Entry.Opening)
	if err != nil {
		return fail(err)
	}
	body, err := canon.Marshal(h.Heads)
	if err != nil {
		return fail(err)
	}
	doc, err := ledger.ParseHeads(body)
	if err != nil {
		return fail(err)
	}
	switch {
	case e.Kind != ledger.KindHeads:
		return fail(fmt.Errorf("came with an entry %s, want %s", e.Kind, ledger.KindHeads))
	case e.Body != canon.Sum(body):
		return fail(errors.New("came with another heads document than its entry names"))
	case h.Place.Index != h.Entry.Index:
		return fail(errors.New("came with the proof of another entry"))
	case h.Proof.Head.Stream != stream:
		return fail(fmt.Errorf("is that of the stream %.80q", h.Proof.Head.Stream))
	}
	if err := h.Place.Verify(canon.Sum(h.Entry.Opening), tree); err != nil {
		return fail(err)
	}
	if err := h.Proof.Verify(doc); err != nil {
		return ledger.Head{}, ledger.Entry{}, err
	}
	return h.Proof.Head, e, nil
}
