package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/corim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
)

// referenceFlags are the flags of assay policy references.
type referenceFlags struct{ key, as, name, asOf, out string }

func (a *app) policyReferencesCommand() *cobra.Command {
	var f referenceFlags
	cmd := &cobra.Command{
		Use:   "references FILE...",
		Short: "Make one list of reference values of lists and CoRIMs, and print the digest that a policy names",
		Long: `Make one list of reference values of lists and CoRIMs, and print the digest that a policy names.

A FILE is a list (assay/references/v1) in YAML or JSON, as assay measure writes it or
by hand, or a CoRIM in CBOR (draft-ietf-rats-corim), signed or not. Of a CoRIM the
reference triples are read, of these the digests that a claim compares; what else is
in it is named on standard error, and what cannot be left out is refused.

A signed CoRIM is believed under --key alone: the public key that signed it, of
Ed25519, P-256 or P-384. One that is not signed is as good as where it came from.

The list goes to standard output, its digest to standard error: the line references:
of a policy names it, and --expect of assay verify and --reference of assay serve take
the list.`,
		Example: `  assay policy references guests.yaml --out guests.json
  assay policy references vendor.corim --key vendor.pub --out vendor.json
  assay policy references td.corim --as tdx --name 'our TD 7' > td.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.policyReferences(args, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.key, "key", "", "PEM `FILE` of the public key that must have signed the CoRIMs")
	fl.StringVar(&f.as, "as", "", "what environments of a CoRIM are that no profile names: "+strings.Join(corim.Formats(), ", "))
	fl.StringVar(&f.name, "name", "", "name of the list (default: the first file's own)")
	fl.StringVar(&f.asOf, "as-of", "", "`TIME` that a CoRIM's times are compared with (default: now)")
	fl.StringVar(&f.out, "out", "", "`FILE` to write, new (default: standard output)")
	return cmd
}

func (a *app) policyReferences(names []string, f referenceFlags) error {
	o := corim.Options{At: canon.At(a.now()), As: f.as}
	if f.as != "" && !slices.Contains(corim.Formats(), f.as) {
		return fmt.Errorf("--as %.40q: want one of %s", f.as, strings.Join(corim.Formats(), ", "))
	}
	var err error
	if f.asOf != "" {
		if o.At, err = canon.ParseTime(f.asOf); err != nil {
			return fmt.Errorf("--as-of: %w", err)
		}
	}
	by := "not signed"
	if f.key != "" {
		var spki []byte
		if o.Key, spki, err = inputs.PublicKey(f.key); err != nil {
			return err
		}
		by = "signed by key " + canon.Sum(spki).Short()
	}
	var all attest.References
	signed := 0
	for _, name := range names {
		l, isCoRIM, err := a.references(name, o, by)
		if err != nil {
			return err
		}
		if isCoRIM {
			signed++
		}
		if all.Type == "" {
			all = l
			continue
		}
		all.Source += "; " + l.Source
		all.Values = append(all.Values, l.Values...)
	}
	if f.key != "" && signed == 0 {
		return errors.New("--key: none of the files is a CoRIM, and no list has a signature")
	}
	if f.name != "" {
		all.Name = f.name
	}
	if err := all.Check(); err != nil {
		return err
	}
	b, err := canon.Marshal(all)
	if err != nil {
		return err
	}
	if err := a.writeNew(f.out, append(indent(b), '\n')); err != nil {
		return err
	}
	a.say("%d reference values; a policy names the list so: references: [%s]", len(all.Values), canon.Sum(b))
	return nil
}

// references reads one file: a CoRIM if it is CBOR, else a list.
func (a *app) references(name string, o corim.Options, by string) (l attest.References, isCoRIM bool, err error) {
	data, err := files.Prefix(name, max(corim.MaxSize, doc.MaxSize)+1)
	if err != nil {
		return l, false, err
	}
	// A tag begins with a byte that begins no text.
	if len(data) == 0 || data[0] < 0x80 || bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		l, err = inputs.References(name)
		return l, false, err
	}
	m, err := corim.Open(data, o)
	switch {
	case errors.Is(err, corim.ErrUnknownClass):
		return l, true, withHint(fmt.Errorf("%s: %w", name, err), "--as %s", strings.Join(corim.Formats(), " or --as "))
	case errors.Is(err, corim.ErrNoKey):
		return l, true, withHint(fmt.Errorf("%s: %w", name, err), "--key FILE names the signer's public key, from elsewhere than the manifest")
	case err != nil:
		return l, true, fmt.Errorf("%s: %w", name, err)
	}
	for _, what := range m.Ignored {
		a.say("%s: not read: %s", name, what)
	}
	l, err = m.References(filepath.Base(name), by)
	return l, true, err
}
