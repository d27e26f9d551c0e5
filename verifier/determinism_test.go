package verifier_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/policy"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

var update = flag.Bool("update", false, "write testvectors/golden.txt anew")

// golden is testvectors/golden.txt: what the results of each case came to, under which rules.
type golden struct {
	rules map[string]string    // number by room
	cases map[string][2]string // inputs and result by name
}

// rulesOfThisBuild are those that an appraisal names, and the policies'.
func rulesOfThisBuild(a verifier.Appraisal) map[string]string {
	rules := map[string]string{"policy": fmt.Sprint(policy.Rules)}
	for _, r := range a.Rules {
		rules[r.Room] = fmt.Sprint(r.Rules)
	}
	return rules
}

func parseGolden(t *testing.T, data []byte) golden {
	g := golden{map[string]string{}, map[string][2]string{}}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("golden.txt: line %q", line)
		}
		if words[0] == "rules" {
			g.rules[words[1]] = words[2]
		} else {
			g.cases[words[0]] = [2]string{words[1], words[2]}
		}
	}
	return g
}

func (g golden) format() []byte {
	var b bytes.Buffer
	for _, room := range slices.Sorted(maps.Keys(g.rules)) {
		fmt.Fprintf(&b, "rules %s %s\n", room, g.rules[room])
	}
	for _, name := range slices.Sorted(maps.Keys(g.cases)) {
		fmt.Fprintf(&b, "%s %s %s\n", name, g.cases[name][0], g.cases[name][1])
	}
	return b.Bytes()
}

// TestGolden: under the same rules the same inputs give the same bytes, in this release and in all later ones.
func TestGolden(t *testing.T) {
	file := filepath.Join(vectors.Root(t), "testvectors", "golden.txt")
	data, err := os.ReadFile(file)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	all, names := minted(t)
	was, is := parseGolden(t, data), golden{rulesOfThisBuild(judge(t, all[names[0]]).Appraisal), map[string][2]string{}}
	for _, name := range names {
		j, err := all[name].Judge(nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := j.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		is.cases[name] = [2]string{all[name].Inputs().String(), canon.Sum(text).String()}
		before, known := was.cases[name]
		switch {
		case !known:
			t.Logf("%s is new: go test ./verifier -run TestGolden -update writes its line", name)
		case before[0] == is.cases[name][0] && before[1] != is.cases[name][1] && maps.Equal(was.rules, is.rules):
			t.Errorf("%s: the result changed and no room's Rules did: raise the number of the room whose judgement changed, then run with -update", name)
		case before != is.cases[name] && !*update:
			t.Errorf("%s: inputs or rules changed: go test ./verifier -run TestGolden -update writes the file anew", name)
		}
	}
	for name := range was.cases {
		if _, ok := is.cases[name]; !ok && !*update {
			t.Errorf("%s is gone: run with -update", name)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(file, is.format(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// transcript is what the runner must print of a folder, by this process.
func transcript(t *testing.T, dir string) []byte {
	t.Helper()
	cases, err := testvectors.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, c := range cases {
		text, err := c.Transcript(nil)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text...)
	}
	return out
}

// realFolder writes the real reports of the manifest as cases.
func realFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := testvectors.Write(dir, nil, realCases(t)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// buildRunner compiles the runner for a target. It is skipped where the go command is not at hand.
func buildRunner(t *testing.T, env ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	out := filepath.Join(t.TempDir(), "runner")
	cmd := exec.Command("go", "build", "-p", "2", "-o", out, "./internal/runner")
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// compare tells where two transcripts part.
func compare(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) && len(want) > 0 {
		return
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("line %d of the transcript:\n%.2000s\nwant\n%.2000s", i+1, gotLines[i], wantLines[i])
		}
	}
	t.Fatalf("%d bytes of transcript, want %d", len(got), len(want))
}

// TestWASI: a WebAssembly build without network, clock or randomness says the same of every case, to the byte.
func TestWASI(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runner for wasip1")
	}
	module, err := os.ReadFile(buildRunner(t, "GOOS=wasip1", "GOARCH=wasm"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	compiled, err := r.CompileModule(ctx, module)
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"minted": filepath.Join(vectors.Root(t), "testvectors"), "real": realFolder(t)} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			config := wazero.NewModuleConfig().WithName("").WithArgs("runner", "/").WithStdout(&stdout).WithStderr(&stderr).
				WithFSConfig(wazero.NewFSConfig().WithReadOnlyDirMount(dir, "/"))
			if _, err := r.InstantiateModule(ctx, compiled, config); err != nil && !strings.Contains(err.Error(), "exit_code(0)") {
				t.Fatalf("%v: %s", err, &stderr)
			}
			compare(t, stdout.Bytes(), transcript(t, dir))
		})
	}
}

// TestArchitectures: builds for other instruction sets, with and without fused multiply-add and 64-bit words, say the
// same of every case, to the byte.
func TestArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the runner three times")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 runs all of these")
	}
	minted := filepath.Join(vectors.Root(t), "testvectors")
	want := transcript(t, minted)
	for _, env := range []string{"GOARCH=amd64 GOAMD64=v1", "GOARCH=amd64 GOAMD64=v3", "GOARCH=386"} {
		t.Run(env, func(t *testing.T) {
			cmd := exec.Command(buildRunner(t, strings.Fields(env)...), minted)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				if strings.Contains(stderr.String(), "microarchitecture support") {
					t.Skip("this CPU is not of that level")
				}
				t.Fatalf("%v: %s", err, &stderr)
			}
			compare(t, stdout.Bytes(), want)
		})
	}
}
