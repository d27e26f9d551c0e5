package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/verifier/collateral/fake"
	"github.com/assay-network/assay/verifier/engine/enginetest"
)

func TestMain(m *testing.M) {
	testscript.Main(around{m}, map[string]func(){"assay": main, "browse": browse})
}

// around runs the tests, and what has to be ended after them.
type around struct{ *testing.M }

func (a around) Run() int { return runTests(a.M) }

var runTests = (*testing.M).Run

func TestScripts(t *testing.T) {
	verdicts := t.TempDir()
	if err := writeVerdicts(t.Context(), verdicts, vectors.Dir(t)); err != nil {
		t.Fatal(err)
	}
	var module []byte // the engine of this tree, where it can be built
	engines := t.TempDir()
	if _, err := exec.LookPath("go"); err == nil && !testing.Short() {
		module = enginetest.Build(t, enginetest.Today)
		changed := bytes.Clone(module)
		changed[4] ^= 2 // the version of the format
		for name, data := range map[string][]byte{"engine.wasm": module, "cut.wasm": module[:len(module)/2], "changed.wasm": changed} {
			if err := os.WriteFile(filepath.Join(engines, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(name string) (bool, error) {
			if name == "engine" {
				return module != nil, nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("VECTORS", vectors.Dir(t))
			env.Setenv("HOME", env.WorkDir)
			vendors := fake.New(time.Now) // commands have the machine's clock
			vendors.AddPlatform(mint.NewIntel().IntelPlatform("host"))
			vendors.AddDevice(mint.NewNVIDIA().Device("GH100", "one"))
			roots, err := filepath.Abs("../../testvectors/roots")
			if err != nil {
				return err
			}
			env.Setenv("ROOTS", roots)
			env.Setenv("VERDICTS", verdicts)
			env.Setenv("ENGINES", engines)
			env.Setenv("ENGINE", canon.Sum(module).String())
			file, err := gpuAnswer()
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(env.WorkDir, "gpu.json"), file, 0o644); err != nil {
				return err
			}
			server := httptest.NewServer(vendors)
			env.Defer(server.Close)
			env.Setenv("VENDORS", server.URL)
			if err := writeOldStore(env); err != nil {
				return err
			}
			if err := writeCoRIMs(env.WorkDir); err != nil {
				return err
			}
			return writeMinted(env.WorkDir)
		},
	})
}

// command runs one command line in this process and returns what a user would see.
func command(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, words bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &words, now: func() time.Time { return minted }, getenv: func(string) string { return "" }}
	code = a.run(context.Background(), args)
	return out.String(), words.String(), code
}

// manifestCase is one case of the real vectors: files, and the right verdict for them.
type manifestCase struct {
	ID      string
	Kind    string
	Files   map[string]any
	AsOf    string `json:"as_of"`
	Policy  string
	Verdict string
	Claims  map[string]string
	Args    map[string]string
}

// fileNames reads a manifest's word for one file, several, or none.
func fileNames(v any) (names []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			names = append(names, x.(string))
		}
	}
	return names
}

// TestManifest judges real evidence through the command line and expects the verdict that the manifest gives.
func TestManifest(t *testing.T) {
	dir := vectors.Dir(t)
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Cases []manifestCase }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	codes := map[string]int{"accept": 0, "reject": 1, "undecided": 3}
	ran := 0
	for _, c := range manifest.Cases {
		ran++
		t.Run(c.ID, func(t *testing.T) {
			args := []string{"verify", "-o", "json", "--type", c.Kind, "--policy", c.Policy, "--as-of", c.AsOf}
			for _, key := range []string{"cert", "certtable", "collateral"} {
				flag := "--cert"
				if key == "collateral" {
					flag = "--collateral"
				}
				for _, f := range fileNames(c.Files[key]) {
					args = append(args, flag, filepath.Join(dir, f))
				}
			}
			for name, value := range c.Args {
				args = append(args, "--"+name, value)
			}
			for _, f := range fileNames(c.Files["evidence"]) {
				args = append(args, filepath.Join(dir, f))
			}
			stdout, stderr, code := command(t, args...)
			if code != codes[c.Verdict] {
				t.Fatalf("exit code %d, want %d (%s)\n%s%s", code, codes[c.Verdict], c.Verdict, stdout, stderr)
			}
			var got struct {
				Verdict string
				Claims  []struct{ ID, Status string }
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatal(err)
			}
			if got.Verdict != c.Verdict {
				t.Errorf("verdict %s, want %s", got.Verdict, c.Verdict)
			}
			for id, status := range c.Claims {
				if !slices.ContainsFunc(got.Claims, func(g struct{ ID, Status string }) bool { return g.ID == id && g.Status == status }) {
					t.Errorf("%s is not %s", id, status)
				}
			}
		})
	}
	if ran < 50 {
		t.Fatalf("the manifest has %d cases, want 50 at least", ran)
	}
}

// TestDebugReportNeedsGenuine: the real debug report of Milan is genuine hardware, and refused unless that is all that
// was asked.
func TestDebugReportNeedsGenuine(t *testing.T) {
	snp := filepath.Join(vectors.Dir(t), "cpu", "snp")
	args := []string{"verify", filepath.Join(snp, "gsg-milan-report.bin"), "--cert", filepath.Join(snp, "gsg-milan-vcek.der"), "--as-of", "2024-01-01T00:00:00Z"}
	if stdout, _, code := command(t, args...); code != exitReject || !strings.Contains(stdout, "sevsnp.debug-off of cpu:0 is contradicted") {
		t.Errorf("exit code %d, want %d for its debug policy\n%s", code, exitReject, stdout)
	}
	stdout, _, code := command(t, append(args, "--policy", "genuine")...)
	if code != exitAccept || !strings.HasPrefix(stdout, "GENUINE HARDWARE: nothing decided about secrecy, freshness, revocation or state") {
		t.Errorf("exit code %d, want %d\n%s", code, exitAccept, stdout)
	}
}

// gpuAnswer is NVIDIA's evidence file of one GPU.
func gpuAnswer() ([]byte, error) {
	gpu := mint.NewNVIDIA().Device("GH100", "one")
	return json.Marshal([]map[string]any{{"arch": "HOPPER", "evidence": gpu.Answer([32]byte{1}), "certificate": gpu.PEM()}})
}
