//go:build pkcs11

package keyring

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/pkcs11"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/assay-network/assay/ledger"
)

// What PKCS #11 3.0 (section 2.3) has for Ed25519 and the library does not name.
const (
	keyECEdwards   = 0x40   // CKK_EC_EDWARDS
	genECEdwards   = 0x1055 // CKM_EC_EDWARDS_KEY_PAIR_GEN
	mechanismEdDSA = 0x1057 // CKM_EDDSA
)

// CKA_EC_PARAMS of the two kinds of keys: the OID of P-256, and the PrintableString that names the Edwards curve (PKCS #11
// 3.0, section 2.3.10).
var (
	paramsP256    = []byte{0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}
	paramsEd25519 = append([]byte{0x13, 12}, "edwards25519"...)
)

// device is one token with one session, which one goroutine uses at a time.
type device struct {
	uri     uri
	secrets Secrets
	module  *pkcs11.Ctx
	began   bool // this device initialized the library, and ends it

	mu      sync.Mutex
	session pkcs11.SessionHandle
}

func openToken(u uri, secrets Secrets) (token, error) {
	if _, err := os.Stat(u.module); err != nil {
		return nil, fmt.Errorf("%s: its library: %w", u, err)
	}
	d := &device{uri: u, secrets: secrets, module: pkcs11.New(u.module)}
	if d.module == nil {
		return nil, fmt.Errorf("%s: %s is no PKCS #11 library", u, u.module)
	}
	err := d.module.Initialize()
	d.began = err == nil
	if errors.Is(err, pkcs11.Error(pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED)) {
		err = nil
	}
	if err == nil {
		err = d.login()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", u, err), d.end())
	}
	return d, nil
}

// login opens the session. The caller owns the device.
func (d *device) login() error {
	slot, err := d.slot()
	if err != nil {
		return err
	}
	pin, err := d.secrets.pin(d.uri.pin)
	if err != nil {
		return err
	}
	if pin == nil {
		return fmt.Errorf("no PIN: name a file with pin-source or %s_FILE, or set %s", envPIN, envPIN)
	}
	if d.session, err = d.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION); err != nil {
		return err
	}
	err = d.module.Login(d.session, pkcs11.CKU_USER, string(pin.value))
	switch {
	case errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_ALREADY_LOGGED_IN)):
		return nil
	case errors.Is(err, pkcs11.Error(pkcs11.CKR_PIN_INCORRECT)):
		return fmt.Errorf("the PIN from %s is wrong; a token locks itself after a few of those", pin.from)
	}
	return err
}

// slot finds the one token that the URI names.
func (d *device) slot() (slot uint, err error) {
	slots, err := d.module.GetSlotList(true)
	if err != nil {
		return 0, err
	}
	var found []uint
	for _, s := range slots {
		info, err := d.module.GetTokenInfo(s)
		if err != nil {
			return 0, err
		}
		if (d.uri.token == "" || strings.TrimRight(info.Label, " \x00") == d.uri.token) &&
			(d.uri.serial == "" || strings.TrimRight(info.SerialNumber, " \x00") == d.uri.serial) {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%d tokens of that name in %s, want one", len(found), d.uri.module)
	}
	return found[0], nil
}

func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.module.CloseSession(d.session), d.end())
}

func (d *device) end() (err error) {
	if d.began {
		err = d.module.Finalize()
	}
	d.module.Destroy()
	return err
}

// find looks for the public half, and by its id for the private one.
func (d *device) find(spki []byte) (*Key, error) {
	public, err := parsePublic(spki)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kind, point := describe(public)
	for _, value := range [][]byte{octetString(point), point} {
		handles, err := d.objects(pkcs11.CKO_PUBLIC_KEY, pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, kind), pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, value))
		if err != nil {
			return nil, err
		}
		for _, h := range handles {
			id, err := d.module.GetAttributeValue(d.session, h, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_ID, nil)})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.uri, err)
			}
			k := &tokenKey{device: d, public: public, id: id[0].Value}
			if _, err := k.handle(); err == nil {
				return newKey(k)
			}
		}
	}
	return nil, ErrNotHeld
}

// objects returns the objects of a class that have the attributes. The caller owns the device.
func (d *device) objects(class uint, attributes ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle, error) {
	template := append([]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class)}, attributes...)
	if err := d.module.FindObjectsInit(d.session, template); err != nil {
		return nil, fmt.Errorf("%s: %w", d.uri, err)
	}
	found, _, err := d.module.FindObjects(d.session, 16)
	if err = errors.Join(err, d.module.FindObjectsFinal(d.session)); err != nil {
		return nil, fmt.Errorf("%s: %w", d.uri, err)
	}
	return found, nil
}

func (d *device) generate(use string) (*Key, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	label := d.uri.object
	if label == "" {
		label = "assay-" + use
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	mechanism, params := uint(pkcs11.CKM_EC_KEY_PAIR_GEN), paramsP256
	if use == ledger.UseLog {
		mechanism, params = genECEdwards, paramsEd25519
	}
	public, _, err := d.module.GenerateKeyPair(d.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(mechanism, nil)}, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_VERIFY, true), pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, params),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, label), pkcs11.NewAttribute(pkcs11.CKA_ID, id),
	}, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true), pkcs11.NewAttribute(pkcs11.CKA_SIGN, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, label), pkcs11.NewAttribute(pkcs11.CKA_ID, id),
	})
	if errors.Is(err, pkcs11.Error(pkcs11.CKR_MECHANISM_INVALID)) && use == ledger.UseLog {
		return nil, fmt.Errorf("%s: it makes no Ed25519 keys, which checkpoints are signed with: keep the log key in a file", d.uri)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.uri, err)
	}
	got, err := d.module.GetAttributeValue(d.session, public, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.uri, err)
	}
	parsed, err := parsePoint(use == ledger.UseLog, got[0].Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.uri, err)
	}
	return newKey(&tokenKey{device: d, public: parsed, id: id})
}

// describe returns the kind of a public key and its point as CKA_EC_POINT holds it inside its OCTET STRING.
func describe(public crypto.PublicKey) (kind uint, point []byte) {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return keyECEdwards, k
	case *ecdsa.PublicKey:
		point, _ = k.Bytes() // of a curve that parsePublic knows
		return pkcs11.CKK_EC, point
	}
	panic("keyring: internal error: no such kind of key")
}

func octetString(b []byte) []byte {
	der, err := asn1.Marshal(b)
	if err != nil {
		panic("keyring: internal error: " + err.Error())
	}
	return der
}

// parsePoint reads CKA_EC_POINT: an OCTET STRING by the standard, the point itself in some libraries.
func parsePoint(edwards bool, value []byte) (crypto.PublicKey, error) {
	var point []byte
	if rest, err := asn1.Unmarshal(value, &point); err != nil || len(rest) > 0 {
		point = value
	}
	if !edwards {
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	}
	if len(point) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("an Ed25519 key of %d bytes", len(point))
	}
	return ed25519.PublicKey(slices.Clone(point)), nil
}

// tokenKey is a key in a token. It is a [signature.Signer].
type tokenKey struct {
	device *device
	public crypto.PublicKey
	id     []byte // CKA_ID, which both halves have
}

var _ signature.Signer = (*tokenKey)(nil)

func (k *tokenKey) PublicKey(...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return k.public, nil
}

// handle returns the private half. The caller owns the device.
func (k *tokenKey) handle() (pkcs11.ObjectHandle, error) {
	kind, _ := describe(k.public)
	found, err := k.device.objects(pkcs11.CKO_PRIVATE_KEY, pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, kind), pkcs11.NewAttribute(pkcs11.CKA_ID, k.id))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%s: %d private keys with the id %x, want one", k.device.uri, len(found), k.id)
	}
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

// SignMessage signs. A session that has ended, because the token went away or its service began anew, is opened again
// once.
func (k *tokenKey) SignMessage(r io.Reader, _ ...signature.SignOption) ([]byte, error) {
	message, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	d := k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	sig, err := k.sign(message)
	var code pkcs11.Error
	if errors.As(err, &code) && slices.Contains(ended, uint(code)) {
		if err = d.login(); err == nil {
			sig, err = k.sign(message)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: sign: %w", d.uri, err)
	}
	return sig, nil
}

// ended lists the errors after which a session has to be opened again.
var ended = []uint{
	pkcs11.CKR_SESSION_HANDLE_INVALID, pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_DEVICE_ERROR,
	pkcs11.CKR_TOKEN_NOT_PRESENT, pkcs11.CKR_USER_NOT_LOGGED_IN, pkcs11.CKR_KEY_HANDLE_INVALID, pkcs11.CKR_OBJECT_HANDLE_INVALID,
}

func (k *tokenKey) sign(message []byte) ([]byte, error) {
	d := k.device
	h, err := k.handle()
	if err != nil {
		return nil, err
	}
	mechanism := uint(mechanismEdDSA)
	_, edwards := k.public.(ed25519.PublicKey)
	if !edwards {
		mechanism = pkcs11.CKM_ECDSA
		sum := sha256.Sum256(message)
		message = sum[:]
	}
	if err := d.module.SignInit(d.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(mechanism, nil)}, h); err != nil {
		return nil, err
	}
	sig, err := d.module.Sign(d.session, message)
	if err != nil {
		return nil, err
	}
	if !edwards { // r and s, 32 bytes each
		if len(sig) != 64 {
			return nil, fmt.Errorf("a P-256 signature of %d bytes", len(sig))
		}
		if sig, err = asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])}); err != nil {
			return nil, err
		}
	}
	return verified(k.public, message, sig)
}

func parsePublic(spki []byte) (crypto.PublicKey, error) {
	return ledger.Key{Use: ledger.UseResult, SPKI: bytes.Clone(spki)}.Public()
}

// verified returns a signature that a device made, or an error where it is none: a token is not believed blindly.
func verified(public crypto.PublicKey, digestOrMessage, sig []byte) ([]byte, error) {
	ok := false
	switch k := public.(type) {
	case ed25519.PublicKey:
		ok = ed25519.Verify(k, digestOrMessage, sig)
	case *ecdsa.PublicKey:
		ok = ecdsa.VerifyASN1(k, digestOrMessage, sig)
	}
	if !ok {
		return nil, errors.New("the token gave a signature that does not verify")
	}
	return sig, nil
}
