package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) auditChallengeCommand() *cobra.Command {
	var trust, output string
	var seed, size int64
	cmd := &cobra.Command{
		Use:   "challenge LOG",
		Short: "Alter one input at a time of logged verdicts, and see that nothing altered is accepted",
		Long: `Alter one input at a time of logged verdicts, and see that nothing altered is accepted.

The seed draws verdicts and where each is altered: a bit that the hardware signed, one
that nobody signs, collateral dropped or altered, a reference value, a policy rule,
the time, the expected challenge, signatures. What must fall is said for each; some
alterations rightly change nothing. The log is only read. Exit codes: 0 nothing passes
where it must not, 1 something does or the log is faulty, 2 usage or could not run,
3 nobody vouches for the log's keys, or there was nothing to challenge.`,
		Example: `  assay audit challenge log.tar --trust trust.yaml --seed 7
  assay audit challenge log.tar --trust trust.yaml --seed 7 --size 50 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("seed") {
				return errors.New("want --seed: a challenge can be repeated")
			}
			return a.auditChallenge(c.Context(), args[0], trust, output, seed, size)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&trust, "trust", "", "trust `FILE` of audit trust init")
	fl.Int64Var(&seed, "seed", 0, "`N` that verdicts and alterations are drawn by")
	fl.Int64Var(&size, "size", 5, "`K` verdicts to challenge, drawn by outcome")
	fl.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) auditChallenge(ctx context.Context, name, trust, output string, seed, size int64) (err error) {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	g, log, err := a.readLog(ctx, name, trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r, err := g.Challenge(ctx, seed, size)
	if err != nil {
		return err
	}
	if output == "json" {
		data, err := r.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	} else {
		fmt.Fprint(a.stdout, r.Text())
	}
	return a.conclude(g.Integrity(), r.Outcome)
}
