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
	c := all["chain-last-second"]
	if got := appraise(t, c, m).Claims.Find("sevsnp.chain", "cpu:0"); got.Status != claim.Affirmed {
		t.Fatal(got.Reason)
	}
	later := c
	later.AsOf++
	if got := appraise(t, later, m).Claims.Find("sevsnp.chain", "cpu:0"); got.Status != claim.Contradicted || got.Reason.Code() != "lapsed" {
		t.Errorf("one second later: %s %s", got.Status, got.Reason)
	}
	vendor := c
	vendor.Roots = testvectors.RootsVendor
	if got := appraise(t, vendor, m).Claims.Find("sevsnp.chain", "cpu:0"); got.Status != claim.Contradicted || got.Reason.Code() != "untrusted" {
		t.Errorf("under other roots: %s %s", got.Status, got.Reason)
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

// TestLiveHeap: a verifier that judges without end, with a certificate in each report that nobody saw before, does not
// grow.
func TestLiveHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("judges 20,000 reports")
	}
	last := 20_000
	if os.Getenv("ASSAY_LONG") == "1" {
		last = 100_000
	}
	all, _ := minted(t)
	_, k, err := all["genoa-v5"].Open()
	if err != nil {
		t.Fatal(err)
	}
	k.Memory = attest.NewMemory()
	report, der := all["genoa-v5"].Evidence, hostileCertificate(t)
	table := make([]byte, 48, 48+len(der))
	table[0] = 1
	binary.LittleEndian.PutUint32(table[16:], 48)
	binary.LittleEndian.PutUint32(table[20:], uint32(len(der)))
	sound := k.Collateral
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	for n := range last {
		binary.BigEndian.PutUint32(der[len(der)-4:], uint32(n)) // of its signature, which is no good anyway
		k.Collateral = sound
		if n%50 != 0 {
			k.Collateral = nil // most cost no signature check
		}
		o, err := verifier.Open(verifier.TypeSEVSNP, append(append(bytes.Clone(report), table...), der...))
		if err != nil {
			t.Fatal(err)
		}
		a := verifier.Appraise(o, k)
		if n%5000 == 0 {
			if c := a.Claims.Find("sevsnp.signature", "cpu:0"); c.Status != claim.Affirmed {
				t.Fatalf("%d: %s", n, c.Reason)
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
}

// BenchmarkAppraiseSNPWarm judges a sound report whose chain is remembered. Compare with BenchmarkP384Verify.
func BenchmarkAppraiseSNPWarm(b *testing.B) {
	all, _ := minted(b)
	for _, name := range []string{"genoa-v5", "bundle-genoa-v5"} {
		b.Run(name, func(b *testing.B) {
			o, k, err := all[name].Open()
			if err != nil {
				b.Fatal(err)
			}
			k.Memory = attest.NewMemory()
			verifier.Appraise(o, k)
			for b.Loop() {
				verifier.Appraise(o, k)
			}
		})
	}
}

// BenchmarkP384Verify is the bare primitive: one ECDSA P-384 verification of a SHA-384 digest.
func BenchmarkP384Verify(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	digest := make([]byte, 48)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !ecdsa.Verify(&key.PublicKey, digest, r, s) {
			b.Fatal("no signature")
		}
	}
}
