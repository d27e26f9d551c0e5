package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/benchmark"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/market/capacity"
)

// driverCommandName names the hidden command that is the driver of this build.
const driverCommandName = "benchmark-driver"

// driverFlag names the program that computes.
func driverFlag(c *cobra.Command) *string {
	return c.Flags().String("driver", "", "`COMMAND` that computes, see agent/benchmark/DRIVER.md (default: this program, on all processors)")
}

func driverCommand(given string) []string {
	if words := strings.Fields(given); len(words) > 0 {
		return words
	}
	return []string{device.DefaultExecutable, driverCommandName}
}

// benchmarkCommand measures by a clock.
func benchmarkCommand(now func() time.Time) *cobra.Command {
	c := &cobra.Command{
		Use:   "benchmark",
		Short: "Measure this machine as a verifier would",
		Long: `Fills memory and computes a chain of integer matrix products, commits to every step, opens what is drawn and checks it, as
a verifier does, with a challenge of its own. Prints the score, in thousands of multiply-adds a second, and the memory.
Nobody else takes that for a measure: what counts is what a verifier timed. With --answer it answers what the verifier of
this machine has planned for it, waiting for its start; assay-agent run does so all the time.

Exit codes: 0 it was measured, 1 the driver computed something else, 2 usage or could not run, 3 nothing is known.`,
		Example: "  assay-agent benchmark --memory 4096\n  assay-agent benchmark --answer",
		Args:    cobra.NoArgs,
	}
	state, driver := stateFlag(c), driverFlag(c)
	memory := c.Flags().Int("memory", 1024, "MiB to fill")
	answer := c.Flags().Bool("answer", false, "answer what the verifier has planned, once")
	c.MarkFlagsMutuallyExclusive("memory", "answer")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var r capacity.Result
		var err error
		if *answer {
			r, err = answerBenchmark(c, *state, *driver)
		} else {
			r, err = tryBenchmark(c, *driver, *memory, now)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), r.Outcome, r.Score, r.Memory)
		switch r.Outcome {
		case capacity.Measured:
			return nil
		case capacity.Wrong:
			return failure{errors.New("wrong"), exitRejected, r.Reason}
		}
		return failure{errors.New("inconclusive"), exitUndecided, r.Reason}
	}
	return c
}

// told returns what tells of steps: ten times in a chain.
func told(c *cobra.Command) func(step, steps int) {
	tenth := 0
	return func(step, steps int) {
		if reached := 10 * step / steps; reached != tenth {
			tenth = reached
			fmt.Fprintf(c.ErrOrStderr(), "assay-agent: step %d of %d\n", step, steps)
		}
	}
}

// tryBenchmark is a benchmark by nobody's clock but this machine's.
func tryBenchmark(c *cobra.Command, driver string, memory int, now func() time.Time) (capacity.Result, error) {
	shape, err := capacity.ShapeFor(memory)
	if err != nil {
		return capacity.Result{}, err
	}
	d, err := benchmark.Start(c.Context(), driverCommand(driver), shape)
	if err != nil {
		return capacity.Result{}, err
	}
	defer d.Close()
	fmt.Fprintf(c.ErrOrStderr(), "assay-agent: %s: %d MiB in %d slots, %d steps\n", d.Device, shape.Memory()>>20, shape.Slots, shape.Steps)
	var random [3]canon.Digest
	for i := range random {
		rand.Read(random[i][:]) // never fails
	}
	starts := now()
	ch := capacity.Challenge{Round: random[0], Nodes: 1, Node: "this machine", Seed: random[1], Shape: shape,
		Starts: starts.UnixMilli(), Expires: starts.Add(24 * time.Hour).UnixMilli()}
	progress := told(c)
	roots, err := d.Compute(ch, func(step int) { progress(step, shape.Steps) })
	if err != nil {
		return capacity.Result{}, err
	}
	elapsed := now().Sub(starts).Milliseconds()
	_, challenge, err := capacity.Record{Type: capacity.RecordType, Challenge: &ch}.Bytes()
	if err != nil {
		return capacity.Result{}, err
	}
	draw := capacity.Draw{Challenge: challenge, Roots: canon.Sum(roots), Received: ch.Starts + elapsed, Seed: random[2], Expires: ch.Expires + elapsed + 1}
	fmt.Fprintf(c.ErrOrStderr(), "assay-agent: committed after %d ms, opening what is drawn\n", elapsed)
	opening, err := d.Open(draw)
	if err != nil {
		return capacity.Result{}, err
	}
	return capacity.Judge(capacity.Given{Challenge: ch, Draw: &draw, Roots: roots, Opening: opening}), nil
}

// newLoop returns what answers the benchmarks of the verifier that this machine joined.
func newLoop(state, driver string, logger *slog.Logger) (benchmark.Loop, error) {
	node, err := agent.OpenStore(state).Node()
	if errors.Is(err, fs.ErrNotExist) {
		return benchmark.Loop{}, hinted(errors.New("this machine has joined no verifier"), "assay-agent join URL --token-file FILE")
	}
	if err != nil {
		return benchmark.Loop{}, err
	}
	server, err := client.New(client.Config{URL: node.Origin, Credential: node.Credential})
	return benchmark.Loop{Server: server, Node: node.Node, Driver: driverCommand(driver), After: time.After, Logger: logger}, err
}

func answerBenchmark(c *cobra.Command, state, driver string) (capacity.Result, error) {
	l, err := newLoop(state, driver, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
	if err != nil {
		return capacity.Result{}, err
	}
	l.Progress = told(c)
	r, err := l.Once(c.Context())
	if err != nil {
		return capacity.Result{}, err
	}
	if r == nil {
		return capacity.Result{}, hinted(errors.New("no benchmark is planned"), "the operator of the verifier plans one: assay benchmark plan %s", l.Node)
	}
	return *r, nil
}

// benchmarkDriverCommand is the process that [benchmark.Start] starts.
func benchmarkDriverCommand() *cobra.Command {
	return &cobra.Command{Use: driverCommandName, Hidden: true, Short: "Compute benchmarks, as a driver: see agent/benchmark/DRIVER.md", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return benchmark.CPU(c.InOrStdin(), c.OutOrStdout()) }}
}
