package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens of people and programs (admin)",
		Long: `Make, list and revoke tokens of people and programs, at the server that you are logged
in to. This is for admins. A token has a role:

  renter    a firm that relies on verdicts: sees what providers are certified for
  operator  a provider: lets its own nodes in, sees them, revokes them, asks for
            certificates of its hosts and keeps them
  auditor   reads, within a scope, entries of the log and blobs, nodes, certificates, what
            is kept, and of a provider its inventory, what differs from it, what was
            retired and the records of its racks' tokens, never those tokens; changes nothing
  admin     runs the verifier

and is of a tenant, a provider or a renter's firm, of whose things alone it knows. An
admin, and an auditor without a tenant, is of the verifier's own house and knows of all.
The server keeps no token, only its hash: it is shown once, where it is made.`,
		Example: `  assay token create --role operator --tenant dc-one --expires 90d > token
  assay token create --role auditor --tenant dc-one --scope node=node-0123456789abcdef --scope from=2026-01-01T00:00:00Z
  assay token list
  assay token revoke 0123456789abcdef`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var g client.Grant
	var scope []string
	var life, output, listOutput string
	create := &cobra.Command{
		Use: "create", Short: "Make a token, and show it once",
		Example: "  assay token create --role renter --tenant acme-bank --expires 30d > token", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if g.Scope, err = parseScope(scope); err != nil {
				return err
			}
			return a.createToken(c.Context(), g, life, output)
		},
	}
	fl := create.Flags()
	fl.StringVar(&g.Role, "role", "", "`ROLE`: "+strings.Join(client.Roles(), ", "))
	fl.StringVar(&g.Tenant, "tenant", "", "`NAME` of the provider or firm that the bearer is of")
	fl.StringArrayVar(&scope, "scope", nil, "what an auditor reads: node=ID, from=TIME or until=TIME; may be repeated (default: all of the tenant)")
	fl.StringVar(&life, "expires", "30d", "`LIFE`: days or hours from now, such as 30d or 12h, at most 366d")
	fl.StringVarP(&output, "output", "o", "text", "text (the token alone) or json")
	list := &cobra.Command{
		Use: "list", Short: "List tokens, with their last use", Example: "  assay token list -o jsonl", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listTokens(c.Context(), listOutput) },
	}
	list.Flags().StringVarP(&listOutput, "output", "o", "text", "text, json or jsonl")
	cmd.AddCommand(create, list, &cobra.Command{
		Use: "revoke ID", Short: "End a token", Example: "  assay token revoke 0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.revokeToken(c.Context(), args[0]) },
	})
	return cmd
}

// parseScope reads the values of --scope.
func parseScope(values []string) (s client.Scope, err error) {
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		var at *canon.Time
		switch {
		case !ok || value == "":
			return s, fmt.Errorf("--scope %q: want node=ID, from=TIME or until=TIME", v)
		case name == "node":
			s.Nodes = append(s.Nodes, value)
			continue
		case name == "from":
			at = &s.From
		case name == "until":
			at = &s.Until
		default:
			return s, fmt.Errorf("--scope %q: want node=ID, from=TIME or until=TIME", v)
		}
		if *at != 0 {
			return s, fmt.Errorf("--scope %s: it is given twice", name)
		}
		if err := at.UnmarshalText([]byte(value)); err != nil {
			return s, fmt.Errorf("--scope %s: %w", name, err)
		}
	}
	return s, nil
}

// parseLife reads a life: whole days, or what Go calls a duration.
func parseLife(text string) (time.Duration, error) {
	life, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if n, err = strconv.ParseInt(days, 10, 32); err == nil && n <= 1<<16 {
			life = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || life <= 0 {
		return 0, fmt.Errorf("--expires %q: want days or hours from now, such as 30d or 12h", text)
	}
	return life, nil
}

func (a *app) createToken(ctx context.Context, g client.Grant, life, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	period, err := parseLife(life)
	if err != nil {
		return err
	}
	if err := g.Check(); err != nil {
		return err
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	t, err := s.CreateToken(ctx, client.TokenRequest{Grant: g, Expires: canon.At(a.now().Add(period))})
	if err != nil {
		return err
	}
	a.say("token %s: %s; good until %s, and shown this once", t.Record.ID, grantWords(t.Record.Grant), t.Record.Expires)
	if output == "json" {
		return a.printJSON(t)
	}
	fmt.Fprintln(a.stdout, t.Token)
	return nil
}

func (a *app) revokeToken(ctx context.Context, id string) error {
	if strings.Contains(id, "_") { // never sent on: it would stand in logs on the way
		return withHint(fmt.Errorf("this is a token, want its id"), "the id stands between the two first underscores; what is in a shell history is better revoked")
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	if err := s.RevokeToken(ctx, id); err != nil {
		return err
	}
	a.say("token %s is revoked", id)
	return nil
}

func (a *app) listTokens(ctx context.Context, output string) error {
	if !slices.Contains([]string{"text", "json", "jsonl"}, output) {
		return fmt.Errorf("output %q: want text, json or jsonl", output)
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	var all client.Tokens
	if all.Tokens, err = pages(func(after string) ([]client.TokenRecord, string, error) {
		page, err := s.Tokens(ctx, after)
		return page.Tokens, page.After, err
	}); err != nil {
		return err
	}
	switch output {
	case "json":
		return a.printJSON(all)
	case "jsonl":
		return printLines(a, all.Tokens)
	}
	now := canon.At(a.now())
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tGRANT\tPRINCIPAL\tUNTIL\tLAST USE")
	for _, t := range all.Tokens {
		state, until, used := "good", "for ever", "never"
		switch {
		case t.Ended != 0:
			state, until = "revoked", t.Ended.String()
		case t.Expires != 0:
			if until = t.Expires.String(); now >= t.Expires {
				state = "expired"
			}
		}
		if t.Used != 0 {
			used = t.Used.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, state, grantWords(t.Grant), t.Principal, until, used)
	}
	return w.Flush()
}
