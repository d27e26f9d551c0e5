package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

func (a *app) issuersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "issuers",
		Short: "Say whose word about providers counts, sign claims and hand them in",
		Long: `Say whose word about providers counts, sign claims and hand them in.

An issuer's key, the attributes of which it may speak and its term are claims of the
operator, in the log as all others. What an issuer says counts as long as it was
registered when it spoke.`,
		Example: `  assay issuers register lei.example --key lei.pub --attributes party.identity,party.legal-entity
  assay issuers sign claim.yaml --key lei.pem > claim.json
  assay issuers send claim.json
  assay issuers revoke issuer lei.example --reason key-compromise --evidence report.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.issuersListCommand(), a.issuersRegisterCommand(), a.issuersRevokeCommand(), a.issuersSignCommand(), a.issuersSendCommand())
	return cmd
}

func (a *app) issuersListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List who may speak, of what, and until when", Example: "  assay issuers list", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			var list struct {
				Issuers []vetting.Issuer `json:"issuers"`
			}
			if err := s.Issuers(c.Context(), &list); err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ISSUER\tUNTIL\tATTRIBUTES\tWHERE")
			for _, i := range list.Issuers {
				where := strings.Join(append(append([]string{}, i.Scope.Countries...), i.Scope.Sites...), " ")
				if where == "" {
					where = "everywhere"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", i.ID, i.Until, strings.Join(i.Attributes, " "), where)
			}
			return w.Flush()
		},
	}
}

func (a *app) issuersRegisterCommand() *cobra.Command {
	var r client.IssuerRegistration
	var key, until string
	cmd := &cobra.Command{
		Use: "register ISSUER --key FILE --attributes LIST", Short: "Let an issuer speak of some attributes",
		Example: "  assay issuers register tuv.example --key tuv.pub --attributes party.facility,party.facility-audit --countries DE --until 2028-01-01", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if key == "" || len(r.Attributes) == 0 {
				return errors.New("want --key and --attributes")
			}
			_, spki, err := inputs.PublicKey(key)
			if err != nil {
				return err
			}
			r.ID, r.Key, r.Until = args[0], spki, canon.At(a.now().AddDate(1, 0, 0))
			if until != "" {
				if r.Until, err = parseDay(until); err != nil {
					return fmt.Errorf("--until: %w", err)
				}
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			if err := s.RegisterIssuer(c.Context(), r); err != nil {
				return err
			}
			a.say("%s may speak of %s until %s", r.ID, strings.Join(r.Attributes, ", "), r.Until)
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&key, "key", "", "`FILE` of its public key (PEM)")
	fl.StringSliceVar(&r.Attributes, "attributes", nil, "`LIST` of attributes, parted by commas")
	fl.StringSliceVar(&r.Countries, "countries", nil, "`LIST` of countries in which alone it may speak")
	fl.StringSliceVar(&r.Sites, "sites", nil, "`LIST` of sites of which alone it may speak")
	fl.StringVar(&until, "until", "", "`TIME` at which its term ends (default: in a year)")
	return cmd
}

func (a *app) issuersRevokeCommand() *cobra.Command {
	var r client.UnitRevocation
	var file, since string
	cmd := &cobra.Command{
		Use:   "revoke KIND ID --reason CODE --evidence FILE",
		Short: "Take back a claim, device, host, site, provider, issuer or model, from now on",
		Long: `Take back a claim, device, host, site, provider, issuer or model, from now on. Revoke the
smallest unit of which the reason is true. What was decided before stays decided; what
was decided since the instant of --since is tainted.`,
		Example: "  assay issuers revoke issuer lei.example --reason key-compromise --evidence report.txt --since 2026-02-01T00:00:00Z", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			r.Kind, r.ID = args[0], args[1]
			if r.Evidence, err = digestOfFile(file); err != nil {
				return err
			}
			if since != "" {
				if r.Since, err = canon.ParseTime(since); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			if _, err := s.RevokeUnit(c.Context(), r); err != nil {
				return err
			}
			a.say("%s %s is revoked; certificates that it concerns are weighed anew", r.Kind, r.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&r.Reason, "reason", "", "`CODE` of why: "+strings.Join(vetting.RevokedFor, ", "))
	cmd.Flags().StringVar(&file, "evidence", "", "`FILE` that shows it")
	cmd.Flags().StringVar(&since, "since", "", "first `TIME` that is tainted (default: now)")
	return cmd
}

// claimFile is a claim as a person writes it: the type and an absent instant of issue are filled in.
type claimFile struct {
	Type       string          `json:"type,omitzero"`
	Issuer     string          `json:"issuer"`
	Subject    vetting.Subject `json:"subject"`
	Attribute  string          `json:"attribute"`
	Value      string          `json:"value"`
	Scope      vetting.Scope   `json:"scope,omitzero"`
	Issued     canon.Time      `json:"issued,omitzero"`
	Expires    canon.Time      `json:"expires"`
	Evidence   canon.Digest    `json:"evidence,omitzero"`
	Supersedes canon.Digest    `json:"supersedes,omitzero"`
}

func (a *app) issuersSignCommand() *cobra.Command {
	var key, out string
	cmd := &cobra.Command{
		Use:   "sign CLAIM --key FILE",
		Short: "Sign a claim with an issuer's key",
		Long: `Sign a claim with an issuer's key. A claim is a file:

  issuer: lei.example
  subject: {kind: provider, id: p1}
  attribute: party.legal-entity
  value: LEI:529900T8BM49AURSDO55
  expires: 2027-01-01T00:00:00Z

It is issued now, unless it says when.`,
		Example: "  assay issuers sign claim.yaml --key lei.pem --out claim.json", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return errors.New("want --key: the file of the issuer's private key")
			}
			data, err := files.Bounded(args[0], client.MaxProblem)
			if err != nil {
				return err
			}
			var f claimFile
			if _, err := doc.Decode(args[0], data, &f); err != nil {
				return err
			}
			f.Type = vetting.ClaimType
			if f.Issued == 0 {
				f.Issued = canon.At(a.now())
			}
			signer, err := a.readPrivateKey(key)
			if err != nil {
				return err
			}
			env, err := vetting.Claim(f).Seal(signer)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			text, err := canon.Marshal(env)
			if err != nil {
				return err
			}
			if err := a.writeNew(out, append(text, '\n')); err != nil {
				return err
			}
			a.say("claim %s of %s, until %s", env.Identity(), f.Issuer, f.Expires)
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`FILE` of the issuer's private key")
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, new (default: standard output)")
	return cmd
}

func (a *app) issuersSendCommand() *cobra.Command {
	return &cobra.Command{
		Use: "send FILE...", Short: "Hand signed claims in", Example: "  assay issuers send claim.json", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			for _, name := range args {
				data, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				env, err := ledger.ParseEnvelope([]byte(strings.TrimSuffix(string(data), "\n")))
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if _, err := s.SendClaim(c.Context(), env); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(a.stdout, env.Identity())
			}
			return nil
		},
	}
}
