package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

func joinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "join URL --token SECRET.FINGERPRINT",
		Short: "Join a verifier with a one-time token",
		Long: `Trades a one-time token for a node credential and keeps it in the state folder, with the keys of the verifier.
The token names the verifier's key, so a server that cannot show that key is refused.
Prints the id of the new node.`,
		Example: "  assay-agent join https://assay.example --token 7b1f….9c02…",
		Args:    cobra.ExactArgs(1),
	}
	state := stateFlag(c)
	witnesses := c.Flags().String("witnesses", "", "witness policy `FILE` (C2SP tlog-policy): believe no checkpoint without its quorum (default: ask for none)")
	text := c.Flags().String("token", "", "one-time token, as the operator of the verifier gave it (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		token, err := client.ParseToken(*text)
		if err != nil {
			return hinted(err, "the operator of the verifier makes tokens; `assay serve` prints one at its first start")
		}
		server, err := client.New(client.Config{URL: args[0]})
		if err != nil {
			return err
		}
		store := agent.OpenStore(*state)
		if err := store.Prepare(); err != nil {
			return hinted(err, "choose a folder that you may write to with --state")
		}
		switch node, err := store.Node(); {
		case err == nil:
			return hinted(fmt.Errorf("this machine is node %q of %s already", node.Node, node.Origin), "remove %s to leave it", store.Path())
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		var policy []byte
		if *witnesses != "" {
			if policy, err = files.Bounded(*witnesses, ledger.MaxWitnessPolicy); err != nil {
				return err
			}
		}
		node, err := agent.Join(c.Context(), server, token, string(policy))
		if err != nil {
			return err
		}
		if err := store.SaveNode(node); err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), node.Node)
		return nil
	}
	return c
}
