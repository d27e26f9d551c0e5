package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/market/capacity"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/server"
)

// codeList is the codes of one kind of refusal.
type codeList struct {
	List  string       `json:"list"`
	About string       `json:"about"`
	Codes []claim.Code `json:"codes"`
}

// codeLists are all codes that anything here gives a refusal. Each room keeps its own; this is where they stand together.
func codeLists() []codeList {
	return []codeList{
		{"claims", "Why a claim is not affirmed. In a verdict, what the claim is about stands before it, or party: `signature.mismatch`, `party.lapsed`.", claim.Codes},
		{"decisions", "Why a value that is proven is not enough for a policy, in a verdict: `tcb.floor`.", policy.Codes},
		{"certificates", "Why a certificate or a device is in its state, what was found on a host, why something was revoked, and why an issuer's word does not count.", vetting.Codes},
		{"requests", "Why a server refuses a request: `code` of a problem document.", server.Codes()},
		{"inventories", "Why a row of an inventory is not enrolled.", enrol.Codes},
		{"benchmarks", "Why a benchmark gave no score.", capacity.Codes},
	}
}

func (a *app) codesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "codes [CODE]...",
		Short: "Say what the code of a refusal means; without one, list all",
		Long: `Say what the code of a refusal means; without one, list all.

Of a verdict's code such as tcb.floor the second half is looked up. A code never
changes its meaning.`,
		Example: "  assay codes tcb.floor\n  assay codes -o json",
		RunE:    func(_ *cobra.Command, args []string) error { return a.codes(args, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or markdown")
	return cmd
}

func (a *app) codes(wanted []string, output string) error {
	lists := codeLists()
	for _, code := range wanted {
		if !slices.ContainsFunc(lists, func(l codeList) bool { return len(l.of(code)) > 0 }) {
			return withHint(fmt.Errorf("code %.80q: none that this build gives", code), "assay codes lists all")
		}
	}
	if len(wanted) > 0 {
		for i := range lists {
			var some []claim.Code
			for _, code := range wanted {
				some = append(some, lists[i].of(code)...)
			}
			lists[i].Codes = some
		}
		lists = slices.DeleteFunc(lists, func(l codeList) bool { return len(l.Codes) == 0 })
	}
	switch output {
	case "json":
		return a.printJSON(lists)
	case "markdown":
		fmt.Fprint(a.stdout, codesPage(lists))
		return nil
	case "text":
	default:
		return fmt.Errorf("output %q: want text, json or markdown", output)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, l := range lists {
		for _, c := range l.Codes {
			fmt.Fprintf(w, "%s\t%s\t%s\n", l.List, c.Code, c.Means)
		}
	}
	return w.Flush()
}

// of returns the codes of the list that a word is: the code itself, or behind what a claim is about.
func (l codeList) of(word string) (found []claim.Code) {
	why := word
	if l.List == "claims" || l.List == "decisions" {
		if _, half, ok := strings.Cut(word, "."); ok {
			why = half
		}
	}
	for _, c := range l.Codes {
		if c.Code == why {
			found = append(found, c)
		}
	}
	return found
}

// codesPage is docs/codes.md.
func codesPage(lists []codeList) string {
	var b strings.Builder
	b.WriteString("# Codes of refusals\n\nWritten by `assay codes -o markdown`. Programs branch on a code, people read its sentence; a code never changes its meaning.\n")
	for _, l := range lists {
		fmt.Fprintf(&b, "\n## %s\n%s\n\n| code | means |\n|---|---|\n", strings.ToUpper(l.List[:1])+l.List[1:], l.About)
		for _, c := range l.Codes {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Code, c.Means)
		}
	}
	return b.String()
}
