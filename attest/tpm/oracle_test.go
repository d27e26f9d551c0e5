package tpm_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"testing"

	"github.com/google/go-tpm/tpm2"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/vectors"
)

// TestOracle holds structures and signatures against another implementation, on real and on minted quotes.
func TestOracle(t *testing.T) {
	for name, comp := range quotes(t) {
		t.Run(name, func(t *testing.T) {
			part := func(name string) []byte { b, _ := comp.Part(name); return b }
			theirs, err := tpm2.Unmarshal[tpm2.TPMSAttest](part(tpm.PartQuote))
			if err != nil {
				t.Fatal(err)
			}
			q, err := tpm.ParseAttest(part(tpm.PartQuote))
			if err != nil {
				t.Fatal(err)
			}
			info, err := theirs.Attested.Quote()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(q.ExtraData, theirs.ExtraData.Buffer) || q.Clock != theirs.ClockInfo.Clock || q.ResetCount != theirs.ClockInfo.ResetCount || q.Safe != bool(theirs.ClockInfo.Safe) ||
				q.FirmwareVersion != theirs.FirmwareVersion || !bytes.Equal(q.PCRDigest, info.PCRDigest.Buffer) || !bytes.Equal(q.QualifiedSigner, theirs.QualifiedSigner.Buffer) {
				t.Errorf("ours %+v, theirs %+v", q, theirs)
			}
			for i, s := range info.PCRSelect.PCRSelections {
				if uint16(s.Hash) != uint16(q.Selections[i].Bank) || !bytes.Equal(s.PCRSelect, tpm2.PCClientCompatible.PCRs(unsigned(q.Selections[i].PCRs)...)) {
					t.Errorf("selection %d: ours %v, theirs %x", i, q.Selections[i], s.PCRSelect)
				}
			}
			public, err := tpm2.Unmarshal[tpm2.TPMTPublic](part(tpm.PartAK))
			if err != nil {
				t.Fatal(err)
			}
			if theirs, err := tpm2.ObjectName(public); err != nil || !bytes.Equal(theirs.Buffer, tpm.Name(part(tpm.PartAK))) {
				t.Errorf("name: ours %x, theirs %x", tpm.Name(part(tpm.PartAK)), theirs.Buffer)
			}
			key, err := tpm2.Pub(*public)
			if err != nil {
				t.Fatal(err)
			}
			sig, err := tpm2.Unmarshal[tpm2.TPMTSignature](part(tpm.PartSignature))
			if err != nil {
				t.Fatal(err)
			}
			if !verified(t, key, sig, part(tpm.PartQuote)) {
				t.Error("the signature does not verify by the other implementation")
			}
			var set claim.Set
			tpm.Appraise(comp, subject, &sound(t).c, attest.Asked{}, &set)
			if set.Find("tpm.signature", subject).Status != claim.Affirmed {
				t.Errorf("the signature does not verify by ours: %+v", set)
			}
		})
	}
}

func unsigned(in []int) (out []uint) {
	for _, i := range in {
		out = append(out, uint(i))
	}
	return out
}

func verified(t *testing.T, key crypto.PublicKey, sig *tpm2.TPMTSignature, message []byte) bool {
	t.Helper()
	digest := sha256.Sum256(message)
	switch sig.SigAlg {
	case tpm2.TPMAlgECDSA:
		s, err := sig.Signature.ECDSA()
		if err != nil {
			t.Fatal(err)
		}
		return ecdsa.Verify(key.(*ecdsa.PublicKey), digest[:], new(big.Int).SetBytes(s.SignatureR.Buffer), new(big.Int).SetBytes(s.SignatureS.Buffer))
	case tpm2.TPMAlgRSASSA:
		s, err := sig.Signature.RSASSA()
		if err != nil {
			t.Fatal(err)
		}
		return rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA256, digest[:], s.Sig.Buffer) == nil
	}
	s, err := sig.Signature.RSAPSS()
	if err != nil {
		t.Fatal(err)
	}
	return rsa.VerifyPSS(key.(*rsa.PublicKey), crypto.SHA256, digest[:], s.Sig.Buffer, nil) == nil
}

// quotes returns real and minted quotes whose key shows its public area.
func quotes(t testing.TB) map[string]attest.Component {
	all := map[string]attest.Component{
		"mint ecc": sound(t).comp, "mint rsassa": of(t, mint.NewTPMMaker().RSATPM("two", tpm.AlgRSASSA)).comp, "mint rsapss": of(t, mint.NewTPMMaker().RSATPM("two", tpm.AlgRSAPSS)).comp,
	}
	for _, name := range []string{"quote-ecc.json", "quote-rsa.json"} {
		comp, err := tpm.ReadJSON(vectors.Read(t, "cpu/selfmade/swtpm/"+name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = comp
	}
	return all
}

// TestMintedCertificates: minted certificates verify by crypto/x509 once the alternative name is read by hand.
func TestMintedCertificates(t *testing.T) {
	m := mint.NewTPMMaker()
	roots, issuers := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(m.Root.X509())
	issuers.AddCert(m.CA.X509())
	for _, c := range []mint.Certificate{m.TPM("one").EKCertificate(mint.TPMOptions{}), m.TPM("one").AKCertificate(mint.TPMOptions{}), m.RSATPM("two", tpm.AlgRSASSA).EKCertificate(mint.TPMOptions{})} {
		x := c.X509()
		if len(x.UnhandledCriticalExtensions) != 1 {
			t.Errorf("critical extensions %v, want the alternative name", x.UnhandledCriticalExtensions)
		}
		x.UnhandledCriticalExtensions = nil
		if _, err := x.Verify(x509.VerifyOptions{Roots: roots, Intermediates: issuers, CurrentTime: feb.Time(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := x509.ParseCertificate(m.TPM("one").EKCertificate(mint.TPMOptions{Sloppy: true}).DER); err == nil {
		t.Error("the sloppy certificate is strict DER")
	}
}

// TestSameBytes: makers give the same bytes again.
func TestSameBytes(t *testing.T) {
	a, b := sound(t).comp, sound(t).comp
	if a.Digest() != b.Digest() {
		t.Error("a second run gives other bytes")
	}
	s := sound(t)
	if q := s.tpm.Quote(nonce, s.tpm.PCRs(eventlog.SHA256, boot...)); !bytes.Equal(q.Encode(), s.part(tpm.PartQuote)) {
		t.Error("a second quote of the same registers differs")
	}
}
