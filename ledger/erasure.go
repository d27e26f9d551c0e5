package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-network/assay/internal/canon"
)

// ErasureType is the type of the document that says what is held, let go or erased.
const ErasureType = "assay/erasure/v1"

// Retention classes. A class says how long the bodies of its kinds are kept whatever anybody wishes; [Retention] has the
// time of each.
const (
	ClassRecord    = "record"    // what every replay and rebuilding needs: for ever
	ClassJudgement = "judgement" // evidence and all that was said of it
	ClassChallenge = "challenge" // that nothing answered: what evidence rests on is kept as evidence is
)

// How long each class is kept from the time of the entry, in seconds.
const (
	day           = 24 * 60 * 60
	KeepJudgement = 6 * 366 * day // six years (45 CFR 164.316(b)(2)(i)), however many of them are leap years
	KeepChallenge = 30 * day
)

// Classes lists the retention classes.
var Classes = []string{ClassRecord, ClassJudgement, ClassChallenge}

// Retention returns how long a class is kept, in seconds; erasable is false for one that is kept for ever, or unknown.
func Retention(class string) (keep int64, erasable bool) {
	switch class {
	case ClassJudgement:
		return KeepJudgement, true
	case ClassChallenge:
		return KeepChallenge, true
	}
	return 0, false
}

// ClassOf returns the retention class of a kind. What is not listed is a record.
func ClassOf(kind string) string {
	switch kind {
	case KindEvidence, KindAppraisal, KindVerdict, KindPolicy:
		return ClassJudgement
	case KindChallenge:
		return ClassChallenge
	}
	return ClassRecord
}

// Acts of an erasure document.
const (
	ActHold    = "hold"    // from now on nothing that it covers is erased
	ActRelease = "release" // ends a hold
	ActErase   = "erase"   // these bodies are no longer there
)

// Erasure is the body of an erasure entry: a hold, the end of one, or an erasure. It is made before anything goes.
//
// A hold covers what it names by digest, what that rests on, as far as refs lead, and of each node that it names its
// evidence, the challenges that this answers, and the appraisals and verdicts of it; those of later entries as well.
type Erasure struct {
	Type    string         `json:"type"`
	Act     string         `json:"act"`
	Hold    string         `json:"hold,omitzero"`  // its name; of hold and release
	Class   string         `json:"class,omitzero"` // of all that is erased
	Nodes   []string       `json:"nodes"`          // of hold; ordered
	Digests []canon.Digest `json:"digests"`        // bodies that are erased; blobs, such as verdicts, that are held; ordered
	Reason  string         `json:"reason"`
}

// Validate checks the shape of the document. Whether the act is allowed, [Custody] finds.
func (e Erasure) Validate() error {
	fail := func(format string, args ...any) error { return fmt.Errorf("erasure: "+format, args...) }
	switch {
	case e.Type != ErasureType:
		return fail("type %.80q is not known to this build, want %q", e.Type, ErasureType)
	case e.Reason == "" || len(e.Reason) > MaxReason:
		return fail("a reason of 1 to %d bytes is needed", MaxReason)
	case len(e.Digests)+len(e.Nodes) > MaxErased:
		return fail("%d digests and nodes, at most %d", len(e.Digests)+len(e.Nodes), MaxErased)
	case len(e.Hold) > MaxStream:
		return fail("hold: name of %d bytes, at most %d", len(e.Hold), MaxStream)
	}
	for i, n := range e.Nodes {
		if n == "" || len(n) > MaxStream || i > 0 && e.Nodes[i-1] >= n {
			return fail("nodes: want ids of 1 to %d bytes, ordered, each once", MaxStream)
		}
	}
	for i, d := range e.Digests {
		if d.IsZero() || i > 0 && slices.Compare(e.Digests[i-1][:], d[:]) >= 0 {
			return fail("digests: want them ordered, each once")
		}
	}
	_, erasable := Retention(e.Class)
	switch e.Act {
	case ActHold:
		if e.Hold == "" || e.Class != "" || len(e.Nodes)+len(e.Digests) == 0 {
			return fail("a hold has a name, no class, and holds something")
		}
	case ActRelease:
		if e.Hold == "" || e.Class != "" || len(e.Nodes)+len(e.Digests) != 0 {
			return fail("a release names a hold and nothing else")
		}
	case ActErase:
		if e.Hold != "" || len(e.Nodes) != 0 || len(e.Digests) == 0 {
			return fail("an erasure names digests and nothing else")
		}
		if !erasable {
			return fail("class %.80q is never erased", e.Class)
		}
	default:
		return fail("act %.80q is not known to this build", e.Act)
	}
	return nil
}

// ParseErasure reads the canonical bytes of an erasure document.
func ParseErasure(data []byte) (Erasure, error) {
	var e Erasure
	if len(data) > MaxErasure {
		return e, fmt.Errorf("erasure: %d bytes, at most %d", len(data), MaxErasure)
	}
	if err := canon.Unmarshal(data, &e); err != nil {
		return Erasure{}, fmt.Errorf("erasure: %w", err)
	}
	return e, e.Validate()
}

// Act is an erasure entry with its body.
type Act struct {
	Index int64
	Time  canon.Time // of the entry
	Erasure
}

// Custody judges the acts of a log: which holds were in force when, and whether each erasure was allowed. It is given all
// acts, then every entry of the log from the last to the first by [Custody.Back], and then asked by [Custody.Judge]. An
// erasure of a body is allowed if
//
//   - an earlier entry has it as its body, and every one that has is of the class that the erasure names
//   - for every earlier entry that has it as its body or rests on it, the time of that entry's class has run out; a record
//     that rests on it, such as an enrolment by evidence, holds itself what it needs
//   - no hold that covers it was in force
//
// It remembers what was erased and what holds cover, not the log.
type Custody struct {
	holds    []*hold
	items    []*erased
	starts   map[int64][]*erased        // by the index of the act
	follow   map[canon.Digest][]*erased // by what is erased further on in the log
	lineage  map[canon.Digest][]*erased // by what that rests on, which tells the node
	refusals []Refusal                  // of holds and releases
}

// Refusal says that an act was not allowed.
type Refusal struct {
	Index  int64        // of the act
	Digest canon.Digest // what was not to be erased; zero for holds and releases
	Why    string
	Lacks  bool // no entry has what was erased; where the log continues another, that one may have it
}

// hold is a hold and what it covers. It was in force behind the entry from and before the entry to.
type hold struct {
	name     string
	from, to int64
	nodes    map[string]bool
	covers   map[canon.Digest]bool
}

// never is the index of an entry that never comes, and the time up to which a record is kept.
const never = canon.MaxInt

// erased is one body that one act erases.
type erased struct {
	act    Act
	digest canon.Digest
	found  bool            // an earlier entry has it as its body
	other  string          // kind of such an entry, where that is of another class than the act says
	until  canon.Time      // up to which it is kept
	kept   string          // kind of the entry that it is kept for
	nodes  map[string]bool // whose it is
}

// NewCustody takes the acts of a log, in its order.
func NewCustody(acts []Act) *Custody {
	c := &Custody{starts: map[int64][]*erased{}, follow: map[canon.Digest][]*erased{}, lineage: map[canon.Digest][]*erased{}}
	inForce := map[string]*hold{}
	refuse := func(a Act, format string) {
		c.refusals = append(c.refusals, Refusal{Index: a.Index, Why: fmt.Sprintf(format, a.Hold)})
	}
	for _, a := range acts {
		h := inForce[a.Hold]
		switch {
		case a.Act == ActHold && h != nil:
			refuse(a, "a hold %q is in force already")
		case a.Act == ActHold:
			h = &hold{name: a.Hold, from: a.Index, to: never, nodes: map[string]bool{}, covers: map[canon.Digest]bool{}}
			for _, n := range a.Nodes {
				h.nodes[n] = true
			}
			for _, d := range a.Digests {
				h.covers[d] = true
			}
			inForce[a.Hold] = h
			c.holds = append(c.holds, h)
		case a.Act == ActRelease && h == nil:
			refuse(a, "no hold %q is in force")
		case a.Act == ActRelease:
			h.to = a.Index
			delete(inForce, a.Hold)
		default:
			for _, d := range a.Digests {
				i := &erased{act: a, digest: d, nodes: map[string]bool{}}
				c.items = append(c.items, i)
				c.starts[a.Index] = append(c.starts[a.Index], i)
			}
		}
	}
	return c
}

// InForce returns the holds that are in force at the end of a log with these acts, which must be allowed.
func InForce(acts []Act) []Act {
	var out []Act
	for _, a := range acts {
		switch a.Act {
		case ActHold:
			out = append(out, a)
		case ActRelease:
			out = slices.DeleteFunc(out, func(h Act) bool { return h.Hold == a.Hold })
		}
	}
	return out
}

// Back takes the entry at an index. Entries come from the last to the first.
func (c *Custody) Back(index int64, e Entry) {
	for _, i := range c.starts[index] {
		c.follow[i.digest] = append(c.follow[i.digest], i)
	}
	for _, h := range c.holds {
		if h.covers[e.Body] {
			for _, ref := range e.Refs {
				h.covers[ref] = true
			}
		}
	}
	node, isNode := strings.CutPrefix(e.Stream, nodePrefix)
	class := ClassOf(e.Kind)
	until := canon.Time(never)
	if keep, erasable := Retention(class); erasable {
		until = e.Time + canon.Time(keep)
	}
	named := func(i *erased, asBody bool) {
		if isNode {
			i.nodes[node] = true
		}
		// A record holds itself what it needs: it keeps its body, and not what it was made from.
		if until > i.until && (asBody || until != never) {
			i.until, i.kept = until, e.Kind
		}
	}
	for _, i := range c.follow[e.Body] {
		i.found = true
		if class != i.act.Class {
			i.other = e.Kind
		}
		named(i, true)
		for _, ref := range e.Refs {
			c.lineage[ref] = append(c.lineage[ref], i)
		}
	}
	for _, ref := range e.Refs {
		for _, i := range c.follow[ref] {
			named(i, false)
		}
	}
	for _, i := range c.lineage[e.Body] {
		if isNode {
			i.nodes[node] = true
		}
		for _, ref := range e.Refs {
			c.lineage[ref] = append(c.lineage[ref], i)
		}
	}
}

// Judge returns the acts that were not allowed, in the order of the log, and the bodies that were erased as they may be,
// each with the index of the last such act. It is called when Back has had the whole log.
func (c *Custody) Judge() ([]Refusal, map[canon.Digest]int64) {
	refusals, gone := slices.Clone(c.refusals), map[canon.Digest]int64{}
	for _, i := range c.items {
		if why := c.refuse(i); why != "" {
			refusals = append(refusals, Refusal{i.act.Index, i.digest, why, !i.found})
		} else {
			gone[i.digest] = i.act.Index
		}
	}
	slices.SortStableFunc(refusals, func(a, b Refusal) int { return cmp.Compare(a.Index, b.Index) })
	return refusals, gone
}

// refuse says why a body was not to be erased, or nothing.
func (c *Custody) refuse(i *erased) string {
	switch {
	case !i.found:
		return "no earlier entry has it as its body"
	case i.other != "":
		return fmt.Sprintf("it is the body of %s, of class %s, not %s", i.other, ClassOf(i.other), i.act.Class)
	case i.until > i.act.Time:
		return fmt.Sprintf("%s is kept until %s, it was %s", i.kept, i.until, i.act.Time)
	}
	for _, h := range c.holds {
		if i.act.Index <= h.from || i.act.Index >= h.to {
			continue
		}
		if h.covers[i.digest] {
			return fmt.Sprintf("the hold %q covers it", h.name)
		}
		for _, n := range slices.Sorted(maps.Keys(i.nodes)) {
			if h.nodes[n] {
				return fmt.Sprintf("the hold %q covers its node %s", h.name, n)
			}
		}
	}
	return ""
}
