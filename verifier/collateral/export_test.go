package collateral

import "time"

// SetTimeout sets how long one request may take.
func (f *Fetcher) SetTimeout(d time.Duration) { f.timeout = d }
