package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier/module"
)

// Limits on the files that the audit commands read.
const (
	maxTrustFile = 1 << 20
	writeBuffer  = 1 << 20
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Recompute a log offline: every appraisal and every verdict, byte for byte",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	trust := &cobra.Command{
		Use:   "trust",
		Short: "Write down whose log is to be believed",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	trust.AddCommand(a.auditTrustInitCommand())
	cmd.AddCommand(a.auditPullCommand(), a.auditMergeCommand(), a.auditExportCommand(), a.auditReplayCommand(), trust)
	cmd.AddCommand(a.auditPopulationCommand(), a.auditSampleCommand(), a.auditChallengeCommand(), a.auditDiffCommand(), a.auditExplainCommand(), a.auditPaperCommand())
	return cmd
}

func (a *app) auditExportCommand() *cobra.Command {
	var d database
	var out string
	var log string
	var scope scopeArgs
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a server's log, with every input of every verdict, into one file",
		Long: `Write a server's log, with every input of every verdict, into one file.

It reads the server's own database, while the server runs or not. Equal logs give
equal files. Where a log was closed and another goes on, --log names one of them; each
can be replayed alone, and all together. The file holds evidence: it is for the log's parties and auditors.

With --node, --from, --to or --verdict the file is for somebody who is to see a part:
it has every leaf of the log, but opens only the matching evidence, what was made of
it, and what that rests on. A replay of it says what it covers.`,
		Example: `  assay audit export --data /var/lib/assay --out log.tar
  assay audit export --data /var/lib/assay --node node-7 --from 2026-02-01T00:00:00Z --out part.tar
  assay audit export --database postgres://assay@db/assay | ssh auditor 'cat > log.tar'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.auditExport(c.Context(), &d, log, out, scope)
		},
	}
	d.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&out, "out", "-", "`FILE` to write; - is stdout")
	fl.StringVar(&log, "log", "", "`ORIGIN` of the log (default: the newest)")
	fl.StringArrayVar(&scope.nodes, "node", nil, "`ID` of a node whose evidence is exported; may be repeated")
	fl.StringVar(&scope.from, "from", "", "evidence from this entry or instant on: `INDEX|TIME`")
	fl.StringVar(&scope.to, "to", "", "evidence before this entry, or until this instant: `INDEX|TIME`")
	fl.StringVar(&scope.verdict, "verdict", "", "evidence with such a verdict: `accept|reject|undecided`")
	return cmd
}

// scopeArgs are the flags that make an export one of a part.
type scopeArgs struct {
	nodes             []string
	from, to, verdict string
}

func (s scopeArgs) criteria() (c audit.Criteria, whole bool, err error) {
	c = audit.Criteria{Nodes: s.nodes, Verdict: s.verdict}
	for _, bound := range []struct {
		flag, text string
		index      *int64
		time       *canon.Time
	}{{"from", s.from, &c.FromIndex, &c.FromTime}, {"to", s.to, &c.ToIndex, &c.ToTime}} {
		if bound.text == "" {
			continue
		}
		if n, err := strconv.ParseInt(bound.text, 10, 64); err == nil {
			*bound.index = n
		} else if *bound.time, err = canon.ParseTime(bound.text); err != nil {
			return c, false, fmt.Errorf("--%s %q: want the index of an entry, or an instant such as 2026-02-01T00:00:00Z", bound.flag, bound.text)
		}
	}
	return c, len(s.nodes) == 0 && s.from == "" && s.to == "" && s.verdict == "", c.Check()
}

func (a *app) auditExport(ctx context.Context, d *database, log, out string, scope scopeArgs) error {
	criteria, whole, err := scope.criteria()
	if err != nil {
		return err
	}
	return d.with(ctx, nil, func(store *server.Store) error {
		l, err := store.LogOf(ctx, log)
		if err != nil {
			return err
		}
		return a.writeOut(out, func(w io.Writer) error {
			if whole {
				return audit.Export(ctx, l.Source(), w)
			}
			_, err := audit.ExportScope(ctx, l.Source(), criteria, w)
			return err
		})
	})
}

// writeOut writes stdout, or a file that is there whole or not at all.
func (a *app) writeOut(name string, write func(io.Writer) error) (err error) {
	if name == "-" {
		w := bufio.NewWriterSize(a.stdout, writeBuffer)
		return errors.Join(write(w), w.Flush())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, writeBuffer)
	if err := errors.Join(write(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func (a *app) auditReplayCommand() *cobra.Command {
	var r replayArgs
	cmd := &cobra.Command{
		Use:   "replay FILE|FOLDER...",
		Short: "Recompute every appraisal and verdict of an exported log",
		Long: `Recompute every appraisal and verdict of an exported log.

FILE is what audit export wrote; FOLDER is the same unpacked. Nobody is asked and
nothing is fetched. What another build decided is recomputed by its engine, a module
that the log holds, in a sandbox; then it is said what this build would decide.
Several are logs of one chain, where a log was closed and another goes on: each is
replayed, and then what holds between them. One alone says what it continues, and
what goes on. Exit codes: 0 all follows from its inputs, and the keys and engines are
those of the trust file, 1 something is missing, false or differs, 2 usage or could
not run, 3 equal, but nobody vouches for the keys or for an engine, or a promise is
not due yet.

With --as-of everything is judged once more as of another time, with the collateral
of --known: accepts that no longer hold are listed, with the rule, the item that does
it, and since when. Lapsed is what time alone ended; tainted is what something newly
known speaks against. Then exit code 1 also says that something is tainted, 3 that
something has lapsed.

With --state the keys are those of an earlier run, and a log that does not go on from
the checkpoint that was believed is refused: both notes are kept beside the state, as
FILE.believed.note and FILE.refused.note.

A promise is what a submitter was given for its evidence. Where the trust file names
witnesses, it is withheld if a checkpoint that they cosigned after publish-by lacks
its entry, also if a later one has it. Without them all time is the operator's word:
it is withheld if the log has an entry made after publish-by and not this one.

Witnesses also bracket the time of each appraisal: it lies between the cosignatures
of the checkpoint that its challenge names and of the first that covers its entry.
One outside, or a bracket of more than 6 minutes that no stall explains, is a fault.`,
		Example: `  assay audit replay log.tar --trust trust.yaml
  assay audit replay log.tar --trust trust.yaml --promise promise.json -o json
  assay audit replay log-2026.tar log-2027.tar --trust trust.yaml --state assay.state
  assay audit replay log.tar --trust trust.yaml --as-of now --known ~/.cache/assay/collateral`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.auditReplay(c.Context(), args, r) },
	}
	fl := cmd.Flags()
	fl.StringVar(&r.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.StringArrayVar(&r.promises, "promise", nil, "`FILE` of a promise that must have been kept; may be repeated")
	fl.StringVarP(&r.output, "output", "o", "text", "text, or json")
	fl.StringVar(&r.state, "state", "", "`FILE` of what was believed of this log: read if it is there, and written after an equal replay")
	fl.StringVar(&r.asOf, "as-of", "", "judge everything once more as of this instant: `TIME|now`")
	fl.StringVar(&r.known, "known", "", "with the collateral of the log until an instant, or with more from a store or a set: `TIME|now|FOLDER|FILE`")
	fl.StringVar(&r.span, "range", "", "recompute only verdicts on the evidence of entries `FROM:TO`; all else is checked as ever")
	fl.StringVar(&r.key, "key", "", "sign the report with the auditor's private key in this `FILE` (PEM, see assay keys); -o json then gives the envelope")
	fl.IntVar(&r.workers, "workers", runtime.NumCPU(), "`N` appraisals at a time; the report does not depend on it")
	return cmd
}

type replayArgs struct {
	span, key, state, asOf, known string
	trust                         string
	promises                      []string
	output                        string
	workers                       int
}

func (a *app) auditReplay(ctx context.Context, names []string, args replayArgs) error {
	if err := refuseGODEBUG(a.getenv("GODEBUG")); err != nil {
		return err
	}
	switch {
	case args.output != "text" && args.output != "json":
		return fmt.Errorf("output %q: want text or json", args.output)
	case args.workers < 1 || args.workers > audit.MaxWorkers:
		return fmt.Errorf("workers %d: want 1 to %d", args.workers, audit.MaxWorkers)
	case args.key != "" && args.output != "json":
		return errors.New("--key signs the report as JSON: want -o json with it")
	case len(args.promises) > audit.MaxPromises:
		return fmt.Errorf("%d promises, at most %d", len(args.promises), audit.MaxPromises)
	}
	key, err := a.readOwnKey(args.key) // before hours of work
	if err != nil {
		return err
	}
	trust, err := readTrust(args.trust)
	if err != nil {
		return err
	}
	engines := module.NewRunner(module.Limits{})
	defer engines.Close()
	o := audit.Options{Workers: args.workers, Progress: a.progress(), Engines: engines}
	if o.Promises, err = readPromises(args.promises); err != nil {
		return err
	}
	if o.Range, err = parseRange(args.span); err != nil {
		return err
	}
	if o.Now, err = a.parseNow(args.asOf, args.known); err != nil {
		return err
	}
	state, err := readState(args.state, trust)
	if err != nil {
		return err
	}
	if state.Type != "" {
		trust = &state.Trust
	}
	if len(names) > 1 {
		return a.auditReplayChain(ctx, names, args, trust, o, state)
	}
	report, err := replayPath(ctx, names[0], trust, o)
	if err != nil {
		return err
	}
	if err := a.printReport(report, args.output, key); err != nil {
		return err
	}
	if args.state != "" && report.Outcome == audit.Equal && trust != nil {
		if err := a.keepState(ctx, args.state, state, *trust, report, names); err != nil {
			return err
		}
	}
	if trust == nil && !a.quiet {
		a.say("hint: to know whose log this is, make a trust file: assay audit trust init URL URL")
	}
	if code := report.ExitCode(); code != exitAccept {
		return outcome(code)
	}
	return nil
}

func replayPath(ctx context.Context, name string, trust *audit.Trust, o audit.Options) (audit.Report, error) {
	f, info, err := openLogFile(name)
	if err != nil {
		return audit.Report{}, err
	}
	defer f.Close()
	if info.IsDir() {
		return audit.Replay(ctx, audit.Directory(os.DirFS(name)), trust, o)
	}
	return audit.ReplayFile(ctx, f, info.Size(), trust, o)
}
