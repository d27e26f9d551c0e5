package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
)

// sampleArgs say which sample to draw.
type sampleArgs struct {
	trust, by, output string
	seed, size        int64
	replay            bool
}

func (a *app) auditSampleCommand() *cobra.Command {
	var s sampleArgs
	cmd := &cobra.Command{
		Use:   "sample LOG",
		Short: "Draw verdicts of an exported log by a seed, stratum by stratum",
		Long: `Draw verdicts of an exported log by a seed, stratum by stratum.

The same log, seed, size and strata give the same sample on every machine; how it is
drawn stands in the output, so that another can draw it again. With --replay each
drawn verdict is recomputed. Exit codes: 0 all is well, 1 a fault of the log or of a
drawn verdict, 2 usage or could not run, 3 no fault, but without a trust file nobody
vouches for the keys.`,
		Example: `  assay audit sample log.tar --trust trust.yaml --seed 20260201 --size 25 --by outcome
  assay audit sample log.tar --trust trust.yaml --seed 7 --size 60 --by node --replay -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("seed") || !c.Flags().Changed("size") {
				return errors.New("want --seed and --size: a sample is drawn by somebody's choice, and can be drawn again")
			}
			return a.auditSample(c.Context(), args[0], s)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&s.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.Int64Var(&s.seed, "seed", 0, "`N` that the sample is drawn by")
	fl.Int64Var(&s.size, "size", 0, "`K` verdicts to draw")
	fl.StringVar(&s.by, "by", "", "part the population by "+strings.Join(audit.Strata, ", ")+" (default: not at all)")
	fl.BoolVar(&s.replay, "replay", false, "recompute the drawn verdicts")
	fl.StringVarP(&s.output, "output", "o", "text", "text, json or csv")
	return cmd
}

func (a *app) auditSample(ctx context.Context, name string, args sampleArgs) (err error) {
	if !slices.Contains([]string{"text", "json", "csv"}, args.output) {
		return fmt.Errorf("output %q: want text, json or csv", args.output)
	}
	g, log, err := a.readLog(ctx, name, args.trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	s, err := g.Sample(ctx, args.seed, args.size, args.by, args.replay)
	if err != nil {
		return err
	}
	switch args.output {
	case "json":
		data, err := s.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	case "csv":
		w := csv.NewWriter(a.stdout)
		w.Write(append([]string{"stratum", "number", "draw", "replayed"}, audit.PopulationColumns...))
		for _, d := range s.Drawn {
			record := append([]string{audit.Printable(d.Stratum), strconv.FormatInt(d.Number, 10), strconv.FormatInt(d.Draw, 10), audit.Printable(d.Replayed)}, d.Row.Record()...)
			for i := range record {
				record[i] = cell(record[i])
			}
			w.Write(record)
		}
		if w.Flush(); w.Error() != nil {
			return w.Error()
		}
	default:
		fmt.Fprint(a.stdout, s.Text())
	}
	return a.conclude(g.Integrity(), s.Outcome)
}
