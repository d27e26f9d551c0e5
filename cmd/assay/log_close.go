package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
)

// closingPoll is the pause between two looks at a server whose log is being closed.
const closingPoll = 500 * time.Millisecond

func (a *app) logCloseCommand() *cobra.Command {
	var next string
	var off, wait bool
	cmd := &cobra.Command{
		Use:   "close",
		Short: "Close the newest log of your server, and go on in another",
		Long: `Close the newest log of your server, and go on in another, while the server runs.

At the server that ` + "`assay login`" + ` remembers. From now on nobody gets a challenge;
what was promised gets its verdict, which takes as long as vendors are waited for, two
minutes at most. Then the last entry closes the log, and the next one begins, with the
same keys, what the server was given and the enrolments that stand: agents go on by
themselves. The closed log stays where it is, and promises made in it are kept there.

NAME is the next log's name in its checkpoints. Nothing of it is published before your
witnesses know it and their policies name it, where they name logs: see to that first.
Until the next log is there, --off calls it off.`,
		Example: `  assay log close --next assay.example/log-2027
  assay log close --off`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if off == (next != "") {
				return errors.New("want one of --next and --off")
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			if off {
				if err := s.KeepLog(c.Context()); err != nil {
					return err
				}
				a.say("no log is being closed")
				return nil
			}
			return a.closeLog(c.Context(), s, next, wait)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&next, "next", "", "`NAME` of the log that goes on")
	fl.BoolVar(&off, "off", false, "call off a closing that is not done")
	fl.BoolVar(&wait, "wait", true, "wait until the next log is there and published")
	return cmd
}

func (a *app) closeLog(ctx context.Context, s *client.Client, next string, wait bool) error {
	if err := s.CloseLog(ctx, next); err != nil {
		return err
	}
	if !wait {
		a.say("the log is being closed; %s goes on", next)
		return nil
	}
	for said := ""; ; {
		logs, err := s.Logs(ctx)
		if err != nil {
			return err
		}
		newest := logs[len(logs)-1]
		state := "waiting for the verdicts on what was promised"
		if newest.Origin == next {
			state = "the log is closed; waiting for the first checkpoint of the next one"
		}
		switch {
		case newest.Origin == next && newest.Size > 0:
			for _, l := range logs[max(0, len(logs)-2):] {
				fmt.Fprintf(a.stdout, "log          %s, size %d, at %s\n", l.Origin, l.Size, l.Path)
			}
			return nil
		case newest.Origin != next && newest.Next != next:
			return fmt.Errorf("the log %q stays open: the closing was called off", newest.Origin)
		case state != said:
			a.say("%s", state)
			said = state
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(closingPoll):
		}
	}
}
