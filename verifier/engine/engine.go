// Package engine lets one build run the rules of another. The two pure functions that decide, [verifier.Appraise] and
// [policy.Decide], stand here behind a request and a response in canonical JSON, so that the build that decided can be kept
// as a WASI module (cmd/assay-engine) and asked again in ten years. FORMAT.md has every byte; package module runs such a
// module.
//
// A response depends on its request and on nothing else: what an instance keeps from earlier requests is named by digest,
// and no clock, file or network is read. The package checks the form of what it is given; whether the inputs of an
// appraisal are those that it may have, the caller knows.
package engine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Types of the two documents.
const (
	RequestType  = "assay/engine-request/v1"
	ResponseType = "assay/engine-response/v1"
)

// Limits of the interface. A later build asks with the limits of its own: these may grow, and never shrink.
const (
	MaxRequest  = 128 << 20 // bytes of a request
	MaxResponse = 24 << 20  // bytes of a response: a result of 16 MiB in base64, and some
	MaxKept     = 64 << 20  // bytes of blobs that an instance keeps
)

// Request asks one thing. What it names by digest stands in Blobs or Keep, or was kept before.
type Request struct {
	Type     string    `json:"type"`
	Keep     [][]byte  `json:"keep,omitzero"`     // for this job and all later ones of the instance
	Blobs    [][]byte  `json:"blobs,omitzero"`    // for this job alone
	Describe bool      `json:"describe,omitzero"` // what engine is this?
	Appraise *Appraise `json:"appraise,omitzero"`
	Decide   *Decide   `json:"decide,omitzero"`
}

// Appraise asks for the appraisal of evidence.
type Appraise struct {
	EvidenceType string           `json:"evidence_type,omitzero"` // as [verifier.Open] takes it
	Inputs       []verifier.Input `json:"inputs"`                 // as the appraisal names them: one evidence, one root set, at most one expectation
	AsOf         canon.Time       `json:"as_of"`
}

// Decide asks for the verdict on the claims of an appraisal.
type Decide struct {
	Appraisal canon.Digest `json:"appraisal"`      // of its canonical bytes
	Policy    canon.Digest `json:"policy"`         // of its canonical bytes
	Party     canon.Digest `json:"party,omitzero"` // of what is known of the party beside, [policy.PartyClaims]; absent: nothing
	AsOf      canon.Time   `json:"as_of"`
}

// Response is what became of a request: exactly one of the members beside the type is there.
type Response struct {
	Type   string       `json:"type"`
	Engine *Description `json:"engine,omitzero"`
	Result []byte       `json:"result,omitzero"` // canonical bytes of the appraisal or the verdict
	Fault  string       `json:"fault,omitzero"`  // why there is none
}

// Description says what an engine is. The version is its builder's word.
type Description struct {
	Version string               `json:"version"`
	Go      string               `json:"go"`    // version of Go that compiled it
	Rules   []verifier.RoomRules `json:"rules"` // of all rooms, ordered by name
}

// Rules returns the rules of all rooms of this build that a result follows from: those that an appraisal names, and the
// policies'.
func Rules() []verifier.RoomRules {
	rules := append(verifier.Rooms(), verifier.RoomRules{Room: policyRoom, Rules: policy.Rules})
	slices.SortFunc(rules, func(a, b verifier.RoomRules) int { return strings.Compare(a.Room, b.Room) })
	return rules
}

const policyRoom = "policy"

// ByRules reports whether results by the given rules, those of an appraisal and of a verdict, are of an engine with these.
func (d Description) ByRules(appraisal []verifier.RoomRules, verdict int) bool {
	rules := slices.DeleteFunc(slices.Clone(d.Rules), func(r verifier.RoomRules) bool { return r == verifier.RoomRules{Room: policyRoom, Rules: verdict} })
	return len(rules) == len(d.Rules)-1 && slices.Equal(rules, appraisal)
}

// Engine answers requests by the rules of this build. One goroutine owns it.
type Engine struct {
	about  Description
	memory *attest.Memory
	kept   map[canon.Digest][]byte
	size   int
	parsed map[canon.Digest]any // of kept blobs, what was made of them
}

// New returns an engine that keeps nothing yet.
func New(about Description) *Engine {
	return &Engine{about: about, memory: attest.NewMemory(), kept: map[canon.Digest][]byte{}, parsed: map[canon.Digest]any{}}
}

// Serve answers requests until the input ends. An error is one of the input or the output; a request that cannot be
// answered has a response that says why.
func (e *Engine) Serve(r io.Reader, w io.Writer) error {
	for {
		request, err := ReadFrame(r, MaxRequest)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if err := WriteFrame(w, e.Answer(request)); err != nil {
			return fmt.Errorf("write response: %w", err)
		}
	}
}

// Answer returns the canonical response to a request.
func (e *Engine) Answer(request []byte) []byte {
	response, err := e.answer(request)
	if err != nil {
		response = Response{Fault: strings.ToValidUTF8(err.Error(), "?")} // some quote what they were given
	}
	response.Type = ResponseType
	data, err := canon.Marshal(response)
	if err != nil {
		panic("engine: internal error: " + err.Error())
	}
	return data
}

// answer does the job of a request. A rule room that panics has failed on what it was given.
func (e *Engine) answer(data []byte) (r Response, err error) {
	defer func() {
		if recover() != nil {
			r, err = Response{}, errors.New("this engine fails on the job")
		}
	}()
	var q Request
	if err := canon.Unmarshal(data, &q); err != nil {
		return r, fmt.Errorf("request: %w", err)
	}
	if q.Type != RequestType {
		return r, fmt.Errorf("request: type %.80q is not known to this engine, want %q", q.Type, RequestType)
	}
	jobs := 0
	for _, is := range []bool{q.Describe, q.Appraise != nil, q.Decide != nil} {
		if is {
			jobs++
		}
	}
	if jobs != 1 {
		return r, fmt.Errorf("request: %d jobs, want one of describe, appraise and decide", jobs)
	}
	for _, b := range q.Keep {
		if err := e.keep(b); err != nil {
			return r, err
		}
	}
	given := map[canon.Digest][]byte{}
	for _, b := range q.Blobs {
		given[canon.Sum(b)] = b
	}
	j := job{e, given}
	switch {
	case q.Describe:
		about := e.about
		r.Engine = &about
	case q.Appraise != nil:
		r.Result, err = j.appraise(*q.Appraise)
	default:
		r.Result, err = j.decide(*q.Decide)
	}
	return r, err
}

func (e *Engine) keep(b []byte) error {
	d := canon.Sum(b)
	if _, ok := e.kept[d]; ok {
		return nil
	}
	if e.size+len(b) > MaxKept {
		return fmt.Errorf("keep: more than %d bytes", MaxKept)
	}
	e.kept[d], e.size = b, e.size+len(b)
	return nil
}

// job is one request under way.
type job struct {
	*Engine
	given map[canon.Digest][]byte
}

func (j job) blob(kind string, d canon.Digest) ([]byte, error) {
	if b, ok := j.given[d]; ok {
		return b, nil
	}
	if b, ok := j.kept[d]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("%s %s was not given", kind, d)
}

// read returns what parse makes of a blob. Of a kept one it is remembered.
func read[T any](j job, kind string, d canon.Digest, parse func([]byte) (T, error)) (v T, err error) {
	if v, ok := j.parsed[d].(T); ok {
		return v, nil
	}
	b, err := j.blob(kind, d)
	if err != nil {
		return v, err
	}
	if v, err = parse(b); err != nil {
		return v, fmt.Errorf("%s %s: %w", kind, d, err)
	}
	if _, ok := j.kept[d]; ok {
		j.parsed[d] = v
	}
	return v, nil
}

func (j job) appraise(a Appraise) ([]byte, error) {
	c := attest.Case{At: a.AsOf, Memory: j.memory}
	var evidence [][]byte
	var expects, roots int
	for _, in := range a.Inputs {
		var err error
		switch in.Kind {
		case verifier.InputEvidence:
			var b []byte
			b, err = j.blob(in.Kind, in.Digest)
			evidence = append(evidence, b)
		case verifier.InputExpect:
			expects++
			c.Expect, err = read(j, in.Kind, in.Digest, attest.ParseExpect)
		case verifier.InputReferences:
			var l attest.References
			l, err = read(j, in.Kind, in.Digest, attest.ParseReferences)
			c.References = append(c.References, l)
		case verifier.InputRoots:
			roots++
			c.Roots, err = read(j, in.Kind, in.Digest, attest.ParseRoots)
		default:
			var b []byte
			b, err = j.blob(in.Kind, in.Digest)
			c.Collateral = append(c.Collateral, attest.Collateral{Kind: in.Kind, Data: b})
		}
		if err != nil {
			return nil, err
		}
	}
	if len(evidence) != 1 || expects > 1 || roots != 1 {
		return nil, fmt.Errorf("%d evidence, %d expectations and %d root sets among the inputs, want one, at most one, and one", len(evidence), expects, roots)
	}
	opened, err := verifier.Open(a.EvidenceType, evidence[0])
	if err != nil {
		return nil, err
	}
	return verifier.Appraise(opened, c).Canonical()
}

func (j job) decide(d Decide) ([]byte, error) {
	appraisal, err := read(j, "appraisal", d.Appraisal, verifier.ParseAppraisal)
	if err != nil {
		return nil, err
	}
	p, err := read(j, "policy", d.Policy, policy.ParseCanonical)
	if err != nil {
		return nil, err
	}
	claims := appraisal.Claims
	if !d.Party.IsZero() {
		party, err := read(j, "party", d.Party, policy.ParsePartyClaims)
		if err != nil {
			return nil, err
		}
		claims = slices.Concat(claims, party.Claims)
	}
	return canon.Marshal(policy.Decide(claims, p, d.AsOf))
}
