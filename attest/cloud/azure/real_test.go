package azure_test

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/cloud/azure"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

const folder = "cpu/azure/"

// realCase is what a real file is judged by.
func realCase(t testing.TB) attest.Case {
	t.Helper()
	roots, err := attest.NewRoots(slices.Concat(sevsnp.VendorRoots(), tdx.VendorRoots(), tpm.VendorRoots())...)
	if err != nil {
		t.Fatal(err)
	}
	return attest.Case{Roots: roots, At: canon.At(time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC))}
}

func judgeAll(comps []attest.Component, c attest.Case, asked attest.Asked) claim.Set {
	var set claim.Set
	cpuPart := comps[len(comps)-1]
	azure.Appraise(cpuPart, cpu, &c, asked, &set)
	if tie, ok := azure.TieOf(cpuPart, cpu); ok && len(comps) == 2 {
		tpm.AppraiseTied(comps[0], vtpm, &c, attest.Asked{}, []tpm.Tie{tie}, &set)
	}
	set.Settle()
	return set
}

var evidence = []string{
	"trustee-az-snp-evidence-v0.json", "trustee-az-snp-evidence-v1.json", "trustee-az-snp-evidence-v2.json", "trustee-az-snp-evidence-genoa.json",
	"trustee-az-tdx-evidence-v0.json", "trustee-az-tdx-evidence-v1.json",
}

func TestRealEvidence(t *testing.T) {
	k := realCase(t)
	for _, name := range evidence {
		data := vectors.Read(t, folder+name)
		comps, err := azure.Read(data)
		if err != nil || len(comps) != 2 {
			t.Fatalf("%s: %v", name, err)
		}
		room, format := "sevsnp", azure.FormatSNP
		if strings.Contains(name, "tdx") {
			room, format = "tdx", azure.FormatTDX
		}
		if got := azure.Recognize(data); got != format {
			t.Errorf("%s: taken for %q", name, got)
		}
		set := judgeAll(comps, k, attest.Asked{})
		for _, id := range []string{"azure.structure", "azure.runtime-data", room + ".signature", "tpm.signature", "tpm.quote", "tpm.pcr-digest", "tpm.selection"} {
			if !slices.ContainsFunc(set, func(c claim.Claim) bool { return c.ID == id && c.Status == claim.Affirmed }) {
				t.Errorf("%s: %s is not affirmed", name, id)
			}
		}
	}
}

// TestRealSwap: the quote of one machine beside the report of another, and the key of one in the other's runtime data.
func TestRealSwap(t *testing.T) {
	k := realCase(t)
	one, err := azure.Read(vectors.Read(t, folder+"trustee-az-snp-evidence-v1.json"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := azure.Read(vectors.Read(t, folder+"trustee-az-snp-evidence-v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	set := judgeAll([]attest.Component{two[0], one[1]}, k, attest.Asked{})
	if c := set.Find("tpm.ak-bound", vtpm); c.Status != claim.Contradicted || c.Reason.Code() != claim.Mismatch {
		t.Errorf("quote with its own key: %s %s", c.Status, c.Reason)
	}
	quote := two[0]
	quote.Parts = slices.Clone(quote.Parts)
	ak, _ := one[0].Part(tpm.PartAK)
	quote.Parts[3].Data = ak
	set = judgeAll([]attest.Component{quote, one[1]}, k, attest.Asked{})
	if c := set.Find("tpm.signature", vtpm); c.Status != claim.Contradicted {
		t.Errorf("quote with the other's key: %s", c.Status)
	}

	first, second := reportOf(t, one[1]), reportOf(t, two[1])
	first.Runtime = second.Runtime
	swapped := one[1]
	swapped.Parts = slices.Clone(swapped.Parts)
	swapped.Parts[0].Data = first.Encode()
	set = judgeAll([]attest.Component{two[0], swapped}, k, attest.Asked{})
	if c := set.Find("azure.runtime-data", cpu); c.Status != claim.Contradicted || c.Reason.Code() != claim.Mismatch {
		t.Errorf("runtime data of another machine: %s %s", c.Status, c.Reason)
	}
	if c := set.Find("tpm.quote", vtpm); c.Status != claim.Unknown {
		t.Errorf("its quote: %s", c.Status)
	}
}

func reportOf(t *testing.T, comp attest.Component) azure.Report {
	t.Helper()
	r, err := azure.ParseReport(comp.Parts[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRealUserData: the user data counts whatever version the evidence calls itself. A verifier that passes it over in
// old versions takes a report of any age.
func TestRealUserData(t *testing.T) {
	k := realCase(t)
	user, _ := canon.ParseDigest("982f5c6e45df0ed3f10b6f60b02f0c8390e281300f3805e2279c16168cd6ae9a")
	for _, row := range []struct{ name, file, want string }{
		{"written", "trustee-az-snp-evidence-v2.json", "azure.report-fresh affirmed"},
		{"not written, version 1", "trustee-az-snp-evidence-v1.json", "azure.report-fresh contradicted no-freshness"},
		{"not written, version 0", "trustee-az-snp-evidence-v0.json", "azure.report-fresh contradicted no-freshness"},
		{"not written, TDX", "trustee-az-tdx-evidence-v1.json", "azure.report-fresh contradicted no-freshness"},
	} {
		data := vectors.Read(t, folder+row.file)
		for _, called := range []string{`"version": 2`, `"version": 1`, `"version": 0`} {
			comps, err := azure.Read(bytes.Replace(data, []byte(`"version": 2`), []byte(called), 1))
			if err != nil {
				t.Fatal(err)
			}
			asked := make([]byte, 64)
			copy(asked, user[:])
			copy(asked[32:], "\xa3\x98\xf6\x47\xca\xa2\x33\x87\x48\xcd\x0f\xd9\xf5\xf8\x19\xef")
			set := judgeAll(comps, k, attest.Asked{ReportData: asked, Why: "other"})
			if got := word(*set.Find("azure.report-fresh", cpu)); got != row.want {
				t.Errorf("%s: %s, want %s", row.name, got, row.want)
			}
		}
	}
}

// TestRealReports: HCL reports as their NV index holds them, with no quote of the virtual TPM.
func TestRealReports(t *testing.T) {
	for _, row := range []struct{ name, format, want string }{
		{"kinvolk-hcl-report-snp.bin", azure.FormatSNP, "azure.runtime-data unknown rests-on"}, // no VCEK
		{"trustee-az-snp-hcl-report.bin", azure.FormatSNP, "azure.runtime-data unknown rests-on"},
		{"kinvolk-hcl-report-tdx.bin", azure.FormatTDX, "azure.runtime-data unknown evidence-missing"}, // no TDX quote
		{"trustee-az-tdx-hcl-report.bin", azure.FormatTDX, "azure.runtime-data unknown evidence-missing"},
	} {
		data := vectors.Read(t, path.Join(folder, row.name))
		comps, err := azure.Read(data)
		if err != nil || len(comps) != 1 || azure.Recognize(data) != row.format {
			t.Fatalf("%s: %v", row.name, err)
		}
		set := judgeAll(comps, realCase(t), attest.Asked{})
		if got := word(*set.Find("azure.structure", cpu)); got != "azure.structure affirmed "+row.format {
			t.Errorf("%s: %s", row.name, got)
		}
		if got := word(*set.Find("azure.runtime-data", cpu)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		if r := reportOf(t, comps[0]); !bytes.Equal(r.Encode(), data) {
			t.Errorf("%s does not survive", row.name)
		}
	}
}

// TestRealFields: the fields of a report cover it without a gap.
func TestRealFields(t *testing.T) {
	for _, name := range []string{"kinvolk-hcl-report-snp.bin", "trustee-az-tdx-hcl-report.bin"} {
		data := vectors.Read(t, path.Join(folder, name))
		fields, err := azure.Fields(data)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, f := range fields {
			if f.Offset != at {
				t.Errorf("%s: %s at %d, want %d", name, f.Name, f.Offset, at)
			}
			at += f.Size
		}
		if at != len(data) {
			t.Errorf("%s: %d bytes, want %d", name, at, len(data))
		}
	}
}
