package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// Mirror is a folder with the public part of a chain of logs as static files, for a web server or a CDN: `checkpoint` and
// `tile/…` as C2SP tlog-tiles has them; `checkpoints/SIZE`, of each size the first one that bears cosignatures, and the lists
// of them in `checkpoints/sizes/`; `keysets` and `engines`, what the logs say of themselves. The first log is in the folder
// itself and each later one in a folder below that its number names, with `keysets-before`, the keysets of the logs before
// it. There is nothing else, so no entry and no blob.
//
// A checkpoint is put in place by one rename, after every tile of its tree is on the disk: whoever reads the checkpoint
// first finds the tiles. Narrower forms of a tile go once the complete one is there, which readers then ask for instead
// (tlog-tiles, "Partial Tiles"). Whoever dies on the way leaves a whole older log, which the next one goes on with.
//
// One process writes a folder at a time. It needs no role: each process may have a mirror of its own, and those that are
// given the same folder take over from one that died.
type Mirror struct {
	dir    string
	folder *os.File // locked while the mirror is open
}

const (
	mirrorCheckpoint = "checkpoint"
	mirrorKeysets    = "keysets-before" // those of the logs before
	mirrorUnfinished = ".unfinished-"   // begins the name of a file that is not in its place yet
)

// errMirrorHeld is returned for a folder that somebody else has open.
var errMirrorHeld = errors.New("another process writes it")

// OpenMirror opens a folder, and makes it if need be. A folder that another process has open is refused.
func OpenMirror(dir string) (_ *Mirror, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	m := &Mirror{dir: dir}
	if m.folder, err = os.Open(dir); err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}
	if err := syscall.Flock(int(m.folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errMirrorHeld
		}
		return nil, errors.Join(fmt.Errorf("mirror: %s: %w", dir, err), m.Close())
	}
	left, err := filepath.Glob(filepath.Join(dir, mirrorUnfinished+"*"))
	later, err2 := filepath.Glob(filepath.Join(dir, "*", mirrorUnfinished+"*"))
	err = errors.Join(err, err2)
	for _, name := range append(left, later...) {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mirror: %w", err), m.Close())
	}
	return m, nil
}

// Close lets another process open the folder.
func (m *Mirror) Close() error { return m.folder.Close() }

// Update brings the folder to the newest checkpoints of a chain of logs, which are given the oldest first, and reports
// whether there was anything new. A folder whose checkpoint its log does not continue is left as it is: it shows another
// log, or one that has lost what it had published. said is what the logs say of themselves, by the names of [client.Said].
// No signature is checked: all is the operator's own.
func (m *Mirror) Update(ctx context.Context, said map[string][]byte, logs ...ledger.Source) (bool, error) {
	fail := func(err error) (bool, error) { return false, fmt.Errorf("mirror: %w", err) }
	// The newest first: where a log has a checkpoint, the one that is read of the log before it is its last.
	signed := make([][]byte, len(logs))
	for i, src := range slices.Backward(logs) {
		var err error
		if signed[i], err = src.Checkpoint(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(err)
		}
	}
	any := false
	for i, src := range logs {
		if signed[i] == nil {
			break
		}
		one := mirrored{m.dir}
		if i > 0 {
			one.dir = filepath.Join(m.dir, strconv.Itoa(i+1))
		}
		updated, err := one.update(ctx, src, signed[i], said)
		if err != nil {
			return fail(err)
		}
		any = any || updated
	}
	return any, nil
}

// mirrored is the folder of one log.
type mirrored struct{ dir string }

func (m mirrored) update(ctx context.Context, src ledger.Source, signed []byte, said map[string][]byte) (bool, error) {
	c, err := ledger.ReadCheckpoint(signed)
	if err != nil {
		return false, err
	}
	shown, err := files.Bounded(filepath.Join(m.dir, mirrorCheckpoint), ledger.MaxCheckpoint)
	var last ledger.Checkpoint
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case bytes.Equal(shown, signed):
		return false, m.writeSaid(said)
	default:
		if last, err = ledger.ReadCheckpoint(shown); err == nil && last.Origin != c.Origin {
			err = fmt.Errorf("that of %q, and not of %q", last.Origin, c.Origin)
		}
		if err != nil {
			return false, fmt.Errorf("%s shows another log: %w", m.dir, err)
		}
		if err := continues(ctx, src, last.Tree, c.Tree); err != nil {
			return false, fmt.Errorf("the log of size %d does not continue that of size %d which %s shows: %w", c.Size, last.Size, m.dir, err)
		}
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return false, err
	}
	// The keys first: whoever reads a checkpoint finds those that signed it.
	if err := errors.Join(m.writeSaid(said), m.writeKeysets(ctx, src)); err != nil {
		return false, err
	}
	if err := m.writeTiles(ctx, src, last.Size, c.Size); err != nil {
		return false, err
	}
	if err := files.SyncFolder(filepath.Dir(m.dir)); err != nil {
		return false, err
	}
	if err := m.keep(ctx, src, last.Size, c.Size); err != nil {
		return false, err
	}
	if err := m.write(mirrorCheckpoint, signed); err != nil {
		return false, err
	}
	for t := range ledger.Tiles(last.Size, c.Size) {
		if t.Width == ledger.TileWidth {
			if err := os.RemoveAll(filepath.Join(m.dir, filepath.FromSlash(t.Path()+".p"))); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// continues checks that one tree is a prefix of another.
func continues(ctx context.Context, src ledger.Source, from, to ledger.Tree) error {
	if from.Size > to.Size {
		return errors.New("it is smaller")
	}
	if from.Size == to.Size {
		if from != to {
			return errors.New("it has another root")
		}
		return nil
	}
	if from.Size == 0 {
		return nil
	}
	proof, err := ledger.ProveConsistency(ctx, src, from.Size, to.Size)
	if err != nil {
		return err
	}
	return proof.Verify(from, to)
}

// writeKeysets writes the keysets of the logs before, by which the keys of this one are believed.
func (m mirrored) writeKeysets(ctx context.Context, src ledger.Source) error {
	later, ok := src.(ledger.Continuing)
	if !ok {
		return nil
	}
	if _, err := os.Stat(filepath.Join(m.dir, mirrorKeysets)); err == nil {
		return nil // they are what they were when the log began
	}
	data, err := later.Keysets(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.write(mirrorKeysets, data)
}

// writeTiles writes what the tree of one size has more than that of another, and returns when the disk has it.
func (m mirrored) writeTiles(ctx context.Context, src ledger.Source, from, to int64) error {
	folders := map[string]bool{}
	for t := range ledger.Tiles(from, to) {
		data, err := src.Tile(ctx, t)
		if err != nil {
			return err
		}
		if err := m.write(t.Path(), data); err != nil {
			return err
		}
		for folder := filepath.Dir(filepath.FromSlash(t.Path())); folder != "."; folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	for folder := range folders {
		if err := files.SyncFolder(filepath.Join(m.dir, folder)); err != nil {
			return err
		}
	}
	return files.SyncFolder(m.dir)
}

// write puts one file in its place, whole, its content on the disk.
func (m mirrored) write(name string, data []byte) (err error) {
	path := filepath.Join(m.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(m.dir, mirrorUnfinished+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeSaid brings what the log says of itself up to date.
func (m mirrored) writeSaid(said map[string][]byte) error {
	for name, data := range said {
		shown, err := files.Bounded(filepath.Join(m.dir, name), client.MaxAnswer)
		if err == nil && bytes.Equal(shown, data) {
			continue
		}
		if err := m.write(name, data); err != nil {
			return err
		}
	}
	return nil
}

// keep writes the kept checkpoints of a log that has grown from one size to another, and lists them. A folder that keeps
// none yet gets them from the beginning.
func (m mirrored) keep(ctx context.Context, src ledger.Source, from, to int64) error {
	keeper, ok := src.(ledger.Keeper)
	if !ok {
		return nil
	}
	if _, err := os.Stat(filepath.Join(m.dir, ledger.KeptPrefix)); errors.Is(err, fs.ErrNotExist) {
		from = 0
	}
	if err := os.MkdirAll(filepath.Join(m.dir, ledger.KeptPrefix), 0o755); err != nil {
		return err
	}
	pages := map[int64][]int64{} // sizes that are new
	// That of size `from` is the one that is shown: it was cosigned then or since.
	for index := max(0, from-1); index < to; {
		_, after, err := keeper.Around(ctx, index)
		if err != nil || after == nil {
			return errors.Join(err, m.list(pages))
		}
		c, err := ledger.ReadCheckpoint(after)
		if err != nil {
			return err
		}
		index = c.Size
		if c.Size > to || !ledger.HasCosignature(after) {
			continue
		}
		if err := m.write(ledger.KeptName(c.Size), after); err != nil {
			return err
		}
		pages[c.Size/ledger.SizesPerPage] = append(pages[c.Size/ledger.SizesPerPage], c.Size)
	}
	return m.list(pages)
}

// list adds sizes to the lists of kept checkpoints.
func (m mirrored) list(pages map[int64][]int64) error {
	for page, sizes := range pages {
		listed, err := files.Bounded(filepath.Join(m.dir, ledger.SizesPage(page)), ledger.MaxSizes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		old, err := ledger.ParseSizes(listed, page)
		if err != nil {
			return err
		}
		sizes = append(sizes, old...)
		slices.Sort(sizes)
		if err := m.write(ledger.SizesPage(page), ledger.FormatSizes(slices.Compact(sizes))); err != nil {
			return err
		}
	}
	if len(pages) == 0 {
		return nil
	}
	return errors.Join(files.SyncFolder(filepath.Join(m.dir, ledger.KeptPrefix)), files.SyncFolder(filepath.Join(m.dir, ledger.KeptPrefix, "sizes")))
}
