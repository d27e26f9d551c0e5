// Command assay judges evidence, serves the verifier, and audits its log.
//
// Data goes to stdout, words to stderr. The exit code is 0 for accept, 1 for reject (malformed evidence is a reject), 2 for
// usage or could not run, 3 for undecided.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/manual"
)

// Exit codes, the same for every command.
const (
	exitAccept    = 0
	exitReject    = 1
	exitUsage     = 2
	exitUndecided = 3
)

// app is what a command may touch of the world.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	now    func() time.Time
	getenv func(string) string
	browse func(page string) error // opens a page in a browser

	quiet   bool   // --quiet: no words on stderr but errors
	context string // --context: name of the server that commands talk to; empty: the chosen one
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now, getenv: os.Getenv, browse: openBrowser(os.Getenv)}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// output is stdout, and the first error of writing there: a report on a full disk must not end as one that was given.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// outcome is a result that is no failure of the command: its exit code, when not accept.
type outcome int

func (o outcome) Error() string { return fmt.Sprintf("exit code %d", int(o)) }

// hinted is an error with a word on what to do about it.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

func withHint(err error, format string, args ...any) error {
	return hinted{err, fmt.Sprintf(format, args...)}
}

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "assay",
		Short: "Decide whether a stranger's machine can be trusted with a job, and prove why",
		Long: `Decide whether a stranger's machine can be trusted with a job, and prove why.

Data goes to stdout, words to stderr. Exit codes: 0 accept, 1 reject, 2 usage or
could not run, 3 undecided.`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Version:           about(),
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("{{.Version}}")
	root.PersistentFlags().BoolVar(&a.quiet, "quiet", false, "no words on stderr but errors")
	root.PersistentFlags().StringVar(&a.context, "context", "", "`NAME` of the server to talk to, of those that you logged in to (default: the chosen one)")
	root.AddCommand(a.verifyCommand(), a.inspectCommand(), a.measureCommand(), a.policyCommand())
	root.AddCommand(a.serveCommand(), a.keysCommand(), a.loginCommand(), a.nodesCommand(), a.enrolCommand(), a.benchmarkCommand(), a.auditCommand(), a.collateralCommand(), a.witnessCommand(), a.logCommand(), a.engineCommand(), a.dbCommand())
	root.AddCommand(a.retentionCommand(), a.blobsCommand(), a.codesCommand())
	root.AddCommand(a.contextCommand(), a.whoamiCommand(), a.logoutCommand(), a.tokenCommand(), a.accessCommand())
	root.AddCommand(a.certifyCommand(), a.providersCommand(), a.issuersCommand(), a.rulesCommand())
	manual.Add(root)
	sayUsage(root)
	out := &output{Writer: a.stdout}
	a.stdout = out
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if out.err != nil { // whatever was found, nobody can read it
		err = fmt.Errorf("stdout: %w", out.err)
	}
	var o outcome
	switch {
	case err == nil:
		return exitAccept
	case errors.As(err, &o):
		return int(o)
	}
	fmt.Fprintf(a.stderr, "assay: error: %v\n", err)
	var h hinted
	if !errors.As(err, &h) {
		err = withTokenHint(err)
	}
	if errors.As(err, &h) {
		fmt.Fprintf(a.stderr, "assay: hint: %s\n", h.hint)
	}
	return exitUsage
}

// sayUsage lets a command and those below it say how they are called, where they are called wrongly.
func sayUsage(cmd *cobra.Command) {
	hint := func(c *cobra.Command, err error) error {
		if c.HasSubCommands() {
			return withHint(err, "run: %s --help", c.CommandPath())
		}
		return withHint(err, "usage: %s; run: %s --help", c.UseLine(), c.CommandPath())
	}
	cmd.SetFlagErrorFunc(hint)
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil:
				return nil
			case strings.Contains(err.Error(), "arg(s)"): // cobra counts them in its own words
				err = fmt.Errorf("wrong number of arguments: %d", len(args))
			}
			return hint(c, err)
		}
	}
	for _, c := range cmd.Commands() {
		sayUsage(c)
	}
}

// say writes words for people, unless they asked for quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, "assay: "+format+"\n", args...)
	}
}
