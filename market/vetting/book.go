package vetting

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Book is everything that the entries of a log say of providers, folded in their order. It holds each entry to what the ones
// before it make of it: an event that does not fit a state, a standing that the registry does not give, an entry that does
// not follow from the event before it or is missing behind it. An engine that makes such entries and an auditor who reads
// them have the same book.
type Book struct {
	*Registry
	History

	certificates map[string]*folded
	devices      map[string]DeviceState
	facts        map[string]Facts
	seen         map[canon.Digest][]Sighting // by the body of the evidence
	hosts        map[string][]string         // certificates of each, in the order in which they were drafted
	owed         []owed
	words        []CarriedWord            // that were said, those of logs before too
	last         map[Subject]canon.Digest // commitment of the entry of each device's last event
	resumed      *CarriedItem             // that was taken last
	known        Known
}

// Known is what else the log says, and an observation is held against. A function that is nil asks for nothing.
type Known struct {
	// Appraised says what is wrong with what an observation calls the last appraisal of a host, by the parameters of its time.
	Appraised func(h Hardware, host string, q Parameters) error
	// Measured says what is wrong with what benchmarks are said to credit a host with at a time.
	Measured func(o Observed, host string, at canon.Time) error
	// Heard says what is wrong with when a host is said to have sent its last evidence, and what it is said to have shown.
	Heard func(o Observed, p Place) error
	// Seen says what is wrong with the evidence by which a device is said to be seen.
	Seen func(s Sighting) error
}

// folded is a certificate, and what is known of its place.
type folded struct {
	Certificate
	observed Observation
	digest   canon.Digest // body of the observation
	said     []Said
	last     canon.Digest // commitment of the entry of its last event
	drafted  bool         // in this log
}

// Said is what a certificate says of the party from an entry on.
type Said struct {
	Index int64
	Party canon.Digest // of the canonical bytes of [Certificate.Party]
}

// owed is an entry that must be the next one.
type owed struct {
	ledger.Draft
	at canon.Time
	by int64
}

// NewBook returns an empty book. operator are the result keys of the log.
func NewBook(operator ledger.Signers, known Known) *Book {
	return &Book{
		Registry: NewRegistry(operator), certificates: map[string]*folded{}, devices: map[string]DeviceState{}, facts: map[string]Facts{},
		hosts: map[string][]string{}, seen: map[canon.Digest][]Sighting{}, last: map[Subject]canon.Digest{}, known: known,
	}
}

// Owes reports whether the event before must be followed by an entry that is not there yet.
func (b *Book) Owes() bool { return len(b.owed) > 0 }

// Missed takes note that another entry came where one was owed, and says which.
func (b *Book) Missed() error {
	o := b.owed[0]
	b.owed = nil
	return fmt.Errorf("entry %d must be followed by %s %s in stream %q, and is not", o.by, o.Kind, canon.Sum(o.Body).Short(), o.Stream)
}

// Add takes an entry of kind claim/v1, certificate/v1 or rules/v1, its place in the log and its commitment there. An entry that
// is refused changes nothing, but that nothing is owed any more.
func (b *Book) Add(index int64, commitment canon.Digest, e ledger.Event) error {
	var missed error
	due := false
	if b.Owes() {
		if due = b.owed[0].is(e); due {
			b.owed = b.owed[1:]
		} else {
			missed = b.Missed()
		}
	}
	if e.Entry.Kind == ledger.KindRules || e.Entry.Kind == ledger.KindClaim {
		return errors.Join(missed, b.word(e))
	}
	body, err := ParseBody(e.Entry, e.Body)
	if err != nil {
		return errors.Join(missed, err)
	}
	var drafts []ledger.Draft
	switch {
	case body.Act != nil:
		drafts, err = b.act(index, commitment, *body.Act, e)
	case body.Sighting != nil:
		drafts, err = b.see(commitment, *body.Sighting, e)
	case body.Facts != nil:
		b.facts[body.Facts.Provider] = *body.Facts
	case body.Observation != nil:
		err = b.observe(*body.Observation, e)
	case !due:
		err = errors.New("notice: no event calls for it")
	}
	for _, d := range drafts {
		b.owed = append(b.owed, owed{d, e.Entry.Time, index})
	}
	return errors.Join(missed, err)
}

// word takes what an issuer says, or the operator's parameters.
func (b *Book) word(e ledger.Event) (err error) {
	if e.Entry.Kind == ledger.KindRules {
		err = b.History.Add(e)
	} else {
		err = b.Registry.Add(e)
	}
	if err == nil {
		b.words = append(b.words, CarriedWord{e.Entry.Kind, e.Entry.Body, e.Entry.Time})
	}
	return err
}

func (o owed) is(e ledger.Event) bool {
	return e.Entry.Kind == o.Kind && e.Entry.Stream == o.Stream && e.Entry.Time == o.at && bytes.Equal(e.Body, o.Body) && slices.Equal(e.Entry.Refs, o.Refs)
}

// act applies an act. A standing that it carries must be the registry's, over what was observed last.
func (b *Book) act(index int64, commitment canon.Digest, a Act, e ledger.Event) ([]ledger.Draft, error) {
	f := b.certificates[a.Certificate]
	if f == nil {
		f = &folded{}
	}
	if a.Act == ActDraft {
		if of := b.hosts[a.Place.Host]; len(of) > 0 && !b.certificates[of[len(of)-1]].Ended() {
			return nil, fmt.Errorf("certificate %s: host %s has certificate %s, which has not ended", a.Certificate, a.Place.Host, of[len(of)-1])
		}
	}
	step, err := ledger.Machine[Certificate](b.Certify).Apply(f.Certificate, e)
	if err != nil {
		return nil, err
	}
	if a.Standing.At != 0 {
		if err := b.standing(a.Standing, f, e); err != nil {
			return nil, fmt.Errorf("certificate %s: %s: %w", a.Certificate, a.Act, err)
		}
	} else if len(e.Entry.Refs) != 0 {
		return nil, fmt.Errorf("certificate %s: %s: rests on something, and has no standing", a.Certificate, a.Act)
	}
	f.Certificate, f.last, f.drafted = step.State, commitment, f.drafted || a.Act == ActDraft
	b.certificates[a.Certificate] = f
	if a.Act == ActDraft && a.Place.Host != "" {
		b.hosts[a.Place.Host] = append(b.hosts[a.Place.Host], a.Certificate)
	}
	party, err := f.Party().Canonical()
	if err != nil {
		return nil, err
	}
	if digest := canon.Sum(party); len(f.said) == 0 || f.said[len(f.said)-1].Party != digest {
		f.said = append(f.said, Said{index, digest})
	}
	return step.Drafts, nil
}

func (b *Book) standing(got Standing, f *folded, e ledger.Event) error {
	if f.digest.IsZero() || len(e.Entry.Refs) != 1 || e.Entry.Refs[0] != f.digest {
		return errors.New("it does not rest on what was observed last")
	}
	if got.At != e.Entry.Time {
		return fmt.Errorf("a standing of %s in an entry of %s", got.At, e.Entry.Time)
	}
	want := b.Stand(f.Place, f.Assertions, f.observed.Observed, b.At(got.At), got.At)
	was, err1 := canon.Marshal(got)
	is, err2 := canon.Marshal(want)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !bytes.Equal(was, is) {
		return fmt.Errorf("differs: standing logged with tier %s, recomputed %s", word(got.Tier), word(want.Tier))
	}
	return nil
}

func word(tier string) string {
	if tier == "" {
		return "none"
	}
	return tier
}

func (b *Book) see(commitment canon.Digest, s Sighting, e ledger.Event) ([]ledger.Draft, error) {
	state := b.devices[s.Device]
	if state.Status == Released {
		state = DeviceState{}
	}
	step, err := ledger.Machine[DeviceState](b.Hold).Apply(state, e)
	if err == nil && s.Event == DeviceSeen && b.known.Seen != nil {
		err = b.known.Seen(s)
	}
	if err != nil {
		return nil, err
	}
	b.devices[s.Device] = step.State
	b.last[Subject{UnitDevice, s.Device}] = commitment
	if s.Event == DeviceSeen {
		b.seen[s.Evidence] = append(b.seen[s.Evidence], s)
	}
	return step.Drafts, nil
}

// observe takes what was observed of a place, and holds what the log itself says against it: what the operator found out
// about the provider, which devices others hold, the last appraisal of the host, its benchmarks, its last evidence and the
// devices in it. Counts and witnesses are the operator's word.
func (b *Book) observe(o Observation, e ledger.Event) error {
	f := b.certificates[o.Certificate]
	if f == nil {
		return fmt.Errorf("observation of certificate %.80q, which nobody has drafted", o.Certificate)
	}
	if want := ledger.ProviderStream(f.Place.Provider); e.Entry.Stream != want || o.At != e.Entry.Time {
		return fmt.Errorf("certificate %s: observed %s in an entry of stream %q at %s", o.Certificate, o.At, e.Entry.Stream, e.Entry.Time)
	}
	facts := b.facts[f.Place.Provider]
	contested := b.Contested(f.Place)
	var err error
	switch got := o.Observed; {
	case got.Stake != facts.Stake || got.ContactHours != facts.ContactHours:
		err = errors.New("observed otherwise of the provider than the entry before says")
	case !slices.Equal(got.Contested, contested):
		err = fmt.Errorf("observed %v as contested, the entries before say %v", got.Contested, contested)
	case b.known.Appraised != nil:
		err = b.known.Appraised(got.Hardware, f.Place.Host, b.At(o.At))
	}
	if err == nil && b.known.Measured != nil {
		err = b.known.Measured(o.Observed, f.Place.Host, o.At)
	}
	if err == nil && b.known.Heard != nil {
		err = b.known.Heard(o.Observed, f.Place)
	}
	if err != nil {
		return fmt.Errorf("certificate %s: %w", o.Certificate, err)
	}
	f.observed, f.digest = o, e.Entry.Body
	return nil
}

// Contested returns the devices of a place that another host holds, in the order of the place.
func (b *Book) Contested(p Place) (ids []string) {
	for _, d := range p.Devices {
		if b.devices[d.ID].ContestedBy(p.Host) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Seen returns the sightings that rest on evidence, by its body.
func (b *Book) Seen(evidence canon.Digest) []Sighting { return b.seen[evidence] }

// Certificate returns a certificate as it stands, and false where nobody drafted it.
func (b *Book) Certificate(id string) (Certificate, bool) {
	f := b.certificates[id]
	if f == nil {
		return Certificate{}, false
	}
	return f.Certificate, true
}

// Certificates returns the ids of all certificates, ordered.
func (b *Book) Certificates() (ids []string) {
	for id := range b.certificates {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Drafted returns the ids of the certificates that were drafted in this log, and not in one before it, ordered.
func (b *Book) Drafted() (ids []string) {
	for id, f := range b.certificates {
		if f.drafted {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Device returns the state of a device's identity; the zero state: nobody has seen it.
func (b *Book) Device(id string) DeviceState { return b.devices[id] }

// PartyBefore returns what the certificate of a host said of the party before an entry: a digest, and none where the host
// had no certificate. A host's certificate is the one that was drafted last.
func (b *Book) PartyBefore(host string, index int64) (party canon.Digest, ok bool) {
	of := b.hosts[host]
	for n := len(of) - 1; n >= 0; n-- {
		said := b.certificates[of[n]].said
		if i, _ := slices.BinarySearchFunc(said, index, func(s Said, index int64) int { return cmp.Compare(s.Index, index) }); i > 0 {
			return said[i-1].Party, true
		}
	}
	return canon.Digest{}, false
}

// Axis reads the hardware axis off an appraisal of an instant, as an observation names it.
func Axis(claims claim.Set, at canon.Time, body canon.Digest, q Parameters) Hardware {
	h := ReadHardware(claims, at, q)
	h.Evidence = body
	return h
}
