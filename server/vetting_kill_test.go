package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/market/vetting"
	"github.com/assay-network/assay/server"
)

// TestKillBetweenEventAndFollowUp kills the server behind a verdict, in the middle of what follows it, and behind that. Each
// verdict weighs the host's certificate once.
func TestKillBetweenEventAndFollowUp(t *testing.T) {
	world := t.TempDir()
	writeWorld(t, world)
	began := time.Now().UnixNano()
	now := childClock(began)
	c := startChild(t, world, "", began)
	admin, err := os.ReadFile(filepath.Join(world, "admin"))
	must(t, err)
	operator := func(c *child) *client.Client {
		o, err := client.New(client.Config{URL: c.url, Credential: string(admin)})
		must(t, err)
		return o
	}
	n, err := joinAt(t.Context(), c.url, string(admin), machine(mint.NewAMD(sevsnp.Milan), "one"), now())
	must(t, err)
	submit := func(c *child) canon.Digest {
		t.Helper()
		p := pledgeOne(t.Context(), c, n)
		if p == nil || p.got == nil {
			t.Fatal("the evidence was not promised")
		}
		return p.got.Evidence
	}
	decided := func(c *child, evidence canon.Digest) {
		t.Helper()
		for range 600 {
			if r, err := operator(c).Result(t.Context(), evidence); err == nil && r.State == client.StateDecided {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal("no verdict")
	}
	decided(c, submit(c))

	o := operator(c)
	issuers := func() {
		must(t, o.RegisterIssuer(t.Context(), client.IssuerRegistration{ID: "lei.example", Key: spkiOf(t, "lei.example"), Attributes: []string{"party.identity", "party.legal-entity"}, Until: canon.At(now().Add(400 * day))}))
		for attribute, value := range map[string]string{"party.identity": claim.IdentityLegalEntity, "party.legal-entity": testEntity} {
			issued := canon.At(now())
			env, err := vetting.Claim{Type: vetting.ClaimType, Issuer: "lei.example", Subject: vetting.Subject{Kind: vetting.UnitProvider, ID: "p1"}, Attribute: attribute, Value: value,
				Issued: issued, Expires: issued + 1e6}.Seal(keyOfIssuer("lei.example"))
			must(t, err)
			_, err = o.SendClaim(t.Context(), env)
			must(t, err)
		}
	}
	issuers()
	must(t, o.SetProvider(t.Context(), "p1", client.ProviderFacts{Stake: true, ContactHours: 4}))
	var cert vetting.Certificate
	officer := func() (*client.Client, client.NewToken) {
		token, err := o.CreateToken(t.Context(), client.TokenRequest{Grant: client.Grant{Role: client.RoleAdmin}, Expires: canon.At(now().Add(time.Hour))})
		must(t, err)
		as, err := client.New(client.Config{URL: c.url, Credential: token.Token})
		must(t, err)
		return as, token
	}
	olga, _ := officer()
	reviewer, rita := officer()
	must(t, olga.RequestCertificate(t.Context(), client.CertificateRequest{Provider: "p1", Host: n.id, Tier: claim.TierIdentified}, &cert))
	must(t, o.ActOnCertificate(t.Context(), cert.ID, client.CertificateAct{Act: vetting.ActAssign, Reviewer: rita.Record.Principal}, &cert))
	must(t, reviewer.ActOnCertificate(t.Context(), cert.ID, client.CertificateAct{Act: vetting.ActPass}, &cert))
	end := func(c *child) {
		t.Helper()
		must(t, c.cmd.Process.Signal(syscall.SIGTERM))
		must(t, c.cmd.Wait())
	}
	end(c)

	for _, step := range []string{"decided", "event", "followed"} {
		c := startChild(t, world, "", began, childDies+"="+step)
		pledgeOne(t.Context(), c, n) // it may die before it answers
		if err := c.cmd.Wait(); err == nil {
			t.Fatalf("%s: the child ended by itself", step)
		}
	}
	c = startChild(t, world, "", began)
	decided(c, submit(c))
	settings := childSettings(world, "")
	end(c)

	s, err := server.New(context.Background(), settings, server.Deps{Now: now, Random: rand.Reader, Log: quiet()})
	must(t, err)
	defer s.Close()
	must(t, s.Advance(t.Context()))
	auditLog(t, s, nil)
	weighed, verdicts := 0, -1 // the first one came before the certificate
	must(t, ledger.Walk(t.Context(), s.Source(), publishedTree(t, s), func(_ int64, commitment canon.Digest) error {
		opening, err := s.Source().Blob(t.Context(), commitment)
		must(t, err)
		_, e, err := ledger.ParseOpening(opening)
		must(t, err)
		if e.Kind == ledger.KindVerdict {
			verdicts++
		}
		if e.Kind == ledger.KindCertificate {
			body, err := s.Source().Blob(t.Context(), e.Body)
			must(t, err)
			if bytes.Contains(body, []byte(`"act":"assess"`)) {
				weighed++
			}
		}
		return nil
	}))
	if weighed != verdicts || verdicts < 2 {
		t.Errorf("%d verdicts since the certificate was given, and it was weighed %d times", verdicts, weighed)
	}
}

func publishedTree(t *testing.T, s *server.Server) ledger.Tree {
	t.Helper()
	note, err := s.Source().Checkpoint(t.Context())
	must(t, err)
	c, err := ledger.ReadCheckpoint(note)
	must(t, err)
	return c.Tree
}

// BenchmarkReassess weighs 10,000 certificates anew, because the operator's parameters changed: events, entries and states
// are committed.
func BenchmarkReassess(b *testing.B) {
	const certificates = 10000
	dir := b.TempDir()
	settings := writeWorld(b, dir)
	cl := &clock{now: worldBegin}
	s, err := server.New(b.Context(), settings, server.Deps{Now: cl.Now, Random: rand.Reader, Log: quiet()})
	must(b, err)
	defer s.Close()
	must(b, s.TestingOnlyCertify(b.Context(), certificates))
	for b.Loop() {
		b.StopTimer()
		cl.advance(time.Second)
		must(b, s.TestingOnlySetRules(b.Context(), vetting.Defaults()))
		b.StartTimer()
		must(b, s.TestingOnlyVet(b.Context()))
	}
	b.ReportMetric(certificates*float64(b.N)/b.Elapsed().Seconds(), "certificates/s")
}
