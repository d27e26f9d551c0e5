// Package alloc holds readers of hostile bytes to the house's law of allocation, in tests.
package alloc

import (
	"runtime"
	"testing"
)

// Within runs work, which reads so many bytes of input, and fails the test where it allocates more than 16 times these
// and 1 MiB. It returns what was allocated. What other goroutines allocate meanwhile counts too.
func Within(t testing.TB, input int, work func()) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	got := after.TotalAlloc - before.TotalAlloc
	if most := uint64(16*input + 1<<20); got > most {
		t.Errorf("%d bytes allocated for %d of input, at most %d", got, input, most)
	}
	return got
}
