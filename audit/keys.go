package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// The keys of a log are learned while it is read: from entry 0, and from each later keyset that a log key of the one
// before it signed for. What was signed is judged by the key that stood at the time of the statement. A trust file names
// one keyset; if the log has it, those before and after it are the trusted ones too (see [ledger.KeyHistory]).

// learnKeyset reads the keyset of an entry. One that does not follow from those before it is a fault, and changes nothing:
// what its keys sign is then signed by nobody.
func (r *replay) learnKeyset(ctx context.Context, index int64, e ledger.Entry, body []byte) error {
	env, err := ledger.ParseEnvelope(body)
	if err != nil {
		return wrong("%v", err)
	}
	if next, err := ledger.ParseKeyset(env.Payload); err == nil && index == 0 {
		switch is := next.Continues; {
		case is == ledger.Final{} && len(r.before) > 0:
			return wrong("the log continues none, and keysets of logs before it are here")
		case is != ledger.Final{} && len(r.before) == 0:
			return wrong("the log continues %q, and the keysets of the logs before it are not here", is.Origin)
		}
		r.report.Continues = next.Continues
		if is := next.Continues; is != (ledger.Final{}) && r.foldsVetting() {
			r.report.Carried = &CarriedFrom{Log: is.Origin, Items: []KindCount{}}
		}
	}
	var refs []canon.Digest
	if !r.keyset.IsZero() {
		refs = []canon.Digest{r.keyset}
	}
	if !slices.Equal(e.Refs, refs) {
		return wrong("refs do not name the keyset that it follows")
	}
	keys := r.keys
	if err := keys.Add(env); err != nil {
		return wrong("%v", err)
	}
	switch current := keys.Current(); {
	case current.Made != e.Time:
		return wrong("the keyset was made %s, its entry is of %s", current.Made, e.Time)
	case current.Origin != r.report.Origin:
		return wrong("the keyset is of the log %q, the checkpoint of %q", current.Origin, r.report.Origin)
	}
	r.keys, r.keyset, r.keysetsAt = keys, e.Body, append(r.keysetsAt, index)
	return nil
}

// judgeKeys says which keys the log shows, whether they are the trusted ones, and whether they signed the checkpoint. It
// comes when the log was read, because the keys are in it. Of a log that is not whole some may be missing; then only the
// checkpoint is judged, by what is known.
func (r *replay) judgeKeys(checkpoint []byte, whole bool) {
	for _, k := range r.keys.In(r.report.Origin) {
		seen := SeenKey{Use: k.Use, Fingerprint: fingerprint(k.SPKI), From: k.From, Until: k.Until}
		if k.Use == ledger.UseLog {
			seen.VKey, _ = k.LogVKey(r.report.Origin) // a keyset with a key that has none is refused
		}
		r.report.Keys = append(r.report.Keys, seen)
	}
	keys := r.logKeys(r.latest)
	if r.trust != nil && !r.keys.Has(r.trust.Keyset) && !(r.later.Has(r.trust.Keyset) && r.later.Has(r.keys.Current())) {
		if whole {
			r.fault(Fault{Part: "entry 0", Index: 0, Kind: ledger.KindKeyset, What: "not the trusted keys: " + r.trust.unlike(r.keys)})
		}
		trusted := r.trust.Keyset
		keys = logKeysAt(trusted.Origin, trusted.Of(ledger.UseLog), max(r.latest, trusted.Made))
	} else if _, err := ledger.OpenCheckpoint(checkpoint, keys.standing...); err == nil && r.trust != nil {
		r.report.Trust = Anchored
	}
	var err error
	if r.report.Witnesses, err = openNote(checkpoint, keys, r.terms()); err != nil {
		r.fault(Fault{Part: partCheckpoint, Index: NoIndex, What: err.Error()})
	}
}

// logKeys are the keys of a log for one checkpoint of it.
type logKeys struct {
	vkeys           []string // of standing
	standing, ended []note.Verifier
}

func logKeysAt(origin string, keys []ledger.Key, at canon.Time) (out logKeys) {
	for _, k := range keys {
		vkey, err := k.LogVKey(origin)
		if err != nil {
			continue // a keyset with such a key is refused
		}
		v, err := note.NewVerifier(vkey)
		switch {
		case err != nil: // as above
		case k.Ended(at):
			out.ended = append(out.ended, v)
		default:
			out.standing, out.vkeys = append(out.standing, v), append(out.vkeys, vkey)
		}
	}
	return out
}

// everyLogKey returns all log keys that the log has had so far: for its checkpoints of any time.
func (r *replay) everyLogKey() logKeys { return r.logKeys(0) }

func (r *replay) logKeys(at canon.Time) logKeys {
	return logKeysAt(r.report.Origin, slices.DeleteFunc(r.keys.In(r.report.Origin), func(k ledger.Key) bool { return k.Use != ledger.UseLog }), at)
}

// FirstKeyset reads the keyset in entry 0 of the log that a source's checkpoint names. Nothing vouches for it: it is what
// the log says of itself, and newer keys may have taken the place of these.
func FirstKeyset(ctx context.Context, src ledger.Source) (ledger.Keyset, error) {
	keys, err := FirstKeys(ctx, src)
	return keys.Current(), err
}

// FirstKeys reads the keysets up to entry 0 of a log: those of the logs before, if it continues one, and its own. Nothing
// vouches for them, as for [FirstKeyset].
func FirstKeys(ctx context.Context, src ledger.Source) (none ledger.KeyHistory, err error) {
	data, err := src.Checkpoint(ctx)
	if err != nil {
		return none, err
	}
	c, err := ledger.ReadCheckpoint(data)
	if err != nil {
		return none, err
	}
	t := ledger.Tile{Level: ledger.EntriesLevel, Width: int(min(c.Size, ledger.TileWidth))}
	if data, err = src.Tile(ctx, t); err != nil {
		return none, err
	}
	leaves, err := ledger.ParseEntryBundle(data)
	if err != nil || len(leaves) == 0 {
		return none, errors.Join(errors.New("the log is empty"), err)
	}
	if data, err = readBlob(ctx, src, leaves[0]); err != nil {
		return none, err
	}
	_, e, err := ledger.ParseOpening(data)
	if err != nil || e.Kind != ledger.KindKeyset {
		return none, errors.Join(errors.New("entry 0 is not a keyset"), err)
	}
	if data, err = readBlob(ctx, src, e.Body); err != nil {
		return none, err
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return none, err
	}
	keys, err := KeysBefore(ctx, src)
	if err == nil {
		err = keys.Add(env)
	}
	return keys, err
}

// unlike says why a log whose keys are not the trusted ones is another log, or an older state of it.
func (t Trust) unlike(keys ledger.KeyHistory) string {
	current := keys.Current()
	if len(current.Keys) == 0 {
		return "the log shows none"
	}
	if d, err := current.Digest(); err == nil && d == t.Keyset.Previous {
		return "the trust file is of later keys than the log has: take a newer export, or the trust file of then"
	}
	if t.Keyset.Continues.Origin == current.Origin {
		return fmt.Sprintf("the trust file is of the log %q, which continues this one: replay both together, or take the trust file of then", t.Keyset.Origin)
	}
	if d := differ("the trust file", t.Keyset, "the log", current); d != "" {
		return d
	}
	return fmt.Sprintf("the trust file has the keyset made %s, the log lacks it", t.Keyset.Made)
}

func fingerprint(spki []byte) canon.Digest { return canon.Sum(spki) }
