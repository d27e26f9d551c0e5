package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Export writes the log that a source's newest checkpoint names: the checkpoint, the checkpoints of before that bracket
// appraisals if the source is a [ledger.Keeper], every tile, and every blob that the entries name. Equal logs give equal files. It reads the log twice and keeps 32 bytes for each blob, whatever the size of
// blobs.
//
// It refuses a source that lacks a part which the log does not say was erased, or whose leaves are not those of the
// checkpoint. Of a log that was closed a later one may say it, so there a body may be missing. It does not check the checkpoint's signature and recomputes no appraisal: [Replay] does.
func Export(ctx context.Context, src ledger.Source, w io.Writer) error {
	note, err := src.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("export: checkpoint: %w", err)
	}
	c, err := ledger.ReadCheckpoint(note)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	kept := newKeeping(src)
	named, err := namedBlobs(ctx, src, c.Tree, kept)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := writeExport(ctx, src, w, preamble{note: note, kept: kept}, c.Size, named.digests, func(d canon.Digest) bool { return named.erased[d] || named.closed }); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// contents are the blobs that belong to a log.
type contents struct {
	digests []canon.Digest        // of all, ordered, each once
	erased  map[canon.Digest]bool // those that the log says were erased. Whether rightly is for a replay to find
	closed  bool                  // the log was closed
}

// namedBlobs reads a log for the blobs that belong to it.
func namedBlobs(ctx context.Context, src ledger.Source, tree ledger.Tree, kept *keeping) (contents, error) {
	var digests []canon.Digest
	out := contents{erased: map[canon.Digest]bool{}}
	compactAt := 1 << 12
	err := ledger.Walk(ctx, src, tree, func(index int64, commitment canon.Digest) error {
		opening, err := readBlob(ctx, src, commitment)
		if err != nil {
			return fmt.Errorf("entry %d: opening: %w", index, err)
		}
		_, e, err := ledger.ParseOpening(opening)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		inner, err := Names(ctx, src, e)
		if isAbsent(err) { // it is looked for again, when it is known what was erased
			err = nil
		}
		if err == nil && e.Kind == ledger.KindAppraisal {
			err = kept.bracket(ctx, index)
		}
		if err == nil && e.Kind == ledger.KindErasure {
			err = addErased(ctx, src, e, out.erased)
		}
		if err == nil && e.Kind == ledger.KindHeads && index == tree.Size-1 {
			out.closed, err = closes(ctx, src, e)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		digests = append(append(digests, commitment, e.Body), inner...)
		if len(digests) > compactAt { // roots and references recur in every appraisal
			digests = slices.Compact(sorted(digests))
			compactAt = 2 * max(compactAt/2, len(digests))
		}
		return nil
	})
	out.digests = slices.Compact(sorted(digests))
	return out, err
}

// closes reports whether a heads entry closes its log.
func closes(ctx context.Context, src ledger.Source, e ledger.Entry) (bool, error) {
	body, err := readBlob(ctx, src, e.Body)
	if err != nil {
		return false, err
	}
	h, err := ledger.ParseHeads(body)
	return h.Closes.Next != "", err
}

// addErased adds what an erasure entry says was erased.
func addErased(ctx context.Context, src ledger.Source, e ledger.Entry, erased map[canon.Digest]bool) error {
	body, err := readBlob(ctx, src, e.Body)
	if err != nil {
		return err
	}
	act, err := ledger.ParseErasure(body)
	if err == nil && act.Act == ledger.ActErase {
		for _, d := range act.Digests {
			erased[d] = true
		}
	}
	return err
}

func sorted(digests []canon.Digest) []canon.Digest {
	slices.SortFunc(digests, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	return digests
}

// Names returns the blobs that the body of an entry names. Refs are bodies of other entries.
func Names(ctx context.Context, src ledger.Source, e ledger.Entry) ([]canon.Digest, error) {
	switch e.Kind {
	case ledger.KindCollateral:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		c, err := ledger.ParseCollateral(body)
		return []canon.Digest{c.Data}, err
	case ledger.KindChallenge:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		var c attest.Challenge
		if err := canon.Unmarshal(body, &c); err != nil {
			return nil, fmt.Errorf("challenge: %w", err)
		}
		if c.Checkpoint.IsZero() {
			return nil, nil
		}
		return []canon.Digest{c.Checkpoint}, nil
	case ledger.KindEngine:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		m, err := ledger.ParseEngine(body)
		return []canon.Digest{m.Module}, err
	case ledger.KindBenchmark:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		return benchmarkNames(body)
	case ledger.KindCarried:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		return carriedNames(body), nil
	case ledger.KindHeads:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		h, err := ledger.ParseHeads(body)
		return []canon.Digest{h.Seed}, err
	case ledger.KindVerdict:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		env, err := ledger.ParseEnvelope(body)
		if err != nil {
			return nil, nil // it names nothing; what is wrong with it, a replay says
		}
		if r, err := policy.ParseResult(env.Payload); err == nil && !r.Party.IsZero() {
			return []canon.Digest{r.Party}, nil
		}
		return nil, nil
	case ledger.KindAppraisal:
		body, err := readBlob(ctx, src, e.Body)
		if err != nil {
			return nil, err
		}
		a, err := verifier.ParseAppraisal(body)
		if err != nil {
			return nil, err
		}
		var out []canon.Digest
		for _, in := range a.Inputs {
			out = append(out, in.Digest)
		}
		return out, nil
	}
	return nil, nil
}

// carriedNames returns the words, appraisals and benchmarks that a part of what is carried over names. What is wrong with the part, a
// replay says.
func carriedNames(body []byte) (out []canon.Digest) {
	c, _ := vetting.ParseCarried(body)
	for _, i := range c.Items {
		if i.Word != nil {
			out = append(out, i.Word.Body)
		}
		if i.Appraised != nil {
			out = append(out, i.Appraised.Appraisal)
		}
		if i.Benchmark != nil {
			out = append(out, i.Benchmark.Challenge, i.Benchmark.Result)
		}
	}
	return out
}

// readBlob reads a blob and compares it with its digest.
func readBlob(ctx context.Context, src ledger.Source, digest canon.Digest) ([]byte, error) {
	data, err := src.Blob(ctx, digest)
	switch {
	case isNotExist(err):
		return nil, absent(digest)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", blobName(digest), err)
	case len(data) > MaxBlob:
		return nil, &Fault{Part: blobName(digest), Index: NoIndex, What: fmt.Sprintf("%d bytes, at most %d", len(data), MaxBlob)}
	}
	if got := canon.Sum(data); got != digest {
		return nil, &Fault{Part: blobName(digest), Index: NoIndex, What: fmt.Sprintf("its bytes have the digest %s", got)}
	}
	return data, nil
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
