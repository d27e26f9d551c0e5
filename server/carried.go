package server

import (
	"context"
	"fmt"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
)

// carryVetting appends to a new log what the one before it says of providers: what issuers said and the operator's parameters,
// by name, and the states of certificates and devices as they stand. first is the body of the new log's first entry, origin
// names the log before.
func (tx *Tx) carryVetting(ctx context.Context, origin string, first canon.Digest, now canon.Time) error {
	items, err := tx.standing(ctx, now)
	if err != nil {
		return err
	}
	bodies, err := vetting.Parts(origin, items)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		d := Draft{Kind: ledger.KindCarried, Stream: ledger.StreamServer, Time: now, Body: tx.PutBlob(body), Refs: []canon.Digest{first}}
		if _, _, err := tx.Append(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// standing returns what stands of vetting at a time, as the tables have it: the same as [vetting.Book.Leave] makes of the log.
func (tx *Tx) standing(ctx context.Context, now canon.Time) (items []vetting.CarriedItem, err error) {
	words, err := records(ctx, tx.SQL, `kind IN ('claim/v1', 'rules/v1')`, all)
	if err != nil {
		return nil, err
	}
	for _, r := range words {
		items = append(items, vetting.CarriedItem{Word: &vetting.CarriedWord{Kind: r.Kind, Body: r.Body, At: r.Time}})
	}
	for _, from := range []struct {
		query string
		read  func(scan func(...any) error) (vetting.CarriedItem, bool, error)
	}{
		{`SELECT id, stake, contact_hours FROM provider`, func(scan func(...any) error) (vetting.CarriedItem, bool, error) {
			f := vetting.Facts{Type: vetting.FactsType}
			var stake int64
			err := scan(&f.Provider, &stake, &f.ContactHours)
			f.Stake = stake == 1
			return vetting.CarriedItem{Facts: &f}, true, err
		}},
		{`SELECT state, entry FROM machine WHERE kind = '` + machineDevice + `' AND due IS NOT NULL`, func(scan func(...any) error) (vetting.CarriedItem, bool, error) {
			var d vetting.CarriedDevice
			err := scanMachine(scan, &d.State, &d.Last)
			return vetting.CarriedItem{Device: &d}, true, err
		}},
		{`SELECT state, entry, CASE WHEN vetted.certificate = machine.id THEN 1 ELSE 0 END FROM machine LEFT JOIN vetted ON vetted.host = machine.host WHERE kind = '` + machineCertificate + `'`,
			func(scan func(...any) error) (vetting.CarriedItem, bool, error) {
				var c vetting.CarriedCertificate
				var last int64
				err := scanMachine(scan, &c.State, &c.Last, &last)
				return vetting.CarriedItem{Certificate: &c}, c.State.Stays(last == 1), err
			}},
		{`SELECT node, appraisal FROM appraised WHERE NOT EXISTS (SELECT 1 FROM erased WHERE digest = appraisal)`, func(scan func(...any) error) (vetting.CarriedItem, bool, error) {
			var a vetting.Appraised
			err := scan(&a.Node, &a.Appraisal)
			return vetting.CarriedItem{Appraised: &a}, true, err
		}},
		{`SELECT node, starts, challenge, result FROM benchmark WHERE result IS NOT NULL`, func(scan func(...any) error) (vetting.CarriedItem, bool, error) {
			var b vetting.CarriedBenchmark
			err := scan(&b.Node, &b.Starts, &b.Challenge, &b.Result)
			return vetting.CarriedItem{Benchmark: &b}, b.Counts(now), err
		}},
	} {
		err := each(ctx, tx.SQL, from.query, nil, func(scan func(...any) error) error {
			item, stays, err := from.read(scan)
			if stays && err == nil {
				items = append(items, item)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read what stands: %w", err)
		}
	}
	return items, nil
}

// scanMachine reads the state of a machine and the commitment of its last event.
func scanMachine(scan func(...any) error, state any, last *canon.Digest, more ...any) error {
	var data string
	if err := scan(append([]any{&data, last}, more...)...); err != nil {
		return err
	}
	return canon.Unmarshal([]byte(data), state)
}
