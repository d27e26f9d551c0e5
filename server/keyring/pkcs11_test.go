//go:build pkcs11

package keyring_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server/keyring"
	"github.com/assay-network/assay/server/keyring/softhsm"
)

func tokens(uri string, uses ...string) map[string]string {
	m := map[string]string{}
	for _, use := range uses {
		m[use] = uri
	}
	return m
}

// TestToken makes keys of every use in a token, finds them again in another session, and signs with them.
func TestToken(t *testing.T) {
	module := softhsm.Token(t, "assay")
	uri := "pkcs11:token=assay?module-path=" + module
	dir := t.TempDir()
	e := environment{"ASSAY_PKCS11_PIN": softhsm.PIN}
	config := keyring.Config{Dir: dir, Tokens: tokens(uri, keyring.Uses()...), Secrets: e.secrets(), Random: rand.Reader}
	r, err := keyring.Open(config)
	must(t, err)
	made := map[string]*keyring.Key{}
	for _, use := range keyring.Uses() {
		if made[use], err = r.Make(use); err != nil {
			t.Fatal(err)
		}
		signs(t, made[use])
	}
	must(t, r.Close())
	if _, ok := made[ledger.UseLog].Public().(ed25519.PublicKey); !ok {
		t.Errorf("log key is a %T", made[ledger.UseLog].Public())
	}
	if _, ok := made[ledger.UseResult].Public().(*ecdsa.PublicKey); !ok {
		t.Errorf("result key is a %T", made[ledger.UseResult].Public())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("files %v %v, want none", files, err)
	}
	if r, err = keyring.Open(config); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	for _, use := range keyring.Uses() {
		k, err := r.Find(use, made[use].SPKI())
		must(t, err)
		if k.ID() != made[use].ID() {
			t.Errorf("%s key %s, want %s", use, k.ID(), made[use].ID())
		}
		for range 4 {
			wg.Go(func() { signs(t, k) })
		}
	}
	wg.Wait()
	// A checkpoint by the key in the token is one that every reader of signed notes believes.
	k, err := r.Find(ledger.UseLog, made[ledger.UseLog].SPKI())
	must(t, err)
	vkey, err := ledger.Key{Use: ledger.UseLog, SPKI: k.SPKI()}.LogVKey("assay.test/log")
	must(t, err)
	v, err := note.NewVerifier(vkey)
	must(t, err)
	signed, err := ledger.SignCheckpoint(ledger.Checkpoint{Origin: "assay.test/log", Tree: ledger.Tree{Size: 1}}, noteSigner{v, k})
	must(t, err)
	if _, err := ledger.OpenCheckpoint(signed, v); err != nil {
		t.Error(err)
	}
	// Beside the token a key in a file is found as well; a key that is nowhere is not.
	file, err := open(t, dir, nil).Make(ledger.UseResult)
	must(t, err)
	if _, err := r.Find(ledger.UseResult, file.SPKI()); err != nil {
		t.Error(err)
	}
	must(t, r.Forget(ledger.UseResult, file.ID()))
	if _, err := r.Find(ledger.UseResult, file.SPKI()); !errors.Is(err, keyring.ErrNotHeld) {
		t.Errorf("a key that is nowhere: %v", err)
	}
}

type noteSigner struct {
	note.Verifier
	key *keyring.Key
}

func (s noteSigner) Sign(text []byte) ([]byte, error) { return s.key.Sign(text) }

// TestTokenRefused: what is wrong with a token shows when the ring is opened.
func TestTokenRefused(t *testing.T) {
	module := softhsm.Token(t, "assay")
	pinFile := filepath.Join(t.TempDir(), "pin")
	must(t, os.WriteFile(pinFile, []byte(softhsm.PIN+"\n"), 0o600))
	readable := filepath.Join(t.TempDir(), "pin")
	must(t, os.WriteFile(readable, []byte(softhsm.PIN), 0o644))
	noLibrary := filepath.Join(t.TempDir(), "text.so")
	must(t, os.WriteFile(noLibrary, []byte("no library"), 0o600))
	for _, c := range []struct {
		name, uri string
		e         environment
		want      string
	}{
		{"PIN in a file", "pkcs11:token=assay?module-path=" + module + "&pin-source=file:" + pinFile, nil, ""},
		{"PIN in a variable", "pkcs11:token=assay?module-path=" + module, environment{"ASSAY_PKCS11_PIN": softhsm.PIN}, ""},
		{"PIN in a file of a variable", "pkcs11:token=assay?module-path=" + module, environment{"ASSAY_PKCS11_PIN_FILE": pinFile}, ""},
		{"no library", "pkcs11:token=assay?module-path=/nowhere/hsm.so", environment{"ASSAY_PKCS11_PIN": softhsm.PIN}, "its library: stat /nowhere/hsm.so: no such file"},
		{"another file", "pkcs11:token=assay?module-path=" + noLibrary, environment{"ASSAY_PKCS11_PIN": softhsm.PIN}, "is no PKCS #11 library"},
		{"no such token", "pkcs11:token=elsewhere?module-path=" + module, environment{"ASSAY_PKCS11_PIN": softhsm.PIN}, `PKCS #11 token "elsewhere": 0 tokens of that name`},
		{"no PIN", "pkcs11:token=assay?module-path=" + module, nil, "no PIN: name a file with pin-source or ASSAY_PKCS11_PIN_FILE"},
		{"wrong PIN", "pkcs11:token=assay?module-path=" + module, environment{"ASSAY_PKCS11_PIN": "000000"}, "the PIN from ASSAY_PKCS11_PIN is wrong"},
		{"PIN that others can read", "pkcs11:token=assay?module-path=" + module + "&pin-source=" + readable, nil, "lets others at it"},
	} {
		r, err := keyring.Open(keyring.Config{Dir: t.TempDir(), Tokens: tokens(c.uri, ledger.UseResult), Secrets: c.e.secrets(), Random: rand.Reader})
		wantErr(t, c.name, err, c.want)
		if err == nil {
			must(t, r.Close())
		}
	}
}
