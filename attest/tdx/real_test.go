package tdx_test

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/vectors"
)

// TestRealQuotes judges every TDX quote of the manifest, and again in the other forms of a file.
func TestRealQuotes(t *testing.T) {
	cases := manifest(t)
	if len(cases) < 11 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			l := vendor(t, c.AsOf)
			raw, items := file(t, c.Files.Evidence), collateral(t, c.Files.Collateral...)
			s, _ := l.judge(raw, items...)
			for id, status := range c.Claims {
				want(t, s, id, status)
			}
			if got := genuine(s); got != c.Verdict {
				t.Errorf("genuine says %s, want %s", got, c.Verdict)
				dump(t, s)
			}
			for _, form := range [][]byte{[]byte(hex.EncodeToString(raw) + "\n"), []byte("0x" + strings.ToUpper(hex.EncodeToString(raw))), []byte(base64.StdEncoding.EncodeToString(raw))} {
				if again, ok := tdx.Recognize(form); !ok || string(again) != string(raw) {
					t.Errorf("a file that begins %.20s is not read", form)
				}
			}
		})
	}
}

// TestRealStatus holds what Intel says of real platforms.
func TestRealStatus(t *testing.T) {
	s, f := vendor(t, "2025-07-01T00:00:00Z").judge(file(t, "cpu/tdx/dcapqvl-tdx_quote.bin"), collateral(t, "cpu/tdx/dcapqvl-tdx_quote_collateral.json")...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
	want(t, s, "tdx.collateral", claim.Affirmed, "17")
	want(t, s, "tdx.tcb-date", claim.Affirmed, "20240313")
	want(t, s, "tdx.module-identity", claim.Affirmed, "TDX_01")
	want(t, s, "tdx.qe-identity", claim.Affirmed, "UpToDate")
	want(t, s, "tdx.revocation", claim.Affirmed, "intel-pck-crl intel-root-crl")
	if got := confidential(s); got != "accept" {
		t.Errorf("confidential says %s", got)
		dump(t, s)
	}
	if len(f.Identities) != 2 || f.Masked || len(f.Registers) != 4 || len(f.Measurement) != 48 || len(f.Needs) != 0 {
		t.Errorf("finding %+v", f)
	}
	s, f = vendor(t, "2026-07-01T00:00:00Z").judge(file(t, "cpu/tdx/dcapqvl-tdx_quote.bin"), collateral(t, "cpu/tdx/dcapqvl-tdx_quote_collateral.json")...)
	want(t, s, "tdx.collateral", claim.Unknown, "collateral-refused", "lapsed at 2025-07-19T10:16:03Z")
	if len(f.Needs) != 4 {
		t.Errorf("needs %+v", f.Needs)
	}
}

// TestMissingChainIsNamed: bodies of Intel's service without the header that came with them.
func TestMissingChainIsNamed(t *testing.T) {
	items := collateral(t, "cpu/tdx/gtg-sample_tcbInfo_response", "cpu/tdx/gtg-sample_qeIdentity_response", "cpu/tdx/gtg-pckcrl", "cpu/tdx/gtg-rootcrl.der")
	s, f := vendor(t, "2023-07-01T00:00:00Z").judge(file(t, "cpu/tdx/gtg-tdx_prod_quote_SPR_E4.dat"), items...)
	want(t, s, "tdx.collateral", claim.Unknown, "collateral-missing", "Intel SGX TCB Signing")
	want(t, s, "tdx.revocation", claim.Affirmed)
	if len(f.Needs) != 2 || f.Needs[0].Source != "https://api.trustedservices.intel.com/tdx/certification/v4/tcb?fmspc=50806f000000" {
		t.Errorf("needs %+v", f.Needs)
	}
}

func TestNeeds(t *testing.T) {
	raw := file(t, "cpu/tdx/dcapqvl-tdx_quote.bin")
	comp := attest.Component{Parts: []attest.Part{{Name: tdx.PartQuote, Data: raw}}}
	var got []string
	for _, n := range tdx.Needs(comp, subject, vendor(t, "2025-07-01T00:00:00Z").roots) {
		got = append(got, n.Kind+" "+n.Source)
	}
	if strings.Join(got, "\n") != `intel-pck-crl https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?encoding=der&ca=platform
intel-root-crl https://certificates.trustedservices.intel.com/IntelSGXRootCA.der
intel-tcb-info https://api.trustedservices.intel.com/tdx/certification/v4/tcb?fmspc=b0c06f000000
intel-qe-identity https://api.trustedservices.intel.com/tdx/certification/v4/qe/identity` {
		t.Errorf("needs\n%s", strings.Join(got, "\n"))
	}
}

// selfmadeRoots are the roots of the throw-away hierarchy, with the signer of its quoting enclave.
func selfmadeRoots(t testing.TB) []attest.RootFile {
	return []attest.RootFile{
		{Name: "root.pem", Data: vectors.Read(t, "cpu/selfmade/tdx/root.pem")},
		{Name: tdx.QESignerFile, Data: []byte(strings.Repeat("dc", 32) + " 2\n")},
	}
}

// TestSelfmade judges the throw-away hierarchy's quotes, each with sound collateral, and its collateral, each with a sound
// quote. BAD is not accepted by confidential-cpu and the reason of its name is there; policy- is not rejected by genuine.
func TestSelfmade(t *testing.T) {
	const dir = "cpu/selfmade/tdx/"
	for name, row := range map[string]struct {
		genuine, confidential string
		id                    string
		status                claim.Status
		words                 string
	}{
		"good-v4.quote":                                              {"accept", "accept", "tdx.tcb-status", claim.Affirmed, "UpToDate"},
		"good-v5-td15.quote":                                         {"accept", "accept", "tdx.tcb-status", claim.Affirmed, "UpToDate"},
		"BAD-crash-qeauth-ffff.quote":                                {"reject", "reject", "tdx.structure", claim.Contradicted, "QE authentication data takes 65535 bytes"},
		"BAD-crash-signeddatasize-0.quote":                           {"reject", "reject", "tdx.structure", claim.Contradicted, "signature takes 64 bytes, 0 are left"},
		"BAD-debug-td.quote":                                         {"accept", "reject", "tdx.debug-off", claim.Contradicted, "DEBUG"},
		"BAD-module-outofdate.quote":                                 {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "OutOfDate"},
		"BAD-mrtd-bitflip.quote":                                     {"reject", "reject", "tdx.signature", claim.Contradicted, "bad-signature"},
		"BAD-wrong-qe-mrsigner.quote":                                {"reject", "reject", "tdx.qe-signer", claim.Contradicted, "not-listed"},
		"BAD-wrong-qe-prodid.quote":                                  {"reject", "reject", "tdx.qe-signer", claim.Contradicted, "product 1"},
		"policy-trailing-bytes.quote":                                {"accept", "accept", "tdx.structure", claim.Affirmed, "16 bytes behind"},
		"policy-v5-mrservicetd-set.quote":                            {"accept", "reject", "tdx.servicetd", claim.Contradicted, "MRSERVICETD"},
		"collateral-BAD-case-variant-key.json":                       {"accept", "undecided", "tdx.collateral", claim.Unknown, `"TcbInfo"`},
		"collateral-BAD-issued-in-future.json":                       {"accept", "undecided", "tdx.collateral", claim.Unknown, "begins at"},
		"collateral-BAD-pck-revoked.json":                            {"reject", "reject", "tdx.revocation", claim.Contradicted, "revoked the PCK certificate"},
		"collateral-BAD-platform-ca-revoked.json":                    {"reject", "reject", "tdx.revocation", claim.Contradicted, "revoked the PCK CA"},
		"collateral-BAD-qe-outofdate.json":                           {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "OutOfDate"},
		"collateral-BAD-tcb-signer-revoked.json":                     {"accept", "undecided", "tdx.collateral", claim.Unknown, "revoked the certificate of its signer"},
		"collateral-platform-UpToDate.json":                          {"accept", "accept", "tdx.tcb-status", claim.Affirmed, "UpToDate"},
		"collateral-platform-Revoked.json":                           {"reject", "reject", "tdx.tcb-status", claim.Contradicted, "Revoked"},
		"collateral-platform-OutOfDate.json":                         {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "OutOfDate"},
		"collateral-platform-SWHardeningNeeded.json":                 {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "SWHardeningNeeded"},
		"collateral-platform-ConfigurationNeeded.json":               {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "ConfigurationNeeded"},
		"collateral-platform-ConfigurationAndSWHardeningNeeded.json": {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "ConfigurationAndSWHardeningNeeded"},
		"collateral-platform-OutOfDateConfigurationNeeded.json":      {"accept", "reject", "tdx.tcb-status", claim.Affirmed, "OutOfDateConfigurationNeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			quote, items := dir+"good-v4.quote", dir+"collateral-platform-UpToDate.json"
			if path.Ext(name) == ".json" {
				items = dir + name
			} else {
				quote = dir + name
			}
			s, _ := newLab(t, now, selfmadeRoots(t)...).judge(file(t, quote), collateral(t, items)...)
			if g, c := genuine(s), confidential(s); g != row.genuine || c != row.confidential {
				t.Errorf("genuine says %s, want %s; confidential says %s, want %s", g, row.genuine, c, row.confidential)
				dump(t, s)
			}
			want(t, s, row.id, row.status, row.words)
		})
	}
}
