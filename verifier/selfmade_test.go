package verifier_test

import (
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/verifier"
)

// selfmade is one piece of evidence made under throw-away roots by programs that are not ours.
type selfmade struct {
	name     string // as its file's, without what says the format
	evidence []byte
	roots    []attest.RootFile
	items    []attest.Collateral
}

// selfmadeDir is the folder of the vectors that these tests walk.
const selfmadeDir = "cpu/selfmade"

// selfmadeCases walks the folder: every file there is evidence, stands beside some, or is a root.
func selfmadeCases(t *testing.T) (cases []selfmade) {
	t.Helper()
	read := func(name string) []byte { return vectors.Read(t, selfmadeDir+"/"+name) }
	names := func(folder string) (list []string) {
		entries, err := os.ReadDir(filepath.Join(vectors.Dir(t), selfmadeDir, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}

	amd := []attest.RootFile{{Name: "amd-fake.pem", Data: read("snp/fake_ask_ark_asvk.pem")}}
	for _, name := range names("snp") {
		stem, isReport := strings.CutSuffix(name, ".report.bin")
		switch {
		case isReport:
			table := read("snp/" + stem + ".certtable.bin")
			roots := amd
			if strings.Contains(stem, "genoa") { // the folder's roots are Milan's; its own are in its table
				certs, err := sevsnp.ParseTable(table)
				if err != nil {
					t.Fatal(err)
				}
				var own []byte
				for _, der := range certs {
					own = append(own, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
				}
				roots = []attest.RootFile{{Name: "amd-fake.pem", Data: own}}
			}
			cases = append(cases, selfmade{stem, append(read("snp/"+name), table...), roots, nil})
		case strings.HasPrefix(name, "BAD-crash-certtable"):
			cases = append(cases, selfmade{strings.TrimSuffix(name, ".bin"), append(read("snp/good-v3.report.bin"), read("snp/"+name)...), amd, nil})
		case !strings.HasSuffix(name, ".certtable.bin") && !strings.HasSuffix(name, ".pem"):
			t.Errorf("%s is judged by nothing", name)
		}
	}

	intel := []attest.RootFile{{Name: tdx.RootFile, Data: read("tdx/root.pem")}, {Name: tdx.QESignerFile, Data: []byte(strings.Repeat("dc", 32) + " 2\n")}}
	collateral := func(name string) []attest.Collateral {
		items, err := verifier.ReadCollateral(read("tdx/" + name))
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	for _, name := range names("tdx") {
		stem, isQuote := strings.CutSuffix(name, ".quote")
		of, isCollateral := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "collateral-")
		switch {
		case isQuote:
			cases = append(cases, selfmade{stem, read("tdx/" + name), intel, collateral("collateral-platform-UpToDate.json")})
		case isCollateral:
			cases = append(cases, selfmade{of, read("tdx/good-v4.quote"), intel, collateral(name)})
		case name != "root.pem":
			t.Errorf("%s is judged by nothing", name)
		}
	}

	maker := []attest.RootFile{{Name: "tpm-root.pem", Data: read("swtpm/swtpm-localca-rootca-cert.pem")}, {Name: "tpm-ca.pem", Data: read("swtpm/issuercert.pem")}}
	for _, name := range names("swtpm") {
		if stem, ok := strings.CutSuffix(name, ".json"); ok {
			cases = append(cases, selfmade{stem, read("swtpm/" + name), maker, nil})
		}
	}
	return cases
}

// badFor is the claim that each BAD case is bad for.
var badFor = map[string]string{
	"BAD-crash-certtable-overflow": "sevsnp.structure", "BAD-v3-chipid": "sevsnp.cert-chip-id", "BAD-v3-debug": "sevsnp.debug-off", "BAD-v3-migrate": "sevsnp.migration-off",

	"BAD-crash-qeauth-ffff": "tdx.structure", "BAD-crash-signeddatasize-0": "tdx.structure", "BAD-debug-td": "tdx.debug-off", "BAD-module-outofdate": "tdx.tcb-status",
	"BAD-mrtd-bitflip": "tdx.signature", "BAD-wrong-qe-mrsigner": "tdx.qe-signer", "BAD-wrong-qe-prodid": "tdx.qe-signer",
	"BAD-case-variant-key": "tdx.collateral", "BAD-issued-in-future": "tdx.collateral", "BAD-pck-revoked": "tdx.revocation", "BAD-platform-ca-revoked": "tdx.revocation",
	"BAD-qe-outofdate": "tdx.tcb-status", "BAD-tcb-signer-revoked": "tdx.collateral",

	"BAD-unrestricted-key-quote-ecc": "tpm.ak-attributes", "BAD-unrestricted-key-quote-rsa": "tpm.ak-attributes",
}

// TestSelfmade judges every self-made case under its own roots: what is good is accepted by genuine; what is BAD is not
// accepted by confidential-cpu, and the reason of its name is among the reasons; what depends on the policy is not rejected
// by genuine.
func TestSelfmade(t *testing.T) {
	asOf, err := canon.ParseTime("2026-02-01T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	builtin := func(name string) *policy.Policy {
		p, ok := policy.Builtin(name)
		if !ok {
			t.Fatalf("no policy %s", name)
		}
		return p
	}
	cases, seen := selfmadeCases(t), map[string]int{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			roots, err := attest.NewRoots(c.roots...)
			if err != nil {
				t.Fatal(err)
			}
			o, err := verifier.Open(verifier.TypeAny, c.evidence)
			if err != nil {
				t.Fatal(err)
			}
			claims := verifier.Appraise(o, attest.Case{Roots: roots, Collateral: c.items, At: asOf}).Claims
			genuine, confidential := policy.Decide(claims, builtin("genuine"), asOf), policy.Decide(claims, builtin("confidential-cpu"), asOf)
			kind, rest, _ := strings.Cut(c.name, "-")
			seen[kind]++
			switch kind {
			case "good":
				if genuine.Outcome != policy.Accept {
					t.Errorf("genuine: %s for %+v", genuine.Outcome, genuine.Reasons)
				}
			case "BAD":
				id, known := badFor[c.name]
				if !known {
					t.Error("nobody says what it is bad for")
				}
				if confidential.Outcome == policy.Accept || !slices.ContainsFunc(confidential.Reasons, func(r policy.Reason) bool { return r.Claim == id }) {
					t.Errorf("confidential-cpu: %s, and no reason is %s: %+v", confidential.Outcome, id, confidential.Reasons)
				}
			case "policy":
				if strings.Contains(c.name, "chipid-masked") {
					if genuine.Outcome != policy.Undecided { // nobody can compare a chip that hides
						t.Errorf("genuine: %s for %+v", genuine.Outcome, genuine.Reasons)
					}
				} else if genuine.Outcome != policy.Accept {
					t.Errorf("genuine: %s for %+v", genuine.Outcome, genuine.Reasons)
				}
			case "platform": // Intel's status of the platform
				cl := claims.Find("tdx.tcb-status", "cpu:0")
				if cl == nil || cl.Value != rest || (cl.Status == claim.Contradicted) != (rest == "Revoked") {
					t.Errorf("tdx.tcb-status is %+v", cl)
				}
				refused := slices.ContainsFunc(confidential.Reasons, func(r policy.Reason) bool { return r.Claim == "tdx.tcb-status" })
				if refused != (rest != "UpToDate") || (genuine.Outcome == policy.Reject) != (rest == "Revoked") {
					t.Errorf("genuine: %s; confidential-cpu: %+v", genuine.Outcome, confidential.Reasons)
				}
			case "quote": // of swtpm; nobody activated the key yet
				if genuine.Outcome != policy.Undecided || len(genuine.Reasons) != 1 || genuine.Reasons[0].Claim != "tpm.ak-bound" {
					t.Errorf("genuine: %s for %+v", genuine.Outcome, genuine.Reasons)
				}
			default:
				t.Errorf("a case of kind %q", kind)
			}
		})
	}
	if seen["good"] != 6 || seen["BAD"] != len(badFor) || seen["policy"] != 4 || seen["platform"] != 7 || seen["quote"] != 2 {
		t.Errorf("walked %v", seen)
	}
}

// TestSelfmadeActivated: the quote of a software TPM is genuine once its key was activated under an endorsement key that
// its own maker certified, and not under another. Its certificate begins in November 2026.
func TestSelfmadeActivated(t *testing.T) {
	read := func(name string) []byte { return vectors.Read(t, selfmadeDir+"/swtpm/"+name) }
	roots, err := attest.NewRoots(
		attest.RootFile{Name: "tpm-root.pem", Data: read("swtpm-localca-rootca-cert.pem")}, attest.RootFile{Name: "tpm-ca.pem", Data: read("issuercert.pem")})
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(read("quote-ecc.json"), &file); err != nil {
		t.Fatal(err)
	}
	file["ek_certificate"] = canon.Hex(read("ek-rsa2048.crt.der")).String()
	file["ek_tpmt_public"] = canon.Hex(read("ek.tpmt_public")).String()
	evidence, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	o, err := verifier.Open(verifier.TypeTPM, evidence)
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := tpm.ParsePublic(read("ek.tpmt_public"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := public.Key()
	if err != nil {
		t.Fatal(err)
	}
	ak, _ := o.Components()[0].Part(tpm.PartAK)
	genuine, _ := policy.Builtin("genuine")
	for ek, want := range map[canon.Digest]policy.Outcome{tpm.KeyDigest(key): policy.Accept, {1}: policy.Reject} {
		k := attest.Case{Roots: roots, At: canon.Time(1798761600), Expect: attest.Expect{Type: attest.ExpectType, Activations: []attest.Activation{{EK: ek, AK: tpm.Name(ak), Verifier: "test"}}}}
		if v := policy.Decide(verifier.Appraise(o, k).Claims, genuine, k.At); v.Outcome != want {
			t.Errorf("%s, want %s: %+v", v.Outcome, want, v.Reasons)
		}
	}
}
