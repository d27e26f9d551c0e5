package server_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

// In the child of TestKill these name the database and the round, and a mirror, if there is one.
const (
	crashURL    = "ASSAY_TEST_CRASH_URL"
	crashRound  = "ASSAY_TEST_CRASH_ROUND"
	crashMirror = "ASSAY_TEST_CRASH_MIRROR"
)

// crashChild appends, integrates and publishes until it is killed. It prints each commitment once its transaction is
// committed, as a server would answer a submitter.
func crashChild() int {
	ctx := context.Background()
	round := os.Getenv(crashRound)
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := server.OpenStore(ctx, os.Getenv(crashURL), newSource(round[0]))
	if err != nil {
		return fail(err)
	}
	signer, err := ledger.LogSigner(origin, testKey)
	if err != nil {
		return fail(err)
	}
	log, err := s.Newest(ctx)
	if err != nil {
		return fail(err)
	}
	mirror := func() error { return nil }
	if dir := os.Getenv(crashMirror); dir != "" {
		m, err := server.OpenMirror(dir)
		if err != nil {
			return fail(err)
		}
		mirror = func() error { _, err := m.Update(ctx, nil, s.Source()); return err }
	}
	for i := 0; ; i++ {
		var acknowledged []canon.Digest
		err := s.Tx(ctx, func(tx *server.Tx) error {
			acknowledged = nil
			for j := range 1 + i%50 {
				body := tx.PutBlob(fmt.Appendf(nil, "%s %d %d", round, i, j))
				c, _, err := tx.Append(ctx, server.Draft{Kind: ledger.KindEvidence, Stream: ledger.NodeStream(fmt.Sprint(j % 3)), Time: start, Body: body})
				if err != nil {
					return err
				}
				acknowledged = append(acknowledged, c)
			}
			return nil
		})
		if err != nil {
			return fail(err)
		}
		for _, c := range acknowledged {
			fmt.Println(c)
		}
		if _, err := s.Integrate(ctx, 40); err != nil {
			return fail(err)
		}
		if _, err := log.Publish(ctx, signer, start, nil); err != nil {
			return fail(err)
		}
		if err := mirror(); err != nil {
			return fail(err)
		}
	}
}

// TestKill kills a working process several times, at random moments, and then reads the log as an auditor: nothing that
// was acknowledged is lost, nothing stands twice, no stream has a gap, and the checkpoint is that of the leaves.
func TestKill(t *testing.T) { onBoth(t, killed) }

func killed(t *testing.T, url string) {
	kills := 5
	if os.Getenv("ASSAY_LONG") != "" {
		kills = 30
	}
	openStore(t, url).Close() // so that the child has no migration to do
	random := rand.New(newSource(2))
	acknowledged := map[canon.Digest]bool{}
	for round := range kills {
		killAfter(t, url, round, 1+random.IntN(400), time.Duration(random.IntN(20_000))*time.Microsecond, acknowledged)
	}
	s := openStore(t, url)
	for {
		n, err := s.Integrate(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	signer, _ := logKey(t)
	if _, err := newest(t, s).Publish(t.Context(), signer, start, nil); err != nil {
		t.Fatal(err)
	}
	inLog := checkLog(t, s)
	for c := range acknowledged {
		if _, ok := inLog[c]; !ok {
			t.Errorf("%s was acknowledged and is lost", c.Short())
			continue
		}
		e, err := s.Entry(t.Context(), c)
		if err == nil {
			_, err = s.Blob(t.Context(), e.Body)
		}
		if err != nil {
			t.Errorf("%s: its body: %v", c.Short(), err)
		}
	}
	if len(acknowledged) < kills {
		t.Errorf("only %d acknowledged in %d rounds", len(acknowledged), kills)
	}
	t.Logf("%d kills: %d acknowledged, %d in the log", kills, len(acknowledged), len(inLog))
}

// killAfter starts a child, reads the given number of acknowledgements, waits a little more so that the kill falls into
// any of the three steps, kills it, and reads what it had still said.
func killAfter(t *testing.T, url string, round, lines int, pause time.Duration, acknowledged map[canon.Digest]bool, env ...string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashURL+"="+url, crashRound+"="+string(rune('A'+round)))
	child.Env = append(child.Env, env...)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for n := 0; said.Scan(); n++ {
		c, err := canon.ParseDigest(said.Text())
		if err != nil {
			break // the line that the kill cut
		}
		if acknowledged[c] {
			t.Errorf("%s was acknowledged twice", c.Short())
		}
		acknowledged[c] = true
		if n == lines {
			time.AfterFunc(pause, func() { child.Process.Kill() })
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() == 1 {
		t.Fatalf("the child ended by itself: %v", err)
	}
}
