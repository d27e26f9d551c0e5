package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/client"
)

func runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Prove this machine to its verifier, again and again",
		Long: `Answers the verifier's challenges with evidence of this machine until it is stopped. SIGHUP draws new session keys and
begins a round at once. Benchmarks that the verifier plans are answered meanwhile. With --once it does one round, prints
the verdict and its evidence.

Exit codes: 0 it was stopped, or with --once accept; 1 with --once reject, or the log broke its word to this node; 2 usage
or could not run; 3 with --once undecided.`,
		Example: "  assay-agent run\n  assay-agent run --once\n  assay-agent run --interval 5m --metrics 127.0.0.1:9464",
		Args:    cobra.NoArgs,
	}
	state, devices := stateFlag(c), addDeviceFlags(c)
	interval := c.Flags().Duration("interval", agent.DefaultInterval, "longest time between two rounds")
	metrics := c.Flags().String("metrics", "", "loopback `HOST:PORT` that serves Prometheus metrics (default: none)")
	once := c.Flags().Bool("once", false, "do one round and exit by its verdict")
	driver := driverFlag(c)
	c.MarkFlagsMutuallyExclusive("once", "metrics")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		logger := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
		a, err := newAgent(*state, devices.open(), devices.gpus(), *interval, logger)
		if err != nil {
			return err
		}
		if *once {
			return runOnce(c, a, *state)
		}
		if *metrics != "" {
			at, stop, cannot := serveMetrics(*metrics, a)
			if cannot != nil {
				return cannot
			}
			defer func() { err = errors.Join(err, stop()) }()
			logger.Info("metrics", "url", "http://"+at.String()+"/metrics")
		}
		requests := make(chan struct{}, 1)
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		go forward(c.Context(), hangups, requests)
		benchmarks, err := newLoop(*state, *driver, logger)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(c.Context())
		var answering sync.WaitGroup
		answering.Go(func() { benchmarks.Run(ctx) })
		err = a.Run(ctx, requests)
		cancel()
		answering.Wait() // for the end of the driver
		switch {
		case errors.Is(err, context.Canceled):
			return nil // stopped by its operator
		case errors.Is(err, agent.ErrRevoked):
			return hinted(err, "ask the operator of the verifier for a token, then join again")
		}
		return err
	}
	return c
}

// forward turns signals into requests; one that waits stands for all that come meanwhile.
func forward(ctx context.Context, signals <-chan os.Signal, requests chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			select {
			case requests <- struct{}{}:
			default:
			}
		}
	}
}

func newAgent(state string, devices []agent.Device, gpus agent.GPUs, interval time.Duration, logger *slog.Logger) (*agent.Agent, error) {
	store := agent.OpenStore(state)
	node, err := store.Node()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinted(errors.New("this machine has joined no verifier"), "assay-agent join URL --token-file FILE")
	}
	if err != nil {
		return nil, err
	}
	server, err := client.New(client.Config{URL: node.Origin, Credential: node.Credential})
	if err != nil {
		return nil, err
	}
	self, err := device.Executable(device.DefaultExecutable)
	if err != nil {
		return nil, err
	}
	return agent.New(agent.Config{
		Node: node, Store: store, Server: server, Devices: devices, GPUs: gpus, Executable: self,
		BootID:   func() (string, error) { return device.BootID(device.DefaultBootID) },
		Interval: interval, Random: rand.Reader, Now: time.Now, After: time.After, Logger: logger,
	})
}

func runOnce(c *cobra.Command, a *agent.Agent, state string) error {
	if err := a.Round(c.Context()); err != nil {
		return hinted(err, "assay-agent doctor says what is missing")
	}
	s := a.Status()
	fmt.Fprintln(c.OutOrStdout(), s.Decision.Outcome, s.Decision.Policy, s.Evidence)
	switch {
	case s.LogFaults > 0:
		return failure{errors.New("the log is at fault"), exitRejected, "show " + agent.OpenStore(state).StreamPath() + " to who audits this log: it holds the proof"}
	case s.Decision.Outcome == client.Accept:
		return nil
	case s.Decision.Outcome == client.Reject:
		return failure{errors.New("rejected"), exitRejected, ""}
	}
	return failure{errors.New("undecided"), exitUndecided, ""}
}
