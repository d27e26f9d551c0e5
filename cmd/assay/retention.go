package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func (a *app) retentionCommand() *cobra.Command {
	var d database
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Hold what must not go, and erase what may",
		Long: `Hold what must not go, and erase what may.

A log keeps its entries for ever. What they name can be erased when the time of its
class has run out, and nothing holds it: an entry of the log says so first, and an
audit repeats the judgement. These commands work on the server's own database, while
the server runs or not.`,
		Example: `  assay retention show --data /var/lib/assay
  assay retention hold "case 12" --node node-0123456789abcdef --reason "court order" --data /var/lib/assay
  assay retention erase DIGEST --class challenge --reason "asked for by its owner" --data /var/lib/assay`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	d.flags(cmd)
	cmd.AddCommand(a.retentionShowCommand(&d), a.retentionHoldCommand(&d), a.retentionReleaseCommand(&d), a.retentionDueCommand(&d), a.retentionEraseCommand(&d))
	return cmd
}

// shownRetention is the answer of `assay retention show` in JSON.
type shownRetention struct {
	Classes  []client.RetentionClass `json:"classes"`
	Holds    []client.RetentionAct   `json:"holds"` // in force
	Erasures []client.RetentionAct   `json:"erasures"`
}

func (a *app) retentionShowCommand(d *database) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show how long things are kept, the holds in force, and what was erased",
		Long: `Show how long things are kept, the holds in force, and what was erased.

With --data or --database of the server's own database; without, of the server that
` + "`assay login`" + ` remembers, as far as your token goes: who reads a part of the log alone
sees the holds on nodes of that part.`,
		Example: `  assay retention show --data /var/lib/assay
  assay retention show -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("output %q: want text or json", output)
			}
			if d.data == "" && d.url == "" {
				session, err := a.session()
				if err != nil {
					return err
				}
				return a.retentionShow(c.Context(), session.Retention, output)
			}
			return d.with(c.Context(), nil, func(s *server.Store) error { return a.retentionShow(c.Context(), s.Retention, output) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json")
	return cmd
}

func (a *app) retentionShow(ctx context.Context, read func(context.Context, int64) (client.Retention, error), output string) error {
	show := shownRetention{Holds: []client.RetentionAct{}, Erasures: []client.RetentionAct{}}
	for after := int64(0); ; {
		page, err := read(ctx, after)
		if err != nil {
			return err
		}
		show.Classes = page.Classes
		for _, act := range page.Acts {
			switch {
			case act.InForce:
				show.Holds = append(show.Holds, act)
			case act.Act == ledger.ActErase:
				show.Erasures = append(show.Erasures, act)
			}
		}
		if after = page.After; after == 0 {
			break
		}
	}
	if output == "json" {
		data, err := canon.Marshal(show)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(data))
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, c := range show.Classes {
		keep := "for ever"
		if c.Days > 0 {
			keep = fmt.Sprintf("%d days", c.Days)
		}
		fmt.Fprintf(w, "class\t%s\t%s\t%s\n", c.Class, keep, strings.Join(kindsOf(c.Class), " "))
	}
	for _, h := range show.Holds {
		fmt.Fprintf(w, "hold\t%q\t%s\t%s: %s: %q\n", h.Hold, h.Time, entryOf(h.Log, h.Entry), covered(h), h.Reason)
	}
	for _, e := range show.Erasures {
		fmt.Fprintf(w, "erased\t%s\t%s\t%s: %s: %q\n", e.Class, e.Time, entryOf(e.Log, e.Entry), covered(e), e.Reason)
	}
	return w.Flush()
}

// entryOf names an entry. A log without a keyset has no name.
func entryOf(log string, index int64) string {
	if log == "" {
		return fmt.Sprintf("entry %d", index)
	}
	return fmt.Sprintf("entry %d of %s", index, log)
}

// kindsOf lists the kinds of a class by which people know it.
func kindsOf(class string) []string {
	if class == ledger.ClassRecord {
		return []string{"all", "others"}
	}
	var out []string
	for _, k := range ledger.Kinds() {
		if ledger.ClassOf(k) == class {
			out = append(out, k)
		}
	}
	return out
}

func covered(s client.RetentionAct) string {
	names := slices.Clone(s.Nodes)
	for _, d := range s.Digests {
		names = append(names, d.String())
	}
	return strings.Join(names, " ")
}

// act makes one act and says its entry.
func (a *app) act(ctx context.Context, d *database, make func(*server.Store) (ledger.Erasure, error), done string) error {
	return d.with(ctx, rand.Reader, func(s *server.Store) error {
		e, err := make(s)
		if err != nil {
			return err
		}
		at, err := s.Act(ctx, e, canon.At(a.now()))
		if err != nil {
			return refusedAct(err)
		}
		l, index, err := s.At(ctx, at)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, entryOf(l.Origin, index))
		a.say("%s; a running server publishes the entry, one that is down at its next start", done)
		return nil
	})
}

// refusedAct makes a refusal of an act one that scripts see as such.
func refusedAct(err error) error {
	var r *server.RefusedError
	if errors.As(err, &r) {
		return withHint(err, "assay retention show says how long things are kept and what is on hold, assay retention due what may go")
	}
	return err
}

// digestsOf reads digests of the command line, ordered, each once.
func digestsOf(texts []string) ([]canon.Digest, error) {
	out := []canon.Digest{}
	for _, text := range texts {
		d, err := canon.ParseDigest(text)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(out), nil
}

func (a *app) retentionHoldCommand(d *database) *cobra.Command {
	var nodes, digests []string
	var reason string
	cmd := &cobra.Command{
		Use:   "hold NAME",
		Short: "Keep what is of a node, a verdict or any blob from being erased",
		Long: `Keep what is of a node, a verdict or any blob from being erased.

A hold on a node covers its evidence, the challenges that this answers, the appraisals
and verdicts of it, now and later. A hold on a digest covers that blob and what it
rests on: of a verdict its appraisal, evidence, challenge and policy. It is an entry of
the log, and lasts until it is released.`,
		Example: `  assay retention hold "case 12" --node node-0123456789abcdef --reason "court order" --data /var/lib/assay`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.act(c.Context(), d, func(s *server.Store) (ledger.Erasure, error) {
				ds, err := digestsOf(digests)
				if err != nil {
					return ledger.Erasure{}, err
				}
				nodes := slices.Compact(slices.Sorted(slices.Values(nodes)))
				return ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActHold, Hold: args[0], Nodes: append([]string{}, nodes...), Digests: ds, Reason: reason}, nil
			}, fmt.Sprintf("the hold %q is in force", args[0]))
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&nodes, "node", nil, "id of a `NODE`; may be repeated")
	fl.StringArrayVar(&digests, "digest", nil, "`DIGEST` of a verdict or any blob; may be repeated")
	fl.StringVar(&reason, "reason", "", "`TEXT` that the log keeps")
	return cmd
}

func (a *app) retentionReleaseCommand(d *database) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "release NAME", Short: "End a hold", Args: cobra.ExactArgs(1),
		Example: `  assay retention release "case 12" --reason "case closed" --data /var/lib/assay`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.act(c.Context(), d, func(*server.Store) (ledger.Erasure, error) {
				return ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActRelease, Hold: args[0], Nodes: []string{}, Digests: []canon.Digest{}, Reason: reason}, nil
			}, fmt.Sprintf("the hold %q is released", args[0]))
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that the log keeps")
	return cmd
}

func (a *app) retentionDueCommand(d *database) *cobra.Command {
	var class string
	cmd := &cobra.Command{
		Use:   "due",
		Short: "List what may be erased now",
		Long: `List what may be erased now: digests of bodies whose time has run out and that nothing holds.

They are those of the oldest entries, as many as one erasure takes; once they are
erased, the next come. Nothing is printed when there are no more.`,
		Example: `  assay retention due --class challenge --data /var/lib/assay
  assay retention due --class challenge --data /var/lib/assay |
    xargs -r assay retention erase --class challenge --reason "out of retention" --data /var/lib/assay`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return d.with(c.Context(), nil, func(s *server.Store) error {
				due, err := s.Due(c.Context(), class, canon.At(a.now()))
				for _, digest := range due {
					fmt.Fprintln(a.stdout, digest)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&class, "class", "", "`CLASS`: judgement or challenge")
	return cmd
}

func (a *app) retentionEraseCommand(d *database) *cobra.Command {
	var class, reason string
	var dry bool
	cmd := &cobra.Command{
		Use:   "erase DIGEST...",
		Short: "Erase bodies of entries whose time has run out and that nothing holds",
		Long: `Erase bodies of entries whose time has run out and that nothing holds.

All of them or none. The entries stay, and what they say besides; so does the answer to
who asks for what is gone: erased, and by which entry. Bytes in the segments of a blob
folder are gone when the server has written the segment anew, at its next collections;
PostgreSQL needs a VACUUM; copies and backups are for you to see to.`,
		Example: `  assay retention erase DIGEST --class challenge --reason "asked for by its owner" --data /var/lib/assay
  assay retention erase DIGEST --class judgement --reason "out of retention" --dry-run --data /var/lib/assay`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			erasure := func(*server.Store) (ledger.Erasure, error) {
				ds, err := digestsOf(args)
				return ledger.Erasure{Type: ledger.ErasureType, Act: ledger.ActErase, Class: class, Nodes: []string{}, Digests: ds, Reason: reason}, err
			}
			if !dry {
				return a.act(c.Context(), d, erasure, "erased")
			}
			return d.with(c.Context(), nil, func(s *server.Store) error {
				e, err := erasure(s)
				if err != nil {
					return err
				}
				if _, err := s.Allowed(c.Context(), e, canon.At(a.now())); err != nil {
					return refusedAct(err)
				}
				fmt.Fprintln(a.stdout, "allowed")
				return nil
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&class, "class", "", "`CLASS` of all of them: judgement or challenge")
	fl.StringVar(&reason, "reason", "", "`TEXT` that the log keeps")
	fl.BoolVar(&dry, "dry-run", false, "say whether it is allowed, and erase nothing")
	return cmd
}
