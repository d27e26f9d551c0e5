package keyring_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server/keyring"
)

// environment is what a process finds in its environment.
type environment map[string]string

func (e environment) secrets() keyring.Secrets {
	return keyring.Secrets{Getenv: func(name string) string { return e[name] }}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func open(t testing.TB, dir string, e environment) *keyring.Ring {
	t.Helper()
	r, err := keyring.Open(keyring.Config{Dir: dir, Secrets: e.secrets(), Random: rand.Reader})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// signs checks that a key signs what its public half verifies, as the ledger does.
func signs(t testing.TB, k *keyring.Key) {
	t.Helper()
	e, err := ledger.Seal("test", []byte("a message"), k)
	must(t, err)
	if !e.SignedBy(k.Public()) {
		t.Errorf("the signature of a %T does not verify", k.Public())
	}
}

// TestFiles makes a key of each use and finds it again by its public half, in another process.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first := open(t, dir, nil)
	for _, use := range keyring.Uses() {
		made, err := first.Make(use)
		must(t, err)
		signs(t, made)
		r := open(t, dir, nil)
		k, err := r.Find(use, made.SPKI())
		must(t, err)
		signs(t, k)
		_, ec := k.Public().(*ecdsa.PublicKey)
		if ec != (use == keyring.UseEAR) || k.ID() != made.ID() {
			t.Errorf("%s key is a %T with id %s, made was %s", use, k.Public(), k.ID(), made.ID())
		}
		given, err := r.Given(use)
		if err != nil || given.ID() != made.ID() {
			t.Errorf("given %s key: %v", use, err)
		}
		must(t, r.Forget(use, k.ID()))
		if _, err := open(t, dir, nil).Find(use, made.SPKI()); !errors.Is(err, keyring.ErrNotHeld) {
			t.Errorf("a forgotten %s key: %v", use, err)
		}
		if given, err := r.Given(use); given != nil || err != nil {
			t.Errorf("given %s key after it was forgotten: %v %v", use, given, err)
		}
	}
	for range 2 {
		_, err := first.Make(ledger.UseLog)
		must(t, err)
	}
	_, err := first.Given(ledger.UseLog)
	wantErr(t, "two log keys", err, "2 log keys in "+dir)
}

// TestEncrypted: files are encrypted under the passphrase, opened by it alone, change it, and can be read and written by
// openssl.
func TestEncrypted(t *testing.T) {
	dir := t.TempDir()
	phrase := filepath.Join(t.TempDir(), "phrase")
	must(t, os.WriteFile(phrase, []byte("correct horse\r\n"), 0o600))
	credentials := t.TempDir()
	must(t, os.WriteFile(filepath.Join(credentials, "assay-key-passphrase"), []byte("correct horse"), 0o400))
	good := environment{"ASSAY_KEY_PASSPHRASE": "correct horse"}
	k, err := open(t, dir, good).Make(ledger.UseResult)
	must(t, err)
	path := filepath.Join(dir, "result-"+k.ID().String()+".pem")
	find := func(e environment) error {
		r, err := keyring.Open(keyring.Config{Dir: dir, Secrets: e.secrets(), Random: rand.Reader})
		must(t, err)
		defer r.Close()
		_, err = r.Find(ledger.UseResult, k.SPKI())
		return err
	}
	readable := filepath.Join(t.TempDir(), "phrase")
	must(t, os.WriteFile(readable, []byte("correct horse"), 0o644))
	empty := filepath.Join(t.TempDir(), "phrase")
	must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, c := range []struct {
		name string
		e    environment
		want string
	}{
		{"variable", good, ""},
		{"file", environment{"ASSAY_KEY_PASSPHRASE_FILE": phrase}, ""},
		{"systemd credential", environment{"CREDENTIALS_DIRECTORY": credentials}, ""},
		{"none", nil, "it is encrypted: give the passphrase in a file that ASSAY_KEY_PASSPHRASE_FILE names, in ASSAY_KEY_PASSPHRASE, or as the systemd credential assay-key-passphrase"},
		{"no such credential", environment{"CREDENTIALS_DIRECTORY": t.TempDir()}, "it is encrypted"},
		{"wrong", environment{"ASSAY_KEY_PASSPHRASE": "battery staple"}, "wrong passphrase, or a damaged file: the passphrase is from ASSAY_KEY_PASSPHRASE"},
		{"two at once", environment{"ASSAY_KEY_PASSPHRASE": "correct horse", "ASSAY_KEY_PASSPHRASE_FILE": phrase}, "are both set"},
		{"a file that others can read", environment{"ASSAY_KEY_PASSPHRASE_FILE": readable}, "mode 0644 lets others at it"},
		{"an empty file", environment{"ASSAY_KEY_PASSPHRASE_FILE": empty}, "empty"},
		{"a file that is not there", environment{"ASSAY_KEY_PASSPHRASE_FILE": "/nowhere/phrase"}, "no such file"},
	} {
		wantErr(t, c.name, find(c.e), c.want)
	}
	t.Run("change of passphrase", func(t *testing.T) {
		change := environment{"ASSAY_KEY_PASSPHRASE": "correct horse", "ASSAY_KEY_NEW_PASSPHRASE": "battery staple"}
		for range 2 { // a second time is as a first that was interrupted
			done, err := keyring.Encrypt([]string{path}, change.secrets())
			if err != nil || len(done) != 1 || !encrypted(t, dir) {
				t.Fatalf("%+v %v", done, err)
			}
		}
		wantErr(t, "old", find(good), "wrong passphrase")
		wantErr(t, "new", find(environment{"ASSAY_KEY_PASSPHRASE": "battery staple"}), "")
		_, err = keyring.Encrypt([]string{path}, environment{"ASSAY_KEY_PASSPHRASE": "neither"}.secrets())
		wantErr(t, "neither", err, "wrong passphrase")
		done, err := keyring.Decrypt([]string{path}, environment{"ASSAY_KEY_PASSPHRASE": "battery staple"}.secrets())
		if err != nil || len(done) != 1 || encrypted(t, dir) {
			t.Fatalf("%+v %v", done, err)
		}
		wantErr(t, "plain", find(nil), "")
		if done, err := keyring.Decrypt([]string{path}, keyring.Secrets{}); err != nil || len(done) != 0 {
			t.Errorf("decrypt what is plain: %+v %v", done, err)
		}
		_, err = keyring.Encrypt([]string{path}, keyring.Secrets{})
		wantErr(t, "encrypt without a passphrase", err, "give the passphrase")
		_, err = keyring.Encrypt([]string{path}, good.secrets())
		must(t, err)
		wantErr(t, "encrypted again", find(good), "")
	})
	t.Run("openssl", func(t *testing.T) {
		if _, err := exec.LookPath("openssl"); err != nil {
			t.Skip("no openssl")
		}
		plain, err := exec.CommandContext(t.Context(), "openssl", "pkcs8", "-in", path, "-passin", "pass:correct horse").CombinedOutput()
		if err != nil || !strings.Contains(string(plain), "-----BEGIN PRIVATE KEY-----") {
			t.Fatalf("openssl does not read it: %v\n%s", err, plain)
		}
		for _, how := range [][]string{{"-scrypt"}, {"-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA256", "-iter", "20000"}} {
			cmd := exec.CommandContext(t.Context(), "openssl", append([]string{"pkcs8", "-topk8", "-passout", "pass:correct horse"}, how...)...)
			cmd.Stdin = strings.NewReader(string(plain))
			text, err := cmd.Output()
			must(t, err)
			must(t, os.WriteFile(path, text, 0o600))
			wantErr(t, strings.Join(how, " "), find(good), "")
		}
		for want, how := range map[string][]string{
			"want AES-256-CBC": {"-v2", "aes-128-cbc"}, "want HMAC-SHA-256": {"-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA1"}, "want PBES2": {"-v1", "PBE-SHA1-3DES"},
		} {
			cmd := exec.CommandContext(t.Context(), "openssl", append([]string{"pkcs8", "-topk8", "-passout", "pass:correct horse"}, how...)...)
			cmd.Stdin = strings.NewReader(string(plain))
			text, err := cmd.Output()
			if err != nil {
				continue // this openssl no longer writes it
			}
			must(t, os.WriteFile(path, text, 0o600))
			wantErr(t, strings.Join(how, " "), find(good), want)
		}
	})
}

// encrypted reports whether the one key file of a folder is.
func encrypted(t *testing.T, dir string) bool {
	t.Helper()
	files, err := keyring.Files(dir)
	if err != nil || len(files) != 1 || files[0].Use != ledger.UseResult {
		t.Fatalf("%+v %v", files, err)
	}
	return files[0].Encrypted
}

// TestDamagedFiles: files that are no whole key of their use are refused, each for its reason, and nothing panics.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	good := environment{"ASSAY_KEY_PASSPHRASE": "correct horse"}
	k, err := open(t, dir, good).Make(ledger.UseLog)
	must(t, err)
	path := filepath.Join(dir, "log-"+k.ID().String()+".pem")
	text, err := os.ReadFile(path)
	must(t, err)
	block, _ := pem.Decode(text)
	find := func(data []byte) error {
		must(t, os.WriteFile(path, data, 0o600))
		_, err := open(t, dir, good).Find(ledger.UseLog, k.SPKI())
		return err
	}
	encode := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	wantErr(t, "good", find(text), "")
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "no whole PEM block"},
		{"cut off", text[:len(text)/2], "no whole PEM block"},
		{"two keys", append(append([]byte{}, text...), text...), "more than one PEM block"},
		{"a certificate", encode("CERTIFICATE", block.Bytes), `PEM block "CERTIFICATE"`},
		{"PKCS #1", encode("RSA PRIVATE KEY", block.Bytes), `PEM block "RSA PRIVATE KEY"`},
		{"too large", make([]byte, keyring.MaxKeyFile+1), "more than 16384 bytes"},
		{"plain rubbish", encode("PRIVATE KEY", []byte("rubbish")), path},
		{"encrypted rubbish", encode("ENCRYPTED PRIVATE KEY", []byte("rubbish")), "no whole EncryptedPrivateKeyInfo"},
	} {
		wantErr(t, c.name, find(c.data), c.want)
	}
	for n := range len(block.Bytes) { // the container, cut off anywhere
		if find(encode("ENCRYPTED PRIVATE KEY", block.Bytes[:n])) == nil {
			t.Errorf("cut off after %d bytes: taken", n)
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	for _, c := range []struct {
		name, use string
		private   any
		public    any
		want      string
	}{
		{"P-384 for results", ledger.UseResult, p384, p384.Public(), "want Ed25519 or P-256"},
		{"RSA for promises", ledger.UsePromise, large, large.Public(), "want Ed25519 or P-256"},
		{"P-256 for the log", ledger.UseLog, p256, p256.Public(), "want Ed25519 for the log"},
		{"Ed25519 for attestation results", keyring.UseEAR, ed, ed.Public(), "want P-256 for attestation results"},
		{"P-256 for results", ledger.UseResult, p256, p256.Public(), ""},
	} {
		der, err := x509.MarshalPKCS8PrivateKey(c.private)
		must(t, err)
		spki, err := x509.MarshalPKIXPublicKey(c.public)
		must(t, err)
		id := ledgerID(spki)
		must(t, os.WriteFile(filepath.Join(dir, c.use+"-"+id+".pem"), encode("PRIVATE KEY", der), 0o600))
		_, err = open(t, dir, nil).Find(c.use, spki)
		wantErr(t, c.name, err, c.want)
	}
	must(t, os.WriteFile(path, text, 0o600))
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		must(t, os.Chmod(path, mode))
		_, err := open(t, dir, good).Find(ledger.UseLog, k.SPKI())
		wantErr(t, mode.String(), err, "lets others at it")
	}
}

func ledgerID(spki []byte) string { return ledger.Key{SPKI: spki}.ID().String() }

// TestGreedyFiles: what a file asks for to be opened is bounded.
func TestGreedyFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"scrypt-memory": "scrypt with parameters out of range", "scrypt-parallel": "scrypt with parameters out of range", "pbkdf2-rounds": "PBKDF2 with parameters out of range"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".pem"))
		must(t, err)
		path := filepath.Join(dir, "key.pem")
		must(t, os.WriteFile(path, text, 0o600))
		_, err = keyring.LoadFile(path, environment{"ASSAY_KEY_PASSPHRASE": "x"}.secrets())
		wantErr(t, name, err, want)
	}
}

func TestPlaces(t *testing.T) {
	const uri = "pkcs11:token=assay;object=k%20ey?module-path=/usr/lib/hsm.so&pin-source=file:/run/pin"
	for _, c := range []struct {
		name   string
		places []string
		want   string
	}{
		{"none", nil, ""},
		{"a folder and a token", []string{"/etc/keys", "result=" + uri}, ""},
		{"two folders", []string{"/a", "/b"}, "two folders"},
		{"a token for nothing", []string{uri}, "say what the token's keys are for"},
		{"another use", []string{"tls=" + uri}, `use "tls"`},
		{"one use twice", []string{"ear=" + uri, "ear=" + uri}, "two places for new ear keys"},
		{"no library", []string{"ear=pkcs11:token=a"}, "module-path"},
		{"no token", []string{"ear=pkcs11:?module-path=/a.so"}, "want a token"},
		{"unknown attribute", []string{"ear=pkcs11:token=a;slot-id=3?module-path=/a.so"}, `attribute "slot-id" is not known`},
		{"twice", []string{"ear=pkcs11:token=a;token=b?module-path=/a.so"}, `attribute "token": want it once`},
		{"bad encoding", []string{"ear=pkcs11:token=%zz?module-path=/a.so"}, "percent encoding"},
		{"a PIN that everybody sees", []string{"ear=pkcs11:token=a?module-path=/a.so&pin-value=1234"}, "every user of a machine can read a command line"},
	} {
		dir, tokens, err := keyring.Places(c.places)
		wantErr(t, c.name, err, c.want)
		if c.name == "a folder and a token" && (dir != "/etc/keys" || tokens["result"] != uri) {
			t.Errorf("%q %q", dir, tokens)
		}
	}
}
