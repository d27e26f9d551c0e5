package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

func (a *app) policyExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POLICY [VERDICT|APPRAISAL]",
		Short: "Say in plain sentences what a policy asks; with a verdict or an appraisal, line by line why",
		Long: `Say in plain sentences what a policy asks; with a verdict or an appraisal, line by line why.

VERDICT is a verdict, or a signed result, which is opened and not verified; of a line
that it gives no reason for, it says no more. APPRAISAL is an appraisal or what assay
verify -o json writes: the policy decides it anew, at its own time, and each line says
what it read.

Exit codes: 0 accept, or no verdict was asked for; 1 reject, 2 usage or could not run,
3 undecided.`,
		Example: `  assay policy explain confidential-cpu
  assay verify bundle.json -o json > host.json; assay policy explain mine.yaml host.json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			p, from, err := inputs.Policy(args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				fmt.Fprint(a.stdout, p.Explain())
				a.sayWhose(p, from)
				return nil
			}
			return a.policyExplain(p, args[1])
		},
	}
	return cmd
}

func (a *app) policyExplain(p *policy.Policy, name string) error {
	data, err := files.Bounded(name, max(doc.MaxSize, ledger.MaxEnvelope))
	if err != nil {
		return err
	}
	if inputs.IsEnvelope(data) {
		env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r, err := policy.ParseResult(env.Payload)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.say("%s: its signature is not verified here", name)
		return a.explainVerdict(p, r.Verdict)
	}
	typ, err := doc.TypeOf(name, data)
	if err != nil {
		return err
	}
	if typ == policy.VerdictType {
		var v policy.Verdict
		if _, err := doc.Decode(name, data, &v); err != nil {
			return err
		}
		return a.explainVerdict(p, v)
	}
	hosts, err := hostsOfFile(name)
	if err != nil {
		return withHint(err, "a verdict is of type %s", policy.VerdictType)
	}
	h := hosts[0]
	v := policy.Decide(h.claims, p, h.asOf)
	a.explainHead(p, v)
	for _, j := range p.Trace(h.claims, h.asOf) {
		a.explainLine(j)
	}
	return ended(v.Outcome)
}

// ended returns the exit code of a verdict.
func ended(o policy.Outcome) error {
	if code := o.ExitCode(); code != exitAccept {
		return outcome(code)
	}
	return nil
}

func (a *app) explainHead(p *policy.Policy, v policy.Verdict) {
	fmt.Fprintf(a.stdout, "%s by policy %s (sha256 %s), as of %s\n\n", strings.ToUpper(v.Outcome.String()), p.Name(), p.Digest().Short(), v.AsOf)
}

// explainLine writes one line of the policy: where it stands, what became of it, and why.
func (a *app) explainLine(j policy.Judged) {
	state := map[policy.Outcome]string{policy.Accept: "met", policy.Reject: "NOT MET", policy.Undecided: "unknown"}[j.Outcome]
	if j.Open {
		state = "open"
	}
	fmt.Fprintf(a.stdout, "%-7s  %s  %s\n", state, cmp.Or(j.Place, j.Label), j.Text)
	for _, why := range j.Reasons {
		a.explainReason(why)
	}
	if len(j.Reasons) == 0 && !strings.HasPrefix(j.Label, "refuse") {
		for _, c := range j.Claims {
			fmt.Fprintf(a.stdout, "           %s of %s %s%s\n", c.ID, c.Subject, c.Status, valueOf(c))
		}
	}
}

// valueOf says what a claim's value is, if it has one.
func valueOf(c policy.ShortWord) string {
	if c.Value == "" {
		return ""
	}
	return ": " + audit.Printable(c.Value)
}

func (a *app) explainReason(why policy.Reason) {
	said := why.Status.String()
	if why.Status == claim.Affirmed {
		said = "not enough"
	}
	fmt.Fprintf(a.stdout, "           %s  %s of %s is %s: %s", cmp.Or(why.Code, "-"), why.Claim, why.Subject, said, audit.Printable(why.Observed))
	if why.Status == claim.Affirmed {
		fmt.Fprintf(a.stdout, "; required: %s", why.Required)
	}
	fmt.Fprintf(a.stdout, "\n           fix (%s): %s\n", why.Who, why.Fix)
}

// explainVerdict puts the reasons of a verdict beside the lines of the policy that it was made by.
func (a *app) explainVerdict(p *policy.Policy, v policy.Verdict) error {
	if v.Policy.Digest != p.Digest() {
		return fmt.Errorf("the verdict is by another policy: %s (sha256 %s), not %s (sha256 %s)", audit.Printable(v.Policy.Name), v.Policy.Digest.Short(), p.Name(), p.Digest().Short())
	}
	a.explainHead(p, v)
	given := 0
	for _, j := range p.Trace(nil, v.AsOf) { // for the lines: nothing is claimed
		j.Open, j.Claims = slices.Contains(v.Open, j.Label), nil
		j.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r policy.Reason) bool { return r.Rule != j.Label })
		given += len(j.Reasons)
		switch {
		case len(j.Reasons) > 0:
			j.Outcome = policy.Undecided
			for _, why := range j.Reasons {
				if why.Decides() == policy.Reject {
					j.Outcome = policy.Reject
				}
			}
		case v.Outcome == policy.Accept:
			j.Outcome = policy.Accept
		case !j.Open:
			fmt.Fprintf(a.stdout, "%-7s  %s  %s\n", "-", cmp.Or(j.Place, j.Label), j.Text)
			continue
		}
		a.explainLine(j)
	}
	if given < len(v.Reasons) {
		fmt.Fprintf(a.stdout, "\nand whatever the policy says:\n")
		for _, why := range v.Reasons {
			if strings.HasPrefix(why.Rule, "always ") {
				a.explainReason(why)
			}
		}
	}
	if v.Outcome != policy.Accept {
		a.say("a line with - is met, or is not for a reason that stands at another line; the appraisal says which")
	}
	if v.Rules != policy.Rules {
		a.say("the verdict is of policy rules %d, this build has %d", v.Rules, policy.Rules)
	}
	return ended(v.Outcome)
}
