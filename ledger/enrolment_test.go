package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func inventoryHost() *ledger.Host {
	return &ledger.Host{Asset: "A-0042", Site: "fra1", Rack: "B07", Name: "gpu42.example", Board: "-S/N 7", Devices: []ledger.Device{{Kind: "chip", Value: []byte{1}}}, Revision: 1}
}

func TestParseEnrolment(t *testing.T) {
	good := ledger.Enrolment{
		Type: ledger.EnrolmentType, Node: "node-1", Basis: ledger.BasisActivation, EK: canon.Sum([]byte("EK")), AK: []byte{0, 11, 1}, Verifier: "https://verifier.example",
	}
	device := []ledger.Device{{Kind: "chip", Value: []byte{1}}}
	byEvidence := func(d []ledger.Device) func(*ledger.Enrolment) {
		return func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Devices = ledger.BasisEvidence, canon.Digest{}, nil, d
		}
	}
	byInventory := func(change func(*ledger.Enrolment)) func(*ledger.Enrolment) {
		return func(e *ledger.Enrolment) {
			e.Node, e.Basis, e.EK, e.AK, e.Host = "", ledger.BasisInventory, canon.Digest{}, nil, inventoryHost()
			if change != nil {
				change(e)
			}
		}
	}
	byRetired := func(change func(*ledger.Enrolment)) func(*ledger.Enrolment) {
		return func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Host, e.By, e.Reason = ledger.BasisRetired, canon.Digest{}, nil, inventoryHost(), "user:olga", "sold"
			if change != nil {
				change(e)
			}
		}
	}
	byShown := func(change func(*ledger.Enrolment)) func(*ledger.Enrolment) {
		return func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Evidence = ledger.BasisShown, canon.Digest{}, nil, canon.Sum([]byte("evidence"))
			e.Devices = []ledger.Device{{Kind: "gpu", Value: []byte{1}, Alias: []byte{2}}}
			if change != nil {
				change(e)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*ledger.Enrolment)
		want   string
	}{
		{"good", func(*ledger.Enrolment) {}, ""},
		{"other type", func(e *ledger.Enrolment) { e.Type = "assay/enrolment/v2" }, "is not known"},
		{"other basis", func(e *ledger.Enrolment) { e.Basis = "hope" }, `basis "hope"`},
		{"no node", func(e *ledger.Enrolment) { e.Node = "" }, "node and verifier are needed"},
		{"no endorsement key", func(e *ledger.Enrolment) { e.EK = canon.Digest{} }, "an activation has ek and ak"},
		{"no attestation key", func(e *ledger.Enrolment) { e.AK = nil }, "an activation has ek and ak"},
		{"no verifier", func(e *ledger.Enrolment) { e.Verifier = "" }, "node and verifier are needed"},
		{"devices of an activation", func(e *ledger.Enrolment) { e.Devices = device }, "no other has"},
		{"by a token", func(e *ledger.Enrolment) { e.Basis, e.EK, e.AK = ledger.BasisToken, canon.Digest{}, nil }, ""},
		{"by a token, with a key", func(e *ledger.Enrolment) { e.Basis, e.EK = ledger.BasisToken, canon.Digest{} }, "nothing else has"},
		{"by a token, of a tenant", func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Tenant = ledger.BasisToken, canon.Digest{}, nil, "dc-one.example"
		}, ""},
		{"by a token, of a tenant with a bad name", func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Tenant = ledger.BasisToken, canon.Digest{}, nil, "DC One"
		}, `tenant "DC One": want at most 64 of a-z`},
		{"an activation with a tenant", func(e *ledger.Enrolment) { e.Tenant = "dc-one" }, "one by a token has a tenant"},
		{"revoked", func(e *ledger.Enrolment) { e.Basis, e.EK, e.AK = ledger.BasisRevoked, canon.Digest{}, nil }, ""},
		{"by evidence", byEvidence(device), ""},
		{"by evidence, of no device", byEvidence(nil), "one by evidence, and what was shown, has devices"},
		{"by evidence, of a device of no kind", byEvidence([]ledger.Device{{Value: []byte{1}}}), "device 0: kind and value"},
		{"by evidence, of a device without an identity", byEvidence([]ledger.Device{{Kind: "chip"}}), "device 0: kind and value"},
		{"by evidence, of as many as there may be", byEvidence(slices.Repeat(device, ledger.MaxDevices)), ""},
		{"by evidence, of one more", byEvidence(slices.Repeat(device, ledger.MaxDevices+1)), "at most 64"},
		{"of an inventory", byInventory(nil), ""},
		{"retired", byRetired(nil), ""},
		{"retired, and no node was it", byRetired(func(e *ledger.Enrolment) { e.Node = "" }), ""},
		{"retired, and nobody says why", byRetired(func(e *ledger.Enrolment) { e.Reason = "" }), ""},
		{"retired, without a host", byRetired(func(e *ledger.Enrolment) { e.Host = nil }), "and so has what was retired"},
		{"retired by nobody", byRetired(func(e *ledger.Enrolment) { e.By = "" }), "what was retired says by whom"},
		{"retired, with a long reason", byRetired(func(e *ledger.Enrolment) { e.Reason = strings.Repeat("x", ledger.MaxReason+1) }), "reason of 1025, at most 1024"},
		{"an activation with a reason", func(e *ledger.Enrolment) { e.Reason = "sold" }, "nothing else does"},
		{"of an inventory, by somebody", byInventory(func(e *ledger.Enrolment) { e.By = "user:olga" }), "nothing else does"},
		{"of an inventory, with a node", byInventory(func(e *ledger.Enrolment) { e.Node = "node-1" }), "every one but that of an inventory has a node"},
		{"of an inventory, without a host", byInventory(func(e *ledger.Enrolment) { e.Host = nil }), "one of an inventory has a host"},
		{"by a token, with a host", func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Host = ledger.BasisToken, canon.Digest{}, nil, inventoryHost()
		}, "one of an inventory has a host"},
		{"a formula for a host's name", byInventory(func(e *ledger.Enrolment) { e.Host.Name = "=HYPERLINK(1)" }), "host \"=HYPERLINK(1)\": want"},
		{"a site in upper case", byInventory(func(e *ledger.Enrolment) { e.Host.Site = "FRA1" }), "site \"FRA1\": want"},
		{"a rack with a slash", byInventory(func(e *ledger.Enrolment) { e.Host.Rack = "b/07" }), "rack \"b/07\": want"},
		{"an asset of more than there may be", byInventory(func(e *ledger.Enrolment) { e.Host.Asset = strings.Repeat("a", ledger.MaxAsset+1) }), "asset"},
		{"a host without a device", byInventory(func(e *ledger.Enrolment) { e.Host.Devices = []ledger.Device{} }), "want 1 to 64"},
		{"a host with a device twice", byInventory(func(e *ledger.Enrolment) { e.Host.Devices = append(e.Host.Devices, e.Host.Devices[0]) }), "is not in order, each once"},
		{"a host of no revision", byInventory(func(e *ledger.Enrolment) { e.Host.Revision = 0 }), "revision 0"},
		{"a board with a line end", byInventory(func(e *ledger.Enrolment) { e.Host.Board = "a\nb" }), "want at most 64 printable"},
		{"by the token of a rack", func(e *ledger.Enrolment) {
			e.Basis, e.EK, e.AK, e.Site, e.Rack = ledger.BasisToken, canon.Digest{}, nil, "fra1", "B07"
		}, ""},
		{"by the token of a rack at no site", func(e *ledger.Enrolment) { e.Basis, e.EK, e.AK, e.Rack = ledger.BasisToken, canon.Digest{}, nil, "B07" }, "has site and rack"},
		{"an activation in a rack", func(e *ledger.Enrolment) { e.Site, e.Rack = "fra1", "B07" }, "has site and rack"},
		{"shown", byShown(nil), ""},
		{"shown by no evidence", byShown(func(e *ledger.Enrolment) { e.Evidence = canon.Digest{} }), "what was shown names the evidence"},
		{"shown without a device", byShown(func(e *ledger.Enrolment) { e.Devices = nil }), "what was shown, has devices"},
		{"by evidence, with an alias", byEvidence([]ledger.Device{{Kind: "chip", Value: []byte{1}, Alias: []byte{2}}}), "only what was shown has an alias"},
	} {
		e := good
		c.change(&e)
		data, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ledger.ParseEnrolment(data)
		check(t, c.name, err, c.want)
		if again, err := canon.Marshal(got); c.want == "" && (err != nil || string(again) != string(data)) {
			t.Errorf("%s: %s, %v", c.name, again, err)
		}
	}
	_, err := ledger.ParseEnrolment([]byte("{}"))
	check(t, "empty", err, "enrolment: ")
}
