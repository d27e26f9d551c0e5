package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/tar"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// ScopeType is the type of the scope document.
const ScopeType = "assay/scope/v1"

// Criteria say which evidence somebody is to see. Evidence matches if all of them hold; the zero Criteria match all.
type Criteria struct {
	Nodes     []string   `json:"nodes,omitzero"`      // submitted by one of these; none: by any
	FromIndex int64      `json:"from_index,omitzero"` // its entry's index is at least this
	ToIndex   int64      `json:"to_index,omitzero"`   // and less than this; zero: any
	FromTime  canon.Time `json:"from_time,omitzero"`  // its entry is not earlier
	ToTime    canon.Time `json:"to_time,omitzero"`    // and not later; zero: any
	Verdict   string     `json:"verdict,omitzero"`    // some verdict on it says this; empty: any, or none
}

// Check refuses criteria that nothing can match.
func (c Criteria) Check() error {
	var o policy.Outcome
	switch {
	case len(c.Nodes) > MaxScopeNodes:
		return fmt.Errorf("scope: %d nodes, at most %d", len(c.Nodes), MaxScopeNodes)
	case c.FromIndex < 0 || c.ToIndex < 0 || c.ToIndex > 0 && c.ToIndex <= c.FromIndex:
		return fmt.Errorf("scope: from index %d to before %d", c.FromIndex, c.ToIndex)
	case c.FromTime < 0 || c.ToTime < 0 || c.ToTime > 0 && c.ToTime < c.FromTime:
		return fmt.Errorf("scope: from %s to %s", c.FromTime, c.ToTime)
	case c.Verdict != "" && o.UnmarshalText([]byte(c.Verdict)) != nil:
		return fmt.Errorf("scope: verdict %.80q: want accept, reject or undecided", c.Verdict)
	}
	return nil
}

// matches says whether evidence is in the scope, but for what was decided on it.
func (c Criteria) matches(stream string, index int64, at canon.Time) bool {
	node := func(n string) bool { return stream == ledger.NodeStream(n) }
	return (len(c.Nodes) == 0 || slices.ContainsFunc(c.Nodes, node)) &&
		index >= c.FromIndex && (c.ToIndex == 0 || index < c.ToIndex) && at >= c.FromTime && (c.ToTime == 0 || at <= c.ToTime)
}

// String says the criteria in words.
func (c Criteria) String() string {
	var words []string
	if len(c.Nodes) > 0 {
		words = append(words, "node "+strings.Join(c.Nodes, ", "))
	}
	if c.FromIndex > 0 || c.ToIndex > 0 {
		words = append(words, strings.TrimSuffix(fmt.Sprintf("entries %d to before %d", c.FromIndex, c.ToIndex), " to before 0"))
	}
	if c.FromTime > 0 {
		words = append(words, fmt.Sprintf("from %s", c.FromTime))
	}
	if c.ToTime > 0 {
		words = append(words, fmt.Sprintf("to %s", c.ToTime))
	}
	if c.Verdict != "" {
		words = append(words, "verdict "+c.Verdict)
	}
	if len(words) == 0 {
		return "all evidence"
	}
	return strings.Join(words, ", ")
}

// Scope says what a scoped export holds: every leaf of the log, but openings and blobs of some entries only.
type Scope struct {
	Type     string       `json:"type"`
	Criteria Criteria     `json:"criteria"`
	Entries  []Span       `json:"entries"` // that can be opened, in log order
	Check    canon.Digest `json:"check"`   // of the document without it: an altered byte shows. It keeps no forger out
}

// Span is a run of entries.
type Span struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

func (s Scope) check() (canon.Digest, error) {
	s.Check = canon.Digest{}
	data, err := canon.Marshal(s)
	return canon.Hash(ScopeType, data), err
}

// ParseScope reads the canonical bytes of a scope.
func ParseScope(data []byte) (Scope, error) {
	var s Scope
	if err := canon.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("scope: %w", err)
	}
	if s.Type != ScopeType {
		return s, fmt.Errorf("scope: type %.80q is not known to this build, want %q", s.Type, ScopeType)
	}
	if err := s.Criteria.Check(); err != nil {
		return s, err
	}
	next := int64(0)
	for _, e := range s.Entries {
		if e.First < next || e.Last < e.First {
			return s, errors.New("scope: entries are not listed in order, each once")
		}
		next = e.Last + 2 // two runs that touch are one
	}
	if len(s.Entries) == 0 || s.Entries[0].First != 0 {
		return s, errors.New("scope: without entry 0, which holds the keys")
	}
	if want, err := s.check(); err != nil || s.Check != want {
		return s, errors.New("scope: it does not have the digest that it says")
	}
	return s, nil
}

// has reports whether an entry can be opened.
func (s Scope) has(index int64) bool {
	_, ok := slices.BinarySearchFunc(s.Entries, index, func(e Span, i int64) int {
		switch {
		case e.Last < i:
			return -1
		case e.First > i:
			return 1
		}
		return 0
	})
	return ok
}

// ExportScope writes an export for somebody who is to see a part of a log: the checkpoint, every tile, and the openings and
// blobs of the evidence that matches, of what was made of it, and of what that rests on. All else stays a leaf, which says
// nothing. It returns the scope that stands in the file.
func ExportScope(ctx context.Context, src ledger.Source, criteria Criteria, w io.Writer) (Scope, error) {
	fail := func(err error) (Scope, error) { return Scope{}, fmt.Errorf("export: %w", err) }
	if err := criteria.Check(); err != nil {
		return fail(err)
	}
	r := newReplay(src, nil, Options{})
	whole, err := r.readLog(ctx)
	if err == nil && !whole {
		r.orderFaults()
		err = &r.faults[0]
	}
	if err != nil {
		return fail(err)
	}
	indexes, err := r.selected(ctx, criteria)
	if err != nil {
		return fail(err)
	}
	s := Scope{Type: ScopeType, Criteria: criteria, Entries: []Span{}}
	for _, i := range indexes {
		if n := len(s.Entries); n > 0 && s.Entries[n-1].Last == i-1 {
			s.Entries[n-1].Last = i
		} else {
			s.Entries = append(s.Entries, Span{i, i})
		}
	}
	if s.Check, err = s.check(); err != nil {
		return fail(err)
	}
	text, err := canon.Marshal(s)
	if err != nil {
		return fail(err)
	}
	var blobs []canon.Digest
	kept := newKeeping(src)
	for _, i := range indexes {
		commitment, err := r.leaf(ctx, i)
		if err != nil {
			return fail(err)
		}
		e, err := r.entry(ctx, i)
		if err != nil {
			return fail(err)
		}
		inner, err := Names(ctx, src, e)
		if r.wasErased(e.Body) && isAbsent(err) {
			err = nil
		}
		if err == nil && e.Kind == ledger.KindAppraisal {
			err = kept.bracket(ctx, i)
		}
		if err != nil {
			return fail(fmt.Errorf("entry %d: %w", i, err))
		}
		blobs = append(append(blobs, commitment, e.Body), inner...)
	}
	note, err := src.Checkpoint(ctx)
	if err != nil {
		return fail(err)
	}
	if c, err := ledger.ReadCheckpoint(note); err != nil || c.Size != r.report.Size {
		return fail(errors.New("the log grew meanwhile: try again"))
	}
	if err := writeExport(ctx, src, w, preamble{note, text, kept}, r.report.Size, slices.Compact(sorted(blobs)), r.wasErased); err != nil {
		return fail(err)
	}
	return s, nil
}

// selected returns the indexes of the entries of a scope, in order.
func (r *replay) selected(ctx context.Context, criteria Criteria) ([]int64, error) {
	chosen := map[int64]bool{}
	for _, i := range r.keysetsAt {
		chosen[i] = true
	}
	for row := range r.submissions.n {
		at := r.submissions.at(row).index
		e, err := r.entry(ctx, at)
		if err != nil {
			return nil, err
		}
		if !criteria.matches(e.Stream, at, e.Time) {
			continue
		}
		ev, err := r.evidenceAt(ctx, row)
		if err != nil {
			return nil, err
		}
		if criteria.Verdict != "" {
			said, err := r.decided(ctx, ev, criteria.Verdict)
			if err != nil {
				return nil, err
			}
			if !said {
				continue
			}
		}
		if err := r.choose(ctx, ev, chosen); err != nil {
			return nil, err
		}
	}
	out := make([]int64, 0, len(chosen))
	for i := range chosen {
		out = append(out, i)
	}
	slices.Sort(out)
	return out, nil
}

// decided reports whether some verdict on evidence says a word. One that cannot be read says nothing.
func (r *replay) decided(ctx context.Context, ev *evidence, word string) (bool, error) {
	for _, a := range ev.appraisals {
		for _, v := range a.verdicts {
			body, err := r.blob(ctx, v.body)
			if r.wasErased(v.body) && err != nil {
				continue
			}
			if err != nil {
				return false, err
			}
			env, err := ledger.ParseEnvelope(body)
			if err != nil {
				continue
			}
			if res, err := policy.ParseResult(env.Payload); err == nil && res.Verdict.Outcome.String() == word {
				return true, nil
			}
		}
	}
	return false, nil
}

// choose adds evidence, what was made of it, and the entries that this rests on.
func (r *replay) choose(ctx context.Context, ev *evidence, chosen map[int64]bool) error {
	chosen[ev.index] = true
	r.chooseErasure(ev.body, chosen)
	if ev.challenge != nil {
		chosen[ev.challenge.index] = true
		r.chooseErasure(ev.challenge.body, chosen)
	}
	item := func(kind string, digest canon.Digest) {
		if at, ok := r.items[logged{kind, digest}]; ok {
			chosen[at] = true
		}
	}
	for _, a := range ev.appraisals {
		chosen[a.index] = true
		for _, v := range a.verdicts {
			chosen[v.index] = true
			r.chooseErasure(v.body, chosen)
			r.chooseErasure(v.policy, chosen)
			at, _, ok, err := r.find(ctx, ledger.KindPolicy, v.policy)
			if err != nil {
				return err
			}
			if ok {
				chosen[at] = true
			}
			if err := r.chooseEngine(ctx, v, chosen); err != nil {
				return err
			}
		}
		r.chooseErasure(a.body, chosen)
		body, err := r.blob(ctx, a.body)
		if r.wasErased(a.body) && err != nil {
			continue
		}
		if err != nil {
			return err
		}
		logged, err := verifier.ParseAppraisal(body)
		if err != nil {
			continue
		}
		for _, in := range logged.Inputs {
			switch in.Kind {
			case verifier.InputEvidence, verifier.InputRoots:
			case verifier.InputReferences:
				item(ledger.KindReference, in.Digest)
			case verifier.InputExpect:
				data, err := r.blob(ctx, in.Digest)
				if err != nil {
					return err
				}
				var e attest.Expect
				if canon.Unmarshal(data, &e) != nil || e.Challenge == nil {
					continue
				}
				told := e.Registry
				for _, id := range e.Enrolled {
					told = append(told, attest.Holder{Identity: id, Node: e.Challenge.Node})
				}
				for _, t := range told {
					for _, at := range r.holders.entries(t) {
						chosen[at] = true
					}
				}
				for _, act := range e.Activations {
					if digest, err := enrolmentOf(e.Challenge.Node, act); err == nil {
						item(ledger.KindEnrolment, digest)
					}
				}
			default:
				item(in.Kind, in.Digest)
			}
		}
	}
	return nil
}

// preamble is what stands in an export before the tiles.
type preamble struct {
	note  []byte
	scope []byte // nil: the export is whole
	kept  *keeping
}

// writeExport writes the parts of an export. Of its blobs, those that were erased need not be there.
func writeExport(ctx context.Context, src ledger.Source, w io.Writer, p preamble, size int64, blobs []canon.Digest, erased func(canon.Digest) bool) error {
	if err := tar.Write(w, partCheckpoint, p.note); err != nil {
		return err
	}
	before, err := keysetsBefore(ctx, src)
	if err == nil && before != nil {
		err = tar.Write(w, partKeysets, before)
	}
	if err != nil {
		return err
	}
	if p.scope != nil {
		if err := tar.Write(w, partScope, p.scope); err != nil {
			return err
		}
	}
	for _, size := range p.kept.sizes() {
		if err := tar.Write(w, ledger.KeptName(size), p.kept.notes[size]); err != nil {
			return err
		}
	}
	for t := range ledger.Tiles(0, size) {
		data, err := src.Tile(ctx, t)
		if err == nil {
			err = tar.Write(w, t.Path(), data)
		}
		if err != nil {
			return err
		}
	}
	for _, d := range blobs {
		data, err := readBlob(ctx, src, d)
		if erased(d) && isAbsent(err) {
			continue
		}
		if err == nil {
			err = tar.Write(w, blobName(d), data)
		}
		if err != nil {
			return err
		}
	}
	return tar.End(w)
}

// scoped is a source that can be of a part of a log.
type scoped interface {
	// Scope returns the scope document; without: [io/fs.ErrNotExist].
	Scope(ctx context.Context) ([]byte, error)
}

// Scoped is what a report says of the scope of what was replayed.
type Scoped struct {
	Criteria Criteria `json:"criteria"`
	Entries  int64    `json:"entries"` // that were opened; of the others only the leaf was seen
}

// readScope finds out whether the source is of a part of the log.
func (r *replay) readScope(ctx context.Context) error {
	src, ok := r.src.(scoped)
	if !ok {
		return nil
	}
	data, err := src.Scope(ctx)
	switch {
	case isNotExist(err):
		return nil
	case err != nil:
		return err
	}
	s, err := ParseScope(data)
	if err == nil && s.Entries[len(s.Entries)-1].Last >= r.report.Size {
		err = fmt.Errorf("scope: of entries up to %d, the log has size %d", s.Entries[len(s.Entries)-1].Last, r.report.Size)
	}
	if err != nil {
		r.fault(Fault{Part: partScope, Index: NoIndex, What: err.Error()})
		return nil
	}
	r.scope = &s
	r.report.Scope = &Scoped{Criteria: s.Criteria}
	return nil
}

// outside reports whether an entry is not in the scope. Its leaf still answers for a promise.
func (r *replay) outside(index int64, commitment canon.Digest) bool {
	if r.scope == nil || r.scope.has(index) {
		if r.scope != nil {
			r.report.Scope.Entries++
		}
		return false
	}
	if w, ok := r.wanted[commitment]; ok {
		*w = found{there: true, outside: true, index: index}
	}
	return true
}

// extend is [ledger.Tail.Extend], but in a scope streams have gaps: where entries were left out, the next one is taken at
// its word. A node's own stream may lack none between two that match, unless the verdict decides what matches.
func (r *replay) extend(tail ledger.Tail, e ledger.Entry) (ledger.Tail, error) {
	if r.scope != nil && e.Sequence > tail.Next {
		if e.Kind == ledger.KindEvidence && tail.Next > 0 && r.scope.Criteria.Verdict == "" {
			return tail, fmt.Errorf("stream %s: the scope lacks entries %d to %d, which match it", e.Stream, tail.Next, e.Sequence-1)
		}
		tail = ledger.Tail{Next: e.Sequence, Last: e.Previous}
	}
	return tail.Extend(e)
}

// checkScope compares evidence in a scope with its criteria.
func (r *replay) checkScope(index int64, e ledger.Entry) error {
	if r.scope == nil || r.scope.Criteria.matches(e.Stream, index, e.Time) {
		return nil
	}
	return wrong("in the scope, which is: %s", r.scope.Criteria)
}
