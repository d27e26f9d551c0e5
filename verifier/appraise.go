package verifier

import (
	"fmt"
	"slices"
	"sync"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// Subjects of claims that no single component carries.
const (
	subjectNode = "node"
	subjectSet  = "set"
)

// subjectCPU is the CPU of a recording that has one.
const (
	subjectCPU       = attest.ClassCPU + ":0"
	subjectStatement = attest.ClassStatement + ":0"
)

// Appraise judges opened evidence. Independent checks all run and all report.
//
// It does not decide whether a challenge is still open or was used before: whoever issued it knows. It takes reference
// values, expectations and the time from the caller, who must not take them from the provider.
func Appraise(o *Opened, c attest.Case) Appraisal {
	c = c.Named()
	a := Appraisal{Type: AppraisalType, Rules: Rooms(), AsOf: c.At, Claims: claim.Set{}, Needs: []attest.Need{}}
	lists := digestsOf(c.References)
	a.Inputs = inputs(o, c, lists)
	if o.fault != nil {
		a.Claims.Contradict("bundle.structure", subjectNode, "", claim.Because(claim.Malformed, "%v", o.fault))
		return a
	}
	a.Claims.Affirm("bundle.structure", subjectNode, "")
	r := run{o: o, c: &c, set: &a.Claims, lists: lists}
	r.judgeChallenge()
	r.judgeComponents()
	r.judgeSeal()
	r.judgeIdentities()
	r.judgeMeasured()
	r.judgeGPUs()
	for _, f := range r.findings {
		a.Needs = append(a.Needs, f.Needs...)
	}
	a.Claims.Settle()
	return a
}

// digestsOf names the lists of reference values. One that has no canonical form names none, and is not consulted.
func digestsOf(lists []attest.References) []canon.Digest {
	digests := make([]canon.Digest, len(lists))
	for i, l := range lists {
		if d, err := l.Digest(); err == nil {
			digests[i] = d
		}
	}
	return digests
}

func inputs(o *Opened, c attest.Case, lists []canon.Digest) []Input {
	var in []Input
	for _, d := range o.digests {
		in = append(in, Input{InputEvidence, d})
	}
	if expect, err := canon.Marshal(c.Expect); err == nil && c.Expect.Type != "" {
		in = append(in, Input{InputExpect, canon.Sum(expect)})
	}
	for _, d := range lists {
		if !d.IsZero() {
			in = append(in, Input{InputReferences, d})
		}
	}
	for i, item := range c.Collateral {
		in = append(in, Input{item.Kind, c.CollateralDigest(i)})
	}
	return append(in, Input{InputRoots, c.Roots.Digest()})
}

// run is one appraisal under way.
type run struct {
	o        *Opened
	c        *attest.Case
	set      *claim.Set
	lists    []canon.Digest // of the case's reference lists, in their order
	findings []finding
	said     *attest.Statement // unverified; counts only where agent.measured is affirmed
}

type finding struct {
	attest.Finding
	component
}

// unshown names the claim without which the component shows nothing: that its bytes are of the format, and of an HCL report
// that hardware signed what it holds.
func (r *run) unshown(f finding) string {
	structure := rooms[f.MediaType].name + ".structure"
	if c := r.set.Find(structure, f.subject); onAzure(f.component) && c != nil && c.Status == claim.Affirmed {
		return "azure.runtime-data@" + f.subject
	}
	return structure + "@" + f.subject
}

// judgeComponents lets each component's room judge it, all at once: a machine has a dozen devices, and each costs a
// signature check. What they find is put together in the order of the bundle. A room that fails is our fault, never the
// provider's: its component is then unknown, and nothing else is lost.
func (r *run) judgeComponents() {
	type result struct {
		part claim.Set
		f    attest.Finding
	}
	results := make([]result, len(r.o.components))
	var judges []func()
	for i, c := range r.o.components {
		if c.Class != attest.ClassStatement {
			judges = append(judges, func() { results[i].part, results[i].f = r.judgeComponent(c) })
		}
	}
	var judging sync.WaitGroup
	if last := len(judges) - 1; last >= 0 {
		for _, judge := range judges[:last] {
			judging.Go(judge)
		}
		judges[last]() // here: most evidence is of one component, and a goroutine costs a tenth of its judgement
	}
	judging.Wait()
	for i, c := range r.o.components {
		if c.Class == attest.ClassStatement {
			r.judgeStatement(c)
			continue
		}
		r.set.Merge(results[i].part)
		r.findings = append(r.findings, finding{results[i].f, c})
	}
}

func (r *run) judgeComponent(c component) (part claim.Set, f attest.Finding) {
	rm := rooms[c.MediaType]
	defer func() {
		if recover() != nil {
			part, f = nil, attest.Finding{}
			part.Unknown(rm.name+".structure", c.subject, claim.Because(claim.Internal, "this build failed on the component; the evidence is not to blame"))
		}
	}()
	if rec := r.o.recording; rec != nil && c.Class == attest.ClassTPM {
		f = rec.Appraise(c.subject, subjectCPU, r.c, r.asked(c), &part)
	} else if ties := r.ties(); ties != nil && c.MediaType == tpm.MediaType {
		f = tpm.AppraiseTied(c.Component, c.subject, r.c, r.asked(c), ties, &part)
	} else {
		f = rm.appraise(c.Component, c.subject, r.c, r.asked(c), &part)
	}
	return part, f
}

// ties returns whose keys the reports of paravisors name: a quote of another key, beside one, is of another machine.
func (r *run) ties() (ties []tpm.Tie) {
	for _, c := range r.o.components {
		if !onAzure(c) {
			continue
		}
		if t, ok := azure.TieOf(c.Component, c.subject); ok {
			ties = append(ties, t)
		}
	}
	return ties
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

// judgeIdentities looks for a device that shows up twice: in the bundle, or under another holder in the registry. Where the
// appraiser does not say which node it asked, devices of two holders are of nobody. One device of a class is unique by itself
// even where its identity is masked.
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
	unread, owner, divided := "", "", ""
	for _, f := range r.findings {
		if f.Signature == "" {
			unread = r.unshown(f)
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
			held := ""
			for _, h := range r.c.Expect.Registry {
				if !h.Identity.Equal(id) {
					continue
				}
				if node != "" && h.Node != node {
					contradict(claim.Contested, "%s is enrolled for node %s", id, h.Node)
					return
				}
				held = h.Node
			}
			if len(seen) == 1 {
				owner = held
			} else if held != owner {
				divided = fmt.Sprintf("%s is enrolled for %s, %s for %s", seen[0].Identity, nodeOr(owner), id, nodeOr(held))
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
	case node == "" && divided != "":
		r.set.Unknown("set.device-unique", subjectSet, claim.Because(claim.NoExpectation, "%s, and the appraiser did not say which node it asked", divided))
	case masked != "" && classes[masked] > 1:
		r.set.Unknown("set.device-unique", subjectSet, claim.Because(claim.Masked, "one of %d %s components hides its identity", classes[masked], masked))
	default:
		r.set.Add(claim.Claim{ID: "set.device-unique", Subject: subjectSet, Status: claim.Affirmed, Basis: basis})
	}
}

// nodeOr names a holder; empty: nobody.
func nodeOr(node string) string {
	if node == "" {
		return "no node"
	}
	return "node " + node
}
