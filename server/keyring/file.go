package keyring

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/youmark/pkcs8"

	"github.com/assay-network/assay/internal/files"
)

// PEM block types (RFC 7468, sections 10 and 11).
const (
	pemPlain     = "PRIVATE KEY"
	pemEncrypted = "ENCRYPTED PRIVATE KEY"
)

// Parameters of the encryption of key files: of those that the OWASP Password Storage Cheat Sheet gives for scrypt, the ones
// that openssl reads without a further word. 16 MiB and a quarter of a second a file.
const (
	ScryptN     = 1 << 14
	ScryptR     = 8
	ScryptP     = 5
	ScryptSalt  = 16 // bytes
	MaxKeyFile  = 16 << 10
	maxScrypt   = 1 << 30    // bytes of memory that a file may ask for
	maxParallel = 16         // p that a file may ask for
	maxRounds   = 10_000_000 // iterations of PBKDF2 that a file may ask for
)

// noPassphrase says what to do.
const noPassphrase = "give the passphrase in a file that " + envPassphrase + "_FILE names, in " + envPassphrase +
	", or as the systemd credential " + credentialPassphrase

// ErrPassphrase means that a key file did not open with the passphrase that was given.
var ErrPassphrase = errors.New("wrong passphrase, or a damaged file")

// checkOwner refuses a secret that others can read. A program that goes on with it would hide that it may be lost.
func checkOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: mode %04o lets others at it: chmod 600 it, and replace the key if somebody could", path, info.Mode().Perm())
	}
	return nil
}

// readBlock reads the one PEM block of a file.
func readBlock(path string) (*pem.Block, error) {
	if err := checkOwner(path); err != nil {
		return nil, err
	}
	text, err := files.Bounded(path, MaxKeyFile)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, fmt.Errorf("%s: no whole PEM block: empty, cut off or another kind of file", path)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("%s: more than one PEM block", path)
	case block.Type != pemPlain && block.Type != pemEncrypted:
		return nil, fmt.Errorf("%s: PEM block %.80q, want %q or %q (PKCS #8)", path, block.Type, pemPlain, pemEncrypted)
	}
	return block, nil
}

// ReadFile reads a private key of any kind from a file of any name, plain or encrypted. Passphrases are tried in turn, and
// asked for only where the file is encrypted. [LoadFile] is for who wants to sign and nothing else.
func ReadFile(path string, s Secrets) (crypto.PrivateKey, error) {
	block, err := readBlock(path)
	if err != nil {
		return nil, err
	}
	if block.Type == pemPlain {
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return private, nil
	}
	if err := checkPBES2(block.Bytes); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tried := ""
	for _, get := range s.passphrases() {
		phrase, err := get()
		if err != nil {
			return nil, err
		}
		if phrase == nil {
			continue
		}
		if private, err := pkcs8.ParsePKCS8PrivateKey(block.Bytes, phrase.value); err == nil {
			return private, nil
		}
		tried = phrase.from
	}
	if tried == "" {
		return nil, fmt.Errorf("%s: it is encrypted: %s", path, noPassphrase)
	}
	return nil, fmt.Errorf("%s: %w: the passphrase is from %s", path, ErrPassphrase, tried)
}

// encode returns the text of a key file, encrypted where there is a passphrase.
func encode(private crypto.PrivateKey, phrase *secret) ([]byte, error) {
	if phrase == nil {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		return pem.EncodeToMemory(&pem.Block{Type: pemPlain, Bytes: der}), err
	}
	der, err := pkcs8.MarshalPrivateKey(private, phrase.value, &pkcs8.Opts{Cipher: pkcs8.AES256CBC, KDFOpts: pkcs8.ScryptOpts{
		SaltSize: ScryptSalt, CostParameter: ScryptN, BlockSize: ScryptR, ParallelizationParameter: ScryptP,
	}})
	return pem.EncodeToMemory(&pem.Block{Type: pemEncrypted, Bytes: der}), err
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidScrypt = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}
	oidSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
	oidAES256 = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}
)

// checkPBES2 looks at the shape of an EncryptedPrivateKeyInfo (RFC 5958 section 3, RFC 8018 appendix A.4) before the
// library does: that takes lengths as they come, and work and memory as the file asks.
func checkPBES2(der []byte) error {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 {
		return errors.New("no whole EncryptedPrivateKeyInfo")
	}
	var by struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	if !info.Algorithm.Algorithm.Equal(oidPBES2) {
		return fmt.Errorf("encrypted by %s, want PBES2", info.Algorithm.Algorithm)
	}
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &by); err != nil {
		return errors.New("PBES2 without its parameters")
	}
	var iv []byte
	if !by.Cipher.Algorithm.Equal(oidAES256) {
		return fmt.Errorf("encrypted by the cipher %s, want AES-256-CBC", by.Cipher.Algorithm)
	}
	if _, err := asn1.Unmarshal(by.Cipher.Parameters.FullBytes, &iv); err != nil || len(iv) != 16 || len(info.Data) == 0 || len(info.Data)%16 != 0 {
		return errors.New("AES-256-CBC over a length that it cannot have")
	}
	switch params := by.KDF.Parameters.FullBytes; {
	case by.KDF.Algorithm.Equal(oidScrypt):
		var k struct {
			Salt    []byte
			N, R, P int
		}
		// It takes 128 r (N + p) bytes (RFC 7914, section 6).
		if _, err := asn1.Unmarshal(params, &k); err != nil || k.N < 2 || k.R < 1 || k.P < 1 ||
			k.N > maxScrypt || k.R > maxScrypt || k.P > maxParallel || int64(k.R)*(int64(k.N)+int64(k.P)) > maxScrypt/128 {
			return fmt.Errorf("scrypt with parameters out of range: at most %d MiB and p %d", maxScrypt>>20, maxParallel)
		}
	case by.KDF.Algorithm.Equal(oidPBKDF2):
		var k struct {
			Salt   []byte
			Rounds int
			Length int                      `asn1:"optional"`
			PRF    pkix.AlgorithmIdentifier `asn1:"optional"`
		}
		if _, err := asn1.Unmarshal(params, &k); err != nil || k.Rounds < 1 || k.Rounds > maxRounds || k.Length != 0 || !k.PRF.Algorithm.Equal(oidSHA256) {
			return fmt.Errorf("PBKDF2 with parameters out of range: want HMAC-SHA-256, at most %d iterations, no length", maxRounds)
		}
	default:
		return fmt.Errorf("key derivation %s, want scrypt or PBKDF2", by.KDF.Algorithm)
	}
	return nil
}
