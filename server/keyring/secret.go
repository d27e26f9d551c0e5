package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/assay-network/assay/internal/files"
)

// Where secrets are looked for. Each variable has a twin with _FILE behind it that names a file, and a credential that
// systemd puts into its folder (LoadCredential=, SetCredentialEncrypted=).
const (
	envPassphrase        = "ASSAY_KEY_PASSPHRASE"
	envNewPassphrase     = "ASSAY_KEY_NEW_PASSPHRASE"
	envPIN               = "ASSAY_PKCS11_PIN"
	credentialPassphrase = "assay-key-passphrase"
	credentialNew        = "assay-key-new-passphrase"
	credentialPIN        = "assay-pkcs11-pin"
	envCredentials       = "CREDENTIALS_DIRECTORY"

	MaxSecret = 4 << 10 // bytes of a passphrase or a PIN
)

// Secrets knows where passphrase and PIN come from: a file, an environment variable or a systemd credential.
type Secrets struct {
	Getenv func(string) string // nil: the environment is empty
}

// secret is a secret and where it came from.
type secret struct {
	value []byte
	from  string
}

func (s Secrets) passphrase() (*secret, error) { return s.read(envPassphrase, credentialPassphrase) }

func (s Secrets) newPassphrase() (*secret, error) { return s.read(envNewPassphrase, credentialNew) }

// passphrases returns what may open a key file: where a change of passphrase was interrupted, either does.
func (s Secrets) passphrases() []func() (*secret, error) {
	return []func() (*secret, error){s.passphrase, s.newPassphrase}
}

// pin returns the PIN of tokens; source is a file that a URI names, or empty.
func (s Secrets) pin(source string) (*secret, error) {
	if source != "" {
		return readSecret(source)
	}
	return s.read(envPIN, credentialPIN)
}

// read looks in a variable, in the file that its twin names and among systemd's credentials. Nothing anywhere: nil.
func (s Secrets) read(env, credential string) (*secret, error) {
	if s.Getenv == nil {
		return nil, nil
	}
	value, file := s.Getenv(env), s.Getenv(env+"_FILE")
	switch {
	case value != "" && file != "":
		return nil, fmt.Errorf("%s and %s_FILE are both set: which is it", env, env)
	case value != "":
		return &secret{[]byte(value), env}, nil
	case file != "":
		return readSecret(file)
	}
	dir := s.Getenv(envCredentials)
	if dir == "" {
		return nil, nil
	}
	got, err := readSecret(filepath.Join(dir, credential))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return got, err
}

// readSecret reads a file that holds a secret and at most one end of line behind it.
func readSecret(path string) (*secret, error) {
	if err := checkOwner(path); err != nil {
		return nil, err
	}
	data, err := files.Bounded(path, MaxSecret)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: empty", path)
	}
	return &secret{data, path}, nil
}
