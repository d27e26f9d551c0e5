package collateral

import "time"

// budget lets events pass at a rate, with a burst after a pause. Its state is the moment at which it will be as if unused;
// the zero budget is unused.
type budget struct{ idle time.Time }

// take takes the next place and returns how long to wait for it; it takes none where that is longer than atMost.
func (b *budget) take(now time.Time, every time.Duration, burst int, atMost time.Duration) (wait time.Duration, ok bool) {
	idle := b.idle
	if idle.Before(now) {
		idle = now
	}
	idle = idle.Add(every)
	wait = max(0, idle.Add(-time.Duration(burst)*every).Sub(now))
	if wait > atMost {
		return wait, false
	}
	b.idle = idle
	return wait, true
}

// unused reports whether the budget can be forgotten.
func (b *budget) unused(now time.Time) bool { return !b.idle.After(now) }
