package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
)

// Join spends a one-time token and returns what the node has to keep. A result key is the one that the token names, the
// origin the one that the operator typed. The keys of log and promises are the server's word at this moment; from now on
// they are pinned, see [Node.Follow]. witnesses is the text of the witness policy that the operator chose, empty for none.
func Join(ctx context.Context, server *client.Client, token client.Token, witnesses string) (Node, error) {
	// Ask for the keys first: a token that is spent on a server without them, or on a log that the witnesses do not watch,
	// would be lost.
	keys, err := server.Keys(ctx)
	if err != nil {
		return Node{}, err
	}
	if _, err := (Node{Keyset: keys.Current(), Witnesses: witnesses}).Follower(); err != nil {
		return Node{}, fmt.Errorf("join: %w", err)
	}
	j, err := server.Join(ctx, token)
	if err != nil {
		return Node{}, err
	}
	n := Node{Type: NodeType, Node: j.Node, Credential: j.Credential, Origin: j.Origin, Keyset: keys.Current(), Witnesses: witnesses}
	listed := slices.ContainsFunc(n.Keyset.Of(ledger.UseResult), func(k ledger.Key) bool { return bytes.Equal(k.SPKI, j.ResultKey) })
	switch {
	case j.Origin != server.Origin():
		return n, fmt.Errorf("join: the server calls itself %q, you called it %q: join it by the name that its evidence will carry", j.Origin, server.Origin())
	case !listed:
		return n, errors.New("join: the server's keyset does not hold the result key that it gave this node")
	}
	return n, nil
}

// Follow returns the node with the newest of the server's keysets, if they lead there from the pinned one. The log key of
// each keyset signs for the next: a verifier that lost its log key to a thief cannot be told from the thief.
func (n Node) Follow(keys ledger.KeyHistory) (Node, error) {
	pinned, err := n.Keyset.Digest()
	if err != nil {
		return n, err
	}
	current, err := keys.Current().Digest()
	switch {
	case err != nil:
		return n, err
	case pinned == current:
		return n, errors.New("the server's keys are those that this node pinned")
	case !keys.Has(n.Keyset):
		return n, fmt.Errorf("the server's keys do not follow from those that this node pinned, made %s", n.Keyset.Made)
	}
	n.Keyset = keys.Current()
	return n, nil
}
