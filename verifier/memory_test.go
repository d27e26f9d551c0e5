package verifier_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/testvectors"
	"github.com/assay-network/assay/verifier"
)

func canonical(t testing.TB, c testvectors.Case, m *attest.Memory) []byte {
	t.Helper()
	j, err := c.Judge(m)
	if err != nil {
		t.Error(err)
		return nil
	}
	text, err := j.Canonical()
	if err != nil {
		t.Error(err)
	}
	return text
}

// TestMemoryChangesNothing: without a memory, with a new one, with one that saw every other case, and with one that
// forgot, a case comes to the same bytes.
func TestMemoryChangesNothing(t *testing.T) {
	all, names := minted(t)
	full := attest.NewMemory()
	want := map[string][]byte{}
	for _, name := range names {
		want[name] = canonical(t, all[name], nil)
		if !bytes.Equal(canonical(t, all[name], attest.NewMemory()), want[name]) || !bytes.Equal(canonical(t, all[name], full), want[name]) {
			t.Errorf("%s: other bytes with a memory", name)
		}
	}
	for i, name := range names {
		if !bytes.Equal(canonical(t, all[name], full), want[name]) {
			t.Errorf("%s: other bytes with a memory that saw everything", name)
		}
		if i%16 == 0 { // everything is forgotten
			for n := range attest.MaxRemembered + 1 {
				attest.Remember(full, canon.Hash("filler", binary.BigEndian.AppendUint64(nil, uint64(i<<32+n))), func() int { return n })
			}
		}
	}
}

// TestMemoryOfAnotherTime: what is remembered at one time does not decide at another, nor under other roots.
func TestMemoryOfAnotherTime(t *testing.T) {
	all, _ := minted(t)
	m := attest.NewMemory()
	for _, row := range []struct {
		name, claim   string
		later, vendor string // status and reason one second later, and under the vendors' roots
	}{
		{"chain-last-second", "sevsnp.chain", "contradicted lapsed", "contradicted untrusted"},
		{"crl-last-second", "sevsnp.revocation", "unknown collateral-refused", "unknown rests-on"},
		{"tdx-chain-last-second", "tdx.chain", "contradicted lapsed", "contradicted untrusted"},
		{"tdx-crl-last-second", "tdx.revocation", "unknown collateral-refused", "unknown rests-on"},
		{"tdx-info-last-second", "tdx.collateral", "unknown collateral-refused", "unknown rests-on"},
		{"tpm-ek-last-second", "tpm.ek-chain", "contradicted lapsed", "contradicted untrusted"},
	} {
		find := func(c testvectors.Case) string {
			for _, cl := range appraise(t, c, m).Claims {
				if cl.ID == row.claim {
					return strings.TrimSuffix(cl.Status.String()+" "+cl.Reason.Code(), " ")
				}
			}
			return ""
		}
		c := all[row.name]
		later, vendor := c, c
		later.AsOf++
		vendor.Roots = testvectors.RootsVendor
		for range 2 { // the second time, all of it is remembered
			for i, c := range []testvectors.Case{c, later, vendor} {
				if got, want := find(c), []string{"affirmed", row.later, row.vendor}[i]; got != want {
					t.Errorf("%s %d: %s is %q, want %q", row.name, i, row.claim, got, want)
				}
			}
		}
	}
}

func appraise(t testing.TB, c testvectors.Case, m *attest.Memory) verifier.Appraisal {
	t.Helper()
	o, k, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	k.Memory = m
	return verifier.Appraise(o, k)
}

func TestMemoryOfMany(t *testing.T) {
	all, names := minted(t)
	m := attest.NewMemory()
	want := map[string][]byte{}
	for i := 0; i < len(names); i += 8 {
		want[names[i]] = canonical(t, all[names[i]], nil)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for name, text := range want {
				if !bytes.Equal(canonical(t, all[name], m), text) {
					t.Errorf("%s: other bytes", name)
				}
			}
		})
	}
	wg.Wait()
}

// hostileCertificate parses, is long where it can be, and is no signing certificate that anybody can use.
func hostileCertificate(t *testing.T) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	byteOf := func(n int) []byte {
		der, err := asn1.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	amd := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 3704, 1}
	template := x509.Certificate{
		SerialNumber: new(big.Int).Lsh(big.NewInt(1), 150), Subject: pkix.Name{CommonName: strings.Repeat("x", 12<<10)},
		ExtraExtensions: []pkix.Extension{
			{Id: append(amd[:8:8], 3, 1), Value: byteOf(1)}, {Id: append(amd[:8:8], 3, 2), Value: byteOf(1)}, {Id: append(amd[:8:8], 3, 3), Value: byteOf(1)},
			{Id: append(amd[:8:8], 3, 8), Value: byteOf(1)}, {Id: append(amd[:8:8], 4), Value: make([]byte, 64)},
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &x509.Certificate{Subject: pkix.Name{CommonName: "SEV-Genoa"}}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// endless returns evidence of a format that differs in each round by a certificate that nobody saw before.
type endless struct {
	typ  string
	base string                // a sound raw case
	make func(n uint32) []byte // the evidence of a round
	want string                // a claim that is affirmed all the same
}

// endlesses returns, of each format, hostile evidence without end: long certificates that are remembered for nothing.
func endlesses(t *testing.T) []endless {
	all, _ := minted(t)
	number := func(der []byte, n uint32) []byte { // in its signature, which is no good anyway
		binary.BigEndian.PutUint32(der[len(der)-4:], n)
		return der
	}
	report, der := all["genoa-v5"].Evidence, hostileCertificate(t)
	table := make([]byte, 48, 48+len(der))
	table[0] = 1
	binary.LittleEndian.PutUint32(table[16:], 48)
	binary.LittleEndian.PutUint32(table[20:], uint32(len(der)))

	quote := all["tdx-v4"].Evidence
	at := bytes.Index(quote, []byte("-----BEGIN"))
	leaf, issuers := pem.Decode(quote[at:])

	var file map[string]any
	if err := json.Unmarshal(all["tpm-ecc"].Evidence, &file); err != nil {
		t.Fatal(err)
	}
	return []endless{
		{verifier.TypeSEVSNP, "genoa-v5", func(n uint32) []byte { return append(append(bytes.Clone(report), table...), number(der, n)...) }, "sevsnp.signature"},
		{verifier.TypeTDX, "tdx-v4", func(n uint32) []byte {
			return append(append(bytes.Clone(quote[:at]), pem.EncodeToMemory(&pem.Block{Type: leaf.Type, Bytes: number(leaf.Bytes, n)})...), issuers...)
		}, "tdx.structure"},
		{verifier.TypeTPM, "tpm-ecc", func(n uint32) []byte {
			file["ek_certificate"] = canon.Hex(number(der, n)).String()
			text, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}, "tpm.structure"},
	}
}

// TestLiveHeap: a verifier that judges without end, with a certificate in each report or quote that nobody saw before, does
// not grow.
func TestLiveHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("judges 24,000 files")
	}
	last := 8_000 // twice what a memory keeps
	if os.Getenv("ASSAY_LONG") == "1" {
		last = 100_000
	}
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	all, _ := minted(t)
	for _, e := range endlesses(t) {
		t.Run(e.typ, func(t *testing.T) {
			_, k, err := all[e.base].Open()
			if err != nil {
				t.Fatal(err)
			}
			k.Memory = attest.NewMemory()
			sound := k.Collateral
			var early uint64
			for n := range last {
				k.Collateral = sound
				if n%50 != 0 {
					k.Collateral = nil // most cost no signature check
				}
				o, err := verifier.Open(e.typ, e.make(uint32(n)))
				if err != nil {
					t.Fatal(err)
				}
				a := verifier.Appraise(o, k)
				if n%5000 == 0 {
					for _, c := range a.Claims {
						if c.ID == e.want && c.Status != claim.Affirmed {
							t.Fatalf("%d: %s", n, c.Reason)
						}
					}
				}
				if n == 1000 {
					early = live()
				}
			}
			late := live()
			runtime.KeepAlive(k.Memory)
			if diff := int64(late) - int64(early); diff > 8<<20 {
				t.Errorf("live heap: %d bytes after 1000 appraisals, %d after %d", early, late, last)
			} else {
				t.Logf("live heap grew by %d KiB from 1000 to %d appraisals", diff>>10, last)
			}
		})
	}
}

// warm judges a case whose chains and collateral are remembered.
func warm(name string) func(*testing.B) {
	return func(b *testing.B) {
		all, _ := minted(b)
		o, k, err := all[name].Open()
		if err != nil {
			b.Fatal(err)
		}
		k.Memory = attest.NewMemory()
		verifier.Appraise(o, k)
		for b.Loop() {
			verifier.Appraise(o, k)
		}
	}
}

// verifying returns the bare primitive: one ECDSA verification of a digest, and nothing else.
func verifying(b *testing.B, curve elliptic.Curve) func() {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	digest := make([]byte, (curve.Params().BitSize+7)/8)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest)
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		if !ecdsa.Verify(&key.PublicKey, digest, r, s) {
			b.Error("no signature")
		}
	}
}

// verifications does so many of them.
func verifications(n int, curve elliptic.Curve) func(*testing.B) {
	return func(b *testing.B) {
		one := verifying(b, curve)
		for b.Loop() {
			for range n {
				one()
			}
		}
	}
}

// BenchmarkAppraiseSNPWarm judges a sound report beside the one verification that it cannot do without. The goal is 1.2
// times that.
func BenchmarkAppraiseSNPWarm(b *testing.B) {
	b.Run("one P-384", verifications(1, elliptic.P384()))
	b.Run("genoa-v5", warm("genoa-v5"))
	b.Run("bundle-genoa-v5", warm("bundle-genoa-v5"))
}

// BenchmarkAppraiseTDXWarm judges a sound quote beside the two verifications that it cannot do without, of the quote and of
// the quoting enclave's report. The goal is 1.4 times these.
func BenchmarkAppraiseTDXWarm(b *testing.B) {
	b.Run("two P-256", verifications(2, elliptic.P256()))
	b.Run("tdx-v5", warm("tdx-v5"))
	b.Run("bundle-tdx-v5", warm("bundle-tdx-v5"))
}

// BenchmarkAppraiseTPMWarm judges a sound quote beside the one verification that it cannot do without. The goal is
// 1.3 times that, without the logs.
func BenchmarkAppraiseTPMWarm(b *testing.B) {
	b.Run("one P-256", verifications(1, elliptic.P256()))
	b.Run("tpm-ecc", warm("tpm-ecc"))
	b.Run("without-logs", warm("tpm-no-logs"))
	b.Run("bundle-tpm", warm("bundle-tpm"))
}

// BenchmarkAppraiseHGXWarm judges a sound machine of eight GPUs and four switches behind a CPU TEE, beside the thirteen
// verifications that it cannot do without, spread over the processors. The goal is 1.3 times these.
func BenchmarkAppraiseHGXWarm(b *testing.B) {
	one := verifying(b, elliptic.P384())
	b.Run("thirteen P-384", func(b *testing.B) {
		for b.Loop() {
			var all sync.WaitGroup
			for range 13 {
				all.Go(one)
			}
			all.Wait()
		}
	})
	b.Run("bundle-gpu-hgx", warm("bundle-gpu-hgx"))
}
