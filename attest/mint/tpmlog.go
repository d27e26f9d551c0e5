package mint

import (
	"encoding/binary"
	"unicode/utf16"

	"github.com/assay-network/assay/attest/eventlog"
)

// EventLog is a TCG log under way: what somebody writes down, whether or not it was measured.
type EventLog struct {
	banks []eventlog.Algorithm // nil: the legacy format
	data  []byte
}

// NewEventLog returns an empty log with digests of banks; without any, one of the legacy format, which has SHA-1 alone.
func NewEventLog(banks ...eventlog.Algorithm) EventLog {
	l := EventLog{banks: banks}
	if banks == nil {
		return l
	}
	le := binary.LittleEndian
	id := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 0, 2)
	id = le.AppendUint32(id, uint32(len(banks)))
	for _, a := range banks {
		id = le.AppendUint16(le.AppendUint16(id, uint16(a)), uint16(a.Size()))
	}
	l.legacyHead(0, eventlog.NoAction, make([]byte, eventlog.SHA1.Size()))
	l.sized(append(id, 0))
	return l
}

// Bytes returns the log.
func (l *EventLog) Bytes() []byte { return l.data }

// Add appends an event; measured is what its digests are of.
func (l *EventLog) Add(register int, typ eventlog.Type, data, measured []byte) {
	if l.banks == nil {
		l.legacyHead(register, typ, sum(eventlog.SHA1, measured))
		l.sized(data)
		return
	}
	digests := map[eventlog.Algorithm][]byte{}
	for _, a := range l.banks {
		digests[a] = sum(a, measured)
	}
	l.AddDigests(register, typ, data, digests)
}

// AddDigests appends an event with digests of the caller's; a bank without one is left out.
func (l *EventLog) AddDigests(register int, typ eventlog.Type, data []byte, digests map[eventlog.Algorithm][]byte) {
	le := binary.LittleEndian
	l.data = le.AppendUint32(le.AppendUint32(l.data, uint32(register)), uint32(typ))
	l.data = le.AppendUint32(l.data, uint32(len(digests)))
	for _, a := range l.banks {
		if d := digests[a]; d != nil {
			l.data = append(le.AppendUint16(l.data, uint16(a)), d...)
		}
	}
	l.sized(data)
}

// Startup appends the event that names the locality of TPM2_Startup. It is not measured.
func (l *EventLog) Startup(locality byte) {
	data := append([]byte("StartupLocality\x00"), locality)
	if l.banks == nil {
		l.legacyHead(0, eventlog.NoAction, make([]byte, eventlog.SHA1.Size()))
		l.sized(data)
		return
	}
	digests := map[eventlog.Algorithm][]byte{}
	for _, a := range l.banks {
		digests[a] = make([]byte, a.Size())
	}
	l.AddDigests(0, eventlog.NoAction, data, digests)
}

// Pad appends FFh, as a CCEL has it, up to a size.
func (l *EventLog) Pad(size int) {
	for len(l.data) < size {
		l.data = append(l.data, 0xff)
	}
}

func (l *EventLog) legacyHead(register int, typ eventlog.Type, digest []byte) {
	le := binary.LittleEndian
	l.data = append(le.AppendUint32(le.AppendUint32(l.data, uint32(register)), uint32(typ)), digest...)
}

func (l *EventLog) sized(data []byte) {
	l.data = append(binary.LittleEndian.AppendUint32(l.data, uint32(len(data))), data...)
}

// Variable encodes UEFI_VARIABLE_DATA, as boot policy is measured.
func Variable(name string, data []byte) []byte {
	le := binary.LittleEndian
	text := utf16.Encode([]rune(name))
	b := le.AppendUint64(le.AppendUint64(make([]byte, 16), uint64(len(text))), uint64(len(data)))
	for _, c := range text {
		b = le.AppendUint16(b, c)
	}
	return append(b, data...)
}
