package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/client"
	"github.com/assay-network/assay/ledger"
	"github.com/assay-network/assay/server"
)

func TestSettingsAreLogged(t *testing.T) {
	l := newLab(t, "")
	kinds := func() (all []string) {
		page, err := l.client(l.admin).Entries(t.Context(), 0)
		must(t, err)
		for _, e := range page.Entries {
			all = append(all, e.Kind)
		}
		return all
	}
	want := []string{ledger.KindKeyset, ledger.KindPolicy, ledger.KindReference, ledger.KindCollateral}
	if got := kinds(); !slices.Equal(got, want) {
		t.Fatalf("first start logged %q, want %q", got, want)
	}
	l.restart()
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("unchanged settings: %q, want %q", got, want)
	}
	l.settings.Policy = "genuine"
	l.restart()
	l.settings.Policy = ""
	l.restart()
	want = append(want, ledger.KindPolicy, ledger.KindPolicy)
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("another policy and back: %q, want %q", got, want)
	}
	l.settings.Renew = []string{"admin-token"}
	old := l.admin
	l.restart()
	_, err := l.client(old).Nodes(t.Context(), "")
	refused(t, err, http.StatusUnauthorized, client.CodeRevoked)
	_, err = l.client(l.admin).Nodes(t.Context(), "")
	must(t, err)
}

// TestTLS serves with a certificate of its own and ends when it is told.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	settings := writeWorld(t, dir)
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, key.Public(), key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	settings.TLS = []string{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	must(t, os.WriteFile(settings.TLS[0], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(settings.TLS[1], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	settings.Origin, settings.Listen = "", "127.0.0.1:0"
	s, err := server.New(t.Context(), settings, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()})
	must(t, err)
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	c, err := client.New(client.Config{URL: s.Origin(), Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}})
	must(t, err)
	if h, err := c.Health(t.Context()); err != nil || h.Status != "ok" || !strings.HasPrefix(s.Origin(), "https://127.0.0.1:") {
		t.Errorf("health of %s: %+v %v", s.Origin(), h, err)
	}
	stop()
	must(t, <-ended)
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*server.Settings)
		want   string
	}{
		{"no data folder", func(s *server.Settings) { s.Data = "" }, "no data folder"},
		{"no origin", func(s *server.Settings) { s.Origin = "" }, "the origin must be named"},
		{"plain http elsewhere", func(s *server.Settings) { s.Origin = "http://assay.test" }, "plain http"},
		{"certificate without key", func(s *server.Settings) {
			s.TLS = []string{filepath.Join(s.Roots, "cert.pem")}
			must(t, os.WriteFile(s.TLS[0], []byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), 0o600))
		}, "TLS: "},
		{"three files for TLS", func(s *server.Settings) { s.TLS = []string{"cert.pem", "chain.pem", "key.pem"} }, "3 files"},
		{"a role that is none", func(s *server.Settings) { s.Roles = []string{"publish", "judge"} }, `role "judge"`},
		{"a role twice", func(s *server.Settings) { s.Roles = []string{"api", "api"} }, "twice"},
		{"interval", func(s *server.Settings) { s.Interval = time.Hour }, "interval"},
		{"policy", func(s *server.Settings) { s.Policy = "lenient" }, "lenient"},
		{"roots", func(s *server.Settings) { s.Roots = s.Collateral }, "no .pem file"},
		{"references", func(s *server.Settings) { s.References = []string{"missing"} }, "missing"},
		{"collateral", func(s *server.Settings) {
			s.Collateral = t.TempDir()
			must(t, os.WriteFile(filepath.Join(s.Collateral, "rubbish"), []byte("rubbish"), 0o600))
		}, "rubbish"},
		{"deny list key", func(s *server.Settings) { s.DenyListKeys = s.References }, "PUBLIC KEY"},
		{"database", func(s *server.Settings) { s.Database = "mysql:x" }, "mysql"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := writeWorld(t, t.TempDir())
			tc.change(&s)
			got, err := server.New(t.Context(), s, server.Deps{Now: (&clock{now: worldBegin}).Now, Random: newSource(9), Log: quiet()})
			if err == nil {
				err = errors.Join(got.Close(), errors.New("taken"))
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
