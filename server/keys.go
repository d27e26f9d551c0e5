package server

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server/keyring"
)

// The log says which keys speak for it and when: its first entry is a keyset, and each change of keys is another one. So
// all processes of one database change at once, and a private half is looked for by the public key that the log names. A
// process that lacks the newest key goes on with the one before it while that stands: the overlap is the time to bring it
// the key.

// KeyOverlap is the time for which a key stands beside the one that takes its place: a join token that was issued the
// moment before names the old one, and is good for a day.
const KeyOverlap = JoinTokenLife

// KeyLead is the time for which the first keys of a log stand before its first entry: clocks of processes differ, and one
// that is late, or is set back, goes on.
const KeyLead = time.Hour

// What [Settings.Renew] names beside the uses of keys.
const (
	renewAdmin = "admin-token"
	atOnce     = ":now" // behind log, result or promise: the old key was lost to somebody, and ends at once
)

// renewals are what a start renews.
type renewals struct {
	admin, ear bool
	keys       map[string]canon.Time // overlap by use, in seconds
}

func (s *Settings) renewals() (r renewals, err error) {
	r.keys = map[string]canon.Time{}
	for _, what := range s.Renew {
		use, overlap := what, KeyOverlap
		if n := len(what) - len(atOnce); n > 0 && what[n:] == atOnce {
			use, overlap = what[:n], 0
		}
		switch {
		case what == renewAdmin:
			r.admin = true
		case what == keyring.UseEAR:
			r.ear = true
		case use == ledger.UseLog, use == ledger.UseResult, use == ledger.UsePromise:
			r.keys[use] = seconds(overlap)
		default:
			return r, fmt.Errorf("settings: renew %.40q: want admin-token, ear, log, result or promise; the last three may end in %s", what, atOnce)
		}
	}
	return r, nil
}

// keys is what the logs said of their keys up to one place of the server's streams. It is never changed.
type keys struct {
	history ledger.KeyHistory
	last    canon.Digest // body of the entry of the newest keyset
	log     int64        // number of the log that was looked at last; 0: none was
	next    int64        // sequence from which on the server's stream of that log was not looked at
}

// keysAfter reads the keysets that the server's streams have from a place on.
func (s *Store) keysAfter(ctx context.Context, k keys) (keys, error) {
	end := k
	err := s.db.Reader().QueryRowContext(ctx, `SELECT log, next FROM stream WHERE name = $1 ORDER BY log DESC LIMIT 1`, ledger.StreamServer).Scan(&end.log, &end.next)
	if errors.Is(err, sql.ErrNoRows) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("look for keysets: %w", err)
	}
	if end.log == k.log && end.next == k.next {
		return k, nil
	}
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT log, sequence, body FROM entry WHERE stream = $1 AND (log, sequence) >= ($2, $3) AND kind = $4 ORDER BY log, sequence`,
		ledger.StreamServer, k.log, k.next, ledger.KindKeyset)
	if err != nil {
		return k, fmt.Errorf("read keysets: %w", err)
	}
	defer rows.Close()
	var bodies []canon.Digest
	for rows.Next() {
		var log, sequence int64
		var body canon.Digest
		if err := rows.Scan(&log, &sequence, &body); err != nil {
			return k, fmt.Errorf("read keysets: %w", err)
		}
		bodies = append(bodies, body)
		if log > end.log { // came between the two queries
			end.log, end.next = log, 0
		}
		if log == end.log {
			end.next = max(end.next, sequence+1)
		}
	}
	if err := rows.Err(); err != nil {
		return k, fmt.Errorf("read keysets: %w", err)
	}
	for _, body := range bodies {
		env, err := s.keysetEnvelope(ctx, body)
		if err != nil {
			return k, err
		}
		if err := k.history.Add(env); err != nil {
			return k, fmt.Errorf("damaged database: keyset %s: %w", body, err)
		}
		k.last = body
	}
	k.log, k.next = end.log, end.next
	return k, nil
}

// keysetEnvelope reads the envelope of a keyset.
func (s *Store) keysetEnvelope(ctx context.Context, body canon.Digest) (ledger.Envelope, error) {
	data, err := s.Blob(ctx, body)
	if err != nil {
		return ledger.Envelope{}, err
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return ledger.Envelope{}, fmt.Errorf("damaged database: keyset %s: %w", body, err)
	}
	return env, nil
}

// Keys returns every key that the logs of a store have had. Before the first entry there is none.
func (s *Store) Keys(ctx context.Context) (ledger.KeyHistory, error) {
	k, err := s.keysAfter(ctx, keys{})
	return k.history, err
}

// keysNow returns the keys of the log as they are, with what other processes changed.
func (s *Server) keysNow(ctx context.Context) (keys, error) {
	known := *s.keys.Load()
	k, err := s.store.keysAfter(ctx, known)
	if err == nil && (k.log != known.log || k.next != known.next) {
		s.keys.Store(&k)
	}
	return k, err
}

// signer returns the newest key of a use that stands at a time, that of the statement, and whose private half this process
// has.
func (s *Server) signer(ctx context.Context, use string, at canon.Time) (*keyring.Key, error) {
	k, err := s.keysNow(ctx)
	if err != nil {
		return nil, err
	}
	standing := k.history.Current().Standing(use, at)
	if len(standing) == 0 {
		return nil, fmt.Errorf("keys: no %s key of this log stands at %s: does the clock jump?", use, at)
	}
	var first error
	for _, one := range standing {
		held, err := s.ring.Find(use, one.SPKI)
		if err == nil {
			if _, told := s.lacking.LoadOrStore(standing[0].ID(), true); first != nil && !told {
				s.alarm("the newest key is not here, the one before it signs until its end", "use", use, "until", one.Until.String(), "error", first)
			}
			return held, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, fmt.Errorf("keys: %w; processes that share a database share their keys", first)
}

// noteKey signs checkpoints. It is a [note.Signer].
type noteKey struct {
	note.Verifier // name and key hash
	key           *keyring.Key
}

func (k noteKey) Sign(text []byte) ([]byte, error) { return k.key.Sign(text) }

// noteSigners returns the signers of the checkpoints of a log: every log key of its own that stands, so that who knows the
// one that goes or the one that comes believes the note. The newest must be here.
func (s *Server) noteSigners(ctx context.Context, log Log) ([]note.Signer, error) {
	k, err := s.keysNow(ctx)
	if err != nil {
		return nil, err
	}
	set, _ := k.history.Newest(log.Origin)
	return s.signersOf(set)
}

// signersOf returns the signers of the checkpoints of a keyset's log.
func (s *Server) signersOf(set ledger.Keyset) ([]note.Signer, error) {
	now := s.time()
	var signers []note.Signer
	for i, one := range set.Standing(ledger.UseLog, now) {
		held, err := s.ring.Find(ledger.UseLog, one.SPKI)
		if err != nil && i > 0 {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		v, err := note.NewVerifier(set.LogVKeys(now)[i])
		if err != nil {
			return nil, fmt.Errorf("log key: %w", err)
		}
		signers = append(signers, noteKey{v, held})
	}
	if len(signers) == 0 {
		return nil, fmt.Errorf("keys: no log key of %s stands at %s: does the clock jump?", set.Origin, now)
	}
	return signers, nil
}

// Keyset returns the public keys of the log and its verifier that have not ended.
func (s *Server) Keyset() ledger.Keyset { return s.keys.Load().history.Current() }

// keysets returns the envelopes of all keysets.
func (s *Server) keysets(ctx context.Context) (client.Keysets, error) {
	k, err := s.keysNow(ctx)
	return client.Keysets{Keysets: k.history.Envelopes()}, err
}

// openRing opens the places of private keys.
func (s *Server) openRing(getenv func(string) string) error {
	dir, tokens, err := keyring.Places(s.settings.Keys)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	s.ring, err = keyring.Open(keyring.Config{
		Dir: cmp.Or(dir, KeysFolder(s.settings.Data)), Tokens: tokens, Secrets: keyring.Secrets{Getenv: getenv}, Random: s.random,
	})
	return err
}

// KeysFolder returns the folder of the key files of a data folder, where the settings name no other.
func KeysFolder(data string) string { return filepath.Join(data, "keys") }

// beginKeys opens the keys of the log; a first start makes them.
func (s *Server) beginKeys(ctx context.Context, name string) error {
	k, err := s.store.keysAfter(ctx, keys{})
	if err != nil {
		return err
	}
	s.keys.Store(&k)
	if k.next == 0 {
		err := s.firstKeys(ctx, name)
		if errors.Is(err, errNotFirst) {
			return s.beginKeys(ctx, name)
		}
		return err
	}
	current := k.history.Current()
	switch {
	case len(current.Keys) == 0:
		return errors.New("damaged database: the log does not begin with a keyset")
	case s.settings.LogName != "" && !slices.Contains(k.history.Origins(), s.settings.LogName):
		return fmt.Errorf("settings: log name %q, the log is called %q since its first entry", s.settings.LogName, current.Origin)
	}
	for _, use := range []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise} {
		if _, err := s.signer(ctx, use, s.time()); err != nil {
			return err
		}
	}
	if err := s.renewKeys(ctx); err != nil {
		return fmt.Errorf("renew keys: %w", err)
	}
	now := s.time()
	for _, key := range s.keys.Load().history.Keys() {
		if key.Ended(now) {
			if err := s.ring.Forget(key.Use, key.ID()); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNotFirst means that another process has made the first entry of the log meanwhile.
var errNotFirst = errors.New("the log has a first entry")

// firstKeys makes the keys of a log, or takes those that are there, and its first entry. The keys are durable before the
// entry that names them; a crash between the two leaves keys that the next start takes.
func (s *Server) firstKeys(ctx context.Context, name string) error {
	at := s.time()
	set := ledger.Keyset{Type: ledger.KeysetType, Origin: name, Made: at}
	var signers []ledger.Signer
	for _, use := range []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise} {
		made, err := s.ring.Given(use)
		if err == nil && made == nil {
			made, err = s.ring.Make(use)
		}
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		set.Keys = append(set.Keys, ledger.Key{Use: use, SPKI: made.SPKI(), From: at - seconds(KeyLead)})
		signers = append(signers, made)
	}
	return s.addKeyset(ctx, func(k keys) (ledger.Keyset, []ledger.Signer, error) {
		if k.next != 0 {
			return set, nil, errNotFirst
		}
		return set, signers, nil
	})
}

// renewKeys puts new keys in the place of those that the settings name.
func (s *Server) renewKeys(ctx context.Context) error {
	renew, err := s.settings.renewals()
	if err != nil || len(renew.keys) == 0 {
		return err
	}
	for _, use := range []string{ledger.UseResult, ledger.UsePromise, ledger.UseLog} {
		overlap, ok := renew.keys[use]
		if !ok {
			continue
		}
		made, err := s.ring.Make(use)
		if err != nil {
			return err
		}
		err = s.addKeyset(ctx, func(k keys) (ledger.Keyset, []ledger.Signer, error) {
			now, current := s.time(), k.history.Current()
			by, err := s.logKey(current, now)
			if err != nil {
				return current, nil, err
			}
			next, err := current.NextKeyset(now, overlap, ledger.Key{Use: use, SPKI: made.SPKI()})
			return next, []ledger.Signer{by, made}, err
		})
		if err != nil {
			return s.dropKey(err, use, made.ID())
		}
		s.log.Info("new key", "use", use, "key", made.ID().Short(), "overlap", time.Duration(overlap)*time.Second)
	}
	return nil
}

// dropKey removes the file of a new key, since what should name it failed, and returns why it did. After a failed commit
// the key may be named all the same: the file stays then, for the log may never do without it.
func (s *Server) dropKey(why error, use string, id canon.Digest) error {
	if errors.Is(why, sqldb.ErrCommit) {
		return fmt.Errorf("%w: if the log names the new %s key %s, the next start finds it", why, use, id.Short())
	}
	return errors.Join(why, s.ring.Forget(use, id))
}

// addKeyset logs a keyset that is made from those before it. Of several processes that do so at once, one after another
// does.
func (s *Server) addKeyset(ctx context.Context, next func(keys) (ledger.Keyset, []ledger.Signer, error)) error {
	known := *s.keys.Load()
	var after keys
	err := s.store.Tx(ctx, func(tx *Tx) error {
		tail, err := tx.hold(ctx, ledger.StreamServer)
		if err != nil {
			return err
		}
		k, err := s.store.keysAfter(ctx, known)
		if err != nil {
			return err
		}
		if tail.Next > 0 && (k.log != tx.log || k.next != tail.Next) {
			return errors.New("another process is changing the log's beginning: start again")
		}
		set, signers, err := next(k)
		if err != nil {
			return err
		}
		after, err = tx.appendKeyset(ctx, k, set, signers...)
		return err
	})
	if err == nil {
		s.keys.Store(&after)
	}
	return err
}

// appendKeyset appends the keyset that follows those that are known, and returns the keys with it.
func (tx *Tx) appendKeyset(ctx context.Context, k keys, set ledger.Keyset, signers ...ledger.Signer) (keys, error) {
	env, err := ledger.SealKeyset(set, signers...)
	if err != nil {
		return k, err
	}
	data, err := canon.Marshal(env)
	if err != nil {
		return k, err
	}
	d := Draft{Kind: ledger.KindKeyset, Stream: ledger.StreamServer, Time: set.Made, Body: tx.PutBlob(data), Refs: []canon.Digest{}}
	if !k.last.IsZero() {
		d.Refs = append(d.Refs, k.last)
	}
	if err := k.history.Add(env); err != nil {
		return k, err
	}
	_, e, err := tx.Append(ctx, d)
	k.last, k.log, k.next = d.Body, tx.log, e.Sequence+1
	return k, err
}
