package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func dig(name string) canon.Digest { return canon.Sum([]byte(name)) }

func digs(names ...string) []canon.Digest {
	out := []canon.Digest{}
	for _, n := range names {
		out = append(out, dig(n))
	}
	slices.SortFunc(out, func(a, b canon.Digest) int { return slices.Compare(a[:], b[:]) })
	return out
}

func TestErasureDocument(t *testing.T) {
	good := map[string]ledger.Erasure{
		"hold":    {Type: ledger.ErasureType, Act: ledger.ActHold, Hold: "case 12", Nodes: []string{"a", "b"}, Digests: digs("v"), Reason: "court order"},
		"release": {Type: ledger.ErasureType, Act: ledger.ActRelease, Hold: "case 12", Nodes: []string{}, Digests: digs(), Reason: "closed"},
		"erase":   {Type: ledger.ErasureType, Act: ledger.ActErase, Class: ledger.ClassChallenge, Nodes: []string{}, Digests: digs("v", "w"), Reason: "asked for"},
	}
	for name, e := range good {
		data, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ledger.ParseErasure(data); err != nil || fmt.Sprint(again) != fmt.Sprint(e) {
			t.Errorf("%s: %v (%v)", name, again, err)
		}
	}
	many := make([]string, ledger.MaxErased+1)
	for i := range many {
		many[i] = fmt.Sprintf("node-%06d", i)
	}
	for _, c := range []struct {
		name   string
		of     string
		change func(*ledger.Erasure)
		want   string
	}{
		{"another type", "hold", func(e *ledger.Erasure) { e.Type = "assay/erasure/v2" }, `type "assay/erasure/v2" is not known`},
		{"an unknown act", "hold", func(e *ledger.Erasure) { e.Act = "burn" }, `act "burn" is not known`},
		{"no reason", "erase", func(e *ledger.Erasure) { e.Reason = "" }, "a reason of 1 to 1024 bytes"},
		{"a long reason", "erase", func(e *ledger.Erasure) { e.Reason = strings.Repeat("x", ledger.MaxReason+1) }, "a reason of 1 to 1024 bytes"},
		{"too much at once", "hold", func(e *ledger.Erasure) { e.Nodes, e.Digests = many, digs() }, "4097 digests and nodes, at most 4096"},
		{"nodes not ordered", "hold", func(e *ledger.Erasure) { e.Nodes = []string{"b", "a"} }, "nodes: want ids"},
		{"a node twice", "hold", func(e *ledger.Erasure) { e.Nodes = []string{"a", "a"} }, "nodes: want ids"},
		{"a node without an id", "hold", func(e *ledger.Erasure) { e.Nodes = []string{""} }, "nodes: want ids"},
		{"a digest twice", "erase", func(e *ledger.Erasure) { e.Digests = []canon.Digest{dig("v"), dig("v")} }, "digests: want them ordered"},
		{"an empty digest", "erase", func(e *ledger.Erasure) { e.Digests = []canon.Digest{{}} }, "digests: want them ordered"},
		{"a hold of nothing", "hold", func(e *ledger.Erasure) { e.Nodes, e.Digests = []string{}, digs() }, "holds something"},
		{"a hold without a name", "hold", func(e *ledger.Erasure) { e.Hold = "" }, "a hold has a name"},
		{"a hold of a class", "hold", func(e *ledger.Erasure) { e.Class = ledger.ClassChallenge }, "no class"},
		{"a hold with a long name", "hold", func(e *ledger.Erasure) { e.Hold = strings.Repeat("x", ledger.MaxStream+1) }, "name of 81 bytes"},
		{"a release of digests", "release", func(e *ledger.Erasure) { e.Digests = digs("v") }, "names a hold and nothing else"},
		{"an erasure of a node", "erase", func(e *ledger.Erasure) { e.Nodes = []string{"a"} }, "names digests and nothing else"},
		{"an erasure of nothing", "erase", func(e *ledger.Erasure) { e.Digests = digs() }, "names digests and nothing else"},
		{"an erasure of records", "erase", func(e *ledger.Erasure) { e.Class = ledger.ClassRecord }, `class "record" is never erased`},
		{"an erasure of no class", "erase", func(e *ledger.Erasure) { e.Class = "" }, `class "" is never erased`},
	} {
		e := good[c.of]
		c.change(&e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ledger.ParseErasure(make([]byte, ledger.MaxErasure+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a large one: %v", err)
	}
}

// script is a log in short words: entries that name bodies and refs, and acts.
type script struct {
	entries []ledger.Entry
	acts    []ledger.Act
}

func (s *script) entry(at canon.Time, kind, stream, body string, refs ...string) {
	e := ledger.Entry{Kind: kind, Stream: stream, Time: at, Body: dig(body)}
	for _, r := range refs {
		e.Refs = append(e.Refs, dig(r))
	}
	s.entries = append(s.entries, e)
}

func (s *script) act(at canon.Time, a ledger.Erasure) {
	s.acts = append(s.acts, ledger.Act{Index: int64(len(s.entries)), Time: at, Erasure: a})
	s.entry(at, ledger.KindErasure, ledger.StreamServer, fmt.Sprint("act ", len(s.acts)))
}

func (s *script) hold(name string, nodes []string, names ...string) {
	s.act(1, ledger.Erasure{Act: ledger.ActHold, Hold: name, Nodes: nodes, Digests: digs(names...)})
}

func (s *script) release(name string) {
	s.act(1, ledger.Erasure{Act: ledger.ActRelease, Hold: name})
}

func (s *script) erase(at canon.Time, class string, names ...string) {
	s.act(at, ledger.Erasure{Act: ledger.ActErase, Class: class, Digests: digs(names...)})
}

func (s *script) judge() ([]ledger.Refusal, map[canon.Digest]int64) {
	c := ledger.NewCustody(s.acts)
	for i := len(s.entries) - 1; i >= 0; i-- {
		c.Back(int64(i), s.entries[i])
	}
	return c.Judge()
}

// round appends a challenge, the evidence that answers it, an appraisal and a verdict, at one time.
func (s *script) round(at canon.Time, node, name string) {
	s.entry(at, ledger.KindChallenge, ledger.StreamVerifier, "c"+name)
	s.entry(at, ledger.KindEvidence, ledger.NodeStream(node), "e"+name, "c"+name)
	s.entry(at, ledger.KindAppraisal, ledger.StreamVerifier, "a"+name, "e"+name)
	s.entry(at, ledger.KindVerdict, ledger.StreamVerifier, "v"+name, "a"+name, "p")
}

// TestCustody: each erasure that is allowed has a twin that differs in one thing and is refused for it.
func TestCustody(t *testing.T) {
	const t0 = canon.Time(1_000_000_000)
	six := t0 + canon.Time(ledger.KeepJudgement)
	short := canon.Time(ledger.KeepChallenge)
	begin := func(s *script) {
		s.entry(t0, ledger.KindPolicy, ledger.StreamServer, "p")
		s.entry(t0, ledger.KindCollateral, ledger.StreamServer, "crl")
		s.entry(t0, ledger.KindEnrolment, ledger.StreamVerifier, "ak")
		s.round(t0, "n1", "1")
		s.entry(t0, ledger.KindChallenge, ledger.StreamVerifier, "open")
	}
	for _, c := range []struct {
		name string
		log  func(*script)
		want string // of the one refusal; empty: allowed
	}{
		{"evidence after six years", func(s *script) { s.erase(six, ledger.ClassJudgement, "e1") }, ""},
		{"evidence a second before", func(s *script) { s.erase(six-1, ledger.ClassJudgement, "e1") }, "appraisal/v1 is kept until"},
		{"appraisal after six years", func(s *script) { s.erase(six, ledger.ClassJudgement, "a1") }, ""},
		{"appraisal a second before", func(s *script) { s.erase(six-1, ledger.ClassJudgement, "a1") }, "verdict/v1 is kept until"},
		{"verdict after six years", func(s *script) { s.erase(six, ledger.ClassJudgement, "v1") }, ""},
		{"verdict a second before", func(s *script) { s.erase(six-1, ledger.ClassJudgement, "v1") }, "verdict/v1 is kept until"},
		{"policy after six years", func(s *script) { s.erase(six, ledger.ClassJudgement, "p") }, ""},
		{"policy of a younger verdict", func(s *script) { s.round(t0+day, "n2", "2"); s.erase(six, ledger.ClassJudgement, "p") }, "verdict/v1 is kept until"},
		{"policy of a verdict that comes later", func(s *script) { s.erase(six, ledger.ClassJudgement, "p"); s.round(six, "n2", "2") }, ""},
		{"open challenge after thirty days", func(s *script) { s.erase(t0+short, ledger.ClassChallenge, "open") }, ""},
		{"open challenge a second before", func(s *script) { s.erase(t0+short-1, ledger.ClassChallenge, "open") }, "challenge/v1 is kept until"},
		{"answered challenge after thirty days", func(s *script) { s.erase(t0+short, ledger.ClassChallenge, "c1") }, "evidence/v1 is kept until"},
		{"answered challenge after six years", func(s *script) { s.erase(six, ledger.ClassChallenge, "c1") }, ""},
		{"enrolment", func(s *script) { s.erase(six*2, ledger.ClassJudgement, "ak") }, "it is the body of enrolment/v1, of class record"},
		{"collateral", func(s *script) { s.erase(six*2, ledger.ClassJudgement, "crl") }, "it is the body of collateral/v1, of class record"},
		{"evidence as a challenge", func(s *script) { s.erase(six, ledger.ClassChallenge, "e1") }, "it is the body of evidence/v1, of class judgement, not challenge"},
		{"evidence that a node was enrolled by", func(s *script) {
			s.entry(t0+day, ledger.KindEnrolment, ledger.StreamVerifier, "devices", "e1")
			s.erase(six, ledger.ClassJudgement, "e1")
		}, ""},
		{"evidence that was judged a day later", func(s *script) {
			s.entry(t0+day, ledger.KindAppraisal, ledger.StreamVerifier, "later", "e1")
			s.erase(six, ledger.ClassJudgement, "e1")
		}, "appraisal/v1 is kept until"},
		{"a body that nothing has", func(s *script) { s.erase(six, ledger.ClassJudgement, "nothing") }, "no earlier entry has it"},
		{"a body that comes later", func(s *script) { s.erase(six, ledger.ClassJudgement, "e2"); s.round(t0, "n2", "2") }, "no earlier entry has it"},
		{"erased twice", func(s *script) {
			s.erase(six, ledger.ClassJudgement, "e1")
			s.erase(six, ledger.ClassJudgement, "e1")
		}, ""},

		{"evidence of a node on hold", func(s *script) { s.hold("h", []string{"n1"}); s.erase(six, ledger.ClassJudgement, "e1") }, `the hold "h" covers its node n1`},
		{"evidence of a node, another is on hold", func(s *script) { s.hold("h", []string{"n2"}); s.erase(six, ledger.ClassJudgement, "e1") }, ""},
		{"appraisal of a node on hold", func(s *script) { s.hold("h", []string{"n1"}); s.erase(six, ledger.ClassJudgement, "a1") }, `the hold "h" covers its node n1`},
		{"verdict of a node on hold", func(s *script) { s.hold("h", []string{"n1"}); s.erase(six, ledger.ClassJudgement, "v1") }, `the hold "h" covers its node n1`},
		{"answered challenge of a node on hold", func(s *script) { s.hold("h", []string{"n1"}); s.erase(six, ledger.ClassChallenge, "c1") }, `the hold "h" covers its node n1`},
		{"policy by which a node on hold was judged", func(s *script) { s.hold("h", []string{"n1"}); s.erase(six, ledger.ClassJudgement, "p") }, ""},
		{"evidence of a node on hold, later", func(s *script) {
			s.hold("h", []string{"n2"})
			s.round(t0, "n2", "2")
			s.erase(six, ledger.ClassJudgement, "e2")
		}, `the hold "h" covers its node n2`},
		{"hold on the body itself", func(s *script) { s.hold("h", nil, "open"); s.erase(six, ledger.ClassChallenge, "open") }, `the hold "h" covers it`},
		{"hold on another", func(s *script) { s.hold("h", nil, "e1"); s.erase(six, ledger.ClassChallenge, "open") }, ""},
		{"hold on a verdict, its evidence", func(s *script) { s.hold("h", nil, "v1"); s.erase(six, ledger.ClassJudgement, "e1") }, `the hold "h" covers it`},
		{"hold on a verdict, its challenge", func(s *script) { s.hold("h", nil, "v1"); s.erase(six, ledger.ClassChallenge, "c1") }, `the hold "h" covers it`},
		{"hold on a verdict, its policy", func(s *script) { s.hold("h", nil, "v1"); s.erase(six, ledger.ClassJudgement, "p") }, `the hold "h" covers it`},
		{"hold on evidence, its verdict", func(s *script) { s.hold("h", nil, "e1"); s.erase(six, ledger.ClassJudgement, "v1") }, ""},
		{"released before", func(s *script) {
			s.hold("h", []string{"n1"}, "v1")
			s.release("h")
			s.erase(six, ledger.ClassJudgement, "e1")
		}, ""},
		{"released after", func(s *script) {
			s.hold("h", []string{"n1"}, "v1")
			s.erase(six, ledger.ClassJudgement, "e1")
			s.release("h")
		}, `the hold "h" covers it`},
		{"held after", func(s *script) {
			s.erase(six, ledger.ClassJudgement, "e1")
			s.hold("h", []string{"n1"}, "v1")
		}, ""},
		{"one of two holds released", func(s *script) {
			s.hold("h", []string{"n1"})
			s.hold("i", []string{"n1"})
			s.release("h")
			s.erase(six, ledger.ClassJudgement, "e1")
		}, `the hold "i" covers its node n1`},
		{"held again", func(s *script) {
			s.hold("h", []string{"n1"})
			s.release("h")
			s.hold("h", []string{"n1"})
			s.erase(six, ledger.ClassJudgement, "e1")
		}, `the hold "h" covers its node n1`},
		{"a hold of a name that is in force", func(s *script) { s.hold("h", []string{"n1"}); s.hold("h", []string{"n2"}) }, `a hold "h" is in force already`},
		{"a release of nothing", func(s *script) { s.release("h") }, `no hold "h" is in force`},
		{"a release twice", func(s *script) { s.hold("h", []string{"n1"}); s.release("h"); s.release("h") }, `no hold "h" is in force`},
	} {
		s := &script{}
		begin(s)
		c.log(s)
		refusals, gone := s.judge()
		switch {
		case c.want == "" && len(refusals) > 0:
			t.Errorf("%s: %+v, want it allowed", c.name, refusals)
		case c.want != "" && (len(refusals) != 1 || !strings.Contains(refusals[0].Why, c.want)):
			t.Errorf("%s: %+v, want one refusal: %s", c.name, refusals, c.want)
		}
		for _, r := range refusals {
			if _, ok := gone[r.Digest]; ok {
				t.Errorf("%s: what was refused counts as erased", c.name)
			}
		}
		for _, a := range s.acts {
			for _, d := range a.Digests {
				if at, ok := gone[d]; a.Act == ledger.ActErase && c.want == "" && (!ok || at < a.Index) {
					t.Errorf("%s: erased by %d, %v, want by %d", c.name, at, ok, a.Index)
				}
			}
		}
	}
}

func TestInForce(t *testing.T) {
	s := &script{}
	s.hold("a", []string{"n1"})
	s.hold("b", []string{"n1"})
	s.release("a")
	s.hold("c", nil, "v")
	s.release("c")
	s.hold("c", nil, "w")
	var names []string
	for _, a := range ledger.InForce(s.acts) {
		names = append(names, fmt.Sprint(a.Hold, a.Index))
	}
	if got := fmt.Sprint(names); got != "[b1 c5]" {
		t.Errorf("in force: %s, want [b1 c5]", got)
	}
}

// TestClasses: every kind has a class, and a class that is erasable a time.
func TestClasses(t *testing.T) {
	for _, kind := range []string{ledger.KindKeyset, ledger.KindReference, ledger.KindCollateral, ledger.KindEnrolment, ledger.KindEngine, ledger.KindHeads, ledger.KindErasure, "gossip/v1"} {
		if c := ledger.ClassOf(kind); c != ledger.ClassRecord {
			t.Errorf("%s is of class %s", kind, c)
		}
	}
	for _, class := range ledger.Classes {
		if keep, erasable := ledger.Retention(class); erasable != (keep > 0) || erasable == (class == ledger.ClassRecord) {
			t.Errorf("class %s: %v, %v", class, keep, erasable)
		}
	}
}
