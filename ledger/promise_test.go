package ledger_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestPromise(t *testing.T) {
	good := ledger.NewPromise(origin, canon.Sum([]byte("opening")), goodEntry())
	if good.PublishBy != start+60 || good.Stream != "node:n1" || good.Sequence != 3 || good.Previous != goodEntry().Previous {
		t.Errorf("promise %+v", good)
	}
	for _, c := range []struct {
		name   string
		change func(*ledger.Promise)
		want   string
	}{
		{"good", func(*ledger.Promise) {}, ""},
		{"unknown type", func(p *ledger.Promise) { p.Type = "assay/promise/v2" }, "not known to this build"},
		{"no origin", func(p *ledger.Promise) { p.Origin = "" }, "origin of 0 bytes"},
		{"no stream", func(p *ledger.Promise) { p.Stream = "" }, "stream name of 0 bytes"},
		{"no commitment", func(p *ledger.Promise) { p.Commitment = canon.Digest{} }, "no commitment"},
		{"first with a previous", func(p *ledger.Promise) { p.Sequence = 0 }, "name the previous one"},
		{"published late", func(p *ledger.Promise) { p.PublishBy++ }, "not 60 s after"},
	} {
		p := good
		c.change(&p)
		e, err := ledger.SealPromise(p, edKey(3))
		check(t, c.name+", seal", err, c.want)
		if c.want != "" { // one that a careless signer made is refused by its reader
			if e, err = ledger.Seal(ledger.PromiseType, marshal(t, p), edKey(3)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := ledger.OpenPromise(e, firstKeyset(t))
		check(t, c.name+", open", err, c.want)
		if err == nil && got != p {
			t.Errorf("%s: %+v, want %+v", c.name, got, p)
		}
	}
	e, err := ledger.SealPromise(good, edKey(3))
	if err != nil {
		t.Fatal(err)
	}
	other := firstKeyset(t)
	other.Keys[2].SPKI = spkiOf(t, edKey(4))
	_, err = ledger.OpenPromise(e, other)
	check(t, "another key", err, "not signed by a promise key")
	other = firstKeyset(t)
	other.Keys[2].Until = good.Received
	_, err = ledger.OpenPromise(e, other)
	check(t, "received in the key's last second", err, "")
	other.Keys[2].From, other.Keys[2].Until = good.Received-1, good.Received-1
	_, err = ledger.OpenPromise(e, other)
	check(t, "received after the key's end", err, "not at")
	e.PayloadType = "assay/result/v1"
	_, err = ledger.OpenPromise(e, firstKeyset(t))
	check(t, "another payload type", err, `payload type "assay/result/v1"`)
}

func TestCollateral(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*ledger.Collateral)
		want   string
	}{
		{"good", func(*ledger.Collateral) {}, ""},
		{"unknown type", func(c *ledger.Collateral) { c.Type = "assay/collateral/v2" }, "not known to this build"},
		{"no kind", func(c *ledger.Collateral) { c.Kind = "" }, "all needed"},
		{"no data", func(c *ledger.Collateral) { c.Data = canon.Digest{} }, "all needed"},
		{"long source", func(c *ledger.Collateral) { c.Source = strings.Repeat("x", ledger.MaxSource+1) }, "at most 1024"},
	} {
		record := ledger.Collateral{Type: ledger.CollateralType, Kind: "amd-crl", Data: canon.Sum(nil), Source: "https://kdsintf.amd.com/vcek/v1/Milan/crl", Fetched: start}
		c.change(&record)
		got, err := ledger.ParseCollateral(marshal(t, record))
		check(t, c.name, err, c.want)
		if err == nil && got != record {
			t.Errorf("%s: %+v, want %+v", c.name, got, record)
		}
	}
}
