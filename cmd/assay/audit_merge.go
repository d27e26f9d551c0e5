package main

import (
	"crypto"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
)

func (a *app) auditMergeCommand() *cobra.Command {
	var key, output string
	var auditors []string
	cmd := &cobra.Command{
		Use:   "merge REPORT...",
		Short: "Put signed reports on ranges of one log together",
		Long: `Put signed reports on ranges of one log together.

A report is what audit replay --range FROM:TO --key FILE -o json wrote, on one machine
of many or by one auditor of several. They come to the report of the whole log if all
are of one tree, made by the same rules, overlap nowhere and leave nothing out; else
what is wrong or missing is said. Exit codes: as audit replay has them, and 2 if they
cannot be put together.`,
		Example: `  assay audit replay log.tar --trust trust.yaml --range 0:500000 --key auditor.pem -o json > one.json
  assay audit merge one.json two.json --auditor auditor.pub`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return a.auditMerge(args, auditors, key, output) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&auditors, "auditor", nil, "public key `FILE` (PEM) of an auditor whose reports count; may be repeated")
	fl.StringVar(&key, "key", "", "sign the whole with the private key in this `FILE` (PEM, see assay keys); reports under it count too")
	fl.StringVarP(&output, "output", "o", "text", "text, or json")
	return cmd
}

func (a *app) auditMerge(names, auditors []string, key, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	if key != "" && output != "json" {
		return errors.New("--key signs the report as JSON: want -o json with it")
	}
	var keys []crypto.PublicKey
	for _, file := range auditors {
		pub, _, err := inputs.PublicKey(file)
		if err != nil {
			return err
		}
		keys = append(keys, pub)
	}
	own, err := a.readOwnKey(key)
	if err != nil {
		return err
	}
	if own != nil {
		keys = append(keys, own.Public())
	}
	if len(keys) == 0 {
		return errors.New("whose reports count? want --auditor FILE or --key FILE")
	}
	var parts []audit.PartialReport
	for _, name := range names {
		data, err := files.Bounded(name, ledger.MaxEnvelope)
		if err != nil {
			return err
		}
		r, by, err := audit.OpenReport(data, keys)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.say("%s: signed by %s", name, by.Short())
		parts = append(parts, audit.PartialReport{Name: name, Report: r})
	}
	merged, err := audit.Merge(parts)
	if err != nil {
		return err
	}
	if err := a.printReport(merged, output, own); err != nil {
		return err
	}
	if code := merged.ExitCode(); code != exitAccept {
		return outcome(code)
	}
	return nil
}

// printReport writes a report as text or JSON, and signed where there is a key.
func (a *app) printReport(r audit.Report, output string, own ledger.Signer) error {
	switch {
	case own != nil:
		sealed, err := audit.SealReport(r, own)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", sealed)
	case output == "json":
		data, err := r.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	default:
		fmt.Fprint(a.stdout, r.Text())
	}
	return nil
}

// parseRange reads FROM:TO; nothing is the whole log.
func parseRange(text string) (g audit.Range, err error) {
	if text == "" {
		return g, nil
	}
	from, to, ok := strings.Cut(text, ":")
	g.From, err = strconv.ParseInt(from, 10, 64)
	if ok && err == nil {
		g.To, err = strconv.ParseInt(to, 10, 64)
	}
	if !ok || err != nil || g == (audit.Range{}) || g.From > canon.MaxInt || g.To > canon.MaxInt {
		return g, fmt.Errorf("range %q: want FROM:TO, two indexes of entries", text)
	}
	return g, g.Check()
}
