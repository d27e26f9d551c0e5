// Package attest holds the words that evidence is spoken in: bundles and their components, the binding that makes one
// statement of many devices, collateral, roots and expectations. It does no I/O and reads no clock.
//
// A bundle is what an agent submits (FORMAT.md): components in order, exactly one of which, the seal, covers the others,
// the challenge and the agent's session keys. The format rooms below this one (sevsnp, ...) read single components.
//
// Nothing here judges. Bytes that no signature vouches for yet travel as [Unverified].
package attest

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// BundleType is the type of the bundle document and the payload type of its envelope.
const BundleType = "assay/bundle/v1"

// Component classes.
const (
	ClassCPU       = "cpu"
	ClassTPM       = "tpm"
	ClassGPU       = "gpu"
	ClassSwitch    = "switch"
	ClassStatement = "statement"
)

var classes = map[string]bool{ClassCPU: true, ClassTPM: true, ClassGPU: true, ClassSwitch: true, ClassStatement: true}

// Bundle is all evidence of one host at one moment.
type Bundle struct {
	Type       string       `json:"type"`
	Keys       Keys         `json:"keys"`
	Challenge  canon.Digest `json:"challenge"` // N, the challenge it answers
	Seal       string       `json:"seal"`      // label of the component that covers all others
	Components []Component  `json:"components"`
}

// Component is one piece of evidence from one device, as received.
type Component struct {
	Class     string `json:"class"`
	MediaType string `json:"media_type"`
	Label     string `json:"label"` // unique in the bundle
	Parts     []Part `json:"parts"` // in the order of FORMAT.md
}

// Part is one named byte string of a component.
type Part struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// Part returns the bytes of the named part.
func (c Component) Part(name string) ([]byte, bool) {
	for _, p := range c.Parts {
		if p.Name == name {
			return p.Data, true
		}
	}
	return nil, false
}

// Names of the agent's own statement: its document type, and the media type and the one part of its component.
const (
	StatementType      = "assay/statement/v1"
	StatementMediaType = "application/vnd.assay.statement+json"
	PartStatement      = "statement"
)

// Statement is what the agent says of itself. It counts only where agent.measured is affirmed.
type Statement struct {
	Type       string       `json:"type"`
	Agent      canon.Digest `json:"agent"`               // SHA-256 of the agent's executable
	BootID     string       `json:"boot_id"`             // of the kernel, random at every boot
	Checkpoint string       `json:"checkpoint,omitzero"` // newest checkpoint note that the agent knows
	NVML       *NVML        `json:"nvml,omitzero"`       // what the driver says of its GPUs; absent: there is none
}

// ParseBundle reads the canonical payload of a bundle and checks its shape: known classes, unique labels, one statement,
// a seal that exists. It verifies nothing.
func ParseBundle(payload []byte) (Bundle, error) {
	var b Bundle
	if len(payload) > MaxBundle {
		return b, fmt.Errorf("bundle: %d bytes, at most %d", len(payload), MaxBundle)
	}
	if err := canon.Unmarshal(payload, &b); err != nil {
		return b, fmt.Errorf("bundle: %w", err)
	}
	return b, b.check()
}

func (b Bundle) check() error {
	if b.Type != BundleType {
		return fmt.Errorf("bundle: type %+.80q is not known to this build, want %+q", b.Type, BundleType)
	}
	if n := len(b.Components); n > MaxComponents {
		return fmt.Errorf("bundle: %d components, at most %d", n, MaxComponents)
	}
	if len(b.Keys.KEM) != 32 {
		return fmt.Errorf("bundle: kem key of %d bytes, want 32", len(b.Keys.KEM))
	}
	labels, count := map[string]bool{}, map[string]int{}
	for i, c := range b.Components {
		switch {
		case !classes[c.Class]:
			return fmt.Errorf("bundle: component %d: unknown class %+.80q", i, c.Class)
		case c.Label == "" || len(c.Label) > MaxName || len(c.MediaType) > MaxName:
			return fmt.Errorf("bundle: component %d: label and media type want 1 to %d bytes", i, MaxName)
		case labels[c.Label]:
			return fmt.Errorf("bundle: component %d: second label %+q", i, c.Label)
		case len(c.Parts) == 0 || len(c.Parts) > MaxParts:
			return fmt.Errorf("bundle: component %+q: %d parts, want 1 to %d", c.Label, len(c.Parts), MaxParts)
		}
		labels[c.Label] = true
		count[c.Class]++
	}
	switch {
	case count[ClassStatement] != 1:
		return fmt.Errorf("bundle: %d statements of the agent, want one", count[ClassStatement])
	case count[ClassCPU] > MaxCPUs || count[ClassTPM] > MaxTPMs: // each costs signature checks
		return fmt.Errorf("bundle: %d CPU TEEs and %d TPMs, at most %d and %d", count[ClassCPU], count[ClassTPM], MaxCPUs, MaxTPMs)
	}
	if !labels[b.Seal] {
		return fmt.Errorf("bundle: seal %+.80q names no component", b.Seal)
	}
	return nil
}

// ParseStatement reads the agent's statement.
func ParseStatement(data []byte) (Statement, error) {
	var s Statement
	if err := canon.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("statement: %w", err)
	}
	if s.Type != StatementType {
		return s, fmt.Errorf("statement: type %+.80q is not known to this build, want %+q", s.Type, StatementType)
	}
	return s, nil
}

// SealBundle signs a bundle with the session key that the evidence covers.
func SealBundle(b Bundle, session ledger.Signer) (ledger.Envelope, error) {
	if err := b.check(); err != nil {
		return ledger.Envelope{}, err
	}
	payload, err := canon.Marshal(b)
	if err != nil {
		return ledger.Envelope{}, err
	}
	return ledger.Seal(BundleType, payload, session)
}

// OpenBundle reads a bundle's envelope. signed reports whether the session key that the bundle names signed it; whether
// evidence covers that key is for the appraisal to find.
func OpenBundle(e ledger.Envelope) (b Bundle, signed bool, err error) {
	if e.PayloadType != BundleType {
		return b, false, fmt.Errorf("bundle: payload type %+.80q is not known to this build, want %+q", e.PayloadType, BundleType)
	}
	if len(e.Signatures) != 1 {
		return b, false, errors.New("bundle: want the one signature of the session key")
	}
	if b, err = ParseBundle(e.Payload); err != nil {
		return b, false, err
	}
	pub, err := b.Keys.Verification()
	if err != nil { // its words are a library's, and an appraisal quotes ours
		return b, false, errors.New("bundle: the session sign key is no public key that this build reads")
	}
	return b, e.SignedBy(pub), nil
}
