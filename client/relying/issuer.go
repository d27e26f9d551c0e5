package relying

import (
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

// Issuer is a verifier that a relying party has pinned by its origin. It keeps the issuer's keys for [KeysFor] and fetches
// them sooner for a token with a key that it has not seen: the issuer publishes a key from its first result on, and a
// retired one until its last result has expired. It may be used by several goroutines.
type Issuer struct {
	client *client.Client
	now    func() time.Time

	mu      sync.Mutex // held while keys are fetched, so that one fetch serves all who wait
	keys    Keys
	fetched time.Time // when they last were, or could not be
	err     error     // of that fetch
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
	if err != nil {
		return Result{}, err
	}
	r, err := Verify(token, keys, want, i.now())
	if !errors.Is(err, ErrUnknownKey) {
		return r, err
	}
	if keys, err = i.current(ctx, MinFetch); err != nil {
		return Result{}, err
	}
	return Verify(token, keys, want, i.now())
}

// current returns keys that were fetched no longer ago than age. A fetch that failed counts for [MinFetch], then it is
// tried again.
func (i *Issuer) current(ctx context.Context, age time.Duration) (Keys, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		age = MinFetch
	}
	if now := i.now(); i.fetched.IsZero() || now.Sub(i.fetched) >= age {
		i.fetched = now
		i.keys = Keys{}
		var data []byte
		if data, i.err = i.client.JWKS(ctx); i.err == nil {
			i.keys, i.err = ParseKeys(data)
		}
		if ctx.Err() != nil {
			i.fetched = time.Time{} // the caller's own end says nothing of the issuer
		}
	}
	return i.keys, i.err
}
