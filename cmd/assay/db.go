package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/server"
)

func (a *app) dbCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "The database of a verifier",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.dbRebuildCommand())
	return cmd
}

func (a *app) dbRebuildCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "rebuild --from URL --to URL",
		Short: "Compute a verifier's database anew from its log, into an empty one",
		Long: `Compute a verifier's database anew from its log, into an empty one of either kind.

The tree and all state follow from the entries of the log and their blobs, and are
computed from nothing else. What no log has (blobs, signatures, secrets, settings) is
carried over. The new database has the same log: stop the old server first, and start
the next one with the same data folder and --database.

It either rebuilds all of it or leaves the new database empty. Whether appraisals are
right it does not say: that is what assay audit replay is for.`,
		Example: `  assay db rebuild --from sqlite:/var/lib/assay/assay.db --to postgres://assay@db/assay
  assay serve --data /var/lib/assay --database postgres://assay@db/assay`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.dbRebuild(c.Context(), from, to) },
	}
	cmd.Flags().StringVar(&from, "from", "", "`URL` of the database to read: sqlite:PATH or postgres://...")
	cmd.Flags().StringVar(&to, "to", "", "`URL` of the empty database to write")
	return cmd
}

func (a *app) dbRebuild(ctx context.Context, from, to string) error {
	switch {
	case from == "" || to == "":
		return withHint(errors.New("two databases are needed"), "name them with --from and --to")
	case from == to:
		return errors.New("--from and --to name one database")
	}
	done, err := server.Rebuild(ctx, from, to, rand.Reader, a.progress())
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "logs         %d\n", done.Logs)
	fmt.Fprintf(a.stdout, "entries      %d\n", done.Entries)
	fmt.Fprintf(a.stdout, "root         %s\n", done.Root)
	fmt.Fprintf(a.stdout, "carried over %s\n", strings.Join(done.Carried, " "))
	if len(done.Running) > 0 {
		a.say("a server is running on the old database (%s): what it writes from now on is not in the new one; before a server starts on the new one, stop it and rebuild again", strings.Join(done.Running, ", "))
	}
	return nil
}
