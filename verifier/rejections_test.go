package verifier_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/policy"
)

// TestRejections holds rows of public issues of other verifiers: what each let through or refused wrongly, the sound case
// beside it, and what must be said of both. Rows on event logs, memory of requests and revoked levels that need no whole
// bundle are subtests of their own rooms.
func TestRejections(t *testing.T) {
	type finding struct {
		name   string // of the case
		claim  string
		status claim.Status
		word   string // value or reason code; empty: any
	}
	const (
		affirmed     = claim.Affirmed
		contradicted = claim.Contradicted
		unknown      = claim.Unknown
	)
	all, _ := minted(t)
	for _, row := range []struct {
		row      string
		what     string
		findings []finding // the first is of sound evidence
	}{
		{"4", "the hardware id of the certificate was never compared", []finding{{"bundle-milan-v3-table", "sevsnp.cert-chip-id", affirmed, "chip"}, {"certificate-chip", "sevsnp.cert-chip-id", contradicted, "mismatch"}}},
		{"5", "a register's value was taken though it is not in the signed selection", []finding{{"bundle-tpm", "tpm.selection", affirmed, ""}, {"tpm-register-unsigned", "tpm.selection", contradicted, "unsigned"}}},
		{"6", "a good guest was refused for RTMR3, which it extends itself", []finding{{"tdx-rtmr3-other", "guest.measured", affirmed, "tee"}, {"tdx-rtmr1-other", "guest.measured", contradicted, "not-listed"}}},
		{"9", "Turin could not be read", []finding{{"turin-v5", "sevsnp.signature", affirmed, ""}, {"turin-chip-tail", "sevsnp.cert-chip-id", contradicted, "mismatch"}}},
		{"12", "the events that were believed were not those that were replayed", []finding{{"bundle-tpm", "tpm.event-log", affirmed, ""}, {"tpm-log-added", "tpm.event-log", contradicted, "replay-mismatch"}}},
		{"15", "two writers wrote the log in another order than the register", []finding{{"bundle-tpm", "tpm.event-log", affirmed, ""}, {"tpm-log-swapped", "tpm.event-log", contradicted, "replay-mismatch"}}},
		{"17", "a report that nobody had seen before passed for a fresh one", []finding{{"bundle-genoa-v5", "sevsnp.freshness", affirmed, ""}, {"report-data-other", "sevsnp.freshness", contradicted, "mismatch"}, {"report-data-unasked", "sevsnp.freshness", unknown, "no-expectation"}}},
		{"18", "a revoked TDX level passed beside a good SGX level", []finding{{"bundle-tdx-v5", "tdx.tcb-status", affirmed, "UpToDate"}, {"tdx-status-revoked", "tdx.tcb-status", contradicted, "revoked"}}},
		{"19", "one status overwrote another", []finding{
			{"bundle-tdx-v5", "tdx.tcb-status", affirmed, "UpToDate"},
			{"tdx-status-outofdate", "tdx.tcb-status", affirmed, "OutOfDate"},
			{"tdx-status-configurationneeded", "tdx.tcb-status", affirmed, "ConfigurationNeeded"},
			{"tdx-status-swhardeningneeded", "tdx.tcb-status", affirmed, "SWHardeningNeeded"},
			{"tdx-status-configurationandswhardeningneeded", "tdx.tcb-status", affirmed, "ConfigurationAndSWHardeningNeeded"},
			{"tdx-status-outofdateconfigurationneeded", "tdx.tcb-status", affirmed, "OutOfDateConfigurationNeeded"},
			{"tdx-module-updated", "tdx.tcb-status", affirmed, "TDRelaunchAdvised"},
			{"tdx-status-revoked", "tdx.tcb-status", contradicted, "revoked"},
			{"tdx-below-levels", "tdx.tcb-status", contradicted, "below-levels"},
		}},
		{"21", "dates of collateral and attributes of the module were not looked at", []finding{{"tdx-info-last-second", "tdx.collateral", affirmed, ""}, {"tdx-info-lapsed", "tdx.collateral", unknown, "collateral-refused"}, {"tdx-identity-lapsed", "tdx.collateral", unknown, "collateral-refused"}, {"tdx-seam-attributes", "tdx.seam", contradicted, "enabled"}, {"tdx-seam-attributes", "tdx.module-identity", contradicted, "mismatch"}, {"tdx-module-unknown", "tdx.module-identity", contradicted, "not-listed"}}},
		{"22", "the module's signer was dropped by the parser", []finding{{"bundle-tdx-v5", "tdx.module-identity", affirmed, ""}, {"tdx-module-signer", "tdx.module-identity", contradicted, "mismatch"}}},
		{"23", "the date of the TCB ignored the module's", []finding{{"bundle-tdx-v5", "tdx.tcb-date", affirmed, "20241113"}, {"tdx-level-date", "tdx.tcb-date", affirmed, "20230101"}, {"tdx-pcesvn-old", "tdx.tcb-date", affirmed, "20240313"}, {"tdx-qe-old", "tdx.tcb-date", affirmed, "20231113"}}},
		{"24", "a status other than UpToDate was shown as a failure, without its advisories", []finding{
			{"tdx-status-swhardeningneeded", "tdx.tcb-status", affirmed, "SWHardeningNeeded"}, {"tdx-status-swhardeningneeded", "tdx.advisories", affirmed, "INTEL-SA-00837"},
			{"tdx-pcesvn-old", "tdx.tcb-status", affirmed, "OutOfDate"}, {"tdx-pcesvn-old", "tdx.advisories", affirmed, "INTEL-SA-00960 INTEL-SA-01036"}, {"tdx-pcesvn-old", "tdx.revocation", affirmed, "deny-list intel-pck-crl intel-root-crl"},
			{"tdx-status-revoked", "tdx.tcb-status", contradicted, "revoked"},
		}},
		{"25", "a module that Intel lists was refused because nobody had listed its MRSEAM", []finding{{"tdx-seam-other", "tdx.seam", affirmed, ""}, {"tdx-seam-other", "tdx.module-identity", affirmed, "TDX_01"}, {"tdx-seam-other", "tdx.tcb-status", affirmed, "UpToDate"}, {"tdx-module-unknown", "tdx.module-identity", contradicted, "not-listed"}}},
		{"31", "a TPM's signature was discarded, and a log that is not there passed", []finding{
			{"bundle-tpm", "tpm.signature", affirmed, "ecdsa-sha256"}, {"tpm-signature", "tpm.signature", contradicted, "bad-signature"},
			{"bundle-tpm", "tpm.event-log", affirmed, ""}, {"tpm-no-action-extended", "tpm.event-log", contradicted, "replay-mismatch"}, {"tpm-unlogged", "tpm.event-log", contradicted, "unlogged"},
			{"tpm-log-empty", "tpm.event-log", unknown, "evidence-missing"}, {"tpm-log-stripped", "tpm.event-log", unknown, "evidence-missing"},
			{"tpm-late-launch", "tpm.event-log", affirmed, "pcr:0 pcr:1 pcr:14 pcr:17 pcr:2 pcr:3 pcr:4 pcr:5 pcr:6 pcr:7 pcr:8 pcr:9 secure-boot:on"},
		}},
	} {
		t.Run(fmt.Sprintf("row %s: %s", row.row, row.what), func(t *testing.T) {
			for _, f := range row.findings {
				c, ok := all[f.name]
				if !ok {
					t.Fatalf("no case %s", f.name)
				}
				found := false
				for _, cl := range judge(t, c).Appraisal.Claims {
					if cl.ID == f.claim && cl.Status == f.status && (f.word == "" || word(cl) == f.word) {
						found = true
					}
				}
				if !found {
					t.Errorf("%s: no %s %s %s", f.name, f.claim, f.status, f.word)
				}
			}
		})
	}
	outcome := func(t *testing.T, name string, p *policy.Policy) policy.Outcome {
		t.Helper()
		return policy.Decide(judge(t, all[name]).Appraisal.Claims, p, all[name].AsOf).Outcome
	}
	t.Run("row 20: a status that does not suffice was taken for a pass", func(t *testing.T) {
		p, _ := policy.Builtin("confidential-cpu")
		for name, want := range map[string]policy.Outcome{"bundle-tdx-v5": policy.Accept, "tdx-status-outofdate": policy.Reject} {
			if got := outcome(t, name, p); got != want {
				t.Errorf("%s: confidential-cpu says %s, want %s", name, got, want)
			}
		}
	})
	t.Run("row 31: a rule that needs the log refuses a machine that shows none", func(t *testing.T) {
		p, err := policy.Load("log.yaml", []byte("type: assay/policy/v1\nname: log\nrequire:\n  - {claim: tpm.event-log, of: tpm}\n"))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]policy.Outcome{"bundle-tpm": policy.Accept, "tpm-log-stripped": policy.Reject, "tpm-log-empty": policy.Reject, "tpm-unlogged": policy.Reject} {
			if got := outcome(t, name, p); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	})
	t.Run("row 26: an older evaluation of Intel's beside a newer", func(t *testing.T) {
		status := func(name string) *claim.Claim {
			return judge(t, all[name]).Appraisal.Claims.Find("tdx.tcb-status", "cpu:0")
		}
		if c := status("bundle-tdx-v5"); c.Value != "UpToDate" || c.Reason != "" {
			t.Errorf("one evaluation: %+v", c)
		}
		if c := status("tdx-older-beside"); c.Value != "UpToDate" || !strings.Contains(string(c.Reason), "evaluation 18: ") || !strings.Contains(string(c.Reason), "; by evaluation 17 it was OutOfDate") {
			t.Errorf("two evaluations: %+v", c)
		}
		if c := judge(t, all["tdx-two-evaluations"]).Appraisal.Claims.Find("tdx.collateral", "cpu:0"); c.Status != claim.Unknown {
			t.Errorf("TCB info of one, QE identity of another: %+v", c)
		}
		// A policy has a floor under what it lets anybody serve.
		for floor, want := range map[int]policy.Outcome{18: policy.Accept, 19: policy.Reject} {
			p, err := policy.Load("floor.yaml", fmt.Appendf(nil, "type: assay/policy/v1\nname: floor\nrequire:\n  - {claim: tdx.collateral, of: cpu, min: %d}\n", floor))
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, "bundle-tdx-v5", p); got != want {
				t.Errorf("evaluation 18, floor %d: %s, want %s", floor, got, want)
			}
		}
	})
}
