package tdx_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/attest/mint"
	"github.com/assay-network/assay/attest/tdx"
)

// issued is a certificate of a hierarchy that crypto/x509 made, of whatever keys and forms a stranger may send.
type issued struct {
	der []byte
	key crypto.Signer
}

// certify issues a certificate under parent, or for itself where parent is nil.
func certify(t *testing.T, parent *issued, name string, ca bool, key crypto.Signer, extra ...pkix.Extension) issued {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0),
		BasicConstraintsValid: true, IsCA: ca, ExtraExtensions: extra,
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

func newKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(ders ...[]byte) (text []byte) {
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

// TestForeignCertificates: certificates under a trusted root that are not of Intel's form are refused for what they are.
func TestForeignCertificates(t *testing.T) {
	const nameCA, namePCK, nameSigner = "Intel SGX PCK Platform CA", "Intel SGX PCK Certificate", "Intel SGX TCB Signing"
	m := newMinted(t)
	small, large := newKey(t, elliptic.P256()), newKey(t, elliptic.P384())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sgx := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}, Value: m.p.Extension()}
	strange := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}
	root := certify(t, nil, "Intel SGX Root CA", true, newKey(t, elliptic.P256()))
	ca := certify(t, &root, nameCA, true, newKey(t, elliptic.P256()))
	pck := certify(t, &ca, namePCK, false, small, sgx)
	roots, err := attest.NewRoots(attest.RootFile{Name: tdx.RootFile, Data: pemOf(root.der)}, m.intel.Roots()[1])
	if err != nil {
		t.Fatal(err)
	}
	m.roots = roots
	judge := func(chain []byte, items ...attest.Collateral) claim.Set {
		q := m.intel.Seal(mint.SoundQuote15(), mint.SoundQE(), m.pck, m.intel.PlatformCA)
		q.Chain = chain
		s, _ := m.judge(q.Encode(), items...)
		return s
	}
	for name, row := range map[string]struct {
		leaf, ca []byte
		words    string // empty: good
	}{
		"sound":                             {pck.der, ca.der, ""},
		"PCK on P-384":                      {certify(t, &ca, namePCK, false, large, sgx).der, ca.der, "bad-certificate: the PCK certificate: its key is not on P-256"},
		"PCK of RSA":                        {certify(t, &ca, namePCK, false, rsaKey, sgx).der, ca.der, "bad-certificate: the PCK certificate: its key is not on P-256"},
		"PCK without the extension":         {certify(t, &ca, namePCK, false, small).der, ca.der, "bad-certificate: the PCK certificate: it lacks the extension 1.2.840.113741.1.13.1"},
		"PCK with the extension twice":      {certify(t, &ca, namePCK, false, small, sgx, sgx).der, ca.der, "bad-certificate: certificate 1 of the chain does not parse"},
		"PCK that certifies others":         {certify(t, &ca, namePCK, true, small, sgx).der, ca.der, `want "Intel SGX PCK Certificate"`},
		"PCK that the root signed":          {certify(t, &root, namePCK, false, small, sgx).der, ca.der, "untrusted: the PCK certificate is not signed by the PCK CA"},
		"PCK that does not parse":           {[]byte{0x30, 0}, ca.der, "bad-certificate: certificate 1 of the chain does not parse"},
		"CA that does not parse":            {pck.der, []byte{0x30, 0}, "bad-certificate: certificate 2 of the chain does not parse"},
		"CA on P-384":                       {pck.der, certify(t, &root, nameCA, true, large).der, "bad-certificate: the PCK CA certificate: its key is not on P-256"},
		"CA with a strange critical matter": {pck.der, certify(t, &root, nameCA, true, ca.key, strange).der, "bad-certificate: the PCK CA certificate: critical extension 1.2.3.4 is not known"},
		"CA that is none": {certify(t, &issued{certify(t, &root, nameCA, false, ca.key).der, ca.key}, namePCK, false, small, sgx).der,
			certify(t, &root, nameCA, false, ca.key).der, "untrusted: the PCK certificate is not signed by the PCK CA"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judge(pemOf(row.leaf, row.ca, root.der))
			if row.words == "" {
				want(t, s, "tdx.chain", claim.Affirmed, "platform")
			} else {
				want(t, s, "tdx.chain", claim.Contradicted, row.words)
			}
		})
	}
	// Those who sign collateral have the same form. None of these has signed anything: that they are named is enough.
	body := mint.SignedBody("tcbInfo", mint.SoundTCBInfo(m.p, now.AddDate(0, 0, -5), 18).JSON(), m.intel.TCBSigner)
	for name, row := range map[string]struct {
		signer issued
		words  string
	}{
		"sound":                          {certify(t, &root, nameSigner, false, small), "collateral-refused: the TCB info is not used: it is not signed by"},
		"on P-384":                       {certify(t, &root, nameSigner, false, large), "collateral-missing: the TCB info is not used: its issuer chain"},
		"with a strange critical matter": {certify(t, &root, nameSigner, false, small, strange), "collateral-missing: the TCB info is not used: its issuer chain"},
		"that certifies others":          {certify(t, &root, nameSigner, true, small), "collateral-missing: the TCB info is not used: its issuer chain"},
		"by the PCK CA":                  {certify(t, &ca, nameSigner, false, small), "collateral-missing: the TCB info is not used: its issuer chain"},
	} {
		t.Run("signer "+name, func(t *testing.T) {
			item, err := tdx.NewSigned(attest.KindIntelTCBInfo, string(pemOf(row.signer.der, root.der)), body)
			if err != nil {
				t.Fatal(err)
			}
			want(t, judge(pemOf(pck.der, ca.der, root.der), item), "tdx.collateral", claim.Unknown, row.words)
		})
	}
}

// TestChainForm: the chain is two or three PEM certificates and nothing else.
func TestChainForm(t *testing.T) {
	m := newMinted(t)
	pck, ca, root := m.pck.PEM(), m.intel.PlatformCA.PEM(), m.intel.Root.PEM()
	headed := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"Proc-Type": "4"}, Bytes: m.intel.PlatformCA.DER})
	typed := pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: m.intel.PlatformCA.DER})
	for name, row := range map[string]struct {
		chain []byte
		words string // empty: good
	}{
		"three":                    {slices.Concat(pck, ca, root), ""},
		"without the root":         {slices.Concat(pck, ca), ""},
		"alone":                    {pck, "1 certificates, want"},
		"nothing":                  {nil, "0 certificates, want"},
		"a NUL":                    {[]byte{0}, "0 certificates, want"},
		"four":                     {slices.Concat(pck, ca, root, root), "more than 3 certificates"},
		"words before":             {slices.Concat([]byte("x"), pck, ca, root), "want PEM certificates"},
		"words between":            {slices.Concat(pck, []byte("\n"), ca, root), "want PEM certificates"},
		"another type":             {slices.Concat(pck, typed, root), "want PEM certificates"},
		"a header":                 {slices.Concat(pck, headed, root), "want PEM certificates"},
		"a certificate cut":        {slices.Concat(pck, ca[:len(ca)-20]), "want PEM certificates"},
		"a NUL between":            {slices.Concat(pck, []byte{0}, ca), "want PEM certificates"},
		"one that is not in PEM":   {slices.Concat(pck, m.intel.PlatformCA.DER), "want PEM certificates"},
		"not in base64 throughout": {bytes.Replace(slices.Concat(pck, ca), []byte("MII"), []byte("M!I"), 1), "want PEM certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			q := m.intel.Seal(mint.SoundQuote(), mint.SoundQE(), m.pck, m.intel.PlatformCA)
			q.Chain = row.chain
			s, _ := m.judge(q.Encode(), m.items...)
			if row.words == "" {
				want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
			} else {
				want(t, s, "tdx.structure", claim.Contradicted, "malformed", row.words)
			}
		})
	}
}

// TestCollateralForm: an item that is no document of this room's is refused for that, and limits are held when one is made.
func TestCollateralForm(t *testing.T) {
	m := newMinted(t)
	raw := m.seal(mint.SoundQuote())
	long := bytes.Repeat([]byte("x"), tdx.MaxBody+1)
	for name, row := range map[string]struct{ data, words string }{
		"no JSON":          {"x", "it is not a document of type assay/intel-signed/v1"},
		"another type":     {`{"body":"e30=","type":"assay/other/v1"}`, "it is not a document of type assay/intel-signed/v1"},
		"a body too long":  {`{"body":"` + string(bytes.Repeat([]byte("AAAA"), tdx.MaxBody/3+1)) + `","type":"assay/intel-signed/v1"}`, "it is not a document of type assay/intel-signed/v1"},
		"too long by far":  {string(bytes.Repeat([]byte(" "), 2*(tdx.MaxBody+tdx.MaxChain)+1)), "557057 bytes, at most 557056"},
		"not as it should": {"{ }", "it is not a document of type assay/intel-signed/v1"},
	} {
		s, _ := m.judge(raw, m.with(0, attest.Collateral{Kind: attest.KindIntelTCBInfo, Data: []byte(row.data)})...)
		t.Run(name, func(t *testing.T) { want(t, s, "tdx.collateral", claim.Unknown, "collateral-refused", row.words) })
	}
	for name, row := range map[string]struct {
		chain string
		body  []byte
		good  bool
	}{
		"sound":                  {"a%0A", []byte("{}"), true},
		"no chain":               {"", []byte("{}"), true},
		"body too long":          {"", long, false},
		"chain too long":         {string(long[:tdx.MaxChain+1]), []byte("{}"), false},
		"chain of another codec": {"%zz", []byte("{}"), false},
	} {
		if item, err := tdx.NewSigned(attest.KindIntelTCBInfo, row.chain, row.body); (err == nil) != row.good || (item.Data != nil) != row.good {
			t.Errorf("%s: %s, %v", name, item.Data, err)
		}
	}
	if items, err := tdx.ReadCollateral(bytes.Repeat([]byte("{"), attest.MaxCRL+1)); items != nil || err != nil {
		t.Errorf("a file beyond every limit: %v, %v", items, err)
	}
	huge := attest.Collateral{Kind: attest.KindIntelCertificate, Data: append(m.intel.TCBSigner.DER, make([]byte, attest.MaxCertificate)...)}
	s, _ := m.judge(raw, append(slices.Clone(m.items), huge)...)
	want(t, s, "tdx.tcb-status", claim.Affirmed, "UpToDate")
}

// TestPlaces: a quote that ends early says what is missing, and a body of TDX 1.0 has nothing of what stands behind it.
func TestPlaces(t *testing.T) {
	m := newMinted(t)
	v4, v5 := m.seal(mint.SoundQuote()), m.seal(mint.SoundQuote15())
	for words, raw := range map[string][]byte{
		"header takes 48 bytes, 47 are left":              v4[:47],
		"TD report body takes 584 bytes, 583 are left":    v4[:48+583],
		"body type and size takes 6 bytes, 5 are left":    v5[:53],
		"TD report body takes 648 bytes, 647 are left":    v5[:54+647],
		"size of the signature data takes 4 bytes, 3 are": v4[:48+584+3],
		"signature data takes":                            v4[:len(v4)-1],
	} {
		s, _ := m.judge(raw)
		want(t, s, "tdx.structure", claim.Contradicted, words)
	}
	u, _, err := tdx.Parse(v4)
	if err != nil {
		t.Fatal(err)
	}
	if q := u.Peek(); q.TEETCBSVN2 != (tdx.SVN{}) || q.MRSERVICETD != [48]byte{} {
		t.Errorf("TEE_TCB_SVN_2 %x and MRSERVICETD %x of a body that has neither", q.TEETCBSVN2, q.MRSERVICETD)
	}
	if _, ok := tdx.Recognize(append(bytes.Repeat([]byte(" "), 4*tdx.MaxQuote), v4...)); ok {
		t.Error("text beyond every limit is searched for a quote")
	}
}
