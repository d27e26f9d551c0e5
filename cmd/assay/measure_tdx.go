package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
)

type measureTDXFlags struct {
	quote, eventLog, agent, name, output string
	registers                            []int
}

func (a *app) measureTDXCommand() *cobra.Command {
	var f measureTDXFlags
	cmd := &cobra.Command{
		Use:   "tdx --quote FILE | --event-log FILE",
		Short: "List the measurements of a TDX guest: MRTD of a quote, RTMRs replayed from an event log",
		Long: `List the measurements of a TDX guest: MRTD of a quote, RTMRs replayed from an event log.

MRTD and RTMR0 depend on firmware, VMM and devices, and cannot be computed from an
image: take them from a quote of a machine that you vouch for. Nothing of the quote
is verified here. RTMRs are replayed from an event log where there is one: a CCEL
(/sys/firmware/acpi/tables/data/CCEL) or the JSON of dstack; beside a quote, the log
must replay to its registers. RTMR3 is the guest's own word, and is listed only when
asked for.

With -o json the result is a list of reference values that ` + "`assay verify --expect`" + `
and policies take. What an image will extend, ` + "`assay measure image`" + ` prints.`,
		Example: `  assay measure tdx --quote quote.bin --event-log ccel.bin --agent assay-agent -o json > guests.json
  assay measure tdx --event-log ccel.bin --register 1,2`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.measureTDX(f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.quote, "quote", "", "quote `FILE` of a guest that you vouch for: raw, hex, base64, or dstack's JSON")
	fl.StringVar(&f.eventLog, "event-log", "", "event log `FILE`: CCEL, or dstack's JSON")
	fl.IntSliceVar(&f.registers, "register", []int{0, 1, 2}, "RTMRs to list")
	fl.StringVar(&f.agent, "agent", "", "agent executable `FILE` inside the guest, named in the reference value")
	fl.StringVar(&f.name, "name", "", "name of the guest in the reference value (default: the file name)")
	fl.StringVarP(&f.output, "output", "o", "text", "text or json (a list of reference values)")
	return cmd
}

func (a *app) measureTDX(f measureTDXFlags) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("output %q: want text or json", f.output)
	}
	if f.quote == "" && f.eventLog == "" {
		return fmt.Errorf("--quote or --event-log: want one of them, or both")
	}
	if len(f.registers) == 0 || slices.ContainsFunc(f.registers, func(i int) bool { return i < 0 || i > 3 }) {
		return fmt.Errorf("--register: want RTMRs from 0 to 3")
	}
	slices.Sort(f.registers)
	f.registers = slices.Compact(f.registers)
	ref := attest.Reference{Format: tdx.Format, Guest: cmp.Or(f.name, filepath.Base(cmp.Or(f.quote, f.eventLog)))}
	var sources []string
	var q *tdx.Quote
	if f.quote != "" {
		data, err := files.Bounded(f.quote, attest.MaxBundle)
		if err != nil {
			return err
		}
		if q, err = readQuote(data); err != nil {
			return a.refuse(f.quote, err)
		}
		ref.Measurement = q.MRTD[:]
		sources = append(sources, fmt.Sprintf("quote %s", canon.Sum(data)))
	}
	var l eventlog.Log
	if f.eventLog != "" {
		data, err := files.Bounded(f.eventLog, attest.MaxBundle)
		if err != nil {
			return err
		}
		if l, err = parseTDXLog(data); err != nil {
			return a.refuse(f.eventLog, err)
		}
		sources = append(sources, fmt.Sprintf("event log %s", canon.Sum(data)))
	}
	values, err := registersOf(q, l, f.registers)
	if err != nil {
		return a.refuse(f.eventLog, err)
	}
	ref.Registers = values
	if f.agent != "" {
		exe, err := files.Bounded(f.agent, sevsnp.MaxInitrd)
		if err != nil {
			return err
		}
		ref.Agent = canon.Sum(exe)
	}
	if f.output == "json" {
		b, err := canon.Marshal(attest.References{
			Type: attest.ReferencesType, Name: ref.Guest, Values: []attest.Reference{ref}, Source: "assay measure tdx: " + strings.Join(sources, ", "),
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(b))
		return nil
	}
	line := func(what, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	if q != nil {
		line("MRTD", "%x", q.MRTD)
	}
	for _, r := range values {
		line(fmt.Sprintf("RTMR%d", r.Index), "%s", r.Value)
		for _, e := range l.Events {
			if e.Register == r.Index+1 && e.Type != eventlog.NoAction {
				line(fmt.Sprintf("  RTMR%d", r.Index), "%x %s", e.Digest(eventlog.SHA384), e.Type)
			}
		}
	}
	return nil
}

// refuse says that a file does not hold what it should.
func (a *app) refuse(name string, err error) error {
	fmt.Fprintf(a.stderr, "assay: error: %s: %v\n", name, err)
	return outcome(exitReject)
}

// registersOf returns RTMRs of a quote, a log, or of both where they agree. A log that knows of no event cannot say what
// a register holds.
func registersOf(q *tdx.Quote, l eventlog.Log, wanted []int) (values []attest.Register, err error) {
	if l.Events == nil {
		for _, i := range wanted {
			values = append(values, attest.Register{Index: i, Value: q.RTMR[i][:]})
		}
		return values, nil
	}
	replayed, err := l.Replay(eventlog.SHA384)
	if err != nil {
		return nil, err
	}
	for _, i := range wanted {
		r := replayed.Register(i + 1)
		switch {
		case q != nil && !bytes.Equal(r.Value, q.RTMR[i][:]):
			return nil, fmt.Errorf("RTMR%d: the log replays to %x, the quote has %x", i, r.Value, q.RTMR[i])
		case q == nil && r.Events == 0:
			return nil, fmt.Errorf("RTMR%d: the log has no event of it; --register says which are wanted", i)
		}
		values = append(values, attest.Register{Index: i, Value: r.Value})
	}
	return values, nil
}

// dstackReport is the JSON in which dstack hands out a quote with its event log, among other things.
type dstackReport struct {
	Quote string `json:"quote"`
	Log   string `json:"event_log"`
}

func readDstackReport(data []byte) (r dstackReport, ok bool) {
	ok = bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Unmarshal(data, &r) == nil
	return r, ok
}

// readQuote takes a quote from a file, unverified.
func readQuote(data []byte) (*tdx.Quote, error) {
	if r, ok := readDstackReport(data); ok {
		data = []byte(r.Quote)
	}
	raw, ok := tdx.Recognize(data)
	if !ok {
		return nil, errors.New("it is no TDX quote: want one raw, in hex, in base64, or in dstack's JSON")
	}
	u, _, err := tdx.Parse(raw)
	if err != nil {
		return nil, err
	}
	q := u.Peek()
	return &q, nil
}

// parseTDXLog reads the event log of a TDX guest in either form.
func parseTDXLog(data []byte) (eventlog.Log, error) {
	if r, ok := readDstackReport(data); ok {
		data = []byte(r.Log)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return eventlog.ParseDstack(data)
	}
	return eventlog.Parse(data, eventlog.RTMRs)
}
