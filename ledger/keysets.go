package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// KeysetsType is the type of the document of keysets.
const KeysetsType = "assay/keysets/v1"

// Keysets is the document that stands beside a log which continues another: the keysets of the logs before it. Entry 0 of
// the log follows from the last of them.
type Keysets struct {
	Type    string     `json:"type"`
	Keysets []Envelope `json:"keysets"` // the first one of the chain first
}

// KeysetsBefore returns the canonical bytes of the document that belongs beside one of the logs of a chain; nil: no log
// comes before it.
func KeysetsBefore(h KeyHistory, origin string) ([]byte, error) {
	doc := Keysets{Type: KeysetsType}
	for i, k := range h.keysets {
		if k.Origin == origin {
			break
		}
		doc.Keysets = append(doc.Keysets, h.sealed[i])
	}
	switch len(doc.Keysets) {
	case 0:
		return nil, nil
	case len(h.keysets):
		return nil, fmt.Errorf("keysets: the log %.80q has none among those of %q", origin, h.Origins())
	}
	return canon.Marshal(doc)
}

// ParseKeysets reads the canonical bytes of the document.
func ParseKeysets(data []byte) (KeyHistory, error) {
	var doc Keysets
	if len(data) > MaxKeysetsDocument {
		return KeyHistory{}, fmt.Errorf("keysets: %d bytes, at most %d", len(data), MaxKeysetsDocument)
	}
	if err := canon.Unmarshal(data, &doc); err != nil {
		return KeyHistory{}, fmt.Errorf("keysets: %w", err)
	}
	if doc.Type != KeysetsType {
		return KeyHistory{}, fmt.Errorf("keysets: type %.80q is not known to this build, want %q", doc.Type, KeysetsType)
	}
	if len(doc.Keysets) > MaxKeysets {
		return KeyHistory{}, errors.New("keysets: more than a chain of logs has")
	}
	return ReadKeys(doc.Keysets)
}
