package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/ledger"
)

// auditReplayChain replays several logs of a chain.
func (a *app) auditReplayChain(ctx context.Context, names []string, args replayArgs, trust *audit.Trust, o audit.Options, state audit.State) error {
	if args.key != "" || args.span != "" {
		return errors.New("--key and --range are of a replay of one log")
	}
	var logs []audit.ChainLog
	for _, name := range names {
		f, info, err := openLogFile(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if info.IsDir() {
			logs = append(logs, audit.ChainLog{Source: audit.Directory(os.DirFS(name))})
			continue
		}
		l := audit.ChainLog{}
		src, err := audit.Open(f, info.Size())
		switch {
		case errors.As(err, &l.Refused):
			l.Refused.Part = name + ": " + l.Refused.Part
		case err != nil:
			return err
		default:
			l.Source = src
		}
		logs = append(logs, l)
	}
	report, err := audit.ReplayChain(ctx, logs, trust, o)
	if err != nil {
		return err
	}
	if args.output == "json" {
		data, err := report.Canonical()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
	} else {
		fmt.Fprint(a.stdout, report.Text())
	}
	if args.state != "" && report.Outcome == audit.Equal && trust != nil {
		if err := a.keepState(ctx, args.state, state, *trust, report.Logs[len(report.Logs)-1], names); err != nil {
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

// originOf returns the name of the log that a source is of.
func originOf(ctx context.Context, src ledger.Source) (string, error) {
	note, err := src.Checkpoint(ctx)
	if err != nil {
		return "", err
	}
	c, err := ledger.ReadCheckpoint(note)
	return c.Origin, err
}
