package device_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// machine starts a machine with a TPM of its own.
func machine(t *testing.T) *swtpm.Machine {
	if name := swtpm.Missing(); name != "" {
		t.Skip("no TPM in software: " + name + " is not installed")
	}
	dir, err := os.MkdirTemp("", "tpm") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m, err := swtpm.New(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { m.Off() })
	must(t, m.Boot(t.Context(), []byte("the agent")))
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// activate has a key activated as a verifier does, under the machine's own authority.
func activate(t *testing.T, dev device.TPM, roots attest.Roots) attest.Activation {
	t.Helper()
	e, err := dev.Endorsement()
	must(t, err)
	ek, err := tpm.Endorsed(e.Certificate, e.EK, &attest.Case{Roots: roots, At: canon.At(time.Now())})
	must(t, err)
	name, err := tpm.KeyName(e.AK)
	must(t, err)
	credential, encrypted, secret := credential(t, e.EK, name)
	got, err := dev.Activate(credential, encrypted)
	must(t, err)
	if !bytes.Equal(got, secret) {
		t.Fatal("the TPM opened another secret")
	}
	return attest.Activation{EK: ek, AK: name, Verifier: "test"}
}

func credential(t *testing.T, ek, name []byte) (credential, encrypted, secret []byte) {
	t.Helper()
	public, err := tpm2.Unmarshal[tpm2.TPMTPublic](ek)
	must(t, err)
	key, err := tpm2.ImportEncapsulationKey(public)
	must(t, err)
	secret = make([]byte, 32)
	rand.Read(secret)
	credential, encrypted, err = tpm2.CreateCredential(rand.Reader, key, name, secret)
	must(t, err)
	return credential, encrypted, secret
}

func TestTPM(t *testing.T) {
	m := machine(t)
	dev := device.OpenTPM(m.TPM())
	files, err := m.Roots()
	must(t, err)
	roots, err := attest.NewRoots(files...)
	must(t, err)
	activation := activate(t, dev, roots)
	qualifying := bytes.Repeat([]byte{0x5a}, 32)
	c, err := dev.Take(qualifying)
	must(t, err)
	if c.Class != dev.Class() || c.Label != "tpm0" || c.MediaType != tpm.MediaType {
		t.Errorf("component %s %s %s", c.Class, c.Label, c.MediaType)
	}
	var set claim.Set
	f := tpm.Appraise(c, "tpm:0", &attest.Case{Roots: roots, At: canon.At(time.Now()), Expect: attest.Expect{Activations: []attest.Activation{activation}}},
		attest.Asked{ReportData: qualifying, Value: "5a"}, &set)
	set.Settle()
	for _, id := range []string{
		"tpm.structure", "tpm.signature", "tpm.quote", "tpm.ak-attributes", "tpm.ak-bound", "tpm.ek-chain", "tpm.selection",
		"tpm.pcr-digest", "tpm.event-log", "tpm.ima", "tpm.clock", "tpm.firmware", "tpm.freshness",
	} {
		if got := set.Find(id, "tpm:0"); got == nil || got.Status != claim.Affirmed {
			t.Errorf("%s: %+v", id, got)
		}
	}
	if len(f.Identities) != 1 || !f.Identities[0].Equal(attest.Identity{Kind: attest.IdentityTPMEK, Value: activation.EK[:]}) {
		t.Errorf("identities %v", f.Identities)
	}
	again, err := dev.Take(qualifying)
	must(t, err)
	for _, name := range []string{tpm.PartAK, tpm.PartEKCertificate, tpm.PartPCRs} {
		a, _ := c.Part(name)
		b, _ := again.Part(name)
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("part %s differs between two quotes", name)
		}
	}
	t.Run("credential of another key", func(t *testing.T) {
		e, err := dev.Endorsement()
		must(t, err)
		other := bytes.Clone(activation.AK)
		other[5] ^= 1
		credential, encrypted, _ := credential(t, e.EK, other)
		if _, err := dev.Activate(credential, encrypted); err == nil || !strings.Contains(err.Error(), "activate credential") {
			t.Errorf("%v", err)
		}
	})
	t.Run("nothing stays loaded", func(t *testing.T) {
		for range 5 { // there is room for three keys
			_, err := dev.Endorsement()
			must(t, err)
			credential, encrypted, _ := credential(t, mustEndorsement(t, dev).EK, activation.AK)
			_, err = dev.Activate(credential, encrypted)
			must(t, err)
		}
	})
	t.Run("reboot", func(t *testing.T) {
		before, err := dev.Epoch()
		must(t, err)
		same, err := dev.Epoch()
		must(t, err)
		must(t, m.Boot(t.Context(), []byte("the agent")))
		after, err := dev.Epoch()
		must(t, err)
		if before != same || before == after {
			t.Errorf("epochs %q, %q, after a boot %q", before, same, after)
		}
		if e := mustEndorsement(t, dev); !bytes.Equal(mustName(t, e.AK), activation.AK) {
			t.Error("the attestation key is another one after a boot")
		}
	})
	t.Run("logs", func(t *testing.T) {
		config := m.TPM()
		config.EventLog = filepath.Join(t.TempDir(), "absent")
		config.IMA = filepath.Join(t.TempDir(), "long")
		must(t, os.WriteFile(config.IMA, make([]byte, device.MaxIMAInBundle+1), 0o600))
		c, err := device.OpenTPM(config).Take(qualifying)
		must(t, err)
		if _, ok := c.Part(tpm.PartEventLog); ok {
			t.Error("a log that is not there is in the evidence")
		}
		digest, _ := c.Part(tpm.PartIMADigest)
		if sum := canon.Sum(make([]byte, device.MaxIMAInBundle+1)); !bytes.Equal(digest, sum[:]) {
			t.Errorf("digest of the long list: %x", digest)
		}
		must(t, os.WriteFile(config.IMA, make([]byte, eventlog.MaxLog+1), 0o600))
		config.EventLog = config.IMA
		if _, err := device.OpenTPM(config).Take(qualifying); err == nil || !strings.Contains(err.Error(), "boot log: ") {
			t.Errorf("a log beyond the limit: %v", err)
		}
	})
	t.Run("P14 a log in pieces", func(t *testing.T) {
		config := m.TPM()
		log, err := os.ReadFile(config.EventLog)
		must(t, err)
		log = bytes.Repeat(log, 1+3*4096/len(log))
		pipe := filepath.Join(t.TempDir(), "log") // as securityfs: no size, and reads that stop short
		must(t, syscall.Mkfifo(pipe, 0o600))
		wrote := make(chan error, 1)
		go func() {
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			for rest := log; err == nil && len(rest) > 0; {
				n := min(len(rest), 4096)
				_, err = w.Write(rest[:n])
				rest = rest[n:]
			}
			wrote <- errors.Join(err, w.Close())
		}()
		config.EventLog = pipe
		c, err := device.OpenTPM(config).Take(qualifying)
		must(t, err)
		must(t, <-wrote)
		if got, _ := c.Part(tpm.PartEventLog); !bytes.Equal(got, log) {
			t.Errorf("%d bytes of the log's %d are in the evidence", len(got), len(log))
		}
	})
	t.Run("switched off", func(t *testing.T) {
		must(t, m.Off())
		if _, err := dev.Take(qualifying); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v", err)
		}
		if _, err := device.OpenTPM(device.TPMConfig{Device: filepath.Join(t.TempDir(), "tpmrm0")}).Epoch(); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v", err)
		}
	})
}

func mustEndorsement(t *testing.T, dev device.TPM) device.Endorsement {
	t.Helper()
	e, err := dev.Endorsement()
	must(t, err)
	return e
}

func mustName(t *testing.T, public []byte) []byte {
	t.Helper()
	name, err := tpm.KeyName(public)
	must(t, err)
	return name
}
