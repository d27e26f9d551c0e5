package agent_test

import (
	"testing"

	"github.com/assay-network/assay/agent"
)

func TestReach(t *testing.T) {
	for tee, want := range map[bool][2]string{false: {"identified", "attested"}, true: {"attested", "attested-facility"}} {
		reached, next := agent.Reach(tee)
		if reached.Name != want[0] || next.Name != want[1] || len(next.Asks) == 0 {
			t.Errorf("TEE %v: %s, then %s, want %v", tee, reached.Name, next.Name, want)
		}
	}
}
