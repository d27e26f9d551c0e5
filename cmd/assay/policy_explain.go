package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

func (a *app) policyExplainCommand() *cobra.Command {
	var output string
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
			if output != "text" && (output != "json" || len(args) == 1) {
				return fmt.Errorf("output %q: want text, or json with a verdict or an appraisal", output)
			}
			p, from, err := inputs.Policy(args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				fmt.Fprint(a.stdout, p.Explain())
				a.sayWhose(p, from)
				return nil
			}
			e, err := a.policyExplain(p, args[1])
			if err != nil {
				return err
			}
			if output == "json" {
				if err := a.printJSON(e); err != nil {
					return err
				}
			} else {
				e.text(a.stdout)
			}
			return ended(e.Verdict)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// explained is a verdict beside the lines of the policy that it was made by.
type explained struct {
	Type    string          `json:"type"` // assay/policy-explained/v1
	Verdict policy.Outcome  `json:"verdict"`
	Policy  policy.Named    `json:"policy"`
	AsOf    canon.Time      `json:"as_of"`
	Lines   []explainedLine `json:"lines"`
}

// explainedLine is one line: what became of it, and why.
type explainedLine struct {
	Rule    string           `json:"rule"`
	Place   string           `json:"place,omitzero"` // FILE:LINE
	Text    string           `json:"text"`
	State   string           `json:"state"`
	Reasons []policy.Refusal `json:"reasons"`
	claims  []policy.ShortWord
}

// States of a line.
const (
	lineMet     = "met"
	lineNotMet  = "NOT MET"
	lineUnknown = "unknown"
	lineOpen    = "open"
	lineSilent  = "-" // the verdict gives no reason for it, and does not accept
)

func (a *app) policyExplain(p *policy.Policy, name string) (e explained, err error) {
	data, err := files.Bounded(name, max(doc.MaxSize, ledger.MaxEnvelope))
	if err != nil {
		return e, err
	}
	if inputs.IsEnvelope(data) {
		env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
		if err != nil {
			return e, fmt.Errorf("%s: %w", name, err)
		}
		r, err := policy.ParseResult(env.Payload)
		if err != nil {
			return e, fmt.Errorf("%s: %w", name, err)
		}
		a.say("%s: its signature is not verified here", name)
		return a.explainVerdict(p, r.Verdict)
	}
	typ, err := doc.TypeOf(name, data)
	if err != nil {
		return e, err
	}
	if typ == policy.VerdictType {
		var v policy.Verdict
		if _, err := doc.Decode(name, data, &v); err != nil {
			return e, err
		}
		return a.explainVerdict(p, v)
	}
	hosts, err := hostsOfFile(name)
	if err != nil {
		return e, withHint(err, "a verdict is of type %s", policy.VerdictType)
	}
	h := hosts[0]
	e = explanation(p, policy.Decide(h.Claims, p, h.AsOf))
	for _, j := range p.Trace(h.Claims, h.AsOf) {
		e.Lines = append(e.Lines, lineOf(p, j))
	}
	return e, nil
}

// ended returns the exit code of a verdict.
func ended(o policy.Outcome) error {
	if code := o.ExitCode(); code != exitAccept {
		return outcome(code)
	}
	return nil
}

func explanation(p *policy.Policy, v policy.Verdict) explained {
	return explained{Type: "assay/policy-explained/v1", Verdict: v.Outcome, Policy: policy.Named{Name: p.Name(), Digest: p.Digest()}, AsOf: v.AsOf}
}

func lineOf(p *policy.Policy, j policy.Judged) explainedLine {
	l := explainedLine{Rule: j.Label, Place: j.Place, Text: j.Text, Reasons: p.Refusals(policy.Verdict{Reasons: j.Reasons}), claims: j.Claims}
	switch {
	case j.Open:
		l.State = lineOpen
	case j.Outcome == policy.Accept:
		l.State = lineMet
	case j.Outcome == policy.Reject:
		l.State = lineNotMet
	default:
		l.State = lineUnknown
	}
	return l
}

// text writes line by line where each stands, what became of it, and why.
func (e explained) text(w io.Writer) {
	fmt.Fprintf(w, "%s by policy %s (sha256 %s), as of %s\n\n", strings.ToUpper(e.Verdict.String()), e.Policy.Name, e.Policy.Digest.Short(), e.AsOf)
	for _, l := range e.Lines {
		fmt.Fprintf(w, "%-7s  %s  %s\n", l.State, cmp.Or(l.Place, l.Rule), l.Text)
		for _, why := range l.Reasons {
			said := why.Status.String()
			if why.Status == claim.Affirmed {
				said = "not enough"
			}
			fmt.Fprintf(w, "           %s  %s of %s is %s: %s; required: %s\n", cmp.Or(why.Code, "-"), why.Claim, why.Subject, said, audit.Printable(why.Observed), why.Required)
			if means := policy.Means(why.Code); means != "" {
				fmt.Fprintf(w, "           %s\n", means)
			}
			fmt.Fprintf(w, "           fix (%s): %s\n", why.Who, why.Fix)
		}
		if len(l.Reasons) == 0 && !strings.HasPrefix(l.Rule, "refuse") {
			for _, c := range l.claims {
				value := ""
				if c.Value != "" {
					value = ": " + audit.Printable(c.Value)
				}
				fmt.Fprintf(w, "           %s of %s %s%s\n", c.ID, c.Subject, c.Status, value)
			}
		}
	}
}

// explainVerdict puts the reasons of a verdict beside the lines of the policy that it was made by.
func (a *app) explainVerdict(p *policy.Policy, v policy.Verdict) (e explained, err error) {
	if v.Policy.Digest != p.Digest() {
		return e, fmt.Errorf("the verdict is by another policy: %s (sha256 %s), not %s (sha256 %s)", audit.Printable(v.Policy.Name), v.Policy.Digest.Short(), p.Name(), p.Digest().Short())
	}
	e = explanation(p, v)
	named := map[string]bool{}
	for _, j := range p.Trace(nil, v.AsOf) { // for the lines: nothing is claimed
		j.Open, j.Claims, named[j.Label] = slices.Contains(v.Open, j.Label), nil, true
		j.Reasons = slices.DeleteFunc(slices.Clone(v.Reasons), func(r policy.Reason) bool { return r.Rule != j.Label })
		j.Outcome = v.Outcome
		if len(j.Reasons) > 0 {
			j.Outcome = policy.Undecided
			for _, why := range j.Reasons {
				if why.Decides() == policy.Reject {
					j.Outcome = policy.Reject
				}
			}
		}
		l := lineOf(p, j)
		if len(j.Reasons) == 0 && v.Outcome != policy.Accept && !j.Open {
			l.State = lineSilent
		}
		e.Lines = append(e.Lines, l)
	}
	for _, why := range v.Reasons { // what is refused whatever a policy says
		if !named[why.Rule] {
			e.Lines = append(e.Lines, lineOf(p, policy.Judged{Line: policy.Line{Label: why.Rule, Text: "whatever the policy says"}, Outcome: policy.Reject, Reasons: []policy.Reason{why}}))
		}
	}
	if v.Outcome != policy.Accept {
		a.say("a line with - is met, or is not for a reason that stands at another line; the appraisal says which")
	}
	if v.Rules != policy.Rules {
		a.say("the verdict is of policy rules %d, this build has %d", v.Rules, policy.Rules)
	}
	return e, nil
}
