package testvectors

import (
	"bytes"
	"fmt"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// Open opens the evidence and gathers what an appraisal looks at beside it.
func (c Case) Open() (*verifier.Opened, attest.Case, error) {
	k := attest.Case{At: c.AsOf, Roots: c.testRoots}
	if c.Roots == RootsVendor {
		k.Roots = verifier.VendorRoots()
	}
	for _, i := range c.Items {
		var err error
		switch i.Key {
		case KeyExpectations:
			k.Expect, err = attest.ParseExpect(i.Data)
		case KeyReferences:
			var r attest.References
			r, err = attest.ParseReferences(i.Data)
			k.References = append(k.References, r)
		default:
			k.Collateral = append(k.Collateral, attest.Collateral{Kind: i.Key, Data: i.Data})
		}
		if err != nil {
			return nil, k, fmt.Errorf("case %s: %s: %w", c.Name, i.Name, err)
		}
	}
	o, err := verifier.Open(c.Type, c.Evidence)
	return o, k, err
}

// Judgement is what this build says of a case.
type Judgement struct {
	Appraisal verifier.Appraisal
	Verdicts  []policy.Verdict // of the policies that the case names, in its order
}

// Judge appraises the evidence and decides by each policy that the case names. The memory may be nil.
func (c Case) Judge(m *attest.Memory) (j Judgement, err error) {
	o, k, err := c.Open()
	if err != nil {
		return j, err
	}
	k.Memory = m
	j.Appraisal = verifier.Appraise(o, k)
	for _, v := range c.Verdicts {
		p, ok := policy.Builtin(v.Policy)
		if !ok {
			return j, fmt.Errorf("case %s: no built-in policy %q", c.Name, v.Policy)
		}
		j.Verdicts = append(j.Verdicts, policy.Decide(j.Appraisal.Claims, p, c.AsOf))
	}
	return j, nil
}

// Canonical returns the canonical appraisal and verdicts, a line each: what every build must reproduce.
func (j Judgement) Canonical() ([]byte, error) {
	a, err := j.Appraisal.Canonical()
	if err != nil {
		return nil, err
	}
	lines := [][]byte{a}
	for _, v := range j.Verdicts {
		b, err := canon.Marshal(v)
		if err != nil {
			return nil, err
		}
		lines = append(lines, b)
	}
	return append(bytes.Join(lines, []byte("\n")), '\n'), nil
}

// Inputs names the case by all that a judgement follows from, the right answers left out.
func (c Case) Inputs() canon.Digest {
	roots := c.testRoots.Digest()
	if c.Roots == RootsVendor {
		roots = verifier.VendorRoots().Digest()
	}
	xs := [][]byte{[]byte(c.Type), []byte(c.AsOf.String()), roots[:], c.Evidence}
	for _, i := range c.Items {
		xs = append(xs, []byte(i.Key), i.Data)
	}
	for _, v := range c.Verdicts {
		xs = append(xs, []byte(v.Policy))
	}
	return canon.Hash("assay/testvector/v1", xs...)
}

// Transcript returns the case's name in a line, then [Judgement.Canonical]. The memory may be nil.
func (c Case) Transcript(m *attest.Memory) ([]byte, error) {
	j, err := c.Judge(m)
	if err != nil {
		return nil, err
	}
	text, err := j.Canonical()
	return append([]byte(c.Name+"\n"), text...), err
}
