package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

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
