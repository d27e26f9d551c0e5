package doc

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The search that gives up early finds what the whole search finds.
func TestNearestGivesUpOnNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	word := func() string {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	found := 0
	for range 5000 {
		w, candidates := word(), []string{word(), word(), word(), word()}
		best, within := "", max(2, len(w)/3)+1
		for _, c := range candidates {
			if d := distance(w, c, math.MaxInt); d < within {
				best, within = c, d
			}
		}
		if got := Nearest(w, candidates); got != best {
			t.Fatalf("Nearest(%q, %q) = %q, want %q", w, candidates, got, best)
		}
		if best != "" {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d of 5000 words have a nearest one", found)
	}
}
