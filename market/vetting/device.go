package vetting

import (
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// SightingType is the type of an event of a device's identity.
const SightingType = "assay/device/v1"

// What can happen to the identity of a device.
const (
	DeviceSeen    = "seen"    // evidence of a host showed it
	DeviceSettle  = "settle"  // the operator says whose it is
	DeviceRelease = "release" // its holder gives it up: sold, replaced, retired; or who contests it does
	DeviceDue     = "due"     // time passed
)

// Sighting is one event of a device's identity.
type Sighting struct {
	Type     string       `json:"type"`
	Device   string       `json:"device"`
	Event    string       `json:"event"`
	Provider string       `json:"provider"`          // in whose stream it stands
	Host     string       `json:"host,omitzero"`     // seen: that showed it; settle: whose it is; release: that gives it up
	By       string       `json:"by,omitzero"`       // settle, release
	Evidence canon.Digest `json:"evidence,omitzero"` // seen: body of the evidence; settle: of what shows it
}

// ParseSighting reads the canonical bytes of an event.
func ParseSighting(data []byte) (Sighting, error) {
	var s Sighting
	if len(data) > MaxBody {
		return s, fmt.Errorf("device: %d bytes, at most %d", len(data), MaxBody)
	}
	if err := canon.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("device: %w", err)
	}
	return s, s.Validate()
}

// Validate checks a sighting alone.
func (s Sighting) Validate() error {
	if s.Type != SightingType {
		return fmt.Errorf("device: type %.80q is not known to this build, want %q", s.Type, SightingType)
	}
	for _, u := range []Subject{{UnitDevice, s.Device}, {UnitProvider, s.Provider}} {
		if err := u.Validate(); err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	if s.Event != DeviceDue {
		if err := (Subject{UnitHost, s.Host}).Validate(); err != nil {
			return fmt.Errorf("device: %w", err)
		}
	}
	wantsBy, wantsEvidence := s.Event == DeviceSettle || s.Event == DeviceRelease, s.Event == DeviceSeen || s.Event == DeviceSettle
	switch {
	case !slices.Contains([]string{DeviceSeen, DeviceSettle, DeviceRelease, DeviceDue}, s.Event):
		return fmt.Errorf("device: event %.80q is not known to this build", s.Event)
	case wantsBy != (s.By != "") || len(s.By) > MaxPrincipal:
		return fmt.Errorf("device: %s: by %.80q", s.Event, s.By)
	case wantsEvidence == s.Evidence.IsZero():
		return fmt.Errorf("device: %s: evidence is needed of what was seen and of what is settled, and nothing else has some", s.Event)
	case s.Event == DeviceDue && s.Host != "":
		return errors.New("device: due names no host")
	}
	return nil
}

// States of a device's identity.
const (
	Held      = "held"      // one host shows it
	Contested = "contested" // another does, too; the holder keeps its standing
	Released  = "released"  // nobody's; whoever shows it next begins anew
)

// Why a device is in its state, beside the codes of certificates.
const (
	ReasonHeld        = "held"        // seen on its holder
	ReasonContested   = "contested"   // seen on another host
	ReasonSettled     = "settled"     // the operator said whose it is
	ReasonUnproven    = "unproven"    // nobody settled it: it stays the holder's
	ReasonReleased    = "released"    // given up
	ReasonUnseen      = "unseen"      // for so long that it is nobody's
	ReasonTransferred = "transferred" // it is another host's by now
)

// Holder is a host of a provider.
type Holder struct {
	Provider string     `json:"provider"`
	Host     string     `json:"host"`
	Since    canon.Time `json:"since"`
}

// DeviceState is the state of a device's identity.
type DeviceState struct {
	Device      string     `json:"device"`
	Status      string     `json:"status"`
	Reason      string     `json:"reason"`
	Holder      Holder     `json:"holder"`
	Challengers []Holder   `json:"challengers,omitzero"` // in the order in which they came
	Updated     canon.Time `json:"updated"`
	Deadline    canon.Time `json:"deadline,omitzero"`
}

// Of returns what a provider is told of the state: that others show the identity, or hold it, and not who they are.
func (d DeviceState) Of(provider string) DeviceState {
	hide := func(h Holder) Holder {
		if h.Provider != provider {
			h.Provider, h.Host = "", ""
		}
		return h
	}
	d.Holder = hide(d.Holder)
	challengers := d.Challengers
	d.Challengers = nil
	for _, c := range challengers {
		d.Challengers = append(d.Challengers, hide(c))
	}
	return d
}

// ContestedBy reports whether a host shows the identity, and another holds it.
func (d DeviceState) ContestedBy(host string) bool {
	return slices.ContainsFunc(d.Challengers, func(c Holder) bool { return c.Host == host })
}

// Hold is the life cycle of a device's identity: a [ledger.Machine] over entries of kind certificate/v1. The first host that
// showed it holds it; a second one is contested, both are told, and until the operator has settled whose it is, or its time is
// over, the holder keeps its standing.
func (h *History) Hold(d DeviceState, e ledger.Event) (ledger.Step[DeviceState], error) {
	var step ledger.Step[DeviceState]
	if e.Entry.Kind != ledger.KindCertificate {
		return step, fmt.Errorf("device: %s is no event of one", e.Entry.Kind)
	}
	s, err := ParseSighting(e.Body)
	if err != nil {
		return step, err
	}
	switch want := ledger.ProviderStream(s.Provider); {
	case e.Entry.Stream != want:
		return step, fmt.Errorf("device: an event in stream %.80q, want %q", e.Entry.Stream, want)
	case d.Status == "" && s.Event != DeviceSeen:
		return step, fmt.Errorf("device %s: %s of what nobody has seen", s.Device, s.Event)
	case d.Status != "" && d.Device != s.Device:
		return step, fmt.Errorf("device %s: an event of %.80q", d.Device, s.Device)
	case d.Status == Released:
		return step, fmt.Errorf("device %s: it was released; whoever shows it begins anew", s.Device)
	}
	d.Challengers = slices.Clone(d.Challengers)
	now := max(e.Entry.Time, d.Updated)
	q := h.At(now)
	tell := func(to, notice, about string, due canon.Time) {
		step.Drafts = append(step.Drafts, Notice{Notice: notice, Device: s.Device, About: about, At: now, Due: due}.draft(to))
	}
	if d.Deadline != 0 && d.Deadline <= now {
		switch {
		case d.Status == Contested:
			d.Status, d.Reason, d.Challengers, d.Deadline = Held, ReasonUnproven, nil, now+canon.Time(q.Terms.Device)
		case s.Event == DeviceDue:
			d.Status, d.Reason, d.Deadline = Released, ReasonUnseen, 0
		case s.Event == DeviceSeen && s.Host != d.Holder.Host:
			d = DeviceState{} // it was nobody's by now
		}
	}
	by := Holder{s.Provider, s.Host, now}
	switch {
	case s.Event == DeviceDue:
	case s.Event == DeviceSeen && d.Status == "":
		d = DeviceState{Device: s.Device, Status: Held, Reason: ReasonHeld, Holder: by, Deadline: now + canon.Time(q.Terms.Device)}
	case s.Event == DeviceSeen && s.Host == d.Holder.Host:
		if s.Provider != d.Holder.Provider {
			return step, fmt.Errorf("device %s: host %s is of %s", s.Device, s.Host, d.Holder.Provider)
		}
		if d.Status == Held {
			d.Reason, d.Deadline = ReasonHeld, now+canon.Time(q.Terms.Device)
		}
	case s.Event == DeviceSeen:
		if d.ContestedBy(s.Host) {
			break
		}
		if len(d.Challengers) == MaxChallenger {
			return step, fmt.Errorf("device %s: more than %d hosts show it", s.Device, MaxChallenger)
		}
		if d.Status == Held {
			d.Status, d.Deadline = Contested, now+canon.Time(q.Grace.Review)
		}
		d.Reason, d.Challengers = ReasonContested, append(d.Challengers, by)
		tell(d.Holder.Provider, NoticeContested, "holder "+d.Holder.Host, d.Deadline)
		tell(s.Provider, NoticeContested, "newcomer "+s.Host, d.Deadline)
	case s.Event == DeviceSettle && d.Status == Contested:
		i := slices.IndexFunc(d.Challengers, func(c Holder) bool { return c.Host == s.Host })
		switch {
		case s.Host == d.Holder.Host:
			d.Reason = ReasonSettled
		case i >= 0:
			tell(d.Holder.Provider, NoticeDeviceMove, "from "+d.Holder.Host, 0)
			tell(d.Challengers[i].Provider, NoticeDeviceMove, "to "+s.Host, 0)
			d.Reason, d.Holder = ReasonTransferred, Holder{d.Challengers[i].Provider, s.Host, now}
		default:
			return step, fmt.Errorf("device %s: host %s neither holds it nor shows it", s.Device, s.Host)
		}
		d.Status, d.Challengers, d.Deadline = Held, nil, now+canon.Time(q.Terms.Device)
	case s.Event == DeviceRelease && s.Host != d.Holder.Host && d.ContestedBy(s.Host):
		i := slices.IndexFunc(d.Challengers, func(c Holder) bool { return c.Host == s.Host })
		if d.Challengers[i].Provider != s.Provider {
			return step, fmt.Errorf("device %s: host %s is not of %s", s.Device, s.Host, s.Provider)
		}
		d.Challengers = slices.Delete(d.Challengers, i, i+1)
		if len(d.Challengers) == 0 {
			d.Status, d.Reason, d.Challengers, d.Deadline = Held, ReasonSettled, nil, now+canon.Time(q.Terms.Device)
		}
	case s.Event == DeviceRelease && s.Host == d.Holder.Host && s.Provider == d.Holder.Provider:
		if d.Status == Contested { // the first of those who came after holds it now
			d.Reason, d.Holder = ReasonTransferred, d.Challengers[0]
			d.Challengers = d.Challengers[1:]
			tell(d.Holder.Provider, NoticeDeviceMove, "to "+d.Holder.Host, 0)
			if len(d.Challengers) == 0 {
				d.Status, d.Challengers, d.Deadline = Held, nil, now+canon.Time(q.Terms.Device)
			}
			break
		}
		d.Status, d.Reason, d.Deadline = Released, ReasonReleased, 0
	default:
		return step, fmt.Errorf("device %s: %s by host %s: %w", s.Device, s.Event, s.Host, errNotNow)
	}
	d.Updated = now
	due := d.Deadline
	if due != 0 && due <= e.Entry.Time {
		due = e.Entry.Time + 1
	}
	step.State, step.Status, step.Reason, step.Due = d, d.Status, d.Reason, due
	return step, nil
}
