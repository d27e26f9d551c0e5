//go:build pkcs11

package server_test

import (
	"crypto/ecdsa"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/server/keyring/softhsm"
)

// TestServerWithToken: all keys of a verifier are in a token, are renewed there, and an auditor recomputes its log as any
// other.
func TestServerWithToken(t *testing.T) {
	module := softhsm.Token(t, "assay")
	pin := filepath.Join(t.TempDir(), "pin")
	must(t, os.WriteFile(pin, []byte(softhsm.PIN), 0o600))
	l := newLab(t, "", func(s *server.Settings) {
		for _, use := range []string{"log", "result", "promise", "ear"} {
			s.Keys = append(s.Keys, use+"=pkcs11:token=assay?module-path="+module+"&pin-source="+pin)
		}
	})
	if files, err := os.ReadDir(filepath.Join(l.settings.Data, "keys")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(files) != 0 {
		t.Errorf("key files %v %v, want none", files, err)
	}
	first := l.server.Keyset()
	n := l.join("one")
	d, evidence := n.prove()
	if d.Outcome != client.Accept {
		t.Errorf("verdict %+v", d)
	}
	n.ear(evidence)
	l.clock.advance(time.Second)
	l.settings.Renew = []string{ledger.UseResult, ledger.UsePromise, ledger.UseLog, "ear"}
	l.restart()
	l.settings.Renew = nil
	if d, evidence = n.prove(); d.Outcome != client.Accept {
		t.Errorf("after renewing: %+v", d)
	}
	n.ear(evidence)
	for _, use := range []string{ledger.UseResult, ledger.UsePromise} {
		pub, err := l.server.Keyset().Standing(use, canon.At(l.clock.Now()))[0].Public()
		if _, ok := pub.(*ecdsa.PublicKey); err != nil || !ok {
			t.Errorf("%s key is a %T, %v", use, pub, err)
		}
	}
	l.rest(server.KeyOverlap + time.Second)
	l.restart()
	if d, _ = n.prove(); d.Outcome != client.Accept {
		t.Errorf("after the overlap: %+v", d)
	}
	l.advance()
	auditLogBy(t, l.server, first, nil)
}

// TestTokenMissing: a server whose token is not there does not start, and says which.
func TestTokenMissing(t *testing.T) {
	l := newLab(t, "")
	wantErr(t, l.opened(func(s *server.Settings) { s.Keys = []string{"result=pkcs11:token=assay?module-path=/nowhere/hsm.so"} }),
		`PKCS #11 token "assay": its library: stat /nowhere/hsm.so`)
}
