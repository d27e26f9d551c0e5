package sevsnp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"embed"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

//go:embed roots/*.pem
var rootFiles embed.FS

// VendorRoots returns AMD's root files, one for each product line: ARK, ASK and ASVK (roots/SOURCES.md).
func VendorRoots() []attest.RootFile { return attest.PinnedRoots(rootFiles) }

// Extensions of a VCEK or VLEK (57230, table 8 and section 3.2). Each OID is matched whole.
var (
	oidProductName = amdOID(2)
	oidBootloader  = amdOID(3, 1)
	oidTEE         = amdOID(3, 2)
	oidSNP         = amdOID(3, 3)
	oidMicrocode   = amdOID(3, 8)
	oidFMC         = amdOID(3, 9)
	oidHardwareID  = amdOID(4)
	oidCSPID       = amdOID(5)
)

func amdOID(tail ...int) asn1.ObjectIdentifier {
	return append(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 3704, 1}, tail...)
}

// leaf is what a report's signing certificate says. It holds no pointer into the certificate.
type leaf struct {
	key        *ecdsa.PublicKey
	kind       SigningKey // SigningVCEK or SigningVLEK
	product    string     // productName, such as Milan-B0, or Genoa alone
	tcb        TCB
	hasFMC     bool
	hardwareID []byte // VCEK: 64 bytes, or 8 on Turin
	csp        string // VLEK
	serial     string // hex
	window     attest.Window
}

// errNoLeaf marks a certificate that is no VCEK or VLEK, such as an ASK.
var errNoLeaf = errors.New("neither VCEK nor VLEK")

// parseLeaf reads a signing certificate. Its kind is told from what it names, a chip or a cloud, never from its subject.
// That no extension stands there twice, [x509.ParseCertificate] has seen to.
func parseLeaf(c *x509.Certificate) (leaf, error) {
	l := leaf{window: attest.CertificateWindow(c)}
	if c.SerialNumber.BitLen() > 8*maxSerial {
		return l, fmt.Errorf("serial number of more than %d bytes", maxSerial)
	}
	l.serial = c.SerialNumber.Text(16)
	need := map[string]*uint8{oidBootloader.String(): &l.tcb.Bootloader, oidTEE.String(): &l.tcb.TEE, oidSNP.String(): &l.tcb.SNP, oidMicrocode.String(): &l.tcb.Microcode}
	for _, e := range c.Extensions {
		id := e.Id.String()
		var err error
		switch {
		case need[id] != nil:
			err = parseByte(e.Value, need[id])
			delete(need, id)
		case e.Id.Equal(oidFMC):
			l.hasFMC, err = true, parseByte(e.Value, &l.tcb.FMC)
		case e.Id.Equal(oidProductName):
			l.product, err = parseIA5(e.Value)
		case e.Id.Equal(oidHardwareID):
			l.hardwareID, err = parseHardwareID(e.Value)
		case e.Id.Equal(oidCSPID):
			l.csp, err = parseIA5(e.Value)
		}
		if err != nil {
			return l, fmt.Errorf("extension %s: %w", id, err)
		}
	}
	switch {
	case l.hardwareID == nil && l.csp == "":
		return l, errNoLeaf
	case l.hardwareID != nil && l.csp != "":
		return l, errors.New("names both a chip and a cloud")
	case l.csp != "":
		l.kind = SigningVLEK
	}
	if len(need) > 0 {
		return l, errors.New("lacks a TCB extension")
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P384() {
		return l, errors.New("its key is not on P-384")
	}
	l.key = key
	if len(c.UnhandledCriticalExtensions) > 0 {
		return l, fmt.Errorf("critical extension %.80s is not known", c.UnhandledCriticalExtensions[0])
	}
	return l, nil
}

func parseByte(der []byte, into *uint8) error {
	var n int
	if rest, err := asn1.Unmarshal(der, &n); err != nil || len(rest) > 0 || n < 0 || n > 255 {
		return errors.New("want an INTEGER from 0 to 255")
	}
	*into = uint8(n)
	return nil
}

func parseIA5(der []byte) (string, error) {
	var s string
	if rest, err := asn1.UnmarshalWithParams(der, &s, "ia5"); err != nil || len(rest) > 0 || s == "" || len(s) > attest.MaxName {
		return "", fmt.Errorf("want an IA5String of 1 to %d characters", attest.MaxName)
	}
	return s, nil
}

// parseHardwareID decides by length alone: the extension holds raw bytes, and raw bytes may begin like a DER tag. Some
// issues wrap the 64 bytes in an OCTET STRING.
func parseHardwareID(v []byte) ([]byte, error) {
	switch {
	case len(v) == chipIDSize || len(v) == turinChipSize:
		return bytes.Clone(v), nil
	case len(v) == 2+chipIDSize && v[0] == 0x04 && v[1] == chipIDSize:
		return bytes.Clone(v[2:]), nil
	}
	return nil, fmt.Errorf("hardware id of %d bytes, want %d or %d", len(v), chipIDSize, turinChipSize)
}

// SourceOf returns where AMD publishes a certificate, by what it says of itself, or "" for one that is no VCEK. It
// verifies nothing: it is for who files certificates, and for who wants to know whether AMD sent what was asked for.
func SourceOf(c *x509.Certificate) string {
	l, err := parseLeaf(c)
	if err != nil || l.kind != SigningVCEK {
		return ""
	}
	for _, line := range Lines() {
		if c.Issuer.CommonName == "SEV-"+string(line) && l.hasFMC == (line == Turin) {
			return VCEKSource(line, l.hardwareID, l.tcb)
		}
	}
	return ""
}

// intermediate is an ASK or ASVK that a root of the set signed.
type intermediate struct {
	line Line
	ark  *x509.Certificate
	cert *x509.Certificate
}

// anchors reads the AMD part of a root set: the root key of each product line. Files of other formats are passed over.
func anchors(roots attest.Roots, m *attest.Memory) anchored {
	d := roots.Digest()
	return attest.Remember(m, canon.Hash("sevsnp/anchors/v1", d[:]), func() (as anchored) {
		var all []*x509.Certificate
		for _, f := range roots.Files() {
			all = append(all, certificatesOfPEM(f.Data)...)
		}
		for _, c := range all {
			for _, line := range Lines() {
				if c.Subject.CommonName == "ARK-"+string(line) {
					as.roots = append(as.roots, intermediate{line: line, ark: c})
				}
			}
		}
		for _, c := range all {
			if i, ok := as.admit(c); ok {
				as.intermediates = append(as.intermediates, i)
			}
		}
		return as
	})
}

// anchored is what a root set makes trusted.
type anchored struct {
	roots         []intermediate // cert is nil
	intermediates []intermediate // that came with the roots
}

// admit trusts an intermediate if a root of the set signed it, wherever it comes from.
func (as anchored) admit(c *x509.Certificate) (intermediate, bool) {
	for _, r := range as.roots {
		if bytes.Equal(c.RawIssuer, r.ark.RawSubject) && !bytes.Equal(c.Raw, r.ark.Raw) && c.CheckSignatureFrom(r.ark) == nil {
			r.cert = c
			return r, true
		}
	}
	return intermediate{}, false
}

func certificatesOfPEM(data []byte) (certs []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return certs
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, c)
		}
	}
}

// chain is a proof that a signing certificate descends from a trusted root, or why it does not. It is true at any time;
// window says when it may be used.
type chain struct {
	fault        string // empty: proven
	line         Line
	path         string // "ARK-Milan SEV-Milan SEV-VCEK"
	window       attest.Window
	ark          *x509.Certificate // of the root set, shared
	issuerSerial string            // hex
	issuer       string            // common name of the ASK or ASVK
}

// prove looks for the trusted intermediate that signed a certificate: the ASVK of a VLEK, the ASK of a VCEK.
func prove(l leaf, c *x509.Certificate, trusted []intermediate) chain {
	named := false
	for _, i := range trusted {
		if !bytes.Equal(i.cert.RawSubject, c.RawIssuer) {
			continue
		}
		named = true
		want := "SEV-" + string(i.line)
		if l.kind == SigningVLEK {
			want = "SEV-VLEK-" + string(i.line)
		}
		if i.cert.Subject.CommonName != want || c.CheckSignatureFrom(i.cert) != nil {
			continue
		}
		return chain{
			line: i.line, ark: i.ark, issuer: want, issuerSerial: i.cert.SerialNumber.Text(16),
			path:   strings.Join([]string{i.ark.Subject.CommonName, want, c.Subject.CommonName}, " "),
			window: attest.CertificateWindow(i.ark).And(attest.CertificateWindow(i.cert)).And(l.window),
		}
	}
	if named {
		return chain{fault: fmt.Sprintf("its signature is not by the trusted %s that it names as issuer", attest.Printable(c.Issuer.CommonName))}
	}
	return chain{fault: fmt.Sprintf("its issuer %s is not signed by a root of this set", attest.Printable(c.Issuer.CommonName))}
}
