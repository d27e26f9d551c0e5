package vetting

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
)

// FacilityTerm is how long what is known of a site counts at most, in seconds (users' study, section 3: a facility is good for
// 365 days).
const FacilityTerm = 365 * day

// ErrUnverifiable is returned for a foreign format of which public text does not say how it can be verified. What nobody can
// check is refused by its name, and not guessed.
var ErrUnverifiable = errors.New("no public text says how to verify it")

// Entry is one entry of a Proof of Cloud registry, by the names of the alliance's charter (draft v0.1, section 5, Entries).
type Entry struct {
	Platform     string   `json:"platform_uid"` // intel:tdx:ppid:HEX or amd:snp:chipid:HEX
	Method       string   `json:"method"`
	Level        int      `json:"level"`                 // 1 human-assisted, 2 automated, 3 continuous
	Evidences    []string `json:"evidences,omitzero"`    // SHA-256 digests, or addresses, of what was looked at
	Timestamp    string   `json:"timestamp"`             // RFC 3339, UTC
	Endorsements []string `json:"endorsements,omitzero"` // who endorsed it: names; signatures are not verified
}

// Row is what became of one entry of an import.
type Row struct {
	Number int    // from 1
	Claim  Claim  // to be sealed by the issuer, if Fault is empty
	Fault  string // why there is none
}

// levels say what each level of the charter (section 4) shows of a facility: a witness saw it; or the machine was bound to the
// place without one, which the third level does again and again. None is an audit of the site.
var levels = map[int]string{1: claim.FacilityWitnessed, 2: claim.FacilityBound, 3: claim.FacilityBound}

// ImportProofOfCloud reads entries of a Proof of Cloud registry, as FORMAT.md writes them, into claims of an issuer about
// devices. One bad entry does not stop the others.
//
// It verifies nothing of them: the charter does not say what endorsements sign, and in which form. So the claims are the
// word of the issuer that seals them, who answers for having asked the registry; the file is their evidence. The tokens of the
// alliance's trust servers, and vendors' commitments to lists, are refused: [ErrUnverifiable].
func ImportProofOfCloud(name string, data []byte, issuer string, at canon.Time) ([]Row, error) {
	if len(data) > MaxImport {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", name, len(data), MaxImport)
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case bytes.HasPrefix(trimmed, []byte("eyJ")):
		return nil, fmt.Errorf("%s: a token of a Proof of Cloud trust server: it names no end of its time, and its machine id is a truncated hash of unstated length: %w", name, ErrUnverifiable)
	case bytes.Contains(trimmed, []byte(`"newCommitment"`)):
		return nil, fmt.Errorf("%s: a Proof of Cloud commitment to a list of machines: its tree and its signatures are not described: %w", name, ErrUnverifiable)
	}
	var file struct {
		Entries []Entry `json:"entries"`
	}
	if _, err := doc.Decode(name, data, &file); err != nil {
		return nil, err
	}
	if len(file.Entries) == 0 || len(file.Entries) > MaxEntries {
		return nil, fmt.Errorf("%s: %d entries, want 1 to %d", name, len(file.Entries), MaxEntries)
	}
	digest := canon.Sum(data)
	rows := make([]Row, len(file.Entries))
	seen := map[string]int{}
	for i, e := range file.Entries {
		rows[i].Number = i + 1
		c, err := e.claim(issuer, digest, at)
		if err == nil {
			if first := seen[c.Subject.ID]; first > 0 {
				err = fmt.Errorf("%s: stands in entry %d", c.Subject, first)
			}
		}
		if err != nil {
			rows[i].Fault = err.Error()
			continue
		}
		seen[c.Subject.ID] = i + 1
		rows[i].Claim = c
	}
	return rows, nil
}

func (e Entry) claim(issuer string, file canon.Digest, at canon.Time) (Claim, error) {
	device, err := platform(e.Platform)
	if err != nil {
		return Claim{}, err
	}
	value, known := levels[e.Level]
	made, err := canon.ParseTime(e.Timestamp)
	switch {
	case !known:
		return Claim{}, fmt.Errorf("level %d: want 1 to 3", e.Level)
	case err != nil:
		return Claim{}, fmt.Errorf("timestamp %.40q: want RFC 3339, UTC, whole seconds", e.Timestamp)
	case made > at:
		return Claim{}, fmt.Errorf("timestamp %s has not come", made)
	case e.Method == "" || len(e.Method) > MaxValue:
		return Claim{}, fmt.Errorf("method: %d bytes, want 1 to %d", len(e.Method), MaxValue)
	case len(e.Endorsements) > MaxEndorsers:
		return Claim{}, fmt.Errorf("%d endorsements, at most %d", len(e.Endorsements), MaxEndorsers)
	case at >= made+canon.Time(FacilityTerm):
		return Claim{}, fmt.Errorf("of %s: what is known of a place counts for %d days", made, FacilityTerm/day)
	}
	c := Claim{Type: ClaimType, Issuer: issuer, Subject: Subject{UnitDevice, device}, Attribute: "party.facility", Value: value, Issued: at, Expires: made + canon.Time(FacilityTerm), Evidence: file}
	return c, c.Validate()
}

// chipSize is the size of CHIP_ID; a Turin chip has eight bytes that differ, and zeros.
const chipSize, turinSize, ppidSize = 64, 8, 16

// platform returns the id of a device by its name in the registry.
func platform(uid string) (string, error) {
	for prefix, kind := range map[string]string{"intel:tdx:ppid:": "intel-ppid", "amd:snp:chipid:": "amd-chip-id"} {
		text, ok := strings.CutPrefix(uid, prefix)
		if !ok {
			continue
		}
		id, err := hex.DecodeString(text)
		want := ppidSize
		if kind == "amd-chip-id" {
			want = chipSize
		}
		switch {
		case err != nil || len(id) != want:
			return "", fmt.Errorf("platform_uid %.40q: want %d bytes in hex", uid, want)
		case bytes.Equal(id, make([]byte, len(id))):
			return "", fmt.Errorf("platform_uid %.40q: masked: it is the identity of no machine", uid)
		case want == chipSize && bytes.Equal(id[turinSize:], make([]byte, chipSize-turinSize)):
			id = id[:turinSize]
		}
		return kind + ":" + hex.EncodeToString(id), nil
	}
	return "", fmt.Errorf("platform_uid %.40q: want intel:tdx:ppid:... or amd:snp:chipid:...", uid)
}

// Ownership is what a Platform Ownership Endorsement says, by whoever verified it: package corim does.
type Ownership struct {
	Platform canon.Hex    // Platform Instance Identity
	Owner    string       // by the signer's word
	NotAfter canon.Time   // last instant
	Evidence canon.Digest // of the endorsement's bytes
}

// Claim returns the claim of an issuer that the platform is bound to a provider, whose domain is the owner's name. The domain is
// the caller's to have vouched for; that the names are equal says that the signer means this owner, and nothing about who the
// signer is.
func (o Ownership) Claim(issuer, domain string, at canon.Time) (Claim, error) {
	if !strings.EqualFold(o.Owner, domain) || domain == "" {
		return Claim{}, fmt.Errorf("the platform is endorsed as %.80q's, and the provider's domain is %.80q", o.Owner, domain)
	}
	c := Claim{Type: ClaimType, Issuer: issuer, Subject: Subject{UnitDevice, "intel-piid:" + o.Platform.String()}, Attribute: "party.facility", Value: claim.FacilityBound,
		Issued: at, Expires: min(o.NotAfter+1, at+canon.Time(FacilityTerm)), Evidence: o.Evidence}
	return c, c.Validate()
}
