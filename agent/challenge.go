package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ErrFork is wrapped by the refusal of a checkpoint that the log signed and that does not continue the one before.
var ErrFork = errors.New("the log has two histories")

// CheckChallenge tells whether a challenge is for this node, from the verifier that it has pinned, and still open. It
// does not look at the checkpoint's signature or history: see [CheckCheckpoint].
func (n Node) CheckChallenge(ch client.Challenged, now time.Time) error {
	c := ch.Challenge
	switch {
	case c.Type != attest.ChallengeType:
		return fmt.Errorf("challenge: type %.80q is not known to this build, want %q", c.Type, attest.ChallengeType)
	case c.Origin != n.Origin:
		return fmt.Errorf("challenge: made for origin %.80q, pinned is %q", c.Origin, n.Origin)
	case c.Node != n.Node:
		return fmt.Errorf("challenge: for node %.80q, this is %q", c.Node, n.Node)
	case len(c.Nonce) != attest.NonceSize:
		return fmt.Errorf("challenge: nonce of %d bytes, want %d", len(c.Nonce), attest.NonceSize)
	case len(c.Renter) != 0 && len(c.Renter) != attest.NonceSize:
		return fmt.Errorf("challenge: renter's nonce of %d bytes, want %d or none", len(c.Renter), attest.NonceSize)
	case c.Expires <= canon.At(now):
		return fmt.Errorf("challenge: expired at %s, the clock of this machine says %s", c.Expires, canon.At(now))
	case ch.Checkpoint == "" && !c.Checkpoint.IsZero():
		return errors.New("challenge: names a checkpoint that did not come with it")
	case ch.Checkpoint != "" && canon.Sum([]byte(ch.Checkpoint)) != c.Checkpoint:
		return errors.New("challenge: names another checkpoint than came with it")
	}
	if err := n.Keyset.CheckKey(c.ResultKey, ledger.UseResult, c.Issued); err != nil {
		return fmt.Errorf("challenge: made for %w", err)
	}
	return nil
}

// CheckCheckpoint tells whether a checkpoint note is signed by a pinned key of the log and continues the last note that was
// believed; an empty note is none. The last one is the node's own word: its key may have ended since. Tiles come from src, which is not trusted. It does not look for witnesses.
func (n Node) CheckCheckpoint(ctx context.Context, src ledger.Source, last, next string) error {
	if next == last {
		return nil
	}
	if next == "" {
		return errors.New("checkpoint: none came, although the log has shown one before")
	}
	to, err := ledger.OpenCheckpoint([]byte(next), n.Keyset.LogVerifiers()...)
	if err != nil || last == "" {
		return err
	}
	from, err := ledger.ReadCheckpoint([]byte(last))
	if err != nil {
		return fmt.Errorf("last checkpoint that was believed: %w", err)
	}
	if to.Size < from.Size {
		return fmt.Errorf("checkpoint: of size %d, a checkpoint of size %d was seen before", to.Size, from.Size)
	}
	p, err := ledger.ProveConsistency(ctx, src, from.Size, to.Size)
	if err != nil {
		return fmt.Errorf("checkpoint: no proof that it continues the last one: %w", err)
	}
	if err := p.Verify(from.Tree, to.Tree); err != nil {
		// The tiles may be wrong instead: then an honest log shows it at the next try. Both notes are signed either way.
		return fmt.Errorf("checkpoint of size %d does not continue that of size %d: %w: %w", to.Size, from.Size, ErrFork, err)
	}
	return nil
}
