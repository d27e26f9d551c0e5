package verifier_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/verifier"
)

// TestIssuesOfRealCollateral: every item that vendors publish in issues says which issue it is.
func TestIssuesOfRealCollateral(t *testing.T) {
	dir := vectors.Dir(t)
	ordered := map[string]bool{attest.KindAMDCRL: true, attest.KindIntelPCKCRL: true, attest.KindIntelRootCRL: true, attest.KindIntelTCBInfo: true,
		attest.KindIntelQEIdentity: true, attest.KindNVIDIAOCSP: true, attest.KindNVIDIACRL: true, attest.KindDenyList: true}
	seen := map[string]attest.Issue{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		items, err := verifier.ReadCollateral(data)
		if err != nil {
			return nil // no collateral
		}
		for _, item := range items {
			issue, ok := verifier.IssueOf(item)
			if !ok { // a kind without an order, or an item that this verifier does not read either
				continue
			}
			if !ordered[item.Kind] || issue.Subject == "" || issue.At <= 0 {
				t.Errorf("%s: %s: %+v", path, item.Kind, issue)
			}
			seen[item.Kind] = issue
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{attest.KindIntelPCKCRL, attest.KindIntelRootCRL, attest.KindIntelTCBInfo, attest.KindIntelQEIdentity} {
		if _, ok := seen[kind]; !ok {
			t.Errorf("no real %s was read", kind)
		}
	}
	// What dcap-qvl has of Intel's service (SOURCES.md).
	data, err := os.ReadFile(filepath.Join(dir, "cpu/tdx/dcapqvl-tdx_quote_collateral.json"))
	if err != nil {
		t.Fatal(err)
	}
	items, err := verifier.ReadCollateral(data)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := verifier.IssueOf(items[0])
	issued, err := canon.ParseTime("2025-06-19T10:16:03Z")
	if err != nil {
		t.Fatal(err)
	}
	if want := (attest.Issue{Subject: "TCB info of FMSPC b0c06f000000", Number: 17, At: issued}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
