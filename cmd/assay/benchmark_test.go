package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// slowDriver computes as the agent's own driver does, a while later: on any machine it takes at least as long as that.
const slowDriver = "#!/bin/sh\nsleep \"$1\"\nexec assay-agent benchmark-driver\n"

// TestBenchmarkScripts measures agents by a server, all of them processes of their own. What they do beside each other rests
// on a driver that waits, since nobody knows how many cores a machine has to spare.
func TestBenchmarkScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("benchmarks take their time")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build the agent with")
	}
	agents := filepath.Dir(buildAgent(t))
	if err := os.WriteFile(filepath.Join(agents, "slow"), []byte(slowDriver), 0o755); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/benchmark",
		Condition: func(name string) (bool, error) {
			if name == "long" {
				return os.Getenv("ASSAY_LONG") != "", nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", agents+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// start PATTERN PROGRAM ARG...: starts a process that goes on until the script ends, and waits for a line of its
			// stdout. Its stdout up to there can be matched.
			"start": func(ts *testscript.TestScript, _ bool, args []string) {
				until := regexp.MustCompile(args[0])
				program := ""
				for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
					if _, err := os.Stat(filepath.Join(dir, args[1])); err == nil && program == "" {
						program = filepath.Join(dir, args[1])
					}
				}
				p := exec.Command(program, args[2:]...)
				p.Dir, p.Env = ts.MkAbs("."), append(os.Environ(), "HOME="+ts.Getenv("HOME"))
				out, err := p.StdoutPipe()
				ts.Check(err)
				ts.Check(p.Start())
				ts.Defer(func() {
					p.Process.Signal(os.Interrupt)
					p.Wait()
				})
				for lines := bufio.NewScanner(out); lines.Scan(); {
					fmt.Fprintln(ts.Stdout(), lines.Text())
					if until.MatchString(lines.Text()) {
						return
					}
				}
				ts.Fatalf("%s ended before it printed %s", args[1], args[0])
			},
			// fact NAME FIRST: what follows the first word of a line of stdout goes into a variable.
			"fact": func(ts *testscript.TestScript, _ bool, args []string) {
				for line := range strings.Lines(ts.ReadFile("stdout")) {
					if rest, ok := strings.CutPrefix(line, args[1]); ok {
						ts.Setenv(args[0], strings.TrimSpace(rest))
						return
					}
				}
				ts.Fatalf("no line begins with %s", args[1])
			},
		},
	})
}
