package verifier_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/testvectors"
)

// minted returns the cases of testvectors/ by name.
func minted(t testing.TB) (map[string]testvectors.Case, []string) {
	t.Helper()
	all, err := testvectors.Load(os.DirFS(filepath.Join(vectors.Root(t), "testvectors")))
	if err != nil {
		t.Fatal(err)
	}
	byName, names := map[string]testvectors.Case{}, []string{}
	for _, c := range all {
		byName[c.Name] = c
		names = append(names, c.Name)
	}
	return byName, names
}

// seen is a memory for tests that ask for the same judgements again. TestMemoryChangesNothing says that it may be shared.
var seen = sync.OnceValue(attest.NewMemory)

func judge(t testing.TB, c testvectors.Case) testvectors.Judgement {
	t.Helper()
	j, err := c.Judge(seen())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// find returns the claims that an expectation speaks of.
func find(s claim.Set, e testvectors.Expected) (found []claim.Claim) {
	for _, c := range s {
		if c.ID == e.ID && (e.Subject == "" || e.Subject == c.Subject) {
			found = append(found, c)
		}
	}
	return found
}

func word(c claim.Claim) string {
	if c.Status == claim.Affirmed {
		return c.Value
	}
	return c.Reason.Code()
}

// TestCases holds every case against its stated claims and verdicts, and every twin against the case it differs from:
// what it was made for changes, what rests on that falls with it, and nothing else moves.
func TestCases(t *testing.T) {
	all, names := minted(t)
	if len(names) < 100 {
		t.Fatalf("%d cases", len(names))
	}
	for _, name := range names {
		c := all[name]
		t.Run(name, func(t *testing.T) {
			j := judge(t, c)
			for _, e := range c.Expected {
				found := find(j.Appraisal.Claims, e)
				if len(found) == 0 {
					t.Errorf("no claim %s", e.ID)
				}
				for _, f := range found {
					if f.Status != e.Status || e.Word != "" && word(f) != e.Word {
						t.Errorf("%s of %s is %s %q (%s), want %s %q", f.ID, f.Subject, f.Status, f.Value, f.Reason, e.Status, e.Word)
					}
				}
			}
			for i, v := range c.Verdicts {
				if got := j.Verdicts[i]; got.Outcome != v.Outcome {
					t.Errorf("%s: %s, want %s; reasons %+v", v.Policy, got.Outcome, v.Outcome, got.Reasons)
				}
			}
			if c.TwinOf != "" {
				compareTwin(t, c, j.Appraisal.Claims, judge(t, all[c.TwinOf]).Appraisal.Claims)
			}
		})
	}
}

// compareTwin checks that nothing moved but what the twin names and what rests on it.
func compareTwin(t *testing.T, c testvectors.Case, twin, base claim.Set) {
	named := func(cl claim.Claim) bool {
		return slices.ContainsFunc(c.Expected, func(e testvectors.Expected) bool {
			return e.ID == cl.ID && (e.Subject == "" || e.Subject == cl.Subject)
		})
	}
	for _, was := range base {
		is := twin.Find(was.ID, was.Subject)
		switch {
		case is == nil:
			// Where a component or the bundle cannot be read, it has no other claims.
			s := twin.Find(claim.Room(was.ID)+".structure", was.Subject)
			if s == nil && named(claim.Claim{ID: "set.count", Subject: "set"}) {
				continue // the twin is that the component is not there
			}
			if b := twin.Find("bundle.structure", "node"); (s == nil || s.Status != claim.Contradicted) && b.Status != claim.Contradicted {
				t.Errorf("%s of %s is gone", was.ID, was.Subject)
			}
		case named(*is):
		case is.Status == was.Status && is.Value == was.Value && (is.Status == claim.Affirmed || is.Reason.Code() == was.Reason.Code()):
		case is.Status == claim.Unknown && is.Reason.Code() == claim.RestsOn && rootIsNamed(*is, twin, named):
		default:
			t.Errorf("%s of %s was %s %q (%s), is %s %q (%s)", was.ID, was.Subject, was.Status, was.Value, was.Reason, is.Status, is.Value, is.Reason)
		}
	}
	for _, is := range twin {
		if base.Find(is.ID, is.Subject) == nil && is.Status == claim.Contradicted && !named(is) {
			t.Errorf("%s of %s is new and %s (%s)", is.ID, is.Subject, is.Status, is.Reason)
		}
	}
	if len(c.Expected) > 0 && !slices.ContainsFunc(find(twin, c.Expected[0]), func(cl claim.Claim) bool {
		was := base.Find(cl.ID, cl.Subject)
		return was == nil || was.Status != cl.Status || was.Value != cl.Value || was.Reason.Code() != cl.Reason.Code()
	}) {
		t.Errorf("%s is as in %s", c.Expected[0].ID, c.TwinOf)
	}
}

// rootIsNamed follows "rests-on" down to a claim that the twin was made for.
func rootIsNamed(c claim.Claim, s claim.Set, named func(claim.Claim) bool) bool {
	for range len(s) {
		if named(c) {
			return true
		}
		id, subject, ok := strings.Cut(strings.TrimPrefix(string(c.Reason), claim.RestsOn+" "), "@")
		if !ok {
			subject = c.Subject
		}
		base := s.Find(id, subject)
		if c.Reason.Code() != claim.RestsOn || base == nil {
			return false
		}
		c = *base
	}
	return false
}

// TestEveryClaimHasATwin: each claim of the rooms that this build judges is affirmed in a case of its own, and there is a
// twin where it is not, or where its value is another.
func TestEveryClaimHasATwin(t *testing.T) {
	all, names := minted(t)
	affirmed, moved, judged := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range names {
		c := all[name]
		for _, cl := range judge(t, c).Appraisal.Claims {
			judged[claim.Room(cl.ID)] = true
			affirmed[cl.ID] = affirmed[cl.ID] || c.TwinOf == "" && cl.Status == claim.Affirmed
		}
		for _, e := range c.Expected {
			moved[e.ID] = moved[e.ID] || c.TwinOf != ""
		}
	}
	for _, d := range claim.Catalogue() {
		if !judged[claim.Room(d.ID)] {
			continue
		}
		if !affirmed[d.ID] {
			t.Errorf("%s: no case of its own affirms it", d.ID)
		}
		if !moved[d.ID] {
			t.Errorf("%s: no twin", d.ID)
		}
	}
}
