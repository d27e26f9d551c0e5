package collateral

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

// Config is what a fetcher takes from the world.
type Config struct {
	Store   *Store
	Origins Origins // where services are asked instead of at their vendors; nil: at the vendors
	Only    bool    // ask no service but those of Origins
	Now     func() time.Time
	Sleep   func(context.Context, time.Duration) error // returns early, with an error, when the context ends
	TLS     *tls.Config                                // of requests; nil: the system's certificate authorities
}

// Fetcher asks vendors for items that a store lacks. Its methods may be called concurrently.
type Fetcher struct {
	store   *Store
	origins Origins
	only    bool
	now     func() time.Time
	sleep   func(context.Context, time.Duration) error
	http    *http.Client
	timeout time.Duration // of one request

	mu       sync.Mutex
	calls    map[string]*call // under way, by source
	refused  map[string]refusal
	paused   map[string]time.Time // until when nothing is asked, by service and budget
	budgets  map[string]*budget   // by service and budget
	subjects map[string]*budget
}

// call is one item that is being fetched for all who want it. waiters is guarded by the fetcher's mutex; the rest is
// written before done is closed.
type call struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	item    Item
	failure *Failure
}

// refusal is an answer that would be the same if asked again soon.
type refusal struct {
	until   time.Time
	failure Failure
}

// Codes of a failure.
const (
	NotAsked     = "not-asked"     // no vendor's service has it, or the need names an address of its own
	NotPublished = "not-published" // the vendor answered that it has no such item
	Refused      = "refused"       // the vendor's answer is not used: another item, lapsed, of the future, no item at all
	Busy         = "busy"          // the vendor's delay, or our own budget, leaves no room now
	Unreachable  = "unreachable"   // no answer
	TooMany      = "too-many"      // more is wanted than one call collects
)

// Failure says why an item is not at hand.
type Failure struct {
	Code   string     `json:"code"`
	Kind   string     `json:"kind"`
	Source string     `json:"source,omitzero"`
	Why    string     `json:"why"`
	Retry  canon.Time `json:"retry,omitzero"` // when asking again may help; absent: not known to
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s: %s", f.Kind, f.Code, f.Why) }

// Passing reports whether asking again later may give the item.
func (f *Failure) Passing() bool { return f.Code == Busy || f.Code == Unreachable }

// NewFetcher returns a fetcher.
func NewFetcher(c Config) *Fetcher {
	return &Fetcher{
		store: c.Store, origins: c.Origins, only: c.Only, now: c.Now, sleep: c.Sleep, timeout: RequestTimeout,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.TLS, ForceAttemptHTTP2: true,
				MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: RequestTimeout,
			},
			CheckRedirect: sameOrigin,
		},
		calls: map[string]*call{}, refused: map[string]refusal{}, paused: map[string]time.Time{}, budgets: map[string]*budget{}, subjects: map[string]*budget{},
	}
}

// errElsewhere stands for a redirect that is not followed.
var errElsewhere = errors.New("the service sends us to another origin, which is not for it to choose")

func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return errElsewhere
	}
	if len(via) > maxRedirects {
		return errors.New("the service sends us round in circles")
	}
	return nil
}

// Sleep waits on the machine's clock: what a [Config] takes outside tests.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Collected is what came of needs.
type Collected struct {
	Items    []Item
	Failures []Failure // one for each item that did not come, in the order of the needs
}

// Given returns the items as an appraisal takes them.
func (c Collected) Given() []attest.Collateral { return given(c.Items) }

// Retry returns when asking again for what is missing may help, or zero where it will not soon.
func (c Collected) Retry() (at canon.Time) {
	for _, f := range c.Failures {
		if f.Passing() && (at == 0 || f.Retry < at) {
			at = f.Retry
		}
	}
	return at
}

// Collect gets what judging something wants, for a subject whose budget it is. wanted names it, given what is at hand; it is
// asked again with what came, since some needs show only then: whether the signer of a manifest is revoked can be asked
// when the manifest is there. The context's deadline bounds all waiting.
func (f *Fetcher) Collect(ctx context.Context, subject string, wanted func(have []attest.Collateral) []attest.Need) (c Collected) {
	asked := map[string]bool{}
	for {
		var needs []attest.Need
		var left *attest.Need
		for _, n := range wanted(c.Given()) {
			switch k := key(n.Kind, n.Source); {
			case asked[k]:
			case len(asked) == MaxNeeds:
				left = &n
			default:
				asked[k] = true
				needs = append(needs, n)
			}
		}
		if len(needs) == 0 {
			if left != nil {
				c.Failures = append(c.Failures, Failure{Code: TooMany, Kind: left.Kind, Source: left.Source, Why: fmt.Sprintf("more than %d items are wanted at once", MaxNeeds)})
			}
			return c
		}
		f.collect(ctx, subject, needs, &c)
	}
}

func (f *Fetcher) collect(ctx context.Context, subject string, needs []attest.Need, c *Collected) {
	items, failures := make([]Item, len(needs)), make([]*Failure, len(needs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	for n, need := range needs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			items[n], failures[n] = f.Get(ctx, subject, need)
		})
	}
	wg.Wait()
	for n := range needs {
		if failures[n] != nil {
			c.Failures = append(c.Failures, *failures[n])
		} else if !slices.ContainsFunc(c.Items, func(o Item) bool { return o.Record.Data == items[n].Record.Data }) {
			c.Items = append(c.Items, items[n])
		}
	}
}

// Get returns the item that a need names: from the store while it is fresh, else from its vendor. Where the vendor gives
// none, an item of the store that may still speak is as good, for nothing newer is known.
func (f *Fetcher) Get(ctx context.Context, subject string, need attest.Need) (Item, *Failure) {
	r, err := requestFor(need)
	if err != nil {
		return Item{}, &Failure{Code: NotAsked, Kind: need.Kind, Source: need.Source, Why: err.Error()}
	}
	now := f.now()
	held, ok, err := f.store.Newest(r.kind, r.source, canon.At(now))
	if err != nil {
		return Item{}, r.failed(Unreachable, 0, "%v", err)
	}
	if ok && r.suffices(held, now) {
		return held, nil
	}
	r.patient = !ok
	if f.only && f.origins[r.service] == "" {
		if ok {
			return held, nil
		}
		return Item{}, r.failed(NotAsked, 0, "no address of %s is set, and vendors are not to be asked", r.service)
	}
	got, failure := f.ask(ctx, subject, r)
	if failure != nil && ok {
		return held, nil
	}
	return got, failure
}

// suffices reports whether an item that may still speak is so new that no newer one is asked for.
func (r request) suffices(held Item, now time.Time) bool {
	age := now.Sub(held.Record.Fetched.Time())
	return r.fresh == 0 || age >= 0 && age < r.fresh
}

// failed makes a failure of a request; retry zero: not known.
func (r request) failed(code string, retry canon.Time, format string, args ...any) *Failure {
	return &Failure{Code: code, Kind: r.kind, Source: r.source, Why: fmt.Sprintf(format, args...), Retry: retry}
}

// ask joins the call for an item, or begins one on the subject's budget. The call lives as long as somebody waits for it.
func (f *Fetcher) ask(ctx context.Context, subject string, r request) (Item, *Failure) {
	f.mu.Lock()
	now := f.now()
	if known, ok := f.refused[r.source]; ok && now.Before(known.until) {
		f.mu.Unlock()
		return Item{}, &known.failure
	}
	c, joined := f.calls[r.source]
	if !joined {
		if wait, ok := f.budgetOf(f.subjects, subject, now).take(now, subjectEvery, subjectBurst, 0); !ok {
			f.mu.Unlock()
			return Item{}, r.failed(Busy, canon.At(now.Add(wait))+1, "the budget of %.80q is spent", subject)
		}
		// Who began it may leave, and it goes on for the others; its deadline holds for all, so that nobody takes a place in
		// a budget that he cannot wait for.
		end := time.Now().Add(FetchTimeout)
		if sooner, ok := ctx.Deadline(); ok && sooner.Before(end) {
			end = sooner
		}
		callCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
		c = &call{done: make(chan struct{}), cancel: cancel}
		f.calls[r.source] = c
		go f.run(callCtx, r, c)
	}
	c.waiters++
	f.mu.Unlock()
	defer f.leave(r.source, c)
	select {
	case <-c.done:
		return c.item, c.failure
	case <-ctx.Done():
		return Item{}, r.failed(Unreachable, canon.At(f.now())+1, "no answer in time")
	}
}

// leave ends a call that nobody waits for.
func (f *Fetcher) leave(source string, c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiters--; c.waiters == 0 {
		c.cancel()
		if f.calls[source] == c { // whoever comes now begins another
			delete(f.calls, source)
		}
	}
}

// budgetOf returns a budget by name; the mutex is held. Where too many are remembered, those that are as if unused are
// forgotten, and then any.
func (f *Fetcher) budgetOf(m map[string]*budget, name string, now time.Time) *budget {
	b, ok := m[name]
	if ok {
		return b
	}
	for _, force := range []bool{false, true} {
		for n, old := range m {
			if len(m) < maxRemembered {
				break
			}
			if force || old.unused(now) {
				delete(m, n)
			}
		}
	}
	b = &budget{}
	m[name] = b
	return b
}

// run fetches one item and tells all who wait.
func (f *Fetcher) run(ctx context.Context, r request, c *call) {
	defer c.cancel()
	item, failure := f.fetchAlone(ctx, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if failure != nil && !failure.Passing() {
		f.remember(r.source, *failure)
	}
	c.item, c.failure = item, failure
	if f.calls[r.source] == c {
		delete(f.calls, r.source)
	}
	close(c.done)
}

// fetchAlone fetches an item and keeps it, unless another process that shares the store did meanwhile.
func (f *Fetcher) fetchAlone(ctx context.Context, r request) (Item, *Failure) {
	failed := func(err error) *Failure { return r.failed(Unreachable, canon.At(f.now())+1, "%v", err) }
	unlock, err := f.store.lock(ctx, key(r.kind, r.source))
	if err != nil {
		return Item{}, failed(err)
	}
	defer unlock()
	now := f.now()
	held, ok, err := f.store.Newest(r.kind, r.source, canon.At(now))
	switch {
	case err != nil:
		return Item{}, failed(err)
	case ok && r.suffices(held, now):
		return held, nil
	}
	item, failure := f.fetch(ctx, r)
	if failure != nil {
		return item, failure
	}
	if item, err = f.store.Put(item.Record, item.Data); err != nil {
		return item, failed(err)
	}
	return item, nil
}

// remember keeps a refusal; the mutex is held.
func (f *Fetcher) remember(source string, failure Failure) {
	now := f.now()
	for s, old := range f.refused {
		if len(f.refused) < maxRemembered {
			break
		}
		if !now.Before(old.until) {
			delete(f.refused, s)
		}
	}
	if len(f.refused) >= maxRemembered {
		clear(f.refused)
	}
	until := now.Add(NegativeLife)
	failure.Retry = canon.At(until)
	f.refused[source] = refusal{until, failure}
}

// reserve waits for the service's delay and for a place in its budget.
func (f *Fetcher) reserve(ctx context.Context, r request) *Failure {
	atMost := FetchTimeout
	if !r.patient {
		atMost = 0
	} else if end, ok := ctx.Deadline(); ok { // of the machine's clock, as the context is
		atMost = min(atMost, time.Until(end))
	}
	every, burst := otherEvery, otherBurst
	if r.budget == "vcek" {
		every, burst = vcekEvery, vcekBurst
	}
	name := string(r.service) + " " + r.budget
	f.mu.Lock()
	now := f.now()
	wait := max(0, f.paused[name].Sub(now))
	ok := wait <= atMost
	if ok {
		var more time.Duration
		more, ok = f.budgetOf(f.budgets, name, now).take(now.Add(wait), every, burst, atMost-wait)
		wait += more
	}
	f.mu.Unlock()
	if !ok {
		return r.failed(Busy, canon.At(now.Add(wait))+1, "%s is to be asked again in %s", r.service, wait.Round(time.Second))
	}
	if wait == 0 {
		return nil
	}
	if err := f.sleep(ctx, wait); err != nil {
		return r.failed(Busy, canon.At(now.Add(wait))+1, "no time to wait %s for %s", wait.Round(time.Second), r.service)
	}
	return nil
}

// pause leaves a service alone for a while.
func (f *Fetcher) pause(r request, d time.Duration) canon.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, until := string(r.service)+" "+r.budget, f.now().Add(d)
	if until.After(f.paused[name]) {
		f.paused[name] = until
	}
	return canon.At(until) + 1
}

// fetch asks until there is an answer, at most MaxAttempts times.
func (f *Fetcher) fetch(ctx context.Context, r request) (Item, *Failure) {
	var last *Failure
	backoff := FirstBackoff
	attempts := MaxAttempts
	if !r.patient {
		attempts = 1
	}
	for range attempts {
		if failure := f.reserve(ctx, r); failure != nil {
			if last != nil {
				failure.Why = last.Why + "; " + failure.Why
			}
			return Item{}, failure
		}
		item, failure, delay := f.once(ctx, r)
		switch {
		case failure == nil || !failure.Passing():
			return item, failure
		case ctx.Err() != nil:
			// Where nobody waits any more, that is no fault of the service, unless they waited to the end: who waits and the
			// call end at one moment, and either may be noticed first.
			if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
				failure.Retry = f.pause(r, OutageLife)
			}
			return Item{}, failure
		}
		last = failure
		if delay == 0 {
			delay, backoff = backoff, 2*backoff
		}
		last.Retry = f.pause(r, delay)
	}
	last.Retry = f.pause(r, OutageLife)
	return Item{}, last
}

// origin returns where a service is asked.
func (f *Fetcher) origin(s Service) string {
	if o := f.origins[s]; o != "" {
		return o
	}
	return s.origin()
}

// reason puts an error of the HTTP client into words that do not repeat the address.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}
