package audit

import (
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

// whatAbsent is the fault of a blob that is not there.
const whatAbsent = "missing"

func absent(digest canon.Digest) *Fault {
	return &Fault{Part: blobName(digest), Index: NoIndex, What: whatAbsent}
}

// absent reports whether a source says that it does not have a blob.
func (r *replay) absent(ctx context.Context, digest canon.Digest) bool {
	_, err := r.blob(ctx, digest)
	return isAbsent(err)
}

func isAbsent(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.What == whatAbsent
}

// learnAbsent notes what an entry says whose body is not there, so that one blob that is missing is one fault, or none if
// it was erased.
func (r *replay) learnAbsent(index int64, e ledger.Entry) {
	switch e.Kind {
	case ledger.KindPolicy:
		if _, ok := r.policies[e.Body]; !ok {
			r.policies[e.Body] = nil
		}
	case ledger.KindReference, ledger.KindEnrolment:
		r.first(logged{e.Kind, e.Body}, index)
	case ledger.KindChallenge:
		r.challenges[e.Body] = &challenge{absent: true, index: index}
	}
}

// knowsPolicy reports whether a policy stands in the log, be its body there or not.
func (r *replay) knowsPolicy(body canon.Digest) bool {
	_, ok := r.policies[body]
	return ok
}

// passOver reads what was said of evidence that is not there and recomputes none of it, so that what of that is missing or
// damaged is found all the same.
func (j *job) passOver(ctx context.Context) error {
	for _, a := range j.ev.appraisals {
		if err := j.met(j.readInputs(ctx, a), a.index, ledger.KindAppraisal); err != nil {
			return err
		}
		for _, v := range a.verdicts {
			j.res.answered = true
			_, err := j.blob(ctx, v.body)
			if err := j.met(err, v.index, ledger.KindVerdict); err != nil {
				return err
			}
		}
	}
	return nil
}

// readInputs reads an appraisal and all that it names but its evidence.
func (j *job) readInputs(ctx context.Context, a *appraisal) error {
	body, err := j.blob(ctx, a.body)
	if err != nil {
		return err
	}
	logged, err := parseAppraisal(body)
	if err != nil {
		return wrong("%v", err)
	}
	for _, in := range logged.Inputs {
		if in.Digest == a.evidence {
			continue
		}
		if _, err := j.blob(ctx, in.Digest); err != nil {
			return err
		}
	}
	return nil
}

// judgeErasures finds which acts were not allowed, and takes back the faults of blobs that were erased as they may be. It
// goes through the log once more, from its end, where there is an act.
func (r *replay) judgeErasures(ctx context.Context) error {
	if len(r.acts) == 0 {
		return nil
	}
	custody := ledger.NewCustody(r.acts)
	if err := r.back(ctx, custody.Back); err != nil {
		return err
	}
	refusals, gone := custody.Judge()
	for _, refused := range refusals {
		what := "not allowed: " + refused.Why
		if !refused.Digest.IsZero() {
			what = fmt.Sprintf("not allowed: erases %s: %s", refused.Digest, refused.Why)
		}
		r.fault(Fault{Part: fmt.Sprintf("entry %d", refused.Index), Index: refused.Index, Kind: ledger.KindErasure, What: what})
	}
	byPart := map[string]int64{}
	for d, index := range gone {
		byPart[blobName(d)] = index
	}
	seen := map[ErasedBlob]bool{}
	r.faults = slices.DeleteFunc(r.faults, func(f Fault) bool {
		by, ok := byPart[f.Part]
		if !ok || f.What != whatAbsent {
			return false
		}
		seen[ErasedBlob{f.Part, by}] = true
		return true
	})
	for b := range seen {
		r.report.Erased = append(r.report.Erased, b)
	}
	r.report.ErasedCount = int64(len(r.report.Erased))
	slices.SortFunc(r.report.Erased, func(a, b ErasedBlob) int { return strings.Compare(a.Part, b.Part) })
	r.report.Erased = slices.Clip(r.report.Erased[:min(len(r.report.Erased), MaxFaults)])
	return nil
}

// back visits the entries of a log that was read already, from the last to the first. Openings that cannot be read were
// faults then.
func (r *replay) back(ctx context.Context, visit func(int64, ledger.Entry)) error {
	for last := r.report.Size; last > 0; {
		t := bundleOf(last-1, r.report.Size)
		data, err := r.src.Tile(ctx, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path(), err)
		}
		leaves, err := ledger.ParseEntryBundle(data)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Path(), err)
		}
		first := t.Index * ledger.TileWidth
		for i, commitment := range slices.Backward(leaves) {
			opening, err := r.blob(ctx, commitment)
			var f *Fault
			if errors.As(err, &f) {
				continue
			}
			if err != nil {
				return err
			}
			if _, e, err := ledger.ParseOpening(opening); err == nil {
				visit(first+int64(i), e)
			}
		}
		last = first
	}
	return nil
}
