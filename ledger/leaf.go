package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// SaltSize is the size in bytes of the salt of a leaf: as long as the digest, so that guessing an entry's text does not
// tell whether it stands in the log.
const SaltSize = 32

const (
	leafTag     = "assay/leaf/v1"
	leafVersion = 1
	leafSize    = 1 + len(canon.Digest{})
)

var openingPrefix = canon.AppendLP(nil, []byte(leafTag))

// Opening returns lp("assay/leaf/v1") || salt || entry: the bytes whose SHA-256 is the commitment that the log shows. An
// opening is a blob named by the commitment.
func Opening(salt [SaltSize]byte, entry []byte) []byte {
	b := make([]byte, 0, len(openingPrefix)+SaltSize+len(entry))
	return append(append(append(b, openingPrefix...), salt[:]...), entry...)
}

// ParseOpening reads an opening. That it opens a certain leaf is for the caller to check: [canon.Sum] of data is the
// leaf's commitment.
func ParseOpening(data []byte) (salt [SaltSize]byte, e Entry, err error) {
	if len(data) > MaxOpening {
		return salt, e, fmt.Errorf("opening: %d bytes, at most %d", len(data), MaxOpening)
	}
	rest, ok := bytes.CutPrefix(data, openingPrefix)
	if !ok {
		return salt, e, errors.New("opening: does not begin with the tag " + leafTag)
	}
	if len(rest) < SaltSize {
		return salt, e, fmt.Errorf("opening: %d bytes after the tag, want a salt of %d and an entry", len(rest), SaltSize)
	}
	copy(salt[:], rest)
	e, err = ParseEntry(rest[SaltSize:])
	return salt, e, err
}

// Leaf returns the public bytes of a leaf: its version and the commitment.
func Leaf(commitment canon.Digest) []byte {
	return append([]byte{leafVersion}, commitment[:]...)
}

// ParseLeaf reads the public bytes of a leaf.
func ParseLeaf(data []byte) (canon.Digest, error) {
	if len(data) != leafSize {
		return canon.Digest{}, fmt.Errorf("leaf: %d bytes, want %d", len(data), leafSize)
	}
	if data[0] != leafVersion {
		return canon.Digest{}, fmt.Errorf("leaf: version %d is not known to this build, want %d", data[0], leafVersion)
	}
	return canon.Digest(data[1:]), nil
}

// ParseEntryBundle reads a tlog-tiles entry bundle: leaves with 2-byte big-endian lengths. It returns their commitments.
func ParseEntryBundle(data []byte) ([]canon.Digest, error) {
	var out []canon.Digest
	for at := 0; at < len(data); {
		if len(data)-at < 2 {
			return nil, fmt.Errorf("entry bundle: %d bytes too many", len(data)-at)
		}
		n := int(binary.BigEndian.Uint16(data[at:]))
		if at += 2; len(data)-at < n {
			return nil, fmt.Errorf("entry bundle: leaf %d of %d bytes, %d left", len(out), n, len(data)-at)
		}
		c, err := ParseLeaf(data[at : at+n])
		if err != nil {
			return nil, fmt.Errorf("entry bundle: leaf %d: %w", len(out), err)
		}
		if out = append(out, c); len(out) > TileWidth {
			return nil, fmt.Errorf("entry bundle: more than %d leaves", TileWidth)
		}
		at += n
	}
	return out, nil
}
