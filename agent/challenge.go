package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// CheckChallenge tells whether a challenge is for this node, from the verifier that it has pinned, and still open. It
// does not look at the checkpoint's signature, history and witnesses: see [Node.Follower].
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

// Follower returns how the node believes its log: under the pinned keys, and with the witnesses that it was told of.
func (n Node) Follower() (ledger.Follower, error) {
	f := ledger.Follower{Logs: n.Keyset.LogVKeys(n.Keyset.Made)}
	if n.Witnesses == "" {
		return f, nil
	}
	p, err := ledger.ParseWitnessPolicy([]byte(n.Witnesses))
	if err == nil {
		err = p.Covers(f.Logs)
	}
	if err != nil {
		return f, err
	}
	f.Witnesses = &p
	return f, nil
}
