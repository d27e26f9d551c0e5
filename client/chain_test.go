package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestLogs(t *testing.T) {
	for _, row := range []struct{ name, logs, want string }{
		{"one", `[{"origin":"a/log","path":"/log/","size":3,"closed":false}]`, ""},
		{"two", `[{"origin":"a/log","path":"/log/","size":3,"closed":true,"next":"b/log"},{"origin":"b/log","path":"/log/2/","size":0,"closed":false}]`, ""},
		{"none", `[]`, "the server names none"},
		{"without a name", `[{"origin":"","path":"/log/","size":3,"closed":false}]`, "want a name"},
		{"elsewhere", `[{"origin":"a/log","path":"/blobs/","size":3,"closed":false}]`, "a folder below /log/"},
		{"on its way out", `[{"origin":"a/log","path":"/log/../v1/","size":3,"closed":false}]`, "a folder below /log/"},
		{"no folder", `[{"origin":"a/log","path":"/log/2","size":3,"closed":false}]`, "a folder below /log/"},
	} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/logs" {
				t.Errorf("%s: asked for %s", row.name, r.URL.Path)
			}
			w.Write([]byte(`{"logs":` + row.logs + `}`))
		})
		_, err := c.Logs(t.Context())
		if row.want != "" {
			want(t, row.name, err, row.want)
		} else if err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		_, err = c.Log(t.Context(), "c/log")
		if err == nil {
			t.Errorf("%s: a log that is not there", row.name)
		}
	}
	// A server that names no logs has one.
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		http.NotFound(w, r)
	})
	m, err := c.Log(t.Context(), "a/log")
	must(t, err)
	if _, err := m.Checkpoint(t.Context()); !errors.Is(err, fs.ErrNotExist) || asked[1] != "/log/checkpoint" {
		t.Errorf("%v, asked for %q", err, asked)
	}
	if _, err := m.Keysets(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("keysets before the only log: %v", err)
	}
}

// chained is a server whose log was closed twice.
func chained(t *testing.T) (*fakeserver.Server, *client.Client, time.Time) {
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	s := fakeserver.Start(t, func() time.Time { return now })
	c, err := client.New(client.Config{URL: s.URL})
	must(t, err)
	return s, c, now
}

// TestBelievedOverABoundary: what a reader keeps goes on over logs that are closed. A server that shows another end of a
// closed log than a reader saw is a fork, and the keyset that says so is kept beside the note.
func TestBelievedOverABoundary(t *testing.T) {
	s, c, now := chained(t)
	dir := t.TempDir()
	b := client.OpenBelieved(dir)
	follow := func() (string, error) {
		keys, err := c.Keys(t.Context())
		must(t, err)
		k := keys.Current()
		log, err := c.Log(t.Context(), k.Origin)
		must(t, err)
		note, err := log.Checkpoint(t.Context())
		must(t, err)
		got, err := b.Follow(t.Context(), ledger.Follower{Logs: k.LogVKeys(canon.At(now)), Chain: c.Chain}, log, note, 0)
		return got.Origin, err
	}
	if got, err := follow(); err != nil || got != "assay.test/log" {
		t.Fatalf("%q, %v", got, err)
	}
	s.Close("second.test/log")
	s.Close("third.test/log")
	if got, err := follow(); err != nil || got != "third.test/log" {
		t.Errorf("%q, %v", got, err)
	}
	last, err := b.Last()
	must(t, err)
	// Another server with the same keys, whose third log ended sooner than this reader saw.
	other, c2, _ := chained(t)
	other.Close("second.test/log")
	other.Close("third.test/log")
	other.Close("fourth.test/log")
	c = c2
	if !bytes.HasPrefix(last, []byte("third.test/log\n1\n")) {
		t.Fatalf("believed %q", last)
	}
	if got, err := follow(); err != nil || got != "fourth.test/log" { // its third log begins with the same entry
		t.Errorf("%q, %v", got, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "checkpoint"), last, 0o600))
	forker, c3, _ := chained(t)
	forker.Close("second.test/log")
	forker.Close("third.test/log")
	forker.Fork()
	forker.Close("fourth.test/log")
	c = c3
	if _, err := follow(); !errors.Is(err, ledger.ErrFork) {
		t.Errorf("another history: %v", err)
	}
	for name, begins := range map[string]string{"checkpoint": "third.test/log\n1\n", "checkpoint.believed": "third.test/log\n1\n", "checkpoint.refused": "third.test/log\n"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(data), begins) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestPullOfALaterLog: the keysets of the logs before come with a log that continues another, from a server as from files.
func TestPullOfALaterLog(t *testing.T) {
	s, c, _ := chained(t)
	s.Close("second.test/log")
	keys, err := c.Keys(t.Context())
	must(t, err)
	pull := func(src ledger.Source, k ledger.Keyset) string {
		dir := filepath.Join(t.TempDir(), "log")
		p := client.Pull{From: src, Dir: dir, Have: folder(dir), Logs: k.LogVKeys(k.Made),
			Names: func(context.Context, ledger.Source, ledger.Entry) ([]canon.Digest, error) { return nil, nil }}
		if got, err := p.Run(t.Context()); err != nil || got.Checkpoint.Origin != k.Origin {
			t.Fatalf("%+v, %v", got, err)
		}
		return dir
	}
	for _, origin := range keys.Origins() {
		k, _ := keys.Newest(origin)
		log, err := c.Log(t.Context(), origin)
		must(t, err)
		dir := pull(log, k)
		files := httptest.NewServer(http.StripPrefix("/mirror", http.FileServer(http.Dir(dir))))
		defer files.Close()
		mirror, err := client.NewFiles(client.Config{URL: files.URL + "/mirror/"})
		must(t, err)
		for _, at := range []string{dir, pull(mirror, k)} {
			data, err := os.ReadFile(filepath.Join(at, "keysets-before"))
			want, wantErr := ledger.KeysetsBefore(keys, origin)
			must(t, wantErr)
			if (want == nil) != errors.Is(err, fs.ErrNotExist) || !bytes.Equal(data, want) {
				t.Errorf("%s: keysets before it: %s, %v", origin, data, err)
			}
		}
	}
	// Keysets that do not hang together are not taken.
	log, err := c.Log(t.Context(), "second.test/log")
	must(t, err)
	k := keys.Current()
	s.Change(func() {
		s.Alter = func(answer any) {
			if all, ok := answer.(*client.Keysets); ok {
				all.Keysets[0].Signatures = all.Keysets[0].Signatures[1:]
			}
		}
	})
	dir := filepath.Join(t.TempDir(), "log")
	p := client.Pull{From: log, Dir: dir, Have: folder(dir), Logs: k.LogVKeys(k.Made),
		Names: func(context.Context, ledger.Source, ledger.Entry) ([]canon.Digest, error) { return nil, nil }}
	_, err = p.Run(t.Context())
	want(t, "keysets that were cut", err, "did not sign it")
	if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err == nil {
		t.Error("a pull that failed left a checkpoint")
	}
}

// TestKeptCheckpointsOfALog: an index is one of a log.
func TestKeptCheckpointsOfALog(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/logs" {
			must(t, json.NewEncoder(w).Encode(client.LogList{Logs: []client.LogInfo{{Origin: "a/log", Path: "/log/", Closed: true}, {Origin: "b log", Path: "/log/2/"}}}))
			return
		}
		asked = append(asked, r.URL.RequestURI())
		http.NotFound(w, r)
	})
	for _, origin := range []string{"a/log", "b log"} {
		m, err := c.Log(t.Context(), origin)
		must(t, err)
		_, _, err = m.Around(t.Context(), 7)
		must(t, err)
	}
	_, _, err := c.Mirror().Around(t.Context(), 7)
	must(t, err)
	if want := "/v1/checkpoints?around=7&log=a%2Flog /v1/checkpoints?around=7&log=b+log /v1/checkpoints?around=7"; strings.Join(asked, " ") != want {
		t.Errorf("asked for %q", asked)
	}
}
