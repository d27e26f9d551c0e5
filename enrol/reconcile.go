package enrol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// Node is what a verifier knows of a node that joined and was not revoked.
type Node struct {
	ID      string
	Joined  canon.Time
	Site    string          // of the rack whose token let it in; empty: another token did
	Rack    string          //
	Proven  []ledger.Device // what its TPM and its newest fresh and bound evidence showed, whatever the verdict
	Holds   []ledger.Device // what it is the enrolled holder of
	Verdict string          // the last; empty: none yet
	Decided canon.Time
}

// Fleet is an inventory and the nodes that are held against it.
type Fleet struct {
	Hosts   []ledger.Host
	Nodes   []Node
	Aliases []ledger.Device // what devices were ever called: Alias is the name, Kind and Value the device
}

// Reconciled is an inventory held against what nodes show.
type Reconciled struct {
	Hosts    []client.HostRecord // in the order of the inventory
	Findings []client.Finding    // ordered by site, rack, asset, node, kind and device
	Waiting  []string            // nodes that have not shown yet what they are
	ByNode   map[string]int      // index of the host that each node is; a duplicate's too
}

// primary reports whether a kind of identity says which machine something is. Others are of devices that can be moved.
func primary(kind string) bool {
	return kind == attest.IdentityTPMEK || kind == attest.IdentityAMDChip || kind == attest.IdentityIntelPPID
}

// IsGPU reports whether a kind is one of NVIDIA's devices, in an inventory or in evidence.
func IsGPU(kind string) bool { return strings.HasPrefix(kind, "nvidia-") }

type key struct{ kind, value string }

func keyOf(d ledger.Device) key { return key{d.Kind, string(d.Value)} }

// reconciling is a reconciliation under way.
type reconciling struct {
	*Fleet
	out     Reconciled
	listed  map[key]int      // index of the host that lists a device; NVIDIA's by leaf and by PDI alone
	aliases map[key]string   // PDI of each leaf that was ever seen
	show    map[key][]int    // indexes of the nodes that show a device, the holder first
	nodesOf map[int][]int    // of each host, the holder first
	done    map[[2]int][]key // pairs of nodes, holder first, of which a duplicate was told, and by what
}

// Reconcile holds an inventory against what nodes have proven. A host is the node that shows its EK, CHIP_ID or PPID; where
// several do, the one that holds such a device, else the first that joined, is it, and keeps its standing, and the others are
// duplicates. A GPU that was once seen under the serial that the inventory has is known by its PDI from then on, since the
// serial changes with firmware.
func Reconcile(f Fleet) Reconciled {
	r := reconciling{Fleet: &f, listed: map[key]int{}, aliases: map[key]string{}, show: map[key][]int{}, nodesOf: map[int][]int{}, done: map[[2]int][]key{}}
	r.out.ByNode = map[string]int{}
	for i, h := range f.Hosts {
		for _, d := range h.Devices {
			r.listed[keyOf(d)] = i
		}
	}
	for _, a := range f.Aliases {
		r.aliases[key{KindLeaf, string(a.Alias)}] = string(a.Value)
	}
	// A GPU that the inventory names by its certificate's serial is that PDI, under whatever serial it shows up today. Of two
	// hosts that list two serials of one, the one with the lesser serial has it.
	leaves := slices.SortedFunc(maps.Keys(r.aliases), func(a, b key) int { return strings.Compare(a.value, b.value) })
	for _, leaf := range leaves {
		pdi := key{KindPDI, r.aliases[leaf]}
		if i, ok := r.listed[leaf]; ok {
			if _, ok := r.listed[pdi]; !ok {
				r.listed[pdi] = i
			}
		}
	}
	r.match()
	r.duplicates()
	for i := range f.Hosts {
		r.host(i)
	}
	for n := range f.Nodes {
		r.node(n)
	}
	slices.SortStableFunc(r.out.Findings, func(a, b client.Finding) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Rack, b.Rack), strings.Compare(a.Asset, b.Asset),
			strings.Compare(a.Node, b.Node), strings.Compare(a.Kind, b.Kind), a.Device.Compare(b.Device))
	})
	return r.out
}

// match finds the nodes of every host.
func (r *reconciling) match() {
	for n, node := range r.Nodes {
		of := -1
		for _, kind := range []string{attest.IdentityTPMEK, attest.IdentityAMDChip, attest.IdentityIntelPPID} {
			for _, d := range node.Proven {
				if i, ok := r.listed[keyOf(d)]; d.Kind == kind && ok && of < 0 {
					of = i
				}
			}
		}
		for _, d := range node.Proven {
			if d.Kind != attest.IdentityIntelPIID {
				r.show[keyOf(d)] = append(r.show[keyOf(d)], n)
			}
		}
		if of >= 0 {
			r.nodesOf[of] = append(r.nodesOf[of], n)
		}
	}
	for i, nodes := range r.nodesOf {
		r.holderFirst(nodes, func(d ledger.Device) bool { at, ok := r.listed[keyOf(d)]; return ok && at == i })
		for _, n := range nodes {
			r.out.ByNode[r.Nodes[n].ID] = i
		}
	}
	for k, nodes := range r.show {
		r.holderFirst(nodes, func(d ledger.Device) bool { return keyOf(d) == k })
	}
}

// holderFirst orders nodes: first who holds a device, then who joined first.
func (r *reconciling) holderFirst(nodes []int, device func(ledger.Device) bool) {
	holds := func(n int) int {
		if slices.ContainsFunc(r.Nodes[n].Holds, device) {
			return 0
		}
		return 1
	}
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(holds(a), holds(b)), cmp.Compare(r.Nodes[a].Joined, r.Nodes[b].Joined), strings.Compare(r.Nodes[a].ID, r.Nodes[b].ID))
	})
}

func (r *reconciling) find(kind string, host, node int, d ledger.Device, fix, format string, args ...any) *client.Finding {
	f := client.Finding{Kind: kind, Device: d, Problem: fmt.Sprintf(format, args...), Fix: fix}
	if host >= 0 {
		h := &r.Hosts[host]
		f.Asset, f.Site, f.Rack = h.Asset, h.Site, h.Rack
	}
	if node >= 0 {
		f.Node = r.Nodes[node].ID
	}
	r.out.Findings = append(r.out.Findings, f)
	return &r.out.Findings[len(r.out.Findings)-1]
}

// duplicates tells of every device that several nodes show, and of hosts that several nodes are by different devices.
func (r *reconciling) duplicates() {
	const fix = "find out which machine has the device: revoke the other node (assay nodes revoke), or the holder if the device was moved"
	keys := make([]key, 0, len(r.show))
	for k, nodes := range r.show {
		if len(nodes) > 1 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.value, b.value)) })
	for _, k := range keys {
		nodes := r.show[k]
		shown := r.Nodes[nodes[0]].Proven
		d := shown[slices.IndexFunc(shown, func(d ledger.Device) bool { return keyOf(d) == k })]
		host, ok := r.listing(d)
		if !ok {
			host = -1
		}
		for _, other := range nodes[1:] {
			pair := [2]int{nodes[0], other}
			r.done[pair] = append(r.done[pair], k)
			f := r.find(client.FindingDuplicate, host, other, d, fix, "%s %s is shown by %s, which keeps its standing, and by %s", d.Kind, d.Value, r.place(nodes[0]), r.place(other))
			f.Other = r.Nodes[nodes[0]].ID
		}
	}
	for i := range r.Hosts {
		nodes := r.nodesOf[i]
		for j := 1; j < len(nodes); j++ {
			if len(r.done[[2]int{nodes[0], nodes[j]}])+len(r.done[[2]int{nodes[j], nodes[0]}]) > 0 {
				continue
			}
			f := r.find(client.FindingDuplicate, i, nodes[j], ledger.Device{}, fix, "asset %s is %s by one of its devices, which keeps its standing, and %s by another", r.Hosts[i].Asset, r.place(nodes[0]), r.place(nodes[j]))
			f.Other = r.Nodes[nodes[0]].ID
		}
	}
}

// place says where a node stands, for people.
func (r *reconciling) place(n int) string {
	node := &r.Nodes[n]
	words := "node " + node.ID
	if i, ok := r.out.ByNode[node.ID]; ok {
		h := &r.Hosts[i]
		words += fmt.Sprintf(" (asset %s, site %s, rack %s)", h.Asset, h.Site, h.Rack)
	} else if node.Rack != "" {
		words += fmt.Sprintf(" (joined in site %s, rack %s)", node.Site, node.Rack)
	}
	return words
}

// listing returns the host that lists a device which a node shows.
func (r *reconciling) listing(d ledger.Device) (int, bool) {
	if !IsGPU(d.Kind) {
		i, ok := r.listed[keyOf(d)]
		return i, ok
	}
	for _, k := range []key{{KindPDI, string(d.Value)}, {KindLeaf, string(d.Alias)}} {
		if i, ok := r.listed[k]; ok {
			return i, true
		}
	}
	return 0, false
}

// same reports whether a device that a node shows is one that the inventory lists.
func (r *reconciling) same(listed, shown ledger.Device) bool {
	switch listed.Kind {
	case KindPDI:
		return IsGPU(shown.Kind) && string(listed.Value) == string(shown.Value)
	case KindLeaf:
		return IsGPU(shown.Kind) && (string(listed.Value) == string(shown.Alias) || r.aliases[keyOf(listed)] == string(shown.Value))
	}
	return listed.Compare(shown) == 0
}

// host gives the state of a host, and tells what is missing of it.
func (r *reconciling) host(i int) {
	h := r.Hosts[i]
	record := client.HostRecord{Host: h, State: client.HostMissing}
	if len(r.nodesOf[i]) == 0 {
		r.find(client.FindingMissing, i, -1, ledger.Device{}, fmt.Sprintf("start the agent there with the token of site %s, rack %s (assay enrol tokens)", h.Site, h.Rack), "asset %s is in the inventory, and no node has shown to be it", h.Asset)
		r.out.Hosts = append(r.out.Hosts, record)
		return
	}
	n := r.nodesOf[i][0]
	node := &r.Nodes[n]
	record.Node, record.Joined, record.State = node.ID, node.Joined, client.HostJoined
	if node.Verdict != "" {
		record.State, record.Decided = node.Verdict, node.Decided
	}
	r.out.Hosts = append(r.out.Hosts, record)
	if node.Rack != "" && (node.Site != h.Site || node.Rack != h.Rack) {
		r.find(client.FindingMoved, i, n, ledger.Device{}, "if the machine was moved, say so in the inventory; else see who has the token of that rack", "asset %s is of site %s, rack %s, and joined with the token of site %s, rack %s", h.Asset, h.Site, h.Rack, node.Site, node.Rack)
	}
	if node.Verdict == "" {
		return // it has not been asked yet for everything
	}
	for _, d := range h.Devices {
		if slices.ContainsFunc(node.Proven, func(shown ledger.Device) bool { return r.same(d, shown) }) || r.shownElsewhere(d) {
			continue
		}
		if slices.ContainsFunc(node.Proven, func(shown ledger.Device) bool {
			return shown.Kind == d.Kind && slices.ContainsFunc(h.Devices, func(o ledger.Device) bool { return o.Compare(shown) == 0 })
		}) {
			continue // a guest shows the processor that it runs on, and the machine has several
		}
		fix := "look whether it is in the machine and whether the agent asks it: assay-agent doctor"
		if d.Kind == KindLeaf {
			fix = "if its firmware was changed before it was first seen, write its new serial or its PDI into the inventory; else " + fix
		}
		r.find(client.FindingMissing, i, n, d, fix, "asset %s has %s %s in the inventory, and its node does not show it", h.Asset, d.Kind, d.Value)
	}
}

// shownElsewhere reports whether any node shows a device that the inventory lists: where its own does not, it was moved,
// which is told where it is.
func (r *reconciling) shownElsewhere(listed ledger.Device) bool {
	return slices.ContainsFunc(r.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.Proven, func(shown ledger.Device) bool { return r.same(listed, shown) })
	})
}

// node tells what a node shows that the inventory does not have there.
func (r *reconciling) node(n int) {
	node := &r.Nodes[n]
	if !slices.ContainsFunc(node.Proven, func(d ledger.Device) bool { return primary(d.Kind) }) {
		r.out.Waiting = append(r.out.Waiting, node.ID)
		return
	}
	at, ok := r.out.ByNode[node.ID]
	if !ok {
		what := ""
		for _, d := range node.Proven {
			if primary(d.Kind) {
				what += fmt.Sprintf(", %s %s", d.Kind, d.Value)
			}
		}
		r.find(client.FindingUnexpected, -1, n, ledger.Device{}, "if the machine is yours, give it a row in the inventory; else revoke the node: assay nodes revoke "+node.ID, "%s is in no row of the inventory: it shows %s", r.place(n), strings.TrimPrefix(what, ", "))
	}
	if ok && r.nodesOf[at][0] != n {
		return // a duplicate: what it shows is told there
	}
	for _, d := range node.Proven {
		switch from, listed := r.listing(d); {
		case listed && (!ok || from != at):
			if r.show[keyOf(d)][0] != n {
				continue // a duplicate
			}
			host := -1
			if ok {
				host = at
			}
			r.find(client.FindingMoved, host, n, d, "if the device was moved, say so in both rows of the inventory", "%s %s is listed for asset %s, and shown by %s", d.Kind, d.Value, r.Hosts[from].Asset, r.place(n))
		case !listed && ok && r.lists(at, d.Kind):
			r.find(client.FindingUnexpected, at, n, d, "if the device belongs there, write it into the row of the inventory", "asset %s shows %s %s, which the inventory does not list", r.Hosts[at].Asset, d.Kind, d.Value)
		}
	}
}

// lists reports whether a host lists devices of a class, so that one more of it is one too many.
func (r *reconciling) lists(host int, kind string) bool {
	return slices.ContainsFunc(r.Hosts[host].Devices, func(d ledger.Device) bool { return d.Kind == kind || IsGPU(kind) && IsGPU(d.Kind) })
}
