package attest

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// ExpectType is the type of the expectations document.
const ExpectType = "assay/expect/v1"

// Expect is what the appraiser itself knows and compares the evidence with. It never comes from the bundle: it is read
// from the appraiser's own store or command line. The zero Expect expects nothing, and then nothing is fresh or bound.
type Expect struct {
	Type         string     `json:"type"`
	Challenge    *Challenge `json:"challenge,omitzero"`      // the challenge it issued
	Cosigned     canon.Time `json:"cosigned,omitzero"`       // since when anybody can have had the checkpoint that the challenge names: by witnesses' clocks
	Nonce        canon.Hex  `json:"nonce,omitzero"`          // N itself, where the challenge is not at hand
	ReportData   canon.Hex  `json:"report_data,omitzero"`    // 64 bytes, for a raw SNP report or TDX quote
	Enrolled     []Identity `json:"enrolled,omitzero"`       // the devices that the subject was enrolled with
	Registry     []Holder   `json:"registry,omitzero"`       // who holds which device
	DenyListKeys [][]byte   `json:"deny_list_keys,omitzero"` // SubjectPublicKeyInfo (DER) of keys that sign deny lists

	QualifyingData canon.Hex    `json:"qualifying_data,omitzero"` // for a raw TPM quote
	Activations    []Activation `json:"activations,omitzero"`     // attestation keys that were activated
	Clocks         []TPMClock   `json:"clocks,omitzero"`          // what earlier quotes said of a TPM's clock
}

// Activation is the record of a credential activation: a verifier sent a secret that only the TPM with this endorsement
// key could open, and only beside this attestation key (TPM 2.0 part 1, section 24), and got it back.
type Activation struct {
	EK       canon.Digest `json:"ek"`       // SHA-256 of the endorsement key's SubjectPublicKeyInfo (DER)
	AK       canon.Hex    `json:"ak"`       // name of the attestation key: algorithm and digest of its public area
	Verifier string       `json:"verifier"` // who ran it
}

// TPMClock is what an earlier quote said. Later quotes of the same key go on from it.
type TPMClock struct {
	AK           canon.Hex `json:"ak"` // name of the attestation key
	ResetCount   int64     `json:"reset_count"`
	RestartCount int64     `json:"restart_count"`
	Clock        int64     `json:"clock"` // ms that the TPM was powered
}

// Holder is one line of the registry: the node that a device is enrolled for.
type Holder struct {
	Identity Identity `json:"identity"`
	Node     string   `json:"node"`
}

// ParseExpect reads the canonical bytes of expectations.
func ParseExpect(data []byte) (Expect, error) {
	var e Expect
	if err := canon.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("expectations: %w", err)
	}
	return e, e.Check()
}

// Check refuses an Expect that cannot be meant.
func (e Expect) Check() error {
	switch {
	case e.Type != ExpectType:
		return fmt.Errorf("expectations: type %.80q is not known to this build, want %q", e.Type, ExpectType)
	case e.Challenge != nil && e.Challenge.Type != ChallengeType:
		return fmt.Errorf("expectations: challenge type %.80q is not known to this build, want %q", e.Challenge.Type, ChallengeType)
	case e.alternatives() > 1:
		return fmt.Errorf("expectations: want one of challenge, nonce (for a bundle), report_data (for a raw report) and qualifying_data (for a raw TPM quote)")
	case e.Challenge != nil && len(e.Challenge.Nonce) != NonceSize:
		return fmt.Errorf("expectations: challenge nonce of %d bytes, want %d", len(e.Challenge.Nonce), NonceSize)
	case e.Cosigned != 0 && (e.Challenge == nil || e.Challenge.Checkpoint.IsZero()):
		return fmt.Errorf("expectations: cosigned %s, and no challenge that names a checkpoint", e.Cosigned)
	case e.Nonce != nil && len(e.Nonce) != len(canon.Digest{}):
		return fmt.Errorf("expectations: nonce of %d bytes, want %d", len(e.Nonce), len(canon.Digest{}))
	case e.ReportData != nil && len(e.ReportData) != ReportDataSize:
		return fmt.Errorf("expectations: report_data of %d bytes, want %d", len(e.ReportData), ReportDataSize)
	case len(e.QualifyingData) > MaxQualifyingData:
		return fmt.Errorf("expectations: qualifying_data of %d bytes, at most %d", len(e.QualifyingData), MaxQualifyingData)
	case len(e.Activations) > MaxHolders || len(e.Clocks) > MaxHolders:
		return fmt.Errorf("expectations: %d activations and %d clocks, at most %d of each", len(e.Activations), len(e.Clocks), MaxHolders)
	case len(e.Registry) > MaxHolders:
		return fmt.Errorf("expectations: registry of %d lines, at most %d", len(e.Registry), MaxHolders)
	}
	_, err := e.denyKeys()
	return err
}

// alternatives counts the ways in which e says what the evidence must answer.
func (e Expect) alternatives() (n int) {
	for _, given := range []bool{e.Challenge != nil, e.Nonce != nil, e.ReportData != nil, e.QualifyingData != nil} {
		if given {
			n++
		}
	}
	return n
}

func (e Expect) denyKeys() (keys []crypto.PublicKey, err error) {
	for _, der := range e.DenyListKeys {
		k, err := x509.ParsePKIXPublicKey(der)
		if err != nil {
			return nil, fmt.Errorf("expectations: deny list key: %w", err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// OpenDenyList reads a deny list that one of the expected keys signed. It does not compare dates.
func (e Expect) OpenDenyList(data []byte) (DenyList, error) {
	var l DenyList
	if len(data) > MaxDenyList {
		return l, fmt.Errorf("deny list: %d bytes, at most %d", len(data), MaxDenyList)
	}
	env, err := ledger.ParseEnvelope(data)
	if err != nil {
		return l, fmt.Errorf("deny list: %w", err)
	}
	keys, err := e.denyKeys()
	if err != nil {
		return l, err
	}
	for _, k := range keys {
		if env.PayloadType == DenyListType && env.SignedBy(k) {
			if err := canon.Unmarshal(env.Payload, &l); err != nil {
				return l, fmt.Errorf("deny list: %w", err)
			}
			return l, nil
		}
	}
	return l, fmt.Errorf("deny list: signed by no expected key")
}

// ReferencesType is the type of a list of reference values.
const ReferencesType = "assay/references/v1"

// References is a list of guests that somebody vouches for. `assay measure` writes such lists.
type References struct {
	Type   string      `json:"type"`
	Name   string      `json:"name"`
	Source string      `json:"source"` // who computed the values, from what
	Values []Reference `json:"values"`
}

// Reference is one guest image, or a part of one: what it measures to, and the agent inside it. What it does not state it
// does not speak of.
type Reference struct {
	Format      string       `json:"format"`               // sev-snp, tdx, tpm; azure-snp and azure-tdx for the paravisor below a guest
	Guest       string       `json:"guest"`                // name and version of the image
	Measurement canon.Hex    `json:"measurement,omitzero"` // MEASUREMENT of SEV-SNP, MRTD of TDX
	Registers   []Register   `json:"registers,omitzero"`   // RTMRs of TDX
	Digests     []canon.Hex  `json:"digests,omitzero"`     // that a TPM's boot registers are extended with, and of files that run
	Agent       canon.Digest `json:"agent,omitzero"`       // SHA-256 of the agent's executable; absent: no agent inside
}

// referenceFormats are those that a reference value can be of.
var referenceFormats = []string{"sev-snp", "tdx", "tpm", "azure-snp", "azure-tdx"}

// What CPU TEEs measure: MEASUREMENT, MRTD and the run-time measurement registers are SHA-384 digests.
const (
	measurementSize = 48 // bytes
	rtmrs           = 4  // run-time measurement registers of a TDX guest
)

// Register is the value of a run-time register.
type Register struct {
	Index int       `json:"index"`
	Value canon.Hex `json:"value"`
}

// Register returns the value that the reference states for a register, or nil.
func (v Reference) Register(index int) []byte {
	for _, r := range v.Registers {
		if r.Index == index {
			return r.Value
		}
	}
	return nil
}

// ParseReferences reads the canonical bytes of a list of reference values.
func ParseReferences(data []byte) (References, error) {
	var r References
	if err := canon.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("references: %w", err)
	}
	return r, r.Check()
}

// Check refuses a list that cannot be meant.
func (r References) Check() error {
	switch {
	case r.Type != ReferencesType:
		return fmt.Errorf("references: type %.80q is not known to this build, want %q", r.Type, ReferencesType)
	case len(r.Values) == 0 || len(r.Values) > MaxReferences:
		return fmt.Errorf("references: %d values, want 1 to %d", len(r.Values), MaxReferences)
	}
	for i, v := range r.Values {
		if v.Format == "" || len(v.Measurement)+len(v.Registers)+len(v.Digests) == 0 {
			return fmt.Errorf("references: value %d: want a format, and a measurement, registers or digests", i)
		}
		if err := v.check(); err != nil {
			return fmt.Errorf("references: value %d: %w", i, err)
		}
	}
	return nil
}

// check refuses what no guest can equal.
func (v Reference) check() error {
	if !slices.Contains(referenceFormats, v.Format) {
		return fmt.Errorf("format %.80q is not known to this build, want one of %q", v.Format, referenceFormats)
	}
	if n := len(v.Measurement); n != 0 && n != measurementSize {
		return fmt.Errorf("measurement of %d bytes, want %d", n, measurementSize)
	}
	if len(v.Digests) > MaxDigests {
		return fmt.Errorf("%d digests, at most %d", len(v.Digests), MaxDigests)
	}
	var seen [rtmrs]bool
	for _, r := range v.Registers {
		switch {
		case r.Index < 0 || r.Index >= rtmrs:
			return fmt.Errorf("register %d, want 0 to %d", r.Index, rtmrs-1)
		case seen[r.Index]:
			return fmt.Errorf("register %d twice", r.Index)
		case len(r.Value) != measurementSize:
			return fmt.Errorf("register %d: value of %d bytes, want %d", r.Index, len(r.Value), measurementSize)
		}
		seen[r.Index] = true
	}
	return nil
}

// Digest names the list, as a policy does.
func (r References) Digest() (canon.Digest, error) {
	b, err := canon.Marshal(r)
	return canon.Sum(b), err
}
