package server

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// Names of the key files: PKCS #8 in PEM, for their owner alone. One key is never used for two things.
const (
	keysFolder = "keys"
	fileLog    = "log.pem"
	fileResult = "result.pem"
	fileProm   = "promise.pem"
)

// key signs with one private key through sigstore's signature package, so that a key in a file, a token or a cloud is
// the same here. It is a [ledger.Signer].
type key struct {
	signer signature.SignerVerifier
	public crypto.PublicKey
	spki   []byte // SubjectPublicKeyInfo (DER)
}

func (k key) Public() crypto.PublicKey { return k.public }

func (k key) Sign(message []byte) ([]byte, error) {
	return k.signer.SignMessage(bytes.NewReader(message))
}

// noteKey signs checkpoints. It is a [note.Signer].
type noteKey struct {
	note.Verifier // name and key hash
	key           key
}

func (k noteKey) Sign(text []byte) ([]byte, error) { return k.key.Sign(text) }

// keys are the three keys of a server that its log names. Those of attestation results are apart.
type keys struct{ log, result, promise key }

// openKeys loads the keys of a data folder. Where fresh, those that are not there are made; afterwards a missing key is
// an error, because the log knows which keys speak for it.
func openKeys(data string, fresh bool, random io.Reader) (k keys, err error) {
	dir := filepath.Join(data, keysFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return keys{}, fmt.Errorf("keys: %w", err)
	}
	for _, f := range []struct {
		name string
		into *key
	}{{fileLog, &k.log}, {fileResult, &k.result}, {fileProm, &k.promise}} {
		path := filepath.Join(dir, f.name)
		if _, err := os.Stat(path); fresh && errors.Is(err, fs.ErrNotExist) {
			_, private, err := ed25519.GenerateKey(random)
			if err == nil {
				err = writeKey(path, private)
			}
			if err != nil {
				return keys{}, fmt.Errorf("keys: %w", err)
			}
		}
		if *f.into, err = loadKey(path); err != nil {
			return keys{}, fmt.Errorf("keys: %w", err)
		}
	}
	if bytes.Equal(k.log.spki, k.result.spki) || bytes.Equal(k.log.spki, k.promise.spki) || bytes.Equal(k.result.spki, k.promise.spki) {
		return keys{}, errors.New("keys: log, result and promise keys are never shared")
	}
	return k, nil
}

// writeKey writes a new key. It is durable when writeKey returns, and a crash leaves no half of one.
func writeKey(path string, private crypto.PrivateKey) (err error) {
	text, err := cryptoutils.MarshalPrivateKeyToPEM(private)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces a key that somebody else made meanwhile.
	if err = os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err = os.Remove(f.Name()); err != nil {
		return err
	}
	return files.SyncFolder(filepath.Dir(path))
}

func loadKey(path string) (key, error) {
	signer, err := signature.LoadSignerVerifierFromPEMFile(path, crypto.SHA256, nil)
	if err != nil {
		return key{}, fmt.Errorf("%s: %w", path, err)
	}
	public, err := signer.PublicKey()
	if err != nil {
		return key{}, fmt.Errorf("%s: %w", path, err)
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return key{}, fmt.Errorf("%s: %w", path, err)
	}
	return key{signer, public, spki}, nil
}

// keyset returns the public document of the keys of a log.
func (k keys) keyset(logName string) (ledger.Keyset, error) {
	public, ok := k.log.public.(ed25519.PublicKey)
	if !ok {
		return ledger.Keyset{}, fmt.Errorf("keys: log key is a %T, want Ed25519", k.log.public)
	}
	vkey, err := ledger.LogVKey(logName, public)
	if err != nil {
		return ledger.Keyset{}, err
	}
	s := ledger.Keyset{Type: ledger.KeysetType, Log: vkey, Keys: []ledger.Key{
		{Use: ledger.UseResult, SPKI: k.result.spki}, {Use: ledger.UsePromise, SPKI: k.promise.spki},
	}}
	return s, s.Validate()
}

// noteSigner returns the signer of checkpoints.
func (k keys) noteSigner(s ledger.Keyset) (note.Signer, error) {
	v, err := note.NewVerifier(s.Log)
	if err != nil {
		return nil, fmt.Errorf("log key: %w", err)
	}
	return noteKey{v, k.log}, nil
}

// fingerprint names the verifier: what a join token pins.
func (k keys) fingerprint() canon.Digest { return canon.Sum(k.result.spki) }
