package audit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/assay-network/assay/policy"
)

// TestTaintedIsListedAmongMany: time ends every accept, and there are more than a report lists. The one that somebody has to
// act on is listed all the same, first, and merged reports say what the whole one does. It is a test from within because
// thousands of appraisals would take minutes.
func TestTaintedIsListedAmongMany(t *testing.T) {
	var changes []Change
	for i := range int64(2*MaxChanges + 2) {
		c := Change{Index: i, Node: "node", Policy: "p", Then: "accept", Now: "reject", Why: []Flip{{Rule: "require[0] a.b", Claim: "a.b", Since: 100}}}
		if i%2 == 1 {
			c.Then = "reject"
			c.conclude(policy.Reject, policy.Reject)
		} else {
			c.conclude(policy.Accept, policy.Reject)
		}
		changes = append(changes, c)
	}
	tainted := Change{Index: 9000, Node: "stolen", Policy: "p", Then: "accept", Now: "reject", Why: []Flip{{Rule: "require[0] a.b", Claim: "a.b", Since: 100, By: []By{{Kind: "deny-list"}}}}}
	tainted.conclude(policy.Accept, policy.Reject)
	standing := Change{Index: 9001, Then: "accept", Now: "accept"}
	standing.conclude(policy.Accept, policy.Accept)
	cleared := Change{Index: 9002, Node: "late", Policy: "p", Then: "undecided", Now: "accept"}
	cleared.conclude(policy.Undecided, policy.Accept)
	changes = append(changes, tainted, standing, cleared)

	var whole, one, two Rejudged
	for i, c := range changes {
		whole.count(c)
		if i < 700 {
			one.count(c)
		} else {
			two.count(c)
		}
	}
	if whole.Verdicts != 2*MaxChanges+5 || whole.Lapsed != MaxChanges+1 || whole.Otherwise != MaxChanges+1 || whole.Tainted != 1 || whole.Standing != 1 || whole.Cleared != 1 {
		t.Errorf("%d verdicts: %d lapsed, %d otherwise, %d tainted, %d standing, %d cleared", whole.Verdicts, whole.Lapsed, whole.Otherwise, whole.Tainted, whole.Standing, whole.Cleared)
	}
	if len(whole.Changes) != 2*MaxChanges+2 {
		t.Errorf("%d listed, want %d of each of two states, and two", len(whole.Changes), MaxChanges)
	}
	if one.merge(two); !reflect.DeepEqual(one, whole) {
		t.Error("merged: another list")
	}
	var text strings.Builder
	whole.text(func(name, format string, args ...any) { fmt.Fprintf(&text, name+" "+format+"\n", args...) })
	lines := strings.Split(text.String(), "\n")
	if lines[2] != "tainted entry 9000, stolen by p: then accept, now reject, since 1970-01-01T00:01:40Z" {
		t.Errorf("first: %s", lines[2])
	}
	for _, want := range []string{
		"\nlapsed and 1 more, which are not listed\n", "\notherwise those of later entries are not listed\n",
		"\notherwise entry 1, node by p: reject, and now for other reasons too, since 1970-01-01T00:01:40Z\n", "\ncleared entry 9002, late by p: then undecided, now accept\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("not there: %s", want)
		}
	}
}
