package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

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
	cmd.AddCommand(a.logCheckCommand())
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
	src, asked, err := logAt(at)
	if err != nil {
		return err
	}
	keys, err := args.keys(ctx, asked)
	if err != nil {
		return err
	}
	promises, err := args.open(keys)
	if err != nil {
		return err
	}
	f := ledger.Follower{Logs: keys.logs}
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
	note, err := src.Checkpoint(ctx)
	if err != nil {
		return err
	}
	got, err := client.OpenBelieved(state).Follow(ctx, f, src, note, canon.At(a.now())+ledger.ClockSlack)
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
	fmt.Fprintf(a.stdout, "checkpoint   size %d, root %s\n", got.Size, got.Root)
	for _, by := range got.By {
		fmt.Fprintf(a.stdout, "witness      %s at %s\n", by.Witness, by.Time)
	}
	if got.Until != 0 {
		fmt.Fprintf(a.stdout, "cosigned     from %s until %s\n", got.From, got.Until)
	}
	return a.checkPromises(ctx, src, asked == nil, got, promises)
}

// believedKeys are whom a check believes.
type believedKeys struct {
	of      string         // what the log is known by: its verifier key, or with a trust file its origin
	origin  string         // of the log
	logs    []string       // verifier keys, of which one has to have signed
	signers ledger.Signers // of promises; nil: none are known
	strange error          // the server shows keys that have nothing to do with these
}

// keys returns the key of the command line, or the keys that a trust file leads to: those that took their place since, if
// the server can be asked for its keysets, else the file's own.
func (l *logCheckArgs) keys(ctx context.Context, asked *client.Client) (believedKeys, error) {
	if l.trust == "" {
		origin, _, err := ledger.ParseLogVKey(l.key)
		if err != nil {
			return believedKeys{}, withHint(err, "`assay serve` prints the key of its log; get it from somebody whom you trust, with --log-key")
		}
		return believedKeys{of: l.key, origin: origin, logs: []string{l.key}}, nil
	}
	t, err := readTrust(l.trust)
	if err != nil {
		return believedKeys{}, err
	}
	k := believedKeys{of: t.Keyset.Origin, origin: t.Keyset.Origin, signers: t.Keyset}
	k.logs = t.Keyset.LogVKeys(t.Keyset.Made)
	if asked == nil {
		return k, nil
	}
	history, err := asked.Keys(ctx)
	if p := client.AsProblem(err); p != nil && p.Status == http.StatusNotFound { // a mirror of the log alone
		return k, nil
	}
	switch {
	case err != nil:
		return k, err
	case !history.Has(t.Keyset):
		// The file's own keys still tell whether the log that they signed goes on, which is what a log begun anew breaks.
		k.strange = fmt.Errorf("%s: the server's keys do not lead from, or to, those of this trust file", l.trust)
		return k, nil
	}
	current := history.Current()
	k.logs, k.signers = current.LogVKeys(current.Made), history
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
		if err == nil && h.Origin != keys.origin {
			err = fmt.Errorf("made by the log %q", h.Origin)
		}
		h.refused = err
		out = append(out, h)
	}
	return out, nil
}

// logAt returns the log at a URL, and who can be asked there, or the log in a folder of this machine.
func logAt(at string) (ledger.Source, *client.Client, error) {
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		return audit.Directory(os.DirFS(at)), nil, nil
	}
	c, err := client.New(client.Config{URL: at})
	if err != nil {
		return nil, nil, err
	}
	return c.Mirror(), c, nil
}

// checkPromises looks for the entries of promises among the leaves of a checkpoint, and says what became of each.
func (a *app) checkPromises(ctx context.Context, src ledger.Source, local bool, at ledger.Cosigned, promises []heldPromise) error {
	var wanted []canon.Digest
	for _, p := range promises {
		if p.refused == nil {
			wanted = append(wanted, p.Commitment)
		}
	}
	var found map[canon.Digest]int64
	for _, from := range []int64{max(0, at.Size-recentLeaves), 0} {
		if len(found) == len(wanted) {
			break
		}
		var err error
		if found, err = ledger.Find(ctx, src, from, at.Tree, wanted); err != nil {
			return err
		}
	}
	worst := exitAccept
	for _, p := range promises {
		index, there := found[p.Commitment]
		state, what := audit.PromiseOpen, ""
		switch now := canon.At(a.now()); {
		case p.refused != nil:
			state, what = audit.PromiseRefused, p.refused.Error()
		case there:
			state, what = audit.PromiseKept, fmt.Sprintf("entry %d", index)
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
