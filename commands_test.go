package assay_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	belowHeading = regexp.MustCompile(`(?m)^Available Commands:\n((?:  .*\n)+)`)
	examples     = regexp.MustCompile(`(?m)^Examples:\n((?:  .*\n|\n)+)`)
	codeSpan     = regexp.MustCompile("`([^`]+)`")
	codeLine     = regexp.MustCompile(`(?m)^(?:    |\$ )(.*)$`)
	invocation   = regexp.MustCompile(`(?:^|[(|;&] ?| -- |^[A-Z_]+=[^ ]* )(assay(?:-agent)?(?: [^|;&><()]*)?)`)
	longFlag     = regexp.MustCompile(`(?:^| )(--[a-z-]+|-[a-z])\b`)
)

// helps is what --help prints, by command: all that a user can find out about it.
func helps(t *testing.T, bin, command string, into map[string]string) {
	t.Helper()
	words := strings.Fields(command)
	out, err := exec.Command(filepath.Join(bin, words[0]), append(words[1:], "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", command, err)
	}
	into[command] = string(out)
	if below := belowHeading.FindStringSubmatch(string(out)); below != nil {
		for line := range strings.Lines(below[1]) {
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
				helps(t, bin, command+" "+name, into)
			}
		}
	}
}

// wrong says what in a command line no help knows: its subcommand, or a flag.
func wrong(line string, known map[string]string) error {
	for _, m := range invocation.FindAllStringSubmatch(line, -1) {
		words := strings.Fields(m[1])
		command, rest := words[0], words[1:]
		for len(rest) > 0 && known[command+" "+rest[0]] != "" {
			command, rest = command+" "+rest[0], rest[1:]
		}
		if alone := "\n  " + command + " [flags]\n"; strings.Contains(known[command], alone) && strings.Contains(known[command], "\nAvailable Commands:\n") && len(rest) > 0 && regexp.MustCompile(`^[a-z]`).MatchString(rest[0]) && rest[0] != "help" && rest[0] != "completion" {
			return fmt.Errorf("%q: %s has no command %s", line, command, rest[0])
		}
		for _, f := range longFlag.FindAllStringSubmatch(strings.Join(rest, " "), -1) {
			if flag := f[1]; flag != "--version" && !regexp.MustCompile(`(?m)^ +(-[a-z], )?`+flag+`\b|^ +`+flag+`, `).MatchString(known[command]) {
				return fmt.Errorf("%q: %s has no %s", line, command, flag)
			}
		}
	}
	return nil
}

// TestCommandsInText: each command that a document or an example of a help shows is one that there is, with flags that it has;
// and each command's help has an example.
func TestCommandsInText(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands")
	}
	bin, known := t.TempDir(), map[string]string{}
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./cmd/assay", "./cmd/assay-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	helps(t, bin, "assay", known)
	helps(t, bin, "assay-agent", known)
	helps(t, bin, "assay-agent benchmark-driver", known) // hidden: drivers are programs
	for command, help := range known {
		shown := examples.FindStringSubmatch(help)
		if shown == nil && !strings.Contains(help, "\nAvailable Commands:\n") && command != "assay-agent benchmark-driver" {
			t.Errorf("%s: its help has no example", command)
		}
		lines := codeSpan.FindAllStringSubmatch(help, -1)
		if shown != nil {
			for line := range strings.Lines(strings.ReplaceAll(shown[1], "\\\n", "")) {
				lines = append(lines, []string{line, strings.TrimSpace(line)})
			}
		}
		for _, line := range lines {
			if err := wrong(line[1], known); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page := strings.ReplaceAll(string(text), "\\\n", "")
		for _, line := range append(codeSpan.FindAllStringSubmatch(page, -1), codeLine.FindAllStringSubmatch(page, -1)...) {
			if err := wrong(strings.Join(strings.Fields(line[1]), " "), known); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The twins: what must be found.
	for _, line := range []string{"assay nodes wyh NODE", "assay nodes why NODE --nearest x", "assay-agent join URL --tokenfile x", "x=$(assay verify --nope)"} {
		if wrong(line, known) == nil {
			t.Errorf("%q is taken for a command", line)
		}
	}
}
