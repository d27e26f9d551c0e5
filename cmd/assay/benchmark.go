package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

func (a *app) benchmarkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure nodes that have no TEE, and show what it came to",
		Long: `Challenges nodes to a benchmark that fills memory, and shows what it came to, at the server that ` + "`assay login`" + ` remembers.
Nodes that are challenged together begin at one instant: two that are one machine then have a part of it each. What is
measured is measured, never attested; LIMITATIONS.md says what it does not show.`,
		Example: "  assay benchmark plan --memory 16384 node-0123456789abcdef\n  assay benchmark show node-0123456789abcdef node-fedcba9876543210",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var r client.PlanRequest
	var in, every time.Duration
	plan := &cobra.Command{
		Use: "plan NODE...", Short: "Challenge nodes at one instant", Args: cobra.MinimumNArgs(1),
		Example: "  assay benchmark plan --memory 16384 --every 168h node-0123456789abcdef node-fedcba9876543210",
		RunE: func(c *cobra.Command, args []string) error {
			if in%time.Second != 0 || every%time.Second != 0 {
				return errors.New("--in and --every: want whole seconds")
			}
			r.Nodes, r.In, r.Every = args, int64(in/time.Second), int64(every/time.Second)
			return a.planBenchmark(c.Context(), r)
		},
	}
	plan.Flags().IntVar(&r.Memory, "memory", 1024, "MiB that each node is said to have free")
	plan.Flags().DurationVar(&in, "in", 0, "from now to the start, 5s to 10m: agents that run ask every 20s, and what they are late counts (default 90s)")
	plan.Flags().DurationVar(&every, "every", 0, "repeat it, each time after half to one and a half of this, for all nodes or for one that chance takes (default: do not, and end a plan for these nodes)")
	var output string
	show := &cobra.Command{
		Use: "show NODE...", Short: "Show what benchmarks of one owner's nodes came to", Args: cobra.MinimumNArgs(1),
		Example: "  assay benchmark show -o json node-0123456789abcdef",
		RunE:    func(c *cobra.Command, args []string) error { return a.showBenchmarks(c.Context(), args, output) },
	}
	show.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.AddCommand(plan, show)
	return cmd
}

func (a *app) planBenchmark(ctx context.Context, r client.PlanRequest) error {
	c, err := a.session()
	if err != nil {
		return err
	}
	p, err := c.PlanBenchmark(ctx, r)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, p.Round)
	a.say("it starts at %s", canon.Time(p.Starts/1000))
	return nil
}

func (a *app) showBenchmarks(ctx context.Context, nodes []string, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	m, err := c.Benchmarks(ctx, nodes...)
	if err != nil {
		return err
	}
	if output == "json" {
		return a.printJSON(m)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTARTED\tTOGETHER\tOUTCOME\tSECONDS\tSCORE\tMIB\tREASON")
	for _, x := range m.Measures {
		r := x.Result
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d.%03d\t%d\t%d\t%s\n", x.Node, canon.Time(x.Starts/1000), x.Nodes, r.Outcome, r.Elapsed/1000, r.Elapsed%1000, r.Score, r.Memory>>20, r.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(m.Measures) == 0 {
		a.say("no benchmark of these nodes is over")
	}
	for _, x := range m.Claims {
		fmt.Fprintf(a.stdout, "%s is credited with %s, until %s: measured, not attested\n", x.Node, x.Claim.Value, x.Claim.Until)
	}
	if len(m.Finding.Shares) > 1 {
		fmt.Fprintf(a.stdout, "together: %s", m.Finding.Outcome)
		for _, s := range m.Finding.Shares {
			if s.Share == 0 {
				fmt.Fprintf(a.stdout, ", %s was not measured both alone and then beside the others", s.Node)
				continue
			}
			fmt.Fprintf(a.stdout, ", %s at %d of 1000 of what it does alone", s.Node, s.Share)
		}
		fmt.Fprintln(a.stdout)
	}
	return nil
}
