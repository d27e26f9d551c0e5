package tpm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"embed"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-network/assay/attest"
	"github.com/assay-network/assay/attest/claim"
	"github.com/assay-network/assay/internal/canon"
)

//go:embed roots/*.pem
var rootFiles embed.FS

// Names of the files of a root set that anchor TPMs begin so: tpm-MAKER.pem for TPMs that somebody makes, vtpm-CLOUD.pem
// for those that a cloud's host runs for its guests.
const (
	makerPrefix = "tpm-"
	hostPrefix  = "vtpm-"
)

// VendorRoots returns the pinned root files, one for each maker (roots/SOURCES.md).
func VendorRoots() []attest.RootFile { return attest.PinnedRoots(rootFiles) }

// Extensions and usages of certificates of TPM keys (TCG EK Credential Profile, section 3.2; each OID is matched whole).
var (
	oidSAN          = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidEKUsage      = asn1.ObjectIdentifier{2, 23, 133, 8, 1}
	oidAKUsage      = asn1.ObjectIdentifier{2, 23, 133, 8, 3}
	oidManufacturer = asn1.ObjectIdentifier{2, 23, 133, 2, 1}
	oidModel        = asn1.ObjectIdentifier{2, 23, 133, 2, 2}
	oidVersion      = asn1.ObjectIdentifier{2, 23, 133, 2, 3}
)

// anchored is what a root set makes trusted.
type anchored struct {
	roots, intermediates []certificate         // intermediates only help to reach a root
	hosts                map[canon.Digest]bool // digests of the roots whose TPMs a cloud's host runs
}

// anchors reads the part of a root set that is about TPMs. Certificates in it that are their own issuers are roots.
func anchors(roots attest.Roots, m *attest.Memory) anchored {
	d := roots.Digest()
	return attest.Remember(m, canon.Hash("tpm/anchors/v1", d[:]), func() (as anchored) {
		as.hosts = map[canon.Digest]bool{}
		for _, f := range roots.Files() {
			host := strings.HasPrefix(f.Name, hostPrefix)
			if !host && !strings.HasPrefix(f.Name, makerPrefix) {
				continue
			}
			for block, rest := pem.Decode(f.Data); block != nil; block, rest = pem.Decode(rest) {
				c, err := parseCertificate(block.Bytes)
				switch {
				case err != nil:
				case bytes.Equal(c.x509.RawIssuer, c.x509.RawSubject):
					as.roots = append(as.roots, c)
					if host {
						as.hosts[canon.Sum(c.raw)] = true
					}
				default:
					as.intermediates = append(as.intermediates, c)
				}
			}
		}
		return as
	})
}

// leaf says what the certificate of a TPM's key must be.
type leaf struct {
	word  string // for sentences
	check func(certificate) error
}

var (
	ekLeaf = leaf{"endorsement", checkEK}
	akLeaf = leaf{"attestation key", checkAK}
)

// checkEK holds an endorsement certificate against the profile. Some makers leave the extended usage out; what they name
// in the alternative name is then all that tells it from another certificate of theirs.
func checkEK(c certificate) error {
	if err := checkLeaf(c); err != nil {
		return err
	}
	use := c.x509.KeyUsage
	switch c.key.(type) {
	case *rsa.PublicKey:
		if use != 0 && use&x509.KeyUsageKeyEncipherment == 0 {
			return fmt.Errorf("its key usage is not to encipher keys")
		}
	case *ecdsa.PublicKey:
		if use != 0 && use&x509.KeyUsageKeyAgreement == 0 {
			return fmt.Errorf("its key usage is not to agree on keys")
		}
	}
	if slices.ContainsFunc(c.x509.UnknownExtKeyUsage, oidEKUsage.Equal) {
		return nil
	}
	if named := tpmName(c.x509); len(c.x509.UnknownExtKeyUsage)+len(c.x509.ExtKeyUsage) > 0 || len(named) < 3 {
		return fmt.Errorf("it is not for an endorsement key (2.23.133.8.1)")
	}
	return nil
}

// checkAK holds the certificate of an attestation key. Google's have no extended usage, or that of endorsement keys.
func checkAK(c certificate) error {
	if err := checkLeaf(c); err != nil {
		return err
	}
	if c.x509.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("its key usage is not to sign")
	}
	usages := c.x509.UnknownExtKeyUsage
	if len(usages)+len(c.x509.ExtKeyUsage) > 0 && !slices.ContainsFunc(usages, oidAKUsage.Equal) && !slices.ContainsFunc(usages, oidEKUsage.Equal) {
		return fmt.Errorf("it is not for an attestation key (2.23.133.8.3)")
	}
	return nil
}

func checkLeaf(c certificate) error {
	switch {
	case c.key == nil:
		return fmt.Errorf("its key is of a kind that this build does not know")
	case c.x509.IsCA:
		return fmt.Errorf("it is for an authority")
	}
	for _, id := range c.x509.UnhandledCriticalExtensions {
		// The alternative name of a TPM is a directory name alone, which crypto/x509 leaves to others.
		if !id.Equal(oidSAN) || len(tpmName(c.x509)) == 0 {
			return fmt.Errorf("critical extension %s is not known", id)
		}
	}
	return nil
}

// tpmName returns what the alternative name says of the TPM: maker, model and version, in this order.
func tpmName(c *x509.Certificate) (parts []string) {
	for _, e := range c.Extensions {
		if !e.Id.Equal(oidSAN) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return nil
		}
		for _, n := range names {
			if n.Class != asn1.ClassContextSpecific || n.Tag != 4 {
				continue
			}
			// A Name: RDNs of one or several attributes. Some makers put all three into one set.
			var rdns []asn1.RawValue
			if rest, err := asn1.Unmarshal(n.Bytes, &rdns); err != nil || len(rest) > 0 {
				return nil
			}
			for _, id := range []asn1.ObjectIdentifier{oidManufacturer, oidModel, oidVersion} {
				if v := attribute(rdns, id); v != "" {
					parts = append(parts, v)
				}
			}
		}
	}
	return parts
}

func attribute(rdns []asn1.RawValue, id asn1.ObjectIdentifier) string {
	for _, set := range rdns {
		for rest := set.Bytes; len(rest) > 0; {
			var a struct {
				ID    asn1.ObjectIdentifier
				Value asn1.RawValue
			}
			var err error
			if rest, err = asn1.Unmarshal(rest, &a); err != nil {
				return ""
			}
			if a.ID.Equal(id) {
				return string(a.Value.Bytes)
			}
		}
	}
	return ""
}

// chain is a proof that a certificate descends from a trusted root, or why it does not. It is true at any time; window
// says when it may be used.
type chain struct {
	fault   string // empty: proven
	missing bool   // the fault is an issuer that nobody supplied
	source  string // where the missing issuer is published, by the certificate's own word
	path    string // common names, root first
	host    bool   // its root is a cloud's, whose hosts run the TPMs
	window  attest.Window
	leaf    shown
}

// shown is what a chain tells of its first certificate. It is remembered, so that it keeps nothing of the certificate
// itself, which a stranger can make long.
type shown struct {
	parsed bool
	sloppy bool
	digest canon.Digest // of its key, see [KeyDigest]; zero: of a kind that this build does not know
}

// prove looks for a path from the first certificate to a root of the set, over those behind it, those of the root set and
// those of the collateral. It costs at most maxChecks signature checks.
func prove(certs [][]byte, want leaf, c *attest.Case) chain {
	as := anchors(c.Roots, c.Memory)
	issuers := slices.Clone(certs[1:])
	for _, item := range c.Collateral {
		if item.Kind == attest.KindTPMCertificate {
			issuers = append(issuers, item.Data)
		}
	}
	d := c.Roots.Digest()
	key := canon.Hash("tpm/chain/v1", append([][]byte{d[:], []byte(want.word), certs[0]}, issuers...)...)
	return attest.Remember(c.Memory, key, func() (ch chain) {
		first, err := parseCertificate(certs[0])
		if err != nil {
			return chain{fault: err.Error()}
		}
		ch.leaf = shown{true, first.sloppy, first.digest}
		if err = want.check(first); err != nil {
			ch.fault = err.Error()
			return ch
		}
		s := search{as: as, candidates: slices.Clone(as.intermediates)}
		for _, der := range issuers {
			if x, err := parseCertificate(der); err == nil {
				s.candidates = append(s.candidates, x)
			}
		}
		found := s.up(first, 0)
		if found == nil {
			ch.fault, ch.missing = s.why(first)
			if ch.missing {
				ch.source = issuerURL(s.highest.x509)
			}
			return ch
		}
		ch.host = as.hosts[canon.Sum(found[len(found)-1].raw)]
		ch.window = attest.CertificateWindow(first.x509)
		names := []string{nameOf(first.x509)}
		for _, x := range found {
			ch.window = ch.window.And(attest.CertificateWindow(x.x509))
			names = append(names, nameOf(x.x509))
		}
		slices.Reverse(names)
		ch.path = strings.Join(names, " ")
		return ch
	})
}

// nameOf is a certificate's common name as a path of a claim has it, quoted where it is of more than plain words.
func nameOf(c *x509.Certificate) string {
	name := c.Subject.CommonName
	if name == "" {
		return "-"
	}
	if quoted := attest.Printable(name); quoted != `"`+name+`"` || strings.Contains(name, " ") {
		return quoted
	}
	return name
}

// search is one walk up from a leaf.
type search struct {
	as         anchored
	candidates []certificate
	checks     int
	broken     bool         // a certificate of the issuer's name did not sign
	highest    *certificate // the last one reached whose issuer nobody has
}

// up returns the issuers of c, root last.
func (s *search) up(c certificate, depth int) []certificate {
	if depth > maxDepth {
		return nil
	}
	named := false
	for i, issuer := range slices.Concat(s.as.roots, s.candidates) {
		if !bytes.Equal(c.x509.RawIssuer, issuer.x509.RawSubject) || !maySign(issuer, depth) || bytes.Equal(issuer.raw, c.raw) {
			continue
		}
		named = true
		if s.checks++; s.checks > maxChecks {
			return nil
		}
		if !c.issuedBy(issuer) {
			s.broken = true
			continue
		}
		if i < len(s.as.roots) {
			return []certificate{issuer}
		}
		if rest := s.up(issuer, depth+1); rest != nil {
			return append([]certificate{issuer}, rest...)
		}
	}
	if !named && (s.highest == nil || depth > 0) {
		s.highest = &c
	}
	return nil
}

// maySign reports whether a certificate may stand above others: an authority, of a key whose use costs a bounded time.
func maySign(c certificate, below int) bool {
	x := c.x509
	if k, ok := x.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() > 2*maxRSABits {
		return false
	}
	return x.BasicConstraintsValid && x.IsCA && (x.KeyUsage == 0 || x.KeyUsage&x509.KeyUsageCertSign != 0) &&
		(x.MaxPathLen < 0 || x.MaxPathLen == 0 && !x.MaxPathLenZero || x.MaxPathLen >= below) &&
		len(x.UnhandledCriticalExtensions) == 0 && !x.PermittedDNSDomainsCritical
}

// why says what kept the walk from a root.
func (s *search) why(leaf certificate) (fault string, missing bool) {
	switch {
	case s.checks > maxChecks:
		return fmt.Sprintf("more than %d signatures to check on the way to a root", maxChecks), false
	case s.highest != nil && bytes.Equal(s.highest.x509.RawIssuer, s.highest.x509.RawSubject):
		return "its root " + attest.Printable(s.highest.x509.Subject.CommonName) + " is not of this set", false
	case s.highest != nil:
		return "its issuer " + attest.Printable(s.highest.x509.Issuer.CommonName) + " is not at hand", issuerURL(s.highest.x509) != ""
	case s.broken:
		return "its signature is not by the " + attest.Printable(leaf.x509.Issuer.CommonName) + " that it names as issuer", false
	}
	return "no path to a root of this set", false
}

// issuerURL is where a certificate says that its issuer is published. Nothing vouches for it.
func issuerURL(c *x509.Certificate) string {
	for _, u := range c.IssuingCertificateURL {
		if len(u) <= maxURL && (strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://")) && !strings.ContainsFunc(u, unprintable) {
			return u
		}
	}
	return ""
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }

// reason says why a chain does not count at a time; contradicted is false where that only cannot be told.
func (ch chain) reason(word string, at canon.Time) (why claim.Reason, contradicted bool) {
	w := ch.window
	switch {
	case ch.missing:
		return claim.Because(claim.CollateralMissing, "the %s certificate: %s; it is said to be published at %s", word, ch.fault, ch.source), false
	case ch.fault != "":
		return claim.Because(untrusted, "the %s certificate: %s", word, ch.fault), true
	case at < w.From:
		return claim.Because(notYetValid, "%s is valid from %s, judged at %s", attest.Printable(w.First), w.From, at), true
	case at > w.Until:
		return claim.Because(lapsed, "%s was valid until %s, judged at %s", attest.Printable(w.Last), w.Until, at), true
	}
	return "", false
}
