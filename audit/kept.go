package audit

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/assay-network/assay/ledger"
)

// keeping collects, while a log is read in order, the kept checkpoints that bracket its appraisals.
type keeping struct {
	keeper ledger.Keeper // nil: the source keeps none
	notes  map[int64][]byte
	end    int64 // appraisals before this index lie between checkpoints that are here
}

func newKeeping(src ledger.Source) *keeping {
	k := &keeping{notes: map[int64][]byte{}}
	k.keeper, _ = src.(ledger.Keeper)
	return k
}

// bracket collects the checkpoints around an appraisal. Those that carry the log's own signature alone bear no time.
func (k *keeping) bracket(ctx context.Context, index int64) error {
	if k.keeper == nil || index < k.end {
		return nil
	}
	before, after, err := k.keeper.Around(ctx, index)
	if err != nil {
		return err
	}
	for _, data := range [][]byte{before, after} {
		if data == nil {
			continue
		}
		c, err := ledger.ReadCheckpoint(data)
		if err != nil {
			return fmt.Errorf("kept checkpoint: %w", err)
		}
		if c.Size > index {
			k.end = c.Size
		}
		if ledger.HasCosignature(data) {
			k.notes[c.Size] = data
		}
	}
	return nil
}

// sizes returns the sizes of what was collected, ascending.
func (k *keeping) sizes() []int64 {
	var out []int64
	for size := range k.notes {
		out = append(out, size)
	}
	slices.Sort(out)
	return out
}

// Around returns kept checkpoints; see [ledger.Keeper].
func (a *Archive) Around(_ context.Context, index int64) (before, after []byte, err error) {
	i, k := ledger.AroundSizes(a.keptSizes, index)
	if i >= 0 {
		before, err = a.content(ledger.KeptName(a.keptSizes[i]), a.kept[a.keptSizes[i]])
	}
	if err == nil && k < len(a.keptSizes) {
		after, err = a.content(ledger.KeptName(a.keptSizes[k]), a.kept[a.keptSizes[k]])
	}
	return before, after, err
}

// Around returns kept checkpoints; see [ledger.Keeper].
func (d directory) Around(_ context.Context, index int64) (before, after []byte, err error) {
	entries, err := fs.ReadDir(d.fsys, strings.TrimSuffix(ledger.KeptPrefix, "/"))
	if isNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var sizes []int64
	for _, e := range entries {
		if size, ok := ledger.ParseKeptName(ledger.KeptPrefix + e.Name()); ok {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	i, k := ledger.AroundSizes(sizes, index)
	if i >= 0 {
		before, err = d.read(ledger.KeptName(sizes[i]), ledger.MaxCheckpoint)
	}
	if err == nil && k < len(sizes) {
		after, err = d.read(ledger.KeptName(sizes[k]), ledger.MaxCheckpoint)
	}
	return before, after, err
}
