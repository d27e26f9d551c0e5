package relying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/assay-network/assay/client"
)

// Limits on what a token may say and a key set is believed for.
const (
	MaxLife  = 15 * time.Minute // from issue to expiry
	Slack    = time.Minute      // that the issuer's clock may be ahead
	KeysFor  = 10 * time.Minute // for which a fetched set is used
	MinFetch = 10 * time.Second // between two fetches, so that made-up key ids cost the issuer little
)

// errOldKeys means that the clock went past [KeysFor] while keys were fetched.
var errOldKeys = errors.New("attestation result: the issuer's keys are too old")

// Issuer is a verifier that a relying party has pinned by its origin. It keeps the issuer's keys for [KeysFor] and fetches
// them sooner for a token with a key that it has not seen: the issuer publishes a key from its first result on, and a
// retired one until its last result has expired. An issuer that cannot be reached is asked again after [MinFetch]; until
// then, and for [KeysFor] since they were fetched, the keys at hand serve. It may be used by several goroutines.
type Issuer struct {
	client *client.Client
	now    func() time.Time

	mu      sync.Mutex
	keys    Keys
	fetched time.Time     // when keys were
	tried   time.Time     // when they last were, or could not be
	err     error         // of the last try
	flight  chan struct{} // closed when the fetch under way has ended; nil: none is under way
}

// NewIssuer returns the issuer of an origin; it fetches nothing yet. What it believes of the keys is what TLS says of the
// origin. transport may be nil; now is the clock.
func NewIssuer(origin string, transport http.RoundTripper, now func() time.Time) (*Issuer, error) {
	c, err := client.New(client.Config{URL: origin, Transport: transport})
	if err != nil {
		return nil, err
	}
	return &Issuer{client: c, now: now}, nil
}

// Verify checks a token as the function [Verify] does, with the issuer's own keys. The issuer of want may be left out.
func (i *Issuer) Verify(ctx context.Context, token string, want Expect) (Result, error) {
	if want.Issuer == "" {
		want.Issuer = i.client.Origin()
	}
	if got, err := client.Origin(want.Issuer); err != nil || got != i.client.Origin() {
		return Result{}, fmt.Errorf("expectations: issuer %.80q, the keys are of %q", want.Issuer, i.client.Origin())
	}
	keys, err := i.current(ctx, KeysFor)
	if keys.byID == nil {
		return Result{}, err
	}
	r, err := Verify(token, keys, want, i.now())
	if !errors.Is(err, ErrUnknownKey) {
		return r, err
	}
	keys, fetchErr := i.current(ctx, MinFetch)
	if r, err = Verify(token, keys, want, i.now()); errors.Is(err, ErrUnknownKey) && fetchErr != nil {
		err = fmt.Errorf("%w; the set was not fetched anew: %w", err, fetchErr)
	}
	return r, err
}

// current returns keys that were fetched no longer ago than age, or else after one more try, those that it has, up to
// [KeysFor], beside what was wrong with the last try. All who wait share one fetch, which no caller's end interrupts: a
// made-up token and a caller who leaves must not cost others their keys.
func (i *Issuer) current(ctx context.Context, age time.Duration) (Keys, error) {
	i.mu.Lock()
	now := i.now()
	var wait chan struct{}
	if i.fetched.IsZero() || now.Sub(i.fetched) >= age {
		if i.flight == nil && (i.tried.IsZero() || now.Sub(i.tried) >= MinFetch) {
			i.flight = make(chan struct{})
			go i.fetch(context.WithoutCancel(ctx), now)
		}
		wait = i.flight
	}
	i.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return Keys{}, ctx.Err()
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fetched.IsZero() || now.Sub(i.fetched) >= KeysFor {
		return Keys{}, cmp.Or(i.err, errOldKeys)
	}
	return i.keys, i.err
}

// fetch tries once, at a time; the client bounds how long that takes.
func (i *Issuer) fetch(ctx context.Context, now time.Time) {
	data, err := i.client.JWKS(ctx)
	var keys Keys
	if err == nil {
		keys, err = ParseKeys(data)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tried, i.err = now, err
	if err == nil {
		i.keys, i.fetched = keys, now
	}
	close(i.flight)
	i.flight = nil
}
