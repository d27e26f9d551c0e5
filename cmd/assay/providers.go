package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

func (a *app) providersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "providers",
		Short: "List providers, show what they are certified for and why, fetch badges",
		Long:  "List providers, show what they are certified for and why, fetch badges, at the server that `assay login` remembers.",
		Example: `  assay providers list
  assay providers show p1
  assay providers why p1
  assay providers refused p1 --policy mine.yaml
  assay providers badge p1 > p1.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.providersListCommand(), a.providersShowCommand(), a.providersWhyCommand(), a.providersRefusedCommand(), a.providersBadgeCommand(), a.providersSetCommand(), a.providersSettleCommand())
	return cmd
}

func (a *app) providersListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List providers with the highest tier that stands", Example: "  assay providers list", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			type row struct {
				Provider     string `json:"provider"`
				Certificates int    `json:"certificates"`
				Tier         string `json:"tier"`
			}
			all, err := pages(func(after string) ([]row, string, error) {
				var page struct {
					Providers []row  `json:"providers"`
					After     string `json:"after"`
				}
				err := s.Providers(c.Context(), after, &page)
				return page.Providers, page.After, err
			})
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tCERTIFICATES\tTIER")
			for _, p := range all {
				fmt.Fprintf(w, "%s\t%d\t%s\n", p.Provider, p.Certificates, cmp.Or(p.Tier, "none"))
			}
			return w.Flush()
		},
	}
}

// providerPage is what the server says of a provider.
type providerPage struct {
	Provider     string                `json:"provider"`
	Stake        bool                  `json:"stake"`
	ContactHours int64                 `json:"contact_hours"`
	Certificates []vetting.Certificate `json:"certificates"`
	Devices      []vetting.DeviceState `json:"devices"`
	Notices      []vetting.Notice      `json:"notices"`
}

func (a *app) providerPage(ctx context.Context, id string) (p providerPage, err error) {
	s, err := a.session()
	if err == nil {
		err = s.Provider(ctx, id, &p)
	}
	return p, err
}

func (a *app) providersShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "show PROVIDER", Short: "Show certificates with every claim; what does not count is struck out", Example: "  assay providers show p1", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.providerPage(c.Context(), args[0])
			if err != nil {
				return err
			}
			switch output {
			case "json":
				return a.printJSON(p)
			case "text":
			default:
				return fmt.Errorf("output %q: want text or json", output)
			}
			stake, contact := "no stake", "no incident contact"
			if p.Stake {
				stake = "stake"
			}
			if p.ContactHours > 0 {
				contact = fmt.Sprintf("incident contact within %d h", p.ContactHours)
			}
			fmt.Fprintf(a.stdout, "%-12s%s: %s, %s\n", "provider", p.Provider, stake, contact)
			if len(p.Certificates) == 0 {
				fmt.Fprintln(a.stdout, "no certificate in log")
			}
			for _, one := range p.Certificates {
				fmt.Fprintln(a.stdout)
				writeCertificate(a.stdout, one)
			}
			for _, d := range p.Devices {
				if d.Status == vetting.Contested {
					fmt.Fprintf(a.stdout, "\n%-12s%s of host %s is contested by %s until %s\n", "device", d.Device, d.Holder.Host, challengers(d), d.Deadline)
				}
			}
			for i, n := range p.Notices {
				if i == 0 {
					fmt.Fprintln(a.stdout)
				}
				about := n.About
				if n.Due != 0 {
					about += ", until " + n.Due.String()
				}
				fmt.Fprintf(a.stdout, "%-12s%s %s %s%s: %s\n", "notice", n.At, n.Notice, n.Certificate, n.Device, about)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func challengers(d vetting.DeviceState) string {
	var hosts []string
	for _, c := range d.Challengers {
		hosts = append(hosts, cmp.Or(c.Host, "another provider's host"))
	}
	return strings.Join(hosts, ", ")
}

// lacking says in words what a tier lacks and who can give it.
var lacking = map[string]string{
	vetting.LacksStake:    "the provider's key has no stake; the provider deposits one",
	vetting.LacksIdentity: "no registered issuer says who the legal entity is; the provider asks one for party.identity and party.legal-entity",
	vetting.LacksContact:  "the incident contact does not answer in time; the provider names one",
	vetting.LacksHardware: "no fresh evidence of the host is accepted by a confidential policy; assay-agent doctor says what the host lacks",
	vetting.LacksRecord:   "the record is too short or too poor; it grows with days of evidence and finished leases",
	vetting.LacksFacility: "no registered issuer says that the site is bound or audited",
	vetting.LacksAudit:    "no audit report of the site is in date, or too few different auditors speak of the site; the provider asks one issuer for party.facility-audit and another one for party.facility",
	vetting.LacksWitness:  "too few witnesses cosign the log; the operator of the log asks more of them",
}

// nextTier names the tier above what counts, whatever the certificate carries of it.
func nextTier(tier string) string {
	i := slices.Index(claim.Tiers, tier) + 1
	if i == len(claim.Tiers) {
		return "it" // by the word of a server, which has reasons to say what does not go together
	}
	return "the next tier, " + claim.Tiers[i] + ","
}

// lasting says how long a fault may last, or what it comes to after that.
func lasting(k vetting.Clock, tier string) string {
	if k.Over {
		return fmt.Sprintf("longer than it may, until %s: the tier is %s until that is mended", k.Due, cmp.Or(tier, "none"))
	}
	return "may last until " + k.Due.String()
}

func (a *app) providersWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why PROVIDER", Short: "Say why a provider stands in its tier, and what the next one lacks", Example: "  assay providers why p1", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := a.providerPage(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(p.Certificates) == 0 {
				fmt.Fprintln(a.stdout, "no certificate in log")
			}
			for _, one := range p.Certificates {
				fmt.Fprintf(a.stdout, "%s: %s (%s), tier %s\n", one.ID, one.Status, one.Reason, cmp.Or(one.Tier, "none"))
				for _, k := range one.Clocks {
					fmt.Fprintf(a.stdout, "  %s since %s, %s\n", k.Code, k.Since, lasting(k, one.Tier))
				}
				for _, at := range one.Standing.Attributes {
					if at.Status != vetting.StatusValid {
						fmt.Fprintf(a.stdout, "  %s of %s does not count: %s\n", at.ID, at.Subject, at.Status)
					}
				}
				if one.Standing.Tier != "" && vetting.Higher(one.Granted, one.Standing.Tier) != one.Granted {
					fmt.Fprintf(a.stdout, "  what counts carries %s: renew it for that tier\n", one.Standing.Tier)
				}
				for _, m := range one.Standing.Missing {
					fmt.Fprintf(a.stdout, "  %s lacks %s: %s\n", nextTier(one.Standing.Tier), m, lacking[m])
				}
			}
			return nil
		},
	}
}

func (a *app) providersRefusedCommand() *cobra.Command {
	var name, output string
	cmd := &cobra.Command{
		Use:   "refused PROVIDER --policy POLICY",
		Short: "Say why a provider's certificates are not what your policy asks of the party",
		Long: `Say why a provider's certificates are not what your policy asks of the party: what is
observed and required, by which line, and who can mend it, how. It looks at what anybody may
know of the certificates; what the policy asks of a host's evidence is left open.`,
		Example: "  assay providers refused p1 --policy regulated\n  assay providers refused p1 --policy mine.yaml -o json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			question := client.PartyQuestion{Policy: name}
			if _, ok := policy.Builtin(name); !ok {
				data, err := files.Bounded(name, maxPolicyAsked)
				if err != nil {
					return err
				}
				question.Policy = string(data)
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			var r struct {
				Provider     string       `json:"provider"`
				Policy       policy.Named `json:"policy"`
				AsOf         canon.Time   `json:"as_of"`
				Certificates []struct {
					Certificate string           `json:"certificate"`
					Status      string           `json:"status"`
					Tier        string           `json:"tier,omitzero"`
					Acceptable  bool             `json:"acceptable"`
					Reasons     []policy.Refusal `json:"reasons"`
				} `json:"certificates"`
				Open []string `json:"open"`
			}
			if err := s.PartyRefusal(c.Context(), args[0], question, &r); err != nil {
				return err
			}
			switch output {
			case "json":
				return a.printJSON(r)
			case "text":
			default:
				return fmt.Errorf("output %q: want text or json", output)
			}
			for _, one := range r.Certificates {
				word := "refused by " + r.Policy.Name
				if one.Acceptable {
					word = "nothing that " + r.Policy.Name + " asks of the party speaks against it"
				}
				fmt.Fprintf(a.stdout, "%s (%s, tier %s): %s\n", one.Certificate, one.Status, cmp.Or(one.Tier, "none"), word)
				for _, x := range one.Reasons {
					fmt.Fprintf(a.stdout, "  %s: %s\n    observed %s; required %s (%s)\n    who can mend it: %s; how: %s\n", x.Code, x.Sentence, cmp.Or(x.Observed, "nothing"), cmp.Or(x.Required, "nothing"), cmp.Or(x.Place, x.Rule), x.Who, x.Fix)
				}
			}
			if len(r.Open) > 0 {
				a.say("%d rules ask for a host's evidence, and are open until a verdict", len(r.Open))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "policy", "", "`POLICY`, built in or a file")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// maxPolicyAsked bounds a policy that a server is asked about.
const maxPolicyAsked = 192 << 10

func (a *app) providersBadgeCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "badge PROVIDER",
		Short: "Fetch a provider's badge, as the log has it",
		Long: `Fetch a provider's badge, as the log has it: a certificate that stands, in an entry that
a published checkpoint covers. Without one there is no badge, whatever was said elsewhere.`,
		Example: "  assay providers badge p1 > p1.svg\n  assay providers badge p1 -o json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains([]string{"svg", "json"}, output) {
				return fmt.Errorf("output %q: want svg or json", output)
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			data, err := s.Badge(c.Context(), args[0], output)
			if p := client.AsProblem(err); p != nil && p.Status == 404 {
				return fmt.Errorf("no badge for %s: %s", args[0], p.Detail)
			}
			if err != nil {
				return err
			}
			if output == "json" {
				data = append(indent(data), '\n')
			}
			_, err = a.stdout.Write(data)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "svg", "svg or json")
	return cmd
}

func (a *app) providersSetCommand() *cobra.Command {
	var f client.ProviderFacts
	cmd := &cobra.Command{
		Use: "set PROVIDER", Short: "Record what you found out about a provider yourself", Example: "  assay providers set p1 --stake --contact-hours 4", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.session()
			if err != nil {
				return err
			}
			if err := s.SetProvider(c.Context(), args[0], f); err != nil {
				return err
			}
			a.say("%s: recorded; its certificates are weighed anew", args[0])
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.Stake, "stake", false, "its key has a stake")
	cmd.Flags().Int64Var(&f.ContactHours, "contact-hours", 0, "`HOURS` within which its incident contact answered")
	return cmd
}

func (a *app) providersSettleCommand() *cobra.Command {
	act := client.DeviceAct{Act: vetting.DeviceSettle}
	var file string
	cmd := &cobra.Command{
		Use: "settle DEVICE --host HOST --evidence FILE", Short: "Say whose a contested device is",
		Example: "  assay providers settle tpm-ek:5f70… --host node-0123456789abcdef --evidence photo.jpg", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if act.Host == "" {
				return errors.New("want --host: whose it is")
			}
			if act.Evidence, err = digestOfFile(file); err != nil {
				return err
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			var d vetting.DeviceState
			if err := s.ActOnDevice(c.Context(), args[0], act, &d); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s is %s by %s\n", d.Device, d.Status, d.Holder.Host)
			return nil
		},
	}
	cmd.Flags().StringVar(&act.Host, "host", "", "`HOST` whose it is")
	cmd.Flags().StringVar(&file, "evidence", "", "`FILE` that shows it")
	return cmd
}
