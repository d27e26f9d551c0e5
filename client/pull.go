package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// Pull copies a log, with the blobs that the caller may read, into a folder of the layout that tlog-tiles has: checkpoint,
// tile/..., blob/DIGEST, checkpoints/SIZE, the earlier ones that bear cosignatures, keysets-before, those of the logs before,
// and what the log says of itself. A server of plain files over the folder is a mirror ([Files]). What the folder has is not
// fetched again, so that a pull that was cut off goes on, and a later one takes what is new. The checkpoint is written last:
// the folder is at each moment an earlier pull, or none.
type Pull struct {
	From ledger.Source
	Dir  string            // is made if need be
	Have ledger.Source     // reads Dir
	Last []byte            // newest checkpoint note that was believed; nil: none but the folder's, if it has one
	Logs []string          // verifier keys of the log, of which one is enough
	Said map[string][]byte // what the log says of itself, by the names of [Said]; the folder gets it as well
	// Names returns the blobs that an entry's body names beside itself; src has the body.
	Names    func(ctx context.Context, src ledger.Source, e ledger.Entry) ([]canon.Digest, error)
	Progress func(stage string, done, total int64) // may be nil. Stages are "tiles" and "entries"
}

// Pulled says what a pull brought.
type Pulled struct {
	Checkpoint ledger.Checkpoint
	From       int64          // size of the log by the newest checkpoint of before
	Tiles      int64          // that were fetched
	Blobs      int64          // that were fetched
	Withheld   []canon.Digest // openings and blobs that the source did not give, ordered; at most MaxWithheld
	Refused    int64          // how many there are
	Why        error          // of the first of them
}

// Files of a pulled folder beside the log.
const (
	withheldFile = "withheld"           // digests that the source did not give, one a line; they are asked for again
	believedNote = "fork-believed.note" // two notes that one history does not hold
	refusedNote  = "fork-refused.note"
)

// Run pulls. It checks that the checkpoint is signed by the log, that it continues the last one, and that the leaves and
// all tiles in the folder are those of its tree; each blob has its digest. It opens no envelope and recomputes nothing:
// that is what an audit does.
//
// A *[ledger.Fork] says that the log contradicts itself: both notes are kept in the folder, and nothing else is changed.
func (p Pull) Run(ctx context.Context) (Pulled, error) {
	if p.Progress == nil {
		p.Progress = func(string, int64, int64) {}
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return Pulled{}, err
	}
	kept, err := p.Have.Checkpoint(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Pulled{}, err
	}
	next, err := p.From.Checkpoint(ctx)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull: checkpoint: %w", err)
	}
	var out Pulled
	for _, last := range [][]byte{p.Last, kept} {
		cosigned, err := ledger.Follower{Logs: p.Logs}.Follow(ctx, p.From, last, next, 0)
		var fork *ledger.Fork
		if errors.As(err, &fork) {
			if err := p.certain(ctx, fork); err != nil {
				return Pulled{}, fmt.Errorf("pull: %w", err)
			}
			return Pulled{}, errors.Join(fmt.Errorf("pull: %w", err), keepFork(p.Dir, fork))
		}
		if err != nil {
			return Pulled{}, fmt.Errorf("pull: %w", err)
		}
		out.Checkpoint = cosigned.Checkpoint
	}
	had := sizeOf(kept) // the folder need not have what was believed
	out.From = max(had, sizeOf(p.Last))
	w := &pulling{Pull: p, out: &out, had: had}
	if err := w.tiles(ctx); err != nil {
		return out, fmt.Errorf("pull: %w", err)
	}
	if err := w.entries(ctx); err != nil {
		return out, fmt.Errorf("pull: %w", err)
	}
	if err := w.keysets(ctx); err != nil {
		return out, fmt.Errorf("pull: %w", err)
	}
	slices.SortFunc(out.Withheld, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	if err := w.note(); err != nil {
		return out, fmt.Errorf("pull: %w", err)
	}
	if err := errors.Join(w.keep(next), w.listKept(), w.writeSaid()); err != nil {
		return out, err
	}
	return out, write(filepath.Join(p.Dir, "checkpoint"), next)
}

// sizeOf returns the size of the log by a checkpoint note, 0 where there is none.
func sizeOf(note []byte) int64 {
	c, err := ledger.ReadCheckpoint(note)
	if err != nil {
		return 0
	}
	return c.Size
}

// certain returns why a fork is none: tiles that are not the tree's prove nothing, and are their server's fault.
func (p Pull) certain(ctx context.Context, f *ledger.Fork) error {
	from, err1 := ledger.ReadCheckpoint(f.Believed)
	to, err2 := ledger.ReadCheckpoint(f.Refused)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if from.Size == to.Size {
		return nil
	}
	if err := ledger.Walk(ctx, p.From, to.Tree, func(int64, canon.Digest) error { return ctx.Err() }); err != nil {
		return fmt.Errorf("that the log goes on from size %d cannot be told: %w", from.Size, err)
	}
	same := false
	if err := ledger.Trees(ctx, p.From, to.Tree, []int64{from.Size}, func(was ledger.Tree) { same = was == from.Tree }); err != nil {
		return err
	}
	if same {
		return fmt.Errorf("that the log goes on from size %d could not be told at the first try; try again", from.Size)
	}
	return nil
}

// keepFork keeps the two notes that prove a fork.
func keepFork(dir string, f *ledger.Fork) error {
	return errors.Join(write(filepath.Join(dir, believedNote), f.Believed), write(filepath.Join(dir, refusedNote), f.Refused))
}

// pulling is a pull under way.
type pulling struct {
	Pull
	had     int64 // size of the log in the folder by its checkpoint; 0: it has none
	mu      sync.Mutex
	out     *Pulled // guarded by mu while workers run
	refused int     // blobs in a row that were not given; guarded by mu
}

// keysets fetches the keysets of the logs before, if the source has such.
func (w *pulling) keysets(ctx context.Context) error {
	src, ok := w.From.(ledger.Continuing)
	if !ok {
		return nil
	}
	data, err := src.Keysets(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = ledger.ParseKeysets(data)
	}
	if err != nil {
		return fmt.Errorf("keysets of the logs before: %w", err)
	}
	return write(w.path("keysets-before"), data)
}

// tiles fetches the tiles that the folder lacks.
func (w *pulling) tiles(ctx context.Context) error {
	var missing []ledger.Tile
	for t := range ledger.Tiles(0, w.out.Checkpoint.Size) {
		if info, err := os.Stat(w.path(t.Path())); err != nil || info.Size() != int64(t.Bytes()) {
			missing = append(missing, t)
		}
	}
	done := int64(0)
	return atOnce(ctx, missing, func(ctx context.Context, t ledger.Tile) error {
		data, err := w.From.Tile(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path(), err)
		}
		if len(data) != t.Bytes() {
			return fmt.Errorf("%s: %d bytes, want %d", t.Path(), len(data), t.Bytes())
		}
		if err := write(w.path(t.Path()), data); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		done++
		w.out.Tiles++
		w.Progress("tiles", done, int64(len(missing)))
		return nil
	})
}

// entries checks the tree in the folder, and fetches openings and blobs of the entries that are new; of all entries, if
// something was withheld before.
func (w *pulling) entries(ctx context.Context) error {
	from := w.had
	if _, err := os.Stat(w.path(withheldFile)); err == nil {
		from = 0
	}
	size := w.out.Checkpoint.Size
	var some []canon.Digest
	first := from // index of the first of them
	var fetching error
	err := ledger.Walk(ctx, w.Have, w.out.Checkpoint.Tree, func(index int64, commitment canon.Digest) error {
		if index >= from {
			some = append(some, commitment)
		}
		if len(some) < ledger.TileWidth && index != size-1 {
			return nil
		}
		w.Progress("entries", index+1, size)
		fetching = w.blobs(ctx, first, some)
		some, first = some[:0], index+1
		return fetching
	})
	if err != nil && fetching == nil {
		err = errors.Join(err, w.forget())
	}
	return err
}

// forget removes the tiles that are new, so that the next pull fetches them again: they are not those of the tree.
func (w *pulling) forget() error {
	whole := map[string]bool{}
	for t := range ledger.Tiles(0, w.had) {
		whole[t.Path()] = true
	}
	var errs []error
	for t := range ledger.Tiles(0, w.out.Checkpoint.Size) {
		if whole[t.Path()] {
			continue
		}
		if err := os.Remove(w.path(t.Path())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// blobs fetches the openings of the entries from an index on, then their bodies, then what these name; and the checkpoints
// of before that bracket appraisals, where the source keeps them.
func (w *pulling) blobs(ctx context.Context, first int64, commitments []canon.Digest) error {
	if err := atOnce(ctx, commitments, w.blob); err != nil {
		return err
	}
	var entries []ledger.Entry
	var bodies []canon.Digest
	for i, c := range commitments {
		opening, err := w.Have.Blob(ctx, c)
		if errors.Is(err, fs.ErrNotExist) {
			continue // withheld
		}
		if err != nil {
			return err
		}
		if _, e, err := ledger.ParseOpening(opening); err == nil { // what is wrong with it, an audit says
			entries, bodies = append(entries, e), append(bodies, e.Body)
			if e.Kind != ledger.KindAppraisal {
				continue
			}
			if err := w.around(ctx, first+int64(i)); err != nil {
				return err
			}
		}
	}
	if err := atOnce(ctx, bodies, w.blob); err != nil {
		return err
	}
	var named []canon.Digest
	for _, e := range entries {
		if more, err := w.Names(ctx, w.Have, e); err == nil {
			named = append(named, more...)
		}
	}
	slices.SortFunc(named, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	return atOnce(ctx, slices.Compact(named), w.blob)
}

// around fetches the checkpoints on both sides of an entry.
func (w *pulling) around(ctx context.Context, index int64) error {
	keeper, ok := w.From.(ledger.Keeper)
	if !ok {
		return nil
	}
	before, after, err := keeper.Around(ctx, index)
	if err != nil {
		return fmt.Errorf("checkpoints around entry %d: %w", index, err)
	}
	return errors.Join(w.keep(before), w.keep(after))
}

// keep keeps a checkpoint beside the newest one, if it bears more than the log's own signature, and so a time.
func (w *pulling) keep(note []byte) error {
	c, err := ledger.ReadCheckpoint(note)
	if err != nil || !ledger.HasCosignature(note) {
		return nil
	}
	name := w.path(ledger.KeptName(c.Size))
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	return write(name, note)
}

// listKept writes down which checkpoints the folder keeps, for readers who cannot list it.
func (w *pulling) listKept() error {
	entries, err := os.ReadDir(w.path(strings.TrimSuffix(ledger.KeptPrefix, "/")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pages := map[int64][]int64{}
	for _, e := range entries {
		if size, ok := ledger.ParseKeptName(ledger.KeptPrefix + e.Name()); ok {
			pages[size/ledger.SizesPerPage] = append(pages[size/ledger.SizesPerPage], size)
		}
	}
	for page, sizes := range pages {
		slices.Sort(sizes)
		if err := write(w.path(ledger.SizesPage(page)), ledger.FormatSizes(sizes)); err != nil {
			return err
		}
	}
	return nil
}

func (w *pulling) writeSaid() error {
	for name, data := range w.Said {
		if err := write(w.path(name), data); err != nil {
			return err
		}
	}
	return nil
}

// blob fetches a blob that the folder lacks. That a source does not give it is noted, and no error.
func (w *pulling) blob(ctx context.Context, digest canon.Digest) error {
	path := w.path("blob/" + digest.String())
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	w.mu.Lock()
	given := w.refused < MaxRefused
	w.mu.Unlock()
	var data []byte
	err := error(fs.ErrPermission)
	if given {
		data, err = w.From.Blob(ctx, digest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("blob %s: %w", digest, err)
	}
	if err == nil {
		if canon.Sum(data) != digest {
			return fmt.Errorf("blob %s: the source has other bytes", digest)
		}
		if err := write(path, data); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.refused = 0
		w.out.Blobs++
		return nil
	}
	w.refused++
	if w.out.Refused++; w.out.Why == nil {
		w.out.Why = err
	}
	if len(w.out.Withheld) < MaxWithheld {
		w.out.Withheld = append(w.out.Withheld, digest)
	}
	return nil
}

// note writes down what was withheld, or that nothing was.
func (w *pulling) note() error {
	path := w.path(withheldFile)
	if w.out.Refused == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var b strings.Builder
	for _, d := range w.out.Withheld {
		fmt.Fprintln(&b, d)
	}
	return write(path, []byte(b.String()))
}

func (w *pulling) path(name string) string { return filepath.Join(w.Dir, filepath.FromSlash(name)) }

// atOnce does something for each item, AtOnce at a time, and returns the first error.
func atOnce[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan T)
	var wg sync.WaitGroup
	for range min(AtOnce, len(items)) {
		wg.Go(func() {
			for item := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, item := range items {
		work <- item
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// write writes a file whole or not at all, durably: what the folder has is not fetched again, so a crash must leave no half
// of it under its name.
func write(name string, data []byte) error {
	if err := files.Folder(filepath.Dir(name)); err != nil {
		return err
	}
	return files.Replace(name, data)
}
