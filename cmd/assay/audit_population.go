package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
)

func (a *app) auditPopulationCommand() *cobra.Command {
	var trust, output string
	cmd := &cobra.Command{
		Use:   "population LOG",
		Short: "List every verdict of an exported log: what an auditor samples from",
		Long: `List every verdict of an exported log: what an auditor samples from.

LOG is a file of audit export, or the same unpacked. One row stands for one verdict
entry of the log's tree, also for a faulty one; the log's integrity is checked on the
way, signatures too, and nothing is recomputed. The totals count what audit replay
counts. Exit codes: 0 complete and without fault, 1 a fault, 2 usage or could not
run, 3 without fault, but without a trust file nobody vouches for the keys.`,
		Example: `  assay audit population log.tar --trust trust.yaml > population.csv
  assay audit population log.tar --trust trust.yaml -o jsonl
  assay audit population log.tar --trust trust.yaml -o json    # the totals`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.auditPopulation(c.Context(), args[0], trust, output)
		},
	}
	cmd.Flags().StringVar(&trust, "trust", "", "trust `FILE` of audit trust init")
	cmd.Flags().StringVarP(&output, "output", "o", "csv", "csv or jsonl: the rows; json: the totals alone")
	return cmd
}

func (a *app) auditPopulation(ctx context.Context, name, trust, output string) (err error) {
	if !slices.Contains([]string{"csv", "jsonl", "json"}, output) {
		return fmt.Errorf("output %q: want csv, jsonl or json", output)
	}
	g, log, err := a.readLog(ctx, name, trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	sums := g.Tally()
	rows := csv.NewWriter(a.stdout)
	if output == "csv" {
		rows.Write(audit.PopulationColumns)
	}
	for row, err := range g.Rows(ctx) {
		if err != nil {
			return err
		}
		sums.Add(row)
		switch output {
		case "csv":
			record := row.Record()
			for i := range record {
				record[i] = cell(record[i])
			}
			rows.Write(record)
		case "jsonl":
			data, err := canon.Marshal(row)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s\n", data)
		}
	}
	if rows.Flush(); rows.Error() != nil {
		return rows.Error()
	}
	totals := sums.Totals()
	if output == "json" {
		data, err := totals.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	}
	var by []string
	for _, o := range totals.Outcomes {
		by = append(by, fmt.Sprintf("%d %s", o.Count, o.Kind))
	}
	if s := totals.Scope; s != nil {
		a.say("population of a scope, %s: whether other verdicts of the log match, its owner alone can say", audit.Printable(s.Criteria.String()))
	}
	a.say("population: %d rows for %d verdict entries of a tree of %d; %s; %d with a fault", totals.Rows, totals.Verdicts, totals.Size, strings.Join(by, ", "), totals.Faulty)
	return a.conclude(g.Integrity(), totals.Outcome)
}
