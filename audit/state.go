package audit

import (
	"bytes"
	"context"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// StateType is the type of the state file.
const StateType = "assay/audit-state/v1"

// State is what an auditor believed of a log when he last replayed it: whom he trusted, and the checkpoint. A later replay
// that begins with it trusts the same keys, and sees a log that does not go on from there.
type State struct {
	Type       string `json:"type"`
	Checkpoint string `json:"checkpoint"` // note
	Trust      Trust  `json:"trust"`
}

// ParseState reads a state file. It believes it: the file is the auditor's own.
func ParseState(data []byte) (State, error) {
	var s State
	if err := canon.Unmarshal(bytes.TrimSuffix(data, []byte("\n")), &s); err != nil {
		return s, fmt.Errorf("state: %w", err)
	}
	if s.Type != StateType {
		return s, fmt.Errorf("state: type %.80q is not known to this build, want %q", s.Type, StateType)
	}
	if _, err := ParseTrust("trust", s.Trust.Marshal()); err != nil {
		return s, fmt.Errorf("state: %w", err)
	}
	if _, err := ledger.ReadCheckpoint([]byte(s.Checkpoint)); err != nil {
		return s, fmt.Errorf("state: %w", err)
	}
	return s, nil
}

// Marshal writes the state file.
func (s State) Marshal() ([]byte, error) {
	data, err := canon.Marshal(s)
	return append(data, '\n'), err
}

// Continue follows the log of a source from a state on; the zero state begins with trust. It is for a source that was
// replayed and found equal by that trust, and takes the log's keys from what was found: it checks the checkpoint's signature and that the log goes on from the state's, and nothing
// else. A *[ledger.Fork] says that it does not, and holds both notes.
//
// Where the state is of a log that was closed, before is asked for that log and those between, by origin.
func Continue(ctx context.Context, s State, trust Trust, found Report, src ledger.Source, before func(context.Context, string) (ledger.Source, error)) (State, error) {
	next, err := src.Checkpoint(ctx)
	if err != nil {
		return State{}, err
	}
	var logs []string
	for _, k := range found.Keys {
		if k.VKey != "" {
			logs = append(logs, k.VKey)
		}
	}
	chain := func(ctx context.Context) (ledger.Chain, error) {
		keys, err := FirstKeys(ctx, src)
		return ledger.Chain{Keys: keys, Log: before}, err
	}
	if _, err := (ledger.Follower{Logs: logs, Chain: chain}).Follow(ctx, src, []byte(s.Checkpoint), next, 0); err != nil {
		return State{}, err
	}
	return State{StateType, string(next), trust}, nil
}
