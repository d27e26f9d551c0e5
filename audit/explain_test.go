package audit_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

// logCase makes a log of one verdict on a bundle, by everything that a case judges it by. Where the case has no challenge,
// the log issues one. It returns the index of the verdict.
func logCase(t testing.TB, bundle []byte, c attest.Case, policyName string) (*log, int64) {
	t.Helper()
	l := newLogAt(t, "honest", c.At)
	p, ok := policy.Builtin(policyName)
	if !ok {
		t.Fatalf("no policy %s", policyName)
	}
	l.append(ledger.KindPolicy, ledger.StreamServer, l.putBytes(p.Canonical()))
	for _, r := range c.References {
		l.append(ledger.KindReference, ledger.StreamServer, l.put(r))
	}
	for _, i := range c.Collateral {
		l.append(ledger.KindCollateral, ledger.StreamServer, l.put(ledger.Collateral{
			Type: ledger.CollateralType, Kind: i.Kind, Data: l.putBytes(i.Data), Source: "https://example.test/", Fetched: c.At}))
	}
	l.append(ledger.KindChallenge, ledger.StreamVerifier, l.put(*c.Expect.Challenge))
	body := l.putBytes(bundle)
	l.append(ledger.KindEvidence, ledger.NodeStream(c.Expect.Challenge.Node), body, canon.Sum(l.bytes(*c.Expect.Challenge)))
	o, err := verifier.Open(verifier.TypeBundle, bundle)
	l.must(err)
	l.put(c.Expect)
	l.putBytes(c.Roots.Marshal())
	a := verifier.Appraise(o, c)
	appraisal := l.put(a)
	l.append(ledger.KindAppraisal, ledger.StreamVerifier, appraisal, body)
	env, err := ledger.Seal(policy.ResultType, l.bytes(policy.Result{Type: policy.ResultType, Build: policy.Build{Digest: canon.Sum([]byte("build")), Go: "go", Platform: "linux/amd64"},
		Evidence: body, Appraisal: appraisal, Policy: p.Digest(), Verdict: policy.Decide(a.Claims, p, c.At)}), l.key(ledger.UseResult))
	l.must(err)
	l.append(ledger.KindVerdict, ledger.StreamVerifier, l.put(env), appraisal, p.Digest())
	l.publish()
	return l, int64(len(l.commitments) - 1)
}

// mintedBundles are the test vectors that are sound bundles.
func mintedBundles(t testing.TB) map[string]testvectors.Case {
	t.Helper()
	cases, err := testvectors.Load(os.DirFS(filepath.Join(vectors.Root(t), "testvectors")))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]testvectors.Case{}
	for _, c := range cases {
		o, k, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		if c.TwinOf == "" && o.Bundle() != nil && k.Expect.Challenge != nil {
			found[c.Name] = c
		}
	}
	if len(found) < 10 {
		t.Fatalf("%d bundles", len(found))
	}
	return found
}

// realBundle puts a vendor's raw component into a bundle that answers a challenge: what its device signed cannot cover it.
func realBundle(t testing.TB, c attest.Component, at canon.Time) ([]byte, attest.Case) {
	t.Helper()
	l := newLog(t, "honest")
	h := &host{node: "real", session: newKey("session real"), agent: agentDigest}
	ch := attest.Challenge{Type: attest.ChallengeType, Origin: "https://verifier.example", ResultKey: l.key(ledger.UseResult).spki(), Node: "real",
		Nonce: bytes.Repeat([]byte{7}, 32), Issued: at - 10, Expires: at + 290}
	b := attest.Bundle{Type: attest.BundleType, Keys: h.keys(), Challenge: ch.Digest(), Seal: "agent", Components: []attest.Component{c,
		{Class: attest.ClassStatement, MediaType: attest.StatementMediaType, Label: "agent", Parts: []attest.Part{{Name: attest.PartStatement,
			Data: l.bytes(attest.Statement{Type: attest.StatementType, Agent: h.agent, BootID: "boot"})}}},
	}}
	env, err := attest.SealBundle(b, h.session)
	l.must(err)
	return l.bytes(env), attest.Case{At: at, Roots: verifier.VendorRoots(), Expect: attest.Expect{Type: attest.ExpectType, Challenge: &ch}}
}

// realMilan is the real report of go-sev-guest's test data with its VCEK, under AMD's own roots.
func realMilan(t testing.TB) (*log, int64) {
	t.Helper()
	at, err := canon.ParseTime("2024-01-01T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	bundle, c := realBundle(t, attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{
		{Name: sevsnp.PartReport, Data: vectors.Read(t, "cpu/snp/gsg-milan-report.bin")}}}, at)
	c.Collateral = []attest.Collateral{{Kind: attest.KindAMDCertificate, Data: vectors.Read(t, "cpu/snp/gsg-milan-vcek.der")}}
	return logCase(t, bundle, c, "genuine")
}

// TestStandings: every claim of a component says where it stands, by names that the format's own listing has.
func TestStandings(t *testing.T) {
	for _, d := range claim.Catalogue() {
		room := claim.Room(d.ID)
		if slices.Contains([]string{"agent", "binding", "bundle", "guest", "party", "set", "time"}, room) {
			continue
		}
		if fields, parts, inputs := audit.StandingOf(d.ID); len(fields)+len(parts)+len(inputs) == 0 {
			t.Errorf("%s: nothing says where it stands", d.ID)
		}
	}
	seen, seenParts := map[string]bool{}, map[string]bool{}
	see := func(c attest.Component) {
		for _, name := range audit.FieldNames(c) {
			seen[name] = true
		}
		for _, p := range c.Parts {
			seenParts[p.Name] = true
		}
	}
	cases, err := testvectors.Load(os.DirFS(filepath.Join(vectors.Root(t), "testvectors")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if o, _, err := c.Open(); err == nil {
			for _, comp := range o.Components() {
				see(comp)
			}
		}
	}
	// What no case has: Azure, and a key that is not in the TPM's own form.
	maker, intel := mint.NewTPMMaker(), mint.NewIntel()
	see(mint.AzureSNP(newHost("azure", sevsnp.PolicySMT).platform, maker.RSATPM("azure", tpm.AlgRSASSA)).CPU())
	see(mint.AzureTDX(intel.TD(intel.IntelPlatform("azure"), mint.SoundQuote()), maker.RSATPM("azure", tpm.AlgRSASSA)).CPU())
	see(withSPKI(t, maker.TPM("spki")))
	see(attest.Component{Parts: []attest.Part{{Name: tpm.PartIMADigest}}})
	names := slices.Collect(maps.Keys(seen))
	for _, d := range claim.Catalogue() {
		fields, parts, _ := audit.StandingOf(d.ID)
		for _, f := range fields {
			if !slices.ContainsFunc(names, func(n string) bool { return audit.Fits(f, n) }) {
				t.Errorf("%s stands in %s, which no evidence has", d.ID, f)
			}
		}
		for _, p := range parts {
			if !seenParts[p] {
				t.Errorf("%s stands in part %s, which no evidence has", d.ID, p)
			}
		}
	}
}

// withSPKI is a TPM's evidence with the attestation key as SubjectPublicKeyInfo.
func withSPKI(t testing.TB, m *mint.TPM) attest.Component {
	t.Helper()
	pub, err := m.Public.Key()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	c := m.Component([]byte("any"), m.PCRs(eventlog.SHA256, 0))
	c.Parts[3].Data = der
	return c
}

func TestExplainMilan(t *testing.T) {
	l, index := realMilan(t)
	x, err := reading(t, l).Explain(t.Context(), index)
	l.must(err)
	report := vectors.Read(t, "cpu/snp/gsg-milan-report.bin")
	check := func(id, subject string) audit.Check {
		i := slices.IndexFunc(x.Checks, func(c audit.Check) bool { return c.Claim == id && c.Subject == subject })
		if i < 0 {
			t.Fatalf("no check of %s", id)
		}
		return x.Checks[i]
	}
	tcb := check("sevsnp.tcb", "cpu:0")
	if want := (audit.Place{Part: "report", Digest: canon.Sum(report), Field: "REPORTED_TCB", Offset: 0x180, Size: 8, Hex: fmt.Sprintf("%x", report[0x180:0x188])}); len(tcb.Places) != 1 || tcb.Places[0] != want {
		t.Errorf("REPORTED_TCB: %+v, want %+v", tcb.Places, want)
	}
	if tcb.Status != claim.Affirmed || !strings.HasPrefix(tcb.Sentence, "It is shown that the firmware is at least this TCB") || tcb.Spec != "AMD SEV-SNP Firmware ABI Specification, 56860 rev. 1.58, table 23, REPORTED_TCB" {
		t.Errorf("%+v", tcb)
	}
	if len(tcb.Require)+len(tcb.Refuse) != 0 {
		t.Errorf("the policy genuine does not read sevsnp.tcb: %+v", tcb)
	}
	sig := check("sevsnp.signature", "cpu:0")
	if len(sig.Require) == 0 || !strings.HasPrefix(sig.Require[0].Label, "require[") || !slices.ContainsFunc(sig.Inputs, func(i verifier.Input) bool { return i.Kind == attest.KindAMDCertificate }) {
		t.Errorf("%+v", sig)
	}
	fresh := check("sevsnp.freshness", "cpu:0")
	if fresh.Status == claim.Affirmed || len(fresh.Refuse) == 0 {
		t.Errorf("%+v", fresh)
	}
	text := x.Text()
	for _, want := range []string{
		"REPORTED_TCB at 0x180 of part report, 8 bytes: " + fmt.Sprintf("%x", report[0x180:0x188]),
		"sha256 " + canon.Sum(report).String(), "sevsnp.signature of cpu:0: affirmed", "56860 rev. 1.58, table 139", "by genuine (sha256 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	data, err := x.Canonical()
	l.must(err)
	var again audit.Explanation
	l.must(canon.Unmarshal(data, &again))
}

// TestExplainEveryReason: each reason of a verdict stands at its claim, or among what is missing.
func TestExplainEveryReason(t *testing.T) {
	s := busy(t, 1)
	g := reading(t, s.log)
	rows, _ := population(t, g)
	for _, row := range rows {
		x, err := g.Explain(t.Context(), row.Index)
		s.must(err)
		n := len(x.Missing)
		for _, c := range x.Checks {
			n += len(c.Reasons)
		}
		if n != len(row.Reasons) || x.Outcome != row.Outcome {
			t.Errorf("%s: %d reasons explained, the verdict has %d", row.Outcome, n, len(row.Reasons))
		}
	}
}

// runScript runs the commands for a verdict in a folder with their files, after a change to one.
func runScript(t testing.TB, files []audit.File, change func(map[string][]byte)) (output string, ok bool) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("no openssl")
	}
	dir := t.TempDir()
	byName := map[string][]byte{}
	for _, f := range files {
		if _, twice := byName[f.Name]; twice || f.Name != filepath.Base(f.Name) {
			t.Fatalf("file %q", f.Name)
		}
		byName[f.Name] = bytes.Clone(f.Data)
	}
	if change != nil {
		change(byName)
	}
	for name, data := range byName {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", audit.ScriptName)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// TestOpenSSLMilan runs the commands for a real Milan verdict with the real openssl: they agree, and a flipped bit in any
// of the files that they rest on makes them fail.
func TestOpenSSLMilan(t *testing.T) {
	l, index := realMilan(t)
	script, files, err := reading(t, l).WithOpenSSL(t.Context(), index)
	l.must(err)
	out, ok := runScript(t, files, nil)
	if !ok || !strings.HasSuffix(out, "all of it agrees\n") || strings.Contains(script, "is not redone: there is no") {
		t.Fatalf("%s\n%s", out, script)
	}
	for _, want := range []string{"Signature Verified Successfully", "Verified OK", "cpu-0-signer.pem: OK", "REPORTED_TCB at 0x180"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	flip := func(name string, at int) func(map[string][]byte) {
		return func(files map[string][]byte) { files[name][at] ^= 1 }
	}
	for _, row := range []struct {
		name   string
		change func(map[string][]byte)
		word   string // of what fails
	}{
		{"signed byte of the report", flip("cpu-0-report", 0x180), ""},
		{"signature of the report", flip("cpu-0-report", 0x2a0), ""},
		{"evidence", flip("evidence.json", 200), "sha256sum"},
		{"verdict", flip("verdict.json", 200), "sha256sum"},
		{"result key", func(files map[string][]byte) {
			files["result-key.pem"] = bytes.Replace(files["result-key.pem"], []byte("A"), []byte("B"), 1)
		}, ""},
		{"signing certificate", flip("cpu-0-signer.der", 700), ""},
		// What only the signature finds: the report is the one in the bundle, and the digests are made to fit.
		{"report and bundle alike", func(files map[string][]byte) {
			script := string(files[audit.ScriptName])
			for _, skip := range []string{"sha256sum -c", "within ", "openssl pkeyutl", "same "} {
				script = strings.ReplaceAll(script, "\n"+skip, "\n: "+skip)
			}
			files[audit.ScriptName] = []byte(script)
			files["cpu-0-report"][0x50] ^= 1
		}, "Verification failure"},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, ok := runScript(t, files, row.change)
			if ok || strings.Contains(out, "all of it agrees") || !strings.Contains(out, row.word) {
				t.Errorf("the commands pass:\n%s", out)
			}
		})
	}
}

// TestOpenSSLMinted runs the commands for each kind of minted bundle: SEV-SNP of all product lines, TDX, TPM, NVIDIA.
func TestOpenSSLMinted(t *testing.T) {
	minted := mintedBundles(t)
	names := []string{"bundle-turin-v5", "bundle-tdx-v5", "bundle-tpm", "bundle-milan-v3-table", "bundle-genoa-vlek-v5", "bundle-genoa-tpm", "bundle-gpu-hopper"}
	if testing.Short() {
		names = names[:3]
	}
	for _, name := range names {
		c, ok := minted[name]
		if !ok {
			t.Errorf("no case %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, k, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			l, index := logCase(t, c.Evidence, k, "genuine")
			script, files, err := reading(t, l).WithOpenSSL(t.Context(), index)
			l.must(err)
			out, ok := runScript(t, files, nil)
			if !ok || strings.Contains(script, "not redone: ") {
				t.Errorf("%s\n%s", out, script)
			}
			if !strings.Contains(out, "ok: the seal covers challenge, keys and components") || !strings.Contains(out, "ok: the bundle answers the challenge") {
				t.Errorf("the binding was not redone\n%s", out)
			}
			flipped, ok := runScript(t, files, func(files map[string][]byte) { files["kem-key.bin"][3] ^= 1 })
			if ok || !strings.Contains(flipped, "differs: the seal covers challenge, keys and components") {
				t.Errorf("another session key passes\n%s", flipped)
			}
		})
	}
}

// TestOpenSSLReal: real evidence of TDX and NVIDIA, under the vendors' roots.
func TestOpenSSLReal(t *testing.T) {
	for _, row := range []struct {
		name, at string
		c        func(t *testing.T) attest.Component
	}{
		{"tdx", "2025-01-01T00:00:00Z", func(t *testing.T) attest.Component {
			return attest.Component{Class: attest.ClassCPU, MediaType: tdx.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: tdx.PartQuote, Data: vectors.Read(t, "cpu/tdx/gtg-tdx_prod_quote_SPR_E4.dat")}}}
		}},
		{"nvidia", "2026-06-01T00:00:00Z", func(t *testing.T) attest.Component {
			components, err := nvidia.ReadJSON(vectors.Read(t, "gpu/nvtrust/gpu_evidence.json"))
			if err != nil {
				t.Fatal(err)
			}
			components[0].Label = "gpu0"
			return components[0]
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			at, err := canon.ParseTime(row.at)
			if err != nil {
				t.Fatal(err)
			}
			bundle, c := realBundle(t, row.c(t), at)
			l, index := logCase(t, bundle, c, "genuine")
			script, files, err := reading(t, l).WithOpenSSL(t.Context(), index)
			l.must(err)
			if out, ok := runScript(t, files, nil); !ok || strings.Contains(script, ":0 is not redone: ") || strings.Contains(script, "chain is not redone") || !strings.Contains(out, "Verified OK") {
				t.Errorf("%s\n%s", out, script)
			}
		})
	}
}

// TestOpenSSLTPM: every scheme that a TPM signs quotes with, and both forms of its key.
func TestOpenSSLTPM(t *testing.T) {
	maker := mint.NewTPMMaker()
	for _, row := range []struct {
		name string
		c    func() attest.Component
	}{
		{"ecdsa", func() attest.Component {
			m := maker.TPM("one")
			return m.Component([]byte("any"), m.PCRs(eventlog.SHA256, 0, 7))
		}},
		{"rsassa", func() attest.Component {
			m := maker.RSATPM("two", tpm.AlgRSASSA)
			return m.Component([]byte("any"), m.PCRs(eventlog.SHA256, 0, 7))
		}},
		{"rsapss", func() attest.Component {
			m := maker.RSATPM("three", tpm.AlgRSAPSS)
			return m.Component([]byte("any"), m.PCRs(eventlog.SHA256, 0, 7))
		}},
		{"spki", func() attest.Component { return withSPKI(t, maker.TPM("four")) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bundle, c := realBundle(t, row.c(), t0)
			l, index := logCase(t, bundle, c, "genuine")
			script, files, err := reading(t, l).WithOpenSSL(t.Context(), index)
			l.must(err)
			out, ok := runScript(t, files, nil)
			if !ok || strings.Contains(script, "is not redone: its") || !strings.Contains(out, "Verified OK") {
				t.Errorf("%s\n%s", out, script)
			}
			if flipped, ok := runScript(t, files, func(files map[string][]byte) {
				files[audit.ScriptName] = bytes.ReplaceAll(files[audit.ScriptName], []byte("\nwithin "), []byte("\n: "))
				files["tpm-0-quote"][20] ^= 1
			}); ok || !strings.Contains(flipped, "Verification failure") {
				t.Errorf("a flipped bit of the quote passes\n%s", flipped)
			}
		})
	}
}

// TestOpenSSLSaysWhatItCannot: where there are no commands for a format the script says so, and redoes the rest.
func TestOpenSSLSaysWhatItCannot(t *testing.T) {
	vm := mint.AzureSNP(newHost("azure", sevsnp.PolicySMT).platform, mint.NewTPMMaker().RSATPM("azure", tpm.AlgRSASSA))
	bundle, c := realBundle(t, vm.CPU(), t0)
	l, index := logCase(t, bundle, c, "genuine")
	script, files, err := reading(t, l).WithOpenSSL(t.Context(), index)
	l.must(err)
	if out, ok := runScript(t, files, nil); !ok || !strings.Contains(script, "# The signature of cpu:0 is not redone: this build has no commands for the format.\n") {
		t.Errorf("%s\n%s", out, script)
	}
}

// TestChallengeMinted: on every format, nothing altered is accepted where it must not be.
func TestChallengeMinted(t *testing.T) {
	for name, c := range mintedBundles(t) {
		t.Run(name, func(t *testing.T) {
			_, k, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			policyName := "confidential-cpu"
			if len(c.Verdicts) > 0 {
				policyName = c.Verdicts[0].Policy
			}
			l, _ := logCase(t, c.Evidence, k, policyName)
			g := reading(t, l)
			seeds := int64(3)
			if testing.Short() || strings.HasPrefix(name, "bundle-gpu-") { // each trial appraises every device
				seeds = 1
			}
			for seed := range seeds {
				r, err := g.Challenge(t.Context(), seed, 1)
				l.must(err)
				for _, x := range r.Trials {
					if x.Result == audit.TrialAccepted || x.Result == audit.TrialDiffers {
						t.Errorf("seed %d: %+v", seed, x)
					}
				}
			}
		})
	}
}
