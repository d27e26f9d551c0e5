package audit_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"fmt"
	"runtime"
	"testing"

	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/audit"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/verifier/engine/enginetest"
	"github.com/assay-network/assay/verifier/module"
)

// BenchmarkReplay replays a log of many appraisals, each with its own evidence, beside the one signature check that each
// of them cannot do without.
func BenchmarkReplay(b *testing.B) {
	s := newService(b, "honest")
	good, bad := newHost("good", sevsnp.PolicySMT), newHost("debug", sevsnp.PolicySMT|sevsnp.PolicyDebug)
	const appraisals = 400
	for range appraisals / 2 {
		s.serve(good)
		s.serve(bad)
	}
	s.publish()
	export, trust := s.export(), s.trust()
	for _, workers := range []int{1, runtime.NumCPU()} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := replay(b, export, trust, audit.Options{Workers: workers})
				if r.Outcome != audit.Equal || r.Appraisals.Replayed != appraisals {
					b.Fatal(r.Text())
				}
			}
			b.ReportMetric(float64(appraisals*b.N)/b.Elapsed().Seconds(), "appraisals/s")
			b.ReportMetric(float64(len(export))/appraisals, "bytes/appraisal")
		})
	}
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			var out bytes.Buffer
			if err := audit.Export(b.Context(), s, &out); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(appraisals*b.N)/b.Elapsed().Seconds(), "appraisals/s")
	})
	b.Run("bare P-384 verification", func(b *testing.B) {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			b.Fatal(err)
		}
		digest := sha512.Sum384([]byte("report"))
		sig, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], sig) {
				b.Fatal("refused")
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appraisals/s")
	})
}

// BenchmarkReplayEngine replays a log that another release decided, by its module, beside the same hosts in a log of this
// build. An appraisal of the first costs what the module takes and, for what would be decided today, what this build takes.
func BenchmarkReplayEngine(b *testing.B) {
	runner := module.NewRunner(module.Limits{})
	defer runner.Close()
	const appraisals = 40
	for _, by := range []string{"native", "module"} {
		s := newService(b, "honest")
		trust := s.trust()
		if by == "module" {
			trust.Engines = []canon.Digest{s.runBy(runner, enginetest.Lenient)}
		}
		good := newHost("good", sevsnp.PolicySMT)
		for range appraisals {
			s.serve(good)
		}
		s.publish()
		for _, workers := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("%s/workers=%d", by, workers), func(b *testing.B) {
				s.replayWith(trust, audit.Options{Workers: workers, Engines: runner}) // the module is ready
				for b.Loop() {
					if r := s.replayWith(trust, audit.Options{Workers: workers, Engines: runner}); r.Outcome != audit.Equal || r.Appraisals.Replayed != appraisals {
						b.Fatal(r.Text())
					}
				}
				b.ReportMetric(float64(appraisals*b.N)/b.Elapsed().Seconds(), "appraisals/s")
			})
		}
	}
}
