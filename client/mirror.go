package client

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Mirror is a log as a server or a mirror shows it over HTTP: a ledger.Source. Checkpoints and tiles are public; blobs
// go to whoever the server lets have them.
type Mirror struct{ c *Client }

var _ ledger.Source = Mirror{}

// Mirror returns the log of the client's server.
func (c *Client) Mirror() Mirror { return Mirror{c} }

// Checkpoint returns the newest checkpoint note.
func (m Mirror) Checkpoint(ctx context.Context) ([]byte, error) {
	return m.fetch(ctx, "/log/checkpoint", ledger.MaxCheckpoint)
}

// Tile returns the bytes of one tile.
func (m Mirror) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	data, err := m.fetch(ctx, "/log/"+t.Path(), int64(t.Bytes()))
	if err == nil && len(data) != t.Bytes() {
		return nil, fmt.Errorf("%s: %d bytes, want %d", t.Path(), len(data), t.Bytes())
	}
	return data, err
}

// Blob returns the bytes of a digest, which are checked against it.
func (m Mirror) Blob(ctx context.Context, digest canon.Digest) ([]byte, error) {
	data, err := m.fetch(ctx, "/v1/blobs/"+digest.String(), MaxAnswer)
	if err == nil && canon.Sum(data) != digest {
		return nil, fmt.Errorf("blob %s: the server sent other bytes", digest)
	}
	return data, err
}

func (m Mirror) fetch(ctx context.Context, path string, limit int64) ([]byte, error) {
	data, err := m.c.do(ctx, http.MethodGet, path, "", nil, http.StatusOK, limit)
	if p := AsProblem(err); p != nil && p.Status == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}
