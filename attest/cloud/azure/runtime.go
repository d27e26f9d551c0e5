package azure

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/vendorjson"
)

// Runtime is what the runtime data says.
type Runtime struct {
	AK       *rsa.PublicKey // attestation key of the virtual TPM
	UserData []byte         // 64 bytes that the guest had written; nil: none, or zeros, which it holds until then
	Setup    []string       // of the machine: what its configuration says is on, sorted
}

// Names in the runtime data.
const (
	nameAK   = "HCLAkPub"
	exponent = "AQAB" // 65537
)

// setup are the members of vm-configuration that say whether something is on, sorted.
var setup = []string{"console-enabled", "secure-boot", "tpm-enabled", "tpm-persisted"}

// ParseRuntime reads runtime data. Members that it does not know are passed over, since the cloud adds some in every
// year; each is there once and in one spelling. It verifies nothing.
func ParseRuntime(text []byte) (rt Runtime, err error) {
	var user string
	hasUser := false
	r := vendorjson.NewReader(text)
	_, err = r.Object(false,
		vendorjson.Required("keys", func() error { return r.List(maxKeys, func() error { return readKey(r, &rt) }) }),
		vendorjson.Optional("user-data", func() error { hasUser = true; return r.Text(&user) }),
		vendorjson.Optional("vm-configuration", func() error { return readSetup(r, &rt) }))
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
	case rt.AK == nil:
		err = fmt.Errorf("no key %s", nameAK)
	case hasUser:
		rt.UserData, err = hex.DecodeString(user)
		if err != nil || len(rt.UserData) != userDataSize {
			err = fmt.Errorf("user-data: want %d bytes in hex", userDataSize)
		}
	}
	if err != nil {
		return Runtime{}, fmt.Errorf("parse runtime data: %w", err)
	}
	if allZero(rt.UserData) {
		rt.UserData = nil
	}
	return rt, nil
}

// readKey reads one JSON Web Key and keeps it where it is the attestation key.
func readKey(r *vendorjson.Reader, rt *Runtime) error {
	var id, kind, e, n, use string
	text := func(name string, into *string) vendorjson.Member {
		return vendorjson.Optional(name, func() error { return r.Text(into) })
	}
	_, err := r.Object(false, text("kid", &id), text("kty", &kind), text("e", &e), text("n", &n),
		vendorjson.Optional("key_ops", func() error { return r.List(maxOps, func() error { return r.Text(&use) }) }))
	switch {
	case err != nil:
		return err
	case !strings.EqualFold(id, nameAK):
		return nil
	case id != nameAK:
		return fmt.Errorf("kid %s is spelt otherwise than %q", attest.Printable(id), nameAK)
	case rt.AK != nil:
		return fmt.Errorf("two keys %s", nameAK)
	case kind != "RSA" || e != exponent:
		return fmt.Errorf("%s is a key of type %s with exponent %s, want RSA with %s", nameAK, attest.Printable(kind), attest.Printable(e), exponent)
	}
	modulus, err := fromBase64(base64.RawURLEncoding, n)
	if err != nil {
		return fmt.Errorf("modulus of %s: %w", nameAK, err)
	}
	rt.AK = &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: 65537}
	if len(modulus) != keyBits/8 || rt.AK.N.BitLen() != keyBits || rt.AK.N.Bit(0) == 0 {
		return fmt.Errorf("%s has no modulus of %d bits", nameAK, keyBits)
	}
	return nil
}

// fromBase64 decodes text in its one spelling: the library's decoder passes over ends of lines.
func fromBase64(encoding *base64.Encoding, text string) ([]byte, error) {
	b, err := encoding.Strict().DecodeString(text)
	if err != nil || encoding.EncodedLen(len(b)) != len(text) {
		return nil, errors.New("it is not in base64 for URLs")
	}
	return b, nil
}

func readSetup(r *vendorjson.Reader, rt *Runtime) error {
	on := make([]bool, len(setup))
	var members []vendorjson.Member
	for i, name := range setup {
		members = append(members, vendorjson.Optional(name, func() error { return r.Flag(&on[i]) }))
	}
	_, err := r.Object(false, members...)
	for i, name := range setup {
		if on[i] {
			rt.Setup = append(rt.Setup, name)
		}
	}
	return err
}
