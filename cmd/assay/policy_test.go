package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/policy"
)

// writeCoRIMs writes a manifest of one guest, unsigned and signed, and the keys.
func writeCoRIMs(dir string) error {
	type m = map[int64]any
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	var fault error
	enc := func(v any) []byte {
		mode, err := cbor.CoreDetEncOptions().EncMode()
		if err == nil {
			var b []byte
			if b, err = mode.Marshal(v); err == nil {
				return b
			}
		}
		fault = err
		return nil
	}
	class := m{0: cbor.Tag{Number: 37, Content: []byte("\xd0\x5e\x6d\x1b\x9f\x46\x4a\xe2\xa6\x10\xce\x3e\x6e\xe7\xe1\x53")}, 1: "Example", 2: "guest 7"}
	triple := []any{m{0: class}, []any{m{0: 0, 1: m{1: 3, 2: []any{[]any{7, bytes.Repeat([]byte{0xab}, 48)}}}}}}
	unsigned := enc(cbor.Tag{Number: 501, Content: m{0: "guests-2026-02", 1: []any{cbor.Tag{Number: 506, Content: enc(m{1: m{0: "tag"}, 4: m{0: []any{triple}}})}}}})
	protected := enc(m{1: -8, 3: "application/rim+cbor"})
	signature := ed25519.Sign(key, enc([]any{"Signature1", protected, []byte{}, unsigned}))
	signed := enc(cbor.Tag{Number: 18, Content: []any{protected, m{}, unsigned, signature}})
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil || fault != nil {
		return fmt.Errorf("%v, %v", err, fault)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"guest.corim": unsigned, "signed.corim": signed, "cut.corim": unsigned[:len(unsigned)-3],
		"signer.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}),
		"signer.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkLint lints a policy as long as they come.
func BenchmarkLint(b *testing.B) {
	text, err := policy.Draft(policy.Answers{Name: "mine", DataClass: policy.DataPHI, Countries: []string{"DE"}, TEE: policy.TEESEVSNP, GPUs: 8, MaxAge: 900, Issuers: []string{"a.example"}})
	if err != nil {
		b.Fatal(err)
	}
	long := strings.Replace(string(text), "refuse:\n", strings.Repeat("  - {claim: sevsnp.vmpl, of: cpu, in: [0]}\n", 200)+"refuse:\n", 1)
	for name, text := range map[string]string{"drafted": string(text), "256 rules": long} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if policy.Lint("mine.yaml", []byte(text)) == nil && name != "drafted" {
					b.Fatal("nothing found")
				}
			}
		})
	}
}

// SARIF is read by other programs: the report has what the format requires, and each result names a rule of the list.
func TestSARIF(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "a policy.yaml")
	if err := os.WriteFile(bad, []byte("type: assay/policy/v1\nname: x\nrequire:\n  - {claim: sevsnp.tbc, of: cpu}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, _, code := command(t, "policy", "lint", bad, "-o", "sarif")
	if code != exitReject {
		t.Errorf("exit code %d", code)
	}
	var log struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct{ ID string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-schema-2.1.0.json") || len(log.Runs) != 1 || len(log.Runs[0].Results) != 1 {
		t.Fatalf("%s", stdout)
	}
	run := log.Runs[0]
	r := run.Results[0]
	where := r.Locations[0].PhysicalLocation
	if r.RuleID != policy.LintUnknown || run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Level != "error" || !strings.Contains(r.Message.Text, "nearest is sevsnp.tcb") ||
		where.Region.StartLine != 4 || where.Region.StartColumn != 13 || !strings.HasSuffix(where.ArtifactLocation.URI, "/a%20policy.yaml") {
		t.Errorf("%+v", r)
	}
}

// A verdict is explained at the lines of the policy that it was made by, unsigned or as a server signs it.
func TestExplainVerdict(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	text := []byte("type: assay/policy/v1\nname: mine\nrequire:\n  - {claim: sevsnp.vmpl, of: cpu, is: 0}\n  - {claim: sevsnp.debug-off, of: cpu}\n  - {claim: party.tier, of: party}\n")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(file, text)
	if err != nil {
		t.Fatal(err)
	}
	var claims claim.Set
	claims.Affirm("sevsnp.structure", "cpu:0", "v5")
	claims.Add(claim.Claim{ID: "sevsnp.vmpl", Subject: "cpu:0", Status: claim.Affirmed, Value: "2"})
	claims.Add(claim.Claim{ID: "sevsnp.debug-off", Subject: "cpu:0", Status: claim.Affirmed})
	for i := range claims {
		claims[i].Basis = []string{}
	}
	v := policy.Decide(claims, p, canon.At(minted))
	plain, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := canon.Marshal(policy.Result{Type: policy.ResultType, Verdict: v})
	if err != nil {
		t.Fatal(err)
	}
	env, err := ledger.Seal(policy.ResultType, payload, privateKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := canon.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"verdict.json": plain, "result.json": signed} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, data, 0o644); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := command(t, "policy", "explain", file, at)
		want := "REJECT by policy mine (sha256 " + p.Digest().Short() + "), as of 2026-02-01T00:00:00Z\n\n" +
			"NOT MET  " + file + ":4  Every cpu, at least 1: sevsnp.vmpl affirmed, and is 0\n" +
			"           vmpl.value  sevsnp.vmpl of cpu:0 is not enough: 2; required: is 0\n" +
			"           it is another than the policy wants\n" +
			"           fix (provider): ask for the report at the expected privilege level\n" +
			"-        " + file + ":5  Every cpu, at least 1: sevsnp.debug-off affirmed\n" +
			"open     " + file + ":6  The party (left open by a verdict over evidence alone): party.tier affirmed\n"
		if stdout != want || code != exitReject || !strings.Contains(stderr, "a line with - is met, or is not") {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s\n%s", name, code, stdout, want, stderr)
		}
		if unverified := strings.Contains(stderr, "its signature is not verified here"); unverified != (name == "result.json") {
			t.Errorf("%s: %s", name, stderr)
		}
	}
}

// A log is tried where it lies: at a mirror, by its URL, as in an export. A blob that the mirror changed is not believed.
func TestPolicyTestOfURL(t *testing.T) {
	dir := t.TempDir()
	if err := writeVerdicts(t.Context(), dir, vectors.Dir(t)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "verdicts.tar")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	src, err := audit.Open(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	change := false
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var data []byte
		err := error(fs.ErrNotExist)
		switch path := strings.TrimPrefix(r.URL.Path, "/log/"); {
		case path == "checkpoint":
			data, err = src.Checkpoint(r.Context())
		case strings.HasPrefix(path, "tile/"):
			var tile ledger.Tile
			if tile, err = ledger.ParseTilePath(path); err == nil {
				data, err = src.Tile(r.Context(), tile)
			}
		case strings.HasPrefix(path, "blob/"):
			var digest canon.Digest
			if digest, err = canon.ParseDigest(path[len("blob/"):]); err == nil {
				data, err = src.Blob(r.Context(), digest)
			}
			if change {
				data = bytes.Replace(data, []byte("sevsnp.debug-off"), []byte("sevsnp.debug-xxx"), 1)
			}
		}
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
	}))
	defer mirror.Close()
	want, _, _ := command(t, "policy", "test", "confidential-cpu", file)
	got, words, code := command(t, "policy", "test", "confidential-cpu", mirror.URL+"/log/")
	if got != want || code != exitAccept || !strings.HasPrefix(got, "1 of 3 hosts match; the rule that costs most is `debug-off` (2)\n") {
		t.Errorf("exit code %d\n%s%swant\n%s", code, got, words, want)
	}
	if got, words, code := command(t, "policy", "test", "confidential-cpu", file, "--days", "1"); code != exitAccept || got != want {
		t.Errorf("of one day: exit code %d\n%s%s", code, got, words)
	}
	change = true
	if got, words, code := command(t, "policy", "test", "confidential-cpu", mirror.URL+"/log/"); code == exitAccept || got != "" {
		t.Errorf("changed: exit code %d\n%s%s", code, got, words)
	}
}
