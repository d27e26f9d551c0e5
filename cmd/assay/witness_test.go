package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/vectors"
)

// process is a command under way.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	facts map[string]string // first word of a line of stdout, and the rest
	lines []string
	words *strings.Builder // stderr
}

// spawn starts a command and reads its stdout up to a line: the one that begins with last, or the n-th where last is empty.
func spawn(t *testing.T, last string, n int, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), name, args...), facts: map[string]string{}, words: &strings.Builder{}}
	p.cmd.Stderr = p.words
	p.cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, fact, _ := strings.Cut(lines.Text(), "  ")
		p.facts[word] = strings.TrimSpace(fact)
		p.lines = append(p.lines, lines.Text())
		if word == last || last == "" && len(p.lines) == n {
			go io.Copy(io.Discard, out)
			return p
		}
	}
	p.end(syscall.SIGKILL)
	t.Fatalf("%s %q ended after %q:\n%s", name, args, p.lines, p.words)
	return nil
}

// end signals the process and waits for its end.
func (p *process) end(s syscall.Signal) int {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Signal(s)
		p.cmd.Wait()
	}
	return p.cmd.ProcessState.ExitCode()
}

// eventually asks until the answer is yes; a process of its own has a clock of its own.
func eventually(t *testing.T, what string, yes func() (string, bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		state, ok := yes()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not in a minute: %s", what, state)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// verdict runs a command to its end and returns its stdout and exit code.
func verdict(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "assay", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWitnessesAsProcesses: a log that needs two of three witnesses, each a process of its own and one of them another
// implementation. It publishes with one of them dead; built anew with the same key, it publishes nothing.
func TestWitnessesAsProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds another module and runs five processes")
	}
	dir := t.TempDir()
	other := filepath.Join(dir, "otherwitness")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", other, ".")
	build.Dir = filepath.Join(vectors.Root(t), "cmd", "assay", "testdata", "otherwitness")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the other witness: %v\n%s", err, out)
	}
	data, policy, state := filepath.Join(dir, "data"), filepath.Join(dir, "witnesses.txt"), filepath.Join(dir, "state")
	serve := func(last string, more ...string) *process {
		return spawn(t, last, 0, "assay", append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--interval", "50ms"}, more...)...)
	}
	first := serve("admin token")
	logKey, admin := first.facts["log"], first.facts["admin token"]
	if code := first.end(os.Interrupt.(syscall.Signal)); code != exitAccept {
		t.Fatalf("serve: exit %d\n%s", code, first.words)
	}

	// Two of our own, and one of another hand.
	text := "log " + logKey + "\n"
	var witnesses []*process
	ours := func(i int) *process {
		return spawn(t, "url", 0, "assay", "witness", "serve", "--data", filepath.Join(dir, fmt.Sprint("w", i)), "--listen", "127.0.0.1:0")
	}
	for i := range 2 {
		vkey, code := verdict(t, "witness", "init", fmt.Sprintf("witness.example/%d", i), "--data", filepath.Join(dir, fmt.Sprint("w", i)), "--log", logKey)
		if code != exitAccept {
			t.Fatalf("witness init: exit %d", code)
		}
		w := ours(i)
		if w.facts["witness"] != strings.TrimSpace(vkey) {
			t.Errorf("witness serves as %s, init made %s", w.facts["witness"], vkey)
		}
		text += fmt.Sprintf("witness w%d %s %s\n", i, w.facts["witness"], w.facts["url"])
		witnesses = append(witnesses, w)
	}
	foreign := spawn(t, "", 2, other, "witness.example/other", logKey)
	text += fmt.Sprintf("witness other %s %s\ngroup g 2 w0 w1 other\nquorum g\n", foreign.lines[0], foreign.lines[1])
	must(t, os.WriteFile(policy, []byte(text), 0o600))

	s := serve("witnesses", "--witnesses", policy)
	url := s.facts["url"]
	health := func() client.Health {
		t.Helper()
		c, err := client.New(client.Config{URL: url})
		must(t, err)
		h, err := c.Health(t.Context())
		must(t, err)
		return h
	}
	check := func() (string, int) {
		t.Helper()
		return verdict(t, "log", "check", url, "--log-key", logKey, "--witnesses", policy, "--state", state)
	}
	cosigned := func(size int64, by ...string) {
		t.Helper()
		eventually(t, "published", func() (string, bool) {
			h := health()
			return fmt.Sprintf("%+v", h), h.Waiting == 0 && h.Size == size
		})
		out, code := check()
		var got []string
		for line := range strings.Lines(out) {
			if word, rest, _ := strings.Cut(line, " "); word == "witness" {
				name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				got = append(got, name)
			}
		}
		if code != exitAccept || !slices.Equal(got, by) || !strings.Contains(out, fmt.Sprintf("checkpoint   size %d,", size)) {
			t.Errorf("log check: exit %d, want size %d by %q\n%s", code, size, by, out)
		}
	}
	size := health().Size
	cosigned(size, "w0", "w1", "other")

	// With one dead, publishing goes on; grow appends one entry, a node's joining.
	grow := func() {
		t.Helper()
		joinAs(t, url, admin)
		size++
	}
	witnesses[0].end(syscall.SIGKILL)
	grow()
	cosigned(size, "w1", "other")
	published := size

	// With two dead it stops, says so, and loses nothing.
	witnesses[1].end(syscall.SIGKILL)
	grow()
	eventually(t, "a stall", func() (string, bool) {
		h := health()
		return h.Status, strings.HasPrefix(h.Status, "stalled: too few witnesses cosign; 1 entries wait")
	})
	if out, code := check(); code != exitAccept || !strings.Contains(out, fmt.Sprintf("size %d,", published)) {
		t.Errorf("log check in a stall: exit %d\n%s", code, out)
	}
	if code := s.end(os.Interrupt.(syscall.Signal)); code != exitAccept {
		t.Errorf("serve in a stall: exit %d\n%s", code, s.words)
	}

	// The same key over another history, with all witnesses there: w0 and w1 remember across their death.
	replaceWitnesses(t, policy, ours(0), ours(1))
	for _, f := range []string{"assay.db", "assay.db-wal", "assay.db-shm"} {
		if err := os.Remove(filepath.Join(data, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s = serve("admin token", "--witnesses", policy, "--log-name", strings.Split(logKey, "+")[0])
	if s.facts["log"] != logKey {
		t.Fatalf("the rebuilt log is %s, want %s", s.facts["log"], logKey)
	}
	url, admin = s.facts["url"], s.facts["admin token"]
	size = health().Size
	for range 2 { // smaller than what the witnesses know, then larger
		for range 8 {
			grow()
		}
		eventually(t, "a stall", func() (string, bool) {
			h := health()
			return h.Status, strings.HasPrefix(h.Status, "stalled: too few witnesses cosign") && h.Waiting == size
		})
	}
	if out, code := check(); code != exitUsage || out != "" {
		t.Errorf("log check of a log that is not published: exit %d\n%s", code, out)
	}
	if code := s.end(os.Interrupt.(syscall.Signal)); code != exitAccept {
		t.Errorf("serve: exit %d\n%s", code, s.words)
	}
	for _, want := range []string{"alarm=true", "witness w0: it", "witness w1: it", "witness other: it", "no quorum of witnesses: cosigned by none of the policy"} {
		if !strings.Contains(s.words.String(), want) {
			t.Errorf("the log of the server lacks %q:\n%s", want, s.words)
		}
	}
}

// replaceWitnesses writes new addresses of w0 and w1 into a policy file.
func replaceWitnesses(t *testing.T, policy string, running ...*process) {
	t.Helper()
	text, err := os.ReadFile(policy)
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for i, p := range running {
		lines[1+i] = fmt.Sprintf("witness w%d %s %s", i, p.facts["witness"], p.facts["url"])
	}
	must(t, os.WriteFile(policy, []byte(strings.Join(lines, "\n")), 0o600))
}

// joinAs joins a node and returns its credential.
func joinAs(t *testing.T, url, admin string) string {
	t.Helper()
	operator, err := client.New(client.Config{URL: url, Credential: admin})
	must(t, err)
	issued, err := operator.NewJoinToken(t.Context(), "")
	must(t, err)
	token, err := client.ParseToken(issued.Token)
	must(t, err)
	joined, err := operator.Join(t.Context(), token)
	must(t, err)
	return joined.Credential
}
