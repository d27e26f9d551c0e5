package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// verifyFlags are the flags of `assay verify`.
type verifyFlags struct {
	typ, policy, asOf, roots, output string
	nonce, reportData                string
	cache                            string
	certs, collateral, expectFiles   []string
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Judge evidence files by a policy, offline",
		Long: `Judge evidence files by a policy, offline.

A FILE is an evidence bundle or a vendor's raw file: an SEV-SNP report (raw, hex,
with the host's certificate table behind it), a TDX quote (raw, hex, base64), a TPM
quote in JSON, a recording of a GCP vTPM (go-tpm-tools), an HCL report of Azure, a
report of an NVIDIA GPU or switch (raw, hex), NVIDIA's evidence file, or a folder of
one report and its certificates, as snpguest leaves it. Nothing is fetched: what is
missing is named.

Without --policy the strictest built-in that fits the evidence judges. The exit
code is 0 accept, 1 reject, 3 undecided; of several files, the worst.`,
		Example: `  assay verify report.bin --cert vcek.der --policy genuine
  assay verify bundle.json --expect challenge.yaml --expect guests.yaml --collateral crl.der
  assay verify report.bin --cert vcek.der --as-of 2024-01-01T00:00:00Z -o json
  assay verify gpu.bin --cert chain.pem --collateral driver.xml --collateral vbios.xml --policy genuine`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"nonce", "report-data", "policy", "as-of", "roots"} {
				if fl := c.Flags().Lookup(name); fl.Changed && fl.Value.String() == "" {
					return fmt.Errorf("--%s: it is empty", name) // a variable that a script never set, and no word for "none"
				}
			}
			return a.verify(c.Context(), args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.typ, "type", "", "what the file is: "+strings.Join(verifier.Types(), ", ")+" (default: told from its bytes)")
	fl.StringArrayVar(&f.certs, "cert", nil, "certificate `FILE`: DER, PEM, a certificate table, or the chain of a GPU or switch")
	fl.StringArrayVar(&f.collateral, "collateral", nil, "collateral `FILE`: certificates, revocation or deny list, TCB info, QE identity, NVIDIA's manifest or OCSP answer; told apart by content")
	fl.StringVar(&f.cache, "cache", "", "take what is wanted from the store of assay collateral: --cache, or --cache=`FOLDER`")
	fl.Lookup("cache").NoOptDefVal = cacheDefault
	fl.StringVar(&f.nonce, "nonce", "", "the challenge that a bundle must answer (32 bytes), the nonce of a GPU's report, or the qualifying data of a TPM quote, in `HEX`")
	fl.StringVar(&f.reportData, "report-data", "", "what REPORT_DATA of a raw SNP report or TDX quote must hold, 64 bytes in `HEX`")
	fl.StringArrayVar(&f.expectFiles, "expect", nil, "`FILE` of what you know yourself: a challenge and registry (assay/expect/v1), reference values (assay/references/v1)")
	fl.StringVar(&f.policy, "policy", "", "built-in policy or policy `FILE`, FILE,KEY.pem for a signed one (default: the strictest built-in that fits)")
	fl.StringVar(&f.asOf, "as-of", "", "judge as of this `TIME`, such as 2026-02-01T00:00:00Z (default: now)")
	fl.StringVar(&f.roots, "roots", "", "`FOLDER` of root files that replaces the vendors' pinned roots")
	fl.StringVarP(&f.output, "output", "o", "text", "text, json, jsonl or csv")
	return cmd
}

// reportType is the type of what verify writes as JSON.
const reportType = "assay/verify/v1"

// report is the machine-readable result of one file.
type report struct {
	Type         string           `json:"type"` // reportType
	File         string           `json:"file"`
	Verdict      policy.Outcome   `json:"verdict"`
	Policy       policy.Named     `json:"policy"`
	NotDecided   []string         `json:"not_decided"` // what the policy does not speak of
	Scope        string           `json:"scope"`
	AsOf         canon.Time       `json:"as_of"`
	Roots        rootsReport      `json:"roots"`
	Reasons      []policy.Refusal `json:"reasons"`
	Claims       claim.Set        `json:"claims"`
	Needs        []attest.Need    `json:"needs"`
	Inputs       []verifier.Input `json:"inputs"`
	policy       *policy.Policy
	contradicted []claim.Claim
}

type rootsReport struct {
	Digest canon.Digest `json:"sha256"`
	Vendor bool         `json:"vendor"` // the pinned roots of the vendors
}

func (a *app) verify(_ context.Context, files []string, f verifyFlags) error {
	if !slices.Contains([]string{"text", "json", "jsonl", "csv"}, f.output) {
		return fmt.Errorf("output %q: want text, json, jsonl or csv", f.output)
	}
	if err := refuseGODEBUG(a.getenv("GODEBUG")); err != nil {
		return err
	}
	c, err := a.given(f)
	if err != nil {
		return err
	}
	var named *policy.Policy
	if f.policy != "" {
		var from string
		if named, from, err = inputs.Policy(f.policy); err != nil {
			return err
		}
		a.sayWhose(named, from)
	}
	var reports []report
	worst := outcome(exitAccept)
	for _, group := range f.grouped(files) {
		o, beside, err := f.open(group)
		if err != nil {
			return err
		}
		mine := c
		mine.Collateral = append(slices.Clone(c.Collateral), beside...)
		if len(mine.Collateral) > attest.MaxCollateral {
			return fmt.Errorf("%d items of collateral, at most %d", len(mine.Collateral), attest.MaxCollateral)
		}
		if mine.Expect, err = f.expect(c.Expect, o); err != nil {
			return err
		}
		if f.cache != "" {
			if err := a.fromCache(f.cache, o, &mine); err != nil {
				return err
			}
		}
		r := judge(o, mine, named)
		r.File = strings.Join(group, " ")
		reports = append(reports, r)
		worst = worse(worst, outcome(r.Verdict.ExitCode()))
	}
	if err := a.print(reports, f.output); err != nil {
		return err
	}
	if worst != exitAccept {
		return worst
	}
	return nil
}

// grouped parts the files into evidence: each is one, but for those of a set, which are one machine's together.
func (f verifyFlags) grouped(files []string) (groups [][]string) {
	if f.typ == verifier.TypeSet {
		return [][]string{files}
	}
	for _, name := range files {
		groups = append(groups, []string{name})
	}
	return groups
}

// open reads one piece of evidence and what goes with it: certificates that lie beside it or are named by --cert. A GPU's
// are evidence, which its host alone can give; others are collateral.
func (f verifyFlags) open(names []string) (o *verifier.Opened, beside []attest.Collateral, err error) {
	var data [][]byte
	for _, name := range names {
		evidence, items, err := inputs.Evidence(name)
		if err != nil {
			return nil, nil, err
		}
		data, beside = append(data, evidence), append(beside, items...)
	}
	if f.typ == verifier.TypeSet {
		o, err = verifier.OpenSet(data...)
	} else {
		o, err = verifier.Open(f.typ, data[0])
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range f.certs {
		if o.WantsChain() {
			chain, err := files.Bounded(name, attest.MaxCertTable)
			if err != nil {
				return nil, nil, err
			}
			o.AttachChain(chain)
			continue
		}
		items, err := inputs.Certificates(name)
		if err != nil {
			return nil, nil, err
		}
		beside = append(beside, items...)
	}
	return o, beside, nil
}

// judge appraises and decides. With no policy named, the strictest built-in that fits the evidence decides: one for GPUs
// where there is one, else that for CPUs.
func judge(o *verifier.Opened, c attest.Case, named *policy.Policy) report {
	p := named
	if p == nil {
		name := "confidential-cpu"
		if slices.ContainsFunc(o.Components(), func(c attest.Component) bool { return c.Class == attest.ClassGPU }) {
			name = "confidential-gpu"
		}
		p, _ = policy.Builtin(name)
	}
	ap := verifier.Appraise(o, c)
	v := policy.Decide(ap.Claims, p, c.At)
	r := report{
		Type: reportType, Verdict: v.Outcome, Policy: v.Policy, NotDecided: p.NotDecided(v), Scope: v.Scope, AsOf: v.AsOf,
		Roots:   rootsReport{c.Roots.Digest(), c.Roots.Digest() == verifier.VendorRoots().Digest()},
		Reasons: p.Refusals(v), Claims: ap.Claims, Needs: ap.Needs, Inputs: ap.Inputs, policy: p,
	}
	for _, cl := range ap.Claims {
		if cl.Status == claim.Contradicted {
			r.contradicted = append(r.contradicted, cl)
		}
	}
	return r
}

// worse returns the graver of two exit codes: reject, then undecided, then accept.
func worse(x, y outcome) outcome {
	for _, o := range []outcome{exitReject, exitUndecided} {
		if x == o || y == o {
			return o
		}
	}
	return exitAccept
}

// refuseGODEBUG refuses to judge under settings that change what Go's certificate and signature checks accept: the same
// evidence would then get another answer than anywhere else.
func refuseGODEBUG(setting string) error {
	for _, kv := range strings.Split(setting, ",") {
		key, _, _ := strings.Cut(kv, "=")
		for _, bad := range []string{"x509", "rsa", "ecdsa", "fips"} {
			if strings.HasPrefix(key, bad) {
				return withHint(fmt.Errorf("GODEBUG sets %s, which changes what certificates and signatures are accepted", key), "unset GODEBUG and run again")
			}
		}
	}
	return nil
}

// given collects what the user handed in beside the evidence.
func (a *app) given(f verifyFlags) (attest.Case, error) {
	c := attest.Case{Roots: verifier.VendorRoots(), At: canon.At(a.now())}
	var err error
	if f.asOf != "" {
		if c.At, err = canon.ParseTime(f.asOf); err != nil {
			return c, fmt.Errorf("--as-of: %w", err)
		}
	}
	if f.roots != "" {
		if c.Roots, err = inputs.Roots(f.roots); err != nil {
			return c, err
		}
	}
	for _, name := range f.collateral {
		items, err := inputs.Collateral(name)
		if err != nil {
			return c, err
		}
		c.Collateral = append(c.Collateral, items...)
	}
	for _, name := range f.expectFiles {
		if err := inputs.Expectation(name, &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// expect adds --nonce and --report-data to what --expect files say. What a nonce must be found in depends on the
// evidence: the challenge of a bundle, the qualifying data of a TPM's quote. One that the evidence has no place for is
// refused: nothing would be compared with it, and who gave it would believe the evidence fresh.
func (f verifyFlags) expect(e attest.Expect, o *verifier.Opened) (attest.Expect, error) {
	parts := o.Components()
	cpu := func(c attest.Component) bool { return c.Class == attest.ClassCPU }
	tpm := func(c attest.Component) bool { return c.Class == attest.ClassTPM }
	answers := func(c attest.Component) bool { return !cpu(c) || c.MediaType == azure.MediaType } // a nonce
	unread := len(parts) == 0                                                                     // and is rejected for that
	switch {
	case f.nonce != "" && o.Bundle() == nil && !unread && !slices.ContainsFunc(parts, answers):
		return e, withHint(errors.New("--nonce: nothing in a raw SEV-SNP report or TDX quote is compared with it"), "--report-data takes what REPORT_DATA must hold")
	case f.reportData != "" && !unread && !slices.ContainsFunc(parts, cpu):
		return e, withHint(errors.New("--report-data: this evidence has no REPORT_DATA"), "--nonce takes what a TPM's or a GPU's evidence must answer")
	}
	nonce := &e.Nonce
	if o.Bundle() == nil && (unread || slices.ContainsFunc(parts, cpu) || slices.ContainsFunc(parts, tpm)) {
		nonce = &e.QualifyingData
	}
	for _, flag := range []struct {
		name, text string
		into       *canon.Hex
	}{{"--nonce", f.nonce, nonce}, {"--report-data", f.reportData, &e.ReportData}} {
		if flag.text == "" {
			continue
		}
		if err := flag.into.UnmarshalText([]byte(strings.ToLower(flag.text))); err != nil {
			return e, fmt.Errorf("%s: %w", flag.name, err)
		}
		e.Type = attest.ExpectType
	}
	if e.Type == "" {
		return e, nil
	}
	return e, e.Check()
}

// print writes the results in the chosen form.
func (a *app) print(reports []report, output string) error {
	switch output {
	case "json", "jsonl":
		for _, r := range reports {
			b, err := canon.Marshal(r)
			if err != nil {
				return err
			}
			if output == "json" {
				b = indent(b)
			}
			fmt.Fprintf(a.stdout, "%s\n", b)
		}
		return nil
	case "csv":
		w := csv.NewWriter(a.stdout)
		w.Write([]string{"file", "verdict", "policy", "as_of", "subject", "claim", "status", "value", "reason"})
		for _, r := range reports {
			for _, c := range r.Claims {
				w.Write([]string{cell(r.File), r.Verdict.String(), cell(r.Policy.Name), r.AsOf.String(), c.Subject, c.ID, c.Status.String(), cell(c.Value), cell(string(c.Reason))})
			}
		}
		w.Flush()
		return w.Error()
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		r.text(a.stdout, len(reports) > 1)
	}
	return nil
}

// cell keeps a spreadsheet from running a stranger's text as a formula.
func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// text writes a result for people: the verdict and what it does not cover, then every reason with its mend.
func (r report) text(w io.Writer, named bool) {
	if named {
		fmt.Fprintf(w, "%s\n", r.File)
	}
	if !r.Roots.Vendor {
		fmt.Fprintf(w, "NOT VENDOR ROOTS (root set %s)\n", r.Roots.Digest.Short())
	}
	by := fmt.Sprintf("policy %s (sha256 %s), as of %s", r.Policy.Name, r.Policy.Digest.Short(), r.AsOf)
	if r.Verdict == policy.Accept && r.Policy.Name == "genuine" {
		fmt.Fprintf(w, "GENUINE HARDWARE: nothing decided about secrecy, freshness, revocation or state; %s\n", by)
		for _, c := range r.contradicted {
			fmt.Fprintf(w, "  contradicted  %-24s %-6s %s\n", c.ID, c.Subject, c.Reason)
		}
		return
	}
	fmt.Fprintf(w, "%s by %s; not decided: %s\n", strings.ToUpper(r.Verdict.String()), by, strings.Join(r.NotDecided, ", "))
	decisive, open := r.sortedReasons()
	printReasons(w, decisive)
	if len(decisive) > 0 && len(open) > 0 {
		fmt.Fprintf(w, "\n  and not shown either:\n")
	}
	printReasons(w, open)
	if r.Verdict != policy.Accept && len(r.Needs) > 0 {
		fmt.Fprintf(w, "\n  wanted and not given:\n")
		for _, n := range r.Needs {
			fmt.Fprintf(w, "    %s for %s: %s\n", n.Kind, n.For, n.Why)
			if n.Source != "" {
				fmt.Fprintf(w, "      %s\n", n.Source)
			}
		}
	}
}

// sortedReasons parts what the verdict rests on from what would, alone, have left it undecided.
func (r report) sortedReasons() (decisive, open []policy.Refusal) {
	for _, why := range r.Reasons {
		if r.Verdict == policy.Reject && why.Status == claim.Unknown && claim.Reason(why.Observed).Code() != claim.EvidenceMissing {
			open = append(open, why)
		} else {
			decisive = append(decisive, why)
		}
	}
	return decisive, open
}

// placed puts the line of a policy behind the name of its rule, where a file has it.
func placed(place string) string {
	if place == "" {
		return ""
	}
	return " (" + place + ")"
}

func printReasons(w io.Writer, reasons []policy.Refusal) {
	for _, why := range reasons {
		state := why.Status.String()
		if why.Status == claim.Affirmed {
			state = "not enough"
		}
		fmt.Fprintf(w, "\n  %s of %s is %s\n", why.Claim, why.Subject, state)
		for _, line := range []struct{ label, text string }{{"code", why.Code + ": " + policy.Means(why.Code)}, {"policy", why.Rule + placed(why.Place)}, {"required", why.Required}, {"observed", why.Observed}, {"fix (" + string(why.Who) + ")", why.Fix}} {
			if line.text != "" {
				fmt.Fprintf(w, "    %-16s %s\n", line.label, line.text)
			}
		}
	}
}
