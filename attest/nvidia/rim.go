package nvidia

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
)

// Namespaces and algorithms of a manifest (ISO/IEC 19770-2:2015, TCG Reference Integrity Manifest Information Model, XML
// Signature 1.1).
const (
	spaceSWID      = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"
	spaceSignature = "http://www.w3.org/2000/09/xmldsig#"
	spaceSHA384    = "http://www.w3.org/2001/04/xmlenc#sha384"

	algC14N      = "http://www.w3.org/2006/12/xml-c14n11"
	algSignature = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"
	algDigest    = "http://www.w3.org/2001/04/xmldsig-more#sha384"
	algEnveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
)

// RIM is a reference integrity manifest: what measurements should be.
type RIM struct {
	TagID   string
	Product string   // GH100, GB100, LS10
	Edition string   // GPU, SWITCH
	Version string   // of the driver or VBIOS that it speaks of
	Golden  []Golden // by index, ascending
}

// Golden is what one measurement should be.
type Golden struct {
	Index        int
	Active       bool // others are not compared
	Alternatives [][MeasurementSize]byte
}

// manifest is a decoded document with its signature, none of it verified.
type manifest struct {
	RIM
	digest       []byte   // that the signature states
	signed       [48]byte // SHA-384 of what it covers, canonical
	info         [48]byte // SHA-384 of SignedInfo, canonical
	signature    []byte   // R and S
	certificates [][]byte // DER, the signer's first
}

// ReadRIM decodes a manifest, and says what is wrong with one that does not keep to the profile: exactly Entity, Meta,
// Payload and Signature, the signature last and over the whole document, with exactly the algorithms above and a chain of
// certificates. It verifies nothing.
func ReadRIM(data []byte) (RIM, error) {
	m, err := readManifest(data)
	return m.RIM, err
}

func readManifest(data []byte) (m manifest, err error) {
	if len(data) > MaxRIM {
		return m, fmt.Errorf("%d bytes, at most %d", len(data), MaxRIM)
	}
	root, err := parseXML(data)
	if err != nil {
		return m, err
	}
	if root.space != spaceSWID || root.local != "SoftwareIdentity" {
		return m, errors.New("its element is not SoftwareIdentity of ISO/IEC 19770-2:2015")
	}
	kids, err := root.exactly(spaceSWID, "Entity", "Meta", "Payload", "*Signature")
	if err != nil {
		return m, err
	}
	if m.RIM, err = readRIM(root, kids[0], kids[1], kids[2]); err != nil {
		return m, err
	}
	if err := m.readSignature(kids[3]); err != nil {
		return m, err
	}
	m.signed = sha512.Sum384(root.canonical(kids[3]))
	return m, nil
}

// exactly returns the elements below e, which must have these names in this order; a name with * is of XML Signature.
func (e *element) exactly(space string, names ...string) ([]*element, error) {
	els, err := e.elements()
	if err != nil {
		return nil, err
	}
	ok := len(els) == len(names)
	for i := 0; ok && i < len(names); i++ {
		local, signature := strings.CutPrefix(names[i], "*")
		want := space
		if signature {
			want = spaceSignature
		}
		ok = els[i].local == local && els[i].space == want
	}
	if !ok {
		var have []string
		for _, x := range els {
			have = append(have, x.local)
		}
		return nil, fmt.Errorf("%s holds %.80q, want exactly %s", e.local, strings.Join(have, " "), strings.ReplaceAll(strings.Join(names, " "), "*", ""))
	}
	return els, nil
}

func readRIM(root, entity, meta, payload *element) (r RIM, err error) {
	for _, e := range []*element{entity, meta} {
		if _, err := e.exactly(""); err != nil {
			return r, err
		}
	}
	for _, f := range []struct {
		el   *element
		name string
		into *string
	}{{root, "tagId", &r.TagID}, {meta, "product", &r.Product}, {meta, "edition", &r.Edition}, {meta, "colloquialVersion", &r.Version}} {
		v, ok := f.el.attribute("", f.name)
		if !ok || v == "" || len(v) > 2*MeasurementSize {
			return r, fmt.Errorf("%s has no attribute %s", f.el.local, f.name)
		}
		*f.into = v
	}
	r.Golden, err = readPayload(payload)
	return r, err
}

func readPayload(payload *element) (golden []Golden, err error) {
	resources, err := payload.elements()
	if err != nil {
		return nil, err
	}
	for _, e := range resources {
		if typ, _ := e.attribute("", "type"); e.local != "Resource" || e.space != spaceSWID || typ != "Measurement" {
			return nil, fmt.Errorf("Payload holds %.40q, want resources of type Measurement", e.local)
		}
		g, err := readResource(e)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(golden, func(o Golden) bool { return o.Index == g.Index }) {
			return nil, fmt.Errorf("measurement %d twice", g.Index)
		}
		golden = append(golden, g)
	}
	if len(golden) == 0 {
		return nil, errors.New("Payload holds no measurement")
	}
	slices.SortFunc(golden, func(a, b Golden) int { return a.Index - b.Index })
	return golden, nil
}

// readResource reads one measurement: index, whether it is active, and as many values as it says.
func readResource(e *element) (g Golden, err error) {
	if _, err := e.exactly(""); err != nil {
		return g, err
	}
	number := func(name string, least, most int) (n int, err error) {
		text, _ := e.attribute("", name)
		n, err = strconv.Atoi(text)
		if err != nil || strconv.Itoa(n) != text || n < least || n > most {
			return 0, fmt.Errorf("a measurement's attribute %s is %.20q, want a number from %d to %d", name, text, least, most)
		}
		return n, nil
	}
	if g.Index, err = number("index", 0, blocksGPU-1); err != nil {
		return g, err
	}
	if _, err = number("size", MeasurementSize, MeasurementSize); err != nil {
		return g, err
	}
	n, err := number("alternatives", 1, maxAlternatives)
	if err != nil {
		return g, err
	}
	switch active, _ := e.attribute("", "active"); active {
	case "True":
		g.Active = true
	case "False":
	default:
		return g, fmt.Errorf("measurement %d is active %.20q, want True or False", g.Index, active)
	}
	for i := range n {
		text, ok := e.attribute(spaceSHA384, "Hash"+strconv.Itoa(i))
		value, err := hex.DecodeString(text)
		if !ok || err != nil || len(value) != MeasurementSize {
			return g, fmt.Errorf("measurement %d has no Hash%d of %d bytes in hex", g.Index, i, MeasurementSize)
		}
		g.Alternatives = append(g.Alternatives, [MeasurementSize]byte(value))
	}
	if _, more := e.attribute(spaceSHA384, "Hash"+strconv.Itoa(n)); more {
		return g, fmt.Errorf("measurement %d has more values than its %d alternatives", g.Index, n)
	}
	return g, nil
}

// readSignature reads the signature element, in which nothing may stand but what the profile names.
func (m *manifest) readSignature(sig *element) error {
	parts, err := sig.exactly(spaceSignature, "SignedInfo", "SignatureValue", "KeyInfo")
	if err != nil {
		return err
	}
	info, err := parts[0].exactly(spaceSignature, "CanonicalizationMethod", "SignatureMethod", "Reference")
	if err != nil {
		return err
	}
	ref, err := info[2].exactly(spaceSignature, "Transforms", "DigestMethod", "DigestValue")
	if err != nil {
		return err
	}
	transforms, err := ref[0].exactly(spaceSignature, "Transform", "Transform")
	if err != nil {
		return err
	}
	for _, x := range []struct {
		el   *element
		want string
	}{{info[0], algC14N}, {info[1], algSignature}, {transforms[0], algEnveloped}, {transforms[1], algC14N}, {ref[1], algDigest}} {
		if _, err := x.el.exactly(""); err != nil {
			return err
		}
		if alg, _ := x.el.attribute("", "Algorithm"); alg != x.want || len(x.el.attributes) != 1 {
			return fmt.Errorf("%s is %.80q, want %s", x.el.local, alg, x.want)
		}
	}
	if uri, ok := info[2].attribute("", "URI"); !ok || uri != "" || len(info[2].attributes) != 1 {
		return fmt.Errorf("the signature refers to %.80q, want the whole document", uri)
	}
	if m.digest, err = ref[2].base64(); err != nil {
		return err
	}
	if m.signature, err = parts[1].base64(); err != nil {
		return err
	}
	if len(m.signature) != signatureSize {
		return fmt.Errorf("SignatureValue of %d bytes, want %d", len(m.signature), signatureSize)
	}
	data, err := parts[2].exactly(spaceSignature, "X509Data")
	if err != nil {
		return err
	}
	certs, err := data[0].elements()
	if err != nil {
		return err
	}
	if len(certs) == 0 || len(certs) > rimChain {
		return fmt.Errorf("the signature has %d certificates, want 1 to %d", len(certs), rimChain)
	}
	for _, c := range certs {
		if c.local != "X509Certificate" || c.space != spaceSignature {
			return fmt.Errorf("X509Data holds %.40q, want certificates alone", c.local)
		}
		der, err := c.base64()
		if err != nil {
			return err
		}
		m.certificates = append(m.certificates, der)
	}
	m.info = sha512.Sum384(parts[0].canonical(nil))
	return nil
}

func (e *element) base64() ([]byte, error) {
	text, err := e.content()
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil || len(b) == 0 {
		return nil, fmt.Errorf("%s is not base64", e.local)
	}
	return b, nil
}

// provenRIM is a manifest with what its signature is worth at any time; window says when.
type provenRIM struct {
	RIM
	code, fault string // empty: NVIDIA signed it
	unread      bool   // it is no manifest that this build reads; then RIM says nothing
	certs       []*x509.Certificate
	window      attest.Window
}

// proveRIM reads a manifest and verifies it under the roots: digest, chain from the root down, signature by the chain's
// own first key.
func proveRIM(data []byte, roots []*x509.Certificate) (p provenRIM) {
	m, err := readManifest(data)
	if err != nil {
		return provenRIM{code: claim.Malformed, fault: err.Error(), unread: true}
	}
	p.RIM = m.RIM
	fail := func(code, format string, args ...any) provenRIM {
		p.code, p.fault = code, fmt.Sprintf(format, args...)
		return p
	}
	if !bytes.Equal(m.digest, m.signed[:]) {
		return fail(badSignature, "its digest is not that of its content")
	}
	var certs []*x509.Certificate
	for i, der := range m.certificates {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fail(badCertificate, "certificate %d of its signature does not parse", i)
		}
		certs = append(certs, c)
	}
	if last := certs[len(certs)-1]; !slices.ContainsFunc(roots, func(r *x509.Certificate) bool { return bytes.Equal(r.Raw, last.Raw) }) {
		return fail(untrusted, "its chain ends in %s, which is no NVIDIA manifest root of this set", attest.Printable(last.Subject.CommonName))
	}
	if fault := linked(certs); fault != "" {
		return fail(untrusted, "%s", fault)
	}
	r, s := new(big.Int).SetBytes(m.signature[:48]), new(big.Int).SetBytes(m.signature[48:])
	if !ecdsa.Verify(certs[0].PublicKey.(*ecdsa.PublicKey), m.info[:], r, s) {
		return fail(badSignature, "it is not signed by the key of its first certificate")
	}
	p.certs, p.window = certs, windowOf(certs)
	return p
}
