package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
)

// maxTokenLine is the number of bytes of stdin that can be a token.
const maxTokenLine = 1 << 10

// loginArgs are what `assay login` is told.
type loginArgs struct {
	url, name, issuer string
	oidc, device      bool
}

func (a *app) loginCommand() *cobra.Command {
	var args loginArgs
	cmd := &cobra.Command{
		Use:   "login URL",
		Short: "Log in to a server, and remember it",
		Long: `Log in to a server, and remember it.

With a token that somebody gave you: it is read from stdin, so that it stands in no
shell history. Or with --oidc at your firm's identity provider (OpenID Connect), if an
admin of the server named it: in a browser on this machine, or with --device on any
other machine, by a code. The server then gives a token of its own, for some hours.

Server and token are kept in a file that its owner alone can read: $ASSAY_CONFIG, else
assay/context.json in the user's configuration folder. You can be logged in to several
servers: each has a name, and commands talk to the last one that you logged in to, to
the one that ` + "`assay context use`" + ` chose, or to the one that --context names.`,
		Example: `  assay login https://assay.example < token
  assay login https://assay.example --oidc
  assay login https://assay.example --oidc --device --name prod`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, rest []string) error {
			args.url = rest[0]
			if !args.oidc && (args.device || args.issuer != "") {
				return errors.New("--device and --issuer go with --oidc")
			}
			return a.login(c.Context(), args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&args.name, "name", "", "`NAME` of the server here (default: its host and port)")
	fl.BoolVar(&args.oidc, "oidc", false, "log in at an identity provider (OpenID Connect)")
	fl.BoolVar(&args.device, "device", false, "with --oidc: on another machine, by a code")
	fl.StringVar(&args.issuer, "issuer", "", "with --oidc: `NAME` of the identity provider, where the server has several")
	return cmd
}

func (a *app) login(ctx context.Context, args loginArgs) error {
	origin, err := client.Origin(args.url)
	if err != nil {
		return err
	}
	if args.name == "" {
		args.name = contextNameOf(origin)
	}
	if err := checkContextName(args.name); err != nil {
		return err
	}
	all, err := a.loadContexts()
	if err != nil {
		return err
	}
	i := all.find(args.name)
	if i >= 0 && all.Contexts[i].URL != origin {
		return withHint(fmt.Errorf("the name %q is that of %s", args.name, all.Contexts[i].URL), "choose another with --name, or run: assay context remove %s", args.name)
	}
	if i < 0 && len(all.Contexts) >= maxContexts {
		return withHint(fmt.Errorf("%d servers are remembered, at most %d", len(all.Contexts), maxContexts), "run: assay context remove NAME")
	}
	get := a.tokenOfStdin
	if args.oidc {
		get = a.tokenOfIssuer
	}
	token, err := get(ctx, origin, args)
	if err != nil {
		return err
	}
	s, err := client.New(client.Config{URL: origin, Credential: token})
	if err != nil {
		return err
	}
	me, err := s.Whoami(ctx)
	if err != nil {
		return withTokenHint(err)
	}
	c := loginContext{Name: args.name, URL: origin, Token: token, Principal: me.Principal, Expires: me.Expires}
	if i < 0 {
		all.Contexts = append(all.Contexts, c)
	} else {
		all.Contexts[i] = c
	}
	all.Current = args.name
	if err := a.saveContexts(all); err != nil {
		return err
	}
	a.say("logged in to %s (%s) as %s, %s", args.name, origin, me.Principal, grantWords(me.Grant))
	if me.Expires != 0 {
		a.say("good until %s", me.Expires)
	}
	return nil
}

// tokenOfStdin reads a token.
func (a *app) tokenOfStdin(_ context.Context, origin string, _ loginArgs) (string, error) {
	a.say("token for %s:", origin)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, maxTokenLine)).ReadString('\n')
	token := strings.TrimSpace(line)
	switch {
	case token == "":
		return "", errors.Join(errors.New("no token on stdin"), err)
	case strings.HasPrefix(token, "join_"):
		return "", withHint(errors.New("this is a join token: it lets a node in, and nobody else"), "on the node, run: assay-agent join %s --token-file FILE", origin)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("a token has no spaces and no letters beyond ASCII in it: copy it whole")
	}
	return token, nil
}

// withTokenHint says what to do about a token that a server does not take.
func withTokenHint(err error) error {
	p := client.AsProblem(err)
	if p == nil || p.Status != 401 {
		return err
	}
	switch p.Code {
	case client.CodeForeign:
		return withHint(err, "tokens are good at the server that made them: see assay context list, and which URL the token came with")
	case client.CodeExpired, client.CodeRevoked:
		return withHint(err, "log in again, with --oidc or a new token: an admin makes one with `assay token create`; the admin's own comes from `assay serve --renew admin-token`")
	}
	return withHint(err, "`assay serve` prints its admin token at the first start, and another with --renew admin-token; an admin makes others with `assay token create`")
}

// grantWords says what a token allows.
func grantWords(g client.Grant) string {
	words := g.Role
	if g.Tenant != "" {
		words += " of " + g.Tenant
	}
	if len(g.Scope.Nodes) > 0 {
		words += ", nodes " + strings.Join(g.Scope.Nodes, " ")
	}
	if g.Scope.From != 0 {
		words += ", acts from " + g.Scope.From.String()
	}
	if g.Scope.Until != 0 {
		words += ", acts until " + g.Scope.Until.String()
	}
	return words
}

func (a *app) whoamiCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "whoami", Short: "Say who you are to the server, and what you may do there",
		Example: "  assay whoami\n  assay whoami --context lab -o json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.whoami(c.Context(), output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) whoami(ctx context.Context, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	all, i, err := a.chosen()
	if err != nil {
		return err
	}
	s, err := all.Contexts[i].client()
	if err != nil {
		return err
	}
	me, err := s.Whoami(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		return a.printJSON(me)
	}
	expires := "never"
	if me.Expires != 0 {
		expires = me.Expires.String()
	}
	fmt.Fprintf(a.stdout, "context    %s\nserver     %s\nprincipal  %s\nrole       %s\ntoken      %s\nexpires    %s\n", all.Contexts[i].Name, s.Origin(), me.Principal, grantWords(me.Grant), me.ID, expires)
	return nil
}

func (a *app) logoutCommand() *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "Forget a server and the token for it",
		Long: `Forget a server and the token for it.

A token that a login with --oidc gave is ended at the server as well. One that somebody
gave you may be in use elsewhere: it stays good, unless --revoke ends it.`,
		Example: "  assay logout\n  assay logout --context lab --revoke", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.logout(c.Context(), end) },
	}
	cmd.Flags().BoolVar(&end, "revoke", false, "end the token at the server, whoever else has it")
	return cmd
}

func (a *app) logout(ctx context.Context, end bool) error {
	all, i, err := a.chosen()
	if err != nil {
		return err
	}
	c := all.Contexts[i]
	if end || strings.HasPrefix(c.Principal, "user:") {
		s, err := c.client()
		if err == nil {
			err = s.Logout(ctx)
		}
		if p := client.AsProblem(err); err != nil && (p == nil || p.Status != 401) { // one that is no good needs no ending
			return withHint(fmt.Errorf("the token is not ended: %w", err), "try again later, or forget it alone: assay context remove %s", c.Name)
		}
		a.say("the token is ended")
	} else {
		a.say("the token stays good where else it is known; --revoke ends it")
	}
	a.say("logged out of %s (%s)", c.Name, c.URL)
	return a.forget(all, i)
}
