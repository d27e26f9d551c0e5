package eventlog

import (
	"crypto"
	_ "crypto/sha1" // of legacy logs: replayed, never believed alone
	_ "crypto/sha256"
	_ "crypto/sha512"
	"fmt"
)

// Algorithm is a hash algorithm by its TCG number (TCG Algorithm Registry, section 3.1).
type Algorithm uint16

// Algorithms of banks.
const (
	SHA1   Algorithm = 0x0004
	SHA256 Algorithm = 0x000B
	SHA384 Algorithm = 0x000C
	SHA512 Algorithm = 0x000D
	SM3    Algorithm = 0x0012
)

// Size returns the bytes of a digest, or 0 for an algorithm that this build does not know.
func (a Algorithm) Size() int {
	switch a {
	case SHA1:
		return 20
	case SHA256, SM3:
		return 32
	case SHA384:
		return 48
	case SHA512:
		return 64
	}
	return 0
}

// Hash returns the hash function, or 0 where this build cannot compute it.
func (a Algorithm) Hash() crypto.Hash {
	switch a {
	case SHA1:
		return crypto.SHA1
	case SHA256:
		return crypto.SHA256
	case SHA384:
		return crypto.SHA384
	case SHA512:
		return crypto.SHA512
	}
	return 0
}

// Strong reports whether registers of the bank show anything: SHA-1 collides, SM3 is not computed here.
func (a Algorithm) Strong() bool { return a == SHA256 || a == SHA384 || a == SHA512 }

// String returns the name as claims and documents write it: sha256.
func (a Algorithm) String() string {
	switch a {
	case SHA1:
		return "sha1"
	case SHA256:
		return "sha256"
	case SHA384:
		return "sha384"
	case SHA512:
		return "sha512"
	case SM3:
		return "sm3-256"
	}
	return fmt.Sprintf("algorithm-%04x", uint16(a))
}

// sum returns the digest of b.
func (a Algorithm) sum(b ...[]byte) []byte {
	h := a.Hash().New()
	for _, x := range b {
		h.Write(x)
	}
	return h.Sum(nil)
}
