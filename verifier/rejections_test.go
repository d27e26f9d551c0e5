package verifier_test

import (
	"fmt"
	"testing"

	"github.com/assay-network/assay/attest/claim"
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
		{"17", "a report that nobody had seen before passed for a fresh one", []finding{{"bundle-genoa-v5", "sevsnp.freshness", affirmed, ""}, {"report-data-other", "sevsnp.freshness", contradicted, "mismatch"}, {"report-data-unasked", "sevsnp.freshness", unknown, "no-expectation"}}},
		{"18", "a revoked TDX level passed beside a good SGX level", []finding{{"bundle-tdx-v5", "tdx.tcb-status", affirmed, "UpToDate"}, {"tdx-status-revoked", "tdx.tcb-status", contradicted, ""}}},
		{"19", "one status overwrote another", []finding{
			{"bundle-tdx-v5", "tdx.tcb-status", affirmed, "UpToDate"},
			{"tdx-status-outofdate", "tdx.tcb-status", affirmed, "OutOfDate"},
			{"tdx-status-configurationneeded", "tdx.tcb-status", affirmed, "ConfigurationNeeded"},
			{"tdx-status-swhardeningneeded", "tdx.tcb-status", affirmed, "SWHardeningNeeded"},
			{"tdx-status-configurationandswhardeningneeded", "tdx.tcb-status", affirmed, "ConfigurationAndSWHardeningNeeded"},
			{"tdx-status-outofdateconfigurationneeded", "tdx.tcb-status", affirmed, "OutOfDateConfigurationNeeded"},
			{"tdx-module-updated", "tdx.tcb-status", affirmed, "TDRelaunchAdvised"},
			{"tdx-below-levels", "tdx.tcb-status", contradicted, ""},
		}},
		{"21", "dates of collateral and attributes of the module were not looked at", []finding{{"tdx-info-last-second", "tdx.collateral", affirmed, ""}, {"tdx-info-lapsed", "tdx.collateral", unknown, "collateral-refused"}, {"tdx-identity-lapsed", "tdx.collateral", unknown, ""}, {"tdx-seam-attributes", "tdx.seam", contradicted, ""}}},
		{"22", "the module's signer was dropped by the parser", []finding{{"bundle-tdx-v5", "tdx.module-identity", affirmed, ""}, {"tdx-module-signer", "tdx.module-identity", contradicted, "mismatch"}}},
		{"23", "the date of the TCB ignored the module's", []finding{{"tdx-level-date", "tdx.tcb-date", affirmed, "20230101"}, {"tdx-module-updated", "tdx.tcb-date", affirmed, "20240313"}}},
		{"24", "a status other than UpToDate was shown as a failure, without its advisories", []finding{{"tdx-status-swhardeningneeded", "tdx.advisories", affirmed, "INTEL-SA-00837"}, {"tdx-status-revoked", "tdx.tcb-status", contradicted, ""}}},
		{"25", "a module that Intel lists was refused because nobody had listed its MRSEAM", []finding{{"bundle-tdx-v5", "tdx.seam", affirmed, ""}, {"tdx-module-unknown", "tdx.module-identity", contradicted, ""}}},
		{"26", "older collateral beside newer", []finding{{"tdx-older-beside", "tdx.tcb-status", affirmed, "UpToDate"}, {"tdx-two-evaluations", "tdx.collateral", unknown, ""}}},
		{"31", "a TPM's signature was discarded, and a log that is not there passed", []finding{{"bundle-tpm", "tpm.event-log", affirmed, ""}, {"tpm-signature", "tpm.signature", contradicted, ""}, {"tpm-unlogged", "tpm.event-log", contradicted, "unlogged"}, {"tpm-log-stripped", "tpm.event-log", unknown, "evidence-missing"}}},
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
	t.Run("row 20: a status that does not suffice was taken for a pass", func(t *testing.T) {
		for name, want := range map[string]string{"bundle-tdx-v5": "accept", "tdx-status-outofdate": "reject"} {
			for _, v := range judge(t, all[name]).Verdicts {
				if v.Policy.Name == "confidential-cpu" && v.Outcome.String() != want {
					t.Errorf("%s: confidential-cpu says %s, want %s", name, v.Outcome, want)
				}
			}
		}
	})
}
