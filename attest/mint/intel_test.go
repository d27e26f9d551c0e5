package mint_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
)

// everythingIntel mints one of each kind.
func everythingIntel() map[string][]byte {
	i := mint.NewIntel()
	p := i.IntelPlatform("one")
	td := i.TD(p, mint.SoundQuote15())
	out := map[string][]byte{
		"root": i.Root.DER, "platform CA": i.PlatformCA.DER, "processor CA": i.ProcessorCA.DER, "signer": i.TCBSigner.DER,
		"signers of enclaves": i.Roots()[1].Data, "pck": td.PCK.DER, "quote": td.Quote([64]byte{2}),
		"quote of version 4": i.TD(p, mint.SoundQuote()).Quote([64]byte{2}), "revoking": i.RootCRL(now, now.AddDate(1, 0, 0), i.PlatformCA.X509().SerialNumber),
	}
	for _, item := range i.Collateral(p, now, 18) {
		out[item.Kind] = item.Data
	}
	return out
}

// TestIntelSameBytes: a rerun gives the same bytes, in this process and in all others.
func TestIntelSameBytes(t *testing.T) {
	const want = "b9e73ea5296f76cb715ec28f6092dd7c14e67728b375ce114336b4b8c610b502"
	first, second := everythingIntel(), everythingIntel()
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs in a second run", name)
		}
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(first[name]))
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("bytes have changed: digest of all is %s, was %s", got, want)
	}
}

// TestIntelShape: minted certificates have the elements, tags and identifiers of Intel's own, in the same order. Serial
// numbers, keys and signatures differ in length by their leading bits.
func TestIntelShape(t *testing.T) {
	raw, _ := tdx.Recognize(vectors.Read(t, "cpu/tdx/dcapqvl-tdx_quote.bin"))
	u, _, err := tdx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	chain := pemDER(u.Peek().Chain)
	var signed tdx.Signed
	items, err := tdx.ReadCollateral(vectors.Read(t, "cpu/tdx/dcapqvl-tdx_quote_collateral.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := canon.Unmarshal(items[0].Data, &signed); err != nil {
		t.Fatal(err)
	}
	i := mint.NewIntel()
	td := i.TD(i.IntelPlatform("one"), mint.SoundQuote())
	for name, pair := range map[string][2][]byte{
		"PCK": {td.PCK.DER, chain[0]}, "PCK CA": {i.PlatformCA.DER, chain[1]}, "root": {i.Root.DER, chain[2]},
		"TCB signer": {i.TCBSigner.DER, pemDER([]byte(signed.Chain))[0]},
	} {
		cut := func(der []byte) string { // the signature's length is not the matter
			s := shape(t, der)
			return s[:strings.LastIndex(s, "0.3[")]
		}
		if ours, theirs := cut(pair[0]), cut(pair[1]); ours != theirs {
			t.Errorf("%s:\nminted %s\nreal   %s", name, ours, theirs)
		}
	}
}

func pemDER(text []byte) (all [][]byte) {
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		all = append(all, b.Bytes)
	}
	return all
}

func TestIntelImpostor(t *testing.T) {
	a, b := mint.NewIntel(), mint.NewIntelImpostor()
	if !bytes.Equal(a.Root.X509().RawSubject, b.Root.X509().RawSubject) || bytes.Equal(a.Root.X509().RawSubjectPublicKeyInfo, b.Root.X509().RawSubjectPublicKeyInfo) {
		t.Error("want the same name and another key")
	}
	pck := b.PCK(b.IntelPlatform("one"), mint.PCKOptions{}).X509()
	if pck.CheckSignatureFrom(a.PlatformCA.X509()) == nil || pck.CheckSignatureFrom(b.PlatformCA.X509()) != nil {
		t.Error("the impostor's PCK is not his own")
	}
}

func TestIntelCRL(t *testing.T) {
	i := mint.NewIntel()
	list, err := x509.ParseRevocationList(i.PCKCRL(i.ProcessorCA, now, now.AddDate(0, 0, 30), i.PCK(i.IntelPlatform("one"), mint.PCKOptions{}).X509().SerialNumber))
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(i.ProcessorCA.X509()); err != nil || len(list.RevokedCertificateEntries) != 1 || list.Issuer.CommonName != "Intel SGX PCK Processor CA" {
		t.Errorf("%v, %+v", err, list.Issuer)
	}
	endless, err := x509.ParseRevocationList(i.RootCRL(now, time.Time{}))
	if err != nil || !endless.NextUpdate.IsZero() || endless.CheckSignatureFrom(i.Root.X509()) != nil {
		t.Errorf("%v, %+v", err, endless)
	}
}

func TestIntelOptions(t *testing.T) {
	i := mint.NewIntel()
	p := i.IntelPlatform("one")
	if other := i.IntelPlatform("two"); other.PPID == p.PPID || other.PIID == p.PIID || other.FMSPC != p.FMSPC {
		t.Errorf("%+v %+v", p, other)
	}
	dated := i.PCK(p, mint.PCKOptions{NotBefore: now, NotAfter: now.AddDate(1, 0, 0), Issuer: &i.ProcessorCA}).X509()
	if !dated.NotBefore.Equal(now) || !dated.NotAfter.Equal(now.AddDate(1, 0, 0)) || dated.CheckSignatureFrom(i.ProcessorCA.X509()) != nil {
		t.Errorf("%v %v %v", dated.NotBefore, dated.NotAfter, dated.Issuer)
	}
	if items := i.Collateral(p, now, 18); len(items) != 4 || items[0].Kind != attest.KindIntelTCBInfo || items[3].Kind != attest.KindIntelRootCRL {
		t.Errorf("%d items", len(items))
	}
}
