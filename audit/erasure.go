package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ErasedBlob is a blob that is not there because an entry of the log erased it, as it may be erased.
type ErasedBlob struct {
	Part string `json:"part"`
	By   int64  `json:"by"` // index of the entry
}

// absent is the fault of a blob that a source does not have.
func absent(digest canon.Digest) *Fault {
	return &Fault{Part: blobName(digest), Index: NoIndex, What: "missing"}
}

func isAbsent(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.What == "missing"
}

// erasures is what the acts of a log come to. It is found when the first blob is missing, or else when the log was read.
type erasures struct {
	found    bool
	refusals []ledger.Refusal
	gone     map[canon.Digest]int64 // what was erased as it may be, and by which entry
	noted    map[ErasedBlob]bool    // met so far
}

func erasedBy(entry int64) string { return fmt.Sprintf("erased by entry %d", entry) }

// blob reads a blob and compares it with its digest. One that was erased as it may be is a fault that says so, and that
// [replay.fault] counts apart.
func (r *replay) blob(ctx context.Context, digest canon.Digest) ([]byte, error) {
	data, err := r.lately.get(digest, func() ([]byte, int, error) {
		data, err := readBlob(ctx, r.src, digest)
		return data, len(data), err
	})
	if !isAbsent(err) {
		return data, err
	}
	if err := r.findErasures(ctx); err != nil {
		return nil, err
	}
	f := absent(digest)
	if by, ok := r.erased.gone[digest]; ok {
		f.What = erasedBy(by)
	}
	return nil, f
}

// isErased reports whether a fault is that of a blob that was erased as it may be, and notes it.
func (r *replay) isErased(f Fault) bool {
	digest, err := parseBlobName(f.Part)
	by, ok := r.erased.gone[digest]
	if err != nil || !ok || f.What != erasedBy(by) {
		return false
	}
	if b := (ErasedBlob{f.Part, by}); !r.erased.noted[b] {
		r.erased.noted[b] = true
		r.report.ErasedCount++
	}
	return true
}

// wasErased reports whether a blob was erased as it may be. The log was read.
func (r *replay) wasErased(digest canon.Digest) bool {
	_, ok := r.erased.gone[digest]
	return ok
}

// chooseErasure adds the entry by which a blob was erased, if it was.
func (r *replay) chooseErasure(digest canon.Digest, chosen map[int64]bool) {
	if by, ok := r.erased.gone[digest]; ok {
		chosen[by] = true
	}
}

// listErased writes what was met into the report.
func (r *replay) listErased() {
	r.report.Erased = nil
	for b := range r.erased.noted {
		r.report.Erased = append(r.report.Erased, b)
	}
	slices.SortFunc(r.report.Erased, func(a, b ErasedBlob) int { return strings.Compare(a.Part, b.Part) })
	r.report.Erased = slices.Clip(r.report.Erased[:min(len(r.report.Erased), MaxFaults)])
}

// findErasures finds out what was erased as it may be. It goes through the log for the acts, and where there are any once
// more from its end. In a scope it judges by the entries of the scope.
func (r *replay) findErasures(ctx context.Context) error {
	if r.erased.found {
		return nil
	}
	r.erased = erasures{found: true, noted: map[ErasedBlob]bool{}}
	var acts []ledger.Act
	err := r.everyEntry(ctx, func(index int64, e ledger.Entry) error {
		if e.Kind != ledger.KindErasure {
			return nil
		}
		body, err := readBlob(ctx, r.src, e.Body)
		if f := new(Fault); errors.As(err, &f) {
			return nil // it is met again when its entry is read
		}
		if err != nil {
			return err
		}
		if act, err := ledger.ParseErasure(body); err == nil {
			acts = append(acts, ledger.Act{Index: index, Time: e.Time, Erasure: act})
		}
		return nil
	})
	if err != nil || len(acts) == 0 {
		return err
	}
	slices.SortFunc(acts, func(a, b ledger.Act) int { return cmp.Compare(a.Index, b.Index) })
	custody := ledger.NewCustody(acts)
	err = r.everyEntry(ctx, func(index int64, e ledger.Entry) error {
		custody.Back(index, e)
		return nil
	})
	r.erased.refusals, r.erased.gone = custody.Judge()
	return err
}

// judgeErasures finds the acts that were not allowed, where there are acts.
func (r *replay) judgeErasures(ctx context.Context) error {
	if r.kinds[ledger.KindErasure] == 0 {
		r.erased.found = true // what is missing from now on was not erased
		return nil
	}
	if err := r.findErasures(ctx); err != nil {
		return err
	}
	for _, refused := range r.erased.refusals {
		what := "not allowed: " + refused.Why
		if !refused.Digest.IsZero() {
			what = fmt.Sprintf("not allowed: erases %s: %s", refused.Digest, refused.Why)
		}
		r.fault(Fault{Part: fmt.Sprintf("entry %d", refused.Index), Index: refused.Index, Kind: ledger.KindErasure, What: what})
	}
	return nil
}

// everyEntry visits the entries of the log, or of the scope, from the last to the first. What cannot be read is left out:
// it is a fault when its turn comes.
func (r *replay) everyEntry(ctx context.Context, visit func(int64, ledger.Entry) error) error {
	for last := r.report.Size; last > 0; {
		t := bundleOf(last-1, r.report.Size)
		last = t.Index * ledger.TileWidth
		data, err := r.src.Tile(ctx, t)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		leaves, err := ledger.ParseEntryBundle(data)
		if err != nil {
			continue
		}
		for i, commitment := range slices.Backward(leaves) {
			index := last + int64(i)
			if r.scope != nil && !r.scope.has(index) {
				continue
			}
			opening, err := readBlob(ctx, r.src, commitment)
			if f := new(Fault); errors.As(err, &f) {
				continue
			}
			if err != nil {
				return err
			}
			if _, e, err := ledger.ParseOpening(opening); err == nil {
				if err := visit(index, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// knowsPolicy reports whether a policy stands in the log, be its body there or not.
func (r *replay) knowsPolicy(body canon.Digest) bool {
	_, ok := r.policies[body]
	return ok
}
