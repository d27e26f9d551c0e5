package mint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"
)

// rsaKey reads a key of keys/. RSA keys are files because their generation is slow and takes no seed.
func rsaKey(name string) *rsa.PrivateKey {
	text, err := keyFiles.ReadFile("keys/" + name + ".pem")
	must(err)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	must(err)
	return key
}

// ecKey returns the key that follows from what it is for and a name: a scalar from 1 to the order less one.
func ecKey(curve elliptic.Curve, use string, name ...string) *ecdsa.PrivateKey {
	h := sha512.Sum512([]byte("assay/mint/" + use + "/v1\x00" + strings.Join(name, "\x00")))
	span := new(big.Int).Sub(curve.Params().N, big.NewInt(1))
	scalar := new(big.Int).SetBytes(h[:])
	scalar.Add(scalar.Mod(scalar, span), big.NewInt(1))
	key, err := ecdsa.ParseRawPrivateKey(curve, scalar.FillBytes(make([]byte, curve.Params().BitSize/8)))
	must(err)
	return key
}

func p256Key(name ...string) *ecdsa.PrivateKey { return ecKey(elliptic.P256(), "p256", name...) }

func p384Key(name ...string) *ecdsa.PrivateKey { return ecKey(elliptic.P384(), "p384", name...) }

// ecAlgorithm is the AlgorithmIdentifier of ECDSA with SHA-256 or SHA-384 (RFC 5758, section 3.2).
func ecAlgorithm(hash crypto.Hash) []byte {
	last := map[crypto.Hash]int{crypto.SHA256: 2, crypto.SHA384: 3}[hash]
	return der(func(b *cryptobyte.Builder) {
		b.AddASN1(cb.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, last})
		})
	})
}

// ecSigned signs what stands in a certificate or a list with ECDSA.
func ecSigned(tbs []byte, key *ecdsa.PrivateKey, hash crypto.Hash) []byte {
	return signed(tbs, ecAlgorithm(hash), func(tbs []byte) []byte { return ecSign(key, hash, tbs) })
}

func ecSign(key *ecdsa.PrivateKey, hash crypto.Hash, message []byte) []byte {
	h := hash.New()
	h.Write(message)
	sig, err := key.Sign(nil, h.Sum(nil), hash) // no randomness: the nonce of RFC 6979
	must(err)
	return sig
}

// rawSignature writes the R and S of a signature (DER), big-endian, each into one half of out.
func rawSignature(out, signature []byte) {
	var v struct{ R, S *big.Int }
	_, err := asn1.Unmarshal(signature, &v)
	must(err)
	v.R.FillBytes(out[:len(out)/2])
	v.S.FillBytes(out[len(out)/2:])
}
