package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
)

// operator runs commands with one configuration file.
type operator struct {
	t      *testing.T
	config string
	env    map[string]string // beside it; may be nil
}

func (o operator) run(stdin string, args ...string) (stdout, stderr string, code int) {
	var out, words bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &words, now: func() time.Time { return minted }, getenv: o.getenv}
	code = a.run(o.t.Context(), args)
	return out.String(), words.String(), code
}

func (o operator) getenv(name string) string {
	if name == "ASSAY_CONFIG" {
		return o.config
	}
	return o.env[name]
}

// serving is `assay serve` under way.
type serving struct {
	facts map[string]string // first word of a line of stdout, and the rest
	lines []string
	stop  func() int
}

// serve starts the command and waits for what it prints: up to its last line.
func (o operator) serve(last string, args ...string) serving {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	out, in := io.Pipe()
	a := &app{stdin: strings.NewReader(""), stdout: in, stderr: io.Discard, now: func() time.Time { return minted }, getenv: o.getenv}
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
		in.Close()
	}()
	s := serving{facts: map[string]string{}}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		name, fact, _ := strings.Cut(lines.Text(), "  ")
		s.facts[name] = strings.TrimSpace(fact)
		s.lines = append(s.lines, lines.Text())
		if name == last {
			break
		}
	}
	if s.facts[last] == "" {
		o.t.Fatalf("assay serve ended with %d after %q", <-code, s.lines)
	}
	go io.Copy(io.Discard, out) // what it prints later
	s.stop = func() int { cancel(); return <-code }
	return s
}

func TestServe(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json")}
	data, roots := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for _, f := range mint.NewAMD(sevsnp.Milan).Roots() {
		if err := os.WriteFile(filepath.Join(roots, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, code := o.run("", "nodes", "list"); code != exitUsage || !strings.Contains(stderr, "not logged in") || !strings.Contains(stderr, "assay: hint: run: assay login URL") {
		t.Errorf("before login: exit %d, %q", code, stderr)
	}
	s := o.serve("admin token", "--data", data, "--roots", roots)
	if !strings.HasPrefix(s.lines[0], "NOT VENDOR ROOTS") {
		t.Errorf("first line %q, want NOT VENDOR ROOTS", s.lines[0])
	}
	url, token := s.facts["url"], s.facts["admin token"]
	if _, stderr, code := o.run("admin_0011223344556677_AAAA\n", "login", url); code != exitUsage || !strings.Contains(stderr, "401") {
		t.Errorf("login with a wrong token: exit %d, %q", code, stderr)
	}
	if _, stderr, code := o.run("", "login", url); code != exitUsage || !strings.Contains(stderr, "no token on stdin") {
		t.Errorf("login without a token: exit %d, %q", code, stderr)
	}
	if _, err := os.Stat(o.config); err == nil {
		t.Error("a login that failed left a context")
	}
	if _, stderr, code := o.run(token+"\n", "login", url); code != exitAccept {
		t.Fatalf("login: exit %d, %q", code, stderr)
	}
	if info, err := os.Stat(o.config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("context file: %v %v, want mode 600", info, err)
	}
	joinToken, _, code := o.run("", "nodes", "token")
	tok, err := client.ParseToken(strings.TrimSpace(joinToken))
	if code != exitAccept || err != nil {
		t.Fatalf("nodes token: exit %d, %q, %v", code, joinToken, err)
	}
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	joined, err := c.Join(t.Context(), tok)
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _, code := o.run("", "nodes", "list"); code != exitAccept || !strings.Contains(stdout, joined.Node) {
		t.Errorf("nodes list: exit %d, %q", code, stdout)
	}
	if _, stderr, code := o.run("", "nodes", "revoke", joined.Node); code != exitAccept {
		t.Errorf("nodes revoke: exit %d, %q", code, stderr)
	}
	if stdout, _, _ := o.run("", "nodes", "list", "-o", "jsonl"); !strings.Contains(stdout, `"revoked":"`) {
		t.Errorf("nodes list -o jsonl: %q, want the node revoked", stdout)
	}
	if _, stderr, code := o.run("", "nodes", "revoke", "node-unknown"); code != exitUsage || !strings.Contains(stderr, "404") {
		t.Errorf("revoke of an unknown node: exit %d, %q", code, stderr)
	}
	for _, args := range [][]string{{}, {"--next", "assay.test/2", "--off"}} {
		if _, stderr, code := o.run("", append([]string{"log", "close"}, args...)...); code != exitUsage || !strings.Contains(stderr, "want one of --next and --off") {
			t.Errorf("log close %q: exit %d, %q", args, code, stderr)
		}
	}
	if _, stderr, code := o.run("", "log", "close", "--next", s.facts["log"]+" of another day"); code != exitUsage || !strings.Contains(stderr, "400") {
		t.Errorf("log close without a name: exit %d, %q", code, stderr)
	}
	stdout, stderr, code := o.run("", "log", "close", "--next", "assay.test/2")
	if code != exitAccept || !strings.Contains(stdout, ", at /log/\nlog          assay.test/2, size ") {
		t.Errorf("log close: exit %d, %q, %q", code, stdout, stderr)
	}
	if _, stderr, code := o.run("", "log", "close", "--off"); code != exitAccept || !strings.Contains(stderr, "no log is being closed") {
		t.Errorf("log close --off: exit %d, %q", code, stderr)
	}
	if code := s.stop(); code != exitAccept {
		t.Errorf("serve ended with %d, want 0", code)
	}
	again := o.serve("log", "--data", data)
	if !strings.HasPrefix(again.facts["log"], "assay.test/2+") || strings.HasPrefix(again.lines[0], "NOT VENDOR ROOTS") {
		t.Errorf("second start %q, want the log that goes on, under vendor roots", again.lines)
	}
	if code := again.stop(); code != exitAccept {
		t.Errorf("second serve ended with %d, want 0", code)
	}
	renewed := o.serve("admin token", "--data", data, "--renew", "admin-token")
	if got := renewed.facts["admin token"]; got == "" || got == token {
		t.Errorf("renewed admin token %q", got)
	}
	renewed.stop()
}

// TestServeMetrics: metrics and the keys of attestation results are where the command says, and a rotation adds a key.
func TestServeMetrics(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json")}
	get := func(url string) string {
		t.Helper()
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, %v", url, resp.StatusCode, err)
		}
		return string(data)
	}
	data := filepath.Join(t.TempDir(), "data")
	s := o.serve("admin token", "--data", data, "--metrics", "127.0.0.1:0")
	if text := get(s.facts["metrics"]); !strings.Contains(text, "\nassay_log_entries ") {
		t.Errorf("metrics: %.300q", text)
	}
	before := get(s.facts["url"] + client.JWKSPath)
	s.stop()
	s = o.serve("log", "--data", data, "--renew", "ear")
	if after := get(s.facts["url"] + client.JWKSPath); strings.Count(before, `"kid"`) != 1 || strings.Count(after, `"kid"`) != 2 {
		t.Errorf("keys before %s, after %s: want one, then two", before, after)
	}
	if s.facts["metrics"] != "" {
		t.Error("metrics that nobody asked for")
	}
	s.stop()
}

func TestServeRefuses(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json")}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no data folder", nil, "no data folder"},
		{"plain http elsewhere", []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--origin", "http://assay.test"}, "plain http"},
		{"unknown policy", []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--policy", "lenient"}, "lenient"},
		{"a role that is none", []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--role", "api,judge"}, `role "judge" is none of`},
		{"argument", []string{"now"}, "unknown command"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, stderr, code := o.run("", append([]string{"serve"}, tc.args...)...); code != exitUsage || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit %d, %q, want %d %q", code, stderr, exitUsage, tc.want)
			}
		})
	}
}
