// Command assay-agent runs on a provider's machine: it joins a verifier, proves the machine's hardware to it again and
// again, and says what this machine could prove.
//
// Data goes to stdout, words to stderr. Exit codes: 0 done (and accepted, where there is a verdict), 1 rejected, 2 usage
// or could not run, 3 undecided.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/manual"
)

const (
	exitDone = iota
	exitRejected
	exitCouldNot
	exitUndecided
)

const defaultState = "/var/lib/assay-agent"

// failure is an error with the exit code and the advice that belong to it.
type failure struct {
	error
	code int
	hint string
}

func (f failure) Unwrap() error { return f.error }

func hinted(err error, format string, args ...any) error {
	return failure{err, exitCouldNot, fmt.Sprintf(format, args...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if first(os.Getpid(), os.Args) {
		firstProcess(ctx, os.Stderr)
	}
	os.Exit(execute(ctx, os.Args[1:], time.Now, os.Stdout, os.Stderr))
}

// first tells whether the kernel started this process from an initial RAM disk. The first process of a container has
// another name.
func first(pid int, args []string) bool { return pid == 1 && len(args) > 0 && args[0] == "/init" }

// execute runs a command; what it times, it times by the clock.
func execute(ctx context.Context, args []string, now func() time.Time, stdout, stderr io.Writer) int {
	root := command(now)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	f := failure{error: err, code: exitCouldNot}
	errors.As(err, &f)
	if f.code == exitCouldNot {
		fmt.Fprintf(stderr, "assay-agent: error: %v\n", err)
	}
	if f.hint != "" {
		fmt.Fprintf(stderr, "assay-agent: hint: %s\n", f.hint)
	}
	return f.code
}

func command(now func() time.Time) *cobra.Command {
	root := &cobra.Command{
		Use:   "assay-agent",
		Short: "Prove this machine's hardware to an Assay verifier",
		Long: `Prove this machine's hardware to an Assay verifier.

Data goes to stdout, words to stderr. Exit codes: 0 done, and accepted where there is
a verdict, 1 rejected, 2 usage or could not run, 3 undecided.`,
		Example: `  assay-agent doctor
  assay-agent join https://assay.example --token-file FILE
  assay-agent run`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(joinCommand(), runCommand(), collectCommand(), doctorCommand(), benchmarkCommand(now), versionCommand(), gpuCommand(), benchmarkDriverCommand())
	manual.Add(root)
	return root
}

func stateFlag(c *cobra.Command) *string {
	return c.Flags().String("state", defaultState, "folder of the node credential and the last checkpoint")
}
