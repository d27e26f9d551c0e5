package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Show policies and the form that they are written in",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.policyShowCommand(), a.policySchemaCommand())
	return cmd
}

func (a *app) policyShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [NAME|FILE]",
		Short: "Say in plain sentences what a policy asks; without a name, list the built-in policies",
		Example: `  assay policy show
  assay policy show confidential-cpu
  assay policy show my-policy.yaml -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range policy.Builtins() {
					p, _ := policy.Builtin(name)
					fmt.Fprintf(a.stdout, "%-18s %s  %s\n", name, p.Digest().Short(), p.About())
				}
				return nil
			}
			p, err := inputs.Policy(args[0])
			if err != nil {
				return err
			}
			switch output {
			case "text":
				fmt.Fprint(a.stdout, p.Explain())
			case "json":
				fmt.Fprintf(a.stdout, "%s\n", indent(p.Canonical()))
			default:
				return fmt.Errorf("output %q: want text or json", output)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: the policy itself")
	return cmd
}

func (a *app) policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a policy document",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(a.stdout, "%s\n", policy.Schema())
			return nil
		},
	}
}
