package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodes",
		Short:   "Let nodes in, list them, revoke them",
		Long:    "Let nodes in, list them, revoke them, at the server that `assay login` remembers.",
		Example: "  assay nodes token\n  assay nodes list\n  assay nodes why node-0123456789abcdef\n  assay nodes revoke node-0123456789abcdef",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var output, tenant string
	list := &cobra.Command{
		Use: "list", Short: "List nodes with their last verdicts", Example: "  assay nodes list -o json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listNodes(c.Context(), output) },
	}
	list.Flags().StringVarP(&output, "output", "o", "text", "text, json or jsonl")
	token := &cobra.Command{
		Use: "token", Short: "Make a token that lets one node in, once", Example: "  assay nodes token > token", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.nodeToken(c.Context(), tenant) },
	}
	token.Flags().StringVar(&tenant, "tenant", "", "`NAME` of the provider whose node it will be (default: your own tenant); for admins")
	var whyOutput string
	why := &cobra.Command{
		Use: "why NODE", Short: "Say why a node is refused as things stand, and which nodes are nearest to it",
		Long: `Say why a node is refused as things stand, and which nodes are nearest to it.

The node's last appraisal is decided by the server's policy and its clock of now. Of
your own nodes those that match are named, and in what they differ; where none does,
those that fail the fewest rules. Exit codes: 0 it matches, 1 it is rejected, 2 usage
or could not run, 3 it is undecided.`,
		Example: "  assay nodes why node-0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.whyNode(c.Context(), args[0], whyOutput) },
	}
	why.Flags().StringVarP(&whyOutput, "output", "o", "text", "text or json")
	cmd.AddCommand(list, token, why, &cobra.Command{
		Use: "revoke NODE", Short: "Revoke a node's credential, end its certificate and free its devices", Example: "  assay nodes revoke node-0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.revokeNode(c.Context(), args[0]) },
	})
	return cmd
}

func (a *app) nodeToken(ctx context.Context, tenant string) error {
	c, err := a.session()
	if err != nil {
		return err
	}
	t, err := c.NewJoinToken(ctx, tenant)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, t.Token)
	a.say("good once, until %s", t.Expires)
	return nil
}

// nodeRefusal is what the server says of a node.
type nodeRefusal struct {
	Node    string           `json:"node"`
	Verdict policy.Outcome   `json:"verdict"`
	Policy  policy.Named     `json:"policy"`
	Scope   string           `json:"scope"`
	AsOf    canon.Time       `json:"as_of"`
	Reasons []policy.Refusal `json:"reasons"`
	policy.Nearest
	LeftOut bool `json:"left_out,omitzero"`
}

func (a *app) whyNode(ctx context.Context, node, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	var r nodeRefusal
	if err := c.Refusal(ctx, node, &r); err != nil {
		return err
	}
	if output == "json" {
		err = a.printJSON(r)
	} else {
		fmt.Fprintf(a.stdout, "policy %s (sha256 %s), as of %s\n", audit.Printable(r.Policy.Name), r.Policy.Digest.Short(), r.AsOf)
		printRefusal(a.stdout, nearHosts{r.Node, r.Verdict, r.Reasons, r.Nearest})
	}
	if r.LeftOut {
		a.say("you have more nodes than were looked at")
	}
	if err != nil {
		return err
	}
	return ended(r.Verdict)
}

func (a *app) revokeNode(ctx context.Context, node string) error {
	c, err := a.session()
	if err != nil {
		return err
	}
	if err := c.Revoke(ctx, node); err != nil {
		return err
	}
	a.say("%s is revoked; what it submitted stays in the log", node)
	return nil
}

func (a *app) listNodes(ctx context.Context, output string) error {
	if !slices.Contains([]string{"text", "json", "jsonl"}, output) {
		return fmt.Errorf("output %q: want text, json or jsonl", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	var all client.Nodes
	if all.Nodes, err = pages(func(after string) ([]client.NodeRecord, string, error) {
		page, err := c.Nodes(ctx, after)
		return page.Nodes, page.After, err
	}); err != nil {
		return err
	}
	switch output {
	case "json":
		return a.printJSON(all)
	case "jsonl":
		return printLines(a, all.Nodes)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tTENANT\tJOINED\tVERDICT\tDECIDED\tDEVICES")
	for _, n := range all.Nodes {
		verdict := n.Verdict
		if n.Revoked != 0 {
			verdict = "revoked"
		}
		decided := ""
		if n.Decided != 0 {
			decided = n.Decided.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\n", n.Node, n.Tenant, n.Joined, verdict, decided, len(n.Devices))
	}
	return w.Flush()
}
