package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/policy"
)

// testsSuffix ends the name of a policy's tests, in place of .yaml.
const testsSuffix = ".tests.yaml"

// maxDays is how far back --days may reach: a hundred years.
const maxDays = 36500

// tryFlags are the flags of assay policy test.
type tryFlags struct {
	relax         []string
	nearest       []string
	trust, output string
	days          int
	certified     bool
}

func (a *app) policyTestCommand() *cobra.Command {
	var f tryFlags
	cmd := &cobra.Command{
		Use:   "test POLICY [TESTS|HOSTS]...",
		Short: "Run a policy's tests, or say how many hosts would match it and which rule costs most",
		Long: `Run a policy's tests, or say how many hosts would match it and which rule costs most.

TESTS is a file of type ` + policy.TestsType + `: claims in, verdict out. Without an
argument it is the one beside the policy: mine.tests.yaml of mine.yaml.

HOSTS is a log (an export, a pulled folder, or the URL of a server or mirror), a
folder of appraisals, or one: .json files of appraisals, or of assay verify -o json.
Of each host the newest appraisal counts, at its own time; of a log those of its last
--days. Rules over the party are left open: an appraisal says nothing of it.

--certified asks the server of your session (assay login) how many hosts match among those
whose provider has a certificate that stands, party and all, and shows none of them: any
renter may. Otherwise a server's log is for auditors to read.

--nearest HOST says why that host is refused and which are nearest to it: hosts that
match, and in what they differ, or where none does, those that fail the fewest rules.

Exit codes: 0 all tests pass, or some host matches; 1 a test fails, or no host
matches; 2 usage or could not run.`,
		Example: `  assay policy test mine.yaml
  assay policy test mine.yaml log.tar --relax tcb
  assay policy test mine.yaml https://assay.example --days 7 -o json
  assay policy test mine.yaml log.tar --nearest node-0123456789abcdef
  assay policy test mine.yaml --certified --relax tcb`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.policyTest(c.Context(), args[0], args[1:], f) },
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.relax, "relax", nil, "also say how many would match without this `RULE`: a claim, what it is about (tcb), or require[7]; may be repeated")
	fl.StringArrayVar(&f.nearest, "nearest", nil, "say why `HOST` is refused, and which hosts are nearest to it; may be repeated")
	fl.BoolVar(&f.certified, "certified", false, "ask the server how many of its certified hosts match")
	fl.StringVar(&f.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.IntVar(&f.days, "days", 30, "how many days before the newest verdict of a log count")
	fl.StringVarP(&f.output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) policyTest(ctx context.Context, name string, sources []string, f tryFlags) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("output %q: want text or json", f.output)
	}
	if f.days < 1 || f.days > maxDays {
		return fmt.Errorf("--days %d: want 1 to %d", f.days, maxDays)
	}
	p, _, err := inputs.Policy(name)
	if err != nil {
		return err
	}
	if f.certified {
		if len(sources) > 0 || f.nearest != nil || f.trust != "" {
			return errors.New("--certified is about hosts of which the server tells no more: it goes with --relax and --output alone")
		}
		return a.tryCertified(ctx, p, name, f)
	}
	if len(sources) == 0 {
		beside, ok := strings.CutSuffix(name, ".yaml")
		if !ok {
			return withHint(fmt.Errorf("policy %s: no tests beside it", name), "name a file of tests, or of hosts: assay policy test %s FILE", name)
		}
		sources = []string{beside + testsSuffix}
	}
	var tests *policy.Tests
	var hosts []policy.Candidate
	for _, source := range sources {
		t, err := readTests(source)
		switch {
		case err != nil:
			return err
		case t != nil && (tests != nil || hosts != nil), t == nil && tests != nil:
			return errors.New("want one file of tests, or hosts")
		case t != nil:
			tests = t
			continue
		}
		found, err := a.hosts(ctx, source, f.trust, f.days)
		if errors.Is(err, fs.ErrPermission) && strings.Contains(source, "://") {
			return withHint(err, "--certified asks how many of its certified hosts match, and is for renters too")
		}
		if err != nil {
			return a.fault(err)
		}
		hosts = newestOf(append(hosts, found...))
	}
	if tests != nil {
		if f.relax != nil || f.nearest != nil {
			return errors.New("--relax and --nearest go with hosts, not with tests")
		}
		return a.runTests(p, tests, f.output)
	}
	return a.tryHosts(p, hosts, f)
}

// readTests reads a file of tests; nil: the source is something else.
func readTests(name string) (*policy.Tests, error) {
	if !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return nil, nil
	}
	data, err := files.Bounded(name, doc.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(err, "assay policy init writes a policy with its tests")
	}
	if err != nil {
		return nil, err
	}
	return policy.ParseTests(name, data)
}

type testsReport struct {
	Type    string              `json:"type"` // assay/policy-tested/v1
	Policy  policy.Named        `json:"policy"`
	Passed  int                 `json:"passed"`
	Failed  int                 `json:"failed"`
	Results []policy.TestResult `json:"results"`
}

func (a *app) runTests(p *policy.Policy, tests *policy.Tests, output string) error {
	r := testsReport{Type: "assay/policy-tested/v1", Policy: policy.Named{Name: p.Name(), Digest: p.Digest()}, Results: tests.Run(p)}
	for _, x := range r.Results {
		if x.Pass {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	if output == "json" {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		for _, x := range r.Results {
			if x.Pass {
				fmt.Fprintf(a.stdout, "ok    %s: %s\n", x.Name, x.Got)
			} else {
				fmt.Fprintf(a.stdout, "FAIL  %s: %s\n", x.Name, x.Because)
			}
		}
		fmt.Fprintf(a.stdout, "%d passed, %d failed\n", r.Passed, r.Failed)
	}
	if r.Failed > 0 {
		return outcome(exitReject)
	}
	return nil
}

type hostsReport struct {
	Type   string       `json:"type"` // assay/policy-match/v1
	Policy policy.Named `json:"policy"`
	policy.Matching
	From    canon.Time       `json:"from,omitzero"` // of the oldest appraisal
	Until   canon.Time       `json:"until,omitzero"`
	Refused []policy.Refused `json:"refused"` // the hosts that do not match
	Nearest []nearHosts      `json:"nearest"` // to those that --nearest names
}

// nearHosts is why one host is refused, and which are nearest to it.
type nearHosts struct {
	Host    string           `json:"host"`
	Verdict policy.Outcome   `json:"verdict"`
	Reasons []policy.Refusal `json:"reasons"`
	policy.Nearest
}

func (a *app) tryHosts(p *policy.Policy, hosts []policy.Candidate, f tryFlags) error {
	if len(hosts) == 0 {
		return errors.New("no host was appraised in that time")
	}
	r := hostsReport{Type: "assay/policy-match/v1", Policy: policy.Named{Name: p.Name(), Digest: p.Digest()}, From: hosts[0].AsOf, Nearest: []nearHosts{}}
	var err error
	if r.Matching, r.Refused, err = p.Match(hosts, f.relax); err != nil {
		return noRule(err)
	}
	for _, h := range hosts {
		r.From, r.Until = min(r.From, h.AsOf), max(r.Until, h.AsOf)
	}
	for _, name := range f.nearest {
		near, err := nearestTo(p, name, hosts)
		if err != nil {
			return err
		}
		r.Nearest = append(r.Nearest, near)
	}
	if f.output == "json" {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.printMatch(r)
	}
	if r.Match == 0 {
		return outcome(exitReject)
	}
	return nil
}

// tryCertified asks a server how many of its certified hosts match.
func (a *app) tryCertified(ctx context.Context, p *policy.Policy, name string, f tryFlags) error {
	c, err := a.session()
	if err != nil {
		return err
	}
	if _, _, err := p.Match(nil, f.relax); err != nil {
		return noRule(err)
	}
	question := client.MatchQuestion{Policy: name, Relax: f.relax}
	if _, ok := policy.Builtin(name); !ok {
		data, err := files.Bounded(name, maxPolicyAsked)
		if err != nil {
			return err
		}
		question.Policy = string(data)
	}
	var r matched
	if err := c.Match(ctx, question, &r); err != nil {
		return err
	}
	if r.Policy.Digest != p.Digest() {
		return fmt.Errorf("the server matched policy %s (sha256 %s), and %s is %s", audit.Printable(r.Policy.Name), r.Policy.Digest.Short(), name, p.Digest().Short())
	}
	for i, c := range r.Costs {
		r.Costs[i].Place = p.Place(c.Rule) // in the file as it is here
	}
	if f.output == "json" {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.printMatch(hostsReport{Policy: r.Policy, Matching: r.Matching, From: r.AsOf, Until: r.AsOf})
		if r.LeftOut {
			a.say("there are more hosts than the server looks at: the first ones by their ids were")
		}
	}
	if r.Match == 0 {
		return outcome(exitReject)
	}
	return nil
}

// matched is a server's answer on its certified hosts.
type matched struct {
	Policy policy.Named `json:"policy"`
	AsOf   canon.Time   `json:"as_of"`
	policy.Matching
	LeftOut bool `json:"left_out,omitzero"`
}

// nearestTo says why a host is refused, and which are nearest to it.
func nearestTo(p *policy.Policy, name string, hosts []policy.Candidate) (nearHosts, error) {
	var names []string
	for _, h := range hosts {
		if h.Host == name {
			v := policy.Decide(h.Claims, p, h.AsOf)
			return nearHosts{name, v.Outcome, p.Refusals(v), p.Nearest(h, hosts)}, nil
		}
		names = append(names, h.Host)
	}
	err := fmt.Errorf("--nearest %.80q: no such host", name)
	if near := doc.Nearest(name, names); near != "" {
		return nearHosts{}, withHint(err, "nearest name is %s", near)
	}
	const some = 10
	more := ""
	if len(names) > some {
		more = fmt.Sprintf(", and %d more", len(names)-some)
	}
	return nearHosts{}, withHint(err, "the hosts are: %s%s", strings.Join(names[:min(len(names), some)], ", "), more)
}

// printRefusal writes why a host is refused, one reason a line, and the hosts nearest to it.
func printRefusal(w io.Writer, n nearHosts) {
	head := map[policy.Outcome]string{policy.Reject: "REFUSED", policy.Undecided: "UNDECIDED"}[n.Verdict]
	if head == "" {
		fmt.Fprintf(w, "%s matches\n", audit.Printable(n.Host))
		return
	}
	fmt.Fprintf(w, "%s\n", audit.Printable(n.Host))
	for _, why := range n.Reasons {
		fmt.Fprintf(w, "%s: %s: %s | observed: %s | required: %s | %s | who can fix: %s | fix: %s | nearest matching hosts: %d\n", head, why.Code, why.Sentence, audit.Printable(why.Observed), why.Required, cmp.Or(why.Place, why.Rule),
			why.Who, why.Fix, n.Match)
	}
	if n.Match == 0 {
		fmt.Fprintf(w, "none of %d other hosts matches; those that fail the fewest rules:\n", n.Hosts)
	} else {
		fmt.Fprintf(w, "%d of %d other hosts match; the nearest:\n", n.Match, n.Hosts)
	}
	for _, x := range n.Nearest.Nearest {
		fmt.Fprintf(w, "  %s", audit.Printable(x.Host))
		if len(x.Fails) > 0 {
			fmt.Fprintf(w, "  fails %s", strings.Join(x.Fails, ", "))
		}
		fmt.Fprintln(w)
		for _, d := range x.Differs {
			fmt.Fprintf(w, "    %s of %s: %s, not %s\n", d.Claim, d.Subject, audit.Printable(cmp.Or(d.Near, "nothing said")), audit.Printable(cmp.Or(d.Refused, "nothing said")))
		}
		if x.More > 0 {
			fmt.Fprintf(w, "    and %d more\n", x.More)
		}
	}
}

// noRule says what --relax takes.
func noRule(err error) error {
	if no := (*policy.NoRuleError)(nil); errors.As(err, &no) {
		return withHint(fmt.Errorf("--relax %w", err), "a claim such as sevsnp.tcb, what it is about (tcb), or require[7]")
	}
	return err
}

func (a *app) printMatch(r hostsReport) {
	head := fmt.Sprintf("%d of %d hosts match", r.Match, r.Hosts)
	if len(r.Costs) > 0 {
		_, about, _ := strings.Cut(r.Costs[0].Claim, ".")
		if about == "*" {
			about = r.Costs[0].Claim
		}
		head += fmt.Sprintf("; the rule that costs most is `%s` (%d)", about, r.Costs[0].Hosts)
	}
	fmt.Fprintf(a.stdout, "%s\n", head)
	fmt.Fprintf(a.stdout, "policy %s (sha256 %s), appraisals of %s to %s: %d rejected, %d undecided\n", r.Policy.Name, r.Policy.Digest.Short(), r.From, r.Until, r.Rejected, r.Undecided)
	for _, x := range r.Relaxed {
		fmt.Fprintf(a.stdout, "without `%s`: %d of %d (%+d)\n", x.Without, x.Match, r.Hosts, x.Match-r.Match)
	}
	if len(r.Costs) > 0 {
		fmt.Fprintf(a.stdout, "\n%8s  %8s  rule\n", "hosts", "alone")
		for _, c := range r.Costs {
			fmt.Fprintf(a.stdout, "%8d  %8d  %s  %s\n", c.Hosts, c.Alone, c.Rule, c.Place)
		}
	}
	for _, n := range r.Nearest {
		fmt.Fprintln(a.stdout)
		printRefusal(a.stdout, n)
	}
	if len(r.Open) > 0 {
		a.say("left open, since an appraisal says nothing of the party: %s", strings.Join(r.Open, ", "))
	}
}
