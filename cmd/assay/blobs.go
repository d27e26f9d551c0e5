package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
)

func (a *app) blobsCommand() *cobra.Command {
	var d database
	cmd := &cobra.Command{
		Use:   "blobs",
		Short: "Look after the bytes that a server's log names",
		Long: `Look after the bytes that a server's log names.

They lie in the database, where nothing is to be set up, or in a blob folder of
append-only segments beside it, which suits a log of many gigabytes. These commands
work on the server's own database, while the server runs or not.`,
		Example: `  assay blobs show --data /var/lib/assay
  assay blobs move /var/lib/assay/blobs --data /var/lib/assay
  assay blobs check --data /var/lib/assay`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	d.flags(cmd)
	command := func(use, short, example string, args cobra.PositionalArgs, random io.Reader, run func(*cobra.Command, *server.Store, []string) error) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Example: "  assay blobs " + example, Args: args, RunE: func(c *cobra.Command, args []string) error {
			return d.with(c.Context(), random, func(s *server.Store) error { return run(c, s, args) })
		}})
	}
	command("show", "Say where they lie and how much they are", "show --data /var/lib/assay", cobra.NoArgs, nil, a.blobsShow)
	command("move FOLDER", "Make a folder the server's blob folder, and move them there", "move /var/lib/assay/blobs --data /var/lib/assay", cobra.ExactArgs(1), rand.Reader, a.blobsMove)
	command("check", "Read every one, and name those that are damaged", "check --data /var/lib/assay", cobra.NoArgs, nil, a.blobsCheck)
	command("collect", "Take away what nothing needs, as a running server does each hour", "collect --data /var/lib/assay", cobra.NoArgs, rand.Reader, a.blobsCollect)
	return cmd
}

func (a *app) blobsShow(c *cobra.Command, s *server.Store, _ []string) error {
	h, err := s.Holdings(c.Context())
	if err != nil {
		return err
	}
	where := h.Folder
	if where == "" {
		where = "the database"
	}
	fmt.Fprintf(a.stdout, "in        %s\nblobs     %d of %d bytes\n", where, h.Blobs, h.Stored)
	if h.Folder != "" {
		fmt.Fprintf(a.stdout, "segments  %d of %d bytes, %d of them dead\n", h.Segments, h.Size, h.Dead)
	}
	fmt.Fprintf(a.stdout, "unneeded  %d\n", h.Unneeded)
	return nil
}

func (a *app) blobsMove(c *cobra.Command, s *server.Store, args []string) error {
	var moved int64
	if err := s.MoveBlobs(c.Context(), args[0], func(n int64) { moved = n }); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d blobs moved\n", moved)
	a.say("a server that runs writes there from its next start")
	return nil
}

func (a *app) blobsCheck(c *cobra.Command, s *server.Store, _ []string) error {
	bad := 0
	n, err := s.CheckBlobs(c.Context(), func(err error) {
		bad++
		fmt.Fprintln(a.stdout, err)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d blobs read, %d damaged\n", n, bad)
	if bad > 0 {
		return outcome(exitReject)
	}
	return nil
}

func (a *app) blobsCollect(c *cobra.Command, s *server.Store, _ []string) error {
	done, err := s.Collect(c.Context(), canon.At(a.now()))
	fmt.Fprintf(a.stdout, "%d blobs and %d segments of %d bytes taken away, %d blobs moved\n", done.Blobs, done.Segments, done.Freed, done.Moved)
	return errors.Join(append(done.Damaged, err)...)
}
