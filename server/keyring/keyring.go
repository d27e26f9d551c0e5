// Package keyring keeps the private keys of a server: in files of a folder, and in PKCS #11 tokens.
//
// A key is named by what it is for and by its public half: the log, or the database, says which keys the server has, and
// a [Ring] finds the private halves. It makes new ones where its [Config] says.
//
// A file is PKCS #8 in PEM, readable by its owner alone, and named USE-ID.pem, the id being the SHA-256 of the public
// key. It is plain, or encrypted by PBES2 (RFC 8018) with scrypt (RFC 7914) and AES-256-CBC; openssl reads and writes both.
// A passphrase and a PIN come from a file, an environment variable or a systemd credential ([Secrets]), never from a
// command line, which every user of a machine can read.
//
// A token is named by a PKCS #11 URI (RFC 7512) and needs a build with the tag pkcs11, and cgo. A key made in a token
// cannot be taken out of it.
package keyring

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/files"
	"github.com/assay-network/assay/ledger"
)

// UseEAR is the use of keys that sign attestation results. The other uses are the ledger's.
const UseEAR = "ear"

// Uses lists what keys are for.
func Uses() []string { return []string{ledger.UseLog, ledger.UseResult, ledger.UsePromise, UseEAR} }

// ErrNotHeld means that the private half of a key is in none of the places that the ring knows.
var ErrNotHeld = errors.New("its private half is not here, in no file of the key folder and no token that was named")

// Key signs with one private key through sigstore's signature package, so that a key in a file, a token or a cloud is the
// same here: Ed25519 over the message, ECDSA over its SHA-256 in ASN.1 form. It is a [ledger.Signer]. It may be used by
// several goroutines.
type Key struct {
	signer signature.Signer
	public crypto.PublicKey
	spki   []byte
}

// Public returns the public key.
func (k *Key) Public() crypto.PublicKey { return k.public }

// SPKI returns the SubjectPublicKeyInfo of the public key (DER), which the caller does not change.
func (k *Key) SPKI() []byte { return k.spki }

// ID returns the digest that names the key.
func (k *Key) ID() canon.Digest { return canon.Sum(k.spki) }

// Sign signs a message.
func (k *Key) Sign(message []byte) ([]byte, error) {
	return k.signer.SignMessage(bytes.NewReader(message))
}

func newKey(signer signature.Signer) (*Key, error) {
	public, err := signer.PublicKey()
	if err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	return &Key{signer, public, spki}, nil
}

// checkUse refuses a key of a kind that its use cannot have: signed notes and ES256 have one each.
func checkUse(use string, public crypto.PublicKey) error {
	_, ed := public.(ed25519.PublicKey)
	ec, ok := public.(*ecdsa.PublicKey)
	p256 := ok && ec.Curve == elliptic.P256()
	switch {
	case use == ledger.UseLog && !ed:
		return fmt.Errorf("a %T, want Ed25519 for the log", public)
	case use == UseEAR && !p256:
		return fmt.Errorf("a %T, want P-256 for attestation results", public)
	case !ed && !p256:
		return fmt.Errorf("a %T, want Ed25519 or P-256", public)
	}
	return nil
}

// Config says where private keys are.
type Config struct {
	Dir     string            // folder of the files; made if need be
	Tokens  map[string]string // PKCS #11 URI by use: where new keys of it are made; other uses: in the folder
	Secrets Secrets           // passphrase of the files and PIN of the tokens
	Random  io.Reader         // of new keys in files
}

// Places reads where keys are kept, as an operator says it: each a folder, of which there is one at most, or USE=URI.
func Places(places []string) (dir string, tokens map[string]string, err error) {
	tokens = map[string]string{}
	for _, p := range places {
		use, uri, ok := strings.Cut(p, "=")
		switch {
		case ok && strings.HasPrefix(uri, uriScheme):
			if !slices.Contains(Uses(), use) {
				return "", nil, fmt.Errorf("keys %.200q: use %.40q, want one of %q", p, use, Uses())
			}
			if tokens[use] != "" {
				return "", nil, fmt.Errorf("keys: two places for new %s keys", use)
			}
			if _, err := parseURI(uri); err != nil {
				return "", nil, fmt.Errorf("keys: %w", err)
			}
			tokens[use] = uri
		case strings.HasPrefix(p, uriScheme):
			return "", nil, fmt.Errorf("keys %.200q: say what the token's keys are for: USE=%.200s", p, p)
		case dir != "":
			return "", nil, fmt.Errorf("keys: two folders, %q and %q", dir, p)
		default:
			dir = p
		}
	}
	return dir, tokens, nil
}

// Ring finds and makes private keys. Its methods may be called concurrently. Close ends it.
type Ring struct {
	config Config

	mu     sync.Mutex
	held   map[string]*Key  // by file name: what was opened, since a passphrase costs a while each time
	tokens map[string]token // open ones by URI
}

// token is a PKCS #11 token: a place that keeps keys and signs with them.
type token interface {
	// find returns the key with a public half, or ErrNotHeld.
	find(spki []byte) (*Key, error)
	// generate makes a key: Ed25519 for the log, P-256 for all else.
	generate(use string) (*Key, error)
	Close() error
}

// Open returns a ring. Tokens are opened, so that a missing one shows at once; files are read when they are asked for.
func Open(c Config) (_ *Ring, err error) {
	if err := files.Folder(c.Dir); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	r := &Ring{config: c, held: map[string]*Key{}, tokens: map[string]token{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, use := range Uses() {
		uri := c.Tokens[use]
		if uri == "" || r.tokens[uri] != nil {
			continue
		}
		parsed, err := parseURI(uri)
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		if r.tokens[uri], err = openToken(parsed, c.Secrets); err != nil {
			delete(r.tokens, uri)
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	return r, nil
}

// Close closes the tokens.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, t := range r.tokens {
		errs = append(errs, t.Close())
	}
	r.tokens = nil
	return errors.Join(errs...)
}

func fileName(use string, id canon.Digest) string { return use + "-" + id.String() + ".pem" }

// Find returns the private half of a public key, from its file or else from a token. Without: [ErrNotHeld].
func (r *Ring) Find(use string, spki []byte) (*Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := canon.Sum(spki)
	name := fileName(use, id)
	if k := r.held[name]; k != nil {
		return k, nil
	}
	k, err := r.open(name)
	for _, t := range r.tokens {
		if !errors.Is(err, ErrNotHeld) {
			break
		}
		k, err = t.find(spki)
	}
	if err == nil {
		err = checkUse(use, k.public)
	}
	if err != nil {
		return nil, fmt.Errorf("%s key %s: %w", use, id.Short(), err)
	}
	r.held[name] = k
	return k, nil
}

// open reads a key file, and compares the key with the file's name.
func (r *Ring) open(name string) (*Key, error) {
	path := filepath.Join(r.config.Dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotHeld
	}
	k, err := LoadFile(path, r.config.Secrets)
	if err != nil {
		return nil, err
	}
	if want := strings.TrimSuffix(name[strings.LastIndex(name, "-")+1:], ".pem"); k.ID().String() != want {
		return nil, fmt.Errorf("%s: holds the key %s, not the one that its name says", path, k.ID().Short())
	}
	return k, nil
}

func fromPrivate(private crypto.PrivateKey) (*Key, error) {
	signer, err := signature.LoadSigner(private, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return newKey(signer)
}

// Given returns the one key of a use that lies in the folder, of a log that has named none yet: somebody put it there, or a
// first start was cut off. Without: nil. Of several, none is the one that is meant.
func (r *Ring) Given(use string) (*Key, error) {
	if r.config.Tokens[use] != "" {
		return nil, nil
	}
	all, err := Files(r.config.Dir)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f File) bool { return f.Use != use })
	switch {
	case len(all) == 0:
		return nil, nil
	case len(all) > 1:
		return nil, fmt.Errorf("keys: %d %s keys in %s, and the log is empty: leave the one that it shall have", len(all), use, r.config.Dir)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k, err := r.open(filepath.Base(all[0].Path))
	if err == nil {
		err = checkUse(use, k.public)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", all[0].Path, err)
	}
	r.held[fileName(use, k.ID())] = k
	return k, nil
}

// LoadFile reads a key from a file of any name: one that no log lists, such as a witness's.
func LoadFile(path string, s Secrets) (*Key, error) {
	private, err := ReadFile(path, s)
	if err != nil {
		return nil, err
	}
	k, err := fromPrivate(private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// NewFile writes a new key into a file of any name, under the passphrase if there is one. A file that is there stays:
// fs.ErrExist.
func NewFile(path string, private crypto.PrivateKey, s Secrets) error {
	phrase, err := s.passphrase()
	if err != nil {
		return err
	}
	text, err := encode(private, phrase)
	if err != nil {
		return err
	}
	return files.Create(path, text)
}

// Make makes a key in the place of its use. It is durable when Make returns. Ed25519 in files and for the log, P-256 for
// attestation results and in tokens.
func (r *Ring) Make(use string) (*Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, err := r.make(use)
	if err == nil {
		err = checkUse(use, k.public)
	}
	if err != nil {
		return nil, fmt.Errorf("make a %s key: %w", use, err)
	}
	r.held[fileName(use, k.ID())] = k
	return k, nil
}

func (r *Ring) make(use string) (*Key, error) {
	if uri := r.config.Tokens[use]; uri != "" {
		return r.tokens[uri].generate(use)
	}
	var private crypto.PrivateKey
	var err error
	if use == UseEAR {
		private, err = ecdsa.GenerateKey(elliptic.P256(), r.config.Random)
	} else {
		_, private, err = ed25519.GenerateKey(r.config.Random)
	}
	if err != nil {
		return nil, err
	}
	k, err := fromPrivate(private)
	if err != nil {
		return nil, err
	}
	err = NewFile(filepath.Join(r.config.Dir, fileName(use, k.ID())), private, r.config.Secrets)
	if errors.Is(err, fs.ErrExist) {
		err = nil // its name says that it is this key
	}
	return k, err
}

// Forget removes the file of a key that signs no more. A key in a token stays there: to delete it is for who runs the
// token.
func (r *Ring) Forget(use string, id canon.Digest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := fileName(use, id)
	delete(r.held, name)
	if err := os.Remove(filepath.Join(r.config.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// File is a key file of a folder.
type File struct {
	Use       string
	ID        canon.Digest
	Path      string
	Encrypted bool
}

// Files lists the key files of a folder, in the order of their names. Only their first lines are read.
func Files(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var out []File
	for _, e := range entries {
		use, rest, _ := strings.Cut(e.Name(), "-")
		id, err := canon.ParseDigest(strings.TrimSuffix(rest, ".pem"))
		if err != nil || fileName(use, id) != e.Name() || !slices.Contains(Uses(), use) {
			continue
		}
		f := File{Use: use, ID: id, Path: filepath.Join(dir, e.Name())}
		block, err := readBlock(f.Path)
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
		f.Encrypted = block.Type == pemEncrypted
		out = append(out, f)
	}
	return out, nil
}

// Encrypt writes key files anew, under the new passphrase of the secrets where they have one and else under the
// passphrase. A file is replaced whole or not at all; whoever was interrupted runs it again. It returns the files that it
// wrote.
func Encrypt(paths []string, s Secrets) ([]string, error) {
	phrase, err := s.newPassphrase()
	if err == nil && phrase == nil {
		phrase, err = s.passphrase()
	}
	if err == nil && phrase == nil {
		err = errors.New(noPassphrase)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return rewrite(paths, s, phrase)
}

// Decrypt writes encrypted key files plain, as [Encrypt] does.
func Decrypt(paths []string, s Secrets) ([]string, error) { return rewrite(paths, s, nil) }

func rewrite(paths []string, s Secrets, phrase *secret) (done []string, err error) {
	for _, path := range paths {
		block, err := readBlock(path)
		if err != nil {
			return done, fmt.Errorf("keys: %w", err)
		}
		if block.Type == pemPlain && phrase == nil {
			continue
		}
		private, err := ReadFile(path, s)
		if err != nil {
			return done, fmt.Errorf("keys: %w", err)
		}
		text, err := encode(private, phrase)
		if err == nil {
			err = files.Replace(path, text)
		}
		if err != nil {
			return done, fmt.Errorf("keys: %s: %w", path, err)
		}
		done = append(done, path)
	}
	return done, nil
}
