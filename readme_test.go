package assay_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/internal/vectors"
)

// varying is what differs between two true runs of one command: digests and keys, ports, times of day, sizes.
var varying = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-f]{8,}`),
	regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`),
	regexp.MustCompile(`127\.0\.0\.1:[0-9]+`),
	regexp.MustCompile(`T[0-9:]{8}Z`),
	regexp.MustCompile(`[0-9]{5,} bytes`),
}

// faulty is where a flipped bit is found, which differs with the bytes of the run.
var faulty = regexp.MustCompile(`One bit flipped: .*, exit code 1`)

func steady(text string) string {
	text = faulty.ReplaceAllString(text, "One bit flipped: #, exit code 1")
	for _, v := range varying {
		text = v.ReplaceAllString(text, "#")
	}
	return text
}

// TestREADME runs the commands of the README in its order, and then those of docs/, and holds the output that stands there
// against the real one.
func TestREADME(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all commands")
	}
	if name := swtpm.Missing(); name != "" {
		t.Skip("the README shows the demonstration with a TPM in software: " + name + " is not installed")
	}
	work, bin := t.TempDir(), t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./cmd/...")
	build.Dir = vectors.Root(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if commands := played(t, "README.md", work, bin); commands != 5 {
		t.Errorf("the README shows %d commands, want 5", commands)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		played(t, page, work, bin)
	}
}

// played runs the commands of a page in a folder, compares what they print, and returns how many there are.
func played(t *testing.T, page, work, bin string) (commands int) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```console\n")[1:] {
		block, _, ok := strings.Cut(block, "```")
		if !ok {
			t.Fatalf("%s: a console block does not end", page)
		}
		for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, want, _ := strings.Cut(step, "\n")
			for strings.HasSuffix(line, "\\") {
				var more string
				more, want, _ = strings.Cut(want, "\n")
				line = strings.TrimSuffix(line, "\\") + strings.TrimSpace(more)
			}
			commands++
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = work
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			if _, exited := err.(*exec.ExitError); err != nil && !exited {
				t.Fatalf("%s: %v", line, err)
			}
			if got := steady(strings.TrimSpace(out.String())); got != steady(strings.TrimSpace(want)) {
				t.Errorf("%s: $ %s\nprints:\n%s\nthe page says:\n%s", page, line, out.String(), want)
			}
		}
	}
	return commands
}

// TestRing draws the picture anew: it is made by the program in the tree and by nothing else.
func TestRing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "ring.svg")
	if words, err := exec.Command("go", "run", "docs/ring.go", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, words)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("docs/ring.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/ring.svg is not what docs/ring.go draws: run `go run docs/ring.go`")
	}
}
