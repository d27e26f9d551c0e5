package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
)

// algCosignature is the signed-note algorithm byte of an Ed25519 cosignature (C2SP tlog-cosignature, "Format").
const algCosignature = 4

const (
	keyHashSize     = 4
	cosignatureSize = 8 + ed25519.SignatureSize // POSIX seconds, big endian, and the signature
)

// WitnessVKey returns the verifier key of a witness in the text form of signed notes: name+hash+key.
func WitnessVKey(name string, key ed25519.PublicKey) (string, error) {
	if name == "" || len(name) > MaxOrigin || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return "", fmt.Errorf("witness key: name %.80q: want 1 to %d bytes without spaces and plus signs", name, MaxOrigin)
	}
	if len(key) != ed25519.PublicKeySize {
		return "", fmt.Errorf("witness key: %d bytes, want an Ed25519 key", len(key))
	}
	return fmt.Sprintf("%s+%08x+%s", name, cosignerHash(name, key), base64.StdEncoding.EncodeToString(append([]byte{algCosignature}, key...))), nil
}

// ParseWitnessVKey reads the verifier key of a witness: its name and its key. A key of another kind is refused, also the
// kind that logs have: the same text must name one key and one use.
func ParseWitnessVKey(vkey string) (name string, key ed25519.PublicKey, err error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) == 3 {
		raw, err := base64.StdEncoding.DecodeString(parts[2])
		if err == nil && len(raw) == 1+ed25519.PublicKeySize && raw[0] == algCosignature {
			if again, err := WitnessVKey(parts[0], raw[1:]); err == nil && again == vkey {
				return parts[0], raw[1:], nil
			}
		}
	}
	return "", nil, fmt.Errorf("witness key %.80q: want name+hash+key of an Ed25519 cosignature key (type 4)", vkey)
}

// cosignerHash is the key id of an Ed25519 cosigner.
func cosignerHash(name string, key ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(slices.Concat([]byte(name), []byte{'\n', algCosignature}, key))
	return binary.BigEndian.Uint32(sum[:keyHashSize])
}

// cosigned is the message of a cosignature (C2SP tlog-cosignature, "Ed25519 signed message").
func cosigned(text []byte, at canon.Time) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatInt(int64(at), 10)+"\n"), text...)
}

// Cosign returns the signature line of a witness under a checkpoint's text: its statement that, at that time, this was
// the largest tree of the log that it knew, and that the tree continues all that it cosigned before. Whether that is so
// the caller has checked.
func Cosign(c Checkpoint, name string, key Signer, at canon.Time) (string, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return "", fmt.Errorf("cosign: key is a %T, want Ed25519", key.Public())
	}
	if _, err := WitnessVKey(name, public); err != nil {
		return "", err
	}
	if _, err := at.MarshalText(); err != nil || at == 0 {
		return "", fmt.Errorf("cosign: no time that a cosignature can bear: %d", int64(at))
	}
	sig, err := key.Sign(cosigned([]byte(c.Text()), at))
	if err != nil {
		return "", fmt.Errorf("cosign: %w", err)
	}
	b := binary.BigEndian.AppendUint32(nil, cosignerHash(name, public))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return signatureLine(name, append(b, sig...)), nil
}

func signatureLine(name string, signature []byte) string {
	return "— " + name + " " + base64.StdEncoding.EncodeToString(signature) + "\n"
}

// Witness is one witness of a policy.
type Witness struct {
	Name string            // in the policy, and nowhere else
	Key  ed25519.PublicKey // of its cosignatures
	URL  string            // its submission prefix (C2SP tlog-witness); may be empty where nobody is asked
	id   string            // name of its key
}

// cosignatureVerifier checks that a signature is a cosignature of a witness. It is a [note.Verifier].
type cosignatureVerifier struct{ w Witness }

func (v cosignatureVerifier) Name() string    { return v.w.id }
func (v cosignatureVerifier) KeyHash() uint32 { return cosignerHash(v.w.id, v.w.Key) }

func (v cosignatureVerifier) Verify(text, sig []byte) bool {
	if len(sig) != cosignatureSize || binary.BigEndian.Uint64(sig) > math.MaxInt64 {
		return false
	}
	at := canon.Time(binary.BigEndian.Uint64(sig))
	if _, err := at.MarshalText(); err != nil || at == 0 {
		return false // a time that nothing here can write
	}
	return ed25519.Verify(v.w.Key, cosigned(text, at), sig[8:])
}

// Answer reads what a witness answered to a checkpoint: signature lines, among which its own must be. It returns that
// line in its one spelling, and its time. Lines of other keys are dropped.
func (w Witness) Answer(c Checkpoint, answer []byte) (line string, at canon.Time, err error) {
	if len(answer) > MaxCheckpoint {
		return "", 0, fmt.Errorf("witness %s: answer of %d bytes, at most %d", w.Name, len(answer), MaxCheckpoint)
	}
	n, err := note.Open(append([]byte(c.Text()+"\n"), answer...), note.VerifierList(cosignatureVerifier{w}))
	var invalid *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalid):
		return "", 0, fmt.Errorf("witness %s: its cosignature does not verify under this checkpoint", w.Name)
	case errors.As(err, &unverified):
		return "", 0, fmt.Errorf("witness %s: the answer holds no cosignature of its key", w.Name)
	case err != nil:
		return "", 0, fmt.Errorf("witness %s: the answer is not signature lines", w.Name)
	}
	sig, at := timed(n.Sigs[0])
	return signatureLine(w.id, sig), at, nil
}

// timed returns the bytes and the time of a cosignature that was verified.
func timed(s note.Signature) ([]byte, canon.Time) {
	sig, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(sig) != keyHashSize+cosignatureSize {
		panic("ledger: internal error: a verified cosignature of another form")
	}
	return sig, canon.Time(binary.BigEndian.Uint64(sig[keyHashSize:]))
}
