//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/sqldb/pgtest"
	"github.com/assay-network/assay/internal/vectors"
)

func init() { runTests = pgtest.Main }

// TestAuditOnBothDatabases: one log, in SQLite and in PostgreSQL, is exported to the same bytes, whole and in a scope, and
// they replay to the same report.
func TestAuditOnBothDatabases(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	urls := []string{"sqlite:" + filepath.Join(dirs[0], "assay.db"), pgtest.URL(t)}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var files, reports [2][2][]byte // by database, then whole and in a scope
	for i, dir := range dirs {
		if err := writeVerdictsTo(t.Context(), urls[i], dir, vectors.Dir(t)); err != nil {
			t.Fatal(err)
		}
		for k, scope := range [][]string{nil, {"--node", "sound"}} {
			out := filepath.Join(dir, "log.tar")
			if stdout, stderr, code := command(t, append([]string{"audit", "export", "--database", urls[i], "--out", out}, scope...)...); code != 0 {
				t.Fatalf("export: exit code %d\n%s%s", code, stdout, stderr)
			}
			stdout, stderr, code := command(t, "audit", "replay", out, "--trust", filepath.Join(dir, "trust.yaml"), "-o", "json")
			if code != 0 {
				t.Fatalf("replay: exit code %d\n%s%s", code, stdout, stderr)
			}
			files[i][k], reports[i][k] = read(out), []byte(stdout)
		}
	}
	for k, what := range []string{"whole", "in a scope"} {
		if !bytes.Equal(files[0][k], files[1][k]) {
			t.Errorf("%s: the exports of the two databases differ", what)
		}
		if !bytes.Equal(reports[0][k], reports[1][k]) {
			t.Errorf("%s: SQLite\n%s\nPostgreSQL\n%s", what, reports[0][k], reports[1][k])
		}
	}
	if bytes.Equal(files[0][0], files[0][1]) {
		t.Error("the scope is the whole log")
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullDiskOfOutput: what could not be written was not told, whatever it was; no such command passes. The twin, with
// room, does.
func TestFullDiskOfOutput(t *testing.T) {
	dir := t.TempDir()
	if err := writeVerdicts(t.Context(), dir, vectors.Dir(t)); err != nil {
		t.Fatal(err)
	}
	log, trust := filepath.Join(dir, "verdicts.tar"), filepath.Join(dir, "trust.yaml")
	for _, args := range [][]string{
		{"replay", log, "--trust", trust}, {"replay", log, "--trust", trust, "-o", "json"}, {"population", log, "--trust", trust},
		{"sample", log, "--trust", trust, "--seed", "1", "--size", "1"}, {"explain", log, "7", "--trust", trust}, {"diff", log, "7", "7", "--trust", trust},
		{"challenge", log, "--trust", trust, "--seed", "1", "--size", "1"}, {"export", "--data", filepath.Join(dir, "server")},
	} {
		args = append([]string{"audit"}, args...)
		if _, stderr, code := command(t, args...); code != 0 {
			t.Errorf("%v with room: exit code %d\n%s", args, code, stderr)
		}
		var words bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: full{}, stderr: &words, now: func() time.Time { return minted }, getenv: func(string) string { return "" }}
		if code := a.run(t.Context(), args); code != 2 || !strings.Contains(words.String(), "assay: error: stdout: no space left on device") {
			t.Errorf("%v without room: exit code %d\n%s", args, code, &words)
		}
	}
}

// TestSpreadsheetsRunNothing: what a log calls its nodes is text in a spreadsheet, and no formula.
func TestSpreadsheetsRunNothing(t *testing.T) {
	dir := t.TempDir()
	if err := writeVerdictsTo(t.Context(), "sqlite:"+filepath.Join(dir, "assay.db"), dir, vectors.Dir(t), "=2+3", "@SUM(1)\tx"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"population"}, {"sample", "--seed", "1", "--size", "5", "--by", "node", "-o", "csv"}} {
		stdout, stderr, code := command(t, append([]string{"audit", args[0], filepath.Join(dir, "verdicts.tar"), "--trust", filepath.Join(dir, "trust.yaml")}, args[1:]...)...)
		rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		if code != 0 || err != nil || len(rows) != 6 {
			t.Fatalf("%s: exit code %d, %v\n%s%s", args[0], code, err, stdout, stderr)
		}
		nodes := map[string]bool{}
		for _, row := range rows[1:] {
			nodes[row[slices.Index(rows[0], "node")]] = true
			for _, field := range row {
				if field != "" && strings.Contains("=+-@\t\r", field[:1]) {
					t.Errorf("%s: the field %q", args[0], field)
				}
			}
		}
		if !nodes["'=2+3"] || !nodes["milan"] || len(nodes) != 3 {
			t.Errorf("%s: nodes %v", args[0], nodes)
		}
	}
}

// TestAuditWithoutNetwork replays where there is no network at all: with trust it is equal, without it is not decided, and
// one flipped byte in any part is a fault that names the part.
func TestAuditWithoutNetwork(t *testing.T) {
	dir := t.TempDir()
	if err := writeVerdicts(t.Context(), dir, vectors.Dir(t)); err != nil {
		t.Fatal(err)
	}
	log, trust := filepath.Join(dir, "verdicts.tar"), filepath.Join(dir, "trust.yaml")
	alone := aloneCommand(t)
	if out, code := alone("audit", "replay", log, "--trust", trust); code != 0 {
		t.Fatalf("with trust: exit code %d\n%s", code, out)
	}
	if out, code := alone("audit", "replay", log); code != 3 || !bytes.Contains(out, []byte("trust       not anchored")) {
		t.Errorf("without trust: exit code %d\n%s", code, out)
	}
	export, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	flipped := filepath.Join(dir, "flipped.tar")
	parts := partsOf(t, export)
	if len(parts) < 20 {
		t.Fatalf("%d parts", len(parts))
	}
	for _, p := range parts {
		changed := bytes.Clone(export)
		changed[p.at+p.size/2] ^= 1
		if err := os.WriteFile(flipped, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := alone("audit", "replay", flipped, "--trust", trust); code != 1 || !bytes.Contains(out, []byte(p.name)) {
			t.Errorf("a flipped byte of %s: exit code %d\n%s", p.name, code, out)
		}
	}
}

// aloneCommand returns what runs this binary as assay in a network namespace of its own, which has no interface that is up.
func aloneCommand(t *testing.T) func(args ...string) ([]byte, int) {
	t.Helper()
	unshare := []string{"unshare", "--map-root-user", "--net"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespace without a network can be made: %v %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	assay := filepath.Join(t.TempDir(), "assay") // testscript.Main runs the command of this name
	if err := os.Symlink(self, assay); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) ([]byte, int) {
		t.Helper()
		cmd := exec.Command(unshare[0], append(append(unshare[1:], assay), args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return out, cmd.ProcessState.ExitCode()
	}
}

type filePart struct {
	name     string
	at, size int
}

// partsOf cuts an export into its parts.
func partsOf(t *testing.T, export []byte) (out []filePart) {
	t.Helper()
	src := bytes.NewReader(export)
	for r := tar.NewReader(src); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, filePart{h.Name, len(export) - src.Len(), int(h.Size)})
	}
}
