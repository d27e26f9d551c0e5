package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
)

func (a *app) certifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certify",
		Short: "Ask for certificates, renew them, announce maintenance, appeal",
		Long: `Ask for certificates, renew them, announce maintenance, appeal, at the server that
` + "`assay login`" + ` remembers.

A certificate is a set of claims, each on its own: who edits one attribute re-opens that
one. It states what attestation and named issuers show; it is no certification in the
sense of ISO/IEC 17065.`,
		Example: `  assay certify request --provider p1 --host node-0123456789abcdef --tier attested
  assay certify review c-0123456789abcdef --assign user:rita
  assay certify status c-0123456789abcdef
  assay certify window c-0123456789abcdef --from 2026-03-01T22:00:00Z --until 2026-03-02T02:00:00Z --reason "BIOS update"
  assay certify simulate --tcb-recovery 2026-06-09T00:00:00Z --model milan`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.certifyRequestCommand(), a.certifyStatusCommand(), a.certifyEditCommand(), a.certifyRenewCommand(), a.certifyWindowCommand(),
		a.certifyReviewCommand(), a.certifyAppealCommand(), a.certifyFreezeCommand(), a.certifyRevokeCommand(), a.certifyEndCommand(), a.certifyPreviewCommand(), a.certifySimulateCommand())
	return cmd
}

// assertionsFile is what a provider says of itself, as a person writes it.
type assertionsFile struct {
	Assertions []vetting.Assertion `json:"assertions"`
}

// readAssertions reads a file of assertions and orders them.
func readAssertions(name string) ([]client.PartyAssertion, error) {
	if name == "" {
		return nil, nil
	}
	data, err := files.Bounded(name, client.MaxAnswer)
	if err != nil {
		return nil, err
	}
	var f assertionsFile
	if _, err := doc.Decode(name, data, &f); err != nil {
		return nil, err
	}
	slices.SortFunc(f.Assertions, func(a, b vetting.Assertion) int {
		return cmp.Or(a.Subject.Compare(b.Subject), strings.Compare(a.Attribute, b.Attribute))
	})
	for i, x := range f.Assertions {
		if err := x.Validate(); err != nil {
			return nil, fmt.Errorf("%s: assertion about %s: %w", name, x.Subject, err)
		}
		if i > 0 && x.Subject == f.Assertions[i-1].Subject && x.Attribute == f.Assertions[i-1].Attribute {
			return nil, fmt.Errorf("%s: %s of %s stands twice", name, x.Attribute, x.Subject)
		}
	}
	var out []client.PartyAssertion
	for _, x := range f.Assertions {
		out = append(out, client.PartyAssertion{Subject: client.PartySubject{Kind: x.Subject.Kind.String(), ID: x.Subject.ID}, Attribute: x.Attribute, Value: x.Value})
	}
	return out, nil
}

func (a *app) certifyRequestCommand() *cobra.Command {
	var r client.CertificateRequest
	var file string
	cmd := &cobra.Command{
		Use:   "request --provider ID --tier TIER",
		Short: "Ask for a certificate of a host, a site or a provider",
		Long: `Ask for a certificate of a host, a site or a provider. The devices of a host are those
that it is enrolled with.

What the provider says of itself stands in a file:

  assertions:
    - {subject: {kind: provider, id: p1}, attribute: party.jurisdiction, value: DE}

It counts for nothing until an issuer says the same.`,
		Example: "  assay certify request --provider p1 --site fra1 --host node-0123456789abcdef --tier attested --assertions p1.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if r.Provider == "" || r.Tier == "" {
				return errors.New("want --provider and --tier")
			}
			if !slices.Contains(claim.Tiers, r.Tier) {
				return fmt.Errorf("tier %q: tiers have names: %s", r.Tier, strings.Join(claim.Tiers, ", "))
			}
			if r.Assertions, err = readAssertions(file); err != nil {
				return err
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			var cert vetting.Certificate
			if err := s.RequestCertificate(c.Context(), r, &cert); err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, cert.ID)
			a.say("%s is submitted; it waits for a reviewer until %s", cert.ID, cert.Deadline)
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&r.Provider, "provider", "", "`ID` of the provider")
	fl.StringVar(&r.Site, "site", "", "`ID` of the site")
	fl.StringVar(&r.Host, "host", "", "`NODE` as `assay nodes list` names it")
	fl.StringVar(&r.Tier, "tier", "", "`TIER`: "+strings.Join(claim.Tiers, ", "))
	fl.StringVar(&file, "assertions", "", "`FILE` of what the provider says of itself")
	return cmd
}

func (a *app) certifyStatusCommand() *cobra.Command {
	var provider, output string
	cmd := &cobra.Command{
		Use:     "status [CERTIFICATE]",
		Short:   "Say how certificates stand, what counts and what is missing",
		Example: "  assay certify status\n  assay certify status c-0123456789abcdef -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("output %q: want text or json", output)
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.listCertificates(c.Context(), s, provider, output)
			}
			var cert vetting.Certificate
			if err := s.Certificate(c.Context(), args[0], &cert); err != nil {
				return err
			}
			return a.showCertificate(cert, output)
		},
	}
	cmd.Flags().StringVar(&provider, "provider", "", "only those of a provider, by its `ID`")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// allCertificates returns every certificate of a provider, or of all.
func allCertificates(ctx context.Context, s *client.Client, provider string) (all []vetting.Certificate, err error) {
	return pages(func(after string) ([]vetting.Certificate, string, error) {
		var page struct {
			Certificates []vetting.Certificate `json:"certificates"`
			After        string                `json:"after"`
		}
		err := s.Certificates(ctx, provider, after, &page)
		return page.Certificates, page.After, err
	})
}

func (a *app) listCertificates(ctx context.Context, s *client.Client, provider, output string) error {
	all, err := allCertificates(ctx, s, provider)
	if err != nil {
		return err
	}
	if output == "json" {
		return a.printJSON(struct {
			Certificates []vetting.Certificate `json:"certificates"`
		}{append([]vetting.Certificate{}, all...)})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CERTIFICATE\tPROVIDER\tHOST\tSTATUS\tREASON\tTIER\tUNTIL")
	for _, c := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.Place.Provider, c.Place.Host, c.Status, c.Reason, c.Tier, instant(cmp.Or(c.Expires, c.Deadline)))
	}
	return w.Flush()
}

func instant(t canon.Time) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

func (a *app) showCertificate(c vetting.Certificate, output string) error {
	if output == "json" {
		return a.printJSON(c)
	}
	writeCertificate(a.stdout, c)
	return nil
}

// writeCertificate says how a certificate stands. What does not count is struck out.
func writeCertificate(out io.Writer, c vetting.Certificate) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	place := c.Place.Provider
	for _, part := range []string{c.Place.Site, c.Place.Host} {
		if part != "" {
			place += " / " + part
		}
	}
	if c.Stood() && !c.Live() {
		line("certificate", "~~%s of %s~~", c.ID, place)
	} else {
		line("certificate", "%s of %s", c.ID, place)
	}
	state := c.Status + " (" + c.Reason + ")"
	if c.Against != "" && c.Against != c.Reason {
		state += " for " + c.Against
	}
	if c.Tier != "" {
		state += ", tier " + c.Tier
	}
	switch {
	case c.Expires != 0:
		state += ", until " + c.Expires.String()
	case c.Deadline != 0:
		state += ", until " + c.Deadline.String()
	}
	line("status", "%s", state)
	for _, d := range c.Place.Devices {
		line("device", "%s %s", d.ID, d.Model)
	}
	if c.Standing.At != 0 {
		x := c.Standing.Axes
		line("axes", "identity %s, hardware %s, facility %s", x.Identity, x.Hardware, x.Facility)
		line("record", "%d days, uptime %d ‰, %d leases, completion %d ‰", x.Record.Days, x.Record.Uptime, x.Record.Leases, x.Record.Completion)
	}
	said := c.Standing.Attributes
	if c.Standing.At == 0 {
		for _, s := range c.Assertions {
			line("claim", "%s of %s: %s, pending", s.Attribute, s.Subject, s.Value)
		}
	}
	for _, at := range said {
		value := cmp.Or(at.Value, at.Asserted)
		if at.Status == vetting.StatusValid {
			line("claim", "%s of %s: %s, valid", at.ID, at.Subject, value)
		} else {
			line("claim", "~~%s of %s: %s~~ %s", at.ID, at.Subject, value, at.Status)
		}
		for _, w := range at.Words {
			if w.Code == "" {
				line("", "  %s says %s, until %s", w.Issuer, w.Value, w.Until)
			} else {
				line("", "  ~~%s says %s, until %s~~ %s", w.Issuer, w.Value, w.Until, w.Code)
			}
		}
	}
	for _, w := range c.Windows {
		line("maintenance", "from %s until %s", w.From, w.Until)
	}
	for _, k := range c.Clocks {
		line("clock", "%s since %s, %s", k.Code, k.Since, lasting(k, c.Tier))
	}
	for _, f := range c.Standing.Findings {
		line("finding", "%s", strings.TrimSpace(f.Code+" "+f.About))
	}
	if len(c.Standing.Missing) > 0 {
		line("next", "%s lacks %s", nextTier(c.Standing.Tier), strings.Join(c.Standing.Missing, ", "))
	}
	if c.Proposed.By != "" {
		line("freeze", "proposed by %s, confirmed by nobody yet, until %s", c.Proposed.By, c.Proposed.Until)
	}
	if c.Appeal.Filed != 0 {
		line("appeal", "filed %s, ruled on by %s", c.Appeal.Filed, cmp.Or(c.Appeal.Reviewer, "nobody yet"))
	}
}

// certifyAct lets something happen to a certificate, and says how it stands then.
func (a *app) certifyAct(ctx context.Context, id string, act client.CertificateAct) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	var c vetting.Certificate
	if err := s.ActOnCertificate(ctx, id, act, &c); err != nil {
		return err
	}
	word := c.Status + " (" + c.Reason + ")"
	if c.Tier != "" {
		word += " in tier " + c.Tier
	}
	fmt.Fprintf(a.stdout, "%s %s\n", c.ID, word)
	return nil
}

func (a *app) certifyEditCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActEdit}
	var file string
	cmd := &cobra.Command{
		Use: "edit CERTIFICATE --assertions FILE", Short: "Say something else of some attributes; the others stay as they are",
		Example: "  assay certify edit c-0123456789abcdef --assertions moved.yaml", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if file == "" {
				return errors.New("want --assertions: the file of what changes")
			}
			if act.Assertions, err = readAssertions(file); err != nil {
				return err
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	cmd.Flags().StringVar(&file, "assertions", "", "`FILE` of what changes")
	return cmd
}

func (a *app) certifyRenewCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActRenew}
	cmd := &cobra.Command{
		Use: "renew CERTIFICATE", Short: "Ask for another term, or another tier", Example: "  assay certify renew c-0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.certifyAct(c.Context(), args[0], act) },
	}
	cmd.Flags().StringVar(&act.Tier, "tier", "", "`TIER` to ask for (default: as before)")
	return cmd
}

func (a *app) certifyEndCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActEnd}
	cmd := &cobra.Command{
		Use: "end CERTIFICATE", Short: "Give a certificate back", Example: "  assay certify end c-0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.certifyAct(c.Context(), args[0], act) },
	}
	return cmd
}

func (a *app) certifyWindowCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActWindow}
	var from, until string
	cmd := &cobra.Command{
		Use:     "window CERTIFICATE --from TIME --until TIME --reason WORDS",
		Short:   "Announce maintenance before it begins; uptime is not counted in it",
		Example: `  assay certify window c-0123456789abcdef --from 2026-03-01T22:00:00Z --until 2026-03-02T02:00:00Z --reason "BIOS update"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if act.From, err = canon.ParseTime(from); err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			if act.Until, err = canon.ParseTime(until); err != nil {
				return fmt.Errorf("--until: %w", err)
			}
			if act.Reason == "" {
				return errors.New("want --reason: what is done")
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first `TIME` of it (RFC 3339, UTC)")
	cmd.Flags().StringVar(&until, "until", "", "first `TIME` after it")
	cmd.Flags().StringVar(&act.Reason, "reason", "", "`WORDS`: what is done")
	return cmd
}

func (a *app) certifyReviewCommand() *cobra.Command {
	var act client.CertificateAct
	var assign, fail, triage, uphold, overturn string
	var pass bool
	cmd := &cobra.Command{
		Use:   "review CERTIFICATE",
		Short: "Name a reviewer, pass or fail a certificate, or rule on an appeal",
		Long: `Name a reviewer, pass or fail a certificate, or rule on an appeal.

Nobody reviews what they asked for, nobody rules on an appeal against what they decided,
and nobody acts for anybody else: whoever is named does it by a token of their own, which
was not made by the other's. ` + "`assay whoami`" + ` shows as whom you are known. Whoever passes looks; what the certificate carries is weighed by the rules.`,
		Example: `  assay certify review c-0123456789abcdef --assign user:house/rita@example.com
  assay certify review c-0123456789abcdef --pass
  assay certify review c-0123456789abcdef --overturn "the new report shows it"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			asked := 0
			for _, o := range []struct {
				is  bool
				act client.CertificateAct
			}{
				{assign != "", client.CertificateAct{Act: vetting.ActAssign, Reviewer: assign}}, {pass, client.CertificateAct{Act: vetting.ActPass}},
				{fail != "", client.CertificateAct{Act: vetting.ActFail, Code: fail}}, {triage != "", client.CertificateAct{Act: vetting.ActTriage, Reviewer: triage}},
				{uphold != "", client.CertificateAct{Act: vetting.ActRule, Upheld: true, Reason: uphold}}, {overturn != "", client.CertificateAct{Act: vetting.ActRule, Reason: overturn}},
			} {
				if o.is {
					act, asked = o.act, asked+1
				}
			}
			if asked != 1 {
				return errors.New("want one of --assign, --pass, --fail, --triage, --uphold and --overturn")
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&assign, "assign", "", "`PRINCIPAL` who reviews it")
	fl.BoolVar(&pass, "pass", false, "the reviewer is satisfied")
	fl.StringVar(&fail, "fail", "", "the reviewer is not, because of a `CODE`: "+strings.Join(vetting.FailedFor, ", "))
	fl.StringVar(&triage, "triage", "", "`PRINCIPAL` who rules on the appeal")
	fl.StringVar(&uphold, "uphold", "", "the decision stands, for `WORDS`")
	fl.StringVar(&overturn, "overturn", "", "the decision is taken back, for `WORDS`")
	return cmd
}

func (a *app) certifyAppealCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActAppeal}
	var file string
	cmd := &cobra.Command{
		Use:   "appeal CERTIFICATE --evidence FILE",
		Short: "Disagree with a decision, with new evidence, within 14 days",
		Long: `Disagree with a decision, with new evidence, within 14 days. The log gets the digest of the
file; keep the file, for whoever rules asks for it.`,
		Example: `  assay certify appeal c-0123456789abcdef --evidence report.pdf --reason "the board was exchanged"`, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if act.Evidence, err = digestOfFile(file); err != nil {
				return err
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	cmd.Flags().StringVar(&file, "evidence", "", "`FILE` that shows it")
	cmd.Flags().StringVar(&act.Reason, "reason", "", "`WORDS`")
	return cmd
}

func (a *app) certifyRevokeCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActRevoke}
	var file, since string
	cmd := &cobra.Command{
		Use:     "revoke CERTIFICATE --code CODE --evidence FILE",
		Short:   "Take a certificate back; the past is tainted and never edited",
		Example: "  assay certify revoke c-0123456789abcdef --code forged-evidence --evidence report.pdf --since 2026-02-01T00:00:00Z", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if act.Evidence, err = digestOfFile(file); err != nil {
				return err
			}
			act.Since = canon.At(a.now())
			if since != "" {
				if act.Since, err = canon.ParseTime(since); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	cmd.Flags().StringVar(&act.Code, "code", "", "`CODE` of why: "+strings.Join(vetting.RevokedFor, ", "))
	cmd.Flags().StringVar(&file, "evidence", "", "`FILE` that shows it")
	cmd.Flags().StringVar(&since, "since", "", "first `TIME` that is tainted (default: now)")
	return cmd
}

func (a *app) certifyFreezeCommand() *cobra.Command {
	act := client.CertificateAct{Act: vetting.ActFreeze}
	var file string
	cmd := &cobra.Command{
		Use:   "freeze CERTIFICATE",
		Short: "Stop a certificate in an emergency: one officer proposes it, another one confirms",
		Long: `Stop a certificate in an emergency: what the first officer says is a proposal, and when a
second one says the same within 24 hours the certificate is suspended, for as long as a
review may last. Both log in: two tokens that one admin made are one officer.`,
		Example: "  assay certify freeze c-0123456789abcdef --evidence report.pdf", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if file != "" {
				if act.Evidence, err = digestOfFile(file); err != nil {
					return err
				}
			}
			return a.certifyAct(c.Context(), args[0], act)
		},
	}
	cmd.Flags().StringVar(&file, "evidence", "", "`FILE` that shows why")
	return cmd
}

// digestOfFile returns the digest of a file that shows something.
func digestOfFile(name string) (canon.Digest, error) {
	if name == "" {
		return canon.Digest{}, errors.New("want --evidence: a file that shows it")
	}
	data, err := files.Bounded(name, maxShown)
	if err != nil {
		return canon.Digest{}, err
	}
	return canon.Sum(data), nil
}

// maxShown bounds a file whose digest goes into the log.
const maxShown = 256 << 20

func (a *app) certifyPreviewCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "preview CLAIM",
		Short:   "Say which hosts stand in their tier by a claim: what its renewal keeps",
		Example: "  assay certify preview 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			digest, err := canon.ParseDigest(args[0])
			if err != nil {
				return err
			}
			s, err := a.session()
			if err != nil {
				return err
			}
			var k struct {
				Hosts []string `json:"hosts"`
				Of    int      `json:"of"`
			}
			if err := s.Preview(c.Context(), digest, &k); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "renewing it keeps %d of %d hosts in their tiers\n", len(k.Hosts), k.Of)
			for _, h := range k.Hosts {
				fmt.Fprintln(a.stdout, h)
			}
			return nil
		},
	}
}

func (a *app) certifySimulateCommand() *cobra.Command {
	var sim client.Simulation
	var date, output string
	var policies []string
	cmd := &cobra.Command{
		Use:   "simulate --tcb-recovery DATE --model MODEL",
		Short: "Say what becomes of hosts that nobody updates when a vendor raises its level",
		Long: `Say what becomes of hosts that nobody updates when a vendor raises its level: when
the grace clock starts, when the tier falls, and from when each policy stops matching.
Nothing is changed. What the vendor will call current is not known before that day, so
every host of the model counts as one that is behind.`,
		Example: "  assay certify simulate --tcb-recovery 2026-06-09T00:00:00Z --model milan --policy confidential-cpu --policy mine.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if sim.Date, err = parseDay(date); err != nil {
				return fmt.Errorf("--tcb-recovery: %w", err)
			}
			for _, name := range policies {
				if _, ok := policy.Builtin(name); !ok {
					p, _, err := inputs.Policy(name)
					if err != nil {
						return err
					}
					name = string(p.Canonical())
				}
				sim.Policies = append(sim.Policies, name)
			}
			return a.simulate(c.Context(), sim, output)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&date, "tcb-recovery", "", "`DATE` on which the level is raised")
	fl.StringVar(&sim.Model, "model", "", "`MODEL`: generation of hardware, such as milan, genoa, intel-tdx, gh100")
	fl.BoolVar(&sim.Exploited, "exploited", false, "attacks on the old level are known")
	fl.StringArrayVar(&policies, "policy", nil, "`POLICY` to ask, built in or a file; may be repeated (default: the server's)")
	fl.StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// parseDay reads an instant, or a day as its first one.
func parseDay(text string) (canon.Time, error) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return canon.At(day), nil
	}
	return canon.ParseTime(text)
}

func (a *app) simulate(ctx context.Context, sim client.Simulation, output string) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	var got struct {
		Hosts int            `json:"hosts"`
		Falls []vetting.Fall `json:"falls"`
	}
	if err := s.Simulate(ctx, sim, &got); err != nil {
		return err
	}
	switch output {
	case "json":
		return a.printJSON(got)
	case "text":
	default:
		return fmt.Errorf("output %q: want text or json", output)
	}
	fmt.Fprintf(a.stdout, "%d of %d hosts with certificates are of model %s\n", len(got.Falls), got.Hosts, sim.Model)
	for _, f := range got.Falls {
		fmt.Fprintf(a.stdout, "%s of %s: the clock starts %s", f.Host, f.Provider, f.From)
		if f.Left != f.Tier {
			fmt.Fprintf(a.stdout, ", %s falls to %s at %s", f.Tier, f.Left, f.Falls)
		}
		fmt.Fprintln(a.stdout)
		for _, stop := range f.Stops {
			fmt.Fprintf(a.stdout, "  policy %s stops matching it at %s\n", stop.Policy, stop.At)
		}
	}
	return nil
}
