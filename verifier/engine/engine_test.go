package engine

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

// scene is a case, taken apart into what a request carries.
type scene struct {
	evidence, roots, policy []byte
	shared                  [][]byte
	appraise                Appraise
	appraisal, verdict      []byte // that this build makes
}

func newScene(t testing.TB, name string) scene {
	t.Helper()
	all, err := testvectors.Load(os.DirFS(filepath.Join(vectors.Root(t), "testvectors")))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c testvectors.Case) bool { return c.Name == name })
	c := all[i]
	_, k, err1 := c.Open()
	j, err2 := c.Judge(nil)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	p, ok := policy.Builtin("confidential-cpu")
	if !ok {
		t.Fatal("no such policy")
	}
	s := scene{evidence: c.Evidence, roots: k.Roots.Marshal(), policy: p.Canonical(), appraise: Appraise{EvidenceType: c.Type, Inputs: j.Appraisal.Inputs, AsOf: c.AsOf}}
	for _, item := range c.Items {
		s.shared = append(s.shared, item.Data)
	}
	if s.appraisal, err = j.Appraisal.Canonical(); err != nil {
		t.Fatal(err)
	}
	if s.verdict, err = canon.Marshal(policy.Decide(j.Appraisal.Claims, p, c.AsOf)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s scene) request() Request {
	a := s.appraise
	a.Inputs = slices.Clone(a.Inputs)
	return Request{Type: RequestType, Keep: append(slices.Clone(s.shared), s.roots), Blobs: [][]byte{s.evidence}, Appraise: &a}
}

func (s scene) decide() Request {
	return Request{Type: RequestType, Keep: [][]byte{s.policy}, Blobs: [][]byte{s.appraisal}, Decide: &Decide{Appraisal: canon.Sum(s.appraisal), Policy: canon.Sum(s.policy), AsOf: s.appraise.AsOf}}
}

var about = Description{Version: "v", Go: "go", Rules: Rules()}

// ask returns the response to a request.
func ask(t testing.TB, e *Engine, q Request) (r Response) {
	t.Helper()
	data, err := canon.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := canon.Unmarshal(e.Answer(data), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswers(t *testing.T) {
	s := newScene(t, "bundle-genoa-v5")
	e := New(about)
	if r := ask(t, e, Request{Type: RequestType, Describe: true}); r.Engine == nil || r.Engine.Version != "v" || !r.Engine.ByRules(verifier.Rooms(), policy.Rules) || r.Result != nil || r.Fault != "" {
		t.Errorf("describe: %+v", r)
	}
	if r := ask(t, e, s.request()); !bytes.Equal(r.Result, s.appraisal) || r.Engine != nil {
		t.Errorf("appraise: %+v", r)
	}
	if r := ask(t, e, s.decide()); !bytes.Equal(r.Result, s.verdict) {
		t.Errorf("decide: %+v", r)
	}
	// What was kept need not be given again; what was given for one job is gone.
	q := s.request()
	q.Keep = nil
	if r := ask(t, e, q); !bytes.Equal(r.Result, s.appraisal) {
		t.Errorf("with what was kept: %+v", r)
	}
	q.Blobs = nil
	if r := ask(t, e, q); r.Fault != "evidence "+canon.Sum(s.evidence).String()+" was not given" {
		t.Errorf("without the evidence: %+v", r)
	}
}

// TestFaults: a request that cannot be answered has a response that says why, and the engine answers the next.
func TestFaults(t *testing.T) {
	s := newScene(t, "bundle-genoa-v5")
	e := New(about)
	input := func(kind string, b []byte) verifier.Input { return verifier.Input{Kind: kind, Digest: canon.Sum(b)} }
	drop := func(q *Request, kind string) {
		q.Appraise.Inputs = slices.DeleteFunc(q.Appraise.Inputs, func(in verifier.Input) bool { return in.Kind == kind })
	}
	for _, row := range []struct {
		name, want string
		change     func(*Request)
	}{
		{"type", `type "assay/engine-request/v9" is not known`, func(q *Request) { q.Type = "assay/engine-request/v9" }},
		{"no job", "0 jobs", func(q *Request) { q.Appraise = nil }},
		{"two jobs", "2 jobs", func(q *Request) { q.Describe = true }},
		{"no evidence", "0 evidence, 1 expectations and 1 root sets", func(q *Request) { drop(q, verifier.InputEvidence) }},
		{"evidence twice", "2 evidence", func(q *Request) {
			q.Appraise.Inputs = append(q.Appraise.Inputs, input(verifier.InputEvidence, s.evidence))
		}},
		{"no roots", "0 root sets", func(q *Request) { drop(q, verifier.InputRoots) }},
		{"two expectations", "2 expectations", func(q *Request) {
			for _, in := range s.appraise.Inputs {
				if in.Kind == verifier.InputExpect {
					q.Appraise.Inputs = append(q.Appraise.Inputs, in)
				}
			}
		}},
		{"references that are none", "references " + canon.Sum(s.policy).String() + ": references: ", func(q *Request) {
			q.Blobs = append(q.Blobs, s.policy)
			q.Appraise.Inputs = append(q.Appraise.Inputs, input(verifier.InputReferences, s.policy))
		}},
		{"roots that are none", "roots " + canon.Sum(s.policy).String() + ": ", func(q *Request) {
			drop(q, verifier.InputRoots)
			q.Blobs = append(q.Blobs, s.policy)
			q.Appraise.Inputs = append(q.Appraise.Inputs, input(verifier.InputRoots, s.policy))
		}},
		{"collateral that was not given", "amd-crl " + canon.Sum(nil).String() + " was not given", func(q *Request) {
			q.Appraise.Inputs = append(q.Appraise.Inputs, input("amd-crl", nil))
		}},
		{"a type of evidence that there is not", `evidence type "oracle" is not known`, func(q *Request) { q.Appraise.EvidenceType = "oracle" }},
		{"an appraisal that is none", "appraisal " + canon.Sum(s.policy).String() + ": appraisal: ", func(q *Request) {
			*q = s.decide()
			q.Decide.Appraisal = canon.Sum(s.policy)
		}},
		{"a policy that is none", "policy " + canon.Sum(s.roots).String(), func(q *Request) {
			*q = s.decide()
			q.Decide.Policy = canon.Sum(s.roots)
		}},
	} {
		q := s.request()
		row.change(&q)
		if r := ask(t, e, q); !strings.Contains(r.Fault, row.want) || r.Result != nil {
			t.Errorf("%s: %+v, want %s", row.name, r, row.want)
		}
	}
	if r := ask(t, e, s.request()); !bytes.Equal(r.Result, s.appraisal) {
		t.Errorf("after all of it: %+v", r)
	}
}

// TestKeepIsBounded: an instance keeps so much and no more, and what it keeps once counts once.
func TestKeepIsBounded(t *testing.T) {
	e := New(about)
	half := make([]byte, MaxKept/2)
	for range 3 {
		if err := e.keep(half); err != nil {
			t.Fatal(err)
		}
	}
	other := make([]byte, MaxKept/2)
	other[0] = 1
	if err := e.keep(other); err != nil {
		t.Fatal(err)
	}
	if err := e.keep([]byte("one more")); err == nil {
		t.Error("kept more than the limit")
	}
}

func TestServe(t *testing.T) {
	s := newScene(t, "bundle-genoa-v5")
	var in, out bytes.Buffer
	for _, q := range []Request{s.request(), s.decide()} {
		data, err := canon.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteFrame(&in, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := New(about).Serve(bytes.NewReader(in.Bytes()), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]byte{s.appraisal, s.verdict} {
		data, err := ReadFrame(&out, MaxResponse)
		var r Response
		if err == nil {
			err = canon.Unmarshal(data, &r)
		}
		if err != nil || !bytes.Equal(r.Result, want) {
			t.Errorf("%v %+v", err, r)
		}
	}
	if err := New(about).Serve(bytes.NewReader(in.Bytes()[:in.Len()-1]), io.Discard); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("a request cut short: %v", err)
	}
	if err := New(about).Serve(strings.NewReader("\xff\xff\xff\xff"), io.Discard); err == nil || !strings.Contains(err.Error(), "a document of 4294967295 bytes, at most 134217728") {
		t.Errorf("a request of 4 GiB: %v", err)
	}
}

func TestByRules(t *testing.T) {
	d := Description{Rules: []verifier.RoomRules{{Room: "a", Rules: 1}, {Room: "policy", Rules: 2}, {Room: "z", Rules: 3}}}
	rooms := []verifier.RoomRules{{Room: "a", Rules: 1}, {Room: "z", Rules: 3}}
	if !d.ByRules(rooms, 2) {
		t.Error("its own rules")
	}
	if d.ByRules(rooms, 3) || d.ByRules(rooms[:1], 2) || d.ByRules(append(rooms, verifier.RoomRules{Room: "zz", Rules: 1}), 2) || d.ByRules(nil, 2) || (Description{}).ByRules(nil, 2) {
		t.Error("other rules")
	}
	if d.ByRules([]verifier.RoomRules{{Room: "a", Rules: 1}, {Room: "policy", Rules: 2}, {Room: "z", Rules: 3}}, 9) {
		t.Error("policies among the rooms")
	}
}

// FuzzAnswer: whatever is asked, there is one canonical response with one member beside its type.
func FuzzAnswer(f *testing.F) {
	s := newScene(f, "bundle-genoa-v5")
	for _, q := range []Request{{Type: RequestType, Describe: true}, s.request(), s.decide()} {
		data, err := canon.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := New(about).Answer(data)
		var r Response
		if err := canon.Unmarshal(answer, &r); err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(answer, &members); err != nil || len(members) != 2 {
			t.Fatalf("%v: %s", err, answer)
		}
	})
}
