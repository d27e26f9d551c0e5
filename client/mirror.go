package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Mirror is a log as a server or a mirror shows it over HTTP: a ledger.Source. Checkpoints and tiles are public; blobs
// go to whoever the server lets have them.
type Mirror struct{ c *Client }

var _ ledger.Keeper = Mirror{}

// Mirror returns the log of the client's server.
func (c *Client) Mirror() Mirror { return Mirror{c} }

// Checkpoint returns the newest checkpoint note.
func (m Mirror) Checkpoint(ctx context.Context) ([]byte, error) {
	return m.fetch(ctx, "/log/checkpoint", ledger.MaxCheckpoint)
}

// CheckpointsAround is the answer to GET /v1/checkpoints?around=INDEX: the kept checkpoints on both sides of an entry.
type CheckpointsAround struct {
	Before string `json:"before,omitzero"` // note of the largest that does not cover it; absent: none is kept
	After  string `json:"after,omitzero"`  // note of the smallest that does
}

// Around returns kept checkpoints; see [ledger.Keeper]. A mirror of files alone keeps none.
func (m Mirror) Around(ctx context.Context, index int64) (before, after []byte, err error) {
	var a CheckpointsAround
	err = m.c.get(ctx, "/v1/checkpoints?around="+strconv.FormatInt(index, 10), &a)
	if p := AsProblem(err); p != nil && p.Status == http.StatusNotFound {
		return nil, nil, nil
	}
	note := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(s)
	}
	return note(a.Before), note(a.After), err
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
	data, err := m.fetch(ctx, "/v1/blobs/"+digest.String(), MaxBlob)
	if err == nil && canon.Sum(data) != digest {
		return nil, fmt.Errorf("blob %s: the server sent other bytes", digest)
	}
	return data, err
}

func (m Mirror) fetch(ctx context.Context, path string, limit int64) ([]byte, error) {
	return m.c.file(ctx, path, limit)
}

// file fetches a file of a log. What is not there is [fs.ErrNotExist], what the caller may not have [fs.ErrPermission].
func (c *Client) file(ctx context.Context, path string, limit int64) ([]byte, error) {
	data, err := c.do(ctx, http.MethodGet, path, "", nil, http.StatusOK, limit)
	switch p := AsProblem(err); {
	case p == nil:
	case p.Status == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return nil, fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return data, err
}

// Files is a log as a server of plain files shows it, some mirror or other: checkpoint, tile/... and blob/DIGEST below a
// folder. Like [Mirror] a ledger.Source.
type Files struct {
	c    *Client
	path string // of the folder, ends with a slash
}

var _ ledger.Source = Files{}

// NewFiles returns the log below the URL of a folder; c.URL may have a path. It dials nothing.
func NewFiles(c Config) (Files, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return Files{}, fmt.Errorf("mirror URL: %w", err)
	}
	folder := strings.TrimSuffix(u.EscapedPath(), "/") + "/"
	u.Path, u.RawPath = "", ""
	c.URL = u.String()
	files, err := New(c)
	return Files{files, folder}, err
}

// Checkpoint returns the newest checkpoint note.
func (f Files) Checkpoint(ctx context.Context) ([]byte, error) {
	return f.c.file(ctx, f.path+"checkpoint", ledger.MaxCheckpoint)
}

// Tile returns the bytes of one tile. A mirror may have dropped the narrower forms of a tile that is complete by now.
func (f Files) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	data, err := f.c.file(ctx, f.path+t.Path(), int64(t.Bytes()))
	if errors.Is(err, fs.ErrNotExist) && t.Width < ledger.TileWidth {
		whole := ledger.Tile{Level: t.Level, Index: t.Index, Width: ledger.TileWidth}
		if all, wider := f.c.file(ctx, f.path+whole.Path(), int64(whole.Bytes())); wider == nil && len(all) == whole.Bytes() {
			return all[:t.Bytes()], nil
		}
	}
	if err == nil && len(data) != t.Bytes() {
		return nil, fmt.Errorf("%s: %d bytes, want %d", t.Path(), len(data), t.Bytes())
	}
	return data, err
}

// Blob returns the bytes of a digest, which are checked against it.
func (f Files) Blob(ctx context.Context, digest canon.Digest) ([]byte, error) {
	data, err := f.c.file(ctx, f.path+"blob/"+digest.String(), MaxBlob)
	if err == nil && canon.Sum(data) != digest {
		return nil, fmt.Errorf("blob %s: the mirror sent other bytes", digest)
	}
	return data, err
}
