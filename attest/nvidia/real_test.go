package nvidia_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/vectors"
)

// TestManifest judges the real evidence of the manifest; verdicts are those of the policy that the claims are for.
func TestManifest(t *testing.T) {
	cases := manifest(t)
	if len(cases) < 20 {
		t.Errorf("%d cases, want 20", len(cases))
	}
	for _, m := range cases {
		t.Run(m.ID, func(t *testing.T) {
			l := vendor(t, m.AsOf)
			l.nonce = m.Args.Nonce
			evidence := m.Files.Evidence
			if m.Files.Cert != "" {
				evidence = append(evidence, m.Files.Cert)
			}
			set := l.judge(files(t, evidence...), collateral(t, m.Files.Collateral...)...)
			for id, status := range m.Claims {
				found := 0
				for _, c := range set {
					if c.ID == id {
						found++
						want(t, set, id, c.Subject, status)
					}
				}
				if found == 0 {
					t.Errorf("no claim %s", id)
				}
			}
			if got := genuine(set); got != m.Verdict {
				t.Errorf("verdict %s, want %s", got, m.Verdict)
			}
			if t.Failed() {
				dump(t, set)
			}
		})
	}
}

const (
	hopper     = "gpu/nvtrust/hopperAttestationReport.txt"
	hopperCert = "gpu/nvtrust/hopperCertChain.txt"
	driverRIM  = "gpu/go-nvattest-tools/rim/NV_GPU_DRIVER_GH100_550.90.07.xml"
	vbiosRIM   = "gpu/go-nvattest-tools/rim/NV_GPU_VBIOS_1010_0200_882_96009F0001.xml"
)

// TestShows holds the sentences of the issue about the reference case.
func TestShows(t *testing.T) {
	both := collateral(t, driverRIM, vbiosRIM)
	report := files(t, hopper, hopperCert)
	set := vendor(t, "2025-06-01T00:00:00Z").judge(report, both...)
	want(t, set, "nvidia.measurements", gpu0, affirmed, "compared:32 skipped:35")
	want(t, set, "nvidia.driver-rim", gpu0, affirmed, both[0].Digest().String())
	want(t, set, "nvidia.vbios-rim", gpu0, affirmed, both[1].Digest().String())
	want(t, set, "nvidia.mode", gpu0, affirmed, "SPT")
	want(t, set, "nvidia.firmware", gpu0, affirmed, "board:1010_0200_882 driver:550.90.07 nvdec0:off vbios:96.00.9F.00.01")
	want(t, set, "nvidia.identity", gpu0, affirmed, "chip:GH100 leaf:53c22ba15e5d68088282da074ed9fb37aa585771 pdi:431d480fe5e87274 san:48b02d92494badf4")

	set = vendor(t, "2025-06-01T00:00:00Z").judge(report, both[0])
	want(t, set, "nvidia.driver-rim", gpu0, affirmed)
	want(t, set, "nvidia.vbios-rim", gpu0, unknown, "collateral-missing", "https://rim.attestation.nvidia.com/v1/rim/NV_GPU_VBIOS_1010_0200_882_96009F0001")
	want(t, set, "nvidia.measurements", gpu0, unknown, "rests-on nvidia.vbios-rim")

	set = vendor(t, "2026-11-01T00:00:00Z").judge(report, both...)
	want(t, set, "nvidia.measurements", gpu0, unknown)
	want(t, set, "nvidia.driver-rim", gpu0, unknown, "collateral-refused", "lapsed at 2026-06-01")
	want(t, set, "nvidia.vbios-rim", gpu0, unknown, "collateral-refused", "lapsed at 2026-02-22")
}

// TestNVIDIAsOwnParse compares with what NVIDIA's tool made of the same bytes.
func TestNVIDIAsOwnParse(t *testing.T) {
	const dir = "gpu/attestation-sdk/testdata/"
	for _, row := range []struct{ report, response, request string }{
		{"hopperAttestationReport.txt", "spdm_parsed_output.json", "spdm_req_parsed_output.json"},
		{"switchAttestationReport.txt", "switch_spdm_parsed_output.json", "switch_spdm_req_parsed_output.json"},
	} {
		t.Run(row.report, func(t *testing.T) {
			var theirs struct {
				Nonce, Signature  string
				NumberOfBlocks    int
				MeasurementRecord struct {
					MeasurementBlocks map[string]struct{ DMTFSpecMeasurementValue string }
				}
				OpaqueData struct{ OpaqueDataField map[string]any }
			}
			var request struct{ Nonce string }
			for name, into := range map[string]any{row.response: &theirs, row.request: &request} {
				if err := json.Unmarshal(vectors.Read(t, dir+name), into); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := hex.DecodeString(strings.TrimSpace(string(vectors.Read(t, dir+row.report))))
			if err != nil {
				t.Fatal(err)
			}
			u, err := nvidia.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			r := u.Peek()
			equal := func(what, got string, want any) {
				if "0x"+got != want {
					t.Errorf("%s is %s, NVIDIA's tool says %v", what, got, want)
				}
			}
			equal("requester nonce", hex.EncodeToString(r.Nonce[:]), request.Nonce)
			equal("responder nonce", hex.EncodeToString(r.ResponderNonce[:]), theirs.Nonce)
			equal("signature", hex.EncodeToString(r.Signature[:]), theirs.Signature)
			if len(r.Measurements) != theirs.NumberOfBlocks {
				t.Errorf("%d measurements, NVIDIA's tool says %d", len(r.Measurements), theirs.NumberOfBlocks)
			}
			for i, m := range r.Measurements {
				equal(fmt.Sprintf("measurement %d", i), hex.EncodeToString(m[:]), theirs.MeasurementRecord.MeasurementBlocks[fmt.Sprint(i+1)].DMTFSpecMeasurementValue)
			}
			fields, err := nvidia.Fields(raw)
			if err != nil {
				t.Fatal(err)
			}
			compared := 0
			for _, f := range fields {
				if want, ok := theirs.OpaqueData.OpaqueDataField["OPAQUE_FIELD_ID_"+f.Name].(string); ok {
					equal(f.Name, f.Hex, want)
					compared++
				}
			}
			if compared < 4 {
				t.Errorf("only %d opaque fields compared", compared)
			}
		})
	}
}

// TestEveryReport: all reports of the vectors parse and are written back byte for byte; each verifies with its chain but
// those that were made to fail.
func TestEveryReport(t *testing.T) {
	const sdk = "gpu/attestation-sdk/testdata/"
	const samples = sdk + "sample_attestation_data/"
	for _, row := range []struct {
		evidence []string
		status   claim.Status // of nvidia.signature
		devices  int
	}{
		{[]string{hopper, hopperCert}, affirmed, 1},
		{[]string{"gpu/trustee/hopperAttestationReport.txt", "gpu/trustee/hopper_cert_chain_case1.txt"}, affirmed, 1},
		{[]string{"gpu/go-nvattest-tools/test_raw_gpu_attestation_report.dat", hopperCert}, affirmed, 1},
		{[]string{"gpu/go-nvtrust/attestationReport.txt", "gpu/go-nvtrust/gpuAkCertChain.txt"}, affirmed, 1},
		{[]string{sdk + "hopperAttestationReport.txt", sdk + "hopperCertChain.txt"}, affirmed, 1},
		{[]string{samples + "gpu/hopperAttestationReport.txt", samples + "gpu/hopperCertChain.txt"}, affirmed, 1},
		{[]string{samples + "gpu/hopperAttestationReportExpired.txt", samples + "gpu/hopperCertChainExpired.txt"}, affirmed, 1},
		{[]string{samples + "gpu/hopperAttestationReportInvalidSignature.txt", samples + "gpu/hopperCertChain.txt"}, contradicted, 1},
		{[]string{samples + "gpu/blackwellAttestationReport.txt", samples + "gpu/blackwellCertChain.txt"}, affirmed, 1},
		{[]string{sdk + "switchAttestationReport.txt", sdk + "switchCertChain.txt"}, affirmed, 1},
		{[]string{samples + "switch/switchAttestationReport.txt", samples + "switch/switchCertChain.txt"}, affirmed, 1},
		{[]string{samples + "switch/switchAttestationReportInvalidSignature.txt", samples + "switch/switchCertChain.txt"}, contradicted, 1},
		{[]string{"gpu/trustee/hopper_coco_report1.txt", "gpu/trustee/hopper_coco_certs1.txt"}, affirmed, 1},
		{[]string{"gpu/go-nvattest-tools/test_raw_switch_attestation_report.dat", "gpu/go-nvattest-tools/test_switch_attestation_certificate_chain.dat"}, contradicted, 1}, // of two switches
		{[]string{"gpu/go-nvattest-tools/norm_mpt_gpus.json"}, affirmed, 8},
		{[]string{"gpu/go-nvattest-tools/norm_ppcie_gpus.json"}, affirmed, 8},
		{[]string{"gpu/go-nvattest-tools/norm_ppcie_switches.json"}, affirmed, 4},
		{[]string{"gpu/nvtrust/gpu_evidence.json"}, affirmed, 8},
		{[]string{"gpu/nvtrust/switch_evidence.json"}, affirmed, 4},
		{[]string{"gpu/attestation-sdk/hopper_evidence.json"}, affirmed, 1},
		{[]string{"gpu/attestation-sdk/multi_gpu_hopper.json"}, affirmed, 4},
		{[]string{"gpu/attestation-sdk/hopper_evidence_cert_hold.json"}, affirmed, 1},
		{[]string{"gpu/attestation-sdk/switch_evidence_ls10.json"}, affirmed, 1},
		{[]string{"gpu/attestation-sdk/testdata/evidence_hopper_590_12.json"}, affirmed, 1},
		{[]string{"gpu/veraison/blackwell-evidence.json"}, affirmed, 1},
	} {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(row.evidence[0], "gpu/"), "/", "-"), func(t *testing.T) {
			components := files(t, row.evidence...)
			if len(components) != row.devices {
				t.Errorf("%d devices, want %d", len(components), row.devices)
			}
			set := vendor(t, "2026-11-30T00:00:00Z").judge(components)
			for i, c := range components {
				raw, _ := c.Part(nvidia.PartReport)
				u, err := nvidia.Parse(raw)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(u.Peek().Encode()); got != strings.TrimSuffix(string(raw), "\x00") && got != string(raw) {
					t.Errorf("device %d is written back otherwise", i)
				}
			}
			for _, c := range set {
				if c.ID == "nvidia.signature" && c.Status != row.status || c.ID == "nvidia.identity" && row.status == affirmed && c.Status != affirmed {
					t.Errorf("%s of %s is %s (%s)", c.ID, c.Subject, c.Status, c.Reason)
				}
			}
			if row.status == contradicted {
				for _, c := range set {
					if c.Status == affirmed && c.ID != "nvidia.structure" && c.ID != "nvidia.chain" && c.ID != "set.device-unique" {
						t.Errorf("%s of %s is affirmed, although no signature vouches for it", c.ID, c.Subject)
					}
				}
			}
		})
	}
}

// TestRawSwitchReport: the raw report of a switch verifies with the chain of that switch among its neighbours', and with no
// other.
func TestRawSwitchReport(t *testing.T) {
	raw := vectors.Read(t, "gpu/go-nvattest-tools/test_raw_switch_attestation_report.dat")
	good := 0
	for _, c := range files(t, "gpu/go-nvattest-tools/norm_ppcie_switches.json") {
		chain, _ := c.Part(nvidia.PartChain)
		set := vendor(t, "2026-06-01T00:00:00Z").judge([]attest.Component{nvidia.ReadFiles(raw, chain)})
		if set.Find("nvidia.signature", "switch:0").Status == affirmed {
			want(t, set, "nvidia.identity", "switch:0", affirmed)
			good++
			continue
		}
		want(t, set, "nvidia.identity", "switch:0", contradicted, "mismatch")
	}
	if good != 1 {
		t.Errorf("the report verifies with %d chains of 4, want 1", good)
	}
}

// TestRealHosts: two real machines close their wiring; each thing that is wrong with a set of their devices is said by the
// claim that is about it.
func TestRealHosts(t *testing.T) {
	a := files(t, "gpu/nvtrust/gpu_evidence.json", "gpu/nvtrust/switch_evidence.json")
	b := files(t, "gpu/go-nvattest-tools/norm_ppcie_gpus.json", "gpu/go-nvattest-tools/norm_ppcie_switches.json")
	if len(a) != 12 || len(b) != 12 {
		t.Fatalf("%d and %d devices", len(a), len(b))
	}
	memory := attest.NewMemory()
	for _, row := range []struct {
		name    string
		devices []attest.Component
		id      string
		status  claim.Status
		words   string
	}{
		{"host a", a, "set.topology", affirmed, "gpu:8 switch:4"},
		{"host b", b, "set.topology", affirmed, "gpu:8 switch:4"},
		{"host a in another order", slices.Concat(a[8:], a[3:8], a[:3]), "set.topology", affirmed, "gpu:8 switch:4"},
		{"switches swapped", slices.Concat(a[:8], b[8:]), "set.topology", contradicted, "switches behind the GPUs and switches here"},
		{"switches swapped the other way", slices.Concat(b[:8], a[8:]), "set.topology", contradicted, "switches behind the GPUs and switches here"},
		{"one switch swapped", slices.Concat(a[:11], b[11:]), "set.topology", contradicted, "do not link the same GPUs"},
		{"one GPU dropped", a[1:], "set.topology", contradicted, "GPUs that the switches link and GPUs here: no evidence of"},
		{"one switch dropped", a[:11], "set.topology", contradicted, "switches behind the GPUs and switches here: no evidence of"},
		{"one GPU doubled", slices.Concat(a[:1], a), "set.topology", contradicted, "are one device"},
		{"one GPU doubled, in the place of another", slices.Concat(a[:1], a[:1], a[2:]), "set.topology", contradicted, "are one device"},
		{"one GPU doubled: it is no other device", slices.Concat(a[:1], a), "set.device-unique", contradicted, "duplicate"},
		{"hosts mixed", slices.Concat(a[:7], b[7:8], a[8:]), "set.topology", contradicted, "not behind the same switches"},
		{"both hosts", slices.Concat(a[:8], b[:8], a[8:], b[8:]), "set.topology", contradicted, "not behind the same switches"},
		{"nonces mixed", slices.Concat(a[:8], b[8:]), "set.same-nonce", contradicted, "gpu:0 answers"},
		{"switches not shown", a[:8], "set.topology", unknown, "evidence-missing: the GPUs are behind 4 switches"},
		{"switches not shown: their links lead anywhere", b[:8], "set.links", unknown, "rests-on set.topology"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := vendor(t, "2026-06-01T00:00:00Z")
			l.case_.Memory = memory
			want(t, l.judge(row.devices), row.id, "set", row.status, row.words)
		})
	}
}
