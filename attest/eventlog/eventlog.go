// Package eventlog reads the logs that say what went into measured registers: TCG event logs (TCG PC Client Platform
// Firmware Profile, section 10), as TPMs have them and, as CCEL, confidential guests; and the measurement lists of
// Linux IMA.
//
// A log is the word of whoever kept it. It is believed as far as it replays: [Log.Replay] computes what each register
// must hold if the log is whole and in order, and the caller compares that with registers that a quote signs. A log that
// replays can still lie: neither the type of an event nor, for most types, its data is covered by what was extended.
// [Log.Facts] therefore tells only what follows from data that hashes to the event's digest, and from its place.
//
// The reader is strict about bounds and lax about meaning: events that this package does not know are kept and replayed.
// Nothing is read beyond the bytes given, and no size that a log claims makes it allocate; whoever reads a log from a
// device must read it to its end first.
//
// It does not check who may extend which register: after the firmware has handed over, an operating system can extend
// most of them with what it likes. It does not parse certificates, boot variables or device paths.
package eventlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 1

// Kind says whose registers a log speaks of. The zero Kind is invalid.
type Kind uint8

const (
	PCRs  Kind = iota + 1 // of a TPM: registers 0 to 23
	RTMRs                 // of a TDX guest, a CCEL: 0 is MRTD, 1 to 4 are RTMR0 to RTMR3; may be padded with FFh
)

// Log is a log that was read. Its events share the bytes that it was read from.
type Log struct {
	Kind   Kind
	Legacy bool        // SHA-1 alone, of the time of TPM 1.2: no Spec ID event
	Banks  []Algorithm // that the log declares, in its order
	Events []Event     // without the Spec ID event
	Padded int         // bytes of padding behind the last event
}

// Event is one line of a log. Only its digests are covered by registers.
type Event struct {
	Number   int // from 0, without the Spec ID event
	Offset   int // byte of the log
	Register int // PCR number, or RTMRs: index of the measurement register; [NoRegister] for some EV_NO_ACTION
	Type     Type
	Digests  []Digest
	Data     []byte
}

// NoRegister is the index of an event that is for no register.
const NoRegister = -1

// Digest is what was extended into one bank.
type Digest struct {
	Algorithm Algorithm
	Value     []byte
}

// Digest returns the event's digest for a bank, or nil.
func (e Event) Digest(a Algorithm) []byte {
	for _, d := range e.Digests {
		if d.Algorithm == a {
			return d.Value
		}
	}
	return nil
}

var le = binary.LittleEndian

// specID begins the data of the first event of a crypto-agile log, with its NUL.
const specID = "Spec ID Event03\x00"

// Parse reads a log. The error says where the bytes are of no log; what a log means, it does not judge.
func Parse(data []byte, kind Kind) (Log, error) {
	l := Log{Kind: kind}
	switch {
	case len(data) == 0:
		return l, fmt.Errorf("parse event log: it is empty")
	case len(data) > MaxLog:
		return l, fmt.Errorf("parse event log: %d bytes, at most %d", len(data), MaxLog)
	}
	r := reader{data: data}
	first, err := r.legacyEvent(kind)
	if err != nil {
		return l, fmt.Errorf("parse event log: %w", err)
	}
	next := r.agileEvent
	if first.Type == NoAction && bytes.HasPrefix(first.Data, []byte(specID)) {
		if l.Banks, err = parseSpecID(first.Data); err != nil {
			return l, fmt.Errorf("parse event log: %w", err)
		}
		r.banks = l.Banks
	} else {
		l.Legacy, l.Banks, next = true, []Algorithm{SHA1}, r.legacyEvent
		l.Events = append(l.Events, first)
	}
	for len(r.data) > r.at {
		if kind == RTMRs && onlyPadding(data[r.at:]) {
			l.Padded = len(data) - r.at
			break
		}
		if len(l.Events) == MaxEvents {
			return l, fmt.Errorf("parse event log: more than %d events", MaxEvents)
		}
		e, err := next(kind)
		if err != nil {
			return l, fmt.Errorf("parse event log: event %d: %w", len(l.Events), err)
		}
		e.Number = len(l.Events)
		l.Events = append(l.Events, e)
	}
	return l, nil
}

func onlyPadding(b []byte) bool {
	return b[0] == 0xff && !slices.ContainsFunc(b, func(x byte) bool { return x != 0xff })
}

// parseSpecID reads TCG_EfiSpecIDEvent (section 10.4.5.1): which banks the log has, and how long their digests are.
func parseSpecID(data []byte) (banks []Algorithm, err error) {
	r := reader{data: data, at: len(specID)}
	r.take(4 + 1 + 1 + 1 + 1) // platformClass, minor, major, errata, uintnSize
	n := r.u32()
	if r.failed {
		return nil, fmt.Errorf("Spec ID event: %d bytes are too few", len(data))
	}
	if n == 0 || n > maxBanks {
		return nil, fmt.Errorf("Spec ID event: %d algorithms, want 1 to %d", n, maxBanks)
	}
	for range n {
		a, size := Algorithm(r.u16()), int(r.u16())
		switch {
		case r.failed:
			return nil, fmt.Errorf("Spec ID event: %d algorithms do not fit", n)
		case a.Size() == 0:
			return nil, fmt.Errorf("Spec ID event: algorithm 0x%04x is not known to this build", uint16(a))
		case a.Size() != size:
			return nil, fmt.Errorf("Spec ID event: %s digests of %d bytes, want %d", a, size, a.Size())
		case slices.Contains(banks, a):
			return nil, fmt.Errorf("Spec ID event: %s twice", a)
		}
		banks = append(banks, a)
	}
	vendor := r.take(1)
	if r.failed || len(r.data)-r.at != int(vendor[0]) {
		return nil, fmt.Errorf("Spec ID event: its vendor information does not end where it does")
	}
	return banks, nil
}

// reader takes little-endian fields. Once a field does not fit, it yields zeros and failed stays set.
type reader struct {
	data   []byte
	at     int
	failed bool
	banks  []Algorithm
}

func (r *reader) take(n int) []byte {
	if r.failed || n > len(r.data)-r.at {
		r.failed = true
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at : r.at]
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

// legacyEvent reads TCG_PCClientPCREvent: every event of a legacy log, and the first of a crypto-agile one.
func (r *reader) legacyEvent(kind Kind) (Event, error) {
	e, err := r.head(kind)
	if err != nil {
		return e, err
	}
	value := r.take(SHA1.Size())
	if r.failed {
		return e, fmt.Errorf("offset %d: cut off in its digest", e.Offset)
	}
	e.Digests = []Digest{{SHA1, value}}
	return e, r.data4(&e)
}

// agileEvent reads TCG_PCR_EVENT2.
func (r *reader) agileEvent(kind Kind) (Event, error) {
	e, err := r.head(kind)
	if err != nil {
		return e, err
	}
	n := r.u32()
	if r.failed || n > uint32(len(r.banks)) {
		return e, fmt.Errorf("offset %d: %d digests, the log declares %d banks", e.Offset, n, len(r.banks))
	}
	e.Digests = make([]Digest, 0, n)
	for range n {
		a := Algorithm(r.u16())
		switch {
		case r.failed:
			return e, fmt.Errorf("offset %d: cut off in its digests", e.Offset)
		case !slices.Contains(r.banks, a):
			return e, fmt.Errorf("offset %d: a digest of %s, which the log does not declare", e.Offset, a)
		case e.Digest(a) != nil:
			return e, fmt.Errorf("offset %d: two %s digests", e.Offset, a)
		}
		value := r.take(a.Size())
		if r.failed {
			return e, fmt.Errorf("offset %d: cut off in its digests", e.Offset)
		}
		e.Digests = append(e.Digests, Digest{a, value})
	}
	return e, r.data4(&e)
}

func (r *reader) head(kind Kind) (Event, error) {
	e := Event{Offset: r.at}
	register, typ := r.u32(), r.u32()
	if r.failed {
		return e, fmt.Errorf("offset %d: cut off in its head", e.Offset)
	}
	e.Type = Type(typ)
	last := uint32(lastPCR)
	if kind == RTMRs {
		last = lastMR
	}
	switch {
	case register <= last:
		e.Register = int(register)
	case e.Type == NoAction:
		e.Register = NoRegister
	default:
		return e, fmt.Errorf("offset %d: register %d, at most %d", e.Offset, register, last)
	}
	return e, nil
}

func (r *reader) data4(e *Event) error {
	size := r.u32()
	if r.failed || uint64(size) > uint64(len(r.data)-r.at) {
		return fmt.Errorf("offset %d: %d bytes of data, %d are left", e.Offset, size, len(r.data)-r.at)
	}
	e.Data = r.take(int(size))
	return nil
}
