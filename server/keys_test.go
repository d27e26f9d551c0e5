package server_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/client/relying"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/sqldb"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/keyring"
)

// keyFile returns the path of the file of the newest key of a use.
func (l *lab) keyFile(use string) string {
	l.t.Helper()
	key := l.server.Keyset().Standing(use, canon.At(l.clock.Now()))[0]
	return filepath.Join(l.settings.Data, "keys", use+"-"+key.ID().String()+".pem")
}

// opened starts another server on the lab's world and closes it, and returns why it did not start.
func (l *lab) opened(change ...func(*server.Settings)) error {
	l.t.Helper()
	settings := l.settings
	for _, f := range change {
		f(&settings)
	}
	s, err := server.New(l.t.Context(), settings, server.Deps{Now: l.clock.Now, Random: newSource(9), Log: quiet()})
	if err == nil {
		err = s.Close()
	}
	return err
}

func wantErr(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

var logUses = []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise}

func TestKeys(t *testing.T) {
	l := newLab(t, "")
	keys := l.server.Keyset()
	got, err := l.client("").Keys(t.Context())
	must(t, err)
	if !sameJSON(t, got.Current(), keys) || keys.Origin != "assay.test/log" {
		t.Errorf("served keys %+v, want %+v", got.Current(), keys)
	}
	swap := func(t *testing.T, path string, data []byte) {
		old, err := os.ReadFile(path)
		must(t, err)
		t.Cleanup(func() { must(t, os.WriteFile(path, old, 0o600)) })
		if data == nil {
			must(t, os.Remove(path))
			return
		}
		must(t, os.WriteFile(path, data, 0o600))
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		must(t, err)
		return data
	}
	for _, use := range logUses {
		info, err := os.Stat(l.keyFile(use))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", l.keyFile(use), info.Mode().Perm())
		}
		t.Run(use+" lost", func(t *testing.T) {
			swap(t, l.keyFile(use), nil)
			wantErr(t, l.opened(), use+" key "+keys.Standing(use, keys.Made)[0].ID().Short()+": its private half is not here, in no file of the key folder and no token that was named; ")
		})
	}
	t.Run("another key in its file", func(t *testing.T) {
		swap(t, l.keyFile(ledger.UseResult), read(l.keyFile(ledger.UsePromise)))
		wantErr(t, l.opened(), "not the one that its name says")
	})
	t.Run("of another log", func(t *testing.T) {
		data := l.settings.Data
		wantErr(t, l.opened(func(s *server.Settings) {
			s.Data, s.Database = newLab(t, "").settings.Data, "sqlite:"+filepath.Join(data, "assay.db")
		}), "its private half is not here")
	})
	t.Run("cut off", func(t *testing.T) {
		text := read(l.keyFile(ledger.UseResult))
		swap(t, l.keyFile(ledger.UseResult), text[:len(text)/2])
		wantErr(t, l.opened(), "no whole PEM block")
	})
	t.Run("readable by others", func(t *testing.T) {
		must(t, os.Chmod(l.keyFile(ledger.UseLog), 0o640))
		defer os.Chmod(l.keyFile(ledger.UseLog), 0o600)
		wantErr(t, l.opened(), "mode 0640 lets others at it")
	})
	t.Run("another name", func(t *testing.T) {
		wantErr(t, l.opened(func(s *server.Settings) { s.LogName = "elsewhere/log" }), "is called")
	})
	t.Run("in another folder", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "moved")
		must(t, os.Rename(filepath.Join(l.settings.Data, "keys"), folder))
		defer os.Rename(folder, filepath.Join(l.settings.Data, "keys"))
		must(t, l.opened(func(s *server.Settings) { s.Keys = []string{folder} }))
	})
	must(t, l.opened())
}

// TestRenew renews each key while a node is at work: nothing that was begun is lost, the old key stands for the overlap
// and its file goes afterwards, and an auditor with the trust file of the first day recomputes all of it.
func TestRenew(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		first := l.server.Keyset()
		n := l.join("one")
		var submitted []client.Submitted
		for _, use := range []string{ledger.UseResult, ledger.UsePromise, ledger.UseLog} {
			old := l.keyFile(use)
			token, err := l.client(l.admin).NewJoinToken(t.Context(), "")
			must(t, err)
			sub := n.submit(n.evidence(n.challenge())) // before, and decided after
			open := n.challenge()                      // before, and answered after
			l.settings.Renew = []string{use}
			l.clock.advance(time.Second)
			l.restart()
			l.settings.Renew = nil
			if got := l.server.Keyset().Standing(use, canon.At(l.clock.Now())); len(got) != 2 || got[1].Until != canon.At(l.clock.Now().Add(server.KeyOverlap)) || got[1].ID() == got[0].ID() {
				t.Errorf("%s keys after renewing: %+v", use, got)
			}
			l.advance()
			if d := n.decision(sub.Evidence); d.Outcome != client.Accept {
				t.Errorf("submitted before another %s key: %+v", use, d)
			}
			again := n.submit(n.evidence(open))
			l.advance()
			if d := n.decision(again.Evidence); d.Outcome != client.Accept {
				t.Errorf("challenged before another %s key: %+v", use, d)
			}
			submitted = append(submitted, sub, again)
			tok, err := client.ParseToken(token.Token)
			must(t, err)
			_, err = l.client("").Join(t.Context(), tok)
			must(t, err)
			l.restart()
			if _, err := os.Stat(old); err != nil {
				t.Errorf("in the overlap: %v", err)
			}
			l.rest(server.KeyOverlap)
			l.restart()
			if _, err := os.Stat(old); err != nil {
				t.Errorf("in its last second: %v", err)
			}
			l.clock.advance(time.Second)
			l.restart()
			if _, err := os.Stat(old); !os.IsNotExist(err) {
				t.Errorf("the %s key that ended is still on the disk: %v", use, err)
			}
		}
		kinds := 0
		page, err := l.client(l.admin).Entries(t.Context(), 0)
		must(t, err)
		for _, e := range page.Entries {
			if e.Kind == ledger.KindKeyset {
				kinds++
			}
		}
		if kinds != 4 {
			t.Errorf("%d keysets in the log, want 4: a start that renews nothing logs none", kinds)
		}
		l.advance()
		for _, k := range []ledger.Keyset{first, l.server.Keyset()} {
			auditLogBy(t, l.server, k, submitted)
		}
	})
}

// TestRenewLogKey: while two log keys stand both sign checkpoints, afterwards the new one alone.
func TestRenewLogKey(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	verifiers := l.server.Keyset().LogVerifiers()
	signed := func() (by []bool) {
		t.Helper()
		n.prove()
		l.advance()
		data, err := l.server.Source().Checkpoint(t.Context())
		must(t, err)
		for _, v := range verifiers {
			_, err := ledger.OpenCheckpoint(data, v)
			by = append(by, err == nil)
		}
		return by
	}
	if got := signed(); !slices.Equal(got, []bool{true}) {
		t.Errorf("before: %v", got)
	}
	l.settings.Renew = []string{ledger.UseLog}
	l.restart()
	l.settings.Renew = nil
	added := slices.DeleteFunc(l.server.Keyset().LogVerifiers(), func(v note.Verifier) bool { return v.KeyHash() == verifiers[0].KeyHash() })
	verifiers = append(verifiers, added...)
	if got := signed(); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("in the overlap: %v", got)
	}
	l.rest(server.KeyOverlap)
	if got := signed(); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("in its last second: %v", got)
	}
	l.clock.advance(time.Second)
	if got := signed(); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("a second later: %v", got)
	}
	l.audited()
}

// TestRenewAtOnce: a key that was lost to somebody ends in the second of its renewal.
func TestRenewAtOnce(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	n.prove()
	token, err := l.client(l.admin).NewJoinToken(t.Context(), "")
	must(t, err)
	l.settings.Renew = []string{"result:now"}
	l.restart()
	l.settings.Renew = nil
	l.clock.advance(time.Second)
	if got := l.server.Keyset().Standing(ledger.UseResult, canon.At(l.clock.Now())); len(got) != 1 {
		t.Errorf("standing: %+v", got)
	}
	tok, err := client.ParseToken(token.Token)
	must(t, err)
	_, err = l.client("").Join(t.Context(), tok)
	refused(t, err, 403, "token")
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("afterwards: %+v", d)
	}
	l.audited()
}

// TestPromiseOfEndedKey: an attestation result carries a promise by the key of the verdict's time, or none once that has
// ended: no key makes promises for a time before its own, or after it.
func TestPromiseOfEndedKey(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	_, evidence := n.prove()
	promised := func(evidence canon.Digest) *ledger.Envelope {
		t.Helper()
		want := n.expected(nil)
		want.AnyNonce = true
		r, err := relying.Verify(n.ear(evidence), l.keys(), want, l.clock.Now())
		must(t, err)
		return r.Promise
	}
	l.clock.advance(time.Second)
	l.settings.Renew = []string{"promise:now"}
	l.restart()
	l.settings.Renew = nil
	if e := promised(evidence); e == nil {
		t.Error("in its last second: no promise")
	} else if _, err := ledger.OpenPromise(*e, l.server.Keyset()); err != nil {
		t.Errorf("in its last second: %v", err)
	}
	l.clock.advance(time.Second)
	if promised(evidence) != nil {
		t.Error("a promise for a verdict that is older than the key")
	}
	_, evidence = n.prove()
	if e := promised(evidence); e == nil {
		t.Error("no promise by the new key")
	} else if _, err := ledger.OpenPromise(*e, l.server.Keyset()); err != nil {
		t.Errorf("by the new key: %v", err)
	}
}

// TestRenewTwoProcesses: a process that lacks the new key goes on with the old one, raises an alarm, and ends with it.
func TestRenewTwoProcesses(t *testing.T) {
	url := pgtest.URL(t)
	l := newLab(t, url)
	other := l.settings
	other.Data = t.TempDir()
	must(t, os.CopyFS(filepath.Join(other.Data, "keys"), os.DirFS(filepath.Join(l.settings.Data, "keys"))))
	must(t, filepath.Walk(filepath.Join(other.Data, "keys"), func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			err = os.Chmod(path, 0o600)
		}
		return err
	}))
	n := l.join("one")
	l.settings, other = other, l.settings
	l.restart() // the process with the copy
	old := l.server.Keyset().Standing(ledger.UseResult, canon.At(l.clock.Now()))[0]
	other.Renew = []string{ledger.UseResult}
	l.clock.advance(time.Second)
	must(t, l.opened(func(s *server.Settings) { *s = other })) // another process renews
	d, evidence := n.prove()
	if d.Outcome != client.Accept {
		t.Errorf("in the overlap: %+v", d)
	}
	r, err := n.client().Result(t.Context(), evidence)
	must(t, err)
	if pub, err := old.Public(); err != nil || !r.Result.SignedBy(pub) {
		t.Errorf("not signed by the key that is here: %v", err)
	}
	if text := l.log.String(); strings.Count(text, "the newest key is not here") != 1 {
		t.Errorf("log %q: want one alarm", text)
	}
	l.audited()
	l.rest(server.KeyOverlap + time.Second)
	_, err = n.client().Challenge(t.Context(), nil)
	refused(t, err, 500, "internal")
	if !strings.Contains(l.log.String(), "processes that share a database share their keys") {
		t.Errorf("log %q", l.log)
	}
}

// TestRenewKilled: a start that dies between any two steps of a renewal loses nothing, and the next one finds keys that
// the log names, all of them.
func TestRenewKilled(t *testing.T) {
	l := newLab(t, "")
	n := l.join("one")
	sub := n.submit(n.evidence(n.challenge()))
	before := l.server.Keyset()
	files := func() int {
		entries, err := os.ReadDir(filepath.Join(l.settings.Data, "keys"))
		must(t, err)
		return len(entries)
	}
	there := files()
	// Dead after the new key's file, before its entry: the database refuses the entry.
	db, err := sqldb.Open(t.Context(), "sqlite:"+filepath.Join(l.settings.Data, "assay.db"))
	must(t, err)
	defer db.Close()
	run := func(query string) {
		must(t, db.Tx(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec(query); return err }))
	}
	run(`CREATE TRIGGER no_keysets BEFORE INSERT ON entry WHEN NEW.kind = 'keyset/v1' BEGIN SELECT RAISE(FAIL, 'the disk is full'); END`)
	wantErr(t, l.opened(func(s *server.Settings) { s.Renew = []string{ledger.UseResult} }), "the disk is full")
	if got := files(); got != there {
		t.Errorf("%d key files after a renewal that failed, want %d", got, there)
	}
	run(`DROP TRIGGER no_keysets`)
	// A commit that fails may have been done: the keys stay, since the log or the database may name them.
	run(`CREATE TABLE absent(id BIGINT PRIMARY KEY)`)
	run(`CREATE TABLE lacking(id BIGINT REFERENCES absent(id) DEFERRABLE INITIALLY DEFERRED)`)
	run(`CREATE TRIGGER no_keysets BEFORE INSERT ON entry WHEN NEW.kind = 'keyset/v1' BEGIN INSERT INTO lacking VALUES (1); END`)
	run(`CREATE TRIGGER no_ear_keys BEFORE INSERT ON ear_key BEGIN INSERT INTO lacking VALUES (1); END`)
	for i, use := range []string{ledger.UseLog, keyring.UseEAR} {
		wantErr(t, l.opened(func(s *server.Settings) { s.Renew = []string{use} }), "the next start finds it")
		if got := files(); got != there+i+1 {
			t.Errorf("%d key files after the commit of a renewed %s key failed, want %d", got, use, there+i+1)
		}
	}
	for _, query := range []string{`DROP TRIGGER no_keysets`, `DROP TRIGGER no_ear_keys`, `DROP TABLE lacking`, `DROP TABLE absent`} {
		run(query)
	}
	l.restart()
	if !sameJSON(t, l.server.Keyset(), before) {
		t.Error("the keyset changed without an entry")
	}
	// Dead after the entry, before a checkpoint: publishing is refused.
	run(`CREATE TRIGGER no_checkpoints BEFORE INSERT ON checkpoint BEGIN SELECT RAISE(FAIL, 'the disk is full'); END`)
	wantErr(t, l.opened(func(s *server.Settings) { s.Renew = []string{ledger.UseResult} }), "the disk is full")
	run(`DROP TRIGGER no_checkpoints`)
	l.restart()
	if got := l.server.Keyset(); got.Previous.IsZero() {
		t.Errorf("keyset %+v: want the one that was logged", got)
	}
	l.advance()
	if d := n.decision(sub.Evidence); d.Outcome != client.Accept {
		t.Errorf("verdict %+v", d)
	}
	auditLogBy(t, l.server, before, []client.Submitted{sub})
}

// TestClockBeforeKeys: a clock that jumps to before the first key signs nothing, and says so.
func TestClockBeforeKeys(t *testing.T) {
	l := newLab(t, "")
	l.clock.advance(-server.KeyLead)
	must(t, l.opened())
	l.clock.advance(-time.Second)
	wantErr(t, l.opened(), "does the clock jump")
}

func TestRenewSettings(t *testing.T) {
	l := newLab(t, "")
	for what, want := range map[string]string{
		"tls": `renew "tls"`, "ear:now": `renew "ear:now"`, "admin-token:now": `renew "admin-token:now"`, ":now": `renew ":now"`, "": `renew ""`,
	} {
		wantErr(t, l.opened(func(s *server.Settings) { s.Renew = []string{what} }), want)
	}
	for place, want := range map[string]string{
		"pkcs11:token=assay?module-path=/none.so":                   "say what the token's keys are for",
		"tls=pkcs11:token=assay?module-path=/none.so":               `use "tls"`,
		"result=pkcs11:token=assay":                                 "module-path",
		"result=pkcs11:token=assay?module-path=/n.so&pin-value=123": "every user of a machine can read a command line",
	} {
		wantErr(t, l.opened(func(s *server.Settings) { s.Keys = []string{place} }), want)
	}
}

// TestEncryptedKeys: where a passphrase is given, keys are written under it, and without it or with a wrong one the server
// does not start.
func TestEncryptedKeys(t *testing.T) {
	settings := writeWorld(t, t.TempDir())
	open := func(environment map[string]string) error {
		s, err := server.New(context.Background(), settings, server.Deps{
			Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet(), Getenv: func(name string) string { return environment[name] },
		})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	good := map[string]string{"ASSAY_KEY_PASSPHRASE": "correct horse"}
	must(t, open(good))
	entries, err := os.ReadDir(filepath.Join(settings.Data, "keys"))
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(settings.Data, "keys", e.Name()))
		must(t, err)
		if !strings.HasPrefix(string(text), "-----BEGIN ENCRYPTED PRIVATE KEY-----\n") {
			t.Errorf("%s: %.40q", e.Name(), text)
		}
	}
	must(t, open(good))
	wantErr(t, open(nil), "it is encrypted: give the passphrase")
	wantErr(t, open(map[string]string{"ASSAY_KEY_PASSPHRASE": "battery staple"}), "wrong passphrase, or a damaged file: the passphrase is from ASSAY_KEY_PASSPHRASE")
}
