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

// Join spends a one-time token and returns what the node has to keep. The result key is the one that the token names,
// the origin the one that the operator typed. The keys of log and promises are the server's word at this moment; from
// now on they are pinned. witnesses is the text of the witness policy that the operator chose, empty for none.
func Join(ctx context.Context, server *client.Client, token client.Token, witnesses string) (Node, error) {
	// Ask for the keys first: a token that is spent on a server without them, or on a log that the witnesses do not watch,
	// would be lost.
	keys, err := server.Keys(ctx)
	if err != nil {
		return Node{}, err
	}
	if _, err := (Node{LogKey: keys.Log, Witnesses: witnesses}).Follower(); err != nil {
		return Node{}, fmt.Errorf("join: %w", err)
	}
	j, err := server.Join(ctx, token)
	if err != nil {
		return Node{}, err
	}
	n := Node{Type: NodeType, Node: j.Node, Credential: j.Credential, Origin: j.Origin, ResultKey: j.ResultKey, LogKey: j.LogKey, Witnesses: witnesses}
	for _, k := range keys.Of(ledger.UsePromise) {
		n.PromiseKeys = append(n.PromiseKeys, k.SPKI)
	}
	listed := slices.ContainsFunc(keys.Of(ledger.UseResult), func(k ledger.Key) bool { return bytes.Equal(k.SPKI, j.ResultKey) })
	switch {
	case j.Origin != server.Origin():
		return n, fmt.Errorf("join: the server calls itself %q, you called it %q: join it by the name that its evidence will carry", j.Origin, server.Origin())
	case keys.Log != j.LogKey || !listed:
		return n, errors.New("join: the server's keyset does not hold the keys that it gave this node")
	}
	return n, nil
}
