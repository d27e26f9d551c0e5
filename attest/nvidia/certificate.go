package nvidia

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

//go:embed roots/nvidia-device-root.pem roots/nvidia-rim-root.pem
var rootFiles embed.FS

// VendorRoots returns NVIDIA's roots of devices and of manifests (roots/SOURCES.md).
func VendorRoots() []attest.RootFile { return attest.PinnedRoots(rootFiles) }

// Names of NVIDIA's roots. What is below them is told from its place in the chain.
const (
	nameDeviceRoot = "NVIDIA Device Identity CA"
	nameRIMRoot    = "NVIDIA CoRIM signing Root CA"
)

// family is what this build knows of one chip.
type family struct {
	chip     string // as certificates spell it
	product  string // as manifests do
	arch     string // as foreign files do
	kind     Kind
	identity string // common name of the CA below the root
	prefix   byte   // of the device certificate's serial number, before the PDI
}

var families = []family{
	{"GH100", "GH100", "HOPPER", GPU, "NVIDIA GH100 Identity", 0x41},
	{"GB100", "GB100", "BLACKWELL", GPU, "NVIDIA GB100 Identity", 0x41},
	{"LS_10", "LS10", "LS10", Switch, "NVIDIA GH100 Identity", 0x50}, // under the CA of the GPUs that it links
}

// familyOf tells the chip from the common name of a device's key: CHIP A01 ENGINE FMC LF.
func familyOf(commonName string) (family, bool) {
	chip, _, _ := strings.Cut(commonName, " ")
	i := slices.IndexFunc(families, func(f family) bool { return f.chip == chip })
	if i < 0 {
		return family{}, false
	}
	return families[i], true
}

// anchored is the NVIDIA part of a root set.
type anchored struct {
	device, rim []*x509.Certificate
}

// anchors reads the NVIDIA part of a root set. Files of other formats are passed over.
func anchors(roots attest.Roots, m *attest.Memory) anchored {
	d := roots.Digest()
	return attest.Remember(m, canon.Hash("nvidia/anchors/v1", d[:]), func() (as anchored) {
		as.device = namedIn(roots, DeviceRootFile, nameDeviceRoot)
		as.rim = namedIn(roots, RIMRootFile, nameRIMRoot)
		return as
	})
}

func namedIn(roots attest.Roots, file, name string) (found []*x509.Certificate) {
	data, _ := roots.File(file)
	for len(found) < maxRoots {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.Subject.CommonName == name {
			found = append(found, c)
		}
	}
	return found
}

const (
	pemBegin = "-----BEGIN CERTIFICATE-----"
	pemEnd   = "-----END CERTIFICATE-----"
)

// pemChain is a chain taken apart; digest names it by its certificates.
type pemChain struct {
	ders   [][]byte
	digest canon.Digest
	fault  error
}

// splitPEM returns the certificates of a chain. Between and behind them white space may stand, and the zero bytes of a
// buffer that was longer; nothing else.
func splitPEM(text []byte) (c pemChain) {
	if len(text) > MaxChain {
		return pemChain{fault: fmt.Errorf("certificate chain: %d bytes, at most %d", len(text), MaxChain)}
	}
	rest := string(bytes.TrimRight(text, "\x00 \t\r\n"))
	for rest = strings.TrimLeft(rest, " \t\r\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\r\n") {
		body, ok := strings.CutPrefix(rest, pemBegin)
		if !ok {
			return pemChain{fault: fmt.Errorf("certificate chain: something else than a certificate stands behind certificate %d", len(c.ders))}
		}
		if body, rest, ok = strings.Cut(body, pemEnd); !ok {
			return pemChain{fault: fmt.Errorf("certificate chain: certificate %d does not end", len(c.ders)+1)}
		}
		der, err := base64.StdEncoding.Strict().DecodeString(body) // which passes over line ends
		if err != nil {
			return pemChain{fault: fmt.Errorf("certificate chain: certificate %d is not base64", len(c.ders)+1)}
		}
		if len(c.ders) == attest.MaxCertificates {
			return pemChain{fault: fmt.Errorf("certificate chain: more than %d certificates", attest.MaxCertificates)}
		}
		c.ders = append(c.ders, der)
	}
	if len(c.ders) == 0 {
		return pemChain{fault: errors.New("certificate chain: no certificate")}
	}
	c.digest = canon.Hash("nvidia/chain/v1", c.ders...)
	return c
}

// proof says whether a device's key descends from a trusted root. It is true at any time; window says when it may be used.
type proof struct {
	code, fault string // empty: proven
	unknown     bool   // the fault is this build's: it knows no such chip
	family      family
	certs       []*x509.Certificate // as presented; empty unless proven
	key         *ecdsa.PublicKey
	window      attest.Window
}

// prove proves a chain in the order in which it was presented, from the root down, so that a stranger's chain costs one
// signature check and a device's own four.
func prove(ders [][]byte, roots []*x509.Certificate) (p proof) {
	fail := func(code, format string, args ...any) proof {
		return proof{code: code, fault: fmt.Sprintf(format, args...)}
	}
	var certs []*x509.Certificate
	for i, der := range ders {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fail(badCertificate, "certificate %d of the chain does not parse", i)
		}
		certs = append(certs, c)
	}
	if lacking := lacks(certs); lacking != "" {
		return fail(untrusted, "%s", lacking)
	}
	last := certs[len(certs)-1]
	switch {
	case !slices.ContainsFunc(roots, func(r *x509.Certificate) bool { return bytes.Equal(r.Raw, last.Raw) }):
		return fail(untrusted, "the chain ends in %s, which is no NVIDIA device root of this set", attest.Printable(last.Subject.CommonName))
	case len(certs) != chainLength:
		return fail(untrusted, "the chain has %d certificates, want %d", len(certs), chainLength)
	}
	var known bool
	if p.family, known = familyOf(certs[0].Subject.CommonName); !known {
		p = fail(unsupportedProduct, "this build knows no device whose key is called %s", attest.Printable(certs[0].Subject.CommonName))
		p.unknown = true
		return p
	}
	if fault := p.family.disagreement(certs); fault != "" {
		return fail(claim.Mismatch, "%s", fault)
	}
	if fault := linked(certs); fault != "" {
		return fail(untrusted, "%s", fault)
	}
	p.key, p.certs, p.window = certs[0].PublicKey.(*ecdsa.PublicKey), certs, windowOf(certs)
	return p
}

// lacks says what is missing of a chain, by the names that the others of its kind have; "" where nothing is.
func lacks(certs []*x509.Certificate) string {
	first, last := certs[0].Subject.CommonName, certs[len(certs)-1].Subject.CommonName
	switch {
	case len(certs) == 1:
		return fmt.Sprintf("the chain is one certificate, %s", attest.Printable(first))
	case !strings.HasSuffix(first, " FMC LF"):
		return fmt.Sprintf("the chain begins with %s, want the device's key (… FMC LF)", attest.Printable(first))
	case last != nameDeviceRoot:
		return fmt.Sprintf("the chain ends in %s, want %s", attest.Printable(last), nameDeviceRoot)
	}
	for i, c := range certs[:len(certs)-1] {
		if !bytes.Equal(c.RawIssuer, certs[i+1].RawSubject) {
			return fmt.Sprintf("certificate %d, %s, names another issuer than %s, which follows", i, attest.Printable(c.Subject.CommonName), attest.Printable(certs[i+1].Subject.CommonName))
		}
	}
	return ""
}

// disagreement says where the names of a chain are not of one family. Chips of several families share a CA.
func (f family) disagreement(certs []*x509.Certificate) string {
	for i, prefix := range []string{1: f.chip + " ", 2: "NVIDIA " + f.chip + " Provisioner ICA ", 3: f.identity} {
		if name := certs[i].Subject.CommonName; !strings.HasPrefix(name, prefix) || i == 3 && name != prefix || i == 1 && !strings.HasSuffix(name, " BROM") {
			return fmt.Sprintf("certificate %d is %s under a key of %s", i, attest.Printable(name), f.chip)
		}
	}
	return ""
}

// linked verifies that each certificate was signed by the next, from the root down, and that all are of the kind that
// NVIDIA issues.
func linked(certs []*x509.Certificate) string {
	for i := len(certs) - 1; i >= 0; i-- {
		c := certs[i]
		name := attest.Printable(c.Subject.CommonName)
		key, ok := c.PublicKey.(*ecdsa.PublicKey)
		switch {
		case !ok || key.Curve != elliptic.P384():
			return fmt.Sprintf("the key of %s is not on P-384", name)
		case len(c.UnhandledCriticalExtensions) > 0:
			return fmt.Sprintf("%s has a critical extension that this build does not know", name)
		case c.SerialNumber.Sign() < 0 || c.SerialNumber.BitLen() > 8*maxSerial:
			return fmt.Sprintf("the serial number of %s is not 1 to %d bytes", name, maxSerial)
		case c.SignatureAlgorithm != x509.ECDSAWithSHA384:
			return fmt.Sprintf("%s is not signed with ECDSA and SHA-384", name)
		case i == 0 && (c.IsCA || c.KeyUsage&x509.KeyUsageDigitalSignature == 0):
			return fmt.Sprintf("%s is not for signatures alone", name)
		case i < len(certs)-1 && (!bytes.Equal(c.RawIssuer, certs[i+1].RawSubject) || c.CheckSignatureFrom(certs[i+1]) != nil):
			return fmt.Sprintf("%s is not signed by %s, which follows", name, attest.Printable(certs[i+1].Subject.CommonName))
		}
	}
	return ""
}

func windowOf(certs []*x509.Certificate) attest.Window {
	w := attest.CertificateWindow(certs[0])
	for _, c := range certs[1:] {
		w = w.And(attest.CertificateWindow(c))
	}
	return w
}

// identity is who a proven chain says the device is.
type identity struct {
	fault string // empty: certificates and names agree
	pdi   [PDISize]byte
	leaf  string // serial number of its key's certificate, hex; it changes with the firmware
	san   string // the device's serial, hex
}

// words returns the value of nvidia.identity.
func (id identity) words(f family) string {
	return strings.Join([]string{"chip:" + f.chip, "leaf:" + id.leaf, "pdi:" + hex.EncodeToString(id.pdi[:]), "san:" + id.san}, " ")
}

// identify reads the names of a device: its certificate's serial number is a byte of its kind and its PDI, and stands in
// the subject again; the key's certificate names itself and, in a device name of DMTF, the device.
func (p proof) identify() (id identity) {
	leaf, brom := p.certs[0], p.certs[1]
	serial := brom.SerialNumber.Bytes()
	if len(serial) != 1+PDISize || serial[0] != p.family.prefix {
		id.fault = fmt.Sprintf("the serial number of the device's certificate is %x, want %02x and a PDI", serial, p.family.prefix)
		return id
	}
	copy(id.pdi[:], serial[1:])
	id.leaf = hex.EncodeToString(leaf.SerialNumber.FillBytes(make([]byte, maxSerial)))
	var err string
	id.san, err = deviceName(leaf, p.family.chip)
	switch {
	case brom.Subject.SerialNumber != strings.ToUpper(hex.EncodeToString(serial)):
		id.fault = fmt.Sprintf("the device's certificate calls itself %s and has serial number %X", attest.Printable(brom.Subject.SerialNumber), serial)
	case !strings.EqualFold(leaf.Subject.SerialNumber, id.leaf):
		id.fault = fmt.Sprintf("the key's certificate calls itself %s and has serial number %s", attest.Printable(leaf.Subject.SerialNumber), id.leaf)
	default:
		id.fault = err
	}
	return id
}
