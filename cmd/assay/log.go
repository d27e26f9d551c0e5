package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
)

func (a *app) logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Follow a log from outside",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.logCheckCommand())
	return cmd
}

type logCheckArgs struct{ key, witnesses, state string }

func (a *app) logCheckCommand() *cobra.Command {
	var l logCheckArgs
	cmd := &cobra.Command{
		Use:   "check URL",
		Short: "Check that a log continues what it showed before, and that your witnesses say so",
		Long: `Check that a log continues what it showed before, and that your witnesses say so.

URL is a server or a mirror of its log. The newest checkpoint must be signed by the
log's key, continue the last one that you believed, and bear the cosignatures that
your own witness policy asks for. It is then the last one that you believed; the
state folder keeps it. Exit codes: 0 it passes, 1 the log shows two histories (both
notes stay in the state folder, as proof), 2 usage or could not run, 3 too few
witnesses have seen this checkpoint.`,
		Example: `  assay log check https://assay.example --log-key assay.example/log+0f1a2b3c+AW... --witnesses witnesses.txt`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.logCheck(c.Context(), args[0], l) },
	}
	fl := cmd.Flags()
	fl.StringVar(&l.key, "log-key", "", "verifier `KEY` of the log, from elsewhere than the log (required)")
	fl.StringVar(&l.witnesses, "witnesses", "", "witness policy `FILE` (C2SP tlog-policy) of your own (default: ask no witnesses)")
	fl.StringVar(&l.state, "state", "", "`FOLDER` of the last checkpoint (default: one for this key in the user's data folder)")
	return cmd
}

func (a *app) logCheck(ctx context.Context, url string, args logCheckArgs) error {
	if _, _, err := ledger.ParseLogVKey(args.key); err != nil {
		return withHint(err, "`assay serve` prints the key of its log; get it from somebody whom you trust, with --log-key")
	}
	f := ledger.Follower{Logs: []string{args.key}}
	var err error
	if args.witnesses != "" {
		if f.Witnesses, err = inputs.WitnessPolicy(args.witnesses); err != nil {
			return err
		}
	}
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return err
	}
	state, err := a.dataFolder(args.state, filepath.Join("assay-logs", canon.Sum([]byte(args.key)).Short()))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	note, err := c.Mirror().Checkpoint(ctx)
	if err != nil {
		return err
	}
	got, err := client.OpenBelieved(state).Follow(ctx, f, c.Mirror(), note, canon.At(a.now())+ledger.ClockSlack)
	var missing *ledger.QuorumError
	switch {
	case errors.Is(err, ledger.ErrFork):
		fmt.Fprintf(a.stdout, "fork         %v\nnotes        %s\n", err, filepath.Join(state, "checkpoint.{believed,refused}"))
		return outcome(exitReject)
	case errors.As(err, &missing):
		fmt.Fprintf(a.stdout, "undecided    %v\n", err)
		return outcome(exitUndecided)
	case err != nil:
		return err
	}
	fmt.Fprintf(a.stdout, "log          %s\n", got.Origin)
	fmt.Fprintf(a.stdout, "checkpoint   size %d, root %s\n", got.Size, got.Root)
	for _, by := range got.By {
		fmt.Fprintf(a.stdout, "witness      %s at %s\n", by.Witness, by.Time)
	}
	if got.Until != 0 {
		fmt.Fprintf(a.stdout, "cosigned     from %s until %s\n", got.From, got.Until)
	}
	return nil
}
