package agent

import (
	"bytes"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// PinsType is the type of the document that says whom a measured guest believes.
const PinsType = "assay/pins/v1"

// Pins is the part of a [Node] that is the same for every node of a verifier: whom it believes. A measured image holds
// them, so that its measurement covers them; who the node is comes from its host, which can name a node but no other
// verifier.
type Pins struct {
	Type        string   `json:"type"`
	Origin      string   `json:"origin"`
	ResultKey   []byte   `json:"result_key"`         // SubjectPublicKeyInfo (DER)
	LogKey      string   `json:"log_key"`            // verifier key of the log
	PromiseKeys [][]byte `json:"promise_keys"`       // SubjectPublicKeyInfo (DER)
	Witnesses   string   `json:"witnesses,omitzero"` // text of a witness policy; absent: none
}

// Pins returns whom a node believes, without its credential.
func (n Node) Pins() Pins {
	return Pins{Type: PinsType, Origin: n.Origin, ResultKey: n.ResultKey, LogKey: n.LogKey, PromiseKeys: n.PromiseKeys, Witnesses: n.Witnesses}
}

// ParsePins reads a document of pins.
func ParsePins(data []byte) (Pins, error) {
	var p Pins
	if err := canon.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("pins: %w", err)
	}
	if p.Type != PinsType {
		return p, fmt.Errorf("pins: type %.80q is not known to this build, want %q", p.Type, PinsType)
	}
	return p, nil
}

// Admit returns the node as the pins let it be: its id and credential, and the pinned verifier. A node of another
// verifier is an error. The promise keys and witnesses are the pinned ones, whatever the node learned since.
func (p Pins) Admit(n Node) (Node, error) {
	switch {
	case n.Origin != p.Origin:
		return Node{}, fmt.Errorf("node %.80q joined %.200q, this image believes %q alone", n.Node, n.Origin, p.Origin)
	case !bytes.Equal(n.ResultKey, p.ResultKey):
		return Node{}, fmt.Errorf("node %.80q joined a verifier with another result key than this image believes", n.Node)
	case n.LogKey != p.LogKey:
		return Node{}, fmt.Errorf("node %.80q joined a verifier with another log than this image believes", n.Node)
	}
	n.PromiseKeys, n.Witnesses = p.PromiseKeys, p.Witnesses
	return n, nil
}
