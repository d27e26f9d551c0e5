package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
)

// withOpenSSL is the one tool that commands are printed for.
const withOpenSSL = "openssl"

// explainArgs are the flags of audit explain.
type explainArgs struct{ trust, output, with, out string }

func (a *app) auditExplainCommand() *cobra.Command {
	var e explainArgs
	cmd := &cobra.Command{
		Use:   "explain LOG VERDICT",
		Short: "Say of a logged verdict what was checked, by which specification, and where the value stands",
		Long: `Say of a logged verdict what was checked, by which specification, and where the value stands.

VERDICT is the index of its entry, or a digest as audit population lists it. Each
check is a sentence with its specification, the part of the evidence and the byte
offset, what was observed, and which line of the policy asked.

With --recompute-with openssl the output is shell commands instead that redo the
signatures and digests by hand, on files written to the folder of --out: they need
openssl, sh and coreutils, and nothing of Assay. What they do not redo, they say.

Exit codes: 0 explained, 1 the log or the verdict is faulty, 2 usage or could not run,
3 explained, but without a trust file nobody vouches for the keys.`,
		Example: `  assay audit explain log.tar 41 --trust trust.yaml
  assay audit explain log.tar 41 --trust trust.yaml --recompute-with openssl --out by-hand | sh`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return a.auditExplain(c.Context(), args[0], args[1], e) },
	}
	fl := cmd.Flags()
	fl.StringVar(&e.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.StringVarP(&e.output, "output", "o", "text", "text or json")
	fl.StringVar(&e.with, "recompute-with", "", "print shell commands for this `TOOL`: openssl")
	fl.StringVar(&e.out, "out", "", "`FOLDER` for the files of the commands")
	return cmd
}

func (a *app) auditExplain(ctx context.Context, name, word string, e explainArgs) (err error) {
	switch {
	case e.output != "text" && e.output != "json":
		return fmt.Errorf("output %q: want text or json", e.output)
	case e.with != "" && e.with != withOpenSSL:
		return fmt.Errorf("recompute with %q: want %s", e.with, withOpenSSL)
	case (e.with == "") != (e.out == ""):
		return errors.New("want --recompute-with and --out FOLDER together: the commands work on files")
	}
	g, log, err := a.readLog(ctx, name, e.trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	index, err := g.Find(ctx, word)
	if err != nil {
		return err
	}
	if e.with != "" {
		return a.recompute(ctx, g, index, e.out)
	}
	x, err := g.Explain(ctx, index)
	if err != nil {
		return a.fault(err)
	}
	if e.output == "json" {
		data, err := x.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	} else {
		fmt.Fprint(a.stdout, x.Text())
	}
	return a.conclude(g.Integrity(), g.Integrity().Outcome)
}

// recompute prints the commands that redo a verdict by hand, and writes their files.
func (a *app) recompute(ctx context.Context, g *audit.Reading, index int64, folder string) error {
	script, files, err := g.WithOpenSSL(ctx, index)
	if err != nil {
		return a.fault(err)
	}
	if err := writeFolder(folder, files); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "cd %s || exit 2\n%s", shellQuote(folder), script)
	return a.conclude(g.Integrity(), g.Integrity().Outcome)
}

// writeFolder writes files into a folder that is empty or new.
func writeFolder(folder string, files []audit.File) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s: not empty; want a folder of its own", folder)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(folder, f.Name), f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shellQuote makes one word of a shell out of any text.
func shellQuote(s string) string {
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
