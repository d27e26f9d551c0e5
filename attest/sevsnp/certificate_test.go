package sevsnp_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/sevsnp"
	"github.com/assay-network/assay/internal/canon"
)

// Here certificates are made by the standard library, with any content: package mint makes only what AMD issues.

var certified = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// holder is a certificate and its key.
type holder struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// certify issues a certificate by issuer, or self-signed.
func certify(t testing.TB, template x509.Certificate, key *ecdsa.PrivateKey, issuer *holder) holder {
	t.Helper()
	if template.NotBefore.IsZero() {
		template.NotBefore = certified.AddDate(-1, 0, 0)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = certified.AddDate(1, 0, 0)
	}
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(1)
	}
	by := holder{&template, key}
	if issuer != nil {
		by = *issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return holder{c, key}
}

func authority(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
}

// ext is an extension below AMD's arc. A byte string is the value as it stands, anything else is encoded.
func ext(id string, value any, tag string) pkix.Extension {
	arcs := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 3704, 1}
	for arc := range strings.SplitSeq(id, ".") {
		n, err := strconv.Atoi(arc)
		if err != nil {
			panic(err)
		}
		arcs = append(arcs, n)
	}
	der, raw := value.([]byte)
	if !raw {
		var err error
		if der, err = asn1.MarshalWithParams(value, tag); err != nil {
			panic(err)
		}
	}
	return pkix.Extension{Id: arcs, Value: der}
}

// extensions are those of a sound Milan VCEK of chip, at bl=4 tee=0 snp=24 ucode=219.
func extensions(hardwareID []byte) []pkix.Extension {
	return []pkix.Extension{
		ext("2", "Milan-B0", "ia5"), ext("3.1", 4, ""), ext("3.2", 0, ""), ext("3.3", 24, ""), ext("3.8", 219, ""), ext("4", hardwareID, ""),
	}
}

// without returns the extensions but for one, with others in its place.
func without(list []pkix.Extension, id string, more ...pkix.Extension) []pkix.Extension {
	gone := ext(id, 0, "").Id
	return append(slices.DeleteFunc(slices.Clone(list), func(e pkix.Extension) bool { return e.Id.Equal(gone) }), more...)
}

// situation is a report, its certificate and the chain above it. The zero fields are filled in soundly.
type situation struct {
	chip       [64]byte
	extensions []pkix.Extension
	leaf       x509.Certificate
	leafKey    *ecdsa.PrivateKey
	ask        x509.Certificate
	ark        x509.Certificate
	askIssuer  *holder // nil: the ARK
	leafIssuer *holder // nil: the ASK
	noASK      bool    // the root set holds the ARK alone
	report     func(*sevsnp.Report)
	mangle     func([]byte) []byte // changes the certificate after it was signed
}

// judge makes everything and appraises it.
func (s situation) judge(t testing.TB) claim.Set {
	t.Helper()
	if s.ark.Subject.CommonName == "" {
		s.ark = authority("ARK-Milan")
	}
	if s.ask.Subject.CommonName == "" {
		s.ask = authority("SEV-Milan")
	}
	if s.chip == ([64]byte{}) {
		s.chip = [64]byte{1, 2, 3, 63: 9}
	}
	if s.extensions == nil {
		s.extensions = extensions(s.chip[:])
	}
	if s.leafKey == nil {
		s.leafKey = newKey(t, elliptic.P384())
	}
	ark := certify(t, s.ark, newKey(t, elliptic.P384()), nil)
	if s.askIssuer == nil {
		s.askIssuer = &ark
	}
	ask := certify(t, s.ask, newKey(t, elliptic.P384()), s.askIssuer)
	if s.leafIssuer == nil {
		s.leafIssuer = &ask
	}
	s.leaf.Subject.CommonName = "SEV-VCEK"
	s.leaf.ExtraExtensions = append(s.leaf.ExtraExtensions, s.extensions...)
	leaf := certify(t, s.leaf, s.leafKey, s.leafIssuer)

	var file bytes.Buffer
	for _, c := range []holder{ark, ask} {
		if c == ask && s.noASK {
			continue
		}
		if err := pem.Encode(&file, &pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	roots, err := attest.NewRoots(attest.RootFile{Name: "amd-milan.pem", Data: file.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	tcb := sevsnp.TCB{Bootloader: 4, SNP: 24, Microcode: 219}.Encode(sevsnp.Milan)
	r := sevsnp.Report{
		Version: 3, Policy: sevsnp.PolicyReservedOne, SignatureAlgo: 1, Family: 0x19, Model: 1, ChipID: s.chip,
		ReportedTCB: tcb, CurrentTCB: tcb, CommittedTCB: tcb, LaunchTCB: tcb,
	}
	if s.report != nil {
		s.report(&r)
	}
	raw := r.Encode()
	sum := sha512.Sum384(raw[:0x2A0])
	x, y, err := ecdsa.Sign(rand.Reader, s.leafKey, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []*big.Int{x, y} {
		at := raw[0x2A0+72*i:][:72]
		n.FillBytes(at)
		slices.Reverse(at)
	}
	der := leaf.cert.Raw
	if s.mangle != nil {
		der = s.mangle(bytes.Clone(der))
	}
	comp := attest.Component{Class: attest.ClassCPU, MediaType: sevsnp.MediaType, Label: "cpu0", Parts: []attest.Part{{Name: sevsnp.PartReport, Data: raw}}}
	c := attest.Case{Roots: roots, At: canon.At(certified), Collateral: []attest.Collateral{{Kind: attest.KindAMDCertificate, Data: der}}}
	var set claim.Set
	sevsnp.Appraise(comp, "cpu:0", &c, attest.Asked{}, &set)
	set.Settle()
	return set
}

func TestSigningCertificate(t *testing.T) {
	chip := [64]byte{0x04, 0x3E, 63: 7}    // looks like an OCTET STRING of 62 bytes
	integer := [64]byte{0x02, 0x01, 63: 7} // looks like an INTEGER
	wrapped := append([]byte{4, 64}, chip[:]...)
	flipped := bytes.Clone(chip[:])
	flipped[40] ^= 1
	sound := extensions(chip[:])
	p256 := newKey(t, elliptic.P256())
	stranger := certify(t, authority("SEV-Milan"), newKey(t, elliptic.P384()), nil)
	for _, row := range []struct {
		name   string
		s      situation
		id     string // empty: all of chain, signature, cert-tcb and cert-chip-id are affirmed
		status claim.Status
		code   string
	}{
		{"sound", situation{}, "", 0, ""},
		// P09: the hardware id is raw bytes; only its length tells.
		{"id begins like an OCTET STRING", situation{chip: chip, extensions: sound}, "", 0, ""},
		{"id begins like an INTEGER", situation{chip: integer}, "", 0, ""},
		{"wrapped id", situation{chip: chip, extensions: without(sound, "4", ext("4", wrapped, ""))}, "", 0, ""},
		{"flipped id", situation{chip: chip, extensions: without(sound, "4", ext("4", flipped, ""))}, "sevsnp.cert-chip-id", claim.Contradicted, claim.Mismatch},
		{"flipped wrapped id", situation{chip: chip, extensions: without(sound, "4", ext("4", append([]byte{4, 64}, flipped...), ""))}, "sevsnp.cert-chip-id", claim.Contradicted, claim.Mismatch},
		{"8 bytes of id that begin the chip's", situation{chip: chip, extensions: without(sound, "4", ext("4", chip[:8], ""))}, "sevsnp.cert-chip-id", claim.Contradicted, claim.Mismatch},
		{"id of 63 bytes", situation{chip: chip, extensions: without(sound, "4", ext("4", chip[:63], ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"id of 65 bytes", situation{chip: chip, extensions: without(sound, "4", ext("4", append(chip[:], 0), ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"id wrapped as an INTEGER", situation{chip: chip, extensions: without(sound, "4", ext("4", append([]byte{2, 64}, chip[:]...), ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"no id and no cloud", situation{chip: chip, extensions: without(sound, "4")}, "sevsnp.chain", claim.Unknown, claim.CollateralMissing},
		{"a chip and a cloud", situation{chip: chip, extensions: append(slices.Clone(sound), ext("5", "cloud", "ia5"))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"empty cloud", situation{chip: chip, extensions: append(slices.Clone(sound), ext("5", "", "ia5"))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		// OIDs are matched whole, values to the last byte.
		{"no boot loader", situation{chip: chip, extensions: without(sound, "3.1")}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"no TEE", situation{chip: chip, extensions: without(sound, "3.2")}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"no SNP", situation{chip: chip, extensions: without(sound, "3.3")}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"no microcode", situation{chip: chip, extensions: without(sound, "3.8")}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"microcode under a longer OID", situation{chip: chip, extensions: without(sound, "3.8", ext("3.8.1", 219, ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"boot loader twice", situation{chip: chip, mangle: func(der []byte) []byte {
			tee := []byte{6, 10, 0x2B, 6, 1, 4, 1, 0x9C, 0x78, 1, 3, 2}
			return bytes.Replace(der, tee, append(tee[:11:11], 1), 1)
		}}, "sevsnp.chain", claim.Unknown, claim.CollateralMissing},
		{"SNP 256", situation{chip: chip, extensions: without(sound, "3.3", ext("3.3", 256, ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"SNP -1", situation{chip: chip, extensions: without(sound, "3.3", ext("3.3", -1, ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"SNP with a byte behind", situation{chip: chip, extensions: without(sound, "3.3", ext("3.3", []byte{2, 1, 24, 0}, ""))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"long product", situation{chip: chip, extensions: without(sound, "2", ext("2", strings.Repeat("M", 65), "ia5"))}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"FMC on Milan", situation{chip: chip, extensions: append(slices.Clone(sound), ext("3.9", 0, ""))}, "sevsnp.cert-tcb", claim.Contradicted, claim.Mismatch},
		{"key on P-256", situation{chip: chip, leafKey: p256}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"critical extension that nobody knows", situation{chip: chip, leaf: x509.Certificate{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}}}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"serial number of 21 bytes", situation{leaf: x509.Certificate{SerialNumber: new(big.Int).Lsh(big.NewInt(1), 160)}}, "sevsnp.chain", claim.Contradicted, "bad-certificate"},
		{"serial number of 20 bytes", situation{leaf: x509.Certificate{SerialNumber: new(big.Int).Lsh(big.NewInt(1), 158)}}, "", 0, ""},
		{"extension that nobody knows", situation{chip: chip, leaf: x509.Certificate{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}}}, "", 0, ""},
		// The chain: one intermediate of the right name, signed by the root.
		{"ASK of another line's name", situation{ask: authority("SEV-Genoa")}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"ASVK above a VCEK", situation{ask: authority("SEV-VLEK-Milan")}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"ARK of another name", situation{ark: authority("ARK-Naples")}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"ASK that is no authority", situation{ask: x509.Certificate{Subject: pkix.Name{CommonName: "SEV-Milan"}}}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"ASK signed by itself", situation{askIssuer: &stranger}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"VCEK signed by another SEV-Milan", situation{leafIssuer: &stranger}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"no ASK anywhere", situation{noASK: true}, "sevsnp.chain", claim.Contradicted, "untrusted"},
		{"ASK lapsed, VCEK not", situation{ask: func() x509.Certificate {
			a := authority("SEV-Milan")
			a.NotAfter = certified.Add(-time.Second)
			return a
		}()}, "sevsnp.chain", claim.Contradicted, "lapsed"},
		{"ARK not yet valid", situation{ark: func() x509.Certificate {
			a := authority("ARK-Milan")
			a.NotBefore = certified.Add(time.Second)
			return a
		}()}, "sevsnp.chain", claim.Contradicted, "not-yet-valid"},
		{"T04 ASK ends this second", situation{ask: func() x509.Certificate {
			a := authority("SEV-Milan")
			a.NotAfter = certified
			return a
		}()}, "", 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			set := row.s.judge(t)
			if row.id == "" {
				for _, id := range []string{"sevsnp.chain", "sevsnp.signing-key", "sevsnp.signature", "sevsnp.cert-tcb", "sevsnp.cert-chip-id"} {
					if c := set.Find(id, "cpu:0"); c.Status != claim.Affirmed {
						t.Errorf("%s is %s: %s", id, c.Status, c.Reason)
					}
				}
				return
			}
			c := set.Find(row.id, "cpu:0")
			if c.Status != row.status || c.Reason.Code() != row.code {
				t.Errorf("%s is %s (%s), want %s %s", row.id, c.Status, c.Reason, row.status, row.code)
			}
			if row.id == "sevsnp.chain" {
				// C01: no later step may say that the report is well signed.
				for _, id := range []string{"sevsnp.signature", "sevsnp.cert-tcb", "sevsnp.cert-chip-id", "sevsnp.tcb", "sevsnp.measurement", "sevsnp.debug-off"} {
					if c := set.Find(id, "cpu:0"); c.Status == claim.Affirmed {
						t.Errorf("%s is affirmed over a chain that is not", id)
					}
				}
			}
		})
	}
}

// TestVendorRoots holds AMD's pinned files: each line's ARK signed itself, its ASK and its ASVK.
func TestVendorRoots(t *testing.T) {
	files := sevsnp.VendorRoots()
	if len(files) != len(sevsnp.Lines()) {
		t.Fatalf("%d files", len(files))
	}
	fingerprints := map[string]string{"amd-milan.pem": "69d063b4", "amd-genoa.pem": "4c6598d1", "amd-turin.pem": "1f084161"} // of the ARKs
	for _, f := range files {
		byName := map[string]*x509.Certificate{}
		for b, rest := pem.Decode(f.Data); b != nil; b, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			byName[c.Subject.CommonName] = c
		}
		line := strings.TrimSuffix(strings.TrimPrefix(f.Name, "amd-"), ".pem")
		line = strings.ToUpper(line[:1]) + line[1:]
		ark, ask, asvk := byName["ARK-"+line], byName["SEV-"+line], byName["SEV-VLEK-"+line]
		if ark == nil || ask == nil || asvk == nil || len(byName) != 3 {
			t.Fatalf("%s: %v", f.Name, byName)
		}
		if canon.Sum(ark.Raw).Short() != fingerprints[f.Name] {
			t.Errorf("%s: fingerprint %s", f.Name, canon.Sum(ark.Raw))
		}
		for _, c := range []*x509.Certificate{ark, ask, asvk} {
			if err := c.CheckSignatureFrom(ark); err != nil {
				t.Errorf("%s: %s: %v", f.Name, c.Subject.CommonName, err)
			}
		}
	}
}
