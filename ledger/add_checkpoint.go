package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
)

// AddCheckpoint is what a log asks of a witness: to cosign a checkpoint that continues the one it cosigned last (C2SP
// tlog-witness, "add-checkpoint").
type AddCheckpoint struct {
	Old   int64          // size of the last checkpoint that the witness cosigned, as the log thinks
	Proof []canon.Digest // consistency from that size
	Note  []byte         // the checkpoint
}

// Marshal writes the body of the request.
func (a AddCheckpoint) Marshal() []byte {
	b := append([]byte("old "), strconv.AppendInt(nil, a.Old, 10)...)
	b = append(b, '\n')
	for _, h := range a.Proof {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), a.Note...)
}

// ParseAddCheckpoint reads the body of a request, and no other spelling of it. It checks no signature and no proof.
func ParseAddCheckpoint(body []byte) (AddCheckpoint, error) {
	var a AddCheckpoint
	if len(body) > MaxAddCheckpoint {
		return a, fmt.Errorf("add-checkpoint: %d bytes, at most %d", len(body), MaxAddCheckpoint)
	}
	head, rest, found := bytes.Cut(body, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	size, isOld := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseInt(size, 10, 64)
	switch {
	case !found:
		return a, errors.New("add-checkpoint: no empty line between proof and checkpoint")
	case !isOld || err != nil || old < 0 || old > canon.MaxInt || strconv.FormatInt(old, 10) != size:
		return a, fmt.Errorf("add-checkpoint: first line %.80q: want old SIZE", lines[0])
	case len(lines)-1 > maxWitnessProof:
		return a, fmt.Errorf("add-checkpoint: %d proof lines, at most %d", len(lines)-1, maxWitnessProof)
	}
	a.Old, a.Note = old, rest
	for i, line := range lines[1:] {
		raw, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(raw) != len(canon.Digest{}) {
			return a, fmt.Errorf("add-checkpoint: proof line %d: want a hash in base64", i+1)
		}
		a.Proof = append(a.Proof, canon.Digest(raw))
	}
	if _, err := ReadCheckpoint(a.Note); err != nil {
		return a, err
	}
	return a, nil
}

// maxWitnessProof is the greatest number of proof lines that the protocol allows.
const maxWitnessProof = 63

// Reasons for which a witness does not cosign. Each has a status of its own in the protocol.
var (
	ErrUnknownLog   = errors.New("the log is not known to this witness")
	ErrLogSignature = errors.New("not signed by a known key of the log")
	ErrOldSize      = errors.New("the old size is greater than the checkpoint's")
	ErrOtherSize    = errors.New("the witness cosigned a checkpoint of another size last")
	ErrOtherRoot    = errors.New("the witness cosigned another root of the same size")
	ErrInconsistent = errors.New("the proof does not lead from the checkpoint that the witness cosigned last")
)

// OpenFor finds the log of a request among the verifier keys that a witness knows, and checks its signature. One origin
// may have several keys. It does not look at history: see [AddCheckpoint.Continues].
func (a AddCheckpoint) OpenFor(logs []string) (Checkpoint, error) {
	c, err := ReadCheckpoint(a.Note)
	if err != nil {
		return Checkpoint{}, err
	}
	err = ErrUnknownLog
	for _, vkey := range logs {
		key, keyErr := note.NewVerifier(vkey)
		if keyErr != nil {
			return Checkpoint{}, fmt.Errorf("log key: %w", keyErr)
		}
		if key.Name() != c.Origin {
			continue
		}
		if c, openErr := OpenCheckpoint(a.Note, key); openErr == nil {
			return c, nil
		}
		err = ErrLogSignature
	}
	return Checkpoint{}, err
}

// Continues checks that a checkpoint whose signature was checked continues what the witness cosigned last; the zero Tree
// is nothing yet. What the witness has stored is what counts: the request says no more than from where its proof leads.
func (a AddCheckpoint) Continues(last Tree, c Checkpoint) error {
	switch {
	case a.Old > c.Size:
		return ErrOldSize
	case a.Old != last.Size:
		return ErrOtherSize
	case last.Size == 0 && len(a.Proof) > 0:
		return ErrInconsistent
	case last.Size == 0:
		// The first checkpoint of a log is believed. That of an empty log has one root.
		if c.Size == 0 && c.Tree != (Edge{}).Tree() {
			return ErrInconsistent
		}
		return nil
	case last.Size == c.Size && last.Root != c.Root:
		return ErrOtherRoot
	case (Consistency{last.Size, c.Size, a.Proof}).Verify(last, c.Tree) != nil:
		return ErrInconsistent
	}
	return nil
}
