package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// tokenHint says where tokens come from.
const tokenHint = "an operator of the verifier makes tokens: assay enrol tokens, or assay nodes token"

// maxTokenFile is the number of bytes of a file that can be a join token.
const maxTokenFile = 1 << 10

func joinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "join URL --token-file FILE | --token TOKEN",
		Short: "Join a verifier with a one-time token",
		Long: `Trades a one-time token for a node credential and keeps it in the state folder, with the keys of the verifier.
The token names the verifier's key, so a server that cannot show that key is refused.
Prints the id of the new node.

While the command runs, every user of the machine can read what stands in its arguments, and a shell's history keeps it:
where others log in to the machine, hand the token over in a file or on stdin.`,
		Example: "  assay-agent join https://assay.example --token-file fra1_B07.token\n  assay-agent join https://assay.example --token-file - < token\n  assay-agent join https://assay.example --token join_7b1f….9c02…",
		Args:    cobra.ExactArgs(1),
	}
	state := stateFlag(c)
	witnesses := c.Flags().String("witnesses", "", "witness policy `FILE` (C2SP tlog-policy): believe no checkpoint without its quorum (default: ask for none)")
	text := c.Flags().String("token", "", "one-time token, as the operator of the verifier gave it")
	file := c.Flags().String("token-file", "", "`FILE` of the token, as assay enrol tokens --dir writes it; - is stdin")
	c.RunE = func(c *cobra.Command, args []string) error {
		given, err := joinToken(c.InOrStdin(), *text, *file)
		if err != nil {
			return err
		}
		token, err := client.ParseToken(given)
		if err != nil {
			return hinted(err, tokenHint)
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

// joinToken returns the text of a join token: that of the flag, or of a file, where - is stdin.
func joinToken(stdin io.Reader, text, file string) (string, error) {
	if (text == "") == (file == "") {
		return "", hinted(errors.New("join token: want one, by --token-file or --token"), tokenHint)
	}
	if file == "" {
		return text, nil
	}
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxTokenFile))
	} else {
		data, err = files.Bounded(file, maxTokenFile)
	}
	return strings.TrimSpace(string(data)), err
}
