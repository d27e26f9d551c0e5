package audit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Witnessing is who cosigned the checkpoint.
type Witnessing struct {
	By        []string   `json:"by"`             // witnesses of the trust file; a quorum of them, or none where it names no witnesses
	From      canon.Time `json:"from,omitzero"`  // bounds of when the quorum cosigned: see [ledger.Cosigned]
	Until     canon.Time `json:"until,omitzero"` //
	Unchecked int64      `json:"unchecked"`      // signatures that nothing here can check
}

func (w Witnessing) text() string {
	s := "none asked for"
	if len(w.By) > 0 {
		s = fmt.Sprintf("cosigned by %s, from %s until %s", strings.Join(w.By, ", "), w.From, w.Until)
	}
	if w.Unchecked > 0 {
		s += "; " + counted(w.Unchecked, "signature") + " not checked"
	}
	return s
}

// openNote checks that a checkpoint is signed by the log, under keys that stand and no others of its own, and cosigned by a
// quorum of the trusted witnesses if there are any, in the one spelling that signing gives: the readers of notes elsewhere
// skip what they do not understand, and there a changed bit would go unseen. Signatures of keys that nobody vouches for are
// counted, and no more.
func openNote(data []byte, keys logKeys, terms []ledger.WitnessTerm) (Witnessing, error) {
	w := Witnessing{By: []string{}}
	if _, err := ledger.OpenCheckpoint(data, keys.standing...); err != nil {
		return w, err
	}
	n, err := note.Open(data, note.VerifierList(append(keys.standing, keys.ended...)...))
	if err != nil {
		return w, errors.New("checkpoint: not signed by the log's key")
	}
	for _, s := range n.Sigs {
		if slices.ContainsFunc(keys.ended, func(v note.Verifier) bool { return v.Name() == s.Name && v.KeyHash() == s.Hash }) {
			return w, errors.New("checkpoint: signed with a log key that had ended before its newest entry")
		}
	}
	again := n.Text + "\n"
	_, lines, _ := strings.Cut(string(data), "\n\n")
	for line := range strings.Lines(lines) {
		name, b64, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(line, "— "), "\n"), " ")
		sig, err := base64.StdEncoding.Strict().DecodeString(b64)
		if err != nil {
			return w, fmt.Errorf("checkpoint: a signature line in another spelling: %.80q", line)
		}
		again += "— " + name + " " + base64.StdEncoding.EncodeToString(sig) + "\n"
	}
	if again != string(data) || len(n.Sigs)+len(n.UnverifiedSigs) != strings.Count(lines, "\n") {
		return w, errors.New("checkpoint: holds more than signatures, each once, in their one spelling")
	}
	w.Unchecked = int64(len(n.UnverifiedSigs))
	if len(terms) == 0 {
		return w, nil
	}
	c, err := ledger.OpenInTerms(terms, data, keys.vkeys, 0)
	if err != nil {
		return w, err
	}
	for _, by := range c.By {
		w.By = append(w.By, by.Witness)
	}
	w.From, w.Until, w.Unchecked = c.From, c.Until, w.Unchecked-int64(len(c.By))
	return w, nil
}
