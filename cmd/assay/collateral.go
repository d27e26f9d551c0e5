package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/collateral"
)

// preflightSubject is whose budget the commands spend: one person at one machine.
const preflightSubject = "command line"

// collateralFlags are the flags that the collateral commands share.
type collateralFlags struct {
	cache, output string
	baseURLs      []string
	timeout       time.Duration
}

func (a *app) collateralCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collateral",
		Short: "Fetch, keep and carry what vendors publish about their hardware",
		Long: `Fetch, keep and carry what vendors publish about their hardware.

Items are kept in the user's cache folder, where verify --cache finds them. Only
fetch and preflight ask anybody, and only the vendors or the servers that --base-url
names instead; the others work without a network.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.collateralFetchCommand(), a.collateralListCommand(), a.collateralCalendarCommand(), a.collateralPreflightCommand(),
		a.collateralImportCommand(), a.collateralExportCommand())
	return cmd
}

func (f *collateralFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cache, "cache", cacheDefault, "`FOLDER` of the store; default: assay/collateral in the user's cache folder")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *collateralFlags) addNetwork(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().StringArrayVar(&f.baseURLs, "base-url", nil, "`SERVICE=URL` to ask instead of a vendor's service: "+serviceNames()+"; may be repeated")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "`TIME` for all requests together, waiting included")
}

func serviceNames() string {
	var names []string
	for _, s := range collateral.Services() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// cacheDefault stands for the store in the user's cache folder.
const cacheDefault = "default"

// existingCache opens a collateral store that is to be read: one that was named has to be there.
func (a *app) existingCache(dir string) (*collateral.Store, error) {
	if dir != cacheDefault {
		if _, err := os.Stat(filepath.Join(dir, "record")); err != nil {
			return nil, withHint(fmt.Errorf("%s is no collateral store: %w", dir, err), "assay collateral fetch and import make one")
		}
	}
	return a.openCache(dir)
}

// openCache opens the collateral store, and makes it if need be.
func (a *app) openCache(dir string) (*collateral.Store, error) {
	if dir == cacheDefault {
		home := a.getenv("XDG_CACHE_HOME")
		if home == "" {
			if a.getenv("HOME") == "" {
				return nil, withHint(errors.New("no cache folder"), "name one with --cache FOLDER")
			}
			home = filepath.Join(a.getenv("HOME"), ".cache")
		}
		dir = filepath.Join(home, "assay", "collateral")
	}
	return collateral.OpenStore(dir)
}

// fromCache adds what the store has of what judging the evidence wants.
func (a *app) fromCache(dir string, o *verifier.Opened, c *attest.Case) error {
	store, err := a.existingCache(dir)
	if err != nil {
		return err
	}
	items, err := store.Have(func(have []attest.Collateral) []attest.Need { return needsOf(o, *c, have) }, c.At)
	for _, i := range items {
		c.Collateral = append(c.Collateral, i.Given())
	}
	return err
}

// needsOf names what judging evidence wants beside what the case and the caller have.
func needsOf(o *verifier.Opened, c attest.Case, have []attest.Collateral) []attest.Need {
	c.Collateral = append(slices.Clone(c.Collateral), have...)
	return verifier.Appraise(o, c).Needs
}

func (f *collateralFlags) check() error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("output %q: want text or json", f.output)
	}
	return nil
}

// fetcher opens the store and what asks vendors for it.
func (a *app) fetcher(f collateralFlags) (*collateral.Fetcher, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %s: want more than nothing", f.timeout)
	}
	origins, err := collateral.ParseOrigins(f.baseURLs...)
	if err != nil {
		return nil, err
	}
	store, err := a.openCache(f.cache)
	if err != nil {
		return nil, err
	}
	return collateral.NewFetcher(collateral.Config{Store: store, Origins: origins, Now: a.now, Sleep: collateral.Sleep}), nil
}

// printJSON writes a document for machines, its members in canonical order.
func (a *app) printJSON(v any) error {
	b, err := canon.Marshal(v)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s\n", indent(b))
	return nil
}

// printLines writes canonical JSON, one item a line.
func printLines[T any](a *app, items []T) error {
	for _, item := range items {
		b, err := canon.Marshal(item)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", b)
	}
	return nil
}

// itemReport is one item for machines.
type itemReport struct {
	Kind    string       `json:"kind"`
	Data    canon.Digest `json:"sha256"`
	Source  string       `json:"source"`
	Fetched canon.Time   `json:"fetched"`
	From    canon.Time   `json:"from"`
	Until   canon.Time   `json:"until"`
}

func reportItems(items []collateral.Item) []itemReport {
	out := []itemReport{}
	for _, i := range items {
		out = append(out, itemReport{i.Record.Kind, i.Record.Data, i.Record.Source, i.Record.Fetched, i.Facts.Window.From, i.Facts.Window.Until})
	}
	return out
}

func (a *app) printItems(items []collateral.Item) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, i := range items {
		fmt.Fprintf(w, "%s\t%s\tuntil %s\t%s\n", i.Record.Data.Short(), i.Record.Kind, i.Facts.Window.Until, i.Record.Source)
	}
	return w.Flush()
}

func (a *app) collateralFetchCommand() *cobra.Command {
	var f collateralFlags
	var typ, roots string
	cmd := &cobra.Command{
		Use:   "fetch FILE...",
		Short: "Fetch from the vendors what judging evidence files wants",
		Long: `Fetch from the vendors what judging evidence files wants.

What came with the evidence is not fetched, and of the evidence only ids go to the
vendors. An item in the store that is fresh is not asked for again. The exit code is
0 where all that vendors publish is at hand, 3 where something is not.`,
		Example: `  assay collateral fetch report.bin && assay verify report.bin --cache
  assay collateral fetch bundle.json --base-url amd-kds=https://kds-mirror.example`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.collateralFetch(c.Context(), args, typ, roots, f)
		},
	}
	f.addNetwork(cmd)
	cmd.Flags().StringVar(&typ, "type", "", "what the file is: "+strings.Join(verifier.Types(), ", ")+" (default: told from its bytes)")
	cmd.Flags().StringVar(&roots, "roots", "", "`FOLDER` of root files that replaces the vendors' pinned roots")
	return cmd
}

func (a *app) collateralFetch(ctx context.Context, files []string, typ, rootsDir string, f collateralFlags) error {
	fetcher, err := a.fetcher(f)
	if err != nil {
		return err
	}
	roots := verifier.VendorRoots()
	if rootsDir != "" {
		if roots, err = inputs.Roots(rootsDir); err != nil {
			return err
		}
	}
	type opened struct {
		evidence *verifier.Opened
		judged   attest.Case
	}
	var all []opened
	for _, name := range files {
		evidence, beside, err := inputs.Evidence(name)
		if err != nil {
			return err
		}
		o, err := verifier.Open(typ, evidence)
		if err != nil {
			return err
		}
		if o.Fault() != nil {
			return fmt.Errorf("%s: %w", name, o.Fault())
		}
		c := attest.Case{Roots: roots, Collateral: beside, At: canon.At(a.now()), Memory: attest.NewMemory()}
		for _, said := range verifier.Appraise(o, c).Claims {
			if strings.HasSuffix(said.ID, ".structure") && said.Status == claim.Contradicted {
				return fmt.Errorf("%s: %s of %s: %s", name, said.ID, said.Subject, said.Reason)
			}
		}
		all = append(all, opened{o, c})
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	got := fetcher.Collect(ctx, preflightSubject, func(have []attest.Collateral) (needs []attest.Need) {
		for _, o := range all {
			needs = append(needs, needsOf(o.evidence, o.judged, have)...)
		}
		return needs
	})
	if f.output == "json" {
		failures := got.Failures
		if failures == nil {
			failures = []collateral.Failure{}
		}
		err = a.printJSON(struct {
			Type     string               `json:"type"`
			Items    []itemReport         `json:"items"`
			Failures []collateral.Failure `json:"failures"`
		}{"assay/collateral-fetch/v1", reportItems(got.Items), failures})
	} else {
		err = a.printItems(got.Items)
		for _, why := range got.Failures {
			a.say("%s: %s: %s", why.Kind, why.Code, why.Why)
			if why.Source != "" {
				a.say("  %s", why.Source)
			}
		}
	}
	if err == nil && slices.ContainsFunc(got.Failures, func(why collateral.Failure) bool { return why.Code != collateral.NotAsked }) {
		return outcome(exitUndecided)
	}
	return err
}

func (a *app) collateralListCommand() *cobra.Command {
	var f collateralFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the items of the store", Example: "  assay collateral list -o json", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			items, err := a.listCache(f)
			if err != nil {
				return err
			}
			if f.output == "json" {
				return a.printJSON(reportItems(items))
			}
			return a.printItems(items)
		},
	}
	f.add(cmd)
	return cmd
}

// listCache reads the whole store. What is damaged is said and left out.
func (a *app) listCache(f collateralFlags) ([]collateral.Item, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	store, err := a.existingCache(f.cache)
	if err != nil {
		return nil, err
	}
	items, err := store.List()
	if err != nil {
		fmt.Fprintf(a.stderr, "assay: left out: %v\n", err)
	}
	return items, nil
}

func (a *app) collateralCalendarCommand() *cobra.Command {
	var f collateralFlags
	var asOf string
	var soon time.Duration
	cmd := &cobra.Command{
		Use:   "calendar",
		Short: "Say what lapses when",
		Long: `Say what lapses when: of each source the newest item, the first that lapses first.

The exit code is 0 where nothing lapses soon, 3 where something does or has.`,
		Example: `  assay collateral calendar --soon 240h`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.collateralCalendar(asOf, soon, f) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&asOf, "as-of", "", "seen at this `TIME` (default: now)")
	cmd.Flags().DurationVar(&soon, "soon", 7*24*time.Hour, "`TIME` before its end that an item lapses soon")
	return cmd
}

func (a *app) collateralCalendar(asOf string, soon time.Duration, f collateralFlags) error {
	at := canon.At(a.now())
	if asOf != "" {
		var err error
		if at, err = canon.ParseTime(asOf); err != nil {
			return fmt.Errorf("--as-of: %w", err)
		}
	}
	if soon < 0 {
		return fmt.Errorf("--soon %s: want a time before the end, not behind it", soon)
	}
	items, err := a.listCache(f)
	if err != nil {
		return err
	}
	lines := collateral.Calendar(items, at, soon)
	if f.output == "json" {
		err = a.printJSON(lines)
	} else {
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Until, l.State, l.Kind, l.Source)
		}
		err = w.Flush()
	}
	if err == nil && slices.ContainsFunc(lines, func(l collateral.Lapse) bool { return l.State != collateral.StateValid }) {
		return outcome(exitUndecided)
	}
	return err
}

// preflightFlags say what a machine will run.
type preflightFlags struct {
	product, chip, tcb, fmspc, policy     string
	driver, gpu, vbios, board, switchBIOS string
	rims                                  []string
}

func (a *app) collateralPreflightCommand() *cobra.Command {
	var f collateralFlags
	var p preflightFlags
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Ask before flashing: do the vendors publish what the new firmware is judged with?",
		Long: `Ask before flashing: do the vendors publish what the new firmware is judged with?

A machine whose firmware has no published certificate, TCB info or reference manifest
is not refused as tampered with, but nobody can accept it either. --policy also says
which floors of a policy the new TCB breaks: hosts that run it do not match. Exit
codes: 0 all is published and no floor breaks, 1 something is not or one does, 2 usage
or could not run, 3 a vendor could not be asked.`,
		Example: `  assay collateral preflight --product Milan --chip 0123... --tcb 'bl=4 tee=0 snp=24 ucode=219'
  assay collateral preflight --product Milan --chip 0123... --tcb 'bl=4 tee=0 snp=24 ucode=219' --policy renter.yaml
  assay collateral preflight --fmspc 00806f050000
  assay collateral preflight --gpu hopper --driver 570.124.03 --board G520_0280_895 --vbios 96.00.9D.00.02`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.collateralPreflight(c.Context(), p, f) },
	}
	f.addNetwork(cmd)
	fl := cmd.Flags()
	fl.StringVar(&p.product, "product", "", "SEV-SNP: product line, Milan, Genoa or Turin")
	fl.StringVar(&p.chip, "chip", "", "SEV-SNP: CHIP_ID in `HEX`")
	fl.StringVar(&p.tcb, "tcb", "", "SEV-SNP: the new TCB as claims have it, such as 'bl=4 tee=0 snp=24 ucode=219'")
	fl.StringVar(&p.policy, "policy", "", "SEV-SNP: built-in policy or policy `FILE` whose floors the new TCB is held against")
	fl.StringVar(&p.fmspc, "fmspc", "", "TDX: FMSPC of the platform family in `HEX`")
	fl.StringVar(&p.gpu, "gpu", "", "NVIDIA: architecture of the driver's GPU, hopper or blackwell (default: hopper)")
	fl.StringVar(&p.driver, "driver", "", "NVIDIA: the new driver's `VERSION`")
	fl.StringVar(&p.board, "board", "", "NVIDIA: project, project SKU and chip SKU, such as G520_0280_895")
	fl.StringVar(&p.vbios, "vbios", "", "NVIDIA: the new VBIOS `VERSION` of the board")
	fl.StringVar(&p.switchBIOS, "switch-bios", "", "NVIDIA: the new BIOS `VERSION` of the switches")
	fl.StringArrayVar(&p.rims, "rim", nil, "NVIDIA: `ID` of a manifest at the RIM service; may be repeated")
	return cmd
}

// needs says what the machine will be judged with.
func (p preflightFlags) needs() (needs []attest.Need, err error) {
	add := func(n attest.Need, e error) {
		needs, err = append(needs, n), errors.Join(err, e)
	}
	if p.product != "" || p.chip != "" || p.tcb != "" {
		line := sevsnp.Line(p.product)
		chip, hexErr := hex.DecodeString(p.chip)
		switch {
		case !slices.Contains(sevsnp.Lines(), line):
			return nil, fmt.Errorf("--product %q: want one of %v", p.product, sevsnp.Lines())
		case hexErr != nil:
			return nil, fmt.Errorf("--chip: %w", hexErr)
		}
		add(collateral.NeedVCEK(line, chip, p.tcb))
	}
	if p.fmspc != "" {
		fmspc, hexErr := hex.DecodeString(p.fmspc)
		if hexErr != nil {
			return nil, fmt.Errorf("--fmspc: %w", hexErr)
		}
		add(collateral.NeedTCBInfo(fmspc))
	}
	switch {
	case p.driver != "":
		add(collateral.NeedDriverRIM(cmp.Or(p.gpu, "hopper"), p.driver))
	case p.gpu != "":
		return nil, errors.New("--gpu says what GPU a --driver is for, and none is named")
	}
	if p.vbios != "" || p.board != "" {
		add(collateral.NeedVBIOSRIM(p.board, p.vbios))
	}
	if p.switchBIOS != "" {
		add(collateral.NeedSwitchRIM(p.switchBIOS))
	}
	for _, id := range p.rims {
		add(collateral.NeedRIM(id, "the manifest "+id))
	}
	if err == nil && len(needs) == 0 {
		err = withHint(errors.New("nothing is asked"), "name what the machine will run: --product, --fmspc, --driver, --vbios, --switch-bios or --rim")
	}
	return needs, err
}

// broken lists the rules of the policy that a machine breaks by the new TCB alone, whatever else it shows: it is reported,
// committed and launched at.
func (p preflightFlags) broken() ([]policy.Refusal, error) {
	if p.policy == "" {
		return []policy.Refusal{}, nil
	}
	if p.tcb == "" {
		return nil, errors.New("--policy: its floors are held against --tcb, and none is named")
	}
	by, _, err := inputs.Policy(p.policy)
	if err != nil {
		return nil, err
	}
	const subject = "cpu:0"
	var set claim.Set
	set.Affirm("sevsnp.structure", subject, "")
	set.Affirm("sevsnp.product", subject, p.product)
	levels := []string{"sevsnp.tcb", "sevsnp.committed-tcb", "sevsnp.launch-tcb"}
	for _, id := range levels {
		set.Affirm(id, subject, p.tcb)
	}
	for i := range set { // what they rest on is of the machine's evidence, and not asked here
		set[i].Basis = []string{}
	}
	v := policy.Decide(set, by, 0)
	v.Reasons = slices.DeleteFunc(v.Reasons, func(r policy.Reason) bool { return r.Status != claim.Affirmed || !slices.Contains(levels, r.Claim) })
	return by.Refusals(v), nil
}

func (a *app) collateralPreflight(ctx context.Context, p preflightFlags, f collateralFlags) error {
	needs, err := p.needs()
	if err != nil {
		return err
	}
	broken, err := p.broken()
	if err != nil {
		return err
	}
	fetcher, err := a.fetcher(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	answers := fetcher.Preflight(ctx, preflightSubject, needs)
	if f.output == "json" {
		if err := a.printJSON(struct {
			Type   string              `json:"type"`
			Items  []collateral.Answer `json:"items"`
			Breaks []policy.Refusal    `json:"breaks"` // rules of --policy that the new TCB breaks
		}{"assay/preflight/v1", answers, broken}); err != nil {
			return err
		}
	} else {
		for _, n := range answers {
			printAnswer(a.stdout, n)
		}
		for _, r := range broken {
			fmt.Fprintf(a.stdout, "BREAKS         %s%s: %s is %s, required %s: hosts that run it do not match\n", r.Rule, placed(r.Place), r.Claim, r.Observed, r.Required)
		}
	}
	is := func(state string) bool {
		return slices.ContainsFunc(answers, func(n collateral.Answer) bool { return n.Published == state })
	}
	switch {
	case is(collateral.PublishedNo), len(broken) > 0:
		return outcome(exitReject)
	case is(collateral.PublishedUnknown):
		return outcome(exitUndecided)
	}
	return nil
}

func printAnswer(w io.Writer, n collateral.Answer) {
	switch n.Published {
	case collateral.PublishedYes:
		fmt.Fprintf(w, "published      %s, until %s\n", n.What, n.Until)
	case collateral.PublishedNo:
		missing := ""
		if n.Kind == attest.KindNVIDIARIM {
			missing = "RIM missing: "
		}
		fmt.Fprintf(w, "NOT PUBLISHED  %s%s: wait before flashing\n", missing, n.What)
	default:
		fmt.Fprintf(w, "not known      %s: %s\n", n.What, n.Why)
	}
	fmt.Fprintf(w, "               %s\n", n.Source)
}

func (a *app) collateralExportCommand() *cobra.Command {
	var f collateralFlags
	var out string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the store into one file, for a network without access",
		Long:    "Write the store into one file, for a network without access. Equal stores give equal files.",
		Example: "  assay collateral export --out collateral.tar",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			items, err := a.listCache(f)
			if err != nil {
				return err
			}
			return a.writeOut(out, func(w io.Writer) error { return collateral.Export(w, items) })
		},
	}
	cmd.Flags().StringVar(&f.cache, "cache", cacheDefault, "`FOLDER` of the store; default: assay/collateral in the user's cache folder")
	cmd.Flags().StringVar(&out, "out", "-", "`FILE` to write; - is stdout")
	f.output = "text"
	return cmd
}

func (a *app) collateralImportCommand() *cobra.Command {
	var f collateralFlags
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Take an exported set, or files of collateral, into the store",
		Long: `Take an exported set, or files of collateral, into the store.

Nothing is verified: each appraisal does that. A file that is no set must say itself
where its vendor publishes it, as certificates of AMD's chips, revocation lists of AMD
and Intel, and Intel's signed bodies with their issuer chain do.`,
		Example: `  assay collateral import collateral.tar
  assay collateral import vcek.der milan.crl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.collateralImport(args, f) },
	}
	f.add(cmd)
	return cmd
}

func (a *app) collateralImport(files []string, f collateralFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	store, err := a.openCache(f.cache)
	if err != nil {
		return err
	}
	var items []collateral.Item
	for _, name := range files {
		got, err := a.importFile(store, name)
		if err != nil {
			return err
		}
		items = append(items, got...)
	}
	if f.output == "json" {
		return a.printJSON(reportItems(items))
	}
	return a.printItems(items)
}

// maxSetFile bounds the file of a set.
const maxSetFile = 1 << 30

func (a *app) importFile(store *collateral.Store, name string) (items []collateral.Item, err error) {
	head, err := files.Prefix(name, 512)
	if err != nil {
		return nil, err
	}
	if len(head) == 512 && bytes.Equal(head[257:262], []byte("ustar")) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		switch {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Size() > maxSetFile:
			return nil, fmt.Errorf("%s: want a plain file of at most %d bytes", name, maxSetFile)
		}
		if items, err = store.Import(file, info.Size()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return items, nil
	}
	given, err := inputs.Collateral(name)
	if err != nil {
		return nil, err
	}
	for _, item := range given {
		sources, err := collateral.SourcesOf(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, source := range sources {
			i, err := store.Put(ledger.Collateral{Type: ledger.CollateralType, Kind: item.Kind, Data: item.Digest(), Source: source, Fetched: canon.At(a.now())}, item.Data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			items = append(items, i)
		}
	}
	return items, nil
}
