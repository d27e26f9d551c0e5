package corim

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"regexp"

	"github.com/assay-network/assay/internal/canon"
)

// Ownership is what a Platform Ownership Endorsement says: that a platform belongs to an owner, for a time
// (draft-bzb-rats-intel-poe-endorsements, profile tag:intel.com,2026:tee.poe#1.0).
type Ownership struct {
	Platform  canon.Hex  // Platform Instance Identity (PIID), 16 or 32 bytes
	Owner     string     // by the signer's word: a DNS name, or another name that is unique
	Signer    string     // common name of the signing certificate's subject
	NotBefore canon.Time // first instant, of the endorsement and of every certificate that came with it
	NotAfter  canon.Time // last instant
}

// Of the profile.
const (
	headerChain = 33 // x5chain (RFC 9360)

	keyPlatform = -101 // tee.platform-instance-id
	keyOwner    = -401 // tee.owner-name

	MaxOwner        = 1024 // bytes of an owner's name
	MaxCertificates = 8    // of the signer's chain
)

var (
	ownershipProfile = regexp.MustCompile(`^tag:intel\.com,2026:tee\.poe#1\.(0|[1-9][0-9]*)$`)
	classPlatform    = []byte{0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x02, 0x06, 0x01} // 2.16.840.1.113741.1.13.2.6.1
	classOwner       = []byte{0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x02, 0x0c, 0x01} // 2.16.840.1.113741.1.13.2.12.1
)

// OpenOwnership reads a Platform Ownership Endorsement, and verifies its signature over the received bytes before anything in
// it. The caller names the signer's key; o.Key must be that of the first certificate of the chain that the profile has come
// along, and o.At must lie inside the dates of all of them. It does not verify the chain: who trusts the key needs none, and the
// profile names no root. It does not say whether the platform is the one that evidence comes from, or whether the signer is
// the owner. The profile has no revocation. A fault is an [*Error].
func OpenOwnership(data []byte, o Options) (*Ownership, error) {
	if len(data) == 0 || len(data) > MaxSize {
		return nil, item{}.errorf("an endorsement of %d bytes, want 1 to %d", len(data), MaxSize)
	}
	root, err := parse(data, 0)
	if err != nil {
		return nil, err
	}
	tag, content, err := root.tag("an endorsement")
	switch {
	case err != nil:
		return nil, err
	case tag != tagSign1:
		return nil, root.errorf("tag %d: an endorsement of ownership is signed: want %d (COSE_Sign1)", tag, tagSign1)
	case o.Key == nil:
		return nil, root.fault(ErrNoKey, "it is signed, and no key was named that must have signed it")
	}
	r := &reader{o: o, m: &Manifest{}}
	payload, err := r.signed(content)
	if err != nil {
		return nil, err
	}
	own := &Ownership{}
	if err := own.chain(content, o); err != nil {
		return nil, err
	}
	return own, own.manifest(r, payload)
}

// chain reads the certificates in the unprotected header: whose key it is, and from when until when.
func (own *Ownership) chain(sign1 item, o Options) error {
	parts, err := sign1.parts("COSE_Sign1", 4)
	if err != nil {
		return err
	}
	h, err := parts[1].fields("the unprotected header")
	if err != nil {
		return err
	}
	chain, err := h.get(headerChain, "x5chain")
	if err != nil {
		return err
	}
	certificates := []item{chain}
	if chain.major() == majorArray {
		certificates = nil
		if err := chain.each("x5chain", func(c item) error {
			if certificates = append(certificates, c); len(certificates) > MaxCertificates {
				return chain.errorf("x5chain: more than %d certificates", MaxCertificates)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for i, c := range certificates {
		der, _, err := c.bytes("a certificate")
		if err != nil {
			return err
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return c.errorf("a certificate: not one that can be read")
		}
		from, until := canon.At(cert.NotBefore), canon.At(cert.NotAfter)
		if o.At < from || o.At > until {
			return c.errorf("certificate %d of x5chain is of %s to %s; it is judged as of %s", i, from, until, o.At)
		}
		if i == 0 {
			same := false
			switch k := o.Key.(type) {
			case *ecdsa.PublicKey:
				same = k.Equal(cert.PublicKey)
			case ed25519.PublicKey:
				same = k.Equal(cert.PublicKey)
			}
			if !same {
				return c.errorf("the first certificate of x5chain is of another key than the one that signed")
			}
			own.Signer, own.NotBefore, own.NotAfter = plain(cert.Subject.CommonName), from, until
		}
		own.NotBefore, own.NotAfter = max(own.NotBefore, from), min(own.NotAfter, until)
	}
	return nil
}

// manifest reads the one statement of the profile.
func (own *Ownership) manifest(r *reader, i item) error {
	f, err := i.fields("a manifest")
	if err != nil {
		return err
	}
	profile, err := f.get(3, "profile")
	if err != nil {
		return err
	}
	if name, err := profile.text("the profile"); err != nil || !ownershipProfile.MatchString(name) {
		return profile.errorf("the profile: want tag:intel.com,2026:tee.poe#1.0")
	}
	validity, err := f.get(4, "rim-validity")
	if err != nil {
		return err
	}
	if err := own.validity(r, validity); err != nil {
		return err
	}
	tags, err := f.get(1, "tags")
	if err != nil {
		return err
	}
	one, err := tags.parts("the tags", 1)
	if err != nil {
		return err
	}
	number, content, err := one[0].tag("a tag of the manifest")
	if err != nil {
		return err
	}
	if number != tagCoMID {
		return one[0].errorf("tag %d of the manifest: want %d (CoMID)", number, tagCoMID)
	}
	inner, err := content.embedded("a CoMID")
	if err != nil {
		return err
	}
	comid, err := inner.fields("a CoMID")
	if err != nil {
		return err
	}
	triples, err := comid.get(4, "triples")
	if err != nil {
		return err
	}
	t, err := triples.fields("the triples")
	if err != nil {
		return err
	}
	records, err := t.get(10, "conditional-endorsement-triples")
	if err != nil {
		return err
	}
	record, err := records.parts("conditional-endorsement-triples", 1)
	if err != nil {
		return err
	}
	halves, err := record[0].parts("a conditional endorsement", 2)
	if err != nil {
		return err
	}
	platform, err := single(halves[0], "conditions", classPlatform, keyPlatform)
	if err != nil {
		return err
	}
	id, _, err := platform.bytes("the platform's identity")
	if err != nil {
		return err
	}
	if len(id) != 16 && len(id) != 32 {
		return platform.errorf("the platform's identity: %d bytes, want 16 or 32", len(id))
	}
	own.Platform = bytes.Clone(id)
	owner, err := single(halves[1], "endorsements", classOwner, keyOwner)
	if err != nil {
		return err
	}
	if own.Owner, err = owner.textOf("the owner's name", MaxOwner); err == nil && own.Owner == "" {
		err = owner.errorf("the owner's name: empty")
	}
	return err
}

// validity intersects the time of the binding with that of the certificates.
func (own *Ownership) validity(r *reader, i item) error {
	if err := r.validity(i, "the endorsement"); err != nil {
		return err
	}
	f, err := i.fields("the validity of the endorsement")
	if err != nil {
		return err
	}
	var ends [2]canon.Time
	for key, what := range []string{"not-before", "not-after"} {
		v, err := f.get(int64(key), what)
		if err != nil {
			return err
		}
		_, content, err := v.tag(what)
		if err != nil {
			return err
		}
		t, err := content.integer(what)
		if err != nil {
			return err
		}
		ends[key] = canon.Time(t)
	}
	own.NotBefore, own.NotAfter = max(own.NotBefore, ends[0]), min(own.NotAfter, ends[1])
	return nil
}

// single returns the one value that one measurement of one environment has, of that class and under that key.
func single(i item, what string, class []byte, key int64) (item, error) {
	records, err := i.parts(what, 1)
	if err != nil {
		return item{}, err
	}
	record, err := records[0].parts("a record of "+what, 2)
	if err != nil {
		return item{}, err
	}
	environment, err := record[0].fields("an environment")
	if err != nil {
		return item{}, err
	}
	c, err := environment.get(0, "class")
	if err != nil {
		return item{}, err
	}
	of, err := c.fields("a class")
	if err != nil {
		return item{}, err
	}
	id, err := of.get(0, "class-id")
	if err != nil {
		return item{}, err
	}
	tag, content, err := id.tag("the class id")
	if err != nil {
		return item{}, err
	}
	oid, _, err := content.bytes("the class id")
	if err != nil {
		return item{}, err
	}
	if tag != tagOID || !bytes.Equal(oid, class) {
		return item{}, id.errorf("the class id of %s is not that of the profile", what)
	}
	measurements, err := record[1].parts("measurements of "+what, 1)
	if err != nil {
		return item{}, err
	}
	m, err := measurements[0].fields("a measurement")
	if err != nil {
		return item{}, err
	}
	if by, ok := m.known[2]; ok {
		return item{}, by.errorf("authorized-by: the profile has the signer authorise, and nobody else")
	}
	values, err := m.get(1, "mval")
	if err != nil {
		return item{}, err
	}
	mval, err := values.fields("mval")
	if err != nil {
		return item{}, err
	}
	if n := len(mval.order) + len(mval.others); n != 1 {
		return item{}, values.errorf("mval of %s: %d values, want one", what, n)
	}
	return mval.get(key, "value of the profile")
}
