package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// In a child these name its world, its database, and the instant at which its clock began.
const (
	childWorld    = "ASSAY_TEST_SERVER_WORLD"
	childDatabase = "ASSAY_TEST_SERVER_DATABASE"
	childBegan    = "ASSAY_TEST_SERVER_BEGAN"
	childDies     = "ASSAY_TEST_SERVER_DIES" // after which step; empty: when it is killed
)

// childClock is one clock for all children: it runs on while none does.
func childClock(began int64) func() time.Time {
	return func() time.Time { return worldBegin.Add(time.Since(time.Unix(0, began))) }
}

func childSettings(world, database string) server.Settings {
	return server.Settings{
		Database: database, Data: filepath.Join(world, "data"), Listen: "127.0.0.1:0", Roots: filepath.Join(world, "roots"),
		References: []string{filepath.Join(world, "guests.json")}, Collateral: filepath.Join(world, "collateral"),
		Origin: worldOrigin, Interval: 5 * time.Millisecond,
	}
}

// TestServerChild is no test: it is the process that TestKillServer and TestCluster kill. It ends by itself on SIGTERM.
func TestServerChild(t *testing.T) {
	world := os.Getenv(childWorld)
	if world == "" {
		t.Skip("runs as a child of other tests")
	}
	began, err := strconv.ParseInt(os.Getenv(childBegan), 10, 64)
	must(t, err)
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	s, err := server.New(ctx, childSettings(world, os.Getenv(childDatabase)), server.Deps{Now: childClock(began), Random: rand.Reader, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	defer s.Close()
	s.TestingOnlyStep(func(step string) {
		if step == os.Getenv(childDies) {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
			select {}
		}
	})
	fmt.Printf("ready %s\n", s.Addr())
	if token := s.NewAdminToken(); token != "" {
		must(t, os.WriteFile(filepath.Join(world, "admin"), []byte(token), 0o600))
	}
	fmt.Println("go")
	must(t, s.Run(ctx))
}

// child is a running server.
type child struct {
	cmd  *exec.Cmd
	out  io.Reader
	said bytes.Buffer // on stderr; whole once the child has ended
	url  string
}

func startChild(t *testing.T, world, database string, began int64, env ...string) *child {
	t.Helper()
	c := launchChild(t, world, database, began, env...)
	c.wait(t)
	return c
}

// launchChild starts a child without waiting for it.
func launchChild(t *testing.T, world, database string, began int64, env ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^TestServerChild$", "-test.count=1")}
	c.cmd.Env = append(os.Environ(), childWorld+"="+world, childDatabase+"="+database, fmt.Sprintf("%s=%d", childBegan, began))
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = &c.said
	var err error
	c.out, err = c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	return c
}

// wait waits until the child answers.
func (c *child) wait(t *testing.T) {
	t.Helper()
	lines := bufio.NewScanner(c.out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			c.url = (&url.URL{Scheme: "http", Host: addr}).String()
		}
		if lines.Text() == "go" {
			go io.Copy(io.Discard, c.out) // nothing of interest follows
			return
		}
	}
	t.Fatalf("the child did not start: %v\n%s", c.cmd.Wait(), &c.said)
}

// pledge is a submission as its submitter keeps it: what was sent, and the promise once it has come.
type pledge struct {
	node *node
	data []byte
	got  *client.Submitted
}

// TestKillServer kills the server at random moments while machines join and submit. Whatever was promised must be in the
// log once, with one appraisal and one verdict, and what was not answered may be sent again.
func TestKillServer(t *testing.T) {
	kills := 5
	if os.Getenv("ASSAY_LONG") != "" {
		kills = 30
	}
	world := t.TempDir()
	writeWorld(t, world)
	began := time.Now().UnixNano()
	now := childClock(began)
	amd := mint.NewAMD(sevsnp.Milan)
	var pledges []*pledge
	for round := 0; round <= kills; round++ {
		c := startChild(t, world, "", began)
		admin, err := os.ReadFile(filepath.Join(world, "admin"))
		must(t, err)
		last := round == kills
		var pause [2]byte
		_, err = rand.Read(pause[:])
		must(t, err)
		kill := time.AfterFunc(time.Duration(5+binary.BigEndian.Uint16(pause[:])%200)*time.Millisecond, func() {
			if !last {
				c.cmd.Process.Kill()
			}
		})
		resubmit(t, c, pledges, last)
		tsm := machine(amd, fmt.Sprint("chip ", round))
		if n, err := joinAt(t.Context(), c.url, string(admin), tsm, now()); err == nil {
			for i := 0; i < 500 && (!last || i < 5); i++ {
				p := pledgeOne(t.Context(), c, n)
				if p == nil {
					break
				}
				pledges = append(pledges, p)
				if p.got == nil {
					break
				}
			}
		} else if last {
			t.Fatal(err)
		}
		if !last {
			err := c.cmd.Wait()
			if kill.Stop() || c.cmd.ProcessState.Success() {
				t.Fatalf("the child ended by itself: %v", err)
			}
			continue
		}
		kill.Stop()
		must(t, c.cmd.Process.Signal(syscall.SIGTERM))
		must(t, c.cmd.Wait())
	}
	checkPledges(t, world, "", began, pledges)
}

// resubmit sends everything again: what was promised gets the promise that it had, what was not gets one or is refused
// because its challenge went with the crash of the request.
func resubmit(t *testing.T, c *child, pledges []*pledge, last bool) {
	for _, p := range pledges {
		if p.got != nil && !last {
			continue
		}
		member, err := client.New(client.Config{URL: c.url, Credential: p.node.credential})
		must(t, err)
		s, err := member.Submit(t.Context(), p.data)
		if err != nil {
			if client.AsProblem(err) != nil || last {
				t.Fatalf("sent again: %v", err)
			}
			return // killed
		}
		if p.got != nil && !sameJSON(t, *p.got, s) {
			t.Errorf("evidence %s: another promise", s.Evidence)
		}
		p.got = &s
	}
}

// pledgeOne asks for a challenge and answers it. It returns nil where no evidence was made, and no promise where none
// came.
func pledgeOne(ctx context.Context, c *child, n *node) *pledge {
	member, err := client.New(client.Config{URL: c.url, Credential: n.credential})
	if err != nil {
		return nil
	}
	ch, err := member.Challenge(ctx, nil)
	if err != nil {
		return nil
	}
	data, err := n.bundle(ch)
	if err != nil {
		return nil
	}
	p := &pledge{node: n, data: data}
	if s, err := member.Submit(ctx, data); err == nil {
		p.got = &s
	}
	return p
}

// checkPledges reads the logs as they are at the end: each pledge stands there once, with one appraisal and one verdict, those
// of one node in the order in which they were made; nothing else does; and an auditor finds them whole. The database is
// named as in settings.
func checkPledges(t *testing.T, world, database string, began int64, pledges []*pledge) {
	t.Helper()
	s, err := server.New(t.Context(), childSettings(world, database), server.Deps{Now: childClock(began), Random: rand.Reader, Log: quiet()})
	must(t, err)
	defer s.Close()
	must(t, s.Advance(t.Context()))
	if database == "" {
		database = "sqlite:" + filepath.Join(world, "data", "assay.db")
	}
	store, err := server.OpenStore(t.Context(), database, rand.Reader)
	must(t, err)
	defer store.Close()
	count := map[string]map[canon.Digest]int{ledger.KindEvidence: {}, ledger.KindAppraisal: {}, ledger.KindVerdict: {}}
	evidenceOf := map[canon.Digest]canon.Digest{} // by appraisal
	place := map[canon.Digest]int64{}             // of evidence, over all logs
	for from := int64(0); ; {
		page, err := store.Entries(t.Context(), from, server.MaxPage)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			switch e.Kind {
			case ledger.KindEvidence:
				count[e.Kind][e.Body]++
				place[e.Body] = e.Place
			case ledger.KindAppraisal:
				count[e.Kind][e.Refs[0]]++
				evidenceOf[e.Body] = e.Refs[0]
			case ledger.KindVerdict:
				count[e.Kind][evidenceOf[e.Refs[0]]]++
			}
		}
		from += int64(len(page))
	}
	var submitted []client.Submitted
	last := map[*node]int64{}
	for _, p := range pledges {
		if p.got == nil {
			t.Fatal("evidence without a promise at the end")
		}
		submitted = append(submitted, *p.got)
		if at := place[p.got.Evidence]; at <= last[p.node] {
			t.Errorf("evidence %s: entry %d, the node's evidence before it is entry %d", p.got.Evidence, at, last[p.node])
		} else {
			last[p.node] = at
		}
		for kind, n := range count {
			if n[p.got.Evidence] != 1 {
				t.Errorf("evidence %s: %d entries %s, want 1", p.got.Evidence, n[p.got.Evidence], kind)
			}
		}
	}
	if len(count[ledger.KindEvidence]) != len(pledges) {
		t.Errorf("%d pieces of evidence in the log, %d were promised", len(count[ledger.KindEvidence]), len(pledges))
	}
	t.Logf("%d promises kept", len(pledges))
	checkChain(t, store)
	replayed(t, store, submitted...)
}
