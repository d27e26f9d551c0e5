package eventlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// dstackEvent is one event as dstack's guest agent writes it.
type dstackEvent struct {
	Register int    `json:"imr"` // RTMR
	Type     uint32 `json:"event_type"`
	Digest   string `json:"digest"` // SHA-384; lite logs leave out that of runtime events
	Name     string `json:"event"`
	Payload  string `json:"event_payload"` // hex; lite logs leave out that of boot events
}

// ParseDstack reads the event log of a TDX guest that runs dstack: a JSON array of events of its RTMRs. The digest of a
// runtime event is SHA-384 over its type (four bytes, little-endian), a colon, its name, a colon and its payload; one that
// is another is refused, since its name is then nobody's word. Such an event's data are name, colon and payload.
func ParseDstack(data []byte) (Log, error) {
	l := Log{Kind: RTMRs, Banks: []Algorithm{SHA384}}
	if len(data) > MaxLog {
		return l, fmt.Errorf("parse event log: %d bytes, at most %d", len(data), MaxLog)
	}
	malformed := errors.New("parse event log: it is not the JSON of a dstack log, with the members of that form, each once")
	h := SHA384.Hash().New()
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return l, malformed
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if i == MaxEvents {
			return l, fmt.Errorf("parse event log: more than %d events", MaxEvents)
		}
		var e dstackEvent
		if json.UnmarshalDecode(d, &e, json.RejectUnknownMembers(true)) != nil {
			return l, malformed
		}
		digest, err := hex.DecodeString(e.Digest)
		payload, err2 := hex.DecodeString(e.Payload)
		switch {
		case err != nil || err2 != nil:
			return l, fmt.Errorf("parse event log: event %d: digest or payload is not in hex", i)
		case e.Register < 0 || e.Register >= lastMR:
			return l, fmt.Errorf("parse event log: event %d: RTMR%d, at most RTMR%d", i, e.Register, lastMR-1)
		}
		event := Event{Number: i, Register: e.Register + 1, Type: Type(e.Type), Data: payload}
		if event.Type == DstackRuntime {
			named := append(append(le.AppendUint32(nil, e.Type), ":"+e.Name+":"...), payload...)
			h.Reset()
			h.Write(named)
			want := h.Sum(nil)
			event.Data = named[4+1:]
			if len(digest) > 0 && !bytes.Equal(digest, want) {
				return l, fmt.Errorf("parse event log: event %d: its digest is not of its name and payload", i)
			}
			digest = want
		}
		if len(digest) != SHA384.Size() {
			return l, fmt.Errorf("parse event log: event %d: a digest of %d bytes, want %d", i, len(digest), SHA384.Size())
		}
		event.Digests = []Digest{{SHA384, digest}}
		l.Events = append(l.Events, event)
	}
	if _, err := d.ReadToken(); err != nil {
		return l, malformed
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return l, malformed
	}
	if len(l.Events) == 0 {
		return l, errors.New("parse event log: it is empty")
	}
	return l, nil
}
