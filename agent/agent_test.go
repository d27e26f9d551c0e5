package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

// machine is a platform whose reports hold what was asked where a real report has it (SEV-SNP firmware ABI: 050h).
type machine struct{}

func (machine) Report(reportData [64]byte, vmpl int) ([]byte, []byte, error) {
	out := make([]byte, 1184)
	copy(out[0x50:], reportData[:])
	return out, []byte("certificate table"), nil
}

// world is an agent, its server and the time of both.
type world struct {
	t      *testing.T
	mu     sync.Mutex // guards now: an aborted request may still read it
	now    time.Time
	waits  []time.Duration // all that the agent waited
	onWait func()          // what happens meanwhile
	still  bool            // no wait of more than a poll ends
	boot   string
	dir    string
	tsm    *faketsm.Provider
	tpm    *fakeTPM  // nil: the machine has none
	gpus   *fakeGPUs // nil: the machine has none
	server *fakeserver.Server
	agent  *agent.Agent
	log    bytes.Buffer

	witnesses string // policy that the operator chose
}

func start(t *testing.T) *world { return startWith(t, func(*world) {}) }

func startWith(t *testing.T, change func(*world)) *world {
	w := &world{t: t, now: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), boot: "boot-1", dir: t.TempDir(), tsm: faketsm.New(machine{})}
	w.server = fakeserver.Start(t, w.clock)
	change(w)
	w.join()
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// join joins anew if the state folder is empty, and starts the agent from what the folder holds: a restart.
func (w *world) join() {
	w.t.Helper()
	ctx := context.Background()
	store := agent.OpenStore(w.dir)
	must(w.t, store.Prepare())
	node, err := store.Node()
	if err != nil {
		c, err := client.New(client.Config{URL: w.server.URL})
		must(w.t, err)
		node, err = agent.Join(ctx, c, w.server.Token, w.witnesses)
		must(w.t, err)
		must(w.t, store.SaveNode(node))
	}
	c, err := client.New(client.Config{URL: w.server.URL, Credential: node.Credential})
	must(w.t, err)
	devices := []agent.Device{device.NewTSM(w.tsm.Client())}
	if w.tpm != nil {
		devices = append(devices, w.tpm)
	}
	var gpus agent.GPUs
	if w.gpus != nil {
		gpus = w.gpus
	}
	w.agent, err = agent.New(agent.Config{
		Node: node, Store: store, Server: c, Devices: devices, GPUs: gpus,
		Executable: canon.Sum([]byte("the agent")), BootID: func() (string, error) { return w.boot, nil },
		Random: rand.NewChaCha8([32]byte{byte(len(w.server.Bundles))}), Now: w.clock,
		After: func(d time.Duration) <-chan time.Time {
			w.waits = append(w.waits, d)
			w.advance(d)
			if w.onWait != nil {
				w.onWait()
			}
			c := make(chan time.Time, 1)
			if !w.still || d <= agent.MinPoll {
				c <- w.clock()
			}
			return c
		},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	must(w.t, err)
}

func (w *world) round() error { return w.agent.Round(context.Background()) }

func (w *world) mustRound() {
	w.t.Helper()
	must(w.t, w.round())
}

// keys returns the session keys of the newest bundle.
func (w *world) keys() canon.Digest {
	w.t.Helper()
	if len(w.server.Bundles) == 0 {
		w.t.Fatal("nothing was submitted")
	}
	return w.server.Bundles[len(w.server.Bundles)-1].Keys.Digest()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRound(t *testing.T) {
	w := start(t)
	w.mustRound()
	b := w.server.Bundles[0]
	var said attest.Statement
	for _, c := range b.Components {
		if data, ok := c.Part(attest.PartStatement); ok {
			var err error
			said, err = attest.ParseStatement(data)
			must(t, err)
		}
	}
	if said.Agent != canon.Sum([]byte("the agent")) || said.BootID != "boot-1" || !strings.HasPrefix(said.Checkpoint, "assay.test/log\n") {
		t.Errorf("statement %+v", said)
	}
	last := b.Components[len(b.Components)-1]
	want := attest.ReportData(b.Challenge, b.Keys.Digest(), b.Covered())
	if out, _ := last.Part("report"); b.Seal != last.Label || !bytes.Equal(out[0x50:0x90], want[:]) {
		t.Error("the seal does not cover challenge, keys and statement")
	}
	s := w.agent.Status()
	if s.Decision.Outcome != client.Accept || s.Keys != b.Keys.Digest() || s.Fault != "" || s.Evidence.IsZero() {
		t.Errorf("status %+v", s)
	}
	if kept, err := os.ReadFile(filepath.Join(w.dir, "checkpoint")); err != nil || string(kept) != said.Checkpoint {
		t.Errorf("checkpoint kept: %q, %v", kept, err)
	}
	for _, name := range []string{"node.json", "checkpoint"} {
		if fi, err := os.Stat(filepath.Join(w.dir, name)); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", name, fi, err)
		}
	}
}

// Each row alters one thing that the server says. Without it, TestRound passes.
func TestRefused(t *testing.T) {
	other := canon.Sum([]byte("other"))
	for _, tc := range []struct {
		name      string
		alter     func(any)
		want      string
		submitted bool // that something was made for it and handed in
	}{
		{name: "wrong origin", want: "made for origin", alter: challenged(func(c *client.Challenged) { c.Challenge.Origin = "https://other.example" })},
		{name: "foreign result key", want: "made for the result key", alter: challenged(func(c *client.Challenged) { c.Challenge.ResultKey = other[:] })},
		{name: "other node", want: `for node "node-2"`, alter: challenged(func(c *client.Challenged) { c.Challenge.Node = "node-2" })},
		{name: "short nonce", want: "nonce of 31 bytes", alter: challenged(func(c *client.Challenged) { c.Challenge.Nonce = c.Challenge.Nonce[1:] })},
		{name: "unknown type", want: "not known to this build", alter: challenged(func(c *client.Challenged) { c.Challenge.Type = "assay/challenge/v2" })},
		{name: "expired", want: "expired at", alter: challenged(func(c *client.Challenged) { c.Challenge.Expires = c.Challenge.Issued })},
		{name: "other checkpoint", want: "another checkpoint", alter: challenged(func(c *client.Challenged) { c.Challenge.Checkpoint = other })},
		{name: "no checkpoint note", want: "did not come with it", alter: challenged(func(c *client.Challenged) { c.Checkpoint = "" })},
		{name: "unsigned checkpoint", want: "checkpoint of", alter: challenged(func(c *client.Challenged) {
			c.Checkpoint = strings.Replace(c.Checkpoint, "\n1\n", "\n9\n", 1)
			c.Challenge.Checkpoint = canon.Sum([]byte(c.Checkpoint))
		})},
		{name: "foreign promise", want: "not signed by a promise key", submitted: true, alter: func(v any) {
			if s, ok := v.(*client.Submitted); ok {
				s.Promise.Signatures[0].Sig[0] ^= 1
			}
		}},
		{name: "other evidence taken", want: "the server took evidence", submitted: true, alter: func(v any) {
			if s, ok := v.(*client.Submitted); ok {
				s.Evidence = other
			}
		}},
		{name: "foreign verdict", want: "not signed by a result key", submitted: true, alter: decided(func(r *client.Result) {
			r.Result.Signatures[0].Sig[0] ^= 1
		})},
		{name: "verdict without the promised entry", want: "does not open the promised entry", submitted: true, alter: decided(func(r *client.Result) {
			r.Entries = r.Entries[1:]
		})},
		{name: "unknown state", want: "state \"maybe\" is not known", submitted: true, alter: decided(func(r *client.Result) { r.State = "maybe" })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			w.server.Alter = tc.alter
			err := w.round()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if got := len(w.server.Bundles) > 0; got != tc.submitted {
				t.Errorf("submitted: %v, want %v", got, tc.submitted)
			}
			if s := w.agent.Status(); !strings.Contains(s.Fault, tc.want) || s.Decision.Outcome != "" {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestKeysRenewed: a node follows its verifier to new keys, each use in its turn, and keeps them.
func TestKeysRenewed(t *testing.T) {
	w := start(t)
	must(t, w.round())
	for _, use := range []string{ledger.UseResult, ledger.UsePromise, ledger.UseLog} {
		w.server.Renew(use)
		before := w.node()
		must(t, w.round())
		after := w.node()
		if s := w.agent.Status(); s.Decision.Outcome != client.Accept || after.Keyset.Made == 0 || after.Keyset.Previous != digestOf(t, before.Keyset) {
			t.Errorf("after another %s key: status %+v, keyset %+v", use, s, after.Keyset)
		}
	}
	kept := w.node()
	must(t, w.round())
	if digestOf(t, w.node().Keyset) != digestOf(t, kept.Keyset) {
		t.Error("the keyset changed without a reason")
	}
}

// TestKeysForged: keysets that do not lead from the pinned one are not followed, whoever signed what comes with them.
func TestKeysForged(t *testing.T) {
	w := start(t)
	must(t, w.round())
	before := w.node()
	forger := fakeserver.Start(t, w.clock)
	forger.Change(func() { forger.Seed = "of a forger" })
	for _, use := range []string{ledger.UseLog, ledger.UseResult} { // now it has neither key of the honest one
		forger.Renew(use)
	}
	c, err := client.New(client.Config{URL: forger.URL})
	must(t, err)
	keys, err := c.Keys(t.Context())
	must(t, err)
	result := keys.Current().Standing(ledger.UseResult, keys.Current().Made)[0].SPKI
	honest := challenged(func(c *client.Challenged) { c.Challenge.ResultKey = result })
	w.server.Alter = func(v any) {
		honest(v)
		if k, ok := v.(*client.Keysets); ok { // the honest first keyset is missing
			k.Keysets = k.Keysets[:0]
		}
	}
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "no keyset") {
		t.Errorf("without keysets: %v", err)
	}
	w.server.Alter = func(v any) {
		honest(v)
		if k, ok := v.(*client.Keysets); ok {
			signatures := slices.Clone(k.Keysets[0].Signatures)
			signatures[0].Sig = slices.Clone(signatures[0].Sig)
			signatures[0].Sig[0] ^= 1
			k.Keysets[0].Signatures = signatures
		}
	}
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "did not sign it") {
		t.Errorf("with a bit flipped: %v", err)
	}
	w.server.Alter = honest
	if err := w.round(); err == nil || !strings.Contains(err.Error(), "no such key of this log") || !strings.Contains(err.Error(), "are those that this node pinned") {
		t.Errorf("a key that no keyset has: %v", err)
	}
	if digestOf(t, w.node().Keyset) != digestOf(t, before.Keyset) {
		t.Error("the pinned keyset changed")
	}
	other := before
	other.Keyset = keys.Current()
	if _, err := other.Follow(mustKeys(t, w)); err == nil || !strings.Contains(err.Error(), "do not follow from those that this node pinned") {
		t.Errorf("a node of another verifier: %v", err)
	}
}

// node returns what the agent keeps of itself.
func (w *world) node() agent.Node {
	w.t.Helper()
	n, err := agent.OpenStore(w.dir).Node()
	must(w.t, err)
	return n
}

func mustKeys(t *testing.T, w *world) ledger.KeyHistory {
	t.Helper()
	w.server.Alter = nil
	c, err := client.New(client.Config{URL: w.server.URL})
	must(t, err)
	keys, err := c.Keys(t.Context())
	must(t, err)
	return keys
}

func digestOf(t *testing.T, k ledger.Keyset) canon.Digest {
	t.Helper()
	d, err := k.Digest()
	must(t, err)
	return d
}

func challenged(alter func(*client.Challenged)) func(any) {
	return func(v any) {
		if c, ok := v.(*client.Challenged); ok {
			alter(c)
		}
	}
}

func decided(alter func(*client.Result)) func(any) {
	return func(v any) {
		if r, ok := v.(*client.Result); ok && r.Result != nil {
			alter(r)
		}
	}
}

func TestCheckpointHistory(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*world)
		want   string
		fork   bool
	}{
		{name: "grown", change: func(*world) {}},
		{name: "grown past a tile", change: func(w *world) {
			for range 130 { // two entries each: over the width of a tile
				c, err := client.New(client.Config{URL: w.server.URL, Credential: "node-credential"})
				must(w.t, err)
				_, err = c.Challenge(context.Background(), nil)
				must(w.t, err)
				_, err = c.Challenge(context.Background(), nil)
				must(w.t, err)
			}
		}},
		{name: "forked", change: func(w *world) { w.server.Fork() }, want: "does not continue", fork: true},
		{name: "shrunk", change: func(w *world) {
			old, err := os.ReadFile(filepath.Join(w.dir, "first"))
			must(w.t, err)
			w.server.Alter = challenged(func(c *client.Challenged) {
				c.Checkpoint = string(old)
				c.Challenge.Checkpoint = canon.Sum(old)
			})
		}, want: "was seen before"},
		{name: "gone", change: func(w *world) {
			w.server.Alter = challenged(func(c *client.Challenged) { c.Checkpoint, c.Challenge.Checkpoint = "", canon.Digest{} })
		}, want: "none came"},
		{name: "no tiles", change: func(w *world) {
			w.server.Refuse = func(path string) *client.Problem {
				if strings.HasPrefix(path, "/log/tile/") {
					return &client.Problem{Status: 500}
				}
				return nil
			}
		}, want: "no proof that it continues"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			w.mustRound()
			first, err := os.ReadFile(filepath.Join(w.dir, "checkpoint"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(w.dir, "first"), first, 0o600))
			w.mustRound()
			before, _ := os.ReadFile(filepath.Join(w.dir, "checkpoint"))
			tc.change(w)
			err = w.round()
			after, _ := os.ReadFile(filepath.Join(w.dir, "checkpoint"))
			refused, _ := os.ReadFile(filepath.Join(w.dir, "checkpoint.refused"))
			if tc.want == "" {
				must(t, err)
				if bytes.Equal(before, after) {
					t.Error("the newer checkpoint was not kept")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, ledger.ErrFork) != tc.fork {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if !bytes.Equal(before, after) || len(w.server.Bundles) != 2 {
				t.Error("the refused checkpoint was believed")
			}
			if (len(refused) > 0) != tc.fork {
				t.Errorf("kept as proof of a fork: %q", refused)
			}
			if kept, _ := os.ReadFile(filepath.Join(w.dir, "checkpoint.believed")); tc.fork && !bytes.Equal(kept, before) {
				t.Errorf("kept beside it: %q, want what was believed", kept)
			}
		})
	}
}

// A stale challenge is replaced, a lost answer is asked for again, and what cannot be helped is an error.
func TestRecovery(t *testing.T) {
	once := func(path string, p client.Problem) func(string) *client.Problem {
		done := false
		return func(got string) *client.Problem {
			if got != path || done {
				return nil
			}
			done = true
			return &p
		}
	}
	always := func(path string, p client.Problem) func(string) *client.Problem {
		return func(got string) *client.Problem {
			if got != path {
				return nil
			}
			return &p
		}
	}
	for _, tc := range []struct {
		name     string
		refuse   func(string) *client.Problem
		want     string
		sameKeys bool
		minWait  time.Duration
	}{
		{name: "evidence: 503 once", refuse: once("/v1/evidence", client.Problem{Status: 503, RetryAfter: 7 * time.Second}), minWait: 7 * time.Second, sameKeys: true},
		{name: "evidence: 503 always", refuse: always("/v1/evidence", client.Problem{Status: 503}), want: "503"},
		{name: "challenge expired once", refuse: once("/v1/evidence", client.Problem{Status: 410, Code: client.CodeChallengeExpired}), sameKeys: true},
		{name: "challenge used once", refuse: once("/v1/evidence", client.Problem{Status: 409, Code: client.CodeChallengeUsed}), sameKeys: true},
		{name: "challenge used always", refuse: always("/v1/evidence", client.Problem{Status: 409, Code: client.CodeChallengeUsed}), want: "challenge-used"},
		{name: "bundle refused", refuse: once("/v1/evidence", client.Problem{Status: 422, Code: "bundle", Detail: "bad seal"}), want: "bad seal"},
		{name: "result: 503 once", refuse: once("/v1/results/", client.Problem{Status: 503}), sameKeys: true},
		{name: "challenge: 503 once", refuse: once("/v1/challenges", client.Problem{Status: 503}), want: "503"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			w.mustRound()
			old := w.keys()
			w.waits = nil
			w.server.Refuse = func(path string) *client.Problem {
				if strings.HasPrefix(path, "/v1/results/") {
					path = "/v1/results/"
				}
				return tc.refuse(path)
			}
			err := w.round()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				return
			}
			must(t, err)
			if tc.sameKeys && w.keys() != old {
				t.Error("new session keys without need")
			}
			if tc.minWait > 0 && (len(w.waits) == 0 || w.waits[0] < tc.minWait) {
				t.Errorf("waited %v, asked for %v", w.waits, tc.minWait)
			}
		})
	}
}

// The answer to a submission is lost after the server took it: the same bytes find the same promise.
func TestLostAnswer(t *testing.T) {
	w := start(t)
	lost := false
	w.server.Alter = func(v any) {
		if _, ok := v.(*client.Submitted); ok && !lost {
			lost = true
			panic(http.ErrAbortHandler) // the connection breaks
		}
	}
	w.mustRound()
	if len(w.server.Bundles) != 1 {
		t.Errorf("%d submissions were taken, want one", len(w.server.Bundles))
	}
}

func TestKeysEnd(t *testing.T) {
	for _, tc := range []struct {
		name    string
		between func(*world) // two rounds that end well
		same    bool
	}{
		{name: "nothing", between: func(*world) {}, same: true},
		{name: "an hour", between: func(w *world) { w.advance(time.Hour) }, same: true},
		{name: "a day", between: func(w *world) { w.advance(24 * time.Hour) }},
		{name: "less than a round before the day is over", between: func(w *world) { w.advance(24*time.Hour - agent.DefaultInterval + time.Second) }},
		{name: "reboot", between: func(w *world) { w.boot = "boot-2" }},
		{name: "restart", between: func(w *world) { w.join() }},
		{name: "undecided", between: func(w *world) { w.server.Outcome = client.Undecided; w.mustRound() }, same: true},
		{name: "reject", between: func(w *world) { w.server.Outcome = client.Reject; w.mustRound() }},
		{name: "evicted", between: func(w *world) {
			w.server.Refuse = func(string) *client.Problem { return &client.Problem{Status: 403, Code: client.CodeEvicted} }
			if err := w.round(); err == nil {
				w.t.Error("an evicted agent did not notice")
			}
			w.server.Refuse = nil
		}},
		{name: "another refusal", between: func(w *world) {
			w.server.Refuse = func(string) *client.Problem { return &client.Problem{Status: 403, Code: "quota"} }
			if err := w.round(); err == nil {
				w.t.Error("a refused agent did not notice")
			}
			w.server.Refuse = nil
		}, same: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			w.mustRound()
			old := w.keys()
			tc.between(w)
			w.server.Outcome = client.Accept
			w.mustRound()
			if (w.keys() == old) != tc.same {
				t.Errorf("keys %s then %s, same: want %v", old.Short(), w.keys().Short(), tc.same)
			}
		})
	}
}

func TestRejectIsExplained(t *testing.T) {
	w := start(t)
	w.server.Outcome = client.Reject
	w.server.Reasons = []client.Reason{{Claim: "sevsnp.debug-off", Subject: "cpu0", Status: "contradicted", Fix: "turn debugging off", Who: "operator"}}
	w.mustRound()
	if s := w.agent.Status(); s.Decision.Outcome != client.Reject || len(s.Decision.Reasons) != 1 || !s.Keys.IsZero() {
		t.Errorf("status %+v", s)
	}
	if log := w.log.String(); !strings.Contains(log, "verdict=reject") || !strings.Contains(log, "sevsnp.debug-off") {
		t.Errorf("log:\n%s", log)
	}
}

func TestRun(t *testing.T) {
	t.Run("re-attests early, never late", func(t *testing.T) {
		w := start(t)
		ctx, cancel := context.WithCancel(context.Background())
		w.onWait = func() {
			if len(w.server.Bundles) == 5 {
				cancel()
			}
		}
		if err := w.agent.Run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		rounds := map[time.Duration]bool{}
		for _, d := range w.waits {
			if d > agent.MinPoll {
				rounds[d] = true
				if d > agent.DefaultInterval || d < agent.DefaultInterval*9/10 {
					t.Errorf("waited %s between rounds", d)
				}
			}
		}
		if len(rounds) < 3 {
			t.Errorf("waits %v are not spread", w.waits)
		}
	})
	t.Run("backs off", func(t *testing.T) {
		w := start(t)
		ctx, cancel := context.WithCancel(context.Background())
		w.server.Refuse = func(string) *client.Problem { return &client.Problem{Status: 503} }
		w.onWait = func() {
			if len(w.waits) == 12 {
				cancel()
			}
		}
		if err := w.agent.Run(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		for i, d := range w.waits {
			top := min(agent.MinBackOff<<i, agent.MaxBackOff)
			if d < top/2 || d > top {
				t.Errorf("wait %d is %s, want %s to %s", i+1, d, top/2, top)
			}
		}
	})
	t.Run("request draws new keys", func(t *testing.T) {
		w := start(t)
		ctx, cancel := context.WithCancel(context.Background())
		w.still = true // nothing but the request ends the wait between rounds
		w.onWait = func() {
			if len(w.server.Bundles) == 2 {
				cancel()
			}
		}
		requests := make(chan struct{}, 1)
		requests <- struct{}{}
		if err := w.agent.Run(ctx, requests); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if b := w.server.Bundles; len(b) != 2 || b[0].Keys.Digest() == b[1].Keys.Digest() {
			t.Errorf("%d rounds, want two with keys of their own", len(b))
		}
	})
	t.Run("revoked credential ends it", func(t *testing.T) {
		w := start(t)
		w.server.Refuse = func(string) *client.Problem { return &client.Problem{Status: 401, Code: client.CodeRevoked} }
		if err := w.agent.Run(context.Background(), nil); !errors.Is(err, agent.ErrRevoked) {
			t.Fatal(err)
		}
	})
}

func TestJoinRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		alter func(any)
		token func(client.Token) client.Token
		want  string
	}{
		{name: "another verifier", want: "this is another verifier", token: func(t client.Token) client.Token { t.Fingerprint[0] ^= 1; return t }},
		{name: "spent token", want: "403: token", token: func(t client.Token) client.Token { t.Secret = "twice"; return t }},
		{name: "other origin", want: "calls itself", alter: func(v any) {
			if j, ok := v.(*client.Joined); ok {
				j.Origin = "https://other.example"
			}
		}},
		{name: "result key not in the keyset", want: "does not hold the result key", token: func(t client.Token) client.Token {
			t.Fingerprint = canon.Sum([]byte("another key"))
			return t
		}, alter: func(v any) {
			if j, ok := v.(*client.Joined); ok {
				j.ResultKey = []byte("another key")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := fakeserver.Start(t, time.Now)
			s.Alter = tc.alter
			token := s.Token
			c, err := client.New(client.Config{URL: s.URL})
			must(t, err)
			if tc.token != nil {
				token = tc.token(token)
				s.Token.Fingerprint = token.Fingerprint // the fake compares the whole text
			}
			if _, err = agent.Join(context.Background(), c, token, ""); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSessionKeysComeFromTheReader(t *testing.T) {
	at := time.Unix(0, 0)
	a, err := agent.NewSession(rand.NewChaCha8([32]byte{1}), "boot", at)
	must(t, err)
	b, err := agent.NewSession(rand.NewChaCha8([32]byte{1}), "boot", at)
	must(t, err)
	c, err := agent.NewSession(rand.NewChaCha8([32]byte{2}), "boot", at)
	must(t, err)
	if a.Keys().Digest() != b.Keys().Digest() || a.Keys().Digest() == c.Keys().Digest() {
		t.Error("session keys are not the reader's")
	}
	if _, err := agent.NewSession(io.LimitReader(rand.NewChaCha8([32]byte{}), 63), "boot", at); err == nil {
		t.Error("a short read made keys")
	}
}
