package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
)

// rowsCommands are what the scripts of rows can do beside commands and those of days.
func rowsCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){
		// code N COMMAND...: the command ends with exit code N.
		"code": func(ts *testscript.TestScript, _ bool, args []string) {
			want, err := strconv.Atoi(args[0])
			ts.Check(err)
			got := 0
			if err := ts.Exec(args[1], args[2:]...); err != nil {
				var exit *exec.ExitError
				if !errors.As(err, &exit) {
					ts.Fatalf("%v", err)
				}
				got = exit.ExitCode()
			}
			if got != want {
				ts.Fatalf("exit code %d, want %d", got, want)
			}
		},
		// login: at the verifier, as its admin.
		"login": func(ts *testscript.TestScript, _ bool, _ []string) {
			ts.Check(ts.Exec("sh", "-c", "assay login $URL < token"))
		},
		// certify NAME CHIP: a host of p1 at fra1 is certified as attested, on ten things that p1 says of itself and two issuers say
		// after it. $NAME is its node, $CERT the certificate.
		"certify": func(ts *testscript.TestScript, _ bool, args []string) {
			m := ts.Value("market").(*market)
			run := func(line string) { ts.Check(ts.Exec("assay", strings.Fields(line)...)) }
			_, err := m.prove(args[0], args[1], 24)
			ts.Check(err)
			host := m.hosts[args[0]].node
			ts.Setenv(strings.ToUpper(args[0]), host)
			run("issuers register lei.example --key lei.example.pub --attributes party.domain,party.identity,party.jurisdiction,party.legal-entity --until 2028-01-01T00:00:00Z")
			run("issuers register tuv.example --key tuv.example.pub --attributes party.facility,party.facility-audit,party.jurisdiction --until 2028-01-01T00:00:00Z")
			audit, assertions := strings.Repeat("3a7b", 16), "assertions:\n"
			for _, said := range []string{
				"lei.example provider p1 party.identity legal-entity", "lei.example provider p1 party.legal-entity LEI:529900T8BM49AURSDO55", "lei.example provider p1 party.domain p1.example",
				"lei.example provider p1 party.jurisdiction DE", "tuv.example site fra1 party.facility audited", "tuv.example site fra1 party.jurisdiction DE",
				"tuv.example site fra1 party.facility-audit " + audit, "tuv.example host " + host + " party.facility bound", "tuv.example host " + host + " party.jurisdiction DE",
				"tuv.example host " + host + " party.facility-audit " + audit,
			} {
				words := strings.Fields(said)
				ts.Check(m.say(ts.ReadFile("token"), words))
				assertions += fmt.Sprintf("- {subject: {kind: %s, id: %s}, attribute: %s, value: %q}\n", words[1], words[2], words[3], words[4])
			}
			ts.Check(os.WriteFile(ts.MkAbs("assertions.yaml"), []byte(assertions), 0o644))
			dayCommands["days"](ts, false, []string{"31", args[0], args[1]})
			for _, name := range []string{"olga", "rita"} {
				if ts.Getenv(strings.ToUpper(name)) == "" {
					dayCommands["officer"](ts, false, []string{name})
				}
			}
			run("providers set p1 --stake --contact-hours 4")
			run("certify request --provider p1 --site fra1 --host " + host + " --tier attested --assertions assertions.yaml --context olga")
			dayCommands["capture"](ts, false, []string{"CERT"})
			run("certify review " + ts.Getenv("CERT") + " --assign " + ts.Getenv("RITA"))
			run("certify review " + ts.Getenv("CERT") + " --pass --context rita")
		},
	}
	for name, f := range dayCommands {
		all[name] = f
	}
	return all
}

// writeTwins writes reports that differ in nothing but identity and signature, one of a guest that can be debugged, and one
// whose signature is bad.
func writeTwins(dir string) error {
	a := mint.NewAMD(sevsnp.Milan)
	files := map[string][]byte{}
	for name, of := range map[string]struct {
		chip string
		more sevsnp.Policy
	}{"twin-1.bin": {chip: "host-1"}, "twin-2.bin": {chip: "host-2"}, "debugged.bin": {"host-1", sevsnp.PolicyDebug}} {
		p := a.Platform(a.Chip(of.chip), soundTCB, [48]byte{1}, sevsnp.PolicyReservedOne|sevsnp.PolicySMT|of.more)
		report, table, err := p.Report([64]byte{}, 0)
		if err != nil {
			return err
		}
		files[name] = append(report, table...)
	}
	forged, err := os.ReadFile(filepath.Join(dir, "report.bin"))
	if err != nil {
		return err
	}
	forged[0x2a0]++ // of the signature's R
	files["forged.bin"] = forged
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TestRows plays rows of known-bugs.md and acceptance checks of the users' study, as a user sees them: each is a subtest of its
// name.
func TestRows(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/rows", Cmds: rowsCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			gpu, err := gpuAnswer()
			if err != nil {
				return err
			}
			renter := "type: assay/policy/v1\nname: renter\nrequire:\n- {claim: sevsnp.signature, of: cpu}\n- {claim: party.tier, of: party, in: [attested, attested-facility]}\n"
			for name, data := range map[string][]byte{"gpu.json": gpu, "renter.yaml": []byte(renter)} {
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), data, 0o644); err != nil {
					return err
				}
			}
			return errors.Join(writeMinted(env.WorkDir), writeTwins(env.WorkDir), writeFleet(filepath.Join(env.WorkDir, "fleet.csv")), openMarket(env, 40))
		},
	})
}
