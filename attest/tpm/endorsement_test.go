package tpm_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/canon"
)

// endorsementKey returns the public area of a TPM's endorsement key, as a TPM gives it out.
func endorsementKey(t *testing.T, m *mint.TPM) []byte {
	t.Helper()
	key := m.EKCertificate(mint.TPMOptions{}).X509().PublicKey.(*ecdsa.PublicKey)
	point, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return tpm.Public{
		Type: tpm.AlgECC, NameAlg: eventlog.SHA256, Attributes: tpm.FixedTPM | tpm.FixedParent | tpm.SensitiveDataOrigin | tpm.Restricted | tpm.Decrypt,
		Symmetric: 0x0006, SymmetricBits: 128, SymmetricMode: 0x0043, Scheme: tpm.AlgNull, // AES, CFB
		Curve: tpm.CurveP256, KDF: tpm.AlgNull, X: point[1:33], Y: point[33:],
	}.Encode()
}

func TestEndorsed(t *testing.T) {
	maker := mint.NewTPMMaker()
	one, two := maker.TPM("one"), maker.TPM("two")
	roots := func(files []attest.RootFile) attest.Roots {
		r, err := attest.NewRoots(files...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	spki, err := x509.MarshalPKIXPublicKey(one.EKCertificate(mint.TPMOptions{}).X509().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	type given struct {
		certificates, public []byte
		c                    attest.Case
	}
	for _, tc := range []struct {
		name   string
		change func(*given)
		want   string // in the error; empty: none
	}{
		{"sound", func(*given) {}, ""},
		{"with its issuer", func(g *given) { g.certificates = append(g.certificates, maker.CA.DER...) }, ""},
		{"no certificate", func(g *given) { g.certificates = nil }, "no endorsement certificate"},
		{"certificate cut off", func(g *given) { g.certificates = g.certificates[:100] }, "endorsement certificate: "},
		{"certificate of another TPM", func(g *given) { g.certificates = two.EKCertificate(mint.TPMOptions{}).DER }, "for another key"},
		{"certificate of the attestation key", func(g *given) { g.certificates = one.AKCertificate(mint.TPMOptions{}).DER }, "not to agree on keys"},
		{"other roots", func(g *given) { g.c.Roots = roots(mint.NewIntel().Roots()) }, "untrusted"},
		{"lapsed", func(g *given) {
			g.certificates = one.EKCertificate(mint.TPMOptions{NotAfter: feb.Time().Add(-time.Second)}).DER
		}, "lapsed"},
		{"a bare key", func(g *given) { g.public = spki }, "TPMT_PUBLIC"},
		{"key cut off", func(g *given) { g.public = g.public[:40] }, "cut off"},
		{"no key", func(g *given) { g.public = nil }, "TPMT_PUBLIC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := given{one.EKCertificate(mint.TPMOptions{}).DER, endorsementKey(t, one), attest.Case{Roots: roots(maker.Roots()), At: feb}}
			tc.change(&g)
			got, err := tpm.Endorsed(g.certificates, g.public, &g.c)
			switch {
			case tc.want == "" && (err != nil || got != one.EKDigest()):
				t.Errorf("%s, %v", got, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || got != canon.Digest{}):
				t.Errorf("%s, %v, want %q", got, err, tc.want)
			}
		})
	}
	if name, err := tpm.KeyName(one.AK()); err != nil || !bytes.Equal(name, tpm.Name(one.AK())) {
		t.Errorf("name %x, %v", name, err)
	}
	if name, err := tpm.KeyName(spki); err == nil || name != nil {
		t.Errorf("name of a bare key: %x, %v", name, err)
	}
}

func TestClock(t *testing.T) {
	s := sound(t)
	want := attest.TPMClock{AK: tpm.Name(s.tpm.AK()), ResetCount: int64(s.tpm.Fields.ResetCount), RestartCount: int64(s.tpm.Fields.RestartCount), Clock: int64(s.tpm.Fields.Clock)}
	got, ok := tpm.Clock(s.comp)
	if !ok || !bytes.Equal(got.AK, want.AK) || got.ResetCount != want.ResetCount || got.RestartCount != want.RestartCount || got.Clock != want.Clock {
		t.Errorf("%+v %v, want %+v", got, ok, want)
	}
	s.put(tpm.PartQuote, s.part(tpm.PartQuote)[:20])
	if _, ok := tpm.Clock(s.comp); ok {
		t.Error("a quote that is cut off told the time")
	}
}

// TestEndorsementKey: an inventory's certificate names the key that an activation names; nothing of it is verified.
func TestEndorsementKey(t *testing.T) {
	maker := mint.NewTPMMaker()
	certificate := maker.TPM("one").EKCertificate(mint.TPMOptions{})
	want := tpm.KeyDigest(certificate.X509().PublicKey)
	for _, row := range []struct {
		name string
		data []byte
		want string // in the error; empty: none
	}{
		{"DER", certificate.DER, ""},
		{"PEM", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.DER}), ""},
		{"with its issuer", append(bytes.Clone(certificate.DER), maker.CA.DER...), ""},
		{"an authority's", maker.CA.DER, "for an authority"},
		{"cut off", certificate.DER[:100], "does not end where it does"},
		{"nothing", nil, "no endorsement certificate"},
		{"no certificate", []byte{0x30, 0}, "endorsement certificate: "},
	} {
		got, err := tpm.EndorsementKey(row.data)
		if row.want == "" && (err != nil || got != want) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %s, %v, want %q", row.name, got, err, row.want)
		}
	}
}
