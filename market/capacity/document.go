package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/proofs"
)

// Types of documents.
const (
	RecordType  = "assay/benchmark/v1"
	OpeningType = "assay/benchmark-opening/v1"
)

// Record is what a log holds of a benchmark: one act of the verifier, in the order of the fields.
type Record struct {
	Type      string     `json:"type"`
	Challenge *Challenge `json:"challenge,omitzero"` // names seed, shape and instant
	Draw      *Draw      `json:"draw,omitzero"`      // has the commitments, and draws what it wants to see
	Result    *Result    `json:"result,omitzero"`    // has checked, or waits no longer
}

// Challenge asks one node for one chain.
type Challenge struct {
	Round   canon.Digest `json:"round"` // names all challenges of one instant
	Nodes   int          `json:"nodes"` // how many there are
	Node    string       `json:"node"`
	Seed    canon.Digest `json:"seed"` // 32 random bytes, which nobody has before Starts
	Shape   Shape        `json:"shape"`
	Starts  int64        `json:"starts_ms"`  // Unix time in milliseconds, of the server's clock: the measure begins, whenever the node asks
	Expires int64        `json:"expires_ms"` // after which commitments are late
}

// Draw says what came and when, and draws. It follows the commitments, so that nobody could know what it draws.
type Draw struct {
	Challenge canon.Digest `json:"challenge"`   // of its record
	Roots     canon.Digest `json:"roots"`       // of the commitments, 32 bytes for each step
	Received  int64        `json:"received_ms"` // Unix time in milliseconds, of the server's clock
	Seed      canon.Digest `json:"seed"`        // 32 random bytes
	Expires   int64        `json:"expires_ms"`  // after which an opening is late
}

// Result is what a benchmark came to.
type Result struct {
	Challenge canon.Digest `json:"challenge"`           // of its record
	Draw      canon.Digest `json:"draw,omitzero"`       // of its record; absent: no commitments came
	Opening   canon.Digest `json:"opening,omitzero"`    // absent: none came
	Rules     int          `json:"rules"`               // of this room
	Outcome   string       `json:"outcome"`             // measured, wrong or inconclusive
	Reason    string       `json:"reason,omitzero"`     // CODE: sentence; absent where measured
	Elapsed   int64        `json:"elapsed_ms,omitzero"` // from Starts to the commitments; absent: none came
	Score     int64        `json:"score,omitzero"`      // thousands of multiply-adds a second; where measured
	Memory    int64        `json:"memory,omitzero"`     // bytes that were filled; where measured
}

// short reports whether the chain was computed and opened, and was over too soon to be timed.
func (r Result) short() bool { return strings.HasPrefix(r.Reason, CodeShort+": ") }

// Outcomes. None of them refuses a node anything: a policy reads the claim that a measured one makes.
const (
	Measured     = "measured"     // the chain was computed, in this time
	Wrong        = "wrong"        // what was opened is not what follows from the challenge and the commitments
	Inconclusive = "inconclusive" // nothing is known: no answer, a late one, or one too short to time
)

// Opening shows what was drawn.
type Opening struct {
	Type    string       `json:"type"`
	Draw    canon.Digest `json:"draw"` // of its record
	Samples []Sample     `json:"samples"`
}

// Sample is a block of rows of one step, with what it was made of.
type Sample struct {
	Product  Block  `json:"product"`
	Previous *Block `json:"previous,omitzero"` // of the step before; absent at step 0
	Slot     *Block `json:"slot,omitzero"`     // of the step that wrote the slot; absent where none is read
}

// Block is a block of rows of a product, and its path to the root of its step.
type Block struct {
	Entries []byte         `json:"entries"` // row by row, 4 bytes each, little-endian
	Path    []canon.Digest `json:"path"`
}

// NewBlock returns the block that a host opens.
func NewBlock(product proofs.Matrix[int32], path []canon.Digest) *Block {
	if path == nil {
		path = []canon.Digest{}
	}
	return &Block{proofs.AppendEntries(nil, product.Data), path}
}

// Bytes returns the canonical bytes of the record and their digest, which names it.
func (r Record) Bytes() ([]byte, canon.Digest, error) {
	if err := r.Validate(); err != nil {
		return nil, canon.Digest{}, err
	}
	data, err := canon.Marshal(r)
	return data, canon.Sum(data), err
}

// ParseRecord reads the canonical bytes of a record.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	if len(data) > MaxDocument {
		return r, fmt.Errorf("benchmark: record of %d bytes, at most %d", len(data), MaxDocument)
	}
	if err := canon.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("benchmark: %w", err)
	}
	return r, r.Validate()
}

// Validate checks the form of the record.
func (r Record) Validate() error {
	acts := 0
	for _, there := range []bool{r.Challenge != nil, r.Draw != nil, r.Result != nil} {
		if there {
			acts++
		}
	}
	switch {
	case r.Type != RecordType:
		return fmt.Errorf("benchmark: type %.80q is not known to this build, want %q", r.Type, RecordType)
	case acts != 1:
		return errors.New("benchmark: want one of challenge, draw and result")
	case r.Challenge != nil:
		return r.Challenge.Validate()
	case r.Draw != nil:
		return r.Draw.validate()
	}
	return r.Result.validate()
}

// Validate checks the form of a challenge.
func (c Challenge) Validate() error {
	switch {
	case c.Round.IsZero() || c.Seed.IsZero():
		return errors.New("benchmark: a challenge has a round and a seed")
	case c.Nodes < 1 || c.Nodes > MaxNodes:
		return fmt.Errorf("benchmark: %d nodes at one instant, want 1 to %d", c.Nodes, MaxNodes)
	case c.Node == "" || len(c.Node) > MaxNode:
		return fmt.Errorf("benchmark: node of %d bytes, want 1 to %d", len(c.Node), MaxNode)
	case !isInstant(c.Starts) || !isInstant(c.Expires) || c.Expires <= c.Starts:
		return fmt.Errorf("benchmark: starts %d ms, expires %d ms", c.Starts, c.Expires)
	}
	return c.Shape.Validate()
}

func (d Draw) validate() error {
	switch {
	case d.Challenge.IsZero() || d.Roots.IsZero() || d.Seed.IsZero():
		return errors.New("benchmark: a draw has challenge, roots and seed")
	case !isInstant(d.Received) || !isInstant(d.Expires) || d.Expires <= d.Received:
		return fmt.Errorf("benchmark: received %d ms, expires %d ms", d.Received, d.Expires)
	}
	return nil
}

func (r Result) validate() error {
	code, _, ok := strings.Cut(r.Reason, ": ")
	switch {
	case r.Challenge.IsZero():
		return errors.New("benchmark: a result has a challenge")
	case r.Rules < 1:
		return fmt.Errorf("benchmark: rules %d", r.Rules)
	case !slices.Contains([]string{Measured, Wrong, Inconclusive}, r.Outcome):
		return fmt.Errorf("benchmark: outcome %.80q is not known to this build", r.Outcome)
	case (r.Outcome == Measured) != (r.Reason == "") || len(r.Reason) > MaxReason || r.Reason != "" && (!ok || code == ""):
		return fmt.Errorf("benchmark: outcome %s with the reason %.80q", r.Outcome, r.Reason)
	case (r.Outcome == Measured) != (r.Score > 0), (r.Outcome == Measured) != (r.Memory > 0):
		return errors.New("benchmark: score and memory are of what was measured")
	case r.Draw.IsZero() && (!r.Opening.IsZero() || r.Elapsed != 0), r.Elapsed < 0, r.Outcome != Inconclusive && r.Opening.IsZero():
		return errors.New("benchmark: commitments come before an opening, and without one nothing is known")
	}
	return nil
}

// isInstant bounds Unix times in milliseconds to what RFC 3339 can write, so that no sum of them overflows.
func isInstant(ms int64) bool { return ms > 0 && ms <= lastInstant }

const lastInstant = 253402300799_999 // 9999-12-31T23:59:59.999Z

// ParseOpening reads the canonical bytes of an opening.
func ParseOpening(data []byte) (Opening, error) {
	var o Opening
	if len(data) > MaxOpening {
		return o, fmt.Errorf("benchmark: opening of %d bytes, at most %d", len(data), MaxOpening)
	}
	if err := canon.Unmarshal(data, &o); err != nil {
		return Opening{}, fmt.Errorf("benchmark: opening: %w", err)
	}
	if o.Type != OpeningType {
		return Opening{}, fmt.Errorf("benchmark: type %.80q is not known to this build, want %q", o.Type, OpeningType)
	}
	return o, nil
}
