//go:build unix

// Package pgtest gives tests a PostgreSQL database of their own: on the server that ASSAY_POSTGRES names (a URL whose user
// may create databases), else on a throw-away server of the PostgreSQL that is installed, one for each test binary.
package pgtest

import (
	"bufio"
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
	shared    = sync.OnceValues(start)
	databases atomic.Int64

	mu      sync.Mutex
	started *Server // shared, where a test asked for it
)

// Main runs the tests and then ends the shared server, if one was started. A package that calls [URL] has
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	defer func() {
		if started != nil {
			started.end()
		}
	}()
	return m.Run()
}

// URL returns the URL of a new, empty database that is dropped when the test ends. The test is skipped where there is no
// PostgreSQL.
func URL(t testing.TB) string {
	t.Helper()
	server := os.Getenv("ASSAY_POSTGRES")
	if server == "" {
		s, err := shared()
		if err != nil {
			t.Fatal(err)
		}
		if s == nil {
			t.Skip("no PostgreSQL: install it, or set ASSAY_POSTGRES to the URL of a server")
		}
		mu.Lock()
		started = s
		mu.Unlock()
		server = s.url
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

// Server is a PostgreSQL server of one test, which may crash it. It listens on a socket in a folder of its own.
type Server struct {
	url, logFile string

	// A shell stands between the test and the server: it ends the server and removes the folder when its standard input
	// closes, which happens however this process dies.
	shell  *exec.Cmd
	orders io.WriteCloser
	done   *bufio.Scanner // a line for each order that is carried out
}

// NewServer starts a server that ends with the test. The test is skipped where there is no PostgreSQL; a server that
// ASSAY_POSTGRES names is not the test's to crash.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		t.Skip("no PostgreSQL: install it")
	}
	t.Cleanup(s.end)
	return s
}

// URL returns the URL of a database that is there and empty at first.
func (s *Server) URL() string { return s.url }

// Crash ends the server at once, as `pg_ctl stop -m immediate` does: transactions under way are lost, and connections cut.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.order(t, "crash")
}

// Start starts a server that has crashed and waits until it answers. It recovers by itself.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.order(t, "start")
	if err := s.ready(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) order(t testing.TB, word string) {
	t.Helper()
	if _, err := io.WriteString(s.orders, word+"\n"); err != nil {
		t.Fatal(err)
	}
	if !s.done.Scan() {
		t.Fatalf("PostgreSQL: the shell that keeps it ended before %q", word)
	}
}

func (s *Server) end() {
	s.orders.Close()
	s.shell.Wait() // the shell's own fault is nothing to a test that is over
}

// keeper is the shell's program: "$1" is the server, "$2" its data, "$3" its folder.
const keeper = `run() {
	"$1" -D "$2" -k "$3" -c listen_addresses= -c max_connections=100 -c deadlock_timeout=50ms >>"$3/log" 2>&1 </dev/null & pid=$!
}
run "$@"
while read -r order; do
	case $order in
	crash) kill -QUIT $pid; wait $pid ;;
	start) run "$@" ;;
	esac
	echo done
done
kill -QUIT $pid; wait $pid; rm -rf "$3"`

// start makes a cluster in a temporary folder and starts its server. Without PostgreSQL it returns nil.
func start() (*Server, error) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian puts it
		if len(found) == 0 {
			return nil, nil
		}
		initdb = found[len(found)-1]
	}
	dir, err := os.MkdirTemp("", "assay-pg-")
	if err != nil {
		return nil, err
	}
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.SysProcAttr, cmd.Dir = as, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s := &Server{
		url:     (&url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: url.Values{"host": {dir}, "user": {"postgres"}}.Encode()}).String(),
		logFile: filepath.Join(dir, "log"),
		shell:   exec.Command("sh", "-c", keeper, "sh", filepath.Join(filepath.Dir(initdb), "postgres"), data, dir),
	}
	s.shell.SysProcAttr, s.shell.Dir = as, dir
	if s.orders, err = s.shell.StdinPipe(); err != nil {
		return nil, err
	}
	done, err := s.shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.done = bufio.NewScanner(done)
	if err := s.shell.Start(); err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// ready waits until the server answers.
func (s *Server) ready() error {
	db, err := sql.Open("pgx", s.url)
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
			if f, err := os.Open(s.logFile); err == nil {
				io.Copy(&log, f)
				f.Close()
			}
			return fmt.Errorf("PostgreSQL did not start:\n%s", strings.TrimSpace(log.String()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
