package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/doc"
)

// TestsType is the type of a file of policy tests.
const TestsType = "assay/policy-tests/v1"

// Tests are claims, and the verdict that a policy must give of them. FORMAT.md describes the file.
type Tests struct {
	Type  string     `json:"type"`
	AsOf  canon.Time `json:"as-of"`
	Hosts []Host     `json:"hosts"`
	Tests []Test     `json:"tests"`
}

// Host is a machine, by what is claimed of it and of whoever runs it.
type Host struct {
	Name   string   `json:"name"`
	Claims []Stated `json:"claims"`
}

// Stated is a claim as people write it. What is not stated: affirmed, without a value, without a first instant.
type Stated struct {
	ID      string       `json:"id"`
	Subject string       `json:"subject"`
	Status  claim.Status `json:"status,omitzero"`
	Value   Value        `json:"value,omitzero"`
	Reason  string       `json:"reason,omitzero"` // code of why it is not affirmed
	Age     Age          `json:"age,omitzero"`    // its first instant lies so long before as-of
	Issuer  string       `json:"issuer,omitzero"` // who vouches for it
	List    canon.Digest `json:"list,omitzero"`   // of reference values that affirmed it
}

// Test is one host, what is different about it, and the verdict.
type Test struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Change  []Stated `json:"change,omitzero"`  // in place of the host's claims of that id and subject
	Without []string `json:"without,omitzero"` // ids of claims, or subjects, that are not there
	Want    Outcome  `json:"want"`
	Because []string `json:"because,omitzero"` // ids of the claims that the reasons name, in any order; absent: any
}

// TestResult is what became of one test.
type TestResult struct {
	Name    string  `json:"name"`
	Pass    bool    `json:"pass"`
	Want    Outcome `json:"want"`
	Got     Outcome `json:"got"`
	Because string  `json:"because,omitzero"` // what differs, in a sentence
}

// DocumentType makes a file of tests one that says of which type it is.
func (*Tests) DocumentType() string { return TestsType }

// ParseTests reads a file of tests. Every fault comes with line and column.
func ParseTests(name string, data []byte) (*Tests, error) {
	var t Tests
	at, err := doc.Decode(name, data, &t)
	if err != nil {
		return nil, err
	}
	var errs []*doc.Error
	fault := func(pointer, format string, args ...any) { errs = append(errs, at.Errorf(pointer, format, args...)) }
	if t.Type != TestsType {
		fault("/type", "type %.80q is not known to this build, want %q", t.Type, TestsType)
	}
	if t.AsOf == 0 {
		fault("", "as-of: missing; ages are counted from it")
	}
	if len(t.Hosts) == 0 || len(t.Hosts) > MaxTests {
		fault("/hosts", "hosts: %d, want 1 to %d", len(t.Hosts), MaxTests)
	}
	if len(t.Tests) == 0 || len(t.Tests) > MaxTests {
		fault("/tests", "tests: %d, want 1 to %d", len(t.Tests), MaxTests)
	}
	for i, h := range t.Hosts {
		pointer := fmt.Sprintf("/hosts/%d", i)
		if h.Name == "" || slices.ContainsFunc(t.Hosts[:i], func(g Host) bool { return g.Name == h.Name }) {
			fault(pointer, "host %.80q: want a name of its own", h.Name)
		}
		checkStated(pointer+"/claims", h.Claims, fault)
	}
	for i, x := range t.Tests {
		pointer := fmt.Sprintf("/tests/%d", i)
		host := slices.IndexFunc(t.Hosts, func(h Host) bool { return h.Name == x.Host })
		switch {
		case x.Name == "" || slices.ContainsFunc(t.Tests[:i], func(y Test) bool { return y.Name == x.Name }):
			fault(pointer, "test %.80q: want a name of its own", x.Name)
		case x.Want == 0:
			fault(pointer, "want: missing: accept, reject or undecided")
		case host < 0:
			fault(pointer+"/host", "host %.80q: no host of this file", x.Host)
		}
		checkStated(pointer+"/change", x.Change, fault)
		for j, w := range x.Without {
			if host >= 0 && !slices.ContainsFunc(t.Hosts[host].Claims, func(s Stated) bool { return s.ID == w || s.Subject == w }) {
				fault(fmt.Sprintf("%s/without/%d", pointer, j), "without %.80q: host %s has no such claim or subject", w, x.Host)
			}
		}
		for j, id := range x.Because {
			if _, ok := claim.Lookup(id); !ok && !slices.Contains(known(), id) {
				fault(fmt.Sprintf("%s/because/%d", pointer, j), "unknown claim %.80s%s", id, nearest(id))
			}
		}
	}
	return &t, doc.Join(errs...)
}

// checkStated refuses claims that no appraisal could make.
func checkStated(pointer string, claims []Stated, fault func(pointer, format string, args ...any)) {
	for i, s := range claims {
		at := fmt.Sprintf("%s/%d", pointer, i)
		class := Class(claim.Class(s.Subject))
		switch _, ok := claim.Lookup(s.ID); {
		case !ok:
			fault(at+"/id", "unknown claim %.80s%s", s.ID, nearest(s.ID))
		case !slices.Contains(classesOf(claim.Room(s.ID)), class):
			fault(at+"/subject", "%s of %.80q: %s", s.ID, s.Subject, strings.TrimPrefix(speaksOf(s.ID), ": "))
		case class.single() != (s.Subject == string(class)):
			fault(at+"/subject", "subject %.80q: want the class, and where there are several, a number: cpu:0, node, set, party", s.Subject)
		case s.Reason != "" && s.Status != claim.Unknown && s.Status != claim.Contradicted:
			fault(at+"/reason", "reason: an affirmed claim has none")
		case s.Reason != "" && claim.Means(s.Reason) == "":
			fault(at+"/reason", "reason %.80q: no claim has such a code%s", s.Reason, nearestOf(s.Reason, claimCodes()))
		case slices.ContainsFunc(claims[:i], func(o Stated) bool { return o.ID == s.ID && o.Subject == s.Subject && o.Issuer == s.Issuer }):
			fault(at, "a second %s of %s", s.ID, s.Subject)
		}
	}
}

// claim returns the claim that is stated.
func (s Stated) claim(at canon.Time) claim.Claim {
	c := claim.Claim{ID: s.ID, Subject: s.Subject, Status: cmp.Or(s.Status, claim.Affirmed), Value: string(s.Value), Issuer: claim.Verifier, Basis: []string{}}
	if c.Status != claim.Affirmed {
		c.Reason = claim.Because(cmp.Or(s.Reason, claim.Mismatch), "by the test")
	}
	if s.Age != 0 {
		c.From = at - canon.Time(s.Age)
	}
	if s.Issuer != "" {
		c.Issuer, c.Basis = s.Issuer, append(c.Basis, claim.IssuerGround+s.Issuer)
	}
	if !s.List.IsZero() {
		c.Basis = append(c.Basis, referencesGround+s.List.String())
	}
	return c
}

// claims returns the claims of a test.
func (t *Tests) claims(x Test) (set claim.Set) {
	host := t.Hosts[slices.IndexFunc(t.Hosts, func(h Host) bool { return h.Name == x.Host })]
	for _, s := range host.Claims {
		changed := slices.ContainsFunc(x.Change, func(o Stated) bool { return o.ID == s.ID && o.Subject == s.Subject })
		if !changed && !slices.Contains(x.Without, s.ID) && !slices.Contains(x.Without, s.Subject) {
			set = append(set, s.claim(t.AsOf))
		}
	}
	for _, s := range x.Change {
		set = append(set, s.claim(t.AsOf))
	}
	return set
}

// Run runs the tests by a policy.
func (t *Tests) Run(p *Policy) (results []TestResult) {
	for _, x := range t.Tests {
		v := Decide(t.claims(x), p, t.AsOf)
		r := TestResult{Name: x.Name, Want: x.Want, Got: v.Outcome, Pass: v.Outcome == x.Want}
		var got []string
		for _, why := range v.Reasons {
			if !slices.Contains(got, why.Claim) {
				got = append(got, why.Claim)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(x.Because))
		switch {
		case !r.Pass:
			r.Because = fmt.Sprintf("got %s, want %s", v.Outcome, x.Want)
			if len(got) > 0 {
				r.Because += ", because of " + strings.Join(got, ", ")
			}
		case x.Because != nil && !slices.Equal(got, want):
			r.Pass = false
			r.Because = fmt.Sprintf("%s because of %s, want because of %s", v.Outcome, cmp.Or(strings.Join(got, ", "), "nothing"), strings.Join(want, ", "))
		}
		results = append(results, r)
	}
	return results
}
