package nvidia_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha512"
	"math/big"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/nvidia"
	"github.com/assay-network/assay/internal/vectors"
)

// p384 returns one verification: the least that a signature costs.
func p384(b *testing.B) func() {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P384(), append(make([]byte, 47), 7))
	if err != nil {
		b.Fatal(err)
	}
	digest := sha512.Sum384([]byte("assay"))
	r, s, err := ecdsa.Sign(nil, key, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		if !ecdsa.Verify(&key.PublicKey, digest[:], new(big.Int).Set(r), new(big.Int).Set(s)) {
			b.Fatal("not verified")
		}
	}
}

// BenchmarkAppraise judges a real GPU with its manifests and OCSP answers, remembered, beside one P-384 verification. The
// goal is 1.3 times that.
func BenchmarkAppraise(b *testing.B) {
	one := p384(b)
	b.Run("one P-384", func(b *testing.B) {
		for b.Loop() {
			one()
		}
	})
	l := vendor(b, "2025-08-21T12:00:00Z")
	const dir = "gpu/go-nvattest-tools/ocsp/"
	items := collateral(b, driverRIM, vbiosRIM, dir+"test_gpu_certificate_l2_base64encoded_ocsp_response.dat", dir+"test_gpu_certificate_l3_base64encoded_ocsp_response.dat", dir+"test_gpu_certificate_l4_base64encoded_ocsp_response.dat")
	report := files(b, hopper, hopperCert)
	for name, memory := range map[string]*attest.Memory{"warm": attest.NewMemory(), "cold": nil} {
		b.Run(name, func(b *testing.B) {
			l.case_.Memory = memory
			b.ReportAllocs()
			for b.Loop() {
				l.judge(report, items...)
			}
		})
	}
	raw, _ := report[0].Part(nvidia.PartReport)
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := nvidia.Parse(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMachine judges eight GPUs and four switches, remembered, one after the other, beside twelve verifications.
func BenchmarkMachine(b *testing.B) {
	one := p384(b)
	b.Run("twelve P-384", func(b *testing.B) {
		for b.Loop() {
			for range 12 {
				one()
			}
		}
	})
	m := newMachine(b)
	m.case_.Memory = attest.NewMemory()
	cs := m.hgx.Components(nonce)
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.judge(cs, m.items...)
		}
	})
}

// BenchmarkManifest proves a real manifest that nobody remembers; the goal is 6 ms.
func BenchmarkManifest(b *testing.B) {
	data, root := vectors.Read(b, driverRIM), rimRoot(b)
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if fault, _, _ := nvidia.ProveRIM(data, root); fault != "" {
				b.Fatal(fault)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := nvidia.ReadRIM(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
