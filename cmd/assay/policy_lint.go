package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// lintWitnesses is the kind of a fault of a witness policy.
const lintWitnesses = "witnesses"

func (a *app) policyLintCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Say what is wrong with policy files, with line and column",
		Long: `Say what is wrong with policy files, with line and column.

An error is what every command refuses: a rule that no machine can meet, rules that
contradict each other, a claim that does not exist (with the nearest that does), a
bare number for a tier, data at providers who may not hold it. A warning is what
loads and was probably not meant, a note what is left open. A FILE may also be a
witness policy (C2SP tlog-policy): any two of its quorums must share a witness.

Exit codes: 0 no error, 1 an error, 2 usage or a file that cannot be read.`,
		Example: `  assay policy lint mine.yaml
  assay policy lint policies/*.yaml -o sarif > lint.sarif`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.policyLint(args, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or sarif (SARIF 2.1.0)")
	return cmd
}

// lintFinding is one line of a lint report.
type lintFinding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Level   string `json:"level"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type lintReport struct {
	Type     string        `json:"type"` // assay/lint/v1
	Files    []string      `json:"files"`
	Errors   int           `json:"errors"`
	Findings []lintFinding `json:"findings"`
}

func (a *app) policyLint(names []string, output string) error {
	if !slices.Contains([]string{"text", "json", "sarif"}, output) {
		return fmt.Errorf("output %q: want text, json or sarif", output)
	}
	r := lintReport{Type: "assay/lint/v1", Files: names, Findings: []lintFinding{}}
	for _, name := range names {
		data, err := files.Bounded(name, doc.MaxSize)
		if _, built := policy.Builtin(name); built && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("policy %q is built in: lint reads files that people write; assay policy explain %s says each rule", name, name)
		}
		if err != nil {
			return err
		}
		for _, f := range lintFile(name, data) {
			if f.Level == policy.LevelError {
				r.Errors++
			}
			r.Findings = append(r.Findings, lintFinding{name, f.Line, f.Column, f.Level, f.Kind, f.Message})
		}
	}
	if err := a.printLint(r, output); err != nil {
		return err
	}
	if r.Errors > 0 {
		return outcome(exitReject)
	}
	return nil
}

// lintFile lints a policy or a witness policy, told apart by how the file begins.
func lintFile(name string, data []byte) []policy.Advice {
	if inputs.IsEnvelope(data) {
		return []policy.Advice{{Kind: policy.LintDocument, Level: policy.LevelError, Message: "it is signed: lint what was signed", Position: doc.Position{Line: 1, Column: 1}}}
	}
	for line := range bytes.Lines(data) {
		word, _, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if word == "" || word[0] == '#' {
			continue
		}
		if !slices.Contains([]string{"log", "witness", "group", "quorum"}, word) {
			break
		}
		_, err := ledger.ParseWitnessPolicy(data)
		if err == nil {
			return nil
		}
		at := doc.Position{Line: 1, Column: 1}
		fmt.Sscanf(err.Error(), "witness policy: line %d:", &at.Line)
		return []policy.Advice{{Kind: lintWitnesses, Level: policy.LevelError, Message: err.Error(), Position: at}}
	}
	return policy.Lint(name, data)
}

func (a *app) printLint(r lintReport, output string) error {
	switch output {
	case "text":
		for _, f := range r.Findings {
			fmt.Fprintf(a.stdout, "%s:%d:%d: %s: %s (%s)\n", f.File, f.Line, f.Column, f.Level, f.Message, f.Kind)
		}
		if len(r.Findings) == 0 {
			a.say("nothing to say against %s", strings.Join(r.Files, ", "))
		}
		return nil
	case "sarif":
		return a.printJSON(sarif(r))
	}
	return a.printJSON(r)
}

// The part of SARIF that a linter needs (OASIS, Static Analysis Results Interchange Format 2.1.0, sections 3.13 to 3.30).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string    `json:"id"`
		About sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
)

func sarif(r lintReport) sarifLog {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "assay policy lint", Rules: []sarifRule{}}}, ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	rules := &run.Tool.Driver.Rules
	for _, k := range policy.LintKinds {
		*rules = append(*rules, sarifRule{k.Kind, sarifText{k.About}})
	}
	*rules = append(*rules, sarifRule{lintWitnesses, sarifText{"A witness policy that cannot be read, or two of whose quorums share no witness."}})
	for _, f := range r.Findings {
		uri := (&url.URL{Path: filepath.ToSlash(f.File)}).String()
		run.Results = append(run.Results, sarifResult{
			f.Kind, slices.IndexFunc(*rules, func(x sarifRule) bool { return x.ID == f.Kind }), f.Level, sarifText{f.Message},
			[]sarifLocation{{sarifPhysical{sarifArtifact{uri}, sarifRegion{f.Line, f.Column}}}},
		})
	}
	return sarifLog{"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", "2.1.0", []sarifRun{run}}
}
