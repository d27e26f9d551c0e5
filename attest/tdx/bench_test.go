package tdx_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"math/big"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/tdx"
)

// BenchmarkAppraise judges a real quote with its collateral, remembered, beside two P-256 verifications: the least that two
// signatures cost. The goal is 1.4 times that.
func BenchmarkAppraise(b *testing.B) {
	l := vendor(b, "2025-07-01T00:00:00Z")
	raw, items := file(b, "cpu/tdx/dcapqvl-tdx_quote.bin"), collateral(b, "cpu/tdx/dcapqvl-tdx_quote_collateral.json")
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), 7))
	if err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256(raw)
	r, s, err := ecdsa.Sign(nil, key, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	two := func(b *testing.B) {
		for b.Loop() {
			for range 2 {
				if !ecdsa.Verify(&key.PublicKey, digest[:], new(big.Int).Set(r), new(big.Int).Set(s)) {
					b.Fatal("not verified")
				}
			}
		}
	}
	b.Run("two P-256", two)
	b.Run("warm", func(b *testing.B) {
		l.case_.Memory = attest.NewMemory()
		b.ReportAllocs()
		for b.Loop() {
			l.judge(raw, items...)
		}
	})
	b.Run("cold", func(b *testing.B) {
		l.case_.Memory = nil
		b.ReportAllocs()
		for b.Loop() {
			l.judge(raw, items...)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := tdx.Parse(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
