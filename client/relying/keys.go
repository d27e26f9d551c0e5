package relying

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/client"
)

// Keys are an issuer's public keys by their ids. The zero Keys verify nothing.
type Keys struct {
	byID map[string]*ecdsa.PublicKey
}

// jwk is a JSON Web Key (RFC 7517) of the kinds that are read here. Members that are not here do not matter.
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	X   string `json:"x"`
	Y   string `json:"y"`
	D   string `json:"d"`
}

// ParseKeys reads a JSON Web Key Set. Keys that are not for ES256 signatures are passed over, as RFC 7517 section 5 has
// it; two of one id, and a set without any, are errors. Whose set it is, the caller has to know.
func ParseKeys(jwks []byte) (Keys, error) {
	if len(jwks) > client.MaxEAR {
		return Keys{}, fmt.Errorf("key set: %d bytes, at most %d", len(jwks), client.MaxEAR)
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		return Keys{}, fmt.Errorf("key set: %w", err)
	}
	k := Keys{map[string]*ecdsa.PublicKey{}}
	for _, one := range set.Keys {
		if one.Kty != "EC" || one.Crv != "P-256" || one.Kid == "" || one.Use != "" && one.Use != "sig" || one.Alg != "" && one.Alg != "ES256" {
			continue
		}
		if one.D != "" {
			return Keys{}, fmt.Errorf("key set: key %.80q is a private key", one.Kid)
		}
		if k.byID[one.Kid] != nil {
			return Keys{}, fmt.Errorf("key set: key id %.80q twice", one.Kid)
		}
		key, err := one.p256()
		if err != nil {
			return Keys{}, fmt.Errorf("key set: key %.80q: %w", one.Kid, err)
		}
		k.byID[one.Kid] = key
	}
	if len(k.byID) == 0 {
		return Keys{}, errors.New("key set: no ES256 key with an id")
	}
	return k, nil
}

func (j jwk) p256() (*ecdsa.PublicKey, error) {
	point := []byte{4} // uncompressed
	for _, text := range []string{j.X, j.Y} {
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || len(b) != 32 {
			return nil, errors.New("want x and y of 32 bytes in base64url")
		}
		point = append(point, b...)
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
}

// ed25519 reads a public key of RFC 8037.
func (j jwk) ed25519() (ed25519.PublicKey, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(j.X)
	if j.Kty != "OKP" || j.Crv != "Ed25519" || err != nil || len(b) != ed25519.PublicKeySize || j.D != "" {
		return nil, errors.New("want a public Ed25519 key")
	}
	return b, nil
}
