package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	cb "golang.org/x/crypto/cryptobyte/asn1"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/internal/canon"
)

//go:embed roots/intel-sgx-root.pem roots/intel-qe-signer.txt
var rootFiles embed.FS

// VendorRoots returns Intel's root certificate and the signer of its quoting enclaves (roots/SOURCES.md).
func VendorRoots() []attest.RootFile { return attest.PinnedRoots(rootFiles) }

// Common names of Intel's certificates (PCK Certificate and CRL Profile, sections 2 to 4; PCS API version 4).
const (
	nameRoot      = "Intel SGX Root CA"
	namePlatform  = "Intel SGX PCK Platform CA"
	nameProcessor = "Intel SGX PCK Processor CA"
	namePCK       = "Intel SGX PCK Certificate"
	nameTCBSigner = "Intel SGX TCB Signing"
)

// caOf names the PCK CAs as Intel's service does, in its URLs and in the value of tdx.chain.
var caOf = map[string]string{namePlatform: "platform", nameProcessor: "processor"}

// QESigner is who signed a quoting enclave, and as which product.
type QESigner struct {
	MRSigner  [32]byte
	ProductID uint16
}

// ParseQESigners reads a file of signers of quoting enclaves: one a line, MRSIGNER in hex and ISVPRODID in decimal, and
// lines of comment that begin with #.
func ParseQESigners(data []byte) (signers []QESigner, err error) {
	for n, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		digits, number, _ := strings.Cut(line, " ")
		signer, err := hex.DecodeString(digits)
		product, err2 := strconv.ParseUint(number, 10, 16)
		if err != nil || err2 != nil || len(signer) != 32 || strings.ToLower(digits) != digits {
			return nil, fmt.Errorf("%s: line %d: want MRSIGNER (64 lower-case hex digits), a space and ISVPRODID (a decimal number)", QESignerFile, n+1)
		}
		if len(signers) == maxQESigners {
			return nil, fmt.Errorf("%s: more than %d signers", QESignerFile, maxQESigners)
		}
		signers = append(signers, QESigner{[32]byte(signer), uint16(product)})
	}
	return signers, nil
}

// anchored is the Intel part of a root set.
type anchored struct {
	roots     []*x509.Certificate
	qeSigners []QESigner
	fault     string // of the file of signers
}

// anchors reads the Intel part of a root set. Files of other formats are passed over.
func anchors(roots attest.Roots, m *attest.Memory) anchored {
	d := roots.Digest()
	return attest.Remember(m, canon.Hash("tdx/anchors/v1", d[:]), func() (as anchored) {
		for _, f := range roots.Files() {
			for rest := f.Data; len(as.roots) < maxRootCerts; {
				var block *pem.Block
				if block, rest = pem.Decode(rest); block == nil {
					break
				}
				if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.Subject.CommonName == nameRoot {
					as.roots = append(as.roots, c)
				}
			}
		}
		data, ok := roots.File(QESignerFile)
		if !ok {
			as.fault = "the root set has no file " + QESignerFile
			return as
		}
		var err error
		if as.qeSigners, err = ParseQESigners(data); err != nil {
			as.fault = err.Error()
		}
		return as
	})
}

// signedBy returns the root of the set that signed a certificate, or nil.
func (as anchored) signedBy(c *x509.Certificate) *x509.Certificate {
	for _, r := range as.roots {
		if bytes.Equal(c.RawIssuer, r.RawSubject) && !bytes.Equal(c.Raw, r.Raw) && c.CheckSignatureFrom(r) == nil {
			return r
		}
	}
	return nil
}

// pck is what a PCK certificate says of its platform (PCK Certificate and CRL Profile, section 3.2.1).
type pck struct {
	key    *ecdsa.PublicKey
	ppid   [16]byte
	svns   SVN // SGX TCB components 1 to 16
	pcesvn uint16
	pceID  [2]byte
	fmspc  [6]byte
	piid   [16]byte // zero: the certificate has none
	serial string   // hex
}

var oidSGX = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}

// parsePCK reads a PCK certificate. Each OID is matched whole.
func parsePCK(c *x509.Certificate) (p pck, err error) {
	p.serial = c.SerialNumber.Text(16)
	if c.Subject.CommonName != namePCK || c.IsCA {
		return p, fmt.Errorf("it is %s, want %q", attest.Printable(c.Subject.CommonName), namePCK)
	}
	if p.key, err = p256Key(c); err != nil {
		return p, err
	}
	// crypto/x509 reads no certificate that has an extension twice.
	i := slices.IndexFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oidSGX) })
	if i < 0 {
		return p, fmt.Errorf("it lacks the extension %s", oidSGX)
	}
	if err := p.parseExtension(c.Extensions[i].Value); err != nil {
		return p, fmt.Errorf("extension %s: %w", oidSGX, err)
	}
	return p, nil
}

// p256Key returns the key of a certificate that this room can rely on.
func p256Key(c *x509.Certificate) (*ecdsa.PublicKey, error) {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || key.Curve != elliptic.P256():
		return nil, errors.New("its key is not on P-256")
	case len(c.UnhandledCriticalExtensions) > 0:
		return nil, fmt.Errorf("critical extension %s is not known", c.UnhandledCriticalExtensions[0])
	}
	return key, nil
}

// parseExtension reads the SGX extension: a sequence of pairs of an OID and a value.
func (p *pck) parseExtension(der []byte) error {
	var fmspc, pceID, ppid, piid []byte
	want := map[string]*[]byte{"1": &ppid, "3": &pceID, "4": &fmspc, "6": &piid}
	size := map[string]int{"1": len(p.ppid), "3": len(p.pceID), "4": len(p.fmspc), "6": len(p.piid)}
	seen := map[string]bool{}
	err := pairs(der, oidSGX, func(arc string, value *cryptobyte.String) error {
		if seen[arc] {
			return fmt.Errorf("%s.%s twice", oidSGX, arc)
		}
		seen[arc] = true
		switch {
		case arc == "2":
			return p.parseTCB(*value)
		case want[arc] != nil:
			var b cryptobyte.String
			if !value.ReadASN1(&b, cb.OCTET_STRING) || !value.Empty() || len(b) != size[arc] {
				return fmt.Errorf("%s.%s: want %d bytes", oidSGX, arc, size[arc])
			}
			*want[arc] = b
		}
		return nil // SGX type and configuration are not read
	})
	switch {
	case err != nil:
		return err
	case ppid == nil || pceID == nil || fmspc == nil || !seen["2"]:
		return errors.New("want PPID, TCB, PCEID and FMSPC")
	}
	copy(p.ppid[:], ppid)
	copy(p.pceID[:], pceID)
	copy(p.fmspc[:], fmspc)
	copy(p.piid[:], piid)
	return nil
}

// parseTCB reads the 16 components and PCESVN. CPUSVN stands beside them undivided; the components are what Intel's TCB
// levels are compared with.
func (p *pck) parseTCB(value cryptobyte.String) error {
	base := append(slices.Clone(oidSGX), 2)
	seen := [components + 2]bool{}
	err := pairs(value, base, func(arc string, value *cryptobyte.String) error {
		n, err := strconv.Atoi(arc)
		if err != nil || n < 1 || n > len(seen) || seen[n-1] {
			return fmt.Errorf("%s.%s: unknown, or twice", base, arc)
		}
		seen[n-1] = true
		if n == components+2 {
			return nil // CPUSVN
		}
		limit := int64(0xff)
		if n == components+1 {
			limit = 0xffff
		}
		var v int64
		if !value.ReadASN1Integer(&v) || !value.Empty() || v < 0 || v > limit {
			return fmt.Errorf("%s.%s: want an INTEGER from 0 to %d", base, arc, limit)
		}
		if n <= components {
			p.svns[n-1] = uint8(v)
		} else {
			p.pcesvn = uint16(v)
		}
		return nil
	})
	if err == nil && slices.Contains(seen[:components+1], false) {
		err = errors.New("it lacks a component of the TCB, or PCESVN")
	}
	return err
}

// pairs walks a SEQUENCE of SEQUENCE { OID, value } whose OIDs are one arc below base.
func pairs(der []byte, base asn1.ObjectIdentifier, each func(arc string, value *cryptobyte.String) error) error {
	in := cryptobyte.String(der)
	var list cryptobyte.String
	if !in.ReadASN1(&list, cb.SEQUENCE) || !in.Empty() {
		return fmt.Errorf("%s: want a SEQUENCE", base)
	}
	for !list.Empty() {
		var pair cryptobyte.String
		var id asn1.ObjectIdentifier
		if !list.ReadASN1(&pair, cb.SEQUENCE) || !pair.ReadASN1ObjectIdentifier(&id) {
			return fmt.Errorf("%s: want pairs of an OID and a value", base)
		}
		if len(id) != len(base)+1 || !id[:len(base)].Equal(base) {
			return fmt.Errorf("%s: holds %s, which is not one below it", base, id)
		}
		if err := each(strconv.Itoa(id[len(base)]), &pair); err != nil {
			return err
		}
	}
	return nil
}

// proof says whether a PCK certificate descends from a trusted root. It is true at any time; window says when it may be
// used.
type proof struct {
	code, fault string // empty: proven
	pck         pck
	ca          string // platform or processor
	caCert      *x509.Certificate
	root        *x509.Certificate // of the root set
	window      attest.Window
}

// pckCA is a PCK CA certificate that a root of the set signed, or why it is none. It is kept apart from the chains that
// hold it, so that a memory full of chains holds it once.
type pckCA struct {
	code, fault string
	name        string // platform or processor
	cert, root  *x509.Certificate
}

func (as anchored) pckCA(der []byte) (p pckCA) {
	fail := func(code, format string, args ...any) pckCA {
		return pckCA{code: code, fault: fmt.Sprintf(format, args...)}
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(badCertificate, "certificate 2 of the chain does not parse")
	}
	if p.name = caOf[ca.Subject.CommonName]; p.name == "" {
		return fail(badCertificate, "the second certificate is %s, want a PCK CA", attest.Printable(ca.Subject.CommonName))
	}
	if _, err = p256Key(ca); err != nil {
		return fail(badCertificate, "the PCK CA certificate: %v", err)
	}
	if p.root = as.signedBy(ca); p.root == nil {
		return fail(untrusted, "the PCK CA is not signed by an Intel root of this set")
	}
	p.cert = ca
	return p
}

// prove proves a quote's chain: two signatures, whatever it holds. It keeps nothing of the chain's bytes.
func prove(chain []byte, ca func(der []byte) pckCA) (p proof) {
	fail := func(code, format string, args ...any) proof {
		return proof{code: code, fault: fmt.Sprintf(format, args...)}
	}
	ders, err := splitPEM(chain)
	if err != nil {
		panic("tdx: internal error: a chain is split once and not twice")
	}
	leaf, err := x509.ParseCertificate(ders[0])
	if err != nil {
		return fail(badCertificate, "certificate 1 of the chain does not parse")
	}
	if p.pck, err = parsePCK(leaf); err != nil {
		return fail(badCertificate, "the PCK certificate: %v", err)
	}
	by := ca(ders[1])
	switch {
	case by.fault != "":
		return proof{code: by.code, fault: by.fault}
	case len(ders) > 2 && !bytes.Equal(ders[2], by.root.Raw):
		return fail(untrusted, "the chain ends in another certificate than the root that signed its CA")
	case !bytes.Equal(leaf.RawIssuer, by.cert.RawSubject) || leaf.CheckSignatureFrom(by.cert) != nil:
		return fail(untrusted, "the PCK certificate is not signed by the PCK CA of its chain")
	}
	p.ca, p.caCert, p.root = by.name, by.cert, by.root
	p.window = attest.CertificateWindow(p.root).And(attest.CertificateWindow(p.caCert)).And(attest.CertificateWindow(leaf))
	return p
}
