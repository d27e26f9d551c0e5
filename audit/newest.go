package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// subject is of what issues of collateral speak.
type subject struct{ kind, name string }

// loggedIssue is an issue and the entry that logged it first.
type loggedIssue struct {
	attest.Issue
	index int64
	time  canon.Time
}

// issues is what the log had of vendors' data, as far as it comes in issues.
type issues struct {
	of    map[canon.Digest]attest.Issue
	read  map[canon.Digest]bool
	by    map[subject][]loggedIssue // in the order of the log, each newer than those before; what was no news is left out
	early map[subject][]loggedIssue // those that were logged before they were issued, by the server's clock: hardly any
}

func newIssues() issues {
	return issues{map[canon.Digest]attest.Issue{}, map[canon.Digest]bool{}, map[subject][]loggedIssue{}, map[subject][]loggedIssue{}}
}

// learn notes an item that the log has.
func (is *issues) learn(index int64, at canon.Time, kind string, digest canon.Digest, data []byte) {
	if is.read[digest] {
		return
	}
	is.read[digest] = true
	i, ok := verifier.IssueOf(attest.Collateral{Kind: kind, Data: data})
	if !ok {
		return
	}
	is.of[digest] = i
	s, l := subject{kind, i.Subject}, loggedIssue{i, index, at}
	switch all := is.by[s]; {
	case i.At > at:
		is.early[s] = append(is.early[s], l)
	case len(all) == 0 || i.Newer(all[len(all)-1].Issue):
		is.by[s] = append(all, l)
	}
}

// newest returns the newest issue of a subject that stood in the log before an index at a time, and spoke of that time.
// What was logged within the slack may not have been seen yet by who judged.
func (is *issues) newest(s subject, index int64, at canon.Time) (newest loggedIssue, ok bool) {
	all := is.by[s]
	end, _ := slices.BinarySearchFunc(all, index, func(l loggedIssue, index int64) int { return int(l.index - index) })
	for _, l := range slices.Backward(all[:end]) {
		if l.time+timeSlack <= at {
			newest, ok = l, true
			break
		}
	}
	for _, l := range is.early[s] {
		if l.index < index && l.time+timeSlack <= at && l.At <= at && (!ok || l.Newer(newest.Issue)) {
			newest, ok = l, true
		}
	}
	return newest, ok
}

// before returns the newest issue of a subject that was logged before an index.
func (is *issues) before(s subject, index int64) (newest loggedIssue, ok bool) {
	for _, l := range slices.Concat(is.by[s], is.early[s]) {
		if l.index < index && (!ok || l.Newer(newest.Issue)) {
			newest, ok = l, true
		}
	}
	return newest, ok
}

// subjects returns what there are issues of, ordered.
func (is *issues) subjects() []subject {
	all := map[subject]bool{}
	for s := range is.by {
		all[s] = true
	}
	for s := range is.early {
		all[s] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

// checkNewest reports collateral of an appraisal that was not the newest of its subject in the log. The newer item has to
// stand in the log, and is taken at its word: whether a vendor signed it, appraisals that use it find out.
func (j *job) checkNewest(a verifier.Appraisal, at *appraisal) {
	used := map[subject]attest.Issue{}
	var order []subject
	for _, in := range a.Inputs {
		i, ok := j.issues.of[in.Digest]
		if !ok {
			continue
		}
		s := subject{in.Kind, i.Subject}
		old, have := used[s]
		if !have {
			order = append(order, s)
		}
		if !have || i.Newer(old) {
			used[s] = i
		}
	}
	for _, s := range order {
		if l, ok := j.issues.newest(s, at.index, a.AsOf); ok && l.Newer(used[s]) {
			j.res.fault(placed(Fault{What: fmt.Sprintf("not the newest %s: judged by %s, entry %d of %s has number %d of %s", s.kind, used[s], l.index, l.time, l.Number, l.At)}, at.index, ledger.KindAppraisal))
		}
	}
}
