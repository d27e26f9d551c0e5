package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/internal/inputs"
	"github.com/assay-network/assay/ledger"
)

// recentLeaves are looked through first: promises are mostly of late, and logs are long.
const recentLeaves = 1 << 16

func (a *app) logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Follow a log from outside",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.logCheckCommand(), a.logCloseCommand())
	return cmd
}

type logCheckArgs struct {
	key, witnesses, state, trust string
	promises                     []string
}

func (a *app) logCheckCommand() *cobra.Command {
	var l logCheckArgs
	cmd := &cobra.Command{
		Use:   "check URL|FOLDER",
		Short: "Check that a log continues what it showed before, that your witnesses say so, and that it kept its promises",
		Long: `Check that a log continues what it showed before, that your witnesses say so, and that it kept its promises.

URL is a server or a mirror of its log, FOLDER a mirror on this machine. The newest checkpoint must be signed by the
log's key, continue the last one that you believed, and bear the cosignatures that
your own witness policy asks for. It is then the last one that you believed; the
state folder keeps it.

A promise is what a submitter was given. Its entry is looked for among all leaves of
that checkpoint, the newest first. It is kept if it is there, and withheld if
it is not though publish-by has passed: by the time of the cosignatures if you ask
witnesses, else by this machine's clock and only at a URL, for a mirror on this
machine may be an old one. Until then it is not due. Promise keys come with --trust,
which also names the log's key; from it, the server's keysets are followed to newer ones.

Where the log was closed and another goes on, the keysets lead to that one: then the
last checkpoint that you believed must continue to the one that the closed log ended
with. A promise is looked for in the log that it names.

Exit codes: 0 it passes, 1 the log shows two histories (both notes stay in the state
folder, as proof), a promise was withheld or is none of this log, 2 usage or could
not run, 3 too few witnesses have seen this checkpoint, or a promise is not due.`,
		Example: `  assay log check https://assay.example --log-key assay.example/log+0f1a2b3c+AW... --witnesses witnesses.txt
  assay log check https://assay.example --trust trust.yaml --promise promise.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.logCheck(c.Context(), args[0], l) },
	}
	fl := cmd.Flags()
	fl.StringVar(&l.key, "log-key", "", "verifier `KEY` of the log, from elsewhere than the log (this or --trust is required)")
	fl.StringVar(&l.trust, "trust", "", "trust `FILE` of audit trust init, for the keys of log and promises")
	fl.StringArrayVar(&l.promises, "promise", nil, "`FILE` of a promise to look for; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("log-key", "trust")
	fl.StringVar(&l.witnesses, "witnesses", "", "witness policy `FILE` (C2SP tlog-policy) of your own (default: ask no witnesses)")
	fl.StringVar(&l.state, "state", "", "`FOLDER` of the last checkpoint (default: one for this key in the user's data folder)")
	return cmd
}

func (a *app) logCheck(ctx context.Context, at string, args logCheckArgs) error {
	chain, err := a.pullChain(ctx, at)
	if err != nil {
		return err
	}
	keys, err := args.keys(chain)
	if err != nil {
		return err
	}
	promises, err := args.open(keys)
	if err != nil {
		return err
	}
	f := ledger.Follower{Logs: keys.logs, Chain: chain.forReader}
	if args.witnesses != "" {
		if f.Witnesses, err = inputs.WitnessPolicy(args.witnesses); err != nil {
			return err
		}
	}
	state, err := a.dataFolder(args.state, filepath.Join("assay-logs", canon.Sum([]byte(keys.of)).Short()))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	note, err := keys.src.Checkpoint(ctx)
	if err != nil {
		return err
	}
	until := canon.At(a.now()) + ledger.ClockSlack
	got, err := client.OpenBelieved(state).Follow(ctx, f, keys.src, note, until)
	var missing *ledger.QuorumError
	switch {
	case errors.Is(err, ledger.ErrFork):
		fmt.Fprintf(a.stdout, "fork         %v\nnotes        %s\n", err, filepath.Join(state, "checkpoint.{believed,refused}"))
		return outcome(exitReject)
	case keys.strange != nil:
		return errors.Join(keys.strange, err)
	case errors.As(err, &missing):
		fmt.Fprintf(a.stdout, "undecided    %v\n", err)
		return outcome(exitUndecided)
	case err != nil:
		return err
	}
	fmt.Fprintf(a.stdout, "log          %s\n", got.Origin)
	if from := before(chain, got.Origin); from != "" {
		fmt.Fprintf(a.stdout, "continues    %s\n", from)
	}
	fmt.Fprintf(a.stdout, "checkpoint   size %d, root %s\n", got.Size, got.Root)
	for _, by := range got.By {
		fmt.Fprintf(a.stdout, "witness      %s at %s\n", by.Witness, by.Time)
	}
	if got.Until != 0 {
		fmt.Fprintf(a.stdout, "cosigned     from %s until %s\n", got.From, got.Until)
	}
	return a.checkPromises(ctx, lookedAt{keys.src, got, false}, !strings.Contains(at, "://"), promises, func(origin string) (lookedAt, error) {
		return closedLog(ctx, chain, origin, f.Witnesses, until)
	})
}

// before names the logs before one, the oldest first.
func before(chain pullChain, origin string) string {
	origins := chain.keys.Origins()
	return strings.Join(origins[:max(0, slices.Index(origins, origin))], ", ")
}

// closedLog returns a log that was closed, with its final checkpoint.
func closedLog(ctx context.Context, chain pullChain, origin string, witnesses *ledger.WitnessPolicy, until canon.Time) (lookedAt, error) {
	l, err := chain.named(origin)
	if err != nil {
		return lookedAt{}, err
	}
	k, _ := chain.keys.Newest(origin)
	next, _, ok := chain.keys.After(origin)
	if !ok {
		return lookedAt{}, fmt.Errorf("log %.80q: no keyset says that another one goes on", origin)
	}
	note, err := l.src.Checkpoint(ctx)
	if err != nil {
		return lookedAt{}, err
	}
	c, err := ledger.Follower{Logs: k.LogVKeys(next.Made), Witnesses: witnesses}.Follow(ctx, l.src, nil, note, until)
	if err == nil {
		err = chain.ended(c.Checkpoint)
	}
	return lookedAt{l.src, c, true}, err
}

// believedKeys are whom a check believes.
type believedKeys struct {
	of      string         // what the log is known by: its verifier key, or with a trust file its origin
	origins []string       // of the log, and of those of its chain
	logs    []string       // verifier keys, of which one has to have signed
	signers ledger.Signers // of promises; nil: none are known
	src     ledger.Source  // the log
	strange error          // the server shows keys that have nothing to do with these
}

// keys returns the key of the command line, or the keys that a trust file leads to: those that took their place since, if
// the server can be asked for its keysets, else the file's own. Where the log of the key was closed, its keysets lead to the
// newest log.
func (l *logCheckArgs) keys(chain pullChain) (believedKeys, error) {
	newest := chain.logs[len(chain.logs)-1]
	current := chain.keys.Current()
	if l.trust == "" {
		origin, _, err := ledger.ParseLogVKey(l.key)
		if err != nil {
			return believedKeys{}, withHint(err, "`assay serve` prints the key of its log; get it from somebody whom you trust, with --log-key")
		}
		k := believedKeys{of: l.key, origins: []string{origin}, logs: []string{l.key}, src: newest.src}
		if own := chain.keys.LogVKeys(origin); origin != newest.origin && slices.Contains(own, l.key) {
			k.logs = current.LogVKeys(current.Made)
		}
		return k, nil
	}
	t, err := readTrust(l.trust)
	if err != nil {
		return believedKeys{}, err
	}
	k := believedKeys{of: t.Keyset.Origin, origins: []string{t.Keyset.Origin}, signers: t.Keyset, src: newest.src}
	switch {
	case chain.keys.Has(t.Keyset):
		k.logs, k.signers, k.origins = current.LogVKeys(current.Made), chain.keys, chain.keys.Origins()
		return k, nil
	case chain.asked:
		// The file's own keys still tell whether the log that they signed goes on, which is what a log begun anew breaks.
		k.strange = fmt.Errorf("%s: the server's keys do not lead from, or to, those of this trust file", l.trust)
	}
	k.logs = t.Keyset.LogVKeys(t.Keyset.Made)
	return k, nil
}

// heldPromise is a promise of the command line.
type heldPromise struct {
	file string
	ledger.Promise
	refused error // it is none of this log
}

// open reads the promises.
func (l *logCheckArgs) open(keys believedKeys) (out []heldPromise, err error) {
	if len(l.promises) > audit.MaxPromises {
		return nil, fmt.Errorf("%d promises, at most %d", len(l.promises), audit.MaxPromises)
	}
	if len(l.promises) > 0 && keys.signers == nil {
		return nil, withHint(errors.New("promises are checked with the keys of a trust file"), "assay audit trust init URL URL, then --trust")
	}
	for _, file := range l.promises {
		data, err := files.Bounded(file, ledger.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		h := heldPromise{file: file}
		env, err := ledger.ParseEnvelope(bytes.TrimSuffix(data, []byte("\n")))
		if err == nil {
			h.Promise, err = ledger.OpenPromise(env, keys.signers)
		}
		if err == nil && !slices.Contains(keys.origins, h.Origin) {
			err = fmt.Errorf("made by the log %q", h.Origin)
		}
		h.refused = err
		out = append(out, h)
	}
	return out, nil
}

// lookedAt is a log in which promises are looked for.
type lookedAt struct {
	ledger.Source
	is     ledger.Cosigned
	closed bool
}

// checkPromises looks for the entries of promises among the leaves of a checkpoint of their log, and says what became of
// each. closed returns a log that was closed.
func (a *app) checkPromises(ctx context.Context, newest lookedAt, local bool, promises []heldPromise, closed func(origin string) (lookedAt, error)) error {
	logs := map[string]lookedAt{newest.is.Origin: newest}
	wanted := map[string][]canon.Digest{} // by log
	for _, p := range promises {
		if p.refused == nil {
			wanted[p.Origin] = append(wanted[p.Origin], p.Commitment)
		}
	}
	found := map[canon.Digest]int64{}
	for _, origin := range slices.Sorted(maps.Keys(wanted)) {
		if _, ok := logs[origin]; !ok {
			l, err := closed(origin)
			if err != nil {
				return err
			}
			logs[origin] = l
		}
		in := logs[origin]
		for _, from := range []int64{max(0, in.is.Size-recentLeaves), 0} {
			there, err := ledger.Find(ctx, in, from, in.is.Tree, wanted[origin])
			if err != nil {
				return err
			}
			maps.Copy(found, there)
			if len(there) == len(wanted[origin]) {
				break
			}
		}
	}
	worst := exitAccept
	for _, p := range promises {
		index, there := found[p.Commitment]
		state, what, at := audit.PromiseOpen, "", logs[p.Origin].is
		switch now := canon.At(a.now()); {
		case p.refused != nil:
			state, what = audit.PromiseRefused, p.refused.Error()
		case there:
			state, what = audit.PromiseKept, fmt.Sprintf("entry %d", index)
		case logs[p.Origin].closed:
			state, what = audit.PromiseWithheld, fmt.Sprintf("the log %s was closed with size %d, and lacks it", at.Origin, at.Size)
		case at.From > p.PublishBy:
			state, what = audit.PromiseWithheld, fmt.Sprintf("publish-by was %s, the checkpoint, cosigned at %s, lacks it", p.PublishBy, at.From)
		case at.From != 0:
			what = fmt.Sprintf("publish-by is %s, the checkpoint was cosigned at %s", p.PublishBy, at.From)
		case local:
			what = fmt.Sprintf("publish-by is %s, and nobody says how old this mirror is: ask a URL, or witnesses", p.PublishBy)
		case now > p.PublishBy+ledger.ClockSlack:
			state, what = audit.PromiseWithheld, fmt.Sprintf("publish-by was %s, at %s by this machine's clock the newest checkpoint lacks it", p.PublishBy, now)
		default:
			what = fmt.Sprintf("publish-by is %s, it is %s by this machine's clock", p.PublishBy, now)
		}
		fmt.Fprintf(a.stdout, "promise      %s: %s: %s\n", state, p.file, what)
		switch {
		case state == audit.PromiseWithheld || state == audit.PromiseRefused:
			worst = exitReject
		case state == audit.PromiseOpen && worst == exitAccept:
			worst = exitUndecided
		}
	}
	if worst != exitAccept {
		return outcome(worst)
	}
	return nil
}
