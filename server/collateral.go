package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
	"github.com/assay-network/assay/verifier/collateral"
)

// Where the operator wants it, what vendors publish is fetched before evidence is judged, each node on its own budget. A
// submission waits for it as long as asking again may help, and at most CollateralWait after it was taken and not past the
// end of its challenge; then it is judged with what there is. So it is judged once: a verdict that an item came too late for stands, and the node's next
// evidence is judged with it.
//
// What was fetched is kept in the data folder, and an entry of the log says so before any appraisal uses it.

// fetchVendors is the setting that has vendors asked, each service but those that have another address in the settings.
const fetchVendors = "vendors"

// openFetcher opens the store of fetched collateral and what asks vendors for it.
func (s *Server) openFetcher(sleep func(context.Context, time.Duration) error) error {
	if len(s.settings.Fetch) == 0 {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(s.settings.Fetch), func(w string) bool { return w == fetchVendors })
	origins, err := collateral.ParseOrigins(others...)
	if err != nil {
		return fmt.Errorf("settings: fetch: %w (or %q for all services at their vendors)", err, fetchVendors)
	}
	store, err := collateral.OpenStore(filepath.Join(s.settings.Data, "collateral"))
	if err != nil {
		return err
	}
	if sleep == nil {
		sleep = collateral.Sleep
	}
	s.fetcher = collateral.NewFetcher(collateral.Config{
		Store: store, Origins: origins, Only: len(others) == len(s.settings.Fetch), Now: s.now, Sleep: sleep,
	})
	return nil
}

// fetched is what came of fetching for one submission.
type fetched struct {
	items []collateral.Item
	wait  canon.Time // when to look again instead of judging; zero: judge
}

// fetchFor fetches what judging submissions wants, for all at once. It returns nothing where nothing is to be fetched.
func (s *Server) fetchFor(ctx context.Context, due []canon.Digest) (map[canon.Digest]fetched, error) {
	if s.fetcher == nil {
		return nil, nil
	}
	inTime, cancel := context.WithTimeout(ctx, FetchAtOnce)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	got, faults := map[canon.Digest]fetched{}, []error(nil)
	slots := make(chan struct{}, MaxFetchAtOnce)
	for _, evidence := range due {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f, err := s.fetchOne(inTime, evidence)
			mu.Lock()
			defer mu.Unlock()
			got[evidence] = f
			faults = append(faults, err)
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	var items []collateral.Item
	for _, f := range got {
		if f.wait == 0 {
			items = append(items, f.items...)
		}
	}
	if err := s.logFetched(ctx, items); err != nil {
		return nil, fmt.Errorf("log collateral: %w", err)
	}
	return got, nil
}

func (s *Server) fetchOne(ctx context.Context, evidence canon.Digest) (f fetched, err error) {
	t, err := s.loadTaken(context.WithoutCancel(ctx), evidence)
	if err != nil {
		return f, err
	}
	c := s.fetcher.Collect(ctx, t.node, func(have []attest.Collateral) []attest.Need { return s.wanted(t, have) })
	f.items = c.Items
	last := min(t.received+seconds(CollateralWait), t.challenge.Expires) // later, no auditor could tell when it was judged
	if retry := c.Retry(); retry != 0 && s.time() < last {
		f.wait = min(max(retry, s.time()+1), last)
	}
	for _, why := range c.Failures {
		if why.Code != collateral.NotAsked {
			s.log.Info("collateral is not at hand", "node", t.node, "kind", why.Kind, "source", why.Source, "code", why.Code, "why", why.Why)
		}
	}
	return f, nil
}

// wanted returns what judging a submission lacks beside what was given at the start and what is at hand. A room that fails
// here fails again when it judges, and that is said there.
func (s *Server) wanted(t takenEvidence, have []attest.Collateral) (needs []attest.Need) {
	defer func() {
		if recover() != nil {
			needs = nil
		}
	}()
	o, err := verifier.Open(verifier.TypeBundle, t.data)
	if err != nil {
		return nil
	}
	c := s.newCase(s.time())
	c.Collateral = with(c.Collateral, have...)
	return verifier.Appraise(o, c).Needs
}

// logFetched logs items that the open log does not have as they were fetched. Of several processes that fetched one item, one
// after another looks.
func (s *Server) logFetched(ctx context.Context, items []collateral.Item) error {
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, func(a, b collateral.Item) int { return slices.Compare(a.Record.Data[:], b.Record.Data[:]) })
	return s.store.Tx(ctx, func(tx *Tx) error {
		if err := holdServer(ctx, tx.SQL); err != nil {
			return err
		}
		log, err := tx.openLog(ctx)
		if err != nil {
			return err
		}
		for n, i := range items {
			if n > 0 && items[n-1].Record == i.Record {
				continue
			}
			if err := tx.noteIssue(ctx, i.Given(), s.time()); err != nil {
				return err
			}
			record, err := canon.Marshal(i.Record)
			if err != nil {
				return err
			}
			body := canon.Sum(record)
			found, err := s.store.recordsOf(ctx, tx.SQL, byBody, body, all)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(found, func(r Record) bool { return r.Kind == ledger.KindCollateral && r.Log == log }) {
				continue
			}
			tx.PutBlob(record)
			tx.PutBlob(i.Data)
			if _, _, err := tx.Append(ctx, Draft{Kind: ledger.KindCollateral, Stream: ledger.StreamServer, Time: s.time(), Body: body, Refs: []canon.Digest{}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// with returns collateral with more behind it, within the bound of an appraisal.
func with(given []attest.Collateral, more ...attest.Collateral) []attest.Collateral {
	return append(slices.Clone(given), more[:min(len(more), max(0, attest.MaxCollateral-len(given)))]...)
}
