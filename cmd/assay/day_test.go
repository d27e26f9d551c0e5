package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier/collateral/fake"
)

// dayBegin is when the days of these scripts begin.
var dayBegin = time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)

// market is a verifier whose clock a script moves, and hosts that prove themselves to it.
type market struct {
	mu     sync.Mutex
	now    time.Time
	amd    *mint.AMD
	server *server.Server
	http   *httptest.Server
	hosts  map[string]*marketHost
}

type marketHost struct {
	node, credential string
	session          *agent.Session
}

func (m *market) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *market) pass(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

var (
	dayAgent = canon.Sum([]byte("the agent in the guest"))
	dayGuest = [48]byte(bytes.Repeat([]byte{0xa5}, 48))
)

// openMarket starts a verifier in a folder, with a policy that asks for a tier, and for some days a revocation list.
func openMarket(env *testscript.Env, days int) error {
	m := &market{now: dayBegin, amd: mint.NewAMD(sevsnp.Milan), hosts: map[string]*marketHost{}}
	dir := filepath.Join(env.WorkDir, "verifier")
	references, err := canon.Marshal(attest.References{
		Type: attest.ReferencesType, Name: "guests", Source: "made for a test",
		Values: []attest.Reference{{Format: sevsnp.Format, Guest: "guest", Measurement: dayGuest[:], Agent: dayAgent}},
	})
	if err != nil {
		return err
	}
	all := map[string][]byte{"guests.json": references, "collateral/milan.crl": m.amd.CRL(dayBegin.AddDate(0, 0, -7), dayBegin.AddDate(0, 0, days))}
	for _, f := range m.amd.Roots() {
		all["roots/"+f.Name] = f.Data
	}
	for _, name := range []string{"lei.example", "tuv.example"} {
		key := dayKey(name)
		private, err1 := x509.MarshalPKCS8PrivateKey(key)
		public, err2 := x509.MarshalPKIXPublicKey(key.Public())
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%v %v", err1, err2)
		}
		all["../"+name+".pem"] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
		all["../"+name+".pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	}
	for name, data := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	m.server, err = server.New(context.Background(), server.Settings{
		Data: filepath.Join(dir, "data"), Origin: "https://assay.test", Roots: filepath.Join(dir, "roots"), References: []string{filepath.Join(dir, "guests.json")},
		Collateral: filepath.Join(dir, "collateral"), Policy: filepath.Join(env.WorkDir, "renter.yaml"),
	}, server.Deps{Now: m.clock, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	m.http = httptest.NewServer(m.server.Handler())
	env.Defer(func() {
		m.http.Close()
		if err := m.server.Close(); err != nil {
			env.T().Log(err)
		}
	})
	env.Values["market"] = m
	env.Setenv("URL", m.http.URL)
	vendors := fake.New(time.Now) // commands have the machine's clock
	vendors.AddDevice(mint.NewNVIDIA().Device("GH100", "one"))
	published := httptest.NewServer(vendors)
	env.Defer(published.Close)
	env.Setenv("VENDORS", published.URL)
	for i := range 4 {
		chip := m.amd.Chip(fmt.Sprint("chip-", i+1))
		env.Setenv(fmt.Sprint("CHIP_", i+1), hex.EncodeToString(chip[:]))
	}
	return os.WriteFile(filepath.Join(env.WorkDir, "token"), []byte(m.server.NewAdminToken()+"\n"), 0o600)
}

func dayKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// dayCommands are what the scripts of days can do beside commands.
var dayCommands = map[string]func(*testscript.TestScript, bool, []string){
	"subst": subst,
	// prove NAME CHIP [TCB]: the host of a name, which joins the first time, proves itself. $NAME is its node.
	"prove": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		snp := 24
		if len(args) == 3 {
			n, err := strconv.Atoi(args[2])
			ts.Check(err)
			snp = n
		}
		outcome, err := m.prove(args[0], args[1], snp)
		ts.Check(err)
		ts.Setenv(strings.ToUpper(args[0]), m.hosts[args[0]].node)
		fmt.Fprintf(ts.Stdout(), "%s\n", outcome)
	},
	// join NAME FILE: the host of a name joins with the token in a file. $NAME is its node.
	"join": func(ts *testscript.TestScript, neg bool, args []string) {
		m := ts.Value("market").(*market)
		err := m.join(args[0], ts.ReadFile(args[1]))
		if neg {
			if err == nil {
				ts.Fatalf("%s joined", args[0])
			}
			fmt.Fprintln(ts.Stderr(), err)
			return
		}
		ts.Check(err)
		ts.Setenv(strings.ToUpper(args[0]), m.hosts[args[0]].node)
	},
	// grant FILE ROLE TENANT: a token of that role for ninety days goes into a file.
	"grant": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		admin, err := client.New(client.Config{URL: m.http.URL, Credential: strings.TrimSpace(ts.ReadFile("token"))})
		ts.Check(err)
		t, err := admin.CreateToken(context.Background(), client.TokenRequest{Grant: client.Grant{Role: args[1], Tenant: args[2]}, Expires: canon.At(m.clock().AddDate(0, 0, 90))})
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(t.Token+"\n"), 0o600))
	},
	// minutes N: so many minutes pass.
	"minutes": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		m.pass(time.Duration(n) * time.Minute)
		ts.Check(m.server.Advance(context.Background()))
	},
	// days N NAME CHIP [TCB]: N days pass; each day the host proves itself.
	"days": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		snp := 24
		if len(args) == 4 {
			snp, err = strconv.Atoi(args[3])
			ts.Check(err)
		}
		for range n {
			m.pass(ledger.HeadsWithin * time.Second)
			ts.Check(m.server.Advance(context.Background()))
			m.pass(24*time.Hour - ledger.HeadsWithin*time.Second)
			if len(args) == 1 {
				ts.Check(m.server.Advance(context.Background()))
				continue
			}
			_, err := m.prove(args[1], args[2], snp)
			ts.Check(err)
		}
	},
	// say ISSUER KIND ID ATTRIBUTE VALUE: an issuer says something for a year.
	"say": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		ts.Check(m.say(ts.ReadFile("token"), args))
	},
	// capture NAME: the first word of the last output goes into a variable.
	"capture": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv(args[0], strings.Fields(ts.ReadFile("stdout"))[0])
	},
	// officer NAME [ROLE TENANT]: somebody else of the house, or of a tenant, has a context NAME, whose principal is $NAME in capitals.
	"officer": func(ts *testscript.TestScript, _ bool, args []string) {
		m, name := ts.Value("market").(*market), args[0]
		admin, err := client.New(client.Config{URL: m.http.URL, Credential: strings.TrimSpace(ts.ReadFile("token"))})
		ts.Check(err)
		grant := client.Grant{Role: client.RoleAdmin}
		if len(args) == 3 {
			grant = client.Grant{Role: args[1], Tenant: args[2]}
		}
		made, err := admin.CreateToken(context.Background(), client.TokenRequest{Grant: grant, Expires: canon.At(m.clock().AddDate(0, 11, 0))})
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name+".token"), []byte(made.Token), 0o600))
		ts.Check(ts.Exec("sh", "-c", "assay login $URL --name "+name+" < "+name+".token && assay context use "+strings.TrimPrefix(m.http.URL, "http://")))
		ts.Setenv(strings.ToUpper(name), made.Record.Principal)
	},
	// export: the log goes into log.tar, and who trusts it into trust.yaml.
	"export": func(ts *testscript.TestScript, _ bool, args []string) {
		m := ts.Value("market").(*market)
		ts.Check(m.server.Advance(context.Background()))
		var file bytes.Buffer
		ts.Check(audit.Export(context.Background(), m.server.Source(), &file))
		ts.Check(os.WriteFile(ts.MkAbs("log.tar"), file.Bytes(), 0o600))
		trust, err := canon.Marshal(audit.Trust{Type: audit.TrustType, Keyset: m.server.Keyset()})
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("trust.yaml"), trust, 0o600))
	},
}

func (m *market) say(token string, args []string) error {
	var kind vetting.Unit
	if err := kind.UnmarshalText([]byte(args[1])); err != nil {
		return err
	}
	now := canon.At(m.clock())
	c := vetting.Claim{Type: vetting.ClaimType, Issuer: args[0], Subject: vetting.Subject{Kind: kind, ID: args[2]}, Attribute: args[3], Value: args[4], Issued: now, Expires: now + 365*24*3600}
	env, err := c.Seal(daySigner{dayKey(args[0])})
	if err != nil {
		return err
	}
	operator, err := client.New(client.Config{URL: m.http.URL, Credential: strings.TrimSpace(token)})
	if err != nil {
		return err
	}
	if _, err = operator.SendClaim(context.Background(), env); err != nil {
		return err
	}
	return m.server.Advance(context.Background())
}

type daySigner struct{ ed25519.PrivateKey }

func (k daySigner) Sign(message []byte) ([]byte, error) {
	return ed25519.Sign(k.PrivateKey, message), nil
}

// join lets the host of a name in.
func (m *market) join(name, text string) error {
	token, err := client.ParseToken(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	nobody, err := client.New(client.Config{URL: m.http.URL})
	if err != nil {
		return err
	}
	joined, err := nobody.Join(context.Background(), token)
	if err != nil {
		return err
	}
	m.hosts[name] = &marketHost{node: joined.Node, credential: joined.Credential}
	return nil
}

// prove takes one round from challenge to verdict and returns the outcome.
func (m *market) prove(name, chip string, snp int) (string, error) {
	ctx := context.Background()
	if m.hosts[name] == nil {
		operator, err := client.New(client.Config{URL: m.http.URL, Credential: m.server.NewAdminToken()})
		if err != nil {
			return "", err
		}
		issued, err := operator.NewJoinToken(ctx, "")
		if err != nil {
			return "", err
		}
		if err := m.join(name, issued.Token); err != nil {
			return "", err
		}
	}
	h := m.hosts[name]
	var err error
	if h.session, err = agent.NewSession(rand.Reader, "boot-1", m.clock()); err != nil {
		return "", err
	}
	c, err := client.New(client.Config{URL: m.http.URL, Credential: h.credential})
	if err != nil {
		return "", err
	}
	ch, err := c.Challenge(ctx, nil)
	if err != nil {
		return "", err
	}
	p := m.amd.Platform(m.amd.Chip(chip), sevsnp.TCB{Bootloader: 4, SNP: uint8(snp), Microcode: 219}, dayGuest, sevsnp.PolicyReservedOne|sevsnp.PolicySMT)
	b, err := agent.Collect([]agent.Device{device.NewTSM(faketsm.New(p).Client())}, h.session.Keys(), ch.Challenge.Digest(), attest.Statement{
		Type: attest.StatementType, Agent: dayAgent, BootID: "boot-1", Checkpoint: ch.Checkpoint,
	})
	if err != nil {
		return "", err
	}
	env, err := attest.SealBundle(b, h.session)
	if err != nil {
		return "", err
	}
	data, err := canon.Marshal(env)
	if err != nil {
		return "", err
	}
	s, err := c.Submit(ctx, data)
	if err != nil {
		return "", err
	}
	if err := m.server.Advance(ctx); err != nil {
		return "", err
	}
	r, err := c.Result(ctx, s.Evidence)
	if err != nil {
		return "", err
	}
	d, err := r.Decision(s.Evidence, m.server.Keyset())
	return d.Outcome, err
}

// TestDays plays days of people's lives with the verifier.
func TestDays(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/days", Cmds: dayCommands,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			return openMarket(env, 365)
		},
	})
}
