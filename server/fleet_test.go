package server_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// confusedFleet is a fleet with so few devices that they stand in wrong racks, on several nodes and under old names.
func confusedFleet(seed uint64) (hosts []ledger.Host, nodes []enrol.Node) {
	r := rand.New(rand.NewPCG(seed, 1))
	value := func(n, size int) canon.Hex {
		v := make([]byte, size)
		v[0], v[1] = byte(seed), byte(n)
		return v
	}
	listed := map[string]bool{}
	for i := range 6 {
		h := ledger.Host{Asset: fmt.Sprint("A-", i), Site: "fra1", Rack: fmt.Sprint("R", i%2), Revision: 1}
		for range 3 {
			n := r.IntN(6)
			d := []ledger.Device{
				{Kind: attest.IdentityTPMEK, Value: value(n, 32)}, {Kind: attest.IdentityAMDChip, Value: value(n, 64)},
				{Kind: enrol.KindLeaf, Value: value(n, 20)}, {Kind: enrol.KindPDI, Value: value(n, 8)},
			}[r.IntN(4)]
			if !listed[d.Kind+d.Value.String()] {
				h.Devices = append(h.Devices, d)
			}
			listed[d.Kind+d.Value.String()] = true
		}
		slices.SortFunc(h.Devices, ledger.Device.Compare)
		if len(h.Devices) > 0 {
			hosts = append(hosts, h)
		}
	}
	held := map[string]bool{}
	for i := range 6 {
		n := enrol.Node{ID: fmt.Sprint("node-", i), Joined: canon.Time(100 + r.IntN(3)), Site: "fra1", Rack: fmt.Sprint("R", r.IntN(2))}
		if r.IntN(3) > 0 {
			n.Verdict, n.Decided = client.Accept, n.Joined+1
		}
		show := func(d ledger.Device) {
			if slices.ContainsFunc(n.Proven, func(o ledger.Device) bool {
				return o.Kind == d.Kind && (d.Kind == attest.IdentityTPMEK || o.Compare(d) == 0)
			}) {
				return
			}
			n.Proven = append(n.Proven, d)
			if id := d.Kind + d.Value.String(); !held[id] && r.IntN(2) == 0 {
				held[id], d.Alias = true, nil
				n.Holds = append(n.Holds, d)
			}
		}
		if r.IntN(3) > 0 {
			show(ledger.Device{Kind: attest.IdentityTPMEK, Value: value(r.IntN(6), 32)})
		}
		if r.IntN(3) > 0 {
			show(ledger.Device{Kind: attest.IdentityAMDChip, Value: value(r.IntN(6), 64)})
		}
		for range r.IntN(3) {
			show(ledger.Device{Kind: []string{attest.IdentityGH100, attest.IdentityGB100}[r.IntN(2)], Value: value(r.IntN(6), 8), Alias: value(r.IntN(6), 20)})
		}
		slices.SortFunc(n.Proven, ledger.Device.Compare)
		nodes = append(nodes, n)
	}
	return hosts, nodes
}

// TestPartOfFleet: what a node is told, and for how many hosts a rack waits, is read from the part of the fleet that it rests
// on, and is what the whole fleet says.
func TestPartOfFleet(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		l := newLab(t, url)
		states, findings := map[string]int{}, map[string]int{}
		for seed := range uint64(25) {
			tenant := fmt.Sprint("dc-", seed)
			hosts, nodes := confusedFleet(seed)
			for i := range nodes {
				nodes[i].ID += "-" + tenant
			}
			must(t, l.server.TestingOnlyFill(t.Context(), tenant, hosts, nodes))
		}
		for seed := range uint64(25) {
			tenant := fmt.Sprint("dc-", seed)
			for i := range 6 {
				node := fmt.Sprint("node-", i, "-", tenant)
				part, err := l.server.TestingOnlyPlace(t.Context(), node)
				must(t, err)
				whole, err := l.server.TestingOnlyPlaceOfAll(t.Context(), tenant, node)
				must(t, err)
				if !sameJSON(t, part, whole) {
					t.Errorf("%s, node %d: told %+v\nby the whole fleet %+v", tenant, i, part, whole)
				}
				states[part.State]++
				for _, f := range part.Findings {
					findings[f.Kind]++
				}
			}
			for _, rack := range []string{"R0", "R1"} {
				part, whole, err := l.server.TestingOnlyRack(t.Context(), tenant, "fra1", rack)
				must(t, err)
				if !sameJSON(t, part, whole) {
					t.Errorf("%s, rack %s: %+v\nby the whole fleet %+v", tenant, rack, part, whole)
				}
			}
		}
		for _, s := range []string{client.PlaceNone, client.PlaceMatched, client.FindingUnexpected, client.FindingMoved, client.FindingDuplicate} {
			if states[s] == 0 {
				t.Errorf("no node is %s: %v", s, states)
			}
		}
		if findings[client.FindingMissing] == 0 {
			t.Errorf("nothing is missing: %v", findings)
		}
	})
}

// BenchmarkPlace is what a node of a fleet of ten thousand hosts asks after its first verdict, and the same from the whole
// fleet.
func BenchmarkPlace(b *testing.B) {
	const count = 10_000
	settings := writeWorld(b, b.TempDir())
	s, err := server.New(b.Context(), settings, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()})
	must(b, err)
	b.Cleanup(func() { must(b, s.Close()) })
	var hosts []ledger.Host
	var nodes []enrol.Node
	for i := range count {
		value := func(size, k int) canon.Hex {
			v := make([]byte, size)
			v[0], v[1], v[2] = byte(i>>8), byte(i), byte(k+1)
			return v
		}
		h := ledger.Host{Asset: fmt.Sprintf("A-%05d", i), Site: "fra1", Rack: fmt.Sprintf("R%d", i/20), Revision: 1}
		n := enrol.Node{ID: fmt.Sprintf("node-%05d", i), Joined: 100, Site: h.Site, Rack: h.Rack, Verdict: client.Accept, Decided: 200}
		chip := ledger.Device{Kind: attest.IdentityAMDChip, Value: value(64, 0)}
		h.Devices, n.Proven, n.Holds = append(h.Devices, chip), append(n.Proven, chip), append(n.Holds, chip)
		for g := range 8 {
			h.Devices = append(h.Devices, ledger.Device{Kind: enrol.KindLeaf, Value: value(20, g)})
			n.Proven = append(n.Proven, ledger.Device{Kind: attest.IdentityGH100, Value: value(8, g), Alias: value(20, g)})
		}
		slices.SortFunc(h.Devices, ledger.Device.Compare)
		hosts, nodes = append(hosts, h), append(nodes, n)
	}
	must(b, s.TestingOnlyFill(b.Context(), "dc", hosts, nodes))
	for name, place := range map[string]func(node string) (client.Place, error){
		"part":  func(node string) (client.Place, error) { return s.TestingOnlyPlace(b.Context(), node) },
		"whole": func(node string) (client.Place, error) { return s.TestingOnlyPlaceOfAll(b.Context(), "dc", node) },
	} {
		b.Run(name, func(b *testing.B) {
			for at := 0; b.Loop(); at += 7 {
				p, err := place(fmt.Sprintf("node-%05d", at%count))
				must(b, err)
				if p.State != client.PlaceMatched || len(p.Findings) != 0 {
					b.Fatalf("%+v", p)
				}
			}
		})
	}
}
