package verifier_test

import (
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/verifier"
)

// TestReadCollateral: a file is told from its content, and one that is no collateral is refused: as a list that nobody
// signed it would deny nothing, without a word.
func TestReadCollateral(t *testing.T) {
	list := mint.DenyList(1, 1, 2)
	env, err := ledger.ParseEnvelope(list)
	if err != nil {
		t.Fatal(err)
	}
	env.PayloadType = "assay/policy/v1"
	other, err := canon.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		data []byte
		kind string // of the only item
		err  string
	}{
		{"deny list", list, attest.KindDenyList, ""},
		{"deny list with a newline", append(list, '\n'), attest.KindDenyList, ""},
		{"deny list cut short", list[:len(list)-1], "", "no signed deny list"},
		{"another document in an envelope", other, "", `want "assay/denylist/v1"`},
		{"the payload of a deny list, bare", []byte(`{"type":"assay/denylist/v1","number":1,"entries":[]}`), "", "no signed deny list"},
		{"reference values", []byte(`{"type":"assay/references/v1","name":"","source":"","values":[]}`), "", "no signed deny list"},
		{"empty object", []byte("{}"), "", "no signed deny list"},
		{"a quote", vectors.Read(t, "cpu/tdx/gtg-quote_v5_sample.dat"), "", "it is no collateral of a form that this build reads"},
		{"a report in hex", vectors.Read(t, "cpu/snp/virtee-milan-report.hex"), "", "it is no collateral of a form that this build reads"},
		{"certificate", vectors.Read(t, "cpu/snp/gsg-milan-vcek.der"), attest.KindAMDCertificate, ""},
	} {
		items, err := verifier.ReadCollateral(row.data)
		switch {
		case row.err != "":
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%s: %v, want %q", row.name, err, row.err)
			}
		case err != nil || len(items) != 1 || items[0].Kind != row.kind:
			t.Errorf("%s: %d items, %v, want one of kind %s", row.name, len(items), err, row.kind)
		}
	}
}

// TestReferenceFormats: a list of reference values may speak of every format that guests are measured in.
func TestReferenceFormats(t *testing.T) {
	for _, format := range []string{sevsnp.Format, tdx.Format, tpm.Format, azure.FormatSNP, azure.FormatTDX} {
		r := attest.References{Type: attest.ReferencesType, Values: []attest.Reference{{Format: format, Measurement: make([]byte, 48)}}}
		if err := r.Check(); err != nil {
			t.Error(err)
		}
	}
}
