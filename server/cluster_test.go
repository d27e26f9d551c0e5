package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/sqldb/pgtest"
)

// requestTime bounds one request of the test: a process that is stopped does not answer.
const requestTime = 2 * time.Second

// cluster is three servers on one PostgreSQL server, and what goes wrong with them.
type cluster struct {
	t        *testing.T
	pg       *pgtest.Server
	world    string
	began    int64
	mu       sync.Mutex
	children []*child
}

func (c *cluster) child(n int) *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.children[n%len(c.children)]
}

// restart puts another process in a place, whose clock is ahead by skew.
func (c *cluster) restart(n int, skew time.Duration) {
	next := startChild(c.t, c.world, c.pg.URL(), c.began-int64(skew))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children[n] = next
}

// kill ends a child where it stands.
func (c *cluster) kill(n int) {
	ch := c.child(n)
	must(c.t, ch.cmd.Process.Kill())
	if err := ch.cmd.Wait(); err == nil || ch.cmd.ProcessState.Exited() {
		c.t.Fatalf("child %d ended by itself: %v\n%s", n, err, &ch.said)
	}
}

// holder waits until a child other than the one named says that a role is its turn.
func (c *cluster) holder(role string, not int) int {
	c.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		for n := range c.children {
			if n == not {
				continue
			}
			ctx, cancel := context.WithTimeout(c.t.Context(), requestTime)
			api, err := client.New(client.Config{URL: c.child(n).url})
			must(c.t, err)
			h, err := api.Health(ctx)
			cancel()
			if err == nil && slices.Contains(h.Turns, role) {
				return n
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("nobody took role %s over from %d", role, not)
	return 0
}

// work has one node prove itself again and again, at whichever server, until the context ends. What was not answered is
// sent again, to any server, before the next.
func (c *cluster) work(ctx context.Context, n *node, random *rand.Rand) (pledges []*pledge) {
	try := func(f func(context.Context, *client.Client) error) error {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()
		api, err := client.New(client.Config{URL: c.child(random.IntN(3)).url, Credential: n.credential})
		must(c.t, err)
		return f(one, api)
	}
	for ctx.Err() == nil {
		var ch client.Challenged
		if err := try(func(ctx context.Context, api *client.Client) (err error) {
			ch, err = api.Challenge(ctx, nil)
			return err
		}); err != nil {
			pause(random)
			continue
		}
		data, err := n.bundle(ch)
		must(c.t, err)
		for {
			var got client.Submitted
			err := try(func(ctx context.Context, api *client.Client) (err error) {
				got, err = api.Submit(ctx, data)
				return err
			})
			if err == nil {
				pledges = append(pledges, &pledge{node: n, data: data, got: &got})
				break
			}
			if p := client.AsProblem(err); p != nil && p.Code == client.CodeChallengeExpired {
				break // by a clock that jumped; it was not taken before, or the promise would have come
			}
			pause(random)
		}
	}
	return pledges
}

func pause(random *rand.Rand) { time.Sleep(time.Duration(5+random.IntN(30)) * time.Millisecond) }

// TestCluster: three servers share one PostgreSQL database, while the one that publishes or judges is killed or stopped,
// the database crashes in mid-transaction, clocks jump, and one log is closed after another. What was promised is in the log once, in order, with one
// verdict; whoever lost the answer gets the same promise from another server.
func TestCluster(t *testing.T) {
	rounds := 1
	if os.Getenv("ASSAY_LONG") != "" {
		rounds = 6
	}
	c := &cluster{t: t, pg: pgtest.NewServer(t), world: t.TempDir(), began: time.Now().UnixNano(), children: make([]*child, 3)}
	writeWorld(t, c.world)
	for n := range c.children {
		c.children[n] = launchChild(t, c.world, c.pg.URL(), c.began)
	}
	for _, ch := range c.children {
		ch.wait(t)
	}
	t.Cleanup(func() {
		for n, ch := range c.children {
			if ch.cmd.ProcessState == nil {
				ch.cmd.Process.Kill()
				ch.cmd.Wait()
			}
			if t.Failed() {
				t.Logf("child %d said:\n%s", n, &ch.said)
			}
		}
	})
	admin, err := os.ReadFile(filepath.Join(c.world, "admin"))
	must(t, err)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	var pledges [3][]*pledge
	for n := range pledges {
		joined, err := joinAt(t.Context(), c.child(n).url, string(admin), machine(mint.NewAMD(sevsnp.Milan), string(rune('a'+n))), childClock(c.began)())
		must(t, err)
		workers.Go(func() { pledges[n] = c.work(ctx, joined, rand.New(newSource(byte(n)))) })
	}
	for round := range rounds {
		replace := func(role string, skew time.Duration) {
			n := c.holder(role, -1)
			c.kill(n)
			c.holder(role, n)
			c.restart(n, skew)
		}
		closeAt(t, c.child(0).url, string(admin), fmt.Sprintf("assay.test/%d", 2*round+2))
		replace("publish", 25*time.Second)
		replace("clock", 0) // 25 s behind what the other has written

		n := c.holder("publish", -1)
		must(t, c.child(n).cmd.Process.Signal(syscall.SIGSTOP))
		c.holder("publish", n)
		must(t, c.child(n).cmd.Process.Signal(syscall.SIGCONT)) // and it still has work in hand

		next := fmt.Sprintf("assay.test/%d", 2*round+3)
		operator, err := client.New(client.Config{URL: c.child(1).url, Credential: string(admin)})
		must(t, err)
		must(t, operator.CloseLog(t.Context(), next)) // and whoever is there then does it
		c.pg.Crash(t)
		c.pg.Start(t)
		c.holder("publish", -1)
		waitForLog(t, c.child(0).url, next)

		// A log is closed once all evidence has its verdict, and what a clock far ahead takes has it when that time comes:
		// such a clock is the last thing that goes wrong here.
		skew := 25 * time.Second
		if round == rounds-1 {
			skew = 20 * time.Minute
		}
		replace("clock", skew)
		replace("publish", 0)
	}
	stop()
	workers.Wait()
	for n, ch := range c.children {
		must(t, ch.cmd.Process.Signal(syscall.SIGTERM))
		if err := ch.cmd.Wait(); err != nil {
			t.Errorf("child %d: %v\n%s", n, err, &ch.said)
		}
	}
	all := slices.Concat(pledges[:]...)
	if len(all) < 10*rounds {
		t.Errorf("only %d promises: %v", len(all), errors.New("the servers hardly worked"))
	}
	// What a clock promised that was ahead is due by now. (Further ahead, an auditor would miss hourly heads.)
	checkPledges(t, c.world, c.pg.URL(), c.began-int64(30*time.Minute), all)
}
