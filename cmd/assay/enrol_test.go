package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
)

// chipOf returns the CHIP_ID of a simulated machine, as an inventory has it.
func chipOf(name string) string {
	id := mint.NewAMD(sevsnp.Milan).Chip(name)
	return hex.EncodeToString(id[:])
}

// simulated is a simulated machine that joined.
type simulated struct {
	c       *client.Client
	id      string
	session *agent.Session
	chip    string
}

func joinSimulated(t testing.TB, url, chip, text string) (*simulated, error) {
	token, err := client.ParseToken(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return nil, err
	}
	joined, err := c.Join(t.Context(), token)
	if err != nil {
		return nil, err
	}
	if c, err = client.New(client.Config{URL: url, Credential: joined.Credential}); err != nil {
		return nil, err
	}
	session, err := agent.NewSession(rand.Reader, "boot-1", minted)
	return &simulated{c, joined.Node, session, chip}, err
}

// prove takes one round, and returns the verdict and what the inventory says of the machine.
func (s *simulated) prove(t testing.TB) (string, client.Place, error) {
	ctx := t.Context()
	ch, err := s.c.Challenge(ctx, nil)
	if err != nil {
		return "", client.Place{}, err
	}
	amd := mint.NewAMD(sevsnp.Milan)
	dev := device.NewTSM(faketsm.New(amd.Platform(amd.Chip(s.chip), soundTCB, [48]byte{1}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)).Client())
	b, err := agent.Collect([]agent.Device{dev}, s.session.Keys(), ch.Challenge.Digest(), attest.Statement{Type: attest.StatementType, Agent: canon.Sum([]byte("agent")), BootID: "boot-1", Checkpoint: ch.Checkpoint})
	if err != nil {
		return "", client.Place{}, err
	}
	env, err := attest.SealBundle(b, s.session)
	if err != nil {
		return "", client.Place{}, err
	}
	data, err := canon.Marshal(env)
	if err != nil {
		return "", client.Place{}, err
	}
	sent, err := s.c.Submit(ctx, data)
	if err != nil {
		return "", client.Place{}, err
	}
	keys, err := s.c.Keys(ctx)
	if err != nil {
		return "", client.Place{}, err
	}
	for {
		r, err := s.c.Result(ctx, sent.Evidence)
		if err != nil {
			return "", client.Place{}, err
		}
		if r.State != client.StateDecided {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		d, err := r.Decision(sent.Evidence, keys.Current())
		if err != nil {
			return "", client.Place{}, err
		}
		p, err := s.c.Place(ctx)
		return d.Outcome, p, err
	}
}

func ekOf(i int) []byte {
	d := canon.Sum(fmt.Append(nil, "ek ", i))
	return d[:]
}

// writeFleet writes an inventory of 500 rows, of which 7 are bad: each in another way.
func writeFleet(name string) error {
	var b strings.Builder
	b.WriteString("asset,site,rack,host,ek,chip_id,gpus\n")
	for i := range 500 {
		ek := hex.EncodeToString(ekOf(i))
		asset, site, host, chip, gpus := fmt.Sprintf("A-%04d", i), "fra1", fmt.Sprintf("gpu%d.fra1.example", i), "", fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, "gpu ", i)))[:40]
		switch i {
		case 17:
			host = `"=HYPERLINK(""http://x"",""y"")"`
		case 42:
			ek = "not-a-certificate"
		case 99:
			site = ""
		case 123:
			chip = strings.Repeat("0", 128)
		case 250:
			asset = "A-0249"
		case 333:
			gpus = "GPU-1f2e3d4c-aaaa-bbbb-cccc-0123456789ab"
		case 499:
			ek = hex.EncodeToString(ekOf(0))
		}
		fmt.Fprintf(&b, "%s,%s,B%02d,%s,%s,%s,%s\n", asset, site, i/20, host, ek, chip, gpus)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// cutOff is a proxy before a server, which it cuts a client off from after some requests.
type cutOff struct {
	*httputil.ReverseProxy
	left atomic.Int64
}

func (c *cutOff) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.left.Add(-1) < 0 {
		panic(http.ErrAbortHandler)
	}
	c.ReverseProxy.ServeHTTP(w, r)
}

func TestEnrolScripts(t *testing.T) {
	roots := t.TempDir()
	for _, f := range mint.NewAMD(sevsnp.Milan).Roots() {
		if err := os.WriteFile(filepath.Join(roots, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type state struct {
		url      string
		machines map[string]*simulated
	}
	of := func(ts *testscript.TestScript) *state { return ts.Value("state").(*state) }
	testscript.Run(t, testscript.Params{
		Dir: "testdata/enrol",
		Setup: func(env *testscript.Env) error {
			o := operator{t: t, config: filepath.Join(env.WorkDir, "context.json")}
			s := o.serve("admin token", "--data", filepath.Join(env.WorkDir, "server"), "--roots", roots, "--policy", "genuine")
			env.Defer(func() { s.stop() })
			if _, stderr, code := o.run(s.facts["admin token"]+"\n", "login", s.facts["url"]); code != exitAccept {
				return fmt.Errorf("login: %s", stderr)
			}
			target, err := url.Parse(s.facts["url"])
			if err != nil {
				return err
			}
			limited := &cutOff{ReverseProxy: httputil.NewSingleHostReverseProxy(target)}
			limited.left.Store(3) // the login, and two batches
			proxy := httptest.NewUnstartedServer(limited)
			proxy.Start()
			env.Defer(proxy.Close)
			far := operator{t: t, config: filepath.Join(env.WorkDir, "far.json")}
			if _, stderr, code := far.run(s.facts["admin token"]+"\n", "login", proxy.URL); code != exitAccept {
				return fmt.Errorf("login: %s", stderr)
			}
			env.Setenv("ASSAY_CONFIG", o.config)
			for _, name := range []string{"one", "two", "three", "stranger"} {
				env.Setenv("CHIP_"+strings.ToUpper(name), chipOf(name))
			}
			env.Values["state"] = &state{s.facts["url"], map[string]*simulated{}}
			return writeFleet(filepath.Join(env.WorkDir, "fleet.csv"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// machine NAME CHIP TOKENFILE: a machine with a chip joins and proves itself; NAME alone: once more.
			"machine": func(ts *testscript.TestScript, neg bool, args []string) {
				st := of(ts)
				if len(args) == 3 {
					m, err := joinSimulated(t, st.url, args[1], ts.ReadFile(args[2]))
					if neg {
						if err == nil {
							ts.Fatalf("it joined")
						}
						fmt.Fprintln(ts.Stderr(), err)
						return
					}
					ts.Check(err)
					st.machines[args[0]] = m
					ts.Setenv("NODE_"+strings.ToUpper(args[0]), m.id)
				}
				verdict, place, err := st.machines[args[0]].prove(t)
				ts.Check(err)
				fmt.Fprintln(ts.Stdout(), verdict, place.State, place.Asset, place.Rack)
				for _, f := range place.Findings {
					fmt.Fprintln(ts.Stdout(), f.Problem)
				}
			},
			// entries FILE: writes how many entries the log has.
			"entries": func(ts *testscript.TestScript, _ bool, args []string) {
				c, err := client.New(client.Config{URL: of(ts).url})
				ts.Check(err)
				h, err := c.Health(t.Context())
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Append(nil, h.Size, "\n"), 0o600))
			},
			"subst": subst,
		},
	})
}

// subst FILE...: replaces $NAME in files.
func subst(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(os.Expand(ts.ReadFile(name), ts.Getenv)), 0o600))
	}
}
