package verifier

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

// Subjects of claims that no single component carries.
const (
	subjectNode = "node"
	subjectSet  = "set"
)

// Appraise judges opened evidence. Independent checks all run and all report.
//
// It does not decide whether a challenge is still open or was used before: whoever issued it knows. It takes reference
// values, expectations and the time from the caller, who must not take them from the provider.
func Appraise(o *Opened, c attest.Case) Appraisal {
	a := Appraisal{Type: AppraisalType, Rules: roomRules(), AsOf: c.At, Claims: claim.Set{}, Needs: []attest.Need{}}
	a.Inputs = inputs(o, c)
	if o.fault != nil {
		a.Claims.Contradict("bundle.structure", subjectNode, "", claim.Because(claim.Malformed, "%v", o.fault))
		return a
	}
	a.Claims.Affirm("bundle.structure", subjectNode, "")
	r := run{o: o, c: &c, set: &a.Claims}
	r.bind()
	r.judgeComponents()
	r.judgeSeal()
	r.judgeIdentities()
	r.judgeMeasured()
	for _, f := range r.findings {
		a.Needs = append(a.Needs, f.Needs...)
	}
	a.Claims.Settle()
	return a
}

func inputs(o *Opened, c attest.Case) []Input {
	in := []Input{{InputEvidence, o.digest}}
	if expect, err := canon.Marshal(c.Expect); err == nil && c.Expect.Type != "" {
		in = append(in, Input{InputExpect, canon.Sum(expect)})
	}
	for _, r := range c.References {
		if d, err := r.Digest(); err == nil {
			in = append(in, Input{InputReferences, d})
		}
	}
	for _, item := range c.Collateral {
		in = append(in, Input{item.Kind, item.Digest()})
	}
	return append(in, Input{InputRoots, c.Roots.Digest()})
}

// run is one appraisal under way.
type run struct {
	o        *Opened
	c        *attest.Case
	set      *claim.Set
	asked    attest.Asked
	findings []finding
	said     *attest.Statement // unverified; counts only where agent.measured is affirmed
	want     []byte            // REPORT_DATA by the bundle's own word; nil without a bundle
}

type finding struct {
	attest.Finding
	component
}

// structure names the claim without which the component shows nothing.
func (f finding) structure() string {
	return rooms[f.MediaType].name + ".structure@" + f.subject
}

// bind works out what the sealing component must hold: REPORT_DATA = H64(N, K, E) with the appraiser's own N.
func (r *run) bind() {
	e, b := r.c.Expect, r.o.bundle
	if b == nil {
		if e.ReportData != nil {
			r.asked = attest.Asked{ReportData: e.ReportData, Value: e.ReportData.String(), Why: fmt.Sprintf("REPORT_DATA is not the expected %s", e.ReportData)}
		}
		for _, id := range []string{"binding.seal", "binding.possession", "binding.challenge"} {
			r.set.Unknown(id, subjectNode, claim.Because(claim.NoExpectation, "a vendor's raw file names no session key and no challenge"))
		}
		return
	}
	keys, covered := b.Keys.Digest(), b.Covered()
	want := attest.ReportData(b.Challenge, keys, covered)
	r.want = want[:]
	expected, issued, ok := expectedChallenge(e)
	switch {
	case e.ReportData != nil:
		r.asked = attest.Asked{ReportData: e.ReportData, Value: e.ReportData.String(), Why: fmt.Sprintf("REPORT_DATA is not the expected %s", e.ReportData)}
	case ok:
		fresh := attest.ReportData(expected, keys, covered)
		r.asked = attest.Asked{ReportData: fresh[:], Value: expected.String(), Basis: []string{"binding.challenge@" + subjectNode}, From: issued,
			Why: fmt.Sprintf("REPORT_DATA does not cover the challenge %s with these keys and components", expected)}
	}
	switch {
	case !ok:
		r.set.Unknown("binding.challenge", subjectNode, claim.Because(claim.NoExpectation, "the appraiser was not told which challenge it issued"))
	case expected == b.Challenge:
		r.set.Add(claim.Claim{ID: "binding.challenge", Subject: subjectNode, Status: claim.Affirmed, Value: expected.String(), From: issued})
	default:
		r.set.Contradict("binding.challenge", subjectNode, b.Challenge.String(), claim.Because(claim.Mismatch, "the bundle answers challenge %s, the appraiser issued %s", b.Challenge, expected))
	}
}

func expectedChallenge(e attest.Expect) (n canon.Digest, issued canon.Time, ok bool) {
	switch {
	case e.Challenge != nil:
		return e.Challenge.Digest(), e.Challenge.Issued, true
	case e.Nonce != nil:
		return canon.Digest(e.Nonce), 0, true
	}
	return canon.Digest{}, 0, false
}

// judgeComponents lets each component's room judge it. A room that fails is our fault, never the provider's: its
// component is then unknown, and nothing else is lost.
func (r *run) judgeComponents() {
	for _, c := range r.o.components {
		if c.Class == attest.ClassStatement {
			r.judgeStatement(c)
			continue
		}
		part, f := r.judgeComponent(c)
		for _, cl := range part {
			cl.Basis = cl.Basis[catalogueBasis(cl.ID):] // Add puts the catalogue's part back
			r.set.Add(cl)
		}
		r.findings = append(r.findings, finding{f, c})
	}
}

func catalogueBasis(id string) int {
	def, _ := claim.Lookup(id)
	return len(def.Rests)
}

func (r *run) judgeComponent(c component) (part claim.Set, f attest.Finding) {
	rm := rooms[c.MediaType]
	defer func() {
		if recover() != nil {
			part, f = nil, attest.Finding{}
			part.Unknown(rm.name+".structure", c.subject, claim.Because(claim.Internal, "this build failed on the component; the evidence is not to blame"))
		}
	}()
	asked := r.asked
	if r.o.bundle != nil && c.Label != r.o.bundle.Seal {
		asked = attest.Asked{}
	}
	f = rm.appraise(c.Component, c.subject, r.c, asked, &part)
	return part, f
}

func (r *run) judgeStatement(c component) {
	data, ok := c.Part(attest.PartStatement)
	if !ok || len(c.Parts) != 1 {
		r.set.Contradict("statement.structure", c.subject, "", claim.Because(claim.Malformed, "want the one part %q", attest.PartStatement))
		return
	}
	s, err := attest.ParseStatement(data)
	if err != nil {
		r.set.Contradict("statement.structure", c.subject, "", claim.Because(claim.Malformed, "%v", err))
		return
	}
	r.said = &s
	r.set.Affirm("statement.structure", c.subject, "")
}

// judgeSeal compares the sealing component with what the bundle says it covers, and the bundle's signature with the key
// that is covered.
func (r *run) judgeSeal() {
	b := r.o.bundle
	if b == nil {
		return
	}
	var seal *finding
	for i := range r.findings {
		f := &r.findings[i]
		if f.Label == b.Seal {
			seal = f
		} else if f.Class == attest.ClassCPU {
			r.set.Contradict("binding.seal", subjectNode, "", claim.Because("second-seal", "component %+q is a second CPU TEE: one host has one seal", f.Label))
			r.judgePossession()
			return
		}
	}
	switch {
	case seal == nil:
		r.set.Contradict("binding.seal", subjectNode, "", claim.Because(claim.Mismatch, "the seal %+q is the agent's own statement", b.Seal))
	case seal.ReportData == nil:
		r.set.Unknown("binding.seal", subjectNode, claim.Reason(claim.RestsOn+" "+seal.structure()))
	case bytes.Equal(seal.ReportData, r.want):
		r.set.Add(claim.Claim{ID: "binding.seal", Subject: subjectNode, Status: claim.Affirmed, Value: seal.Format, Basis: []string{seal.Signature + "@" + seal.subject}})
	default:
		r.set.Contradict("binding.seal", subjectNode, seal.Format, claim.Because(claim.Mismatch, "REPORT_DATA does not cover this challenge, these keys and these components"))
	}
	r.judgePossession()
}

func (r *run) judgePossession() {
	if r.o.signed {
		r.set.Affirm("binding.possession", subjectNode, "")
		return
	}
	r.set.Contradict("binding.possession", subjectNode, "", claim.Because("bad-signature", "the session key that the bundle names did not sign it"))
}

// judgeIdentities looks for a device that shows up twice: in the bundle, or under another holder in the registry. One
// device of a class is unique by itself even where its identity is masked.
func (r *run) judgeIdentities() {
	type holder struct {
		attest.Identity
		subject string
	}
	var seen []holder
	var basis []string
	classes := map[string]int{}
	masked := ""
	node := ""
	if r.c.Expect.Challenge != nil {
		node = r.c.Expect.Challenge.Node
	}
	contradict := func(code, format string, args ...any) {
		r.set.Contradict("set.device-unique", subjectSet, "", claim.Because(code, format, args...))
	}
	unread := ""
	for _, f := range r.findings {
		if f.Signature == "" {
			unread = f.structure()
			continue
		}
		basis = append(basis, f.Signature+"@"+f.subject)
		if classes[f.Class]++; f.Masked {
			masked = f.Class
		}
		for _, id := range f.Identities {
			if i := slices.IndexFunc(seen, func(h holder) bool { return h.Equal(id) }); i >= 0 {
				contradict("duplicate", "%s and %s are both %s", seen[i].subject, f.subject, id)
				return
			}
			seen = append(seen, holder{id, f.subject})
			for _, h := range r.c.Expect.Registry {
				if h.Identity.Equal(id) && node != "" && h.Node != node {
					contradict(claim.Contested, "%s is enrolled for node %s", id, h.Node)
					return
				}
			}
			if enrolled := r.c.Expect.Enrolled; len(enrolled) > 0 && !slices.ContainsFunc(enrolled, id.Equal) {
				contradict(claim.NotListed, "%s is not among the devices that the node was enrolled with", id)
				return
			}
		}
	}
	switch {
	case unread != "":
		r.set.Unknown("set.device-unique", subjectSet, claim.Reason(claim.RestsOn+" "+unread))
	case len(basis) == 0:
		r.set.Unknown("set.device-unique", subjectSet, claim.Because(claim.EvidenceMissing, "no component shows a hardware identity"))
	case masked != "" && classes[masked] > 1:
		r.set.Unknown("set.device-unique", subjectSet, claim.Because(claim.Masked, "one of %d %s components hides its identity", classes[masked], masked))
	default:
		r.set.Add(claim.Claim{ID: "set.device-unique", Subject: subjectSet, Status: claim.Affirmed, Basis: basis})
	}
}

// rootTEE is the root of a measurement that a CPU TEE took of its guest.
const rootTEE = "tee"

// judgeMeasured compares what the guest measured to with the appraiser's reference values. Without one for the format
// nothing is affirmed, and nothing contradicted.
func (r *run) judgeMeasured() {
	i := slices.IndexFunc(r.findings, func(f finding) bool { return r.o.bundle == nil || f.Label == r.o.bundle.Seal })
	if i < 0 || r.findings[i].Measured == "" {
		why := claim.Because(claim.EvidenceMissing, "no component measures the guest")
		if i >= 0 && r.findings[i].Signature == "" {
			why = claim.Reason(claim.RestsOn + " " + r.findings[i].structure())
		}
		r.set.Unknown("guest.measured", subjectNode, why)
		r.set.Unknown("agent.measured", subjectNode, why)
		return
	}
	f := r.findings[i]
	var matched []match
	listed := false
	for _, l := range r.c.References {
		d, err := l.Digest()
		if err != nil {
			continue
		}
		for _, v := range l.Values {
			if v.Format != f.Format {
				continue
			}
			listed = true
			if bytes.Equal(v.Measurement, f.Measurement) {
				matched = append(matched, match{v.Agent, "references:" + d.String()})
			}
		}
	}
	switch {
	case !listed:
		why := claim.Because(claim.NoReference, "the appraiser has no reference value for a %s guest", f.Format)
		r.set.Unknown("guest.measured", subjectNode, why)
		r.set.Unknown("agent.measured", subjectNode, why)
		return
	case matched == nil:
		r.set.Contradict("guest.measured", subjectNode, "", claim.Because(claim.NotListed, "MEASUREMENT %s is no reference value", hex.EncodeToString(f.Measurement)))
		r.set.Unknown("agent.measured", subjectNode, claim.RestsOn+" guest.measured")
		return
	}
	r.set.Add(claim.Claim{ID: "guest.measured", Subject: subjectNode, Status: claim.Affirmed, Value: rootTEE,
		Basis: append([]string{f.Measured + "@" + f.subject}, grounds(matched)...)})
	withAgent := slices.DeleteFunc(matched, func(m match) bool { return m.agent.IsZero() })
	if len(withAgent) == 0 {
		r.set.Unknown("agent.measured", subjectNode, claim.Because(claim.NoReference, "the reference value of this guest names no agent"))
		return
	}
	inside := withAgent[0].agent
	if r.said != nil {
		// Only a list that names this very agent vouches for it.
		withAgent = slices.DeleteFunc(withAgent, func(m match) bool { return m.agent != r.said.Agent })
	}
	if len(withAgent) == 0 {
		r.set.Contradict("agent.measured", subjectNode, "", claim.Because(claim.Mismatch, "the statement is by agent %s, the measured guest contains %s", r.said.Agent, inside))
		return
	}
	r.set.Add(claim.Claim{ID: "agent.measured", Subject: subjectNode, Status: claim.Affirmed, Value: rootTEE, Basis: grounds(withAgent)})
}

// match is a reference value that the guest equals: the agent inside, and the list that says so.
type match struct {
	agent canon.Digest
	list  string // as it stands in a basis
}

// grounds returns the lists of matches, each once.
func grounds(matched []match) (lists []string) {
	for _, m := range matched {
		if !slices.Contains(lists, m.list) {
			lists = append(lists, m.list)
		}
	}
	return lists
}
