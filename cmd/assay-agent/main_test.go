package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/faketsm"
	"github.com/assay-network/assay/agent/device/faketsm/tsmfs"
	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/agent/fakeserver"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"assay-agent": main, "assay-agent-still": timedBy(0), "assay-agent-slow": timedBy(5 * time.Second)})
}

// timedBy is the agent on a clock of which each reading is so much later than the one before: what the machine has to do
// meanwhile changes nothing.
func timedBy(step time.Duration) func() {
	return func() {
		at := time.Now()
		os.Exit(execute(context.Background(), os.Args[1:], func() time.Time {
			at = at.Add(step)
			return at
		}, os.Stdout, os.Stderr))
	}
}

// machine is a platform whose reports hold what was asked where a real report has it (SEV-SNP firmware ABI: 050h).
type machine struct{}

func (machine) Report(reportData [64]byte, vmpl int) ([]byte, []byte, error) {
	out := make([]byte, 1184)
	copy(out[0x50:], reportData[:])
	return out, []byte("certificate table"), nil
}

// TestScripts runs the dialogues in testdata. Each has a machine of its own under $TSM, one of another kind under
// $OTHERTSM, a TPM at $TPM with its logs $EVENTLOG and $IMA where swtpm is installed, and a verifier at $URL that takes $TOKEN and gives the verdict that the script is named after, or accept.
func TestScripts(t *testing.T) {
	other := faketsm.New(machine{})
	other.Name = "arm_cca_guest"
	tsm, otherTSM := tsmfs.Mount(t, faketsm.New(machine{})), tsmfs.Mount(t, other)
	var tpm device.TPMConfig
	if swtpm.Missing() == "" {
		tpm = startTPM(t)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(name string) (bool, error) {
			if name != "swtpm" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return tpm.Device != "", nil
		},
		Setup: func(env *testscript.Env) error {
			now := time.Now
			if strings.Contains(filepath.Base(env.WorkDir), "withheld") { // so far behind that every promise is due when it is made
				now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
			}
			s := fakeserver.Start(t, now)
			given, once := make(chan struct{}), sync.Once{}
			s.Change(func() {
				for _, outcome := range []string{client.Reject, client.Undecided} {
					if strings.Contains(filepath.Base(env.WorkDir), outcome) {
						s.Outcome = outcome
					}
				}
				if strings.Contains(filepath.Base(env.WorkDir), "withheld") {
					s.Lose, s.Life = true, 20*time.Minute
				}
				s.Refuse = func(path string) *client.Problem {
					if path == "/v1/activations" { // it cannot make credentials for a real TPM
						return &client.Problem{Status: 403, Code: "activation", Detail: "not this maker"}
					}
					return nil
				}
				s.Alter = func(answer any) {
					if r, ok := answer.(*client.Result); ok && r.Result != nil {
						once.Do(func() { close(given) })
					}
				}
			})
			env.Values["decided"] = given
			env.Values["server"] = s
			foreign := s.Token
			foreign.Fingerprint[0] ^= 1
			env.Setenv("TSM", tsm)
			env.Setenv("OTHERTSM", otherTSM)
			env.Setenv("TPM", tpm.Device)
			env.Setenv("EVENTLOG", tpm.EventLog)
			env.Setenv("IMA", tpm.IMA)
			env.Setenv("URL", s.URL)
			env.Setenv("TOKEN", s.Token.String())
			env.Setenv("FOREIGN", foreign.String())
			return os.WriteFile(filepath.Join(env.WorkDir, "token"), []byte(s.Token.String()+"\n"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"bundle": bundle, "exits": exits, "decided": decided, "keep": keep},
	})
}

// startTPM boots a machine with a TPM, until the test ends.
func startTPM(t *testing.T) device.TPMConfig {
	dir, err := os.MkdirTemp("", "tpm") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m, err := swtpm.New(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Off() })
	if err := m.Boot(t.Context(), []byte("the agent")); err != nil {
		t.Fatal(err)
	}
	return m.TPM()
}

// bundle FILE NONCE: the file is a signed bundle in canonical bytes whose seal covers the nonce, its keys and statement.
func bundle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bundle FILE NONCE")
	}
	env, err := ledger.ParseEnvelope([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	b, signed, err := attest.OpenBundle(env)
	ts.Check(err)
	if !signed || b.Challenge.String() != args[1] {
		ts.Fatalf("signed: %v, challenge %s", signed, b.Challenge)
	}
	want := attest.ReportData(b.Challenge, b.Keys.Digest(), b.Covered())
	out, _ := b.Components[len(b.Components)-1].Part("report")
	if !bytes.Equal(out[0x50:0x90], want[:]) {
		ts.Fatalf("the seal covers other data")
	}
	said, _ := b.Components[0].Part(attest.PartStatement)
	st, err := attest.ParseStatement(said)
	ts.Check(err)
	exe, err := os.ReadFile("/proc/self/exe")
	ts.Check(err)
	if st.Agent != canon.Sum(exe) || st.BootID == "" {
		ts.Fatalf("statement %+v", st)
	}
}

// exits CODE COMMAND...: the command ends with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "exit status " + args[0]
	if args[0] == "0" && err == nil {
		return
	}
	if err == nil || err.Error() != got {
		ts.Fatalf("%v, want %s", err, got)
	}
}

// keep makes the verifier enter what it promises from now on.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value("server").(*fakeserver.Server)
	s.Change(func() { s.Lose = false })
}

// decided waits until a verdict was given.
func decided(ts *testscript.TestScript, neg bool, args []string) {
	select {
	case <-ts.Value("decided").(chan struct{}):
	case <-time.After(time.Minute):
		ts.Fatalf("no verdict was asked for")
	}
}
