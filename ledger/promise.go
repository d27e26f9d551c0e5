package ledger

import (
	"errors"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// PromiseType is the type of the promise document and the payload type of its envelope.
const PromiseType = "assay/promise/v1"

// PublishWithin is the time in seconds from a submission to the checkpoint that holds it.
const PublishWithin = 60

// Promise is what a submitter gets at once: the log's word that the entry will stand in it. An entry is withheld when a
// checkpoint made after PublishBy lacks its commitment.
type Promise struct {
	Type       string       `json:"type"`
	Origin     string       `json:"origin"`     // of the log
	Commitment canon.Digest `json:"commitment"` // of the leaf
	Stream     string       `json:"stream"`
	Sequence   int64        `json:"sequence"`
	Previous   canon.Digest `json:"previous,omitzero"` // digest of the stream's previous entry; absent in the first
	Received   canon.Time   `json:"received"`
	PublishBy  canon.Time   `json:"publish_by"`
}

// NewPromise returns the promise for an entry, received at the entry's time.
func NewPromise(origin string, commitment canon.Digest, e Entry) Promise {
	return Promise{PromiseType, origin, commitment, e.Stream, e.Sequence, e.Previous, e.Time, e.Time + PublishWithin}
}

// Validate checks the shape of a promise.
func (p Promise) Validate() error {
	switch {
	case p.Type != PromiseType:
		return fmt.Errorf("promise: type %.80q is not known to this build, want %q", p.Type, PromiseType)
	case p.Origin == "" || len(p.Origin) > MaxOrigin:
		return fmt.Errorf("promise: origin of %d bytes, want 1 to %d", len(p.Origin), MaxOrigin)
	case p.Stream == "" || len(p.Stream) > MaxStream:
		return fmt.Errorf("promise: stream name of %d bytes, want 1 to %d", len(p.Stream), MaxStream)
	case p.Sequence < 0 || p.Previous.IsZero() != (p.Sequence == 0):
		return fmt.Errorf("promise: sequence %d: all but the first entry of a stream name the previous one", p.Sequence)
	case p.Commitment.IsZero():
		return errors.New("promise: no commitment")
	case p.Received <= 0 || p.PublishBy != p.Received+PublishWithin:
		return fmt.Errorf("promise: publish_by is not %d s after received", PublishWithin)
	}
	return nil
}

// SealPromise signs a promise.
func SealPromise(p Promise, key Signer) (Envelope, error) {
	if err := p.Validate(); err != nil {
		return Envelope{}, err
	}
	payload, err := canon.Marshal(p)
	if err != nil {
		return Envelope{}, err
	}
	return Seal(PromiseType, payload, key)
}

// Signers are keys that signatures are checked with: a [Keyset] or a [KeyHistory].
type Signers interface {
	SignerOf(e Envelope, use string, at canon.Time) (Key, error)
}

// OpenPromise reads a promise, which a promise key signed that stood when the submission was received. It does not tell
// whether the promise was kept.
func OpenPromise(e Envelope, keys Signers) (Promise, error) {
	p, err := ReadPromise(e)
	if err != nil {
		return Promise{}, err
	}
	if _, err := keys.SignerOf(e, UsePromise, p.Received); err != nil {
		return Promise{}, fmt.Errorf("promise: %w", err)
	}
	return p, nil
}

// ReadPromise reads a promise and checks no signature: it is for who has checked it before.
func ReadPromise(e Envelope) (Promise, error) {
	if e.PayloadType != PromiseType {
		return Promise{}, fmt.Errorf("promise: payload type %.80q is not known to this build, want %q", e.PayloadType, PromiseType)
	}
	var p Promise
	if err := canon.Unmarshal(e.Payload, &p); err != nil {
		return Promise{}, fmt.Errorf("promise: %w", err)
	}
	return p, p.Validate()
}
