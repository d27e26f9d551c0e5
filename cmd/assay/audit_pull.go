package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
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
source itself: then a replay says that nobody vouches for it. After a change of the
log's key, the trust file or the pull of before leads to the new one where the source
publishes its keysets, as servers and their mirrors do.

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

// pullInto refuses a folder that holds things, and none that a pull begins with.
func pullInto(dir string) error {
	if strings.HasSuffix(dir, ".tar") {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case len(entries) == 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(pulledFirst, e.Name()) }):
		return nil
	}
	return fmt.Errorf("--out %s: it is there, and holds other things than a pulled log: %s", dir, entries[0].Name())
}

// pulledFirst are what a pull begins with, of which one is there even where it was cut off.
var pulledFirst = []string{"checkpoint", "checkpoints", "tile", "blob", client.SaidKeysets, client.SaidEngines}

// pullLog pulls one log.
func (a *app) pullLog(ctx context.Context, chain pullChain, log chainLog, args pullArgs) (err error) {
	src := log.src
	if err := pullInto(args.out); err != nil {
		return err
	}
	dir, file := args.out, ""
	if strings.HasSuffix(args.out, ".tar") {
		dir, file = args.out+".pull", args.out
	}
	p := client.Pull{From: src, Said: map[string][]byte{}, Dir: dir, Have: audit.Directory(os.DirFS(dir)), Names: audit.Names, Progress: a.progress()}
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
	if err := sayAll(ctx, src, p.Said); err != nil {
		return err
	}
	if p.Logs, err = a.pullKeys(ctx, args.trust, p, chain, log); err != nil {
		return err
	}
	pulled, err := p.Run(ctx)
	if errors.Is(err, ledger.ErrUnknownKey) && p.Said[client.SaidKeysets] == nil {
		return withHint(fmt.Errorf("%w: the log may have another key by now, and the source does not publish its keysets", err),
			"make a newer trust file, or pull from the log's server: assay audit trust init URL URL")
	}
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

// isFiles reports whether a URL is that of a folder of plain files: one with a path.
func isFiles(from string) bool {
	u, err := url.Parse(from)
	return err == nil && strings.Trim(u.Path, "/") != ""
}

// pullSource returns the source of a pull.
func (a *app) pullSource(from string) (ledger.Source, error) {
	if !strings.Contains(from, "://") {
		if info, err := os.Stat(from); err != nil || !info.IsDir() {
			return nil, errors.Join(fmt.Errorf("%s: want a URL or a folder", from), err)
		}
		return openFolder(from), nil
	}
	if isFiles(from) {
		return client.NewFiles(client.Config{URL: from})
	}
	c, err := a.clientOf(from)
	if err != nil {
		return nil, err
	}
	return c.Mirror(), nil
}

// clientOf returns a client of a server, with the token of assay login if that is for it.
func (a *app) clientOf(url string) (*client.Client, error) {
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return nil, err
	}
	if own := a.sessionAt(c.Origin()); own != nil {
		c = own
	}
	return c, nil
}

// unpacked is what [audit.Directory] returns.
type unpacked interface {
	ledger.Keeper
	ledger.Continuing
}

// folder is an unpacked log on this machine.
type folder struct {
	unpacked
	name string
}

func openFolder(name string) folder {
	return folder{audit.Directory(os.DirFS(name)).(unpacked), name}
}

// URL returns the folder's name.
func (f folder) URL() string { return f.name }

// Said returns what the log says of itself, where an earlier pull wrote it down.
func (f folder) Said(_ context.Context, name string) ([]byte, error) {
	return files.Bounded(filepath.Join(f.name, name), client.MaxAnswer)
}

// sayAll asks a source for all that its log says of itself.
func sayAll(ctx context.Context, src ledger.Source, into map[string][]byte) error {
	s, ok := src.(speaker)
	if !ok {
		return nil
	}
	for _, name := range client.Said {
		data, err := s.Said(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		into[name] = data
	}
	return nil
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

// Readable returns which entries the source of this pull lets the caller read.
func (n nearest) Readable(ctx context.Context, from int64) (map[int64]bool, error) {
	if src, ok := n.far.(client.Scoped); ok {
		return src.Readable(ctx, from)
	}
	return nil, nil
}

// BlobOf takes a blob from nearby, else by way of an entry that names it.
func (n nearest) BlobOf(ctx context.Context, entry int64, d canon.Digest) ([]byte, error) {
	if data, err := n.near.Blob(ctx, d); err == nil && canon.Sum(data) == d {
		return data, nil
	}
	if src, ok := n.far.(client.Scoped); ok {
		return src.BlobOf(ctx, entry, d)
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

// keyGrace is the time for which a pull goes on believing a log key that has ended: the newest checkpoint may be of before.
const keyGrace = ledger.PublishWithin + ledger.ClockSlack // s

// pullKeys returns the log's keys: those that the trust file leads to, or that the source says, or of the earlier pull. A
// trust file of before a change of log keys leads to the new ones where the source publishes the keysets between.
func (a *app) pullKeys(ctx context.Context, trustFile string, p client.Pull, chain pullChain, log chainLog) ([]string, error) {
	trust, err := readTrust(trustFile)
	if err != nil {
		return nil, err
	}
	now := canon.At(a.now())
	if k, ok := chain.keys.Newest(log.origin); ok && (chain.asked || trust != nil) {
		if next, _, ok := chain.keys.After(log.origin); ok {
			now = next.Made
		}
		earlier, err := audit.FirstKeyset(ctx, p.Have)
		switch {
		case trust == nil && err == nil && !chain.keys.Has(earlier):
			return nil, fmt.Errorf("%s: the source's keys do not lead from those of the log that was pulled here", p.Dir)
		case trust == nil || chain.keys.Has(trust.Keyset):
			return keysAt(k, max(now, k.Made)), nil
		case trust.Keyset.Previous.IsZero() || !chain.keys.HasDigest(trust.Keyset.Previous):
			return nil, fmt.Errorf("%s: the source's keys do not lead from, or to, those of this trust file", trustFile)
		case trust.Keyset.Origin != log.origin:
			return keysAt(k, max(now, k.Made)), nil
		}
		// The source is behind the trust file.
	}
	if trust != nil && len(chain.logs) > 1 && trust.Keyset.Origin != log.origin {
		return nil, withHint(fmt.Errorf("%s: its keys are of the log %q, and nothing here leads from them to %q", trustFile, trust.Keyset.Origin, log.origin), "make a newer one: assay audit trust init URL URL")
	}
	if trust != nil {
		return keysAt(trust.Keyset, max(now, trust.Keyset.Made)), nil
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

// keysAt returns the log keys that stand at a time, and those that ended just before.
func keysAt(k ledger.Keyset, at canon.Time) []string {
	keys := k.LogVKeys(at)
	for _, key := range k.LogVKeys(at - keyGrace) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
