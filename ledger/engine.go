package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// EngineType is the type of the engine document.
const EngineType = "assay/engine/v1"

// Engine records that a verifier decides by the rules of a module. The module is a blob of its own; what it decides, and
// whether it is what the verifier ran, this room cannot know.
type Engine struct {
	Type     string       `json:"type"`
	Module   canon.Digest `json:"module"`   // of its bytes
	Verifier string       `json:"verifier"` // who decides by it: the origin that its challenges name
	Version  string       `json:"version"`  // of the release, as the module says
	Go       string       `json:"go"`       // version of Go that compiled it
	Rules    []RoomRules  `json:"rules"`    // of all rooms, ordered by name
}

// RoomRules names the rules of a room.
type RoomRules struct {
	Room  string `json:"room"`
	Rules int    `json:"rules"`
}

// ParseEngine reads the canonical bytes of an engine document.
func ParseEngine(data []byte) (Engine, error) {
	var e Engine
	if err := canon.Unmarshal(data, &e); err != nil {
		return Engine{}, fmt.Errorf("engine: %w", err)
	}
	return e, e.Validate()
}

// Validate checks the form of the document.
func (e Engine) Validate() error {
	switch {
	case e.Type != EngineType:
		return fmt.Errorf("engine: type %.80q is not known to this build, want %q", e.Type, EngineType)
	case e.Module.IsZero():
		return errors.New("engine: no module")
	case e.Verifier == "" || len(e.Verifier) > MaxSource:
		return fmt.Errorf("engine: verifier of %d bytes, want 1 to %d", len(e.Verifier), MaxSource)
	case e.Version == "" || len(e.Version) > MaxVersion, e.Go == "" || len(e.Go) > MaxVersion:
		return fmt.Errorf("engine: versions of %d and %d bytes, want 1 to %d", len(e.Version), len(e.Go), MaxVersion)
	case len(e.Rules) == 0 || len(e.Rules) > MaxRooms:
		return fmt.Errorf("engine: rules of %d rooms, want 1 to %d", len(e.Rules), MaxRooms)
	}
	for i, r := range e.Rules {
		switch {
		case r.Room == "" || len(r.Room) > MaxVersion || r.Rules <= 0:
			return fmt.Errorf("engine: rules %d of room %.80q", r.Rules, r.Room)
		case i > 0 && e.Rules[i-1].Room >= r.Room:
			return fmt.Errorf("engine: rooms are not ordered by name, each once, at %.80q", r.Room)
		}
	}
	return nil
}
