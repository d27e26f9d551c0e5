package verifier_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

// row is one answer that a known bug of another verifier got wrong: what a case must come to.
type row struct {
	name         string // of the case
	id           string
	status       claim.Status
	word         string
	genuine      policy.Outcome
	confidential policy.Outcome
}

// knownBugs are rows of bugs that others reported, each with its twin.
var knownBugs = map[string][]row{
	"P05 Turin has 8 bytes of chip id": {
		{"turin-v5", "sevsnp.cert-chip-id", claim.Affirmed, "chip", policy.Accept, policy.Undecided},
		{"turin-chip-tail", "sevsnp.cert-chip-id", claim.Contradicted, "mismatch", policy.Reject, policy.Reject},
		{"turin-v5", "sevsnp.tcb", claim.Affirmed, "fmc=1 bl=1 tee=1 snp=4 ucode=75", policy.Accept, policy.Undecided},
	},
	"P06 the received bytes are hashed": {
		{"reserved-byte", "sevsnp.signature", claim.Affirmed, "", policy.Accept, policy.Reject}, // a re-encoding would drop the byte
		{"signature", "sevsnp.signature", claim.Contradicted, "bad-signature", policy.Reject, policy.Reject},
	},
	"P07 no product in the report": {
		{"milan-v2-masked", "sevsnp.chain", claim.Affirmed, "", policy.Undecided, policy.Undecided},
		{"milan-v2-masked-missing", "sevsnp.chain", claim.Unknown, "evidence-missing", policy.Reject, policy.Reject},
		{"report-no-cpuid", "sevsnp.structure", claim.Contradicted, "malformed", policy.Reject, policy.Reject},
	},
	"P08 productName without a stepping": {
		{"chain-no-stepping", "sevsnp.chain", claim.Affirmed, "", policy.Accept, policy.Accept},
		{"chain-other-line", "sevsnp.chain", claim.Contradicted, "mismatch", policy.Reject, policy.Reject},
	},
	"P09 the hardware id is told by its length": {
		{"chain-wrapped-id", "sevsnp.cert-chip-id", claim.Affirmed, "chip", policy.Accept, policy.Accept},
		{"certificate-chip", "sevsnp.cert-chip-id", claim.Contradicted, "mismatch", policy.Reject, policy.Reject},
		{"chip-id-masked", "sevsnp.cert-chip-id", claim.Unknown, "masked", policy.Undecided, policy.Undecided},
	},
	"C01 no step may pass over a broken chain": {
		{"chain-other-line", "sevsnp.signature", claim.Unknown, "rests-on", policy.Reject, policy.Reject},
		{"chain-impostor", "sevsnp.signature", claim.Unknown, "rests-on", policy.Reject, policy.Reject},
		{"genoa-v5", "sevsnp.signature", claim.Affirmed, "", policy.Accept, policy.Undecided},
	},
	"C02 the certificate is for REPORTED_TCB": {
		{"reported-below-current", "sevsnp.signature", claim.Affirmed, "", policy.Accept, policy.Undecided},
		{"certificate-for-current", "sevsnp.signature", claim.Contradicted, "bad-signature", policy.Reject, policy.Reject},
	},
	"C05 a first sight is no freshness": {
		{"report-data-unasked", "sevsnp.freshness", claim.Unknown, "no-expectation", policy.Accept, policy.Undecided},
		{"challenge-unasked", "sevsnp.freshness", claim.Unknown, "no-expectation", policy.Accept, policy.Undecided},
		{"genoa-v5", "sevsnp.freshness", claim.Affirmed, "", policy.Accept, policy.Undecided},
	},
	"C08 a TCB is compared part by part": {
		{"committed-above-current", "sevsnp.committed-tcb", claim.Contradicted, "mismatch", policy.Accept, policy.Reject},
		{"bundle-genoa-v5", "sevsnp.committed-tcb", claim.Affirmed, "bl=10 tee=0 snp=24 ucode=84", policy.Accept, policy.Accept},
	},
	"L04 debug and VMPL": {
		{"debug", "sevsnp.debug-off", claim.Contradicted, "enabled", policy.Accept, policy.Reject},
		{"vmpl-2", "sevsnp.vmpl", claim.Affirmed, "2", policy.Accept, policy.Reject},
		{"bundle-genoa-v5", "sevsnp.debug-off", claim.Affirmed, "", policy.Accept, policy.Accept},
	},
	"L07 an old TCB with the certificate for it": {
		{"tcb-old", "sevsnp.cert-tcb", claim.Affirmed, "bl=10 tee=0 snp=22 ucode=84", policy.Accept, policy.Reject},
		{"bundle-genoa-v5", "sevsnp.tcb", claim.Affirmed, "bl=10 tee=0 snp=24 ucode=84", policy.Accept, policy.Accept},
	},
	"L09 no reference values": {
		{"guest-unlisted", "guest.measured", claim.Unknown, "no-reference", policy.Accept, policy.Undecided},
		{"guest-other", "guest.measured", claim.Contradicted, "not-listed", policy.Accept, policy.Reject},
		{"bundle-genoa-v5", "guest.measured", claim.Affirmed, "tee", policy.Accept, policy.Accept},
	},
	"T02 a lapsed certificate is not judged by its own dates": {
		{"chain-lapsed", "sevsnp.chain", claim.Contradicted, "lapsed", policy.Reject, policy.Reject},
		{"chain-last-second", "sevsnp.chain", claim.Affirmed, "", policy.Accept, policy.Accept},
	},
	"T04 bounds are inclusive": {
		{"chain-first-second", "sevsnp.chain", claim.Affirmed, "", policy.Accept, policy.Accept},
		{"chain-early", "sevsnp.chain", claim.Contradicted, "not-yet-valid", policy.Reject, policy.Reject},
		{"crl-first-second", "sevsnp.revocation", claim.Affirmed, "", policy.Accept, policy.Accept},
		{"crl-last-second", "sevsnp.revocation", claim.Affirmed, "", policy.Accept, policy.Accept},
	},
	"T08 revocation lists with bad dates": {
		{"crl-stale", "sevsnp.revocation", claim.Unknown, "collateral-refused", policy.Accept, policy.Undecided},
		{"crl-future", "sevsnp.revocation", claim.Unknown, "collateral-refused", policy.Accept, policy.Undecided},
		{"crl-endless", "sevsnp.revocation", claim.Unknown, "collateral-refused", policy.Accept, policy.Undecided},
		{"bundle-genoa-v5", "sevsnp.revocation", claim.Affirmed, "amd-crl deny-list", policy.Accept, policy.Accept},
	},
}

func TestKnownBugs(t *testing.T) {
	all, _ := minted(t)
	for name, rows := range knownBugs {
		t.Run(name, func(t *testing.T) {
			for _, r := range rows {
				j := judge(t, all[r.name])
				c := j.Appraisal.Claims.Find(r.id, subjectOf(r.id))
				if c == nil || c.Status != r.status || r.word != "" && word(*c) != r.word {
					t.Errorf("%s: %s is %+v, want %s %s", r.name, r.id, c, r.status, r.word)
				}
				if j.Verdicts[0].Outcome != r.genuine || j.Verdicts[1].Outcome != r.confidential {
					t.Errorf("%s: %s and %s, want %s and %s", r.name, j.Verdicts[0].Outcome, j.Verdicts[1].Outcome, r.genuine, r.confidential)
				}
			}
		})
	}
}

// gpuBugs are rows about machines with GPUs: what confidential-cpu and confidential-gpu must say of them.
var gpuBugs = map[string][]struct {
	name     string // of the case
	id       string // ID@SUBJECT
	status   claim.Status
	word     string
	cpu, gpu policy.Outcome
}{
	"C09 one GPU on two hosts": {
		{"bundle-gpu-hopper", "set.device-unique@set", claim.Affirmed, "", policy.Accept, policy.Accept},
		{"gpu-contested", "set.device-unique@set", claim.Contradicted, "contested", policy.Reject, policy.Reject},
		{"gpu-two-doubled", "set.device-unique@set", claim.Contradicted, "duplicate", policy.Reject, policy.Reject},
	},
	"C10 eight GPUs and four switches are twelve devices": {
		{"bundle-gpu-hgx", "set.count@set", claim.Affirmed, "gpu:8 switch:4", policy.Accept, policy.Accept},
		{"gpu-hgx-doubled", "set.count@set", claim.Unknown, "rests-on", policy.Reject, policy.Reject},
	},
	"C12 a broken signature": {
		{"gpu-signature", "nvidia.signature@gpu:0", claim.Contradicted, "bad-signature", policy.Reject, policy.Reject},
		{"gpu-signature", "nvidia.measurements@gpu:0", claim.Unknown, "rests-on", policy.Reject, policy.Reject},
		{"gpu-signature", "nvidia.cc-mode@gpu:0", claim.Unknown, "rests-on", policy.Reject, policy.Reject},
	},
	"L08 DevTools on, and no GPU at all": {
		{"gpu-devtools-on", "nvidia.devtools-off@gpu:0", claim.Contradicted, "not-confidential", policy.Accept, policy.Reject},
		{"bundle-genoa-v5", "nvidia.devtools-off@gpu:0", 0, "", policy.Accept, policy.Reject},
	},
	"L10 the CPU attested, the GPU not": {
		{"bundle-genoa-v5", "nvidia.cc-mode@gpu:0", 0, "", policy.Accept, policy.Reject},
		{"gpu-unsaid", "nvidia.cc-mode@gpu:0", claim.Unknown, "evidence-missing", policy.Accept, policy.Reject},
		{"bundle-gpu-hopper", "nvidia.cc-mode@gpu:0", claim.Affirmed, "on", policy.Accept, policy.Accept},
	},
	"L12 a mode that nobody knows is neither on nor off": {
		{"gpu-cc-unknown", "nvidia.cc-mode@gpu:0", claim.Unknown, "unknown-value", policy.Accept, policy.Undecided},
	},
	"L13 capable is not on": {
		{"gpu-cc-off", "nvidia.cc-mode@gpu:0", claim.Contradicted, "not-confidential", policy.Accept, policy.Reject},
	},
	"V01 a manifest that is not published": {
		{"gpu-vbios-rim-missing", "nvidia.vbios-rim@gpu:0", claim.Unknown, "collateral-missing", policy.Accept, policy.Undecided},
		{"gpu-driver-other", "nvidia.driver-rim@gpu:0", claim.Unknown, "collateral-missing", policy.Accept, policy.Undecided},
	},
	"V06 what is at hand, inside its dates and past them": {
		{"bundle-gpu-hopper", "nvidia.revocation@gpu:0", claim.Affirmed, "deny-list nvidia-ocsp", policy.Accept, policy.Accept},
		{"gpu-ocsp-stale", "nvidia.revocation@gpu:0", claim.Unknown, "collateral-refused", policy.Accept, policy.Undecided},
	},
	"V07 one measurement differs": {
		{"gpu-measurement-other", "nvidia.measurements@gpu:0", claim.Contradicted, "mismatch", policy.Accept, policy.Reject},
		{"gpu-measurement-other", "nvidia.vbios-rim@gpu:0", claim.Affirmed, "", policy.Accept, policy.Reject},
	},
	"V08 the signer of a manifest has lapsed": {
		{"gpu-driver-rim-lapsed", "nvidia.driver-rim@gpu:0", claim.Unknown, "collateral-refused", policy.Accept, policy.Undecided},
	},
	"V09 hold": {
		{"gpu-hold", "nvidia.revocation@gpu:0", claim.Contradicted, "certificate-hold", policy.Accept, policy.Reject},
		{"gpu-revoked", "nvidia.revocation@gpu:0", claim.Contradicted, "revoked", policy.Accept, policy.Reject},
	},
	"pitfall 20 no GPU where one is wanted": {
		{"bundle-genoa-v5", "set.count@set", 0, "", policy.Accept, policy.Reject},
	},
	"pitfall 21 nobody says that the GPU is confidential": {
		{"gpu-unsaid", "nvidia.devtools-off@gpu:0", claim.Unknown, "evidence-missing", policy.Accept, policy.Reject},
	},
	"pitfall 23 another nonce than the derived one": {
		{"gpu-nonce-other", "nvidia.freshness@gpu:0", claim.Contradicted, "mismatch", policy.Accept, policy.Reject},
		{"bundle-gpu-hopper", "nvidia.freshness@gpu:0", claim.Affirmed, "", policy.Accept, policy.Accept},
	},
}

func TestKnownBugsOfGPUs(t *testing.T) {
	all, _ := minted(t)
	cpu, _ := policy.Builtin("confidential-cpu")
	gpu, _ := policy.Builtin("confidential-gpu")
	for name, rows := range gpuBugs {
		t.Run(name, func(t *testing.T) {
			for _, r := range rows {
				claims := judge(t, all[r.name]).Appraisal.Claims
				id, subject, _ := strings.Cut(r.id, "@")
				switch c := claims.Find(id, subject); {
				case r.status == 0:
					if c != nil {
						t.Errorf("%s: %s is %s, want no such claim", r.name, r.id, c.Status)
					}
				case c == nil || c.Status != r.status || r.word != "" && word(*c) != r.word:
					t.Errorf("%s: %s is %+v, want %s %s", r.name, r.id, c, r.status, r.word)
				}
				for _, p := range []struct {
					by   *policy.Policy
					want policy.Outcome
				}{{cpu, r.cpu}, {gpu, r.gpu}} {
					if v := policy.Decide(claims, p.by, all[r.name].AsOf); v.Outcome != p.want {
						t.Errorf("%s: %s says %s, want %s: %+v", r.name, p.by.Name(), v.Outcome, p.want, v.Reasons)
					}
				}
			}
		})
	}
	// C09: with a bare nonce nobody knows which node was asked; devices of two holders are then not one machine's, and those of
	// one holder are.
	for name, want := range map[string]claim.Status{"gpu-contested": claim.Unknown, "bundle-gpu-hopper": claim.Affirmed} {
		o, k, err := all[name].Open()
		if err != nil {
			t.Fatal(err)
		}
		n := k.Expect.Challenge.Digest()
		k.Expect.Challenge, k.Expect.Nonce, k.Memory = nil, n[:], seen()
		a := verifier.Appraise(o, k)
		c := a.Claims.Find("set.device-unique", "set")
		if c.Status != want || want == claim.Unknown && !strings.Contains(string(c.Reason), "for node node-9, and the appraiser did not say which node it asked") {
			t.Errorf("%s: set.device-unique is %s (%s), want %s", name, c.Status, c.Reason, want)
		}
		if v := policy.Decide(a.Claims, gpu, k.At); v.Outcome == policy.Accept {
			t.Errorf("%s: accepted with no time of its challenge", name)
		}
	}
	// L08: the two refusals have codes of their own.
	codes := map[string]string{}
	for _, name := range []string{"gpu-devtools-on", "bundle-genoa-v5"} {
		v := policy.Decide(judge(t, all[name]).Appraisal.Claims, gpu, all[name].AsOf)
		codes[name], _, _ = strings.Cut(v.Reasons[0].Observed, ":")
	}
	if codes["gpu-devtools-on"] != "not-confidential" || codes["bundle-genoa-v5"] != "evidence-missing" {
		t.Errorf("codes %v", codes)
	}
}

func subjectOf(id string) string {
	if claim.Room(id) == "guest" {
		return "node"
	}
	return "cpu:0"
}

// TestRefusedLists (T08): each list that is not used says which of its faults is in the way.
func TestRefusedLists(t *testing.T) {
	all, _ := minted(t)
	for name, want := range map[string]string{
		"crl-stale": "it lapsed at 2026-06-01T11:59:59Z", "crl-future": "it was issued at 2026-06-01T12:00:01Z", "crl-endless": "it has no nextUpdate",
		"crl-impostor": "it is not signed by", "crl-other-line": `its issuer is "ARK-Milan"`,
		"deny-list-stale": "judged at", "deny-list-future": "judged at", "deny-list-foreign": "no expected key signed it",
	} {
		if c := judge(t, all[name]).Appraisal.Claims.Find("sevsnp.revocation", "cpu:0"); !strings.Contains(string(c.Reason), want) {
			t.Errorf("%s: %q, want %q", name, c.Reason, want)
		}
	}
}

// TestLookup (P05): the address of a Turin certificate has 8 bytes of chip id and the FMC part.
func TestLookup(t *testing.T) {
	all, _ := minted(t)
	for name, want := range map[string]string{
		"turin-missing": "/vcek/v1/Turin/%x?fmcSPL=01&blSPL=01&teeSPL=01&snpSPL=04&ucodeSPL=75",
		"chain-missing": "/vcek/v1/Genoa/%x?blSPL=10&teeSPL=00&snpSPL=24&ucodeSPL=84",
	} {
		o, k, err := all[name].Open()
		if err != nil {
			t.Fatal(err)
		}
		report, _ := o.Components()[0].Part(sevsnp.PartReport)
		chip := canon.Hex(report[0x1A0:0x1E0])
		if strings.Contains(want, "Turin") {
			chip = chip[:8]
		}
		want = strings.Replace(want, "%x", chip.String(), 1)
		needs := o.Needs(k.Roots)
		if len(needs) != 2 || needs[0].Kind != attest.KindAMDCertificate || !strings.HasSuffix(needs[0].Source, want) || needs[1].Kind != attest.KindAMDCRL {
			t.Errorf("%s: %+v, want %s and a revocation list", name, needs, want)
		}
		if reason := string(judge(t, all[name]).Appraisal.Claims.Find("sevsnp.chain", "cpu:0").Reason); !strings.Contains(reason, want) {
			t.Errorf("%s: the reason %q does not name the address", name, reason)
		}
	}
}

// TestOtherProduct (L06): a policy for Milan refuses Genoa for its product, and says nothing of roots.
func TestOtherProduct(t *testing.T) {
	all, _ := minted(t)
	p, err := policy.Load("milan.yaml", []byte("type: assay/policy/v1\nname: milan-only\nrequire:\n  - {claim: sevsnp.product, of: cpu, is: Milan}\n  - {claim: sevsnp.chain, of: cpu}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := all["genoa-v5"]
	v := policy.Decide(judge(t, c).Appraisal.Claims, p, c.AsOf)
	if v.Outcome != policy.Reject || len(v.Reasons) != 1 || v.Reasons[0].Claim != "sevsnp.product" || !strings.Contains(v.Reasons[0].Observed, "Genoa") || !strings.Contains(v.Reasons[0].Required, "Milan") {
		t.Errorf("%s: %+v", v.Outcome, v.Reasons)
	}
	c = all["milan-v3"]
	if v := policy.Decide(judge(t, c).Appraisal.Claims, p, c.AsOf); v.Outcome != policy.Accept {
		t.Errorf("%s: %+v", v.Outcome, v.Reasons)
	}
}

// TestLapsingList (T01): when a revocation list lapses, later appraisals say so, and the earlier one stays as it was.
func TestLapsingList(t *testing.T) {
	all, _ := minted(t)
	then := all["genoa-v5"]
	before, err := judge(t, then).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	later := then
	later.AsOf = canon.At(then.AsOf.Time().Add(60 * 24 * time.Hour))
	if c := judge(t, later).Appraisal.Claims.Find("sevsnp.revocation", "cpu:0"); c.Status != claim.Unknown || c.Reason.Code() != claim.CollateralRefused || !strings.Contains(string(c.Reason), "lapsed") {
		t.Errorf("60 days later: %s %s", c.Status, c.Reason)
	}
	after, err := judge(t, then).Canonical()
	if err != nil || string(after) != string(before) {
		t.Errorf("the appraisal as of then changed: %v", err)
	}
}

// TestRealAzureReports judges the SEV-SNP reports inside real Azure evidence: version 3, Milan and Genoa, whose
// certificate says Genoa with a stepping or without (P08). The report is at byte 32 of the HCL report.
func TestRealAzureReports(t *testing.T) {
	for name, line := range map[string]string{"v0": "Milan", "genoa": "Genoa"} {
		var evidence struct {
			Report []int  `json:"report"`
			VCEK   string `json:"vcek"`
		}
		if err := json.Unmarshal(vectors.Read(t, "cpu/azure/trustee-az-snp-evidence-"+name+".json"), &evidence); err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 0, sevsnp.ReportSize)
		for _, b := range evidence.Report[32 : 32+sevsnp.ReportSize] {
			raw = append(raw, byte(b))
		}
		items, err := verifier.ReadCollateral([]byte(evidence.VCEK))
		if err != nil {
			t.Fatal(err)
		}
		c := testvectors.Case{
			Name: "azure-" + name, AsOf: canon.At(time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)), Roots: testvectors.RootsVendor, Evidence: raw,
			Items:    []testvectors.Item{{Key: testvectors.KeyCertificate, Data: items[0].Data}},
			Verdicts: []testvectors.Outcome{{Policy: "genuine"}},
		}
		j := judge(t, c)
		if j.Verdicts[0].Outcome != policy.Accept {
			t.Errorf("%s: %+v", name, j.Verdicts[0].Reasons)
		}
		if got := j.Appraisal.Claims.Find("sevsnp.product", "cpu:0"); got.Status != claim.Affirmed || got.Value != line {
			t.Errorf("%s: product %s %s", name, got.Status, got.Value)
		}
		raw[4] ^= 1
		if j := judge(t, c); j.Verdicts[0].Outcome != policy.Reject {
			t.Errorf("%s with a flipped bit: %s", name, j.Verdicts[0].Outcome)
		}
	}
}

// TestForeignTurin (C01): a real Turin certificate beside a real Milan report, under AMD's real roots.
func TestForeignTurin(t *testing.T) {
	c := testvectors.Case{
		Name: "foreign", AsOf: canon.At(time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)), Roots: testvectors.RootsVendor,
		Evidence: vectors.Read(t, "cpu/snp/trustee-milan-report.bin"),
		Items:    []testvectors.Item{{Key: testvectors.KeyCertificate, Data: vectors.Read(t, "cpu/snp/virtee-turin-vcek.der")}},
		Verdicts: []testvectors.Outcome{{Policy: "genuine"}},
	}
	j := judge(t, c)
	if got := j.Appraisal.Claims.Find("sevsnp.chain", "cpu:0"); got.Status != claim.Contradicted || got.Reason.Code() != claim.Mismatch || !strings.Contains(got.Value, "ARK-Turin") {
		t.Errorf("chain: %+v", got)
	}
	if j.Verdicts[0].Outcome != policy.Reject {
		t.Error(j.Verdicts[0].Outcome)
	}
}
