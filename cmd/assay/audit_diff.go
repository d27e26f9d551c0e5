package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
)

func (a *app) auditDiffCommand() *cobra.Command {
	var trust, trustB, output string
	cmd := &cobra.Command{
		Use:   "diff LOG A [LOG-OF-B] B",
		Short: "Say why two logged verdicts differ: evidence, collateral, policy, engine or time",
		Long: `Say why two logged verdicts differ: evidence, collateral, policy, engine or time.

A and B are verdicts: the index of the entry, or a digest as audit population lists
it. The first line is the answer; then come the inputs, the policies' lines, and claim
by claim what the two say. Exit codes: 0 the inputs are the same, 1 they differ or a
log is faulty, 2 usage or could not run, 3 the same, but nobody vouches for the keys.`,
		Example: `  assay audit diff log.tar 41 57
  assay audit diff log.tar 41 other.tar 12 --trust trust.yaml --trust-b other.yaml -o json`,
		Args: cobra.RangeArgs(3, 4),
		RunE: func(c *cobra.Command, args []string) error {
			return a.auditDiff(c.Context(), args, trust, trustB, output)
		},
	}
	cmd.Flags().StringVar(&trust, "trust", "", "trust `FILE` of audit trust init")
	cmd.Flags().StringVar(&trustB, "trust-b", "", "trust `FILE` for the log of B, where it is another")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) auditDiff(ctx context.Context, args []string, trust, trustB, output string) (err error) {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	g, log, err := a.readLog(ctx, args[0], trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	other, wordB := g, args[2]
	if len(args) == 4 {
		g2, log2, err := a.readLog(ctx, args[2], trustB)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log2.Close()) }()
		other, wordB = g2, args[3]
	}
	first, err := g.Find(ctx, args[1])
	if err != nil {
		return err
	}
	second, err := other.Find(ctx, wordB)
	if err != nil {
		return err
	}
	d, err := g.Diff(ctx, first, other, second)
	if err != nil {
		return a.fault(err)
	}
	if output == "json" {
		data, err := d.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	} else {
		fmt.Fprint(a.stdout, d.Text())
	}
	worst := g.Integrity()
	if o := other.Integrity(); worst.Outcome != audit.Faulty && o.Outcome != audit.Equal {
		worst = o
	}
	if !d.Equal() {
		worst.Outcome = audit.Faulty
	}
	return a.conclude(worst, worst.Outcome)
}
