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
type Mirror struct {
	c      *Client
	path   string // of its folder, ends with a slash
	origin string // empty: it is the server's first log, and nobody said its name
}

var (
	_ ledger.Keeper     = Mirror{}
	_ ledger.Continuing = Mirror{}
)

// firstLog is where a server's first log is.
const firstLog = "/log/"

// Mirror returns the first log of the client's server. Where a chain of logs is to be followed, see [Client.Log].
func (c *Client) Mirror() Mirror { return Mirror{c: c, path: firstLog} }

// Log returns one of the server's logs. A server that names no logs has one.
func (c *Client) Log(ctx context.Context, origin string) (Mirror, error) {
	logs, err := c.Logs(ctx)
	if p := AsProblem(err); p != nil && p.Status == http.StatusNotFound {
		return Mirror{c, firstLog, origin}, nil
	}
	if err != nil {
		return Mirror{}, err
	}
	var names []string
	for _, l := range logs {
		if l.Origin == origin {
			return Mirror{c, l.Path, origin}, nil
		}
		names = append(names, l.Origin)
	}
	return Mirror{}, fmt.Errorf("log %.80q: the server has %.1000q", origin, names)
}

// Chain returns the server's logs, for a reader who goes from one to the next.
func (c *Client) Chain(ctx context.Context) (ledger.Chain, error) {
	keys, err := c.Keys(ctx)
	return ledger.Chain{Keys: keys, Log: func(ctx context.Context, origin string) (ledger.Source, error) { return c.Log(ctx, origin) }}, err
}

// Checkpoint returns the newest checkpoint note.
func (m Mirror) Checkpoint(ctx context.Context) ([]byte, error) {
	return m.fetch(ctx, m.path+"checkpoint", ledger.MaxCheckpoint)
}

// Keysets returns the document of the keysets of the logs before; see [ledger.Continuing].
func (m Mirror) Keysets(ctx context.Context) ([]byte, error) {
	if m.path == firstLog {
		return nil, fs.ErrNotExist
	}
	keys, err := m.c.Keys(ctx)
	if err != nil {
		return nil, err
	}
	data, err := ledger.KeysetsBefore(keys, m.origin)
	if err == nil && data == nil {
		err = fs.ErrNotExist
	}
	return data, err
}

// CheckpointsAround is the answer to GET /v1/checkpoints?around=INDEX&log=ORIGIN (without log: of the first one): the kept checkpoints on both sides of an entry.
type CheckpointsAround struct {
	Before string `json:"before,omitzero"` // note of the largest that does not cover it; absent: none is kept
	After  string `json:"after,omitzero"`  // note of the smallest that does
}

// Around returns kept checkpoints; see [ledger.Keeper]. A server that does not answer this keeps none.
func (m Mirror) Around(ctx context.Context, index int64) (before, after []byte, err error) {
	var a CheckpointsAround
	query := url.Values{"around": {strconv.FormatInt(index, 10)}}
	if m.origin != "" {
		query.Set("log", m.origin)
	}
	err = m.c.get(ctx, "/v1/checkpoints?"+query.Encode(), &a)
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
	data, err := m.fetch(ctx, m.path+t.Path(), int64(t.Bytes()))
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
// checkpoints, and what the log says of itself, below a folder. Like [Mirror] a ledger.Keeper. The logs after it, if there
// are any, are in the folders 2/, 3/, ... below that.
type Files struct {
	c    *Client
	path string // of the folder, ends with a slash
	kept *keptSizes
}

var (
	_ ledger.Keeper     = Files{}
	_ ledger.Continuing = Files{}
)

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
	return Files{files, folder, newKeptSizes()}, err
}

// Below returns the log in a folder below this one.
func (f Files) Below(folder string) Files { return Files{f.c, f.path + folder + "/", newKeptSizes()} }

// Keysets returns the document of the keysets of the logs before; see [ledger.Continuing].
func (f Files) Keysets(ctx context.Context) ([]byte, error) {
	return f.c.file(ctx, f.path+"keysets-before", ledger.MaxKeysetsDocument)
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

func newKeptSizes() *keptSizes { return &keptSizes{pages: map[int64][]int64{}} }

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
