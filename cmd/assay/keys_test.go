package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
)

// TestKeysCommand takes the keys of a server from its first start through a passphrase, a change of it and a renewal.
func TestKeysCommand(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json"), env: map[string]string{}}
	data := filepath.Join(t.TempDir(), "data")
	if _, stderr, code := o.run("", "keys", "list", "--data", data); code != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("before the first start: exit %d, %q", code, stderr)
	}
	s := o.serve("admin token", "--data", data)
	first := s.facts["log"]
	s.stop()
	rows := func(pattern string) int {
		t.Helper()
		stdout, stderr, code := o.run("", "keys", "list", "--data", data)
		if code != exitAccept {
			t.Fatalf("list: exit %d, %q", code, stderr)
		}
		return len(regexp.MustCompile("(?m)"+pattern).FindAllString(stdout, -1))
	}
	if rows(`^(log|result|promise) .* stands +plain file$`) != 3 || rows(`^ear .* not in the log +plain file$`) != 1 {
		t.Error("list after the first start: want three plain files of the log and one beside it")
	}
	if _, stderr, code := o.run("", "keys", "encrypt", "--data", data); code != exitUsage || !strings.Contains(stderr, "give the passphrase in a file that ASSAY_KEY_PASSPHRASE_FILE names") {
		t.Errorf("encrypt without a passphrase: exit %d, %q", code, stderr)
	}
	o.env["ASSAY_KEY_PASSPHRASE"] = "correct horse"
	if stdout, stderr, code := o.run("", "keys", "encrypt", "--data", data); code != exitAccept || strings.Count(stdout, "encrypted  ") != 4 {
		t.Errorf("encrypt: exit %d, %q %q", code, stdout, stderr)
	}
	o.env["ASSAY_KEY_NEW_PASSPHRASE"] = "battery staple"
	if _, stderr, code := o.run("", "keys", "encrypt", "--data", data); code != exitAccept {
		t.Errorf("change the passphrase: exit %d, %q", code, stderr)
	}
	delete(o.env, "ASSAY_KEY_NEW_PASSPHRASE")
	if _, stderr, code := o.run("", "serve", "--data", data, "--listen", "127.0.0.1:0"); code != exitUsage || !strings.Contains(stderr, "wrong passphrase") {
		t.Errorf("serve with the old passphrase: exit %d, %q", code, stderr)
	}
	o.env["ASSAY_KEY_PASSPHRASE"] = "battery staple"
	renewed := o.serve("log", "--data", data, "--renew", "result,log")
	if renewed.facts["log"] == first {
		t.Errorf("log key %q after a renewal, want a new one first", renewed.facts["log"])
	}
	renewed.stop()
	if rows(`^(log|result) .* stands +encrypted file$`) != 4 || rows(`^(log|result) +[0-9a-f]+ +2\S+Z +2\S+Z +stands`) != 2 {
		stdout, _, _ := o.run("", "keys", "list", "--data", data)
		t.Errorf("list after a renewal: want two keys of each, one of them with an end\n%s", stdout)
	}
	if stdout, _, code := o.run("", "keys", "list", "--data", data, "-o", "jsonl"); code != exitAccept || strings.Count(stdout, `"use":"`+ledger.UseLog+`"`) != 2 {
		t.Errorf("list -o jsonl: exit %d, %q", code, stdout)
	}
	if stdout, stderr, code := o.run("", "keys", "decrypt", "--data", data); code != exitAccept || strings.Count(stdout, "plain  ") != 6 {
		t.Errorf("decrypt: exit %d, %q %q", code, stdout, stderr)
	}
	if _, stderr, code := o.run("", "keys", "decrypt", "--data", data); code != exitAccept || !strings.Contains(stderr, "nothing to do") {
		t.Errorf("decrypt again: exit %d, %q", code, stderr)
	}
	delete(o.env, "ASSAY_KEY_PASSPHRASE")
	again := o.serve("log", "--data", data)
	again.stop()
	one := filepath.Join(t.TempDir(), "witness.pem")
	text := "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n"
	if err := os.WriteFile(one, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.env["ASSAY_KEY_PASSPHRASE"] = "correct horse"
	if stdout, stderr, code := o.run("", "keys", "encrypt", one); code != exitAccept || stdout != "encrypted  "+one+"\n" {
		t.Errorf("encrypt one file: exit %d, %q %q", code, stdout, stderr)
	}
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"output", []string{"keys", "list", "--data", data, "-o", "csv"}, "want text or jsonl"},
		{"no folder", []string{"keys", "encrypt", "--keys", "/nowhere"}, "no such file"},
		{"renew nothing known", []string{"serve", "--data", data, "--renew", "tls"}, `renew "tls": want admin-token`},
		{"no token", []string{"serve", "--data", data, "--keys", "result=pkcs11:token=a?module-path=/nowhere.so"}, "PKCS #11"},
	} {
		if _, stderr, code := o.run("", row.args...); code != exitUsage || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: exit %d, %q", row.name, code, stderr)
		}
	}
}

// TestFollowKeys: with the trust file of the first day, a log is followed, pulled and recomputed through a change of all of
// its keys; another log is not.
func TestFollowKeys(t *testing.T) {
	o := operator{t: t, config: filepath.Join(t.TempDir(), "context.json"), env: map[string]string{"HOME": t.TempDir()}}
	dir, data, state := t.TempDir(), filepath.Join(t.TempDir(), "data"), t.TempDir()
	trust, export := filepath.Join(dir, "trust.yaml"), filepath.Join(dir, "log.tar")
	writeTrust := func(url string) {
		t.Helper()
		c, err := client.New(client.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := c.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(trust, audit.Trust{Type: audit.TrustType, Keyset: keys.Current()}.Marshal(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(when, url string) {
		t.Helper()
		for _, args := range [][]string{
			{"log", "check", url, "--trust", trust, "--state", state}, {"audit", "export", "--data", data, "--out", export},
			{"audit", "replay", export, "--trust", trust, "--state", filepath.Join(dir, "state")},
		} {
			if args[1] == "replay" && when != "first" {
				args = append(args[:3], "--state", filepath.Join(dir, "state"))
			}
			if stdout, stderr, code := o.run("", args...); code != exitAccept {
				t.Errorf("%s: %s %s: exit %d\n%s%s", when, args[0], args[1], code, stdout, stderr)
			}
		}
	}
	s := o.serve("admin token", "--data", data)
	url := s.facts["url"]
	port := url[strings.LastIndex(url, ":")+1:]
	writeTrust(url)
	follow("first", url)
	s.stop()
	again := o.serve("log", "--data", data, "--listen", "127.0.0.1:"+port, "--renew", "result,promise,log:now")
	follow("renewed", again.facts["url"])
	again.stop()
	other := o.serve("admin token", "--data", filepath.Join(t.TempDir(), "other"))
	if _, stderr, code := o.run("", "log", "check", other.facts["url"], "--trust", trust, "--state", state); code != exitUsage || !strings.Contains(stderr, "the server's keys do not lead from, or to, those of this trust file") {
		t.Errorf("another log: exit %d, %q", code, stderr)
	}
	other.stop()
}
