package ledger_test

import (
	"slices"
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

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
		{"by evidence, of no device", byEvidence(nil), "one by evidence has devices"},
		{"by evidence, of a device of no kind", byEvidence([]ledger.Device{{Value: []byte{1}}}), "device 0: kind and value"},
		{"by evidence, of a device without an identity", byEvidence([]ledger.Device{{Kind: "chip"}}), "device 0: kind and value"},
		{"by evidence, of as many as there may be", byEvidence(slices.Repeat(device, ledger.MaxDevices)), ""},
		{"by evidence, of one more", byEvidence(slices.Repeat(device, ledger.MaxDevices+1)), "at most 64"},
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
