package tpm_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tpm"
)

// issued is a certificate of a hierarchy that crypto/x509 made, of whatever keys and forms a stranger may send.
type issued struct {
	der []byte
	key crypto.Signer
}

func newKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certify issues a certificate under parent, or for itself where parent is nil, with change to the usual form: of an
// authority where its name says so, else of an attestation key.
func certify(t *testing.T, parent *issued, name string, key crypto.Signer, change func(*x509.Certificate)) issued {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: feb.Time().AddDate(-1, 0, 0), NotAfter: feb.Time().AddDate(1, 0, 0),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if strings.HasPrefix(name, "CA") {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	}
	if change != nil {
		change(c)
	}
	of, signer := c, key
	if parent != nil {
		var err error
		if of, err = x509.ParseCertificate(parent.der); err != nil {
			t.Fatal(err)
		}
		signer = parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, of, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return issued{der, key}
}

func pemFile(name string, ders ...[]byte) (f attest.RootFile) {
	f.Name = name
	for _, der := range ders {
		f.Data = append(f.Data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return f
}

// proven says why a certificate of an attestation key does not count under a file of roots, with issuers beside it.
func proven(t *testing.T, file attest.RootFile, leaf []byte, issuers ...issued) string {
	t.Helper()
	roots, err := attest.NewRoots(file)
	if err != nil {
		t.Fatal(err)
	}
	c := attest.Case{Roots: roots, At: feb}
	for _, i := range issuers {
		c.Collateral = append(c.Collateral, attest.Collateral{Kind: attest.KindTPMCertificate, Data: i.der})
	}
	if err := tpm.ProveAK(leaf, &c); err != nil {
		return err.Error()
	}
	return ""
}

// TestAKForms: what the certificate of an attestation key may be.
func TestAKForms(t *testing.T) {
	key := newKey(t, elliptic.P256())
	root := certify(t, nil, "CA", newKey(t, elliptic.P256()), nil)
	extension := func(id asn1.ObjectIdentifier, value []byte) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: id, Critical: true, Value: value}}
		}
	}
	usage := func(id asn1.ObjectIdentifier) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{id} }
	}
	// An alternative name of one directory name, which says nothing of a TPM.
	name, err := asn1.Marshal(pkix.Name{CommonName: "x"}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	san, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: name}})
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		change func(*x509.Certificate)
		words  string // empty: good
	}{
		"sound":                          {nil, ""},
		"for attestation keys":           {usage(asn1.ObjectIdentifier{2, 23, 133, 8, 3}), ""},
		"for endorsement keys":           {usage(asn1.ObjectIdentifier{2, 23, 133, 8, 1}), ""},
		"for another use":                {usage(asn1.ObjectIdentifier{2, 23, 133, 8, 2}), "it is not for an attestation key"},
		"for a server":                   {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, "it is not for an attestation key"},
		"not to sign":                    {func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }, "its key usage is not to sign"},
		"without usage":                  {func(c *x509.Certificate) { c.KeyUsage = 0 }, "its key usage is not to sign"},
		"an authority":                   {func(c *x509.Certificate) { c.IsCA = true }, "it is for an authority"},
		"a critical matter":              {extension(asn1.ObjectIdentifier{1, 2, 3}, []byte{5, 0}), "critical extension 1.2.3 is not known"},
		"a name that is no TPM's":        {extension(asn1.ObjectIdentifier{2, 5, 29, 17}, san), "critical extension 2.5.29.17 is not known"},
		"a name that is no name":         {extension(asn1.ObjectIdentifier{2, 5, 29, 17}, []byte{0x30, 4, 0xa4, 2, 4, 0}), "critical extension 2.5.29.17 is not known"},
		"a name that is a number":        {extension(asn1.ObjectIdentifier{2, 5, 29, 17}, []byte{0x30, 3, 0x88, 1, 0x2a}), "critical extension 2.5.29.17 is not known"},
		"a name with a broken attribute": {extension(asn1.ObjectIdentifier{2, 5, 29, 17}, []byte{0x30, 8, 0xa4, 6, 0x30, 4, 0x31, 2, 4, 0}), "critical extension 2.5.29.17 is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			got := proven(t, pemFile("tpm-x.pem", root.der), certify(t, &root, "ak", key, row.change).der)
			if (got == "") != (row.words == "") || !strings.Contains(got, row.words) {
				t.Errorf("%q, want %q", got, row.words)
			}
		})
	}
	if got := proven(t, pemFile("tpm-x.pem", root.der), certify(t, &root, "ak", newKey(t, elliptic.P521()), nil).der); !strings.Contains(got, "its key is of a kind that this build does not know") {
		t.Errorf("a key on P-521: %q", got)
	}
	for words, der := range map[string][]byte{
		fmt.Sprintf("a certificate of %d bytes, at most", attest.MaxCertificate+1): make([]byte, attest.MaxCertificate+1),
		"it does not parse":                        {0x30, 0},
		"it does not parse, nor does it in strict": {0x30, 0x81, 0},
	} {
		if got := proven(t, pemFile("tpm-x.pem", root.der), der); !strings.HasPrefix(got, words) || words == "it does not parse" && got != words {
			t.Errorf("%.20x: %q, want %q", der, got, words)
		}
	}
	// The key of an RSA endorsement certificate enciphers.
	s := of(t, mint.NewTPMMaker().RSATPM("two", tpm.AlgRSASSA))
	s.put(tpm.PartEKCertificate, s.tpm.AKCertificate(mint.TPMOptions{}).DER)
	set, _ := s.appraise()
	if why := string(set.Find("tpm.ek-chain", subject).Reason); !strings.Contains(why, "its key usage is not to encipher keys") {
		t.Errorf("an attestation key's certificate as an RSA endorsement certificate: %q", why)
	}
}

// TestAKPaths: how a certificate may lead to a root, and what the way may cost.
func TestAKPaths(t *testing.T) {
	key := newKey(t, elliptic.P256())
	fresh := func() crypto.Signer { return newKey(t, elliptic.P256()) }
	root := certify(t, nil, "CA", fresh(), nil)
	file := pemFile("tpm-x.pem", root.der)
	path := func(n int) (leaf []byte, issuers []issued) {
		at := root
		for i := range n {
			at = certify(t, &at, fmt.Sprintf("CA %d", i), fresh(), nil)
			issuers = append(issuers, at)
		}
		return certify(t, &at, "ak", key, nil).der, issuers
	}
	check := func(name, got, words string) {
		t.Helper()
		if (got == "") != (words == "") || !strings.Contains(got, words) {
			t.Errorf("%s: %q, want %q", name, got, words)
		}
	}
	for n, words := range map[int]string{0: "", 1: "", 4: "", 5: "no path to a root of this set"} {
		leaf, issuers := path(n)
		check(fmt.Sprintf("%d certificates between", n), proven(t, file, leaf, issuers...), words)
	}
	leaf, issuers := path(1)
	check("file of another format", proven(t, pemFile("x.pem", root.der), leaf, issuers...), "is not at hand")
	check("file with a certificate that does not parse", proven(t, pemFile("tpm-x.pem", []byte{0x30, 0}, root.der), leaf, issuers...), "")
	check("issuer left out", proven(t, file, leaf), `its issuer "CA 0" is not at hand`)
	foreign := certify(t, nil, "CA of a stranger", fresh(), nil)
	check("stranger's root beside it", proven(t, file, certify(t, &foreign, "ak", key, nil).der, foreign), `its root "CA of a stranger" is not of this set`)
	namesake := certify(t, nil, "CA", fresh(), nil)
	check("root's name, another's key", proven(t, file, certify(t, &namesake, "ak", key, nil).der), `its signature is not by the "CA" that it names as issuer`)

	between := func(change func(*x509.Certificate)) (leaf []byte, issuer issued) {
		issuer = certify(t, &root, "CA 0", fresh(), change)
		return certify(t, &issuer, "ak", key, nil).der, issuer
	}
	for name, change := range map[string]func(*x509.Certificate){
		"issuer that is no authority":  func(c *x509.Certificate) { c.IsCA = false },
		"issuer that does not certify": func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature },
		"issuer with a critical matter": func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		},
		"issuer without basic constraints": func(c *x509.Certificate) { c.BasicConstraintsValid, c.IsCA = false, false },
	} {
		leaf, issuer := between(change)
		check(name, proven(t, file, leaf, issuer), `its issuer "CA 0" is not at hand`)
	}
	short := certify(t, &root, "CA 0", fresh(), func(c *x509.Certificate) { c.MaxPathLenZero = true })
	below := certify(t, &short, "CA 1", fresh(), nil)
	check("an authority that certifies leaves alone", proven(t, file, certify(t, &short, "ak", key, nil).der, short), "")
	check("an authority below it", proven(t, file, certify(t, &below, "ak", key, nil).der, short, below), `its issuer "CA 0" is not at hand`)

	// Strangers of the issuer's name cost a check each.
	leaf, issuers = path(1)
	for n, words := range map[int]string{4: "", 5: "more than 6 signatures to check"} {
		var many []issued
		for range n {
			many = append(many, certify(t, &root, "CA 0", fresh(), nil))
		}
		check(fmt.Sprintf("%d namesakes before the issuer", n), proven(t, file, leaf, append(many, issuers...)...), words)
	}
}

// TestSloppyForms (P21): lengths, integers and truths that strict DER forbids are read, and the signature counts over the
// bytes as received.
func TestSloppyForms(t *testing.T) {
	key := newKey(t, elliptic.P256())
	root := certify(t, nil, "CA", newKey(t, elliptic.P256()), nil)
	file := pemFile("tpm-x.pem", root.der)
	sequence := func(content ...[]byte) []byte {
		b, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: bytes.Join(content, nil)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// resigned changes what a certificate says, and has the root sign it anew.
	resigned := func(der []byte, from, to string) []byte {
		var outer struct{ TBS, Algorithm, Signature asn1.RawValue }
		if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 {
			t.Fatal(err)
		}
		if !bytes.Contains(outer.TBS.Bytes, []byte(from)) {
			t.Fatalf("no %x in the certificate", from)
		}
		tbs := sequence(bytes.Replace(outer.TBS.Bytes, []byte(from), []byte(to), 1))
		digest := sha256.Sum256(tbs)
		sig, err := ecdsa.SignASN1(rand.Reader, root.key.(*ecdsa.PrivateKey), digest[:])
		if err != nil {
			t.Fatal(err)
		}
		bits, err := asn1.Marshal(asn1.BitString{Bytes: sig, BitLength: 8 * len(sig)})
		if err != nil {
			t.Fatal(err)
		}
		return sequence(tbs, outer.Algorithm.FullBytes, bits)
	}
	strict := certify(t, &root, "ak", key, nil).der
	value := func(b ...byte) []byte { // of the extension of basic constraints
		return certify(t, &root, "ak", key, func(c *x509.Certificate) {
			c.BasicConstraintsValid = false
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: b}}
		}).der
	}
	const keyUsage = "\x06\x03\x55\x1d\x0f"
	for name, row := range map[string]struct {
		der   []byte
		words string // empty: read
	}{
		"strict, signed anew":               {resigned(strict, "\x02\x01\x01", "\x02\x01\x02"), ""},
		"serial with a zero before it":      {resigned(strict, "\x02\x01\x01", "\x02\x02\x00\x01"), ""},
		"truth of 01":                       {resigned(strict, keyUsage+"\x01\x01\xff", keyUsage+"\x01\x01\x01"), ""},
		"long length within an extension":   {value(0x30, 0x81, 0), ""},
		"truth of 01 within an extension":   {value(0x30, 3, 1, 1, 1), "it is for an authority"},
		"nonsense within an extension":      {value(0x30, 0x81), "it does not parse"},
		"nested beyond the limit":           {bytes.Repeat([]byte{0x30, 0x80}, 9), "it does not parse"},
		"sloppy, and its signature flipped": {flipLast(resigned(strict, "\x02\x01\x01", "\x02\x02\x00\x01")), `its signature is not by the "CA"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := proven(t, file, row.der); (got == "") != (row.words == "") || !strings.Contains(got, row.words) {
				t.Errorf("%q, want %q", got, row.words)
			}
		})
	}
	deep := []byte{0x04, 0x81, 0}
	for range 40 {
		deep = sequence(deep)
	}
	if got := proven(t, file, deep); got != "it does not parse" {
		t.Errorf("40 sequences within one another: %q", got)
	}
}

func flipLast(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-1] ^= 1
	return b
}
