package enrol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/enrol"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// dev reads KIND VALUE[/ALIAS], a short way to write devices: e, c, p for EK, chip and PPID, g for a GPU by PDI, l by leaf.
func dev(text string) ledger.Device {
	kind, rest := map[byte]string{'e': attest.IdentityTPMEK, 'c': attest.IdentityAMDChip, 'p': attest.IdentityIntelPPID, 'g': attest.IdentityGH100, 'd': enrol.KindPDI, 'l': enrol.KindLeaf}[text[0]], text[1:]
	value, alias, _ := strings.Cut(rest, "/")
	d := ledger.Device{Kind: kind, Value: canon.Hex(value)}
	if alias != "" {
		d.Alias = canon.Hex(alias)
	}
	return d
}

func devs(text string) (out []ledger.Device) {
	for _, word := range strings.Fields(text) {
		out = append(out, dev(word))
	}
	return out
}

// host is ASSET RACK, then devices.
func host(asset, rack, devices string) ledger.Host {
	return ledger.Host{Asset: asset, Site: "fra1", Rack: rack, Devices: devs(devices), Revision: 1}
}

func node(id string, joined int, rack, proven, holds string) enrol.Node {
	n := enrol.Node{ID: id, Joined: canon.Time(joined), Rack: rack, Proven: devs(proven), Holds: devs(holds), Verdict: "accept", Decided: 9}
	if rack != "" {
		n.Site = "fra1"
	}
	return n
}

// TestReconcileIsDeterministic: of two hosts that list two serials of one GPU, always the same has it.
func TestReconcileIsDeterministic(t *testing.T) {
	f := enrol.Fleet{
		Hosts:   []ledger.Host{host("A", "R1", "eA lnew"), host("B", "R1", "eB lold")},
		Nodes:   []enrol.Node{node("n1", 1, "R1", "eA", ""), node("n2", 2, "R1", "eB gPDI/newest", "")},
		Aliases: devs("gPDI/new gPDI/newest gPDI/old"),
	}
	for range 100 {
		r := enrol.Reconcile(f)
		if len(r.Findings) != 1 || r.Findings[0].Kind != "moved" || !strings.Contains(r.Findings[0].Problem, "is listed for asset A,") {
			t.Fatalf("%+v", r.Findings)
		}
	}
}

func TestReconcile(t *testing.T) {
	a, b := host("A", "R1", "eA lgA"), host("B", "R2", "eB")
	for _, tc := range []struct {
		name     string
		fleet    enrol.Fleet
		states   string // of the hosts
		findings []string
		waiting  int
	}{
		{"all there", enrol.Fleet{Hosts: []ledger.Host{a, b}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gA", ""), node("n2", 2, "R2", "eB", "")}}, "A accept n1, B accept n2", nil, 0},
		{"nobody there", enrol.Fleet{Hosts: []ledger.Host{a, b}}, "A missing , B missing ", []string{"missing A  ", "missing B  "}, 0},
		{"joined and silent", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 1, "R2", "", "")}}, "B missing ", []string{"missing B  "}, 1},
		{"a GPU alone does not say which machine", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "", "gPDI/gA", "")}}, "A missing ", []string{"missing A  "}, 1},
		{"unknown host", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n2", 2, "R2", "eB", ""), node("n3", 3, "R2", "eX", "")}}, "B accept n2", []string{"unexpected  n3 "}, 0},
		{"another rack's token", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n2", 2, "R1", "eB", "")}}, "B accept n2", []string{"moved B n2 "}, 0},
		{"a token of no rack", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n2", 2, "", "eB", "")}}, "B accept n2", nil, 0},
		{"EK of another host", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 1, "R2", "eB", ""), node("n2", 2, "R2", "eB", "eB")}}, "B accept n2", []string{"duplicate B n1 n2"}, 0},
		{"EK twice, held by nobody: the first that joined", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 7, "R2", "eB", ""), node("n2", 2, "R2", "eB", "")}}, "B accept n2", []string{"duplicate B n1 n2"}, 0},
		{"EK of no host twice", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 1, "", "eX", ""), node("n2", 2, "", "eX", ""), node("n3", 3, "", "eB", "")}}, "B accept n3", []string{"unexpected  n1 ", "duplicate  n2 n1", "unexpected  n2 "}, 0},
		{"two nodes are one host by different devices", enrol.Fleet{Hosts: []ledger.Host{host("C", "R3", "eC cC")}, Nodes: []enrol.Node{node("n1", 1, "R3", "eC", ""), node("n2", 2, "R3", "cC", "cC")}}, "C accept n2", []string{"duplicate C n1 n2"}, 0},
		{"copied GPU", enrol.Fleet{Hosts: []ledger.Host{a, b}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gA", "eA gPDI"), node("n2", 2, "R2", "eB gPDI/gA", "")}}, "A accept n1, B accept n2", []string{"duplicate A n2 n1"}, 0},
		{"GPU moved", enrol.Fleet{Hosts: []ledger.Host{a, b}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", ""), node("n2", 2, "R2", "eB gPDI/gA", "")}}, "A accept n1, B accept n2", []string{"moved B n2 "}, 0},
		{"GPU missing", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", "")}}, "A accept n1", []string{"missing A n1 "}, 0},
		{"another GPU", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gX", "")}}, "A accept n1", []string{"missing A n1 ", "unexpected A n1 "}, 0},
		{"GPU of a host that lists none", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 1, "R2", "eB gPDI/gX", "")}}, "B accept n1", nil, 0},
		{"GPU by its PDI", enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA dPDI")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gX", "")}}, "A accept n1", nil, 0},
		{"another serial after other firmware", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gNEW", "")}, Aliases: devs("gPDI/gA gPDI/gNEW")}, "A accept n1", nil, 0},
		{"another serial, and another GPU had that one", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gNEW", "")}, Aliases: devs("gOLD/gA gPDI/gNEW")}, "A accept n1", []string{"missing A n1 ", "unexpected A n1 "}, 0},
		{"EK of one host, chip of another", enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA cA"), host("B", "R2", "eB cB")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA cB", "")}}, "A accept n1, B missing ", []string{"missing A n1 ", "moved A n1 ", "missing B  "}, 0},
		{"a guest on one of two processors", enrol.Fleet{Hosts: []ledger.Host{host("C", "R1", "c1 c2")}, Nodes: []enrol.Node{node("n1", 1, "R1", "c2", "")}}, "C accept n1", nil, 0},
		{"a processor that is not listed", enrol.Fleet{Hosts: []ledger.Host{host("C", "R1", "eC c1 c2")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eC c3", "")}}, "C accept n1", []string{"missing C n1 ", "missing C n1 ", "unexpected C n1 "}, 0},
		{"a chip does not outweigh an EK, whatever order they come in", enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA cA"), host("B", "R2", "eB cB")}, Nodes: []enrol.Node{node("n1", 1, "R1", "cB eA", "")}}, "A accept n1, B missing ", []string{"missing A n1 ", "moved A n1 ", "missing B  "}, 0},
		{"holding a device of no host makes nobody the holder", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n1", 1, "R2", "eB", ""), node("n2", 2, "R2", "eB", "eX")}}, "B accept n1", []string{"duplicate B n2 n1"}, 0},
		{"holding a device of another host makes nobody the holder", enrol.Fleet{Hosts: []ledger.Host{host("C", "R2", "eC cC"), host("D", "R2", "cD")}, Nodes: []enrol.Node{node("n1", 1, "R2", "eC", ""), node("n2", 2, "R2", "cC", "cD")}}, "C accept n1, D missing ", []string{"duplicate C n2 n1", "missing D  "}, 0},
		{"the same rack of another site", enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{{ID: "n1", Site: "ams1", Rack: "R2", Proven: devs("eB"), Verdict: "accept"}}}, "B accept n1", []string{"moved B n1 "}, 0},
		{"before a verdict nothing is missed", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{{ID: "n1", Proven: devs("eA")}}}, "A joined n1", nil, 0},
		{"GPU missing, and other nodes are there", enrol.Fleet{Hosts: []ledger.Host{a, b}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", ""), node("n2", 2, "R2", "eB", "")}}, "A accept n1, B accept n2", []string{"missing A n1 "}, 0},
		{"another GPU than the PDI says", enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA dPDI")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gOTHER/gX", "")}}, "A accept n1", []string{"missing A n1 ", "unexpected A n1 "}, 0},
		{"a chip whose identity is the digits of a PDI", enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA dPDI")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA cPDI", "")}}, "A accept n1", []string{"missing A n1 "}, 0},
		{"a chip whose identity is that of a GPU that was seen", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "cPDI eA", "")}, Aliases: devs("gPDI/gA")}, "A accept n1", []string{"missing A n1 "}, 0},
		{"what a duplicate shows beside is not told as well", enrol.Fleet{Hosts: []ledger.Host{host("B", "R2", "eB cB")}, Nodes: []enrol.Node{node("n1", 1, "R2", "cB eB", "eB"), node("n2", 2, "R2", "cX eB", "")}}, "B accept n1", []string{"duplicate B n2 n1"}, 0},
		{"a stranger with a GPU of a host", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", ""), node("n2", 2, "R1", "eX gPDI/gA", "")}}, "A accept n1", []string{"unexpected  n2 ", "moved  n2 "}, 0},
		{"a chip of a host that lists GPUs and no chip", enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "cX eA gPDI/gA", "")}}, "A accept n1", nil, 0},
		{"PPID", enrol.Fleet{Hosts: []ledger.Host{host("P", "R1", "pP")}, Nodes: []enrol.Node{node("n1", 1, "R1", "pP", "")}}, "P accept n1", nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := enrol.Reconcile(tc.fleet)
			var states []string
			for _, h := range r.Hosts {
				states = append(states, h.Host.Asset+" "+h.State+" "+h.Node)
			}
			if got := strings.Join(states, ", "); got != tc.states {
				t.Errorf("hosts %q, want %q", got, tc.states)
			}
			var got []string
			for _, f := range r.Findings {
				got = append(got, fmt.Sprintf("%s %s %s %s", f.Kind, f.Asset, f.Node, f.Other))
				if f.Problem == "" || f.Fix == "" {
					t.Errorf("a finding must say what is wrong and how to mend it: %+v", f)
				}
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.findings))
			if !slices.Equal(got, want) || len(r.Waiting) != tc.waiting {
				t.Errorf("%q, %d waiting, want %q, %d", got, len(r.Waiting), want, tc.waiting)
			}
			again := enrol.Reconcile(tc.fleet)
			if fmt.Sprint(again.Findings) != fmt.Sprint(r.Findings) {
				t.Error("the same fleet was reconciled otherwise")
			}
		})
	}
}

func TestReconcileWords(t *testing.T) {
	a, b := host("A", "R1", "eA lgA"), host("B", "R2", "eB")
	r := enrol.Reconcile(enrol.Fleet{Hosts: []ledger.Host{a, b}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA gPDI/gA", "eA gPDI"), node("n2", 2, "R2", "eB gPDI/gA", "")}})
	for _, tc := range []struct {
		fleet              enrol.Fleet
		problem, fix, gone string
	}{
		{enrol.Fleet{Hosts: []ledger.Host{b}, Nodes: []enrol.Node{node("n2", 2, "R2", "eB", "")}}, "", "", ""},
		{enrol.Fleet{Nodes: []enrol.Node{node("n3", 3, "R9", "cX eX gPDI", "")}}, "node n3 (joined in site fra1, rack R9) is in no row of the inventory: it shows amd-chip-id 58, tpm-ek 58", "give it a row in the inventory; else revoke the node: assay nodes revoke n3", "nvidia"},
		{enrol.Fleet{Nodes: []enrol.Node{node("n3", 3, "", "eX", "")}}, "node n3 is in no row of the inventory", "", "joined"},
		{enrol.Fleet{Hosts: []ledger.Host{a}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", "")}}, "asset A has nvidia-leaf 6741 in the inventory, and its node does not show it", "if its firmware was changed before it was first seen", ""},
		{enrol.Fleet{Hosts: []ledger.Host{host("A", "R1", "eA cA")}, Nodes: []enrol.Node{node("n1", 1, "R1", "eA", "")}}, "asset A has amd-chip-id 41", "look whether it is in the machine", "firmware"},
	} {
		for _, f := range enrol.Reconcile(tc.fleet).Findings {
			if words := f.Problem + f.Fix; tc.problem == "" || !strings.Contains(f.Problem, tc.problem) || !strings.Contains(f.Fix, tc.fix) || tc.gone != "" && strings.Contains(words, tc.gone) {
				t.Errorf("%q, fix %q", f.Problem, f.Fix)
			}
		}
	}
	want := "nvidia-gh100 504449 is shown by node n1 (asset A, site fra1, rack R1), which keeps its standing, and by node n2 (asset B, site fra1, rack R2)"
	if len(r.Findings) != 1 || r.Findings[0].Problem != want {
		t.Errorf("%+v\nwant %s", r.Findings, want)
	}
}
