package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ErasedBlob is a blob that is not there because an entry of the log erased it, as it may be erased.
type ErasedBlob struct {
	Part string `json:"part"`
	Log  string `json:"log,omitzero"` // that has the entry; absent: the one at hand
	By   int64  `json:"by"`           // index of the entry
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
	gone     map[canon.Digest]eraser // what was erased as it may be, and by which entry
	noted    map[ErasedBlob]bool     // met so far
}

// eraser is the entry that erased something.
type eraser struct {
	log   string // empty: the one at hand
	index int64
}

func (e eraser) String() string {
	if e.log != "" {
		return fmt.Sprintf("erased by entry %d of the log %q", e.index, e.log)
	}
	return fmt.Sprintf("erased by entry %d", e.index)
}

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
		f.What = by.String()
	}
	return nil, f
}

// isErased reports whether a fault is that of a blob that was erased as it may be, and notes it.
func (r *replay) isErased(f Fault) bool {
	digest, err := parseBlobName(f.Part)
	by, ok := r.erased.gone[digest]
	if err != nil || !ok || f.What != by.String() {
		return false
	}
	if b := (ErasedBlob{f.Part, by.log, by.index}); !r.erased.noted[b] {
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
	if by, ok := r.erased.gone[digest]; ok && by.log == "" {
		chosen[by.index] = true
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
	return findErasures(ctx, []*replay{r})
}

// findErasures does so for logs of a chain, the oldest first: a later one may say what was erased of an earlier one, and
// holds and the time that something is kept for go on over the boundary.
func findErasures(ctx context.Context, logs []*replay) error {
	var acts []ledger.Act
	begins := make([]int64, len(logs)) // of each log, as if all were one
	for i, r := range logs {
		if i > 0 {
			begins[i] = begins[i-1] + logs[i-1].report.Size
		}
		r.erased = erasures{found: true, gone: map[canon.Digest]eraser{}, noted: map[ErasedBlob]bool{}}
		var own []ledger.Act
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
				own = append(own, ledger.Act{Index: begins[i] + index, Time: e.Time, Erasure: act})
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(own, func(a, b ledger.Act) int { return cmp.Compare(a.Index, b.Index) })
		inForce := ledger.InForce(acts)
		acts = append(acts, slices.DeleteFunc(own, func(a ledger.Act) bool { // one that goes on is one hold
			return a.Act == ledger.ActHold && slices.ContainsFunc(inForce, func(h ledger.Act) bool { return reflect.DeepEqual(h.Erasure, a.Erasure) })
		})...)
	}
	if len(acts) == 0 {
		return nil
	}
	custody := ledger.NewCustody(acts)
	for i, r := range slices.Backward(logs) {
		err := r.everyEntry(ctx, func(index int64, e ledger.Entry) error {
			custody.Back(begins[i]+index, e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	refusals, gone := custody.Judge()
	at := func(index int64) int { // the log of an act
		i, ok := slices.BinarySearch(begins, index)
		if !ok {
			i--
		}
		return i
	}
	for _, refused := range refusals {
		if refused.Lacks && len(logs[0].before) > 0 {
			continue
		}
		i := at(refused.Index)
		refused.Index -= begins[i]
		logs[i].erased.refusals = append(logs[i].erased.refusals, refused)
	}
	for digest, index := range gone {
		by := at(index)
		for i, r := range logs[:by+1] {
			r.erased.gone[digest] = eraser{index: index - begins[by]}
			if i < by {
				r.erased.gone[digest] = eraser{logs[by].report.Origin, index - begins[by]}
			}
		}
	}
	return nil
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
