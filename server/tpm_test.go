package server_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/agent"
	"github.com/assay-network/assay/agent/device"
	"github.com/assay-network/assay/agent/device/swtpm"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/server"
	"github.com/assay-network/assay/verifier"
)

// bareMetal boots a machine whose TPM is all that it can show.
func bareMetal(t *testing.T) (*swtpm.Machine, device.TPM) {
	t.Helper()
	if name := swtpm.Missing(); name != "" {
		t.Skip("no TPM in software: " + name + " is not installed")
	}
	dir, err := os.MkdirTemp("", "tpm") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	m, err := swtpm.New(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { m.Off() })
	must(t, m.Boot(t.Context(), []byte("the agent in the guest")))
	return m, device.OpenTPM(m.TPM())
}

// believing has a server believe the makers of machines, and list their last boots.
func believing(t *testing.T, policy string, machines ...*swtpm.Machine) func(*server.Settings) {
	return func(s *server.Settings) {
		s.Policy, s.Roots, s.References = policy, t.TempDir(), nil
		for i, m := range machines {
			files, err := m.Roots()
			must(t, err)
			must(t, os.WriteFile(filepath.Join(s.Roots, fmt.Sprintf("tpm-%d.pem", i)), files[0].Data, 0o600))
			list, err := canon.Marshal(m.References(worldAgent))
			must(t, err)
			name := filepath.Join(t.TempDir(), "machine.json")
			must(t, os.WriteFile(name, list, 0o600))
			s.References = append(s.References, name)
		}
	}
}

// tpmLab is a verifier in the present: certificates of TPMs in software are made when a test runs.
func tpmLab(t *testing.T, database, policy string, machines ...*swtpm.Machine) *lab {
	l := newLab(t, database, believing(t, policy, machines...))
	l.rest(time.Since(worldBegin))
	return l
}

func (l *lab) joinTPM(dev device.TPM) *node {
	l.t.Helper()
	n, err := joinAt(l.t.Context(), l.http.URL, l.admin, dev, l.clock.Now())
	must(l.t, err)
	n.lab = l
	return n
}

func request(t *testing.T, dev device.TPM) client.ActivationRequest {
	t.Helper()
	e, err := dev.Endorsement()
	must(t, err)
	return client.ActivationRequest{EKCertificate: e.Certificate, EKPublic: e.EK, AKPublic: e.AK}
}

// open asks for a secret and has a TPM open it.
func (n *node) open(dev device.TPM) []byte {
	n.lab.t.Helper()
	offer, err := n.client().Activate(n.lab.t.Context(), request(n.lab.t, dev))
	must(n.lab.t, err)
	secret, err := dev.Activate(offer.CredentialBlob, offer.EncryptedSecret)
	must(n.lab.t, err)
	return secret
}

func (n *node) activate(dev device.TPM) client.Activated {
	n.lab.t.Helper()
	done, err := n.client().AnswerActivation(n.lab.t.Context(), n.open(dev))
	must(n.lab.t, err)
	return done
}

// claims returns what the appraisal of evidence says, by claim.
func (n *node) claims(evidence canon.Digest) func(id, subject string) string {
	n.lab.t.Helper()
	r, err := n.client().Result(n.lab.t.Context(), evidence)
	must(n.lab.t, err)
	var a verifier.Appraisal
	must(n.lab.t, canon.Unmarshal(r.Appraisal, &a))
	return func(id, subject string) string {
		c := a.Claims.Find(id, subject)
		if c == nil {
			return "absent"
		}
		return fmt.Sprint(c.Status, " ", c.Value, c.Reason)
	}
}

func reasons(d client.Decision) (names []string) {
	for _, r := range d.Reasons {
		names = append(names, r.Claim)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A machine with a TPM and no CPU TEE: genuine hardware that measured what it booted. Its root can lend the TPM, so that
// no policy of confidential machines takes it.
func TestBareMetal(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		m, dev := bareMetal(t)
		l := tpmLab(t, database, "genuine", m)
		n := l.joinTPM(dev)
		n.activate(dev)
		d, first := n.prove()
		claims := n.claims(first)
		if d.Outcome != client.Accept || claims("binding.seal", "node") != "affirmed tpm" || claims("guest.measured", "node") != "affirmed tpm" ||
			claims("agent.measured", "node") != "affirmed tpm" || !strings.HasPrefix(claims("tpm.ak-bound", "tpm:0"), "affirmed activation") {
			t.Fatalf("%+v\n%s\n%s\n%s", d, claims("guest.measured", "node"), claims("tpm.event-log", "tpm:0"), claims("tpm.ak-bound", "tpm:0"))
		}
		l.clock.advance(time.Minute)
		must(t, m.Boot(t.Context(), []byte("the agent in the guest")))
		d, second := n.prove()
		if clock := n.claims(second)("tpm.clock", "tpm:0"); d.Outcome != client.Accept || !strings.Contains(clock, "rebooted") {
			t.Errorf("after a boot: %s, clock %s", d.Outcome, clock)
		}
		l.audited()
		confidential := tpmLab(t, "", "confidential-cpu", m)
		n = confidential.joinTPM(dev)
		n.activate(dev)
		d, evidence := n.prove()
		if d.Outcome != client.Reject || !slices.Contains(reasons(d), "guest.measured") || !slices.Contains(reasons(d), "agent.measured") ||
			n.claims(evidence)("guest.measured", "node") != "affirmed tpm" {
			t.Errorf("confidential-cpu: %s for %q", d.Outcome, reasons(d))
		}
	})
}

func TestActivations(t *testing.T) {
	m, dev := bareMetal(t)
	_, foreign := bareMetal(t)
	l := tpmLab(t, "", "genuine", m)
	n := l.joinTPM(dev)
	ctx := t.Context()

	d, evidence := n.prove()
	if got := n.claims(evidence)("tpm.ak-bound", "tpm:0"); d.Outcome != client.Undecided || !strings.HasPrefix(got, "unknown") || !slices.Contains(reasons(d), "tpm.ak-bound") {
		t.Errorf("without activation: %s for %q, tpm.ak-bound %s", d.Outcome, reasons(d), got)
	}

	for _, tc := range []struct {
		name  string
		alter func(*client.ActivationRequest)
		want  string
	}{
		{"endorsement key of a maker that is not believed", func(r *client.ActivationRequest) { *r = request(t, foreign) }, "untrusted"},
		{"certificate of another TPM", func(r *client.ActivationRequest) { r.EKPublic = request(t, foreign).EKPublic }, "for another key"},
		{"no certificate", func(r *client.ActivationRequest) { r.EKCertificate = nil }, "no endorsement certificate"},
		{"no certificate at all", func(r *client.ActivationRequest) { r.EKCertificate = []byte("none") }, "endorsement certificate"},
		{"endorsement key cut off", func(r *client.ActivationRequest) { r.EKPublic = r.EKPublic[:40] }, "cut off"},
		{"attestation key cut off", func(r *client.ActivationRequest) { r.AKPublic = r.AKPublic[:40] }, "cut off"},
		{"no attestation key", func(r *client.ActivationRequest) { r.AKPublic = nil }, "TPMT_PUBLIC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request(t, dev)
			tc.alter(&r)
			_, err := n.client().Activate(ctx, r)
			if p := refused(t, err, 403, "activation"); !strings.Contains(p.Detail, tc.want) {
				t.Errorf("%s, want %q", p.Detail, tc.want)
			}
		})
	}
	t.Run("another attestation key", func(t *testing.T) {
		r := request(t, dev)
		r.AKPublic = request(t, foreign).AKPublic
		offer, err := n.client().Activate(ctx, r)
		must(t, err)
		for _, d := range []device.TPM{dev, foreign} {
			if _, err := d.Activate(offer.CredentialBlob, offer.EncryptedSecret); err == nil {
				t.Error("a TPM without both keys opened the secret")
			}
		}
	})
	t.Run("wrong secret", func(t *testing.T) {
		secret := n.open(dev)
		wrong := slices.Clone(secret)
		wrong[0] ^= 1
		_, err := n.client().AnswerActivation(ctx, wrong)
		refused(t, err, 403, "activation")
		_, err = n.client().AnswerActivation(ctx, secret) // it was burned
		refused(t, err, 403, "activation")
	})
	t.Run("another offer ends the first", func(t *testing.T) {
		first := n.open(dev)
		n.open(dev)
		_, err := n.client().AnswerActivation(ctx, first)
		refused(t, err, 403, "activation")
	})
	t.Run("too late", func(t *testing.T) {
		secret := n.open(dev)
		l.clock.advance(server.ActivationLife)
		_, err := n.client().AnswerActivation(ctx, secret)
		refused(t, err, 403, "activation")
	})
	t.Run("of another node", func(t *testing.T) {
		secret := n.open(dev)
		_, err := l.joinTPM(dev).client().AnswerActivation(ctx, secret)
		refused(t, err, 403, "activation")
	})
	if d, _ := n.prove(); d.Outcome != client.Undecided {
		t.Errorf("after refusals: %s", d.Outcome)
	}
	before := l.entries()
	a := n.activate(dev)
	if again := n.activate(dev); again.EK != a.EK || !slices.Equal(again.AK, a.AK) {
		t.Errorf("activated %+v, then %+v", a, again)
	}
	if got := l.entries(); got != before+2 {
		t.Errorf("%d entries for two activations, want one each", got-before)
	}
	if d, _ := n.prove(); d.Outcome != client.Accept {
		t.Errorf("after activation: %s for %q", d.Outcome, reasons(d))
	}

	// The same TPM under another node's name: its activation is as good, and the registry knows whose it is.
	second := l.joinTPM(dev)
	if d, _ := second.prove(); d.Outcome != client.Undecided {
		t.Errorf("a key that was activated for another node: %s for %q", d.Outcome, reasons(d))
	}
	second.activate(dev)
	d, evidence = second.prove()
	if got := second.claims(evidence)("set.device-unique", "set"); d.Outcome != client.Reject || !strings.Contains(got, "contested") {
		t.Errorf("another node's TPM: %s, %s", d.Outcome, got)
	}
	l.audited()
}

// The whole loop: the agent has its key activated, proves the machine, notices a boot, and goes on with new keys.
func TestAgentOnBareMetal(t *testing.T) {
	m, dev := bareMetal(t)
	settings := writeWorld(t, t.TempDir())
	settings.Listen, settings.Origin = "127.0.0.1:0", ""
	believing(t, "genuine", m)(&settings)
	s, err := server.New(t.Context(), settings, server.Deps{Now: time.Now, Random: rand.Reader, Log: quiet()})
	must(t, err)
	go s.Run(t.Context())
	defer s.Close()
	admin, err := client.New(client.Config{URL: s.Origin(), Credential: s.NewAdminToken()})
	must(t, err)
	issued, err := admin.NewJoinToken(t.Context())
	must(t, err)
	token, err := client.ParseToken(issued.Token)
	must(t, err)
	joined, err := agent.Join(t.Context(), admin, token, "")
	must(t, err)
	member, err := client.New(client.Config{URL: s.Origin(), Credential: joined.Credential})
	must(t, err)
	store := agent.OpenStore(t.TempDir())
	must(t, store.Prepare())
	a, err := agent.New(agent.Config{
		Node: joined, Store: store, Server: member, Devices: []agent.Device{dev}, Executable: worldAgent,
		BootID: func() (string, error) { return "boot-1", nil }, Random: rand.Reader, Now: time.Now, Logger: quiet(),
		After: func(d time.Duration) <-chan time.Time { return time.After(min(d, 20*time.Millisecond)) },
	})
	must(t, err)
	must(t, a.Round(t.Context()))
	first := a.Status()
	must(t, a.Round(t.Context()))
	same := a.Status()
	must(t, m.Boot(t.Context(), []byte("the agent in the guest")))
	must(t, a.Round(t.Context()))
	booted := a.Status()
	if first.Decision.Outcome != client.Accept || booted.Decision.Outcome != client.Accept {
		t.Errorf("%s, after a boot %s for %q", first.Decision.Outcome, booted.Decision.Outcome, reasons(booted.Decision))
	}
	if same.Keys != first.Keys || booted.Keys == first.Keys {
		t.Errorf("keys %s, %s, after a boot %s", first.Keys.Short(), same.Keys.Short(), booted.Keys.Short())
	}
}
