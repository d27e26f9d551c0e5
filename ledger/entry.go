package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// EntryType is the type of the entry document.
const EntryType = "assay/entry/v1"

// Entry kinds. The kind says what the body is; FORMAT.md has the list.
const (
	KindKeyset     = "keyset/v1"
	KindReference  = "reference/v1"
	KindPolicy     = "policy/v1"
	KindCollateral = "collateral/v1"
	KindChallenge  = "challenge/v1"
	KindEvidence   = "evidence/v1"
	KindAppraisal  = "appraisal/v1"
	KindVerdict    = "verdict/v1"
	KindEnrolment  = "enrolment/v1"
	KindEngine     = "engine/v1"
	KindErasure    = "erasure/v1"
	KindHeads      = "heads/v1"
	KindBenchmark  = "benchmark/v1"

	KindClaim       = "claim/v1"       // what an issuer says of a party, a place or a device, or takes back
	KindCertificate = "certificate/v1" // what happens to a provider's certificates and devices
	KindRules       = "rules/v1"       // the operator's parameters
	KindCarried     = "carried/v1"     // what stood of the three at the end of the log before
)

// Streams. Evidence stands in the stream of its node, see [NodeStream], claims in that of their issuer, and certificates in
// that of the provider.
const (
	StreamServer   = "server"   // what the operator does
	StreamVerifier = "verifier" // what the verifier does
	nodePrefix     = "node:"
	issuerPrefix   = "issuer:"
	providerPrefix = "provider:"
)

// NodeStream returns the stream of a node's submissions.
func NodeStream(id string) string { return nodePrefix + id }

// IssuerStream returns the stream of what an issuer says.
func IssuerStream(id string) string { return issuerPrefix + id }

// ProviderStream returns the stream of what happens to a provider.
func ProviderStream(id string) string { return providerPrefix + id }

// streamOf says whose act each kind is. A kind that stands elsewhere is refused, so that no actor can speak for another.
var streamOf = map[string]string{
	KindKeyset:     StreamServer,
	KindReference:  StreamServer,
	KindPolicy:     StreamServer,
	KindCollateral: StreamServer,
	KindEngine:     StreamServer,
	KindErasure:    StreamServer,
	KindHeads:      StreamServer,
	KindChallenge:  StreamVerifier,
	KindAppraisal:  StreamVerifier,
	KindVerdict:    StreamVerifier,
	KindEnrolment:  StreamVerifier,
	KindBenchmark:  StreamVerifier,
	KindEvidence:   nodePrefix,

	KindClaim:       issuerPrefix,
	KindCertificate: providerPrefix,
	KindRules:       StreamServer,
	KindCarried:     StreamServer,
}

// stands reports whether a stream is that of an owner, or one of a kind of owners, whose prefix ends with a colon.
func stands(stream, owner string) bool {
	if strings.HasSuffix(owner, ":") {
		return strings.HasPrefix(stream, owner) && len(stream) > len(owner)
	}
	return stream == owner
}

// Kinds returns the kinds of entries that this build knows, ordered.
func Kinds() []string { return slices.Sorted(maps.Keys(streamOf)) }

// Entry records one act of one actor. What was done is the body, a blob that the entry names.
type Entry struct {
	Type     string         `json:"type"`
	Kind     string         `json:"kind"`
	Stream   string         `json:"stream"`
	Sequence int64          `json:"sequence"`          // place in the stream, from 0, without gaps
	Previous canon.Digest   `json:"previous,omitzero"` // digest of the stream's previous entry; absent in the first
	Time     canon.Time     `json:"time"`              // of the server's clock
	Body     canon.Digest   `json:"body"`              // of the blob that holds what was done
	Refs     []canon.Digest `json:"refs"`              // bodies that this one rests on
}

// Validate checks the shape of an entry: what can be said of it alone. Whether it continues its stream is [Tail.Extend]'s
// question; whether its body and refs exist is the audit's.
func (e Entry) Validate() error {
	owner, known := streamOf[e.Kind]
	switch {
	case e.Type != EntryType:
		return fmt.Errorf("entry: type %.80q is not known to this build, want %q", e.Type, EntryType)
	case !known:
		return fmt.Errorf("entry: kind %.80q is not known to this build", e.Kind)
	case len(e.Stream) > MaxStream:
		return fmt.Errorf("entry: stream name of %d bytes, at most %d", len(e.Stream), MaxStream)
	case !stands(e.Stream, owner):
		return fmt.Errorf("entry: %s in stream %q, want %q", e.Kind, e.Stream, owner)
	case e.Sequence < 0 || e.Sequence > canon.MaxInt:
		return fmt.Errorf("entry: sequence %d out of range", e.Sequence)
	case e.Previous.IsZero() != (e.Sequence == 0):
		return fmt.Errorf("entry: sequence %d: all but the first entry of a stream name the previous one", e.Sequence)
	case e.Time <= 0:
		return errors.New("entry: no time")
	case e.Body.IsZero():
		return errors.New("entry: no body")
	case len(e.Refs) > MaxRefs:
		return fmt.Errorf("entry: %d refs, at most %d", len(e.Refs), MaxRefs)
	}
	for i, ref := range e.Refs {
		if ref.IsZero() {
			return fmt.Errorf("entry: ref %d is empty", i)
		}
	}
	return nil
}

// Canonical returns the entry's bytes. It refuses an entry that [Entry.Validate] refuses.
func (e Entry) Canonical() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return canon.Marshal(e)
}

// ParseEntry reads the canonical bytes of an entry.
func ParseEntry(data []byte) (Entry, error) {
	var e Entry
	if err := canon.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("entry: %w", err)
	}
	return e, e.Validate()
}

// Tail is the end of a stream: what its next entry has to carry. The zero Tail is the end of an empty stream.
type Tail struct {
	Next int64        // sequence of the next entry
	Last canon.Digest // digest of the last entry's canonical bytes
}

// Extend checks that e is the next entry of the stream and returns the new end.
func (t Tail) Extend(e Entry) (Tail, error) {
	if e.Sequence != t.Next {
		return t, fmt.Errorf("stream %s: entry %d where %d was due", e.Stream, e.Sequence, t.Next)
	}
	if e.Previous != t.Last {
		return t, fmt.Errorf("stream %s: entry %d follows %s, the stream ends with %s", e.Stream, e.Sequence, e.Previous.Short(), t.Last.Short())
	}
	data, err := e.Canonical()
	if err != nil {
		return t, err
	}
	return Tail{t.Next + 1, canon.Sum(data)}, nil
}
