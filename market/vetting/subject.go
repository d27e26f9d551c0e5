package vetting

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
)

// Unit is what a claim or a revocation can be about, from the smallest to the largest. What is wrong is taken back at the
// smallest unit that it is wrong of.
type Unit uint8

const (
	UnitClaim Unit = iota + 1 // one claim; nothing is claimed of it, it can only be revoked
	UnitDevice
	UnitHost
	UnitSite
	UnitProvider
	UnitIssuer
	UnitModel // a generation of hardware
)

var unitNames = canon.Names{UnitClaim: "claim", UnitDevice: "device", UnitHost: "host", UnitSite: "site", UnitProvider: "provider", UnitIssuer: "issuer", UnitModel: "model"}

func (u Unit) String() string { return unitNames.String("Unit", uint8(u)) }

// MarshalText writes the unit in words.
func (u Unit) MarshalText() ([]byte, error) { return unitNames.Marshal("unit", uint8(u)) }

// UnmarshalText reads the unit in words.
func (u *Unit) UnmarshalText(text []byte) error {
	v, err := unitNames.Parse("unit", text)
	*u = Unit(v)
	return err
}

// Subject is one unit. A device's id is the kind and the value of its identity, amd-chip-id:9c41...; a claim's is its digest.
type Subject struct {
	Kind Unit   `json:"kind"`
	ID   string `json:"id"`
}

func (s Subject) String() string { return s.Kind.String() + ":" + s.ID }

// Compare orders subjects: the smallest unit first.
func (s Subject) Compare(o Subject) int {
	if s.Kind != o.Kind {
		return int(s.Kind) - int(o.Kind)
	}
	return strings.Compare(s.ID, o.ID)
}

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`) // of issuers, providers, sites and models, as policies spell them
	hostForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	deviceForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*:([0-9a-f]{2})+$`)
)

// Validate checks the form of the id.
func (s Subject) Validate() error {
	form, limit, words := nameForm, MaxID, "lower-case letters, digits, dots and hyphens"
	switch s.Kind {
	case UnitClaim:
		_, err := canon.ParseDigest(s.ID)
		return err
	case UnitDevice:
		form, limit, words = deviceForm, MaxDeviceID, "a kind and its value in lower-case hex, as amd-chip-id:9c41"
	case UnitHost:
		form, words = hostForm, "letters, digits, dots, hyphens and underscores"
	case UnitSite, UnitProvider, UnitIssuer, UnitModel:
	default:
		return fmt.Errorf("subject: no kind")
	}
	if len(s.ID) > limit || !form.MatchString(s.ID) {
		return fmt.Errorf("subject: %s %.80q: want up to %d characters: %s", s.Kind, s.ID, limit, words)
	}
	return nil
}

// Scope says where a claim holds, or where an issuer may speak. An empty list says nothing: everywhere.
type Scope struct {
	Countries []string `json:"countries,omitzero"` // ISO 3166-1 alpha-2, ordered
	Sites     []string `json:"sites,omitzero"`     // ordered
}

// Validate checks that both lists are in order and well-formed.
func (s Scope) Validate() error {
	for _, list := range [][]string{s.Countries, s.Sites} {
		if len(list) > MaxScope {
			return fmt.Errorf("scope: %d entries, at most %d", len(list), MaxScope)
		}
		for i := 1; i < len(list); i++ {
			if list[i-1] >= list[i] {
				return fmt.Errorf("scope: %.80q is not in order, each once", list[i])
			}
		}
	}
	for _, site := range s.Sites {
		if err := (Subject{UnitSite, site}).Validate(); err != nil {
			return fmt.Errorf("scope: %w", err)
		}
	}
	if err := policy.CheckCountries(s.Countries); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	return nil
}

func (s Scope) equal(o Scope) bool {
	return slices.Equal(s.Countries, o.Countries) && slices.Equal(s.Sites, o.Sites)
}

// Device is one device of a host, and the generation of hardware that it is of.
type Device struct {
	ID    string `json:"id"`
	Model string `json:"model,omitzero"`
}

// Place is a host with everything it is part of, or a part of that: a site alone, a provider alone.
type Place struct {
	Provider string   `json:"provider"`
	Site     string   `json:"site,omitzero"`
	Host     string   `json:"host,omitzero"`
	Devices  []Device `json:"devices,omitzero"` // ordered by id
}

// Validate checks the form of a place.
func (p Place) Validate() error {
	for _, s := range p.chain() {
		if err := s.Validate(); err != nil {
			return fmt.Errorf("place: %w", err)
		}
	}
	switch {
	case p.Provider == "":
		return fmt.Errorf("place: no provider")
	case len(p.Devices) > MaxDevices:
		return fmt.Errorf("place: %d devices, at most %d", len(p.Devices), MaxDevices)
	case len(p.Devices) > 0 && p.Host == "":
		return fmt.Errorf("place: devices without a host")
	}
	for i, d := range p.Devices {
		if i > 0 && p.Devices[i-1].ID >= d.ID {
			return fmt.Errorf("place: device %.80q is not in order, each once", d.ID)
		}
		if d.Model != "" {
			if err := (Subject{UnitModel, d.Model}).Validate(); err != nil {
				return fmt.Errorf("place: %w", err)
			}
		}
	}
	return nil
}

// chain returns what the place is made of, the smallest unit first: what is claimed of a part holds for the whole place.
func (p Place) chain() []Subject {
	chain := make([]Subject, 0, len(p.Devices)+3)
	for _, d := range p.Devices {
		chain = append(chain, Subject{UnitDevice, d.ID})
	}
	for _, s := range []Subject{{UnitHost, p.Host}, {UnitSite, p.Site}, {UnitProvider, p.Provider}} {
		if s.ID != "" {
			chain = append(chain, s)
		}
	}
	return chain
}

// within returns the chain and the models in it: every unit whose revocation takes the place with it.
func (p Place) within() []Subject {
	units := p.chain()
	for _, d := range p.Devices {
		if m := (Subject{UnitModel, d.Model}); d.Model != "" && !slices.Contains(units, m) {
			units = append(units, m)
		}
	}
	return units
}
