package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/internal/canon"
)

// ErrFork is wrapped by every *[Fork].
var ErrFork = errors.New("the log has two histories")

// Fork says that a log's key signed two checkpoints that one history does not hold. The two notes are the evidence, and
// all of it: whoever has the log's key can check them. They are to be kept, both.
type Fork struct {
	Believed, Refused []byte // notes; of a log that was closed Refused may be the envelope of the keyset that says with which tree
	Reason            error
}

func (f *Fork) Error() string { return ErrFork.Error() + ": " + f.Reason.Error() }

func (f *Fork) Unwrap() []error { return []error{ErrFork, f.Reason} }

// Follower is how one reader believes one log: each checkpoint continues the last one that it believed, and has the quorum
// that this reader asks for.
type Follower struct {
	Logs      []string       // verifier keys of the log, of which one is enough
	Witnesses *WitnessPolicy // nil: no cosignatures are asked for, and no times come of them

	// Chain is asked if the last checkpoint is another log's, which may have been closed; nil: that is an error.
	Chain func(context.Context) (Chain, error)
}

// Chain is how a reader gets from one log of a chain to the next. Nothing in it is trusted.
type Chain struct {
	Keys KeyHistory                                               // of all its logs
	Log  func(ctx context.Context, origin string) (Source, error) // one of its logs
}

// Follow checks a checkpoint note against the last note that was believed, which is the reader's own word; an empty note is
// none, and it passes where none was seen before and no witnesses are asked for. Tiles come from src, which is not trusted.
// Cosignatures made after until do not count: the reader's clock, with slack.
//
// If the last note is of a log that was closed, the keysets must lead from it to this log, and the final checkpoint of each
// log from there on must be the one that they name, signed, with a quorum, and a continuation of the last note. That this log
// begins with the keyset that continues the one before is for an audit to find.
//
// A *[Fork] says that the log contradicts itself; a *[QuorumError] that too few witnesses have seen this checkpoint; any
// other error that nothing is known. In each case the last note stays the one that is believed.
func (f Follower) Follow(ctx context.Context, src Source, last, next []byte, until canon.Time) (Cosigned, error) {
	if len(next) == 0 {
		switch {
		case len(last) > 0:
			return Cosigned{}, errors.New("checkpoint: none came, although the log has shown one before")
		case f.Witnesses != nil:
			return Cosigned{}, errors.New("checkpoint: none came, and a quorum of witnesses is asked for")
		}
		return Cosigned{}, nil
	}
	to, err := openAny(next, f.Logs)
	if err != nil {
		return Cosigned{}, err
	}
	if len(last) > 0 && !bytes.Equal(last, next) {
		from, err := ReadCheckpoint(last) // its key may have ended since
		switch {
		case err == nil && from.Origin != to.Origin && f.Chain != nil:
			err = f.cross(ctx, last, from, to.Origin, until)
		case err == nil && from.Origin != to.Origin:
			err = fmt.Errorf("last checkpoint that was believed: of the log %q", from.Origin)
		case err == nil:
			err = forked(continues(ctx, src, from, to), last, next)
		default:
			err = fmt.Errorf("last checkpoint that was believed: %w", err)
		}
		if err != nil {
			return Cosigned{}, err
		}
	}
	if f.Witnesses == nil {
		return Cosigned{Checkpoint: to}, nil
	}
	return f.Witnesses.Open(next, f.Logs, Period{Until: until})
}

// forked completes a fork.
func forked(err error, believed, refused []byte) error {
	var fork *Fork
	if errors.As(err, &fork) && fork.Believed == nil {
		fork.Believed, fork.Refused = believed, refused
	}
	return err
}

// cross goes from the last checkpoint of one log over the logs that were closed to the one of another origin.
func (f Follower) cross(ctx context.Context, last []byte, from Checkpoint, origin string, until canon.Time) error {
	chain, err := f.Chain(ctx)
	if err != nil {
		return fmt.Errorf("logs between %q and %q: %w", from.Origin, origin, err)
	}
	h := chain.Keys
	if _, err := openAny(last, h.LogVKeys(from.Origin)); err != nil {
		return fmt.Errorf("last checkpoint that was believed: of the log %q, and the keys of the log %q do not follow from that one's: %w", from.Origin, origin, err)
	}
	if ours := h.LogVKeys(origin); !slices.ContainsFunc(f.Logs, func(l string) bool { return slices.Contains(ours, l) }) {
		return fmt.Errorf("last checkpoint that was believed: of the log %q, from which no keyset leads to the log %q", from.Origin, origin)
	}
	for at := from.Origin; at != origin; last = nil {
		next, sealed, ok := h.After(at)
		if !ok {
			return fmt.Errorf("the log %q comes before %q, whose checkpoint was seen before", origin, from.Origin)
		}
		if err := f.closed(ctx, chain, last, next, sealed, until); err != nil {
			return fmt.Errorf("the log %q, which was closed: %w", at, err)
		}
		at = next.Origin
	}
	return nil
}

// closed checks that a log ended as the keyset says that opens the next one.
func (f Follower) closed(ctx context.Context, chain Chain, last []byte, next Keyset, sealed Envelope, until canon.Time) error {
	final := next.Continues
	envelope, err := canon.Marshal(sealed)
	if err != nil {
		return err
	}
	if len(last) > 0 {
		from, err := ReadCheckpoint(last)
		if err != nil {
			return err
		}
		if from.Size > final.Size || from.Size == final.Size && from.Root != final.Root {
			return &Fork{last, envelope, fmt.Errorf("a checkpoint of size %d, root %s was seen before; the next log continues one of size %d, root %s",
				from.Size, from.Root.Short(), final.Size, final.Root.Short())}
		}
		if from.Size == final.Size {
			return nil // it was believed, with whatever quorum
		}
	}
	src, err := chain.Log(ctx, final.Origin)
	if err != nil {
		return err
	}
	note, err := src.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("its last checkpoint: %w", err)
	}
	before, _ := chain.Keys.Newest(final.Origin)
	got, err := Follower{Logs: before.LogVKeys(next.Made), Witnesses: f.Witnesses}.Follow(ctx, src, last, note, until)
	switch {
	case err != nil:
		return err
	case got.Size > final.Size, got.Size == final.Size && got.Root != final.Root:
		return &Fork{note, envelope, fmt.Errorf("its checkpoint is of size %d, root %s; the next log continues one of size %d, root %s",
			got.Size, got.Root.Short(), final.Size, final.Root.Short())}
	case got.Size < final.Size:
		return fmt.Errorf("its checkpoint is of size %d, and it ended with size %d", got.Size, final.Size)
	}
	return nil
}

func continues(ctx context.Context, src Source, from, to Checkpoint) error {
	switch {
	case to.Size < from.Size:
		return fmt.Errorf("checkpoint: of size %d, a checkpoint of size %d was seen before: this is an old copy, or another history that is shorter yet", to.Size, from.Size)
	case to.Size == from.Size && to.Root != from.Root:
		return &Fork{Reason: fmt.Errorf("two checkpoints of size %d have different roots", to.Size)}
	case to.Size == from.Size:
		return nil
	}
	p, err := ProveConsistency(ctx, src, from.Size, to.Size)
	if err != nil {
		return fmt.Errorf("checkpoint: no proof that it continues the last one: %w", err)
	}
	if err := p.Verify(from.Tree, to.Tree); err != nil {
		// The tiles may be wrong instead: then an honest log shows it at the next try. Both notes are signed either way.
		return &Fork{Reason: fmt.Errorf("checkpoint of size %d does not continue that of size %d: %w", to.Size, from.Size, err)}
	}
	return nil
}
