// Package verifier turns evidence into claims.
//
// [Open] bounds and parses what a stranger sent, [Opened.Needs] says which vendor data judging it will want, and
// [Appraise] judges: a pure function of the evidence, what the appraiser expects, collateral, roots and a time. It reads
// no clock, file or network, so that the same call gives the same bytes in ten years; replay rests on that.
//
// An appraisal is no verdict. It does not say whether the claims suffice (package policy does), it does not fetch what is
// missing, and it cannot show what no evidence shows: physical probing, location, behaviour between two appraisals.
package verifier

import (
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/cloud/gcp"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// Rules is the revision of this room's judgement. A change that alters any result must raise it.
const Rules = 4

// AppraisalType is the type of the appraisal document.
const AppraisalType = "assay/appraisal/v1"

// Appraisal is what the evidence shows, with the digest of every input that it was computed from.
type Appraisal struct {
	Type   string        `json:"type"`
	Rules  []RoomRules   `json:"rules"` // of the rooms that judged
	AsOf   canon.Time    `json:"as_of"`
	Inputs []Input       `json:"inputs"`
	Claims claim.Set     `json:"claims"`
	Needs  []attest.Need `json:"needs"` // wanted and not given
}

// RoomRules names the rules that a room judged by.
type RoomRules struct {
	Room  string `json:"room"`
	Rules int    `json:"rules"`
}

// Input is one input of an appraisal.
type Input struct {
	Kind   string       `json:"kind"` // evidence, expect, references, roots, or a collateral kind
	Digest canon.Digest `json:"sha256"`
}

// Kinds of inputs beside the collateral kinds.
const (
	InputEvidence   = "evidence"
	InputExpect     = "expect"
	InputReferences = "references"
	InputRoots      = "roots"
)

// Canonical returns the canonical bytes of the appraisal, which replay compares.
func (a Appraisal) Canonical() ([]byte, error) { return canon.Marshal(a) }

// ParseAppraisal reads the canonical bytes of an appraisal. It recomputes nothing.
func ParseAppraisal(data []byte) (Appraisal, error) {
	var a Appraisal
	if err := canon.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("appraisal: %w", err)
	}
	if a.Type != AppraisalType {
		return a, fmt.Errorf("appraisal: type %.80q is not known to this build, want %q", a.Type, AppraisalType)
	}
	return a, nil
}

// VendorRoots returns the pinned roots of every format: the root set that judges by default.
func VendorRoots() attest.Roots {
	roots, err := attest.NewRoots(slices.Concat(sevsnp.VendorRoots(), tdx.VendorRoots(), tpm.VendorRoots(), gcp.VendorRoots(), nvidia.VendorRoots())...)
	if err != nil {
		panic("verifier: internal error: " + err.Error())
	}
	return roots
}

// room is one format: how a component of its media type is judged.
type room struct {
	name     string
	class    string
	appraise func(attest.Component, string, *attest.Case, attest.Asked, *claim.Set) attest.Finding
	needs    func(attest.Component, string, attest.Roots) []attest.Need
}

var rooms = map[string]room{
	sevsnp.MediaType: {"sevsnp", attest.ClassCPU, sevsnp.Appraise, sevsnp.Needs},
	tdx.MediaType:    {"tdx", attest.ClassCPU, tdx.Appraise, tdx.Needs},
	tpm.MediaType:    {"tpm", attest.ClassTPM, tpm.Appraise, tpm.Needs},
	azure.MediaType:  {"azure", attest.ClassCPU, azure.Appraise, azure.Needs},

	nvidia.MediaTypeGPU:    {"nvidia", attest.ClassGPU, nvidia.Appraise, nvidia.Needs},
	nvidia.MediaTypeSwitch: {"nvidia", attest.ClassSwitch, nvidia.Appraise, nvidia.Needs},
}

// Rooms returns the rules of this build's rooms, as its appraisals name them.
func Rooms() []RoomRules {
	return []RoomRules{{"azure", azure.Rules}, {"eventlog", eventlog.Rules}, {"gcp", gcp.Rules}, {"nvidia", nvidia.Rules}, {"sevsnp", sevsnp.Rules}, {"tdx", tdx.Rules}, {"tpm", tpm.Rules}, {"verifier", Rules}}
}
