package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/server"
)

func (a *app) witnessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Watch the logs of others: cosign each state that continues the last one",
		Long: `Watch the logs of others: cosign each state that continues the last one.

A log alone can show each reader another history. A witness that somebody else runs
signs only what continues what it signed before, so readers who ask for the word of
more than half of their witnesses all see one history. It sees sizes and hashes,
never what is logged. The protocol is C2SP tlog-witness.

Who relies on witnesses names them in a policy file (C2SP tlog-policy), each by the key
that witness init printed, and how many must cosign. A log's operator gives it to
assay serve --witnesses, with the URLs that the witnesses answer at; a reader gives his
own to assay log check --witnesses, where URLs may be left out:

  witness w1 witness.example/w1+0f1a2b3c+BW... https://witness.example
  witness w2 other.example/w+1b2c3d4e+BX... https://other.example/prefix
  witness w3 third.example/w+2c3d4e5f+BY... https://third.example
  group two-of-three 2 w1 w2 w3
  quorum two-of-three

Nothing of the log is published before its witnesses know the key that assay serve
printed at the log's first start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.witnessInitCommand(), a.witnessServeCommand())
	return cmd
}

func (a *app) witnessInitCommand() *cobra.Command {
	var data string
	var logs []string
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Make the key and the document of a new witness",
		Long: `Make the key and the document of a new witness.

NAME stands in its key and so in every cosignature: a URL without its scheme, such
as witness.example/w1. What is printed is its verifier key, for the policies of those
who rely on it. The document, witness.yaml, lists the logs that it watches; edit it
and start the witness again to watch others.`,
		Example: `  assay witness init witness.example/w1 --log assay.example/log+0f1a2b3c+AW...`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := a.dataFolder(data, "assay-witness")
			if err != nil {
				return err
			}
			vkey, err := server.InitWitness(folder, args[0], logs, server.Deps{Random: rand.Reader, Getenv: a.getenv})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, vkey)
			a.say("it is in %s; start it: assay witness serve --data %s", folder, folder)
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "`FOLDER` of key, document and database (default: assay-witness in the user's data folder)")
	cmd.Flags().StringArrayVar(&logs, "log", nil, "verifier `KEY` of a log that it watches, as assay serve prints it; may be repeated")
	return cmd
}

func (a *app) witnessServeCommand() *cobra.Command {
	var data, listen string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer logs that ask for cosignatures",
		Long: `Answer logs that ask for cosignatures.

It speaks plain HTTP: what it is sent and what it says is public and signed. Keep its
data folder: a witness that forgets what it cosigned lets a log show it another
history, so a backup of the folder must never be put back.`,
		Example: `  assay witness serve --listen 0.0.0.0:8090`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.witnessServe(c.Context(), data, listen) },
	}
	cmd.Flags().StringVar(&data, "data", "", "`FOLDER` that witness init made (default: assay-witness in the user's data folder)")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "`HOST:PORT` to listen on")
	return cmd
}

func (a *app) witnessServe(ctx context.Context, data, listen string) (err error) {
	folder, err := a.dataFolder(data, "assay-witness")
	if err != nil {
		return err
	}
	w, err := server.NewWitness(ctx, folder, listen, server.Deps{Now: a.now, Log: a.logger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	fmt.Fprintf(a.stdout, "witness      %s\n", w.VKey())
	fmt.Fprintf(a.stdout, "logs         %d\n", w.Logs())
	fmt.Fprintf(a.stdout, "url          http://%s\n", w.Addr())
	if w.Logs() == 0 {
		a.say("it watches no log yet: add verifier keys to %s and start it again", filepath.Join(folder, "witness.yaml"))
	}
	return w.Run(ctx)
}

// dataFolder returns the folder that was named, or the one of that name in the user's data folder.
func (a *app) dataFolder(named, name string) (string, error) {
	if named != "" {
		return named, nil
	}
	home := a.getenv("XDG_DATA_HOME")
	if home == "" {
		if a.getenv("HOME") == "" {
			return "", withHint(errors.New("no data folder"), "name one with --data")
		}
		home = filepath.Join(a.getenv("HOME"), ".local", "share")
	}
	return filepath.Join(home, name), nil
}

// logger returns what a process that serves writes its words with.
func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	if a.quiet {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}
