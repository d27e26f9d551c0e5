package benchmark_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/benchmark"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/market/capacity"
)

// TestLoopWaitsForWhatIsLeft: a driver that takes its time to take the memory makes its node no later than that.
func TestLoopWaitsForWhatIsLeft(t *testing.T) {
	t.Setenv(envDriver, "cpu")
	shape, err := capacity.ShapeFor(capacity.MinMemoryMiB)
	must(t, err)
	for name, tc := range map[string]struct {
		clock []int64 // ms after the plan, at which the agent asks
		waits time.Duration
	}{
		"while it took 4 s":  {[]int64{0, 4000}, time.Second},
		"while it took none": {[]int64{0, 0}, 5 * time.Second},
		"while it took 9 s":  {[]int64{0, 9000}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b := client.Benchmark{Now: begin, Starts: begin + 5000, Expires: begin + 600_000, Shape: &shape}
				if asked < len(tc.clock) {
					b.Now += tc.clock[asked]
				} else {
					b = client.Benchmark{Now: begin} // called off: what it waited is all that is asked here
				}
				asked++
				json.NewEncoder(w).Encode(b)
			}))
			defer s.Close()
			c, err := client.New(client.Config{URL: s.URL, Credential: "node"})
			must(t, err)
			var waits []time.Duration
			l := benchmark.Loop{Server: c, Node: "node", Driver: []string{os.Args[0]}, After: func(d time.Duration) <-chan time.Time {
				waits = append(waits, d)
				done := make(chan time.Time, 1)
				done <- time.Time{}
				return done
			}}
			r, err := l.Once(t.Context())
			must(t, err)
			if r != nil || len(waits) != 1 || waits[0] != tc.waits {
				t.Errorf("result %v, waited %v, want %s once", r, waits, tc.waits)
			}
		})
	}
}
