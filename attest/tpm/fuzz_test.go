package tpm_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"math/big"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/eventlog"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
	"github.com/assay-network/assay/internal/alloc"
)

// FuzzStructures: what is read is written back byte for byte, and reading allocates no more than its input is worth.
func FuzzStructures(f *testing.F) {
	s := sound(f)
	for _, name := range []string{tpm.PartQuote, tpm.PartSignature, tpm.PartAK, tpm.PartPCRs} {
		f.Add(s.part(name))
	}
	f.Add(mint.NewTPMMaker().RSATPM("two", tpm.AlgRSASSA).AK())
	f.Fuzz(func(t *testing.T, data []byte) {
		alloc.Within(t, len(data), func() {
			if a, err := tpm.ParseAttest(data); err == nil && a.Type == tpm.TypeQuote {
				empty := false
				for _, s := range a.Selections {
					empty = empty || s.Size == 0
				}
				if !empty && !bytes.Equal(a.Encode(), data) {
					t.Errorf("TPMS_ATTEST %x is written as %x", data, a.Encode())
				}
			}
			if s, err := tpm.ParseSignature(data); err == nil && !bytes.Equal(s.Encode(), data) {
				t.Errorf("TPMT_SIGNATURE %x is written as %x", data, s.Encode())
			}
			if p, raw, err := tpm.ParsePublic(data); err == nil && !bytes.Equal(p.Encode(), raw) {
				t.Errorf("TPMT_PUBLIC %x is written as %x", raw, p.Encode())
			}
			if p, err := tpm.ParsePCRs(data); err == nil && !bytes.Equal(tpm.EncodePCRs(p), data) {
				t.Errorf("PCRs %x are written as %x", data, tpm.EncodePCRs(p))
			}
		})
	})
}

// FuzzAppraise puts any bytes where one part was: no panic, always a structure.
func FuzzAppraise(f *testing.F) {
	s := sound(f)
	for i, p := range s.comp.Parts {
		f.Add(uint8(i), p.Data)
	}
	f.Add(uint8(4), s.tpm.EKCertificate(mint.TPMOptions{Sloppy: true}).DER)
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		comp := s.comp
		comp.Parts = append([]attest.Part{}, comp.Parts...)
		comp.Parts[int(i)%len(comp.Parts)].Data = data
		var set claim.Set
		tpm.Appraise(comp, subject, &s.c, s.asked, &set)
		if set.Find("tpm.structure", subject) == nil {
			t.Error("no claim about the structure")
		}
	})
}

// FuzzFiles reads any bytes as quote files.
func FuzzFiles(f *testing.F) {
	s := sound(f)
	f.Add(s.part(tpm.PartQuote), []byte{1})
	f.Add([]byte("{}"), make([]byte, 668))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		tpm.ReadFiles(tpm.Files{Message: a, PCRs: b, AK: b, EKCertificate: b})
		tpm.ReadJSON(a)
	})
}

// BenchmarkAppraise judges a quote whose certificates were seen before, beside the one verification in it.
func BenchmarkAppraise(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := "quote"
		s := sound(b)
		if with {
			name = "quote, log and IMA list"
		} else {
			s.put(tpm.PartEventLog, nil)
			s.put(tpm.PartIMA, nil)
		}
		s.c.Memory = attest.NewMemory()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var set claim.Set
				tpm.Appraise(s.comp, subject, &s.c, s.asked, &set)
			}
		})
	}
	b.Run("one P-256 verification", func(b *testing.B) {
		s := sound(b)
		p, _, err := tpm.ParsePublic(s.part(tpm.PartAK))
		if err != nil {
			b.Fatal(err)
		}
		key, err := p.Key()
		if err != nil {
			b.Fatal(err)
		}
		sig, err := tpm.ParseSignature(s.part(tpm.PartSignature))
		if err != nil {
			b.Fatal(err)
		}
		der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig.R), new(big.Int).SetBytes(sig.S)})
		if err != nil {
			b.Fatal(err)
		}
		digest := sha256.Sum256(s.part(tpm.PartQuote))
		if key.(*ecdsa.PublicKey).Curve != elliptic.P256() || sig.Hash != eventlog.SHA256 {
			b.Fatal("another scheme")
		}
		for b.Loop() {
			if !ecdsa.VerifyASN1(key.(*ecdsa.PublicKey), digest[:], der) {
				b.Fatal("not signed")
			}
		}
	})
}
