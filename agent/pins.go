package agent

import (
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// PinsType is the type of the document that says whom a measured guest believes.
const PinsType = "assay/pins/v1"

// Pins is the part of a [Node] that is the same for every node of a verifier: whom it believes. A measured image holds
// them, so that its measurement covers them; who the node is comes from its host, which can name a node but no other
// verifier.
type Pins struct {
	Type      string        `json:"type"`
	Origin    string        `json:"origin"`
	Keyset    ledger.Keyset `json:"keyset"`             // of the verifier and its log
	Witnesses string        `json:"witnesses,omitzero"` // text of a witness policy; absent: none
}

// Pins returns whom a node believes, without its credential.
func (n Node) Pins() Pins {
	return Pins{Type: PinsType, Origin: n.Origin, Keyset: n.Keyset, Witnesses: n.Witnesses}
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
	if err := p.Keyset.Validate(); err != nil {
		return p, fmt.Errorf("pins: %w", err)
	}
	return p, nil
}

// Admit returns the node as the pins let it be: its id and credential, and the pinned verifier. A node of another origin or
// log is an error. Keys and witnesses are the pinned ones, whatever the node learned since: the agent follows from them to
// keys that took their place, and a verifier with the same name and other keys fails there.
func (p Pins) Admit(n Node) (Node, error) {
	switch {
	case n.Origin != p.Origin:
		return Node{}, fmt.Errorf("node %.80q joined %.200q, this image believes %q alone", n.Node, n.Origin, p.Origin)
	case n.Keyset.Origin != p.Keyset.Origin:
		return Node{}, fmt.Errorf("node %.80q joined a verifier with another log than this image believes", n.Node)
	}
	n.Keyset, n.Witnesses = p.Keyset, p.Witnesses
	return n, nil
}
