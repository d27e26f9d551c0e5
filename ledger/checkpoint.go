package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
)

// Checkpoint is the log's statement of one state. It is signed as a note (C2SP signed-note, tlog-checkpoint).
type Checkpoint struct {
	Origin string // the log's name
	Tree
}

// Text returns the checkpoint's three lines: origin, size, root.
func (c Checkpoint) Text() string {
	return string(log.Checkpoint{Origin: c.Origin, Size: uint64(c.Size), Hash: c.Root[:]}.Marshal())
}

// ParseCheckpoint reads the three lines that [Checkpoint.Text] writes, and no extension lines. It checks no signature:
// whoever needs to believe the checkpoint calls [OpenCheckpoint].
func ParseCheckpoint(text string) (Checkpoint, error) {
	var l log.Checkpoint
	if len(text) > MaxCheckpoint {
		return Checkpoint{}, fmt.Errorf("checkpoint: %d bytes, at most %d", len(text), MaxCheckpoint)
	}
	if _, err := l.Unmarshal([]byte(text)); err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	if l.Size > canon.MaxInt || len(l.Hash) != len(canon.Digest{}) || len(l.Origin) > MaxOrigin {
		return Checkpoint{}, errors.New("checkpoint: origin, size or root out of range")
	}
	c := Checkpoint{l.Origin, Tree{int64(l.Size), canon.Digest(l.Hash)}}
	if c.Text() != text {
		return Checkpoint{}, errors.New("checkpoint: want the three lines origin, size, root in their one spelling")
	}
	return c, nil
}

// SignCheckpoint returns the signed note of a checkpoint, with one line for each key. While one log key takes over from
// another, both sign: whoever knows either believes the note.
func SignCheckpoint(c Checkpoint, keys ...note.Signer) ([]byte, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("sign checkpoint of %q: no log key stands", c.Origin)
	}
	for _, key := range keys {
		if key.Name() != c.Origin {
			return nil, fmt.Errorf("sign checkpoint of %q: the key is named %q", c.Origin, key.Name())
		}
	}
	return note.Sign(&note.Note{Text: c.Text()}, keys...)
}

// OpenCheckpoint reads a signed checkpoint of the log whose keys it is given, of which one has to have signed. It does not
// check witnesses' signatures on the note, nor whether the checkpoint continues an earlier one.
func OpenCheckpoint(data []byte, keys ...note.Verifier) (Checkpoint, error) {
	if len(data) > MaxCheckpoint {
		return Checkpoint{}, fmt.Errorf("checkpoint: %d bytes, at most %d", len(data), MaxCheckpoint)
	}
	if len(keys) == 0 {
		return Checkpoint{}, errors.New("checkpoint: no log key to check it with")
	}
	n, err := note.Open(data, note.VerifierList(keys...))
	var unknown *note.UnverifiedNoteError
	if errors.As(err, &unknown) {
		if said, _, _ := bytes.Cut(data, []byte("\n")); string(said) != keys[0].Name() {
			err = fmt.Errorf("it says that it is of %.120q: %w", said, err)
		}
		return Checkpoint{}, fmt.Errorf("checkpoint of %q: %w: signed by %w", keys[0].Name(), err, ErrUnknownKey)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint of %q: %w", keys[0].Name(), err)
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	for _, key := range keys {
		if c.Origin != key.Name() {
			return Checkpoint{}, fmt.Errorf("checkpoint of %q signed with the key of %q", c.Origin, key.Name())
		}
	}
	return c, nil
}

// ReadCheckpoint reads a signed checkpoint and checks no signature at all: it is for the log's own store, and for a reader
// who has no key yet and says so.
func ReadCheckpoint(data []byte) (Checkpoint, error) {
	end := bytes.Index(data, []byte("\n\n"))
	if end < 0 {
		return Checkpoint{}, errors.New("checkpoint: not a signed note")
	}
	return ParseCheckpoint(string(data[:end+1]))
}

// algEd25519 is the signed-note algorithm byte of Ed25519.
const algEd25519 = 1

// LogVKey returns the verifier key of a log in the text form of signed notes: origin+hash+key.
func LogVKey(origin string, key ed25519.PublicKey) (string, error) {
	if len(origin) > MaxOrigin {
		return "", fmt.Errorf("log key: origin of %d bytes, at most %d", len(origin), MaxOrigin)
	}
	vkey, err := note.NewEd25519VerifierKey(origin, key)
	if err != nil {
		return "", fmt.Errorf("log key: %w", err)
	}
	if _, err := note.NewVerifier(vkey); err != nil {
		return "", fmt.Errorf("log key: origin %.80q: %w", origin, err)
	}
	return vkey, nil
}

// ParseLogVKey reads a verifier key: the log's origin and its key.
func ParseLogVKey(vkey string) (origin string, key ed25519.PublicKey, err error) {
	fail := fmt.Errorf("log key %.80q: want origin+hash+key of an Ed25519 key", vkey)
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return "", nil, fail
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algEd25519 {
		return "", nil, fail
	}
	key = raw[1:]
	if again, err := LogVKey(parts[0], key); err != nil || again != vkey {
		return "", nil, fail
	}
	return parts[0], key, nil
}

// LogSigner returns the signer of a log's checkpoints.
func LogSigner(origin string, key ed25519.PrivateKey) (note.Signer, error) {
	vkey, err := LogVKey(origin, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	hash := strings.Split(vkey, "+")[1]
	seed := append([]byte{algEd25519}, key.Seed()...)
	return note.NewSigner("PRIVATE+KEY+" + origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(seed))
}
