package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func (a *app) auditPullCommand() *cobra.Command {
	var args pullArgs
	cmd := &cobra.Command{
		Use:   "pull URL|FOLDER",
		Short: "Copy a log from a server or a mirror, to replay it offline",
		Long: `Copy a log from a server or a mirror, to replay it offline.

A URL without a path is a server's; with a path it is a folder of plain files, as a
mirror serves them. A pull that was cut off goes on where it was. Onto an earlier
pull it fetches what is new, after a proof that the log continues the checkpoint
that the earlier one has. If it does not, both notes are kept as
fork-believed.note and fork-refused.note, and nothing else changes.

The log's key comes from the trust file, else from the earlier pull, else from the
source itself: then a replay says that nobody vouches for it.

Where a log was closed and another goes on, the newest is pulled, or the one that an
earlier pull is of. --log names another, all pulls each: the first into the folder,
those after it into the folders 2, 3, ... below it, as a mirror has them.

Blobs are asked for with the token of assay login, if it is for this server. What
the source does not give is listed in the file withheld, and asked for again next
time. Exit codes: 0 everything is there, 1 a fork, 2 could not run, 3 the source
withheld something.`,
		Example: `  assay audit pull https://assay.example --trust trust.yaml --out log/
  assay audit pull https://mirror.example/assay/ --trust trust.yaml --out log.tar
  assay audit pull https://assay.example --log all --trust trust.yaml --out logs/`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, pos []string) error { return a.auditPull(c.Context(), pos[0], args) },
	}
	fl := cmd.Flags()
	fl.StringVar(&args.out, "out", "", "`FOLDER` to pull into, or FILE.tar for an export")
	fl.StringVar(&args.trust, "trust", "", "trust `FILE` of audit trust init")
	fl.StringVar(&args.log, "log", "", "`ORIGIN` of the log to pull, or all (default: that of an earlier pull, or the newest)")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

type pullArgs struct{ out, trust, log string }

func (a *app) auditPull(ctx context.Context, from string, args pullArgs) error {
	chain, err := a.pullChain(ctx, from)
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if args.log == "all" {
		return a.pullAll(ctx, chain, args)
	}
	log, err := chain.choose(ctx, args.log, func() (ledger.Source, func() error, error) { return a.earlierPull(args.out) })
	if err != nil {
		return err
	}
	if err := a.pullLog(ctx, chain, log, args); err != nil {
		return err
	}
	if next := chain.after(log); next != "" {
		a.say("hint: the log %s was closed, and %s goes on: pull it into a folder of its own, with --log", audit.Printable(log.origin), audit.Printable(next))
	}
	return nil
}

// earlierPull opens what an earlier pull left, if there is something.
func (a *app) earlierPull(out string) (ledger.Source, func() error, error) {
	if !strings.HasSuffix(out, ".tar") {
		return audit.Directory(os.DirFS(out)), func() error { return nil }, nil
	}
	earlier, err := a.openEarlier(out)
	if earlier == nil || err != nil {
		return audit.Directory(os.DirFS(out + ".pull")), func() error { return nil }, err
	}
	return earlier.Source, earlier.Close, nil
}

// pullLog pulls one log.
func (a *app) pullLog(ctx context.Context, chain pullChain, log chainLog, args pullArgs) (err error) {
	src := log.src
	dir, file := args.out, ""
	if strings.HasSuffix(args.out, ".tar") {
		dir, file = args.out+".pull", args.out
	}
	p := client.Pull{From: src, Dir: dir, Have: audit.Directory(os.DirFS(dir)), Names: audit.Names, Progress: a.progress()}
	if file != "" {
		earlier, err := a.openEarlier(file)
		if err != nil {
			return err
		}
		if earlier != nil {
			defer func() { err = errors.Join(err, earlier.Close()) }()
			if p.Last, err = earlier.Checkpoint(ctx); err != nil {
				return err
			}
			p.From = nearest{near: earlier, far: src}
		}
	}
	if p.Logs, err = a.pullKeys(ctx, args.trust, p, chain, log); err != nil {
		return err
	}
	pulled, err := p.Run(ctx)
	var fork *ledger.Fork
	if errors.As(err, &fork) {
		fmt.Fprintf(a.stderr, "assay: error: %v\n", err)
		a.say("hint: both notes are kept in %s; show them to others who follow this log", dir)
		return outcome(exitReject)
	}
	if err != nil {
		return err
	}
	c := pulled.Checkpoint
	if err := chain.ended(c); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "pulled      %s, size %d, root %s\n", audit.Printable(c.Origin), c.Size, c.Root)
	fmt.Fprintf(a.stdout, "new         %d entries, %d tiles, %d blobs\n", c.Size-pulled.From, pulled.Tiles, pulled.Blobs)
	if pulled.Refused > 0 {
		fmt.Fprintf(a.stdout, "withheld    %d openings and blobs; one of them: %s\n", pulled.Refused, audit.Printable(pulled.Why.Error()))
		if file != "" {
			return withHint(fmt.Errorf("%s: not written, since an export is whole or nothing", file), "pull into a folder, or log in with a token that may read blobs: assay login URL; what was fetched is kept in %s", dir)
		}
		return outcome(exitUndecided)
	}
	if file == "" {
		return nil
	}
	if err := a.writeOut(file, func(w io.Writer) error { return audit.Export(ctx, p.Have, w) }); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// openEarlier opens the export of an earlier pull; nil: there is none.
func (a *app) openEarlier(file string) (*exported, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	earlier, err := a.openLog(file)
	return &earlier, err
}

// nearest is an earlier pull, and behind it the source of this one.
type nearest struct{ near, far ledger.Source }

func (n nearest) Checkpoint(ctx context.Context) ([]byte, error) { return n.far.Checkpoint(ctx) }

// Tile takes complete tiles from nearby, which never change.
func (n nearest) Tile(ctx context.Context, t ledger.Tile) ([]byte, error) {
	if t.Width == ledger.TileWidth {
		if data, err := n.near.Tile(ctx, t); err == nil {
			return data, nil
		}
	}
	return n.far.Tile(ctx, t)
}

func (n nearest) Blob(ctx context.Context, d canon.Digest) ([]byte, error) {
	if data, err := n.near.Blob(ctx, d); err == nil && canon.Sum(data) == d {
		return data, nil
	}
	return n.far.Blob(ctx, d)
}

// Keysets returns what the source of this pull has.
func (n nearest) Keysets(ctx context.Context) ([]byte, error) {
	src, ok := n.far.(ledger.Continuing)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return src.Keysets(ctx)
}

// Around returns what the source of this pull keeps.
func (n nearest) Around(ctx context.Context, index int64) (before, after []byte, err error) {
	keeper, ok := n.far.(ledger.Keeper)
	if !ok {
		return nil, nil, nil
	}
	return keeper.Around(ctx, index)
}

// pullKeys returns the log's keys: those that the trust file leads to, of the earlier pull, or what the source says. A
// source that cannot be asked for its keysets has changed its log key unnoticed: then a newer trust file is needed.
func (a *app) pullKeys(ctx context.Context, trustFile string, p client.Pull, chain pullChain, log chainLog) ([]string, error) {
	trust, err := readTrust(trustFile)
	if err != nil {
		return nil, err
	}
	now := canon.At(a.now())
	if k, ok := chain.keys.Newest(log.origin); ok && (chain.asked || trust != nil && chain.vouched(trust)) {
		if !chain.vouched(trust) {
			return nil, fmt.Errorf("%s: the source's keys do not lead from, or to, those of this trust file", trustFile)
		}
		if next, _, ok := chain.keys.After(log.origin); ok {
			now = next.Made
		}
		return k.LogVKeys(max(now, k.Made)), nil
	}
	if trust != nil && len(chain.logs) > 1 && trust.Keyset.Origin != log.origin {
		return nil, withHint(fmt.Errorf("%s: its keys are of the log %q, and nothing here leads from them to %q", trustFile, trust.Keyset.Origin, log.origin), "make a newer one: assay audit trust init URL URL")
	}
	if trust != nil {
		return trust.Keyset.LogVKeys(max(now, trust.Keyset.Made)), nil
	}
	k, err := audit.FirstKeyset(ctx, p.Have)
	if err != nil {
		k, err = audit.FirstKeyset(ctx, p.From)
	}
	if err != nil {
		return nil, withHint(fmt.Errorf("no key of this log: %w", err), "name a trust file: --trust FILE")
	}
	return k.LogVKeys(k.Made), nil
}
