package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/verifier/engine"
	"github.com/assay-network/assay/verifier/module"
)

func (a *app) engineCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "engine FILE",
		Short: "Say which rules an engine module has, and its digest",
		Long: `Say which rules an engine module has, and its digest.

An engine module is the rules of one build, kept beside the log that it decided for.
FILE is one that scripts/engine built, or a blob of a log. Whoever vouches for it
puts its digest into a trust file: the same source, version and Go give the same
bytes, so that anybody can build it and compare. The module is run, in a sandbox,
and what it says of itself is its builder's word.`,
		Example: `  scripts/engine engine.wasm && assay engine engine.wasm
  assay serve --engine engine.wasm`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.engine(c.Context(), args[0], output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json")
	return cmd
}

// describedModule is the output in JSON.
type describedModule struct {
	Module canon.Digest `json:"module"`
	engine.Description
}

func (a *app) engine(ctx context.Context, name, output string) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("output %q: want text or json", output)
	}
	data, err := files.Bounded(name, module.MaxModule)
	if err != nil {
		return err
	}
	digest := canon.Sum(data)
	r := module.NewRunner(module.Limits{})
	defer r.Close()
	d, err := r.Describe(ctx, digest, func(context.Context, canon.Digest) ([]byte, error) { return data, nil })
	var f *engine.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return err
	}
	if output == "json" {
		text, err := canon.Marshal(describedModule{digest, d})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s\n", indent(text))
		return nil
	}
	fmt.Fprintf(a.stdout, "module       %s\nversion      %+q\ngo           %+q\n", digest, d.Version, d.Go)
	for _, rule := range d.Rules {
		fmt.Fprintf(a.stdout, "rules        %+q %d\n", rule.Room, rule.Rules)
	}
	return nil
}
