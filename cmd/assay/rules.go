package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/market/vetting"
)

func (a *app) rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Show and set the operator's parameters: grace, terms, tiers",
		Long: `Show and set the operator's parameters: grace, terms, tiers, at the server that
` + "`assay login`" + ` remembers. They are entries of the log with a time from which they hold: what
was decided before is judged by those of then.`,
		Example: "  assay rules show > rules.json\n  assay rules set rules.json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "Show the parameters that hold now; spans are seconds", Example: "  assay rules show", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			var p vetting.Parameters
			if err := s.Rules(c.Context(), &p); err != nil {
				return err
			}
			return a.printJSON(p)
		},
	}, &cobra.Command{
		Use: "set FILE", Short: "Set parameters, from their effective time on",
		Long: `Set parameters, from their effective time on; 1970-01-01T00:00:00Z is as soon as they are
logged. The file is that of ` + "`assay rules show`" + `, YAML or JSON, whole.`,
		Example: "  assay rules set rules.json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			data, err := files.Bounded(args[0], client.MaxProblem)
			if err != nil {
				return err
			}
			var p vetting.Parameters
			if _, err := doc.Decode(args[0], data, &p); err != nil {
				return err
			}
			if err := p.Validate(); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			l, err := s.SetRules(c.Context(), p)
			if err != nil {
				return err
			}
			a.say("parameters %s are in the log", l.Body.Short())
			return nil
		},
	})
	return cmd
}
