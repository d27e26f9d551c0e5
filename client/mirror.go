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
	"sync"

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

// Around returns kept checkpoints; see [ledger.Keeper]. A server that does not answer this keeps none.
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

// Keys asks for the keysets of the log; see [Client.Keys].
func (m Mirror) Keys(ctx context.Context) (ledger.KeyHistory, error) {
	data, err := m.Said(ctx, SaidKeysets)
	if err != nil {
		return ledger.KeyHistory{}, err
	}
	return ReadKeysets(data)
}

// URL returns the address of the server.
func (m Mirror) URL() string { return m.c.Origin() }

// Said returns what the log says of itself under a name of [Said].
func (m Mirror) Said(ctx context.Context, name string) ([]byte, error) {
	return m.fetch(ctx, saidPaths[name], MaxAnswer)
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

// What a log says of itself beside its checkpoint, by the name of the file in a folder of plain files.
const (
	SaidKeysets = "keysets" // Keysets, as GET /v1/keys gives them
	SaidEngines = "engines" // Engines, as GET /v1/engines gives them
)

// Said lists these names.
var Said = []string{SaidKeysets, SaidEngines}

var saidPaths = map[string]string{SaidKeysets: "/v1/keys", SaidEngines: "/v1/engines"}

// ReadKeysets reads what a log says of its keys, and checks that each keyset is signed for by the one before it.
func ReadKeysets(data []byte) (ledger.KeyHistory, error) {
	var k Keysets
	if err := decode(data, &k); err != nil {
		return ledger.KeyHistory{}, err
	}
	return ledger.ReadKeys(k.Keysets)
}

// ReadEngines reads what a log says of its engines.
func ReadEngines(data []byte) ([]Engine, error) {
	var e Engines
	err := decode(data, &e)
	return e.Engines, err
}

// Files is a log as a server of plain files shows it, some mirror or other: checkpoint, tile/..., blob/DIGEST, kept
// checkpoints, and what the log says of itself, below a folder. Like [Mirror] a ledger.Keeper.
type Files struct {
	c    *Client
	path string // of the folder, ends with a slash
	kept *keptSizes
}

var _ ledger.Keeper = Files{}

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
	return Files{files, folder, &keptSizes{pages: map[int64][]int64{}}}, err
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

// URL returns the address of the folder.
func (f Files) URL() string { return f.c.Origin() + f.path }

// Said returns what the log says of itself under a name of [Said]. A mirror need not have it: [fs.ErrNotExist].
func (f Files) Said(ctx context.Context, name string) ([]byte, error) {
	return f.c.file(ctx, f.path+name, MaxAnswer)
}

// Kept returns the kept checkpoint of a size. A mirror keeps those that bear cosignatures, and not all mirrors do:
// [fs.ErrNotExist].
func (f Files) Kept(ctx context.Context, size int64) ([]byte, error) {
	return f.c.file(ctx, f.path+ledger.KeptName(size), ledger.MaxCheckpoint)
}

// Around returns kept checkpoints; see [ledger.Keeper]. Which there are is asked once.
func (f Files) Around(ctx context.Context, index int64) (before, after []byte, err error) {
	end, err := f.kept.end(func() (int64, error) {
		note, err := f.Checkpoint(ctx)
		if err != nil {
			return 0, err
		}
		c, err := ledger.ReadCheckpoint(note)
		return c.Size, err
	})
	if err != nil {
		return nil, nil, err
	}
	here := index / ledger.SizesPerPage
	for page := here; page >= 0 && before == nil; page-- {
		sizes, err := f.sizes(ctx, page)
		if err != nil {
			return nil, nil, err
		}
		if i, _ := ledger.AroundSizes(sizes, index); i >= 0 {
			if before, err = f.Kept(ctx, sizes[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	for page := here; page <= end/ledger.SizesPerPage && after == nil; page++ {
		sizes, err := f.sizes(ctx, page)
		if err != nil {
			return nil, nil, err
		}
		if _, i := ledger.AroundSizes(sizes, index); i < len(sizes) {
			if after, err = f.Kept(ctx, sizes[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	return before, after, nil
}

// sizes returns the sizes of a page of which checkpoints are kept.
func (f Files) sizes(ctx context.Context, page int64) ([]int64, error) {
	return f.kept.page(page, func() ([]int64, error) {
		data, err := f.c.file(ctx, f.path+ledger.SizesPage(page), ledger.MaxSizes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return ledger.ParseSizes(data, page)
	})
}

// keptSizes is what was read of which checkpoints are kept. Its methods may be called concurrently.
type keptSizes struct {
	mu    sync.Mutex
	size  int64 // of the log when it was asked first; zero: not yet
	pages map[int64][]int64
}

func (k *keptSizes) end(ask func() (int64, error)) (size int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size == 0 {
		k.size, err = ask()
	}
	return k.size, err
}

func (k *keptSizes) page(page int64, ask func() ([]int64, error)) ([]int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sizes, ok := k.pages[page]; ok {
		return sizes, nil
	}
	sizes, err := ask()
	if err == nil {
		k.pages[page] = sizes
	}
	return sizes, err
}
