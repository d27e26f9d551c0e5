package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
)

func (a *app) accessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Say whose people may log in with OpenID Connect, and as what (admin)",
		Long: `Say whose people may log in with OpenID Connect, and as what. This is for admins.

The document is YAML or JSON, and counts from the moment on in which it is set: where
anything of an identity provider is other than before, the tokens that logins there gave
are ended, but for your own, and people log in again. Register assay at the identity
provider as a public (native) client with the redirection http://127.0.0.1/callback on
any port. For example:

  type: assay/access/v1
  issuers:
    - name: acme
      issuer: https://login.acme.example
      client: assay-cli
      scopes: [openid, email, groups]
      user: email           # the claim that names people; absent: sub
      life: 8h              # of the tokens that a login gives; at most 24h
      device: true          # its device flow gives ID tokens without a nonce: take them
      grants:               # the first that fits
        - has: assay-admins # in the claim groups
          grant: {role: admin}
        - has: machine-room
          grant: {role: operator, tenant: dc-one}
        - claim: department
          has: audit
          grant: {role: auditor, tenant: dc-one, scope: {from: "2026-01-01T00:00:00Z"}}

An ID token without a nonce is not bound to one server: with device: true, a server that
people also log in to by the device flow could trade their ID tokens at this one, within
ten minutes. Give each server a client of its own at the identity provider.`,
		Example: "  assay access show > access.json\n  assay access set access.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "Show the document, as `assay access set` reads it", Example: "  assay access show", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.showAccess(c.Context()) },
	}, &cobra.Command{
		Use: "set FILE", Short: "Replace the document", Example: "  assay access set access.yaml", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.setAccess(c.Context(), args[0]) },
	})
	return cmd
}

func (a *app) showAccess(ctx context.Context) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	access, err := s.Access(ctx)
	if err != nil {
		return err
	}
	return a.printJSON(access)
}

func (a *app) setAccess(ctx context.Context, name string) error {
	data, err := files.Bounded(name, doc.MaxSize)
	if err != nil {
		return err
	}
	var access client.Access
	if _, err := doc.Decode(name, data, &access); err != nil {
		return err
	}
	if err := access.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	if err := s.SetAccess(ctx, access); err != nil {
		return err
	}
	a.say("%d identity providers: whoever they let in logs in with: assay login %s --oidc", len(access.Issuers), s.Origin())
	return nil
}
