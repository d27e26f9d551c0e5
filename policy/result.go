package policy

import (
	"fmt"

	"github.com/assay-network/assay/internal/canon"
)

// ResultType is the type of the result document and the payload type of its envelope.
const ResultType = "assay/result/v1"

// Result is what a server signs: a verdict, what it was made from, and by which build. Only the verdict is a function of
// evidence, policy and time; the build is the signer's word, so that another build can say which one decided.
type Result struct {
	Type      string       `json:"type"`
	Build     Build        `json:"build"`
	Evidence  canon.Digest `json:"evidence"`  // of the evidence as received
	Appraisal canon.Digest `json:"appraisal"` // of its canonical bytes
	Policy    canon.Digest `json:"policy"`    // of its canonical bytes
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
