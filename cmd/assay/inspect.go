package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/sevsnp"
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
	Label     string           `json:"label"`
	Class     string           `json:"class"`
	MediaType string           `json:"media_type"`
	Parts     []inspectionPart `json:"parts"`
	Fields    []sevsnp.Field   `json:"fields"`             // of a report
	Statement string           `json:"statement,omitzero"` // of the agent, as it stands in its part
}

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
  assay inspect bundle.json -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, _, err := inputs.Evidence(args[0])
			if err != nil {
				return err
			}
			o, err := verifier.Open(typ, data)
			if err != nil {
				return err
			}
			if o.Fault() != nil {
				fmt.Fprintf(a.stderr, "assay: error: %s: %v\n", args[0], o.Fault())
				return outcome(exitReject)
			}
			in, err := inspect(args[0], o)
			if err != nil {
				fmt.Fprintf(a.stderr, "assay: error: %s: %v\n", args[0], err)
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
	cmd.Flags().StringVar(&typ, "type", "", "what the file is (default: told from its bytes)")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func inspect(name string, o *verifier.Opened) (inspection, error) {
	in := inspection{Type: "assay/inspect/v1", File: name, Digest: o.Digest()}
	if b := o.Bundle(); b != nil {
		in.Challenge, in.Keys, in.Seal = b.Challenge, b.Keys.Digest(), b.Seal
	}
	for _, c := range o.Components() {
		ic := inspectionComponent{Label: c.Label, Class: c.Class, MediaType: c.MediaType, Fields: []sevsnp.Field{}}
		for _, p := range c.Parts {
			ic.Parts = append(ic.Parts, inspectionPart{p.Name, len(p.Data), canon.Sum(p.Data)})
		}
		switch c.MediaType {
		case attest.StatementMediaType:
			said, _ := c.Part(attest.PartStatement)
			ic.Statement = strings.ToValidUTF8(string(said), "\uFFFD")
		case sevsnp.MediaType:
			raw, _ := c.Part(sevsnp.PartReport)
			fields, err := sevsnp.Fields(raw)
			if err != nil {
				return in, err
			}
			ic.Fields = fields
		}
		in.Components = append(in.Components, ic)
	}
	return in, nil
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
