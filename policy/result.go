package policy

import (
	"fmt"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// ResultType is the type of the result document and the payload type of its envelope.
const ResultType = "assay/result/v1"

// Result is what a server signs: a verdict, what it was made from, and by which build. Only the verdict is a function of
// evidence, policy and time; the build is the signer's word, so that another build can say which one decided.
type Result struct {
	Type      string       `json:"type"`
	Build     Build        `json:"build"`
	Evidence  canon.Digest `json:"evidence"`       // of the evidence as received
	Appraisal canon.Digest `json:"appraisal"`      // of its canonical bytes
	Policy    canon.Digest `json:"policy"`         // of its canonical bytes
	Party     canon.Digest `json:"party,omitzero"` // of the canonical bytes of the claims about the party, see [PartyClaims]; absent: none were at hand
	Verdict   Verdict      `json:"verdict"`
}

// Build names a program.
type Build struct {
	Digest   canon.Digest `json:"digest"` // SHA-256 of the executable
	Go       string       `json:"go"`     // version of Go that compiled it
	Platform string       `json:"platform"`
	Engine   canon.Digest `json:"engine,omitzero"` // SHA-256 of the WASI module of the same rules, which the log holds
}

// ParseResult reads the canonical payload of a result's envelope. It checks no signature, and does not recompute the
// verdict.
func ParseResult(payload []byte) (Result, error) {
	var r Result
	if err := canon.Unmarshal(payload, &r); err != nil {
		return Result{}, fmt.Errorf("result: %w", err)
	}
	if r.Type != ResultType {
		return Result{}, fmt.Errorf("result: type %.80q is not known to this build, want %q", r.Type, ResultType)
	}
	return r, nil
}

// PartyType is the type of the document that keeps what a verdict was told of the party.
const PartyType = "assay/party/v1"

// PartyClaims is what a certificate says of whoever runs a machine: what [Decide] takes beside the claims of an appraisal.
type PartyClaims struct {
	Type        string    `json:"type"`
	Certificate string    `json:"certificate"` // id
	Claims      claim.Set `json:"claims"`      // of the subject party, all of them
}

// Canonical returns the document's bytes.
func (p PartyClaims) Canonical() ([]byte, error) { return canon.Marshal(p) }

// ParsePartyClaims reads the canonical bytes of claims about a party. Whether a certificate says so is the log's question.
func ParsePartyClaims(data []byte) (PartyClaims, error) {
	var p PartyClaims
	if err := canon.Unmarshal(data, &p); err != nil {
		return PartyClaims{}, fmt.Errorf("party: %w", err)
	}
	if p.Type != PartyType {
		return PartyClaims{}, fmt.Errorf("party: type %.80q is not known to this build, want %q", p.Type, PartyType)
	}
	for _, c := range p.Claims {
		if c.Subject != claim.SubjectParty {
			return PartyClaims{}, fmt.Errorf("party: %.80q is a claim about %.80q", c.ID, c.Subject)
		}
	}
	return p, nil
}
