package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// importBatch is how many hosts one request hands in: few, so that the bar moves and little is sent twice.
const importBatch = 100

// faultColumns are the columns of an error file.
var faultColumns = []string{"row", "asset", "column", "code", "value", "problem", "fix"}

func (a *app) enrolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enrol",
		Short: "Bring a fleet of machines in: inventory, tokens for racks, reconciliation",
		Long: `Bring a fleet of machines in, at the server that ` + "`assay login`" + ` remembers.

  1. assay enrol init              a commented template of an inventory
  2. assay enrol import FILE       its hosts are to come; bad rows go to an error file
  3. assay enrol tokens            one expiring token for each rack
  4. on each host: assay-agent join URL --token-file FILE, then assay-agent run
  5. assay enrol status            how far it is
  6. assay enrol reconcile         what is missing, unexpected, moved or duplicate
  7. assay enrol retire ASSET      a machine leaves: its node is revoked`,
		Example: "  assay enrol init\n  assay enrol import inventory.csv\n  assay enrol tokens --dir tokens\n  assay enrol status\n  assay enrol reconcile -o csv > findings.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.enrolInitCommand(), a.enrolImportCommand(), a.enrolTokensCommand(), a.enrolStatusCommand(), a.enrolReconcileCommand(), a.enrolRetireCommand(), a.enrolRetiredCommand())
	return cmd
}

func (a *app) enrolInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a commented template of an inventory, in CSV and in JSON",
		Long: `Write a commented template of an inventory, in CSV and in JSON.

It writes inventory.csv and inventory.json into DIR, here where none is named. Use
the one that suits you. A file that is there is left as it is, and nothing is written.`,
		Example: "  assay enrol init\n  assay enrol init fleet",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return a.enrolInit(dir)
		},
	}
}

func (a *app) enrolInit(dir string) error {
	templates := []struct {
		name string
		data []byte
	}{{"inventory.csv", enrol.TemplateCSV()}, {"inventory.json", enrol.TemplateJSON()}}
	for _, t := range templates {
		if _, err := os.Lstat(filepath.Join(dir, t.name)); err == nil {
			return withHint(fmt.Errorf("%s is there already", filepath.Join(dir, t.name)), "name another folder: assay enrol init DIR")
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, t := range templates {
		if err := os.WriteFile(filepath.Join(dir, t.name), t.data, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, filepath.Join(dir, t.name))
	}
	a.say("fill one of them in, then: assay enrol import FILE")
	return nil
}

func (a *app) enrolImportCommand() *cobra.Command {
	var errorsFile, output string
	var dry bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Hand in an inventory: hosts that are to come",
		Long: fmt.Sprintf(`Hand in an inventory: hosts that are to come.

FILE is CSV (comma, semicolon or tab; UTF-8) or JSON, as `+"`assay enrol init`"+` writes it.
A bad row stops no other: it goes to the error file, with row, column, code, problem
and fix. What the server has already is left alone, so the same file handed in twice
changes nothing, and an import that was cut off is handed in again. A row replaces all
that an earlier one said of its asset, with what its columns lack. A host that is no
longer in the file stays. At most %d hosts and %d MiB.

Exit codes: 0 every row was taken, 1 some were refused, 2 usage or could not run.`, enrol.MaxRows, enrol.MaxFile>>20),
		Example: "  assay enrol import inventory.csv\n  assay enrol import inventory.csv --dry-run\n  assay enrol import inventory.json --errors faults.csv",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if errorsFile == "" {
				errorsFile = args[0] + ".errors.csv"
			}
			return a.enrolImport(c.Context(), args[0], errorsFile, output, dry)
		},
	}
	cmd.Flags().StringVar(&errorsFile, "errors", "", "error `FILE` for rows that are refused (default FILE.errors.csv)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "read the file and hand nothing in")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// imported is what an import came to.
type imported struct {
	Rows      int    `json:"rows"` // of the file that are hosts
	Enrolled  int    `json:"enrolled"`
	Added     int    `json:"added"`
	Changed   int    `json:"changed"`
	Unchanged int    `json:"unchanged"`
	Refused   int    `json:"refused"` // rows
	Errors    string `json:"errors,omitzero"`
	DryRun    bool   `json:"dry_run,omitzero"`
}

func (a *app) enrolImport(ctx context.Context, name, errorsFile, output string, dry bool) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	if _, err := isErrorFile(errorsFile); err != nil {
		return err // before anything is handed in
	}
	data, err := files.Bounded(name, enrol.MaxFile)
	if err != nil {
		return err
	}
	rows, faults, err := enrol.Read(name, data)
	if err != nil {
		return err
	}
	done := imported{DryRun: dry}
	if !dry {
		c, err := a.session()
		if err != nil {
			return err
		}
		refused, err := a.handIn(ctx, c, rows, &done)
		if err != nil {
			return withHint(fmt.Errorf("%d of %d hosts were handed in: %w", done.Enrolled, len(rows), err), "run it again: what was taken is not taken twice")
		}
		faults = append(faults, refused...)
	}
	bad := map[int]bool{}
	for _, f := range faults {
		bad[f.Row] = true
	}
	done.Refused = len(bad)
	if dry {
		done.Enrolled = len(rows)
	}
	done.Rows = done.Enrolled + done.Refused
	if err := writeFaults(errorsFile, faults); err != nil {
		return err
	}
	if len(faults) > 0 {
		done.Errors = errorsFile
	}
	if output == "json" {
		if err := a.printJSON(done); err != nil {
			return err
		}
	} else if dry {
		fmt.Fprintf(a.stdout, "%d rows: %d good, %d refused; nothing was handed in\n", done.Rows, done.Enrolled, done.Refused)
	} else {
		fmt.Fprintf(a.stdout, "%d rows: %d enrolled (%d added, %d changed, %d unchanged), %d refused\n", done.Rows, done.Enrolled, done.Added, done.Changed, done.Unchanged, done.Refused)
	}
	if done.Rows == 0 {
		a.say("%s has no host: each is a row below the line that names the columns, in JSON a member of hosts", name)
	}
	if len(faults) > 0 {
		a.say("refused rows are explained in %s", errorsFile)
		return outcome(exitReject)
	}
	return nil
}

// handIn hands hosts in, in batches. Those that lack a device which another row may yet give up are handed in once more.
func (a *app) handIn(ctx context.Context, c *client.Client, rows []enrol.Row, done *imported) ([]enrol.Fault, error) {
	tell := a.progress()
	var faults []enrol.Fault
	for todo, sent := rows, 0; len(todo) > 0; {
		faults = nil
		var again []enrol.Row
		moved := false
		for batch := range slices.Chunk(todo, importBatch) {
			hosts := make([]ledger.Host, len(batch))
			for i, r := range batch {
				hosts[i] = r.Host
			}
			answer, err := c.ImportHosts(ctx, hosts)
			if err != nil {
				return nil, err
			}
			if len(answer.Hosts) != len(batch) {
				return nil, fmt.Errorf("the server answered for %d hosts, handed in were %d", len(answer.Hosts), len(batch))
			}
			for i, h := range answer.Hosts {
				switch h.State {
				case client.HostAdded:
					done.Added++
				case client.HostChanged:
					done.Changed, moved = done.Changed+1, true
				case client.HostUnchanged:
					done.Unchanged++
				case client.HostRefused:
					faults = append(faults, enrol.Fault{Row: batch[i].Row, Asset: h.Asset, Column: h.Column, Code: h.Code, Problem: h.Problem, Fix: h.Fix})
					again = append(again, batch[i])
					continue
				default:
					return nil, fmt.Errorf("the server answered %.80q for asset %s, which is not known to this build", h.State, h.Asset)
				}
				done.Enrolled++
			}
			if sent += len(batch); tell != nil && sent <= len(rows) {
				tell("import", int64(sent), int64(len(rows)))
			}
		}
		if todo = again; !moved {
			break
		}
	}
	return faults, nil
}

// isErrorFile reports whether a file is one of faults that an earlier import wrote. What else is there is an error: it is
// never written over.
func isErrorFile(name string) (bool, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	begin := []byte(strings.Join(faultColumns, ",") + "\n")
	var data []byte
	if err == nil && info.Mode().IsRegular() {
		data, err = files.Prefix(name, len(begin))
	}
	if err != nil {
		return false, err
	}
	if !bytes.Equal(data, begin) {
		return false, withHint(fmt.Errorf("%s is there, and is no error file of an import: it is not written over", name), "name another with --errors, or move it away")
	}
	return true, nil
}

// writeFaults writes an error file. One of an earlier import goes where there is no fault any more.
func writeFaults(name string, faults []enrol.Fault) error {
	is, err := isErrorFile(name)
	switch {
	case err != nil:
		return err
	case len(faults) == 0 && is:
		return os.Remove(name)
	case len(faults) == 0:
		return nil
	}
	slices.SortStableFunc(faults, func(a, b enrol.Fault) int { return a.Row - b.Row })
	var b bytes.Buffer
	rows := csv.NewWriter(&b)
	rows.Write(faultColumns)
	for _, f := range faults {
		writeCells(rows, strconv.Itoa(f.Row), f.Asset, f.Column, f.Code, f.Value, f.Problem, f.Fix)
	}
	rows.Flush()
	return files.Replace(name, b.Bytes())
}

// writeCells writes a row in which no cell is a formula.
func writeCells(w *csv.Writer, cells ...string) {
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	w.Write(cells)
}

func (a *app) enrolTokensCommand() *cobra.Command {
	var racks []string
	var dir, output string
	var life time.Duration
	var revoke bool
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Make a token for each rack that waits for hosts",
		Long: `Make a token for each rack that waits for hosts.

A token lets as many nodes in as its rack has hosts that are still to come, and ends
with the last of them or when it expires. The server keeps a hash of it and cannot
show it again. Tokens go to stdout, or with --dir into one file each, for its owner
alone to read. Those that were made before stay good: --revoke ends them.`,
		Example: "  assay enrol tokens --dir tokens\n  assay enrol tokens --rack fra1/B07 --life 24h\n  assay enrol tokens --rack fra1/B07 --revoke",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			places, err := parseRacks(racks)
			if err != nil {
				return err
			}
			if revoke {
				if dir != "" || life != 0 {
					return errors.New("--revoke makes no tokens: --dir and --life do not go with it")
				}
				return a.revokeRackTokens(c.Context(), places)
			}
			return a.enrolTokens(c.Context(), places, dir, output, life)
		},
	}
	cmd.Flags().StringSliceVar(&racks, "rack", nil, "`SITE/RACK`, several times (default: every rack that waits)")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "end the tokens of these racks, and make none; nodes that they let in stay")
	cmd.Flags().StringVar(&dir, "dir", "", "folder for one file for each rack, SITE_RACK.token")
	cmd.Flags().DurationVar(&life, "life", 0, "how long the tokens are good (default: 168h, at most 720h)")
	cmd.Flags().StringVarP(&output, "output", "o", "csv", "csv or json, without --dir")
	return cmd
}

// rackPlace is a rack at its site.
type rackPlace struct{ site, rack string }

func comparePlaces(a, b rackPlace) int {
	return cmp.Or(strings.Compare(a.site, b.site), strings.Compare(a.rack, b.rack))
}

func parseRacks(names []string) (racks []rackPlace, err error) {
	for _, name := range names {
		site, rack, ok := strings.Cut(name, "/")
		if !ok || site == "" || rack == "" {
			return nil, fmt.Errorf("rack %q: want SITE/RACK", name)
		}
		racks = append(racks, rackPlace{site, rack})
	}
	return racks, nil
}

// revokeRackTokens ends the tokens of racks, of all where none is named.
func (a *app) revokeRackTokens(ctx context.Context, racks []rackPlace) error {
	c, err := a.session()
	if err != nil {
		return err
	}
	tokens, err := rackTokens(ctx, c, "")
	if err != nil {
		return err
	}
	ended := 0
	for _, t := range tokens {
		if len(racks) > 0 && !slices.Contains(racks, rackPlace{t.Site, t.Rack}) {
			continue
		}
		if err := c.RevokeRackToken(ctx, t.ID); err != nil {
			return fmt.Errorf("token %s of rack %s/%s: %w", t.ID, t.Site, t.Rack, err)
		}
		ended++
		a.say("site %s, rack %s: token %s is revoked; it let %d of %d nodes in", t.Site, t.Rack, t.ID, t.Used, t.Uses)
	}
	if ended == 0 {
		a.say("no token of these racks is good")
	}
	return nil
}

// rackTokens reads the tokens of racks that are good.
func rackTokens(ctx context.Context, c *client.Client, tenant string) ([]client.RackToken, error) {
	return pages(func(after string) ([]client.RackToken, string, error) {
		page, err := c.RackTokens(ctx, tenant, after, false)
		return page.Tokens, page.After, err
	})
}

func (a *app) enrolTokens(ctx context.Context, racks []rackPlace, dir, output string, life time.Duration) error {
	switch {
	case output != "csv" && output != "json":
		return fmt.Errorf("output %q: want csv or json", output)
	case life < 0 || life%time.Second != 0:
		return fmt.Errorf("life %s: want whole seconds", life)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	if len(racks) == 0 {
		hosts, err := allHosts(ctx, c, "")
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if r := (rackPlace{h.Host.Site, h.Host.Rack}); h.State == client.HostMissing && !slices.Contains(racks, r) {
				racks = append(racks, r)
			}
		}
		switch {
		case len(hosts) == 0:
			a.say("the inventory has no host: assay enrol import FILE")
			return nil
		case len(racks) == 0:
			a.say("no rack waits for a host: all %d are there", len(hosts))
			return nil
		}
		slices.SortFunc(racks, comparePlaces)
	}
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	list := client.RackTokens{Tokens: []client.RackToken{}}
	for _, r := range racks {
		var t client.RackToken
		if t, err = a.rackToken(ctx, c, r, dir, life); err != nil {
			err = fmt.Errorf("rack %s/%s: %w", r.site, r.rack, err)
			break // those before are good, and the server does not show them again
		}
		list.Tokens = append(list.Tokens, t)
	}
	switch {
	case dir != "", len(list.Tokens) == 0:
		return err
	case output == "json":
		return errors.Join(err, a.printJSON(list))
	}
	rows := csv.NewWriter(a.stdout)
	rows.Write([]string{"site", "rack", "token", "uses", "expires"})
	for _, t := range list.Tokens {
		writeCells(rows, t.Site, t.Rack, t.Token, strconv.FormatInt(t.Uses, 10), t.Expires.String())
	}
	rows.Flush()
	return errors.Join(err, rows.Error())
}

// rackToken has a token made, and writes it into a folder if there is one.
func (a *app) rackToken(ctx context.Context, c *client.Client, r rackPlace, dir string, life time.Duration) (client.RackToken, error) {
	// Names become those of files, and may be a server's words.
	if err := errors.Join(ledger.CheckSite(r.site), ledger.CheckName(r.rack, ledger.MaxAsset)); err != nil {
		return client.RackToken{}, err
	}
	t, err := c.NewRackToken(ctx, client.RackTokenRequest{Site: r.site, Rack: r.rack, Life: int64(life / time.Second)})
	if err != nil {
		return t, err
	}
	if dir != "" {
		name := filepath.Join(dir, r.site+"_"+r.rack+".token")
		if err := files.Replace(name, []byte(t.Token+"\n")); err != nil {
			return t, err
		}
		fmt.Fprintln(a.stdout, name)
	}
	a.say("site %s, rack %s: lets %d nodes in, until %s", r.site, r.rack, t.Uses, t.Expires)
	return t, nil
}

func (a *app) enrolStatusCommand() *cobra.Command {
	var output string
	var tenant *string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how far the enrolment is, rack by rack, and when it will be done",
		Long: `Say how far the enrolment is: of each rack how many hosts there are, how many of them are
missing, have joined and wait for a verdict, or were accepted, rejected or left undecided by
the last one, and how many nodes its tokens still let in. csv has a row for each host, json
everything.

The last line says when the last host joins at the pace of the last 24 hours. Where fewer
than two joined in them there is no estimate.`,
		Example: "  assay enrol status\n  assay enrol status -o csv > hosts.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.enrolStatus(c.Context(), *tenant, output) },
	}
	tenant = tenantFlag(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or csv")
	return cmd
}

// fleetStatus is the answer of `assay enrol status` in JSON.
type fleetStatus struct {
	Progress enrol.Progress      `json:"progress"`
	Waiting  int                 `json:"waiting"` // nodes that joined and have not shown yet what they are
	Racks    []rackStatus        `json:"racks"`
	Hosts    []client.HostRecord `json:"hosts"`
	Tokens   []client.RackToken  `json:"tokens"`
}

type rackStatus struct {
	Site      string `json:"site"`
	Rack      string `json:"rack"`
	Hosts     int    `json:"hosts"`
	Missing   int    `json:"missing"`
	Joined    int    `json:"joined"` // and not judged yet
	Accept    int    `json:"accept"`
	Reject    int    `json:"reject"`
	Undecided int    `json:"undecided"`
	Tokens    int64  `json:"tokens"` // nodes that tokens still let in
}

func (r *rackStatus) add(o rackStatus) {
	r.Hosts, r.Missing, r.Joined, r.Accept = r.Hosts+o.Hosts, r.Missing+o.Missing, r.Joined+o.Joined, r.Accept+o.Accept
	r.Reject, r.Undecided, r.Tokens = r.Reject+o.Reject, r.Undecided+o.Undecided, r.Tokens+o.Tokens
}

func (a *app) enrolStatus(ctx context.Context, tenant, output string) error {
	if !slices.Contains([]string{"text", "json", "csv"}, output) {
		return fmt.Errorf("output %q: want text, json or csv", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	s := fleetStatus{Racks: []rackStatus{}}
	inventory, err := inventoryOf(ctx, c, tenant)
	if err != nil {
		return err
	}
	s.Hosts, s.Progress = inventory.Hosts, enrol.ProgressOf(inventory.Hosts, inventory.At)
	s.Waiting = inventory.Waiting
	if s.Tokens, err = rackTokens(ctx, c, tenant); err != nil {
		return err
	}
	s.count()
	switch output {
	case "json":
		return a.printJSON(s)
	case "csv":
		rows := csv.NewWriter(a.stdout)
		rows.Write([]string{"asset", "site", "rack", "host", "board", "state", "node", "decided"})
		for _, h := range s.Hosts {
			decided := ""
			if h.Decided != 0 {
				decided = h.Decided.String()
			}
			writeCells(rows, h.Host.Asset, h.Host.Site, h.Host.Rack, h.Host.Name, h.Host.Board, h.State, h.Node, decided)
		}
		rows.Flush()
		return rows.Error()
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SITE\tRACK\tHOSTS\tMISSING\tJOINED\tACCEPT\tREJECT\tUNDECIDED\tTOKENS")
	line := func(r rackStatus) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Site, r.Rack, r.Hosts, r.Missing, r.Joined, r.Accept, r.Reject, r.Undecided, r.Tokens)
	}
	all := rackStatus{Site: "all"}
	for _, r := range s.Racks {
		all.add(r)
		line(r)
	}
	line(all)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, s.Progress)
	if s.Waiting > 0 {
		fmt.Fprintf(a.stdout, "nodes that joined and have not shown yet what they are: %d (is assay-agent run under way there?)\n", s.Waiting)
	}
	return nil
}

// count counts hosts and tokens by rack.
func (s *fleetStatus) count() {
	at := map[rackPlace]int{}
	rack := func(site, name string) *rackStatus {
		i, ok := at[rackPlace{site, name}]
		if !ok {
			i = len(s.Racks)
			at[rackPlace{site, name}] = i
			s.Racks = append(s.Racks, rackStatus{Site: site, Rack: name})
		}
		return &s.Racks[i]
	}
	for _, h := range s.Hosts {
		r := rack(h.Host.Site, h.Host.Rack)
		r.Hosts++
		switch h.State {
		case client.HostMissing:
			r.Missing++
		case client.Accept:
			r.Accept++
		case client.Reject:
			r.Reject++
		case client.Undecided:
			r.Undecided++
		default:
			r.Joined++
		}
	}
	for _, t := range s.Tokens {
		rack(t.Site, t.Rack).Tokens += t.Uses - t.Used
	}
	slices.SortFunc(s.Racks, func(a, b rackStatus) int {
		return comparePlaces(rackPlace{a.Site, a.Rack}, rackPlace{b.Site, b.Rack})
	})
}

// allHosts reads the whole inventory of a tenant, of the caller's own where none is named.
func allHosts(ctx context.Context, c *client.Client, tenant string) ([]client.HostRecord, error) {
	list, err := inventoryOf(ctx, c, tenant)
	return list.Hosts, err
}

// inventoryOf reads the same with the server's time.
func inventoryOf(ctx context.Context, c *client.Client, tenant string) (all client.Inventory, err error) {
	all.Hosts, err = pages(func(after string) ([]client.HostRecord, string, error) {
		page, err := c.Inventory(ctx, tenant, after)
		all.At, all.Waiting = page.At, page.Waiting
		return page.Hosts, page.After, err
	})
	return all, err
}

// tenantFlag names whose inventory is asked for.
func tenantFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("tenant", "", "whose, for an admin and for an auditor of the verifier's own house (default: your own)")
}

func (a *app) enrolReconcileCommand() *cobra.Command {
	var output string
	var tenant *string
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare the inventory with what nodes show",
		Long: `Compare the inventory with what nodes show.

missing     in the inventory, and no node shows it
unexpected  a node shows it, and the inventory does not have it
moved       elsewhere than the inventory says
duplicate   on two nodes at once; who holds the device keeps its standing

Exit codes: 0 nothing differs, 1 something does, 2 usage or could not run.`,
		Example: "  assay enrol reconcile\n  assay enrol reconcile -o csv > findings.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.enrolReconcile(c.Context(), *tenant, output) },
	}
	tenant = tenantFlag(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or csv")
	return cmd
}

func (a *app) enrolReconcile(ctx context.Context, tenant, output string) error {
	if !slices.Contains([]string{"text", "json", "csv"}, output) {
		return fmt.Errorf("output %q: want text, json or csv", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	var all client.Reconciliation
	for after := 0; ; {
		page, err := c.Reconciliation(ctx, tenant, after)
		if err != nil {
			return err
		}
		page.Findings, after = append(all.Findings, page.Findings...), page.After
		all = page
		if after == 0 {
			break
		}
	}
	switch output {
	case "json":
		if all.Findings == nil {
			all.Findings = []client.Finding{}
		}
		if err := a.printJSON(all); err != nil {
			return err
		}
	case "csv":
		rows := csv.NewWriter(a.stdout)
		rows.Write([]string{"kind", "asset", "site", "rack", "node", "other", "device", "problem", "fix"})
		for _, f := range all.Findings {
			writeCells(rows, f.Kind, f.Asset, f.Site, f.Rack, f.Node, f.Other, deviceText(f.Device), f.Problem, f.Fix)
		}
		if rows.Flush(); rows.Error() != nil {
			return rows.Error()
		}
	default:
		for _, f := range all.Findings {
			fmt.Fprintf(a.stdout, "%-10s  %s\n            fix: %s\n", f.Kind, f.Problem, f.Fix)
		}
		counts := map[string]int{}
		for _, f := range all.Findings {
			counts[f.Kind]++
		}
		fmt.Fprintf(a.stdout, "%d hosts, %d nodes: %d missing, %d unexpected, %d moved, %d duplicate; %d nodes have not shown yet what they are\n", all.Hosts, all.Nodes,
			counts[client.FindingMissing], counts[client.FindingUnexpected], counts[client.FindingMoved], counts[client.FindingDuplicate], all.Waiting)
	}
	if len(all.Findings) > 0 {
		return outcome(exitReject)
	}
	return nil
}

func deviceText(d ledger.Device) string {
	if d.Kind == "" {
		return ""
	}
	return d.Kind + " " + d.Value.String()
}

func (a *app) enrolRetireCommand() *cobra.Command {
	var reason, output string
	cmd := &cobra.Command{
		Use:   "retire ASSET...",
		Short: "Take machines out of the inventory, for good",
		Long: `Take machines out of the inventory, for good.

The node that a machine is, is revoked with it: its credential is no longer good, its
devices are nobody's and may be enrolled for another, and what it submitted stays in the
log. Tokens of its rack let in no more nodes than are still to come there; the last ones
end. The log keeps which machine left, when, by whom and why. Its asset name is not given
again: an import refuses the row, and a machine that comes back gets another name. Wipe
the machine first: nothing here looks whether that was done.

It is refused while a certificate of its node stands or is asked for (assay certify end),
and while two nodes show to be the machine (assay enrol reconcile). Of several assets, one
that is refused stops no other.

Exit codes: 0 all are retired, 1 some were refused, 2 usage or could not run.`,
		Example: "  assay enrol retire A-0042 --reason 'sold, disks shredded'\n  assay enrol retire A-0042 A-0043",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.enrolRetire(c.Context(), args, reason, output) },
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that the log keeps")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) enrolRetire(ctx context.Context, assets []string, reason, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	for i, asset := range assets { // before any of them goes
		if err := ledger.CheckName(asset, ledger.MaxAsset); err != nil {
			return fmt.Errorf("asset %w", err)
		}
		if slices.Contains(assets[:i], asset) {
			return fmt.Errorf("asset %s is named twice", asset)
		}
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	list := client.Retirements{Retired: []client.Retired{}}
	refused := false
	for _, asset := range assets {
		done, err := c.Retire(ctx, client.RetireRequest{Asset: asset, Reason: reason})
		if p := client.AsProblem(err); p != nil && (p.Status == http.StatusNotFound || p.Status == http.StatusConflict) {
			fmt.Fprintf(a.stderr, "assay: error: %s: %v\n", asset, err)
			refused = true
			continue
		}
		if err != nil {
			return withHint(fmt.Errorf("%s: %w; %d of %d are retired", asset, err, len(list.Retired), len(assets)), "assay enrol retired lists them")
		}
		list.Retired = append(list.Retired, done)
		if output == "text" {
			fmt.Fprintln(a.stdout, retiredText(done))
		}
	}
	if output == "json" {
		if err := a.printJSON(list); err != nil {
			return err
		}
	}
	if refused {
		return outcome(exitReject)
	}
	return nil
}

// retiredText says what became of a machine and its node.
func retiredText(r client.Retired) string {
	text := fmt.Sprintf("%s (site %s, rack %s) retired at %s by %s", r.Host.Asset, r.Host.Site, r.Host.Rack, r.At, r.By)
	if r.Node == "" {
		text += ": no node had shown to be it"
	} else {
		text += ": its node " + r.Node + " is revoked"
	}
	if r.Reason != "" {
		text += fmt.Sprintf("; reason: %q", r.Reason)
	}
	return text
}

func (a *app) enrolRetiredCommand() *cobra.Command {
	var output string
	var tenant *string
	cmd := &cobra.Command{
		Use:     "retired",
		Short:   "List the machines that left the inventory",
		Example: "  assay enrol retired\n  assay enrol retired -o csv > retired.csv",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.enrolRetired(c.Context(), *tenant, output) },
	}
	tenant = tenantFlag(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or csv")
	return cmd
}

func (a *app) enrolRetired(ctx context.Context, tenant, output string) error {
	if !slices.Contains([]string{"text", "json", "csv"}, output) {
		return fmt.Errorf("output %q: want text, json or csv", output)
	}
	c, err := a.session()
	if err != nil {
		return err
	}
	list := client.Retirements{Retired: []client.Retired{}}
	all, err := pages(func(after string) ([]client.Retired, string, error) {
		page, err := c.Retirements(ctx, tenant, after)
		return page.Retired, page.After, err
	})
	if err != nil {
		return err
	}
	list.Retired = append(list.Retired, all...)
	switch output {
	case "json":
		return a.printJSON(list)
	case "csv":
		rows := csv.NewWriter(a.stdout)
		rows.Write([]string{"asset", "site", "rack", "host", "board", "node", "retired", "by", "reason"})
		for _, r := range list.Retired {
			writeCells(rows, r.Host.Asset, r.Host.Site, r.Host.Rack, r.Host.Name, r.Host.Board, r.Node, r.At.String(), r.By, r.Reason)
		}
		rows.Flush()
		return rows.Error()
	}
	for _, r := range list.Retired {
		fmt.Fprintln(a.stdout, retiredText(r))
	}
	if len(list.Retired) == 0 {
		a.say("no machine has left the inventory")
	}
	return nil
}
