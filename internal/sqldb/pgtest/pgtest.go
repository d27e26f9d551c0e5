//go:build unix

// Package pgtest gives tests a PostgreSQL database of their own: on the server that ASSAY_POSTGRES names (a URL whose user
// may create databases), else in a throw-away cluster of the PostgreSQL that is installed, one for each test binary.
package pgtest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
)

var (
	cluster   = sync.OnceValues(start)
	stop      = func() {}
	databases atomic.Int64
)

// Main runs the tests and then ends the cluster, if one was started. A package that calls [URL] has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	defer func() { stop() }()
	return m.Run()
}

// URL returns the URL of a new, empty database that is dropped when the test ends. The test is skipped where there is no
// PostgreSQL.
func URL(t testing.TB) string {
	t.Helper()
	server := os.Getenv("ASSAY_POSTGRES")
	if server == "" {
		var err error
		if server, err = cluster(); err != nil {
			t.Fatal(err)
		}
		if server == "" {
			t.Skip("no PostgreSQL: install it, or set ASSAY_POSTGRES to the URL of a server")
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("ASSAY_POSTGRES is no URL")
	}
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("assay_test_%d_%d", os.Getpid(), databases.Add(1))
	if _, err := db.Exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	u.Path = "/" + name
	return u.String()
}

// start makes a cluster in a temporary folder that listens on a socket in it. Without PostgreSQL it returns "".
func start() (string, error) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian puts it
		if len(found) == 0 {
			return "", nil
		}
		initdb = found[len(found)-1]
	}
	dir, err := os.MkdirTemp("", "assay-pg-")
	if err != nil {
		return "", err
	}
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return "", fmt.Errorf("PostgreSQL does not run as root: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return "", err
		}
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr, cmd.Dir = as, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// The shell ends the server when its standard input closes, which happens however this process dies.
	cmd = exec.Command("sh", "-c", `"$1" -D "$2" -k "$3" -c listen_addresses= -c max_connections=100 -c deadlock_timeout=50ms >"$3/log" 2>&1 &
read _; kill -QUIT $!; wait $!; rm -rf "$3"`, "sh", filepath.Join(filepath.Dir(initdb), "postgres"), data, dir)
	cmd.SysProcAttr, cmd.Dir = as, dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop = func() { stdin.Close(); cmd.Wait(); os.RemoveAll(dir) }
	server := (&url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: url.Values{"host": {dir}, "user": {"postgres"}}.Encode()}).String()
	return server, ready(server, filepath.Join(dir, "log"))
}

// ready waits until the server answers.
func ready(server, logFile string) error {
	db, err := sql.Open("pgx", server)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		if err := db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			var log bytes.Buffer
			if f, err := os.Open(logFile); err == nil {
				io.Copy(&log, f)
				f.Close()
			}
			return fmt.Errorf("PostgreSQL did not start:\n%s", strings.TrimSpace(log.String()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
