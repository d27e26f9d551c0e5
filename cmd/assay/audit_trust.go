package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/verifier/module"
)

// trustArgs are the flags of audit trust init.
type trustArgs struct {
	out, state string
	engines    []string // files
	keysOnly   bool
}

func (a *app) auditTrustInitCommand() *cobra.Command {
	var t trustArgs
	cmd := &cobra.Command{
		Use:   "init URL URL...",
		Short: "Make a trust file of keys and engines that at least two sources tell alike",
		Long: `Make a trust file of keys and engines that at least two sources tell alike.

A URL without a path is a server's; with a path it is a folder of plain files, as a
mirror serves them: somebody else's, over what audit pull wrote, is a second source.
Two addresses of one machine are one source; that is for you to see to. Where sources
differ nothing is written, and it is said which one says what: a mirror that lags
agrees when it has caught up. The state of an earlier replay needs no second source:
what it holds was believed before.

An engine is the rules that decided, as a module that the log holds. That sources
agree on its digest says that they show the same log, and not that its rules are good:
to vouch for those alone that you built yourself, name them with --engine and leave
the rest out with --keys-only.`,
		Example: `  assay audit trust init https://assay.example https://mirror.example/assay/ --out trust.yaml
  assay audit trust init https://assay.example https://other.example --keys-only --engine engine.wasm --out trust.yaml
  assay audit trust init --state assay.state --out trust.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case t.state != "" && (len(args)+len(t.engines) > 0 || t.keysOnly):
				return errors.New("want URLs, or --state alone")
			case t.state != "":
				return a.auditTrustOfState(t.state, t.out)
			case len(args) < 2:
				return errors.New("want at least two URLs, or --state FILE")
			}
			return a.auditTrustInit(c.Context(), args, t)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&t.state, "state", "", "state `FILE` of an earlier audit replay")
	fl.StringArrayVar(&t.engines, "engine", nil, "`FILE` of an engine module that you vouch for, because you built it; may be repeated")
	fl.BoolVar(&t.keysOnly, "keys-only", false, "take no engines from the sources")
	fl.StringVar(&t.out, "out", "-", "`FILE` to write; - is stdout")
	return cmd
}

func (a *app) auditTrustInit(ctx context.Context, urls []string, args trustArgs) error {
	var told []audit.Told
	versions := map[canon.Digest]string{}
	for _, from := range urls {
		src, err := openSpeaker(from)
		if err != nil {
			return err
		}
		one, engines, err := ask(ctx, src, args.keysOnly)
		if err != nil {
			return fmt.Errorf("%s: %w", src.URL(), err)
		}
		for _, e := range engines {
			versions[e.Module] = e.Version
		}
		told = append(told, one)
	}
	trust, err := audit.TrustFrom(told...)
	if err != nil {
		return err
	}
	agreed := trust.Engines
	for _, name := range args.engines {
		data, err := files.Bounded(name, module.MaxModule)
		if err != nil {
			return err
		}
		trust.Vouch(canon.Sum(data))
	}
	var text bytes.Buffer
	fmt.Fprintln(&text, "# What these sources told alike:")
	for _, t := range told {
		fmt.Fprintf(&text, "#   %s\n", t.By)
	}
	for _, e := range agreed {
		fmt.Fprintf(&text, "# They name the engine %s, version %q.\n", e.Short(), audit.Printable(versions[e]))
	}
	text.Write(trust.Marshal())
	return a.writeOut(args.out, func(w io.Writer) error {
		_, err := text.WriteTo(w)
		return err
	})
}

// speaker is a source that can be asked what a log says of itself.
type speaker interface {
	URL() string
	Said(ctx context.Context, name string) ([]byte, error)
}

// openSpeaker returns the server or the mirror of a URL.
func openSpeaker(from string) (speaker, error) {
	if !strings.Contains(from, "://") {
		return nil, fmt.Errorf("%s: want a URL: a file or folder of your own confirms nobody else's word", from)
	}
	if isFiles(from) {
		return client.NewFiles(client.Config{URL: from})
	}
	c, err := client.New(client.Config{URL: from})
	if err != nil {
		return nil, err
	}
	return c.Mirror(), nil
}

// ask asks a source for keys and engines.
func ask(ctx context.Context, src speaker, keysOnly bool) (told audit.Told, engines []client.Engine, err error) {
	told.By = src.URL()
	data, err := src.Said(ctx, client.SaidKeysets)
	if err != nil {
		return told, nil, err
	}
	keys, err := client.ReadKeysets(data)
	if err != nil {
		return told, nil, err
	}
	if told.Keyset = keys.Current(); keysOnly {
		return told, nil, nil
	}
	data, err = src.Said(ctx, client.SaidEngines)
	if errors.Is(err, fs.ErrNotExist) {
		return told, nil, withHint(fmt.Errorf("it does not say which engines the log has: %w", err), "take the keys alone: --keys-only")
	}
	if err != nil {
		return told, nil, err
	}
	if engines, err = client.ReadEngines(data); err != nil {
		return told, nil, err
	}
	for _, e := range engines {
		told.Engines = append(told.Engines, e.Module)
	}
	return told, engines, nil
}
