package vetting

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// Types of the documents beside acts and sightings, which stand in the stream of a provider as well.
const (
	FactsType       = "assay/provider/v1"
	ObservationType = "assay/observed/v1"
)

// Unaffiliated is the provider in whose stream the devices of hosts stand that no certificate is of.
const Unaffiliated = "unaffiliated"

// Facts are what the operator has found out about a provider itself. The last ones stand.
type Facts struct {
	Type         string `json:"type"`
	Provider     string `json:"provider"`
	Stake        bool   `json:"stake,omitzero"`
	ContactHours int64  `json:"contact_hours,omitzero"` // within which the incident contact answered; zero: there is none
}

// Validate checks facts alone.
func (f Facts) Validate() error {
	if f.Type != FactsType {
		return fmt.Errorf("provider: type %.80q is not known to this build, want %q", f.Type, FactsType)
	}
	if f.ContactHours < 0 || f.ContactHours > MaxParameter/hour {
		return fmt.Errorf("provider: contact within %d hours: out of range", f.ContactHours)
	}
	return Subject{UnitProvider, f.Provider}.Validate()
}

// Observation is what was observed of the place of a certificate: what a standing rests on, beside the registry.
type Observation struct {
	Type        string     `json:"type"`
	Certificate string     `json:"certificate"`
	At          canon.Time `json:"at"` // of the entry
	Observed    Observed   `json:"observed"`
}

// Validate checks an observation alone.
func (o Observation) Validate() error {
	if o.Type != ObservationType || o.At <= 0 {
		return fmt.Errorf("observation: type %.80q at %s is not known to this build, want %q", o.Type, o.At, ObservationType)
	}
	return o.Observed.Validate()
}

// ModelTDX is the generation of every Intel processor: evidence is not read for a finer one.
const ModelTDX = "intel-tdx"

// NewDevice names an identity of a kind as subjects do, with the generation of hardware that the kind or the claims of an appraisal
// tell.
func NewDevice(kind string, value []byte, claims claim.Set) Device {
	d := Device{ID: kind + ":" + hex.EncodeToString(value)}
	switch model, ok := strings.CutPrefix(kind, "nvidia-"); {
	case ok:
		d.Model = model
	case strings.HasPrefix(kind, "amd-"):
		for _, c := range claims {
			if c.ID == "sevsnp.product" && c.Status == claim.Affirmed {
				d.Model = strings.ToLower(c.Value)
			}
		}
	case strings.HasPrefix(kind, "intel-"):
		d.Model = ModelTDX
	}
	return d
}

// Devices returns devices in the order in which a place has them, each once.
func Devices(all []Device) []Device {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b Device) bool { return a.ID == b.ID })
}

// Party returns what the certificate says of the party, as a verdict takes it.
func (c Certificate) Party() policy.PartyClaims {
	return policy.PartyClaims{Type: policy.PartyType, Certificate: c.ID, Claims: c.PartyClaims()}
}

// Ended reports whether nothing can happen to the certificate any more, so that its host may have another one.
func (c Certificate) Ended() bool {
	return c.Status == Lapsed || !c.Live() && c.Status != Draft && c.Status != Submitted && c.Status != InReview && c.Deadline == 0
}

// Body is what an entry of kind certificate/v1 holds: exactly one member is there. Acts change the state of a certificate,
// sightings that of a device, and the others no state.
type Body struct {
	Act         *Act
	Sighting    *Sighting
	Facts       *Facts
	Observation *Observation
	Notice      *Notice
}

// ParseBody reads the body of an entry of kind certificate/v1.
func ParseBody(e ledger.Entry, data []byte) (b Body, err error) {
	if len(data) > MaxBody {
		return b, fmt.Errorf("certificate: %d bytes, at most %d", len(data), MaxBody)
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return b, fmt.Errorf("certificate: %w", err)
	}
	provider := ""
	switch head.Type {
	case ActType:
		var a Act
		a, err = ParseAct(data)
		return Body{Act: &a}, err
	case SightingType:
		var s Sighting
		s, err = ParseSighting(data)
		return Body{Sighting: &s}, err
	case FactsType:
		b.Facts = &Facts{}
		if err = canon.Unmarshal(data, b.Facts); err == nil {
			err = b.Facts.Validate()
		}
		provider = b.Facts.Provider
	case ObservationType:
		b.Observation = &Observation{}
		if err = canon.Unmarshal(data, b.Observation); err == nil {
			err = b.Observation.Validate()
		}
	case NoticeType:
		b.Notice = &Notice{}
		err = canon.Unmarshal(data, b.Notice)
	default:
		err = fmt.Errorf("certificate: type %.80q is not known to this build", head.Type)
	}
	if err == nil && provider != "" && e.Stream != ledger.ProviderStream(provider) {
		err = fmt.Errorf("provider: an entry in stream %.80q, want %q", e.Stream, ledger.ProviderStream(provider))
	}
	return b, err
}

// Units returns every unit whose revocation takes the place with it, or about which a claim speaks of the place.
func (p Place) Units() []Subject { return p.within() }

// WorthLogging reports whether it tells anything new that a host shows the identity at a time: who holds it and is seen once
// half of the time is over that it is held unseen, who contests it, or the first one that a certificate is of.
func (d DeviceState) WorthLogging(host string, certified bool, at canon.Time) bool {
	switch {
	case d.Status == "" || d.Status == Released:
		return certified
	case d.Holder.Host != host:
		return !d.ContestedBy(host) && len(d.Challengers) < MaxChallenger // of one too many nothing can be said
	}
	return d.Status == Held && at-d.Updated >= (d.Deadline-d.Updated)/2
}

// Carries reports whether what counts carries a tier at least as high.
func (s Standing) Carries(tier string) bool {
	return s.Tier != "" && Higher(s.Tier, tier) == s.Tier
}

// Higher returns the higher of two tiers. None is the lowest.
func Higher(a, b string) string {
	if slices.Index(claim.Tiers, a) >= slices.Index(claim.Tiers, b) {
		return a
	}
	return b
}
