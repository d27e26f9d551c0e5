package ledger_test

import (
	"testing"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestParseEnrolment(t *testing.T) {
	good := ledger.Enrolment{
		Type: ledger.EnrolmentType, Node: "node-1", Basis: ledger.BasisActivation, EK: canon.Sum([]byte("EK")), AK: []byte{0, 11, 1}, Verifier: "https://verifier.example",
	}
	for _, c := range []struct {
		name   string
		change func(*ledger.Enrolment)
		want   string
	}{
		{"good", func(*ledger.Enrolment) {}, ""},
		{"other type", func(e *ledger.Enrolment) { e.Type = "assay/enrolment/v2" }, "is not known"},
		{"other basis", func(e *ledger.Enrolment) { e.Basis = "hope" }, `basis "hope"`},
		{"no node", func(e *ledger.Enrolment) { e.Node = "" }, "are all needed"},
		{"no endorsement key", func(e *ledger.Enrolment) { e.EK = canon.Digest{} }, "are all needed"},
		{"no attestation key", func(e *ledger.Enrolment) { e.AK = nil }, "are all needed"},
		{"no verifier", func(e *ledger.Enrolment) { e.Verifier = "" }, "are all needed"},
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
