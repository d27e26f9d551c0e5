package collateral

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/assay-network/assay/internal/canon"
)

// once sends one request. delay is what the service asked for before the next; zero: it did not say.
func (f *Fetcher) once(ctx context.Context, r request) (item Item, failure *Failure, delay time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	method := http.MethodGet
	if r.body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, f.origin(r.service)+r.path, bytes.NewReader(r.body))
	if err != nil {
		return item, r.failed(Refused, 0, "%v", err), 0
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/ocsp-request")
	}
	resp, err := f.http.Do(req)
	if errors.Is(err, errElsewhere) {
		return item, r.failed(Refused, 0, "%v", errElsewhere), 0
	}
	if err != nil {
		return item, r.failed(Unreachable, 0, "%s", reason(err)), 0
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound:
		return item, r.failed(NotPublished, 0, "%s has no such item", r.service), 0
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return item, r.failed(Busy, 0, "%s answered %d", r.service, code), retryAfter(resp.Header, f.now())
	case code >= 500:
		return item, r.failed(Unreachable, 0, "%s answered %d", r.service, code), 0
	default:
		return item, r.failed(Refused, 0, "%s answered %d", r.service, code), 0
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.limit+1))
	switch {
	case err != nil:
		return item, r.failed(Unreachable, 0, "the answer breaks off: %s", reason(err)), 0
	case int64(len(body)) > r.limit:
		return item, r.failed(Refused, 0, "the answer has more than %d bytes", r.limit), 0
	}
	if item, err = r.read(resp.Header, body, canon.At(f.now())); err != nil {
		return item, r.failed(Refused, 0, "the answer is not used: %v", err), 0
	}
	return item, nil, 0
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if s, err := strconv.Atoi(text); err == nil && s > 0 {
		return min(time.Duration(min(s, 1<<20))*time.Second, MaxDelay)
	}
	if t, err := http.ParseTime(text); err == nil && t.After(now) {
		return min(t.Sub(now), MaxDelay)
	}
	return 0
}
