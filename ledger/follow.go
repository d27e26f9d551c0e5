package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// ErrFork is wrapped by every *[Fork].
var ErrFork = errors.New("the log has two histories")

// Fork says that a log's key signed two checkpoints that one history does not hold. The two notes are the evidence, and
// all of it: whoever has the log's key can check them. They are to be kept, both.
type Fork struct {
	Believed, Refused []byte // notes
	Reason            error
}

func (f *Fork) Error() string { return ErrFork.Error() + ": " + f.Reason.Error() }

func (f *Fork) Unwrap() []error { return []error{ErrFork, f.Reason} }

// Follower is how one reader believes one log: each checkpoint continues the last one that it believed, and has the quorum
// that this reader asks for.
type Follower struct {
	Logs      []string       // verifier keys of the log, of which one is enough
	Witnesses *WitnessPolicy // nil: no cosignatures are asked for, and no times come of them
}

// Follow checks a checkpoint note against the last note that was believed, which is the reader's own word; an empty note is
// none, and it passes where none was seen before and no witnesses are asked for. Tiles come from src, which is not trusted.
// Cosignatures made after until do not count: the reader's clock, with slack.
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
		if err == nil && from.Origin != to.Origin {
			err = fmt.Errorf("of the log %q", from.Origin)
		}
		if err != nil {
			return Cosigned{}, fmt.Errorf("last checkpoint that was believed: %w", err)
		}
		if err := continues(ctx, src, from, to); err != nil {
			var fork *Fork
			if errors.As(err, &fork) {
				fork.Believed, fork.Refused = last, next
			}
			return Cosigned{}, err
		}
	}
	if f.Witnesses == nil {
		return Cosigned{Checkpoint: to}, nil
	}
	return f.Witnesses.Open(next, f.Logs, Period{Until: until})
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
