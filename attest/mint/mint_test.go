package mint_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
	"github.com/assay-network/assay/internal/vectors"
	"github.com/assay-network/assay/ledger"
)

var (
	now   = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	tcb   = sevsnp.TCB{FMC: 1, Bootloader: 4, SNP: 24, Microcode: 219} // 219: an INTEGER of two bytes
	plain = sevsnp.PolicyReservedOne | sevsnp.PolicySMT
)

// everything mints one of each kind.
func everything(line sevsnp.Line) map[string][]byte {
	a := mint.NewAMD(line)
	chip := a.Chip("one")
	vcek, vlek := a.VCEK(chip, tcb, mint.Options{}), a.VLEK("example-cloud", tcb, mint.Options{})
	report, table, err := a.Platform(chip, tcb, [48]byte{1}, plain).Report([64]byte{2}, 0)
	if err != nil {
		panic(err)
	}
	return map[string][]byte{
		"roots": a.Roots()[0].Data, "vcek": vcek.DER, "vlek": vlek.DER, "report": report, "table": table, "vlek table": mint.VLEKTable(vlek),
		"vlek report": mint.Report(a.Fields(chip, tcb), vlek), "crl": a.CRL(now, now.AddDate(1, 0, 0), big.NewInt(7)),
		"deny list": mint.DenyList(1, canon.At(now), canon.At(now.AddDate(0, 1, 0)), attest.Denied{
			Identity: a.Identity(chip), Since: canon.At(now), Reason: "leaked"}),
	}
}

// TestSameBytes: a rerun gives the same bytes, in this process and in all others.
func TestSameBytes(t *testing.T) {
	for line, want := range map[sevsnp.Line]string{
		sevsnp.Milan: "391424b1935524d4e5808375b271a70bb7f07624edae715b06b8d72ea6519e92",
		sevsnp.Genoa: "1bc8660a51928f546d1c8f775767aa7cdb4a48c1e655658c8fc592222337b478",
		sevsnp.Turin: "e9c3b84094413c07ec379a02a15eff7724d478e3889009b551647d874f111bc9",
	} {
		first, second := everything(line), everything(line)
		h := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(first)) {
			if !bytes.Equal(first[name], second[name]) {
				t.Errorf("%s: %s differs in a second run", line, name)
			}
			fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(first[name]))
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			t.Errorf("%s: bytes have changed: digest of all is %s, was %s", line, got, want)
		}
	}
}

// TestShape: minted certificates have the elements, tags and identifiers of AMD's own, in the same order.
func TestShape(t *testing.T) {
	pemDER := func(name string) (all [][]byte) {
		for b, rest := pem.Decode(vectors.Read(t, name)); b != nil; b, rest = pem.Decode(rest) {
			all = append(all, b.Bytes)
		}
		return all
	}
	for _, line := range sevsnp.Lines() {
		a := mint.NewAMD(line)
		real := pemDER("cpu/chain/amd-" + strings.ToLower(string(line)) + "_ask_ark_asvk.pem")
		rows := map[string][2][]byte{"ASK": {a.ASK.DER, real[0]}, "ARK": {a.ARK.DER, real[1]}, "ASVK": {a.ASVK.DER, real[2]}}
		switch line {
		case sevsnp.Milan:
			vcek := a.VCEK(a.Chip("one"), sevsnp.TCB{Bootloader: 2, SNP: 5, Microcode: 68}, mint.Options{})
			wrapped := a.VCEK(a.Chip("one"), sevsnp.TCB{Microcode: 30}, mint.Options{WrapID: true})
			rows["VCEK"] = [2][]byte{vcek.DER, vectors.Read(t, "cpu/snp/gsg-milan-vcek.der")}
			rows["VCEK, wrapped id"] = [2][]byte{wrapped.DER, vectors.Read(t, "cpu/snp/trustee-vcek-invalid-new.der")}
		case sevsnp.Turin:
			rows["VCEK"] = [2][]byte{a.VCEK(a.Chip("one"), sevsnp.TCB{Microcode: 9}, mint.Options{}).DER, vectors.Read(t, "cpu/snp/virtee-turin-vcek.der")}
		}
		for name, pair := range rows {
			ours, theirs := shape(t, pair[0]), shape(t, pair[1])
			if ours != theirs {
				t.Errorf("%s %s:\nminted %s\nreal   %s", line, name, ours, theirs)
			}
		}
	}
}

// shape writes the structure of DER: tags, object identifiers, names, and lengths of strings that hold no number.
func shape(t *testing.T, der []byte) string {
	var b strings.Builder
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d.%d", v.Class, v.Tag)
		switch {
		case v.IsCompound:
			b.WriteString("(" + shape(t, v.Bytes) + ")")
		case v.Class == 2:
			fmt.Fprintf(&b, "[%d]", len(v.Bytes))
		case v.Tag == asn1.TagOID || v.Tag == asn1.TagUTF8String || v.Tag == asn1.TagPrintableString || v.Tag == asn1.TagBoolean:
			fmt.Fprintf(&b, "=%q", v.Bytes)
		case v.Tag == asn1.TagOctetString || v.Tag == asn1.TagBitString:
			fmt.Fprintf(&b, "[%d]", len(v.Bytes))
		}
		b.WriteByte(' ')
		der = rest
	}
	return b.String()
}

func TestOptions(t *testing.T) {
	a := mint.NewAMD(sevsnp.Genoa)
	value := func(c mint.Certificate, oid string) []byte {
		for _, e := range c.X509().Extensions {
			if e.Id.String() == oid {
				return e.Value
			}
		}
		return nil
	}
	const product, hardware, csp = "1.3.6.1.4.1.3704.1.2", "1.3.6.1.4.1.3704.1.4", "1.3.6.1.4.1.3704.1.5"
	chip := a.Chip("one")
	vcek := a.VCEK(chip, tcb, mint.Options{})
	if got := value(vcek, product); string(got[2:]) != "Genoa-B1" || got[0] != asn1.TagIA5String {
		t.Errorf("product %q", got)
	}
	if got := value(vcek, hardware); !bytes.Equal(got, chip[:]) {
		t.Errorf("hardware id %x", got)
	}
	if got := value(a.VCEK(chip, tcb, mint.Options{Product: "Genoa"}), product); string(got[2:]) != "Genoa" {
		t.Errorf("product %q", got)
	}
	if got := value(a.VCEK(chip, tcb, mint.Options{WrapID: true}), hardware); !bytes.Equal(got, append([]byte{4, 64}, chip[:]...)) {
		t.Errorf("wrapped hardware id %x", got)
	}
	vlek := a.VLEK("example-cloud", tcb, mint.Options{})
	if value(vlek, hardware) != nil || string(value(vlek, csp)[2:]) != "example-cloud" || vlek.X509().SerialNumber.Sign() <= 0 {
		t.Error("VLEK: want a CSP id, no hardware id and a serial number")
	}
	if vcek.X509().SerialNumber.Sign() != 0 {
		t.Error("VCEK: want serial number 0")
	}
	dated := a.VCEK(chip, tcb, mint.Options{NotBefore: now, NotAfter: now.AddDate(30, 0, 0)}).X509()
	if !dated.NotBefore.Equal(now) || !dated.NotAfter.Equal(now.AddDate(30, 0, 0)) {
		t.Errorf("dates %v %v", dated.NotBefore, dated.NotAfter)
	}
	crossed := a.VCEK(chip, tcb, mint.Options{Issuer: &a.ASVK}).X509()
	if crossed.Issuer.CommonName != "SEV-VLEK-Genoa" || crossed.CheckSignatureFrom(a.ASVK.X509()) != nil {
		t.Error("VCEK of another issuer is not signed by it")
	}
	turin := mint.NewAMD(sevsnp.Turin)
	id := turin.Chip("one")
	if got := value(turin.VCEK(id, tcb, mint.Options{}), hardware); !bytes.Equal(got, id[:8]) || [56]byte(id[8:]) != [56]byte{} {
		t.Errorf("Turin: hardware id %x, chip id %x", got, id)
	}
}

func TestImpostor(t *testing.T) {
	for _, line := range sevsnp.Lines() {
		a, b := mint.NewAMD(line), mint.NewImpostor(line)
		if !bytes.Equal(a.ARK.X509().RawSubject, b.ARK.X509().RawSubject) || bytes.Equal(a.ARK.X509().RawSubjectPublicKeyInfo, b.ARK.X509().RawSubjectPublicKeyInfo) {
			t.Errorf("%s: want the same name and another key", line)
		}
		vcek := b.VCEK(b.Chip("one"), tcb, mint.Options{}).X509()
		if vcek.CheckSignatureFrom(a.ASK.X509()) == nil || vcek.CheckSignatureFrom(b.ASK.X509()) != nil {
			t.Errorf("%s: the impostor's VCEK is not his own", line)
		}
	}
}

// TestTurin holds what no oracle reads against the standard library: chain and signature of a Turin report.
func TestTurin(t *testing.T) {
	a := mint.NewAMD(sevsnp.Turin)
	p := a.Platform(a.Chip("one"), tcb, [48]byte{1}, plain)
	p.Fields.Version = 5
	raw, table, err := p.Report([64]byte{2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := sevsnp.ParseTable(table)
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for _, der := range certs {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	if err := errors.Join(chain[0].CheckSignatureFrom(chain[1]), chain[1].CheckSignatureFrom(chain[2]), chain[2].CheckSignatureFrom(chain[2])); err != nil {
		t.Error(err)
	}
	scalar := func(offset int) *big.Int {
		b := bytes.Clone(raw[offset : offset+72])
		slices.Reverse(b)
		return new(big.Int).SetBytes(b)
	}
	digest := sha512.Sum384(raw[:0x2a0])
	if !ecdsa.Verify(chain[0].PublicKey.(*ecdsa.PublicKey), digest[:], scalar(0x2a0), scalar(0x2e8)) {
		t.Error("the signature is not by the VCEK")
	}
	digest[0] ^= 1
	if ecdsa.Verify(chain[0].PublicKey.(*ecdsa.PublicKey), digest[:], scalar(0x2a0), scalar(0x2e8)) {
		t.Error("the signature covers anything")
	}
}

func TestCRL(t *testing.T) {
	a, b := mint.NewAMD(sevsnp.Milan), mint.NewImpostor(sevsnp.Milan)
	ask := a.ASK.X509().SerialNumber
	list, err := x509.ParseRevocationList(a.CRL(now, now.AddDate(1, 0, 0), ask))
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(a.ARK.X509()); err != nil {
		t.Error(err)
	}
	if len(list.RevokedCertificateEntries) != 1 || list.RevokedCertificateEntries[0].SerialNumber.Cmp(ask) != 0 {
		t.Errorf("revoked %v", list.RevokedCertificateEntries)
	}
	if !list.ThisUpdate.Equal(now) || !list.NextUpdate.Equal(now.AddDate(1, 0, 0)) || list.Issuer.CommonName != "ARK-Milan" {
		t.Errorf("%v %v %v", list.ThisUpdate, list.NextUpdate, list.Issuer)
	}
	endless, err := x509.ParseRevocationList(a.CRL(now, time.Time{}))
	if err != nil || !endless.NextUpdate.IsZero() || len(endless.RevokedCertificateEntries) != 0 {
		t.Errorf("%v %+v", err, endless)
	}
	forged, err := x509.ParseRevocationList(b.CRL(now, now.AddDate(1, 0, 0)))
	if err != nil || !bytes.Equal(forged.RawIssuer, list.RawIssuer) || forged.CheckSignatureFrom(a.ARK.X509()) == nil {
		t.Errorf("forged list: %v", err)
	}
}

func TestDenyList(t *testing.T) {
	a := mint.NewAMD(sevsnp.Turin)
	entry := attest.Denied{Identity: a.Identity(a.Chip("one")), Since: canon.At(now), Reason: "key leaked"}
	data := mint.DenyList(3, canon.At(now), canon.At(now.AddDate(0, 1, 0)), entry)
	if _, err := ledger.ParseEnvelope(data); err != nil {
		t.Fatal(err)
	}
	l, err := attest.Expect{DenyListKeys: [][]byte{mint.DenyListKey()}}.OpenDenyList(data)
	if err != nil || l.Number != 3 || len(l.Entries) != 1 || len(l.Entries[0].Identity.Value) != 8 || !l.Entries[0].Identity.Equal(entry.Identity) {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := (attest.Expect{}).OpenDenyList(data); err == nil {
		t.Error("a deny list opens without an expected key")
	}
}

func TestPlatform(t *testing.T) {
	a := mint.NewAMD(sevsnp.Milan)
	p := a.Platform(a.Chip("one"), tcb, [48]byte{7}, plain)
	raw, table, err := p.Report([64]byte{9}, 1)
	if err != nil {
		t.Fatal(err)
	}
	u, err := sevsnp.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r := u.Peek(); r.ReportData != [64]byte{9} || r.VMPL != 1 || r.Measurement != [48]byte{7} || r.Policy != plain {
		t.Errorf("%+v", r)
	}
	if certs, err := sevsnp.ParseTable(table); err != nil || len(certs) != 3 || !bytes.Equal(certs[0], p.Signer.DER) {
		t.Errorf("%d certificates, %v", len(certs), err)
	}
	p.Fields.VMPL = 2 // a guest at VMPL 2
	for _, vmpl := range []int{-1, 0, 1, 4} {
		if _, _, err := p.Report([64]byte{}, vmpl); err == nil {
			t.Errorf("a guest at VMPL 2 gets a report for VMPL %d", vmpl)
		}
	}
	if _, _, err := p.Report([64]byte{}, 2); err != nil {
		t.Error(err)
	}
}
