package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/verifier"
)

// inspection is what a file holds, nothing of it verified.
type inspection struct {
	Type       string                `json:"type"` // assay/inspect/v1
	File       string                `json:"file"`
	Digest     canon.Digest          `json:"sha256"`
	Challenge  canon.Digest          `json:"challenge,omitzero"`
	Keys       canon.Digest          `json:"keys,omitzero"` // K
	Seal       string                `json:"seal,omitzero"`
	Components []inspectionComponent `json:"components"`
}

type inspectionComponent struct {
	Label     string            `json:"label"`
	Class     string            `json:"class"`
	MediaType string            `json:"media_type"`
	Parts     []inspectionPart  `json:"parts"`
	Fields    []attest.Field    `json:"fields"`             // of a report or quote
	Events    []inspectionEvent `json:"events,omitzero"`    // of a boot log
	Statement string            `json:"statement,omitzero"` // of the agent, as it stands in its part
}

// inspectionEvent is one event of a boot log, in short.
type inspectionEvent struct {
	Register string             `json:"register"` // PCR4, RTMR1
	Type     string             `json:"type"`     // what the log calls it; registers do not cover it
	Digests  []inspectionDigest `json:"digests"`
	Data     string             `json:"data"` // its beginning, as text
}

type inspectionDigest struct {
	Bank   string    `json:"bank"`
	Digest canon.Hex `json:"digest"`
}

// Types of files that hold no evidence alone, and that can be shown.
const (
	typeTPMLog = "tpm-log" // TCG log of a TPM's registers
	typeTDXLog = "tdx-log" // CCEL or dstack's JSON, of RTMRs
)

type inspectionPart struct {
	Name   string       `json:"name"`
	Size   int          `json:"size"` // bytes
	Digest canon.Digest `json:"sha256"`
}

func (a *app) inspectCommand() *cobra.Command {
	var typ, output string
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show every field of an evidence file, with its offset; verify nothing",
		Example: `  assay inspect report.bin
  assay inspect bundle.json -o json
  assay inspect --type tpm-log /sys/kernel/security/tpm0/binary_bios_measurements`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, _, err := inputs.Evidence(args[0])
			if err != nil {
				return err
			}
			in := inspection{Type: "assay/inspect/v1", File: args[0], Digest: canon.Sum(data)}
			var fault error
			if typ == typeTPMLog || typ == typeTDXLog {
				fault = in.addLog(typ, data)
			} else {
				o, err := verifier.Open(typ, data)
				if err != nil {
					return fmt.Errorf("%w; or %s or %s of a boot log", err, typeTPMLog, typeTDXLog)
				}
				if fault = o.Fault(); fault == nil {
					fault = in.add(o)
				}
			}
			if fault != nil {
				fmt.Fprintf(a.stderr, "assay: error: %s: %v\n", args[0], fault)
				if typ == "" {
					if logs := logTypes(data); logs != nil {
						fmt.Fprintf(a.stderr, "assay: hint: it reads as a boot log: --type %s\n", strings.Join(logs, ", or --type "))
					}
				}
				return outcome(exitReject)
			}
			switch output {
			case "json":
				b, err := canon.Marshal(in)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.stdout, "%s\n", indent(b))
			case "text":
				a.printInspection(in)
			default:
				return fmt.Errorf("output %q: want text or json", output)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&typ, "type", "", "what the file is: "+strings.Join(append(verifier.Types(), typeTPMLog, typeTDXLog), ", ")+" (default: told from its bytes; boot logs must be named)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// add takes opened evidence into the inspection. The error says why a component does not parse.
func (in *inspection) add(o *verifier.Opened) error {
	if b := o.Bundle(); b != nil {
		in.Challenge, in.Keys, in.Seal = b.Challenge, b.Keys.Digest(), b.Seal
	}
	for _, c := range o.Components() {
		ic := inspectionComponent{Label: c.Label, Class: c.Class, MediaType: c.MediaType, Fields: []attest.Field{}}
		for _, p := range c.Parts {
			ic.Parts = append(ic.Parts, inspectionPart{p.Name, len(p.Data), canon.Sum(p.Data)})
		}
		part := func(name string) []byte { b, _ := c.Part(name); return b }
		var err error
		switch c.MediaType {
		case attest.StatementMediaType:
			ic.Statement = strings.ToValidUTF8(string(part(attest.PartStatement)), "\uFFFD")
		case sevsnp.MediaType:
			ic.Fields, err = sevsnp.Fields(part(sevsnp.PartReport))
		case azure.MediaType:
			ic.Fields, err = azure.Fields(part(azure.PartReport))
		case tdx.MediaType:
			ic.Fields, err = tdx.Fields(part(tdx.PartQuote))
		case tpm.MediaType:
			if ic.Fields, err = tpm.Fields(c); err == nil && part(tpm.PartEventLog) != nil {
				var l eventlog.Log
				if l, err = eventlog.Parse(part(tpm.PartEventLog), eventlog.PCRs); err == nil {
					ic.Events = inspectEvents(l)
				}
			}
		}
		if err != nil {
			return err
		}
		in.Components = append(in.Components, ic)
	}
	return nil
}

// addLog takes a boot log that comes alone into the inspection.
func (in *inspection) addLog(typ string, data []byte) error {
	l, err := eventlog.Log{}, error(nil)
	if typ == typeTPMLog {
		l, err = eventlog.Parse(data, eventlog.PCRs)
	} else {
		l, err = parseTDXLog(data)
	}
	if err != nil {
		return err
	}
	in.Components = []inspectionComponent{{
		Label: typ, Class: "log", MediaType: "application/octet-stream", Fields: []attest.Field{},
		Parts: []inspectionPart{{typ, len(data), in.Digest}}, Events: inspectEvents(l),
	}}
	return nil
}

// logTypes returns the types of boot log that a file may be. A log says of neither whose registers it speaks of.
func logTypes(data []byte) (types []string) {
	for _, typ := range []string{typeTPMLog, typeTDXLog} {
		if err := new(inspection).addLog(typ, data); err == nil {
			types = append(types, typ)
		}
	}
	return types
}

// maxEventText is how much of an event's data is shown, in bytes.
const maxEventText = 48

func inspectEvents(l eventlog.Log) (events []inspectionEvent) {
	for _, e := range l.Events {
		ie := inspectionEvent{Register: registerName(l.Kind, e.Register), Type: e.Type.String(), Data: attest.Printable(string(e.Data[:min(len(e.Data), maxEventText)]))}
		for _, d := range e.Digests {
			ie.Digests = append(ie.Digests, inspectionDigest{d.Algorithm.String(), d.Value})
		}
		events = append(events, ie)
	}
	return events
}

// registerName names a register of a log.
func registerName(kind eventlog.Kind, index int) string {
	switch {
	case index == eventlog.NoRegister:
		return "none"
	case kind == eventlog.PCRs:
		return fmt.Sprintf("PCR%d", index)
	case index == 0:
		return "MRTD"
	}
	return fmt.Sprintf("RTMR%d", index-1)
}

func (a *app) printInspection(in inspection) {
	w := a.stdout
	fmt.Fprintf(w, "%s  sha256 %s  (nothing below is verified)\n", in.File, in.Digest)
	if in.Seal != "" {
		fmt.Fprintf(w, "bundle: challenge %s, session keys %s, seal %s\n", in.Challenge, in.Keys, in.Seal)
	}
	for _, c := range in.Components {
		fmt.Fprintf(w, "\n%s  %s  %s\n", c.Label, c.Class, c.MediaType)
		for _, p := range c.Parts {
			fmt.Fprintf(w, "  part %s: %d bytes, sha256 %s\n", p.Name, p.Size, p.Digest)
		}
		for _, f := range c.Fields {
			fmt.Fprintf(w, "  0x%03x %4d  %-40s %s\n", f.Offset, f.Size, f.Name, shorten(f.Hex))
		}
		for _, e := range c.Events {
			digest := ""
			if n := len(e.Digests); n > 0 {
				digest = e.Digests[n-1].Bank + ":" + hex.EncodeToString(e.Digests[n-1].Digest)
			}
			fmt.Fprintf(w, "  %-5s %s  %s  %s\n", e.Register, digest, e.Type, e.Data)
		}
		if c.Statement != "" {
			fmt.Fprintf(w, "  %q\n", c.Statement)
		}
	}
}

// shorten keeps a line readable: long runs of zeros are named, other long values cut.
func shorten(digits string) string {
	raw, err := hex.DecodeString(digits)
	switch {
	case err == nil && len(raw) > 8 && len(bytes.Trim(raw, "\x00")) == 0:
		return fmt.Sprintf("zero x %d", len(raw))
	case len(digits) > 128:
		return digits[:128] + "..."
	}
	return digits
}

// indent spreads canonical JSON over lines for people.
func indent(b []byte) []byte {
	v := jsontext.Value(bytes.Clone(b))
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		panic("assay: internal error: " + err.Error())
	}
	return v
}
